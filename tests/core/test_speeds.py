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


@pytest.mark.parametrize(("slow", "is_found"), [(5, False), (6, True)])
def test_a_group_has_three_tenths_of_the_windows(slow: int, is_found: bool) -> None:
    times = [1.25 if at % 3 == 0 and at < 3 * slow else 1.0 for at in range(20)]
    assert (steady_state.two_speeds(times) is not None) is is_found


def test_two_visits_to_one_speed_are_to_and_fro() -> None:
    assert steady_state.two_speeds([1.0] * 6 + [1.25] * 8 + [1.0] * 6) is not None
    assert steady_state.two_speeds([1.0] * 12 + [1.25] * 8) is None


def test_a_ratio_of_speeds_has_no_unit() -> None:
    found = steady_state.two_speeds([0.01, 0.015] * 10)
    assert found is not None
    assert found.ratio == pytest.approx(1.5)


@pytest.mark.parametrize(("apart", "is_found"), [(5.6, False), (6.1, True)])
def test_two_groups_lie_apart_by_six_of_their_common_deviations(apart: float, is_found: bool) -> None:
    # Twelve windows; in each group of six the squares add up to 6 x 0.01^2, which is 12 x 0.01^2 / 10 for both
    distance = apart * 0.01 * 1.2**0.5
    times = [1 + side * 0.01 + high * distance for side in (1, -1) * 3 for high in (0, 1)]
    assert (steady_state.two_speeds(times) is not None) is is_found


def test_a_step_between_twelve_windows_is_seen_and_one_of_a_percent_is_not_worth_a_word() -> None:
    assert steady_state.shift([1.0] * 6 + [1.5] * 6) == pytest.approx(0.5)
    assert steady_state.shift([1.0] * 10 + [1.01] * 10) is None
    assert steady_state.shift([1.0] * 10 + [0.97] * 10) == pytest.approx(-0.03)


@pytest.mark.parametrize(("distance", "is_found"), [(5.4, False), (6.6, True)])
def test_on_both_sides_of_a_step_the_times_stay_within_a_sixth_of_it(distance: float, is_found: bool) -> None:
    # The last three have a standard deviation of 0.01
    times = [1.0] * 17 + [1 + 0.01 * (distance + one) for one in (1, -1, 0)]
    assert (steady_state.shift(times) is not None) is is_found


@pytest.mark.parametrize(("distance", "is_found"), [(7.0, False), (9.0, True)])
def test_three_windows_of_sixty_are_a_step_only_where_no_single_group_has_as_many(
    distance: float, is_found: bool
) -> None:
    # Between over within is about distance^2 x 3 x 57 / 60 / 59, Hartigan's limit for 60 windows 3.3
    times = [1 + 0.01 * side for side in ((1, -1) * 29)[:57]] + [1 + 0.01 * (distance + one) for one in (1, -1, 0)]
    assert (steady_state.shift(times) is not None) is is_found


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
