# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Mapping, Sequence

from gpubench import records, workloads
from gpubench.analysis import (
    costs,
    derived_results,
    environments,
    health,
    imported_results,
    relative,
    repeats,
    warnings,
)
from gpubench.analysis.relative import Points
from gpubench.analysis.repeats import MeasuredPoint
from gpubench.analysis.warnings import Beside
from gpubench.api import status_sizes
from gpubench.api.goals import Goal, RelativeBase
from gpubench.api.point_result import SOURCES, Bandwidth, Basis, PointResult, PointState, Stopping
from gpubench.plan.plan import Plan, Point
from gpubench.records import Environment, Result
from gpubench.scheduler import stopping, trials
from gpubench.scheduler.conditions import clamped
from gpubench.scheduler.trials import PointStatus, TrialState, TrialStatus
from gpubench.stats import gang, intervals
from gpubench.stats.efficiency import Among
from gpubench.values import content_id


def point_results(
    plan: Plan,
    trials: Mapping[str, TrialStatus],
    points: Sequence[PointStatus],
    goals: Sequence[Goal] = (),
    *,
    baseline: RelativeBase | None = None,
    known: Mapping[str, Environment] | None = None,
) -> tuple[PointResult, ...]:
    """The results of all points of the plan, in its order, given the states of trials (by id) and points.

    `known` are the environments whose records were read, by key.
    """
    of_points = trials_of_points(plan, trials)
    entries = measured_points(plan, trials)
    beside = Beside(
        among=Among(entry for entry in entries if entry is not None),
        known=known or {},
        weak=health.weak_trials(plan, [one.measured for one in trials.values() if one.measured is not None]),
    )
    found = [
        blank(plan, point)
        if point.basis not in SOURCES
        else imported_results.imported_result(plan, index, blank(plan, point), entries[index], among=beside.among)
        if point.basis is Basis.IMPORTED
        else _result(plan, point, points[index], of_points[index], entry=entries[index], beside=beside)
        for index, point in enumerate(plan.points)
    ]
    whole = (
        result if point.basis in SOURCES else derived_results.derived_result(plan, point, result, results=found)
        for point, result in zip(plan.points, found, strict=True)
    )
    costed = [costs.costed(plan, point, result, goals) for point, result in zip(plan.points, whole, strict=True)]
    related = relative.with_relative(Points(plan, costed, entries, known or {}), baseline)
    return tuple(warnings.within_bounds(result, points=len(plan.points)) for result in related)


def trials_of_points(plan: Plan, trials: Mapping[str, TrialStatus]) -> list[list[TrialStatus]]:
    """The trials of each point, repeat by repeat."""
    return [[trials[trial.id] for trial in of_point] for of_point in plan.repeats_of_points()]


def measured_points(plan: Plan, trials: Mapping[str, TrialStatus]) -> list[MeasuredPoint | None]:
    """The throughputs of each point, or those imported; None of one without any, or whose repeats are not averaged."""
    return [
        imported_results.entry(plan, index) if plan.imported is not None else _measured(plan, point, of_point)
        for index, (point, of_point) in enumerate(zip(plan.points, trials_of_points(plan, trials), strict=True))
    ]


def _measured(plan: Plan, point: Point, of_point: Sequence[TrialStatus]) -> MeasuredPoint | None:
    """The throughputs of the repeats; None when there are none, or when they may not be averaged."""
    found = trials.grounds(of_point)
    if len(found) != 1:
        return None
    baseline = plan.pool(point.key.pool).spec.scaling_baseline
    return MeasuredPoint(
        point=point,
        values=tuple(gang.samples_per_second(result, plan.timed_region) for result in _results(of_point)),
        environment=found[0],
        scaling_baseline=baseline if baseline != point.key.pool else None,
        settled=not trials.unstable(of_point),
        confidence=stopping.confidence_of_plan(plan),
    )


def blank(plan: Plan, point: Point) -> PointResult:
    """A point without any figure."""
    pool = next((pool.spec for pool in plan.pools if pool.name == point.key.pool), None)
    return PointResult(
        workload=point.key.workload,
        pool=point.key.pool,
        node=None if point.key.node is None else clamped(point.key.node, status_sizes.NODE_MAX),
        accelerator=pool.accelerator if pool else None,
        capacity_type=pool.capacity_type if pool else None,
        workers=point.key.workers,
        workers_per_node=point.key.workers_per_node,
        batch_per_worker=point.key.batch_per_worker,
        global_batch=point.key.global_batch,
        precision=point.key.precision.value,
        data=point.key.data.source,
        data_path=_shortened(point.key.data.path),
        data_samples=point.key.data.samples,
        epochs=point.key.epochs,
        variant=point.key.variant.name if point.key.variant else None,
        basis=point.basis,
        state=PointState.PENDING,
    )


def _shortened(path: str | None) -> str | None:
    """A path as a result holds it: two long ones that differ stay different."""
    if path is None or len(path.encode()) <= status_sizes.DATA_PATH_MAX:
        return path
    start = f"{content_id(path, characters=8)}…"
    return start + path.encode()[len(start.encode()) - status_sizes.DATA_PATH_MAX :].decode(errors="ignore")


def _result(
    plan: Plan,
    point: Point,
    status: PointStatus,
    of_point: Sequence[TrialStatus],
    *,
    entry: MeasuredPoint | None,
    beside: Beside,
) -> PointResult:
    """The result of a point that is run, but for its costs."""
    found = blank(plan, point).model_copy(
        update={
            "state": status.state,
            "reason": clamped(status.message, status_sizes.REASON_MAX) if status.message else None,
            "omission": status.omission,
            "nodes": len({node for trial in of_point if trial.measured for node in trial.measured.nodes}),
        }
    )
    return found if entry is None else _with_figures(plan, found, of_point, entry, beside)


def _with_figures(
    plan: Plan,
    blank: PointResult,
    trials: Sequence[TrialStatus],
    entry: MeasuredPoint,
    beside: Beside,
) -> PointResult:
    key = entry.point.key
    results = _results(trials)
    ended = blank.state in (PointState.MEASURED, PointState.UNSTABLE)
    # More workers have no share in the time of a message: bandwidth is what is compared over worker counts.
    is_message = key.workload == workloads.MESSAGES
    found = blank.model_copy(
        update={
            "values": entry.values,
            "throughput": intervals.of_mean(entry.values, entry.confidence),
            "stopping": _stopping(plan, trials) if ended else None,
            "scaling": () if is_message else repeats.scaling(entry, among=beside.among),
            "training": repeats.training_result(
                results, plan.timed_region, planned=key.epochs, confidence=entry.confidence
            ),
            "bandwidth": _bandwidth(entry) if is_message else None,
            "gpu": repeats.gpu(results),
            "host": repeats.host(results),
            "environment": records.environment_shown(entry.environment.environment),
            "instance_type": environments.instance_type_shown(entry.environment),
        }
    )
    return found.model_copy(update={"warnings": warnings.of_point(plan, found, trials, entry, beside)})


def _bandwidth(entry: MeasuredPoint) -> Bandwidth | None:
    key = entry.point.key
    found = gang.bandwidth(
        intervals.of_mean(entry.values, entry.confidence), workers=key.workers, precision=key.precision
    )
    if found is None:
        return None
    return Bandwidth(algorithm=found.algorithm, bus=found.bus)


def _results(trials: Sequence[TrialStatus]) -> list[Result]:
    return [trial.result for trial in trials if trial.result is not None]


def _stopping(plan: Plan, trials: Sequence[TrialStatus]) -> Stopping | None:
    """How the number of repeats of a point that has ended came about; None where a failure or a limit cut it short."""
    if any(trial.state in (TrialState.GIVEN_UP, TrialState.NOT_RUN) for trial in trials):
        return None
    rule = stopping.of_plan(plan)
    if rule is None:
        return Stopping.FIXED
    if any(trial.state is TrialState.NOT_NEEDED for trial in trials):
        return Stopping.PRECISION_REACHED
    half = stopping.half_width(plan, _results(trials))
    reached = half is not None and half <= rule.relative_half_width
    return Stopping.PRECISION_REACHED if reached else Stopping.MAXIMUM_REACHED
