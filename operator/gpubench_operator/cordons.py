# SPDX-License-Identifier: Apache-2.0
"""Nodes that take no new pods for a while, because `spec.drill` drains them on purpose.

What says so, until when and for whom, stands on the node itself: whichever operator comes later finds it there and lets
the node take pods again, also when the study is gone. Nodes are looked through when an operator begins to lead, at each
resync, and when the first of them is due.

Must not happen: a node that stays cordoned; one that takes pods again though somebody else has cordoned it.
"""

import time
from collections.abc import Callable

from gpubench import names
from gpubench.scheduler import decision
from gpubench_cluster import kube
from gpubench_operator import keys, logs, observe

_log = logs.logger(__name__)


class Cordons:
    """Cordons nodes, and takes that back."""

    def __init__(
        self, api: kube.Kube, *, wake: Callable[[keys.Key], None], clock: Callable[[], float] = time.time
    ) -> None:
        self._api = api
        self._wake = wake
        self._clock = clock

    async def cordon(self, asked: decision.Cordon, *, study: str) -> bool:
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
        self._wake(keys.CORDONS)
        return True

    async def reconcile(self, key: keys.Key) -> float | None:
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
