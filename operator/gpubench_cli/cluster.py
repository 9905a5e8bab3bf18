# SPDX-License-Identifier: Apache-2.0
"""Reading from a cluster: the person's own kubeconfig, plain dicts, a time limit on every request.

Only the commands that need a cluster import this module, and it alone imports the client. Must not happen: a write, a
wait without a bound, or an error of the client that reaches a person as it is.
"""

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml

from gpubench import names
from gpubench.api import validate
from gpubench.api.pool import GpuPool
from gpubench_cli.refusal import Refusal

try:
    import kubernetes
    import urllib3
except ImportError:  # an extra: a person who only runs studies here does not need it
    kubernetes = None  # type: ignore[assignment]

_REQUEST_SECONDS = 10.0
_LOG_SECONDS = 60.0
_RETRY_LATER = frozenset({408, 429, 500, 502, 503, 504})
_NOT_ALLOWED = frozenset({401, 403})
#: What the client raises over a kubeconfig that is no YAML, or has another shape than it takes for granted.
_NO_KUBECONFIG = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError)

_Answer = TypeVar("_Answer")


class Unavailable(Refusal):
    """The API server does not answer, or asks to come back: later it may."""


class Cluster:
    """A cluster as a person's kubeconfig names it."""

    def __init__(self, api: Any, core: Any, *, host: str, namespace: str) -> None:
        self._api = api
        self._core = core
        self.host = host
        self.namespace = namespace

    def benchmark(self, name: str) -> dict[str, Any]:
        """A GpuBenchmark object."""
        return self._ask(
            lambda: self._api.get_namespaced_custom_object(
                names.GROUP,
                names.VERSION,
                self.namespace,
                names.BENCHMARK_PLURAL,
                name,
                _request_timeout=_REQUEST_SECONDS,
            ),
            what=f"{names.BENCHMARK_KIND} {name} in namespace {self.namespace}",
        )

    def pools(self) -> tuple[GpuPool, ...]:
        """All GpuPools of the cluster."""
        listed = self._ask(
            lambda: self._api.list_cluster_custom_object(
                names.GROUP, names.VERSION, names.POOL_PLURAL, _request_timeout=_REQUEST_SECONDS
            ),
            what=f"{names.POOL_KIND}s",
        )
        return tuple(_pool(item) for item in listed["items"])

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        """ConfigMaps that belong to a benchmark: its plan and its ledger."""
        return self._owned(self._core.list_namespaced_config_map, uid, what="ConfigMaps")

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        """Pods of a benchmark that are still there."""
        return self._owned(self._core.list_namespaced_pod, uid, what="Pods")

    def log(self, pod: str) -> bytes | None:
        """All that a pod has said; None where the cluster has it no more: pod and node may be gone."""
        try:
            return self._ask(
                lambda: bytes(
                    self._core.read_namespaced_pod_log(
                        pod, self.namespace, _preload_content=False, _request_timeout=_LOG_SECONDS
                    ).data
                ),
                what=f"the log of pod {pod}",
            )
        except Refusal as error:
            cause = error.__cause__
            if not isinstance(cause, kubernetes.client.ApiException) or cause.status in _NOT_ALLOWED:
                raise
            return None

    def _owned(self, listed: Callable[..., Any], uid: str, *, what: str) -> tuple[dict[str, Any], ...]:
        """What a list has of a benchmark, as plain dicts: the client's own types raise over absent fields."""

        def request() -> dict[str, Any]:
            selector = f"{names.LABEL_BENCHMARK_UID}={uid}"
            answer = listed(
                self.namespace, label_selector=selector, _preload_content=False, _request_timeout=_REQUEST_SECONDS
            )
            found: dict[str, Any] = json.loads(answer.data)
            return found

        return tuple(self._ask(request, what=f"{what} in namespace {self.namespace}")["items"])

    def _ask(self, request: Callable[[], _Answer], *, what: str) -> _Answer:
        try:
            return request()
        except kubernetes.client.ApiException as error:
            raise _refusal(error, what=what, host=self.host) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Unavailable(f"the cluster at {self.host} does not answer: {_cause(error)}") from error


def connect(namespace: str | None = None) -> Cluster:
    """The cluster of the current context; a request is made only when something is asked."""
    if kubernetes is None:
        raise Refusal("reading from a cluster needs the Python package kubernetes: install gpubench[operator]")
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # what it says of a lost connection, we say in a sentence
    configuration = kubernetes.client.Configuration()
    try:
        kubernetes.config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        _, current = kubernetes.config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
        default = (current.get("context") or {}).get("namespace") or "default"
    except (kubernetes.config.ConfigException, OSError) as error:
        raise Refusal(
            f"no cluster is configured ({_cause(error)}): set KUBECONFIG, or choose a context with kubectl config"
        ) from error
    except _NO_KUBECONFIG as error:
        raise Refusal(
            f"the kubeconfig cannot be read ({_cause(error)}): is what KUBECONFIG names, or ~/.kube/config, a file "
            "that kubectl accepts?"
        ) from error
    configuration.retries = False  # `watch` retries itself, and says so
    client = kubernetes.client.ApiClient(configuration)
    api, core = kubernetes.client.CustomObjectsApi(client), kubernetes.client.CoreV1Api(client)
    return Cluster(api, core, host=configuration.host, namespace=namespace or default)


def _pool(item: Mapping[str, Any]) -> GpuPool:
    try:
        return validate.load_pool(item)
    except validate.InvalidObject as error:
        raise Refusal(
            f"{names.POOL_KIND} {error.name} of the cluster cannot be read by this gpubench: {error.problems[0]}"
        ) from error


def _refusal(error: Any, *, what: str, host: str) -> Refusal:
    """A refused request in one sentence."""
    said = _message(error.body) or str(error.reason)
    if error.status in _RETRY_LATER:
        return Unavailable(f"the cluster at {host} could not answer ({error.status}): {said}")
    if error.status == 401:
        return Refusal(f"the cluster at {host} does not know you (401): log in again, or check the kubeconfig")
    if error.status == 403:
        return Refusal(f"no permission to read {what}: {said}")
    if error.status == 404:
        if _message(error.body) is None:  # no Status object: the whole group is unknown there
            return Refusal(f"gpubench is not installed in the cluster at {host}: it does not know {names.API_VERSION}")
        return Refusal(f"there is no {what} in the cluster at {host}")
    return Refusal(f"the cluster at {host} refused to show {what} ({error.status}): {said}")


def _message(body: object) -> str | None:
    """The message in a Status object; None when the body is none."""
    try:
        status = json.loads(str(body))
    except ValueError:
        return None
    return str(status.get("message")) if isinstance(status, dict) and status.get("kind") == "Status" else None


def _cause(error: BaseException) -> str:
    """The innermost reason, without the client's wrapping."""
    reason = getattr(error, "reason", None)
    text = str(reason if isinstance(reason, BaseException) else error)
    return " ".join(text.rsplit(">: ", 1)[-1].rsplit("): ", 1)[-1].split())
