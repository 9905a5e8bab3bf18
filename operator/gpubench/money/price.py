# SPDX-License-Identifier: Apache-2.0
"""What an hour of a node costs, rented or owned."""

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.pool import GpuPoolSpec, Ownership, Price, PriceComponent
from gpubench.plan.plan import Plan
from gpubench.values import Value

HOURS_PER_MONTH = Decimal(730)  # 365 days x 24 hours / 12, the convention of the cloud price lists


class Rate(Value):
    """An hourly price of one node, with its currency."""

    per_node_hour: Decimal
    currency: str


def rate(pool: GpuPoolSpec) -> Rate | None:
    """The price of one node of the pool for one hour, in the pool's currency; None where nobody said what it costs."""
    if pool.price is not None:
        return Rate(per_node_hour=rented_hour(pool.price, slots=pool.slots_per_node), currency=pool.price.currency)
    if pool.ownership is not None:
        return Rate(per_node_hour=owned_hour(pool.ownership), currency=pool.ownership.currency)
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
    """The rate in the plan's currency: times what one unit of its own is worth there. Nothing is rounded here."""
    assert plan.currency is not None  # asked for only then
    found = next((exchange for exchange in plan.exchange_rates if exchange.from_currency == own.currency), None)
    if found is None:
        return None
    return Rate(per_node_hour=own.per_node_hour * Decimal(found.rate), currency=plan.currency)


def owned_hour(ownership: Ownership) -> Decimal:
    """One *used* hour of an own node.

    Everything that a month costs, over the hours used in it: write-off (purchase less residual value, over the
    lifetime), fixed costs, and power, under load in the hours used and idle in the rest of the month's 730 hours.
    """
    used = Decimal(ownership.hours_per_month)
    write_off = (Decimal(ownership.purchase) - Decimal(ownership.residual)) / ownership.lifetime_months
    idle_hours = max(Decimal(0), HOURS_PER_MONTH - used)
    kilowatt_hours = (ownership.watts * used + ownership.idle_watts * idle_hours) / 1000
    monthly = write_off + Decimal(ownership.per_month) + kilowatt_hours * Decimal(ownership.per_kilowatt_hour)
    return monthly / used


def rounded(amount: Decimal, *, digits: int) -> Decimal:
    """An amount for people and for status: rounded half up, which is what invoices and schools do."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
