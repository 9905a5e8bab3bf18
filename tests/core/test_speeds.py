# SPDX-License-Identifier: Apache-2.0
"""Runs at two speeds, to and fro or one after the other."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import series
from gpubench.stats import steady_state


def quiet(windows: int = 20) -> series.Times:
    return series.correlated(np.random.default_rng(1), windows=windows, rho=0.0, deviation=0.002)


def test_both_groups_are_measured() -> None:
    found = steady_state.two_speeds(series.alternating(quiet(21), ratio=1.25, every=1, of=3).tolist())
    assert found is not None
    assert (found.ratio, found.share) == pytest.approx((1.25, 7 / 21), rel=0.01)


def test_a_rare_group_is_none() -> None:
    assert steady_state.two_speeds(series.alternating(quiet(), ratio=1.25, every=1, of=5).tolist()) is None


def test_a_few_windows_have_one_speed() -> None:
    assert steady_state.two_speeds([1.0, 1.5] * 5) is None
    assert steady_state.shift([1.0] * 5 + [1.5] * 6) is None


def test_a_step_is_a_shift_and_not_to_and_fro() -> None:
    times = series.throttled(quiet(), at=14, change=0.25).tolist()
    assert steady_state.shift(times) == pytest.approx(0.25, abs=0.01)
    assert steady_state.two_speeds(times) is None


@pytest.mark.parametrize("windows", [20, 60])
@pytest.mark.parametrize("constant", [1, 3, 10])
def test_a_transient_that_fades_is_no_shift(windows: int, constant: float) -> None:
    assert steady_state.shift(series.warming_up(quiet(windows), excess=0.3, windows=constant).tolist()) is None


def test_to_and_fro_is_no_shift() -> None:
    times = series.alternating(quiet(), ratio=1.25, every=4).tolist()
    assert steady_state.shift(times) is None
    assert steady_state.two_speeds(times) is not None


def test_one_pause_is_neither() -> None:
    times = series.paused(quiet(), at=12, ratio=3).tolist()
    assert steady_state.shift(times) is None
    assert steady_state.two_speeds(times) is None


def test_equal_times_have_one_speed() -> None:
    assert steady_state.two_speeds([0.1] * 20) is None
    assert steady_state.shift([0.1] * 20) is None


def test_two_constant_speeds_without_any_noise_are_found() -> None:
    found = steady_state.two_speeds([1.0, 1.5] * 10)
    assert found is not None
    assert (found.ratio, found.share) == pytest.approx((1.5, 0.5))


@pytest.mark.parametrize("windows", [20, 60])
def test_the_limit_of_the_test_for_clusters_is_exceeded_by_one_normal_group_as_seldom_as_it_says(windows: int) -> None:
    # At 5 %, where the approximation can be counted: it lets 6.1 % (20 windows) and 5.4 % (60) pass, as 20,000
    # simulated samples showed; three standard errors of 5.5 % among 2,000 are 1.5 %.
    random = np.random.default_rng(2)
    exceeded = 0
    for _ in range(2000):
        ordered = np.sort(random.standard_normal(windows))
        sizes, sums = np.arange(1, windows), np.cumsum(ordered)[:-1]
        others = ordered.sum() - sums
        between = sizes * (windows - sizes) / windows * (sums / sizes - others / (windows - sizes)) ** 2
        within = ((ordered - ordered.mean()) ** 2).sum() - between.max()
        exceeded += between.max() > within * steady_state.clusters_limit(windows, level=0.05)
    assert 0.035 <= exceeded / 2000 <= 0.076


def test_the_limit_of_the_test_for_clusters_is_hartigans() -> None:
    # -ln(1 - 2 / pi) = 1.01231, 2.4 / 36 = 0.06667, 3.09023 / sqrt(36) = 0.51504: e^1.59402 - 1
    assert steady_state.clusters_limit(38, level=0.001) == pytest.approx(3.92346, abs=1e-4)


@given(some.lists(some.floats(1e-3, 1e3), min_size=0, max_size=30))
def test_any_times_have_an_answer(times: list[float]) -> None:
    found, step = steady_state.two_speeds(times), steady_state.shift(times)
    assert found is None or found.ratio >= steady_state.RATIO_MIN
    assert step is None or step > -1
