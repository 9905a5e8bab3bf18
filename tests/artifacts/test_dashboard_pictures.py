# SPDX-License-Identifier: Apache-2.0
"""The renderer of the dashboards' pictures (`rendering/dashboard_pictures.py`), from answers as a Prometheus gives
them: every type of panel that a dashboard has is drawn, and what the renderer does not know is an error that names it.
"""

import copy
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import dashboard_pictures
import panel_answers
import panel_units
from gpubench_dashboards import panels

ROOM = Path(__file__).resolve().parents[2] / "dashboards"
COMMITTED = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(ROOM.glob("*.json"))}
BEGIN = 1_800_000_000.0
VIEW = panel_answers.View(begin=BEGIN, end=BEGIN + 120, step=1.0, rate_interval="10s", chosen={"benchmark": "mine"})
Json = dict[str, Any]


class Canned:
    """Answers whatever it is asked with the same two series, one of them with a gap; and keeps what it was asked."""

    def __init__(self, *, empty: bool = False) -> None:
        self.asked: list[str] = []
        self._labels = [] if empty else [{"namespace": "default", "benchmark": "mine", "rank": text} for text in "01"]

    def query(self, expression: str, *, at: float | None = None) -> list[Json]:
        assert at == VIEW.end
        self.asked.append(expression)
        return [
            {"metric": labels, "value": [at, str(0.25 * (number + 1))]} for number, labels in enumerate(self._labels)
        ]

    def query_range(self, expression: str, *, begin: float, end: float, step: float) -> list[Json]:
        assert (begin, end, step) == (VIEW.begin, VIEW.end, VIEW.step)
        self.asked.append(expression)
        there = [[BEGIN + second, str(number)] for number, second in enumerate((10, 11, 12, 50, 51))]
        return [{"metric": labels, "values": there} for labels in self._labels]

    def label_values(self, label: str, selector: str, *, begin: float, end: float) -> list[str]:
        assert (begin, end) == (VIEW.begin, VIEW.end)
        self.asked.append(f"{selector} {label}")
        return ["first", "second"]


def every_type() -> Iterator[Json]:
    """One panel of each type that the committed dashboards have."""
    found = {panel["type"]: panel for board in COMMITTED.values() for panel in board["panels"]}
    for number, panel in enumerate(found.values()):
        yield panel | {"gridPos": panel["gridPos"] | {"x": 0, "y": 10 * number}}


@pytest.fixture(scope="module")
def board() -> Json:
    return {**COMMITTED["gpubench-live"], "panels": list(every_type())}


def drawn(board: Json, source: Canned, **more: Any) -> dashboard_pictures.Made:
    return dashboard_pictures.picture(board, source, VIEW, made_from="Made of answers in a test.", **more)


def test_every_type_of_panel_that_a_dashboard_has_is_drawn(board: Json) -> None:
    assert {panel["type"] for panel in board["panels"]} == {kind.value for kind in panels.Kind}
    source = Canned()
    made = drawn(board, source)
    texts = made.paper.texts()
    assert made.without_data == ()
    assert made.paper.meeting() == []
    for panel in board["panels"]:
        assert panel["title"] in texts
    assert dashboard_pictures.NOTICE in texts
    assert "Made of answers in a test." in texts
    assert {"Preempted", "Failed", "Measured", "Started"} <= {*texts}, "the marks on the time axes"
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(source.asked) == len(queries) + len(board["annotations"]["list"])
    assert not any("$" in asked for asked in source.asked)


def test_a_picture_is_a_png_of_few_colours(board: Json) -> None:
    only = board | {"panels": [panel for panel in board["panels"] if panel["type"] == "stat"]}
    with Image.open(io.BytesIO(drawn(only, Canned()).png())) as picture:
        assert picture.format == "PNG"
        assert picture.mode == "P"
        assert picture.width > dashboard_pictures.WIDTH


def test_figures_have_their_legends_and_units() -> None:
    panel = next(one for one in COMMITTED["gpubench-study"]["panels"] if one["title"] == "Done")
    made = drawn(COMMITTED["gpubench-study"] | {"panels": [panel]}, Canned())
    assert {"of the trials", "25 %", "50 %"} <= {*made.paper.texts()}


def test_a_panel_without_data_says_so_and_why(board: Json) -> None:
    titles = [panel["title"] for panel in board["panels"]]
    made = drawn(board, Canned(empty=True), reasons={titles[0]: "needs GPUs"})
    assert made.without_data == tuple(titles)
    assert made.paper.texts().count("no data") == len(titles)
    assert made.paper.texts().count("needs GPUs") == 1


def test_a_variable_that_nobody_chose_is_everything_or_the_first_value_there_is() -> None:
    found = copy.deepcopy(COMMITTED["gpubench-live"])
    source = Canned()
    view = VIEW._replace(chosen={"trial": "abc"})
    panel = found["panels"][0] | {
        "targets": [found["panels"][0]["targets"][0] | {"expr": "$namespace $benchmark $trial"}]
    }
    made = dashboard_pictures.picture(found | {"panels": [panel]}, source, view, made_from="")
    assert ".* first abc" in source.asked
    assert {"All", "first", "abc"} <= {*made.paper.texts()}


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("type", "heatmap", "heatmap"),
        ("fieldConfig", {"defaults": {"unit": "furlongs"}, "overrides": []}, "furlongs"),
        ("transformations", [{"id": "reverse", "options": {}}], "reverse"),
    ],
)
def test_what_the_renderer_does_not_know_is_an_error_that_names_it(field: str, value: Any, named: str) -> None:
    panel = next(one for one in COMMITTED["gpubench-studies"]["panels"] if one["type"] == "table")
    with pytest.raises((panel_answers.NotDrawn, panel_units.UnknownUnit), match=f"'{named}' is none of"):
        drawn(COMMITTED["gpubench-studies"] | {"panels": [panel | {field: value}]}, Canned())


def test_every_unit_of_the_dashboards_is_known() -> None:
    written = {unit: panel_units.shown(1234.5, unit, now=0.0) for unit in panels.UNITS.values()}
    assert written["Bps"] == "1.234 kB/s"
    assert written["bytes"] == "1.206 KiB"
    assert written["s"] == "20.57 min"
    assert written["none"] == "1,234"
    assert panel_units.shown(86_400_000.0, "dateTimeFromNow", now=0.0) == "in 1 day"
    assert panel_units.shown(0.0021, "s", now=0.0) == "2.1 ms"
    assert panel_units.shown(0.00673, "none", now=0.0) == "0.00673"


def test_rows_of_several_queries_meet_by_the_labels_that_all_of_them_have() -> None:
    """An amount has its currency besides; a label that is empty in one row is not that of another one."""

    class Answers(Canned):
        def query(self, expression: str, *, at: float | None = None) -> list[Json]:
            if "spent" in expression:
                return [{"metric": {"benchmark": "a", "namespace": "n", "currency": "USD"}, "value": [at, "1.5"]}]
            series = [{"benchmark": "a", "namespace": "n"}, {"benchmark": "a"}]
            return [{"metric": labels, "value": [at, "3"]} for labels in series]

    panel = next(one for one in COMMITTED["gpubench-studies"]["panels"] if one["title"] == "All studies")
    found = panel_answers.content(panel, Answers(), VIEW)
    assert isinstance(found, panel_answers.Table)
    names = ("currency", "namespace", "benchmark", "spent", "running")
    assert [tuple(row.get(name) for name in names) for row in found.rows] == [
        ("USD", "n", "a", 1.5, 3.0),
        (None, None, "a", None, 3.0),
    ]
    assert found.columns[:4] == ("currency", "namespace", "benchmark", "done")


def test_texts_that_lie_on_each_other_are_noticed(board: Json) -> None:
    paper = drawn(board | {"panels": board["panels"][:1]}, Canned()).paper
    paper.text(30.0, 27.0, "over the title", 12.0)
    assert any("over the title" in problem for problem in paper.meeting())
