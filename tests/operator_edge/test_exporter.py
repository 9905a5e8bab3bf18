# SPDX-License-Identifier: Apache-2.0
"""What a scrape gives: the figures of the statuses with the labels of the catalogue, and nothing that was not found."""

from typing import Any

import prometheus_client
import pytest
from prometheus_client import parser

from gpubench import metrics
from gpubench_operator import exporter, keys, kube
from memory_world import World

KEY = keys.benchmark("default", "b")
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


def scrape(figures: exporter.Figures) -> dict[str, list[tuple[dict[str, str], float]]]:
    registry = prometheus_client.CollectorRegistry()
    registry.register(figures)
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in parser.text_string_to_metric_families(prometheus_client.generate_latest(registry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def benchmark(**status: Any) -> kube.Object:
    return {"metadata": {"name": "b", "namespace": "default"}, "status": status}


def test_a_point_has_its_figures_with_the_labels_of_the_catalogue() -> None:
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=[POINT]))
    series = scrape(figures)
    ((labels, value),) = series[metrics.THROUGHPUT.name]
    assert value == 100.0
    assert set(labels) == set(metrics.THROUGHPUT.labels)
    assert (labels["workers"], labels["batch_per_worker"]) == ("2", "64")
    assert series[metrics.COST.name][0][0]["currency"] == "USD"
    assert series[metrics.EFFICIENCY.name][0][0]["scaling"] == "weak"


def test_what_was_not_found_has_no_series() -> None:
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=[{**POINT, "throughput": {"mean": 1.0}}]))
    series = scrape(figures)
    for absent in (metrics.THROUGHPUT_LOW, metrics.EFFICIENCY_HIGH, metrics.COST_LOW):
        assert absent.name not in series


def test_a_point_that_never_settled_has_no_series_that_is_ranked() -> None:
    series = scrape_of({**POINT, "state": "Unstable"})
    ((labels, value),) = series.pop(metrics.UNSTABLE_THROUGHPUT.name)
    assert (labels["pool"], value) == ("spot", 100.0)
    assert series.keys() == {metrics.POINTS.name}
    assert metrics.UNSTABLE_THROUGHPUT.name not in scrape_of(POINT)


def test_what_the_machine_did_has_series_as_far_as_it_is_known() -> None:
    usage = {"gpu": {"utilization": 0.9, "watts": 700.0}, "host": {"processors": 1.5, "memoryPeak": 2_000_000_000}}
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


def test_warnings_of_a_status_of_before_are_counted_as_others() -> None:
    ((labels, value),) = scrape_of({**POINT, "warnings": ["the windows drifted by 4 %"]})[metrics.WARNINGS.name]
    assert (labels["reason"], value) == ("Other", 1.0)


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
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=list(points)))
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


def test_what_was_spent_has_its_currency_and_no_series_without_a_price() -> None:
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(spent={"amount": "12.31", "currency": "EUR", "clock": "of pods"}))
    (found,) = scrape(figures)[metrics.SPENT.name]
    assert found == ({"namespace": "default", "benchmark": "b", "currency": "EUR"}, 12.31)
    figures.observe(KEY, benchmark(results=[POINT]))
    assert metrics.SPENT.name not in scrape(figures)


def test_series_vanish_with_their_object() -> None:
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=[POINT]))
    figures.drop(KEY)
    assert scrape(figures) == {}


def test_a_status_of_another_version_is_left_out_and_harms_no_other() -> None:
    figures = exporter.Figures()
    figures.observe(keys.benchmark("default", "odd"), benchmark(results=[{"workload": 3}]))
    figures.observe(KEY, benchmark(results=[POINT]))
    assert len(scrape(figures)[metrics.THROUGHPUT.name]) == 1


async def test_attempts_add_up_while_a_study_runs_and_when_it_has_ended() -> None:
    world = World(repeats=1)
    await world.finish()
    series = scrape(world.figures)
    attempts = {labels["outcome"]: value for labels, value in series[metrics.ATTEMPTS.name]}
    assert attempts == {"succeeded": 2, "failed": 0, "preempted": 0, "stopped": 0, "running": 0}
    assert {labels["state"]: value for labels, value in series[metrics.POINTS.name]}["Measured"] == 2
    assert ({"namespace": "default", "benchmark": "quick", "condition": "Finished"}, 1.0) in series[
        metrics.CONDITION.name
    ]


def test_the_operators_own_metrics_are_those_of_the_catalogue() -> None:
    registry = prometheus_client.CollectorRegistry()
    health = exporter.Health(registry)
    health.reconciled("done", 0.1)
    health.requested("get", "jobs", "200")
    text = prometheus_client.generate_latest(registry).decode()
    own = [metric for metric in metrics.CATALOGUE if metric.name.startswith("gpubench_operator_")]
    assert own
    assert all(metric.name in text for metric in own)


def test_what_a_point_was_billed_has_a_series_for_each_part_also_where_it_has_no_other_figure() -> None:
    parts = {"measured": "0.75", "lost": "0.5"}
    bill = {"total": "1.25", "currency": "USD", "attempts": 3, "parts": parts}
    unstable, failed = (
        {**POINT, "state": state, "bill": bill, "workers": n} for n, state in ((1, "Unstable"), (2, "Failed"))
    )
    failed = {name: value for name, value in failed.items() if name not in ("throughput", "scaling", "cost")}
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=[unstable, failed]))
    series = scrape(figures)[metrics.BILLED.name]
    assert {(labels["workers"], labels["part"]): value for labels, value in series} == {
        ("1", "measured"): 0.75, ("1", "lost"): 0.5, ("2", "measured"): 0.75, ("2", "lost"): 0.5,
    }  # fmt: skip
    assert {labels["currency"] for labels, _ in series} == {"USD"}


def test_what_was_not_billed_has_no_series() -> None:
    figures = exporter.Figures()
    figures.observe(KEY, benchmark(results=[POINT]))
    assert metrics.BILLED.name not in scrape(figures)
