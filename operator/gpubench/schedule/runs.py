# SPDX-License-Identifier: Apache-2.0
"""What is to be done about a schedule now: which run starts, which ends, which is kept, which goes.

The rules are those of CronJob's controller (pkg/controller/cronjob/cronjob_controllerv2.go of Kubernetes 1.36,
`syncCronJob`), made from scratch at each look from the benchmarks that are there: what runs is never remembered, so
that a restarted, or a second, operator decides the same. Each part can be carried out twice without harm: a run's name
follows from its scheduled time, and a creation that finds it there has succeeded.
"""

from typing import Literal

from gpubench.api.schedule import ConcurrencyPolicy, GpuBenchmarkScheduleSpec
from gpubench.schedule import cron, due
from gpubench.scheduler.decision import Happening
from gpubench.units import rfc3339
from gpubench.values import Value

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
    found = due.due(
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


def _started(schedule: Schedule, made: Decision, found: due.Due) -> Decision:
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
        f"more than {due.MISSED_MAX} runs were missed: the newest one starts; set or decrease startingDeadlineSeconds, "
        "or check the clocks"
    )
    return _told("Warning", TOO_MANY_MISSED, sentence)


def _held_up(moment: int, active: Run) -> Happening:
    sentence = f"the run of {rfc3339(moment)} does not start while {active.name} is under way: concurrencyPolicy Forbid"
    return _told("Normal", STILL_ACTIVE, sentence)


def _problem(sentence: str) -> Happening:
    reason = UNKNOWN_TIME_ZONE if sentence.startswith("spec.timeZone") else UNPARSEABLE
    return _told("Warning", reason, sentence)
