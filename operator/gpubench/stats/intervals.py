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

from gpubench.units import Formula
from gpubench.values import Interval

CONFIDENCE = 0.95
#: With fewer, the interval would be too wide to be of use and too easy to mistake for knowledge.
REPEATS_FOR_INTERVAL = 3


MEAN = Formula(text="(values) / repeats", source="arithmetic mean over fresh runs")
STUDENT = Formula(
    text="mean ± t x deviation / sqrt(repeats)",
    source="Student's t interval of the mean (W. S. Gosset, Biometrika 6, 1908): t has repeats - 1 degrees of freedom, "
    "deviation is the standard deviation of the repeats",
)
FIELLER = "intervals are Fieller's (J. R. Stat. Soc. B 16, 1954), with Welch's degrees of freedom"
RATIO_OF_MEANS = Formula(text="mean / other mean", source=f"ratio of two means over fresh runs; {FIELLER}")


@dataclass(frozen=True, kw_only=True)
class Student:
    """What the interval of a mean is made of."""

    mean: float
    t: float
    variance: float  # of the mean
    count: int

    @property
    def deviation(self) -> float:
        """Standard deviation of the values."""
        return math.sqrt(self.variance * self.count)

    @property
    def interval(self) -> Interval:
        """The mean with its interval."""
        half = self.t * math.sqrt(self.variance)
        return Interval(mean=self.mean, low=self.mean - half, high=self.mean + half)


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean of at least one value with its interval; without bounds below three values."""
    found = student(values, confidence)
    return Interval(mean=mean(values)) if found is None else found.interval


def mean(values: Sequence[float]) -> float:
    """The mean of at least one value."""
    if not values:
        raise ValueError("a mean needs at least one value")
    return math.fsum(values) / len(values)


def student(values: Sequence[float], confidence: float = CONFIDENCE) -> Student | None:
    """What the interval of the values' mean is made of; None below three."""
    if len(values) < REPEATS_FOR_INTERVAL:
        return None
    t = _t_quantile(len(values) - 1, confidence)
    return Student(mean=mean(values), t=t, variance=_variance_of_mean(values), count=len(values))


def of_ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The ratio of two independent means with Fieller's interval.

    Without bounds below three values on either side, or when the denominator is not clearly different from zero (then
    the interval would be unbounded).
    """
    ratio, bottom = mean(numerators) / mean(denominators), mean(denominators)
    if min(len(numerators), len(denominators)) < REPEATS_FOR_INTERVAL:
        return Interval(mean=ratio)
    top_variance, bottom_variance = _variance_of_mean(numerators), _variance_of_mean(denominators)
    if top_variance == bottom_variance == 0:
        return Interval(mean=ratio, low=ratio, high=ratio)
    scaled_bottom = ratio**2 * bottom_variance
    freedom = (top_variance + scaled_bottom) ** 2 / (
        top_variance**2 / (len(numerators) - 1) + scaled_bottom**2 / (len(denominators) - 1)
    )
    t = _t_quantile(freedom, confidence)
    g = t**2 * bottom_variance / bottom**2
    if g >= 1:
        return Interval(mean=ratio)
    half = t / bottom * math.sqrt((1 - g) * top_variance + scaled_bottom)
    return Interval(mean=ratio, low=(ratio - half) / (1 - g), high=(ratio + half) / (1 - g))


def _variance_of_mean(values: Sequence[float]) -> float:
    middle = mean(values)
    return math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values)


def _t_quantile(freedom: float, confidence: float) -> float:
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def of_count(count: int, *, exposure: float, confidence: float = CONFIDENCE) -> Interval | None:
    """Events per unit of exposure, with the interval; None where there was no exposure."""
    if count < 0 or exposure <= 0:
        return None
    tail = (1 - confidence) / 2
    low = float(special.gammaincinv(count, tail)) if count else 0.0
    high = float(special.gammaincinv(count + 1, 1 - tail))
    return Interval(mean=count / exposure, low=low / exposure, high=high / exposure)


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics (type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
