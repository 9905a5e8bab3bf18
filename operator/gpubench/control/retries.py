# SPDX-License-Identifier: Apache-2.0
"""How a trial stands after its attempts so far: measured, given up, running, or to be tried (again) from a moment on.

Whether a repeat beyond the minimum is needed at all is judged in `needed`, what is left out in `budget`.

Failures and preemptions are bounded separately: a spot pool may take a node away twenty times and still be fine, while
a program that fails three times is broken. An end that no retry can mend is final at once.
"""

from collections.abc import Sequence
from enum import StrEnum

from gpubench.api.benchmark import AttemptLimits
from gpubench.api.benchmark_status import Omission, PointState
from gpubench.control.ledger import AttemptRecord, Outcome, Reason
from gpubench.measure.records import Result
from gpubench.values import Value

BACKOFF_FIRST_SECONDS = 10.0  # before the second retry; the first one follows at once
BACKOFF_MAX_SECONDS = 300.0
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


def standing(attempts: Sequence[AttemptRecord], limits: AttemptLimits) -> TrialStanding:
    """The standing of a trial with these attempts, oldest first."""
    number = attempts[-1].attempt + 1 if attempts else 1
    for record in attempts:
        if record.outcome is Outcome.SUCCEEDED:
            return TrialStanding(standing=Standing.MEASURED, next_attempt=number, measured=record)
    if attempts and attempts[-1].outcome is None:
        return TrialStanding(standing=Standing.RUNNING, next_attempt=number)
    given_up = _given_up(attempts, limits, number=number)
    if given_up is not None:
        return given_up
    return TrialStanding(standing=Standing.WAITING, next_attempt=number, not_before=_not_before(attempts))


def _given_up(attempts: Sequence[AttemptRecord], limits: AttemptLimits, *, number: int) -> TrialStanding | None:
    failed = [record for record in attempts if record.outcome is Outcome.FAILED]
    preempted = [record for record in attempts if record.outcome is Outcome.PREEMPTED]

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


def _not_before(attempts: Sequence[AttemptRecord]) -> float:
    """The end of the back-off: none before the first retry, then 10 s, doubled with each, at most five minutes."""
    retries = [record for record in attempts if record.outcome in (Outcome.FAILED, Outcome.PREEMPTED)]
    if len(retries) < 2:
        return 0.0
    delay = min(BACKOFF_MAX_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(len(retries) - 2, 16))
    return (retries[-1].ended_at or retries[-1].created_at) + delay
