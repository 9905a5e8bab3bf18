# SPDX-License-Identifier: Apache-2.0
"""What `spec.objective` asks for: which pool, how many workers, at what cost, how sure; or what is missing to say so.

Candidates are the measured points of the goal's workload and what `stats.scaling_law` predicts for their lines. Hours
and costs are lower bounds. Other precisions, data or numbers of epochs are other work: each has advice of its own.
Must not happen: a predicted gang taken for a measured one, two currencies compared, an unknown price taken for nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from statistics import fmean
from typing import Literal, NamedTuple

from gpubench.analysis import answer, costs, text
from gpubench.api import benchmark_status, measuring, pool_price, status_sizes
from gpubench.api.goals import Goal, Objective
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, PointResult, PointState
from gpubench.cost import billing, price
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import conditions, stopping
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.stats import compare, intervals, scaling_law
from gpubench.stats.scaling_law import Law, Reach, Speed
from gpubench.units import counted, workers_text
from gpubench.values import Interval, IntervalOf, grouped

LOWER_BOUND = "Start-up, evaluation, restarts and slower convergence at large batches come on top."
#: Of predictions. `stats.scaling_law` says why this one and how far it can be trusted.
LAW = "the law of a ring all-reduce (Patarasuk and Yuan, 2009)"
_NAMED = 4
_NOTES_MAX = 2


class Line(NamedTuple):
    """What all points of a scaling law have in common, besides their work."""

    pool: str
    kind: Literal["weak", "strong"]
    batch: int  # per worker, or global
    variant: str | None = None

    @property
    def setting(self) -> str:
        """Such as `batch 64`."""
        batch = f"batch {self.batch}" if self.kind == "weak" else f"global batch {self.batch}"
        return batch if self.variant is None else f"{batch} with {self.variant}"


@dataclass(frozen=True, kw_only=True)
class Gang:
    """So many workers of a pool that could be had: what they cost, and how fast they are, where that is known."""

    line: Line
    workers: int
    nodes: Decimal  # that are paid for; a fraction where a gang pays for its slots only
    nodes_held: int  # that its workers are on, of each of which it pays for the same part
    rate: price.Rate | None = None
    throughput: Interval | None = None  # samples per second
    reach: Reach | None = None  # of a predicted throughput; None where it was measured
    remark: str = ""  # such as `spot`, or `re-priced`
    runs: int | None = None  # the point whose runs it stands on: two gangs on the same runs differ in prices only


class Considered(NamedTuple):
    """All gangs whose speed is known, and those of which nobody can tell, with a message about each."""

    gangs: tuple[Gang, ...]
    unknown: tuple[Gang, ...]
    notes: tuple[str, ...]


class Candidate(NamedTuple):
    """What a gang takes for so many samples."""

    gang: Gang
    hours: IntervalOf[Decimal]
    cost: billing.CostInterval | None  # None where its pool has no price


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to take, or what is missing: as a message, and as values."""

    message: str
    chosen: Candidate | None = None
    keeps: bool = False  # the limit, if any, with all of its interval
    sure: bool = False  # that it does, and that no other one that does is as good
    tied: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()


class _Entry(NamedTuple):
    number: int  # among the points of the plan
    point: Point
    result: PointResult


class _Work(NamedTuple):  # what a benchmark knows of one kind of work
    plan: Plan
    ledger: Ledger
    entries: Sequence[_Entry]  # its points that have figures
    everything: Sequence[_Entry]  # and those of all other work
    planned: Sequence[Point]  # its points, with figures or without


def advised(
    plan: Plan, ledger: Ledger, results: Sequence[PointResult], objective: Objective | None, goals: Sequence[Goal]
) -> tuple[Advice, ...]:
    """The advice on each kind of work that reaches the goal, the question in its message; none without an objective."""
    goal = next((goal for goal in goals if objective is not None and goal.name == objective.goal), None)
    if objective is None or goal is None:
        return ()
    every = [_Entry(*one) for one in zip(range(len(results)), plan.points, results, strict=True)]
    everything = [one for one in every if one.result.state is PointState.MEASURED and one.result.throughput is not None]
    works = grouped(
        (one for one in everything if one.result.workload == goal.workload), lambda one: answer.work(one.result)
    )
    if not works:
        asked = _asked(objective, goal, goal.workload)
        return (Advice(message=f"{asked} nothing was measured; the reason stands with each point."),)
    return tuple(
        _of_work(
            _Work(plan, ledger, found, everything, [one.point for one in every if answer.work(one.result) == work]),
            objective,
            goal,
        )
        for work, found in works.items()
    )


def _of_work(work: _Work, objective: Objective, goal: Goal) -> Advice:
    head = _asked(objective, goal, answer.work_text(work.entries[0].result))
    by_cost = objective.minimize == "Cost"
    try:
        found = _considered(work, by_cost=by_cost)
        hours = None if objective.max_hours is None else Decimal(repr(objective.max_hours)).normalize()
        budget = None
        if objective.max_cost is not None:
            assert work.plan.currency is not None  # a rule of the spec
            budget = price.Amount(value=Decimal(objective.max_cost), currency=work.plan.currency)
        advice = best_of(found, Question(goal.samples, by_cost, hours, budget))
    except price.CostError as error:
        return Advice(message=f"{head} {error}; give spec.currency and exchangeRates.")
    further: Iterable[str] = ()
    if advice.chosen is not None:
        further = _surer(work, advice, advice.chosen.gang, by_cost=by_cost)
    elif found.unknown:  # what measuring the first of them would cost
        runs, gang = _runs(work.plan), found.unknown[0]
        further = [f"{runs} runs of {_short(gang)} would cost {_cost_of_runs(work, [gang], runs=runs)}."]
    return replace(advice, message=" ".join([head, advice.message, *_notes(advice, found), *further]))


def _asked(objective: Objective, goal: Goal, work: str) -> str:
    return f"Objective {goal.name} (least {objective.minimize.lower()} of {goal.samples:,} samples of {work}):"


# --- what there is to choose from -------------------------------------------------------------------------------------


def _considered(work: _Work, *, by_cost: bool) -> Considered:
    own = answer.work(work.entries[0].result)
    lines: dict[tuple[Line, object], list[_Entry]] = defaultdict(list)
    for one in work.everything:
        for line in _lines(one.point) if one.result.basis in SOURCES else ():
            lines[line, answer.work(one.result)].append(one)
    gangs: list[Gang] = []
    # What was not run wins no comparison of speed.
    for one in work.entries:
        if by_cost or one.result.basis in SOURCES:
            runs = expand.source_of(work.plan, one.point) if one.point.basis is Basis.REPRICED else one.number
            line = _lines(one.point)[0]
            gang = _gang(work.plan, line, one.point, throughput=one.result.throughput, runs=runs)
            basis = answer.BASES.get(one.result.basis)
            gangs.append(gang if basis is None else replace(gang, remark=f"{gang.remark}, {basis}"))
    laws: dict[Line, Law | str] = {}
    for (line, of_work), on_line in lines.items():
        if of_work == own:
            # All other lines of its pool may tell of scatter.
            siblings = [
                _speeds(others)
                for key, others in lines.items()
                if key[0].pool == line.pool and key != (line, own) and _in_one_environment(others)
            ]
            laws[line] = _law(on_line, siblings=siblings)
            gangs += _predicted(work, line, on_line, is_law=isinstance(laws[line], Law))
    return considered(gangs, laws)


def considered(gangs: Sequence[Gang], laws: dict[Line, Law | str]) -> Considered:
    found, unknown, notes = [], [], []
    for gang in gangs:
        law = laws.get(gang.line)
        if gang.throughput is not None:
            found.append(gang)
        elif isinstance(law, Law):
            predicted = law.at(gang.workers)
            found.append(replace(gang, throughput=predicted.throughput, reach=predicted.reach))
        else:
            reason = "nothing of its line was measured" if law is None else law
            unknown.append(gang)
            notes.append(f"{_named(gang)} cannot be judged: {reason}.")
    return Considered(tuple(found), tuple(unknown), tuple(notes))


def _gang(plan: Plan, line: Line, point: Point, *, throughput: Interval | None = None, runs: int | None = None) -> Gang:
    kind = plan.pool(line.pool).spec.capacity_type
    return Gang(
        line=line,
        workers=point.key.workers,
        nodes=plan.paid_nodes(point),
        nodes_held=point.nodes,
        rate=pool_prices.planned_rate(plan, line.pool),
        throughput=throughput,
        remark="on demand" if kind is pool_price.CapacityType.ON_DEMAND else kind.value.lower(),
        runs=runs,
    )


def _predicted(work: _Work, line: Line, on_line: Sequence[_Entry], *, is_law: bool) -> Iterator[Gang]:
    """Doublings of the smallest measured count that the pool can hold and nobody has tried, up to twice the largest.

    One that was tried and has no figure did not fit, or never settled: no law knows better. A line that was measured
    within one node says nothing about the network between nodes, and is not predicted beyond that node.
    """
    counts = {one.point.key.workers for one in on_line}
    tried = {point.key.workers for point in work.planned if line in _lines(point)}
    base = min(on_line, key=lambda one: one.point.key.workers).point
    spec = work.plan.pool(line.pool).spec
    several = [one.point.key.workers_per_node for one in on_line if one.point.nodes > 1]
    per_node = several[0] if several else spec.slots_per_node
    workers = min(counts)
    while (workers := 2 * workers) <= scaling_law.REACH * max(counts):
        if workers in tried or (workers > per_node and not several and is_law):
            continue
        divided = line.kind == "weak" or line.batch % workers == 0
        refused = expand.not_placed(
            line.pool, spec, workers=workers, workers_per_node=per_node, batch=line.batch, divided=divided
        )
        if refused is None:
            shape = {"workers": workers, "workers_per_node": min(workers, per_node)}
            yield _gang(work.plan, line, base.model_copy(update={"key": base.key.model_copy(update=shape)}))


def _lines(point: Point) -> list[Line]:
    key = point.key
    variant = key.variant.name if key.variant is not None else None
    kinds: tuple[tuple[Literal["weak", "strong"], int | None], ...] = (
        ("weak", key.batch_per_worker), ("strong", key.global_batch),
    )  # fmt: skip
    return [Line(key.pool, kind, batch, variant) for kind, batch in kinds if kind in point.lines and batch is not None]


def _in_one_environment(on_line: Sequence[_Entry]) -> bool:
    return len({one.result.environment for one in on_line}) == 1


def _law(on_line: Sequence[_Entry], *, siblings: Sequence[Sequence[Speed]]) -> Law | str:
    if not _in_one_environment(on_line):
        return (
            "its points ran in different environments, and no law holds across them: pin the image by digest, or "
            "restrict the pool to equal nodes"
        )
    return scaling_law.fit(_speeds(on_line), siblings=siblings)


def _speeds(on_line: Sequence[_Entry]) -> list[Speed]:
    """One of each worker count: of two shapes the one on the fewest nodes, as for efficiency."""
    found: dict[int, Interval] = {}
    for one in sorted(on_line, key=lambda one: one.point.nodes):
        if one.result.throughput is not None:
            found.setdefault(one.point.key.workers, one.result.throughput)
    return [Speed(workers=workers, throughput=rate.mean) for workers, rate in sorted(found.items())]


# --- choosing ---------------------------------------------------------------------------------------------------------

_NOTHING = f"Nothing was measured: measure {workers_text(1)} of a pool at least."


class Question(NamedTuple):
    """The least cost of so many samples, within so many hours; or the least time, for so much money."""

    samples: int
    by_cost: bool
    hours: Decimal | None = None
    budget: price.Amount | None = None

    @property
    def limit(self) -> Decimal | None:
        if self.by_cost:
            return self.hours
        return None if self.budget is None else self.budget.value

    @property
    def limit_text(self) -> str:
        """Such as `within 6 hours`."""
        if self.budget is not None:
            return f"for {self.budget.currency} {text.amount(self.budget.value)}"
        return "" if self.hours is None else f"within {text.amount(self.hours)} hour{'' if self.hours == 1 else 's'}"

    def ranked(self, one: Candidate) -> IntervalOf[Decimal]:
        return _cost(one) if self.by_cost else one.hours

    def limited(self, one: Candidate) -> IntervalOf[Decimal]:
        return one.hours if self.by_cost else _cost(one)

    def keeps(self, one: Candidate) -> bool:
        """Whether it keeps the limit on average."""
        return self.limit is None or self.limited(one).mean <= self.limit

    def doubt(self, one: Candidate) -> str | None:
        """Why it is not sure that all of the interval keeps the limit; None where it is."""
        if one.gang.reach is Reach.FAR:
            return "so far beyond what was measured nothing is"
        if self.limit is None:
            return None
        if (high := self.limited(one).high) is None:
            return "its interval has no upper end; repeat it 3 times at least"
        return None if high <= self.limit else "its interval reaches beyond it, and no other gang is sure to keep it"

    def order(self, one: Candidate) -> tuple[Decimal, Decimal, int, str, str]:
        """Of equals the one that takes less of the other, then the smaller one."""
        other = self.limited(one).mean if self.by_cost or self.limit is not None else Decimal(0)
        return self.ranked(one).mean, other, one.gang.workers, one.gang.line.pool, one.gang.line.setting


def best_of(found: Considered, question: Question) -> Advice:
    candidates, priced, notes = _candidates(found, question.samples)
    among = priced
    if not question.by_cost and question.budget is None:
        among, notes = candidates, found.notes
    elif priced:
        price.common_currency((question.budget or _cost(priced[0])).currency, *(_cost(one).currency for one in priced))
    if any(map(question.keeps, among)):
        return _advice(among, question, notes=notes)
    if not candidates:
        return Advice(message=_NOTHING, notes=found.notes)
    limited = candidates if question.by_cost else priced
    if not limited or any(map(question.keeps, limited)):
        fast = " and is fast enough" if question.hours is not None else ""
        message = f"Nothing that was measured{fast} has a price: give a pool a price or an ownership."
        return Advice(message=message, notes=notes)
    least = min(limited, key=lambda one: (question.limited(one).mean, one.gang.workers))
    which, needs = ("fastest", _hours_text(least)) if question.by_cost else ("cheapest", _cost_text(least))
    wanted = f"{question.samples:,} samples cannot be trained {question.limit_text}"
    message = f"{wanted}: the {which} gang, {_named(least.gang)}, needs {needs}."
    return Advice(message=message, notes=notes)


def _candidates(found: Considered, samples: int) -> tuple[list[Candidate], list[Candidate], tuple[str, ...]]:
    """All of them, those that have a price, and what is to be noted where costs count."""
    candidates = []
    for gang in found.gangs:
        assert gang.throughput is not None  # others are not considered
        hours = billing.hours_to_samples_interval(samples, throughput=gang.throughput).each(Decimal)
        cost = None
        if gang.rate is not None:
            cost = billing.cost_of_samples_interval(
                gang.rate, nodes=gang.nodes, throughput=gang.throughput, samples=Decimal(samples)
            )
        candidates.append(Candidate(gang, hours, cost))
    priced = [one for one in candidates if one.cost is not None]
    unpriced = [one for one in candidates if one.cost is None]
    note = f"{_listed(unpriced)}: no price, and therefore not compared by cost."
    return candidates, priced, (*found.notes, *([note] if unpriced else []))


def _cost(candidate: Candidate) -> billing.CostInterval:
    assert candidate.cost is not None  # only those with a price are asked
    return candidate.cost


def _advice(candidates: Sequence[Candidate], question: Question, *, notes: tuple[str, ...]) -> Advice:
    """There is at least one candidate that keeps the limit on average."""
    keeping = sorted((one for one in candidates if question.keeps(one)), key=question.order)
    keeps_surely = [one for one in keeping if question.doubt(one) is None]
    best, *others = keeps_surely or keeping
    standings = [
        compare.standing(
            question.ranked(best),
            question.ranked(one),
            same_runs=best.gang.runs is not None and best.gang.runs == one.gang.runs,
        )
        for one in others
    ]
    tied = tuple(one for one, standing in zip(others, standings, strict=True) if standing == "Tie")
    asked = f"{'Cheapest' if question.by_cost else 'Fastest'} {question.limit_text}".rstrip()
    parts = [f"{asked}: {_named(best.gang)}, {_hours_text(best)} and {_cost_text(best)}."]
    if tied:
        parts.append(f"A tie with {_listed(tied)}, for their intervals overlap.")
    parts += [_next(best, one, question) for one in others if one not in tied][:1]
    if (doubt := question.doubt(best)) is not None:
        what = "That is" if question.limit is None else "Whether it keeps that limit is"
        parts.append(f"{what} not sure: {doubt}.")
    elif question.limit is not None:
        parts.append("All of its 95 % interval keeps that limit.")
    if "CannotTell" in standings:
        parts.append("Without intervals for all of them nothing says that this is more than chance.")
    if len(candidates) == 1:
        parts.append("There is no other gang to compare it with.")
    if any(one.gang.reach is not None for one in (best, *tied)):
        predicted = f"What was not measured is predicted by {LAW}, with a 95 % interval for its next run"
        parts.append(f"{predicted}: measure it before you rely on it.")
    return Advice(
        message=" ".join([*parts, LOWER_BOUND]),
        chosen=best,
        keeps=bool(keeps_surely),
        sure=bool(keeps_surely) and all(standing == "Better" for standing in standings),
        tied=tied,
        notes=notes,
    )


# --- words ------------------------------------------------------------------------------------------------------------


def _next(best: Candidate, following: Candidate, question: Question) -> str:
    one, two = question.ranked(best).mean, question.ranked(following).mean
    takes = f"The next, {_named(following.gang)}, {'costs' if question.by_cost else 'takes'}"
    more = f" {text.percent(Interval(mean=float(two / one - 1)))} more," if one > 0 else ""
    return f"{takes}{more} {_cost_text(following) if question.by_cost else _hours_text(following)}."


def _listed(candidates: Sequence[Candidate]) -> str:
    return text.shortened([_named(one.gang) for one in candidates], most=_NAMED)


def _named(gang: Gang) -> str:
    remark = f" ({gang.remark})" if gang.remark else ""
    mark = "" if gang.reach is None else f" (not measured: {gang.reach.value})"
    return f"{workers_text(gang.workers)} at {gang.line.setting} on {gang.line.pool}{remark}{mark}"


def _short(gang: Gang) -> str:
    return f"{workers_text(gang.workers)} on {gang.line.pool}"


def _hours_text(candidate: Candidate) -> str:
    return f"{text.bounded(candidate.hours.each(float))} hours"


def _cost_text(candidate: Candidate) -> str:
    return "at a price that nobody knows" if candidate.cost is None else text.money(costs.amounts(candidate.cost))


# --- what is missing --------------------------------------------------------------------------------------------------


def _notes(advice: Advice, found: Considered) -> Iterator[str]:
    """What was not compared; and why others could not be judged, where that may be what the answer lacks."""
    is_answered = advice.chosen is not None and advice.sure
    notes = [note for note in advice.notes if not (is_answered and note in found.notes)]
    yield from notes[:_NOTES_MAX]
    if (more := len(notes) - _NOTES_MAX) > 0:
        yield f"So it is with {more} more."


def _surer(work: _Work, advice: Advice, gang: Gang, *, by_cost: bool) -> Iterator[str]:
    """Which runs would make the answer surer, and what they would cost at the length of those that were made."""
    if gang.reach is not None or gang.throughput is None or gang.throughput.low is None:
        runs = _runs(work.plan)
        yield f"{runs} runs of it would cost {_cost_of_runs(work, [gang], runs=runs)}."
        return
    rivals = (one.gang for one in advice.tied)
    rival = next((one for one in rivals if one.reach is None and one.runs != gang.runs), None)
    more = None if rival is None else _more_repeats(work, gang, rival, by_cost=by_cost)
    if rival is not None and more is not None:
        cost = _cost_of_runs(work, [gang, rival], runs=more)
        both = f"About {counted(more, 'more repeat')} of both would probably tell"
        yield f"{both} {_short(gang)} from {_short(rival)}, for {cost}."


def _runs(plan: Plan) -> int:
    return max(intervals.REPEATS_FOR_INTERVAL, *(len(one) for one in plan.repeats_of_points()))


def _more_repeats(work: _Work, one: Gang, other: Gang, *, by_cost: bool) -> int | None:
    """How many would tell their speeds apart, or their costs, which are certain multiples of one over the speed."""
    confidence, samples = stopping.confidence_of_plan(work.plan), []
    for gang in (one, other):
        values = next((entry.result.values for entry in work.entries if entry.number == gang.runs), ())
        per_hour = 1.0  # speed over what an hour of the gang costs is samples for money
        if by_cost:
            per_hour = 0.0 if gang.rate is None else float(gang.rate.per_node_hour * gang.nodes)
        if len(values) < intervals.REPEATS_FOR_INTERVAL or not per_hour:
            return None
        samples.append(intervals.of_values([value / per_hour for value in values], confidence=confidence))
    return compare.more_repeats(samples[0], samples[1])


def _cost_of_runs(work: _Work, gangs: Sequence[Gang], *, runs: int) -> str:
    """What so many runs of each would be billed: `about USD 0.31`, or why that is not known."""
    totals: dict[str, Decimal] = defaultdict(Decimal)
    for gang in gangs:
        pool = gang.line.pool
        seconds, terms = _run_seconds(work, gang), pool_prices.planned_terms(work.plan, pool)
        if terms is None:
            return f"nobody knows what, for {pool} has no price"
        if seconds is None:
            return "nobody knows what, for it was not recorded how long such runs take"
        lives = [Decimal(f"{seconds:.3f}")] * gang.nodes_held
        bill = billing.attempt_bill(terms, node_seconds=lives, share=gang.nodes / gang.nodes_held).total
        totals[bill.currency] += bill.value * runs  # what was measured on its pool has paid the setup
    amounts = (costs.amounts(billing.CostInterval(mean=value, currency=currency)) for currency, value in totals.items())
    return "about " + " and ".join(map(text.money, amounts))


def _run_seconds(work: _Work, gang: Gang) -> Decimal | None:
    """How long the runs nearest to a gang held their nodes; else warm-up and measured time, which are less."""
    by_index = {one.number: one.point for one in work.entries}
    points = {trial.id: by_index[trial.point] for trial in work.plan.trials if trial.point in by_index}
    held = [
        (abs(points[record.trial].key.workers - gang.workers), record.node_seconds / points[record.trial].nodes)
        for record in work.ledger.records
        if record.outcome is Outcome.SUCCEEDED and record.node_seconds and record.trial in points
        if points[record.trial].key.pool == gang.line.pool
    ]
    if held:
        nearest = min(distance for distance, _ in held)
        return Decimal(fmean([seconds for distance, seconds in held if distance == nearest]))
    timing = work.plan.timing
    return Decimal(timing.warm_up + timing.duration) if work.plan.mode is measuring.Mode.THROUGHPUT else None


# --- what `kubectl get` shows of the advice ---------------------------------------------------------------------------


def best(found: Sequence[Advice]) -> benchmark_status.Best | None:
    """The gang that was advised, with what must be known of it; None without one, or of several kinds of work."""
    if len(found) != 1 or found[0].chosen is None:
        return None
    advice, chosen = found[0], found[0].chosen
    gang, cost = chosen.gang, chosen.cost and costs.amounts(chosen.cost)
    predicted = gang.reach is not None
    marks = {
        "predicted": predicted,
        "tie": bool(advice.tied),
        "not sure": not advice.keeps or not (advice.sure or advice.tied),
    }
    remark = ", ".join(mark for mark, holds in marks.items() if holds)
    hours = Interval(**dict(chosen.hours.each(float)))
    return benchmark_status.Best(
        pool=gang.line.pool,
        workers=gang.workers,
        setting=gang.line.setting,
        predicted=predicted,
        sure=advice.sure,
        tied=len(advice.tied),
        hours=hours,
        cost=cost,
        shown=benchmark_status.BestShown(
            pool=conditions.clamped(
                f"{gang.line.pool} ({remark})" if remark else gang.line.pool, status_sizes.BEST_POOL_MAX
            ),
            cost=None if cost is None else text.money(AmountInterval(mean=cost.mean, currency=cost.currency)),
            time=f"{text.bounded(Interval(mean=hours.mean))} h",
        ),
    )
