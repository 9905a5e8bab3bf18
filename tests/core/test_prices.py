# SPDX-License-Identifier: Apache-2.0
"""Prices with their fees, ranges and ages: in the plan's currency, in a pool's status, at a study's points."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

import builders
from gpubench.analysis import costs, pool_status, text
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.cost.billing import BY_THE_SECOND, BillingRule
from gpubench.cost.price import Amount, Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Imported, ImportedPoint, Plan
from gpubench.report import tables
from world import world

PRICE: dict[str, Any] = {"per_node_hour": "10", "currency": "EUR", "as_of": "2023-11-01", "source": "the price list"}
FEES = (
    {"name": "disk", "amount": "7.30", "per": "Month"},
    {"name": "licence", "amount": "0.50", "per": "Hour"},
    {"name": "start", "amount": "2", "per": "Run"},
)
RANGE = {"low": "8", "high": "15", "period": "2023-08/2023-10"}
DAY = 86_400.0


def pool(name: str = "cpu", **changes: Any) -> GpuPool:
    return builders.pool(name, price=PRICE | changes)


def planned(*pools: GpuPool, currency: str | None = "USD") -> Plan:
    rates = [{"from": "EUR", "rate": "1.25", "asOf": "2023-11-02"}]
    names = [one.name for one in pools]
    fields = {"currency": currency, "exchangeRates": rates} if currency else {}
    return builders.plan(builders.spec(builders.block(pools=names), **fields), *pools)


# --- terms ------------------------------------------------------------------------------------------------------------


def test_all_that_is_paid_is_exchanged_by_the_same_dated_rate() -> None:
    billing = {"increment_seconds": 60, "minimum_seconds": 600}
    plan = planned(pool(fees=FEES, setup="20", billing=billing, hours_per_month=730))
    found = pool_prices.planned_terms(plan, "cpu")
    assert found is not None
    assert found.rate == Rate(per_node_hour=Decimal("12.50"), currency="USD")
    assert [(fee.name, fee.amount.value, fee.per) for fee in found.fees] == [
        ("disk", Decimal("9.1250"), "Month"),
        ("licence", Decimal("0.6250"), "Hour"),
        ("start", Decimal("2.50"), "Run"),
    ]
    assert found.setup == Amount(value=Decimal(25), currency="USD")
    assert found.rule == BillingRule(increment_seconds=Decimal(60), minimum_seconds=Decimal(600))
    assert found.fees_per_node_hour == Amount(value=Decimal("0.6375"), currency="USD")


def test_a_price_that_says_nothing_of_billing_is_billed_by_the_second() -> None:
    found = pool_prices.terms(pool().spec)
    assert found is not None
    assert (found.rule, found.fees, found.setup, found.fees_per_node_hour) == (BY_THE_SECOND, (), None, None)


def test_without_a_price_or_an_exchange_rate_there_are_no_terms() -> None:
    assert pool_prices.terms(builders.pool(price=None).spec) is None
    assert pool_prices.planned_terms(planned(pool(currency="GBP")), "cpu") is None


def test_fees_change_no_marginal_cost() -> None:
    plain, dear = (
        world(plan=builders.plan(builders.spec(), builders.pool(price=PRICE | fees))).run().results[0].cost
        for fees in ({}, {"fees": FEES, "hours_per_month": 730, "setup": "99"})
    )
    assert plain == dear


@pytest.mark.parametrize(
    ("form", "low", "high"),
    [
        ({}, "8", "15"),
        ({"per_node_hour": None, "per_slot_hour": "10"}, "32", "60"),
        ({"per_node_hour": None, "per_month": "10", "hours_per_month": 100}, "0.08", "0.15"),
        ({"per_node_hour": None, "components": ({"name": "a", "per_hour": "5", "count": 2},)}, "8", "15"),
    ],
)
def test_a_range_is_in_the_unit_of_its_price(form: dict[str, Any], low: str, high: str) -> None:
    found = pool_prices.rate_range(builders.pool(price=PRICE | {"range": RANGE} | form, slots_per_node=4).spec)
    assert found is not None
    assert (found.low.per_node_hour, found.high.per_node_hour) == (Decimal(low), Decimal(high))
    assert found.period == "2023-08/2023-10"


def test_costs_at_both_ends_of_a_range_stand_beside_the_cost() -> None:
    here = world(builders.study(), planned(pool(range=RANGE)))
    status = here.run()
    cost = status.results[0].cost
    assert cost is not None
    table = tables.results(status.results, status.prices)
    titles = [column.title for column in table.columns]
    assert cost.per_million_samples is not None
    mean = Decimal(cost.per_million_samples.mean)
    shown = table.rows[0][titles.index("AT LOW–HIGH PRICE")]
    assert shown == text.between(mean * Decimal("0.8"), mean * Decimal("1.5"))
    assert tables.RANGE_NOTE in table.notes
    still = tables.results(status.results)
    assert "AT LOW–HIGH PRICE" not in [column.title for column in still.columns]
    assert tables.RANGE_NOTE not in still.notes


def test_a_range_about_a_price_of_nothing_scales_nothing() -> None:
    free = pool(per_node_hour="0", range={"low": "0", "high": "1", "period": "2023-08/2023-10"})
    status = world(builders.study(), planned(free)).run()
    titles = [column.title for column in tables.results(status.results, status.prices).columns]
    assert "AT LOW–HIGH PRICE" not in titles


def test_an_own_machine_is_exchanged_amount_by_amount() -> None:
    own = builders.pool(
        price=None,
        ownership={
            "purchase": "9000", "residual": "1000", "lifetime_months": 36, "hours_per_month": 200, "watts": 700,
            "per_kilowatt_hour": "0.20", "per_month": "10", "currency": "EUR", "as_of": "2023-11-01",
        },
    )  # fmt: skip
    plan = planned(own)
    found = pool_prices.planned_ownership(plan, "cpu")
    assert found is not None
    assert [Decimal(text) for text in (found.purchase, found.residual, found.per_kilowatt_hour, found.per_month)] == [
        11250, 1250, Decimal("0.25"), Decimal("12.50"),
    ]  # fmt: skip
    rate, in_euros = pool_prices.planned_rate(plan, "cpu"), pool_prices.rate(own.spec)
    assert rate is not None
    assert in_euros is not None
    assert rate.per_node_hour == pytest.approx(in_euros.per_node_hour * Decimal("1.25"), rel=Decimal("1e-20"))


# --- in a study's status ----------------------------------------------------------------------------------------------


def test_a_status_carries_the_prices_that_its_costs_stand_on() -> None:
    plan = planned(pool(range=RANGE, setup="20"), builders.pool("free", price=None))
    (used,) = costs.prices_used(plan)
    assert used.to_wire() == {
        "pool": "cpu",
        "perNodeHour": "12.5",
        "currency": "USD",
        "asOf": "2023-11-01",
        "source": "the price list",
        "low": "10",
        "high": "18.75",
        "period": "2023-08/2023-10",
        "setup": "25",
        "exchangeRate": "1.25",
        "exchangedFrom": "EUR",
        "exchangeAsOf": "2023-11-02",
    }
    assert world(builders.study(), plan).reconcile().status.prices == (used,)


def test_a_source_of_any_length_fits_a_status() -> None:
    (used,) = costs.prices_used(planned(pool(source="測" * 512)))
    assert used.source is not None
    assert len(used.source.encode()) <= 96


# --- old prices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("as_of", "told"),
    [
        ("2023-08-16", False),  # 90 days before the plan's 2023-11-14
        ("2023-08-15", True),
        ("2018-07-01", True),
        ("2026-11-01", False),  # the clock of the plan may be wrong; the pool's own condition says so
    ],
)
def test_points_say_that_their_price_is_old_on_the_day_of_the_plan(as_of: str, told: bool) -> None:
    plan = builders.plan(builders.spec(), pool(as_of=as_of))
    results = world(builders.study(), plan).run().results
    for result in results:
        stale = [text for text in builders.messages(result) if text.startswith("stale price: that of cpu was read on")]
        assert bool(stale) is told


def test_an_own_machines_price_grows_old_too_and_no_price_never_does() -> None:
    own = {
        "purchase": "9000", "lifetime_months": 36, "hours_per_month": 200, "currency": "EUR", "as_of": "2018-07-01",
    }  # fmt: skip
    plan = builders.plan(builders.spec(), builders.pool(price=None, ownership=own))
    days = (datetime.date.fromisoformat(plan.planned_at[:10]) - datetime.date(2018, 7, 1)).days
    told = f"stale price: that of cpu was read on 2018-07-01, {days} days before the plan: read it again"
    assert [*pool_prices.odd_dates(plan, "cpu")] == [told]
    assert not [*pool_prices.odd_dates(builders.plan(builders.spec(), builders.pool(price=None)), "cpu")]


@pytest.mark.parametrize(
    "figure",
    [{"per_node_hour": "10"}, {"per_slot_hour": "10"}, {"components": [{"name": "a", "per_hour": "10"}]}],
)
def test_a_contracts_discount_is_taken_off_every_figure_and_its_range(figure: dict[str, Any]) -> None:
    listed = {"currency": "USD", "as_of": "2023-11-01", "range": RANGE, "discount": "0.3", **figure}
    spec = builders.pool(price=listed, slots_per_node=1).spec
    found, moved = pool_prices.rate(spec), pool_prices.rate_range(spec)
    assert found is not None
    assert moved is not None
    assert found.per_node_hour == 7
    assert (moved.low.per_node_hour, moved.high.per_node_hour) == (Decimal("5.6"), Decimal("10.5"))


@pytest.mark.parametrize(
    ("as_of", "of_rate", "told"),
    [
        ("2099-01-01", None, ["odd price: that of cpu is of 2099-01-01"]),
        (None, "1999-01-01", ["stale exchange rate: that of EUR was read on 1999-01-01"]),
        (None, "2099-01-01", ["odd exchange rate: that of EUR is of 2099-01-01"]),
        ("1999-01-01", "1999-01-01", ["stale price: that of cpu", "stale exchange rate: that of EUR"]),
        (None, None, []),
    ],
)
def test_dates_of_prices_and_rates_are_held_against_the_day_of_the_plan(
    as_of: str | None, of_rate: str | None, told: list[str]
) -> None:
    today = builders.plan().planned_at[:10]
    rates = [{"from": "EUR", "rate": "1.2", "as_of": of_rate or today}]
    spec = builders.spec(currency="USD", exchange_rates=rates)
    plan = builders.plan(spec, pool(as_of=as_of or today, currency="EUR"))
    found = [*pool_prices.odd_dates(plan, "cpu")]
    assert len(found) == len(told)
    assert all(one.startswith(beginning) for one, beginning in zip(found, told, strict=True))
    assert all(one.endswith(": write the day on which it was read") for one in found if one.startswith("odd"))


@pytest.mark.parametrize(("days", "is_odd"), [(-400, False), (0, False), (1, False), (2, True)])
def test_a_day_that_has_come_in_no_time_zone_is_none_on_which_a_price_was_read(days: int, is_odd: bool) -> None:
    today = datetime.date(2026, 11, 1)
    as_of = str(today + datetime.timedelta(days=days))
    rates = builders.spec(currency="USD", exchange_rates=[{"from": "EUR", "rate": "1.2", "as_of": as_of}])
    told = f"is of {as_of}: write the day on which it was read"
    assert [*pool_prices.days_to_come([pool(as_of=as_of)], rates.exchange_rates, today=today)] == (
        [f"the price of GpuPool cpu {told}", f"the exchange rate of EUR {told}"] if is_odd else []
    )


@pytest.mark.parametrize(
    ("published", "is_odd"),
    [
        ("2023", False),
        ("2023-11", False),
        ("2024-02", True),
        ("2019-05-02", True),
        ("2020", True),
        ("2023-08", False),
        ("2023-08-02", True),
    ],
)
def test_imported_figures_are_held_against_the_time_of_their_publication(published: str, is_odd: bool) -> None:
    imported = Imported(publisher="us", source="here", published=published, points=(ImportedPoint(point=0),))
    plan = builders.plan(builders.spec(), pool(as_of="2023-11-01"))
    found = [*pool_prices.odd_dates(plan.model_copy(update={"imported": imported}), "cpu")]
    assert bool(found) is is_odd
    assert all(f"the figures were published ({published})" in one for one in found)
    assert all(one.endswith(": give that of the time") for one in found if one.startswith("odd"))


def of_pool(a_pool: GpuPool, *, now: float = builders.NOW, before: tuple[Condition, ...] = ()) -> GpuPoolStatus:
    return GpuPoolStatus.model_validate(pool_status.of(a_pool, [], now, before))


def condition(status: GpuPoolStatus) -> Condition | None:
    return next((one for one in status.conditions if one.type == "PriceStale"), None)


@pytest.mark.parametrize(
    ("as_of", "holds", "reason", "words"),
    [
        ("2023-11-01", "False", "Fresh", "the price was read on 2023-11-01; it is called stale after 90 days"),
        ("2023-11-15", "False", "Fresh", "read on 2023-11-15"),  # it is tomorrow somewhere
        ("2023-08-15", "True", "TooOld", "91 days ago: read it again, and write it with its asOf"),
        ("2062-11-01", "Unknown", "AfterToday", "which is after today: write the day on which it was read"),
    ],
)
def test_a_pool_says_whether_its_price_is_stale(as_of: str, holds: str, reason: str, words: str) -> None:
    found = condition(of_pool(pool(as_of=as_of)))
    assert found is not None
    assert (found.status, found.reason) == (holds, reason)
    assert words in found.message


def test_a_price_becomes_stale_as_time_passes_and_is_fresh_again_when_it_is_read_again() -> None:
    first = of_pool(pool())
    second = of_pool(pool(), now=builders.NOW + 100 * DAY, before=first.conditions)
    third = of_pool(pool(as_of="2024-02-01"), now=builders.NOW + 101 * DAY, before=second.conditions)
    found = [condition(status) for status in (first, second, third)]
    assert [one.status for one in found if one is not None] == ["False", "True", "False"]
    assert len({one.last_transition_time for one in found if one is not None}) == 3


def test_a_pool_without_a_price_has_no_condition_about_it() -> None:
    assert condition(of_pool(builders.pool(price=None))) is None


def test_a_pool_shows_price_fees_and_range_of_a_node_hour() -> None:
    status = of_pool(pool(fees=FEES, hours_per_month=730, range=RANGE))
    assert status.price_per_node_hour == "10.0000 EUR"
    assert status.fees_per_node_hour == "0.5100 EUR"
    assert status.price_range == "8.0000 to 15.0000 EUR in 2023-08/2023-10"
    assert status.price_as_of == "2023-11-01"
    plain = of_pool(builders.pool(price=None))
    assert (plain.price_per_node_hour, plain.fees_per_node_hour, plain.price_range) == (None, None, None)


def test_the_largest_prices_that_the_rules_allow_fit_into_the_status_of_a_pool() -> None:
    dear = {"low": "163840000000", "high": "999999999999.999999999", "period": "2023-08-01/2023-10-31"}
    parts = [{"name": f"part-{number}", "per_hour": "10000000", "count": 1024} for number in range(16)]
    status = of_pool(
        builders.pool(
            price={"currency": "EUR", "as_of": "2023-11-01"} | {"components": parts, "range": dear}, slots_per_node=64
        )
    )
    assert status.price_range == "163840000000.0000 to 1000000000000.0000 EUR in 2023-08-01/2023-10-31"
    slots = {"per_slot_hour": "10000000", "range": dear | {"low": "10000000"}}
    status = of_pool(builders.pool(price={"currency": "EUR", "as_of": "2023-11-01"} | slots, slots_per_node=64))
    assert status.price_range == "640000000.0000 to 64000000000000.0000 EUR in 2023-08-01/2023-10-31"
