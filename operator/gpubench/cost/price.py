# SPDX-License-Identifier: Apache-2.0
"""Money with its currency, and what an hour of an own node costs.

No figure is made of an input that has none: a CostError names the input, its value and the remedy. The API refuses most
of them before, but formulas are also called with measured numbers and by other programs.
Must not happen: an amount without a currency, or one that is added to, or compared with, an amount in another one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

Number = Decimal | int

HOURS_PER_MONTH = Decimal(730)  # 365 days x 24 hours / 12, the convention of the cloud price lists
LONGEST_MONTH = Decimal(744)  # 31 days
_WATTS_PER_KILOWATT = 1000


class CostError(ValueError):
    """An input of which no figure can be made; its text is one sentence for the user."""


def number(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused when it is NaN or infinite."""
    found = Decimal(value)
    if not found.is_finite():
        raise CostError(f"{what} must be a number, and is {value}: {remedy}")
    return found


def not_negative(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused below 0."""
    if number(value, what=what, remedy=remedy) < 0:
        raise CostError(f"{what} cannot be less than 0, and is {value}: {remedy}")
    return Decimal(value)


def positive(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused at 0 and below."""
    if number(value, what=what, remedy=remedy) <= 0:
        raise CostError(f"{what} must be more than 0, and is {value}: {remedy}")
    return Decimal(value)


@dataclass(frozen=True, kw_only=True)
class Amount:
    """So much money; a saving may be less than nothing."""

    value: Decimal
    currency: str

    def __post_init__(self) -> None:
        number(self.value, what="an amount of money", remedy="leave out an amount that nobody knows")
        _check_currency(self.currency)

    def times(self, factor: Number) -> "Amount":
        """So many of it."""
        return Amount(value=self.value * factor, currency=self.currency)

    def exchanged(self, unit: "Amount") -> "Amount":
        """The amount in another currency, one unit of its own being worth `unit` (RaRe Technologies, 2018)."""
        return Amount(value=self.value * unit.value, currency=unit.currency)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """An hourly price of one node, with its currency. A node may cost nothing."""

    per_node_hour: Decimal
    currency: str

    def __post_init__(self) -> None:
        not_negative(
            self.per_node_hour,
            what="the price of one node for one hour",
            remedy="give what is paid, or no price at all",
        )
        _check_currency(self.currency)

    def exchanged(self, unit: Amount) -> "Rate":
        """The rate in another currency, one unit of its own being worth `unit`."""
        return Rate(per_node_hour=self.per_node_hour * unit.value, currency=unit.currency)


def common_currency(first: Amount | Rate, *others: Amount | Rate) -> str:
    """The one currency of them all."""
    for other in others:
        if other.currency != first.currency:
            raise CostError(
                f"{first.currency} and {other.currency} cannot be added or compared: convert one of them by a dated "
                "exchange rate first"
            )
    return first.currency


def total(amounts: Sequence[Amount]) -> Amount:
    """The sum of at least one amount: of none, nobody knows the currency."""
    if not amounts:
        raise CostError("a sum needs at least one amount, and there is none: give what is paid for")
    value = sum((amount.value for amount in amounts), Decimal(0))
    return Amount(value=value, currency=common_currency(*amounts))


def rounded(amount: Decimal, *, digits: int) -> Decimal:
    """An amount for people and for status: rounded half up, which is what invoices and schools do."""
    return amount.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)


def _check_currency(currency: str) -> None:
    if not re.fullmatch("[A-Z]{3}", currency):
        raise CostError(
            f"a currency must be three capital letters of ISO 4217, and is {currency!r}: write one such as USD"
        )


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
    def write_off_per_month(self) -> Amount:
        """Purchase less residual value, over the lifetime. Parkopedia, 2018: acquisition / months."""
        return Amount(value=(self.purchase - self.residual) / self.lifetime_months, currency=self.currency)

    def power_per_month(self, *, hours: Decimal) -> Amount:
        """Electricity of a month: under load in the hours used, idle in the rest of the month's 730 hours.

        Parkopedia, 2018, without the idle hours: price of a kWh x kW x days x 24.
        """
        used = _used(hours)
        idle = max(Decimal(0), HOURS_PER_MONTH - used)
        kilowatt_hours = (self.watts * used + self.idle_watts * idle) / _WATTS_PER_KILOWATT
        return Amount(value=kilowatt_hours * self.per_kilowatt_hour, currency=self.currency)

    def month(self, *, hours: Decimal) -> Amount:
        """Everything that a month of it costs: write-off, fixed costs and power."""
        fixed = Amount(value=self.per_month, currency=self.currency)
        return total([self.write_off_per_month, fixed, self.power_per_month(hours=hours)])

    def hour(self, *, hours: Decimal | None = None) -> Rate:
        """One *used* hour, at so many hours of use a month, by default those that its owner states.

        Parkopedia, 2018: (acquisition / months + price of a kWh x kW x 24 x days) / (24 x days). A node that is never
        used has no such figure.
        """
        used = _used(self.hours_per_month if hours is None else hours)
        month = self.month(hours=used)
        return Rate(per_node_hour=month.value / used, currency=month.currency)


def _used(hours: Decimal) -> Decimal:
    what = "the use of an own node in hours per month"
    remedy = "give the hours of the month in which the node really works, such as 240"
    if positive(hours, what=what, remedy=remedy) > LONGEST_MONTH:
        raise CostError(f"{what} cannot be more than {LONGEST_MONTH}, and is {hours}: {remedy}")
    return hours
