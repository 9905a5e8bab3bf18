# SPDX-License-Identifier: Apache-2.0
"""imdb_fasttext: the mean embedding of words and pairs of words, as in the Keras example (2017, Keras 2.1.1).

The vocabulary is 20,001 and the number of distinct pairs in the training reviews, so only the data knows it: see
`models.build_for`.
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
            layers.Embedding(workload.vocabulary, 50),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.Adam(learning_rate=0.001, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.binary_crossentropy(labels, outputs)),
        correct=right_of_two,
    )
