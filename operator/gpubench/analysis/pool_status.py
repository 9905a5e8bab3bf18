# SPDX-License-Identifier: Apache-2.0
"""The status of a GpuPool: what the cluster's nodes look like through its selector, and what an hour costs."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gpubench.analysis import node_facts
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.cost import price
from gpubench.plan import pool_prices
from gpubench.scheduler import conditions

READY = "Ready"
PRICE_STALE = "PriceStale"
UNREADABLE = "Unreadable"  # the reason, where a version knows less than the schema of the cluster
_PRICE_DIGITS = 4


def pool_status(
    pool: GpuPool, nodes: Sequence[Mapping[str, Any]], now: float, before: Sequence[Condition] = ()
) -> dict[str, object]:
    """The status of a pool, given the cluster's nodes as the API server lists them."""
    selector = pool.spec.scheduling.node_selector
    matching = [node for node in nodes if node_facts.matches(node, selector)]
    ready = [node for node in matching if node_facts.is_ready(node)]
    terms = pool_prices.terms(pool.spec)
    fees = None if terms is None else terms.fees_per_node_hour
    read = pool_prices.price_date(pool.spec)
    stale = _stale_condition(pool, before=before, now=now)
    return GpuPoolStatus(
        nodes=len(matching),
        ready_nodes=len(ready),
        slots=len(ready) * pool.spec.slots_per_node,
        price_per_node_hour=None if terms is None else _text(terms.rate.per_node_hour, terms.rate.currency),
        fees_per_node_hour=None if fees is None else _text(fees.value, fees.currency),
        price_range=_range_text(pool),
        price_as_of=None if read is None else read.isoformat(),
        conditions=(
            _ready_condition(pool, matching=len(matching), ready=len(ready), before=before, now=now),
            *([] if stale is None else [stale]),
        ),
    ).to_wire()


def unreadable(sentence: str, now: float, before: Sequence[Condition] = ()) -> dict[str, object]:
    """The status of a pool that cannot be read: nothing is known of it but why."""
    said = conditions.plain(READY, holds=None, reason=UNREADABLE, message=sentence, before=before, now=now)
    return GpuPoolStatus(conditions=(said,)).to_wire()


def _text(amount: Decimal, currency: str) -> str:
    return f"{price.rounded(amount, digits=_PRICE_DIGITS)} {currency}"


def _range_text(pool: GpuPool) -> str | None:
    moved = pool_prices.rate_range(pool.spec)
    if moved is None:
        return None
    low, high = (price.rounded(rate.per_node_hour, digits=_PRICE_DIGITS) for rate in (moved.low, moved.high))
    return f"{low} to {high} {moved.low.currency} in {moved.period}"


def _ready_condition(pool: GpuPool, *, matching: int, ready: int, before: Sequence[Condition], now: float) -> Condition:
    if ready:
        reason, message = "NodesReady", f"{ready} of {matching} matching nodes take pods"
    elif matching:
        reason, message = "NoNodeReady", f"none of {matching} matching nodes is ready and schedulable"
    else:
        labels = ", ".join(f"{key}={value}" for key, value in pool.spec.scheduling.node_selector.items()) or "any"
        reason, message = "NoNode", f"no node matches {labels}; fine for a pool that scales from zero"
    return conditions.plain(READY, holds=bool(ready), reason=reason, message=message, before=before, now=now)


def _stale_condition(pool: GpuPool, *, before: Sequence[Condition], now: float) -> Condition | None:
    """Whether its price is too old to go by; None without a price. Costs are computed all the same."""
    today = datetime.fromtimestamp(now, UTC).date()
    age = pool_prices.price_age_days(pool.spec, on=today)
    if age is None:
        return None
    was_read = f"the price was read on {pool_prices.price_date(pool.spec)}"
    holds: bool | None = pool_prices.is_stale(pool.spec, on=today)
    if holds:
        reason, message = "TooOld", f"{was_read}, {age} days ago: read it again, and write it with its asOf"
    elif age < -1:  # a day is what time zones can differ by
        holds, reason = None, "AfterToday"
        message = f"{was_read}, which is after today: write the day on which it was read"
    else:
        reason, message = "Fresh", f"{was_read}; it is called stale after {pool_prices.STALE_AFTER_DAYS} days"
    return conditions.plain(PRICE_STALE, holds=holds, reason=reason, message=message, before=before, now=now)
