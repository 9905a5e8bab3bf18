# SPDX-License-Identifier: Apache-2.0
"""The committed dashboards: every expression is one, every metric and label is in the catalogue, every panel has a
question, a place, a unit and no data source by name. What Grafana makes of them is in test_grafana.py.
"""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard as grafana

import prometheus_server
import promql_labels
from gpubench import metrics
from gpubench_dashboards import alerts, boards, build, rules

ROOM = Path(__file__).resolve().parents[2] / "dashboards"
COMMITTED = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(ROOM.glob("*.json"))}
Json = dict[str, Any]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[prometheus_server.Prometheus]:
    """That scrapes nothing: it reads expressions."""
    with prometheus_server.running(tmp_path_factory.mktemp("prometheus"), {}) as running:
        yield running


def panels(name: str) -> list[Json]:
    """All that ask something, those of folded rows too."""
    found: list[Json] = []
    for panel in COMMITTED[name]["panels"]:
        found += panel["panels"] if panel["type"] == "row" else [panel]
    return found


def everywhere(found: object, key: str) -> Iterator[Any]:
    """All values of a key, however deep."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == key:
                yield value
            yield from everywhere(value, key)
    elif isinstance(found, list):
        for value in found:
            yield from everywhere(value, key)


def test_the_five_dashboards_are_committed() -> None:
    assert COMMITTED.keys() == {board.uid for board in boards.DASHBOARDS}
    for name, found in COMMITTED.items():
        assert found["uid"] == name
        assert "id" not in found, "Grafana gives it"
    assert len({found["title"] for found in COMMITTED.values()}) == len(boards.DASHBOARDS) == 5


@pytest.mark.parametrize("name", ["gpubench-studies", "gpubench-study"])
def test_tables_and_single_values_show_benchmarks_whose_series_have_ended(name: str) -> None:
    at_once = [panel for panel in panels(name) if panel["type"] != "timeseries"]
    asked = [target["expr"] for panel in at_once for target in panel["targets"] if "benchmark=~" in target["expr"]]
    assert len(asked) > 10
    of_now = [one for one in asked if "last_over_time" not in one]
    assert all('state="running"' in one or 'state="waiting"' in one for one in of_now), of_now


@pytest.mark.parametrize("name", COMMITTED)
def test_every_expression_is_one_and_every_metric_and_label_in_the_catalogue(
    name: str, prometheus: prometheus_server.Prometheus
) -> None:
    known = promql_labels.catalogue()
    asked = 0
    for panel in panels(name):
        result: set[str] = set()
        for target in panel["targets"]:
            labels = promql_labels.of(prometheus.parsed(promql_labels.substituted(target["expr"])), known)
            assert promql_labels.in_legend(target["legendFormat"]) <= labels, (panel["title"], target["legendFormat"])
            result |= labels
            asked += 1
        if panel["type"] == "table":
            shown = next(step for step in panel["transformations"] if step["id"] == "filterFieldsByName")
            columns = {name for name in shown["options"]["include"]["names"] if not name.startswith("Value")}
            assert columns <= result, panel["title"]
    for mark in COMMITTED[name]["annotations"]["list"]:
        labels = promql_labels.of(prometheus.parsed(promql_labels.substituted(mark["expr"])), known)
        assert promql_labels.in_legend(mark["textFormat"]) <= labels
    assert asked


def test_every_label_of_a_recording_rule_is_stated(prometheus: prometheus_server.Prometheus) -> None:
    known = promql_labels.catalogue()
    for rule in rules.RULES:
        assert promql_labels.of(prometheus.parsed(rule.expr), known) == set(rule.labels), rule.record
        level, metric, operation = rule.record.split(":")
        assert level
        assert operation
        assert metric.startswith("gpubench_")


def test_every_alert_names_labels_that_it_has(prometheus: prometheus_server.Prometheus) -> None:
    known = promql_labels.catalogue()
    for alert in alerts.ALERTS:
        labels = promql_labels.of(prometheus.parsed(alert.expr), known)
        for text in (alert.summary, alert.description):
            named = {part.split("}")[0].strip() for part in text.split("$labels.")[1:]}
            assert named <= labels, (alert.name, text)


def test_a_label_that_no_series_has_is_noticed(prometheus: prometheus_server.Prometheus) -> None:
    known = promql_labels.catalogue()
    for wrong in (
        "gpubench_no_such_metric",
        'gpubench_trials{phase="running"}',
        "sum by (rank) (gpubench_trials)",
        "gpubench_spent / on (benchmark_namespace, benchmark, currency) gpubench_trials",
        "histogram_quantile(0.5, rate(gpubench_worker_window_step_seconds_sum[1m]))",
    ):
        with pytest.raises(promql_labels.Unknown):
            promql_labels.of(prometheus.parsed(wrong), known)


@pytest.mark.parametrize("name", COMMITTED)
def test_variables_ask_for_labels_of_metrics_and_are_all_there(name: str) -> None:
    found = COMMITTED[name]
    variables = {variable["name"]: variable for variable in found["templating"]["list"]}
    assert variables.pop("datasource")["query"] == "prometheus"
    known = promql_labels.catalogue()
    for label, variable in variables.items():
        if variable["type"] == "custom":
            shown = variable["current"]
            assert variable["query"].startswith(f"{shown['text']} : {shown['value']},")
            continue
        metric = variable["definition"].removeprefix("label_values(").split("{")[0].split(",")[0]
        assert label in known[metric]
        assert variable["query"]["query"] == variable["definition"]
    used: set[str] = set()
    for text in (*everywhere(found, "expr"), *everywhere(found, "definition")):
        used |= set(re.findall(r"\$\{?([a-z]\w*)", text))
    assert used <= variables.keys()
    assert variables.keys() <= used, "nobody uses it"


@pytest.mark.parametrize("name", COMMITTED)
def test_every_data_source_is_the_one_that_the_reader_chose(name: str) -> None:
    sources = list(everywhere(COMMITTED[name], "datasource"))
    assert sources
    assert all(source == {"type": "prometheus", "uid": "${datasource}"} for source in sources)


@pytest.mark.parametrize("name", COMMITTED)
def test_every_panel_has_an_id_a_place_a_unit_and_a_question(name: str) -> None:
    rows = [panel for panel in COMMITTED[name]["panels"] if panel["type"] == "row"]
    found = panels(name)
    assert len({panel["id"] for panel in (*rows, *found)}) == len(rows) + len(found)
    assert len({panel["title"] for panel in found}) == len(found)
    taken: set[tuple[int, int]] = set()
    for panel in found:
        assert panel["description"].count("?") >= 1, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in {*build.UNITS.values(), "string"}
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_a_panel_of_one_metric_has_its_unit() -> None:
    """Of panels with a single plain metric; where something is computed, the builder says what comes out."""
    units = {metric.name: metric.unit for metric in metrics.CATALOGUE}
    checked = 0
    for name in COMMITTED:
        for panel in panels(name):
            joined = [target["expr"].partition(" * on (")[0] for target in panel["targets"]]  # without what names it
            expressions = [expression.replace("((", "(") for expression in joined]
            bare = {part for text in expressions for part in units if f"({part}{{" in text}
            computed = any(sign in text for text in expressions for sign in (" * ", " / ", "rate(", ") - "))
            if panel["type"] == "timeseries" and len(bare) == 1 and not computed:
                assert panel["fieldConfig"]["defaults"]["unit"] == build.UNITS[units[bare.pop()]], panel["title"]
                checked += 1
    assert checked >= 10


@pytest.mark.parametrize("name", COMMITTED)
def test_dashboards_lead_to_each_other_and_keep_what_was_chosen(name: str) -> None:
    (link,) = COMMITTED[name]["links"]
    assert link["tags"] == COMMITTED[name]["tags"] == ["gpubench"]
    assert link["includeVars"]
    assert link["keepTime"]
    for address in everywhere(COMMITTED[name], "url"):
        if address:
            assert address.removeprefix("/d/").split("?")[0] in COMMITTED


def test_panels_of_gpus_are_in_a_row_that_is_folded_where_there_are_none() -> None:
    """Closed, it asks nothing: a pool of CPUs has no panel without data."""
    for name in ("gpubench-study", "gpubench-live"):
        (row,) = [panel for panel in COMMITTED[name]["panels"] if panel["type"] == "row"]
        assert (row["title"], row["collapsed"]) == ("GPUs", True)
        of_gpus = {panel["title"] for panel in panels(name) if "gpu_" in json.dumps(panel["targets"])}
        assert of_gpus <= {panel["title"] for panel in row["panels"]}
        assert of_gpus


@pytest.mark.parametrize("label", ["cluster", "pool", "precision", "variant", "data", "batch_per_worker", "scaling"])
def test_whatever_splits_a_line_can_be_chosen(label: str) -> None:
    assert label in {variable["name"] for variable in COMMITTED["gpubench-study"]["templating"]["list"]}


def test_every_dashboard_can_be_of_one_cluster() -> None:
    for name in COMMITTED:
        asked = list(everywhere(COMMITTED[name]["panels"], "expr"))
        assert [expr for expr in asked if 'cluster=~"$cluster"' not in expr] == [], name


def test_attempts_and_preemptions_stand_on_the_time_axes() -> None:
    for name in ("gpubench-studies", "gpubench-study", "gpubench-live", "gpubench-pools"):
        marks = {mark["name"] for mark in COMMITTED[name]["annotations"]["list"]}
        assert {"Preempted", "Failed", "Measured", "Started"} <= marks


#: Of Grafana's Prometheus data source, not of its dashboards: fields that it keeps in annotations and variables.
OF_THE_DATA_SOURCE = {"step", "titleFormat", "textFormat", "definition"}


def lost(given: object, read: object, path: str = "") -> Iterator[str]:
    """Where something has not come back as it was."""
    if isinstance(given, dict) and isinstance(read, dict):
        for name, value in given.items():
            if name not in OF_THE_DATA_SOURCE:
                yield from lost(value, read.get(name), f"{path}/{name}")
    elif isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        for at, (one, other) in enumerate(zip(given, read, strict=True)):
            yield from lost(one, other, f"{path}/{at}")
    elif given != read:
        yield f"{path}: {given!r} was read as {read!r}"


@pytest.mark.parametrize("name", COMMITTED)
def test_grafanas_own_model_of_a_dashboard_reads_all_of_it(name: str) -> None:
    """Panels with the options of their types: what the model does not know, it leaves out."""
    plugins.register_default_plugins()
    read = grafana.Dashboard.from_json(copy.deepcopy(COMMITTED[name]))
    assert list(lost(COMMITTED[name], json.loads(json.dumps(read, cls=encoder.JSONEncoder)))) == []


def test_what_grafanas_model_does_not_know_is_noticed() -> None:
    plugins.register_default_plugins()
    found = copy.deepcopy(COMMITTED["gpubench-operator"])
    found["panels"][0]["options"]["coloured"] = True
    found["panels"][1]["gridpos"] = {}
    read = grafana.Dashboard.from_json(copy.deepcopy(found))
    paths = [where.split(":")[0] for where in lost(found, json.loads(json.dumps(read, cls=encoder.JSONEncoder)))]
    assert paths == ["/panels/0/options/coloured", "/panels/1/gridpos"]
