# SPDX-License-Identifier: Apache-2.0
"""A study that became slower: found, dated, named, and never across environments. `make bench-regressions` is the long
form of the first two tests, with its figures in tests/benchmarks/README.md."""

import random

import pytest
from scipy import stats

import histories
from gpubench.api.point_result import EnvironmentFacts
from gpubench.schedule import history
from gpubench.stats import changepoint
from histories import FOUND_BY, SLOW_FROM, SLOWDOWN, TOLERANCE, entry, figure, of_speeds

SEED = 2026
#: A fifth of the long form, which finds 99.5 % (97.2-100 %) and 0.0 % (0.0-0.4 %): ten standard errors from the bounds.
HISTORIES = 200


def test_a_tenth_slower_from_run_12_is_found_by_run_14_and_dated_within_one_run() -> None:
    found = list(histories.outcomes(HISTORIES, seed=SEED, slowdown=SLOWDOWN, until=FOUND_BY))
    assert sum(map(histories.is_right, found)) >= 0.95 * HISTORIES


def test_histories_without_a_change_raise_no_alarm() -> None:
    found = list(histories.outcomes(HISTORIES, seed=SEED, slowdown=0.0))
    assert sum(one.at is not None for one in found) <= 0.05 * HISTORIES


def steady(count: int, *, level: float = 1000.0, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [level * (1 + 0.005 * source.gauss(0, 1)) for _ in range(count)]


def test_says_since_when_by_how_much_and_on_which_nodes() -> None:
    nodes = ["a", "b", "c"] * 3 + ["d"] * 4
    entries = of_speeds([*steady(9), *steady(4, level=800)], nodes=nodes)
    (found,) = history.regressions(entries, tolerance=TOLERANCE)
    assert histories.number_of(found) == 10
    assert found.speed.mean == pytest.approx(0.8, abs=0.01)
    assert found.nodes == ("d",)
    assert (found.runs_before, found.runs_since) == (9, 4)
    assert ", on d" in found.sentence


def test_slower_nodes_that_were_fast_before_are_told_from_other_nodes() -> None:
    entries = of_speeds([*steady(9), *steady(4, level=800)], nodes=["a"] * 13)
    (found,) = history.regressions(entries, tolerance=TOLERANCE)
    assert ", on a" in found.sentence


def test_one_bad_run_is_no_regression() -> None:
    assert history.regressions(of_speeds([*steady(12), 500.0]), tolerance=TOLERANCE) == ()


def test_a_slowdown_that_has_gone_again_is_none() -> None:
    speeds = [*steady(8), *steady(4, level=800), *steady(6, seed=5)]
    assert history.regressions(of_speeds(speeds[:12]), tolerance=TOLERANCE)
    assert history.regressions(of_speeds(speeds), tolerance=TOLERANCE) == ()


def test_a_slowdown_that_went_half_way_still_is_one_since_it_began() -> None:
    speeds = [*steady(8), *steady(5, level=700), *steady(6, level=850)]
    (found,) = history.regressions(of_speeds(speeds), tolerance=TOLERANCE)
    assert histories.number_of(found) == 9


def test_steps_that_each_are_within_the_tolerance_add_up() -> None:
    speeds = [*steady(8), *steady(8, level=960), *steady(8, level=920)]
    assert history.regressions(of_speeds(speeds[:16]), tolerance=TOLERANCE) == ()
    (found,) = history.regressions(of_speeds(speeds), tolerance=TOLERANCE)
    assert histories.number_of(found) == 17


def test_a_change_within_the_tolerance_is_none_however_sure() -> None:
    assert history.regressions(of_speeds([*steady(30), *steady(30, level=970)]), tolerance=TOLERANCE) == ()


def test_faster_is_no_regression() -> None:
    assert history.regressions(of_speeds([*steady(10), *steady(5, level=1200)]), tolerance=TOLERANCE) == ()


def test_of_a_training_more_seconds_are_slower() -> None:
    entries = [
        entry(number, [figure(seconds, quantity="Seconds")])
        for number, seconds in enumerate([*steady(9, level=60), *steady(4, level=75)], start=1)
    ]
    (found,) = history.regressions(entries, tolerance=TOLERANCE)
    assert found.speed.mean == pytest.approx(0.8, abs=0.01)


def facts(key: str, driver: str) -> EnvironmentFacts:
    return EnvironmentFacts(environment=key, driver=driver)


def test_no_verdict_across_environments_but_the_change_is_reported() -> None:
    speeds = [*steady(9), *steady(9, level=800)]
    entries = [
        entry(
            number,
            [figure(speed, environment="old" if number < 10 else "new")],
            facts=[facts("old", "550.54"), facts("new", "560.35")],
        )
        for number, speed in enumerate(speeds, start=1)
    ]
    assert history.regressions(entries, tolerance=TOLERANCE) == ()
    (change,) = history.key_changes(entries)
    assert change.sentence == "driver 550.54 -> 560.35"
    assert change.run == entries[9].name


@pytest.mark.parametrize("field", ["instance_type", "image_digest"])
def test_another_instance_type_or_image_is_another_environment(field: str) -> None:
    entries = [
        entry(number, [figure(speed, **{field: "x" if number < 10 else "y"})])
        for number, speed in enumerate([*steady(9), *steady(9, level=800)], start=1)
    ]
    assert history.regressions(entries, tolerance=TOLERANCE) == ()
    (change,) = history.key_changes(entries)
    assert "x -> y" in change.sentence


def test_runs_before_and_after_another_environment_are_still_comparable() -> None:
    speeds = [*steady(8), *steady(2, level=3000), *steady(4, level=800)]
    keys = ["old"] * 8 + ["new"] * 2 + ["old"] * 4
    entries = [
        entry(number, [figure(speed, environment=key)])
        for number, (speed, key) in enumerate(zip(speeds, keys, strict=True), start=1)
    ]
    (found,) = history.regressions(entries, tolerance=TOLERANCE)
    assert histories.number_of(found) == 11


def test_runs_that_never_settled_are_left_out() -> None:
    entries = [
        entry(number, [figure(speed, settled=number <= 9)])
        for number, speed in enumerate([*steady(9), *steady(4, level=800)], start=1)
    ]
    assert history.regressions(entries, tolerance=TOLERANCE) == ()


def test_a_point_that_the_template_does_not_have_any_more_is_not_judged() -> None:
    slow = [*steady(9), *steady(4, level=800)]
    entries = [entry(number, [figure(speed, point="old")]) for number, speed in enumerate(slow, start=1)]
    entries += [entry(number, [figure(1000.0, point="new")]) for number in range(14, 16)]
    assert history.regressions(entries, tolerance=TOLERANCE) == ()


def test_a_level_begins_where_the_series_changes() -> None:
    found = changepoint.levels([*steady(10), *steady(5, level=900), *steady(5, level=1100)])
    assert [(level.begin, level.end) for level in found] == [(0, 10), (10, 15), (15, 20)]
    assert found[1].mean == pytest.approx(900, rel=0.01)


def test_series_that_are_all_equal_have_one_level() -> None:
    assert len(changepoint.levels([7.0] * 20)) == 1


def test_the_statistic_is_the_largest_two_sample_t() -> None:
    """By hand: 0, 0, 0, 1, 0, 4, 4, 5 (of logarithms) divided after five: means 0.2 and 13/3."""
    values = [0.0, 0.0, 0.0, 1.0, 0.0, 4.0, 4.0, 5.0]
    middle = sum(values) / 8
    away = [value - middle for value in values]
    squares = sum(value**2 for value in away)
    within = 0.8 + 2 / 3  # sums of squares about 0.2 and about 13/3
    expected = (13 / 3 - 0.2) / ((within / 6) ** 0.5 * (1 / 5 + 1 / 3) ** 0.5)
    assert changepoint._t(sum(away[:5]), 5, count=8, squares=squares) == pytest.approx(expected)


def test_the_error_of_a_change_is_that_of_students_test_at_each_place_it_could_be_at() -> None:
    values = [0.0, 0.3, 0.1, 0.4, 0.2, 0.9, 0.6, 0.8, 1.1, 0.7]
    at, error = changepoint._likeliest(values)
    places = range(changepoint.LEVEL_MIN, len(values) - changepoint.LEVEL_MIN + 1)
    by_place = {place: float(stats.ttest_ind(values[:place], values[place:]).pvalue) for place in places}
    assert at == min(by_place, key=by_place.__getitem__) == 5
    assert error == pytest.approx(len(places) * by_place[at])


def test_the_first_slow_run_may_be_the_last_but_one() -> None:
    speeds = [*steady(SLOW_FROM - 1), *steady(2, level=850)]
    (found,) = history.regressions(of_speeds(speeds), tolerance=TOLERANCE)
    assert histories.number_of(found) == SLOW_FROM
