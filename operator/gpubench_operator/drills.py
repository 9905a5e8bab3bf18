# SPDX-License-Identifier: Apache-2.0
"""Interruptions on purpose (`spec.drill`): pods that are evicted, on nodes that are cordoned before."""

import time
from collections.abc import Callable, Iterable

from gpubench import names
from gpubench.scheduler import conditions, decision, observed
from gpubench_cluster import kube
from gpubench_operator import cordons, delays, logs, observe, story

_EVICTED_AGAIN = 5.0  # a PodDisruptionBudget that forbids it mostly does not say for how long
_TO_DRAIN = "let the operator patch nodes (rbac.drains of the chart), or set spec.drill.kind to Evict"

_log = logs.logger(__name__)


class Drills:
    """Carries out the evictions of all studies."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        cordons: cordons.Cordons,
        tale: story.Story,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._cordons = cordons
        self._story = tale
        self._clock = clock

    async def evict(self, study: observed.Study, chosen: Iterable[decision.Eviction]) -> float | None:
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
                happening = decision.Happening(type="Warning", reason=story.EVICTION_REFUSED, message=sentence)
                await self._story.tell(story.of_study(study), happening, now=self._clock())
                asked = error.delay if isinstance(error, kube.TemporaryError) else delays.AFTER_REFUSAL
                again = delays.earliest(again, asked or _EVICTED_AGAIN)
            else:
                _log.info("evicted on purpose", extra=logs.of_study(study, job=job.name, pod=pod.name, found=not gone))
        return again

    async def _cordon(self, study: observed.Study, asked: decision.Cordon | None) -> None:
        """Before a pod is evicted, where its node is drained."""
        if asked is None:
            return
        if await self._cordons.cordon(asked, study=f"{study.namespace}/{study.name}"):
            sentence = f"node {asked.node} takes no new pods until {observe.timestamp(asked.until)}, as spec.drill asks"
        else:
            sentence = f"node {asked.node} is gone, or cordoned by somebody else: only its pod is evicted"
        happening = decision.Happening(type="Normal", reason=story.NODE_CORDONED, message=sentence)
        await self._story.tell(story.of_study(study), happening, now=self._clock())


def _remedy(eviction: decision.Eviction, error: Exception) -> str:
    """What to do where an operator may not drain nodes, which most installations do not let it."""
    return f"; {_TO_DRAIN}" if eviction.cordon is not None and isinstance(error, kube.Forbidden) else ""
