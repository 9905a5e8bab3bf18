# SPDX-License-Identifier: Apache-2.0
from typing import Any

from gpubench_cluster import kube
from gpubench_operator import exporter, queue, watch


def event(kind: str | None, *, uid: str = "first", generation: int = 1) -> dict[str, Any]:
    """Of a pool; None is what kopf calls those of the list with which a watch begins."""
    metadata = {"name": "l4-spot", "uid": uid, "generation": generation}
    return {"type": kind, "object": {"metadata": metadata}}


async def test_a_pool_wakes_the_studies_that_may_wait_for_it_whether_or_not_somebody_watched_when_it_came() -> None:
    woken: list[queue.Key] = []
    handler = watch.Handlers(wake=woken.append, series=exporter.Series(), created={})

    async def told(*, of: dict[str, Any]) -> list[queue.Key]:
        woken.clear()
        await handler.pool(of)
        return list(woken)

    assert await told(of=event("ADDED")) == [queue.POOLS, queue.RESYNC]
    assert await told(of=event("MODIFIED")) == [], "its status alone has changed"
    assert await told(of=event(None)) == [], "the next watch begins with it"
    assert await told(of=event("MODIFIED", generation=2)) == [queue.POOLS, queue.RESYNC], "it may be readable now"
    assert await told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC], (
        "another one, made between two watches"
    )
    assert await told(of=event("DELETED", uid="second")) == [queue.POOLS]
    assert await told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC]


async def test_only_a_benchmark_that_came_while_we_watch_and_is_untouched_is_started_from_its_event() -> None:
    created: dict[queue.Key, kube.Object] = {}
    woken: list[queue.Key] = []
    handler = watch.Handlers(wake=woken.append, series=exporter.Series(), created=created)

    async def told(kind: str | None, *, generation: int = 1, uid: str = "first", **status: Any) -> bool:
        metadata = {"name": "b", "namespace": "n", "uid": uid, "generation": generation}
        await handler.benchmark({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": status}})
        return queue.benchmark_key("n", "b") in created

    assert await told("ADDED")
    assert not await told("MODIFIED", generation=2)
    assert not await told("DELETED", generation=2)
    assert await told("ADDED", uid="second")
    assert not await told("DELETED", uid="second")
    assert not await told(None, uid="third"), "made between two watches: somebody may have begun"
    assert not await told("ADDED", uid="fourth", phase="Running")
    assert set(woken) == {queue.benchmark_key("n", "b")}
    assert len(woken) == 7
