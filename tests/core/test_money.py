# SPDX-License-Identifier: Apache-2.0
"""Prices and marginal cost: decimal, rounded half up, never without a currency, never a made-up zero."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

import builders
from gpubench.api.pool import GpuPool
from gpubench.cost import billing, price
from gpubench.cost.price import Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.values import Interval


def test_a_slot_price_is_multiplied_to_the_node() -> None:
    pool = builders.pool(slots_per_node=8, price={"per_slot_hour": "2.48", "currency": "USD", "as_of": "2026-11-01"})
    assert pool_prices.rate(pool.spec) == Rate(per_node_hour=Decimal("19.84"), currency="USD")


def test_a_month_is_spread_over_the_hours_that_are_used() -> None:
    pool = builders.pool(
        price={"per_month": "730", "hours_per_month": 200, "currency": "EUR", "as_of": "2026-11-01"},
    )
    assert pool_prices.rate(pool.spec) == Rate(per_node_hour=Decimal("3.65"), currency="EUR")


def test_components_are_summed_each_times_its_count() -> None:
    # Parkopedia 2018, GCE_8xV100: an n1-standard-64 at 3.04 and eight V100 at 2.48 are 22.88 USD an hour.
    parts = ({"name": "n1-standard-64", "per_hour": "3.04"}, {"name": "V100", "per_hour": "2.48", "count": 8})
    pool = builders.pool(slots_per_node=8, price={"components": parts, "currency": "USD", "as_of": "2018-07-01"})
    assert pool_prices.rate(pool.spec) == Rate(per_node_hour=Decimal("22.88"), currency="USD")


def _plan(*pools: GpuPool, currency: str | None = "USD", exchange: Sequence[tuple[str, str]] = ()) -> Plan:
    rates = [{"from": code, "rate": rate, "as_of": "2018-02-28"} for code, rate in exchange]
    return builders.plan(builders.spec(currency=currency, exchange_rates=rates), *pools)


def _euros(amount: str) -> GpuPool:
    return builders.pool(price={"per_node_hour": amount, "currency": "EUR", "as_of": "2018-02-28"})


def test_another_currency_is_converted_by_the_dated_rate_and_not_rounded() -> None:
    # RaRe 2018, LeaderGPU: 0.08 EUR a minute are 4.80 EUR an hour; at 1.228 USD, 2.42 hours are 14.26 USD.
    plan = _plan(_euros("4.80"), exchange=[("EUR", "1.228")])
    converted = pool_prices.planned_rate(plan, "cpu")
    assert converted == Rate(per_node_hour=Decimal("5.89440"), currency="USD")
    assert price.rounded(converted.per_node_hour * Decimal("2.42"), digits=2) == Decimal("14.26")
    assert pool_prices.without_exchange(plan, "cpu") is None


def test_without_the_rate_there_is_no_cost_and_the_sentence_names_the_rate() -> None:
    plan = _plan(_euros("4.80"), exchange=[("GBP", "1.39")])
    assert pool_prices.planned_rate(plan, "cpu") is None
    assert pool_prices.without_exchange(plan, "cpu") == (
        "no cost: the price of cpu is in EUR, and spec.exchangeRates has no rate from EUR to USD"
    )


def test_the_studys_own_currency_needs_no_rate() -> None:
    plan = _plan(builders.pool())
    assert pool_prices.planned_rate(plan, "cpu") == Rate(per_node_hour=Decimal("0.36"), currency="USD")
    assert pool_prices.without_exchange(plan, "cpu") is None


def test_a_study_without_a_currency_leaves_each_pool_its_own() -> None:
    assert pool_prices.planned_rate(_plan(_euros("4.80"), currency=None), "cpu") == pool_prices.rate(
        _euros("4.80").spec
    )


def test_a_pool_without_a_price_lacks_no_exchange_rate() -> None:
    plan = _plan(builders.pool(price=None))
    assert pool_prices.planned_rate(plan, "cpu") is None
    assert pool_prices.without_exchange(plan, "cpu") is None


def test_a_pool_without_a_price_has_no_rate() -> None:
    assert pool_prices.rate(builders.pool(price=None).spec) is None


@pytest.mark.parametrize(
    ("days", "expected"),
    # Parkopedia 2018, "office box": USD 6500 over 30 months, 1 kW at 0.20 per kWh, used whole days; their table and its
    # curve over utilisation, rounded half up to four digits.
    [(1, "9.2278"), (10, "1.1028"), (15, "0.8019"), (20, "0.6514"), (30, "0.5009")],
)
def test_an_own_box_costs_what_the_published_study_derived(days: int, expected: str) -> None:
    pool = builders.pool(
        price=None,
        ownership={
            "purchase": "6500", "lifetime_months": 30, "hours_per_month": days * 24, "watts": 1000,
            "per_kilowatt_hour": "0.20", "currency": "USD", "as_of": "2018-07-01",
        },
    )  # fmt: skip
    rate = pool_prices.rate(pool.spec)
    assert rate is not None
    assert rate.currency == "USD"
    assert price.rounded(rate.per_node_hour, digits=4) == Decimal(expected)


def test_residual_value_idle_power_and_fixed_costs_count() -> None:
    pool = builders.pool(
        price=None,
        ownership={
            "purchase": "1200", "residual": "200", "lifetime_months": 10, "hours_per_month": 73, "watts": 1000,
            "idle_watts": 100, "per_kilowatt_hour": "0.10", "per_month": "50", "currency": "USD", "as_of": "2026-11-01",
        },
    )  # fmt: skip
    rate = pool_prices.rate(pool.spec)
    # 100 write-off + 50 fixed + (73 h x 1 kW + 657 h x 0.1 kW) x 0.10 = 163.87 a month, over 73 hours of use
    assert rate is not None
    assert rate.per_node_hour == Decimal("163.87") / 73


def test_cost_per_million_samples_is_rate_over_throughput() -> None:
    cost = billing.cost_of_samples_interval(
        Rate(per_node_hour=Decimal("3.60"), currency="USD"),
        nodes=Decimal(2),
        throughput=Interval(mean=1000.0, low=800.0, high=1250.0),
    )
    # 2 nodes x 3.60 / 3600 s = 0.002 per second; a million samples take 1000 s
    assert (cost.mean, cost.low, cost.high) == (Decimal(2), Decimal("1.6"), Decimal("2.5"))
    assert cost.currency == "USD"


def test_without_an_interval_of_the_throughput_the_cost_has_none() -> None:
    cost = billing.cost_of_samples_interval(
        Rate(per_node_hour=Decimal(1), currency="USD"), nodes=Decimal(1), throughput=Interval(mean=10.0)
    )
    assert cost.low is None
    assert cost.high is None


def test_a_goal_takes_the_longer_the_slower() -> None:
    found = billing.hours_to_samples_interval(7_200_000, throughput=Interval(mean=1000.0, low=800.0, high=1250.0))
    assert found == Interval(mean=2.0, low=1.6, high=2.5)


@pytest.mark.parametrize(("amount", "expected"), [("0.125", "0.13"), ("0.135", "0.14"), ("2.665", "2.67")])
def test_amounts_are_rounded_half_up(amount: str, expected: str) -> None:
    assert price.rounded(Decimal(amount), digits=2) == Decimal(expected)
