# SPDX-License-Identifier: Apache-2.0
"""What publications derive from their measurements, made anew from an imported results folder by gpubench's functions.

`tests/core/published/NAME.figures.csv` has a row for each figure: its kind, its point, the one that it is against, what
is printed, and to how many places. What comes out is rounded half up to these places.
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import published_formulas
from gpubench.analysis import points
from gpubench.api.point_result import SOURCES, GoalResult, PointResult
from gpubench.cost import billing, price, whatif
from gpubench.cost.billing import BillingRule
from gpubench.cost.price import Amount, OwnedNode, Rate
from gpubench.cost.whatif import SamplesPerUnit
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan, PointKey
from gpubench_cli import results
from published_formulas import Relative

PUBLISHED = Path(__file__).parents[1] / "core" / "published"


class Derived(NamedTuple):
    """One figure, as it is printed and as it comes out."""

    kind: str
    key: PointKey
    published: str  # empty: in a chart only, or nowhere
    here: str | None
    missing: str | None  # the input without which it does not come out


class _NotPublishedError(Exception):
    """An input that nobody has published."""


def rows(name: str) -> list[dict[str, str]]:
    """The table of a publication."""
    lines = (PUBLISHED / f"{name}.figures.csv").read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def of_folder(folder: Path, name: str) -> list[Derived]:
    """Each figure of a publication, from a folder into which its measurements were imported."""
    study = results.stored(results.in_folder(folder))
    return [_derived(_Study(study.plan, study.status.results), row) for row in rows(name)]


def _derived(study: "_Study", row: Mapping[str, str]) -> Derived:
    index = study.find(row)
    here = missing = None
    try:
        here = f"{price.rounded(_value(study, row, index), digits=int(row['places'])):f}"
    except _NotPublishedError as error:
        missing = str(error)
    return Derived(row["figure"], study.plan.points[index].key, row["published"], here, missing)


def _value(study: "_Study", row: Mapping[str, str], index: int) -> Decimal:
    match row["figure"]:
        case "mean-efficiency":
            value = whatif.mean_efficiency(study.efficiencies(index))
        case "extrapolated-throughput":
            source = expand.source_of(study.plan, study.plan.points[index])
            assert source is not None
            workers = study.plan.points[source].key.workers
            value = whatif.extrapolated(
                study.throughput(source),
                times=Decimal(study.plan.points[index].key.workers) / workers,
                efficiencies=study.efficiencies(index, base_workers=workers),
            )
        case "samples-per-money":
            value = study.samples_per_unit(index, throughput=study.throughput(index)).samples
        case "goal-hours":
            value = _decimal(study.goal(index, row["goal"]).hours.mean)
        case "goal-cost":
            cost = study.goal(index, row["goal"]).cost
            assert cost is not None
            value = Decimal(cost.mean)
        case "run-cost":
            value = study.run_cost(index).value
        case "billed-cost":
            rule = BillingRule(increment_seconds=Decimal(row["amount"]))
            value = published_formulas.billed(study.hour(index), node_seconds=[study.seconds(index)], rule=rule).value
        case "own-hour":
            value = study.hour(index).per_node_hour
        case "own-month":
            own = study.own(index)
            value = own.month(hours=own.hours_per_month)
        case _:
            value = _against(study, row, index, study.against(row, index))
    return value


def _against(study: "_Study", row: Mapping[str, str], index: int, base: int) -> Decimal:
    """A figure of one point relative to another."""
    match row["figure"]:
        case "relative-time":
            return published_formulas.relative_time(study.seconds(index), base_seconds=study.seconds(base))
        case "relative-cost":
            return whatif.relative_cost(study.run_cost(index), base_cost=study.run_cost(base), base="base")
        case "relative-speed":
            return study.times_as_fast(index, base)
        case "gain":
            gained = study.samples_per_unit(index, throughput=study.times_as_fast(index, base))
            return whatif.gain(gained, over=study.samples_per_unit(base, throughput=Decimal(1)))
        case "payback-days":
            rented, speed = study.hour(base), study.times_as_fast(index, base)
            bought = OwnedNode(  # no publication counts more than the purchase
                purchase=Decimal(row["amount"]),
                lifetime_months=36,
                hours_per_month=price.HOURS_PER_MONTH,
                currency=rented.currency,
            )
            days = whatif.payback(bought, rented=rented, relative_speed=speed).days
        case "break-even-days":
            speed = study.times_as_fast(index, base)
            days = whatif.break_even_use(study.own(index), rented=study.hour(base), relative_speed=speed).days
        case kind:
            raise ValueError(f"{kind} is no figure")
    assert days is not None
    return days


@dataclass(frozen=True)
class _Study:
    """Where the inputs of a figure come from."""

    plan: Plan
    results: Sequence[PointResult]

    def find(self, row: Mapping[str, str]) -> int:
        """The point of a row, which names as much as tells it apart; none with a variant unless it names one."""
        named = {name: row[name] for name in ("workload", "pool", "workers", "batch_per_worker") if row.get(name)}
        (found,) = (
            index
            for index, point in enumerate(self.plan.points)
            if _variant(point.key) == row.get("variant", "")
            and all(str(getattr(point.key, name)) == text for name, text in named.items())
        )
        return found

    def against(self, row: Mapping[str, str], index: int) -> int:
        """The point that trains the same elsewhere: of as many workers, unless the row names how many."""
        of = self.plan.points[index]
        pool = row.get("against_pool") or of.key.pool
        found = [
            other
            for other, point in enumerate(self.plan.points)
            if (point.key.pool, _variant(point.key)) == (pool, "")
            and self._trains_the_same(index, point.key.model_copy(update={"variant": of.key.variant}))
        ]
        workers = int(row.get("against_workers") or of.key.workers)
        if len(found) > 1:
            found = [other for other in found if self.plan.points[other].key.workers == workers]
        (one,) = found
        return one

    def _trains_the_same(self, index: int, key: PointKey) -> bool:
        point = self.plan.points[index]
        return expand.same_training(expand.line_of(point), point.key, key)

    def throughput(self, index: int) -> Decimal:
        found = self.results[index].throughput
        if found is None:
            raise _NotPublishedError(f"samples/s of {self.plan.points[index].key.pool}")
        return _decimal(found.mean)

    def seconds(self, index: int) -> Decimal:
        training = self.results[index].training
        assert training is not None
        assert training.seconds is not None
        return _decimal(training.seconds.mean)

    def goal(self, index: int, name: str) -> GoalResult:
        return next(goal for goal in self.results[index].goals if goal.name == name)

    def own(self, index: int) -> OwnedNode:
        pool = self.plan.points[index].key.pool
        found = self.plan.pool(pool).spec.ownership
        if found is None:
            raise _NotPublishedError(f"what {pool} costs to own")
        return pool_prices.owned_node(found)

    def hour(self, index: int) -> Rate:
        """What an hour of all the point's nodes costs."""
        point = self.plan.points[index]
        rate = pool_prices.planned_rate(self.plan, point.key.pool)
        if rate is None:
            raise _NotPublishedError(f"the price of {point.key.pool}")
        return Rate(per_node_hour=rate.per_node_hour * self.plan.paid_nodes(point), currency=rate.currency)

    def run_cost(self, index: int) -> Amount:
        return billing.cost_of_run(self.hour(index), nodes=1, seconds=self.seconds(index))

    def samples_per_unit(self, index: int, *, throughput: Decimal) -> SamplesPerUnit:
        return whatif.samples_per_unit(self.hour(index), nodes=1, throughput=throughput)

    def efficiencies(self, index: int, *, base_workers: int | None = None) -> list[Decimal]:
        """Those of all points of more workers than the base on the point's line: by default the smallest base."""
        line = expand.line_of(self.plan.points[index])
        alike = [
            result
            for point, result in zip(self.plan.points, self.results, strict=True)
            if point.basis in SOURCES and self._trains_the_same(index, point.key)
        ]
        smallest = base_workers or min(
            found.baseline_workers for result in alike for found in result.scaling if found.kind == line
        )
        return [_decimal(one) for one in points.efficiencies_on_line(alike, line=line, baseline_workers=smallest)]

    def times_as_fast(self, index: int, over: int) -> Decimal:
        """From ratios that were published as such, else from seconds, else from samples per second."""
        one, other = self._relative(index), self._relative(over)
        if one.base == other.base:
            return published_formulas.between(one, other=other)
        if self.results[index].training is not None:
            return published_formulas.relative_speed(self.seconds(index), base_seconds=self.seconds(over))
        base = self.throughput(over)
        return self.throughput(index) / base

    def _relative(self, index: int) -> Relative:
        """How many times as fast as the last point of a chain of published ratios; once itself where there is none."""
        ratio = Decimal(1)
        assert self.plan.imported is not None
        while (found := self.plan.imported.at(index)) is not None and found.speed is not None:
            ratio, index = ratio * Decimal(found.speed.times), found.speed.over
        return Relative(ratio=ratio, base=str(index))


def _variant(key: PointKey) -> str:
    return key.variant.name if key.variant is not None else ""


def _decimal(value: float) -> Decimal:
    """As it was printed, without the last bits of a binary fraction: a mean may lie on the edge of two roundings."""
    return Decimal(repr(value))
