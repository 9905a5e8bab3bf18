# SPDX-License-Identifier: Apache-2.0
"""What measured figures come to in money and time, where the published studies have no row for it."""

from decimal import Decimal

import published_formulas
from gpubench.cost import billing, whatif
from gpubench.cost.price import Amount, Rate

HOUR = Rate(per_node_hour=Decimal(1), currency="USD")
FREE = Rate(per_node_hour=Decimal(0), currency="USD")


def test_a_free_node_costs_nothing_and_that_is_known() -> None:
    assert billing.cost_of_hours(FREE, nodes=1, hours=Decimal(1)) == Amount(value=Decimal(0), currency="USD")


def test_each_node_of_a_gang_is_paid_for() -> None:
    assert billing.cost_of_hours(HOUR, nodes=2, hours=Decimal(3)).value == 6
    assert billing.cost_of_run(HOUR, nodes=2, seconds=Decimal(5400)).value == 3
    assert billing.cost_of_samples(HOUR, nodes=2, throughput=Decimal(100), samples=360_000).value == 2
    assert whatif.samples_per_unit(HOUR, nodes=2, throughput=Decimal(100)).samples == 180_000


def test_what_scaling_costs_is_relative_to_the_workers_of_its_base() -> None:
    # From two workers to eight at an efficiency of 0.5: four times the price for twice the throughput.
    scaled = published_formulas.scaling_cost(
        Decimal("0.5"),
        workers=8,
        base_workers=2,
        hour=billing.cost_of_hours(HOUR, nodes=4, hours=Decimal(1)),
        base_hour=billing.cost_of_hours(HOUR, nodes=1, hours=Decimal(1)),
        base="one node",
    )
    assert scaled == 2
