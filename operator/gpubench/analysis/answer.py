# SPDX-License-Identifier: Apache-2.0
"""What the figures of a benchmark say, in three lines a work: the fastest, the cheapest, ties or what is missing.

Points whose 95 % intervals overlap are a tie, and a difference without intervals is called untested. Must not happen:
different work, two currencies or points that never settled ranked against each other; a winner that the intervals do
not support; a figure that was not measured wins a comparison of speed.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gpubench import units, workloads
from gpubench.analysis import text
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, PointResult, PointState
from gpubench.api.pool_price import CapacityType
from gpubench.api.sweep import DataSource
from gpubench.stats import compare
from gpubench.values import Interval, grouped

_TIED_NAMED = 4


class Best(NamedTuple):
    """The best of several points; of a tie the one with the best mean."""

    point: PointResult
    figure: str  # with its interval and unit
    tied: tuple[PointResult, ...] = ()
    untested: bool = False  # some points have no interval
    compared: int = 0  # other points

    @property
    def message(self) -> str:
        """Such as `2 workers at batch 64 on k80, 1,700 ± 50 samples/s (tie)`."""
        mark = " (tie)" if self.tied else " (untested)" if self.untested else ""
        return f"{named(self.point)}, {self.figure}{mark}"


class WorkAnswer(NamedTuple):
    """The answer to one work: what its points say, and how sure that is."""

    work: str  # such as `resnet50 in float32`
    points: int
    fastest: Best | None = None  # of what was run; of nothing else, what was imported
    cheapest: Best | None = None
    no_cost: str | None = None  # why none is the cheapest
    missing: tuple[str, ...] = ()  # how many points are not ranked, and why

    @property
    def certainty(self) -> str | None:
        """Ties and untested differences, or that there are none; None where nothing is compared."""
        found = [(one, what) for one, what in ((self.fastest, "in speed"), (self.cheapest, "in cost")) if one]
        if ties := [f"{what} with {_several(one.tied)}" for one, what in found if one.tied]:
            return f"Tie: intervals overlap {units.listed(ties)}."
        if any(one.untested for one, _ in found):
            return "Untested: without intervals for all points, differences may be chance."
        return "Sure: no interval of another point overlaps." if any(one.compared for one, _ in found) else None

    @property
    def lines(self) -> tuple[str, ...]:
        missing = f"Of {units.counted(self.points, 'point')}: {', '.join(self.missing)}." if self.missing else None
        if self.fastest is None:
            return (" ".join(filter(None, (f"Nothing of {self.work} is ranked.", missing))),)
        cost = self.no_cost if self.cheapest is None else self.cheapest.message
        rest = " ".join(one for one in (self.certainty, missing) if one)
        found = (f"Fastest {self.work}: {self.fastest.message}.", cost and f"Cheapest: {cost}.", rest)
        return tuple(line for line in found if line)


def answer(results: tuple[PointResult, ...], *, advice: Sequence[str] = ()) -> str:
    """The answer so far, in lines. It is complete once every point has ended. Advice on the objective comes first."""
    return "\n".join([*advice, *(line for one in by_work(results) for line in one.lines)])


def by_work(results: Sequence[PointResult]) -> list[WorkAnswer]:
    return [_of_group(group) for group in grouped(results, work).values()]


def work(point: PointResult) -> tuple[str, str, DataSource, str | None, int | None, int | None]:
    """What two points must have in common to be compared."""
    return point.workload, point.precision, point.data, point.data_path, point.data_samples, text.epochs(point)


def work_text(point: PointResult) -> str:
    """The work in words: `resnet50 in float32`."""
    epochs = text.epochs(point)
    length = "" if epochs is None else f", {units.counted(epochs, 'epoch')}"
    data = "" if point.data is DataSource.SYNTHETIC else f", data {text.data(point)}"
    precision = "" if point.precision == "unknown" else f" in {point.precision}"
    return f"{point.workload}{precision}{data}{length}"


class _Figure(NamedTuple):
    point: PointResult
    bounds: Interval  # the better of two is the smaller one
    text: str


def _of_group(points: Sequence[PointResult]) -> WorkAnswer:
    nothing = WorkAnswer(work_text(points[0]), len(points), missing=_missing(points))
    found = [point for point in points if point.state is PointState.MEASURED and text.headline(point)]
    run = [point for point in found if point.basis is Basis.MEASURED]
    if not run:  # what was measured elsewhere is ranked among itself only
        run = [point for point in found if point.basis is Basis.IMPORTED]
    # Of an imported training the seconds alone may be known.
    timed = all(point.training and point.training.seconds for point in run)
    if not (speeds := [speed for point in run if (speed := _speed(point, timed=timed))]):
        return nothing
    answered = nothing._replace(fastest=_best(speeds))
    if run[0].workload == workloads.MESSAGES:
        return answered
    per, kind = ("run", "per_run") if timed else ("million samples", "per_million_samples")
    costs = [(point, getattr(point.cost, kind, None)) for point in found if point.training or not timed]
    return _with_costs(answered, costs, per=per)


def _speed(point: PointResult, *, timed: bool) -> _Figure | None:
    if timed and point.training is not None and point.training.seconds is not None:
        return _Figure(point, point.training.seconds, text.headline(point) or "")
    if (found := point.throughput if point.bandwidth is None else point.bandwidth.bus) is None:
        return None
    low, high = (None if end is None else -end for end in (found.high, found.low))
    per, unit = (1.0, "samples/s") if point.bandwidth is None else (1e9, "GB/s bus bandwidth")
    return _Figure(point, Interval(mean=-found.mean, low=low, high=high), f"{text.spread(found, per=per)} {unit}")


def _with_costs(
    found: WorkAnswer, costs: Sequence[tuple[PointResult, AmountInterval | None]], *, per: str
) -> WorkAnswer:
    priced = [(point, cost) for point, cost in costs if cost is not None]
    currencies = sorted({cost.currency for _, cost in priced})
    if not priced:
        return found._replace(no_cost="unknown, give the pool a price or an ownership")
    if len(currencies) > 1:
        return found._replace(no_cost=f"not compared, for costs are in {units.listed(currencies)}")
    figures = [
        _Figure(point, Interval(**dict(cost.each(float))), f"{text.money(cost)} per {per}") for point, cost in priced
    ]
    missing = found.missing
    if unpriced := len(costs) - len(priced):
        alone = ", so no other pool is compared" if len({point.pool for point, _ in priced}) == 1 else ""
        missing = (*missing, f"{unpriced} measured without a price in {currencies[0]}{alone}")
    return found._replace(cheapest=_best(figures), missing=missing)


def _best(figures: Sequence[_Figure]) -> Best:
    best = min(figures, key=lambda one: one.bounds.mean)

    def against(one: _Figure) -> compare.Standing:
        point, winner = one.point, best.point
        same = all(getattr(point, name) == getattr(winner, name) for name in ("throughput", "training", "environment"))
        same_runs = same and Basis.REPRICED in {point.basis, winner.basis}
        return compare.standing(best.bounds, one.bounds, same_runs=same_runs)

    standings = [(one.point, against(one)) for one in figures if one is not best]
    return Best(
        point=best.point,
        figure=best.text,
        tied=tuple(point for point, standing in standings if standing == "Tie"),
        untested=any(standing == "CannotTell" for _, standing in standings),
        compared=len(standings),
    )


def _several(points: Sequence[PointResult]) -> str:
    names = [named(point) for point in points]
    if (others := len(names) - _TIED_NAMED) > 0:
        names = [*names[:_TIED_NAMED], units.counted(others, "other")]
    return units.listed(names)


def _missing(results: Sequence[PointResult]) -> tuple[str, ...]:
    bases = Counter(point.basis for point in results if point.state is PointState.MEASURED)
    counts = Counter(point.state for point in results)
    unfinished = counts.pop(PointState.PENDING, 0) + counts.pop(PointState.RUNNING, 0)
    measured, unstable = counts.pop(PointState.MEASURED, 0), counts.pop(PointState.UNSTABLE, 0)
    remarks = (
        (unfinished, "still to be measured"),
        (unstable, "Unstable and not ranked"),
        *((count, state.value) for state, count in counts.items()),
        (measured - sum(bases[basis] for basis in SOURCES), "re-priced or extrapolated and not ranked in speed"),
        (bases[Basis.MEASURED] and bases[Basis.IMPORTED], "imported and not ranked with measured ones"),
    )
    return tuple(f"{count} {what}" for count, what in remarks if count)


_MAY_BE_TAKEN = (CapacityType.SPOT, CapacityType.PREEMPTIBLE)
#: How a figure that was not measured here is called.
BASES = {Basis.REPRICED: "re-priced", Basis.EXTRAPOLATED: "extrapolated", Basis.IMPORTED: "imported"}


def named(point: PointResult) -> str:
    """Such as `2 workers at batch 64 on k80 (spot, imported)`; what is rented on demand needs no remark."""
    capacity = point.capacity_type.value.lower() if point.capacity_type in _MAY_BE_TAKEN else None
    remarks = ", ".join(remark for remark in (capacity, BASES.get(point.basis)) if remark)
    return f"{text.shape(point)} on {point.pool}{f' ({remarks})' if remarks else ''}"
