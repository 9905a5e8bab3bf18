# SPDX-License-Identifier: Apache-2.0
"""What a model's file hands to the training loop, and batch normalisation by TensorFlow's fused kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf


@dataclass(frozen=True)
class Recipe:
    """A network and how it learns. What it is fed, and how it is timed or distributed, is not known here."""

    network: keras.Model
    optimizer: keras.optimizers.Optimizer
    #: Mean loss of a batch from labels and the network's outputs, in float32. A network with several heads gives a list
    #: of outputs; only this function and the next know what is in it.
    loss: Callable[[tf.Tensor, Any], tf.Tensor]
    #: For each sample of a batch 1.0 where the answer is right, else 0.0: its mean is the accuracy. None where only the
    #: loss says how good a model is (text generation).
    correct: Callable[[tf.Tensor, Any], tf.Tensor] | None = None
    #: A batch of training inputs, changed at random by a seed of two numbers, where the original did so.
    augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None
    #: Whether the last, smaller batch of an epoch is left out, where the original did so.
    drop_remainder: bool = False

    @property
    def trainable(self) -> list[tf.Variable]:
        """TensorFlow's own variables behind Keras 3's: what Horovod and GradientTape take."""
        return [variable.value for variable in self.network.trainable_variables]

    @property
    def learned(self) -> list[tf.Variable]:
        """What a step of the optimizer leaves behind, equal on all ranks: weights, and the optimizer's own state."""
        self.optimizer.build(self.network.trainable_variables)
        return [*self.trainable, *(variable.value for variable in self.optimizer.variables)]

    @property
    def persistent(self) -> list[tf.Variable]:
        """All that ranks begin with in common: weights, moving statistics, optimizer state; no seeds of dropout."""
        self.optimizer.build(self.network.trainable_variables)
        return [variable.value for variable in (*self.network.weights, *self.optimizer.variables)]


def right_class(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """`Recipe.correct` of a classifier; labels are class numbers, or rows with a one in the class's place."""
    classes = tf.argmax(labels, axis=-1) if labels.shape.rank == outputs.shape.rank else tf.cast(labels, tf.int64)
    return tf.cast(tf.equal(classes, tf.argmax(outputs, axis=-1)), tf.float32)


def right_of_two(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """`Recipe.correct` where one probability tells two classes apart: rows of one label 0 or 1, rows of one output."""
    return tf.cast(tf.equal(tf.cast(labels, tf.float32) > 0.5, outputs > 0.5), tf.float32)[:, 0]


class FusedBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """Keras' layer, of images as NHWC: its variables, initial values and moving averages, to rounding.

    Keras 3 computes it by some twenty operations in float32 and leaves their fusion to XLA. On a GPU each of them reads
    and writes the whole activation: four times the memory traffic of a resnet50 step in mixed float16.
    tf_cnn_benchmarks, NVIDIA's examples and Keras 2 used the kernel.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None, mask: None = None) -> tf.Tensor:
        """`mask` is Keras' argument, and images have none."""
        assert mask is None
        channels = inputs.shape[-1]
        scale = self.gamma.value if self.scale else tf.ones((channels,))
        offset = self.beta.value if self.center else tf.zeros((channels,))
        moving = (self.moving_mean.value, self.moving_variance.value)
        if not (training and self.trainable):
            outputs, _, _ = tf.compat.v1.nn.fused_batch_norm(
                inputs, scale, offset, *moving, epsilon=self.epsilon, is_training=False
            )
            return outputs
        # The kernel averages the unbiased variance into the moving one; Keras averages the biased one.
        places = tf.cast(tf.reduce_prod(tf.shape(inputs)[:-1]), tf.float32)
        unbiased = places / tf.maximum(places - 1.0, 1.0)
        outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            inputs,
            scale,
            offset,
            moving[0],
            moving[1] * unbiased,
            epsilon=self.epsilon,
            exponential_avg_factor=1.0 - self.momentum,
        )
        moving[0].assign(mean)
        moving[1].assign(variance / unbiased)
        return outputs

    def compute_output_spec(self, inputs: keras.KerasTensor, **_: object) -> keras.KerasTensor:
        """Known without a trace of `call`, which takes tensors of TensorFlow only."""
        return keras.KerasTensor(inputs.shape, dtype=self.compute_dtype)
