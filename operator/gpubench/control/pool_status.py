# SPDX-License-Identifier: Apache-2.0
"""The status of a GpuPool: what the cluster's nodes look like through its selector, and what an hour costs."""

from collections.abc import Mapping, Sequence
from typing import Any

from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.control import conditions
from gpubench.money import price

READY = "Ready"
_PRICE_DIGITS = 4


def pool_status(
    pool: GpuPool, nodes: Sequence[Mapping[str, Any]], now: float, before: Sequence[Condition] = ()
) -> dict[str, object]:
    """The status of a pool, given the cluster's nodes as the API server lists them."""
    selector = pool.spec.scheduling.node_selector
    matching = [
        node
        for node in nodes
        if all((node["metadata"].get("labels") or {}).get(key) == value for key, value in selector.items())
    ]
    ready = [node for node in matching if _takes_pods(node)]
    rate = price.rate(pool.spec)
    return GpuPoolStatus(
        nodes=len(matching),
        ready_nodes=len(ready),
        slots=len(ready) * pool.spec.slots_per_node,
        price_per_node_hour=(
            f"{price.rounded(rate.per_node_hour, digits=_PRICE_DIGITS)} {rate.currency}" if rate else None
        ),
        conditions=(_ready_condition(pool, matching=len(matching), ready=len(ready), before=before, now=now),),
    ).to_wire()


def _takes_pods(node: Mapping[str, Any]) -> bool:
    if (node.get("spec") or {}).get("unschedulable"):
        return False
    of_node = (node.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in of_node)


def _ready_condition(pool: GpuPool, *, matching: int, ready: int, before: Sequence[Condition], now: float) -> Condition:
    if ready:
        reason, message = "NodesReady", f"{ready} of {matching} matching nodes take pods"
    elif matching:
        reason, message = "NoNodeReady", f"none of {matching} matching nodes is ready and schedulable"
    else:
        labels = ", ".join(f"{key}={value}" for key, value in pool.spec.scheduling.node_selector.items()) or "any"
        reason, message = "NoNode", f"no node matches {labels}; fine for a pool that scales from zero"
    return conditions.plain(READY, holds=bool(ready), reason=reason, message=message, before=before, now=now)
