# SPDX-License-Identifier: Apache-2.0
"""Time against cost with its frontier, and costs side by side.

Must not happen: amounts of two currencies on one axis, or a point left out without a word.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench import workloads
from gpubench.api.point_result import AmountInterval, PointResult
from gpubench.cost import marginal, price
from gpubench.report import text
from gpubench.report.charts import points
from gpubench.report.charts.points import Entry
from gpubench.report.document import Axis, Bar, Bars, Curves, Mark, Missing, Series
from gpubench.report.tables import Column
from gpubench.values import Interval

#: Bars of one chart; the others are in the table.
BARS_MAX = 20
_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600.0
_WIDE = 20  # times the smallest figure: from there on a linear axis hides the small ones
_FRONTIER_NAMED = 6


class _Question(NamedTuple):
    """What time and money are told of."""

    what: str
    seconds: Callable[[PointResult], Interval | None]
    cost: Callable[[PointResult], AmountInterval | None]


class _Offer(NamedTuple):
    """A point with what it takes."""

    entry: Entry
    seconds: Interval
    cost: AmountInterval


def frontier(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Time against cost: what no other point is both faster and cheaper than lies on the frontier."""
    title = "Time against cost"
    found: list[Curves] = []
    for one, currency, members in _priced(entries):
        for question in _questions(members):
            offers = [offer for entry in members if (offer := _offer(entry, question)) is not None]
            if len(offers) > 1:
                found.append(_frontier(one, currency, question, offers, name=f"frontier-{len(found) + 1}"))
    if found:
        return tuple(found)
    return (Missing(title=title, reason=no_cost(entries) or "there are no two points of the same work to choose from"),)


def costs(entries: Sequence[Entry]) -> tuple[Bars | Missing, ...]:
    """What a million samples, or a run, cost at each point."""
    found: list[Bars] = []
    for one, currency, members in _priced(entries):
        question = _RUN if _is_timed(members) else _SAMPLES
        told = [(entry, cost) for entry in members if (cost := question.cost(entry.point)) is not None]
        if told:
            found.append(_bars(one, currency, question, told, name=f"cost-{len(found) + 1}"))
    return tuple(found) or (Missing(title="Cost", reason=no_cost(entries) or points.nothing(entries)),)


def no_cost(entries: Sequence[Entry]) -> str | None:
    """Why nothing has a cost, in a sentence without its end; None where something has one."""
    if any(entry.point.cost for entry in entries):
        return None
    if not any(entry.point.throughput for entry in entries):
        return points.nothing(entries)
    reasons = dict.fromkeys(
        reason for entry in entries if entry.point.throughput and (reason := _unpriced(entry)) is not None
    )
    return "; ".join(reasons) or "no price: the points have no cost"


def _unpriced(entry: Entry) -> str | None:
    pool = entry.point.pool
    if entry.point.workload == workloads.MESSAGES:
        return f"{workloads.MESSAGES} trains nothing that is paid for"
    spec = points.planned_pool(entry.plan, pool)
    if entry.plan is None or spec is None:
        return None
    without = price.without_exchange(entry.plan, pool)
    if without is not None:
        return without
    return f"no price: pool {pool} has neither price nor ownership" if price.rate(spec.spec) is None else None


def _frontier(one: str, currency: str, question: _Question, offers: Sequence[_Offer], *, name: str) -> Curves:
    unit = text.time_unit(offer.seconds.mean for offer in offers)
    best = _not_dominated(offers)
    groups = _pools_told_apart(offers, best)
    corners = tuple((offer.seconds.mean / unit.seconds, float(offer.cost.mean)) for offer in best)
    marks = {group: tuple(_offered(offer, unit, best) for offer in members) for group, members in groups.items()}
    times = [offer.seconds.mean for offer in offers]
    amounts = [float(offer.cost.mean) for offer in offers]
    hollow = points.HOLLOW if any(points.is_hollow(offer.entry.point) for offer in offers) else ""
    intervals = "bars are 95 % intervals, " if any(offer.seconds.low is not None for offer in offers) else ""
    return Curves(
        name=name,
        title=f"Time against cost: {one}, {question.what}",
        description=(
            f"{unit.name.capitalize()} and {currency} for {question.what}; {intervals}numbers beside marks are "
            f"workers. On the frontier, where no other point is both faster and cheaper on average: "
            f"{_listed(best)}.{hollow}"
        ),
        x=Axis(title=unit.name, logarithmic=_is_wide(times), from_zero=True),
        y=Axis(title=currency, logarithmic=_is_wide(amounts), from_zero=True),
        series=tuple(Series(name=group, marks=found, joined=False) for group, found in marks.items()),
        columns=(
            Column(title="POOL"),
            Column(title="POINT"),
            Column(title=unit.name.upper(), numeric=True),
            Column(title="COST", numeric=True),
        ),
        steps=corners if len(corners) > 1 else (),
        steps_name="frontier",
    )


def _offered(offer: _Offer, unit: text.TimeUnit, best: Sequence[_Offer]) -> Mark:
    seconds = points.scaled(offer.seconds, 1 / unit.seconds)
    point = offer.entry.point
    return Mark(
        x=seconds.mean,
        x_low=seconds.low,
        x_high=seconds.high,
        y=float(offer.cost.mean),
        y_low=_float(offer.cost.low),
        y_high=_float(offer.cost.high),
        label=str(point.workers) if any(offer is one for one in best) else "",
        hollow=points.is_hollow(point),
        said=(
            points.shape_name(offer.entry),
            text.bounded(offer.seconds, per=unit.seconds),
            text.money(offer.cost),
        ),
    )


def _not_dominated(offers: Sequence[_Offer]) -> list[_Offer]:
    """Offers than which no other is both faster and cheaper on average, the fastest first (V. Pareto, 1906)."""
    found: list[_Offer] = []
    for offer in sorted(offers, key=lambda one: (one.seconds.mean, Decimal(one.cost.mean))):
        if not found or Decimal(offer.cost.mean) < Decimal(found[-1].cost.mean):
            found.append(offer)
    return found


def _pools_told_apart(offers: Sequence[_Offer], best: Sequence[_Offer]) -> dict[str, list[_Offer]]:
    """Offers by pool; where there are too many pools, those that are not on the frontier are one group."""
    groups = points.grouped(offers, lambda offer: points.pool_name(offer.entry))
    if len(groups) <= points.SERIES_MAX:
        return groups
    kept = dict.fromkeys([*(points.pool_name(offer.entry) for offer in best), *groups])
    named = list(kept)[: points.SERIES_MAX - 1]
    rest = [offer for name, members in groups.items() if name not in named for offer in members]
    return {**{name: groups[name] for name in named}, f"{len(groups) - len(named)} other pools": rest}


def _bars(
    one: str, currency: str, question: _Question, told: Sequence[tuple[Entry, AmountInterval]], *, name: str
) -> Bars:
    ordered = sorted(told, key=lambda pair: Decimal(pair[1].mean))
    shown = ordered[:BARS_MAX]
    rest = f" The {BARS_MAX} cheapest of {len(ordered)}; the others are in the table." if shown != ordered else ""
    hollow = " Hatched: not run, or never settled." if any(points.is_hollow(entry.point) for entry, _ in shown) else ""
    intervals = " Thin lines are 95 % intervals." if any(cost.low is not None for _, cost in shown) else ""
    return Bars(
        name=name,
        title=f"Cost: {one}, {question.what}",
        description=(
            f"Marginal cost in {currency} of {question.what}: hourly price over speed. Start-up, billing steps and "
            f"idle time come on top.{intervals}{rest}{hollow}"
        ),
        axis=Axis(title=currency, from_zero=True),
        bars=tuple(
            Bar(
                name=points.name(entry),
                value=float(cost.mean),
                low=_float(cost.low),
                high=_float(cost.high),
                hollow=points.is_hollow(entry.point),
                said=text.money(cost),
            )
            for entry, cost in shown
        ),
        columns=(Column(title="POINT"), Column(title="COST", numeric=True)),
    )


def _priced(entries: Sequence[Entry]) -> list[tuple[str, str, Sequence[Entry]]]:
    """Points with a cost, by what may be drawn together."""
    told = [entry for entry in entries if entry.point.cost is not None]
    groups = points.together(told, but_for=lambda entry: _currency(entry.point))
    return [(title, _currency(members[0].point), members) for title, members in groups]


def _questions(members: Sequence[Entry]) -> list[_Question]:
    goals = dict.fromkeys(goal.name for entry in members for goal in entry.point.goals)
    asked = [_goal(name) for name in goals]
    if _is_timed(members):
        return [*asked, _RUN]
    return asked or [_SAMPLES]


def _goal(name: str) -> _Question:
    def seconds(point: PointResult) -> Interval | None:
        found = next((goal for goal in point.goals if goal.name == name), None)
        return None if found is None else points.scaled(found.hours, _SECONDS_PER_HOUR)

    def cost(point: PointResult) -> AmountInterval | None:
        return next((goal.cost for goal in point.goals if goal.name == name), None)

    return _Question(what=f"goal {name}, at least", seconds=seconds, cost=cost)


def _run_seconds(point: PointResult) -> Interval | None:
    return point.training.seconds if point.training else None


def _sample_seconds(point: PointResult) -> Interval | None:
    if point.throughput is None:
        return None
    interval = Interval(mean=point.throughput.mean, low=point.throughput.low, high=point.throughput.high)
    hours = marginal.hours_to_samples(_MILLION, throughput=interval)
    return points.scaled(hours, _SECONDS_PER_HOUR)


_RUN = _Question(
    what="a run", seconds=_run_seconds, cost=lambda point: point.cost.per_run if point.cost is not None else None
)
_SAMPLES = _Question(
    what="a million samples",
    seconds=_sample_seconds,
    cost=lambda point: point.cost.per_million_samples if point.cost is not None else None,
)


def _is_timed(members: Sequence[Entry]) -> bool:
    return all(_run_seconds(entry.point) is not None for entry in members)


def _offer(entry: Entry, question: _Question) -> _Offer | None:
    seconds, cost = question.seconds(entry.point), question.cost(entry.point)
    return None if seconds is None or cost is None else _Offer(entry, seconds, cost)


def _listed(best: Sequence[_Offer]) -> str:
    names = [points.name(offer.entry) for offer in best[:_FRONTIER_NAMED]]
    if len(best) > _FRONTIER_NAMED:
        names.append(f"{len(best) - _FRONTIER_NAMED} more")
    return "; ".join(names)


def _currency(point: PointResult) -> str:
    assert point.cost is not None  # only points with a cost are grouped by it
    return next(one.currency for one in (point.cost.per_million_samples, point.cost.per_run) if one is not None)


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > _WIDE * min(values)


def _float(text: str | None) -> float | None:
    return None if text is None else float(text)
