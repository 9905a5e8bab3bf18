# SPDX-License-Identifier: Apache-2.0
"""How many fresh runs a point needs, when that is decided while they come in, and the interval that is then true.

Another run is made until the interval over runs is as narrow as the rule wants, or a maximum is reached. Looking after
each run whether one may stop stops too early just where runs happen to lie close together: of nominal 95 % intervals
fewer hold the truth (N. Starr, Ann. Math. Stat. 37, 1966). So the rule is the purely sequential one of Y. S. Chow and
H. Robbins (Ann. Math. Stat. 36, 1965), with Student's t and with a stricter confidence both inside the rule and in the
printed interval, such that the interval holds the truth at least as often as it says, whatever the spread of the runs
is. How much stricter is in a table below: of normally distributed runs the mean is independent of all that the rule
looks at, so coverage can be computed to four digits by simulating the variances alone. tests/support/sequential.py does
it, prints the table, and tests/core/test_stopping.py checks it.

Runs that are all equal are no knowledge of their spread: seconds that a program rounds, not a machine without noise.
They have no interval, and more are asked for up to the maximum.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from gpubench.stats import intervals, steady_state
from gpubench.values import Interval

#: By confidence and first runs, printed by tests/support/sequential.py; rounded down, which is the strict side.
_STRICTNESS = {
    0.8: {3: 0.60, 4: 0.69, 5: 0.74, 6: 0.78, 8: 0.82, 10: 0.86},
    0.9: {3: 0.50, 4: 0.59, 5: 0.65, 6: 0.69, 8: 0.75, 10: 0.79},
    0.95: {3: 0.42, 4: 0.51, 5: 0.57, 6: 0.62, 8: 0.69, 10: 0.73},
    0.99: {3: 0.31, 4: 0.38, 5: 0.44, 6: 0.48, 8: 0.56, 10: 0.63},
    0.999: {3: 0.24, 4: 0.28, 5: 0.31, 6: 0.37, 8: 0.45, 10: 0.52},
}


@dataclass(frozen=True, kw_only=True)
class StoppingRule:
    """When a point has been measured often enough."""

    relative_half_width: float  # of the interval, as a share of the mean
    confidence: float = intervals.CONFIDENCE
    first: int  # runs before anything is decided
    last: int  # runs at most
    strict: float | None = None  # the corrected confidence, where it was settled before: else it is computed

    @property
    def adaptive(self) -> bool:
        return self.last > max(self.first, intervals.REPEATS_FOR_INTERVAL)


def another(values: Sequence[float], rule: StoppingRule) -> bool:
    if len(values) < rule.first:
        return True
    if len(values) >= rule.last:
        return False
    found = interval(values, rule)
    if found.low is None or found.high is None:
        return True
    return found.high - found.low > 2 * rule.relative_half_width * abs(found.mean)


def interval(values: Sequence[float], rule: StoppingRule) -> Interval:
    """The interval of runs that were ended by `another`, at least as sure as wanted; none where all are equal."""
    if values and min(values) == max(values):
        return Interval(mean=values[0])
    return intervals.of_mean(values, confidence=confidence(rule))


def confidence(rule: StoppingRule) -> float:
    """At which intervals of such runs must be computed to be as sure as wanted; also that of a ratio."""
    if rule.strict is not None:
        return rule.strict
    return 1 - (1 - rule.confidence) * _strictness(rule) if rule.adaptive else rule.confidence


def run_error(rule: StoppingRule) -> float:
    """The relative standard error that a single run should reach with its own windows.

    As large as the wanted half-width is enough: where runs scatter more, more windows in a run make nothing narrower;
    where they scatter less, some ten runs would do even if this error were all. Half of it made figures no cheaper
    (tests/benchmarks/interval_coverage.py).
    """
    return rule.relative_half_width


def _strictness(rule: StoppingRule) -> float:
    """By what the probability of missing the truth must be multiplied. Between rows and columns the stricter one."""
    rows = _STRICTNESS[min((level for level in _STRICTNESS if level >= rule.confidence), default=max(_STRICTNESS))]
    return rows[max(first for first in rows if first <= max(rule.first, intervals.REPEATS_FOR_INTERVAL))]


# --- one run ----------------------------------------------------------------------------------------------------------

#: Fewer counted windows do not show how large their own error is, nor whether they are of two kinds.
COUNTED_MIN = steady_state.SPEEDS_WINDOWS_MIN
#: Of the windows. Where more stand out they are no single pauses but a part of how the run goes, and of its error.
_DRAWN_IN_MAX = 0.1


def standard_error(step_seconds: Sequence[float]) -> float | None:
    """Relative standard error of the mean of these windows, their correlation taken into account.

    For the windows that count, from the first steady one on. It is the error of this run's mean alone: how another run
    would differ is for `intervals`, over fresh runs. None where they are fewer than five.
    """
    if len(step_seconds) < steady_state.WINDOWS_MIN:
        return None
    return steady_state.error_of_mean(step_seconds) * len(step_seconds) / sum(step_seconds)


def enough(step_seconds: Sequence[float], *, wanted: float) -> bool:
    """Whether the run may end: the transient is over, enough windows count, and their error is small enough.

    The error here is that of the windows with outliers drawn in, as long as these are one in ten at most. A run that
    happened to have no slow steps yet would otherwise end sooner than others, and slow steps would be missing from the
    figures of many runs. Must not happen: a run that ends while it still warms up, because its first windows happen to
    lie close together, or before it can be known whether it has two speeds.
    """
    if len(step_seconds) < COUNTED_MIN:
        return False
    transient = steady_state.transient(step_seconds)
    counted = step_seconds[steady_state.first_counted(transient, windows=len(step_seconds)) :]
    if transient == len(step_seconds) // 2 or len(counted) < COUNTED_MIN:
        return False
    drawn_in = steady_state.clipped(counted)
    moved = sum(map(operator.ne, counted, drawn_in))
    error = standard_error(drawn_in if moved <= _DRAWN_IN_MAX * len(counted) else counted)
    return error is not None and error <= wanted
