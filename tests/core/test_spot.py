# SPDX-License-Identifier: Apache-2.0
"""Spot: the discount, what is left of it when work is lost, and how often it may be interrupted."""

from decimal import Decimal

import published_formulas
from gpubench.cost import price, whatif
from gpubench.cost.price import Rate


def usd(per_hour: str) -> Rate:
    return Rate(per_node_hour=Decimal(per_hour), currency="USD")


SPOT, ON_DEMAND = usd("1"), usd("4")


def realised_saving(*, useful: int, lost: int) -> Decimal:
    effective = whatif.effective_price(SPOT, useful_node_hours=Decimal(useful), lost_node_hours=Decimal(lost))
    return whatif.discount(effective, on_demand=ON_DEMAND)


def test_the_discount_is_what_is_saved_and_not_what_is_paid() -> None:
    assert whatif.discount(SPOT, on_demand=ON_DEMAND) == Decimal("0.75")
    assert published_formulas.price_fraction(SPOT, on_demand=ON_DEMAND) == Decimal("0.25")


def test_a_discount_gives_the_price_back() -> None:
    assert published_formulas.at_discount(ON_DEMAND, discount=whatif.discount(SPOT, on_demand=ON_DEMAND)) == SPOT


def test_spot_that_is_dearer_has_a_negative_discount() -> None:
    assert whatif.discount(ON_DEMAND, on_demand=SPOT) == -3


def test_lost_and_repeated_work_is_paid_for_by_the_work_that_counts() -> None:
    lost = {"useful_node_hours": Decimal(8), "lost_node_hours": Decimal(2)}
    assert whatif.effective_price(SPOT, **lost) == usd("1.25")
    assert realised_saving(useful=8, lost=2) == Decimal("0.6875")


def test_without_losses_the_saving_is_the_discount() -> None:
    saved = realised_saving(useful=8, lost=0)
    assert saved == whatif.discount(SPOT, on_demand=ON_DEMAND)


def test_losses_can_eat_more_than_the_discount() -> None:
    saved = realised_saving(useful=1, lost=4)
    assert saved == Decimal("-0.25")


def test_at_the_break_even_rate_an_hour_of_work_costs_as_much_as_on_demand() -> None:
    limit, sentence = whatif.break_even_interruptions(
        usd("1.11"), on_demand=usd("3.06"), lost_node_hours=Decimal("0.5")
    )
    assert limit is not None
    assert sentence == "spot is the cheaper one up to 1.27 interruptions per node-hour"
    lost = limit * Decimal("0.5")  # of each paid hour
    effective = whatif.effective_price(usd("1.11"), useful_node_hours=1 - lost, lost_node_hours=lost)
    assert price.rounded(effective.per_node_hour, digits=12) == Decimal("3.06")


def test_a_limit_that_does_not_exist_has_no_number() -> None:
    assert whatif.break_even_interruptions(usd("4"), on_demand=ON_DEMAND, lost_node_hours=Decimal(1)) == (
        None, "spot costs no less than on demand even without an interruption",
    )  # fmt: skip
