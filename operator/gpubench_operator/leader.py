# SPDX-License-Identifier: Apache-2.0
"""One operator at a time: a Lease of coordination.k8s.io, held also where only one replica is meant to run.

A node that is cut off keeps its old operator alive while Kubernetes starts another one. As in client-go a candidate
takes the Lease only after it has seen it unchanged for its whole duration, by its own clock; the holder ends itself
when it could not renew for a shorter time. As a process may be frozen, each write that matters has a guard too.

The election of `kubernetes.aio` is not used: it never releases the Lease, so each restart would wait for its end, its
requests have no time-out, and it reads the wall clock.
"""

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gpubench_cluster import kube
from gpubench_operator import settings

_log = logging.getLogger(__name__)


@dataclass
class Elector:
    """Gets, keeps and gives back one Lease."""

    api: kube.Kube
    options: settings.Settings
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self._seen_version = ""  # of the Lease, and since when it has been that
        self._seen_since = 0.0
        self._renewed_at: float | None = None  # when the request of the last renewal was sent

    @property
    def holds(self) -> bool:
        """Whether the Lease is certainly still ours; any thread may ask."""
        renewed_at = self._renewed_at
        return renewed_at is not None and self.clock() < renewed_at + self.options.lease_renew_seconds

    async def acquire(self) -> None:
        """Wait until the Lease is ours; a server that is away is waited for too."""
        lease, logged = self.options.lease_name, ""
        while (holder := await self._try()) is not None:
            if holder != logged:
                _log.info("standing by", extra={"lease": lease, "holder": holder})
                logged = holder
            await self.sleep(self.options.lease_retry_seconds)
        _log.info("lease acquired", extra={"lease": lease, "identity": self.options.identity})

    async def keep(self) -> None:
        """Renew until that has not worked for too long; returning means the Lease is lost."""
        while self.holds:
            await self.sleep(self.options.lease_retry_seconds)
            if (left := self._seconds_left()) <= 0:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    if (holder := await self._try()) is not None and not holder.startswith("("):
                        _log.error("lease taken", extra={"lease": self.options.lease_name, "holder": holder})
                        self._renewed_at = None

    async def release(self) -> None:
        """Give the Lease back, so that the next one need not wait; whatever goes wrong, its duration ends it.

        Tried as long as the Lease is ours: the API server may still carry out a renewal whose answer nobody awaits any
        more, which is a conflict.
        """
        if self._renewed_at is None:
            return
        left, self._renewed_at = self._seconds_left(), None
        with contextlib.suppress(kube.PermanentError, TimeoutError):
            async with asyncio.timeout(left):
                while not await self._is_given_back():
                    await self.sleep(self.options.lease_retry_seconds)

    async def _is_given_back(self) -> bool:
        try:
            if (lease := await self._read()) is not None and _holder(lease) == self.options.identity:
                # client-go leaves a second: nobody may conclude anything from a Lease of no length
                await self.api.replace(kube.LEASES, self._taken(lease, holder="", duration=1))
                _log.info("lease released", extra={"lease": self.options.lease_name})
        except kube.TemporaryError:
            return False
        return True

    def _seconds_left(self) -> float:
        return (self._renewed_at or 0.0) + self.options.lease_renew_seconds - self.clock()

    async def _try(self) -> str | None:
        """None when the Lease is ours now; otherwise who has it, or in brackets why nobody knows."""
        sent = self.clock()
        try:
            if (lease := await self._read()) is not None and not self._may_take(lease):
                return _holder(lease)
            write = self.api.create if lease is None else self.api.replace
            written = await write(kube.LEASES, self._taken(lease, holder=self.options.identity))
        except kube.ApiError as error:
            _log.warning("lease not written", extra={"lease": self.options.lease_name, "error": str(error)})
            return "(unknown)"
        if written is None:
            return "(unknown)"  # somebody was quicker; the next try says who
        self._renewed_at = sent
        return None

    async def _read(self) -> kube.Object | None:
        return await self.api.get(kube.LEASES, name=self.options.lease_name, namespace=self.options.lease_namespace)

    def _may_take(self, lease: kube.Object) -> bool:
        if (version := kube.version_of(lease)) != self._seen_version:
            self._seen_version, self._seen_since = version, self.clock()
        if _holder(lease) in ("", self.options.identity):
            return True
        duration = float((lease.get("spec") or {}).get("leaseDurationSeconds") or self.options.lease_seconds)
        return self.clock() >= self._seen_since + duration

    def _taken(self, lease: kube.Object | None, *, holder: str, duration: float | None = None) -> kube.Object:
        """The Lease as it is to be written; the resourceVersion in it keeps two candidates from both writing."""
        spec = dict((lease or {}).get("spec") or {})
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        if spec.get("holderIdentity") != holder:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (1 if holder and lease else 0)
            spec["acquireTime"] = now
        seconds = max(1, round(duration or self.options.lease_seconds))
        spec |= {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": seconds}
        own = {"name": self.options.lease_name, "namespace": self.options.lease_namespace}
        metadata = (lease or {}).get("metadata") or own
        return {"apiVersion": kube.LEASES.version, "kind": "Lease", "metadata": metadata, "spec": spec}


def _holder(lease: kube.Object) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


@dataclass
class LeaseThread:
    """Runs an elector in a thread, with an event loop and a connection of its own, from `start` until `stop`.

    Whatever keeps the operator's loop busy delays no renewal. `lost` is called in the thread when a Lease that was held
    is lost, or when the thread fails: the operator's loop may be what hangs. Of that loop the thread touches nothing,
    except `acquired` and its own end, by call_soon_threadsafe.
    """

    connect: Callable[[], Awaitable[kube.Kube]]  # called in the thread: a connection belongs to one event loop
    options: settings.Settings
    lost: Callable[[], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    def __post_init__(self) -> None:
        self.acquired = asyncio.Event()
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._stop: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._elector: Elector | None = None
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def holds(self) -> bool:
        return self._elector is not None and self._elector.holds

    def start(self) -> None:
        self._thread.start()

    async def stop(self) -> None:
        """Give the Lease back and end the thread."""
        if not self._ended.is_set() and not self._stop.done():
            self._stop.set_result(None)
        await self._ended.wait()

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:
            _log.exception("lease thread failed")
            self.lost()
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _elect(self) -> None:
        stop, api = asyncio.wrap_future(self._stop), await self.connect()
        self._elector = elector = Elector(api, self.options, clock=self.clock, sleep=self.sleep)
        try:
            if await _ends_before(stop, elector.acquire()):
                self._loop.call_soon_threadsafe(self.acquired.set)
                if await _ends_before(stop, elector.keep()):
                    self.lost()
            await elector.release()
        finally:
            await api.close()


async def _ends_before(stop: "asyncio.Future[None]", work: Coroutine[Any, Any, None]) -> bool:
    task = asyncio.create_task(work)
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        task.result()
        return True
    task.cancel()
    await asyncio.wait({task})
    return False
