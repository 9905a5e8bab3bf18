# SPDX-License-Identifier: Apache-2.0
"""Reconciles one schedule: read what is there, decide, act; then again from scratch at the next reconcile.

The order of writes is what a crash at any moment is survived by: a finished run is in the history before its benchmark
may go, a benchmark exists before the status says so. A run's name is its scheduled minute, so that a creation which
finds it there has succeeded, whoever made it.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from gpubench import names, units
from gpubench.analysis import pairs
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus
from gpubench.schedule import history, runs
from gpubench.schedule.history import Entry
from gpubench.schedule.runs import Run
from gpubench.scheduler import actions, conditions
from gpubench_cluster import kube
from gpubench_operator import events, exporter, observe, queue, settings, storage

FAILED_CREATE = "FailedCreate"  # as CronJob's controller calls it
_STUCK = 60.0

_log = logging.getLogger(__name__)


class _Snapshot(NamedTuple):
    """The stored history of a schedule."""

    versions: tuple[tuple[str, str], ...] = ()  # names and resourceVersions of the ConfigMaps that it was read from
    shards: dict[int, dict[str, str]] = {}  # noqa: RUF012  # a value: a write makes a new one
    entries: tuple[Entry, ...] = ()


class _Seen(NamedTuple):
    """A schedule as it was read."""

    body: kube.Object
    schedule: runs.Schedule
    before: GpuBenchmarkScheduleStatus
    uid: str
    namespace: str


class ScheduleReconciler:
    """Carries out decisions for schedules. One instance serves all of them."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        collector: exporter.ScheduleCollector,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._collector = collector
        self._clock = clock
        self._store = storage.Store(api)
        self._recorder = events.EventRecorder(api, identity=options.identity)
        self._snapshots: dict[str, _Snapshot] = {}  # by the schedule's UID
        self._seen_objects = queue.SeenObjects()

    async def reconcile(self, key: queue.Key) -> float | None:
        """Reconcile once; the seconds until the next time is due without an event."""
        body = await self._api.get(kube.SCHEDULES, name=key.name, namespace=key.namespace)
        is_there = body is not None and "deletionTimestamp" not in body["metadata"]
        gone = self._seen_objects.replaced(key, kube.uid_of(body) if body is not None and is_there else None)
        if gone is not None:
            self._snapshots.pop(gone, None)
            self._recorder.forget(gone)
        if body is None or not is_there:
            self._collector.drop(key)
            return None
        self._collector.observe(key, body)
        await self._recorder.emit_pending(kube.uid_of(body))
        try:
            seen = _read(body)
        except ValidationError as error:
            message = observe.unreadable(error)
            _log.warning("unreadable schedule", extra={"key": str(key), "error": message})
            await self._emit(body, [events.warning(events.INVALID_SPEC, message)])
            return _STUCK
        return await self._act(key, seen)

    async def _act(self, key: queue.Key, seen: _Seen) -> float | None:
        snapshot = await self._read_history(seen)
        labels = {names.LABEL_SCHEDULE_UID: seen.uid}
        listed = await self._api.list(kube.BENCHMARKS, namespace=seen.namespace, labels=labels)
        found = {kube.uid_of(body): body for body in listed if kube.is_owned_by(body, seen.uid)}
        now = self._clock()
        decided = runs.decide(seen.schedule, _runs(found.values(), snapshot), now)
        news = list(decided.events)
        if decided.archive:
            snapshot = await self._archive(seen, [found[run.uid] for run in decided.archive], snapshot)
            decided = runs.decide(seen.schedule, _runs(found.values(), snapshot), now)
        for old in (*decided.remove, *decided.replace):
            if await self._api.delete(kube.BENCHMARKS, name=old.name, namespace=seen.namespace, uid=old.uid):
                news.append(events.normal(runs.DELETED, f"deleted {old.name}"))
        refused = None
        if decided.start is not None:
            run, event = await self._start(seen, decided.start)
            news += [] if event is None else [event]
            if run is None:
                refused = queue.AFTER_REFUSAL
            else:
                started = {"active": (*decided.active, run), "last_scheduled_at": decided.start}
                decided = decided.model_copy(update=started)
        await self._conclude(key, seen, decided, snapshot, news=news, now=now)
        wake = None if decided.wake_at is None else max(0.0, decided.wake_at - self._clock())
        # A clock that is put right while nothing happens is noticed by the resync at the latest.
        return queue.earliest(wake, refused, self._options.resync_seconds)

    async def _conclude(
        self,
        key: queue.Key,
        seen: _Seen,
        decided: runs.Decision,
        snapshot: _Snapshot,
        *,
        news: Sequence[actions.Event],
        now: float,
    ) -> None:
        """Events, then the status: afterwards nobody would know what has changed."""
        spec = seen.schedule.spec
        pools = await self._pools()
        planned_at = units.rfc3339(seen.schedule.created_at)
        after = runs.status(
            spec,
            decided,
            snapshot.entries,
            monthly=history.projected(spec, pools, snapshot.entries, planned_at=planned_at),
            missing_pools=history.pools_not_there(spec, pools),
            slow_nodes=history.slow_nodes(snapshot.entries),
            before=seen.before.conditions,
            generation=seen.body["metadata"].get("generation", 1),
            now=now,
        )
        changes = runs.status_events(
            seen.before.conditions, seen.before.key_changes, after, slow_before=seen.before.slow_nodes
        )
        problem = () if decided.problem is None else (decided.problem,)
        await self._emit(seen.body, [*news, *problem, *changes])
        wire = after.to_wire()
        await storage.write_status(self._api, kube.SCHEDULES, seen.body, wire)
        self._collector.observe(key, {**seen.body, "status": wire})

    # --- runs ---------------------------------------------------------------------------------------------------------

    async def _start(self, seen: _Seen, scheduled_at: int) -> tuple[Run | None, actions.Event | None]:
        """Create the benchmark of a run: the run, or None where it was refused, and what is new about that."""
        body = benchmark(seen.body, scheduled_at)
        name = kube.name_of(body)
        try:
            created = await self._api.create(kube.BENCHMARKS, body)
        except kube.PermanentError as error:
            _log.warning("run refused", extra={"namespace": seen.namespace, "run": name, "error": str(error)})
            return None, events.warning(FAILED_CREATE, f"the benchmark {name} cannot be created: {error}")
        if created is not None:
            _log.info("run created", extra={"namespace": seen.namespace, "schedule": seen.schedule.name, "run": name})
            return _run(created, archived=False), events.normal(runs.CREATED, f"created {name}")
        found = await self._api.get(kube.BENCHMARKS, name=name, namespace=seen.namespace)
        if found is None:
            raise kube.TemporaryError(f"benchmark {seen.namespace}/{name} went away just now", delay=0.2)
        if kube.is_owned_by(found, seen.uid):  # of a moment ago
            return _run(found, archived=False), None
        if "deletionTimestamp" in found["metadata"]:  # of a schedule of before that had this name
            raise kube.TemporaryError(f"benchmark {seen.namespace}/{name} is still being deleted", delay=2.0)
        message = f"the benchmark {name} belongs to somebody else: remove it, and the run starts"
        return None, events.warning(events.NAME_TAKEN, message)

    async def _pools(self) -> tuple[GpuPool, ...]:
        found = []
        for body in await self._api.list(kube.POOLS):
            try:
                found.append(observe.pool(body, default_image=self._options.jobs_image))
            except ValidationError:  # its own status says so
                continue
        return tuple(found)

    # --- history ------------------------------------------------------------------------------------------------------

    async def _read_history(self, seen: _Seen) -> _Snapshot:
        labels = {names.LABEL_SCHEDULE_UID: seen.uid, names.LABEL_COMPONENT: names.COMPONENT_HISTORY}
        listed = await self._api.list(kube.CONFIG_MAPS, namespace=seen.namespace, labels=labels, metadata_only=True)
        ours = [body for body in listed if kube.is_owned_by(body, seen.uid)]
        versions = tuple(sorted((kube.name_of(body), kube.version_of(body)) for body in ours))
        known = self._snapshots.get(seen.uid, _Snapshot())
        if versions == known.versions:
            return known
        shards: dict[int, dict[str, str]] = {}
        for name, _ in versions:
            body = await self._api.get(kube.CONFIG_MAPS, name=name, namespace=seen.namespace)
            if body is not None:
                shards[int(name.rpartition("-")[2])] = body.get("data") or {}
        return self._keep(seen, _Snapshot(versions, shards, history.read(shards.values())))

    async def _archive(self, seen: _Seen, finished: Sequence[kube.Object], snapshot: _Snapshot) -> _Snapshot:
        for body in sorted(finished, key=kube.name_of):
            entry = await self._entry(body)
            versions = dict(snapshot.versions)
            for change in history.placed(snapshot.shards, entry):
                written = await self._write(seen, change, versions)
                versions[kube.name_of(written)] = kube.version_of(written)
                shards = {**snapshot.shards, change.shard: written.get("data") or {}}
                # After each write: a later failure must not make anybody write over it.
                entries = history.read(shards.values())
                snapshot = self._keep(seen, _Snapshot(tuple(sorted(versions.items())), shards, entries))
        return snapshot

    async def _write(self, seen: _Seen, change: history.Change, versions: dict[str, str]) -> kube.Object:
        name = names.history_name(seen.schedule.name, seen.uid, shard=change.shard)
        if name in versions:
            patch = {"metadata": {"resourceVersion": versions[name]}, "data": dict(change.entries)}
            written = await self._api.patch(kube.CONFIG_MAPS, patch, name=name, namespace=seen.namespace)
        else:
            written = await self._api.create(kube.CONFIG_MAPS, _config_map(seen, name, change))
        if written is None:
            self._snapshots.pop(seen.uid, None)
            raise kube.TemporaryError(f"ConfigMap {seen.namespace}/{name} changed meanwhile", delay=0.2)
        return written

    async def _entry(self, body: kube.Object) -> Entry:
        """What is kept of a run. One that this version cannot read still counts as a run."""
        run, finished = _run(body, archived=False), kube.condition(body, conditions.FINISHED)
        assert run.finished_at is not None  # only such are archived
        assert finished is not None
        known = Entry(
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
            found = await self._store.read_analysis(study)
        except ValidationError as error:
            _log.warning("unreadable run", extra={"run": run.name, "error": observe.unreadable(error)})
            return known
        stored = await self._store.read(study)
        self._store.forget(study.uid)
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

    def _keep(self, seen: _Seen, snapshot: _Snapshot) -> _Snapshot:
        self._snapshots[seen.uid] = snapshot
        return snapshot

    async def _emit(self, body: kube.Object, news: Iterable[actions.Event]) -> None:
        subject = events.subject(body, kind=names.SCHEDULE_KIND)
        for event in news:
            await self._recorder.emit(subject, event, now=self._clock())


def benchmark(schedule: kube.Object, scheduled_at: int) -> kube.Object:
    """The GpuBenchmark of one run: the template as it stands in the object, with the schedule as its owner."""
    template = schedule["spec"]["benchmarkTemplate"]
    of_template = template.get("metadata") or {}
    scheduled = {names.ANNOTATION_SCHEDULED: units.rfc3339(scheduled_at)}
    metadata = _owned(schedule, names.run_name(kube.name_of(schedule), scheduled_at))
    metadata["labels"] = {**(of_template.get("labels") or {}), **metadata["labels"]}
    metadata["annotations"] = {**(of_template.get("annotations") or {}), **scheduled}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.BENCHMARK_KIND,
        "metadata": metadata,
        "spec": template["spec"],
    }


def _config_map(seen: _Seen, name: str, change: history.Change) -> kube.Object:
    metadata = _owned(seen.body, name)
    metadata["labels"][names.LABEL_COMPONENT] = names.COMPONENT_HISTORY
    data = {key: text for key, text in change.entries.items() if text is not None}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _owned(schedule: kube.Object, name: str) -> kube.Object:
    """The metadata of an object that goes with its schedule."""
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
    metadata = body["metadata"]
    spec = GpuBenchmarkScheduleSpec.model_validate(body.get("spec") or {})
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
    return _Seen(body, schedule, before, kube.uid_of(body), kube.namespace_of(body) or "")


def _runs(bodies: Iterable[kube.Object], snapshot: _Snapshot) -> tuple[Run, ...]:
    archived = {entry.name for entry in snapshot.entries}
    return tuple(_run(body, archived=kube.name_of(body) in archived) for body in bodies)


def _run(body: kube.Object, *, archived: bool) -> Run:
    metadata = body["metadata"]
    created = observe.seconds(metadata.get("creationTimestamp")) or 0.0
    scheduled = observe.seconds((metadata.get("annotations") or {}).get(names.ANNOTATION_SCHEDULED))
    finished = kube.condition(body, conditions.FINISHED)
    ended = None
    if finished is not None and finished.get("reason") != conditions.ANALYSIS_FAILED:  # its figures follow
        at = observe.seconds((body.get("status") or {}).get("completionTime"))
        ended = at or observe.seconds(finished.get("lastTransitionTime")) or created
    return Run(
        name=metadata["name"],
        uid=metadata["uid"],
        scheduled_at=int(created if scheduled is None else scheduled),
        created_at=created,
        finished_at=ended,
        succeeded=kube.condition(body, conditions.SUCCEEDED) is not None,
        deleting="deletionTimestamp" in metadata,
        archived=archived,
    )
