# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Mapping, Sequence

from gpubench import workloads
from gpubench.api import benchmark_status
from gpubench.api.benchmark import Goal
from gpubench.api.benchmark_status import Bandwidth, Basis, PointResult, PointState, Scaling
from gpubench.control import costs, derived_results, estimates, memory, training_results
from gpubench.control.conditions import clamped
from gpubench.control.retries import Standing, TrialStanding
from gpubench.measure import bandwidth, efficiency, intervals, records, throughput
from gpubench.measure.efficiency import Ground, MeasuredPoint
from gpubench.measure.records import Result
from gpubench.plan.plan import Plan, Point
from gpubench.values import content_id


def point_results(
    plan: Plan, standings: Mapping[str, TrialStanding], goals: Sequence[Goal] = ()
) -> tuple[PointResult, ...]:
    """The results of all points of the plan, in its order. `standings` has one entry for each trial, by id."""
    trials: list[list[TrialStanding]] = [[] for _ in plan.points]
    for trial in sorted(plan.trials, key=lambda trial: trial.repeat):
        trials[trial.point].append(standings[trial.id])
    entries = [_measured(plan, point, of_point) for point, of_point in zip(plan.points, trials, strict=True)]
    among = [entry for entry in entries if entry is not None]
    results = [
        _blank(plan, point) if point.basis is not Basis.MEASURED else _result(plan, point, of_point, entry, among=among)
        for point, of_point, entry in zip(plan.points, trials, entries, strict=True)
    ]
    found = memory.explained(plan.points, results)
    return tuple(
        costs.costed(
            plan,
            point,
            result
            if point.basis is Basis.MEASURED
            else derived_results.derived_result(plan, point, result, results=found),
            goals,
        )
        for point, result in zip(plan.points, found, strict=True)
    )


def point_state(point: Point, trials: Sequence[TrialStanding]) -> tuple[PointState, str | None]:
    """What became of a point, and why where it was not measured. A given-up trial ends its point."""
    if point.skip is not None:
        return PointState.SKIPPED, point.skip
    if any(trial.standing is Standing.RUNNING for trial in trials):
        return PointState.RUNNING, None
    given_up = next((trial for trial in trials if trial.standing is Standing.GIVEN_UP), None)
    some_measured = any(trial.standing is Standing.MEASURED for trial in trials)
    if given_up is not None and not some_measured:
        return given_up.state or PointState.FAILED, given_up.sentence
    if given_up is not None or all(trial.standing is Standing.MEASURED for trial in trials):
        environments = _environments(trials)
        if len(environments) > 1:
            named = ", ".join(map(str, environments))
            return PointState.FAILED, (
                f"the repeats ran in different environments ({named}) and are not averaged: "
                "pin the image by digest, or restrict the pool to equal nodes"
            )
        return PointState.MEASURED, None
    return PointState.PENDING, None


def _measured(plan: Plan, point: Point, trials: Sequence[TrialStanding]) -> MeasuredPoint | None:
    """The throughputs of the repeats; None when there are none, or when they may not be averaged."""
    environments = _environments(trials)
    if len(environments) != 1:
        return None
    baseline = plan.pool(point.key.pool).spec.scaling_baseline
    return MeasuredPoint(
        point=point,
        values=tuple(throughput.samples_per_second(result, plan.timed_region) for result in _results(trials)),
        environment=environments[0],
        scaling_baseline=baseline if baseline != point.key.pool else None,
    )


def _environments(trials: Sequence[TrialStanding]) -> tuple[Ground, ...]:
    """What the repeats stand on: one entry where they may be averaged."""
    return tuple(
        sorted(
            {
                Ground(trial.measured.result.environment, trial.measured.image_id or "")
                for trial in trials
                if trial.measured is not None and trial.measured.result is not None
            }
        )
    )


def _blank(plan: Plan, point: Point) -> PointResult:
    """A point without any figure."""
    pool = next((pool.spec for pool in plan.pools if pool.name == point.key.pool), None)
    return PointResult(
        workload=point.key.workload,
        pool=point.key.pool,
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
    if path is None or len(path.encode()) <= benchmark_status.DATA_PATH_MAX:
        return path
    start = f"{content_id(path, characters=8)}…"
    return start + path.encode()[len(start.encode()) - benchmark_status.DATA_PATH_MAX :].decode(errors="ignore")


def _result(
    plan: Plan,
    point: Point,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint | None,
    *,
    among: Sequence[MeasuredPoint],
) -> PointResult:
    """The result of a point that is run, but for its costs."""
    state, reason = point_state(point, trials)
    found = _blank(plan, point).model_copy(
        update={
            "state": state,
            "reason": clamped(reason, benchmark_status.REASON_MAX) if reason else None,
            "nodes": len({node for trial in trials if trial.measured for node in trial.measured.nodes}),
        }
    )
    return found if entry is None else _with_figures(plan, found, trials, entry, among=among)


def _with_figures(
    plan: Plan,
    blank: PointResult,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint,
    *,
    among: Sequence[MeasuredPoint],
) -> PointResult:
    interval = intervals.of_mean(entry.values)
    key = entry.point.key
    # More workers have no share in the time of a message: bandwidth is what is compared over worker counts.
    is_message = key.workload == workloads.MESSAGES
    found = blank.model_copy(
        update={
            "values": entry.values,
            "throughput": estimates.estimate(interval),
            "scaling": () if is_message else _scaling(entry, among=among),
            "training": training_results.training_result(_results(trials), plan.timed_region, planned=key.epochs),
            "bandwidth": _bandwidth(entry) if is_message else None,
            "environment": records.environment_shown(entry.environment.environment),
        }
    )
    texts = _warnings(plan, found, trials, entry, among=among)
    return found.model_copy(
        update={
            "warnings": tuple(
                clamped(text, benchmark_status.WARNING_MAX) for text in texts[: benchmark_status.WARNINGS_MAX]
            )
        }
    )


def _scaling(entry: MeasuredPoint, *, among: Sequence[MeasuredPoint]) -> tuple[Scaling, ...]:
    return tuple(
        Scaling(
            kind=found.kind,
            baseline_workers=found.baseline_workers,
            baseline_pool=found.baseline_pool,
            efficiency=estimates.estimate(found.interval),
        )
        for found in efficiency.efficiencies(entry, among)
    )


def _bandwidth(entry: MeasuredPoint) -> Bandwidth | None:
    key = entry.point.key
    found = bandwidth.of_throughput(intervals.of_mean(entry.values), workers=key.workers, precision=key.precision)
    if found is None:
        return None
    return Bandwidth(algorithm=estimates.estimate(found.algorithm), bus=estimates.estimate(found.bus))


def _results(trials: Sequence[TrialStanding]) -> list[Result]:
    return [trial.result for trial in trials if trial.result is not None]


def _baseless(plan: Plan, baseline: str) -> str | None:
    """Why a pool is no base of an efficiency, as the rest of a sentence; None where it is one."""
    pool = next((pool.spec for pool in plan.pools if pool.name == baseline), None)
    if pool is None:
        return "is not in this study: name it in the same block"
    return None if pool.measured_by is None else "is never run itself: name a pool that is measured"


def _warnings(
    plan: Plan,
    result: PointResult,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint,
    *,
    among: Sequence[MeasuredPoint],
) -> list[str]:
    found: list[str] = []
    given_up = [trial for trial in trials if trial.standing is Standing.GIVEN_UP]
    measured = sum(trial.standing is Standing.MEASURED for trial in trials)
    if given_up and measured:
        found.append(f"only {measured} of {len(trials)} repeats were measured: {given_up[0].sentence}")
    untimed = training_results.warning(_results(trials), plan.timed_region, planned=entry.point.key.epochs)
    if untimed is not None:
        found.append(untimed)
    if entry.scaling_baseline is not None and (baseless := _baseless(plan, entry.scaling_baseline)):
        found.append(f"no efficiency: scalingBaseline of {result.pool} is {entry.scaling_baseline}, which {baseless}")
    if any(other.environment != entry.environment for other in efficiency.lines(entry, among)):
        found.append(
            "other worker counts of this line ran in another environment, and efficiency is not computed across "
            "environments: restrict the pool to equal nodes"
        )
    return found
