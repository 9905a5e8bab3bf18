# SPDX-License-Identifier: Apache-2.0
"""What the labels, taints and resources of nodes say: which GPU they have, how they are rented, who may run there.

Each label has the page that documents it beside it. Must not happen: a fact that is guessed from a node's name.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from gpubench import names, units
from gpubench.api.condition import Condition
from gpubench.api.pod_template import NodeSelectorRequirement, PodScheduling
from gpubench.api.pool import GpuPool, GpuPoolStatus, Scheduling, Toleration
from gpubench.api.pool_price import CapacityType
from gpubench.cost import price
from gpubench.plan import pool_prices
from gpubench.scheduler import conditions, outcome

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-"  # how each resource of a GPU that is cut into instances begins
SHARED = "nvidia.com/gpu.shared"  # a GPU that the device plugin lends to several pods in turns
EFA = "vpc.amazonaws.com/efa"
HUGE_PAGES = "hugepages-2Mi"
HOSTNAME = "kubernetes.io/hostname"

# https://docs.cloud.google.com/kubernetes-engine/docs/how-to/gpus
GKE_ACCELERATOR = "cloud.google.com/gke-accelerator"
# https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery#generated-labels
GPU_PRODUCT = "nvidia.com/gpu.product"
# https://karpenter.sh/docs/concepts/scheduling/#well-known-labels
KARPENTER_GPU, KARPENTER_GPU_MEMORY = "karpenter.k8s.aws/instance-gpu-name", "karpenter.k8s.aws/instance-gpu-memory"

#: Labels that say how a node is rented, the surest first, and what their values mean.
_CAPACITY: Mapping[str, Mapping[str, CapacityType]] = {
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/spot-vms
    "cloud.google.com/gke-spot": {"true": CapacityType.SPOT},
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/preemptible-vms
    "cloud.google.com/gke-preemptible": {"true": CapacityType.PREEMPTIBLE},
    # https://docs.cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations
    "cloud.google.com/reservation-name": {},  # whatever its value is: the reservation's name
    # https://docs.cloud.google.com/kubernetes-engine/docs/concepts/node-auto-provisioning
    "cloud.google.com/gke-provisioning": {
        "standard": CapacityType.ON_DEMAND,
        "spot": CapacityType.SPOT,
        "preemptible": CapacityType.PREEMPTIBLE,
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
}

#: Labels by which a cloud's groups of nodes are told apart.
NODE_GROUPS = (
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
)

#: How the identity that a cloud gives to a machine begins (`spec.providerID`), and what pools of it are called.
_CLOUDS = {"gce": "gke", "aws": "eks", "azure": "aks"}

#: GKE's names of accelerators whose own text lacks the memory by which they are told apart.
_GKE_NAMES = {"nvidia-tesla-a100": "A100-40GB", "nvidia-h100-mega-80gb": "H100-80GB"}
#: Karpenter's names of GPUs that exist with two sizes of memory.
_TWO_SIZES = frozenset({"a100", "h100", "v100"})

#: Taints that every GPU node, or every spot node, of a place has: whatever their values are, they are tolerated.
_OF_THE_KIND = frozenset(
    {
        GPU,
        "cloud.google.com/gke-spot",  # of nodes that auto-provisioning has made
        "cloud.google.com/gke-preemptible",
        "cloud.google.com/gke-provisioning",
        "kubernetes.azure.com/scalesetpriority",
    }
)
#: Taints that go by themselves: of a node that starts, fails or ends.
_PASSING = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "karpenter.sh/",
    "DeletionCandidateOfClusterAutoscaler",
)
_STARTING = ("/agent-not-ready", "/not-ready", "/startup-taint")
_CONTROL_PLANE = frozenset({"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"})


def labels(node: Mapping[str, Any]) -> Mapping[str, str]:
    """The node's labels."""
    return node["metadata"].get("labels") or {}


def place(node: Mapping[str, Any]) -> str | None:
    """The cloud that the machine belongs to: gke, eks or aks; None of a machine that says nothing of one."""
    return _CLOUDS.get(str((node.get("spec") or {}).get("providerID") or "").partition(":")[0])


def capacity(node: Mapping[str, Any]) -> tuple[CapacityType | None, dict[str, str]]:
    """How the node is rented, and the label that says so; None where none does."""
    found = labels(node)
    for key, meanings in _CAPACITY.items():
        if key in found and not meanings:
            return CapacityType.RESERVED, {key: found[key]}
        if (meaning := meanings.get(found.get(key, ""))) is not None:
            return meaning, {key: found[key]}
    return (None if place(node) is not None else CapacityType.OWNED), {}


def accelerator(node: Mapping[str, Any]) -> str | None:
    """What the node's GPU is called, from whoever labels it; None where nobody does."""
    found = labels(node)
    if (product := found.get(GPU_PRODUCT)) is not None:
        return product.removeprefix("NVIDIA-").removeprefix("Tesla-")
    if (named := found.get(GKE_ACCELERATOR)) is not None:
        return _GKE_NAMES.get(named) or named.removeprefix("nvidia-").removeprefix("tesla-").upper()
    if (named := found.get(KARPENTER_GPU)) is not None:
        mebibytes = found.get(KARPENTER_GPU_MEMORY, "")
        sized = f"-{round(int(mebibytes) / 1024)}GB" if named in _TWO_SIZES and mebibytes.isdecimal() else ""
        return f"{named.upper()}{sized}"
    return None


def gpus(node: Mapping[str, Any]) -> int:
    """Whole GPUs that pods can ask for."""
    return int(amount(node, GPU))


def amount(node: Mapping[str, Any], resource: str) -> Decimal:
    """What pods can have of a resource of the node, in its base unit; 0 where it has none, or does not say."""
    try:
        return units.quantity_value(str(allocatable(node).get(resource, "0")))
    except ValueError:
        return Decimal(0)


def allocatable(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """What pods can have of the node."""
    return (node.get("status") or {}).get("allocatable") or {}


def matches(node: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    """Whether the node has all labels of a selector."""
    found = labels(node)
    return all(found.get(key) == value for key, value in selector.items())


def belongs(node: Mapping[str, Any], scheduling: Scheduling) -> bool:
    """Whether the node is a pool's, by the labels that the scheduler looks at."""
    return matches(node, scheduling.node_selector) and admits(node, scheduling)


def admits(node: Mapping[str, Any], scheduling: PodScheduling) -> bool:
    """Whether the required node affinity allows the node."""
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


def is_ready(node: Mapping[str, Any]) -> bool:
    """Whether the node is ready and takes pods."""
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def is_control_plane(node: Mapping[str, Any]) -> bool:
    """Whether it is kept for the control plane: by a taint, since on a machine of one's own the label says nothing."""
    return any(taint["key"] in _CONTROL_PLANE for taint in (node.get("spec") or {}).get("taints") or ())


def tolerations(node: Mapping[str, Any]) -> tuple[Toleration, ...]:
    """What a pod must tolerate to run there, but for what is over when the node is well."""
    found = {
        Toleration(key=taint["key"], operator="Exists", effect=taint["effect"])
        if taint["key"] in _OF_THE_KIND or not taint.get("value")
        else Toleration(key=taint["key"], operator="Equal", value=taint["value"], effect=taint["effect"])
        for taint in _lasting_taints(node)
    }
    return tuple(sorted(found, key=lambda toleration: toleration.to_json()))


def untolerated(node: Mapping[str, Any], accepted: Sequence[Toleration]) -> str | None:
    """The key of a lasting taint that none of these tolerations is for; None where a pod with them may run there.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/#concepts
    """
    for taint in _lasting_taints(node):
        if not any(
            one.key in (None, taint["key"])
            and one.effect in (None, taint["effect"])
            and (one.operator == "Exists" or (one.value or "") == (taint.get("value") or ""))
            for one in accepted
        ):
            return str(taint["key"])
    return None


def is_of_the_kind(toleration: Toleration) -> bool:
    """Whether every node of its kind has the taint; any other one was put there by somebody for a reason."""
    return toleration.key in _OF_THE_KIND


def instance_type(node: Mapping[str, Any]) -> str | None:
    """The cloud's name for a machine like that; None of a machine of one's own, where it is no name of a machine."""
    return labels(node).get(names.LABEL_INSTANCE_TYPE) if place(node) is not None else None


def _lasting_taints(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those that keep pods away, and do not go by themselves."""
    for taint in (node.get("spec") or {}).get("taints") or ():
        key = taint["key"]
        passes = key in outcome.LEAVING or key.startswith(_PASSING) or key.endswith(_STARTING)
        if taint["effect"] != "PreferNoSchedule" and not passes:
            yield taint


# --- the status of a GpuPool ------------------------------------------------------------------------------------------

READY = "Ready"
PRICE_STALE = "PriceStale"
UNREADABLE = "Unreadable"  # the reason, where a version knows less than the schema of the cluster
_PRICE_DIGITS = 4


def pool_status(
    pool: GpuPool,
    nodes: Sequence[Mapping[str, Any]],
    now: float,
    before: Sequence[Condition] = (),
    *,
    generation: int | None = None,
) -> dict[str, object]:
    """The status of a pool, given the cluster's nodes as the API server lists them."""
    matching = [node for node in nodes if belongs(node, pool.spec.scheduling)]
    ready = sum(map(is_ready, matching))
    if ready:
        reason, message = "NodesReady", f"{ready} of {len(matching)} matching nodes take pods"
    elif matching:
        reason, message = "NoNodeReady", f"none of {len(matching)} matching nodes is ready and schedulable"
    else:
        selector = [f"{key}={value}" for key, value in pool.spec.scheduling.node_selector.items()]
        affinity = ["its nodeAffinity"] if pool.spec.scheduling.node_selector_terms else []
        listed = ", ".join([*selector, *affinity]) or "any"
        reason, message = "NoNode", f"no node matches {listed}; fine for a pool that scales from zero"
    found: list[tuple[str, bool | None, str, str]] = [(READY, bool(ready), reason, message)]
    found += _staleness(pool, on=datetime.fromtimestamp(now, UTC).date())
    terms, moved = pool_prices.terms(pool.spec), pool_prices.rate_range(pool.spec)
    fees = None if terms is None else terms.fees_per_node_hour
    read = pool_prices.price_date(pool.spec)
    price_range = None
    if moved is not None:
        low, high = (price.rounded(rate.per_node_hour, digits=_PRICE_DIGITS) for rate in (moved.low, moved.high))
        price_range = f"{low} to {high} {moved.low.currency} in {moved.period}"
    return GpuPoolStatus(
        observed_generation=generation,
        nodes=len(matching),
        ready_nodes=ready,
        slots=ready * pool.spec.slots_per_node,
        price_per_node_hour=None if terms is None else _text(terms.rate.per_node_hour, terms.rate.currency),
        fees_per_node_hour=None if fees is None else _text(fees.value, fees.currency),
        price_range=price_range,
        price_as_of=None if read is None else read.isoformat(),
        conditions=tuple(
            conditions.condition(
                type_, holds=holds, reason=reason, message=message, before=before, generation=generation, now=now
            )
            for type_, holds, reason, message in found
        ),
    ).to_wire()


def unreadable(
    message: str, now: float, before: Sequence[Condition] = (), *, generation: int | None = None
) -> dict[str, object]:
    """The status of a pool that cannot be read: nothing is known of it but why."""
    unknown = conditions.condition(
        READY, holds=None, reason=UNREADABLE, message=message, before=before, generation=generation, now=now
    )
    return GpuPoolStatus(observed_generation=generation, conditions=(unknown,)).to_wire()


def _text(amount: Decimal, currency: str) -> str:
    return f"{price.rounded(amount, digits=_PRICE_DIGITS)} {currency}"


def _staleness(pool: GpuPool, *, on: date) -> Iterator[tuple[str, bool | None, str, str]]:
    age = pool_prices.price_age_days(pool.spec, on=on)
    if age is None:
        return
    was_read = f"the price was read on {pool_prices.price_date(pool.spec)}"
    if age > pool_prices.STALE_AFTER_DAYS:
        yield PRICE_STALE, True, "TooOld", f"{was_read}, {age} days ago: read it again, and write it with its asOf"
    elif age < -1:  # a day is what time zones can differ by
        after = f"{was_read}, which is after today: write the day on which it was read"
        yield PRICE_STALE, None, "AfterToday", after
    else:
        fresh = f"{was_read}; it is called stale after {pool_prices.STALE_AFTER_DAYS} days"
        yield PRICE_STALE, False, "Fresh", fresh
