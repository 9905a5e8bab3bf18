# SPDX-License-Identifier: Apache-2.0
"""Formulas of publications that gpubench has no use for itself: with them its own ones are checked against print."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from gpubench.cost import billing, price, whatif
from gpubench.cost.billing import BY_THE_SECOND, BillingRule, BillLine, Terms
from gpubench.cost.price import Amount, Number, Rate

_FUNCTION_INCREMENT = Decimal("0.1")  # seconds: functions are billed by 100 ms


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A ratio, and the name of what it is relative to: times as long, as dear or as fast as that."""

    ratio: Decimal
    base: str


def samples_of_steps(steps: Number, *, global_batch: Number) -> Decimal:
    """Samples in so many steps: steps x global batch (Parkopedia, 2018: batch x iterations of the papers' training)."""
    return Decimal(steps) * global_batch


def relative_time(seconds: Decimal, *, base_seconds: Decimal) -> Decimal:
    """Times as long as the base (Max Woolf, 2017, relative to TensorFlow on a K80)."""
    return seconds / base_seconds


def relative_speed(seconds: Decimal, *, base_seconds: Decimal) -> Decimal:
    """Times as fast as the base (RaRe Technologies, 2018, two GPUs against one)."""
    return base_seconds / seconds


def between(one: Relative, *, other: Relative) -> Decimal:
    """One figure relative to another of the same base, which cancels out.

    Initialized Capital, 2017: 167 and 43 times a laptop are 3.88 times one another. Max Woolf, 2017: the cheapest GPU
    relative to the cheapest processors, both printed relative to a K80.
    """
    assert one.base == other.base
    return one.ratio / other.ratio


def scaling_cost(
    efficiency: Decimal, *, workers: int, base_workers: int, hour: Amount, base_hour: Amount, base: str
) -> Decimal:
    """What a sample costs on many workers relative to the base: (hour / base hour) x (b / n) / E(n).

    `hour` is what all the workers cost for one. At a price in proportion to the workers it is 1 / E(n): what is lost in
    scaling is paid for (Parkopedia, 2018, p3.8xlarge against p3.2xlarge, at exactly four times the price).
    """
    return whatif.relative_cost(hour, base_cost=base_hour, base=base) * base_workers / workers / efficiency


def price_fraction(spot: Rate, *, on_demand: Rate) -> Decimal:
    """The fraction of the on-demand price that is paid: spot / on-demand (Parkopedia, 2018)."""
    return 1 - whatif.discount(spot, on_demand=on_demand)


def at_discount(on_demand: Rate, *, discount: Decimal) -> Rate:
    """The price that a discount leaves (Max Woolf, 2017: preemptible GPUs at half the price)."""
    return Rate(per_node_hour=on_demand.per_node_hour * (1 - discount), currency=on_demand.currency)


def billed(rate: Rate, *, node_seconds: Sequence[Decimal], rule: BillingRule = BY_THE_SECOND) -> Amount:
    """What the machines of a run are billed: each node's life rounded up by itself, times the hourly rate."""
    return billing.attempt_bill(Terms(rate=rate, rule=rule), node_seconds=node_seconds).total


# --- a small task that recurs: Max Woolf, November 2018, a cheap cron on preemptible machines -------------------------


@dataclass(frozen=True, kw_only=True)
class MonthlyCost:
    """What a recurring task costs a month, line by line: machine + disk + scheduler + functions."""

    lines: tuple[BillLine, ...]

    @property
    def total(self) -> Amount:
        """The sum of its lines."""
        return price.total([line.amount for line in self.lines])


def machine_month(
    rate: Rate, *, seconds_per_run: Decimal, runs_per_day: Number, days: Number, rule: BillingRule
) -> Amount:
    """A machine that is started for each run: price / 60 x minutes a day x days.

    What a minimum of ten minutes, or of an hour, adds, follows from the rule: each run is rounded up by itself.
    """
    return billed(rate, node_seconds=[seconds_per_run], rule=rule).times(Decimal(runs_per_day) * days)


def functions_month(per_100_ms: Amount, *, seconds_per_call: Decimal, calls_per_day: Number, days: Number) -> Amount:
    """Functions that start and stop the machine: price x 10 x seconds, rounded up, x invocations a day x days."""
    tenths = (seconds_per_call / _FUNCTION_INCREMENT).to_integral_value(rounding=ROUND_CEILING)
    return per_100_ms.times(tenths * (Decimal(calls_per_day) * days))


def monthly_cost(lines: Sequence[tuple[str, Amount]]) -> MonthlyCost:
    """All that is paid for in a month."""
    return MonthlyCost(lines=tuple(BillLine(name=name, amount=paid) for name, paid in lines))
