# SPDX-License-Identifier: Apache-2.0
"""What a point's figures cost at the price of its pool: a million samples, a run, a goal. Marginal, no billing rule.

A goal's hours and cost are a lower bound: evaluation, restarts and slower convergence at large batches come on top.
"""

from collections.abc import Sequence
from decimal import Decimal

from gpubench import workloads
from gpubench.analysis import estimates, point_warnings
from gpubench.api.goals import Goal
from gpubench.api.point_result import Cost, GoalResult, PointResult
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.cost import billing
from gpubench.cost.price import Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point


def costed(plan: Plan, point: Point, result: PointResult, goals: Sequence[Goal]) -> PointResult:
    """The result with its costs and its goals; as it is where nobody knows how fast it was."""
    # The elements of a message are no samples that anybody pays for: allreduce is measured to explain the others.
    if not _is_timed(result) or result.workload == workloads.MESSAGES:
        return result
    return result.model_copy(
        update={
            "cost": _cost(plan, point, result),
            "goals": _goals(plan, point, result, goals=goals),
            "warnings": _warnings(plan, result),
        }
    )


def _is_timed(result: PointResult) -> bool:
    """Whether there is a throughput or, of an imported training, its seconds alone."""
    return result.throughput is not None or (result.training is not None and result.training.seconds is not None)


def _warnings(plan: Plan, result: PointResult) -> tuple[PointWarning, ...]:
    """Those of the result, before them why its pool's price gives no cost, and behind them that it is an old one."""
    without = pool_prices.without_exchange(plan, result.pool)
    if without is not None:
        return (point_warnings.warning(WarningReason.NO_COST, without), *result.warnings)
    if plan.imported is not None:  # the prices are of the publication's time, as its figures are
        return result.warnings
    stale = pool_prices.stale_price(plan.pool(result.pool), planned_at=plan.planned_at)
    if stale is None:
        return result.warnings
    return (*result.warnings, point_warnings.warning(WarningReason.PRICE_STALE, stale))


def _cost(plan: Plan, point: Point, result: PointResult) -> Cost | None:
    rate = pool_prices.planned_rate(plan, point.key.pool)
    if rate is None:
        return None
    nodes = plan.paid_nodes(point)
    amounts = None
    if result.throughput is not None:
        samples = billing.cost_of_samples_interval(rate, nodes=nodes, throughput=result.throughput)
        amounts = estimates.amounts(samples)
        if amounts is None:
            return None
    seconds = result.training.seconds if result.training is not None else None
    if seconds is None:
        return Cost(per_million_samples=amounts)
    run = billing.cost_of_run_interval(rate, nodes=nodes, seconds=seconds)
    return Cost(per_million_samples=amounts, per_run=estimates.amounts(run))


def _goals(plan: Plan, point: Point, result: PointResult, *, goals: Sequence[Goal]) -> tuple[GoalResult, ...]:
    if result.throughput is None:
        return ()
    rate = pool_prices.planned_rate(plan, point.key.pool)
    nodes = plan.paid_nodes(point)
    return tuple(_goal(goal, result, rate=rate, nodes=nodes) for goal in goals if goal.workload == result.workload)


def _goal(goal: Goal, result: PointResult, *, rate: Rate | None, nodes: Decimal) -> GoalResult:
    assert result.throughput is not None  # the caller has looked
    throughput = result.throughput
    cost = rate and billing.cost_of_samples_interval(
        rate, nodes=nodes, throughput=throughput, samples=Decimal(goal.samples)
    )
    return GoalResult(
        name=goal.name,
        hours=billing.hours_to_samples_interval(goal.samples, throughput=throughput),
        cost=estimates.amounts(cost) if cost else None,
    )
