# SPDX-License-Identifier: Apache-2.0
"""How many runs, decided while they come in, and intervals that are true nevertheless."""

import math

import pytest

import sequential
from gpubench.stats import intervals, stopping_rule
from gpubench.stats.stopping_rule import StoppingRule

WANTED = StoppingRule(relative_half_width=0.01, first=3, last=10)


def test_there_are_always_as_many_runs_as_asked_for_first() -> None:
    assert stopping_rule.another([], WANTED)
    assert stopping_rule.another([100.0, 100.0], WANTED)
    assert not stopping_rule.another([100.0, 100.1, 99.9], WANTED)


def test_runs_that_scatter_need_more() -> None:
    assert stopping_rule.another([99.0, 100.0, 101.0], WANTED)


def test_more_than_the_maximum_is_never_asked_for() -> None:
    assert not stopping_rule.another([50.0, 150.0] * 5, WANTED)
    assert not stopping_rule.another([50.0], StoppingRule(relative_half_width=0.01, first=1, last=1))


def test_without_an_interval_nothing_is_known_to_be_exact() -> None:
    assert stopping_rule.another([100.0], StoppingRule(relative_half_width=0.01, first=1, last=5))


def test_equal_runs_are_no_knowledge_of_their_spread() -> None:
    # Of whole seconds, say: three runs of 59.6 to 60.4 s are all 60.
    for count in range(3, WANTED.last):
        assert stopping_rule.another([60.0] * count, WANTED)
        found = stopping_rule.interval([60.0] * count, WANTED)
        assert (found.mean, found.low, found.high) == (60.0, None, None)
    assert not stopping_rule.another([60.0] * WANTED.last, WANTED)
    assert not stopping_rule.another([60.0] * 5 + [60.1], WANTED)


def test_where_nothing_is_decided_nothing_is_corrected() -> None:
    values = [99.0, 100.0, 102.0]
    assert stopping_rule.interval(values, StoppingRule(relative_half_width=0.01, first=3, last=3)) == intervals.of_mean(
        values
    )


def test_the_interval_of_a_decided_number_of_runs_is_wider() -> None:
    values = [99.0, 100.0, 102.0]
    corrected, plain = stopping_rule.interval(values, WANTED), intervals.of_mean(values)
    assert corrected.low is not None
    assert plain.low is not None
    assert corrected.low < plain.low
    assert corrected.mean == plain.mean


def test_the_unit_of_throughput_does_not_matter() -> None:
    values = [99.0, 100.0, 101.5]
    for factor in (1e-3, 1e3):
        assert stopping_rule.another([value * factor for value in values], WANTED) == stopping_rule.another(
            values, WANTED
        )


def test_runs_of_a_point_whose_rule_is_followed_end_with_what_was_wanted() -> None:
    found = stopping_rule.interval([100.0, 100.1, 99.9], WANTED)
    assert found.high is not None
    assert found.high / found.mean - 1 <= WANTED.relative_half_width


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.93, 0.95, 0.99, 0.9995])
@pytest.mark.parametrize("first", [1, 3, 7, 20])
def test_every_rule_has_a_confidence_between_the_wanted_one_and_certainty(confidence: float, first: int) -> None:
    wanted = StoppingRule(relative_half_width=0.01, confidence=confidence, first=first, last=30)
    assert confidence < stopping_rule.confidence(wanted) < 1


@pytest.mark.parametrize("nominal", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("first", [3, 5, 10])
def test_stopping_early_does_not_make_intervals_less_sure_than_they_say(first: int, nominal: float) -> None:
    # Over a grid of spreads, each coverage from 10,000 paths: its standard error is below 0.1 %, and three are allowed.
    # Not far above either: the correction would be waste.
    of = sequential.deviations(last=60, paths=10_000)
    wanted = StoppingRule(relative_half_width=0.01, confidence=nominal, first=first, last=60)
    found = sequential.worst(first=first, last=60, confidence=stopping_rule.confidence(wanted), of=of)
    assert nominal - 0.003 <= found <= nominal + 0.25 * (1 - nominal)


def test_without_the_correction_they_would_be() -> None:
    # N. Starr (1966) has 0.93 and less for rules that begin with few observations.
    of = sequential.deviations(last=60, paths=10_000)
    assert sequential.worst(first=3, last=60, confidence=0.95, of=of) < 0.92


def test_where_the_number_of_runs_is_fixed_coverage_is_exact() -> None:
    of = sequential.deviations(last=5, paths=10_000)
    found = sequential.coverage(1.0, first=5, last=5, confidence=0.95, of=of)
    assert math.isclose(found, 0.95, abs_tol=0.003)


def test_a_single_run_need_not_be_more_exact_than_the_figure() -> None:
    assert 0 < stopping_rule.run_error(WANTED) <= WANTED.relative_half_width
