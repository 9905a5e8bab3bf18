# SPDX-License-Identifier: Apache-2.0
"""Planning: which points a sweep has, which of them cannot run and why, and the order of the trials."""

from fractions import Fraction
from typing import Any

import pytest

import builders
from gpubench.api.measuring import Mode
from gpubench.api.sweep import Data, DataSource
from gpubench.plan import expand
from gpubench.plan.assignment import Assignment
from gpubench.plan.plan import Plan, Point, Strict
from gpubench.scheduler import capacity


def points(*blocks: dict[str, object], **pools: dict[str, object]) -> tuple[Point, ...]:
    named = {name: builders.pool(name, **spec).spec for name, spec in (pools or {"cpu": {}}).items()}
    return expand.expand(builders.spec(*blocks), named)


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
        (
            builders.block(pools=["other"], workers=[1]),
            {},
            "GpuPool other did not exist when the benchmark was planned",
        ),
        (builders.block(workers=[8]), {"max_nodes": 4}, "8 workers need 8 nodes, and cpu has at most 4"),
        (
            builders.block(workers=[10], workersPerNode=2),
            {"slots_per_node": 5, "max_nodes": 2, "exclusive_nodes": False},
            "10 workers need 3 nodes, and cpu has at most 2",
        ),
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


def test_pods_of_a_gang_share_a_node_that_is_not_exclusive() -> None:
    block = builders.block(workers=[4], workersPerNode=1)
    for exclusive, skip in ((False, None), (True, "4 workers need 4 nodes, and cpu has at most 1")):
        (point,) = points(block, cpu={"slots_per_node": 4, "max_nodes": 1, "exclusive_nodes": exclusive})
        assert point.skip == skip


def instances(
    resource: str = "nvidia.com/mig-1g.5gb", *, accelerator: str = "A100-40GB", **fields: Any
) -> dict[str, object]:
    """A pool whose slots are the seven instances of a GPU."""
    slot = {"cpu": "1", "memory": "4Gi", "gpu_resource": resource}
    return {"slots_per_node": 7, "slot": slot, "accelerator": accelerator, "exclusive_nodes": False, **fields}


@pytest.mark.parametrize(
    "cut",
    [
        instances(),
        instances("nvidia.com/gpu", accelerator="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"),  # strategy single
        instances("nvidia.com/gpu", accelerator="a100 mig 1g.5gb"),
    ],
)
def test_workers_of_a_pod_that_would_share_one_mig_instance_are_skipped(cut: dict[str, object]) -> None:
    alone, two, full, apart = points(
        builders.block(workers=[1, 2, 7]), builders.block(workers=[2], workersPerNode=1), cpu=cut
    )
    assert two.skip == (
        "CUDA shows the 2 workers of a pod of cpu one MIG instance: set sweep[].workersPerNode to 1, or use a pool of "
        "whole GPUs"
    )
    assert "the 7 workers of a pod" in (full.skip or "")
    assert (alone.skip, apart.skip, apart.nodes) == (None, None, 2)
    whole = instances("nvidia.com/gpu", accelerator="Migration-box")
    assert [point.skip for point in points(builders.block(workers=[7]), cpu=whole)] == [None]


def test_a_worker_on_an_instance_costs_its_share_of_a_node_that_is_not_exclusive() -> None:
    for exclusive, paid in ((False, Fraction(1, 7)), (True, Fraction(1))):
        place = builders.pool("cpu", **instances(exclusive_nodes=exclusive))
        plan = builders.plan(builders.spec(builders.block(workers=[1])), place)
        assert Fraction(plan.paid_nodes(plan.points[0])).limit_denominator(100) == paid


GENERATED = {"source": "Generated"}
OWN_FILE = {"name": "mine", "file": "/models/mine.py"}
OWN_PROGRAM = {"name": "mine", "command": ["python", "/models/mine.py"]}


def own(custom: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return builders.block(workloads=["Custom"], custom=custom, workers=[1], **fields)


def messages(**fields: Any) -> dict[str, Any]:
    return builders.block(workloads=["allreduce"], workers=[2], **fields)


def test_variants_multiply_points_and_are_part_of_them() -> None:
    found = points(builders.block(workers=[1, 2], variants=[{"name": "plain"}, {"name": "xla", "xla": True}]))
    assert [(point.key.variant.name, point.key.workers) for point in found if point.key.variant] == [
        ("plain", 1), ("plain", 2), ("xla", 1), ("xla", 2),
    ]  # fmt: skip


def test_other_data_is_another_point() -> None:
    found = points(builders.block(workers=[1]), builders.block(workers=[1], data={**GENERATED, "samples": 1000}))
    assert [point.key.data for point in found] == [Data(), Data(source=DataSource.GENERATED, samples=1000)]


@pytest.mark.parametrize(
    ("block", "mode", "epochs"),
    [
        (builders.block(data=GENERATED), "Training", 12),  # mnist_cnn's own number
        (builders.block(data=GENERATED, epochs=3), "Training", 3),
        (own(OWN_FILE, data=GENERATED), "Training", None),  # it has a number itself
        (own(OWN_PROGRAM, data=GENERATED, epochs=2), "Training", 2),
        (builders.block(), "Throughput", None),
    ],
)
def test_epochs_are_the_blocks_or_the_workloads_own(block: dict[str, Any], mode: str, epochs: int | None) -> None:
    plan = builders.plan(builders.spec(block, measure={"mode": mode}))
    assert {point.key.epochs for point in plan.points} == {epochs}
    assert plan.mode is Mode(mode)


def test_a_workload_of_ones_own_has_its_own_name() -> None:
    (point,) = points(own(OWN_FILE))
    assert (point.key.workload, point.skip) == ("mine", None)
    assert point.key.custom is not None
    assert point.key.custom.file == OWN_FILE["file"]


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (builders.block(workers=[4], variants=[{"name": "x", "xla": True}]), "variant x is something else"),
        (own({**OWN_FILE, "file": "/models/other.py"}), "custom mine is something else"),
    ],
)
def test_one_name_is_one_thing(second: dict[str, Any], sentence: str) -> None:
    *first, last = points(builders.block(variants=[{"name": "x"}]), own(OWN_FILE), second)
    assert {point.skip for point in first} == {None}
    assert last.skip is not None
    assert last.skip.startswith(sentence)


@pytest.mark.parametrize(
    ("block", "measure", "sentence"),
    [
        (
            builders.block(data={**GENERATED, "samples": 127}, workers=[2]),
            {},
            "data.samples 127 are less than one global batch of 128: make more samples, or choose a smaller batch",
        ),
        (
            builders.block(workloads=["alexnet"], data=GENERATED, workers=[1]),  # its own number is 1
            {"mode": "Training", "timedRegion": {"firstEpoch": "Excluded"}},
            "alexnet trains 1 epoch, and measure.timedRegion.firstEpoch Excluded leaves nothing of it",
        ),
        (messages(precision=["mixed_bfloat16"]), {}, "allreduce sends float32, or float16 with mixed_float16"),
        (messages(precision=["tensor_float32"]), {}, "allreduce sends float32, or float16 with mixed_float16"),
        (
            messages(precision=["mixed_float16"], variants=[{"name": "x", "lossScaling": "Dynamic"}]),
            {},
            "variant x sets lossScaling, and allreduce trains nothing",
        ),
        (
            messages(variants=[{"name": "x", "learningRateScaling": "Linear"}]),
            {},
            "variant x sets learningRateScaling, and allreduce trains nothing",
        ),
        (messages(variants=[{"name": "x", "xla": True}]), {}, "variant x sets xla, and allreduce trains nothing"),
        (
            messages(variants=[{"name": "x", "communication": {"compression": "Float16"}}]),
            {},
            "variant x compresses what allreduce sends, and its bandwidth would count bytes that do not travel",
        ),
    ],
)
def test_what_cannot_be_trained_is_skipped_with_a_sentence(
    block: dict[str, Any], measure: dict[str, Any], sentence: str
) -> None:
    (point,) = builders.plan(builders.spec(block, measure=measure)).points
    assert point.skip is not None
    assert point.skip.startswith(sentence)


def test_messages_may_differ_in_how_they_are_sent() -> None:
    sent = [{"name": "one", "communication": {"fusionThresholdMib": 0, "cycleTimeMilliseconds": 1}}]
    found = points(messages(variants=sent, precision=["float32", "mixed_float16"]))
    assert [point.skip for point in found] == [None, None]


def test_a_set_of_one_global_batch_is_enough() -> None:
    (point,) = points(builders.block(data={**GENERATED, "samples": 128}, workers=[2]))
    assert point.skip is None


def test_a_gang_is_told_all_of_its_point() -> None:
    block = builders.block(
        workers=[2], data={**GENERATED, "samples": 1000}, variants=[{"name": "xla", "xla": True}], epochs=2
    )
    plan = builders.plan(builders.spec(block, measure={"mode": "Training", "timedRegion": {"evaluation": "Outside"}}))
    assignment = capacity.gang_of(plan, plan.trials[0], attempt=1).assignment
    (point,) = plan.points
    assert (assignment.mode, assignment.epochs) == (Mode.TRAINING, 2)
    assert (assignment.data, assignment.variant) == (point.key.data, point.key.variant)
    assert plan.timed_region.evaluation == "Outside"
    own_plan = builders.plan(builders.spec(own(OWN_FILE)))
    assert capacity.gang_of(own_plan, own_plan.trials[0], attempt=1).assignment.custom_file == OWN_FILE["file"]


def test_an_assignment_is_written_as_a_whole_and_reads_back() -> None:
    assignment = capacity.gang_of(plan := builders.plan(), plan.trials[0], attempt=1).assignment
    written = {"mode": "Throughput", "data": {"source": "Synthetic"}, "pin": True, "healthCheck": True}
    assert written.items() <= assignment.to_wire().items()
    assert Assignment.model_validate_json(assignment.to_json()) == assignment


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
    trials = expand.interleaved(found, repeats=3, seed=7)
    assert [trial.repeat for trial in trials] == [0] * 3 + [1] * 3 + [2] * 3
    for repeat in range(3):
        assert sorted(trial.point for trial in trials if trial.repeat == repeat) == [0, 1, 2]


def test_the_seed_alone_decides_the_order() -> None:
    found = points(builders.block(workers=[1, 2, 4], workloads=["mnist_cnn", "mnist_mlp"]))
    orders = {seed: expand.interleaved(found, repeats=3, seed=seed) for seed in range(5)}
    assert orders[3] == expand.interleaved(found, repeats=3, seed=3)
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


def test_a_plan_whose_repeats_may_end_early_has_its_confidences_from_the_beginning() -> None:
    until = {"min": 3, "max": 5, "until": {"relativeHalfWidth": "0.02"}}
    plan = builders.plan(builders.spec(measure={"repeats": until}))
    assert plan.strict is not None
    assert plan.strict == Strict.of(plan.repeats)
    assert builders.plan().strict is None


def test_a_plan_that_was_asked_for_its_trials_and_then_narrowed_forgets_those_that_are_gone() -> None:
    plan = builders.plan()
    gone = plan.trials[0]
    assert plan.point_by_trial[gone.id] == plan.points[plan.trial_by_id[gone.id].point]
    left = expand.narrowed(plan, lambda point: "no room" if point == plan.points[gone.point] else None)
    assert gone.id not in left.trial_by_id
    assert gone.id not in left.point_by_trial
