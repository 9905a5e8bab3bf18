# SPDX-License-Identifier: Apache-2.0
"""GpuPools: their status from the cluster's nodes, the history of their node tests, and who holds their slots.

A pool's size is no question of seconds: its status is made from time to time, from a list of all nodes. No benchmark is
decided by a pool's status; it is for people. But a benchmark that has a gang on a node that came into trouble is
reconciled.
"""

import asyncio
import heapq
import itertools
import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from gpubench.analysis import pool_status
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.api.pool_health import PoolTests
from gpubench.plan import overlap
from gpubench.plan.plan import Plan
from gpubench.scheduler import actions, ledger, node_tests, observed, outcome
from gpubench_cluster import kube
from gpubench_operator import events, exporter, observe, queue, settings, storage

OVERTAKEN_MAX = 16  # attempts of others before one that waits longer for slots
_WOKEN_MAX = 8  # benchmarks in line, of which each may have its turn or start an attempt that ends early enough
_LONG_LINE = 20  # in a shorter one each looks every five seconds, and all together no more often than that:
_LOOKS_PER_SECOND = 4  # of all others in a long line: more of them would keep those that run from being served
_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class PoolReconciler:
    """Keeps the status of all pools."""

    api: kube.Kube
    options: settings.Settings
    plans: Callable[[], dict[str, Plan]]  # of the benchmarks under way, by UID
    collector: exporter.PoolCollector
    nodes: observe.NodeStates
    recorder: events.EventRecorder
    wake: Callable[[queue.Key], None]
    clock: Callable[[], float] = time.time

    async def reconcile(self, _: queue.Key) -> float | None:
        bodies = {kube.name_of(body): body for body in await self.api.list(kube.POOLS)}
        seen: dict[str, tuple[GpuPool | None, GpuPoolStatus]] = {}
        if bodies:
            listed = await self.api.list(kube.NODES)
            self.nodes.note(listed, all_there_are=True)
            await self.nodes.listen()
            for affected in sorted(self.nodes.affected()):  # of which perhaps no pod will ever give an event
                self.wake(affected)
            others = observe.pools(bodies.values(), default_image=self.options.jobs_image)
            for name, body in bodies.items():
                seen[name] = await self._write_status(body, listed, others)
            await self._emit_changes(bodies)
        self.collector.replace(seen)
        return self.options.node_poll_seconds

    async def _write_status(
        self, body: kube.Object, listed: list[kube.Object], others: Sequence[GpuPool]
    ) -> tuple[GpuPool | None, GpuPoolStatus]:
        name, raw, pool = kube.name_of(body), body.get("status") or {}, None
        generation, before = body["metadata"].get("generation"), storage.known_conditions(raw)
        try:
            pool = observe.pool(body)
            of_pool, now = self.nodes.keep_those_of(pool, listed), self.clock()
            seen = pool_status.of(pool, of_pool, now, before, others=others, generation=generation)
        except Exception as error:  # the other pools go on
            invalid = observe.unreadable(error) if isinstance(error, ValidationError) else None
            message = invalid or events.unexpected(error).message
            _log.warning("unreadable pool", extra={"pool": name, "error": message}, exc_info=invalid is None)
            seen = pool_status.unreadable(message, self.clock(), before, generation=generation)
        health = raw.get("health") or []  # written when attempts end: `Histories`
        try:
            await storage.write_status(self.api, kube.POOLS, body, {**seen, "health": health})
        except kube.ApiError as error:  # the next poll tries again; the other pools go on
            level = logging.ERROR if isinstance(error, kube.PermanentError) else logging.INFO
            _log.log(level, "status not written", extra={"pool": name, "error": str(error)})
        return pool, GpuPoolStatus.model_validate(seen)

    async def _emit_changes(self, bodies: Mapping[str, kube.Object]) -> None:
        """A benchmark goes on with the pools as it found them; whoever changed one should know that."""
        plans = self.plans()
        for namespace in self.options.namespaces if plans else ():
            for benchmark in await self.api.list(kube.BENCHMARKS, namespace=namespace, metadata_only=True):
                plan = plans.get(kube.uid_of(benchmark))
                for frozen in () if plan is None else plan.pools:
                    body = bodies.get(frozen.name)
                    found = observe.pools([body], default_image=self.options.jobs_image)
                    if body is None or (found and found != (frozen,)):
                        what = "deleted" if body is None else "changed"
                        message = (
                            f"GpuPool {frozen.name} was {what}: this benchmark goes on with the pool as it was when it "
                            "started"
                        )
                        event = actions.Event.warning(events.POOL_CHANGED, message)
                        await self.recorder.emit(events.subject(benchmark), event)


class Histories:
    """The histories of tests on all pools. One instance serves all benchmarks.

    One is read when an attempt is about to be recorded, and written when that is in the ledger, before the benchmark's
    status says so. A new process puts all tests of its unfinished benchmarks there again, which changes nothing where
    they are: so a crash between two writes loses no test.

    Must not happen: a benchmark that stops because of a history: it is advice. Tests of a deleted pool, which a new one
    of its name would get with a restart. A history that is written anew by a version that cannot read all of it.
    """

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self._put: dict[str, set[str]] = {}  # keys of attempts whose tests are there, by the benchmark's UID
        self._writing = asyncio.Lock()  # two benchmarks of one pool would otherwise read, and one of them write in vain

    def forget(self, uid: str) -> None:
        """The benchmark is gone or over."""
        self._put.pop(uid, None)

    async def of_ending(
        self, plan: Plan, recorded: ledger.Ledger, jobs: Iterable[observed.ObservedJob]
    ) -> dict[str, tuple[PoolTests, ...]]:
        """The histories of pools on which an attempt has ended that is not recorded yet, by pool."""
        if not plan.health_check:
            return {}
        over = {key for key, record in recorded.by_key.items() if record.outcome is not None}
        ending = {
            job.pool
            for job in jobs
            if job.key not in over and (job.complete or any(pod.end is not None for pod in job.pods))
        }
        found = dict[str, tuple[PoolTests, ...]]()
        for pool in sorted(ending):
            try:
                found[pool], _ = observe.pool_tests(await self._api.get(kube.POOLS, name=pool) or {})
            except kube.ApiError as error:
                _log.warning("history not read", extra={"pool": pool, "error": str(error)})
        return found

    async def put(self, study: observed.Study, plan: Plan, recorded: ledger.Ledger) -> bool:
        """Put a benchmark's tests into the histories of their pools; False where some are to be put there later."""
        if not plan.health_check:
            return True
        there = self._put.setdefault(study.uid, set())
        news = [one for key, one in recorded.by_key.items() if one.result is not None and key not in there]
        late: set[str] = set()
        for pool, readings in node_tests.for_pools(study, plan, news).items():
            try:
                await self._write(pool, readings)
            except kube.ApiError as error:
                _log.warning("history not written", extra={"pool": pool, "error": str(error)})
                if isinstance(error, kube.TemporaryError):
                    late.update(reading.trial for reading in readings)
        there.update(record.key for record in news if record.trial not in late)
        return not late

    async def _write(self, pool: str, readings: Sequence[node_tests.Reading]) -> None:
        async with self._writing:
            if (body := await self._api.get(kube.POOLS, name=pool)) is None:
                return  # a pool that is deleted takes its history with it
            before, unreadable = observe.pool_tests(body)
            if unreadable:
                raise kube.PermanentError(f"{unreadable} entries are of another version, and writing would lose them")
            created_at = observe.seconds(body["metadata"].get("creationTimestamp")) or 0.0
            latest = self._clock() + outcome.AHEAD_SECONDS  # entries of a ledger anybody may write who may edit it
            news = [reading for reading in readings if created_at <= reading.ended_at <= latest]
            after = node_tests.merged(before, news)
            if after != before:
                health = [kind.to_wire() for kind in after]
                patch = {"metadata": {"resourceVersion": kube.version_of(body)}, "status": {"health": health}}
                await self._api.patch(kube.POOLS, patch, name=pool, subresource="status")


class Neighbours:
    """Which benchmarks may have gangs on which pools: those that must not meet on a node name each other's namespaces.

    Whose pod is a gang's only its labels say, and whoever may create pods can write them. So a gang keeps away from
    pods with our labels in namespaces that have a benchmark under way on a pool of perhaps the same nodes, and in no
    others. That each gang names those from before it is enough: a scheduler heeds the terms of pods that run, too.

    What is left: who has such a benchmark can keep gangs of others off nodes by labelled pods beside his own. And any
    pod can by terms of its own, unless a ResourceQuota of scope CrossNamespacePodAffinity forbids them.
    """

    def __init__(self) -> None:
        self._users: dict[str, tuple[str, tuple[GpuPool, ...]]] = {}  # namespace and pools, by the benchmark's UID

    def use(self, key: queue.Key, uid: str, plan: Plan) -> None:
        """A benchmark is under way. Its plan never changes, and has thousands of trials."""
        if uid not in self._users:
            self._users[uid] = key.namespace, tuple(map(plan.pool, plan.pools_run))

    def forget(self, uid: str) -> None:
        """It is over, and its last pods are gone."""
        self._users.pop(uid, None)

    def of(self, pool: GpuPool) -> frozenset[str]:
        """The namespaces whose gangs a gang on this pool must not meet."""
        return frozenset(
            namespace
            for namespace, pools in self._users.values()
            for one in pools
            if (pool.spec.exclusive_nodes or one.spec.exclusive_nodes) and overlap.may_share(pool.spec, one.spec)
        )


class _Held(NamedTuple):
    pool: str
    slots: int
    ends_at: float  # when it is expected to have ended; infinite where nobody can say
    latest: float = math.inf  # when its time-outs end it


@dataclass
class _Place:  # a benchmark in the line of a pool
    key: queue.Key
    slots: int  # that its next attempt needs
    arrived: int
    overtaken: int = 0  # by attempts of those who came after it
    disappointed: int = 0  # moments that passed without its start


class SlotLedger:
    """Slots held by Jobs, over all benchmarks: what keeps two of them from half-placing two gangs.

    It lives in memory, is rebuilt from all Jobs at start and corrected by each benchmark's own list of Jobs. Whoever
    reads it, decides by it and reserves must not wait in between.

    Each pool has a line of benchmarks that found too few free slots on it. Namespaces take turns in it, attempt by
    attempt, and within one benchmarks in the order in which they came. Only the first may take slots, or one of small
    gangs would take back, at each reconcile, what a large gang waits for. Others may have them for attempts that are
    expected to end before the first could start (backfill, as schedulers of batch systems have it). Whoever was
    overtaken by `OVERTAKEN_MAX` attempts is the first, and is overtaken no more. Where that moment passed so often that
    it could not start, nothing is lent any more. Where no end is known, the first reserves nothing.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[queue.Key, dict[str, _Held]]] = {}  # by Jobs' names, by the benchmark's UID
        self._lines: dict[str, dict[str, _Place]] = {}  # by the benchmark's UID, by pool
        self._served: dict[str, dict[str, int]] = {}  # the last turn of each namespace, by pool
        self._promised: dict[str, tuple[str, float]] = {}  # by pool: who is first, and when it could start
        self._turn = itertools.count(1)
        self._changed: set[str] = set()  # pools of which slots came free, or whose line has moved on

    def correct(
        self,
        key: queue.Key,
        uid: str,
        jobs: Iterable[observed.ObservedJob],
        *,
        ends: Mapping[str, tuple[float, float]] = {},
    ) -> None:
        """Replace what is known of one benchmark by its own list of Jobs, some with when they end: expected, latest."""
        _, before = self._held.pop(uid, (key, {}))
        unknown = (math.inf, math.inf)
        held = {job.name: _Held(job.pool, job.slots, *ends.get(job.name, unknown)) for job in jobs if job.holds_slots}
        if held:
            self._held[uid] = key, held
        after = _total(held.values())
        self._changed |= {pool for pool, slots in _total(before.values()).items() if after.get(pool, 0) < slots}

    def reserve(self, key: queue.Key, uid: str, *, job: str, pool: str, slots: int, ends_at: float = math.inf) -> None:
        """Hold slots for a Job that is about to be created. Who is served has had its turn in the line."""
        self._held.setdefault(uid, (key, {}))[1][job] = _Held(pool, slots, ends_at)
        place = self._step_out(pool, uid)
        self._changed.add(pool)  # also without a place: it may be another one's turn now
        line, (first, promised) = self._lines.get(pool, {}), self._promised.get(pool, ("", 0.0))
        is_lent = first in line and ends_at <= promised < math.inf
        for other in line.values():
            other.overtaken += not is_lent and (place is None or place.arrived > other.arrived)
        self._served.setdefault(pool, {})[key.namespace] = next(self._turn)

    def release(self, uid: str, *, job: str) -> None:
        """Give the slots of a Job back that was not created after all."""
        if uid in self._held and (held := self._held[uid][1].pop(job, None)) is not None:
            self._changed.add(held.pool)

    def held(self) -> dict[str, int]:
        held = [list(jobs.values()) for _, jobs in list(self._held.values())]  # scrapes ask, too, in their thread
        return _total(itertools.chain.from_iterable(held))

    def waiting(self) -> dict[str, int]:
        return {pool: len(line) for pool, line in list(self._lines.items())}

    def held_under(self, key: queue.Key) -> dict[str, dict[str, _Held]]:
        """By UID of benchmarks under this key, more than one after a deletion and a new start, and by Job."""
        return {uid: jobs for uid, (owner, jobs) in self._held.items() if owner == key}

    def wait(self, key: queue.Key, uid: str, *, slots: Mapping[str, int]) -> None:
        """Stand in the lines of exactly these pools for so many slots; a place that it has already is kept."""
        for pool, needed in slots.items():
            place = self._lines.setdefault(pool, {}).setdefault(uid, _Place(key, needed, next(self._turn)))
            place.slots = needed
        for pool in self._lines.keys() - slots.keys():
            self._step_out(pool, uid)

    def leave(self, key: queue.Key, *, but: str | None = None) -> None:
        """Leave all lines: every benchmark of this key, except the one with the UID `but`."""
        for pool, line in self._lines.items():
            for uid in [uid for uid, place in line.items() if place.key == key and uid != but]:
                self._step_out(pool, uid)

    def kept_for_others(self, key: queue.Key, uid: str, sizes: Mapping[str, int], *, now: float) -> dict[str, float]:
        """Of pools where another one goes before: by when an attempt must have ended to be started all the same.

        `sizes` are the slots that the pools have.
        """
        kept = {}
        for pool, line in self._lines.items():
            if not line or pool not in sizes:
                continue
            (first,), own = self._first(pool, 1), line.get(uid) or _Place(key, 0, sys.maxsize)
            if first != uid and self._turn_of(pool, own) > self._turn_of(pool, line[first]):
                kept[pool] = self._promise(pool, first, sizes[pool], now=now)
        return kept

    def pace(self, uid: str) -> dict[str, float]:
        """By pools with a long line that a benchmark is not among the first of: seconds until it looks again."""
        return {
            pool: len(line) / _LOOKS_PER_SECOND
            for pool, line in self._lines.items()
            if len(line) > _LONG_LINE and uid not in self._first(pool)
        }

    def to_wake(self) -> frozenset[queue.Key]:
        """The next in line of each pool of which slots came free, or whose line moved on, since this was asked."""
        changed, self._changed = self._changed, set()
        lines = ((self._lines[pool], self._first(pool)) for pool in changed if self._lines.get(pool))
        return frozenset(line[uid].key for line, uids in lines for uid in uids)

    def _first(self, pool: str, most: int = _WOKEN_MAX) -> list[str]:
        return heapq.nsmallest(most, self._lines[pool], key=lambda uid: self._turn_of(pool, self._lines[pool][uid]))

    def _turn_of(self, pool: str, place: _Place) -> tuple[bool, int, int]:
        return place.overtaken < OVERTAKEN_MAX, self._served.get(pool, {}).get(place.key.namespace, 0), place.arrived

    def _promise(self, pool: str, first: str, size: int, *, now: float) -> float:
        """When the first in line could start, as far as that was ever expected since it is the first.

        Later estimates move nothing, until the moment has passed: then who is late counts with its time-outs. 0 where
        it could start now, or was promised too often that it could; infinite where nobody can say when.
        """
        who, moment = self._promised.get(pool, ("", math.inf))
        place = self._lines[pool][first]
        if who != first or moment <= now:
            place.disappointed += who == first and moment > 0
            moment = math.inf
        moment = min(moment, self._could_start(pool, place, size, now=now))
        self._promised[pool] = first, moment
        return moment if moment == math.inf or place.disappointed < OVERTAKEN_MAX else 0.0

    def _could_start(self, pool: str, place: _Place, size: int, *, now: float) -> float:
        """When its slots of a pool of that size will be free; 0 for now, infinite where nobody can say."""
        held = [one for _, jobs in self._held.values() for one in jobs.values() if one.pool == pool]
        free, moment = size - sum(one.slots for one in held), 0.0
        # One that is late has its time-outs; one of unknown length only for whom enough others have overtaken.
        ends = (
            (min((at for at in (one.ends_at, one.latest) if at > now), default=math.inf), one.slots)
            for one in held
            if one.ends_at < math.inf or place.overtaken >= OVERTAKEN_MAX
        )
        for end, more in sorted(ends):
            if free >= place.slots:
                break
            free, moment = free + more, end
        return moment if free >= place.slots else math.inf

    def _step_out(self, pool: str, uid: str) -> _Place | None:
        line = self._lines.get(pool, {})
        if (place := line.pop(uid, None)) is not None:
            self._changed.add(pool)
            if not line:  # nobody waits, so nobody has a turn
                self._served.pop(pool, None)
        return place


def _total(held: Iterable[_Held]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in held:
        total[one.pool] += one.slots
    return total
