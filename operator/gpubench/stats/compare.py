# SPDX-License-Identifier: Apache-2.0
"""Two points against each other: how much faster one is, how sure that is, and what would make it surer. In words.

The figure is the ratio of speeds, B over A, with the interval of `intervals.of_ratio`. Speed is the throughput, or for
training one over the seconds of a run: either way above 1 is better. An interval that excludes 1 is a difference. One
that holds 1 and nothing that is further from it than the tolerance says that the two are as good as equal: that is the
test of equivalence of D. J. Schuirmann ("A comparison of the two one-sided tests procedure and the power approach for
assessing the equivalence of average bioavailability", J. Pharmacokinet. Biopharm. 15, 1987), which asks for less, the
90 % interval, at an error of 5 %. Any other interval says nothing, and then so does the sentence. Repeats that are all
equal say nothing either: seconds rounded by a program look like this, and how they scatter is not known.

A bound against a baseline (`is_as_fast`) is one of these tests alone: not slower than by the tolerance, with an error
of 2.5 % for each point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum

from scipy import special

from gpubench.stats import intervals
from gpubench.units import counted
from gpubench.values import FrozenModel, Interval

#: A difference below this share is none that anybody acts on, unless the caller says otherwise.
TOLERANCE = 0.02
#: Further repeats that are worth naming; where even more would be needed, the noise itself has to go.
MORE_REPEATS_MAX = 100
_PLACES_MAX = 6
#: Relative standard deviation: less is nothing but the rounding of binary fractions.
_ROUNDING = 1e-12
_TIMES_AS_FAST = 2.0  # from here on a ratio is easier to read than percent


class Quantity(StrEnum):
    """What the repeats of a point are."""

    THROUGHPUT = "Throughput"  # samples per second
    SECONDS = "Seconds"  # of a training run


class Verdict(StrEnum):
    """What the interval says."""

    FASTER = "Faster"
    SLOWER = "Slower"
    EQUAL = "Equal"  # within the tolerance
    CANNOT_TELL = "CannotTell"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The repeats of a point, as far as an interval needs them."""

    count: int
    mean: float
    deviation: float | None  # standard deviation of the repeats; None where there are fewer than three
    #: At which an interval over them is computed so that it holds the truth in 95 % of benchmarks: more, with repeats
    #: that were added until a figure was precise enough (`stats.stopping_rule`).
    confidence: float = intervals.CONFIDENCE

    @property
    def variation(self) -> float | None:
        """The coefficient of variation."""
        return None if self.deviation is None else self.deviation / abs(self.mean)

    @property
    def scatters(self) -> bool:
        """Whether it is known how the repeats scatter: three or more that are not all equal."""
        return self.variation is not None and self.variation > _ROUNDING


class Difference(FrozenModel):
    """B against A."""

    verdict: Verdict
    ratio: Interval  # of speeds, B over A; without bounds where there are too few repeats for any
    more_repeats: int | None = None  # of each that would probably do, where nothing can be told and some would
    sentence: str


def of_values(values: Sequence[float], *, confidence: float = intervals.CONFIDENCE) -> Sample:
    """The sample of one figure for each repeat."""
    deviation = None
    mean = math.fsum(values) / len(values)
    if len(values) >= intervals.REPEATS_FOR_INTERVAL:
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return Sample(count=len(values), mean=mean, deviation=deviation, confidence=confidence)


def of_interval(interval: Interval, count: int, *, confidence: float = intervals.CONFIDENCE) -> Sample:
    """The sample behind Student's interval: its upper half is t s / sqrt(n); the lower end may have been cut at 0."""
    deviation = None
    if interval.high is not None:
        t = float(special.stdtrit(count - 1, (1 + confidence) / 2))
        deviation = (interval.high - interval.mean) / t * math.sqrt(count)
    return Sample(count=count, mean=interval.mean, deviation=deviation, confidence=confidence)


def difference(
    b: Sample,
    a: Sample,
    *,
    quantity: Quantity = Quantity.THROUGHPUT,
    tolerance: float = TOLERANCE,
    name: str = "B",
    other: str = "A",
) -> Difference:
    """What the repeats of two points say about their difference."""
    ratio = speed_ratio(b, a, quantity=quantity)
    if ratio.low is None or ratio.high is None:
        text = f"cannot tell: {unbounded(b, a, name=name, other=other)}"
        return Difference(verdict=Verdict.CANNOT_TELL, ratio=ratio, sentence=text)
    largest = max(1 - ratio.low, ratio.high - 1)
    if ratio.low > 1 and _shows(largest):
        text = f"{name} is {_faster(ratio.low, ratio.high)}{_CERTAINTY}"
        return Difference(verdict=Verdict.FASTER, ratio=ratio, sentence=text)
    if ratio.high < 1 and _shows(largest):
        text = f"{name} is {_range(1 - ratio.high, 1 - ratio.low)} slower{_CERTAINTY}"
        return Difference(verdict=Verdict.SLOWER, ratio=ratio, sentence=text)
    if largest <= tolerance or not _shows(largest):
        text = f"no difference larger than {percent(largest)}{_CERTAINTY}"
        return Difference(verdict=Verdict.EQUAL, ratio=ratio, sentence=text)
    more = more_repeats(b, a, quantity=quantity, tolerance=tolerance)
    return Difference(
        verdict=Verdict.CANNOT_TELL,
        ratio=ratio,
        more_repeats=more,
        sentence=f"cannot tell: {_either_way(ratio.low, ratio.high)}; {_advice(more)}",
    )


def speed_ratio(b: Sample, a: Sample, *, quantity: Quantity = Quantity.THROUGHPUT) -> Interval:
    """The speed of B over that of A, with its interval: of seconds it is A's over B's.

    Without bounds also where all repeats of either are equal: a zero sample variance is no certainty.
    """
    top, bottom = (b, a) if quantity is Quantity.THROUGHPUT else (a, b)
    if not (a.scatters and b.scatters):
        return Interval(mean=top.mean / bottom.mean)
    return intervals.of_ratio(_values(top), _values(bottom), max(a.confidence, b.confidence))


def is_as_fast(ratio: Interval, *, tolerance: float) -> bool | None:
    """Whether a ratio of speeds keeps above 1 - tolerance: all of its interval, or none of it; None for neither."""
    if ratio.low is None or ratio.high is None:
        return None
    if ratio.low > 1 - tolerance:
        return True
    return False if ratio.high < 1 - tolerance else None


def more_repeats(
    b: Sample, a: Sample, *, quantity: Quantity = Quantity.THROUGHPUT, tolerance: float = TOLERANCE
) -> int | None:
    """Further repeats of each point after which something could probably be told; None for more than anybody makes.

    With k more of each, and if mean and scatter stay as they are, the interval's half width is about

        h(k) = t(0.975, v) r sqrt(cB^2 / (nB + k) + cA^2 / (nA + k))

    r being the ratio, c the coefficients of variation and v Welch's degrees of freedom (Fieller's interval tends to
    this one as the repeats grow in number). Asked for is the first k with h < |r - 1|, so that the interval excludes 1,
    or |r - 1| + h <= tolerance, so that the two are as good as equal. As the means will move, this is as likely too
    few as too many: a plan that is to succeed four times out of five needs about twice as many.
    """
    ratio = speed_ratio(b, a, quantity=quantity).mean
    seen = abs(ratio - 1)
    confidence = max(a.confidence, b.confidence)
    variances = [(one.count, (ratio * one.variation) ** 2) for one in (b, a) if one.variation is not None]
    if len(variances) < 2:
        return None
    for more in range(1, MORE_REPEATS_MAX + 1):
        half = _half_width([(count + more, variance) for count, variance in variances], confidence)
        if half < seen or seen + half <= tolerance:
            return more
    return None


def percent(share: float) -> str:
    """A share as percent with two significant digits, rounded up: `1.2 %`."""
    amount = _decimal(100 * share)
    return f"{_up(100 * share, max(0, 1 - amount.adjusted())) if amount else '0'} %"


_CERTAINTY = f" ({intervals.CONFIDENCE:.0%})".replace("%", " %")


def _half_width(sides: Sequence[tuple[int, float]], confidence: float) -> float:
    """Student's, of a difference of means, each of so many values with such a variance (B. L. Welch, 1947)."""
    of_means = [variance / count for count, variance in sides]
    total = math.fsum(of_means)
    if total == 0:
        return 0.0
    freedom = total**2 / math.fsum(
        of_mean**2 / (count - 1) for (count, _), of_mean in zip(sides, of_means, strict=True)
    )
    return float(special.stdtrit(freedom, (1 + confidence) / 2)) * math.sqrt(total)


def _values(sample: Sample) -> list[float]:
    """Values with this sample's number, mean and deviation, which are all that an interval of a ratio looks at."""
    if sample.deviation is None:
        return [sample.mean] * sample.count
    # All on the mean but two, each as far away: (n - 1) s^2 = 2 d^2.
    away = sample.deviation * math.sqrt((sample.count - 1) / 2)
    return [sample.mean - away, sample.mean + away, *[sample.mean] * (sample.count - 2)]


# --- words ------------------------------------------------------------------------------------------------------------


def unbounded(b: Sample, a: Sample, *, name: str, other: str) -> str:
    """Why the ratio of two points has no interval, as the end of a sentence."""
    few = [f"{whose} has {sample.count}" for whose, sample in ((other, a), (name, b)) if sample.deviation is None]
    if few:
        return f"an interval needs {intervals.REPEATS_FOR_INTERVAL} repeats, and {' and '.join(few)}"
    equal = [f"all {sample.count} of {whose}" for whose, sample in ((other, a), (name, b)) if not sample.scatters]
    if equal:
        return (
            f"{' and '.join(equal)} are equal, and how they scatter is not known: time it more finely, or "
            "let it run longer"
        )
    return "the repeats scatter so much that the ratio has no bounds: look for the cause of the noise"


def _faster(low: float, high: float) -> str:
    if low >= _TIMES_AS_FAST:
        places = _places(low, high)
        return f"{_down(low, places)}–{_up(high, places)} times as fast"
    return f"{_range(low - 1, high - 1)} faster"


def _either_way(low: float, high: float) -> str:
    places = _places(0.0, 100 * (high - low))
    return f"between {_up(100 * (1 - low), places)} % slower and {_up(100 * (high - 1), places)} % faster"


def _advice(more: int | None) -> str:
    if more is None:
        return f"not even {MORE_REPEATS_MAX} more repeats of each probably would: look for the cause of the noise"
    return f"about {counted(more, 'more repeat')} of each would"


def _range(low: float, high: float) -> str:
    """Two shares as `12–19 %`, rounded outwards; a low end above 0 never looks like 0."""
    places = _places(100 * low, 100 * high)
    if (text := _down(100 * low, places)) == (upper := _up(100 * high, places)):
        return f"{text} %"
    return f"{text}–{upper} %"


def _shows(share: float) -> bool:
    """Whether a difference is more than 0 in as many places as are ever written."""
    return 100 * share >= 0.5 * 10.0**-_PLACES_MAX


def _places(low: float, high: float) -> int:
    """Decimal places that tell the ends apart, and the lower one from 0."""
    for places in range(_PLACES_MAX):
        apart = _decimal(high - low) >= 2 * Decimal(1).scaleb(-places) or high == low
        if apart and (low <= 0 or Decimal(_down(low, places))):
            return places
    return _PLACES_MAX


def _down(value: float, places: int) -> str:
    return f"{_decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_FLOOR):f}"


def _up(value: float, places: int) -> str:
    return f"{_decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING):f}"


def _decimal(value: float) -> Decimal:
    """Without the last bits of a binary fraction, which would be rounded up: 1 - 0.97 is 0.03."""
    return Decimal(f"{value:.9f}")
