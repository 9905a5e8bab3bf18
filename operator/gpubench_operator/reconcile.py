# SPDX-License-Identifier: Apache-2.0
"""One look at one study: observe, decide, act; then again from scratch at the next look.

The order of writes is what a crash at any moment is survived by: the plan before everything, records before the Jobs
that they speak of are deleted, the Event of an end before its record and that of a transition before the status
(afterwards nobody would know that they are news), the status after what it tells has happened. Between reading the
slot ledger and reserving in it nothing waits, so that two studies cannot take the same slots.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pydantic import ValidationError

from gpubench import names
from gpubench.api.pool import GpuPool
from gpubench.control import (
    capacity,
    comparison,
    conditions,
    decide,
    decision,
    happenings,
    ledger,
    manifests,
    observed,
    planning,
)
from gpubench.measure.records import Environment
from gpubench.plan.plan import Plan
from gpubench_operator import (
    descriptions,
    exporter,
    histories,
    keys,
    kube,
    logs,
    nodes,
    observe,
    settings,
    slots,
    status_writer,
    store,
    story,
)

_MOUNTED_AFTER = 15.0  # seconds that a kubelet may take to mount volumes and pull the image before it is asked why
_MOUNT_FAILURE_REPEATS = 300.0  # a kubelet tells of a volume that it cannot mount every two minutes or more often
_FEWER_PODS_AFTER = 3.0  # seconds that the Job controller may take to create pods before it is asked why
_AFTER_START = 2.0  # look again after a start although no event came
_TERMINATING = 5.0  # look again at Jobs whose study is gone
_AFTER_REFUSAL = 30.0  # somebody may have raised a quota or removed what was in the way; no event says so
_STUCK = 60.0
_UNTOLD = 5.0  # Events that could not be written are tried again
_HISTORY_AGAIN = 2.0  # a pool's history that could not be written is tried again
_HISTORY_AWAITED = 60.0  # after the last end: the finished study is not looked at again, and waits no longer for it
_FORBIDDEN = 403
_ENDS = frozenset(
    {
        happenings.TRIAL_MEASURED,
        happenings.ATTEMPT_FAILED,
        happenings.ATTEMPT_PREEMPTED,
        happenings.ATTEMPT_STOPPED,
    }
)

_log = logs.logger(__name__)


class _Started(NamedTuple):
    """What became of the gangs of a decision."""

    gangs: tuple[decision.Gang, ...] = ()
    refused: str | None = None  # what the API server said of the first one that it refused


class Reconciler:
    """Carries out decisions for benchmarks. One instance serves all studies; the queue keeps one look per study."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        figures: exporter.Figures,
        wake: Callable[[keys.Key], None],
        machines: nodes.Nodes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._figures = figures
        self._wake = wake
        self._clock = clock
        self.store = store.Store(api)
        self._machines = machines or nodes.Nodes(api, clock=clock)
        self._descriptions = descriptions.Reader(api, clock=clock)
        self._histories = histories.Histories(api)
        self._slots = slots.SlotLedger()
        self._status = status_writer.StatusWriter(api, interval=options.status_interval_seconds)
        self._story = story.Story(api, identity=options.identity)

    async def rebuild(self) -> None:
        """Fill the slot ledger from all Jobs; no study may be looked at before."""
        selector = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
        jobs, pods = await asyncio.gather(self._list(kube.JOBS, selector), self._list(kube.PODS, selector))
        jobs_of: dict[tuple[keys.Key, str], list[observed.ObservedJob]] = {}
        for (key, uid), bodies in _by_study(jobs).items():
            jobs_of.setdefault((key, uid), []).extend(observe.jobs(bodies, pods=pods))
        for (key, uid), bodies in _by_study(pods).items():
            jobs_of.setdefault((key, uid), []).extend(observe.jobs_left_behind(jobs, pods=bodies))
        for (key, uid), seen in jobs_of.items():
            self._slots.correct(key, uid, seen)
            self._wake(key)

    async def reconcile(self, key: keys.Key) -> float | None:
        """One look; the seconds until the next one is due without an event."""
        body = await self._api.get(kube.BENCHMARKS, name=key.name, namespace=key.namespace)
        uid = kube.uid_of(body) if body is not None else None
        leftover = await self._tidy_predecessors(key, uid)
        if body is None or "deletionTimestamp" in body["metadata"]:
            self._forget(key, uid)
            return leftover
        self._figures.observe(key, body)
        try:
            study = observe.study(body)
        except ValidationError as error:
            self._leave_line(key)
            sentence = f"this version of the operator cannot read the object: {_first(error)}"
            await self._stop(body, reason=story.INVALID_SPEC, sentence=sentence)
            return leftover
        try:
            wake = await self._look(key, body, study)
        except kube.RetryLater:
            raise  # it keeps its place in line
        except kube.Never as error:
            self._leave_line(key)
            await self._stop(body, reason=story.STUCK, sentence=str(error))
            wake = _STUCK
        except Exception:
            self._leave_line(key)  # nobody may wait for a study that cannot be looked at
            raise
        return _earliest(leftover, wake)

    async def tell(self, benchmark: kube.Object, happening: decision.Happening) -> None:
        """An Event about a benchmark."""
        await self._story.tell(story.subject(benchmark), happening, now=self._clock())

    async def _look(self, key: keys.Key, body: kube.Object, study: observed.Study) -> float | None:
        selector = {names.LABEL_BENCHMARK_UID: study.uid}
        shelf, listed, pods = await asyncio.gather(
            self.store.read(study),
            self._api.list(kube.JOBS, namespace=study.namespace, labels=selector),
            self._api.list(kube.PODS, namespace=study.namespace, labels=selector),
        )
        jobs = [job for job in listed if kube.is_owned_by(job, study.uid)]
        refused, is_served = None, False
        if shelf.plan is None:
            begun = planning.begin(study, await self._pools(), self._clock(), await self._reference(study))
            if isinstance(begun, decision.Decision):
                self._leave_line(key)
                return await self._conclude(key, body, study, begun)
            shelf, refused = await asyncio.gather(self.store.freeze(study, begun), self._serve(study))
            is_served = True
            _log.info("planned", extra=_fields(study, points=len(begun.points), trials=len(begun.trials)))
        assert shelf.plan is not None  # read or frozen above
        seen = observe.jobs(jobs, pods=pods)
        seen, look_again = await self._ask_why_pods_are_missing(study, jobs, seen)
        seen, ask_again = await self._ask_why_pods_do_not_start(study, seen)
        look_again = _earliest(look_again, ask_again)
        machines = await self._machines.of_jobs(job for job in seen if not job.has_ttl)
        was_finished = conditions.holds(study.conditions, conditions.FINISHED)
        if not was_finished:  # what a process of before may not have put
            await self._histories.put(study.uid, shelf.plan, shelf.recorded)
        known = await self._histories.of_ending(shelf.plan, shelf.recorded, seen)

        # From here to the reservation nothing waits: what is free now is free until it is reserved.
        self._slots.correct(key, study.uid, (*seen, *observe.jobs_left_behind(listed, pods=pods)))
        found = observed.Observed(
            study=study,
            jobs=seen,
            free=self._free(study, shelf.plan),
            histories=known,
            nodes=machines,
            refused=refused,
        )
        made = decide.decide(shelf.plan, shelf.recorded, found, self._clock())
        for gang in made.create:
            job = _job_name(study, gang)
            self._slots.reserve(key, study.uid, job=job, pool=gang.pool, slots=gang.slots)
        self._slots.wait(key, study.uid, pools=made.short_of)
        self._wake_waiting(but=key)

        await self._tell(study, [happening for happening in made.happenings if happening.reason in _ENDS])
        await self._record_and_delete(study, made)
        started = await self._start(study, shelf.plan, made.create, is_served=is_served)
        self._wake_waiting(but=key)  # what was refused has given its slots back
        if started.refused is not None:
            refused = started.refused
            found = found.model_copy(update={"refused": refused})
            again = decide.decide(shelf.plan, shelf.recorded, found, self._clock())
            ended = [record for record in made.record if record.outcome is not None]
            told = happenings.happenings(study, shelf.plan, ended=ended, created=started.gangs, status=again.status)
            made = made.model_copy(
                update={"create": started.gangs, "status": again.status, "happenings": told, "wake_at": again.wake_at}
            )
        if read := await self._describe(study, made):
            recorded = shelf.recorded.with_environments(read)
            again = decide.decide(shelf.plan, recorded, found, self._clock())
            made = made.model_copy(update={"status": again.status})
        if not was_finished and not await self._put_into_histories(study, shelf.plan, shelf.recorded, made):
            look_again = _earliest(look_again, _HISTORY_AGAIN)
        await self._retire(study, made.retire)
        wake = await self._conclude(key, body, study, made)
        return _earliest(wake, look_again, None if refused is None else _AFTER_REFUSAL)

    async def _put_into_histories(
        self, study: observed.Study, plan: Plan, recorded: ledger.Ledger, made: decision.Decision
    ) -> bool:
        """Whether the pools have all tests now; RetryLater where that is worth a short wait before Finished."""
        complete = recorded.with_records(made.record)
        if await self._histories.put(study.uid, plan, complete):
            return True
        last = max((record.ended_at for record in complete.records if record.ended_at is not None), default=0.0)
        is_over = conditions.holds(made.status.conditions, conditions.FINISHED)
        if is_over and self._clock() < last + _HISTORY_AWAITED:
            raise kube.RetryLater("the last tests are not in the history of their pool yet", delay=_HISTORY_AGAIN)
        return False

    def _free(self, study: observed.Study, plan: Plan) -> tuple[observed.FreeSlots, ...]:
        """What the study may take of each pool: nothing where another one is to be served first."""
        kept = self._slots.kept_for_others(study.uid)
        free = capacity.free_slots(plan, self._slots.held())
        return tuple(entry.model_copy(update={"slots": 0}) if entry.pool in kept else entry for entry in free)

    async def _record_and_delete(self, study: observed.Study, made: decision.Decision) -> None:
        """Records, then deletions."""
        try:
            await self.store.append(study, made.record)
            for record in made.record:
                if record.outcome is not None:
                    _log.info("attempt ended", extra=_fields(study, **_ending_fields(record)))
            for reference in made.delete:
                name, uid = reference.name, reference.uid
                gone = await self._api.delete(kube.JOBS, name=name, namespace=study.namespace, uid=uid)
                _log.info("job deleted", extra=_fields(study, job=reference.name, found=gone))
        except kube.Never:
            self._release(study, made.create)  # they will not be started
            raise

    async def _describe(self, study: observed.Study, made: decision.Decision) -> tuple[Environment, ...]:
        """Keep the environments that are in the logs of pods only, so far; those that were kept just now."""
        read = await self._descriptions.read(study, made.describe)
        if not read:
            return ()
        try:
            await self.store.keep_environments(study, read)
        except kube.Never as error:  # provenance: no study ends over it
            _log.warning("environment not kept", extra=_fields(study, sentence=str(error)))
            return ()
        _log.info("environment kept", extra=_fields(study, environments=[one.key() for one in read]))
        return read

    async def _retire(self, study: observed.Study, references: Iterable[decision.JobReference]) -> None:
        """Finished and recorded, its log read: it stays a while for people, and then goes."""
        for reference in references:
            ttl = {
                "metadata": {"uid": reference.uid},
                "spec": {"ttlSecondsAfterFinished": self._options.job_ttl_seconds},
            }
            await self._api.patch(kube.JOBS, ttl, name=reference.name, namespace=study.namespace)

    async def _start(
        self, study: observed.Study, plan: Plan, gangs: tuple[decision.Gang, ...], *, is_served: bool
    ) -> _Started:
        """Create the Jobs, then one write for their records; one that is refused does not stop the others."""
        if not gangs:
            return _Started()
        if not is_served and (refused := await self._serve(study)) is not None:
            self._release(study, gangs)
            return _Started(refused=refused)
        records: list[ledger.AttemptRecord] = []
        started: list[decision.Gang] = []
        refusals: list[str] = []
        try:
            for gang in gangs:
                try:
                    records.append(await self._create_job(study, plan, gang))
                except kube.Never as error:
                    self._release(study, [gang])
                    refusals.append(str(error))
                else:
                    started.append(gang)
        finally:
            await self.store.append(study, records)
        return _Started(gangs=tuple(started), refused=next(iter(refusals), None))

    def _release(self, study: observed.Study, gangs: Iterable[decision.Gang]) -> None:
        """Give back what was reserved for Jobs that are not created after all."""
        for gang in gangs:
            self._slots.release(study.uid, job=_job_name(study, gang))

    async def _create_job(self, study: observed.Study, plan: Plan, gang: decision.Gang) -> ledger.AttemptRecord:
        """The Job of one attempt, and its record. What was refused for good is a record too: it counts as failed."""
        body = manifests.job(study, plan, gang)
        try:
            created = await self._api.create(kube.JOBS, body)
        except kube.Never as error:
            happening = decision.Happening(type="Warning", reason=story.JOB_REFUSED, message=str(error)[:1024])
            await self._story.tell(_subject(study), happening, now=self._clock())
            if error.code == _FORBIDDEN:  # quota or permissions: somebody may change them
                raise
            self._slots.release(study.uid, job=kube.name_of(body))
            return _refused(gang, kube.name_of(body), sentence=str(error), now=self._clock())
        if created is None:
            created = await self._existing_job(study, kube.name_of(body))
        else:
            _log.info(
                "job created",
                extra=_fields(
                    study,
                    trial=gang.assignment.trial,
                    attempt=gang.assignment.attempt,
                    job=kube.name_of(created),
                    pool=gang.pool,
                    nodes=gang.nodes,
                ),
            )
        return ledger.AttemptRecord(
            trial=gang.assignment.trial,
            attempt=gang.assignment.attempt,
            job=kube.name_of(created),
            job_uid=kube.uid_of(created),
            created_at=observe.seconds(created["metadata"].get("creationTimestamp")) or self._clock(),
        )

    async def _existing_job(self, study: observed.Study, name: str) -> kube.Object:
        """The Job that has the name already: ours from before a crash, or a foreign one that somebody must remove."""
        found = await self._api.get(kube.JOBS, name=name, namespace=study.namespace)
        if found is None:
            raise kube.RetryLater(f"Job {study.namespace}/{name} went away just now", delay=0.2)
        if not kube.is_owned_by(found, study.uid):
            sentence = f"Job {name} belongs to somebody else: remove it, and the study goes on"
            happening = decision.Happening(type="Warning", reason=story.NAME_TAKEN, message=sentence)
            await self._story.tell(_subject(study), happening, now=self._clock())
            raise kube.Never(sentence, code=409)
        if "deletionTimestamp" in found["metadata"]:
            raise kube.RetryLater(f"Job {study.namespace}/{name} is still being deleted", delay=2.0)
        return found

    async def _serve(self, study: observed.Study) -> str | None:
        """The headless Service, before the first pod looks up its first name; what was said where it was refused.

        Asked for at each start: somebody may have deleted it since. That it exists is as good.
        """
        try:
            await self._api.create(kube.SERVICES, manifests.service(study))
        except kube.Never as error:
            return str(error)
        return None

    async def _conclude(
        self, key: keys.Key, body: kube.Object, study: observed.Study, made: decision.Decision
    ) -> float | None:
        """What people are told, then the status; the seconds until the next look.

        A transition is known by the conditions in the status: one that was written and not told would never be told.
        """
        now = self._clock()
        await self._story.tell_the_untold(study.uid)
        await self._tell(study, made.happenings)
        written = await self._status.write(kube.BENCHMARKS, body, made.status.to_wire(), now=now)
        if written.changed:
            self._figures.observe(key, {**body, "status": made.status.to_wire()})
        if conditions.holds(made.status.conditions, conditions.FINISHED) and written.wait is None:
            self._settle(study, changed=written.changed)
        wake = None if made.wake_at is None else max(made.wake_at - now, 0.05)
        return _earliest(
            wake, written.wait, _AFTER_START if made.create else None, _UNTOLD if self._story.owes(study.uid) else None
        )

    async def _tell(self, study: observed.Study, news: Iterable[decision.Happening]) -> None:
        """Events; one that was told already costs nothing."""
        for happening in news:
            if await self._story.tell(_subject(study), happening, now=self._clock()):
                log = _log.warning if happening.type == "Warning" else _log.debug
                log("told", extra=_fields(study, reason=happening.reason, sentence=happening.message))

    async def _stop(self, body: kube.Object, *, reason: str, sentence: str) -> None:
        """The study cannot go on until somebody changes something: an Event and a condition say what."""
        extra = {"namespace": kube.namespace_of(body), "benchmark": kube.name_of(body), "sentence": sentence}
        _log.warning(reason, extra=extra)
        sentence = conditions.clamped(sentence, 1024)
        await self.tell(body, decision.Happening(type="Warning", reason=reason, message=sentence))
        now = self._clock()
        status = status_writer.stopped(body, reason=reason, sentence=sentence, now=now)
        await self._status.write(kube.BENCHMARKS, body, status, now=now)

    def _settle(self, study: observed.Study, *, changed: bool) -> None:
        """A finished study needs no memory; its figures stay for as long as its object lives."""
        self.store.forget(study.uid)
        self._histories.forget(study.uid)
        self._status.forget(study.uid)
        if changed:
            _log.info("finished", extra=_fields(study))

    async def _tidy_predecessors(self, key: keys.Key, uid: str | None) -> float | None:
        """Slots of deleted studies of this name: held until the last of their pods is gone."""
        self._slots.leave(key, but=uid)
        left = None
        for old in self._slots.studies_of(key):
            if old == uid:
                continue
            selector = {names.LABEL_BENCHMARK_UID: old}
            jobs, pods = await asyncio.gather(
                self._api.list(kube.JOBS, namespace=key.namespace, labels=selector),
                self._api.list(kube.PODS, namespace=key.namespace, labels=selector),
            )
            seen = (*observe.jobs(jobs, pods=pods), *observe.jobs_left_behind(jobs, pods=pods))
            self._slots.correct(key, old, seen)
            if seen:
                left = _TERMINATING
            self.store.forget(old)
            self._histories.forget(old)
            self._story.forget(old)
        self._wake_waiting(but=key)
        return left

    def _forget(self, key: keys.Key, uid: str | None) -> None:
        """The object is gone, or going; owner references do the cleaning."""
        self._figures.drop(key)
        self._leave_line(key)
        if uid is not None:
            self.store.forget(uid)
            self._histories.forget(uid)
            self._status.forget(uid)
            self._story.forget(uid)

    async def _ask_why_pods_are_missing(
        self, study: observed.Study, bodies: list[kube.Object], seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], float | None]:
        """What quota, Pod Security or a webhook said, for Jobs that have had fewer pods than they want for a while."""
        wanted = {kube.uid_of(body): observe.pods_wanted(body) for body in bodies}
        now, look_again = self._clock(), None
        answered: list[observed.ObservedJob] = []
        for job in seen:
            if len({pod.index for pod in job.pods}) < wanted[job.uid]:
                wait = job.created_at + _FEWER_PODS_AFTER - now
                if wait > 0:
                    look_again = _earliest(look_again, wait)
                else:
                    look_again = _earliest(look_again, _FEWER_PODS_AFTER)
                    said = await self._creation_failure(study, job)
                    answered.append(job.model_copy(update={"creation_failure": said}))
                    continue
            answered.append(job)
        return tuple(answered), look_again

    async def _creation_failure(self, study: observed.Study, job: observed.ObservedJob) -> str | None:
        fields = {"involvedObject.uid": job.uid, "reason": "FailedCreate"}
        events = await self._api.list(kube.EVENTS, namespace=study.namespace, fields=fields)
        latest = max(events, key=lambda event: event.get("lastTimestamp") or "", default=None)
        return None if latest is None else latest.get("message")

    async def _ask_why_pods_do_not_start(
        self, study: observed.Study, seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], float | None]:
        """What the kubelets said of volumes, where pods have had a node for a while and no container: one request."""
        now = self._clock()
        since = [pod.scheduled_at for job in seen for pod in job.pods if pod.is_being_created and pod.scheduled_at]
        if not since:
            return seen, None
        wait = min(since) + _MOUNTED_AFTER - now
        if wait > 0:
            return seen, wait
        fields = {"involvedObject.kind": "Pod", "reason": "FailedMount"}
        events = await self._api.list(kube.EVENTS, namespace=study.namespace, fields=fields)
        said = observe.mount_failures(events, since=now - _MOUNT_FAILURE_REPEATS)
        return tuple(observe.with_mount_failures(job, said) for job in seen), _MOUNTED_AFTER

    async def _pools(self) -> tuple[GpuPool, ...]:
        """All pools that can be read, with the image of this installation where they name none."""
        readable = []
        for body in await self._api.list(kube.POOLS):
            try:
                pool = observe.pool(body, default_image=self._options.jobs_image)
            except ValidationError as error:
                _log.warning("unreadable pool", extra={"pool": kube.name_of(body), "sentence": _first(error)})
                continue
            readable.append(pool)
        return tuple(readable)

    async def _reference(self, study: observed.Study) -> comparison.Reference | None:
        """The benchmark that the study is to be compared with, as it is now."""
        if study.spec.compare_to is None:
            return None
        name = study.spec.compare_to.benchmark
        body = await self._api.get(kube.BENCHMARKS, name=name, namespace=study.namespace)
        return None if body is None else observe.reference(body)

    def _leave_line(self, key: keys.Key) -> None:
        """Nobody waits for this study any more."""
        self._slots.leave(key)
        self._wake_waiting(but=key)

    def _wake_waiting(self, *, but: keys.Key) -> None:
        """Those who may have their chance now; `but` is being looked at and knows."""
        for key in sorted(self._slots.to_wake() - {but}):
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


def _by_study(bodies: Iterable[kube.Object]) -> dict[tuple[keys.Key, str], list[kube.Object]]:
    """Jobs or pods by the key and the UID of the study in their labels."""
    found: dict[tuple[keys.Key, str], list[kube.Object]] = {}
    for body in bodies:
        labels = body["metadata"].get("labels") or {}
        key = keys.benchmark(kube.namespace_of(body) or "", labels.get(names.LABEL_BENCHMARK, ""))
        found.setdefault((key, labels.get(names.LABEL_BENCHMARK_UID, "")), []).append(body)
    return found


def _refused(gang: decision.Gang, job: str, *, sentence: str, now: float) -> ledger.AttemptRecord:
    return ledger.AttemptRecord(
        trial=gang.assignment.trial,
        attempt=gang.assignment.attempt,
        job=job,
        job_uid="",
        created_at=now,
        ended_at=now,
        outcome=ledger.Outcome.FAILED,
        reason=ledger.Reason.CREATION_REFUSED,
        sentence=conditions.clamped(sentence, 1024),
    )


def _job_name(study: observed.Study, gang: decision.Gang) -> str:
    return names.job_name(study.name, study.uid, trial=gang.assignment.trial, attempt=gang.assignment.attempt)


def _subject(study: observed.Study) -> story.Subject:
    return story.Subject(namespace=study.namespace, name=study.name, uid=study.uid, generation=study.generation)


def _fields(study: observed.Study, **more: object) -> dict[str, object]:
    return {"namespace": study.namespace, "benchmark": study.name, **more}


def _ending_fields(record: ledger.AttemptRecord) -> dict[str, object]:
    return {
        "trial": record.trial,
        "attempt": record.attempt,
        "outcome": record.outcome,
        "reason": record.reason,
        "sentence": record.sentence,
    }


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _earliest(*delays: float | None) -> float | None:
    return min((delay for delay in delays if delay is not None), default=None)
