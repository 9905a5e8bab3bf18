# SPDX-License-Identifier: Apache-2.0
"""What a run is billed: the life of each of its nodes by the provider's increment and minimum, fees, setup.

Clouds bill a node from its start to its end, whatever it did: what is billed is never less than the marginal cost, and
the two are never mixed. Must not happen: node-seconds of several nodes added before they are rounded up.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum

from gpubench.cost import amount, derived, refusals
from gpubench.cost.amount import Amount, Rate
from gpubench.cost.refusals import RefusedInput


@dataclass(frozen=True, kw_only=True)
class BillingRule:
    """How a provider counts the time of a node. RaRe Technologies, 2018, lists 1 ms, 1 s, 1 min and 1 h."""

    increment_seconds: Decimal = Decimal(1)
    minimum_seconds: Decimal = Decimal(0)

    def __post_init__(self) -> None:
        refusals.positive(
            self.increment_seconds, what="a billing increment in seconds", remedy="write 1 for by the second"
        )
        refusals.not_negative(self.minimum_seconds, what="a billing minimum in seconds", remedy="write 0 for none")


BY_THE_SECOND = BillingRule()


class FeePeriod(StrEnum):
    """What a fee is asked for."""

    RUN = "Run"
    HOUR = "Hour"
    MONTH = "Month"


@dataclass(frozen=True, kw_only=True)
class Fee:
    """What is paid beside the machine: a disk, a licence, a subscription."""

    name: str
    amount: Amount
    per: FeePeriod

    def __post_init__(self) -> None:
        refusals.not_negative(
            self.amount.value, what=f"the fee {self.name}", remedy="give what is paid, or leave the fee out"
        )


@dataclass(frozen=True, kw_only=True)
class BillLine:
    """One line of a bill."""

    name: str
    amount: Amount


@dataclass(frozen=True, kw_only=True)
class Bill:
    """What is billed, line by line; `billed_hours` are those of all nodes together, after rounding up."""

    billed_hours: Decimal
    lines: tuple[BillLine, ...]

    @property
    def total(self) -> Amount:
        """The sum of its lines."""
        return amount.total([line.amount for line in self.lines])


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What the nodes of a pool are billed by, all of it in one currency.

    `setup` is paid once for the pool and belongs to no single attempt: `attempt_bill` leaves it out.
    """

    rate: Rate
    rule: BillingRule = BY_THE_SECOND
    fees: tuple[Fee, ...] = ()
    setup: Amount | None = None
    hours_per_month: Decimal | None = None  # that a fee per month is spread over

    def __post_init__(self) -> None:
        amounts = [fee.amount for fee in self.fees] + ([] if self.setup is None else [self.setup])
        amount.common_currency(self.rate, *amounts)

    @property
    def fees_per_node_hour(self) -> Amount | None:
        """What the fees of hours and months come to in an hour of a node; None without any."""
        hour = Decimal(1)
        shares = [
            _share_of_fee(fee, hours=hour, hours_per_month=self.hours_per_month)
            for fee in self.fees
            if fee.per is not FeePeriod.RUN
        ]
        return amount.total(shares) if shares else None


def billed_seconds(seconds: Decimal, *, rule: BillingRule) -> Decimal:
    """Node-seconds that are paid for: at least the minimum, rounded up to whole increments.

    RaRe Technologies, 2018: Softlayer billed 3.16 hours as 4. Max Woolf, 2018: with a minimum of ten minutes, a task of
    two minutes costs five times as much. A node that was never there is not billed.
    """
    refusals.not_negative(seconds, what="the life of a node in seconds", remedy="give its end less its start")
    if seconds == 0:
        return Decimal(0)
    increments = max(seconds, rule.minimum_seconds) / rule.increment_seconds
    return increments.to_integral_value(rounding=ROUND_CEILING) * rule.increment_seconds


def billed(rate: Rate, *, node_seconds: Sequence[Decimal], rule: BillingRule = BY_THE_SECOND) -> Amount:
    """What the machines of a run are billed: each node's life rounded up by itself, times the hourly rate."""
    return derived.cost_of_hours(rate, nodes=1, hours=_billed_hours(node_seconds, rule=rule))


def bill(
    rate: Rate,
    *,
    node_seconds: Sequence[Decimal],
    rule: BillingRule = BY_THE_SECOND,
    fees: Sequence[Fee] = (),
    setup: Amount | None = None,
    hours_per_month: Decimal | None = None,
    share: Decimal = Decimal(1),
) -> Bill:
    """The whole bill of a run: machines, fees, and setup, which only the first run on a machine has.

    `share` is the part of each node that is paid for, where others pay for the rest.
    A fee per hour is asked for each billed hour of each node. A fee per month (RaRe Technologies, 2018: Paperspace's
    flat fee) is spread over `hours_per_month`, the hours that are paid for in a month, as a price per month is.
    """
    hours = _billed_hours(node_seconds, rule=rule) * refusals.positive(
        share, what="the part of a node that is paid for", remedy="write 1 for the whole node"
    )
    lines = [
        BillLine(name="machines", amount=derived.cost_of_hours(rate, nodes=1, hours=hours)),
        *(
            BillLine(name=fee.name, amount=_share_of_fee(fee, hours=hours, hours_per_month=hours_per_month))
            for fee in fees
        ),
    ]
    if setup is not None:
        refusals.not_negative(setup.value, what="the price of setup", remedy="give what is paid, or leave it out")
        lines.append(BillLine(name="setup", amount=setup))
    amount.common_currency(*(line.amount for line in lines))
    return Bill(billed_hours=hours, lines=tuple(lines))


def attempt_bill(terms: Terms, *, node_seconds: Sequence[Decimal], share: Decimal = Decimal(1)) -> Bill:
    """The bill of one attempt: its nodes' time by the provider's rule, and its fees; setup is not in it.

    `node_seconds` has one entry for each node that it held, `share` is the part of each that it pays for. Where no node
    was held nothing is billed, not even a fee that is asked for a run.
    """
    held = any(seconds > 0 for seconds in node_seconds)
    return bill(
        terms.rate,
        node_seconds=node_seconds,
        rule=terms.rule,
        fees=terms.fees if held else (),
        hours_per_month=terms.hours_per_month,
        share=share,
    )


def _billed_hours(node_seconds: Sequence[Decimal], *, rule: BillingRule) -> Decimal:
    seconds = sum((billed_seconds(life, rule=rule) for life in node_seconds), Decimal(0))
    return seconds / derived.SECONDS_PER_HOUR


def _share_of_fee(fee: Fee, *, hours: Decimal, hours_per_month: Decimal | None) -> Amount:
    if fee.per is FeePeriod.RUN:
        return fee.amount
    if fee.per is FeePeriod.HOUR:
        return fee.amount.times(hours)
    if hours_per_month is None:
        raise RefusedInput(
            f"the fee {fee.name} is asked for a month, and nobody says how many hours of a month are paid for: give "
            "hoursPerMonth, 730 for a node that works day and night"
        )
    used = refusals.positive(
        hours_per_month,
        what="the hours that are paid for in a month",
        remedy="give what the month's fee is spread over",
    )
    return Amount(value=fee.amount.value * hours / used, currency=fee.amount.currency)
