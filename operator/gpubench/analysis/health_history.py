# SPDX-License-Identifier: Apache-2.0
"""The history of a pool's tests, over all studies: kept small in the status of the GpuPool, and looked up from there.

A test is put there once its attempt is in a ledger, and putting it there again changes nothing: so whoever is not sure
puts it there again. What an attempt is held against is written into its own record when it ends, and never looked up
later.

Nodes that were tested together have an entry together, under `together`: they are not held against their own earlier
tests either.

Must not happen: a history that grows; a node, or a gang with it, that is held against its own weakness only, where
other nodes are known; a gang whose tests push those of others out.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence

from gpubench.analysis import estimates, health
from gpubench.analysis.health import Kind, Reading
from gpubench.api import pool_health
from gpubench.api.pool_health import NodeTests, PoolTests
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler.ledger import AttemptRecord, Usual
from gpubench.scheduler.observed import PoolHistory
from gpubench.values import content_id

_JOIN = "+"  # no node's name has one, nor the mark of a shortened one
_SHORT = "#"
_SHORT_CHARACTERS = 6

#: When a test ended, and what it found.
_Test = tuple[int, float]
_OfNodes = dict[str | None, set[_Test]]


def merged(history: Sequence[PoolTests], readings: Iterable[Reading]) -> tuple[PoolTests, ...]:
    """The history of a pool with these readings in it: the newest of each bound, the same in whatever order they come.

    One that is there already, or is older than what has been dropped for lack of room, changes nothing.
    """
    kinds: dict[Kind, _OfNodes] = {_kind(known): nodes for known in history if (nodes := _of_nodes(known))}
    for reading in readings:
        node = together(reading.nodes)
        test = (int(reading.ended_at), estimates.sampled(reading.figure))
        kinds.setdefault(reading.kind, {}).setdefault(node, set()).add(test)
    newest = sorted(kinds, key=lambda kind: (_newest(kinds[kind]), repr(kind)), reverse=True)
    return tuple(_bounded(kind, kinds[kind]) for kind in sorted(newest[: pool_health.KINDS_MAX], key=repr))


def with_usual(record: AttemptRecord, point: Point, histories: Iterable[PoolHistory]) -> AttemptRecord:
    """The record of an attempt that has ended, with what its pool's tests are like at this moment."""
    kinds = {_kind(known): known for one in histories if one.pool == point.key.pool for known in one.kinds}
    told = (usual(reading, kinds.get(reading.kind)) for reading in health.of_attempt(record, point))
    found = tuple(one for one in told if one is not None)
    return record.model_copy(update={"usual": found}) if found else record


def usual(reading: Reading, known: PoolTests | None) -> Usual | None:
    """What is usual for such a reading; None where too few others are known.

    Other nodes say that best; only where too few of their tests are known the node's own earlier ones count as well.
    """
    if known is None:
        return None
    nodes = _of_nodes(known)
    own = {_short(node) for node in reading.nodes}
    others = {entry: tests for entry, tests in nodes.items() if not own & _nodes_in(entry)}
    for asked in (others, nodes):
        tests = [test for of_node in asked.values() for test in of_node]
        if len(tests) >= health.HISTORY_MIN:
            found = health.of_figures(
                [figure for _, figure in tests], nodes=len(set[str]().union(*map(_nodes_in, asked))) or None
            )
            return Usual(
                test=reading.kind.test,
                median=found.median,
                deviation=found.deviation,
                tests=found.tests,
                nodes=found.nodes,
                oldest_at=min(moment for moment, _ in tests),
            )
    return None


def together(nodes: Sequence[str]) -> str | None:
    """The name of the entry of nodes that were tested together: each once, joined by +.

    None where no node is known, or they are too many even with their names shortened.
    """
    for names in (nodes, [_short(node) for node in nodes]):
        joined = _JOIN.join(sorted(set(names)))
        if joined and len(joined) <= pool_health.NODE_MAX:
            return joined
    return None


def _short(node: str) -> str:
    return node if node.startswith(_SHORT) else f"{_SHORT}{content_id(node, characters=_SHORT_CHARACTERS)}"


def _nodes_in(entry: str | None) -> set[str]:
    """The nodes of an entry, all of them shortened."""
    return set() if entry is None else {_short(node) for node in entry.split(_JOIN)}


def by_pool(plan: Plan, records: Iterable[AttemptRecord]) -> Mapping[str, Sequence[Reading]]:
    """The readings of these records, by pool."""
    found: dict[str, list[Reading]] = {}
    for reading in health.readings(plan, records):
        found.setdefault(reading.pool, []).append(reading)
    return found


def _kind(known: PoolTests) -> Kind:
    return Kind(
        test=known.test,
        environment=known.environment,
        instance_type=known.instance_type,
        workers_per_node=known.workers_per_node,
        workers=known.workers,
    )


def _of_nodes(known: PoolTests) -> _OfNodes:
    # Somebody may have edited a status: of two lists of different lengths the rest has no partner.
    return {one.node: set(zip(one.at, one.figures, strict=False)) for one in known.nodes if one.at and one.figures}


def _newest(nodes: _OfNodes) -> int:
    return max(moment for tests in nodes.values() for moment, _ in tests)


def _bounded(kind: Kind, nodes: _OfNodes) -> PoolTests:
    newest = sorted(nodes, key=lambda node: (max(nodes[node]), node or ""), reverse=True)
    kept = {node: sorted(nodes[node])[-pool_health.TESTS_MAX :] for node in newest[: pool_health.NODES_MAX]}
    return PoolTests(
        test=kind.test,
        environment=kind.environment,
        instance_type=kind.instance_type,
        workers_per_node=kind.workers_per_node,
        workers=kind.workers,
        usual=estimates.sampled(statistics.median(figure for tests in kept.values() for _, figure in tests)),
        nodes=tuple(
            NodeTests(
                node=node,
                at=tuple(moment for moment, _ in kept[node]),
                figures=tuple(figure for _, figure in kept[node]),
            )
            for node in sorted(kept, key=lambda node: node or "")
        ),
    )
