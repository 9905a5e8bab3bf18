# SPDX-License-Identifier: Apache-2.0
"""Numbers for people: as many digits as the interval supports, and a dash where a number is not defined.

The half width of the interval is shown with two significant digits and the mean to the same place (Particle Data Group,
"Review of Particle Physics", section 5.3 of the introduction, in its simplest form). Must not happen: a missing value
is printed as 0, or a digit is printed that the measurement does not carry.
"""

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from gpubench.api.benchmark_status import TrialCounts
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import AmountInterval, PointResult, Quality, Scaling
from gpubench.values import Interval

UNDEFINED = "–"
_DIGITS_OF_HALF_WIDTH = 2
_DIGITS_WITHOUT_INTERVAL = 3
_ROUNDING = Decimal("1e-12")  # of the arithmetic: equal repeats have an interval that is narrower, and no width at all


def throughput(estimate: Interval | None) -> str:
    """Samples per second: `1,234 ± 21`."""
    return spread(estimate)


def spread(estimate: Interval | None, *, per: float = 1.0) -> str:
    """A figure and half the width of its interval, in units of `per`: `1,234 ± 21`."""
    if estimate is None:
        return UNDEFINED
    mean, low, high = _in_units(estimate, per=per)
    if low is None or high is None:
        return number(mean, places=_places(mean, low=low, high=high))
    half = max(high - mean, (high - low) / 2)  # the lower end may have been cut at zero
    places = _places(mean, low=mean - half, high=mean + half)
    return f"{number(mean, places=places)} ± {number(half, places=places)}"


def bounded(estimate: Interval | None, *, per: float = 1.0) -> str:
    """A figure whose interval need not lie evenly about it, or is open at one end: `10.02 (9.91–10.15)`."""
    if estimate is None:
        return UNDEFINED
    mean, low, high = _in_units(estimate, per=per)
    places = _places(mean, low=low, high=high)
    return f"{number(mean, places=places)}{_bounds(low, high, places=places)}"


def percent(estimate: Interval | None) -> str:
    """A share as percent: `87 % (85–89)`."""
    if estimate is None:
        return UNDEFINED
    mean, low, high = _in_units(estimate, per=0.01)
    places = _places(mean, low=low, high=high)
    return f"{number(mean, places=places)} %{_bounds(low, high, places=places)}"


def trials(counts: TrialCounts) -> str:
    """How many trials a study has: `12`, or `10 to 20` while it is not known how many repeats are needed."""
    return str(counts.total) if counts.least is None else f"{counts.least} to {counts.total}"


def efficiency(scaling: Scaling) -> str:
    """Percent; the baseline's is 100 % by definition and says so."""
    if scaling.efficiency.mean == 1 and scaling.efficiency.low is None and scaling.baseline_pool is None:
        return "100 % (base)"
    return percent(scaling.efficiency)


def epochs(point: PointResult) -> int | None:
    """Those that were trained, else those that were asked for; None without any."""
    return point.epochs if point.training is None else point.training.epochs


def quality(found: Quality) -> str:
    """The last epoch's accuracy as percent, or its loss."""
    return percent(found.final) if found.metric == "accuracy" else spread(found.final)


class TimeUnit(NamedTuple):
    """What a length of time is written in."""

    name: str
    seconds: float


_TIME_UNITS = (TimeUnit("seconds", 1.0), TimeUnit("minutes", 60.0), TimeUnit("hours", 3600.0))
_NUMBER_MAX = 600  # of a unit, before the next one is easier to read


def time_unit(seconds: Iterable[float]) -> TimeUnit:
    """One unit for several lengths of time, so that they can be compared: by the longest."""
    longest = max(seconds, default=0.0)
    return next((unit for unit in _TIME_UNITS if longest < _NUMBER_MAX * unit.seconds), _TIME_UNITS[-1])


def duration(estimate: Interval) -> str:
    """A length of time with its unit: `41.20 ± 0.30 seconds`."""
    unit = time_unit([estimate.mean])
    return f"{spread(estimate, per=unit.seconds)} {unit.name}"


def relative(estimate: Interval | None, *, base: bool = False) -> str:
    """How many times as much; the base's is 1 by definition and says so."""
    return "1 (base)" if base and estimate is not None else bounded(estimate)


def timed_region(region: TimedRegion) -> str:
    """What seconds of training cover, in words."""
    evaluation = {
        "Inside": "training and the evaluation after each epoch",
        "Outside": "training without the evaluation after each epoch",
    }[region.evaluation]
    first = {"Included": "the first epoch included", "Excluded": "the first epoch left out"}[region.first_epoch]
    return f"{evaluation}, {first}"


def money(amount: AmountInterval) -> str:
    """An amount with its currency in front: `USD 0.0123 (0.0120–0.0127)`."""
    mean = Decimal(amount.mean)
    low = None if amount.low is None else Decimal(amount.low)
    high = None if amount.high is None else Decimal(amount.high)
    places = _places(mean, low=low, high=high)
    return f"{amount.currency} {number(mean, places=places)}{_bounds(low, high, places=places)}"


def between(low: Decimal, high: Decimal) -> str:
    """Two amounts of one currency: `0.0107–0.0145`."""
    places = _places(high, low=None, high=None)
    return f"{number(low, places=places)}–{number(high, places=places)}"


def number(value: Decimal, *, places: int) -> str:
    """Rounded half up to so many decimal places (negative: tens, hundreds), with thousands set apart."""
    return f"{value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP):,f}"


def _bounds(low: Decimal | None, high: Decimal | None, *, places: int) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return f" (≤ {number(high, places=places)})" if high is not None else ""
    if high is None:  # the throughput's lower end was not above zero: the cost has no upper end
        return f" (≥ {number(low, places=places)})"
    return f" ({number(low, places=places)}–{number(high, places=places)})"


def _places(mean: Decimal, *, low: Decimal | None, high: Decimal | None) -> int:
    half = (high - low) / 2 if low is not None and high is not None else Decimal(0)
    if half > abs(mean) * _ROUNDING:
        return _DIGITS_OF_HALF_WIDTH - 1 - half.adjusted()
    return _DIGITS_WITHOUT_INTERVAL - 1 - mean.adjusted() if mean else 0


def _decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def _optional(value: float | None) -> Decimal | None:
    return None if value is None else _decimal(value)


def _in_units(estimate: Interval, *, per: float) -> tuple[Decimal, Decimal | None, Decimal | None]:
    unit = _decimal(per)
    low, high = _optional(estimate.low), _optional(estimate.high)
    return (
        _decimal(estimate.mean) / unit,
        None if low is None else low / unit,
        None if high is None else high / unit,
    )
