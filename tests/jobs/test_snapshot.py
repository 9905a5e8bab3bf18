# SPDX-License-Identifier: Apache-2.0
"""A rank's state as bytes and back: every variable in its place, whatever its type."""

import random
from collections.abc import Callable

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpubench_jobs.data.pipeline import streamed
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import builder, checkpointer, train


def state(*, order: int = 0) -> checkpointer.TrainingState:
    """Seeds of one form, which a traced graph names in any order."""
    learned = [tf.Variable([[1.5, 2.5], [3.5, 4.5]]), tf.Variable(7, dtype=tf.int64)]
    moving = [tf.Variable([0.25, 0.5], dtype=tf.bfloat16), tf.Variable(True)]
    seeds = [tf.Variable([number, 10 * number], dtype=tf.uint32) for number in range(9)]
    traced = [*learned, *moving, *seeds]
    random.Random(order).shuffle(traced)
    return checkpointer.TrainingState(learned, [*learned, *moving], lambda: traced)


def values_of(one: checkpointer.TrainingState) -> list[object]:
    return [variable.numpy().tolist() for variable in (*one.learned, *one.others())]


def test_a_state_comes_back_as_it_was_in_whichever_order_a_graph_names_its_variables() -> None:
    kept = state(order=1)
    arrays, values = checkpointer.take_snapshot(kept, rank=0, workers=1)
    content = b"".join(bytes(value) for value in values())
    later = state(order=2)
    for variable in (*later.learned, *later.others()):
        variable.assign(tf.zeros_like(variable))
    assert checkpointer.fits(later, arrays)
    checkpointer.restore_variables(later, arrays, content, rank=0, workers=1)
    assert values_of(later) == values_of(state())
    assert [variable.numpy()[0] for variable in later.others()[2:]] == list(np.arange(9))


def test_a_model_of_another_form_does_not_fit() -> None:
    arrays, _ = checkpointer.take_snapshot(state(), rank=0, workers=1)
    other = state()
    wider = checkpointer.TrainingState(
        [tf.Variable([[1.0, 2.0, 3.0]]), other.learned[1]], other.persistent[2:], other.of_a_step
    )
    assert not checkpointer.fits(wider, arrays)


def training(
    optimizer: keras.optimizers.Optimizer, *, first_batch: int
) -> tuple[train.Loop, checkpointer.TrainingState]:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)]
    recipe = Recipe(
        network=keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(2, dtype="float32")]),
        optimizer=optimizer,
        loss=lambda labels, outputs: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        ),
    )
    inputs = tf.random.stateless_normal((40, 4), seed=(1, 2))
    batches = tf.data.Dataset.from_tensor_slices((inputs, tf.cast(inputs[:, 0] > 0, tf.int32)))
    feed = streamed(batches.repeat().batch(8).skip(first_batch))
    run = train.compile_run(recipe, feed, reduce=train.alone, sum_losses=True)
    return run, checkpointer.TrainingState(recipe.learned, recipe.persistent, run.variables)


OPTIMIZERS: dict[str, tuple[str, Callable[[], keras.optimizers.Optimizer]]] = {
    "AdamW with averages": ("float32", lambda: keras.optimizers.AdamW(0.01, amsgrad=True, use_ema=True)),
    "accumulated": ("float32", lambda: keras.optimizers.SGD(0.1, momentum=0.9, gradient_accumulation_steps=4)),
    "accumulated and scaled": (
        "mixed_float16",
        lambda: builder.DynamicLossScale(keras.optimizers.Adam(0.01, gradient_accumulation_steps=4)),
    ),
}


@pytest.mark.parametrize("how", list(OPTIMIZERS))
def test_a_training_goes_on_bit_for_bit_after_a_step_that_nothing_stays_of(how: str) -> None:
    """Six steps, of which two are in an accumulated gradient, then seven in another process that had its first step."""
    policy, optimizer = OPTIMIZERS[how]
    keras.config.set_dtype_policy(policy)
    try:
        undisturbed, expected = training(optimizer(), first_batch=0)
        undisturbed(13)
        first, before = training(optimizer(), first_batch=0)
        first(6)
        arrays, values = checkpointer.take_snapshot(before, rank=0, workers=1)
        content = b"".join(bytes(value) for value in values())
        second, after = training(optimizer(), first_batch=5)
        assert checkpointer.fits(after, arrays)
        second(1)
        checkpointer.restore_variables(after, arrays, content, rank=0, workers=1)
        second(7)
    finally:
        keras.config.set_dtype_policy("float32")
    assert values_of(after) == values_of(expected)
