# SPDX-License-Identifier: Apache-2.0
"""What an hour of a pool's node costs, rented or owned, and what it is billed by, in the study's currency."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.pool import GpuPoolSpec
from gpubench.api.pool_price import Ownership, Price, PriceComponent
from gpubench.cost import billing, exchange, ownership
from gpubench.cost.amount import Amount, Rate
from gpubench.cost.billing import BillingRule, Fee, FeePeriod, Terms
from gpubench.plan.plan import Plan, Point


@dataclass(frozen=True, kw_only=True)
class RateRange:
    """The lowest and the highest hourly price of a node in a time that the pool names."""

    low: Rate
    high: Rate
    period: str


def rate(pool: GpuPoolSpec) -> Rate | None:
    """The price of one node of the pool for one hour, in the pool's currency; None where nobody said what it costs."""
    if pool.price is not None:
        return Rate(per_node_hour=rented_hour(pool.price, slots=pool.slots_per_node), currency=pool.price.currency)
    if pool.ownership is not None:
        return ownership.owned_hour(pool.ownership)
    return None


def terms(pool: GpuPoolSpec) -> Terms | None:
    """What a node of the pool is billed by, in the pool's currency; None where nobody said what it costs.

    An own node is billed by the second, and has no fees: all that it costs is in the price of its hour.
    """
    own = rate(pool)
    if own is None or pool.price is None:
        return None if own is None else Terms(rate=own)
    price = pool.price
    return Terms(
        rate=own,
        rule=_rule(price),
        fees=tuple(Fee(name=fee.name, amount=_amount(fee.amount, price), per=FeePeriod(fee.per)) for fee in price.fees),
        setup=None if price.setup is None else _amount(price.setup, price),
        hours_per_month=None if price.hours_per_month is None else Decimal(price.hours_per_month),
    )


def rate_range(pool: GpuPoolSpec) -> RateRange | None:
    """Between which prices of a node for one hour the pool's price has moved, in its currency; None where not said."""
    price = pool.price
    if price is None or price.range is None:
        return None
    low, high = (
        Rate(per_node_hour=_node_hour(price, Decimal(figure), slots=pool.slots_per_node), currency=price.currency)
        for figure in (price.range.low, price.range.high)
    )
    return RateRange(low=low, high=high, period=price.range.period)


def planned_rate(plan: Plan, pool: str) -> Rate | None:
    """The price of one node of the pool for one hour, in the study's currency.

    None where nobody said what it costs, or what its currency is worth: `without_exchange` tells the two apart.
    """
    own = rate(plan.pool(pool).spec)
    return None if own is None or not _can_be_exchanged(own.currency, plan) else _exchanged_rate(own, plan)


def planned_terms(plan: Plan, pool: str) -> Terms | None:
    """What a node of the pool is billed by, in the study's currency; None where it has no rate there either."""
    own = terms(plan.pool(pool).spec)
    if own is None or not _can_be_exchanged(own.rate.currency, plan):
        return None
    return replace(
        own,
        rate=_exchanged_rate(own.rate, plan),
        fees=tuple(replace(fee, amount=_exchanged(fee.amount, plan)) for fee in own.fees),
        setup=None if own.setup is None else _exchanged(own.setup, plan),
    )


def planned_range(plan: Plan, pool: str) -> RateRange | None:
    """Between which prices of a node for one hour the pool's price has moved, in the study's currency."""
    own = rate_range(plan.pool(pool).spec)
    if own is None or not _can_be_exchanged(own.low.currency, plan):
        return None
    return replace(own, low=_exchanged_rate(own.low, plan), high=_exchanged_rate(own.high, plan))


def planned_ownership(plan: Plan, pool: str) -> Ownership | None:
    """What an own node cost, in the study's currency; None where it is not an own one, or that has no rate."""
    own = plan.pool(pool).spec.ownership
    if own is None or not _can_be_exchanged(own.currency, plan):
        return None

    def exchanged(text: str) -> str:
        return str(_exchanged(Amount(value=Decimal(text), currency=own.currency), plan).value)

    amounts = ("purchase", "residual", "per_kilowatt_hour", "per_month")
    return own.model_copy(
        update={
            **{name: exchanged(getattr(own, name)) for name in amounts},
            "currency": plan.currency or own.currency,
        }
    )


def paid_share(plan: Plan, point: Point) -> Decimal:
    """The part of each of its nodes that a point pays for: all of an exclusive node, else the slots that it holds."""
    pool = plan.pool(point.key.pool).spec
    return Decimal(1) if pool.exclusive_nodes else Decimal(point.key.workers_per_node) / pool.slots_per_node


def without_exchange(plan: Plan, pool: str) -> str | None:
    """Why the pool has no cost although it has a price: the rate that is missing, in a sentence; None if none is."""
    own = rate(plan.pool(pool).spec)
    if own is None or _can_be_exchanged(own.currency, plan):
        return None
    return (
        f"no cost: the price of {pool} is in {own.currency}, and spec.exchangeRates has no rate from {own.currency} to "
        f"{plan.currency}"
    )


def rented_hour(price: Price, *, slots: int) -> Decimal:
    """One hour of a rented node, from whichever of its four forms the price has."""
    figure = price.per_node_hour or price.per_slot_hour or price.per_month
    if figure is not None:
        return _node_hour(price, Decimal(figure), slots=slots)
    assert price.components is not None  # a rule of the type: exactly one of the four
    return sum_of(price.components)


def month_hour(per_month: str | Decimal, *, hours: int) -> Decimal:
    """One *used* hour of a node that is rented by the month: the month over the hours used in it."""
    return Decimal(per_month) / hours


def sum_of(components: Sequence[PriceComponent]) -> Decimal:
    """One hour of everything that a node is made of: the sum of price times count."""
    return sum((Decimal(component.per_hour) * component.count for component in components), Decimal(0))


def rounded(amount: Decimal, *, digits: int) -> Decimal:
    """An amount for people and for status: rounded half up, which is what invoices and schools do."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def _node_hour(price: Price, figure: Decimal, *, slots: int) -> Decimal:
    """What a figure in the price's own unit is for one node and one hour."""
    if price.per_slot_hour is not None:
        return figure * slots
    if price.per_month is not None:
        assert price.hours_per_month is not None  # a rule of the type: a price per month has them
        return month_hour(figure, hours=price.hours_per_month)
    return figure


def _rule(price: Price) -> BillingRule:
    if price.billing is None:
        return billing.BY_THE_SECOND
    return BillingRule(
        increment_seconds=Decimal(price.billing.increment_seconds),
        minimum_seconds=Decimal(price.billing.minimum_seconds),
    )


def _amount(text: str, price: Price) -> Amount:
    return Amount(value=Decimal(text), currency=price.currency)


def _can_be_exchanged(currency: str, plan: Plan) -> bool:
    """Whether the plan says what the currency is worth in its own; without one each pool keeps its own."""
    if plan.currency in {None, currency}:
        return True
    return exchange.dated_rate(plan.exchange_rates, currency=currency) is not None


def _exchanged(own: Amount, plan: Plan) -> Amount:
    return own if plan.currency is None else exchange.exchanged(own, into=plan.currency, rates=plan.exchange_rates)


def _exchanged_rate(own: Rate, plan: Plan) -> Rate:
    hour = _exchanged(Amount(value=own.per_node_hour, currency=own.currency), plan)
    return Rate(per_node_hour=hour.value, currency=hour.currency)
