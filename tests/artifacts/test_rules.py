# SPDX-License-Identifier: Apache-2.0
"""The committed rules, evaluated by promtool: each alert fires where it should and not at its near side, also while
another operator takes over, and of two clusters with the same names only in the one that it is about. And the scaling
efficiency that is derived in PromQL is that of the formula.
"""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import prometheus_programs
from gpubench_dashboards import alerts

RULES = Path(__file__).resolve().parents[2] / "dashboards/rules"
FILES = [str(path) for path in sorted(RULES.glob("*.yaml"))]

Series = Mapping[str, str]
A = 'benchmark_namespace="n", benchmark="a"'
STORM = next(alert.threshold for alert in alerts.ALERTS if alert.name == "GpubenchPreemptionStorm") or 0
POD = f'{A}, pool="spot", pod="p"'
COMPUTE = "gpubench_worker_compute_seconds"
EFFICIENCY = "gpubench_scaling_efficiency_ratio"


class Case(NamedTuple):
    """What fires an alert at that minute, and what of it is another way so that it does not."""

    minute: int
    fires: Series
    quiet: Series  # changes of the former
    each: int = 1  # minutes from one sample, and one look, to the next


def trials(waiting: str, running: str) -> Series:
    return {
        f'gpubench_trials{{{A}, state="waiting"}}': waiting,
        f'gpubench_trials{{{A}, state="running"}}': running,
        f'gpubench_benchmark_condition{{{A}, condition="Finished"}}': "0x200",
    }


def attempts(failed: str, succeeded: str) -> Series:
    return {
        f'gpubench_attempts_total{{{A}, outcome="failed"}}': failed,
        f'gpubench_attempts_total{{{A}, outcome="succeeded"}}': succeeded,
    }


def ranks(*seconds: str) -> Series:
    return {f'{COMPUTE}{{{POD}, trial="t", attempt="1", rank="{n}"}}': each for n, each in enumerate(seconds)}


def gpu(first: str, second: str) -> Series:
    name = "gpubench_worker_gpu_utilization_ratio"
    return {f'{name}{{{POD}, trial="t", attempt="1", rank="{n}"}}': each for n, each in enumerate((first, second))}


def storm(reclaimed: str, evicted: str) -> Series:
    pool = 'pool="spot", capacity_type="Spot"'
    return {
        f'gpubench_interruptions_total{{{A}, {pool}, kind="Reclaim"}}': reclaimed,
        f'gpubench_interruptions_total{{benchmark_namespace="n", benchmark="b", {pool}, kind="Eviction"}}': evicted,
    }


def money(spent: str, budget: str, finished: str = "0x60") -> Series:
    return {
        f'gpubench_spent{{{A}, currency="USD"}}': spent,
        f'gpubench_budget{{{A}, currency="USD"}}': budget,
        f'gpubench_benchmark_condition{{{A}, condition="Finished"}}': finished,
    }


def efficiency(mean: str, high: str) -> Series:
    line = f'{A}, point="w/spot/8", workload="w", workers="8", scaling="weak", baseline="w/spot/1"'
    return {
        f"{EFFICIENCY}{{{line}}}": mean,
        f"gpubench_scaling_efficiency_high_ratio{{{line}}}": high,
    }


def scheduled(
    regressed: str = "0x600", slower: str = "0x600", without: str = "1x600", kept: str = "40x600",
    due: str = "3600x600",
) -> Series:  # fmt: skip
    schedule = 'benchmark_namespace="n", schedule="s"'
    return {
        f'gpubench_schedule_condition{{{schedule}, condition="Regressed"}}': regressed,
        f"gpubench_schedule_slower_points{{{schedule}}}": slower,
        f"gpubench_schedule_runs_due_since_success{{{schedule}}}": without,
        f"gpubench_schedule_runs_kept{{{schedule}}}": kept,
        f"gpubench_schedule_next_timestamp_seconds{{{schedule}}}": due,
    }


CASES: dict[str, Sequence[Case]] = {
    "GpubenchStudyStuck": (
        Case(40, trials("3x200", "0x200"), trials("3x200", "0x20 1x200")),
        Case(
            40,
            trials("3x200", "0x200"),
            {f'gpubench_benchmark_condition{{{A}, condition="Finished"}}': "1x200"},
        ),
        Case(
            40,
            {**trials("3x200", "0x200"), f'gpubench_benchmark_condition{{{A}, condition="GangPending"}}': "1x200"},
            {f'gpubench_benchmark_condition{{{A}, condition="Suspended"}}': "1x200"},
        ),
        Case(
            40,
            {**trials("0x200", "1x200"), f'gpubench_benchmark_condition{{{A}, condition="GangPending"}}': "1x200"},
            {f'gpubench_benchmark_condition{{{A}, condition="GangPending"}}': "1x20 0 1x200"},
        ),
    ),
    "GpubenchAttemptsKeepFailing": (
        Case(37, attempts("0x9 1x9 2x9 3x9", "4x60"), attempts("0x9 1x9 2x99", "4x60")),
        Case(37, attempts("0x9 1x9 2x9 3x9", "4x60"), attempts("0x9 1x9 2x9 3x9", "4x12 5x60")),
        Case(37, attempts("0x9 1x9 2x9 3x9", "4x60"), attempts("3x90", "4x60")),  # long ago
    ),
    "GpubenchGpuIdle": (
        Case(15, gpu("0.02x60", "0.03x60"), gpu("0.02x60", "0.3x60")),
        Case(15, gpu("0.02x60", "0.03x60"), gpu("0.02x7 0.9 0.02x60", "0.03x60")),
    ),
    "GpubenchThroughputBelowBaseline": (
        Case(
            10,
            {f'gpubench_comparison_points{{{A}, verdict="Fail"}}': "1x60"},
            {
                f'gpubench_comparison_points{{{A}, verdict="Fail"}}': "0x60",
                f'gpubench_comparison_points{{{A}, verdict="CannotTell"}}': "4x60",
            },
        ),
    ),
    "GpubenchEfficiencyBelowTarget": (
        Case(10, efficiency("0.62x60", "0.69x60"), efficiency("0.62x60", "0.71x60")),
        Case(10, efficiency("0.62x60", "0.69x60"), efficiency("0.62x60", "_x60")),  # without an interval
    ),
    "GpubenchPreemptionStorm": (
        Case(30, storm("0x9 1x9 3x60", "1x9 2x9 3x60"), storm("0x9 1x9 2x60", "1x9 2x9 3x60")),
        Case(30, storm("0x9 1x9 3x60", "1x9 2x9 3x60"), storm("7x90", "5x90")),  # long ago
    ),
    "GpubenchBudgetNearlySpent": (
        Case(10, money("36.5x60", "40x60"), money("35.5x60", "40x60")),
        Case(10, money("36.5x60", "40x60"), money("36.5x60", "60x60")),
        Case(10, money("36.5x60", "40x60"), money("36.5x60", "40x60", finished="1x60")),
    ),
    "GpubenchPriceStale": (
        Case(
            70,
            {'gpubench_pool_condition{pool="spot", condition="PriceStale"}': "1x200"},
            {'gpubench_pool_condition{pool="spot", condition="PriceStale"}': "1x40 0x200"},
        ),
        Case(
            70,
            {'gpubench_pool_condition{pool="spot", condition="PriceStale"}': "1x200"},
            {'gpubench_pool_condition{pool="spot", condition="PriceStale"}': "0x20 1x200"},
        ),
    ),
    "GpubenchScheduleRegressed": (Case(10, scheduled(slower="1x200"), scheduled(slower="0x200")),),
    "GpubenchScheduleWithoutSuccess": (
        Case(20, scheduled(without="4x300"), scheduled(without="3x300")),
        Case(20, scheduled(without="4x300"), scheduled(without="0x300")),  # suspended, or young
    ),
    "GpubenchScheduleCannotJudge": (
        Case(10_200, scheduled(regressed="_x600"), scheduled(regressed="0x600"), each=60),
        Case(10_200, scheduled(regressed="_x600"), scheduled(regressed="_x83 0x1 _x400"), each=60),
        Case(10_200, scheduled(regressed="_x600"), scheduled(regressed="_x600", kept="29x600"), each=60),
        Case(10_200, scheduled(regressed="_x600"), scheduled(regressed="_x600", due="_x600"), each=60),  # suspended
    ),
    "GpubenchOperatorDown": (
        Case(10, {'gpubench_operator_leader{pod="a"}': "0x60"}, {'gpubench_operator_leader{pod="b"}': "1x60"}),
        Case(10, {}, {'gpubench_operator_leader{pod="a"}': "1x60"}),
        Case(10, {}, {'gpubench_operator_leader{pod="a"}': "_x3 1x60"}),
        Case(10, {'gpubench_operator_leader{pod="a"}': "0x60"}, {'gpubench_operator_leader{pod="a"}': "1x7 0x60"}),
    ),
    "GpubenchStraggler": (
        Case(5, ranks("1x60", "1x60", "1.2x60"), ranks("1x60", "1x60", "1.09x60")),
        Case(5, ranks("1x60", "1x60", "1.2x60"), ranks("1.2x60", "1.2x60", "1.2x60")),
        Case(5, ranks("1x60", "1.12x60"), ranks("1x60", "1.08x60")),  # their median is their mean
    ),
}


def promtool(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = str(prometheus_programs.build()["promtool"])
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False, timeout=60)


def expectation(
    series: Series, expression: str, minute: int, samples: list[dict[str, Any]], *, each: int = 1
) -> dict[str, Any]:
    return {
        "interval": f"{each}m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": expression, "eval_time": f"{minute}m", "exp_samples": samples}],
    }


def check(folder: Path, *tests: dict[str, Any]) -> None:
    written = folder / "test.yaml"
    written.write_text(
        yaml.safe_dump({"rule_files": FILES, "evaluation_interval": tests[0]["interval"], "tests": list(tests)})
    )
    done = promtool("test", "rules", str(written))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", *FILES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_cases() -> None:
    assert CASES.keys() == {alert.name for alert in alerts.ALERTS}


@pytest.mark.parametrize("alert", [alert.name for alert in alerts.ALERTS])
def test_an_alert_fires_and_does_not_where_one_thing_is_another_way(alert: str, tmp_path: Path) -> None:
    number = f"{firing(alert)} or vector(0)"
    tests = [
        expectation(series, number, case.minute, [{"labels": "{}", "value": value}], each=case.each)
        for case in CASES[alert]
        for series, value in ((case.fires, 1), ({**case.fires, **case.quiet}, 0))
    ]
    check(tmp_path, *tests)


def firing(alert: str) -> str:
    return f'count by (cluster) (ALERTS{{alertname="{alert}", alertstate="firing"}})'


def within(cluster: str, series: Series) -> Series:
    """The same series with the label that a scrape, or a Prometheus of several clusters, adds."""
    return {name.replace("{", f'{{cluster="{cluster}", '): values for name, values in series.items()}


@pytest.mark.parametrize("alert", CASES)
def test_of_two_clusters_with_the_same_names_an_alert_is_of_the_one_that_it_is_about(
    alert: str, tmp_path: Path
) -> None:
    tests = [
        expectation(
            {**within("eu", case.fires), **within("us", {**case.fires, **case.quiet})},
            firing(alert),
            case.minute,
            [{"labels": '{cluster="eu"}', "value": 1}],
            each=case.each,
        )
        for case in CASES[alert]
        if case.fires
    ]
    check(tmp_path, *tests)


def samples(values: str) -> list[str]:
    """Of promtool's short form: `1x2 _` is `1 1 1 _`."""
    runs = (part.partition("x") for part in values.split())
    return [sample for sample, _, times in runs for _ in range(int(times or 0) + 1)]


def taken_over(series: Series, minute: int) -> Series:
    """The operator's series, which another operator exports from that minute on."""
    found = dict(series)
    for name in series:
        if not name.startswith(("gpubench_worker_", "gpubench_operator_")):
            each = samples(found.pop(name))
            one, other = (name.replace("{", f'{{pod="{pod}", ') for pod in ("old", "new"))
            found[one] = " ".join((*each[:minute], "stale"))
            found[other] = " ".join((*("_" for _ in each[:minute]), *each[minute:]))
    return found


@pytest.mark.parametrize("alert", CASES)
def test_an_operator_that_takes_over_neither_hides_an_alert_nor_makes_one(alert: str, tmp_path: Path) -> None:
    number = f"{firing(alert)} or vector(0)"
    tests = [
        expectation(
            taken_over(series, case.minute // 2 // case.each), number, case.minute, [{"labels": "{}", "value": value}],
            each=case.each,
        )
        for case in CASES[alert]
        for series, value in ((case.fires, 1), ({**case.fires, **case.quiet}, 0))
    ]  # fmt: skip
    check(tmp_path, *tests)


def test_what_happens_while_no_operator_leads_counts_and_what_is_known_of_before_does_not(tmp_path: Path) -> None:
    """Four interruptions, then another operator whose series begins at that number, or at one more."""

    def series(of_the_next: str) -> Series:
        counter = f'gpubench_interruptions_total{{{A}, pool="spot", capacity_type="Spot", kind="Reclaim", pod='
        return {f'{counter}"old"}}': "0x4 1x4 2x4 3x4 4x4 stale", f'{counter}"new"}}': f"_x27 {of_the_next}x60"}

    for of_the_next in ("4", "5"):
        found = expectation(
            series(of_the_next), "0 + pool:gpubench_interruptions:added1h", 40,
            [{"labels": '{pool="spot", capacity_type="Spot"}', "value": int(of_the_next)}],
        )  # fmt: skip
        fires = int(of_the_next) >= STORM
        alarm = {"expr": f"{firing('GpubenchPreemptionStorm')} or vector(0)", "eval_time": "40m"}
        found["promql_expr_test"].append({**alarm, "exp_samples": [{"labels": "{}", "value": int(fires)}]})
        check(tmp_path, found)


#: Of a benchmark: everything that any of these alerts is about, as it is when the benchmark is over.
OF_A_BENCHMARK = (
    "GpubenchStudyStuck", "GpubenchAttemptsKeepFailing", "GpubenchThroughputBelowBaseline",
    "GpubenchEfficiencyBelowTarget", "GpubenchBudgetNearlySpent",
)  # fmt: skip
OF_A_RESULT = ("GpubenchThroughputBelowBaseline", "GpubenchEfficiencyBelowTarget")
DAY = 24 * 60


@pytest.mark.parametrize("alert", OF_A_BENCHMARK)
def test_a_day_after_its_end_nothing_of_a_benchmark_fires_and_until_then_its_results_do(
    alert: str, tmp_path: Path
) -> None:
    last = {name: f"{samples(values)[-1]}x200" for name, values in CASES[alert][0].fires.items()}
    over = {
        **last,
        f'gpubench_benchmark_condition{{{A}, condition="Finished"}}': "1x200",
        f"gpubench_finished_timestamp_seconds{{{A}}}": "0x200",
    }
    number = f"{firing(alert)} or vector(0)"
    for minute, value in ((DAY - 10, int(alert in OF_A_RESULT)), (DAY + 30, 0)):
        check(tmp_path, expectation(over, number, minute, [{"labels": "{}", "value": value}], each=10))


def test_a_scrape_that_fails_ends_no_alert(tmp_path: Path) -> None:
    case = CASES["GpubenchPreemptionStorm"][0]
    series = {name: " ".join((*samples(values)[:40], "stale")) for name, values in case.fires.items()}
    number = f"{firing('GpubenchPreemptionStorm')} or vector(0)"
    for minute, value in ((48, 1), (60, 0)):
        check(tmp_path, expectation(series, number, minute, [{"labels": "{}", "value": value}]))


def test_a_rank_is_held_against_the_median_of_its_gang_and_of_two_against_the_other(tmp_path: Path) -> None:
    for seconds, behind in (((1.0, 1.5), (0.0, 0.5)), ((1.0, 2.0, 3.0), (-0.5, 0.0, 0.5)), ((2.0,), (0.0,))):
        gang = f'{A}, pool="spot", trial="t", attempt="1"'
        expected = [{"labels": f'{{{gang}, rank="{rank}"}}', "value": value} for rank, value in enumerate(behind)]
        series = ranks(*(f"{one}x9" for one in seconds))
        check(tmp_path, expectation(series, "0 + rank:gpubench_worker_compute:behind_ratio", 5, expected))


def test_an_alert_says_what_and_where_and_leads_to_its_runbook(tmp_path: Path) -> None:
    told = {
        "summary": "pool spot loses its nodes",
        "description": "5 attempts on pool spot were interrupted within an hour.",
        "runbook_url": "dashboards/RUNBOOKS.md#gpubenchpreemptionstorm",
        "action": " ".join(next(one.act for one in alerts.ALERTS if one.name == "GpubenchPreemptionStorm")),
    }
    labels = {"severity": "warning", "pool": "spot", "capacity_type": "Spot"}
    case = CASES["GpubenchPreemptionStorm"][0]
    expected = {"exp_labels": labels, "exp_annotations": told}
    test = expectation(case.fires, "vector(1)", 0, [{"labels": "{}", "value": 1}])
    alert = {"eval_time": "30m", "alertname": "GpubenchPreemptionStorm", "exp_alerts": [expected]}
    check(tmp_path, {**test, "alert_rule_test": [alert]})


def test_every_alert_has_a_section_in_the_runbooks_and_waits_before_it_begins_and_before_it_ends() -> None:
    page = (RULES.parent / "RUNBOOKS.md").read_text(encoding="utf-8")
    (group,) = yaml.safe_load((RULES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    written = {rule["alert"]: rule for rule in group["rules"]}
    for alert in alerts.ALERTS:
        assert written[alert.name]["annotations"]["runbook_url"] == f"{alerts.RUNBOOKS}#{alert.name.lower()}"
        assert {"for", "keep_firing_for"} <= written[alert.name].keys()
        assert f"## {alert.name}\n" in page
        assert alert.act, alert.name
        assert alert.look, alert.name


def key(workers: int, *, per_node: int = 1, batch: int = 64, pool: str = "p") -> str:
    return f"w/{pool}/{workers}/{per_node}-per-node/batch-{batch}"


def measured(throughput: float, workers: int, *, per_node: int = 1, batch: int = 64, pool: str = "p") -> Series:
    of_point = f'{A}, point="{key(workers, per_node=per_node, batch=batch, pool=pool)}", workload="w", pool="{pool}"'
    return {
        f"gpubench_throughput_samples_per_second{{{of_point}}}": f"{throughput}x9",
        f"gpubench_point_workers{{{of_point}}}": f"{workers}x9",
    }


def line(point: str, base: str, *, kind: str = "weak") -> str:
    return f'{A}, point="{point}", scaling="{kind}", baseline="{base}"'


def derived(series: Series, lines: Mapping[str, float]) -> dict[str, Any]:
    """With the lines that the operator has, whatever it says of them."""
    told = {f'{EFFICIENCY}{{{one}, workload="w"}}': "0.123x9" for one in lines}
    samples = [{"labels": f"{{{one}}}", "value": value} for one, value in lines.items()]
    # Without its name, so that only labels and value are compared.
    return expectation({**series, **told}, "0 + point:gpubench_scaling_efficiency_ratio:derived", 5, samples)


def test_the_efficiency_that_promql_derives_is_that_of_the_formula(tmp_path: Path) -> None:
    weak = {**measured(100.0, 1), **measured(180.0, 2), **measured(300.0, 4)}
    weak_lines = {line(key(n), key(1)): value for n, value in ((1, 1.0), (2, 0.9), (4, 0.75))}
    # A strong line: as many samples in a step, whatever the workers.
    strong = {**measured(100.0, 2, batch=64), **measured(150.0, 4, batch=32)}
    strong_lines = {line(key(4, batch=32), key(2), kind="strong"): 150 * 2 / (4 * 100)}
    # 1 x 2 and 2 x 1: the operator names which one is the base.
    shapes = {**measured(200.0, 2, per_node=2), **measured(120.0, 2), **measured(320.0, 4, per_node=2)}
    shapes_lines = {line(key(4, per_node=2), key(2, per_node=2)): 320 * 2 / (4 * 200)}
    # The base on the sibling with one GPU.
    across = {**measured(100.0, 1, pool="one"), **measured(640.0, 8, per_node=8)}
    across_lines = {line(key(8, per_node=8), key(1, pool="one")): 0.8}
    check(
        tmp_path,
        derived(weak, weak_lines),
        derived(strong, strong_lines),
        derived(shapes, shapes_lines),
        derived(across, across_lines),
    )


def test_where_the_operator_has_no_efficiency_none_is_derived(tmp_path: Path) -> None:
    check(tmp_path, derived({**measured(100.0, 1), **measured(180.0, 2)}, {}))


def test_two_operators_that_change_over_make_no_figure_twice(tmp_path: Path) -> None:
    twice = {
        name.replace("}", f', pod="{pod}"}}'): values
        for name, values in {**measured(100.0, 1), **measured(180.0, 2)}.items()
        for pod in ("old", "new")
    }
    check(tmp_path, derived(twice, {line(key(2), key(1)): 0.9}))
