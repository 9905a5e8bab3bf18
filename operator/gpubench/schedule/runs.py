# SPDX-License-Identifier: Apache-2.0
"""What is to be done about a schedule now: which run starts, which ends, which is kept, which goes; and its status.

The rules are those of CronJob's controller (pkg/controller/cronjob/cronjob_controllerv2.go of Kubernetes 1.36,
`syncCronJob`), made from scratch at each look from the benchmarks that are there: what runs is never remembered, so
that a restarted, or a second, operator decides the same. Each part can be carried out twice without harm: a run's name
follows from its scheduled time, and a creation that finds it there has succeeded. The same runs give the same status
whenever it is made, but for times of transitions.
"""

from collections.abc import Sequence
from typing import Literal

from gpubench.api.condition import Condition
from gpubench.api.schedule import (
    ACTIVE_MAX,
    LAST_RESULTS_MAX,
    REGRESSION_SENTENCE_MAX,
    ActiveRun,
    ConcurrencyPolicy,
    GpuBenchmarkScheduleSpec,
    GpuBenchmarkScheduleStatus,
    KeyChange,
    LastRun,
    Monthly,
    Regression,
    ScheduleCondition,
    SlowNode,
)
from gpubench.schedule import cron, history
from gpubench.schedule.history import Entry
from gpubench.scheduler import conditions
from gpubench.scheduler.decision import Happening
from gpubench.stats import changepoint
from gpubench.units import duration_text, rfc3339
from gpubench.values import Value

# --- runs ------------------------------------------------------------


# Reasons of Events, CronJob's where it has one.
CREATED = "SuccessfulCreate"
DELETED = "SuccessfulDelete"
COMPLETED = "SawCompletedBenchmark"
MISSED = "MissSchedule"
TOO_MANY_MISSED = "TooManyMissedTimes"
STILL_ACTIVE = "BenchmarkAlreadyActive"
UNPARSEABLE = "UnparseableSchedule"
UNKNOWN_TIME_ZONE = "UnknownTimeZone"

#: An operator's clock may lag behind the one by which somebody reads "due": CronJob adds as much.
_PADDING = 0.1


class Run(Value):
    """A benchmark of the schedule's own, as it was observed. Times are seconds since the epoch."""

    name: str
    uid: str
    scheduled_at: int
    created_at: float
    finished_at: float | None = None  # None while it runs
    succeeded: bool = False
    deleting: bool = False
    archived: bool = False  # whether the history has it

    @property
    def is_active(self) -> bool:
        """Whether it still runs; also while it is being deleted, as its pods are there until it is gone."""
        return self.finished_at is None


class Schedule(Value):
    """The schedule object, as far as the decision needs it."""

    name: str
    created_at: float
    spec: GpuBenchmarkScheduleSpec
    last_scheduled_at: float | None = None  # of its status


class Decision(Value):
    """In the order in which it is carried out: what is finished is archived before anything goes."""

    archive: tuple[Run, ...] = ()  # finished, and not in the history yet
    remove: tuple[Run, ...] = ()  # beyond the history limits; only those that the history has
    replace: tuple[Run, ...] = ()  # under way, and in the way of `start`
    start: int | None = None  # the scheduled time of the run to create
    active: tuple[Run, ...] = ()  # before `start`, `replace` left out
    last_scheduled_at: int | None = None
    next_at: int | None = None
    problem: Happening | None = None  # why nothing can be scheduled
    happenings: tuple[Happening, ...] = ()
    wake_at: float | None = None


def decide(schedule: Schedule, runs: tuple[Run, ...], now: float) -> Decision:
    """What is to be done now. `runs` are all benchmarks of this schedule that are there."""
    archive = tuple(run for run in runs if run.finished_at is not None and not run.archived)
    made = Decision(
        archive=archive,
        remove=_beyond_limits(schedule.spec, runs),
        active=tuple(run for run in runs if run.is_active),
        last_scheduled_at=_last(schedule, runs),
        happenings=tuple(_completed(run) for run in archive),
    )
    try:
        table = cron.timetable(schedule.spec.schedule, time_zone=schedule.spec.time_zone)
    except cron.InvalidSchedule as error:
        return made.model_copy(update={"problem": _problem(str(error))})
    if schedule.spec.suspend:
        return made
    found = cron.due(
        table,
        created=schedule.created_at,
        last=made.last_scheduled_at,
        deadline_seconds=schedule.spec.starting_deadline_seconds,
        now=now,
    )
    made = made.model_copy(
        update={"next_at": found.next, "wake_at": None if found.next is None else found.next + _PADDING}
    )
    return _started(schedule, made, found)


def _started(schedule: Schedule, made: Decision, found: cron.Due) -> Decision:
    """The decision with the run that is due, or with why it does not start."""
    if found.run is None:
        late = () if found.too_late is None else (_missed(found.too_late),)
        return made.model_copy(update={"happenings": (*made.happenings, *late)})
    told = (_too_many(),) if found.too_many_missed else ()
    policy = schedule.spec.concurrency_policy
    if policy is ConcurrencyPolicy.FORBID and made.active:
        held_up = _held_up(found.run, made.active[0])
        return made.model_copy(update={"happenings": (*made.happenings, *told, held_up)})
    replaced = made.active if policy is ConcurrencyPolicy.REPLACE else ()
    return made.model_copy(
        update={
            "replace": tuple(run for run in replaced if not run.deleting),
            "active": () if replaced else made.active,
            "start": found.run,
            "happenings": (*made.happenings, *told),
        }
    )


def _last(schedule: Schedule, runs: tuple[Run, ...]) -> int | None:
    """The newest scheduled time of which a run was made: the status may be a write behind."""
    known = [run.scheduled_at for run in runs]
    if schedule.last_scheduled_at is not None:
        known.append(int(schedule.last_scheduled_at))
    return max(known, default=None)


def _beyond_limits(spec: GpuBenchmarkScheduleSpec, runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The oldest finished runs over each limit. One that is not archived yet stays, whatever the limit says."""
    found: list[Run] = []
    for succeeded, limit in ((True, spec.successful_history_limit), (False, spec.failed_history_limit)):
        ended = sorted(
            (run for run in runs if run.finished_at is not None and run.succeeded is succeeded),
            key=lambda run: (run.created_at, run.name),
        )
        found += ended[: max(0, len(ended) - limit)]
    return tuple(run for run in found if run.archived and not run.deleting)


# --- what people are told ---------------------------------------------------------------------------------------------


def _told(kind: Literal["Normal", "Warning"], reason: str, message: str) -> Happening:
    return Happening(type=kind, reason=reason, message=message)


def _completed(run: Run) -> Happening:
    how = "succeeded" if run.succeeded else "did not succeed"
    return _told("Normal" if run.succeeded else "Warning", COMPLETED, f"{run.name} has finished and {how}")


def _missed(moment: int) -> Happening:
    sentence = f"the run of {rfc3339(moment)} is later than startingDeadlineSeconds and does not start any more"
    return _told("Warning", MISSED, sentence)


def _too_many() -> Happening:
    sentence = (
        f"more than {cron.MISSED_MAX} runs were missed: the newest one starts; set or decrease "
        "startingDeadlineSeconds, or check the clocks"
    )
    return _told("Warning", TOO_MANY_MISSED, sentence)


def _held_up(moment: int, active: Run) -> Happening:
    sentence = f"the run of {rfc3339(moment)} does not start while {active.name} is under way: concurrencyPolicy Forbid"
    return _told("Normal", STILL_ACTIVE, sentence)


def _problem(sentence: str) -> Happening:
    reason = UNKNOWN_TIME_ZONE if sentence.startswith("spec.timeZone") else UNPARSEABLE
    return _told("Warning", reason, sentence)


# --- status ------------------------------------------------------------


# Types of conditions.
READY = "Ready"
REGRESSED = "Regressed"

# Reasons of conditions, and of the Events about them.
SCHEDULED = "Scheduled"
SUSPENDED = "Suspended"
WAITING_FOR_POOLS = "WaitingForPools"  # as of a study
SLOWER = "Slower"
SLOWER_THAN_BASELINE = "SlowerThanBaseline"
NOT_SLOWER = "NotSlower"
TOO_FEW_RUNS = "TooFewRuns"
SLOW_NODE = "SlowNode"
KEY_CHANGED = "EnvironmentChanged"
RECOVERED = "Recovered"

_SHOWN_IN_A_CONDITION = 3


def status(
    spec: GpuBenchmarkScheduleSpec,
    decided: Decision,
    entries: Sequence[Entry],
    *,
    monthly: Monthly | None,
    missing_pools: Sequence[str] = (),
    slow_nodes: Sequence[SlowNode] = (),
    before: Sequence[Condition] = (),
    generation: int,
    now: float,
) -> GpuBenchmarkScheduleStatus:
    """The status after a decision has been carried out."""
    found = history.regressions(entries, tolerance=float(spec.regressions.tolerance))
    succeeded = [entry.finished_at for entry in entries if entry.succeeded]
    active = sorted(decided.active, key=lambda run: run.scheduled_at, reverse=True)
    return GpuBenchmarkScheduleStatus(
        observed_generation=generation,
        conditions=tuple(
            conditions_of(
                spec, decided, entries, found, missing=missing_pools, before=before, generation=generation, now=now
            ),
        ),
        active=tuple(ActiveRun(name=run.name, scheduled_at=rfc3339(run.scheduled_at)) for run in active[:ACTIVE_MAX]),
        active_runs=len(active),
        last_schedule_time=None if decided.last_scheduled_at is None else rfc3339(decided.last_scheduled_at),
        last_successful_time=rfc3339(max(succeeded)) if succeeded else None,
        next_schedule_time=None if decided.next_at is None else rfc3339(decided.next_at),
        runs_kept=len(entries),
        points_judged=history.judged(entries),
        last_results=tuple(map(_last_run, reversed(entries[-LAST_RESULTS_MAX:]))),
        regressions=history.shown(found),
        key_changes=history.key_changes(entries),
        slow_nodes=tuple(slow_nodes),
        monthly=monthly,
    )


def conditions_of(
    spec: GpuBenchmarkScheduleSpec,
    decided: Decision,
    entries: Sequence[Entry],
    found: Sequence[Regression],
    *,
    missing: Sequence[str] = (),
    before: Sequence[Condition],
    generation: int,
    now: float,
) -> list[ScheduleCondition]:
    """Ready and Regressed."""
    made = []
    for type_, (holds, reason, message) in (
        (READY, _ready(spec, decided, missing)),
        (REGRESSED, _regressed(entries, found)),
    ):
        plain = conditions.plain(type_, holds=holds, reason=reason, message=message, before=before, now=now)
        made.append(ScheduleCondition(**dict(plain), observed_generation=generation))
    return made


def happenings(
    before: Sequence[Condition],
    old_changes: Sequence[KeyChange],
    new: GpuBenchmarkScheduleStatus,
    *,
    slow_before: Sequence[SlowNode] = (),
) -> tuple[Happening, ...]:
    """What is new in a status: a regression, its end, and what the figures stand on."""
    told = []
    known = {change.run for change in old_changes}
    told += [
        Happening(type="Normal", reason=KEY_CHANGED, message=f"{change.sentence} since {change.since} ({change.run})")
        for change in reversed(new.key_changes)
        if change.run not in known
    ]
    slow = {one.node for one in slow_before}
    told += [
        Happening(type="Warning", reason=SLOW_NODE, message=one.sentence)
        for one in new.slow_nodes
        if one.node not in slow
    ]
    was = next((one for one in before if one.type == REGRESSED), None)
    now = next(one for one in new.conditions if one.type == REGRESSED)
    if now.status == "True" and (was is None or was.status != "True"):
        told.append(Happening(type="Warning", reason=REGRESSED, message=now.message))
    if now.status == "False" and was is not None and was.status == "True":
        told.append(Happening(type="Normal", reason=RECOVERED, message=now.message))
    return tuple(told)


def _ready(spec: GpuBenchmarkScheduleSpec, decided: Decision, missing: Sequence[str]) -> tuple[bool, str, str]:
    if decided.problem is not None:
        return False, decided.problem.reason, decided.problem.message
    if spec.suspend:
        return False, SUSPENDED, "no further runs start until spec.suspend is false"
    if decided.next_at is None:
        return True, SCHEDULED, "no further run is due"
    due = f"the next run is due at {rfc3339(decided.next_at)}"
    if missing:
        return True, WAITING_FOR_POOLS, f"{due}, and waits for GpuPool {_few(missing)}, not there: apply it"
    return True, SCHEDULED, due


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN_IN_A_CONDITION])
    return shown if len(names) <= _SHOWN_IN_A_CONDITION else f"{shown} and {len(names) - _SHOWN_IN_A_CONDITION} more"


def _regressed(entries: Sequence[Entry], found: Sequence[Regression]) -> tuple[bool | None, str, str]:
    if found:
        shown = "; ".join(one.sentence for one in found[:_SHOWN_IN_A_CONDITION])
        more = len(found) - _SHOWN_IN_A_CONDITION
        return True, SLOWER, shown + (f"; and {more} more points" if more > 0 else "")
    newest = entries[-1] if entries else None
    if newest is not None and newest.baseline == "Fail":
        return True, SLOWER_THAN_BASELINE, f"{newest.name}: {newest.baseline_sentence or 'slower than its baseline'}"
    if not history.judged(entries):
        sentence = f"no point has {changepoint.SERIES_MIN} runs of one environment yet: nothing can be told"
        if newest is not None and newest.baseline == "Pass":
            return False, NOT_SLOWER, f"{newest.name}: {newest.baseline_sentence or 'keeps up with its baseline'}"
        return None, TOO_FEW_RUNS, sentence
    return False, NOT_SLOWER, "no point is slower than it was by more than the tolerance"


def _last_run(entry: Entry) -> LastRun:
    took = duration_text(entry.finished_at - entry.created_at)
    first = f"; {entry.figures[0].text}: {entry.figures[0].mean:.4g}" if entry.figures else ""
    unit = " s" if entry.figures and entry.figures[0].quantity == "Seconds" else " samples/s" if entry.figures else ""
    return LastRun(
        name=entry.name,
        scheduled_at=rfc3339(entry.scheduled_at),
        finished_at=rfc3339(entry.finished_at),
        succeeded=entry.succeeded,
        sentence=conditions.clamped(f"{entry.sentence}, after {took}{first}{unit}", REGRESSION_SENTENCE_MAX),
        spent=entry.spent,
        currency=entry.currency,
    )
