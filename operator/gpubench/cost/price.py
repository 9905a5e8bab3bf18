# SPDX-License-Identifier: Apache-2.0
"""Money with its currency, and what an hour of an own node costs.

The API has refused amounts that are none. A CostError says what only a whole benchmark shows, such as two currencies.
Must not happen: an amount without a currency, or one that is added to, or compared with, an amount in another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

Number = Decimal | int

HOURS_PER_MONTH = Decimal(730)  # 365 days x 24 hours / 12, the convention of the cloud price lists


class CostError(ValueError):
    """An input of which no figure can be made; its text is one sentence for the user."""


def positive(value: Decimal, *, what: str, remedy: str) -> Decimal:
    """The value; refused at 0 and below."""
    if value <= 0:
        raise CostError(f"{what} must be more than 0, and is {value}: {remedy}")
    return value


@dataclass(frozen=True, kw_only=True)
class Amount:
    """So much money; a saving may be less than nothing."""

    value: Decimal
    currency: str

    def times(self, factor: Number) -> "Amount":
        return Amount(value=self.value * factor, currency=self.currency)

    def exchanged(self, unit: "Amount") -> "Amount":
        """The amount in another currency, one unit of its own being worth `unit` (RaRe Technologies, 2018)."""
        return Amount(value=self.value * unit.value, currency=unit.currency)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """An hourly price of one node, with its currency. A node may cost nothing."""

    per_node_hour: Decimal
    currency: str

    def exchanged(self, unit: Amount) -> "Rate":
        """The rate in another currency, one unit of its own being worth `unit`."""
        return Rate(per_node_hour=self.per_node_hour * unit.value, currency=unit.currency)


@dataclass(frozen=True, kw_only=True)
class OwnedNode:
    """What one own node cost, and what it takes to run; amounts in its currency.

    The model is Parkopedia's "office box", 2018: acquisition over the months of the project, and electricity, over the
    hours of use. Residual value, fixed monthly costs and power while idle are ours; at 0 they change nothing.
    """

    purchase: Decimal
    lifetime_months: int
    hours_per_month: Decimal  # in which it is really used, as its owner states
    currency: str
    residual: Decimal = Decimal(0)
    watts: int = 0
    idle_watts: int = 0
    per_kilowatt_hour: Decimal = Decimal(0)
    per_month: Decimal = Decimal(0)

    @property
    def write_off_per_month(self) -> Decimal:
        """Purchase less residual value, over the lifetime. Parkopedia, 2018: acquisition / months."""
        return (self.purchase - self.residual) / self.lifetime_months

    def power_per_month(self, *, hours: Decimal) -> Decimal:
        """Electricity of a month: under load in the hours used, idle in the rest of the month's 730 hours.

        Parkopedia, 2018, without the idle hours: price of a kWh x kW x days x 24.
        """
        idle = max(Decimal(0), HOURS_PER_MONTH - hours)
        return (self.watts * hours + self.idle_watts * idle) / 1000 * self.per_kilowatt_hour

    def month(self, *, hours: Decimal) -> Decimal:
        return self.write_off_per_month + self.per_month + self.power_per_month(hours=hours)

    def hour(self, *, hours: Decimal | None = None) -> Rate:
        """One *used* hour, at so many hours of use a month, by default those that its owner states.

        Parkopedia, 2018: (acquisition / months + price of a kWh x kW x 24 x days) / (24 x days).
        """
        used = self.hours_per_month if hours is None else hours
        return Rate(per_node_hour=self.month(hours=used) / used, currency=self.currency)


def common_currency(first: str, *others: str) -> str:
    if other := next((one for one in others if one != first), None):
        raise CostError(
            f"{first} and {other} cannot be added or compared: convert one of them by a dated exchange rate first"
        )
    return first


def total(amounts: Sequence[Amount]) -> Amount:
    currency = common_currency(*(one.currency for one in amounts))
    return Amount(value=sum((one.value for one in amounts), Decimal(0)), currency=currency)


def rounded(amount: Decimal, *, digits: int) -> Decimal:
    """An amount for people and for status: rounded half up, which is what invoices and schools do."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
