# SPDX-License-Identifier: Apache-2.0
"""What an own node costs: a month of it, an hour of use, and when it beats a rented one.

Source of the model: Parkopedia, 2018, "office box": acquisition over the months of the project, and electricity, over
the hours of use. Residual value, fixed monthly costs and power while idle are ours; at 0 they change nothing.
Must not happen: a figure over hours that nobody uses (a cost per used hour has no value at zero use).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench.api.pool_price import Ownership
from gpubench.cost import derived, refusals
from gpubench.cost.amount import Amount, Rate

HOURS_PER_MONTH = Decimal(730)  # 365 days x 24 hours / 12, the convention of the cloud price lists
LONGEST_MONTH = Decimal(744)  # 31 days
_WATTS_PER_KILOWATT = 1000


@dataclass(frozen=True, kw_only=True)
class GainAtUse:
    """How many times as many samples a unit of money buys on the own node as on the rented one, at so much use."""

    hours_per_month: Decimal
    gain: Decimal  # below 1 the rented node is the cheaper one

    @property
    def utilisation(self) -> Decimal:
        """The share of a month of 730 hours in which the node is used; a month of 31 days can have more."""
        return self.hours_per_month / HOURS_PER_MONTH


def owned_hour(ownership: Ownership) -> Rate:
    """One *used* hour of an own node, at the use that its owner states."""
    return hour_at(ownership, hours_per_month=Decimal(ownership.hours_per_month))


def idle_hours(hours_per_month: Decimal) -> Decimal:
    """The rest of a month of 730 hours, in which an own node idles."""
    return max(Decimal(0), HOURS_PER_MONTH - hours_per_month)


def hour_at(ownership: Ownership, *, hours_per_month: Decimal) -> Rate:
    """One *used* hour of an own node that is used so many hours a month: the month over the hours used in it.

    Parkopedia, 2018: (acquisition / months + price of a kWh x kW x 24 x days) / (24 x days).
    """
    used = _used(hours_per_month)
    month = per_month(ownership, hours_per_month=used)
    return Rate(per_node_hour=month.value / used, currency=month.currency)


def per_month(ownership: Ownership, *, hours_per_month: Decimal) -> Amount:
    """Everything that a month of an own node costs: write-off, fixed costs and power."""
    fixed = Amount(value=Decimal(ownership.per_month), currency=ownership.currency)
    return write_off_per_month(ownership).plus(fixed).plus(power_per_month(ownership, hours_per_month=hours_per_month))


def write_off_per_month(ownership: Ownership) -> Amount:
    """Purchase less residual value, over the lifetime. Parkopedia, 2018: acquisition / months."""
    lost = Decimal(ownership.purchase) - Decimal(ownership.residual)
    return Amount(value=lost / ownership.lifetime_months, currency=ownership.currency)


def power_per_month(ownership: Ownership, *, hours_per_month: Decimal) -> Amount:
    """Electricity of a month: under load in the hours used, idle in the rest of the month's 730 hours.

    Parkopedia, 2018, without the idle hours: price of a kWh x kW x days x 24.
    """
    used = _used(hours_per_month)
    idle = idle_hours(used)
    kilowatt_hours = (ownership.watts * used + ownership.idle_watts * idle) / _WATTS_PER_KILOWATT
    return Amount(value=kilowatt_hours * Decimal(ownership.per_kilowatt_hour), currency=ownership.currency)


def gains(
    ownership: Ownership,
    *,
    throughput: Decimal,
    rented: Rate,
    rented_throughput: Decimal,
    hours_per_month: Sequence[Decimal],
) -> tuple[GainAtUse, ...]:
    """The gain of the own node over the rented one along its use; throughputs are of one node each, in samples/s.

    Parkopedia, 2018, figure "gain against utilisation": images per dollar of the box over those of the cloud.
    """
    other = derived.samples_per_unit(rented, nodes=Decimal(1), throughput=rented_throughput)
    return tuple(
        GainAtUse(
            hours_per_month=hours,
            gain=derived.gain(
                derived.samples_per_unit(
                    hour_at(ownership, hours_per_month=hours), nodes=Decimal(1), throughput=throughput
                ),
                over=other,
            ),
        )
        for hours in hours_per_month
    )


def _used(hours_per_month: Decimal) -> Decimal:
    remedy = "give the hours of the month in which the node really works, such as 240"
    refusals.positive(hours_per_month, what="the use of an own node in hours per month", remedy=remedy)
    return refusals.at_most(
        hours_per_month, LONGEST_MONTH, what="the use of an own node in hours per month", remedy=remedy
    )
