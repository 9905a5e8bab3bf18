# SPDX-License-Identifier: Apache-2.0
"""A workload of one's own whose step is a wait: as long on a busy machine as on an idle one.

For tests of what is said about the times of windows, which must not depend on what else the processors do. Where the
environment names a file, a step waits as many seconds as are written there: a store that its batches come from, which
may become slower while nothing that gpubench knows of has changed.
"""

import os
import time
from pathlib import Path

import keras
import tensorflow as tf

from gpubench_jobs import custom
from gpubench_jobs.models.recipe import Recipe

STEP_SECONDS = 0.02
STORE = "WAITING_STORE"  # the variable that names the file


def build(setting: custom.Setting) -> custom.Workload:
    """One weight that learns nothing in particular."""

    store = os.environ.get(STORE)
    seconds = STEP_SECONDS if store is None else float(Path(store).read_text(encoding="ascii"))

    def wait() -> float:
        time.sleep(seconds)
        return 0.0

    def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        waited = tf.py_function(wait, [], tf.float32)
        return tf.reduce_mean((outputs - labels) ** 2) + tf.ensure_shape(waited, ())

    inputs = tf.ones((setting.batch_per_worker, 1))
    return custom.Workload(
        recipe=Recipe(
            network=keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]),
            optimizer=keras.optimizers.SGD(0.01),
            loss=loss,
        ),
        batches=tf.data.Dataset.from_tensors((inputs, 2.0 * inputs)).repeat(),
    )
