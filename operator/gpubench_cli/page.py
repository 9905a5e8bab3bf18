# SPDX-License-Identifier: Apache-2.0
"""A report as one HTML page that needs nothing else: no network, no font; its one script sorts and filters.

Jinja2 escapes every text; the template is `page.html.jinja`. matplotlib draws the rows of a chart, as SVG with text as
text and the same bytes for the same chart. The page has it as an image, in which nothing is run and nothing is fetched.
Both libraries read files, so this is no part of the core.

Colours are those of M. Okabe and K. Ito ("Color Universal Design", 2008), which the colour-blind tell apart; series
also differ in mark and line, so that a print in grey shows the same. Charts are about as wide as a phone: there letters
have nearly the size that is asked for here, on a wide page they are larger.

Must not happen: a reference to a place outside the page, a label that is cut, or an open end of an interval drawn as if
it were known.
"""

import base64
import hashlib
import io
import textwrap
from pathlib import Path
from typing import Any

import jinja2
import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator, PercentFormatter
from matplotlib.transforms import Bbox

from gpubench.report.charts import Chart, Row
from gpubench.report.document import Document
from gpubench.sanitize import printable
from gpubench.values import Interval

#: Width in points, as tall as it is wide times `_RATIO`, and what a row of the legend adds.
_WIDTH, _RATIO, _LEGEND_ROW = 360.0, 0.72, 16.0
_POINTS_PER_INCH = 72.0
_LEGEND_CHARACTERS, _BAR_CHARACTERS, _TITLE_CHARACTERS = 44, 52, {"x": 44, "y": 28}
_TICKS = 5
_ROOM = 1.03  # above the largest figure
_OCTAVES = 4  # largest worker count over smallest from which on an axis is logarithmic
_WIDE = 20  # times the smallest figure: from there on a linear axis hides the small ones
_BAR_HEIGHT, _BAR_LINE, _BAR_GAP, _BARS_FRAME = 10.0, 14.0, 10.0, 50.0  # points
_TEXT, _SMALL = 11.0, 10.0
_INK, _QUIET, _GRID, _PAPER = "#222222", "#666666", "#cccccc", "#ffffff"
#: Each of them in the dark, inside of the file: an image has the colours that its page has.
_IN_THE_DARK = "".join(
    f'[style*="{part}: {colour}"]{{{part}:{dark}!important}}'
    for colour, dark in (
        *((_INK, "#e8e8e8"), (_QUIET, "#a8a8a8"), (_GRID, "#41454c"), (_PAPER, "#16181c")),
        ("#0072b2", "#4aa3df"),  # the darkest of the series
    )
    for part in ("fill", "stroke")
)

#: Colours and lines come again after eight series, marks after seven: so 56 are told apart. Yellow, which is seen on
#: white by its dark edge only, comes last.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", _INK, "#F0E442")
_LINES: tuple[Any, ...] = (
    *("-", "--", "-.", ":"),
    *((0, dashes) for dashes in ((5, 1), (3, 1, 1, 1, 1, 1), (1, 1), (8, 2))),
)
_MARKS = "os^DvPX"
_BAR_COLOUR = "#0072B2"

_SETTINGS: Any = {
    "svg.fonttype": "none",  # letters, not their outlines: small, and searched in a file of its own
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
    "lines.markersize": 6.0,
    "figure.dpi": _POINTS_PER_INCH,
    "savefig.facecolor": _PAPER,
}


def render(document: Document) -> str:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = (Path(__file__).parent / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = environment.get_template("page.html.jinja")
    page = template.render(document=document, svg=svg, base64=base64.b64encode, script=script, script_hash=digest)
    return f"{printable(page)}\n"


def svg(chart: Chart) -> str:
    """The chart as an SVG file, on white, or in the dark on black."""
    # Without dates, and without a word about the program, whose version would change the file.
    metadata = {"Title": chart.title, **dict.fromkeys(("Creator", "Date", "Format", "Type"))}
    with matplotlib.rc_context(_SETTINGS):
        figure = Figure(layout="constrained")
        (_bars if chart.form == "bars" else _curves)(figure, chart)
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata=metadata)
    _, element, content = drawn.getvalue().partition("<svg")  # without the address of a DTD
    dark = f"@media screen and (prefers-color-scheme:dark){{{_IN_THE_DARK}}}</style>"
    content = content.replace("</style>", dark, 1)
    return printable(f"{element}{content}")  # XML holds no control character, escaped or not


# --- figures against figures ------------------------------------------------------------------------------------------


def _curves(figure: Figure, chart: Chart) -> None:
    axes = figure.add_subplot()
    for number, name in enumerate(dict.fromkeys(row.series for row in chart.rows)):
        _series(axes, [row for row in chart.rows if row.series == name], chart.form, number)
    quiet: dict[str, Any] = {"color": _QUIET, "linewidth": 1.0, "zorder": 1}
    xs, ys = [row.x.mean for row in chart.rows], [row.y.mean for row in chart.rows]
    on_frontier = sorted((row.x.mean, row.y.mean) for row in chart.rows if row.label)
    if len(on_frontier) > 1:
        axes.step(*zip(*on_frontier, strict=True), where="post", label="frontier", **quiet)
    if chart.level:
        axes.axhline(1.0, linestyle=(0, (2, 2)), label=chart.level, **quiet)
    over_workers = chart.form == "workers"
    _axis(axes.xaxis, chart, wide=max(xs) >= _OCTAVES * min(xs) if over_workers else _is_wide(chart, xs))
    if over_workers:
        axes.xaxis.set_ticks(sorted(set(xs)), labels=[_plain(x) for x in sorted(set(xs))])
        axes.xaxis.set_minor_locator(NullLocator())
    _axis(axes.yaxis, chart, wide=_is_wide(chart, ys))
    legend = figure.legend(
        loc="outside lower left", frameon=False, handlelength=3.2, labelspacing=0.35, borderaxespad=0.2
    )
    rows = sum(label.get_text().count("\n") + 1 for label in legend.get_texts())
    figure.set_size_inches(_WIDTH / _POINTS_PER_INCH, (_WIDTH * _RATIO + _LEGEND_ROW * rows) / _POINTS_PER_INCH)
    figure.draw_without_rendering()
    taken: list[Bbox] = []
    for row in (row for row in chart.rows if row.label):  # of two labels that would lie on each other the first stays
        place = (row.x.mean, row.y.mean)
        label = axes.annotate(row.label, place, xytext=(5, 4), textcoords="offset points", fontsize=_SMALL, zorder=5)
        box = label.get_window_extent()
        if any(box.overlaps(other) for other in taken):
            label.remove()
        else:
            taken.append(box)


def _is_wide(chart: Chart, values: list[float]) -> bool:
    return chart.form == "frontier" and min(values) > 0 and max(values) > _WIDE * min(values)


def _series(axes: Axes, rows: list[Row], form: str, number: int) -> None:
    rows = sorted(rows, key=lambda row: row.x.mean)
    colour, marker = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
    for row in rows:
        _interval(axes, row.y, at=row.x.mean, upright=True, colour=colour)
        _interval(axes, row.x, at=row.y.mean, upright=False, colour=colour)
    axes.plot(
        [row.x.mean for row in rows],
        [row.y.mean for row in rows],
        label=_wrapped(rows[0].series, _LEGEND_CHARACTERS),
        color=colour,
        linestyle="none" if form == "frontier" else _LINES[number % len(_LINES)],
        linewidth=1.4,
        marker=marker,
        markeredgecolor=_INK,
        markeredgewidth=0.6,
        zorder=3,
    )
    hollow: dict[str, Any] = {"markerfacecolor": "white", "markeredgecolor": colour, "markeredgewidth": 1.4}
    for row in (row for row in rows if row.hollow):
        axes.plot([row.x.mean], [row.y.mean], marker=marker, linestyle="none", zorder=4, **hollow)


def _interval(axes: Axes, figure: Interval, *, at: float, upright: bool, colour: str, start: float = 0.0) -> None:
    """The ends that are known; nothing is drawn towards an open one."""
    known = [start + end for end in (figure.low, figure.high) if end is not None]
    style: dict[str, Any] = {"color": colour, "linewidth": 1.1, "zorder": 2.5}
    caps: dict[str, Any] = {**style, "marker": "_" if upright else "|", "markersize": 5.0, "linestyle": "none"}
    for places, look in ((sorted([start + figure.mean, *known]), style), (known, caps)):
        across = [at] * len(places)
        if known:
            axes.plot(*((across, places) if upright else (places, across)), **look)


def _axis(axis: XAxis | YAxis, chart: Chart, *, wide: bool = False) -> None:
    which = axis.axis_name
    axis.set_label_text(_wrapped(chart.x if which == "x" else chart.y, _TITLE_CHARACTERS[which]))
    axis.grid(visible=True, color=_GRID, linewidth=0.6)
    if wide:
        axis.axes.set(**{f"{which}scale": "log"})
        axis.set_major_formatter(FuncFormatter(_plain))
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
        return
    if which == "y" or chart.form == "frontier":
        axis.axes.set(**{f"{which}lim": (0, axis.get_view_interval()[1] * _ROOM)})
    axis.set_major_locator(MaxNLocator(_TICKS))
    axis.set_major_formatter(PercentFormatter(xmax=1.0) if chart.level and which == "y" else FuncFormatter(_plain))


def _plain(value: float, _: int | None = None) -> str:
    return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"


# --- lengths ----------------------------------------------------------------------------------------------------------


def _bars(figure: Figure, chart: Chart) -> None:
    """Each bar has its name and its figure above it: names may be long, and a phone is narrow."""
    axes = figure.add_subplot()
    top = farthest = 0.0
    for row in chart.rows:
        text = f"{row.series}: {row.label}"
        if len(text) > _BAR_CHARACTERS:
            text = f"{_wrapped(f'{row.series}:', _BAR_CHARACTERS)}\n{row.label}"
        top -= _BAR_LINE * (text.count("\n") + 1) + _BAR_HEIGHT + _BAR_GAP
        middle, start = top + _BAR_GAP / 2 + _BAR_HEIGHT / 2, row.x.mean
        face: dict[str, Any] = {"facecolor": "white", "hatch": "////"} if row.hollow else {"facecolor": _BAR_COLOUR}
        axes.barh(middle, row.y.mean, left=start, height=_BAR_HEIGHT, edgecolor=_BAR_COLOUR, zorder=2, **face)
        _interval(axes, row.y, at=middle, upright=False, colour=_INK, start=start)
        place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "verticalalignment": "bottom"}
        axes.text(0.0, middle + _BAR_HEIGHT / 2 + 2.0, text, fontsize=_SMALL, **place)
        farthest = max(farthest, start + row.y.mean, start + (row.y.high or 0.0))
    _axis(axes.xaxis, chart)
    axes.set(xlim=(0.0, farthest * 1.02 or 1.0), ylim=(top, 0.0))
    axes.yaxis.set_visible(False)
    axes.spines["left"].set_visible(False)
    figure.set_size_inches(_WIDTH / _POINTS_PER_INCH, (_BARS_FRAME - top) / _POINTS_PER_INCH)


def _wrapped(text: str, characters: int) -> str:
    return "\n".join(textwrap.wrap(text, characters, break_on_hyphens=False)) or text
