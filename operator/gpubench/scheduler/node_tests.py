# SPDX-License-Identifier: Apache-2.0
"""The short tests of nodes before each trial. Their history over all benchmarks is kept small in the GpuPool's status.

Putting a test there again changes nothing, so whoever is not sure does it. What an attempt is held against is written
into its own record when it ends. Nodes that were tested together have an entry together, under `together`.
Must not happen: a node, or a gang with it, that is held against its own weakness only, where other nodes are known.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpubench import records as wire
from gpubench.api import pool_health
from gpubench.api.pool_health import NodeTests, PoolTests, Test
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.scheduler import conditions, observed
from gpubench.scheduler.ledger import AttemptRecord, Usual
from gpubench.units import sampled
from gpubench.values import content_id, grouped

HISTORY_MIN = 5  # other tests on the pool: a median and a spread of fewer say nothing
NODES_MIN = 3  # that they were made on: each has one vote, so that no single one says what is usual
_TESTS: tuple[Test, ...] = ("arithmetic", "memory", "allreduce")
_JOIN = "+"  # no node's name has one, nor the mark of a shortened one
_SHORT = "#"
_SHORT_CHARACTERS = 6


class Kind(NamedTuple):
    """What two tests must have in common to be held against each other, on one pool."""

    test: Test
    environment: str  # other drivers and libraries compute at another speed
    instance_type: str | None
    workers_per_node: int  # all ranks of a node are tested at once, and share its memory
    workers: int | None  # of an all-reduce, which depends on them too


class Reading(NamedTuple):
    """One figure of the test before one attempt, and what it may be held against."""

    pool: str
    kind: Kind
    trial: str
    ended_at: float
    figure: float
    nodes: tuple[str, ...]  # on one of which it was measured


class Spread(NamedTuple):
    """What the readings of one kind on a pool are like, where each node has one vote."""

    median: float  # of the nodes' own medians
    deviation: float  # median of the nodes' own median absolute deviations from it
    tests: int
    nodes: int  # that they were made on


def readings(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Reading, ...]:
    """The readings of all attempts that have some, oldest first."""
    points = plan.point_by_trial
    found = [
        reading for record in records if record.trial in points for reading in of_attempt(record, points[record.trial])
    ]
    return tuple(sorted(found, key=lambda reading: (reading.ended_at, reading.trial, reading.kind.test)))


def for_pools(study: observed.Study, plan: Plan, records: Iterable[AttemptRecord]) -> Mapping[str, Sequence[Reading]]:
    """The readings that say something of their pools to others, by pool."""
    ours = (one for one in records if one.trial in plan.point_by_trial)
    trusted = (one for one in ours if _is_trusted(study, plan, one, plan.point_by_trial[one.trial].key))
    return grouped(readings(plan, trusted), lambda reading: reading.pool)


def _is_trusted(study: observed.Study, plan: Plan, record: AttemptRecord, key: PointKey) -> bool:
    """Whether the test was that of the pool's or the installation's own image, and nothing of the author's ran in it.

    Variables, volumes and annotations can bring code, too. A pod's words can be forged by whoever may run commands in
    it: hence one vote a node.
    """
    own, image = study.spec.template, plan.pool(key.pool).spec.template.image
    is_own = key.custom is not None or own.image not in (None, image) or (key.variant is not None and key.variant.env)
    is_other = not (record.image_id or "").endswith((image or "").partition("@sha256:")[2])
    return not (is_own or is_other or own.env or own.volumes or own.annotations)


def of_attempt(record: AttemptRecord, point: Point) -> tuple[Reading, ...]:
    """The readings of one attempt; none without a result or a test, or where others used the node's processors."""
    result, key = record.result, point.key
    if result is None or result.machine is None or any(isinstance(one, wire.BusyMachine) for one in result.notices):
        return ()
    machine = result.machine
    instance_type = conditions.clamped("+".join(record.instance_types), pool_health.FACT_MAX) or None
    weakest = record.nodes  # where a pod of the gang was gone when the end was seen, nobody knows which node was whose
    if machine.weakest_rank is not None and len(record.nodes) == point.nodes:
        index = machine.weakest_rank // key.workers_per_node
        weakest = record.nodes[index : index + 1] or record.nodes
    return tuple(
        Reading(
            pool=key.pool,
            kind=Kind(
                test=test,
                environment=wire.environment_shown(result.environment) or "",
                instance_type=instance_type,
                workers_per_node=key.workers_per_node,
                workers=key.workers if test == "allreduce" else None,
            ),
            trial=record.trial,
            ended_at=record.ended_at or record.created_at,
            figure=figure,
            nodes=weakest if test == "arithmetic" else record.nodes,  # of the others the slowest rank is not told
        )
        for test in _TESTS
        if (figure := getattr(machine, test)) is not None and figure > 0
    )


def spread(figures: Iterable[tuple[Sequence[str], float]], *, least: int = HISTORY_MIN) -> Spread | None:
    """The spread of figures, each with the nodes of its test; None of too few tests or nodes that are known."""
    of_node: dict[str, list[float]] = {}
    tests = 0
    for nodes, figure in figures:
        tests += bool(nodes)
        for node in nodes:
            of_node.setdefault(node, []).append(figure)
    if tests < least or len(of_node) < NODES_MIN:
        return None
    median = statistics.median(map(statistics.median, of_node.values()))
    away = (statistics.median(abs(figure - median) for figure in one) for one in of_node.values())
    return Spread(median, statistics.median(away), tests, len(of_node))


#: By node, or nodes tested together: when each test ended, and what it found.
_OfNodes = dict[str | None, set[tuple[int, float]]]


def merged(history: Sequence[PoolTests], readings: Iterable[Reading]) -> tuple[PoolTests, ...]:
    """The history of a pool with these readings in it: the newest of each bound, the same in whatever order they come.

    One that is there already, or is older than what has been dropped for lack of room, changes nothing.
    """
    kinds: dict[Kind, _OfNodes] = {_kind(known): nodes for known in history if (nodes := _of_nodes(known))}
    for reading in readings:
        test = (int(reading.ended_at), sampled(reading.figure))
        kinds.setdefault(reading.kind, {}).setdefault(together(reading.nodes), set()).add(test)
    newest_of = {kind: max(moment for tests in nodes.values() for moment, _ in tests) for kind, nodes in kinds.items()}
    newest = sorted(kinds, key=lambda kind: (newest_of[kind], repr(kind)), reverse=True)
    return tuple(_bounded(kind, kinds[kind]) for kind in sorted(newest[: pool_health.KINDS_MAX], key=repr))


def with_usual(record: AttemptRecord, point: Point, histories: Mapping[str, Sequence[PoolTests]]) -> AttemptRecord:
    """The record of an attempt that has ended, with what its pool's tests are like at this moment."""
    kinds = {_kind(known): known for known in histories.get(point.key.pool, ())}
    every = (usual(reading, kinds.get(reading.kind)) for reading in of_attempt(record, point))
    return record.model_copy(update={"usual": found}) if (found := tuple(filter(None, every))) else record


def usual(reading: Reading, known: PoolTests | None) -> Usual | None:
    """What is usual for such a reading, by other nodes, else by its own too; None of too few tests or nodes."""
    nodes, own = {} if known is None else _of_nodes(known), set(map(_short, reading.nodes))
    for asked in ({entry: tests for entry, tests in nodes.items() if not own & _nodes_in(entry)}, nodes):
        tests = [(moment, sorted(_nodes_in(entry)), figure) for entry, of in asked.items() for moment, figure in of]
        if (found := spread((names, figure) for _, names, figure in tests)) is not None:
            return Usual(test=reading.kind.test, oldest_at=min(tests)[0], **found._asdict())
    return None


def together(nodes: Sequence[str]) -> str | None:
    """The entry of nodes that were tested together; None where none is known, or their short names are too long."""
    for names in (nodes, map(_short, nodes)):
        if (joined := _JOIN.join(sorted(set(names)))) and len(joined) <= pool_health.NODE_MAX:
            return joined
    return None


def _short(node: str) -> str:
    return node if node.startswith(_SHORT) else f"{_SHORT}{content_id(node, characters=_SHORT_CHARACTERS)}"


def _nodes_in(entry: str | None) -> set[str]:
    return set() if entry is None else set(map(_short, entry.split(_JOIN)))


def _kind(known: PoolTests) -> Kind:
    return Kind(*(getattr(known, field) for field in Kind._fields))


def _of_nodes(known: PoolTests) -> _OfNodes:
    # Somebody may have edited a status: of two lists of different lengths the rest has no partner.
    return {one.node: set(zip(one.at, one.figures, strict=False)) for one in known.nodes if one.at and one.figures}


def _bounded(kind: Kind, nodes: _OfNodes) -> PoolTests:
    newest = sorted(nodes, key=lambda node: (max(nodes[node]), node or ""), reverse=True)
    kept = {node: sorted(nodes[node])[-pool_health.TESTS_MAX :] for node in newest[: pool_health.NODES_MAX]}
    of_nodes = (
        NodeTests(node=node, at=tuple(at for at, _ in kept[node]), figures=tuple(figure for _, figure in kept[node]))
        for node in sorted(kept, key=lambda node: node or "")
    )
    medians = (statistics.median(figure for _, figure in tests) for tests in kept.values())
    return PoolTests(**kind._asdict(), usual=sampled(statistics.median(medians)), nodes=tuple(of_nodes))
