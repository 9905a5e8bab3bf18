# SPDX-License-Identifier: Apache-2.0
"""Scaling efficiency: E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the same pool.

A figure belongs to a line: weak (equal batch per worker) or strong (equal global batch), same workload, pool and
precision. Efficiencies against different b are never ranked against each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from gpubench.measure import intervals
from gpubench.measure.intervals import Interval
from gpubench.plan.plan import Point


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """A point, the throughput of each of its repeats, and what they all stand on."""

    point: Point
    values: tuple[float, ...]
    environment: str


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """One point's efficiency on one line."""

    kind: Literal["weak", "strong"]
    baseline_workers: int
    interval: Interval


def efficiencies(of: MeasuredPoint, among: Sequence[MeasuredPoint]) -> tuple[Efficiency, ...]:
    """The efficiency of a measured point on each of its lines; the baseline itself has none to show but 1.

    None where there is no other worker count to compare, or where the baseline ran in another environment.
    """
    return tuple(found for kind in of.point.lines if (found := _on_line(of, among=among, kind=kind)) is not None)


def lines(of: MeasuredPoint, among: Sequence[MeasuredPoint]) -> tuple[MeasuredPoint, ...]:
    """The measured points that share a line with this one, itself among them."""
    return tuple(
        other
        for other in among
        if any(kind in other.point.lines and _same_line(of.point, other.point, kind=kind) for kind in of.point.lines)
    )


def _on_line(
    of: MeasuredPoint, *, among: Sequence[MeasuredPoint], kind: Literal["weak", "strong"]
) -> Efficiency | None:
    line = [other for other in among if kind in other.point.lines and _same_line(of.point, other.point, kind=kind)]
    # Two shapes with equally many workers (2 x 1 and 1 x 2): the one on the fewest nodes is the base.
    base = min(line, key=lambda other: (other.point.key.workers, other.point.nodes))
    b, n = base.point.key.workers, of.point.key.workers
    if len({other.point.key.workers for other in line}) < 2:
        return None  # one worker count alone says nothing about scaling
    if base.environment != of.environment:
        return None  # T(n) on one driver over T(b) on another is nobody's efficiency
    if base is of:
        return Efficiency(kind=kind, baseline_workers=b, interval=Interval(mean=1.0))
    ratio = intervals.of_ratio(of.values, base.values)
    scale = b / n
    return Efficiency(
        kind=kind,
        baseline_workers=b,
        interval=Interval(
            mean=ratio.mean * scale,
            low=None if ratio.low is None else ratio.low * scale,
            high=None if ratio.high is None else ratio.high * scale,
        ),
    )


def _same_line(one: Point, other: Point, *, kind: Literal["weak", "strong"]) -> bool:
    batch_equal = (
        one.key.batch_per_worker == other.key.batch_per_worker
        if kind == "weak"
        else one.key.global_batch == other.key.global_batch
    )
    return batch_equal and (one.key.workload, one.key.pool, one.key.precision) == (
        other.key.workload,
        other.key.pool,
        other.key.precision,
    )
