# SPDX-License-Identifier: Apache-2.0
"""Each rule about levels by the shortest series that shows it; test_regressions.py has whole histories."""

from collections.abc import Sequence

import pytest

from gpubench.stats import levels
from gpubench.stats.levels import Level, Rules, Run

DAY = 86_400.0
RULES = Rules()
#: One level, and no two neighbours alike.
NORMAL = (1.0, 1.003, 0.998, 1.002, 0.997, 1.001, 0.999)


def runs(*speeds: float, every: float = DAY, nodes: Sequence[str] = ()) -> list[Run]:
    return [Run(at * every, speed, *nodes[at : at + 1]) for at, speed in enumerate(speeds)]


def remembered(series: Sequence[Run], rules: Rules = RULES) -> list[Level]:
    return [*levels.found(series, rules)]


def began(series: Sequence[Run]) -> list[tuple[int, int]]:
    """Runs after which the reference began anew, and where."""
    found = remembered(series)
    pairs = zip([Level(), *found], found, strict=False)
    return [(at, now.begin) for at, (before, now) in enumerate(pairs) if now.begin != before.begin]


# --- what a run is held against ---------------------------------------------------------------------------------------


def test_a_reference_has_five_runs_before_the_newest_four() -> None:
    assert levels.usual(runs(*[1.0] * 8), Level(), RULES) is None
    assert levels.usual(runs(*[1.0] * 5, *[2.0] * 4), Level(), RULES) == 1.0
    assert levels.usual(runs(*[3.0] * 3, *[1.0] * 5, *[2.0] * 4), Level(3), RULES) == 1.0
    assert levels.usual(runs(*[3.0] * 3, *[1.0] * 4, *[2.0] * 4), Level(3), RULES) is None


def test_the_reference_of_a_regression_ends_where_it_began() -> None:
    speeds = [1.0] * 6 + [0.8] * 14
    assert levels.usual(runs(*speeds), Level(slow=6), RULES) == 1.0
    assert levels.usual(runs(*speeds), Level(begin=2, slow=6), RULES) is None


# --- slower -----------------------------------------------------------------------------------------------------------


def test_the_shortest_series_with_a_regression() -> None:
    # Four of nine are the lowest by chance once in 126, of eleven once in 330; wanted is 8 x 0.05 / (n (n - 1)).
    assert [level.slow for level in remembered(runs(*NORMAL[:5], *[0.8] * 4))] == [None] * 9
    assert [level.slow for level in remembered(runs(*NORMAL, *[0.8] * 4))] == [None] * 10 + [7]
    often = Rules(false_alarms=0.1)
    assert [level.slow for level in remembered(runs(*NORMAL[:5], *[0.8] * 4), often)] == [None] * 8 + [5]


@pytest.mark.parametrize(("before", "is_found"), [(0.85, True), (0.84, False), (0.83, False)])
def test_an_earlier_run_that_is_as_slow_makes_chance_likelier(before: float, is_found: bool) -> None:
    series = runs(*NORMAL[:3], before, *NORMAL[3:6], 0.80, 0.81, 0.82, 0.84)
    assert (remembered(series)[-1].slow is not None) is is_found


def test_runs_at_the_tolerance_are_no_regression() -> None:
    assert remembered(runs(*[1.0] * 10, 0.95, 0.95, 0.95, 0.90))[-1].slow is None
    assert remembered(runs(*[1.0] * 10, 0.94, 0.94, 0.94, 0.90))[-1].slow == 10


def test_where_runs_resemble_those_before_them_four_are_not_enough() -> None:
    alike = [*[1.02] * 5, *[0.99] * 5] * 3
    unlike = [1.02, 0.99] * 15
    assert [len(speeds) for speeds in (alike, unlike)] == [30, 30]
    assert remembered(runs(*alike, *[0.85] * 4))[-1].slow is None
    assert remembered(runs(*alike, *[0.85] * 5))[-1].slow == 30
    assert remembered(runs(*unlike, *[0.85] * 4))[-1].slow == 30
    # Of fewer than twenty nobody knows whether they do.
    assert remembered(runs(*alike[:19], *[0.85] * 4))[-1].slow == 19
    assert remembered(runs(*alike[:20], *[0.85] * 4))[-1].slow is None


def test_a_regression_is_dated_where_the_speeds_come_nearer_to_the_new_level() -> None:
    assert remembered(runs(*NORMAL, *NORMAL, 0.93, 0.8, 0.8, 0.8, 0.8))[-1].slow == 15
    assert remembered(runs(*NORMAL, *NORMAL, 0.85, 0.8, 0.8, 0.8, 0.8))[-1].slow == 14
    assert remembered(runs(*NORMAL, *NORMAL, 0.8, 1.0, 1.0, 0.8, 0.8, 0.8, 0.8))[-1].slow == 17


# --- while it stands --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speed", "is_over"), [(0.97, False), (0.975, True), (0.98, True)])
def test_four_runs_within_half_the_tolerance_end_a_regression(speed: float, is_over: bool) -> None:
    slow = [1.0] * 10 + [0.8] * 5
    three, four = (remembered(runs(*slow, *[speed] * count))[-1] for count in (3, 4))
    assert three == Level(slow=10)
    assert four == (Level(ended=((10, 18),)) if is_over else Level(slow=10))


def test_a_regression_is_accepted_when_it_has_stood_or_nothing_older_is_left() -> None:
    slow = runs(*[1.0] * 10, *[0.8] * 30)
    assert [level.begin for level in remembered(slow)[-2:]] == [0, 10]
    assert levels.after(slow[10:30], Level(slow=0), RULES) == Level(0)
    assert levels.after(slow[9:30], Level(slow=1), RULES) == Level(slow=1)


def test_a_second_regression_is_found_below_the_first() -> None:
    series = runs(*[1.0] * 10, *[0.8] * 14, *[0.6] * 8)
    assert remembered(series)[-1] == Level(slow=24, ended=((10, 24),))


def test_a_node_that_nobody_knows_changes_nothing_in_a_regression() -> None:
    nodes = ["a", "b"] * 30
    known = runs(*[1.0] * 20, *[0.8] * 14, nodes=nodes)
    level = remembered(known)[-1]
    assert level == Level(slow=20)
    assert levels.after([*known, Run(34 * DAY, 0.4, "c")], level, RULES) == level


# --- faster -----------------------------------------------------------------------------------------------------------


def test_fifteen_fast_runs_of_three_days_are_a_new_level() -> None:
    assert began(runs(*[1.0] * 10, *[1.2] * 20)) == [(23, 9)]  # fourteen of them
    assert began(runs(*[1.0] * 10, *[1.05] * 20)) == []
    hourly = runs(*[1.0] * 100, *[1.2] * 80, every=3600.0)
    assert began(hourly) == [(165, 93)]  # nine in ten of the 73 that three days have


@pytest.mark.parametrize(("slow", "is_new"), [(1, True), (2, False)])
def test_nine_in_ten_of_them_are_fast(slow: int, is_new: bool) -> None:
    series = runs(*[1.0] * 30, *[1.2] * 6, *[1.0] * slow, *[1.2] * (9 - slow))
    assert (remembered(series)[-1].begin == 30) is is_new


def test_a_new_level_has_five_runs_before_it() -> None:
    series = runs(*[1.0] * 10, *(1.1 + 0.03 * at for at in range(15)))
    assert levels.after(series, Level(5), RULES) == Level(10)
    assert levels.after(series, Level(6), RULES) == Level(6)


# --- a week -----------------------------------------------------------------------------------------------------------


def weeks(count: int, *, weekend: float) -> list[float]:
    """Four runs a day, Monday first."""
    return [weekend if at % 28 >= 20 else NORMAL[at % 7] for at in range(28 * count)]


@pytest.mark.parametrize(("before", "found"), [(1, [None] * 4 + [48] * 2), (5, [None] * 2 + [160] * 4)])
def test_a_weekend_is_held_against_other_weekends(before: int, found: list[int | None]) -> None:
    series = runs(*weeks(before, weekend=1.1), *weeks(1, weekend=1.0)[:20], *[0.99] * 6, every=DAY / 4)
    assert [level.slow for level in remembered(series)][-6:] == found


def test_what_two_weekends_had_is_no_regression_of_the_third() -> None:
    found = remembered(runs(*weeks(6, weekend=0.9), every=DAY / 4))
    assert {level.slow for level in found} == {None, 20, 48}
    assert found[60:] == [Level(ended=((20, 31), (48, 59)))] * (28 * 6 - 60)


def test_what_healed_once_is_no_usual_time_of_the_week() -> None:
    once = [*weeks(2, weekend=1.0), *weeks(1, weekend=0.9), *weeks(1, weekend=1.0)[:20]]
    assert remembered(runs(*once, *[0.9] * 5, every=DAY / 4))[-1].slow == 28 * 3 + 20
