# SPDX-License-Identifier: Apache-2.0
"""Intervals over repeats: fresh runs are the unit of replication, windows inside one run are not.

All figures are above zero: rates, times, losses. So their intervals are computed on the scale of ratios, where no bound
can be zero or below: ln(mean) ± t times its standard error, which is that of the mean over the mean (W. Q. Meeker and
L. A. Escobar, "Statistical Methods for Reliability Data", 1998, chapter 7; t is Student's, Biometrika 6, 1908). Where
repeats scatter by a few percent this is Student's interval. The logarithm of a ratio of two independent means has the
sum of both variances, and Welch's degrees of freedom (B. L. Welch, Biometrika 34, 1947). They say how repeatable a
figure is, on these nodes, in these days; they cannot say how it would be elsewhere.

Three runs in a row agree better than ten: one of the ten was slow, or ran at a second speed of its machine. Of the
public result logs of MLPerf Training v5.0 and v5.1, three drawn of ten runs held the mean of the others in 89 %, where
normal numbers have 93 % (docs/reference/mlperf.md). So the standard deviation of repeats that differ is never taken for
less than 0.1 % of their mean, which was chosen for three runs on v5.0 and holds on v5.1.

A time that can end at certain moments only (a quality target that is looked for once in so many seconds) may be the
same in all repeats by chance. So its standard deviation is never taken for less than that of a uniform distribution
over one such step, step / sqrt(12) (JCGM 100:2008, "Guide to the expression of uncertainty in measurement", F.2.2.1).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

import scipy  # its parts load at their first use: they take longer than most commands, and 14 MiB of an operator

from gpubench.units import Formula
from gpubench.values import Interval

CONFIDENCE = 0.95
#: With fewer, the interval would be too wide to be of use and too easy to mistake for knowledge.
REPEATS_FOR_INTERVAL = 3
#: Relative standard deviation: less is nothing but the rounding of binary fractions.
_ROUNDING = 1e-12
#: Relative standard deviation that repeats have at least, however well a few of them agree. Of equal ones nobody knows.
VARIATION_MIN = 0.001


class RunToRun(NamedTuple):
    """How much throughput scatters from run to run, relative, on so many accelerators at most."""

    accelerators: float
    median: float  # of entries
    high: float  # nine entries in ten are below


#: Of MLPerf Training v5.0 and v5.1 (docs/reference/mlperf.md; tests/cli/test_mlperf.py compares them). Three repeats
#: know throughput to half a percent then, which is why that is the least of `measure.repeats` by default.
PUBLISHED = (RunToRun(8, 0.0019, 0.0085), RunToRun(64, 0.0022, 0.010), RunToRun(math.inf, 0.0023, 0.0084))

MEAN = Formula(text="(values) / repeats", source="arithmetic mean over fresh runs")
OF_MEAN = Formula(
    text="mean x exp(± t x deviation / mean / sqrt(repeats))",
    source="t interval of the mean's logarithm (Meeker and Escobar, Statistical Methods for Reliability Data, 1998): t "
    "is Student's, with repeats - 1 degrees of freedom, deviation is the standard deviation of the repeats, at least "
    "0.1 % of the mean",
)
OF_RATIO = "intervals are those of the ratio's logarithm, with Welch's degrees of freedom (Biometrika 34, 1947)"
RATIO_OF_MEANS = Formula(text="mean / other mean", source=f"ratio of two means over fresh runs; {OF_RATIO}")


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
        return t_quantile(self.count - 1, self.confidence)

    @property
    def interval(self) -> Interval:
        """The mean with its interval; without bounds below three values."""
        return _within_factor(self.mean, None if self.variance is None else self.t * math.sqrt(self.variance))

    @property
    def variation(self) -> float | None:
        """The coefficient of variation that intervals go by; None where the mean is not above zero."""
        if self.mean <= 0 or self.deviation is None:
            return None
        return max(self.deviation / self.mean, VARIATION_MIN if self.scatters else 0.0)

    @property
    def variance(self) -> float | None:
        """Of the mean's logarithm."""
        return None if self.variation is None else self.variation**2 / self.count

    @property
    def scatters(self) -> bool:
        """Whether it is known how the repeats scatter: three or more that are not all equal."""
        return self.deviation is not None and self.deviation > _ROUNDING * self.mean


def of_values(values: Sequence[float], *, confidence: float = CONFIDENCE, step: float = 0.0) -> Sample:
    """The sample of at least one value, which can be told apart only where they differ by a `step`."""
    mean, deviation = fmean(values), None
    if len(values) >= REPEATS_FOR_INTERVAL:
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
        deviation = max(deviation, step / math.sqrt(12))
    return Sample(count=len(values), mean=mean, deviation=deviation, confidence=confidence)


def of_interval(interval: Interval, count: int, *, confidence: float = CONFIDENCE) -> Sample:
    """The sample behind an interval of a mean."""
    found = Sample(count=count, mean=interval.mean, deviation=None, confidence=confidence)
    if interval.high is None:
        return found
    variation = math.log(interval.high / interval.mean) / found.t * math.sqrt(count)
    return replace(found, deviation=variation * interval.mean)


def _within_factor(mean: float, exponent: float | None) -> Interval:
    """From a factor less to the same factor more, given its logarithm, which is at most t: it fits."""
    if exponent is None:
        return Interval(mean=mean)
    return Interval(mean=mean, low=mean * math.exp(-exponent), high=mean * math.exp(exponent))


def of_mean(values: Sequence[float], confidence: float = CONFIDENCE, *, step: float = 0.0) -> Interval:
    """The mean of at least one value with its interval; without bounds below three values. `step` as in `of_values`."""
    return of_values(values, confidence=confidence, step=step).interval


def half_width(variation: float, count: int) -> float:
    """Of the interval of so many repeats that scatter so, relative to the mean; infinite below three."""
    high = Sample(count=count, mean=1.0, deviation=variation).interval.high if count >= REPEATS_FOR_INTERVAL else None
    return math.inf if high is None else high - 1


def of_ratio(numerators: Sequence[float], denominators: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The ratio of the means of values with its interval, as `ratio`."""
    return ratio(of_values(numerators, confidence=confidence), of_values(denominators, confidence=confidence))


def ratio(top: Sample, bottom: Sample) -> Interval:
    """The ratio of two independent means with its interval, at the higher confidence of both.

    Without bounds below three values on either side.
    """
    quotient, variances = top.mean / bottom.mean, [one.variance for one in (top, bottom)]
    known = [
        (variance, one.count) for variance, one in zip(variances, (top, bottom), strict=True) if variance is not None
    ]
    if len(known) < len(variances):
        return Interval(mean=quotient)
    total = math.fsum(variance for variance, _ in known)
    t = t_quantile(welch(*known), max(top.confidence, bottom.confidence)) if total else 0.0
    return _within_factor(quotient, t * math.sqrt(total))


def welch(*sides: tuple[float, int]) -> float:
    """Degrees of freedom of a difference of means, given the variance of each and of how many values it is.

    Between unlike counts they are rounded down: of 3 and 10 values Welch's interval holds the truth in 93 % only, and
    rounded in 94 %, where between like counts it holds it in 95 to 97 % as it is (`make bench-statistics`).
    """
    total = math.fsum(variance for variance, _ in sides)
    freedom = total**2 / math.fsum(variance**2 / (count - 1) for variance, count in sides)
    return freedom if len({count for _, count in sides}) == 1 else math.floor(freedom)


def t_quantile(freedom: float, confidence: float) -> float:
    """Between whose negative and which Student's t lies with this probability."""
    return float(scipy.special.stdtrit(freedom, (1 + confidence) / 2))


def of_count(count: int, *, exposure: float) -> Interval | None:
    """Events per unit of exposure, with the interval; None where there was no exposure."""
    if exposure <= 0:
        return None
    tail = (1 - CONFIDENCE) / 2
    low = float(scipy.special.gammaincinv(count, tail)) if count else 0.0
    high = float(scipy.special.gammaincinv(count + 1, 1 - tail))
    return Interval(mean=count / exposure, low=low / exposure, high=high / exposure)


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics (type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    return ordered[below] + (place - below) * (ordered[min(below + 1, len(ordered) - 1)] - ordered[below])
