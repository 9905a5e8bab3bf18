# SPDX-License-Identifier: Apache-2.0
"""What a run is billed: every node by itself, rounded up, with fees and setup, line by line."""

from decimal import Decimal
from typing import Any

import pytest

import published_formulas
from gpubench.cost import billing
from gpubench.cost.billing import BillingRule, Fee, Terms
from gpubench.cost.price import Amount, Rate

RATE = Rate(per_node_hour=Decimal("3.60"), currency="USD")  # a thousandth of a dollar a second


def usd(value: str) -> Amount:
    return Amount(value=Decimal(value), currency="USD")


@pytest.mark.parametrize(
    ("seconds", "increment", "minimum", "expected"),
    [
        ("61.2", "1", "0", "62"),
        ("61", "1", "0", "61"),
        ("5", "1", "60", "60"),
        ("3601", "3600", "0", "7200"),
        ("3600", "3600", "0", "3600"),
        ("10", "60", "90", "120"),  # a minimum that is no whole number of increments is rounded up too
        ("0.0001", "0.001", "0", "0.001"),
        ("0", "1", "60", "0"),  # what was never there is not billed
    ],
)
def test_the_life_of_a_node_is_rounded_up(seconds: str, increment: str, minimum: str, expected: str) -> None:
    rule = BillingRule(increment_seconds=Decimal(increment), minimum_seconds=Decimal(minimum))
    assert billing.billed_seconds(Decimal(seconds), rule=rule) == Decimal(expected)


def test_each_node_is_rounded_up_by_itself() -> None:
    rule = BillingRule(increment_seconds=Decimal(3600))
    # Two nodes of half an hour are two hours, not one.
    assert published_formulas.billed(RATE, node_seconds=[Decimal(1800), Decimal(1800)], rule=rule) == usd("7.20")


def test_billed_is_never_less_than_marginal() -> None:
    lives = [Decimal("100.5"), Decimal("3599.9")]
    marginal = billing.cost_of_run(RATE, nodes=1, seconds=sum(lives, Decimal(0)))
    assert published_formulas.billed(RATE, node_seconds=lives).value > marginal.value
    assert published_formulas.billed(RATE, node_seconds=[Decimal(100)]) == billing.cost_of_run(
        RATE, nodes=1, seconds=Decimal(100)
    )


def test_a_bill_has_a_line_for_machines_and_each_fee() -> None:
    fees = [
        Fee(name="licence", amount=usd("1.50"), per="Run"),
        Fee(name="disk", amount=usd("0.10"), per="Hour"),
        Fee(name="subscription", amount=usd("5"), per="Month"),  # RaRe 2018: Paperspace's flat fee
    ]
    lives = [Decimal(7200), Decimal(7200)]
    bill = billing.attempt_bill(terms(fees=tuple(fees), hours_per_month=Decimal(200)), node_seconds=lives)
    assert {line.name: line.amount.value for line in bill.lines} == {
        "machines": Decimal("14.4"),
        "licence": Decimal("1.5"),
        "disk": Decimal("0.4"),
        "subscription": Decimal("0.1"),  # 5 over 200 hours, for 4 of them
    }
    assert bill.total == usd("16.40")


def test_without_fees_the_bill_is_that_of_the_machines() -> None:
    bill = billing.attempt_bill(terms(), node_seconds=[Decimal(3600)])
    assert [line.name for line in bill.lines] == ["machines"]
    assert bill.total == usd("3.60")


# --- one attempt ------------------------------------------------------------------------------------------------------


def terms(**fields: Any) -> Terms:
    return Terms(rate=RATE, **fields)


def test_an_attempt_is_billed_by_the_terms_of_its_pool_without_setup() -> None:
    found = billing.attempt_bill(
        terms(
            rule=BillingRule(increment_seconds=Decimal(60)),
            fees=(
                Fee(name="licence", amount=usd("1.50"), per="Run"),
                Fee(name="disk", amount=usd("0.10"), per="Hour"),
            ),
            setup=usd("25"),
        ),
        node_seconds=[Decimal(1770), Decimal(1800)],
    )
    assert {line.name: line.amount.value for line in found.lines} == {
        "machines": Decimal("3.60"),
        "licence": Decimal("1.50"),
        "disk": Decimal("0.10"),
    }


def test_an_attempt_that_holds_a_part_of_a_node_pays_for_that_part_of_its_time_and_for_its_run() -> None:
    fees = (
        Fee(name="licence", amount=usd("1.50"), per="Run"),
        Fee(name="disk", amount=usd("0.80"), per="Hour"),
    )
    found = billing.attempt_bill(terms(fees=fees), node_seconds=[Decimal(3600)], share=Decimal("0.25"))
    assert [line.amount.value for line in found.lines] == [Decimal("0.90"), Decimal("1.50"), Decimal("0.20")]


def test_an_attempt_that_never_had_a_node_is_billed_nothing_not_even_the_fee_of_a_run() -> None:
    fee = Fee(name="licence", amount=usd("1.50"), per="Run")
    for seconds in ([], [Decimal(0)]):
        assert billing.attempt_bill(terms(fees=(fee,)), node_seconds=seconds).total == usd("0")
    held = billing.attempt_bill(terms(fees=(fee,)), node_seconds=[Decimal("0.5")])
    assert [line.name for line in held.lines] == ["machines", "licence"]


def test_samples_cost_their_time_in_the_currency_of_the_rate() -> None:
    assert billing.cost_of_samples(RATE, nodes=2, throughput=Decimal(10), samples=18_000) == usd("3.60")


def test_fees_of_hours_and_months_have_a_price_of_an_hour_and_those_of_a_run_have_none() -> None:
    fees = (
        Fee(name="licence", amount=usd("1.50"), per="Run"),
        Fee(name="disk", amount=usd("0.10"), per="Hour"),
        Fee(name="subscription", amount=usd("5"), per="Month"),
    )
    assert terms(fees=fees, hours_per_month=Decimal(200)).fees_per_node_hour == usd("0.125")
    assert terms(fees=fees[:1]).fees_per_node_hour is None
