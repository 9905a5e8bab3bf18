# SPDX-License-Identifier: Apache-2.0
"""How each figure of a point came to be: the formula, the numbers put in, the result, and who published the formula.

Every result is computed by the function that computed the status' figure, from the same plan and ledger; the formula
stands beside that function. Means of samples taken on the side (usage, power) are not explained: they are what they
are called. Must not happen: a line whose numbers do not give its result.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from gpubench import workloads
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.goals import Goal
from gpubench.api.point_result import AmountInterval, Basis, Estimate, PointResult
from gpubench.api.pool_price import Ownership, Price
from gpubench.control import (
    bills,
    costs,
    derived_results,
    estimates,
    explain_bill,
    explain_relative,
    judgement,
    results,
    steps,
    training_results,
)
from gpubench.control.ledger import Ledger
from gpubench.control.relative import Points
from gpubench.control.retries import TrialStanding
from gpubench.control.steps import Step
from gpubench.formula import Formula
from gpubench.measure import bandwidth, efficiency, intervals, throughput, training
from gpubench.measure.efficiency import MeasuredPoint
from gpubench.measure.intervals import Interval
from gpubench.measure.records import Result
from gpubench.money import derived as money
from gpubench.money import exchange, marginal, ownership, price
from gpubench.money.amount import Rate
from gpubench.plan import derived
from gpubench.plan.plan import Plan, Point
from gpubench.report import efficiencies, figures, tables
from gpubench.units import workers_text
from gpubench.values import Value

_MILLION = 1_000_000
_GIGA = 1e9
NO_PRICE = "the pool has neither price nor ownership: nobody said what it costs"
NO_INTERVAL = f"no interval: there are fewer than {intervals.REPEATS_FOR_INTERVAL} repeats"


class Explained(Value):
    """A point as the status has it, and its figures one after the other."""

    point: PointResult
    steps: tuple[Step, ...]


def explained(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, *, index: int) -> Explained:
    """How the figures of one of the plan's points came to be; no steps where it has none, and was billed nothing."""
    standings = judgement.of_ledger(plan, ledger, spec.limits)
    known, entries = ledger.environment_by_key(), results.measured_points(plan, standings)
    found = results.point_results(plan, standings, spec.goals, baseline=spec.baseline, known=known)
    point, result = plan.points[index], found[index]
    timed = result.throughput is not None or (result.training is not None and result.training.seconds is not None)
    if point.basis is Basis.IMPORTED:
        own = _imported(plan, result, entries, index=index)
    elif not timed:
        own = iter(())
    elif point.basis is Basis.MEASURED:
        own = _measured(plan, standings, index)
    else:
        own = _of_another(plan, point, result, among=found)
    found_steps = [*own]
    if timed and result.workload != workloads.MESSAGES:
        found_steps += _money(plan, point, result, spec.goals)
    if spec.baseline is not None:
        found_steps += explain_relative.steps_of(Points(plan, found, entries, known), spec.baseline, index=index)
    attempts = ledger.by_trial()
    found_steps += explain_bill.steps_of(plan, attempts, index=index)
    (billed,) = bills.with_bills(plan, found, attempts)[index : index + 1]
    return Explained(point=billed, steps=tuple(found_steps))


# --- what was measured ------------------------------------------------------------------------------------------------


def _measured(plan: Plan, standings: Mapping[str, TrialStanding], index: int) -> Iterator[Step]:
    entries = results.measured_points(plan, standings)
    entry = entries[index]
    assert entry is not None  # the point has a throughput
    measured = [
        (trial.id, standings[trial.id].result)
        for trial in plan.repeats_of_points()[index]
        if standings[trial.id].result is not None
    ]
    runs = [result for _, result in measured if result is not None]
    for (trial, _), run, value in zip(measured, runs, entry.values, strict=True):
        samples, nanoseconds = throughput.counted(run, plan.timed_region)
        yield steps.step(
            f"throughput of trial {trial}",
            throughput.SAMPLES_PER_SECOND,
            {"samples": steps.number(samples), "seconds": steps.number(nanoseconds / 1e9)},
            result=f"{steps.number(value)} samples/s",
        )
    found = estimates.estimate(intervals.of_mean(entry.values, entry.confidence))
    text = f"{figures.throughput(found)} samples/s"
    yield from _over_repeats("throughput", entry.values, entry.confidence, found, text=text, field="throughput")
    if entry.point.key.workload == workloads.MESSAGES:
        yield from _bandwidth(entry)
    else:
        yield from _scaling(entry, [one for one in entries if one is not None])
    yield from _training(plan, entry, runs)


def _over_repeats(
    name: str, values: Sequence[float], confidence: float, found: Estimate, *, text: str, field: str
) -> Iterator[Step]:
    """A mean over repeats, and its interval where there is one."""
    numbers = {"values": " + ".join(map(steps.number, values)), "repeats": str(len(values))}
    student = intervals.student(values, confidence) if found.low is not None else None
    if student is None:
        source = intervals.MEAN.source if len(values) >= intervals.REPEATS_FOR_INTERVAL else NO_INTERVAL
        yield steps.step(name, intervals.MEAN, numbers, result=text, source=source, field=field, estimate=found)
        return
    yield steps.step(f"mean {name}", intervals.MEAN, numbers, result=steps.number(student.mean))
    put_in = {
        "mean": steps.number(student.mean),
        "t": steps.number(student.t),
        "deviation": steps.number(student.deviation),
        "repeats": str(student.count),
    }
    source = f"{intervals.STUDENT.source}{steps.at_confidence(confidence)}"
    yield steps.step(name, intervals.STUDENT, put_in, result=text, source=source, field=field, estimate=found)


def _scaling(entry: MeasuredPoint, among: Sequence[MeasuredPoint]) -> Iterator[Step]:
    for found in efficiency.efficiencies(entry, among):
        against = efficiency.base(entry, among, kind=found.kind)
        assert against is not None  # it has an efficiency
        estimate = estimates.estimate(found.interval)
        name, field = f"{found.kind} scaling efficiency", f"scaling.{found.kind}"
        if against is entry:
            yield Step(
                name=name, result="100 %", source="by definition: this is the base", field=field, estimate=estimate
            )
            continue
        workers = {"workers": str(entry.point.key.workers), "base_workers": str(against.point.key.workers)}
        means = {
            "throughput": steps.number(intervals.mean(entry.values)),
            "base_throughput": steps.number(intervals.mean(against.values)),
        }
        key = against.point.key
        source = f"{efficiency.EFFICIENCY.source}: {workers_text(key.workers)} on {key.pool}"
        ratio = intervals.fieller(entry.values, against.values, efficiency.confidence(entry, against))
        bounded = ratio is not None and found.interval.low is not None
        yield steps.step(
            f"mean {name}" if bounded else name,
            efficiency.EFFICIENCY,
            {**workers, **means},
            result=figures.percent(Estimate(mean=found.interval.mean)),
            source=source,
            field=None if bounded else field,
            estimate=None if bounded else estimate,
        )
        if ratio is None or not bounded:
            continue
        put_in = {**workers, **steps.of_fieller(ratio)}
        source = (
            f"{efficiency.INTERVAL.source}{steps.at_confidence(efficiency.confidence(entry, against))}, with "
            f"{ratio.freedom:.3g} degrees of freedom"
        )
        yield steps.step(
            name,
            efficiency.INTERVAL,
            put_in,
            result=figures.percent(estimate),
            source=source,
            field=field,
            estimate=estimate,
        )


def _bandwidth(entry: MeasuredPoint) -> Iterator[Step]:
    key = entry.point.key
    elements = intervals.of_mean(entry.values, entry.confidence)
    found = bandwidth.of_throughput(elements, workers=key.workers, precision=key.precision)
    if found is None:
        return
    size = str(bandwidth.ELEMENT_BYTES[key.precision])
    algorithm, bus = estimates.estimate(found.algorithm), estimates.estimate(found.bus)
    yield steps.scaled(
        "algorithm bandwidth",
        bandwidth.ALGORITHM,
        "elements_per_second",
        elements,
        {"bytes_of_an_element": size, "workers": str(key.workers)},
        result=f"{figures.spread(algorithm, per=_GIGA)} GB/s",
        field="bandwidth.algorithm",
        estimate=algorithm,
    )
    yield steps.scaled(
        "bus bandwidth",
        bandwidth.BUS,
        "algorithm_bandwidth",
        found.algorithm,
        {"workers": str(key.workers)},
        result=f"{figures.spread(bus, per=_GIGA)} GB/s",
        field="bandwidth.bus",
        estimate=bus,
    )


def _training(plan: Plan, entry: MeasuredPoint, runs: Sequence[Result]) -> Iterator[Step]:
    region, confidence = plan.timed_region, entry.confidence
    found = training_results.training_result(runs, region, planned=entry.point.key.epochs, confidence=confidence)
    if found is None:
        return
    trained = [run.training for run in runs if run.training is not None]
    if found.seconds is not None and found.seconds_per_epoch is not None:
        formula = training.TIMED_SECONDS[region.evaluation, region.first_epoch]
        seconds = []
        for number, run in enumerate(trained, start=1):
            timed = training.timed_seconds(run, region)
            assert timed is not None  # there is a mean of them
            seconds.append(timed)
            put_in = {
                "training": steps.number(run.nanoseconds / 1e9),
                "evaluation": steps.number(run.evaluation_nanoseconds / 1e9),
                "first_epoch": steps.number(run.first_nanoseconds / 1e9),
                "first_evaluation": steps.number(run.first_evaluation_nanoseconds / 1e9),
            }
            yield steps.step(f"seconds of repeat {number}", formula, put_in, result=f"{steps.number(timed)} s")
        yield from _over_repeats(
            "seconds of a run",
            seconds,
            confidence,
            found.seconds,
            text=figures.duration(found.seconds),
            field="training.seconds",
        )
        yield steps.scaled(
            "seconds per epoch",
            training.PER_EPOCH,
            "seconds",
            estimates.interval(found.seconds),
            {"epochs": str(training.timed_epochs(trained[0], region))},
            result=f"{figures.spread(found.seconds_per_epoch)} s",
            field="training.secondsPerEpoch",
            estimate=found.seconds_per_epoch,
        )
    if found.quality is not None:
        metric = found.quality.metric
        for name, field, estimate, values in (
            (f"{metric} after the last epoch", "final", found.quality.final, [run.final for run in trained]),
            (f"{metric} of the best epoch", "best", found.quality.best, [run.best for run in trained]),
        ):
            if estimate is None:
                continue
            text = figures.percent(estimate) if metric == "accuracy" else figures.spread(estimate)
            told = [value for value in values if value is not None]
            yield from _over_repeats(name, told, confidence, estimate, text=text, field=f"training.quality.{field}")


# --- what was measured elsewhere --------------------------------------------------------------------------------------


def _imported(
    plan: Plan, result: PointResult, entries: Sequence[MeasuredPoint | None], *, index: int
) -> Iterator[Step]:
    """Figures of a publication: as they are printed, and what follows from them."""
    assert plan.imported is not None  # the basis of its points
    published, entry = plan.imported.at(index), entries[index]
    if published is None:
        return
    origin = f"published by {plan.imported.origin}: {plan.imported.source}"
    confidence = intervals.CONFIDENCE
    if entry is not None and result.throughput is not None:
        text = f"{figures.throughput(result.throughput)} samples/s"
        for step in _over_repeats(
            "throughput", entry.values, confidence, result.throughput, text=text, field="throughput"
        ):
            yield step.model_copy(update={"source": f"{step.source}; {origin}"})
    if published.efficiency is not None:
        for scaling in result.scaling:
            name, field = f"{scaling.kind} scaling efficiency", f"scaling.{scaling.kind}"
            text = figures.percent(scaling.efficiency)
            yield Step(name=name, result=text, source=origin, field=field, estimate=scaling.efficiency)
    elif entry is not None:
        yield from _scaling(entry, [one for one in entries if one is not None])
    for name, field, estimate, text in _trained(result):
        yield Step(name=name, result=text, source=f"mean over the runs; {origin}", field=field, estimate=estimate)


# --- what was not run -------------------------------------------------------------------------------------------------


def _of_another(plan: Plan, point: Point, result: PointResult, *, among: Sequence[PointResult]) -> Iterator[Step]:
    """A derived point's throughput: another one's as it is, or extrapolated from it."""
    index = derived.source_of(plan, point)
    assert index is not None  # it has a throughput
    source = among[index]
    origin = f"measured at {tables.describe(source)}; this point was not run"
    if point.basis is Basis.EXTRAPOLATED:
        yield from _extrapolated(plan, point, result, source=source, among=among, origin=origin)
        return
    for name, field, estimate, text in _taken(result):
        yield Step(name=name, result=text, source=f"re-priced: {origin}", field=field, estimate=estimate)


def _taken(result: PointResult) -> Iterator[tuple[str, str, Estimate, str]]:
    """What a re-priced point has of the one that stands for it: name, field, figure and its text."""
    if result.throughput is not None:
        yield "throughput", "throughput", result.throughput, f"{figures.throughput(result.throughput)} samples/s"
    yield from _trained(result)
    if result.bandwidth is not None:
        for place, found in (("algorithm", result.bandwidth.algorithm), ("bus", result.bandwidth.bus)):
            yield f"{place} bandwidth", f"bandwidth.{place}", found, f"{figures.spread(found, per=_GIGA)} GB/s"


def _trained(result: PointResult) -> Iterator[tuple[str, str, Estimate, str]]:
    """What a point has of a training, whoever made it."""
    trained = result.training
    if trained is not None and trained.seconds is not None:
        yield "seconds of a run", "training.seconds", trained.seconds, figures.duration(trained.seconds)
    if trained is not None and (each := trained.seconds_per_epoch) is not None:
        yield "seconds per epoch", "training.secondsPerEpoch", each, f"{figures.spread(each)} s"
    if trained is not None and (quality := trained.quality) is not None:
        for place, found in (("final", quality.final), ("best", quality.best)):
            if found is None:
                continue
            text = figures.percent(found) if quality.metric == "accuracy" else figures.spread(found)
            yield f"{quality.metric} ({place})", f"training.quality.{place}", found, text


def _extrapolated(
    plan: Plan, point: Point, result: PointResult, *, source: PointResult, among: Sequence[PointResult], origin: str
) -> Iterator[Step]:
    assert source.throughput is not None
    assert result.throughput is not None
    found = efficiencies.of_line(
        derived_results.same_training(plan, point, among),
        line=derived.line_of(point),
        baseline_workers=source.workers,
    )
    mean = money.mean_efficiency([Decimal(one) for one in found])
    listed = {"efficiencies": " + ".join(map(steps.number, found)), "count": str(len(found))}
    yield steps.step("mean efficiency", money.MEAN_EFFICIENCY, listed, result=steps.number(mean))
    yield steps.step(
        "throughput",
        money.EXTRAPOLATED,
        {
            "times": steps.number(Decimal(point.key.workers) / source.workers),
            "throughput": steps.number(source.throughput.mean),
            "mean_efficiency": steps.number(mean),
        },
        result=f"{figures.throughput(result.throughput)} samples/s",
        source=f"{money.EXTRAPOLATED.source}; {origin}",
        field="throughput",
        estimate=result.throughput,
    )


# --- what it costs ----------------------------------------------------------------------------------------------------


def _money(plan: Plan, point: Point, result: PointResult, goals: Sequence[Goal]) -> Iterator[Step]:
    speed = None if result.throughput is None else estimates.interval(result.throughput)
    rate = price.planned_rate(plan, point.key.pool)
    nodes = plan.paid_nodes(point)
    if rate is None:
        why = price.without_exchange(plan, point.key.pool) or NO_PRICE
        yield Step(name="price of a node for an hour", result=figures.UNDEFINED, source=why)
    else:
        yield from _rate(plan, point.key.pool, rate)
        yield _nodes(plan, point, nodes)
        yield from _cost(result, rate, nodes, speed)
    for goal in goals:
        if goal.workload == result.workload and speed is not None:
            yield from _goal(goal, speed, rate=rate, nodes=nodes)


def _rate(plan: Plan, pool: str, rate: Rate) -> Iterator[Step]:
    """The price of a node for an hour: as it is given, made of its parts, and in the study's currency."""
    spec = plan.pool(pool).spec
    own = price.rate(spec)
    assert own is not None  # there is a rate in the study's currency
    name, result = "price of a node for an hour", steps.hour(own)
    terms = spec.price or spec.ownership
    assert terms is not None
    origin = f"{terms.source or 'source not given'}, {terms.as_of}"
    match terms:
        case Ownership():
            yield steps.step(
                f"{name} of use",
                ownership.HOUR_OF_USE,
                _owned(terms),
                result=result,
                source=_both(ownership.HOUR_OF_USE, origin),
            )
        case Price(per_slot_hour=str(slot)):
            put_in = {"price_of_a_slot": f"{own.currency} {slot}", "slots": str(spec.slots_per_node)}
            yield steps.step(
                name, price.HOUR_OF_SLOTS, put_in, result=result, source=_both(price.HOUR_OF_SLOTS, origin)
            )
        case Price(per_month=str(month)):
            put_in = {"price_of_a_month": f"{own.currency} {month}", "hours_used": str(terms.hours_per_month)}
            yield steps.step(
                name, price.HOUR_OF_MONTH, put_in, result=result, source=_both(price.HOUR_OF_MONTH, origin)
            )
        case Price(components=tuple(parts)):
            listed = " + ".join(f"{part.per_hour} x {part.count}" for part in parts)
            named = ", ".join(part.name for part in parts)
            source = f"{_both(price.HOUR_OF_COMPONENTS, origin)} ({named})"
            yield steps.step(name, price.HOUR_OF_COMPONENTS, {"components": listed}, result=result, source=source)
        case _:
            yield Step(name=name, result=result, source=f"as it is given: {origin}")
    if rate.currency != own.currency:
        dated = exchange.dated_rate(plan.exchange_rates, currency=own.currency)
        assert dated is not None  # it was exchanged
        put_in = {"amount": f"{own.currency} {steps.number(own.per_node_hour)}", "exchange_rate": dated.rate}
        source = f"{exchange.EXCHANGED.source}: {dated.source or 'source not given'}, {dated.as_of}"
        yield steps.step(
            f"{name} in {rate.currency}", exchange.EXCHANGED, put_in, result=steps.hour(rate), source=source
        )


def _owned(terms: Ownership) -> dict[str, str]:
    hours = Decimal(terms.hours_per_month)
    return {
        "purchase": f"{terms.currency} {terms.purchase}",
        "residual": terms.residual,
        "lifetime_months": str(terms.lifetime_months),
        "fixed_per_month": terms.per_month,
        "watts": str(terms.watts),
        "idle_watts": str(terms.idle_watts),
        "hours_used": str(terms.hours_per_month),
        "idle_hours": steps.number(ownership.idle_hours(hours)),
        "price_of_a_kilowatt_hour": terms.per_kilowatt_hour,
    }


def _nodes(plan: Plan, point: Point, nodes: Decimal) -> Step:
    spec = plan.pool(point.key.pool).spec
    if spec.exclusive_nodes:
        source = "nodes are exclusive: each is paid for as a whole, however many of its slots work"
        return Step(name="nodes to pay for", result=steps.number(nodes), source=source)
    put_in = {"workers": str(point.key.workers), "slots_per_node": str(spec.slots_per_node)}
    return steps.step("nodes to pay for", costs.SHARED_NODES, put_in, result=steps.number(nodes))


def _both(formula: Formula, origin: str) -> str:
    return f"{formula.source}; {origin}"


def _cost(result: PointResult, rate: Rate, nodes: Decimal, speed: Interval | None) -> Iterator[Step]:
    if speed is not None:
        amount = estimates.amounts(marginal.per_million_samples(rate, nodes=nodes, throughput=speed))
        if amount is None:
            return
        yield _of_samples(
            "cost per million samples", _MILLION, speed, amount, rate=rate, nodes=nodes, field="cost.perMillionSamples"
        )
    seconds = result.training.seconds if result.training is not None else None
    if seconds is None:
        return
    run = estimates.amounts(marginal.per_seconds(rate, nodes=nodes, seconds=estimates.interval(seconds)))
    if run is None:
        return

    def line(value: float) -> str:
        return money.COST_OF_RUN.filled(rate=steps.hour(rate), nodes=steps.number(nodes), seconds=steps.number(value))

    yield Step(
        name="cost of a run",
        formula=money.COST_OF_RUN.text,
        numbers=line(seconds.mean),
        low=None if run.low is None or seconds.low is None else line(seconds.low),
        high=None if run.high is None or seconds.high is None else line(seconds.high),
        result=figures.money(run),
        source=money.COST_OF_RUN.source,
        field="cost.perRun",
        amount=run,
    )


def _goal(goal: Goal, speed: Interval, *, rate: Rate | None, nodes: Decimal) -> Iterator[Step]:
    hours = estimates.estimate(marginal.hours_to_samples(goal.samples, throughput=speed))

    def line(value: float) -> str:
        return money.HOURS_TO_SAMPLES.filled(samples=steps.number(goal.samples), throughput=steps.number(value))

    yield Step(
        name=f"hours of goal {goal.name}",
        formula=money.HOURS_TO_SAMPLES.text,
        numbers=line(speed.mean),
        low=None if hours.low is None or speed.high is None else line(speed.high),
        high=None if hours.high is None or speed.low is None else line(speed.low),
        result=f"at least {figures.bounded(hours)} hours",
        source=money.HOURS_TO_SAMPLES.source,
        field=f"goals.{goal.name}.hours",
        estimate=hours,
    )
    if rate is None:
        return
    samples = Decimal(goal.samples)
    cost = estimates.amounts(marginal.per_samples(rate, nodes=nodes, throughput=speed, samples=samples))
    if cost is not None:
        name, field = f"cost of goal {goal.name}", f"goals.{goal.name}.cost"
        yield _of_samples(name, goal.samples, speed, cost, rate=rate, nodes=nodes, field=field)


def _of_samples(
    name: str, samples: int, speed: Interval, amount: AmountInterval, *, rate: Rate, nodes: Decimal, field: str
) -> Step:
    """A cost of samples: the fast end of the throughput is the cheap one."""

    def line(value: float) -> str:
        return money.COST_OF_SAMPLES.filled(
            rate=steps.hour(rate),
            nodes=steps.number(nodes),
            samples=steps.number(samples),
            throughput=steps.number(value),
        )

    return Step(
        name=name,
        formula=money.COST_OF_SAMPLES.text,
        numbers=line(speed.mean),
        low=None if amount.low is None or speed.high is None else line(speed.high),
        high=None if amount.high is None or speed.low is None else line(speed.low),
        result=figures.money(amount),
        source=money.COST_OF_SAMPLES.source,
        field=field,
        amount=amount,
    )
