# SPDX-License-Identifier: Apache-2.0
"""What is odd about the windows of one run: the right notice, and no other.

At most one of these, in this order; each is only looked for where those before it do not hold:

1. Unsettled (`steady`): the run has no steady state, and nothing else can be said of it.
2. Trend: a step of 2 % or more, up or down (`speeds.shift`), as of a card that begins to throttle: among the counted
   windows, or among all after the declared warm-up. A step in the first half is where `steady` begins to count, and
   the figure is that of the later speed alone; a transient that fades is no step, and not named.
3. Bimodal (`speeds.two`): two groups of windows, each three tenths of all or more, to and fro.
4. Trend: a straight line of 1 % or more over the counted windows (`drift`). After Bimodal, because a few long visits to
   a second speed may lean to one side.
5. Outliers (`outliers`): fewer than three tenths of the windows, each half as long again as the median or longer. What
   is shorter is how steps scatter: one step in a hundred that takes some times as long is noise of every machine, and
   it is in the figure.

Each is named where it is beyond chance *and* large enough to matter; tests/core/test_diagnose.py counts how often pure
noise is accused. A straggler is found from other times, those of each rank's own computing.
"""

import math
import statistics
from collections.abc import Sequence

from scipy import special

from gpubench.records import Bimodal, Notice, Outliers, Straggler, Trend, Unsettled
from gpubench.stats import autocorrelation, drift, outliers, speeds, steady

#: Stricter than one in a hundred: the correlation of a short series is known too badly for such a p to be exact.
_TREND_LEVEL = 0.001
#: A pause makes a window at least so many times as long as the median.
PAUSE_MIN = 1.5
#: A slow rank that costs less is not named.
STRAGGLER_COST_MIN = 0.02
_ROUNDS_MIN = 5
_CONFIDENCE = 0.95


def notices(step_seconds: Sequence[float]) -> tuple[Notice, ...]:
    """What the reader of a run's figure must know of its windows after the declared warm-up: nothing, or one thing."""
    found = steady.detect(step_seconds)
    if not found.settled:
        return (Unsettled(change=found.change),)
    counted = step_seconds[found.first :]
    notice = _step(counted) or _step(step_seconds) or _two_speeds(counted) or _line(counted) or _pauses(counted)
    return () if notice is None else (notice,)


def _step(windows: Sequence[float]) -> Trend | None:
    found = speeds.shift(windows)
    return None if found is None else Trend(change=found)


def _two_speeds(counted: Sequence[float]) -> Bimodal | None:
    found = speeds.two(counted)
    return None if found is None else Bimodal(ratio=found.ratio, share=found.share)


def _line(counted: Sequence[float]) -> Trend | None:
    found = drift.of(counted)
    return Trend(change=found.change) if found.p < _TREND_LEVEL and abs(found.change) >= steady.CHANGE_MIN else None


def _pauses(counted: Sequence[float]) -> Outliers | None:
    if len(counted) < steady.WINDOWS_MIN:
        return None
    median = statistics.median(counted)
    standing_out = [
        value
        for value, score in zip(counted, outliers.scores(counted), strict=True)
        if score > outliers.LIMIT and value >= PAUSE_MIN * median
    ]
    if not 0 < len(standing_out) < speeds.SHARE_MIN * len(counted):
        return None
    return Outliers(count=len(standing_out), windows=len(counted), worst=max(standing_out) / median)


def straggler(compute_seconds: Sequence[Sequence[float]]) -> Straggler | None:
    """The rank that the others wait for, from [rank][round]: seconds of computing alone, without any communication.

    Its cost in a round is its time over the median of the other ranks'. It is named where the 95 % interval of the mean
    cost lies above 2 %: one-sided, correlation of the rounds taken into account, and at such a level that of *any* of
    the ranks is wrongly named in one run of twenty at most (C. E. Bonferroni, 1936), as the slowest of many is
    always slow. Where the times of equal ranks wander slowly and widely (by 10 %, with a correlation of 0.9 from round
    to round) it names one more often: that one was slower while it was looked at. Must not happen: a single pause that
    makes its rank a straggler; it widens the interval.
    """
    ranks, rounds = len(compute_seconds), min((len(times) for times in compute_seconds), default=0)
    if ranks < 2 or rounds < _ROUNDS_MIN:
        return None
    if any(time <= 0 for times in compute_seconds for time in times[:rounds]):
        return None  # too short for the clock that took them
    rank = max(range(ranks), key=lambda candidate: statistics.median(compute_seconds[candidate][:rounds]))
    others = [times for other, times in enumerate(compute_seconds) if other != rank]
    costs = [compute_seconds[rank][at] / statistics.median(times[at] for times in others) - 1 for at in range(rounds)]
    cost = math.fsum(costs) / rounds
    t = float(special.stdtrit(rounds - 1, 1 - (1 - _CONFIDENCE) / ranks))
    if cost - t * autocorrelation.error_of_mean(costs, errors=1) <= STRAGGLER_COST_MIN:
        return None
    return Straggler(rank=rank, cost=cost)
