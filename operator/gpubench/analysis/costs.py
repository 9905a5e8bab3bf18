# SPDX-License-Identifier: Apache-2.0
"""What a point costs: marginal costs at its pool's price, the prices behind them, and what its attempts are billed.

A goal's hours and cost are a lower bound: evaluation, restarts and slower convergence at large batches come on top.
Billed is what is paid: every node by the provider's increment and minimum, fees, and attempts without a result.
Must not happen: marginal and billed mixed; an attempt whose pods nobody saw that counts as free.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench import workloads
from gpubench.analysis import warnings
from gpubench.api.goals import Goal
from gpubench.api.point_result import AmountInterval, BillParts, Cost, GoalResult, PointBill, PointResult
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import PriceUsed
from gpubench.api.status_sizes import SOURCE_MAX
from gpubench.cost import billing, price
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.scheduler import account, conditions
from gpubench.scheduler.ledger import AttemptRecord, Outcome

_AMOUNT_MAX = Decimal(10) ** 12  # what the schema takes; the throughput may be as good as zero
_DIGITS = 12  # of an amount: a status of 256 points has room for no more
_COST_PLACES = 9  # at most: a million samples of a small network cost thousandths of a cent
_BILL_PLACES = 6  # at most


def costed(plan: Plan, point: Point, result: PointResult, goals: Sequence[Goal]) -> PointResult:
    """The result with its costs and its goals; as it is where nobody knows how fast it was."""
    seconds = result.training.seconds if result.training is not None else None
    # The elements of a message are no samples that anybody pays for: allreduce is measured to explain the others.
    if (result.throughput is None and seconds is None) or result.workload == workloads.MESSAGES:
        return result
    rate, nodes = pool_prices.planned_rate(plan, point.key.pool), plan.paid_nodes(point)
    million = None
    if rate is not None and result.throughput is not None:
        million = amounts(billing.cost_of_samples_interval(rate, nodes=nodes, throughput=result.throughput))
    run = amounts(billing.cost_of_run_interval(rate, nodes=nodes, seconds=seconds)) if rate and seconds else None
    cost = Cost(per_million_samples=million, per_run=run) if rate and (million or not result.throughput) else None
    found: list[GoalResult] = []
    if result.throughput is not None:
        for goal in (goal for goal in goals if goal.workload == result.workload):
            of_goal = rate and billing.cost_of_samples_interval(
                rate, nodes=nodes, throughput=result.throughput, samples=Decimal(goal.samples)
            )
            hours = billing.hours_to_samples_interval(goal.samples, throughput=result.throughput)
            found.append(GoalResult(name=goal.name, hours=hours, cost=amounts(of_goal) if of_goal else None))
    return result.model_copy(update={"cost": cost, "goals": tuple(found), "warnings": _warnings(plan, result)})


def _warnings(plan: Plan, result: PointResult) -> tuple[PointWarning, ...]:
    """Those of the result, before them why its pool's price gives no cost, and behind them that it is an old one."""
    if (without := pool_prices.without_exchange(plan, result.pool)) is not None:
        return (warnings.warning(WarningReason.NO_COST, without), *result.warnings)
    odd = (warnings.warning(WarningReason.PRICE_STALE, said) for said in pool_prices.odd_dates(plan, result.pool))
    return (*result.warnings, *odd)


def amount_text(amount: Decimal) -> str | None:
    """An amount as status holds it; None for one that does not fit."""
    return None if amount >= _AMOUNT_MAX else f"{price.rounded(amount, digits=_places(amount, most=_COST_PLACES)):f}"


def _places(amount: Decimal, *, most: int) -> int:
    return min(most, max(0, _DIGITS - 1 - amount.adjusted()))


def amounts(cost: billing.CostInterval) -> AmountInterval | None:
    """The amounts as status holds them: a bound that does not fit is left open, with a mean that does not, no cost."""
    mean, low, high = (None if one is None else amount_text(one) for one in (cost.mean, cost.low, cost.high))
    return None if mean is None else AmountInterval(mean=mean, low=low, high=high, currency=cost.currency)


def prices_used(plan: Plan) -> tuple[PriceUsed, ...]:
    """Of the pools of the plan that have a price in its currency."""
    return tuple(one for pool in plan.pools if (one := price_used(plan, pool)) is not None)


def price_used(plan: Plan, pool: GpuPool) -> PriceUsed | None:
    """Of one of the plan's pools; None where it has no price in the plan's currency."""
    terms = pool_prices.planned_terms(plan, pool.name)
    read = pool.spec.price or pool.spec.ownership
    per_node_hour = None if terms is None else _without_zeros(terms.rate.per_node_hour)
    if terms is None or read is None or per_node_hour is None:
        return None
    moved = pool_prices.planned_range(plan, pool.name)
    rate = pool_prices.exchange_rate(plan, currency=read.currency) if read.currency != terms.rate.currency else None
    return PriceUsed(
        pool=pool.name,
        per_node_hour=per_node_hour,
        currency=terms.rate.currency,
        as_of=read.as_of,
        source=conditions.clamped(read.source, SOURCE_MAX) or None,
        discount=None if plan.pool(pool.name).spec.price is None else pool.spec.price and pool.spec.price.discount,
        low=None if moved is None else _without_zeros(moved.low.per_node_hour),
        high=None if moved is None else _without_zeros(moved.high.per_node_hour),
        period=None if moved is None else moved.period,
        setup=None if terms.setup is None else _without_zeros(terms.setup.value),
        exchange_rate=None if rate is None else rate.rate,
        exchanged_from=None if rate is None else rate.from_currency,
        exchange_as_of=None if rate is None else rate.as_of,
    )


def _without_zeros(amount: Decimal) -> str | None:
    """As a status holds it, without the zeros at its end; None for one that does not fit."""
    return None if (found := amount_text(amount)) is None else f"{Decimal(found).normalize():f}"


# --- what was billed --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Paid:
    """What the attempts at a point were billed, one by one."""

    attempts: tuple[tuple[AttemptRecord, billing.Waterfall], ...]  # those of which something is known
    ended: int
    incomplete: int  # attempts that held nodes for longer than is known


def runs(record: AttemptRecord) -> tuple[tuple[billing.NodeTime, ...], ...]:
    """How long each node was held, by run of an attempt: those that Kueue has ended, oldest first, and its last."""
    ended_early = (
        tuple(
            billing.NodeTime(held=_milliseconds(account.held(scheduled, ended) / run.summed), is_lost=True)
            for scheduled, _, ended in run.pod_times
        )
        for run in record.segments
        for _ in range(run.summed)
    )
    joined = None  # when all pods had met, after the Job was created; a single pod waits for nobody
    if record.result is not None and record.pod_times and (began := record.pod_times[0][1]) is not None:
        joined = began + (record.result.join_seconds if len(record.pod_times) > 1 else 0.0)
    last = tuple(
        billing.NodeTime(
            held=_milliseconds(account.held(scheduled, ended)),
            started=None if running is None else _milliseconds(max(0.0, running - scheduled)),
            joined=None if joined is None else _milliseconds(max(0.0, joined - scheduled)),
        )
        for scheduled, running, ended in record.pod_times
    )
    return (*ended_early, last)


def ended_at(trials: Sequence[Trial], attempts: Mapping[str, Sequence[AttemptRecord]]) -> list[AttemptRecord]:
    """The attempts at a point that have ended, repeat by repeat."""
    return [record for trial in trials for record in attempts.get(trial.id, ()) if record.outcome is not None]


def with_bills(
    plan: Plan, results: Sequence[PointResult], attempts: Mapping[str, Sequence[AttemptRecord]]
) -> tuple[PointResult, ...]:
    """The results with what their attempts, given by trial, are billed."""
    found = list(results)
    for index, (point, trials) in enumerate(zip(plan.points, plan.repeats_of_points(), strict=True)):
        if records := ended_at(trials, attempts):
            known = paid(plan, point, records)
            found[index] = found[index].model_copy(update={"bill": None if known is None else bill_of(known)})
    return tuple(found)


def paid(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> Paid | None:
    """What each ended attempt at a point was billed; None without a price, or where no time of a node is known."""
    if (terms := pool_prices.planned_terms(plan, point.key.pool)) is None:
        return None
    incomplete = {record.key for record in records if account.is_incomplete(record, nodes=point.nodes)}
    share, attempts = pool_prices.paid_share(plan, point), []
    for record in records:
        *ended_early, last = runs(record)
        nodes = (*last, *itertools.chain.from_iterable(ended_early))
        if nodes or record.key not in incomplete:
            attempts.append((record, billing.waterfall(terms, nodes=nodes, work=work_of(record, point), share=share)))
    return Paid(attempts=tuple(attempts), ended=len(records), incomplete=len(incomplete)) if attempts else None


def bill_of(found: Paid) -> PointBill | None:
    """The bill as a status has it; None of an amount that it cannot hold."""
    exact = billing.combined([bill for _, bill in found.attempts])
    if exact.total >= _AMOUNT_MAX:
        return None
    places = _places(exact.total, most=_BILL_PLACES)
    whole = exact.rounded(digits=places)
    succeeded = [bill.total for record, bill in found.attempts if record.outcome is Outcome.SUCCEEDED]
    per_run = price.rounded(sum(succeeded, Decimal(0)) / len(succeeded), digits=places) if succeeded else None
    return PointBill(
        total=f"{whole.total:f}",
        currency=whole.currency,
        per_run=None if per_run is None else f"{per_run:f}",
        attempts=found.ended,
        incomplete=found.incomplete or None,
        parts=BillParts(**{part.value: f"{amount:f}" for part, amount in whole.parts.items()}),
    )


def work_of(record: AttemptRecord, point: Point) -> billing.Work | None:
    """What the gang of an attempt did after its pods had met; None without a result."""
    if (result := record.result) is None:
        return None
    alone = _milliseconds(result.join_seconds) if point.nodes == 1 else Decimal(0)  # a single pod waits for nobody
    # Of a training that earlier attempts had begun the figures are those of the whole training.
    carried = Decimal(0) if result.resumed is None else _milliseconds(result.resumed.useful_seconds)
    return billing.Work(
        start_up=_milliseconds(result.init_seconds) + alone,
        warm_up=None if result.warm_up_nanoseconds is None else Decimal(result.warm_up_nanoseconds) / 10**9,
        measured=max(Decimal(0), Decimal(result.measured_nanoseconds) / 10**9 - carried),
    )


def _milliseconds(seconds: float) -> Decimal:
    """A time as it is written: a binary fraction would be billed for its last digit."""
    return Decimal(f"{seconds:.3f}")
