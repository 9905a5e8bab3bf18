# SPDX-License-Identifier: Apache-2.0
"""Reading from a cluster as commands do it: the person's own kubeconfig, one question at a time, errors in sentences.

Must not happen: a write but of `spec.drill` (reviews of permissions are kept nowhere), or a wait without a bound.
"""

import asyncio
import contextlib
import email.utils
import json
import time
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

from gpubench import names
from gpubench.api import validate
from gpubench.api.attempts import Drill
from gpubench.api.pool import GpuPool
from gpubench_cli.refusal import Refusal
from gpubench_cluster import kube

_REQUEST_SECONDS = 30.0
_LOG_SECONDS = 60.0

#: What a merge patch must name so that nothing of the drill before is left.
_NO_DRILL = dict.fromkeys(field.alias or name for name, field in Drill.model_fields.items())

#: What a person reads in place of what a log says, by the code of an error (None: no answer) or by its kind.
_SENTENCES: dict[object, str] = {
    None: "the cluster at {host} does not answer: {reason}",
    401: "the cluster at {host} does not know you (401): log in again, or check the kubeconfig",
    kube.NotServed: f"gpubench is not installed in the cluster at {{host}}: it does not know {names.API_VERSION}",
    kube.NotFound: "there is no {what} in the cluster at {host}",
    kube.Forbidden: "no permission to {doing} {what}: {reason}",
    kube.TemporaryError: "the cluster at {host} could not answer ({code}): {reason}",
    kube.PermanentError: "the cluster at {host} refused to {doing} {what} ({code}): {reason}",
}

_Answer = TypeVar("_Answer")


class Cluster:
    """A cluster as a person's kubeconfig names it. Whatever is not answered is a kube.ApiError in a sentence."""

    def __init__(self, runner: asyncio.Runner, api: kube.Kube, *, host: str, namespace: str) -> None:
        self._runner = runner
        self._api = api
        self.host = host
        self.namespace = namespace

    def benchmark(self, name: str) -> dict[str, Any]:
        """A GpuBenchmark object."""
        path = kube.BENCHMARKS.path(namespace=self.namespace, name=name)
        return self.get(path, what=f"{names.BENCHMARK_KIND} {name} in namespace {self.namespace}")

    def set_drill(self, name: str, drill: Mapping[str, Any] | None) -> None:
        """The drill of a GpuBenchmark in place of the one that it had; None for none."""
        path = kube.BENCHMARKS.path(namespace=self.namespace, name=name)
        body = {"spec": {"drill": None if drill is None else {**_NO_DRILL, **drill}}}
        what = f"{names.BENCHMARK_KIND} {name} in namespace {self.namespace}"
        self._run(self._api.ask("patch", path, path, body=body, absent=()), what=what, doing="change")

    def pools(self) -> tuple[GpuPool, ...]:
        """All GpuPools of the cluster."""
        return tuple(map(_pool, self._run(self._api.list(kube.POOLS), what=f"{names.POOL_KIND}s")))

    def nodes(self) -> tuple[dict[str, Any], ...]:
        """All nodes of the cluster."""
        return tuple(self._run(self._api.list(kube.NODES), what="Nodes"))

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        """ConfigMaps that belong to a benchmark: its plan and its ledger."""
        return self._owned(kube.CONFIG_MAPS, uid, what="ConfigMaps")

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        """Pods of a benchmark that are still there."""
        return self._owned(kube.PODS, uid, what="Pods")

    def log(self, pod: str) -> bytes | None:
        """All that a pod has said; None where the cluster has it no more: pod and node may be gone."""
        path = kube.PODS.path(namespace=self.namespace, name=pod, subresource="log")
        asked = self._api.ask("get", path, path, absent=(), seconds=_LOG_SECONDS)
        try:
            return bytes(self._run(asked, what=f"the log of pod {pod}").data)
        except kube.ApiError as error:
            if error.code in (None, 401, 403):
                raise
            return None

    def get(self, path: str, *, what: str, **query: str) -> dict[str, Any]:
        """An object or a list, by its path."""
        found: dict[str, Any] = json.loads(
            self._run(self._api.ask("get", path, path, query=query, absent=()), what=what).data
        )
        return found

    def version(self) -> tuple[dict[str, Any], float]:
        """What the API server says of itself, and what time it has there: its Leases are by that clock."""
        answer = self._run(self._api.ask("get", "version", "/version", absent=()), what="the version")
        said_at = answer.headers.get("Date")
        at = time.time() if said_at is None else email.utils.parsedate_to_datetime(said_at).timestamp()
        return json.loads(answer.data), at

    def may(self, review: dict[str, Any], *, account: str | None = None) -> bool:
        """Whether somebody may do something (resourceAttributes): whoever asks, or a ServiceAccount `namespace/name`.

        Nothing is kept of a review.
        """
        spec: dict[str, Any] = {"resourceAttributes": review}
        kind = "SelfSubjectAccessReview"
        if account is not None:
            namespace, _, name = account.partition("/")
            of_all = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
            spec |= {"user": f"system:serviceaccount:{namespace}:{name}", "groups": of_all}
            kind = "SubjectAccessReview"
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}
        resource = kube.Resource("authorization.k8s.io/v1", f"{kind.lower()}s", namespaced=False)
        answer = self._run(self._api.create(resource, body), what=f"{kind}s", doing="ask for")
        return bool(answer is not None and answer["status"].get("allowed"))

    def _owned(self, resource: kube.Resource, uid: str, *, what: str) -> tuple[dict[str, Any], ...]:
        listed = self._api.list(resource, namespace=self.namespace, labels={names.LABEL_BENCHMARK_UID: uid})
        return tuple(self._run(listed, what=f"{what} in namespace {self.namespace}"))

    def _run(self, asked: Coroutine[Any, Any, _Answer], *, what: str, doing: str = "read") -> _Answer:
        try:
            return self._runner.run(asked)
        except kube.ApiError as error:
            sentence = _SENTENCES.get(error.code) or _SENTENCES[type(error)]
            told = sentence.format(host=self.host, what=what, doing=doing, code=error.code, reason=error.reason)
            error.args = (told,)
            raise


@contextlib.contextmanager
def connect(namespace: str | None = None) -> Iterator[Cluster]:
    """The cluster of the current context; a request is made only when something is asked."""
    with asyncio.Runner() as runner:
        credentials, default = runner.run(kube.credentials())
        api = kube.Kube(credentials, manager="gpubench", timeout=_REQUEST_SECONDS)
        try:
            yield Cluster(runner, api, host=credentials.host, namespace=namespace or default)
        finally:
            runner.run(api.close())


def _pool(item: Mapping[str, Any]) -> GpuPool:
    try:
        return validate.load_pool(item)
    except validate.InvalidObject as error:
        raise Refusal(
            f"{names.POOL_KIND} {error.name} of the cluster cannot be read by this gpubench: {error.problems[0]}"
        ) from error
