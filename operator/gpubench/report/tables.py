# SPDX-License-Identifier: Apache-2.0
"""A study's results as a table: columns, rows of text, and notes below. Who prints it, and how wide, is not known here.

`flat` gives the same results as plain values for programs, one record for each point, nothing rounded.
"""

from collections import Counter
from collections.abc import Sequence

from gpubench.api.benchmark import Estimate, PointResult, PointState, Scaling
from gpubench.report import figures
from gpubench.values import Value


class Column(Value):
    """A column's title, and whether its cells are numbers that belong to the right."""

    title: str
    numeric: bool = False


class Table(Value):
    """Text in rows; as many cells in each row as there are columns. Notes are sentences below the table."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


COLUMNS = (
    Column(title="WORKLOAD"),
    Column(title="POOL"),
    Column(title="WORKERS", numeric=True),
    Column(title="BATCH", numeric=True),
    Column(title="PRECISION"),
    Column(title="STATE"),
    Column(title="SAMPLES/S", numeric=True),
    Column(title="EFFICIENCY", numeric=True),
    Column(title="COST/M SAMPLES", numeric=True),
    Column(title="REPEATS", numeric=True),
    Column(title="NODES", numeric=True),
)

BATCH_NOTE = "BATCH is per worker."
INTERVAL_NOTE = "± and brackets are 95 % intervals over the repeats: how repeatable a figure is on these nodes."
NO_INTERVAL_NOTE = "Points with fewer than 3 repeats have no interval: set spec.measure.repeats.min to 3 or more."
EFFICIENCY_NOTE = (
    "EFFICIENCY is throughput per worker against the smallest measured worker count of the same pool, workload, batch "
    "and precision."
)


def results(points: Sequence[PointResult]) -> Table:
    """The table of a study's points, in the plan's order."""
    kinds = {scaling.kind for point in points for scaling in point.scaling}
    bases = {scaling.baseline_workers for point in points for scaling in point.scaling}
    return Table(
        columns=COLUMNS,
        rows=tuple(_row(point, name_kind=len(kinds) > 1, name_base=len(bases) > 1) for point in points),
        notes=(*_reading_notes(points), *_reasons(points), *_warnings(points)),
    )


def describe(point: PointResult) -> str:
    """A point in words, for sentences."""
    return f"{point.workload} on {point.pool}, {shape(point)}, {point.precision}"


def shape(point: PointResult) -> str:
    """Workers and batch of a point in words."""
    workers = f"{point.workers} worker{'s' if point.workers > 1 else ''}"
    if point.batch_per_worker is None:
        return f"{workers} at global batch {point.global_batch}"
    return f"{workers} at batch {point.batch_per_worker}"


def _row(point: PointResult, *, name_kind: bool, name_base: bool) -> tuple[str, ...]:
    efficiencies = ", ".join(_efficiency(found, name_kind=name_kind, name_base=name_base) for found in point.scaling)
    return (
        point.workload,
        point.pool,
        str(point.workers),
        figures.UNDEFINED if point.batch_per_worker is None else str(point.batch_per_worker),
        point.precision,
        point.state.value,
        figures.throughput(point.throughput),
        efficiencies or figures.UNDEFINED,
        figures.money(point.cost.per_million_samples) if point.cost else figures.UNDEFINED,
        str(len(point.values)) if point.values else figures.UNDEFINED,
        str(point.nodes) if point.nodes else figures.UNDEFINED,
    )


def _efficiency(scaling: Scaling, *, name_kind: bool, name_base: bool) -> str:
    kind = f"{scaling.kind} " if name_kind else ""
    base = f" of {scaling.baseline_workers}" if name_base else ""
    return f"{kind}{figures.efficiency(scaling)}{base}"


def _reading_notes(points: Sequence[PointResult]) -> list[str]:
    measured = [point for point in points if point.throughput]
    notes = [BATCH_NOTE]
    if any(point.throughput and point.throughput.low is not None for point in measured):
        notes.append(INTERVAL_NOTE)
    if any(
        point.state is PointState.MEASURED and point.throughput and point.throughput.low is None for point in points
    ):
        notes.append(NO_INTERVAL_NOTE)
    if any(point.scaling for point in measured):
        notes.append(EFFICIENCY_NOTE)
    return notes


def _reasons(points: Sequence[PointResult]) -> list[str]:
    return [f"{point.state.value}: {describe(point)}: {point.reason}" for point in points if point.reason]


def _warnings(points: Sequence[PointResult]) -> list[str]:
    """Each warning once; how many points carry it, or which, is said beside it."""
    carriers = Counter(warning for point in points for warning in dict.fromkeys(point.warnings))
    notes = []
    for warning, count in carriers.items():
        carrier = next(point for point in points if warning in point.warnings)
        notes.append(f"Warning: {describe(carrier) if count == 1 else f'{count} points'}: {warning}")
    return notes


# --- for programs -----------------------------------------------------------------------------------------------------

FLAT_FIELDS = (
    "workload", "pool", "accelerator", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision",
    "state", "reason", "repeats", "nodes", "samples_per_second", "samples_per_second_low", "samples_per_second_high",
    "weak_baseline_workers", "weak_efficiency", "weak_efficiency_low", "weak_efficiency_high",
    "strong_baseline_workers", "strong_efficiency", "strong_efficiency_low", "strong_efficiency_high",
    "cost_per_million_samples", "cost_per_million_samples_low", "cost_per_million_samples_high", "currency",
    "environment", "values", "warnings",
)  # fmt: skip


def flat(point: PointResult) -> dict[str, str]:
    """One record with the fields of FLAT_FIELDS; what is not defined is empty, nothing is rounded."""
    cost = point.cost.per_million_samples if point.cost else None
    record: dict[str, object] = {
        **{name: getattr(point, name) for name in FLAT_FIELDS[:8]},
        "state": point.state.value,
        "reason": point.reason,
        "repeats": len(point.values),
        "nodes": point.nodes or None,
        **_flat_estimate("samples_per_second", point.throughput),
        **_flat_scaling(point.scaling),
        "cost_per_million_samples": cost and cost.mean,
        "cost_per_million_samples_low": cost and cost.low,
        "cost_per_million_samples_high": cost and cost.high,
        "currency": cost and cost.currency,
        "environment": point.environment,
        "values": " ".join(repr(value) for value in point.values),
        "warnings": " | ".join(point.warnings),
    }
    return {name: "" if record.get(name) is None else str(record[name]) for name in FLAT_FIELDS}


def _flat_estimate(name: str, estimate: Estimate | None) -> dict[str, object]:
    if estimate is None:
        return {}
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}


def _flat_scaling(scalings: Sequence[Scaling]) -> dict[str, object]:
    record: dict[str, object] = {}
    for scaling in scalings:
        record[f"{scaling.kind}_baseline_workers"] = scaling.baseline_workers
        record.update(_flat_estimate(f"{scaling.kind}_efficiency", scaling.efficiency))
    return record
