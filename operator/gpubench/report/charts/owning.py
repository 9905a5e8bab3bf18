# SPDX-License-Identifier: Apache-2.0
"""What an own machine gains against rented ones, by how much it is used (Parkopedia, 2018, its figure of that name).

Must not happen: a gain over a machine whose price is in another currency, or of different work.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench import workloads
from gpubench.api.pool import GpuPool
from gpubench.api.pool_price import Ownership
from gpubench.cost import breakeven, ownership, price
from gpubench.cost.amount import Rate
from gpubench.report import text
from gpubench.report.charts import points
from gpubench.report.charts.points import Entry
from gpubench.report.document import Axis, Curves, Mark, Missing, Series
from gpubench.report.tables import Column
from gpubench.values import Interval

_USE_STEPS = 20


class _PerNode(NamedTuple):
    """What one node of a pool does for one work, at the point that makes most of its price."""

    label: str
    pool: GpuPool
    rate: Rate | None  # in the study's currency
    ownership: Ownership | None  # in the study's currency
    throughput: Decimal
    hollow: bool


def gains(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """How many times as many samples money buys on an own machine as on rented ones, by how much it is used."""
    title = "Gain of the own machine against its use"
    owned = [entry for entry in entries if _ownership(entry) is not None]
    if not entries:
        return (Missing(title=title, reason=points.nothing(entries)),)
    if not owned:
        return (Missing(title=title, reason="no pool of this report has an ownership: all of them are rented"),)
    found: list[Curves] = []
    reasons: dict[str, None] = {}
    for one, members in points.together(entries):
        nodes = _nodes_of(members)
        rented = [node for node in nodes if node.pool.spec.price is not None]
        for own in (node for node in nodes if node.pool.spec.ownership is not None):
            if not rented:
                reasons[f"no rented pool with a price has a throughput of the same work as {own.pool.name}"] = None
                continue
            alike = [node for node in rented if _in_one_currency(own, node)]
            if not alike:
                reasons[f"{own.pool.name} and the rented pools have prices in different currencies"] = None
                continue
            found.append(_gain(one, own, alike[: points.SERIES_MAX], name=f"gain-{len(found) + 1}"))
    if found:
        return tuple(found)
    return (Missing(title=title, reason="; ".join(reasons) or points.nothing(owned)),)


def _gain(one: str, own: _PerNode, rented: Sequence[_PerNode], *, name: str) -> Curves:
    owner = own.ownership
    assert owner is not None  # the caller has chosen it for that
    series, sentences = [], []
    for other in rented:
        rate = other.rate
        assert rate is not None  # the caller has chosen it for that
        series.append(Series(name=f"against {other.label}", marks=_gain_marks(owner, own, other, rate), dots=False))
        sentences.append(f"Against {other.label} {_break_even(owner, own, other, rate)}.")
    stated = f"Its owner states {owner.hours_per_month} hours of use a month."
    return Curves(
        name=name,
        title=f"Gain of {own.label} against its use: {one}",
        description=(
            "Samples that a unit of money buys on the own machine over those that it buys on the rented one, by the "
            f"share of the month's {ownership.HOURS_PER_MONTH} hours in which the own machine is used; above 1 owning "
            f"is cheaper. {' '.join(sentences)} {stated}"
        ),
        x=Axis(title="use of the own machine", percent=True, from_zero=True),
        y=Axis(title="gain", from_zero=True),
        series=tuple(series),
        columns=(Column(title="GAIN"), Column(title="USE", numeric=True), Column(title="TIMES", numeric=True)),
        level=1.0,
        level_name="as cheap as rented",
    )


def _gain_marks(owner: Ownership, own: _PerNode, other: _PerNode, rate: Rate) -> tuple[Mark, ...]:
    steps = [ownership.HOURS_PER_MONTH * step / _USE_STEPS for step in range(1, _USE_STEPS + 1)]
    told = ownership.gains(
        owner,
        throughput=own.throughput,
        rented=rate,
        rented_throughput=other.throughput,
        hours_per_month=steps,
    )
    return tuple(
        Mark(
            x=float(one.utilisation),
            y=float(one.gain),
            hollow=own.hollow or other.hollow,
            said=(
                text.percent(Interval(mean=float(one.utilisation))),
                text.bounded(Interval(mean=float(one.gain))),
            ),
        )
        for one in told
    )


def _break_even(owner: Ownership, own: _PerNode, other: _PerNode, rate: Rate) -> str:
    return breakeven.break_even_use(owner, rented=rate, relative_speed=own.throughput / other.throughput).sentence


def _in_one_currency(own: _PerNode, other: _PerNode) -> bool:
    """Whether the two can be compared; a rented node for nothing buys any number of samples."""
    owned, rate = own.ownership, other.rate
    return owned is not None and rate is not None and owned.currency == rate.currency and rate.per_node_hour > 0


def _nodes_of(members: Sequence[Entry]) -> list[_PerNode]:
    """Each pool at the point at which a node of it does most."""
    found: dict[str, _PerNode] = {}
    for entry in members:
        pool, speed = points.planned_pool(entry.plan, entry.point.pool), entry.point.throughput
        if entry.plan is None or pool is None or speed is None or entry.point.workload == workloads.MESSAGES:
            continue
        nodes = points.nodes_paid(entry.point, pool)
        node = _PerNode(
            label=points.name(entry),
            pool=pool,
            rate=price.planned_rate(entry.plan, pool.name),
            ownership=price.planned_ownership(entry.plan, pool.name),
            throughput=Decimal(speed.mean) / nodes,
            hollow=points.is_hollow(entry.point),
        )
        before = found.get(points.pool_name(entry))
        if before is None or node.throughput > before.throughput:
            found[points.pool_name(entry)] = node
    return list(found.values())


def _ownership(entry: Entry) -> Ownership | None:
    pool = points.planned_pool(entry.plan, entry.point.pool)
    return None if pool is None else pool.spec.ownership
