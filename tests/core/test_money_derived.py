# SPDX-License-Identifier: Apache-2.0
"""What measured figures come to in money and time, where the published studies have no row for it."""

from decimal import Decimal

from gpubench.cost import derived
from gpubench.cost.amount import Amount, Rate

HOUR = Rate(per_node_hour=Decimal(1), currency="USD")
FREE = Rate(per_node_hour=Decimal(0), currency="USD")


def test_a_free_node_costs_nothing_and_that_is_known() -> None:
    assert derived.cost_of_hours(FREE, nodes=1, hours=Decimal(1)) == Amount(value=Decimal(0), currency="USD")


def test_each_node_of_a_gang_is_paid_for() -> None:
    assert derived.cost_of_hours(HOUR, nodes=2, hours=Decimal(3)).value == 6
    assert derived.cost_of_run(HOUR, nodes=2, seconds=Decimal(5400)).value == 3
    assert derived.cost_of_samples(HOUR, nodes=2, throughput=Decimal(100), samples=360_000).value == 2
    assert derived.samples_per_unit(HOUR, nodes=2, throughput=Decimal(100)).samples == 180_000


def test_scaling_in_money_is_the_scaling_efficiency_where_each_worker_costs_the_same() -> None:
    four = derived.cost_of_samples(HOUR, nodes=4, throughput=Decimal(340), samples=1000)
    one = derived.cost_of_samples(HOUR, nodes=1, throughput=Decimal(100), samples=1000)
    in_money = derived.efficiency_in_money(four, base_cost=one, base="one node")
    assert round(in_money, 12) == Decimal("0.85")
    scaled = derived.scaling_cost(
        Decimal("0.85"),
        workers=4,
        base_workers=1,
        hour=derived.cost_of_hours(HOUR, nodes=4, hours=Decimal(1)),
        base_hour=derived.cost_of_hours(HOUR, nodes=1, hours=Decimal(1)),
        base="one node",
    )
    assert round(scaled.ratio * in_money, 12) == 1


def test_what_scaling_costs_is_relative_to_the_workers_of_its_base() -> None:
    # From two workers to eight at an efficiency of 0.5: four times the price for twice the throughput.
    scaled = derived.scaling_cost(
        Decimal("0.5"),
        workers=8,
        base_workers=2,
        hour=derived.cost_of_hours(HOUR, nodes=4, hours=Decimal(1)),
        base_hour=derived.cost_of_hours(HOUR, nodes=1, hours=Decimal(1)),
        base="one node",
    )
    assert scaled.ratio == 2


def test_a_goal_in_epochs_is_a_goal_in_samples() -> None:
    assert derived.samples_of_epochs(90, samples_per_epoch=1_281_167) == 115_305_030
