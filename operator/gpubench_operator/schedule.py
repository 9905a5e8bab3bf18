# SPDX-License-Identifier: Apache-2.0
"""Reconciles one schedule: read what is there, decide, act; then again from scratch at the next reconcile.

The order of writes is what a crash at any moment is survived by: a finished run is in the history before its benchmark
may go, a benchmark exists before the status says so. A run's name is its scheduled minute, so that a creation which
finds it there has succeeded, whoever made it.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from pydantic import ValidationError

from gpubench import names, units
from gpubench.analysis import pairs
from gpubench.api import messages
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus
from gpubench.plan import expand
from gpubench.sanitize import one_line
from gpubench.schedule import history, runs
from gpubench.scheduler import actions, conditions
from gpubench_cluster import kube
from gpubench_operator import events, exporter, observe, queue, refusals, settings, storage

FAILED_CREATE = "FailedCreate"  # as CronJob's controller calls it
_STUCK = 60.0

_log = logging.getLogger(__name__)


class _Snapshot(NamedTuple):  # the stored history of a schedule
    shards: Mapping[int, kube.Object] = MappingProxyType({})  # its ConfigMaps
    entries: tuple[history.Entry, ...] = ()

    def data(self) -> dict[int, dict[str, str]]:
        return {number: body.get("data") or {} for number, body in self.shards.items()}


class _Seen(NamedTuple):
    body: kube.Object
    schedule: runs.Schedule
    before: GpuBenchmarkScheduleStatus
    uid: str
    namespace: str
    accepted_at: float | None  # when a person accepted what was slower then
    problems: tuple[actions.Event, ...]  # what of it cannot be read


@dataclass
class ScheduleReconciler:
    """Carries out decisions for schedules. One instance serves all of them."""

    api: kube.Kube
    options: settings.Settings
    series: exporter.Series
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._store = storage.Store(self.api)
        self._recorder = events.EventRecorder(self.api, identity=self.options.identity, clock=self.clock)
        self._snapshots: dict[str, _Snapshot] = {}  # by the schedule's UID
        self._seen_objects = queue.SeenObjects()
        self._failures = refusals.Failures()

    async def reconcile(self, key: queue.Key) -> float | None:
        """Reconcile once; the seconds until the next time is due without an event."""
        body = await self.api.get(kube.SCHEDULES, name=key.name, namespace=key.namespace)
        is_there = body is not None and "deletionTimestamp" not in body["metadata"]
        gone = self._seen_objects.replaced(key, kube.uid_of(body) if body is not None and is_there else None)
        if gone is not None:
            self._snapshots.pop(gone, None)
            self._recorder.forget(gone)
            self._failures.forget(gone)
        if body is None or not is_there:
            self.series.drop(key)
            return None
        self.series.observe(key, body)
        await self._recorder.emit_pending(kube.uid_of(body))
        try:
            seen = _read(body)
        except ValidationError as error:
            unreadable = actions.Event.warning(events.INVALID_SPEC, observe.unreadable(error))
            await self._recorder.emit(_subject(body), unreadable)
            return _STUCK
        try:
            wake = await self._act(key, seen)
            self._failures.forget(seen.uid)
        except Exception as error:
            if (event := self._failures.event(seen.uid, error)) is not None:
                with contextlib.suppress(kube.ApiError):  # it must not hide the other
                    await self._recorder.emit(_subject(body), event)
                    status = body.get("status") or {}
                    await storage.write_stopped(
                        self.api, kube.SCHEDULES, body, event, condition=runs.READY, status=status, now=self.clock()
                    )
            raise
        return wake

    async def _act(self, key: queue.Key, seen: _Seen) -> float | None:
        snapshot, labels = await self._read_history(seen), {names.LABEL_SCHEDULE_UID: seen.uid}
        listed = await self.api.list(kube.BENCHMARKS, namespace=seen.namespace, labels=labels)
        found = {kube.uid_of(body): body for body in listed if kube.is_owned_by(body, seen.uid)}
        now = self.clock()
        decided = runs.decide(seen.schedule, _runs(found.values(), snapshot), now)
        news = list(decided.events)
        if decided.archive:
            snapshot = await self._archive(seen, [found[run.uid] for run in decided.archive], snapshot)
            decided = runs.decide(seen.schedule, _runs(found.values(), snapshot), now)
        for old in (*decided.remove, *decided.replace):
            if await self.api.delete(kube.BENCHMARKS, name=old.name, namespace=seen.namespace, uid=old.uid):
                news.append(actions.Event.normal(runs.DELETED, f"deleted {old.name}"))
        refused = None
        if decided.start is not None:
            run, event = await self._start(seen, decided.start)
            if run is None:
                refused, decided = queue.AFTER_REFUSAL, decided.model_copy(update={"problem": event})
            else:
                news += [] if event is None else [event]
                started = {"active": (*decided.active, run), "last_scheduled_at": decided.start}
                decided = decided.model_copy(update=started)
        await self._conclude(key, seen, decided, snapshot, news)
        wake = None if decided.wake_at is None else max(0.0, decided.wake_at - self.clock())
        # A clock that is put right while nothing happens is noticed by the resync at the latest.
        return queue.earliest(wake, refused, self.options.resync_seconds)

    async def _conclude(
        self, key: queue.Key, seen: _Seen, decided: runs.Decision, snapshot: _Snapshot, news: list[actions.Event]
    ) -> None:
        """Events, then the status: afterwards nobody would know what has changed."""
        spec, before = seen.schedule.spec, seen.before
        pools = observe.pools(await self.api.list(kube.POOLS), default_image=self.options.jobs_image)
        planned_at = units.rfc3339(seen.schedule.created_at)
        series = history.series(snapshot.entries, spec.regressions, accepted_at=seen.accepted_at)
        after = runs.status(
            spec,
            decided,
            snapshot.entries,
            series=series,
            created_at=seen.schedule.created_at,
            monthly=history.projected(spec, pools, snapshot.entries, planned_at=planned_at),
            missing_pools=expand.missing_pools(spec.benchmark_template.spec, pools),
            before=before.conditions,
            generation=seen.body["metadata"].get("generation", 1),
            now=self.clock(),
        )
        problem = () if decided.problem is None else (decided.problem,)
        changes = runs.status_events(before, after, series)
        await self._recorder.emit(_subject(seen.body), *news, *problem, *seen.problems, *changes)
        wire = after.to_wire()
        await storage.write_status(self.api, kube.SCHEDULES, seen.body, wire)
        self.series.observe(key, {**seen.body, "status": wire})

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _start(self, seen: _Seen, scheduled_at: int) -> tuple[runs.Run | None, actions.Event | None]:
        """Create the benchmark of a run: the run, or None where it was refused, and what is new about that."""
        body = benchmark(seen.body, scheduled_at)
        name = kube.name_of(body)
        try:
            created = await self.api.create(kube.BENCHMARKS, body)
        except kube.PermanentError as error:
            return None, actions.Event.warning(FAILED_CREATE, f"the benchmark {name} cannot be created: {error}")
        if created is not None:
            _log.info("run created", extra={"namespace": seen.namespace, "schedule": seen.schedule.name, "run": name})
            return _run(created, archived=False), actions.Event.normal(runs.CREATED, f"created {name}")
        if (found := await self.api.get(kube.BENCHMARKS, name=name, namespace=seen.namespace)) is None:
            raise kube.TemporaryError(f"benchmark {seen.namespace}/{name} went away just now", delay=0.2)
        if kube.is_owned_by(found, seen.uid):  # of a moment ago
            return _run(found, archived=False), None
        if "deletionTimestamp" in found["metadata"]:  # of a schedule of before that had this name
            raise kube.TemporaryError(f"benchmark {seen.namespace}/{name} is still being deleted", delay=2.0)
        message = f"the benchmark {name} belongs to somebody else: remove it, and the run starts"
        return None, actions.Event.warning(events.NAME_TAKEN, message)

    # --- history ------------------------------------------------------------------------------------------------------

    async def _read_history(self, seen: _Seen) -> _Snapshot:
        labels = {names.LABEL_SCHEDULE_UID: seen.uid, names.LABEL_COMPONENT: names.COMPONENT_HISTORY}
        listed = await self.api.list(kube.CONFIG_MAPS, namespace=seen.namespace, labels=labels, metadata_only=True)
        versions = {kube.name_of(body): kube.version_of(body) for body in listed if kube.is_owned_by(body, seen.uid)}
        known = self._snapshots.get(seen.uid, _Snapshot())
        if versions == {kube.name_of(body): kube.version_of(body) for body in known.shards.values()}:
            return known
        bodies = [await self.api.get(kube.CONFIG_MAPS, name=name, namespace=seen.namespace) for name in versions]
        found = (body for body in bodies if body is not None)
        return self._keep(seen, {int(kube.name_of(body).rpartition("-")[2]): body for body in found})

    async def _archive(self, seen: _Seen, finished: Sequence[kube.Object], snapshot: _Snapshot) -> _Snapshot:
        for body in sorted(finished, key=kube.name_of):
            found = history.with_levels(
                await self._entry(body), snapshot.entries, seen.schedule.spec.regressions, accepted_at=seen.accepted_at
            )
            for shard, entries in history.placed(snapshot.data(), found).items():
                written = await self._write(seen, shard, entries, before=snapshot.shards.get(shard))
                # After each write: a later failure must not make anybody write over it.
                snapshot = self._keep(seen, {**snapshot.shards, shard: written})
        return snapshot

    async def _write(
        self, seen: _Seen, shard: int, entries: Mapping[str, str | None], *, before: kube.Object | None
    ) -> kube.Object:
        name = names.history_name(seen.schedule.name, seen.uid, shard=shard)
        if before is None:
            metadata = _owned(seen.body, name)
            metadata["labels"][names.LABEL_COMPONENT] = names.COMPONENT_HISTORY
            data = {key: text for key, text in entries.items() if text is not None}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            written = await self.api.create(kube.CONFIG_MAPS, body)
        else:
            patch = {"metadata": {"resourceVersion": kube.version_of(before)}, "data": dict(entries)}
            written = await self.api.patch(kube.CONFIG_MAPS, patch, name=name, namespace=seen.namespace)
        if written is None:
            self._snapshots.pop(seen.uid, None)
            raise kube.TemporaryError(f"ConfigMap {seen.namespace}/{name} changed meanwhile", delay=0.2)
        return written

    def _keep(self, seen: _Seen, shards: dict[int, kube.Object]) -> _Snapshot:
        found = _Snapshot(shards)
        self._snapshots[seen.uid] = found._replace(entries=history.read(found.data().values()))
        return self._snapshots[seen.uid]

    async def _entry(self, body: kube.Object) -> history.Entry:
        """What is kept of a run. One that this version cannot read still counts as a run."""
        run, finished = _run(body, archived=False), kube.condition(body, conditions.FINISHED)
        assert run.finished_at is not None  # only such are archived
        assert finished is not None
        known = history.Entry(
            name=run.name,
            uid=run.uid,
            scheduled_at=run.scheduled_at,
            created_at=run.created_at,
            finished_at=run.finished_at,
            succeeded=run.succeeded,
            sentence=conditions.clamped(str(finished.get("message") or "finished"), 256),
        )
        try:
            study = observe.study(body)
            found, stored = await self._store.read_analysis(study), await self._store.read(study)
        except (ValidationError, storage.Damaged) as error:
            why = observe.unreadable(error) if isinstance(error, ValidationError) else str(error)
            _log.warning("unreadable run", extra={"run": run.name, "error": why})
            return known
        finally:
            self._store.forget(run.uid)
        records, compared, spent = stored.recorded.records, found.comparison, study.status.spent
        side = pairs.of_spec(run.name, study.spec, found)
        return known.model_copy(
            update={
                "figures": history.figures(side, plan=stored.plan, records=records),
                "environments": found.environments,
                "held": () if stored.plan is None else history.held(stored.plan, records),
                "spent": None if spent is None else spent.amount,
                "currency": None if spent is None else spent.currency,
                "baseline": None if compared is None else compared.verdict.value,
                "baseline_sentence": None if compared is None else compared.sentence,
            }
        )


def benchmark(schedule: kube.Object, scheduled_at: int) -> kube.Object:
    """The GpuBenchmark of one run: the template as it stands in the object, with the schedule as its owner."""
    template = schedule["spec"]["benchmarkTemplate"]
    of_template = template.get("metadata") or {}
    scheduled = {names.ANNOTATION_SCHEDULED: units.rfc3339(scheduled_at)}
    metadata = _owned(schedule, names.run_name(kube.name_of(schedule), scheduled_at))
    metadata["labels"] = {**(of_template.get("labels") or {}), **metadata["labels"]}
    metadata["annotations"] = {**(of_template.get("annotations") or {}), **scheduled}
    kind = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND}
    return {**kind, "metadata": metadata, "spec": template["spec"]}


def _subject(schedule: kube.Object) -> events.Subject:
    return events.subject(schedule, kind=names.SCHEDULE_KIND)


def _owned(schedule: kube.Object, name: str) -> kube.Object:
    owner = schedule["metadata"]
    reference = {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND}
    return {
        "name": name,
        "namespace": owner["namespace"],
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_SCHEDULE: owner["name"],
            names.LABEL_SCHEDULE_UID: owner["uid"],
        },
        "ownerReferences": [{**reference, "name": owner["name"], "uid": owner["uid"], "controller": True}],
    }


# --- reading ----------------------------------------------------------------------------------------------------------


def _read(body: kube.Object) -> _Seen:
    """The schedule in an object; ValidationError where its spec is none that this version knows."""
    metadata, accepted_at, problems = body["metadata"], None, tuple[actions.Event, ...]()
    spec = GpuBenchmarkScheduleSpec.model_validate(body.get("spec") or {})
    accepted = (metadata.get("annotations") or {}).get(names.ANNOTATION_ACCEPTED)
    try:
        accepted_at = observe.seconds(accepted)
    except ValueError:
        sentence = f"{names.ANNOTATION_ACCEPTED} is {one_line(str(accepted))[:64]}: write 2026-11-01T10:00:00Z"
        problems = (actions.Event.warning(events.INVALID_SPEC, sentence),)
    try:
        before = GpuBenchmarkScheduleStatus.model_validate(body.get("status") or {})
    except ValidationError:  # of another version: what it says is made anew, but for what nobody else knows
        last = (body.get("status") or {}).get("lastScheduleTime")
        before = GpuBenchmarkScheduleStatus(last_schedule_time=last if isinstance(last, str) else None)
    schedule = runs.Schedule(
        name=metadata["name"],
        created_at=observe.seconds(metadata.get("creationTimestamp")) or 0.0,
        spec=spec,
        last_scheduled_at=observe.seconds(before.last_schedule_time),
    )
    return _Seen(body, schedule, before, kube.uid_of(body), metadata["namespace"], accepted_at, problems)


def _runs(bodies: Iterable[kube.Object], snapshot: _Snapshot) -> tuple[runs.Run, ...]:
    archived = {entry.name for entry in snapshot.entries}
    return tuple(_run(body, archived=kube.name_of(body) in archived) for body in bodies)


def _run(body: kube.Object, *, archived: bool) -> runs.Run:
    metadata = body["metadata"]
    created = observe.seconds(metadata.get("creationTimestamp")) or 0.0
    scheduled = observe.seconds((metadata.get("annotations") or {}).get(names.ANNOTATION_SCHEDULED))
    finished, ended = kube.condition(body, conditions.FINISHED), None
    if finished is not None and finished.get("reason") != messages.ANALYSIS_FAILED.reason:  # its figures follow
        at = observe.seconds((body.get("status") or {}).get("completionTime"))
        ended = at or observe.seconds(finished.get("lastTransitionTime")) or created
    return runs.Run(
        name=metadata["name"],
        uid=metadata["uid"],
        scheduled_at=int(created if scheduled is None else scheduled),
        created_at=created,
        finished_at=ended,
        succeeded=kube.condition(body, conditions.SUCCEEDED) is not None,
        deleting="deletionTimestamp" in metadata,
        archived=archived,
    )
