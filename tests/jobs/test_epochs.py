# SPDX-License-Identifier: Apache-2.0
"""Mode Training: every step of an epoch once, every held-out sample once, sums that a reader can check."""

import json
import math
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import sessions
from gangs import Pods, make_assignment
from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench_jobs.data import pipeline
from gpubench_jobs.failures import LossNotFinite, RankError
from gpubench_jobs.models.recipe import Recipe, right_class
from gpubench_jobs.worker import builder, epochs, session

TRAINING = {"mode": "Training", "data": {"source": "Generated", "samples": 501}}


#: Of every step but the first, which is traced and takes a hundred times that.
STEP_SECONDS = 0.01


@pytest.fixture
def sink() -> Iterator[int]:
    """Where a rank's records go."""
    with sessions.drained() as writer:
        yield writer


def make_session(
    loss_of: Callable[[int], float],
    *,
    sink: int,
    step_seconds: float = STEP_SECONDS,
    measure_seconds: float = 0.3,
) -> session.Session:
    """One rank, whose calls of one or many steps have such a sum of losses."""
    loop = sessions.Loop(lambda call: step_seconds * (1 if call else 100), loss_of=loss_of)
    return sessions.make_session(loop, sink=sink, measure_seconds=measure_seconds)


@pytest.mark.parametrize(
    ("step_seconds", "measure_seconds", "turns"),
    [
        (0.05, 600.0, []),  # a step that is long
        (0.025, 600.0, [10]),
        (0.01, 600.0, [10]),
        (0.01, 20.0, [3]),  # tracing took a second, and may take a sixth of this
        (0.01, 10.0, []),
    ],
)
def test_short_steps_are_written_out_as_far_as_tracing_them_is_worth_it(
    sink: int, step_seconds: float, measure_seconds: float, turns: list[int]
) -> None:
    rank = make_session(
        lambda count: 0.5 * sessions.BATCH * count,
        sink=sink,
        step_seconds=step_seconds,
        measure_seconds=measure_seconds,
    )
    rank.first_step()
    assert rank.calibrate() == round(0.1 / step_seconds)
    assert isinstance(rank.run, sessions.Loop)
    assert rank.run.turns == turns


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 469])
def test_windows_cover_each_epoch_without_a_gap_or_an_overlap(sink: int, steps: int) -> None:
    rank = make_session(lambda count: 0.5 * sessions.BATCH * count, sink=sink)
    done = epochs.run_epochs(rank, epochs.EpochPlan(epochs=3, steps=steps, samples=7, evaluation=None))
    assert [epoch.index for epoch in done] == [0, 1, 2]
    assert sum(window.steps for window in rank.windows) == 3 * steps
    assert [window.index for window in rank.windows] == list(range(len(rank.windows)))
    assert {epoch.loss for epoch in done} == {0.5}
    assert [epoch.nanoseconds for epoch in done] == [
        (steps + 99) * 10_000_000,  # tracing is in the first epoch
        steps * 10_000_000,
        steps * 10_000_000,
    ]
    assert sum(window.nanoseconds for window in rank.windows) == sum(epoch.nanoseconds for epoch in done)
    assert (done[0].evaluation_loss, done[0].accuracy) == (None, None)


def test_an_evaluation_takes_its_own_time(sink: int) -> None:
    rank = make_session(lambda count: 0.5 * sessions.BATCH * count, sink=sink)

    def evaluate(**_: object) -> None:
        assert isinstance(rank.run, sessions.Loop)
        rank.run.now += 3_000_000_000

    held_out: Any = types.SimpleNamespace(run=evaluate)
    done = epochs.run_epochs(rank, epochs.EpochPlan(epochs=2, steps=10, samples=7, evaluation=held_out))
    assert [one.evaluation_nanoseconds for one in done] == [3_000_000_000] * 2
    assert done[1].nanoseconds == round(10 * STEP_SECONDS * 1e9)


def test_a_window_is_as_long_as_it_was_asked_for_once_the_pace_is_known(sink: int) -> None:
    rank = make_session(lambda count: 0.5 * sessions.BATCH * count, sink=sink)
    epochs.run_epochs(rank, epochs.EpochPlan(epochs=2, steps=469, samples=7, evaluation=None))
    assert {window.steps for window in rank.windows[-20:-1]} == {10}  # 0.1 s of steps of 0.01 s
    assert rank.windows[0].steps == 1  # tracing is not taken for a long step


def test_a_loss_that_is_not_finite_names_the_epoch(sink: int) -> None:
    taken = []

    def loss_of(count: int) -> float:
        taken.append(count)
        return math.nan if sum(taken) > 25 else 1.0 * count

    with pytest.raises(LossNotFinite, match="in epoch 3 of 4"):
        epochs.run_epochs(
            make_session(loss_of, sink=sink), epochs.EpochPlan(epochs=4, steps=10, samples=10, evaluation=None)
        )


def classifier() -> Recipe:
    keras.utils.set_random_seed(2)
    network = keras.Sequential([keras.Input((5,)), keras.layers.Dropout(0.5), keras.layers.Dense(3)])
    return Recipe(
        network=network,
        optimizer=keras.optimizers.SGD(),
        loss=lambda labels, outputs: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        ),
        correct=right_class,
    )


@pytest.mark.parametrize("batches_at_once", [1, 2, 3, 100])
def test_every_held_out_sample_counts_once_and_a_small_batch_for_what_it_holds(batches_at_once: int) -> None:
    keras.config.set_dtype_policy("float32")
    recipe = classifier()
    inputs, labels = tf.random.stateless_normal((10, 5), seed=(1, 2)), tf.constant([0, 1, 2, 0, 1, 2, 0, 1, 2, 0])
    held_out = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(4)
    found = epochs.Evaluation(recipe, held_out, workers=1).run(batches_at_once=batches_at_once, progress=lambda: None)
    outputs = recipe.network(inputs, training=False).numpy()
    exponentials = np.exp(outputs - outputs.max(axis=1, keepdims=True))
    likelihoods = (exponentials / exponentials.sum(axis=1, keepdims=True))[np.arange(10), labels.numpy()]
    assert found.accuracy == np.mean(outputs.argmax(axis=1) == labels.numpy())
    assert found.samples == 10
    assert found.loss == pytest.approx(-np.log(likelihoods).mean(), rel=1e-5)


def test_a_held_out_loss_that_is_not_finite_is_left_out_where_an_accuracy_speaks() -> None:
    keras.config.set_dtype_policy("float32")
    recipe = replace(classifier(), loss=lambda *_: tf.constant(math.inf))
    held_out = tf.data.Dataset.from_tensor_slices((tf.zeros((4, 5)), tf.zeros(4, tf.int32))).batch(4)
    found = epochs.Evaluation(recipe, held_out, workers=1).run(batches_at_once=1, progress=lambda: None)
    assert found.loss is None
    assert found.accuracy is not None
    without = epochs.Evaluation(replace(recipe, correct=None), held_out, workers=1)
    with pytest.raises(LossNotFinite, match="loss on held-out samples was inf"):
        without.run(batches_at_once=1, progress=lambda: None)


def test_held_out_batches_without_a_sample_are_told_so() -> None:
    keras.config.set_dtype_policy("float32")
    nothing = tf.data.Dataset.from_tensor_slices((tf.zeros((4, 5)), tf.zeros(4, tf.int32))).batch(4).take(0)
    with pytest.raises(RankError, match="held_out without a sample") as caught:
        epochs.Evaluation(classifier(), nothing, workers=1).run(batches_at_once=1, progress=lambda: None)
    assert caught.value.exit_code is ExitCode.CUSTOM_MODEL_FAILED


@pytest.mark.parametrize(("mode", "steps"), [("Throughput", [8, 8, 8]), ("Training", [8, 4, 8])])
def test_a_throughput_is_of_whole_batches_and_an_epoch_of_all_samples(mode: str, steps: list[int]) -> None:
    """A throughput counts steps times the batch: 12 samples must not be counted as 16."""
    keras.config.set_dtype_policy("float32")
    assignment = make_assignment(mode=mode, data={"source": "Generated", "samples": 12})
    material = builder._material(assignment, rank=0, seed=1, progress=lambda: None)
    drawn = [material.feed.draw(material.feed.state, tf.constant(0)) for _ in steps]
    assert [len(labels) for _, labels in drawn] == steps


@pytest.mark.parametrize(("workers", "samples"), [(1, 53), (2, 52), (4, 52)])
def test_an_epoch_of_a_gang_has_as_many_samples_for_each_rank(workers: int, samples: int) -> None:
    keras.config.set_dtype_policy("float32")
    assignment = make_assignment(mode="Training", workers=workers, data={"source": "Generated", "samples": 53})
    plan = builder._material(assignment, rank=0, seed=1, progress=lambda: None).plan
    assert plan is not None
    assert (plan.samples, plan.steps) == (samples, math.ceil(samples / (8 * workers)))


def test_a_test_set_without_a_sample_is_refused() -> None:
    keras.config.set_dtype_policy("float32")
    empty = pipeline.Held(name="evaluation", origin="/data", count=0, batch_at=lambda _: (tf.zeros(0), tf.zeros(0)))
    with pytest.raises(RankError, match="the evaluation set of /data has no samples") as caught:
        builder._evaluation(classifier(), empty, assignment=make_assignment(), rank=0)
    assert caught.value.exit_code is ExitCode.DATA_UNUSABLE


@pytest.mark.usefixtures("horovod")
def test_two_pods_train_whole_epochs_and_agree_on_how_good_the_model_is(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, epochs=2, **TRAINING))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:] + second.log[-2000:]
    told = first.wrote.of_kind(records.Epoch)
    assert [epoch.index for epoch in told] == [0, 1]
    assert not any('"kind":"epoch"' in line for line in second.lines)
    assert {(epoch.steps, epoch.samples) for epoch in told} == {(32, 500)}  # 31 of 16 samples, one of 4; one left out
    result = first.result
    assert (result.samples, result.steps) == (1000, 64)
    assert result.nanoseconds == sum(epoch.nanoseconds for epoch in told)
    training = result.training
    assert training is not None
    assert (training.epochs, training.metric, training.first_samples) == (2, "accuracy", 500)
    assert training.final == told[-1].accuracy
    assert training.best == max(epoch.accuracy or 0.0 for epoch in told)
    assert training.loss == told[-1].loss < told[0].loss
    assert (training.nanoseconds, training.first_nanoseconds) == (result.nanoseconds, told[0].nanoseconds)
    assert training.evaluation_nanoseconds == sum(epoch.evaluation_nanoseconds for epoch in told) > 0
    assert {epoch.evaluation_samples for epoch in told} == {100}  # none counted twice, none left out


@pytest.mark.usefixtures("horovod")
def test_steps_for_a_given_time_can_be_fed_by_a_data_set(pods: Pods) -> None:
    pod = pods.start(make_assignment(data={"source": "Generated", "samples": 64}))
    assert pod.wait() == 0, pod.log[-2000:]
    assert pod.result.samples == pod.result.steps * 8
    assert pod.result.training is None
    kinds = {json.loads(line)["kind"] for line in pod.lines}
    assert kinds == {"environment", "window", "usage", "result"}


@pytest.mark.usefixtures("horovod")
def test_training_on_samples_that_cannot_be_learned_is_refused(pods: Pods) -> None:
    pod = pods.start(make_assignment(mode="Training"))
    assert pod.wait() == ExitCode.BAD_ASSIGNMENT
    assert "set data.source to Generated or Volume" in pod.failure.sentence
