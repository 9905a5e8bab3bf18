# SPDX-License-Identifier: Apache-2.0
"""A picture of a dashboard: the queries of its JSON asked of a Prometheus, its panels drawn in their places.

It is no Grafana, and says so. What a reader of the picture should see is what the dashboard asks and what comes back:
titles, questions, units, legends, marks on the time axes. Must not happen: a panel that is left out without a word.
"""

import datetime
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import panel_answers
import panel_drawing
from panel_answers import Content, Json, NotDrawn, Source, View
from panel_drawing import SMALL, Happened, Scene
from paper import GREY, Box, Paper

NOTICE = "Rendered by gpubench's own renderer from a Prometheus beside a real study; not Grafana."
WIDTH = 1000.0
_SCALE = 1.7  # of the picture: letters are sharp at the width of a page
_MARGIN, _GAP = 14.0, 6.0
_COLUMNS = 24
_UNIT = 31.0  # height of one row of the grid
_HEAD = 88.0
_FOOT, _FOOT_LINE, _FOOT_LINES = 14.0, 12.0, 2
#: Grafana's names of colours, of which marks use these.
_MARKS: Mapping[str, str] = {"orange": "#E69F00", "red": "#D55E00", "green": "#009E73", "blue": "#0072B2"}


class Made(NamedTuple):
    """A picture before it is written, and what was asked."""

    paper: Paper
    without_data: tuple[str, ...]

    def png(self) -> bytes:
        return self.paper.png(scale=_SCALE)


def picture(
    board: Json, source: Source, view: View, *, made_from: str, reasons: Mapping[str, str] | None = None
) -> Made:
    """A dashboard over the range of the view; `reasons` tells by the title why a panel has no data."""
    view, variables = _chosen(board, source, view)
    marks = tuple(_happened(board, source, view))
    scene = Scene(begin=view.begin, end=view.end, step=view.step, happened=marks)
    contents = [(panel, panel_answers.content(panel, source, view)) for panel in board["panels"]]
    places = _places(contents, scene)
    foot = Paper(WIDTH, _FOOT).wrapped(made_from, WIDTH - 2 * _MARGIN, SMALL, lines=_FOOT_LINES)
    paper = Paper(WIDTH, max(place.bottom for place in places) + len(foot) * _FOOT_LINE + _FOOT)
    _head(paper, board, view, variables, marks)
    for (panel, content), place in zip(contents, places, strict=True):
        reason = (reasons or {}).get(panel["title"], "")
        panel_drawing.draw(paper, place, panel, content, scene, reason=reason)
    for number, line in enumerate(reversed(foot)):
        paper.text(_MARGIN, paper.height - 10 - number * _FOOT_LINE, line, SMALL, colour=GREY)
    return Made(paper, tuple(panel["title"] for panel, content in contents if panel_drawing.is_empty(content)))


def _places(contents: Sequence[tuple[Json, Content]], scene: Scene) -> list[Box]:
    """As in the grid; a row of panels is no higher than what they show, so that there is little white."""
    ruler = Paper(WIDTH, _FOOT)
    column = (WIDTH - 2 * _MARGIN + _GAP) / _COLUMNS
    heights: dict[int, float] = {}
    for panel, content in contents:
        grid = panel["gridPos"]
        most = grid["h"] * _UNIT - _GAP
        asked = panel_drawing.needed(ruler, panel, content, grid["w"] * column - _GAP, scene)
        heights[grid["y"]] = max(heights.get(grid["y"], 0.0), most if asked is None else min(most, asked))
    tops: dict[int, float] = {}
    top = _HEAD
    for row in sorted(heights):
        tops[row] = top
        top += heights[row] + _GAP
    return [
        Box(_MARGIN + grid["x"] * column, tops[grid["y"]], grid["w"] * column - _GAP, heights[grid["y"]])
        for grid in (panel["gridPos"] for panel, _ in contents)
    ]


def _chosen(board: Json, source: Source, view: View) -> tuple[View, list[tuple[str, str]]]:
    """Each variable has what the reader chose, or everything, or the first value that there is."""
    chosen: dict[str, str] = {}
    shown = []
    for variable in board["templating"]["list"]:
        if variable["type"] == "datasource":
            continue
        if variable["type"] != "query":
            raise NotDrawn(f"variable {variable['name']!r}: type {variable['type']!r} is not query: add it here")
        value = view.chosen.get(variable["name"])
        if value is None and not variable["includeAll"]:
            value = _first_value(variable, source, view._replace(chosen=chosen))
        chosen[variable["name"]] = value or variable.get("allValue", ".*")
        shown.append((variable["label"], value or "All"))
    return view._replace(chosen=chosen), shown


def _first_value(variable: Json, source: Source, view: View) -> str | None:
    selector, label = variable["definition"].removeprefix("label_values(").removesuffix(")").rsplit(", ", 1)
    found = source.label_values(label, view.substituted(selector), begin=view.begin, end=view.end)
    return found[0] if found else None


def _happened(board: Json, source: Source, view: View) -> Iterator[Happened]:
    """Each moment at which what a mark looks at grows: something has been added to a count.

    Without its `> 0` the expression tells a count that has not grown from one that was not seen for a while.
    """
    for mark in board["annotations"]["list"]:
        count, above_zero, rest = view.substituted(mark["expr"]).rpartition(" > 0")
        if not above_zero or rest:
            raise NotDrawn(f"mark {mark['name']!r}: its expression does not end with > 0: add its way here")
        for series in source.query_range(count, begin=view.begin, end=view.end, step=view.step):
            for (_, before), (at, value) in itertools.pairwise(series["values"]):
                if float(value) > float(before):
                    yield Happened(mark["name"], float(at), _MARKS[mark["iconColor"]])


def _head(paper: Paper, board: Json, view: View, variables: list[tuple[str, str]], marks: tuple[Happened, ...]) -> None:
    """Title, what this picture is, what was chosen, and what the marks are."""
    room = WIDTH - 2 * _MARGIN
    paper.text(_MARGIN, 27, board["title"], 16.0, bold=True)
    x = _MARGIN + paper.measured(board["title"], 16.0, bold=True) + 12
    paper.text(x, 27, paper.cut(board["description"], WIDTH - _MARGIN - x, 10.0), 10.0, colour=GREY)
    paper.rectangle(Box(_MARGIN, 37, room - 0.5, 20), fill="#fff4d6", edge="#e0b84c", round_=3.0)
    paper.text(_MARGIN + 9, 50.5, NOTICE, 10.0, bold=True)
    y = 74.0
    begin, end = (datetime.datetime.fromtimestamp(at, tz=datetime.UTC) for at in (view.begin, view.end))
    words = [*variables, ("Range", f"{begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S} UTC")]
    x = _MARGIN
    for name, value in words:
        paper.text(x, y, name, SMALL, colour=GREY)
        x += paper.measured(name, SMALL) + 4
        paper.text(x, y, value, SMALL, bold=True)
        x += paper.measured(value, SMALL, bold=True) + 16
    right = WIDTH - _MARGIN
    for name, colour in reversed(dict.fromkeys((mark.name, mark.colour) for mark in marks)):
        right -= paper.measured(name, SMALL)
        paper.text(right, y, name, SMALL)
        paper.line([(right - 8, y - 3)], colour=colour, marker="^", markersize=6.0, markeredgewidth=0)
        right -= 24
