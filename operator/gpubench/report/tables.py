# SPDX-License-Identifier: Apache-2.0
"""A study's results as a table: columns, rows of text, and notes below. Who prints it, and how wide, is not known here.

`flat` gives the same results as plain values for programs, one record for each point, nothing rounded.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal

from gpubench import workloads
from gpubench.api.point_result import (
    SOURCES,
    AmountInterval,
    Bandwidth,
    Basis,
    Cost,
    GoalResult,
    GpuUsage,
    HostUsage,
    PointBill,
    PointResult,
    PointState,
    Quality,
    Scaling,
    Stopping,
    TrainingResult,
)
from gpubench.api.price_result import PriceUsed
from gpubench.api.sweep import DataSource
from gpubench.report import relatives, text
from gpubench.units import workers_text
from gpubench.values import Interval, Value


class Column(Value):
    """A column's title, and whether its cells are numbers that belong to the right."""

    title: str
    numeric: bool = False


class Table(Value):
    """Text in rows; as many cells in each row as there are columns. Notes are sentences below the table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


BATCH_NOTE = "BATCH is per worker."
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
#: What of an imported point nobody has printed.
NOT_PUBLISHED = "not published"
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
RANGE_NOTE = "AT LOW–HIGH PRICE is the mean cost at both ends of the range in which the pool's price has moved."
HOST_NOTE = "PROCESSORS is per rank, RSS the resident memory of the largest rank."
GPU_NOTE = (
    "GPU is the share of time with a kernel on it, THROTTLED that with a throttle reason on the worst rank; WATTS and "
    "energy are of all GPUs of the point."
)
QUALITY_NOTE = "ACCURACY and LOSS are on held-out data after the last epoch."
GOALS_NOTE = (
    "Goals are lower bounds: samples over throughput, and that time at the price of the nodes; restarts, evaluation "
    "and slower convergence at large batches come on top."
)

_ADAPTIVE = (Stopping.PRECISION_REACHED, Stopping.MAXIMUM_REACHED)

_Cell = Callable[[PointResult], str]
_GIGA = 1e9


def of_study(points: Sequence[PointResult], prices: Sequence[PriceUsed] = ()) -> tuple[Table, ...]:
    """All tables of a study: its points and, where there is something to say, its goals and its machines.

    `prices` are those that its costs stand on: where one has moved, costs at both ends stand beside the cost.
    """
    return (
        results(points, prices),
        *([goals(points)] if any(point.goals for point in points) else []),
        *([machines(points)] if any(point.gpu or point.host for point in points) else []),
    )


def results(points: Sequence[PointResult], prices: Sequence[PriceUsed] = ()) -> Table:
    """The table of a study's points, in the plan's order. Its columns are those that the points have figures for."""
    moved = _moved(points, prices)
    columns = [*_key_columns(points), *_figure_columns(points, moved), *_RUN_COLUMNS]
    ranges = [RANGE_NOTE] if moved else []
    return Table(
        columns=tuple(column for column, _ in columns),
        rows=tuple(tuple(cell(point) for _, cell in columns) for point in points),
        notes=(*reading_notes(points), *ranges, *reasons(points), *warnings(points)),
    )


def goals(points: Sequence[PointResult]) -> Table:
    """What the goals would take at the throughput of each point."""
    columns = _key_columns(points)
    figure_columns = (
        Column(title="GOAL"),
        Column(title="HOURS, AT LEAST", numeric=True),
        Column(title="COST, AT LEAST", numeric=True),
    )
    return Table(
        columns=(*(column for column, _ in columns), *figure_columns),
        rows=tuple(
            (*(cell(point) for _, cell in columns), _goal(point, goal), text.bounded(goal.hours), _money(goal.cost))
            for point in points
            for goal in point.goals
        ),
        notes=(GOALS_NOTE,),
    )


def machines(points: Sequence[PointResult]) -> Table:
    """What the machines did while the points were measured."""
    told = [point for point in points if point.gpu or point.host]
    on_gpus = any(point.gpu for point in told)
    columns = [*_key_columns(told), *_HOST_COLUMNS, *(_GPU_COLUMNS if on_gpus else [])]
    return Table(
        columns=tuple(column for column, _ in columns),
        rows=tuple(tuple(cell(point) for _, cell in columns) for point in told),
        notes=(HOST_NOTE, GPU_NOTE) if on_gpus else (HOST_NOTE,),
    )


def _goal(point: PointResult, goal: GoalResult) -> str:
    return f"{goal.name} (Unstable)" if point.state is PointState.UNSTABLE else goal.name


def describe(point: PointResult) -> str:
    """A point in words, for sentences."""
    of_data = "" if point.data is DataSource.SYNTHETIC else f", {data(point)} data"
    where = f"node {point.node} of {point.pool}" if point.node else point.pool
    return f"{point.workload} on {where}, {shape(point)}, {point.precision}{of_data}"


def data(point: PointResult) -> str:
    """Where the samples came from, with what tells two such sources apart."""
    which = point.data_path or point.data_samples
    return point.data.value if which is None else f"{point.data.value} {which}"


def shape(point: PointResult) -> str:
    """Workers, batch and variant of a point in words."""
    workers = workers_text(point.workers)
    variant = f" with {point.variant}" if point.variant else ""
    if point.batch_per_worker is None:
        return f"{workers} at global batch {point.global_batch}{variant}"
    return f"{workers} at batch {point.batch_per_worker}{variant}"


def headline(point: PointResult) -> str | None:
    """The figure of a point that matters most, in a few words; None where it has none."""
    if point.bandwidth is not None:
        return f"{text.spread(point.bandwidth.bus, per=_GIGA)} GB/s bus bandwidth"
    if point.training is not None and point.training.seconds is not None:
        quality = point.training.quality
        rest = f", {quality.metric} {text.quality(quality)}" if quality is not None else ""
        return f"{text.duration(point.training.seconds)}{rest}"
    return f"{text.throughput(point.throughput)} samples/s" if point.throughput and not _is_message(point) else None


def _is_message(point: PointResult) -> bool:
    """Whether its throughput counts elements of messages, which are no samples."""
    return point.workload == workloads.MESSAGES


# --- columns ----------------------------------------------------------------------------------------------------------


def _key_columns(points: Sequence[PointResult]) -> list[tuple[Column, _Cell]]:
    """What tells the points apart; what all of them leave at its default is not shown."""
    columns: list[tuple[Column, _Cell]] = [
        (Column(title="WORKLOAD"), lambda point: point.workload),
        (Column(title="POOL"), lambda point: point.pool),
        *([(Column(title="NODE"), lambda point: _optional(point.node))] if any(one.node for one in points) else []),
        (Column(title="WORKERS", numeric=True), lambda point: str(point.workers)),
        (Column(title="BATCH", numeric=True), lambda point: _optional(point.batch_per_worker)),
        (Column(title="PRECISION"), lambda point: point.precision),
    ]
    if any(point.data is not DataSource.SYNTHETIC for point in points):
        columns.append((Column(title="DATA"), data))
    if any(point.variant for point in points):
        columns.append((Column(title="VARIANT"), lambda point: _optional(point.variant)))
    if any(point.basis is not Basis.MEASURED for point in points):
        columns.append((Column(title="BASIS"), lambda point: point.basis.value))
    return columns


def _figure_columns(points: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[tuple[Column, _Cell]]:
    trained = [point for point in points if point.training]
    messages = [point for point in points if point.throughput and _is_message(point)]
    others = [point for point in points if point.throughput and not point.training and not _is_message(point)]
    return [
        (Column(title="STATE"), lambda point: point.state.value),
        *(_throughput_columns(points, moved) if others or not (trained or messages) else []),
        *(_training_columns(trained, moved) if trained else []),
        *(_BANDWIDTH_COLUMNS if messages else []),
        *((Column(title=title, numeric=True), _RELATIVE_CELLS[title]) for title in relatives.titles(points)),
    ]


def _throughput_columns(points: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[tuple[Column, _Cell]]:
    kinds = {scaling.kind for point in points for scaling in point.scaling}
    bases = {scaling.baseline_workers for point in points for scaling in point.scaling}

    def efficiencies(point: PointResult) -> str:
        found = [_efficiency(one, name_kind=len(kinds) > 1, name_base=len(bases) > 1) for one in point.scaling]
        return ", ".join(found) or text.UNDEFINED

    return [
        # The elements of a message are no samples: allreduce has its own columns.
        (
            Column(title="SAMPLES/S", numeric=True),
            _throughput,
        ),
        (Column(title="EFFICIENCY", numeric=True), efficiencies),
        (
            Column(title="COST/M SAMPLES", numeric=True),
            lambda point: _money(point.cost.per_million_samples if point.cost else None),
        ),
        *_range_columns(moved, lambda cost: cost.per_million_samples),
    ]


def _throughput(point: PointResult) -> str:
    if _is_message(point):
        return text.UNDEFINED
    return NOT_PUBLISHED if _is_withheld(point) else text.throughput(point.throughput)


def _is_withheld(point: PointResult) -> bool:
    """Whether the publication that the point is imported from does not print how fast it was."""
    without = point.throughput is None and point.training is None
    return without and (point.basis is Basis.IMPORTED or point.state is PointState.NOT_PUBLISHED)


def _training_columns(trained: Sequence[PointResult], moved: Mapping[str, PriceUsed]) -> list[tuple[Column, _Cell]]:
    runs = [point.training for point in trained if point.training]
    unit = text.time_unit(run.seconds.mean for run in runs if run.seconds)
    metrics = dict.fromkeys(run.quality.metric for run in runs if run.quality)
    return [
        (
            Column(title="EPOCHS", numeric=True),
            lambda point: _optional(text.epochs(point)),
        ),
        (
            Column(title="SECONDS/EPOCH", numeric=True),
            lambda point: text.spread(point.training.seconds_per_epoch if point.training else None),
        ),
        (
            Column(title=unit.name.upper(), numeric=True),
            lambda point: text.spread(point.training.seconds if point.training else None, per=unit.seconds),
        ),
        *((Column(title=metric.upper(), numeric=True), _quality_cell(metric)) for metric in metrics),
        (
            Column(title="COST/RUN", numeric=True),
            lambda point: _money(point.cost.per_run if point.cost else None),
        ),
        *_range_columns(moved, lambda cost: cost.per_run),
    ]


def _moved(points: Sequence[PointResult], prices: Sequence[PriceUsed]) -> dict[str, PriceUsed]:
    """The prices of the points' pools that have moved; of a node that costs nothing there is nothing to scale."""
    pools = {point.pool for point in points if point.cost is not None}
    return {one.pool: one for one in prices if one.pool in pools and one.low and one.high and _price(one) > 0}


def _range_columns(
    moved: Mapping[str, PriceUsed], amount: Callable[[Cost], AmountInterval | None]
) -> list[tuple[Column, _Cell]]:
    """A cost at both ends of the range of its pool's price; costs are in proportion to it."""

    def cell(point: PointResult) -> str:
        price, cost = moved.get(point.pool), amount(point.cost) if point.cost is not None else None
        if price is None or cost is None or price.low is None or price.high is None:
            return text.UNDEFINED
        per_price = Decimal(cost.mean) / _price(price)
        return text.between(per_price * Decimal(price.low), per_price * Decimal(price.high))

    return [(Column(title="AT LOW–HIGH PRICE", numeric=True), cell)] if moved else []


def _price(one: PriceUsed) -> Decimal:
    return Decimal(one.per_node_hour)


def _quality_cell(metric: str) -> _Cell:
    def cell(point: PointResult) -> str:
        quality = point.training.quality if point.training else None
        return text.UNDEFINED if quality is None or quality.metric != metric else text.quality(quality)

    return cell


_RELATIVE_CELLS: Mapping[str, _Cell] = {relatives.TIME: relatives.time, relatives.COST: relatives.cost}
_BANDWIDTH_COLUMNS: tuple[tuple[Column, _Cell], ...] = (
    (
        Column(title="ALGBW GB/S", numeric=True),
        lambda point: text.spread(point.bandwidth.algorithm if point.bandwidth else None, per=_GIGA),
    ),
    (
        Column(title="BUSBW GB/S", numeric=True),
        lambda point: text.spread(point.bandwidth.bus if point.bandwidth else None, per=_GIGA),
    ),
)


def _repeats(point: PointResult) -> str:
    missed = "+" if point.stopping is Stopping.MAXIMUM_REACHED else ""
    count = point.repeats or len(point.values)
    return f"{count}{missed}" if count else text.UNDEFINED


_RUN_COLUMNS: tuple[tuple[Column, _Cell], ...] = (
    (Column(title="REPEATS", numeric=True), _repeats),
    (Column(title="NODES", numeric=True), lambda point: _optional(point.nodes or None)),
)

_HOST_COLUMNS: tuple[tuple[Column, _Cell], ...] = (
    (Column(title="PROCESSORS", numeric=True), lambda point: _sampled(_host(point).processors)),
    (Column(title="RSS GB", numeric=True), lambda point: _sampled(_host(point).memory_peak, per=_GIGA)),
)
_GPU_COLUMNS: tuple[tuple[Column, _Cell], ...] = (
    (Column(title="GPU %", numeric=True), lambda point: _sampled(_gpu(point).utilization, per=0.01)),
    (Column(title="GPU GB", numeric=True), lambda point: _sampled(_gpu(point).memory_peak, per=_GIGA)),
    (Column(title="WATTS", numeric=True), lambda point: _sampled(_gpu(point).watts)),
    (Column(title="THROTTLED %", numeric=True), lambda point: _sampled(_gpu(point).throttled, per=0.01)),
    (
        Column(title="J/M SAMPLES", numeric=True),
        lambda point: _sampled(_gpu(point).joules_per_million_samples),
    ),
)


def _host(point: PointResult) -> HostUsage:
    return point.host or HostUsage()


def _gpu(point: PointResult) -> GpuUsage:
    return point.gpu or GpuUsage()


def _sampled(value: float | None, *, per: float = 1.0) -> str:
    """The mean of samples: without an interval, so with few digits."""
    return text.UNDEFINED if value is None else text.spread(Interval(mean=value), per=per)


def _optional(value: object | None) -> str:
    return text.UNDEFINED if value is None else str(value)


def _money(amount: AmountInterval | None) -> str:
    return text.UNDEFINED if amount is None else text.money(amount)


def _efficiency(scaling: Scaling, *, name_kind: bool, name_base: bool) -> str:
    kind = f"{scaling.kind} " if name_kind else ""
    base = f" of {scaling.baseline_workers}" if name_base else ""
    pool = f" on {scaling.baseline_pool}" if scaling.baseline_pool else ""
    return f"{kind}{text.efficiency(scaling)}{base}{pool}"


# --- notes ------------------------------------------------------------------------------------------------------------


def reading_notes(points: Sequence[PointResult]) -> list[str]:
    """How the columns are to be read."""
    measured = [point for point in points if point.throughput or point.scaling]
    regions = dict.fromkeys(point.training.timed_region for point in points if point.training)
    notes = [BATCH_NOTE]
    notes += [f"Seconds, and the cost of a run, are of {text.timed_region(region)}." for region in regions]
    if any(point.training and point.training.quality for point in points):
        notes.append(QUALITY_NOTE)
    if any(point.throughput and point.throughput.low is not None for point in measured):
        notes.append(INTERVAL_NOTE)
    if any(_lacks_repeats(point) for point in points):
        notes.append(NO_INTERVAL_NOTE)
    if any(point.scaling for point in measured if not point.training):
        notes.append(EFFICIENCY_NOTE)
    if any(scaling.baseline_pool for point in measured if not point.training for scaling in point.scaling):
        notes.append(ACROSS_POOLS_NOTE)
    if (relative := relatives.note(points)) is not None:
        notes.append(relative)
    if any(point.bandwidth for point in points):
        notes.append(BANDWIDTH_NOTE)
    if any(point.basis not in SOURCES for point in points):
        notes.append(BASIS_NOTE)
    if any(point.basis is Basis.IMPORTED for point in points):
        notes.append(IMPORTED_NOTE)
    if any(point.state is PointState.UNSTABLE for point in points):
        notes.append(UNSTABLE_NOTE)
    if any(point.stopping in _ADAPTIVE for point in points):
        notes.append(ADAPTIVE_NOTE)
    return notes


def _lacks_repeats(point: PointResult) -> bool:
    ended = point.state in (PointState.MEASURED, PointState.UNSTABLE) and point.basis is Basis.MEASURED
    return ended and bool(point.values) and point.throughput is not None and point.throughput.low is None


def reasons(points: Sequence[PointResult]) -> list[str]:
    """Each with its point; of what was not published only how much that is, for the table shows where."""
    told = [
        f"{point.state.value}: {describe(point)}: {point.reason}"
        for point in points
        if point.reason and point.state is not PointState.NOT_PUBLISHED
    ]
    withheld = Counter(point.reason for point in points if point.state is PointState.NOT_PUBLISHED and point.reason)
    told += [
        f"{PointState.NOT_PUBLISHED.value}: {count} point{'' if count == 1 else 's'}: {reason}"
        for reason, count in withheld.items()
    ]
    return told


def warnings(points: Sequence[PointResult]) -> list[str]:
    """Each warning once; how many points carry it, or which, is said beside it."""
    messages = [list(dict.fromkeys(warning.message for warning in point.warnings)) for point in points]
    carriers = Counter(message for of_point in messages for message in of_point)
    notes = []
    for message, count in carriers.items():
        carrier = next(point for point, of_point in zip(points, messages, strict=True) if message in of_point)
        notes.append(f"Warning: {describe(carrier) if count == 1 else f'{count} points'}: {message}")
    return notes


# --- for programs -----------------------------------------------------------------------------------------------------

FLAT_FIELDS = (
    "workload", "pool", "accelerator", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision",
    "data", "data_path", "data_samples", "variant", "basis", "state", "reason", "repeats", "stopping", "nodes",
    "samples_per_second", "samples_per_second_low", "samples_per_second_high",
    "weak_baseline_workers", "weak_baseline_pool", "weak_efficiency", "weak_efficiency_low", "weak_efficiency_high",
    "strong_baseline_workers", "strong_baseline_pool",
    "strong_efficiency", "strong_efficiency_low", "strong_efficiency_high",
    "epochs", "timed_evaluation", "timed_first_epoch", "training_seconds", "training_seconds_low",
    "training_seconds_high", "seconds_per_epoch", "seconds_per_epoch_low", "seconds_per_epoch_high",
    "first_epoch_seconds", "evaluation_seconds", "training_loss", "quality_metric",
    "final_quality", "final_quality_low", "final_quality_high", "best_quality", "best_quality_low", "best_quality_high",
    "algorithm_bytes_per_second", "algorithm_bytes_per_second_low", "algorithm_bytes_per_second_high",
    "bus_bytes_per_second", "bus_bytes_per_second_low", "bus_bytes_per_second_high",
    "cost_per_million_samples", "cost_per_million_samples_low", "cost_per_million_samples_high",
    "cost_per_run", "cost_per_run_low", "cost_per_run_high", "currency",
    *relatives.FLAT_FIELDS,
    "billed", "billed_per_run", "billed_lost", "billed_attempts", "billed_currency",
    "goals", "processors", "memory_peak_bytes",
    "gpu_utilization", "gpu_memory_peak_bytes", "watts", "joules_per_million_samples", "gpu_throttled",
    "comparison", "environment", "instance_type", "values", "warning_reasons", "warnings", "node",
)  # fmt: skip
_SAME_NAME = (
    "workload", "pool", "accelerator", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision",
    "data_path", "data_samples", "variant", "reason", "environment", "instance_type", "node",
)  # fmt: skip


def flat(point: PointResult) -> dict[str, str]:
    """One record with the fields of FLAT_FIELDS; what is not defined is empty, nothing is rounded."""
    record: dict[str, object] = {
        **{name: getattr(point, name) for name in _SAME_NAME},
        "data": point.data.value,
        "epochs": point.epochs,
        "basis": point.basis.value,
        "state": point.state.value,
        "repeats": point.repeats or len(point.values),
        "stopping": point.stopping and point.stopping.value,
        "comparison": point.comparison and point.comparison.value,
        "nodes": point.nodes or None,
        **_flat_estimate("samples_per_second", point.throughput),
        **_flat_scaling(point.scaling),
        **_flat_training(point.training),
        **_flat_bandwidth(point.bandwidth),
        **_flat_cost(point.cost),
        **relatives.flat(point),
        **_flat_bill(point.bill),
        **_flat_machine(point),
        "goals": json.dumps([goal.to_wire() for goal in point.goals]) if point.goals else None,
        "values": " ".join(repr(value) for value in point.values),
        "warning_reasons": " ".join(warning.reason.value for warning in point.warnings),
        "warnings": " | ".join(warning.message for warning in point.warnings),
    }
    return {name: "" if record.get(name) is None else str(record[name]) for name in FLAT_FIELDS}


def _flat_training(training: TrainingResult | None) -> dict[str, object]:
    if training is None:
        return {}
    return {
        "epochs": training.epochs,
        "timed_evaluation": training.timed_region.evaluation,
        "timed_first_epoch": training.timed_region.first_epoch,
        **_flat_estimate("training_seconds", training.seconds),
        **_flat_estimate("seconds_per_epoch", training.seconds_per_epoch),
        "first_epoch_seconds": training.first_epoch_seconds,
        "evaluation_seconds": training.evaluation_seconds,
        "training_loss": training.training_loss,
        **_flat_quality(training.quality),
    }


def _flat_quality(quality: Quality | None) -> dict[str, object]:
    if quality is None:
        return {}
    return {
        "quality_metric": quality.metric,
        **_flat_estimate("final_quality", quality.final),
        **_flat_estimate("best_quality", quality.best),
    }


def _flat_bandwidth(bandwidth: Bandwidth | None) -> dict[str, object]:
    if bandwidth is None:
        return {}
    return {
        **_flat_estimate("algorithm_bytes_per_second", bandwidth.algorithm),
        **_flat_estimate("bus_bytes_per_second", bandwidth.bus),
    }


def _flat_cost(cost: Cost | None) -> dict[str, object]:
    known = cost and (cost.per_million_samples or cost.per_run)
    if cost is None or not known:
        return {}
    return {
        **_flat_amount("cost_per_million_samples", cost.per_million_samples),
        **_flat_amount("cost_per_run", cost.per_run),
        "currency": known.currency,
    }


def _flat_bill(bill: PointBill | None) -> dict[str, object]:
    if bill is None:
        return {}
    return {
        "billed": bill.total,
        "billed_per_run": bill.per_run,
        "billed_lost": bill.parts.lost,
        "billed_attempts": bill.attempts,
        "billed_currency": bill.currency,
    }


def _flat_machine(point: PointResult) -> dict[str, object]:
    host, gpu = _host(point), _gpu(point)
    return {
        "processors": host.processors,
        "memory_peak_bytes": host.memory_peak,
        "gpu_utilization": gpu.utilization,
        "gpu_memory_peak_bytes": gpu.memory_peak,
        "watts": gpu.watts,
        "joules_per_million_samples": gpu.joules_per_million_samples,
        "gpu_throttled": gpu.throttled,
    }


def _flat_amount(name: str, amount: AmountInterval | None) -> dict[str, object]:
    if amount is None:
        return {}
    return {name: amount.mean, f"{name}_low": amount.low, f"{name}_high": amount.high}


def _flat_estimate(name: str, estimate: Interval | None) -> dict[str, object]:
    if estimate is None:
        return {}
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _flat_scaling(scalings: Sequence[Scaling]) -> dict[str, object]:
    record: dict[str, object] = {}
    for scaling in scalings:
        record[f"{scaling.kind}_baseline_workers"] = scaling.baseline_workers
        record[f"{scaling.kind}_baseline_pool"] = scaling.baseline_pool
        record.update(_flat_estimate(f"{scaling.kind}_efficiency", scaling.efficiency))
    return record
