# SPDX-License-Identifier: Apache-2.0
"""Dashboards in one style, by grafana-foundation-sdk: what Grafana 10 to 12 read.

Each panel has a title, a question, which becomes its description, and its queries by their names in a legend or column.
Only plain parts of Grafana are used: time series, stat, bar gauge, table, and trend (a line over a number, since 10.0).
Must not happen: a data source by name or UID, which only one Grafana has.
"""

import json
import re
import string
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from grafana_foundation_sdk.builders import bargauge, common, prometheus, stat, table, timeseries, trend
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as styles
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat, QueryEditorMode

from gpubench import metrics
from gpubench.metrics import Metric, Unit

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
_OF_BENCHMARKS: Final = {one.name for one in metrics.CATALOGUE if "benchmark" in one.labels}
#: A metric or recorded series with its selector, unless a range follows.
_SERIES: Final = re.compile(r"(?:[a-z]+:)?(gpubench_[a-z0-9_]+)(?::[a-z0-9_]+)?(?:\{[^}]*\})?(?![\[\w:{])")
_FROM_ZERO: Final = (Unit.FRACTION, Unit.SECONDS, Unit.BYTES, Unit.WATTS)
#: The variable of which data source to ask.
_SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_LEGEND = (
    common.VizLegendOptions()
    .display_mode(styles.LegendDisplayMode.LIST)
    .placement(styles.LegendPlacement.BOTTOM)
    .show_legend(True)
    .calcs([])
)
_TOOLTIP = common.VizTooltipOptions().mode(styles.TooltipDisplayMode.MULTI).sort(styles.SortOrder.DESCENDING)
_NEWEST = common.ReduceDataOptions().calcs(["lastNotNull"]).fields("").values(False)

Panel = stat.Panel | bargauge.Panel | table.Panel | timeseries.Panel | trend.Panel
_Panel = TypeVar("_Panel", stat.Panel, bargauge.Panel, table.Panel, timeseries.Panel, trend.Panel)
#: Expressions by what a legend, or a column, calls their result.
Queries = Mapping[str, str]


def figures(
    title: str, question: str, queries: Queries, unit: Unit | None = None, *, of_now: bool = False
) -> stat.Panel:
    """The newest values; those of benchmarks whose series have ended, too, unless the question is of this moment."""
    panel = _asking(stat.Panel(), title, question, queries, unit, of_now=of_now).height(4)
    panel.reduce_options(_NEWEST).color_mode(styles.BigValueColorMode.NONE)
    return panel.graph_mode(styles.BigValueGraphMode.NONE).text_mode(styles.BigValueTextMode.AUTO)


def bars(title: str, question: str, queries: Queries) -> bargauge.Panel:
    """The newest values beside each other."""
    panel = _asking(bargauge.Panel(), title, question, queries)
    panel.reduce_options(_NEWEST).display_mode(styles.BarGaugeDisplayMode.BASIC)
    return panel.orientation(styles.VizOrientation.HORIZONTAL).show_unfilled(False)


def over_time(
    title: str,
    question: str,
    queries: Queries,
    unit: Unit | None = None,
    *,
    stacked: bool = False,
    from_zero: bool = True,
) -> timeseries.Panel:
    panel = _asking(timeseries.Panel(), title, question, queries, unit, from_zero=from_zero)
    panel.draw_style(styles.GraphDrawStyle.LINE).line_width(1).fill_opacity(30 if stacked else 0)
    panel.show_points(styles.VisibilityMode.AUTO).span_nulls(False).legend(_LEGEND).tooltip(_TOOLTIP)
    mode = styles.StackingMode.NORMAL if stacked else styles.StackingMode.NONE
    return panel.stacking(common.StackingConfig().mode(mode).group("A"))


def over_number(title: str, question: str, queries: Queries) -> trend.Panel:
    """Lines over the first query."""
    x_field, *lines = queries
    panel = _asking(trend.Panel(), title, question, queries, _unit(queries[lines[0]]))
    panel.draw_style(styles.GraphDrawStyle.LINE).line_width(2).fill_opacity(0).point_size(7)
    panel.show_points(styles.VisibilityMode.ALWAYS).x_field(x_field).legend(_LEGEND).tooltip(_TOOLTIP)
    ascending = {"fields": {}, "sort": [{"field": x_field, "desc": False}]}
    return _joined(panel, queries, ()).with_transformation(_step("sortBy", ascending))


def rows(title: str, question: str, queries: Queries, columns: tuple[str, ...], *, link: str = "") -> table.Panel:
    """A table of these labels and the values of the queries; the link leads from the last of the labels."""
    panel = _asking(table.Panel(), title, question, queries, Unit.NUMBER).span(24)
    panel.show_header(True).cell_height(styles.TableCellHeight.SM)
    _joined(panel, queries, columns)
    if link:
        links = models.DynamicConfigValue(id_val="links", value=[{"title": "Look closer", "url": link}])
        panel.override_by_name(columns[-1], [links])
    return panel


def _asking(
    panel: _Panel,
    title: str,
    question: str,
    queries: Queries,
    unit: Unit | None = None,
    *,
    from_zero: bool = True,
    of_now: bool = False,
) -> _Panel:
    unit = unit or _unit(next(iter(queries.values())))
    panel.title(title).description(question).datasource(_SOURCE).unit(UNITS[unit]).span(12).height(8)
    if from_zero and unit in _FROM_ZERO:
        panel.min(0)
    as_table = isinstance(panel, table.Panel | trend.Panel)
    for letter, (name, expression) in zip(string.ascii_uppercase, queries.items(), strict=False):
        is_range = isinstance(panel, timeseries.Panel)
        asked = expression if is_range or of_now else _SERIES.sub(_lasting, expression)
        target = prometheus.Dataquery().ref_id(letter).datasource(_SOURCE).expr(asked).legend_format(name)
        target.editor_mode(QueryEditorMode.CODE)
        target.format(PromQueryFormat.TABLE if as_table else PromQueryFormat.TIME_SERIES)
        panel.with_target(target.range() if is_range else target.instant())
        if as_table and UNITS[_unit(expression)] != UNITS[unit]:
            panel.override_by_name(name, [models.DynamicConfigValue(id_val="unit", value=UNITS[_unit(expression)])])
    return panel


def _lasting(found: re.Match[str]) -> str:
    """The last value in the dashboard's time range: series of a benchmark end a while after it."""
    is_of_now = found[1] not in _OF_BENCHMARKS or 'state="running"' in found[0] or 'state="waiting"' in found[0]
    return found[0] if is_of_now else f"last_over_time({found[0]}[$__range])"


def _unit(expression: str) -> Unit:
    """That of the first metric or recorded series, unless a caller says what is computed of it."""
    found = re.search(r"[a-z]+:gpubench_[a-z0-9_:]+|gpubench_[a-z0-9_]+", expression)
    if found is None or found[0].endswith("_ratio"):
        return Unit.NUMBER if found is None else Unit.FRACTION
    return _OF_METRIC.get(next(part for part in found[0].split(":") if part.startswith("gpubench_")), Unit.NUMBER)


def _joined(panel: _Panel, queries: Queries, columns: tuple[str, ...]) -> _Panel:
    """One table of all queries, without the columns that Grafana adds."""
    letters = string.ascii_uppercase[: len(queries)]
    several = len(letters) > 1
    values: list[str] = [f"Value #{letter}" for letter in letters] if several else ["Value"]
    shown = [*columns, *values]
    order = {name: at for at, name in enumerate(shown)}
    renamed = dict(zip(values, queries, strict=True))
    if several:
        panel.with_transformation(_step("merge", {}))
    panel.with_transformation(_step("filterFieldsByName", {"include": {"names": shown}}))
    ordered = {"indexByName": order, "renameByName": renamed, "excludeByName": {}}
    return panel.with_transformation(_step("organize", ordered))


def _step(name: str, options: object) -> models.DataTransformerConfig:
    return models.DataTransformerConfig(id_val=name, options=options)


def variable(
    name: str, label: str, metric: Metric, *, where: str = "", multiple: bool = True
) -> builders.QueryVariable:
    """A label of a metric; with several values, all of them at first."""
    selector = f"{metric.name}{{{where}}}" if where else metric.name
    made = builders.QueryVariable(name).label(label).datasource(_SOURCE)
    made.query({"query": f"label_values({selector}, {name})", "refId": "Variable"}).multi(multiple)
    made.include_all(multiple).refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
    if multiple:
        made.all_value(".*").current(models.VariableOption(selected=True, text=["All"], value=["$__all"]))
    return made.sort(models.VariableSort.ALPHABETICAL_ASC)


def annotation(name: str, colour: str, expression: str) -> builders.AnnotationQuery:
    """What happened, on the time axes."""
    return builders.AnnotationQuery().name(name).datasource(_SOURCE).icon_color(colour).expr(expression)


def dashboard(
    uid: str,
    title: str,
    description: str,
    panels: Iterable[Panel],
    *,
    variables: Iterable[builders.QueryVariable] = (),
    annotations: Iterable[builders.AnnotationQuery] = (),
    time_from: str = "now-6h",
    refresh: str = "30s",
) -> models.Dashboard:
    """Panels from left to right, each row full; beside them the links to the other dashboards."""
    made = builders.Dashboard(title).uid(uid).description(description).tags([TAG]).timezone("browser").editable()
    made.tooltip(models.DashboardCursorSync.CROSSHAIR).version(1).refresh(refresh).time(time_from, "now")
    link = builders.DashboardLink("gpubench").type(models.DashboardLinkType.DASHBOARDS).tags([TAG]).as_dropdown(True)
    link.icon("external link").tooltip("The other dashboards of gpubench").include_vars(True).keep_time(True)
    source = builders.DatasourceVariable("datasource").label("Data source").type("prometheus")
    made.link(link).variables([source, *variables]).annotations([*annotations])
    for number, panel in enumerate(panels, start=1):
        made.with_panel(panel.id(number))
    built = made.build()
    built.schema_version = SCHEMA_VERSION
    return built


def text(board: models.Dashboard, annotation_texts: Mapping[str, str]) -> str:
    """As Grafana imports it, with the fields of its Prometheus data source that the SDK's model of 10.1 lacks."""
    document = json.loads(json.dumps(board, cls=JSONEncoder))
    for found in document["annotations"]["list"]:
        found |= {"step": "60s", "titleFormat": found["name"], "textFormat": annotation_texts[found["name"]]}
    for found in document["templating"]["list"][1:]:
        found["definition"] = found["query"]["query"]
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
