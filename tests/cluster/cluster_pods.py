# SPDX-License-Identifier: Apache-2.0
"""Pods for tests: made, looked at and waited for on an embedded cluster.

What may not happen here: a wait without a bound, or knowledge of gpubench's objects.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import cluster as clusters

Found = TypeVar("Found")

IMAGE = "tests/python:dev"
WAIT_SECONDS = 60.0  # what is waited for takes one to three; controllers that missed their API server try after 30


class Pods:
    """Makes pods, looks at them and waits for them, in a namespace of the test's own."""

    def __init__(self, running: clusters.Cluster, namespace: str) -> None:
        self.cluster = running
        self.namespace = namespace
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def run(self, name: str, script: str, **overrides: Any) -> dict[str, Any]:
        return self.create(pod(name, script, **overrides))

    def create(self, manifest: dict[str, Any]) -> dict[str, Any]:
        created: dict[str, Any] = self.cluster.request("POST", self.path, manifest)
        return created

    def get(self, name: str) -> dict[str, Any] | None:
        try:
            found: dict[str, Any] = self.cluster.request("GET", f"{self.path}/{name}")
        except clusters.ApiError as error:
            if error.status == 404:
                return None
            raise
        return found

    def delete(self, name: str, *, grace_seconds: int | None = None) -> Any:
        """What the API server answers: the pod as it is then."""
        options = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        return self.cluster.request("DELETE", f"{self.path}/{name}", options)

    def wait_phase(self, name: str, *phases: str, timeout_seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        def in_phase() -> dict[str, Any] | None:
            found = self.get(name)
            return found if found is not None and found["status"].get("phase") in phases else None

        return wait_for(in_phase, what=f"pod {name} in {phases}", timeout_seconds=timeout_seconds)

    def wait_gone(self, name: str, *, timeout_seconds: float = WAIT_SECONDS) -> None:
        wait_for(lambda: self.get(name) is None, what=f"pod {name} gone", timeout_seconds=timeout_seconds)

    def wait_log(self, name: str, text: str, *, timeout_seconds: float = WAIT_SECONDS) -> str:
        def log_with_text() -> str | None:
            done = self.cluster.kubectl("logs", "-n", self.namespace, name, check=False)
            return done.stdout if text in done.stdout else None

        return wait_for(log_with_text, what=f"{text!r} in the log of {name}", timeout_seconds=timeout_seconds)


def wait_for(look: Callable[[], Found | None], *, what: str, timeout_seconds: float = WAIT_SECONDS) -> Found:
    deadline = time.monotonic() + timeout_seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {timeout_seconds:.0f} s"
        time.sleep(0.05)
    return found


def container(script: str, **overrides: Any) -> dict[str, Any]:
    return {"name": "main", "image": IMAGE, "command": ["python", "-c", script], **overrides}


def pod(
    name: str,
    script: str,
    *,
    place: str = "process",
    annotations: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    **overrides: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"role": "test"}, "annotations": annotations or {}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {"place": place},
            "tolerations": [{"key": "example.com/pretend", "operator": "Exists"}],
            "containers": [container(script, **overrides)],
            **(spec or {}),
        },
    }


def process_is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
