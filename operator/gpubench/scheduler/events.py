# SPDX-License-Identifier: Apache-2.0
"""Events about a benchmark: one for each thing that happened since its status was written last."""

from collections.abc import Iterable, Sequence

from gpubench import workloads
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.point_result import Judgement
from gpubench.plan.plan import Plan, PointKey
from gpubench.records import Result
from gpubench.scheduler import conditions
from gpubench.scheduler.actions import Event, Gang
from gpubench.scheduler.conditions import point_text
from gpubench.scheduler.ledger import AttemptRecord, Outcome
from gpubench.scheduler.observed import Study
from gpubench.stats.gang import samples_per_second, timed_epochs, timed_seconds
from gpubench.units import counted

PLANNED = "Planned"
POINT_SKIPPED = "PointSkipped"
ATTEMPT_STARTED = "AttemptStarted"
TRIAL_MEASURED = "TrialMeasured"
ATTEMPT_FAILED = "AttemptFailed"
ATTEMPT_PREEMPTED = "AttemptPreempted"
ATTEMPT_STOPPED = "AttemptStopped"
DRILLED = "Drilled"
SUSPENDED = "Suspended"
RESUMED = "Resumed"
FINISHED = "Finished"
COMPARED = "Compared"

_REASONS = {
    Outcome.FAILED: ATTEMPT_FAILED,
    Outcome.PREEMPTED: ATTEMPT_PREEMPTED,
    Outcome.STOPPED: ATTEMPT_STOPPED,
}
_SKIPS_SHOWN = 10  # a sweep over many pools may skip a hundred points; the status has them all


def events(
    study: Study,
    plan: Plan,
    *,
    ended: Iterable[AttemptRecord],
    created: Iterable[Gang],
    status: GpuBenchmarkStatus | FullStatus,
) -> tuple[Event, ...]:
    """What is new: the difference between the conditions that were and the status that will be, and the attempts."""
    return (
        *_beginning(study, plan),
        *_suspension(study, status),
        *(ending(plan, record) for record in ended),
        *(_start(plan, gang) for gang in created),
        *_transitions(study, status),
    )


def _beginning(study: Study, plan: Plan) -> Sequence[Event]:
    if study.status.start_time is not None:
        return ()
    skipped = [point.skip for point in plan.points if point.skip is not None]
    shown = [Event(type="Warning", reason=POINT_SKIPPED, message=text) for text in skipped[:_SKIPS_SHOWN]]
    derived = sum(point.skip is None and not point.runs for point in plan.points)
    others = f", {derived} measured by other pools" if derived else ""
    certain = sum(map(plan.is_certain, plan.trials))
    trials = f"{certain} to {len(plan.trials)}" if plan.repeats is not None else str(len(plan.trials))
    summary = f"{len(plan.points)} points, {len(skipped)} of them skipped{others}, {trials} trials"
    return (Event(type="Normal", reason=PLANNED, message=summary), *shown)


def _suspension(study: Study, new: GpuBenchmarkStatus | FullStatus) -> Sequence[Event]:
    if conditions.holds(new.conditions, conditions.FINISHED):
        return ()
    was = conditions.holds(study.conditions, conditions.SUSPENDED)
    if study.spec.suspend and not was:
        return (Event(type="Normal", reason=SUSPENDED, message="running attempts are stopped, none is started"),)
    if was and not study.spec.suspend:
        return (Event(type="Normal", reason=RESUMED, message="the benchmark goes on"),)
    return ()


def ending(plan: Plan, record: AttemptRecord) -> Event:
    """Of an attempt that has ended."""
    where = _trial_text(plan, record.trial, record.attempt)
    if record.result is not None:
        message = f"{where}: {_found(plan, record.trial, record.result)}"
        return Event(type="Normal", reason=TRIAL_MEASURED, message=message)
    if record.drilled is not None:
        message = f"{where}: pod {record.drilled} was evicted on purpose, as spec.drill asks"
        return Event(type="Normal", reason=DRILLED, message=message)
    assert record.outcome is not None
    return Event(
        type="Normal" if record.outcome is Outcome.STOPPED else "Warning",
        reason=_REASONS[record.outcome],
        message=conditions.clamped(f"{where}: {record.sentence}", 1024),
    )


def _found(plan: Plan, trial_id: str, result: Result) -> str:
    """What one trial gave, in the unit of its kind."""
    run = result.training
    seconds = timed_seconds(run, plan.timed_region) if run is not None else None
    if run is not None and seconds is not None:
        epochs = timed_epochs(run, plan.timed_region)
        quality = f", {run.metric} {run.final:.4g}" if run.metric is not None and run.final is not None else ""
        return f"{seconds:.4g} s for {counted(epochs, 'epoch')}{quality}"
    speed = samples_per_second(result, plan.timed_region)
    unit = "elements/s" if _key(plan, trial_id).workload == workloads.MESSAGES else "samples/s"
    return f"{speed:.4g} {unit}"


def _start(plan: Plan, gang: Gang) -> Event:
    where = _trial_text(plan, gang.assignment.trial, gang.assignment.attempt)
    pods = "1 pod" if gang.nodes == 1 else f"{gang.nodes} pods"
    return Event(type="Normal", reason=ATTEMPT_STARTED, message=f"{where}: {pods}")


def _transitions(study: Study, new: GpuBenchmarkStatus | FullStatus) -> Sequence[Event]:
    found: list[Event] = []
    was_exhausted = conditions.holds(study.conditions, conditions.BUDGET_EXHAUSTED)
    if was_exhausted and not conditions.holds(new.conditions, conditions.BUDGET_EXHAUSTED):
        message = "there is room in limits.budget: the benchmark goes on"
        found.append(Event(type="Normal", reason=RESUMED, message=message))
    found += _admission(study, new)
    for condition in new.conditions:
        if condition.status != "True" or conditions.holds(study.conditions, condition.type):
            continue
        if condition.type == conditions.FINISHED:
            well = conditions.holds(new.conditions, conditions.SUCCEEDED)
            found.append(Event(type="Normal" if well else "Warning", reason=FINISHED, message=condition.message))
            found += _comparison(new)
        if condition.type in (conditions.GANG_PENDING, conditions.BUDGET_EXHAUSTED):
            found.append(Event(type="Warning", reason=condition.type, message=condition.message))
    return tuple(found)


def _admission(study: Study, new: GpuBenchmarkStatus | FullStatus) -> Sequence[Event]:
    """What is new of a queue, named by its reason."""
    before = {condition.type: condition.reason for condition in study.conditions}.get(conditions.ADMITTED)
    now = next((condition for condition in new.conditions if condition.type == conditions.ADMITTED), None)
    if now is None or now.reason == before:
        return ()
    is_bad = now.reason in (conditions.QUEUE_EVICTED, conditions.KUEUE_ABSENT)
    return (Event(type="Warning" if is_bad else "Normal", reason=now.reason, message=now.message),)


def _comparison(new: GpuBenchmarkStatus | FullStatus) -> Sequence[Event]:
    """What a benchmark with a baseline says of it at its end."""
    if new.comparison is None:
        return ()
    is_slower = new.comparison.verdict is Judgement.FAIL
    return (Event(type="Warning" if is_slower else "Normal", reason=COMPARED, message=new.comparison.sentence),)


def _trial_text(plan: Plan, trial_id: str, attempt: int) -> str:
    trial = next(trial for trial in plan.trials if trial.id == trial_id)
    again = f", attempt {attempt}" if attempt > 1 else ""
    return f"trial {trial_id} ({point_text(_key(plan, trial_id))}, repeat {trial.repeat + 1}{again})"


def _key(plan: Plan, trial_id: str) -> PointKey:
    return next(plan.points[trial.point].key for trial in plan.trials if trial.id == trial_id)
