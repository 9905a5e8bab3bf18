# SPDX-License-Identifier: Apache-2.0
"""What a schedule costs a month: its nodes for each run, by the provider's minimum, and what is paid beside them.

Source of the model: Max Woolf, November 2018, a cheap cron on preemptible machines.
Of a pool that scales to zero a node is billed from its boot until the autoscaler takes it away, and once for all trials
of a run: so a run is one life of each node it needs, with `costs.coldStart` added to what its pods held. The hours of
the month are the user's, and are shown beside the amount. The result is an estimate. Failures and preemptions are in it
as far as they were in the runs that it is made from.
"""

import statistics
from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from gpubench.analysis import forecast
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import FeePer, GpuBenchmarkScheduleSpec, Monthly, MonthlyLine
from gpubench.cost import billing, price
from gpubench.cost.price import Amount, CostError
from gpubench.plan import pool_prices
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.schedule import cron
from gpubench.schedule.history import Entry, Held
from gpubench.units import counted, duration_seconds, duration_text

Basis = Literal["Measured", "Given", "Estimated"]

#: The newest runs that the length of a run is averaged over.
RUNS_AVERAGED = 10
_SENTENCE_MAX = 480
_PLACES = 6  # of an amount in a status
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
        hourly = cron.runs_per_hour(cron.timetable(spec.schedule, time_zone=spec.time_zone))
    except cron.InvalidSchedule:
        return None
    hours = spec.costs.hours_per_month
    runs = Decimal(hourly.numerator * hours) / hourly.denominator
    known = Monthly(hours=hours, runs=_text(runs), sentence="")
    try:
        if absent := pools_not_there(spec, pools):
            named = ", ".join(absent)
            raise CostError(f"GpuPool {named} is not there: apply it, or correct benchmarkTemplate.spec.sweep")
        plan = freeze(spec.benchmark_template.spec, pools, planned_at, nodes_assumed(pools))
        return _priced(known, spec, plan, entries, runs=runs)
    except CostError as error:
        return known.model_copy(update={"sentence": f"no cost: {error}"[:_SENTENCE_MAX]})


def nodes_assumed(pools: Sequence[GpuPool]) -> dict[str, tuple[str, ...]]:
    """For placement EachNode, where no nodes are known: all that each pool can have are taken to be there."""
    return {pool.name: tuple(f"{pool.name}-{number}" for number in range(pool.spec.max_nodes)) for pool in pools}


def pools_not_there(spec: GpuBenchmarkScheduleSpec, pools: Sequence[GpuPool]) -> tuple[str, ...]:
    """Those that the template names and nobody has made: runs wait for them."""
    there = {pool.name for pool in pools}
    named = (pool for block in spec.benchmark_template.spec.sweep for pool in block.pools)
    return tuple(dict.fromkeys(name for name in named if name not in there))


def _priced(
    known: Monthly, spec: GpuBenchmarkScheduleSpec, plan: Plan, entries: Sequence[Entry], *, runs: Decimal
) -> Monthly:
    basis, lives = _lives(spec, plan, entries)
    terms: dict[str, billing.Terms] = {}
    for life in lives:
        if (found := pool_prices.planned_terms(plan, life.pool)) is None:
            raise CostError(f"GpuPool {life.pool} is not there, or has neither price nor ownership")
        terms[life.pool] = found
    nodes = [
        (f"{life.pool}: {line.name}", line.amount.times(runs))
        for life in lives
        for line in billing.attempt_bill(
            terms[life.pool], node_seconds=[life.seconds] * life.nodes, share=_share(plan, life.pool)
        ).lines
    ]
    currency = spec.costs.currency or next((paid.currency for _, paid in nodes), None)
    if currency is None:
        raise CostError("the benchmark runs on no pool, give its GpuPools a price")
    fees = [(fee, Amount(value=Decimal(fee.amount) * Decimal(fee.count), currency=currency)) for fee in spec.costs.fees]
    of_runs = [(fee.name, paid.times(runs)) for fee, paid in fees if fee.per is FeePer.RUN]
    fixed = [(fee.name, paid) for fee, paid in fees if fee.per is FeePer.MONTH]
    lines = [*nodes, *of_runs, *fixed]
    total = price.total([paid for _, paid in lines])
    compute = sum((paid.value for _, paid in nodes), Decimal(0))
    one_run = (compute + sum((paid.value for _, paid in of_runs), Decimal(0))) / runs if runs else None
    always_on = sum(
        (
            billing.cost_of_hours(terms[life.pool].rate, nodes=1, hours=Decimal(known.hours)).times(life.nodes).value
            for life in lives
        ),
        Decimal(0),
    )
    if max(total.value, one_run or Decimal(0), always_on) >= _AMOUNT_END:
        raise CostError(f"it would be {_AMOUNT_END:,} {total.currency} or more, check prices and rates")
    return known.model_copy(
        update={
            "basis": basis,
            "currency": total.currency,
            "compute": _text(compute),
            "per_run": None if one_run is None else _text(one_run),
            "fixed": _text(sum((paid.value for _, paid in fixed), Decimal(0))),
            "total": _text(total.value),
            "always_on": _text(always_on),
            "lines": tuple(MonthlyLine(name=name, amount=_text(paid.value)) for name, paid in lines),
            "shown": f"{total.currency} {price.rounded(total.value, digits=2)}",
            "sentence": _message(known, lives, basis=basis),
        }
    )


def _share(plan: Plan, pool: str) -> Decimal:
    """The part of its nodes that is paid for, of the point that pays for the most."""
    return max(pool_prices.paid_share(plan, point) for point in plan.points if point.runs and point.key.pool == pool)


# --- how long a run holds its nodes -----------------------------------------------------------------------------------


def _lives(spec: GpuBenchmarkScheduleSpec, plan: Plan, entries: Sequence[Entry]) -> tuple[Basis, tuple[_Life, ...]]:
    """From the newest runs that succeeded on the pools of today, else as the user says, else as the plan is estimated.

    CostError where nothing says it.
    """
    needed = _nodes(plan)
    cold = Decimal(duration_seconds(spec.costs.cold_start))
    succeeded = [
        entry for entry in entries if entry.succeeded and entry.held and {held.pool for held in entry.held} == {*needed}
    ]
    measured: dict[str, list[Held]] = {}
    for entry in succeeded[-RUNS_AVERAGED:]:
        for held in entry.held:
            measured.setdefault(held.pool, []).append(held)
    if measured:
        return "Measured", tuple(_average(pool, held, cold=cold) for pool, held in sorted(measured.items()))
    if spec.costs.expected_run is not None:
        given = Decimal(duration_seconds(spec.costs.expected_run))
        return "Given", tuple(_Life(pool, nodes, given) for pool, nodes in sorted(needed.items()))
    # All gangs are taken to be on the same nodes, but for those that measure one node by itself.
    outlook = forecast.forecast(plan, parallel_trials=spec.benchmark_template.spec.limits.parallel_trials).points
    seconds = dict.fromkeys(needed, 0.0)
    for trial in plan.trials:
        expected, key = outlook[trial.point], plan.points[trial.point].key
        if expected is None:
            raise CostError("how long a run takes is not known, set costs.expectedRun, such as 2m")
        seconds[key.pool] += expected.seconds.mean / (1 if key.node is None else needed[key.pool])
    lives = (_Life(pool, nodes, _whole(seconds[pool]) + cold) for pool, nodes in sorted(needed.items()))
    return "Estimated", tuple(lives)


def _average(pool: str, held: Sequence[Held], *, cold: Decimal) -> _Life:
    """Nodes as of the run in the middle, with all the time of an average one: another node follows a reclaimed one."""
    nodes = statistics.median_high(one.nodes for one in held)
    of_all = sum(one.nodes * one.seconds for one in held)
    return _Life(pool, nodes, _whole(of_all / len(held) / nodes) + cold)


def _nodes(plan: Plan) -> dict[str, int]:
    """The nodes that a run needs of each pool: the most of one attempt, or all that are measured one by one."""
    single: dict[str, set[str]] = {}
    for point in plan.points:
        if point.runs and point.key.node:
            single.setdefault(point.key.pool, set()).add(point.key.node)
    return {pool: max(nodes, len(single.get(pool, ()))) for pool, nodes in forecast.nodes_needed(plan).items()}


def _message(known: Monthly, lives: Sequence[_Life], *, basis: Basis) -> str:
    where = " and ".join(
        f"{counted(life.nodes, 'node')} of {life.pool} for {duration_text(float(life.seconds))}" for life in lives
    )
    how = {
        "Measured": "as the newest runs held them",
        "Given": "as costs.expectedRun says",
        "Estimated": "as is assumed of its trials",
    }[basis]
    return f"{known.runs} runs in {known.hours} hours, each holding {where}, {how}"[:_SENTENCE_MAX]


def _whole(seconds: float) -> Decimal:
    return Decimal(f"{seconds:.0f}")


def _text(value: Decimal) -> str:
    return f"{price.rounded(value, digits=_PLACES).normalize():f}"
