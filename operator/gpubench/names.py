# SPDX-License-Identifier: Apache-2.0
"""Every name that two parts of gpubench agree on: groups, labels, environment variables, ports, object names.

Object names are built here so that the longest one, a gang pod's host name, always fits the 63 characters of a DNS
label: 40 (benchmark) + 1 + 5 (its UID) + 1 + 8 (trial) + 1 + 3 (attempt) + 1 + 3 (pod index) = 63.
"""

from gpubench.values import content_id

GROUP = "gpubench.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
CATEGORY = "gpubench"

BENCHMARK_KIND, BENCHMARK_PLURAL, BENCHMARK_SHORT = "GpuBenchmark", "gpubenchmarks", "gbench"
POOL_KIND, POOL_PLURAL, POOL_SHORT = "GpuPool", "gpupools", "gpool"
SCHEDULE_KIND, SCHEDULE_PLURAL, SCHEDULE_SHORT = "GpuBenchmarkSchedule", "gpubenchmarkschedules", "gsched"

BENCHMARK_NAME_MAX = 40
SCHEDULE_NAME_MAX = 29  # a benchmark's, less "-" and ten digits of minutes
POOL_NAME_MAX = 63  # it becomes a label value
NODES_MAX = 1000  # three digits of pod index

# Labels. The benchmark's UID, not its name, says whose an object is: a name can be used again.
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "gpubench"
LABEL_COMPONENT = f"{GROUP}/component"
COMPONENT_GANG = "gang"  # Jobs and their pods
COMPONENT_PLAN = "plan"  # the ConfigMap with the frozen plan
COMPONENT_LEDGER = "ledger"  # ConfigMaps with attempt records
COMPONENT_ANALYSIS = "analysis"  # ConfigMaps with what the results say
COMPONENT_HISTORY = "history"  # ConfigMaps with the results of a schedule's runs
COMPONENT_RENDEZVOUS = "rendezvous"  # the headless Service
COMPONENT_TOKEN = "token"  # noqa: S105  # the Secret with which the pods of a benchmark know each other
COMPONENT_NETWORK = "network"  # the NetworkPolicy of the gang pods
LABEL_BENCHMARK = f"{GROUP}/benchmark"
LABEL_BENCHMARK_UID = f"{GROUP}/benchmark-uid"
LABEL_SCHEDULE = f"{GROUP}/schedule"  # of a benchmark that a schedule has made
LABEL_SCHEDULE_UID = f"{GROUP}/schedule-uid"
LABEL_POOL = f"{GROUP}/pool"
LABEL_TRIAL = f"{GROUP}/trial"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_EXCLUSIVE = f"{GROUP}/exclusive"  # "true" on gangs that share their nodes with no other gang
LABEL_NODES = f"{GROUP}/nodes"  # how many nodes the attempt uses, for people and selectors
LABEL_SLOTS = f"{GROUP}/slots"  # how many slots of the pool the attempt holds, for people: the plan counts

# Labels of pods, nodes and namespaces, by Kubernetes: https://kubernetes.io/docs/reference/labels-annotations-taints/
LABEL_POD_INDEX = "batch.kubernetes.io/job-completion-index"  # set by the Job controller
LABEL_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
LABEL_ZONE = "topology.kubernetes.io/zone"
LABEL_REGION = "topology.kubernetes.io/region"
#: Labels of a node's rack (its nearest switches) and of its block (the switches above), by who sets them.
LABELS_RACK_AND_BLOCK = (
    # https://cloud.google.com/ai-hypercomputer/docs/workloads/schedule-gke-workloads-tas
    ("cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"),
    # https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html (layer 1 is the widest)
    ("topology.k8s.aws/network-node-layer-3", "topology.k8s.aws/network-node-layer-2"),
    # https://github.com/oracle-quickstart/oci-hpc-oke docs/using-rdma-network-locality-when-running-workloads-on-oke.md
    ("oci.oraclecloud.com/rdma.local_block_id", "oci.oraclecloud.com/rdma.network_block_id"),
    # https://docs.nebius.com/kubernetes/gpu/topology-aware-scheduling
    ("topology.nebius.com/tier-1", "topology.nebius.com/tier-2"),
    # https://docs.coreweave.com/products/networking/hpc-interconnect/infiniband-roce-labels
    ("node.coreweave.cloud/rack", "backend.coreweave.cloud/leafgroup"),
    # https://docs.coreweave.com/docs/products/networking/hpc-interconnect/infiniband-labels
    ("node.coreweave.cloud/rack", "ib.coreweave.cloud/leafgroup"),
    # https://docs.nvidia.com/topograph/reference/node-labels-and-annotations, before 1.0 and since
    ("network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine"),
    ("fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1"),
)
LABEL_NAMESPACE_NAME = "kubernetes.io/metadata.name"  # of every namespace: its own name

# Kueue knows by it the Jobs that it admits. Never on pods: it would admit each of them, too.
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
KUEUE_GROUP = "kueue.x-k8s.io"
# Of pods: a node label, of which all pods of a Job are to have the same value; required or preferred.
ANNOTATION_TOPOLOGY = f"{KUEUE_GROUP}/podset-{{}}-topology"
KUEUE_WORKLOAD = "Workload"  # the object that Kueue makes of each Job, and tells its Events about

# Of a node of GKE whose host is being maintained, or about to be: its value says how far that is.
LABEL_MAINTENANCE = "cloud.google.com/active-node-maintenance"

# What the autoscalers must know: a gang pod that is moved is a measurement that is lost.
ANNOTATION_KARPENTER = "karpenter.sh/do-not-disrupt"
ANNOTATION_AUTOSCALER = "cluster-autoscaler.kubernetes.io/safe-to-evict"

# Of a benchmark that a schedule has made: the moment that it was scheduled for, as CronJob writes it on its Jobs.
ANNOTATION_SCHEDULED = f"{GROUP}/scheduled-at"
ANNOTATION_ACCEPTED = f"{GROUP}/regressions-accepted-at"  # a time: regressions of runs until then are the new level
# Of a Job: the name of its pod that was chosen to be evicted on purpose, written before it is.
ANNOTATION_DRILLED = f"{GROUP}/drilled"
# Of a node: until when, and for which benchmark, it is cordoned on purpose.
ANNOTATION_CORDONED = f"{GROUP}/cordoned"

# The environment of a gang's pod. GPUBENCH_ASSIGNMENT holds a plan.assignment.Assignment as JSON.
ENV_ASSIGNMENT = "GPUBENCH_ASSIGNMENT"
ENV_RENDEZVOUS_HOST = "GPUBENCH_RENDEZVOUS_HOST"  # <job>-0.<service>.<namespace>: pod 0 by name
ENV_POD_INDEX = "JOB_COMPLETION_INDEX"  # set by the Job controller
ENV_POD_IP = "GPUBENCH_POD_IP"  # its addresses, separated by commas: of a cluster of both families there are two
ENV_POD_NAME = "GPUBENCH_POD_NAME"
ENV_NODE_NAME = "GPUBENCH_NODE_NAME"
ENV_NAMESPACE = "GPUBENCH_NAMESPACE"  # absent in local runs
ENV_TERMINATION_MESSAGE = "GPUBENCH_TERMINATION_MESSAGE"  # the file whose text becomes the termination message
ENV_IMAGE = "GPUBENCH_IMAGE"  # the image reference that the pod was started from
ENV_RECORDS = "GPUBENCH_RECORDS"  # the folder on the results volume for the pods' records; absent without one
ENV_RUNS_AGAIN = "GPUBENCH_RUNS_AGAIN"  # "true" where the Job of an attempt may be evicted from a queue, and run again
ENV_CHECKPOINTS = "GPUBENCH_CHECKPOINTS"  # the folder for the benchmark's checkpoints, where its trainings keep any
ENV_GANG_TOKEN = "GPUBENCH_GANG_TOKEN"  # noqa: S105  # what only the pods of the benchmark know; absent in local runs

CONTAINER = "gang"
TOKEN_KEY = "token"  # noqa: S105  # in the Secret
JOBS_IMAGE = "gpubench-jobs"
TERMINATION_MESSAGE_PATH = "/dev/termination-log"

# Ports of a pod: below 32768, where the ephemeral range begins.
PORT_RENDEZVOUS = 29500  # Horovod's own key-value server, pod 0 only
PORT_BARRIER = 29501  # the join barrier, pod 0 only
PORT_METRICS = 9400  # rank with local number n serves /metrics on 9400 + n

# What pods write of a results folder, wherever it is. Its other files are `gpubench_cli.results`'s own.
LOGS_FOLDER = "logs"
LOG_SUFFIX = ".jsonl"
CHECKPOINTS_FOLDER = "checkpoints"  # of trainings under way, a folder for each trial
LOG_UNFINISHED = ".part"  # behind the name of a log on a results volume until it is whole


def uid_id(uid: str) -> str:
    return content_id(uid, characters=5)


def run_name(schedule: str, scheduled_at: int) -> str:
    """The benchmark of one run of a schedule, as CronJob names its Jobs: by the scheduled minute, so that it is one."""
    return f"{schedule}-{scheduled_at // 60}"


def history_name(schedule: str, uid: str, *, shard: int) -> str:
    return f"{schedule}-{uid_id(uid)}-history-{shard}"


def study_name(benchmark: str, uid: str) -> str:
    """The prefix of everything that belongs to one benchmark object: a DNS-1035 label of at most 46 characters."""
    return f"{benchmark}-{uid_id(uid)}"


def job_name(benchmark: str, uid: str, *, trial: str, attempt: int) -> str:
    return f"{study_name(benchmark, uid)}-{trial}-{attempt}"


def token_name(benchmark: str, uid: str) -> str:
    return f"{study_name(benchmark, uid)}-token"


def plan_name(benchmark: str, uid: str) -> str:
    return f"{study_name(benchmark, uid)}-plan"


def ledger_name(benchmark: str, uid: str, *, shard: int) -> str:
    return f"{study_name(benchmark, uid)}-ledger-{shard}"


def analysis_name(benchmark: str, uid: str, *, part: int) -> str:
    return f"{study_name(benchmark, uid)}-analysis-{part}"


def log_name(*, trial: str, attempt: int, pod: int) -> str:
    """The file in a results folder that has the records of a pod."""
    return f"{trial}.{attempt}.{pod}{LOG_SUFFIX}"
