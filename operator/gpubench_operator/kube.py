# SPDX-License-Identifier: Apache-2.0
"""The one small interface to the API server: plain dicts in, plain dicts out.

Not-found and already-exists are answers (None, False), because a reconciler asks such questions all the time. Whatever
else goes wrong is one of two errors: RetryLater, with a delay, or Never. Nothing here retries or waits by itself: the
queue does, where a waiting key costs nothing.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from gpubench import names

#: An object of the API, as the server sent it or as it is to be written.
Object = dict[str, Any]


class Resource(NamedTuple):
    """A kind of object, and where the API server keeps it."""

    version: str  # apiVersion: "v1" or "group/version"
    plural: str
    namespaced: bool = True

    def path(self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, or of the collection; without a namespace, of all namespaces."""
        parts = ["api" if self.version == "v1" else "apis", self.version]
        if namespace and self.namespaced:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/" + "/".join(parts)


BENCHMARKS = Resource(names.API_VERSION, names.BENCHMARK_PLURAL)
SCHEDULES = Resource(names.API_VERSION, names.SCHEDULE_PLURAL)
POOLS = Resource(names.API_VERSION, names.POOL_PLURAL, namespaced=False)
JOBS = Resource("batch/v1", "jobs")
PODS = Resource("v1", "pods")
EVICTIONS = Resource("v1", "pods/eviction")  # as permissions name it; created by Kube.evict
POD_LOGS = Resource("v1", "pods/log")  # as permissions name it; read by Kube.log_head
SERVICES = Resource("v1", "services")
CONFIG_MAPS = Resource("v1", "configmaps")
SECRETS = Resource("v1", "secrets")
EVENTS = Resource("v1", "events")
NODES = Resource("v1", "nodes", namespaced=False)
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "networkpolicies")
LEASES = Resource("coordination.k8s.io/v1", "leases")


class RetryLater(Exception):
    """The same request may succeed later: conflicts, overload, a server or a connection that is away."""

    def __init__(self, sentence: str, *, delay: float | None = None) -> None:
        super().__init__(sentence)
        self.delay = delay  # seconds that the server asked for; None where the caller's back-off decides


#: Somebody may change that: a permission, or a quota.
FORBIDDEN = 403


class Never(Exception):
    """The same request would be refused again until somebody changes something."""

    def __init__(self, sentence: str, *, code: int) -> None:
        super().__init__(sentence)
        self.code = code


class Kube(Protocol):
    """What this package needs of an API server."""

    async def get(self, resource: Resource, *, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None."""

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> list[Object]:
        """All matching objects, fetched in chunks; with `metadata_only`, without spec, status and data."""

    async def create(self, resource: Resource, body: Object) -> Object | None:
        """The object as it was created, or None when one of this name exists already."""

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

    async def replace(self, resource: Resource, body: Object) -> Object | None:
        """The whole object anew, guarded by its resourceVersion; None when there is no such object."""

    async def delete(self, resource: Resource, *, name: str, namespace: str, uid: str) -> bool:
        """Foreground deletion of exactly this object; False when it is gone or another one has its name."""

    async def evict(self, *, pod: str, namespace: str, uid: str | None) -> bool:
        """Ask for exactly this pod's eviction; False when it is gone or another one has its name.

        RetryLater where a PodDisruptionBudget does not allow it now.
        """

    async def serves(self, group: str) -> bool:
        """Whether the cluster has an API group, as anybody may ask who has an account."""

    async def log_head(self, *, pod: str, namespace: str, container: str, limit: int) -> str | None:
        """The first bytes of a container's log; None when there is no such pod.

        RetryLater also where its kubelet does not answer; what is no text is replaced.
        """


def namespace_of(body: Object) -> str | None:
    """The namespace in an object's metadata."""
    namespace: str | None = body.get("metadata", {}).get("namespace")
    return namespace


def name_of(body: Object) -> str:
    """The name in an object's metadata."""
    return str(body.get("metadata", {}).get("name", ""))


def uid_of(body: Object) -> str:
    """The UID in an object's metadata."""
    return str(body.get("metadata", {}).get("uid", ""))


def version_of(body: Object) -> str:
    """The resourceVersion in an object's metadata."""
    return str(body.get("metadata", {}).get("resourceVersion", ""))


def condition(body: Object, type_: str) -> Object | None:
    """A condition that is True, and speaks of the object as it is now: nobody has looked at a new spec yet."""
    generation = body["metadata"].get("generation")
    for one in (body.get("status") or {}).get("conditions") or ():
        if one.get("type") == type_ and one.get("status") == "True":
            found: Object = one
            return found if one.get("observedGeneration", generation) == generation else None
    return None


def is_owned_by(body: Object, uid: str) -> bool:
    """Whether the object with this UID is among the owners."""
    return any(owner.get("uid") == uid for owner in body.get("metadata", {}).get("ownerReferences") or ())
