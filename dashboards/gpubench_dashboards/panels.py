# SPDX-License-Identifier: Apache-2.0
"""What a dashboard is put together from, as Grafana 10 to 12 read it.

A panel is a value with a question, which becomes its description, and queries; its place follows from its width. Only
plain parts of Grafana are used: time series, stat, bar gauge, table, and trend (a line over a number, since 10.0).
Must not happen: a data source by name or UID, which only one Grafana has.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from gpubench.metrics import Unit
from gpubench.values import Value

Json = dict[str, Any]

SCHEMA_VERSION: Final = 38  # Grafana 10.0; later ones migrate it when they load it
TAG: Final = "gpubench"
#: The variable of which data source to ask.
SOURCE: Final[Mapping[str, str]] = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS: Final = 24
#: Grafana's names. An amount has its currency in the legend: a study has one, a dashboard may show several.
UNITS: Final[Mapping[Unit, str]] = {
    Unit.SAMPLES_PER_SECOND: "short",
    Unit.BYTES_PER_SECOND: "Bps",
    Unit.BYTES: "bytes",
    Unit.TIME: "dateTimeFromNow",
    Unit.SECONDS: "s",
    Unit.FRACTION: "percentunit",
    Unit.WATTS: "watt",
    Unit.JOULES: "joule",
    Unit.CELSIUS: "celsius",
    Unit.AMOUNT: "none",
    Unit.PER_HOUR: "none",
    Unit.NUMBER: "none",
}


class Kind(StrEnum):
    """Types of panels."""

    TIME_SERIES = "timeseries"
    STAT = "stat"
    BARS = "bargauge"
    TABLE = "table"
    TREND = "trend"


class Query(Value):
    """An expression, and what a legend, or a column, calls its result."""

    expr: str
    name: str = ""


class Panel(Value):
    """One panel; its description is the question that it answers."""

    title: str
    question: str
    kind: Kind
    queries: tuple[Query, ...]
    unit: Unit = Unit.NUMBER
    width: int = 12
    height: int = 8
    stacked: bool = False
    most: float | None = None  # end of the axis
    below_zero: bool = False  # a share may be negative, and the axis does not begin at 0
    columns: tuple[str, ...] = ()  # of a table: labels that are shown; of a trend: the query that is drawn over
    units: tuple[tuple[str, Unit], ...] = ()  # of columns that have another one
    link: str = ""  # from the rows of a table
    needs_gpu: bool = False  # without one there is nothing to show


class Variable(Value):
    """What the reader chooses: a label of a metric, all values at first unless there is one to begin with."""

    name: str
    label: str
    metric: str
    where: str = ""
    multiple: bool = True


class Mark(Value):
    """An annotation: something that happened, on the time axes."""

    name: str
    expr: str
    text: str
    colour: str


class Dashboard(Value):
    """One dashboard."""

    uid: str
    title: str
    description: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()
    marks: tuple[Mark, ...] = ()
    time_from: str = "now-6h"
    refresh: str = "30s"


def dashboard(made: Dashboard) -> Json:
    """As Grafana imports it."""
    return {
        "uid": made.uid,
        "title": made.title,
        "description": made.description,
        "tags": [TAG],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "refresh": made.refresh,
        "time": {"from": made.time_from, "to": "now"},
        "links": [_links()],
        "annotations": {"list": [_mark(mark) for mark in made.marks]},
        "templating": {"list": [_datasource(), *(_variable(one) for one in made.variables)]},
        "panels": _placed(made.panels),
    }


def _links() -> Json:
    return {
        "title": "gpubench",
        "type": "dashboards",
        "tags": [TAG],
        "asDropdown": True,
        "icon": "external link",
        "includeVars": True,
        "keepTime": True,
        "targetBlank": False,
        "tooltip": "The other dashboards of gpubench",
        "url": "",
    }


def _datasource() -> Json:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}


def _variable(variable: Variable) -> Json:
    selector = f"{variable.metric}{{{variable.where}}}" if variable.where else variable.metric
    query = f"label_values({selector}, {variable.name})"
    made: Json = {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": dict(SOURCE),
        "query": {"query": query, "refId": "Variable"},
        "definition": query,
        "refresh": 2,  # with the time range
        "sort": 1,
        "hide": 0,
        "multi": variable.multiple,
        "includeAll": variable.multiple,
    }
    if variable.multiple:
        made |= {"allValue": ".*", "current": {"selected": True, "text": ["All"], "value": ["$__all"]}}
    return made


def _mark(mark: Mark) -> Json:
    return {
        "name": mark.name,
        "datasource": dict(SOURCE),
        "enable": True,
        "expr": mark.expr,
        "iconColor": mark.colour,
        "step": "60s",
        "titleFormat": mark.name,
        "textFormat": mark.text,
    }


def _placed(panels: Sequence[Panel]) -> list[Json]:
    """From left to right; a panel that does not fit begins the next row."""
    placed, x, y, row = [], 0, 0, 0
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > _COLUMNS:
            x, y, row = 0, y + row, 0
        placed.append(_panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
        x, row = x + panel.width, max(row, panel.height)
    return placed


def _panel(panel: Panel, number: int, place: Json) -> Json:
    defaults: Json = {"unit": UNITS[panel.unit], "custom": _custom(panel)}
    from_zero = panel.unit in (Unit.FRACTION, Unit.SECONDS, Unit.BYTES, Unit.WATTS) and not panel.below_zero
    if from_zero and panel.kind is not Kind.TABLE:
        defaults["min"] = 0
    if panel.most is not None:
        defaults["max"] = panel.most
    return {
        "id": number,
        "type": panel.kind.value,
        "title": panel.title,
        "description": panel.question,
        "gridPos": place,
        "datasource": dict(SOURCE),
        "targets": [_target(panel, query, chr(ord("A") + at)) for at, query in enumerate(panel.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": _overrides(panel)},
        "options": _options(panel),
        "transformations": _transformations(panel),
    }


def _target(panel: Panel, query: Query, letter: str) -> Json:
    over_time = panel.kind is Kind.TIME_SERIES
    as_table = panel.kind in (Kind.TABLE, Kind.TREND)
    return {
        "refId": letter,
        "datasource": dict(SOURCE),
        "expr": query.expr,
        "legendFormat": query.name or "__auto",
        "range": over_time,
        "instant": not over_time,
        "format": "table" if as_table else "time_series",
        "editorMode": "code",
    }


def _custom(panel: Panel) -> Json:
    if panel.kind is Kind.TIME_SERIES:
        return {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 0,
            "showPoints": "auto",
            "spanNulls": False,
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    if panel.kind is Kind.TREND:
        return {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0, "showPoints": "always", "pointSize": 7}
    return {}


def _options(panel: Panel) -> Json:
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    if panel.kind in (Kind.TIME_SERIES, Kind.TREND):
        made: Json = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        return made | ({"xField": panel.columns[0]} if panel.kind is Kind.TREND else {})
    if panel.kind is Kind.STAT:
        return {"reduceOptions": reduced, "colorMode": "none", "graphMode": "none", "textMode": "auto"}
    if panel.kind is Kind.BARS:
        return {"reduceOptions": reduced, "displayMode": "basic", "orientation": "horizontal", "showUnfilled": False}
    return {"showHeader": True, "cellHeight": "sm"}


def _transformations(panel: Panel) -> list[Json]:
    """Tables of several queries become one, without the columns that Grafana adds."""
    if panel.kind not in (Kind.TABLE, Kind.TREND):
        return []
    several = len(panel.queries) > 1
    called = {
        f"Value #{chr(ord('A') + at)}" if several else "Value": query.name for at, query in enumerate(panel.queries)
    }
    shown = [*(panel.columns if panel.kind is Kind.TABLE else ()), *called]
    order = {name: at for at, name in enumerate(shown)}
    made: list[Json] = [{"id": "merge", "options": {}}] if several else []
    made.append({"id": "filterFieldsByName", "options": {"include": {"names": shown}}})
    made.append({"id": "organize", "options": {"indexByName": order, "renameByName": called, "excludeByName": {}}})
    if panel.kind is Kind.TREND:
        made.append({"id": "sortBy", "options": {"fields": {}, "sort": [{"field": panel.columns[0], "desc": False}]}})
    return made


def _overrides(panel: Panel) -> list[Json]:
    made: list[Json] = [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": UNITS[unit]}]}
        for name, unit in panel.units
    ]
    if panel.link:
        made.append(
            {
                "matcher": {"id": "byName", "options": panel.columns[-1]},
                "properties": [{"id": "links", "value": [{"title": "Look closer", "url": panel.link}]}],
            }
        )
    return made
