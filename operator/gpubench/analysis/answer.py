# SPDX-License-Identifier: Apache-2.0
"""What the figures of a benchmark say, in a few sentences: the fastest, the cheapest, how it scales, what is missing.

Points whose 95 % intervals overlap are a tie, and a difference without intervals is called untested. Must not happen:
different work, two currencies or points that never settled ranked against each other; a winner that the intervals do
not support; a figure that was not measured wins a comparison of speed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpubench import units, workloads
from gpubench.analysis import text
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, PointResult, PointState
from gpubench.api.pool_price import CapacityType
from gpubench.api.sweep import DataSource
from gpubench.stats import compare
from gpubench.values import Interval

_TIED_NAMED = 4


def answer(results: tuple[PointResult, ...], *, advice: Sequence[str] = ()) -> str:
    """The answer so far. It is complete once every point has ended. Advice on the benchmark's objective comes first."""
    groups: dict[object, list[PointResult]] = defaultdict(list)
    for point in results:
        groups[work(point)].append(point)
    return " ".join([*advice, *(part for group in groups.values() if (part := _of_group(group))), *_missing(results)])


def work(point: PointResult) -> tuple[str, str, DataSource, str | None, int | None, int | None]:
    """What two points must have in common to be compared."""
    return point.workload, point.precision, point.data, point.data_path, point.data_samples, text.epochs(point)


def work_text(point: PointResult) -> str:
    """The work in words: `resnet50 in float32`."""
    epochs = text.epochs(point)
    length = "" if epochs is None else f", {units.counted(epochs, 'epoch')}"
    data = "" if point.data is DataSource.SYNTHETIC else f" on {text.data(point)} data"
    return f"{point.workload} in {point.precision}{data}{length}"


class _Figure(NamedTuple):
    point: PointResult
    bounds: Interval  # the better of two is the smaller one
    text: str


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
        buses = [(point, point.bandwidth.bus) for point in run if point.bandwidth is not None]
        speeds = [
            _Figure(point, _negated(bus), f"{text.spread(bus, per=1e9)} GB/s bus bandwidth") for point, bus in buses
        ]
        parts = [_best("fastest all-reduce", speeds)]
    elif timed:
        parts = [*_trainings(run, found), *_scaling(run)]
        regions = dict.fromkeys(point.training.timed_region for point in run if point.training)
        parts += [f"The time is that of {text.timed_region(region)}." for region in regions]
    else:
        speeds = [
            _Figure(point, _negated(point.throughput), f"{text.spread(point.throughput)} samples/s")
            for point in run
            if point.throughput is not None
        ]
        costs = [(point, point.cost.per_million_samples if point.cost else None) for point in found]
        cheapest = _cheapest("lowest cost", costs, per="million samples")
        parts = [_best("highest throughput", speeds), cheapest, *_scaling(run)]
    return " ".join([f"{work_text(run[0])}:", *parts])


def _trainings(run: Sequence[PointResult], found: Sequence[PointResult]) -> list[str]:
    trained = [(point, point.training) for point in run if point.training is not None]
    times = [(point, training.seconds) for point, training in trained if training.seconds is not None]
    parts = [_best("shortest run", [_Figure(point, time, text.duration(time)) for point, time in times])]
    qualities = [(point, training.quality) for point, training in trained if training.quality is not None]
    if len({quality.metric for _, quality in qualities}) == 1:
        metric, rest = qualities[0][1].metric, "after the last epoch"
        figures = [
            _Figure(point, one.final if metric == "loss" else _negated(one.final), text.quality(one))
            for point, one in qualities
        ]
        superlative = {"accuracy": "highest accuracy", "loss": "lowest loss"}[metric]
        alone = f"{metric.capitalize()} {rest}: {figures[0].text}."
        parts.append(alone if len(figures) == 1 else _best(f"{superlative} {rest}", figures))
    costs = [(point, point.cost.per_run if point.cost else None) for point in found if point.training]
    return [*parts, _cheapest("lowest cost of a run", costs, per="run")]


def _cheapest(superlative: str, costs: Sequence[tuple[PointResult, AmountInterval | None]], *, per: str) -> str:
    priced = [(point, cost) for point, cost in costs if cost is not None]
    currencies = {cost.currency for _, cost in priced}
    if not priced:
        return "What it costs is not known: give the pool a price or an ownership."
    if len(currencies) > 1:
        return f"Costs are in {' and '.join(sorted(currencies))} and therefore not compared."
    figures = [
        _Figure(point, Interval(**dict(cost.each(float))), f"{text.money(cost)} per {per}") for point, cost in priced
    ]
    if len(costs) == 1:
        return f"It costs {figures[0].text}."
    rest = ""
    if unpriced := len(costs) - len(priced):
        alone = ", so no other pool is compared" if len({point.pool for point, _ in priced}) == 1 else ""
        has = "measured points have" if unpriced > 1 else "measured point has"
        rest = f" ({unpriced} {has} no price in {min(currencies)}{alone})"
    return _best(superlative, figures, rest=rest)


def _negated(found: Interval) -> Interval:
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return Interval(mean=-found.mean, low=low, high=high)


def _best(superlative: str, figures: Sequence[_Figure], *, rest: str = "") -> str:
    best = min(figures, key=lambda one: one.bounds.mean)
    figure = f"{best.text}{rest}."
    if len(figures) == 1:
        return f"{_named(best.point)}: {figure}"

    def against(one: _Figure) -> compare.Standing:
        point, winner = one.point, best.point
        same = all(getattr(point, name) == getattr(winner, name) for name in ("throughput", "training", "environment"))
        same_runs = same and Basis.REPRICED in {point.basis, winner.basis}
        return compare.standing(best.bounds, one.bounds, same_runs=same_runs)

    standings = [(one, against(one)) for one in figures if one is not best]
    if tied := [_named(one.point) for one, found in standings if found is compare.Standing.TIE]:
        names = [_named(best.point), *tied]
        if (others := len(names) - _TIED_NAMED) > 0:
            names = [*names[:_TIED_NAMED], units.counted(others, "other")]
        tie = f"{units.listed(names)} tie for the {superlative}, for their intervals overlap"
        return f"{tie}; {_named(best.point)}: {figure}"
    untested = ""
    if any(found is compare.Standing.CANNOT_TELL for _, found in standings):
        untested = " (without intervals for all points nothing says that this is more than chance)"
    return f"{superlative[0].upper()}{superlative[1:]}: {_named(best.point)}, {best.text}{untested}{rest}."


def _scaling(measured: Sequence[PointResult]) -> Iterator[str]:
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
            counts = f"from {scaling.baseline_workers} to {text.shape(point)} on {pool}"
            found = text.efficiency(scaling, workers=point.workers)
            yield f"Scaling efficiency {counts}: {found}, {scaling.kind} scaling."


def _missing(results: Sequence[PointResult]) -> list[str]:
    bases = Counter(point.basis for point in results if point.state is PointState.MEASURED)
    counts = Counter(point.state for point in results)
    unfinished = counts.pop(PointState.PENDING, 0) + counts.pop(PointState.RUNNING, 0)
    measured, unstable = counts.pop(PointState.MEASURED, 0), counts.pop(PointState.UNSTABLE, 0)
    derived = measured - sum(bases[basis] for basis in SOURCES)
    its = "its" if derived == 1 else "their"
    each = ", ".join(f"{count} {state.value}" for state, count in counts.items())
    remarks = (
        (bases[Basis.IMPORTED], "imported: measured elsewhere, and not ranked with measured ones"),
        (derived, f"re-priced or extrapolated from others and not run: {its} speed is not ranked"),
        (unstable, "Unstable (the windows never settled) and therefore not ranked"),
        (unfinished, "still to be measured"),
        (counts.total(), f"not measured ({each}); the reason stands with each"),
    )
    parts = [f"{n} of {len(results)} points {'is' if n == 1 else 'are'} {what}." for n, what in remarks if n]
    if not measured and not unstable:
        parts.insert(0, "Nothing has been measured so far." if unfinished else "Nothing was measured.")
    return parts


_MAY_BE_TAKEN = (CapacityType.SPOT, CapacityType.PREEMPTIBLE)
#: How a figure that was not measured here is called.
BASES = {Basis.REPRICED: "re-priced", Basis.EXTRAPOLATED: "extrapolated", Basis.IMPORTED: "imported"}


def _named(point: PointResult) -> str:
    """Such as `2 workers at batch 64 on k80 (spot, imported)`; what is rented on demand needs no remark."""
    capacity = point.capacity_type.value.lower() if point.capacity_type in _MAY_BE_TAKEN else None
    remarks = ", ".join(remark for remark in (capacity, BASES.get(point.basis)) if remark)
    return f"{text.shape(point)} on {point.pool}{f' ({remarks})' if remarks else ''}"
