# SPDX-License-Identifier: Apache-2.0
"""The nodes that gangs run on: instance type and zone, from labels that every cloud gives them, and whether they live.

Nodes come and go, spot ones within minutes: what was seen once is remembered, and a node that nobody has seen yet is
looked for when a pod is on it. What is not known is None. Whether a node lives is read from the poll of the pools, and
read anew for those nodes that a verdict may hang on: a machine that is gone has no pod that says so.

Must not happen: an attempt recorded as of an unknown type because another study's look had only just begun to ask, or
because the API server was away for a moment. The record is for good, so a look waits, or is repeated later. A look that
lacks nothing waits for nobody.

One node stays unknown all the same: of an attempt whose only look falls within the seconds after a list that did not
have the node yet. Who waited for it then would wait in vain for each node that is gone.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

from gpubench.scheduler import interruptions, observed
from gpubench_cluster import kube
from gpubench_operator import keys, logs, observe

_ASKED_AGAIN = 10.0  # seconds; a node that is not listed may be gone for good
_SEEN_JUST_NOW = 2.0  # seconds; several looks may follow upon one event
_ONE_BY_ONE_MAX = 8  # nodes that are asked for by their names; of more, all are listed
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
        self._failed: kube.TemporaryError | None = None  # that of the last one, where it was no answer
        self._seen_at: dict[str, float] = {}  # when it was last seen whether a node lives
        self._used_by: dict[keys.Key, frozenset[str]] = {}
        self._changed: set[str] = set()  # nodes that came into trouble, or out of it, and nobody was told yet

    def note(self, bodies: Iterable[kube.Object], *, all_there_are: bool = False) -> None:
        """Nodes as somebody has listed them just now; metadata is enough for what they are, not for how they are."""
        listed = set()
        for body in bodies:
            name = kube.name_of(body)
            listed.add(name)
            self._keep(observe.node(body, self.known.get(name)))
            if "status" in body:
                self._seen_at[name] = self._clock()
        if all_there_are:
            self._gone(self.known.keys() - listed)
        for name in list(self.known)[: max(0, len(self.known) - REMEMBERED_MAX)]:
            del self.known[name]
            self._seen_at.pop(name, None)

    def use(self, key: keys.Key, nodes: Iterable[str]) -> None:
        """A study has attempts under way on these nodes now; on none, and it is forgotten."""
        if used := frozenset(nodes):
            self._used_by[key] = used
        else:
            self._used_by.pop(key, None)

    def affected(self) -> set[keys.Key]:
        """The studies of which a node has come into trouble, or out of it, since this was asked last."""
        changed, self._changed = self._changed, set()
        return {key for key, used in self._used_by.items() if used & changed}

    async def of_jobs(
        self,
        jobs: Iterable[observed.ObservedJob],
        *,
        placed: Iterable[str] = (),
        in_question: Collection[str] = (),
    ) -> tuple[observed.ObservedNode, ...]:
        """The nodes of the pods of these Jobs, and those that their attempts were placed on, as far as they are known.

        Those in question are as they are now.
        """
        wanted = {pod.node for job in jobs for pod in job.pods if pod.node is not None} | set(placed)
        if wanted - self.known.keys():
            await self._answered(wanted)
        await self._look_at(wanted & set(in_question))
        return tuple(self.known[name] for name in sorted(wanted & self.known.keys()))

    async def _look_at(self, names: Collection[str]) -> None:
        """See whether these nodes live, unless that was seen just now."""
        now = self._clock()
        due = sorted(name for name in names if not 0 <= now - self._seen_at.get(name, float("-inf")) < _SEEN_JUST_NOW)
        try:
            if len(due) > _ONE_BY_ONE_MAX:
                self.note(await self._api.list(kube.NODES), all_there_are=True)
                return
            for name in due:
                found = await self._api.list(kube.NODES, fields={"metadata.name": name})
                self.note(found)
                if not found:
                    self._gone({name} & self.known.keys())
        except kube.PermanentError as error:
            _log.warning("nodes not looked at", extra={"sentence": str(error)})

    def _keep(self, node: observed.ObservedNode) -> None:
        before = self.known.pop(node.name, None)  # to the end: what has not been seen for longest is forgotten first
        self.known[node.name] = node
        if _trouble(before) != _trouble(node):
            self._changed.add(node.name)

    def _gone(self, names: Iterable[str]) -> None:
        """Nodes that were there and are not any more: it is remembered what they were, and since when they are gone."""
        for name in names:
            self._seen_at[name] = self._clock()
            if self.known[name].gone_since is None:
                self._keep(self.known[name].model_copy(update={"gone_since": self._clock()}))

    async def _answered(self, wanted: set[str]) -> None:
        """Whoever comes while it is asked waits for the same answer, or for none: never for a second time-out."""
        before = self._asked
        async with self._asking:
            if self._asked > before and self._failed is not None:
                raise kube.TemporaryError(str(self._failed), delay=self._failed.delay)
            if wanted - self.known.keys():
                failed = None
                try:
                    await self._ask()
                except kube.TemporaryError as error:
                    failed = error
                self._asked, self._failed = self._asked + 1, failed
                if failed is not None:
                    raise failed

    async def _ask(self) -> None:
        """One list for all; kube.TemporaryError where the cluster does not answer."""
        now = self._clock()
        if self._asked_at is not None and self._asked_at <= now < self._asked_at + _ASKED_AGAIN:
            return
        try:
            self.note(await self._api.list(kube.NODES, metadata_only=True))
        except (
            kube.PermanentError
        ) as error:  # not permitted, say: figures are none the worse for it, but for what may be averaged
            _log.warning("nodes not listed", extra={"sentence": str(error)})
        self._asked_at = now


def _trouble(node: observed.ObservedNode | None) -> tuple[bool, bool, str | None]:
    """What of a node could be the end of a gang on it."""
    if node is None:
        return False, False, None
    return node.gone_since is not None, node.ready is False, interruptions.leaving(node)
