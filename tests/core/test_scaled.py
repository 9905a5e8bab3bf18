# SPDX-License-Identifier: Apache-2.0
"""The small form of a study: all of its workloads, nothing that two processor cores could not run, another name."""

from typing import Any

import pytest

import builders
from gpubench import names, workloads
from gpubench.api.sweep import Data, DataSource, SweepBlock
from gpubench.plan import expand

TRAINING = {"mode": "Training"}
VOLUME = {"source": "Volume", "path": "/data/mnist"}
TWO_SLOTS = builders.pool("here", slots_per_node=2, max_nodes=1)
GPUS = builders.pool(
    "gpus", slots_per_node=2, slot={"cpu": "1", "memory": "1Gi", "gpu_resource": "nvidia.com/gpu"}
)  # fmt: skip


def small(*blocks: dict[str, Any], scale: float = 0.01, **spec: Any) -> tuple[SweepBlock, ...]:
    return expand.scaled(builders.spec(*blocks, **spec), scale).sweep


def once(*blocks: dict[str, Any], pool: Any = TWO_SLOTS, **spec: Any) -> tuple[SweepBlock, ...]:
    return expand.each_once(builders.spec(*blocks, **spec), pool).sweep


@pytest.mark.parametrize(
    ("workload", "batch", "scale", "expected"),
    [
        ("mnist_cnn", 128, 0.01, 128),  # 3 x 0.011992 x 128 is 4.6 of 30 GMAC
        ("resnet50", 64, 0.01, 2),  # 30 / (3 x 3.858)
        ("vgg16", 64, 0.01, 1),  # one sample is already more
        ("resnet50", 64, 1.0, 64),
        ("mnist_cnn", 1, 0.0001, 1),
        ("allreduce", 256, 0.01, 256),
        ("allreduce", 16_777_216, 0.01, 1_000_000),
    ],
)
def test_a_batch_is_as_large_as_its_arithmetic_allows(workload: str, batch: int, scale: float, expected: int) -> None:
    (block,) = small(builders.block(workloads=[workload], batchPerWorker=[batch]), scale=scale)
    assert block.batch_per_worker == (expected,)


def test_batches_that_become_equal_are_one() -> None:
    (block,) = small(builders.block(workloads=["vgg16"], batchPerWorker=[16, 32, 64]))
    assert block.batch_per_worker == (1,)


def test_a_global_batch_stays_divisible_among_the_most_workers() -> None:
    (block,) = small(builders.block(workloads=["resnet50"], workers=[1, 2, 4], globalBatch=[256]))
    assert block.global_batch == (8,)


@pytest.mark.parametrize(
    ("workload", "data", "batch", "samples"),
    [
        ("mnist_mlp", VOLUME, 64, 600),  # of 60,000
        ("mnist_mlp", {"source": "Generated"}, 64, 600),
        ("mnist_mlp", {"source": "Generated", "samples": 100_000}, 64, 1000),
        ("mnist_mlp", VOLUME, 128, 1024),  # four global batches of two workers
        ("resnet50", VOLUME, 64, 259),  # 3,000 / (3 x 3.858) GMAC, not 12,812 of ImageNet
    ],
)
def test_real_files_become_a_few_generated_samples(
    workload: str, data: dict[str, Any], batch: int, samples: int
) -> None:
    block = builders.block(workloads=[workload], data=data, batchPerWorker=[batch], epochs=12)
    (found,) = small(block, measure=TRAINING)
    assert found.data == Data(source=DataSource.GENERATED, samples=samples)
    assert found.epochs == 1


@pytest.mark.parametrize(("samples", "expected"), [(100_000, 1000), (10_000, 512), (None, None)])
def test_samples_of_ones_own_workload_are_scaled_where_their_number_is_given(
    samples: int | None, expected: int | None
) -> None:
    """At least four global batches of two workers, whose batch of 64 stays as it is."""
    data = {"source": "Generated"} | ({"samples": samples} if samples else {})
    (found,) = small(builders.block(workloads=["Custom"], custom={"name": "mine", "file": "/own/model.py"}, data=data))
    assert (found.batch_per_worker, found.data) == ((64,), Data(source=DataSource.GENERATED, samples=expected))


def test_synthetic_data_stays() -> None:
    (block,) = small(builders.block())
    assert block.data == Data()
    assert block.epochs is None


def test_every_real_set_has_its_size() -> None:
    inputs = {workload.inputs for workload in workloads.CATALOGUE} - {workloads.Inputs.NONE}
    assert inputs <= set(workloads.TRAINING_SAMPLES)


def test_times_are_scaled_but_long_enough_to_measure() -> None:
    region = {"evaluation": "Outside", "firstEpoch": "Excluded"}
    spec = builders.spec(
        measure={"duration": "20m", "warmUp": "0s", "window": "10s", "timedRegion": region, "repeats": {"min": 5}}
    )
    measure = expand.scaled(spec, 0.01).measure
    assert (measure.duration, measure.warm_up, measure.window, measure.repeats.min) == ("12s", "0s", "1s", 1)
    assert expand.scaled(spec, 0.001).measure.duration == "5s"
    assert (measure.timed_region.evaluation, measure.timed_region.first_epoch) == ("Outside", "Included")


def test_a_warm_up_is_scaled_too() -> None:
    measure = expand.scaled(builders.spec(measure={"duration": "20m", "warmUp": "10m"}), 0.1).measure
    assert (measure.duration, measure.warm_up) == ("120s", "60s")


def test_the_global_batch_of_a_workload_that_runs_once_is_its_first() -> None:
    (found,) = once(builders.block(batchPerWorker=None, globalBatch=[32, 64]))
    assert found.global_batch == (32,)


def test_goals_and_prices_stay() -> None:
    goals = [{"name": "whole", "workload": "mnist_cnn", "samples": 60_000}]
    spec = builders.spec(goals=goals, currency="USD")
    found = expand.scaled(spec, 0.01)
    assert (found.goals, found.currency) == (spec.goals, "USD")


def test_each_workload_runs_once_on_the_most_workers_that_the_pool_holds() -> None:
    found = once(
        builders.block(workloads=["mnist_cnn", "mnist_mlp"], workers=[1], batchPerWorker=[16, 32]),
        builders.block(workloads=["mnist_cnn"], pools=["cpu", "other"], workers=[4, 8]),
    )
    assert [(block.workloads, block.workers, block.pools) for block in found] == [
        (("mnist_cnn",), (2,), ("here",)),
        (("mnist_mlp",), (1,), ("here",)),
    ]
    assert found[1].batch_per_worker == (16,)
    (one,) = once(builders.block(globalBatch=[32]), builders.block(globalBatch=[64]), builders.block())
    assert one.global_batch == (32,)


def test_other_data_and_variants_of_a_workload_stay() -> None:
    variants = [{"name": "a"}, {"name": "b", "xla": True}]
    found = once(builders.block(), builders.block(data=VOLUME), builders.block(variants=variants))
    assert [(block.data.source.value, len(block.variants or ())) for block in found] == [
        ("Synthetic", 0), ("Volume", 0), ("Synthetic", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pool", "block", "precision"),
    [
        (TWO_SLOTS, builders.block(precision=["mixed_float16", "float32"]), "float32"),
        (GPUS, builders.block(precision=["mixed_float16", "float32"]), "mixed_float16"),
        (
            TWO_SLOTS,
            builders.block(precision=["mixed_float16"], variants=[{"name": "d", "lossScaling": "Dynamic"}]),
            "mixed_float16",
        ),
    ],
)
def test_without_gpus_the_arithmetic_is_float32(pool: Any, block: dict[str, Any], precision: str) -> None:
    (found,) = once(block, pool=pool)
    assert [entry.value for entry in found.precision] == [precision]


def test_a_pod_of_mig_instances_has_one_worker() -> None:
    instances = builders.pool("cut", slots_per_node=7, accelerator="A100-MIG-1g.5gb", slot=GPUS.spec.slot)
    (found,) = once(builders.block(workers=[1, 4]), pool=instances)
    assert found.workers == (1,)


def test_workloads_that_differ_in_nothing_else_share_a_block() -> None:
    found = small(builders.block(workloads=["mnist_cnn", "resnet50", "mnist_mlp"]))
    assert [block.workloads for block in found] == [("mnist_cnn", "mnist_mlp"), ("resnet50",)]


def test_only_volumes_with_an_own_workload_stay() -> None:
    volumes = [
        {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "sets"}},
        {"name": "own", "mountPath": "/own", "configMap": {"name": "own"}},
    ]
    custom = {"name": "mine", "file": "/own/model.py"}
    spec = builders.spec(
        builders.block(data=VOLUME), builders.block(workloads=["Custom"], custom=custom), template={"volumes": volumes}
    )
    assert [volume.name for volume in expand.scaled(spec, 0.01).template.volumes] == ["own"]


@pytest.mark.parametrize("name", ["quick", "a" * 40, "a" * 33 + "-bcdefg"])
def test_its_name_says_what_it_is_and_is_short_enough(name: str) -> None:
    found = expand.scaled_name(name)
    assert found.endswith("-small")
    assert "--" not in found
    assert len(found) <= names.BENCHMARK_NAME_MAX


def test_the_pool_alone_changes_nothing_else() -> None:
    spec = builders.spec(builders.block(workers=[1, 8], precision=["mixed_float16"]))
    (block,) = expand.on_pool(spec, "here").sweep
    assert block == spec.sweep[0].model_copy(update={"pools": ("here",)})
