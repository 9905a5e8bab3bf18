# SPDX-License-Identifier: Apache-2.0
"""Starting gangs: their Jobs, and what these need beside them. One that is refused does not stop the others.

Must not happen: a Job without its record, or a pod that starts before what it needs is there.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpubench import names
from gpubench.plan.plan import Plan
from gpubench.scheduler import actions, conditions, ledger, manifests, observed
from gpubench_cluster import kube
from gpubench_operator import events, observe, pool, settings, store

_TOKEN_BYTES = 32

_log = logging.getLogger(__name__)


class Started(NamedTuple):
    """What became of the gangs of a decision."""

    gangs: tuple[actions.Gang, ...] = ()
    refused: str | None = None  # what the API server said of the first one that it refused


class Gangs:
    """Starts the gangs of all studies."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        shelves: store.Store,
        held: pool.SlotLedger,
        recorder: events.EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._store = shelves
        self._slots = held
        self._recorder = recorder
        self._clock = clock

    async def start(
        self, study: observed.Study, plan: Plan, gangs: tuple[actions.Gang, ...], *, is_served: bool
    ) -> Started:
        """Create the Jobs, then one write for their records; one that is refused does not stop the others."""
        if not gangs:
            return Started()
        if not is_served and (refused := await self.serve(study, plan)) is not None:
            self.release(study, gangs)
            return Started(refused=refused)
        records: list[ledger.AttemptRecord] = []
        started: list[actions.Gang] = []
        refusals: list[str] = []
        try:
            for gang in gangs:
                try:
                    records.append(await self._create_job(study, plan, gang))
                except kube.PermanentError as error:
                    self.release(study, [gang])
                    refusals.append(str(error))
                else:
                    started.append(gang)
        finally:
            await self._store.append(study, records)
        return Started(gangs=tuple(started), refused=next(iter(refusals), None))

    def release(self, study: observed.Study, gangs: Iterable[actions.Gang]) -> None:
        """Give back what was reserved for Jobs that are not created after all."""
        for gang in gangs:
            self._slots.release(study.uid, job=job_name(study, gang))

    async def serve(self, study: observed.Study, plan: Plan) -> str | None:
        """What gangs need beside their Jobs, before the first pod starts; what was said where it was refused.

        Without the headless Service no pod finds another, without the token none believes another. Asked for at each
        start: somebody may have deleted them since. That they exist is as good: the operator cannot read a Secret, and
        whoever can make one of this name beforehand can run pods beside the gang's anyway.
        """
        refusals = await asyncio.gather(
            self._refusal(kube.SERVICES, manifests.service(study)),
            self._refusal(kube.SECRETS, manifests.token(study, secrets.token_hex(_TOKEN_BYTES))),
            self._close_network(study, plan),
        )
        return next((said for said in refusals if said is not None), None)

    async def _refusal(self, resource: kube.Resource, body: kube.Object) -> str | None:
        """Create an object unless it is there; what the API server said where it will not have it."""
        try:
            await self._api.create(resource, body)
        except kube.PermanentError as error:
            return str(error)
        return None

    async def _close_network(self, study: observed.Study, plan: Plan) -> None:
        """The NetworkPolicy. Where it is refused the study goes on with a Warning: its pods ask for the token, too."""
        body = manifests.network_policy(study, plan, scrapers=self._options.metrics_namespaces)
        said = await self._refusal(kube.NETWORK_POLICIES, body)
        if said is not None:
            sentence = (
                f"no NetworkPolicy keeps others from the study's pods, which believe nobody without the study's token: "
                f"{said}: let the operator create one, or make one for pods with the label {names.LABEL_BENCHMARK_UID}"
            )
            happening = actions.Event(type="Warning", reason=events.NETWORK_OPEN, message=sentence[:1024])
            await self._recorder.emit_about(study, happening, now=self._clock())

    async def _create_job(self, study: observed.Study, plan: Plan, gang: actions.Gang) -> ledger.AttemptRecord:
        """The Job of one attempt, and its record. What was refused for good is a record too: it counts as failed."""
        body = manifests.job(study, plan, gang, priority_class=self._options.gang_priority_class)
        try:
            created = await self._api.create(kube.JOBS, body)
        except kube.PermanentError as error:
            happening = actions.Event(type="Warning", reason=events.JOB_REFUSED, message=str(error)[:1024])
            await self._recorder.emit(events.subject_of(study), happening, now=self._clock())
            if isinstance(error, kube.Forbidden):  # quota or permissions: somebody may change them
                raise
            self._slots.release(study.uid, job=kube.name_of(body))
            return _refused(gang, kube.name_of(body), sentence=str(error), now=self._clock())
        if created is None:
            created = await self._existing_job(study, kube.name_of(body))
        else:
            _log.info(
                "job created",
                extra=observe.log_fields(
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
            raise kube.TemporaryError(f"Job {study.namespace}/{name} went away just now", delay=0.2)
        if not kube.is_owned_by(found, study.uid):
            sentence = f"Job {name} belongs to somebody else: remove it, and the study goes on"
            happening = actions.Event(type="Warning", reason=events.NAME_TAKEN, message=sentence)
            await self._recorder.emit(events.subject_of(study), happening, now=self._clock())
            raise kube.PermanentError(sentence)
        if "deletionTimestamp" in found["metadata"]:
            raise kube.TemporaryError(f"Job {study.namespace}/{name} is still being deleted", delay=2.0)
        return found


def _refused(gang: actions.Gang, job: str, *, sentence: str, now: float) -> ledger.AttemptRecord:
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


def job_name(study: observed.Study, gang: actions.Gang) -> str:
    """The name of the Job of an attempt, by which it is found again after a crash."""
    return names.job_name(study.name, study.uid, trial=gang.assignment.trial, attempt=gang.assignment.attempt)
