# SPDX-License-Identifier: Apache-2.0
"""What a study must not forget: its frozen plan and its attempt ledger, in ConfigMaps that it owns.

The plan is created once and is immutable. An entry of the ledger is added, or completed; one that has ended is never
written over. Each write is guarded by the shard's resourceVersion, so that two operators cannot undo each other. Shards
are read again only when their resourceVersion has changed: a large study would otherwise move megabytes at each look.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpubench import names
from gpubench.analysis import analyze
from gpubench.api.benchmark_status import Analysis
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import ledger, manifests, observed, step
from gpubench.scheduler.ledger import AttemptRecord
from gpubench_cluster import kube


class Shard(NamedTuple):
    """One ConfigMap of the ledger as it was read: a value; a write gives a new one."""

    number: int
    version: str
    entries: Mapping[str, str]
    read: Mapping[str, AttemptRecord | Environment | None]  # the same, parsed

    @property
    def bytes(self) -> int:
        """Bytes of its data."""
        return sum(len(key.encode()) + len(text.encode()) for key, text in self.entries.items())


class Shelf(NamedTuple):
    """What is stored of one study."""

    plan: Plan | None
    shards: tuple[Shard, ...] = ()
    recorded: ledger.Ledger = ledger.Ledger()

    @property
    def entries(self) -> dict[str, str]:
        """Of all shards."""
        return {key: text for shard in self.shards for key, text in shard.entries.items()}


EMPTY = Shelf(plan=None)

_PLAN_IS_GONE = "the plan of a study that has begun is gone: delete the study and apply it again"


class Store:
    """Reads and writes the ConfigMaps of studies, and remembers what it has read."""

    def __init__(self, api: kube.Kube) -> None:
        self._api = api
        self._shelves: dict[str, Shelf] = {}  # by the study's UID

    def forget(self, uid: str) -> None:
        """The study is gone or over."""
        self._shelves.pop(uid, None)

    def remembered(self) -> dict[str, Plan]:
        """The plans of studies under way, by UID."""
        return {uid: shelf.plan for uid, shelf in self._shelves.items() if shelf.plan is not None}

    async def read(self, study: observed.Study) -> Shelf:
        """What is stored now."""
        listed = await self._api.list(
            kube.CONFIG_MAPS,
            namespace=study.namespace,
            labels={names.LABEL_BENCHMARK_UID: study.uid},
            metadata_only=True,
        )
        ours = {kube.name_of(body): kube.version_of(body) for body in listed if kube.is_owned_by(body, study.uid)}
        before = self._shelves.get(study.uid, EMPTY)
        plan = before.plan
        numbers = [number for number in range(len(ours)) if _shard_name(study, number) in ours]
        if names.plan_name(study.name, study.uid) not in ours:
            if numbers:  # a new plan would not be the one that the entries speak of
                raise kube.PermanentError(_PLAN_IS_GONE)
            return self._keep(study, EMPTY)
        if plan is None:
            plan = await self._read_plan(study)
        known = {shard.number: shard for shard in before.shards}
        shards: list[Shard] = []
        for number in numbers:
            shard = known.get(number)
            if shard is None or shard.version != ours[_shard_name(study, number)]:
                shard = await self._read_shard(study, number, shard)
            shards.append(shard)
        if tuple(shards) == before.shards:
            return self._keep(study, Shelf(plan=plan, shards=before.shards, recorded=before.recorded))
        return self._keep(study, _shelf(plan, shards))

    async def freeze(self, study: observed.Study, plan: Plan) -> Shelf:
        """Store the plan, unless one is stored already: the plan that is there is the plan."""
        created = await self._api.create(kube.CONFIG_MAPS, manifests.plan_config_map(study, plan))
        if created is not None:
            return self._keep(study, Shelf(plan=plan))
        stored = await self._read_plan(study)
        shelf = await self.read(study)  # whoever stored it may have begun
        return shelf if shelf.plan is not None else self._keep(study, Shelf(plan=stored))

    def entries(self, uid: str) -> dict[str, str]:
        """The texts of attempts and environments, as they were read or written last."""
        return self._shelves[uid].entries

    async def put_analysis(self, study: observed.Study, parts: Iterable[str]) -> None:
        """Write an analysis; nobody reads it as one before the status refers to it."""
        for number, text in enumerate(parts):
            body = manifests.analysis_config_map(study, number, text)
            name, change = kube.name_of(body), {"data": body["data"]}
            if await self._api.patch(kube.CONFIG_MAPS, change, name=name, namespace=study.namespace) is None:
                await self._api.create(kube.CONFIG_MAPS, body)

    async def analysis(self, study: observed.Study) -> tuple[str, ...]:
        """The parts of the analysis that the status refers to, as they are stored: perhaps by somebody else."""
        found = () if study.status.analysis is None else study.status.analysis.config_maps
        bodies = [await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace) for name in found]
        return tuple(map(manifests.read_analysis_part, bodies))

    async def read_analysis(self, study: observed.Study) -> Analysis:
        """The analysis of a benchmark; ValidationError where it cannot be read. Without a stored one, an empty one.

        One that somebody has changed is as good as none: it is made anew from plan and ledger.
        """
        reference = study.status.analysis
        if reference is None:
            return Analysis()
        found = analyze.read(await self.analysis(study), reference)
        if found is not None:
            return found
        shelf = await self.read(study)
        self.forget(study.uid)
        return Analysis() if shelf.plan is None else _analysis_again(shelf.plan, shelf.recorded, study)

    async def append(self, study: observed.Study, records: Iterable[ledger.AttemptRecord]) -> None:
        """Write the entries of attempts."""
        known = self._shelves[study.uid].recorded.by_key()
        news = [record for record in records if _is_news(known, record)]
        await self._add(study, ledger.to_entries(news))

    async def keep_environments(self, study: observed.Study, environments: Iterable[Environment]) -> None:
        """Write the environments that are not there yet."""
        recorded = self._shelves[study.uid].recorded
        known = recorded.environment_by_key()
        after = recorded.with_environments(environments).environment_by_key()
        news = [environment for key, environment in after.items() if key not in known]
        await self._add(study, ledger.environment_entries(news))

    async def _add(self, study: observed.Study, news: Mapping[str, str]) -> None:
        """Write entries: each to the shard that has it, or else to the last one while that has room."""
        if not news:
            return
        shelf = self._shelves[study.uid]
        shards = list(shelf.shards)
        for number, entries in _placed(shards, news).items():
            shard = await self._write(study, shards, number, entries)
            shards = [other for other in shards if other.number != number] + [shard]
            self._keep(study, _shelf(shelf.plan, shards))  # after each write: a later failure must not lose it

    async def _write(
        self, study: observed.Study, shards: list[Shard], number: int, entries: Mapping[str, str]
    ) -> Shard:
        before = next((shard for shard in shards if shard.number == number), None)
        if before is None:
            written = await self._api.create(kube.CONFIG_MAPS, manifests.ledger_config_map(study, number, entries))
        else:
            change = {"metadata": {"resourceVersion": before.version}, "data": dict(entries)}
            name = _shard_name(study, number)
            written = await self._api.patch(kube.CONFIG_MAPS, change, name=name, namespace=study.namespace)
        if written is None:
            raise kube.TemporaryError(
                f"ledger shard {number} of {study.namespace}/{study.name} changed meanwhile", delay=0.2
            )
        return _read(number, written, before)

    async def _read_plan(self, study: observed.Study) -> Plan:
        name = names.plan_name(study.name, study.uid)
        body = await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace)
        if body is None:
            raise kube.TemporaryError(f"ConfigMap {study.namespace}/{name} went away while it was read", delay=1.0)
        if not kube.is_owned_by(body, study.uid):
            raise kube.PermanentError(f"ConfigMap {study.namespace}/{name} belongs to somebody else: remove it")
        return manifests.read_plan(body)

    async def _read_shard(self, study: observed.Study, number: int, before: Shard | None) -> Shard:
        name = _shard_name(study, number)
        body = await self._api.get(kube.CONFIG_MAPS, name=name, namespace=study.namespace)
        if body is None:
            raise kube.TemporaryError(f"ConfigMap {study.namespace}/{name} went away while it was read", delay=1.0)
        return _read(number, body, before)

    def _keep(self, study: observed.Study, shelf: Shelf) -> Shelf:
        self._shelves[study.uid] = shelf
        return shelf


def _analysis_again(plan: Plan, recorded: ledger.Ledger, study: observed.Study) -> Analysis:
    made = step.of_ledger(plan, recorded, study)
    return analyze.analyze(plan, made.ledger, made.points, study.spec)


def _shelf(plan: Plan | None, shards: Iterable[Shard]) -> Shelf:
    ordered = tuple(sorted(shards, key=lambda shard: shard.number))
    return Shelf(plan, ordered, ledger.of_read(one for shard in ordered for one in shard.read.values()))


def _read(number: int, body: kube.Object, before: Shard | None) -> Shard:
    """Only entries that are new or were completed are parsed: of 2,560 attempts that takes a quarter of a second."""
    entries, read = body.get("data") or {}, {}
    for key, text in entries.items():
        known = before is not None and before.entries.get(key) == text
        read[key] = before.read[key] if before is not None and known else ledger.read_entry(key, text)
    return Shard(number, kube.version_of(body), entries, read)


def _shard_name(study: observed.Study, number: int) -> str:
    return names.ledger_name(study.name, study.uid, shard=number)


def _is_news(known: Mapping[str, ledger.AttemptRecord], record: ledger.AttemptRecord) -> bool:
    """Whether writing it would change something: a new entry, or the end of one that was open."""
    before = known.get(record.key)
    return before is None or (before.outcome is None and before != record)


def _placed(shards: Iterable[Shard], entries: Mapping[str, str]) -> dict[int, dict[str, str]]:
    """Which entry goes into which shard.

    A shard may grow over its bound by completing what it has; room for that is why the bound lies far below etcd's.
    """
    home = {key: shard.number for shard in shards for key in shard.entries}
    sizes = {shard.number: shard.bytes for shard in shards} or {0: 0}
    placed: dict[int, dict[str, str]] = {}
    for key, text in entries.items():
        size = len(key.encode()) + len(text.encode())
        number = home.get(key, max(sizes))
        if key not in home and sizes[number] and sizes[number] + size > ledger.SHARD_BYTES_MAX:
            number = max(sizes) + 1
            sizes[number] = 0
        sizes[number] += size
        placed.setdefault(number, {})[key] = text
    return placed
