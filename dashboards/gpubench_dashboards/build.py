# SPDX-License-Identifier: Apache-2.0
"""Dashboards in one style, by grafana-foundation-sdk: what Grafana 10 to 12 read.

Each panel has a title, a question, which becomes its description, and its queries by their names in a legend or column.
Only plain parts of Grafana are used: time series, stat, bar gauge, table, and trend (a line over a number, since 10.0).
Must not happen: a data source by name or UID, which only one Grafana has; a colour that Grafana chooses: its own
thresholds draw all from 80 on red.
"""

import json
import re
import string
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries, trend
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as styles
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from gpubench import metrics
from gpubench.metrics import Metric, Owner, Unit

SCHEMA_VERSION: Final = 38  # Grafana 10.0; later ones migrate it when they load it
TAG: Final = "gpubench"
#: Grafana's names. An amount has its currency in the legend: a benchmark has one, a dashboard may show several.
UNITS: Final[Mapping[Unit, str]] = {
    Unit.SAMPLES_PER_SECOND: "short",
    Unit.BYTES_PER_SECOND: "Bps",
    Unit.BYTES: "bytes",
    Unit.TIME: "dateTimeFromNow",
    Unit.SECONDS: "s",
    Unit.FRACTION: "percentunit",
    Unit.WATTS: "watt",
    Unit.JOULES: "joule",
    Unit.GRAMS: "massg",
    Unit.CELSIUS: "celsius",
    Unit.AMOUNT: "none",
    Unit.PER_HOUR: "none",
    Unit.NUMBER: "none",
}
_OF_METRIC: Final = {metric.name: metric.unit for metric in metrics.CATALOGUE}
#: Series that end some time after what they are of.
_ENDING: Final = {one.name for one in metrics.CATALOGUE if one.owner in (Owner.BENCHMARK, Owner.RANK)}
#: A metric or recorded series with its selector, unless a range follows.
_SERIES: Final = re.compile(
    r"""(?:[a-z]+:)?(gpubench_[a-z0-9_]+)(?::[a-z0-9_]+)?(?:\{(?:[^}"]|"[^"]*")*\})?(?![\[\w:{])"""
)
#: The variable of which data source to ask.
SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_LEGEND = (
    common.VizLegendOptions()
    .display_mode(styles.LegendDisplayMode.LIST)
    .placement(styles.LegendPlacement.BOTTOM)
    .show_legend(True)
    .calcs([])
)
_BY_SERIES = builders.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC)
_BY_VALUE = builders.FieldColor().mode(models.FieldColorModeId.THRESHOLDS)
_PLAIN = builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps([models.Threshold(None, "text")])
_BLUE = builders.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color("blue")
_TOOLTIP = common.VizTooltipOptions().mode(styles.TooltipDisplayMode.MULTI).sort(styles.SortOrder.DESCENDING)
_NEWEST = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)

GOOD, WEAK, BAD = "green", "orange", "red"
#: Of an end of an interval, in the name of its line.
BOUND: Final = "bound"

Panel = stat.Panel | bargauge.Panel | table.Panel | timeseries.Panel | trend.Panel
_Panel = TypeVar("_Panel", stat.Panel, bargauge.Panel, table.Panel, timeseries.Panel, trend.Panel)
#: Expressions by what a legend, or a column, calls their result.
Queries = Mapping[str, str]
#: What is special of a series or column, by what it is called, or by a /pattern/: `fixed`, `above`, `words`.
Special = Mapping[str, list[models.DynamicConfigValue]]
_NOTHING: Special = MappingProxyType({})
_property = models.DynamicConfigValue
_IN_COLOUR = (_property("color", {"mode": "thresholds"}), _property("custom.cellOptions", {"type": "color-text"}))
#: Ends of intervals: thin, grey, dashed, and not in the legend.
_BOUNDS: Special = {
    f"/ {BOUND}$/": [
        _property("color", {"mode": "fixed", "fixedColor": "#8e8e8e"}),
        _property("custom.lineStyle", {"fill": "dash", "dash": [4, 6]}),
        _property("custom.hideFrom", {"legend": True, "tooltip": False, "viz": False}),
        *(_property("custom.lineWidth", 1), _property("custom.showPoints", "never")),
    ]
}

#: Grafana chooses where an axis has ticks: those between two numbers of workers have no text.
_ONLY_WHOLE = _property(
    "mappings",
    [{"type": "range", "options": {"from": n + 0.01, "to": n + 0.99, "result": {"text": " "}}} for n in range(16)],
)
#: A table is as wide as its panel, if most columns may be narrow: Grafana gives each at least 150 pixels.
_WIDTHS: Special = {
    "/./": [_property("custom.minWidth", 90)],
    "/^(benchmark|setting|.+_version)$/": [_property("custom.width", 190)],
}


def fixed(colour: str) -> list[models.DynamicConfigValue]:
    return [_property("color", {"mode": "fixed", "fixedColor": colour})]


def above(limits: Mapping[float, str]) -> list[models.DynamicConfigValue]:
    """The colour of the highest limit that a value has reached; below all of them it has none."""
    steps = [{"value": at, "color": colour} for at, colour in ({None: "text"} | dict(limits)).items()]
    return [*_IN_COLOUR, _property("thresholds", {"mode": "absolute", "steps": steps})]


def words(said: Mapping[str, tuple[str, str]]) -> list[models.DynamicConfigValue]:
    options = {value: {"text": word, "color": colour} for value, (word, colour) in said.items()}
    return [*_IN_COLOUR, _property("mappings", [{"type": "value", "options": options}])]


def figures(
    title: str, question: str, queries: Queries, unit: Unit | None = None, *, special: Special = _NOTHING
) -> stat.Panel:
    """The newest values; those of benchmarks whose series have ended, too."""
    panel = _asking(stat.Panel(), title, question, queries, unit, special=special)
    coloured = panel.height(4).no_value("none").reduce_options(_NEWEST).color_mode(styles.BigValueColorMode.VALUE)
    return coloured.text_mode(styles.BigValueTextMode.VALUE_AND_NAME).graph_mode(styles.BigValueGraphMode.NONE)


def bars(title: str, question: str, queries: Queries, *, special: Special = _NOTHING) -> bargauge.Panel:
    panel = _asking(bargauge.Panel(), title, question, queries, special=special).color_scheme(_BLUE)
    basic = panel.reduce_options(_NEWEST).display_mode(styles.BarGaugeDisplayMode.BASIC).show_unfilled(False)
    return basic.orientation(styles.VizOrientation.HORIZONTAL).no_value("none")


def over_time(
    title: str,
    question: str,
    queries: Queries,
    unit: Unit | None = None,
    *,
    stacked: bool = False,
    from_zero: bool = True,
    special: Special = _NOTHING,
) -> timeseries.Panel:
    panel = _asking(timeseries.Panel(), title, question, queries, unit, from_zero=from_zero, special=special)
    mode = styles.StackingMode.NORMAL if stacked else styles.StackingMode.NONE
    drawn = panel.draw_style(styles.GraphDrawStyle.LINE).line_width(1).fill_opacity(30 if stacked else 0)
    drawn.show_points(styles.VisibilityMode.AUTO).span_nulls(False).legend(_LEGEND).tooltip(_TOOLTIP)
    return drawn.color_scheme(_BY_SERIES).stacking(common.StackingConfig().mode(mode).group("A"))


def over_number(title: str, question: str, x: str, queries: Queries) -> trend.Panel:
    """A line for each value of the label `line`, over the label x, or over the first of two queries, which x names.

    Grafana draws one table only, in which x ascends without a repetition: so each line is a column.
    """
    x_column, y_column = (x, "Value") if len(queries) == 1 else ("Value #A", "Value #B")
    *computed, of_y = map(_unit, queries.values())
    special = {x: [_property("unit", "none"), *([] if computed else [_ONLY_WHOLE])], **_BOUNDS}
    panel = _asking(trend.Panel(), title, question, queries, of_y, special=special).color_scheme(_BY_SERIES)
    panel.draw_style(styles.GraphDrawStyle.LINE).line_width(2).fill_opacity(0).point_size(7).span_nulls(True)
    panel.show_points(styles.VisibilityMode.ALWAYS).x_field(x).legend(_LEGEND).tooltip(_TOOLTIP)
    matrix, x_in_matrix = {"columnField": "line", "rowField": x_column, "valueField": y_column}, f"{x_column}\\line"
    steps = {
        "merge": {},
        "groupingToMatrix": {**matrix, "emptyValue": "null"},
        # After it: in Grafana 10 the matrix has x as text, whatever it was.
        "convertFieldType": {"fields": {}, "conversions": [{"targetField": x_in_matrix, "destinationType": "number"}]},
        "organize": {"renameByName": {x_in_matrix: x}, "indexByName": {}, "excludeByName": {}},
        "sortBy": {"fields": {}, "sort": [{"field": x, "desc": False}]},
    }
    return _transformed(panel, steps)


def rows(
    title: str, question: str, queries: Queries, columns: tuple[str, ...], *, special: Special = _NOTHING
) -> table.Panel:
    """A table of these labels and the values of the queries; of a query without a name the labels say it all."""
    panel = _asking(table.Panel(), title, question, queries, special={**_WIDTHS, **special}).show_header(True)
    several = [f"Value #{letter}" for letter in string.ascii_uppercase[: len(queries)]]
    values = dict(zip(several if len(queries) > 1 else ["Value"], queries, strict=True))
    shown = [*columns, *(value for value, name in values.items() if name)]
    values |= {name: re.sub("^benchmark_|_type$|_per_worker$", "", name) for name in columns}
    ordered = {"indexByName": {name: at for at, name in enumerate(shown)}, "renameByName": values, "excludeByName": {}}
    steps = {"merge": {}, "filterFieldsByName": {"include": {"names": shown}}, "organize": ordered}
    return _transformed(panel.span(24).height(5).cell_height(styles.TableCellHeight.SM), steps)


def _asking(
    panel: _Panel,
    title: str,
    question: str,
    queries: Queries,
    unit: Unit | None = None,
    *,
    from_zero: bool = True,
    special: Special = _NOTHING,
) -> _Panel:
    of_panel = unit or _unit(next(iter(queries.values())))
    # A table's labels are texts: of any other unit Grafana reads a number, and rounds version 570.86 to 571.
    shown_as = "string" if isinstance(panel, table.Panel) else UNITS[of_panel]
    panel.title(title).description(question).datasource(SOURCE).unit(shown_as).span(12).height(9)
    panel.color_scheme(_BY_VALUE).thresholds(_PLAIN)
    if from_zero:
        panel.min(0)
    as_table, is_range = isinstance(panel, table.Panel | trend.Panel), isinstance(panel, timeseries.Panel)
    layout = PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES
    for letter, (name, expression) in zip(string.ascii_uppercase, queries.items(), strict=False):
        asked = expression if is_range else _SERIES.sub(_lasting, expression)
        target = prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(asked).legend_format(name)
        target.editor_mode(QueryEditorMode.CODE).format(layout)
        panel.with_target(target.range() if is_range else target.instant())
        if unit is None and UNITS[_unit(expression)] != shown_as:
            panel.override_by_name(name, [_property("unit", UNITS[_unit(expression)])])
    for name, values in special.items():
        (panel.override_by_regexp if name.startswith("/") else panel.override_by_name)(name, values)
    return panel


def _lasting(found: re.Match[str]) -> str:
    """The last value in the dashboard's time range: series of a benchmark and its ranks end a while after it."""
    is_of_now = found[1] not in _ENDING or 'state="running"' in found[0] or 'state="waiting"' in found[0]
    return found[0] if is_of_now else f"last_over_time({found[0]}[$__range])"


def _unit(expression: str) -> Unit:
    """That of the first metric or recorded series, unless a caller says what is computed of it."""
    found = re.search(r"[a-z]+:gpubench_[a-z0-9_:]+|gpubench_[a-z0-9_]+", expression)
    if found is None or found[0].endswith("_ratio"):
        return Unit.NUMBER if found is None else Unit.FRACTION
    return _OF_METRIC.get(next(part for part in found[0].split(":") if part.startswith("gpubench_")), Unit.NUMBER)


def _transformed(panel: _Panel, steps: Mapping[str, object]) -> _Panel:
    for name, options in steps.items():
        panel.with_transformation(models.DataTransformerConfig(id_val=name, options=options))
    return panel


def variable(
    name: str, label: str, metric: Metric, *, where: str = "", multiple: bool = True
) -> builders.QueryVariable:
    """A label of a metric; with several values, all of them at first."""
    selector = f"{metric.name}{{{where}}}" if where else metric.name
    made = builders.QueryVariable(name).label(label).datasource(SOURCE).multi(multiple).include_all(multiple)
    made.query({"query": f"label_values({selector}, {name})", "refId": "Variable"})
    made.refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(models.VariableSort.ALPHABETICAL_ASC)
    every = models.VariableOption(selected=True, text=["All"], value=["$__all"])
    return made.all_value(".*").current(every) if multiple else made


def dashboard(
    uid: str,
    title: str,
    description: str,
    panels: Iterable[Panel],
    *,
    gpus: Iterable[Panel] = (),
    variables: Iterable[builders.QueryVariable | builders.CustomVariable] = (),
    annotations: Iterable[builders.AnnotationQuery] = (),
    time_from: str = "now-6h",
    refresh: str = "30s",
) -> models.Dashboard:
    """Panels from left to right, each row full; those of GPUs in a row that asks nothing before it is opened."""
    made = builders.Dashboard(title).uid(uid).description(description).tags([TAG]).timezone("browser").editable()
    made.tooltip(models.DashboardCursorSync.CROSSHAIR).version(1).refresh(refresh).time(time_from, "now")
    link = builders.DashboardLink("gpubench").type(models.DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(True)
    others = link.icon("external link").tooltip("The other dashboards of gpubench").include_vars(True).keep_time(True)
    source = builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    made.link(others).variables([source, *variables]).annotations([*annotations])
    for number, panel in enumerate(panels, start=2):
        made.with_panel(panel.id(number))
    row = builders.Row("GPUs").id(1).collapsed(True)
    for number, panel in enumerate(gpus, start=100):
        row.with_panel(panel.id(number))
    built = (made.with_row(row) if row.build().panels else made).build()
    built.schema_version = SCHEMA_VERSION
    return built


def text(board: models.Dashboard, annotation_texts: Mapping[str, str]) -> str:
    """As Grafana imports it, with the fields of its Prometheus data source that the SDK's model of 10.1 lacks."""
    document = json.loads(json.dumps(board, cls=JSONEncoder))
    for found in document["annotations"]["list"]:
        found |= {"step": "60s", "titleFormat": found["name"], "textFormat": annotation_texts[found["name"]]}
    for found in document["templating"]["list"]:
        if found["type"] == "query":
            found["definition"] = found["query"]["query"]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
