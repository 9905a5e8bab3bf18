# SPDX-License-Identifier: Apache-2.0
"""Nodes that are far below their own pool: from the short tests before each trial to a warning at the figure.

A figure of a throttled card is a true figure of that card and no figure of the pool. Nothing is thrown away here: who
reads the figure is told which node it came from, and how far below its pool that node is.

A test is held against the pool's history over all studies, as it was when the attempt ended: its record has what was
usual then (`health_history`). Where that history was too short, or nobody kept one, as on a single machine, it is held
against the study's own tests.

Must not happen: a healthy node that is named because a pool's tests scatter widely, or hardly at all. So a reading is
weak only when it is both an outlier and a tenth below the others. And a warning that changes with the moment at which
a status is made: all that decides stands in the ledger.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpubench import records as wire
from gpubench.analysis import point_warnings
from gpubench.api import pool_health
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.api.pool_health import Test
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord, Usual
from gpubench.units import workers_text

HISTORY_MIN = 5  # other tests on the pool: a median and a spread of fewer say nothing
SCORE_MAX = 3.5  # Iglewicz and Hoaglin (1993), How to Detect and Handle Outliers, page 12
BELOW_MEDIAN_MIN = 0.1  # differences that no buyer would act on are not worth a sentence
_NORMAL = 0.6745  # median of |z| of a normal distribution, so that the score counts standard deviations

_TESTS: tuple[Test, ...] = ("arithmetic", "memory", "allreduce")
_UNITS: Mapping[Test, tuple[str, float, str]] = {
    "arithmetic": ("float32 arithmetic", 1e12, "Tflop/s"),
    "memory": ("memory bandwidth", 1e9, "GB/s"),
    "allreduce": ("all-reduce", 1e9, "GB/s"),
}


class Kind(NamedTuple):
    """What two tests must have in common to be held against each other, on one pool."""

    test: Test
    environment: str  # other drivers and libraries compute at another speed
    instance_type: str | None
    workers_per_node: int  # all ranks of a node are tested at once, and share its memory
    workers: int | None  # of an all-reduce, which depends on them too


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One figure of the test before one attempt, and what it may be held against."""

    pool: str
    kind: Kind
    trial: str
    ended_at: float
    figure: float
    nodes: tuple[str, ...]  # on one of which it was measured


def readings(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Reading, ...]:
    """The readings of all attempts that have some, oldest first."""
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    found = [
        reading for record in records if record.trial in points for reading in of_attempt(record, points[record.trial])
    ]
    return tuple(sorted(found, key=lambda reading: (reading.ended_at, reading.trial, reading.kind.test)))


def of_attempt(record: AttemptRecord, point: Point) -> tuple[Reading, ...]:
    """The readings of one attempt; none of one without a result, or without a test."""
    if record.result is None or record.result.machine is None:
        return ()
    machine = record.result.machine
    weakest = _node_of(machine.weakest_rank, record, point)
    instance_type = "+".join(record.instance_types)
    found = []
    for test in _TESTS:
        figure: float | None = getattr(machine, test)
        if figure is None or figure <= 0:
            continue
        named = weakest if test == "arithmetic" else None  # of the other tests the slowest rank is not told
        kind = Kind(
            test=test,
            environment=wire.environment_shown(record.result.environment) or "",
            instance_type=conditions.clamped(instance_type, pool_health.FACT_MAX) if instance_type else None,
            workers_per_node=point.key.workers_per_node,
            workers=point.key.workers if test == "allreduce" else None,
        )
        found.append(
            Reading(
                pool=point.key.pool,
                kind=kind,
                trial=record.trial,
                ended_at=record.ended_at or record.created_at,
                figure=figure,
                nodes=record.nodes if named is None else (named,),
            )
        )
    return tuple(found)


def _node_of(rank: int | None, record: AttemptRecord, point: Point) -> str | None:
    """The node of a rank; None where it is not told, or where a pod of the gang was gone when the end was seen."""
    if rank is None or len(record.nodes) != point.nodes:
        return None
    index = rank // point.key.workers_per_node
    return record.nodes[index] if index < len(record.nodes) else None


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What the readings of one kind on a pool are like."""

    median: float
    deviation: float  # median absolute deviation from the median
    tests: int
    nodes: int | None = None  # that they were made on; None where that is not known


def of_figures(figures: Sequence[float], *, nodes: int | None = None) -> Spread:
    """Median and MAD of some figures, at least one."""
    median = statistics.median(figures)
    deviation = statistics.median(abs(figure - median) for figure in figures)
    return Spread(median=median, deviation=deviation, tests=len(figures), nodes=nodes)


def spread(figures: Sequence[float]) -> Spread | None:
    """The spread of a study's own readings, that of the node in question among them; None of too few to judge one."""
    return None if len(figures) <= HISTORY_MIN else of_figures(figures)


def is_weak(figure: float, pool: Spread) -> bool:
    """Whether a reading is far below its pool, by the modified z-score of Iglewicz and Hoaglin (1993).

    M = 0.6745 (x - median) / MAD. Where more than half of the readings are equal (MAD 0), the share below the median
    decides alone.
    """
    if figure > (1 - BELOW_MEDIAN_MIN) * pool.median:
        return False
    return _NORMAL * (pool.median - figure) > SCORE_MAX * pool.deviation


class Weak(NamedTuple):
    """A test that was far below its pool."""

    nodes: tuple[str, ...]  # one of which it is
    share: float  # of what is usual there
    warning: PointWarning


def weak_trials(plan: Plan, records: Iterable[AttemptRecord]) -> dict[str, Weak]:
    """What is to be said of each trial whose test was far below what its pool is like.

    Where the study's own tests decide, later ones count as well: a weak node is named at the first trial that met it,
    once the pool is known.
    """
    records = tuple(records)
    own = readings(plan, records)
    kinds: dict[tuple[str, Kind], list[float]] = {}
    for reading in own:
        kinds.setdefault((reading.pool, reading.kind), []).append(reading.figure)
    spreads = {kind: spread(figures) for kind, figures in kinds.items()}
    usual = {(record.trial, frozen.test): _of_history(frozen) for record in records for frozen in record.usual}
    found: dict[str, Weak] = {}
    for reading in own:
        pool = usual.get((reading.trial, reading.kind.test)) or spreads[reading.pool, reading.kind]
        if pool is not None and is_weak(reading.figure, pool):
            found.setdefault(reading.trial, _weak(reading, pool))
    return found


def _of_history(frozen: Usual) -> Spread:
    return Spread(median=frozen.median, deviation=frozen.deviation, tests=frozen.tests, nodes=frozen.nodes)


def _weak(reading: Reading, pool: Spread) -> Weak:
    figures = {reading.kind.test: reading.figure, "usual": pool.median, "tests": float(pool.tests)}
    if pool.nodes is not None:
        figures["nodes"] = pool.nodes
    warning = point_warnings.warning(
        WarningReason.WEAK_NODE,
        _sentence(reading, pool),
        trial=reading.trial,
        node=reading.nodes[0] if len(reading.nodes) == 1 else None,
        figures=figures,
    )
    return Weak(nodes=reading.nodes, share=reading.figure / pool.median, warning=warning)


def _sentence(reading: Reading, pool: Spread) -> str:
    what, per, unit = _UNITS[reading.kind.test]
    gang = f" of {workers_text(reading.kind.workers)}" if reading.kind.workers is not None else ""
    nodes = "" if pool.nodes is None else f" on {pool.nodes} node{'' if pool.nodes == 1 else 's'}"
    return (
        f"{_nodes(reading)} is weak: {what}{gang} {reading.figure / per:.3g} {unit}, "
        f"{1 - reading.figure / pool.median:.0%} below the {pool.median / per:.3g} usual on its pool "
        f"({pool.tests} tests{nodes}): cordon it, or look for heat"
    )


def _nodes(reading: Reading) -> str:
    """Which node, as far as it is told; a long list would push the figure out of a warning."""
    match reading.nodes:
        case ():
            return "a node that is not known"
        case (node,):
            return f"node {node}"
        case (first, second):
            return f"one of the nodes {first} and {second}"
        case nodes:
            return f"one of {len(nodes)} nodes"
