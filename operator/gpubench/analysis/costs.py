# SPDX-License-Identifier: Apache-2.0
"""What a point costs: marginal costs at its pool's price, the prices behind them, and what its attempts are billed.

A goal's hours and cost are a lower bound: evaluation, restarts and slower convergence at large batches come on top.
Billed is what is paid: every node by the provider's increment and minimum, fees, and attempts that came to nothing.
Marginal and billed are never mixed. Must not happen: an attempt whose pods nobody saw that counts as free.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench import workloads
from gpubench.analysis import warnings
from gpubench.api.goals import Goal
from gpubench.api.point_result import AmountInterval, BillParts, Cost, GoalResult, PointBill, PointResult, StartUp
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import PriceUsed
from gpubench.api.status_sizes import PRICES_SHOWN_MAX, SOURCE_MAX
from gpubench.cost import billing, price
from gpubench.cost.billing import CostInterval, NodeTime, Waterfall, Work
from gpubench.cost.price import Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.records import Result
from gpubench.scheduler import account, conditions
from gpubench.scheduler.ledger import AttemptRecord, Outcome

_COST_MAX = Decimal(10) ** 12  # what the schema takes; the throughput may be as good as zero
_COST_PLACES = 9  # at most: a million samples of a small network cost thousandths of a cent
_COST_DIGITS = 12  # a status of 256 points has room for no more


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
        return (warnings.warning(WarningReason.NO_COST, without), *result.warnings)
    if plan.imported is not None:  # the prices are of the publication's time, as its figures are
        return result.warnings
    stale = pool_prices.stale_price(plan.pool(result.pool), planned_at=plan.planned_at)
    if stale is None:
        return result.warnings
    return (*result.warnings, warnings.warning(WarningReason.PRICE_STALE, stale))


def _cost(plan: Plan, point: Point, result: PointResult) -> Cost | None:
    rate = pool_prices.planned_rate(plan, point.key.pool)
    if rate is None:
        return None
    nodes = plan.paid_nodes(point)
    million = None
    if result.throughput is not None:
        million = amounts(billing.cost_of_samples_interval(rate, nodes=nodes, throughput=result.throughput))
        if million is None:
            return None
    seconds = result.training.seconds if result.training is not None else None
    if seconds is None:
        return Cost(per_million_samples=million)
    run = billing.cost_of_run_interval(rate, nodes=nodes, seconds=seconds)
    return Cost(per_million_samples=million, per_run=amounts(run))


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
        cost=amounts(cost) if cost else None,
    )


def fits(amount: Decimal) -> bool:
    """Whether the schema takes an amount."""
    return amount < _COST_MAX


def amount_text(amount: Decimal) -> str | None:
    """An amount as status holds it; None for one that does not fit."""
    if not fits(amount):
        return None
    places = min(_COST_PLACES, max(0, _COST_DIGITS - 1 - amount.adjusted()))
    return f"{price.rounded(amount, digits=places):f}"


def amounts(cost: CostInterval) -> AmountInterval | None:
    """The amounts as status holds them: a bound that does not fit is left open, with a mean that does not, no cost."""

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else amount_text(amount)

    mean = text(cost.mean)
    if mean is None:
        return None
    return AmountInterval(mean=mean, low=text(cost.low), high=text(cost.high), currency=cost.currency)


# --- prices -----------------------------------------------------------------------------------------------------------


def prices_used(plan: Plan) -> tuple[PriceUsed, ...]:
    """Of the first pools of the plan that have a price in its currency."""
    found = (price_used(plan, pool) for pool in plan.pools)
    return tuple(one for one in found if one is not None)[:PRICES_SHOWN_MAX]


def price_used(plan: Plan, pool: GpuPool) -> PriceUsed | None:
    """Of one of the plan's pools; None where it has no price in the plan's currency."""
    terms = pool_prices.planned_terms(plan, pool.name)
    read = pool.spec.price or pool.spec.ownership
    per_node_hour = None if terms is None else _text(terms.rate.per_node_hour)
    if terms is None or read is None or per_node_hour is None:
        return None
    moved = pool_prices.planned_range(plan, pool.name)
    exchanged = read.currency != terms.rate.currency
    rate = pool_prices.exchange_rate(plan, currency=read.currency) if exchanged else None
    return PriceUsed(
        pool=pool.name,
        per_node_hour=per_node_hour,
        currency=terms.rate.currency,
        as_of=read.as_of,
        source=conditions.clamped(read.source, SOURCE_MAX) or None,
        low=None if moved is None else _text(moved.low.per_node_hour),
        high=None if moved is None else _text(moved.high.per_node_hour),
        period=None if moved is None else moved.period,
        setup=None if terms.setup is None else _text(terms.setup.value),
        exchange_rate=None if rate is None else rate.rate,
        exchanged_from=None if rate is None else rate.from_currency,
        exchange_as_of=None if rate is None else rate.as_of,
    )


def _text(amount: Decimal) -> str | None:
    """As a status holds it, without the zeros at its end; None for one that does not fit."""
    text = amount_text(amount)
    return None if text is None else f"{Decimal(text).normalize():f}"


# --- what was billed --------------------------------------------------------------------------------------------------

_PLACES = 6  # at most, of an amount in a status
_DIGITS_OF_AMOUNTS = 12
_DIGITS_OF_SECONDS = 4  # a status holds 256 of each


@dataclass(frozen=True, kw_only=True)
class PaidAttempt:
    """An attempt that has ended, and its bill."""

    record: AttemptRecord
    bill: Waterfall


@dataclass(frozen=True, kw_only=True)
class Paid:
    """What the attempts at a point were billed, one by one."""

    attempts: tuple[PaidAttempt, ...]  # those of which something is known
    ended: int
    incomplete: int  # attempts that held nodes for longer than is known


def node_times(record: AttemptRecord) -> tuple[NodeTime, ...]:
    """How long each node of an attempt was held, and what is known of that time, runs that Kueue has ended last."""
    *ended_early, last = runs(record)
    return (*last, *itertools.chain.from_iterable(ended_early))


def runs(record: AttemptRecord) -> tuple[tuple[NodeTime, ...], ...]:
    """The same of each run of the attempt, oldest first: those that Kueue has ended, and its last one."""
    ended_early = (
        tuple(
            NodeTime(held=_decimal(account.held(scheduled, ended)), is_lost=True)
            for scheduled, _, ended in run.pod_times
        )
        for run in record.segments
    )
    return (*ended_early, _of_last_run(record))


def _of_last_run(record: AttemptRecord) -> tuple[NodeTime, ...]:
    joined = _joined(record)
    return tuple(
        NodeTime(
            held=_decimal(account.held(scheduled, ended)),
            started=None if running is None else _decimal(max(0.0, running - scheduled)),
            joined=None if joined is None else _decimal(max(0.0, joined - scheduled)),
        )
        for scheduled, running, ended in record.pod_times
    )


def _joined(record: AttemptRecord) -> float | None:
    """When all pods of a gang had met, after its Job was created. A single pod waits for nobody."""
    if record.result is None or not record.pod_times or record.pod_times[0][1] is None:
        return None
    return record.pod_times[0][1] + (record.result.join_seconds if len(record.pod_times) > 1 else 0.0)


def ended_at(trials: Sequence[Trial], attempts: Mapping[str, Sequence[AttemptRecord]]) -> list[AttemptRecord]:
    """The attempts at a point that have ended, repeat by repeat."""
    return [record for trial in trials for record in attempts.get(trial.id, ()) if record.outcome is not None]


def with_bills(
    plan: Plan, results: Sequence[PointResult], attempts: Mapping[str, Sequence[AttemptRecord]]
) -> tuple[PointResult, ...]:
    """The results with what their attempts, given by trial, are billed, and with how they started."""
    of_points = (ended_at(trials, attempts) for trials in plan.repeats_of_points())
    return tuple(
        result.model_copy(update={"bill": _bill(plan, point, records), "startup": _startup(records)})
        if records
        else result
        for point, result, records in zip(plan.points, results, of_points, strict=True)
    )


def paid(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> Paid | None:
    """What each of the attempts that have ended at a point was billed.

    None where its pool has no price, or nobody knows how long any of them held a node.
    """
    terms = pool_prices.planned_terms(plan, point.key.pool)
    if terms is None:
        return None
    incomplete = {record.key for record in records if account.is_incomplete(record, nodes=point.nodes)}
    share = pool_prices.paid_share(plan, point)
    attempts = tuple(
        PaidAttempt(record=record, bill=billing.waterfall(terms, nodes=nodes, work=work_of(record, point), share=share))
        for record in records
        if (nodes := node_times(record)) or record.key not in incomplete
    )
    if not attempts:
        return None
    return Paid(attempts=attempts, ended=len(records), incomplete=len(incomplete))


def bill_of(found: Paid) -> PointBill | None:
    """The bill as a status has it; None of an amount that it cannot hold."""
    exact = billing.combined([one.bill for one in found.attempts])
    if not fits(exact.total):
        return None
    places = min(_PLACES, max(0, _DIGITS_OF_AMOUNTS - 1 - exact.total.adjusted()))
    whole = exact.rounded(digits=places)
    runs = [one.bill.total for one in found.attempts if one.record.outcome is Outcome.SUCCEEDED]
    return PointBill(
        total=f"{whole.total:f}",
        currency=whole.currency,
        per_run=f"{price.rounded(sum(runs, Decimal(0)) / len(runs), digits=places):f}" if runs else None,
        attempts=found.ended,
        incomplete=found.incomplete or None,
        parts=BillParts(**{part.value: f"{amount:f}" for part, amount in whole.parts.items()}),
    )


def _bill(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> PointBill | None:
    found = paid(plan, point, records)
    return None if found is None else bill_of(found)


def work_of(record: AttemptRecord, point: Point) -> Work | None:
    """What the gang of an attempt did after its pods had met; None without a result."""
    result = record.result
    if result is None:
        return None
    alone = _decimal(result.join_seconds) if point.nodes == 1 else Decimal(0)  # a single pod waits for nobody
    warm_up = result.warm_up_nanoseconds
    return Work(
        start_up=_decimal(result.init_seconds) + alone,
        warm_up=None if warm_up is None else _seconds(warm_up),
        measured=max(Decimal(0), _seconds(result.measured_nanoseconds) - _carried(result)),
    )


def _carried(result: Result) -> Decimal:
    """Seconds of a training that earlier attempts had done: its figures are those of the whole training."""
    return Decimal(0) if result.resumed is None else _decimal(result.resumed.useful_seconds)


def _startup(records: Sequence[AttemptRecord]) -> StartUp | None:
    """Of the attempts with a result."""
    measured = [(record, record.result) for record in records if record.result is not None]
    if not measured:
        return None
    times = [record.pod_times for record, _ in measured if record.pod_times]
    admitted = [record.admitted_at or 0.0 for record, _ in measured if record.pod_times]
    pulls = [
        max(running - scheduled for scheduled, running, _ in of_pods if running is not None)
        for of_pods in times
        if any(running is not None for _, running, _ in of_pods)
    ]
    return StartUp(
        queued=_mean(
            [max(scheduled for scheduled, _, _ in of_pods) - at for of_pods, at in zip(times, admitted, strict=True)]
        ),
        pull=_mean(pulls),
        join=_mean([result.join_seconds for _, result in measured]),
        init=_mean([result.init_seconds for _, result in measured]),
    )


def _mean(seconds: Sequence[float]) -> float | None:
    if not seconds:
        return None
    return float(f"{max(0.0, math.fsum(seconds) / len(seconds)):.{_DIGITS_OF_SECONDS}g}")


def _decimal(seconds: float) -> Decimal:
    """A time as it is written, to the millisecond: a binary fraction would be billed for its last digit."""
    return Decimal(f"{seconds:.3f}")


def _seconds(nanoseconds: int) -> Decimal:
    return Decimal(nanoseconds) / 10**9
