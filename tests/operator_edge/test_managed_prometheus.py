# SPDX-License-Identifier: Apache-2.0
"""Managed Prometheus of Google, as far as it can be had here: a real Prometheus with the labels that it sets, and never
honour of ours; with the rules and the labels of pods that the chart renders for it.

Two benchmarks of one name in two namespaces must stay two: in series, rules, alerts and the queries of dashboards.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import prometheus_client
import pytest
import yaml

import frames
import gangs
import helm_programs
import prometheus_server
import promql_labels
import rendering
import stored_analysis
import value_sets
import watched_study
from gpubench import names
from gpubench_dashboards import rules
from gpubench_jobs.worker import sampling
from gpubench_operator import exporter, queue, server
from prometheus_server import Prometheus

SAMPLES = {"team-a": (100.0, 180.0), "team-b": (100.0, 120.0)}  # a second, with one worker and with two
SPENT = {"team-a": "1.00", "team-b": "95.00"}
COMPUTING = {"team-a": (1.0, 1.0, 1.0), "team-b": (1.0, 1.0, 3.0)}  # seconds of a step, by rank
NAME = "same"
BOARDS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(watched_study.DASHBOARDS.glob("*.json"))]


def point(workers: int, throughput: float, efficiency: float) -> dict[str, Any]:
    return {
        "workload": "resnet50",
        "pool": "spot",
        "accelerator": "L4",
        "precision": "float32",
        "state": "Measured",
        "workers": workers,
        "workersPerNode": 1,
        "batchPerWorker": 64,
        "globalBatch": 64 * workers,
        "throughput": {"mean": throughput},
        "scaling": [{"kind": "weak", "baselineWorkers": 1, "efficiency": {"mean": efficiency}}],
    }


def observed() -> exporter.Series:
    """Both benchmarks, as an operator sees them."""
    found = exporter.Series()
    for namespace, (one, two) in SAMPLES.items():
        status = {
            "trials": {"total": 2, "finished": 1, "running": 1},
            "conditions": [
                {
                    "type": "Finished",
                    "status": "False",
                    "reason": "Running",
                    "message": "",
                    "lastTransitionTime": "2026-11-24T00:00:00Z",
                }
            ],
            "spent": {"amount": SPENT[namespace], "currency": "USD", "clock": "Jobs"},
            "results": [point(1, one, 1.0), point(2, two, two / 2 / one)],
        }
        body = {
            "metadata": {"name": NAME, "namespace": namespace, "uid": namespace},
            "spec": {"limits": {"budget": "100"}, "currency": "USD"},
            "status": status,
        }
        stored_analysis.observe(found, queue.benchmark_key(namespace, NAME), body)
    return found


def targets(addresses: dict[str, list[str]], monitoring: dict[str, Any]) -> list[dict[str, Any]]:
    """Of the operator and of each rank's port, with the labels of a target that Managed Prometheus sets."""
    told = monitoring["spec"]["targetLabels"]
    found = []
    for namespace, of_namespace in addresses.items():
        pod = {"namespace": namespace, "pod": f"{namespace}-pod", "container": "gang", "node": f"{namespace}-node"}
        labels = {names.LABEL_BENCHMARK: NAME, names.LABEL_POOL: "spot"}
        from_pod = {one["to"]: labels[one["from"]] for one in told["fromPod"]} if namespace in SAMPLES else {}
        found += [
            {
                "targets": [address],
                "labels": {
                    "project_id": "p",
                    "location": "europe-west4",
                    "cluster": "c",
                    "job": "gpubench",
                    "instance": address,
                    "namespace": namespace,
                    **{name: pod[name] for name in told["metadata"]},
                    **from_pod,
                },
            }
            for address in of_namespace
        ]
    return found


@pytest.fixture
async def prometheus(tmp_path: Path) -> AsyncIterator[Prometheus]:
    """It has scraped both benchmarks' figures from the operator and from three ranks each, and recorded its rules."""
    objects = rendering.objects(
        rendering.template(
            helm_programs.build()["helm4"],
            {"crds": {"enabled": False}, "metrics": {"podMonitoring": {"enabled": True, "interval": "1s"}}},
            apis=(value_sets.GOOGLE,),
        )
    )
    (monitoring,) = rendering.of_kind(objects, "ClusterPodMonitoring")
    files = [tmp_path / f"{body['metadata']['name']}.yaml" for body in rendering.of_kind(objects, "ClusterRules")]
    for path, body in zip(files, rendering.of_kind(objects, "ClusterRules"), strict=True):
        path.write_text(yaml.safe_dump(body["spec"]), encoding="utf-8")
    serving = server.Server(
        prometheus_client.CollectorRegistry(), observed(), healthy=lambda: (True, ""), ready=lambda: (True, "")
    )
    port = await serving.start(address="::", port=0)
    addresses = {"gpubench-system": [f"[::1]:{port}"]}
    for number, (namespace, seconds) in enumerate(COMPUTING.items()):
        pod_ip = f"127.66.{number}.1"  # whichever equal port has each of two pods
        addresses[namespace] = [f"{pod_ip}:{names.PORT_METRICS + rank}" for rank in range(len(seconds))]
        for rank, own in enumerate(seconds):
            live = sampling.LiveMetrics(
                gangs.make_assignment(workers=3, workers_per_node=3), rank=rank, namespace=namespace
            )
            live.computed(own)
            live.window(steps=1, seconds=4.0, loss=1.0)
            live.serve(address=pod_ip, local_rank=rank)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in files],
        "scrape_configs": [
            {"job_name": "gmp", "honor_labels": False, "static_configs": targets(addresses, monitoring)}
        ],
    }
    with prometheus_server.running(tmp_path / "prometheus", config) as running:
        whole = (
            f'count({rules.RULES[-2].record}{{benchmark_namespace=~".+"}}) == 6'
            ' and on () ALERTS{alertname="GpubenchBudgetNearlySpent"} and on () ALERTS{alertname="GpubenchStraggler"}'
        )
        await asyncio.to_thread(
            watched_study.wait, lambda: running.query(whole), what="rules and alerts of both benchmarks", seconds=60
        )
        yield running
    await serving.stop()


def values(found: list[dict[str, Any]], *labels: str) -> dict[tuple[str, ...], float]:
    keyed = {tuple(one["metric"][label] for label in labels): float(one["value"][1]) for one in found}
    assert len(keyed) == len(found), "two series of one benchmark and rank"
    return keyed


async def test_two_benchmarks_of_one_name_stay_two(prometheus: Prometheus) -> None:
    ask = prometheus.query
    every = await asyncio.to_thread(ask, '{__name__=~"gpubench_.+"}')
    assert {one["metric"]["benchmark_namespace"] for one in every} == set(SAMPLES)
    assert not [one for one in every for label in one["metric"] if label.startswith("exported_")]
    of_operator = [one["metric"] for one in every if "worker" not in one["metric"]["__name__"]]
    assert {one["namespace"] for one in of_operator} == {"gpubench-system"}  # the pod's, as Google has it
    spent = await asyncio.to_thread(ask, "study:gpubench_spent:of_budget_ratio")
    assert values(spent, "benchmark_namespace") == {("team-a",): 0.01, ("team-b",): 0.95}
    derived = await asyncio.to_thread(ask, "point:gpubench_scaling_efficiency_ratio:derived")
    assert values(derived, "benchmark_namespace", "point") == pytest.approx(
        {
            (namespace, f"resnet50/spot/{workers}"): value
            for namespace, two in (("team-a", 0.9), ("team-b", 0.6))
            for workers, value in ((1, 1.0), (2, two))
        }
    )
    behind = await asyncio.to_thread(ask, "rank:gpubench_worker_compute:behind_ratio")
    assert values(behind, "benchmark_namespace", "rank") == {
        **{("team-a", str(rank)): 0.0 for rank in range(3)},
        ("team-b", "0"): 0.0,
        ("team-b", "1"): 0.0,
        ("team-b", "2"): 2.0,
    }
    alarms = await asyncio.to_thread(ask, "ALERTS")
    assert {(one["metric"]["alertname"], one["metric"].get("benchmark_namespace")) for one in alarms} >= {
        ("GpubenchBudgetNearlySpent", "team-b"),
        ("GpubenchStraggler", "team-b"),
    }
    assert not [one for one in alarms if one["metric"].get("benchmark_namespace") == "team-a"]
    assert {rule["health"] for rule in await asyncio.to_thread(prometheus.rules)} == {"ok"}


async def test_a_dashboard_shows_the_benchmark_that_was_chosen_and_no_other(prometheus: Prometheus) -> None:
    shown = 0
    for target in [target for board in BOARDS for panel in frames.panels(board) for target in panel["targets"]]:
        if "$benchmark_namespace" not in target["expr"]:
            continue
        chosen = {
            namespace: await asyncio.to_thread(
                prometheus.query,
                promql_labels.substituted(target["expr"], benchmark_namespace=namespace, benchmark=NAME),
            )
            for namespace in (*SAMPLES, "of-nobody")
        }
        if "vector(0)" not in target["expr"]:
            assert chosen["of-nobody"] == [], target["expr"]
        seen = {
            namespace: {one["metric"].get("benchmark_namespace", namespace) for one in chosen[namespace]}
            for namespace in SAMPLES
        }
        assert all(found <= {namespace} for namespace, found in seen.items()), target["expr"]
        shown += all(map(bool, seen.values()))
    assert shown > 20
