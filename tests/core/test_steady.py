# SPDX-License-Identifier: Apache-2.0
"""Where a run's steady state begins, and runs that have none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import series
from gpubench.stats import steady_state

STUDIES = 300


def test_mser_leaves_out_what_makes_the_mean_of_the_rest_most_exact() -> None:
    # By hand, sum of squares / count squared of the rest: 6.8333/36, 1.2/25, 1/16, 0.6667/9. The second is the least.
    assert steady_state.mser([4.0, 1.0, 2.0, 1.0, 2.0, 1.0], bound=3) == 1


def test_of_equally_good_truncations_the_smallest_is_taken() -> None:
    assert steady_state.mser([0.1] * 7, bound=3) == 0


def test_a_transient_is_left_out_with_half_as_much_again() -> None:
    warm = [1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99, 1.0, 1.01, 0.99]
    found = steady_state.detect([1.5, 1.3, *warm])
    assert steady_state.mser([1.5, 1.3, *warm], bound=7) == 2
    assert (found.first, found.settled) == (3, True)


def test_half_as_many_again_are_left_out_up_to_half_of_all() -> None:
    assert [steady_state.first_counted(one, windows=20) for one in (0, 1, 4, 5, 6, 7, 8)] == [0, 2, 6, 8, 9, 10, 10]


def test_more_than_half_is_never_left_out() -> None:
    found = steady_state.detect([2.0] * 4 + [1.0, 1.1, 0.9, 1.0])
    assert (found.first, found.settled) == (4, True)


def test_one_late_pause_does_not_make_everything_before_it_warm_up() -> None:
    times = series.correlated(np.random.default_rng(1), windows=20, rho=0.0)
    assert steady_state.detect(series.paused(times, at=8, ratio=10).tolist()) == pytest.approx(
        steady_state.detect(series.paused(times, at=8, ratio=1.05).tolist()), abs=1e-3
    )


def test_one_slow_window_among_the_first_is_seldom_left_out_with_all_before_it() -> None:
    # In 32 of 100 runs; drawn in to 3.5 deviations only, as outliers are elsewhere, it would be in all of them.
    random = np.random.default_rng(1)
    runs = (series.correlated(random, windows=60, rho=0.0, deviation=0.003) for _ in range(100))
    left_out = sum(steady_state.transient(series.paused(run, at=3, ratio=1.5).tolist()) > 3 for run in runs)
    assert left_out <= 45


@pytest.mark.parametrize("windows", [0, 1, 4])
def test_of_fewer_than_five_windows_nothing_is_claimed(windows: int) -> None:
    assert steady_state.detect([1.0 + at for at in range(windows)]) == (0, True, 0.0)


@pytest.mark.parametrize("windows", [20, 40, 60])
@pytest.mark.parametrize("change", [0.1, -0.1])
def test_a_clear_drift_never_settles_and_its_size_is_said(windows: int, change: float) -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        times = series.correlated(random, windows=windows, rho=0.0, deviation=0.003)
        found = steady_state.detect(series.drifting(times, change).tolist())
        assert not found.settled
        assert found.first == 0
        assert found.change == pytest.approx(change, abs=0.02)


@pytest.mark.parametrize("windows", [20, 40, 60])
def test_a_warm_up_longer_than_the_run_never_settles(windows: int) -> None:
    random = np.random.default_rng(3)
    for _ in range(20):
        times = series.correlated(random, windows=windows, rho=0.3, deviation=0.003)
        assert not steady_state.detect(series.warming_up(times, excess=0.3, windows=windows).tolist()).settled


@pytest.mark.parametrize("windows", [5, 8])
def test_few_windows_that_all_fall_never_settle(windows: int) -> None:
    found = steady_state.detect([1.3 - 0.05 * at for at in range(windows)])
    assert not found.settled


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("deviation", [0.01, 0.05])
@pytest.mark.parametrize("windows", [6, 10, 20, 60])
def test_noise_is_not_called_unsettled(windows: int, deviation: float, rho: float) -> None:
    # At most 1 % is wanted; three standard errors of that proportion among 300 are 1.7 %.
    random = np.random.default_rng(4)
    times = (series.correlated(random, windows=windows, rho=rho, deviation=deviation) for _ in range(STUDIES))
    accused = sum(not steady_state.detect(one.tolist()).settled for one in times)
    assert accused <= 0.027 * STUDIES


@given(some.lists(some.integers(900, 1100), min_size=0, max_size=40), some.sampled_from([0.25, 2.0, 1024.0]))
def test_the_unit_of_time_does_not_matter(times: list[int], factor: float) -> None:
    assert steady_state.detect([time * factor for time in times])[:2] == steady_state.detect(times)[:2]


@given(some.lists(some.floats(1e-6, 1e6), min_size=1, max_size=40))
def test_any_times_have_an_answer(times: list[float]) -> None:
    found = steady_state.detect(times)
    assert 0 <= found.first <= len(times) // 2
    assert np.isfinite(found.change)


def test_a_drift_needs_a_handful_of_values() -> None:
    assert steady_state.drift([1.0, 2.0, 3.0, 4.0]) == (0.0, 1.0)
