# SPDX-License-Identifier: Apache-2.0
"""How a trial stands after its attempts: bounded retries, two separate bounds, back-off, final ends."""

from collections.abc import Mapping

import pytest

import builders
from gpubench.api.attempts import AttemptLimits
from gpubench.api.point_result import PointState
from gpubench.scheduler import step, trials
from gpubench.scheduler.ledger import AttemptRecord, Interruption, Ledger, Outcome, Reason
from gpubench.scheduler.trials import TrialState, TrialStatus

LIMITS = AttemptLimits(failed=2, preempted=3)


def standing(*attempts: Mapping[str, object]) -> TrialStatus:
    records = [builders.attempt(attempt=number, **fields) for number, fields in enumerate(attempts, start=1)]
    return trials.status(records, LIMITS, nodes=1)


FAILED: dict[str, object] = {"outcome": Outcome.FAILED, "reason": Reason.WORKER_RAISED}
PREEMPTED: dict[str, object] = {"outcome": Outcome.PREEMPTED, "reason": Reason.DISRUPTED}
STOPPED: dict[str, object] = {"outcome": Outcome.STOPPED, "reason": Reason.SUSPENDED}
RUNNING: dict[str, object] = {"outcome": None, "reason": None, "ended_at": None}


def test_a_trial_without_attempts_may_start_at_once() -> None:
    found = standing()
    assert (found.state, found.next_attempt, found.not_before) == (TrialState.WAITING, 1, 0.0)


def test_a_result_settles_a_trial() -> None:
    record = builders.attempt(outcome=Outcome.SUCCEEDED, reason=Reason.COMPLETED, result=builders.result())
    found = trials.status([record], LIMITS, nodes=1)
    assert found.state is TrialState.MEASURED
    assert found.result == builders.result()


def test_an_open_attempt_is_running() -> None:
    assert standing(FAILED, RUNNING).state is TrialState.RUNNING


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([FAILED] * 2, TrialState.WAITING),
        ([FAILED] * 3, TrialState.GIVEN_UP),
        ([PREEMPTED] * 3, TrialState.WAITING),
        ([PREEMPTED] * 4, TrialState.GIVEN_UP),
        ([FAILED, PREEMPTED, FAILED, PREEMPTED, PREEMPTED], TrialState.WAITING),
        ([STOPPED] * 9, TrialState.WAITING),
    ],
)
def test_failures_and_preemptions_are_bounded_separately(
    attempts: list[Mapping[str, object]], expected: TrialState
) -> None:
    found = standing(*attempts)
    assert found.state is expected
    assert found.next_attempt == len(attempts) + 1


@pytest.mark.parametrize(("reason", "state"), trials.FINAL.items())
def test_an_end_that_no_retry_can_mend_is_final(reason: Reason, state: PointState) -> None:
    found = standing({"outcome": Outcome.FAILED, "reason": reason, "sentence": "too large"})
    assert (found.state, found.point_state, found.message) == (TrialState.GIVEN_UP, state, "too large")


def test_a_trial_that_is_given_up_says_how_often_it_was_tried_and_why_it_ended_last() -> None:
    first = {"sentence": "it hung"}
    assert standing(FAILED | first, FAILED, FAILED).message == "3 attempts failed, the last one because it broke"
    preempted = standing(PREEMPTED | first, *[PREEMPTED] * 3)
    assert preempted.message == "4 attempts were preempted, the last one because it broke"


def test_no_capacity_is_told_apart_from_failure() -> None:
    part = {"outcome": Outcome.FAILED, "reason": Reason.NO_CAPACITY, "pod_times": ((1.0, 2.0, 60.0),)}
    assert standing(*[part] * 2).in_parts
    assert standing(*[part] * 3).point_state is PointState.NO_CAPACITY
    assert standing(*[part | {"pod_times": ()}] * 9).state is TrialState.WAITING, "it held nothing"


def test_a_volume_that_is_not_there_is_a_failure_and_no_finding() -> None:
    found = standing(*[{"outcome": Outcome.FAILED, "reason": Reason.VOLUME_NOT_MOUNTED}] * 3)
    assert found.point_state is PointState.FAILED


def delays(*attempts: Mapping[str, object], nodes: int = 2) -> list[float]:
    """The back-off after each attempt, one ending every 1,000 seconds; it follows from the ledger as it is stored."""
    found = []
    records: list[AttemptRecord] = []
    for number, fields in enumerate(attempts, start=1):
        end = builders.NOW + 1000.0 * number
        record = builders.attempt(attempt=number, **{**fields, "ended_at": end})
        records.append(AttemptRecord.from_text(record.to_text()))
        limits = AttemptLimits(failed=10, preempted=100)
        found.append(max(0.0, trials.status(records, limits, nodes=nodes).not_before - end))
    return found


def ran(seconds: float, ended: Mapping[str, object] = PREEMPTED) -> dict[str, object]:
    """An attempt whose two pods ran together for so long; the first one waited for the other for five minutes."""
    return {**ended, "pod_times": ((1.0, 2.0, 302.0 + seconds), (1.0, 302.0, 350.0 + seconds))}


def test_back_off_begins_with_the_second_attempt_that_ends_early_and_doubles() -> None:
    found = delays(*[PREEMPTED] * 29)
    assert found[:6] == [0.0, 10.0, 20.0, 40.0, 80.0, 160.0]
    assert set(found[6:]) == {trials.BACKOFF_MAX_SECONDS}
    assert delays(*[ran(59.0), ran(59.0, FAILED)] * 2) == [0.0, 10.0, 20.0, 40.0]


def test_a_pool_that_takes_a_node_away_now_and_then_is_no_crash_loop() -> None:
    assert delays(*[ran(1200.0)] * 20) == [0.0] * 20
    assert delays(*[ran(60.0)] * 20) == [0.0] * 20


def test_an_attempt_that_got_somewhere_begins_the_count_anew() -> None:
    early, long = ran(1.0), ran(1200.0)
    assert delays(early, early, early, long, early, early, early) == [0.0, 10.0, 20.0, 0.0, 0.0, 10.0, 20.0]
    assert delays(long, early, early, STOPPED, early) == [0.0, 0.0, 10.0, 0.0, 20.0]


@pytest.mark.parametrize(
    "times",
    [(), ((1.0, 2.0, 1000.0),), ((1.0, 2.0, 1000.0), (1.0, None, 1000.0))],
    ids=["nobody saw them", "one has no node", "one never ran"],
)
def test_a_gang_that_was_never_complete_got_nowhere_however_long_it_waited(
    times: tuple[tuple[float, float | None, float], ...],
) -> None:
    assert delays(*[{**PREEMPTED, "pod_times": times}] * 3) == [0.0, 10.0, 20.0]


def test_an_interruption_on_purpose_is_held_against_nothing_and_followed_at_once() -> None:
    drilled = {**ran(6.0), "drilled": "pod"}
    assert delays(*[drilled] * 20) == [0.0] * 20
    assert delays(ran(1.0), drilled, ran(1.0), drilled, ran(1.0)) == [0.0, 0.0, 10.0, 0.0, 20.0]
    assert standing(*[drilled] * 20, *[PREEMPTED] * 3).state is TrialState.WAITING
    assert standing(*[drilled] * 20, *[PREEMPTED] * 4).state is TrialState.GIVEN_UP


def test_gangs_that_found_no_room_together_do_not_come_back_together() -> None:
    no_room = {"outcome": Outcome.FAILED, "reason": Reason.NO_CAPACITY, "ended_at": 1000.0}
    after = [standing(no_room | {"job_uid": f"uid-{number}"}).not_before for number in range(20)]
    assert after == [standing(no_room | {"job_uid": f"uid-{number}"}).not_before for number in range(20)]
    assert all(1000.0 <= moment <= 1000.0 + trials.JITTER_SECONDS for moment in after)
    assert max(after) - min(after) > trials.JITTER_SECONDS / 2
    assert standing(FAILED).not_before == 0.0


# --- nodes that do not live long enough -------------------------------------------------------------------------------


def evicted(age: float, **fields: object) -> dict[str, object]:
    """Ten seconds after the Job was created a node was made for it, which came to this age."""
    known = {"interruption": Interruption.EVICTION, "node_created_at": builders.NOW + 10}
    return {**PREEMPTED, **known, "ended_at": builders.NOW + 10 + age, **fields}


@pytest.mark.parametrize(
    ("attempts", "is_given_up"),
    [
        ([evicted(700)] * 2, False),
        ([evicted(700), evicted(720), evicted(690)], True),
        ([evicted(5), PREEMPTED, evicted(700), evicted(720), FAILED, evicted(690)], True),
        ([evicted(700), evicted(720), evicted(1200)], False),
        ([evicted(40), evicted(60), evicted(45)], True),
        ([evicted(700, interruption=Interruption.RECLAIM)] * 3, False),
        ([evicted(700, drilled="pod-0")] * 3, False),
        ([evicted(700, node_created_at=builders.NOW - 1)] * 3, False),  # it was there before: all are drained in turn
        ([evicted(700, node_created_at=None)] * 3, False),
    ],
)
def test_a_trial_that_outlives_each_new_node_is_given_up_after_a_few_attempts(
    attempts: list[dict[str, object]], is_given_up: bool
) -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}}))
    (trial,) = plan.trials
    records = [builders.attempt(attempt=number, **fields) for number, fields in enumerate(attempts, start=1)]
    found = trials.of_point(plan, [trial], {trial.id: records})[trial.id]
    assert (found.state is TrialState.GIVEN_UP) is is_given_up
    if found.message is not None:
        assert "3 attempts had a new node each, and were evicted when it was about" in found.message
        assert "expireAfter" in found.message


def test_what_a_ledger_says_of_its_trials_is_the_same_of_a_suspended_study() -> None:
    plan = builders.plan()
    recorded = Ledger(records=(builders.attempt(trial=plan.trials[0].id, outcome=Outcome.FAILED),))
    found = [step.of_ledger(plan, recorded, builders.study(builders.spec(suspend=one))) for one in (False, True)]
    assert found[0] == found[1]


def test_an_open_attempt_at_a_trial_that_the_plan_does_not_have_is_passed_over() -> None:
    plan = builders.plan()
    foreign = Ledger(records=(builders.attempt(trial="of-another-plan", outcome=None, reason=None, ended_at=None),))
    assert (
        step.of_ledger(plan, foreign, builders.study()).trials
        == step.of_ledger(plan, Ledger(), builders.study()).trials
    )
