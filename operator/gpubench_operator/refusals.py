# SPDX-License-Identifier: Apache-2.0
"""Writes that the API server did not take: nothing else waits for them, and each is tried again with a growing pause.

A webhook that is away fails every write of a kind of object for hours, and a status that waits for one says nothing.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Mapping
from typing import NamedTuple

from gpubench.api import messages
from gpubench.scheduler import actions, waiting
from gpubench_cluster import kube
from gpubench_operator import events, queue

SAID_FROM = 3  # temporary errors in a row: one or two pass by themselves
_FIRST_DELAY = 0.5


class _Failing(NamedTuple):
    times: int  # in a row
    error: kube.ApiError

    @property
    def is_said(self) -> bool:
        return self.times >= SAID_FROM or isinstance(self.error, kube.PermanentError)

    @property
    def message(self) -> str:
        return waiting.one_line(str(self.error))

    @property
    def delay(self) -> float:
        if isinstance(self.error, kube.PermanentError) and (self.times >= SAID_FROM or not self.error.code):
            return queue.AFTER_REFUSAL
        growing = _FIRST_DELAY * 2.0 ** min(self.times, 10) * random.uniform(0.75, 1.0)
        return min(max(self.error.delay or 0.0, growing), queue.AFTER_REFUSAL)


class Failures:
    """Reconciles that failed in a row, by the object's UID."""

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def event(self, uid: str, error: Exception) -> actions.Event | None:
        """What is said of the object: at once what is forbidden or damaged, else the third answer in a row.

        Of conflicts, and of an API server that is away, nothing is said.
        """
        if isinstance(error, kube.TemporaryError) and error.code in (None, kube.CONFLICT):
            return None
        self._times[uid] += 1
        if self._times[uid] < SAID_FROM and not (self.is_lasting(uid, error) or isinstance(error, kube.Forbidden)):
            return None
        return events.stuck(error) if isinstance(error, kube.ApiError) else events.unexpected(error)

    def is_lasting(self, uid: str, error: Exception) -> bool:
        """Whether trying again soon is of no use."""
        return isinstance(error, kube.PermanentError) and (error.code is None or self._times[uid] >= SAID_FROM)

    def forget(self, uid: str) -> None:
        self._times.pop(uid, None)


class Refusals:
    """What was refused in the last reconcile of each benchmark, by its UID and the object."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, _Failing]] = {}
        self._now: defaultdict[str, dict[str, _Failing]] = defaultdict(dict)

    def begin(self, uid: str) -> None:
        """A reconcile begins to write: what it does not try again is no matter any more."""
        self._before[uid] = self._now.pop(uid, {})

    async def trying(self, uid: str, what: str, write: Awaitable[object]) -> kube.ApiError | None:
        """Why a write was not taken; None where it was."""
        try:
            await write
        except kube.ApiError as error:
            times = [known[what].times for known in (self._before.get(uid, {}), self._now[uid]) if what in known]
            self._now[uid][what] = _Failing(max(times, default=0) + 1, error)
            return error
        self._now[uid].pop(what, None)
        return None

    async def all_taken(self, uid: str, writes: Mapping[str, Awaitable[object]]) -> bool:
        """Whether all of some writes were taken, side by side: a webhook may take its time for each."""
        return not any(await asyncio.gather(*(self.trying(uid, what, write) for what, write in writes.items())))

    def message(self, uid: str) -> messages.Waits | None:
        """What is said of the first object that is refused for good, or again and again."""
        return next((messages.refused(what, one.message) for what, one in self._now[uid].items() if one.is_said), None)

    def said(self, uid: str, what: str, *, was_said: bool) -> str | None:
        """What the API server said when it did not take an object, once that is no matter of a moment."""
        one = self._now[uid].get(what)
        return one.message if one is not None and (one.is_said or was_said) else None

    def again(self, uid: str) -> float | None:
        return queue.earliest(*(one.delay for one in self._now[uid].values()))

    def forget(self, uid: str) -> None:
        self._before.pop(uid, None)
        self._now.pop(uid, None)
