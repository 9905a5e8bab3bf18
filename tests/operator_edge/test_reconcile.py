# SPDX-License-Identifier: Apache-2.0
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
    assert written[4:6] == [("create", "configmaps"), ("patch", "gpubenchmarks")]  # the ledger, then the status
    assert set(written[6:]) == {("create", "events")}
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
    with pytest.raises(kube.Never, match="belongs to somebody else"):
        await world.look()
    assert [reason for reason, _ in world.events()] == ["NameTaken"]
    assert world.ledger() == {}


async def test_our_own_job_that_is_being_deleted_is_waited_for() -> None:
    rehearsal = World()
    await rehearsal.look()
    job = rehearsal.api.all(kube.JOBS)[0]
    world = World()
    body = {**job, "metadata": {**job["metadata"], "deletionTimestamp": observe.timestamp(NOW), "labels": {}}}
    world.api.put(kube.JOBS, body)
    with pytest.raises(kube.RetryLater, match="still being deleted"):
        await world.look()


async def test_two_studies_never_share_slots_and_the_one_in_line_is_woken_when_they_come_free() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    other = studies.benchmark(
        "other", sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [3], "batchPerWorker": [8]}]
    )
    world.api.put(kube.BENCHMARKS, other)
    other_key = keys.benchmark("default", "other")
    await world.look()
    await world.look(other_key)
    assert len(world.jobs_created()) == 1
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    world.woken.clear()
    await world.look()  # its Job has ended; the next repeat wants all slots again
    assert len(world.jobs_created()) == 2
    assert other_key in world.woken


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
    with pytest.raises(kube.Never):
        await world.look()
    assert ("JobRefused", "create jobs: exceeded quota: jobs") in world.events()
    assert world.ledger() == {}
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


async def test_a_deleted_study_gives_its_slots_back_only_when_its_jobs_are_gone() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    assert await world.look() is not None  # its Job is still there
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    await world.look(keys.benchmark("default", "other"))
    assert len(world.jobs_created()) == 1
    world.api.remove(kube.JOBS, name=world.jobs_created()[0], namespace="default")
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


async def test_an_operator_that_starts_anew_repeats_no_event() -> None:
    world = World()
    await world.look()
    before = world.events()
    world.start_operator()
    await world.look()
    assert world.events() == before
