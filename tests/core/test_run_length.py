# SPDX-License-Identifier: Apache-2.0
"""When one run may end."""

import numpy as np
import pytest
from scipy import stats

import series
from gpubench.records import Bimodal
from gpubench.stats import steady_state, stopping_rule

WANTED = 0.005


def test_independent_windows_have_the_ordinary_relative_error() -> None:
    times = [1.0, 1.2] * 6  # a negative correlation is not believed
    assert stopping_rule.standard_error(times) == pytest.approx(stats.sem(times) / 1.1)


@pytest.mark.parametrize("windows", [0, 1, 4])
def test_too_few_windows_have_no_error(windows: int) -> None:
    assert stopping_rule.standard_error([1.0] * windows) is None


def test_equal_windows_have_none_to_speak_of() -> None:
    assert stopping_rule.standard_error([0.1] * 5) == 0.0


def test_a_quiet_run_is_long_enough_after_a_few_windows() -> None:
    times = series.correlated(np.random.default_rng(1), windows=60, rho=0.0, deviation=0.003).tolist()
    assert not stopping_rule.enough(times[: stopping_rule.COUNTED_MIN - 1], wanted=WANTED)
    assert stopping_rule.enough(times[:20], wanted=WANTED)


def test_equal_windows_are_enough_as_soon_as_they_are_as_many_as_needed() -> None:
    assert stopping_rule.enough([0.125] * stopping_rule.COUNTED_MIN, wanted=0.0)
    assert not stopping_rule.enough([0.125] * (stopping_rule.COUNTED_MIN - 1), wanted=0.0)


@pytest.mark.parametrize("windows", [60, 61])
def test_a_run_whose_transient_reaches_its_middle_goes_on_however_little_is_wanted(windows: int) -> None:
    times = series.correlated(np.random.default_rng(4), windows=windows, rho=0.0, deviation=0.003)
    warming_up = series.warming_up(times, excess=0.3, windows=45).tolist()
    assert steady_state.transient(warming_up) == windows // 2
    assert not stopping_rule.enough(warming_up, wanted=1.0)


def test_one_window_in_ten_is_drawn_in_and_not_more() -> None:
    times = series.correlated(np.random.default_rng(7), windows=20, rho=0.0, deviation=0.003).tolist()
    for at, is_enough in ((9, True), (15, True), (5, False)):
        times[at] *= 1.5
        assert stopping_rule.enough(times, wanted=WANTED) is is_enough


def test_a_restless_run_goes_on() -> None:
    times = series.correlated(np.random.default_rng(2), windows=40, rho=0.0, deviation=0.1).tolist()
    assert not stopping_rule.enough(times, wanted=WANTED)


def test_correlated_windows_need_more_time() -> None:
    # 25 independent windows of 1 % are as exact as this; of those with a correlation of 0.9 it takes 475.
    random = np.random.default_rng(3)
    independent, correlated = (
        sum(
            stopping_rule.enough(series.correlated(random, windows=60, rho=rho).tolist(), wanted=0.002)
            for _ in range(50)
        )
        for rho in (0.0, 0.9)
    )
    assert independent >= 45
    assert correlated <= 10


def ended(times: series.Times, *, wanted: float) -> list[float]:
    """The windows of a run that ends as soon as it may."""
    windows: list[float] = times.tolist()
    counts = (count for count in range(len(windows)) if stopping_rule.enough(windows[:count], wanted=wanted))
    return windows[: next(counts, len(windows))]


@pytest.mark.parametrize("wanted", [0.01, 0.02, 0.1])
@pytest.mark.parametrize(("ratio", "every", "of"), [(1.1, 1, 2), (1.2, 1, 3), (1.5, 1, 3)])
def test_a_run_that_may_end_early_still_says_that_it_has_two_speeds(
    ratio: float, every: int, of: int, wanted: float
) -> None:
    # Not always with a third of them slow: a run of 14 windows may have four, which is too few for a second speed.
    random = np.random.default_rng(5)
    named = 0
    for _ in range(100):
        times = series.correlated(random, windows=60, rho=0.0, deviation=0.003)
        run = ended(series.alternating(times, ratio=ratio, every=every, of=of), wanted=wanted)
        named += [type(notice) for notice in steady_state.notices(run)] == [Bimodal]
    assert named >= 95


def test_slow_windows_that_are_many_are_not_drawn_in() -> None:
    random = np.random.default_rng(6)
    for _ in range(100):
        times = series.correlated(random, windows=12, rho=0.0, deviation=0.002)
        slow = series.throttled(times, at=8, change=0.5).tolist()
        assert not stopping_rule.enough(slow, wanted=0.02)
        random.shuffle(slow)
        assert not stopping_rule.enough(slow, wanted=0.02)


def test_a_single_pause_among_many_is_drawn_in() -> None:
    times = series.correlated(np.random.default_rng(7), windows=20, rho=0.0, deviation=0.003)
    assert stopping_rule.enough(series.paused(times, at=12, ratio=1.5).tolist(), wanted=WANTED)


def test_a_run_with_slow_blocks_does_not_end_without_a_word() -> None:
    # One third of the windows a fifth slower.
    random = np.random.default_rng(8)
    for _ in range(100):
        times = series.correlated(random, windows=60, rho=0.0, deviation=0.003)
        times = series.alternating(times, ratio=1.2, every=4, of=3)
        assert steady_state.notices(ended(times, wanted=0.02))


def test_a_run_does_not_end_while_it_warms_up() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        times = series.correlated(random, windows=20, rho=0.0, deviation=0.003)
        warming_up = series.warming_up(times, excess=0.3, windows=10).tolist()
        assert not any(stopping_rule.enough(warming_up[:count], wanted=WANTED) for count in range(21))
