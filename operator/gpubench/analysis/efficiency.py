# SPDX-License-Identifier: Apache-2.0
"""Scaling efficiency: E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the same pool.

A figure belongs to a line: weak (equal batch per worker) or strong (equal global batch), of the same work on the same
pool. Efficiencies against different b are never ranked against each other.

A pool may name another as its `scalingBaseline`: a node with eight GPUs whose base is its sibling with one (as
Parkopedia, 2018, did with p2.8xlarge and p2.xlarge). Its base then lies there, and the figure says so.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from gpubench.api.point_result import Scaling
from gpubench.plan.plan import Point
from gpubench.scheduler.environments import EnvironmentKey
from gpubench.stats import intervals
from gpubench.units import Formula
from gpubench.values import Interval

Kind = Literal["weak", "strong"]

EFFICIENCY = Formula(
    text="throughput x base workers / (workers x base throughput)",
    source="scaling efficiency E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the line; "
    f"{intervals.OF_RATIO}",
)


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """The throughput of each repeat of a point, and where they were measured."""

    point: Point
    values: tuple[float, ...]
    environment: EnvironmentKey
    scaling_baseline: str | None = None  # pool of the base, where it is another one
    confidence: float = intervals.CONFIDENCE  # higher where the number of repeats was decided underway
    settled: bool = True  # else it is no base of another point's efficiency


class Among:
    """Measured points by their lines: found once for all, as each point has its efficiencies among all others."""

    def __init__(self, points: Iterable[MeasuredPoint]) -> None:
        self._on_line: dict[Hashable, list[MeasuredPoint]] = {}
        for one in points:
            for kind in one.point.lines if one.point.key.node is None else ():
                self._on_line.setdefault(_line(one.point, one.point.key.pool, kind), []).append(one)

    def on_line(self, of: MeasuredPoint, kind: Kind) -> Sequence[MeasuredPoint]:
        """The points that an efficiency on this line would be held against, itself among them."""
        if of.point.key.node is not None:  # a node that is measured by itself is on no line
            return [of] if of.scaling_baseline is None else []
        return self._on_line.get(_line(of.point, of.scaling_baseline or of.point.key.pool, kind), [])


def _line(point: Point, pool: str, kind: Kind) -> Hashable:
    key = point.key
    batch = key.batch_per_worker if kind == "weak" else key.global_batch
    return kind, pool, batch, key.workload, key.precision, key.data, key.variant, key.epochs, key.custom


def efficiencies(of: MeasuredPoint, among: Among) -> tuple[Scaling, ...]:
    """A point's efficiency on each of its lines; None without another worker count in the same environment."""
    found = []
    for kind in of.point.lines:
        if (against := base(of, among, kind=kind)) is None:
            continue
        own, other = of.point.key, against.point.key
        if (across := own.pool != other.pool) and other.workers >= own.workers:
            continue  # another pool with as many workers is no base to scale from
        if not against.environment.is_comparable(of.environment, across_pools=across):
            continue  # T(n) on one driver over T(b) on another is nobody's efficiency
        if not against.settled and against is not of:
            continue  # what its throughput is in a steady state, nobody knows
        figure = Interval(mean=1.0)
        if against is not of:
            ratio = intervals.of_ratio(of.values, against.values, confidence(of, against))
            figure = ratio.scaled(other.workers / own.workers)
        pool = other.pool if across else None
        found.append(Scaling(kind=kind, baseline_workers=other.workers, baseline_pool=pool, efficiency=figure))
    return tuple(found)


def base(of: MeasuredPoint, among: Among, *, kind: Kind) -> MeasuredPoint | None:
    """What the point's efficiency on a line is held against, whether or not that is possible."""
    line = among.on_line(of, kind)
    if len({one.point.key.workers for one in (of, *line)}) < 2:
        return None  # one worker count alone says nothing about scaling
    # Two shapes with equally many workers (2 x 1 and 1 x 2): the one on the fewest nodes is the base.
    return min(line, key=lambda other: (other.point.key.workers, other.point.nodes))


def confidence(of: MeasuredPoint, against: MeasuredPoint) -> float:
    """At which the interval of their efficiency is computed."""
    return max(of.confidence, against.confidence)
