# SPDX-License-Identifier: Apache-2.0
"""Scaling efficiency: E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the same pool.

A figure belongs to a line: weak (equal batch per worker) or strong (equal global batch), same workload, pool,
precision, data and variant. Efficiencies against different b are never ranked against each other.

A pool may name another as its `scalingBaseline`: a node with eight GPUs whose base is its sibling with one (as
Parkopedia, 2018, did with p2.8xlarge and p2.xlarge). Its base then lies there, and the figure says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from gpubench.plan.plan import Point
from gpubench.stats import intervals
from gpubench.stats.intervals import CONFIDENCE, Interval
from gpubench.units import Formula

EFFICIENCY = Formula(
    text="throughput x base workers / (workers x base throughput)",
    source="scaling efficiency E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the line; "
    f"{intervals.FIELLER}",
)


class Ground(NamedTuple):
    """What repeats stand on: their comparability key, the digest of the image that was really run, the instance type.

    A tag may have been moved to another image while the study ran. The last two are known to the cluster and not to a
    gang, and empty where nobody knows them.
    """

    environment: str
    image_id: str
    instance_type: str = ""

    @property
    def unknown(self) -> int:
        """How many of the facts that only the cluster knows nobody knows."""
        return (not self.image_id) + (not self.instance_type)

    def is_comparable(self, other: "Ground", *, across_pools: bool = False) -> bool:
        """Whether figures on both may stand in one efficiency: an unknown image or instance type is no other one.

        Across pools the instance type is another one by intent: a node of eight GPUs against its sibling with one.
        """
        images = {self.image_id, other.image_id} - {""}
        types = {self.instance_type, other.instance_type} - {""}
        return self.environment == other.environment and len(images) < 2 and (across_pools or len(types) < 2)

    def with_what_is_known(self, other: "Ground") -> "Ground":
        """This ground with what only a comparable one tells."""
        return self._replace(
            image_id=self.image_id or other.image_id, instance_type=self.instance_type or other.instance_type
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint:
    """A point, the throughput of each of its repeats, and what they all stand on."""

    point: Point
    values: tuple[float, ...]
    environment: Ground
    scaling_baseline: str | None = None  # pool of the base, where it is another one
    confidence: float = CONFIDENCE  # of its intervals; higher where the number of repeats was decided underway
    settled: bool = True  # else it is no base of another point's efficiency

    @property
    def baseline_pool(self) -> str:
        """The pool in which the base is looked for."""
        return self.scaling_baseline or self.point.key.pool


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """One point's efficiency on one line."""

    kind: Literal["weak", "strong"]
    baseline_workers: int
    interval: Interval
    baseline_pool: str | None = None  # where it is another one


def efficiencies(of: MeasuredPoint, among: Sequence[MeasuredPoint]) -> tuple[Efficiency, ...]:
    """The efficiency of a measured point on each of its lines; the baseline itself has none to show but 1.

    None where there is no other worker count to compare, or where the baseline ran in another environment.
    """
    return tuple(found for kind in of.point.lines if (found := _on_line(of, among=among, kind=kind)) is not None)


def lines(of: MeasuredPoint, among: Sequence[MeasuredPoint]) -> tuple[MeasuredPoint, ...]:
    """The measured points that an efficiency of this one would be held against, itself among them."""
    return tuple(other for other in among if any(_on_its_line(of, other, kind=kind) for kind in of.point.lines))


def bases(of: MeasuredPoint, among: Sequence[MeasuredPoint]) -> tuple[MeasuredPoint, ...]:
    """What the point's efficiency is held against on each of its lines, whether or not that is possible."""
    found = (base(of, among, kind=kind) for kind in of.point.lines)
    return tuple(one for one in found if one is not None)


def base(of: MeasuredPoint, among: Sequence[MeasuredPoint], *, kind: Literal["weak", "strong"]) -> MeasuredPoint | None:
    """What the point's efficiency on a line is held against, whether or not that is possible."""
    return _base(of, _line(of, among, kind=kind))


def _on_line(
    of: MeasuredPoint, *, among: Sequence[MeasuredPoint], kind: Literal["weak", "strong"]
) -> Efficiency | None:
    against = base(of, among, kind=kind)
    if against is None:
        return None
    n, b = of.point.key.workers, against.point.key.workers
    across = of.point.key.pool != against.point.key.pool
    if across and b >= n:
        return None  # another pool with as many workers is no base to scale from
    if not against.environment.is_comparable(of.environment, across_pools=across):
        return None  # T(n) on one driver over T(b) on another is nobody's efficiency
    if not against.settled and against is not of:
        return None  # what its throughput is in a steady state, nobody knows
    if against is of:
        return Efficiency(kind=kind, baseline_workers=b, interval=Interval(mean=1.0))
    return Efficiency(
        kind=kind,
        baseline_workers=b,
        interval=intervals.of_ratio(of.values, against.values, confidence(of, against)).scaled(b / n),
        baseline_pool=against.point.key.pool if across else None,
    )


def confidence(of: MeasuredPoint, against: MeasuredPoint) -> float:
    """At which the interval of their efficiency is computed."""
    return max(of.confidence, against.confidence)


def _line(of: MeasuredPoint, among: Sequence[MeasuredPoint], *, kind: Literal["weak", "strong"]) -> list[MeasuredPoint]:
    return [other for other in among if _on_its_line(of, other, kind=kind)]


def _base(of: MeasuredPoint, line: Sequence[MeasuredPoint]) -> MeasuredPoint | None:
    if len({of.point.key.workers, *(other.point.key.workers for other in line)}) < 2:
        return None  # one worker count alone says nothing about scaling
    # Two shapes with equally many workers (2 x 1 and 1 x 2): the one on the fewest nodes is the base.
    return min(line, key=lambda other: (other.point.key.workers, other.point.nodes))


def _on_its_line(of: MeasuredPoint, other: MeasuredPoint, *, kind: Literal["weak", "strong"]) -> bool:
    """Whether the other may be the base of this one. A node that is measured by itself is on no line: it is one."""
    if other is of or of.point.key.node is not None or other.point.key.node is not None:
        return other is of and of.scaling_baseline is None
    return other.point.key.pool == of.baseline_pool and kind in other.point.lines and _same_line(of, other, kind=kind)


def _same_line(one: MeasuredPoint, other: MeasuredPoint, *, kind: Literal["weak", "strong"]) -> bool:
    this, that = one.point.key, other.point.key
    batch_equal = (
        this.batch_per_worker == that.batch_per_worker if kind == "weak" else this.global_batch == that.global_batch
    )
    return batch_equal and (
        (this.workload, this.precision, this.data, this.variant, this.epochs, this.custom)
        == (that.workload, that.precision, that.data, that.variant, that.epochs, that.custom)
    )
