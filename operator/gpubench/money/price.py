# SPDX-License-Identifier: Apache-2.0
"""What an hour of a node costs, rented or owned."""

from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.pool import GpuPoolSpec, Ownership
from gpubench.values import Value

HOURS_PER_MONTH = Decimal(730)  # 365 days x 24 hours / 12, the convention of the cloud price lists


class Rate(Value):
    """An hourly price of one node, with its currency."""

    per_node_hour: Decimal
    currency: str


def rate(pool: GpuPoolSpec) -> Rate | None:
    """The price of one node of the pool for one hour; None where nobody said what it costs."""
    if pool.price is not None:
        price = pool.price
        if price.per_node_hour is not None:
            return Rate(per_node_hour=Decimal(price.per_node_hour), currency=price.currency)
        assert price.per_slot_hour is not None  # a rule of the type: exactly one of both
        return Rate(per_node_hour=Decimal(price.per_slot_hour) * pool.slots_per_node, currency=price.currency)
    if pool.ownership is not None:
        return Rate(per_node_hour=owned_hour(pool.ownership), currency=pool.ownership.currency)
    return None


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
