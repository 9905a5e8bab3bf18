# SPDX-License-Identifier: Apache-2.0
"""How long a study will take and what its nodes will cost, before it has run: rough, with the assumption said."""

from collections.abc import Sequence
from decimal import Decimal

from gpubench.api.benchmark import Mode
from gpubench.control import capacity
from gpubench.money import price
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.values import Value

START_UP_SECONDS = 15  # imports, rendezvous, the first step of a small model; a large one on a slow processor: a minute


class Spending(Value):
    """An amount in one currency."""

    amount: Decimal
    currency: str


class Estimate(Value):
    """Of the whole plan, if every attempt succeeds."""

    seconds: float | None  # None in mode Training: how long epochs take is what is measured
    spending: tuple[Spending, ...]  # one for each currency; pools without a price are not in it
    unpriced: tuple[str, ...]  # why a pool that has trials adds nothing to the spending, a sentence each


def estimate(plan: Plan, *, parallel_trials: int) -> Estimate:
    """Time if trials run side by side as allowed, money for the time that their nodes are held; at most."""
    return _of_trials(plan, plan.trials, parallel_trials=parallel_trials)


def least(plan: Plan, *, parallel_trials: int) -> Estimate:
    """The same if no point needs another repeat than those that all points have."""
    return _of_trials(plan, tuple(filter(plan.is_certain, plan.trials)), parallel_trials=parallel_trials)


def _of_trials(plan: Plan, trials: Sequence[Trial], *, parallel_trials: int) -> Estimate:
    seconds = trial_seconds(plan)
    amounts: dict[str, Decimal] = {}
    unpriced: dict[str, str] = {}
    for trial in trials:
        point = plan.points[trial.point]
        pool = plan.pool(point.key.pool)
        rate = price.planned_rate(plan, pool.name)
        if rate is not None and seconds is None:
            continue
        if rate is None or seconds is None:
            why = price.without_exchange(plan, pool.name)
            unpriced[pool.name] = why or f"no cost for {pool.name}: neither price nor ownership is given"
            continue
        hours = _nodes_paid(plan, point) * Decimal(seconds) / 3600
        amounts[rate.currency] = amounts.get(rate.currency, Decimal(0)) + rate.per_node_hour * hours
    return Estimate(
        seconds=None if seconds is None else seconds * -(-len(trials) // parallel_trials),
        spending=tuple(Spending(amount=amount, currency=currency) for currency, amount in amounts.items()),
        unpriced=tuple(unpriced.values()),
    )


def trial_seconds(plan: Plan) -> float | None:
    """Of one trial: start-up, warm-up and the measured time."""
    if plan.mode is Mode.TRAINING:
        return None
    return START_UP_SECONDS + plan.timing.warm_up + plan.timing.duration


def nodes_needed(plan: Plan) -> dict[str, int]:
    """The most nodes that one attempt needs, by pool."""
    needed: dict[str, int] = {}
    for trial in plan.trials:
        point = plan.points[trial.point]
        needed[point.key.pool] = max(needed.get(point.key.pool, 0), point.nodes)
    return needed


def _nodes_paid(plan: Plan, point: Point) -> Decimal:
    pool = plan.pool(point.key.pool).spec
    return Decimal(capacity.slots_of(point, pool)) / pool.slots_per_node
