# SPDX-License-Identifier: Apache-2.0
"""A workload of one's own whose step is a wait: as long on a busy machine as on an idle one.

For tests of what is said about the times of windows, which must not depend on what else the processors do.
"""

import time

import keras
import tensorflow as tf

from gpubench_jobs import own
from gpubench_jobs.models.recipe import Recipe

STEP_SECONDS = 0.02


def build(setting: own.Setting) -> own.Workload:
    """One weight that learns nothing in particular."""

    def wait() -> float:
        time.sleep(STEP_SECONDS)
        return 0.0

    def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        waited = tf.py_function(wait, [], tf.float32)
        return tf.reduce_mean((outputs - labels) ** 2) + tf.ensure_shape(waited, ())

    inputs = tf.ones((setting.batch_per_worker, 1))
    return own.Workload(
        recipe=Recipe(
            network=keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]),
            optimizer=keras.optimizers.SGD(0.01),
            loss=loss,
        ),
        batches=tf.data.Dataset.from_tensors((inputs, 2.0 * inputs)).repeat(),
    )
