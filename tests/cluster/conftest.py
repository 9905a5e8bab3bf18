# SPDX-License-Identifier: Apache-2.0
"""One cluster for all tests of this folder: starting it is cheap, but not free.

What may not happen here: a wait without a bound.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cluster as clusters
import kept
from cluster_pods import IMAGE, Pods, wait_for

PRETEND_TAINT = "example.com/pretend=true:NoSchedule"
NODES = (
    clusters.Node(name="process-0", labels={"place": "process"}, cores=(0,), capacity={"cpu": "2"}),
    clusters.Node(name="process-1", labels={"place": "process"}, cores=(1,), capacity={"cpu": "2"}),
    clusters.Node(
        name="pretend-0",
        labels={"place": "pretend"},
        taints=(PRETEND_TAINT,),
        capacity={"cpu": "640", "pods": "1000", "nvidia.com/gpu": "8"},
        pretend=True,
    ),
)


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> clusters.Cluster:
    return kept.running("running_cluster", _running_cluster(tmp_path_factory))


@contextlib.contextmanager
def _running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[clusters.Cluster]:
    directory = tmp_path_factory.mktemp("cluster")
    with clusters.Cluster.start(directory, nodes=NODES, images={IMAGE: image()}) as running:
        yield running


@pytest.fixture
def pods(running_cluster: clusters.Cluster, request: pytest.FixtureRequest) -> Iterator[Pods]:
    namespace = request.node.name.removeprefix("test_").replace("_", "-")[:50].strip("-")
    running_cluster.kubectl("create", "namespace", namespace)
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

    def account_exists() -> bool:  # admission refuses pods before
        try:
            return bool(running_cluster.request("GET", account))
        except clusters.ApiError:
            return False

    wait_for(account_exists, what="the namespace's service account")
    yield Pods(running_cluster, namespace)
    running_cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")


def image() -> clusters.Image:
    """The interpreter that runs the tests, as `python`, and nothing else but the system's programs."""
    return clusters.Image(
        path=(Path(sys.executable).parent, "/usr/bin", "/bin"),
        env={"FROM_IMAGE": "yes", "PYTHONDONTWRITEBYTECODE": "1"},
        entrypoint=("python", "-c", "print('entry point')"),
    )
