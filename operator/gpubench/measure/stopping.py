# SPDX-License-Identifier: Apache-2.0
"""How many fresh runs a point needs, when that is decided while they come in, and the interval that is then true.

Another run is made until the interval over runs is as narrow as wanted, or a maximum is reached. Looking after each run
whether one may stop stops too early in just those studies whose runs happen to lie close together: their intervals are
too narrow, and of nominal 95 % intervals fewer hold the truth (N. Starr, "The performance of a sequential procedure for
the fixed-width interval estimation of the mean", Ann. Math. Stat. 37, 1966). C. Stein's two stages (Ann. Math. Stat.
16, 1945) are exact and waste runs when the first stage has only three. So the rule here is the purely sequential one of
Y. S. Chow and H. Robbins (Ann. Math. Stat. 36, 1965), with Student's t instead of the normal quantile, and with a
stricter confidence both inside the rule and in the printed interval, such that the interval holds the truth at least as
often as it says, whatever the spread of the runs is. How much stricter is in a table below: of normally distributed
runs the mean is independent of all that the rule looks at, so coverage can be computed to four digits by simulating the
variances alone. tests/support/sequential.py does it, prints the table, and tests/core/test_stopping.py checks it.

Why Student's t and not the bootstrap: with three to ten runs the percentile bootstrap is a t interval with the wrong
quantile, sqrt((n - 1) / n) times the normal one, and covers far too seldom (T. C. Hesterberg, "What teachers should
know about the bootstrap", Am. Stat. 69, 2015). Means of many steps are close to normal, and three runs are too few to
show otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gpubench.measure import intervals
from gpubench.measure.intervals import CONFIDENCE, REPEATS_FOR_INTERVAL, Interval

#: The share of the wanted half-width that the error of a single run may have.
_SHARE_OF_RUN = 0.5
#: By confidence and first runs, written by tests/support/sequential.py; rounded down, which is the strict side.
_STRICTNESS = {
    0.8: {3: 0.61, 4: 0.69, 5: 0.75, 6: 0.78, 8: 0.83, 10: 0.86, 15: 0.90},
    0.9: {3: 0.51, 4: 0.59, 5: 0.66, 6: 0.70, 8: 0.76, 10: 0.80, 15: 0.86},
    0.95: {3: 0.43, 4: 0.52, 5: 0.58, 6: 0.63, 8: 0.70, 10: 0.74, 15: 0.82},
    0.99: {3: 0.32, 4: 0.39, 5: 0.44, 6: 0.50, 8: 0.58, 10: 0.64, 15: 0.73},
}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """When a point has been measured often enough."""

    relative_half_width: float  # of the interval, as a share of the mean
    confidence: float = CONFIDENCE
    first: int  # runs before anything is decided
    last: int  # runs at most

    @property
    def adaptive(self) -> bool:
        """Whether there is anything to decide."""
        return self.last > max(self.first, REPEATS_FOR_INTERVAL)


def another(values: Sequence[float], wanted: Wanted) -> bool:
    """Whether one more fresh run is needed."""
    if len(values) < wanted.first:
        return True
    if len(values) >= wanted.last:
        return False
    found = interval(values, wanted)
    if found.low is None or found.high is None:
        return True
    return found.high - found.low > 2 * wanted.relative_half_width * abs(found.mean)


def interval(values: Sequence[float], wanted: Wanted) -> Interval:
    """The interval of runs that were ended by `another`: at least as sure as wanted."""
    return intervals.of_mean(values, confidence=confidence(wanted))


def confidence(wanted: Wanted) -> float:
    """At which intervals of such runs must be computed to be as sure as wanted; also that of a ratio."""
    if not wanted.adaptive:
        return wanted.confidence
    return 1 - (1 - wanted.confidence) * _strictness(wanted)


def run_error(wanted: Wanted) -> float:
    """The relative standard error that a single run should reach with its own windows.

    The variance of a run's value is that between runs plus the square of this. Half of the wanted half-width is little
    beside it: where runs scatter more than that, more windows in a run make nothing narrower; where they do not, the
    first few runs are enough anyway. tests/benchmarks/statistics.py shows what other shares cost.
    """
    return _SHARE_OF_RUN * wanted.relative_half_width


def _strictness(wanted: Wanted) -> float:
    """By what the probability of missing the truth must be multiplied. Between rows and columns the stricter one."""
    column = min((level for level in _STRICTNESS if level >= wanted.confidence), default=max(_STRICTNESS))
    rows = _STRICTNESS[column]
    return rows[max(first for first in rows if first <= max(wanted.first, REPEATS_FOR_INTERVAL))]
