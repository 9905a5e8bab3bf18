# SPDX-License-Identifier: Apache-2.0
"""How the examples of Keras train the workloads, for comparison."""

from collections.abc import Callable

import keras
import tensorflow as tf


class AdamOfDense(keras.optimizers.Adam):  # type: ignore[misc]  # Keras has no types
    """Where a word stands twice in a batch, Keras squares its two gradients apart: it is given their sum."""

    def apply(self, grads: list[tf.Tensor], trainable_variables: object = None) -> None:
        super().apply([tf.convert_to_tensor(one) for one in grads], trainable_variables)


OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "mnist_mlp": lambda: keras.optimizers.RMSprop(0.001, rho=0.9, epsilon=1e-8),
    "mnist_cnn": lambda: keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8),
    "cifar10_cnn": lambda: keras.optimizers.RMSprop(
        keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6), rho=0.9, epsilon=1e-8
    ),
    "imdb_fasttext": lambda: AdamOfDense(0.001, epsilon=1e-8),
    "lstm_text_generation": lambda: keras.optimizers.RMSprop(0.01, rho=0.9, epsilon=1e-8),
}
