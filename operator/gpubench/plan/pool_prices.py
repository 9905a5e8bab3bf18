# SPDX-License-Identifier: Apache-2.0
"""What a pool says of its price, as values to compute with: in the pool's own currency, or in that of a plan.

Whether a price is stale depends on a day that is given: nothing here knows what day it is.
"""

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from gpubench.api.pool import GpuPool, GpuPoolSpec
from gpubench.api.pool_price import CapacityType, ExchangeRate, Ownership, Price
from gpubench.cost.billing import BY_THE_SECOND, BillingRule, Fee, Terms
from gpubench.cost.price import Amount, OwnedNode, Rate
from gpubench.plan.plan import Plan, Point
from gpubench.values import FrozenModel

STALE_AFTER_DAYS = 90


class Repriced(FrozenModel):
    """That a folder has the measurements of another one at other prices."""

    at: str  # RFC 3339
    prices: str  # name of the file of prices as it was given
    pools: tuple[str, ...]  # those whose prices were in it
    kept: tuple[str, ...] = ()  # those that have the prices under which they were measured
    digest: str | None = None  # of the copy in the folder: SHA-256

    @property
    def sentence(self) -> str:
        rest = f"; {', '.join(self.kept)} as it was measured" if self.kept else ""
        return f"Re-priced at {self.at} with {self.prices}: {', '.join(self.pools)}{rest}. Nothing was run for it."


class RateRange(NamedTuple):
    """The lowest and the highest hourly price of a node in a time that the pool names."""

    low: Rate
    high: Rate
    period: str


# --- in the pool's currency -------------------------------------------------------------------------------------------


def rate(pool: GpuPoolSpec) -> Rate | None:
    """The price of one node of the pool for one hour; None where nobody said what it costs."""
    return None if (found := terms(pool)) is None else found.rate


def terms(pool: GpuPoolSpec) -> Terms | None:
    """What a node of the pool is billed by; None where nobody said what it costs. An own node has no fees."""
    if (price := pool.price) is None:
        return None if pool.ownership is None else Terms(rate=owned_node(pool.ownership).hour())
    figure = price.per_node_hour or price.per_slot_hour or price.per_month
    billing, currency = price.billing, price.currency
    if figure is not None:
        hour = _rate(price, figure, slots=pool.slots_per_node)
    else:
        assert price.components is not None  # a rule of the type: exactly one of the four
        parts = (Decimal(component.per_hour) * component.count for component in price.components)
        hour = Rate(per_node_hour=sum(parts, Decimal(0)) * _paid_share(price), currency=currency)
    return Terms(
        rate=hour,
        rule=BY_THE_SECOND
        if billing is None
        else BillingRule(
            increment_seconds=Decimal(billing.increment_seconds), minimum_seconds=Decimal(billing.minimum_seconds)
        ),
        fees=tuple(
            Fee(name=fee.name, amount=Amount(value=Decimal(fee.amount), currency=currency), per=fee.per)
            for fee in price.fees
        ),
        setup=None if price.setup is None else Amount(value=Decimal(price.setup), currency=currency),
        hours_per_month=None if price.hours_per_month is None else Decimal(price.hours_per_month),
    )


def rate_range(pool: GpuPoolSpec) -> RateRange | None:
    """Between which prices of a node for one hour the pool's price has moved; None where not said."""
    if (price := pool.price) is None or price.range is None:
        return None
    low, high = (_rate(price, figure, slots=pool.slots_per_node) for figure in (price.range.low, price.range.high))
    return RateRange(low, high, price.range.period)


def owned_node(ownership: Ownership, unit: Amount | None = None) -> OwnedNode:
    """What an own node cost, in numbers; one unit of its currency is worth `unit`, where that is given."""
    worth = Decimal(1) if unit is None else unit.value
    return OwnedNode(
        purchase=Decimal(ownership.purchase) * worth,
        residual=Decimal(ownership.residual) * worth,
        lifetime_months=ownership.lifetime_months,
        hours_per_month=Decimal(ownership.hours_per_month),
        watts=ownership.watts,
        idle_watts=ownership.idle_watts,
        per_kilowatt_hour=Decimal(ownership.per_kilowatt_hour) * worth,
        per_month=Decimal(ownership.per_month) * worth,
        currency=ownership.currency if unit is None else unit.currency,
    )


def _rate(price: Price, figure: str, *, slots: int) -> Rate:
    """Of one node and one hour, for a figure in the price's own unit; of a month, one *used* hour of it."""
    hour = Decimal(figure) * _paid_share(price)
    if price.per_slot_hour is not None:
        hour *= slots
    elif price.per_month is not None:
        assert price.hours_per_month is not None  # a rule of the type: a price per month has them
        hour /= price.hours_per_month
    return Rate(per_node_hour=hour, currency=price.currency)


def _paid_share(price: Price) -> Decimal:
    return 1 - Decimal(price.discount or 0)


# --- in the plan's currency -------------------------------------------------------------------------------------------


def planned_rate(plan: Plan, pool: str) -> Rate | None:
    """A node's price for one hour; None where it, or its currency's worth, is unknown (see `without_exchange`)."""
    return None if (found := planned_terms(plan, pool)) is None else found.rate


def planned_terms(plan: Plan, pool: str) -> Terms | None:
    """What a node of the pool is billed by; None where it has no rate either."""
    if (own := terms(plan.pool(pool).spec)) is None or (unit := _unit(plan, own.rate.currency)) is None:
        return None
    return replace(
        own,
        rate=own.rate.exchanged(unit),
        fees=tuple(replace(fee, amount=fee.amount.exchanged(unit)) for fee in own.fees),
        setup=own.setup and own.setup.exchanged(unit),
    )


def planned_range(plan: Plan, pool: str) -> RateRange | None:
    """Between which prices of a node for one hour the pool's price has moved."""
    if (own := rate_range(plan.pool(pool).spec)) is None or (unit := _unit(plan, own.low.currency)) is None:
        return None
    return own._replace(low=own.low.exchanged(unit), high=own.high.exchanged(unit))


def planned_ownership(plan: Plan, pool: str) -> OwnedNode | None:
    """What an own node cost; None where it is not an own one, or its currency has no rate."""
    ownership = plan.pool(pool).spec.ownership
    if ownership is None or (unit := _unit(plan, ownership.currency)) is None:
        return None
    return owned_node(ownership, unit)


def paid_share(plan: Plan, point: Point) -> Decimal:
    """The part of each of its nodes that a point pays for: all of an exclusive node, else the slots that it holds."""
    pool = plan.pool(point.key.pool).spec
    return Decimal(1) if pool.exclusive_nodes else Decimal(point.key.workers_per_node) / pool.slots_per_node


def exchange_rate(plan: Plan, *, currency: str) -> ExchangeRate | None:
    """What one unit of a currency is in the plan's, with its day and source; None where the plan gives no rate."""
    return next((rate for rate in plan.exchange_rates if rate.from_currency == currency), None)


def without_exchange(plan: Plan, pool: str) -> str | None:
    """Why the pool has no cost although it has a price: the rate that is missing, in a message; None if none is."""
    if (own := rate(plan.pool(pool).spec)) is None or _unit(plan, own.currency) is not None:
        return None
    return (
        f"no cost: the price of {pool} is in {own.currency}, and spec.exchangeRates has no rate from {own.currency} to "
        f"{plan.currency}"
    )


def _unit(plan: Plan, currency: str) -> Amount | None:
    """One unit of a currency in the plan's; None where the plan gives no rate. Without one each pool keeps its own."""
    if plan.currency is None or plan.currency == currency:
        return Amount(value=Decimal(1), currency=currency)
    found = exchange_rate(plan, currency=currency)
    return None if found is None else Amount(value=Decimal(found.rate), currency=plan.currency)


def without_counterpart(pool: GpuPool) -> str | None:
    """What a spot pool misses that names no pool on demand; None where it names one, or is no spot pool."""
    spec = pool.spec
    if spec.capacity_type not in (CapacityType.SPOT, CapacityType.PREEMPTIBLE) or spec.on_demand_counterpart:
        return None
    return (
        f"{pool.name} has no onDemandCounterpart: what {spec.capacity_type.value} saves, net of what interruptions "
        "lose, is not computed"
    )


# --- its age ----------------------------------------------------------------------------------------------------------


def price_date(pool: GpuPoolSpec) -> datetime.date | None:
    """The day on which the pool's price, or what was paid for an own node, was read; None without either."""
    return None if (read := pool.price or pool.ownership) is None else datetime.date.fromisoformat(read.as_of)


def days_to_come(pools: Iterable[GpuPool], rates: Iterable[ExchangeRate], *, today: datetime.date) -> Iterator[str]:
    """Prices and exchange rates that nobody can have read yet; a day is what time zones can differ by."""
    read = [(f"the price of GpuPool {one.name}", one.spec.price or one.spec.ownership) for one in pools]
    for what, dated in [*read, *((f"the exchange rate of {rate.from_currency}", rate) for rate in rates)]:
        if dated is not None and (datetime.date.fromisoformat(dated.as_of) - today).days > 1:
            yield f"{what} is of {dated.as_of}: write the day on which it was read"


def odd_dates(plan: Plan, pool: str) -> Iterator[str]:
    """What a reader of a plan's costs must know of the days of a pool's price, and of its exchange rate.

    They are held against the day of the plan, or, for imported figures, against the time of their publication. Whoever
    re-prices a plan has later prices.
    """
    spec = plan.pool(pool).spec
    if (read := spec.price or spec.ownership) is None:
        return
    dated = [(f"that of {pool}", "price", read.as_of)]
    if read.currency != plan.currency and (rate := exchange_rate(plan, currency=read.currency)) is not None:
        dated.append((f"that of {read.currency}", "exchange rate", rate.as_of))
    first = last = datetime.datetime.fromisoformat(plan.planned_at).date()
    when, late = "the plan", 1  # a day is what time zones can differ by
    if plan.imported is not None:
        first, last = plan.imported.time
        when, late = f"the figures were published ({plan.imported.published})", STALE_AFTER_DAYS
    for whose, what, text in dated:
        day = datetime.date.fromisoformat(text)
        if (age := (first - day).days) > STALE_AFTER_DAYS:
            yield f"stale {what}: {whose} was read on {day}, {age} days before {when}: read it again"
        elif (ahead := (day - last).days) > late and plan.pools_when_measured is None:
            remedy = "write the day on which it was read" if plan.imported is None else "give that of the time"
            yield f"odd {what}: {whose} is of {day}, {ahead} days after {when}: {remedy}"
