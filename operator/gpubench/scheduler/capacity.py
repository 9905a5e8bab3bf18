# SPDX-License-Identifier: Apache-2.0
"""Slots of pools: what an attempt holds, and what is left for others.

The ledger of slots keeps two studies from each placing half of a gang and waiting for ever for the other half. It
counts against the pool's own bound (`maxNodes`), not against the nodes of this minute: a pool may scale from zero.
"""

from collections.abc import Mapping

from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler.observed import FreeSlots


def slots_of(point: Point, pool: GpuPoolSpec) -> int:
    """Slots that one attempt holds: all slots of its nodes when nodes are exclusive, else one for each rank."""
    return point.nodes * pool.slots_per_node if pool.exclusive_nodes else point.key.workers


def free_slots(plan: Plan, held: Mapping[str, int]) -> tuple[FreeSlots, ...]:
    """Free slots of the plan's pools, given the slots that attempts of all studies hold in each pool."""
    return tuple(
        FreeSlots(
            pool=pool.name,
            slots=max(0, pool.spec.max_nodes * pool.spec.slots_per_node - held.get(pool.name, 0)),
        )
        for pool in plan.pools
    )
