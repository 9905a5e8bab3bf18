# SPDX-License-Identifier: Apache-2.0
"""The prices that a study's costs stand on, as its plan has them, for its status: with day, source, exchange rate."""

from decimal import Decimal

from gpubench.analysis import estimates
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import PriceUsed
from gpubench.api.status_sizes import PRICES_SHOWN_MAX, SOURCE_MAX
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions


def used(plan: Plan) -> tuple[PriceUsed, ...]:
    """Of the first pools of the plan that have a price in its currency."""
    found = (of_pool(plan, pool) for pool in plan.pools)
    return tuple(one for one in found if one is not None)[:PRICES_SHOWN_MAX]


def of_pool(plan: Plan, pool: GpuPool) -> PriceUsed | None:
    """Of one of the plan's pools; None where it has no price in the plan's currency."""
    terms = pool_prices.planned_terms(plan, pool.name)
    read = pool.spec.price or pool.spec.ownership
    per_node_hour = None if terms is None else _text(terms.rate.per_node_hour)
    if terms is None or read is None or per_node_hour is None:
        return None
    moved = pool_prices.planned_range(plan, pool.name)
    exchanged = read.currency != terms.rate.currency
    rate = pool_prices.exchange_rate(plan, currency=read.currency) if exchanged else None
    return PriceUsed(
        pool=pool.name,
        per_node_hour=per_node_hour,
        currency=terms.rate.currency,
        as_of=read.as_of,
        source=conditions.clamped(read.source, SOURCE_MAX) or None,
        low=None if moved is None else _text(moved.low.per_node_hour),
        high=None if moved is None else _text(moved.high.per_node_hour),
        period=None if moved is None else moved.period,
        setup=None if terms.setup is None else _text(terms.setup.value),
        exchange_rate=None if rate is None else rate.rate,
        exchanged_from=None if rate is None else rate.from_currency,
        exchange_as_of=None if rate is None else rate.as_of,
    )


def _text(amount: Decimal) -> str | None:
    """As a status holds it, without the zeros at its end; None for one that does not fit."""
    text = estimates.amount_text(amount)
    return None if text is None else f"{Decimal(text).normalize():f}"
