# SPDX-License-Identifier: Apache-2.0
"""What the ImageNet models of tf_cnn_benchmarks have in common: how they learn, what they are fed, their first weights.

As the tool stood in mid 2018 (branch cnn_tf_v1.9_compatible): synthetic images and labels, plain SGD, and an L2 term of
4e-5 * sum(w^2) / 2 over everything but batch normalisation, which is part of the loss. First weights: Glorot uniform in
convolutions, a truncated normal of deviation sqrt(2 / inputs) in dense layers and sqrt(1 / inputs) in the last one.

Deviation: the L2 term leaves batch normalisation out, as the tool has done since 2018-10-29 (a3f2e1b); before that it
was summed over all trainable variables.

Dropout is left out where the papers have it (alexnet, vgg, inception4): the tool of that time built the layer without
telling it that this was training, so it did nothing. Commit 1ef603f of 2018-08-09 corrected that, after the published
runs; its author measured 0.3 % less speed for alexnet and less than 0.1 % for a vgg.

Its own layout was NCHW; here the networks are written as NHWC, which CPUs need. For a virtual GPU TensorFlow's layout
optimizer turns float32 round, with at most seven transposes of images, and leaves float16 (`make bench-graph`).
"""

import math

import keras
import tensorflow as tf

from gpubench_jobs.models.recipe import Recipe, right_class

_L2 = 4e-5
_RELU_GAIN = 2.0


def recipe(network: keras.Model, *, learning_rate: float) -> Recipe:
    """How a network of the zoo is trained."""
    decayed = [
        variable.value
        for layer in network.layers
        if not isinstance(layer, keras.layers.BatchNormalization)
        for variable in layer.trainable_variables
    ]

    def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(outputs, tf.float32))
        return tf.reduce_mean(entropy) + _L2 * tf.add_n([tf.nn.l2_loss(weights) for weights in decayed])

    return Recipe(
        network=network,
        optimizer=keras.optimizers.SGD(learning_rate=learning_rate),
        loss=loss,
        correct=right_class,
    )


def dense(x: keras.KerasTensor, units: int) -> keras.KerasTensor:
    """A hidden layer with relu."""
    deviation = math.sqrt(_RELU_GAIN / x.shape[-1])
    return keras.layers.Dense(units, activation="relu", kernel_initializer=_normal(deviation))(x)


def logits(x: keras.KerasTensor, *, classes: int) -> keras.KerasTensor:
    """The last layer. In the compute type: the loss casts to float32, as the tool did."""
    return keras.layers.Dense(classes, kernel_initializer=_normal(math.sqrt(1 / x.shape[-1])))(x)


def _normal(deviation: float) -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=deviation)
