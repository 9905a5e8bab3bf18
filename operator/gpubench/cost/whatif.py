# SPDX-License-Identifier: Apache-2.0
"""What it would cost elsewhere or otherwise: on spot, on an own node, relative to a base, extrapolated.

Must not happen: a ratio of amounts in two currencies; a saving that leaves out the work that was lost and done again; a
break-even at an infinite or negative time. One that never comes has no number, and its sentence says why.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench.cost.billing import SECONDS_PER_HOUR
from gpubench.cost.price import HOURS_PER_MONTH, Amount, Number, OwnedNode, Rate, common_currency, positive
from gpubench.units import Formula, counted

_HOURS_PER_DAY = 24


# --- one point beside another -----------------------------------------------------------------------------------------


class SamplesPerUnit(NamedTuple):
    """Samples that one unit of a currency buys: images per dollar."""

    samples: Decimal
    currency: str


def samples_per_unit(rate: Rate, *, nodes: Number, throughput: Decimal) -> SamplesPerUnit:
    """Samples for one unit of money: throughput x 3600 / (rate x nodes) (Parkopedia, 2018, "images per dollar")."""
    hour = positive(
        rate.per_node_hour,
        what="the price of one node for one hour",
        remedy="for nothing, money buys any number of samples; give a price to compare by",
    )
    return SamplesPerUnit(throughput * SECONDS_PER_HOUR / (hour * nodes), rate.currency)


def gain(one: SamplesPerUnit, *, over: SamplesPerUnit) -> Decimal:
    """How many times as many samples a unit of money buys here as there.

    Parkopedia, 2018, "gain", also against utilisation: images per dollar of the box over those of the cloud.
    Initialized Capital, 2017, "cost-adjusted" speed: speed ratio x price ratio.
    """
    common_currency(one.currency, over.currency)
    return one.samples / over.samples


#: Of times as long; the prices are those of all nodes for the same hour.
RELATIVE_COST = Formula(
    text="relative time x rate x nodes / (base rate x base nodes)",
    source="Max Woolf, 2017, relative to TensorFlow on a K80: (seconds x price) / (base seconds x base price)",
)


def relative_cost(cost: Amount, *, base_cost: Amount, base: str) -> Decimal:
    """Times as dear as the base (RELATIVE_COST): cost / base cost; `base` is its name."""
    common_currency(cost.currency, base_cost.currency)
    return cost.value / positive(
        base_cost.value,
        what=f"the cost of {base}",
        remedy="nothing is a multiple of what costs nothing; choose a base that has a price",
    )


def mean_efficiency(efficiencies: Sequence[Decimal]) -> Decimal:
    """The mean efficiency over a set of pairs of machines, each weighing the same (Parkopedia, 2018)."""
    return sum(efficiencies, Decimal(0)) / len(efficiencies)


def extrapolated(single: Decimal, *, times: Number, efficiencies: Sequence[Decimal]) -> Decimal:
    """The throughput of many times one: n x single x mean efficiency of other machines.

    Parkopedia, 2018, four GTX 1080 Ti from one. It has no interval: how other machines scatter says nothing certain
    about this one.
    """
    return times * single * mean_efficiency(efficiencies)


# --- spot -------------------------------------------------------------------------------------------------------------


def discount(spot: Rate, *, on_demand: Rate) -> Decimal:
    """What is saved by the price: 1 - spot / on-demand; below 0 while spot is the dearer one.

    Parkopedia, 2018, prints the fraction *paid* in a column of that name.
    """
    common_currency(spot.currency, on_demand.currency)
    return 1 - spot.per_node_hour / positive(
        on_demand.per_node_hour,
        what="the on-demand price of one node for one hour",
        remedy="there is nothing to save on what costs nothing; name the price that spot is compared with",
    )


def effective_price(spot: Rate, *, useful_node_hours: Decimal, lost_node_hours: Decimal) -> Rate:
    """The price of an hour of work that counted: spot x (useful + lost) / useful.

    Lost is all that was paid for and counts for nothing: work since the last checkpoint, work done again, and starting
    anew after an interruption. RaRe Technologies, 2018, and Max Woolf, 2017, quote spot prices without it. The discount
    of this price is what spot really saved.
    """
    paid = spot.per_node_hour * (useful_node_hours + lost_node_hours)
    return Rate(per_node_hour=paid / useful_node_hours, currency=spot.currency)


def break_even_interruptions(spot: Rate, *, on_demand: Rate, lost_node_hours: Decimal) -> tuple[Decimal | None, str]:
    """Interruptions per paid node-hour at which spot costs as much as on demand: discount / node-hours lost by each.

    With the same in a sentence; None where spot is the dearer one anyway.

    Of a paid hour, rate x lost is wasted, so an hour of work costs spot / (1 - rate x lost); that equals on-demand at
    rate = (1 - spot / on-demand) / lost. An interruption of one node loses the work of its whole gang: count the
    node-hours of all.
    """
    if (saved := discount(spot, on_demand=on_demand)) <= 0:
        return None, "spot costs no less than on demand even without an interruption"
    rate = saved / lost_node_hours
    return rate, f"spot is the cheaper one up to {rate:.3g} interruptions per node-hour"


# --- owned or rented --------------------------------------------------------------------------------------------------


class HoursOfUse(NamedTuple):
    """For how long (of a month) an own machine must be used to be the cheaper one; no number where that never comes."""

    hours: Decimal | None
    sentence: str

    @property
    def days(self) -> Decimal | None:
        """The same in days of continuous use."""
        return None if self.hours is None else self.hours / _HOURS_PER_DAY


def payback(node: OwnedNode, *, rented: Rate, relative_speed: Decimal) -> HoursOfUse:
    """Hours of continuous use after which a node has paid: (purchase - residual) / (worth - running hour).

    Worth is the rented hour times how many times as fast the own node is; running are power under load and what a month
    costs anyway. Initialized Capital, 2017, without either: a machine for 2500 USD, 167 / 43 times as fast as a
    p2.xlarge, "just under 30 days".
    """
    common_currency(node.currency, rented.currency)
    running = (node.per_month + node.power_per_month(hours=HOURS_PER_MONTH)) / HOURS_PER_MONTH
    if (saved := rented.per_node_hour * relative_speed - running) <= 0:
        never = "buying never pays: an hour of the own machine costs as much to run as renting the same work"
        return HoursOfUse(None, never)
    if (hours := (node.purchase - node.residual) / saved) > node.lifetime_months * HOURS_PER_MONTH:
        return HoursOfUse(None, f"buying does not pay within its lifetime of {counted(node.lifetime_months, 'month')}")
    return HoursOfUse(hours, f"buying has paid after {hours / _HOURS_PER_DAY:.1f} days of continuous use")


def break_even_use(node: OwnedNode, *, rented: Rate, relative_speed: Decimal) -> HoursOfUse:
    """Hours of use per month, of 730, from which the own node does the same work for less.

    A month costs fixed + h x running, and the same work rented h x worth, where worth is the rented hour times how many
    times as fast the own node is: h = fixed / (worth - running). Idle power of the whole month is fixed, and an hour of
    use adds only what it takes above that. Parkopedia, 2018, reads the crossing from its figure of gain against
    utilisation ("after 5 days").
    """
    common_currency(node.currency, rented.currency)
    busy, idle = (node.per_kilowatt_hour * watts / 1000 for watts in (node.watts, node.idle_watts))
    fixed = node.write_off_per_month + node.per_month + idle * HOURS_PER_MONTH
    saved = rented.per_node_hour * relative_speed - busy + idle
    if saved * HOURS_PER_MONTH < fixed:
        return HoursOfUse(None, "owning is dearer than renting at any use: day and night for a month are not enough")
    hours = fixed / saved if fixed else Decimal(0)
    share = f"{hours / HOURS_PER_MONTH:.0%} of {HOURS_PER_MONTH}"
    return HoursOfUse(hours, f"owning is the cheaper one from {hours:.0f} hours of use a month on, {share}")
