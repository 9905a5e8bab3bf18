# SPDX-License-Identifier: Apache-2.0
"""Spot and on-demand nodes behind one selector, on a real control plane: what was got is said wherever it is read.

Labels are those that Karpenter writes, written by hand. Pods pretend.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import installation
import stored_analysis
import studies
from cluster import Cluster, Node
from gpubench import names
from gpubench_cluster import kube

Place = Any

CAPACITY, ZONE = "karpenter.sh/capacity-type", names.LABEL_ZONE
SETTINGS = {**installation.ALONE, "GPUBENCH_LOG_FORMAT": "text", "GPUBENCH_NODE_POLL_SECONDS": "1"}
SAID = f"spot ({CAPACITY}=spot), and the pool says OnDemand"


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    capacity = {"cpu": "8", "memory": "64Gi"}
    nodes = [
        Node(name=kind, labels={"pool": "mixed", ZONE: kind[:2], CAPACITY: kind}, capacity=capacity, pretend=True)
        for kind in ("on-demand", "spot")
    ]
    with Cluster.start(tmp_path_factory.mktemp("got") / "cluster", nodes=nodes) as running:
        yield running


@pytest.fixture(scope="module")
def operator(equipped: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[installation.Operator]:
    log = tmp_path_factory.mktemp("log") / "operator.log"
    with installation.running_operator(equipped, log=log, settings=SETTINGS) as running:
        yield running


def sweep(*pools: str, workers: int) -> list[dict[str, Any]]:
    return [{"workloads": ["mnist_cnn"], "pools": list(pools), "workers": [workers], "batchPerWorker": [64]}]


def test_a_gang_on_spot_and_on_demand_nodes_of_one_pool_says_what_it_got(place: Place) -> None:
    place.apply(studies.pool("mixed", maxNodes=2))
    place.apply(studies.benchmark(repeats=1, sweep=sweep("mixed", workers=2)))
    place.wait(lambda: place.entries() and place.entries()[0].get("nodes"), what="the nodes of the attempt")
    place.end_study("quick")
    (entry,) = place.entries()
    assert sorted(one["capacity"] for one in entry["machines"]) == ["OnDemand", "Spot"]
    get = partial(place.cluster.request, "GET")
    (result,) = stored_analysis.of_cluster(get, namespace=place.namespace, name="quick")["results"]
    messages = {one["reason"]: one["message"] for one in result["warnings"]}
    assert messages["PoolMismatch"].startswith(f"ran on {SAID}")

    def condition() -> bool:
        status = get(kube.POOLS.path(name="mixed")).get("status") or {}
        said = {one["type"]: (one["status"], one["message"]) for one in status.get("conditions") or []}
        return said.get("Ready") == ("True", f"2 of 2 matching nodes take pods; spot is {SAID}")

    place.wait(condition, what="the pool's condition")


def test_pools_of_which_one_takes_the_nodes_of_the_other_wait_and_are_named(place: Place) -> None:
    place.apply(studies.pool("mixed", maxNodes=2))
    spot = {"nodeSelector": {"pool": "mixed", CAPACITY: "spot"}}
    place.apply(studies.pool("narrow", maxNodes=2, capacityType="Spot", scheduling=spot))
    place.apply(studies.benchmark("both", repeats=1, sweep=sweep("mixed", "narrow", workers=1)))

    def refused() -> str | None:
        conditions = place.status("both").get("conditions") or []
        return next((one["message"] for one in conditions if one["reason"] == "PoolsOverlap"), None)

    message = place.wait(refused, what="the refusal")
    assert message.startswith("GpuPool mixed takes every node of GpuPool narrow, and they differ in capacityType: ")
    assert place.all(kube.JOBS) == []


def test_pools_that_only_share_a_node_run_and_that_node_is_named(place: Place) -> None:
    place.apply(studies.pool("mixed", maxNodes=2))
    place.apply(studies.pool("zonal", maxNodes=2, capacityType="Spot", scheduling={"nodeSelector": {ZONE: "sp"}}))
    place.apply(studies.benchmark("both", repeats=1, sweep=sweep("mixed", "zonal", workers=1)))

    def is_named() -> bool:
        status = place.cluster.request("GET", kube.POOLS.path(name="mixed")).get("status") or {}
        said = [one["message"] for one in status.get("conditions") or [] if one["type"] == "Ready"]
        return any("spot is a node of GpuPool zonal, too, of another capacityType" in one for one in said)

    place.wait(is_named, what="the shared node in the pool's condition")
    place.end_study("both")
    assert place.status("both")["attempts"]["succeeded"] == 2
