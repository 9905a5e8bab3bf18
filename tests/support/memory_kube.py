# SPDX-License-Identifier: Apache-2.0
"""A stand-in for an API server, in memory: enough of one to run reconciles by the thousand and to crash between writes.

It keeps what the operator relies on: unique names, resourceVersions that guard writes, merge patches, label selectors,
UID preconditions, immutability of UIDs. It is no API server: no schema, no admission, no garbage collection: a test
removes what a real one would collect. What matters is tested on a real one too.
"""

import copy
import itertools
import json
from collections.abc import Callable, Mapping

from gpubench_cluster import kube
from gpubench_operator import observe

Place = tuple[kube.Resource, str, str]

_SERVED = (kube.BENCHMARKS, kube.POOLS, kube.SCHEDULES)  # of groups that not every cluster has


class Crash(BaseException):
    """The operator dies here. No error that any code catches."""


class MemoryKube(kube.Kube):
    """Objects by resource, namespace and name."""

    def __init__(self, clock: Callable[[], float]) -> None:  # no connection is opened
        self._clock = clock
        self._objects: dict[Place, kube.Object] = {}
        self._versions = itertools.count(1)
        self.writes: list[tuple[str, str, str]] = []  # verb, resource and name of each write that was carried out
        self.crash_at: int | None = None  # the write that is not answered any more
        self.crash_before = False  # and whether it is carried out
        self.failures: list[Exception] = []  # raised by the next requests, one each
        self.refusals: dict[str, Exception] = {}  # raised by the next creation of such a resource
        self.unreadable: dict[str, Exception] = {}  # raised by each list of such a resource
        self.patch_refusals: dict[str, Exception] = {}  # raised by the next patch of an object of this name
        self.logs: dict[str, str | Exception] = {}  # of pods, by their names; an exception is raised
        self.logs_read: list[str] = []
        self.groups: set[str] = set()  # of the API, beyond those that every cluster has
        self.evictions_refused: list[Exception] = []  # raised by the next evictions, one each
        self.permitted: str | None = None  # the only namespace that the operator may read, where it is so

    async def close(self) -> None:
        """There is no connection."""

    async def get(self, resource: kube.Resource, *, name: str, namespace: str | None = None) -> kube.Object | None:
        self._fail()
        found = self._objects.get((resource, namespace or "", name))
        return copy.deepcopy(found)

    async def list(
        self,
        resource: kube.Resource,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        metadata_only: bool = False,
        keep: Callable[[kube.Object], bool] = bool,
    ) -> list[kube.Object]:
        self._fail()
        if resource.plural in self.unreadable:
            raise self.unreadable[resource.plural]
        if resource.namespaced and self.permitted not in (None, namespace):
            raise kube.Forbidden(f"cannot list {resource.plural} at the cluster scope", code=403)
        found = [
            body
            for (kind, place, _), body in self._objects.items()
            if kind == resource
            and (namespace is None or place == namespace)
            and (labels or {}).items() <= (body["metadata"].get("labels") or {}).items()
            and all(_field(body, path) == value for path, value in (fields or {}).items())
        ]
        read = (copy.deepcopy({"metadata": body["metadata"]} if metadata_only else body) for body in found)
        return [body for body in read if keep(body)]

    async def create(self, resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        self._fail()
        if resource.plural in self.refusals:
            raise self.refusals.pop(resource.plural)
        place = (resource, kube.namespace_of(body) or "", kube.name_of(body))
        if place in self._objects:
            return None
        with_identity = copy.deepcopy(body)
        number = next(self._versions)
        with_identity["metadata"] |= {
            "uid": f"uid-{number}",
            "creationTimestamp": observe.timestamp(self._clock()),
            "generation": 1,
        }
        return self._write("create", place, with_identity)

    async def patch(
        self,
        resource: kube.Resource,
        body: kube.Object,
        *,
        name: str,
        namespace: str | None = None,
        subresource: str | None = None,
    ) -> kube.Object | None:
        self._fail()
        if name in self.patch_refusals:
            raise self.patch_refusals.pop(name)
        if subresource not in (None, "status"):
            raise kube.PermanentError(f"no subresource {subresource}", code=404)
        place = (resource, namespace or "", name)
        before = self._objects.get(place)
        if before is None:
            return None
        metadata = body.get("metadata", {})
        for field in ("resourceVersion", "uid"):
            if field in metadata and metadata[field] != before["metadata"][field]:
                raise kube.TemporaryError(f"conflict: {field}", delay=0.2)
        after = _merged(before, {"status": body["status"]} if subresource == "status" else body)
        return self._write("patch", place, after)

    async def replace(self, resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        self._fail()
        place = (resource, kube.namespace_of(body) or "", kube.name_of(body))
        before = self._objects.get(place)
        if before is None:
            return None
        if kube.version_of(body) != kube.version_of(before):
            raise kube.TemporaryError("conflict", delay=0.2)
        return self._write("update", place, copy.deepcopy(body))

    async def delete(self, resource: kube.Resource, *, name: str, namespace: str, uid: str) -> bool:
        self._fail()
        place = (resource, namespace, name)
        found = self._objects.get(place)
        if found is None or kube.uid_of(found) != uid:
            return False
        after = copy.deepcopy(found)
        after["metadata"].setdefault("deletionTimestamp", observe.timestamp(self._clock()))
        self._write("delete", place, after)
        return True

    async def evict(self, *, pod: str, namespace: str, uid: str | None) -> bool:
        self._fail()
        if self.evictions_refused:
            raise self.evictions_refused.pop(0)
        place = (kube.PODS, namespace, pod)
        found = self._objects.get(place)
        if found is None or uid not in (None, kube.uid_of(found)):
            return False
        after = copy.deepcopy(found)
        after["metadata"].setdefault("deletionTimestamp", observe.timestamp(self._clock()))
        target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicted"}
        others = [one for one in after["status"].get("conditions") or () if one["type"] != target["type"]]
        after["status"]["conditions"] = [*others, target]
        self._write("evict", place, after)
        return True

    async def served(self, version: str) -> frozenset[str]:
        self._fail()
        return frozenset(one.plural for one in _SERVED if one.version == version)

    async def preferred_version(self, group: str) -> str | None:
        self._fail()
        return f"{group}/v1beta2" if group in self.groups else None

    async def log_head(self, *, pod: str, namespace: str, container: str, limit: int) -> str | None:
        del namespace, container
        self._fail()
        self.logs_read.append(pod)
        found = self.logs.get(pod)
        if isinstance(found, Exception):
            raise found
        return None if found is None else found[:limit]

    # --- for tests: what others do to the objects, which is never counted and never crashes ---

    def put(self, resource: kube.Resource, body: kube.Object) -> kube.Object:
        """Store an object as it is, with a UID of its own if it has none."""
        metadata = body["metadata"]
        metadata.setdefault("uid", f"uid-{next(self._versions)}")
        metadata.setdefault("generation", 1)
        metadata.setdefault("creationTimestamp", observe.timestamp(self._clock()))
        metadata["resourceVersion"] = str(next(self._versions))
        self._objects[resource, metadata.get("namespace", ""), metadata["name"]] = copy.deepcopy(body)
        return copy.deepcopy(body)

    def remove(self, resource: kube.Resource, *, name: str, namespace: str = "") -> None:
        """Remove an object at once."""
        self._objects.pop((resource, namespace, name), None)

    def all(self, resource: kube.Resource) -> tuple[kube.Object, ...]:
        """Every object of a kind."""
        return tuple(copy.deepcopy(body) for (kind, _, _), body in self._objects.items() if kind == resource)

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def _write(self, verb: str, place: Place, body: kube.Object) -> kube.Object:
        is_last = self.crash_at is not None and len(self.writes) == self.crash_at
        if is_last and self.crash_before:
            raise Crash
        before = self._objects.get(place)
        if before is not None and json.dumps(before, sort_keys=True) == json.dumps(body, sort_keys=True):
            return copy.deepcopy(before)
        body["metadata"]["resourceVersion"] = str(next(self._versions))
        self._objects[place] = body
        self.writes.append((verb, place[0].plural, place[2]))
        if is_last:
            raise Crash
        return copy.deepcopy(body)


def _merged(before: kube.Object, patch: kube.Object) -> kube.Object:
    """RFC 7386."""
    after = copy.deepcopy(before)
    for key, value in patch.items():
        if value is None:
            after.pop(key, None)
        elif isinstance(value, dict):
            inner = after.get(key)
            after[key] = _merged(inner if isinstance(inner, dict) else {}, value)
        else:
            after[key] = copy.deepcopy(value)
    return after


def _field(body: kube.Object, path: str) -> object:
    found: object = body
    for part in path.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found
