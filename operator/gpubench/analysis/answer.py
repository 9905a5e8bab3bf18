# SPDX-License-Identifier: Apache-2.0
"""What the figures of a benchmark say, in a few sentences: the fastest, the cheapest, how it scales, what is missing.

Points whose 95 % intervals overlap are a tie, and a difference without intervals is called untested. Workloads,
precisions, data and numbers of epochs are never ranked against each other: they are different work; points that never
settled are ranked against nothing. Must not happen: a winner is named that the intervals do not support, money of two
currencies is compared, or a figure that was not measured wins a comparison of speed.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpubench import workloads
from gpubench.analysis import text
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, PointResult, PointState, Quality
from gpubench.api.sweep import DataSource
from gpubench.units import counted, listed
from gpubench.values import Interval

LENGTH_MAX = 2048  # of status.answer
_TIED_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class _Ranking:
    """A figure by which points are ranked, and how it is written."""

    superlative: str
    bounds: Callable[[PointResult], Interval]  # the better of two is the greater one
    text: Callable[[PointResult], str]


def answer(results: tuple[PointResult, ...], *, advice: Sequence[str] = ()) -> str:
    """The answer so far. It is complete once every point has ended. Advice on the benchmark's objective comes first."""
    groups = list(dict.fromkeys(work(point) for point in results))
    parts = [_of_group([point for point in results if work(point) == group]) for group in groups]
    return _fit([*advice, *(part for part in parts if part), *_missing(results)])


def work(point: PointResult) -> tuple[str, str, DataSource, str | None, int | None, int | None]:
    """What two points must have in common to be compared."""
    return (
        point.workload, point.precision, point.data, point.data_path, point.data_samples, text.epochs(point),
    )  # fmt: skip


def _of_group(points: Sequence[PointResult]) -> str:
    found = [point for point in points if point.state is PointState.MEASURED and text.headline(point)]
    run = [point for point in found if point.basis is Basis.MEASURED]
    if not run:  # what was measured elsewhere is ranked among itself only
        run = [point for point in found if point.basis is Basis.IMPORTED]
    if not run:
        return ""
    timed = all(point.training and point.training.seconds for point in run)
    if not timed:  # of an imported training the seconds alone may be known
        run = [point for point in run if point.throughput]
    if run[0].workload == workloads.MESSAGES:
        parts = [_best(run, _BUS)]
    elif timed:
        parts = [
            _best(run, _SHORTEST),
            *_qualities(run),
            _cheapest([point for point in found if point.training], _RUN_COST, _run_cost),
            *_scaling(run),
            *_region(run),
        ]
    else:
        parts = [_best(run, _FASTEST), _cheapest(found, _COST, _sample_cost), *_scaling(run)]
    return " ".join([f"{work_text(run[0])}:", *parts, *_goals(run)])


def work_text(point: PointResult) -> str:
    """The work in words: `resnet50 in float32`."""
    epochs = f", {counted(point.training.epochs, 'epoch')}" if point.training else ""
    data = "" if point.data is DataSource.SYNTHETIC else f" on {text.data(point)} data"
    return f"{point.workload} in {point.precision}{data}{epochs}"


def _best(points: Sequence[PointResult], ranking: _Ranking, *, rest: str = "") -> str:
    best, tied = _ranked(points, ranking.bounds)
    figure = ranking.text(best)
    if len(points) == 1:
        return f"{_named(best)}: {figure}{rest}."
    if tied:
        return (
            f"{_listed([best, *tied])} tie for the {ranking.superlative}, for their intervals overlap; "
            f"{_named(best)}: {figure}{rest}."
        )
    superlative = ranking.superlative[0].upper() + ranking.superlative[1:]
    return f"{superlative}: {_named(best)}, {figure}{_untested(points, ranking.bounds)}{rest}."


def _cheapest(
    found: Sequence[PointResult], ranking: _Ranking, amount: Callable[[PointResult], AmountInterval | None]
) -> str:
    costs = [(point, cost) for point in found if (cost := amount(point)) is not None]
    priced = [point for point, _ in costs]
    currencies = {cost.currency for _, cost in costs}
    if not priced:
        return "What it costs is not known: give the pool a price or an ownership."
    if len(currencies) > 1:
        return f"Costs are in {' and '.join(sorted(currencies))} and therefore not compared."
    if len(found) == 1:
        return f"It costs {ranking.text(priced[0])}."
    unpriced = len(found) - len(priced)
    rest = f" ({unpriced} measured point{'s have' if unpriced > 1 else ' has'} no price)" if unpriced else ""
    return _best(priced, ranking, rest=rest)


def _qualities(run: Sequence[PointResult]) -> list[str]:
    """How good the models became, where there was data to tell."""
    known = [point for point in run if _quality(point) is not None]
    metrics = {_known_quality(point).metric for point in known}
    if len(metrics) != 1:
        return []
    best = {"accuracy": "highest accuracy after the last epoch", "loss": "lowest loss after the last epoch"}
    if len(known) == 1:
        quality = _known_quality(known[0])
        return [f"{quality.metric.capitalize()} after the last epoch: {text.quality(quality)}."]
    ranking = _Ranking(
        superlative=best[metrics.pop()], bounds=_goodness, text=lambda point: text.quality(_known_quality(point))
    )
    return [_best(known, ranking)]


def _region(run: Sequence[PointResult]) -> list[str]:
    regions = dict.fromkeys(point.training.timed_region for point in run if point.training)
    return [f"The time is that of {text.timed_region(region)}." for region in regions]


def _goals(run: Sequence[PointResult]) -> list[str]:
    """What each goal would take where it is fastest. It follows the throughput, so it ranks nothing anew."""
    parts = []
    for name in dict.fromkeys(goal.name for point in run for goal in point.goals):
        best = max((point for point in run if point.goals), key=lambda point: _throughput(point).mean)
        goal = next((goal for goal in best.goals if goal.name == name), None)
        if goal is not None:
            cost = f" and {text.money(goal.cost)}" if goal.cost else ""
            parts.append(f"Goal {name} would take at least {text.bounded(goal.hours)} hours{cost} with {_named(best)}.")
    return parts


def _scaling(measured: Sequence[PointResult]) -> list[str]:
    """The efficiency at the largest worker count of each pool that has more than one."""
    parts = []
    for pool in dict.fromkeys(point.pool for point in measured):
        scaled = [
            (scaling, point)
            for point in measured
            if point.pool == pool
            for scaling in point.scaling
            if scaling.baseline_workers < point.workers
        ]
        if scaled:
            scaling, point = max(scaled, key=lambda pair: (pair[1].workers, pair[0].efficiency.mean))
            parts.append(
                f"Scaling efficiency from {scaling.baseline_workers} to {text.shape(point)} on {pool}: "
                f"{text.efficiency(scaling)}, {scaling.kind} scaling."
            )
    return parts


def _missing(results: Sequence[PointResult]) -> list[str]:
    counts = Counter(point.state for point in results)
    total = len(results)
    unfinished = counts[PointState.PENDING] + counts[PointState.RUNNING]
    unmeasured = {
        state: count
        for state, count in counts.items()
        if state not in (PointState.MEASURED, PointState.UNSTABLE, PointState.PENDING, PointState.RUNNING)
    }
    derived = sum(point.state is PointState.MEASURED and point.basis not in SOURCES for point in results)
    imported = sum(point.state is PointState.MEASURED and point.basis is Basis.IMPORTED for point in results)
    parts = []
    if imported:
        parts.append(
            f"{imported} of {total} points {_are(imported)} imported: measured elsewhere, and not ranked with measured "
            "ones."
        )
    if derived:
        parts.append(
            f"{derived} of {total} points {_are(derived)} re-priced or extrapolated from others and not run: "
            f"{'its' if derived == 1 else 'their'} speed is not ranked."
        )
    if unstable := counts[PointState.UNSTABLE]:
        parts.append(
            f"{unstable} of {total} points {_are(unstable)} Unstable (the windows never settled) and therefore not "
            "ranked."
        )
    if not counts[PointState.MEASURED] and not unstable:
        parts.append("Nothing was measured." if not unfinished else "Nothing has been measured so far.")
    if unfinished:
        parts.append(f"{unfinished} of {total} points {_are(unfinished)} still to be measured.")
    if unmeasured:
        states = ", ".join(f"{count} {state.value}" for state, count in unmeasured.items())
        count = sum(unmeasured.values())
        parts.append(f"{count} of {total} points {_are(count)} not measured ({states}); the reason stands with each.")
    return parts


# --- ranking ----------------------------------------------------------------------------------------------------------


def _throughput(point: PointResult) -> Interval:
    assert point.throughput is not None
    return point.throughput


def _seconds(point: PointResult) -> Interval:
    assert point.training is not None
    assert point.training.seconds is not None
    return point.training.seconds


def _quality(point: PointResult) -> Quality | None:
    return point.training.quality if point.training else None


def _known_quality(point: PointResult) -> Quality:
    quality = _quality(point)
    assert quality is not None
    return quality


def _goodness(point: PointResult) -> Interval:
    quality = _known_quality(point)
    return _negated(quality.final) if quality.metric == "loss" else quality.final


def _negated(estimate: Interval) -> Interval:
    return Interval(
        mean=-estimate.mean,
        low=None if estimate.high is None else -estimate.high,
        high=None if estimate.low is None else -estimate.low,
    )


def _bus(point: PointResult) -> Interval:
    assert point.bandwidth is not None
    return point.bandwidth.bus


def _sample_cost(point: PointResult) -> AmountInterval | None:
    return point.cost.per_million_samples if point.cost else None


def _run_cost(point: PointResult) -> AmountInterval | None:
    return point.cost.per_run if point.cost else None


def _cheapness(cost: AmountInterval | None) -> Interval:
    assert cost is not None
    if cost.low is not None and cost.high is None:  # the throughput's lower end was not above zero
        return Interval(mean=-float(cost.mean), low=-math.inf, high=-float(cost.low))
    return _negated(Interval(**dict(cost.each(float))))


_FASTEST = _Ranking(
    superlative="highest throughput",
    bounds=_throughput,
    text=lambda point: f"{text.throughput(point.throughput)} samples/s",
)
_COST = _Ranking(
    superlative="lowest cost",
    bounds=lambda point: _cheapness(_sample_cost(point)),
    text=lambda point: f"{text.money(_sample_cost(point))} per million samples",
)
_SHORTEST = _Ranking(
    superlative="shortest run",
    bounds=lambda point: _negated(_seconds(point)),
    text=lambda point: text.duration(_seconds(point)),
)
_RUN_COST = _Ranking(
    superlative="lowest cost of a run",
    bounds=lambda point: _cheapness(_run_cost(point)),
    text=lambda point: f"{text.money(_run_cost(point))} per run",
)
_BUS = _Ranking(
    superlative="fastest all-reduce",
    bounds=_bus,
    text=lambda point: f"{text.spread(_bus(point), per=1e9)} GB/s bus bandwidth",
)


def _ranked(
    points: Sequence[PointResult], bounds: Callable[[PointResult], Interval]
) -> tuple[PointResult, list[PointResult]]:
    """The best point, and those whose intervals overlap its own."""
    best = max(points, key=lambda point: bounds(point).mean)
    low = bounds(best).low
    tied = [
        point
        for point in points
        if point is not best and low is not None and (high := bounds(point).high) is not None and high >= low
        if not (_share_a_measurement(point, best) and bounds(point).mean < bounds(best).mean)
    ]
    return best, tied


def _share_a_measurement(one: PointResult, other: PointResult) -> bool:
    """Whether two points stand on the same runs: then only their prices differ, and those are certain."""
    return Basis.REPRICED in {one.basis, other.basis} and (one.throughput, one.environment) == (
        other.throughput,
        other.environment,
    )


def _untested(points: Sequence[PointResult], bounds: Callable[[PointResult], Interval]) -> str:
    if len(points) > 1 and any(bounds(point).low is None or bounds(point).high is None for point in points):
        return " (without intervals for all points nothing says that this is more than chance)"
    return ""


# --- words ------------------------------------------------------------------------------------------------------------

_MARKS = {
    Basis.REPRICED: " (re-priced)",
    Basis.EXTRAPOLATED: " (extrapolated)",
    Basis.IMPORTED: " (imported)",
}


def _named(point: PointResult) -> str:
    mark = _MARKS.get(point.basis, "")
    return f"{text.shape(point)} on {point.pool}{mark}"


def _listed(points: Sequence[PointResult]) -> str:
    names = [_named(point) for point in points[:_TIED_NAMED]]
    if len(points) > _TIED_NAMED:
        others = len(points) - _TIED_NAMED
        names.append(counted(others, "other"))
    return listed(names)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _fit(parts: Sequence[str]) -> str:
    """All parts, or as many as fit the field, with the number of those left out."""
    text = " ".join(parts)
    kept = list(parts)
    while len(text) > LENGTH_MAX and kept:
        kept.pop(len(kept) - 2 if len(kept) > 1 else 0)  # what is missing stands last and stays
        text = " ".join([*kept, f"({len(parts) - len(kept)} further parts are left out: see the results.)"])
    return text
