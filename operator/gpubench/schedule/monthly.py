# SPDX-License-Identifier: Apache-2.0
"""What a schedule costs a month: its nodes for each run, by the provider's minimum, and what is paid beside them.

Source of the model: Max Woolf, November 2018, a cheap cron on preemptible machines; `money.recurring` has his formulas.
Of a pool that scales to zero a node is billed from its boot until the autoscaler takes it away, and once for all trials
of a run: so a run is one life of each node it needs, with `costs.coldStart` added to what its pods held. Hours of the
month are the user's, and stand beside the amount. What comes out is an estimate; failures and preemptions are in it as
far as they were in the runs that it rests on.
"""

import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from gpubench.analysis import forecast
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import FeePer, GpuBenchmarkScheduleSpec, Monthly, MonthlyLine
from gpubench.cost import billing, price, recurring
from gpubench.cost.amount import Amount
from gpubench.cost.refusals import RefusedInput
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.schedule import cron
from gpubench.schedule.cron import InvalidSchedule
from gpubench.schedule.history import Entry, Held
from gpubench.units import duration_seconds, duration_text

Basis = Literal["Measured", "Given", "Estimated"]

#: The newest runs that the length of a run is averaged over.
RUNS_AVERAGED = 10
_HOURS_PER_DAY = 24
_PLACES = 6
_SHOWN_PLACES = 2
_AMOUNT_END = 10**12  # of a DecimalText


class _Life(NamedTuple):
    """How long a run holds its nodes of a pool, from boot to removal."""

    pool: str
    nodes: int
    seconds: Decimal


def projected(
    spec: GpuBenchmarkScheduleSpec, pools: Sequence[GpuPool], entries: Sequence[Entry], *, planned_at: str
) -> Monthly | None:
    """The monthly cost; without amounts where they are not known. None where the schedule cannot be read."""
    try:
        table = cron.timetable(spec.schedule, time_zone=spec.time_zone)
    except InvalidSchedule:
        return None
    hourly = cron.runs_per_hour(table)
    hours = spec.costs.hours_per_month
    runs = Decimal(hourly.numerator * hours) / hourly.denominator
    known = Monthly(hours=hours, runs=_text(runs), sentence="")
    plan = freeze(spec.benchmark_template.spec, pools, planned_at, nodes_assumed(pools))
    if absent := pools_not_there(spec, pools):
        return _without(known, f"no cost: {_not_there(absent)}")
    basis, lives = _lives(spec, plan, entries)
    if basis is None:
        return _without(known, "no cost: how long a run takes is not known, set costs.expectedRun, such as 2m")
    try:
        return _priced(known, spec, plan, lives, basis=basis, runs=runs)
    except RefusedInput as error:
        return _without(known, f"no cost: {error}")


def nodes_assumed(pools: Sequence[GpuPool]) -> dict[str, tuple[str, ...]]:
    """For placement EachNode, where no nodes are known: all that each pool can have are taken to be there."""
    return {pool.name: tuple(f"{pool.name}-{number}" for number in range(pool.spec.max_nodes)) for pool in pools}


def pools_not_there(spec: GpuBenchmarkScheduleSpec, pools: Sequence[GpuPool]) -> tuple[str, ...]:
    """Those that the template names and nobody has made: runs wait for them."""
    there = {pool.name for pool in pools}
    named = (pool for block in spec.benchmark_template.spec.sweep for pool in block.pools)
    return tuple(dict.fromkeys(name for name in named if name not in there))


def _not_there(absent: Sequence[str]) -> str:
    return f"GpuPool {', '.join(absent)} is not there: apply it, or correct benchmarkTemplate.spec.sweep"


def _without(known: Monthly, sentence: str) -> Monthly:
    return known.model_copy(update={"sentence": sentence[:480]})


def _priced(
    known: Monthly, spec: GpuBenchmarkScheduleSpec, plan: Plan, lives: Sequence[_Life], *, basis: Basis, runs: Decimal
) -> Monthly:
    terms = {life.pool: price.planned_terms(plan, life.pool) for life in lives}
    unpriced = sorted(pool for pool, found in terms.items() if found is None)
    if unpriced:
        return _without(known, f"no cost: GpuPool {unpriced[0]} is not there, or has neither price nor ownership")
    priced = {pool: found for pool, found in terms.items() if found is not None}
    of_nodes = _of_nodes(plan, lives, priced, runs=runs)
    currency = spec.costs.currency or next((one.currency for _, one in of_nodes), None)
    if currency is None:
        return _without(known, "no cost: the study runs on no pool, give its GpuPools a price")
    fees = {
        per: [
            (fee.name, Amount(value=Decimal(fee.amount) * Decimal(fee.count), currency=currency))
            for fee in spec.costs.fees
            if fee.per is per
        ]
        for per in FeePer
    }
    of_runs = [(name, paid.times(runs)) for name, paid in fees[FeePer.RUN]]
    whole = recurring.monthly_cost([*of_nodes, *of_runs, *fees[FeePer.MONTH]])
    compute = sum((paid.value for _, paid in of_nodes), Decimal(0))
    per_run = compute + sum((paid.value for _, paid in of_runs), Decimal(0))
    total = whole.total
    one_run = per_run / runs if runs else None
    always_on = _always_on(lives, priced, hours=known.hours)
    if max(total.value, one_run or Decimal(0), always_on) >= _AMOUNT_END:
        return _without(known, f"no cost: it would be {_AMOUNT_END:,} {total.currency} or more, check prices and rates")
    return known.model_copy(
        update={
            "basis": basis,
            "currency": total.currency,
            "compute": _text(compute),
            "per_run": None if one_run is None else _text(one_run),
            "fixed": _text(sum((paid.value for _, paid in fees[FeePer.MONTH]), Decimal(0))),
            "total": _text(total.value),
            "always_on": _text(always_on),
            "lines": tuple(MonthlyLine(name=line.name, amount=_text(line.amount.value)) for line in whole.lines),
            "shown": f"{total.currency} {price.rounded(total.value, digits=_SHOWN_PLACES)}",
            "sentence": _sentence(known, lives, basis=basis),
        }
    )


def _of_nodes(
    plan: Plan, lives: Sequence[_Life], terms: Mapping[str, billing.Terms], *, runs: Decimal
) -> list[tuple[str, Amount]]:
    """What the nodes of all runs of a month are billed, pool by pool, with what their pools ask beside it."""
    found = []
    for life in lives:
        bill = billing.attempt_bill(
            terms[life.pool], node_seconds=[life.seconds] * life.nodes, share=_share(plan, life.pool)
        )
        found += [(f"{life.pool}: {line.name}", line.amount.times(runs)) for line in bill.lines]
    return found


def _share(plan: Plan, pool: str) -> Decimal:
    """The part of its nodes that is paid for, of the point that pays for the most."""
    return max(price.paid_share(plan, point) for point in plan.points if point.runs and point.key.pool == pool)


def _always_on(lives: Sequence[_Life], terms: Mapping[str, billing.Terms], *, hours: int) -> Decimal:
    return sum(
        (
            recurring.always_on_month(terms[life.pool].rate, hours=Decimal(hours)).times(life.nodes).value
            for life in lives
        ),
        Decimal(0),
    )


# --- how long a run holds its nodes -----------------------------------------------------------------------------------


def _lives(
    spec: GpuBenchmarkScheduleSpec, plan: Plan, entries: Sequence[Entry]
) -> tuple[Basis | None, tuple[_Life, ...]]:
    needed = _nodes(plan)
    cold = Decimal(duration_seconds(spec.costs.cold_start))
    if measured := _measured(entries, needed):
        return "Measured", tuple(_average(pool, held, cold=cold) for pool, held in sorted(measured.items()))
    if spec.costs.expected_run is not None:
        given = Decimal(duration_seconds(spec.costs.expected_run))
        return "Given", tuple(_Life(pool, nodes, given) for pool, nodes in sorted(needed.items()))
    return _estimated(plan, needed, cold, parallel=spec.benchmark_template.spec.limits.parallel_trials)


def _average(pool: str, held: Sequence[Held], *, cold: Decimal) -> _Life:
    """Nodes as of the run in the middle, with all the time of an average one: another node follows a reclaimed one."""
    nodes = statistics.median_high(one.nodes for one in held)
    of_all = sum(one.nodes * one.seconds for one in held)
    return _Life(pool, nodes, _whole(of_all / len(held) / nodes) + cold)


def _measured(entries: Sequence[Entry], needed: Mapping[str, int]) -> dict[str, list[Held]]:
    """Of the newest runs that succeeded on the pools of today: nodes, and how long each run held them."""
    whole = [
        entry for entry in entries if entry.succeeded and entry.held and {held.pool for held in entry.held} == {*needed}
    ]
    found: dict[str, list[Held]] = {}
    for entry in whole[-RUNS_AVERAGED:]:
        for held in entry.held:
            found.setdefault(held.pool, []).append(held)
    return found


def _estimated(
    plan: Plan, needed: Mapping[str, int], cold: Decimal, *, parallel: int
) -> tuple[Basis | None, tuple[_Life, ...]]:
    """All gangs are taken to be on the same nodes, but for those that measure one node by itself."""
    outlook = forecast.forecast(plan, parallel_trials=parallel).points
    seconds = dict.fromkeys(needed, 0.0)
    for trial in plan.trials:
        expected, key = outlook[trial.point], plan.points[trial.point].key
        if expected is None:
            return None, ()
        seconds[key.pool] += expected.seconds.mean / (1 if key.node is None else needed[key.pool])
    return "Estimated", tuple(
        _Life(pool, nodes, _whole(seconds[pool]) + cold) for pool, nodes in sorted(needed.items())
    )


def _nodes(plan: Plan) -> dict[str, int]:
    """The nodes that a run needs of each pool: the most of one attempt, or all that are measured one by one."""
    measured = {
        pool: len({one.key.node for one in plan.points if one.runs and one.key.pool == pool and one.key.node})
        for pool in {point.key.pool for point in plan.points}
    }
    return {pool: max(nodes, measured[pool]) for pool, nodes in forecast.nodes_needed(plan).items()}


# --- words ------------------------------------------------------------------------------------------------------------


def _sentence(known: Monthly, lives: Sequence[_Life], *, basis: Basis) -> str:
    where = " and ".join(
        f"{life.nodes} node{'' if life.nodes == 1 else 's'} of {life.pool} for {duration_text(float(life.seconds))}"
        for life in lives
    )
    how = {
        "Measured": "as the newest runs held them",
        "Given": "as costs.expectedRun says",
        "Estimated": "as is assumed of its trials",
    }[basis]
    return f"{known.runs} runs in {known.hours} hours, each holding {where}, {how}"[:480]


def _whole(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.0f}")


def _text(value: Decimal) -> str:
    """An amount, or a number of runs, in a status."""
    rounded = price.rounded(value, digits=_PLACES)
    return f"{rounded.normalize():f}"
