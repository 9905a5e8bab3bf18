# SPDX-License-Identifier: Apache-2.0
"""Whole studies in a simulated cluster: what is started, what is counted, what is said, whatever happens on the way."""

import math
import random
from collections.abc import Collection

import pytest

import builders
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import PointState
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, outcome, step
from gpubench.scheduler.conditions import FINISHED, GANG_PENDING, SUCCEEDED, SUSPENDED
from gpubench.scheduler.observed import Disruption, Study
from gpubench.scheduler.step import begin
from world import Fate, run_with_kills, success, world


def condition(status: FullStatus | None, type_: str) -> tuple[str, str, str]:
    assert status is not None
    found = next(condition for condition in status.conditions if condition.type == type_)
    return found.status, found.reason, found.message


def fails(exit_code: int, *, attempts: int = 99, sentence: str = "it broke") -> Fate:
    """The first attempts at every trial fail, later ones succeed."""

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        if attempt > attempts:
            return success(trial, attempt)
        record = builders.failure(trial=trial, attempt=attempt, exit_code=exit_code, sentence=sentence)
        return exit_code, builders.message(record)

    return fate


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("measured", 8, "measured"),
        ("measured", 7, "meas…"),
        ("測定", 6, "測定"),
        ("測定した", 8, "測…"),
        ("", 8, ""),
    ],
)
def test_a_sentence_is_cut_to_the_bytes_that_the_store_counts(text: str, limit: int, cut: str) -> None:
    assert conditions.clamped(text, limit) == cut
    assert len(cut.encode()) <= limit


def test_an_undisturbed_study_runs_each_trial_once_and_ends_with_figures() -> None:
    here = world()
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.points_done == "2/2"
    assert len(here.created) == len(set(here.created)) == 6
    assert status.attempts is not None
    assert (status.attempts.started, status.attempts.succeeded) == (6, 6)
    assert [result.state for result in status.results] == [PointState.MEASURED] * 2
    for result in status.results:
        assert len(result.values) == 3
        assert result.throughput is not None
        assert result.throughput.low is not None
        assert result.cost is not None
        assert result.scaling
    assert condition(status, FINISHED)[0] == condition(status, SUCCEEDED)[0] == "True"


def test_a_finished_study_is_left_alone() -> None:
    here = world()
    here.run()
    for _ in range(3):
        here.advance()
        here.reconcile()
    again = here.decide()
    assert (again.record, again.delete, again.retire, again.create, again.events) == ((), (), (), (), ())
    assert again.requeue_at is None
    assert again.status == here.status


def test_every_job_of_a_finished_study_gets_a_time_to_live() -> None:
    here = world(fate=fails(80, attempts=1))
    here.run()
    here.reconcile()
    assert here.jobs
    assert all(job.has_ttl for job in here.jobs.values())


def test_a_condition_keeps_the_time_of_its_transition() -> None:
    here = world()
    here.reconcile()
    begun = {condition.type: condition.last_transition_time for condition in here.study.conditions}
    here.advance()
    here.reconcile()
    assert {condition.type: condition.last_transition_time for condition in here.study.conditions} == begun


def test_a_second_retry_waits_for_its_back_off_and_the_operator_wakes_up_for_it() -> None:
    spec = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}})
    here = world(builders.study(spec), fate=fails(80))
    for _ in range(2):  # two attempts fail, one right after the other
        here.reconcile()
        here.advance()
    decision = here.reconcile()
    assert len(here.created) == 2
    assert decision.create == ()
    assert decision.requeue_at is not None
    here.now = decision.requeue_at
    assert len(here.reconcile().create) == 1


def test_cost_covers_the_nodes_of_the_gang() -> None:
    one, two = world().run().results
    assert one.cost is not None
    assert one.cost.per_million_samples is not None
    assert two.cost is not None
    assert two.cost.per_million_samples is not None
    assert one.throughput is not None
    assert two.throughput is not None
    # 0.36 USD per node-hour is 0.0001 per second; a million samples at T per second take 1e6 / T seconds
    assert float(one.cost.per_million_samples.mean) == pytest.approx(100 / one.throughput.mean, abs=1e-6)
    assert float(two.cost.per_million_samples.mean) == pytest.approx(200 / two.throughput.mean, abs=1e-6)


@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_no_more_trials_run_at_once_than_allowed(parallel: int) -> None:
    spec = builders.spec(
        builders.block(workers=[1]), measure={"repeats": {"min": 9}}, limits={"parallelTrials": parallel}
    )
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=9)))
    here.reconcile()
    assert len(here.jobs) == parallel
    here.run()
    assert here.most_slots_held <= parallel


def test_gangs_never_hold_more_slots_than_the_pool_has() -> None:
    spec = builders.spec(builders.block(workers=[1, 2, 3]), limits={"parallelTrials": 64})
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=3)))
    assert here.run().phase == "Succeeded"
    assert here.most_slots_held <= 3


def test_a_large_gang_is_not_overtaken_on_its_pool() -> None:
    spec = builders.spec(builders.block(workers=[1, 4]), limits={"parallelTrials": 64}, order={"seed": 1})
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=4)))
    here.run()
    order = [trial.id for trial in here.plan.trials]
    started = [name.split("-")[-2] for name in here.created]
    assert started == order


def test_an_exclusive_node_is_held_and_paid_for_as_a_whole() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    plans = {
        exclusive: builders.plan(spec, builders.pool(slots_per_node=8, exclusive_nodes=exclusive))
        for exclusive in (True, False)
    }
    held = {exclusive: world(builders.study(spec), plan).decide().create[0].slots for exclusive, plan in plans.items()}
    assert held == {True: 8, False: 1}
    whole, share = (world(builders.study(spec), plans[exclusive]).run().results[0].cost for exclusive in (True, False))
    assert whole is not None
    assert whole.per_million_samples is not None
    assert share is not None
    assert share.per_million_samples is not None
    assert float(whole.per_million_samples.mean) == pytest.approx(8 * float(share.per_million_samples.mean), abs=1e-5)


def test_a_preempted_attempt_is_followed_by_another_and_is_no_failure() -> None:
    here = world(fate=lambda trial, attempt: builders.disrupted() if attempt == 1 else success(trial, attempt))
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert (status.attempts.preempted, status.attempts.succeeded, status.attempts.failed) == (6, 6, 0)
    assert status.attempts.started == len(here.created) == 12


def test_an_attempt_that_failed_is_tried_again() -> None:
    here = world(fate=fails(80, attempts=2))
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert (status.attempts.failed, status.attempts.succeeded) == (12, 6)


def test_a_trial_that_goes_on_failing_ends_its_point_with_the_sentence_and_the_others_go_on() -> None:
    here = world()
    doomed = {trial.id for trial in here.plan.trials if trial.point == 1}
    broken = fails(80, sentence="the worker raised ValueError")
    here.fate = lambda trial, attempt: broken(trial, attempt) if trial in doomed else success(trial, attempt)
    status = here.run()
    assert status.phase == "Failed"
    assert [result.state for result in status.results] == [PointState.MEASURED, PointState.FAILED]
    assert "the worker raised ValueError" in (status.results[1].reason or "")
    assert len([name for name in here.created if name.split("-")[-2] in doomed]) == 3  # one attempt and two retries
    assert condition(status, SUCCEEDED)[0] == "False"
    assert status.trials is not None
    assert status.trials.finished == status.trials.total == 6


def test_out_of_memory_is_a_finding_and_is_not_repeated() -> None:
    here = world()
    large = {trial.id for trial in here.plan.trials if trial.point == 1}
    oom = fails(66, sentence="batch 64 does not fit")
    here.fate = lambda trial, attempt: oom(trial, attempt) if trial in large else success(trial, attempt)
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.results[1].state is PointState.OUT_OF_MEMORY
    assert len([name for name in here.created if name.split("-")[-2] in large]) == 1


def test_a_study_in_which_nothing_could_be_measured_has_failed() -> None:
    spec = builders.spec(builders.block(pools=["elsewhere"]))
    status = world(builders.study(spec), builders.plan(spec)).run()
    assert status.phase == "Failed"
    assert condition(status, SUCCEEDED)[1] == "NothingMeasured"
    assert "GpuPool elsewhere did not exist" in condition(status, SUCCEEDED)[2]


def test_repeats_from_different_environments_are_never_averaged() -> None:
    def fate(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, environment=trial))

    status = world(fate=fate).run()
    assert status.phase == "Failed"
    for result in status.results:
        assert (result.state, result.throughput, result.cost, result.values) == (PointState.FAILED, None, None, ())
        assert "different environments" in (result.reason or "")


def test_a_program_of_ones_own_that_counts_other_workers_measures_nothing() -> None:
    custom = {"name": "mine", "command": ["python", "/mine.py"]}
    spec = builders.spec(builders.block(workloads=["Custom"], custom=custom, workers=[2]))
    (found,) = world(builders.study(spec), builders.plan(spec)).run().results  # its records count 1
    assert (found.state, found.throughput) == (PointState.FAILED, None)
    assert "counts workers 1, and 2 were asked for" in (found.reason or "")


def test_efficiency_is_not_computed_across_environments() -> None:
    here = world()
    of_point = {trial.id: str(trial.point) for trial in here.plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, environment=of_point[trial]))

    here.fate = fate
    for result in here.run().results:
        assert result.throughput is not None
        assert [line for line in result.scaling if line.efficiency.mean != 1.0] == []
        assert "another environment" in builders.messages(result)[0]


def test_an_image_that_was_moved_during_the_study_is_another_environment() -> None:
    here = world()
    while (status := here.reconcile().status).phase == "Running":
        for name, job in here.jobs.items():
            pods = tuple(pod.model_copy(update={"image_id": f"sha256:{len(here.created) % 2}"}) for pod in job.pods)
            here.jobs[name] = job.model_copy(update={"pods": pods})
        here.advance()
    assert any("sha256:0" in (result.reason or "") and "sha256:1" in (result.reason or "") for result in status.results)
    assert any("exempt it from webhooks that rewrite images" in (result.reason or "") for result in status.results)


def test_a_pod_that_does_not_let_go_of_its_node_is_said_so() -> None:
    spec = builders.spec(builders.block(workers=[4]))
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=4)))
    here.reconcile()
    ((name, job),) = here.jobs.items()
    evicted = (job.pods[0].model_copy(update={"disruption": builders.disrupted(), "deleting": True}), *job.pods[1:])
    stuck = job.model_copy(update={"pods": evicted, "deleting": True, "deleting_since": here.now})
    here.stuck.add(name)
    for _ in range(2):
        here.jobs[name] = stuck
        decision = here.reconcile()
    assert all(condition.type != GANG_PENDING for condition in decision.status.conditions)
    while here.now < builders.NOW + outcome.GRACE_SECONDS + 60:
        assert decision.requeue_at is not None
        here.now = decision.requeue_at
        decision = here.reconcile()
    assert condition(here.status, GANG_PENDING)[:2] == ("True", "NodeNotAnswering")
    assert "pod-0 on node node-0" in condition(here.status, GANG_PENDING)[2]


def test_a_pod_that_another_container_keeps_is_ended_when_it_has_had_its_time() -> None:
    spec = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}})
    here = world(builders.study(spec))
    here.reconcile()
    ((name, job),) = here.jobs.items()
    here.now += 10
    end = builders.ended(text=success(job.trial, 1)[1], at=here.now)
    kept = job.pods[0].model_copy(update={"end": end, "kept_by": "istio-proxy"})
    here.jobs[name] = job.model_copy(update={"pods": (kept,)})
    due = here.now + outcome.KEPT_SECONDS
    while not (decision := here.reconcile()).delete:
        assert decision.requeue_at is not None
        here.now = decision.requeue_at
    assert here.now == due


def test_a_deleted_job_whose_pods_have_ended_holds_no_node_whoever_keeps_their_objects() -> None:
    """By a finalizer of somebody else's: its node is healthy, and nobody is told to delete it."""
    spec = builders.spec(builders.block(workers=[4]))
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=4)))
    here.reconcile()
    ((name, job),) = here.jobs.items()
    ended = tuple(pod.model_copy(update={"end": builders.ended(80), "deleting": True}) for pod in job.pods)
    kept = job.model_copy(update={"pods": ended, "deleting": True, "deleting_since": here.now})
    here.stuck.add(name)
    for _ in range(2):
        here.jobs[name] = kept
        here.now += 120
        decision = here.reconcile()
    assert len(here.created) == 2
    assert all(condition.type != GANG_PENDING for condition in decision.status.conditions)


def test_a_decision_names_the_pools_that_were_too_full() -> None:
    spec = builders.spec(builders.block(workers=[4]), limits={"parallelTrials": 2})
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=4)))
    assert here.reconcile().short_of == {"cpu": 4}
    assert here.decide().short_of == {"cpu": 4}


def test_suspending_stops_what_runs_and_resuming_goes_on_without_counting_a_failure() -> None:
    here = world()
    here.reconcile()
    here.study = suspended(here.study, True)
    here.reconcile()
    assert all(job.deleting for job in here.jobs.values())
    assert condition(here.status, SUSPENDED)[0] == "True"
    here.advance()
    assert here.decide().create == ()
    here.study = suspended(here.study, False)
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert (status.attempts.stopped, status.attempts.failed, status.attempts.succeeded) == (1, 0, 6)
    reasons = [happening.reason for happening in here.told]
    assert reasons.count("Suspended") == reasons.count("Resumed") == 1


def suspended(study: Study, suspend: bool) -> Study:
    return study.model_copy(update={"spec": study.spec.model_copy(update={"suspend": suspend})})


def test_a_job_that_somebody_deletes_is_counted_and_replaced() -> None:
    here = world()
    here.reconcile()
    here.reconcile()  # the attempt is in the ledger now
    ((name, job),) = here.jobs.items()
    here.jobs[name] = job.model_copy(update={"deleting": True})
    here.reconcile()
    del here.jobs[name]
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert status.attempts.started == len(here.created) == 7
    assert status.attempts.failed == 1


def test_a_gang_that_finds_no_node_is_said_so_in_a_condition_and_told_once() -> None:
    here = world()
    here.reconcile()
    ((name, job),) = here.jobs.items()
    waiting = builders.observed_pod(
        phase="Pending", node=None, scheduled_at=None, running_at=None, scheduling_message="0/3 nodes are available"
    )
    here.jobs[name] = job.model_copy(update={"pods": (waiting,)})
    here.now += 5
    assert here.reconcile().status.conditions == here.decide().status.conditions
    assert here.decide().requeue_at == job.created_at + 10
    here.now += 6
    here.reconcile()
    assert all(one.type != GANG_PENDING for one in here.decide().status.conditions), (
        "an autoscaler may have words of its own"
    )
    assert here.decide().requeue_at == job.created_at + 30
    here.now += 20
    here.reconcile()
    here.reconcile()
    assert condition(here.status, GANG_PENDING)[:2] == ("True", "Unschedulable")
    assert "0/3 nodes are available" in condition(here.status, GANG_PENDING)[2]
    assert [happening.reason for happening in here.told].count("GangPending") == 1


def test_texts_of_any_length_fit_the_schema() -> None:
    here = world(fate=fails(80, sentence="very " * 500))
    status = here.run()
    assert status.phase == "Failed"
    assert all((result.reason or "").endswith("…") for result in status.results)


def test_the_studys_own_last_attempt_is_no_reason_to_wait() -> None:
    spec = builders.spec(builders.block(workers=[4]))
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=4)))
    here.reconcile()
    ((name, job),) = here.jobs.items()
    ended = builders.observed_pod(end=builders.ended(0, text=success(job.trial, 1)[1]))
    here.jobs[name] = job.model_copy(update={"pods": (ended, *job.pods[1:])})  # pod 0 has ended, the others are ending
    decision = here.reconcile()
    assert decision.create == ()
    assert all(condition.type != GANG_PENDING for condition in decision.status.conditions)


@pytest.mark.parametrize("until", [builders.NOW + 90, math.inf])
@pytest.mark.parametrize("pace", [5.0, 500.0])
def test_a_study_that_waits_for_slots_of_others_says_so_and_looks_again_at_its_pace(pace: float, until: float) -> None:
    here = world()
    (free,) = builders.observed(free=0).free
    observed = here.observe().model_copy(
        update={"free": (free.model_copy(update={"pace": pace, "until": until}),)},
    )
    here.observe = lambda: observed  # type: ignore[method-assign]
    decision = here.decide()
    assert decision.create == ()
    assert condition(decision.status, GANG_PENDING)[1] == "WaitingForSlots"
    assert decision.requeue_at == here.now + pace


@pytest.mark.parametrize("seed", range(40))
def test_killed_between_any_two_writes_the_study_ends_as_if_nothing_had_happened(seed: int) -> None:
    chance = random.Random(seed)

    def unlucky(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        first = sum(map(ord, trial)) % 3
        if attempt == 1 and first == 0:
            return builders.disrupted()
        return fails(80, attempts=1)(trial, attempt) if first == 1 else success(trial, attempt)

    undisturbed, disturbed = world(fate=unlucky), world(fate=unlucky)
    expected = undisturbed.run()
    status = run_with_kills(disturbed, chance)
    assert facts(status) == facts(expected)
    assert sorted(disturbed.created) == sorted(undisturbed.created)
    for here in (undisturbed, disturbed):
        booked = {one.job: [ended - placed for placed, _, ended in one.pod_times] for one in here.ledger().records}
        assert booked == dict(zip(here.on_nodes, here.node_seconds(), strict=True))
        assert not any(one.unseen or one.holding for one in here.ledger().records)
    assert status.attempts is not None
    assert status.attempts.started == len(disturbed.created)


def facts(status: FullStatus) -> dict[str, object]:
    """A status without the times at which things happened, and what is made of them."""
    wire = status.to_wire()
    for timed in ("completionTime", "spent"):
        wire.pop(timed)
    for result in wire["results"]:  # type: ignore[attr-defined]
        result.pop("bill")
    pools = wire.pop("goodput")["pools"]  # type: ignore[index]
    wire["interruptions"] = [(pool["pool"], pool["attempts"], pool["interruptions"]) for pool in pools]
    for entry in wire["conditions"]:  # type: ignore[attr-defined]
        entry.pop("lastTransitionTime")
    return wire


def test_a_benchmark_waits_unplanned_until_all_of_its_pools_exist() -> None:
    study = builders.study(builders.spec(builders.block(pools=["cpu", "late", "later"])))
    early = waiting(study, builders.pool(), after=1)
    assert (early.status.phase, early.requeue_at, early.events) == ("Pending", builders.NOW + 30, ())
    reasons = {one.type: (one.reason, one.message) for one in early.status.conditions}
    reason, message = reasons["Progressing"]
    assert reason == "WaitingForPools"
    assert message == "waiting for GpuPool late, later, not there yet: apply it"
    days = waiting(study, builders.pool(), after=3 * 86_400 + 5)
    assert days.status.conditions[0].message == message, "a condition that changed each hour would be written each hour"
    complete = begin(study, (builders.pool(), *map(builders.pool, ("late", "later"))), builders.NOW + 4 * 86_400)
    assert isinstance(complete, Plan)
    assert all(point.skip is None for point in complete.points)


def test_a_benchmark_that_waits_for_pools_emits_an_event_after_a_while_and_then_one_each_hour() -> None:
    study = builders.study(builders.spec(builders.block(pools=["cpu", "late"])))
    moments = (30, 31, 3599, 3600, 7199, 7200, 500_000)
    found = [waiting(study, builders.pool(), after=seconds) for seconds in moments]
    assert [one.events[0].message.rpartition(", ")[2] for one in found] == [
        *("0 h)", "0 h)", "0 h)", "1 h)", "1 h)", "2 h)", "138 h)"),
    ]
    assert [one.requeue_at for one in found] == [builders.NOW + 3600 * hours for hours in (1, 1, 1, 2, 2, 3, 139)], (
        "the next hour, so that it is seen"
    )
    assert found[0].events == found[1].events, "content names an Event: a restarted operator writes it once"


def test_a_pool_that_cannot_be_read_is_waited_for_and_named_so() -> None:
    study = builders.study(builders.spec(builders.block(pools=["broken", "cpu", "late"])))
    message = waiting(study, builders.pool(), after=60, unreadable=["broken"]).status.conditions[0].message
    assert message == (
        "waiting for GpuPool late, not there yet: apply it; waiting for GpuPool broken, which cannot be read: "
        "its status says why"
    )


def test_a_pool_timeout_ends_the_wait_and_skips_what_is_missing() -> None:
    study = builders.study(builders.spec(builders.block(pools=["cpu", "late"]), limits={"poolTimeout": "10m"}))
    early = waiting(study, builders.pool(), after=60)
    assert early.requeue_at == builders.NOW + 600
    assert "(limits.poolTimeout)" in early.status.conditions[0].message
    without = begin(study, (builders.pool(),), builders.NOW + 600)
    assert isinstance(without, Plan)
    assert {point.key.pool for point in without.points if point.skip} == {"late"}


def test_a_pool_without_a_ready_node_is_waited_for_where_each_node_is_measured() -> None:
    block = builders.block(pools=["cpu", "priced"], workers=[1], placement="EachNode")
    study = builders.study(builders.spec(block, limits={"poolTimeout": "10m"}))
    pools = (builders.pool(), builders.pool("priced", measuredBy={"pool": "cpu"}))

    def begun(after: float, **nodes: list[str]) -> Plan | step.NotYet:
        return begin(study, pools, builders.NOW + after, nodes)

    early = begun(1, cpu=[], priced=[])
    assert isinstance(early, step.NotYet)
    message = "waiting for a ready node of GpuPool cpu, of which placement EachNode measures each: start one, or take"
    assert message in early.status.conditions[0].message, "a pool that is never run needs none"
    late = begun(100)
    assert isinstance(late, step.NotYet)
    assert (late.requeue_at, len(late.events)) == (builders.NOW + 160, 1), "nodes wake no benchmark"
    there, after = begun(101, cpu=["a"]), begun(600)
    assert isinstance(there, Plan)
    assert isinstance(after, Plan)
    skipped = [[point.skip is None for point in plan.points if point.key.pool == "cpu"] for plan in (there, after)]
    assert skipped == [[True], [False]]


def waiting(study: Study, *pools: GpuPool, after: float, unreadable: Collection[str] = ()) -> step.NotYet:
    found = begin(study, pools, builders.NOW + after, unreadable=unreadable)
    assert isinstance(found, step.NotYet)
    return found


def test_a_study_that_is_applied_suspended_is_planned_when_it_is_resumed() -> None:
    study = builders.study(builders.spec(suspend=True))
    waiting = begin(study, (builders.pool(),), builders.NOW)
    assert isinstance(waiting, step.NotYet)
    assert (waiting.status.phase, waiting.requeue_at) == ("Suspended", None)


def test_the_largest_study_ends_and_its_status_stays_small() -> None:
    spec = builders.spec(
        builders.block(workers=list(range(1, 33)), batchPerWorker=[8, 16, 32, 64, 128, 256, 512, 1024]),
        measure={"repeats": {"min": 10}},
        limits={"parallelTrials": 64},
    )
    here = world(builders.study(spec), builders.plan(spec, builders.pool(max_nodes=1000)))
    status = here.run(rounds=60)
    assert status.points_done == "256/256"
    assert len(status.to_json()) < 512 * 1024
