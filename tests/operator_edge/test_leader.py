# SPDX-License-Identifier: Apache-2.0
import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import memory_kube
from gpubench_cluster import kube
from gpubench_operator import leader, settings
from memory_world import Clock

LEASE_SECONDS = 15.0


def options(identity: str) -> settings.Settings:
    return settings.Settings(lease_namespace="system", lease_name="op", identity=identity, lease_seconds=LEASE_SECONDS)


class Candidate:
    """An elector whose sleep lets the test's clock run; a shared server, a clock for all."""

    def __init__(self, api: memory_kube.MemoryKube, clock: Clock, identity: str) -> None:
        self.clock = clock
        self.elector = leader.Elector(api, options(identity), clock=clock, sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.clock.now += seconds
        await asyncio.sleep(0)


def pair() -> tuple[memory_kube.MemoryKube, Clock, Candidate, Candidate]:
    clock = Clock(1000.0)
    api = memory_kube.MemoryKube(clock)
    return api, clock, Candidate(api, clock, "first"), Candidate(api, clock, "second")


def holder(api: memory_kube.MemoryKube) -> str:
    return str(api.all(kube.LEASES)[0]["spec"]["holderIdentity"])


async def test_a_free_lease_is_taken_at_once() -> None:
    api, clock, first, _ = pair()
    await first.elector.acquire()
    assert (holder(api), clock.now, first.elector.holds) == ("first", 1000.0, True)
    assert api.all(kube.LEASES)[0]["spec"]["leaseDurationSeconds"] == LEASE_SECONDS
    await first.elector.release()
    assert api.all(kube.LEASES)[0]["spec"]["leaseDurationSeconds"] == 1  # client-go takes no 0


@pytest.mark.parametrize(("said", "waits"), [(60, 60.0), (None, LEASE_SECONDS)])
async def test_a_lease_is_taken_after_the_duration_that_its_holder_has_written(said: int | None, waits: float) -> None:
    api, clock, first, second = pair()
    await first.elector.acquire()
    (lease,) = api.all(kube.LEASES)
    api.put(kube.LEASES, {**lease, "spec": {**lease["spec"], "leaseDurationSeconds": said}})
    await second.elector.acquire()
    assert waits <= clock.now - 1000 < waits + 5


async def test_a_lease_of_a_dead_holder_is_taken_after_its_duration_and_within_twenty_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api, clock, first, second = pair()
    caplog.set_level("INFO")
    await first.elector.acquire()
    await second.elector.acquire()
    (said,) = (one.__dict__ for one in caplog.records if one.message == "standing by")
    assert (said["lease"], said["holder"]) == ("op", "first")
    acquired = [one.__dict__["identity"] for one in caplog.records if one.message == "lease acquired"]
    assert acquired == ["first", "second"]
    assert holder(api) == "second"
    assert 15 <= clock.now - 1000 < 20
    assert not first.elector.holds


async def test_a_renewed_lease_is_never_taken() -> None:
    api, clock, first, second = pair()
    await first.elector.acquire()
    for _ in range(30):
        clock.now += 2
        assert await first.elector._try() is None
        assert await second.elector._try() == "first"
    assert holder(api) == "first"


async def test_a_released_lease_is_taken_at_once() -> None:
    api, clock, first, second = pair()
    await first.elector.acquire()
    await first.elector.release()
    before = clock.now
    await second.elector.acquire()
    assert (holder(api), clock.now) == ("second", before)


async def test_a_renewal_that_comes_between_reading_and_releasing_does_not_keep_the_lease() -> None:
    """As one does whose request was cancelled, and which the API server carries out all the same."""
    api, _, first, _ = pair()
    await first.elector.acquire()
    read = api.get

    async def overtaken(*which: Any, **where: Any) -> kube.Object | None:
        found = await read(*which, **where)
        api.get = read  # type: ignore[method-assign]
        (lease,) = api.all(kube.LEASES)
        await api.replace(kube.LEASES, {**lease, "spec": {**lease["spec"], "renewTime": "later"}})
        return found

    api.get = overtaken  # type: ignore[method-assign]
    await first.elector.release()
    assert holder(api) == ""


async def test_a_server_that_is_away_for_a_moment_has_the_lease_given_back_when_it_answers() -> None:
    api, _, first, _ = pair()
    await first.elector.acquire()
    api.failures = [kube.TemporaryError("away")]
    await first.elector.release()
    assert holder(api) == ""


async def test_a_holder_that_cannot_renew_knows_it_before_the_lease_can_be_taken() -> None:
    api, clock, first, _ = pair()
    await first.elector.acquire()
    api.failures = [kube.TemporaryError("away") for _ in range(100)]
    await asyncio.wait_for(first.elector.keep(), 5)
    assert clock.now - 1000 < 15
    assert not first.elector.holds


async def test_one_failed_renewal_loses_nothing() -> None:
    api, clock, first, _ = pair()
    await first.elector.acquire()
    api.failures = [kube.TemporaryError("away")]
    keeping = asyncio.create_task(first.elector.keep())
    while clock.now < 1100:  # noqa: ASYNC110  # the candidate's sleep moves the clock
        await asyncio.sleep(0)
    assert first.elector.holds
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


async def test_a_holder_whose_lease_was_taken_sees_it() -> None:
    api, _, first, _ = pair()
    await first.elector.acquire()
    lease = api.all(kube.LEASES)[0]
    lease["spec"]["holderIdentity"] = "somebody"
    api.put(kube.LEASES, lease)
    await asyncio.wait_for(first.elector.keep(), 5)
    assert not first.elector.holds


async def test_releasing_leaves_a_lease_alone_that_is_somebody_elses() -> None:
    api, _, first, _ = pair()
    await first.elector.acquire()
    lease = api.all(kube.LEASES)[0]
    lease["spec"]["holderIdentity"] = "somebody"
    api.put(kube.LEASES, lease)
    await first.elector.release()
    assert holder(api) == "somebody"


class ThreadWorld:
    """A leader in a thread. At each of its waits, which the clock spends at once, another candidate tries too."""

    def __init__(self, *, until: float, then: Callable[[], None] = lambda: None) -> None:
        self.clock = Clock(1000.0)
        self.api = memory_kube.MemoryKube(self.clock)
        self.rival = Candidate(self.api, self.clock, "second")
        self.holders: set[str | None] = set()  # as the rival was told
        self.reached, self.lost = threading.Event(), threading.Event()
        self._until, self._then = until, then
        self.lease = leader.LeaseThread(
            self.connect, options("first"), lost=self.lost.set, clock=self.clock, sleep=self.sleep
        )

    async def connect(self) -> memory_kube.MemoryKube:
        return self.api

    async def sleep(self, seconds: float) -> None:
        if self.reached.is_set():
            await asyncio.sleep(0.01)  # a test has seen enough: do not spin until it stops the thread
            return
        self.clock.now += seconds
        self.holders.add(await self.rival.elector._try())
        if self.clock.now > 1000.0 + self._until:
            self._then()
            self.reached.set()
        await asyncio.sleep(0)


async def test_a_loop_that_is_blocked_for_longer_than_the_lease_lasts_keeps_the_lease() -> None:
    world = ThreadWorld(until=4 * LEASE_SECONDS)
    world.lease.start()
    await world.lease.acquired.wait()
    assert world.reached.wait(20), "the Lease was not renewed while this loop was blocked"
    assert (holder(world.api), world.holders, world.lease.holds) == ("first", {"first"}, True)
    await world.lease.stop()
    assert (holder(world.api), world.lease.holds, world.lost.is_set()) == ("", False, False)


async def test_a_lost_lease_is_noticed_while_the_loop_is_blocked() -> None:
    def take() -> None:
        (lease,) = world.api.all(kube.LEASES)
        world.api.put(kube.LEASES, {**lease, "spec": {**lease["spec"], "holderIdentity": "somebody"}})

    world = ThreadWorld(until=2 * LEASE_SECONDS, then=take)
    world.lease.start()
    await world.lease.acquired.wait()
    assert world.lost.wait(20), "nothing noticed while this loop was blocked"
    assert not world.lease.holds
    await world.lease.stop()
    assert holder(world.api) == "somebody"


async def test_a_thread_that_fails_is_a_lost_lease() -> None:
    async def connect() -> memory_kube.MemoryKube:
        raise kube.PermanentError("no cluster")

    lost = threading.Event()
    lease = leader.LeaseThread(connect, options("first"), lost=lost.set)
    lease.start()
    await asyncio.wait_for(lease.stop(), 5)
    assert (lost.is_set(), lease.holds, lease.acquired.is_set()) == (True, False, False)


async def test_a_candidate_that_stands_by_can_be_stopped() -> None:
    world = ThreadWorld(until=0.0)
    await world.rival.elector.acquire()
    world.lease.start()
    assert world.reached.wait(20)
    await asyncio.wait_for(world.lease.stop(), 5)
    assert (holder(world.api), world.lease.acquired.is_set(), world.lost.is_set()) == ("second", False, False)
