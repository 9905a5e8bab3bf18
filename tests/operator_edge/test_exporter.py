# SPDX-License-Identifier: Apache-2.0
from typing import Any

import prometheus_client
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
