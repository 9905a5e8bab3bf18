# SPDX-License-Identifier: Apache-2.0
"""Do trainings by gpubench end as those by `keras.Model.fit`? Two one-sided t-tests over ten seeds of either.

    python tests/benchmarks/parity.py [--seeds 10] [--samples 2000] [--epochs 5]

imdb_fasttext on generated reviews, one rank; each seed of either side has first weights, dropout and an order of its
own, and all have the same samples. Equivalent is what lies within the margins with 95 % certainty both ways (Schuirmann
1987, Welch's degrees of freedom): 0.01 in accuracy on held-out samples, 2 % in the loss of the last epoch. That only
says something where seeds agree with each other: a spread (largest less smallest) of accuracy over 0.01 is refused.
Exit 1 where they are not equivalent, or where it cannot be said.
"""

import argparse
import math
import statistics
import sys
from dataclasses import dataclass

import keras
import numpy as np
import tensorflow as tf
from scipy import stats

import plain_keras
from gangs import make_assignment
from gpubench import workloads
from gpubench_jobs import data, models
from gpubench_jobs.data import pipeline
from gpubench_jobs.data.pipeline import Split
from gpubench_jobs.worker import builder
from samples import Array

NAME = "imdb_fasttext"
BATCH = 32
DATA_SEED = 1
ACCURACY_MARGIN, LOSS_MARGIN = 0.01, 0.02
SPREAD_MOST = 0.01
ALPHA = 0.05


@dataclass(frozen=True)
class Ending:
    accuracy: float  # on held-out samples
    loss: float  # of the last epoch's training, mean over samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--samples", type=int, default=2_000)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    ours, theirs = [], []
    for seed in range(1, options.seeds + 1):
        ours.append(by_gpubench(seed, options))
        theirs.append(by_keras(1000 + seed, options))
        print(f"seed {seed:>2}: gpubench {ours[-1]}, Keras {theirs[-1]}", flush=True)
        keras.backend.clear_session()
    failed = False
    for name, margin in (("accuracy", ACCURACY_MARGIN), ("loss", LOSS_MARGIN)):
        one, other = ([getattr(ending, name) for ending in side] for side in (ours, theirs))
        absolute = margin if name == "accuracy" else margin * statistics.fmean(other)
        difference, chance = equivalence(one, other, margin=absolute)
        spread = max(max(one) - min(one), max(other) - min(other))
        failed |= chance > ALPHA or (name == "accuracy" and spread > SPREAD_MOST)
        print(
            f"{name}: gpubench {told(one)}, Keras {told(other)}; difference {difference:+.5f}, margin {absolute:.5f}, "
            f"p {chance:.2g}: {'equivalent' if chance <= ALPHA else 'cannot be said'}; spread over seeds {spread:.4f}"
        )
    return 1 if failed else 0


def by_gpubench(seed: int, options: argparse.Namespace) -> Ending:
    """As a gang of one trains."""
    assignment = make_assignment(
        workload=NAME,
        mode="Training",
        data={"source": "Generated", "samples": options.samples},
        seed=DATA_SEED,
        batch_per_worker=BATCH,
    )
    # The same samples for all seeds; in an order of its own, that of epochs further on.
    count = data.open_sets(workloads.find(NAME), assignment.data, seed=DATA_SEED).training.count
    steps = pipeline.steps_per_epoch(count, batch_per_worker=BATCH, workers=1, drop_remainder=False)
    models.seed(seed)
    work = builder.build(assignment, rank=0, seed=seed, first_step=steps * options.epochs * (seed - 1))
    assert work.plan is not None
    assert work.plan.evaluation is not None
    loss = 0.0
    for _ in range(options.epochs):
        loss = float(work.run(work.plan.steps).numpy()) / int(work.run.samples)
    held_out = work.plan.evaluation.run(batches_at_once=100, progress=lambda: None)
    assert held_out.accuracy is not None
    return Ending(held_out.accuracy, loss)


def by_keras(seed: int, options: argparse.Namespace) -> Ending:
    """`fit` on the same samples as arrays."""
    source = make_assignment(data={"source": "Generated", "samples": options.samples}).data
    sets = data.open_sets(workloads.find(NAME), source, seed=DATA_SEED)
    assert sets.evaluation is not None
    inputs, labels = arrays(sets.training)
    keras.utils.set_random_seed(seed)
    network = keras.Sequential(
        [
            keras.Input(inputs.shape[1:], dtype="int32"),
            keras.layers.Embedding(sets.vocabulary, 50),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    network.compile(
        optimizer=plain_keras.OPTIMIZERS[NAME](), loss="binary_crossentropy", metrics=["accuracy"], jit_compile=False
    )
    fitted = network.fit(inputs, labels, batch_size=BATCH, epochs=options.epochs, verbose=0)
    _, accuracy = network.evaluate(*arrays(sets.evaluation), batch_size=500, verbose=0)
    return Ending(float(accuracy), fitted.history["loss"][-1])


def arrays(split: Split) -> tuple[Array, Array]:
    """All samples of a set, as the network takes them."""
    batches = list(pipeline.evaluation_batches(split, batch_per_worker=500, rank=0, workers=1))
    inputs, labels = (np.concatenate([batch[of].numpy() for batch in batches]) for of in (0, 1))
    return split.on_device(tf.constant(inputs)).numpy(), labels


def equivalence(one: list[float], other: list[float], *, margin: float) -> tuple[float, float]:
    """The difference of the means, and the greater p of the two one-sided tests that it lies beyond the margin."""
    difference = statistics.fmean(one) - statistics.fmean(other)
    parts = [statistics.variance(side) / len(side) for side in (one, other)]
    error = math.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / sum(part**2 / (len(side) - 1) for part, side in zip(parts, (one, other), strict=True))
    below = stats.t.sf((margin + difference) / error, freedom)
    above = stats.t.sf((margin - difference) / error, freedom)
    return difference, float(max(below, above))


def told(values: list[float]) -> str:
    return f"{statistics.fmean(values):.5f} ± {statistics.stdev(values):.5f}"


if __name__ == "__main__":
    sys.exit(main())
