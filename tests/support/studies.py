# SPDX-License-Identifier: Apache-2.0
"""Benchmarks, pools and gangs for tests of the operator, as plain objects of the API."""

from typing import Any

import stand_in_worker
from gpubench import names
from gpubench.plan.assignment import Assignment
from gpubench.records import Machine, termination_message
from gpubench_cluster import kube
from gpubench_operator import observe

TELLING_IMAGE = "telling:test"  # of a program that tells what it was started with, where a cluster has that


def pool(name: str = "pretend", **spec: Any) -> kube.Object:
    """A pool of four nodes with one slot each."""
    defaults: dict[str, Any] = {
        "slotsPerNode": 1,
        "maxNodes": 4,
        "slot": {"cpu": "1", "memory": "512Mi"},
        "scheduling": {"nodeSelector": {"pool": name}},
        "price": {"perNodeHour": "0.36", "currency": "USD", "asOf": "2026-11-01"},
    }
    metadata = {"name": name}
    return {"apiVersion": names.API_VERSION, "kind": names.POOL_KIND, "metadata": metadata, "spec": defaults | spec}


def benchmark(name: str = "quick", *, namespace: str = "default", repeats: int = 3, **spec: Any) -> kube.Object:
    """A study of two points."""
    defaults: dict[str, Any] = {
        "sweep": [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1, 2], "batchPerWorker": [64]}],
        "measure": {"repeats": {"min": repeats}, "warmUp": "1s", "duration": "2s"},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.BENCHMARK_KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": defaults | spec,
    }


def forged_labels(uid: str, **more: str) -> dict[str, str]:
    """Of an object of a gang as the operator writes them, but for a million slots."""
    found = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
    found |= {names.LABEL_BENCHMARK: "mine", names.LABEL_BENCHMARK_UID: uid, names.LABEL_POOL: "pretend"}
    return found | {names.LABEL_TRIAL: "t", names.LABEL_ATTEMPT: "1", names.LABEL_SLOTS: "1000000"} | more


def gang_pod(job: kube.Object, index: int, *, node: str = "node", now: float, state: dict[str, Any]) -> kube.Object:
    """A pod as the Job controller and a kubelet leave it."""
    moment = observe.timestamp(now)
    labels = {**job["spec"]["template"]["metadata"]["labels"], "batch.kubernetes.io/job-completion-index": str(index)}
    phase = "Running" if "running" in state else "Succeeded" if state["terminated"]["exitCode"] == 0 else "Failed"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{kube.name_of(job)}-{index}",
            "namespace": kube.namespace_of(job),
            "labels": labels,
            "ownerReferences": [
                {"kind": "Job", "uid": kube.uid_of(job), "controller": True, "name": kube.name_of(job)}
            ],
        },
        "spec": {**job["spec"].get("template", {}).get("spec", {}), "nodeName": f"{node}-{index}"},
        "status": {
            "phase": phase,
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": moment}],
            "containerStatuses": [{"name": names.CONTAINER, "state": state, "imageID": "image@sha256:1"}],
        },
    }


def assignment_of(job: kube.Object) -> Assignment:
    """What a Job's pods are told."""
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    text = next(variable["value"] for variable in environment if variable["name"] == names.ENV_ASSIGNMENT)
    return Assignment.model_validate_json(text)


def finished_state(job: kube.Object, *, index: int = 0, now: float, machine: Machine | None = None) -> dict[str, Any]:
    """The container's end after a run that went well: pod 0 has written the result."""
    moment = observe.timestamp(now)
    ended: dict[str, Any] = {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}
    if index == 0:
        result = stand_in_worker.result(assignment_of(job)).model_copy(update={"machine": machine})
        ended["message"] = termination_message(result).decode()
    return {"terminated": ended}


def ended_state(*, exit_code: int, now: float) -> dict[str, Any]:
    """The container's end after a run that went wrong, without a word."""
    moment = observe.timestamp(now)
    return {"terminated": {"exitCode": exit_code, "reason": "Error", "startedAt": moment, "finishedAt": moment}}
