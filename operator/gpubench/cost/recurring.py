# SPDX-License-Identifier: Apache-2.0
"""What a small task costs that runs again and again: machine-minutes, functions that start it, a disk, a scheduler.

Source of the model: Max Woolf, November 2018, a cheap cron on preemptible machines: each run starts a machine, works
for two minutes and stops it. Must not happen: a month of unstated length; a provider's list has 730 hours, Woolf's 30
days.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal

from gpubench.cost import amount, billing, derived, refusals
from gpubench.cost.amount import Amount, Rate
from gpubench.cost.billing import BillingRule, BillLine
from gpubench.cost.refusals import Number

_FUNCTION_INCREMENT = Decimal("0.1")  # seconds: functions are billed by 100 ms


@dataclass(frozen=True, kw_only=True)
class MonthlyCost:
    """What a recurring task costs a month, line by line."""

    lines: tuple[BillLine, ...]

    @property
    def total(self) -> Amount:
        """The sum of its lines."""
        return amount.total([line.amount for line in self.lines])


def machine_month(
    rate: Rate, *, seconds_per_run: Decimal, runs_per_day: Number, days: Number, rule: BillingRule
) -> Amount:
    """A machine that is started for each run: rate x billed time of a run x runs a day x days.

    Max Woolf, 2018: price / 60 x minutes a day x days. What a minimum of ten minutes, or of an hour, adds, follows from
    the rule: each run is rounded up by itself.
    """
    runs = _count(runs_per_day, what="runs a day") * _count(days, what="days of a month")
    return billing.billed(rate, node_seconds=[seconds_per_run], rule=rule).times(runs)


def always_on_month(rate: Rate, *, hours: Decimal) -> Amount:
    """A machine that is never stopped: rate x hours of the month.

    Max Woolf, 2018, takes 730 hours for it and 720 elsewhere; Parkopedia, 2018, 732.
    """
    return derived.cost_of_hours(rate, nodes=1, hours=_count(hours, what="hours of a month"))


def functions_month(per_100_ms: Amount, *, seconds_per_call: Decimal, calls_per_day: Number, days: Number) -> Amount:
    """Functions that start and stop the machine: price of 100 ms x tenths of a second, rounded up, x calls x days.

    Max Woolf, 2018: price x 10 x seconds x invocations a day x days.
    """
    refusals.not_negative(seconds_per_call, what="the time of a function in seconds", remedy="give what a call takes")
    calls = _count(calls_per_day, what="calls a day") * _count(days, what="days of a month")
    tenths = (seconds_per_call / _FUNCTION_INCREMENT).to_integral_value(rounding=ROUND_CEILING)
    return _price(per_100_ms, what="the price of 100 ms of a function").times(tenths * calls)


def scheduler_month(per_rule: Amount, *, rules: Number) -> Amount:
    """A scheduler: price of a rule x rules (Max Woolf, 2018: one to start and one to stop)."""
    return _price(per_rule, what="the price of a scheduler's rule").times(_count(rules, what="rules"))


def disk_month(per_gigabyte: Amount, *, gigabytes: Number) -> Amount:
    """A disk that stays while the machine is off: price of a gigabyte x gigabytes (Max Woolf, 2018)."""
    return _price(per_gigabyte, what="the price of a gigabyte of disk").times(_count(gigabytes, what="gigabytes"))


def monthly_cost(lines: Sequence[tuple[str, Amount]]) -> MonthlyCost:
    """All that is paid for in a month (Max Woolf, 2018: machine + disk + scheduler + functions)."""
    amount.total([paid for _, paid in lines])  # refuses none, and several currencies
    return MonthlyCost(lines=tuple(BillLine(name=name, amount=paid) for name, paid in lines))


def _count(value: Number, *, what: str) -> Decimal:
    return refusals.positive(value, what=f"the number of {what}", remedy="leave out a line that is not paid for")


def _price(price: Amount, *, what: str) -> Amount:
    refusals.not_negative(price.value, what=what, remedy="give what is paid, or leave it out")
    return price
