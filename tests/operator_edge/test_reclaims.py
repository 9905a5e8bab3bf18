# SPDX-License-Identifier: Apache-2.0
"""A notice, and the death of the machine after it, while real ranks train: on a real control plane.

Each node has a program of its own, which is its kubelet and its machine.
"""

import json
import math
import sys
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path
from typing import Any

import pytest

import installation
import studies
from cluster import Cluster, Image, Node
from gpubench import names
from gpubench.scheduler import account
from gpubench_cluster import kube

Place = Any

POOL, IMAGE, WORKERS = "spot", "gpubench-jobs:dev", 2
NOTICE = {"key": "aws-node-termination-handler/spot-itn", "value": "i-0123", "effect": "NoSchedule"}
TRAINS_SECONDS = 240.0  # `import tensorflow` in two pods, beside whatever else runs on this machine
SIZE = {"storage": "1Gi"}
STORAGE = {"accessModes": ["ReadWriteMany"], "storageClassName": "manual"}


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [
        Node(name=f"{POOL}-{n}", labels={"pool": POOL}, cores=(n % 2,), program=f"processnode-{n}")
        for n in range(WORKERS + 1)
    ]
    images = {IMAGE: Image(path=(Path(sys.executable).parent,), env=installation.POD_ENVIRONMENT)}
    with Cluster.start(tmp_path_factory.mktemp("reclaims"), nodes=nodes, images=images) as running:
        yield running


@pytest.fixture(scope="module")
def operator(equipped: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[installation.Operator]:
    """With a list of the nodes that comes too late for any notice: the watch must tell."""
    settings = {**installation.ALONE, "GPUBENCH_LOG_FORMAT": "text", "GPUBENCH_NODE_POLL_SECONDS": "600"}
    log = tmp_path_factory.mktemp("log") / "operator.log"
    with installation.running_operator(equipped, log=log, settings=settings) as running:
        yield running


def make_claim(place: Place, folder: Path) -> None:
    claims = f"/api/v1/namespaces/{place.namespace}/persistentvolumeclaims"
    volume = {"capacity": SIZE, "hostPath": {"path": str(folder)}, **STORAGE}
    for path, kind, spec in (
        ("/api/v1/persistentvolumes", "PersistentVolume", volume),
        (claims, "PersistentVolumeClaim", {"resources": {"requests": SIZE}, **STORAGE}),
    ):
        place.cluster.request(
            "POST", path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": "runs"}, "spec": spec}
        )


def said(place: Place, attempt: int, kind: str) -> dict[str, Any]:
    """The last record of this kind in the log of the first pod of an attempt."""
    label = {names.LABEL_ATTEMPT: str(attempt), "batch.kubernetes.io/job-completion-index": "0"}
    selected = ",".join(f"{key}={value}" for key, value in label.items())
    log = place.cluster.kubectl("logs", "-n", place.namespace, "-l", selected, "--tail=-1", check=False).stdout
    found: dict[str, Any] = {}
    for line in log.splitlines():
        if line.startswith("{") and f'"kind":"{kind}"' in line:
            found = json.loads(line)
    return found


def test_a_notice_before_a_nodes_death_keeps_a_last_checkpoint_and_counts_as_a_reclaim(
    place: Place, tmp_path: Path
) -> None:
    make_claim(place, tmp_path)
    place.apply(
        studies.pool(
            POOL, maxNodes=WORKERS + 1, capacityType="Spot", template={"image": IMAGE},
            slot={"cpu": "1", "memory": "1Gi"}, scheduling={"nodeSelector": {"pool": POOL}},
        )
    )  # fmt: skip
    block = {
        "workloads": ["mnist_mlp"], "pools": [POOL], "workers": [WORKERS], "batchPerWorker": [32],
        "data": {"source": "Generated", "samples": 20_000}, "epochs": 1000,
    }  # fmt: skip
    place.apply(
        studies.benchmark(
            sweep=[block],
            measure={"mode": "Training", "repeats": {"min": 1}},
            checkpoint={"volume": {"claimName": "runs"}, "interval": "1h"},  # none but a last one
        )
    )
    place.wait(lambda: said(place, 1, "window"), what="a gang that trains", seconds=TRAINS_SECONDS)
    doomed = max(pod["spec"]["nodeName"] for pod in place.all(kube.PODS))
    path, program = kube.NODES.path(name=doomed), doomed.replace(POOL, "processnode")
    place.cluster.request("PATCH", path, {"spec": {"taints": [NOTICE]}}, content_type="application/merge-patch+json")

    # The provider takes the machine when its time is over, and with it whatever ran there.
    first = place.wait(lambda: next((one for one in place.entries() if one.get("outcome")), None), what="an end")
    place.wait(
        lambda: all(pod["metadata"]["labels"][names.LABEL_ATTEMPT] != "1" for pod in place.all(kube.PODS)),
        what="a gang that has ended",
    )
    place.cluster.kill(program)
    place.cluster.kubectl("delete", "node", doomed)
    try:
        resumed = place.wait(lambda: said(place, 2, "resumed"), what="another attempt", seconds=TRAINS_SECONDS)
        place.patch_spec("quick", suspend=True)
        place.wait(
            lambda: [one.get("outcome") and one["holding"] for one in place.entries()] == [[], []],
            what="two ends, and those of their pods",
        )
        first, second = place.entries()
        status = place.wait(
            lambda: (found := place.status("quick"))["spent"]["amount"] == spent(found, first, second) and found,
            what="a bill of just that",
        )
    finally:
        place.cluster.restart(program)

    assert (first["outcome"], first["reason"], first["interruption"]) == ("Preempted", "NodeLeaving", "Reclaim")
    assert "drilled" not in first
    assert f"node {doomed} of pod" in first["sentence"]
    assert resumed["attempt"] == 1
    assert resumed["step"] > 0
    assert status["attempts"]["interruptions"] == {"total": 1, "reclaimed": 1, "evicted": 0, "nodesLost": 0}
    assert doomed not in second["nodes"]
    assert status["attempts"]["stopped"] == 1
    assert [(len(one["podTimes"]), one["unseen"]) for one in (first, second)] == [(WORKERS, 0)] * 2


def spent(status: dict[str, Any], *entries: dict[str, Any]) -> str:
    """Each node is billed by whole seconds, as its pod's times have it to the millisecond. Three digits are shown."""
    times = [Decimal(f"{until - since:.3f}") for one in entries for since, _, until in one["podTimes"]]
    bill = sum(map(math.ceil, times)) * Decimal(status["prices"][0]["perNodeHour"]) / 3600
    return account.text(Context(prec=3, rounding=ROUND_HALF_UP).create_decimal(bill))
