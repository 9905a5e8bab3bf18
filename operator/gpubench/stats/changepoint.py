# SPDX-License-Identifier: Apache-2.0
"""Where the level of a series has changed: the maximal two-sample t statistic, looked at after each new value.

With neither level nor scatter known, the likelihood ratio test of one change is the largest of the two-sample t
statistics over all places at which the series can be divided (K. J. Worsley, J. Am. Stat. Assoc. 74, 1979). Looking
anew after each value is the change-point model of D. M. Hawkins, P. Qiu and C. W. Kang (J. Quality Technology 35,
2003). Several changes are found by dividing again what was divided (A. J. Scott and M. Knott, Biometrics 30, 1974).

The error of one look is bounded by Bonferroni's inequality over the places, that of many looks by the sum over the
looks: with `ALPHA` a look, half of it for each direction, at most 20 x 0.0025 = 5 % of series of 20 values without a
change ever show a slowdown, for normal scatter; what really comes out is in tests/benchmarks/README.md. A change needs
two values at its new level, so that a single bad run is none. Speeds are compared as logarithms: their scatter is a
share of the speed.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import special

#: Of one look at one series, for a change in either direction.
ALPHA = 0.005
#: Values that a level must have, and a series before it is divided.
LEVEL_MIN = 2
SERIES_MIN = 6
#: Relative scatter below which values are as good as equal: rounding of binary fractions, not a machine.
_ROUNDING = 1e-9


class Level(NamedTuple):
    """A stretch of a series without a change: values `begin` to `end`, the last one left out."""

    begin: int
    end: int
    mean: float  # geometric


def levels(speeds: Sequence[float], *, alpha: float = ALPHA) -> tuple[Level, ...]:
    """The levels of a series of positive speeds, one where nothing has changed; none of an empty one."""
    if not speeds:
        return ()
    logarithms = [math.log(speed) for speed in speeds]
    bounds = [0, *_divided(logarithms, 0, len(logarithms), alpha), len(logarithms)]
    return tuple(
        Level(begin, end, math.exp(math.fsum(logarithms[begin:end]) / (end - begin)))
        for begin, end in itertools.pairwise(bounds)
    )


def _divided(values: Sequence[float], begin: int, end: int, alpha: float) -> list[int]:
    """Where new levels begin between `begin` and `end`."""
    if end - begin < SERIES_MIN:
        return []
    at, error = _likeliest(values[begin:end])
    if error > alpha:
        return []
    middle = begin + at
    return [*_divided(values, begin, middle, alpha), middle, *_divided(values, middle, end, alpha)]


def _likeliest(values: Sequence[float]) -> tuple[int, float]:
    """The place of the largest t, with the bound of the two-sided error of finding one as large anywhere."""
    count = len(values)
    middle = math.fsum(values) / count
    away = [value - middle for value in values]
    sums = list(itertools.accumulate(away))
    squares = math.fsum(value * value for value in away)
    places = range(LEVEL_MIN, count - LEVEL_MIN + 1)
    largest, at = max((abs(_t(sums[place - 1], place, count=count, squares=squares)), place) for place in places)
    # stdtr(v, -t) is the upper tail of Student's t.
    return at, 2 * len(places) * float(special.stdtr(count - 2, -largest))


def _t(before: float, at: int, *, count: int, squares: float) -> float:
    """Student's two-sample t with a common variance, of the values from `at` on against those before.

    Of values whose sum is 0: `before` is the sum of the first ones, `squares` that of all squares.
    """
    means = (before / at, -before / (count - at))
    within = max(0.0, squares - at * means[0] ** 2 - (count - at) * means[1] ** 2)
    deviation = max(math.sqrt(within / (count - 2)), _ROUNDING)
    return (means[1] - means[0]) / (deviation * math.sqrt(1 / at + 1 / (count - at)))
