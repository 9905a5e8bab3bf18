# SPDX-License-Identifier: Apache-2.0
"""Own or rented: the gain along the use, where the two cross, and a crossing that never comes."""

from decimal import Decimal
from typing import Any

import pytest

from gpubench.api.pool_price import Ownership
from gpubench.cost import price, whatif
from gpubench.cost.price import CostError, OwnedNode, Rate
from gpubench.plan import pool_prices


def box(**fields: Any) -> OwnedNode:
    """Parkopedia's office box, 2018."""
    defaults: dict[str, Any] = {
        "purchase": "6500", "lifetime_months": 30, "hours_per_month": 240, "watts": 1000, "per_kilowatt_hour": "0.20",
        "currency": "USD", "as_of": "2018-07-01",
    }  # fmt: skip
    return pool_prices.owned_node(Ownership(**(defaults | fields)))


def usd(per_hour: str) -> Rate:
    return Rate(per_node_hour=Decimal(per_hour), currency="USD")


def gain_at(own: OwnedNode, hours: Decimal, *, throughput: str, rented: str, rented_throughput: str) -> Decimal:
    here = whatif.samples_per_unit(own.hour(hours=hours), nodes=1, throughput=Decimal(throughput))
    return whatif.gain(here, over=whatif.samples_per_unit(usd(rented), nodes=1, throughput=Decimal(rented_throughput)))


SAME_SPEED = Decimal(1)


def test_the_gain_rises_with_use() -> None:
    found = [
        gain_at(box(), Decimal(days * 24), throughput="498", rented="5.12", rented_throughput="234")
        for days in (1, 5, 10, 20, 30)
    ]
    assert sorted(found) == found
    # TensorFlow's own figures of eight K80, Parkopedia's of the box: 498 / 1.10278 over 234 / 5.12 images per dollar
    assert price.rounded(found[2], digits=2) == Decimal("9.88")


@pytest.mark.parametrize("idle_watts", [0, 300])
@pytest.mark.parametrize("rented", ["0.60", "1.10", "5.12"])
def test_at_the_break_even_use_owning_and_renting_cost_the_same(rented: str, idle_watts: int) -> None:
    own = box(idle_watts=idle_watts, per_month="20")
    found = whatif.break_even_use(own, rented=usd(rented), relative_speed=Decimal("1.5"))
    assert found.hours is not None
    gain = gain_at(own, found.hours, throughput="150", rented=rented, rented_throughput="100")
    assert price.rounded(gain, digits=12) == 1


def test_the_published_break_even_follows_from_the_published_gain() -> None:
    # Parkopedia, 2018: at ten days a month the box's gain is 1.7; "after 5 days" it is the cheaper one. So the rented
    # hour that does the work of one of the box costs 1.7 times 1.1028.
    worth = box().hour(hours=Decimal(240)).per_node_hour * Decimal("1.7")
    rented = Rate(per_node_hour=worth, currency="USD")
    found = whatif.break_even_use(box(), rented=rented, relative_speed=SAME_SPEED)
    assert found.days is not None
    assert price.rounded(found.days, digits=2) == Decimal("5.39")
    assert found.sentence == "owning is the cheaper one from 129 hours of use a month on, 18% of 730"


def test_a_break_even_in_the_last_hour_of_a_month_is_one() -> None:
    own = box(purchase="730", lifetime_months=10, per_kilowatt_hour="0.1")
    assert whatif.break_even_use(own, rented=usd("0.2"), relative_speed=SAME_SPEED).hours == 730
    assert whatif.break_even_use(own, rented=usd("0.1999"), relative_speed=SAME_SPEED).hours is None


def test_a_given_machine_whose_power_costs_as_much_as_renting_must_never_idle() -> None:
    own = box(purchase="0", idle_watts=500, per_kilowatt_hour="0.1")
    assert whatif.break_even_use(own, rented=usd("0.1"), relative_speed=SAME_SPEED).hours == 730


def test_a_machine_in_use_all_month_is_never_idle() -> None:
    own = box(watts=1000, idle_watts=500, per_kilowatt_hour="0.10")
    assert own.power_per_month(hours=Decimal(730)) == 73
    assert own.power_per_month(hours=Decimal(744)) == Decimal("74.4")  # the longest month
    assert own.power_per_month(hours=Decimal(630)) == 63 + 5


def test_an_own_machine_that_costs_nothing_breaks_even_at_once() -> None:
    own = box(purchase="0", watts=0)
    assert whatif.break_even_use(own, rented=usd("0"), relative_speed=SAME_SPEED).hours == 0


def test_a_break_even_that_never_comes_has_no_number_and_says_so() -> None:
    found = whatif.break_even_use(box(), rented=usd("0.21"), relative_speed=SAME_SPEED)
    assert (found.hours, found.days) == (None, None)
    assert found.sentence == "owning is dearer than renting at any use: day and night for a month are not enough"


def test_what_costs_nothing_is_the_cheaper_one_from_the_first_hour() -> None:
    given = box(purchase="0", watts=0)
    assert whatif.break_even_use(given, rented=usd("0.10"), relative_speed=SAME_SPEED).hours == 0


#: "just under 30 days" (Initialized Capital, 2017), which leaves out power and what a month costs.
RENTED, FASTER = usd("0.90"), Decimal(167) / 43


def test_a_machine_pays_for_itself_the_later_the_more_it_takes_to_run() -> None:
    without = whatif.payback(box(purchase="2500", watts=0), rented=RENTED, relative_speed=FASTER)
    assert without.sentence == "buying has paid after 29.8 days of continuous use"
    dearer: list[dict[str, Any]] = [{"watts": 500}, {"watts": 0, "per_month": "73"}]  # 0.10 an hour, both
    days = {
        whatif.payback(box(purchase="2500", **costs), rented=RENTED, relative_speed=FASTER).days for costs in dearer
    }
    assert days == {Decimal(2500) / (RENTED.per_node_hour * FASTER - Decimal("0.1")) / 24}
    resold = whatif.payback(box(purchase="3500", residual="1000", watts=0), rented=RENTED, relative_speed=FASTER)
    assert resold == without


@pytest.mark.parametrize("costs", [{"watts": 4500}, {"watts": 6000}, {"watts": 0, "per_month": "657"}])
def test_a_machine_that_is_as_dear_to_run_as_to_rent_never_pays(costs: dict[str, Any]) -> None:
    found = whatif.payback(box(**costs), rented=usd("0.90"), relative_speed=SAME_SPEED)
    assert (found.hours, found.days) == (None, None)
    assert found.sentence.startswith("buying never pays: ")


def test_buying_that_would_pay_after_the_machines_lifetime_has_no_number() -> None:
    bought = {"lifetime_months": 10, "watts": 0}
    assert whatif.payback(box(purchase="7300", **bought), rented=usd("1"), relative_speed=SAME_SPEED).hours == 7300
    found = whatif.payback(box(purchase="7301", **bought), rented=usd("1"), relative_speed=SAME_SPEED)
    assert found == whatif.HoursOfUse(None, "buying does not pay within its lifetime of 10 months")


@pytest.mark.parametrize("purchase", ["0", "2500", "60000"])
@pytest.mark.parametrize("residual", ["0", "500"])
@pytest.mark.parametrize("per_month", ["0", "70", "5000"])
@pytest.mark.parametrize("idle_watts", [0, 900])
@pytest.mark.parametrize("rented", ["0.21", "0.90", "3.00"])
def test_buying_pays_exactly_where_some_use_of_a_month_does(
    purchase: str, residual: str, per_month: str, idle_watts: int, rented: str
) -> None:
    node = box(
        purchase=purchase, residual=residual if float(purchase) else "0", per_month=per_month, idle_watts=idle_watts
    )
    of_use = whatif.break_even_use(node, rented=usd(rented), relative_speed=SAME_SPEED)
    paid = whatif.payback(node, rented=usd(rented), relative_speed=SAME_SPEED)
    assert (of_use.hours is None) == (paid.hours is None)


def test_euros_of_purchase_are_not_held_against_dollars_of_rent() -> None:
    with pytest.raises(CostError, match="EUR and USD cannot be added or compared"):
        whatif.break_even_use(box(currency="EUR"), rented=usd("1"), relative_speed=SAME_SPEED)
