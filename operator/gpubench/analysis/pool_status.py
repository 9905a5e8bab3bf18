# SPDX-License-Identifier: Apache-2.0
"""The status of a GpuPool: how many of its nodes take pods, what is not as it says of them, and what they cost."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from gpubench import units
from gpubench.analysis import machines, node_facts, text
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.cost import price
from gpubench.plan import overlap, pool_prices
from gpubench.scheduler import conditions

READY = "Ready"
PRICE_STALE = "PriceStale"
UNREADABLE = "Unreadable"  # the reason, where a version knows less than the schema of the cluster
_PRICE_DIGITS = 4


def unlike(pool: GpuPool, nodes: Sequence[node_facts.Node], others: Sequence[GpuPool] = ()) -> Iterator[str]:
    """What is not as the pool says: of its nodes, those that another one takes at another price, and their types."""
    found: dict[str, list[str]] = {}
    own = (None, pool.spec.slot.gpu_resource)
    rivals = [
        (one.spec.scheduling, f"is a node of GpuPool {one.name}, too, of another {units.listed(differing)}")
        for one in others
        if pool.spec.measured_by is None and (one.spec.measured_by, one.spec.slot.gpu_resource) == own
        if (differing := overlap.differences(pool.spec, one.spec))
    ]
    for node in nodes:
        name = node_facts.name(node)
        if (said := machines.mismatch(pool.spec, node_facts.machine(node))) is not None:
            found.setdefault(f"is {said}", []).append(name)
        for scheduling, why in rivals:
            if node_facts.belongs(node, scheduling) and node_facts.untolerated(node, scheduling.tolerations) is None:
                found.setdefault(why, []).append(name)
    yield from (f"{text.shortened(of)} {why}" for why, of in found.items())
    if len(types := sorted({*filter(None, map(node_facts.instance_type, nodes))})) > 1:
        yield f"its nodes are of several types ({text.shortened(types)}), and it has one price"


def of(
    pool: GpuPool,
    nodes: Sequence[node_facts.Node],
    now: float,
    before: Sequence[Condition] = (),
    *,
    others: Sequence[GpuPool] = (),
    generation: int | None = None,
) -> dict[str, object]:
    """The status of a pool, given the cluster's nodes as the API server lists them, and its other pools."""
    matching = [node for node in nodes if node_facts.belongs(node, pool.spec.scheduling)]
    wanted, remarks = pool.spec.slot.gpu_resource, dict[str, list[str]]()
    ready = 0
    for node in matching:
        lacks = f"offers no {wanted}" if wanted is not None and not node_facts.amount(node, wanted) else None
        why = node_facts.away(node) or lacks
        ready += why is None
        if why is None and pool.spec.has_gpus and node_facts.unfit_gpus(node) is node_facts.Unfit.SHARED:
            why = node_facts.WORDS[node_facts.Unfit.SHARED][0]
        if why is not None:
            remarks.setdefault(why, []).append(node_facts.name(node))
    if ready:
        reason, message = "NodesReady", f"{ready} of {len(matching)} matching nodes take pods"
    elif matching:
        reason, message = "NoNodeReady", f"none of {len(matching)} matching nodes takes pods"
    else:
        selector = [f"{key}={value}" for key, value in pool.spec.scheduling.node_selector.items()]
        affinity = ["its nodeAffinity"] if pool.spec.scheduling.node_selector_terms else []
        listed = ", ".join([*selector, *affinity]) or "any"
        reason, message = "NoNode", f"no node matches {listed}; fine for a pool that scales from zero"
    away_or_shared = (f"{text.shortened(of)} {why}" for why, of in remarks.items())
    message = "; ".join([message, *away_or_shared, *unlike(pool, matching, others)])
    found: dict[str, tuple[bool | None, str, str]] = {READY: (bool(ready), reason, message)}
    if (staleness := _staleness(pool, on=datetime.fromtimestamp(now, UTC).date())) is not None:
        found[PRICE_STALE] = staleness
    terms, moved = pool_prices.terms(pool.spec), pool_prices.rate_range(pool.spec)
    fees = None if terms is None else terms.fees_per_node_hour
    read = pool_prices.price_date(pool.spec)
    price_range = None
    if moved is not None:
        low, high = (price.rounded(rate.per_node_hour, digits=_PRICE_DIGITS) for rate in (moved.low, moved.high))
        price_range = f"{low} to {high} {moved.low.currency} in {moved.period}"
    return GpuPoolStatus(
        observed_generation=generation,
        nodes=len(matching),
        ready_nodes=ready,
        slots=ready * pool.spec.slots_per_node,
        price_per_node_hour=None if terms is None else _text(terms.rate.per_node_hour, terms.rate.currency),
        fees_per_node_hour=None if fees is None else _text(fees.value, fees.currency),
        price_range=price_range,
        price_as_of=None if read is None else read.isoformat(),
        conditions=conditions.as_conditions(found, before=before, generation=generation, now=now),
    ).to_wire()


def unreadable(
    message: str, now: float, before: Sequence[Condition] = (), *, generation: int | None = None
) -> dict[str, object]:
    """The status of a pool that cannot be read: nothing is known of it but why."""
    wanted = {READY: (None, UNREADABLE, message)}
    found = conditions.as_conditions(wanted, before=before, generation=generation, now=now)
    return GpuPoolStatus(observed_generation=generation, conditions=found).to_wire()


def _text(amount: Decimal, currency: str) -> str:
    return f"{price.rounded(amount, digits=_PRICE_DIGITS)} {currency}"


def _staleness(pool: GpuPool, *, on: date) -> tuple[bool | None, str, str] | None:
    if (read := pool_prices.price_date(pool.spec)) is None:
        return None
    age, was_read = (on - read).days, f"the price was read on {read}"
    if age > pool_prices.STALE_AFTER_DAYS:
        return True, "TooOld", f"{was_read}, {age} days ago: read it again, and write it with its asOf"
    if age < -1:  # a day is what time zones can differ by
        return None, "AfterToday", f"{was_read}, which is after today: write the day on which it was read"
    return False, "Fresh", f"{was_read}; it is called stale after {pool_prices.STALE_AFTER_DAYS} days"
