# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

import studies
from gpubench import names
from gpubench_operator import keys, kube, observe
from memory_world import KEY, NOW, World


async def test_the_first_look_plans_serves_starts_and_tells() -> None:
    world = World(limits={"parallelTrials": 2})
    await world.look()
    written = [(verb, resource) for verb, resource, _ in world.api.writes]
    assert set(written[:2]) == {("create", "configmaps"), ("create", "services")}
    assert written[2:4] == [("create", "jobs"), ("create", "jobs")]
    assert written[4] == ("create", "configmaps")  # the ledger
    assert set(written[5:-1]) == {("create", "events")}
    assert written[-1] == ("patch", "gpubenchmarks")  # the status, when everything in it has happened and is told
    assert {entry["attempt"] for entry in world.ledger().values()} == {1}


async def test_a_look_without_news_writes_nothing() -> None:
    world = World()
    await world.look()
    await world.look()  # the status counts the attempt now
    world.clock.now += 5
    await world.look()
    before = len(world.api.writes)
    await world.look()
    assert len(world.api.writes) == before


async def test_a_job_of_the_same_name_that_is_not_ours_is_a_warning_and_never_adopted() -> None:
    rehearsal = World()
    await rehearsal.look()
    name = rehearsal.jobs_created()[0]
    world = World()
    world.api.put(kube.JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})
    assert await world.look() is not None
    assert {"NameTaken", "GangPending"} <= {reason for reason, _ in world.events()}
    assert "belongs to somebody else" in world.condition("GangPending")["message"]
    assert world.ledger() == {}
    world.api.remove(kube.JOBS, name=name, namespace="default")
    await world.look()
    assert world.jobs_created() == [name]


async def test_a_gang_that_is_refused_does_not_stop_those_behind_it() -> None:
    rehearsal = World(limits={"parallelTrials": 3})
    await rehearsal.look()
    first, *others = rehearsal.jobs_created()
    world = World(limits={"parallelTrials": 3})
    world.api.put(kube.JOBS, {"metadata": {"name": first, "namespace": "default"}, "spec": {}})
    await world.look()
    assert world.jobs_created() == others
    assert len(world.ledger()) == 2
    assert world.condition("GangPending")["reason"] == "CreationRefused"
    assert [reason for reason, _ in world.events()].count("AttemptStarted") == 2
    slots = [int(job["metadata"]["labels"][names.LABEL_SLOTS]) for job in rehearsal.api.all(kube.JOBS)[1:]]
    assert world.operator._slots.held() == {"pretend": sum(slots)}


async def test_what_cannot_be_created_at_all_is_a_condition_and_tried_again() -> None:
    world = World()
    world.api.refusals["configmaps"] = kube.Never("create configmaps: Too long: must have at most 1048576", code=422)
    assert await world.look() == 60
    assert world.condition("Progressing")["status"] == "False"
    assert "Too long" in world.condition("Progressing")["message"]
    assert [reason for reason, _ in world.events()] == ["Stuck"]
    await world.look()
    assert world.condition("Progressing")["status"] == "True"
    assert len(world.jobs_created()) == 1


async def test_a_service_that_is_refused_is_said_and_no_job_is_started_without_it() -> None:
    world = World()
    world.api.refusals["services"] = kube.Never("create services: exceeded quota: services", code=403)
    assert await world.look() == 30
    assert "exceeded quota" in world.condition("GangPending")["message"]
    assert world.jobs_created() == []
    assert world.operator._slots.held() == {}
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_a_service_that_somebody_deleted_is_there_again_before_the_next_gang() -> None:
    world = World(repeats=2)
    await world.look()
    (service,) = world.api.all(kube.SERVICES)
    world.api.remove(kube.SERVICES, name=kube.name_of(service), namespace="default")
    await world.finish()
    assert len(world.api.all(kube.SERVICES)) == 1


async def test_our_own_job_that_is_being_deleted_is_waited_for() -> None:
    rehearsal = World()
    await rehearsal.look()
    job = rehearsal.api.all(kube.JOBS)[0]
    world = World()
    body = {**job, "metadata": {**job["metadata"], "deletionTimestamp": observe.timestamp(NOW), "labels": {}}}
    world.api.put(kube.JOBS, body)
    with pytest.raises(kube.RetryLater, match="still being deleted"):
        await world.look()


def sweep(*workers: int) -> list[dict[str, Any]]:
    return [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [*workers], "batchPerWorker": [8]}]


async def test_a_large_gang_is_served_when_the_small_ones_under_way_have_ended() -> None:
    world = World(repeats=10, sweep=sweep(2))
    world.api.put(kube.BENCHMARKS, studies.benchmark("large", repeats=3, sweep=sweep(4)))
    large = keys.benchmark("default", "large")
    await world.look()
    await world.look(large)  # two of four nodes are taken: it stands in line
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick"]
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    world.woken.clear()
    await world.look()  # its Job has ended; it may not take the nodes again
    assert len(world.jobs_created()) == 1
    assert world.woken == [large]
    await world.look(large)
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick", "large"]
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    await world.look(large)  # now it is the other one's turn
    assert world.woken[-1] == KEY
    await world.look()
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick", "large", "quick"]


@pytest.mark.parametrize("fate", ["deleted", "suspended", "unreadable"])
async def test_a_study_that_waits_no_more_is_in_nobodys_way(fate: str) -> None:
    world = World(repeats=10, sweep=sweep(2))
    large = keys.benchmark("default", "large")
    stored = world.api.put(kube.BENCHMARKS, studies.benchmark("large", sweep=sweep(4)))
    await world.look()
    await world.look(large)
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    await world.look()
    assert len(world.jobs_created()) == 1
    if fate == "deleted":
        world.api.remove(kube.BENCHMARKS, name="large", namespace="default")
    else:
        spec = {**stored["spec"], "suspend": True} if fate == "suspended" else {}
        world.api.put(kube.BENCHMARKS, {**stored, "spec": spec})
    world.woken.clear()
    await world.look(large)
    assert world.woken == [KEY]
    await world.look()
    assert len(world.jobs_created()) == 2


async def test_slots_are_held_again_after_a_restart() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    world.start_operator()
    await world.operator.rebuild()
    await world.look(keys.benchmark("default", "other"))
    assert len(world.jobs_created()) == 1


async def test_a_job_that_quota_refuses_is_told_and_tried_again_without_counting() -> None:
    world = World()
    world.api.refusals["jobs"] = kube.Never("create jobs: exceeded quota: jobs", code=403)
    assert await world.look() == 30
    assert ("JobRefused", "create jobs: exceeded quota: jobs") in world.events()
    assert world.ledger() == {}
    assert world.condition("GangPending")["reason"] == "CreationRefused"
    assert "AttemptStarted" not in dict(world.events())
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_a_job_that_is_invalid_counts_as_a_failed_attempt() -> None:
    world = World()
    world.api.refusals["jobs"] = kube.Never("create jobs: spec.x: Invalid value", code=422)
    await world.look()
    assert [entry["reason"] for entry in world.ledger().values()] == ["CreationRefused"]


async def test_why_a_job_has_no_pods_is_asked_after_a_while_only() -> None:
    world = World()
    await world.look()
    job = world.api.all(kube.JOBS)[0]
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"uid": kube.uid_of(job)},
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: exceeded quota',
        "lastTimestamp": observe.timestamp(NOW),
    }
    world.api.put(kube.EVENTS, event)
    assert await world.look() is not None
    world.clock.now += 12
    await world.look()
    pending = [one for one in world.status()["conditions"] if one["type"] == "GangPending"]
    assert "exceeded quota" in pending[0]["message"]


@pytest.mark.parametrize(("seconds_ago", "is_told"), [(20, True), (400, False)])
async def test_why_a_pod_has_no_volume_is_asked_after_a_while_only(seconds_ago: int, is_told: bool) -> None:
    world = World()
    await world.look()
    world.progress()  # pods
    (pod,) = world.api.all(kube.PODS)
    waiting = [{"name": names.CONTAINER, "state": {"waiting": {"reason": "ContainerCreating"}}}]
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": observe.timestamp(NOW)}]
    world.api.put(
        kube.PODS,
        {**pod, "status": {"phase": "Pending", "conditions": scheduled, "containerStatuses": waiting}},
    )
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": kube.name_of(pod)},
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "model" : configmap "model" not found',
        "lastTimestamp": observe.timestamp(NOW + 500 - seconds_ago),
    }
    world.api.put(kube.EVENTS, event)
    assert await world.look() is not None
    world.clock.now += 500
    await world.look()
    pending = [one for one in world.status()["conditions"] if one["type"] == "GangPending"]
    assert any('configmap "model" not found' in one["message"] for one in pending) is is_told


async def test_a_deleted_study_gives_its_slots_back_only_when_its_jobs_are_gone() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    assert await world.look() is not None  # its Job is still there
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    await world.look(keys.benchmark("default", "other"))
    assert len(world.jobs_created()) == 1
    world.progress()  # pods
    world.api.remove(kube.JOBS, name=world.jobs_created()[0], namespace="default")
    assert await world.look() is not None  # the garbage collector takes Jobs first, and pods run on for a while
    world.start_operator()
    await world.operator.rebuild()
    await world.look(keys.benchmark("default", "other"))
    assert len(world.jobs_created()) == 1
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    assert await world.look() is None
    await world.look(keys.benchmark("default", "other"))
    assert len(world.jobs_created()) == 2
    assert KEY not in world.figures.studies()


async def test_nothing_of_a_deleted_study_is_taken_for_one_of_the_same_name() -> None:
    world = World()
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    world.api.put(kube.BENCHMARKS, studies.benchmark())
    await world.look()
    assert len(set(world.jobs_created())) == 2
    uids = {job["metadata"]["labels"][names.LABEL_BENCHMARK_UID] for job in world.api.all(kube.JOBS)}
    assert len(uids) == 2
    assert world.status()["trials"]["total"] == 6


async def test_an_object_that_cannot_be_read_is_an_event_and_no_crash() -> None:
    world = World(sweep=[])
    assert await world.look() is None
    assert [reason for reason, _ in world.events()] == ["InvalidSpec"]
    assert world.condition("Progressing")["reason"] == "InvalidSpec"


async def test_an_operator_that_starts_anew_repeats_no_event() -> None:
    world = World()
    await world.look()
    before = world.events()
    world.start_operator()
    await world.look()
    assert world.events() == before


async def test_an_event_that_could_not_be_written_is_told_later_and_stops_nothing() -> None:
    calm = World()
    await calm.look()
    world = World()
    world.api.refusals["events"] = kube.RetryLater("too many requests")
    await world.look()
    assert len(world.events()) == len(calm.events()) - 1
    assert world.status() == calm.status()
    await world.look()
    assert set(world.events()) == set(calm.events())
