# SPDX-License-Identifier: Apache-2.0
"""What is drawn: figures over workers, time against cost, costs, the gain of an own machine, and what a bill paid for.

A chart has each figure twice: as a number that is drawn, and as text in the table behind it. Must not happen: an empty
chart; different work in one chart; a line through points that differ in more than their workers; amounts of two
currencies, or a bill and a marginal cost, on one axis.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, TypeVar

from pydantic import Field

from gpubench import workloads
from gpubench.analysis import text
from gpubench.api.point_result import AmountInterval, Basis, PointBill, PointResult, PointState
from gpubench.api.pool import GpuPool
from gpubench.api.sweep import DataSource
from gpubench.cost import billing, price, whatif
from gpubench.cost.price import OwnedNode, Rate
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.report import tables
from gpubench.report.tables import Column, Table, numbers, words
from gpubench.units import counted
from gpubench.values import FrozenModel, Interval

#: Series of one chart that can be told apart by colour, mark and line, also in grey.
SERIES_MAX = 8
#: Bars of one chart; the others are in the table.
BARS_MAX = 20
_HOLLOW = " Hollow: not run, or never settled."
_OCTAVES = 4  # largest worker count over smallest from which on an axis is logarithmic
_WIDE = 20  # times the smallest figure: from there on a linear axis hides the small ones
_FRONTIER_NAMED = 6
_USE_STEPS = 20
_GIGA = 1e9
_MILLION = 1_000_000
_SECONDS_PER_HOUR = 3600.0

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_Kind = Literal["weak", "strong"]


# --- values -----------------------------------------------------------------------------------------------------------


class Missing(FrozenModel):
    """A chart that cannot be drawn, and why."""

    kind: Literal["missing"] = "missing"
    title: str
    reason: str


class Axis(FrozenModel):
    """What is shown along an axis; the library chooses the ticks where none are given."""

    title: str
    ticks: tuple[float, ...] = ()
    logarithmic: bool = False
    percent: bool = False  # 1 is written as 100 %
    from_zero: bool = False


class Mark(FrozenModel):
    """One figure of a chart; an end of an interval is absent where it is open or unknown."""

    x: Interval
    y: Interval
    label: str = ""  # beside it
    hollow: bool = False  # it was not run, or never settled
    cells: tuple[str, ...]  # of its row in the table, without the name of the series


class Series(FrozenModel):
    """Marks of one kind."""

    name: str
    marks: tuple[Mark, ...] = Field(min_length=1)
    joined: bool = True  # by a line
    dots: bool = True  # drawn where the marks are; not on a computed curve


class Bar(FrozenModel):
    """A length from `start` to `start + value`, with the ends of its interval."""

    name: str
    value: float
    start: float = 0.0
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    text: str


class _Chart(FrozenModel):
    name: str  # unique in the document
    title: str
    description: str
    columns: tuple[Column, ...]  # of the table behind it


class Curves(_Chart):
    """Figures against figures."""

    kind: Literal["curves"] = "curves"
    x: Axis
    y: Axis
    series: tuple[Series, ...] = Field(min_length=1)
    level: float | None = None  # a line across, such as 1 where that is perfect
    level_name: str = ""
    steps: tuple[tuple[float, float], ...] = ()  # corners of a line in steps, such as a frontier
    steps_name: str = ""

    def table(self) -> Table:
        """The figures behind it."""
        rows = tuple((series.name, *mark.cells) for series in self.series for mark in series.marks)
        return Table(columns=self.columns, rows=rows)


class Bars(_Chart):
    """Lengths, one below the other."""

    kind: Literal["bars"] = "bars"
    axis: Axis
    bars: tuple[Bar, ...] = Field(min_length=1)

    def table(self) -> Table:
        """The figures behind it."""
        return Table(columns=self.columns, rows=tuple((bar.name, bar.text) for bar in self.bars))


Chart = Curves | Bars


# --- points -----------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A point with the benchmark that it belongs to."""

    point: PointResult
    benchmark: str = ""  # empty where a report has one only
    plan: Plan | None = None

    @property
    def pool_name(self) -> str:
        """The pool, with its benchmark where there are several."""
        return f"{self.point.pool} ({self.benchmark})" if self.benchmark else self.point.pool

    @property
    def shape_name(self) -> str:
        """Workers, batch and variant, and whether it was not run or never settled."""
        remarks = ", ".join(_remarks(self.point))
        return f"{text.shape(self.point)} ({remarks})" if remarks else text.shape(self.point)

    @property
    def name(self) -> str:
        """The point in a chart of its work."""
        return f"{self.pool_name}, {self.shape_name}"

    @property
    def planned_pool(self) -> GpuPool | None:
        """The pool as it was when the benchmark started; None where nobody knows."""
        pools = () if self.plan is None else self.plan.pools
        return next((pool for pool in pools if pool.name == self.point.pool), None)


def _remarks(point: PointResult) -> list[str]:
    """Why a figure is drawn hollow: it was not measured, here or elsewhere, or never settled."""
    basis = {Basis.REPRICED: ["re-priced"], Basis.EXTRAPOLATED: ["extrapolated"]}.get(point.basis, [])
    return basis + ([point.state.value] if point.state is PointState.UNSTABLE else [])


class Work(NamedTuple):
    """What two points must have in common to be drawn in one chart."""

    workload: str
    precision: str
    data: str
    epochs: int | None
    region: str

    def __str__(self) -> str:
        epochs = "" if self.epochs is None else f", {counted(self.epochs, 'epoch')}"
        data = f" on {self.data} data" if self.data else ""
        return f"{self.workload} in {self.precision}{data}{epochs}"


def work(point: PointResult) -> Work:
    """The work of a point."""
    return Work(
        workload=point.workload,
        precision=point.precision,
        data="" if point.data is DataSource.SYNTHETIC else text.data(point),
        epochs=text.epochs(point),
        region="" if point.training is None else text.timed_region(point.training.timed_region),
    )


def _grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Items by their keys, keys and items in their order."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _together(
    entries: Iterable[Entry], *, apart: Callable[[Entry], str] = lambda _: ""
) -> Iterator[tuple[str, list[Entry]]]:
    """Points that one chart may show, of the same work and alike in what `apart` says, with a title.

    Where only one of several benchmarks has the work, the title names it, and no entry names it again.
    """
    for (same, _), members in _grouped(entries, lambda entry: (work(entry.point), apart(entry))).items():
        name, *others = {entry.benchmark for entry in members}
        if others or not name:
            yield str(same), members
        else:
            yield f"{same} ({name})", [entry._replace(benchmark="") for entry in members]


def _no_figures(entries: Sequence[Entry]) -> str:
    """Why there are no figures at all."""
    states = {entry.point.state for entry in entries}
    if not entries:
        return "there are no points"
    if PointState.NOT_PUBLISHED in states:
        return text.NOT_PUBLISHED
    waiting = states & {PointState.PENDING, PointState.RUNNING}
    return "nothing has been measured so far" if waiting else "nothing was measured"


# --- over workers -----------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """What the points of a line have in common besides their work."""

    pool: str
    variant: str | None
    kind: _Kind
    batch: int | None  # of a worker where kind is weak, else of all
    benchmark: str
    workers_per_node: int | None = None  # where points of the line differ in nothing else

    @property
    def batch_text(self) -> str:
        """The batch in words."""
        return f"batch {self.batch} per worker" if self.kind == "weak" else f"global batch {self.batch}"

    def name(self, among: Iterable["_Line"]) -> str:
        """The pool, and in what else it differs from the other lines."""
        others = list(among)
        parts = [self.pool]
        if any(other.variant != self.variant for other in others):
            parts.append(self.variant or "no variant")
        if any(other.batch_text != self.batch_text for other in others):
            parts.append(self.batch_text)
        if self.workers_per_node is not None:
            parts.append(f"{self.workers_per_node} per node")
        return ", ".join([*parts, self.benchmark] if self.benchmark else parts)


_Lines = Mapping[_Line, tuple[Mark, ...]]


class _Scale(NamedTuple):
    """A figure that is drawn over workers."""

    name: str
    title: str
    axis: str
    column: str
    figure: Callable[[PointResult, _Kind], tuple[Interval, str] | None]  # and its text
    percent: bool = False


def throughput(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Samples per second over workers, of messages their bus bandwidth."""
    has_figures = any(entry.point.throughput for entry in entries)
    return _over_workers(entries, (_THROUGHPUT, _BANDWIDTH), has_figures=has_figures)


def efficiency(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Scaling efficiency over workers."""
    has_figures = any(entry.point.throughput or entry.point.scaling for entry in entries)
    return _over_workers(entries, (_EFFICIENCY,), has_figures=has_figures)


def _over_workers(
    entries: Sequence[Entry], scales: Sequence[_Scale], *, has_figures: bool
) -> tuple[Curves | Missing, ...]:
    found: list[Curves] = []
    for scale in scales:
        sheets = [(title, *sheet) for title, members in _together(entries) for sheet in _sheets(_lines(members, scale))]
        for number, (title, lines, suffix) in enumerate(sheets, start=1):
            found.append(_curves(lines, scale, title=title, suffix=suffix, name=f"{scale.name}-{number}"))
    if found:
        return tuple(found)
    reason = (
        "no pool has figures for two worker counts of the same work and batch; name several in spec.sweep[].workers to "
        "see how it scales"
    )
    if not has_figures:
        reason = _no_figures(entries)
    elif any(entry.point.state is PointState.NOT_PUBLISHED for entry in entries):
        reason = "not published for two worker counts of the same work and batch"
    return (Missing(title=f"{scales[0].title} over workers", reason=reason),)


def _sheets(lines: _Lines) -> Iterator[tuple[_Lines, str]]:
    """Lines in charts of no more than can be told apart: all together, else batch by batch; and which chart it is."""
    if all(len(marks) < 2 for marks in lines.values()):
        return
    groups = {"": list(lines)} if len(lines) <= SERIES_MAX else _grouped(lines, lambda line: line.batch_text)
    for alike in groups.values():
        sheets = [alike[start : start + SERIES_MAX] for start in range(0, len(alike), SERIES_MAX)]
        for number, sheet in enumerate(sheets, start=1):
            yield {line: lines[line] for line in sheet}, f" ({number} of {len(sheets)})" if len(sheets) > 1 else ""


def _curves(lines: _Lines, scale: _Scale, *, title: str, suffix: str, name: str) -> Curves:
    batches = {line.batch_text for line in lines}
    shared = f", {batches.pop()}" if len(batches) == 1 else ""
    marks = [mark for found in lines.values() for mark in found]
    workers = sorted({mark.x.mean for mark in marks})
    hollow = _HOLLOW if any(mark.hollow for mark in marks) else ""
    intervals = " Vertical bars are 95 % intervals." if any(mark.y.low is not None for mark in marks) else ""
    return Curves(
        name=name,
        title=f"{scale.title}: {title}{shared}{suffix}",
        description=f"{scale.axis[0].upper()}{scale.axis[1:]} against the number of workers.{intervals}{hollow}",
        x=Axis(title="workers", ticks=tuple(workers), logarithmic=workers[-1] >= _OCTAVES * workers[0]),
        y=Axis(title=scale.axis, percent=scale.percent, from_zero=True),
        series=tuple(Series(name=line.name(lines), marks=found) for line, found in lines.items()),
        columns=(*words("LINE"), *numbers("WORKERS", scale.column)),
        level=1.0 if scale.percent else None,
        level_name="perfect scaling" if scale.percent else "",
    )


def _lines(entries: Sequence[Entry], scale: _Scale) -> _Lines:
    """The lines with figures, each with one point for a worker count: 2 x 1 and 1 x 2 workers are on different ones."""
    members: dict[_Line, list[PointResult]] = {}
    for entry in entries:
        for line in _lines_of(entry):
            members.setdefault(line, []).append(entry.point)
    found: dict[_Line, tuple[Mark, ...]] = {}
    for line, points in members.items():
        for own in _one_each(points, lambda point: point.pool).values():
            for per_node, ordered in _one_each(own, lambda point: point.workers_per_node).items():
                pools = ", ".join(dict.fromkeys(point.pool for point in ordered))
                marks = tuple(
                    Mark(
                        x=Interval(mean=point.workers),
                        y=figure[0],
                        hollow=bool(_remarks(point)),
                        cells=(str(point.workers), figure[1]),
                    )
                    for point in ordered
                    if (figure := scale.figure(point, line.kind)) is not None
                )
                if marks:
                    found[line._replace(pool=pools, workers_per_node=per_node)] = marks
    return found


def _lines_of(entry: Entry) -> list[_Line]:
    """The weak line, the strong line, or both; a pool whose base is on a sibling belongs to the sibling's line."""
    point = entry.point
    kinds: set[_Kind] = {scaling.kind for scaling in point.scaling}
    if not kinds:
        kinds = {"strong" if point.batch_per_worker is None else "weak"}
    return [
        _Line(
            pool=next((scaling.baseline_pool for scaling in point.scaling if scaling.baseline_pool), point.pool),
            variant=point.variant,
            kind=kind,
            batch=point.batch_per_worker if kind == "weak" else point.global_batch,
            benchmark=entry.benchmark,
        )
        for kind in sorted(kinds, reverse=True)
    ]


def _one_each(
    members: Sequence[PointResult], part: Callable[[PointResult], _Key]
) -> dict[_Key | None, list[PointResult]]:
    """Points in the order of their workers: all together where no two have as many, else parted."""
    ordered = sorted(members, key=lambda point: point.workers)
    if len({point.workers for point in ordered}) == len(ordered):
        return {None: ordered}
    return dict(_grouped(ordered, part))


def _throughput_of(point: PointResult, _: _Kind) -> tuple[Interval, str] | None:
    if point.throughput is None or point.workload == workloads.MESSAGES:  # whose elements are no samples
        return None
    return point.throughput, text.throughput(point.throughput)


def _bandwidth_of(point: PointResult, _: _Kind) -> tuple[Interval, str] | None:
    bus = None if point.bandwidth is None else point.bandwidth.bus
    return None if bus is None else (bus.scaled(1 / _GIGA), text.spread(bus, per=_GIGA))


def _efficiency_of(point: PointResult, kind: _Kind) -> tuple[Interval, str] | None:
    return next(((one.efficiency, text.efficiency(one)) for one in point.scaling if one.kind == kind), None)


_THROUGHPUT = _Scale("throughput", "Throughput", "samples per second", "SAMPLES/S", _throughput_of)
_BANDWIDTH = _Scale("bandwidth", "Bandwidth", "bus bandwidth in GB/s", "BUSBW GB/S", _bandwidth_of)
_EFFICIENCY = _Scale(
    "efficiency", "Scaling efficiency", "scaling efficiency", "EFFICIENCY", _efficiency_of, percent=True
)


# --- time and cost ----------------------------------------------------------------------------------------------------


#: What may be asked for: work that takes seconds and money.
_RUN, _SAMPLES, _GOAL = "a run", "a million samples", "goal {}, at least"


class _Offer(NamedTuple):
    """A point with what it takes."""

    entry: Entry
    seconds: Interval
    cost: AmountInterval


def frontier(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Time against cost: what no other point is both faster and cheaper than lies on the frontier."""
    found: list[Curves] = []
    for title, members in _priced(entries):
        goals = list(dict.fromkeys(_GOAL.format(goal.name) for entry in members for goal in entry.point.goals))
        for what in [*goals, _RUN] if _is_timed(members) else goals or [_SAMPLES]:
            offers = [
                _Offer(entry, seconds, cost)
                for entry in members
                for seconds, cost in [_takes(entry.point, what)]
                if seconds is not None and cost is not None
            ]
            if len(offers) > 1:
                found.append(_frontier(offers, what, title=title, name=f"frontier-{len(found) + 1}"))
    reason = _no_cost(entries) or "there are no two points of the same work to choose from"
    return tuple(found) or (Missing(title="Time against cost", reason=reason),)


def _frontier(offers: Sequence[_Offer], what: str, *, title: str, name: str) -> Curves:
    unit = text.time_unit(offer.seconds.mean for offer in offers)
    currency = offers[0].cost.currency
    best = _not_dominated(offers)
    corners = tuple((offer.seconds.mean / unit.seconds, float(offer.cost.mean)) for offer in best)
    names = [offer.entry.name for offer in best[:_FRONTIER_NAMED]]
    if len(best) > _FRONTIER_NAMED:
        names.append(f"{len(best) - _FRONTIER_NAMED} more")
    hollow = _HOLLOW if any(_remarks(offer.entry.point) for offer in offers) else ""
    intervals = "bars are 95 % intervals, " if any(offer.seconds.low is not None for offer in offers) else ""
    return Curves(
        name=name,
        title=f"Time against cost: {title}, {what}",
        description=(
            f"{unit.name.capitalize()} and {currency} for {what}; {intervals}numbers beside marks are workers. On the "
            f"frontier, where no other point is both faster and cheaper on average: {'; '.join(names)}.{hollow}"
        ),
        x=Axis(title=unit.name, logarithmic=_is_wide([offer.seconds.mean for offer in offers]), from_zero=True),
        y=Axis(title=currency, logarithmic=_is_wide([float(offer.cost.mean) for offer in offers]), from_zero=True),
        series=tuple(
            Series(name=pool, marks=tuple(_offered(offer, unit, best) for offer in members), joined=False)
            for pool, members in _by_pool(offers, best).items()
        ),
        columns=(*words("POOL", "POINT"), *numbers(unit.name.upper(), "COST")),
        steps=corners if len(corners) > 1 else (),
        steps_name="frontier",
    )


def _offered(offer: _Offer, unit: text.TimeUnit, best: Sequence[_Offer]) -> Mark:
    point = offer.entry.point
    return Mark(
        x=offer.seconds.scaled(1 / unit.seconds),
        y=_floats(offer.cost),
        label=str(point.workers) if any(offer is one for one in best) else "",
        hollow=bool(_remarks(point)),
        cells=(offer.entry.shape_name, text.bounded(offer.seconds, per=unit.seconds), text.money(offer.cost)),
    )


def _not_dominated(offers: Sequence[_Offer]) -> list[_Offer]:
    """Offers than which no other is both faster and cheaper on average, the fastest first (V. Pareto, 1906)."""
    found: list[_Offer] = []
    for offer in sorted(offers, key=lambda one: (one.seconds.mean, Decimal(one.cost.mean))):
        if not found or Decimal(offer.cost.mean) < Decimal(found[-1].cost.mean):
            found.append(offer)
    return found


def _by_pool(offers: Sequence[_Offer], best: Sequence[_Offer]) -> dict[str, list[_Offer]]:
    """Offers by pool; where there are too many pools, those that are not on the frontier are one group."""
    groups = _grouped(offers, lambda offer: offer.entry.pool_name)
    if len(groups) <= SERIES_MAX:
        return groups
    named = list(dict.fromkeys([*(offer.entry.pool_name for offer in best), *groups]))[: SERIES_MAX - 1]
    rest = [offer for name, members in groups.items() if name not in named for offer in members]
    return {**{name: groups[name] for name in named}, f"{len(groups) - len(named)} other pools": rest}


def costs(entries: Sequence[Entry]) -> tuple[Bars | Missing, ...]:
    """What a million samples, or a run, cost at each point."""
    found: list[Bars] = []
    for title, members in _priced(entries):
        what = _RUN if _is_timed(members) else _SAMPLES
        paid = [(entry, cost) for entry in members if (cost := _takes(entry.point, what)[1]) is not None]
        if paid:
            found.append(_cost_bars(paid, what, title=title, name=f"cost-{len(found) + 1}"))
    return tuple(found) or (Missing(title="Cost", reason=_no_cost(entries) or _no_figures(entries)),)


def _cost_bars(paid: Sequence[tuple[Entry, AmountInterval]], what: str, *, title: str, name: str) -> Bars:
    shown = sorted(paid, key=lambda pair: Decimal(pair[1].mean))[:BARS_MAX]
    currency = paid[0][1].currency
    rest = f" The {BARS_MAX} cheapest of {len(paid)}; the others are in the table." if len(paid) > BARS_MAX else ""
    hollow = " Hatched: not run, or never settled." if any(_remarks(entry.point) for entry, _ in shown) else ""
    intervals = " Thin lines are 95 % intervals." if any(cost.low is not None for _, cost in shown) else ""
    return Bars(
        name=name,
        title=f"Cost: {title}, {what}",
        description=(
            f"Marginal cost in {currency} of {what}: hourly price over speed. Start-up, billing steps and idle time "
            f"come on top.{intervals}{rest}{hollow}"
        ),
        axis=Axis(title=currency, from_zero=True),
        bars=tuple(
            Bar(
                name=entry.name,
                value=amount.mean,
                low=amount.low,
                high=amount.high,
                hollow=bool(_remarks(entry.point)),
                text=text.money(cost),
            )
            for entry, cost in shown
            for amount in [_floats(cost)]
        ),
        columns=(*words("POINT"), *numbers("COST")),
    )


def _no_cost(entries: Sequence[Entry]) -> str | None:
    """Why nothing has a cost, without a full stop; None where something has one."""
    if any(entry.point.cost for entry in entries):
        return None
    measured = [entry for entry in entries if entry.point.throughput]
    if not measured:
        return _no_figures(entries)
    reasons = dict.fromkeys(reason for entry in measured if (reason := _unpriced(entry)) is not None)
    return "; ".join(reasons) or "no price: the points have no cost"


def _unpriced(entry: Entry) -> str | None:
    if entry.point.workload == workloads.MESSAGES:
        return f"{workloads.MESSAGES} trains nothing that is paid for"
    pool = entry.planned_pool
    if entry.plan is None or pool is None:
        return None
    if (without := pool_prices.without_exchange(entry.plan, pool.name)) is not None:
        return without
    return None if pool_prices.rate(pool.spec) else f"no price: pool {pool.name} has neither price nor ownership"


def _priced(entries: Sequence[Entry]) -> Iterator[tuple[str, list[Entry]]]:
    """Points with a cost, by what may be drawn together."""

    def currency(entry: Entry) -> str:
        cost = entry.point.cost
        found = None if cost is None else cost.per_million_samples or cost.per_run
        return "" if found is None else found.currency

    return _together((entry for entry in entries if entry.point.cost is not None), apart=currency)


def _is_timed(members: Sequence[Entry]) -> bool:
    return all(_takes(entry.point, _RUN)[0] is not None for entry in members)


def _takes(point: PointResult, what: str) -> tuple[Interval | None, AmountInterval | None]:
    """Seconds and money."""
    cost = point.cost
    if what == _RUN:
        return point.training.seconds if point.training else None, cost.per_run if cost else None
    if what == _SAMPLES:
        hours = point.throughput and billing.hours_to_samples_interval(_MILLION, throughput=point.throughput)
        return hours and hours.scaled(_SECONDS_PER_HOUR), cost.per_million_samples if cost else None
    goals = (goal for goal in point.goals if _GOAL.format(goal.name) == what)
    return next(((goal.hours.scaled(_SECONDS_PER_HOUR), goal.cost) for goal in goals), (None, None))


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > _WIDE * min(values)


def _floats(cost: AmountInterval) -> Interval:
    amount = cost.each(float)
    return Interval(mean=amount.mean, low=amount.low, high=amount.high)


# --- owned against rented ---------------------------------------------------------------------------------------------


class _Node(NamedTuple):
    """What one node of a pool does for one work, at the point that makes most of its price."""

    label: str
    pool: GpuPool
    rate: Rate | None  # in the plan's currency
    ownership: OwnedNode | None  # in the plan's currency
    throughput: Decimal
    hollow: bool


def gains(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """How many times as many samples money buys on an own machine as on rented ones, by how much it is used.

    Parkopedia, 2018, its figure of that name.
    """
    title = "Gain of the own machine against its use"
    owned = [entry for entry in entries if (pool := entry.planned_pool) is not None and pool.spec.ownership is not None]
    if entries and not owned:
        return (Missing(title=title, reason="no pool of this report has an ownership: all of them are rented"),)
    found: list[Curves] = []
    reasons: dict[str, None] = {}
    for work_name, members in _together(entries):
        nodes = _nodes(members)
        rented = [node for node in nodes if node.pool.spec.price is not None]
        for own in (node for node in nodes if node.pool.spec.ownership is not None):
            alike = [
                (node, rate)
                for node in rented
                if (rate := node.rate) is not None
                and own.ownership is not None
                and rate.currency == own.ownership.currency
                and rate.per_node_hour > 0  # for nothing one buys any number of samples
            ]
            if not rented:
                reasons[f"no rented pool with a price has a throughput of the same work as {own.pool.name}"] = None
            elif own.ownership is None or not alike:
                reasons[f"{own.pool.name} and the rented pools have prices in different currencies"] = None
            else:
                found.append(_gain(own, own.ownership, alike[:SERIES_MAX], work_name, name=f"gain-{len(found) + 1}"))
    return tuple(found) or (Missing(title=title, reason="; ".join(reasons) or _no_figures(owned)),)


def _gain(own: _Node, owner: OwnedNode, rented: Sequence[tuple[_Node, Rate]], work_name: str, *, name: str) -> Curves:
    even = [
        whatif.break_even_use(owner, rented=rate, relative_speed=own.throughput / other.throughput).sentence
        for other, rate in rented
    ]
    against = " ".join(f"Against {other.label} {sentence}." for (other, _), sentence in zip(rented, even, strict=True))
    return Curves(
        name=name,
        title=f"Gain of {own.label} against its use: {work_name}",
        description=(
            "Samples that a unit of money buys on the own machine over those that it buys on the rented one, by the "
            f"share of the month's {price.HOURS_PER_MONTH} hours in which the own machine is used; above 1 owning "
            f"is cheaper. {against} Its owner states {owner.hours_per_month} hours of use a month."
        ),
        x=Axis(title="use of the own machine", percent=True, from_zero=True),
        y=Axis(title="gain", from_zero=True),
        series=tuple(
            Series(name=f"against {other.label}", marks=_gain_marks(owner, own, other, rate), dots=False)
            for other, rate in rented
        ),
        columns=(*words("GAIN"), *numbers("USE", "TIMES")),
        level=1.0,
        level_name="as cheap as rented",
    )


def _gain_marks(owner: OwnedNode, own: _Node, other: _Node, rate: Rate) -> tuple[Mark, ...]:
    found = whatif.gains(
        owner,
        throughput=own.throughput,
        rented=rate,
        rented_throughput=other.throughput,
        hours_per_month=[price.HOURS_PER_MONTH * step / _USE_STEPS for step in range(1, _USE_STEPS + 1)],
    )
    figures = ((Interval(mean=float(one.utilisation)), Interval(mean=float(one.gain))) for one in found)
    return tuple(
        Mark(x=use, y=gain, hollow=own.hollow or other.hollow, cells=(text.percent(use), text.bounded(gain)))
        for use, gain in figures
    )


def _nodes(members: Sequence[Entry]) -> list[_Node]:
    """Each pool at the point at which a node of it does most; exclusive nodes are paid for as a whole."""
    found: dict[str, _Node] = {}
    for entry in members:
        pool, point = entry.planned_pool, entry.point
        if entry.plan is None or pool is None or point.throughput is None or point.workload == workloads.MESSAGES:
            continue
        slots = point.workers_per_node if pool.spec.exclusive_nodes else pool.spec.slots_per_node
        node = _Node(
            label=entry.name,
            pool=pool,
            rate=pool_prices.planned_rate(entry.plan, pool.name),
            ownership=pool_prices.planned_ownership(entry.plan, pool.name),
            throughput=Decimal(point.throughput.mean) / (Decimal(point.workers) / slots),
            hollow=bool(_remarks(point)),
        )
        before = found.get(entry.pool_name)
        if before is None or node.throughput > before.throughput:
            found[entry.pool_name] = node
    return list(found.values())


# --- what a bill paid for ---------------------------------------------------------------------------------------------


def waterfall(entries: Sequence[Entry]) -> tuple[Bars | Missing, ...]:
    """The bill of each benchmark, part by part; the parts sum to the bill, which comes last."""
    title = "What the bill was paid for"
    billed = [(entry, entry.point.bill) for entry in entries if entry.point.bill is not None]
    if not billed:
        without = f"{text.NO_BILL[0].lower()}{text.NO_BILL[1:].rstrip('.')}"
        return (Missing(title=title, reason=without if entries else _no_figures(entries)),)
    groups = _grouped(billed, lambda pair: (pair[0].benchmark, pair[1].currency))
    return tuple(
        _bill_bars(
            [bill for _, bill in members],
            currency=currency,
            title=f"{title}: {benchmark}" if benchmark else title,
            name=f"bill-{number}",
        )
        for number, ((benchmark, currency), members) in enumerate(groups.items(), start=1)
    )


def _bill_bars(bills: Sequence[PointBill], *, currency: str, title: str, name: str) -> Bars:
    total = sum((Decimal(bill.total) for bill in bills), Decimal(0))

    def bar(part: str, paid: Decimal, *, start: Decimal, hollow: bool) -> Bar:
        percent = f" ({text.part(str(paid), of=total)} %)" if total else ""
        shown = f"{currency} {text.amount(paid)}{percent}"
        return Bar(name=part, value=float(paid), start=float(start), hollow=hollow, text=shown)

    before, bars = Decimal(0), []
    for field, part in tables.BILL_PARTS.items():
        amounts = [Decimal(amount) for bill in bills if (amount := getattr(bill.parts, field)) is not None]
        if amounts:
            paid = sum(amounts, Decimal(0))
            bars.append(bar(part.name, paid, start=before, hollow=field != "measured"))
            before += paid
    incomplete = any(bill.incomplete for bill in bills)
    gone = " The pods of some attempts were gone when the operator looked: it is at least that." if incomplete else ""
    return Bars(
        name=name,
        title=title,
        description=(
            f"What {counted(sum(bill.attempts for bill in bills), 'attempt')} are billed in {currency}, those "
            "without a result too, part by part, each beginning where the one above ends; measured work is filled. The "
            f"clock runs while pods have their nodes: a provider bills the life of a node, which is longer.{gone}"
        ),
        axis=Axis(title=f"{currency} billed", from_zero=True),
        bars=(*bars, bar("the bill", total, start=Decimal(0), hollow=False)),
        columns=(*words("PART"), *numbers("AMOUNT")),
    )
