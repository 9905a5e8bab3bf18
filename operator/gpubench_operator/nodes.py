# SPDX-License-Identifier: Apache-2.0
"""Instance type and zone of the nodes that gangs run on, from the labels that every cloud's nodes carry.

Nodes come and go, spot ones within minutes: what was seen once is remembered, and a node that nobody has seen yet is
looked for when a pod is on it. What is not known is None; nothing is decided by it but which figures may be averaged.

Must not happen: an attempt recorded as of an unknown type because another study's look had only just begun to ask, or
because the API server was away for a moment. The record is for good, so a look waits, or is repeated later. A look that
lacks nothing waits for nobody.

One node stays unknown all the same: of an attempt whose only look falls within the seconds after a list that did not
have the node yet. Who waited for it then would wait in vain for each node that is gone.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from gpubench import names
from gpubench.control import observed
from gpubench_operator import kube, logs

_ASKED_AGAIN = 10.0  # seconds; a node that is not listed may be gone for good
REMEMBERED_MAX = 20_000

_log = logs.logger(__name__)


class Nodes:
    """What is known of the cluster's nodes. One instance serves all studies."""

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self.known: dict[str, observed.ObservedNode] = {}
        self._asked_at: float | None = None
        self._asking = asyncio.Lock()
        self._asked = 0  # questions that have come to an end
        self._failed: kube.RetryLater | None = None  # that of the last one, where it was no answer

    def note(self, bodies: Iterable[kube.Object]) -> None:
        """Nodes as somebody has listed them just now; their metadata is enough."""
        for body in bodies:
            labels = body["metadata"].get("labels") or {}
            name = kube.name_of(body)
            self.known.pop(name, None)  # to the end: what has not been seen for longest is forgotten first
            self.known[name] = observed.ObservedNode(
                name=name,
                instance_type=labels.get(names.LABEL_INSTANCE_TYPE) or None,
                zone=labels.get(names.LABEL_ZONE) or None,
            )
        for name in list(self.known)[: max(0, len(self.known) - REMEMBERED_MAX)]:
            del self.known[name]

    async def of_jobs(self, jobs: Iterable[observed.ObservedJob]) -> tuple[observed.ObservedNode, ...]:
        """The nodes of the pods of these Jobs, as far as they are known."""
        wanted = {pod.node for job in jobs for pod in job.pods if pod.node is not None}
        if wanted - self.known.keys():
            await self._answered(wanted)
        return tuple(self.known[name] for name in sorted(wanted & self.known.keys()))

    async def _answered(self, wanted: set[str]) -> None:
        """Whoever comes while it is asked waits for the same answer, or for none: never for a second time-out."""
        before = self._asked
        async with self._asking:
            if self._asked > before and self._failed is not None:
                raise kube.RetryLater(str(self._failed), delay=self._failed.delay)
            if wanted - self.known.keys():
                failed = None
                try:
                    await self._ask()
                except kube.RetryLater as error:
                    failed = error
                self._asked, self._failed = self._asked + 1, failed
                if failed is not None:
                    raise failed

    async def _ask(self) -> None:
        """One list for all; kube.RetryLater where the cluster does not answer."""
        now = self._clock()
        if self._asked_at is not None and self._asked_at <= now < self._asked_at + _ASKED_AGAIN:
            return
        try:
            self.note(await self._api.list(kube.NODES, metadata_only=True))
        except (
            kube.Never
        ) as error:  # not permitted, say: figures are none the worse for it, but for what may be averaged
            _log.warning("nodes not listed", extra={"sentence": str(error)})
        self._asked_at = now
