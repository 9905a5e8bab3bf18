# SPDX-License-Identifier: Apache-2.0
"""Pools that are never run: which measured point stands for each of their points, and why some have none."""

from typing import Any

import pytest

import builders
from gpubench.api.point_result import Basis
from gpubench.api.pool import GpuPool
from gpubench.plan import expand
from gpubench.plan.plan import Plan, Point

FOUR_SLOTS: dict[str, Any] = {"slots_per_node": 4}


def plan_of(*blocks: dict[str, Any], pools: tuple[GpuPool, ...]) -> Plan:
    return builders.plan(builders.spec(*blocks), *pools)


def of_pool(plan: Plan, pool: str) -> tuple[Point, ...]:
    return tuple(point for point in plan.points if point.key.pool == pool)


def sources(plan: Plan, pool: str = "copy") -> list[tuple[Basis, int | None]]:
    """Basis of each point of a pool, and the workers of the point that stands for it."""
    found = []
    for point in of_pool(plan, pool):
        index = expand.source_of(plan, point)
        found.append((point.basis, None if index is None else plan.points[index].key.workers))
    return found


def copy(name: str = "copy", **measured_by: Any) -> GpuPool:
    return builders.pool(name, measured_by={"pool": "cpu"} | measured_by, **FOUR_SLOTS)


def test_a_point_is_repriced_from_as_many_workers_and_never_run() -> None:
    plan = plan_of(builders.block(pools=["cpu", "copy"]), pools=(builders.pool(**FOUR_SLOTS), copy()))
    assert sources(plan) == [(Basis.REPRICED, 1), (Basis.REPRICED, 2)]
    assert {plan.points[trial.point].key.pool for trial in plan.trials} == {"cpu"}
    assert [point.basis for point in of_pool(plan, "cpu")] == [Basis.MEASURED] * 2


def test_a_measured_point_has_no_source() -> None:
    plan = plan_of(builders.block(pools=["cpu", "copy"]), pools=(builders.pool(**FOUR_SLOTS), copy()))
    assert [expand.source_of(plan, point) for point in of_pool(plan, "cpu")] == [None, None]


def test_one_slot_stands_for_four_workers_at_the_same_batch_each() -> None:
    blocks = builders.block(workers=[1, 4]), builders.block(pools=["copy"], workers=[1])
    plan = plan_of(*blocks, pools=(builders.pool(**FOUR_SLOTS), copy(workers=4)))
    assert sources(plan) == [(Basis.REPRICED, 4)]


def test_under_a_global_batch_the_global_batch_is_equal() -> None:
    blocks = (
        builders.block(pools=["cpu"], workers=[4], globalBatch=[64, 256]),
        builders.block(pools=["copy"], workers=[1], globalBatch=[64]),
    )
    plan = plan_of(*blocks, pools=(builders.pool(**FOUR_SLOTS), copy(workers=4)))
    (point,) = of_pool(plan, "copy")
    index = expand.source_of(plan, point)
    assert index is not None
    assert plan.points[index].key.global_batch == 64


def test_more_workers_are_extrapolated_and_equally_many_repriced() -> None:
    blocks = builders.block(workers=[1]), builders.block(pools=["copy"], workers=[1, 4])
    plan = plan_of(*blocks, pools=(builders.pool(), copy(workers=1, efficiency="StudyMean")))
    assert sources(plan) == [(Basis.REPRICED, 1), (Basis.EXTRAPOLATED, 1)]


def test_of_two_shapes_the_one_on_the_fewest_nodes_stands() -> None:
    blocks = builders.block(workers=[2], workersPerNode=1), builders.block(pools=["cpu", "copy"], workers=[2])
    plan = plan_of(*blocks, pools=(builders.pool(**FOUR_SLOTS), copy()))
    (point,) = of_pool(plan, "copy")
    index = expand.source_of(plan, point)
    assert index is not None
    assert plan.points[index].nodes == 1


@pytest.mark.parametrize(
    ("blocks", "pools", "sentence"),
    [
        (
            (builders.block(pools=["copy"], workers=[1]),),
            (copy(),),
            "copy is measured by cpu, which is not in this benchmark: name it in the same block",
        ),
        (
            (builders.block(workers=[2]), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy()),
            "copy is measured by 1 worker of cpu, and this benchmark has no such point",
        ),
        (
            (builders.block(precision=["mixed_float16"]), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy()),
            "copy is measured by 1 worker of cpu, and this benchmark has no such point",
        ),
        (
            (builders.block(data={"source": "Generated"}), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy()),
            "copy is measured by 1 worker of cpu, and this benchmark has no such point",
        ),
        (
            (builders.block(variants=[{"name": "x"}]), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy()),
            "copy is measured by 1 worker of cpu, and this benchmark has no such point",
        ),
        (
            (builders.block(workers=[9]), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy(workers=9)),
            "copy is measured by cpu, whose point is skipped: 9 workers need 9 nodes",
        ),
        (
            (builders.block(pools=["cpu", "between", "copy"], workers=[1]),),
            (builders.pool(), copy("between"), copy(pool="between")),
            "copy is measured by between, which is itself measured by cpu",
        ),
        (
            (builders.block(workers=[4]), builders.block(pools=["copy"], workers=[1])),
            (builders.pool(), copy(workers=4, efficiency="StudyMean")),
            "copy is extrapolated from 4 workers of cpu, which gives figures of more workers only",
        ),
        (
            (
                builders.block(workloads=["allreduce"], workers=[2]),
                builders.block(workloads=["allreduce"], pools=["copy"], workers=[4]),
            ),
            (builders.pool(), copy(workers=2, efficiency="StudyMean")),
            "allreduce is not extrapolated to more workers: put it into a block without copy",
        ),
        (
            (builders.block(workers=[8]), builders.block(pools=["copy"], workers=[8], workersPerNode=8)),
            (builders.pool(max_nodes=8), copy()),
            "8 workers per node do not fit the 4 slots of a node of copy",
        ),
    ],
)  # fmt: skip
def test_what_nothing_stands_for_is_skipped_with_a_sentence(
    blocks: tuple[dict[str, Any], ...], pools: tuple[GpuPool, ...], sentence: str
) -> None:
    plan = plan_of(*blocks, pools=pools)
    (point,) = of_pool(plan, "copy")
    assert point.skip is not None
    assert point.skip.startswith(sentence)
    assert expand.source_of(plan, point) is None
