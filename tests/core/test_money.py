# SPDX-License-Identifier: Apache-2.0
"""Prices and marginal cost: decimal, rounded half up, never without a currency, never a made-up zero."""

from decimal import Decimal

import pytest

import builders
from gpubench.measure.intervals import Interval
from gpubench.money import marginal, price
from gpubench.money.price import Rate


def test_a_slot_price_is_multiplied_to_the_node() -> None:
    pool = builders.pool(slots_per_node=8, price={"per_slot_hour": "2.48", "currency": "USD", "as_of": "2026-11-01"})
    assert price.rate(pool.spec) == Rate(per_node_hour=Decimal("19.84"), currency="USD")


def test_a_pool_without_a_price_has_no_rate() -> None:
    assert price.rate(builders.pool(price=None).spec) is None


@pytest.mark.parametrize(
    ("days", "expected"),
    # Parkopedia 2018, "office box": EUR 6500 over 30 months, 1 kW at 0.20 per kWh, used whole days; their table and its
    # curve over utilisation, rounded half up to four digits.
    [(1, "9.2278"), (10, "1.1028"), (15, "0.8019"), (20, "0.6514"), (30, "0.5009")],
)
def test_an_own_box_costs_what_the_published_study_derived(days: int, expected: str) -> None:
    pool = builders.pool(
        price=None,
        ownership={
            "purchase": "6500", "lifetime_months": 30, "hours_per_month": days * 24, "watts": 1000,
            "per_kilowatt_hour": "0.20", "currency": "EUR", "as_of": "2018-07-01",
        },
    )  # fmt: skip
    rate = price.rate(pool.spec)
    assert rate is not None
    assert rate.currency == "EUR"
    assert price.rounded(rate.per_node_hour, digits=4) == Decimal(expected)


def test_residual_value_idle_power_and_fixed_costs_count() -> None:
    pool = builders.pool(
        price=None,
        ownership={
            "purchase": "1200", "residual": "200", "lifetime_months": 10, "hours_per_month": 73, "watts": 1000,
            "idle_watts": 100, "per_kilowatt_hour": "0.10", "per_month": "50", "currency": "USD", "as_of": "2026-11-01",
        },
    )  # fmt: skip
    rate = price.rate(pool.spec)
    # 100 write-off + 50 fixed + (73 h x 1 kW + 657 h x 0.1 kW) x 0.10 = 163.87 a month, over 73 hours of use
    assert rate is not None
    assert rate.per_node_hour == Decimal("163.87") / 73


def test_cost_per_million_samples_is_rate_over_throughput() -> None:
    cost = marginal.per_million_samples(
        Rate(per_node_hour=Decimal("3.60"), currency="USD"),
        nodes=Decimal(2),
        throughput=Interval(mean=1000.0, low=800.0, high=1250.0),
    )
    # 2 nodes x 3.60 / 3600 s = 0.002 per second; a million samples take 1000 s
    assert (cost.mean, cost.low, cost.high) == (Decimal(2), Decimal("1.6"), Decimal("2.5"))
    assert cost.currency == "USD"


def test_without_an_interval_of_the_throughput_the_cost_has_none() -> None:
    cost = marginal.per_million_samples(
        Rate(per_node_hour=Decimal(1), currency="USD"), nodes=Decimal(1), throughput=Interval(mean=10.0)
    )
    assert cost.low is None
    assert cost.high is None


def test_a_throughput_that_may_be_zero_leaves_the_cost_open_above() -> None:
    cost = marginal.per_million_samples(
        Rate(per_node_hour=Decimal(1), currency="USD"),
        nodes=Decimal(1),
        throughput=Interval(mean=10.0, low=-1.0, high=21.0),
    )
    assert cost.low is not None
    assert cost.high is None


@pytest.mark.parametrize(("amount", "expected"), [("0.125", "0.13"), ("0.135", "0.14"), ("2.665", "2.67")])
def test_amounts_are_rounded_half_up(amount: str, expected: str) -> None:
    assert price.rounded(Decimal(amount), digits=2) == Decimal(expected)
