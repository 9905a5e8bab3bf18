# SPDX-License-Identifier: Apache-2.0
"""One real Horovod rank that trains each case for some steps and keeps its weights in a file. Run by test_reduction.

Ranks begin with weights of their own, so that the initial broadcast is needed as well.
"""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from gpubench import workloads
from gpubench.precision import Precision
from gpubench_jobs import distribution, models, precision, train
from gpubench_jobs.data import synthetic
from gpubench_jobs.data.feed import Feed
from gpubench_jobs.models import recipe


@dataclass(frozen=True)
class Case:
    """A model, small enough for seconds; `reduce` off shows that the check can fail."""

    name: str
    model: str
    precision: Precision = Precision.FLOAT32
    batch: int = 4
    steps: int = 3
    reduce: bool = True


CASES = (
    Case(name="dropout", model="mnist_mlp"),
    Case(name="convolution", model="mnist_cnn"),
    Case(name="batch-norm", model="normalised"),
    Case(name="scaled-loss", model="mnist_mlp", precision=Precision.MIXED_FLOAT16),
    Case(name="lost-gradients", model="mnist_mlp", reduce=False),
)
RANKS = 2


def build(case: Case, *, rank: int) -> tuple[recipe.Recipe, Feed]:
    """The recipe of a rank, with samples, dropout seeds and first weights of its own."""
    precision.use(case.precision)
    models.seed(100 + rank)
    seed = 1000 * (rank + 1)
    if case.model == "normalised":
        small = workloads.find("resnet50").model_copy(update={"input_shape": (16, 16, 3)})
        return normalised(), synthetic.batch_of(small, batch=case.batch, seed=seed, dtype="float32")
    built, workload = models.build(case.model), workloads.find(case.model)
    return built, synthetic.batch_of(workload, batch=case.batch, seed=seed, dtype=built.network.compute_dtype)


def normalised() -> recipe.Recipe:
    """Batch normalisation and redrawn labels, as in resnet50, without its depth.

    resnet50 itself is too sensitive on a few small images: in two steps a rounding of 1e-7 became 4 in a weight.
    """
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input((16, 16, 3)),
            layers.Rescaling(1 / 127, offset=-1),
            layers.Conv2D(8, 3, strides=2, use_bias=False),
            layers.BatchNormalization(momentum=0.9, epsilon=1e-5),
            layers.Activation("relu"),
            layers.Conv2D(16, 3, use_bias=False),
            layers.BatchNormalization(momentum=0.9, epsilon=1e-5),
            layers.Activation("relu"),
            layers.GlobalAveragePooling2D(),
            layers.Dense(1001),
        ]
    )
    return recipe.Recipe(
        network=network,
        optimizer=keras.optimizers.SGD(learning_rate=0.1),
        loss=lambda labels, outputs: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        ),
    )


def weights(built: recipe.Recipe) -> dict[str, Any]:
    return {str(n): variable.numpy() for n, variable in enumerate(built.trainable)}


def words(rank: int) -> str:
    """Of another length on each rank, shortest on the first, with a line break in it and letters of two bytes."""
    return "größe\n" * (1 + 2 * rank)


def main() -> None:
    rank, folder = int(os.environ["HOROVOD_RANK"]), Path(sys.argv[1])
    distribution.connect(workers=RANKS)
    said = words(rank)
    heard = {"first": distribution.from_first(said), "all": distribution.gather(said)}
    (folder / f"heard-{rank}.json").write_text(json.dumps(heard))
    for case in CASES:
        built, feed = build(case, rank=rank)
        distribution.spread(built.persistent)
        np.savez(folder / f"{case.name}-{rank}-begin.npz", **weights(built))
        reduce = distribution.average if case.reduce else train.alone
        run = train.compile_run(built, feed, reduce=reduce, loss_scale=precision.loss_scale(case.precision))
        run(case.steps).numpy()
        np.savez(folder / f"{case.name}-{rank}-end.npz", **weights(built))
    distribution.disconnect()


if __name__ == "__main__":
    main()
