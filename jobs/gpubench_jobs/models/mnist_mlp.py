# SPDX-License-Identifier: Apache-2.0
"""mnist_mlp: two hidden layers of 512, as in the Keras example of November 2017 (Keras 2.1.1, batch 128).

Deviation: Keras 3 adds epsilon inside the root of RMSprop, Keras 2.1.1 outside. At 1e-8 this changes no speed.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models.recipe import Recipe, right_class


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.2),
            layers.Dense(workload.classes, activation="softmax", dtype="float32"),
        ]
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=0.001, rho=0.9, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.categorical_crossentropy(labels, outputs)),
        correct=right_class,
    )
