# SPDX-License-Identifier: Apache-2.0
"""Where the time of nodes went, how often they were taken away, how long it took to be back at work; by pool.

Made from the records of attempts. Seconds are those of nodes: a gang of four that waits for a minute has waited four.
Goodput is the share of the held time that was measured work. Must not happen: a share of time of which nobody saw the
whole; a rate where nothing was held; an unknown time as 0.
"""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from gpubench.analysis import costs
from gpubench.api.goodput_result import Goodput, InterruptionCounts, NodeSeconds, PoolGoodput, RecoveryTime
from gpubench.api.point_result import PointResult, PointState
from gpubench.api.price_result import OwningResult, PoolComparison, SpotResult
from gpubench.api.status_sizes import SENTENCE_MAX
from gpubench.cost import billing, price, whatif
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.scheduler import account, conditions
from gpubench.scheduler.ledger import AttemptRecord, Interruption, Ledger, Outcome
from gpubench.stats import intervals
from gpubench.units import counted, duration_text, sampled
from gpubench.values import Interval


class Use(StrEnum):
    """What a node's time went into. Values are the fields of a status; all but the first sum to what was held."""

    QUEUED = "queued"  # a pod had no node yet: nothing is held, nothing is paid
    WAITING = "waiting"  # for the image, and for the gang's other pods
    START_UP = "start_up"  # up to and with the first step
    USEFUL = "useful"  # measured work that came to a result
    OTHER = "other"  # of attempts with a result: warm-up, checks, gaps, the end
    REPEATED = "repeated"  # starting up once more to go on from a checkpoint
    LOST = "lost"  # of interrupted attempts, less what others took over
    FAILED = "failed"  # of attempts that failed or were stopped, less what others took over
    UNKNOWN = "unknown"


Uses = Mapping[Use, Decimal]

_BY_PART = {
    billing.Part.IMAGE_PULL: Use.WAITING,
    billing.Part.WAITING: Use.WAITING,
    billing.Part.START_UP: Use.START_UP,
    billing.Part.WARM_UP: Use.OTHER,
    billing.Part.MEASURED: Use.USEFUL,
    billing.Part.IDLE: Use.OTHER,
    billing.Part.UNKNOWN: Use.UNKNOWN,
}
_NOTHING = Decimal(0)


# --- one attempt ------------------------------------------------------------------------------------------------------


def taken_over(attempts: Sequence[AttemptRecord]) -> dict[int, dict[int, Decimal]]:
    """Seconds of work that came to no result and that a later run went on from: by attempt, and by index of its run.

    Only who came to a result says what it went on from: the work of all earlier runs together. It is taken to have been
    done by the last one of the attempt that wrote the checkpoint, and what that had no time for by those before it.
    """
    resumed = next((one.result.resumed for one in attempts if one.result is not None and one.result.resumed), None)
    if resumed is None:
        return {}
    left = Decimal(f"{resumed.useful_seconds:.3f}")
    found: dict[int, dict[int, Decimal]] = {}
    for record in reversed([one for one in attempts if one.attempt <= resumed.attempt]):
        for index, nodes in reversed([*enumerate(runs(record)[: None if record.result is None else -1])]):
            seconds = min(left, max((node.held for node in nodes), default=_NOTHING))
            found.setdefault(record.attempt, {})[index] = seconds
            left -= seconds
    return found


def of_attempt(record: AttemptRecord, point: Point, *, taken_over: Mapping[int, Decimal] | None = None) -> Uses:
    """An ended attempt's node-seconds by use, as far as known; `taken_over`: work that later runs took over."""
    found: dict[Use, Decimal] = defaultdict(Decimal)
    for scheduled, _, _ in record.pod_times:
        found[Use.QUEUED] += Decimal(f"{max(0.0, scheduled - (record.admitted_at or 0.0)):.3f}")
    for index, nodes in enumerate(runs(record)):
        for node in nodes:
            for use, seconds in _of_node(record, point, node, taken_over=(taken_over or {}).get(index, _NOTHING)):
                if seconds > 0:
                    found[use] += seconds
    return found


def _of_node(
    record: AttemptRecord, point: Point, node: billing.NodeTime, *, taken_over: Decimal
) -> Iterator[tuple[Use, Decimal]]:
    work = costs.work_of(record, point)
    if node.is_lost or work is None:
        useful = min(taken_over, node.held)
        yield Use.USEFUL, useful
        yield Use.LOST if node.is_lost or record.outcome is Outcome.PREEMPTED else Use.FAILED, node.held - useful
    elif node.started is None or node.joined is None:  # what was measured is known all the same
        useful = min(work.measured, node.held)
        yield Use.USEFUL, useful
        yield Use.UNKNOWN, node.held - useful
    else:
        again = record.result is not None and record.result.resumed is not None
        for part, seconds in node.parts(work):
            yield Use.REPEATED if again and part is billing.Part.START_UP else _BY_PART[part], seconds


def runs(record: AttemptRecord) -> tuple[tuple[billing.NodeTime, ...], ...]:
    """How long each node was held by each run of an attempt: by those that Kueue has ended, oldest first, and its last.

    Of a pod that was gone before its end was seen, and whose placement was written down while it ran, until the end of
    the attempt: it was gone by then. A bill says less of it, for nobody knows how much earlier it went.
    """
    left = list(record.placed_at)
    for scheduled, _, _ in record.pod_times:
        if scheduled in left:
            left.remove(scheduled)
    lasted = (record.ended_at or record.created_at) - record.created_at
    unseen = (billing.NodeTime(held=Decimal(f"{account.held(placed, lasted):.3f}")) for placed in left)
    *ended_early, last = costs.runs(record)
    return (*ended_early, (*last, *unseen))


def is_seen(record: AttemptRecord, *, nodes: int) -> bool:
    """Whether it is known how long each of its nodes was held."""
    known = sum(not node.is_lost for node in itertools.chain.from_iterable(runs(record)))
    return not account.is_incomplete(record, nodes=nodes) or (known >= nodes and not record.unseen)


def held(uses: Uses) -> Decimal:
    """Node-seconds for which nodes were held."""
    return sum((seconds for use, seconds in uses.items() if use is not Use.QUEUED), _NOTHING)


# --- back at work -----------------------------------------------------------------------------------------------------


def recoveries(attempts: Sequence[AttemptRecord]) -> tuple[float, ...]:
    """Seconds from each interruption of these attempts of a trial, oldest first, to the first step of the next one."""
    return tuple(
        seconds
        for before, after in itertools.pairwise(attempts)
        if before.outcome is Outcome.PREEMPTED and (seconds := _recovery(before, after)) is not None
    )


def _recovery(before: AttemptRecord, after: AttemptRecord) -> float | None:
    began, result = before.ended_at, after.result
    # Only who has a result tells when the first step was made.
    if began is None or result is None or not after.pod_times or (running := after.pod_times[0][1]) is None:
        return None
    until_created = max(0.0, after.created_at - began)
    starts = [running for _, running, _ in after.pod_times if running is not None]
    started = max(0.0, *(scheduled for scheduled, _, _ in after.pod_times), *starts)
    return until_created + max(started, running + result.join_seconds + result.init_seconds)


def _recovery_time(found: Sequence[float]) -> RecoveryTime | None:
    if not found:
        return None
    median, mean = map(sampled, (statistics.median(found), statistics.fmean(found)))
    return RecoveryTime(count=len(found), median=median, mean=mean)


# --- a benchmark ------------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """An attempt that has ended, and what it did with its nodes."""

    point: Point
    record: AttemptRecord
    uses: Uses


def by_pool(plan: Plan, ledger: Ledger) -> dict[str, list[Ended]]:
    points = plan.point_by_trial
    found: dict[str, list[Ended]] = defaultdict(list)
    for trial, attempts in ledger.by_trial.items():
        if trial in points:
            point, taken = points[trial], taken_over(attempts)
            found[point.key.pool] += (
                Ended(point, record, of_attempt(record, point, taken_over=taken.get(record.attempt)))
                for record in attempts
                if record.outcome is not None
            )
    return found


def of_study(plan: Plan, ledger: Ledger) -> Goodput | None:
    """What became of the node time of a benchmark so far; None before an attempt has ended."""
    ended, points = by_pool(plan, ledger), plan.point_by_trial
    back: dict[str, list[float]] = defaultdict(list)
    for trial, attempts in ledger.by_trial.items():
        if trial in points:
            back[points[trial].key.pool] += recoveries(attempts)
    pools = [_of_pool(plan, one.name, ended[one.name], back[one.name]) for one in plan.pools if ended[one.name]]
    if not pools:
        return None
    return Goodput(pools=tuple(pools), recovery=_recovery_time(list(itertools.chain.from_iterable(back.values()))))


def _of_pool(plan: Plan, pool: str, ended: Sequence[Ended], back: Sequence[float]) -> PoolGoodput:
    summed: dict[Use, Decimal] = defaultdict(Decimal)
    for use, seconds in itertools.chain.from_iterable(one.uses.items() for one in ended):
        summed[use] += seconds
    whole = held(summed)
    unseen = sum(not is_seen(one.record, nodes=one.point.nodes) for one in ended)
    share = summed.get(Use.USEFUL, _NOTHING) / whole if whole > 0 and not unseen else None
    # The price of a node for an hour of measured work: of what it is held for, only that share is.
    rate = pool_prices.planned_rate(plan, pool) if share else None
    counts, hours = interruption_counts(one.record for one in ended), whole / billing.SECONDS_PER_HOUR
    # Garwood's interval takes one interruption for independent of the others.
    often = intervals.of_count(counts.total, exposure=float(hours))
    found = PoolGoodput(
        pool=pool,
        capacity_type=plan.pool(pool).spec.capacity_type,
        attempts=len(ended),
        incomplete=unseen or None,
        interruptions=counts,
        node_hours=sampled(float(hours)),
        per_node_hour=None if often is None else Interval(**dict(often.each(sampled))),
        node_seconds=NodeSeconds(**{use.value: sampled(float(summed[use])) for use in Use if use in summed}),
        goodput=None if share is None else sampled(float(share)),
        effective_price=costs.amount_text(rate.per_node_hour / share) if rate and share else None,
        currency=None if rate is None else rate.currency,
        recovery=_recovery_time(back),
        sentence="",
    )
    return found.model_copy(update={"sentence": conditions.clamped(_message(found), SENTENCE_MAX)})


def interruption_counts(records: Iterable[AttemptRecord]) -> InterruptionCounts:
    kinds = [one.interruption for one in records if one.outcome is Outcome.PREEMPTED and one.drilled is None]
    return InterruptionCounts(
        total=len(kinds),
        reclaimed=kinds.count(Interruption.RECLAIM),
        evicted=kinds.count(Interruption.EVICTION),
        nodes_lost=kinds.count(Interruption.NODE_LOST),
    )


def _message(found: PoolGoodput) -> str:
    counts, rate = found.interruptions, found.per_node_hour
    what = "no attempt was interrupted"
    if counts.total:
        kinds = {"reclaimed": counts.reclaimed, "evicted": counts.evicted, "with a lost node": counts.nodes_lost}
        by_kind = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
        what = f"{counts.total} of {found.attempts} attempts {'was' if counts.total == 1 else 'were'} interrupted"
        what += f" ({by_kind})" if by_kind else ""
    if rate is not None:
        what += f" in {found.node_hours:.3g} node-hours: "
        between = f"{rate.mean:.2g} per node-hour (95 %: {rate.low:.2g}–{rate.high:.2g})"
        what += between if counts.total else f"fewer than {rate.high:.2g} per node-hour (95 %)"
    parts = [f"{found.pool} ({found.capacity_type.value}): {what}"]
    if found.goodput is not None:
        lost = (found.node_seconds.lost or 0.0) + (found.node_seconds.repeated or 0.0)
        of_all = f", {_percent(lost / (found.node_hours * 3600))} was lost to interruptions" if lost else ""
        parts.append(f"{_percent(found.goodput)} of the node time was measured work{of_all}")
    elif found.incomplete:
        whose = counted(found.incomplete, "attempt")
        parts.append(f"how much of the node time was work cannot be told: pods of {whose} were gone before their end")
    if found.recovery is not None:
        of = "" if found.recovery.count == 1 else f" (median of {found.recovery.count})"
        parts.append(f"back at work after {duration_text(found.recovery.median)}{of}")
    return "; ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.3g} %"


# --- pools beside each other in money ---------------------------------------------------------------------------------
#
# Spot: the discount is by price alone; what is realised counts the node-hours that interruptions have cost, on top of
# those that count (`shares`). An own machine is compared with each rented pool by the point that both have measured
# alike on the most workers. Must not happen: a saving made of nothing that was measured; lost work that nobody saw,
# taken for none; two currencies in one comparison; a figure of a run that never settled.

#: What makes a point, but for its place: two pools that measured it alike are compared by it.
_WORK = tuple(field for field in PointKey.model_fields if field not in {"pool", "workers_per_node"})


def comparisons(plan: Plan, ledger: Ledger, results: Sequence[PointResult]) -> tuple[PoolComparison, ...]:
    return (*_spots(plan, ledger), *_owned(plan, results))


def _spots(plan: Plan, ledger: Ledger) -> Iterator[PoolComparison]:
    pools = [(pool.name, other) for pool in plan.pools if (other := pool.spec.on_demand_counterpart) is not None]
    ended = by_pool(plan, ledger) if pools else {}
    for pool, other in pools:
        on_demand = pool_prices.planned_rate(plan, other) if any(one.name == other for one in plan.pools) else None
        rate = pool_prices.planned_rate(plan, pool)
        try:
            if rate is None or on_demand is None:
                remedy = "name it in a block, with a price; with measuredBy it is not run"
                raise price.CostError(f"{pool if rate is None else other} has no price in this benchmark: {remedy}")
            yield _saving(plan, pool, other, rate=rate, on_demand=on_demand, ended=ended.get(pool, ()))
        except price.CostError as error:
            yield _said(pool, other, f"cannot tell what {pool} saves: {error}")


def _saving(
    plan: Plan, pool: str, other: str, *, rate: price.Rate, on_demand: price.Rate, ended: Sequence[Ended]
) -> PoolComparison:
    # What was interrupted on purpose says nothing of the pool.
    preempted = [one for one in ended if one.record.outcome is Outcome.PREEMPTED and one.record.drilled is None]
    attempts = [*preempted, *(one for one in ended if one.record.outcome is Outcome.SUCCEEDED)]
    discount = whatif.discount(rate, on_demand=on_demand)
    parts = [f"{pool} costs {_less(discount)} than {other} by price ({100 * (1 - discount):.1f} % of it)"]
    found = SpotResult(discount=sampled(discount), interruptions=len(preempted))
    if unseen := sum(not is_seen(one.record, nodes=one.point.nodes) for one in attempts):
        whose = counted(unseen, "attempt")
        parts.append(f"net of lost work it cannot be told: pods of {whose} were gone before their end was seen")
        return _said(pool, other, "; ".join(parts), spot=found)
    useful, lost = _node_hours(plan, attempts)
    update: dict[str, object] = {}
    if useful > 0:
        effective = whatif.effective_price(rate, useful_node_hours=useful, lost_node_hours=lost)
        realised = whatif.discount(effective, on_demand=on_demand)
        update["realised"] = sampled(realised)
        update["price_per_useful_hour"] = costs.amount_text(effective.per_node_hour)
        update["interruptions_per_node_hour"] = sampled(len(preempted) / (useful + lost))
        parts.append(f"{_less(realised)} net of what {counted(len(preempted), 'preempted attempt')} lost here")
    if preempted and lost > 0:
        limit, sentence = whatif.break_even_interruptions(
            rate, on_demand=on_demand, lost_node_hours=lost / len(preempted)
        )
        update["break_even_interruptions"] = limit and sampled(limit)
        parts.append(sentence)
    return _said(pool, other, "; ".join(parts), spot=found.model_copy(update=update))


def _node_hours(plan: Plan, attempts: Iterable[Ended]) -> tuple[Decimal, Decimal]:
    """Node-hours paid for by attempts whose pods were seen: those that count, and those lost or repeated."""
    useful, lost = _NOTHING, _NOTHING
    for point, _, uses in attempts:
        share = pool_prices.paid_share(plan, point)
        wasted = uses.get(Use.LOST, _NOTHING) + uses.get(Use.REPEATED, _NOTHING)
        useful += (held(uses) - wasted - uses.get(Use.FAILED, _NOTHING)) * share
        lost += wasted * share
    return useful / billing.SECONDS_PER_HOUR, lost / billing.SECONDS_PER_HOUR


def _less(share: Decimal) -> str:
    return f"{100 * abs(share):.1f} % {'less' if share >= 0 else 'more'}"


_Speed = tuple[Point, Decimal]  # a point and its samples per second


def _owned(plan: Plan, results: Sequence[PointResult]) -> Iterator[PoolComparison]:
    owned = [pool.name for pool in plan.pools if pool.spec.ownership is not None]
    rented = [pool.name for pool in plan.pools if pool.spec.price is not None]
    settled: dict[str, list[tuple[tuple[object, ...], _Speed]]] = {}  # by pool: work, and who did it how fast
    for point, result in zip(plan.points, results, strict=True) if owned else ():
        if result.state is PointState.MEASURED and result.throughput is not None and result.throughput.mean > 0:
            work = tuple(getattr(point.key, field) for field in _WORK)
            settled.setdefault(point.key.pool, []).append((work, (point, Decimal(result.throughput.mean))))
    for own, other in itertools.product(owned, rented):
        there = dict(settled.get(other, ()))
        if alike := [(speed, there[work]) for work, speed in settled.get(own, ()) if work in there]:
            yield _owning(plan, own, other, *max(alike, key=lambda pair: pair[0][0].key.workers))


def _owning(plan: Plan, own: str, other: str, here: _Speed, there: _Speed) -> PoolComparison:
    ownership, rented = pool_prices.planned_ownership(plan, own), pool_prices.planned_rate(plan, other)
    hour = pool_prices.planned_rate(plan, own)
    if ownership is None or rented is None or hour is None:
        why = "one of the two has no price in the benchmark's currency: give its rate in spec.exchangeRates"
        return _said(own, other, f"cannot tell from how much use on {own} pays: {why}")
    (point, rate), (point_there, rate_there) = here, there
    nodes, nodes_there = (one.nodes * pool_prices.paid_share(plan, one) for one in (point, point_there))
    speed = rate / nodes / (rate_there / nodes_there)
    try:
        use = whatif.break_even_use(ownership, rented=rented, relative_speed=speed)
        paid = whatif.payback(ownership, rented=rented, relative_speed=speed)
        gain = whatif.gain(
            whatif.samples_per_unit(hour, nodes=nodes, throughput=rate),
            over=whatif.samples_per_unit(rented, nodes=nodes_there, throughput=rate_there),
        )
    except price.CostError as error:
        return _said(own, other, f"cannot tell from how much use on {own} pays: {error}")
    sentence = (
        f"{own} against {other} for {point.key.workload}: {use.sentence}; {paid.sentence}; at "
        f"{ownership.hours_per_month} hours a month its money buys {gain:.3g} times as many samples"
    )
    found = OwningResult(
        workload=point.key.workload,
        workers=point.key.workers,
        relative_speed=sampled(speed),
        hours_per_month=None if use.hours is None else sampled(use.hours),
        days_per_month=None if use.days is None else sampled(use.days),
        payback_days=None if paid.days is None else sampled(paid.days),
        gain=sampled(gain),
    )
    return _said(own, other, sentence, owning=found)


def _said(
    pool: str, other: str, message: str, *, spot: SpotResult | None = None, owning: OwningResult | None = None
) -> PoolComparison:
    message = conditions.clamped(message, SENTENCE_MAX)
    return PoolComparison(pool=pool, other=other, sentence=message, spot=spot, owning=owning)
