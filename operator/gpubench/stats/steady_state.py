# SPDX-License-Identifier: Apache-2.0
"""What the windows of one run show: since when it is steady, and what is odd about it.

A series has the seconds per step of each window after the declared warm-up, of the slowest rank. Consecutive windows
are not independent, so every test here takes their correlation into account, or asks for so much that it does not
matter. tests/core counts how often each test accuses pure noise.
"""

import itertools
import math
import statistics
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import scipy

from gpubench.records import Bimodal, Notice, Outliers, Straggler, Trend, Unsettled

#: With fewer nothing can be told: they are taken as they are.
WINDOWS_MIN = 5
#: A smaller change of the time of a step over the counted half is no reason to call a run unsettled.
CHANGE_MIN = 0.01

# --- correlation ------------------------------------------------------------------------------------------------------

#: At 1 a series has no mean to be sure of. Up to this the error of a mean is right in the median, from ten values and
#: correlations up to 0.9 on (tests/core/test_drift.py); higher, a few chance hits at 1 would make it useless.
_CORRELATION_MAX = 0.95


def lag_one(residuals: Sequence[float], *, bias: tuple[float, float], errors: float = 0) -> float:
    """Lag-one autocorrelation of residuals, in [0, 0.95], corrected for its bias in short series.

    With `errors` the estimate and so many times its standard error, sqrt((1 - rho^2) / n): where too small a
    correlation would accuse, and too large a one only keeps silent.

    The sample's is too small by about (a + b rho) / n: (1, 4) where a mean was taken out, (2, 4) where a straight line
    was (F. H. C. Marriott and J. A. Pope, "Bias in the estimation of autocorrelations", and M. G. Kendall, "Note on
    bias in the estimation of autocorrelation", both Biometrika 41, 1954). A negative one is taken as 0, which errs on
    the side of doubt.
    """
    if (squares := math.fsum(residual**2 for residual in residuals)) == 0:
        return 0.0
    products = math.fsum(one * next_one for one, next_one in itertools.pairwise(residuals))
    count, (constant, factor) = len(residuals), bias
    rho = (products / squares + constant / count) / max(1 - factor / count, 0.2)
    rho += errors * math.sqrt(max(1 - rho**2, 0.0) / count)
    return min(max(rho, 0.0), _CORRELATION_MAX)


def error_of_mean(values: Sequence[float], *, errors: float = 0) -> float:
    """Standard error of the mean of at least two values of a first-order series, AR(1); `errors` as for `lag_one`.

    It is larger than s / sqrt(n), by 4.4 times at a correlation of 0.9. Var(mean) = sigma^2 f / n with
    f = 1 + 2 sum_k (1 - k/n) rho^k, and the sample variance underestimates sigma^2 by (n - f) / (n - 1) (G. V. Bayley
    and J. M. Hammersley, "The 'effective' number of independent observations in an autocorrelated time series",
    Suppl. J. R. Stat. Soc. 8, 1946).
    """
    count, mean = len(values), fmean(values)
    residuals = [value - mean for value in values]
    rho = lag_one(residuals, bias=(1, 4), errors=errors)
    # The sum of the series in closed form.
    inflation = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
    variance = math.fsum(residual**2 for residual in residuals) / (count - inflation)
    return math.sqrt(variance * inflation / count)


# --- outliers ---------------------------------------------------------------------------------------------------------

OUTLIER_LIMIT = 3.5
_MAD_TO_DEVIATION = 1 / 0.6745
_MEAN_DEVIATION_TO_DEVIATION = 1.2533  # sqrt(pi / 2), of a normal distribution


def outlier_scores(values: Sequence[float]) -> tuple[float, ...]:
    """The modified z-score of each value, 0.6745 (x - median) / MAD; all 0 where nothing differs.

    MAD is the median of the absolute deviations from the median. Beyond 3.5 a value is a possible outlier (B. Iglewicz
    and D. C. Hoaglin, "How to Detect and Handle Outliers", ASQC, 1993).
    """
    median, deviation = _centre(values)
    return tuple((value - median) / deviation if deviation else 0.0 for value in values)


def clipped(values: Sequence[float], limit: float = OUTLIER_LIMIT) -> tuple[float, ...]:
    """The values, outliers moved to the limit: for *finding* things, as an average is made of what was measured."""
    median, deviation = _centre(values)
    reach = limit * deviation
    return tuple(min(max(value, median - reach), median + reach) for value in values)


def _centre(values: Sequence[float]) -> tuple[float, float]:
    """Median and robust deviation: by MAD or, where more than half are equal, by the mean absolute deviation."""
    median = statistics.median(values)
    deviations = [abs(value - median) for value in values]
    if mad := statistics.median(deviations):
        return median, _MAD_TO_DEVIATION * mad
    return median, _MEAN_DEVIATION_TO_DEVIATION * fmean(deviations)


# --- drift ------------------------------------------------------------------------------------------------------------

#: With fewer a line always fits.
DRIFT_WINDOWS_MIN = 5


class Drift(NamedTuple):
    """From the first value to the last, along the line."""

    change: float  # relative to the mean
    p: float  # how often chance alone would bring as much


def drift(values: Sequence[float]) -> Drift:
    """The drift of a series of positive values; none with fewer than five.

    A straight line with AR(1) errors, fitted by generalised least squares (S. J. Prais and C. B. Winsten, Cowles
    Commission Discussion Paper 383, 1954). The correlation is that of the residuals of an ordinary fit, corrected for
    its bias. The rank test of Mann and Kendall, as corrected by K. H. Hamed and A. R. Rao (J. Hydrol. 204, 1998), sees
    a trend, at 1 %, in more than every fifth series of 20 to 60 windows with a correlation of 0.9 that has none.
    """
    if len(values) < DRIFT_WINDOWS_MIN:
        return Drift(change=0.0, p=1.0)
    # Differences from the first: equal values give exactly 0.
    shape = [value - values[0] for value in clipped(values)]
    slope, start = statistics.linear_regression(range(len(shape)), shape)
    residuals = [value - start - slope * at for at, value in enumerate(shape)]
    t = t_of_slope(shape, rho=lag_one(residuals, bias=(2, 4), errors=1))
    return Drift(
        change=slope * (len(values) - 1) * len(values) / math.fsum(values),
        p=2 * float(scipy.special.stdtr(len(values) - 2, -abs(t))),
    )


def t_of_slope(values: Sequence[float], *, rho: float) -> float:
    """Slope over its standard error, after Prais and Winsten's transformation, which makes the errors independent."""
    rows = np.array([np.ones(len(values)), np.arange(len(values)), values])
    rows[:, 1:] -= rho * rows[:, :-1]
    rows[:, 0] *= math.sqrt(1 - rho**2)
    ones = rows[0]
    # Both orthogonal to the ones, so that the slope is one quotient.
    times, heights = rows[1:] - np.outer(rows[1:] @ ones / (ones @ ones), ones)
    spread = times @ times
    slope = float(times @ heights / spread)
    if (squares := float(np.square(heights - slope * times).sum())) == 0:
        return math.copysign(math.inf, slope) if slope else 0.0
    return slope / math.sqrt(squares / (len(values) - 2) / spread)


# --- two speeds -------------------------------------------------------------------------------------------------------
#
# Windows are split into the two groups that explain most of the variance; the ratio of the variance between and within
# the groups is tested against that of one normal distribution (L. Engelman and J. A. Hartigan, "Percentage points of a
# test for clusters", J. Am. Stat. Assoc. 64, 1969). Hartigan's dip test asks for less, any two humps; its one
# implementation for Python is under the GPL, which the images of gpubench cannot carry.
#
# A small p is not enough to bother anybody. The groups must lie apart by 2 % of the time of a step, and cleanly:
# Ashman's D, their distance over their common standard deviation (K. M. Ashman, C. M. Bird and S. E. Zepf, "Detecting
# bimodality in astronomical datasets", Astron. J. 108, 1994), is 2 where two humps begin to show, and 6 is wanted here.

#: Of the windows; a smaller group is one of outliers.
SHARE_MIN = 0.3
RATIO_MIN = 1.02
#: With fewer no two groups are told apart; a run that may end early must not end before (`stopping_rule.enough`).
SPEEDS_WINDOWS_MIN = 12
_APART_MIN = 6.0  # Ashman's D
_CHANGES_MIN = 2
_STAY_MIN = 3  # windows before and after a change of speed
_SPEEDS_LEVEL = 0.001


def two_speeds(values: Sequence[float]) -> Bimodal | None:
    """The two speeds that a series of positive times went to and fro between; None where it did not.

    The split is by size. Neither group may be rare, for rare slow windows are pauses; and the run must have been in one
    of them at least twice, for one step up or down is a `shift`.
    """
    if len(values) < SPEEDS_WINDOWS_MIN:
        return None
    ordered = sorted(values)
    fast = _split(ordered, smallest=math.ceil(SHARE_MIN * len(values)))
    low, high = ordered[:fast], ordered[fast:]
    found = Bimodal(ratio=fmean(high) / fmean(low), share=len(high) / len(values))
    changes = sum((one < high[0]) != (next_one < high[0]) for one, next_one in itertools.pairwise(values))
    return found if _apart(low, high) and found.ratio >= RATIO_MIN and changes >= _CHANGES_MIN else None


def shift(values: Sequence[float]) -> float | None:
    """By what share the times became longer (or shorter, below 0) at one moment and stayed so; None where they did not.

    The same test on the best split in time. It is strict there: of all splits in two, the one by size has the largest
    ratio of variances. On both sides the times stay where they are: each side's own standard deviation is a sixth of
    the step at most. A transient that fades is therefore none, wherever it is split.
    """
    if len(values) < SPEEDS_WINDOWS_MIN:
        return None
    at = _split(values, smallest=_STAY_MIN)
    before, after = values[:at], values[at:]
    reach = abs(fmean(before) - fmean(after)) / _APART_MIN
    flat = all(math.sqrt(_squares(side) / (len(side) - 1)) < reach for side in (before, after))
    change = fmean(after) / fmean(before) - 1
    return change if flat and _apart(before, after) and abs(change) >= RATIO_MIN - 1 else None


def _split(values: Sequence[float], *, smallest: int) -> int:
    """How many of the values are in the first group: where least is left within the two."""
    mean, count = fmean(values), len(values)
    sums = list(itertools.accumulate(value - mean for value in values))  # that of all is 0
    # What is not within the groups is between them: sum^2 / k + sum^2 / (n - k).
    return max(range(smallest, count - smallest + 1), key=lambda at: sums[at - 1] ** 2 / (at * (count - at)))


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:  # unlike one group, and cleanly apart
    count, distance = len(one) + len(other), abs(fmean(one) - fmean(other))
    within, between = _squares(one) + _squares(other), distance**2 * len(one) * len(other) / count
    return distance > _APART_MIN * math.sqrt(within / (count - 2)) and between > within * clusters_limit(count)


def clusters_limit(count: int, *, level: float = _SPEEDS_LEVEL) -> float:
    """Of the ratio between over within, for one normal distribution.

    The logarithm of one plus the ratio is about normal with mean -log(1 - 2 / pi) + 2.4 / (n - 2) and variance
    1 / (n - 2) (J. A. Hartigan, "Clustering Algorithms", 1975, chapter 4).
    """
    mean = -math.log(1 - 2 / math.pi) + 2.4 / (count - 2)
    return math.expm1(mean + float(scipy.special.ndtri(1 - level)) / math.sqrt(count - 2))


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values)


# --- the steady state -------------------------------------------------------------------------------------------------

#: Chance brings about a drift with such a p, *and* a truncation at the bound, in less than one run of a hundred; where
#: the drift is looked for in nearly the same few windows as the truncation, they come together more often.
_DRIFT_LEVEL, _DRIFT_LEVEL_OF_FEW = 0.01, 0.002
#: In robust standard deviations. At the usual 3.5 one slow window among the first is still worth leaving out to MSER,
#: with all before it: what is slow now and then would be missing from the figures.
_DRAWN_IN = 2.0


class Steady(NamedTuple):
    """What was found in a series of windows."""

    first: int  # index of the first window that counts; 0 if the run never settled
    settled: bool
    change: float  # of the time of a step along the counted windows, relative; over all windows if it never settled


def detect(step_seconds: Sequence[float]) -> Steady:
    """The steady state of one run.

    A run never settled if all that may be left out would be *and* the rest still drifts, by 1 % or more and beyond
    chance. The first alone happens to noise too: to one series of 20 independent windows in twenty, to one in four
    where they are correlated by 0.9.
    """
    if len(step_seconds) < WINDOWS_MIN:
        return Steady(first=0, settled=True, change=0.0)
    bound = len(step_seconds) // 2
    if (first := first_counted(transient(step_seconds), windows=len(step_seconds))) == bound:
        few = len(step_seconds) - bound < DRIFT_WINDOWS_MIN
        found = drift(step_seconds[-DRIFT_WINDOWS_MIN:] if few else step_seconds[bound:])
        if found.p < (_DRIFT_LEVEL_OF_FEW if few else _DRIFT_LEVEL) and abs(found.change) >= CHANGE_MIN:
            return Steady(first=0, settled=False, change=drift(step_seconds).change)
    return Steady(first=first, settled=True, change=drift(step_seconds[first:]).change)


def transient(step_seconds: Sequence[float]) -> int:
    """How many windows MSER leaves out, at most half of them.

    What looks steady only near the end of a series is not known to be. Outliers are drawn in first, or one late pause
    would make everything before it "warm-up".
    """
    return mser(clipped(step_seconds, _DRAWN_IN), bound=len(step_seconds) // 2)


def first_counted(truncation: int, *, windows: int) -> int:
    """The first window that counts of so many: half as many again are left out, but never more than half of all.

    MSER leaves a little of the transient in wherever that makes the mean of *one* run better. But what is left is the
    same in every run, and no number of repeats averages it away.
    """
    return min(truncation + math.ceil(truncation / 2), windows // 2)


def mser(values: Sequence[float], *, bound: int) -> int:
    """How many values to leave out, at most `bound`: argmin over d of sum_{i >= d} (y_i - mean)^2 / (n - d)^2.

    MSER-m (K. P. White, "An effective truncation heuristic for bias reduction in simulation output", Simulation 69,
    1997; K. P. White, M. J. Cobb and S. C. Spratt, "A comparison of five steady-state truncation heuristics for
    simulation", Winter Simulation Conference 2000); a window of m steps is the batch of m that the method wants. Of
    equally good ones the smallest.
    """
    best, least = 0, math.inf
    count, total, squares = 0, 0.0, 0.0
    centre = values[-1]  # sums of differences from it: equal values give exactly 0
    for d in range(len(values) - 1, -1, -1):
        value = values[d] - centre
        count, total, squares = count + 1, total + value, squares + value**2
        if d <= bound and (badness := (squares - total**2 / count) / count**2) <= least:
            best, least = d, badness
    return best


# --- notices ----------------------------------------------------------------------------------------------------------

#: Stricter than one in a hundred: the correlation of a short series is known too badly for such a p to be exact.
_TREND_LEVEL = 0.001
#: A pause makes a window at least so many times as long as the median.
PAUSE_MIN = 1.5
#: A slow rank that costs less is not named.
STRAGGLER_COST_MIN = 0.02
_ROUNDS_MIN = 5
_STRAGGLER_CONFIDENCE = 0.95


def notices(step_seconds: Sequence[float]) -> tuple[Notice, ...]:
    """What the reader of a run's figure must know of its windows after the declared warm-up: nothing, or one thing.

    Each is named where it is beyond chance *and* large enough to matter, and only where those before it do not hold:

    1. Unsettled: the run has no steady state, and nothing else can be said of it.
    2. Trend: a step of 2 % or more, up or down (`shift`), as of a card that begins to throttle: among the counted
       windows, or among all. A step in the first half is where the steady state begins, and the figure is that of the
       later speed alone; a transient that fades is no step, and not named.
    3. Bimodal (`two_speeds`): two groups of windows, each three tenths of all or more, to and fro.
    4. Trend: a straight line of 1 % or more over the counted windows (`drift`). After Bimodal, because a few long
       visits to a second speed may lean to one side.
    5. Outliers: fewer than three tenths of the windows, each half as long again as the median or longer. What is
       shorter is how steps scatter: one step in a hundred that takes some times as long is noise of every machine, and
       it is in the figure.
    """
    steady = detect(step_seconds)
    if not steady.settled:
        return (Unsettled(change=steady.change),)
    counted = step_seconds[steady.first :]
    if (change := shift(counted)) is not None or (change := shift(step_seconds)) is not None:
        return (Trend(change=change),)
    if (speeds := two_speeds(counted)) is not None:
        return (speeds,)
    line = drift(counted)
    if line.p < _TREND_LEVEL and abs(line.change) >= CHANGE_MIN:
        return (Trend(change=line.change),)
    return () if (pauses := _pauses(counted)) is None else (pauses,)


def _pauses(counted: Sequence[float]) -> Outliers | None:
    if len(counted) < WINDOWS_MIN:
        return None
    median = statistics.median(counted)
    standing_out = [
        value
        for value, score in zip(counted, outlier_scores(counted), strict=True)
        if score > OUTLIER_LIMIT and value >= PAUSE_MIN * median
    ]
    if not 0 < len(standing_out) < SHARE_MIN * len(counted):
        return None
    return Outliers(count=len(standing_out), windows=len(counted), worst=max(standing_out) / median)


def straggler(compute_seconds: Sequence[Sequence[float]]) -> Straggler | None:
    """The rank that the others wait for, from [rank][round]: seconds of computing alone, without any communication.

    Its cost in a round is its time over the median of the other ranks'. It is named where the 95 % interval of the mean
    cost lies above 2 %: one-sided, correlation of the rounds taken into account, and at such a level that *any* of the
    ranks is wrongly named in one run of twenty at most (C. E. Bonferroni, 1936), as the slowest of many is always slow.
    Must not happen: a single pause that makes its rank a straggler; it widens the interval.
    """
    if (ranks := len(compute_seconds)) < 2 or (rounds := min(map(len, compute_seconds))) < _ROUNDS_MIN:
        return None
    if any(time <= 0 for times in compute_seconds for time in times[:rounds]):
        return None  # too short for the clock that took them
    rank = max(range(ranks), key=lambda candidate: statistics.median(compute_seconds[candidate][:rounds]))
    others = [times for other, times in enumerate(compute_seconds) if other != rank]
    costs = [compute_seconds[rank][at] / statistics.median(times[at] for times in others) - 1 for at in range(rounds)]
    cost = fmean(costs)
    t = float(scipy.special.stdtrit(rounds - 1, 1 - (1 - _STRAGGLER_CONFIDENCE) / ranks))
    return Straggler(rank=rank, cost=cost) if cost - t * error_of_mean(costs, errors=1) > STRAGGLER_COST_MIN else None
