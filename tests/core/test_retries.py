# SPDX-License-Identifier: Apache-2.0
"""How a trial stands after its attempts: bounded retries, two separate bounds, back-off, final ends."""

from collections.abc import Mapping

import pytest

import builders
from gpubench.api.benchmark import AttemptLimits
from gpubench.api.benchmark_status import PointState
from gpubench.control import retries
from gpubench.control.ledger import AttemptRecord, Outcome, Reason
from gpubench.control.retries import Standing, TrialStanding

LIMITS = AttemptLimits(failed=2, preempted=3)


def standing(*attempts: Mapping[str, object]) -> TrialStanding:
    records = [builders.attempt(attempt=number, **fields) for number, fields in enumerate(attempts, start=1)]
    return retries.standing(records, LIMITS)


FAILED: dict[str, object] = {"outcome": Outcome.FAILED, "reason": Reason.WORKER_RAISED}
PREEMPTED: dict[str, object] = {"outcome": Outcome.PREEMPTED, "reason": Reason.DISRUPTED}
STOPPED: dict[str, object] = {"outcome": Outcome.STOPPED, "reason": Reason.SUSPENDED}
RUNNING: dict[str, object] = {"outcome": None, "reason": None, "ended_at": None}


def test_a_trial_without_attempts_may_start_at_once() -> None:
    found = standing()
    assert (found.standing, found.next_attempt, found.not_before) == (Standing.WAITING, 1, 0.0)


def test_a_result_settles_a_trial() -> None:
    record = builders.attempt(outcome=Outcome.SUCCEEDED, reason=Reason.COMPLETED, result=builders.result())
    found = retries.standing([record], LIMITS)
    assert found.standing is Standing.MEASURED
    assert found.result == builders.result()


def test_an_open_attempt_is_running() -> None:
    assert standing(FAILED, RUNNING).standing is Standing.RUNNING


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([FAILED] * 2, Standing.WAITING),
        ([FAILED] * 3, Standing.GIVEN_UP),
        ([PREEMPTED] * 3, Standing.WAITING),
        ([PREEMPTED] * 4, Standing.GIVEN_UP),
        ([FAILED, PREEMPTED, FAILED, PREEMPTED, PREEMPTED], Standing.WAITING),
        ([STOPPED] * 9, Standing.WAITING),
    ],
)
def test_failures_and_preemptions_are_bounded_separately(
    attempts: list[Mapping[str, object]], expected: Standing
) -> None:
    found = standing(*attempts)
    assert found.standing is expected
    assert found.next_attempt == len(attempts) + 1


@pytest.mark.parametrize(("reason", "state"), retries.FINAL.items())
def test_an_end_that_no_retry_can_mend_is_final(reason: Reason, state: PointState) -> None:
    found = standing({"outcome": Outcome.FAILED, "reason": reason, "sentence": "too large"})
    assert (found.standing, found.state, found.sentence) == (Standing.GIVEN_UP, state, "too large")


def test_no_capacity_is_told_apart_from_failure() -> None:
    found = standing(*[{"outcome": Outcome.FAILED, "reason": Reason.NO_CAPACITY}] * 3)
    assert found.state is PointState.NO_CAPACITY


def test_a_volume_that_is_not_there_is_a_failure_and_no_finding() -> None:
    found = standing(*[{"outcome": Outcome.FAILED, "reason": Reason.VOLUME_NOT_MOUNTED}] * 3)
    assert found.state is PointState.FAILED


def test_back_off_begins_with_the_second_retry_and_doubles() -> None:
    ends = [builders.NOW + 100 * number for number in range(1, 30)]
    limits = AttemptLimits(failed=10, preempted=100)
    delays = []
    records: list[AttemptRecord] = []
    for number, end in enumerate(ends, start=1):
        records.append(builders.attempt(attempt=number, ended_at=end, **PREEMPTED))
        delays.append(max(0.0, retries.standing(records, limits).not_before - end))
    assert delays[:6] == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0]
    assert set(delays[6:]) == {retries.BACKOFF_MAX_SECONDS}
