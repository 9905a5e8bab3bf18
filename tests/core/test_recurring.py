# SPDX-License-Identifier: Apache-2.0
"""A small task that recurs: its month, line by line."""

from decimal import Decimal

import published_formulas
from gpubench.cost.billing import BY_THE_SECOND
from gpubench.cost.price import Amount, Rate


def usd(value: str) -> Amount:
    return Amount(value=Decimal(value), currency="USD")


def test_a_call_of_a_function_is_rounded_up_to_a_tenth_of_a_second() -> None:
    month = published_formulas.functions_month(usd("0.001"), seconds_per_call=Decimal("0.21"), calls_per_day=1, days=30)
    assert month == usd("0.090")


def test_a_month_is_the_sum_of_its_lines() -> None:
    machine = published_formulas.machine_month(
        Rate(per_node_hour=Decimal("3.60"), currency="USD"),
        seconds_per_run=Decimal(100),
        runs_per_day=2,
        days=30,
        rule=BY_THE_SECOND,
    )
    month = published_formulas.monthly_cost([("machine", machine), ("disk", usd("0.04").times(10))])
    assert [(line.name, line.amount) for line in month.lines] == [("machine", usd("6.0")), ("disk", usd("0.40"))]
    assert month.total == usd("6.40")
