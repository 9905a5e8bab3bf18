# SPDX-License-Identifier: Apache-2.0
"""How many workers, and on which pool: the cheapest gang that meets a deadline, the fastest within a budget, or of all.

A gang that was measured counts as it was measured; of the others, those whose line has a scaling law are predicted by
it and say so. A gang is sure to keep a limit if its whole interval does; one that only may is chosen where none is
sure, and the message says which it is. What would be better than the one that is chosen, were it sure, is named beside
it. Gangs whose intervals overlap that of the best are a tie, but for those that stand on the same runs: there only the
prices differ, and those are certain. Hours and costs are lower bounds: start-up, evaluation,
restarts and slower convergence at large batches come on top.

Must not happen: a predicted gang is taken for a measured one, money of two currencies is compared, an unknown price is
taken for nothing, or nobody is named without a word about what would be needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from gpubench.analysis import text
from gpubench.cost import billing, price
from gpubench.cost.billing import CostInterval
from gpubench.cost.price import Amount, Rate
from gpubench.stats.scaling_law import Law, Reach, Undetermined
from gpubench.units import listed, workers_text
from gpubench.values import Interval, IntervalOf

LOWER_BOUND = "Start-up, evaluation, restarts and slower convergence at large batches come on top."
_NAMED = 4
_AMOUNT_PLACES = 9
_AMOUNT_MAX = Decimal(10) ** 12  # what an amount of the API may have


#: Of the predictions: whose law it is. `measure.scaling_law` says why this one and how far it can be trusted.
LAW = "the law of a ring all-reduce (Patarasuk and Yuan, 2009)"


class Line(NamedTuple):
    """What a scaling law belongs to: a pool, and what else all its points have in common, in words."""

    pool: str
    setting: str = ""  # such as `batch 64`, where there are several


@dataclass(frozen=True, kw_only=True)
class Gang:
    """What could be had: so many workers of a pool, what they cost, and how fast they are, where that was measured."""

    line: Line
    workers: int
    nodes: Decimal  # that are paid for; a fraction where a gang pays for its slots only
    nodes_held: int  # that its workers are on, of each of which it pays for the same part
    rate: Rate | None = None
    measured: Interval | None = None  # samples per second
    remark: str = ""  # such as `spot`, or `re-priced`
    runs: int | None = None  # those of which point it stands on: two gangs on the same runs differ in their prices only


@dataclass(frozen=True, kw_only=True)
class Option:
    """A gang with the speed that it has or would have."""

    gang: Gang
    throughput: Interval
    reach: Reach | None = None  # of a prediction; None where it was measured


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What an option takes for so many samples."""

    option: Option
    hours: IntervalOf[Decimal]
    cost: CostInterval | None  # None where its pool has no price


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to take, or what is missing: as a message, and as values."""

    message: str
    chosen: Candidate | None = None
    sure: bool = False  # that it keeps the limit
    tied: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Considered:
    """All options, and a message about each gang that is none."""

    options: tuple[Option, ...]
    notes: tuple[str, ...] = field(default=())


# --- what there is to choose from -------------------------------------------------------------------------------------


def considered(gangs: Sequence[Gang], laws: Mapping[Line, Law | Undetermined]) -> Considered:
    """Every gang that was measured or can be predicted."""
    options, notes = [], []
    for gang in gangs:
        law = laws.get(gang.line)
        if gang.measured is not None:
            options.append(Option(gang=gang, throughput=gang.measured))
        elif isinstance(law, Law):
            predicted = law.at(gang.workers)
            options.append(Option(gang=gang, throughput=predicted.throughput, reach=predicted.reach))
        else:
            reason = "nothing of its line was measured" if law is None else law.reason
            notes.append(f"{_gang(gang)} cannot be judged: {reason}.")
    return Considered(options=tuple(options), notes=tuple(notes))


# --- the questions ----------------------------------------------------------------------------------------------------


def cheapest_by(found: Considered, *, samples: int, hours: Decimal | None) -> Advice:
    """The cheapest gang that trains so many samples within so many hours; None: however long it takes."""
    if hours is not None:
        price.positive(hours, what="a deadline in hours", remedy="give the hours that there are")
    candidates = _candidates(found.options, samples, with_costs=True)
    limit = None if hours is None else f"within {_hours_of(hours)}"
    if hours is not None and not any(candidate.hours.mean <= hours for candidate in candidates):
        return Advice(message=_too_slow(candidates, samples=samples, hours=hours), notes=found.notes)
    priced = [candidate for candidate in candidates if candidate.cost is not None]
    notes = (*found.notes, *_unpriced(candidates))
    question = _Question(
        limited=_hours,
        limit=hours,
        limit_text=limit,
        ranked=_cost,
        superlative="cheapest",
        better="cheaper",
        takes="costs",
    )
    if not any(question.keeps(candidate) for candidate in priced):
        return Advice(message=_without_price(candidates, limit), notes=notes)
    return _advice(priced, question, notes=notes)


def fastest_within(found: Considered, *, samples: int, budget: Amount | None) -> Advice:
    """The fastest gang that trains so many samples for so much money; None: whatever it costs."""
    if budget is None:
        candidates = _candidates(found.options, samples, with_costs=False)
        if not candidates:
            return Advice(message=_NOTHING, notes=found.notes)
        question = _Question(
            limited=None,
            limit=None,
            limit_text=None,
            ranked=_hours,
            superlative="fastest",
            better="faster",
            takes="takes",
        )
        return _advice(candidates, question, notes=found.notes)
    price.positive(budget.value, what="a budget", remedy="give what may be spent")
    candidates = _candidates(found.options, samples, with_costs=True)
    priced = [candidate for candidate in candidates if candidate.cost is not None]
    notes = (*found.notes, *_unpriced(candidates))
    price.common_currency(budget, *(one.option.gang.rate for one in priced if one.option.gang.rate is not None))
    limit = f"for {budget.currency} {_number(budget.value)}"
    if not any(_cost(candidate).mean <= budget.value for candidate in priced):
        return Advice(message=_too_dear(priced, samples=samples, limit=limit), notes=notes)
    question = _Question(
        limited=_cost,
        limit=budget.value,
        limit_text=limit,
        ranked=_hours,
        superlative="fastest",
        better="faster",
        takes="takes",
    )
    return _advice(priced, question, notes=notes)


# --- choosing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Question:
    """Of one figure as little as possible, and of the other, where there is a limit, no more than that."""

    limited: Callable[[Candidate], IntervalOf[Decimal]] | None
    limit: Decimal | None
    limit_text: str | None
    ranked: Callable[[Candidate], IntervalOf[Decimal]]
    superlative: str
    better: str
    takes: str  # what the next one does more

    def keeps(self, candidate: Candidate) -> bool:
        """Whether it keeps the limit on average."""
        return self.limited is None or self.limit is None or self.limited(candidate).mean <= self.limit

    def is_sure(self, candidate: Candidate) -> bool:
        """Whether all of the interval keeps the limit; without one nobody knows, nor far beyond what was measured."""
        if candidate.option.reach is Reach.FAR:
            return False
        if self.limited is None or self.limit is None:
            return True
        high = self.limited(candidate).high
        return high is not None and high <= self.limit

    def order(self, candidate: Candidate) -> tuple[Decimal, Decimal, int, Line]:
        """Of equals the one that takes less of the limited, then the smaller one."""
        gang = candidate.option.gang
        limited = Decimal(0) if self.limited is None else self.limited(candidate).mean
        return self.ranked(candidate).mean, limited, gang.workers, gang.line


def _advice(candidates: Sequence[Candidate], question: _Question, *, notes: tuple[str, ...]) -> Advice:
    """There is at least one candidate that keeps the limit on average."""
    keeping = sorted((one for one in candidates if question.keeps(one)), key=question.order)
    sure = [one for one in keeping if question.is_sure(one)]
    among = sure or keeping
    best, *others = among
    tied = tuple(one for one in others if _may_be_as_good(best, one, question))
    parts = [
        _named(best, question),
        *_ties(tied),
        *_next(best, [one for one in others if one not in tied], question),
        *_how_sure(best, question, sure=bool(sure)),
        *_untested(best, others, question),
        *_better(best, keeping, question),
        *_alone(candidates, keeping),
        *_unmeasured([best, *tied]),
        LOWER_BOUND,
    ]
    return Advice(message=" ".join(parts), chosen=best, sure=bool(sure), tied=tied, notes=notes)


def _may_be_as_good(best: Candidate, other: Candidate, question: _Question) -> bool:
    """Whether the other one may be as good; not known without intervals."""
    one, two = question.ranked(best), question.ranked(other)
    if one == two:
        return True
    if _on_same_runs(best, other):
        return one.mean == two.mean
    return one.high is not None and two.low is not None and two.low <= one.high


def _on_same_runs(one: Candidate, other: Candidate) -> bool:
    """Whether two gangs stand on the same measurement: then nothing but certain prices tells them apart."""
    runs = one.option.gang.runs
    return runs is not None and runs == other.option.gang.runs


def _candidates(options: Sequence[Option], samples: int, *, with_costs: bool) -> list[Candidate]:
    """What each option takes. Where costs are compared, they are in one currency."""
    price.positive(samples, what="the number of samples", remedy="count at least one")
    rates = [option.gang.rate for option in options if option.gang.rate is not None]
    if rates and with_costs:
        price.common_currency(*rates)
    return [_candidate(option, samples) for option in options]


def _candidate(option: Option, samples: int) -> Candidate:
    hours = billing.hours_to_samples_interval(samples, throughput=option.throughput)
    rate = option.gang.rate
    cost = None
    if rate is not None:
        cost = billing.cost_of_samples_interval(
            rate, nodes=option.gang.nodes, throughput=option.throughput, samples=Decimal(samples)
        )
    return Candidate(
        option=option,
        hours=hours.each(Decimal),
        cost=cost,
    )


def _hours(candidate: Candidate) -> IntervalOf[Decimal]:
    return candidate.hours


def _cost(candidate: Candidate) -> CostInterval:
    assert candidate.cost is not None  # only those with a price are asked
    return candidate.cost


# --- words ------------------------------------------------------------------------------------------------------------

_NOTHING = f"Nothing was measured: measure {workers_text(1)} of a pool at least."
_DOUBT = "Whether it keeps that limit is not sure:"


def _named(best: Candidate, question: _Question) -> str:
    asked = question.superlative.capitalize()
    asked += f" {question.limit_text}" if question.limit_text is not None else ""
    return f"{asked}: {_option(best.option)}, {_hours_text(best)} and {_cost_text(best)}."


def _ties(tied: Sequence[Candidate]) -> list[str]:
    if not tied:
        return []
    return [f"A tie with {_listed(tied)}, for their intervals overlap."]


def _next(best: Candidate, others: Sequence[Candidate], question: _Question) -> list[str]:
    """By how much the best one beats the next that is no tie: on average, and by the ends that are nearest."""
    if not others:
        return []
    following = others[0]
    one, two = question.ranked(best), question.ranked(following)
    figure = _cost_text(following) if question.ranked is _cost else _hours_text(following)
    named = f"The next, {_option(following.option)}, "
    if one.mean <= 0:
        return [f"{named}{question.takes} {figure}."]
    by = _percent(two.mean / one.mean)
    if _on_same_runs(best, following) or one.high is None or two.low is None:
        return [f"{named}{question.takes} {by} more, {figure}."]
    least = _percent(two.low / one.high)
    return [f"{named}{question.takes} {by} more, at least {least} by the near ends of both intervals: {figure}."]


def _percent(ratio: Decimal) -> str:
    return text.percent(Interval(mean=float(ratio - 1)))


def _how_sure(best: Candidate, question: _Question, *, sure: bool) -> list[str]:
    if sure:
        return ["All of its 95 % interval keeps that limit."] if question.limit is not None else []
    if question.limit is None:
        return ["That is not sure: so far beyond what was measured nothing is."]
    if best.option.reach is Reach.FAR:
        return [f"{_DOUBT} so far beyond what was measured nothing is."]
    if question.limited is not None and question.limited(best).high is None:
        return [f"{_DOUBT} its interval has no upper end; repeat it 3 times at least."]
    return [f"{_DOUBT} its interval reaches beyond it, and no other gang is sure to keep it."]


def _untested(best: Candidate, others: Sequence[Candidate], question: _Question) -> list[str]:
    unlike = [one for one in others if not _on_same_runs(best, one)]
    if unlike and (question.ranked(best).high is None or any(question.ranked(one).low is None for one in unlike)):
        return ["Without intervals for all of them nothing says that this is more than chance."]
    return []


def _better(best: Candidate, keeping: Sequence[Candidate], question: _Question) -> list[str]:
    """The best of all that keep the limit on average, where it is not the one that was chosen."""
    first = keeping[0]
    if first is best:
        return []
    figures_text = f"{_hours_text(first)} and {_cost_text(first)}"
    but = "lies far beyond what was measured" if question.limit is None else "may not keep the limit"
    return [f"{_option(first.option)} would be {question.better}, {figures_text}, but {but}."]


def _alone(candidates: Sequence[Candidate], keeping: Sequence[Candidate]) -> list[str]:
    """That there was no choice."""
    if len(candidates) == 1:
        return ["There is no other gang to compare it with."]
    return ["No other gang keeps that limit."] if len(keeping) == 1 else []


def _unmeasured(named: Sequence[Candidate]) -> list[str]:
    if all(one.option.reach is None for one in named):
        return []
    predicted = f"What was not measured is predicted by {LAW}, with a 95 % interval for its next run"
    return [f"{predicted}: measure it before you rely on it."]


def _without_price(candidates: Sequence[Candidate], limit: str | None) -> str:
    if not candidates:
        return _NOTHING
    if limit is None:
        return "Nothing that was measured has a price: give a pool a price or an ownership."
    return f"What is fast enough to end {limit} has no price: give its pool a price or an ownership."


def _too_slow(candidates: Sequence[Candidate], *, samples: int, hours: Decimal) -> str:
    wanted = samples / (hours * billing.SECONDS_PER_HOUR)
    needed = f"{samples:,} samples within {_hours_of(hours)} need {text.bounded(IntervalOf(mean=wanted))} samples/s"
    if not candidates:
        return f"{needed}, and nothing was measured: measure {workers_text(1)} of a pool at least."
    fastest = min(candidates, key=lambda candidate: (candidate.hours.mean, candidate.option.gang.workers))
    speed = text.bounded(fastest.option.throughput)
    return f"{needed}, and the fastest gang, {_option(fastest.option)}, does {speed}: it takes {_hours_text(fastest)}."


def _too_dear(priced: Sequence[Candidate], *, samples: int, limit: str) -> str:
    wanted = f"{samples:,} samples cannot be trained {limit}"
    if not priced:
        return (
            f"{wanted} as far as anybody knows, for nothing measured has a price: give a pool a price or an ownership."
        )
    cheapest = min(priced, key=lambda candidate: (_cost(candidate).mean, candidate.option.gang.workers))
    return f"{wanted}: the cheapest gang, {_option(cheapest.option)}, needs {_cost_text(cheapest)}."


def _unpriced(candidates: Sequence[Candidate]) -> list[str]:
    without = [one for one in candidates if one.cost is None]
    return [f"{_listed(without)}: no price, and therefore not compared by cost."] if without else []


def _listed(candidates: Sequence[Candidate]) -> str:
    names = [_option(one.option) for one in candidates[:_NAMED]]
    if len(candidates) > _NAMED:
        names.append(f"{len(candidates) - _NAMED} more")
    return listed(names)


def _option(option: Option) -> str:
    mark = "" if option.reach is None else f" (not measured: {option.reach.value})"
    return f"{_gang(option.gang)}{mark}"


def _gang(gang: Gang) -> str:
    setting = f" at {gang.line.setting}" if gang.line.setting else ""
    remark = f" ({gang.remark})" if gang.remark else ""
    return f"{workers_text(gang.workers)}{setting} on {gang.line.pool}{remark}"


def _hours_text(candidate: Candidate) -> str:
    return f"{text.bounded(candidate.hours.each(float))} hours"


def _cost_text(candidate: Candidate) -> str:
    cost = candidate.cost
    if cost is None:
        return "at a price that nobody knows"
    if cost.mean >= _AMOUNT_MAX:
        return f"more than {cost.currency} {_number(_AMOUNT_MAX - 1)}"
    high = cost.high if cost.high is not None and cost.high < _AMOUNT_MAX else None
    shown = cost.model_copy(update={"high": high}).each(lambda value: price.rounded(value, digits=_AMOUNT_PLACES))
    return f"{cost.currency} {text.bounded(shown)}"


def _hours_of(limit: Decimal) -> str:
    return f"{_number(limit)} hour{'' if limit == 1 else 's'}"


def _number(value: Decimal) -> str:
    """As it was given, without an exponent."""
    return f"{value:,f}"
