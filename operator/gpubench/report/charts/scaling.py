# SPDX-License-Identifier: Apache-2.0
"""Throughput, bandwidth and efficiency over workers: a line for each pool, batch and variant.

Must not happen: a line through points that differ in more than their workers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from gpubench import workloads
from gpubench.api.point_result import PointResult, Scaling
from gpubench.report import text
from gpubench.report.charts import points
from gpubench.report.charts.points import Entry
from gpubench.report.document import Axis, Curves, Mark, Missing, Series
from gpubench.report.tables import Column
from gpubench.values import Interval

_GIGA = 1e9
_Part = TypeVar("_Part")
_OCTAVES = 4  # largest worker count over smallest from which on an axis is logarithmic


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
    samples = [entry for entry in entries if entry.point.workload != workloads.MESSAGES]
    messages = [entry for entry in entries if entry.point.workload == workloads.MESSAGES]
    title = "Throughput over workers"
    if not any(entry.point.throughput for entry in entries):
        return (Missing(title=title, reason=points.nothing(entries)),)
    found = (*_over_workers(samples, _THROUGHPUT), *_over_workers(messages, _BANDWIDTH))
    return found or (Missing(title=title, reason=_one_count(entries)),)


def efficiency(entries: Sequence[Entry]) -> tuple[Curves | Missing, ...]:
    """Scaling efficiency over workers."""
    title = "Scaling efficiency over workers"
    found = _over_workers(entries, _EFFICIENCY)
    if found:
        return found
    if not any(entry.point.throughput or entry.point.scaling for entry in entries):
        return (Missing(title=title, reason=points.nothing(entries)),)
    return (Missing(title=title, reason=_one_count(entries)),)


def _one_count(entries: Sequence[Entry]) -> str:
    if any(points.is_withheld(entry) for entry in entries):
        return "not published for two worker counts of the same work and batch"
    return (
        "no pool has figures for two worker counts of the same work and batch; name several in spec.sweep[].workers to "
        "see how it scales"
    )


def _over_workers(entries: Sequence[Entry], scale: _Scale) -> tuple[Curves, ...]:
    found: list[Curves] = []
    for one, members in points.together(entries):
        lines = {line: marks for line, marks in _lines(members, scale).items() if marks}
        if not any(len(marks) > 1 for marks in lines.values()):
            continue
        sheets = _sheets(lines)
        for sheet in sheets:
            alike = [other for other in sheets if _settings(other) == _settings(sheet)]
            of = (alike.index(sheet) + 1, len(alike))
            found.append(_curves(one, sheet, scale, name=f"{scale.name}-{len(found) + 1}", of=of))
    return tuple(found)


def _curves(
    one: str, lines: Mapping[_Line, tuple[Mark, ...]], scale: _Scale, *, name: str, of: tuple[int, int]
) -> Curves:
    settings = _settings(lines)
    shared = f", {next(iter(settings))}" if len(settings) == 1 else ""
    sheet = f" ({of[0]} of {of[1]})" if of[1] > 1 else ""
    marks = [mark for found in lines.values() for mark in found]
    workers = sorted({mark.x for mark in marks})
    hollow = points.HOLLOW if any(mark.hollow for mark in marks) else ""
    intervals = " Vertical bars are 95 % intervals." if any(mark.y_low is not None for mark in marks) else ""
    return Curves(
        name=name,
        title=f"{scale.title}: {one}{shared}{sheet}",
        description=f"{_capitalized(scale.axis.title)} against the number of workers.{intervals}{hollow}",
        x=Axis(title="workers", ticks=tuple(workers), logarithmic=workers[-1] >= _OCTAVES * workers[0]),
        y=scale.axis,
        series=tuple(Series(name=_line_name(line, lines), marks=found) for line, found in lines.items()),
        columns=(
            Column(title="LINE"),
            Column(title="WORKERS", numeric=True),
            Column(title=scale.column, numeric=True),
        ),
        level=1.0 if scale.axis.percent else None,
        level_name="perfect scaling" if scale.axis.percent else "",
    )


def _capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


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
    base = next((scaling.baseline_pool for scaling in point.scaling if scaling.baseline_pool), point.pool)
    kinds: set[Literal["weak", "strong"]] = {scaling.kind for scaling in point.scaling}
    if not kinds:
        kinds = {"strong" if point.batch_per_worker is None else "weak"}
    return [
        _Line(
            pool=base,
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
    members: Sequence[PointResult], part: Callable[[PointResult], _Part]
) -> dict[_Part | None, list[PointResult]]:
    """Points in the order of their workers: all together where no two have as many, else parted."""
    ordered = sorted(members, key=lambda point: point.workers)
    if len({point.workers for point in ordered}) == len(ordered):
        return {None: ordered}
    return dict(points.grouped(ordered, part))


def _sheets(lines: Mapping[_Line, tuple[Mark, ...]]) -> list[dict[_Line, tuple[Mark, ...]]]:
    """Lines in charts of no more than can be told apart: all together, else batch by batch."""
    if len(lines) <= points.SERIES_MAX:
        return [dict(lines)]
    by_setting = points.grouped(lines, lambda line: line.setting)
    return [
        {line: lines[line] for line in sheet}
        for together in by_setting.values()
        for sheet in _slices(together, points.SERIES_MAX)
    ]


def _settings(lines: Iterable[_Line]) -> frozenset[str]:
    return frozenset(line.setting for line in lines)


def _slices(lines: Sequence[_Line], length: int) -> list[Sequence[_Line]]:
    return [lines[start : start + length] for start in range(0, len(lines), length)]


def _line_name(line: _Line, among: Iterable[_Line]) -> str:
    others = list(among)
    parts = [line.pool]
    if any(other.variant != line.variant for other in others):
        parts.append(line.variant or "no variant")
    if any(other.setting != line.setting for other in others):
        parts.append(line.setting)
    if line.workers_per_node is not None:
        parts.append(f"{line.workers_per_node} per node")
    if line.study:
        parts.append(line.study)
    return ", ".join(parts)


def _mark(point: PointResult, kind: str, scale: _Scale) -> Mark | None:
    told = scale.figure(point, kind)
    if told is None:
        return None
    found, text = told
    return Mark(
        x=point.workers,
        y=found.mean,
        y_low=found.low,
        y_high=found.high,
        hollow=points.is_hollow(point),
        said=(str(point.workers), text),
    )


def _throughput_of(point: PointResult, kind: str) -> tuple[Interval, str] | None:
    del kind
    return None if point.throughput is None else (point.throughput, text.throughput(point.throughput))


def _bandwidth_of(point: PointResult, kind: str) -> tuple[Interval, str] | None:
    del kind
    if point.bandwidth is None:
        return None
    return points.scaled(point.bandwidth.bus, 1 / _GIGA), text.spread(point.bandwidth.bus, per=_GIGA)


def _efficiency_of(point: PointResult, kind: str) -> tuple[Interval, str] | None:
    scaling: Scaling | None = next((one for one in point.scaling if one.kind == kind), None)
    return None if scaling is None else (scaling.efficiency, text.efficiency(scaling))


_THROUGHPUT = _Scale(
    name="throughput",
    title="Throughput",
    axis=Axis(title="samples per second", from_zero=True),
    column="SAMPLES/S",
    figure=_throughput_of,
)
_BANDWIDTH = _Scale(
    name="bandwidth",
    title="Bandwidth",
    axis=Axis(title="bus bandwidth in GB/s", from_zero=True),
    column="BUSBW GB/S",
    figure=_bandwidth_of,
)
_EFFICIENCY = _Scale(
    name="efficiency",
    title="Scaling efficiency",
    axis=Axis(title="scaling efficiency", percent=True, from_zero=True),
    column="EFFICIENCY",
    figure=_efficiency_of,
)
