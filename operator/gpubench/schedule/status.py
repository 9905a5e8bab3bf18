# SPDX-License-Identifier: Apache-2.0
"""The status of a schedule, and the Events of what changed in it: made from the decision and the history alone.

The same runs give the same status whenever it is made, but for times of transitions.
"""

from collections.abc import Sequence

from gpubench.api.condition import Condition
from gpubench.api.schedule import (
    ACTIVE_MAX,
    LAST_RESULTS_MAX,
    REGRESSION_SENTENCE_MAX,
    ActiveRun,
    GpuBenchmarkScheduleSpec,
    GpuBenchmarkScheduleStatus,
    KeyChange,
    LastRun,
    Monthly,
    Regression,
    ScheduleCondition,
    SlowNode,
)
from gpubench.schedule import verdict
from gpubench.schedule.history import Entry
from gpubench.schedule.runs import Decision
from gpubench.scheduler import conditions
from gpubench.scheduler.decision import Happening
from gpubench.stats import changepoint
from gpubench.units import duration_text, rfc3339

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
    found = verdict.regressions(entries, tolerance=float(spec.regressions.tolerance))
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
        points_judged=verdict.judged(entries),
        last_results=tuple(map(_last_run, reversed(entries[-LAST_RESULTS_MAX:]))),
        regressions=verdict.shown(found),
        key_changes=verdict.key_changes(entries),
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
    if not verdict.judged(entries):
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
