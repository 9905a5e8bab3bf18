# SPDX-License-Identifier: Apache-2.0
"""How long a benchmark will take and what its attempts will be billed, before it has run: with an interval and why.

The time of an attempt is `plan.estimate`'s, its bill that of `cost.billing`. All trials of a point err in the same
direction, and so may all points: the ends of the whole are those at which every trial is at its short or its long end.
What failures, preemptions and waiting add is not in it.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import NamedTuple

from gpubench.cost import billing
from gpubench.cost.billing import CostInterval
from gpubench.plan import estimate, pool_prices
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.scheduler import account
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.values import Interval


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is expected of one attempt at a point."""

    seconds: estimate.Estimate
    cost: CostInterval | None  # None where the pool has no price


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """Of a whole plan, if every attempt succeeds."""

    points: tuple[Outlook | None, ...]  # None for one that is not run, or of which nothing can be assumed
    unpriced: tuple[str, ...]  # why a pool that has trials adds nothing to the cost, a sentence each
    seconds: Interval | None = None  # None where a point that is run has no outlook
    reserve: Decimal = Decimal(0)  # that a budget must have beyond the high end, or the dearest attempt may not start
    cost: tuple[CostInterval, ...] = ()  # one for each currency; empty where a point that is run has no outlook


class Earlier(NamedTuple):
    """A benchmark that has run, as its plan and ledger have it."""

    plan: Plan
    ledger: Ledger


def forecast(plan: Plan, *, parallel_trials: int, earlier: Sequence[Earlier] = ()) -> Forecast:
    """The forecast of a plan, from benchmarks of before where they have attempts at the same points."""
    points = tuple(_outlook(plan, point, earlier) if point.runs else None for point in plan.points)
    scenarios = (("mean", plan.trials), ("low", tuple(filter(plan.is_certain, plan.trials))), ("high", plan.trials))
    found = Forecast(
        points=points,
        unpriced=tuple(
            pool_prices.without_exchange(plan, pool) or f"no cost for {pool}: neither price nor ownership is given"
            for pool in sorted(plan.pools_run)
            if pool_prices.planned_terms(plan, pool) is None
        ),
    )
    if any(points[trial.point] is None for trial in plan.trials):
        return found
    mean, low, high = (_makespan(points, trials, end=end, parallel=parallel_trials) for end, trials in scenarios)
    amounts, lows, highs = (_sums(plan, points, trials, end=end) for end, trials in scenarios)
    return replace(
        found,
        reserve=_reserve(plan, points),
        seconds=Interval(mean=mean, low=low, high=high),
        cost=tuple(CostInterval(mean=amounts[one], low=lows[one], high=highs[one], currency=one) for one in amounts),
    )


def earlier_seconds(plan: Plan, point: Point, earlier: Iterable[Earlier]) -> Iterator[float]:
    """How long attempts of earlier benchmarks held their nodes that did the same as one at this point and succeeded."""
    for study in earlier:
        alike = {
            trial.id
            for trial in study.plan.trials
            if estimate.is_alike(plan, point, study.plan, study.plan.points[trial.point])
        }
        for record in study.ledger.records:
            if record.trial in alike and record.outcome is Outcome.SUCCEEDED:
                yield from [max(held)] if (held := account.held_seconds(record)) else []


def nodes_needed(plan: Plan) -> dict[str, int]:
    """The most nodes that one attempt needs, by pool."""
    points = sorted((plan.points[trial.point] for trial in plan.trials), key=lambda point: point.nodes)
    return {point.key.pool: point.nodes for point in points}  # the last one, with the most nodes, stays


def _outlook(plan: Plan, point: Point, earlier: Sequence[Earlier]) -> Outlook | None:
    seconds = estimate.of_point(plan, point, earlier=tuple(earlier_seconds(plan, point, earlier)))
    terms = pool_prices.planned_terms(plan, point.key.pool)
    if seconds is None or terms is None:
        return None if seconds is None else Outlook(seconds=seconds, cost=None)
    mean, low, high = (_billed(plan, point, terms, held) for held in (seconds.mean, seconds.low, seconds.high))
    return Outlook(seconds=seconds, cost=CostInterval(mean=mean, low=low, high=high, currency=terms.rate.currency))


def _billed(plan: Plan, point: Point, terms: billing.Terms, held: float) -> Decimal:
    """What one attempt is billed, each of its nodes rounded up by itself; setup is not in it."""
    lives = [Decimal(f"{held:.3f}")] * point.nodes
    return billing.attempt_bill(terms, node_seconds=lives, share=pool_prices.paid_share(plan, point)).total.value


def _reserve(plan: Plan, points: Sequence[Outlook | None]) -> Decimal:
    """Each attempt, also the last one, starts only where the budget has room for it and for stopping it."""
    found = Decimal(0)
    for point, outlook in zip(plan.points, points, strict=True):
        terms = pool_prices.planned_terms(plan, point.key.pool) if point.runs else None
        if terms is not None and outlook is not None and outlook.cost is not None:
            longest = max(estimate.trial_seconds(plan) or 0.0, outlook.seconds.high)
            needed = _billed(plan, point, terms, longest + account.STOPPING_SECONDS)
            found = max(found, needed - (outlook.cost.high or outlook.cost.mean))
    return found


def _makespan(points: Sequence[Outlook | None], trials: Iterable[Trial], *, end: str, parallel: int) -> float:
    """How long it takes if each trial starts, in order, as soon as one of so many places is free."""
    places = [0.0] * parallel
    for trial in trials:
        if (outlook := points[trial.point]) is not None:
            heapq.heapreplace(places, places[0] + getattr(outlook.seconds, end))
    return max(places)


def _sums(plan: Plan, points: Sequence[Outlook | None], trials: Sequence[Trial], *, end: str) -> dict[str, Decimal]:
    """By currency, each pool's setup once."""
    found: dict[str, Decimal] = defaultdict(Decimal)
    for trial in trials:
        if (outlook := points[trial.point]) is not None and outlook.cost is not None:
            found[outlook.cost.currency] += getattr(outlook.cost, end)
    for pool in {plan.points[trial.point].key.pool for trial in trials}:
        if (terms := pool_prices.planned_terms(plan, pool)) is not None and terms.setup is not None:
            found[terms.setup.currency] += terms.setup.value
    return found
