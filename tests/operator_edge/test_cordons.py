# SPDX-License-Identifier: Apache-2.0
"""Nodes that are cordoned on purpose, in an API server in memory: each takes pods again, whatever happens to us."""

from typing import Any

import pytest

import memory_kube
from gpubench import names
from gpubench.scheduler import actions
from gpubench_cluster import kube
from gpubench_operator import gangs, queue
from memory_world import NOW, Clock


class Place:
    """Two nodes and an operator's cordons."""

    def __init__(self, **spec: Any) -> None:
        self.clock = Clock()
        self.api = memory_kube.MemoryKube(self.clock)
        for name in ("one", "two"):
            self.api.put(kube.NODES, {"metadata": {"name": name}, "spec": dict(spec)})
        self.woken: list[queue.Key] = []
        self.start_operator()

    def start_operator(self) -> None:
        """A new process: it remembers nothing."""
        self.cordons = gangs.Cordons(api=self.api, wake=self.woken.append, clock=self.clock)

    async def cordon(self, node: str, *, seconds: float = 60.0) -> bool:
        until = actions.Cordon(node=node, until=self.clock() + seconds)
        return await self.cordons.cordon(until, benchmark="default/quick")

    def cordoned(self) -> list[str]:
        return [kube.name_of(body) for body in self.api.all(kube.NODES) if body["spec"].get("unschedulable")]

    def marks(self) -> list[str]:
        found = [(body["metadata"].get("annotations") or {}) for body in self.api.all(kube.NODES)]
        return [mark for one in found if (mark := one.get(names.ANNOTATION_CORDONED))]


async def test_a_node_takes_no_pods_until_its_time_is_over() -> None:
    here = Place()
    assert await here.cordon("one")
    assert (here.cordoned(), here.marks()) == (["one"], ["2027-01-15T08:01:00Z default/quick"])
    assert here.woken == [queue.CORDONS]
    assert await here.cordons.reconcile(queue.CORDONS) == 60.0
    assert here.cordoned() == ["one"]
    here.clock.now += 60.0
    assert await here.cordons.reconcile(queue.CORDONS) is None
    assert (here.cordoned(), here.marks()) == ([], [])


async def test_an_operator_that_comes_later_lets_it_take_pods_again() -> None:
    here = Place()
    await here.cordon("one")
    await here.cordon("two", seconds=90.0)
    here.clock.now = NOW + 70.0
    here.start_operator()
    assert await here.cordons.reconcile(queue.CORDONS) == 20.0
    assert here.cordoned() == ["two"]


async def test_what_somebody_else_has_cordoned_is_left_alone() -> None:
    here = Place(unschedulable=True)
    assert not await here.cordon("one")
    here.clock.now += 1000.0
    assert await here.cordons.reconcile(queue.CORDONS) is None
    assert (here.cordoned(), here.marks(), here.woken) == (["one", "two"], [], [])


async def test_a_node_that_is_cordoned_again_gets_the_later_time() -> None:
    here = Place()
    await here.cordon("one")
    here.clock.now += 50.0
    assert await here.cordon("one")
    assert await here.cordons.reconcile(queue.CORDONS) == 60.0


async def test_a_node_that_is_gone_is_no_error() -> None:
    here = Place()
    assert not await here.cordon("three")
    assert here.woken == []


async def test_a_mark_that_nobody_can_read_keeps_no_node_from_work() -> None:
    here = Place()
    await here.cordon("one")
    (body, _) = here.api.all(kube.NODES)
    body["metadata"]["annotations"][names.ANNOTATION_CORDONED] = "soon"
    here.api.put(kube.NODES, body)
    assert await here.cordons.reconcile(queue.CORDONS) is None
    assert here.cordoned() == []


async def test_a_node_that_refuses_to_take_pods_again_keeps_no_other_from_it() -> None:
    here = Place()
    await here.cordon("one")
    await here.cordon("two")
    here.clock.now += 60.0
    here.api.patch_refusals["one"] = kube.Forbidden("patch nodes: denied the request", code=403)
    with pytest.raises(kube.Forbidden):
        await here.cordons.reconcile(queue.CORDONS)
    assert here.cordoned() == ["one"]
    assert await here.cordons.reconcile(queue.CORDONS) is None
    assert here.cordoned() == []
