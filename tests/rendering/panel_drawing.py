# SPDX-License-Identifier: Apache-2.0
"""The panels of a dashboard on paper: lines over time, figures, bars, tables, and lines over a number.

What finds no room in a panel is counted there; in Grafana one would scroll. Colours are those of M. Okabe and K. Ito
("Color Universal Design", 2008), as in gpubench's reports.
"""

import datetime
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, MaxNLocator

import panel_units
from panel_answers import Content, Figure, Json, Line, NotDrawn, Table
from paper import EDGE, FAINT, GREY, INK, WHITE, Box, Paper

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#B8A800")
MARKERS = ("o", "v", "^", "D", "s", "P", "X", "*")
BAR = "#0072B2"
TITLE, SMALL, MIDDLE, BIG = 11.0, 9.0, 14.0, 20.0
_PAD = 9.0
_QUESTION_LINES = 2
_LINE, _LINE_STEP = 11.0, 12.0  # height of a line of small text
_HEAD, _STAT, _EMPTY = 24.0, 58.0, 42.0  # heights of a title, of figures, of the words where there are none
_LEGEND_ROWS, _LEGEND_DASH, _LEGEND_GAP = 3, 16.0, 12.0
_TICKS = 5
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
_TIME_TICK = 66.0  # pixels from one word on the time axis to the next
_AXIS_DIGITS, _AXIS_DIGITS_MOST = 3, 9
#: What numbers are counted in on an axis, where that is not ten.
_BASES = {"bytes": (2.0**40, 2.0**30, 2.0**20, 2.0**10), "s": (86400.0, 3600.0, 60.0)}
_ROW, _HEADING_LINES, _UNDER_HEADING = 17.0, 3, 5.0
_BAR_ROW, _BAR_ROW_LEAST, _BAR_HEIGHT = 27.0, 22.0, 10.0
_NEARLY = 2.0  # pixels by which the last row may be over
_MORE = 12.0  # room for the words about what found none


class Happened(NamedTuple):
    """A mark on the time axes."""

    name: str
    at: float
    colour: str


class Scene(NamedTuple):
    """What all panels of a picture share."""

    begin: float
    end: float
    step: float
    happened: Sequence[Happened] = ()


def draw(paper: Paper, box: Box, panel: Json, content: Content, scene: Scene, *, reason: str = "") -> None:
    """A panel in its place; without data it says so, with the reason if somebody knows one."""
    paper.rectangle(box, fill=WHITE, edge=EDGE, round_=3.0)
    inside = _headed(paper, box, panel)
    if is_empty(content):
        _nothing(paper, inside, reason)
        return
    _DRAWINGS[panel["type"]](paper, inside, panel, content, scene)


def is_empty(content: Content) -> bool:
    """Whether there is nothing to draw."""
    return not (content.rows if isinstance(content, Table) else content)


def needed(paper: Paper, panel: Json, content: Content, width: float, scene: Scene) -> float | None:
    """How high a panel must be to show all that it has; None where it is the better the higher it is."""
    head = _HEAD + _LINE_STEP * len(_question(paper, panel, width)) + _PAD
    if is_empty(content):
        return head + _EMPTY
    if panel["type"] == "stat":
        return head + _STAT
    if panel["type"] == "bargauge":
        return head + len(content) * _BAR_ROW
    if panel["type"] == "table" and isinstance(content, Table):
        lines = _Layout.of(paper, panel, content, width - 2 * _PAD, scene).lines
        return head + lines * _LINE + _UNDER_HEADING + len(content.rows) * _ROW
    return None


def _question(paper: Paper, panel: Json, width: float) -> list[str]:
    return paper.wrapped(panel["description"], width - 2 * _PAD, SMALL, lines=_QUESTION_LINES)


def _headed(paper: Paper, box: Box, panel: Json) -> Box:
    """Title and question; the room that is left."""
    width = box.width - 2 * _PAD
    paper.text(box.x + _PAD, box.y + 17, paper.cut(panel["title"], width, TITLE, bold=True), TITLE, bold=True)
    y = box.y + 17
    for line in _question(paper, panel, box.width):
        y += _LINE_STEP
        paper.text(box.x + _PAD, y, line, SMALL, colour=GREY)
    top = y + 7
    return Box(box.x + _PAD, top, width, box.bottom - _PAD - top)


def _nothing(paper: Paper, box: Box, reason: str) -> None:
    middle, y = box.x + box.width / 2, box.y + box.height / 2 - 2
    paper.text(middle, y, "no data", TITLE, colour=GREY, align="center")
    for number, line in enumerate(paper.wrapped(reason, box.width, SMALL, lines=2)):
        paper.text(middle, y + 14 + number * _LINE, line, SMALL, colour=GREY, align="center")


def _shown(value: float, unit: str, scene: Scene, digits: int = 4) -> str:
    return panel_units.shown(value, unit, now=scene.end, digits=digits)


def _defaults(panel: Json) -> Json:
    found: Json = panel["fieldConfig"]["defaults"]
    return found


def _unit_of(panel: Json, column: str) -> str:
    """The unit of a column: its own one, or the panel's."""
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] != {"id": "byName", "options": column}:
            continue
        for one in override["properties"]:
            if one["id"] == "unit":
                return str(one["value"])
    return str(_defaults(panel)["unit"])


# --- figures ----------------------------------------------------------------------------------------------------------


def _stat(paper: Paper, box: Box, panel: Json, figures: Sequence[Figure], scene: Scene) -> None:
    """Side by side, each under its name, as large as there is room for."""
    in_a_row = _in_a_row(paper, figures, box.width)
    rows, width = math.ceil(len(figures) / in_a_row), box.width / in_a_row
    texts = [_shown(figure.value, _defaults(panel)["unit"], scene) for figure in figures]
    largest = BIG if rows == 1 else MIDDLE
    size = largest * min(1.0, (width - 8) / max(paper.measured(text, largest) for text in texts))
    each = box.height / rows
    for number, (figure, text) in enumerate(zip(figures, texts, strict=True)):
        x, middle = box.x + number % in_a_row * width, box.y + (number // in_a_row + 0.5) * each
        paper.text(x, middle - 0.3 * largest, paper.cut(figure.name, width - 8, SMALL), SMALL, colour=GREY)
        paper.text(x, middle + 0.75 * largest, text, size)


def _in_a_row(paper: Paper, figures: Sequence[Figure], width: float) -> int:
    """All of them, or half, so that their names have room."""
    widest = max(paper.measured(figure.name, SMALL) for figure in figures) + 8
    return len(figures) if widest * len(figures) <= width else math.ceil(len(figures) / 2)


def _bars(paper: Paper, box: Box, panel: Json, figures: Sequence[Figure], scene: Scene) -> None:
    """One below the other, in the order of the answer, the largest as long as the panel allows."""
    row = min(_BAR_ROW, max(_BAR_ROW_LEAST, box.height / len(figures)))
    shown = _that_fit(figures, box.height, row)
    texts = [_shown(figure.value, _defaults(panel)["unit"], scene) for figure in shown]
    room = box.width - max(paper.measured(text, SMALL) for text in texts) - 8
    most = max(_defaults(panel).get("max", 0.0), *(figure.value for figure in figures), 0.0) or 1.0
    for number, (figure, text) in enumerate(zip(shown, texts, strict=True)):
        y = box.y + number * row + _LINE - 2
        paper.text(box.x, y, paper.cut(figure.name or panel["title"], box.width, SMALL), SMALL, colour=GREY)
        length = max(1.0, room * max(0.0, figure.value) / most)
        bar = Box(box.x, y + 3, length, min(_BAR_HEIGHT, row - _LINE - 2))
        paper.rectangle(bar, fill=BAR)
        paper.text(bar.right + 6, bar.y + bar.height / 2 + 3.3, text, SMALL)
    _and_more(paper, box, len(figures) - len(shown))


def _that_fit(rows: Sequence[Any], height: float, each: float) -> Sequence[Any]:
    """All of them, or as many as leave room to say how many are missing."""
    return rows if len(rows) * each <= height + _NEARLY else rows[: max(1, math.floor((height - _MORE) / each))]


def _and_more(paper: Paper, box: Box, count: int) -> None:
    if count > 0:
        paper.text(box.x, box.bottom + 2, f"and {count} more", SMALL, colour=GREY)


# --- tables -----------------------------------------------------------------------------------------------------------


def _table(paper: Paper, box: Box, panel: Json, table: Table, scene: Scene) -> None:
    columns, widths, headings = layout = _Layout.of(paper, panel, table, box.width, scene)
    lines = layout.lines
    top = box.y + lines * _LINE + _UNDER_HEADING
    shown = len(_that_fit(table.rows, box.bottom - top, _ROW))
    x = box.x
    for column, width, heading in zip(columns, widths, headings, strict=True):
        for number, line in enumerate(heading):
            y = box.y + (lines - len(heading) + number + 1) * _LINE - 2
            column.write(x, y, line, width, colour=GREY, bold=True)
        for number, cell in enumerate(column.cells[:shown]):
            column.write(x, top + number * _ROW + 12, paper.cut(cell, width - 8, SMALL), width)
        x += width
    for number in range(shown):
        y = top + number * _ROW
        paper.line([(box.x, y), (box.right, y)], colour=FAINT)
    _and_more(paper, box, len(table.rows) - shown)


class _Layout(NamedTuple):
    """The columns of a table, how wide they are, and their headings in lines."""

    columns: Sequence["_Column"]
    widths: Sequence[float]
    headings: Sequence[Sequence[str]]

    @classmethod
    def of(cls, paper: Paper, panel: Json, table: Table, width: float, scene: Scene) -> "_Layout":
        columns = [_Column(paper, panel, table, name, scene) for name in table.columns]
        widths = _widths([column.wanted for column in columns], [column.least for column in columns], width)
        return cls(columns, widths, [column.heading(one) for column, one in zip(columns, widths, strict=True)])

    @property
    def lines(self) -> int:
        return max(len(heading) for heading in self.headings)


class _Column:
    """One column: numbers to the right, words to the left."""

    def __init__(self, paper: Paper, panel: Json, table: Table, name: str, scene: Scene) -> None:
        unit = _unit_of(panel, name)
        found = [row.get(name) for row in table.rows]
        self._paper = paper
        self._name = name.replace("_", " ")
        self._right = name in _of_queries(panel)
        self.cells = [_shown(cell, unit, scene) if isinstance(cell, float) else cell or "" for cell in found]
        longest = max((paper.measured(word, SMALL, bold=True) for word in self._name.split()), default=0.0)
        self.least = longest + 9
        self.wanted = max(longest, *(paper.measured(cell, SMALL) for cell in self.cells)) + 9

    def heading(self, width: float) -> list[str]:
        return self._paper.wrapped(self._name, width - 8, SMALL, lines=_HEADING_LINES, bold=True)

    def write(self, x: float, y: float, text: str, width: float, *, colour: str = INK, bold: bool = False) -> None:
        align = "right" if self._right else "left"
        at = x + width - 8 if self._right else x
        self._paper.text(at, y, text, SMALL, colour=colour, bold=bold, align=align)


def _of_queries(panel: Json) -> set[str]:
    """The columns that have numbers; the others are labels."""
    return {
        called
        for step in panel["transformations"]
        if step["id"] == "organize"
        for called in step["options"]["renameByName"].values()
    }


def _widths(wanted: Sequence[float], least: Sequence[float], room: float) -> list[float]:
    """Each as wide as it wants and the rest shared; without room the widest give way first."""
    if (spare := room - sum(wanted)) >= 0:
        return [width + spare / len(wanted) for width in wanted]
    cap = max(wanted)
    while cap > 0 and sum(min(width, max(cap, low)) for width, low in zip(wanted, least, strict=True)) > room:
        cap -= 1.0
    return [min(width, max(cap, low)) for width, low in zip(wanted, least, strict=True)]


# --- lines ------------------------------------------------------------------------------------------------------------


def _over_time(paper: Paper, box: Box, panel: Json, lines: Sequence[Line], scene: Scene) -> None:
    axes, span = _axes(
        paper, box, panel, [line.name for line in lines], _span(panel, lines), scene, whole=_whole(lines)
    )
    if _defaults(panel)["custom"]["stacking"]["mode"] == "normal":
        _stacked(axes, lines)
    else:
        for number, line in enumerate(lines):
            _line(axes, line, span, colour=COLOURS[number % len(COLOURS)], step=scene.step)
    for one in scene.happened:
        axes.axvline(one.at, color=one.colour, linewidth=0.7, linestyle=(0, (3, 3)), alpha=0.55, zorder=1)
        axes.plot(
            [one.at], [0], marker="^", markersize=4.5, color=one.colour, clip_on=False, zorder=5,
            transform=axes.get_xaxis_transform(), markeredgewidth=0,
        )  # fmt: skip
    axes.set_xlim(scene.begin, scene.end)
    axes.set_ylim(*span)
    ticks = axes.get_position().width * paper.width / _TIME_TICK
    step = next((one for one in _TIME_STEPS if (scene.end - scene.begin) / one <= ticks), _TIME_STEPS[-1])
    moments = [float(at) for at in range(math.ceil(scene.begin / step) * step, math.floor(scene.end) + 1, step)]
    clock = "%H:%M:%S" if step % 60 else "%H:%M"
    axes.xaxis.set_major_locator(FixedLocator(moments))
    axes.set_xticklabels([datetime.datetime.fromtimestamp(at, tz=datetime.UTC).strftime(clock) for at in moments])


def _line(axes: Axes, line: Line, span: tuple[float, float], *, colour: str, step: float) -> None:
    """With a gap where nothing was seen, and a dot for what stands alone.

    Along an end of the axis it has its whole width; what goes beyond the end is cut there, as in Grafana.
    """
    clip = not all(span[0] <= value <= span[1] for _, value in line.points)
    pieces: list[list[tuple[float, float]]] = []
    for at, value in line.points:
        if not pieces or at - pieces[-1][-1][0] > 1.5 * step:
            pieces.append([])
        pieces[-1].append((at, value))
    for piece in pieces:
        marker: dict[str, Any] = {"marker": "o", "markersize": 3.0} if len(piece) == 1 else {}
        moments, values = zip(*piece, strict=True)
        axes.plot(moments, values, color=colour, linewidth=1.2, zorder=3, clip_on=clip, **marker)


def _stacked(axes: Axes, lines: Sequence[Line]) -> None:
    """One upon the other; what is not there adds nothing."""
    moments = sorted({at for line in lines for at, _ in line.points})
    below = [0.0] * len(moments)
    for number, line in enumerate(lines):
        values = dict(line.points)
        if not any(values.values()):
            continue  # its line would hide the one below
        above = [low + values.get(at, 0.0) for at, low in zip(moments, below, strict=True)]
        colour = COLOURS[number % len(COLOURS)]
        axes.fill_between(moments, below, above, color=colour, alpha=0.3, linewidth=0, zorder=2)
        axes.plot(moments, above, color=colour, linewidth=1.2, zorder=3)
        below = above


def _span(panel: Json, lines: Sequence[Line]) -> tuple[float, float]:
    if _defaults(panel)["custom"].get("stacking", {}).get("mode") == "normal":
        sums: dict[float, float] = {}
        for line in lines:
            for at, value in line.points:
                sums[at] = sums.get(at, 0.0) + value
        return _ends(panel, [0.0, *sums.values()])
    return _ends(panel, [value for line in lines for _, value in line.points])


def _ends(panel: Json, values: Sequence[float]) -> tuple[float, float]:
    """What the panel says, or a little more than there is."""
    low, high = float(_defaults(panel).get("min", min(values))), max(values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low = low if low == 0 or "min" in _defaults(panel) else low - room
    return low, max(_defaults(panel).get("max", high + room), low + 1e-12)


def _trend(paper: Paper, box: Box, panel: Json, table: Table, scene: Scene) -> None:
    """Lines over a number, with a mark at each row; the axis has the number's name."""
    over = panel["options"]["xField"]
    if over not in table.columns:
        raise NotDrawn(f"panel {panel['title']!r}: its xField {over!r} is none of {', '.join(table.columns)}")
    named = [name for name in table.columns if name != over]
    lines = [Line(name, _points(table, over, name)) for name in named]
    there = [line for line in lines if line.points]
    axes, span = _axes(
        paper, box, panel, [line.name for line in there], _span(panel, there), scene, whole=_whole(there), over=over
    )
    for number, line in enumerate(there):
        last = number == len(there) - 1 and number > 0
        axes.plot(
            [x for x, _ in line.points], [y for _, y in line.points], color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[number % len(MARKERS)], markersize=9.0 if last else 5.5, linewidth=1.4,
            markerfacecolor="none" if last else COLOURS[number % len(COLOURS)], zorder=4,
        )  # fmt: skip
    axes.set_ylim(*span)
    across = [x for line in there for x, _ in line.points]
    low, high = min(across), max(across)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    axes.set_xlim(low - room, high + room)
    ticks = _ticks(_unit_of(panel, over), (low - room, high + room), whole=all(x.is_integer() for x in across))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.set_xticklabels(_labels(ticks, _unit_of(panel, over), scene))
    bottom = (1 - axes.get_position().y0) * paper.height
    right = axes.get_position().x1 * paper.width
    paper.text(right, bottom + 2 * _LINE + 6, over, SMALL, colour=GREY, align="right")


def _points(table: Table, over: str, name: str) -> tuple[tuple[float, float], ...]:
    return tuple((float(row[over]), float(row[name])) for row in table.rows if over in row and name in row)


def _axes(
    paper: Paper,
    box: Box,
    panel: Json,
    names: Sequence[str],
    span: tuple[float, float],
    scene: Scene,
    *,
    whole: bool,
    over: str = "",
) -> tuple[Axes, tuple[float, float]]:
    """Axes with their legend below, as wide as the words at the ticks leave room for; `over` names what is not time."""
    unit = _defaults(panel)["unit"]
    ticks = _ticks(unit, span, whole=whole)
    labels = _labels(ticks, unit, scene)
    left = max((paper.measured(label, SMALL) for label in labels), default=0.0) + 7
    rows = _legend_rows(paper, names, box.width)
    below = len(rows) * (_LINE + 1) + 21 + (_LINE if over else 0)
    axes = paper.axes(Box(box.x + left, box.y + 3, box.width - left - 16, box.height - below - 3))
    axes.set_facecolor("none")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(EDGE)
    axes.set_axisbelow(True)
    axes.grid(visible=True, axis="y", color=FAINT, linewidth=0.8)
    axes.tick_params(length=0, labelsize=SMALL, labelcolor=GREY, pad=4)
    axes.tick_params(axis="x", pad=7)  # clear of the word at the lower end of the other axis
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.set_yticklabels(labels)
    _legend(paper, Box(box.x, box.bottom - len(rows) * (_LINE + 1), box.width, 0), rows, markers=bool(over))
    return axes, span


def _ticks(unit: str, span: tuple[float, float], *, whole: bool) -> list[float]:
    """At round numbers of the unit that they are written in: half hours, not thousands of seconds."""
    most = max(abs(end) for end in span)
    base = next((size for size in _BASES.get(unit, ()) if most >= 2 * size), 1.0)
    locator = MaxNLocator(_TICKS, steps=(1, 2, 2.5, 5, 10), integer=whole)
    found = [tick * base for tick in locator.tick_values(span[0] / base, span[1] / base)]
    return [tick for tick in found if span[0] <= tick <= span[1] + 1e-9 * most]


def _labels(ticks: Sequence[float], unit: str, scene: Scene) -> list[str]:
    """With as many digits as tell one tick from the next."""
    digits = range(_AXIS_DIGITS, _AXIS_DIGITS_MOST + 1)
    found = ([_shown(tick, unit, scene, count) for tick in ticks] for count in digits)
    return next((labels for labels in found if len({*labels}) == len(labels)), [f"{tick:g}" for tick in ticks])


def _whole(lines: Sequence[Line]) -> bool:
    """Whether there is nothing between two whole numbers."""
    return all(value.is_integer() for line in lines for _, value in line.points)


def _legend_rows(paper: Paper, names: Sequence[str], width: float) -> list[list[tuple[int, str]]]:
    """Names with the numbers of their lines, in rows; what finds no room is counted."""
    rows: list[list[tuple[int, str]]] = [[]]
    used = 0.0
    for number, name in enumerate(names):
        text = paper.cut(name, width - _LEGEND_DASH, SMALL)
        needed = _LEGEND_DASH + paper.measured(text, SMALL) + _LEGEND_GAP
        if rows[-1] and used + needed - _LEGEND_GAP > width:
            if len(rows) == _LEGEND_ROWS:
                left_out = len(names) - number + 1
                rows[-1][-1] = (-1, f"and {left_out} more")
                return rows
            rows.append([])
            used = 0.0
        rows[-1].append((number, text))
        used += needed
    return rows


def _legend(paper: Paper, box: Box, rows: Sequence[Sequence[tuple[int, str]]], *, markers: bool) -> None:
    for at, row in enumerate(rows):
        x, y = box.x, box.y + (at + 1) * (_LINE + 1) - 2
        for number, text in row:
            if number >= 0:
                colour = COLOURS[number % len(COLOURS)]
                marker = (
                    {"marker": MARKERS[number % len(MARKERS)], "markersize": 4.5, "markevery": [1]} if markers else {}
                )
                ends = [(x, y - 3), (x + 5.5, y - 3), (x + 11, y - 3)]
                paper.line(ends, colour=colour, linewidth=1.8, **marker)
                x += _LEGEND_DASH
            paper.text(x, y, text, SMALL)
            x += paper.measured(text, SMALL) + _LEGEND_GAP


_DRAWINGS: Mapping[str, Callable[..., None]] = {
    "timeseries": _over_time,
    "stat": _stat,
    "bargauge": _bars,
    "table": _table,
    "trend": _trend,
}
