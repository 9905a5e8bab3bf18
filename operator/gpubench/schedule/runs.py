# SPDX-License-Identifier: Apache-2.0
"""What is to be done about a schedule now: which run starts, which ends, which is kept, which goes; and its status.

The rules are those of CronJob's controller (pkg/controller/cronjob/cronjob_controllerv2.go of Kubernetes 1.36,
`syncCronJob`), applied to the benchmarks that are there: a restarted, or a second, operator decides the same. Each part
can be carried out twice without harm: a run's name follows from its scheduled time.
"""

import itertools
from collections.abc import Sequence

from gpubench.analysis import text
from gpubench.api import messages
from gpubench.api import schedule as api
from gpubench.api.condition import Condition
from gpubench.schedule import cron, history
from gpubench.scheduler import conditions
from gpubench.scheduler.actions import Event
from gpubench.stats import levels
from gpubench.units import counted, duration_text, rfc3339
from gpubench.values import FrozenModel

# Types of conditions.
READY = "Ready"
REGRESSED = "Regressed"

# Reasons of conditions, and of the Events about them.
SCHEDULED = "Scheduled"
UNPARSEABLE = "UnparseableSchedule"
UNKNOWN_TIME_ZONE = "UnknownTimeZone"
SLOWER = "Slower"
SLOWER_THAN_BASELINE = "SlowerThanBaseline"
NOT_SLOWER = "NotSlower"
TOO_FEW_RUNS = "TooFewRuns"
SLOW_NODE = "SlowNode"
KEY_CHANGED = "EnvironmentChanged"
NO_FIGURES = "NoFigures"

# Reasons of Events alone, CronJob's where it has one.
CREATED = "SuccessfulCreate"
DELETED = "SuccessfulDelete"
COMPLETED = "SawCompletedBenchmark"
MISSED = "MissSchedule"
TOO_MANY_MISSED = "TooManyMissedTimes"
STILL_ACTIVE = "BenchmarkAlreadyActive"

#: An operator's clock may lag behind the one by which somebody reads "due": CronJob adds as much.
_PADDING = 0.1
_SHOWN_IN_A_CONDITION = 3


class Run(FrozenModel):
    """A benchmark of the schedule's own, as it was observed. Times are seconds since the epoch."""

    name: str
    uid: str
    scheduled_at: int
    created_at: float
    finished_at: float | None = None  # None while it runs, also while it is deleted: until then its pods are there
    succeeded: bool = False
    deleting: bool = False
    archived: bool = False  # whether the history has it


class Schedule(FrozenModel):
    """The schedule object, as far as the decision needs it."""

    name: str
    created_at: float
    spec: api.GpuBenchmarkScheduleSpec
    last_scheduled_at: float | None = None  # of its status


class Decision(FrozenModel):
    """In the order in which it is carried out: what is finished is archived before anything goes."""

    archive: tuple[Run, ...] = ()  # finished, and not in the history yet
    remove: tuple[Run, ...] = ()  # beyond the history limits; only those that the history has
    replace: tuple[Run, ...] = ()  # under way, and in the way of `start`
    start: int | None = None  # the scheduled time of the run to create
    active: tuple[Run, ...] = ()  # before `start`, `replace` left out
    last_scheduled_at: int | None = None
    next_at: int | None = None
    table: cron.Timetable | None = None  # None where nothing is scheduled: it is suspended, or there is a `problem`
    problem: Event | None = None  # why nothing can be scheduled
    events: tuple[Event, ...] = ()
    wake_at: float | None = None


def decide(schedule: Schedule, runs: tuple[Run, ...], now: float) -> Decision:
    """What is to be done now. `runs` are all benchmarks of this schedule that are there."""
    spec = schedule.spec
    archive = tuple(run for run in runs if run.finished_at is not None and not run.archived)
    scheduled = [run.scheduled_at for run in runs]  # the status may be a write behind
    if schedule.last_scheduled_at is not None:
        scheduled.append(int(schedule.last_scheduled_at))
    made = Decision(
        archive=archive,
        remove=_beyond_limits(spec, runs),
        active=tuple(run for run in runs if run.finished_at is None),
        last_scheduled_at=max(scheduled, default=None),
        events=tuple(
            Event.normal(COMPLETED, f"{run.name} has finished and succeeded")
            if run.succeeded
            else Event.warning(COMPLETED, f"{run.name} has finished and did not succeed")
            for run in archive
        ),
    )
    try:
        table = cron.timetable(spec.schedule, time_zone=spec.time_zone)
    except cron.InvalidSchedule as error:
        reason = UNKNOWN_TIME_ZONE if str(error).startswith("spec.timeZone") else UNPARSEABLE
        return made.model_copy(update={"problem": Event.warning(reason, str(error))})
    if spec.suspend:
        return made
    due = cron.due(
        table,
        created=schedule.created_at,
        last=made.last_scheduled_at,
        deadline_seconds=spec.starting_deadline_seconds,
        now=now,
    )
    changes = {"table": table, "next_at": due.next, "wake_at": due.next + _PADDING}
    return _started(spec, made.model_copy(update=changes), due)


def _started(spec: api.GpuBenchmarkScheduleSpec, made: Decision, due: cron.Due) -> Decision:
    """The decision with the run that is due, or with the Event that says why it does not start."""
    events, changes = [*made.events], dict[str, object]()
    if due.too_late is not None:
        late = f"the run of {rfc3339(due.too_late)} is later than startingDeadlineSeconds"
        events.append(Event.warning(MISSED, f"{late} and does not start any more"))
    if due.missed > cron.MISSED_MAX:
        remedy = "the newest one starts; set or decrease startingDeadlineSeconds, or check the clocks"
        events.append(Event.warning(TOO_MANY_MISSED, f"more than {cron.MISSED_MAX} runs were missed: {remedy}"))
    if due.run is not None and spec.concurrency_policy == "Forbid" and made.active:
        why = f"while {made.active[0].name} is under way: concurrencyPolicy Forbid"
        events.append(Event.normal(STILL_ACTIVE, f"the run of {rfc3339(due.run)} does not start {why}"))
    elif due.run is not None:
        changes["start"] = due.run
        if spec.concurrency_policy == "Replace":
            changes |= {"replace": tuple(run for run in made.active if not run.deleting), "active": ()}
    return made.model_copy(update={"events": tuple(events), **changes})


def _beyond_limits(spec: api.GpuBenchmarkScheduleSpec, runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The oldest finished runs over each limit. One that is not archived yet stays, whatever the limit says."""
    found: list[Run] = []
    for succeeded, limit in ((True, spec.successful_history_limit), (False, spec.failed_history_limit)):
        ended = sorted(
            (run for run in runs if run.finished_at is not None and run.succeeded is succeeded),
            key=lambda run: (run.created_at, run.name),
        )
        found += ended[: max(0, len(ended) - limit)]
    return tuple(run for run in found if run.archived and not run.deleting)


# --- status -----------------------------------------------------------------------------------------------------------


def status(
    spec: api.GpuBenchmarkScheduleSpec,
    decided: Decision,
    entries: Sequence[history.Entry],
    *,
    series: Sequence[history.Series],
    monthly: api.Monthly | None,
    missing_pools: Sequence[str] = (),
    before: Sequence[Condition] = (),
    generation: int,
    created_at: float | None = None,
    now: float,
) -> api.GpuBenchmarkScheduleStatus:
    found = history.regressions(series)
    succeeded = [entry.finished_at for entry in entries if entry.succeeded]
    active = sorted(decided.active, key=lambda run: run.scheduled_at, reverse=True)
    wanted = {READY: _ready(decided, missing_pools), REGRESSED: _regressed(spec, entries, series, found)}
    return api.GpuBenchmarkScheduleStatus(
        observed_generation=generation,
        conditions=conditions.as_conditions(wanted, before=before, generation=generation, now=now),
        active=tuple(
            api.ActiveRun(name=run.name, scheduled_time=rfc3339(run.scheduled_at)) for run in active[: api.ACTIVE_MAX]
        ),
        active_runs=len(active),
        last_schedule_time=None if decided.last_scheduled_at is None else rfc3339(decided.last_scheduled_at),
        last_successful_time=rfc3339(max(succeeded)) if succeeded else None,
        next_schedule_time=None if decided.next_at is None else rfc3339(decided.next_at),
        runs_kept=len(entries),
        points_judged=sum(one.is_judged for one in series),
        last_results=tuple(map(_last_run, reversed(entries[-api.LAST_RESULTS_MAX :]))),
        regressions=found[: api.REGRESSIONS_MAX],
        slower_points=len(found),
        runs_due_since_success=_due_since_success(decided, entries, created_at=created_at, now=now),
        levels=history.shown_levels(series),
        key_changes=history.key_changes(entries),
        slow_nodes=history.slow_nodes(entries),
        monthly=monthly,
    )


def status_events(
    old: api.GpuBenchmarkScheduleStatus, new: api.GpuBenchmarkScheduleStatus, series: Sequence[history.Series]
) -> tuple[Event, ...]:
    """What is new in a status: a changed environment, a slow node, a regression, its end and why it ended."""
    known, slow = {change.run for change in old.key_changes}, {one.node for one in old.slow_nodes}
    events = [
        Event.normal(KEY_CHANGED, f"{change.sentence} since {change.since} ({change.run})")
        for change in reversed(new.key_changes)
        if change.run not in known
    ]
    events += [Event.warning(SLOW_NODE, one.sentence) for one in new.slow_nodes if one.node not in slow]
    stood = {one.series: one.since for one in old.regressions}
    events += [
        Event.warning(REGRESSED, one.sentence) for one in new.regressions if stood.get(one.series, "") < one.since
    ]
    ended = (history.how_ended(one, series) for one in old.regressions)
    events += [Event.normal(*one) for one in ended if one is not None]
    was, now = (next((one for one in status.conditions if one.type == REGRESSED), None) for status in (old, new))
    if now is not None and now.reason == SLOWER_THAN_BASELINE and (was is None or was.reason != now.reason):
        events.append(Event.warning(REGRESSED, now.message))
    return tuple(events)


def _due_since_success(
    decided: Decision, entries: Sequence[history.Entry], *, created_at: float | None, now: float
) -> int:
    """With the newest one that is due; none where nothing is scheduled."""
    if decided.table is None or created_at is None:
        return 0
    newest = max((entry.scheduled_at for entry in entries if entry.succeeded), default=None)
    return cron.due(decided.table, created=created_at, last=newest, deadline_seconds=None, now=now).missed


def _ready(decided: Decision, missing: Sequence[str]) -> tuple[bool, str, str]:
    if decided.problem is not None:
        return False, decided.problem.reason, decided.problem.message
    if decided.next_at is None:
        return False, conditions.SUSPENDED, "no further runs start until spec.suspend is false"
    due = f"the next run is due at {rfc3339(decided.next_at)}"
    if missing:
        pools = text.shortened(missing)
        return True, messages.POOLS_ABSENT.reason, f"{due}, and waits for GpuPool {pools}, not there: apply it"
    return True, SCHEDULED, due


def _regressed(
    spec: api.GpuBenchmarkScheduleSpec,
    entries: Sequence[history.Entry],
    series: Sequence[history.Series],
    found: Sequence[api.Regression],
) -> tuple[bool | None, str, str]:
    if found:
        worst = sorted(found, key=lambda one: one.speed.mean)[:_SHOWN_IN_A_CONDITION]
        shown, more = "; ".join(one.sentence for one in worst), len(found) - _SHOWN_IN_A_CONDITION
        return True, SLOWER, shown + (f"; and {counted(more, 'more point')}" if more > 0 else "")
    newest = entries[-1] if entries else None
    if newest is not None and newest.baseline == "Fail":
        return True, SLOWER_THAN_BASELINE, f"{newest.name}: {newest.baseline_sentence}"
    lately = {one.name for one in entries[-history.POINTS_LATELY :]}
    # Of each point the newest series: no other one speaks for it. And none speaks for runs that left no figure.
    here = {one.newest.figure.point: one for one in series if one.newest.run.name in lately}.values()
    if judged := [one for one in here if one.is_judged]:
        first = min(one.measured[one.level.begin].run.scheduled_at for one in judged)
        runs = f"{max(one.runs for one in judged)} runs in one environment since {rfc3339(first)}"
        less = "" if len(judged) == len(here) else f"; {len(here) - len(judged)} more have too few runs yet"
        what = f"not slower by more than {text.share(spec.regressions.tolerance)}"
        return False, NOT_SLOWER, f"{what}: {counted(len(judged), 'point')} compared, up to {runs}{less}"
    if newest is not None and newest.baseline == "Pass":
        return False, NOT_SLOWER, f"{newest.name}: {newest.baseline_sentence}"
    if newest is not None and not here:
        without = itertools.takewhile(lambda one: not any(of.settled for of in one.figures), reversed(entries))
        since = counted(len([*without]), "run")
        return None, NO_FIGURES, f"the newest {since} gave no figure that settled: nothing can be told"
    most = max((one.runs for one in here), default=0)
    few = f"no point has {levels.SERIES_MIN} runs in its environment yet, but {most}"
    unknown = f"no point has {levels.REFERENCE_MIN} runs to compare with on the node of its newest one"
    message = f"{few if most < levels.SERIES_MIN else unknown}: nothing can be told"
    if len(series) > len(here) or len(entries) > levels.SERIES_MIN:
        message += (
            "; where environments or nodes change with each run, name what may change in regressions.compareAcross"
        )
    return None, TOO_FEW_RUNS, message


def _last_run(entry: history.Entry) -> api.LastRun:
    sentence = f"{entry.sentence}, after {duration_text(entry.finished_at - entry.created_at)}"
    if entry.figures:
        first = entry.figures[0]
        sentence += f"; {first.text}: {first.mean:.4g} {'s' if first.quantity == 'Seconds' else 'samples/s'}"
    return api.LastRun(
        name=entry.name,
        scheduled_time=rfc3339(entry.scheduled_at),
        completion_time=rfc3339(entry.finished_at),
        succeeded=entry.succeeded,
        sentence=conditions.clamped(sentence, api.REGRESSION_SENTENCE_MAX),
        spent=entry.spent,
        currency=entry.currency,
    )
