# SPDX-License-Identifier: Apache-2.0
"""Nodes that go while a gang runs on them, on a real control plane: a Node is deleted, a kubelet falls silent.

Each node has a program of its own, so that one can die alone. Pods pretend. The control plane misses a silent node
after seconds instead of a minute; what it does then is its own.
"""

import json
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import installation
import studies
from cluster import Cluster, Node
from gpubench import names
from gpubench.scheduler import account, ledger
from gpubench.units import epoch_seconds
from gpubench_cluster import kube

Place = Any

NODES = 3
POOL = "lone"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
SETTINGS = {
    **installation.ALONE,
    "GPUBENCH_LOG_FORMAT": "text",
    "GPUBENCH_NODE_POLL_SECONDS": "1",
    "GPUBENCH_NODE_SILENT_SECONDS": "30",  # the taint manager must be sooner, also on a busy machine
}
# The collector of orphaned pods looks every 20 s and waits for 40 s more; it took 60 s on a free machine.
LOSS_SECONDS = 180.0


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that misses a node after six seconds."""
    labels = {names.LABEL_INSTANCE_TYPE: "stand-in.large", names.LABEL_ZONE: "zone-0", "pool": POOL}
    nodes = [
        Node(
            name=f"{POOL}-{number}", labels=labels, capacity={"cpu": "8", "memory": "64Gi"}, pretend=True,
            program=f"processnode-{number}",
        )
        for number in range(NODES)
    ]  # fmt: skip
    quick = ("--node-monitor-grace-period=6s", "--node-monitor-period=1s")
    folder = tmp_path_factory.mktemp("lost-nodes") / "cluster"
    with Cluster.start(folder, nodes=nodes, heartbeat_seconds=1.0, controller_manager_flags=quick) as running:
        yield running


@pytest.fixture(scope="module")
def operator(equipped: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[installation.Operator]:
    log = tmp_path_factory.mktemp("log") / "operator.log"
    with installation.running_operator(equipped, log=log, settings=SETTINGS) as running:
        yield running


def start(place: Place, *, workers: int, **scheduling: Any) -> list[kube.Object]:
    """A study of one trial; its pods, which run."""
    selector = {"nodeSelector": {"pool": POOL}}
    place.apply(studies.pool(POOL, maxNodes=NODES, capacityType="Spot", scheduling=selector | scheduling))
    sweep = [{"workloads": ["mnist_cnn"], "pools": [POOL], "workers": [workers], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep))

    def running() -> list[kube.Object]:
        pods = [pod for pod in place.all(kube.PODS) if pod["status"].get("phase") == "Running"]
        return pods if len(pods) == workers else []

    pods: list[kube.Object] = place.wait(running, what="a gang that runs")
    placed = place.wait(lambda: first(place).get("nodes"), what="the nodes of the attempt in the ledger")
    assert sorted(placed) == sorted(pod["spec"]["nodeName"] for pod in pods)
    return pods


def first(place: Place) -> dict[str, Any]:
    """The entry of the first attempt; empty before there is one."""
    found: list[dict[str, Any]] = place.entries() or [{}]
    return found[0]


def lost(place: Place) -> dict[str, Any]:
    """The record of the first attempt, once it has ended."""
    place.wait(lambda: first(place).get("outcome"), what="the end of the attempt", seconds=LOSS_SECONDS)
    found: dict[str, Any] = first(place)
    return found


def program(node: str) -> str:
    return node.replace(POOL, "processnode")


def check_that_it_went_on(place: Place) -> None:
    place.end_study("quick")
    status = place.status("quick")
    attempts = status["attempts"]
    assert (attempts["preempted"], attempts["failed"], attempts["succeeded"]) == (1, 0, 1)
    assert attempts["interruptions"] == {"total": 1, "reclaimed": 0, "evicted": 0, "nodesLost": 1}
    (pool,) = status["goodput"]["pools"]
    assert (pool["pool"], pool["capacityType"], pool["interruptions"]["nodesLost"]) == (POOL, "Spot", 1)
    assert pool["nodeSeconds"]["lost"] > 0
    assert pool["perNodeHour"]["low"] < pool["perNodeHour"]["mean"] < pool["perNodeHour"]["high"]
    assert pool["recoverySeconds"]["count"] == 1
    series = place.operator.get("/metrics")
    assert f'benchmark="quick",benchmark_namespace="{place.namespace}",capacity_type="Spot",kind="NodeLost"' in series


def test_a_gang_whose_node_is_deleted_is_preempted_by_a_lost_node_and_runs_again_elsewhere(place: Place) -> None:
    pods = start(place, workers=2)
    gone = pods[1]["spec"]["nodeName"]
    place.cluster.kubectl("delete", "node", gone)
    try:
        record = lost(place)
        assert (record["outcome"], record["interruption"]) == ("Preempted", "NodeLost")
        assert gone in record["nodes"]  # though no cluster knows it any more
        assert record["instanceTypes"] == ["stand-in.large"]
        place.wait(lambda: len(place.entries()) == 2, what="another attempt")
        check_that_it_went_on(place)
    finally:
        place.cluster.restart(program(gone))


def test_a_gang_whose_node_falls_silent_for_good_is_given_up_though_nobody_takes_its_pod_away(place: Place) -> None:
    for_ever = [{"key": key, "operator": "Exists", "effect": "NoExecute"} for key in (UNREACHABLE, NOT_READY)]
    (pod,) = start(place, workers=1, tolerations=for_ever)
    silent = pod["spec"]["nodeName"]
    place.cluster.kill(program(silent))
    try:
        record = lost(place)
        assert (record["outcome"], record["reason"], record["interruption"]) == ("Preempted", "NodeLost", "NodeLost")
        assert record.get("disruption") is None
        assert f"node {silent} of pod {kube.name_of(pod)} is not ready" in record["sentence"]
        check_that_it_went_on(place)
        # It is told to end, nobody is there to end it, and nobody forces it: its slot counts as lost until then.
        (stuck,) = (one for one in place.all(kube.PODS) if kube.name_of(one) == kube.name_of(pod))
        assert stuck["metadata"]["deletionTimestamp"]
        assert stuck["spec"]["nodeName"] == silent
    finally:
        place.cluster.restart(program(silent))


def test_the_taint_manager_is_taken_at_its_word_that_it_was_for_a_silent_node(place: Place) -> None:
    soon = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in (UNREACHABLE, NOT_READY)
    ]
    (pod,) = start(place, workers=1, tolerations=soon)
    silent = pod["spec"]["nodeName"]
    place.cluster.kill(program(silent))
    try:
        record = lost(place)
        assert (record["outcome"], record.get("disruption")) == ("Preempted", "DeletionByTaintManager"), record
        assert record["interruption"] == "NodeLost"
        check_that_it_went_on(place)
    finally:
        place.cluster.restart(program(silent))


def test_a_trial_whose_node_is_gone_ends_at_once_also_by_an_operator_that_never_saw_the_node(place: Place) -> None:
    selector = {"nodeSelector": {"pool": POOL}}
    place.apply(studies.pool(POOL, maxNodes=NODES, scheduling=selector))
    block = {"workloads": ["mnist_cnn"], "pools": [POOL], "workers": [1], "batchPerWorker": [64]}
    place.apply(studies.benchmark(repeats=2, sweep=[block | {"placement": "EachNode"}]))

    def running() -> list[kube.Object]:
        return [pod for pod in place.all(kube.PODS) if pod["status"].get("phase") == "Running"]

    (pod,) = place.wait(running, what="the first trial")
    gone = next(node for node in (f"{POOL}-{n}" for n in range(NODES)) if node != pod["spec"]["nodeName"])
    place.operator.stop()
    place.cluster.kubectl("delete", "node", gone)
    place.operator.start()
    try:
        place.end_study("quick")
        results = {one["node"]: one for one in place.status("quick")["results"]}
        assert {node: one["state"] for node, one in results.items()} == {
            f"{POOL}-{n}": "NoCapacity" if f"{POOL}-{n}" == gone else "Measured" for n in range(NODES)
        }
        assert f"node {gone} is gone from the cluster" in results[gone]["reason"]
        assert place.status("quick")["attempts"]["failed"] == 1, "for good, and no other repeat of it is begun"
    finally:
        place.cluster.restart(program(gone))


# --- nodes that come --------------------------------------------------------------------------------------------------

GPUS = {"limits": {"nvidia.com/gpu": "1"}}


def kept_nodes(place: Place) -> dict[str, Any]:
    """The ledger's entry of nodes that came while the benchmark ran; empty before one has come."""
    shards = [body["data"] for body in place.all(kube.CONFIG_MAPS) if ledger.NewNodes.key in body.get("data", {})]
    return json.loads(shards[0][ledger.NewNodes.key]) if shards else {}


def there(place: Place) -> dict[str, tuple[float, bool]]:
    """When the nodes were created that are there, and whether a gang has run on them."""
    return {name: (created_at, has_run) for name, _, created_at, has_run in kept_nodes(place).get("there", ())}


def phases(place: Place) -> list[str]:
    return [pod["status"]["phase"] for pod in place.all(kube.PODS)]


def come(place: Place, name: str) -> float:
    """A node comes, as an autoscaler makes it; when it was created."""
    capacity = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2"}
    place.cluster.add_node(Node(name=name, labels={"pool": "late"}, capacity=capacity, pretend=True), images={})
    place.wait(lambda: name in there(place), what="the node in the ledger")
    created: str = place.cluster.request("GET", kube.NODES.path(name=name))["metadata"]["creationTimestamp"]
    assert there(place)[name][0] == epoch_seconds(created)
    return epoch_seconds(created)


def test_nodes_that_come_cost_from_their_creation_to_their_removal_or_the_end_of_the_benchmark(place: Place) -> None:
    slot = {"cpu": "1", "memory": "512Mi", "gpuResource": "nvidia.com/gpu"}
    place.apply(studies.pool("late", slot=slot))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["late"], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=2, sweep=sweep))
    place.wait(lambda: place.holds("quick", "GangPending"), what="a gang that waits for a node")
    leaves = come(place, "leaves")
    place.wait(lambda: there(place)["leaves"][1], what="the first trial")
    stays = come(place, "stays")

    place.operator.stop()  # and somebody else takes a GPU of the idle node
    container = {"name": "theirs", "image": "theirs", "resources": GPUS}
    body = {"metadata": {"name": "theirs"}, "spec": {"nodeName": "stays", "containers": [container]}}
    place.cluster.request("POST", kube.PODS.path(namespace=place.namespace), body)
    place.operator.start()
    place.wait(lambda: "stays" not in there(place), what="a node that only others use")

    place.cluster.kubectl("cordon", "leaves")
    place.wait(lambda: phases(place) == ["Running"], what="the first trial, running")
    place.end_pods()
    place.wait(lambda: "stays" in there(place), what="the second trial, on the other node")
    place.cluster.power_off("leaves")
    deleted = time.time()
    place.cluster.kubectl("delete", "node", "leaves")
    place.wait(lambda: "leaves" not in there(place), what="the end of the first node")
    place.end_study("quick")

    (gone,) = kept_nodes(place)["gone"]
    assert (gone["nodes"], gone["unseen"]) == (1, 0)
    assert deleted - leaves <= gone["seconds"] <= time.time() - leaves
    status = place.status("quick")
    found, ended = status["spent"]["nodes"], epoch_seconds(status["completionTime"])
    assert found["count"] == 2
    assert found["nodeHours"] == pytest.approx((gone["seconds"] + ended - stays) / 3600, abs=0.0001)
    billed = Decimal(f"{gone['billedSeconds']:.3f}") + Decimal(ended - stays)
    assert found["amount"] == account.text(billed * Decimal("0.36") / 3600)
    assert "others use stays, too" in found["sentence"]
    assert "1 outlived it, at USD 0.36 an hour: at least USD 0.06 more" in found["sentence"]
    place.cluster.power_off("stays")
    place.cluster.kubectl("delete", "node", "stays")
