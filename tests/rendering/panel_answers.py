# SPDX-License-Identifier: Apache-2.0
"""What a panel shows: its queries are asked as its JSON says, and the answers become lines, figures or a table.

As Grafana does it: `range` and `instant` of a target, its legend, and the transformations merge, filterFieldsByName,
organize and sortBy. What a dashboard asks for and is not done here is an error that names it: a picture that leaves
something out would be taken for the dashboard.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import promql_labels

Json = dict[str, Any]
Cell = str | float
Row = dict[str, Cell]
#: A series of an answer: `metric`, and `value` or `values`.
Series = dict[str, Any]


class NotDrawn(ValueError):
    """The dashboard has something that this renderer does not know."""


class Source(Protocol):
    """A Prometheus."""

    def query(self, expression: str, *, at: float | None = None) -> list[Series]: ...

    def query_range(self, expression: str, *, begin: float, end: float, step: float) -> list[Series]: ...

    def label_values(self, label: str, selector: str, *, begin: float, end: float) -> list[str]: ...


class View(NamedTuple):
    """What a reader has chosen: from when to when, how finely, and the values of variables."""

    begin: float
    end: float
    step: float
    rate_interval: str
    chosen: Mapping[str, str] = {}

    def substituted(self, expression: str) -> str:
        """With the values of the variables."""
        return promql_labels.substituted(expression, rate_interval=self.rate_interval, **self.chosen)


class Line(NamedTuple):
    """A figure over time; where there was none for more than a step there is a gap."""

    name: str
    points: tuple[tuple[float, float], ...]


class Figure(NamedTuple):
    """A figure at the end of the range."""

    name: str
    value: float


class Table(NamedTuple):
    """Rows by the names of columns; a cell that is missing has no figure."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


Content = tuple[Line, ...] | tuple[Figure, ...] | Table


def content(panel: Json, source: Source, view: View) -> Content:
    """What a panel shows, by its type."""
    if panel["type"] not in _CONTENTS:
        raise NotDrawn(
            f"panel {panel['title']!r}: type {panel['type']!r} is none of {', '.join(_CONTENTS)}: add it here"
        )
    return _CONTENTS[panel["type"]](panel, source, view)


def _lines(panel: Json, source: Source, view: View) -> tuple[Line, ...]:
    found: list[Line] = []
    for target in panel["targets"]:
        for series in _answer(target, source, view):
            points = [(float(at), float(value)) for at, value in series["values"]]
            there = tuple((at, value) for at, value in points if math.isfinite(value))
            if there:
                found.append(Line(_legend(target["legendFormat"], series["metric"]), there))
    return tuple(found)


def _figures(panel: Json, source: Source, view: View) -> tuple[Figure, ...]:
    calculated = panel["options"]["reduceOptions"]["calcs"]
    if calculated != ["lastNotNull"]:
        raise NotDrawn(f"panel {panel['title']!r}: calculation {calculated} is not lastNotNull: add it here")
    found = [
        Figure(_legend(target["legendFormat"], series["metric"]), float(series["value"][1]))
        for target in panel["targets"]
        for series in _answer(target, source, view)
    ]
    return tuple(figure for figure in found if math.isfinite(figure.value))


def _table(panel: Json, source: Source, view: View) -> Table:
    several = len(panel["targets"]) > 1
    frames = []
    for target in panel["targets"]:
        value = f"Value #{target['refId']}" if several else "Value"
        frames.append([_row(series, value) for series in _answer(target, source, view)])
    table = _Frames([frame for frame in frames if frame])
    for step in panel["transformations"]:
        if step["id"] not in _TRANSFORMATIONS:
            known = ", ".join(_TRANSFORMATIONS)
            raise NotDrawn(f"panel {panel['title']!r}: transformation {step['id']!r} is none of {known}: add it here")
        table = _TRANSFORMATIONS[step["id"]](table, step["options"])
    rows = tuple(row for frame in table.frames for row in frame)
    return Table(tuple(dict.fromkeys(name for row in rows for name in row)) if not table.order else table.order, rows)


_CONTENTS: Mapping[str, Callable[[Json, Source, View], Content]] = {
    "timeseries": _lines,
    "stat": _figures,
    "bargauge": _figures,
    "table": _table,
    "trend": _table,
}


# --- one query --------------------------------------------------------------------------------------------------------


def _answer(target: Json, source: Source, view: View) -> list[Series]:
    expression = view.substituted(target["expr"])
    if target["range"] == target["instant"]:
        raise NotDrawn(f"target {target['refId']}: it must be a range or an instant, and not both")
    if target["instant"]:
        return source.query(expression, at=view.end)
    return source.query_range(expression, begin=view.begin, end=view.end, step=view.step)


def _legend(text: str, labels: Mapping[str, str]) -> str:
    """`{{label}}` is the value of a label; what is empty leaves no gap."""
    if text == "__auto":
        return ", ".join(f'{name}="{value}"' for name, value in sorted(labels.items()) if name != "__name__")
    written = re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda found: labels.get(found[1], ""), text)
    return re.sub(r" {2,}", " ", written).replace("()", "").strip()


def _row(series: Series, value: str) -> Row:
    number = float(series["value"][1])
    labels: Row = dict(series["metric"])
    return labels | ({value: number} if math.isfinite(number) else {})


# --- transformations --------------------------------------------------------------------------------------------------


class _Frames(NamedTuple):
    """One table for each query, until they are merged."""

    frames: Sequence[Sequence[Row]]
    order: tuple[str, ...] = ()


def _merge(table: _Frames, _: Json) -> _Frames:
    """A row meets another one where the labels that all tables have are the same, and nothing else contradicts it."""
    names = [{name for row in frame for name in row} for frame in table.frames]
    shared = set.intersection(*names) if names else set()
    made: list[Row] = []
    for frame in table.frames:
        for row in frame:
            meets = (
                other
                for other in made
                if all(other.get(name) == row.get(name) for name in shared)
                and all(other[name] == row[name] for name in row.keys() & other.keys())
            )
            if (other := next(meets, None)) is not None:
                other |= row
            else:
                made.append(dict(row))
    return _Frames([made])


def _filter(table: _Frames, options: Json) -> _Frames:
    shown = options["include"]["names"]
    frames = [[{name: row[name] for name in shown if name in row} for row in frame] for frame in table.frames]
    return _Frames(frames, tuple(shown))


def _organize(table: _Frames, options: Json) -> _Frames:
    places, called = options["indexByName"], options["renameByName"]
    hidden = {name for name, is_hidden in options["excludeByName"].items() if is_hidden}
    order = sorted((name for name in table.order if name not in hidden), key=lambda name: places.get(name, len(places)))
    frames = [
        [{called.get(name, name): row[name] for name in order if name in row} for row in frame]
        for frame in table.frames
    ]
    return _Frames(frames, tuple(called.get(name, name) for name in order))


def _sort(table: _Frames, options: Json) -> _Frames:
    (by,) = options["sort"]
    frames = [
        sorted(
            (row for row in frame if by["field"] in row),
            key=lambda row: float(row[by["field"]]),
            reverse=by["desc"],
        )
        for frame in table.frames
    ]
    return table._replace(frames=frames)


_TRANSFORMATIONS: Mapping[str, Callable[[_Frames, Json], _Frames]] = {
    "merge": _merge,
    "filterFieldsByName": _filter,
    "organize": _organize,
    "sortBy": _sort,
}
