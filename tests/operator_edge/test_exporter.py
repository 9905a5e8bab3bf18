# SPDX-License-Identifier: Apache-2.0
"""What a scrape gives: the figures of the statuses with the labels of the catalogue, and nothing that was not found."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import aiohttp
import prometheus_client
import prometheus_client.openmetrics.exposition
import prometheus_client.openmetrics.parser
import prometheus_client.registry
import pytest
from prometheus_client import openmetrics, parser

import stored_analysis
from gpubench import metrics
from gpubench.api.benchmark import POINTS_MAX
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.goodput_result import NodeSeconds
from gpubench.api.point_result import BillParts
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue, server
from memory_world import Clock, World

KEY = queue.benchmark_key("default", "b")
POINT: dict[str, Any] = {
    "workload": "resnet50",
    "pool": "spot",
    "accelerator": "A100-40GB",
    "workers": 2,
    "workersPerNode": 2,
    "batchPerWorker": 64,
    "globalBatch": 128,
    "precision": "float32",
    "state": "Measured",
    "throughput": {"mean": 100.0, "low": 90.0, "high": 110.0},
    "scaling": [{"kind": "weak", "baselineWorkers": 1, "efficiency": {"mean": 0.9}}],
    "cost": {"perMillionSamples": {"mean": "1.25", "currency": "USD"}},
}


def scrape(figures: exporter.Series) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(page(figures, prometheus_client.generate_latest)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def page(figures: exporter.Series, encode: Callable[[prometheus_client.registry.Collector], bytes]) -> str:
    return b"".join(server.parts(prometheus_client.CollectorRegistry(), figures, encode)).decode()


def benchmark(**status: Any) -> kube.Object:
    return {"metadata": {"name": "b", "namespace": "default", "uid": "u"}, "status": status}


def test_a_point_has_its_figures_with_the_labels_of_the_catalogue() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=[POINT]))
    series = scrape(figures)
    ((labels, value),) = series[metrics.THROUGHPUT.name]
    assert value == 100.0
    assert set(labels) == set(metrics.THROUGHPUT.labels)
    assert (labels["workers"], labels["batch_per_worker"]) == ("2", "64")
    assert series[metrics.COST.name][0][0]["currency"] == "USD"
    assert series[metrics.EFFICIENCY.name][0][0]["scaling"] == "weak"


def test_what_was_not_found_has_no_series() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=[{**POINT, "throughput": {"mean": 1.0}}]))
    series = scrape(figures)
    for absent in (metrics.THROUGHPUT_LOW, metrics.EFFICIENCY_HIGH, metrics.COST_LOW):
        assert absent.name not in series


def test_a_point_that_never_settled_has_no_series_that_is_ranked() -> None:
    series = scrape_of({**POINT, "state": "Unstable"})
    ((labels, value),) = series.pop(metrics.UNSTABLE_THROUGHPUT.name)
    assert (labels["pool"], value) == ("spot", 100.0)
    assert series.keys() == {metrics.POINTS.name, metrics.POINT_WORKERS.name, metrics.INTERRUPTIONS.name}
    assert metrics.UNSTABLE_THROUGHPUT.name not in scrape_of(POINT)


def test_what_the_machine_did_has_series_as_far_as_it_is_known() -> None:
    usage = {"gpu": {"utilization": 0.9, "watts": 700.0}, "host": {"processors": 1.5, "memoryPeakBytes": 2_000_000_000}}
    series = scrape_of({**POINT, **usage})
    found = {name: value for name, ((_, value), *_) in series.items() if "_gpu_" in name or "_rank_" in name}
    assert found == {
        "gpubench_gpu_utilization_ratio": 0.9,
        "gpubench_gpu_power_watts": 700.0,
        "gpubench_rank_processors": 1.5,
        "gpubench_rank_memory_peak_bytes": 2e9,
    }


def test_warnings_are_counted_by_what_they_are_about() -> None:
    told = [
        {"reason": "Trend", "message": "a"},
        {"reason": "WeakNode", "message": "b"},
        {"reason": "WeakNode", "message": "c"},
    ]
    for state in ("Measured", "Unstable"):
        found = {
            (labels["pool"], labels["basis"], labels["reason"]): value
            for labels, value in scrape_of({**POINT, "state": state, "warnings": told})[metrics.WARNINGS.name]
        }
        assert found == {("spot", "Measured", "Trend"): 1.0, ("spot", "Measured", "WeakNode"): 2.0}
    assert metrics.WARNINGS.name not in scrape_of(POINT)


def interval(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": 0.9 * mean, "high": 1.1 * mean}


TRAINED: dict[str, Any] = {
    **POINT,
    "data": "Generated",
    "variant": "fp16-wire",
    "training": {
        "epochs": 3,
        "timedRegion": {"evaluation": "Inside", "firstEpoch": "Excluded"},
        "seconds": interval(40.0),
        "secondsPerEpoch": interval(20.0),
        "firstEpochSeconds": 30.0,
        "evaluationSeconds": 3.0,
        "trainingLoss": 0.2,
        "quality": {"metric": "accuracy", "final": interval(0.8), "best": {"mean": 0.85}},
    },
    "cost": {
        "perMillionSamples": {"mean": "1.25", "currency": "USD"},
        "perRun": {"mean": "0.50", "low": "0.45", "currency": "USD"},
    },
    "goals": [{"name": "imagenet", "hours": interval(10.0), "cost": {"mean": "36.5", "currency": "USD"}}],
}


def scrape_of(*points: dict[str, Any]) -> dict[str, list[tuple[dict[str, str], float]]]:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=list(points)))
    return scrape(figures)


def test_training_has_seconds_with_what_they_cover_and_quality_and_cost_of_a_run() -> None:
    series = scrape_of(TRAINED)
    ((labels, seconds),) = series[metrics.TRAINING.name]
    assert seconds == 40.0
    assert (labels["epochs"], labels["evaluation"], labels["first_epoch"]) == ("3", "Inside", "Excluded")
    assert (labels["data"], labels["variant"]) == ("Generated", "fp16-wire")
    assert series[metrics.EPOCH_HIGH.name][0][1] == 22.0
    accuracy = {labels["epoch"]: value for labels, value in series[metrics.ACCURACY.name]}
    assert accuracy == {"final": 0.8, "best": 0.85}
    assert metrics.LOSS.name not in series
    assert [value for _, value in series[metrics.COST_PER_RUN.name]] == [0.5]
    assert metrics.COST_PER_RUN_HIGH.name not in series


def test_a_goals_hours_are_seconds_in_prometheus() -> None:
    series = scrape_of(TRAINED)
    ((labels, seconds),) = series[metrics.GOAL.name]
    assert (labels["goal"], labels["basis"], seconds) == ("imagenet", "Measured", 36_000.0)
    ((labels, cost),) = series[metrics.GOAL_COST.name]
    assert (labels["goal"], labels["currency"], cost) == ("imagenet", "USD", 36.5)


def test_messages_have_bandwidth_and_no_samples_per_second() -> None:
    series = scrape_of(
        {**POINT, "workload": "allreduce", "bandwidth": {"algorithm": interval(1e9), "bus": interval(1.75e9)}}
    )
    assert series[metrics.BUS_BANDWIDTH.name][0][1] == 1.75e9
    assert series[metrics.ALGORITHM_BANDWIDTH_LOW.name][0][1] == 0.9e9
    assert metrics.THROUGHPUT.name not in series


@pytest.mark.parametrize("basis", ["Repriced", "Extrapolated", "Imported"])
def test_what_was_not_run_has_a_marked_cost_and_goals_and_no_measured_series(basis: str) -> None:
    series = scrape_of({**TRAINED, "basis": basis})
    for name in (metrics.COST.name, metrics.COST_PER_RUN.name, metrics.GOAL.name, metrics.GOAL_COST.name):
        assert [labels["basis"] for labels, _ in series[name]] == [basis]
    for metric in (metrics.THROUGHPUT, metrics.EFFICIENCY, metrics.TRAINING, metrics.EPOCH, metrics.ACCURACY):
        assert metric.name not in series


def test_every_series_has_the_labels_of_its_metric_in_the_catalogue() -> None:
    bandwidth = {"workload": "allreduce", "bandwidth": {"algorithm": interval(1e9), "bus": interval(1e9)}}
    loss = {**TRAINED["training"], "quality": {"metric": "loss", "final": interval(1.4), "best": interval(1.3)}}
    series = scrape_of(TRAINED, {**POINT, "workers": 4, **bandwidth}, {**TRAINED, "workers": 8, "training": loss})
    labels = {metric.name: set(metric.labels) for metric in metrics.CATALOGUE}
    assert series
    for name, found in series.items():
        assert all(set(one) == labels[name] for one, _ in found), name


def test_runs_of_different_lengths_have_series_of_their_own() -> None:
    longer = {**TRAINED, "training": {**TRAINED["training"], "epochs": 5}}
    check_no_series_stands_twice(TRAINED, longer)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"data": "Generated", "dataSamples": 1000}, {"data": "Generated", "dataSamples": 2000}),
        ({"data": "Generated"}, {"data": "Generated", "dataSamples": 2000}),
        ({"data": "Volume", "dataPath": "/one"}, {"data": "Volume", "dataPath": "/two"}),
        ({"basis": "Extrapolated", "epochs": 1}, {"basis": "Extrapolated", "epochs": 2}),  # without a training
    ],
)
def test_points_that_differ_in_data_or_epochs_alone_have_series_of_their_own(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    check_no_series_stands_twice({**POINT, **one}, {**POINT, **other})


def check_no_series_stands_twice(*points: dict[str, Any]) -> None:
    for name, found in scrape_of(*points).items():
        labels = [tuple(sorted(one.items())) for one, _ in found]
        assert len(labels) == len(set(labels)), name


def test_an_efficiency_names_the_pool_of_its_base() -> None:
    line = {"kind": "weak", "baselineWorkers": 1, "efficiency": {"mean": 0.9}}
    series = scrape_of(POINT, {**POINT, "workers": 4, "scaling": [{**line, "baselinePool": "one-gpu"}]})
    assert [labels["baseline_pool"] for labels, _ in series[metrics.EFFICIENCY.name]] == ["spot", "one-gpu"]


def test_an_efficiency_names_the_point_of_its_base_by_the_key_of_the_status() -> None:
    def point(workers: int, *lines: dict[str, Any], per_node: int = 1, batch: int = 64, **other: Any) -> dict[str, Any]:
        scaling = [{**line, "efficiency": {"mean": 0.9}} for line in lines]
        sizes = {
            "workers": workers,
            "workersPerNode": per_node,
            "batchPerWorker": batch,
            "globalBatch": batch * workers,
        }
        return {**POINT, **sizes, "scaling": scaling, **other}

    weak, strong = ({"kind": kind, "baselineWorkers": 2} for kind in ("weak", "strong"))
    across = {"kind": "weak", "baselineWorkers": 1, "baselinePool": "one-gpu"}
    series = scrape_of(
        point(2),  # on two nodes: no base
        point(2, per_node=2, node="10-a"),  # by itself
        point(2, weak, per_node=2),
        point(2, per_node=2, precision="mixed_float16"),
        point(4, weak, per_node=2),
        point(4, strong, per_node=2, batch=32),
        point(8, across, per_node=8),
        point(1, pool="one-gpu"),
        point(16, {"kind": "weak", "baselineWorkers": 3}),  # as published: the base is no point here
    )
    found = {labels["point"]: labels["baseline"] for labels, _ in series[metrics.EFFICIENCY.name]}
    base, single = "resnet50/spot/2/2-per-node/batch-64/float32", "resnet50/one-gpu/1/1-per-node/batch-64/float32"
    assert found == {
        base: base,
        "resnet50/spot/4/2-per-node/batch-64/float32": base,
        "resnet50/spot/4/2-per-node/batch-32/float32": base,
        "resnet50/spot/8/8-per-node/batch-64/float32": single,
        "resnet50/spot/16/1-per-node/batch-64/float32": "",
    }


def test_counters_are_counters_in_both_formats_and_begin_at_zero() -> None:
    figures = exporter.Series()
    status = {"results": [{**POINT, "capacityType": "Spot"}], "attempts": {"started": 1}}
    stored_analysis.observe(figures, KEY, benchmark(**status))
    for encode, ending in (
        (prometheus_client.generate_latest, "_total"),
        (prometheus_client.openmetrics.exposition.generate_latest, ""),
    ):
        lines = page(figures, encode).splitlines()
        for metric in (metrics.ATTEMPTS, metrics.INTERRUPTIONS):
            assert f"# TYPE {metric.name.removesuffix('_total')}{ending} counter" in lines
    series = scrape(figures)
    assert [value for _, value in series[metrics.INTERRUPTIONS.name]] == [0.0] * 4
    assert {labels["pool"] for labels, _ in series[metrics.INTERRUPTIONS.name]} == {"spot"}
    assert [value for _, value in series[metrics.ATTEMPTS.name]] == [0.0] * 5


def test_what_was_spent_has_its_currency_and_no_series_without_a_price() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(spent={"amount": "12.31", "currency": "EUR", "clock": "of pods"}))
    (found,) = scrape(figures)[metrics.SPENT.name]
    assert found == ({"benchmark_namespace": "default", "benchmark": "b", "currency": "EUR"}, 12.31)
    stored_analysis.observe(figures, KEY, benchmark(results=[POINT]))
    assert metrics.SPENT.name not in scrape(figures)


def test_series_vanish_with_their_object() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=[POINT]))
    figures.drop(KEY)
    assert scrape(figures) == {}


def test_series_of_a_benchmark_end_a_while_after_its_end_and_are_not_made_again() -> None:
    clock = Clock()
    figures = exporter.Series(keep_seconds=100.0, clock=clock)
    ended = {"startTime": observe.timestamp(clock.now - 50), "completionTime": observe.timestamp(clock.now)}
    over = benchmark(phase="Succeeded", analysis={"configMap": "a", "ledgerVersion": 1, "sha256": "0"}, **ended)
    figures.observe(KEY, over)
    figures.take(KEY, "0", exporter.lines_of(exporter.Samples({metrics.SPENT.name: [(("n", "b", "EUR"), 1.0)]})))
    clock.now += 99
    assert scrape(figures).keys() == {metrics.SPENT.name, metrics.STARTED.name, metrics.FINISHED.name}
    assert exporter.Series(keep_seconds=100.0, clock=clock).lacks(KEY, over)
    clock.now += 1
    assert scrape(figures) == {}
    anew = exporter.Series(keep_seconds=100.0, clock=clock)
    for one in (figures, anew):
        one.observe(KEY, over)
        assert (scrape(one), one.lacks(KEY, over)) == ({}, False)


def test_a_status_that_becomes_unreadable_has_no_series_of_before() -> None:
    figures = exporter.Series()
    figures.observe(KEY, benchmark(startTime="2026-11-01T12:00:00Z"))
    assert scrape(figures)
    figures.observe(KEY, benchmark(results=[{"workload": 3}]))
    assert scrape(figures) == {}


def test_moments_and_points_of_a_schedule_have_series() -> None:
    figures = exporter.Series()
    moments = {"lastScheduleTime": "2026-11-01T12:00:00Z", "nextScheduleTime": "2026-11-01T13:00:00Z"}
    figures.observe(queue.Key(queue.Kind.SCHEDULE, "default", "often"), benchmark(**moments, runsKept=7))
    series = scrape(figures)
    ((labels, last),), ((_, following),) = series[metrics.SCHEDULE_LAST.name], series[metrics.SCHEDULE_NEXT.name]
    assert (set(labels.values()), following - last) == ({"default", "often"}, 3_600.0)
    assert series[metrics.SCHEDULE_KEPT.name][0][1] == 7.0


def test_a_status_of_another_version_is_left_out_and_harms_no_other() -> None:
    figures = exporter.Series()
    figures.observe(queue.benchmark_key("default", "odd"), benchmark(results=[{"workload": 3}]))
    stored_analysis.observe(figures, KEY, benchmark(results=[POINT]))
    assert len(scrape(figures)[metrics.THROUGHPUT.name]) == 1


async def test_attempts_add_up_while_a_study_runs_and_when_it_has_ended() -> None:
    world = World(repeats=1)
    await world.finish()
    series = scrape(world.series)
    attempts = {labels["outcome"]: value for labels, value in series[metrics.ATTEMPTS.name]}
    assert attempts == {"succeeded": 2, "failed": 0, "preempted": 0, "drilled": 0, "stopped": 0}
    assert {labels["state"]: value for labels, value in series[metrics.POINTS.name]}["Measured"] == 2
    assert ({"benchmark_namespace": "default", "benchmark": "quick", "condition": "Finished"}, 1.0) in series[
        metrics.CONDITION.name
    ]


def test_the_operators_own_metrics_are_those_of_the_catalogue() -> None:
    registry = prometheus_client.CollectorRegistry()
    health = exporter.Health(registry)
    health.reconciled("done", 0.1)
    health.requested("get", "jobs", "200")
    text = prometheus_client.generate_latest(registry).decode()
    own = [metric for metric in metrics.CATALOGUE if metric.owner is metrics.Owner.OPERATOR]
    assert metrics.RECONCILES in own
    assert all(metric.name in text for metric in own)
    assert 'gpubench_operator_reconciles_total{outcome="failed"} 0.0' in text, "else the first failure is no increase"
    assert '{code="200",resource="jobs",verb="get"} 1.0' in text


def test_what_a_point_was_billed_has_a_series_for_each_part_also_where_it_has_no_other_figure() -> None:
    parts = {"measured": "0.75", "lost": "0.5"}
    bill = {"total": "1.25", "currency": "USD", "attempts": 3, "parts": parts}
    unstable, failed = (
        {**POINT, "state": state, "bill": bill, "workers": n} for n, state in ((1, "Unstable"), (2, "Failed"))
    )
    failed = {name: value for name, value in failed.items() if name not in ("throughput", "scaling", "cost")}
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=[unstable, failed]))
    series = scrape(figures)[metrics.BILLED.name]
    assert {(labels["workers"], labels["part"]): value for labels, value in series} == {
        ("1", "measured"): 0.75, ("1", "lost"): 0.5, ("2", "measured"): 0.75, ("2", "lost"): 0.5,
    }  # fmt: skip
    assert {labels["currency"] for labels, _ in series} == {"USD"}


def test_what_was_not_billed_has_no_series() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(results=[POINT]))
    assert metrics.BILLED.name not in scrape(figures)


def test_relative_figures_name_their_base_and_the_base_itself_is_one() -> None:
    relative = {"throughput": interval(4.0), "time": interval(0.25), "cost": interval(1.5)}
    point = {**POINT, "relative": {"baselinePool": "k80", "baselineWorkers": 1, **relative}}
    base = {**POINT, "workers": 1, "relative": {"throughput": {"mean": 1.0}, "time": {"mean": 1.0}}}
    series = scrape_of(point, base)
    found = {
        (labels["pool"], labels["workers"]): (labels["baseline_pool"], labels["baseline_workers"], value)
        for labels, value in series[metrics.RELATIVE_TIME.name]
    }
    assert found == {("spot", "2"): ("k80", "1", 0.25), ("spot", "1"): ("spot", "1", 1.0)}
    [(labels, value)] = series[metrics.RELATIVE_COST_HIGH.name]
    assert labels["basis"] == "Measured"
    assert value == pytest.approx(1.65)
    assert len(series[metrics.RELATIVE_THROUGHPUT_LOW.name]) == 1, "the base has no interval"
    assert all(set(labels) == set(metrics.RELATIVE_COST.labels) for labels, _ in series[metrics.RELATIVE_COST.name])
    assert metrics.RELATIVE_TIME.name not in scrape_of(POINT)


def test_energy_is_in_joules_and_emissions_in_grams() -> None:
    metered = {"wattHours": interval(2.0), "wattHoursPerRun": interval(3.0), "grams": interval(4.0)}
    series = scrape_of(
        {**POINT, "energy": {"joules": interval(5.0), "by": "Counter", **metered, "gramsPerRun": interval(6.0)}}
    )
    found = {name: series[metric.name][0][1] for name, metric in (
        ("gpus", metrics.ENERGY), ("samples", metrics.METERED), ("run", metrics.METERED_RUN),
        ("grams", metrics.EMISSIONS), ("grams of a run", metrics.EMISSIONS_RUN),
    )}  # fmt: skip
    assert found == {"gpus": 5.0, "samples": 7_200.0, "run": 10_800.0, "grams": 4.0, "grams of a run": 6.0}
    assert metrics.METERED.name not in scrape_of({**POINT, "energy": {"joules": interval(5.0), "by": "Power"}})


def test_what_a_user_wrote_is_a_label_and_no_line_of_the_scrape() -> None:
    hostile = 'A100"} 1\ngpubench_forged{x="\\" 2\r\x1b[2J\\n'
    series = scrape_of({**POINT, "accelerator": hostile, "dataPath": hostile, "variant": hostile[:40]})
    ((labels, value),) = series[metrics.THROUGHPUT.name]
    assert (labels["accelerator"], labels["data_path"], labels["variant"]) == (hostile, hostile, hostile[:40])
    assert value == 100.0
    assert not any("forged" in name for name in series)


SPOT: dict[str, Any] = {
    "pool": "spot",
    "capacityType": "Spot",
    "attempts": 9,
    "interruptions": {"total": 4, "reclaimed": 2, "nodesLost": 1},
    "nodeHours": 8.0,
    "perNodeHour": {"mean": 0.5, "low": 0.14, "high": 1.28},
    "nodeSeconds": {"useful": 20_000.0, "lost": 8_000.0, "startUp": 800.0},
    "goodput": 0.69,
    "effectivePrice": "5.22",
    "currency": "USD",
    "recovery": {"count": 4, "median": 130.0, "mean": 140.0},
    "sentence": "spot: ...",
}  # fmt: skip


def test_where_node_time_went_and_who_took_nodes_away_has_series_by_pool_and_capacity_type() -> None:
    figures = exporter.Series()
    stored_analysis.observe(figures, KEY, benchmark(goodput={"pools": [SPOT]}))
    series = scrape(figures)
    pool = {"benchmark_namespace": "default", "benchmark": "b", "pool": "spot", "capacity_type": "Spot"}
    kinds = {labels["kind"]: value for labels, value in series[metrics.INTERRUPTIONS.name]}
    assert kinds == {"Reclaim": 2.0, "Eviction": 0.0, "NodeLost": 1.0, "Unknown": 1.0}
    seconds = {labels["use"]: value for labels, value in series[metrics.NODE_SECONDS.name]}
    assert seconds == {"useful": 20_000.0, "lost": 8_000.0, "startUp": 800.0}
    for metric, value in (
        (metrics.INTERRUPTION_RATE, 0.5),
        (metrics.INTERRUPTION_RATE_LOW, 0.14),
        (metrics.INTERRUPTION_RATE_HIGH, 1.28),
        (metrics.GOODPUT, 0.69),
        (metrics.RECOVERY, 130.0),
    ):
        assert series[metric.name] == [(pool, value)]
    assert series[metrics.EFFECTIVE_PRICE.name] == [(pool | {"currency": "USD"}, 5.22)]


def test_a_pool_of_which_nothing_is_known_has_no_series_of_it() -> None:
    figures = exporter.Series()
    known = {name: value for name, value in SPOT.items() if name in ("pool", "capacityType", "attempts", "sentence")}
    unseen = {**known, "interruptions": {"total": 0}, "nodeHours": 0.0, "nodeSeconds": {}}
    stored_analysis.observe(figures, KEY, benchmark(goodput={"pools": [unseen]}))
    assert {name for name in scrape(figures) if "interruptions" in name} == {metrics.INTERRUPTIONS.name}
    assert not {metrics.GOODPUT.name, metrics.NODE_SECONDS.name, metrics.RECOVERY.name} & scrape(figures).keys()


def test_a_budget_is_told_in_its_currency_as_soon_as_that_is_known_and_follows_its_changes() -> None:
    figures = exporter.Series()
    spent = {"amount": "3.5", "currency": "EUR", "clock": "of pods"}
    study = benchmark(spent=spent)
    stored_analysis.observe(figures, KEY, study | {"spec": {"limits": {"budget": "40.00"}}})
    of_study = {"benchmark_namespace": "default", "benchmark": "b"}
    assert scrape(figures)[metrics.BUDGET.name] == [(of_study | {"currency": "EUR"}, 40.0)]
    stored_analysis.observe(figures, KEY, study | {"spec": {"limits": {"budget": "60.00"}}})
    assert scrape(figures)[metrics.BUDGET.name][0][1] == 60.0
    stored_analysis.observe(figures, KEY, benchmark() | {"spec": {"limits": {"budget": "60.00"}, "currency": "USD"}})
    assert scrape(figures)[metrics.BUDGET.name][0][0]["currency"] == "USD"
    for without in ({}, {"limits": {"budget": "60.00"}}):
        stored_analysis.observe(figures, KEY, benchmark() | {"spec": without})
        assert metrics.BUDGET.name not in scrape(figures)


def test_times_advice_comparison_and_environment_of_a_study_have_series() -> None:
    figures = exporter.Series()
    shown = {"pool": "spot", "time": "1 h"}
    best = {
        "pool": "spot", "workers": 8, "setting": "batch 64", "predicted": True, "sure": False, "tied": 2,
        "hours": {"mean": 1.0}, "shown": shown,
    }  # fmt: skip
    points = {"passed": 3, "failed": 1}
    compared = {"baseline": "a", "tolerance": "0.05", "verdict": "Fail", "points": points, "sentence": "..."}
    stored_analysis.observe(
        figures,
        KEY,
        benchmark(
            startTime="2026-11-01T12:00:00Z",
            completionTime="2026-11-01T13:00:00Z",
            best=best,
            comparison=compared,
            environments=[{"environment": "abc", "driver": "560.1"}],
        ),
    )
    series = scrape(figures)
    assert series[metrics.FINISHED.name][0][1] - series[metrics.STARTED.name][0][1] == 3600.0
    ((advised, one),) = series[metrics.BEST.name]
    assert one == 1.0
    assert (advised["workers"], advised["predicted"], advised["sure"], advised["tied"]) == ("8", "true", "false", "2")
    verdicts = {labels["verdict"]: value for labels, value in series[metrics.COMPARISON.name]}
    assert verdicts == {"Pass": 3.0, "Fail": 1.0, "CannotTell": 0.0, "NotCompared": 0.0}
    ((facts, _),) = series[metrics.ENVIRONMENT.name]
    assert (facts["environment"], facts["driver"], facts["cuda"]) == ("abc", "560.1", "")
    for name in (metrics.BEST.name, metrics.COMPARISON.name, metrics.ENVIRONMENT.name, metrics.STARTED.name):
        expected = next(set(metric.labels) for metric in metrics.CATALOGUE if metric.name == name)
        assert all(set(labels) == expected for labels, _ in series[name])


def test_the_bounds_of_the_catalogue_are_those_of_the_schema() -> None:
    warned = [{"reason": reason, "message": "x"} for reason in ("Trend", "WeakNode", "Straggler")]
    parts = dict.fromkeys(BillParts.model_fields, "1.00")
    goals = [{"name": f"goal {n}", "hours": interval(1.0)} for n in range(4)]
    full = {**TRAINED, "warnings": warned, "goals": goals, "bill": {"total": "9.00", "currency": "USD", "attempts": 1}}
    full["bill"]["parts"] = {alias(name): amount for name, amount in parts.items()}
    full["scaling"] = [{**line, "kind": kind} for line in POINT["scaling"] for kind in ("weak", "strong")]
    used = {**SPOT, "nodeSeconds": {alias(name): 1.0 for name in NodeSeconds.model_fields}}
    conditions = [
        {"type": f"C{n}", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "2026-11-01T12:00:00Z"}
        for n in range(8)
    ]
    figures = exporter.Series()
    many = [{**full, "workers": n, "pool": "pool-0", "capacityType": "Spot"} for n in range(1, POINTS_MAX + 1)]
    pools = [{**used, "pool": f"pool-{n}"} for n in range(POINTS_MAX)]
    counts = {"attempts": {"started": 1}, "trials": {"total": 1}}
    stored_analysis.observe(
        figures, KEY, benchmark(results=many, goodput={"pools": pools}, conditions=conditions, **counts)
    )
    found = {name: len(series) for name, series in scrape(figures).items()}
    most = {metric.name: metric.series_max for metric in metrics.CATALOGUE}
    assert {name: count for name, count in found.items() if count > most[name]} == {}
    for metric in (metrics.THROUGHPUT, metrics.EFFICIENCY, metrics.BILLED, metrics.WARNINGS, metrics.GOAL,
                   metrics.NODE_SECONDS, metrics.CONDITION, metrics.POINTS, metrics.INTERRUPTIONS):  # fmt: skip
        assert found[metric.name] == most[metric.name], metric.name


def test_units_stand_in_the_names() -> None:
    for metric in metrics.CATALOGUE:
        assert (metric.kind is metrics.Kind.COUNTER) == metric.name.endswith("_total"), metric.name
        assert (metric.kind is metrics.Kind.HISTOGRAM) == bool(metric.buckets), metric.name
    units = {metric.name: metric.unit for metric in metrics.CATALOGUE}
    assert units["gpubench_goal_seconds"] is metrics.Unit.SECONDS
    assert units["gpubench_interruptions_per_node_hour"] is metrics.Unit.PER_HOUR
    assert units["gpubench_effective_price_per_node_hour"] is metrics.Unit.AMOUNT
    assert units["gpubench_started_timestamp_seconds"] is metrics.Unit.TIME
    assert len(units) == len(metrics.CATALOGUE), "no name stands twice"


def test_a_scrape_is_clean_openmetrics() -> None:
    figures, registry = exporter.Series(), prometheus_client.CollectorRegistry()
    exporter.Health(registry).reconciled("done", 0.1)
    stored_analysis.observe(figures, KEY, benchmark(results=[TRAINED], startTime="2026-11-01T12:00:00Z"))
    text = b"".join(server.parts(registry, figures, openmetrics.exposition.generate_latest)).decode()
    read = openmetrics.parser.text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    families = {family.name: family for family in read}
    assert families["gpubench_operator_reconciles"].type == "counter"
    assert families["gpubench_started_timestamp_seconds"].samples[0].value == 1793534400.0


async def test_a_scrape_that_takes_long_holds_nothing_else_up() -> None:
    class Slow(prometheus_client.registry.Collector):
        """It ends when the operator has answered somebody else meanwhile."""

        began, answered, came_first = threading.Event(), threading.Event(), False

        def collect(self) -> Iterator[prometheus_client.Metric]:
            self.began.set()
            self.came_first = self.answered.wait(10)
            yield from ()

    slow, registry = Slow(), prometheus_client.CollectorRegistry(auto_describe=False)
    registry.register(slow)
    figures = exporter.Series()
    serving = server.Server(registry, figures, healthy=lambda: (True, "leading"), ready=lambda: (True, ""))
    address = f"http://127.0.0.1:{await serving.start(address='127.0.0.1', port=0)}"
    async with aiohttp.ClientSession() as session:
        scraping = asyncio.create_task(session.get(f"{address}/metrics"))
        assert await asyncio.to_thread(slow.began.wait, 10)
        async with session.get(f"{address}/healthz") as answer:
            assert await answer.text() == "leading\n"
        slow.answered.set()
        (await scraping).release()
    await serving.stop()
    assert slow.came_first


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
async def test_what_is_kept_written_of_studies_is_what_a_registry_would_write(accept: str) -> None:
    figures, health = exporter.Series(), prometheus_client.CollectorRegistry()
    exporter.Health(health)
    serving = server.Server(health, figures, healthy=lambda: (True, ""), ready=lambda: (True, ""))
    address = f"http://127.0.0.1:{await serving.start(address='127.0.0.1', port=0)}/metrics"
    encode, kind = prometheus_client.exposition.choose_encoder(accept)

    class Direct(prometheus_client.registry.Collector):
        """All samples, without lines that are kept."""

        def collect(self) -> Iterator[prometheus_client.Metric]:
            samples = exporter.Samples()
            for name, found in sorted(there.items()):
                full = FullStatus.model_validate(found["status"])
                short = GpuBenchmarkStatus.model_validate(stored_analysis.short(full))
                for more in (
                    exporter.progress_samples(("default", name), short, None),
                    exporter.analysis_samples(("default", name), full),
                ):
                    for family, values in more.items():
                        samples.setdefault(family, []).extend(values)
            yield from samples.collect()

    async def require_same() -> None:
        direct = Direct()
        health.register(direct)
        expected = read(encode(health).decode(), accept)
        health.unregister(direct)
        async with aiohttp.ClientSession() as session, session.get(address, headers={"Accept": accept}) as answer:
            assert answer.headers["Content-Type"] == kind
            assert read(await answer.text(), accept) == expected

    odd = {**TRAINED, "workload": 'a "\\\n# HELP gpubench_trials b'}
    there: dict[str, kube.Object] = {}

    async def observe(number: int, results: list[dict[str, Any]]) -> None:
        there[f"b-{number}"] = benchmark(results=results)
        key = queue.benchmark_key("default", f"b-{number}")
        stored_analysis.observe(figures, key, there[key.name])
        await require_same()

    for number, results in enumerate(([], [POINT], [TRAINED, odd], [POINT, TRAINED])):
        await observe(number, results)
    await observe(3, [{**POINT, "workers": 4}])
    figures.drop(queue.benchmark_key("default", "b-2"))
    del there["b-2"]
    await require_same()
    await serving.stop()


def read(text: str, accept: str) -> dict[str, tuple[str, str, list[Any]]]:
    """Families by name, with type, help and samples; OpenMetrics' own parser wants a whole page with its end."""
    parse = openmetrics.parser if "openmetrics" in accept else parser
    families = list(parse.text_string_to_metric_families(text))
    assert len({family.name for family in families}) == len(families), "each once"
    return {family.name: (family.type, family.documentation, sorted(map(repr, family.samples))) for family in families}


def alias(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
