# SPDX-License-Identifier: Apache-2.0
"""mnist_cnn: two convolutions and two dense layers, as in the Keras example of November 2017 (Keras 2.1.1, batch 128).

Adadelta's learning rate was 1.0 then; the default of Keras 3 is a thousandth of that.
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
            layers.Conv2D(32, 3, activation="relu"),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dropout(0.5),
            layers.Dense(workload.classes, activation="softmax", dtype="float32"),
        ]
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.categorical_crossentropy(labels, outputs)),
        correct=right_class,
    )
