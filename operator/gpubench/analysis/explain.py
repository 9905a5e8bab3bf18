# SPDX-License-Identifier: Apache-2.0
"""Each headline figure of a point in a row: its formula, the inputs, and where these come from.

The figures are those of the status, computed by its functions. Must not happen: inputs that do not give their figure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from statistics import fmean
from typing import NamedTuple

from gpubench import units, workloads
from gpubench.analysis import costs, efficiency, relative, repeats, text
from gpubench.analysis.points import measured_points, point_results
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.goals import Goal, RelativeBase
from gpubench.api.point_result import AmountInterval, Basis, PointResult
from gpubench.cost import billing, price, whatif
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import observed, step
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.stats import gang, intervals
from gpubench.values import FrozenModel, Interval

_ABOVE = "the rows above"
_BASE = "by definition: this is the base"
NO_PRICE = "the pool has neither price nor ownership: give it one"
NO_INTERVAL = f"no interval: fewer than {intervals.REPEATS_FOR_INTERVAL} repeats, or they scatter too far"


_Number = str | float | Decimal | Interval | price.Rate
_Inputs = Mapping[str, _Number]


class Row(FrozenModel):
    """One figure. Without a formula it is as its origin has it."""

    field: str  # where the status has it, such as cost.perMillionSamples
    text: str
    figure: Interval | AmountInterval | None = None
    formula: str | None = None
    source: str | None = None  # of the formula
    inputs: tuple[str, ...] = ()  # `throughput = 1,900 (1,885–1,915)`
    origin: str  # of the inputs


class Explained(FrozenModel):
    """A point as the status has it, and its figures."""

    point: PointResult
    rows: tuple[Row, ...]


class _Place(NamedTuple):
    points: relative.Points
    position: int  # in the plan
    attempts: Sequence[AttemptRecord]  # those with a measurement
    plan: Plan
    point: Point
    result: PointResult
    entry: efficiency.MeasuredPoint | None

    def origin(self) -> str:
        if self.point.basis is Basis.IMPORTED and self.plan.imported is not None:
            return f"published by {self.plan.imported.origin}: {self.plan.imported.source}"
        if (source := expand.source_of(self.plan, self.point)) is None:
            return f"ledger, attempts {', '.join(one.key for one in self.attempts)}"
        return f"not run, {self.point.basis.value.lower()} from {text.describe(self.points.results[source])}"


def explained(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, *, index: int) -> Explained:
    """The figures of one of the plan's points; no rows where it has none, and was billed nothing."""
    made = step.of_ledger(plan, ledger, observed.Study.of_spec(spec))
    states, known = made.trials, ledger.environment_by_key
    entries = measured_points(plan, states)
    found = point_results(plan, states, made.points, spec.goals, baseline=spec.baseline, known=known)
    by_trial, trials = ledger.by_trial, plan.repeats_of_points()[index]
    measured = [record for trial in trials if (record := states[trial.id].measured) is not None]
    points = relative.Points(plan, found, entries, known)
    place = _Place(points, index, measured, plan, plan.points[index], found[index], entries[index])
    rows = (*_speed(place), *_scaling(place), *_training(place), *_cost(place, spec.goals))
    rows += (*_relative(place, spec.baseline), *_bill(plan, place.point, costs.ended_at(trials, by_trial)))
    return Explained(point=costs.with_bills(plan, found, by_trial)[index], rows=rows)


def _speed(place: _Place) -> Iterator[Row]:
    rate, found, key = place.result.throughput, place.result.bandwidth, place.point.key
    if rate is not None:
        yield _over_repeats(place, "throughput", rate, () if place.entry is None else place.entry.values)
    if rate is not None and found is not None:
        size = repeats.ELEMENT_BYTES[key.precision]
        inputs: _Inputs = {"throughput": rate, "bytes of an element": size, "workers": key.workers}
        yield _row("bandwidth.bus", found.bus, _ABOVE, repeats.BUS_BANDWIDTH, inputs)


def _scaling(place: _Place) -> Iterator[Row]:
    entry, imported = place.entry, place.plan.imported
    published = imported.at(place.position) if imported is not None else None
    among = efficiency.Among(one for one in place.points.entries if one is not None)
    for found in place.result.scaling:
        field, figure, base = f"scaling.{found.kind}", found.efficiency, None
        if entry is not None and (published is None or published.efficiency is None):
            base = efficiency.base(entry, among, kind=found.kind)
        if entry is None or base is None or base is entry:
            yield _row(field, figure, place.origin() if base is None else _BASE)
            continue
        workers, base_workers = entry.point.key.workers, base.point.key.workers
        means = {"throughput": fmean(entry.values), "base throughput": fmean(base.values)}
        inputs: _Inputs = {**means, "workers": workers, "base workers": base_workers}
        origin = f"{_ABOVE}; the base is {units.workers_text(base_workers)} on {base.point.key.pool}"
        yield _row(field, figure, origin, efficiency.EFFICIENCY, inputs, confidence=efficiency.confidence(entry, base))


def _training(place: _Place) -> Iterator[Row]:
    trained, region = place.result.training, place.plan.timed_region
    if trained is not None and trained.seconds is not None:
        runs = [one.result.training for one in place.attempts if one.result and one.result.training]
        values = [seconds for run in runs if (seconds := gang.timed_seconds(run, region)) is not None]
        row = _over_repeats(place, "training.seconds", trained.seconds, values)
        yield row.model_copy(update={"origin": f"{row.origin}; {text.timed_region(region)}"})


def _cost(place: _Place, goals: Sequence[Goal]) -> Iterator[Row]:
    plan, result, cost = place.plan, place.result, place.result.cost
    seconds = result.training.seconds if result.training is not None else None
    if (result.throughput is None and seconds is None) or result.workload == workloads.MESSAGES:
        return
    rate, used = pool_prices.planned_rate(plan, result.pool), costs.price_used(plan, plan.pool(result.pool))
    origin = _ABOVE if used is None else f"{_ABOVE}; {text.price(used)}"
    if rate is None:
        yield Row(field="cost", text=text.UNDEFINED, origin=pool_prices.without_exchange(plan, result.pool) or NO_PRICE)
    paid: _Inputs = {} if rate is None else {"rate": rate, "nodes": plan.paid_nodes(place.point)}
    speed: _Inputs = {} if result.throughput is None else {"throughput": result.throughput}
    if cost is not None and cost.per_million_samples is not None:
        inputs: _Inputs = {**paid, "samples": 1_000_000, **speed}
        yield _row("cost.perMillionSamples", cost.per_million_samples, origin, billing.COST_OF_SAMPLES, inputs)
    if cost is not None and cost.per_run is not None and seconds is not None:
        yield _row("cost.perRun", cost.per_run, origin, billing.COST_OF_RUN, {**paid, "seconds": seconds})
    samples = {goal.name: goal.samples for goal in goals}
    for goal in result.goals:
        inputs, field = {"samples": samples[goal.name], **speed}, f"goals.{goal.name}"
        yield _row(f"{field}.hours", goal.hours, _ABOVE, billing.HOURS_TO_SAMPLES, inputs)
        if goal.cost is not None:
            yield _row(f"{field}.cost", goal.cost, origin, billing.COST_OF_SAMPLES, {**paid, **inputs})


def _relative(place: _Place, named: RelativeBase | None) -> Iterator[Row]:
    shown = place.result.relative
    found = None if named is None else relative.related(place.points, named, index=place.position)
    if found is None or shown is None:
        return
    is_base = found.base == place.position
    origin = _BASE if is_base else f"the base is {text.describe(place.points.results[found.base])}"
    for name, ratio, figure in (("throughput", found.throughput, shown.throughput), ("time", found.time, shown.time)):
        field = f"relative.{name}"
        if ratio is not None and figure is not None and ratio.top is not None and ratio.bottom is not None:
            inputs: _Inputs = {"mean": ratio.top.mean, "other mean": ratio.bottom.mean}
            confidence = max(ratio.top.confidence, ratio.bottom.confidence)
            yield _row(field, figure, origin, intervals.RATIO_OF_MEANS, inputs, confidence=confidence)
        elif figure is not None:
            yield _row(field, figure, origin if is_base else f"{origin}, with the same runs")
    if shown.cost is not None and found.time is not None and (paid := found.prices) is not None:
        base_paid: _Inputs = {"base rate": paid.base_rate, "base nodes": paid.base_nodes}
        inputs = {"relative time": found.time.interval, "rate": paid.rate, "nodes": paid.nodes, **base_paid}
        yield _row("relative.cost", shown.cost, origin, whatif.RELATIVE_COST, inputs)


def _bill(plan: Plan, point: Point, records: Sequence[AttemptRecord]) -> Iterator[Row]:
    paid = costs.paid(plan, point, records)
    bill = None if paid is None else costs.bill_of(paid)
    if paid is not None and bill is not None:
        figure = AmountInterval(mean=bill.total, currency=bill.currency)
        inputs: _Inputs = {"bills of attempts": " + ".join(_number(one.total) for _, one in paid.attempts)}
        at_least = f"; {bill.incomplete} held nodes for longer than is known" if bill.incomplete else ""
        origin = f"ledger, attempts {', '.join(record.key for record, _ in paid.attempts)}{at_least}"
        yield _row("bill.total", figure, origin, billing.BILL_TOTAL, inputs)


#: Figures as `show` has them, by the first part of their field.
_TEXTS: Mapping[str, Callable[[Interval], str]] = {
    "throughput": lambda found: f"{text.spread(found)} samples/s",
    "scaling": text.percent,
    "bandwidth": lambda found: f"{text.spread(found, per=1e9)} GB/s",
    "training": text.duration,
    "goals": lambda found: f"at least {text.bounded(found)} hours",
    "relative": text.relative,
}


def _row(
    field: str,
    figure: Interval | AmountInterval,
    origin: str,
    formula: units.Formula | None = None,
    inputs: _Inputs | None = None,
    *,
    confidence: float | None = None,
) -> Row:
    """A figure, and where it is computed, its formula; `confidence` is that of an interval over repeats."""
    kind = field.partition(".")[0]
    if isinstance(figure, Interval):
        shown = _TEXTS[kind](figure)
    else:
        shown = f"{figure.currency} {figure.mean}" if kind == "bill" else text.money(figure)
    row = Row(field=field, text=shown, figure=figure, origin=origin)
    if formula is None:
        return row
    source = formula.source
    if confidence is not None:
        source += f"; {NO_INTERVAL}" if figure.low is None else f"; at {100 * confidence:.4g} %"
    listed = tuple(f"{name} = {_number(value)}" for name, value in (inputs or {}).items())
    return row.model_copy(update={"formula": formula.text, "source": source, "inputs": listed})


def _over_repeats(place: _Place, field: str, figure: Interval, values: Sequence[float]) -> Row:
    """A mean over repeats, with its interval where there is one; without values as its origin has it."""
    if not values:
        return _row(field, figure, place.origin())
    origin = f"{place.origin()}: {', '.join(map(_number, values))}"
    confidence = place.entry.confidence if place.entry is not None else intervals.CONFIDENCE
    sample = intervals.of_values(values, confidence=confidence)
    inputs: _Inputs = {"values": " + ".join(map(_number, values)), "repeats": len(values)}
    if sample.variation is not None:
        deviation = sample.mean * sample.variation
        inputs = {"mean": sample.mean, "t": sample.t, "deviation": deviation, "repeats": sample.count}
    formula = intervals.MEAN if sample.variation is None else intervals.OF_MEAN
    return _row(field, figure, origin, formula, inputs, confidence=confidence)


def _number(value: _Number) -> str:
    if isinstance(value, Interval):
        ends = "" if value.low is None or value.high is None else f" ({_number(value.low)}–{_number(value.high)})"
        return f"{_number(value.mean)}{ends}"
    if isinstance(value, price.Rate):
        return f"{value.currency} {_number(value.per_node_hour)}"
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else f"{float(value):,.7g}"
