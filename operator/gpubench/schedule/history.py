# SPDX-License-Identifier: Apache-2.0
"""What is kept of the runs of a schedule: one entry for each, which outlives its benchmark. Bounded: the oldest go.

Entries have the form of the attempt ledger: text under a key of its own (the name of the run), so that writing one
twice changes nothing; in ConfigMaps owned by the schedule, or wherever else, since this module knows the text only.
"""

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import ValidationError

from gpubench import checksum
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.point_result import Basis, PointResult, PointState
from gpubench.plan.plan import Plan
from gpubench.report import pairs, tables
from gpubench.report.pairs import Side
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord, Segment
from gpubench.stats import intervals
from gpubench.stats.compare import Quantity
from gpubench.values import Value, content_id

#: Of a schedule's history: entries, ConfigMaps, and bytes of one of these (etcd refuses objects over 1.5 MiB).
RUNS_MAX = 1000
SHARDS_MAX = 4
SHARD_BYTES_MAX = 512 * 1024

NODES_MAX = 16  # of a point that are named; a gang on more is not told apart by them
_POINT_CHARACTERS = 12
_POINT_TEXT_MAX = 160


class Figure(Value):
    """What a run measured of a point."""

    point: str  # what makes the point, pool and all, as a hash: equal from run to run
    text: str  # the same for people
    pool: str | None = None
    node: str | None = None  # with placement EachNode: the point's own
    group: str | None = None  # then: what makes the point but for the node
    quantity: Quantity
    mean: float
    low: float | None = None  # 95 % interval over the run's repeats
    high: float | None = None
    repeats: int
    environment: str | None = None  # the comparability key
    instance_type: str | None = None
    image_digest: str | None = None
    nodes: tuple[str, ...] = ()  # none where they were too many to be named
    settled: bool = True

    @property
    def speed(self) -> float:
        """Above is better."""
        return self.mean if self.quantity is Quantity.THROUGHPUT else 1 / self.mean

    @property
    def ground(self) -> tuple[str, str, str]:
        """What must be the same before two of them are held against each other."""
        return (self.environment or "", self.instance_type or "", self.image_digest or "")


class Held(Value):
    """For how long a run held nodes of a pool: each from the first pod on it to the end of the last one."""

    pool: str
    nodes: int  # that it was on, at the same time or one after the other
    seconds: float  # of a node, on average


class Entry(checksum.Stored):
    """A run that has finished. Times are seconds since the epoch."""

    name: str
    uid: str
    scheduled_at: int
    created_at: float
    finished_at: float
    succeeded: bool
    sentence: str  # how it ended, of its condition Finished
    figures: tuple[Figure, ...] = ()
    environments: tuple[EnvironmentFacts, ...] = ()
    held: tuple[Held, ...] = ()
    spent: str | None = None  # what it was billed, an estimate
    currency: str | None = None
    baseline: Literal["Pass", "Fail", "CannotTell"] | None = None  # with compareTo in the template
    baseline_sentence: str | None = None


def figures(side: Side, *, plan: Plan | None = None, records: Iterable[AttemptRecord] = ()) -> tuple[Figure, ...]:
    """The figures of a finished study; `plan` and `records`, where they are there, tell the nodes."""
    nodes = _nodes(plan, records)
    digests = {facts.environment: facts.image_digest for facts in side.environments}
    found = []
    for index, result in enumerate(side.results):
        quantity = pairs.quantity(result)
        if result.basis is not Basis.MEASURED or quantity is None:
            continue
        sample = pairs.sample(result, quantity, confidence=side.confidence)
        if sample.mean <= 0:
            continue
        values = result.values if quantity is Quantity.THROUGHPUT else ()
        interval = intervals.of_mean(values, side.confidence) if values else None
        named = nodes.get(index, ())
        found.append(
            Figure(
                point=content_id("\n".join(pairs.identity(side, result)), characters=_POINT_CHARACTERS),
                text=conditions.clamped(tables.describe(result), _POINT_TEXT_MAX),
                pool=result.pool,
                node=result.node,
                group=_group(side, result),
                quantity=quantity,
                mean=sample.mean,
                low=None if interval is None else interval.low,
                high=None if interval is None else interval.high,
                repeats=sample.count,
                environment=result.environment,
                instance_type=result.instance_type,
                image_digest=digests.get(result.environment or ""),
                nodes=named if len(named) <= NODES_MAX else (),
                settled=result.state is not PointState.UNSTABLE,
            )
        )
    return tuple(found)


def _group(side: Side, result: PointResult) -> str | None:
    if result.node is None:
        return None
    without = result.model_copy(update={"node": None})
    return content_id("\n".join(pairs.identity(side, without)), characters=_POINT_CHARACTERS)


def held(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Held, ...]:
    """For how long a study held its pools' nodes, as far as its pods were seen; also in runs that Kueue has ended.

    Gangs of a study may be on nodes of their own, at a time or one after the other: each node has a life. Where nobody
    knows the nodes' names, those of all gangs are taken to be the same.
    """
    pools = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}
    lives: dict[str, dict[str, tuple[float, float]]] = {}
    for record in records:
        if record.trial not in pools:
            continue
        of_pool = lives.setdefault(pools[record.trial], {})
        gangs: tuple[AttemptRecord | Segment, ...] = (*record.segments, record)
        for run in gangs:
            for node, begin, end in _seen_on(run, created_at=record.created_at):
                first, last = of_pool.get(node, (begin, end))
                of_pool[node] = (min(first, begin), max(last, end))
    return tuple(
        Held(pool=pool, nodes=len(nodes), seconds=sum(end - begin for begin, end in nodes.values()) / len(nodes))
        for pool, nodes in sorted(lives.items())
        if nodes
    )


def _seen_on(run: AttemptRecord | Segment, *, created_at: float) -> list[tuple[str, float, float]]:
    """The nodes of a gang, each from the first pod's placement to the last one's end: it has them as a whole."""
    if not run.pod_times:
        return []
    begin = created_at + min(scheduled for scheduled, _, _ in run.pod_times)
    end = created_at + max(ended for _, _, ended in run.pod_times)
    named = sorted(set(run.nodes)) or [f"#{number}" for number in range(len(run.pod_times))]
    return [(node, begin, end) for node in named]


def read(shards: Iterable[Mapping[str, str]]) -> tuple[Entry, ...]:
    """The entries in stored shards, oldest first. One that cannot be read is left out.

    A verdict needs no complete history, and a schedule must not stand still over an old line.
    """
    found: dict[str, Entry] = {}
    for shard in shards:
        for text in shard.values():
            try:
                entry = Entry.from_text(text)
            except (ValidationError, ValueError):
                continue
            found[entry.name] = entry
    return tuple(sorted(found.values(), key=lambda entry: (entry.scheduled_at, entry.name)))


class Change(Value):
    """What one shard of a history becomes: None drops an entry."""

    shard: int
    entries: dict[str, str | None]


def placed(shards: Mapping[int, Mapping[str, str]], entry: Entry) -> tuple[Change, ...]:
    """The writes that add an entry to shards as they are stored; none where it is there.

    It goes into the first shard with room. Where none has any, or the runs are too many, the oldest go.
    """
    text = entry.to_text()
    if any(entry.name in shard for shard in shards.values()):
        return ()
    left = {number: dict(shard) for number, shard in shards.items()}
    dropped: dict[int, dict[str, str | None]] = {}
    while (home := _home(left, entry.name, text)) is None or sum(map(len, left.values())) >= RUNS_MAX:
        number, name = min(
            ((number, name) for number, shard in left.items() for name in shard), key=lambda one: _age(one[1])
        )
        del left[number][name]
        dropped.setdefault(number, {})[name] = None
    dropped.setdefault(home, {})[entry.name] = text
    return tuple(Change(shard=number, entries=entries) for number, entries in sorted(dropped.items()))


def _home(shards: Mapping[int, Mapping[str, str]], name: str, text: str) -> int | None:
    for number in range(SHARDS_MAX):
        size = sum(len(key.encode()) + len(value.encode()) for key, value in shards.get(number, {}).items())
        if size == 0 or size + len(name.encode()) + len(text.encode()) <= SHARD_BYTES_MAX:
            return number
    return None


def _age(name: str) -> tuple[int, str]:
    """Runs in the order of their scheduled minutes, which stand at the end of their names."""
    minute = name.rpartition("-")[2]
    return (int(minute) if minute.isdigit() else 0, name)


def _nodes(plan: Plan | None, records: Iterable[AttemptRecord]) -> dict[int, tuple[str, ...]]:
    """The nodes on which each point of the plan was measured."""
    if plan is None:
        return {}
    points = {trial.id: trial.point for trial in plan.trials}
    found: dict[int, dict[str, None]] = {}
    for record in records:
        if record.result is not None and record.trial in points:
            found.setdefault(points[record.trial], {}).update(dict.fromkeys(record.nodes))
    return {point: tuple(sorted(names)) for point, names in found.items()}
