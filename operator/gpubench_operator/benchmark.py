# SPDX-License-Identifier: Apache-2.0
"""One reconcile of one benchmark: read, step, write what must not be lost, analyze, write what people read.

The order of writes is what a crash at any moment is survived by, and the numbers below are its reasons. All else is
written side by side. The next reconcile begins from scratch.
1. The plan before any Job: a plan that is made later may be another one. What pods need is there before them.
2. The Event of an end before its record, that of a transition before the status: afterwards they would be no news.
3. The record of an end before its Job is deleted: the Job and its pods are the only evidence.
4. A Job before its entry in the ledger, which has its UID. An entry without a Job would count as a lost attempt, while
   a Job without an entry is found again by its name.
5. The analysis before the status that refers to it.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gpubench import names, records, units
from gpubench.analysis import comparison, node_facts, pairs, status
from gpubench.api import benchmark_status
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, actions, capacity, conditions, ledger, manifests, observed, outcome, step
from gpubench.scheduler import events as scheduler_events
from gpubench_cluster import kube
from gpubench_operator import analyst, events, exporter, gangs, observe, pool, queue, refusals, settings, storage, watch

_AFTER_START = 2.0  # reconcile after a start although no event came
_TERMINATING = 5.0  # and Jobs whose benchmark is gone
_STUCK = 60.0
_EVENTS_AGAIN = 5.0  # Events that could not be written are tried again
_HISTORY_AGAIN = 2.0  # a pool's history that could not be written is tried again
_HISTORY_AWAITED = 60.0  # after the last end: a finished benchmark is not reconciled again, and waits no longer for it
_log = logging.getLogger(__name__)


@dataclass
class BenchmarkReconciler:
    """Carries out decisions for benchmarks. One instance serves all; the queue keeps to one reconcile of each."""

    api: kube.Kube
    options: settings.Settings
    series: exporter.Series
    wake: Callable[[queue.Key], None]
    nodes: observe.NodeStates
    worker: Callable[[], futures.Executor] = analyst.worker_process
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        #: Benchmarks that came into being while this operator led: there is nothing of them that could be read.
        self.created: dict[queue.Key, kube.Object] = {}
        self.store = storage.Store(self.api)
        self.slots = pool.SlotLedger()
        self.recorder = events.EventRecorder(self.api, identity=self.options.identity, clock=self.clock)
        self.cordons = gangs.Cordons(api=self.api, wake=self.wake, clock=self.clock)
        self.analyst = analyst.Analyst(wake=self.wake, worker=self.worker)
        self._environments = observe.EnvironmentReader(self.api, clock=self.clock)
        self._diagnostics = observe.Diagnostics(self.api, clock=self.clock)
        self._histories = pool.Histories(self.api, clock=self.clock)
        self._neighbours = pool.Neighbours()
        self._refusals = refusals.Refusals()
        self._failures = refusals.Failures()
        self._gangs = gangs.Gangs(
            api=self.api,
            options=self.options,
            store=self.store,
            slots=self.slots,
            neighbours=self._neighbours,
            recorder=self.recorder,
            cordons=self.cordons,
            refusals=self._refusals,
            clock=self.clock,
        )
        self._seen_objects = queue.SeenObjects()
        self.gone = observe.GonePods(clock=self.clock)
        self._accounts: dict[str, account.Account] = {}  # by the benchmark's UID
        self._computing = asyncio.Lock()
        self._written_at: dict[str, float] = {}  # statuses, by the benchmark's UID

    async def rebuild(self) -> None:
        """Fill the slot ledger from all Jobs; no benchmark may be reconciled before, or its reservations were lost."""
        labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
        pools, live = await self._pools(), dict[str, queue.Key]()
        found: defaultdict[tuple[queue.Key, str], tuple[list[kube.Object], ...]] = defaultdict(lambda: ([], []))
        for namespace in self.options.namespaces:
            for number, resource in enumerate((kube.JOBS, kube.PODS)):
                for body in await self.api.list(resource, namespace=namespace, labels=labels, keep=observe.may_matter):
                    owner = body["metadata"]["labels"]
                    key = queue.benchmark_key(kube.namespace_of(body) or "", owner.get(names.LABEL_BENCHMARK, ""))
                    found[key, owner.get(names.LABEL_BENCHMARK_UID, "")][number].append(body)
            for body in await self.api.list(
                kube.BENCHMARKS,
                namespace=namespace,
                metadata_only=True,
                keep=lambda body: (queue.key_of(queue.Kind.BENCHMARK, body), kube.uid_of(body)) in found,
            ):
                live[kube.uid_of(body)] = queue.key_of(queue.Kind.BENCHMARK, body)
        left = iter(found.items())

        async def correct_some() -> None:
            for (key, uid), (jobs, pods) in left:
                made = await self._made(key, uid, jobs, pods) if live.get(uid) == key else ()
                self.slots.correct(key, uid, (*made, *self._left_behind(made, pods, pools)))
                self.wake(key)

        try:
            async with asyncio.TaskGroup() as tasks:  # of which none goes on where one has failed
                for _ in range(self.options.workers):
                    tasks.create_task(correct_some())
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from failed

    async def _made(
        self, key: queue.Key, uid: str, jobs: list[kube.Object], pods: list[kube.Object]
    ) -> tuple[observed.ObservedJob, ...]:
        """The Jobs of a benchmark under way, by its plan. Where that cannot be read, what its pods request counts."""
        try:
            seen = observe.jobs(jobs, pods=pods)
            if any((job.complete or job.failed) and not job.has_ttl for job in seen):
                self._gangs.unretired.add(uid)
            body = await self.api.get(kube.BENCHMARKS, name=key.name, namespace=key.namespace)
            if body is None or kube.uid_of(body) != uid or watch.is_settled(body):
                return ()
            study = observe.study(body)
            plan, _, recorded = await self.store.read(study)
            if plan is None:
                return ()
            self._neighbours.use(key, uid, plan)
            jobs, pods, gone = await self._with_disowned(study, plan, recorded, jobs, pods)
            made = [job for job in jobs if observe.is_made(job, study, plan, recorded)]
            return observe.jobs(made, pods=pods, plan=plan, gone=gone)
        except kube.TemporaryError as error:
            if error.code or error.reason:
                raise
            return ()  # no word of the API server's: somebody deletes what is read, perhaps again and again
        except Exception as error:  # whatever a tenant wrote there: its own reconcile says so, and all others go on
            _log.warning("plan or ledger not read", extra={"benchmark": str(key), "error": str(error)})
            return ()

    async def _pools(self) -> tuple[GpuPool, ...]:
        pools = observe.pools(await self.api.list(kube.POOLS), default_image=self.options.jobs_image)
        await self.nodes.place(pools)
        return pools

    def _left_behind(
        self, made: Iterable[observed.ObservedJob], pods: Iterable[kube.Object], pools: Iterable[GpuPool]
    ) -> tuple[observed.ObservedJob, ...]:
        return observe.left_behind(made, pods=pods, pools=pools, nodes=self.nodes.of_pools)

    async def reconcile(self, key: queue.Key) -> float | None:
        """Reconcile once; the seconds until the next time is due without an event."""
        created = self.created.pop(key, None)
        if created is not None and self._seen_objects.has(key, kube.uid_of(created)):  # a late event
            created = None
        body = created or await self.api.get(kube.BENCHMARKS, name=key.name, namespace=key.namespace)
        uid = kube.uid_of(body) if body is not None else None
        is_news = self._meet(key, uid)
        is_going = body is not None and "deletionTimestamp" in body["metadata"]
        leftover = await self._tidy_predecessors(key, None if is_going else uid)
        if body is None or is_going:  # owner references do the cleaning
            leftover = queue.earliest(leftover, None if body is None else await self._end_gangs(body))
            self.series.drop(key)
            self.nodes.use(key, ())
            self._leave_line(key)
            self._meet(key, None)
            return queue.earliest(leftover, _TERMINATING if is_news and body is None else None)  # is it true?
        self.series.observe(key, body)
        try:
            study = observe.study(body)
        except ValidationError as error:
            await self._count_held(key, kube.uid_of(body))
            self._leave_line(key)
            await self._stop(body, actions.Event.warning(events.INVALID_SPEC, observe.unreadable(error)))
            return leftover
        try:
            if study.uid not in self._gangs.unretired and watch.is_settled(body):
                if (expires := self._expires_after(study, study.status.completion_time)) == 0:
                    await self.api.delete(kube.BENCHMARKS, name=study.name, namespace=study.namespace, uid=study.uid)
                    _log.info("deleted, as its time to live is over", extra=observe.log_fields(study))
                    return expires
                if await self._has_series(key, body, study):
                    return queue.earliest(leftover, expires)
            wake = await self._advance(key, body, study, is_new=created is not None)
            self._failures.forget(study.uid)
        except Exception as error:
            event = self._failures.event(study.uid, error)
            is_lasting = self._failures.is_lasting(study.uid, error)
            if is_lasting or not isinstance(error, kube.ApiError):
                self._leave_line(key)  # nobody may wait for one that cannot be reconciled
            if event is not None:
                with contextlib.suppress(kube.ApiError):  # it must not hide the other
                    await self._stop(body, event)
            if not is_lasting:
                raise
            wake = _STUCK
        return queue.earliest(leftover, wake)

    async def _advance(self, key: queue.Key, body: kube.Object, study: observed.Study, *, is_new: bool) -> float | None:
        snapshot, jobs, pods = storage.Snapshot(), list[kube.Object](), list[kube.Object]()
        if not is_new:
            labels = {names.LABEL_BENCHMARK_UID: study.uid}
            snapshot, jobs, pods = await asyncio.gather(
                self._read(key, body, study),
                self.api.list(kube.JOBS, namespace=study.namespace, labels=labels),
                self.api.list(kube.PODS, namespace=study.namespace, labels=labels),
            )
        plan = snapshot.plan
        self._refusals.begin(study.uid)
        if plan is None:
            planned = await self._plan(study)
            if isinstance(planned, step.NotYet):
                self._leave_line(key)
                return await self._conclude(
                    key, body, study, planned.status, requeue_at=planned.requeue_at, news=planned.events
                )
            plan = planned
            snapshot = await self.store.freeze(study, plan)
            _log.info("planned", extra=observe.log_fields(study, points=len(plan.points), trials=len(plan.trials)))
        recorded = snapshot.recorded
        jobs, pods, gone = await self._with_disowned(study, plan, recorded, jobs, pods)
        owned = [job for job in jobs if observe.is_made(job, study, plan, recorded)]
        seen, again = await self._observe(key, study, plan, recorded, owned=owned, pods=pods, gone=gone)
        async with queue.turn(self._computing):
            known = await self._account(study.uid, plan, recorded)
            # From here to the reservation nothing waits: what is free now is free until it is reserved.
            self._neighbours.use(key, study.uid, plan)
            held = (*seen.jobs, *self._left_behind(seen.jobs, pods, plan.pools))
            self.slots.correct(key, study.uid, held, ends=known.ends(seen.jobs))
            now = self.clock()
            seen = seen.model_copy(
                update={"free": self._free(key, study, plan, now=now) if snapshot.damage is None else ()}
            )
            made = step.step(plan, recorded, known, seen, now)
            todo = made.actions
            if snapshot.damage is not None:  # Jobs that run are judged and ended, and none starts
                todo = todo.model_copy(update={"create": (), "disrupt": (), "new_nodes": recorded.new_nodes})
            self._reserve(key, study, made.account, todo, now=now)

        ended = [record for record in todo.record if record.outcome is not None]
        await self._end(study, plan, todo, ended, snapshot)
        started = await self._gangs.start(study, plan, todo.create, made.ledger.refused)
        self._wake_waiting(but=key)  # what was refused has given its slots back
        if described := await self._describe(study, todo):
            recorded = recorded.with_environments(described)
            made = step.step(plan, recorded, known, seen, now)
        if not await self._put_into_histories(study, plan, made):
            again = queue.earliest(again, _HISTORY_AGAIN)
        await self._gangs.retire(study, todo.retire)

        version, entries = made.ledger.version, self.store.entries(study.uid)
        latest = await self.analyst.latest(study, plan, entries, made.points, ledger_version=version)
        findings = None if latest.made is None else latest.made.found
        async with queue.turn(self._computing):
            failing = self._refusals.message(study.uid)
            after = status.status(
                study, plan, made, findings, now=self.clock(), failure=latest.failure, failing=failing
            )
            news = scheduler_events.events(study, plan, ended=ended, created=started, status=after)
        wake = await self._conclude(
            key, body, study, after, requeue_at=made.actions.requeue_at, news=news, made=latest.made
        )
        evict_again = await self._gangs.evict(study, todo.disrupt)
        after_start = _AFTER_START if started else None
        return queue.earliest(wake, latest.again, again, evict_again, after_start, self._refusals.again(study.uid))

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _read(self, key: queue.Key, body: kube.Object, study: observed.Study) -> storage.Snapshot:
        try:
            found = await self.store.read_readable(study)
            told = found.recorded.by_trial.keys() | {one.trial for one in found.recorded.refused}
            if found.plan and (strange := told - found.plan.trial_by_id.keys()):
                raise storage.Damaged(f"the plan has no trial {min(strange)[:16]}: remove its entries from the ledger")
            known = study.status.analysis.ledger_version if study.status.analysis else 0
            unread = sum(one is None for shard in found.shards for one in shard.read.values())  # environments
            if found.recorded.version + unread < known and not found.damage:  # its trials would be paid once more
                raise storage.Damaged("a part of its ledger is gone: delete the benchmark and apply it again")
            return found
        except storage.Damaged:  # without a plan nothing can be judged, and a suspended one is to end all the same
            if study.spec.suspend:
                await self._end_gangs(body)
            await self._count_held(key, study.uid)
            raise

    async def _plan(self, study: observed.Study) -> Plan | step.NotYet:
        named = sorted({name for block in study.spec.sweep for name in block.pools})
        bodies = await asyncio.gather(*(self.api.get(kube.POOLS, name=name) for name in named))
        pools = observe.pools(bodies, default_image=self.options.jobs_image)
        labels: dict[str, str] = {}  # of its namespace, where a pool asks for some
        if any(one.spec.allowed_namespaces and one.spec.allowed_namespaces.match_labels for one in pools):
            namespace = await self.api.get(kube.NAMESPACES, name=study.namespace)
            labels = (namespace or {"metadata": {}})["metadata"].get("labels") or {}
        nodes_of: dict[str, tuple[str, ...]] = {}  # that take pods now, where the benchmark measures them one by one
        if any(block.placement == "EachNode" for block in study.spec.sweep):
            every, narrowed = await self.api.list(kube.NODES), study.spec.scheduling
            ready = [node for node in every if node_facts.away(node) is None and node_facts.admits(node, narrowed)]
            for one in pools:
                of_pool = [node for node in ready if node_facts.belongs(node, one.spec.scheduling)]
                nodes_of[one.name] = tuple(sorted(map(kube.name_of, of_pool)))
        reference = await self._reference(study)
        with_baseline = functools.partial(comparison.with_baseline, wanted=study.spec.compare_to, found=reference)
        unreadable = {kube.name_of(body) for body in bodies if body is not None} - {one.name for one in pools}
        return step.begin(
            study, pools, self.clock(), nodes_of, unreadable=unreadable, labels=labels, with_baseline=with_baseline
        )

    async def _reference(self, study: observed.Study) -> comparison.Reference | None:
        if study.spec.compare_to is None:
            return None
        name = study.spec.compare_to.benchmark
        if (body := await self.api.get(kube.BENCHMARKS, name=name, namespace=study.namespace)) is None:
            return None
        try:
            other = observe.study(body)
            found = await self.store.read_analysis(other)
        except ValidationError:
            return comparison.Reference(side=pairs.Side(name=name, results=()), readable=False)
        return comparison.Reference(
            side=pairs.of_spec(name, other.spec, found),
            finished=conditions.holds(other.conditions, conditions.FINISHED),
        )

    async def _observe(
        self,
        key: queue.Key,
        study: observed.Study,
        plan: Plan,
        recorded: ledger.Ledger,
        *,
        owned: Sequence[kube.Object],
        pods: Sequence[kube.Object],
        gone: Sequence[ledger.AttemptRecord],
    ) -> tuple[observed.Observed, float | None]:
        """What is seen of a benchmark, but for free slots; the seconds until more may be known."""
        found = map(self.gone.with_first_pod, observe.jobs(owned, pods=pods, plan=plan, gone=gone))
        jobs, again = await self._diagnostics.explained(study, tuple(found))
        jobs, has_kueue = await self._diagnostics.queued(study, jobs)
        entries = recorded.by_key
        jobs = tuple(
            job if job.key in entries and entries[job.key].nodes else observe.with_changes(job, study, plan, pods)
            for job in jobs
        )
        kept = [job for job in jobs if not job.has_ttl]
        live = [job for job in kept if job.key not in entries or entries[job.key].outcome is None]
        placed = {job.key: entries[job.key].nodes if job.key in entries else () for job in live}
        came = {node.name for node in recorded.new_nodes.there}
        where = came.union(*placed.values())  # also of those whose pods are gone
        asked = {name for one in recorded.holding for name in one.nodes}  # one that is dead lets go of nothing
        for job in live:
            pinned = plan.point_by_trial[job.trial].key.node
            asked |= outcome.nodes_in_question(job, placed=placed[job.key], pinned=pinned)
        asked |= came - self.nodes.known.keys()  # gone, unless this process has not seen them yet
        nodes = await self.nodes.of_jobs(kept, placed=where | asked, in_question=asked)
        self.nodes.use(key, where | asked | {pod.node for job in live for pod in job.pods if pod.node is not None})
        if not conditions.holds(study.conditions, conditions.FINISHED):  # what a process of before may not have put
            await self._histories.put(study, plan, recorded)
        seen = observed.Observed(
            study=study,
            jobs=jobs,
            gone=self.gone.of_jobs({*(job.uid for job in live), *(one.job_uid for one in recorded.holding)}),
            histories=await self._histories.of_ending(plan, recorded, jobs),
            nodes=nodes,
            new_nodes=await self.nodes.came(study.uid, plan, recorded.new_nodes, jobs, self.options.namespaces),
            node_silent_seconds=self.options.node_silent_seconds,
            queue_is_served=has_kueue,
        )
        return seen, again

    async def _with_disowned(
        self,
        study: observed.Study,
        plan: Plan,
        recorded: ledger.Ledger,
        jobs: list[kube.Object],
        pods: list[kube.Object],
    ) -> tuple[list[kube.Object], list[kube.Object], list[ledger.AttemptRecord]]:
        """Also Jobs and pods whose labels or owner others have taken; and the attempts that ran and lost their Jobs.

        The ledger has names and UIDs. Pods of a Job that is gone may still be there.
        """
        bodies, found = ({kube.uid_of(body): body for body in listed} for listed in (jobs, pods))
        gone = list[ledger.AttemptRecord]()
        for record in recorded.records:
            uid = record.job_uid
            is_over = record.is_closed and record.reason is not ledger.Reason.JOB_CHANGED
            if is_over or record.trial not in plan.trial_by_id:
                continue
            name = names.job_name(study.name, study.uid, trial=record.trial, attempt=record.attempt)
            body = bodies.get(uid) or await self.api.get(kube.JOBS, name=name, namespace=study.namespace)
            if body is None or kube.uid_of(body) != uid:
                is_known = record.is_closed or (record.is_queued and not self._has_run_since(record, pods))
                gone += [] if is_known else [record]
                continue
            bodies[uid] = observe.as_made(body, study, record, **observe.planned(plan, record.trial))
            made = sum((body.get("status") or {}).get(state) or 0 for state in ("active", "succeeded", "failed"))
            if made > sum(kube.is_owned_by(pod, uid) for pod in pods):
                listed = await self.api.list(kube.PODS, namespace=study.namespace, labels={observe.CONTROLLER_UID: uid})
                found |= {kube.uid_of(pod): pod for pod in listed}
        return [*bodies.values()], [*found.values()], gone

    def _has_run_since(self, record: ledger.AttemptRecord, pods: Iterable[kube.Object]) -> bool:
        """Whether an attempt that waited, when it was looked at last, has had pods on nodes after its last run."""
        listed = (observe.pod(body) for body in pods if observe.job_of(body) == record.job_uid)
        seen = (*listed, *self.gone.of_jobs({record.job_uid}))
        return any((pod.scheduled_at or 0.0) >= record.created_at + record.last_end for pod in seen)

    async def _account(self, uid: str, plan: Plan, recorded: ledger.Ledger) -> account.Account:
        """The account of a ledger: the one of before with what was recorded since, where that gives it."""
        if (before := self._accounts.get(uid)) is not None:
            found = before.following(recorded)
        else:
            for part in account.in_parts(plan, recorded):
                found = part
                await asyncio.sleep(0)
        self._accounts[uid] = found
        return found

    # --- slots --------------------------------------------------------------------------------------------------------

    def _free(self, key: queue.Key, study: observed.Study, plan: Plan, *, now: float) -> tuple[observed.FreeSlots, ...]:
        """What the benchmark may take of each pool: only for a while where another one is to be served first."""
        free = capacity.free_slots(plan, self.slots.held())
        kept = self.slots.kept_for_others(key, study.uid, {one.pool: one.slots + one.held for one in free}, now=now)
        pace = self.slots.pace(study.uid)
        return tuple(
            one.model_copy(update={"until": kept.get(one.pool, one.until), "pace": pace.get(one.pool, one.pace)})
            for one in free
        )

    def _reserve(
        self, key: queue.Key, study: observed.Study, known: account.Account, todo: actions.Actions, *, now: float
    ) -> None:
        """Slots for what is to be started; with a queue its quota counts."""
        for gang in todo.create if study.spec.queue_name is None else ():
            job = manifests.job_name(study, gang)
            ends_at = now + known.ends_after(gang.assignment.trial)
            self.slots.reserve(key, study.uid, job=job, pool=gang.pool, slots=gang.slots, ends_at=ends_at)
        self.slots.wait(key, study.uid, slots=todo.short_of)
        self._wake_waiting(but=key)

    async def _tidy_predecessors(self, key: queue.Key, uid: str | None) -> float | None:
        """Slots of deleted benchmarks of this name: held until the last of their pods is gone."""
        self.slots.leave(key, but=uid)
        left = None
        for old in self.slots.held_under(key).keys() - {uid}:
            if await self._count_held(key, old):
                left = _TERMINATING
            else:
                self._neighbours.forget(old)
        self._wake_waiting(but=key)
        return left

    async def _count_held(self, key: queue.Key, uid: str) -> bool:
        """Whether a benchmark without a plan that can be read holds slots: as planned, until the last pod is gone."""
        known, labels = self.slots.held_under(key).get(uid, {}), {names.LABEL_BENCHMARK_UID: uid}
        jobs, pods, pools = await asyncio.gather(
            self.api.list(kube.JOBS, namespace=key.namespace, labels=labels),
            self.api.list(kube.PODS, namespace=key.namespace, labels=labels),
            self._pools(),
        )
        kept = [
            one.model_copy(update={"pool": known[one.name].pool, "slots": known[one.name].slots})
            for one in observe.jobs(jobs, pods=pods)
            if one.name in known
        ]
        seen = (*kept, *self._left_behind(kept, pods, pools))
        self.slots.correct(key, uid, seen)
        return bool(seen)

    async def _end_gangs(self, body: kube.Object) -> float | None:
        """Delete the Jobs of a benchmark that is being deleted and kept by a finalizer; when to try again."""
        namespace, labels = kube.namespace_of(body) or "", {names.LABEL_BENCHMARK_UID: kube.uid_of(body)}
        try:
            for job in await self.api.list(kube.JOBS, namespace=namespace, labels=labels, metadata_only=True):
                if "deletionTimestamp" not in job["metadata"]:
                    await self.api.delete(kube.JOBS, name=kube.name_of(job), namespace=namespace, uid=kube.uid_of(job))
        except kube.PermanentError as error:
            await self._stop(body, events.stuck(error))
            return _STUCK
        return None

    def _leave_line(self, key: queue.Key) -> None:
        self.slots.leave(key)
        self._wake_waiting(but=key)

    def _wake_waiting(self, *, but: queue.Key) -> None:
        """Those who may have their chance now; `but` is being reconciled and knows."""
        for key in sorted(self.slots.to_wake() - {but}):
            self.wake(key)

    # --- writing what must not be lost --------------------------------------------------------------------------------

    async def _end(
        self,
        study: observed.Study,
        plan: Plan,
        todo: actions.Actions,
        ended: Sequence[ledger.AttemptRecord],
        snapshot: storage.Snapshot,
    ) -> None:
        """Events of attempts that have ended, then their records, then deletions; Damaged where entries are."""
        await self.recorder.emit(study, *(scheduler_events.ending(plan, record) for record in ended))
        try:
            # Nodes are followed until then.
            await self.store.append(study, (todo.new_nodes, *todo.let_go, *todo.record))
            for record in ended:
                fields = {name: getattr(record, name) for name in ("trial", "attempt", "outcome", "reason")}
                if record.outcome is not ledger.Outcome.SUCCEEDED:  # perhaps for what somebody has deleted
                    self._gangs.served.pop(study.uid, None)
                _log.info("attempt ended", extra=observe.log_fields(study, **fields, text=record.sentence))
            await self._gangs.delete(study, todo.delete)
        except kube.PermanentError:
            self._gangs.release(study, todo.create)  # they will not be started
            raise
        if snapshot.damage is not None:
            await self._gangs.retire(study, todo.retire)
            raise storage.Damaged(snapshot.damage)

    async def _describe(self, study: observed.Study, todo: actions.Actions) -> tuple[records.Environment, ...]:
        """Keep the environments that are in the logs of pods only, so far; those that were kept just now."""
        if not (read := await self._environments.read(study, todo.describe)):
            return ()
        try:
            await self.store.append(study, environments=read)
        except kube.PermanentError as error:  # provenance: no benchmark ends over it
            _log.warning("environment not kept", extra=observe.log_fields(study, error=str(error)))
            return ()
        _log.info("environment kept", extra=observe.log_fields(study, environments=[one.key() for one in read]))
        return read

    async def _put_into_histories(self, study: observed.Study, plan: Plan, made: step.Step) -> bool:
        """Whether the pools have all tests now; TemporaryError where that is worth a short wait before Finished."""
        if conditions.holds(study.conditions, conditions.FINISHED):
            return True
        if await self._histories.put(study, plan, made.ledger):
            return True
        last = max((record.ended_at for record in made.ledger.records if record.ended_at is not None), default=0.0)
        if made.is_over and self.clock() < last + _HISTORY_AWAITED:
            raise kube.TemporaryError("the last tests are not in the history of their pool yet", delay=_HISTORY_AGAIN)
        return False

    # --- writing what people read -------------------------------------------------------------------------------------

    async def _conclude(
        self,
        key: queue.Key,
        body: kube.Object,
        study: observed.Study,
        after: benchmark_status.GpuBenchmarkStatus,
        *,
        requeue_at: float | None,
        news: Iterable[actions.Event] = (),
        made: analyst.Made | None = None,
    ) -> float | None:
        """Events, then the analysis, then the status; the seconds until the next reconcile."""
        now, wire = self.clock(), after.to_wire()
        await self.recorder.emit_pending(study.uid)
        await self.recorder.emit(study, *news)
        if made is not None:
            self.series.take(key, made.sha256, made.lines)
        if (wait := self._status_wait(body, wire, now=now)) is None:
            if made is not None and not self.store.has_analysis(study, made.sha256):
                await self.store.put_analysis(study, made.sha256, made.parts)
            if changed := await storage.write_status(self.api, kube.BENCHMARKS, body, wire):
                self._written_at[study.uid] = now
                self.series.observe(key, {**body, "status": wire})
            if made is not None and conditions.holds(after.conditions, conditions.FINISHED):
                self._forget(study.uid)  # it needs no memory; its series stay for a day, or as long as the settings say
                self._neighbours.forget(study.uid)
                self.nodes.use(key, ())
                if changed:
                    _log.info("finished", extra=observe.log_fields(study))
        wake = None if requeue_at is None else max(requeue_at - now, 0.05)
        expires = self._expires_after(study, after.completion_time)
        return queue.earliest(wake, wait, expires, _EVENTS_AGAIN if self.recorder.pending_about(study.uid) else None)

    def _status_wait(self, body: kube.Object, status: dict[str, Any], *, now: float) -> float | None:
        """Seconds that progress waits for the next write; a phase or a condition may not, as scripts wait for it."""
        before, interval = body.get("status") or {}, self.options.status_interval_seconds
        wait = self._written_at.get(kube.uid_of(body), 0.0) + interval - now
        is_progress = before != status and _awaited(before) == _awaited(status)
        return wait if is_progress and 0 < wait <= interval else None

    async def _stop(self, body: kube.Object, event: actions.Event) -> None:
        unstarted = {"phase": "Pending", "results": [], **(body.get("status") or {}), "message": event.message}
        await self.recorder.emit(events.subject(body), event)
        await storage.write_stopped(
            self.api, kube.BENCHMARKS, body, event, condition=conditions.PROGRESSING, status=unstarted, now=self.clock()
        )

    def _expires_after(self, study: observed.Study, completion_time: str | None) -> float | None:
        """Seconds until a finished benchmark is deleted, as spec.ttlSecondsAfterFinished asks."""
        if (seconds := study.spec.ttl_seconds_after_finished) is None or completion_time is None:
            return None
        return max(units.epoch_seconds(completion_time) + seconds - self.clock(), 0.0)

    async def _has_series(self, key: queue.Key, body: kube.Object, study: observed.Study) -> bool:
        """Whether a benchmark that is over has got its series back, from the analysis that its status refers to."""
        if (reference := study.status.analysis) is None or not self.series.lacks(key, body):
            return False
        if (lines := await self.analyst.lines(key, await self.store.analysis(study), reference)) is not None:
            self.series.take(key, reference.sha256, lines)
        return lines is not None

    # --- memory -------------------------------------------------------------------------------------------------------

    def _meet(self, key: queue.Key, uid: str | None) -> bool:
        """Whether another one, or none, has this name now."""
        if (gone := self._seen_objects.replaced(key, uid)) is not None:
            for keeper in (self.recorder, self._refusals, self._failures):
                keeper.forget(gone)
            self._gangs.unretired.discard(gone)
            self._forget(gone)
            if gone not in self.slots.held_under(key):
                self._neighbours.forget(gone)
        return gone is not None

    def _forget(self, uid: str) -> None:
        for keeper in (self.store, self._histories, self.analyst):
            keeper.forget(uid)
        self._accounts.pop(uid, None)
        self._written_at.pop(uid, None)


def _awaited(status: dict[str, Any]) -> tuple[Any, ...]:
    found = [tuple(map(one.get, ("type", "status", "reason"))) for one in status.get("conditions") or ()]
    return status.get("phase"), *found
