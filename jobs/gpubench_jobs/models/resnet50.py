# SPDX-License-Identifier: Apache-2.0
"""resnet50 as tf_cnn_benchmarks trained it in mid 2018: version 1, with the stride in the first 1x1 of a stage.

Explicit padding before the strided 7x7, no bias in convolutions (batch normalisation follows each), 1001 classes, plain
SGD at 0.004, and an L2 term of 4e-5 * sum(w^2) / 2 over everything but batch normalisation, which is part of the loss.
Unlike `keras.applications.ResNet50`, whose convolutions have biases. Its own convolution layout was NCHW; here the
network is written as NHWC, which CPUs need; that TensorFlow's layout optimizer turns it round on GPUs is its
documentation's word (not run here).
"""

import keras
import tensorflow as tf

from gpubench import workloads
from gpubench_jobs.data import synthetic
from gpubench_jobs.models.recipe import Recipe

_L2 = 4e-5
_STAGES = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))  # width, blocks, stride of the first block
_EXPANSION = 4


def build(workload: workloads.Workload, *, batch: int, seed: int) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    network = keras.Model(image, _layers(image, classes=workload.classes))
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
        optimizer=keras.optimizers.SGD(learning_rate=0.004),
        loss=loss,
        images=synthetic.imagenet_images(
            workload.input_shape, batch=batch, seed=seed, dtype=tf.as_dtype(network.compute_dtype)
        ),
        labels=synthetic.imagenet_labels(batch=batch, seed=seed, step=tf.constant(0)),
        redraw=lambda step: synthetic.imagenet_labels(batch=batch, seed=seed, step=step),
    )


def _layers(x: keras.KerasTensor, *, classes: int) -> keras.KerasTensor:
    layers = keras.layers
    x = layers.ZeroPadding2D(3)(x)
    x = layers.Activation("relu")(_normalised(layers.Conv2D(64, 7, strides=2, use_bias=False)(x)))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for width, blocks, stride in _STAGES:
        x = _bottleneck(x, width=width, stride=stride)
        for _ in range(blocks - 1):
            x = _bottleneck(x, width=width, stride=1)
    x = layers.GlobalAveragePooling2D()(x)
    return layers.Dense(classes)(x)


def _bottleneck(x: keras.KerasTensor, *, width: int, stride: int) -> keras.KerasTensor:
    """1x1 (with the stride), 3x3, 1x1 to four times the width; a projection beside it where the depth changes."""
    layers = keras.layers
    depth = _EXPANSION * width
    shortcut = x
    if x.shape[-1] != depth:
        shortcut = _normalised(layers.Conv2D(depth, 1, strides=stride, use_bias=False)(x))
    x = layers.Activation("relu")(_normalised(layers.Conv2D(width, 1, strides=stride, use_bias=False)(x)))
    x = layers.Activation("relu")(_normalised(layers.Conv2D(width, 3, padding="same", use_bias=False)(x)))
    x = _normalised(layers.Conv2D(depth, 1, use_bias=False)(x))
    return layers.Activation("relu")(layers.Add()([x, shortcut]))


def _normalised(x: keras.KerasTensor) -> keras.KerasTensor:
    return keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
