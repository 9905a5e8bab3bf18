# SPDX-License-Identifier: Apache-2.0
"""From the sweep's blocks to points, in a fixed order, each point once, each that cannot be run with the reason why."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Literal

from gpubench.api.benchmark import GpuBenchmarkSpec, SweepBlock
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.plan import Point, PointKey
from gpubench.precision import Precision

Line = Literal["weak", "strong"]


def expand(spec: GpuBenchmarkSpec, pools: Mapping[str, GpuPoolSpec]) -> tuple[Point, ...]:
    """The points of a study. A point that several blocks name appears once, on the scaling lines of all of them."""
    points: dict[PointKey, Point] = {}
    for block in spec.sweep:
        for point in _block_points(block, pools):
            before = points.get(point.key)
            lines = point.lines if before is None else tuple(sorted({*before.lines, *point.lines}))
            points[point.key] = point.model_copy(update={"lines": lines})
    return tuple(points.values())


def _block_points(block: SweepBlock, pools: Mapping[str, GpuPoolSpec]) -> Iterator[Point]:
    line: Line = "weak" if block.batch_per_worker else "strong"
    batches = block.batch_per_worker or block.global_batch or ()
    for workload, pool, precision, batch, workers in product(
        block.workloads, block.pools, block.precision, batches, block.workers
    ):
        yield _point(
            workload=workload,
            pool=pool,
            pool_spec=pools.get(pool),
            precision=precision,
            batch=batch,
            line=line,
            workers=workers,
            workers_per_node=block.workers_per_node,
        )


def _point(
    *,
    workload: str,
    pool: str,
    pool_spec: GpuPoolSpec | None,
    precision: Precision,
    batch: int,
    line: Line,
    workers: int,
    workers_per_node: int | None,
) -> Point:
    per_node = workers_per_node or (pool_spec.slots_per_node if pool_spec else workers)
    divisible = workers % per_node == 0
    batch_per_worker, rest = (batch, 0) if line == "weak" else divmod(batch, workers)
    skip: str | None = None
    if pool_spec is None:
        skip = f"GpuPool {pool} did not exist when the study was planned"
    elif per_node > pool_spec.slots_per_node:
        skip = f"{per_node} workers per node do not fit the {pool_spec.slots_per_node} slots of a node of {pool}"
    elif workers > per_node and not divisible:
        skip = f"{workers} workers fill no whole nodes of {pool}: choose a multiple of {per_node}"
    elif workers > per_node and workers // per_node > pool_spec.max_nodes:
        skip = f"{workers} workers need {workers // per_node} nodes, and {pool} has at most {pool_spec.max_nodes}"
    elif rest or not batch_per_worker:
        skip = f"a global batch of {batch} cannot be divided among {workers} workers: choose a multiple of {workers}"
    return Point(
        key=PointKey(
            workload=workload,
            pool=pool,
            workers=workers,
            # Workers that one node holds share it; a point that cannot run keeps a shape that says so.
            workers_per_node=min(per_node, workers) if divisible or workers < per_node else workers,
            batch_per_worker=batch_per_worker if batch_per_worker and not rest else None,
            global_batch=batch * workers if line == "weak" else batch,
            precision=precision,
        ),
        lines=(line,),
        skip=skip,
    )
