# SPDX-License-Identifier: Apache-2.0
"""What others do at admission: quotas, and policies of the API server in place of the webhooks of meshes."""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cluster import ApiError, Cluster
from cluster_binaries import KUBERNETES_VERSION, LOCKED_VERSION
from gpubench import names
from gpubench_cluster import kube

_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_WEBHOOKS = f"{_ADMISSION}/validatingwebhookconfigurations"
_INDEX = "batch.kubernetes.io/job-completion-index"
_ACTS_SECONDS = 60.0


def needs(cluster: Cluster, group: str, plural: str) -> None:
    """Skip on another Kubernetes that somebody asked for (`make test-cluster`), if it has no such objects yet."""
    if KUBERNETES_VERSION != LOCKED_VERSION:
        served = set()
        with contextlib.suppress(ApiError):
            served = {one["name"] for one in cluster.request("GET", group)["resources"]}
        if plural not in served:
            pytest.skip(f"Kubernetes {KUBERNETES_VERSION} has no {plural} in {group}")


def container(name: str, end: str = "never", **more: Any) -> dict[str, Any]:
    """One that ends as its stand-in is told to."""
    return {"name": name, "image": "none", "env": [{"name": "STAND_IN_END", "value": end}], **more}


def quota(cluster: Cluster, namespace: str, name: str, **hard: str) -> str:
    """Path of a new ResourceQuota that binds: admission goes by what its controller has written to its status."""
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    cluster.request("POST", quotas, {"metadata": {"name": name}, "spec": {"hard": hard}})
    deadline = time.monotonic() + _ACTS_SECONDS
    while "hard" not in (cluster.request("GET", f"{quotas}/{name}").get("status") or {}):
        assert time.monotonic() < deadline, f"the quota does not bind within {_ACTS_SECONDS:g} s"
        time.sleep(0.1)
    return f"{quotas}/{name}"


@contextlib.contextmanager
def changed(
    cluster: Cluster,
    namespace: str,
    resource: kube.Resource = kube.PODS,
    *,
    to_pod: int | None = None,
    only: str = "true",
    patch: dict[str, Any] | None = None,
    **spec: Any,
) -> Iterator[None]:
    """Objects of the namespace, or those of an index or of this expression, come with this: by path, or applied."""
    needs(cluster, _ADMISSION, "mutatingadmissionpolicies")
    if to_pod is not None:
        only = f"object.metadata.?labels[?'{_INDEX}'].orValue('') == '{to_pod}'"
    policy = {
        "matchConstraints": _constraints(namespace, resource),
        "matchConditions": [{"name": "only", "expression": only}],
        "reinvocationPolicy": "Never",
        "mutations": [_patch(patch) if patch else _apply({"spec": spec})],
    }
    before = _tried(cluster, namespace, resource, index=to_pod)
    bodies = _policy("mutating", namespace, policy)
    with _acting(cluster, bodies, lambda: _tried(cluster, namespace, resource, index=to_pod) != before):
        yield


@contextlib.contextmanager
def refused(
    cluster: Cluster,
    namespace: str,
    expression: str,
    *,
    says: str,
    reason: str = "Invalid",
    resource: kube.Resource = kube.JOBS,
) -> Iterator[None]:
    """Objects of the namespace that do not meet this are refused, with code 422 or of another reason."""
    is_tried = {"expression": "object.metadata.name != 'tried'"}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": _constraints(namespace, resource, "CREATE", "UPDATE"),
        "validations": [{"expression": expression, "message": says, "reason": reason}, is_tried],
    }
    bodies = _policy("validating", namespace, policy, validationActions=["Deny"])
    with _acting(cluster, bodies, lambda: _is_refused(cluster, namespace, resource)):
        yield


@contextlib.contextmanager
def down(cluster: Cluster, namespace: str, resource: kube.Resource = kube.JOBS) -> Iterator[None]:
    """A policy engine of the namespace does not answer: code 500."""
    hook = {
        "name": "policies.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/"},  # nobody listens there
        "rules": _constraints(namespace, resource)["resourceRules"],
        "namespaceSelector": _constraints(namespace, resource)["namespaceSelector"],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    bodies = {_WEBHOOKS: {"metadata": {"name": namespace}, "webhooks": [hook]}}
    with _acting(cluster, bodies, lambda: _is_refused(cluster, namespace, resource)):
        yield


def _constraints(namespace: str, resource: kube.Resource, *operations: str) -> dict[str, Any]:
    group = "" if resource.version == "v1" else resource.version.partition("/")[0]
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "resources": [resource.plural]}
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceRules": [rule | {"operations": [*operations] or ["CREATE"]}],
    }


def _policy(kind: str, name: str, spec: dict[str, Any], **binding: Any) -> dict[str, dict[str, Any]]:
    """A policy and its binding, by the paths to create them at."""
    bodies = {"policies": spec, "policybindings": {"policyName": name} | binding}
    return {
        f"{_ADMISSION}/{kind}admission{plural}": {"metadata": {"name": name}, "spec": body}
        for plural, body in bodies.items()
    }


@contextlib.contextmanager
def _acting(cluster: Cluster, bodies: dict[str, dict[str, Any]], has_begun: Callable[[], bool]) -> Iterator[None]:
    for path, body in bodies.items():
        cluster.request("POST", path, body)
    try:
        deadline = time.monotonic() + _ACTS_SECONDS
        while not has_begun():
            assert time.monotonic() < deadline, f"the policy does not act within {_ACTS_SECONDS:g} s"
            time.sleep(0.1)
        yield
    finally:
        for path, body in bodies.items():
            cluster.request("DELETE", f"{path}/{body['metadata']['name']}")


def _is_refused(cluster: Cluster, namespace: str, resource: kube.Resource) -> bool:
    try:
        _tried(cluster, namespace, resource, index=None)
    except ApiError:
        return True
    return False


def _apply(change: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": _cel(change)}}


def _patch(values: dict[str, Any]) -> dict[str, Any]:
    """For what cannot be applied, as atomic maps; None removes."""
    patches = (
        f'JSONPatch{{op: "remove", path: "{path}"}}'
        if value is None
        else f'JSONPatch{{op: "add", path: "{path}", value: {_value(value, path)}}}'
        for path, value in values.items()
    )
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": f"[{', '.join(patches)}]"}}


def _value(value: Any, path: str) -> str:
    """A map of texts as it is; an object of the API with the type that it has there, as CEL wants it."""
    if isinstance(value, dict) and all(isinstance(one, str) for one in value.values()):
        return json.dumps(value)
    return _cel(value, f"Object{path.removesuffix('/-').replace('/', '.')}")


def _cel(value: Any, path: str = "Object") -> str:
    """An object as an expression of an ApplyConfiguration."""
    if isinstance(value, dict):
        fields = (f"{name}: {_cel(one, f'{path}.{name}')}" for name, one in value.items())
        return f"{path}{{{', '.join(fields)}}}"
    if isinstance(value, list):
        return f"[{', '.join(_cel(one, path) for one in value)}]"
    return json.dumps(value)


def _tried(cluster: Cluster, namespace: str, resource: kube.Resource, *, index: int | None) -> tuple[Any, ...]:
    """What comes back of an object that is not really created."""
    labels = {_INDEX: str(index), names.LABEL_BENCHMARK_UID: "none"}
    spec: dict[str, Any] = {"containers": [{"name": names.CONTAINER, "image": "none"}], "restartPolicy": "Never"}
    if resource is kube.JOBS:
        spec = {"template": {"spec": spec}, "backoffLimit": 0}
    body = {"metadata": {"name": "tried", "labels": labels}, "spec": spec}
    made = cluster.request("POST", f"{resource.path(namespace=namespace)}?dryRun=All", body)
    found = made["spec"]
    found.get("selector", {}).pop("matchLabels", None)  # of a Job: its UID, as in its pods' labels
    found.get("template", {}).pop("metadata", None)
    found.pop("volumes", None)  # of a pod: its token has a name of its own
    for one in found.get("containers", ()):
        one.pop("volumeMounts", None)
    return found, made["metadata"].get("labels")
