# SPDX-License-Identifier: Apache-2.0
"""What attempts are billed, from the ledger and the plan's prices: each attempt by itself, and all of a point.

Billed is what is paid: every node by the provider's increment and minimum, fees, and attempts that came to nothing.
`costs` is marginal. The two are never mixed. Must not happen: an attempt whose pods nobody saw that counts as free.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench.analysis import estimates
from gpubench.api.point_result import BillParts, PointBill, PointResult, StartUp
from gpubench.cost import billing, price
from gpubench.cost.billing import Bill, NodeTime, Waterfall, Work
from gpubench.cost.price import Amount
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.records import Result
from gpubench.scheduler import account
from gpubench.scheduler.ledger import AttemptRecord, Outcome

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


def of_attempt(plan: Plan, point: Point, record: AttemptRecord) -> Bill | None:
    """The bill of an attempt that has ended; None where its pool has no price. Setup is not in it (`setup`)."""
    terms = pool_prices.planned_terms(plan, point.key.pool)
    if terms is None:
        return None
    seconds = [node.held for node in node_times(record)]
    return billing.attempt_bill(terms, node_seconds=seconds, share=pool_prices.paid_share(plan, point))


def setup(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Amount, ...]:
    """What was paid once for each pool on which an attempt has held a node."""
    pool_of = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}
    pools = dict.fromkeys(pool_of[record.trial] for record in records if record.trial in pool_of and node_times(record))
    found = (terms.setup for pool in pools if (terms := pool_prices.planned_terms(plan, pool)) is not None)
    return tuple(paid for paid in found if paid is not None)


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
    if not estimates.fits(exact.total):
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
        measured=max(Decimal(0), _seconds(_measured_nanoseconds(result)) - _carried(result)),
    )


def _carried(result: Result) -> Decimal:
    """Seconds of a training that earlier attempts had done: its figures are those of the whole training."""
    return Decimal(0) if result.resumed is None else _decimal(result.resumed.useful_seconds)


def _measured_nanoseconds(result: Result) -> int:
    return result.nanoseconds + (result.training.evaluation_nanoseconds if result.training is not None else 0)


def _startup(records: Sequence[AttemptRecord]) -> StartUp | None:
    """Of the attempts with a result."""
    told = [(record, record.result) for record in records if record.result is not None]
    if not told:
        return None
    times = [record.pod_times for record, _ in told if record.pod_times]
    admitted = [record.admitted_at or 0.0 for record, _ in told if record.pod_times]
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
        join=_mean([result.join_seconds for _, result in told]),
        init=_mean([result.init_seconds for _, result in told]),
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
