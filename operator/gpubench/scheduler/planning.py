# SPDX-License-Identifier: Apache-2.0
"""Before a benchmark starts: whether its pools are there, its plan can be stored, and its budget can be kept.

Then the plan is frozen, and nothing here is asked again.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from gpubench.api.benchmark import POINTS_MAX
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.pool import GpuPool
from gpubench.plan import pool_prices
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, conditions
from gpubench.scheduler.observed import Study
from gpubench.units import rfc3339

POOL_GRACE_SECONDS = 30.0  # one `kubectl apply` of several files may bring the benchmark before its pools
PLAN_BYTES_MAX = 1_048_000  # a ConfigMap takes 1 MiB, its keys included
_LOOK_AGAIN_SECONDS = 60.0


class NotYet(NamedTuple):
    """What a benchmark waits for before it is planned."""

    status: GpuBenchmarkStatus
    requeue_at: float | None


def begin(
    study: Study,
    pools: tuple[GpuPool, ...],
    now: float,
    nodes: Mapping[str, Sequence[str]] | None = None,
    *,
    with_baseline: Callable[[Plan], Plan] = lambda plan: plan,
) -> Plan | NotYet:
    """The plan to freeze, or what the benchmark waits for.

    Pools that are still missing after the grace period are left out: their points are skipped with that reason and the
    others go on. A benchmark that is applied suspended is planned only when it is resumed. `nodes` are those that
    placement EachNode measures; `with_baseline` adds what `spec.compareTo` names.
    """
    missing = sorted({name for block in study.spec.sweep for name in block.pools} - {pool.name for pool in pools})
    if study.spec.suspend:
        return _waiting(study, reason=conditions.BY_USER, message="set spec.suspend to false to start", now=now)
    if missing and now < study.created_at + POOL_GRACE_SECONDS:
        message = f"waiting for GpuPool {', '.join(missing)}: not there yet"
        requeue_at = study.created_at + POOL_GRACE_SECONDS
        return _waiting(study, reason=conditions.WAITING_FOR_POOLS, message=message, now=now, requeue_at=requeue_at)
    plan = freeze(study.spec, pools, rfc3339(now), nodes)
    plan = with_baseline(plan)
    if (problem := too_large(plan)) is not None:
        requeue_at = now + _LOOK_AGAIN_SECONDS
        return _waiting(study, reason=conditions.PLAN_TOO_LARGE, message=problem, now=now, requeue_at=requeue_at)
    if (problem := unpriced(plan, study.spec.limits.budget)) is not None:
        requeue_at = now + _LOOK_AGAIN_SECONDS
        return _waiting(study, reason=conditions.BUDGET_WITHOUT_PRICE, message=problem, now=now, requeue_at=requeue_at)
    return plan


def too_large(plan: Plan) -> str | None:
    """Why a plan cannot be stored. What a spec says always fits (a test holds that), but not every set of pools."""
    if len(plan.points) > POINTS_MAX:
        return (
            f"with placement EachNode the sweep has {len(plan.points)} points, and a benchmark "
            f"has {POINTS_MAX} at most: "
            "measure fewer settings, or pools of fewer nodes"
        )
    size = len(plan.to_text().encode())
    if size <= PLAN_BYTES_MAX:
        return None
    sizes = {pool.name: len(pool.to_json().encode()) for pool in plan.pools}
    largest = max(sizes, key=lambda name: sizes[name])
    return (
        f"the plan has {size} bytes, of which its {len(sizes)} pools have {sum(sizes.values())}, and a ConfigMap takes "
        f"{PLAN_BYTES_MAX}: shorten template.env of the pools (the largest is {largest} with {sizes[largest]}), or "
        "name fewer pools in one benchmark"
    )


def unpriced(plan: Plan, budget: str | None) -> str | None:
    """Why a budget cannot be kept: nobody knows the costs in one currency. None where that is no matter."""
    if budget is None or not plan.trials:
        return None
    priced = {pool: pool_prices.planned_rate(plan, pool) for pool in account.pools_run(plan)}
    without = [pool for pool, rate in priced.items() if rate is None]
    if without:
        why = pool_prices.without_exchange(plan, without[0]) or "it has neither price nor ownership"
        return (
            f"limits.budget is {budget}, and what GpuPool {without[0]} costs is not known ({why}): give it a price in "
            "the benchmark's currency, or remove limits.budget"
        )
    currencies = sorted({rate.currency for rate in priced.values() if rate is not None})
    if len(currencies) > 1:
        named = " and ".join(currencies)
        return (
            f"limits.budget is {budget}, and the pools have prices in {named}: say by spec.currency "
            "which of them it is in, and give exchangeRates from the others"
        )
    return None


def _waiting(study: Study, *, reason: str, message: str, now: float, requeue_at: float | None = None) -> NotYet:
    suspended = study.spec.suspend
    found = [
        conditions.condition(
            type_,
            holds=holds,
            reason=reason,
            message=message,
            before=study.conditions,
            generation=study.generation,
            now=now,
        )
        for type_, holds in (
            (conditions.FINISHED, False),
            (conditions.SUCCEEDED, None),
            (conditions.PROGRESSING, False),
            *([(conditions.SUSPENDED, True)] if suspended else []),
        )
    ]
    return NotYet(
        status=GpuBenchmarkStatus(
            phase="Suspended" if suspended else "Pending",
            observed_generation=study.generation,
            conditions=tuple(found),
        ),
        requeue_at=requeue_at,
    )
