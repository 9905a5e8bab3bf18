# SPDX-License-Identifier: Apache-2.0
"""What a model's file hands to the training loop."""

from collections.abc import Callable
from dataclasses import dataclass

import keras
import tensorflow as tf


@dataclass(frozen=True)
class Recipe:
    """A network, how it learns, and what it is fed. Everything lives on the device."""

    network: keras.Model
    optimizer: keras.optimizers.Optimizer
    #: Mean loss of a batch from labels and the network's outputs, in float32.
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    images: tf.Tensor
    labels: tf.Tensor
    #: Labels drawn anew in each step from the step's number, where the original did so; they replace `labels`.
    redraw: Callable[[tf.Tensor], tf.Tensor] | None = None

    @property
    def trainable(self) -> list[tf.Variable]:
        """TensorFlow's own variables behind Keras 3's: what Horovod and GradientTape take."""
        return [variable.value for variable in self.network.trainable_variables]

    @property
    def persistent(self) -> list[tf.Variable]:
        """All that ranks must begin with in common: weights, moving statistics, optimizer state.

        Not the seeds of dropout, which are variables too: each rank draws its own masks.
        """
        self.optimizer.build(self.network.trainable_variables)
        return [variable.value for variable in (*self.network.weights, *self.optimizer.variables)]
