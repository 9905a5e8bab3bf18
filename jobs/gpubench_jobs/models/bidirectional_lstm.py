# SPDX-License-Identifier: Apache-2.0
"""imdb_bidirectional_lstm and twitter_bilstm: an embedding of 128, an LSTM of 64 in both directions, one probability.

The first is the Keras example of November 2017 (Keras 2.1.1), the second is RaRe Technologies' model for tweets of
February 2018 (Keras 2.1.3). On GPUs both ran cuDNN's LSTM, and so does this one: Keras chooses it wherever
the layer's arguments are the standard ones and TensorFlow sees a GPU. It computes what cuDNN does (sigmoid gates; the
plain LSTM of Keras 2 had hard sigmoids) but keeps one bias where cuDNN has two, so it counts 512 parameters fewer than
the published 2,659,457 and 35,243,393.

In mixed_bfloat16 TensorFlow's kernel casts to float32 and back (tensorflow/tensorflow, pull request 60108). What
concerns GPUs was not run here.

Padding is not masked: the originals read it like words.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models.recipe import Recipe, right_of_two


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input(workload.input_shape, dtype="int32"),
            layers.Embedding(workload.vocabulary, 128),
            layers.Bidirectional(layers.LSTM(64)),
            layers.Dropout(0.5),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.Adam(learning_rate=0.001, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.binary_crossentropy(labels, outputs)),
        correct=right_of_two,
    )
