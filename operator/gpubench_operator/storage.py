# SPDX-License-Identifier: Apache-2.0
"""What is kept of a benchmark: plan, attempt ledger and analysis, in ConfigMaps that it owns; and its status.

The plan is created once and is immutable. An entry of the ledger is added, or completed; one that has ended is never
written over. Each write is guarded by the shard's resourceVersion, so that two operators cannot undo each other.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from gpubench import names
from gpubench.analysis import analyze
from gpubench.api.benchmark_status import Analysis
from gpubench.api.condition import Condition
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.sanitize import one_line
from gpubench.scheduler import actions, conditions, ledger, manifests, observed, step
from gpubench.scheduler.ledger import AttemptRecord, NewNodes
from gpubench_cluster import kube

_PLAN_IS_GONE = "the plan of a benchmark that has begun is gone: delete the benchmark and apply it again"
_FOREIGN = "make the benchmark its owner again, or remove it where it is not the benchmark's"
_Record = AttemptRecord | NewNodes
_PARSED_AT_ONCE = 32  # entries of the ledger, a few milliseconds of the event loop's time


class Damaged(kube.PermanentError):
    """What is stored of a benchmark cannot be read: it has to be said, and nothing may be guessed."""


class Shard(NamedTuple):
    """One ConfigMap of the ledger as it was read: a value; a write gives a new one."""

    number: int
    version: str
    entries: Mapping[str, str]
    read: Mapping[str, AttemptRecord | Environment | NewNodes | str | None]  # parsed, or why that is impossible


class Snapshot(NamedTuple):
    """What is stored of one benchmark."""

    plan: Plan | None = None
    shards: tuple[Shard, ...] = ()
    recorded: ledger.Ledger = ledger.Ledger()

    @property
    def damage(self) -> str | None:
        """The first entry that cannot be read, and what to do; `recorded` is without it."""
        every = (one for shard in self.shards for one in shard.read.values())
        return next((one for one in every if isinstance(one, str)), None)


class Store:
    """Reads and writes the ConfigMaps of benchmarks, and remembers what it has read.

    Shards are read again only when their resourceVersion has changed: a large benchmark would otherwise move megabytes
    at each reconcile.
    """

    def __init__(self, api: kube.Kube) -> None:
        self._api = api
        self._snapshots: dict[str, Snapshot] = {}  # by the benchmark's UID
        self._listed: dict[str, dict[str, str]] = {}  # versions of its ConfigMaps, by their names
        self._analyses: dict[str, tuple[str, dict[str, str]]] = {}  # SHA-256, and versions by name, as written last
        self._parsing = asyncio.Lock()

    def forget(self, uid: str) -> None:
        for known in (self._snapshots, self._listed, self._analyses):
            known.pop(uid, None)

    def plans(self) -> dict[str, Plan]:
        return {uid: found.plan for uid, found in self._snapshots.items() if found.plan is not None}

    def entries(self, uid: str) -> dict[str, str]:
        """The texts of attempts and environments, as they were read or written last."""
        return {key: text for shard in self._snapshots[uid].shards for key, text in shard.entries.items()}

    async def read(self, study: observed.Study) -> Snapshot:
        """All that is stored; Damaged where a part of it cannot be read."""
        found = await self.read_readable(study)
        if found.damage is not None:
            raise Damaged(found.damage)
        return found

    async def read_readable(self, study: observed.Study) -> Snapshot:
        """What is stored, without entries of the ledger that cannot be read; Damaged where the plan cannot be."""
        labels = {names.LABEL_BENCHMARK_UID: study.uid}
        listed = await self._api.list(kube.CONFIG_MAPS, namespace=study.namespace, labels=labels, metadata_only=True)
        ours = {kube.name_of(body): kube.version_of(body) for body in listed if kube.is_owned_by(body, study.uid)}
        self._listed[study.uid] = ours
        before = self._snapshots.get(study.uid, Snapshot())
        numbers = [number for number in range(len(ours)) if _shard_name(study, number) in ours]
        if names.plan_name(study.name, study.uid) not in ours:
            if numbers:  # a new plan would not be the one that the entries speak of
                raise Damaged(_PLAN_IS_GONE)
            return self._keep(study, Snapshot())
        plan = before.plan or await self._read_plan(study)
        known = {shard.number: shard for shard in before.shards}
        shards: list[Shard] = []
        for number in numbers:
            if (shard := known.get(number)) is None or shard.version != ours[_shard_name(study, number)]:
                body = await self._get(study, _shard_name(study, number))
                shard = await self._parsed(number, body, shard)
            shards.append(shard)
        if tuple(shards) == before.shards:
            return self._keep(study, before._replace(plan=plan))
        return self._keep_shards(study, plan, shards)

    async def freeze(self, study: observed.Study, plan: Plan) -> Snapshot:
        """Store the plan; TemporaryError where one is stored already, which is the plan."""
        if await self._api.create(kube.CONFIG_MAPS, manifests.plan_config_map(study, plan)) is None:
            await self._read_plan(study)
            raise kube.TemporaryError(f"{study.namespace}/{study.name} has been planned meanwhile", delay=0.0)
        return self._keep(study, Snapshot(plan=plan))

    async def append(
        self, study: observed.Study, records: Iterable[_Record] = (), environments: Iterable[Environment] = ()
    ) -> None:
        """Write new attempts, ends of open ones, environments, nodes: each into its shard, or the last with room."""
        found = self._snapshots[study.uid]
        kept = found.recorded.environment_by_key
        known: dict[str, _Record] = {**found.recorded.by_key, NewNodes.key: found.recorded.new_nodes}
        after = found.recorded.with_environments(environments).environment_by_key
        attempts = [
            record
            for record in records
            if (before := known.get(record.key)) is None or not (before.is_closed or before == record)
        ]
        described = [environment for key, environment in after.items() if key not in kept]
        news = {**ledger.to_entries(attempts), **ledger.environment_entries(described)}
        pods = max((point.nodes for point in found.plan.points), default=1) if found.plan is not None else 1
        shards = {shard.number: shard for shard in found.shards}
        for number, entries in _placed(found.shards, news, pods=pods).items():
            if (shard := shards.get(number)) is None:
                written = await self._api.create(kube.CONFIG_MAPS, manifests.ledger_config_map(study, number, entries))
            else:
                change = {"metadata": {"resourceVersion": shard.version}, "data": entries}
                name = _shard_name(study, number)
                try:
                    written = await self._api.patch(kube.CONFIG_MAPS, change, name=name, namespace=study.namespace)
                except kube.PermanentError as error:
                    anew = f"kubectl get configmap {name} -o json | jq 'del(.immutable)' | kubectl replace --force -f -"
                    remedy = f": make it anew ({anew})" if "immutable" in str(error) else ""
                    raise kube.PermanentError(f"{error}{remedy}", code=error.code) from error
            if written is None:
                await self._refuse_foreign(study, _shard_name(study, number))
                message = f"ledger shard {number} of {study.namespace}/{study.name} changed meanwhile"
                raise kube.TemporaryError(message, delay=0.2)
            shards[number] = await self._parsed(number, written, shard)
            self._keep_shards(study, found.plan, shards.values())  # at once: a later failure must not lose it

    async def check_room(self, study: observed.Study) -> None:
        """PermanentError where the first shard cannot be written, as a ConfigMap of its name is somebody else's."""
        if not self._snapshots[study.uid].shards:
            await self._refuse_foreign(study, _shard_name(study, 0))

    async def _refuse_foreign(self, study: observed.Study, name: str) -> None:
        body = await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace)
        if body is not None and not kube.is_owned_by(body, study.uid):
            raise kube.PermanentError(f"ConfigMap {study.namespace}/{name} belongs to somebody else: {_FOREIGN}")

    async def _parsed(self, number: int, body: kube.Object, before: Shard | None) -> Shard:
        """Only entries that are new or were completed are parsed: 2,560 attempts take a quarter of a second."""
        entries: dict[str, str] = body.get("data") or {}
        read: dict[str, AttemptRecord | Environment | NewNodes | str | None] = {}
        async with self._parsing:
            for count, (key, text) in enumerate(entries.items()):
                if before is not None and before.entries.get(key) == text:
                    read[key] = before.read[key]
                else:
                    try:
                        read[key] = ledger.read_entry(key, text)
                    except ValueError as error:
                        where = f"ConfigMap {kube.namespace_of(body)}/{kube.name_of(body)}, key {key}"
                        remedy = "put the entry back as it was, or delete the benchmark and apply it again"
                        read[key] = f"{where} cannot be read ({one_line(str(error))}): {remedy}"
                    if count % _PARSED_AT_ONCE == 0:
                        await asyncio.sleep(0)
        return Shard(number, kube.version_of(body), entries, read)

    # --- the analysis -------------------------------------------------------------------------------------------------

    def has_analysis(self, study: observed.Study, sha256: str) -> bool:
        """Whether this analysis was written, and has not been changed or deleted by anybody since."""
        written, versions = self._analyses.get(study.uid, ("", {}))
        return written == sha256 and versions.items() <= self._listed.get(study.uid, {}).items()

    async def put_analysis(self, study: observed.Study, sha256: str, parts: Iterable[str]) -> None:
        """Write an analysis; nobody reads it as one before the status refers to it."""
        versions = {}
        for number, text in enumerate(parts):
            body = manifests.analysis_config_map(study, number, text)
            name, change = kube.name_of(body), {"data": body["data"]}
            is_ours, written = name in self._listed.get(study.uid, {}), None
            if not is_ours and (written := await self._api.create(kube.CONFIG_MAPS, body)) is None:
                await self._refuse_foreign(study, name)
            written = (
                written
                or await self._api.patch(kube.CONFIG_MAPS, change, name=name, namespace=study.namespace)
                or await self._api.create(kube.CONFIG_MAPS, body)
            )
            if written is not None:
                versions[name] = kube.version_of(written)
        self._listed.setdefault(study.uid, {}).update(versions)
        self._analyses[study.uid] = sha256, versions

    async def analysis(self, study: observed.Study) -> tuple[str, ...]:
        """The parts of the analysis that the status refers to, as they are stored: perhaps by somebody else."""
        found = () if study.status.analysis is None else study.status.analysis.config_maps
        bodies = [await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace) for name in found]
        return tuple(map(manifests.read_analysis_part, bodies))

    async def read_analysis(self, study: observed.Study) -> Analysis:
        """The analysis: empty without a stored one, made anew where changed; ValidationError for an unreadable one."""
        if (reference := study.status.analysis) is None:
            return Analysis()
        if (found := analyze.read(await self.analysis(study), reference)) is not None:
            return found
        stored = await self.read(study)
        self.forget(study.uid)
        if stored.plan is None:
            return Analysis()
        made = step.of_ledger(stored.plan, stored.recorded, study)
        return analyze.analyze(stored.plan, made.ledger, made.points, study.spec)

    async def _read_plan(self, study: observed.Study) -> Plan:
        body = await self._get(study, names.plan_name(study.name, study.uid))
        name = f"{study.namespace}/{kube.name_of(body)}"
        if not kube.is_owned_by(body, study.uid):
            raise kube.PermanentError(f"ConfigMap {name} belongs to somebody else: {_FOREIGN}")
        try:
            return manifests.read_plan(body)
        except (ValueError, LookupError, TypeError) as error:
            why = f"ConfigMap {name}: the plan cannot be read ({one_line(str(error))})"
            raise Damaged(f"{why}: delete the benchmark and apply it again") from error

    async def _get(self, study: observed.Study, name: str) -> kube.Object:
        if (body := await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace)) is None:
            raise kube.TemporaryError(f"ConfigMap {study.namespace}/{name} went away while it was read", delay=1.0)
        return body

    def _keep(self, study: observed.Study, found: Snapshot) -> Snapshot:
        self._snapshots[study.uid] = found
        return found

    def _keep_shards(self, study: observed.Study, plan: Plan | None, shards: Iterable[Shard]) -> Snapshot:
        ordered = tuple(sorted(shards, key=lambda shard: shard.number))
        every = (one for shard in ordered for one in shard.read.values())
        recorded = ledger.of_read(one for one in every if not isinstance(one, str))
        return self._keep(study, Snapshot(plan, ordered, recorded))


def _shard_name(study: observed.Study, number: int) -> str:
    return names.ledger_name(study.name, study.uid, shard=number)


def _placed(shards: Sequence[Shard], entries: Mapping[str, str], *, pods: int) -> dict[int, dict[str, str]]:
    """Which entry goes into which shard; that of an attempt of `pods` at most has room for its end there."""
    grown = ledger.ENTRY_BYTES + pods * ledger.ENTRY_BYTES_PER_POD
    last = shards[-1] if shards else Shard(0, "", {}, {})  # no other takes new entries
    live = {key for key, one in last.read.items() if isinstance(one, _Record) and not one.is_closed}
    number = last.number
    size = sum(max(_bytes(key, text), grown if key in live else 0) for key, text in last.entries.items())
    placed: dict[int, dict[str, str]] = {}
    for key, text in entries.items():
        home = next((shard.number for shard in shards if key in shard.entries), None)
        if home is None:
            more = max(_bytes(key, text), grown)
            if size and size + more > ledger.SHARD_BYTES_MAX:
                number, size = number + 1, 0
            home, size = number, size + more
        placed.setdefault(home, {})[key] = text
    return placed


def _bytes(key: str, text: str) -> int:
    return len(key.encode()) + len(text.encode())


# --- statuses ---------------------------------------------------------------------------------------------------------


async def write_status(api: kube.Kube, resource: kube.Resource, body: kube.Object, status: dict[str, Any]) -> bool:
    """Bring the status of `body`, as read, to `status` in one guarded patch, if it differs; whether it did.

    TemporaryError where the object is gone: the next reconcile finds out.
    """
    if change := merge_patch(body.get("status") or {}, status):
        patch = {"metadata": {"resourceVersion": kube.version_of(body)}, "status": change}
        name, namespace = kube.name_of(body), kube.namespace_of(body)
        if await api.patch(resource, patch, name=name, namespace=namespace, subresource="status") is None:
            raise kube.TemporaryError(f"{name} went away before its status was written", delay=1.0)
    return bool(change)


async def write_stopped(
    api: kube.Kube,
    resource: kube.Resource,
    body: kube.Object,
    event: actions.Event,
    *,
    condition: str,
    status: Mapping[str, Any],
    now: float,
) -> None:
    """The status of an object that cannot go on: `status`, but for one condition that is false and says why."""
    generation, known = body["metadata"]["generation"], status.get("conditions") or ()
    wanted, before = {condition: (False, event.reason, event.message)}, known_conditions(status)
    (made,) = conditions.as_conditions(wanted, before=before, generation=generation, now=now)
    found = [*(one for one in known if one.get("type") != condition), made.to_wire()]
    await write_status(api, resource, body, {**status, "observedGeneration": generation, "conditions": found})


def known_conditions(status: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Those of a status; none where this version cannot read them."""
    try:
        return tuple(map(Condition.model_validate, status.get("conditions") or ()))
    except ValidationError:
        return ()


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The JSON merge patch (RFC 7386) from one object to another: null removes, lists are replaced as a whole."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch
