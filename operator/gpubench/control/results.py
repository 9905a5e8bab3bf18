# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import workloads
from gpubench.api import benchmark_status
from gpubench.api.benchmark import Goal
from gpubench.api.benchmark_status import Bandwidth, Basis, PointResult, PointState, Scaling
from gpubench.control import costs, derived_results, environments, estimates, health, memory, training_results
from gpubench.control.conditions import clamped
from gpubench.control.retries import Standing, TrialStanding
from gpubench.measure import bandwidth, efficiency, intervals, records, throughput
from gpubench.measure.efficiency import Ground, MeasuredPoint
from gpubench.measure.records import Environment, Result
from gpubench.plan.plan import Plan, Point
from gpubench.values import content_id


class _Beside(NamedTuple):
    """What a point's result is held against, besides its own trials."""

    among: Sequence[MeasuredPoint]
    known: Mapping[str, Environment]  # records of environments, by key
    weak: Mapping[str, str]  # sentences about weak nodes, by trial


def point_results(
    plan: Plan,
    standings: Mapping[str, TrialStanding],
    goals: Sequence[Goal] = (),
    *,
    known: Mapping[str, Environment] | None = None,
) -> tuple[PointResult, ...]:
    """The results of all points of the plan, in its order.

    `standings` has one entry for each trial, by id; `known` are the environments whose records were read, by key.
    """
    trials: list[list[TrialStanding]] = [[] for _ in plan.points]
    for trial in sorted(plan.trials, key=lambda trial: trial.repeat):
        trials[trial.point].append(standings[trial.id])
    entries = [_measured(plan, point, of_point) for point, of_point in zip(plan.points, trials, strict=True)]
    beside = _Beside(
        among=[entry for entry in entries if entry is not None],
        known=known or {},
        weak=health.weak_trials(plan, [one.measured for one in standings.values() if one.measured is not None]),
    )
    results = [
        _blank(plan, point) if point.basis is not Basis.MEASURED else _result(plan, point, of_point, entry, beside)
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


def point_state(
    point: Point, trials: Sequence[TrialStanding], known: Mapping[str, Environment]
) -> tuple[PointState, str | None]:
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
        grounds = _grounds(trials)
        if len(grounds) > 1:
            differing = environments.differences(grounds, known)
            return PointState.FAILED, (
                f"the repeats ran in different environments ({differing}) and are not averaged: "
                "pin the image by digest, or restrict the pool to equal nodes"
            )
        return PointState.MEASURED, None
    return PointState.PENDING, None


def _measured(plan: Plan, point: Point, trials: Sequence[TrialStanding]) -> MeasuredPoint | None:
    """The throughputs of the repeats; None when there are none, or when they may not be averaged."""
    grounds = _grounds(trials)
    if len(grounds) != 1:
        return None
    baseline = plan.pool(point.key.pool).spec.scaling_baseline
    return MeasuredPoint(
        point=point,
        values=tuple(throughput.samples_per_second(result, plan.timed_region) for result in _results(trials)),
        environment=grounds[0],
        scaling_baseline=baseline if baseline != point.key.pool else None,
    )


def _grounds(trials: Sequence[TrialStanding]) -> tuple[Ground, ...]:
    """What the repeats stand on: one entry where they may be averaged."""
    measured = (trial.measured for trial in trials if trial.measured is not None)
    return environments.distinct(found for record in measured if (found := environments.ground(record)) is not None)


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
    beside: _Beside,
) -> PointResult:
    """The result of a point that is run, but for its costs."""
    state, reason = point_state(point, trials, beside.known)
    found = _blank(plan, point).model_copy(
        update={
            "state": state,
            "reason": clamped(reason, benchmark_status.REASON_MAX) if reason else None,
            "nodes": len({node for trial in trials if trial.measured for node in trial.measured.nodes}),
        }
    )
    return found if entry is None else _with_figures(plan, found, trials, entry, beside)


def _with_figures(
    plan: Plan,
    blank: PointResult,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint,
    beside: _Beside,
) -> PointResult:
    interval = intervals.of_mean(entry.values)
    key = entry.point.key
    # More workers have no share in the time of a message: bandwidth is what is compared over worker counts.
    is_message = key.workload == workloads.MESSAGES
    found = blank.model_copy(
        update={
            "values": entry.values,
            "throughput": estimates.estimate(interval),
            "scaling": () if is_message else _scaling(entry, among=beside.among),
            "training": training_results.training_result(_results(trials), plan.timed_region, planned=key.epochs),
            "bandwidth": _bandwidth(entry) if is_message else None,
            "environment": records.environment_shown(entry.environment.environment),
        }
    )
    texts = _warnings(plan, found, trials, entry, beside)
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
    beside: _Beside,
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
    told = dict.fromkeys(beside.weak.get(trial.measured.trial) for trial in trials if trial.measured is not None)
    return found + [text for text in (*told, _line_elsewhere(entry, beside)) if text is not None]


def _line_elsewhere(entry: MeasuredPoint, beside: _Beside) -> str | None:
    """That no efficiency was computed, and what was not the same; None where nothing was."""
    for other in efficiency.lines(entry, beside.among):
        across = other.point.key.pool != entry.point.key.pool
        if not other.environment.is_comparable(entry.environment, across_pools=across):
            differing = environments.differences((other.environment, entry.environment), beside.known)
            return (
                f"no efficiency: other worker counts of this line ran in another environment ({differing}): "
                "restrict the pool to equal nodes"
            )
    return None
