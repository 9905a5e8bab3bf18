# SPDX-License-Identifier: Apache-2.0
"""The ImageNet models of tf_cnn_benchmarks (mid 2018, branch cnn_tf_v1.9_compatible), in Keras' dtype policy.

Dropout is left out where the papers have it (alexnet, vgg, inception4): the tool of that time built the layer without
telling it that this was training. Commit 1ef603f of 2018-08-09 corrected that, after the published runs; its author
measured 0.3 % less speed for alexnet. Networks are NHWC, which CPUs need; the tool's were NCHW (`make bench-graph`).
"""

import math

import keras
import tensorflow as tf
from keras import layers

from gpubench import workloads
from gpubench_jobs.models.recipe import FusedBatchNormalization, Recipe, right_class

_L2 = 4e-5


def recipe(network: keras.Model, *, learning_rate: float) -> Recipe:
    """Plain SGD, and an L2 term of 4e-5 * sum(w^2) / 2 over everything but batch normalisation, as part of the loss.

    Deviation: the tool has left batch normalisation out of it since 2018-10-29 (a3f2e1b) only.
    """
    decayed = [
        variable.value
        for layer in network.layers
        if not isinstance(layer, layers.BatchNormalization)
        for variable in layer.trainable_variables
    ]

    def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        return cross_entropy(labels, outputs) + _L2 * tf.add_n([tf.nn.l2_loss(weights) for weights in decayed])

    return Recipe(
        network=network, optimizer=keras.optimizers.SGD(learning_rate=learning_rate), loss=loss, correct=right_class
    )


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """The mean of a batch, in float32."""
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32)))


def dense(x: keras.KerasTensor, units: int) -> keras.KerasTensor:
    """A hidden layer with relu; first weights are a truncated normal of deviation sqrt(2 / inputs)."""
    return layers.Dense(units, activation="relu", kernel_initializer=_normal(math.sqrt(2 / x.shape[-1])))(x)


def logits(x: keras.KerasTensor, *, classes: int) -> keras.KerasTensor:
    """The last layer. In the compute type: the loss casts to float32, as the tool did."""
    return layers.Dense(classes, kernel_initializer=_normal(math.sqrt(1 / x.shape[-1])))(x)


def _normal(deviation: float) -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=deviation)


def classifier(
    image: keras.KerasTensor, x: keras.KerasTensor, workload: workloads.Workload, *, learning_rate: float = 0.005
) -> Recipe:
    """A network of the zoo, with its last layer."""
    return recipe(keras.Model(image, logits(x, classes=workload.classes)), learning_rate=learning_rate)


def trivial(workload: workloads.Workload) -> Recipe:
    """All pixels into one number, that into 4096, those into 1001 classes.

    It computes next to nothing, so what is measured is everything else: the step's fixed cost and the all-reduce of
    17 MB. About every other seed leaves that one number below zero, where relu passes nothing on: then only the biases
    of the last layer learn, and the L2 term still shrinks the weights. The speed is the same.
    """
    image = keras.Input(workload.input_shape)
    return classifier(image, dense(dense(layers.Flatten()(image), 1), 4096), workload)


def alexnet(workload: workloads.Workload) -> Recipe:
    """The one-tower form of Krizhevsky (2014): biases, no normalisation, images of 227 so that the unpadded 11x11 fits.

    Deviation: the learning rate is 0.0001. At the tool's 0.005 the loss is NaN within ten steps, here as in the
    original (its output at batch 512 stands in issue 173 of ROCm/tensorflow-upstream), and a run whose loss is no
    number is refused. The same operations run at the same speed.
    """
    image = keras.Input(workload.input_shape)
    x = layers.Conv2D(64, 11, strides=4, activation="relu")(image)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = layers.Conv2D(192, 5, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    for filters in (384, 384, 256):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    return classifier(image, dense(dense(layers.Flatten()(x), 4096), 4096), workload, learning_rate=1e-4)


#: For each module: the 1x1; the 1x1 and 3x3; the 1x1 and 5x5; the 1x1 after the pooling. In groups, pooled in between.
_MODULES = (
    ((64, (96, 128), (16, 32), 32), (128, (128, 192), (32, 96), 64)),
    (
        (192, (96, 208), (16, 48), 64),
        (160, (112, 224), (24, 64), 64),
        (128, (128, 256), (24, 64), 64),
        (112, (144, 288), (32, 64), 64),
        (256, (160, 320), (32, 128), 128),
    ),
    ((256, (160, 320), (32, 128), 128), (384, (192, 384), (48, 128), 128)),
)


def googlenet(workload: workloads.Workload) -> Recipe:
    """Inception v1 (Szegedy and others 2014) with biases; no normalisation, dropout or auxiliary heads."""
    image = keras.Input(workload.input_shape)
    x = _halved(_convolved(image, 64, 7, stride=2))
    x = _convolved(_convolved(x, 64, 1), 192, 3)
    for group in _MODULES:
        x = _halved(x)
        for alone, threes, fives, pooled in group:
            columns = (
                _convolved(x, alone, 1),
                _convolved(_convolved(x, threes[0], 1), threes[1], 3),
                _convolved(_convolved(x, fives[0], 1), fives[1], 5),
                _convolved(layers.MaxPooling2D(3, strides=1, padding="same")(x), pooled, 1),
            )
            x = layers.Concatenate()(list(columns))
    return classifier(image, layers.Flatten()(layers.AveragePooling2D(7, strides=1)(x)), workload)


def _convolved(x: keras.KerasTensor, filters: int, size: int, *, stride: int = 1) -> keras.KerasTensor:
    return layers.Conv2D(filters, size, strides=stride, padding="same", activation="relu")(x)


def _halved(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.MaxPooling2D(3, strides=2, padding="same")(x)


_FILTERS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {"vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}  # in each group


def vgg(workload: workloads.Workload) -> Recipe:
    """vgg16 and vgg19, models D and E of Simonyan and Zisserman (2014): with biases, not normalised."""
    image = keras.Input(workload.input_shape)
    x = image
    for filters, convolutions in zip(_FILTERS, _CONVOLUTIONS[workload.name], strict=True):
        for _ in range(convolutions):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    return classifier(image, dense(dense(layers.Flatten()(x), 4096), 4096), workload)


_BLOCKS = {  # in each stage
    "resnet50": (3, 4, 6, 3),
    "resnet50_v1.5": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
_WIDTHS_AND_STRIDES = ((64, 1), (128, 2), (256, 2), (512, 2))  # the stride is the first block's


def resnet(workload: workloads.Workload) -> Recipe:
    """resnet50, resnet50_v1.5, resnet101 and resnet152 (He and others 2015).

    Version 1 has the stride in the first 1x1 of a stage; version 1.5, which the tool learned on 2018-07-26, in the 3x3.
    Explicit padding before a strided convolution, no bias in convolutions (batch normalisation follows each), 1001
    classes. Unlike `keras.applications.ResNet50`, whose convolutions have biases.

    Deviation: the learning rate is 0.004 from the first step on. The tool's default (since 729c08c, 2018-04-05) rose
    from 0 to 0.004 * batch / default batch during five epochs of ImageNet, of which a benchmark sees some minutes.
    """
    stride_in_3x3 = workload.name == "resnet50_v1.5"
    image = keras.Input(workload.input_shape)
    x = layers.Activation("relu")(_normalized(image, 64, 7, stride=2))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for (width, first_stride), blocks in zip(_WIDTHS_AND_STRIDES, _BLOCKS[workload.name], strict=True):
        for stride in (first_stride, *(1,) * (blocks - 1)):
            x = _bottleneck(x, width=width, strides=(1, stride) if stride_in_3x3 else (stride, 1))
    return classifier(image, layers.GlobalAveragePooling2D()(x), workload, learning_rate=0.004)


def _bottleneck(x: keras.KerasTensor, *, width: int, strides: tuple[int, int]) -> keras.KerasTensor:
    """1x1, 3x3, 1x1 to four times the width; a projection beside it where the depth changes."""
    depth = 4 * width
    shortcut = x if x.shape[-1] == depth else _normalized(x, depth, 1, stride=max(strides))
    x = layers.Activation("relu")(_normalized(x, width, 1, stride=strides[0]))
    x = layers.Activation("relu")(_normalized(x, width, 3, stride=strides[1]))
    x = _normalized(x, depth, 1)
    return layers.Activation("relu")(layers.Add()([x, shortcut]))


def _normalized(x: keras.KerasTensor, filters: int, size: int, *, stride: int = 1) -> keras.KerasTensor:
    """Without bias, normalised. Where there is a stride, as many zeros on either side, which `same` would not give."""
    if stride > 1 and size > 1:
        x = layers.Conv2D(filters, size, strides=stride, use_bias=False)(layers.ZeroPadding2D(size // 2)(x))
    else:
        x = layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    return FusedBatchNormalization(momentum=0.9, epsilon=1e-5)(x)
