# SPDX-License-Identifier: Apache-2.0
"""Intervals over repeats: fresh runs are the unit of replication, windows inside one run are not.

Student's t interval of the mean (W. S. Gosset, "The probable error of a mean", Biometrika 6, 1908), and for a ratio of
two independent means Fieller's interval (E. C. Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16,
1954) with Welch's degrees of freedom (B. L. Welch, Biometrika 34, 1947). Both say how repeatable a figure is, on these
nodes, in these days; they cannot say how it would be elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import special

CONFIDENCE = 0.95
REPEATS_FOR_INTERVAL = (
    3  # with fewer, the interval would be too wide to be of use and too easy to mistake for knowledge
)


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A mean and, where there is one, its interval."""

    mean: float
    low: float | None = None
    high: float | None = None

    def scaled(self, factor: float) -> "Interval":
        """All three times a positive, certain factor."""
        return Interval(
            mean=self.mean * factor,
            low=None if self.low is None else self.low * factor,
            high=None if self.high is None else self.high * factor,
        )


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean of at least one value with its interval; without bounds below three values."""
    if not values:
        raise ValueError("a mean needs at least one value")
    mean = math.fsum(values) / len(values)
    if len(values) < REPEATS_FOR_INTERVAL:
        return Interval(mean=mean)
    half = _t_quantile(len(values) - 1, confidence) * math.sqrt(_variance_of_mean(values))
    return Interval(mean=mean, low=mean - half, high=mean + half)


def of_ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The ratio of two independent means with Fieller's interval.

    Without bounds below three values on either side, or when the denominator is not clearly different from zero (then
    the interval would be unbounded).
    """
    top, bottom = math.fsum(numerators) / len(numerators), math.fsum(denominators) / len(denominators)
    ratio = top / bottom
    if min(len(numerators), len(denominators)) < REPEATS_FOR_INTERVAL:
        return Interval(mean=ratio)
    var_top, var_bottom = _variance_of_mean(numerators), _variance_of_mean(denominators)
    if var_top == var_bottom == 0:
        return Interval(mean=ratio, low=ratio, high=ratio)
    scaled_bottom = ratio**2 * var_bottom
    freedom = (var_top + scaled_bottom) ** 2 / (
        var_top**2 / (len(numerators) - 1) + scaled_bottom**2 / (len(denominators) - 1)
    )
    t = _t_quantile(freedom, confidence)
    g = t**2 * var_bottom / bottom**2
    if g >= 1:
        return Interval(mean=ratio)
    half = t / bottom * math.sqrt((1 - g) * var_top + scaled_bottom)
    return Interval(mean=ratio, low=(ratio - half) / (1 - g), high=(ratio + half) / (1 - g))


def _variance_of_mean(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def _t_quantile(freedom: float, confidence: float) -> float:
    return float(special.stdtrit(freedom, (1 + confidence) / 2))
