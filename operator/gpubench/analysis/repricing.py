# SPDX-License-Identifier: Apache-2.0
"""What a study's measurements cost at other prices: its own plan with the prices of other pools, and its status again.

A figure of money is made of a measurement and a price, and only the price is exchanged: what was measured, how often,
where and on how many nodes stays as the plan and the ledger have it. Points that other pools' measurements stand for
(`measuredBy`) follow, as their pools have prices, too. What was left out for its price stays left out: the plan keeps
the prices by which that was decided. Must not happen: a price for nodes of another size than those that were measured,
one whose currency leads to no cost without a word, or a finished study that other prices begin again.
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

#: What of a pool says what its nodes cost; all else of it is as it was when the study was measured.
PRICES = ("capacity_type", "price", "ownership")
#: What of an unfinished study's status does not depend on the moment.
_ALWAYS = ("points", "points_done", "trials", "attempts", "results", "environments")


def repriced(plan: Plan, pools: Sequence[GpuPool]) -> Plan:
    """The plan with the prices of these pools; a pool of the plan that is not among them keeps its own."""
    given = {pool.name: pool for pool in pools}
    return plan.model_copy(
        update={
            "pools": tuple(
                pool if (new := given.get(pool.name)) is None else _with_prices_of(new, pool) for pool in plan.pools
            ),
            "pools_when_measured": plan.as_measured().pools,
        }
    )


def problems(plan: Plan, pools: Sequence[GpuPool]) -> Iterator[str]:
    """Why a plan cannot be given these prices, a sentence each."""
    measured = {pool.name: pool for pool in plan.pools}
    found = [pool for pool in pools if pool.name in measured]
    if not found:
        given = ", ".join(pool.name for pool in pools) or "none"
        listed = ", ".join(measured) or "none"
        yield (
            f"there is no price here for a pool of the study: the pools here are {given}, those of the study {listed}; "
            "name one of these"
        )
    for pool in found:
        slots, before = pool.spec.slots_per_node, measured[pool.name].spec.slots_per_node
        if slots != before:
            yield (
                f"GpuPool {pool.name} has {slots} slots on a node here, and {before} in the study: a price of other "
                f"nodes says nothing about it; give that of a node with {before}"
            )
    new = repriced(plan, found)
    for pool in found:
        without = pool_prices.without_exchange(new, pool.name)
        if without is not None:
            yield f"{without}; give the price in {plan.currency}"


def remarks(plan: Plan, pools: Sequence[GpuPool]) -> Iterator[str]:
    """What somebody must know who gave these prices, a sentence each."""
    measured = {pool.name for pool in plan.pools}
    for pool in pools:
        if pool.name not in measured:
            yield f"GpuPool {pool.name} is not in the study: its price is not used"
        elif pool.spec.price is None and pool.spec.ownership is None:
            yield f"GpuPool {pool.name} has neither price nor ownership here: its points have no cost"
    for name in kept(plan, pools):
        yield f"GpuPool {name} keeps the price that it had in the study: it is not among the pools here"


def kept(plan: Plan, pools: Sequence[GpuPool]) -> tuple[str, ...]:
    """Pools of the plan that keep their prices."""
    given = {pool.name for pool in pools}
    return tuple(pool.name for pool in plan.pools if pool.name not in given)


def is_priced_by(plan: Plan, pools: Sequence[GpuPool]) -> bool:
    """Whether the plan has the prices of these pools."""
    return repriced(plan, pools).pools == plan.pools


def status(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: FullStatus) -> FullStatus:
    """The status of a study under a plan with other prices. Of one that goes on, phase and conditions stay."""
    again = audit.status_again(plan, ledger, spec, stored)
    if conditions.holds(stored.conditions, conditions.FINISHED):
        return again
    return stored.model_copy(update={name: getattr(again, name) for name in _ALWAYS})


def _with_prices_of(new: GpuPool, pool: GpuPool) -> GpuPool:
    prices = {name: getattr(new.spec, name) for name in PRICES}
    return pool.model_copy(update={"spec": pool.spec.model_copy(update=prices)})
