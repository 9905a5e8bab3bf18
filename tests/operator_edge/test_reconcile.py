# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

import studies
from gpubench import names
from gpubench.scheduler import manifests
from gpubench_cluster import kube
from gpubench_operator import observe, queue
from memory_world import KEY, NOW, World, sweep


async def test_the_first_look_plans_serves_starts_and_tells() -> None:
    world = World(limits={"parallelTrials": 2})
    assert await world.look() == 2.0, "soon, although no event may tell what became of the Jobs"
    written = [(verb, resource) for verb, resource, _ in world.api.writes]
    needed = {"configmaps", "services", "secrets", "networkpolicies"}
    assert set(written[:4]) == {("create", resource) for resource in needed}
    assert written[4:6] == [("create", "jobs"), ("create", "jobs")]
    assert written[6] == ("create", "configmaps")  # the ledger
    assert set(written[7:-2]) == {("create", "events")}
    assert written[-2] == ("create", "configmaps")  # the analysis that the status refers to
    assert written[-1] == ("patch", "gpubenchmarks")  # the status, when everything in it has happened and is told
    assert {entry["attempt"] for entry in world.ledger().values()} == {1}


@pytest.mark.parametrize(("workers", "services"), [(1, 0), (2, 1)])
async def test_pod_0_of_a_gang_has_a_name_and_a_pod_without_others_needs_none(workers: int, services: int) -> None:
    world = World(sweep=sweep(workers))
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    found = world.api.all(kube.SERVICES)
    assert (job["spec"]["parallelism"], len(found)) == (workers, services)
    for service in found:
        of_gang = {**job["spec"]["template"]["metadata"]["labels"], "batch.kubernetes.io/job-completion-index": "0"}
        assert service["spec"]["selector"].items() <= of_gang.items()
        assert service["spec"]["selector"]["batch.kubernetes.io/job-completion-index"] == "0"


async def test_a_benchmark_that_came_while_somebody_watched_is_started_from_its_event() -> None:
    rehearsal, world = World(), World()
    await rehearsal.look()
    asked: list[str] = []
    get, listed = world.api.get, world.api.list

    async def counted_get(resource: kube.Resource, **where: Any) -> kube.Object | None:
        asked.append(resource.plural)
        return await get(resource, **where)

    async def counted_list(resource: kube.Resource, **where: Any) -> list[kube.Object]:
        asked.append(resource.plural)
        return await listed(resource, **where)

    world.api.get, world.api.list = counted_get, counted_list  # type: ignore[method-assign]
    (body,) = world.api.all(kube.BENCHMARKS)
    world.operator.created[KEY] = body
    await world.look()
    assert asked == ["gpupools", "configmaps"], "and whether somebody has the name of its ledger"
    assert [what[:2] for what in world.api.writes] == [what[:2] for what in rehearsal.api.writes]
    world.operator.created[KEY] = body  # an event that comes late
    await world.look()
    assert "gpubenchmarks" in asked
    assert len(world.jobs_created()) == 1


async def test_a_benchmark_that_somebody_else_has_planned_is_read_before_anything_is_done() -> None:
    world = World()
    await world.look()
    (body,) = world.api.all(kube.BENCHMARKS)
    before, jobs = world.ledger(), world.jobs_created()
    world.start_operator()
    world.operator.created[KEY] = {**body, "status": {}}
    with pytest.raises(kube.TemporaryError, match="planned meanwhile"):
        await world.look()
    await world.look()
    assert (world.ledger(), world.jobs_created()) == (before, jobs)


@pytest.mark.parametrize("change", ["another text", "no ConfigMap"])
async def test_an_analysis_that_somebody_changed_is_written_again(change: str) -> None:
    world = World()
    await world.look()
    (stored,) = (body for body in world.api.all(kube.CONFIG_MAPS) if "-analysis-" in kube.name_of(body))
    if change == "another text":
        world.api.put(kube.CONFIG_MAPS, {**stored, "data": {"analysis.json": "{}"}})
    else:
        world.api.remove(kube.CONFIG_MAPS, name=kube.name_of(stored), namespace="default")
    world.clock.now += 5
    await world.look()
    assert world.status()["results"], "whose hash is that in the status"


async def test_a_look_without_news_writes_nothing() -> None:
    world = World()
    await world.look()
    await world.look()  # the status counts the attempt now
    world.clock.now += 5
    await world.look()
    before = len(world.api.writes)
    await world.look()
    assert len(world.api.writes) == before


async def test_a_large_gang_is_served_when_the_small_ones_under_way_have_ended() -> None:
    world = World(repeats=10, sweep=sweep(2))
    world.api.put(kube.BENCHMARKS, studies.benchmark("large", repeats=3, sweep=sweep(4)))
    large = queue.benchmark_key("default", "large")
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


async def test_who_stands_far_behind_in_a_long_line_looks_rarely_so_that_those_that_run_are_served() -> None:
    world = World(repeats=10, sweep=sweep(2))
    world.api.put(kube.BENCHMARKS, studies.benchmark("large", repeats=3, sweep=sweep(4)))
    large = queue.benchmark_key("default", "large")
    await world.look()
    (pool,) = world.operator.slots.held()
    for number in range(1999):
        key = queue.benchmark_key("default", f"other-{number}")
        world.operator.slots.wait(key, f"another-{number}", slots={pool: 1})
    await world.look(large)
    assert await world.look(large) == 500
    for number in range(1980):
        world.operator.slots.leave(queue.benchmark_key("default", f"other-{number}"))
    assert await world.look(large) == 5


LONG = {"repeats": {"min": 1}, "warmUp": "1s", "duration": "30m"}


@pytest.mark.parametrize(
    ("namespace", "measure", "starts"),
    [("default", {}, True), ("default", LONG | {"duration": "31m"}, False), ("other", LONG, True)],
)
async def test_who_waits_for_a_whole_pool_holds_up_neither_what_ends_before_nor_other_namespaces(
    namespace: str, measure: dict[str, Any], starts: bool
) -> None:
    world = World(sweep=sweep(1), measure=LONG)
    keys = queue.benchmark_key("default", "whole"), queue.benchmark_key(namespace, "small")
    world.api.put(kube.BENCHMARKS, studies.benchmark("whole", repeats=1, sweep=sweep(4)))
    own: dict[str, Any] = {"measure": measure} if measure else {}
    small = studies.benchmark("small", namespace=namespace, sweep=sweep(1), **own)
    world.api.put(kube.BENCHMARKS, small)
    for key in (KEY, *keys):
        await world.look(key)
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick"] + ["small"] * starts


@pytest.mark.parametrize("fate", ["deleted", "suspended", "unreadable"])
async def test_a_study_that_waits_no_more_is_in_nobodys_way(fate: str) -> None:
    world = World(repeats=10, sweep=sweep(2))
    large = queue.benchmark_key("default", "large")
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


async def test_a_job_that_names_no_benchmark_keeps_no_operator_from_beginning() -> None:
    world = World()
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
    world.api.put(kube.JOBS, {"metadata": {"name": "forged", "namespace": "default", "labels": labels}, "spec": {}})
    await world.operator.rebuild()
    assert world.woken == [queue.benchmark_key("default", "")]
    assert await world.look(*world.woken) is None
    await world.look()
    assert len(world.jobs_created()) == 1


@pytest.mark.parametrize("digits", ["²", "9" * 5000])
async def test_an_index_that_is_no_number_keeps_no_operator_from_beginning(digits: str) -> None:
    world = World(repeats=1)
    await world.look()
    world.progress()
    for pod in world.api.all(kube.PODS):
        labels = {key: text for key, text in pod["metadata"]["labels"].items() if key != names.LABEL_POD_INDEX}
        annotated = {"labels": labels, "annotations": {names.LABEL_POD_INDEX: digits}}
        world.api.put(kube.PODS, {**pod, "metadata": {**pod["metadata"], **annotated}})
    world.start_operator()
    await world.operator.rebuild()
    await world.finish()
    assert world.status()["attempts"]["failed"] == 0


async def test_slots_are_held_again_after_a_restart() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    world.start_operator()
    await world.operator.rebuild()
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1


async def test_a_job_that_quota_refuses_is_told_and_tried_again_without_counting() -> None:
    world = World()
    world.api.refusals["jobs"] = kube.Forbidden("create jobs: exceeded quota: jobs")
    assert await world.look() == 30
    assert "create jobs: exceeded quota: jobs" in dict(world.events())["WritesRefused"]
    assert world.ledger() == {}
    assert world.condition("WritesRefused")["reason"] == "WriteRefused"
    assert "AttemptStarted" not in dict(world.events())
    world.clock.now += 30
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_why_a_job_has_no_pods_is_asked_after_a_while_only() -> None:
    world = World()
    await world.look()
    job = world.api.all(kube.JOBS)[0]
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Job", "uid": kube.uid_of(job)},
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


WORKLOADS = kube.Resource("kueue.x-k8s.io/v1beta2", "workloads")


def in_queue(world: World, *, name: str) -> dict[str, Any]:
    """The Workload of the only Job, as Kueue names it or not."""
    (job,) = world.api.all(kube.JOBS)
    metadata = {"name": name, "namespace": "default", "ownerReferences": [{"uid": kube.uid_of(job)}]}
    return {"metadata": metadata, "spec": {"active": True}}


async def test_the_workload_of_a_job_is_found_by_its_owner_and_read_anew_each_time() -> None:
    world = World(queueName="team-a")
    world.api.groups.add("kueue.x-k8s.io")
    await world.look()
    assert world.operator.slots.held() == {}, "the quota of its queue counts"
    world.clock.now += 60
    await world.look()
    assert world.condition("Admitted")["reason"] == "WorkloadMissing"
    body = in_queue(world, name="any-name")
    for message in ("no quota", "still none"):
        reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
        world.api.put(WORKLOADS, {**body, "status": {"conditions": [reserved]}})
        world.clock.now += 10
        await world.look()
        assert world.condition("Admitted")["message"].endswith(f"waits in queue team-a: {message}")
    world.api.remove(WORKLOADS, name="any-name", namespace="default")
    world.api.put(WORKLOADS, {**in_queue(world, name="another"), "spec": {"active": False}})
    for _ in range(2):  # the first finds that the other one is gone
        await world.look()
    assert world.condition("Admitted")["reason"] == "Deactivated"


@pytest.mark.parametrize(
    "refusal",
    [
        kube.Forbidden('list workloads: User "gpubench" cannot list resource "workloads"'),
        kube.TemporaryError("list workloads: conversion webhook for kueue.x-k8s.io/v1beta1 failed (code 500)"),
    ],
)
async def test_where_workloads_cannot_be_read_kueues_events_say_why_a_job_waits(
    refusal: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(queueName="team-a")
    world.api.groups.add("kueue.x-k8s.io")
    world.api.unreadable["workloads"] = refusal
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    about = {"kind": "Workload", "name": f"job-{kube.name_of(job)}-1a2b3"}
    event: dict[str, Any] = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about}
    event |= {"reason": "ExceedsMaxQuota", "message": "no quota", "lastTimestamp": observe.timestamp(NOW)}
    world.api.put(kube.EVENTS, event)
    world.clock.now += 60
    await world.look()
    assert world.condition("Admitted")["reason"] == "WaitingForQueue"
    assert world.condition("Admitted")["message"].endswith("waits in queue team-a: no quota")
    world.clock.now += 10
    await world.look()

    def told() -> list[str]:
        unread = [record.__dict__ for record in caplog.records if record.message == "workloads not read"]
        assert {(one["namespace"], one["error"]) for one in unread} == {("default", str(refusal))}
        return [one["error"] for one in unread]

    assert len(told()) == 1, "not at each look"
    world.api.unreadable.clear()
    await world.look()
    world.api.unreadable["workloads"] = refusal
    await world.look()
    assert len(told()) == 2, "it could be read in between"


async def test_a_launch_that_karpenter_gives_up_is_a_stock_out_until_a_later_one_lasts() -> None:
    """Events as kubernetes-sigs/karpenter v1.14.1 wrote them beside the operator (`make e2e-karpenter`)."""
    world = World()
    await world.look()
    world.progress()  # pods
    (pod,) = world.api.all(kube.PODS)
    unplaced = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 full"}]
    }
    world.api.put(kube.PODS, {**pod, "spec": {}, "status": {"phase": "Pending", **unplaced}})

    def tell(reason: str, message: str, *, kind: str = "Pod", about: str = kube.name_of(pod)) -> None:
        metadata = {"name": f"{about}.{world.clock.now}", "namespace": "default"}
        event: dict[str, Any] = {"metadata": metadata, "reason": reason, "message": message}
        event |= {"involvedObject": {"kind": kind, "name": about}, "source": {"component": "karpenter"}}
        world.api.put(kube.EVENTS, event | {"lastTimestamp": observe.timestamp(world.clock.now)})

    async def reason() -> str:
        world.clock.now += 15
        await world.look()
        return str(world.condition("GangPending")["reason"])

    def nominate(claim: str) -> None:
        tell("Nominated", f"Pod should schedule on: nodeclaim/{claim}, node/{claim}")

    nominate("g5-8zhz7")
    assert await reason() == "NodeComing"
    error = "creating instance, insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: We currently"
    failed = f"NodeClaim g5-8zhz7 event: insufficient capacity, {error} do not have sufficient g5.2xlarge capacity"
    for claim in ("g5-8zhz7", "another"):
        tell("InsufficientCapacityError", failed, kind="NodeClaim", about=claim)
    assert await reason() == "StockOut"
    assert f"karpenter: {failed}; it is asked again" in world.condition("GangPending")["message"]
    limit = "all available instance types exceed limits for nodepool (NodePool=another)"
    tell("FailedScheduling", f"Failed to schedule pod, {limit}")
    assert await reason() == "StockOut", "of its own NodePool Karpenter says nothing while stock is out"
    nominate("g5-2xgcw")
    assert await reason() == "StockOut", "it is not known yet whether this one is launched"
    world.clock.now += 60
    assert await reason() == "NodeComing"


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
    for seconds in (0, 14):
        world.clock.now = NOW + seconds
        wait = await world.look()
        assert wait is not None
        assert wait <= 15 - seconds, "then it is asked"
        assert "not found" not in world.condition("GangPending").get("message", "")
    world.clock.now = NOW + 500
    await world.look()
    pending = [one for one in world.status()["conditions"] if one["type"] == "GangPending"]
    assert any('configmap "model" not found' in one["message"] for one in pending) is is_told


async def test_a_deleted_study_gives_its_slots_back_only_when_its_jobs_are_gone() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    assert await world.look() is not None  # its Job is still there
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1
    world.progress()  # pods
    world.api.remove(kube.JOBS, name=world.jobs_created()[0], namespace="default")
    assert await world.look() is not None  # the garbage collector takes Jobs first, and pods run on for a while
    world.start_operator()
    await world.operator.rebuild()
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    assert await world.look() is None
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 2
    assert KEY not in world.series.keys()  # noqa: SIM118  # no mapping


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_finished_benchmark_is_deleted_when_its_time_to_live_is_over(is_restarted: bool) -> None:
    world = World(repeats=1, ttlSecondsAfterFinished=600)
    await world.finish()
    if is_restarted:
        world.start_operator()
    ended_at = observe.seconds(world.status()["completionTime"]) or 0.0
    for _ in range(2):
        assert await world.look() == pytest.approx(ended_at + 600 - world.clock.now)
    world.clock.now = ended_at + 599
    await world.look()
    assert "delete" not in {verb for verb, resource, _ in world.api.writes if resource == "gpubenchmarks"}
    world.clock.now += 1
    await world.look()
    assert ("delete", "gpubenchmarks", "quick") in world.api.writes


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
    world.api.refusals["events"] = kube.TemporaryError("too many requests")
    await world.look()
    assert len(world.events()) == len(calm.events()) - 1
    assert world.status() == calm.status()
    await world.look()
    assert set(world.events()) == set(calm.events())


async def test_where_a_gang_runs_is_written_down_once_and_stays_known_when_its_node_is_gone() -> None:
    world = World(repeats=1)
    await world.look()
    world.progress()  # its pods run
    await world.look()
    ((key, entry),) = world.ledger().items()
    assert (entry["nodes"], entry["instanceTypes"]) == (sorted(entry["nodes"]), ["large"])
    world.clock.now += 5
    await world.look()  # the status was too new a moment ago
    written = len(world.api.writes)
    await world.look()
    assert len(world.api.writes) == written
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    for name in entry["nodes"]:
        world.api.remove(kube.NODES, name=name)
    world.clock.now += 5
    await world.look()
    ended = world.ledger()[key]
    assert (ended["outcome"], ended["reason"], ended["interruption"]) == ("Preempted", "NodeLost", "NodeLost")
    assert (ended["nodes"], ended["instanceTypes"]) == (entry["nodes"], entry["instanceTypes"])
    assert "AttemptPreempted" in {reason for reason, _ in world.events()}
    assert world.status()["attempts"]["interruptions"]["nodesLost"] == 1


async def test_what_no_reconcile_gets_over_is_said_from_the_third_time_on_and_no_longer_when_it_is_over() -> None:
    world = World()
    await world.look()
    before = world.condition("Progressing")
    for times in range(1, 4):
        world.api.unreadable["jobs"] = KeyError("spec")
        with pytest.raises(KeyError):
            await world.look()
        said = world.condition("Progressing")
        assert said == before if times < 3 else "KeyError: 'spec'" in said["message"]
    assert any("KeyError" in message for reason, message in world.events() if reason == "Stuck")
    world.api.unreadable.clear()
    world.clock.now += 5
    await world.look()
    assert world.condition("Progressing")["status"] == "True"


async def test_a_spec_that_cannot_be_read_any_more_takes_nothing_of_what_was_said() -> None:
    world = World(repeats=1)
    await world.finish()
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "spec": {**body["spec"], "later": 1}})
    await world.look()
    (after,) = world.api.all(kube.BENCHMARKS)
    assert "cannot read the object: later" in after["status"]["message"]
    assert (after["status"]["phase"], after["status"]["results"]) == ("Succeeded", body["status"]["results"])


@pytest.mark.parametrize(("team", "starts"), [("a", True), ("b", False), (None, False)])
async def test_a_pool_for_namespaces_with_a_label_asks_for_those_of_the_benchmarks_own(
    team: str | None, starts: bool
) -> None:
    world = World()
    world.api.put(kube.POOLS, studies.pool(allowedNamespaces={"matchLabels": {"team": "a"}}))
    world.api.put(kube.NAMESPACES, {"metadata": {"name": "theirs", "labels": {"team": "a"}}})
    if team is not None:
        world.api.put(kube.NAMESPACES, {"metadata": {"name": "default", "labels": {"team": team}}})
    await world.look()
    assert bool(world.jobs_created()) is starts


async def test_a_pool_that_is_there_and_cannot_be_read_is_not_called_absent() -> None:
    world = World()
    world.api.put(kube.POOLS, {**studies.pool(), "spec": {**studies.pool()["spec"], "racks": 4}})
    await world.look()
    assert "waiting for GpuPool pretend, which cannot be read" in world.condition("Progressing")["message"]


async def test_events_that_were_not_taken_are_written_within_seconds() -> None:
    world = World(repeats=1)
    create = world.api.create

    async def refusing(resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        if resource == kube.EVENTS:
            raise kube.TemporaryError("away")
        return await create(resource, body)

    world.api.create = refusing  # type: ignore[method-assign]
    await world.finish()
    world.clock.now += 60.0
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "metadata": body["metadata"] | {"generation": 2}})
    assert await world.look() == 5.0
    world.api.create = create  # type: ignore[method-assign]
    assert await world.look() is None
    assert ("Finished", world.condition("Finished")["message"]) in world.events()


async def test_a_ledger_that_cannot_be_read_when_the_operator_begins_is_logged_with_its_benchmark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await world.look()
    for body in world.api.all(kube.CONFIG_MAPS):
        if body["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER:
            world.api.put(kube.CONFIG_MAPS, {**body, "data": {"trial.1": "{"}})
    world.start_operator()
    await world.operator.rebuild()
    (said,) = (one.__dict__ for one in caplog.records if one.message == "plan or ledger not read")
    assert (said["benchmark"], "trial.1" in said["error"]) == (str(KEY), True)


async def test_a_job_that_is_created_is_logged_with_all_that_finds_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    await world.look()
    (said,) = (one.__dict__ for one in caplog.records if one.message == "job created")
    (entry,) = world.ledger().values()
    expected = {
        "namespace": "default",
        "benchmark": "quick",
        "trial": entry["trial"],
        "attempt": 1,
        "job": entry["job"],
    }
    expected |= {"pool": "pretend", "nodes": 1}
    assert {name: said[name] for name in expected} == expected


async def test_a_benchmark_that_could_not_be_read_from_the_start_is_pending_and_says_so() -> None:
    world = World()
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "spec": {**body["spec"], "later": 1}})
    await world.look()
    (after,) = world.api.all(kube.BENCHMARKS)
    assert (after["status"]["phase"], after["status"]["results"]) == ("Pending", [])
    assert "cannot read the object: later" in after["status"]["message"]


@pytest.mark.parametrize(
    ("left", "woken", "held"),
    [
        ("nothing", [], {}),
        ("a Job without a time to live", [KEY], {}),
        ("a Job that runs", [KEY], {"pretend": 1}),
        ("a pod that runs", [KEY], {"pretend": 1}),
    ],
)
async def test_what_has_ended_is_nothing_to_an_operator_that_begins_unless_something_of_it_is_left(
    left: str, woken: list[queue.Key], held: dict[str, int]
) -> None:
    world = World(repeats=1)
    await world.finish()
    job, pod = world.api.all(kube.JOBS)[0], world.api.all(kube.PODS)[0]
    if left == "a Job without a time to live":
        world.api.put(kube.JOBS, {**job, "spec": {**job["spec"], "ttlSecondsAfterFinished": manifests.UNREAD_SECONDS}})
    elif left == "a Job that runs":  # somebody has begun a finished one anew
        world.api.put(kube.JOBS, {**job, "status": {"active": 1}})
        world.api.put(kube.PODS, {**pod, "status": {"phase": "Running"}})
    elif left == "a pod that runs":
        world.api.put(kube.PODS, {**pod, "status": {"phase": "Running"}})
    world.start_operator()
    world.woken.clear()
    await world.operator.rebuild()
    assert (world.woken, world.operator.slots.held()) == (woken, held)


async def test_objects_of_others_are_nothing_to_an_operator_that_begins() -> None:
    world = World()
    await world.look()
    for resource in (kube.JOBS, kube.PODS):
        world.api.put(resource, {"metadata": {"name": "theirs", "namespace": "default"}, "spec": {}, "status": {}})
    world.start_operator()
    await world.operator.rebuild()
    assert world.operator.slots.held() == {"pretend": 1}
