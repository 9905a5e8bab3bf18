# SPDX-License-Identifier: Apache-2.0
"""Requests to the API server as a user sends them, over connections that stay open: there are thousands."""

import base64
import json
from pathlib import Path
from typing import Any

import urllib3
import yaml

from fuzz_verdicts import Answer
from gpubench import names
from gpubench_cluster import kube

NAMESPACE = "fuzz"
STUDIES = kube.BENCHMARKS.path(namespace=NAMESPACE)
POOLS = kube.POOLS.path()
SCHEDULES = kube.SCHEDULES.path(namespace=NAMESPACE)
JOBS = kube.JOBS.path(namespace=NAMESPACE)
PODS = kube.PODS.path(namespace=NAMESPACE)
EVENTS = kube.EVENTS.path(namespace=NAMESPACE)
STRICT = "fieldValidation=Strict"  # as kubectl asks for
_MERGE = "application/merge-patch+json"
_SECONDS = 60.0


class Server:
    """One API server, from several threads."""

    def __init__(self, kubeconfig: Path, *, connections: int) -> None:
        content = yaml.safe_load(kubeconfig.read_text())
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        self._address: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}"}
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._pool = urllib3.PoolManager(maxsize=connections, ca_cert_data=authority, timeout=_SECONDS, retries=False)

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request. What JSON does not have (NaN, Infinity) is sent as Python writes it."""
        answer = self._pool.request(
            method,
            self._address + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={**self._headers, "Content-Type": content_type},
        )
        return Answer(answer.status, answer.data.decode(errors="replace"))

    def create(self, kind: str, document: Any, *, dry: bool = False) -> Answer:
        """What `kubectl create` does."""
        return self.ask("POST", f"{collection(kind)}?{STRICT}{'&dryRun=All' if dry else ''}", document)

    def change(self, path: str, change: Any) -> Answer:
        """A merge patch."""
        return self.ask("PATCH", f"{path}?{STRICT}", change, content_type=_MERGE)

    def items(self, path: str) -> list[dict[str, Any]]:
        """All objects of a collection."""
        answer = self.ask("GET", path)
        assert answer.accepted, f"{path}: HTTP {answer.code}: {answer.text[:300]}"
        found: list[dict[str, Any]] = answer.body()["items"]
        return found


def collection(kind: str) -> str:
    """Where objects of a kind are."""
    return {names.POOL_KIND: POOLS, names.BENCHMARK_KIND: STUDIES, names.SCHEDULE_KIND: SCHEDULES}[kind]
