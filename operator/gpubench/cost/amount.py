# SPDX-License-Identifier: Apache-2.0
"""Amounts of money and hourly rates, each with its currency.

Must not happen: an amount without a currency, or one that is added to, or compared with, an amount in another one.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench.api import patterns
from gpubench.cost import refusals
from gpubench.cost.refusals import Number, RefusedInput


@dataclass(frozen=True, kw_only=True)
class Amount:
    """So much money; a saving may be less than nothing."""

    value: Decimal
    currency: str

    def __post_init__(self) -> None:
        refusals.number(self.value, what="an amount of money", remedy="leave out an amount that nobody knows")
        _check_currency(self.currency)

    def plus(self, other: "Amount") -> "Amount":
        """The sum of two amounts in one currency."""
        return Amount(value=self.value + other.value, currency=common_currency(self, other))

    def minus(self, other: "Amount") -> "Amount":
        """What the other leaves of this."""
        return Amount(value=self.value - other.value, currency=common_currency(self, other))

    def times(self, factor: Number) -> "Amount":
        """So many of it."""
        return Amount(value=self.value * factor, currency=self.currency)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """An hourly price of one node, with its currency. A node may cost nothing."""

    per_node_hour: Decimal
    currency: str

    def __post_init__(self) -> None:
        refusals.not_negative(
            self.per_node_hour,
            what="the price of one node for one hour",
            remedy="give what is paid, or no price at all",
        )
        _check_currency(self.currency)


def common_currency(first: Amount | Rate, *others: Amount | Rate) -> str:
    """The one currency of them all."""
    for other in others:
        if other.currency != first.currency:
            raise RefusedInput(
                f"{first.currency} and {other.currency} cannot be added or compared: convert one of them by a dated "
                "exchange rate first"
            )
    return first.currency


def total(amounts: Sequence[Amount]) -> Amount:
    """The sum of at least one amount: of none, nobody knows the currency."""
    if not amounts:
        raise RefusedInput("a sum needs at least one amount, and there is none: give what is paid for")
    value = sum((amount.value for amount in amounts), Decimal(0))
    return Amount(value=value, currency=common_currency(*amounts))


def _check_currency(currency: str) -> None:
    if not re.fullmatch(patterns.CURRENCY, currency):
        raise RefusedInput(
            f"a currency must be three capital letters of ISO 4217, and is {currency!r}: write one such as USD"
        )
