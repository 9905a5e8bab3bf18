# SPDX-License-Identifier: Apache-2.0
"""When one run may end."""

import numpy as np
import pytest
from scipy import stats

import series
from gpubench.measure import run_length

WANTED = 0.005


def test_independent_windows_have_the_ordinary_relative_error() -> None:
    times = [1.0, 1.2] * 6  # a negative correlation is not believed
    assert run_length.standard_error(times) == pytest.approx(stats.sem(times) / 1.1)


@pytest.mark.parametrize("windows", [0, 1, 4])
def test_too_few_windows_have_no_error(windows: int) -> None:
    assert run_length.standard_error([1.0] * windows) is None


def test_equal_windows_have_none_to_speak_of() -> None:
    assert run_length.standard_error([0.1] * 5) == 0.0


def test_a_quiet_run_is_long_enough_after_a_few_windows() -> None:
    times = series.correlated(np.random.default_rng(1), windows=60, rho=0.0, deviation=0.003).tolist()
    assert not run_length.enough(times[: run_length.COUNTED_MIN - 1], wanted=WANTED)
    assert run_length.enough(times[:20], wanted=WANTED)


def test_a_restless_run_goes_on() -> None:
    times = series.correlated(np.random.default_rng(2), windows=40, rho=0.0, deviation=0.1).tolist()
    assert not run_length.enough(times, wanted=WANTED)


def test_correlated_windows_need_more_time() -> None:
    # 25 independent windows of 1 % are as exact as this; of those with a correlation of 0.9 it takes 475.
    random = np.random.default_rng(3)
    independent, correlated = (
        sum(run_length.enough(series.correlated(random, windows=60, rho=rho).tolist(), wanted=0.002) for _ in range(50))
        for rho in (0.0, 0.9)
    )
    assert independent >= 45
    assert correlated <= 10


def test_a_run_does_not_end_while_it_warms_up() -> None:
    random = np.random.default_rng(4)
    for _ in range(50):
        times = series.correlated(random, windows=20, rho=0.0, deviation=0.003)
        warming_up = series.warming_up(times, excess=0.3, windows=10).tolist()
        assert not any(run_length.enough(warming_up[:count], wanted=WANTED) for count in range(21))
