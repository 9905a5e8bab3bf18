# SPDX-License-Identifier: Apache-2.0
from typing import Any

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
