# SPDX-License-Identifier: Apache-2.0
"""Interruptions on purpose (`spec.drill`): pods are evicted, and their nodes are cordoned before.

A cordoned node itself says so, until when and for whom, in an annotation. Whichever operator comes later finds it there
and lets the node take pods again, also when the benchmark is gone. Nodes are looked through when an operator begins to
lead, at each resync, and when the first of them is due.

Must not happen: a node that stays cordoned; one that takes pods again though somebody else has cordoned it.
"""

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from gpubench import names
from gpubench.scheduler import actions, observed
from gpubench_cluster import kube
from gpubench_operator import events, observe, queue

_EVICTED_AGAIN = 5.0  # a PodDisruptionBudget that forbids it mostly does not say for how long
_TO_DRAIN = "let the operator patch nodes (rbac.drains of the chart), or set spec.drill.kind to Evict"

_log = logging.getLogger(__name__)


class Cordons:
    """Cordons nodes, and takes that back."""

    def __init__(
        self, api: kube.Kube, *, wake: Callable[[queue.Key], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._api = api
        self._wake = wake
        self._clock = clock

    async def cordon(self, asked: actions.Cordon, *, study: str) -> bool:
        """Whether the node takes no new pods now because of this; not where somebody else has cordoned it."""
        listed = await self._api.list(kube.NODES, fields={"metadata.name": asked.node})
        if not listed or ((listed[0].get("spec") or {}).get("unschedulable") and _mark(listed[0]) is None):
            return False
        if not await self._patch(listed[0], mark=f"{observe.timestamp(asked.until)} {study}", unschedulable=True):
            return False
        self._wake(queue.CORDONS)
        return True

    async def reconcile(self, key: queue.Key) -> float | None:
        """Let nodes that are due take pods again; the seconds until the next one is."""
        del key  # one list of nodes has all of them
        later: list[float] = []
        for body in await self._api.list(kube.NODES, metadata_only=True):
            mark = _mark(body)
            if mark is None:
                continue
            wait = _until(mark) - self._clock()
            if wait > 0:
                later.append(wait)
                continue
            await self._patch(body, mark=None, unschedulable=None)
            _log.info("uncordoned", extra={"node": kube.name_of(body), "cordoned": mark})
        return min(later, default=None)

    async def _patch(self, node: kube.Object, *, mark: str | None, unschedulable: bool | None) -> bool:
        version = kube.version_of(node)
        change: dict[str, Any] = {
            "metadata": {"resourceVersion": version, "annotations": {names.ANNOTATION_CORDONED: mark}},
            "spec": {"unschedulable": unschedulable},
        }
        return await self._api.patch(kube.NODES, change, name=kube.name_of(node)) is not None


def _mark(body: kube.Object) -> str | None:
    mark: str | None = (body["metadata"].get("annotations") or {}).get(names.ANNOTATION_CORDONED)
    return mark


def _until(mark: str) -> float:
    """The time in a node's annotation; the past where somebody has written something else there."""
    try:
        return observe.seconds(mark.partition(" ")[0]) or 0.0
    except ValueError:
        return 0.0


class Drills:
    """Carries out the evictions of all benchmarks."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        cordons: Cordons,
        recorder: events.EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._cordons = cordons
        self._recorder = recorder
        self._clock = clock

    async def evict(self, study: observed.Study, chosen: Iterable[actions.Eviction]) -> float | None:
        """Interrupt attempts on purpose; the seconds until one that is refused is tried again.

        The pod is named on its Job first, so that nobody takes the interruption for one of the pool's: whatever happens
        between the two, the next reconcile finds the name and evicts the same pod.
        """
        again = None
        for eviction in chosen:
            job, pod = eviction.job, eviction.pod
            mark = {"metadata": {"uid": job.uid, "annotations": {names.ANNOTATION_DRILLED: pod.name}}}
            if await self._api.patch(kube.JOBS, mark, name=job.name, namespace=study.namespace) is None:
                continue
            try:
                if eviction.cordon is not None:
                    await self._cordon(study, eviction.cordon)
                found = await self._api.evict(pod=pod.name, namespace=study.namespace, uid=pod.uid)
            except kube.ApiError as error:
                is_drain_forbidden = eviction.cordon is not None and isinstance(error, kube.Forbidden)
                remedy = f"; {_TO_DRAIN}" if is_drain_forbidden else ""
                message = f"pod {pod.name} cannot be evicted, as spec.drill asks: {error}{remedy}"
                await self._emit(study, events.warning(events.EVICTION_REFUSED, message))
                asked = error.delay if isinstance(error, kube.TemporaryError) else queue.AFTER_REFUSAL
                again = queue.earliest(again, asked or _EVICTED_AGAIN)
            else:
                _log.info(
                    "evicted on purpose", extra=observe.log_fields(study, job=job.name, pod=pod.name, found=found)
                )
        return again

    async def _cordon(self, study: observed.Study, asked: actions.Cordon) -> None:
        if await self._cordons.cordon(asked, study=f"{study.namespace}/{study.name}"):
            message = f"node {asked.node} takes no new pods until {observe.timestamp(asked.until)}, as spec.drill asks"
        else:
            message = f"node {asked.node} is gone, or cordoned by somebody else: only its pod is evicted"
        await self._emit(study, events.normal(events.NODE_CORDONED, message))

    async def _emit(self, study: observed.Study, event: actions.Event) -> None:
        await self._recorder.emit(events.subject_of(study), event, now=self._clock())
