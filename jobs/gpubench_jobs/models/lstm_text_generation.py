# SPDX-License-Identifier: Apache-2.0
"""lstm_text_generation: the next character after 40, as in the Keras example of November 2017 (Keras 2.1.1, batch 128).

The published runs on GPUs had cuDNN's LSTM with two biases, 103,097 parameters; for this one see `bidirectional_lstm`.
The original watched nothing but the loss.

Deviation: epsilon inside RMSprop's root, see `mnist_mlp`.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models.recipe import Recipe


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input(workload.input_shape),
            layers.LSTM(128),
            layers.Dense(workload.classes, activation="softmax", dtype="float32"),
        ]
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=0.01, rho=0.9, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.categorical_crossentropy(labels, outputs)),
    )
