# SPDX-License-Identifier: Apache-2.0
"""One look at one study: observe, decide, act; then again from scratch at the next look.

The order of writes is what a crash at any moment is survived by: the plan before everything, records before the Jobs
that they speak of are deleted, the Event of an end before its record and that of a transition before the status
(afterwards nobody would know that they are news), the status after what it tells has happened. Between reading the
slot ledger and reserving in it nothing waits, so that two studies cannot take the same slots.
"""

import asyncio
import functools
import logging
import time
from collections.abc import Callable, Iterable
from concurrent import futures

from pydantic import ValidationError

from gpubench import names
from gpubench.analysis import comparison, node_facts, pairs, status
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.pool import GpuPool
from gpubench.api.sweep import Placement
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import (
    account,
    actions,
    capacity,
    conditions,
    ledger,
    observed,
    outcome,
    step,
)
from gpubench.scheduler import events as scheduler_events
from gpubench_cluster import kube
from gpubench_operator import (
    analyst,
    drill,
    events,
    exporter,
    gangs,
    observe,
    pool,
    queue,
    settings,
    status_writer,
    store,
    watch,
)

_AFTER_START = 2.0  # look again after a start although no event came
_TERMINATING = 5.0  # look again at Jobs whose study is gone
_STUCK = 60.0
_UNTOLD = 5.0  # Events that could not be written are tried again
_HISTORY_AGAIN = 2.0  # a pool's history that could not be written is tried again
_HISTORY_AWAITED = 60.0  # after the last end: the finished study is not looked at again, and waits no longer for it
_log = logging.getLogger(__name__)


class Reconciler:
    """Carries out decisions for benchmarks. One instance serves all studies; the queue keeps one look per study."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        figures: exporter.Figures,
        wake: Callable[[queue.Key], None],
        nodes: observe.NodeStates | None = None,
        worker: Callable[[], futures.Executor] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._figures = figures
        self._wake = wake
        self._clock = clock
        self.store = store.Store(api)
        self._nodes = nodes or observe.NodeStates(api, clock=clock)
        self._descriptions = observe.EnvironmentReader(api, clock=clock)
        self._histories = pool.Histories(api)
        self._diagnostics = observe.Diagnostics(api, clock=clock)
        self.slots = pool.SlotLedger()
        self._status = status_writer.StatusWriter(api, interval=options.status_interval_seconds)
        self._recorder = events.EventRecorder(api, identity=options.identity)
        self._gangs = gangs.Gangs(
            api, options=options, shelves=self.store, held=self.slots, recorder=self._recorder, clock=clock
        )
        self._drills = drill.Drills(
            api, cordons=drill.Cordons(api, wake=wake, clock=clock), recorder=self._recorder, clock=clock
        )
        self._seen_objects = queue.SeenObjects()
        self._accounts: dict[str, account.Account] = {}  # by the benchmark's UID
        self.analyst = analyst.Analyst(wake=wake, worker=worker)

    async def rebuild(self) -> None:
        """Fill the slot ledger from all Jobs; no study may be looked at before."""
        selector = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
        jobs, pods = await asyncio.gather(self._list(kube.JOBS, selector), self._list(kube.PODS, selector))
        jobs_of: dict[tuple[queue.Key, str], list[observed.ObservedJob]] = {}
        for (key, uid), bodies in _by_study(jobs).items():
            jobs_of.setdefault((key, uid), []).extend(observe.jobs(bodies, pods=pods))
        for (key, uid), bodies in _by_study(pods).items():
            jobs_of.setdefault((key, uid), []).extend(observe.jobs_left_behind(jobs, pods=bodies))
        for (key, uid), seen in jobs_of.items():
            self.slots.correct(key, uid, seen)
            self._wake(key)

    async def reconcile(self, key: queue.Key) -> float | None:
        """One look; the seconds until the next one is due without an event."""
        body = await self._api.get(kube.BENCHMARKS, name=key.name, namespace=key.namespace)
        uid = kube.uid_of(body) if body is not None else None
        self._meet(key, uid)
        leftover = await self._tidy_predecessors(key, uid)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._forget(key)
            return leftover
        self._figures.observe(key, body)
        try:
            study = observe.study(body)
        except ValidationError as error:
            self._leave_line(key)
            await self._stop(body, reason=events.INVALID_SPEC, sentence=observe.unreadable(error))
            return leftover
        try:
            if watch.is_settled(body) and await self._has_figures(key, body, study):
                return leftover
            wake = await self._look(key, body, study)
        except kube.TemporaryError:
            raise  # it keeps its place in line
        except kube.PermanentError as error:
            self._leave_line(key)
            await self._stop(body, reason=events.STUCK, sentence=str(error))
            wake = _STUCK
        except Exception:
            self._leave_line(key)  # nobody may wait for a study that cannot be looked at
            raise
        return queue.earliest(leftover, wake)

    async def tell(self, benchmark: kube.Object, happening: actions.Event) -> None:
        """An Event about a benchmark."""
        await self._recorder.emit(events.subject(benchmark), happening, now=self._clock())

    async def _look(self, key: queue.Key, body: kube.Object, study: observed.Study) -> float | None:
        selector = {names.LABEL_BENCHMARK_UID: study.uid}
        shelf, listed, pods = await asyncio.gather(
            self.store.read(study),
            self._api.list(kube.JOBS, namespace=study.namespace, labels=selector),
            self._api.list(kube.PODS, namespace=study.namespace, labels=selector),
        )
        jobs = [job for job in listed if kube.is_owned_by(job, study.uid)]
        refused, is_served = None, False
        if shelf.plan is None:
            begun = await self._plan(study)
            if isinstance(begun, step.NotYet):
                self._leave_line(key)
                return await self._conclude(key, body, study, begun.status, requeue_at=begun.requeue_at)
            shelf, refused = await asyncio.gather(self.store.freeze(study, begun), self._gangs.serve(study, begun))
            is_served = True
            _log.info("planned", extra=observe.log_fields(study, points=len(begun.points), trials=len(begun.trials)))
        assert shelf.plan is not None  # read or frozen above
        seen = observe.jobs(jobs, pods=pods)
        seen, look_again = await self._diagnostics.with_creation_failures(study, jobs, seen)
        seen, ask_again = await self._diagnostics.with_mount_failures(study, seen)
        look_again = queue.earliest(look_again, ask_again)
        seen = await self._diagnostics.with_queue_messages(study, seen)
        has_kueue = await self._diagnostics.has_kueue(study)
        nodes = await self._nodes_of(key, shelf.recorded, seen)
        was_finished = conditions.holds(study.conditions, conditions.FINISHED)
        if not was_finished:  # what a process of before may not have put
            await self._histories.put(study.uid, shelf.plan, shelf.recorded)
        known = await self._histories.of_ending(shelf.plan, shelf.recorded, seen)

        # From here to the reservation nothing waits: what is free now is free until it is reserved.
        self.slots.correct(key, study.uid, (*seen, *observe.jobs_left_behind(listed, pods=pods)))
        found = observed.Observed(
            study=study,
            jobs=seen,
            free=self._free(study, shelf.plan),
            histories=known,
            nodes=nodes,
            node_silent_seconds=self._options.node_silent_seconds,
            queue_is_served=has_kueue,
            refused=refused,
        )
        plan, recorded = shelf.plan, shelf.recorded
        books, now = self._account(study.uid, plan, recorded), self._clock()
        made = step.step(plan, recorded, books, found, now)
        todo = made.actions
        self._reserve(key, study, todo)

        ended = [record for record in todo.record if record.outcome is not None]
        await self._tell(study, [scheduler_events.ending(plan, record) for record in ended])
        await self._record_and_delete(study, todo)
        started = await self._gangs.start(study, plan, todo.create, is_served=is_served)
        self._wake_waiting(but=key)  # what was refused has given its slots back
        read = await self._describe(study, todo)
        if started.refused is not None or read:
            refused = started.refused or refused
            recorded = recorded.with_environments(read)
            found = found.model_copy(update={"refused": refused})
            made = step.step(plan, recorded, books, found, now)
        if not was_finished and not await self._put_into_histories(study, plan, made):
            look_again = queue.earliest(look_again, _HISTORY_AGAIN)
        await self._retire(study, todo.retire)
        after, latest = await self._status_after(study, plan, made)
        told = scheduler_events.events(study, plan, ended=ended, created=started.gangs, status=after)
        wake = await self._conclude(
            key, body, study, after, requeue_at=made.actions.requeue_at, events=told, made=latest.made
        )
        wake = queue.earliest(wake, latest.again)
        evict_again = await self._drills.evict(study, todo.disrupt)
        again = (_AFTER_START if started.gangs else None, None if refused is None else queue.AFTER_REFUSAL)
        return queue.earliest(wake, look_again, evict_again, *again)

    def _reserve(self, key: queue.Key, study: observed.Study, todo: actions.Actions) -> None:
        """Slots for what is to be started; with a queue its quota counts."""
        for gang in todo.create if study.spec.queue_name is None else ():
            job = gangs.job_name(study, gang)
            self.slots.reserve(key, study.uid, job=job, pool=gang.pool, slots=gang.slots)
        self.slots.wait(key, study.uid, pools=todo.short_of)
        self._wake_waiting(but=key)

    def _account(self, uid: str, plan: Plan, recorded: ledger.Ledger) -> account.Account:
        """The account of a ledger: the one of before with what was recorded since, where that gives it."""
        before = self._accounts.get(uid)
        found = account.of(plan, recorded) if before is None else before.following(recorded)
        self._accounts[uid] = found
        return found

    async def _status_after(
        self, study: observed.Study, plan: Plan, made: step.Step
    ) -> tuple[GpuBenchmarkStatus, analyst.Latest]:
        """The status after a step, with what is known of its analysis by now."""
        entries, version = self.store.entries(study.uid), made.ledger.version
        latest = await self.analyst.latest(study, plan, entries, made.points, ledger_version=version)
        found = None if latest.made is None else latest.made.found
        return status.status(study, plan, made, found, now=self._clock(), failure=latest.failure), latest

    async def _has_figures(self, key: queue.Key, body: kube.Object, study: observed.Study) -> bool:
        """Whether a benchmark that is over has got its series back, from the analysis that its status refers to."""
        reference = study.status.analysis
        if reference is None or not self._figures.lacks(body):
            return False
        lines = await self.analyst.lines(key, await self.store.analysis(study), reference)
        if lines is not None:
            self._figures.take(key, reference.sha256, lines)
        return lines is not None

    async def _plan(self, study: observed.Study) -> Plan | step.NotYet:
        """The plan to freeze, or what the study waits for."""
        pools = await self._pools()
        nodes_of = await self._ready_nodes(study, pools)
        reference = await self._reference(study)
        with_baseline = functools.partial(comparison.with_baseline, wanted=study.spec.compare_to, found=reference)
        return step.begin(study, pools, self._clock(), nodes_of, with_baseline=with_baseline)

    async def _ready_nodes(self, study: observed.Study, pools: Iterable[GpuPool]) -> dict[str, tuple[str, ...]]:
        """The nodes of each pool that take pods now; asked for only where a study measures them one by one."""
        if all(block.placement is Placement.ANYWHERE for block in study.spec.sweep):
            return {}
        listed = await self._api.list(kube.NODES)
        return {
            pool.name: tuple(
                sorted(
                    kube.name_of(node)
                    for node in listed
                    if node_facts.matches(node, pool.spec.scheduling.node_selector) and node_facts.is_ready(node)
                )
            )
            for pool in pools
        }

    async def _nodes_of(
        self, key: queue.Key, recorded: ledger.Ledger, seen: Iterable[observed.ObservedJob]
    ) -> tuple[observed.ObservedNode, ...]:
        """The nodes of the attempts under way, also of those whose pods are gone; as they are now where it matters."""
        entries = recorded.by_key()
        jobs = [job for job in seen if not job.has_ttl]
        live = [job for job in jobs if job.key not in entries or entries[job.key].outcome is None]
        placed = {job.key: entries[job.key].nodes if job.key in entries else () for job in live}
        where = {name for names_of in placed.values() for name in names_of}
        asked = {name for job in live for name in outcome.nodes_in_question(job, placed=placed[job.key])}
        found = await self._nodes.of_jobs(jobs, placed=where, in_question=asked)
        self._nodes.use(key, where | {pod.node for job in live for pod in job.pods if pod.node is not None})
        return found

    async def _put_into_histories(self, study: observed.Study, plan: Plan, made: step.Step) -> bool:
        """Whether the pools have all tests now; TemporaryError where that is worth a short wait before Finished."""
        if await self._histories.put(study.uid, plan, made.ledger):
            return True
        last = max((record.ended_at for record in made.ledger.records if record.ended_at is not None), default=0.0)
        if made.is_over and self._clock() < last + _HISTORY_AWAITED:
            raise kube.TemporaryError("the last tests are not in the history of their pool yet", delay=_HISTORY_AGAIN)
        return False

    def _free(self, study: observed.Study, plan: Plan) -> tuple[observed.FreeSlots, ...]:
        """What the study may take of each pool: nothing where another one is to be served first."""
        kept = self.slots.kept_for_others(study.uid)
        free = capacity.free_slots(plan, self.slots.held())
        return tuple(entry.model_copy(update={"slots": 0}) if entry.pool in kept else entry for entry in free)

    async def _record_and_delete(self, study: observed.Study, todo: actions.Actions) -> None:
        """Records, then deletions."""
        try:
            await self.store.append(study, todo.record)
            for record in todo.record:
                if record.outcome is not None:
                    _log.info("attempt ended", extra=observe.log_fields(study, **_ending_fields(record)))
            for reference in todo.delete:
                name, uid = reference.name, reference.uid
                gone = await self._api.delete(kube.JOBS, name=name, namespace=study.namespace, uid=uid)
                _log.info("job deleted", extra=observe.log_fields(study, job=reference.name, found=gone))
        except kube.PermanentError:
            self._gangs.release(study, todo.create)  # they will not be started
            raise

    async def _describe(self, study: observed.Study, todo: actions.Actions) -> tuple[Environment, ...]:
        """Keep the environments that are in the logs of pods only, so far; those that were kept just now."""
        read = await self._descriptions.read(study, todo.describe)
        if not read:
            return ()
        try:
            await self.store.keep_environments(study, read)
        except kube.PermanentError as error:  # provenance: no study ends over it
            _log.warning("environment not kept", extra=observe.log_fields(study, sentence=str(error)))
            return ()
        _log.info("environment kept", extra=observe.log_fields(study, environments=[one.key() for one in read]))
        return read

    async def _retire(self, study: observed.Study, references: Iterable[actions.JobReference]) -> None:
        """Finished and recorded, its log read: it stays a while for people, and then goes."""
        for reference in references:
            ttl = {
                "metadata": {"uid": reference.uid},
                "spec": {"ttlSecondsAfterFinished": self._options.job_ttl_seconds},
            }
            await self._api.patch(kube.JOBS, ttl, name=reference.name, namespace=study.namespace)

    async def _conclude(
        self,
        key: queue.Key,
        body: kube.Object,
        study: observed.Study,
        status: GpuBenchmarkStatus,
        *,
        requeue_at: float | None,
        events: Iterable[actions.Event] = (),
        made: analyst.Made | None = None,
    ) -> float | None:
        """Events, then the analysis, then the status; the seconds until the next reconcile.

        A transition is known by the conditions in the status: one that was written and not told would never be told.
        """
        now = self._clock()
        await self._recorder.emit_pending(study.uid)
        await self._tell(study, events)
        known = study.status.analysis
        is_news = made is not None and (known is None or known.sha256 != made.sha256)
        put = functools.partial(self.store.put_analysis, study, made.parts) if made is not None and is_news else None
        written = await self._status.write(kube.BENCHMARKS, body, status.to_wire(), now=now, first=put)
        if written.changed:
            self._figures.observe(key, {**body, "status": status.to_wire()})
        if made is not None:
            self._figures.take(key, made.sha256, made.lines)
        if made is not None and conditions.holds(status.conditions, conditions.FINISHED) and written.wait is None:
            self._settle(study, changed=written.changed)
        wake = None if requeue_at is None else max(requeue_at - now, 0.05)
        return queue.earliest(
            wake,
            written.wait,
            _UNTOLD if self._recorder.has_pending(study.uid) else None,
        )

    async def _tell(self, study: observed.Study, news: Iterable[actions.Event]) -> None:
        """Events; one that was told already costs nothing."""
        for happening in news:
            await self._recorder.emit_about(study, happening, now=self._clock())

    async def _stop(self, body: kube.Object, *, reason: str, sentence: str) -> None:
        """The study cannot go on until somebody changes something: an Event and a condition say what."""
        extra = {"namespace": kube.namespace_of(body), "benchmark": kube.name_of(body), "sentence": sentence}
        _log.warning(reason, extra=extra)
        sentence = conditions.clamped(sentence, 1024)
        await self.tell(body, actions.Event(type="Warning", reason=reason, message=sentence))
        now = self._clock()
        status = status_writer.stopped(body, reason=reason, sentence=sentence, now=now)
        await self._status.write(kube.BENCHMARKS, body, status, now=now)

    def _settle(self, study: observed.Study, *, changed: bool) -> None:
        """A finished study needs no memory; its figures stay for as long as its object lives."""
        self.store.forget(study.uid)
        self._histories.forget(study.uid)
        self._status.forget(study.uid)
        self._accounts.pop(study.uid, None)
        self.analyst.forget(study.uid)
        if changed:
            _log.info("finished", extra=observe.log_fields(study))

    async def _tidy_predecessors(self, key: queue.Key, uid: str | None) -> float | None:
        """Slots of deleted studies of this name: held until the last of their pods is gone."""
        self.slots.leave(key, but=uid)
        left = None
        for old in self.slots.studies_of(key):
            if old == uid:
                continue
            selector = {names.LABEL_BENCHMARK_UID: old}
            jobs, pods = await asyncio.gather(
                self._api.list(kube.JOBS, namespace=key.namespace, labels=selector),
                self._api.list(kube.PODS, namespace=key.namespace, labels=selector),
            )
            seen = (*observe.jobs(jobs, pods=pods), *observe.jobs_left_behind(jobs, pods=pods))
            self.slots.correct(key, old, seen)
            if seen:
                left = _TERMINATING
        self._wake_waiting(but=key)
        return left

    def _forget(self, key: queue.Key) -> None:
        """The object is gone, or going; owner references do the cleaning."""
        self._figures.drop(key)
        self._nodes.use(key, ())
        self._leave_line(key)
        self._meet(key, None)

    def _meet(self, key: queue.Key, uid: str | None) -> None:
        """What is remembered of the study that had this name at the last look goes with it."""
        if (gone := self._seen_objects.replaced(key, uid)) is not None:
            for keeper in (self.store, self._histories, self._status, self._recorder, self.analyst):
                keeper.forget(gone)
            self._accounts.pop(gone, None)

    async def _pools(self) -> tuple[GpuPool, ...]:
        """All pools that can be read, with the image of this installation where they name none."""
        readable = []
        for body in await self._api.list(kube.POOLS):
            try:
                pool = observe.pool(body, default_image=self._options.jobs_image)
            except ValidationError as error:
                sentence = observe.unreadable(error)
                _log.warning("unreadable pool", extra={"pool": kube.name_of(body), "sentence": sentence})
                continue
            readable.append(pool)
        return tuple(readable)

    async def _reference(self, study: observed.Study) -> comparison.Reference | None:
        """The benchmark that the study is to be compared with, as it is now."""
        if study.spec.compare_to is None:
            return None
        name = study.spec.compare_to.benchmark
        body = await self._api.get(kube.BENCHMARKS, name=name, namespace=study.namespace)
        if body is None:
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

    def _leave_line(self, key: queue.Key) -> None:
        """Nobody waits for this study any more."""
        self.slots.leave(key)
        self._wake_waiting(but=key)

    def _wake_waiting(self, *, but: queue.Key) -> None:
        """Those who may have their chance now; `but` is being looked at and knows."""
        for key in sorted(self.slots.to_wake() - {but}):
            self._wake(key)

    async def _list(self, resource: kube.Resource, labels: dict[str, str]) -> list[kube.Object]:
        """All objects with these labels in the namespaces that are served."""
        return [
            body
            for namespace in self._namespaces()
            for body in await self._api.list(resource, namespace=namespace, labels=labels)
        ]

    def _namespaces(self) -> tuple[str | None, ...]:
        return self._options.watch_namespaces or (None,)


def _by_study(bodies: Iterable[kube.Object]) -> dict[tuple[queue.Key, str], list[kube.Object]]:
    """Jobs or pods by the key and the UID of the study in their labels."""
    found: dict[tuple[queue.Key, str], list[kube.Object]] = {}
    for body in bodies:
        labels = body["metadata"].get("labels") or {}
        key = queue.benchmark_key(kube.namespace_of(body) or "", labels.get(names.LABEL_BENCHMARK, ""))
        found.setdefault((key, labels.get(names.LABEL_BENCHMARK_UID, "")), []).append(body)
    return found


def _ending_fields(record: ledger.AttemptRecord) -> dict[str, object]:
    return {
        "trial": record.trial,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "reason": record.reason,
        "sentence": record.sentence,
    }
