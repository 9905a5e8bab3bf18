# SPDX-License-Identifier: Apache-2.0
"""Containers that others put into a gang's pods, nodes that refuse a pod, schedulers that nobody runs: each is named.

A MutatingAdmissionPolicy adds them, as webhooks of meshes and policy engines do. They are stand-ins of the process
nodes, which give them the statuses of a kubelet (`tests/cluster/README.md`).
"""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

import studies
from gpubench_cluster import kube
from gpubench_operator import observe

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"
INDEX = "batch.kubernetes.io/job-completion-index"
PAIR = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]
SILENT = "processnode-silent"


def container(name: str, end: str = "never", **more: Any) -> dict[str, Any]:
    """One that ends as its stand-in is told to."""
    return {"name": name, "image": "none", "env": [{"name": "STAND_IN_END", "value": end}], **more}


def cel(value: Any, path: str = "Object") -> str:
    """An object as an expression of an ApplyConfiguration."""
    if isinstance(value, dict):
        fields = (f"{name}: {cel(one, f'{path}.{name}')}" for name, one in value.items())
        return f"{path}{{{', '.join(fields)}}}"
    if isinstance(value, list):
        return f"[{', '.join(cel(one, path) for one in value)}]"
    return json.dumps(value)


@contextlib.contextmanager
def added(place: Place, *, to_pod: int | None = None, **spec: Any) -> Iterator[None]:
    """Pods of the namespace, or those of an index, come with this in their spec."""
    name, pods = place.namespace, {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    only = f"object.metadata.?labels[?'{INDEX}'].orValue('') == '{to_pod}'"
    policy = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
            "resourceRules": [pods | {"operations": ["CREATE"]}],
        },
        "matchConditions": [] if to_pod is None else [{"name": "index", "expression": only}],
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": cel({"spec": spec})}}],
    }
    place.cluster.request("POST", POLICIES, {"metadata": {"name": name}, "spec": policy})
    bindings = POLICIES.replace("policies", "policybindings")
    place.cluster.request("POST", bindings, {"metadata": {"name": name}, "spec": {"policyName": name}})
    try:
        place.wait(lambda: acts(place, index=to_pod), what="a policy that acts")
        yield
    finally:
        for one in (bindings, POLICIES):
            place.cluster.request("DELETE", f"{one}/{name}")


def acts(place: Place, *, index: int | None) -> bool:
    """Whether a pod that is not really created comes with anything."""
    labels, path = {INDEX: str(index)}, f"{kube.PODS.path(namespace=place.namespace)}?dryRun=All"
    tried = {"metadata": {"name": "p", "labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = place.cluster.request("POST", path, tried)["spec"]
    many = len(spec["containers"]) + len(spec.get("initContainers", ()))
    return (many, spec["schedulerName"]) != (1, "default-scheduler")


def begin(place: Place, *, env: dict[str, str] | None = None, **spec: Any) -> None:
    """A benchmark of one trial of two pods; each attempt that fails is its last, unless it says otherwise."""
    place.apply(studies.pool("process", maxNodes=2))
    template = {"env": [{"name": name, "value": value} for name, value in (env or {}).items()]}
    limits = {"attempts": {"failed": 0}} | spec.pop("limits", {})
    place.apply(studies.benchmark(repeats=1, **{"sweep": PAIR, "template": template, "limits": limits} | spec))


def ended(place: Place, *, outcome: str = "Failed") -> dict[str, Any]:
    """The entry of the only attempt, once its benchmark is over and nothing of it runs."""
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    place.wait(lambda: not running(place), what="no pod that runs")
    (entry,) = place.entries()
    assert entry["outcome"] == outcome
    (point,) = place.status("quick")["results"]
    assert entry["sentence"] in point["reason"]
    found: dict[str, Any] = entry
    return found


def running(place: Place) -> list[kube.Object]:
    return [pod for pod in place.all(kube.PODS) if pod["status"].get("phase") not in ("Succeeded", "Failed")]


def pending(place: Place) -> tuple[str, str]:
    """Reason and message of GangPending."""
    conditions = place.status("quick").get("conditions") or ()
    return next(((one["reason"], one["message"]) for one in conditions if one["type"] == "GangPending"), ("", ""))


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


def test_a_sidecar_for_which_a_job_failed_is_named(place: Place) -> None:
    with added(place, to_pod=1, containers=[container("log-shipper", "1@0.5")]):
        begin(place, env={"GPUBENCH_LIMIT_LAST": "600"})  # pod 0 is still there when pod 1 fails
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


def test_a_scheduler_that_nobody_runs_is_named(place: Place) -> None:
    with added(place, schedulerName="volcano"):
        begin(place)
        reason, message = place.wait(lambda: pending(place) if pending(place)[1] else None, what="GangPending")
    assert reason == "SchedulerSilent"
    assert "asks for scheduler volcano, which has not looked at it" in message
