# SPDX-License-Identifier: Apache-2.0
"""One look at one study: observe, decide, act; then again from scratch at the next look.

The order of writes is what a crash at any moment is survived by: the plan before everything, records before the Jobs
that they speak of are deleted, the status after what it tells has happened. Between reading the slot ledger and
reserving in it nothing waits, so that two studies cannot take the same slots.
"""

import asyncio
import time
from collections.abc import Callable

from pydantic import ValidationError

from gpubench import names
from gpubench.api.pool import GpuPool
from gpubench.control import capacity, conditions, decide, decision, ledger, manifests, observed, planning
from gpubench.plan.plan import Plan
from gpubench_operator import exporter, keys, kube, logs, observe, settings, slots, status_writer, store, story

_FEWER_PODS_AFTER = 3.0  # seconds that the Job controller may take to create pods before it is asked why
_AFTER_START = 2.0  # look again after a start although no event came
_TERMINATING = 5.0  # look again at Jobs whose study is gone
_FORBIDDEN = 403

_log = logs.logger(__name__)


class Reconciler:
    """Carries out decisions for benchmarks. One instance serves all studies; the queue keeps one look per study."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        figures: exporter.Figures,
        wake: Callable[[keys.Key], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._figures = figures
        self._wake = wake
        self._clock = clock
        self.store = store.Store(api)
        self._slots = slots.SlotLedger()
        self._status = status_writer.StatusWriter(api, interval=options.status_interval_seconds)
        self._story = story.Story(api, identity=options.identity)
        self._served: set[str] = set()  # UIDs whose Service was created by this process

    async def rebuild(self) -> None:
        """Fill the slot ledger from all Jobs; no study may be looked at before."""
        selector = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
        bodies = [
            body for namespace in self._namespaces() for body in await self._api.list(
                kube.JOBS, namespace=namespace, labels=selector
            )
        ]  # fmt: skip
        jobs_of: dict[tuple[keys.Key, str], list[observed.ObservedJob]] = {}
        for body in bodies:
            labels = body["metadata"].get("labels") or {}
            uid = labels.get(names.LABEL_BENCHMARK_UID, "")
            key = keys.benchmark(kube.namespace_of(body) or "", labels.get(names.LABEL_BENCHMARK, ""))
            jobs_of.setdefault((key, uid), []).extend(observe.jobs([body], pods=()))
        for (key, uid), jobs in jobs_of.items():
            self._slots.correct(key, uid, jobs)
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
            await self._tell_invalid(body, error)
            return None
        return _earliest(leftover, await self._look(key, body, study))

    async def tell(self, benchmark: kube.Object, happening: decision.Happening) -> None:
        """An Event about a benchmark."""
        await self._story.tell(story.subject(benchmark), happening, now=self._clock())

    async def _look(self, key: keys.Key, body: kube.Object, study: observed.Study) -> float | None:
        selector = {names.LABEL_BENCHMARK_UID: study.uid}
        shelf, jobs, pods = await asyncio.gather(
            self.store.read(study),
            self._api.list(kube.JOBS, namespace=study.namespace, labels=selector),
            self._api.list(kube.PODS, namespace=study.namespace, labels=selector),
        )
        jobs = [job for job in jobs if kube.is_owned_by(job, study.uid)]
        if shelf.plan is None:
            begun = planning.begin(study, await self._pools(), self._clock())
            if isinstance(begun, decision.Decision):
                return await self._conclude(key, body, study, begun)
            shelf, _ = await asyncio.gather(self.store.freeze(study, begun), self._serve(study, begun))
            _log.info("planned", extra=_fields(study, points=len(begun.points), trials=len(begun.trials)))
        assert shelf.plan is not None  # read or frozen above
        seen = observe.jobs(jobs, pods=pods)
        seen, look_again = await self._ask_why_pods_are_missing(study, jobs, seen)

        # From here to the reservation nothing waits: what is free now is free until it is reserved.
        came_free = self._slots.correct(key, study.uid, seen)
        free = capacity.free_slots(shelf.plan, self._slots.held())
        made = decide.decide(
            shelf.plan, shelf.recorded, observed.Observed(study=study, jobs=seen, free=free), self._clock()
        )
        for gang in made.create:
            job = _job_name(study, gang)
            self._slots.reserve(key, study.uid, job=job, pool=gang.pool, slots=gang.slots)
        self._slots.stand_in_line(key, waits=_waits_for_slots(study, made))

        if came_free:
            self._wake_next()
        elif made.create:
            self._wake_next(after=key)  # it was woken for free slots perhaps; there may be some left
        await self._act(study, shelf.plan, made)
        return _earliest(await self._conclude(key, body, study, made), look_again)

    async def _act(self, study: observed.Study, plan: Plan, made: decision.Decision) -> None:
        """Records, deletions, retirements, starts: in this order."""
        await self.store.append(study, made.record)
        for record in made.record:
            if record.outcome is not None:
                _log.info("attempt ended", extra=_fields(study, **_ending_fields(record)))
        for reference in made.delete:
            gone = await self._api.delete(kube.JOBS, name=reference.name, namespace=study.namespace, uid=reference.uid)
            _log.info("job deleted", extra=_fields(study, job=reference.name, found=gone))
        for reference in made.retire:
            ttl = {
                "metadata": {"uid": reference.uid},
                "spec": {"ttlSecondsAfterFinished": self._options.job_ttl_seconds},
            }
            await self._api.patch(kube.JOBS, ttl, name=reference.name, namespace=study.namespace)
        if made.create:
            await self._serve(study, plan)
            await self._start(study, plan, made.create)

    async def _start(self, study: observed.Study, plan: Plan, gangs: tuple[decision.Gang, ...]) -> None:
        """Create the Jobs, then one write for their records; also when a creation fails midway."""
        started: list[ledger.AttemptRecord] = []
        try:
            for number, gang in enumerate(gangs):
                try:
                    record = await self._create_job(study, plan, gang)
                except kube.Never:
                    for left in gangs[number:]:
                        self._slots.release(study.uid, job=_job_name(study, left))
                    raise
                started.append(record)
        finally:
            await self.store.append(study, started)

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

    async def _serve(self, study: observed.Study, plan: Plan) -> None:
        """The headless Service, before the first pod looks up its first name."""
        if study.uid in self._served:
            return
        await self._api.create(kube.SERVICES, manifests.service(study, plan))
        self._served.add(study.uid)

    async def _conclude(
        self, key: keys.Key, body: kube.Object, study: observed.Study, made: decision.Decision
    ) -> float | None:
        """The status, then what people are told; the seconds until the next look."""
        now = self._clock()
        written = await self._status.write(kube.BENCHMARKS, body, made.status.to_wire(), now=now)
        if written.changed:
            self._figures.observe(key, {**body, "status": made.status.to_wire()})
        for happening in made.happenings:
            await self._story.tell(_subject(study), happening, now=now)
            log = _log.warning if happening.type == "Warning" else _log.debug
            log("told", extra=_fields(study, reason=happening.reason, sentence=happening.message))
        if conditions.holds(made.status.conditions, conditions.FINISHED) and written.wait is None:
            self._settle(study, changed=written.changed)
        wake = None if made.wake_at is None else max(made.wake_at - now, 0.05)
        return _earliest(wake, written.wait, _AFTER_START if made.create else None)

    def _settle(self, study: observed.Study, *, changed: bool) -> None:
        """A finished study needs no memory; its figures stay for as long as its object lives."""
        self.store.forget(study.uid)
        self._status.forget(study.uid)
        self._served.discard(study.uid)
        if changed:
            _log.info("finished", extra=_fields(study))

    async def _tidy_predecessors(self, key: keys.Key, uid: str | None) -> float | None:
        """Slots of deleted studies of this name: held until the last of their Jobs is gone."""
        left = None
        for old in self._slots.studies_of(key):
            if old == uid:
                continue
            bodies = await self._api.list(kube.JOBS, namespace=key.namespace, labels={names.LABEL_BENCHMARK_UID: old})
            if self._slots.correct(key, old, observe.jobs(bodies, pods=())):
                self._wake_next()
            if bodies:
                left = _TERMINATING
            self.store.forget(old)
        return left

    def _forget(self, key: keys.Key, uid: str | None) -> None:
        """The object is gone, or going; owner references do the cleaning."""
        self._figures.drop(key)
        self._slots.stand_in_line(key, waits=False)
        if uid is not None:
            self.store.forget(uid)
            self._status.forget(uid)
            self._served.discard(uid)

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

    async def _pools(self) -> tuple[GpuPool, ...]:
        """All pools that can be read, with the image of this installation where they name none."""
        readable = []
        for body in await self._api.list(kube.POOLS):
            try:
                pool = observe.pool(body)
            except ValidationError as error:
                _log.warning("unreadable pool", extra={"pool": kube.name_of(body), "sentence": _first(error)})
                continue
            if self._options.jobs_image and pool.spec.template.image is None:
                template = pool.spec.template.model_copy(update={"image": self._options.jobs_image})
                pool = pool.model_copy(update={"spec": pool.spec.model_copy(update={"template": template})})
            readable.append(pool)
        return tuple(readable)

    async def _tell_invalid(self, body: kube.Object, error: ValidationError) -> None:
        sentence = f"this version of the operator cannot read the object: {_first(error)}"
        _log.warning("invalid", extra={"namespace": kube.namespace_of(body), "benchmark": kube.name_of(body)})
        await self.tell(body, decision.Happening(type="Warning", reason=story.INVALID_SPEC, message=sentence))

    def _wake_next(self, *, after: keys.Key | None = None) -> None:
        following = self._slots.next_in_line(after=after)
        if following is not None:
            self._wake(following)

    def _namespaces(self) -> tuple[str | None, ...]:
        return self._options.watch_namespaces or (None,)


def _waits_for_slots(study: observed.Study, made: decision.Decision) -> bool:
    """Whether trials could start if only there were room on the pools."""
    trials = made.status.trials
    if trials is None or study.spec.suspend:
        return False
    running = trials.running + len(made.create)
    return trials.total - trials.finished - running > 0 and running < study.spec.limits.parallel_trials


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
