# SPDX-License-Identifier: Apache-2.0
"""The modified z-score, and a series whose outliers are drawn in."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from gpubench.stats import steady_state

# Median 2.45; the absolute deviations from it are 0.05 (2), 0.15 (4), 0.35 (2), 5.75, 5.85, so that MAD is 0.15.
VALUES = (2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3)


def test_the_score_is_that_of_iglewicz_and_hoaglin() -> None:
    scores = steady_state.outlier_scores(VALUES)
    assert scores[-2:] == pytest.approx((0.6745 * 5.75 / 0.15, 0.6745 * 5.85 / 0.15))
    assert max(abs(score) for score in scores[:-2]) < steady_state.OUTLIER_LIMIT


def test_outliers_are_drawn_in_to_the_limit_and_the_rest_stays() -> None:
    drawn_in = steady_state.clipped(VALUES)
    assert drawn_in[:-2] == VALUES[:-2]
    assert drawn_in[-2:] == pytest.approx((2.45 + 3.5 * 0.15 / 0.6745,) * 2)


def test_one_pause_among_equal_windows_stands_out() -> None:
    assert steady_state.outlier_scores([1.0] * 19 + [2.0])[-1] > steady_state.OUTLIER_LIMIT


def test_where_nothing_differs_nothing_stands_out() -> None:
    assert steady_state.outlier_scores([0.1] * 5) == (0.0,) * 5
    assert steady_state.clipped([0.1] * 5) == (0.1,) * 5


@given(some.lists(some.integers(1, 1000), min_size=1, max_size=30), some.sampled_from([0.25, 2.0, 1024.0]))
def test_the_unit_of_time_does_not_matter(values: list[int], factor: float) -> None:
    # Factors are powers of two: they change no rounding.
    assert steady_state.outlier_scores([value * factor for value in values]) == steady_state.outlier_scores(values)
