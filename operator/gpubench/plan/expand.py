# SPDX-License-Identifier: Apache-2.0
"""From the sweep's blocks to points, in a fixed order, each point once, each that cannot be run with the reason why."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

from gpubench import workloads
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.measuring import Measure, Mode
from gpubench.api.pool import GpuPoolSpec
from gpubench.api.sweep import Custom, Placement, SweepBlock, Variant
from gpubench.plan import derived, skips
from gpubench.plan.plan import Point, PointKey
from gpubench.workloads import Precision

Line = Literal["weak", "strong"]


def expand(
    spec: GpuBenchmarkSpec, pools: Mapping[str, GpuPoolSpec], nodes: Mapping[str, Sequence[str]] | None = None
) -> tuple[Point, ...]:
    """The points of a study. A point that several blocks name appears once, on the scaling lines of all of them.

    `nodes` are those of each pool that placement EachNode measures one by one.
    """
    points: dict[PointKey, Point] = {}
    for block in spec.sweep:
        for point in _placed(block, _block_points(block, pools, measure=spec.measure), nodes or {}):
            before = points.get(point.key)
            lines = point.lines if before is None else tuple(sorted({*before.lines, *point.lines}))
            points[point.key] = point.model_copy(update={"lines": lines})
    return derived.resolve(_told_apart(tuple(points.values())), pools)


def nodes_of(points: Iterable[Point]) -> dict[str, tuple[str, ...]]:
    """The nodes that a plan measures one by one, by pool, as `expand` takes them."""
    found: dict[str, dict[str, None]] = {}
    for point in points:
        if point.key.node is not None:
            found.setdefault(point.key.pool, {})[point.key.node] = None
    return {pool: tuple(names) for pool, names in found.items()}


def _block_points(block: SweepBlock, pools: Mapping[str, GpuPoolSpec], *, measure: Measure) -> Iterator[Point]:
    for workload, pool, precision, batch, variant, workers in product(
        block.workloads,
        block.pools,
        block.precision,
        block.batch_per_worker or block.global_batch or (),
        block.variants or (None,),
        block.workers,
    ):
        yield _point(
            block,
            measure=measure,
            workload=block.custom.name if block.custom is not None else workload,
            pool=pool,
            pool_spec=pools.get(pool),
            precision=precision,
            batch=batch,
            variant=variant,
            workers=workers,
        )


def _placed(block: SweepBlock, points: Iterator[Point], nodes: Mapping[str, Sequence[str]]) -> Iterator[Point]:
    """The points of a block, with placement EachNode once for each node of their pool."""
    for point in points:
        if block.placement is Placement.ANYWHERE:
            yield point
            continue
        found = nodes.get(point.key.pool, ())
        skip = skips.of_each_node(point, found)
        for node in found or (None,):
            key = point.key.model_copy(update={"node": node})
            yield point.model_copy(update={"key": key, "skip": point.skip or skip})


def _point(
    block: SweepBlock,
    *,
    measure: Measure,
    workload: str,
    pool: str,
    pool_spec: GpuPoolSpec | None,
    precision: Precision,
    batch: int,
    variant: Variant | None,
    workers: int,
) -> Point:
    line: Line = "weak" if block.batch_per_worker else "strong"
    per_node = block.workers_per_node or (pool_spec.slots_per_node if pool_spec else workers)
    batch_per_worker, rest = (batch, 0) if line == "weak" else divmod(batch, workers)
    divided = bool(batch_per_worker) and not rest
    key = PointKey(
        workload=workload,
        pool=pool,
        workers=workers,
        # Workers that one node holds share it; a point that cannot run keeps a shape that says so.
        workers_per_node=min(per_node, workers) if workers % per_node == 0 or workers < per_node else workers,
        batch_per_worker=batch_per_worker if divided else None,
        global_batch=batch * workers if line == "weak" else batch,
        precision=precision,
        data=block.data,
        variant=variant,
        epochs=_epochs(block, workload) if measure.mode is Mode.TRAINING else None,
        custom=block.custom,
    )
    place = skips.of_place(pool, pool_spec, workers=workers, workers_per_node=per_node, batch=batch, divided=divided)
    return Point(key=key, lines=(line,), skip=place or skips.of_training(key, measure))


def _epochs(block: SweepBlock, workload: str) -> int | None:
    """None for a workload of one's own without a number: it has one itself."""
    if block.epochs is not None or block.custom is not None:
        return block.epochs
    return workloads.find(workload).default_epochs


def _told_apart(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """A variant, or a workload of one's own, is one thing under its name; what comes second is skipped.

    Results show the name only. As a rule of the API it would cost the API server more than it grants.
    """
    variants: dict[str, Variant] = {}
    customs: dict[str, Custom] = {}
    found = []
    for point in points:
        variant, custom, skip = point.key.variant, point.key.custom, point.skip
        if variant is not None and variants.setdefault(variant.name, variant) != variant:
            skip = f"variant {variant.name} is something else in an earlier block: give one of both another name"
        if custom is not None and customs.setdefault(custom.name, custom) != custom:
            skip = f"custom {custom.name} is something else in an earlier block: give one of both another name"
        found.append(point.model_copy(update={"skip": skip}))
    return tuple(found)
