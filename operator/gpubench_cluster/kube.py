# SPDX-License-Identifier: Apache-2.0
"""The one client of an API server: plain dicts in, plain dicts out, over the transport of `kubernetes.aio`.

The package's typed models raise on responses that lack a field, and objects may be of other versions. Not-found and
already-exists are answers (None, False). Whatever else goes wrong is an ApiError. Nothing here retries or waits by
itself. Each request has a time-out: a server that says nothing must not hold a worker for ever.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

import yaml

from gpubench import names

JSON = "application/json"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METHODS = {"get": "GET", "list": "GET", "create": "POST", "patch": "PATCH", "update": "PUT", "delete": "DELETE"}
_CHUNK = 50  # 500 Jobs are 50 MB when they are read
_CONNECT_SECONDS = 10.0
CONFLICT, _GONE, TOO_LARGE = 409, 410, 413
_LOG_SECONDS = 10.0  # a kubelet that is away holds up one benchmark for at most so long
#: Another pod of that name is a conflict: an eviction's conflicts the API server tries 20 times, half a second apart.
_EVICTION_SECONDS = 15.0
#: Servers that no proxy of the environment is for, as for kubectl (golang.org/x/net/http/httpproxy).
_LOOPBACK = re.compile(
    r"https?://(localhost\.?|127(\.\d+){3}|\[(::|(0+:){7}0*)1\]|\[::ffff:127(\.\d+){3}\])(:|/|$)", re.I
)
#: What the package raises over a kubeconfig that is absent, no YAML, or of another shape than it takes for granted.
_NO_KUBECONFIG = (OSError, yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError)

#: An object of the API, as the server sent it or as it is to be written.
Object = dict[str, Any]
#: Codes, and reasons of Status objects, that are answers and no errors.
Absent = Sequence[int | str]
#: Told about each request: verb, resource and code ("error" where no answer came).
Count = Callable[[str, str, str], None]


class Resource(NamedTuple):
    """A kind of object, and where the API server keeps it."""

    version: str  # apiVersion: "v1" or "group/version"
    plural: str
    namespaced: bool = True

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, or of the collection; without a namespace, of all namespaces."""
        parts = ["api" if self.version == "v1" else "apis", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts += [self.plural, quote(name or "", safe=""), subresource or ""]
        return "/" + "/".join(filter(None, parts))


BENCHMARKS = Resource(names.API_VERSION, names.BENCHMARK_PLURAL)
SCHEDULES = Resource(names.API_VERSION, names.SCHEDULE_PLURAL)
POOLS = Resource(names.API_VERSION, names.POOL_PLURAL, namespaced=False)
JOBS = Resource("batch/v1", "jobs")
PODS = Resource("v1", "pods")
SERVICES = Resource("v1", "services")
CONFIG_MAPS = Resource("v1", "configmaps")
SECRETS = Resource("v1", "secrets")
EVENTS = Resource("v1", "events")
NODES = Resource("v1", "nodes", namespaced=False)
NAMESPACES = Resource("v1", "namespaces", namespaced=False)
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "networkpolicies")
LEASES = Resource("coordination.k8s.io/v1", "leases")
TOKEN_REVIEWS = Resource("authentication.k8s.io/v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = Resource("authorization.k8s.io/v1", "subjectaccessreviews", namespaced=False)


class ApiError(Exception):
    """A request that was not answered as it was meant."""

    def __init__(self, message: str, *, code: int | None = None, reason: str = "", delay: float | None = None) -> None:
        super().__init__(message)
        self.code = code  # of HTTP; None where no answer came
        self.reason = reason  # in the server's words, or why no answer came
        self.delay = delay  # seconds that the server asked for; None where the caller's back-off decides


class TemporaryError(ApiError):
    """The same request may succeed later: conflicts, overload, a server or a connection that is away."""


class PermanentError(ApiError):
    """The same request would be refused again until somebody changes something."""


class Forbidden(PermanentError):
    """For want of a permission, or of quota."""


class NotFound(PermanentError):
    """There is no such object."""


class NotServed(NotFound):
    """The API server does not know the path: the whole group is unknown there."""


#: Codes that may pass, and in how many seconds. 401 is a token that is being rotated; a wrong one shows in the log.
#: 413 is also what a proxy says that has no memory left just now.
_DELAYS = {401: 2.0, 408: None, CONFLICT: 0.2, _GONE: 0.2, TOO_LARGE: None, 425: None, 429: None}
#: What the API server says of a path that it does not serve, in plain text. It says all else in Status objects.
_NOT_SERVED = b"404 page not found"


async def credentials(
    *, in_cluster: bool = False, kubeconfig: str | None = None, context: str | None = None
) -> tuple[Any, str]:
    """Of the kubeconfig that kubectl would take, and its namespace; with `in_cluster`, a pod's own go before them."""
    try:
        from kubernetes.aio import config  # noqa: PLC0415  # takes long to load, and is an extra
        from kubernetes.aio.client import configuration  # noqa: PLC0415  # as above
    except ImportError as error:
        raise PermanentError(
            "reading from a cluster needs the Python package kubernetes: install kube-gpubench[operator]"
        ) from error
    logging.getLogger("kubernetes").setLevel(logging.ERROR)  # a kubeconfig that is absent, we say ourselves
    found: Any = configuration.Configuration()
    with contextlib.suppress(config.ConfigException):
        if in_cluster:
            config.load_incluster_config(found)  # type: ignore[no-untyped-call]  # has no types
            return found, "default"
    load: Any = config.load_kube_config  # has no types
    try:
        loader = await load(kubeconfig, context, client_configuration=found, persist_config=False)
        namespace = (loader.current_context.get("context") or {}).get("namespace") or "default"
    except (config.ConfigException, *_NO_KUBECONFIG) as error:
        raise PermanentError(
            f"no cluster is configured ({_cause(error)}): set KUBECONFIG to a file that kubectl accepts, or choose a "
            "context with kubectl config"
        ) from error

    async def renew(configured: Any) -> None:
        if hasattr(loader, "exec_plugin_expiry"):  # otherwise each request would run the plugin
            await loader.load_and_set(configured)

    found.refresh_api_key_hook = renew
    return found, str(namespace)


def trusts_environment(host: str) -> bool:
    """Whether requests to this server go through the proxy of the environment, if it has one."""
    return not _LOOPBACK.match(host)


class Pace:
    """A token bucket, as client-go has: `rate` requests a second, and after a silence `burst` at once."""

    def __init__(self, rate: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._full_at = 0.0  # when the bucket will be full again

    def take(self) -> float:
        """Take the next token; the seconds until it is there."""
        now = self._clock()
        self._full_at = max(self._full_at, now) + 1 / self._rate
        return max(0.0, self._full_at - now - self._burst / self._rate)


class Kube:
    """One connection pool to one API server. The manager is who stands in managedFields; times are in seconds."""

    def __init__(
        self,
        configured: Any,
        *,
        manager: str,
        timeout: float,
        count: Count = lambda *_: None,
        pace: Pace | None = None,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        import aiohttp  # noqa: PLC0415  # takes long to load
        from kubernetes.aio.client import api_client  # noqa: PLC0415  # as above

        configured.client_session_kwargs = {"trust_env": trusts_environment(configured.host)}
        try:
            self._client: Any = api_client.ApiClient(configured)  # the package has no types worth the name
        except OSError as error:
            raise PermanentError(f"the certificates of the kubeconfig cannot be read: {_cause(error)}") from error
        self._client.user_agent = manager
        self._timeout, self._count, self._limit, self._pace = timeout, count, aiohttp.ClientTimeout, pace
        self._may_write = may_write  # asked right before each request that writes
        self._away, self._proxy_away = (TimeoutError, aiohttp.ClientError, OSError), aiohttp.ClientProxyConnectionError

    async def close(self) -> None:
        await self._client.close()

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object | None:
        # Without a name the path would be that of the list.
        return await self._object("get", resource, namespace=namespace, name=name) if name else None

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        metadata_only: bool = False,
        keep: Callable[[Object], bool] = bool,
    ) -> list[Object]:
        """All matching objects that `keep` wants, chunk by chunk; with `metadata_only` without content."""
        path, accept = resource.path(namespace=namespace), _METADATA_LIST if metadata_only else JSON
        query = {"limit": str(_CHUNK), "labelSelector": _selector(labels), "fieldSelector": _selector(fields)}
        found: list[Object] = []
        while True:
            try:
                answer = await self.ask("list", resource.plural, path, query=query, accept=accept, absent=())
            except TemporaryError as error:
                if error.code != _GONE or not query.get("continue"):
                    raise
                found, query["limit"], query["continue"] = [], "", ""  # as client-go: anew, and in one chunk
                continue
            page = _read(f"list {resource.plural}", answer, "items")
            found += filter(keep, page["items"] or ())
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return found

    async def create(self, resource: Resource, body: Object) -> Object | None:
        """The object as it was created, or None when one of this name exists already."""
        absent = ("AlreadyExists",)
        return await self._object("create", resource, body=body, absent=absent, namespace=namespace_of(body))

    async def patch(
        self,
        resource: Resource,
        body: Object,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> Object | None:
        """A JSON merge patch; None when there is no such object. A resourceVersion in `body` guards it."""
        return await self._object("patch", resource, body=body, namespace=namespace, name=name, subresource=subresource)

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """The whole object anew, guarded by its resourceVersion; None when there is no such object."""
        return await self._object("update", resource, body=body, namespace=namespace_of(body), name=name_of(body))

    async def delete(self, resource: Resource, *, name: str, namespace: str, uid: str) -> bool:
        """Foreground deletion of exactly this object; False when it is gone or another one has its name."""
        options = {"kind": "DeleteOptions", "propagationPolicy": "Foreground", "preconditions": {"uid": uid}}
        path, body = resource.path(namespace=namespace, name=name), {"apiVersion": "v1", **options}
        return await self.ask("delete", resource.plural, path, body=body, absent=(404, CONFLICT)) is not None

    async def evict(self, *, pod: str, namespace: str, uid: str | None) -> bool:
        """Ask for exactly this pod's eviction; False when it is gone. TemporaryError where its budget forbids it."""
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
            "deleteOptions": {} if uid is None else {"preconditions": {"uid": uid}},
        }
        path = PODS.path(namespace=namespace, name=pod, subresource="eviction")
        limit = max(self._timeout, _EVICTION_SECONDS)
        answer = await self.ask("create", "pods/eviction", path, body=body, absent=(404, CONFLICT), seconds=limit)
        return answer is not None

    async def preferred_version(self, group: str) -> str | None:
        """The apiVersion of an API group, as anybody may ask who has an account; None where the cluster has none."""
        if (answer := await self.ask("get", "apigroups", f"/apis/{group}")) is None:
            return None
        return str(_read("get apigroups", answer, "preferredVersion")["preferredVersion"]["groupVersion"])

    async def served(self, version: str) -> frozenset[str]:
        """Plurals of the kinds that a version of a group has, as discovery says."""
        answer = await self.ask("get", "apigroups", f"/apis/{version}")
        found = {"resources": ()} if answer is None else _read("get apigroups", answer, "resources")
        return frozenset(one["name"] for one in found["resources"])

    async def log_head(self, *, pod: str, namespace: str, container: str, limit: int) -> str | None:
        """The first bytes of a container's log; None without such a pod, TemporaryError without its kubelet."""
        path = PODS.path(namespace=namespace, name=pod, subresource="log")
        query = {"container": container, "limitBytes": str(limit)}
        answer = await self.ask("get", "pods/log", path, query=query, seconds=min(self._timeout, _LOG_SECONDS))
        return None if answer is None else bytes(answer.data)[:limit].decode(errors="replace")

    async def _object(
        self, verb: str, resource: Resource, *, body: Object | None = None, absent: Absent = (404,), **where: str | None
    ) -> Object | None:
        answer = await self.ask(verb, resource.plural, resource.path(**where), body=body, absent=absent)
        return None if answer is None else _read(f"{verb} {resource.plural}", answer, "metadata")

    async def ask(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        accept: str = JSON,
        absent: Absent = (404,),
        seconds: float | None = None,
    ) -> Any:
        """One request: the response with its `data` and `headers`; None for the codes and reasons in `absent`."""
        what, code = f"{verb} {resource}", "error"
        if self._pace is not None and (wait := self._pace.take()):
            await asyncio.sleep(wait)
        if verb not in ("get", "list") and not self._may_write():
            raise TemporaryError(f"{what}: the Lease is not certain just now", delay=1.0)
        content = "application/merge-patch+json" if verb == "patch" else JSON
        try:
            request = await self._client.param_serialize(
                _METHODS[verb],
                path,
                query_params=[(key, value) for key, value in (query or {}).items() if value],
                header_params={"Accept": accept, "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            limit = self._limit(total=seconds or self._timeout, sock_connect=_CONNECT_SECONDS)
            response = await self._client.call_api(*request, _request_timeout=limit)
            await response.read()
            code = str(response.status)
        except self._away as error:
            proxy = f"the proxy {error.host}:{error.port}: " if isinstance(error, self._proxy_away) else ""
            reason = proxy + _cause(error)
            raise TemporaryError(f"{what}: no answer from the API server: {reason}", reason=reason) from error
        finally:
            self._count(verb, resource, code)
        if 200 <= response.status <= 299:
            return response
        status = _status(response.data)
        is_of_server = bool(status) or response.data.startswith(_NOT_SERVED)
        if is_of_server and (response.status in absent or status.get("reason") in absent):
            return None
        if response.status == TOO_LARGE:
            what = f"{what} of {len(json.dumps(body)):,} bytes"
        raise _refusal(what, response, status, is_of_server=is_of_server)


def _selector(wanted: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (wanted or {}).items())


def _status(answer: bytes) -> Object:
    """The Status object of a refusal; nothing where it is none: of a proxy, or of a path that nobody serves."""
    try:
        status = json.loads(answer)
    except ValueError:
        return {}
    return status if isinstance(status, dict) and status.get("kind") == "Status" else {}


def _read(what: str, answer: Any, key: str) -> Object:
    """The object in an answer, which has this key; TemporaryError for anything else: half an answer, or a proxy's."""
    with contextlib.suppress(ValueError):
        found = json.loads(answer.data)
        if isinstance(found, dict) and key in found:
            return found
    reason = f"the answer is no object with {key}, as when a proxy cuts it off"
    raise TemporaryError(f"{what}: {reason}", code=answer.status, reason=reason)


def _refusal(what: str, response: Any, status: Object, *, is_of_server: bool) -> ApiError:
    code, reason = response.status, str(status.get("message") or response.reason)
    is_temporary = not is_of_server or code in _DELAYS or code >= 500
    error: type[ApiError] = TemporaryError if is_temporary else PermanentError
    if code in (403, 404) and is_of_server:
        error = Forbidden if code == 403 else NotFound if status else NotServed
    asked = str(response.headers.get("Retry-After") or (status.get("details") or {}).get("retryAfterSeconds") or "")
    delay = float(asked) if asked.isdecimal() else _DELAYS.get(code)
    return error(f"{what}: {reason} (code {code})", code=code, reason=reason, delay=delay)


def _cause(error: BaseException) -> str:
    """The innermost reason in one line, without the package's wrapping."""
    inner = getattr(error, "os_error", error)
    text = os.strerror(inner.errno) if isinstance(inner, ConnectionError) and inner.errno else str(inner)
    return " ".join(text.split()) or type(inner).__name__


def namespace_of(body: Object) -> str | None:
    namespace: str | None = body.get("metadata", {}).get("namespace")
    return namespace


def name_of(body: Object) -> str:
    return str(body.get("metadata", {}).get("name", ""))


def uid_of(body: Object) -> str:
    return str(body.get("metadata", {}).get("uid", ""))


def version_of(body: Object) -> str:
    return str(body.get("metadata", {}).get("resourceVersion", ""))


def condition(body: Object, type_: str) -> Object | None:
    """A condition that is True, and speaks of the object as it is now: nobody has looked at a new spec yet."""
    generation = body["metadata"].get("generation")
    every: list[Object] = (body.get("status") or {}).get("conditions") or []
    found = (one for one in every if one.get("type") == type_ and one.get("status") == "True")
    return next((one for one in found if one.get("observedGeneration", generation) == generation), None)


def is_owned_by(body: Object, uid: str) -> bool:
    return any(owner.get("uid") == uid for owner in body.get("metadata", {}).get("ownerReferences") or ())
