# SPDX-License-Identifier: Apache-2.0
"""When one run is long enough: its steady state is known, and its mean is as exact as is wanted.

The error is that of *this run's* mean: how another run would differ is for `intervals`, over fresh runs. Must not
happen: a run that ends while it still warms up, because its first windows happen to lie close together, or before it
can be told whether it has two speeds.
"""

from collections.abc import Sequence

from gpubench.stats import autocorrelation, outliers, speeds, steady

#: Fewer counted windows do not show how large their own error is, nor whether they are of two kinds.
COUNTED_MIN = speeds.VALUES_MIN
#: Of the windows. Where more stand out they are no single pauses but a part of how the run goes, and of its error.
_DRAWN_IN_MAX = 0.1


def standard_error(step_seconds: Sequence[float]) -> float | None:
    """Relative standard error of the mean of these windows, their correlation taken into account.

    For the windows that count, from the first steady one on. None where they are fewer than five.
    """
    if len(step_seconds) < steady.WINDOWS_MIN:
        return None
    return autocorrelation.error_of_mean(step_seconds) * len(step_seconds) / sum(step_seconds)


def enough(step_seconds: Sequence[float], *, wanted: float) -> bool:
    """Whether the run may end: the transient is over, enough windows count, and their error is small enough.

    The error here is that of the windows with outliers drawn in, as long as these are one in ten at most. A run that
    happened to have no slow steps yet would otherwise end sooner than others, and slow steps would be missing from the
    figures of many runs.
    """
    if len(step_seconds) < COUNTED_MIN:
        return False
    transient = steady.transient(step_seconds)
    counted = step_seconds[steady.first_counted(transient, windows=len(step_seconds)) :]
    if transient == len(step_seconds) // 2 or len(counted) < COUNTED_MIN:
        return False
    error = standard_error(_with_pauses_drawn_in(counted))
    return error is not None and error <= wanted


def _with_pauses_drawn_in(counted: Sequence[float]) -> Sequence[float]:
    """The windows, single ones that stand out drawn in; as they are where many do."""
    drawn_in = outliers.clipped(counted)
    moved = sum(one != other for one, other in zip(counted, drawn_in, strict=True))
    return drawn_in if moved <= _DRAWN_IN_MAX * len(counted) else counted
