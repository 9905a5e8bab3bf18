# SPDX-License-Identifier: Apache-2.0
"""Where a pod ran is known from the labels of its node, also when the node is gone again."""

import asyncio
from typing import Any

import pytest

import builders
import memory_kube
from gpubench import names
from gpubench.control.observed import ObservedJob, ObservedNode
from gpubench_operator import kube, nodes
from memory_world import Clock


def node(name: str, instance_type: str | None = "p3.2xlarge", zone: str | None = "a") -> kube.Object:
    labels = {names.LABEL_INSTANCE_TYPE: instance_type, names.LABEL_ZONE: zone}
    return {"metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}}}


def job_on(*names_of_nodes: str | None) -> ObservedJob:
    pods = tuple(builders.observed_pod(index, node=name) for index, name in enumerate(names_of_nodes))
    return builders.observed_job(pods=pods)


def cluster(*bodies: kube.Object) -> tuple[memory_kube.MemoryKube, nodes.Nodes, Clock]:
    clock = Clock()
    api = memory_kube.MemoryKube(clock)
    for body in bodies:
        api.put(kube.NODES, body)
    return api, nodes.Nodes(api, clock=clock), clock


async def test_the_nodes_of_a_gang_are_looked_up_and_no_others() -> None:
    _, tested, _ = cluster(node("one"), node("two", None, None), node("three"))
    found = await tested.of_jobs([job_on("two", "one", None)])
    assert found == (ObservedNode(name="one", instance_type="p3.2xlarge", zone="a"), ObservedNode(name="two"))


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
    api.failures.append(kube.RetryLater("list nodes: no answer"))
    with pytest.raises(kube.RetryLater):
        await tested.of_jobs([job_on("one")])
    assert len(await tested.of_jobs([job_on("one")])) == 1


async def test_a_cluster_that_keeps_its_nodes_to_itself_leaves_them_unknown() -> None:
    api, tested, _ = cluster(node("one"))
    api.failures.append(kube.Never("list nodes: forbidden", code=403))
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
        raise kube.RetryLater("list nodes: no answer", delay=3.0)


async def test_a_look_that_lacks_nothing_does_not_wait_for_one_that_asks() -> None:
    api, tested, _ = cluster()
    tested.note([node("known")])
    server = Unanswering(api)
    asking = asyncio.create_task(tested.of_jobs([job_on("unknown")]))
    await asyncio.sleep(0)
    assert server.lists == 1
    look = asyncio.create_task(tested.of_jobs([job_on("known")]))
    for _ in range(10):
        await asyncio.sleep(0)
    assert look.done()
    assert [found.name for found in look.result()] == ["known"]
    server.ends.set()
    with pytest.raises(kube.RetryLater):
        await asking


async def test_studies_that_wait_for_one_answer_do_not_wait_for_one_time_out_after_another() -> None:
    api, tested, _ = cluster()
    server = Unanswering(api)
    looks = [asyncio.create_task(tested.of_jobs([job_on("one")])) for _ in range(3)]
    await asyncio.sleep(0)
    server.ends.set()
    failures = await asyncio.gather(*looks, return_exceptions=True)
    assert [isinstance(failure, kube.RetryLater) and failure.delay for failure in failures] == [3.0, 3.0, 3.0]
    assert server.lists == 1
    with pytest.raises(kube.RetryLater):
        await tested.of_jobs([job_on("one")])
    assert server.lists == 2, "who comes later asks anew"


def test_memory_is_bounded() -> None:
    _, tested, _ = cluster()
    tested.note(node(f"n{number}") for number in range(nodes.REMEMBERED_MAX + 5))
    assert len(tested.known) == nodes.REMEMBERED_MAX
    assert "n0" not in tested.known
