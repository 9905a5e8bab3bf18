# SPDX-License-Identifier: Apache-2.0
"""What a reader of a point's figures must know, as warnings: the gravest first, as a summary holds only a few.

The notices that gangs find in their own windows are merged over the repeats: how many repeats have one of a kind, and
the worst of them. What the others were like stays in the records of the attempts.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from typing import Any, NamedTuple

from gpubench import names, units, workloads
from gpubench.analysis import efficiency, machines, text
from gpubench.analysis.efficiency import Among, MeasuredPoint
from gpubench.api import point_warning, status_sizes
from gpubench.api.point_result import PointResult, Stopping
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.plan.plan import Plan, Point
from gpubench.records import (
    Bimodal,
    BusyMachine,
    Environment,
    LossRose,
    Notice,
    Outliers,
    Result,
    Straggler,
    Trend,
    Unsettled,
    notice_figures,
    notice_message,
)
from gpubench.scheduler import conditions, environments, stopping
from gpubench.scheduler.ledger import AttemptRecord
from gpubench.scheduler.trials import TrialState, TrialStatus
from gpubench.units import counted, sampled

#: Kinds of notices, the gravest first, and how much one of them is.
_SEVERITY: Mapping[type[Notice], Callable[[Any], float]] = {
    Unsettled: lambda one: abs(one.change),
    BusyMachine: lambda one: (one.others + one.stolen) / one.processors,
    Straggler: lambda one: one.cost,
    Bimodal: lambda one: one.ratio,
    Trend: lambda one: abs(one.change),
    Outliers: lambda one: one.worst,
    LossRose: lambda one: one.last - one.first,
}
_PLACED = (
    WarningReason.UNSETTLED,
    WarningReason.BUSY_MACHINE,
    WarningReason.STRAGGLER,
)  # have places of their own among what else is said


def warning(
    reason: WarningReason,
    message: str,
    *,
    node: str | None = None,
    figures: Mapping[str, float] | None = None,
    **known: Any,
) -> PointWarning:
    """A warning whose texts are cut to what a status takes, and whose figures have the digits of a sampled one.

    Programs rely on the names of the figures: all are in `WARNING_FIGURES`. `known`: trial, rank, repeats.
    """
    unknown = (figures or {}).keys() - set(point_warning.WARNING_FIGURES[reason])
    assert not unknown, f"{reason.value} has no figures {', '.join(sorted(unknown))}"
    return PointWarning(
        reason=reason,
        message=conditions.clamped(message, status_sizes.WARNING_MAX),
        node=None if node is None else conditions.clamped(node, status_sizes.NODE_MAX),
        figures={name: sampled(figure) for name, figure in figures.items()} if figures else None,
        **known,
    )


class Weak(NamedTuple):
    """A test of nodes that was far below its pool."""

    nodes: tuple[str, ...]  # one of which it is
    share: float  # of what is usual there
    warning: PointWarning


class Beside(NamedTuple):
    """What a point's result is held against, besides its own trials."""

    among: Among
    known: Mapping[str, Environment]  # records of environments, by key
    weak: Mapping[str, Weak]  # nodes that were tested before a trial, by its id


def of_point(
    plan: Plan,
    result: PointResult,
    trials: Sequence[TrialStatus],
    entry: MeasuredPoint,
    beside: Beside,
    *,
    untimed: str | None,
) -> tuple[PointWarning, ...]:
    """All that is to be said of a point with figures; `untimed` is why a training has none."""
    measured = [trial.measured for trial in trials if trial.measured is not None]
    results = [record.result for record in measured if record.result is not None]
    noticed = list(of_repeats(entry.point, measured))
    return (
        *(one for one in noticed if one.reason in _PLACED[:2]),
        *_short_of_repeats(trials),
        *([] if untimed is None else [warning(WarningReason.NO_TRAINING_FIGURES, untimed)]),
        *_of_changes(measured, beside.known),
        *_of_machines(plan, entry.point, measured),
        *_of_nodes(measured, beside),
        *_of_shared_nodes(plan, entry.point, measured),
        *_of_spread(entry.point, measured),
        *(one for one in noticed if one.reason is WarningReason.STRAGGLER),
        *_of_precision(plan, result, results),
        *_of_efficiency(plan, result, entry, beside),
        *(one for one in noticed if one.reason not in _PLACED),
    )


def of_repeats(point: Point, records: Sequence[AttemptRecord]) -> Iterator[PointWarning]:
    """What the repeats noticed, each kind of notice once."""
    noticed = [(notice, record) for record in records if record.result is not None for notice in record.result.notices]
    for kind, severity in _SEVERITY.items():
        if alike := [(notice, record) for notice, record in noticed if isinstance(notice, kind)]:
            worst, record = max(alike, key=lambda pair: severity(pair[0]))
            carriers = {record.key for _, record in alike}
            node = _node(worst, point, record)
            place = "" if node is None else f" ({node})"
            yield warning(
                WarningReason(worst.kind),
                f"{_of(carriers, records)}{notice_message(worst)}{place}",
                trial=record.trial,
                rank=worst.rank if isinstance(worst, Straggler) else None,
                node=node,
                repeats=len(carriers),
                figures=notice_figures(worst),
            )


def _node(notice: Notice, point: Point, record: AttemptRecord) -> str | None:
    """The node of a rank that is named. Nodes of a record are in the order of its pods, where it has all of them."""
    if not isinstance(notice, Straggler) or len(record.nodes) != point.nodes:
        return None
    index = notice.rank // point.key.workers_per_node
    return record.nodes[index] if index < len(record.nodes) else None


def _short_of_repeats(trials: Sequence[TrialStatus]) -> Iterator[PointWarning]:
    cut_short = [trial for trial in trials if trial.state in (TrialState.GIVEN_UP, TrialState.NOT_RUN)]
    measured = sum(trial.state is TrialState.MEASURED for trial in trials)
    if cut_short and measured:
        up_to = "up to " if any(trial.state is TrialState.NOT_NEEDED for trial in trials) else ""
        yield warning(
            WarningReason.REPEATS_MISSING,
            f"only {measured} of {up_to}{len(trials)} repeats were measured: {cut_short[0].message}",
            figures={"measured": measured, "wanted": len(trials)},
        )


def _of_precision(plan: Plan, result: PointResult, results: Sequence[Result]) -> Iterator[PointWarning]:
    asked, reached = stopping.of_plan(plan), stopping.half_width(plan, results)
    if asked is not None and reached is not None and result.stopping is Stopping.MAXIMUM_REACHED:
        known, wanted = (
            f"±{100 * share:.{0 if share >= 0.1 else 1}f} %" for share in (reached, asked.relative_half_width)
        )
        yield warning(
            WarningReason.PRECISION_NOT_REACHED,
            f"known to {known} after {len(result.values)} repeats, and {wanted} was wanted: raise measure.repeats.max, "
            "or measure for longer",
            figures={"reached": reached, "wanted": asked.relative_half_width},
        )


def _of_nodes(records: Sequence[AttemptRecord], beside: Beside) -> Iterator[PointWarning]:
    """Nodes that the health check found weak: each once, at its worst."""
    tests = [weak for record in records if (weak := beside.weak.get(record.trial)) is not None]
    for nodes in dict.fromkeys(weak.nodes for weak in tests):
        alike = [weak for weak in tests if weak.nodes == nodes]
        yield min(alike, key=lambda weak: weak.share).warning.model_copy(update={"repeats": len(alike)})


def _of_shared_nodes(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> Iterator[PointWarning]:
    """Gangs whose pods met on a node and talked through its memory; without a cluster there is one machine only."""
    crowded = [record for record in records if len({*record.nodes}) < len(record.nodes) == point.nodes]
    if crowded and not plan.pool(point.key.pool).spec.exclusive_nodes:
        worst = min(crowded, key=lambda record: len({*record.nodes}))
        had = len({*worst.nodes})
        remedy = "leave exclusiveNodes true" if worst.queue is None else "with Kueue's topologyName slots that fill one"
        yield warning(
            WarningReason.NODE_SHARED,
            f"{_of(crowded, records)}{point.nodes} pods ran on {counted(had, 'node')} and talked through memory "
            f"instead of a network: give the pool more nodes, or {remedy}",
            trial=worst.trial,
            repeats=len(crowded),
            figures={"pods": point.nodes, "nodes": had},
        )


def _of_changes(records: Sequence[AttemptRecord], known: Mapping[str, Environment]) -> Iterator[PointWarning]:
    """Pods that others changed before they ran; those that got more than was planned are no matter."""
    found = dict[str, str]()
    for record in records:
        said = [f"{one.field} {one.got or 'none'} (planned {one.planned})" for one in record.changed if not one.is_more]
        environment = None if record.result is None else known.get(record.result.environment)
        if environment is not None and environment.processors_short is not None:
            said.append(f"{environment.processors_short:g} processors by its cgroup")
        if environment is not None and environment.memory_bytes_short is not None:
            said.append(f"{environment.memory_bytes_short / 2**20:,.0f} MiB of memory by its cgroup")
        if said:
            found[record.trial] = f"others gave its pods {text.shortened(said, most=2)}: exempt them from that policy"
    yield from _of_first(WarningReason.POD_CHANGED, found, records)


def _of_machines(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> Iterator[PointWarning]:
    """Machines that are not what the pool says, whose price is paid all the same; then gangs of unequal ones."""
    spec = plan.as_measured().pool(point.key.pool).spec
    unlike, mixed = dict[str, str](), dict[str, str]()
    for record in records:
        for one in record.machines:
            if (said := machines.mismatch(spec, one)) is not None:
                unlike[record.trial] = f"ran on {said}: narrow its nodeSelector, or correct it"
        if len(kinds := max(record.instance_types, record.accelerators, key=len)) > 1:
            unequal = f"pods of one gang ran on {units.listed(kinds)}, and the slowest sets the pace"
            mixed[record.trial] = f"{unequal}: narrow the pool's nodeSelector to one of them"
    yield from _of_first(WarningReason.POOL_MISMATCH, unlike, records)
    yield from _of_first(WarningReason.MACHINES_MIXED, mixed, records)


def _of_first(reason: WarningReason, found: Mapping[str, str], records: Sequence[AttemptRecord]) -> list[PointWarning]:
    """What is to be said of the first of these trials, with the number of all of them."""
    first = list(found.items())[:1]
    return [warning(reason, _of(found, records) + said, trial=trial, repeats=len(found)) for trial, said in first]


def _of(found: Sized, records: Sequence[AttemptRecord]) -> str:
    return f"{len(found)} of {len(records)} repeats: " if len(records) > 1 else ""


def _of_spread(point: Point, records: Sequence[AttemptRecord]) -> Iterator[PointWarning]:
    """Gangs that lay in several zones, or repeats nearer together than others, by the widest level; not on one node."""
    if point.nodes == 1:
        return
    keep = "set scheduling.topology with mode Required and key "
    if crossed := [record for record in records if (record.spread[0] or 1) > 1]:
        worst = max(crossed, key=lambda record: record.spread[0] or 1)
        yield warning(
            WarningReason.ZONES_CROSSED,
            f"{_of(crossed, records)}pods ran in {counted(len(worst.zones), 'zone')} ({text.shortened(worst.zones)}): "
            f"messages between them take longer, and may be billed: {keep}{names.LABEL_ZONE}",
            trial=worst.trial,
            repeats=len(crossed),
            figures={"zones": len(worst.zones)},
        )
    for level, name, key in ((0, "zones", names.LABEL_ZONE), (1, "blocks", "the nodes' label of their block"),
                             (2, "racks", "the nodes' label of their rack")):  # fmt: skip
        found = {record.trial: count for record in records if (count := record.spread[level]) is not None}
        least, most = min(found.values(), default=0), max(found.values(), default=0)
        if least != most:
            yield warning(
                WarningReason.SPREAD_DIFFERS,
                f"gangs of the repeats were in {least} to {most} {name}, and their network differs: {keep}{key}",
                trial=max(found, key=found.__getitem__),
                repeats=sum(count == most for count in found.values()),
                figures={"least": least, "most": most},
            )
            return


def _of_efficiency(plan: Plan, result: PointResult, entry: MeasuredPoint, beside: Beside) -> Iterator[PointWarning]:
    if entry.point.key.workload == workloads.MESSAGES:
        return  # it has none to miss
    reasons = []
    if entry.scaling_baseline is not None:
        pool = next((pool.spec for pool in plan.pools if pool.name == entry.scaling_baseline), None)
        named = f"scalingBaseline of {result.pool} is {entry.scaling_baseline}, which "
        if pool is None:
            reasons.append(f"{named}is not in this benchmark: name it in the same block")
        elif pool.measured_by is not None:
            reasons.append(f"{named}is never run itself: name a pool that is measured")
    for other in (other for kind in entry.point.lines for other in beside.among.on_line(entry, kind)):
        across = other.point.key.pool != entry.point.key.pool
        if not other.environment.is_comparable(entry.environment, across_pools=across):
            differing = environments.differences((other.environment, entry.environment), beside.known)
            elsewhere = f"other worker counts of this line ran in another environment ({differing})"
            reasons.append(f"{elsewhere}: restrict the pool to equal nodes")
            break
    bases = (efficiency.base(entry, beside.among, kind=kind) for kind in entry.point.lines)
    if any(base is not None and base is not entry and not base.settled for base in bases):
        smallest = "the smallest worker count of this line is Unstable"
        reasons.append(f"{smallest}: give measure.warmUp and duration more time")
    yield from (warning(WarningReason.NO_EFFICIENCY, f"no efficiency: {why}") for why in reasons)
