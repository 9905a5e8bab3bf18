# SPDX-License-Identifier: Apache-2.0
"""What the pools of a study cost, in words: the hour, what it is made of, its day and source.

Must not happen: an amount without its currency, or an hour of an own machine without the use that it is spread over.
"""

from decimal import Decimal

from gpubench.api.pool import CapacityType, GpuPool
from gpubench.api.pool_price import ExchangeRate, Ownership, Price
from gpubench.cost import price
from gpubench.plan.plan import Plan
from gpubench.report import text
from gpubench.report.tables import Column

_HOUR_PLACES = 4
_HOUR_DIGITS = 4
_CENTS = 2
UNPRICED = "no price"

COLUMNS = (
    Column(title="POOL"),
    Column(title="CAPACITY"),
    Column(title="ACCELERATOR"),
    Column(title="NODE-HOUR", numeric=True),
    Column(title="MADE OF"),
    Column(title="AS OF"),
    Column(title="SOURCE"),
)


def row(plan: Plan, pool: GpuPool) -> tuple[str, ...]:
    """A pool's line in the table of prices."""
    spec = pool.spec
    dated = spec.price or spec.ownership
    return (
        pool.name,
        CapacityType(spec.capacity_type).value,
        spec.accelerator or text.UNDEFINED,
        hour(plan, pool),
        _made_of(pool),
        text.UNDEFINED if dated is None else dated.as_of,
        (dated.source if dated is not None else "") or text.UNDEFINED,
    )


def hour(plan: Plan, pool: GpuPool) -> str:
    """What an hour of a node costs: in the study's currency, and in the pool's own where that is another one."""
    own, planned = price.rate(pool.spec), price.planned_rate(plan, pool.name)
    if own is None:
        return UNPRICED
    told = _amount(own.per_node_hour, own.currency)
    if planned is None or planned.currency == own.currency:
        return told
    return f"{_amount(planned.per_node_hour, planned.currency)} ({told})"


def exchange(rate: ExchangeRate, *, into: str) -> str:
    """A dated exchange rate, as a sentence."""
    source = f", {rate.source}" if rate.source else ""
    return f"1 {rate.from_currency} is {into} {rate.rate} as of {rate.as_of}{source}."


def _made_of(pool: GpuPool) -> str:
    spec = pool.spec
    if spec.price is not None:
        return _rented(spec.price, slots=spec.slots_per_node)
    if spec.ownership is not None:
        return _owned(spec.ownership)
    if spec.measured_by is not None:
        return f"neither price nor ownership; figures of {spec.measured_by.pool}"
    return "neither price nor ownership"


def _rented(rented: Price, *, slots: int) -> str:
    parts = [_hour(rented, slots=slots)]
    if rented.billing is not None:
        parts.append(f"billed by {rented.billing.increment_seconds} s, at least {rented.billing.minimum_seconds} s")
    parts += [f"{fee.name} {rented.currency} {fee.amount} per {fee.per.lower()}" for fee in rented.fees]
    if rented.setup is not None:
        parts.append(f"setup {rented.currency} {rented.setup} once")
    if rented.range is not None:
        parts.append(f"between {rented.range.low} and {rented.range.high} in {rented.range.period}")
    return "; ".join(parts)


def _hour(rented: Price, *, slots: int) -> str:
    if rented.per_slot_hour is not None:
        return f"{slots} slots at {rented.currency} {rented.per_slot_hour} an hour"
    if rented.per_month is not None:
        return f"{rented.currency} {rented.per_month} a month over {rented.hours_per_month} hours of use"
    if rented.components is not None:
        return " + ".join(f"{one.count} x {one.name} at {one.per_hour}" for one in rented.components)
    return "price of a node"


def _owned(owner: Ownership) -> str:
    residual = f" less {owner.residual}" if Decimal(owner.residual) else ""
    fixed = f", {owner.currency} {owner.per_month} a month fixed" if Decimal(owner.per_month) else ""
    idle = f" ({owner.idle_watts} W idle)" if owner.idle_watts else ""
    power = f", {owner.watts} W{idle} at {owner.currency} {owner.per_kilowatt_hour}/kWh" if owner.watts else ""
    return (
        f"{owner.currency} {owner.purchase}{residual} over {owner.lifetime_months} months{fixed}{power}; "
        f"{owner.hours_per_month} hours of use a month"
    )


def _amount(value: Decimal, currency: str) -> str:
    places = max(_HOUR_PLACES, _HOUR_DIGITS - 1 - value.adjusted()) if value else _HOUR_PLACES
    shown = text.number(value, places=places)
    whole, _, cents = shown.partition(".")
    return f"{currency} {whole}.{cents.rstrip('0').ljust(_CENTS, '0')}"
