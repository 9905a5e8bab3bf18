# SPDX-License-Identifier: Apache-2.0
"""What `spec.objective` asks for: which pool, how many workers, at what cost, how sure; or what is missing to say so.

Every measured point of the goal's workload is something that could be had, and so is every worker count that the law of
its line (`measure.scaling_law`) predicts: the doublings of the smallest measured count that the pool can hold, up to
twice the largest one. A line that was measured within one node says nothing about the network between nodes, and is not
predicted beyond that node. Other precisions, data or numbers of epochs are other work: each has advice of its own, as
nothing is ranked across them. Points that never settled are left out, and those that were not run are advised for their
price, never for their speed.

Must not happen: advice without the word whether it was measured; a question that could be answered by a few more runs
without what these would cost.
"""

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from gpubench.analysis import advisor, answer, costs, text
from gpubench.analysis.advisor import Advice, Candidate, Considered, Gang, Line
from gpubench.api.benchmark_status import Best, BestShown
from gpubench.api.goals import Goal, Objective
from gpubench.api.measuring import Mode
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, PointResult, PointState
from gpubench.api.pool import CapacityType
from gpubench.api.status_sizes import BEST_POOL_MAX
from gpubench.cost import billing
from gpubench.cost.billing import CostInterval
from gpubench.cost.price import Amount, CostError
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import conditions, stopping
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.stats import compare, intervals, scaling_law
from gpubench.stats.scaling_law import Law, Speed, Undetermined
from gpubench.units import counted, workers_text
from gpubench.values import Interval

_NOTES_MAX = 2
_NOTHING = "nothing was measured; the reason stands with each point."
_CAPACITY = {
    CapacityType.ON_DEMAND: "on demand",
    CapacityType.SPOT: "spot",
    CapacityType.PREEMPTIBLE: "preemptible",
    CapacityType.RESERVED: "reserved",
    CapacityType.OWNED: "owned",
}
_BASIS = {Basis.REPRICED: ", re-priced", Basis.EXTRAPOLATED: ", extrapolated", Basis.IMPORTED: ", imported"}


class _Entry(NamedTuple):
    """A point with its figures."""

    number: int  # among the points of the plan
    point: Point
    result: PointResult


class _Known(NamedTuple):
    """What a benchmark knows of one kind of work."""

    entries: Sequence[_Entry]  # its points that have figures
    everything: Sequence[_Entry]  # and those of all other work
    planned: Sequence[Point]  # its points, with figures or without


class Advised(NamedTuple):
    """The advice on one kind of work."""

    message: str  # with the question before it
    advice: Advice | None  # None where nothing was measured, or prices cannot be compared


class _LineKey(NamedTuple):
    """What the points of a line have in common, besides their work."""

    pool: str
    kind: Literal["weak", "strong"]
    batch: int  # per worker, or global
    variant: str | None


def messages(
    plan: Plan, ledger: Ledger, results: Sequence[PointResult], objective: Objective | None, goals: Sequence[Goal]
) -> tuple[str, ...]:
    """The advice as messages, one for each kind of work that reaches the goal; empty without an objective."""
    return tuple(one.message for one in advised(plan, ledger, results, objective, goals))


def advised(
    plan: Plan, ledger: Ledger, results: Sequence[PointResult], objective: Objective | None, goals: Sequence[Goal]
) -> tuple[Advised, ...]:
    """The advice on each kind of work that reaches the goal; none without an objective."""
    goal = next((goal for goal in goals if objective is not None and goal.name == objective.goal), None)
    if objective is None or goal is None:
        return ()
    every = [
        _Entry(index, point, result) for index, (point, result) in enumerate(zip(plan.points, results, strict=True))
    ]
    everything = [one for one in every if one.result.state is PointState.MEASURED and one.result.throughput is not None]
    found = [one for one in everything if one.result.workload == goal.workload]
    works = list(dict.fromkeys(answer.work(one.result) for one in found))
    if not works:
        return (Advised(f"{_asked(objective, goal, goal.workload)} {_NOTHING}", None),)
    knowns = (
        _Known(
            entries=[one for one in found if answer.work(one.result) == work],
            everything=everything,
            planned=[one.point for one in every if answer.work(one.result) == work],
        )
        for work in works
    )
    return tuple(_of_work(plan, ledger, known, objective, goal) for known in knowns)


def _of_work(plan: Plan, ledger: Ledger, known: _Known, objective: Objective, goal: Goal) -> Advised:
    entries = known.entries
    head = _asked(objective, goal, answer.work_text(entries[0].result))
    try:
        gangs, laws = _gangs(plan, known, objective)
        found = advisor.considered(gangs, {_line(key): law for key, law in laws.items()})
        advice = _advice(plan, found, objective, goal)
    except CostError as error:
        return Advised(f"{head} {error}; give spec.currency and exchangeRates.", None)
    further: Iterable[str] = ()
    if advice.chosen is None:  # what measuring the first of the gangs would cost that nobody can judge
        unjudged = [gang for gang in gangs if all(option.gang is not gang for option in found.options)]
        if unjudged:
            cost = _cost(plan, ledger, entries, unjudged[:1], runs=_runs(plan))
            further = [f"{_runs(plan)} runs of {_short(unjudged[0])} would cost {cost}."]
    else:
        further = _surer(plan, ledger, entries, advice, chosen=advice.chosen, by_cost=objective.minimize == "Cost")
    return Advised(" ".join([head, advice.message, *_notes(advice, found), *further]), advice)


def _asked(objective: Objective, goal: Goal, work: str) -> str:
    """The question: `Objective imagenet (least cost of 153,600,000 samples of resnet50 in float32):`."""
    least = {"Cost": "least cost", "Time": "least time"}[objective.minimize]
    return f"Objective {goal.name} ({least} of {goal.samples:,} samples of {work}):"


def _gangs(plan: Plan, known: _Known, objective: Objective) -> tuple[list[Gang], dict[_LineKey, Law | Undetermined]]:
    """What there is to choose from, and the laws of the lines."""
    # What was not run wins no comparison of speed.
    run = [one for one in known.entries if one.point.basis in SOURCES]
    taken = known.entries if objective.minimize == "Cost" else run
    laws = _laws(run, known.everything)
    return [
        *(_measured(plan, one) for one in taken),
        *(gang for key in laws for gang in _predicted(plan, run, key, law=laws[key], planned=known.planned)),
    ], laws


def _advice(plan: Plan, found: Considered, objective: Objective, goal: Goal) -> Advice:
    if objective.minimize == "Cost":
        hours = None if objective.max_hours is None else Decimal(repr(objective.max_hours)).normalize()
        return advisor.cheapest_by(found, samples=goal.samples, hours=hours)
    budget = None
    if objective.max_cost is not None:
        assert plan.currency is not None  # a rule of the spec
        budget = Amount(value=Decimal(objective.max_cost), currency=plan.currency)
    return advisor.fastest_within(found, samples=goal.samples, budget=budget)


# --- what there is to choose from -------------------------------------------------------------------------------------


def _measured(plan: Plan, one: _Entry) -> Gang:
    assert one.result.throughput is not None
    source = expand.source_of(plan, one.point) if one.point.basis is Basis.REPRICED else one.number
    return Gang(
        line=_line(_keys(one.point)[0]),
        workers=one.point.key.workers,
        nodes=plan.paid_nodes(one.point),
        nodes_held=one.point.nodes,
        rate=pool_prices.planned_rate(plan, one.point.key.pool),
        measured=one.result.throughput,
        remark=_remark(plan, one.point),
        runs=source,
    )


def _predicted(
    plan: Plan, entries: Sequence[_Entry], key: _LineKey, *, law: Law | Undetermined, planned: Sequence[Point]
) -> Iterator[Gang]:
    """Worker counts of a line that nobody has tried and that could be had.

    One that was tried and has no figure did not fit, or never settled: no law knows better.
    """
    of_line = _on(entries, key)
    counts = {one.point.key.workers for one in of_line}
    tried = {point.key.workers for point in planned if key in _keys(point)}
    base = min(of_line, key=lambda one: one.point.key.workers).point
    spec = plan.pool(key.pool).spec
    several = [one.point.key.workers_per_node for one in of_line if one.point.nodes > 1]
    per_node = several[0] if several else spec.slots_per_node
    workers = min(counts)
    while (workers := 2 * workers) <= scaling_law.REACH * max(counts):
        beyond_its_node = workers > per_node and not several and isinstance(law, Law)
        if workers in tried or beyond_its_node:
            continue
        batch, rest = (key.batch, 0) if key.kind == "weak" else divmod(key.batch, workers)
        divided = bool(batch) and not rest
        place = expand.not_placed(
            key.pool, spec, workers=workers, workers_per_node=per_node, batch=key.batch, divided=divided
        )
        if place is None:
            point = _of_workers(base, workers, per_node=per_node, batch=batch)
            yield Gang(
                line=_line(key),
                workers=workers,
                nodes=plan.paid_nodes(point),
                nodes_held=point.nodes,
                rate=pool_prices.planned_rate(plan, key.pool),
                remark=_remark(plan, point),
            )


def _of_workers(point: Point, workers: int, *, per_node: int, batch: int) -> Point:
    """The point with another number of workers."""
    changes = {
        "workers": workers,
        "workers_per_node": min(workers, per_node),
        "batch_per_worker": batch,
        "global_batch": batch * workers,
    }
    return point.model_copy(update={"key": point.key.model_copy(update=changes)})


def _remark(plan: Plan, point: Point) -> str:
    """How its nodes are rented, and whether its figures are another point's."""
    return f"{_CAPACITY[plan.pool(point.key.pool).spec.capacity_type]}{_BASIS.get(point.basis, '')}"


# --- lines and their laws ---------------------------------------------------------------------------------------------


def _laws(entries: Sequence[_Entry], everything: Sequence[_Entry]) -> dict[_LineKey, Law | Undetermined]:
    """The law of each line of these points. All other lines of its pool may tell it of scatter."""
    keys = list(dict.fromkeys(key for one in entries for key in _keys(one.point)))
    others = _lines(everything)
    return {
        key: _law(
            _on(entries, key),
            siblings=[
                _speeds(line)
                for (other, work), line in others.items()
                if other.pool == key.pool and (other, work) != (key, answer.work(entries[0].result)) and _is_one(line)
            ],
        )
        for key in keys
    }


def _lines(everything: Sequence[_Entry]) -> dict[tuple[_LineKey, tuple[object, ...]], list[_Entry]]:
    """All lines of a benchmark, by their key and their work."""
    found: dict[tuple[_LineKey, tuple[object, ...]], list[_Entry]] = {}
    for one in everything:
        for key in _keys(one.point) if one.point.basis in SOURCES else ():
            found.setdefault((key, answer.work(one.result)), []).append(one)
    return found


def _is_one(line: Sequence[_Entry]) -> bool:
    """Whether all points of a line ran in one environment."""
    return len({one.result.environment for one in line}) == 1


def _law(of_line: Sequence[_Entry], *, siblings: Sequence[Sequence[Speed]]) -> Law | Undetermined:
    if not _is_one(of_line):
        return Undetermined(
            reason="its points ran in different environments, and no law holds across them: pin the image by digest, "
            "or restrict the pool to equal nodes"
        )
    return scaling_law.fit(_speeds(of_line), siblings=siblings)


def _speeds(of_line: Sequence[_Entry]) -> list[Speed]:
    """One of each worker count: of two shapes the one on the fewest nodes, as for efficiency."""
    found: dict[int, _Entry] = {}
    for one in sorted(of_line, key=lambda one: one.point.nodes):
        found.setdefault(one.point.key.workers, one)
    return [
        Speed(workers=workers, throughput=one.result.throughput.mean)
        for workers, one in sorted(found.items())
        if one.result.throughput is not None
    ]


def _on(entries: Sequence[_Entry], key: _LineKey) -> list[_Entry]:
    """The points of a line."""
    return [one for one in entries if key in _keys(one.point)]


def _keys(point: Point) -> list[_LineKey]:
    """The lines that a point lies on, the weak one first."""
    key = point.key
    variant = key.variant.name if key.variant is not None else None
    batches = {"weak": key.batch_per_worker, "strong": key.global_batch}
    kinds: tuple[Literal["weak", "strong"], ...] = ("weak", "strong")
    return [
        _LineKey(key.pool, kind, batch, variant)
        for kind in kinds
        if kind in point.lines and (batch := batches[kind]) is not None
    ]


def _line(key: _LineKey) -> Line:
    batch = f"batch {key.batch}" if key.kind == "weak" else f"global batch {key.batch}"
    return Line(key.pool, batch if key.variant is None else f"{batch} with {key.variant}")


# --- what is missing --------------------------------------------------------------------------------------------------


def _notes(advice: Advice, found: Considered) -> Iterator[str]:
    """What was not compared; and why others could not be judged, where that may be what the answer lacks."""
    is_answered = advice.chosen is not None and advice.sure
    notes = [note for note in advice.notes if not (is_answered and note in found.notes)]
    yield from notes[:_NOTES_MAX]
    if (more := len(notes) - _NOTES_MAX) > 0:
        yield f"So it is with {more} more."


def _surer(
    plan: Plan, ledger: Ledger, entries: Sequence[_Entry], advice: Advice, *, chosen: Candidate, by_cost: bool
) -> Iterator[str]:
    """Which runs would make the answer surer, and what they would cost at the length of those that were made."""
    gang, option = chosen.option.gang, chosen.option
    if option.reach is not None or option.throughput.low is None:
        runs = _runs(plan)
        yield f"{runs} runs of it would cost {_cost(plan, ledger, entries, [gang], runs=runs)}."
        return
    rival = next((one for one in advice.tied if one.option.reach is None and one.option.gang.runs != gang.runs), None)
    if rival is None:
        return
    more = _more_repeats(plan, entries, gang, rival.option.gang, by_cost=by_cost)
    if more is not None:
        cost = _cost(plan, ledger, entries, [gang, rival.option.gang], runs=more)
        each = counted(more, "more repeat")
        pair = f"{_short(gang)} from {_short(rival.option.gang)}"
        yield f"About {each} of both would probably tell {pair}, for {cost}."


def _runs(plan: Plan) -> int:
    """As many as the benchmark makes of a point, and enough for an interval."""
    return max(intervals.REPEATS_FOR_INTERVAL, *(len(one) for one in plan.repeats_of_points()))


def _more_repeats(plan: Plan, entries: Sequence[_Entry], one: Gang, other: Gang, *, by_cost: bool) -> int | None:
    """How many would tell their speeds apart, or their costs, which are certain multiples of one over the speed."""
    confidence = stopping.confidence_of_plan(plan)
    samples = []
    for gang in (one, other):
        values = next((entry.result.values for entry in entries if entry.number == gang.runs), ())
        per_hour = _per_hour(gang) if by_cost else 1.0
        if len(values) < intervals.REPEATS_FOR_INTERVAL or per_hour is None:
            return None
        samples.append(compare.of_values([value / per_hour for value in values], confidence=confidence))
    return compare.more_repeats(samples[0], samples[1])


def _per_hour(gang: Gang) -> float | None:
    """What an hour of the gang costs: speed over it is samples for money. None of what costs nothing."""
    found = None if gang.rate is None else float(gang.rate.per_node_hour * gang.nodes)
    return found or None


def _cost(plan: Plan, ledger: Ledger, entries: Sequence[_Entry], gangs: Sequence[Gang], *, runs: int) -> str:
    """What so many runs of each would be billed: `about USD 0.31`, or why that is not known."""
    totals: dict[str, Decimal] = {}
    begun = _pools_begun(plan, ledger)
    for gang in gangs:
        seconds = _run_seconds(plan, ledger, entries, gang)
        terms = pool_prices.planned_terms(plan, gang.line.pool)
        if terms is None:
            return f"nobody knows what, for {gang.line.pool} has no price"
        if seconds is None:
            return "nobody knows what, for it was not recorded how long such runs take"
        lives = [Decimal(f"{seconds:.3f}")] * gang.nodes_held
        bill = billing.attempt_bill(terms, node_seconds=lives, share=gang.nodes / gang.nodes_held).total
        setup = terms.setup.value if terms.setup is not None and gang.line.pool not in begun else Decimal(0)
        begun.add(gang.line.pool)
        totals[bill.currency] = totals.get(bill.currency, Decimal(0)) + bill.value * runs + setup
    amounts = [costs.amounts(CostInterval(mean=value, currency=currency)) for currency, value in totals.items()]
    return "about " + " and ".join("more than anybody pays" if one is None else text.money(one) for one in amounts)


def _pools_begun(plan: Plan, ledger: Ledger) -> set[str]:
    """The pools on which an attempt has held a node: their setup has been paid."""
    pools = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}
    return {pools[record.trial] for record in ledger.records if record.node_seconds and record.trial in pools}


def _run_seconds(plan: Plan, ledger: Ledger, entries: Sequence[_Entry], gang: Gang) -> Decimal | None:
    """How long the runs nearest to a gang held their nodes; else warm-up and measured time, which are less."""
    by_index = {one.number: one.point for one in entries}
    trials = {trial.id: by_index[trial.point] for trial in plan.trials if trial.point in by_index}
    held = [
        (abs(trials[record.trial].key.workers - gang.workers), record.node_seconds / trials[record.trial].nodes)
        for record in ledger.records
        if record.outcome is Outcome.SUCCEEDED and record.node_seconds and record.trial in trials
        if trials[record.trial].key.pool == gang.line.pool
    ]
    if held:
        nearest = min(distance for distance, _ in held)
        seconds = [one for distance, one in held if distance == nearest]
        return Decimal(intervals.mean(seconds))
    return Decimal(plan.timing.warm_up + plan.timing.duration) if plan.mode is Mode.THROUGHPUT else None


def _short(gang: Gang) -> str:
    return f"{workers_text(gang.workers)} on {gang.line.pool}"


# --- what `kubectl get` shows of the advice ---------------------------------------------------------------------------
#
# Must not happen: a column that names a winner whose interval overlaps another's, or a gang that nobody has measured,
# without a word of it.


def best(found: Sequence[Advised]) -> Best | None:
    """The gang that was advised; None where none was, and of several kinds of work, which are not ranked."""
    if len(found) != 1 or found[0].advice is None or found[0].advice.chosen is None:
        return None
    advice, chosen = found[0].advice, found[0].advice.chosen
    gang, cost = chosen.option.gang, chosen.cost and costs.amounts(chosen.cost)
    predicted = chosen.option.reach is not None
    marks = [
        *(["predicted"] if predicted else []),
        *(["tie"] if advice.tied else []),
        *([] if advice.sure else ["not sure"]),
    ]
    remark = f" ({', '.join(marks)})" if marks else ""
    hours = Interval(**dict(chosen.hours.each(float)))
    return Best(
        pool=gang.line.pool,
        workers=gang.workers,
        setting=gang.line.setting or None,
        predicted=predicted,
        sure=advice.sure,
        tied=len(advice.tied),
        hours=hours,
        cost=cost,
        shown=BestShown(
            pool=conditions.clamped(f"{gang.line.pool}{remark}", BEST_POOL_MAX),
            cost=None if cost is None else text.money(AmountInterval(mean=cost.mean, currency=cost.currency)),
            time=f"{text.bounded(Interval(mean=hours.mean))} h",
        ),
    )
