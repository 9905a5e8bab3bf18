# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

import memory_kube
from gpubench_cluster import kube
from gpubench_operator import storage
from memory_world import Clock, World


def benchmark(**status: Any) -> tuple[memory_kube.MemoryKube, kube.Object]:
    api = memory_kube.MemoryKube(Clock())
    return api, api.put(kube.BENCHMARKS, {"metadata": {"name": "b", "namespace": "n"}, "status": status})


def stored(api: memory_kube.MemoryKube) -> kube.Object:
    return api.all(kube.BENCHMARKS)[0]


async def test_what_is_the_same_is_not_written() -> None:
    api, body = benchmark(phase="Running", points={"total": 2})
    same = {"phase": "Running", "points": {"total": 2}}
    assert not await storage.write_status(api, kube.BENCHMARKS, body, same)
    assert api.writes == []


async def test_progress_waits_and_a_condition_does_not() -> None:
    world = World()

    def written() -> int:
        return sum(what[:2] == ("patch", "gpubenchmarks") for what in world.api.writes)

    await world.look()
    world.clock.now += 0.5
    wait = await world.look()  # the attempt is counted now
    assert wait is not None
    assert wait <= 1.5
    assert written() == 1
    world._set_suspend(suspend=True)
    await world.look()
    assert written() == 2


async def test_a_field_that_is_gone_is_removed() -> None:
    api, body = benchmark(phase="Running", answer="old", points={"total": 2, "failed": 1})
    after = {"phase": "Running", "points": {"total": 2}}
    assert await storage.write_status(api, kube.BENCHMARKS, body, after)
    assert stored(api)["status"] == after


async def test_a_status_that_was_read_before_somebody_elses_write_is_not_written() -> None:
    api, body = benchmark(phase="Running")
    api.put(kube.BENCHMARKS, stored(api))
    with pytest.raises(kube.TemporaryError):
        await storage.write_status(api, kube.BENCHMARKS, body, {"phase": "Failed"})


@pytest.mark.parametrize(
    ("before", "after", "patch"),
    [
        ({}, {}, {}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, {}),
        ({"a": 0}, {"a": None}, {"a": None}),
    ],
)
def test_merge_patches(before: dict[str, Any], after: dict[str, Any], patch: dict[str, Any]) -> None:
    assert storage.merge_patch(before, after) == patch
