# SPDX-License-Identifier: Apache-2.0
"""Scaling efficiency: E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the same pool.

A figure belongs to a line: weak (equal batch per worker) or strong (equal global batch), of the same work on the same
pool. Efficiencies against different b are never ranked against each other.

A pool may name another as its `scalingBaseline`: a node with eight GPUs whose base is its sibling with one (as
Parkopedia, 2018, did with p2.8xlarge and p2.xlarge). Its base then lies there, and the figure says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, NamedTuple, TypeVar

from gpubench.stats import intervals
from gpubench.stats.intervals import CONFIDENCE
from gpubench.units import Formula
from gpubench.values import Interval

Kind = Literal["weak", "strong"]

EFFICIENCY = Formula(
    text="throughput x base workers / (workers x base throughput)",
    source="scaling efficiency E(n) = T(n) b / (n T(b)), b the smallest worker count measured on the line; "
    f"{intervals.FIELLER}",
)


class EnvironmentKey(NamedTuple):
    """The comparability key of repeats, the digest of the image that was really run, and the instance type.

    A tag may have been moved to another image while the benchmark ran. The last two are known to the cluster and not to
    a gang, and empty where they are unknown.
    """

    environment: str
    image_id: str
    instance_type: str = ""

    @property
    def unknown(self) -> int:
        """How many of the facts that only the cluster knows are unknown."""
        return (not self.image_id) + (not self.instance_type)

    def is_comparable(self, other: "EnvironmentKey", *, across_pools: bool = False) -> bool:
        """Whether figures of both may be in one efficiency: an unknown image or instance type is no other one.

        Across pools the instance type is another one by intent: a node of eight GPUs against its sibling with one.
        """
        images = {self.image_id, other.image_id} - {""}
        types = {self.instance_type, other.instance_type} - {""}
        return self.environment == other.environment and len(images) < 2 and (across_pools or len(types) < 2)

    def with_what_is_known(self, other: "EnvironmentKey") -> "EnvironmentKey":
        """This key with what only a comparable one has."""
        return self._replace(
            image_id=self.image_id or other.image_id, instance_type=self.instance_type or other.instance_type
        )


class Scale(NamedTuple):
    """Where a point is among those that do the same work."""

    work: Hashable  # what must be equal on every line: workload, precision, data and the like
    pool: str
    workers: int
    nodes: int
    batch_per_worker: int | None
    global_batch: int
    lines: tuple[Kind, ...]
    is_one_node: bool = False  # a node that is measured by itself is on no line


@dataclass(frozen=True, kw_only=True)
class Measured(ABC):
    """The throughput of each repeat of a point, and where they were measured."""

    values: tuple[float, ...]
    environment: EnvironmentKey
    scaling_baseline: str | None = None  # pool of the base, where it is another one
    confidence: float = CONFIDENCE  # of its intervals; higher where the number of repeats was decided underway
    settled: bool = True  # else it is no base of another point's efficiency

    @property
    @abstractmethod
    def scale(self) -> Scale:
        """Where the point is on its lines."""

    @property
    def baseline_pool(self) -> str:
        """The pool in which the base is looked for."""
        return self.scaling_baseline or self.scale.pool


_Point = TypeVar("_Point", bound=Measured)


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """One point's efficiency on one line."""

    kind: Kind
    baseline_workers: int
    interval: Interval
    baseline_pool: str | None = None  # where it is another one


class Among(Generic[_Point]):
    """Measured points by their lines: found once for all, as each point has its efficiencies among all others."""

    def __init__(self, points: Iterable[_Point]) -> None:
        self._on_line: dict[Hashable, list[tuple[int, _Point]]] = {}
        for place, one in enumerate(points):
            for kind in () if one.scale.is_one_node else one.scale.lines:
                self._on_line.setdefault(_line(one.scale, one.scale.pool, kind), []).append((place, one))

    def on_line(self, of: _Point, kind: Kind) -> list[tuple[int, _Point]]:
        """The points that an efficiency on this line would be held against, itself among them, with their places."""
        if of.scale.is_one_node:
            return [(0, of)] if of.scaling_baseline is None else []
        return self._on_line.get(_line(of.scale, of.baseline_pool, kind), [])


def _line(scale: Scale, pool: str, kind: Kind) -> Hashable:
    return kind, scale.work, pool, scale.batch_per_worker if kind == "weak" else scale.global_batch


def efficiencies(of: _Point, among: Among[_Point]) -> tuple[Efficiency, ...]:
    """The efficiency of a measured point on each of its lines; the baseline itself has none to show but 1.

    None where there is no other worker count to compare, or where the baseline ran in another environment.
    """
    return tuple(found for kind in of.scale.lines if (found := _efficiency(of, among, kind=kind)) is not None)


def lines(of: _Point, among: Among[_Point]) -> tuple[_Point, ...]:
    """The measured points that an efficiency of this one would be held against, itself among them."""
    found = {place: other for kind in of.scale.lines for place, other in among.on_line(of, kind)}
    return tuple(found[place] for place in sorted(found))


def bases(of: _Point, among: Among[_Point]) -> tuple[_Point, ...]:
    """What the point's efficiency is held against on each of its lines, whether or not that is possible."""
    found = (base(of, among, kind=kind) for kind in of.scale.lines)
    return tuple(one for one in found if one is not None)


def base(of: _Point, among: Among[_Point], *, kind: Kind) -> _Point | None:
    """What the point's efficiency on a line is held against, whether or not that is possible."""
    line = [other for _, other in among.on_line(of, kind)]
    if len({of.scale.workers, *(other.scale.workers for other in line)}) < 2:
        return None  # one worker count alone says nothing about scaling
    # Two shapes with equally many workers (2 x 1 and 1 x 2): the one on the fewest nodes is the base.
    return min(line, key=lambda other: (other.scale.workers, other.scale.nodes))


def confidence(of: Measured, against: Measured) -> float:
    """At which the interval of their efficiency is computed."""
    return max(of.confidence, against.confidence)


def _efficiency(of: _Point, among: Among[_Point], *, kind: Kind) -> Efficiency | None:
    against = base(of, among, kind=kind)
    if against is None:
        return None
    n, b = of.scale.workers, against.scale.workers
    across = of.scale.pool != against.scale.pool
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
        baseline_pool=against.scale.pool if across else None,
    )
