# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Mapping, Sequence

from gpubench import records, workloads
from gpubench.analysis import (
    caveats,
    costs,
    derived_results,
    environments,
    estimates,
    health,
    imported_results,
    memory,
    relative,
    training_results,
    usage,
)
from gpubench.analysis.caveats import Beside
from gpubench.analysis.relative import Points
from gpubench.api import status_sizes
from gpubench.api.goals import Goal, RelativeBase
from gpubench.api.point_result import SOURCES, Bandwidth, Basis, PointResult, PointState
from gpubench.plan.plan import Plan, Point
from gpubench.records import Environment, Result
from gpubench.scheduler import stopped
from gpubench.scheduler.conditions import clamped
from gpubench.scheduler.retries import Standing, TrialStanding
from gpubench.stats import bandwidth, intervals, throughput, wanted
from gpubench.stats.efficiency import Ground, MeasuredPoint
from gpubench.values import content_id

_ENDED = frozenset({Standing.MEASURED, Standing.NOT_NEEDED, Standing.NOT_RUN})


def point_results(
    plan: Plan,
    standings: Mapping[str, TrialStanding],
    goals: Sequence[Goal] = (),
    *,
    baseline: RelativeBase | None = None,
    known: Mapping[str, Environment] | None = None,
) -> tuple[PointResult, ...]:
    """The results of all points of the plan, in its order.

    `standings` has one entry for each trial, by id; `known` are the environments whose records were read, by key.
    """
    trials = trials_of_points(plan, standings)
    entries = measured_points(plan, standings)
    beside = Beside(
        among=[entry for entry in entries if entry is not None],
        known=known or {},
        weak=health.weak_trials(plan, [one.measured for one in standings.values() if one.measured is not None]),
    )
    results = [
        _own_result(plan, index, trials[index], entries[index], beside)
        if point.basis in SOURCES
        else blank(plan, point)
        for index, point in enumerate(plan.points)
    ]
    found = memory.explained(plan.points, results)
    whole = (
        result if point.basis in SOURCES else derived_results.derived_result(plan, point, result, results=found)
        for point, result in zip(plan.points, found, strict=True)
    )
    costed = [costs.costed(plan, point, result, goals) for point, result in zip(plan.points, whole, strict=True)]
    told = relative.with_relative(Points(plan, costed, entries, known or {}), baseline)
    return tuple(caveats.within_bounds(result, points=len(plan.points)) for result in told)


def trials_of_points(plan: Plan, standings: Mapping[str, TrialStanding]) -> list[list[TrialStanding]]:
    """How the trials of each point stand, repeat by repeat."""
    return [[standings[trial.id] for trial in of_point] for of_point in plan.repeats_of_points()]


def measured_points(plan: Plan, standings: Mapping[str, TrialStanding]) -> list[MeasuredPoint | None]:
    """The throughputs of each point, or those imported; None of one without any, or whose repeats are not averaged."""
    trials = trials_of_points(plan, standings)
    return [
        imported_results.entry(plan, index) if plan.imported is not None else _measured(plan, point, of_point)
        for index, (point, of_point) in enumerate(zip(plan.points, trials, strict=True))
    ]


def point_state(
    point: Point, trials: Sequence[TrialStanding], known: Mapping[str, Environment]
) -> tuple[PointState, str | None]:
    """What became of a point, and why where it was not measured. A given-up trial ends its point."""
    if point.skip is not None:
        return PointState.SKIPPED, point.skip
    if any(trial.standing is Standing.RUNNING for trial in trials):
        return PointState.RUNNING, None
    given_up = next((trial for trial in trials if trial.standing is Standing.GIVEN_UP), None)
    not_run = next((trial for trial in trials if trial.standing is Standing.NOT_RUN), None)
    some_measured = any(trial.standing is Standing.MEASURED for trial in trials)
    cut_short = given_up or not_run
    if cut_short is not None and not some_measured:
        return cut_short.state or PointState.FAILED, cut_short.sentence
    if given_up is not None or all(trial.standing in _ENDED for trial in trials):
        found = grounds(trials)
        if len(found) > 1:
            differing = environments.differences(found, known)
            return PointState.FAILED, (
                f"the repeats ran in different environments ({differing}) and are not averaged: "
                "pin the image by digest, or restrict the pool to equal nodes"
            )
        return (PointState.UNSTABLE if unstable(trials) else PointState.MEASURED), None
    return PointState.PENDING, None


def unstable(trials: Sequence[TrialStanding]) -> bool:
    """Whether at least half of the repeats never settled: then the point's figure is not one of a steady state.

    A minority of them is a warning.
    """
    results = _results(trials)
    return 0 < len(results) <= 2 * sum(not result.settled for result in results)


def _measured(plan: Plan, point: Point, trials: Sequence[TrialStanding]) -> MeasuredPoint | None:
    """The throughputs of the repeats; None when there are none, or when they may not be averaged."""
    found = grounds(trials)
    if len(found) != 1:
        return None
    baseline = plan.pool(point.key.pool).spec.scaling_baseline
    return MeasuredPoint(
        point=point,
        values=tuple(throughput.samples_per_second(result, plan.timed_region) for result in _results(trials)),
        environment=found[0],
        scaling_baseline=baseline if baseline != point.key.pool else None,
        settled=not unstable(trials),
        confidence=wanted.confidence_of_plan(plan),
    )


def grounds(trials: Sequence[TrialStanding]) -> tuple[Ground, ...]:
    """What the repeats stand on: one entry where they may be averaged."""
    measured = (trial.measured for trial in trials if trial.measured is not None)
    return environments.distinct(found for record in measured if (found := environments.ground(record)) is not None)


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


def _own_result(
    plan: Plan, index: int, trials: Sequence[TrialStanding], entry: MeasuredPoint | None, beside: Beside
) -> PointResult:
    """The result of a point that has figures of its own: run here, or imported."""
    point = plan.points[index]
    if point.basis is Basis.IMPORTED:
        return imported_results.imported_result(plan, index, blank(plan, point), among=beside.among)
    return _result(plan, point, trials, entry, beside)


def _result(
    plan: Plan,
    point: Point,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint | None,
    beside: Beside,
) -> PointResult:
    """The result of a point that is run, but for its costs."""
    state, reason = point_state(point, trials, beside.known)
    found = blank(plan, point).model_copy(
        update={
            "state": state,
            "reason": clamped(reason, status_sizes.REASON_MAX) if reason else None,
            "omission": next((trial.omission for trial in trials if trial.omission is not None), None),
            "nodes": len({node for trial in trials if trial.measured for node in trial.measured.nodes}),
        }
    )
    return found if entry is None else _with_figures(plan, found, trials, entry, beside)


def _with_figures(
    plan: Plan,
    blank: PointResult,
    trials: Sequence[TrialStanding],
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
            "throughput": estimates.estimate(intervals.of_mean(entry.values, entry.confidence)),
            "stopping": stopped.how(plan, trials) if ended else None,
            "scaling": () if is_message else estimates.scaling(entry, among=beside.among),
            "training": training_results.training_result(
                results, plan.timed_region, planned=key.epochs, confidence=entry.confidence
            ),
            "bandwidth": _bandwidth(entry) if is_message else None,
            "gpu": usage.gpu(results),
            "host": usage.host(results),
            "environment": records.environment_shown(entry.environment.environment),
            "instance_type": environments.instance_type_shown(entry.environment),
        }
    )
    return found.model_copy(update={"warnings": caveats.of_point(plan, found, trials, entry, beside)})


def _bandwidth(entry: MeasuredPoint) -> Bandwidth | None:
    key = entry.point.key
    found = bandwidth.of_throughput(
        intervals.of_mean(entry.values, entry.confidence), workers=key.workers, precision=key.precision
    )
    if found is None:
        return None
    return Bandwidth(algorithm=estimates.estimate(found.algorithm), bus=estimates.estimate(found.bus))


def _results(trials: Sequence[TrialStanding]) -> list[Result]:
    return [trial.result for trial in trials if trial.result is not None]
