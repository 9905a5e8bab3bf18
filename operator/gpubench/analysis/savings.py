# SPDX-License-Identifier: Apache-2.0
"""Pools beside each other in money: what spot saves net of lost work, and from how much use on owning pays.

Spot: the discount is by price alone; what is realised counts the node-hours that interruptions have cost, on top of
those that count (`goodput.shares`): work of preempted attempts that nobody went on from, and starting anew. What an
attempt with a result spends beside its measured work counts, for on demand it is needed, too. An own machine is held
against each rented pool by the point that both have measured alike on the most workers.

Must not happen: a saving made of nothing that was measured; lost work that nobody saw, taken for none; amounts of two
currencies in one comparison; a figure of a run that never settled. What cannot be computed has a sentence in its place.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from gpubench.analysis import costs, goodput
from gpubench.analysis.goodput import Uses
from gpubench.api.point_result import PointResult, PointState
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import OwningResult, PoolComparison, SpotResult
from gpubench.api.status_sizes import COMPARISONS_MAX, SENTENCE_MAX
from gpubench.cost import billing, whatif
from gpubench.cost.price import Amount, CostError, Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome

_DIGITS = 4  # of figures without an interval
_PLACE = {"pool", "workers_per_node"}
#: All else that makes a point: two pools that measured it alike are compared by it.
_WORK = tuple(field for field in PointKey.model_fields if field not in _PLACE)


def comparisons(plan: Plan, ledger: Ledger, results: Sequence[PointResult]) -> tuple[PoolComparison, ...]:
    """What can be said of the plan's pools so far."""
    found = (*_spots(plan, ledger), *_owned(plan, results))
    return tuple(found[:COMPARISONS_MAX])


# --- spot -------------------------------------------------------------------------------------------------------------


_Ended = tuple[Point, AttemptRecord, Uses]  # an attempt, and what it did with its nodes


def _spots(plan: Plan, ledger: Ledger) -> Iterator[PoolComparison]:
    pools = [(pool, other) for pool in plan.pools if (other := pool.spec.on_demand_counterpart) is not None]
    uses = goodput.by_attempt(plan, ledger) if pools else {}
    for pool, other in pools:
        yield _spot(plan, pool.name, other, _ended_on(plan, pool, ledger, uses))


def _ended_on(plan: Plan, pool: GpuPool, ledger: Ledger, uses: Mapping[str, Uses]) -> list[_Ended]:
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    return [
        (point, record, uses[record.key])
        for record in ledger.records
        if record.outcome is not None and (point := points.get(record.trial)) and point.key.pool == pool.name
    ]


def _spot(plan: Plan, pool: str, other: str, ended: Sequence[_Ended]) -> PoolComparison:
    on_demand = pool_prices.planned_rate(plan, other) if any(one.name == other for one in plan.pools) else None
    rate = pool_prices.planned_rate(plan, pool)
    if rate is None or on_demand is None:
        missing = pool if rate is None else other
        why = f"{missing} has no price in this study: name it in a block, with a price; with measuredBy it is not run"
        return _said(pool, other, f"cannot tell what {pool} saves: {why}")
    try:
        return _saving(plan, pool, other, rates=(rate, on_demand), ended=ended)
    except CostError as error:
        return _said(pool, other, f"cannot tell what {pool} saves: {error}")


def _saving(plan: Plan, pool: str, other: str, *, rates: tuple[Rate, Rate], ended: Sequence[_Ended]) -> PoolComparison:
    rate, on_demand = rates
    # What was interrupted on purpose says nothing of the pool.
    preempted = [one for one in ended if one[1].outcome is Outcome.PREEMPTED and one[1].drilled is None]
    succeeded = [one for one in ended if one[1].outcome is Outcome.SUCCEEDED]
    useful, lost = _node_hours(plan, (*preempted, *succeeded))
    discount = whatif.discount(rate, on_demand=on_demand)
    parts = [f"{pool} costs {_less(discount)} than {other} by price"]
    found = SpotResult(discount=_figure(discount), interruptions=len(preempted))
    unseen = sum(not goodput.is_seen(record, nodes=point.nodes) for point, record, _ in (*preempted, *succeeded))
    if unseen:
        whose = "1 attempt" if unseen == 1 else f"{unseen} attempts"
        parts.append(f"net of lost work it cannot be told: pods of {whose} were gone before their end was seen")
        return _said(pool, other, "; ".join(parts)).model_copy(update={"spot": found})
    if useful > 0:
        effective = whatif.effective_price(rate, useful_node_hours=useful, lost_node_hours=lost)
        realised = whatif.discount(effective, on_demand=on_demand)
        found = found.model_copy(
            update={
                "realised": _figure(realised),
                "price_per_useful_hour": costs.amount_text(effective.per_node_hour),
                "interruptions_per_node_hour": _figure(len(preempted) / (useful + lost)),
            }
        )
        count = f"{len(preempted)} preempted attempt{'' if len(preempted) == 1 else 's'}"
        parts.append(f"{_less(realised)} net of what {count} lost here")
    if preempted and lost > 0:
        limit = whatif.break_even_interruptions(rate, on_demand=on_demand, lost_node_hours=lost / len(preempted))
        if limit.per_node_hour is not None:
            found = found.model_copy(update={"break_even_interruptions": _figure(limit.per_node_hour)})
        parts.append(limit.sentence)
    return _said(pool, other, "; ".join(parts)).model_copy(update={"spot": found})


def _node_hours(plan: Plan, attempts: Iterable[_Ended]) -> tuple[Decimal, Decimal]:
    """Node-hours that these attempts paid for, as far as their pods were seen: those that count, and those lost."""
    counted, lost = Decimal(0), Decimal(0)
    for point, _, uses in attempts:
        share, of_attempt = pool_prices.paid_share(plan, point), goodput.shares(uses)
        counted += of_attempt.counted * share
        lost += of_attempt.lost * share
    return counted / billing.SECONDS_PER_HOUR, lost / billing.SECONDS_PER_HOUR


def _less(share: Decimal) -> str:
    return f"{_percent(share)} less" if share >= 0 else f"{_percent(-share)} more"


def _percent(share: Decimal) -> str:
    return f"{100 * share:.1f} %"


# --- owned against rented ---------------------------------------------------------------------------------------------


def _owned(plan: Plan, results: Sequence[PointResult]) -> Iterator[PoolComparison]:
    owned = [pool.name for pool in plan.pools if pool.spec.ownership is not None]
    if not owned:
        return
    rented = [pool.name for pool in plan.pools if pool.spec.price is not None]
    settled = [
        (point, Decimal(result.throughput.mean))
        for point, result in zip(plan.points, results, strict=True)
        if result.state is PointState.MEASURED and result.throughput is not None and result.throughput.mean > 0
    ]
    for own in owned:
        for other in rented:
            pair = _alike(settled, own, other)
            if pair is not None:
                yield _owning(plan, own, other, pair)


_Figure = tuple[Point, Decimal]  # a point and its samples per second


def _alike(settled: Sequence[_Figure], own: str, other: str) -> tuple[_Figure, _Figure] | None:
    """The points of two pools that are the same work, on the most workers; None where there are none."""
    there = {_work(point): (point, rate) for point, rate in settled if point.key.pool == other}
    pairs = [
        ((point, rate), there[_work(point)])
        for point, rate in settled
        if point.key.pool == own and _work(point) in there
    ]
    return max(pairs, key=lambda pair: pair[0][0].key.workers, default=None)


def _work(point: Point) -> tuple[object, ...]:
    return tuple(getattr(point.key, field) for field in _WORK)


def _owning(plan: Plan, own: str, other: str, pair: tuple[_Figure, _Figure]) -> PoolComparison:
    ownership, rented = pool_prices.planned_ownership(plan, own), pool_prices.planned_rate(plan, other)
    hour = pool_prices.planned_rate(plan, own)
    if ownership is None or rented is None or hour is None:
        why = "one of the two has no price in the study's currency: give its rate in spec.exchangeRates"
        return _said(own, other, f"cannot tell from how much use on {own} pays: {why}")
    (point, rate), (there, rate_there) = pair
    nodes, nodes_there = (one.nodes * pool_prices.paid_share(plan, one) for one in (point, there))
    speed = rate / nodes / (rate_there / nodes_there)
    running = Rate(per_node_hour=ownership.per_kilowatt_hour * ownership.watts / 1000, currency=ownership.currency)
    try:
        use = whatif.break_even_use(ownership, rented=rented, relative_speed=speed)
        purchase = Amount(value=ownership.purchase, currency=ownership.currency)
        paid = whatif.payback(purchase, rented=rented, relative_speed=speed, running=running)
        gain = whatif.gain(
            whatif.samples_per_unit(hour, nodes=nodes, throughput=rate),
            over=whatif.samples_per_unit(rented, nodes=nodes_there, throughput=rate_there),
        )
    except CostError as error:
        return _said(own, other, f"cannot tell from how much use on {own} pays: {error}")
    sentence = (
        f"{own} against {other} for {point.key.workload}: {use.sentence}; {paid.sentence}; at "
        f"{ownership.hours_per_month} hours a month its money buys {gain:.3g} times as many samples"
    )
    found = OwningResult(
        workload=point.key.workload,
        workers=point.key.workers,
        relative_speed=_figure(speed),
        hours_per_month=None if use.hours_per_month is None else _figure(use.hours_per_month),
        days_per_month=None if use.days_per_month is None else _figure(use.days_per_month),
        payback_days=None if paid.days is None else _figure(paid.days),
        gain=_figure(gain),
    )
    return _said(own, other, sentence).model_copy(update={"owning": found})


def _said(pool: str, other: str, sentence: str) -> PoolComparison:
    return PoolComparison(pool=pool, other=other, sentence=conditions.clamped(sentence, SENTENCE_MAX))


def _figure(value: Decimal) -> float:
    return float(f"{value:.{_DIGITS}g}")
