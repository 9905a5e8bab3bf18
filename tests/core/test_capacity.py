# SPDX-License-Identifier: Apache-2.0
"""Nodes that do not come: what waiting counts for, where it is kept, and who has a turn meanwhile."""

from typing import Any

import pytest

import builders
from builders import NOW
from gpubench.api.point_result import PointState
from gpubench.plan import expand
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, outcome, trials
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason, Segment
from gpubench.scheduler.observed import FreeSlots, Observed, ObservedJob, ObservedNode, ObservedPod
from gpubench.scheduler.outcome import Attempt
from gpubench.scheduler.trials import TrialState
from gpubench.units import rfc3339
from world import Decision, decide

HOUR = 3600.0
TIMEOUT = 1500.0
LIMITS = {"schedulingTimeout": "25m", "capacityTimeout": "24h", "attempts": {"failed": 0}}
SAID = "0/3 nodes are available: 3 Insufficient cpu"


def planned(*pools: str, repeats: int = 1, workers: int = 2, **limits: Any) -> Plan:
    spec = builders.spec(
        builders.block(workers=[workers], pools=list(pools)),
        measure={"repeats": {"min": repeats}},
        limits=LIMITS | limits,
    )
    return builders.plan(spec, *map(builders.pool, pools))


def pods(*, placed: int = 0, at: float = NOW + 1, of: int = 2) -> tuple[ObservedPod, ...]:
    nowhere = {"phase": "Pending", "node": None, "scheduled_at": None, "running_at": None, "scheduling_message": SAID}
    here = {"scheduled_at": at, "running_at": at + 2}
    return tuple(builders.observed_pod(index, **(here if index < placed else nowhere)) for index in range(of))


def job(plan: Plan, number: int = 0, **fields: Any) -> ObservedJob:
    trial = plan.trials[number]
    defaults = {"trial": trial.id, "pool": plan.points[trial.point].key.pool, "slots": 2, "pods": pods()}
    return builders.observed_job(**(defaults | {"name": f"job-{number}", "uid": f"uid-{number}"} | fields))


def record(plan: Plan, number: int = 0, **fields: Any) -> AttemptRecord:
    defaults: dict[str, Any] = {"trial": plan.trials[number].id, "reason": Reason.NO_CAPACITY, "sentence": "none"}
    return builders.attempt(**(defaults | fields))


def look(plan: Plan, *jobs: ObservedJob, records: tuple[AttemptRecord, ...] = (), now: float, **free: Any) -> Decision:
    slots = tuple(FreeSlots(pool=pool.name, **({"slots": 4} | free)) for pool in plan.pools)
    study = builders.study(builders.spec(limits=LIMITS))
    found = Ledger(
        records=tuple(one for one in records if not one.is_refused),
        refused=tuple(one for one in records if one.is_refused),
    )
    return decide(plan, found, Observed(study=study, jobs=jobs, free=slots), now)


def test_a_stock_out_is_one_attempt_that_fails_nothing_and_ends_after_the_capacity_timeout_with_words() -> None:
    plan = planned("cpu")
    (open_entry,) = look(plan, job(plan), now=NOW + 60).record
    for hours in range(1, 24):
        still = look(plan, job(plan), records=(open_entry,), now=NOW + hours * HOUR)
        assert (still.record, still.create, still.delete) == ((), (), ()), "the autoscaler goes on with the same pods"
    assert still.requeue_at == NOW + 24 * HOUR + outcome.SKEW_SECONDS
    over = look(plan, job(plan), records=(open_entry,), now=NOW + 24 * HOUR + outcome.SKEW_SECONDS)
    (ended,) = over.record
    assert (ended.outcome, ended.reason, ended.node_seconds) == (Outcome.FAILED, Reason.NO_CAPACITY, None)
    (result,) = over.status.results
    assert result.state is PointState.NO_CAPACITY
    assert result.reason == ended.sentence
    assert ended.sentence is not None
    for words in ("86400 s", "2 nodes of pool cpu", SAID, "limits.capacityTimeout", "start it again"):
        assert words in ended.sentence


@pytest.mark.parametrize("said", ["no label team", "no label team " * 100], ids=["short", "longer than it is kept"])
def test_an_attempt_whose_job_is_refused_for_as_long_ends_with_what_was_said_last(said: str) -> None:
    plan = planned("cpu")
    tried: dict[str, Any] = {"outcome": None, "reason": None, "ended_at": None, "job_uid": "", "sentence": said}
    refused = record(plan, refused=24 * HOUR - 1, **tried)
    assert look(plan, records=(refused,), now=NOW).record == ()
    (ended,) = look(plan, records=(refused.model_copy(update={"refused": 24 * HOUR}),), now=NOW).record
    assert (ended.outcome, ended.reason, ended.ended_at) == (Outcome.STOPPED, Reason.ADMISSION_REFUSED, NOW)
    assert ended.sentence is not None
    assert ended.sentence.startswith("Job job was refused until its point had waited 86400 s in all")
    assert "last: no label team" in ended.sentence
    assert len(ended.sentence.encode()) <= 1024


def test_a_capacity_timeout_of_zero_waits_for_ever() -> None:
    plan = planned("cpu", capacityTimeout="0s")
    found = look(plan, job(plan), now=NOW + 10_000 * HOUR)
    assert all(one.outcome is None for one in found.record)
    assert found.requeue_at is None


def test_the_sum_is_that_of_all_attempts_at_a_point_up_to_the_first_pod_that_has_a_node() -> None:
    plan = planned("cpu", repeats=2)
    placed = {"outcome": Outcome.PREEMPTED, "reason": Reason.DISRUPTED, "ended_at": NOW + 90 * HOUR}
    first = record(plan, 0, **placed, pod_times=((10 * HOUR, None, 90 * HOUR), (20 * HOUR, None, 90 * HOUR)))
    queued = Segment(admitted_at=50 * HOUR, ended_at=53 * HOUR)
    again = record(plan, 1, queue="q", admitted_at=60 * HOUR, segments=(queued,), ended_at=NOW + 65 * HOUR)
    assert (first.waited, again.waited) == (10 * HOUR, 3 * HOUR + 5 * HOUR), "neither held nor in the queue"
    waits = job(plan, 0, attempt=2, created_at=NOW + 100 * HOUR)
    limit = NOW + 100 * HOUR + (24 - 18) * HOUR + outcome.SKEW_SECONDS
    before = look(plan, waits, records=(first, again), now=limit - 1)
    assert all(one.outcome is None for one in before.record)
    (ended,) = look(plan, waits, records=(first, again), now=limit).record
    assert ended.outcome is Outcome.FAILED
    after = look(plan, records=(first, again, ended), now=limit + 60)
    assert after.create == (), "nor is another repeat of the point begun"
    assert AttemptRecord.from_text(again.to_text()).waited == again.waited


def test_time_in_a_queue_is_no_waiting_for_nodes() -> None:
    plan = planned("cpu")
    assert record(plan, queue="q", ended_at=NOW + 90 * HOUR, outcome=Outcome.STOPPED).waited == 0.0


def test_a_gang_in_parts_ends_at_the_scheduling_timeout_after_its_first_node_and_counts_as_failed() -> None:
    plan = planned("cpu")
    late = NOW + 10 * HOUR
    partly = job(plan, pods=pods(placed=1, at=late))
    assert all(one.outcome is None for one in look(plan, partly, now=late + TIMEOUT).record)
    ended = look(plan, partly, now=late + TIMEOUT + outcome.SKEW_SECONDS)
    (entry,) = ended.record
    assert (entry.outcome, entry.reason, entry.node_seconds) == (Outcome.FAILED, Reason.NO_CAPACITY, TIMEOUT + 5)
    (result,) = ended.status.results
    assert result.state is PointState.NO_CAPACITY, "attempts.failed is 0"


def test_the_scheduling_timeout_goes_on_where_kueue_admits_a_gang_in_parts_again() -> None:
    plan = planned("cpu")
    half = Segment(admitted_at=0.0, ended_at=1000.0, pod_times=((100.0, None, 1000.0),))
    whole = Segment(admitted_at=2000.0, ended_at=9000.0, pod_times=((2000.0, 2001.0, 9000.0),) * 2)
    entry = record(
        plan, outcome=None, reason=None, ended_at=None, queue="q", admitted_at=9500.0, segments=(half, whole)
    )
    again = job(plan, queue="q", started_at=NOW + 9500, pods=pods(placed=1, at=NOW + 9600))
    limit = NOW + 9600 + TIMEOUT - 900 + outcome.SKEW_SECONDS
    assert all(one.outcome is None for one in look(plan, again, records=(entry,), now=limit - 1).record)
    (ended,) = look(plan, again, records=(entry,), now=limit).record
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, Reason.NO_CAPACITY)


def test_a_run_whose_time_earlier_ones_have_used_up_still_hears_the_scheduler() -> None:
    """Otherwise it would end before anybody has looked at its pods."""
    plan = planned("cpu")
    used = Segment(admitted_at=0.0, ended_at=TIMEOUT + 500.0, pod_times=((100.0, None, TIMEOUT + 500.0),))
    entry = record(plan, outcome=None, reason=None, ended_at=None, queue="q", admitted_at=9500.0, segments=(used,))
    again = job(plan, queue="q", started_at=NOW + 9500, pods=pods(placed=1, at=NOW + 9600))
    for seconds, ends in ((2, False), (20, True)):
        (found,) = look(plan, again, records=(entry,), now=NOW + 9600 + seconds).record or (entry,)
        assert (found.outcome is not None) is ends


def test_a_gang_that_got_a_part_starts_again_when_no_other_gang_is_on_its_pool() -> None:
    plan = planned("cpu", attempts={"failed": 5})
    partly = record(plan, pod_times=((1.0, None, 60.0),))
    later = NOW + HOUR
    assert len(look(plan, records=(partly,), now=later).create) == 1
    beside = look(plan, records=(partly,), now=later, held=2)
    assert (beside.create, beside.short_of) == ((), {"cpu": 6}), "in a line its turn is when all of the pool is free"
    assert len(look(plan, now=later, held=2).create) == 1, "one that has not been there has no reason to wait"


def test_a_pool_without_nodes_gives_its_turn_to_another_pool_and_comes_last() -> None:
    plan = planned("cpu", "other", repeats=2)
    first = job(plan)
    pool = first.pool
    before = look(plan, first, now=NOW + TIMEOUT - 1)
    assert all(one.outcome is None for one in before.record)
    assert before.requeue_at == NOW + TIMEOUT
    turn = look(plan, first, now=NOW + TIMEOUT)
    (ended,) = turn.record
    assert (ended.outcome, ended.reason) == (Outcome.STOPPED, Reason.NO_CAPACITY)
    (gang,) = turn.create
    assert gang.pool != pool
    attempts = turn.status.attempts
    assert attempts is not None
    assert (attempts.failed, attempts.stopped) == (0, 1)
    order = trials.startable(plan, turn.step.trials)
    assert [plan.points[trial.point].key.pool == pool for trial in order] == [False, False, True, True]


def test_where_no_pool_has_nodes_turns_double_so_that_the_ledger_hardly_grows() -> None:
    plan = planned("cpu", "other", capacityTimeout="0s")
    records: dict[str, AttemptRecord] = {}
    now, running = NOW, look(plan, now=NOW).create[0].assignment
    while now < NOW + 100 * HOUR:
        number = next(number for number, trial in enumerate(plan.trials) if trial.id == running.trial)
        here = job(plan, number, attempt=running.attempt, created_at=now)
        while not (turn := look(plan, here, records=tuple(records.values()), now=now)).create:
            records |= {one.key: one for one in turn.record}
            now += TIMEOUT
        records |= {one.key: one for one in turn.record}
        running = turn.create[0].assignment
    assert len(records) <= 9, "100 hours are 240 times 25 minutes"
    assert not any(one.outcome is Outcome.FAILED for one in records.values())


def test_a_pool_that_has_nodes_is_not_ended_for_a_turn() -> None:
    plan = planned("cpu", "other")
    for seen in (pods(placed=1), pods(placed=2), ()):
        found = look(plan, job(plan, pods=seen), now=NOW + 1 + TIMEOUT)
        assert all(one.outcome is None for one in found.record)


@pytest.mark.parametrize("suspended", [False, True])
def test_a_trial_whose_node_is_gone_ends_at_once_and_for_good(suspended: bool) -> None:
    spec = builders.spec(builders.block(workers=[1], placement="EachNode"), limits=LIMITS | {"attempts": {"failed": 9}})
    plan = expand.freeze(spec, (builders.pool(),), rfc3339(NOW), {"cpu": ["node-a", "node-b"]})
    trial = next(trial for trial in plan.trials if plan.points[trial.point].key.node == "node-a")
    waits = job(
        plan,
        trial=trial.id,
        pods=() if suspended else pods(of=1),
        suspended=suspended,
        queue="q" if suspended else None,
    )
    assert outcome.nodes_in_question(waits, placed=(), pinned="node-a") == {"node-a"}
    assert outcome.nodes_in_question(job(plan, pods=pods(placed=1)), placed=(), pinned="node-a") == frozenset()
    there = Attempt(waits, 1, plan.timing, known={"node-a": ObservedNode(name="node-a")}, pinned="node-a")
    assert outcome.classify(there, now=NOW + 60) is None
    gone = ObservedNode(name="node-a", gone_since=NOW + 2)
    for had_it in (job(plan, pods=pods(placed=1, of=1)), job(plan, pods=(), complete=True)):
        runs = Attempt(had_it, 1, plan.timing, known={"node-a": gone}, pinned="node-a")
        lost = outcome.classify(runs, now=NOW + 60)
        assert lost is None or lost.reason is not Reason.NODE_GONE, "it had come to run there"
    seen = Observed(study=builders.study(spec), jobs=(waits,), nodes=(gone,), free=(FreeSlots(pool="cpu", slots=4),))
    found = decide(plan, Ledger(), seen, NOW + 3)
    (ended,) = [one for one in found.record if one.outcome is not None]
    assert (ended.outcome, ended.reason) == (Outcome.FAILED, Reason.NODE_GONE)
    assert "node node-a is gone from the cluster" in (ended.sentence or "")
    status = found.step.trials[trial.id]
    assert (status.state, status.point_state) == (TrialState.GIVEN_UP, PointState.NO_CAPACITY)
    assert [gang.assignment.trial for gang in found.create] == [
        next(one.id for one in plan.trials if plan.points[one.point].key.node == "node-b")
    ]


@pytest.mark.parametrize(
    ("gpus", "seconds"),
    [({"accelerator": "L4", "slot": {"cpu": "1", "memory": "1Gi", "gpuResource": "nvidia.com/gpu"}}, 1500), ({}, 900)],
)
def test_the_scheduling_timeout_is_longer_where_machines_with_gpus_have_to_start(
    gpus: dict[str, Any], seconds: int
) -> None:
    assert builders.plan(builders.spec(), builders.pool(**gpus)).timing.scheduling_timeout == seconds


def test_a_pod_that_ends_after_its_attempt_has_held_its_node_until_then() -> None:
    plan = planned("cpu", workers=1)
    times: dict[str, Any] = {
        "created_at": NOW,
        "ended_at": NOW + 10,
        "pod_times": ((1.0, 3.0, 10.0),),
        "node_seconds": 9.0,
    }
    lost = record(
        plan,
        job="job-0",
        job_uid="uid-0",
        nodes=("node-0",),
        holding=((0, "pod-0"),),
        outcome=Outcome.PREEMPTED,
        **times,
    )
    end = builders.ended(143, at=NOW + 30)
    there = job(plan, pods=(builders.observed_pod(scheduled_at=NOW + 1, running_at=NOW + 3, end=end),), created_at=NOW)
    (after,) = look(plan, there, records=(lost,), now=NOW + 40).let_go
    assert (after.pod_times, after.node_seconds, after.holding) == (((1.0, 3.0, 30.0),), 29.0, ())


def test_an_attempt_is_expected_to_end_when_its_point_has_been_measured_and_its_pods_have_gone() -> None:
    plan = planned("cpu", workers=1)
    known = account.of(plan, Ledger())
    (point,) = known.of_points
    assert known.ends_after(plan.trials[0].id) == point.expected + account.STOPPING_SECONDS
    assert account.STOPPING_SECONDS > 0
