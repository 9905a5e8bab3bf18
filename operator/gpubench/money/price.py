# SPDX-License-Identifier: Apache-2.0
"""What an hour of a pool's node costs, rented or owned, in the study's currency."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.pool import GpuPoolSpec, Price, PriceComponent
from gpubench.money import exchange, ownership
from gpubench.money.amount import Amount, Rate
from gpubench.plan.plan import Plan


def rate(pool: GpuPoolSpec) -> Rate | None:
    """The price of one node of the pool for one hour, in the pool's currency; None where nobody said what it costs."""
    if pool.price is not None:
        return Rate(per_node_hour=rented_hour(pool.price, slots=pool.slots_per_node), currency=pool.price.currency)
    if pool.ownership is not None:
        return ownership.owned_hour(pool.ownership)
    return None


def planned_rate(plan: Plan, pool: str) -> Rate | None:
    """The price of one node of the pool for one hour, in the study's currency.

    None where nobody said what it costs, or what its currency is worth: `without_exchange` tells the two apart.
    """
    own = rate(plan.pool(pool).spec)
    return own if own is None or plan.currency in {None, own.currency} else _exchanged(own, plan)


def without_exchange(plan: Plan, pool: str) -> str | None:
    """Why the pool has no cost although it has a price: the rate that is missing, in a sentence; None if none is."""
    own = rate(plan.pool(pool).spec)
    if own is None or planned_rate(plan, pool) is not None:
        return None
    return (
        f"no cost: the price of {pool} is in {own.currency}, and spec.exchangeRates has no rate from {own.currency} to "
        f"{plan.currency}"
    )


def rented_hour(price: Price, *, slots: int) -> Decimal:
    """One hour of a rented node, from whichever of its four forms the price has."""
    if price.per_node_hour is not None:
        return Decimal(price.per_node_hour)
    if price.per_slot_hour is not None:
        return Decimal(price.per_slot_hour) * slots
    if price.per_month is not None:
        assert price.hours_per_month is not None  # a rule of the type: both or neither
        return month_hour(price.per_month, hours=price.hours_per_month)
    assert price.components is not None  # a rule of the type: exactly one of the four
    return sum_of(price.components)


def month_hour(per_month: str, *, hours: int) -> Decimal:
    """One *used* hour of a node that is rented by the month: the month over the hours used in it."""
    return Decimal(per_month) / hours


def sum_of(components: Sequence[PriceComponent]) -> Decimal:
    """One hour of everything that a node is made of: the sum of price times count."""
    return sum((Decimal(component.per_hour) * component.count for component in components), Decimal(0))


def _exchanged(own: Rate, plan: Plan) -> Rate | None:
    """The rate in the plan's currency; None where the plan has no rate between the two."""
    assert plan.currency is not None  # asked for only then
    if exchange.dated_rate(plan.exchange_rates, currency=own.currency) is None:
        return None
    hour = Amount(value=own.per_node_hour, currency=own.currency)
    exchanged = exchange.exchanged(hour, into=plan.currency, rates=plan.exchange_rates)
    return Rate(per_node_hour=exchanged.value, currency=exchanged.currency)


def rounded(amount: Decimal, *, digits: int) -> Decimal:
    """An amount for people and for status: rounded half up, which is what invoices and schools do."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
