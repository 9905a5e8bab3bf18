# SPDX-License-Identifier: Apache-2.0
"""From which window on a run is in its steady state, and whether it ever is.

MSER-m: the first windows are left out up to where the standard error of the mean of the rest, taken as if they were
independent, is smallest (K. P. White, "An effective truncation heuristic for bias reduction in simulation output",
Simulation 69, 1997; K. P. White, M. J. Cobb and S. C. Spratt, "A comparison of five steady-state truncation heuristics
for simulation", Winter Simulation Conference 2000). A window of m steps is the batch of m that the method wants. As
these authors do, at most half of the series is left out: what looks steady only near its end is not known to be.

Two things are added. Outliers are drawn in first, or one late pause would make everything before it "warm-up". And half
as many windows again are left out as MSER says: it leaves a little of the transient in wherever that makes the mean of
*one* run better, but what is left is the same in every run, and no number of repeats averages it away.

A run never settled if all that may be left out would be *and* the rest still drifts, by 1 % or more and beyond chance
(`drift`). The first alone happens to noise too: to one series of 20 independent windows in twenty, to one in four where
they are correlated by 0.9.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpubench.stats import drift, outliers

#: With fewer nothing can be told: they are taken as they are.
WINDOWS_MIN = 5
#: A smaller change of the time of a step over the counted half is no reason to call a run unsettled.
CHANGE_MIN = 0.01
#: Chance brings about a drift with such a p, *and* a truncation at the bound, in less than one run of a hundred; where
#: the drift is looked for in nearly the same few windows as the truncation, they come together more often.
_LEVEL, _LEVEL_OF_FEW = 0.01, 0.002

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

    One entry per window after the declared warm-up: seconds per step, of the slowest rank.
    """
    if len(step_seconds) < WINDOWS_MIN:
        return Steady(first=0, settled=True, change=0.0)
    bound = len(step_seconds) // 2
    first = first_counted(transient(step_seconds), windows=len(step_seconds))
    if first == bound and _drifts(step_seconds, bound=bound):
        return Steady(first=0, settled=False, change=drift.of(step_seconds).change)
    return Steady(first=first, settled=True, change=drift.of(step_seconds[first:]).change)


def transient(step_seconds: Sequence[float]) -> int:
    """How many windows MSER leaves out, at most half of them."""
    return mser(outliers.clipped(step_seconds, _DRAWN_IN), bound=len(step_seconds) // 2)


def first_counted(truncation: int, *, windows: int) -> int:
    """The first window that counts of so many: half as many again are left out, but never more than half of all."""
    return min(truncation + math.ceil(truncation / 2), windows // 2)


def mser(values: Sequence[float], *, bound: int) -> int:
    """How many values to leave out, at most `bound`: argmin over d of sum_{i >= d} (y_i - mean)^2 / (n - d)^2.

    Of equally good ones the smallest.
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


def _drifts(step_seconds: Sequence[float], *, bound: int) -> bool:
    few = len(step_seconds) - bound < drift.VALUES_MIN
    found = drift.of(step_seconds[-drift.VALUES_MIN :] if few else step_seconds[bound:])
    return found.p < (_LEVEL_OF_FEW if few else _LEVEL) and abs(found.change) >= CHANGE_MIN
