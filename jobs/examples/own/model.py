# SPDX-License-Identifier: Apache-2.0
"""A workload of one's own, as the file that `custom.file` of a benchmark names: gpubench does the rest.

Two dense layers learn which of two rings a point lies on. What `build` may use and returns: gpubench_jobs/custom.py.
"""

import keras
import tensorflow as tf

from gpubench_jobs import custom
from gpubench_jobs.models import recipe

RADII = (1.0, 2.0)
HELD_OUT = 1_000


def build(setting: custom.Setting) -> custom.Workload:
    """Called once in every rank."""
    network = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(64, activation="relu"),
            keras.layers.Dense(2, dtype="float32"),
        ]
    )
    samples = setting.samples or 10_000
    return custom.Workload(
        recipe=recipe.Recipe(
            network=network,
            optimizer=keras.optimizers.Adam(0.003),
            loss=lambda labels, outputs: tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
            ),
            correct=recipe.right_class,
        ),
        # Other points on each rank: its number is in the seed.
        batches=points(samples // setting.workers, seed=(setting.seed, setting.rank))
        .repeat()
        .batch(setting.batch_per_worker, drop_remainder=True),
        steps_per_epoch=max(1, samples // (setting.batch_per_worker * setting.workers)),
        epochs=3,
        held_out=points(HELD_OUT, seed=(setting.seed, -1))
        .shard(setting.workers, setting.rank)
        .batch(setting.batch_per_worker),
    )


def points(count: int, *, seed: tuple[int, int]) -> tf.data.Dataset:
    """Points near two circles, and the number of the circle."""
    rings = tf.random.stateless_uniform((count,), seed=seed, maxval=len(RADII), dtype=tf.int32)
    radii = tf.gather(RADII, rings) + tf.random.stateless_normal((count,), seed=seed, stddev=0.1)
    angles = tf.random.stateless_uniform((count,), seed=(seed[1], seed[0]), maxval=6.2831853)
    places = tf.stack((radii * tf.cos(angles), radii * tf.sin(angles)), axis=1)
    return tf.data.Dataset.from_tensor_slices((places, rings))
