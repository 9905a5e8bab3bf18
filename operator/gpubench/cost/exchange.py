# SPDX-License-Identifier: Apache-2.0
"""Amounts in another currency, by the dated rates that a study gives.

RaRe Technologies, 2018, converted LeaderGPU's prices in EUR without printing the rate. Here the rate that was used can
be shown: its day and its source stand beside it. Nothing is rounded. Must not happen: a rate that nobody has given.
"""

from collections.abc import Sequence
from decimal import Decimal

from gpubench.api.pool_price import ExchangeRate
from gpubench.cost.amount import Amount
from gpubench.cost.refusals import RefusedInput


def dated_rate(rates: Sequence[ExchangeRate], *, currency: str) -> ExchangeRate | None:
    """What one unit of a currency is in the study's, with its day and source; None where the study gives no rate."""
    return next((rate for rate in rates if rate.from_currency == currency), None)


def exchanged(amount: Amount, *, into: str, rates: Sequence[ExchangeRate]) -> Amount:
    """The amount in the study's currency: times what one unit of its own is worth there (RaRe Technologies, 2018)."""
    if amount.currency == into:
        return amount
    rate = dated_rate(rates, currency=amount.currency)
    if rate is None:
        raise RefusedInput(
            f"an amount in {amount.currency} has no value in {into}: give the rate from {amount.currency} to {into} "
            "with its day in spec.exchangeRates"
        )
    return Amount(value=amount.value * Decimal(rate.rate), currency=into)
