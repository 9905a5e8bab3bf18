# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page that needs nothing else: no network, no script, no font of its own.

Jinja2 escapes every text; the template is `page.html.jinja`. Charts are drawn by matplotlib as SVG with text as text,
the same bytes for the same chart. Only they are taken as markup, and there the XML library has escaped the texts.
Both libraries read files, so this is no part of the core.

Colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which the colour-blind tell apart; series
also differ in mark and line, so that a print in grey shows the same. Charts are about as wide as a phone: there letters
have nearly the size that is asked for here, on a wide page they are larger.

Must not happen: a reference to a place outside the page, a label that is cut, or an open end of an interval drawn as if
it were known.
"""

import io
import itertools
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jinja2
import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter
from matplotlib.transforms import Bbox

from gpubench.report.charts import Axis, Bar, Bars, Chart, Curves, Series
from gpubench.report.document import Document
from gpubench.sanitize import printable

_TEMPLATE = "page.html.jinja"
_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
#: Width in points, as tall as it is wide times `_RATIO`, and what a row of the legend adds.
_WIDTH, _RATIO, _LEGEND_ROW = 360.0, 0.72, 16.0
_POINTS_PER_INCH = 72.0
_LEGEND_CHARACTERS, _BAR_CHARACTERS = 44, 52
_ACROSS_CHARACTERS, _UP_CHARACTERS = 44, 28  # of an axis' title
_TICKS = 5
_ROOM = 1.03  # above the largest figure
_BAR_HEIGHT, _BAR_LINE, _BAR_GAP, _BARS_FRAME = 10.0, 14.0, 10.0, 50.0  # points
_TEXT, _SMALL = 11.0, 10.0
_INK, _QUIET, _GRID = "#222222", "#666666", "#cccccc"

#: Colour, mark and line of each series. Yellow comes last: on white it is seen by its dark edge only.
_LOOKS: tuple[tuple[str, str, Any], ...] = (
    ("#0072B2", "o", "-"),
    ("#D55E00", "s", "--"),
    ("#009E73", "^", "-."),
    ("#CC79A7", "D", ":"),
    ("#E69F00", "v", (0, (5, 1))),
    ("#56B4E9", "P", (0, (3, 1, 1, 1, 1, 1))),
    ("#000000", "X", (0, (1, 1))),
    ("#F0E442", "*", (0, (8, 2))),
)
_BAR_COLOUR = "#0072B2"
_FILLED: dict[str, Any] = {"markersize": 6.0, "markeredgecolor": _INK, "markeredgewidth": 0.6}
_HOLLOW: dict[str, Any] = {"markersize": 6.0, "markerfacecolor": "white", "markeredgewidth": 1.4}
_STEPS: dict[str, Any] = {"color": _QUIET, "linewidth": 1.0}
_LEVEL: dict[str, Any] = {"color": _QUIET, "linewidth": 1.0, "linestyle": (0, (2, 2))}

_SETTINGS: Any = {
    "svg.fonttype": "none",  # letters, not their outlines: they can be read aloud, searched and selected
    "svg.hashsalt": "gpubench",  # otherwise the names inside the file are random
    "text.parse_math": False,  # a $ is a $
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), _TEXT),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), _SMALL),
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK),
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.8,
    "figure.dpi": _POINTS_PER_INCH,
    "savefig.facecolor": "none",
}


def render(document: Document) -> str:
    """The whole page."""
    return printable(_template().render(document=document, drawn=_drawn)) + "\n"


def _drawn(chart: Chart) -> Markup:
    return Markup(svg(chart))  # noqa: S704  # elements built by the XML library, no text of anybody's


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(_TEMPLATE)


def svg(chart: Chart) -> str:
    """The chart as an `<svg>` element."""
    with matplotlib.rc_context(_SETTINGS):
        figure = _curves(chart) if isinstance(chart, Curves) else _bars(chart)
        drawn = io.StringIO()
        # Without dates, and without a word about the program, whose version would change the file.
        figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _inline(printable(drawn.getvalue()), chart)  # XML holds no control character, escaped or not


def picture(chart: Chart) -> str:
    """The chart as an SVG file of its own, on white."""
    root = ElementTree.fromstring(svg(chart))  # noqa: S314  # our own words
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib |= {"xmlns": _SVG.strip("{}"), "width": width, "height": height}
    ground = ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    ground.tail = "\n"
    root.insert(2, ground)  # after title and description
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(_WIDTH / _POINTS_PER_INCH, height / _POINTS_PER_INCH), layout="constrained")
    return figure, figure.add_subplot()


# --- figures against figures ------------------------------------------------------------------------------------------


def _curves(chart: Curves) -> Figure:
    keys = list(_keys(chart))
    rows = sum(label.count("\n") + 1 for _, label in keys)
    figure, axes = _figure(_WIDTH * _RATIO + _LEGEND_ROW * rows)
    for series, look in zip(chart.series, itertools.cycle(_LOOKS)):
        _series(axes, series, *look)
    if chart.steps:
        axes.step([x for x, _ in chart.steps], [y for _, y in chart.steps], where="post", zorder=1, **_STEPS)
    if chart.level is not None:
        axes.axhline(chart.level, zorder=1, **_LEVEL)
    _axis(axes, "x", chart.x)
    _axis(axes, "y", chart.y)
    if keys:
        figure.legend(
            [handle for handle, _ in keys],
            [label for _, label in keys],
            loc="outside lower left",
            frameon=False,
            handlelength=3.2,
            labelspacing=0.35,
            borderaxespad=0.2,
        )
    _labels(figure, axes, chart)
    return figure


def _series(axes: Axes, series: Series, colour: str, marker: str, line: Any) -> None:
    if series.joined:
        marks = sorted(series.marks, key=lambda mark: mark.x.mean)
        places = [mark.x.mean for mark in marks], [mark.y.mean for mark in marks]
        axes.plot(*places, color=colour, linestyle=line, linewidth=1.4, zorder=2)
    for mark in series.marks:
        _interval(axes, mark.y.mean, (mark.y.low, mark.y.high), at=mark.x.mean, upright=True, colour=colour)
        _interval(axes, mark.x.mean, (mark.x.low, mark.x.high), at=mark.y.mean, upright=False, colour=colour)
        if series.dots:
            look = _HOLLOW | {"markeredgecolor": colour} if mark.hollow else _FILLED | {"markerfacecolor": colour}
            axes.plot([mark.x.mean], [mark.y.mean], marker=marker, linestyle="none", zorder=4, **look)


def _interval(
    axes: Axes, middle: float, ends: tuple[float | None, float | None], *, at: float, upright: bool, colour: str
) -> None:
    """The ends that are known; nothing is drawn towards an open one."""
    known = [end for end in ends if end is not None]
    if not known:
        return
    span = [middle if end is None else end for end in ends]
    style: dict[str, Any] = {"color": colour, "linewidth": 1.1, "zorder": 3}
    caps: dict[str, Any] = {**style, "marker": "_" if upright else "|", "markersize": 5.0, "linestyle": "none"}
    for places, look in ((span, style), (known, caps)):
        across = [at] * len(places)
        axes.plot(*((across, places) if upright else (places, across)), **look)


def _labels(figure: Figure, axes: Axes, chart: Curves) -> None:
    """What is shown beside marks; of two that would lie on each other the first one stays."""
    figure.draw_without_rendering()
    taken: list[Bbox] = []
    for mark in (mark for series in chart.series for mark in series.marks if mark.label):
        label = axes.annotate(
            mark.label, (mark.x.mean, mark.y.mean), xytext=(5, 4), textcoords="offset points", fontsize=_SMALL, zorder=5
        )
        box = label.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            label.remove()
        else:
            taken.append(box)


def _axis(axes: Axes, which: str, axis: Axis) -> None:
    drawn = axes.xaxis if which == "x" else axes.yaxis
    drawn.set_label_text(_wrapped(axis.title, _ACROSS_CHARACTERS if which == "x" else _UP_CHARACTERS))
    drawn.grid(visible=True, color=_GRID, linewidth=0.6)
    if axis.logarithmic:
        axes.set(**{f"{which}scale": "log"})
        drawn.set_major_formatter(FuncFormatter(_plain))
        drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        drawn.set_minor_formatter(NullFormatter())
    else:
        if axis.from_zero:
            _, high = drawn.get_view_interval()
            axes.set(**{f"{which}lim": (0, high * _ROOM)})
        drawn.set_major_locator(MaxNLocator(_TICKS))
        drawn.set_major_formatter(PercentFormatter(xmax=1.0) if axis.percent else FuncFormatter(_plain))
    if axis.ticks:
        drawn.set_ticks(list(axis.ticks), labels=[_plain(tick) for tick in axis.ticks])
        drawn.set_minor_locator(NullLocator())


def _plain(value: float, _: int | None = None) -> str:
    """A number on an axis, as short as it can be."""
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _keys(chart: Curves) -> Iterator[tuple[Line2D, str]]:
    """What the legend says."""
    for series, (colour, marker, line) in zip(chart.series, itertools.cycle(_LOOKS)):
        drawn: dict[str, Any] = {
            "linestyle": line if series.joined else "none",
            "marker": marker if series.dots else "",
        }
        handle = Line2D([], [], color=colour, **drawn, **_FILLED)
        yield handle, _wrapped(series.name, _LEGEND_CHARACTERS)
    if chart.steps:
        yield Line2D([], [], **_STEPS), chart.steps_name
    if chart.level is not None:
        yield Line2D([], [], **_LEVEL), chart.level_name


# --- lengths ----------------------------------------------------------------------------------------------------------


def _bars(chart: Bars) -> Figure:
    """Each bar has its name and its figure above it: names may be long, and a phone is narrow."""
    texts = [_bar_text(bar) for bar in chart.bars]
    heights = [_BAR_LINE * (text.count("\n") + 1) + _BAR_HEIGHT + _BAR_GAP for text in texts]
    figure, axes = _figure(sum(heights) + _BARS_FRAME)
    top = 0.0
    for bar, text, height in zip(chart.bars, texts, heights, strict=True):
        top -= height
        middle = top + _BAR_GAP / 2 + _BAR_HEIGHT / 2
        face: dict[str, Any] = {"facecolor": "white", "hatch": "////"} if bar.hollow else {"facecolor": _BAR_COLOUR}
        axes.barh(middle, bar.value, left=bar.start, height=_BAR_HEIGHT, edgecolor=_BAR_COLOUR, zorder=2, **face)
        _interval(axes, bar.start + bar.value, (bar.low, bar.high), at=middle, upright=False, colour=_INK)
        place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "verticalalignment": "bottom"}
        axes.text(0.0, middle + _BAR_HEIGHT / 2 + 2.0, text, fontsize=_SMALL, **place)
    farthest = max(max(bar.start + bar.value, bar.high or 0.0) for bar in chart.bars)
    _axis(axes, "x", chart.axis)
    axes.set(xlim=(0.0, farthest * 1.02 or 1.0), ylim=(top, 0.0))
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    return figure


def _bar_text(bar: Bar) -> str:
    """Name and figure in one line where there is room, else the figure below."""
    text = f"{bar.name}: {bar.text}"
    return text if len(text) <= _BAR_CHARACTERS else f"{_wrapped(f'{bar.name}:', _BAR_CHARACTERS)}\n{bar.text}"


def _wrapped(text: str, characters: int) -> str:
    return "\n".join(textwrap.wrap(text, characters, break_on_hyphens=False)) or text


# --- SVG inside HTML --------------------------------------------------------------------------------------------------


def _inline(drawn: str, chart: Chart) -> str:
    """The element as a page has it: with ids and a size of that page, and saying what it shows."""
    root = ElementTree.fromstring(drawn)  # noqa: S314  # matplotlib's own words
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
        element.attrib = dict(_attribute(name, value, chart.name) for name, value in element.attrib.items())
        element.text = element.text if (element.text or "").strip() else None
        element.tail = "\n"
    said = {f"{chart.name}-title": ("title", chart.title), f"{chart.name}-description": ("desc", chart.description)}
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-labelledby": " ".join(said)}
    for position, (name, (tag, text)) in enumerate(said.items()):
        element = ElementTree.Element(tag, {"id": name})
        element.text, element.tail = text, "\n"
        root.insert(position, element)
    return ElementTree.tostring(root, encoding="unicode").strip()


def _attribute(name: str, value: str, prefix: str) -> tuple[str, str]:
    if name == "id":
        return name, f"{prefix}-{value}"
    if name == _HREF:
        return "href", f"#{prefix}-{value.removeprefix('#')}"
    return name.rpartition("}")[2], value.replace("url(#", f"url(#{prefix}-")
