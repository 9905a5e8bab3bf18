# SPDX-License-Identifier: Apache-2.0
"""The series of GpuPools: what their statuses say, and what the slot ledger holds of them.

A pool's status is made anew every few seconds from the nodes; what is exported is what was last made of it, whether or
not it could be written. A pool that is deleted has no series after the next look.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from prometheus_client import core, registry

from gpubench import metrics
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench_operator import exporter

#: A number for each pool that has one.
_PerPool = Callable[[], Mapping[str, int]]


class PoolFigures(registry.Collector):
    """All pools, as metrics; `held` and `waiting` are asked at each scrape."""

    def __init__(self, *, held: _PerPool = dict, waiting: _PerPool = dict) -> None:
        self._held, self._waiting = held, waiting
        self._pools: dict[str, tuple[GpuPool | None, GpuPoolStatus]] = {}

    def replace(self, pools: Mapping[str, tuple[GpuPool | None, GpuPoolStatus]]) -> None:
        """All pools there are; None is one that cannot be read."""
        self._pools = dict(pools)

    def describe(self) -> Iterable[core.Metric]:
        """Nothing in advance, as with the figures of studies."""
        return ()

    def collect(self) -> Iterator[core.Metric]:
        """All series of all pools, family by family."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {}

        def add(metric: metrics.Metric, value: float, *labels: str) -> None:
            samples.setdefault(metric.name, []).append((labels, value))

        held, waiting = self._held(), self._waiting()
        for name, (pool, status) in sorted(self._pools.items()):
            for condition in status.conditions:
                add(metrics.POOL_CONDITION, float(condition.status == "True"), name, condition.type)
            if pool is None:
                continue
            add(metrics.POOL_INFO, 1.0, name, pool.spec.accelerator or "", pool.spec.capacity_type.value)
            add(metrics.POOL_NODES, status.nodes, name)
            add(metrics.POOL_READY_NODES, status.ready_nodes, name)
            add(metrics.POOL_SLOTS, status.slots, name)
            add(metrics.POOL_HELD_SLOTS, held.get(name, 0), name)
            add(metrics.POOL_WAITING, waiting.get(name, 0), name)
            if status.price_per_node_hour is not None:
                amount, _, currency = status.price_per_node_hour.partition(" ")
                add(metrics.POOL_PRICE, float(amount), name, currency)
            if status.price_as_of is not None:
                read = datetime.fromisoformat(status.price_as_of).replace(tzinfo=UTC)
                add(metrics.POOL_PRICE_READ, read.timestamp(), name)
        yield from exporter.families(samples)
