# SPDX-License-Identifier: Apache-2.0
"""Each point's figures over those of the point that `spec.baseline` names: times as fast, as long, as dear.

The base has the values that the baseline names, else the point's own: so a workload is never divided by another one.
Within one pool both figures must have one environment; between pools it is the machines that are compared. Must not
happen: a ratio to a figure that never settled or that nobody measured; one of two currencies; none without a word why.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from gpubench import workloads
from gpubench.analysis import pairs, text, warnings
from gpubench.analysis.pairs import OPEN
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

_NONE = "no relative figures: "


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
    found = []
    for index, result in enumerate(points.results):
        one = related(points, named, index=index)
        found.append(result if one is None else _with(one, result, base=points.results[one.base]))
    return tuple(found)


def _with(found: Related, result: PointResult, *, base: PointResult) -> PointResult:
    figures = None
    if found.throughput is not None or found.time is not None:
        figures = Relative(
            baseline_pool=None if base is result else base.pool,
            baseline_workers=None if base is result else base.workers,
            throughput=None if found.throughput is None else found.throughput.interval,
            time=None if found.time is None else found.time.interval,
            cost=found.cost,
        )
    missing = [] if found.obstacle is None else [warnings.warning(WarningReason.NO_RELATIVE, found.obstacle)]
    return result.model_copy(update={"relative": figures, "warnings": (*result.warnings, *missing)})


def related(points: Points, named: RelativeBase, *, index: int) -> Related | None:
    """A point beside its base; None where it has no figures, or its base none yet."""
    plan, result = points.plan, points.results[index]
    # The elements of a message are no samples: what compares messages is their bandwidth.
    ended = result.state in (PointState.MEASURED, PointState.UNSTABLE)
    if not ended or result.workload == workloads.MESSAGES or not _has_figures(result):
        return None
    base = base_of(plan, named, index=index)
    if base is None:
        values = ", ".join(f"{field} {value}" for field, value in named.to_wire().items())
        missing = f"baseline ({values}) and what else makes this point name no point of the sweep: add it"
        return Related(base=index, obstacle=f"{_NONE}{missing}")
    if base != index:
        if points.results[base].state in OPEN:
            return None
        if (obstacle := _obstacle(points, index=index, base=base)) is not None:
            return Related(base=base, obstacle=f"{_NONE}{obstacle}")
    throughput = _ratio(points, Quantity.THROUGHPUT, index, base)
    # Of trainings the seconds of their timed region; else the time of equally many samples.
    trained = result.training is not None or points.results[base].training is not None
    of, top, bottom = (Quantity.SECONDS, index, base) if trained else (Quantity.THROUGHPUT, base, index)
    time = _ratio(points, of, top, bottom)
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
    """Without a named batch the one that stays equal is that of the point's line, as for an efficiency."""
    if named.batch_per_worker is not None:
        return other.key.batch_per_worker == named.batch_per_worker
    if named.global_batch is not None:
        return other.key.global_batch == named.global_batch
    if expand.line_of(of) == "weak":
        return other.key.batch_per_worker == of.key.batch_per_worker
    return other.key.global_batch == of.key.global_batch


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


def _ratio(points: Points, of: Quantity, top: int, bottom: int) -> Ratio | None:
    """One point's figure over another's, by the function that `gpubench compare` uses."""
    over, under = _sample(points, of, index=top), _sample(points, of, index=bottom)
    if over is None or under is None:
        return None
    if top == bottom:
        return Ratio(interval=Interval(mean=1.0))
    same_runs = _runs(points.plan, top) == _runs(points.plan, bottom)
    if same_runs and all(points.plan.points[one].basis is not Basis.EXTRAPOLATED for one in (top, bottom)):
        return Ratio(interval=Interval(mean=1.0, low=1.0, high=1.0))  # nothing but certain prices tells them apart
    return Ratio(interval=compare.speed_ratio(over, under), top=over, bottom=under)


def _sample(points: Points, of: Quantity, *, index: int) -> Sample | None:
    result = points.results[index]
    if of is Quantity.SECONDS and (result.training is None or result.training.seconds is None):
        return None
    if of is Quantity.THROUGHPUT and result.throughput is None:
        return None
    if result.basis is Basis.EXTRAPOLATED:  # its figure is no mean over repeats, and has no interval
        return compare.of_values([result.throughput.mean]) if result.throughput is not None else None
    run = points.results[_runs(points.plan, index)]
    confidence = stopping.confidence_of_plan(points.plan)
    return pairs.sample(run, of, confidence=confidence) if run.basis in SOURCES else None


def _prices(plan: Plan, result: PointResult, *, index: int, base: int) -> Prices | None:
    """None where the point has no price: that it has no cost is said elsewhere."""
    point, other = plan.points[index], plan.points[base]
    rate, base_rate = (pool_prices.planned_rate(plan, one.key.pool) for one in (point, other))
    if result.cost is None or rate is None:
        return None
    if base_rate is None:
        raise CostError(f"{other.key.pool}, the base's pool, has no price: give it one")
    nodes, base_nodes = plan.paid_nodes(point), plan.paid_nodes(other)
    hour, base_hour = (
        Amount(value=one.per_node_hour * count, currency=one.currency)
        for one, count in ((rate, nodes), (base_rate, base_nodes))
    )
    ratio = whatif.relative_cost(hour, base_cost=base_hour, base=f"the base on {other.key.pool}")
    return Prices(rate=rate, nodes=nodes, base_rate=base_rate, base_nodes=base_nodes, ratio=ratio)
