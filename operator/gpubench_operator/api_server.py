# SPDX-License-Identifier: Apache-2.0
"""The Kube interface over the transport of `kubernetes.aio`, without its typed models.

The models raise on responses that lack a field, and a reconciler must live with objects that other versions wrote. Each
request has a time-out: a server that accepts a connection and then says nothing must not hold a worker for ever.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import api_client, configuration, exceptions

from gpubench_operator import kube

_USER_AGENT = "gpubench-operator"  # its first part is the manager in managedFields
_JSON = "application/json"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_MERGE_PATCH = "application/merge-patch+json"
_CHUNK = 500
_NO_SUCH_OBJECT = (404,)
_GROUPS = kube.Resource("", "apigroups")  # of discovery
_LOG_SECONDS = 10.0  # a kubelet that is away holds up one study for at most so long
#: Another pod of that name is a conflict: an eviction's conflicts the API server tries 20 times, half a second apart.
_EVICTION_SECONDS = 15.0

#: Told about each request: verb, resource and code ("error" where no answer came).
Count = Callable[[str, str, str], None]


async def load_configuration() -> configuration.Configuration:
    """Credentials from the pod's service account, or else from the kubeconfig that kubectl would take."""
    client_configuration = configuration.Configuration()
    try:
        kube_config.load_incluster_config(client_configuration)  # type: ignore[no-untyped-call]  # has no types
    except kube_config.ConfigException:
        load = kube_config.load_kube_config
        await load(client_configuration=client_configuration)  # type: ignore[no-untyped-call]  # has no types
    return client_configuration


class ApiServer:
    """One connection pool to one API server."""

    def __init__(self, client: api_client.ApiClient, *, timeout: float, count: Count) -> None:
        self._client: Any = client  # the package has no types worth the name
        self._client.user_agent = _USER_AGENT
        self._timeout = timeout
        self._count = count

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()

    async def get(self, resource: kube.Resource, *, name: str, namespace: str | None = None) -> kube.Object | None:
        """One object, or None."""
        return _object(await self._ask("GET", resource, resource.path(namespace=namespace, name=name), verb="get"))

    async def list(
        self,
        resource: kube.Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> list[kube.Object]:
        """All matching objects; a list whose continuation has expired is begun again by the next reconcile."""
        query = [("limit", str(_CHUNK))]
        if labels:
            query.append(("labelSelector", _selector(labels)))
        if fields:
            query.append(("fieldSelector", _selector(fields)))
        found: list[kube.Object] = []
        following = ""
        while True:
            page = _object(
                await self._ask(
                    "GET",
                    resource,
                    resource.path(namespace=namespace),
                    verb="list",
                    query=[*query, ("continue", following)] if following else query,
                    accept=_METADATA_LIST if metadata_only else _JSON,
                    absent=(),
                )
            )
            assert page is not None  # `absent` is empty: whatever is no answer was raised
            found += page.get("items") or ()
            following = (page.get("metadata") or {}).get("continue") or ""
            if not following:
                return found

    async def create(self, resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        """The object as it was created, or None when one of this name exists already."""
        path = resource.path(namespace=kube.namespace_of(body))
        return _object(await self._ask("POST", resource, path, verb="create", body=body, absent=(), exists=True))

    async def patch(
        self,
        resource: kube.Resource,
        body: kube.Object,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> kube.Object | None:
        """A JSON merge patch; None when there is no such object."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return _object(await self._ask("PATCH", resource, path, verb="patch", body=body, content=_MERGE_PATCH))

    async def replace(self, resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        """The whole object anew; None when there is no such object."""
        path = resource.path(namespace=kube.namespace_of(body), name=kube.name_of(body))
        return _object(await self._ask("PUT", resource, path, verb="update", body=body))

    async def delete(self, resource: kube.Resource, *, name: str, namespace: str, uid: str) -> bool:
        """Foreground deletion of exactly this object; False when it is gone or another one has its name."""
        options: kube.Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Foreground",
            "preconditions": {"uid": uid},
        }
        path = resource.path(namespace=namespace, name=name)
        answer = await self._ask("DELETE", resource, path, verb="delete", body=options, absent=(404, 409))
        return answer is not None

    async def evict(self, *, pod: str, namespace: str, uid: str | None) -> bool:
        """Ask for exactly this pod's eviction; False when it is gone or another one has its name."""
        eviction: kube.Object = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        if uid is not None:
            eviction["deleteOptions"] = {"preconditions": {"uid": uid}}
        path = kube.PODS.path(namespace=namespace, name=pod, subresource="eviction")
        seconds = max(self._timeout, _EVICTION_SECONDS)
        answer = await self._ask(
            "POST", kube.EVICTIONS, path, verb="create", body=eviction, absent=(404, 409), seconds=seconds
        )
        return answer is not None

    async def serves(self, group: str) -> bool:
        """Whether the cluster has an API group."""
        return await self._ask("GET", _GROUPS, f"/apis/{group}", verb="get") is not None

    async def log_head(self, *, pod: str, namespace: str, container: str, limit: int) -> str | None:
        """The first bytes of a container's log; None when there is no such pod."""
        answer = await self._ask(
            "GET",
            kube.POD_LOGS,
            kube.PODS.path(namespace=namespace, name=pod, subresource="log"),
            verb="get",
            query=[("container", container), ("limitBytes", str(limit))],
            seconds=min(self._timeout, _LOG_SECONDS),
        )
        return None if answer is None else answer[:limit].decode(errors="replace")

    async def _ask(
        self,
        method: str,
        resource: kube.Resource,
        path: str,
        *,
        verb: str,
        query: Sequence[tuple[str, str]] | None = None,
        body: kube.Object | None = None,
        content: str = _JSON,
        accept: str = _JSON,
        absent: tuple[int, ...] = _NO_SUCH_OBJECT,
        exists: bool = False,
        seconds: float | None = None,
    ) -> bytes | None:
        """One request. None for the codes in `absent`, and for already-exists where `exists` is set."""
        code, answer = "error", b""
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=[*query] if query else None,
                header_params={"Accept": accept, "Content-Type": content},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=seconds or self._timeout)
            answer = bytes(await response.read())
            code = str(response.status)
        except (TimeoutError, aiohttp.ClientError, OSError, exceptions.ApiException) as error:
            raise kube.RetryLater(f"{verb} {resource.plural}: no answer from the API server: {error!r}") from error
        finally:
            self._count(verb, resource.plural, code)
        if 200 <= response.status <= 299:
            return answer
        status = _status(answer)
        if response.status in absent or (exists and status.get("reason") == "AlreadyExists"):
            return None
        retry_after = response.headers.get("Retry-After")
        raise _error(f"{verb} {resource.plural}", response.status, status, retry_after=retry_after)


def _object(answer: bytes | None) -> kube.Object | None:
    """What the API server has answered with, or None as `_ask` gives it."""
    if answer is None:
        return None
    found: kube.Object = json.loads(answer)
    return found


def _selector(wanted: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in wanted.items())


def _status(answer: bytes) -> dict[str, Any]:
    """The Status object of a refusal; a proxy on the way may have answered with something else."""
    try:
        status = json.loads(answer)
    except ValueError:
        return {"message": answer[:200].decode(errors="replace")}
    return status if isinstance(status, dict) else {}


def _error(request: str, code: int, status: dict[str, Any], *, retry_after: str | None) -> Exception:
    """Which of the two errors a refusal is."""
    sentence = f"{request}: {status.get('message') or 'no reason given'} (code {code})"
    if code in (409, 410):
        return kube.RetryLater(sentence, delay=0.2)
    if code == 401:  # a token that is just being rotated; a wrong one shows in the log again and again
        return kube.RetryLater(sentence, delay=2.0)
    if code == 429 or code >= 500:
        asked = str(retry_after or (status.get("details") or {}).get("retryAfterSeconds") or "")
        return kube.RetryLater(sentence, delay=float(asked) if asked.isdigit() else None)
    return kube.Never(sentence, code=code)
