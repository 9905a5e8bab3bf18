# SPDX-License-Identifier: Apache-2.0
"""The interval between checkpoints is Daly's, held against the best one of his model of a run's expected time."""

import math

import pytest

from gpubench.stats import checkpoint_interval

HOUR = 3600.0


def expected_seconds(interval: float, *, write: float, between: float) -> float:
    """Of one second of work: Daly, 2006, equation 20, without the factor of restarts, which moves no minimum."""
    return between * (math.exp((interval + write) / between) - 1) / interval


def best_interval(*, write: float, between: float) -> float:
    """By golden section; the expected time has one minimum."""
    ratio = (math.sqrt(5) - 1) / 2
    low, high = 1e-6 * between, 10 * between
    while high - low > 1e-9 * between:
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if expected_seconds(first, write=write, between=between) < expected_seconds(
            second, write=write, between=between
        ):
            high = second
        else:
            low = first
    return (low + high) / 2


@pytest.mark.parametrize("write", [0.01, 1.0, 5.0, 60.0, 300.0])
@pytest.mark.parametrize("between", [0.5 * HOUR, HOUR, 6 * HOUR, 24 * HOUR])
def test_no_other_interval_would_end_a_run_sooner_by_a_thousandth(write: float, between: float) -> None:
    found = checkpoint_interval.optimum(write_seconds=write, between_seconds=between)
    best = best_interval(write=write, between=between)
    assert expected_seconds(found, write=write, between=between) < 1.001 * expected_seconds(
        best, write=write, between=between
    )
    # What is left out is of the order of (write / between)^(3/2) times the first term.
    assert found == pytest.approx(best, rel=max(1e-4, (write / between) ** 1.5))


def test_the_first_term_alone_which_is_youngs_would_be_worse() -> None:
    write, between = 300.0, 0.5 * HOUR
    young = math.sqrt(2 * write * between)
    found = checkpoint_interval.optimum(write_seconds=write, between_seconds=between)
    assert expected_seconds(found, write=write, between=between) < expected_seconds(young, write=write, between=between)
    assert abs(found - best_interval(write=write, between=between)) < abs(
        young - best_interval(write=write, between=between)
    )


def test_the_interval_is_that_of_equation_37() -> None:
    # d = 100, M = 200: sqrt(40000) = 200, d / 2 M = 0.25, 200 (1 + 0.5 / 3 + 0.25 / 9) - 100 = 138.889
    found = checkpoint_interval.optimum(write_seconds=100.0, between_seconds=200.0)
    assert found == pytest.approx(138.8889, abs=1e-3)


def test_where_writing_takes_longer_than_a_run_lasts_the_interval_is_that_of_interruptions() -> None:
    assert checkpoint_interval.optimum(write_seconds=200.0, between_seconds=100.0) == 100.0
    assert checkpoint_interval.optimum(write_seconds=1e4, between_seconds=100.0) == 100.0


def test_each_node_brings_its_own_interruptions_and_without_a_rate_one_a_day_is_assumed() -> None:
    between = checkpoint_interval.seconds_between_interruptions
    assert between(nodes=1, per_node_hour=0.5) == 2 * HOUR
    assert between(nodes=4, per_node_hour=0.5) == 0.5 * HOUR
    assert between(nodes=1, per_node_hour=None) == pytest.approx(24 * HOUR)
