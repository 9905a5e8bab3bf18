# SPDX-License-Identifier: Apache-2.0
"""How many workers, and on which pool: the cheapest gang that meets a deadline, the fastest within a budget.

A gang that was measured counts as it was measured; of the others, those whose line has a scaling law are predicted by
it and say so. A gang is sure to keep a limit if its whole interval does; one that only may is chosen where none is
sure, and the sentence says which it is. What would be better than the one that is chosen, were it sure, is named beside
it. Gangs whose intervals overlap that of the best are a tie. Hours and costs are lower bounds: start-up, evaluation,
restarts and slower convergence at large batches come on top.

Must not happen: a predicted gang is taken for a measured one, money of two currencies is compared, an unknown price is
taken for nothing, or nobody is named without a word about what would be needed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from gpubench.api.benchmark_status import AmountInterval, Estimate
from gpubench.measure.intervals import Interval
from gpubench.measure.scaling_law import Law, Reach, Undetermined
from gpubench.money import amount, derived, marginal, refusals
from gpubench.money.amount import Amount, Rate
from gpubench.report import figures
from gpubench.units import workers_text

LOWER_BOUND = "Start-up, evaluation, restarts and slower convergence at large batches come on top."
_TIED_NAMED = 4
_AMOUNT_PLACES = Decimal("1e-9")


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
    rate: Rate | None = None
    measured: Interval | None = None  # samples per second


@dataclass(frozen=True, kw_only=True)
class Option:
    """A gang with the speed that it has or would have."""

    gang: Gang
    throughput: Interval
    reach: Reach | None = None  # of a prediction; None where it was measured


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Hours, or an amount, with the ends of its interval; an end is absent where it is open or nothing says where."""

    mean: Decimal
    low: Decimal | None = None
    high: Decimal | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What an option takes for so many samples."""

    option: Option
    hours: Bounds
    cost: Bounds | None  # None where nobody said what it costs
    currency: str | None = None


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to take, or what is missing, in sentences; and the same as values."""

    sentence: str
    chosen: Candidate | None = None
    sure: bool = False  # that it keeps the limit
    tied: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Considered:
    """All options, and a sentence about each gang that is none."""

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


# --- the two questions ------------------------------------------------------------------------------------------------


def cheapest_by(found: Considered, *, samples: int, hours: Decimal) -> Advice:
    """The cheapest gang that trains so many samples within so many hours."""
    refusals.positive(hours, what="a deadline in hours", remedy="give the hours that there are")
    candidates = _candidates(found.options, samples)
    limit = f"within {_hours_of(hours)}"
    if not any(candidate.hours.mean <= hours for candidate in candidates):
        return Advice(sentence=_too_slow(candidates, samples=samples, hours=hours), notes=found.notes)
    priced = [candidate for candidate in candidates if candidate.cost is not None]
    notes = (*found.notes, *_unpriced(candidates))
    if not any(candidate.hours.mean <= hours for candidate in priced):
        return Advice(
            sentence=f"What is fast enough to end {limit} has no price: give its pool a price or an ownership.",
            notes=notes,
        )
    return _advice(
        priced,
        _Question(
            limited=_hours, limit=hours, limit_text=limit, ranked=_cost, superlative="cheapest", better="cheaper"
        ),
        notes=notes,
    )


def fastest_within(found: Considered, *, samples: int, budget: Amount) -> Advice:
    """The fastest gang that trains so many samples for so much money."""
    refusals.positive(budget.value, what="a budget", remedy="give what may be spent")
    candidates = _candidates(found.options, samples)
    priced = [candidate for candidate in candidates if candidate.cost is not None]
    notes = (*found.notes, *_unpriced(candidates))
    amount.common_currency(budget, *(one.option.gang.rate for one in priced if one.option.gang.rate is not None))
    limit = f"for {budget.currency} {_number(budget.value)}"
    if not any(_cost(candidate).mean <= budget.value for candidate in priced):
        return Advice(sentence=_too_dear(priced, samples=samples, limit=limit), notes=notes)
    return _advice(
        priced,
        _Question(
            limited=_cost, limit=budget.value, limit_text=limit, ranked=_hours, superlative="fastest", better="faster"
        ),
        notes=notes,
    )


# --- choosing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Question:
    """Of one figure no more than a limit, of the other as little as possible."""

    limited: Callable[[Candidate], Bounds]
    limit: Decimal
    limit_text: str
    ranked: Callable[[Candidate], Bounds]
    superlative: str
    better: str

    def is_sure(self, candidate: Candidate) -> bool:
        """Whether all of the interval keeps the limit; without one nobody knows, nor far beyond what was measured."""
        high = self.limited(candidate).high
        return high is not None and high <= self.limit and candidate.option.reach is not Reach.FAR

    def order(self, candidate: Candidate) -> tuple[Decimal, Decimal, int, Line]:
        """Of equals the one that takes less of the limited, then the smaller one."""
        gang = candidate.option.gang
        return self.ranked(candidate).mean, self.limited(candidate).mean, gang.workers, gang.line


def _advice(candidates: Sequence[Candidate], question: _Question, *, notes: tuple[str, ...]) -> Advice:
    """There is at least one candidate that keeps the limit on average."""
    keeping = sorted((one for one in candidates if question.limited(one).mean <= question.limit), key=question.order)
    sure = [one for one in keeping if question.is_sure(one)]
    among = sure or keeping
    best, *others = among
    tied = tuple(one for one in others if _overlap(question.ranked(best), question.ranked(one)))
    sentences = [
        _named(best, question),
        *_ties(tied),
        *([] if sure else [_doubt(best, question)]),
        *_untested(best, others, question),
        *_better(best, keeping, question),
        *_unmeasured([best, *tied]),
        LOWER_BOUND,
    ]
    return Advice(sentence=" ".join(sentences), chosen=best, sure=bool(sure), tied=tied, notes=notes)


def _overlap(best: Bounds, other: Bounds) -> bool:
    """Whether the other one may be as good; not known without intervals."""
    if best == other:
        return True
    return best.high is not None and other.low is not None and other.low <= best.high


def _candidates(options: Sequence[Option], samples: int) -> list[Candidate]:
    refusals.positive(samples, what="the number of samples", remedy="count at least one")
    rates = [option.gang.rate for option in options if option.gang.rate is not None]
    if rates:
        amount.common_currency(*rates)
    return [_candidate(option, samples) for option in options]


def _candidate(option: Option, samples: int) -> Candidate:
    hours = marginal.hours_to_samples(samples, throughput=option.throughput)
    rate = option.gang.rate
    cost = rate and marginal.per_samples(
        rate, nodes=option.gang.nodes, throughput=option.throughput, samples=Decimal(samples)
    )
    return Candidate(
        option=option,
        hours=Bounds(mean=Decimal(hours.mean), low=_optional(hours.low), high=_optional(hours.high)),
        cost=Bounds(mean=cost.mean, low=cost.low, high=cost.high) if cost else None,
        currency=rate.currency if rate else None,
    )


def _optional(value: float | None) -> Decimal | None:
    return None if value is None else Decimal(value)


def _hours(candidate: Candidate) -> Bounds:
    return candidate.hours


def _cost(candidate: Candidate) -> Bounds:
    assert candidate.cost is not None  # only those with a price are asked
    return candidate.cost


# --- words ------------------------------------------------------------------------------------------------------------


def _named(best: Candidate, question: _Question) -> str:
    superlative = question.superlative.capitalize()
    return f"{superlative} {question.limit_text}: {_option(best.option)}, {_hours_text(best)} and {_cost_text(best)}."


def _ties(tied: Sequence[Candidate]) -> list[str]:
    if not tied:
        return []
    names = [_option(one.option) for one in tied[:_TIED_NAMED]]
    if len(tied) > _TIED_NAMED:
        names.append(f"{len(tied) - _TIED_NAMED} more")
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return [f"A tie with {listed}, for their intervals overlap."]


def _doubt(best: Candidate, question: _Question) -> str:
    doubt = "Whether it keeps that limit is not sure:"
    if best.option.reach is Reach.FAR:
        return f"{doubt} so far beyond what was measured nothing is."
    if question.limited(best).high is None:
        return f"{doubt} its interval has no upper end; repeat it 3 times at least."
    return f"{doubt} its interval reaches beyond it, and no other gang is sure to keep it."


def _untested(best: Candidate, others: Sequence[Candidate], question: _Question) -> list[str]:
    if others and (question.ranked(best).high is None or any(question.ranked(one).low is None for one in others)):
        return ["Without intervals for all of them nothing says that this is more than chance."]
    return []


def _better(best: Candidate, keeping: Sequence[Candidate], question: _Question) -> list[str]:
    """The best of all that keep the limit on average, where it is not the one that was chosen."""
    first = keeping[0]
    if first is best:
        return []
    figures_text = f"{_hours_text(first)} and {_cost_text(first)}"
    return [f"{_option(first.option)} would be {question.better}, {figures_text}, but may not keep the limit."]


def _unmeasured(named: Sequence[Candidate]) -> list[str]:
    if all(one.option.reach is None for one in named):
        return []
    return ["What was not measured is predicted by a scaling law: measure it before you rely on it."]


def _too_slow(candidates: Sequence[Candidate], *, samples: int, hours: Decimal) -> str:
    wanted = samples / (hours * derived.SECONDS_PER_HOUR)
    needed = f"{samples:,} samples within {_hours_of(hours)} need {_figure(wanted)} samples/s"
    if not candidates:
        return f"{needed}, and nothing was measured: measure {workers_text(1)} of a pool at least."
    fastest = min(candidates, key=lambda candidate: (candidate.hours.mean, candidate.option.gang.workers))
    speed = figures.bounded(_estimate(fastest.option.throughput))
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
    names = [_option(one.option) for one in candidates if one.cost is None]
    return [f"{', '.join(names)}: no price, and therefore not compared by cost."] if names else []


def _option(option: Option) -> str:
    mark = "" if option.reach is None else f" (not measured: {option.reach.value})"
    return f"{_gang(option.gang)}{mark}"


def _gang(gang: Gang) -> str:
    setting = f" at {gang.line.setting}" if gang.line.setting else ""
    return f"{workers_text(gang.workers)}{setting} on {gang.line.pool}"


def _hours_text(candidate: Candidate) -> str:
    hours = candidate.hours
    return f"{figures.bounded(Estimate(mean=float(hours.mean), low=_float(hours.low), high=_float(hours.high)))} hours"


def _cost_text(candidate: Candidate) -> str:
    if candidate.cost is None or candidate.currency is None:
        return "at a price that nobody knows"
    cost = candidate.cost
    return figures.money(
        AmountInterval(
            mean=_text(cost.mean),
            low=None if cost.low is None else _text(cost.low),
            high=None if cost.high is None else _text(cost.high),
            currency=candidate.currency,
        )
    )


def _estimate(interval: Interval) -> Estimate:
    return Estimate(mean=interval.mean, low=interval.low, high=interval.high)


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _text(value: Decimal) -> str:
    return f"{value.quantize(_AMOUNT_PLACES, rounding=ROUND_HALF_UP):f}"


def _figure(value: Decimal) -> str:
    return figures.bounded(Estimate(mean=float(value)))


def _hours_of(limit: Decimal) -> str:
    return f"{_number(limit)} hour{'' if limit == 1 else 's'}"


def _number(value: Decimal) -> str:
    """As it was given, without an exponent."""
    return f"{value:,f}"
