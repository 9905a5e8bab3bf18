# SPDX-License-Identifier: Apache-2.0
"""Reading from a cluster: the person's own kubeconfig, plain dicts, a time limit on every request.

Only the commands that need a cluster import this module, and it alone imports the client. Must not happen: a write but
of `spec.drill` (reviews of permissions are kept nowhere), a wait without a bound, or an error of the client that
reaches a person as it is.
"""

import email.utils
import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import yaml

from gpubench import names
from gpubench.api import validate
from gpubench.api.attempts import Drill
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

#: What a merge patch must name so that nothing of the drill before is left.
_NO_DRILL = dict.fromkeys(field.alias or name for name, field in Drill.model_fields.items())

_Answer = TypeVar("_Answer")


class NotThere(Refusal):
    """The cluster has no such object, or does not know its kind."""


class NotAllowed(Refusal):
    """The cluster knows who asks, and does not let them."""


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

    def set_drill(self, name: str, drill: Mapping[str, Any] | None) -> None:
        """The drill of a GpuBenchmark in place of the one that it had; None for none."""
        self._ask(
            lambda: self._api.patch_namespaced_custom_object(
                names.GROUP,
                names.VERSION,
                self.namespace,
                names.BENCHMARK_PLURAL,
                name,
                {"spec": {"drill": None if drill is None else {**_NO_DRILL, **drill}}},
                _content_type="application/merge-patch+json",
                _request_timeout=_REQUEST_SECONDS,
            ),
            what=f"{names.BENCHMARK_KIND} {name} in namespace {self.namespace}",
            doing="change",
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

    def nodes(self) -> tuple[dict[str, Any], ...]:
        """All nodes of the cluster."""
        return tuple(self.get("/api/v1/nodes", what="Nodes")["items"])

    def get(self, path: str, *, what: str, **query: str) -> dict[str, Any]:
        """An object or a list, by its path."""
        return self._exchange("GET", path, what=what, doing="read", query=query)[0]

    def version(self) -> tuple[dict[str, Any], float]:
        """What the API server says of itself, and what time it has there: its Leases are by that clock."""
        answer, said_at = self._exchange("GET", "/version", what="the version", doing="read")
        return answer, time.time() if said_at is None else email.utils.parsedate_to_datetime(said_at).timestamp()

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
        path = f"/apis/authorization.k8s.io/v1/{kind.lower()}s"
        answer, _ = self._exchange("POST", path, what=f"{kind}s", doing="ask for", body=body)
        return bool(answer["status"].get("allowed"))

    def _exchange(
        self,
        method: str,
        path: str,
        *,
        what: str,
        doing: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> tuple[dict[str, Any], str | None]:
        """One request as plain dicts, and the date that the server puts on its answer."""

        def request() -> tuple[dict[str, Any], str | None]:
            client = self._api.api_client
            headers = {"Accept": "application/json"} | ({} if body is None else {"Content-Type": "application/json"})
            prepared = client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            answer = client.call_api(*prepared, _request_timeout=_REQUEST_SECONDS)
            text = answer.read().decode(errors="replace")
            if not 200 <= answer.status < 300:
                raise kubernetes.client.ApiException.from_response(http_resp=answer, body=text, data=None)
            found: dict[str, Any] = json.loads(text)
            return found, answer.getheader("Date")

        return self._ask(request, what=what, doing=doing)

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

    def _ask(self, request: Callable[[], _Answer], *, what: str, doing: str = "read") -> _Answer:
        try:
            return request()
        except kubernetes.client.ApiException as error:
            raise _refusal(error, what=what, doing=doing, host=self.host) from error
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


def _refusal(error: Any, *, what: str, doing: str, host: str) -> Refusal:
    """A refused request in one sentence."""
    said = _message(error.body) or str(error.reason)
    if error.status in _RETRY_LATER:
        return Unavailable(f"the cluster at {host} could not answer ({error.status}): {said}")
    if error.status == 401:
        return Refusal(f"the cluster at {host} does not know you (401): log in again, or check the kubeconfig")
    if error.status == 403:
        return NotAllowed(f"no permission to {doing} {what}: {said}")
    if error.status == 404:
        if _message(error.body) is None:  # no Status object: the whole group is unknown there
            return NotThere(f"gpubench is not installed in the cluster at {host}: it does not know {names.API_VERSION}")
        return NotThere(f"there is no {what} in the cluster at {host}")
    return Refusal(f"the cluster at {host} refused to {doing} {what} ({error.status}): {said}")


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
