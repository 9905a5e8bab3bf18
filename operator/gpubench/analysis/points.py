# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import fmean
from typing import Literal

from gpubench import records, workloads
from gpubench.analysis import costs, efficiency, health, pairs, relative, repeats, text, warnings
from gpubench.analysis.efficiency import Among, MeasuredPoint
from gpubench.analysis.text import NOT_PUBLISHED
from gpubench.api import measuring, status_sizes
from gpubench.api.goals import Goal, RelativeBase
from gpubench.api.point_result import (
    OPEN,
    SOURCES,
    Basis,
    EnvironmentFacts,
    GpuUsage,
    PointResult,
    PointState,
    Quality,
    Scaling,
    Spread,
    Stopping,
    TrainingResult,
)
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.cost import whatif
from gpubench.plan import expand
from gpubench.plan.plan import Imported, ImportedPoint, Plan, Point
from gpubench.records import Environment, Result
from gpubench.scheduler import conditions, stopping, trials
from gpubench.scheduler.environments import EnvironmentKey, distinct, key_of
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.scheduler.trials import PointStatus, TrialState, TrialStatus
from gpubench.stats import gang, intervals
from gpubench.units import counted, workers_text
from gpubench.values import Interval


def point_results(
    plan: Plan,
    trials: Mapping[str, TrialStatus],
    points: Sequence[PointStatus],
    goals: Sequence[Goal] = (),
    *,
    baseline: RelativeBase | None = None,
    known: Mapping[str, Environment] | None = None,
) -> tuple[PointResult, ...]:
    """The results of all points, in the plan's order; `known` are the environments that were read, by key."""
    entries = measured_points(plan, trials)
    beside = warnings.Beside(
        among=Among(entry for entry in entries if entry is not None),
        known=known or {},
        weak=health.weak_trials(plan, [one.measured for one in trials.values() if one.measured is not None]),
    )
    found = []
    for index, (point, of_point) in enumerate(zip(plan.points, plan.repeats_of_points(), strict=True)):
        if point.basis is Basis.MEASURED:
            own = [trials[trial.id] for trial in of_point]
            found.append(_result(plan, point, points[index], own, entry=entries[index], beside=beside))
        elif point.basis is Basis.IMPORTED:
            found.append(_imported(plan, index, entries[index], among=beside.among))
        else:
            found.append(pairs.blank(plan, point))
    costed = [
        costs.costed(plan, point, one if point.basis in SOURCES else _derived(plan, point, one, results=found), goals)
        for point, one in zip(plan.points, found, strict=True)
    ]
    return tuple(relative.with_relative(relative.Points(plan, costed, entries, known or {}), baseline))


def measured_points(plan: Plan, trials: Mapping[str, TrialStatus]) -> list[MeasuredPoint | None]:
    """The throughputs of each point, or those imported; None of one without any, or whose repeats are not averaged."""
    found: list[MeasuredPoint | None] = []
    for index, (point, of_point) in enumerate(zip(plan.points, plan.repeats_of_points(), strict=True)):
        if plan.imported is None:
            entry = _measured(plan, point, [trials[trial.id] for trial in of_point])
        else:
            runs = one.runs if (one := plan.imported.at(index)) is not None else ()
            values = tuple(run.samples_per_second for run in runs if run.samples_per_second is not None)
            is_known = one is not None and not one.extrapolated and bool(values)
            entry = MeasuredPoint(point=point, values=values, environment=_ELSEWHERE) if is_known else None
        baseline = None if entry is None else plan.pool(point.key.pool).spec.scaling_baseline
        if entry is not None and baseline not in {None, point.key.pool}:
            entry = replace(entry, scaling_baseline=baseline)
        found.append(entry)
    return found


def _measured(plan: Plan, point: Point, of_point: Sequence[TrialStatus]) -> MeasuredPoint | None:
    found = trials.environment_keys(of_point)
    if len(found) != 1:
        return None
    return MeasuredPoint(
        point=point,
        values=tuple(gang.samples_per_second(one, plan.timed_region) for one in _results(of_point)),
        environment=found[0],
        settled=not trials.unstable(of_point),
        confidence=stopping.confidence_of_plan(plan),
    )


def _results(trials: Iterable[TrialStatus]) -> list[Result]:
    return [trial.result for trial in trials if trial.result is not None]


def _result(
    plan: Plan,
    point: Point,
    status: PointStatus,
    of_point: Sequence[TrialStatus],
    *,
    entry: MeasuredPoint | None,
    beside: warnings.Beside,
) -> PointResult:
    measured = [trial.measured for trial in of_point if trial.measured]
    update: dict[str, object] = {
        "state": status.state,
        "reason": conditions.clamped(status.message, status_sizes.REASON_MAX) if status.message else None,
        "omission": status.omission,
        "spread": _spread(point, measured),
        "nodes": len({node for record in measured for node in record.nodes}),
    }
    if entry is None:
        return pairs.blank(plan, point).model_copy(update=update)
    results, ended = _results(of_point), status.state in (PointState.MEASURED, PointState.UNSTABLE)
    throughput = intervals.of_mean(entry.values, entry.confidence)
    training, untimed = repeats.training_result(
        results, plan.timed_region, planned=point.key.epochs, confidence=entry.confidence
    )
    update |= repeats.usage(results) | {
        "values": entry.values,
        "throughput": throughput,
        "energy": repeats.energy(plan, point, results, confidence=entry.confidence),
        "stopping": _stopping(plan, of_point) if ended else None,
        "training": training,
        "environment": records.environment_shown(entry.environment.environment),
        "instance_type": instance_type_shown(entry.environment),
    }
    # More workers have no share in the time of a message: bandwidth is what is compared over worker counts.
    if point.key.workload != workloads.MESSAGES:
        update["scaling"] = efficiency.efficiencies(entry, beside.among)
    else:
        key = point.key
        update["bandwidth"] = repeats.bandwidth(throughput, workers=key.workers, precision=key.precision)
    found = pairs.blank(plan, point).model_copy(update=update)
    said = warnings.of_point(plan, found, of_point, entry, beside, untimed=untimed)
    return found.model_copy(update={"warnings": said})


def _spread(point: Point, records: Sequence[AttemptRecord]) -> Spread | None:  # the most of each level over the repeats
    zones, blocks, racks = (max((one.spread[level] or 0 for one in records), default=0) or None for level in range(3))
    found = Spread(zones=zones, blocks=blocks, racks=racks)
    return None if point.nodes == 1 or found == Spread() else found


def _stopping(plan: Plan, trials: Sequence[TrialStatus]) -> Stopping | None:
    """How the number of repeats of a point that has ended came about; None where a failure or a limit cut it short."""
    if any(trial.state in (TrialState.GIVEN_UP, TrialState.NOT_RUN) for trial in trials):
        return None
    if (rule := stopping.of_plan(plan)) is None:
        return "Fixed"
    if any(trial.state is TrialState.NOT_NEEDED for trial in trials):
        return "PrecisionReached"
    half = stopping.half_width(plan, _results(trials))
    return "PrecisionReached" if half is not None and half <= rule.relative_half_width else "MaximumReached"


# --- derived: another point's figures, as they are or extrapolated to more workers ------------------------------------
#
# A re-priced point has its source's figures at the price of its own pool. An extrapolated one has
# T = T(source) x workers / workers of the source x mean efficiency, the mean over all points of more workers that the
# benchmark measured for the same workload and batch on the same line (weak or strong), relative to as many workers as
# the source has (as Parkopedia, 2018, did for four GTX 1080 Ti). An efficiency relative to fewer would count again what
# the source has already lost. There is no interval: how other nodes' efficiencies scatter is nothing certain about this
# one. No efficiency is made of a derived figure: its `values` are empty, its `basis` and a warning say what it is.


def _without_figures(blank: PointResult, state: PointState, reason: str) -> PointResult:
    return blank.model_copy(update={"state": state, "reason": conditions.clamped(reason, status_sizes.REASON_MAX)})


def _derived(plan: Plan, point: Point, blank: PointResult, *, results: Sequence[PointResult]) -> PointResult:
    """A derived point's result from those of points that are not; `blank` is the same without any figure."""
    index = expand.source_of(plan, point)
    if point.skip is not None or index is None:
        return _without_figures(blank, PointState.SKIPPED, point.skip or "no point of this benchmark stands for it")
    source = results[index]
    if source.state in OPEN:
        return blank
    if source.state is PointState.NOT_PUBLISHED:
        return _without_figures(blank, source.state, NOT_PUBLISHED)
    if source.throughput is None and (source.training is None or point.basis is Basis.EXTRAPOLATED):
        why = source.reason or "its samples per second are not known"
        state = PointState.SKIPPED if source.state is PointState.MEASURED else source.state
        return _without_figures(blank, state, f"its figures would come from {text.describe(source)}: {why}")
    if point.basis is Basis.EXTRAPOLATED and source.throughput is not None:
        return _extrapolated(plan, point, blank, source, source.throughput, results=results)
    repriced = warnings.warning(WarningReason.REPRICED, f"re-priced from {_place(source)}: not run here")
    figures = {name: getattr(source, name) for name in ("throughput", "training", "bandwidth")}
    return _of_source(blank, source, repriced, figures)


def _extrapolated(
    plan: Plan,
    point: Point,
    blank: PointResult,
    source: PointResult,
    throughput: Interval,
    *,
    results: Sequence[PointResult],
) -> PointResult:
    line = expand.line_of(point)
    alike = [
        result
        for other, result in zip(plan.points, results, strict=True)
        if result.basis in SOURCES and expand.same_training(line, other.key, point.key)
    ]
    if any(result.state in OPEN for result in alike):
        return blank  # the mean would still change
    found = [Decimal(one) for one in efficiencies_on_line(alike, line=line, baseline_workers=source.workers)]
    if not found:
        reason = (
            f"no point on several workers gives an efficiency of {blank.workload} at {expand.batch_text(point)} "
            f"relative to {workers_text(source.workers)}, from which {blank.pool} is extrapolated: "
            f"{_why_none(source, alike)}"
        )
        return _without_figures(blank, PointState.SKIPPED, reason)
    mean, factor = whatif.mean_efficiency(found), point.key.workers / source.workers
    speed = whatif.extrapolated(Decimal(throughput.mean), times=Decimal(factor), efficiencies=found)
    warning = warnings.warning(
        WarningReason.EXTRAPOLATED,
        f"extrapolated: {_place(source)}, times {factor:g}, times {float(mean):.4g}, the mean efficiency of "
        f"{counted(len(found), 'measured point')}: not run here, and without an interval",
        figures={"efficiency": float(mean), "points": len(found)},
    )
    return _of_source(blank, source, warning, {"throughput": Interval(mean=float(speed))})


def _of_source(
    blank: PointResult, source: PointResult, warning: PointWarning, figures: Mapping[str, object]
) -> PointResult:
    common = {
        "state": source.state,  # Measured, or Unstable: a price steadies nothing
        "environment": source.environment,
        "instance_type": source.instance_type,
        "warnings": (warning, *source.warnings),
    }
    return blank.model_copy(update={**common, **figures})


def _why_none(source: PointResult, alike: Sequence[PointResult]) -> str:
    """Why there is no efficiency: what the points themselves are warned of, else none of them has more workers."""
    for result in alike:
        for warning in result.warnings:
            is_why = warning.reason in (WarningReason.UNSETTLED, WarningReason.NO_EFFICIENCY)
            if is_why and result.workers > source.workers:
                return f"of {_place(result)}, {warning.message}"
    return "measure one in this benchmark, or set measuredBy.workers to the smallest worker count of the others"


def _place(source: PointResult) -> str:
    return f"{source.pool}, {workers_text(source.workers)}"


def efficiencies_on_line(
    alike: Sequence[PointResult], *, line: Literal["weak", "strong"], baseline_workers: int
) -> list[float]:
    """The efficiencies on a line of all settled points among these that have more workers than a base of so many."""
    return [
        found.efficiency.mean
        for result in alike
        if result.state is not PointState.UNSTABLE
        for found in result.scaling
        if found.kind == line and found.baseline_workers == baseline_workers < result.workers
    ]


# --- imported: measured elsewhere, before -----------------------------------------------------------------------------
#
# They go through the functions that measured ones go through: the mean of their repeats, with an interval of three or
# more, and efficiencies relative to the smallest worker count. A published efficiency is shown as it is printed: the
# throughputs behind it are often in a chart only. Their `basis` and a warning say whose they are.

#: Of all figures of one import: they come from one place, which nobody recorded.
_ELSEWHERE = EnvironmentKey("imported", "")


def _imported(plan: Plan, index: int, measured: MeasuredPoint | None, *, among: Among) -> PointResult:
    point = plan.points[index]
    blank = pairs.blank(plan, point)
    if point.skip is not None:
        return _without_figures(blank, PointState.SKIPPED, point.skip)
    found = plan.imported.at(index) if plan.imported is not None else None
    if found is None or plan.imported is None:
        return _without_figures(blank, PointState.NOT_PUBLISHED, NOT_PUBLISHED)
    training = _imported_training(plan, point, found)
    utilization = _mean(run.gpu_utilization for run in found.runs)
    throughput = intervals.of_mean(measured.values) if measured is not None else None
    if found.extrapolated and (rate := _mean(run.samples_per_second for run in found.runs)) is not None:
        throughput = Interval(mean=rate)  # no measurement: without values nothing is made of it
    is_known = throughput is not None or training is not None
    if found.efficiency is not None and not found.extrapolated:
        scaling: tuple[Scaling, ...] = (_published_scaling(plan, point, found.efficiency),)
    else:
        scaling = () if measured is None else efficiency.efficiencies(measured, among)
    return blank.model_copy(
        update={
            "basis": Basis.EXTRAPOLATED if found.extrapolated else point.basis,
            "state": PointState.MEASURED if is_known else PointState.NOT_PUBLISHED,
            "reason": None if is_known else _unknown(plan, found),
            "repeats": len(found.runs) or None,
            "values": measured.values if measured is not None else (),
            "throughput": throughput,
            "scaling": scaling,
            "training": training,
            "gpu": None if utilization is None else GpuUsage(utilization=utilization),
            "warnings": tuple(warnings.warning(WarningReason.IMPORTED, said) for said in _said(plan.imported, found)),
        }
    )


def _said(imported: Imported, found: ImportedPoint) -> Iterator[str]:
    yield f"imported from {imported.origin}: not measured by gpubench"
    if found.extrapolated:
        yield "extrapolated by whoever published it: not measured there either"
    if len(found.runs) >= intervals.REPEATS_FOR_INTERVAL and len(set(found.runs)) == 1:
        yield f"all {len(found.runs)} repeats are the same to the last digit: were they measured, or copied?"
    if found.note is not None:
        yield found.note


def _unknown(plan: Plan, found: ImportedPoint) -> str:
    if found.speed is not None:
        key = plan.points[found.speed.over].key
        base = f"{key.pool}, {workers_text(key.workers)}"
        return f"{NOT_PUBLISHED}: only that it was {found.speed.times} times as fast as {base}"
    return f"{NOT_PUBLISHED}: only its efficiency" if found.efficiency is not None else NOT_PUBLISHED


def _published_scaling(plan: Plan, point: Point, published: str) -> Scaling:
    """An efficiency as it was published, relative to the base that gpubench would have taken."""
    pool, line = point.key.pool, expand.line_of(point)
    baseline = plan.pool(pool).spec.scaling_baseline or pool
    smaller = [
        other.key.workers
        for other in plan.points
        if other.key.pool == baseline
        and other.key.workers < point.key.workers
        and expand.same_training(line, other.key, point.key)
    ]
    return Scaling(
        kind=line,
        baseline_workers=min(smaller, default=1),
        baseline_pool=baseline if baseline != pool else None,
        efficiency=Interval(mean=float(published)),
    )


def _imported_training(plan: Plan, point: Point, found: ImportedPoint) -> TrainingResult | None:
    runs, seconds = found.runs, _of_all(run.seconds for run in found.runs)
    if plan.mode is not measuring.Mode.TRAINING or not seconds or point.key.epochs is None:
        return None
    region, every = plan.timed_region, max(run.evaluated_every_seconds or 0.0 for run in runs)
    interval = Interval(mean=fmean(seconds)) if found.extrapolated else intervals.of_mean(seconds, step=every)
    epochs = point.key.epochs - (region.first_epoch == "Excluded")
    quality = None
    for metric, values in (("loss", [run.evaluation_loss for run in runs]), ("accuracy", [r.accuracy for r in runs])):
        if finals := _of_all(values):
            quality = Quality(metric=metric, final=repeats.within(metric, finals, intervals.CONFIDENCE), best=None)
    return TrainingResult(
        epochs=point.key.epochs,
        timed_region=region,
        seconds=interval,
        seconds_per_epoch=interval.scaled(1 / epochs) if epochs else None,
        first_epoch_seconds=_mean(run.first_epoch_seconds for run in runs),
        evaluation_seconds=_mean(run.evaluation_seconds for run in runs),
        training_loss=_mean(run.training_loss for run in runs),
        quality=quality,
    )


def _mean(values: Iterable[float | None]) -> float | None:
    return fmean(known) if (known := _of_all(values)) else None


def _of_all(values: Iterable[float | None]) -> list[float]:  # the values; nothing where one of the repeats has none
    listed = list(values)
    known = [value for value in listed if value is not None]
    return known if len(known) == len(listed) else []


# --- environments -----------------------------------------------------------------------------------------------------


#: Short texts of the key. The reference of the image is left out: its digest is what counts.
_VERSIONS = (
    *("driver", "cuda", "cudnn", "nccl", "transport"),
    *("framework", "framework_version", "collectives", "collectives_version"),
)


def environments_met(ledger: Ledger) -> tuple[EnvironmentFacts, ...]:
    """What the figures depend on, for the status; the first that were met where there are too many."""
    known = ledger.environment_by_key
    in_time = sorted(ledger.records, key=lambda record: (record.ended_at or 0.0, record.key))
    met = distinct(found for record in in_time if (found := key_of(record)) is not None and found.environment)
    links: dict[str, set[str]] = {}  # kinds of links of all gangs in an environment
    for record in in_time:
        if record.result is not None and record.result.links is not None:
            links.setdefault(record.result.environment, set()).update(record.result.links.split(records.LINKS_BETWEEN))
    shown = []
    for one in met[: status_sizes.ENVIRONMENTS_SHOWN_MAX]:
        environment = known.get(one.environment)
        shown.append(
            EnvironmentFacts(
                environment=records.environment_shown(one.environment) or "",
                instance_type=_fact(one.instance_type, status_sizes.FACT_NAME_MAX),
                image_digest=_fact(one.image_id.rpartition("@")[2], status_sizes.DIGEST_MAX),
                links=_fact(records.LINKS_BETWEEN.join(sorted(links.get(one.environment, ()))), records.LINKS_MAX),
                accelerator=environment and _fact(environment.accelerator, status_sizes.FACT_NAME_MAX),
                threads_per_rank=environment and environment.threads_per_rank,
                **{name: _fact(getattr(environment, name, None), status_sizes.FACT_MAX) for name in _VERSIONS},
            )
        )
    return tuple(shown)


def instance_type_shown(one: EnvironmentKey) -> str | None:
    """As each result shows it; None where nobody knows it. Most names have no more letters."""
    return _fact(one.instance_type, status_sizes.FACT_MAX)


def _fact(text: str | None, limit: int) -> str | None:
    return conditions.clamped(text, limit) if text else None
