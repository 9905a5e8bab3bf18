# SPDX-License-Identifier: Apache-2.0
"""What a publication derives from its measurements, beside what gpubench's own formulas make of them.

The measurements are imported into a plan (`plan.imported`), which says which derived figures the publication has.
Each is computed from the results of that plan, rounded half up to the publication's places, and stands beside what is
printed there: the two differ where the publication rounded on the way, or is wrong.

Must not happen: a published number that is computed here, or a figure for which an input was never published.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench.api.point_result import SOURCES, PointResult
from gpubench.api.pool_price import Ownership
from gpubench.money import billing, breakeven, derived, exchange, ownership, price
from gpubench.money.amount import Amount, Rate
from gpubench.money.billing import BillingRule
from gpubench.money.derived import Relative, SamplesPerUnit
from gpubench.money.refusals import RefusedInput
from gpubench.plan import derived as sources
from gpubench.plan.imported import Figure, FigureKind
from gpubench.plan.plan import Plan
from gpubench.report import efficiencies, figures, tables
from gpubench.report.tables import NOT_PUBLISHED, Column, Table
from gpubench.units import workers_text
from gpubench.values import Value

PUBLISHED_NOTE = (
    "PUBLISHED is what is printed there, HERE what gpubench makes of the imported measurements, rounded half up to as "
    "many places; not published: it stands in a chart only, or nowhere."
)


class Reproduced(Value):
    """A derived figure of a publication, and the same of gpubench."""

    figure: str  # what it is, with its unit
    point: str
    against: str | None = None
    published: str | None = None  # as it is printed; None: not published
    places: int
    here: str | None = None  # rounded to these places; None where it cannot be told
    absent: str | None = None  # why not
    note: str | None = None


class _AbsentError(Exception):
    """An input that nobody has published, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class _Study:
    """Where the inputs of a figure come from."""

    plan: Plan
    results: Sequence[PointResult]

    def describe(self, index: int) -> str:
        return tables.describe(self.results[index])

    def place(self, index: int) -> str:
        """A point by what tells it apart from one that trains the same elsewhere."""
        result = self.results[index]
        return f"{result.pool}, {workers_text(result.workers)}{f' with {result.variant}' if result.variant else ''}"

    def throughput(self, index: int) -> Decimal:
        found = self.results[index].throughput
        if found is None:
            raise _AbsentError(f"samples/s of {self.describe(index)} were {NOT_PUBLISHED}")
        return _decimal(found.mean)

    def seconds(self, index: int) -> Decimal:
        training = self.results[index].training
        if training is None or training.seconds is None:
            raise _AbsentError(f"seconds of {self.describe(index)} were {NOT_PUBLISHED}")
        return _decimal(training.seconds.mean)

    def rate(self, index: int) -> Rate:
        pool = self.plan.points[index].key.pool
        found = price.planned_rate(self.plan, pool)
        if found is None:
            raise _AbsentError(f"the price of {pool} was {NOT_PUBLISHED}")
        return found

    def gang_hour(self, index: int) -> Rate:
        """What an hour of all the point's nodes costs."""
        rate = self.rate(index)
        nodes = self.plan.paid_nodes(self.plan.points[index])
        return Rate(per_node_hour=rate.per_node_hour * nodes, currency=rate.currency)

    def owned(self, index: int) -> Ownership:
        pool = self.plan.points[index].key.pool
        found = self.plan.pool(pool).spec.ownership
        if found is None:
            raise _AbsentError(f"what {pool} cost to buy and to run was {NOT_PUBLISHED}")
        return found

    def run_cost(self, index: int) -> Amount:
        return derived.cost_of_run(self.gang_hour(index), nodes=1, seconds=self.seconds(index))

    def samples_per_unit(self, index: int, *, throughput: Decimal) -> SamplesPerUnit:
        return derived.samples_per_unit(self.gang_hour(index), nodes=1, throughput=throughput)

    def efficiencies(self, index: int, *, base_workers: int | None = None) -> list[Decimal]:
        """Those of all points of more workers than the base on the point's line: by default the smallest base."""
        point = self.plan.points[index]
        line = sources.line_of(point)
        alike = [
            result
            for other, result in zip(self.plan.points, self.results, strict=True)
            if other.basis in SOURCES and sources.same_training(line, other.key, point.key)
        ]
        bases = [found.baseline_workers for result in alike for found in result.scaling if found.kind == line]
        smallest = min(bases, default=1) if base_workers is None else base_workers
        found = efficiencies.of_line(alike, line=line, baseline_workers=smallest)
        if not found:
            raise _AbsentError(f"no efficiency of {self.describe(index)} was published")
        return [_decimal(one) for one in found]

    def times_as_fast(self, index: int, *, over: int) -> Decimal:
        """From a ratio that was published as such, else from seconds, else from samples per second."""
        one, other = self._ratio(index), self._ratio(over)
        if one is not None and other is not None and one.base == other.base:
            return derived.between(one, other=other, name=self.describe(over)).ratio
        if self.results[index].training is not None:
            return derived.relative_speed(
                self.seconds(index), base_seconds=self.seconds(over), base=self.describe(over)
            ).ratio
        base = self.throughput(over)
        return self.throughput(index) / base

    def _ratio(self, index: int) -> Relative | None:
        """How many times as fast as the last point of a chain of published ratios; None where there is none."""
        ratio, at, seen = Decimal(1), index, {index}
        imported = self.plan.imported
        while imported is not None and (found := imported.at(at)) is not None and found.speed is not None:
            ratio, at = ratio * Decimal(found.speed.times), found.speed.over
            if at in seen:
                raise _AbsentError(f"the published ratios of {self.describe(index)} run in a circle")
            seen.add(at)
        if at == index and not self._is_a_base(index):
            return None
        return Relative(ratio=ratio, base=self.describe(at))

    def _is_a_base(self, index: int) -> bool:
        imported = self.plan.imported
        return imported is not None and any(
            one.speed is not None and one.speed.over == index for one in imported.points
        )


def reproduced(plan: Plan, results: Sequence[PointResult]) -> tuple[Reproduced, ...]:
    """Every derived figure that the plan's publication has; none for a plan that was not imported."""
    if plan.imported is None:
        return ()
    study = _Study(plan=plan, results=results)
    return tuple(_reproduced(study, figure) for figure in plan.imported.figures)


def table(found: Sequence[Reproduced]) -> Table:
    """Publication and gpubench side by side."""
    notes = dict.fromkeys(f"{one.figure}, {one.point}: {one.note}." for one in found if one.note and one.published)
    return Table(
        columns=(
            Column(title="FIGURE"),
            Column(title="POINT"),
            Column(title="AGAINST"),
            Column(title="PUBLISHED", numeric=True),
            Column(title="HERE", numeric=True),
        ),
        rows=tuple(
            (
                one.figure,
                one.point,
                one.against or figures.UNDEFINED,
                one.published or NOT_PUBLISHED,
                one.here or f"{figures.UNDEFINED} ({one.absent})",
            )
            for one in found
        ),
        notes=(PUBLISHED_NOTE, *notes),
    )


def _reproduced(study: _Study, figure: Figure) -> Reproduced:
    said = Reproduced(
        figure=_title(study, figure),
        point=_point_text(study, figure),
        against=study.place(figure.against) if figure.against is not None else None,
        published=figure.published,
        places=figure.places,
        note=figure.note,
    )
    try:
        value = _FORMULAS[figure.kind](study, figure)
    except (_AbsentError, RefusedInput) as error:
        return said.model_copy(update={"absent": str(error)})
    return said.model_copy(update={"here": f"{price.rounded(value, digits=figure.places):f}"})


def _title(study: _Study, figure: Figure) -> str:
    currency = _currency(study, figure)
    units = {
        FigureKind.MEAN_EFFICIENCY: "mean efficiency",
        FigureKind.EXTRAPOLATED_THROUGHPUT: "samples/s, extrapolated",
        FigureKind.SAMPLES_PER_MONEY: f"samples per {currency}".strip(),
        FigureKind.GOAL_HOURS: f"hours to {figure.goal}",
        FigureKind.GOAL_COST: f"cost of {figure.goal}",
        FigureKind.RUN_COST: "cost of a run",
        FigureKind.BILLED_COST: f"cost of a run, billed by {figure.amount} s",
        FigureKind.RELATIVE_TIME: "relative time",
        FigureKind.RELATIVE_COST: "relative cost",
        FigureKind.RELATIVE_SPEED: "times as fast",
        FigureKind.GAIN: "times as much for the money",
        FigureKind.OWN_HOUR: "an hour of use",
        FigureKind.OWN_MONTH: "a month",
        FigureKind.PAYBACK_DAYS: f"days until {currency} {figure.amount} are paid".replace("  ", " "),
        FigureKind.BREAK_EVEN_DAYS: "days of use a month to break even",
    }
    title = units[figure.kind]
    return f"{title}, {currency}" if figure.kind in _AMOUNTS and currency else title


def _point_text(study: _Study, figure: Figure) -> str:
    """What a figure is of: a mean over many machines is of none of them."""
    point = study.plan.points[figure.point]
    if figure.kind is FigureKind.MEAN_EFFICIENCY:
        return f"{point.key.workload} at {sources.batch_text(point)}, {point.key.precision.value}"
    return study.describe(figure.point)


def _currency(study: _Study, figure: Figure) -> str:
    """Of the point's costs; empty where it has none."""
    rate = price.planned_rate(study.plan, study.plan.points[figure.point].key.pool)
    return study.plan.currency or (rate.currency if rate is not None else "")


_AMOUNTS = frozenset(
    {
        FigureKind.GOAL_COST,
        FigureKind.RUN_COST,
        FigureKind.BILLED_COST,
        FigureKind.OWN_HOUR,
        FigureKind.OWN_MONTH,
    }
)


def _decimal(value: float) -> Decimal:
    """As it was printed, without the last bits of a binary fraction: a mean may lie on the edge of two roundings."""
    return Decimal(repr(value))


# --- the formulas -----------------------------------------------------------------------------------------------------


def _against(figure: Figure) -> int:
    assert figure.against is not None, "the import refuses such a figure without it"
    return figure.against


def _mean_efficiency(study: _Study, figure: Figure) -> Decimal:
    return derived.mean_efficiency(study.efficiencies(figure.point))


def _extrapolated(study: _Study, figure: Figure) -> Decimal:
    point = study.plan.points[figure.point]
    source = sources.source_of(study.plan, point)
    if source is None:
        raise _AbsentError(f"{point.key.pool} has no measuredBy to extrapolate from")
    workers = study.plan.points[source].key.workers
    return derived.extrapolated(
        study.throughput(source),
        times=Decimal(point.key.workers) / workers,
        efficiencies=study.efficiencies(figure.point, base_workers=workers),
    )


def _samples_per_money(study: _Study, figure: Figure) -> Decimal:
    return study.samples_per_unit(figure.point, throughput=study.throughput(figure.point)).samples


def _goal_hours(study: _Study, figure: Figure) -> Decimal:
    for goal in study.results[figure.point].goals:
        if goal.name == figure.goal:
            return _decimal(goal.hours.mean)
    study.throughput(figure.point)  # without one there is no goal either
    raise _AbsentError(f"the study has no goal {figure.goal} for this point")


def _goal_cost(study: _Study, figure: Figure) -> Decimal:
    for goal in study.results[figure.point].goals:
        if goal.name == figure.goal and goal.cost is not None:
            return Decimal(goal.cost.mean)
    study.throughput(figure.point)
    study.rate(figure.point)
    raise _AbsentError(f"the study has no goal {figure.goal} for this point")


def _run_cost(study: _Study, figure: Figure) -> Decimal:
    return study.run_cost(figure.point).value


def _billed_cost(study: _Study, figure: Figure) -> Decimal:
    assert figure.amount is not None, "the import refuses such a figure without it"
    rule = BillingRule(increment_seconds=Decimal(figure.amount))
    seconds = study.seconds(figure.point)
    return billing.billed(study.gang_hour(figure.point), node_seconds=[seconds], rule=rule).value


def _relative_time(study: _Study, figure: Figure) -> Decimal:
    base = _against(figure)
    return derived.relative_time(
        study.seconds(figure.point), base_seconds=study.seconds(base), base=study.describe(base)
    ).ratio


def _relative_cost(study: _Study, figure: Figure) -> Decimal:
    base = _against(figure)
    return derived.relative_cost(
        study.run_cost(figure.point), base_cost=study.run_cost(base), base=study.describe(base)
    ).ratio


def _relative_speed(study: _Study, figure: Figure) -> Decimal:
    return study.times_as_fast(figure.point, over=_against(figure))


def _gain(study: _Study, figure: Figure) -> Decimal:
    base = _against(figure)
    speed = study.times_as_fast(figure.point, over=base)
    own = study.samples_per_unit(figure.point, throughput=speed)
    return derived.gain(own, over=study.samples_per_unit(base, throughput=Decimal(1)))


def _own_hour(study: _Study, figure: Figure) -> Decimal:
    study.owned(figure.point)
    return study.rate(figure.point).per_node_hour


def _own_month(study: _Study, figure: Figure) -> Decimal:
    owned = study.owned(figure.point)
    month = ownership.per_month(owned, hours_per_month=Decimal(owned.hours_per_month))
    into = study.plan.currency or month.currency
    return exchange.exchanged(month, into=into, rates=study.plan.exchange_rates).value


def _payback(study: _Study, figure: Figure) -> Decimal:
    assert figure.amount is not None, "the import refuses such a figure without it"
    rented = study.gang_hour(_against(figure))
    found = breakeven.payback(
        Amount(value=Decimal(figure.amount), currency=rented.currency),
        rented=rented,
        relative_speed=study.times_as_fast(figure.point, over=_against(figure)),
    )
    return _number(found.days, found.sentence)


def _break_even(study: _Study, figure: Figure) -> Decimal:
    found = breakeven.break_even_use(
        study.owned(figure.point),
        rented=study.gang_hour(_against(figure)),
        relative_speed=study.times_as_fast(figure.point, over=_against(figure)),
    )
    return _number(found.days_per_month, found.sentence)


def _number(value: Decimal | None, sentence: str) -> Decimal:
    if value is None:
        raise _AbsentError(sentence)
    return value


_FORMULAS: dict[FigureKind, Callable[[_Study, Figure], Decimal]] = {
    FigureKind.MEAN_EFFICIENCY: _mean_efficiency,
    FigureKind.EXTRAPOLATED_THROUGHPUT: _extrapolated,
    FigureKind.SAMPLES_PER_MONEY: _samples_per_money,
    FigureKind.GOAL_HOURS: _goal_hours,
    FigureKind.GOAL_COST: _goal_cost,
    FigureKind.RUN_COST: _run_cost,
    FigureKind.BILLED_COST: _billed_cost,
    FigureKind.RELATIVE_TIME: _relative_time,
    FigureKind.RELATIVE_COST: _relative_cost,
    FigureKind.RELATIVE_SPEED: _relative_speed,
    FigureKind.GAIN: _gain,
    FigureKind.OWN_HOUR: _own_hour,
    FigureKind.OWN_MONTH: _own_month,
    FigureKind.PAYBACK_DAYS: _payback,
    FigureKind.BREAK_EVEN_DAYS: _break_even,
}
