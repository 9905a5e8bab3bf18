# SPDX-License-Identifier: Apache-2.0
"""Whether a series of window times goes up or down, and by how much, where consecutive windows are correlated.

A straight line with AR(1) errors, fitted by generalised least squares (S. J. Prais and C. B. Winsten, "Trend estimators
and serial correlation", Cowles Commission Discussion Paper 383, 1954), the correlation estimated from the residuals of
an ordinary fit and corrected for its bias. Why not the rank test of Mann and Kendall with the correction of K. H. Hamed
and A. R. Rao (J. Hydrol. 204, 1998): in 20 to 60 windows with a correlation of 0.9 it sees a trend, at 1 %, in more
than every fifth series that has none (tests/core/test_drift.py counts): it takes the correlation for as small as it
looks.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

from gpubench.stats import autocorrelation, outliers

#: With fewer a line always fits.
VALUES_MIN = 5


class Drift(NamedTuple):
    """From the first value to the last, along the line."""

    change: float  # relative to the mean
    p: float  # how often chance alone would bring as much


def of(values: Sequence[float]) -> Drift:
    """The drift of a series of positive values; none with fewer than five."""
    if len(values) < VALUES_MIN:
        return Drift(change=0.0, p=1.0)
    # Differences from the first: equal values give exactly 0.
    shape = [value - values[0] for value in outliers.clipped(values)]
    slope, start = _line(shape)
    residuals = [value - start - slope * at for at, value in enumerate(shape)]
    t = t_of_slope(shape, rho=autocorrelation.lag_one(residuals, bias=(2, 4), errors=1))
    return Drift(
        change=slope * (len(values) - 1) * len(values) / math.fsum(values),
        p=2 * float(special.stdtr(len(values) - 2, -abs(t))),
    )


def _line(values: Sequence[float]) -> tuple[float, float]:
    """Slope and value at 0 of the ordinary least-squares line."""
    middle, mean = (len(values) - 1) / 2, math.fsum(values) / len(values)
    slope = math.fsum((at - middle) * (value - mean) for at, value in enumerate(values)) / math.fsum(
        (at - middle) ** 2 for at in range(len(values))
    )
    return slope, mean - slope * middle


def t_of_slope(values: Sequence[float], *, rho: float) -> float:
    """Slope over its standard error, after Prais and Winsten's transformation, which makes the errors independent."""
    first = math.sqrt(1 - rho**2)
    ones = [first] + [1 - rho] * (len(values) - 1)
    times = [0.0] + [at - rho * (at - 1) for at in range(1, len(values))]
    heights = [first * values[0]] + [one - rho * before for before, one in itertools.pairwise(values)]
    weight = math.fsum(one**2 for one in ones)
    # Both orthogonal to the ones, so that the slope is one quotient.
    shift, lift = _dot(ones, times) / weight, _dot(ones, heights) / weight
    times = [time - shift * one for time, one in zip(times, ones, strict=True)]
    heights = [height - lift * one for height, one in zip(heights, ones, strict=True)]
    spread = _dot(times, times)
    slope = _dot(times, heights) / spread
    squares = math.fsum((height - slope * time) ** 2 for height, time in zip(heights, times, strict=True))
    if squares == 0:
        return math.copysign(math.inf, slope) if slope else 0.0
    return slope / math.sqrt(squares / (len(values) - 2) / spread)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True))
