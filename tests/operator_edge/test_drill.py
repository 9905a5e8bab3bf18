# SPDX-License-Identifier: Apache-2.0
"""Interruptions on purpose, on a real control plane: through the eviction API, of the study's own pods, and told so."""

import os
import subprocess
import sys
from typing import Any

import installation
import studies
from gpubench import names
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

STUDY_SECONDS = 180.0
ATTEMPT_SECONDS = 20.0  # much longer than until a drill: an operator that is late still finds the pods running


def study(pool: str, **spec: Any) -> kube.Object:
    """One point of two pods, which take so long in each attempt where they are processes."""
    sweep = [{"workloads": ["mnist_cnn"], "pools": [pool], "workers": [2], "batchPerWorker": [64]}]
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": str(ATTEMPT_SECONDS)}]}
    return studies.benchmark(repeats=1, sweep=sweep, template=template, **spec)


def evictions(place: Place) -> list[str]:
    """Pods of this namespace whose eviction the operator asked for, and which the API server granted."""
    user = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
    return [
        event["objectRef"]["name"]
        for event in place.cluster.audit_events()
        if event["user"]["username"] == user
        and event["stage"] == "ResponseComplete"
        and event.get("objectRef", {}).get("subresource") == "eviction"  # discovery has none
        and event["objectRef"]["namespace"] == place.namespace
        and event["responseStatus"]["code"] == 201
    ]


def annotated(place: Place) -> str | None:
    """The pod that is named on a Job as the one to be evicted."""
    marks = [(job["metadata"].get("annotations") or {}).get(names.ANNOTATION_DRILLED) for job in place.all(kube.JOBS)]
    return next((mark for mark in marks if mark), None)


def gpubench(place: Place, *arguments: str) -> str:
    """The command line, as a person uses it."""
    done = subprocess.run(
        [sys.executable, "-m", "gpubench_cli", *arguments, "-n", place.namespace],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(place.cluster.kubeconfig)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_study_with_a_drill_is_interrupted_as_often_as_it_says_and_finishes(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    limits = {"attempts": {"preempted": 0, "failed": 0}}
    place.apply(study("process", drill={"every": "5s", "times": 2}, limits=limits))
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished", seconds=STUDY_SECONDS)
    status = place.status("quick")
    assert status["phase"] == "Succeeded", status
    counted = {"started": 3, "succeeded": 1, "failed": 0, "preempted": 0, "drilled": 2, "stopped": 0}
    assert status["attempts"] == counted
    first, second, third = place.entries()
    for entry in (first, second):
        assert entry["outcome"] == "Preempted"
        assert entry.get("disruption") in (None, "EvictionByEvictionAPI")  # None where its pod was gone already
    assert evictions(place) == [first["drilled"], second["drilled"]]
    assert "drilled" not in third
    assert place.events("quick").count("Drilled") == 2
    assert "AttemptPreempted" not in place.events("quick")


def test_an_operator_that_is_killed_before_it_evicts_evicts_the_same_pod_when_it_is_back(place: Place) -> None:
    """A disruption budget holds the eviction up just where the kill is to hit: the pod is named, and still there."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": place.namespace},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {names.LABEL_COMPONENT: names.COMPONENT_GANG}}},
    }
    budgets = f"/apis/policy/v1/namespaces/{place.namespace}/poddisruptionbudgets"
    place.cluster.request("POST", budgets, budget)
    place.apply(study("pretend", drill={"every": "5s", "times": 1}))
    place.wait(lambda: "EvictionRefused" in place.events("quick"), what="a word about the budget")
    chosen = annotated(place)
    assert chosen is not None
    assert place.status("quick")["attempts"]["drilled"] == 0
    place.operator.kill()
    place.cluster.request("DELETE", f"{budgets}/all")
    place.operator.start()
    place.wait(lambda: place.status("quick")["attempts"]["drilled"] == 1, what="the interruption")
    place.end_study("quick")
    assert evictions(place) == [chosen]
    first, second = place.entries()
    assert (first["drilled"], second["outcome"]) == (chosen, "Succeeded")
    assert place.events("quick").count("Drilled") == 1


def test_a_running_study_is_drilled_by_a_command_and_let_alone_by_another(place: Place) -> None:
    place.apply(study("pretend"))
    place.wait(lambda: any(pod["status"]["phase"] == "Running" for pod in place.all(kube.PODS)), what="running pods")
    said = gpubench(place, "drill", "quick", "--every", "5s", "--times", "3")
    assert "of 3 attempts at most (0 so far)" in said
    place.wait(lambda: place.status("quick")["attempts"]["drilled"] >= 1, what="an interruption")
    assert "interrupted no more" in gpubench(place, "drill", "quick", "--stop")
    body = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace, name="quick"))
    assert "drill" not in body["spec"]

    def is_let_alone() -> bool:
        """The operator knows, and what it evicted before is counted: else a result would outrank the eviction."""
        found = place.status("quick")
        seen = bool(found["observedGeneration"] >= body["metadata"]["generation"])
        return seen and len(evictions(place)) == found["attempts"]["drilled"]

    place.wait(is_let_alone, what="the last interruption's count")
    place.end_study("quick")
    assert place.status("quick")["attempts"]["succeeded"] == 1
    assert len(evictions(place)) == place.status("quick")["attempts"]["drilled"]


def test_a_drained_node_takes_pods_again_though_the_operator_was_killed_meanwhile(place: Place) -> None:
    place.apply(study("pretend", drill={"every": "5s", "times": 1, "kind": "Drain", "cordonFor": "10s"}))

    def cordoned() -> list[str]:
        nodes = place.cluster.request("GET", kube.NODES.path())["items"]
        return [kube.name_of(node) for node in nodes if node["spec"].get("unschedulable")]

    (node,) = place.wait(cordoned, what="a cordoned node")
    assert node.startswith("pretend-")
    place.operator.kill()
    place.operator.start()
    place.wait(lambda: place.status("quick")["attempts"]["drilled"] == 1, what="the interruption")
    place.wait(lambda: not cordoned(), what="the node takes pods again")
    place.end_study("quick")
    first, second = place.entries()
    assert node in first["nodes"]
    assert second["outcome"] == "Succeeded"
    assert "NodeCordoned" in place.events("quick")
    marks = [
        node["metadata"].get("annotations") or {} for node in place.cluster.request("GET", "/api/v1/nodes")["items"]
    ]
    assert not [mark for mark in marks if names.ANNOTATION_CORDONED in mark]
