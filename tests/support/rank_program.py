# SPDX-License-Identifier: Apache-2.0
"""One real Horovod rank that trains each case for some steps and keeps its weights in a file. Run by test_reduction.

Ranks begin with weights of their own, so that the initial broadcast is needed as well. Where a workload is too large
for seconds its own builder is given smaller samples or a smaller vocabulary; where that is not enough (ImageNet's
networks) a small stand-in has what matters to a reduction: its loss, its optimizer, batch normalisation or none.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gangs import make_assignment
from gpubench import workloads
from gpubench.api.sweep import Communication, Variant
from gpubench.plan.assignment import Assignment
from gpubench.workloads import Precision
from gpubench_jobs import models
from gpubench_jobs.data import generated
from gpubench_jobs.data.pipeline import Feed, streamed
from gpubench_jobs.engines import horovod
from gpubench_jobs.models import recipe, tf_cnn_benchmarks
from gpubench_jobs.models.recipe import FusedBatchNormalization
from gpubench_jobs.worker import builder, epochs, train

RANKS = 2
#: The step in which one rank's samples overflow, in the case that is about that.
OVERFLOW_STEP, OVERFLOW_RANK = 1, 1


@dataclass(frozen=True)
class Case:
    """A model, small enough for seconds; `reduce` off shows that the check can fail."""

    name: str
    model: str
    precision: Precision = Precision.FLOAT32
    variant: Variant | None = None
    batch: int = 4
    steps: int = 3
    reduce: bool = True
    overflow: bool = False
    #: Largest difference of a weight from the single process. At most 3.7e-7 was measured (text-generation), mostly
    #: 5e-8; the slack is for processors that sum in another order. What the steps change is 1e-4 and more.
    tolerance: float = 1e-6

    @property
    def assignment(self) -> Assignment:
        return make_assignment(
            workload="mnist_mlp",
            precision=self.precision,
            variant=self.variant,
            workers=RANKS,
            batch_per_worker=self.batch,
        )


FLOAT16_WIRE = Variant(name="wire", communication=Communication(compression="Float16"))
THREE_GROUPS = Variant(name="groups", communication=Communication(groups=3))
XLA = Variant(name="xla", xla=True)
CASES = (
    Case(name="dropout", model="mnist_mlp"),
    Case(name="convolution", model="mnist_cnn"),
    Case(name="augmented", model="cifar10_cnn"),
    Case(name="embedding-lstm", model="imdb_bidirectional_lstm"),
    Case(name="embedding-mean", model="imdb_fasttext"),
    Case(name="text-generation", model="lstm_text_generation"),
    Case(name="batch-norm", model="normalised"),
    Case(name="no-batch-norm", model="plain"),
    Case(name="three-groups", model="normalised", variant=THREE_GROUPS),
    Case(name="two-heads", model="two-heads"),
    # Those with float16 learn by plain SGD: its rounding differs between the graphs compared here, and RMSprop makes
    # a step of the learning rate out of any gradient, however small.
    Case(name="scaled-loss", model="plain", precision=Precision.MIXED_FLOAT16),
    # 3.5e-6 was measured: a gradient is rounded to 11 bits on its way.
    Case(name="float16-wire", model="plain", variant=FLOAT16_WIRE, tolerance=7e-5),
    Case(
        name="overflow",
        model="plain",
        precision=Precision.MIXED_FLOAT16,
        variant=Variant(name="dynamic", loss_scaling="Dynamic"),
        steps=4,
        overflow=True,
    ),
    Case(name="xla", model="mnist_mlp", variant=XLA),
    Case(name="xla-embedding", model="imdb_fasttext", variant=XLA),
    Case(name="lost-gradients", model="mnist_mlp", reduce=False),
    Case(name="lost-rows", model="imdb_fasttext", reduce=False),
)
#: The catalogue's workloads with samples that make them small; repeated words are what embeddings are tested for.
SMALLER: dict[str, dict[str, object]] = {
    "imdb_bidirectional_lstm": {"vocabulary": 40, "input_shape": (8,)},
    "imdb_fasttext": {"vocabulary": 60, "input_shape": (30,)},
    "lstm_text_generation": {"input_shape": (10, 57)},
}


def build(case: Case, *, rank: int) -> tuple[recipe.Recipe, Feed]:
    """The recipe of a rank, with samples, dropout seeds and first weights of its own."""
    builder.use_precision(case.precision)
    models.seed(100 + rank)
    built, workload = _built(case)
    feed = generated.synthetic_batch(
        workload, batch=case.batch, seed=1000 * (rank + 1), dtype=built.network.compute_dtype
    )
    if case.overflow:
        feed = _overflowing(feed, rank=rank)
    if built.augment is not None:
        feed = _augmented(feed, built.augment, rank=rank)
    return builder.apply_variant(built, case.assignment), feed


def _built(case: Case) -> tuple[recipe.Recipe, workloads.Workload]:
    if case.model in STAND_INS:
        small = workloads.find("resnet50").model_copy(update={"input_shape": (16, 16, 3)})
        return STAND_INS[case.model](), small
    workload = workloads.find(case.model).model_copy(update=SMALLER.get(case.model, {}))
    return models.build_for(workload), workload


def _augmented(feed: Feed, augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], *, rank: int) -> Feed:
    """Changed at random in every step, on each rank in another way."""

    def draw(state: tuple[Any, ...], step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, labels = feed.draw(state, step)
        return augment(inputs, tf.stack((tf.constant(rank, tf.int64), tf.cast(step, tf.int64)))), labels

    return replace(feed, draw=draw)


def _overflowing(feed: Feed, *, rank: int) -> Feed:
    """A stream of batches, one of which has infinite numbers in it on one rank. Steps that are left out count here."""
    inputs, labels = feed.draw(feed.state, tf.constant(0))

    def batch(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        broken = tf.logical_and(step == OVERFLOW_STEP, rank == OVERFLOW_RANK)
        return tf.where(broken, tf.constant(np.inf, inputs.dtype), inputs), labels

    return streamed(tf.data.Dataset.counter().map(batch))


def normalised() -> recipe.Recipe:
    """Batch normalisation and redrawn labels, as in resnet50, without its depth.

    resnet50 itself is too sensitive on a few small images: in two steps a rounding of 1e-7 became 4 in a weight. No
    relu either: a normalised zero falls to one side or the other by rounding, and a gradient with it.
    """
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Rescaling(1 / 127, offset=-1),
            layers.Conv2D(8, 3, strides=2, use_bias=False),
            FusedBatchNormalization(momentum=0.9, epsilon=1e-5),
            layers.Activation("softplus"),
            layers.Conv2D(16, 3, use_bias=False),
            FusedBatchNormalization(momentum=0.9, epsilon=1e-5),
            layers.Activation("softplus"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1001),
        ]
    )
    return replace(tf_cnn_benchmarks.recipe(network, learning_rate=0.1), correct=recipe.right_class)


def plain() -> recipe.Recipe:
    """Convolutions with biases and dense layers, as alexnet and the vggs, without their millions of parameters."""
    layers = keras.layers
    image = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 5, strides=2, activation="relu")(layers.Rescaling(1 / 127, offset=-1)(image))
    x = layers.MaxPooling2D(2)(layers.Conv2D(16, 3, padding="same", activation="relu")(x))
    x = tf_cnn_benchmarks.dense(layers.Flatten()(x), 32)
    return tf_cnn_benchmarks.recipe(keras.Model(image, tf_cnn_benchmarks.logits(x, classes=1001)), learning_rate=0.05)


def two_heads() -> recipe.Recipe:
    """Two outputs in one loss, momentum, an epsilon of one and a falling rate, as inception4_finetune has them."""
    layers = keras.layers
    image = keras.Input((16, 16, 3))
    x = layers.Conv2D(8, 3, strides=2, use_bias=False)(layers.Rescaling(1 / 127, offset=-1)(image))
    x = layers.Activation("relu")(FusedBatchNormalization(momentum=0.9997, scale=False)(x))
    auxiliary = layers.Dense(1001)(layers.GlobalMaxPooling2D()(x))
    head = layers.Dense(1001)(layers.Dropout(0.2)(layers.GlobalAveragePooling2D()(x)))
    network = keras.Model(image, [head, auxiliary])

    def loss(labels: tf.Tensor, outputs: list[tf.Tensor]) -> tf.Tensor:
        first, second = (
            tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=one)) for one in outputs
        )
        return first + 0.4 * second

    falling = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=1, decay_rate=0.94, staircase=True)
    return recipe.Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=falling, rho=0.9, momentum=0.9, epsilon=1.0),
        loss=loss,
        correct=lambda labels, outputs: recipe.right_class(labels, outputs[0]),
    )


STAND_INS: dict[str, Callable[[], recipe.Recipe]] = {"normalised": normalised, "plain": plain, "two-heads": two_heads}


def weights(built: recipe.Recipe) -> dict[str, Any]:
    return {str(n): variable.numpy() for n, variable in enumerate(built.trainable)}


def words(rank: int) -> str:
    """Of another length on each rank, shortest on the first, with a line break in it and letters of two bytes."""
    return "größe\n" * (1 + 2 * rank)


def rows(rank: int) -> tf.IndexedSlices:
    """A gradient of three and of two rows of a table of a hundred million, one row in common."""
    indices = ([7, 3, 99_999_999], [7, 11])[rank]
    values = [[float(10 * rank + n), 1.0] for n in range(len(indices))]
    return tf.IndexedSlices(
        tf.constant(values), tf.constant(indices, tf.int64), tf.constant([100_000_000, 2], tf.int64)
    )


HELD_OUT = 9


#: Those that the model answers right. Ranks take turns: the first has three of five, the second one of four.
RIGHT = (0, 2, 4, 1)


def held_out(built: recipe.Recipe) -> tuple[tf.Tensor, tf.Tensor]:
    """Images, and labels that are right or wrong by the model as it is."""
    images = tf.random.stateless_normal((HELD_OUT, 16, 16, 3), seed=(5, 5), mean=127.0, stddev=60.0)
    answers = tf.argmax(built.network(images, training=False), axis=-1, output_type=tf.int32)
    right = tf.reduce_any(tf.range(HELD_OUT)[:, None] == tf.constant(RIGHT), axis=1)
    return images, tf.where(right, answers, (answers + 1) % 1001)


def _share(built: recipe.Recipe, *, rank: int) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(held_out(built)).shard(RANKS, rank).batch(2)


def evaluated(built: recipe.Recipe, *, rank: int) -> dict[str, object]:
    """What a rank says of the gang's model, and the moving statistics that it went by."""
    before = [weight.value.numpy().tolist() for weight in built.network.non_trainable_weights]
    epochs.Evaluation(built, _share(built, rank=rank), workers=RANKS).run(batches_at_once=2, progress=lambda: None)
    # From here on all ranks have one model, and so the same right answers.
    found = epochs.Evaluation(built, _share(built, rank=rank), workers=RANKS).run(
        batches_at_once=2, progress=lambda: None
    )
    after = [weight.value.numpy().tolist() for weight in built.network.non_trainable_weights]
    return {"before": before, "after": after, "found": found.to_wire()}


def main() -> None:
    rank, folder = int(os.environ["HOROVOD_RANK"]), Path(sys.argv[1])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    horovod.connect(workers=RANKS)
    said = words(rank)
    heard = {"first": horovod.broadcast_value(said), "all": horovod.gather(said)}
    (folder / f"heard-{rank}.json").write_text(json.dumps(heard))
    (mean,) = tf.function(horovod.average)([rows(rank)])
    (folder / f"rows-{rank}.json").write_text(
        json.dumps({"indices": mean.indices.numpy().tolist(), "values": mean.values.numpy().tolist()})
    )
    for case in CASES:
        train_case(case, rank=rank, folder=folder)
    horovod.disconnect()


def train_case(case: Case, *, rank: int, folder: Path) -> None:
    built, feed = build(case, rank=rank)
    horovod.broadcast(built.persistent)
    np.savez(folder / f"{case.name}-{rank}-begin.npz", **weights(built))
    run = train.compile_run(
        built,
        feed,
        reduce=builder.reduction(case.assignment) if case.reduce else train.alone,
        loss_scale=builder.loss_scale(case.assignment),
        xla=builder.variant_of(case.assignment).xla,
    )
    run(case.steps).numpy()
    np.savez(folder / f"{case.name}-{rank}-end.npz", **weights(built))
    facts: dict[str, object] = {"steps taken": int(built.optimizer.iterations.numpy())}
    if case.overflow:
        facts["loss scale"] = float(built.optimizer.dynamic_scale.numpy())
    if case.name == "batch-norm":
        facts |= evaluated(built, rank=rank)
    (folder / f"{case.name}-{rank}-facts.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    main()
