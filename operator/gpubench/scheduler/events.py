# SPDX-License-Identifier: Apache-2.0
"""Events about a benchmark: one for each thing that happened since its status was written last."""

from collections.abc import Iterable, Iterator

from gpubench import records, workloads
from gpubench.api import messages, point_result
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.condition import Condition
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, ledger, observed, waiting
from gpubench.scheduler.actions import Event, Gang
from gpubench.scheduler.conditions import point_text
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
RESUMED = "Resumed"
COMPARED = "Compared"

_REASONS = {
    ledger.Outcome.FAILED: ATTEMPT_FAILED,
    ledger.Outcome.PREEMPTED: ATTEMPT_PREEMPTED,
    ledger.Outcome.STOPPED: ATTEMPT_STOPPED,
}
_SKIPS_SHOWN = 10  # a sweep over many pools may skip a hundred points; the status has them all


def events(
    study: observed.Study,
    plan: Plan,
    *,
    ended: Iterable[ledger.AttemptRecord],
    created: Iterable[Gang],
    status: GpuBenchmarkStatus | FullStatus,
) -> tuple[Event, ...]:
    """What is new: the difference between the conditions that were and the status that will be, and the attempts."""
    return (
        *(_beginning(plan) if study.status.start_time is None else ()),
        *_suspension(study, status),
        *(ending(plan, record) for record in ended),
        *(
            Event.normal(ATTEMPT_STARTED, f"{_trial_text(plan, one.trial, one.attempt)}: {counted(one.nodes, 'pod')}")
            for one in (gang.assignment for gang in created)
        ),
        *_transitions(study, status),
    )


def _beginning(plan: Plan) -> Iterator[Event]:
    skipped = [point.skip for point in plan.points if point.skip is not None]
    derived = sum(point.skip is None and not point.runs for point in plan.points)
    others = f", {derived} measured by other pools" if derived else ""
    certain = sum(map(plan.is_certain, plan.trials))
    trials = f"{certain} to {len(plan.trials)}" if plan.repeats is not None else str(len(plan.trials))
    yield Event.normal(PLANNED, f"{len(plan.points)} points, {len(skipped)} of them skipped{others}, {trials} trials")
    yield from (Event.warning(POINT_SKIPPED, text) for text in skipped[:_SKIPS_SHOWN])


def _suspension(study: observed.Study, new: GpuBenchmarkStatus | FullStatus) -> Iterator[Event]:
    was = conditions.holds(study.conditions, conditions.SUSPENDED)
    if conditions.holds(new.conditions, conditions.FINISHED) or study.spec.suspend == was:
        return
    if study.spec.suspend:
        yield Event.normal(conditions.SUSPENDED, "running attempts are stopped, none is started")
    else:
        yield Event.normal(RESUMED, "the benchmark goes on")


def ending(plan: Plan, record: ledger.AttemptRecord) -> Event:
    where = _trial_text(plan, record.trial, record.attempt)
    if record.result is not None:
        return Event.normal(TRIAL_MEASURED, f"{where}: {_measured(plan, record.trial, record.result)}")
    if record.drilled is not None:
        return Event.normal(DRILLED, f"{where}: pod {record.drilled} was evicted on purpose, as spec.drill asks")
    assert record.outcome is not None
    is_asked_for = record.outcome is ledger.Outcome.STOPPED and record.reason is not ledger.Reason.OTHER_MACHINES
    emit = Event.normal if is_asked_for else Event.warning
    return emit(_REASONS[record.outcome], conditions.clamped(f"{where}: {record.sentence}", 1024))


def _measured(plan: Plan, trial_id: str, result: records.Result) -> str:
    seconds = timed_seconds(run, plan.timed_region) if (run := result.training) is not None else None
    if run is not None and seconds is not None:
        quality = f", {run.metric} {run.final:.4g}" if run.metric is not None and run.final is not None else ""
        return f"{seconds:.4g} s for {counted(timed_epochs(run, plan.timed_region), 'epoch')}{quality}"
    unit = "elements/s" if plan.point_by_trial[trial_id].key.workload == workloads.MESSAGES else "samples/s"
    return f"{samples_per_second(result, plan.timed_region):.4g} {unit}"


def _transitions(study: observed.Study, new: GpuBenchmarkStatus | FullStatus) -> Iterator[Event]:
    before, now = ({one.type: one for one in which.conditions} for which in (study, new))
    began = [one for one in new.conditions if one.status == "True" and not conditions.holds(study.conditions, one.type)]
    exhausted = conditions.BUDGET_EXHAUSTED
    if conditions.holds(study.conditions, exhausted) and not conditions.holds(new.conditions, exhausted):
        yield Event.normal(RESUMED, "there is room in limits.budget: the benchmark goes on")
    admitted, was_admitted = now.get(conditions.ADMITTED), before.get(conditions.ADMITTED)
    if admitted is not None and (was_admitted is None or was_admitted.reason != admitted.reason):
        emit = Event.normal if admitted.reason in waiting.WAITS_WELL else Event.warning
        yield emit(admitted.reason, admitted.message)
    pending = now.get(conditions.GANG_PENDING)
    if pending is not None and _is_held_up(pending) and not _is_held_up(before.get(conditions.GANG_PENDING)):
        yield Event.warning(pending.type, pending.message)
    leaving, was_leaving = now.get(conditions.NODE_LEAVING), before.get(conditions.NODE_LEAVING)
    if leaving is not None and leaving.status == "True" and leaving.message != (was_leaving and was_leaving.message):
        yield Event.warning(conditions.NODE_LEAVING, leaving.message)
    for condition in began:
        if condition.type == conditions.FINISHED:
            well = conditions.holds(new.conditions, conditions.SUCCEEDED)
            yield (Event.normal if well else Event.warning)(conditions.FINISHED, condition.message)
            if new.comparison is not None:
                is_slower = new.comparison.verdict is point_result.Judgement.FAIL
                yield (Event.warning if is_slower else Event.normal)(COMPARED, new.comparison.sentence)
        if condition.type in (conditions.BUDGET_EXHAUSTED, conditions.WRITES_REFUSED):
            yield Event.warning(condition.type, condition.message)


def _is_held_up(pending: Condition | None) -> bool:
    """Whether a gang waits for anything but a node that is being made."""
    return pending is not None and pending.status == "True" and pending.reason != messages.NODE_COMING.reason


def _trial_text(plan: Plan, trial_id: str, attempt: int) -> str:
    trial, again = plan.trial_by_id[trial_id], f", attempt {attempt}" if attempt > 1 else ""
    return f"trial {trial_id} ({point_text(plan.points[trial.point].key)}, repeat {trial.repeat + 1}{again})"
