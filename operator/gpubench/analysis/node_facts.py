# SPDX-License-Identifier: Apache-2.0
"""What the labels, taints and resources of nodes say: which GPU they have, how they are rented, who may run there.

Each label has the page that documents it beside it. Must not happen: a fact that is guessed from a node's name.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from gpubench import names, units
from gpubench.analysis import machines
from gpubench.api.pod_template import NodeSelectorRequirement, PodScheduling
from gpubench.api.pool import Scheduling, Toleration
from gpubench.api.pool_price import CapacityType
from gpubench.scheduler import ledger, outcome

Node = Mapping[str, Any]

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"  # how each resource of a GPU that is cut into instances begins
_GPU_BEFORE_PLUGINS = "alpha.kubernetes.io/nvidia-gpu"
EFA = "vpc.amazonaws.com/efa"
HOSTNAME = "kubernetes.io/hostname"

# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus-multi
_GKE_PARTITION = "cloud.google.com/gke-gpu-partition-size"
# https://docs.cloud.google.com/kubernetes-engine/docs/concepts/timesharing-gpus
_GKE_SHARING = "cloud.google.com/gke-gpu-sharing-strategy"
_GKE_CLIENTS = "cloud.google.com/gke-max-shared-clients-per-gpu"
# https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery#generated-labels
GPU_PRODUCT, _GPU_MACHINE, _GPU_MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.machine", "nvidia.com/gpu.memory"
_REPLICAS = "nvidia.com/gpu.replicas"

#: Labels that name the GPU, the surest first, and those that say its memory, in MiB.
_MODELS: tuple[tuple[str, str], ...] = (
    (GPU_PRODUCT, _GPU_MEMORY),
    (GKE_ACCELERATOR, ""),
    # https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
    ("karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"),
    # https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-placement.html
    ("eks.amazonaws.com/instance-gpu-name", "eks.amazonaws.com/instance-gpu-memory"),
    ("karpenter.azure.com/sku-gpu-name", ""),
    # https://docs.coreweave.com/products/cks/nodes/manage
    ("gpu.nvidia.com/model", ""),
    ("gpu.nvidia.com/class", ""),
    ("doks.digitalocean.com/gpu-model", ""),
    ("aliyun.accelerator/nvidia_name", ""),
    ("k8s.amazonaws.com/accelerator", ""),  # of the cluster autoscaler
    ("accelerator", ""),  # of people, as the documentation of Kubernetes had it
)
#: Labels that say who made the GPUs, and those that only nodes with NVIDIA's have, whose number on the PCI bus is 10de.
_MAKERS = re.compile(r"gpu-manufacturer$|gpu-brand$|(^|azure\.com/)accelerator$")
_HAS_GPU = re.compile(
    r"nvidia\.com/(gpu|cuda\.|mig-)(?!\.machine)|cloud\.google\.com/gke-gpu|feature\..*/pci-(030[02]_)?10de\."
)
#: Names of GPUs in labels that lack the memory by which they are told apart.
_GKE_NAMES = {
    "nvidia-tesla-a100": "A100-40GB",
    "nvidia-tesla-v100": "V100-16GB",
    "nvidia-tesla-p100": "P100-16GB",
    "nvidia-h100-mega-80gb": "H100-80GB",
}
#: Models that exist with two sizes of memory: where no name says it, the size is added.
_TWO_SIZES = frozenset({"A100", "H100", "V100", "P100", "GH200"})

#: Labels (and taints) that say how a node is rented, the surest first, and what their values mean; none: any value.
_CAPACITY: Mapping[str, Mapping[str, CapacityType]] = {
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
    "cloud.google.com/gke-spot": {"true": CapacityType.SPOT},
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/preemptible-vms
    "cloud.google.com/gke-preemptible": {"true": CapacityType.PREEMPTIBLE},
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws
    "cloud.google.com/gke-flex-start": {"true": CapacityType.FLEX_START},
    "cloud.google.com/gke-queued": {"true": CapacityType.FLEX_START},
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/provisioningrequest
    "autoscaling.gke.io/provisioning-request": {"": CapacityType.FLEX_START},
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations
    "cloud.google.com/reservation-name": {"": CapacityType.RESERVED},
    "cloud.google.com/reservation-affinity": {"specific": CapacityType.RESERVED},
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-auto-provisioning
    "cloud.google.com/gke-provisioning": {
        "standard": CapacityType.ON_DEMAND,
        "spot": CapacityType.SPOT,
        "preemptible": CapacityType.PREEMPTIBLE,
        "flex-start": CapacityType.FLEX_START,
        "reservation": CapacityType.RESERVED,
    },
    # https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
    "karpenter.sh/capacity-type": {
        "on-demand": CapacityType.ON_DEMAND,
        "spot": CapacityType.SPOT,
        "reserved": CapacityType.RESERVED,
    },
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html
    "eks.amazonaws.com/capacityType": {
        "ON_DEMAND": CapacityType.ON_DEMAND,
        "SPOT": CapacityType.SPOT,
        "CAPACITY_BLOCK": CapacityType.RESERVED,
    },
    # https://learn.microsoft.com/azure/aks/spot-node-pool
    "kubernetes.azure.com/scalesetpriority": {"spot": CapacityType.SPOT, "regular": CapacityType.ON_DEMAND},
    # https://docs.oracle.com/iaas/Content/ContEng/Tasks/contengusingpreemptiblecapacity.htm
    "oci.oraclecloud.com/oke-is-preemptible": {"true": CapacityType.PREEMPTIBLE},
    # https://docs.cast.ai/docs/autoscaler-reference-node-labels-and-taints
    "scheduling.cast.ai/spot": {"true": CapacityType.SPOT},
    "node.kubernetes.io/lifecycle": {"spot": CapacityType.SPOT, "normal": CapacityType.ON_DEMAND},  # of kops and AWS
}

#: Labels by which a cloud's groups of nodes are told apart.
NODE_GROUPS = (
    "cloud.google.com/gke-nodepool",
    "cloud.google.com/compute-class",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
    "oke.oraclecloud.com/pool.name",
    "doks.digitalocean.com/node-pool",
    "compute.coreweave.com/node-pool",
)

#: How the identity that a cloud gives to a machine begins (`spec.providerID`), but by its own name.
_CLOUDS = {"gce": "gke", "aws": "eks", "azure": "aks", "oci": "oke", "ocid1": "oke"}
_OF_NO_CLOUD = (
    *("baremetalhost", "byoh", "docker", "eks-hybrid", "elemental", "external", "harvester", "k0s", "k3s", "kind"),
    *("kubemark", "kubevirt", "kwok", "libvirt", "maas", "metal3", "microk8s", "minikube", "nutanix", "ovirt"),
    *("proxmox", "rke", "rke2", "sidero", "talos", "tinkerbell", "unmanaged", "vsphere"),
)
#: Ends of the domains of labels that clouds set, and volumes that their machines attach.
_DOMAINS = {
    "gke": r"cloud\.google\.com|gke\.io",
    "eks": r"amazonaws\.com|amazon\.com|k8s\.aws|csi\.aws\.com|eksctl\.io",
    "aks": r"azure\.com",
    "oke": r"oraclecloud\.com",
    "coreweave": r"coreweave\.(cloud|com)",
    "nebius": r"nebius\.(com|ai|cloud)",
    "digitalocean": r"digitalocean\.com",
    "lambda": r"lambda\.(ai|cloud)|lambdalabs\.com",
    "openstack": r"openstack\.org",
    "other": r"alibabacloud\.com|ack\.aliyun\.com|aliyun\.accelerator|civo\.com|crusoe\.ai|exoscale\.com|gcore\.com|"
    r"hetzner\.cloud|huaweicloud\.com|ibm-cloud\.kubernetes\.io|ionos\.com|k8s\.ovh|linode\.com|scaleway\.com|"
    r"rxt\.io|stackit\.cloud|tencent\.com|upcloud\.com|vultr\.com",
}
_VOLUMES = {"aws-ebs": "eks", "gce-pd": "gke", "azure-disk": "aks", "cinder": "openstack"}
#: Machine types that only one cloud has, and what its machines call themselves.
_MACHINE_TYPES: Mapping[str, str] = {
    "eks": r"(p|g|gr|inf|trn|dl|c|m|r|t|x|i|d|u|hpc)\d[a-z0-9-]*\.(\d*x?large|metal(-\d+xl)?|nano|micro|small|medium)$",
    "aks": r"Standard_[A-Z]+\d",
    "oke": r"(VM|BM)\.(GPU|Standard|Optimized|DenseIO)",
    "gke": r"(a[234]x?|g[24]|n[124]d?|c[234]d?|e2)-(standard|high|mega|ultra|edge|medium|small)|Google-Compute",
    "openstack": r"OpenStack",
    "lambda": r"gpu_\d+x_",
    "digitalocean": r"Droplet|gpu-[a-z0-9]+x\d-\d+gb",
    "other": r"ecs\.|Alibaba",
}

#: Resources under which GPUs are lent in parts, by their schedulers: HAMi, Volcano, Aliyun, Tencent, AWS and others.
_PARTS = re.compile(r"gpu.*shared|shared-?gpu|vgpu|qgpu|vcuda|gpu-?(mem|core|count|number|percent)")
#: Annotations of the scheduler HAMi, and of what it was before.
_HAMI = ("hami.io/node-nvidia-register", "4pd.io/node-nvidia-register", "volcano.sh/node-vgpu-register")
#: Devices that are passed to virtual machines: https://github.com/NVIDIA/kubevirt-gpu-device-plugin
_PASSED_ON = re.compile(r"nvidia\.com/[A-Z]+[0-9A-Z]*_(.+)")
_OF_A_VGPU = re.compile(r"^GRID-|-\d+[ABCQ]$")  # names of parts that virtual machines get
#: Resources and labels of GPUs and accelerators of other makers.
_OTHER_VENDORS = re.compile(
    r"(amd|habana|xilinx|huawei|cambricon|hygon|mthreads|metax-tech|enflame|furiosa|rebellions|tenstorrent|qualcomm)\.\w+/|"
    r"beta\.amd\.com/gpu|iluvatar|(intel\.)?feature\..*/(amd-gpu|gpu$|pci-1da3)|gpu\.intel\.com/|aws\.amazon\.com/neuron|"
    r"google\.com/tpu|cloud\.google\.com/gke-tpu"
)
_NOT_NVIDIA = re.compile(r"amd|aws|radeon|mi\d|tpu|inferentia|trainium|neuron|gaudi|habana|intel", re.IGNORECASE)

#: Taints that every GPU node, or every spot node, of a place has: whatever their values are, they are tolerated.
OF_THE_KIND = frozenset(
    {
        GPU,
        "cloud.google.com/gke-spot",  # of nodes that auto-provisioning has made
        "cloud.google.com/gke-preemptible",
        "cloud.google.com/gke-provisioning",
        "cloud.google.com/gke-queued",
        "cloud.google.com/compute-class",
        "kubernetes.azure.com/scalesetpriority",
        "oci.oraclecloud.com/oke-is-preemptible",
    }
)
#: Taints that go by themselves: of a node that starts, fails or ends.
_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "DeletionCandidateOfClusterAutoscaler",
)
_NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
_STARTING = re.compile(
    r"not-?ready|uninitiali[sz]ed|not-?initiali[sz]ed|unregistered|startup-taint|ignore-taint|readiness|network-unavail"
)
_GOING = re.compile(r"terminat|shutdown|out-of-service|ToBeDeleted|being-deleted|karpenter\.sh/disrupt|drain|remediat")
_CONTROL_PLANE = {f"node-role.kubernetes.io/{role}" for role in ("control-plane", "controlplane", "master", "etcd")}


class Unfit(StrEnum):
    """Why no pool is made of a node: the first that applies."""

    WINDOWS = "Windows"
    CONTROL_PLANE = "ControlPlane"
    LEAVING = "Leaving"
    STARTING = "Starting"
    NOT_READY = "NotReady"
    OTHER_VENDOR = "OtherVendor"
    SHARED = "Shared"
    MIXED_MIG = "MixedMIG"
    NO_DEVICE_PLUGIN = "NoDevicePlugin"
    NO_GPU = "NoGPU"


#: What that means, and what to do.
WORDS: Mapping[Unfit, tuple[str, str]] = {
    Unfit.WINDOWS: ("does not run Linux", "nothing to do"),
    Unfit.CONTROL_PLANE: ("kept for the control plane by its taint", "nothing to do"),
    Unfit.LEAVING: ("leaves the cluster", "nothing to do"),
    Unfit.STARTING: ("starts", "run this again when it is ready"),
    Unfit.NOT_READY: ("is not ready", "kubectl describe node says why"),
    Unfit.OTHER_VENDOR: ("has GPUs or accelerators of another maker than NVIDIA", "this image does not support them"),
    Unfit.SHARED: (
        "lends its GPUs in parts",
        "switch time slicing, MPS or virtual GPUs off there: parts disturb each other",
    ),
    Unfit.MIXED_MIG: (
        "offers MIG instances of several sizes",
        "write a GpuPool with slot.gpuResource for each by hand",
    ),
    Unfit.NO_DEVICE_PLUGIN: (
        f"has a GPU and offers no {GPU}",
        "is the device plugin running there? kubectl get pods -A",
    ),
    Unfit.NO_GPU: ("no GPU", "--cpu proposes pools of processors, too"),
}
#: As long as autoscalers wait for a node: https://karpenter.sh/docs/concepts/disruption/ (registration)
_SETUP_SECONDS = 900


def name(node: Node) -> str:
    return str((node.get("metadata") or {}).get("name") or "a node without a name")


def labels(node: Node) -> Mapping[str, str]:
    return (node.get("metadata") or {}).get("labels") or {}


def taints(node: Node) -> Mapping[str, str]:
    """Effects of the node's taints by their keys."""
    return {taint["key"]: taint.get("effect", "") for taint in (node.get("spec") or {}).get("taints") or ()}


def place(node: Node) -> str | None:
    """The cloud that the machine belongs to, such as gke or eks; None of a machine that says nothing of one."""
    scheme, of_some, _ = str((node.get("spec") or {}).get("providerID") or "").partition("://")
    if (cloud := _CLOUDS.get(scheme.partition(".")[0], scheme)) in _DOMAINS:
        return cloud
    if of_some and cloud not in _OF_NO_CLOUD:
        return "other"
    domains = [key.partition("/")[0] for key in labels(node)]
    for cloud, ends in _DOMAINS.items():
        if any(re.search(rf"(^|\.)({ends})$", domain) for domain in domains):
            return cloud
    for machine in _machines(node):
        for cloud, form in _MACHINE_TYPES.items():
            if re.match(form, machine):
                return cloud
    volumes = (key.removeprefix("attachable-volumes-") for key in _resources(node))
    return next((_VOLUMES[volume] for volume in volumes if volume in _VOLUMES), None)


def _machines(node: Node) -> list[str]:  # what may be a machine type, the surest first
    keys = (names.LABEL_INSTANCE_TYPE, "beta.kubernetes.io/instance-type", _GPU_MACHINE)
    return [labels(node)[key] for key in keys if labels(node).get(key)]


def capacity(node: Node) -> tuple[CapacityType | None, dict[str, str]]:
    """How the node is rented, and the label that says so; None where none does, or whether it is rented at all."""
    found = labels(node)
    for key, meanings in _CAPACITY.items():
        if (meaning := meanings.get(found.get(key, "no"), meanings.get("") if key in found else None)) is not None:
            return meaning, {key: found[key]}
    for key in taints(node):
        if (meaning := _CAPACITY.get(key, {}).get("true")) is not None:
            return meaning, {}
    return None, {}


def accelerator(node: Node) -> str | None:
    """What the node's GPU is called, by who labels it or by its machine type; None where nothing says it."""
    if (model := _model(node)) is None:
        return None
    offered = list(instances(node))
    only = offered[0].removeprefix(MIG) if len(offered) == 1 and offered[0].startswith(MIG) else None
    cut = labels(node).get(_GKE_PARTITION) or only
    family, size = model.partition("-")[0], memory(node)
    if family in _TWO_SIZES and size is not None and not re.search(r"\d ?GB", model.upper()):
        model = f"{model}-{size}GB"
    return f"{model}-MIG-{cut}" if cut and "MIG-" not in model else model


def _model(node: Node) -> str | None:
    found = labels(node)
    for key, _ in _MODELS:
        said = found.get(key, "").strip()
        is_model = said.lower() not in ("", "nvidia") and (key != "accelerator" or said.startswith("nvidia"))
        if is_model and not _NOT_NVIDIA.match(said):
            return _GKE_NAMES.get(said) or _plain(said)
    for key in allocatable(node):
        if (passed := _PASSED_ON.fullmatch(key)) is not None:
            return _plain(passed[1])
    if (lent := _lent_by_hami(node)) is not None:
        return _plain(lent[0])
    return next(filter(None, map(machines.gpu, _machines(node))), None)


def _plain(said: str) -> str:
    """Without the maker's names, and without what says that it is lent to several."""
    words = re.sub(r"[ _]+", "-", said.strip())
    words = re.sub(r"^((nvidia|tesla)-)+", "", words, flags=re.IGNORECASE).removesuffix("-SHARED")
    return words if any(letter.isupper() for letter in words) else words.upper()


def memory(node: Node) -> int | None:
    """GB of the node's GPU, as it is sold; of an instance of MIG, those of the whole one."""
    model = _model(node) or ""
    for key, size in _MODELS:
        said = labels(node).get(size, "")
        if key in labels(node) and said.isdecimal() and "MIG" not in model and int(said):
            return machines.sold_memory(int(said) if int(said) < 2**24 else int(said) // 2**20)  # some write bytes
    if labels(node).get("gpu.nvidia.com/vram", "").isdecimal():
        return int(labels(node)["gpu.nvidia.com/vram"])
    if (lent := _lent_by_hami(node)) is not None and lent[1]:
        return machines.sold_memory(lent[1])
    known = [model.partition("-MIG")[0], *filter(None, map(machines.gpu, _machines(node)))]
    return next(filter(None, map(machines.memory, known)), None)


def _lent_by_hami(node: Node) -> tuple[str, int] | None:
    """Name and MiB of the first GPU that HAMi's device plugin has written into an annotation.

    Either JSON or `id,count,MiB,percent,type,...:`, by its version: https://github.com/Project-HAMi/HAMi
    """
    written = (node.get("metadata") or {}).get("annotations") or {}
    if (said := next((written[key] for key in _HAMI if written.get(key)), None)) is None:
        return None
    try:
        first = json.loads(said)[0]
        return str(first["type"]), int(first["devmem"])
    except (ValueError, LookupError, TypeError):
        fields = [*said.split(":")[0].split(","), "", ""]
        return next((one for one in fields if "NVIDIA" in one), ""), int(fields[2]) if fields[2].isdecimal() else 0


def instances(node: Node) -> dict[str, int]:
    """NVIDIA's GPUs, or instances of them, that pods can have, by the resource under which they ask for them."""
    return {
        resource: int(found)
        for resource in allocatable(node)
        if _is_gpu(resource) and (found := amount(node, resource)) > 0
    }


def _is_gpu(resource: str) -> bool:
    """Also under a name that a device plugin was told to use, such as nvidia.com/a100."""
    domain, _, local = resource.partition("/")
    is_nvidia = domain == "nvidia.com" or resource == _GPU_BEFORE_PLUGINS
    if not is_nvidia or _PARTS.search(resource) or _PASSED_ON.match(resource):
        return False
    return resource in (GPU, _GPU_BEFORE_PLUGINS) or resource.startswith(MIG) or machines.gpu(local) is not None


def gpus(node: Node) -> int:
    return sum(instances(node).values())


def amount(node: Node, resource: str) -> Decimal:
    """What pods can have of a resource of the node, in its base unit; 0 where it has none, or does not say."""
    try:
        return units.quantity_value(str(allocatable(node).get(resource, "0")))
    except ValueError:
        return Decimal(0)


def unfit(node: Node) -> Unfit | None:
    """Why no pool is made of the node; None of one with NVIDIA's GPUs, whole or in equal instances, for pods."""
    found, info = labels(node), (node.get("status") or {}).get("nodeInfo") or {}
    system = found.get("kubernetes.io/os") or found.get("beta.kubernetes.io/os") or info.get("operatingSystem")
    if system not in (None, "", "linux"):  # empty until its kubelet has reported
        return Unfit.WINDOWS
    if not _CONTROL_PLANE.isdisjoint(taints(node)):
        return Unfit.CONTROL_PLANE
    return unfit_gpus(node) if (passing := state(node)) is None else passing[0]


def unfit_gpus(node: Node) -> Unfit | None:
    """The same by its GPUs alone: how it stands at the moment is no matter."""
    offered, has_gpu = instances(node), _has_gpu(node)
    if not offered and not has_gpu and _has_others(node):
        return Unfit.OTHER_VENDOR
    if _is_shared(node, is_whole=bool(offered)):
        return Unfit.SHARED
    if offered:
        return Unfit.MIXED_MIG if len(offered) > 1 else None
    return Unfit.NO_DEVICE_PLUGIN if has_gpu else Unfit.NO_GPU


def state(node: Node) -> tuple[Unfit, str] | None:
    """Whether it leaves, starts or is not ready, and by which taint or condition; None of a node that stays."""
    if (node.get("metadata") or {}).get("deletionTimestamp"):
        return Unfit.LEAVING, "it is being deleted"
    keys = sorted(taints(node))
    if (going := next((key for key in keys if key in outcome.LEAVING or _GOING.search(key)), None)) is not None:
        return Unfit.LEAVING, going
    if (found := next((key for key in keys if key not in _NOT_READY and _STARTING.search(key)), None)) is not None:
        return Unfit.STARTING, found
    if _ready(node) is False or not _NOT_READY.isdisjoint(keys):
        return Unfit.NOT_READY, "not Ready"
    return None


def _is_shared(node: Node, *, is_whole: bool) -> bool:
    found, resources = labels(node), _resources(node)
    clients = found.get(_GKE_CLIENTS, "2" if _GKE_SHARING in found else "1")
    product = found.get(GPU_PRODUCT, "")
    parts = (key for key in resources if _PARTS.search(key) and not _OTHER_VENDORS.match(key))
    return (
        any(not is_whole or amount(node, key) > 0 for key in parts)
        or any(number.isdecimal() and int(number) > 1 for number in (clients, found.get(_REPLICAS, "1")))
        or product.endswith("-SHARED")
        or any(_OF_A_VGPU.search(each) for each in (product, *filter(_PASSED_ON.match, resources)))
        or _lent_by_hami(node) is not None
        or any(map(machines.FRACTIONS.match, _machines(node)))
    )


def _has_gpu(node: Node) -> bool:
    """Whether something says that it has NVIDIA's, offered or not."""
    return (
        _model(node) is not None
        or any(_HAS_GPU.match(key) and value not in ("false", "0") for key, value in labels(node).items())
        or any(_MAKERS.search(key) and "nvidia" in value.lower() for key, value in labels(node).items())
        or any(key == GPU or key.startswith(MIG) for key in _resources(node))
    )


def _has_others(node: Node) -> bool:
    naming = dict(_MODELS)
    named = (value for key, value in labels(node).items() if key in naming or _MAKERS.search(key))
    return any(map(_NOT_NVIDIA.match, named)) or any(map(_OTHER_VENDORS.match, [*labels(node), *_resources(node)]))


def allocatable(node: Node) -> Mapping[str, Any]:
    return (node.get("status") or {}).get("allocatable") or {}


def _resources(node: Node) -> Mapping[str, Any]:  # what pods can have of it, and what it has and they cannot
    return {**((node.get("status") or {}).get("capacity") or {}), **allocatable(node)}


def matches(node: Node, selector: Mapping[str, str]) -> bool:
    return selector.items() <= labels(node).items()


def belongs(node: Node, scheduling: Scheduling) -> bool:
    """Whether the node is a pool's, by the labels that the scheduler looks at."""
    return matches(node, scheduling.node_selector) and admits(node, scheduling)


def admits(node: Node, scheduling: PodScheduling) -> bool:
    found, terms = labels(node), scheduling.node_selector_terms
    return not terms or any(all(_holds(one, found.get(one.key)) for one in term.match_expressions) for term in terms)


def _holds(wanted: NodeSelectorRequirement, value: str | None) -> bool:
    """As the scheduler compares: a label that is absent is in no list, and no number."""
    values = wanted.values or ()
    match wanted.operator:
        case "In" | "NotIn":
            return (value in values) == (wanted.operator == "In")
        case "Exists" | "DoesNotExist":
            return (value is not None) == (wanted.operator == "Exists")
    if value is None or not value.isdecimal():
        return False
    return int(value) > int(values[0]) if wanted.operator == "Gt" else int(value) < int(values[0])


def away(node: Node) -> str | None:
    """Why the node takes no pods now; None of one that does."""
    if (passing := state(node)) is not None:
        says = WORDS[passing[0]][0]
        return says if passing[0] is Unfit.NOT_READY else f"{says} ({passing[1]})"
    if _ready(node) is not True:
        return WORDS[Unfit.NOT_READY][0]
    return "is cordoned" if (node.get("spec") or {}).get("unschedulable") else None


def is_new(node: Node, *, now: float) -> bool:
    """Whether it is so young that its driver and device plugin may not be there yet; `now` in seconds."""
    made = (node.get("metadata") or {}).get("creationTimestamp")
    return made is not None and now < datetime.fromisoformat(made).timestamp() + _SETUP_SECONDS


def claimable(slices: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
    """NVIDIA's GPUs that pods get by claims (DRA), by the node's name, from ResourceSlices."""
    found: Counter[str] = Counter()
    for spec in (one.get("spec") or {} for one in slices):
        if spec.get("driver") == "gpu.nvidia.com" and spec.get("nodeName"):
            found[spec["nodeName"]] += len(spec.get("devices") or ())
    return found


def _ready(node: Node) -> bool | None:
    """As its condition Ready says it; None where it does not."""
    listed = (node.get("status") or {}).get("conditions") or []
    return next((one.get("status") == "True" for one in listed if one.get("type") == "Ready"), None)


def tolerations(node: Node) -> tuple[Toleration, ...]:
    """What a pod must tolerate to run there, but for what is over when the node is well."""
    found = {
        Toleration(key=taint["key"], operator="Exists", effect=taint.get("effect"))
        if taint["key"] in OF_THE_KIND or not taint.get("value")
        else Toleration(key=taint["key"], operator="Equal", value=taint["value"], effect=taint.get("effect"))
        for taint in _lasting_taints(node)
    }
    return tuple(sorted(found, key=lambda toleration: toleration.to_json()))


def untolerated(node: Node, accepted: Sequence[Toleration]) -> str | None:
    """The key of a lasting taint that none of these tolerations is for; None where a pod with them may run there.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#concepts
    """
    for taint in _lasting_taints(node):
        if not any(
            one.key in (None, taint["key"])
            and one.effect in (None, taint.get("effect"))
            and (one.operator == "Exists" or (one.value or "") == (taint.get("value") or ""))
            for one in accepted
        ):
            return str(taint["key"])
    return None


def instance_type(node: Node) -> str | None:
    """The cloud's name for a machine like that; None of a machine of one's own, where it is no name of a machine."""
    return next(iter(_machines(node)), None) if place(node) is not None else None


def _lasting_taints(node: Node) -> Iterator[Mapping[str, Any]]:  # those that do not go by themselves
    for taint in (node.get("spec") or {}).get("taints") or ():
        key = taint["key"]
        passes = key.startswith(_PASSING) or key in outcome.LEAVING or _GOING.search(key) or _STARTING.search(key)
        if taint.get("effect") != "PreferNoSchedule" and not passes:
            yield taint


def machine(node: Node) -> ledger.Machine:
    kind, label = capacity(node)
    return ledger.Machine(
        capacity=kind,
        label=next((f"{key}={value}" for key, value in label.items()), None),
        accelerator=accelerator(node),
        gpus=gpus(node) if unfit_gpus(node) is None else None,
    )
