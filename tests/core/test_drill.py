# SPDX-License-Identifier: Apache-2.0
"""Interruptions on purpose: when, which pod, how often, and that they are held against nobody."""

import random
from typing import Any

import pytest

import builders
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import AttemptCounts, FullStatus
from gpubench.scheduler import conditions, drill
from gpubench.scheduler.actions import Cordon
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome
from gpubench.scheduler.observed import Disruption, ObservedJob
from world import RUNNING_AFTER_SECONDS, Decision, World, world

EVERY = 5.0
STEP = 3.0  # an attempt takes ten seconds: it is looked at before and after it is due


def spec(*, times: int = 20, every: str = "5s", **fields: Any) -> GpuBenchmarkSpec:
    return builders.spec(drill={"every": every, "times": times}, **fields)


def drilled(*, times: int = 20, **fields: Any) -> World:
    a_spec = spec(times=times, **fields)
    return world(builders.study(a_spec), builders.plan(a_spec))


def finish(here: World, *, chance: random.Random | None = None) -> FullStatus:
    """To the end in short steps; with a chance, each decision is cut off after some of its writes, and made again."""
    for _ in range(2000):
        decision = here.decide()
        for written, _ in enumerate(here.writes(decision)):
            if chance is not None and written >= chance.randrange(6):
                break
        else:
            if conditions.holds(decision.status.conditions, conditions.FINISHED):
                return decision.status
            here.advance(STEP)
    raise AssertionError(f"did not finish: {here.status}")


def attempts(status: FullStatus) -> AttemptCounts:
    assert status.attempts is not None
    return status.attempts


def until_evicted(here: World) -> Decision:
    """The first decision that evicts a pod, not carried out."""
    for _ in range(20):
        decision = here.decide()
        if decision.disrupt:
            return decision
        for _ in here.writes(decision):
            pass
        here.advance(STEP)
    raise AssertionError("no pod was evicted")


# --- when -------------------------------------------------------------------------------------------------------------


def test_an_attempt_loses_a_pod_when_all_of_its_pods_have_run_for_so_long_and_the_operator_wakes_up_for_it() -> None:
    here = drilled()
    here.reconcile()
    decision = here.reconcile()
    due = builders.NOW + RUNNING_AFTER_SECONDS + EVERY
    assert decision.disrupt == ()
    assert decision.requeue_at == due
    here.now = due - 0.01
    assert here.decide().disrupt == ()
    here.now = due
    (eviction,) = here.decide().disrupt
    assert eviction.job.name == here.created[0]


def test_a_gang_that_is_not_complete_is_let_alone() -> None:
    here = drilled(sweep=[builders.block(workers=[2])])
    here.reconcile()
    (name,) = here.jobs
    first, second = here.jobs[name].pods
    waiting = second.model_copy(update={"running_at": None})
    here.jobs[name] = here.jobs[name].model_copy(update={"pods": (first, waiting)})
    here.now += 100
    assert here.decide().disrupt == ()


@pytest.mark.parametrize("field", ["complete", "deleting", "failing_since"])
def test_an_attempt_that_is_ending_is_let_alone(field: str) -> None:
    here = drilled()
    here.reconcile()
    here.now += EVERY + RUNNING_AFTER_SECONDS
    assert here.decide().disrupt
    (name,) = here.jobs
    here.jobs[name] = here.jobs[name].model_copy(update={field: here.now if field == "failing_since" else True})
    assert here.decide().disrupt == ()


def test_without_a_drill_nothing_is_evicted_and_a_suspended_study_is_only_suspended() -> None:
    here = world()
    here.reconcile()
    here.now += 100
    assert here.decide().disrupt == ()
    other = drilled()
    other.reconcile()
    other.now += EVERY + RUNNING_AFTER_SECONDS
    paused = other.study.spec.model_copy(update={"suspend": True})
    other.study = other.study.model_copy(update={"spec": paused})
    decision = other.decide()
    assert decision.disrupt == ()
    assert decision.delete


# --- which ------------------------------------------------------------------------------------------------------------


def gang(trial: str, *, nodes: int = 4, **fields: object) -> ObservedJob:
    pods = tuple(builders.observed_pod(index, name=f"{trial}-{index}") for index in range(nodes))
    return builders.observed_job(name=f"job-{trial}", trial=trial, pods=pods, **fields)


def chosen(*jobs: ObservedJob, seed: int = 0, times: int = 20, records: tuple[AttemptRecord, ...] = ()) -> list[str]:
    a_spec = spec(times=times, sweep=[builders.block(workers=[4])])
    (point,) = builders.plan(a_spec).points
    found, _ = drill.evictions(
        a_spec.drill,
        Ledger(records=records),
        jobs,
        points={job.trial: point for job in jobs},
        seed=seed,
        now=builders.NOW + 1000,
    )
    return [eviction.pod.name for eviction in found]


def test_the_pod_follows_from_seed_trial_and_attempt_and_is_now_this_one_now_that_one() -> None:
    jobs = [gang(f"t{number}") for number in range(40)]
    names = chosen(*jobs, times=500)
    assert names == chosen(*jobs, times=500)
    assert {name.split("-")[1] for name in names} == {"0", "1", "2", "3"}
    assert names != chosen(*jobs, times=500, seed=1)
    again = [job.model_copy(update={"attempt": 2}) for job in jobs]
    assert names != chosen(*again, times=500)
    # Written down, so that another version of gpubench chooses the same.
    assert chosen(gang("a"), gang("b"), gang("c")) == ["a-2", "b-1", "c-0"]


def test_a_pod_that_was_chosen_and_not_evicted_yet_stays_the_one() -> None:
    other = gang("t", drilled="t-1")
    assert chosen(gang("t")) != ["t-1"]
    assert chosen(other) == ["t-1"]
    assert chosen(other, times=1) == ["t-1"]


@pytest.mark.parametrize(
    "change",
    [{"deleting": True}, {"disruption": builders.disrupted()}, {"end": builders.ended(143)}],
    ids=["deleting", "disrupted", "ended"],
)
def test_a_pod_that_is_going_is_not_evicted_again(change: dict[str, object]) -> None:
    job = gang("t", drilled="t-1")
    pods = tuple(pod.model_copy(update=change) if pod.name == "t-1" else pod for pod in job.pods)
    assert chosen(job.model_copy(update={"pods": pods})) == []


@pytest.mark.parametrize(("asked", "seconds"), [({}, 60.0), ({"cordonFor": "2m"}, 120.0)])
def test_the_node_of_the_pod_is_cordoned_for_a_while_where_it_is_drained(asked: dict[str, str], seconds: float) -> None:
    a_spec = builders.spec(drill={"every": "5s", "kind": "Drain", **asked})
    here = world(builders.study(a_spec), builders.plan(a_spec))
    (eviction,) = until_evicted(here).disrupt
    assert eviction.cordon == Cordon(node="node-0", until=here.now + seconds)
    plain = until_evicted(drilled()).disrupt
    assert [eviction.cordon for eviction in plain] == [None]


# --- how often --------------------------------------------------------------------------------------------------------


def test_no_more_attempts_are_interrupted_than_times_says_those_under_way_counted() -> None:
    before = builders.attempt(attempt=1, outcome=Outcome.PREEMPTED, drilled="p")
    jobs = [gang("a"), gang("b"), gang("c", drilled="c-0")]
    assert len(chosen(*jobs, times=4, records=(before,))) == 3
    assert len(chosen(*jobs, times=3, records=(before,))) == 2
    assert chosen(*jobs, times=2, records=(before,)) == ["c-0"]
    natural = builders.attempt(attempt=1, outcome=Outcome.PREEMPTED)
    assert len(chosen(*jobs, times=3, records=(natural,))) == 3


def test_those_that_have_run_longest_come_first() -> None:
    late = gang("a")
    late = late.model_copy(
        update={"pods": tuple(pod.model_copy(update={"running_at": builders.NOW + 50}) for pod in late.pods)}
    )
    (name,) = chosen(late, gang("b"), times=1)
    assert name.startswith("b-")


def test_an_operator_that_has_used_up_all_times_sleeps_on() -> None:
    here = drilled(times=1)
    for _ in here.writes(until_evicted(here)):
        pass
    here.reconcile()  # the next attempt
    decision = here.reconcile()
    assert decision.requeue_at is not None
    assert decision.requeue_at > here.now + EVERY + RUNNING_AFTER_SECONDS


# --- what becomes of it -----------------------------------------------------------------------------------------------


def test_a_study_with_a_drill_ends_with_the_same_figures_and_counts_interruptions_apart() -> None:
    calm, here = world(), drilled(times=7, limits={"attempts": {"preempted": 0, "failed": 0}})
    undisturbed, status = calm.run(), finish(here)
    counts = attempts(status)
    assert (counts.drilled, counts.preempted, counts.failed, counts.succeeded) == (7, 0, 0, 6)
    assert counts.started == 13
    assert [point.values for point in status.results] == [point.values for point in undisturbed.results]
    assert len(here.evicted) == len(set(here.evicted)) == 7
    told = [happening for happening in here.told if happening.reason == "Drilled"]
    assert len(told) == 7
    assert all("was evicted on purpose" in happening.message for happening in told)
    assert not [happening for happening in here.told if happening.reason == "AttemptPreempted"]


def test_a_study_killed_between_any_two_writes_interrupts_the_same_pods_once_each() -> None:
    calm = drilled(times=7)
    undisturbed = attempts(finish(calm))
    for seed in range(10):
        here = drilled(times=7)
        assert attempts(finish(here, chance=random.Random(seed))) == undisturbed, seed
        assert here.evicted == calm.evicted, seed


def test_another_pod_that_was_disrupted_is_an_interruption_of_the_pools() -> None:
    here = drilled()
    decision = until_evicted(here)
    (eviction,) = decision.disrupt
    writes = here.writes(decision)
    while here.jobs[eviction.job.name].drilled is None:
        next(writes)
    job = here.jobs[eviction.job.name]  # chosen; and just then the node is reclaimed, the pod not evicted
    reclaimed = Disruption(reason="DeletionByTaintManager", message="the node is gone")
    pods = tuple(pod.model_copy(update={"disruption": reclaimed}) for pod in job.pods)
    here.jobs[job.name] = job.model_copy(update={"pods": pods})
    (record,) = [record for record in here.decide().record if record.outcome is not None]
    assert (record.outcome, record.drilled) == (Outcome.PREEMPTED, None)


def test_the_job_controllers_word_is_enough_where_the_pod_is_gone() -> None:
    said = "Pod default/t-1 has condition DisruptionTarget matching FailJob rule at index 0"
    gone = gang("t", drilled="t-1", failed=True, failed_reason="PodFailurePolicy", failed_message=said)
    pods = tuple(pod for pod in gone.pods if pod.name != "t-1")
    assert drill.struck(gone.model_copy(update={"pods": pods})) == "t-1"
    other = gone.model_copy(update={"pods": pods, "failed_message": said.replace("t-1", "t-2")})
    assert drill.struck(other) is None


def test_an_entry_without_a_drill_is_stored_as_before() -> None:
    assert "drilled" not in builders.attempt(outcome=Outcome.PREEMPTED).to_wire()
    record = builders.attempt(outcome=Outcome.PREEMPTED, drilled="pod")
    assert AttemptRecord.from_text(record.to_text()) == record
