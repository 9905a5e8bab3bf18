# SPDX-License-Identifier: Apache-2.0
"""Whether a run had two speeds: to and fro between them, or one after the other.

The windows are split by size into the two groups that explain most of the variance; the ratio of the variance between
and within the groups is tested against that of one normal distribution (L. Engelman and J. A. Hartigan, "Percentage
points of a test for clusters", J. Am. Stat. Assoc. 64, 1969). Hartigan's dip test asks for less, any two humps; its one
implementation for Python is under the GPL, which the images of gpubench cannot carry.

A small p is not enough to bother anybody. The groups must lie apart by 2 % of the time of a step, and cleanly:
Ashman's D, their distance over their common standard deviation (K. M. Ashman, C. M. Bird and S. E. Zepf, "Detecting
bimodality in astronomical datasets", Astron. J. 108, 1994), is 2 where two humps begin to show, and 6 is wanted here.
Neither may be rare, for rare slow windows are pauses; and the run must have been in one of them at least twice, for
one step up or down is a `shift`, a trend. On both sides of a shift the times stay where they are: each side's own
standard deviation is a sixth of the step at most. A transient that fades is therefore none, wherever it is split.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

#: Of the windows; a smaller group is one of outliers.
SHARE_MIN = 0.3
RATIO_MIN = 1.02
_APART_MIN = 6.0  # Ashman's D
_CHANGES_MIN = 2
#: With fewer no two groups are told apart; a run that may end early must not end before (`run_length`).
VALUES_MIN = 12
_STAY_MIN = 3  # windows before and after a change of speed
_LEVEL = 0.001


class Speeds(NamedTuple):
    """Two groups of windows."""

    ratio: float  # mean time of the slow group over that of the fast one
    share: float  # of the windows, in the slow group


def two(values: Sequence[float]) -> Speeds | None:
    """The two speeds that a series of positive times went to and fro between; None where it did not."""
    if len(values) < VALUES_MIN:
        return None
    ordered = sorted(values)
    fast = _split(ordered, smallest=math.ceil(SHARE_MIN * len(values)))
    low, high = ordered[:fast], ordered[fast:]
    found = Speeds(ratio=_mean(high) / _mean(low), share=len(high) / len(values))
    changes = sum((one < high[0]) != (next_one < high[0]) for one, next_one in itertools.pairwise(values))
    return found if _apart(low, high) and found.ratio >= RATIO_MIN and changes >= _CHANGES_MIN else None


def shift(values: Sequence[float]) -> float | None:
    """By what share the times became longer (or shorter, below 0) at one moment and stayed so; None where they did not.

    The same test on the best split in time. It is strict there: of all splits in two, the one by size has the largest
    ratio of variances.
    """
    if len(values) < VALUES_MIN:
        return None
    at = _split(values, smallest=_STAY_MIN)
    before, after = values[:at], values[at:]
    change = _mean(after) / _mean(before) - 1
    return change if _apart(before, after) and _flat(before, after) and abs(change) >= RATIO_MIN - 1 else None


def _split(values: Sequence[float], *, smallest: int) -> int:
    """How many of the values are in the first group: where least is left within the two."""
    mean, count = _mean(values), len(values)
    sums = list(itertools.accumulate(value - mean for value in values))  # that of all is 0
    # What is not within the groups is between them: sum^2 / k + sum^2 / (n - k).
    return max(range(smallest, count - smallest + 1), key=lambda at: sums[at - 1] ** 2 / (at * (count - at)))


def _apart(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two groups are unlike one, and cleanly apart."""
    count, distance = len(one) + len(other), abs(_mean(one) - _mean(other))
    within = _squares(one) + _squares(other)
    between = distance**2 * len(one) * len(other) / count
    return distance > _APART_MIN * math.sqrt(within / (count - 2)) and between > within * clusters_limit(count)


def _flat(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether each side is itself level, compared with the step between them."""
    reach = abs(_mean(before) - _mean(after)) / _APART_MIN
    return all(math.sqrt(_squares(side) / (len(side) - 1)) < reach for side in (before, after))


def clusters_limit(count: int, *, level: float = _LEVEL) -> float:
    """Of the ratio between over within, for one normal distribution.

    The logarithm of one plus the ratio is about normal with mean -log(1 - 2 / pi) + 2.4 / (n - 2) and variance
    1 / (n - 2) (J. A. Hartigan, "Clustering Algorithms", 1975, chapter 4).
    """
    mean = -math.log(1 - 2 / math.pi) + 2.4 / (count - 2)
    return math.expm1(mean + float(special.ndtri(1 - level)) / math.sqrt(count - 2))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)
