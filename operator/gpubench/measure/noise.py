# SPDX-License-Identifier: Apache-2.0
"""How much a machine scatters, and the smallest difference that can be told in spite of it.

Scatter is the coefficient of variation c over fresh runs; for values that are about normal, (n - 1) c^2 follows the
chi-squared distribution nearly enough for small c (A. T. McKay, "Distribution of the coefficient of variation and the
extended t distribution", J. R. Stat. Soc. 95, 1932). It needs at least 3 runs, as every interval here does.
"""

import math
from collections.abc import Sequence

from scipy import special

from gpubench.measure import intervals
from gpubench.measure.intervals import Interval


def variation(values: Sequence[float]) -> float:
    """The coefficient of variation of two or more values: their standard deviation over their mean."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)) / abs(mean)


def of_runs(values: Sequence[float]) -> Interval:
    """The coefficient of variation of two or more fresh runs with its 95 % interval; without bounds below three."""
    found = variation(values)
    freedom = len(values) - 1
    if len(values) < intervals.REPEATS_FOR_INTERVAL:
        return Interval(mean=found)
    tail = (1 - intervals.CONFIDENCE) / 2
    # chdtri(v, p) is the value that is exceeded with probability p.
    low, high = (found * math.sqrt(freedom / special.chdtri(freedom, p)) for p in (tail, 1 - tail))
    return Interval(mean=found, low=float(low), high=float(high))


def smallest_difference(scatter: float, *, repeats: int) -> float:
    """The half width of the interval of a ratio near 1, both points having so many repeats and that scatter.

    t(0.975, 2 n - 2) c sqrt(2 / n): a difference as large is told every other time, one twice as large nearly always
    (98 times out of 100, by the noncentral t distribution).
    """
    t = float(special.stdtrit(2 * repeats - 2, (1 + intervals.CONFIDENCE) / 2))
    return t * scatter * math.sqrt(2 / repeats)
