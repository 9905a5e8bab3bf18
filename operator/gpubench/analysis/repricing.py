# SPDX-License-Identifier: Apache-2.0
"""What a benchmark's measurements cost at other prices: its plan with the prices of other pools, and its status again.

Only the price is exchanged: what was measured, how often, where and on how many nodes stays, and what was left out for
its price stays left out. Must not happen: a price for nodes of another size; one whose currency leads to no cost
without a word; a finished benchmark that other prices begin again.
"""

from collections.abc import Iterator, Sequence

from gpubench.analysis import audit
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.pool import GpuPool
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import Ledger

#: What of a pool says what its nodes cost; all else of it is as it was when the benchmark was measured.
_PRICES = ("capacity_type", "price", "ownership")
#: What of an unfinished benchmark's status does not depend on the moment.
_ALWAYS = ("points", "points_done", "trials", "attempts", "results", "environments")


def repriced(plan: Plan, pools: Sequence[GpuPool]) -> Plan:
    """The plan with the prices of these pools; a pool of the plan that is not among them keeps its own."""
    given, found = {pool.name: pool.spec for pool in pools}, []
    for pool in plan.pools:
        prices = {name: getattr(given.get(pool.name, pool.spec), name) for name in _PRICES}
        found.append(pool.model_copy(update={"spec": pool.spec.model_copy(update=prices)}))
    return plan.model_copy(update={"pools": tuple(found), "pools_when_measured": plan.as_measured().pools})


def problems(plan: Plan, pools: Sequence[GpuPool]) -> Iterator[str]:
    """Why a plan cannot be given these prices, a sentence each."""
    measured = {pool.name: pool for pool in plan.pools}
    if not (found := [pool for pool in pools if pool.name in measured]):
        given = ", ".join(pool.name for pool in pools) or "none"
        here = f"there is no price here for a pool of the benchmark: the pools here are {given}"
        yield f"{here}, those of the benchmark {', '.join(measured) or 'none'}; name one of these"
    for pool in found:
        slots, before = pool.spec.slots_per_node, measured[pool.name].spec.slots_per_node
        if slots != before:
            here = f"GpuPool {pool.name} has {slots} slots on a node here, and {before} in the benchmark"
            yield f"{here}: a price of other nodes says nothing about it; give that of a node with {before}"
    new = repriced(plan, found)
    for pool in found:
        if (without := pool_prices.without_exchange(new, pool.name)) is not None:
            yield f"{without}; give the price in {plan.currency}"


def status(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: FullStatus) -> FullStatus:
    """The status of a benchmark under a plan with other prices. Of one that goes on, phase and conditions stay."""
    again = audit.status_again(plan, ledger, spec, stored)
    if conditions.holds(stored.conditions, conditions.FINISHED):
        return again
    return stored.model_copy(update={name: getattr(again, name) for name in _ALWAYS})
