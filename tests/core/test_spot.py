# SPDX-License-Identifier: Apache-2.0
"""Spot: the discount, and what is left of it when work is lost."""

from decimal import Decimal

import published_formulas
from gpubench.cost import whatif
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
