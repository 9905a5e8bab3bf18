# SPDX-License-Identifier: Apache-2.0
"""Nodes that are far below their own pool: from the short tests before each trial to a sentence at the figure.

A figure of a throttled card is a true figure of that card and no figure of the pool. Nothing is thrown away here: who
reads the figure is told which node it came from, and how far below its pool that node is.

Must not happen: a healthy node that is named because a pool's tests scatter widely, or hardly at all. So a reading is
weak only when it is both an outlier and a tenth below the others.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gpubench.control.ledger import AttemptRecord
from gpubench.plan.plan import Plan, Point
from gpubench.units import workers_text

HISTORY_MIN = 5  # other attempts on the pool: a median and a spread of fewer say nothing
SCORE_MAX = 3.5  # Iglewicz and Hoaglin (1993), How to Detect and Handle Outliers, page 12
BELOW_MEDIAN_MIN = 0.1  # differences that no buyer would act on are not worth a sentence
_NORMAL = 0.6745  # median of |z| of a normal distribution, so that the score counts standard deviations

Test = Literal["arithmetic", "memory", "allreduce"]
_TESTS: tuple[Test, ...] = ("arithmetic", "memory", "allreduce")
_UNITS: Mapping[Test, tuple[str, float, str]] = {
    "arithmetic": ("float32 arithmetic", 1e12, "Tflop/s"),
    "memory": ("memory bandwidth", 1e9, "GB/s"),
    "allreduce": ("all-reduce", 1e9, "GB/s"),
}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One figure of the test before one attempt, and what it may be held against."""

    test: Test
    pool: str
    workers_per_node: int  # all ranks of a node are tested at once, and share its memory
    workers: int | None = None  # of an all-reduce, which depends on them too
    trial: str
    ended_at: float
    figure: float
    nodes: tuple[str, ...]  # on one of which it was measured


def readings(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Reading, ...]:
    """The readings of all attempts that have some, oldest first."""
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    found = [
        reading for record in records if record.trial in points for reading in _of_attempt(record, points[record.trial])
    ]
    return tuple(sorted(found, key=lambda reading: (reading.ended_at, reading.trial, reading.test)))


def _of_attempt(record: AttemptRecord, point: Point) -> Iterable[Reading]:
    machine = record.result.machine if record.result is not None else None
    if machine is None:
        return
    weakest = _node_of(machine.weakest_rank, record, point)
    for test in _TESTS:
        figure: float | None = getattr(machine, test)
        if figure is None or figure <= 0:
            continue
        named = weakest if test == "arithmetic" else None  # of the other tests the slowest rank is not told
        yield Reading(
            test=test,
            pool=point.key.pool,
            workers_per_node=point.key.workers_per_node,
            workers=point.key.workers if test == "allreduce" else None,
            trial=record.trial,
            ended_at=record.ended_at or record.created_at,
            figure=figure,
            nodes=record.nodes if named is None else (named,),
        )


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


def spread(figures: Sequence[float]) -> Spread | None:
    """Median and MAD of a pool's readings, that of the node in question among them; None of too few to judge one."""
    if len(figures) <= HISTORY_MIN:
        return None
    median = statistics.median(figures)
    return Spread(median=median, deviation=statistics.median(abs(figure - median) for figure in figures))


def is_weak(figure: float, pool: Spread) -> bool:
    """Whether a reading is far below its pool, by the modified z-score of Iglewicz and Hoaglin (1993).

    M = 0.6745 (x - median) / MAD. Where more than half of the readings are equal (MAD 0), the share below the median
    decides alone.
    """
    if figure > (1 - BELOW_MEDIAN_MIN) * pool.median:
        return False
    return _NORMAL * (pool.median - figure) > SCORE_MAX * pool.deviation


def weak_trials(plan: Plan, records: Iterable[AttemptRecord]) -> dict[str, str]:
    """A sentence for each trial whose test was far below the study's other ones on its pool.

    Later readings count as well: a weak node is named at the first trial that met it, once the pool is known.
    """
    own = readings(plan, records)
    kinds: dict[tuple[object, ...], list[float]] = {}
    for reading in own:
        kinds.setdefault(_kind(reading), []).append(reading.figure)
    spreads = {kind: spread(figures) for kind, figures in kinds.items()}
    found: dict[str, str] = {}
    for reading in own:
        pool = spreads[_kind(reading)]
        if pool is not None and is_weak(reading.figure, pool):
            found.setdefault(reading.trial, _sentence(reading, pool))
    return found


def _kind(reading: Reading) -> tuple[object, ...]:
    return reading.test, reading.pool, reading.workers_per_node, reading.workers


def _sentence(reading: Reading, pool: Spread) -> str:
    what, per, unit = _UNITS[reading.test]
    gang = f" of {workers_text(reading.workers)}" if reading.workers is not None else ""
    return (
        f"{_nodes(reading)} is weak: {what}{gang} {reading.figure / per:.3g} {unit} before the trial, "
        f"{1 - reading.figure / pool.median:.0%} below the {pool.median / per:.3g} of its pool: look at it"
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
