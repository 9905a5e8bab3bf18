# SPDX-License-Identifier: Apache-2.0
from typing import Any

from gpubench_cluster import kube
from gpubench_operator import exporter, queue, watch


def event(kind: str | None, *, uid: str = "first", generation: int = 1) -> dict[str, Any]:
    """Of a pool; None is what kopf calls those of the list with which a watch begins."""
    metadata = {"name": "l4-spot", "uid": uid, "generation": generation}
    return {"type": kind, "object": {"metadata": metadata}}


def test_a_pool_wakes_the_studies_that_may_wait_for_it_whether_or_not_somebody_watched_when_it_came() -> None:
    woken: list[queue.Key] = []
    handler = watch.Handlers(wake=woken.append, series=exporter.BenchmarkSeries())

    def told(*, of: dict[str, Any]) -> list[queue.Key]:
        woken.clear()
        handler.pool(of)
        return list(woken)

    assert told(of=event("ADDED")) == [queue.POOLS, queue.RESYNC]
    assert told(of=event("MODIFIED")) == [], "its status alone has changed"
    assert told(of=event(None)) == [], "the next watch begins with it"
    assert told(of=event("MODIFIED", generation=2)) == [queue.POOLS]
    assert told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC], "another one, made between two watches"
    assert told(of=event("DELETED", uid="second")) == [queue.POOLS]
    assert told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC]


def test_only_a_benchmark_that_came_while_we_watch_and_that_nothing_has_happened_to_is_started_from_its_event() -> None:
    created: dict[queue.Key, kube.Object] = {}
    woken: list[queue.Key] = []
    handler = watch.Handlers(wake=woken.append, series=exporter.BenchmarkSeries(), created=created)

    def told(kind: str | None, *, generation: int = 1, uid: str = "first", **status: Any) -> bool:
        metadata = {"name": "b", "namespace": "n", "uid": uid, "generation": generation}
        handler.benchmark({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": status}})
        return queue.benchmark_key("n", "b") in created

    assert told("ADDED")
    assert not told("MODIFIED", generation=2)
    assert not told("DELETED", generation=2)
    assert told("ADDED", uid="second")
    assert not told("DELETED", uid="second")
    assert not told(None, uid="third"), "made between two watches: somebody may have begun"
    assert not told("ADDED", uid="fourth", phase="Running")
    assert set(woken) == {queue.benchmark_key("n", "b")}
    assert len(woken) == 7
