# SPDX-License-Identifier: Apache-2.0
"""GpuPools: their status from the cluster's nodes, the history of their node tests, and who holds their slots.

A pool's size is no question of seconds: its status is made from time to time, from a list of all nodes. No benchmark is
decided by a pool's status; it is for people. But a benchmark that has a gang on a node that came into trouble is
reconciled.
"""

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from gpubench.analysis import node_facts, pool_status
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.plan.plan import Plan
from gpubench.scheduler import actions, node_tests, observed
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.node_tests import Reading
from gpubench_cluster import kube
from gpubench_operator import events, exporter, observe, queue, settings, storage

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
        """Bring the status of all pools up to date, from one list of nodes."""
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
        generation, before = body["metadata"].get("generation"), _conditions(raw)
        try:
            pool = observe.pool(body)
            listed = [node for node in listed if node_facts.belongs(node, pool.spec.scheduling)]
            self.nodes.of_pools[name] = frozenset(map(kube.name_of, listed))
            now = self.clock()
            seen = pool_status.of(pool, listed, now, before, others=others, generation=generation)
        except ValidationError as error:
            message = observe.unreadable(error)
            _log.warning("unreadable pool", extra={"pool": name, "error": message})
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


def _conditions(status: kube.Object) -> tuple[Condition, ...]:
    try:
        return GpuPoolStatus.model_validate(status).conditions
    except ValidationError:
        return ()


class Histories:
    """The histories of tests on all pools. One instance serves all benchmarks.

    One is read when an attempt is about to be recorded, and written when that is in the ledger, before the benchmark's
    status says so. A new process puts all tests of its unfinished benchmarks there again, which changes nothing where
    they are: so a crash between two writes loses no test.

    Must not happen: a benchmark that stops because of a history: it is advice. Tests of a deleted pool, which a new one
    of its name would get with a restart. A history that is written anew by a version that cannot read all of it.
    """

    def __init__(self, api: kube.Kube) -> None:
        self._api = api
        self._put: dict[str, set[str]] = {}  # keys of attempts whose tests are there, by the benchmark's UID
        self._writing = asyncio.Lock()  # two benchmarks of one pool would otherwise read, and one of them write in vain

    def forget(self, uid: str) -> None:
        """The benchmark is gone or over."""
        self._put.pop(uid, None)

    async def of_ending(
        self, plan: Plan, recorded: Ledger, jobs: Iterable[observed.ObservedJob]
    ) -> tuple[observed.PoolHistory, ...]:
        """The histories of pools on which an attempt has ended that is not recorded yet."""
        if not plan.health_check:
            return ()
        over = {key for key, record in recorded.by_key.items() if record.outcome is not None}
        ending = {
            job.pool
            for job in jobs
            if job.key not in over and (job.complete or any(pod.end is not None for pod in job.pods))
        }
        found = []
        for pool in sorted(ending):
            try:
                body = await self._api.get(kube.POOLS, name=pool)
            except kube.ApiError as error:
                _log.warning("history not read", extra={"pool": pool, "error": str(error)})
                body = None
            found.append(observed.PoolHistory(pool=pool, kinds=() if body is None else observe.pool_tests(body)[0]))
        return tuple(found)

    async def put(self, uid: str, plan: Plan, recorded: Ledger) -> bool:
        """Put a benchmark's tests into the histories of their pools; False where some are to be put there later."""
        if not plan.health_check:
            return True
        there = self._put.setdefault(uid, set())
        news = [one for key, one in recorded.by_key.items() if one.result is not None and key not in there]
        late: set[str] = set()
        for pool, readings in node_tests.by_pool(plan, news).items():
            try:
                await self._write(pool, readings)
            except kube.ApiError as error:
                _log.warning("history not written", extra={"pool": pool, "error": str(error)})
                if isinstance(error, kube.TemporaryError):
                    late.update(reading.trial for reading in readings)
        there.update(record.key for record in news if record.trial not in late)
        return not late

    async def _write(self, pool: str, readings: Sequence[Reading]) -> None:
        async with self._writing:
            body = await self._api.get(kube.POOLS, name=pool)
            if body is None:
                return  # a pool that is deleted takes its history with it
            before, unreadable = observe.pool_tests(body)
            if unreadable:
                raise kube.PermanentError(f"{unreadable} entries are of another version, and writing would lose them")
            created_at = observe.seconds(body["metadata"].get("creationTimestamp")) or 0.0
            after = node_tests.merged(before, [reading for reading in readings if reading.ended_at >= created_at])
            if after != before:
                health = [kind.to_wire() for kind in after]
                patch = {"metadata": {"resourceVersion": kube.version_of(body)}, "status": {"health": health}}
                await self._api.patch(kube.POOLS, patch, name=pool, subresource="status")


#: Pool and slots of each Job, by its name.
_Jobs = dict[str, tuple[str, int]]


class SlotLedger:
    """Slots held by Jobs, over all benchmarks: what keeps two of them from half-placing two gangs.

    It lives in memory, is rebuilt from all Jobs at start and corrected by each benchmark's own list of Jobs. Whoever
    reads it, decides by it and reserves must not wait in between.

    Each pool has a line of benchmarks that found too few free slots on it. Nobody takes slots of a pool while another
    benchmark is the first in its line: one of small gangs would otherwise take back, at each reconcile, what a large
    gang waits for. One that was served and wants more goes to the end, so that benchmarks take turns. One whose gang
    can never be placed (a dead node holds the slots) is in the way on that pool only.
    """

    def __init__(self) -> None:
        self._held: dict[str, tuple[queue.Key, _Jobs]] = {}  # by the benchmark's UID
        self._lines: dict[str, dict[str, queue.Key]] = {}  # by pool: UIDs and keys of benchmarks as they arrived
        self._changed: set[str] = set()  # pools of which slots came free, or whose line has moved on

    def correct(self, key: queue.Key, uid: str, jobs: Iterable[observed.ObservedJob]) -> None:
        """Replace what is known of one benchmark by its own list of Jobs."""
        _, before = self._held.pop(uid, (key, {}))
        held = {job.name: (job.pool, job.slots) for job in jobs if job.holds_slots}
        if held:
            self._held[uid] = key, held
        after = _total(held.values())
        self._changed |= {pool for pool, slots in _total(before.values()).items() if after.get(pool, 0) < slots}

    def reserve(self, key: queue.Key, uid: str, *, job: str, pool: str, slots: int) -> None:
        """Hold slots for a Job that is about to be created. Who is served has had its turn in the line."""
        self._held.setdefault(uid, (key, {}))[1][job] = (pool, slots)
        self._step_out(pool, uid)

    def release(self, uid: str, *, job: str) -> None:
        """Give the slots of a Job back that was not created after all."""
        if uid in self._held:
            pool, _ = self._held[uid][1].pop(job, ("", 0))
            self._changed.add(pool)

    def held(self) -> dict[str, int]:
        held = [list(jobs.values()) for _, jobs in list(self._held.values())]  # scrapes ask, too, in their thread
        return _total(itertools.chain.from_iterable(held))

    def waiting(self) -> dict[str, int]:
        """Benchmarks in the line of each pool."""
        return {pool: len(line) for pool, line in list(self._lines.items())}

    def uids_of(self, key: queue.Key) -> tuple[str, ...]:
        """UIDs of benchmarks under this key that hold slots: more than one after a deletion and a new start."""
        return tuple(uid for uid, (owner, _) in self._held.items() if owner == key)

    def wait(self, key: queue.Key, uid: str, *, pools: Collection[str]) -> None:
        """Stand in the lines of exactly these pools; a place that it has already is kept."""
        for pool in pools:
            self._lines.setdefault(pool, {}).setdefault(uid, key)
        for pool in self._lines.keys() - set(pools):
            self._step_out(pool, uid)

    def leave(self, key: queue.Key, *, but: str | None = None) -> None:
        """Leave all lines: every benchmark of this key, except the one with the UID `but`."""
        for pool, line in self._lines.items():
            for uid in [uid for uid, owner in line.items() if owner == key and uid != but]:
                self._step_out(pool, uid)

    def kept_for_others(self, uid: str) -> frozenset[str]:
        """Pools of which this benchmark may take nothing now: another one is the first in line."""
        return frozenset(pool for pool, line in self._lines.items() if line and next(iter(line)) != uid)

    def to_wake(self) -> frozenset[queue.Key]:
        """The first in line of each pool of which slots came free, or whose line moved on, since this was asked."""
        changed, self._changed = self._changed, set()
        return frozenset(next(iter(line.values())) for pool in changed if (line := self._lines.get(pool)))

    def _step_out(self, pool: str, uid: str) -> None:
        if self._lines.get(pool, {}).pop(uid, None) is not None:
            self._changed.add(pool)


def _total(held: Iterable[tuple[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for pool, slots in held:
        total[pool] += slots
    return total
