# SPDX-License-Identifier: Apache-2.0
"""`gpubench history`: runs that are kept, as a table, as data and as a page; of benchmarks that are long gone."""

import csv
import io
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import histories
import terminals
from command_line import called as command
from gpubench import names
from gpubench.api.condition import Condition
from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus, KeyChange, Monthly, SlowNode
from gpubench.report import schedule_page
from gpubench.report.charts import Chart
from gpubench.report.document import Paragraph
from gpubench.report.tables import Table
from gpubench.schedule import history as schedule_history
from gpubench.schedule import runs as schedule_runs
from gpubench.schedule.history import Entry
from gpubench.schedule.runs import Decision
from gpubench.units import rfc3339
from gpubench_cli import schedule
from gpubench_cli.cluster import Cluster
from gpubench_cluster import kube

SPEC = GpuBenchmarkScheduleSpec.model_validate(
    {
        "schedule": "0 * * * *",
        "benchmarkTemplate": {
            "spec": {"sweep": [{"workloads": ["trivial"], "pools": ["p"], "workers": [1], "batchPerWorker": [1]}]}
        },
    }
)
SPEEDS = [1000.0, 1003, 997, 1001, 999, 1002, 998, 1000, 1001, 800, 803, 799, 801]


def entries() -> list[Entry]:
    found = histories.of_speeds(SPEEDS, nodes=["node-a"] * len(SPEEDS))
    facts = EnvironmentFacts(environment="key", driver="550")
    return [entry.model_copy(update={"environments": (facts,), "spent": "0.01", "currency": "USD"}) for entry in found]


class Kept(Cluster):
    """A cluster that has one schedule, as its API server answers."""

    namespace = "default"

    def __init__(self, found: list[Entry]) -> None:
        self.entries = found
        self.asked: dict[str, Any] = {}

    def listed(self, resource: kube.Resource, **asked: Any) -> tuple[dict[str, Any], ...]:
        assert resource == kube.CONFIG_MAPS
        self.asked = asked
        return ({"data": {entry.name: entry.to_text() for entry in self.entries}},)

    def named(self, resource: kube.Resource, name: str) -> dict[str, Any]:
        assert (resource, name) == (kube.SCHEDULES, "nightly")
        series = schedule_history.series(self.entries, SPEC.regressions)
        made = schedule_runs.status(
            SPEC, Decision(), self.entries, series=series, monthly=None, generation=1, now=histories.BEGIN
        )
        return {"metadata": {"name": "nightly", "uid": "the-uid"}, "status": made.to_wire()}


def shown(place: Kept, capsys: pytest.CaptureFixture[str], **options: Any) -> str:
    schedule.show(place, "nightly", **options)
    return capsys.readouterr().out


def test_the_table_has_each_run_newest_first_and_what_became_slower(capsys: pytest.CaptureFixture[str]) -> None:
    found = entries()
    out = shown(Kept(found), capsys)
    assert "none of them" not in out
    assert out.index(found[-1].name) < out.index(found[0].name, out.index("RUN"))
    assert "times the speed of before since" in out
    assert found[9].name in out.splitlines()[0]


@pytest.mark.parametrize("columns", terminals.WIDTHS)
def test_the_table_fits_into_a_terminal(columns: int, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Kept(entries())
    terminals.judge(lambda: schedule.show(kept, "nightly"), shown(kept, capsys), columns=columns)


def test_the_wide_table_is_as_wide_as_it_is() -> None:
    kept = Kept(entries())
    narrow, wide = (
        terminals.shown(partial(schedule.show, kept, "nightly", output=output), columns=60)
        for output in ("table", "wide")
    )
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))


def test_a_name_alone_is_that_of_a_schedule(tmp_path: Path) -> None:
    ended = command("history", "nightly", environment={"KUBECONFIG": str(tmp_path / "none")})
    assert ended.stderr.startswith("gpubench: no cluster is configured")


def test_only_the_schedules_own_history_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    place = Kept(entries())
    shown(place, capsys)
    assert place.asked["namespace"] == "default"
    assert place.asked["labels"] == {names.LABEL_SCHEDULE_UID: "the-uid", names.LABEL_COMPONENT: "history"}


def test_json_has_everything(capsys: pytest.CaptureFixture[str]) -> None:
    found = entries()
    document = json.loads(shown(Kept(found), capsys, output="json"))
    assert [run["name"] for run in document["runs"]] == [entry.name for entry in found]
    assert document["status"]["regressions"][0]["run"] == found[9].name
    assert (document["name"], document["namespace"], document["uid"]) == ("nightly", "default", "the-uid")


def test_csv_has_each_figure_with_what_it_stands_on(capsys: pytest.CaptureFixture[str]) -> None:
    without = entries()[0].model_copy(update={"figures": (), "succeeded": False})
    found = [without, *entries()[1:]]
    rows = list(csv.DictReader(io.StringIO(shown(Kept(found), capsys, output="csv"))))
    assert [row["run"] for row in rows] == [entry.name for entry in found]
    assert {(row["schedule"], row["namespace"], row["schedule_uid"]) for row in rows} == {
        ("nightly", "default", "the-uid")
    }
    assert (rows[0]["succeeded"], rows[0]["mean"], rows[0]["point"]) == ("False", "", "")
    assert [float(row["mean"]) for row in rows[1:]] == SPEEDS[1:]
    last = rows[-1]
    assert (last["environment"], last["nodes"], last["spent"], last["low"]) == ("key", "node-a", "0.01", "")
    assert (last["due"], last["quantity"]) == (rfc3339(found[-1].scheduled_at), "Throughput")


def test_a_schedule_without_runs_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no run has finished yet" in shown(Kept([]), capsys)


def test_the_page_has_a_plot_for_each_point_and_markdown_its_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    html, text = tmp_path / "history.html", tmp_path / "history.md"
    shown(Kept(entries()), capsys, out=html, markdown=text)
    assert html.read_text().count("<img") == 1
    assert "http://" not in html.read_text().replace("http://www.w3.org", "")
    assert "What has changed" in text.read_text()
    assert "| 1000 samples/s |" in text.read_text()


def test_runs_of_two_environments_are_two_lines() -> None:
    two = [
        entry.model_copy(
            update={"figures": tuple(one.model_copy(update={"environment": key}) for one in entry.figures)}
        )
        for entry, key in zip(entries(), ["old"] * 6 + ["new"] * 7, strict=True)
    ]
    shown_of = schedule_page.document("nightly", two, GpuBenchmarkScheduleStatus(), source="here")
    (chart,) = shown_of.sections[-1].blocks
    assert isinstance(chart, Chart)
    assert len({row.series for row in chart.rows}) == 2


@pytest.mark.parametrize(("quantity", "what"), [("Throughput", "Samples per second"), ("Seconds", "Seconds")])
def test_the_page_says_of_each_run_what_it_measured_and_when(quantity: str, what: str) -> None:
    measured = histories.entry(1, [histories.figure(12.0, quantity=quantity, low=11.0, high=13.0, nodes=["node-a"])])
    failed = histories.entry(25, []).model_copy(update={"succeeded": False, "spent": "0.01", "currency": "USD"})
    again = histories.entry(25, [histories.figure(13.0, quantity=quantity, environment=None)])
    found = schedule_page.document("nightly", [measured, failed, again], GpuBenchmarkScheduleStatus(), source="here")
    assert (found.title, found.lead) == ("History of nightly", "3 runs of the schedule nightly, here.")
    assert [(one.name, one.title) for one in found.sections] == [
        ("verdict", "What has changed"), ("runs", "Runs"), ("charts", "Over time"),
    ]  # fmt: skip
    (table,), (chart,) = (one.blocks for one in found.sections[1:])
    assert isinstance(table, Table)
    assert [(column.title, column.numeric) for column in table.columns] == [
        ("RUN", False), ("DUE", False), ("STATE", False), ("POINT", False),
        ("FIGURE", True), ("NODES", False), ("ENVIRONMENT", False), ("SPENT", True),
    ]  # fmt: skip
    unit = "s" if quantity == "Seconds" else "samples/s"
    due, then, one = "2026-11-03T01:00:00Z", "2026-11-02T01:00:00Z", "resnet50 on one"
    assert table.rows == (
        (again.name, due, "Succeeded", one, f"13 {unit}", "–", "–", "–"),
        (failed.name, due, "Failed", "–", "–", "–", "–", "USD 0.01"),
        (measured.name, then, "Succeeded", one, f"12 {unit}", "node-a", "key", "–"),
    )
    assert isinstance(chart, Chart)
    assert (chart.title, chart.x, chart.y) == ("resnet50 on one", "Days since 2026-11-02T01:00:00Z", what)
    assert chart.description.startswith(f"{what} of each run, ")
    assert [(row.series, row.x.mean, row.y.mean, row.y.low) for row in chart.rows] == [
        ("key", 0.0, 12.0, 11.0), ("unknown environment", 1.0, 13.0, None),
    ]  # fmt: skip


def test_a_point_that_never_settled_is_in_the_table_and_not_drawn() -> None:
    figures = [histories.figure(12.0), histories.figure(14.0, point="two", settled=False)]
    found = schedule_page.document("s", [histories.entry(1, figures)], GpuBenchmarkScheduleStatus(), source="here")
    (table,), (chart,) = (one.blocks for one in found.sections[1:])
    assert isinstance(table, Table)
    assert [row[3:5] for row in table.rows] == [
        ("resnet50 on one", "12 samples/s"), ("resnet50 on two", "14 samples/s, never settled"),
    ]  # fmt: skip
    assert chart.title == "resnet50 on one"


def test_the_page_lists_all_that_has_changed() -> None:
    change = KeyChange(since="2026-11-02T00:00:00Z", run="nightly-1", sentence="driver 550 -> 560")
    node = SlowNode(node="n", pool="p", speed=0.8, nodes=4, sentence="n has 0.8 times the speed of the others")
    over = {"last_transition_time": "2026-11-02T00:00:00Z", "reason": "x", "status": "True"}
    conditions = [
        Condition.model_validate({"type": name, "message": f"{name} it is", **over}) for name in ("Ready", "Regressed")
    ]
    slower = schedule_history.series(entries(), SPEC.regressions)
    regressions = schedule_history.regressions(slower)
    status = GpuBenchmarkScheduleStatus(
        conditions=tuple(conditions), regressions=regressions, slow_nodes=(node,), key_changes=(change,)
    )
    verdict = schedule_page.document("nightly", entries(), status, source="here").sections[0]
    assert verdict.blocks == (
        Paragraph(items=("Regressed it is",)),
        Paragraph(title="Slower than it was", items=tuple(one.sentence for one in regressions)),
        Paragraph(title="Slow nodes", items=(node.sentence,)),
        Paragraph(title="Other environments", items=("driver 550 -> 560, since 2026-11-02T00:00:00Z (nightly-1)",)),
    )
    assert regressions
    monthly = Monthly(hours=730, runs="730", shown="USD 12", sentence="730 runs")
    of_money = GpuBenchmarkScheduleStatus(monthly=monthly)
    (_, month) = schedule_page.document("nightly", [], of_money, source="here").sections[0].blocks
    assert month == Paragraph(title="A month", text="USD 12: 730 runs")
    nothing = schedule_page.document("nightly", [], GpuBenchmarkScheduleStatus(), source="here").sections
    assert nothing[0].blocks == (Paragraph(text="Nothing is known yet."),)
    assert [one.name for one in nothing] == ["verdict", "runs"], "and no chart"


# --- series of one's own ----------------------------------------------------------------------------------------------


def judged(folder: Path, rows: str, *options: str) -> tuple[int, str, str]:
    (folder / "own.csv").write_text(rows, encoding="utf-8")
    return command("history", "judge", str(folder / "own.csv"), *options)


def series_of(values: Sequence[float], *, more: str = "") -> str:
    rows = [f"2026-11-{1 + at // 24:02d}T{at % 24:02d}:00:00Z,{value}{more}" for at, value in enumerate(values)]
    return "\n".join(rows) + "\n"


def test_a_series_of_ones_own_is_judged_as_a_schedule_is(tmp_path: Path) -> None:
    values = [100 + at % 3 for at in range(20)], [88 + at % 3 for at in range(10)], [100 + at % 3 for at in range(10)]
    code, out, _ = judged(tmp_path, "time,value\n" + series_of([*values[0], *values[1]]))
    assert code == 1
    assert out == ("run 23 (2026-11-01T22:00:00Z): slower since run 21 (2026-11-01T20:00:00Z): 0.881 times\n30 runs\n")
    code, out, _ = judged(tmp_path, "time,value\n" + series_of([at for part in values for at in part]))
    assert (code, out.splitlines()[1:]) == (0, ["run 34 (2026-11-02T09:00:00Z): healed", "40 runs"])


def test_of_seconds_less_is_better_and_each_environment_is_a_series(tmp_path: Path) -> None:
    values = [10 + at % 3 / 10 for at in range(20)] + [12 + at % 3 / 10 for at in range(10)]
    rows = "time,value,environment\n" + series_of(values, more=",old") + series_of(values[:5], more=",new")
    code, out, _ = judged(tmp_path, rows, "--lower")
    assert code == 1
    assert out.splitlines()[0] == "new: 5 runs, too few for a verdict: 9 are needed"
    assert out.splitlines()[1].startswith("old: run 23 (2026-11-01T22:00:00Z): slower since run 21 ")
    assert judged(tmp_path, rows)[0] == 0, "more is better: it has become faster"


def test_a_run_is_held_against_those_on_its_own_node(tmp_path: Path) -> None:
    """One node has half the speed of the other: where nobody says which run was on which, that hides a slow-down."""
    usual = [(50 if at % 2 else 100) + at // 2 % 3 for at in range(40)]
    values = [speed * 0.9 if at >= 30 else speed for at, speed in enumerate(usual)]
    rows = series_of(values).splitlines()
    with_nodes = "".join(f"{row},{'ab'[at % 2]}\n" for at, row in enumerate(rows))
    assert judged(tmp_path, "time,value\n" + series_of(values))[0] == 0
    code, out, _ = judged(tmp_path, "time,value,node\n" + with_nodes)
    assert (code, "slower since run 31 (" in out) == (1, True)


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("when,value\n1,2\n", "it has no column time: the first row names time, value, environment, node, with commas"),
        ("time,value\n1,0\n", "own.csv:2: value is '0': write a number above 0"),
        ("time,value\n1,nan\n", "own.csv:2: value is 'nan': write a number above 0"),
        (
            "time,value\nyesterday,1\n",
            "own.csv:2: time is 'yesterday': write 2026-11-01T10:00:00Z, or seconds since 1970",
        ),
        ("time,value\n,1\n", "own.csv:2: time is ''"),
        ("time,value\n1\n", "own.csv:2: value is None"),
        ("time,value\n1793577600000,1\n", "own.csv:2: time is '1793577600000'"),
        ("time;value\n1;2\n", "with commas"),
        (f'time,value\n1,"{"9" * 200_000}"\n', "it cannot be read as CSV"),
        ("", "it has no column time"),
    ],
)
def test_a_series_that_cannot_be_read_is_a_sentence(tmp_path: Path, rows: str, sentence: str) -> None:
    code, out, err = judged(tmp_path, rows)
    assert (code, out) == (2, "")
    assert sentence in err


class Accepting(Kept):
    """And takes annotations."""

    annotated: tuple[str, dict[str, str]] | None = None

    def change(self, resource: kube.Resource, name: str, body: dict[str, Any]) -> dict[str, Any]:
        assert resource == kube.SCHEDULES
        self.annotated = (name, body["metadata"]["annotations"])
        return body


def test_what_is_slower_is_accepted_by_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    place, healthy = Accepting(entries()), Accepting(entries()[:9])
    schedule.accept_slower(place, "nightly")
    newest = entries()[-1].finished_at
    assert place.annotated == ("nightly", {names.ANNOTATION_ACCEPTED: rfc3339(newest)}), "not by this machine's clock"
    assert capsys.readouterr().out.startswith("accepted: resnet50 on one has 0.8")
    schedule.accept_slower(healthy, "nightly")
    assert "calls none of its points slower" in capsys.readouterr().err
    assert healthy.annotated is None
