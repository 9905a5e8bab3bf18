# SPDX-License-Identifier: Apache-2.0
"""How a trial stands after its attempts so far: measured, given up, running, or to be tried (again) from a moment on.

Whether a repeat beyond the minimum is needed at all is judged in `needed`, what is left out in `budget`.

Failures and preemptions are bounded separately: a spot pool may take a node away twenty times and still be fine, while
a program that fails three times is broken. An end that no retry can mend is final at once.

Retries wait longer and longer only while attempts end before they have got anywhere: a pool that takes a node away
every twenty minutes is no crash loop. One that was interrupted on purpose (`drill`) counts against nothing.
"""

import random
from collections.abc import Sequence
from enum import StrEnum

from gpubench.api.attempts import AttemptLimits
from gpubench.api.point_result import Omission, PointState
from gpubench.records import Result
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.values import Value

BACKOFF_FIRST_SECONDS = 10.0  # after the second attempt in a row that ended early; after the first there is none
BACKOFF_MAX_SECONDS = 300.0
BACKOFF_RESET_SECONDS = 60.0  # an attempt whose pods have all run together for so long has got somewhere
#: Two gangs that each got half of the nodes that there are, and gave up in the same second, must not meet there again.
SPREAD_SECONDS = 30.0
ATTEMPTS_MAX = 999  # three digits in the name of a Job

#: Ends that another attempt on the same pool would only repeat.
FINAL: dict[Reason, PointState] = {
    Reason.OUT_OF_MEMORY: PointState.OUT_OF_MEMORY,
    Reason.UNSUPPORTED_ACCELERATOR: PointState.UNSUPPORTED_ACCELERATOR,
    Reason.BAD_ASSIGNMENT: PointState.FAILED,
    Reason.SIZE_MISMATCH: PointState.FAILED,
    Reason.LOSS_NOT_FINITE: PointState.FAILED,
    Reason.DATA_UNUSABLE: PointState.FAILED,
    Reason.CUSTOM_MODEL_FAILED: PointState.FAILED,
    Reason.IMAGE_INVALID: PointState.FAILED,
}


class Standing(StrEnum):
    """How a trial stands."""

    MEASURED = "Measured"
    GIVEN_UP = "GivenUp"
    RUNNING = "Running"
    WAITING = "Waiting"
    HELD = "Held"  # it may not be needed: the repeats before it have yet to be measured
    NOT_NEEDED = "NotNeeded"  # the repeats before it are precise enough
    NOT_RUN = "NotRun"  # left out: `omission` says why


class TrialStanding(Value):
    """The standing of one trial, with what belongs to it."""

    standing: Standing
    next_attempt: int
    not_before: float = 0.0  # when WAITING: the back-off ends then
    measured: AttemptRecord | None = None  # when MEASURED
    state: PointState | None = None  # when GIVEN_UP or NOT_RUN: what that makes of its point
    sentence: str | None = None  # when GIVEN_UP or NOT_RUN: why
    omission: Omission | None = None  # when NOT_RUN

    @property
    def result(self) -> Result | None:
        """The measurement, where there is one."""
        return self.measured.result if self.measured else None


def standing(attempts: Sequence[AttemptRecord], limits: AttemptLimits, *, nodes: int = 1) -> TrialStanding:
    """The standing of a trial with these attempts, oldest first, each of which has so many pods."""
    number = attempts[-1].attempt + 1 if attempts else 1
    for record in attempts:
        if record.outcome is Outcome.SUCCEEDED:
            return TrialStanding(standing=Standing.MEASURED, next_attempt=number, measured=record)
    if attempts and attempts[-1].outcome is None:
        return TrialStanding(standing=Standing.RUNNING, next_attempt=number)
    given_up = _given_up(attempts, limits, number=number)
    if given_up is not None:
        return given_up
    return TrialStanding(standing=Standing.WAITING, next_attempt=number, not_before=_not_before(attempts, nodes=nodes))


def _given_up(attempts: Sequence[AttemptRecord], limits: AttemptLimits, *, number: int) -> TrialStanding | None:
    failed = [record for record in attempts if record.outcome is Outcome.FAILED]
    preempted = [record for record in attempts if record.outcome is Outcome.PREEMPTED and record.drilled is None]

    def give_up(state: PointState, sentence: str) -> TrialStanding:
        return TrialStanding(standing=Standing.GIVEN_UP, next_attempt=number, state=state, sentence=sentence)

    for record in failed:
        if record.reason in FINAL:
            return give_up(FINAL[record.reason], record.sentence or record.reason.value)
    if len(failed) > limits.failed:
        last = failed[-1]
        state = PointState.NO_CAPACITY if last.reason is Reason.NO_CAPACITY else PointState.FAILED
        return give_up(state, f"{_times(len(failed))} failed, the last time because {last.sentence}")
    if len(preempted) > limits.preempted:
        return give_up(
            PointState.FAILED, f"{_times(len(preempted))} preempted, the last time because {preempted[-1].sentence}"
        )
    if number > ATTEMPTS_MAX:
        return give_up(PointState.FAILED, f"{ATTEMPTS_MAX} attempts were made")
    return None


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _not_before(attempts: Sequence[AttemptRecord], *, nodes: int) -> float:
    """The end of the back-off after the attempts in a row, up to the last, that ended early: none after one of them.

    Then it is 10 s, doubled with each further one, at most five minutes. Where there was no room, up to half a minute
    more, by lot: the Job's UID decides, so that each look says the same.
    """
    in_a_row: list[AttemptRecord] = []
    for record in reversed(attempts):
        if record.outcome not in (Outcome.FAILED, Outcome.PREEMPTED) or record.drilled is not None:
            continue
        if _seconds_together(record, nodes=nodes) >= BACKOFF_RESET_SECONDS:
            break
        in_a_row.append(record)
    if not in_a_row:
        return 0.0
    last, delay = in_a_row[0], 0.0
    if len(in_a_row) > 1:
        delay = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(len(in_a_row) - 2, 16))
    if last.reason is Reason.NO_CAPACITY:
        delay += random.Random(last.job_uid).uniform(0.0, SPREAD_SECONDS)
    return (last.ended_at or last.created_at) + delay if delay else 0.0


def _seconds_together(record: AttemptRecord, *, nodes: int) -> float:
    """For how long all pods of an attempt ran at the same time; 0 where they never did, or nobody saw all of them."""
    starts = [running for _, running, _ in record.pod_times if running is not None]
    if len(starts) < nodes:
        return 0.0
    return min(ended for _, _, ended in record.pod_times) - max(starts)
