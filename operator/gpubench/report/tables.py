# SPDX-License-Identifier: Apache-2.0
"""Results as tables: columns, rows of text, and notes below. Who prints a table, and how wide, is not known here.

`flat` gives the same results as plain values for programs, one record for each point, nothing rounded.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

from gpubench import workloads
from gpubench.analysis import pairs, text
from gpubench.api import benchmark_status, sweep
from gpubench.api.point_result import SOURCES, AmountInterval, Basis, Cost, PointResult, PointState, Scaling
from gpubench.api.price_result import PriceUsed
from gpubench.stats.compare import Quantity
from gpubench.units import counted, workers_text
from gpubench.values import FrozenModel, Interval

_Item = TypeVar("_Item")


class Column(FrozenModel):
    """A column's title, and whether its cells are numbers that belong to the right."""

    title: str
    numeric: bool = False
    wide: bool = False  # left out where there is no room


class Table(FrozenModel):
    """Text in rows; as many cells in each row as there are columns. Notes are lines below the table."""

    kind: Literal["table"] = "table"  # of a block of a report
    title: str = ""
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    row_headed: bool = False  # the first cell of a row says what the row is about


class Field(NamedTuple, Generic[_Item]):
    """A column, and what its cell says of an item."""

    title: str
    cell: Callable[[_Item], str]
    numeric: bool = True
    default: str | None = None  # where all cells are that, the column is not shown
    wide: bool = False


def table(
    items: Sequence[_Item], fields: Iterable[Field[_Item]], notes: Iterable[str] = (), *, title: str = ""
) -> Table:
    shown = [
        field for field in fields if field.default is None or any(field.cell(item) != field.default for item in items)
    ]
    return Table(
        title=title,
        columns=tuple(Column(title=field.title, numeric=field.numeric, wide=field.wide) for field in shown),
        rows=tuple(tuple(field.cell(item) for field in shown) for item in items),
        notes=tuple(notes),
    )


def without_constants(found: Table) -> tuple[str, Table]:
    """What all rows have in common as a line, and the table without those columns."""
    columns = list(zip(*found.rows, strict=True)) if len(found.rows) > 1 else []
    common = {index: cells[0] for index, cells in enumerate(columns) if len(set(cells)) == 1}
    if len(common) == len(columns):
        return "", found
    known = ((found.columns[index].title, cell) for index, cell in common.items() if cell != text.UNDEFINED)
    rest = [index for index in range(len(columns)) if index not in common]
    return ", ".join(f"{title} {cell}" for title, cell in known), picked(found, rest)


def picked(found: Table, columns: Sequence[int]) -> Table:
    """The table with these of its columns, in this order."""
    rows = tuple(tuple(row[index] for index in columns) for row in found.rows)
    return found.model_copy(update={"columns": tuple(found.columns[index] for index in columns), "rows": rows})


def words(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title=title) for title in titles)


def numbers(*titles: str) -> tuple[Column, ...]:
    return tuple(Column(title=title, numeric=True) for title in titles)


# --- a benchmark ------------------------------------------------------------------------------------------------------

INTERVAL_NOTE = "± and brackets are 95 % intervals over the repeats: how repeatable a figure is on these nodes."
NO_INTERVAL_NOTE = "Points with fewer than 3 repeats have no interval: set spec.measure.repeats.min to 3 or more."
EFFICIENCY_NOTE = (
    "EFFICIENCY is throughput per worker against the smallest measured worker count of the same pool, workload, batch, "
    "precision, data and variant."
)
ACROSS_POOLS_NOTE = "EFFICIENCY with a pool's name behind it is across pools: its base is that pool's smallest point."
BASIS_NOTE = (
    "BASIS Repriced, Extrapolated: the point was not run; its figures come from another point, see the warnings."
)
IMPORTED_NOTE = (
    "BASIS Imported: measured elsewhere, before, and not by gpubench; whose figures they are stands in the warnings. "
    "Of fewer than 3 runs there is no interval."
)
BANDWIDTH_NOTE = (
    "ALGBW is the bytes of a message over its time, BUSBW that times 2 (n - 1) / n for n workers, which is what each "
    "link carries; BATCH is elements of the message."
)
UNSTABLE_NOTE = (
    "Unstable: at least half of the repeats never settled; the figures are over all of their windows, and not ranked."
)
ADAPTIVE_NOTE = (
    "REPEATS were added until the precision was reached that measure.repeats.until asks for; with a + the maximum came "
    "first. Intervals are corrected for having looked several times."
)
PAID_NOTE = (
    "PAID SLOTS: nodes are paid for as a whole; of so many GPUs (or shares of processors) only WORKERS are used."
)
RANGE_NOTE = "AT LOW–HIGH PRICE is the mean cost at both ends of the range in which the pool's price has moved."
HOST_NOTE = "PROCESSORS is per rank, RSS the resident memory of the largest rank."
GPU_NOTE = (
    "GPU is the share of time with a kernel on it, THROTTLED that with a throttle reason on the worst rank; WATTS and "
    "energy are of all GPUs of the point."
)
GOALS_NOTE = (
    "Goals are lower bounds: samples over throughput, and that time at the price of the nodes; restarts, evaluation "
    "and slower convergence at large batches come on top."
)


def of_benchmark(points: Sequence[PointResult], prices: Sequence[PriceUsed] = ()) -> tuple[Table, ...]:
    """All tables of a benchmark; `prices` are behind its costs, which are shown at both ends where one has moved."""
    return (
        results(points, prices),
        *([goals(points)] if any(point.goals for point in points) else []),
        *([machines(points)] if any(point.gpu or point.host for point in points) else []),
    )


def summaries(points: Sequence[benchmark_status.PointSummary]) -> Table:
    """What a status says by itself of its points."""
    rows = [
        (one.key, one.state.value, one.summary or one.message or "", ", ".join(one.warnings or ())) for one in points
    ]
    return Table(columns=words("POINT", "STATE", "FIGURES", "WARNINGS"), rows=tuple(rows))


def results(points: Sequence[PointResult], prices: Sequence[PriceUsed] = ()) -> Table:
    """The table of the points, in the plan's order. Its columns are those that the points have figures for."""
    pools = {point.pool for point in points if point.cost is not None}
    moved = {  # a node that costs nothing has nothing to scale
        one.pool: one for one in prices if one.pool in pools and one.low and one.high and Decimal(one.per_node_hour) > 0
    }
    fields = (*KEY_FIELDS, *_figure_fields(points, moved), *_RUN_FIELDS)
    ranges = [RANGE_NOTE] if moved else []
    return table(points, fields, (*reading_notes(points), *ranges, *reasons(points), *warnings(points)))


def machines(points: Sequence[PointResult]) -> Table:
    """What the nodes did while the points were measured."""
    used = [point for point in points if point.gpu or point.host]
    gpus, note = (_GPU_FIELDS, (GPU_NOTE,)) if any(point.gpu for point in used) else ((), ())
    energies = [(point.pool, point.energy) for point in used if point.energy is not None]
    by = {"Counter": "the GPUs' own counters", "Power": "their mean power, sampled once a second, times the time"}
    told = (f"Energy is that of {by[one.by]}." for _, one in energies)
    at_the_meter = (f"WH and GCO2E on {pool}: {one.power}." for pool, one in energies if one.power is not None)
    return table(used, (*KEY_FIELDS, *_HOST_FIELDS, *gpus), (HOST_NOTE, *note, *dict.fromkeys((*told, *at_the_meter))))


def goals(points: Sequence[PointResult]) -> Table:
    """What the goals would take at the throughput of each point."""
    keys = table(points, KEY_FIELDS)
    rows = tuple(
        (*key, f"{goal.name}{mark}", text.bounded(goal.hours), text.money(goal.cost))
        for point, key in zip(points, keys.rows, strict=True)
        for mark in [" (Unstable)" if point.state is PointState.UNSTABLE else ""]
        for goal in point.goals
    )
    columns = (*keys.columns, *words("GOAL"), *numbers("HOURS, AT LEAST", "COST, AT LEAST"))
    return Table(columns=columns, rows=rows, notes=(GOALS_NOTE,))


# --- its columns ------------------------------------------------------------------------------------------------------

_GIGA = 1e9
_Cell = Callable[[PointResult], str]
_Field = Field[PointResult]


def _figure_fields(points: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[_Field]:
    trained = [point for point in points if point.training]
    messages = any(point.throughput and point.workload == workloads.MESSAGES for point in points)
    others = any(point.throughput and not point.training and point.workload != workloads.MESSAGES for point in points)
    return [
        _Field("STATE", lambda point: point.state.value, numeric=False),
        *(_throughput_fields(points, moved) if others or not (trained or messages) else []),
        *(_training_fields(trained, moved) if trained else []),
        *(_BANDWIDTH_FIELDS if messages else []),
        *_RELATIVE_FIELDS,
    ]


def _throughput_fields(points: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[_Field]:
    kinds = {scaling.kind for point in points for scaling in point.scaling}
    bases = {scaling.baseline_workers for point in points for scaling in point.scaling}

    def efficiency(one: Scaling, workers: int) -> str:
        kind = f"{one.kind} " if len(kinds) > 1 else ""
        base = f" of {one.baseline_workers}" if len(bases) > 1 else ""
        pool = f" on {one.baseline_pool}" if one.baseline_pool else ""
        return f"{kind}{text.efficiency(one, workers=workers)}{base}{pool}"

    def efficiencies(point: PointResult) -> str:
        return ", ".join(efficiency(one, point.workers) for one in point.scaling) or text.UNDEFINED

    return [
        _Field("SAMPLES/S", _throughput),
        _Field("EFFICIENCY", efficiencies),
        *_cost_fields("COST/M SAMPLES", moved, lambda cost: cost.per_million_samples),
    ]


def _throughput(point: PointResult) -> str:
    if point.workload == workloads.MESSAGES:  # its elements are no samples: bandwidth has columns of its own
        return text.UNDEFINED
    is_imported = point.basis is Basis.IMPORTED or point.state is PointState.NOT_PUBLISHED
    if is_imported and point.throughput is None and point.training is None:
        return text.NOT_PUBLISHED
    return text.spread(point.throughput)


def _training_fields(trained: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[_Field]:
    runs = [point.training for point in trained if point.training]
    unit = text.time_unit(run.seconds.mean for run in runs if run.seconds)
    metrics = dict.fromkeys(run.quality.metric for run in runs if run.quality)
    return [
        _Field("EPOCHS", lambda point: text.optional(text.epochs(point))),
        _Field("SECONDS/EPOCH", _spread("training.seconds_per_epoch")),
        _Field(unit.name.upper(), _spread("training.seconds", per=unit.seconds)),
        *(_Field(metric.upper(), partial(_quality, metric=metric)) for metric in metrics),
        *_cost_fields("COST/RUN", moved, lambda cost: cost.per_run),
    ]


def _quality(point: PointResult, *, metric: str) -> str:
    quality = point.training.quality if point.training else None
    return text.UNDEFINED if quality is None or quality.metric != metric else text.quality(quality)


def _cost_fields(
    title: str, moved: Mapping[str, PriceUsed], amount: Callable[[Cost], AmountInterval | None]
) -> list[_Field]:
    """A cost, and where its pool's price has moved the same at both ends of that range: it is in proportion."""

    def cost(point: PointResult) -> AmountInterval | None:
        return None if point.cost is None else amount(point.cost)

    def at_both_ends(point: PointResult) -> str:
        used, found = moved.get(point.pool), cost(point)
        if used is None or found is None or used.low is None or used.high is None:
            return text.UNDEFINED
        per_price = Decimal(found.mean) / Decimal(used.per_node_hour)
        return text.between(per_price * Decimal(used.low), per_price * Decimal(used.high))

    fields: list[_Field] = [_Field(title, lambda point: text.money(cost(point)))]
    return [*fields, _Field("AT LOW–HIGH PRICE", at_both_ends)] if moved else fields


def _repeats(point: PointResult) -> str:
    missed = "+" if point.stopping == "MaximumReached" else ""
    return f"{count}{missed}" if (count := point.repeats or len(point.values)) else text.UNDEFINED


def _gang_spread(point: PointResult) -> str:
    found = point.spread
    levels = () if found is None else ((found.zones, "zone"), (found.blocks, "block"), (found.racks, "rack"))
    return ", ".join(counted(count, level) for count, level in levels if count and count > 1) or text.UNDEFINED


def _spread(path: str, *, per: float = 1.0) -> _Cell:
    """The figure at a path of a point; a mean of samples has no interval, so it is shown with few digits."""

    def cell(point: PointResult) -> str:
        found = _at(point, path)
        figure = Interval(mean=found) if isinstance(found, int | float) else found
        return text.spread(figure if isinstance(figure, Interval) else None, per=per)

    return cell


def _at(value: object, path: str) -> object:
    """The value at a path such as `training.seconds.mean`; None where any step of it is absent."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _relative(point: PointResult, *, what: Literal["time", "cost"]) -> str:
    one = point.relative
    return text.UNDEFINED if one is None else text.relative(getattr(one, what), base=one.baseline_pool is None)


#: What tells the points apart.
KEY_FIELDS: tuple[_Field, ...] = (
    _Field("WORKLOAD", lambda point: point.workload, numeric=False),
    _Field("POOL", lambda point: point.pool, numeric=False),
    _Field("NODE", lambda point: text.optional(point.node), numeric=False, default=text.UNDEFINED),
    _Field("WORKERS", lambda point: str(point.workers)),
    _Field("BATCH", lambda point: text.optional(point.batch_per_worker)),
    _Field("PRECISION", lambda point: point.precision, numeric=False),
    _Field("DATA", text.data, numeric=False, default=sweep.DataSource.SYNTHETIC.value),
    _Field("VARIANT", lambda point: text.optional(point.variant), numeric=False, default=text.UNDEFINED),
    _Field("BASIS", lambda point: point.basis.value, numeric=False, default=Basis.MEASURED.value),
)
_RELATIVE_FIELDS: tuple[_Field, ...] = (
    _Field("RELATIVE TIME", partial(_relative, what="time"), default=text.UNDEFINED),
    _Field("RELATIVE COST", partial(_relative, what="cost"), default=text.UNDEFINED),
)
_BANDWIDTH_FIELDS = (
    _Field("ALGBW GB/S", _spread("bandwidth.algorithm", per=_GIGA)),
    _Field("BUSBW GB/S", _spread("bandwidth.bus", per=_GIGA)),
)
_RUN_FIELDS: tuple[_Field, ...] = (
    _Field("REPEATS", _repeats),
    _Field("NODES", lambda point: text.optional(point.nodes or None)),
    _Field("PAID SLOTS", lambda point: text.optional(point.slots_paid), default=text.UNDEFINED),
    _Field("SPREAD", _gang_spread, numeric=False, default=text.UNDEFINED),
)
_HOST_FIELDS = (
    _Field("PROCESSORS", _spread("host.processors")),
    _Field("RSS GB", _spread("host.memory_peak", per=_GIGA)),
)
_GPU_FIELDS = (
    _Field("GPU %", _spread("gpu.utilization", per=0.01)),
    _Field("GPU GB", _spread("gpu.memory_peak", per=_GIGA)),
    _Field("WATTS", _spread("gpu.watts")),
    _Field("THROTTLED %", _spread("gpu.throttled", per=0.01)),
    _Field("J/M SAMPLES", _spread("energy.joules")),
    _Field("WH/M SAMPLES", _spread("energy.watt_hours"), default=text.UNDEFINED),
    _Field("GCO2E/M SAMPLES", _spread("energy.grams"), default=text.UNDEFINED),
    _Field("WH/RUN", _spread("energy.watt_hours_per_run"), default=text.UNDEFINED),
    _Field("GCO2E/RUN", _spread("energy.grams_per_run"), default=text.UNDEFINED),
)


# --- its notes --------------------------------------------------------------------------------------------------------


def reading_notes(points: Sequence[PointResult]) -> list[str]:
    trained = [point.training for point in points if point.training]
    regions = dict.fromkeys(run.timed_region for run in trained)
    scaled = [scaling for point in points if not point.training for scaling in point.scaling]
    adaptive = ("PrecisionReached", "MaximumReached")
    notes = (
        ("BATCH is per worker.", True),
        *((f"Seconds, and the cost of a run, are of {text.timed_region(region)}.", True) for region in regions),
        ("ACCURACY and LOSS are on held-out data after the last epoch.", any(run.quality for run in trained)),
        (INTERVAL_NOTE, any(point.throughput and point.throughput.low is not None for point in points)),
        (NO_INTERVAL_NOTE, any(_lacks_repeats(point) for point in points)),
        (EFFICIENCY_NOTE, bool(scaled)),
        (ACROSS_POOLS_NOTE, any(scaling.baseline_pool for scaling in scaled)),
        (_relative_note(points), any(point.relative for point in points)),
        (BANDWIDTH_NOTE, any(point.bandwidth for point in points)),
        (BASIS_NOTE, any(point.basis not in SOURCES for point in points)),
        (IMPORTED_NOTE, any(point.basis is Basis.IMPORTED for point in points)),
        (PAID_NOTE, any(point.slots_paid for point in points)),
        (UNSTABLE_NOTE, any(point.state is PointState.UNSTABLE for point in points)),
        (ADAPTIVE_NOTE, any(point.stopping in adaptive for point in points)),
    )
    return [note for note, applies in notes if applies]


def _lacks_repeats(point: PointResult) -> bool:
    ended = point.state in (PointState.MEASURED, PointState.UNSTABLE) and point.basis is Basis.MEASURED
    return ended and bool(point.values) and point.throughput is not None and point.throughput.low is None


def _relative_note(points: Sequence[PointResult]) -> str:
    found = [point.relative for point in points if point.relative is not None]
    bases = {(one.baseline_pool, one.baseline_workers) for one in found} - {(None, None)}
    base = "the point that spec.baseline names"
    if len(bases) == 1:
        [(pool, workers)] = bases
        base = f"{workers_text(workers or 0)} on {pool}"
    return (
        f"RELATIVE figures are in multiples of {base} for the same samples of the same workload, with 95 % "
        "intervals; what spec.baseline does not name is the same for both."
    )


def reasons(points: Sequence[PointResult]) -> list[str]:
    """Why points have no figures: each reason once, with its point or the number of its points."""
    return once([(f"{point.state.value}: ", point, f": {point.reason}") for point in points if point.reason])


def warnings(points: Sequence[PointResult]) -> list[str]:
    """Each warning once, with its point or the number of its points."""
    return once(("Warning: ", point, f": {one.message}") for point in points for one in point.warnings)


def once(told: Iterable[tuple[str, PointResult, str]]) -> list[str]:
    """What is said of points, before and after their names: equal ones are one line with their number."""
    carriers: dict[tuple[str, str], dict[str, None]] = {}
    for before, point, after in told:
        carriers.setdefault((before, after), {})[text.describe(point)] = None
    named = {says: next(iter(of)) if len(of) == 1 else f"{len(of)} points" for says, of in carriers.items()}
    return [f"{before}{who}{after}" for (before, after), who in named.items()]


def published(points: Sequence[PointResult]) -> Sequence[PointResult]:
    """Without those whose publication has no figures, unless there are no others."""
    return [point for point in points if point.state is not PointState.NOT_PUBLISHED] or points


# --- bills and nodes' time --------------------------------------------------------------------------------------------


class Part(NamedTuple):
    """A part of a bill or of the nodes' time: its column, its bar in a chart, and what is to be said of it."""

    title: str
    name: str = ""
    meaning: str | None = None


#: By the fields of a bill's parts, in the order in which the money is spent.
BILL_PARTS = {
    "image_pull": Part("PULL", "image pull", "PULL: image and volumes, until the container starts."),
    "waiting": Part("WAITING", "waiting for the gang", "WAITING: for the other pods of the gang."),
    "start_up": Part("START-UP", "start-up"),
    "warm_up": Part("WARM-UP", "warm-up"),
    "measured": Part("MEASURED", "measured work"),
    "idle": Part("IDLE", "idle", "IDLE: all else of attempts with a result: checks, gaps, the end."),
    "lost": Part("LOST", "lost work", "LOST: everything of attempts that came to no result."),
    "unknown": Part("UNKNOWN", "unknown", "UNKNOWN: time that nobody could tell apart."),
    "rounding": Part("ROUNDING", "rounding up", "ROUNDING: what the provider's increment and minimum add."),
    "fees": Part("FEES", "fees"),
}
_BILL_NOTE = (
    "BILLED is what all attempts at a point are billed, those without a result too; the parts are percent of it. The "
    "clock runs from when a pod has its node until it has ended: a provider bills the node's whole life."
)
_INCOMPLETE_BILL_NOTE = "≥: the pods of some attempts were gone when the operator looked; their bill is at least that."


def bills(points: Sequence[PointResult]) -> Table | None:
    """One line for each point that has a bill; None where no point has one."""
    if not (billed := [(point, point.bill) for point in points if point.bill is not None]):
        return None
    known = {
        name: part
        for name, part in BILL_PARTS.items()
        if any(getattr(bill.parts, name) is not None for _, bill in billed)
    }
    incomplete = [_INCOMPLETE_BILL_NOTE] if any(bill.incomplete for _, bill in billed) else []
    totals, per_run = (text.amounts([getattr(bill, name) for _, bill in billed]) for name in ("total", "per_run"))
    rows = tuple(
        (
            text.describe(point),
            f"{'≥ ' if bill.incomplete else ''}{bill.currency} {total}",
            one_run if bill.per_run is None else f"{bill.currency} {one_run}",
            str(bill.attempts),
            *(text.part(getattr(bill.parts, name), of=Decimal(bill.total)) for name in known),
        )
        for (point, bill), total, one_run in zip(billed, totals, per_run, strict=True)
    )
    meanings = [part.meaning for part in known.values() if part.meaning is not None]
    titles = ("BILLED", "PER RUN", "ATTEMPTS", *(f"{part.title} %" for part in known.values()))
    return Table(columns=(*words("POINT"), *numbers(*titles)), rows=rows, notes=(_BILL_NOTE, *meanings, *incomplete))


# --- for programs -----------------------------------------------------------------------------------------------------

#: A value of a flat record: where in a point it is found, or how it is made.
_Source = str | Callable[[PointResult], object]


def _with_ends(name: str, path: str) -> dict[str, str]:
    """Three fields for an estimate or an amount: its mean and the ends of its interval."""
    return {f"{name}{suffix}": f"{path}.{end}" for suffix, end in (("", "mean"), ("_low", "low"), ("_high", "high"))}


def _of_scaling(point: PointResult, *, kind: str, path: str) -> object:
    return next((_at(one, path) for one in point.scaling if one.kind == kind), None)


def currency(point: PointResult) -> str | None:
    priced = None if point.cost is None else point.cost.per_million_samples or point.cost.per_run
    return None if priced is None else priced.currency


_OF_POINT = (
    "workload", "pool", "accelerator", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision",
    "data", "data_path", "data_samples", "variant", "basis", "state", "reason",
)  # fmt: skip
_OF_SCALING = {name: name for name in ("baseline_workers", "baseline_pool")} | _with_ends("efficiency", "efficiency")
_FLAT: dict[str, _Source] = {
    **{name: name for name in _OF_POINT},
    "repeats": lambda point: point.repeats or len(point.values),
    "stopping": "stopping",
    "nodes": lambda point: point.nodes or None,
    "zones": "spread.zones",
    "blocks": "spread.blocks",
    "racks": "spread.racks",
    **_with_ends("samples_per_second", "throughput"),
    **{
        f"{kind}_{name}": partial(_of_scaling, kind=kind, path=path)
        for kind in ("weak", "strong")
        for name, path in _OF_SCALING.items()
    },
    "epochs": text.epochs,
    "timed_evaluation": "training.timed_region.evaluation",
    "timed_first_epoch": "training.timed_region.first_epoch",
    **_with_ends("training_seconds", "training.seconds"),
    **_with_ends("seconds_per_epoch", "training.seconds_per_epoch"),
    "first_epoch_seconds": "training.first_epoch_seconds",
    "evaluation_seconds": "training.evaluation_seconds",
    "training_loss": "training.training_loss",
    "quality_metric": "training.quality.metric",
    **_with_ends("final_quality", "training.quality.final"),
    **_with_ends("best_quality", "training.quality.best"),
    **_with_ends("algorithm_bytes_per_second", "bandwidth.algorithm"),
    **_with_ends("bus_bytes_per_second", "bandwidth.bus"),
    **_with_ends("cost_per_million_samples", "cost.per_million_samples"),
    **_with_ends("cost_per_run", "cost.per_run"),
    "currency": currency,
    # The base itself has its own place.
    "relative_baseline_pool": lambda point: point.relative and (point.relative.baseline_pool or point.pool),
    "relative_baseline_workers": lambda point: point.relative and (point.relative.baseline_workers or point.workers),
    **_with_ends("relative_throughput", "relative.throughput"),
    **_with_ends("relative_time", "relative.time"),
    **_with_ends("relative_cost", "relative.cost"),
    "billed": "bill.total",
    "billed_per_run": "bill.per_run",
    "billed_lost": "bill.parts.lost",
    "billed_attempts": "bill.attempts",
    "billed_currency": "bill.currency",
    "goals": lambda point: json.dumps([goal.to_wire() for goal in point.goals]) if point.goals else None,
    "processors": "host.processors",
    "memory_peak_bytes": "host.memory_peak",
    "gpu_utilization": "gpu.utilization",
    "gpu_memory_peak_bytes": "gpu.memory_peak",
    "watts": "gpu.watts",
    **_with_ends("joules_per_million_samples", "energy.joules"),
    "energy_by": "energy.by",
    **_with_ends("watt_hours_per_million_samples", "energy.watt_hours"),
    **_with_ends("grams_per_million_samples", "energy.grams"),
    **_with_ends("watt_hours_per_run", "energy.watt_hours_per_run"),
    **_with_ends("grams_per_run", "energy.grams_per_run"),
    "gpu_throttled": "gpu.throttled",
    "comparison": "comparison",
    "environment": "environment",
    "instance_type": "instance_type",
    "values": lambda point: " ".join(repr(value) for value in point.values),
    "warning_reasons": lambda point: " ".join(warning.reason.value for warning in point.warnings),
    "warnings": lambda point: " | ".join(warning.message for warning in point.warnings),
    "node": "node",
}
FLAT_FIELDS = tuple(_FLAT)


def flat(point: PointResult) -> dict[str, str]:
    """One record with the fields of FLAT_FIELDS; what is not defined is empty, nothing is rounded."""
    values = {name: _at(point, found) if isinstance(found, str) else found(point) for name, found in _FLAT.items()}
    return {name: "" if value is None else str(value) for name, value in values.items()}


# --- pairs of points --------------------------------------------------------------------------------------------------

RATIO_NOTE = (
    "SPEED B/A is the ratio of throughputs, or of training the seconds of A over those of B, with its 95 % interval "
    "over the repeats: how repeatable the difference is on these nodes."
)
SEVERAL_NOTE = (
    "Each interval holds for its own line with 95 %: of twenty lines without any difference, about one shows one."
)
_PairField = Field[pairs.Compared]
_PAIR_FIELDS: tuple[_PairField, ...] = (
    _PairField("WORKLOAD", lambda one: one.a.workload, numeric=False),
    _PairField("WORKERS", lambda one: str(one.a.workers)),
    _PairField("BATCH", lambda one: str(one.a.batch_per_worker)),
    _PairField("PRECISION", lambda one: one.a.precision, numeric=False),
    _PairField("VARIANT", lambda one: one.a.variant or text.UNDEFINED, numeric=False, default=text.UNDEFINED),
    _PairField("A", lambda one: _whose(one.a), numeric=False),
    _PairField("B", lambda one: _whose(one.b), numeric=False),
    _PairField("FIGURE OF A", lambda one: _figure(one.a, one.quantity)),
    _PairField("FIGURE OF B", lambda one: _figure(one.b, one.quantity)),
    _PairField("SPEED B/A", lambda one: text.bounded(one.difference.ratio)),
    _PairField("VERDICT", lambda one: one.difference.sentence, numeric=False),
)


def compared(found: Sequence[pairs.Compared], *, notes: Sequence[str] = ()) -> Table:
    return table(found, _PAIR_FIELDS, (RATIO_NOTE, *([SEVERAL_NOTE] if len(found) > 1 else []), *notes))


def _whose(point: PointResult) -> str:
    return f"{point.pool} (imported)" if point.basis is Basis.IMPORTED else point.pool


def _figure(point: PointResult, quantity: Quantity) -> str:
    seconds = point.training.seconds if point.training is not None else None
    if quantity is Quantity.SECONDS and seconds is not None:
        return text.duration(seconds)
    unit = "elements/s" if point.workload == workloads.MESSAGES else "samples/s"
    return f"{text.spread(point.throughput)} {unit}"
