# SPDX-License-Identifier: Apache-2.0
"""Nodes that take no new pods for a while, because `spec.drill` drains them on purpose.

What says so, until when and for whom, stands on the node itself: whichever operator comes later finds it there and lets
the node take pods again, also when the study is gone. Nodes are looked through when an operator begins to lead, at each
resync, and when the first of them is due.

Must not happen: a node that stays cordoned; one that takes pods again though somebody else has cordoned it.

Interruptions on purpose (`spec.drill`): pods that are evicted, on nodes that are cordoned before.
"""

import logging
import time
from collections.abc import Callable, Iterable

from gpubench import names
from gpubench.scheduler import actions, conditions, observed
from gpubench_cluster import kube
from gpubench_operator import events, observe, queue

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
        if not listed:
            return False
        (body,) = listed
        if (body.get("spec") or {}).get("unschedulable") and _mark(body) is None:
            return False
        change = {
            "metadata": {
                "resourceVersion": kube.version_of(body),
                "annotations": {names.ANNOTATION_CORDONED: f"{observe.timestamp(asked.until)} {study}"},
            },
            "spec": {"unschedulable": True},
        }
        if await self._api.patch(kube.NODES, change, name=asked.node) is None:
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
            change = {
                "metadata": {
                    "resourceVersion": kube.version_of(body),
                    "annotations": {names.ANNOTATION_CORDONED: None},
                },
                "spec": {"unschedulable": None},
            }
            await self._api.patch(kube.NODES, change, name=kube.name_of(body))
            _log.info("uncordoned", extra={"node": kube.name_of(body), "cordoned": mark})
        return min(later, default=None)


def _mark(body: kube.Object) -> str | None:
    mark: str | None = (body["metadata"].get("annotations") or {}).get(names.ANNOTATION_CORDONED)
    return mark


def _until(mark: str) -> float:
    """The moment in a node's annotation; the past where somebody has written something else there."""
    try:
        return observe.seconds(mark.partition(" ")[0]) or 0.0
    except ValueError:
        return 0.0


_EVICTED_AGAIN = 5.0  # a PodDisruptionBudget that forbids it mostly does not say for how long
_TO_DRAIN = "let the operator patch nodes (rbac.drains of the chart), or set spec.drill.kind to Evict"


class Drills:
    """Carries out the evictions of all studies."""

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
        between the two, the next look finds the name and evicts the same pod.
        """
        again = None
        for eviction in chosen:
            job, pod = eviction.job, eviction.pod
            mark = {"metadata": {"uid": job.uid, "annotations": {names.ANNOTATION_DRILLED: pod.name}}}
            if await self._api.patch(kube.JOBS, mark, name=job.name, namespace=study.namespace) is None:
                continue
            try:
                await self._cordon(study, eviction.cordon)
                gone = not await self._api.evict(pod=pod.name, namespace=study.namespace, uid=pod.uid)
            except kube.ApiError as error:
                sentence = f"pod {pod.name} cannot be evicted, as spec.drill asks: {error}{_remedy(eviction, error)}"
                sentence = conditions.clamped(sentence, 1024)
                happening = actions.Event(type="Warning", reason=events.EVICTION_REFUSED, message=sentence)
                await self._recorder.emit(events.subject_of(study), happening, now=self._clock())
                asked = error.delay if isinstance(error, kube.TemporaryError) else queue.AFTER_REFUSAL
                again = queue.earliest(again, asked or _EVICTED_AGAIN)
            else:
                _log.info(
                    "evicted on purpose", extra=observe.log_fields(study, job=job.name, pod=pod.name, found=not gone)
                )
        return again

    async def _cordon(self, study: observed.Study, asked: actions.Cordon | None) -> None:
        """Before a pod is evicted, where its node is drained."""
        if asked is None:
            return
        if await self._cordons.cordon(asked, study=f"{study.namespace}/{study.name}"):
            sentence = f"node {asked.node} takes no new pods until {observe.timestamp(asked.until)}, as spec.drill asks"
        else:
            sentence = f"node {asked.node} is gone, or cordoned by somebody else: only its pod is evicted"
        happening = actions.Event(type="Normal", reason=events.NODE_CORDONED, message=sentence)
        await self._recorder.emit(events.subject_of(study), happening, now=self._clock())


def _remedy(eviction: actions.Eviction, error: Exception) -> str:
    """What to do where an operator may not drain nodes, which most installations do not let it."""
    return f"; {_TO_DRAIN}" if eviction.cordon is not None and isinstance(error, kube.Forbidden) else ""
