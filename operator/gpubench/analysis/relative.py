# SPDX-License-Identifier: Apache-2.0
"""Each point's figures over those of the point that `spec.baseline` names: times as fast, as long, as dear.

The base of a point has the values that the baseline names, and otherwise the point's own key: so one baseline serves
several workloads, and a workload is never divided by another one. Where it names workers, the batch that stays equal is
that of the point's line, as for an efficiency. The ratio is that of two means over fresh runs, with Fieller's interval,
by the function that `gpubench compare` uses; a relative cost is the time times a ratio of prices, which is certain.

Within one pool both figures must stand on one environment, as for an efficiency. Between pools it is the machines that
are compared, and with them what runs on them.

Must not happen: a ratio without the name of its base; one to a figure that never settled or that nobody measured; one
of two currencies; a ratio that is not there without a word why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from gpubench import workloads
from gpubench.analysis import pairs, text, warnings
from gpubench.analysis.repeats import MeasuredPoint
from gpubench.api.goals import RelativeBase
from gpubench.api.point_result import SOURCES, Basis, PointResult, PointState, Relative
from gpubench.api.point_warning import WarningReason
from gpubench.cost import whatif
from gpubench.cost.price import Amount, CostError, Rate
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan, Point
from gpubench.records import Environment
from gpubench.scheduler import environments, stopping
from gpubench.stats import compare
from gpubench.stats.compare import Quantity, Sample
from gpubench.values import Interval

_OPEN = frozenset({PointState.PENDING, PointState.RUNNING})
_MEASURED = frozenset({PointState.MEASURED, PointState.UNSTABLE})
_NONE = "no relative figures: "
_ITSELF = Interval(mean=1.0)
_SAME_RUNS = Interval(mean=1.0, low=1.0, high=1.0)  # nothing but certain prices tells the two apart


class Points(NamedTuple):
    """The points of a benchmark, and what stands behind their results."""

    plan: Plan
    results: Sequence[PointResult]
    entries: Sequence[MeasuredPoint | None]  # the repeats of each; None of one that has none of its own
    known: Mapping[str, Environment]  # records of environments, by key


@dataclass(frozen=True, kw_only=True)
class Ratio:
    """One figure over another, and the repeats that are divided; without these both stand on the same runs."""

    interval: Interval
    top: Sample | None = None
    bottom: Sample | None = None


@dataclass(frozen=True, kw_only=True)
class Prices:
    """What an hour of each gang costs, and the one over the other."""

    rate: Rate
    nodes: Decimal
    base_rate: Rate
    base_nodes: Decimal
    ratio: Decimal


@dataclass(frozen=True, kw_only=True)
class Related:
    """A point beside its base."""

    base: int  # index among the points of the plan; its own where it is the base
    throughput: Ratio | None = None
    time: Ratio | None = None
    prices: Prices | None = None
    obstacle: str | None = None  # why there is no figure, or no cost, in a sentence

    @property
    def cost(self) -> Interval | None:
        """Times as dear: the time, times a certain ratio of prices."""
        if self.time is None or self.prices is None:
            return None
        return self.time.interval.scaled(float(self.prices.ratio))


def with_relative(points: Points, named: RelativeBase | None) -> tuple[PointResult, ...]:
    """The results with their figures over those of their bases; as they are without a baseline."""
    if named is None:
        return tuple(points.results)
    found = [related(points, named, index=index) for index in range(len(points.results))]
    return tuple(
        result if one is None else _with(one, result, points.results)
        for one, result in zip(found, points.results, strict=True)
    )


def related(points: Points, named: RelativeBase, *, index: int) -> Related | None:
    """A point beside its base; None where it has no figures, or its base none yet."""
    plan, results = points.plan, points.results
    result = results[index]
    # The elements of a message are no samples: what compares messages is their bandwidth.
    if result.state not in _MEASURED or result.workload == workloads.MESSAGES or not _has_figures(result):
        return None
    base = base_of(plan, named, index=index)
    if base is None:
        missing = f"{_words(named)} and what else makes this point name no point of the sweep: add it"
        return Related(base=index, obstacle=f"{_NONE}{missing}")
    if base != index:
        if results[base].state in _OPEN:
            return None
        obstacle = _obstacle(points, index=index, base=base)
        if obstacle is not None:
            return Related(base=base, obstacle=f"{_NONE}{obstacle}")
    throughput = _throughput(plan, results, index=index, base=base)
    time = _time(plan, results, index=index, base=base)
    try:
        prices = _prices(plan, result, index=index, base=base)
    except CostError as error:
        return Related(base=base, throughput=throughput, time=time, obstacle=f"no relative cost: {error}")
    return Related(base=base, throughput=throughput, time=time, prices=prices)


def base_of(plan: Plan, named: RelativeBase, *, index: int) -> int | None:
    """Index of the point that another one's figures are relative to.

    Of two shapes with equally many workers (2 x 1 and 1 x 2) it is the one on the fewest nodes, as for efficiency; or,
    where no workers are named, the point's own if there is one.
    """
    point = plan.points[index]
    found = [number for number, other in enumerate(plan.points) if _is_base(other, named, of=point)]

    def order(number: int) -> tuple[bool, int, int]:
        other = plan.points[number]
        unlike = named.workers is None and other.key.workers_per_node != point.key.workers_per_node
        return unlike, other.nodes, number

    return min(found, key=order, default=None)


def _is_base(other: Point, named: RelativeBase, *, of: Point) -> bool:
    key, own = other.key, of.key
    variant = key.variant.name if key.variant is not None else None
    return (  # what tells most points apart comes first, for each is held against each
        key.workload == own.workload
        and key.pool == (named.pool or own.pool)
        and key.workers == (named.workers or own.workers)
        and key.precision == (named.precision or own.precision)
        and _has_batch(other, named, of=of)
        and (key.variant == own.variant if named.variant is None else variant == named.variant)
        and (key.data, key.epochs, key.custom) == (own.data, own.epochs, own.custom)
    )


def _has_batch(other: Point, named: RelativeBase, *, of: Point) -> bool:
    if named.batch_per_worker is not None:
        return other.key.batch_per_worker == named.batch_per_worker
    if named.global_batch is not None:
        return other.key.global_batch == named.global_batch
    if expand.line_of(of) == "weak":
        return other.key.batch_per_worker == of.key.batch_per_worker
    return other.key.global_batch == of.key.global_batch


# --- what may be divided ----------------------------------------------------------------------------------------------


def _has_figures(result: PointResult) -> bool:
    return result.throughput is not None or (result.training is not None and result.training.seconds is not None)


def _obstacle(points: Points, *, index: int, base: int) -> str | None:
    """Why nothing is relative to a base that has ended, as the end of a sentence; None where it may be."""
    found, place = points.results[base], text.describe(points.results[base])
    if found.basis is Basis.EXTRAPOLATED:
        return f"the base, {place}, was not run: name a point that is measured"
    if found.state is PointState.UNSTABLE:
        return f"the base, {place}, is Unstable: give measure.warmUp and duration more time"
    if found.state is not PointState.MEASURED or not _has_figures(found):
        return f"the base, {place}, has none: it ended {found.state.value}"
    one, other = (points.entries[_runs(points.plan, number)] for number in (index, base))
    if one is None or other is None or one.point.key.pool != other.point.key.pool:
        return None
    if one.environment.is_comparable(other.environment):
        return None
    differing = environments.differences((other.environment, one.environment), points.known)
    return f"the base ran in another environment ({differing}): restrict the pool to equal nodes"


def _runs(plan: Plan, index: int) -> int:
    """The point whose runs a point stands on: its own, unless it was not run."""
    source = expand.source_of(plan, plan.points[index])
    return index if source is None else source


def _throughput(plan: Plan, results: Sequence[PointResult], *, index: int, base: int) -> Ratio | None:
    samples = [_sample(plan, results, Quantity.THROUGHPUT, index=number) for number in (index, base)]
    return _ratio(plan, samples[0], samples[1], index=index, base=base)


def _time(plan: Plan, results: Sequence[PointResult], *, index: int, base: int) -> Ratio | None:
    """Of trainings the seconds of their timed region; else the time of equally many samples."""
    if any(results[number].training is not None for number in (index, base)):
        samples = [_sample(plan, results, Quantity.SECONDS, index=number) for number in (index, base)]
        return _ratio(plan, samples[0], samples[1], index=index, base=base)
    samples = [_sample(plan, results, Quantity.THROUGHPUT, index=number) for number in (base, index)]
    return _ratio(plan, samples[0], samples[1], index=index, base=base)


def _ratio(plan: Plan, top: Sample | None, bottom: Sample | None, *, index: int, base: int) -> Ratio | None:
    if top is None or bottom is None:
        return None
    if index == base:
        return Ratio(interval=_ITSELF)
    same_runs = _runs(plan, index) == _runs(plan, base) and plan.points[index].basis is not Basis.EXTRAPOLATED
    if same_runs:
        return Ratio(interval=_SAME_RUNS)
    return Ratio(interval=compare.speed_ratio(top, bottom), top=top, bottom=bottom)


def _sample(plan: Plan, results: Sequence[PointResult], of: Quantity, *, index: int) -> Sample | None:
    """The repeats behind a point's figure; None where it has no such figure."""
    result = results[index]
    if of is Quantity.SECONDS and (result.training is None or result.training.seconds is None):
        return None
    if of is Quantity.THROUGHPUT and result.throughput is None:
        return None
    if result.basis is Basis.EXTRAPOLATED:  # its figure is no mean over repeats, and has no interval
        return compare.of_values([result.throughput.mean]) if result.throughput is not None else None
    run = results[_runs(plan, index)]
    return pairs.sample(run, of, confidence=stopping.confidence_of_plan(plan)) if run.basis in SOURCES else None


def _prices(plan: Plan, result: PointResult, *, index: int, base: int) -> Prices | None:
    """None where the point has no price: that it has no cost is said elsewhere."""
    point, other = plan.points[index], plan.points[base]
    rate, base_rate = (pool_prices.planned_rate(plan, one.key.pool) for one in (point, other))
    if result.cost is None or rate is None:
        return None
    if base_rate is None:
        raise CostError(f"{other.key.pool}, the base's pool, has no price: give it one")
    nodes, base_nodes = plan.paid_nodes(point), plan.paid_nodes(other)
    ratio = whatif.relative_cost(
        _hour(rate, nodes), base_cost=_hour(base_rate, base_nodes), base=f"the base on {other.key.pool}"
    )
    return Prices(rate=rate, nodes=nodes, base_rate=base_rate, base_nodes=base_nodes, ratio=ratio)


def _hour(rate: Rate, nodes: Decimal) -> Amount:
    return Amount(value=rate.per_node_hour * nodes, currency=rate.currency)


# --- as a status has it -----------------------------------------------------------------------------------------------


def _with(found: Related, result: PointResult, results: Sequence[PointResult]) -> PointResult:
    missing = [] if found.obstacle is None else [warnings.warning(WarningReason.NO_RELATIVE, found.obstacle)]
    figures = shown(found, result, results)
    return result.model_copy(update={"relative": figures, "warnings": (*result.warnings, *missing)})


def shown(found: Related, result: PointResult, results: Sequence[PointResult]) -> Relative | None:
    """The figures as a status holds them; None where there is none."""
    throughput, time = (None if one is None else one.interval for one in (found.throughput, found.time))
    if throughput is None and time is None:
        return None
    base = results[found.base]
    return Relative(
        baseline_pool=None if base is result else base.pool,
        baseline_workers=None if base is result else base.workers,
        throughput=throughput,
        time=time,
        cost=found.cost,
    )


def _words(named: RelativeBase) -> str:
    """`baseline (pool gke-k80, workers 1)`."""
    values = ", ".join(f"{field} {value}" for field, value in named.to_wire().items())
    return f"baseline ({values})"
