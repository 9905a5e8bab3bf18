# SPDX-License-Identifier: Apache-2.0
"""How the nodes of a pool are rented, and what they cost: a price with fees and billing, or an own machine; power."""

import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from gpubench import units
from gpubench.api import rules
from gpubench.units import Amount, DecimalText
from gpubench.values import FrozenModel


def _day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("write year, month and day, such as 2026-11-01")
    return text


Currency = Annotated[str, Field(pattern=rules.CURRENCY, max_length=3)]
Date = Annotated[str, Field(max_length=10, json_schema_extra={"format": "date"}), AfterValidator(_day)]
BILLED_SECONDS_MAX = 2_678_400  # a month of 31 days
#: More than any node costs in any currency; what is above is a misplaced point or another unit.
HOUR_MAX = 10_000_000
MONTH_MAX = 744 * HOUR_MAX
EXCHANGE_MAX = 10_000_000
#: CEL: what the components of a price come to in an hour.
_SUM = "self.components.map(part, double(part.perHour) * double(part.count)).sum()"


def _of_the_calendar(parent: str) -> rules.Rule:
    """The API server takes the year 0 for a year of a date, and no calendar of Python has it."""
    return rules.Rule(
        "self.asOf.getFullYear() > 0",
        f"{parent}.asOf is no day of the calendar: write the day on which it was read, such as 2026-11-01",
        ".asOf",
    )


class CapacityType(StrEnum):
    """How the nodes are rented."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"
    PREEMPTIBLE = "Preemptible"
    RESERVED = "Reserved"
    FLEX_START = "FlexStart"
    OWNED = "Owned"


class PriceComponent(FrozenModel):
    """One line of a node's bill: the machine, or its GPUs, which some providers price apart."""

    name: str = Field(min_length=1, max_length=63, description="What is paid for, such as n1-standard-8 or V100.")
    per_hour: Amount = Field(description="Price of one of them for one hour.")
    count: int = Field(1, ge=1, le=1024, description="How many of them a node has.")


class PriceFee(FrozenModel):
    """What is paid beside the nodes: a disk, a licence, a subscription."""

    name: str = Field(min_length=1, max_length=63, description="What is paid for, such as disk.")
    amount: Amount = Field(description="What is paid, in the price's currency.")
    per: Literal["Run", "Hour", "Month"] = Field(
        description="Run: for each attempt that has held a node. Hour: for each billed hour of each node. Month: for "
        "each node, spread over hoursPerMonth."
    )


_BEGIN, _END = (f"self.period.split('/')[{end}]" for end in (0, 1))


class PriceRange(FrozenModel):
    """Between which figures a price has moved, as spot prices do. In the unit of the price itself."""

    low: Amount = Field(description="Lowest figure of the time, in the unit of the price; of an hour for components.")
    high: Amount = Field(description="Highest figure of the time, in the same unit.")
    period: str = Field(
        max_length=21,
        pattern=rules.PERIOD,
        description="First and last month, or day, of that time, such as 2026-08/2026-10.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"!({rules.is_number('self.low', 'self.high')}) || double(self.low) <= double(self.high)",
            "price.range.low cannot be more than price.range.high: write the lowest and the highest price",
            ".low",
            detail="low is %s, high %s",
            values=("self.low", "self.high"),
        ),
        rules.Rule(
            f"!{rules.matches('self.period', rules.PERIOD)} || {_BEGIN} <= {_END} || {_BEGIN}.startsWith({_END})",
            "price.range.period must not end before it begins: write the first day or month, then the last one",
            ".period",
        ),
    )


class Billing(FrozenModel):
    """How the provider counts the time of a node."""

    increment_seconds: int = Field(
        1, ge=1, le=BILLED_SECONDS_MAX, description="The time of each node is rounded up to a multiple of so many."
    )
    minimum_seconds: int = Field(
        0, ge=0, le=BILLED_SECONDS_MAX, description="At least so many are billed for each node of each attempt."
    )


def _figure_at_most(field: str, limit: int, *, such_as: str, parent: str = "price") -> rules.Rule:
    """That a price is none: digits too many, another unit, or an amount of another currency."""
    return rules.Rule(
        f"!has(self.{field}) || !{rules.is_number(f'self.{field}')} || double(self.{field}) <= {limit}.0",
        f"{parent}.{field} is more than {limit}, which is no price of {such_as}: look at its unit and currency",
        f".{field}",
        detail="it is %s",
    )


def _within_range(field: str) -> rules.Rule:
    own, low, high = f"self.{field}", "self.range.low", "self.range.high"
    return rules.Rule(
        f"!has(self.range) || !has({own}) || !({rules.is_number(own, low, high)}) || "
        f"(double({low}) <= double({own}) && double({own}) <= double({high}))",
        f"price.{field} must lie within price.range, which is in the same unit",
        ".range",
        detail=f"{field} is %s, range from %s to %s",
        values=(own, low, high),
    )


class Price(FrozenModel):
    """What a node of the pool costs while it runs, in one of four forms, and how that is billed."""

    per_node_hour: Amount | None = Field(None, description='Price of one node for one hour, such as "10.21".')
    per_slot_hour: Amount | None = Field(None, description="Price of one slot for one hour, instead of a node's.")
    per_month: Amount | None = Field(None, description="Price of one node for one month; with hoursPerMonth.")
    hours_per_month: int | None = Field(
        None,
        ge=1,
        le=744,
        description="With perMonth, or a fee per Month: hours of the month in which the node is really used.",
    )
    components: tuple[PriceComponent, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="What one node's hour is made of, where its parts have prices of their own.",
        json_schema_extra=rules.list_map("name"),
    )
    fees: tuple[PriceFee, ...] = Field(
        (),
        max_length=8,
        description="What is paid beside the nodes. Fees are in what is billed, never in marginal cost.",
        json_schema_extra=rules.list_map("name"),
    )
    setup: Amount | None = Field(None, description="Paid once, before a benchmark's first run; billed, not marginal.")
    discount: Amount | None = Field(
        None, description="Share of the figure that a contract takes off, such as 0.3 for 30 %; of the range, too."
    )
    range: PriceRange | None = Field(None, description="Between which figures the price has moved.")
    billing: Billing | None = Field(None, description="How a node's time is billed; by the second if absent.")
    currency: Currency = Field(description="ISO 4217 code of the amount, such as USD.")
    as_of: Date = Field(description="Day on which the price was read, such as 2026-11-01; stale after 90 days.")
    source: str = Field("", max_length=512, description="Where the price was read.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "[has(self.perNodeHour), has(self.perSlotHour), has(self.perMonth), has(self.components)]"
            ".filter(x, x).size() == 1",
            "price needs exactly one of perNodeHour (one node for one hour), perSlotHour (one slot of it), "
            "perMonth (one node for one month) and components (what a node's hour is made of)",
        ),
        _of_the_calendar("price"),
        rules.Rule(
            "has(self.hoursPerMonth) == "
            "(has(self.perMonth) || (has(self.fees) && self.fees.exists(fee, fee.per == 'Month')))",
            "price.perMonth and price.hoursPerMonth belong together, and so do a fee per Month and "
            "hoursPerMonth: say over how many hours of use the month is spread, 730 for a node that works day and "
            "night",
        ),
        rules.Rule(
            f"!has(self.discount) || !{rules.is_number('self.discount')} || double(self.discount) < 1.0",
            "price.discount is a share of the price, below 1: write 0.3 for 30 %",
            ".discount",
        ),
        _figure_at_most("perNodeHour", HOUR_MAX, such_as="an hour"),
        _figure_at_most("perSlotHour", HOUR_MAX, such_as="an hour"),
        _figure_at_most("perMonth", MONTH_MAX, such_as="a month"),
        _figure_at_most("setup", MONTH_MAX, such_as="setting up nodes"),
        rules.Rule(
            f"!has(self.components) || self.components.all(part, !{rules.is_number('part.perHour')} || "
            f"double(part.perHour) <= {HOUR_MAX}.0)",
            f"price.components has a perHour of more than {HOUR_MAX}, which is no price of an hour: look at "
            "its unit and currency",
            ".components",
        ),
        rules.Rule(
            f"!has(self.fees) || self.fees.all(fee, !{rules.is_number('fee.amount')} || "
            f"double(fee.amount) <= {MONTH_MAX}.0)",
            f"price.fees has an amount of more than {MONTH_MAX}, which is no fee: look at its currency",
            ".fees",
        ),
        *map(_within_range, ("perNodeHour", "perSlotHour", "perMonth")),
        rules.Rule(
            # A sum of binary fractions may miss its decimal value in the last digits.
            "!has(self.range) || !has(self.components) || "
            f"!({rules.is_number('self.range.low', 'self.range.high')} && "
            f"self.components.all(part, {rules.is_number('part.perHour')})) || "
            f"(double(self.range.low) <= {_SUM} + 0.000001 && {_SUM} - 0.000001 <= double(self.range.high))",
            "what price.components come to, each times its count, must lie within price.range, which is of a "
            "node's hour",
            ".range",
        ),
    )


class ExchangeRate(FrozenModel):
    """What one unit of another currency was worth on a day."""

    from_currency: Currency = Field(alias="from", description="ISO 4217 code of the other currency, such as EUR.")
    rate: DecimalText = Field(description='What one unit of it is in the benchmark\'s currency, such as "1.23".')
    as_of: Date = Field(description="Day of the rate, such as 2026-11-01.")
    source: str = Field("", max_length=512, description="Where the rate was read.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            r"!self.rate.matches('^[0.]+$')",
            "exchangeRates[].rate must be more than 0: write what one unit of the other currency is in the "
            "benchmark's currency",
            ".rate",
        ),
        _of_the_calendar("exchangeRates[]"),
        rules.Rule(
            f"!{rules.matches('self.rate', units.DECIMAL_PATTERN)} || double(self.rate) <= {EXCHANGE_MAX}.0",
            f"exchangeRates[].rate is more than {EXCHANGE_MAX}, which no currency is worth: write what one "
            "unit of the other currency is in the benchmark's currency",
            ".rate",
            detail="it is %s",
        ),
    )


class Ownership(FrozenModel):
    """An own machine: what an hour of use costs, from purchase, lifetime, hours used and power."""

    purchase: Amount = Field(description="What one node cost.")
    residual: Amount = Field("0", description="What one node will still be worth at the end of its lifetime.")
    lifetime_months: int = Field(ge=1, le=240, description="Months over which the node is written off.")
    hours_per_month: int = Field(ge=1, le=744, description="Hours per month in which the node is really used.")
    watts: int = Field(0, ge=0, le=100_000, description="Power of one node under training load.")
    idle_watts: int = Field(0, ge=0, le=100_000, description="Power of one node in the remaining hours of the month.")
    per_kilowatt_hour: Amount = Field("0", description="Price of electricity per kilowatt-hour.")
    per_month: Amount = Field("0", description="Fixed monthly costs of one node: room, network, care.")
    currency: Currency = Field(description="ISO 4217 code of the amounts, such as USD.")
    as_of: Date = Field(description="Day on which the amounts were read, such as 2026-11-01.")
    source: str = Field("", max_length=512, description="Where the amounts were read.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"!({rules.is_number('self.residual', 'self.purchase')}) || double(self.residual) <= double(self.purchase)",
            "ownership.residual cannot be more than ownership.purchase: what is left is part of what was paid",
            ".residual",
            detail="residual is %s, purchase %s",
            values=("self.residual", "self.purchase"),
        ),
        rules.Rule(
            "self.idleWatts <= self.watts",
            "ownership.idleWatts cannot be more than ownership.watts: give the power under load too",
            ".idleWatts",
            detail="idleWatts is %d, watts %d",
            values=("self.idleWatts", "self.watts"),
        ),
        _of_the_calendar("ownership"),
        _figure_at_most("purchase", MONTH_MAX, such_as="a node", parent="ownership"),
        _figure_at_most("perMonth", MONTH_MAX, such_as="a month", parent="ownership"),
        _figure_at_most("perKilowattHour", HOUR_MAX, such_as="a kilowatt-hour", parent="ownership"),
    )


class Power(FrozenModel):
    """What a pool's nodes take besides their GPUs, and what the electricity there emits: facts, with their source."""

    host_watts: int = Field(0, ge=0, le=100_000, description="Power of a node without its GPUs, under load.")
    pue: Amount = Field("1", description="What the data centre takes over what its machines take, such as 1.1.")
    grams_per_kilowatt_hour: Amount | None = Field(
        None, description="Grams of CO2 equivalent of a kilowatt-hour of the grid. Absent: no emissions are reported."
    )
    as_of: Date = Field(description="Day on which the figures were read, such as 2026-11-01.")
    source: str = Field(min_length=1, max_length=512, description="Where they were read.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"!{rules.is_number('self.pue')} || (double(self.pue) >= 1.0 && double(self.pue) <= 5.0)",
            "power.pue is what the data centre takes over what its machines take: write a number from 1 to 5, such as "
            "1.1",
            ".pue",
        ),
        rules.Rule(
            f"!has(self.gramsPerKilowattHour) || !{rules.is_number('self.gramsPerKilowattHour')} || "
            "double(self.gramsPerKilowattHour) <= 5000.0",
            "power.gramsPerKilowattHour is more than 5000, which no grid emits: write grams of CO2 equivalent for a "
            "kilowatt-hour, such as 385",
            ".gramsPerKilowattHour",
        ),
        _of_the_calendar("power"),
    )
