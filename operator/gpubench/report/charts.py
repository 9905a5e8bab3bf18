# SPDX-License-Identifier: Apache-2.0
"""What is drawn: figures over workers, time against cost, costs, the gain of an own machine, and what a bill paid for.

A chart is a value that carries each of its figures twice: as a number that is drawn, and as the text of the table
behind it. Must not happen: an empty chart; figures of different work in one chart; a line through points that differ
in more than their workers; amounts of two currencies, or a bill and a marginal cost, on one axis.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple, Self, TypeVar

from pydantic import model_validator

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
from gpubench.report.tables import Column, Table
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
    """One figure of a chart with the ends of its interval; an end is absent where it is open or nobody knows it."""

    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    label: str = ""  # beside it
    hollow: bool = False  # it was not run, or never settled
    cells: tuple[str, ...]  # those of its row in the table, the name of the series left out


class Series(FrozenModel):
    """Marks of one kind."""

    name: str
    marks: tuple[Mark, ...]
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

    @model_validator(mode="after")
    def _shows_something(self) -> Self:
        if not self._rows():
            raise ValueError(f"{self.title}: a chart without a figure: say with Missing why there is none")
        return self

    def _rows(self) -> tuple[tuple[str, ...], ...]:
        raise NotImplementedError

    def table(self) -> Table:
        """The figures behind it."""
        return Table(columns=self.columns, rows=self._rows())


class Curves(_Chart):
    """Figures against figures."""

    kind: Literal["curves"] = "curves"
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    level: float | None = None  # a line across, such as 1 where that is perfect
    level_name: str = ""
    steps: tuple[tuple[float, float], ...] = ()  # corners of a line in steps, such as a frontier
    steps_name: str = ""

    def _rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple((series.name, *mark.cells) for series in self.series for mark in series.marks)


class Bars(_Chart):
    """Lengths, one below the other."""

    kind: Literal["bars"] = "bars"
    axis: Axis
    bars: tuple[Bar, ...]

    def _rows(self) -> tuple[tuple[str, ...], ...]:
        return tuple((bar.name, bar.text) for bar in self.bars)


Chart = Curves | Bars


# --- points -----------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A point with the benchmark that it belongs to."""

    point: PointResult
    study: str = ""  # empty where a report has one only
    plan: Plan | None = None

    @property
    def pool_name(self) -> str:
        """The pool, with its benchmark where there are several."""
        return f"{self.point.pool} ({self.study})" if self.study else self.point.pool

    @property
    def shape_name(self) -> str:
        """Workers, batch and variant, and whether it was not run or never settled."""
        marks = ", ".join(_remarks(self.point))
        return f"{text.shape(self.point)} ({marks})" if marks else text.shape(self.point)

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
    """What tells a figure from one that was measured, here or elsewhere, and settled."""
    basis = {Basis.REPRICED: ["re-priced"], Basis.EXTRAPOLATED: ["extrapolated"]}.get(point.basis, [])
    return basis + ([point.state.value] if point.state is PointState.UNSTABLE else [])


def _is_hollow(point: PointResult) -> bool:
    return bool(_remarks(point))


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
    entries: Iterable[Entry], *, but_for: Callable[[Entry], str] = lambda _: ""
) -> Iterator[tuple[str, str, list[Entry]]]:
    """Points that one chart may show: those of the same work, and alike in what else keeps points apart.

    With a title: the work, and the benchmark where only one of several has it; then no entry names it again.
    """
    for (one, apart), members in _grouped(entries, lambda entry: (work(entry.point), but_for(entry))).items():
        study = members[0].study
        if any(entry.study != study for entry in members):
            yield str(one), apart, members
        else:
            of_study = f" ({study})" if study else ""
            yield f"{one}{of_study}", apart, [entry._replace(study="") for entry in members]


def _no_figures(entries: Sequence[Entry]) -> str:
    """Why there are no figures at all."""
    states = {entry.point.state for entry in entries}
    if not entries:
        return "there are no points"
    if PointState.NOT_PUBLISHED in states:
        return text.NOT_PUBLISHED
    waiting = states & {PointState.PENDING, PointState.RUNNING}
    return "nothing has been measured so far" if waiting else "nothing was measured"


def _columns(*titles: str, words: int) -> tuple[Column, ...]:
    """Columns of which the first few are words, and the others numbers."""
    return tables.columns(*titles, numeric=titles[words:])


# --- over workers -----------------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """What the points of a line have in common besides their work."""

    pool: str
    variant: str | None
    kind: Literal["weak", "strong"]
    batch: int | None  # of a worker where kind is weak, else of all
    workers_per_node: int | None  # where points of the line differ in nothing else
    study: str

    @property
    def setting(self) -> str:
        """The batch in words."""
        return f"batch {self.batch} per worker" if self.kind == "weak" else f"global batch {self.batch}"


class _Scale(NamedTuple):
    """A figure that is drawn over workers."""

    name: str
    title: str
    axis: Axis
    column: str
    figure: Callable[[PointResult, str], tuple[Interval, str] | None]  # and its text; the kind of line is given


def throughput(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Samples per second over workers, of messages their bus bandwidth."""
    title = "Throughput over workers"
    if not any(entry.point.throughput for entry in entries):
        return (Missing(title=title, reason=_no_figures(entries)),)
    samples = [entry for entry in entries if entry.point.workload != workloads.MESSAGES]
    messages = [entry for entry in entries if entry.point.workload == workloads.MESSAGES]
    found = (*_over_workers(samples, _THROUGHPUT), *_over_workers(messages, _BANDWIDTH))
    return found or (Missing(title=title, reason=_one_count(entries)),)


def efficiency(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Scaling efficiency over workers."""
    is_measured = any(entry.point.throughput or entry.point.scaling for entry in entries)
    reason = _one_count(entries) if is_measured else _no_figures(entries)
    return _over_workers(entries, _EFFICIENCY) or (Missing(title="Scaling efficiency over workers", reason=reason),)


def _one_count(entries: Sequence[Entry]) -> str:
    if any(entry.point.state is PointState.NOT_PUBLISHED for entry in entries):
        return "not published for two worker counts of the same work and batch"
    return (
        "no pool has figures for two worker counts of the same work and batch; name several in spec.sweep[].workers to "
        "see how it scales"
    )


def _over_workers(entries: Sequence[Entry], scale: _Scale) -> tuple[Curves, ...]:
    found: list[Curves] = []
    for title, _, members in _together(entries):
        lines = {line: marks for line, marks in _lines(members, scale).items() if marks}
        if any(len(marks) > 1 for marks in lines.values()):
            for sheet, suffix in _sheets(lines):
                found.append(_curves(sheet, scale, title=title, suffix=suffix, name=f"{scale.name}-{len(found) + 1}"))
    return tuple(found)


def _sheets(lines: Mapping[_Line, tuple[Mark, ...]]) -> Iterator[tuple[dict[_Line, tuple[Mark, ...]], str]]:
    """Lines in charts of no more than can be told apart: all together, else batch by batch; and which chart it is."""
    if len(lines) <= SERIES_MAX:
        yield dict(lines), ""
        return
    for alike in _grouped(lines, lambda line: line.setting).values():
        sheets = [alike[start : start + SERIES_MAX] for start in range(0, len(alike), SERIES_MAX)]
        for number, sheet in enumerate(sheets, start=1):
            yield {line: lines[line] for line in sheet}, f" ({number} of {len(sheets)})" if len(sheets) > 1 else ""


def _curves(lines: Mapping[_Line, tuple[Mark, ...]], scale: _Scale, *, title: str, suffix: str, name: str) -> Curves:
    settings = {line.setting for line in lines}
    shared = f", {next(iter(settings))}" if len(settings) == 1 else ""
    marks = [mark for found in lines.values() for mark in found]
    workers = sorted({mark.x for mark in marks})
    hollow = _HOLLOW if any(mark.hollow for mark in marks) else ""
    intervals = " Vertical bars are 95 % intervals." if any(mark.y_low is not None for mark in marks) else ""
    axis = scale.axis.title
    return Curves(
        name=name,
        title=f"{scale.title}: {title}{shared}{suffix}",
        description=f"{axis[0].upper()}{axis[1:]} against the number of workers.{intervals}{hollow}",
        x=Axis(title="workers", ticks=tuple(workers), logarithmic=workers[-1] >= _OCTAVES * workers[0]),
        y=scale.axis,
        series=tuple(Series(name=_line_name(line, lines), marks=found) for line, found in lines.items()),
        columns=_columns("LINE", "WORKERS", scale.column, words=1),
        level=1.0 if scale.axis.percent else None,
        level_name="perfect scaling" if scale.axis.percent else "",
    )


def _lines(entries: Sequence[Entry], scale: _Scale) -> dict[_Line, tuple[Mark, ...]]:
    found: dict[_Line, list[PointResult]] = {}
    for entry in entries:
        for line in _lines_of(entry):
            found.setdefault(line, []).append(entry.point)
    return {
        line._replace(pool=", ".join(dict.fromkeys(point.pool for point in members))): tuple(
            mark for point in members if (mark := _mark(point, line.kind, scale)) is not None
        )
        for line, members in _told_apart(found).items()
    }


def _lines_of(entry: Entry) -> list[_Line]:
    """The weak line, the strong line, or both; of a pool whose efficiency has its base on a sibling, the sibling's."""
    point = entry.point
    kinds: set[Literal["weak", "strong"]] = {scaling.kind for scaling in point.scaling}
    if not kinds:
        kinds = {"strong" if point.batch_per_worker is None else "weak"}
    return [
        _Line(
            pool=next((scaling.baseline_pool for scaling in point.scaling if scaling.baseline_pool), point.pool),
            variant=point.variant,
            kind=kind,
            batch=point.batch_per_worker if kind == "weak" else point.global_batch,
            workers_per_node=None,
            study=entry.study,
        )
        for kind in sorted(kinds, reverse=True)
    ]


def _told_apart(lines: Mapping[_Line, list[PointResult]]) -> dict[_Line, list[PointResult]]:
    """Lines with one point for each worker count: 2 x 1 and 1 x 2 workers belong to different ones."""
    found: dict[_Line, list[PointResult]] = {}
    for line, members in lines.items():
        for pool, own in _one_each(members, lambda point: point.pool).items():
            for per_node, ordered in _one_each(own, lambda point: point.workers_per_node).items():
                found[line._replace(pool=pool or line.pool, workers_per_node=per_node)] = ordered
    return found


def _one_each(
    members: Sequence[PointResult], part: Callable[[PointResult], _Key]
) -> dict[_Key | None, list[PointResult]]:
    """Points in the order of their workers: all together where no two have as many, else parted."""
    ordered = sorted(members, key=lambda point: point.workers)
    if len({point.workers for point in ordered}) == len(ordered):
        return {None: ordered}
    return dict(_grouped(ordered, part))


def _line_name(line: _Line, among: Iterable[_Line]) -> str:
    others = list(among)
    parts = [line.pool]
    if any(other.variant != line.variant for other in others):
        parts.append(line.variant or "no variant")
    if any(other.setting != line.setting for other in others):
        parts.append(line.setting)
    if line.workers_per_node is not None:
        parts.append(f"{line.workers_per_node} per node")
    return ", ".join([*parts, line.study] if line.study else parts)


def _mark(point: PointResult, kind: str, scale: _Scale) -> Mark | None:
    figure = scale.figure(point, kind)
    if figure is None:
        return None
    found, shown = figure
    return Mark(
        x=point.workers,
        y=found.mean,
        y_low=found.low,
        y_high=found.high,
        hollow=_is_hollow(point),
        cells=(str(point.workers), shown),
    )


def _throughput_of(point: PointResult, _: str) -> tuple[Interval, str] | None:
    return None if point.throughput is None else (point.throughput, text.throughput(point.throughput))


def _bandwidth_of(point: PointResult, _: str) -> tuple[Interval, str] | None:
    bus = None if point.bandwidth is None else point.bandwidth.bus
    return None if bus is None else (bus.scaled(1 / _GIGA), text.spread(bus, per=_GIGA))


def _efficiency_of(point: PointResult, kind: str) -> tuple[Interval, str] | None:
    return next(((one.efficiency, text.efficiency(one)) for one in point.scaling if one.kind == kind), None)


_THROUGHPUT = _Scale(
    "throughput", "Throughput", Axis(title="samples per second", from_zero=True), "SAMPLES/S", _throughput_of
)
_BANDWIDTH = _Scale(
    "bandwidth", "Bandwidth", Axis(title="bus bandwidth in GB/s", from_zero=True), "BUSBW GB/S", _bandwidth_of
)
_EFFICIENCY = _Scale(
    "efficiency",
    "Scaling efficiency",
    Axis(title="scaling efficiency", percent=True, from_zero=True),
    "EFFICIENCY",
    _efficiency_of,
)


# --- time and cost ----------------------------------------------------------------------------------------------------


_Takes = tuple[Interval | None, AmountInterval | None]


class _Question(NamedTuple):
    """What seconds and money are asked for."""

    what: str
    takes: Callable[[PointResult], _Takes]


class _Offer(NamedTuple):
    """A point with what it takes."""

    entry: Entry
    seconds: Interval
    cost: AmountInterval


def frontier(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Time against cost: what no other point is both faster and cheaper than lies on the frontier."""
    found: list[Curves] = []
    for title, currency, members in _priced(entries):
        for question in _questions(members):
            offers = [
                _Offer(entry, seconds, cost)
                for entry in members
                for seconds, cost in [question.takes(entry.point)]
                if seconds is not None and cost is not None
            ]
            if len(offers) > 1:
                titled = f"Time against cost: {title}, {question.what}"
                name = f"frontier-{len(found) + 1}"
                found.append(_frontier(offers, what=question.what, currency=currency, title=titled, name=name))
    reason = _no_cost(entries) or "there are no two points of the same work to choose from"
    return tuple(found) or (Missing(title="Time against cost", reason=reason),)


def _frontier(offers: Sequence[_Offer], *, what: str, currency: str, title: str, name: str) -> Curves:
    unit = text.time_unit(offer.seconds.mean for offer in offers)
    best = _not_dominated(offers)
    corners = tuple((offer.seconds.mean / unit.seconds, float(offer.cost.mean)) for offer in best)
    names = [offer.entry.name for offer in best[:_FRONTIER_NAMED]]
    if len(best) > _FRONTIER_NAMED:
        names.append(f"{len(best) - _FRONTIER_NAMED} more")
    hollow = _HOLLOW if any(_is_hollow(offer.entry.point) for offer in offers) else ""
    intervals = "bars are 95 % intervals, " if any(offer.seconds.low is not None for offer in offers) else ""
    return Curves(
        name=name,
        title=title,
        description=(
            f"{unit.name.capitalize()} and {currency} for {what}; {intervals}numbers beside marks are workers. On the "
            f"frontier, where no other point is both faster and cheaper on average: {'; '.join(names)}.{hollow}"
        ),
        x=Axis(title=unit.name, logarithmic=_is_wide([offer.seconds.mean for offer in offers]), from_zero=True),
        y=Axis(title=currency, logarithmic=_is_wide([float(offer.cost.mean) for offer in offers]), from_zero=True),
        series=tuple(
            Series(name=group, marks=tuple(_offered(offer, unit, best) for offer in members), joined=False)
            for group, members in _pools_told_apart(offers, best).items()
        ),
        columns=_columns("POOL", "POINT", unit.name.upper(), "COST", words=2),
        steps=corners if len(corners) > 1 else (),
        steps_name="frontier",
    )


def _offered(offer: _Offer, unit: text.TimeUnit, best: Sequence[_Offer]) -> Mark:
    seconds, point = offer.seconds.scaled(1 / unit.seconds), offer.entry.point
    return Mark(
        x=seconds.mean,
        x_low=seconds.low,
        x_high=seconds.high,
        y=float(offer.cost.mean),
        y_low=_float(offer.cost.low),
        y_high=_float(offer.cost.high),
        label=str(point.workers) if any(offer is one for one in best) else "",
        hollow=_is_hollow(point),
        cells=(offer.entry.shape_name, text.bounded(offer.seconds, per=unit.seconds), text.money(offer.cost)),
    )


def _not_dominated(offers: Sequence[_Offer]) -> list[_Offer]:
    """Offers than which no other is both faster and cheaper on average, the fastest first (V. Pareto, 1906)."""
    found: list[_Offer] = []
    for offer in sorted(offers, key=lambda one: (one.seconds.mean, Decimal(one.cost.mean))):
        if not found or Decimal(offer.cost.mean) < Decimal(found[-1].cost.mean):
            found.append(offer)
    return found


def _pools_told_apart(offers: Sequence[_Offer], best: Sequence[_Offer]) -> dict[str, list[_Offer]]:
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
    for title, currency, members in _priced(entries):
        question = _RUN if _is_timed(members) else _SAMPLES
        paid = [(entry, cost) for entry in members if (cost := question.takes(entry.point)[1]) is not None]
        if paid:
            titled, name = f"Cost: {title}, {question.what}", f"cost-{len(found) + 1}"
            found.append(_cost_bars(paid, what=question.what, currency=currency, title=titled, name=name))
    return tuple(found) or (Missing(title="Cost", reason=_no_cost(entries) or _no_figures(entries)),)


def _cost_bars(
    paid: Sequence[tuple[Entry, AmountInterval]], *, what: str, currency: str, title: str, name: str
) -> Bars:
    shown = sorted(paid, key=lambda pair: Decimal(pair[1].mean))[:BARS_MAX]
    rest = f" The {BARS_MAX} cheapest of {len(paid)}; the others are in the table." if len(paid) > BARS_MAX else ""
    hollow = " Hatched: not run, or never settled." if any(_is_hollow(entry.point) for entry, _ in shown) else ""
    intervals = " Thin lines are 95 % intervals." if any(cost.low is not None for _, cost in shown) else ""
    return Bars(
        name=name,
        title=title,
        description=(
            f"Marginal cost in {currency} of {what}: hourly price over speed. Start-up, billing steps and idle time "
            f"come on top.{intervals}{rest}{hollow}"
        ),
        axis=Axis(title=currency, from_zero=True),
        bars=tuple(
            Bar(
                name=entry.name,
                value=float(cost.mean),
                low=_float(cost.low),
                high=_float(cost.high),
                hollow=_is_hollow(entry.point),
                text=text.money(cost),
            )
            for entry, cost in shown
        ),
        columns=_columns("POINT", "COST", words=1),
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
    return (
        f"no price: pool {pool.name} has neither price nor ownership" if pool_prices.rate(pool.spec) is None else None
    )


def _priced(entries: Sequence[Entry]) -> Iterator[tuple[str, str, list[Entry]]]:
    """Points with a cost, by what may be drawn together: title, currency, points."""
    return _together((entry for entry in entries if entry.point.cost is not None), but_for=_currency)


def _currency(entry: Entry) -> str:
    cost = entry.point.cost
    assert cost is not None  # only points with a cost are grouped by it
    return next(one.currency for one in (cost.per_million_samples, cost.per_run) if one is not None)


def _questions(members: Sequence[Entry]) -> list[_Question]:
    goals = dict.fromkeys(goal.name for entry in members for goal in entry.point.goals)
    asked = [_of_goal(name) for name in goals]
    if _is_timed(members):
        return [*asked, _RUN]
    return asked or [_SAMPLES]


def _of_goal(name: str) -> _Question:
    def takes(point: PointResult) -> _Takes:
        found = (goal for goal in point.goals if goal.name == name)
        return next(((goal.hours.scaled(_SECONDS_PER_HOUR), goal.cost) for goal in found), (None, None))

    return _Question(f"goal {name}, at least", takes)


def _of_run(point: PointResult) -> _Takes:
    return point.training.seconds if point.training else None, point.cost.per_run if point.cost else None


def _of_samples(point: PointResult) -> _Takes:
    cost = point.cost.per_million_samples if point.cost else None
    if point.throughput is None:
        return None, cost
    return billing.hours_to_samples_interval(_MILLION, throughput=point.throughput).scaled(_SECONDS_PER_HOUR), cost


_RUN = _Question("a run", _of_run)
_SAMPLES = _Question("a million samples", _of_samples)


def _is_timed(members: Sequence[Entry]) -> bool:
    return all(_of_run(entry.point)[0] is not None for entry in members)


def _is_wide(values: Sequence[float]) -> bool:
    return min(values) > 0 and max(values) > _WIDE * min(values)


def _float(amount: str | None) -> float | None:
    return None if amount is None else float(amount)


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
    for work_name, _, members in _together(entries):
        nodes = _nodes(members)
        rented = [node for node in nodes if node.pool.spec.price is not None]
        for own in (node for node in nodes if node.pool.spec.ownership is not None):
            alike = [(node, node.rate) for node in rented if node.rate is not None and _in_one_currency(own, node.rate)]
            if not rented:
                reasons[f"no rented pool with a price has a throughput of the same work as {own.pool.name}"] = None
            elif own.ownership is None or not alike:
                reasons[f"{own.pool.name} and the rented pools have prices in different currencies"] = None
            else:
                found.append(_gain(own, own.ownership, alike[:SERIES_MAX], work_name, name=f"gain-{len(found) + 1}"))
    return tuple(found) or (Missing(title=title, reason="; ".join(reasons) or _no_figures(owned)),)


def _in_one_currency(own: _Node, rate: Rate) -> bool:
    """Whether the two can be compared; a rented node for nothing buys any number of samples."""
    return own.ownership is not None and own.ownership.currency == rate.currency and rate.per_node_hour > 0


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
        columns=_columns("GAIN", "USE", "TIMES", words=1),
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
    return tuple(
        Mark(
            x=use.mean,
            y=gain.mean,
            hollow=own.hollow or other.hollow,
            cells=(text.percent(use), text.bounded(gain)),
        )
        for use, gain in ((Interval(mean=float(one.utilisation)), Interval(mean=float(one.gain))) for one in found)
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
            hollow=_is_hollow(point),
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
    groups = _grouped(billed, lambda pair: (pair[0].study, pair[1].currency))
    return tuple(
        _bill_bars(
            [bill for _, bill in members],
            currency=currency,
            title=f"{title}: {study}" if study else title,
            name=f"bill-{number}",
        )
        for number, ((study, currency), members) in enumerate(groups.items(), start=1)
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
        columns=_columns("PART", "AMOUNT", words=1),
    )
