# SPDX-License-Identifier: Apache-2.0
"""When an own node is cheaper than a rented one: after how long, or from how much use on.

Must not happen: an infinite or negative time. A break-even that never comes has no number, and its sentence says why.
"""

from dataclasses import dataclass
from decimal import Decimal

from gpubench.api.pool_price import Ownership
from gpubench.cost import amount, refusals
from gpubench.cost.amount import Amount, Rate
from gpubench.cost.ownership import HOURS_PER_MONTH, LONGEST_MONTH, hour_at, write_off_per_month

_HOURS_PER_DAY = 24


@dataclass(frozen=True, kw_only=True)
class Payback:
    """How long a machine must work until buying it was cheaper than renting; no number where that never comes."""

    hours: Decimal | None
    sentence: str

    @property
    def days(self) -> Decimal | None:
        """The same in days of continuous use."""
        return None if self.hours is None else self.hours / _HOURS_PER_DAY


@dataclass(frozen=True, kw_only=True)
class BreakEvenUse:
    """How much an own node must be used in a month to be the cheaper one; no number where no use is enough."""

    hours_per_month: Decimal | None
    sentence: str

    @property
    def days_per_month(self) -> Decimal | None:
        """The same in whole days of use."""
        return None if self.hours_per_month is None else self.hours_per_month / _HOURS_PER_DAY

    @property
    def utilisation(self) -> Decimal | None:
        """The same as a share of a month of 730 hours; above 1 only a month of 31 days has as many."""
        return None if self.hours_per_month is None else self.hours_per_month / HOURS_PER_MONTH


def payback(purchase: Amount, *, rented: Rate, relative_speed: Decimal, running: Rate | None = None) -> Payback:
    """Hours of use after which the purchase has paid: purchase / (rented hour x relative speed - own running hour).

    Initialized Capital, 2017: a machine for 2500 USD, 167 / 43 times as fast as a p2.xlarge, "just under 30 days" of
    continuous use; it leaves out the running costs (power), which are nothing here when they are not given.
    """
    amount.common_currency(purchase, rented, *([] if running is None else [running]))
    refusals.positive(purchase.value, what="the purchase price", remedy="give what the machine cost")
    saved = _worth(rented, relative_speed) - (Decimal(0) if running is None else running.per_node_hour)
    if saved <= 0:
        return Payback(
            hours=None,
            sentence="buying never pays: an hour of the own machine costs as much to run as renting the same work",
        )
    hours = purchase.value / saved
    days = hours / _HOURS_PER_DAY
    return Payback(hours=hours, sentence=f"buying has paid after {days:.1f} days of continuous use")


def break_even_use(ownership: Ownership, *, rented: Rate, relative_speed: Decimal) -> BreakEvenUse:
    """Hours of use per month from which the own node does the same work for less.

    A month costs fixed + h x running, and the same work rented h x worth, where worth is the rented hour times how many
    times as fast the own node is: h = fixed / (worth - running). Idle power of the month's 730 hours is fixed, and an
    hour of use adds only what it takes above that. Parkopedia, 2018, reads the crossing from its figure of gain against
    utilisation ("after 5 days").
    """
    own_month = write_off_per_month(ownership)
    amount.common_currency(own_month, rented)
    worth = _worth(rented, relative_speed)
    kilowatt_hour = Decimal(ownership.per_kilowatt_hour)
    busy, idle = (kilowatt_hour * watts / 1000 for watts in (ownership.watts, ownership.idle_watts))
    fixed = own_month.value + Decimal(ownership.per_month)
    if hour_at(ownership, hours_per_month=LONGEST_MONTH).per_node_hour > worth:
        return BreakEvenUse(
            hours_per_month=None,
            sentence="owning is dearer than renting at any use: day and night for a month are not enough",
        )
    always_idle = fixed + idle * HOURS_PER_MONTH
    hours = Decimal(0) if always_idle == 0 else always_idle / (worth - busy + idle)
    if hours > HOURS_PER_MONTH:  # no hour of such a month is idle
        hours = fixed / (worth - busy)
    return BreakEvenUse(
        hours_per_month=hours,
        sentence=f"owning is the cheaper one from {hours:.0f} hours of use a month on, {hours / HOURS_PER_MONTH:.0%} "
        f"of {HOURS_PER_MONTH}",
    )


def _worth(rented: Rate, relative_speed: Decimal) -> Decimal:
    """What renting the work of one own hour costs."""
    return rented.per_node_hour * refusals.positive(
        relative_speed,
        what="the speed of the own node relative to the rented one",
        remedy="divide the two throughputs, or write 1 for the same machine",
    )
