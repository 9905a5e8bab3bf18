# SPDX-License-Identifier: Apache-2.0
"""What is kept of the runs of a schedule, one entry each; what became slower in them, and which nodes are slow.

An entry outlives its benchmark; the oldest go. Entries have the form of the attempt ledger: text under a key of its own
(the name of the run), so that writing one twice changes nothing; where it is stored is not known here.

Regressions. Each point is a series of its own over the runs. The series is divided into levels (`stats.changepoint`),
and the last level is held against the fastest one before it: what was once reached for a while is what the machine can
do. It is a regression when it is slower by more than the tolerance. A slowdown that has gone again is none, and one
that went half way still is. With several points each has its part of the error, so that a schedule raises no more false
alarms than a single series would. Must not happen: a verdict across environments. Only runs of the newest run's own
environment, instance type and image are looked at; that these have changed is reported beside it.

Slow nodes. A node is slow when its speed is an outlier among those of the others (modified z-score beyond 3.5, Iglewicz
and Hoaglin 1993, `stats.outliers`) and a tenth below their median: the bounds by which a node is called weak
(`analysis.health`). Only nodes in one environment, with one instance type and image, are held against each other.
"""

import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import ValidationError

from gpubench import checksum, records, units
from gpubench.analysis import health
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.point_result import Basis, Estimate, PointResult, PointState
from gpubench.api.schedule import (
    KEY_CHANGES_MAX,
    NODES_NAMED_MAX,
    REGRESSION_SENTENCE_MAX,
    REGRESSIONS_MAX,
    SLOW_NODES_MAX,
    KeyChange,
    Regression,
    SlowNode,
)
from gpubench.plan.plan import Plan
from gpubench.report import pairs, tables
from gpubench.report.pairs import Side
from gpubench.report.text import bounded
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord, Segment
from gpubench.stats import changepoint, compare, intervals, outliers
from gpubench.stats.changepoint import Level
from gpubench.stats.compare import Quantity
from gpubench.units import rfc3339
from gpubench.values import Value, content_id

# --- history ------------------------------------------------------------


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


# --- verdict ------------------------------------------------------------


#: The newest runs that are looked at: what was a year ago is history, and each look must stay cheap.
RUNS_LOOKED_AT = 200


class Measured(NamedTuple):
    """A run's figure of one point."""

    run: Entry
    figure: Figure


def series(entries: Sequence[Entry]) -> dict[str, tuple[Measured, ...]]:
    """The runs of each point, oldest first; only those that settled."""
    found: dict[str, list[Measured]] = {}
    for entry in entries:
        for figure in entry.figures:
            if figure.settled:
                found.setdefault(figure.point, []).append(Measured(entry, figure))
    return {point: tuple(measured[-RUNS_LOOKED_AT:]) for point, measured in found.items()}


def regressions(
    entries: Sequence[Entry], *, tolerance: float, alpha: float = changepoint.ALPHA
) -> tuple[Regression, ...]:
    """The points that are slower now than they were, the worst first.

    Of points that the newest runs do not have any more nothing is said.
    """
    current = _current(entries)
    found = [
        regression
        for measured in current.values()
        if (regression := _regression(measured, tolerance=tolerance, alpha=alpha / len(current))) is not None
    ]
    return tuple(sorted(found, key=lambda one: one.speed.mean))


def shown(found: Sequence[Regression]) -> tuple[Regression, ...]:
    """Those that a status has room for."""
    return tuple(found[:REGRESSIONS_MAX])


def judged(entries: Sequence[Entry]) -> int:
    """Of how many points a regression could have been seen: they have enough runs of one environment."""
    return sum(len(_of_newest_ground(one)) >= changepoint.SERIES_MIN for one in _current(entries).values())


def key_changes(entries: Sequence[Entry]) -> tuple[KeyChange, ...]:
    """When what the figures stand on has changed, newest first: `driver 550 -> 560`."""
    found: dict[tuple[str, str], KeyChange] = {}
    for measured in series(entries).values():
        for before, after in itertools.pairwise(measured):
            sentence = _difference(before, after)
            if sentence is not None:
                change = KeyChange(since=rfc3339(after.run.scheduled_at), run=after.run.name, sentence=sentence)
                found.setdefault((change.run, sentence), change)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.run), reverse=True)[:KEY_CHANGES_MAX])


def _current(entries: Sequence[Entry]) -> dict[str, tuple[Measured, ...]]:
    """The points of the newest run that has figures: a template that was changed has left others behind."""
    newest = next((entry for entry in reversed(entries) if any(figure.settled for figure in entry.figures)), None)
    here = () if newest is None else {figure.point for figure in newest.figures}
    return {point: measured for point, measured in series(entries).items() if point in here}


def _of_newest_ground(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    ground = measured[-1].figure.ground
    return tuple(one for one in measured if one.figure.ground == ground)


def _regression(measured: Sequence[Measured], *, tolerance: float, alpha: float) -> Regression | None:
    comparable = _of_newest_ground(measured)
    levels = changepoint.levels([one.figure.speed for one in comparable], alpha=alpha)
    if len(levels) < 2:
        return None
    reference = max(levels[:-1], key=lambda level: level.mean)
    bound = reference.mean * (1 - tolerance)
    if levels[-1].mean >= bound:
        return None
    first = _first_below(levels, bound)
    since, before = comparable[first.begin :], comparable[reference.begin : reference.end]
    return _described(comparable[-1].figure, since=since, before=before)


def _first_below(levels: Sequence[Level], bound: float) -> Level:
    """Where the levels fell below a bound for good."""
    first = levels[-1]
    for level in reversed(levels):
        if level.mean >= bound:
            break
        first = level
    return first


def _described(figure: Figure, *, since: Sequence[Measured], before: Sequence[Measured]) -> Regression:
    now, then = ([one.figure.speed for one in part] for part in (since, before))
    ratio = compare.speed_ratio(compare.of_values(now), compare.of_values(then))
    speed = Estimate(mean=ratio.mean, low=ratio.low, high=ratio.high)
    nodes = tuple(sorted({node for one in since for node in one.figure.nodes}))
    moment = rfc3339(since[0].run.scheduled_at)
    sentence = (
        f"{figure.text} has {bounded(speed)} times the speed of before since {moment} ({since[0].run.name}): "
        f"{len(since)} runs against {len(before)}{_where(nodes, before)}"
    )
    return Regression(
        point=figure.text,
        since=moment,
        run=since[0].run.name,
        speed=speed,
        runs_since=len(since),
        runs_before=len(before),
        nodes=nodes[:NODES_NAMED_MAX],
        environment=figure.environment,
        sentence=conditions.clamped(sentence, REGRESSION_SENTENCE_MAX),
    )


def _where(nodes: Sequence[str], before: Sequence[Measured]) -> str:
    """The nodes of the slow runs, and whether any of them has been fast."""
    if not nodes:
        return ""
    fast = {node for one in before for node in one.figure.nodes}
    named = units.listed(tuple(nodes[:NODES_NAMED_MAX])) + (" and others" if len(nodes) > NODES_NAMED_MAX else "")
    same = ", where it was faster before" if fast & set(nodes) else ", none of them among the nodes of before"
    return f", on {named}{same if fast else ''}"


def _difference(before: Measured, after: Measured) -> str | None:
    """What the environments of two runs differ in; None where they do not."""
    if before.figure.ground == after.figure.ground:
        return None
    told = []
    these, those = _facts(before), _facts(after)
    for field in EnvironmentFacts.model_fields:
        here, there = these.get(field), those.get(field)
        if field != "environment" and here != there:
            told.append(f"{records.environment_field_name(field)} {_or_none(here)} -> {_or_none(there)}")
    if not told:
        told = [f"environment {_or_none(before.figure.environment)} -> {_or_none(after.figure.environment)}"]
    return conditions.clamped(", ".join(told), REGRESSION_SENTENCE_MAX)


def _facts(one: Measured) -> Mapping[str, object]:
    facts = next((facts for facts in one.run.environments if facts.environment == one.figure.environment), None)
    told: dict[str, object] = {} if facts is None else dict(facts)
    return {**told, "instance_type": one.figure.instance_type, "image_digest": one.figure.image_digest}


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)


# --- fleet ------------------------------------------------------------


def slow_nodes(entries: Sequence[Entry]) -> tuple[SlowNode, ...]:
    """The slow nodes of the newest run with figures of single nodes, the slowest first; each once."""
    newest = next((entry for entry in reversed(entries) if any(one.node for one in entry.figures)), None)
    groups: dict[tuple[str | None, tuple[str, str, str]], list[Figure]] = {}
    for figure in () if newest is None else newest.figures:
        if figure.node is not None and figure.settled:
            groups.setdefault((figure.group, figure.ground), []).append(figure)
    found = sorted((one for group in groups.values() for one in _slow(group)), key=lambda one: one.speed)
    by_node: dict[str, SlowNode] = {}
    for one in found:
        by_node.setdefault(one.node, one)
    return tuple(by_node.values())[:SLOW_NODES_MAX]


def _slow(group: Sequence[Figure]) -> list[SlowNode]:
    if len(group) <= health.HISTORY_MIN:  # so many others: fewer have no usual speed
        return []
    speeds = [figure.speed for figure in group]
    median = statistics.median(speeds)
    return [
        SlowNode(
            node=figure.node or "",
            pool=figure.pool or "",
            speed=figure.speed / median,
            nodes=len(group),
            sentence=_sentence(figure, figure.speed / median, nodes=len(group)),
        )
        for figure, score in zip(group, outliers.scores(speeds), strict=True)
        if score < -health.SCORE_MAX and figure.speed <= (1 - health.BELOW_MEDIAN_MIN) * median
    ]


def _sentence(figure: Figure, ratio: float, *, nodes: int) -> str:
    slower = compare.percent(1 - ratio)
    sentence = (
        f"{figure.text}: {slower} slower than the median of the {nodes} nodes: look at its clocks, its temperature and "
        "what else runs there, or take it out of the pool"
    )
    return conditions.clamped(sentence, REGRESSION_SENTENCE_MAX)
