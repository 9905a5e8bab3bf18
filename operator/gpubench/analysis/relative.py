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

from gpubench import records, workloads
from gpubench.analysis import efficiency, pairs, text, warnings
from gpubench.api.goals import RelativeBase
from gpubench.api.point_result import OPEN, SOURCES, Basis, PointResult, PointState, Relative
from gpubench.api.point_warning import WarningReason
from gpubench.api.sweep import NO_VARIANT
from gpubench.cost import price, whatif
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan
from gpubench.scheduler import environments, stopping
from gpubench.stats import compare, intervals
from gpubench.values import Interval

_NONE = "no relative figures: "
#: What must be equal, beside the batch, but for what a baseline names.
_EQUAL = ("workload", "pool", "workers", "precision", "variant", "data", "epochs", "custom")


class Points(NamedTuple):
    """The points of a benchmark, and what stands behind their results."""

    plan: Plan
    results: Sequence[PointResult]
    entries: Sequence[efficiency.MeasuredPoint | None]  # the repeats of each; None of one that has none of its own
    known: Mapping[str, records.Environment]  # records of environments, by key


class Ratio(NamedTuple):
    """One figure over another, and the repeats that are divided; without these both stand on the same runs."""

    interval: Interval
    top: intervals.Sample | None = None
    bottom: intervals.Sample | None = None


class Prices(NamedTuple):
    """What an hour of each gang costs, and the one over the other."""

    rate: price.Rate
    nodes: Decimal
    base_rate: price.Rate
    base_nodes: Decimal
    ratio: Decimal


@dataclass(frozen=True, kw_only=True)
class Related:
    """A point beside its base."""

    base: int  # index among the points of the plan; its own where it is the base
    throughput: Ratio | None = None
    time: Ratio | None = None
    prices: Prices | None = None
    obstacle: str | None = None  # why there is no figure, or no cost, in a message


def with_relative(points: Points, named: RelativeBase | None) -> tuple[PointResult, ...]:
    """The results with their figures over those of their bases; as they are without a baseline."""
    found = list(points.results)
    if named is None:
        return tuple(found)
    for index, result in enumerate(points.results):
        if (one := related(points, named, index=index)) is None:
            continue
        figures = None
        if one.throughput is not None or one.time is not None:
            base = points.results[one.base]
            cost = one.time.interval.scaled(float(one.prices.ratio)) if one.time and one.prices else None
            place = {} if base is result else {"baseline_pool": base.pool, "baseline_workers": base.workers}
            throughput, time = (None if ratio is None else ratio.interval for ratio in (one.throughput, one.time))
            figures = Relative(**place, throughput=throughput, time=time, cost=cost)
        missing = [] if one.obstacle is None else [warnings.warning(WarningReason.NO_RELATIVE, one.obstacle)]
        found[index] = result.model_copy(update={"relative": figures, "warnings": (*result.warnings, *missing)})
    return tuple(found)


def related(points: Points, named: RelativeBase, *, index: int) -> Related | None:
    """A point beside its base; None where it has no figures, or its base none yet."""
    plan, result = points.plan, points.results[index]
    # The elements of a message are no samples: what compares messages is their bandwidth.
    ended = result.state in (PointState.MEASURED, PointState.UNSTABLE)
    if not ended or result.workload == workloads.MESSAGES or not _has_figures(result):
        return None
    if (base := base_of(plan, named, index=index)) is None:
        values = ", ".join(f"{field} {value}" for field, value in named.to_wire().items())
        missing = f"baseline ({values}) and what else makes this point name no point of the sweep: add it"
        return Related(base=index, obstacle=f"{_NONE}{missing}")
    if base != index:
        if points.results[base].state in OPEN:
            return None
        if (obstacle := _obstacle(points, index=index, base=base)) is not None:
            return Related(base=base, obstacle=f"{_NONE}{obstacle}")
    throughput = _ratio(points, compare.Quantity.THROUGHPUT, index, base)
    # Of trainings the seconds of their timed region; else the time of equally many samples.
    trained = result.training is not None or points.results[base].training is not None
    of, top, bottom = (compare.Quantity.SECONDS, index, base) if trained else (compare.Quantity.THROUGHPUT, base, index)
    time = _ratio(points, of, top, bottom)
    try:
        prices = _prices(plan, result, index=index, base=base)
    except price.CostError as error:
        return Related(base=base, throughput=throughput, time=time, obstacle=f"no relative cost: {error}")
    return Related(base=base, throughput=throughput, time=time, prices=prices)


def base_of(plan: Plan, named: RelativeBase, *, index: int) -> int | None:
    """Index of the point that another one's figures are relative to.

    Without a named batch the one that stays equal is that of the point's line, as for an efficiency. Of two shapes with
    equally many workers (2 x 1 and 1 x 2) it is the one on the fewest nodes, as there; or, where no workers are named,
    the point's own if there is one.
    """
    point, given = plan.points[index], named.model_dump(exclude_none=True)
    if given.get("variant") == NO_VARIANT:
        given["variant"] = None
    line = "batch_per_worker" if expand.line_of(point) == "weak" else "global_batch"
    batch = next((field for field in ("batch_per_worker", "global_batch") if field in given), line)
    wanted = {field: given.get(field, getattr(point.key, field)) for field in (*_EQUAL, batch)}

    def is_base(number: int) -> bool:
        key = plan.points[number].key
        own = {"variant": key.variant and key.variant.name} if "variant" in given else {}
        return all(own.get(field, getattr(key, field)) == value for field, value in wanted.items())

    def order(number: int) -> tuple[bool, int, int]:
        other = plan.points[number]
        return named.workers is None and other.key.workers_per_node != point.key.workers_per_node, other.nodes, number

    return min(filter(is_base, range(len(plan.points))), key=order, default=None)


def _has_figures(result: PointResult) -> bool:
    return result.throughput is not None or (result.training is not None and result.training.seconds is not None)


def _obstacle(points: Points, *, index: int, base: int) -> str | None:
    """Why nothing is relative to a base that has ended, as the end of a message; None where it may be."""
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
    return index if (source := expand.source_of(plan, plan.points[index])) is None else source


def _ratio(points: Points, of: compare.Quantity, top: int, bottom: int) -> Ratio | None:
    """One point's figure over another's, by the function that `gpubench compare` uses."""
    over, under = _sample(points, of, index=top), _sample(points, of, index=bottom)
    if over is None or under is None:
        return None
    if top == bottom:
        return Ratio(Interval(mean=1.0))
    same_runs = _runs(points.plan, top) == _runs(points.plan, bottom)
    if same_runs and all(points.results[one].basis is not Basis.EXTRAPOLATED for one in (top, bottom)):
        return Ratio(Interval(mean=1.0, low=1.0, high=1.0))  # nothing but certain prices tells them apart
    return Ratio(compare.speed_ratio(over, under), top=over, bottom=under)


def _sample(points: Points, of: compare.Quantity, *, index: int) -> intervals.Sample | None:
    result = points.results[index]
    seconds = None if result.training is None else result.training.seconds
    if (figure := seconds if of is compare.Quantity.SECONDS else result.throughput) is None:
        return None
    if result.basis is Basis.EXTRAPOLATED:  # its figure is no mean over repeats, and has no interval
        return intervals.of_values([figure.mean])
    run = points.results[_runs(points.plan, index)]
    return pairs.sample(run, of, confidence=stopping.confidence_of_plan(points.plan)) if run.basis in SOURCES else None


def _prices(plan: Plan, result: PointResult, *, index: int, base: int) -> Prices | None:
    """None where the point has no price: that it has no cost is said elsewhere."""
    point, other = plan.points[index], plan.points[base]
    rate, base_rate = (pool_prices.planned_rate(plan, one.key.pool) for one in (point, other))
    if result.cost is None or rate is None:
        return None
    if base_rate is None:
        raise price.CostError(f"{other.key.pool}, the base's pool, has no price: give it one")
    nodes, base_nodes = plan.paid_nodes(point), plan.paid_nodes(other)
    hour, base_hour = (
        price.Amount(value=one.per_node_hour * count, currency=one.currency)
        for one, count in ((rate, nodes), (base_rate, base_nodes))
    )
    ratio = whatif.relative_cost(hour, base_cost=base_hour, base=f"the base on {other.key.pool}")
    return Prices(rate, nodes, base_rate, base_nodes, ratio)
