# SPDX-License-Identifier: Apache-2.0
"""What a bill was paid for: parts that sum to it, and nothing made up where nobody could tell."""

from decimal import Decimal

import pytest

from gpubench.cost import billing
from gpubench.cost.billing import BillingRule, Fee, NodeTime, Part, Terms, Waterfall, Work
from gpubench.cost.price import Amount, Rate

RATE = Rate(per_node_hour=Decimal("3.60"), currency="USD")  # a thousandth of a dollar a second
TERMS = Terms(rate=RATE)
WHOLE = Decimal(1)
WORK = Work(start_up=Decimal(20), warm_up=Decimal(10), measured=Decimal(60))


def node(held: str, *, started: str | None = "5", joined: str | None = "8") -> NodeTime:
    return NodeTime(
        held=Decimal(held),
        started=None if started is None else Decimal(started),
        joined=None if joined is None else Decimal(joined),
    )


def thousandths(found: Waterfall) -> dict[Part, Decimal]:
    """The parts in seconds: a second costs a thousandth."""
    return {part: round(1000 * paid, 9) for part, paid in found.parts.items() if paid}


def test_the_time_of_a_node_is_laid_out_along_its_line() -> None:
    found = billing.waterfall(TERMS, nodes=[node("120")], work=WORK, share=WHOLE)
    assert thousandths(found) == {
        Part.IMAGE_PULL: 5,
        Part.WAITING: 3,
        Part.START_UP: 20,
        Part.WARM_UP: 10,
        Part.MEASURED: 60,
        Part.IDLE: 22,
    }
    assert (found.total, found.currency) == (Decimal("0.120"), "USD")


def test_the_node_that_came_first_waits_for_the_one_that_came_last() -> None:
    first, last = node("120", started="2", joined="42"), node("85", started="7", joined="7")
    found = billing.waterfall(TERMS, nodes=[first, last], work=WORK, share=WHOLE)
    assert thousandths(found)[Part.WAITING] == 40
    assert thousandths(found)[Part.IMAGE_PULL] == 9


def test_increment_minimum_and_fees_are_parts_of_their_own() -> None:
    terms = Terms(
        rate=RATE,
        rule=BillingRule(increment_seconds=Decimal(60), minimum_seconds=Decimal(600)),
        fees=(Fee(name="licence", amount=Amount(value=Decimal("0.25"), currency="USD"), per="Run"),),
    )
    found = billing.waterfall(terms, nodes=[node("120")], work=WORK, share=WHOLE)
    assert thousandths(found)[Part.ROUNDING] == 480  # ten minutes at least
    assert found.parts[Part.FEES] == Decimal("0.25")
    assert round(found.total, 9) == Decimal("0.85")


def test_an_attempt_without_a_result_is_lost_as_a_whole() -> None:
    terms = Terms(rate=RATE, rule=BillingRule(minimum_seconds=Decimal(60)))
    found = billing.waterfall(terms, nodes=[node("30"), node("90")], work=None, share=WHOLE)
    assert found.parts == {Part.LOST: Decimal("0.150")}
    assert found.total == Decimal("0.150")


def test_what_was_not_recorded_is_unknown_and_not_idle() -> None:
    older = Work(start_up=Decimal(20), measured=Decimal(60))
    found = billing.waterfall(TERMS, nodes=[node("120")], work=older, share=WHOLE)
    assert Part.WARM_UP not in found.parts
    assert Part.IDLE not in found.parts
    assert thousandths(found)[Part.UNKNOWN] == 32
    for times in ({"started": None, "joined": None}, {"started": None}, {"joined": None}):
        untold = billing.waterfall(TERMS, nodes=[node("120", **times)], work=WORK, share=WHOLE)
        assert thousandths(untold) == {Part.UNKNOWN: 120}


@pytest.mark.parametrize("held", ["0", "3", "7.5", "27", "30", "61", "98", "4000.001"])
@pytest.mark.parametrize("increment", ["1", "60", "3600"])
@pytest.mark.parametrize("share", ["1", "0.125", "0.333"])
def test_the_parts_always_sum_to_the_bill_and_none_is_less_than_nothing(held: str, increment: str, share: str) -> None:
    rate = Rate(per_node_hour=Decimal("10.21"), currency="USD")
    fee = Fee(name="disk", amount=Amount(value=Decimal("4.80"), currency="USD"), per="Month")
    rule = BillingRule(increment_seconds=Decimal(increment))
    terms = Terms(rate=rate, rule=rule, fees=(fee,), hours_per_month=Decimal(730))
    nodes = [node(held), node("64", started="0.4", joined="0.4")]
    found = billing.waterfall(terms, nodes=nodes, work=WORK, share=Decimal(share))
    bill = billing.attempt_bill(terms, node_seconds=[one.held for one in nodes], share=Decimal(share))
    assert found.total == bill.total.value
    assert abs(sum(found.parts.values()) - found.total) < Decimal("1e-24")  # the last digits of the arithmetic
    assert min(found.parts.values()) >= 0
    for digits in (0, 2, 6):
        rounded = found.rounded(digits=digits)
        assert sum(rounded.parts.values()) == rounded.total
        assert abs(rounded.total - found.total) <= Decimal("0.5").scaleb(-digits)
        assert min(rounded.parts.values()) >= 0


def test_attempts_are_summed_part_by_part_in_the_order_of_the_parts() -> None:
    one = billing.waterfall(TERMS, nodes=[node("120")], work=WORK, share=WHOLE)
    other = billing.waterfall(TERMS, nodes=[node("50")], work=None, share=WHOLE)
    both = billing.combined([other, one])
    assert both.total == Decimal("0.170")
    assert both.parts[Part.LOST] == Decimal("0.050")
    assert list(both.parts) == [part for part in Part if part in both.parts]
