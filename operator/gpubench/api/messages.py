# SPDX-License-Identifier: Apache-2.0
"""What a benchmark says while it waits: by condition and reason a sentence, and what can be done.

All of them are on `docs/reference/messages.md`, which is made from here.
"""

from functools import partial
from typing import Final, NamedTuple


class Waits(NamedTuple):
    """Why something waits: a reason for programs, and a message for people."""

    reason: str
    message: str


class Message(NamedTuple):
    """A sentence with names in braces."""

    condition: str
    reason: str
    sentence: str
    remedy: str

    def of(self, *said: str, then: str = "", **fields: object) -> Waits:
        """With the names filled in: the sentence, what others said of it, the remedy, and what else there is."""
        more = "; ".join(filter(None, (*said, self.remedy.format(**fields), then)))
        return Waits(self.reason, ": ".join(filter(None, (self.sentence.format(**fields), more))))


CATALOGUE: Final[list[Message]] = []


def _message(condition: str, reason: str, sentence: str, remedy: str = "") -> Message:
    CATALOGUE.append(Message(condition, reason, sentence, remedy))
    return CATALOGUE[-1]


# --- before there is a plan -------------------------------------------------------------------------------------------

_planning = partial(_message, "Progressing")
POOLS_ABSENT = _planning("WaitingForPools", "waiting for GpuPool {pools}, not there yet", "apply it")
POOLS_UNREADABLE = _planning(
    "WaitingForPools", "waiting for GpuPool {pools}, which cannot be read", "its status says why"
)
POOLS_CLOSED = _planning(
    "WaitingForPools",
    "waiting for GpuPool {pools}, of which allowedNamespaces leaves out namespace {namespace}",
    "name other pools, or ask whoever keeps it to add the namespace",
)
POOLS_EMPTY = _planning(
    "WaitingForPools",
    "waiting for a ready node of GpuPool {pools}, of which placement EachNode measures each",
    "start one, or take the placement away",
)
TOO_MANY_POINTS = _planning(
    "PlanTooLarge",
    "with placement EachNode the sweep has {points} points, and a benchmark has {most} at most",
    "measure fewer settings, or pools of fewer nodes",
)
PLAN_TOO_LARGE = _planning(
    "PlanTooLarge",
    "the plan has {size} bytes, and a ConfigMap takes {most}",
    "shorten template.env of the pools (the largest is {pool}), or name fewer pools in one benchmark",
)
BUDGET_WITHOUT_PRICE = _planning(
    "BudgetWithoutPrice",
    "limits.budget is {budget}, and what GpuPool {pool} costs is not known ({why})",
    "give it a price in the benchmark's currency, or remove limits.budget",
)
BUDGET_OF_CURRENCIES = _planning(
    "BudgetWithoutPrice",
    "limits.budget is {budget}, and the pools have prices in {currencies}",
    "say by spec.currency which of them it is in, and give exchangeRates from the others",
)
POOLS_OVERLAP = _planning(
    "PoolsOverlap",
    "GpuPool {wide} takes every node of GpuPool {narrow}, and they differ in {what}",
    "add a label to its nodeSelector that nodes of {narrow} lack, such as karpenter.sh/capacity-type",
)
SUSPENDED = _message("Suspended", "SuspendedByUser", "it is suspended", "set spec.suspend to false to go on")

# --- a gang without its nodes -----------------------------------------------------------------------------------------

_gang = partial(_message, "GangPending")
CREATION_REFUSED = _gang(
    "CreationRefused", "pods of {job} are refused", "change what is named there, or the pool's template"
)
IMAGE_NOT_STARTED = _gang(
    "ImageNotStarted",
    "pod {pod} does not start, {why}",
    "see template.image and imagePullSecrets of the pool, and its Secrets",
)
VOLUME_NOT_MOUNTED = _gang("VolumeNotMounted", "pod {pod} does not start", "create that volume, or name another one")
POD_INITIALIZING = _gang(
    "PodInitializing",
    "pod {pod} waits for its init container {container}",
    "see its log and image; an annotation in template.annotations may keep a webhook from adding it",
)
PARTIALLY_ADMITTED = _gang(
    "PartiallyAdmitted",
    "{admitted} of {pods} pods of Job {job} may run",
    "take its annotation kueue.x-k8s.io/job-min-parallelism away, and delete it for a new one",
)
SCALED_BY_OTHERS = _gang(
    "JobChanged",
    "{admitted} of {pods} pods of Job {job} may run, as {who} changed its spec.parallelism",
    "leave it as it was; the attempt is ended for another one",
)
UNSCHEDULABLE = _gang("Unschedulable", "pod {pod} has no node", "`gpubench doctor` compares nodes and pools")
SCHEDULER_SILENT = _gang(
    "SchedulerSilent",
    "pod {pod} asks for scheduler {scheduler}, which has not looked at it",
    "see whether it runs; else correct scheduling.schedulerName, or the webhook that sets it",
)
NODE_COMING = _gang("NodeComing", "pod {pod} waits for a node that is being made")
NODE_LIMIT = _gang(
    "NodeLimitReached", "pod {pod} has no node, as a limit is reached", "raise that limit, or let idle nodes go"
)
STOCK_OUT = _gang(
    "StockOut",
    "pod {pod} has no node, as the provider has none",
    "it is asked again: allow more zones or instance types, or wait",
)
NO_INSTANCE_TYPE = _gang(
    "NoInstanceType",
    "pod {pod} has no node, as no machine fits",
    "compare the pool's slot, slotsPerNode, nodeResources and nodeSelector with the machines",
)
NO_SCALE_UP = _gang(
    "ScaleUpNotTriggered",
    "pod {pod} has no node, as no node group fits",
    "compare the pool's slot, nodeSelector and tolerations with the node groups",
)
NODE_OF_TOPOLOGY = _gang(
    "NodeChosenByKueue",
    "pod {pod} has no node, as Kueue's topology allows only node {node}",
    "let slot x slotsPerNode fill a node in a resource that it counts, or take topologyName from its flavor",
)
WAITING_FOR_SLOTS = _gang(
    "WaitingForSlots",
    "an attempt needs {slots} slots of pool {pool} and {free} are free for this benchmark",
    "other benchmarks hold the rest, or were there first; the pool's maxNodes bounds them all",
)
WAITING_ALONE = _gang(
    "WaitingForSlots",
    "an attempt needs {slots} slots of pool {pool} and had only a part of them beside other gangs",
    "it starts when none is there",
)
PODS_ENDING = _message(
    "Progressing",
    "Running",
    "Job {job} has ended and its pods hold their nodes",
    "they are waited for, a few minutes at most",
)
POD_KEPT = _gang(
    "PodKept",
    "container {container} keeps pod {pod} and its GPUs after the work; its Job is deleted half a minute after that",
    "make it a native sidecar, or keep it out by its webhook's annotation, as sidecar.istio.io/inject, in "
    "template.annotations",
)
NODE_NOT_ANSWERING = _gang(
    "NodeNotAnswering", "{what} was told to end and does not", "if the node is dead, delete its Node object"
)
NODE_LEAVING = _message(
    "NodeLeaving", "EndAnnounced", "node {nodes} is about to go", "the gangs there go on, as they may finish before"
)

# --- a Job in a queue -------------------------------------------------------------------------------------------------

_queue = partial(_message, "Admitted")
WAITING_FOR_QUEUE = _queue("WaitingForQueue", "Job {job} waits in queue {queue}")
QUEUE_MISSING = _queue("QueueMissing", "Job {job} waits in queue {queue}", "create it, or correct spec.queueName")
QUEUE_ON_HOLD = _queue(
    "QueueOnHold", "Job {job} waits in queue {queue}", "see its conditions, and set its stopPolicy to None"
)
QUEUE_EVICTED = _queue(
    "EvictedFromQueue", "Job {job} was evicted from queue {queue} {often}, and waits to be admitted again"
)
WAITING_FOR_CHECKS = _queue(
    "WaitingForAdmissionChecks",
    "Job {job} has its quota in queue {queue}, and waits for {checks}",
    "look at these AdmissionChecks",
)
DEACTIVATED = _queue(
    "Deactivated",
    "Job {job} was deactivated in queue {queue}",
    "set spec.active of Workload {workload} to true, or delete the Job for a new one",
)
WORKLOAD_MISSING = _queue(
    "WorkloadMissing",
    "Job {job} waits in queue {queue}, and Kueue has no Workload of it",
    "see whether it runs, and manages batch/job in this namespace",
)
KUEUE_ABSENT = _queue(
    "KueueAbsent",
    "Job {job} waits for queue {queue}, and the cluster has no Kueue (no API group {group})",
    "install it, or apply the benchmark without spec.queueName",
)
SUSPENDED_BY_KUEUE = _queue(
    "SuspendedByOthers",
    "Job {job} is suspended by {who} (Kueue does so with manageJobsWithoutQueueName)",
    "name a queue of Kueue in spec.queueName, or delete it",
)
SUSPENDED_BY_OTHERS = _queue(
    "SuspendedByOthers", "Job {job} is suspended by {who}", "set its spec.suspend to false, or delete it"
)

# --- what is not written, what is not started, what is not known ------------------------------------------------------

_write = partial(_message, "WritesRefused")
WEBHOOK_FAILING = _write(
    "WebhookFailing", "{what} cannot be written, and is tried again", "see that webhook's Service, or its failurePolicy"
)
WRITE_REFUSED = _write(
    "WriteRefused",
    "{what} cannot be written, and is tried again",
    "change what is named there; without one see the API server",
)
TOO_LARGE = _write(
    "TooLarge",
    "{what} is larger than the API server, or a proxy before it, takes, and is tried again",
    "shorten template of the benchmark or its pools, or raise that limit",
)


def refused(what: str, error: str) -> Waits:
    """Of an object that the API server did not take, and what it said."""
    if error.endswith("(code 413)"):
        return TOO_LARGE.of(error, what=what)
    return (WEBHOOK_FAILING if "calling webhook" in error else WRITE_REFUSED).of(error, what=what)


_budget = partial(_message, "BudgetExhausted", "BudgetExhausted")
_SPENT = "{spent} of limits.budget {budget} are spent, and {which} "
COST_UNKNOWN = _budget(
    "what {pool} costs is not known in the benchmark's currency, so nothing runs there within limits.budget",
    "remove limits.budget, or give the pool a price and start the benchmark again under another name",
)
COST_UNFORESEEN = _budget(
    _SPENT + "takes at least {cost}, and how much more nobody knows",
    "raise limits.budget well beyond {enough}, or it is stopped again before its end",
)
BUDGET_TOO_LOW = _budget(_SPENT + "is expected to take up to {cost}", "raise limits.budget to {enough} or more")
ANALYSIS_FAILED = _message(
    "Succeeded",
    "AnalysisFailed",
    "all attempts are recorded, but the analysis failed ({why})",
    "it is tried again; `gpubench export` makes one from the same records",
)
