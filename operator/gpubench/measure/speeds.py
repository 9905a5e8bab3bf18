# SPDX-License-Identifier: Apache-2.0
"""Whether a run went to and fro between two speeds.

The windows are split in two at the place between which and no other the two groups explain most of the variance; the
ratio of the variance between and within the groups is tested against that of one normal distribution (L. Engelman and
J. A. Hartigan, "Percentage points of a test for clusters", J. Am. Stat. Assoc. 64, 1969). Hartigan's dip test asks for
less, any two humps; its one implementation for Python is under the GPL, which the images of gpubench cannot carry.

A small p is not enough to bother anybody. The groups must lie apart by 2 % of the time of a step, and cleanly:
Ashman's D, their distance over their common standard deviation (K. M. Ashman, C. M. Bird and S. E. Zepf, "Detecting
bimodality in astronomical datasets", Astron. J. 108, 1994), is 2 where two humps begin to show, and 6 is wanted here.
Neither may be rare, for rare slow windows are pauses; and the run must have been in one of them at least twice, for a
single step up or down is a trend.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

#: Of the windows; a smaller group is one of outliers.
SHARE_MIN = 0.2
RATIO_MIN = 1.02
_APART_MIN = 6.0  # Ashman's D
_CHANGES_MIN = 2
_VALUES_MIN = 10
_LEVEL = 0.001


class Speeds(NamedTuple):
    """Two groups of windows."""

    ratio: float  # mean time of the slow group over that of the fast one
    share: float  # of the windows, in the slow group


def two(values: Sequence[float]) -> Speeds | None:
    """The two speeds of a series of positive times; None where it has one."""
    if len(values) < _VALUES_MIN:
        return None
    ordered = sorted(values)
    fast = _split(ordered)
    low, high = ordered[:fast], ordered[fast:]
    found = Speeds(ratio=_mean(high) / _mean(low), share=len(high) / len(values))
    within = _squares(low) + _squares(high)
    between = _squares(ordered) - within
    changes = sum((one < high[0]) != (next_one < high[0]) for one, next_one in itertools.pairwise(values))
    apart = (_mean(high) - _mean(low)) > _APART_MIN * math.sqrt(within / (len(values) - 2))
    unlike_one_group = between > within * _limit(len(values))
    return found if apart and unlike_one_group and found.ratio >= RATIO_MIN and changes >= _CHANGES_MIN else None


def _split(ordered: Sequence[float]) -> int:
    """How many of the ordered values are in the lower group: where least is left within, and no group is rare."""
    rare = math.ceil(SHARE_MIN * len(ordered))
    return min(range(rare, len(ordered) - rare + 1), key=lambda at: _squares(ordered[:at]) + _squares(ordered[at:]))


def _limit(count: int) -> float:
    """Of the ratio between over within, for one normal distribution.

    The logarithm of one plus the ratio is about normal with mean -log(1 - 2 / pi) + 2.4 / (n - 2) and variance
    1 / (n - 2) (J. A. Hartigan, "Clustering Algorithms", 1975, chapter 4).
    """
    mean = -math.log(1 - 2 / math.pi) + 2.4 / (count - 2)
    return math.expm1(mean + float(special.ndtri(1 - _LEVEL)) / math.sqrt(count - 2))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)
