# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation by TensorFlow's fused kernel, which is cuDNN's on a GPU.

Keras 3 computes it by some twenty operations in float32, whatever the precision, and leaves their fusion to XLA. On a
GPU each of them reads and writes the whole activation: four times the memory traffic of a resnet50 step in mixed
float16. tf_cnn_benchmarks, NVIDIA's examples and Keras 2 used the kernel.
"""

import keras
import tensorflow as tf


class FusedBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """Keras' layer, of images as NHWC: its variables, initial values and moving averages, to rounding."""

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
