# SPDX-License-Identifier: Apache-2.0
"""A fleet check over six nodes on a real control plane: each is measured once, by itself, and the slow one is named.

The nodes run processes; the worker is the stand-in, which is three tenths slower on one of them.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import installation
import stored_analysis
import studies
from cluster import Cluster, Image, Node
from gpubench import names
from gpubench.plan import expand
from gpubench.schedule import runs
from gpubench_cluster import kube

SLOW = "fleet-3"
NODES = tuple(f"fleet-{number}" for number in range(6))
SETTINGS = {
    **installation.ALONE,
    "GPUBENCH_LOG_FORMAT": "text",
    "GPUBENCH_NODE_POLL_SECONDS": "2",
    "GPUBENCH_RESYNC_SECONDS": "2",
}
WAIT_SECONDS = 120.0


@pytest.fixture
def fleet(tmp_path: Path, stand_in_image: Image) -> Iterator[Cluster]:
    fleet = [Node(name=name, labels={"pool": "fleet"}, cores=(0,)) for name in NODES]
    nodes = (*fleet, Node(name="repaired", labels={"pool": "fleet", "example.com/repair": "now"}, cores=(0,)))
    with Cluster.start(tmp_path / "cluster", nodes=nodes, images={expand.DEFAULT_IMAGE: stand_in_image}) as cluster:
        log = tmp_path / "operator.log"
        with installation.running_operator(cluster, log=log, settings=SETTINGS):
            yield cluster


def apply(cluster: Cluster) -> None:
    """A schedule whose last run was long ago, so that one is due now."""
    sweep = [
        {
            "workloads": ["mnist_cnn"],
            "pools": ["fleet"],
            "workers": [1],
            "batchPerWorker": [64],
            "placement": "EachNode",
        }
    ]
    healthy = {"matchExpressions": [{"key": "example.com/repair", "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [healthy]}}
    template = {
        "sweep": sweep,
        "scheduling": {"nodeAffinity": required},
        "measure": {"repeats": {"min": 1}, "warmUp": "1s", "duration": "2s"},
        "limits": {"parallelTrials": 6},
        "template": {"env": [{"name": "STAND_IN_SLOW_NODE", "value": SLOW}]},
    }
    spec = {"schedule": "0 0 1 1 *", "suspend": True, "benchmarkTemplate": {"spec": template}}
    schedule = {
        "apiVersion": names.API_VERSION,
        "kind": names.SCHEDULE_KIND,
        "metadata": {"name": "fleet"},
        "spec": spec,
    }
    cluster.request("POST", kube.POOLS.path(), studies.pool("fleet", maxNodes=6))
    cluster.request("POST", kube.SCHEDULES.path(namespace="default"), schedule)
    path = kube.SCHEDULES.path(namespace="default", name="fleet")
    patch(cluster, f"{path}/status", {"status": {"lastScheduleTime": "2025-06-01T00:00:00Z"}})
    patch(cluster, path, {"spec": {"suspend": False}})


def patch(cluster: Cluster, path: str, change: Any) -> None:
    cluster.request("PATCH", path, change, content_type="application/merge-patch+json")


def wait(look: Callable[[], Any], *, what: str) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS:g} s"
        time.sleep(0.3)
    return found


def test_a_fleet_check_over_six_nodes_names_the_slow_one(fleet: Cluster) -> None:
    apply(fleet)
    path = kube.SCHEDULES.path(namespace="default", name="fleet")
    slow = wait(lambda: fleet.request("GET", path).get("status", {}).get("slowNodes"), what="a slow node")
    assert [(one["node"], one["nodes"]) for one in slow] == [(SLOW, 6)]
    (run,) = fleet.request("GET", kube.BENCHMARKS.path(namespace="default"))["items"]
    results = stored_analysis.of_cluster(partial(fleet.request, "GET"), namespace="default", name=kube.name_of(run))[
        "results"
    ]
    assert sorted(result["node"] for result in results) == sorted(NODES)
    jobs = fleet.request("GET", kube.JOBS.path(namespace="default"))["items"]
    pods = fleet.request("GET", kube.PODS.path(namespace="default"))["items"]
    assert len(jobs) == len(NODES)
    assert sorted(pod["spec"]["nodeName"] for pod in pods) == sorted(NODES)  # each point ran where it belongs

    def is_told() -> bool:
        events = fleet.request("GET", kube.EVENTS.path(namespace="default"))["items"]
        return any(event["reason"] == runs.SLOW_NODE for event in events)

    wait(is_told, what="an Event about it")
