# SPDX-License-Identifier: Apache-2.0
"""What is drawn: figures over workers, time against cost, costs, and what a bill paid for.

A chart is rows of figures with a description; `gpubench_cli.page` gives the rows to matplotlib. Must not happen: an
empty chart; different work in one chart; a line through points that differ in more than their workers; amounts of two
currencies, or a bill and a marginal cost, on one axis.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypeVar

from gpubench import units, workloads
from gpubench.analysis import answer, text
from gpubench.api.point_result import AmountInterval, Basis, PointBill, PointResult, PointState
from gpubench.api.price_result import NodesSpent, Spent
from gpubench.cost import billing
from gpubench.report import tables
from gpubench.values import FrozenModel, Interval, grouped

#: Lines of one chart; more of them are drawn batch by batch.
SERIES_MAX = 8
#: Bars of one chart; the others are in the table.
BARS_MAX = 20
_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600.0

_Key = TypeVar("_Key")
_Kind = Literal["weak", "strong"]


# --- values -----------------------------------------------------------------------------------------------------------


class Row(FrozenModel):
    """A figure of a chart; an end of an interval is absent where it is open or unknown. A bar is `y` long, from `x`."""

    series: str  # or the name of a bar
    x: Interval = Interval(mean=0.0)
    y: Interval
    label: str = ""  # beside it
    hollow: bool = False  # it was not run, or never settled


class Chart(FrozenModel):
    """Rows of figures, of which `form` says how they are drawn."""

    kind: Literal["chart"] = "chart"
    title: str
    description: str  # for those who do not see it
    #: Workers across; marks, of which the labelled are the frontier; lines with marks; a column of lengths.
    form: Literal["workers", "frontier", "lines", "bars"] = "lines"
    x: str = ""  # titles of the axes
    y: str = ""
    level: str = ""  # what a line across at 1 means, which is written as 100 %
    rows: tuple[Row, ...]  # never none


def _reading(rows: Sequence[Row]) -> str:
    """How thin lines and hollow marks are to be read, where there are any."""
    intervals = " Thin lines are 95 % intervals." if any(row.y.low is not None for row in rows) else ""
    hollow = " Hollow or hatched: not run, or never settled." if any(row.hollow for row in rows) else ""
    return f"{intervals}{hollow}"


# --- points -----------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A point with the benchmark that it belongs to."""

    point: PointResult
    benchmark: str = ""  # empty where a report has one only
    spent: Spent | None = None  # by the benchmark

    @property
    def pool_name(self) -> str:
        return f"{self.point.pool} ({self.benchmark})" if self.benchmark else self.point.pool

    @property
    def name(self) -> str:
        remarks = ", ".join(_remarks(self.point))
        return f"{self.pool_name}, {text.shape(self.point)}{f' ({remarks})' if remarks else ''}"


def _remarks(point: PointResult) -> list[str]:
    """Why a figure is drawn hollow: it was not measured, here or elsewhere, or never settled."""
    basis = {Basis.REPRICED: ["re-priced"], Basis.EXTRAPOLATED: ["extrapolated"]}.get(point.basis, [])
    return basis + ([point.state.value] if point.state is PointState.UNSTABLE else [])


def work(point: PointResult) -> tuple[str, str]:
    """What two points must have in common to be drawn in one chart: the title of their work, and what was timed."""
    return answer.work_text(point), "" if point.training is None else text.timed_region(point.training.timed_region)


def _together(
    entries: Iterable[Entry], *, apart: Callable[[Entry], str] = lambda _: ""
) -> Iterator[tuple[str, list[Entry]]]:
    """Points that one chart may show, by work and `apart`, with a title; it names the benchmark that alone has them."""
    for ((title, _), _), members in grouped(entries, lambda entry: (work(entry.point), apart(entry))).items():
        name, *others = {entry.benchmark for entry in members}
        if others or not name:
            yield title, members
        else:
            yield f"{title} ({name})", [entry._replace(benchmark="") for entry in members]


# --- over workers -----------------------------------------------------------------------------------------------------


class _Line(NamedTuple):  # what the points of a line have in common besides their work
    pool: str
    variant: str | None
    kind: _Kind
    batch: str
    benchmark: str
    workers_per_node: int | None = None  # where points of the line differ in nothing else

    def name(self, among: Sequence["_Line"]) -> str:
        """The pool, and in what else it differs from the other lines."""
        parts = [
            self.pool,
            (self.variant or "no variant") if any(other.variant != self.variant for other in among) else "",
            self.batch if any(other.batch != self.batch for other in among) else "",
            "" if self.workers_per_node is None else f"{self.workers_per_node} per node",
            self.benchmark,
        ]
        return ", ".join(filter(None, parts))


_Figure = Callable[[PointResult, _Kind], Interval | None]


def throughput(entries: Sequence[Entry]) -> list[Chart]:
    """Samples per second over workers, of messages their bus bandwidth."""
    return [
        *_over_workers(
            entries,  # elements of a message are no samples
            lambda point, _: None if point.workload == workloads.MESSAGES else point.throughput,
            title="Throughput",
            axis="samples per second",
        ),
        *_over_workers(
            entries,
            lambda point, _: None if point.bandwidth is None else point.bandwidth.bus.scaled(1e-9),
            title="Bandwidth",
            axis="bus bandwidth in GB/s",
        ),
    ]


def efficiency(entries: Sequence[Entry]) -> list[Chart]:
    return [
        *_over_workers(
            entries,
            lambda point, kind: next((one.efficiency for one in point.scaling if one.kind == kind), None),
            title="Scaling efficiency",
            axis="scaling efficiency",
            level="perfect scaling",
        )
    ]


def _over_workers(
    entries: Sequence[Entry], figure: _Figure, *, title: str, axis: str, level: str = ""
) -> Iterator[Chart]:
    shown = text.percent if level else text.spread
    for work_title, members in _together(entries):
        lines = _lines(members, figure)
        if all(len(drawn) < 2 for drawn in lines.values()):
            continue
        groups = grouped(lines, lambda line: line.batch) if len(lines) > SERIES_MAX else {"": list(lines)}
        for group in groups.values():
            batch = f", {group[0].batch}" if len({line.batch for line in group}) == 1 else ""
            rows = tuple(
                Row(series=line.name(group), x=Interval(mean=point.workers), y=y, hollow=bool(_remarks(point)))
                for line in group
                for point, y in lines[line]
            )
            ends = [
                f"{line.name(group)}: {' to '.join(f'{shown(y)} at {point.workers}' for point, y in (*first, *last))}"
                for line in group
                for first, last in [(lines[line][:1], lines[line][1:][-1:])]
            ]
            yield Chart(
                title=f"{title}: {work_title}{batch}",
                description=(
                    f"{axis[0].upper()}{axis[1:]} against the number of workers: {'; '.join(ends)}.{_reading(rows)}"
                ),
                form="workers",
                x="workers",
                y=axis,
                level=level,
                rows=rows,
            )


def _lines(entries: Sequence[Entry], figure: _Figure) -> dict[_Line, list[tuple[PointResult, Interval]]]:
    """The lines with figures, each with one point for a worker count: 2 x 1 and 1 x 2 workers are on different ones."""
    pairs = [(line, entry.point) for entry in entries for line in _lines_of(entry)]
    found: dict[_Line, list[tuple[PointResult, Interval]]] = {}
    for line, members in grouped(pairs, lambda pair: pair[0]).items():
        for own in _one_each([point for _, point in members], lambda point: point.pool).values():
            for per_node, ordered in _one_each(own, lambda point: point.workers_per_node).items():
                if drawn := [(point, y) for point in ordered if (y := figure(point, line.kind)) is not None]:
                    pools = ", ".join(dict.fromkeys(point.pool for point in ordered))
                    found[line._replace(pool=pools, workers_per_node=per_node)] = drawn
    return found


def _lines_of(entry: Entry) -> Iterator[_Line]:
    """The weak line, the strong line, or both; a pool whose base is on a sibling belongs to the sibling's line."""
    point = entry.point
    alone: _Kind = "strong" if point.batch_per_worker is None else "weak"
    for kind in sorted({scaling.kind for scaling in point.scaling} or {alone}, reverse=True):
        weak, strong = f"batch {point.batch_per_worker} per worker", f"global batch {point.global_batch}"
        yield _Line(
            pool=next((scaling.baseline_pool for scaling in point.scaling if scaling.baseline_pool), point.pool),
            variant=point.variant,
            kind=kind,
            batch=weak if kind == "weak" else strong,
            benchmark=entry.benchmark,
        )


def _one_each(
    members: Sequence[PointResult], part: Callable[[PointResult], _Key]
) -> dict[_Key | None, list[PointResult]]:
    """Points in the order of their workers: all together where no two have as many, else parted."""
    ordered = sorted(members, key=lambda point: point.workers)
    if len({point.workers for point in ordered}) == len(ordered):
        return {None: ordered}
    return dict(grouped(ordered, part))


# --- time and cost ----------------------------------------------------------------------------------------------------


#: What is paid for besides goals.
_RUN, _SAMPLES = "a run", "a million samples"


class _Offer(NamedTuple):
    entry: Entry
    seconds: Interval
    cost: AmountInterval


def _offers(entries: Sequence[Entry]) -> Iterator[tuple[str, str, dict[str, list[_Offer]]]]:
    """Of points that one chart may show: a title, whether runs or samples are paid for, and offers by what they do."""
    priced = (entry for entry in entries if entry.point.cost is not None)
    for title, members in _together(priced, apart=lambda entry: tables.currency(entry.point) or ""):
        offers: dict[str, list[_Offer]] = {}
        for entry in members:
            for what, seconds, cost in _takes(entry.point):
                if seconds is not None and cost is not None:
                    offers.setdefault(what, []).append(_Offer(entry, seconds, cost))
        timed = all(entry.point.training and entry.point.training.seconds for entry in members)
        yield title, _RUN if timed else _SAMPLES, offers


def _takes(point: PointResult) -> Iterator[tuple[str, Interval | None, AmountInterval | None]]:
    for goal in point.goals:
        yield f"goal {goal.name}, at least", goal.hours.scaled(_SECONDS_PER_HOUR), goal.cost
    if point.cost is not None and point.training is not None:
        yield _RUN, point.training.seconds, point.cost.per_run
    if point.cost is not None and point.throughput is not None:
        hours = billing.hours_to_samples_interval(_MILLION, throughput=point.throughput)
        yield _SAMPLES, hours and hours.scaled(_SECONDS_PER_HOUR), point.cost.per_million_samples


def frontier(entries: Sequence[Entry]) -> list[Chart]:
    """Time against cost: what no other point is both faster and cheaper than lies on the frontier."""
    found: list[Chart] = []
    for title, headline, offers in _offers(entries):
        goals = [what for what in offers if what not in {_RUN, _SAMPLES}]
        asked = [*goals, headline] if headline == _RUN or not goals else goals
        found += [_frontier(offers[what], what, title=title) for what in asked if len(offers.get(what, ())) > 1]
    return found


def _frontier(offers: Sequence[_Offer], what: str, *, title: str) -> Chart:
    unit = text.time_unit(offer.seconds.mean for offer in offers)
    currency = offers[0].cost.currency
    best: list[_Offer] = []  # the fastest first (V. Pareto, 1906)
    for offer in sorted(offers, key=lambda one: (one.seconds.mean, Decimal(one.cost.mean))):
        if not best or Decimal(offer.cost.mean) < Decimal(best[-1].cost.mean):
            best.append(offer)
    rows = tuple(
        Row(
            series=offer.entry.pool_name,
            x=offer.seconds.scaled(1 / unit.seconds),
            y=Interval(**dict(offer.cost.each(float))),
            label=str(offer.entry.point.workers) if any(offer is one for one in best) else "",
            hollow=bool(_remarks(offer.entry.point)),
        )
        for offer in offers
    )
    return Chart(
        title=f"Time against cost: {title}, {what}",
        description=(
            f"{unit.name.capitalize()} and {currency} for {what}; numbers beside marks are workers. On the frontier, "
            "where no other point is both faster and cheaper on average: "
            f"{'; '.join(offer.entry.name for offer in best)}.{_reading(rows)}"
        ),
        form="frontier",
        x=unit.name,
        y=currency,
        rows=rows,
    )


def costs(entries: Sequence[Entry]) -> list[Chart]:
    found: list[Chart] = []
    for title, what, offers in _offers(entries):
        if not (paid := sorted(offers.get(what, ()), key=lambda offer: Decimal(offer.cost.mean))):
            continue
        currency = paid[0].cost.currency
        rest = f" The {BARS_MAX} cheapest of {len(paid)}; the others are in the table." if len(paid) > BARS_MAX else ""
        rows = tuple(
            Row(
                series=entry.name,
                y=Interval(**dict(cost.each(float))),
                label=text.money(cost),
                hollow=bool(_remarks(entry.point)),
            )
            for entry, _, cost in paid[:BARS_MAX]
        )
        description = (
            f"Marginal cost in {currency} of {what}: hourly price over speed. Start-up, billing steps and idle time "
            f"come on top. From {rows[0].label} ({rows[0].series}) to {rows[-1].label} ({rows[-1].series})."
            f"{rest}{_reading(rows)}"
        )
        found.append(Chart(title=f"Cost: {title}, {what}", description=description, form="bars", x=currency, rows=rows))
    return found


# --- what a bill paid for ---------------------------------------------------------------------------------------------


def waterfall(entries: Sequence[Entry]) -> list[Chart]:
    """The bill of each benchmark, part by part; the parts sum to the bill, which nodes that came meanwhile follow."""
    billed = [(entry.benchmark, entry.point.bill) for entry in entries if entry.point.bill is not None]
    nodes = {(one.benchmark, one.spent.currency): one.spent.nodes for one in entries if one.spent is not None}
    groups = grouped(billed, lambda pair: (pair[0], pair[1].currency))
    return [_bill([bill for _, bill in members], nodes.get(of), *of) for of, members in groups.items()]


def _bill(bills: Sequence[PointBill], nodes: NodesSpent | None, name: str, currency: str) -> Chart:
    total = sum((Decimal(bill.total) for bill in bills), Decimal(0))

    def row(part: str, paid: Decimal, *, start: Decimal, hollow: bool) -> Row:
        label = f"{currency} {text.amount(paid)}{f' ({text.part(str(paid), of=total)} %)' if total else ''}"
        return Row(series=part, x=Interval(mean=float(start)), y=Interval(mean=float(paid)), label=label, hollow=hollow)

    before, rows = Decimal(0), []
    for field, part in tables.BILL_PARTS.items():
        if amounts := [Decimal(amount) for bill in bills if (amount := getattr(bill.parts, field)) is not None]:
            rows.append(row(part.name, sum(amounts, Decimal(0)), start=before, hollow=field != "measured"))
            before += sum(amounts)
    rows.append(row("the bill", total, start=Decimal(0), hollow=False))
    if nodes is not None:
        rows.append(row("nodes that came", Decimal(nodes.amount), start=Decimal(0), hollow=True))
    incomplete = any(bill.incomplete for bill in bills)
    gone = " The pods of some attempts were gone when the operator looked: it is at least that." if incomplete else ""
    description = (
        f"What {units.counted(sum(bill.attempts for bill in bills), 'attempt')} are billed in {currency}, those "
        "without a result too, part by part, each beginning where the one above ends; measured work is filled: "
        f"{'; '.join(f'{row.series} {row.label}' for row in rows)}. The clock runs while pods have their nodes: a "
        f"provider bills the life of a node, which is longer.{gone}{'' if nodes is None else f' {nodes.sentence}.'}"
    )
    title = f"What the bill was paid for{f': {name}' if name else ''}"
    return Chart(title=title, description=description, form="bars", x=f"{currency} billed", rows=tuple(rows))


#: What a benchmark lacks where there is no such chart.
NEEDS: dict[Callable[[Sequence[Entry]], list[Chart]], str] = {
    frontier: "Time against cost needs two points of the same work whose pools have a price or an ownership.",
    throughput: "Throughput over workers needs two worker counts of the same work and batch (spec.sweep[].workers).",
    efficiency: "Scaling efficiency needs a throughput at two worker counts of the same work and batch.",
    costs: "Costs need a figure, and a price or an ownership of its pool in the currency of the benchmark.",
    waterfall: "What a bill was paid for needs an attempt that has ended on a pool with a price.",
}
