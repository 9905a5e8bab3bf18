# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus beside a real study and a schedule (`monitoring/watched_study.py`). Afterwards the query of every
panel, rule and alert is asked.

What cannot have data here is named: panels of GPUs. On a machine that is busy with other things three more may be
absent, each only where the study itself says so: bounds, where repeats scatter too widely for an interval, what two
points have together, where one did not settle, and the ranks' own computing, where tracing a step took so long that
nobody looked at it. Whether a schedule's points have become slower
nobody can tell after one run.
"""

import json
import math
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import frames
import prometheus_programs
import promql_labels
import watched_study
from gpubench import metrics
from gpubench.api.point_result import PointState
from gpubench_dashboards import alerts, rules
from watched_study import BEFORE, NAME, OF_A_LOOK, RATE_INTERVAL, SCRAPED_SECONDS, STEP, WORKLOAD, Seen, wait

BOARDS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(watched_study.DASHBOARDS.glob("*.json"))]
#: Without a GPU nobody can tell these.
WITHOUT_A_GPU = {
    "gpubench / One benchmark: GPUs while they were measured",
    "gpubench / Live run: GPUs, each by itself",
    "gpubench / Live run: GPU utilisation",
    "gpubench / Live run: GPU power",
    "gpubench / Live run: GPU memory",
    "gpubench / Live run: GPU temperature",
}
#: Their series are those of GPUs.
ALERTS_WITHOUT_A_GPU = {"GpubenchGpuIdle"}
EFFICIENCY = "point:gpubench_scaling_efficiency_ratio:derived"
REGRESSED = 'condition="Regressed"'
#: What two points have together: a machine that is busy with other things may keep one of them from settling.
OF_A_PAIR = {
    metric.name
    for metric in metrics.CATALOGUE
    if metric.name.startswith((metrics.EFFICIENCY.name.removesuffix("_ratio"), "gpubench_relative_"))
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    with watched_study.running(tmp_path_factory.mktemp("seen")) as found:
        yield found


def test_the_study_was_interrupted_and_came_to_its_end(seen: Seen) -> None:
    assert seen.status["phase"] == "Succeeded", seen.status
    assert seen.status["attempts"]["preempted"] == 1
    assert seen.status["attempts"]["succeeded"] == 6


def numbers(series: list[dict[str, Any]]) -> list[float]:
    """All that is a number."""
    found = [float(value) for one in series for _, value in one.get("values") or [one["value"]]]
    return [value for value in found if math.isfinite(value)]


def has_data(seen: Seen, expression: str, *, over_time: bool = True) -> bool:
    """At the end, or at some second of the course: what came with the end is in no earlier second."""
    found = seen.prometheus.query(expression, at=seen.ended)
    if over_time:
        found += seen.prometheus.query_range(expression, begin=seen.begun, end=seen.ended, step=STEP)
    return bool(numbers(found))


def measured(seen: Seen) -> list[dict[str, Any]]:
    """The points that have settled; of others nothing is exported that one could rank."""
    return [result for result in seen.status["results"] if result["state"] != PointState.UNSTABLE]


def excused(seen: Seen) -> set[str]:
    """Series that this study does not have by its own word."""
    results = measured(seen)
    bounds = {
        metrics.THROUGHPUT_LOW: [result["samplesPerSecond"].get("low") for result in results],
        metrics.THROUGHPUT_HIGH: [result["samplesPerSecond"].get("high") for result in results],
        metrics.EFFICIENCY_LOW: [line["efficiency"].get("low") for result in results for line in result["scaling"]],
        metrics.EFFICIENCY_HIGH: [line["efficiency"].get("high") for result in results for line in result["scaling"]],
    }
    found = {metric.name for metric, values in bounds.items() if all(value is None for value in values)}
    if len(results) < len(seen.status["results"]):
        found |= OF_A_PAIR
    if any(one["type"] == "Regressed" and one["status"] == "Unknown" for one in seen.schedule["conditions"]):
        found.add(REGRESSED)
    if not seen.schedule.get("levels"):  # its run may still be under way in the end
        found |= {metrics.SCHEDULE_SPEED.name, metrics.SCHEDULE_USUAL.name}
    if not any("usual" in level for level in seen.schedule.get("levels", [])):  # it needs nine of them
        found.add(metrics.SCHEDULE_USUAL.name)
    return found if seen.looked else found | OF_A_LOOK


def chosen(expression: str) -> str:
    """As Grafana asks when this study was chosen, at a step of a second."""
    return promql_labels.substituted(
        expression, benchmark_namespace="default", benchmark=NAME, currency="USD", rate_interval=RATE_INTERVAL
    )


def test_every_query_of_every_panel_has_data(seen: Seen) -> None:
    without: dict[str, list[str]] = {}
    asked, absent = 0, excused(seen) | set(promql_labels.OF_OTHERS)  # their exporters do not run here
    for board in BOARDS:
        for panel in frames.panels(board):
            for target in panel["targets"]:
                expression = chosen(target["expr"])
                asked += 1
                if not has_data(seen, expression, over_time=target["range"]) and not any(
                    name in expression for name in absent
                ):
                    without.setdefault(f"{board['title']}: {panel['title']}", []).append(expression)
    assert without.keys() == WITHOUT_A_GPU, without
    assert asked > 80


def test_every_rule_is_healthy_and_has_recorded_something(seen: Seen) -> None:
    found = seen.prometheus.rules()
    assert {rule["name"] for rule in found} == {rule.record for rule in rules.RULES} | {
        alert.name for alert in alerts.ALERTS
    }
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}
    for rule in rules.RULES:
        assert has_data(seen, rule.record) or rule.record in excused(seen), rule.record
        for series in seen.prometheus.query_range(rule.record, begin=seen.begun, end=seen.ended, step=STEP):
            assert set(series["metric"]) - {"__name__"} <= set(rule.labels), rule.record


def test_all_that_alerts_and_marks_look_at_is_there(seen: Seen) -> None:
    """They ask for what is not to happen; what they ask of has data."""
    absent = excused(seen)
    asked = {alert.name: alert.expr for alert in alerts.ALERTS if alert.name not in ALERTS_WITHOUT_A_GPU}
    marks = [mark for board in BOARDS for mark in board["annotations"]["list"]]
    asked |= {f"mark {mark['name']}": chosen(mark["expr"]) for mark in marks}
    for name, expression in asked.items():
        for selector in promql_labels.selectors(seen.prometheus.parsed(expression)):
            text = promql_labels.written(selector)
            if any(name in text for name in absent) or 'condition="GangPending"' in text:
                continue  # the latter is there while a gang has no nodes
            assert has_data(seen, text), (name, text)
    preempted = next(mark for mark in marks if mark["name"] == "Preempted")
    assert has_data(seen, chosen(preempted["expr"])), "the eviction stands on the time axes"


def test_the_efficiency_in_promql_is_the_operators_to_the_ninth_digit(seen: Seen) -> None:
    found = seen.prometheus.query(f'{EFFICIENCY}{{benchmark="{NAME}"}}', at=seen.ended)
    derived = {one["metric"]["point"].removeprefix(f"{WORKLOAD}/local-cpu/"): float(one["value"][1]) for one in found}
    own = {
        str(result["workers"]): line["efficiency"]["mean"] for result in measured(seen) for line in result["scaling"]
    }
    assert derived.keys() == own.keys()
    for workers, value in own.items():
        assert derived[workers] == pytest.approx(value, rel=1e-9)
    if len(measured(seen)) == 2:
        assert own.keys() == {"1", "2"}
        assert own["2"] != 1.0


@pytest.mark.parametrize("whose", ["operator", "rank"])
def test_promtool_finds_nothing_wrong_with_a_live_scrape(seen: Seen, whose: str) -> None:
    program = str(prometheus_programs.build()["promtool"])
    found = subprocess.run(
        [program, "check", "metrics"], input=seen.scrapes[whose], capture_output=True, text=True, check=False
    )
    ours = [line for line in (found.stdout + found.stderr).splitlines() if "gpubench" in line]
    assert ours == []
    assert "gpubench_" in seen.scrapes[whose]


def test_series_go_when_their_pods_and_their_study_go(seen: Seen) -> None:
    def left() -> list[dict[str, Any]]:
        return seen.prometheus.query(f'{{__name__=~"gpubench_.+", benchmark="{NAME}"}}')

    def of_ranks() -> list[dict[str, Any]]:
        return [one for one in left() if one["metric"]["__name__"].startswith("gpubench_worker_")]

    wait(lambda: not of_ranks(), what="the end of the ranks' series", seconds=SCRAPED_SECONDS)
    wait(left, what="a scrape", seconds=SCRAPED_SECONDS)
    seen.cluster.kubectl("delete", "gbench", NAME)
    wait(lambda: not left(), what="the end of the study's series", seconds=SCRAPED_SECONDS)
    of_the_other = f'{metrics.TRIALS.name}{{benchmark="{BEFORE}"}}'
    wait(lambda: seen.prometheus.query(of_the_other), what="the other's, which stay", seconds=SCRAPED_SECONDS)
