# SPDX-License-Identifier: Apache-2.0
"""Two points against each other: how much faster one is, how sure that is, and what would make it surer. In words.

The figure is the ratio of speeds, B over A, with the interval of `intervals.of_ratio`. Speed is the throughput, or for
training one over the seconds of a run: either way above 1 is better. An interval that excludes 1 is a difference. One
that holds 1 and nothing that is further from it than the tolerance says that the two are as good as equal: the test of
equivalence of D. J. Schuirmann (J. Pharmacokinet. Biopharm. 15, 1987), which asks for less, the 90 % interval, at an
error of 5 %. Any other interval says nothing, and then so does the message. Repeats that are all equal say nothing
either: seconds rounded by a program look like this, and how they scatter is not known.

A bound against a baseline (`is_as_fast`) is one of these tests alone: not slower than by the tolerance, with an error
of 2.5 % for each point.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import Literal, TypeVar

from gpubench.stats import intervals
from gpubench.units import counted
from gpubench.values import FrozenModel, Interval, IntervalOf

#: A difference below this share is none that anybody acts on, unless the caller says otherwise.
TOLERANCE = 0.02
#: Further repeats that are worth naming; where even more would be needed, the noise itself has to go.
MORE_REPEATS_MAX = 100
_PLACES_MAX = 6
_Number = TypeVar("_Number", float, Decimal)
_TIMES_AS_FAST = 2.0  # from here on a ratio is easier to read than percent


class Quantity(StrEnum):
    """What the repeats of a point are."""

    THROUGHPUT = "Throughput"  # samples per second
    SECONDS = "Seconds"  # of a training run


#: What the interval says; Equal is within the tolerance.
Verdict = Literal["Faster", "Slower", "Equal", "CannotTell"]


#: What intervals say of the best figure and another one; CannotTell where one of both has none.
Standing = Literal["Better", "Tie", "CannotTell"]


def standing(best: IntervalOf[_Number], other: IntervalOf[_Number], *, same_runs: bool = False) -> Standing:
    """Of the least figure against another one: wherever gpubench names a best one, by this.

    Intervals that overlap are a tie. With `same_runs` both stand on the same measurement, and differ by certain prices.
    """
    if same_runs:
        return "Tie" if best.mean == other.mean else "Better"
    if best.high is None or other.low is None:
        return "CannotTell"
    return "Tie" if other.low <= best.high else "Better"


class Difference(FrozenModel):
    """B against A."""

    verdict: Verdict
    ratio: Interval  # of speeds, B over A; without bounds where there are too few repeats for any
    more_repeats: int | None = None  # of each that would probably do, where nothing can be told and some would
    sentence: str


def difference(
    b: intervals.Sample, a: intervals.Sample, *, quantity: Quantity = Quantity.THROUGHPUT, tolerance: float = TOLERANCE
) -> Difference:
    ratio = speed_ratio(b, a, quantity=quantity)
    verdict: Verdict
    low, high, more = ratio.low, ratio.high, None
    if low is None or high is None:
        return Difference(verdict="CannotTell", ratio=ratio, sentence=f"cannot tell: {unbounded(b, a)}")
    largest = max(1 - low, high - 1)
    if low > 1:
        verdict, text = "Faster", f"B is {_faster(low, high)}{_CERTAINTY}"
    elif high < 1:
        verdict, text = "Slower", f"B is {_range(1 - high, 1 - low)} slower{_CERTAINTY}"
    elif largest <= tolerance:
        verdict, text = "Equal", f"no difference larger than {percent(largest)}{_CERTAINTY}"
    else:
        more = more_repeats(b, a, tolerance=tolerance)
        places = _places(0.0, 100 * (high - low))
        between = f"between {_up(100 * (1 - low), places)} % slower and {_up(100 * (high - 1), places)} % faster"
        if high >= _TIMES_AS_FAST:
            between = f"between {low:.2g} and {high:.2g} times as fast"
        advice = f"about {counted(more or 0, 'more repeat')} of each would"
        if more is None:
            advice = f"not even {MORE_REPEATS_MAX} more repeats of each probably would: look for the cause of the noise"
        verdict, text = "CannotTell", f"cannot tell: {between}; {advice}"
    return Difference(verdict=verdict, ratio=ratio, more_repeats=more, sentence=text)


def speed_ratio(b: intervals.Sample, a: intervals.Sample, *, quantity: Quantity = Quantity.THROUGHPUT) -> Interval:
    """B's speed over A's (of seconds A's over B's); no bounds where all repeats of one are equal: no certainty."""
    top, bottom = (b, a) if quantity is Quantity.THROUGHPUT else (a, b)
    return intervals.ratio(top, bottom) if a.scatters and b.scatters else Interval(mean=top.mean / bottom.mean)


def is_as_fast(ratio: Interval, *, tolerance: float) -> bool | None:
    """Whether a ratio of speeds keeps above 1 - tolerance: all of its interval, or none of it; None for neither."""
    if ratio.low is None or ratio.high is None:
        return None
    if ratio.low > 1 - tolerance:
        return True
    return False if ratio.high < 1 - tolerance else None


def more_repeats(b: intervals.Sample, a: intervals.Sample, *, tolerance: float = TOLERANCE) -> int | None:
    """Further repeats of each point after which something could probably be told; None for more than anybody makes.

    With k more of each, and if mean and scatter stay as they are, the half width of the ratio's logarithm is

        h(k) = t(0.975, v) sqrt(cB^2 / (nB + k) + cA^2 / (nA + k))

    c being the coefficients of variation and v Welch's degrees of freedom. Asked for is the first k with h < |ln r|, r
    being the ratio, so that the interval excludes 1, or |ln r| + h <= ln(1 + tolerance), so that the two are as good as
    equal. As the means will move, this is as likely too few as too many: a plan that is to succeed four times out of
    five needs about twice as many.
    """
    seen = abs(math.log(b.mean / a.mean))
    confidence = max(a.confidence, b.confidence)
    spreads = [(one.count, one.variation**2) for one in (b, a) if one.variation is not None]
    if len(spreads) < 2:
        return None
    for more in range(1, MORE_REPEATS_MAX + 1):
        sides = [(variance / (count + more), count + more) for count, variance in spreads]
        total = math.fsum(variance for variance, _ in sides)
        half = intervals.t_quantile(intervals.welch(*sides), confidence) * math.sqrt(total) if total else 0.0
        if half < seen or seen + half <= math.log1p(tolerance):
            return more
    return None


def percent(share: float) -> str:
    """A share as percent with two significant digits, rounded up: `1.2 %`."""
    amount = _decimal(100 * share)
    return f"{_up(100 * share, max(0, 1 - amount.adjusted())) if amount else '0'} %"


_CERTAINTY = f" ({intervals.CONFIDENCE:.0%})".replace("%", " %")


# --- words ------------------------------------------------------------------------------------------------------------


def unbounded(b: intervals.Sample, a: intervals.Sample, *, name: str = "B", other: str = "A") -> str:
    """Why the ratio of two points has no interval, as the end of a sentence."""
    few = [f"{whose} has {sample.count}" for whose, sample in ((other, a), (name, b)) if sample.deviation is None]
    if few:
        return f"an interval needs {intervals.REPEATS_FOR_INTERVAL} repeats, and {' and '.join(few)}"
    equal = [f"all {sample.count} of {whose}" for whose, sample in ((other, a), (name, b)) if not sample.scatters]
    remedy = "time it more finely, or let it run longer"
    return f"{' and '.join(equal)} are equal, and how they scatter is not known: {remedy}"


def _faster(low: float, high: float) -> str:
    if low >= _TIMES_AS_FAST:
        places = _places(low, high)
        return f"{_down(low, places)}–{_up(high, places)} times as fast"
    return f"{_range(low - 1, high - 1)} faster"


def _range(low: float, high: float) -> str:
    """Two shares as `12–19 %`, rounded outwards; a low end above 0 never looks like 0."""
    places = _places(100 * low, 100 * high)
    if (text := _down(100 * low, places)) == (upper := _up(100 * high, places)):
        return f"{text} %"
    return f"{text}–{upper} %"


def _places(low: float, high: float) -> int:
    """Decimal places that tell the ends apart, and the lower one from 0."""
    for places in range(_PLACES_MAX):
        apart = _decimal(high - low) >= 2 * Decimal(10) ** -places or high == low
        if apart and (low <= 0 or Decimal(_down(low, places))):
            return places
    return _PLACES_MAX


def _down(value: float, places: int) -> str:
    return f"{_decimal(value).quantize(Decimal(10) ** -places, rounding=ROUND_FLOOR):f}"


def _up(value: float, places: int) -> str:
    return f"{_decimal(value).quantize(Decimal(10) ** -places, rounding=ROUND_CEILING):f}"


def _decimal(value: float) -> Decimal:
    """Without the last bits of a binary fraction, which would be rounded up: 1 - 0.97 is 0.03."""
    return Decimal(f"{value:.9f}")
