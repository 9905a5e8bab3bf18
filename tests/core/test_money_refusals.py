# SPDX-License-Identifier: Apache-2.0
"""What no figure can be made of is refused with one sentence: never NaN, an infinite amount, or a made-up 0."""

import re
from collections.abc import Callable
from decimal import Decimal

import pytest

from gpubench.cost import whatif
from gpubench.cost.price import Amount, CostError, OwnedNode, Rate, total

HOUR = Rate(per_node_hour=Decimal(1), currency="USD")
FREE = Rate(per_node_hour=Decimal(0), currency="USD")
EUROS = Rate(per_node_hour=Decimal(1), currency="EUR")
NOTHING = Amount(value=Decimal(0), currency="USD")
DOLLAR = Amount(value=Decimal(1), currency="USD")
EURO = Amount(value=Decimal(1), currency="EUR")
ONE = Decimal(1)
OWN = OwnedNode(purchase=Decimal(1000), lifetime_months=10, hours_per_month=Decimal(100), currency="USD")

REFUSED: tuple[tuple[str, Callable[[], object], str], ...] = (
    ("sum of two currencies", lambda: total([DOLLAR, EURO]), "USD and EUR cannot be added or compared: convert one"),
    (
        "samples for nothing",
        lambda: whatif.samples_per_unit(FREE, nodes=1, throughput=ONE),
        "price of one node for one hour must be more than 0, and is 0: for nothing, money buys any number of samples;",
    ),
    (
        "gain over another currency",
        lambda: whatif.gain(
            whatif.samples_per_unit(HOUR, nodes=1, throughput=ONE),
            over=whatif.samples_per_unit(EUROS, nodes=1, throughput=ONE),
        ),
        "USD and EUR cannot be added or compared",
    ),
    (
        "base without a cost",
        lambda: whatif.relative_cost(DOLLAR, base_cost=NOTHING, base="a K80"),
        "the cost of a K80 must be more than 0, and is 0: nothing is a multiple of what costs nothing; choose a base",
    ),
    ("base in euros", lambda: whatif.relative_cost(DOLLAR, base_cost=EURO, base="a K80"), "USD and EUR cannot be"),
    (
        "free on-demand node",
        lambda: whatif.discount(FREE, on_demand=FREE),
        "the on-demand price of one node for one hour must be more than 0, and is 0: there is nothing to save on",
    ),
    (
        "own node in dollars, rented in euros",
        lambda: whatif.payback(OWN, rented=EUROS, relative_speed=ONE),
        "USD and EUR cannot be added or compared",
    ),
    ("spot in euros", lambda: whatif.discount(EUROS, on_demand=HOUR), "EUR and USD cannot be added or compared"),
)


@pytest.mark.parametrize(("ask", "said"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_has_no_figure_is_refused_in_one_sentence(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(CostError, match=re.escape(said)) as refused:
        ask()
    assert "\n" not in str(refused.value)
