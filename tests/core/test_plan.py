# SPDX-License-Identifier: Apache-2.0
"""Planning: which points a sweep has, which of them cannot run and why, and the order of the trials."""

import pytest

import builders
from gpubench.plan import order
from gpubench.plan.expand import expand
from gpubench.plan.plan import Plan, Point


def points(*blocks: dict[str, object], **pools: dict[str, object]) -> tuple[Point, ...]:
    named = {name: builders.pool(name, **spec).spec for name, spec in (pools or {"cpu": {}}).items()}
    return expand(builders.spec(*blocks), named)


def test_a_block_is_the_cross_product_of_its_lists() -> None:
    found = points(
        builders.block(workloads=["mnist_cnn", "mnist_mlp"], workers=[1, 2, 4], precision=["float32", "mixed_float16"])
    )
    assert len(found) == 2 * 3 * 2
    assert len({point.key for point in found}) == len(found)


def test_a_point_that_two_blocks_name_runs_once_and_lies_on_both_lines() -> None:
    found = points(builders.block(workers=[1, 2]), builders.block(workers=[2], globalBatch=[128]))
    assert [(point.key.workers, point.lines) for point in found] == [(1, ("weak",)), (2, ("strong", "weak"))]


def test_global_batch_is_divided_and_batch_per_worker_is_multiplied() -> None:
    weak, strong = points(builders.block(workers=[2]), builders.block(workers=[4], globalBatch=[64]))
    assert (weak.key.batch_per_worker, weak.key.global_batch) == (64, 128)
    assert (strong.key.batch_per_worker, strong.key.global_batch) == (16, 64)


@pytest.mark.parametrize(
    ("block", "pool", "sentence"),
    [
        (builders.block(pools=["other"], workers=[1]), {}, "GpuPool other did not exist when the study was planned"),
        (builders.block(workers=[8]), {"max_nodes": 4}, "8 workers need 8 nodes, and cpu has at most 4"),
        (builders.block(workers=[6]), {"slots_per_node": 4}, "6 workers fill no whole nodes of cpu"),
        (
            builders.block(workers=[8], workersPerNode=8),
            {"slots_per_node": 4},
            "8 workers per node do not fit the 4 slots",
        ),
        (builders.block(workers=[3], globalBatch=[64]), {}, "a global batch of 64 cannot be divided among 3 workers"),
        (builders.block(workers=[4], globalBatch=[2]), {}, "a global batch of 2 cannot be divided among 4 workers"),
    ],
)
def test_what_cannot_run_is_skipped_with_a_sentence(
    block: dict[str, object], pool: dict[str, object], sentence: str
) -> None:
    (point,) = points(block, cpu=pool)
    assert point.skip is not None
    assert point.skip.startswith(sentence)


@pytest.mark.parametrize(
    ("workers", "per_node", "slots", "nodes", "ranks_each"),
    [(1, None, 8, 1, 1), (8, None, 8, 1, 8), (16, None, 8, 2, 8), (2, 1, 8, 2, 1), (4, None, 1, 4, 1)],
)
def test_workers_fit_one_node_or_fill_whole_nodes(
    workers: int, per_node: int | None, slots: int, nodes: int, ranks_each: int
) -> None:
    block = builders.block(workers=[workers]) | ({"workersPerNode": per_node} if per_node else {})
    (point,) = points(block, cpu={"slots_per_node": slots})
    assert point.skip is None
    assert (point.nodes, point.key.workers_per_node) == (nodes, ranks_each)


def test_repeats_are_interleaved_so_that_drift_is_no_difference() -> None:
    found = points(builders.block(workers=[1, 2, 4]))
    trials = order.interleaved(found, repeats=3, seed=7)
    assert [trial.repeat for trial in trials] == [0] * 3 + [1] * 3 + [2] * 3
    for repeat in range(3):
        assert sorted(trial.point for trial in trials if trial.repeat == repeat) == [0, 1, 2]


def test_the_seed_alone_decides_the_order() -> None:
    found = points(builders.block(workers=[1, 2, 4], workloads=["mnist_cnn", "mnist_mlp"]))
    orders = {seed: order.interleaved(found, repeats=3, seed=seed) for seed in range(5)}
    assert orders[3] == order.interleaved(found, repeats=3, seed=3)
    assert len(set(orders.values())) == 5


def test_skipped_points_have_no_trials() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1, 99])))
    assert {trial.point for trial in plan.trials} == {0}


def test_a_trials_id_is_a_hash_of_its_content() -> None:
    one, other = builders.plan(), builders.plan(builders.spec(builders.block(workers=[2, 1]), order={"seed": 9}))
    ids = {(one.points[trial.point].key, trial.repeat): trial.id for trial in one.trials}
    assert ids == {(other.points[trial.point].key, trial.repeat): trial.id for trial in other.trials}
    assert len(set(ids.values())) == 6


def test_a_frozen_plan_reads_back_as_it_was() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1, 2, 99])))
    assert Plan.model_validate_json(plan.to_json()) == plan
