# SPDX-License-Identifier: Apache-2.0
"""The keys that wait for a reconcile, and their queue.

One benchmark gives a storm of events, each of which only asks for a reconcile. As in client-go's work queue a key waits
at most once, is handled by one worker at a time, and is handled once more when it comes up meanwhile. A failure is a
wake-up after a growing, jittered delay: a key that fails for ever is tried for ever, at the longest delay.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from enum import StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from gpubench_cluster import kube

K = TypeVar("K", bound=Hashable)

AFTER_REFUSAL = 30.0  # seconds: somebody may have raised a quota or removed what was in the way; no event says so
_FIRST_DELAY = 0.5
_LONGEST_DELAY = 60.0
_SPREAD = 0.25  # of a delay that the server asks for: so much later at most

#: Receives each reconcile's outcome ("done", "retried", "failed") and its seconds.
Report = Callable[[str, float], None]

#: The key whose reconcile a task belongs to.
_reconciled: contextvars.ContextVar[Any] = contextvars.ContextVar("reconciled", default=None)

_log = logging.getLogger(__name__)


class Kind(StrEnum):
    """Which reconcile function a key belongs to."""

    BENCHMARK = "benchmark"
    SCHEDULE = "schedule"
    POOLS = "pools"  # all of them at once: their status comes from one list of nodes
    RESYNC = "resync"
    CORDONS = "cordons"  # all nodes that are cordoned on purpose


class Key(NamedTuple):
    """The name of something to reconcile."""

    kind: Kind
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


POOLS = Key(Kind.POOLS)
RESYNC = Key(Kind.RESYNC)
CORDONS = Key(Kind.CORDONS)


def benchmark_key(namespace: str, name: str) -> Key:
    return Key(Kind.BENCHMARK, namespace, name)


def key_of(kind: Kind, body: kube.Object) -> Key:
    return Key(kind, kube.namespace_of(body) or "", kube.name_of(body))


class SeenObjects:
    """The UID that each name had at the last reconcile: a deleted object may be created again under its name."""

    def __init__(self) -> None:
        self._uids: dict[Key, str] = {}

    def has(self, key: Key, uid: str) -> bool:
        return self._uids.get(key) == uid

    def replaced(self, key: Key, uid: str | None) -> str | None:
        """The UID of the object that has gone since the last reconcile; `uid` is that of the one that is there now."""
        before = self._uids.pop(key, None)
        if uid is not None:
            self._uids[key] = uid
        return None if before == uid else before


@contextlib.asynccontextmanager
async def turn(lock: asyncio.Lock) -> AsyncIterator[None]:
    """Hold the lock of those that compute for longer: what several of them do must not add up for the event loop."""
    async with lock:
        await asyncio.sleep(0)  # all others that are ready now find it taken
        yield


def earliest(*delays: float | None) -> float | None:
    return min((delay for delay in delays if delay is not None), default=None)


class WorkQueue(Generic[K]):
    """Keys and workers. All methods belong to one event loop; none but `run` and `work_once` waits."""

    def __init__(
        self,
        handle: Callable[[K], Awaitable[float | None]],
        *,
        clock: Callable[[], float],
        interval: float = 0.0,
        report: Report = lambda *_: None,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`handle` returns the seconds until the key is to be reconciled again, or None.

        Between two reconciles of one key lies at least `interval`: that turns a storm of events into a few reconciles.
        """
        self._handle, self._clock, self._interval = handle, clock, interval
        self._report, self._jitter = report, jitter
        self._due: dict[K, float] = {}  # when each key is to be handled; of equal ones the first comes first
        self._working: dict[K, float] = {}  # when each key under way began, or had its latest answer
        self._moved_at = math.inf  # when any of them began, had an answer or ended; never before `run`
        self._not_before: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._changed = asyncio.Event()  # a new one after each change
        self._closed = False

    @property
    def depth(self) -> int:
        """Keys that could be handled now and are not."""
        now = self._clock()
        # A scrape asks in its thread.
        return sum(moment <= now for key, moment in list(self._due.items()) if key not in self._working)

    def add(self, key: K, delay: float = 0.0) -> None:
        """Reconcile this key after `delay` seconds, or earlier where it is due earlier."""
        moment = max(self._clock() + delay, self._not_before.get(key, 0.0))
        if moment < self._due.get(key, math.inf):
            self._due[key] = moment
            self._notify()

    def wait(self) -> float | None:
        """The seconds until the next key is due, at least 0; None where none is."""
        next_at = min((moment for key, moment in self._due.items() if key not in self._working), default=None)
        return None if next_at is None else max(0.0, next_at - self._clock())

    def progressed(self) -> None:
        """Whoever is reconciled has had an answer. Called from elsewhere this means nothing."""
        if (key := _reconciled.get()) in self._working:
            self._working[key] = self._moved_at = self._clock()

    def longest_without_progress(self) -> tuple[float, str]:
        """Its seconds, and a clause: of a key under way, or of one that is due while no other one moves either."""
        since = [(moment, f"{key} is being reconciled without progress") for key, moment in self._working.items()]
        due = {key: moment for key, moment in self._due.items() if key not in self._working}
        since += [(max(moment, self._moved_at), f"{key} is due and not reconciled") for key, moment in due.items()]
        moment, what = min(since, default=(math.inf, ""))
        return self._clock() - moment, what

    async def run(self, *, workers: int) -> None:
        """Handle keys until `close`; returns when the reconciles under way have ended."""
        self._moved_at = self._clock()
        async with asyncio.TaskGroup() as tasks:
            for number in range(workers):
                tasks.create_task(self._run_worker(), name=f"worker {number}")

    def close(self) -> None:
        self._closed = True
        self._notify()

    async def work_once(self) -> bool:
        """Handle the key that has been due for longest; False when none is."""
        if self.wait() != 0.0:
            return False
        key = min((key for key in self._due if key not in self._working), key=self._due.__getitem__)
        del self._due[key]
        started, outcome = self._clock(), "failed"
        self._working[key] = self._moved_at = started
        _reconciled.set(key)
        self._not_before = {one: moment for one, moment in self._not_before.items() if moment > started}
        self._not_before[key] = started + self._interval
        try:
            outcome = await self._attempt(key)
        finally:
            del self._working[key]
            self._moved_at = self._clock()
            self._report(outcome, self._moved_at - started)
            if key in self._due:  # it came up meanwhile, when no worker could take it
                self._notify()
        return True

    async def _attempt(self, key: K) -> str:
        try:
            delay = await self._handle(key)
        except Exception as error:  # whatever it is: this key is tried again, and the others go on
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            ceiling = min(_FIRST_DELAY * 2.0 ** min(failures, 20), _LONGEST_DELAY)
            delay, level, outcome = ceiling * (0.5 + 0.5 * self._jitter()), logging.ERROR, "failed"
            if isinstance(error, kube.TemporaryError):
                level, outcome = logging.INFO, "retried"
                if error.delay is not None:
                    asked = error.delay * (1 + _SPREAD * self._jitter())  # they were all told the same
                    delay = min(max(asked, delay - _FIRST_DELAY), _LONGEST_DELAY)
            extra = {"key": str(key), "delay": round(delay, 2), "error": str(error)}
            _log.log(level, outcome, extra=extra, exc_info=None if isinstance(error, kube.ApiError) else error)
        else:
            outcome = "done"
            self._failures.pop(key, None)
        if delay is not None:
            self.add(key, max(delay, 0.0))
        return outcome

    def _notify(self) -> None:
        """End every wait: a worker sees a key that is due, or an earlier deadline."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _run_worker(self) -> None:
        while not self._closed:
            if not await self.work_once():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self.wait()):
                        await self._changed.wait()
