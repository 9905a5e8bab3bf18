# SPDX-License-Identifier: Apache-2.0
"""What others do to a gang's pods (containers, resources, selectors), and nodes that refuse one: each is named.

A MutatingAdmissionPolicy adds them, as webhooks of meshes and policy engines do. They are stand-ins of the process
nodes, which give them the statuses of a kubelet (`tests/cluster/README.md`).
"""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

import gang_books
import policies
import studies
from gpubench import names
from gpubench.scheduler import outcome
from gpubench_cluster import kube
from gpubench_operator import observe
from policies import container

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

PAIR = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]
SILENT = "processnode-silent"


@pytest.fixture(autouse=True)
def books(place: Place) -> Iterator[None]:
    with gang_books.kept(place.cluster, place.entries):
        yield


def added(place: Place, **change: Any) -> contextlib.AbstractContextManager[None]:
    return policies.changed(place.cluster, place.namespace, **change)


def begin(place: Place, *, env: dict[str, str] | None = None, selector: str = "process", **spec: Any) -> None:
    """A benchmark of one trial of two pods; each attempt that fails is its last, unless it says otherwise."""
    place.apply(studies.pool("process", maxNodes=2, scheduling={"nodeSelector": {"pool": selector}}))
    template = {"env": [{"name": name, "value": value} for name, value in (env or {}).items()]}
    limits = {"attempts": {"failed": 0}} | spec.pop("limits", {})
    place.apply(studies.benchmark(**{"repeats": 1, "sweep": PAIR, "template": template, "limits": limits} | spec))


def ended(place: Place, *, outcome: str = "Failed") -> dict[str, Any]:
    """The entry of the only attempt, once its benchmark is over and nothing of it runs."""
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    place.wait(lambda: not place.running(), what="no pod that runs")
    (entry,) = place.entries()
    assert entry["outcome"] == outcome
    (point,) = place.status("quick")["results"]
    assert outcome != "Failed" or entry["sentence"] in point["reason"]
    found: dict[str, Any] = entry
    return found


def pending(place: Place) -> tuple[str, str]:
    found: tuple[str, str] = place.condition("GangPending")
    return found


def test_an_init_container_that_fails_ends_the_attempt_with_its_name_and_the_bill_with_its_end(place: Place) -> None:
    with added(place, initContainers=[container("vault-agent-init", "3@1")]):
        begin(place)
        entry = ended(place)
    assert (entry["reason"], entry.get("exitCode")) == ("InitFailed", None)
    assert "its init container vault-agent-init failed (Error, exit code 3: told to end with 3@1)" in entry["sentence"]
    assert min(end for *_, end in entry["podTimes"]).is_integer(), "a time of the API, and not of the operator's clock"


@pytest.mark.parametrize(
    ("init", "state"),
    [
        (container("wait-for-network"), "wait-for-network: Running; "),
        (
            container("istio-proxy", "5@0", restartPolicy="Always"),
            "istio-proxy: CrashLoopBackOff, exit code 5: told to end with 5@0; ",
        ),
    ],
    ids=["that-goes-on", "that-crashes"],
)
def test_no_node_is_blamed_for_an_init_container(place: Place, init: dict[str, Any], state: str) -> None:
    with added(place, initContainers=[init]):
        begin(place, limits={"schedulingTimeout": "15s"})
        reason, message = place.wait(lambda: pending(place) if pending(place)[1] else None, what="GangPending")
        entry = ended(place)
    assert (reason, entry["reason"]) == ("PodInitializing", "PodInitializing")
    for text in (message, entry["sentence"]):
        assert f"waits for its init container {state}" in text
    assert "look at that node" not in entry["sentence"]


def test_a_worker_that_fails_beside_a_sidecar_that_runs_on_is_judged_by_its_own_end(place: Place) -> None:
    with added(place, containers=[container("istio-proxy")]):
        begin(place, env={"STAND_IN_EXIT_CODE": "66"}, limits={"attempts": {"failed": 2}})
        entry = ended(place)
    assert (entry["reason"], entry["exitCode"]) == ("OutOfMemory", 66)
    assert entry["sentence"].endswith("the stand-in was told to fail")
    place.wait(lambda: not place.all(kube.JOBS), what="its Job deleted")


def test_a_sidecar_that_never_ends_holds_the_gpus_for_half_a_minute_and_is_billed_and_named(place: Place) -> None:
    """As a mesh's proxy in a pod without native sidecars: the work has ended, the pod has not."""
    with added(place, containers=[container("istio-proxy")]):
        begin(place)
        _, message = place.wait(
            lambda: pending(place) if pending(place)[0] == "PodKept" else None,
            what="PodKept",
        )
        assert not place.holds("quick", "Finished"), "its pods still cost money"
        entry = ended(place, outcome="Succeeded")
    assert "container istio-proxy keeps pod " in message
    assert "sidecar.istio.io/inject" in message
    assert "GangPending" in place.events("quick")
    assert (entry.get("holding"), entry.get("unseen")) == ([], 0)
    worked_until = entry["endedAt"] - entry["createdAt"]
    assert all(outcome.KEPT_SECONDS <= end - worked_until < 60 for *_, end in entry["podTimes"])
    assert entry["nodeSeconds"] == pytest.approx(sum(end - placed for placed, _, end in entry["podTimes"]))
    spent = place.status("quick")["spent"]
    assert spent["assumedAttempts"] == 0
    assert float(spent["amount"]) == pytest.approx(entry["nodeSeconds"] * 0.36 / 3600, rel=0.01)


def test_a_native_sidecar_ends_with_the_work_and_is_not_named(place: Place) -> None:
    with added(place, initContainers=[container("istio-proxy", restartPolicy="Always")]):
        begin(place)
        entry = ended(place, outcome="Succeeded")
    worked_until = entry["endedAt"] - entry["createdAt"]
    assert all(end - worked_until < outcome.KEPT_SECONDS for *_, end in entry["podTimes"])
    assert pending(place)[0] != "PodKept"


def test_a_benchmark_that_is_being_deleted_ends_its_gang_whatever_finalizers_it_has(place: Place) -> None:
    begin(place, env={"STAND_IN_STAYS_SECONDS": "600"})
    place.wait(lambda: len(place.running()) == 2, what="a gang that runs")
    path = kube.BENCHMARKS.path(namespace=place.namespace, name="quick")
    merge = "application/merge-patch+json"
    place.cluster.request("PATCH", path, {"metadata": {"finalizers": ["example.com/keep"]}}, content_type=merge)
    try:
        place.cluster.request("DELETE", path)
        place.wait(lambda: not place.all(kube.PODS) and not place.all(kube.JOBS), what="a gang that has ended")
        assert "deletionTimestamp" in place.cluster.request("GET", path)["metadata"]
    finally:
        place.cluster.request("PATCH", path, {"metadata": {"finalizers": []}}, content_type=merge)


def test_a_sidecar_for_which_a_job_failed_is_named(place: Place) -> None:
    with added(place, to_pod=1, containers=[container("log-shipper", "1@0.5")]):
        begin(place, env={"STAND_IN_STAYS_SECONDS": "600"})  # pod 0 is still there when pod 1 fails
        entry = ended(place)
    said = "failed (Error, exit code 1: told to end with 1@0.5), and with it its Job: make it a native sidecar"
    assert "container log-shipper of pod " in entry["sentence"]
    assert said in entry["sentence"]


def test_a_pod_that_its_node_refuses_ends_the_attempt_with_the_nodes_words_and_the_bill_with_the_refusal(
    place: Place,
) -> None:
    """As a kubelet writes it, whose node has no program here."""
    sweep = [PAIR[0] | {"pools": ["silent"], "workers": [1]}]
    place.apply(studies.pool("silent", maxNodes=1))
    place.cluster.kill(SILENT)  # its lease is good for another while
    try:
        begin(place, sweep=sweep)
        bound = place.wait(lambda: [one for one in place.all(kube.PODS) if one["spec"].get("nodeName")], what="a pod")
        refused_at = time.time() + 1.0  # another second than that of its scheduling
        unready = {"status": "False", "lastTransitionTime": observe.timestamp(refused_at)}
        status = {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": "Pod was rejected: Allocate failed due to no healthy devices present",
            "conditions": [{"type": kind, **unready} for kind in ("Ready", "ContainersReady")],
        }
        path = kube.PODS.path(namespace=place.namespace, name=kube.name_of(bound[0]), subresource="status")
        merge = "application/strategic-merge-patch+json"
        place.cluster.request("PATCH", path, {"status": status}, content_type=merge)
        entry = ended(place)
    finally:
        place.cluster.restart(SILENT)
    assert entry["reason"] == "PodRefused"
    assert f"node silent refused pod {kube.name_of(bound[0])} (UnexpectedAdmissionError): " in entry["sentence"]
    assert "no healthy devices present" in entry["sentence"]
    ((_, _, end),) = entry["podTimes"]
    refusal = (observe.seconds(observe.timestamp(refused_at)) or 0.0) - entry["createdAt"]
    assert end == pytest.approx(refusal, abs=0.001)


def gang(memory: str) -> dict[str, Any]:
    """The gang's container as a policy changes it; the pool's slots have 512Mi."""
    return {"name": names.CONTAINER, "resources": {kind: {"memory": memory} for kind in ("limits", "requests")}}


@pytest.mark.parametrize(
    ("policy", "selector", "changed", "said"),
    [
        (
            {"containers": [gang("256Mi")]},
            "process",
            {"field": "resources.limits.memory", "planned": "512Mi", "got": "256Mi", "isMore": False},
            "others gave its pods resources.limits.memory 256Mi (planned 512Mi): exempt them from that policy",
        ),
        (
            {"patch": {"/spec/nodeSelector": {"pool": "process"}}},
            "nowhere",
            {"field": "nodeSelector.pool", "planned": "nowhere", "got": "process", "isMore": False},
            "others gave its pods nodeSelector.pool process (planned nowhere): exempt",
        ),
        (
            {"containers": [gang("1Gi")]},
            "process",
            {"field": "resources.limits.memory", "planned": "512Mi", "got": "1Gi", "isMore": True},
            "",
        ),
    ],
    ids=["less", "elsewhere", "more"],
)
def test_a_policy_that_changes_pods_is_recorded(
    place: Place, policy: dict[str, Any], selector: str, changed: dict[str, Any], said: str
) -> None:
    with added(place, **policy):
        begin(place, selector=selector)
        entry = ended(place, outcome="Succeeded")
    assert entry["changed"] == [changed]
    (point,) = place.status("quick")["results"]
    messages = [one["message"] for one in point["warnings"] if one["reason"] == "PodChanged"]
    assert len(messages) == bool(said)
    assert said in "".join(messages)


def test_a_repeat_that_a_policy_has_halved_ends_when_it_starts_and_is_not_averaged(place: Place) -> None:
    begin(place, env={"STAND_IN_SECONDS": "10"}, measure=studies.benchmark(repeats=2)["spec"]["measure"])
    place.wait(lambda: len(place.running()) == 2, what="the first repeat")
    with added(place, containers=[gang("256Mi")]):
        place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    first, second = sorted(place.entries(), key=lambda entry: entry["createdAt"])
    assert (first["outcome"], second["outcome"], second["reason"]) == ("Succeeded", "Stopped", "OtherMachines")
    said = "it got resources.limits.memory 256Mi, and an earlier repeat resources as planned: no mean is made of both"
    assert said in second["sentence"]
    (point,) = place.status("quick")["results"]
    assert len(point["values"]) == 1


def test_a_scheduler_that_nobody_runs_is_named(place: Place) -> None:
    with added(place, schedulerName="volcano"):
        begin(place)
        reason, message = place.wait(lambda: pending(place) if pending(place)[1] else None, what="GangPending")
    assert reason == "SchedulerSilent"
    assert "asks for scheduler volcano, which has not looked at it" in message
