# SPDX-License-Identifier: Apache-2.0
"""The advisor names the gang that the figures support, marks what was not measured, and says what would be needed."""

from collections.abc import Sequence
from decimal import Decimal

import pytest

from gpubench.analysis.advice import (
    LAW,
    LOWER_BOUND,
    Advice,
    Considered,
    Gang,
    Line,
    Question,
    best_of,
    considered,
)
from gpubench.cost.price import Amount, CostError, Rate
from gpubench.stats import scaling_law
from gpubench.stats.scaling_law import Law, Reach, Speed
from gpubench.values import Interval

#: An hour of one sample a second.
HOUR = 3600


def gang(
    workers: int,
    speed: float | None = None,
    *,
    pool: str = "a100",
    price: str | None = "1",
    spread: float | None = 0.01,
    currency: str = "USD",
    batch: int = 64,
) -> Gang:
    """One node for each worker; its speed with an interval of plus and minus so large a share."""
    measured = None
    if speed is not None:
        ends = (None, None) if spread is None else (speed * (1 - spread), speed * (1 + spread))
        measured = Interval(mean=speed, low=ends[0], high=ends[1])
    rate = None if price is None else Rate(per_node_hour=Decimal(price), currency=currency)
    nodes = Decimal(workers)
    return Gang(
        line=Line(pool, "weak", batch), workers=workers, nodes=nodes, nodes_held=workers, rate=rate, throughput=measured
    )


def of(*gangs: Gang) -> Considered:
    return considered(gangs, {})


def law(*, counts: Sequence[int] = (1, 2, 4), loss: float = 0.05) -> Law:
    speeds = [Speed(workers=n, throughput=n / (1 + loss * (n - 1))) for n in counts]
    found = scaling_law.fit(speeds)
    assert isinstance(found, Law)
    return found


def cheapest_by(found: Considered, *, samples: int, hours: Decimal | None) -> Advice:
    return best_of(found, Question(samples, by_cost=True, hours=hours))


def fastest_within(found: Considered, *, samples: int, budget: Amount | None) -> Advice:
    return best_of(found, Question(samples, by_cost=False, budget=budget))


def chosen(advice: Advice) -> tuple[str, int]:
    assert advice.chosen is not None
    return advice.chosen.gang.line.pool, advice.chosen.gang.workers


# --- the cheapest that meets a deadline -------------------------------------------------------------------------------


def test_the_cheapest_gang_that_is_fast_enough_is_named_with_hours_and_cost() -> None:
    """1 worker: 10 h, USD 10. 2 at 1.8: 5.56 h, USD 11.11. 4 at 3: 3.33 h, USD 13.33."""
    gangs = of(gang(1, 1.0), gang(2, 1.8), gang(4, 3.0))
    advice = cheapest_by(gangs, samples=10 * HOUR, hours=Decimal(6))
    assert chosen(advice) == ("a100", 2)
    assert advice.sure
    assert advice.chosen is not None
    assert advice.chosen.cost is not None
    assert float(advice.chosen.hours.mean) == pytest.approx(10 / 1.8)
    assert float(advice.chosen.cost.mean) == pytest.approx(20 / 1.8)
    assert advice.message.startswith(
        "Cheapest within 6 hours: 2 workers at batch 64 on a100, 5.556 (5.501–5.612) hours and USD 11.11 (11.00–11.22)."
    )
    assert advice.message.endswith(LOWER_BOUND)
    assert chosen(cheapest_by(gangs, samples=10 * HOUR, hours=Decimal(100))) == ("a100", 1)
    assert chosen(cheapest_by(gangs, samples=10 * HOUR, hours=Decimal(4))) == ("a100", 4)


def test_a_dearer_pool_wins_where_it_is_faster_by_more_than_it_costs() -> None:
    gangs = of(gang(1, 1.0, pool="k80"), gang(1, 3.0, pool="v100", price="2"))
    assert chosen(cheapest_by(gangs, samples=HOUR, hours=Decimal(2))) == ("v100", 1)


def test_one_that_may_be_late_is_not_preferred_to_one_that_will_not() -> None:
    gangs = of(gang(1, 1.05, spread=0.2), gang(2, 1.8))
    advice = cheapest_by(gangs, samples=HOUR, hours=Decimal(1))
    assert chosen(advice) == ("a100", 2)
    assert advice.sure


def test_where_nobody_is_sure_to_be_in_time_the_sentence_says_so() -> None:
    advice = cheapest_by(of(gang(1, 1.05, spread=0.2)), samples=HOUR, hours=Decimal(1))
    assert chosen(advice) == ("a100", 1)
    assert not advice.sure
    assert "Whether it keeps that limit is not sure: its interval reaches beyond it" in advice.message


def test_without_repeats_nothing_is_sure() -> None:
    advice = cheapest_by(of(gang(1, 2.0, spread=None), gang(2, 3.0)), samples=HOUR, hours=Decimal("0.6"))
    assert chosen(advice) == ("a100", 2)
    assert advice.sure
    alone = cheapest_by(of(gang(1, 2.0, spread=None)), samples=HOUR, hours=Decimal("0.6"))
    assert not alone.sure
    assert "its interval has no upper end; repeat it" in alone.message


def test_intervals_that_overlap_are_a_tie() -> None:
    gangs = of(gang(1, 1.0), gang(1, 1.01, pool="h100"), gang(1, 0.9, pool="k80"))
    advice = cheapest_by(gangs, samples=HOUR, hours=Decimal(2))
    assert chosen(advice) == ("h100", 1)
    assert [one.gang.line.pool for one in advice.tied] == ["a100"]
    assert "A tie with 1 worker at batch 64 on a100, for their intervals overlap." in advice.message


def test_without_intervals_a_difference_is_called_untested() -> None:
    gangs = of(gang(1, 1.0, spread=None), gang(1, 2.0, pool="h100", spread=None))
    advice = cheapest_by(gangs, samples=HOUR, hours=Decimal(2))
    assert "nothing says that this is more than chance" in advice.message
    assert not advice.tied


def test_where_nothing_is_fast_enough_what_the_fastest_takes_is_told() -> None:
    advice = cheapest_by(of(gang(1, 1.0), gang(4, 3.0)), samples=10 * HOUR, hours=Decimal(1))
    assert advice.chosen is None
    assert advice.message == (
        "36,000 samples cannot be trained within 1 hour: the fastest gang, 4 workers at batch 64 on a100, needs "
        "3.333 (3.300–3.367) hours."
    )


def test_what_has_no_price_is_no_bargain() -> None:
    gangs = of(gang(1, 5.0, price=None), gang(1, 2.0, pool="k80"))
    advice = cheapest_by(gangs, samples=HOUR, hours=Decimal(2))
    assert chosen(advice) == ("k80", 1)
    assert advice.notes == ("1 worker at batch 64 on a100: no price, and therefore not compared by cost.",)
    late = cheapest_by(gangs, samples=HOUR, hours=Decimal("0.3"))
    assert late.chosen is None
    assert "Nothing that was measured and is fast enough has a price" in late.message


# --- the fastest within a budget --------------------------------------------------------------------------------------


def test_the_fastest_gang_that_the_budget_pays_for_is_named() -> None:
    gangs = of(gang(1, 1.0), gang(2, 1.8), gang(4, 3.0))
    for budget, workers in (("10.5", 1), ("12", 2), ("50", 4)):
        advice = fastest_within(gangs, samples=10 * HOUR, budget=Amount(value=Decimal(budget), currency="USD"))
        assert chosen(advice) == ("a100", workers)
        assert advice.message.startswith(f"Fastest for USD {budget}: ")


def test_a_budget_that_an_interval_may_exceed_is_not_sure() -> None:
    budget = Amount(value=Decimal(10), currency="USD")
    advice = fastest_within(of(gang(1, 1.0)), samples=10 * HOUR, budget=budget)
    assert chosen(advice) == ("a100", 1)
    assert not advice.sure
    assert "Whether it keeps that limit is not sure" in advice.message


def test_where_the_budget_is_too_small_what_it_takes_is_told() -> None:
    budget = Amount(value=Decimal(5), currency="USD")
    advice = fastest_within(of(gang(1, 1.0), gang(2, 1.8)), samples=10 * HOUR, budget=budget)
    assert advice.chosen is None
    assert advice.message == (
        "36,000 samples cannot be trained for USD 5: the cheapest gang, 1 worker at batch 64 on a100, needs "
        "USD 10.00 (9.90–10.10)."
    )


def test_without_any_price_no_budget_is_answered() -> None:
    budget = Amount(value=Decimal(5), currency="USD")
    advice = fastest_within(of(gang(1, 1.0, price=None)), samples=HOUR, budget=budget)
    assert advice.chosen is None
    assert "give a pool a price or an ownership" in advice.message


# --- what was not measured --------------------------------------------------------------------------------------------


def test_a_worker_count_between_is_predicted_and_marked() -> None:
    found = considered([gang(1, 1.0), gang(2, 1.9), gang(3), gang(4, 3.48)], {Line("a100", "weak", 64): law()})
    assert [one.reach for one in found.gangs] == [None, None, Reach.WITHIN, None]
    advice = cheapest_by(found, samples=10 * HOUR, hours=Decimal("4.2"))
    assert chosen(advice) == ("a100", 3)
    assert "3 workers at batch 64 on a100 (not measured: between measured worker counts)" in advice.message
    assert "measure it before you rely on it" in advice.message


def test_what_was_measured_is_not_predicted() -> None:
    found = considered([gang(4, 9.0)], {Line("a100", "weak", 64): law()})
    assert found.gangs[0].throughput == Interval(mean=9.0, low=9.0 * 0.99, high=9.0 * 1.01)
    assert found.gangs[0].reach is None


@pytest.mark.parametrize(("workers", "mark"), [(8, "no more than a factor of 2"), (9, "more than a factor of 2")])
def test_an_extrapolation_says_how_far_it_goes(workers: int, mark: str) -> None:
    found = considered([gang(workers)], {Line("a100", "weak", 64): law()})
    advice = cheapest_by(found, samples=HOUR, hours=Decimal(1))
    assert f"(not measured: extrapolated by {mark})" in advice.message


def test_what_lies_far_beyond_is_never_sure() -> None:
    gangs = [gang(4, 3.48, price="2"), gang(16)]
    found = considered(gangs, {Line("a100", "weak", 64): law(counts=(1, 2, 3, 4))})
    advice = cheapest_by(found, samples=HOUR, hours=Decimal(1))
    assert chosen(advice) == ("a100", 4)
    alone = cheapest_by(considered(gangs[1:], {Line("a100", "weak", 64): law()}), samples=HOUR, hours=Decimal(100))
    assert chosen(alone) == ("a100", 16)
    assert not alone.sure
    assert "so far beyond what was measured nothing is" in alone.message


def test_a_measured_winner_needs_no_measuring() -> None:
    advice = cheapest_by(of(gang(1, 1.0)), samples=HOUR, hours=Decimal(2))
    assert "measure it before" not in advice.message
    assert "not measured" not in advice.message


def test_a_line_without_a_law_says_what_would_give_one() -> None:
    undetermined = scaling_law.fit([Speed(workers=1, throughput=1.0)])
    assert isinstance(undetermined, str)
    found = considered([gang(1, 1.0), gang(8), gang(8, pool="h100")], {Line("a100", "weak", 64): undetermined})
    assert found.notes == (
        (
            "8 workers at batch 64 on a100 cannot be judged: 1 worker count (1) says nothing about scaling: "
            "measure 3 of this line."
        ),
        "8 workers at batch 64 on h100 cannot be judged: nothing of its line was measured.",
    )
    advice = cheapest_by(found, samples=10 * HOUR, hours=Decimal(2))
    assert advice.chosen is None
    assert advice.notes == found.notes


def test_lines_of_one_pool_are_told_apart_by_their_setting() -> None:
    slow, fast = law(loss=0.5), law(loss=0.01)
    gangs = [gang(8, batch=16), gang(8, batch=64)]
    found = considered(gangs, {Line("a100", "weak", 16): slow, Line("a100", "weak", 64): fast})
    advice = cheapest_by(found, samples=HOUR, hours=Decimal(5))
    assert "Cheapest within 5 hours: 8 workers at batch 64 on a100" in advice.message


def test_nothing_at_all_is_answered_with_what_to_measure() -> None:
    advice = cheapest_by(of(), samples=HOUR, hours=Decimal(1))
    assert advice.chosen is None
    assert advice.message == "Nothing was measured: measure 1 worker of a pool at least."


# --- bad input --------------------------------------------------------------------------------------------------------


def test_two_currencies_are_not_compared() -> None:
    gangs = of(gang(1, 1.0), gang(1, 1.0, pool="h100", currency="EUR"))
    with pytest.raises(CostError, match="USD and EUR cannot be added or compared"):
        cheapest_by(gangs, samples=HOUR, hours=Decimal(1))
    with pytest.raises(CostError, match="EUR and USD cannot be added or compared"):
        fastest_within(of(gang(1, 1.0)), samples=HOUR, budget=Amount(value=Decimal(5), currency="EUR"))


# --- without a limit, and by how much ---------------------------------------------------------------------------------


def test_without_a_limit_the_cheapest_and_the_fastest_of_all_are_named() -> None:
    gangs = of(gang(1, 1.0), gang(2, 1.8), gang(4, 3.0))
    cheapest = cheapest_by(gangs, samples=10 * HOUR, hours=None)
    assert cheapest.message.startswith(
        "Cheapest: 1 worker at batch 64 on a100, 10.00 (9.90–10.10) hours and USD 10.00 "
    )
    assert "limit" not in cheapest.message
    fastest = fastest_within(gangs, samples=10 * HOUR, budget=None)
    assert fastest.message.startswith("Fastest: 4 workers at batch 64 on a100, ")
    unpriced = fastest_within(of(gang(1, 1.0, price=None)), samples=HOUR, budget=None)
    assert chosen(unpriced) == ("a100", 1)
    assert "at a price that nobody knows" in unpriced.message
    assert fastest_within(of(), samples=HOUR, budget=None).message.startswith("Nothing was measured")
    assert "has a price" in cheapest_by(of(gang(1, 1.0, price=None)), samples=HOUR, hours=None).message
    assert cheapest_by(of(), samples=HOUR, hours=None).message.startswith("Nothing was measured")


def test_the_next_is_named_with_how_much_more_it_takes() -> None:
    """USD 10 (9.90 to 10.10) against 13.33 (13.20 to 13.47): a third more."""
    gangs = of(gang(1, 1.0), gang(4, 3.0))
    advice = cheapest_by(gangs, samples=10 * HOUR, hours=None)
    assert "The next, 4 workers at batch 64 on a100, costs 33.3 % more, USD 13.33 " in advice.message
    without = cheapest_by(of(gang(1, 1.0, spread=None), gang(4, 3.0)), samples=10 * HOUR, hours=None)
    assert "costs 33.3 % more, USD 13.33" in without.message
    assert "nothing says that this is more than chance" in without.message
    fastest = fastest_within(gangs, samples=10 * HOUR, budget=None)
    assert "The next, 1 worker at batch 64 on a100, takes 200 % more, 10.0" in fastest.message


def test_two_prices_of_the_same_runs_are_no_tie_and_need_no_interval() -> None:
    one, other = (
        Gang(
            line=Line(name, "weak", 64),
            workers=1,
            nodes=Decimal(1),
            nodes_held=1,
            rate=Rate(per_node_hour=Decimal(price), currency="USD"),
            throughput=Interval(mean=1.0, low=0.5, high=1.5),
            runs=7,
        )
        for name, price in (("a100", "1"), ("spot", "0.99"))
    )
    advice = cheapest_by(of(one, other), samples=HOUR, hours=None)
    assert chosen(advice) == ("spot", 1)
    assert not advice.tied
    assert "The next, 1 worker at batch 64 on a100, costs 1.01 % more, USD 1.00" in advice.message


def test_what_costs_nothing_beats_the_next_by_no_percentage() -> None:
    advice = cheapest_by(of(gang(1, 1.0, price="0"), gang(1, 1.0, pool="h100")), samples=HOUR, hours=None)
    assert chosen(advice) == ("a100", 1)
    assert "The next, 1 worker at batch 64 on h100, costs USD 1.00" in advice.message


def test_far_beyond_what_was_measured_nothing_is_sure_without_a_limit_either() -> None:
    found = considered([gang(16)], {Line("a100", "weak", 64): law()})
    advice = cheapest_by(found, samples=HOUR, hours=None)
    assert not advice.sure
    assert "That is not sure: so far beyond what was measured nothing is." in advice.message
    assert LAW in advice.message


def test_a_single_gang_is_said_to_be_that() -> None:
    alone = cheapest_by(of(gang(1, 1.0)), samples=HOUR, hours=Decimal(2))
    assert "There is no other gang to compare it with." in alone.message
    assert "All of its 95 % interval keeps that limit." in alone.message


def test_many_without_a_price_are_not_all_named() -> None:
    gangs = of(gang(1, 1.0), *(gang(1, 1.0, pool=f"p{number}", price=None) for number in range(9)))
    [note] = cheapest_by(gangs, samples=HOUR, hours=None).notes
    assert note.endswith("1 worker at batch 64 on p3 and 5 more: no price, and therefore not compared by cost.")
