# SPDX-License-Identifier: Apache-2.0
"""GpuPools that a cluster's nodes suggest: nodes that are alike are one pool.

Alike are nodes of one instance type (of machines of no cloud: with the same GPUs and processors) that are rented in the
same way and have the same taints. What nodes cannot say (prices, whether they are rented, how far a pool may grow) is
left to a person. Must not happen: a pool whose selector also takes other nodes, unless that is said; a node left out
without a word; a pool of nodes that start, fail or leave.
"""

import itertools
import types
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from gpubench import names
from gpubench.analysis import node_facts, text
from gpubench.analysis.node_facts import Node, Unfit
from gpubench.api.pool import GpuPool, GpuPoolSpec, Scheduling, Slot
from gpubench.api.pool_price import CapacityType
from gpubench.values import FrozenModel

#: What daemons of every node ask for, of which its own figures know nothing: pods of a pool leave so much.
DAEMON_PROCESSORS = Decimal("0.5")
DAEMON_MEMORY = 1024**3
_MEMORY_SHARE = Decimal("0.95")
_SLOTS_MAX, _NODES_MAX = 64, 1000  # of the schema
_CPU_SLOT_PROCESSORS = 4  # of a node without GPUs; a node with fewer is one slot
_GIBIBYTE, _MEBIBYTE = 1024**3, 1024**2
_IN_MEBIBYTES_BELOW = 4 * _GIBIBYTE
#: Added to a selector, one line after the other, until it takes these nodes alone.
_FURTHER_LABELS: tuple[tuple[str, ...], ...] = (
    (),
    node_facts.NODE_GROUPS,
    (names.LABEL_INSTANCE_TYPE,),
    ("kubernetes.io/os",),
)
_HOSTNAME: tuple[tuple[str, ...], ...] = ((node_facts.HOSTNAME,),)  # machines of clouds come and go

_NO_GPU = ": ".join(node_facts.WORDS[Unfit.NO_GPU])
_PASSING = (Unfit.LEAVING, Unfit.STARTING, Unfit.NOT_READY)
_BY_CLAIMS = "{} of its GPUs are given by claims (DRA): write a GpuPool with template.resourceClaims by hand"


class Proposal(FrozenModel):
    """A pool, the nodes that it was made of, and what a person must know, or fill in."""

    pool: GpuPool
    nodes: tuple[str, ...]
    ready: int
    capacity: CapacityType | None  # None: nothing says how they are rented, or, in no cloud, whether they are
    place: str | None  # the cloud, such as gke
    instance_type: str | None = None
    remarks: tuple[str, ...] = ()


class Proposals(FrozenModel):
    """All of them, and why nodes are in none."""

    pools: tuple[Proposal, ...] = ()
    left_out: tuple[str, ...] = ()


def proposals(
    nodes: Sequence[Node],
    *,
    existing: Sequence[GpuPool] = (),
    claimable: Mapping[str, int] = types.MappingProxyType({}),
    processors: bool = False,
) -> Proposals:
    """GpuPools for the nodes of a cluster, as the API server lists them.

    Nodes without GPUs are proposed where there are none with GPUs, or if `processors` are asked for. Nodes that a pool
    in `existing` selects are left out. `claimable` are GPUs that pods get by claims, by the node's name.
    """
    left_out: dict[str, list[str]] = {}
    groups: dict[tuple[object, ...], list[Node]] = {}
    only_gpus = not processors and any(node_facts.unfit(node) is None for node in nodes)
    for node in nodes:
        if (reason := _unusable(node, claimable, only_gpus=only_gpus) or _taken(node, existing)) is None:
            groups.setdefault(_kind(node), []).append(node)
        else:
            left_out.setdefault(reason, []).append(node_facts.name(node))
    drafts = [_draft(group, nodes) for group in groups.values()]
    in_order = sorted(left_out.items(), key=lambda item: item[0] == _NO_GPU)  # what a node itself says comes first
    return Proposals(
        pools=tuple(_complete(drafts)),
        left_out=tuple(f"{text.shortened(found)}: {reason}" for reason, found in in_order),
    )


def _unusable(node: Node, claimable: Mapping[str, int], *, only_gpus: bool) -> str | None:
    why = node_facts.unfit(node)
    if why in (Unfit.NO_DEVICE_PLUGIN, Unfit.NO_GPU) and (count := claimable.get(node_facts.name(node))):
        return _BY_CLAIMS.format(count)
    if why is not None and (why is not Unfit.NO_GPU or only_gpus):
        says, remedy = node_facts.WORDS[why]
        return f"{node_facts.away(node) or says if why in _PASSING else says}: {remedy}"
    if why is Unfit.NO_GPU and node_facts.amount(node, "cpu") - DAEMON_PROCESSORS < 1:
        return "offers less than one processor beside what its daemons take"
    return None


def _taken(node: Node, existing: Sequence[GpuPool]) -> str | None:
    for pool in existing:
        scheduling = pool.spec.scheduling
        selects = bool(scheduling.node_selector or scheduling.node_selector_terms)
        if selects and node_facts.belongs(node, scheduling) and pool.spec.has_gpus == bool(node_facts.gpus(node)):
            return f"in {names.POOL_KIND} {pool.name} already: --all proposes pools of such nodes, too"
    return None


def _kind(node: Node) -> tuple[object, ...]:
    return (
        node_facts.labels(node).get(names.LABEL_POOL),
        node_facts.place(node),
        node_facts.instance_type(node) or (node_facts.accelerator(node), str(node_facts.amount(node, "cpu"))),
        *node_facts.instances(node).items(),
        node_facts.capacity(node)[0],
        tuple(node_facts.capacity(node)[1].items()),
        node_facts.tolerations(node),
    )


def _draft(group: Sequence[Node], nodes: Sequence[Node]) -> Proposal:  # its name may be another one's, too
    first = group[0]
    capacity, _ = node_facts.capacity(first)
    accelerator = next(filter(None, map(node_facts.accelerator, group)), None)
    resource, gpus = next(iter(node_facts.instances(first).items()), (None, 0))
    slots = min(_SLOTS_MAX, gpus or max(1, int(_least(group, "cpu") - DAEMON_PROCESSORS) // _CPU_SLOT_PROCESSORS))
    is_cut = "-MIG-" in (accelerator or "")
    selector, remarks = _selector(group, nodes)
    tolerations = node_facts.tolerations(first)
    spec = GpuPoolSpec(
        capacity_type=capacity or CapacityType.ON_DEMAND,
        accelerator=(accelerator or "GPU")[:63] if gpus else None,
        slots_per_node=slots,
        max_nodes=min(_NODES_MAX, len(group)),
        exclusive_nodes=not is_cut,
        slot=_slot(group, slots, resource=resource),
        scheduling=Scheduling(node_selector=selector, tolerations=tolerations),
    )
    if node_facts.place(first) is None and capacity is None:
        remarks += ("Nothing says whether these nodes are rented: OnDemand is assumed. Write Owned for your own.",)
    elif capacity is None:
        remarks += ("No label says how these nodes are rented: OnDemand is assumed. Correct capacityType.",)
    if capacity is not None and not node_facts.capacity(first)[1]:
        remarks += (f"That they are {capacity.value} is said by a taint, and by no label that a selector could take.",)
    if is_cut:
        remarks += ("A slot is an instance of a GPU (MIG): pods share nodes, and a pod takes one worker.",)
    if node_facts.amount(first, node_facts.EFA):
        remarks += (
            "Its EFA adapters are left out, as the image has no library for them: jobs/examples/pools/networks.yaml",
        )
    if any(not node_facts.amount(node, each) for node in group for each in ("cpu", "memory")):
        remarks += ("A node does not say its processors or memory: correct slot.cpu and slot.memory.",)
    if gpus and accelerator is None:
        remarks += ("No label says which GPU this is: write its name as accelerator, such as A100-40GB.",)
    remarks += tuple(
        f"The taint {toleration.key} was put there by somebody: ask whether benchmarks may run on these nodes."
        for toleration in tolerations
        if toleration.key not in node_facts.OF_THE_KIND  # what every node of its kind has
    )
    return Proposal(
        pool=GpuPool(name=_name(first, accelerator=accelerator, gpus=gpus, capacity=capacity), spec=spec),
        nodes=tuple(map(node_facts.name, group)),
        ready=sum(node_facts.away(node) is None for node in group),
        capacity=capacity,
        place=node_facts.place(first),
        instance_type=node_facts.instance_type(first),
        remarks=remarks,
    )


def _slot(group: Sequence[Node], slots: int, *, resource: str | None) -> Slot:
    """An equal share of what a node has left beside its daemons; whole processors, as ranks are pinned to them."""
    processors = (_least(group, "cpu") - DAEMON_PROCESSORS) / slots
    memory = (_least(group, "memory") - DAEMON_MEMORY) * _MEMORY_SHARE / slots
    gibibytes, mebibytes = f"{int(memory // _GIBIBYTE)}Gi", f"{max(1, int(memory // _MEBIBYTE))}Mi"
    return Slot(
        gpu_resource=resource,
        cpu=str(int(processors)) if processors >= 1 else f"{max(1, int(processors * 1000))}m",
        memory=gibibytes if memory >= _IN_MEBIBYTES_BELOW else mebibytes,
    )


def _least(group: Sequence[Node], resource: str) -> Decimal:
    return min(node_facts.amount(node, resource) for node in group)


def _selector(group: Sequence[Node], nodes: Sequence[Node]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Labels that all nodes of the group have and no other node, as few as that takes; what to say of them."""
    members = set(map(node_facts.name, group))
    own, is_rented = names.LABEL_POOL, False
    if (given := node_facts.labels(group[0]).get(own)) is not None:
        found = {own: given}
    else:
        _, capacity = node_facts.capacity(group[0])
        # On a machine of no cloud the instance type says nothing.
        is_rented = node_facts.place(group[0]) is not None
        describing = (node_facts.GKE_ACCELERATOR, names.LABEL_INSTANCE_TYPE) if is_rented else (node_facts.GPU_PRODUCT,)
        found = _shared(group, describing) | capacity
    staying = [node for node in nodes if node_facts.state(node) is None and node_facts.name(node) not in members]
    for keys in _FURTHER_LABELS + (() if is_rented else _HOSTNAME):
        selector = found | _shared(group, keys)
        if selector and not any(node_facts.matches(node, selector) for node in staying):
            return selector, ()
    listed = " ".join(sorted(members))
    remark = f"No label tells these nodes from others. Give them one: kubectl label node {listed} {own}=NAME"
    return found, (f"{remark} and write it into nodeSelector.",)


def _shared(group: Sequence[Node], keys: Sequence[str]) -> dict[str, str]:
    values = {key: {node_facts.labels(node).get(key) for node in group} for key in keys}
    return {key: found.pop() or "" for key, found in values.items() if len(found) == 1 and None not in found}


def _name(node: Node, *, accelerator: str | None, gpus: int, capacity: CapacityType | None) -> str:
    """`gke-a100-40gb-x8-spot`; the pool's own label where somebody has given one."""
    if (given := node_facts.labels(node).get(names.LABEL_POOL)) is not None:
        return _as_name(given)
    parts = [
        node_facts.place(node) or "",
        (accelerator or "gpu") if gpus else "cpu",
        f"x{gpus}" if gpus > 1 else "",
        _rented(capacity),
    ]
    return _as_name("-".join(filter(None, parts)))


def _rented(capacity: CapacityType | None) -> str:
    return "" if capacity in (CapacityType.ON_DEMAND, None) else capacity.value


def _as_name(text: str) -> str:
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text.lower())
    return "-".join(filter(None, kept.split("-")))[: names.POOL_NAME_MAX].strip("-") or "pool"


def _complete(drafts: Sequence[Proposal]) -> Iterator[Proposal]:
    """Each with a name of its own, and, on spot, with the pool of the same machines on demand, against which it saves.

    Where two have the same name they have their instance type in it, or a number.
    """
    wanted = [draft.pool.name for draft in drafts]
    named: dict[str, Proposal] = {}
    for draft in drafts:
        name = draft.pool.name
        if wanted.count(name) > 1 and draft.instance_type is not None:
            name = _as_name(f"{name.partition('-')[0]}-{draft.instance_type}-{_rented(draft.capacity)}")
        numbers = (f"{name}-{number}" for number in itertools.count(2))
        named[next(each for each in itertools.chain([name], numbers) if each not in named)] = draft
    on_demand = {
        draft.instance_type: name
        for name, draft in named.items()
        if draft.instance_type is not None and draft.capacity is CapacityType.ON_DEMAND
    }
    for name, draft in sorted(named.items()):
        spec = draft.pool.spec
        if spec.capacity_type in (CapacityType.SPOT, CapacityType.PREEMPTIBLE) and draft.instance_type in on_demand:
            spec = spec.model_copy(update={"on_demand_counterpart": on_demand[draft.instance_type]})
        yield draft.model_copy(update={"pool": draft.pool.model_copy(update={"name": name, "spec": spec})})
