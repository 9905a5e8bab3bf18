# SPDX-License-Identifier: Apache-2.0
"""The interval of a Poisson count is Garwood's, and holds the truth at least as often as it says."""

import math

import numpy as np
import pytest

from gpubench.stats import intervals


# Garwood, Biometrika 28, 1936, table of 95 % limits; the same in Ulm, American Journal of Epidemiology 131, 1990.
@pytest.mark.parametrize(
    ("count", "low", "high"),
    [
        (0, 0.0, 3.689),
        (1, 0.0253, 5.572),
        (2, 0.2422, 7.225),
        (5, 1.623, 11.668),
        (10, 4.795, 18.390),
        (50, 37.111, 65.919),
    ],
)
def test_the_limits_are_those_of_the_published_table(count: int, low: float, high: float) -> None:
    found = intervals.of_count(count, exposure=1.0)
    assert found is not None
    assert found.low == pytest.approx(low, abs=6e-4)
    assert found.high == pytest.approx(high, abs=6e-4)


def test_a_rate_is_per_unit_of_exposure() -> None:
    one, ten = intervals.of_count(5, exposure=1.0), intervals.of_count(5, exposure=10.0)
    assert one is not None
    assert ten is not None
    assert (ten.mean, one.mean) == (0.5, 5.0)
    assert ten.low == pytest.approx((one.low or 0) / 10)
    assert ten.high == pytest.approx((one.high or 0) / 10)


def test_nothing_seen_has_an_upper_end_and_no_look_has_no_rate() -> None:
    nothing = intervals.of_count(0, exposure=100.0)
    assert nothing is not None
    assert (nothing.mean, nothing.low) == (0.0, 0.0)
    assert nothing.high == pytest.approx(0.03689, abs=1e-5)
    assert intervals.of_count(0, exposure=0.0) is None
    assert intervals.of_count(3, exposure=0.0) is None


@pytest.mark.parametrize("truth", [0.3, 1.0, 2.5, 7.0])
def test_it_holds_the_truth_at_least_as_often_as_it_says(truth: float) -> None:
    covered = 0.0
    for count in range(80):
        found = intervals.of_count(count, exposure=1.0)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        if found.low <= truth <= found.high:
            covered += math.exp(-truth + count * math.log(truth) - math.lgamma(count + 1))
    assert covered >= 0.95


@pytest.mark.parametrize("share", [0.0, 0.05, 0.3, 0.5, 0.95, 1.0])
def test_quantiles_are_those_of_numpy(share: float) -> None:
    values = [5.0, 1.0, 9.0, 2.0, 7.0, 4.0]
    assert intervals.quantile(values, share) == pytest.approx(float(np.quantile(values, share)))
