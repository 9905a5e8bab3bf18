# SPDX-License-Identifier: Apache-2.0
"""What is done to gangs: started with what they need beside their Jobs, deleted, interrupted on purpose (`spec.drill`).

A node that is cordoned for a drill itself says so, until when and for whom, in an annotation. Whichever operator comes
later finds it there and lets the node take pods again, also when the benchmark is gone.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpubench import names, units
from gpubench.plan.plan import Plan
from gpubench.scheduler import actions, conditions, ledger, manifests, observed, trials
from gpubench_cluster import kube
from gpubench_operator import events, observe, pool, queue, refusals, settings, storage

_EVICTED_AGAIN = 5.0  # a PodDisruptionBudget that forbids it mostly does not say for how long
_SERVED_SECONDS = 600.0  # so long it is believed that what gangs need is still there
_TO_DRAIN = "let the operator patch nodes (rbac.drains of the chart), or set spec.drill.kind to Evict"

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Gangs:
    """Carries out what is decided about the gangs of all benchmarks."""

    api: kube.Kube
    options: settings.Settings
    store: storage.Store
    slots: pool.SlotLedger
    neighbours: pool.Neighbours
    recorder: events.EventRecorder
    cordons: "Cordons"
    refusals: refusals.Refusals
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        #: UIDs of benchmarks whose Jobs an operator before has not given a time to live: also a finished one has work.
        self.unretired: set[str] = set()
        self.served: dict[str, float] = {}  # by UID: until when they count as present

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start(
        self,
        study: observed.Study,
        plan: Plan,
        gangs: tuple[actions.Gang, ...],
        refused: Iterable[ledger.AttemptRecord],
    ) -> tuple[actions.Gang, ...]:
        """Create the Jobs, then one write for their records; those that were started. One refusal stops no other.

        `refused` are records of attempts whose Jobs were not taken before. What is refused costs no attempt, whatever
        the code: nothing ran.
        """
        if not gangs:
            return ()
        try:  # no Job without a record
            await self.store.check_room(study)
        except kube.ApiError:
            self.release(study, gangs)
            raise
        if not await self._serve(study, plan):
            self.release(study, gangs)
            return ()
        before, records, started = {one.key: one for one in refused}, list[ledger.AttemptRecord](), list[actions.Gang]()
        for tried, gang in enumerate(gangs):
            record = self._tried(study, gang, before)
            what, create = f"Job {record.job}", self._create_job(study, plan, gang, record, records)
            error = await self.refusals.trying(study.uid, what, create)
            said = self.refusals.said(study.uid, what, was_said=record.key in before)
            if said is not None and (isinstance(error, kube.PermanentError) or (error and error.code)):
                records.append(record.model_copy(update={"sentence": conditions.clamped(said, 1024)}))
            if error is None:
                started.append(gang)
            elif isinstance(error, kube.PermanentError):
                self.release(study, [gang])
            else:  # the others would wait for the same answer
                # Without a whole answer it may have been made, and keeps its slots then; not where a webhook failed.
                code = error.code or 0
                is_unanswered = code < 300 or (code >= 500 and "webhook" not in str(error))
                self.release(study, gangs[tried + is_unanswered :])
                break
        await self.store.append(study, records)
        return tuple(started)

    async def _serve(self, study: observed.Study, plan: Plan) -> bool:
        """What gangs need beside their Jobs, before the first pod starts: whether it is there.

        Without the headless Service no pod finds pod 0, without the token none believes another. Asked for again
        after a while and after a failure: somebody may have deleted them. That they exist is as good: the operator
        cannot read a Secret, and whoever can make one of this name beforehand can run pods beside the gang's anyway.
        """
        self.served = {uid: until for uid, until in self.served.items() if until > self.clock()}
        if study.uid in self.served:
            return True
        service, token = manifests.service(study), manifests.token(study, secrets.token_hex(32))
        needed = {
            f"Secret {kube.name_of(token)}": self.api.create(kube.SECRETS, token),
            "its NetworkPolicy": self._protect(study, plan),
        }
        if any(plan.points[trial.point].nodes > 1 for trial in plan.trials):  # one pod alone looks up nobody
            needed[f"Service {kube.name_of(service)}"] = self.api.create(kube.SERVICES, service)
        if taken := await self.refusals.all_taken(study.uid, needed):
            self.served[study.uid] = self.clock() + _SERVED_SECONDS
        return taken

    async def _protect(self, study: observed.Study, plan: Plan) -> None:
        body = manifests.network_policy(study, plan, scrapers=self.options.metrics_namespaces)
        try:
            await self.api.create(kube.NETWORK_POLICIES, body)
        except kube.PermanentError as error:  # the benchmark goes on: its pods ask for the token, too
            message = (
                "no NetworkPolicy keeps others from the benchmark's pods, which believe nobody without its token: "
                f"{error}: let the operator create one, or make one for pods with the label "
                f"{names.LABEL_BENCHMARK_UID}"
            )
            await self.recorder.emit(study, actions.Event.warning(events.NETWORK_OPEN, message))

    def release(self, study: observed.Study, gangs: Iterable[actions.Gang]) -> None:
        for gang in gangs:
            self.slots.release(study.uid, job=manifests.job_name(study, gang))

    def _tried(
        self, study: observed.Study, gang: actions.Gang, refused: Mapping[str, ledger.AttemptRecord]
    ) -> ledger.AttemptRecord:
        """The record of an attempt before it has a Job; no time counts in which nobody tried."""
        trial, attempt, now = gang.assignment.trial, gang.assignment.attempt, self.clock()
        record = ledger.AttemptRecord(
            trial=trial, attempt=attempt, job=manifests.job_name(study, gang), job_uid="", created_at=now
        )
        if (before := refused.get(record.key)) is None:
            return record
        since = min(max(0.0, now - before.created_at), trials.BACKOFF_MAX_SECONDS)
        return record.model_copy(update={"refused": round((before.refused or 0.0) + since, 3)})

    async def _create_job(
        self,
        study: observed.Study,
        plan: Plan,
        gang: actions.Gang,
        record: ledger.AttemptRecord,
        records: list[ledger.AttemptRecord],
    ) -> None:
        priority, group = self.options.gang_priority_class, self.options.results_group
        near = self.neighbours.of(plan.pool(gang.pool))
        body = manifests.job(study, plan, gang, priority_class=priority, results_group=group, neighbours=near)
        if (created := await self.api.create(kube.JOBS, body)) is None:
            created = await self._existing_job(study, record.job)
        else:
            fields = {"trial": record.trial, "attempt": record.attempt, "job": record.job}
            _log.info("job created", extra=observe.log_fields(study, **fields, pool=gang.pool, nodes=gang.nodes))
        created_at = observe.seconds(created["metadata"].get("creationTimestamp")) or record.created_at
        records.append(record.model_copy(update={"job_uid": kube.uid_of(created), "created_at": created_at}))

    async def _existing_job(self, study: observed.Study, name: str) -> kube.Object:
        """The Job that has the name already: ours from before a crash, or a foreign one that somebody must remove."""
        if (found := await self.api.get(kube.JOBS, name=name, namespace=study.namespace)) is None:
            raise kube.TemporaryError(f"Job {study.namespace}/{name} went away just now", delay=0.2)
        if not kube.is_owned_by(found, study.uid):
            message = f"Job {name} belongs to somebody else: remove it, and the benchmark goes on"
            await self.recorder.emit(study, actions.Event.warning(events.NAME_TAKEN, message))
            raise kube.PermanentError(message)
        if "deletionTimestamp" in found["metadata"]:
            raise kube.TemporaryError(f"Job {study.namespace}/{name} is still being deleted", delay=2.0)
        return found

    # --- ending -------------------------------------------------------------------------------------------------------

    async def delete(self, study: observed.Study, references: Iterable[observed.ObservedJob]) -> None:
        """Delete Jobs whose end is recorded and that may still hold nodes."""

        async def delete(one: observed.ObservedJob) -> None:
            found = await self.api.delete(kube.JOBS, name=one.name, namespace=study.namespace, uid=one.uid)
            _log.info("job deleted", extra=observe.log_fields(study, job=one.name, found=found))

        await self.refusals.all_taken(study.uid, {f"Job {one.name}": delete(one) for one in references})

    async def retire(self, study: observed.Study, references: Iterable[observed.ObservedJob]) -> None:
        """Finished and recorded, its log read: it stays a while for people, and then goes."""
        change, where = {"ttlSecondsAfterFinished": self.options.job_ttl_seconds}, {"namespace": study.namespace}
        patches = {
            f"Job {one.name}": self.api.patch(
                kube.JOBS, {"metadata": {"uid": one.uid}, "spec": change}, name=one.name, **where
            )
            for one in references
        }
        if await self.refusals.all_taken(study.uid, patches):
            self.unretired.discard(study.uid)

    # --- interrupting -------------------------------------------------------------------------------------------------

    async def evict(self, study: observed.Study, chosen: Iterable[actions.Eviction]) -> float | None:
        """Interrupt attempts on purpose; the seconds until one that is refused is tried again.

        The pod is named on its Job first, so that nobody takes the interruption for one of the pool's: whatever happens
        between the two, the next reconcile finds the name and evicts the same pod.
        """
        again = None
        for eviction in chosen:
            job, pod = eviction.job, eviction.pod
            mark = {"metadata": {"uid": job.uid, "annotations": {names.ANNOTATION_DRILLED: pod.name}}}
            if await self.api.patch(kube.JOBS, mark, name=job.name, namespace=study.namespace) is None:
                continue
            try:
                if eviction.cordon is not None:
                    await self._cordon(study, eviction.cordon)
                found = await self.api.evict(pod=pod.name, namespace=study.namespace, uid=pod.uid)
            except kube.ApiError as error:
                if error.code == kube.CONFLICT:  # kubelets and autoscalers write nodes all the time
                    again = queue.earliest(again, error.delay)
                    continue
                is_drain_forbidden = eviction.cordon is not None and isinstance(error, kube.Forbidden)
                remedy = f"; {_TO_DRAIN}" if is_drain_forbidden else ""
                message = f"pod {pod.name} cannot be evicted, as spec.drill asks: {error}{remedy}"
                await self.recorder.emit(study, actions.Event.warning(events.EVICTION_REFUSED, message))
                asked = error.delay if isinstance(error, kube.TemporaryError) else queue.AFTER_REFUSAL
                again = queue.earliest(again, asked or _EVICTED_AGAIN)
            else:
                fields = {"job": job.name, "pod": pod.name, "found": found}
                _log.info("evicted on purpose", extra=observe.log_fields(study, **fields))
        return again

    async def _cordon(self, study: observed.Study, asked: actions.Cordon) -> None:
        if await self.cordons.cordon(asked, benchmark=f"{study.namespace}/{study.name}"):
            message = f"node {asked.node} takes no new pods until {observe.timestamp(asked.until)}, as spec.drill asks"
        else:
            message = f"node {asked.node} is gone, or cordoned by somebody else: only its pod is evicted"
        await self.recorder.emit(study, actions.Event.normal(events.NODE_CORDONED, message))


@dataclass(kw_only=True)
class Cordons:
    """Cordons nodes, and takes that back: when an operator begins to lead, at each resync, and when a node is due.

    Must not happen: a node that stays cordoned; one that takes pods again though somebody else has cordoned it.
    """

    api: kube.Kube
    wake: Callable[[queue.Key], None]
    clock: Callable[[], float] = time.time

    async def cordon(self, asked: actions.Cordon, *, benchmark: str) -> bool:
        """Whether the node takes no new pods now because of this; not where somebody else has cordoned it."""
        listed = await self.api.list(kube.NODES, fields={"metadata.name": asked.node})
        if not listed or ((listed[0].get("spec") or {}).get("unschedulable") and _mark(listed[0]) is None):
            return False
        if not await self._patch(listed[0], mark=f"{observe.timestamp(asked.until)} {benchmark}", unschedulable=True):
            return False
        self.wake(queue.CORDONS)
        return True

    async def reconcile(self, _: queue.Key) -> float | None:
        """Let nodes that are due take pods again; the seconds until the next one is."""
        later, failed = list[float](), None
        for body in await self.api.list(kube.NODES, metadata_only=True):
            if (mark := _mark(body)) is None:
                continue
            try:
                wait = units.epoch_seconds(mark.partition(" ")[0]) - self.clock()
            except ValueError:  # somebody has written something else there
                wait = 0.0
            if wait > 0:
                later.append(wait)
                continue
            try:
                await self._patch(body, mark=None, unschedulable=None)
                _log.info("uncordoned", extra={"node": kube.name_of(body), "cordoned": mark})
            except kube.ApiError as error:  # of one node: it keeps no other
                failed = error
        if failed is not None:
            raise failed
        return min(later, default=None)

    async def _patch(self, node: kube.Object, *, mark: str | None, unschedulable: bool | None) -> bool:
        change: dict[str, Any] = {
            "metadata": {"resourceVersion": kube.version_of(node), "annotations": {names.ANNOTATION_CORDONED: mark}},
            "spec": {"unschedulable": unschedulable},
        }
        return await self.api.patch(kube.NODES, change, name=kube.name_of(node)) is not None


def _mark(body: kube.Object) -> str | None:
    mark: str | None = (body["metadata"].get("annotations") or {}).get(names.ANNOTATION_CORDONED)
    return mark
