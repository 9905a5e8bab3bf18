# SPDX-License-Identifier: Apache-2.0
"""What became of each trial and each point: measured, given up, running, or to be tried (again) from a moment on.

Failures and preemptions are bounded separately: a spot pool may take a node away twenty times and still be fine, while
a program that fails three times is broken. A repeat beyond `min` starts only when all before it have been measured and
are not precise enough, so none starts that may turn out not to be needed. All of it follows from plan and ledger.

Where no node comes, waiting costs nothing and is no failure: it is bounded by `limits.capacityTimeout`, for all
attempts at a point together. Meanwhile trials on other pools have their turn.
"""

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from gpubench import exitcodes
from gpubench.api.attempts import AttemptLimits
from gpubench.api.point_result import Omission, PointState
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.records import Environment, Result
from gpubench.scheduler import environments, stopping
from gpubench.scheduler.ledger import AttemptRecord, Interruption, Ledger, Outcome, Reason
from gpubench.stats import stopping_rule
from gpubench.units import counted, duration_text

BACKOFF_FIRST_SECONDS = 10.0  # after the second attempt in a row that ended early; after the first there is none
BACKOFF_MAX_SECONDS = 300.0
BACKOFF_RESET_SECONDS = 60.0  # an attempt whose pods have all run together for so long has got somewhere
#: Two gangs that each got half of the nodes that there are, and gave up in the same second, must not meet there again.
JITTER_SECONDS = 30.0
#: Attempts that nodes of about the same age have cost, until it is certain that no further one will do better.
EXPIRIES_MAX = 3
SAME_AGE_SECONDS = 30.0
SAME_AGE_SHARE = 0.1
ATTEMPTS_MAX = 999  # three digits in the name of a Job

#: Ends that another attempt on the same pool would only repeat.
FINAL: dict[Reason, PointState] = {
    **{Reason[code.name]: PointState.FAILED for code in exitcodes.DO_NOT_RETRY},
    Reason.IMAGE_INVALID: PointState.FAILED,
    Reason.ADMISSION_REFUSED: PointState.FAILED,
    Reason.OTHER_MACHINES: PointState.FAILED,
    Reason.OUT_OF_MEMORY: PointState.OUT_OF_MEMORY,
    Reason.UNSUPPORTED_ACCELERATOR: PointState.UNSUPPORTED_ACCELERATOR,
    Reason.NODE_GONE: PointState.NO_CAPACITY,
}


class TrialState(StrEnum):
    """What became of a trial so far."""

    MEASURED = "Measured"
    GIVEN_UP = "GivenUp"
    RUNNING = "Running"
    WAITING = "Waiting"
    HELD = "Held"  # it may not be needed: the repeats before it have yet to be measured
    NOT_NEEDED = "NotNeeded"  # the repeats before it are precise enough
    NOT_RUN = "NotRun"  # left out: it does not fit into the budget


_ENDED = frozenset({TrialState.MEASURED, TrialState.NOT_NEEDED, TrialState.NOT_RUN})


class TrialStatus(NamedTuple):
    """The state of one trial, with what belongs to it."""

    state: TrialState
    next_attempt: int
    not_before: float = 0.0  # when WAITING: the back-off ends then
    measured: AttemptRecord | None = None  # when MEASURED
    environment: environments.EnvironmentKey | None = None  # when MEASURED: asked for at each step, for each trial
    point_state: PointState | None = None  # when GIVEN_UP or NOT_RUN: what that makes of its point
    message: str | None = None  # when GIVEN_UP or NOT_RUN: why
    in_vain: float = 0.0  # when WAITING: seconds for which its last attempt waited for a first node until it ended
    in_parts: bool = False  # when WAITING: its last attempt had nodes for some of its pods only, until its time-out

    def not_run(self, message: str | None) -> "TrialStatus":
        return self._replace(state=TrialState.NOT_RUN, point_state=PointState.NOT_RUN, message=message)

    @property
    def result(self) -> Result | None:
        return self.measured.result if self.measured else None


class PointStatus(NamedTuple):
    """What became of a point that is run, and why where it was not measured."""

    state: PointState
    message: str | None = None
    left_out: str | None = None  # why some of its trials are not run, where they are not

    @property
    def omission(self) -> Omission | None:
        """Why trials of it were left out, in one word: there is one reason."""
        return None if self.left_out is None else "Budget"


# --- trials -----------------------------------------------------------------------------------------------------------


def of_point(
    plan: Plan, trials: Sequence[Trial], attempts: Mapping[str, Sequence[AttemptRecord]]
) -> dict[str, TrialStatus]:
    """The trials of one point, repeat by repeat, after their attempts, oldest first; by the trial's id."""
    found = {
        trial.id: status(attempts.get(trial.id, ()), plan.attempts, nodes=plan.points[trial.point].nodes)
        for trial in trials
    }
    for id_, one in found.items() if plan.checkpoint is None else ():
        why = _outlives_its_nodes(attempts.get(id_, ())) if one.state is TrialState.WAITING else None
        if why is not None:
            found[id_] = one._replace(state=TrialState.GIVEN_UP, point_state=PointState.FAILED, message=why)
    records = [record for trial in trials for record in attempts.get(trial.id, ())]
    if plan.timing.capacity_timeout and waited(records) >= plan.timing.capacity_timeout:
        in_vain = [(one.ended_at or 0.0, one.sentence) for one in records if one.was_in_vain]
        used_up = f"limits.capacityTimeout ({plan.timing.capacity_timeout} s) is used up: start it again"
        given_up = TrialStatus(
            TrialState.GIVEN_UP, 0, point_state=PointState.NO_CAPACITY, message=max(in_vain, default=(0, used_up))[1]
        )
        waiting = ((key, one) for key, one in found.items() if one.state is TrialState.WAITING)
        found |= {key: given_up._replace(next_attempt=one.next_attempt) for key, one in waiting}
    if len(environment_keys(found.values())) > 1:  # they are not averaged, and a further one cannot mend that
        return {
            trial: one._replace(state=TrialState.NOT_NEEDED) if one.state is TrialState.WAITING else one
            for trial, one in found.items()
        }
    if (rule := stopping.of_plan(plan)) is None:
        return found
    before: list[TrialStatus] = []  # repeats that have been measured
    over = any(one.state is TrialState.GIVEN_UP for one in found.values())
    for trial in trials:
        one = found[trial.id]
        if one.state is TrialState.MEASURED:
            before.append(one)
        elif one.state is TrialState.WAITING and not plan.is_certain(trial):
            complete = len(before) == trial.repeat
            if complete and not over:
                values = stopping.values(plan, [measured.result for measured in before if measured.result is not None])
                over = not stopping_rule.another(values, rule)
            if over or not complete:
                found[trial.id] = one._replace(state=TrialState.NOT_NEEDED if over else TrialState.HELD)
    return found


def of_ledger(plan: Plan, ledger: Ledger, points: Sequence[PointStatus]) -> dict[str, TrialStatus]:
    """The state of every trial by a ledger; `points` say what the budget leaves out."""
    attempts, found = ledger.by_trial, dict[str, TrialStatus]()
    for repeats, point in zip(plan.repeats_of_points(), points, strict=True):
        for trial, one in of_point(plan, repeats, attempts).items():
            is_left_out = point.left_out is not None and one.state in (TrialState.WAITING, TrialState.HELD)
            found[trial] = one.not_run(point.left_out) if is_left_out else one
    return found


def with_refusals(trials: Mapping[str, TrialStatus], refused: Iterable[AttemptRecord]) -> Mapping[str, TrialStatus]:
    """The states with the back-off of those whose Jobs the API server did not take: for as long as they have waited."""
    later = {
        one.trial: one.created_at + min(BACKOFF_MAX_SECONDS, max(BACKOFF_FIRST_SECONDS, one.refused or 0.0))
        for one in refused
        if one.trial in trials
    }
    return {**trials, **{trial: trials[trial]._replace(not_before=moment) for trial, moment in later.items()}}


def least(plan: Plan, trials: Mapping[str, TrialStatus]) -> int:
    """Trials of the plan if no point needs another one than those that have begun or must run."""
    return sum(trials[trial.id].state not in (TrialState.HELD, TrialState.NOT_NEEDED) for trial in plan.trials)


def startable(plan: Plan, trials: Mapping[str, TrialStatus]) -> list[Trial]:
    """Trials that wait for an attempt; none of a point with a given-up trial, for it would end the same way.

    In the plan's order, those last on whose pools attempts have waited in vain.
    """
    ended, last = points_given_up(plan, trials), waits_in_vain(plan, trials)
    found = [
        trial for trial in plan.trials if trials[trial.id].state is TrialState.WAITING and trial.point not in ended
    ]
    return sorted(found, key=lambda trial: last.get(plan.points[trial.point].key.pool, 0.0)) if last else found


def waits_in_vain(plan: Plan, trials: Mapping[str, TrialStatus]) -> Mapping[str, float]:
    """By pool: for how long the last attempt at a trial on it waited for a first node until it ended."""
    waits = [(found, trial.point) for trial in plan.trials if (found := trials[trial.id].in_vain)]
    return {plan.points[point].key.pool: seconds for seconds, point in sorted(waits)}


def waited(records: Iterable[AttemptRecord]) -> float:
    return sum(record.waited for record in records)


def points_given_up(plan: Plan, trials: Mapping[str, TrialStatus]) -> set[int]:
    return {trial.point for trial in plan.trials if trials[trial.id].state is TrialState.GIVEN_UP}


def status(attempts: Sequence[AttemptRecord], limits: AttemptLimits, *, nodes: int = 1) -> TrialStatus:
    """The state of a trial with these attempts, oldest first, each of which has so many pods."""
    number = attempts[-1].attempt + 1 if attempts else 1
    measured = next((record for record in attempts if record.outcome is Outcome.SUCCEEDED), None)
    if measured is not None:
        return TrialStatus(TrialState.MEASURED, number, measured=measured, environment=environments.key_of(measured))
    if attempts and attempts[-1].outcome is None:
        return TrialStatus(TrialState.RUNNING, number)
    failed = [record for record in attempts if record.outcome is Outcome.FAILED and not record.was_in_vain]
    preempted = [record for record in attempts if record.outcome is Outcome.PREEMPTED and record.drilled is None]
    final = next((record for record in attempts if record.reason in FINAL), None)
    state, message = PointState.FAILED, None
    if final is not None and final.reason is not None:
        state, message = FINAL[final.reason], final.sentence or final.reason.value
    elif len(failed) > limits.failed:
        state = PointState.NO_CAPACITY if failed[-1].reason is Reason.NO_CAPACITY else PointState.FAILED
        message = f"{counted(len(failed), 'attempt')} failed, the last one because {failed[-1].sentence}"
    elif len(preempted) > limits.preempted:
        were = counted(len(preempted), "attempt was", "attempts were")
        message = f"{were} preempted, the last one because {preempted[-1].sentence}"
    elif number > ATTEMPTS_MAX:
        message = f"{ATTEMPTS_MAX} attempts were made"
    if message is not None:
        return TrialStatus(TrialState.GIVEN_UP, number, point_state=state, message=message)
    last = attempts[-1] if attempts and attempts[-1].reason is Reason.NO_CAPACITY else None
    return TrialStatus(
        TrialState.WAITING,
        number,
        not_before=_not_before(attempts, nodes=nodes),
        in_vain=last.waited if last is not None and last.was_in_vain else 0.0,
        in_parts=last is not None and not last.was_in_vain,
    )


def _outlives_its_nodes(attempts: Sequence[AttemptRecord]) -> str | None:
    """Why no attempt comes to its end: nodes that came for it live for so long, and not for longer."""
    ages = [
        record.ended_at - record.node_created_at
        for record in attempts
        if record.interruption is Interruption.EVICTION
        and record.ended_at is not None
        and record.node_created_at is not None
        and record.drilled is None
        and record.node_created_at >= record.created_at
    ][-EXPIRIES_MAX:]
    if len(ages) < EXPIRIES_MAX or max(ages) - min(ages) > max(SAME_AGE_SECONDS, max(ages) * SAME_AGE_SHARE):
        return None
    return (
        f"{counted(len(ages), 'attempt')} had a new node each, and were evicted when it was about "
        f"{duration_text(round(max(ages)))} old: let nodes live for longer (Karpenter: expireAfter and "
        "terminationGracePeriod of the NodePool), measure for less, or keep a training with spec.checkpoint"
    )


def _not_before(attempts: Sequence[AttemptRecord], *, nodes: int) -> float:
    """The end of the back-off after the attempts in a row, up to the last, that ended early: none after one of them.

    Then it is 10 s, doubled with each further one, at most five minutes. Where there was no capacity a jitter of up to
    half a minute comes on top: the Job's UID decides it, so that each call returns the same.
    """
    ended = [record for record in reversed(attempts) if _ended_early(record)]
    in_a_row = list(
        itertools.takewhile(lambda record: _seconds_together(record, nodes=nodes) < BACKOFF_RESET_SECONDS, ended)
    )
    if not in_a_row:
        return 0.0
    last, delay = in_a_row[0], 0.0
    if len(in_a_row) > 1:
        delay = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(len(in_a_row) - 2, 16))
    if last.reason is Reason.NO_CAPACITY:
        delay += random.Random(last.job_uid).uniform(0.0, JITTER_SECONDS)
    return (last.ended_at or last.created_at) + delay if delay else 0.0


def _ended_early(record: AttemptRecord) -> bool:
    if record.outcome is Outcome.STOPPED:  # what its queue has ended may end so again
        return record.reason in (Reason.QUEUE_GAVE_UP, Reason.JOB_VANISHED)
    return record.outcome in (Outcome.FAILED, Outcome.PREEMPTED) and record.drilled is None


def _seconds_together(record: AttemptRecord, *, nodes: int) -> float:
    """For how long all pods of an attempt ran at the same time; 0 where they never did, or nobody saw all of them."""
    starts = [running for _, running, _ in record.pod_times if running is not None]
    return 0.0 if len(starts) < nodes else min(ended for _, _, ended in record.pod_times) - max(starts)


# --- points -----------------------------------------------------------------------------------------------------------


def points(
    repeats: Sequence[Sequence[Trial]], plan: Plan, trials: Mapping[str, TrialStatus], known: Mapping[str, Environment]
) -> tuple[PointStatus, ...]:
    """What became of each point; one that is derived from others, or imported, is Pending: the analysis says.

    `repeats` are the trials of each point, `known` the environments whose records were read, by key.
    """
    of_points = [[trials[trial.id] for trial in of_point] for of_point in repeats]
    every, found = tuple(zip(plan.points, of_points, strict=True)), []
    for point, of_point in every:
        if not of_point:
            found.append(PointStatus(PointState.PENDING if point.skip is None else PointState.SKIPPED, point.skip))
            continue
        one = _point_status(of_point, known)
        if one.state is PointState.OUT_OF_MEMORY:
            one = one._replace(message=f"{_what_fits(point, every)}: {one.message}")
        left_out = next((trial.message for trial in of_point if trial.state is TrialState.NOT_RUN), None)
        found.append(one._replace(left_out=left_out))
    return tuple(found)


def _point_status(trials: Sequence[TrialStatus], known: Mapping[str, Environment]) -> PointStatus:
    by_state = {trial.state: trial for trial in reversed(trials)}  # the first of each
    if TrialState.RUNNING in by_state:
        return PointStatus(PointState.RUNNING)
    cut_short = by_state.get(TrialState.GIVEN_UP) or by_state.get(TrialState.NOT_RUN)
    if cut_short is not None and TrialState.MEASURED not in by_state:
        return PointStatus(cut_short.point_state or PointState.FAILED, cut_short.message)
    if TrialState.GIVEN_UP not in by_state and by_state.keys() - _ENDED:
        return PointStatus(PointState.PENDING)
    distinct = environment_keys(trials)
    if len(distinct) > 1:
        message = (
            f"the repeats ran in different environments ({environments.differences(distinct, known)}) and are not "
            "averaged: pin the image by digest, exempt it from webhooks that rewrite images or resources, or restrict "
            "the pool to equal nodes"
        )
        return PointStatus(PointState.FAILED, message)
    return PointStatus(PointState.UNSTABLE if unstable(trials) else PointState.MEASURED)


def unstable(trials: Iterable[TrialStatus]) -> bool:
    """Whether at least half of the repeats never settled: then the point has no steady state. Fewer are a warning."""
    results = [trial.result for trial in trials if trial.result is not None]
    return 0 < len(results) <= 2 * sum(not result.settled for result in results)


def environment_keys(trials: Iterable[TrialStatus]) -> tuple[environments.EnvironmentKey, ...]:
    """The distinct environments of the repeats: one entry where they may be averaged."""
    return environments.distinct(trial.environment for trial in trials if trial.environment is not None)


def _what_fits(point: Point, every: Iterable[tuple[Point, Sequence[TrialStatus]]]) -> str:
    failed, batch = point.key, point.key.batch_per_worker
    assert batch is not None  # a point without it is skipped and meets no memory
    same = {"batch_per_worker": batch, "global_batch": failed.global_batch}
    smaller = [
        size
        for other, of_point in every
        if (size := other.key.batch_per_worker or batch) < batch
        and len(environment_keys(of_point)) == 1
        and other.key.model_copy(update=same) == failed
    ]
    hint = f"{max(smaller)} does" if smaller else "no smaller batch was measured"
    return f"batch {batch} per worker does not fit; {hint}"
