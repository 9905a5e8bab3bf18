# SPDX-License-Identifier: Apache-2.0
"""A report's charts as SVG that stands inside an HTML page: text as text, the same bytes for the same chart.

Drawn by matplotlib, without a screen and without a browser. It reads its fonts from files and keeps a cache of them, so
it is no part of the core. Colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which the
colour-blind tell apart; series also differ in mark and line, so that a print in grey shows the same.

Charts are drawn at about the width of a phone: there letters have nearly the size that is asked for here, on a wide
page they are larger. Must not happen: a label that is cut, or an open end of an interval drawn as if it were known.
"""

import io
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter
from matplotlib.transforms import Bbox

from gpubench.report.document import Axis, Bar, Bars, Chart, Curves, Mark, Series
from gpubench.sanitize import printable

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"
#: Width in points, as tall as it is wide times `_RATIO`, and what a row of the legend adds.
_WIDTH, _RATIO, _LEGEND_ROW = 360.0, 0.72, 16.0
_POINTS_PER_INCH = 72.0
_LEGEND_CHARACTERS = 44
_BAR_CHARACTERS = 52
_ACROSS_CHARACTERS, _UP_CHARACTERS = 44, 28  # of an axis' title
_TICKS = 5
_ROOM = 1.03  # above the largest figure
_BAR_HEIGHT, _BAR_LINE, _BAR_GAP, _BARS_FRAME = 10.0, 14.0, 10.0, 50.0  # points
_TEXT, _SMALL = 11.0, 10.0
_INK, _GRID = "#222222", "#cccccc"

# Yellow comes last: on white it is seen by its dark edge only.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))

_SETTINGS: Any = {
    "svg.fonttype": "none",  # letters, not their outlines: they can be read aloud, searched and selected
    "svg.hashsalt": "gpubench",  # otherwise the names inside the file are drawn by lot
    "text.parse_math": False,  # a $ is a $
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": _TEXT,
    "axes.titlesize": _TEXT,
    "axes.labelsize": _TEXT,
    "xtick.labelsize": _SMALL,
    "ytick.labelsize": _SMALL,
    "legend.fontsize": _SMALL,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "hatch.linewidth": 0.8,
    "figure.dpi": _POINTS_PER_INCH,
    "savefig.facecolor": "none",
}


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
    root.attrib |= {"xmlns": _SVG, "width": width, "height": height}
    ground = ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    ground.tail = "\n"
    root.insert(2, ground)  # after title and description
    return ElementTree.tostring(root, encoding="unicode") + "\n"


# --- figures against figures ------------------------------------------------------------------------------------------


def _curves(chart: Curves) -> Figure:
    keys = _keys(chart)
    rows = sum(label.count("\n") + 1 for _, label in keys)
    figure = Figure(
        figsize=(_WIDTH / _POINTS_PER_INCH, (_WIDTH * _RATIO + _LEGEND_ROW * rows) / _POINTS_PER_INCH),
        layout="constrained",
    )
    axes = figure.add_subplot()
    for number, series in enumerate(chart.series):
        _series(axes, series, number)
    if chart.steps:
        corners = _staircase(chart.steps)
        axes.plot([x for x, _ in corners], [y for _, y in corners], color="#666666", linewidth=1.0, zorder=1)
    if chart.level is not None:
        axes.axhline(chart.level, color="#666666", linewidth=1.0, linestyle=(0, (2, 2)), zorder=1)
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


def _series(axes: Axes, series: Series, number: int) -> None:
    look = _look(number)
    marks = sorted(series.marks, key=lambda mark: mark.x) if series.joined else list(series.marks)
    if series.joined:
        axes.plot(
            [mark.x for mark in marks],
            [mark.y for mark in marks],
            color=look["color"],
            linestyle=look["linestyle"],
            linewidth=1.4,
            zorder=2,
        )
    for mark in marks:
        _interval(axes, mark, colour=look["color"])
        if series.dots:
            face = "white" if mark.hollow else look["color"]
            axes.plot(
                [mark.x],
                [mark.y],
                marker=look["marker"],
                markersize=6.0,
                markerfacecolor=face,
                markeredgecolor=_INK if not mark.hollow else look["color"],
                markeredgewidth=0.6 if not mark.hollow else 1.4,
                linestyle="none",
                zorder=4,
            )


def _interval(axes: Axes, mark: Mark, *, colour: str) -> None:
    """The ends that are known; nothing is drawn towards an open one."""
    style: dict[str, Any] = {"color": colour, "linewidth": 1.1, "zorder": 3}
    if mark.y_low is not None or mark.y_high is not None:
        ends = [mark.y if end is None else end for end in (mark.y_low, mark.y_high)]
        axes.plot([mark.x, mark.x], ends, **style)
        known = [end for end in (mark.y_low, mark.y_high) if end is not None]
        axes.plot([mark.x] * len(known), known, marker="_", markersize=5.0, linestyle="none", color=colour, zorder=3)
    if mark.x_low is not None or mark.x_high is not None:
        ends = [mark.x if end is None else end for end in (mark.x_low, mark.x_high)]
        axes.plot(ends, [mark.y, mark.y], **style)
        known = [end for end in (mark.x_low, mark.x_high) if end is not None]
        axes.plot(known, [mark.y] * len(known), marker="|", markersize=5.0, linestyle="none", color=colour, zorder=3)


def _labels(figure: Figure, axes: Axes, chart: Curves) -> None:
    """What stands beside marks; of two that would lie on each other the first one stays."""
    figure.draw_without_rendering()
    taken: list[Bbox] = []
    for series in chart.series:
        for mark in series.marks:
            if not mark.label:
                continue
            said = axes.annotate(
                mark.label, (mark.x, mark.y), xytext=(5, 4), textcoords="offset points", fontsize=_SMALL, zorder=5
            )
            box = said.get_window_extent()
            if any(box.overlaps(other) for other in taken):
                said.remove()
            else:
                taken.append(box)


def _staircase(corners: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Whoever has so much time pays so much: level until the next corner, and down there."""
    found: list[tuple[float, float]] = []
    for corner in corners:
        if found:
            found.append((corner[0], found[-1][1]))
        found.append(corner)
    return found


def _axis(axes: Axes, which: str, axis: Axis) -> None:
    drawn = axes.xaxis if which == "x" else axes.yaxis
    drawn.set_label_text(_wrapped(axis.title, _ACROSS_CHARACTERS if which == "x" else _UP_CHARACTERS))
    drawn.grid(visible=True, color=_GRID, linewidth=0.6)
    if axis.logarithmic:
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        drawn.set_major_formatter(FuncFormatter(_plain))
        drawn.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        drawn.set_minor_formatter(NullFormatter())
    else:
        if axis.from_zero and which == "x":
            axes.set_xlim(0, axes.get_xlim()[1] * _ROOM)
        elif axis.from_zero:
            axes.set_ylim(0, axes.get_ylim()[1] * _ROOM)
        drawn.set_major_locator(MaxNLocator(_TICKS))
        drawn.set_major_formatter(PercentFormatter(xmax=1.0) if axis.percent else FuncFormatter(_plain))
    if axis.ticks:
        drawn.set_ticks(list(axis.ticks), labels=[_plain(tick, None) for tick in axis.ticks])
        drawn.set_minor_locator(NullLocator())


def _plain(value: float, position: int | None) -> str:
    """A number on an axis, as short as it can be."""
    del position
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


def _keys(chart: Curves) -> list[tuple[Line2D, str]]:
    """What the legend says."""
    found: list[tuple[Line2D, str]] = []
    for number, series in enumerate(chart.series):
        look = _look(number)
        handle = Line2D(
            [],
            [],
            color=look["color"],
            linestyle=look["linestyle"] if series.joined else "none",
            marker=look["marker"] if series.dots else "",
            markersize=6.0,
            markeredgecolor=_INK,
            markeredgewidth=0.6,
        )
        found.append((handle, _wrapped(series.name, _LEGEND_CHARACTERS)))
    if chart.steps:
        found.append((Line2D([], [], color="#666666", linewidth=1.0), chart.steps_name))
    if chart.level is not None:
        found.append((Line2D([], [], color="#666666", linewidth=1.0, linestyle=(0, (2, 2))), chart.level_name))
    return found


def _look(number: int) -> dict[str, Any]:
    """Colour, mark and line of a series."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _LINES[number % len(_LINES)],
    }


# --- lengths ----------------------------------------------------------------------------------------------------------


def _bars(chart: Bars) -> Figure:
    """Each bar has its name and its figure above it: names may be long, and a phone is narrow."""
    texts = [_bar_text(bar) for bar in chart.bars]
    heights = [_BAR_LINE * (text.count("\n") + 1) + _BAR_HEIGHT + _BAR_GAP for text in texts]
    figure = Figure(
        figsize=(_WIDTH / _POINTS_PER_INCH, (sum(heights) + _BARS_FRAME) / _POINTS_PER_INCH), layout="constrained"
    )
    axes = figure.add_subplot()
    top = 0.0
    for bar, text, height in zip(chart.bars, texts, heights, strict=True):
        top -= height
        middle = top + _BAR_GAP / 2 + _BAR_HEIGHT / 2
        _bar(axes, bar, middle)
        axes.text(
            0.0,
            middle + _BAR_HEIGHT / 2 + 2.0,
            text,
            transform=axes.get_yaxis_transform(),
            fontsize=_SMALL,
            verticalalignment="bottom",
        )
    axes.set_ylim(top, 0.0)
    axes.set_xlim(*_reach(chart.bars))
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_label_text(_wrapped(chart.axis.title, _ACROSS_CHARACTERS))
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_major_locator(MaxNLocator(_TICKS))
    axes.xaxis.grid(visible=True, color=_GRID, linewidth=0.6)
    return figure


def _bar_text(bar: Bar) -> str:
    """Name and figure in one line where there is room, else the figure below."""
    text = f"{bar.name}: {bar.said}"
    return text if len(text) <= _BAR_CHARACTERS else f"{_wrapped(f'{bar.name}:', _BAR_CHARACTERS)}\n{bar.said}"


def _bar(axes: Axes, bar: Bar, middle: float) -> None:
    axes.barh(
        middle,
        bar.value,
        left=bar.start,
        height=_BAR_HEIGHT,
        facecolor="white" if bar.hollow else _COLOURS[0],
        edgecolor=_COLOURS[0],
        hatch="////" if bar.hollow else None,
        zorder=2,
    )
    if bar.low is None and bar.high is None:
        return
    end = bar.start + bar.value
    ends = [end if one is None else one for one in (bar.low, bar.high)]
    axes.plot(ends, [middle, middle], color=_INK, linewidth=1.3, zorder=3)
    known = [one for one in (bar.low, bar.high) if one is not None]
    axes.plot(known, [middle] * len(known), marker="|", markersize=6.0, color=_INK, linestyle="none", zorder=3)


def _reach(bars: Iterable[Bar]) -> tuple[float, float]:
    farthest = max(max(bar.start + bar.value, bar.high or 0.0) for bar in bars)
    return 0.0, farthest * 1.02 or 1.0


def _wrapped(text: str, characters: int) -> str:
    return "\n".join(textwrap.wrap(text, characters, break_on_hyphens=False)) or text


# --- SVG inside HTML --------------------------------------------------------------------------------------------------


def _inline(text: str, chart: Chart) -> str:
    """The element as a page has it: with ids and a size of that page, and saying what it shows."""
    root = ElementTree.fromstring(text)  # noqa: S314  # matplotlib's own words
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        element.attrib = {_attribute(name): _value(name, value, chart.name) for name, value in element.attrib.items()}
        element.text = element.text if (element.text or "").strip() else None
        element.tail = "\n"
    view_box = root.attrib["viewBox"]
    title, description = f"{chart.name}-title", f"{chart.name}-description"
    root.attrib = {"viewBox": view_box, "role": "img", "aria-labelledby": f"{title} {description}"}
    for position, (tag, name, said) in enumerate(
        (("title", title, chart.title), ("desc", description, chart.description))
    ):
        told = ElementTree.Element(tag, {"id": name})
        told.text, told.tail = said, "\n"
        root.insert(position, told)
    return ElementTree.tostring(root, encoding="unicode").strip()


def _attribute(name: str) -> str:
    return "href" if name == f"{{{_XLINK}}}href" else name.rpartition("}")[2]


def _value(name: str, value: str, prefix: str) -> str:
    if name == "id":
        return f"{prefix}-{value}"
    if name.endswith("href"):
        return f"#{prefix}-{value.removeprefix('#')}"
    return value.replace("url(#", f"url(#{prefix}-")
