# SPDX-License-Identifier: Apache-2.0
"""Points of pools that are never run (`GpuPoolSpec.measured_by`): which point's measurements stand for each of them.

The rule. The source of a point is a point of the pool that `measuredBy.pool` names, which this study runs itself, with
  - equal workload, precision, data, variant and epochs;
  - `measuredBy.workers` workers, or as many as the point has where that is absent;
  - equal batch per worker where the point lies on a weak line, else (it stands under globalBatch alone) equal global
    batch. So a pool of one slot at a batch of 64 may stand for four GPUs at a batch of 64 each.
Where two shapes have equally many workers (2 x 1 and 1 x 2), it is the one on the fewest nodes, as for efficiency.

A figure is re-priced as it is, or extrapolated to more workers by the efficiency that the study measured on the same
line; a bandwidth is not extrapolated. Must not happen: a figure that stands on another derived figure, or on nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from gpubench.api.point_result import Basis
from gpubench.api.pool import GpuPoolSpec, MeasuredBy
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.units import workers_text
from gpubench.workloads import MESSAGES

_PLACE_AND_SIZE = {"pool", "workers", "workers_per_node", "batch_per_worker", "global_batch"}
#: All else that makes a point.
_TRAINING = tuple(field for field in PointKey.model_fields if field not in _PLACE_AND_SIZE)


def resolve(points: Sequence[Point], pools: Mapping[str, GpuPoolSpec]) -> tuple[Point, ...]:
    """The points, each with its basis; one whose source does not exist, or is not run, is skipped with that reason."""
    return tuple(_resolved(point, points, pools) for point in points)


def source_of(plan: Plan, point: Point) -> int | None:
    """Index in `plan.points` of the measured point that stands for a derived one.

    None for a point that is run itself, and for one that is skipped.
    """
    measured_by = _measured_by(point, {pool.name: pool.spec for pool in plan.pools})
    if measured_by is None or point.skip is not None:
        return None
    return _source(point, measured_by, plan.points)


def line_of(point: Point) -> Literal["weak", "strong"]:
    """The line on which the source of a derived point lies: weak where the point is on both."""
    return "weak" if "weak" in point.lines and point.key.batch_per_worker is not None else "strong"


def batch_text(point: Point) -> str:
    """The batch that a derived point and its source have in common."""
    if line_of(point) == "weak":
        return f"batch {point.key.batch_per_worker} per worker"
    return f"global batch {point.key.global_batch}"


def same_training(line: Literal["weak", "strong"], one: PointKey, other: PointKey) -> bool:
    """Whether two points of a line train the same, whatever their pools and workers: also by the line's batch."""
    batch = "batch_per_worker" if line == "weak" else "global_batch"
    return all(getattr(one, field) == getattr(other, field) for field in (batch, *_TRAINING))


def _measured_by(point: Point, pools: Mapping[str, GpuPoolSpec]) -> MeasuredBy | None:
    pool = pools.get(point.key.pool)
    return pool.measured_by if pool is not None else None


def _resolved(point: Point, points: Sequence[Point], pools: Mapping[str, GpuPoolSpec]) -> Point:
    measured_by = _measured_by(point, pools)
    if measured_by is None:
        return point
    workers = _source_workers(point, measured_by)
    extrapolated = measured_by.efficiency is not None and workers != point.key.workers
    basis = Basis.EXTRAPOLATED if extrapolated else Basis.REPRICED
    skip = point.skip or _reason(point, measured_by, points, pools, basis=basis)
    return point.model_copy(update={"basis": basis, "skip": skip})


def _reason(
    point: Point, measured_by: MeasuredBy, points: Sequence[Point], pools: Mapping[str, GpuPoolSpec], *, basis: Basis
) -> str | None:
    """Why nothing stands for a point."""
    pool, source_pool, workers = point.key.pool, measured_by.pool, _source_workers(point, measured_by)
    if basis is Basis.EXTRAPOLATED and (why := _not_extrapolated(point, measured_by)):
        return why
    if not any(other.key.pool == source_pool for other in points):
        return f"{pool} is measured by {source_pool}, which is not in this study: name it in the same block"
    if (source_spec := pools.get(source_pool)) is not None and source_spec.measured_by is not None:
        return f"{pool} is measured by {source_pool}, which is itself measured by {source_spec.measured_by.pool}"
    found = _source(point, measured_by, points)
    if found is None:
        return (
            f"{pool} is measured by {workers_text(workers)} of {source_pool}, and this study has no such point of "
            f"equal workload, precision, data and variant at {batch_text(point)}"
        )
    if (source_skip := points[found].skip) is not None:
        return f"{pool} is measured by {source_pool}, whose point is skipped: {source_skip}"
    return None


def _not_extrapolated(point: Point, measured_by: MeasuredBy) -> str | None:
    pool, workers = point.key.pool, _source_workers(point, measured_by)
    if point.key.workload == MESSAGES:
        return (
            f"{MESSAGES} is not extrapolated to more workers: put it into a block without {pool}, or measure it there"
        )
    if workers > point.key.workers:
        return (
            f"{pool} is extrapolated from {workers} workers of {measured_by.pool}, which gives figures of more workers "
            "only"
        )
    return None


def _source(point: Point, measured_by: MeasuredBy, points: Sequence[Point]) -> int | None:
    workers = _source_workers(point, measured_by)
    matching = [
        index
        for index, other in enumerate(points)
        if other.key.pool == measured_by.pool
        and other.key.workers == workers
        and same_training(line_of(point), point.key, other.key)
    ]
    return min(matching, key=lambda index: points[index].nodes, default=None)


def _source_workers(point: Point, measured_by: MeasuredBy) -> int:
    return measured_by.workers or point.key.workers
