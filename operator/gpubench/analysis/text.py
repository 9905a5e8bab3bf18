# SPDX-License-Identifier: Apache-2.0
"""Numbers and facts as text: as many digits as the interval supports, and a dash where a number is not defined.

The half width of the interval has two significant digits, the mean the same place (Particle Data Group, "Review of
Particle Physics", introduction, section 5.3). Must not happen: a missing value printed as 0.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from gpubench import workloads
from gpubench.api import benchmark_status, measuring, price_result, sweep
from gpubench.api.point_result import AmountInterval, EnvironmentFacts, PointResult, Quality, Scaling
from gpubench.records import environment_field_name
from gpubench.units import counted, workers_text
from gpubench.values import Interval, IntervalOf

UNDEFINED = "–"
_DIGITS_OF_HALF_WIDTH = 2
_DIGITS_WITHOUT_INTERVAL = 3
_ROUNDING = Decimal("1e-12")  # of the arithmetic: equal repeats have an interval that is narrower, and no width at all
_DIGEST_CHARACTERS = 12
_EVEN = Decimal("1.1")  # upper over lower half, up to which a half width describes both
_PLACES_MAX = 99
_Bounded = IntervalOf[float] | IntervalOf[Decimal] | IntervalOf[str]


# --- numbers ----------------------------------------------------------------------------------------------------------


def number(value: Decimal, *, places: int) -> str:
    """Rounded half up to so many decimal places (negative: tens, hundreds), with thousands set apart."""
    return f"{value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP):,f}"


def amount(value: Decimal | str) -> str:
    """As many digits as it has, without zeros at its end: `1,234.5`."""
    shown = f"{Decimal(value):,f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def amounts(values: Sequence[Decimal | str | None]) -> list[str]:
    """Those of a column: each with as many places as the one that has the most."""
    shown = [None if value is None else amount(value) for value in values]
    places = max((len(one.partition(".")[2]) for one in shown if one), default=0)
    return [UNDEFINED if value is None else number(Decimal(value), places=places) for value in values]


def share(fraction: Decimal | str) -> str:
    """A share that somebody chose, as percent: `2.5 %`."""
    return f"{(Decimal(fraction) * 100).normalize():f} %"


def part(value: str | float | None, *, of: Decimal | float) -> str:
    """Percent of the whole to one place; a dash where the part is unknown or the whole is nothing."""
    return UNDEFINED if value is None or not of else number(100 * _decimal(value) / _decimal(of), places=1)


def optional(value: object | None) -> str:
    return UNDEFINED if value is None else str(value)


def shortened(names: Sequence[str], *, most: int = 3) -> str:
    """`a, b and 4 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


# --- estimates --------------------------------------------------------------------------------------------------------


def spread(estimate: Interval | None, *, per: float = 1.0) -> str:
    """A figure and half the width of its interval, in units of `per`: `1,234 ± 21`; both ends if they lie unevenly."""
    if estimate is None:
        return UNDEFINED
    mean, low, high = _in_units(estimate, per=per)
    if low is None or high is None or high - mean > (mean - low) * _EVEN:
        return bounded(estimate, per=per)
    half = high - mean  # the wider side
    places = _places(mean, mean - half, mean + half)
    return f"{number(mean, places=places)} ± {number(half, places=places)}"


def bounded(found: _Bounded | None, *, per: float = 1.0, unit: str = "") -> str:
    """A figure whose interval need not lie evenly about it: `10.02 (9.91–10.15)`."""
    if found is None:
        return UNDEFINED
    mean, low, high = _in_units(found, per=per)
    places = _places(mean, low, high)
    shown = f"{number(mean, places=places)}{unit}"
    if low is None or high is None:
        return shown
    return f"{shown} ({number(low, places=places)}–{number(high, places=places)})"


def percent(estimate: Interval | None) -> str:
    """A share as percent: `87 % (85–89)`."""
    return bounded(estimate, per=0.01, unit=" %")


def money(cost: AmountInterval | None) -> str:
    """An amount with its currency in front: `USD 0.0123 (0.0120–0.0127)`."""
    return UNDEFINED if cost is None else f"{cost.currency} {bounded(cost)}"


def between(low: Decimal, high: Decimal) -> str:
    """Two amounts of one currency: `0.0107–0.0145`."""
    places = max(_places(high, None, None), _place_of_first_digit(low))
    return f"{number(low, places=places)}–{number(high, places=places)}"


def _in_units(found: _Bounded, *, per: float) -> tuple[Decimal, Decimal | None, Decimal | None]:
    unit = _decimal(per)
    low, high = (None if end is None else _decimal(end) / unit for end in (found.low, found.high))
    return _decimal(found.mean) / unit, low, high


def _places(mean: Decimal, low: Decimal | None, high: Decimal | None) -> int:
    half = (high - low) / 2 if low is not None and high is not None else Decimal(0)
    if low is not None and half > abs(mean) * _ROUNDING:
        return max(_DIGITS_OF_HALF_WIDTH - 1 - half.adjusted(), _place_of_first_digit(low))
    return _DIGITS_WITHOUT_INTERVAL - 1 - mean.adjusted() if mean else 0


def _place_of_first_digit(low: Decimal) -> int:
    """With fewer places it would look like 0; very negative for 0 itself."""
    return -low.adjusted() if low else -_PLACES_MAX


def _decimal(value: Decimal | str | float) -> Decimal:
    return Decimal(str(value))


# --- figures of a point -----------------------------------------------------------------------------------------------


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


def efficiency(scaling: Scaling, *, workers: int) -> str:
    """Percent; that of the base itself is 100 % by definition and says so."""
    if scaling.baseline_workers == workers and scaling.baseline_pool is None:
        return "100 % (base)"
    return percent(scaling.efficiency)


def relative(estimate: Interval | None, *, base: bool = False) -> str:
    """How many times as much; the base's is 1 by definition and says so."""
    return "1 (base)" if base and estimate is not None else bounded(estimate)


def quality(found: Quality) -> str:
    """The last epoch's accuracy as percent, or its loss."""
    return percent(found.final) if found.metric == "accuracy" else spread(found.final)


def epochs(point: PointResult) -> int | None:
    """Those that were trained, else those that were asked for; None without any."""
    return point.epochs if point.training is None else point.training.epochs


def timed_region(region: measuring.TimedRegion) -> str:
    evaluation = "and" if region.evaluation == "Inside" else "without"
    first = "included" if region.first_epoch == "Included" else "left out"
    return f"training {evaluation} the evaluation after each epoch, the first epoch {first}"


# --- lines below a table ----------------------------------------------------------------------------------------------

NO_BILL = "Nothing was billed: no attempt has ended on a pool that has a price."


def trials(counts: benchmark_status.TrialCounts) -> str:
    """How many trials there are: `12`, or `10 to 20` while it is not known how many repeats are needed."""
    return str(counts.total) if counts.least is None else f"{counts.least} to {counts.total}"


def spent(found: price_result.Spent) -> str:
    """What was spent so far, and what of it is assumed or not counted; `show --bill` has its parts."""
    notes = []
    if found.assumed_attempts:
        notes.append(f"of {counted(found.assumed_attempts, 'attempt')} the end of a pod was not seen")
    if found.unpriced_attempts:
        notes.append(f"{counted(found.unpriced_attempts, 'attempt')} without a price not counted")
    nodes = "" if found.nodes is None else f" {found.nodes.sentence}."
    noted = f" ({'; '.join(notes)})" if notes else ""
    return f"Spent: about {found.currency} {found.amount}{noted}.{nodes}"


def billed(points: Sequence[PointResult], prices: Sequence[price_result.PriceUsed]) -> Iterator[str]:
    """What all points together were billed and what of it was lost, for each currency; setup too."""
    bills = [point.bill for point in points if point.bill is not None]
    pools = {point.pool for point in points if point.bill is not None}
    for currency in dict.fromkeys(bill.currency for bill in bills):
        alike = [bill for bill in bills if bill.currency == currency]
        setups = [one.setup for one in prices if one.setup and one.currency == currency and one.pool in pools]
        once = sum(map(Decimal, setups), Decimal(0))
        paid = sum((Decimal(bill.total) for bill in alike), once)
        lost = sum((Decimal(bill.parts.lost or 0) for bill in alike), Decimal(0))
        setup = f", {currency} {amount(once)} of it for setup" if setups else ""
        attempts = counted(sum(bill.attempts for bill in alike), "attempt")
        rest = f"{currency} {amount(lost)} for attempts without a result"
        yield f"Billed for {attempts}: {currency} {amount(paid)}{setup}; {rest}."


def price(one: price_result.PriceUsed) -> str:
    """What a price is, of which day, from where, and between what it has moved."""
    source = f" ({one.source})" if one.source else ""
    parts = [f"{one.currency} {amount(one.per_node_hour)} per node-hour, read {one.as_of}{source}"]
    if one.discount is not None:
        parts.append(f"{share(one.discount)} off the list by contract")
    if one.low is not None and one.high is not None:
        parts.append(f"between {amount(one.low)} and {amount(one.high)} in {one.period}")
    if one.exchange_rate is not None:
        parts.append(f"1 {one.exchanged_from} = {one.exchange_rate} {one.currency} on {one.exchange_as_of}")
    if one.setup is not None:
        parts.append(f"setup {one.currency} {amount(one.setup)} once")
    return f"Price of {one.pool}: {'; '.join(parts)}"


def environments(found: Sequence[EnvironmentFacts], results: Sequence[PointResult]) -> Iterator[str]:
    """One line for each environment, with the number of its points where there are several environments."""
    digest, accelerator = map(environment_field_name, ("image_digest", "accelerator"))
    for one in found:
        facts = environment_facts(one)
        if digest in facts:
            facts[digest] = facts[digest].removeprefix("sha256:")[:_DIGEST_CHARACTERS]
        words = (value if name == accelerator else f"{name} {value}" for name, value in facts.items())
        count = sum(point.environment == one.environment for point in results)
        points = f", {counted(count, 'point')}" if len(found) > 1 else ""
        yield f"Environment {one.environment}{points}: {', '.join(words) or 'its record was not read'}"


def environment_facts(one: EnvironmentFacts) -> dict[str, str]:
    """Facts by their names in words; unknown ones are left out."""
    return {
        environment_field_name(name): str(value) for name, value in one if value is not None and name != "environment"
    }


def interruptions(status: benchmark_status.Analysis) -> tuple[str, ...]:
    pools = () if status.goodput is None else status.goodput.pools
    return tuple(f"{pool.sentence}." for pool in pools if pool.interruptions.total)


NOT_PUBLISHED = "not published"


# --- a point in words -------------------------------------------------------------------------------------------------


def describe(point: PointResult) -> str:
    of_data = "" if point.data is sweep.DataSource.SYNTHETIC else f", {data(point)} data"
    where = f"node {point.node} of {point.pool}" if point.node else point.pool
    return f"{point.workload} on {where}, {shape(point)}, {point.precision}{of_data}"


def data(point: PointResult) -> str:
    """Where the samples came from, with what tells two such sources apart."""
    which = point.data_path or point.data_samples
    return point.data.value if which is None else f"{point.data.value} {which}"


def shape(point: PointResult) -> str:
    batch = (
        f"global batch {point.global_batch}" if point.batch_per_worker is None else f"batch {point.batch_per_worker}"
    )
    variant = f" with {point.variant}" if point.variant else ""
    return f"{workers_text(point.workers)} at {batch}{variant}"


def headline(point: PointResult) -> str | None:
    """The figure of a point that matters most, in a few words; None where it has none."""
    if point.bandwidth is not None:
        return f"{spread(point.bandwidth.bus, per=1e9)} GB/s bus bandwidth"
    if point.training is not None and point.training.seconds is not None:
        rest = f", {found.metric} {quality(found)}" if (found := point.training.quality) is not None else ""
        return f"{duration(point.training.seconds)}{rest}"
    if point.throughput is None or point.workload == workloads.MESSAGES:
        return None
    return f"{spread(point.throughput)} samples/s"
