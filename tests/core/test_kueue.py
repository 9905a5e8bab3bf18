# SPDX-License-Identifier: Apache-2.0
"""Jobs in a queue of Kueue: no time runs while they wait, an eviction is no end of an attempt, and costs are kept."""

import copy
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import builders
from builders import NOW
from gpubench import names
from gpubench.analysis import costs, goodput
from gpubench.analysis.goodput import Use
from gpubench.api import messages
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.condition import Condition
from gpubench.api.point_warning import WarningReason
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.plan import Plan
from gpubench.records import Resumed
from gpubench.scheduler import account, budget, conditions, ledger, manifests, outcome
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason, Segment
from gpubench.scheduler.observed import ObservedJob, ObservedNode, ObservedPod, Workload
from gpubench.scheduler.outcome import Attempt
from gpubench.units import times
from gpubench_operator import observe
from world import Decision, decide

PRICE = {"per_node_hour": "3.60", "currency": "USD", "as_of": "2023-11-01"}  # a thousandth of a dollar a second
SPEC = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}}, queueName="team-a")
PLAN = builders.plan(SPEC, builders.pool(price=PRICE))
STUDY = builders.study(SPEC)
(TRIAL,) = PLAN.trials
LATER = NOW + 10_000_000.0
IN_QUEUE: dict[str, Any] = {
    "metadata": {
        "name": "job",
        "uid": "uid",
        "labels": {names.LABEL_TRIAL: TRIAL.id, names.LABEL_ATTEMPT: "1", names.LABEL_QUEUE: "team-a"},
        "creationTimestamp": observe.timestamp(NOW),
    },
    "spec": {"suspend": False},
}
RAN = Segment(admitted_at=10.0, ended_at=110.0, nodes=("a", "b"), pod_times=((10.0, 12.0, 110.0), (10.0, 12.0, 100.0)))


def job(**fields: Any) -> ObservedJob:
    """A Job in the queue; without pods, and admitted unless it is said to be suspended."""
    defaults = {"trial": TRIAL.id, "queue": "team-a", "started_at": NOW + 200, "pods": (), "slots": 2}
    return builders.observed_job(**(defaults | fields))


def waiting(**fields: Any) -> ObservedJob:
    return job(**({"suspended": True, "suspended_since": NOW, "started_at": None} | fields))


def pods(*, at: float, **fields: Any) -> tuple[ObservedPod, ...]:
    defaults = {"scheduled_at": at, "running_at": at + 2, "created_at": at}
    return tuple(builders.observed_pod(index, **(defaults | fields)) for index in range(2))


def look(*jobs: ObservedJob, records: tuple[AttemptRecord, ...] = (), now: float = NOW, **fields: Any) -> Decision:
    found = builders.observed(STUDY, *jobs).model_copy(update=fields)
    return decide(PLAN, Ledger(records=records), found, now)


def admitted(status: FullStatus) -> Condition:
    (found,) = [condition for condition in status.conditions if condition.type == conditions.ADMITTED]
    return found


def test_a_job_with_a_queue_is_created_suspended_with_its_label_which_its_pods_do_not_have() -> None:
    (gang,) = look().create
    body = manifests.job(STUDY, PLAN, gang)
    assert body["spec"]["suspend"] is True
    assert body["metadata"]["labels"][names.LABEL_QUEUE] == "team-a"
    assert names.LABEL_QUEUE not in body["spec"]["template"]["metadata"]["labels"], "Kueue would admit each pod"
    variables = {one["name"]: one.get("value") for one in body["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert variables[names.ENV_RUNS_AGAIN] == "true", "its pods put the records of a run before aside"
    plain = manifests.job(builders.study(builders.spec()), PLAN, gang)
    assert "suspend" not in plain["spec"]
    assert names.LABEL_QUEUE not in plain["metadata"]["labels"]


def test_the_quota_of_the_queue_decides_what_runs_and_not_the_slots_that_are_free_here() -> None:
    found = builders.observed(STUDY, free=0)
    assert len(decide(PLAN, Ledger(), found, NOW).create) == 1
    without = builders.observed(builders.study(builders.spec()), free=0)
    assert decide(PLAN, Ledger(), without, NOW).create == ()


def test_no_time_limit_runs_while_a_job_waits_and_the_scheduling_timeout_begins_with_its_admission() -> None:
    timing = PLAN.timing
    assert outcome.classify(Attempt(waiting(), 2, timing), now=LATER) is None
    assert outcome.next_deadline(Attempt(waiting(), 2, timing)) is None
    late = LATER + 1 + timing.scheduling_timeout
    unplaced = builders.observed_pod(1, phase="Pending", node=None, scheduled_at=None, running_at=None)
    resumed = Attempt(job(started_at=LATER, pods=(*pods(at=LATER + 1)[:1], unplaced)), 2, timing)
    assert outcome.classify(resumed, now=late) is None
    verdict = outcome.classify(resumed, now=late + outcome.SKEW_SECONDS)
    assert verdict is not None
    assert verdict.reason is Reason.NO_CAPACITY


ADMITTED_AT = NOW + 100_000  # long after limits.schedulingTimeout
#: What becomes of a Job's object at its admission, by Kueue, the Job controller and the scheduler, each by itself.
ADMISSION: dict[str, dict[str, Any]] = {
    "resumed": {"spec": {"suspend": False}},
    "started": {"startTime": observe.timestamp(ADMITTED_AT)},
    "condition": {"conditions": [{"type": "Suspended", "status": "False"}]},
    "pods": {},
    "running": {},
}


@given(st.permutations(list(ADMISSION)), st.booleans(), st.booleans())
def test_no_order_of_the_events_of_an_admission_ends_an_attempt(
    order: list[str], had_condition: bool, is_in_queue: bool
) -> None:
    """Without a queue somebody has suspended it, and the Job controller writes condition and start at once."""
    body = copy.deepcopy(IN_QUEUE) | {"spec": {"suspend": True}, "status": {}}
    if had_condition or not is_in_queue:
        body["status"]["conditions"] = [
            {"type": "Suspended", "status": "True", "lastTransitionTime": "2023-11-14T22:13:21Z"}
        ]
    if not is_in_queue:
        del body["metadata"]["labels"][names.LABEL_QUEUE]
        order = [event for event in order if event != "condition"]
    there: tuple[ObservedPod, ...] = ()
    records: tuple[AttemptRecord, ...] = ()
    for number, event in enumerate(order):
        body["spec"] |= ADMISSION[event].get("spec", {})
        body["status"] |= {field: value for field, value in ADMISSION[event].items() if field != "spec"}
        if event == "started" and not is_in_queue:
            body["status"] |= ADMISSION["condition"]
        if event in ("pods", "running"):
            is_placed = {"pods", "running"} <= {*order[: number + 1]}
            unplaced = {"phase": "Pending", "node": None, "running_at": None}
            there = pods(at=ADMITTED_AT, **({} if is_placed else unplaced | {"scheduled_at": None}))
        for later in (0.5, 20.0):
            made = look(observe.job(body, pods=there), records=records, now=ADMITTED_AT + number + later)
            assert [record.outcome for record in made.record] in ([], [None]), (order, event)
            assert made.delete == ()
            records = made.record or records


def test_how_pods_end_whose_job_is_suspended_says_nothing() -> None:
    ended = builders.ended(143)
    leaving = pods(at=NOW + 10, deleting=True, end=ended, disruption=builders.disrupted())
    for found in (waiting(leaving=leaving), job(leaving=leaving)):
        assert outcome.classify(Attempt(found, 2, PLAN.timing), now=NOW + 300) is None


def test_a_result_that_came_just_before_the_eviction_counts() -> None:
    said = builders.message(builders.result(trial=TRIAL.id))
    (first, second) = pods(at=NOW + 10)
    done = first.model_copy(update={"end": builders.ended(0, text=said)})
    verdict = outcome.classify(Attempt(waiting(pods=(done, second)), 2, PLAN.timing), now=NOW + 20)
    assert verdict is not None
    assert verdict.outcome is Outcome.SUCCEEDED


def test_an_eviction_ends_a_run_and_not_the_attempt() -> None:
    (begun,) = look(job(pods=pods(at=NOW + 200))).record
    assert (begun.queue, begun.admitted_at, begun.nodes) == ("team-a", 200.0, ("node-0", "node-1"))

    leaving = pods(at=NOW + 200, deleting=True)
    evicted = look(waiting(leaving=leaving), records=(begun,), now=NOW + 300)
    (record,) = evicted.record
    times = (200.0, 202.0, 300.0)
    (run,) = record.segments
    here = {"admitted_at": 200.0, "ended_at": 300.0, "nodes": ("node-0", "node-1")}
    assert run == Segment(**here, pod_times=(times, times), holding=((0, "pod-0"), (1, "pod-1")))
    assert (record.outcome, record.nodes, record.placed_at, record.admitted_at) == (None, (), (), None)
    assert (evicted.create, evicted.delete) == ((), ()), "the same Job runs again"
    counted = evicted.status.attempts
    assert counted is not None
    assert (counted.started, counted.failed, counted.preempted) == (1, 0, 0)

    still = look(waiting(leaving=leaving), records=(record,), now=NOW + 310)
    assert (still.record, still.let_go) == ((), ()), "it is written once"
    ends = tuple(pod.model_copy(update={"end": builders.ended(143, at=NOW + 312)}) for pod in leaving)
    (ended,) = look(waiting(leaving=ends), records=(record,), now=NOW + 313).let_go
    assert ended.segments == (Segment(**here, pod_times=((200.0, 202.0, 312.0),) * 2),)

    again = look(job(started_at=NOW + 500, pods=pods(at=NOW + 500)), records=(ended,), now=NOW + 510)
    (after,) = again.record
    assert (after.admitted_at, after.segments, after.nodes) == (500.0, ended.segments, ("node-0", "node-1"))


def test_runs_that_nobody_saw_ending_are_told_apart_by_the_start_of_their_job() -> None:
    """The operator was away while Kueue evicted the Job and admitted it again."""
    (begun,) = look(job(pods=pods(at=NOW + 200))).record
    (record,) = look(job(started_at=NOW + 500, pods=pods(at=NOW + 500)), records=(begun,), now=NOW + 510).record
    (run,) = record.segments
    assert (run.admitted_at, run.ended_at, record.admitted_at) == (200.0, 500.0, 500.0)
    assert run.pod_times == ((200.0, None, 525.0), (200.0, None, 525.0)), "where its pods were was written down"
    assert run.unseen == 2


def test_what_is_known_of_the_nodes_of_a_run_ends_with_it() -> None:
    nodes = tuple(ObservedNode(name=f"node-{index}", instance_type="p3", zone="z1") for index in range(2))
    (begun,) = look(job(pods=pods(at=NOW + 200)), nodes=nodes).record
    assert (begun.nodes, begun.instance_types, begun.zones) == (("node-0", "node-1"), ("p3",), ("z1",))
    (evicted,) = look(waiting(leaving=pods(at=NOW + 200, deleting=True)), records=(begun,), now=NOW + 300).record
    assert (evicted.nodes, evicted.instance_types, evicted.zones, evicted.places) == ((), (), (), ())


@pytest.mark.parametrize("until_placed", [0.0, 3.0])
def test_a_job_that_somebody_suspended_and_resumed_unseen_has_had_a_run_before(until_placed: float) -> None:
    """Its pods may get their nodes in the second in which it is started anew."""
    (begun,) = look(job(queue=None, started_at=NOW, pods=pods(at=NOW + 200))).record
    resumed = job(queue=None, started_at=NOW + 500, pods=pods(at=NOW + 500 + until_placed))
    (record,) = look(resumed, records=(begun,), now=NOW + 510).record
    (run,) = record.segments
    assert (run.nodes, run.ended_at, run.unseen) == (("node-0", "node-1"), 500.0, 2)
    assert record.placed_at == (500.0 + until_placed,) * 2


def test_a_node_of_a_run_before_that_is_gone_is_no_preemption_of_this_one() -> None:
    """The operator was away; the first it sees of the new run is that it has no pods yet."""
    (begun,) = look(job(pods=pods(at=NOW + 200))).record
    gone = tuple(ObservedNode(name=name, gone_since=NOW + 300) for name in begun.nodes)
    made = look(job(started_at=NOW + 5000), records=(begun,), nodes=gone, now=NOW + 5001)
    assert [record.outcome for record in made.record] == [None]
    same_run = look(job(), records=(begun,), nodes=gone, now=NOW + 5001)
    assert [record.outcome for record in same_run.record] == [Outcome.PREEMPTED], "of the run that goes on it is one"


def test_a_run_that_begins_in_the_second_in_which_the_one_before_began_is_another_one() -> None:
    """The API counts whole seconds."""
    record = builders.attempt(trial=TRIAL.id, outcome=None, queue="team-a", segments=(RAN,), ended_at=None)
    (again,) = look(job(started_at=NOW + RAN.admitted_at), records=(record,)).record
    assert (again.admitted_at, again.segments) == (RAN.admitted_at, (RAN,))


def test_pods_of_a_run_are_billed_once_where_the_job_goes_on_before_its_controller_saw_it_suspended() -> None:
    """It has told the pods to end, and is to write that; it then leaves the clock as it was."""
    (begun,) = look(job(queue=None, pods=pods(at=NOW + 200))).record
    leaving = pods(at=NOW + 200, deleting=True)
    (halted,) = look(waiting(queue=None, leaving=leaving), records=(begun,), now=NOW + 300).record
    gone = tuple(pod.model_copy(update={"end": builders.ended(143, at=NOW + 301), "job_uid": "uid"}) for pod in leaving)
    second = tuple(pod.model_copy(update={"name": f"other-{pod.index}"}) for pod in pods(at=NOW + 301))
    resumed = job(queue=None, uid="uid", pods=second)
    (ran,) = look(resumed, records=(halted,), gone=gone, now=NOW + 302).record
    ends = tuple(pod.model_copy(update={"end": builders.ended(0, at=NOW + 400)}) for pod in second)
    ended = resumed.model_copy(update={"pods": ends, "complete": True})
    (record,) = look(ended, records=(ran,), gone=gone, now=NOW + 401).record
    assert [len(run.pod_times) for run in record.runs] == [2, 2]
    assert record.pod_times == ((301.0, 303.0, 400.0),) * 2


@pytest.mark.parametrize("is_placed", [True, False])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_pod_of_whose_end_the_watch_tells_late_is_billed_for_what_it_held(is_placed: bool, goes_on: bool) -> None:
    """A list has it no more, and the event is on its way; others are still ending."""
    ran = pods(at=NOW + 200, deleting=True, job_uid="uid")
    (record,) = look(job(uid="uid", pods=ran if is_placed else ())).record
    halted = waiting(uid="uid", leaving=ran[1:])
    (record,) = look(halted, records=(record,), now=NOW + 300).record
    gone = tuple(pod.model_copy(update={"end": builders.ended(143, at=NOW + 301)}) for pod in ran)
    second = tuple(pod.model_copy(update={"name": f"other-{pod.index}"}) for pod in pods(at=NOW + 310))
    seen = job(uid="uid", started_at=NOW + 305, pods=second) if goes_on else halted.model_copy(update={"leaving": ()})
    (record,) = look(seen, records=(record,), gone=gone, now=NOW + 310).record
    (run,) = record.segments
    assert (run.pod_times, run.unseen, run.holding) == (((200.0, 202.0, 301.0),) * 2, 0, ())
    assert not look(seen, records=(record,), gone=gone, now=NOW + 311).record, "it is as it was"


def left(ran: tuple[ObservedPod, ...], *, at: float) -> tuple[ObservedPod, ...]:
    """Pods that were told to end and are gone."""
    end = {"end": builders.ended(143, at=at), "gone_at": at}
    return tuple(pod.model_copy(update=end) for pod in ran)


def test_the_next_run_of_a_job_has_not_the_nodes_of_the_one_before() -> None:
    """It is seen suspended before its controller has told the pods to end."""
    ran = pods(at=NOW + 200, job_uid="uid")
    (record,) = look(job(uid="uid", pods=ran)).record
    assert not look(job(uid="uid", suspended=True, pods=ran), records=(record,), now=NOW + 300).record
    (record,) = look(waiting(uid="uid"), records=(record,), gone=left(ran, at=NOW + 303), now=NOW + 304).record
    assert (record.nodes, record.placed_at, len(record.segments)) == ((), (), 1)
    gone = tuple(ObservedNode(name=name, gone_since=NOW + 400) for name in ("node-0", "node-1"))
    second = tuple(pod.model_copy(update={"node": f"new-{pod.index}", "name": "new"}) for pod in pods(at=NOW + 510))
    resumed = job(uid="uid", started_at=NOW + 500, pods=second)
    (record,) = look(resumed, records=(record,), nodes=gone, now=NOW + 520).record
    assert (record.outcome, record.nodes) == (None, ("new-0", "new-1"))


@pytest.mark.parametrize("queue", ["team-a", None])
def test_a_job_that_is_resumed_before_its_controller_saw_it_suspended_has_one_run(queue: str | None) -> None:
    ran = pods(at=NOW + 200, job_uid="uid")
    runs = job(uid="uid", queue=queue, started_at=NOW + 190, pods=ran)
    (record,) = look(runs, now=NOW + 210).record
    assert not look(runs.model_copy(update={"suspended": True}), records=(record,), now=NOW + 300).record
    ends = tuple(pod.model_copy(update={"end": builders.ended(1, at=NOW + 400)}) for pod in ran)
    ended = runs.model_copy(update={"pods": ends, "failed": True, "failing_since": NOW + 400})
    (record,) = look(ended, records=(record,), now=NOW + 401).record
    assert (record.segments, record.pod_times) == ((), ((200.0, 202.0, 400.0),) * 2)


def test_a_job_that_vanished_after_a_run_that_nobody_saw_is_billed_for_that_run_alone() -> None:
    """A pod of the run before is still there, on a dead node."""
    ran = pods(at=NOW + 200, deleting=True, job_uid="uid")
    (record,) = look(job(uid="uid", pods=ran)).record
    (record,) = look(waiting(uid="uid", leaving=ran), records=(record,), now=NOW + 300).record
    gone = left(ran[1:], at=NOW + 303)
    (record,) = look(waiting(uid="uid", leaving=ran[:1]), records=(record,), gone=gone, now=NOW + 310).let_go
    (vanished,) = observe.jobs((), pods=(), gone=(record,), plan=PLAN)
    vanished = vanished.model_copy(update={"pods": ran[:1]})
    second = tuple(pod.model_copy(update={"name": f"new-{pod.index}"}) for pod in pods(at=NOW + 500, job_uid="uid"))
    (record,) = look(vanished, records=(record,), gone=(*gone, *left(second, at=NOW + 600)), now=NOW + 605).record
    assert (record.reason, record.pod_times) == (Reason.JOB_VANISHED, ((500.0, 502.0, 600.0),) * 2)


def test_a_run_that_nobody_saw_begin_is_not_merged_with_the_one_before() -> None:
    """It is seen first when it is suspended already, and its pods are still there."""
    ran = pods(at=NOW + 200, job_uid="uid")
    (record,) = look(job(uid="uid", started_at=NOW + 190, pods=ran)).record
    second = tuple(pod.model_copy(update={"name": f"new-{pod.index}"}) for pod in pods(at=NOW + 510, job_uid="uid"))
    halted = job(uid="uid", suspended=True, started_at=NOW + 500, pods=second)
    gone = left(ran, at=NOW + 303)
    (record,) = look(halted, records=(record,), gone=gone, now=NOW + 520).record
    (first,) = record.segments
    assert (first.admitted_at, first.pod_times) == (190.0, ((200.0, 202.0, 303.0),) * 2)
    (record,) = look(
        waiting(uid="uid"), records=(record,), gone=(*gone, *left(second, at=NOW + 530)), now=NOW + 540
    ).record
    assert [run.pod_times for run in record.segments[1:]] == [((510.0, 512.0, 530.0),) * 2]


@pytest.mark.parametrize("ran_before", [True, False])
def test_pods_that_have_their_nodes_before_their_job_says_that_it_started_are_of_the_run_that_begins(
    ran_before: bool,
) -> None:
    """The Job controller makes pods, and writes the start afterwards."""
    runs = (Segment(admitted_at=10.0, ended_at=100.0, nodes=("a", "b"), pod_times=((10.0, 12.0, 100.0),) * 2),)
    before = runs if ran_before else ()
    record = builders.attempt(trial=TRIAL.id, outcome=None, queue="team-a", segments=before, job_uid="uid")
    placed = job(uid="uid", started_at=None, pods=pods(at=NOW + 200))
    (record,) = look(placed, records=(record,), now=NOW + 201).record
    started = placed.model_copy(update={"started_at": NOW + 199})
    (record,) = look(started, records=(record,), now=NOW + 202).record
    assert (record.segments, record.admitted_at, record.placed_at) == (before, 199.0, (200.0, 200.0))


@pytest.mark.parametrize("queue", ["team-a", None])
@pytest.mark.parametrize("goes_on", [True, False])
def test_a_run_that_began_and_ended_between_two_looks_is_billed(queue: str | None, goes_on: bool) -> None:
    (record,) = look(waiting(uid="uid", queue=queue)).record
    ran = pods(at=NOW + 500, deleting=True, job_uid="uid")
    second = tuple(pod.model_copy(update={"name": "new"}) for pod in pods(at=NOW + 810))
    seen = job(started_at=NOW + 805, pods=second) if goes_on else waiting()
    seen = seen.model_copy(update={"uid": "uid", "queue": queue, "leaving": ran})
    (record,) = look(seen, records=(record,), now=NOW + 811).record
    gone = left(ran, at=NOW + 812)
    seen = seen.model_copy(update={"leaving": ()})
    (record,) = look(seen, records=(record,), gone=gone, now=NOW + 820).let_go
    (run,) = record.segments
    assert (run.pod_times, run.unseen) == (((500.0, 502.0, 812.0),) * 2, 0)
    assert not look(seen, records=(record,), gone=gone, now=NOW + 821).record


@pytest.mark.parametrize("queue", ["team-a", None])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_result_just_before_a_job_is_suspended_is_of_the_run_before_and_billed_once(
    queue: str | None, is_there: bool
) -> None:
    said = builders.message(builders.result(trial=TRIAL.id))
    first, other = pods(at=NOW + 200, job_uid="uid")
    (record,) = look(job(uid="uid", queue=queue, pods=(first, other))).record
    done = first.model_copy(update={"end": builders.ended(0, at=NOW + 299, text=said)})
    going, gone = (other.model_copy(update={"deleting": True}),), left((other,), at=NOW + 303)
    seen = waiting(uid="uid", queue=queue, pods=(done,), leaving=going if is_there else ())
    if not is_there:
        gone = (done.model_copy(update={"gone_at": NOW + 301}), *gone)
    (record,) = look(seen, records=(record,), gone=() if is_there else gone, now=NOW + 304).record
    if is_there:
        (record,) = look(records=(record,), gone=gone, now=NOW + 310).let_go
    (point,) = PLAN.points
    assert record.outcome is Outcome.SUCCEEDED
    assert account.held_by(record, point, PLAN.timing) == ((99.0, 103.0), False)
    assert record.waited == (200.0 if queue is None else 0.0), "until its pods were placed, and no time of a suspension"


def test_a_pod_that_does_not_end_is_billed_in_its_own_run_alone() -> None:
    """Its node is dead; the run after is evicted as well."""
    ran = pods(at=NOW + 200, deleting=True, job_uid="uid")
    (record,) = look(job(uid="uid", pods=ran)).record
    (record,) = look(waiting(uid="uid", leaving=ran), records=(record,), now=NOW + 300).record
    second = tuple(pod.model_copy(update={"name": f"new-{pod.index}"}) for pod in pods(at=NOW + 510, job_uid="uid"))
    gone = left(ran[1:], at=NOW + 303)
    resumed = job(uid="uid", started_at=NOW + 500, pods=second, leaving=ran[:1])
    (record,) = look(resumed, records=(record,), gone=gone, now=NOW + 520).record
    halted = waiting(uid="uid", leaving=(ran[0], *second))
    (record,) = look(halted, records=(record,), gone=gone, now=NOW + 600).record
    assert [len(run.pod_times) for run in record.segments] == [2, 2]


def test_pods_of_the_run_that_goes_on_are_not_booked_in_the_one_before() -> None:
    """The Job controller kept the first start, which was in the second in which the Job was created."""
    ran = pods(at=NOW + 1, deleting=True, job_uid="uid")
    (record,) = look(job(uid="uid", queue=None, started_at=NOW, pods=ran), now=NOW + 5).record
    (record,) = look(waiting(uid="uid", queue=None, leaving=ran), records=(record,), now=NOW + 300).record
    gone = left(ran, at=NOW + 301)
    second = tuple(pod.model_copy(update={"name": f"new-{pod.index}"}) for pod in pods(at=NOW + 302, job_uid="uid"))
    resumed = job(uid="uid", queue=None, started_at=NOW, pods=second)
    (record,) = look(resumed, records=(record,), gone=gone, now=NOW + 310).record
    failed = second[1].model_copy(update={"end": builders.ended(1, at=NOW + 400)})
    ended = resumed.model_copy(update={"pods": (failed,), "failed": True, "failing_since": NOW + 400})
    gone = (*gone, *left(second[:1], at=NOW + 403))
    (record,) = look(ended, records=(record,), gone=gone, now=NOW + 404).record
    (point,) = PLAN.points
    assert account.held_by(record, point, PLAN.timing) == ((101.0, 98.0, 300.0, 300.0), False)


def test_no_pod_has_ended_later_than_now_whatever_the_clock_of_its_kubelet_says() -> None:
    ahead = tuple(pod.model_copy(update={"end": builders.ended(0, at=LATER)}) for pod in pods(at=NOW + 200))
    (record,) = look(job(pods=ahead, complete=True), now=NOW + 300).record
    assert (record.ended_at, record.pod_times) == (NOW + 300, ((200.0, 202.0, 300.0),) * 2)
    assert account.held_by_pods(ahead, until=NOW + 300) == (100.0, 100.0)
    holding = builders.attempt(trial=TRIAL.id, pod_times=((10.0, 12.0, 110.0),), holding=((0, "pod-0"),), job_uid="uid")
    gone = (ahead[0].model_copy(update={"job_uid": "uid"}),)
    (record,) = look(records=(holding,), gone=gone, now=holding.created_at + 120).let_go
    assert record.pod_times == ((10.0, 12.0, 120.0),)


def test_an_operator_whose_clock_is_minutes_behind_bills_what_pods_held() -> None:
    later = tuple(pod.model_copy(update={"end": builders.ended(0, at=NOW + 900)}) for pod in pods(at=NOW + 200))
    (record,) = look(job(pods=later, complete=True), now=NOW + 600).record
    assert (record.ended_at, record.pod_times) == (NOW + 900, ((200.0, 202.0, 900.0),) * 2)
    assert account.held_by_pods(later, until=NOW + 600) == (700.0, 700.0)


def test_a_clock_that_has_not_been_started_anew_is_that_of_the_run_before() -> None:
    status = {"startTime": observe.timestamp(NOW + 10), "conditions": [{"type": "Suspended", "status": "True"}]}
    body = {**IN_QUEUE, "status": status}
    assert observe.job(body).started_at is None
    status["conditions"] = [{"type": "Suspended", "status": "False"}]
    assert observe.job(body).started_at == NOW + 10


def test_runs_beyond_a_number_of_pods_are_summed_and_every_bill_and_wait_stays() -> None:
    """A queue may evict and admit a Job for ever."""
    partial = RAN.model_copy(update={"pod_times": RAN.pod_times[:1], "unseen": 1})
    waited = RAN.model_copy(update={"pod_times": ()})
    runs = [
        one.model_copy(update={"ended_at": 111.5 + number, "admitted_at": 4.0 + number / 100})
        for number in range(100)
        for one in (RAN, partial, waited)
    ]
    whole = tuple(runs)
    folded = ledger.folded(whole)
    assert sum(max(1, len(run.pod_times)) for run in folded) <= ledger.PODS_OF_RUNS_MAX
    assert folded[-3:] == whole[-3:], "the newest stay as they are"
    many, few = (builders.attempt(outcome=None, ended_at=None, queue="q", segments=some) for some in (whole, folded))
    assert few.waited == pytest.approx(many.waited)
    (point,) = PLAN.points
    held = [sum(account.held_by(one, point, PLAN.timing).seconds) for one in (few, many)]
    assert held[0] == pytest.approx(held[1])
    in_parts = [sum(run.held_in_parts(2) for run in some) for some in (folded, whole)]
    assert in_parts[0] == pytest.approx(in_parts[1])
    assert sum(run.unseen for run in folded) == 100
    assert sum(run.summed for run in folded) == 300
    rule = {"billing": {"minimumSeconds": 60, "incrementSeconds": 60}}
    rounded = builders.plan(SPEC, builders.pool(price={**PRICE, **rule}))
    alike = tuple(one.model_copy(update={"ended_at": 111.5}) for one in whole)
    bills = [
        account.of(rounded, Ledger(records=(builders.attempt(trial=rounded.trials[0].id, segments=some),))).ended
        for some in (alike, ledger.folded(alike))
    ]
    assert bills[0] == bills[1] > 0


def test_runs_of_the_last_ones_clock_are_not_summed() -> None:
    """By when they were placed their pods are told from those of the run that goes on."""
    clock = RAN.model_copy(update={"admitted_at": 1000.0})
    runs = (*(RAN,) * 20, *(clock,) * 20)
    assert ledger.folded(runs)[-20:] == runs[-20:]


def test_a_run_that_holds_nodes_is_never_summed() -> None:
    open_run = RAN.model_copy(update={"holding": ((0, "pod-0"),)})
    assert ledger.folded((open_run,) * 100) == (open_run,) * 100


def test_an_entry_with_runs_is_read_as_it_was_written() -> None:
    record = builders.attempt(queue="team-a", admitted_at=200.0, segments=(RAN,))
    assert ledger.from_entries([ledger.to_entries([record])]).records == (record,)


def test_the_nodes_of_runs_that_kueue_has_ended_are_billed_and_lost() -> None:
    record = builders.attempt(
        trial=TRIAL.id,
        outcome=Outcome.SUCCEEDED,
        reason=Reason.COMPLETED,
        queue="team-a",
        admitted_at=200.0,
        nodes=("a", "b"),
        pod_times=((200.0, 202.0, 260.0), (200.0, 202.0, 260.0)),
        ended_at=NOW + 260,
        segments=(RAN,),
        result=builders.result(trial=TRIAL.id),
    )
    point = PLAN.points[0]
    paid = costs.paid(PLAN, point, (record,))
    assert paid is not None
    bill = costs.bill_of(paid)
    assert bill is not None
    parts = {name: Decimal(str(amount)) for name, amount in bill.parts.to_wire().items()}
    assert (parts["lost"], sum(parts.values())) == (Decimal("0.19"), Decimal("0.31"))  # 190 and 120 node-seconds
    uses = goodput.of_attempt(record, point)
    assert (float(uses[Use.LOST]), float(goodput.held(uses)), float(uses[Use.QUEUED])) == (190.0, 310.0, 0.0)


def test_what_a_training_went_on_from_after_an_eviction_was_not_lost() -> None:
    resumed = Resumed(attempt=1, step=5, useful_seconds=95.0, restore_seconds=1.0)
    of_whole_training = {"nanoseconds": 105_000_000_000, "resumed": resumed}
    record = builders.attempt(
        trial=TRIAL.id,
        outcome=Outcome.SUCCEEDED,
        reason=Reason.COMPLETED,
        queue="team-a",
        admitted_at=200.0,
        pod_times=((200.0, 202.0, 260.0), (200.0, 202.0, 260.0)),
        ended_at=NOW + 260,
        segments=(RAN,),
        result=builders.result(trial=TRIAL.id).model_copy(update=of_whole_training),
    )
    afresh = record.model_copy(update={"result": builders.result(trial=TRIAL.id)})
    went_on, began_anew = (
        one.uses for of in (record, afresh) for [one] in goodput.by_pool(PLAN, Ledger(records=(of,))).values()
    )
    # Of the 100 seconds of one node 95 count, and of the 90 of the other all: nobody trained before both were there.
    assert went_on[Use.LOST] == 5
    assert went_on[Use.USEFUL] - began_anew[Use.USEFUL] == 95 + 90
    assert began_anew[Use.LOST] == 190
    assert goodput.held(went_on) == goodput.held(began_anew) == 310


def test_a_budget_counts_runs_of_an_attempt_that_goes_on() -> None:
    record = builders.attempt(trial=TRIAL.id, outcome=None, ended_at=None, queue="team-a", segments=(RAN,))
    found = account.spent(account.of(PLAN, Ledger(records=(record,))), [waiting()], NOW + 300)
    assert found is not None
    assert found.amount == "0.19"  # 100 and 90 node-seconds


def test_an_attempt_that_runs_again_is_asked_its_fee_once() -> None:
    record = builders.attempt(trial=TRIAL.id, outcome=None, ended_at=None, queue="team-a", segments=(RAN,))
    runs_again = job(pods=pods(at=NOW + 200))

    def counted(plan: Plan, *live: ObservedJob) -> tuple[Decimal, Decimal]:
        book = account.of(plan, Ledger(records=(record,)))
        spent = account.spent(book, live, NOW + 400)
        left = budget.of(book, live, limit="100", now=NOW + 400)
        assert spent is not None
        assert left is not None
        return Decimal(spent.amount), book.ended + left.reserved

    fee = {"name": "scheduler", "amount": "7.00", "per": "Run"}
    with_fee = builders.plan(SPEC, builders.pool(price={**PRICE, "fees": [fee]}))
    for live in ((waiting(),), (runs_again,)):
        for dear, cheap in zip(counted(with_fee, *live), counted(PLAN, *live), strict=True):
            assert round(dear - cheap, 1) == 7  # amounts of a status have three digits


def test_an_attempt_that_never_left_its_queue_has_cost_nothing() -> None:
    stopped = builders.attempt(
        trial=TRIAL.id, outcome=Outcome.FAILED, reason=Reason.JOB_VANISHED, queue="team-a", ended_at=NOW + 9000
    )
    held = account.held_by(stopped, PLAN.points[0], PLAN.timing)
    assert (held.seconds, held.assumed) == ((), False)


def workload(*conditions: tuple[str, str, str, str], active: bool = True, checks: tuple[Any, ...] = ()) -> Workload:
    """As Kueue writes it: conditions are type, status, reason and message."""
    fields = ("type", "status", "reason", "message")
    status = {"conditions": [dict(zip(fields, one, strict=True)) for one in conditions], "admissionChecks": [*checks]}
    return observe.workload({"metadata": {"name": "job-job-1a2b3"}, "spec": {"active": active}, "status": status})


#: As Kueue 0.19.2 words them.
NO_QUOTA = ("QuotaReserved", "False", "Pending", "couldn't assign flavors to pod set main: insufficient quota for cpu")
MISSING = ("QuotaReserved", "False", "Inadmissible", "LocalQueue team-a is terminating or missing")
ON_HOLD = ("QuotaReserved", "False", "Inadmissible", "ClusterQueue studies is inactive")
RESERVED = ("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue studies")
RETRIES = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
OFF = ("Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded", RETRIES)
CHECK = {"name": "machines", "state": "Pending", "message": "no machine yet"}


@pytest.mark.parametrize(
    ("found", "is_served", "status", "reason", "says"),
    [
        (waiting(), True, "False", messages.WAITING_FOR_QUEUE.reason, "waits in queue team-a"),
        (
            waiting(workload=workload(NO_QUOTA)),
            True,
            "False",
            messages.WAITING_FOR_QUEUE.reason,
            "insufficient quota for cpu",
        ),
        (waiting(), False, "False", messages.KUEUE_ABSENT.reason, "has no Kueue (no API group kueue.x-k8s.io)"),
        (waiting(workload=workload(MISSING)), True, "False", "QueueMissing", "missing; create it"),
        (waiting(workload=workload(ON_HOLD)), True, "False", "QueueOnHold", "studies is inactive; see its conditions"),
        (
            waiting(workload=workload(RESERVED, checks=(CHECK,))),
            True,
            "False",
            messages.WAITING_FOR_CHECKS.reason,
            "waits for machines (Pending: no machine yet)",
        ),
        (
            waiting(
                workload=workload(RESERVED, ("Admitted", "False", "PendingDelayedTopologyRequests", "no topology"))
            ),
            True,
            "False",
            messages.WAITING_FOR_QUEUE.reason,
            "waits in queue team-a: no topology",
        ),
        (
            waiting(workload=workload(NO_QUOTA, OFF, active=False)),
            True,
            "False",
            messages.DEACTIVATED.reason,
            f": {RETRIES}; set spec.active of Workload job-job-1a2b3 to true, or delete the Job",
        ),
        (
            waiting(queue=None, lacks_workload=True),
            True,
            "False",
            messages.SUSPENDED_BY_OTHERS.reason,
            "name a queue of Kueue in spec.queueName",
        ),
        (waiting(queue=None), False, "False", messages.SUSPENDED_BY_OTHERS.reason, "set its spec.suspend to false"),
        (waiting(queue="roomy"), True, "False", messages.WAITING_FOR_QUEUE.reason, "waits in queue roomy"),
        (job(), True, "True", conditions.ADMITTED, "1 Job was admitted by queue team-a"),
        (job(queue="roomy"), True, "True", conditions.ADMITTED, "1 Job was admitted by queue roomy"),
    ],
)
@pytest.mark.parametrize("names_queue", [True, False])
def test_a_condition_says_how_the_jobs_stand_in_their_queue(
    found: ObservedJob, is_served: bool, status: str, reason: str, says: str, names_queue: bool
) -> None:
    """Also where the benchmark names none: Kueue may give a Job one, or suspend it without."""
    study = STUDY if names_queue else builders.study(SPEC.model_copy(update={"queue_name": None}))
    seen = builders.observed(study, found).model_copy(update={"queue_is_served": is_served})
    made = decide(PLAN, Ledger(), seen, NOW)
    condition = admitted(made.status)
    assert (condition.status, condition.reason) == (status, reason)
    assert says in condition.message
    assert made.status.message == (condition.message if status == "False" else None)
    waits_well = (conditions.ADMITTED, messages.WAITING_FOR_QUEUE.reason, messages.WAITING_FOR_CHECKS.reason)
    assert [one.type for one in made.events if one.reason == reason] == [
        "Normal" if reason in waits_well else "Warning"
    ]


def test_of_several_jobs_that_wait_the_one_that_needs_somebody_is_named() -> None:
    in_trouble = waiting(name="second", attempt=2, workload=workload(OFF, active=False))
    assert admitted(look(waiting(workload=workload(NO_QUOTA)), in_trouble).status).reason == messages.DEACTIVATED.reason


def test_a_job_without_a_queue_that_runs_has_no_such_condition() -> None:
    made = look(job(queue=None))
    assert conditions.ADMITTED not in [one.type for one in made.status.conditions]


def test_a_job_that_kueue_overlooks_says_so_after_a_while() -> None:
    found = waiting(lacks_workload=True)
    assert admitted(look(found, now=NOW + 5).status).reason == messages.WAITING_FOR_QUEUE.reason
    late = admitted(look(found, now=NOW + 40).status)
    assert late.reason == messages.WORKLOAD_MISSING.reason
    assert "manages batch/job in this namespace" in late.message


def test_a_job_that_kueue_has_given_up_ends_and_is_held_against_nobody() -> None:
    given_up = workload(("Finished", "True", "FailedToStart", "conflict for key=pool, value1=a, value2=b"))
    made = look(waiting(workload=given_up), now=NOW + 100)
    (record,) = made.record
    assert (record.outcome, record.reason) == (Outcome.STOPPED, Reason.QUEUE_GAVE_UP)
    assert "(FailedToStart): conflict for key=pool" in (record.sentence or "")
    assert [one.name for one in made.delete] == ["job"], "a new Job gets a new Workload"
    after = look(records=(record,), now=NOW + 100)
    assert [gang.assignment.attempt for gang in after.create] == [2]
    again = [record.model_copy(update={"attempt": number}) for number in range(1, 9)]
    assert look(records=tuple(again), now=NOW + 101).create == (), "the pauses grow"
    assert len(look(records=tuple(again), now=NOW + 500).create) == 1, "but nobody gives up"


@pytest.mark.parametrize("is_seen_going", [True, False])
def test_a_job_that_was_deleted_while_it_waited_did_not_run_and_is_no_failure(is_seen_going: bool) -> None:
    work = workload(OFF, active=False)
    begun = look(waiting(workload=work))
    study = STUDY.model_copy(update={"status": GpuBenchmarkStatus(conditions=begun.status.conditions)})
    jobs = (waiting(workload=work, deleting=True),) if is_seen_going else ()
    made = decide(PLAN, Ledger(records=begun.record), builders.observed(study, *jobs), NOW + 100)
    (record,) = made.record
    assert (record.outcome, record.reason) == (Outcome.STOPPED, Reason.JOB_VANISHED)
    assert "deleted by somebody else while it waited in queue team-a" in (record.sentence or "")
    assert "re-queuing retries" in (record.sentence or "")


def test_a_job_in_no_queue_that_goes_while_it_is_suspended_is_not_said_to_have_waited_in_one() -> None:
    begun = builders.attempt(trial=TRIAL.id, outcome=None, ended_at=None)
    (record,) = look(records=(begun,), now=NOW + 100).record
    assert (record.outcome, record.reason) == (Outcome.STOPPED, Reason.JOB_VANISHED)
    assert "was deleted by somebody else while it was suspended" in (record.sentence or "")


def test_a_gang_that_kueue_admits_in_part_says_so_and_does_not_blame_others() -> None:
    (first, _) = pods(at=NOW + 200)
    found = job(parallelism=1, pods=(first,))
    (pending,) = [one for one in look(found, now=NOW + 300).status.conditions if one.type == conditions.GANG_PENDING]
    assert (pending.reason, "job-min-parallelism" in pending.message) == ("PartiallyAdmitted", True)
    late = NOW + 200 + PLAN.timing.scheduling_timeout + outcome.SKEW_SECONDS
    verdict = outcome.classify(Attempt(found, 2, PLAN.timing), now=late)
    assert verdict is not None
    assert (verdict.reason, "1 of 2 pods" in verdict.message) == (Reason.NO_CAPACITY, True)


def test_a_node_that_kueues_topology_chose_and_that_has_no_room_is_named_with_the_remedy() -> None:
    """Its selector has a hostname, which only the pods have: a pool's own one is in the Job's template."""
    host, where = {"kubernetes.io/hostname": "alone-0"}, {"pool": "alone"}
    said = "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules"
    unplaced = {"conditions": [{"type": "PodScheduled", "status": "False", "message": said}]}

    def pending(selector: dict[str, str], **labels: str) -> tuple[str, str] | None:
        pod = observe.pod({"metadata": {"name": "p"}, "spec": {"nodeSelector": host | where}, "status": unplaced})
        template = {"spec": {"nodeSelector": selector}}
        metadata = {**IN_QUEUE["metadata"], "labels": {**IN_QUEUE["metadata"]["labels"], **labels}}
        found = observe.job({"metadata": metadata, "spec": {"template": template}}, pods=(pod,))
        return outcome.pending_message(found, nodes=2)

    chosen = pending(where)
    assert chosen is not None
    assert chosen[0] == "NodeChosenByKueue"
    assert chosen[1].startswith("pod p has no node, as Kueue's topology allows only node alone-0: let slot x ")
    assert chosen[1].endswith(f"; scheduler: {said}")
    for other in (pending(host | where), pending(where, **{names.LABEL_QUEUE: ""})):
        assert other is not None
        assert (other[0], other[1].startswith(f"pod p has no node: {said}; ")) == ("Unschedulable", True)


@pytest.mark.parametrize("queue", ["team-a", None])
def test_the_advice_of_a_shared_node_names_kueues_topology_where_the_gang_came_from_a_queue(queue: str | None) -> None:
    spec = builders.spec(builders.block(workers=[2], workersPerNode=1), measure={"repeats": {"min": 1}})
    plan = builders.plan(spec, builders.pool(slots_per_node=2, exclusive_nodes=False))
    (trial,) = plan.trials
    end = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "result": builders.result(trial=trial.id)}
    record = builders.attempt(trial=trial.id, nodes=("a", "a"), queue=queue, **end)
    (point,) = decide(plan, Ledger(records=(record,)), builders.observed(STUDY), NOW).status.results
    (shared,) = [one for one in point.warnings if one.reason is WarningReason.NODE_SHARED]
    assert ("topologyName" in shared.message) == (queue is not None)


def test_of_a_gang_that_was_evicted_nobody_says_that_it_has_its_nodes() -> None:
    unplaced = builders.observed_pod(0, node=None, scheduled_at=None, running_at=None, scheduling_message="0/3 nodes")
    before = look(job(pods=(unplaced,)), now=NOW + 300)
    study = STUDY.model_copy(update={"status": GpuBenchmarkStatus(conditions=before.status.conditions)})
    made = decide(PLAN, Ledger(records=before.record), builders.observed(study, waiting()), NOW + 400)
    (pending,) = [one for one in made.status.conditions if one.type == conditions.GANG_PENDING]
    assert (pending.status, pending.reason) == ("False", messages.QUEUE_EVICTED.reason)
    assert pending.message.startswith("no gang waits for nodes: Job job was evicted from queue team-a")


def test_between_two_jobs_the_condition_stays_and_is_of_the_study_as_it_is_now() -> None:
    before = look(job()).status
    study = STUDY.model_copy(
        update={"status": GpuBenchmarkStatus(conditions=before.conditions), "generation": STUDY.generation + 1}
    )
    after = decide(PLAN, Ledger(), builders.observed(study), NOW).status
    assert admitted(after) == admitted(before).model_copy(update={"observed_generation": study.generation})


def test_an_eviction_is_said_in_the_condition() -> None:
    record = builders.attempt(trial=TRIAL.id, outcome=None, queue="team-a", segments=(RAN,), ended_at=None)
    made = look(waiting(workload=workload(NO_QUOTA)), records=(record,))
    assert admitted(made.status).reason == messages.QUEUE_EVICTED.reason
    assert "evicted from queue team-a once" in admitted(made.status).message


def test_a_suspended_study_gives_up_its_place_in_the_queue() -> None:
    spec = SPEC.model_copy(update={"suspend": True})
    made = decide(PLAN, Ledger(), builders.observed(builders.study(spec), waiting()), NOW)
    assert [(record.outcome, record.reason) for record in made.record] == [(Outcome.STOPPED, Reason.SUSPENDED)]
    assert [reference.name for reference in made.delete] == ["job"]


def test_pods_of_a_run_before_are_told_from_those_of_this_one() -> None:
    body: dict[str, Any] = {**IN_QUEUE, "status": {"startTime": observe.timestamp(NOW + 100)}}
    old = builders.observed_pod(0, name="old", created_at=NOW + 10, deleting=True, told_to_end_at=NOW + 90)
    new = builders.observed_pod(0, name="new", created_at=NOW + 100, deleting=True, told_to_end_at=NOW + 101)
    late = new.model_copy(update={"name": "before its start", "created_at": NOW + 98})  # which was written later
    seen = observe.job(body, pods=(old, new, late))
    assert [pod.name for pod in seen.leaving] == ["old"]
    assert [pod.name for pod in seen.pods] == ["new", "before its start"]
    assert (seen.suspended, seen.begun_at, seen.holds_slots) == (False, NOW + 100, True)
    suspended = observe.job({**body, "spec": {"suspend": True}}, pods=(old,))
    assert (suspended.pods, suspended.holds_slots) == ((), True), "its pods hold their nodes until they have ended"
    assert not observe.job({**body, "spec": {"suspend": True}}).holds_slots
    resuming = observe.job({**body, "status": {}}, pods=(old,))
    assert resuming.pods == (), "it is to run again, and no pod of that run is there yet"


def test_what_kueue_says_last_of_a_jobs_workload_is_found() -> None:
    def event(name: str, reason: str, message: str, **more: Any) -> dict[str, Any]:
        return {"involvedObject": {"name": name}, "reason": reason, "message": message, **more}

    events = [
        event("job-mine-1a2b3", "Pending", "old", eventTime="2026-11-22T10:00:00.000000Z"),
        event("job-mine-1a2b3", "ExceedsMaxQuota", "new", lastTimestamp="2026-11-22T11:00:00Z"),
        event("job-other-1a2b3", "Pending", "of another one", lastTimestamp="2026-11-22T12:00:00Z"),
    ]
    found = observe.said_by_kueue(events, job="mine")
    assert found is not None
    assert found.waits is not None
    assert (found.name, found.waits.message) == ("job-mine-1a2b3", "new")
    events.append(event("job-mine-1a2b3", "QuotaReserved", "in od", lastTimestamp="2026-11-22T12:00:00Z"))
    assert observe.said_by_kueue(events, job="mine") is None, "what was said before is old news"
    assert observe.said_by_kueue(events, job="none") is None


def test_the_flavors_of_the_example_are_the_pools_that_they_are_named_after() -> None:
    examples = Path(__file__).resolve().parents[2] / "jobs" / "examples"
    pools = {
        body["metadata"]["name"]: GpuPoolSpec.model_validate(body["spec"])
        for body in yaml.safe_load_all((examples / "pools" / "gke.yaml").read_text())
    }
    bodies = list(yaml.safe_load_all((examples / "queues" / "gke.yaml").read_text()))
    (queue,) = (body for body in bodies if body["kind"] == "ClusterQueue")
    quotas = {flavor["name"]: flavor["resources"] for flavor in queue["spec"]["resourceGroups"][0]["flavors"]}
    flavors = {body["metadata"]["name"]: body["spec"] for body in bodies if body["kind"] == "ResourceFlavor"}
    assert flavors.keys() == quotas.keys()
    for name, flavor in flavors.items():
        pool = pools[name]
        assert flavor["nodeLabels"] == dict(pool.scheduling.node_selector)
        tolerated = {(one.key, one.effect) for one in pool.scheduling.tolerations}
        assert {(one["key"], one["effect"]) for one in flavor["nodeTaints"]} <= tolerated
        slots = pool.max_nodes * pool.slots_per_node
        holds = {"cpu": times(pool.slot.cpu, slots), "memory": times(pool.slot.memory, slots)}
        assert {one["name"]: one["nominalQuota"] for one in quotas[name]} == {**holds, "nvidia.com/gpu": str(slots)}
