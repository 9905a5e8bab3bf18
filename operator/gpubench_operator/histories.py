# SPDX-License-Identifier: Apache-2.0
"""What the tests before the trials have found on each pool, over all studies: read from, and written to, its status.

Read when an attempt is about to be recorded, and only then; written when it is in the ledger, before the status of its
study says so. A process that has just started puts all that its unfinished studies have found there again, which
changes nothing where it is there already: so a crash between two writes loses no test. What this object remembers
spares requests and decides nothing.

Must not happen: a study that stops because of a pool's history: it is advice, and a pool that cannot be asked now is
asked at the next look. Tests of a pool that was deleted, which another one of its name would get with a restart. And a
history that is written anew by a version that cannot read all of it.
"""

import asyncio
from collections.abc import Iterable, Sequence

from gpubench.analysis import health_history
from gpubench.analysis.health import Reading
from gpubench.plan.plan import Plan
from gpubench.scheduler import observed
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench_cluster import kube
from gpubench_operator import logs, observe

_log = logs.logger(__name__)


class Histories:
    """The histories of all pools. One instance serves all studies."""

    def __init__(self, api: kube.Kube) -> None:
        self._api = api
        self._put: dict[str, set[str]] = {}  # keys of attempts whose tests are there, by the study's UID
        self._writing = asyncio.Lock()  # two studies of one pool would otherwise read, and one of them write in vain

    def forget(self, uid: str) -> None:
        """The study is gone or over."""
        self._put.pop(uid, None)

    async def of_ending(
        self, plan: Plan, recorded: Ledger, jobs: Iterable[observed.ObservedJob]
    ) -> tuple[observed.PoolHistory, ...]:
        """The histories of pools on which an attempt has ended that is not recorded yet."""
        if not plan.health_check:
            return ()
        entries = recorded.by_key()
        ending = {job.pool for job in jobs if _has_ended(job) and _is_open(entries.get(job.key))}
        return tuple([await self._read(pool) for pool in sorted(ending)])

    async def put(self, uid: str, plan: Plan, recorded: Ledger) -> bool:
        """Put the tests of a study's recorded attempts into the histories of their pools.

        False where a pool could not be asked or written just now: those tests are to be put there later.
        """
        if not plan.health_check:
            return True
        there = self._put.setdefault(uid, set())
        news = [record for record in recorded.records if record.result is not None and record.key not in there]
        late: set[str] = set()
        for pool, readings in health_history.by_pool(plan, news).items():
            try:
                await self._write(pool, readings)
            except kube.TemporaryError as error:
                _log.info("history not written yet", extra={"pool": pool, "sentence": str(error)})
                late.update(reading.trial for reading in readings)
        there.update(record.key for record in news if record.trial not in late)
        return not late

    async def _read(self, pool: str) -> observed.PoolHistory:
        try:
            body = await self._get(pool)
        except kube.TemporaryError as error:
            _log.warning("history not read", extra={"pool": pool, "sentence": str(error)})
            body = None
        return observed.PoolHistory(pool=pool, kinds=() if body is None else observe.pool_tests(body).kinds)

    async def _write(self, pool: str, readings: Sequence[Reading]) -> None:
        async with self._writing:
            body = await self._get(pool)
            if body is None:
                return  # a pool that is deleted takes its history with it
            before, unreadable = observe.pool_tests(body)
            if unreadable:
                sentence = f"{unreadable} of its entries are of another version, and writing would lose them"
                _log.warning("history not written", extra={"pool": pool, "sentence": sentence})
                return
            created_at = observe.seconds(body["metadata"].get("creationTimestamp")) or 0.0
            after = health_history.merged(before, [reading for reading in readings if reading.ended_at >= created_at])
            if after == before:
                return
            patch = {
                "metadata": {"resourceVersion": kube.version_of(body)},
                "status": {"health": [kind.to_wire() for kind in after]},
            }
            try:
                await self._api.patch(kube.POOLS, patch, name=pool, subresource="status")
            except kube.PermanentError as error:
                _log.warning("history not written", extra={"pool": pool, "sentence": str(error)})

    async def _get(self, pool: str) -> kube.Object | None:
        try:
            return await self._api.get(kube.POOLS, name=pool)
        except kube.PermanentError as error:
            _log.warning("history not read", extra={"pool": pool, "sentence": str(error)})
            return None


def _has_ended(job: observed.ObservedJob) -> bool:
    return job.complete or any(pod.end is not None for pod in job.pods)


def _is_open(entry: AttemptRecord | None) -> bool:
    return entry is None or entry.outcome is None
