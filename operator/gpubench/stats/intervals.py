# SPDX-License-Identifier: Apache-2.0
"""Intervals over repeats: fresh runs are the unit of replication, windows inside one run are not.

Student's t interval of the mean (W. S. Gosset, "The probable error of a mean", Biometrika 6, 1908), and for a ratio of
two independent means Fieller's interval (E. C. Fieller, "Some problems in interval estimation", J. R. Stat. Soc. B 16,
1954) with Welch's degrees of freedom (B. L. Welch, Biometrika 34, 1947). Both say how repeatable a figure is, on these
nodes, in these days; they cannot say how it would be elsewhere.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from scipy import special

from gpubench.units import Formula
from gpubench.values import Interval

CONFIDENCE = 0.95
#: With fewer, the interval would be too wide to be of use and too easy to mistake for knowledge.
REPEATS_FOR_INTERVAL = 3
#: Relative standard deviation: less is nothing but the rounding of binary fractions.
_ROUNDING = 1e-12

MEAN = Formula(text="(values) / repeats", source="arithmetic mean over fresh runs")
STUDENT = Formula(
    text="mean ± t x deviation / sqrt(repeats)",
    source="Student's t interval of the mean (W. S. Gosset, Biometrika 6, 1908): t has repeats - 1 degrees of freedom, "
    "deviation is the standard deviation of the repeats",
)
FIELLER = "intervals are Fieller's (J. R. Stat. Soc. B 16, 1954), with Welch's degrees of freedom"
RATIO_OF_MEANS = Formula(text="mean / other mean", source=f"ratio of two means over fresh runs; {FIELLER}")


@dataclass(frozen=True, kw_only=True)
class Sample:
    """Repeats, as far as an interval needs them."""

    count: int
    mean: float
    deviation: float | None  # standard deviation of the repeats; None where there are fewer than three
    #: At which an interval over them is computed so that it holds the truth in 95 % of benchmarks: more, with repeats
    #: that were added until a figure was precise enough (`stats.stopping_rule`).
    confidence: float = CONFIDENCE

    @property
    def t(self) -> float:
        """The quantile of Student's distribution in the interval of the mean."""
        return t_quantile(self.count - 1, self.confidence)

    @property
    def interval(self) -> Interval:
        """The mean with its interval; without bounds below three values."""
        if self.deviation is None:
            return Interval(mean=self.mean)
        half = self.t * self.deviation / math.sqrt(self.count)
        return Interval(mean=self.mean, low=self.mean - half, high=self.mean + half)

    @property
    def variation(self) -> float | None:
        """The coefficient of variation."""
        return None if self.deviation is None else self.deviation / abs(self.mean)

    @property
    def scatters(self) -> bool:
        """Whether it is known how the repeats scatter: three or more that are not all equal."""
        return self.variation is not None and self.variation > _ROUNDING


def of_values(values: Sequence[float], *, confidence: float = CONFIDENCE) -> Sample:
    """The sample of at least one value."""
    mean, deviation = fmean(values), None
    if len(values) >= REPEATS_FOR_INTERVAL:
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return Sample(count=len(values), mean=mean, deviation=deviation, confidence=confidence)


def of_interval(interval: Interval, count: int, *, confidence: float = CONFIDENCE) -> Sample:
    """The sample behind Student's interval: its upper half is t s / sqrt(n); the lower end may have been cut at 0."""
    found = Sample(count=count, mean=interval.mean, deviation=None, confidence=confidence)
    if interval.high is None:
        return found
    return replace(found, deviation=(interval.high - interval.mean) / found.t * math.sqrt(count))


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean of at least one value with its interval; without bounds below three values."""
    return of_values(values, confidence=confidence).interval


def of_ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The ratio of the means of values with Fieller's interval, as `ratio`."""
    return ratio(of_values(numerators, confidence=confidence), of_values(denominators, confidence=confidence))


def ratio(top: Sample, bottom: Sample) -> Interval:
    """The ratio of two independent means with Fieller's interval, at the higher confidence of both.

    Without bounds below three values on either side, or when the denominator is not clearly different from zero (then
    the interval would be unbounded).
    """
    quotient = top.mean / bottom.mean
    if top.deviation is None or bottom.deviation is None:
        return Interval(mean=quotient)
    top_variance, bottom_variance = top.deviation**2 / top.count, bottom.deviation**2 / bottom.count
    if top_variance == bottom_variance == 0:
        return Interval(mean=quotient, low=quotient, high=quotient)
    scaled_bottom = quotient**2 * bottom_variance
    freedom = welch((top_variance, top.count), (scaled_bottom, bottom.count))
    t = t_quantile(freedom, max(top.confidence, bottom.confidence))
    g = t**2 * bottom_variance / bottom.mean**2
    if g >= 1:
        return Interval(mean=quotient)
    half = t / bottom.mean * math.sqrt((1 - g) * top_variance + scaled_bottom)
    return Interval(mean=quotient, low=(quotient - half) / (1 - g), high=(quotient + half) / (1 - g))


def welch(*sides: tuple[float, int]) -> float:
    """Degrees of freedom of a difference of means, given the variance of each and of how many values it is."""
    total = math.fsum(variance for variance, _ in sides)
    return total**2 / math.fsum(variance**2 / (count - 1) for variance, count in sides)


def t_quantile(freedom: float, confidence: float) -> float:
    """Between whose negative and which Student's t lies with this probability."""
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
