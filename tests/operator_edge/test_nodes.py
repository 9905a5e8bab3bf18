# SPDX-License-Identifier: Apache-2.0
"""Where a pod ran is known from the labels of its node, also when the node is gone again."""

import asyncio
from typing import Any

import pytest

import builders
import memory_kube
from gpubench import names
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.scheduler import outcome
from gpubench.scheduler.ledger import Machine, NewNode, NewNodes
from gpubench.scheduler.observed import ObservedJob, ObservedNode, SeenNode
from gpubench_cluster import kube
from gpubench_operator import observe, queue
from memory_world import NOW, Clock, Placement, World


def node(name: str, instance_type: str | None = "p3.2xlarge", zone: str | None = "a") -> kube.Object:
    labels = {names.LABEL_INSTANCE_TYPE: instance_type, names.LABEL_ZONE: zone}
    return {"metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}}}


def job_on(*names_of_nodes: str | None) -> ObservedJob:
    pods = tuple(builders.observed_pod(index, node=name) for index, name in enumerate(names_of_nodes))
    return builders.observed_job(pods=pods)


def cluster(*bodies: kube.Object) -> tuple[memory_kube.MemoryKube, observe.NodeStates, Clock]:
    clock = Clock()
    api = memory_kube.MemoryKube(clock)
    for body in bodies:
        api.put(kube.NODES, body)
    return api, observe.NodeStates(api, clock=clock), clock


async def test_the_nodes_of_a_gang_are_looked_up_and_no_others() -> None:
    _, tested, _ = cluster(node("one"), node("two", None, None), node("three"))
    found = await tested.of_jobs([job_on("two", "one", None)])
    machine = Machine(accelerator="V100-16GB")  # https://aws.amazon.com/ec2/instance-types/p3/
    one = ObservedNode(name="one", instance_type="p3.2xlarge", zone="a", machine=machine, created_at=NOW)
    assert found == (one, ObservedNode(name="two", created_at=NOW))


@pytest.mark.parametrize(
    ("labels", "block", "rack"),
    [
        ({"cloud.google.com/gce-topology-block": "b", "cloud.google.com/gce-topology-subblock": "r"}, "b", "r"),
        ({f"topology.k8s.aws/network-node-layer-{n}": f"nn-{n}" for n in (1, 2, 3)}, "nn-2", "nn-3"),
        ({f"oci.oraclecloud.com/rdma.{one}_block_id": one for one in ("local", "network")}, "network", "local"),
        ({"topology.nebius.com/tier-1": "r", "topology.nebius.com/tier-2": "b"}, "b", "r"),
        ({"node.coreweave.cloud/rack": "7", "ib.coreweave.cloud/leafgroup": "3"}, "3", "7"),
        ({"node.coreweave.cloud/rack": "7", "backend.coreweave.cloud/leafgroup": "3"}, "3", "7"),
        ({"network.topology.nvidia.com/leaf": "s1", "network.topology.nvidia.com/spine": "s2"}, "s2", "s1"),
        ({"fabric.topograph.run/tier-0": "s1", "fabric.topograph.run/tier-1": "s2"}, "s2", "s1"),
        ({"fabric.topograph.run/tier-0": "s1"}, None, "s1"),
        ({}, None, None),
    ],
)
def test_rack_and_block_are_those_of_the_providers_labels(
    labels: dict[str, str], block: str | None, rack: str | None
) -> None:
    found = observe.node({"metadata": {"name": "one", "labels": {names.LABEL_ZONE: "a", **labels}}})
    assert (found.zone, found.block, found.rack) == ("a", block, rack)


async def test_a_node_that_is_gone_is_remembered() -> None:
    api, tested, _ = cluster(node("spot"))
    await tested.of_jobs([job_on("spot")])
    api.remove(kube.NODES, name="spot")
    assert [one.instance_type for one in await tested.of_jobs([job_on("spot")])] == ["p3.2xlarge"]


async def test_a_node_that_nobody_knows_is_not_asked_for_at_every_look() -> None:
    api, tested, clock = cluster()
    assert await tested.of_jobs([job_on("late")]) == ()
    api.put(kube.NODES, node("late"))
    assert await tested.of_jobs([job_on("late")]) == ()
    clock.now += 10
    assert len(await tested.of_jobs([job_on("late")])) == 1


async def test_what_the_poll_of_the_pools_has_seen_is_not_asked_for_again() -> None:
    api, tested, _ = cluster()
    tested.note([node("polled")])
    api.failures.append(AssertionError("nothing is to be asked"))
    assert len(await tested.of_jobs([job_on("polled")])) == 1


async def test_a_cluster_that_does_not_answer_is_asked_again_at_the_next_look() -> None:
    api, tested, _ = cluster(node("one"))
    api.failures.append(kube.TemporaryError("list nodes: no answer"))
    with pytest.raises(kube.TemporaryError):
        await tested.of_jobs([job_on("one")])
    assert len(await tested.of_jobs([job_on("one")])) == 1


async def test_a_cluster_that_keeps_its_nodes_to_itself_leaves_them_unknown() -> None:
    api, tested, _ = cluster(node("one"))
    api.failures.append(kube.Forbidden("list nodes: forbidden"))
    assert await tested.of_jobs([job_on("one")]) == ()


async def test_studies_that_look_at_the_same_time_get_the_same_answer() -> None:
    """Right after a start no node is known, and all studies are looked at."""
    api, tested, _ = cluster(node("one"))
    answered = asyncio.Event()
    listed = api.list

    async def slow(*arguments: Any, **options: Any) -> list[kube.Object]:
        await answered.wait()
        return await listed(*arguments, **options)

    api.list = slow  # type: ignore[method-assign]
    looks = [asyncio.create_task(tested.of_jobs([job_on("one")])) for _ in range(2)]
    await asyncio.sleep(0)
    answered.set()
    assert [len(found) for found in await asyncio.gather(*looks)] == [1, 1]


class Unanswering:
    """An API server that lets every list wait, and then does not answer."""

    def __init__(self, api: memory_kube.MemoryKube) -> None:
        self.lists = 0
        self.ends = asyncio.Event()
        api.list = self.list  # type: ignore[method-assign]

    async def list(self, *_arguments: Any, **_options: Any) -> list[kube.Object]:
        self.lists += 1
        await self.ends.wait()
        raise kube.TemporaryError("list nodes: no answer", delay=3.0)


async def test_a_look_that_lacks_nothing_does_not_wait_for_one_that_asks() -> None:
    api, tested, _ = cluster()
    tested.note([node("known")])
    server = Unanswering(api)
    asking = asyncio.create_task(tested.of_jobs([job_on("unknown")]))
    for _ in range(2):
        await asyncio.sleep(0)
    assert server.lists == 1
    look = asyncio.create_task(tested.of_jobs([job_on("known")]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert look.done()
    assert [found.name for found in look.result()] == ["known"]
    server.ends.set()
    with pytest.raises(kube.TemporaryError):
        await asking


async def test_studies_that_wait_for_one_answer_do_not_wait_for_one_time_out_after_another() -> None:
    api, tested, _ = cluster()
    server = Unanswering(api)
    looks = [asyncio.create_task(tested.of_jobs([job_on("one")])) for _ in range(3)]
    await asyncio.sleep(0)
    server.ends.set()
    failures = await asyncio.gather(*looks, return_exceptions=True)
    assert [isinstance(failure, kube.TemporaryError) and failure.delay for failure in failures] == [3.0, 3.0, 3.0]
    assert server.lists == 1
    with pytest.raises(kube.TemporaryError):
        await tested.of_jobs([job_on("one")])
    assert server.lists == 2, "who comes later asks anew"


def test_memory_is_bounded() -> None:
    _, tested, _ = cluster()
    tested.note(node(f"n{number}") for number in range(observe.REMEMBERED_MAX + 5))
    assert len(tested.known) == observe.REMEMBERED_MAX
    assert "n0" not in tested.known


# --- whether they live ------------------------------------------------------------------------------------------------


def living(name: str, *taints: str, ready: str = "True") -> kube.Object:
    since = {"lastTransitionTime": "2027-01-15T08:00:00Z"}
    body = node(name)
    body["spec"] = {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]}
    conditions = [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready, **since}]
    body["status"] = {"conditions": conditions}
    return body


async def seen(
    tested: observe.NodeStates, *names_of_nodes: str, in_question: tuple[str, ...] = ()
) -> list[ObservedNode]:
    return list(await tested.of_jobs([job_on(*names_of_nodes)], in_question=in_question))


async def test_a_node_in_question_is_seen_as_it_is_now_and_others_as_they_were() -> None:
    api, tested, _ = cluster()
    tested.note([living("one"), living("two")], all_there_are=True)
    for name in ("one", "two"):
        api.put(kube.NODES, living(name, "spot", ready="Unknown"))
    (one,) = await seen(tested, "one")
    assert (one.ready, one.taints) == (True, ())
    tested = observe.NodeStates(api, clock=(clock := Clock()))
    tested.note([living("one"), living("two")])
    clock.now += 10
    one, two = await seen(tested, "one", "two", in_question=("one",))
    assert (one.ready, one.silent_since, one.taints) == (False, NOW, ("spot",))
    assert (two.ready, two.silent_since) == (True, None)


async def test_what_was_seen_just_now_is_not_asked_for_again() -> None:
    api, tested, clock = cluster(living("one"))
    await seen(tested, "one", in_question=("one",))
    api.failures.append(AssertionError("nothing is to be asked"))
    await seen(tested, "one", in_question=("one",))
    api.failures.clear()
    clock.now += 5
    api.put(kube.NODES, living("one", ready="False"))
    assert [one.ready for one in await seen(tested, "one", in_question=("one",))] == [False]


@pytest.mark.parametrize("others", [0, 20])
async def test_a_node_that_is_gone_is_known_to_be_gone_since_it_was_missed(others: int) -> None:
    """By its name, or by a list of all where there are many to ask about."""
    listed = [f"n{number}" for number in range(others)]
    api, tested, clock = cluster(living("spot", "reclaimed"), *(living(name) for name in listed))
    everyone = ("spot", *listed)
    await seen(tested, *everyone, in_question=everyone)
    api.remove(kube.NODES, name="spot")
    clock.now += 10
    for _ in range(2):
        spot = (await seen(tested, *everyone, in_question=everyone))[-1]
        assert (spot.name, spot.gone_since, spot.taints) == ("spot", NOW + 10, ("reclaimed",))
        assert (spot.instance_type, spot.zone) == ("p3.2xlarge", "a")
        clock.now += 10
    api.put(kube.NODES, living("spot"))
    assert (await seen(tested, *everyone, in_question=everyone))[-1].gone_since is None


async def test_nodes_that_may_not_be_listed_are_neither_gone_nor_silent() -> None:
    api, tested, clock = cluster(living("one"))
    tested.note([living("one")])
    clock.now += 10
    api.failures.append(kube.Forbidden("list nodes: forbidden"))
    (one,) = await seen(tested, "one", in_question=("one",))
    assert (one.ready, one.gone_since) == (True, None)


KEY, OTHER = queue.benchmark_key("default", "one"), queue.benchmark_key("default", "other")


def test_studies_are_told_of_nodes_that_came_into_trouble_once_and_only_of_their_own() -> None:
    _, tested, _ = cluster()
    everyone = [living("one"), living("two"), living("three")]
    tested.note(everyone, all_there_are=True)
    tested.use(KEY, ["one"])
    tested.use(OTHER, ["two"])
    assert tested.affected() == set()
    tested.note([living("one", ready="Unknown"), *everyone[1:]], all_there_are=True)
    assert tested.affected() == {KEY}
    assert tested.affected() == set()
    tested.note([living("one", ready="Unknown"), living("three", "ToBeDeletedByClusterAutoscaler")], all_there_are=True)
    assert tested.affected() == {OTHER}
    tested.note(everyone, all_there_are=True)
    assert tested.affected() == {KEY, OTHER}  # both are back
    tested.use(KEY, ())
    tested.note([], all_there_are=True)
    assert tested.affected() == {OTHER}


# --- whose end is announced -------------------------------------------------------------------------------------------

KARPENTER = "karpenter.sh/disrupted"


def event_about(node: str, *, reason: str = outcome.SPOT_INTERRUPTED, at: float = NOW) -> kube.Object:
    return {
        "metadata": {"name": f"{node}.{reason}", "namespace": "default"},
        "involvedObject": {"kind": "Node", "name": node},
        "reason": reason,
        "lastTimestamp": observe.timestamp(at),
    }


async def test_an_event_of_karpenter_says_that_it_disrupts_a_node_for_a_notice() -> None:
    api, tested, clock = cluster(living("spot", KARPENTER), living("drifted", KARPENTER), living("other"))
    tested.use(KEY, ["spot", "drifted"])
    for body in (event_about("spot"), event_about("other"), event_about("drifted", reason="FailedDraining")):
        api.put(kube.EVENTS, body)
    tested.note(api.all(kube.NODES), all_there_are=True)
    clock.now += 5
    found = {one.name: (outcome.leaving(one), one.leaving_since) for one in await seen(tested, "spot", "drifted")}
    assert found == {"spot": (outcome.SPOT_INTERRUPTED, NOW + 5), "drifted": (KARPENTER, NOW)}
    tested.affected()
    api.put(kube.EVENTS, event_about("drifted"))  # later, and nothing of the Node tells of it
    await tested.listen()
    assert tested.affected() == {KEY}
    tested.note(api.all(kube.NODES), all_there_are=True)
    assert outcome.leaving(tested.known["drifted"]) == outcome.SPOT_INTERRUPTED
    assert outcome.leaving(tested.known["other"]) is None


@pytest.mark.parametrize("refusal", [None, kube.Forbidden("list events: forbidden")])
async def test_events_about_an_earlier_node_or_that_nobody_may_read_say_nothing(refusal: Exception | None) -> None:
    api, tested, _ = cluster(living("spot", KARPENTER))
    api.put(kube.EVENTS, event_about("spot", at=NOW - 60))
    tested.note(api.all(kube.NODES), all_there_are=True)
    api.failures += [] if refusal is None else [refusal]
    assert [outcome.leaving(one) for one in await seen(tested, "spot")] == [KARPENTER]


def test_host_maintenance_is_announced_by_a_label() -> None:
    found = observe.node(living("one") | {"metadata": {"name": "one", "labels": {names.LABEL_MAINTENANCE: "ONGOING"}}})
    assert outcome.leaving(found) == names.LABEL_MAINTENANCE


async def test_a_node_that_comes_back_is_another_one_and_what_the_one_before_had_announced_is_kept() -> None:
    api, tested, clock = cluster(living("spot", "aws-node-termination-handler/spot-itn"))
    tested.note(api.all(kube.NODES))
    tested.forget("spot")
    clock.now += 5
    api.remove(kube.NODES, name="spot")
    api.put(kube.NODES, living("spot"))
    tested.note(api.all(kube.NODES))
    spot = tested.known["spot"]
    assert (spot.created_at, spot.gone_since, spot.taints) == (NOW + 5, None, ())
    assert spot.taints_before == ("aws-node-termination-handler/spot-itn",)


# --- nodes that came --------------------------------------------------------------------------------------------------

GPU = {"cpu": "1", "memory": "1Gi", "gpu_resource": "nvidia.com/gpu"}


def planned(**pool: Any) -> Plan:
    return freeze(builders.spec(), (builders.pool(**pool),), observe.timestamp(NOW))


def using(name: str, node: str, *, uid: str | None = None, phase: str = "Running", resource: str = "") -> kube.Object:
    """A pod on a node; `uid` is that of its benchmark."""
    labels = {names.LABEL_BENCHMARK_UID: uid} if uid is not None else {}
    containers = [{"name": "c", "resources": {"limits": {resource: "1"} if resource else {}}}]
    metadata = {"name": name, "namespace": "theirs", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": containers}, "status": {"phase": phase}}


async def came(
    tested: observe.NodeStates, plan: Plan, *jobs: ObservedJob, kept: tuple[NewNode, ...] = ()
) -> dict[str, SeenNode]:
    found = await tested.came(builders.UID, plan, NewNodes(there=kept), jobs, (None,))
    return {one.node.name: one for one in found}


async def test_nodes_that_came_since_the_start_are_those_of_gangs_and_idle_ones_of_pools_with_gpus() -> None:
    api, tested, clock = cluster(node("standing"))
    clock.now += 60.0
    for name in ("idle", "ours"):
        api.put(kube.NODES, node(name))
    tested.note(await api.list(kube.NODES))
    tested.of_pools["cpu"] = frozenset({"standing", "idle", "ours"})
    found = await came(tested, planned(slot=GPU), job_on("ours", "standing"))
    assert {name: one.has_run for name, one in found.items()} == {"idle": False, "ours": True}
    assert {(one.node.created_at, one.pool) for one in found.values()} == {(NOW + 60.0, "cpu")}
    assert (await came(tested, planned(), job_on("ours"))).keys() == {"ours"}  # nobody knows who uses a processor
    clock.now += 5.0
    tested.forget("idle")
    kept = (NewNode("idle", "cpu", NOW + 60.0),)
    assert (await came(tested, planned(slot=GPU), kept=kept))["idle"].node.gone_since == NOW + 65.0


@pytest.mark.parametrize(
    ("pod", "is_shared"),
    [
        (using("a", "node", resource="nvidia.com/gpu"), True),
        (using("a", "node", uid="another"), True),
        (using("a", "node", uid=builders.UID, resource="nvidia.com/gpu"), False),
        (using("a", "node"), False),  # of a DaemonSet, say
        (using("a", "node", resource="nvidia.com/gpu", phase="Succeeded"), False),
        (using("a", "node", resource="nvidia.com/gpu", phase="Failed"), False),
        (using("a", "elsewhere", resource="nvidia.com/gpu"), False),
    ],
)
async def test_a_node_is_shared_where_pods_of_others_have_its_gpus(pod: kube.Object, is_shared: bool) -> None:
    api, tested, clock = cluster()
    clock.now += 60.0
    api.put(kube.NODES, node("node"))
    api.put(kube.PODS, pod)
    tested.note(await api.list(kube.NODES))
    tested.of_pools["cpu"] = frozenset({"node"})
    assert (await came(tested, planned(slot=GPU)))["node"].is_shared is is_shared
    api.remove(kube.PODS, name="a", namespace="theirs")
    clock.now += 3_600.0
    assert (await came(tested, planned(slot=GPU)))["node"].is_shared is is_shared  # it was


async def test_a_node_of_a_process_of_before_that_is_not_there_any_more_came_and_went() -> None:
    _, tested, clock = cluster()
    kept = (NewNode("old", "cpu", NOW + 60.0),)
    assert await came(tested, planned(slot=GPU), kept=kept) == {}  # nobody has looked for it
    await tested.of_jobs([], placed=["old"], in_question=["old"])
    (found,) = (await came(tested, planned(slot=GPU), kept=kept)).values()
    assert (found.node.created_at, found.node.gone_since) == (None, clock.now)


async def test_a_node_that_goes_while_the_operator_is_away_counts_until_it_was_seen_last() -> None:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}]
    world = World(placed=lambda number: Placement(f"late{number}"), repeats=2, sweep=sweep)
    await world.look()
    for number in range(2):  # each trial has a node that comes for it
        world.clock.now += 60.0
        world.api.put(kube.NODES, node(f"late{number}-0"))
        world.progress()
        await world.look()
        assert world.new_nodes()["there"][-1] == [f"late{number}-0", "pretend", world.clock.now, True]
        if number == 0:
            world.clock.now += 30.0
            world.progress()
            await world.look()  # the end of its trial, and the Job of the next one
    first, seen_at = world.new_nodes()["there"][0], world.clock.now
    world.start_operator()
    world.api.remove(kube.NODES, name="late0-0")
    world.clock.now += 30.0
    await world.finish()
    assert world.new_nodes()["gone"] == [
        {"pool": "pretend", "nodes": 1, "seconds": seen_at - first[2], "billedSeconds": seen_at - first[2], "unseen": 1}
    ]
    spent = world.status()["spent"]["nodes"]
    lived = seen_at - first[2] + observe.seconds(world.status()["completionTime"]) - seen_at
    assert (spent["count"], spent["nodeHours"]) == (2, round(lived / 3600, 4))
    assert "1 went while nobody looked" in spent["sentence"]
    assert "1 outlived it" in spent["sentence"]
    written = world.new_nodes()
    world.clock.now += 3_600.0
    world.api.remove(kube.NODES, name="late1-0")
    await world.look()
    assert (world.new_nodes(), world.status()["spent"]["nodes"]) == (written, spent)


async def test_who_is_on_a_node_is_asked_every_five_minutes() -> None:
    api, tested, clock = cluster()
    clock.now += 60.0
    api.put(kube.NODES, node("node"))
    tested.note(await api.list(kube.NODES))
    tested.of_pools["cpu"] = frozenset({"node"})
    shared = []
    for seconds in (0.0, 299.0, 1.0):
        clock.now += seconds
        shared.append((await came(tested, planned(slot=GPU)))["node"].is_shared)
        api.put(kube.PODS, using("a", "node", uid="another"))
    assert shared == [False, False, True]
