# SPDX-License-Identifier: Apache-2.0
"""What the figures of a study say, in a few sentences: the fastest, the cheapest, how it scales, what is missing.

Points whose 95 % intervals overlap are a tie, and a difference without intervals is called untested. Workloads and
precisions are never ranked against each other: they are different work. Must not happen: a winner is named that the
intervals do not support, or money of two currencies is compared.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpubench.api.benchmark import PointResult, PointState
from gpubench.report import figures, tables

LENGTH_MAX = 2048  # of status.answer
_TIED_NAMED = 4


@dataclass(frozen=True, kw_only=True)
class _Bounds:
    """A figure to be ranked; the better of two is the greater one."""

    mean: float
    low: float | None
    high: float | None


def answer(results: tuple[PointResult, ...]) -> str:
    """The answer so far. It is complete once every point has ended."""
    groups = list(dict.fromkeys((point.workload, point.precision) for point in results))
    parts = [_of_group([point for point in results if (point.workload, point.precision) == group]) for group in groups]
    return _fit([*(part for part in parts if part), *_missing(results)])


def _of_group(points: Sequence[PointResult]) -> str:
    measured = [point for point in points if point.state is PointState.MEASURED and point.throughput]
    if not measured:
        return ""
    head = f"{measured[0].workload} in {measured[0].precision}:"
    return " ".join([head, _fastest(measured), _cheapest(measured), *_scaling(measured)])


def _fastest(measured: Sequence[PointResult]) -> str:
    best, tied = _ranked(measured, _throughput)
    figure = f"{figures.throughput(best.throughput)} samples/s"
    if len(measured) == 1:
        return f"{_named(best)}: {figure}."
    if tied:
        return (
            f"{_listed([best, *tied])} tie for the highest throughput, for their intervals overlap; "
            f"{_named(best)}: {figure}."
        )
    return f"Highest throughput: {_named(best)}, {figure}{_untested(measured, _throughput)}."


def _cheapest(measured: Sequence[PointResult]) -> str:
    priced = [point for point in measured if point.cost]
    currencies = {point.cost.per_million_samples.currency for point in priced if point.cost}
    if not priced:
        return "What it costs is not known: give the pool a price or an ownership."
    if len(currencies) > 1:
        return f"Costs are in {' and '.join(sorted(currencies))} and therefore not compared."
    best, tied = _ranked(priced, _cheapness)
    assert best.cost is not None
    figure = f"{figures.money(best.cost.per_million_samples)} per million samples"
    unpriced = len(measured) - len(priced)
    rest = f" ({unpriced} measured point{'s have' if unpriced > 1 else ' has'} no price)" if unpriced else ""
    if len(measured) == 1:
        return f"It costs {figure}."
    if tied:
        return f"{_listed([best, *tied])} tie for the lowest cost, {figure} for {_named(best)}{rest}."
    return f"Lowest cost: {_named(best)}, {figure}{_untested(priced, _cheapness)}{rest}."


def _scaling(measured: Sequence[PointResult]) -> list[str]:
    """The efficiency at the largest worker count of each pool that has more than one."""
    sentences = []
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
            sentences.append(
                f"Scaling efficiency from {scaling.baseline_workers} to {tables.shape(point)} on {pool}: "
                f"{figures.efficiency(scaling)}, {scaling.kind} scaling."
            )
    return sentences


def _missing(results: Sequence[PointResult]) -> list[str]:
    counts = Counter(point.state for point in results)
    total = len(results)
    unfinished = counts[PointState.PENDING] + counts[PointState.RUNNING]
    unmeasured = {
        state: count
        for state, count in counts.items()
        if state not in (PointState.MEASURED, PointState.PENDING, PointState.RUNNING)
    }
    sentences = []
    if not counts[PointState.MEASURED]:
        sentences.append("Nothing was measured." if not unfinished else "Nothing has been measured so far.")
    if unfinished:
        sentences.append(f"{unfinished} of {total} points {_are(unfinished)} still to be measured.")
    if unmeasured:
        states = ", ".join(f"{count} {state.value}" for state, count in unmeasured.items())
        count = sum(unmeasured.values())
        sentences.append(
            f"{count} of {total} points {_are(count)} not measured ({states}); the reason stands with each."
        )
    return sentences


# --- ranking ----------------------------------------------------------------------------------------------------------


def _throughput(point: PointResult) -> _Bounds:
    assert point.throughput is not None
    return _Bounds(mean=point.throughput.mean, low=point.throughput.low, high=point.throughput.high)


def _cheapness(point: PointResult) -> _Bounds:
    assert point.cost is not None
    cost = point.cost.per_million_samples
    open_end = -math.inf if cost.low is not None else None  # the throughput's lower end was not above zero
    return _Bounds(
        mean=-float(cost.mean),
        low=open_end if cost.high is None else -float(cost.high),
        high=None if cost.low is None else -float(cost.low),
    )


def _ranked(
    points: Sequence[PointResult], bounds: Callable[[PointResult], _Bounds]
) -> tuple[PointResult, list[PointResult]]:
    """The best point, and those whose intervals overlap its own."""
    best = max(points, key=lambda point: bounds(point).mean)
    low = bounds(best).low
    tied = [
        point
        for point in points
        if point is not best and low is not None and (high := bounds(point).high) is not None and high >= low
    ]
    return best, tied


def _untested(points: Sequence[PointResult], bounds: Callable[[PointResult], _Bounds]) -> str:
    if len(points) > 1 and any(bounds(point).low is None or bounds(point).high is None for point in points):
        return " (without intervals for all points nothing says that this is more than chance)"
    return ""


# --- words ------------------------------------------------------------------------------------------------------------


def _named(point: PointResult) -> str:
    return f"{tables.shape(point)} on {point.pool}"


def _listed(points: Sequence[PointResult]) -> str:
    names = [_named(point) for point in points[:_TIED_NAMED]]
    if len(points) > _TIED_NAMED:
        names.append(f"{len(points) - _TIED_NAMED} others")
    return f"{', '.join(names[:-1])} and {names[-1]}"


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
