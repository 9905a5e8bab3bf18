# SPDX-License-Identifier: Apache-2.0
"""Spot and preemptible nodes: what their price saves, and what is left of it when work is lost.

"Discount" is 1 - spot / on-demand. Parkopedia, 2018, prints the fraction *paid* in a column of that name.
Must not happen: a saving that leaves out the work that was lost and done again.
"""

from dataclasses import dataclass
from decimal import Decimal

from gpubench.cost import amount, refusals
from gpubench.cost.amount import Amount, Rate


@dataclass(frozen=True, kw_only=True)
class InterruptionLimit:
    """How often spot may be interrupted until it costs as much as on demand; no number where that never happens."""

    per_node_hour: Decimal | None
    sentence: str


def price_fraction(spot: Rate, *, on_demand: Rate) -> Decimal:
    """The fraction of the on-demand price that is paid: spot / on-demand (Parkopedia, 2018)."""
    amount.common_currency(spot, on_demand)
    refusals.positive(
        on_demand.per_node_hour,
        what="the on-demand price of one node for one hour",
        remedy="there is nothing to save on what costs nothing; name the price that spot is compared with",
    )
    return spot.per_node_hour / on_demand.per_node_hour


def discount(spot: Rate, *, on_demand: Rate) -> Decimal:
    """What is saved by the price: 1 - spot / on-demand; below 0 while spot is the dearer one."""
    return 1 - price_fraction(spot, on_demand=on_demand)


def at_discount(on_demand: Rate, *, discount: Decimal) -> Rate:
    """The price that a discount leaves: on-demand x (1 - discount).

    Max Woolf, 2017: preemptible GPUs at half the price.
    """
    remedy = "write the part that is saved, such as 0.5, not the part that is paid"
    refusals.not_negative(discount, what="a discount", remedy=remedy)
    refusals.at_most(discount, 1, what="a discount", remedy=remedy)
    return Rate(per_node_hour=on_demand.per_node_hour * (1 - discount), currency=on_demand.currency)


def effective_price(spot: Rate, *, useful_node_hours: Decimal, lost_node_hours: Decimal) -> Rate:
    """The price of an hour of work that counted: spot x (useful + lost) / useful.

    Lost is all that was paid for and counts for nothing: work since the last checkpoint, work done again, and starting
    anew after an interruption. RaRe Technologies, 2018, and Max Woolf, 2017, quote spot prices without it.
    """
    useful = refusals.positive(
        useful_node_hours,
        what="the useful work in node-hours",
        remedy="where nothing was finished there is no price of an hour of work",
    )
    lost = refusals.not_negative(
        lost_node_hours, what="the lost and repeated work in node-hours", remedy="write 0 where nothing was lost"
    )
    return Rate(per_node_hour=spot.per_node_hour * (useful + lost) / useful, currency=spot.currency)


def realised_saving(spot: Rate, *, on_demand: Rate, useful_node_hours: Decimal, lost_node_hours: Decimal) -> Decimal:
    """What spot really saved: 1 - effective price / on-demand; below 0 where losses ate more than the discount."""
    effective = effective_price(spot, useful_node_hours=useful_node_hours, lost_node_hours=lost_node_hours)
    return discount(effective, on_demand=on_demand)


def cost_of_losses(spot: Rate, *, lost_node_hours: Decimal) -> Amount:
    """What the lost and repeated work cost."""
    lost = refusals.not_negative(
        lost_node_hours, what="the lost and repeated work in node-hours", remedy="write 0 where nothing was lost"
    )
    return Amount(value=spot.per_node_hour * lost, currency=spot.currency)


def break_even_interruptions(spot: Rate, *, on_demand: Rate, lost_node_hours: Decimal) -> InterruptionLimit:
    """Interruptions per paid node-hour at which spot costs as much as on demand: discount / node-hours lost by each.

    Of a paid hour, rate x lost is wasted, so an hour of work costs spot / (1 - rate x lost); that equals on-demand at
    rate = (1 - spot / on-demand) / lost. An interruption of one node loses the work of its whole gang: count the
    node-hours of all.
    """
    lost = refusals.not_negative(
        lost_node_hours, what="the node-hours lost by one interruption", remedy="write 0 where nothing is lost"
    )
    saved = discount(spot, on_demand=on_demand)
    if saved <= 0:
        return InterruptionLimit(
            per_node_hour=None, sentence="spot costs no less than on demand even without an interruption"
        )
    if lost == 0:
        return InterruptionLimit(
            per_node_hour=None, sentence="spot stays the cheaper one however often it is interrupted: nothing is lost"
        )
    rate = saved / lost
    return InterruptionLimit(
        per_node_hour=rate, sentence=f"spot is the cheaper one up to {rate:.3g} interruptions per node-hour"
    )
