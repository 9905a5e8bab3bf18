# SPDX-License-Identifier: Apache-2.0
"""Training learns: by gpubench's own step, pipeline and evaluation, on generated samples, up to a bar.

The same runs with labels that belong to other samples, and on a set sorted by class that is not shuffled, must stay
below it; that other faults of a loop would miss it is not shown. Each case has the workload's own batch and optimizer;
text models get shorter inputs and, where their data decide it, a smaller vocabulary: that changes the cost and not the
way.

The deep networks take three steps on one batch of photographs, eagerly, which is cheaper than their graph; the costly
ones on smaller photographs, as far as their architecture has the same layers for them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpubench import workloads
from gpubench.workloads import Precision, Workload
from gpubench_jobs import models
from gpubench_jobs.data import generated, pipeline
from gpubench_jobs.data.pipeline import Held, Sets, Split, held_batch, streamed
from gpubench_jobs.worker import builder, epochs, train
from gpubench_jobs.worker.aggregate import HeldOut
from samples import CHARACTER_ENTROPY, Array

SEED = 5


@dataclass(frozen=True)
class Case:
    """What is enough to reach the bar: an accuracy, or where there is none a loss."""

    samples: int
    epochs: int
    bar: float
    input_shape: tuple[int, ...] | None = None


# Chance is 0.1 with ten classes and 0.5 with two. A text's loss is 0.85 when all is known and 4.04 when nothing is.
CASES = {
    "mnist_mlp": Case(samples=4_000, epochs=2, bar=0.8),
    "mnist_cnn": Case(samples=2_000, epochs=2, bar=0.8),
    "cifar10_cnn": Case(samples=1_500, epochs=2, bar=0.8),
    "imdb_bidirectional_lstm": Case(samples=2_000, epochs=2, bar=0.75, input_shape=(50,)),
    "imdb_fasttext": Case(samples=1_000, epochs=5, bar=0.75),
    "twitter_bilstm": Case(samples=2_000, epochs=2, bar=0.7, input_shape=(40,)),
    "lstm_text_generation": Case(samples=6_000, epochs=2, bar=1.8),
}
EACH = pytest.mark.parametrize("name", CASES)
# The side of the photographs where it is not the catalogue's. Of vgg the first dense layer is the smaller for it, and
# nothing of the others. inception4_finetune takes no smaller ones: its auxiliary head needs 17x17 places.
DEEP = {
    "trivial": None,
    "alexnet": None,
    "googlenet": None,
    "vgg16": 64,
    "vgg19": 64,
    "inception3": None,
    "inception4": 171,
    "inception4_finetune": None,
    "resnet50": None,
    "resnet50_v1.5": 96,
    "resnet101": 96,
    "resnet152": 96,
}
BATCHES = {"inception4_finetune": 1}  # in place of 2: seconds


@pytest.fixture(autouse=True)
def plainly() -> Iterator[None]:
    builder.use_precision(Precision.FLOAT32)
    yield
    tf.config.run_functions_eagerly(False)
    keras.backend.clear_session()


def prepared(name: str) -> tuple[Workload, Sets]:
    """The workload as its generated data have it."""
    case, workload = CASES[name], workloads.find(name)
    if case.input_shape is not None:
        workload = workload.model_copy(update={"input_shape": case.input_shape})
    sets = generated.generated_sets(workload, samples=case.samples, seed=SEED)
    if sets.vocabulary is not None:
        workload = workload.model_copy(update={"vocabulary": sets.vocabulary})
    return workload, sets


def trained(name: str, workload: Workload, training: Split, *, evaluation: Split | None, shuffle: bool) -> HeldOut:
    """What the model is worth on held_batch-out samples after the epochs of the case."""
    assert evaluation is not None
    models.seed(SEED)
    recipe = models.build_for(workload)
    batch, drop = workload.default_batch, recipe.drop_remainder
    steps = pipeline.steps_per_epoch(training.count, batch_per_worker=batch, workers=1, drop_remainder=drop)
    batches = pipeline.training_batches(
        training,
        batch_per_worker=batch,
        rank=0,
        workers=1,
        seed=SEED,
        augment=recipe.augment,
        drop_remainder=drop,
        shuffle=shuffle,
    )
    run = train.compile_run(recipe, streamed(batches, training.on_device), reduce=train.alone)
    run(steps * CASES[name].epochs).numpy()
    held_out = pipeline.evaluation_batches(evaluation, batch_per_worker=250, rank=0, workers=1)
    evaluation_of = epochs.Evaluation(recipe, held_out, workers=1, on_device=evaluation.on_device)
    return evaluation_of.run(batches_at_once=16, progress=lambda: None)


def reached(name: str, result: HeldOut) -> bool:
    bar = CASES[name].bar
    if result.accuracy is not None:
        return result.accuracy >= bar
    return result.loss is not None and result.loss <= bar


def arrays(split: Split) -> tuple[Array, Array]:
    batches = list(pipeline.evaluation_batches(split, batch_per_worker=500, rank=0, workers=1))
    inputs, labels = (np.concatenate([part[of].numpy() for part in batches]) for of in (0, 1))
    return split.on_device(tf.constant(inputs)).numpy(), labels


def held_arrays(inputs: Array, labels: Array) -> Held:
    samples, truths = tf.constant(inputs), tf.constant(labels)
    return Held(
        name="training",
        origin="a test",
        count=len(labels),
        batch_at=lambda places: (tf.gather(samples, places), tf.gather(truths, places)),
    )


@EACH
def test_a_workload_learns_what_can_be_learned(name: str) -> None:
    workload, sets = prepared(name)
    result = trained(name, workload, sets.training, evaluation=sets.evaluation, shuffle=True)
    assert reached(name, result), result
    assert result.loss is not None
    assert result.loss > 0
    if name == "lstm_text_generation":
        assert result.loss > CHARACTER_ENTROPY, "better than the source allows: it has seen these samples"


@EACH
def test_with_labels_of_other_samples_the_bar_is_missed(name: str) -> None:
    workload, sets = prepared(name)
    inputs, labels = arrays(sets.training)
    wrong = held_arrays(inputs, labels[np.random.default_rng(1).permutation(len(labels))])
    result = trained(name, workload, wrong, evaluation=sets.evaluation, shuffle=True)
    assert result.loss is not None, "no number"
    assert not reached(name, result), result


@EACH
def test_a_set_sorted_by_class_needs_the_shuffling(name: str) -> None:
    workload, sets = prepared(name)
    inputs, labels = arrays(sets.training)
    classes = labels.argmax(axis=1) if labels.shape[1] > 1 else labels[:, 0]
    order = np.argsort(classes, kind="stable")
    in_order = held_arrays(inputs[order], labels[order])
    result = trained(name, workload, in_order, evaluation=sets.evaluation, shuffle=False)
    assert not reached(name, result), result


def test_every_model_of_the_catalogue_is_here() -> None:
    assert {*CASES, *DEEP} == set(models.BUILDERS)


@pytest.mark.parametrize("name", DEEP)
def test_the_loss_of_a_deep_network_falls_on_photographs(name: str) -> None:
    tf.config.run_functions_eagerly(True)
    models.seed(3)  # with which the single number in the middle of `trivial` is above zero
    workload, side = workloads.find(name), DEEP[name]
    if side is not None:
        workload = workload.model_copy(update={"input_shape": (side, side, 3)})
    recipe = models.build_for(workload)
    sets = generated.generated_sets(workload, samples=4, seed=SEED)
    size = BATCHES.get(name, 2)
    batches = pipeline.training_batches(sets.training, batch_per_worker=size, rank=0, workers=1, seed=SEED)
    inputs, labels = next(iter(batches))
    run = train.compile_run(recipe, held_batch(sets.training.on_device(inputs), labels), reduce=train.alone)
    losses = [float(run(1)) for _ in range(3)]
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0], losses
