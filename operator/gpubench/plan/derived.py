# SPDX-License-Identifier: Apache-2.0
"""Points of pools that are never run (`GpuPoolSpec.measured_by`): which point's measurements stand for each of them.

The rule. The source of a point is a point of the pool that `measuredBy.pool` names, which this study runs itself, with
  - equal workload, precision, data, variant and epochs;
  - `measuredBy.workers` workers, or as many as the point has where that is absent;
  - equal batch per worker where the point lies on a weak line, else (it stands under globalBatch alone) equal global
    batch. So a pool of one slot at a batch of 64 may stand for four GPUs at a batch of 64 each.
Where two shapes have equally many workers (2 x 1 and 1 x 2), it is the one on the fewest nodes, as for efficiency.

A figure is re-priced as it is, or extrapolated to more workers by the efficiency that the study measured. Must not
happen: a figure that stands on another derived figure, or on nothing.
"""

from collections.abc import Mapping, Sequence

from gpubench.api.benchmark import Basis
from gpubench.api.pool import GpuPoolSpec, MeasuredBy
from gpubench.plan.plan import Plan, Point


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
    if basis is Basis.EXTRAPOLATED and workers > point.key.workers:
        return (
            f"{pool} is extrapolated from {workers} workers of {source_pool}, which gives figures of more workers only"
        )
    if not any(other.key.pool == source_pool for other in points):
        return f"{pool} is measured by {source_pool}, which is not in this study: name it in the same block"
    if (source_spec := pools.get(source_pool)) is not None and source_spec.measured_by is not None:
        return f"{pool} is measured by {source_pool}, which is itself measured by {source_spec.measured_by.pool}"
    found = _source(point, measured_by, points)
    if found is None:
        count = "1 worker" if workers == 1 else f"{workers} workers"
        batch = (
            f"batch per worker {point.key.batch_per_worker}" if _is_weak(point) else f"batch {point.key.global_batch}"
        )
        return (
            f"{pool} is measured by {count} of {source_pool}, and this study has no such point of equal workload, "
            f"precision, data and variant at {batch}"
        )
    if (source_skip := points[found].skip) is not None:
        return f"{pool} is measured by {source_pool}, whose point is skipped: {source_skip}"
    return None


def _source(point: Point, measured_by: MeasuredBy, points: Sequence[Point]) -> int | None:
    workers = _source_workers(point, measured_by)
    matching = [
        index
        for index, other in enumerate(points)
        if other.key.pool == measured_by.pool and other.key.workers == workers and _same_training(point, other)
    ]
    return min(matching, key=lambda index: points[index].nodes, default=None)


def _source_workers(point: Point, measured_by: MeasuredBy) -> int:
    return measured_by.workers or point.key.workers


def _is_weak(point: Point) -> bool:
    return "weak" in point.lines and point.key.batch_per_worker is not None


def _same_training(point: Point, other: Point) -> bool:
    apart = {"pool", "workers", "workers_per_node", "batch_per_worker", "global_batch"}
    one, two = point.key, other.key
    batch_equal = (
        one.batch_per_worker == two.batch_per_worker if _is_weak(point) else one.global_batch == two.global_batch
    )
    return batch_equal and one.model_dump(exclude=apart) == two.model_dump(exclude=apart)
