# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

import memory_kube
from gpubench_cluster import kube
from gpubench_operator import status_writer
from memory_world import NOW, Clock


def benchmark(**status: Any) -> tuple[memory_kube.MemoryKube, kube.Object]:
    api = memory_kube.MemoryKube(Clock())
    return api, api.put(kube.BENCHMARKS, {"metadata": {"name": "b", "namespace": "n"}, "status": status})


def stored(api: memory_kube.MemoryKube) -> kube.Object:
    return api.all(kube.BENCHMARKS)[0]


async def test_what_is_the_same_is_not_written() -> None:
    api, body = benchmark(phase="Running", points={"total": 2})
    tested = status_writer.StatusWriter(api, interval=2)
    written = await tested.write(kube.BENCHMARKS, body, {"phase": "Running", "points": {"total": 2}}, now=NOW)
    assert (written, api.writes) == (status_writer.Written(), [])


async def test_progress_waits_and_a_phase_does_not() -> None:
    api, body = benchmark()
    tested = status_writer.StatusWriter(api, interval=2)
    assert (await tested.write(kube.BENCHMARKS, body, {"phase": "Running"}, now=NOW)).changed
    soon = {"phase": "Running", "trials": {"finished": 1}}
    assert (await tested.write(kube.BENCHMARKS, stored(api), soon, now=NOW + 0.5)).wait == 1.5
    assert (await tested.write(kube.BENCHMARKS, stored(api), {**soon, "phase": "Failed"}, now=NOW + 0.5)).changed
    assert (await tested.write(kube.BENCHMARKS, stored(api), {**soon, "phase": "Failed", "x": 1}, now=NOW + 3)).changed


async def test_a_field_that_is_gone_is_removed() -> None:
    api, body = benchmark(phase="Running", answer="old", points={"total": 2, "failed": 1})
    after = {"phase": "Running", "points": {"total": 2}}
    await status_writer.StatusWriter(api, interval=2).write(kube.BENCHMARKS, body, after, now=NOW)
    assert stored(api)["status"] == after


async def test_a_status_that_was_read_before_somebody_elses_write_is_not_written() -> None:
    api, body = benchmark(phase="Running")
    api.put(kube.BENCHMARKS, stored(api))
    with pytest.raises(kube.TemporaryError):
        await status_writer.StatusWriter(api, interval=2).write(kube.BENCHMARKS, body, {"phase": "Failed"}, now=NOW)


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
    assert status_writer.merge_patch(before, after) == patch
