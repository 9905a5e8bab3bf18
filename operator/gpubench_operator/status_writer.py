# SPDX-License-Identifier: Apache-2.0
"""Writing a status: one merge patch, guarded, left out when nothing changed, and not too often.

Each write of a status goes through etcd and to every watcher. Progress may wait a moment; a phase or a condition may
not, because scripts wait for it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.condition import Condition
from gpubench.scheduler import conditions
from gpubench_cluster import kube


class Written(NamedTuple):
    """What became of a status."""

    changed: bool = False
    wait: float | None = None  # seconds after which it may be written


class StatusWriter:
    """Remembers when it wrote which object's status."""

    def __init__(self, api: kube.Kube, *, interval: float) -> None:
        self._api = api
        self._interval = interval
        self._written_at: dict[str, float] = {}

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._written_at.pop(uid, None)

    async def write(
        self,
        resource: kube.Resource,
        body: kube.Object,
        status: dict[str, Any],
        *,
        now: float,
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> Written:
        """Bring the status of `body`, as it was read, to `status`; `first` writes what that refers to."""
        before = body.get("status") or {}
        change = merge_patch(before, status)
        if not change:
            return Written()
        uid = kube.uid_of(body)
        wait = self._written_at.get(uid, 0.0) + self._interval - now
        if 0 < wait <= self._interval and standing(before) == standing(status):
            return Written(wait=wait)
        if first is not None:
            await first()
        patch = {"metadata": {"resourceVersion": kube.version_of(body)}, "status": change}
        name, namespace = kube.name_of(body), kube.namespace_of(body)
        await self._api.patch(resource, patch, name=name, namespace=namespace, subresource="status")
        self._written_at[uid] = now
        return Written(changed=True)


def stopped(body: kube.Object, *, reason: str, sentence: str, now: float) -> dict[str, Any]:
    """The status of a study that cannot go on, as it was, but for one condition that says why."""
    before = body.get("status") or {}
    generation = body["metadata"].get("generation", 1)
    others = [one for one in before.get("conditions") or () if one.get("type") != conditions.PROGRESSING]
    progressing = conditions.condition(
        conditions.PROGRESSING,
        holds=False,
        reason=reason,
        message=sentence,
        before=_readable(before),
        generation=generation,
        now=now,
    )
    fresh: dict[str, Any] = GpuBenchmarkStatus(phase="Pending", conditions=(progressing,)).to_wire()
    changed = {"observedGeneration": generation, "conditions": [*others, *fresh["conditions"]]}
    return {**fresh, **before, **changed, "message": fresh["message"]}


def _readable(status: dict[str, Any]) -> tuple[Condition, ...]:
    try:
        return tuple(Condition.model_validate(one) for one in status.get("conditions") or ())
    except ValidationError:
        return ()


def standing(status: dict[str, Any]) -> tuple[Any, ...]:
    """What scripts wait for."""
    conditions = status.get("conditions") or ()
    return (
        status.get("phase"),
        *(tuple(condition.get(field) for field in ("type", "status", "reason")) for condition in conditions),
    )


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from one object to another: null removes, lists are replaced as a whole."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
