# SPDX-License-Identifier: Apache-2.0
from typing import Any

from gpubench_operator import exporter, handlers, keys


def event(kind: str | None, *, uid: str = "first", generation: int = 1) -> dict[str, Any]:
    """Of a pool; None is what kopf calls those of the list with which a watch begins."""
    metadata = {"name": "l4-spot", "uid": uid, "generation": generation}
    return {"type": kind, "object": {"metadata": metadata}}


def test_a_pool_wakes_the_studies_that_may_wait_for_it_whether_or_not_somebody_watched_when_it_came() -> None:
    woken: list[keys.Key] = []
    handler = handlers.Handlers(wake=woken.append, figures=exporter.Figures())

    def told(*, of: dict[str, Any]) -> list[keys.Key]:
        woken.clear()
        handler.pool(of)
        return list(woken)

    assert told(of=event("ADDED")) == [keys.POOLS, keys.RESYNC]
    assert told(of=event("MODIFIED")) == [], "its status alone has changed"
    assert told(of=event(None)) == [], "the next watch begins with it"
    assert told(of=event("MODIFIED", generation=2)) == [keys.POOLS]
    assert told(of=event(None, uid="second")) == [keys.POOLS, keys.RESYNC], "another one, made between two watches"
    assert told(of=event("DELETED", uid="second")) == [keys.POOLS]
    assert told(of=event(None, uid="second")) == [keys.POOLS, keys.RESYNC]
