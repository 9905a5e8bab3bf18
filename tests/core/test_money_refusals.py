# SPDX-License-Identifier: Apache-2.0
"""What no figure can be made of is refused with one sentence: never NaN, an infinite amount, or a made-up 0."""

import re
from collections.abc import Callable
from decimal import Decimal

import pytest

from gpubench.cost import billing, whatif
from gpubench.cost.billing import BillingRule, Fee, FeePeriod
from gpubench.cost.price import Amount, CostError, Rate, total

HOUR = Rate(per_node_hour=Decimal(1), currency="USD")
FREE = Rate(per_node_hour=Decimal(0), currency="USD")
EUROS = Rate(per_node_hour=Decimal(1), currency="EUR")
NOTHING = Amount(value=Decimal(0), currency="USD")
DOLLAR = Amount(value=Decimal(1), currency="USD")
EURO = Amount(value=Decimal(1), currency="EUR")
MINUS = Decimal(-1)
NAN, INFINITE, ZERO, ONE = Decimal("NaN"), Decimal("Infinity"), Decimal(0), Decimal(1)

REFUSED: tuple[tuple[str, Callable[[], object], str], ...] = (
    ("negative price", lambda: Rate(per_node_hour=MINUS, currency="USD"), "one hour cannot be less than 0, and is -1:"),
    ("price that is no number", lambda: Rate(per_node_hour=NAN, currency="USD"), "must be a number, and is NaN:"),
    ("infinite amount", lambda: Amount(value=INFINITE, currency="USD"), "must be a number, and is Infinity:"),
    ("missing currency", lambda: Amount(value=ONE, currency=""), "three capital letters of ISO 4217, and is ''"),
    ("misspelt currency", lambda: Rate(per_node_hour=ONE, currency="usd"), "and is 'usd': write one such as USD"),
    ("line break in a currency", lambda: Rate(per_node_hour=ONE, currency="USD\n"), "ISO 4217"),
    ("sum of two currencies", lambda: total([DOLLAR, EURO]), "USD and EUR cannot be added or compared: convert one"),
    ("sum of nothing", lambda: total([]), "a sum needs at least one amount"),
    ("negative time", lambda: billing.cost_of_run(HOUR, nodes=1, seconds=MINUS), "the time of a run in seconds"),
    ("negative hours", lambda: billing.cost_of_hours(HOUR, nodes=1, hours=MINUS), "the time to pay for in hours"),
    ("no node", lambda: billing.cost_of_hours(HOUR, nodes=0, hours=ONE), "the number of nodes must be more than 0"),
    (
        "throughput of 0",
        lambda: billing.cost_of_samples(HOUR, nodes=1, throughput=ZERO, samples=1),
        "a throughput in samples per second must be more than 0, and is 0: leave out what was not measured",
    ),
    ("no sample", lambda: billing.hours_to_samples(0, throughput=ONE), "the number of samples must be more than 0"),
    ("samples for nothing", lambda: whatif.samples_per_unit(FREE, nodes=1, throughput=ONE), "for nothing, money buys"),
    (
        "gain over another currency",
        lambda: whatif.gain(
            whatif.samples_per_unit(HOUR, nodes=1, throughput=ONE),
            over=whatif.samples_per_unit(EUROS, nodes=1, throughput=ONE),
        ),
        "samples per USD and samples per EUR cannot be compared",
    ),
    (
        "base without a cost",
        lambda: whatif.relative_cost(DOLLAR, base_cost=NOTHING, base="a K80"),
        "the cost of a K80",
    ),
    ("base in euros", lambda: whatif.relative_cost(DOLLAR, base_cost=EURO, base="a K80"), "USD and EUR cannot be"),
    ("mean of no pair", lambda: whatif.mean_efficiency([]), "needs at least one pair of machines"),
    ("efficiency of 0", lambda: whatif.mean_efficiency([ONE, ZERO]), "a scaling efficiency must be more than 0"),
    (
        "extrapolated from nothing",
        lambda: whatif.extrapolated(ZERO, times=4, efficiencies=[ONE]),
        "a throughput in samples per second must be more than 0",
    ),
    (
        "free on-demand node",
        lambda: whatif.discount(FREE, on_demand=FREE),
        "there is nothing to save on what costs nothing",
    ),
    ("spot in euros", lambda: whatif.discount(EUROS, on_demand=HOUR), "EUR and USD cannot be added or compared"),
    ("increment of 0", lambda: BillingRule(increment_seconds=ZERO), "write 1 for by the second"),
    ("negative minimum", lambda: BillingRule(minimum_seconds=MINUS), "a billing minimum in seconds cannot be less"),
    (
        "negative fee",
        lambda: Fee(name="disk", amount=Amount(value=MINUS, currency="USD"), per=FeePeriod.RUN),
        "the fee disk cannot be less than 0",
    ),
)


@pytest.mark.parametrize(("ask", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_has_no_figure_is_refused_in_one_sentence(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(CostError, match=re.escape(said)) as refused:
        ask()
    assert "\n" not in str(refused.value)
