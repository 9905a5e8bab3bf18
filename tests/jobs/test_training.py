# SPDX-License-Identifier: Apache-2.0
"""The step as it learns, the timed loop as it measures. One process, no Horovod."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sessions
from gangs import make_assignment
from gpubench import workloads
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Precision
from gpubench_jobs import failures, models
from gpubench_jobs.data import generated
from gpubench_jobs.data.pipeline import Feed, streamed
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import LossNotFinite, RankError
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import builder, environment, train


def prepared(name: str) -> tuple[Recipe, Feed]:
    models.seed(3)
    built = models.build(name)
    return built, generated.synthetic_batch(workloads.find(name), batch=4, seed=3, dtype=built.network.compute_dtype)


@pytest.mark.parametrize(
    ("precision_name", "compute", "scale"),
    [
        (Precision.FLOAT32, "float32", 1.0),
        (Precision.TENSOR_FLOAT32, "float32", 1.0),
        (Precision.MIXED_BFLOAT16, "bfloat16", 1.0),
        (Precision.MIXED_FLOAT16, "float16", 128.0),
    ],
)
def test_a_precision_is_what_it_says(precision_name: Precision, compute: str, scale: float) -> None:
    builder.use_precision(precision_name)
    built, feed = prepared("mnist_mlp")
    assert built.network.layers[0].compute_dtype == compute
    assert {variable.dtype.name for variable in built.trainable} == {"float32"}
    assert builder.loss_scale(make_assignment(precision=precision_name)) == scale
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    assert tf32 == (precision_name is Precision.TENSOR_FLOAT32)
    loss = train.compile_run(built, feed, reduce=train.alone, loss_scale=scale)(2)
    assert math.isfinite(float(loss.numpy()))


@pytest.mark.parametrize("capability", [None, (7, 0), (7, 5), (0, 0)])
def test_tensor_float32_is_refused_where_it_would_be_float32(capability: tuple[int, int] | None) -> None:
    with pytest.raises(RankError, match="use precision float32") as caught:
        environment.require(Precision.TENSOR_FLOAT32, capability=capability)
    assert caught.value.exit_code is ExitCode.UNSUPPORTED_ACCELERATOR
    environment.require(Precision.FLOAT32, capability=capability)


@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0)])
def test_tensor_float32_is_taken_where_it_exists(capability: tuple[int, int]) -> None:
    environment.require(Precision.TENSOR_FLOAT32, capability=capability)


def test_the_first_weights_follow_from_the_seed() -> None:
    builder.use_precision(Precision.FLOAT32)

    def first_weights(seed: int) -> list[bytes]:
        models.seed(seed)
        return [variable.numpy().tobytes() for variable in models.build("mnist_cnn").trainable]

    assert first_weights(5) == first_weights(5)
    assert first_weights(5) != first_weights(6)


def test_the_loss_scale_leaves_the_step_as_it_was() -> None:
    builder.use_precision(Precision.FLOAT32)
    (plain, feed), (scaled, _) = (prepared("mnist_cnn") for _ in range(2))
    for variable, value in zip(scaled.trainable, plain.trainable, strict=True):
        variable.assign(value)
    train.compile_run(plain, feed, reduce=train.alone)(3)
    train.compile_run(scaled, feed, reduce=train.alone, loss_scale=128.0)(3)
    for one, other in zip(plain.trainable, scaled.trainable, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)  # a power of two rounds nothing; the order of sums may


@pytest.mark.parametrize("steps", [3, 4, 11])
@pytest.mark.parametrize("sum_losses", [False, True])
def test_steps_written_out_train_the_same_as_many_and_lose_as_much(steps: int, sum_losses: bool) -> None:
    builder.use_precision(Precision.FLOAT32)
    weights, losses = [], []
    for steps_per_turn in (1, 4):
        built, feed = prepared("mnist_mlp")
        run = train.compile_run(built, feed, reduce=train.alone, sum_losses=sum_losses)
        run.unroll(steps_per_turn)
        losses.append(float(run(steps).numpy()))
        weights.append([variable.numpy() for variable in built.trainable])
        assert int(built.optimizer.iterations) == steps
    assert losses[0] == losses[1]
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_synthetic_labels_of_imagenet_are_redrawn_and_leave_out_the_last_class() -> None:
    first, second = (generated.imagenet_labels(batch=20_000, seed=1, step=tf.constant(n)).numpy() for n in (0, 1))
    assert not np.array_equal(first, second)
    assert (first.min(), first.max()) == (0, 999)
    images = generated.imagenet_images((8, 8, 3), batch=500, seed=1, dtype=tf.float16)
    assert images.dtype == tf.float16
    assert abs(float(tf.reduce_mean(tf.cast(images, tf.float32))) - 127) < 1
    assert float(tf.reduce_max(images)) <= 127 + 2 * 60 + 1  # truncated at two deviations


def ticking(*moments: int) -> Iterator[int]:
    yield from moments


def test_windows_lie_back_to_back_in_integer_nanoseconds() -> None:
    moments = ticking(100, 150, 420, 1000)
    loop: Any = sessions.Loop(lambda _: 0.0)
    windows = list(train.time_windows(loop, 3, steps=10, now=lambda: next(moments)))
    assert [window.nanoseconds for window in windows] == [50, 270, 580]  # which is 1000 - 100: nothing went unmeasured
    assert (loop.calls, loop.steps) == (3, 30)
    assert {window.samples for window in windows} == {10 * sessions.BATCH}


def test_an_epochs_loss_weighs_every_sample_alike() -> None:
    """33 samples in batches of 32 and 1, of which the single one is far off."""
    builder.use_precision(Precision.FLOAT32)
    recipe = models.build("mnist_mlp")
    of_each = [0.0] * 32 + [66.0]
    samples = tf.data.Dataset.from_tensor_slices((tf.zeros((33, 784)), tf.constant(of_each)))
    recipe = replace(recipe, loss=lambda labels, outputs: tf.reduce_mean(labels) + 0.0 * tf.reduce_sum(outputs))
    loop = train.compile_run(recipe, streamed(samples.batch(32)), reduce=train.alone, sum_losses=True)
    total = loop(2)
    assert total.dtype == tf.float64
    assert (int(loop.samples), float(total) / 33) == (33, 2.0)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_ends_the_rank_after_its_window_is_recorded(loss: float) -> None:
    loop = sessions.Loop(lambda _: 0.1, loss_of=lambda steps: loss if steps == 2 else 0.5)
    with sessions.drained() as sink:
        rank = sessions.make_session(loop, sink=sink)
        rank.run_windows(1, steps=1)
        with pytest.raises(LossNotFinite, match=f"the loss was {loss} after window 1 of some"):
            rank.run_windows(2, steps=2, place=" of some")
    assert [(window.index, window.steps) for window in rank.windows] == [(0, 1), (1, 2)]


LOWER = "lower the learning rate in /pods/mine.py"
SCALED = {"name": "fast", "learning_rate_scaling": "Linear"}
WIRE = {"name": "wire", "communication": {"compression": "Float16"}}


@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ({}, "the learning rate of mnist_mlp may not suit this batch: choose another batch"),
        ({"custom_file": "/pods/mine.py"}, LOWER),
        ({"variant": SCALED}, "the learning rate of mnist_mlp may not suit this batch: choose another batch"),
        ({"variant": SCALED, "workers": 2}, "set learningRateScaling of variant fast to None (it is Linear)"),
        ({"precision": "mixed_float16"}, "choose a precision with a larger range than mixed_float16"),
        ({"variant": WIRE, "workers": 2}, "set communication.compression of variant wire to None"),
        (
            {"custom_file": "/pods/mine.py", "precision": "mixed_float16"},
            f"{LOWER}, or choose a precision with a larger range than mixed_float16",
        ),
    ],
)
def test_what_to_do_about_a_loss_that_is_not_finite_is_what_the_study_can_change(
    fields: dict[str, object], remedy: str
) -> None:
    explained = failures.explain(LossNotFinite("the loss was nan"), make_assignment(**fields))
    assert (explained.exit_code, explained.sentence) == (ExitCode.LOSS_NOT_FINITE, f"the loss was nan: {remedy}")


@pytest.mark.usefixtures("horovod")
def test_a_gang_of_another_size_is_refused() -> None:
    try:
        with pytest.raises(RankError, match="1 ranks in place of 2") as caught:
            horovod.connect(workers=2)  # without HOROVOD_ variables Horovod is silently rank 0 of 1
    finally:
        horovod.disconnect()
    assert caught.value.exit_code is ExitCode.SIZE_MISMATCH


#: As TensorFlow 2.18 words it when two operations fail in one step.
TWO_ROOTS = """Graph execution error:

Detected at node one defined at (most recent call last):
  File "/a.py", line 3, in <module>
    step()
    ^^^^^^
Detected at node other defined at (most recent call last):
<stack traces unavailable>
2 root error(s) found.
  (0) INVALID_ARGUMENT:  bad label
\t [[{{node one}}]]
  (1) CANCELLED:  bad luck
0 successful operations."""


def test_a_sentence_is_one_line() -> None:
    assert RankError(ExitCode.WORKER_RAISED, "this\n  and that\n").sentence == "this and that"


def test_what_a_rank_raises_is_explained() -> None:
    assignment = make_assignment(batch_per_worker=4096)
    table = [
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), ExitCode.OUT_OF_MEMORY, "batch of 4096"),
        (MemoryError(), ExitCode.OUT_OF_MEMORY, "lower the batch"),
        (tf.errors.UnknownError(None, None, "HorovodAllreduce: Connection reset by peer"), ExitCode.PEER_LOST, "reset"),
        (tf.errors.UnknownError(None, None, "cuDNN failed"), ExitCode.WORKER_RAISED, "UnknownError: cuDNN failed"),
        (ValueError("Graph execution error:\n\nbad shape\n"), ExitCode.WORKER_RAISED, "ValueError: bad shape"),
        (ValueError(TWO_ROOTS), ExitCode.WORKER_RAISED, "ValueError: bad label"),
        (ImportError("libfoo.so.1"), ExitCode.WORKER_RAISED, "libfoo.so.1"),
    ]
    for error, code, words in table:
        explained = failures.explain(error, assignment)
        assert (explained.exit_code, words in explained.sentence) == (code, True), explained
    gpu = assignment.model_copy(update={"gpu": True})
    assert failures.explain(ImportError("libcudart.so"), gpu).exit_code is ExitCode.UNSUPPORTED_ACCELERATOR
