# SPDX-License-Identifier: Apache-2.0
"""resnet50, resnet50_v1.5, resnet101 and resnet152 (He and others 2015), as tf_cnn_benchmarks trained them in mid 2018.

Version 1 has the stride in the first 1x1 of a stage; version 1.5, which the tool learned on 2018-07-26, in the 3x3.
Explicit padding before a strided convolution, no bias in convolutions (batch normalisation follows each), 1001 classes.
Unlike `keras.applications.ResNet50`, whose convolutions have biases.

Deviation: the learning rate is 0.004 from the first step on. The tool's default (since 729c08c, 2018-04-05) rose from 0
to 0.004 * batch / default batch during five epochs of ImageNet, of which a benchmark sees some minutes. Same speed.
"""

from collections.abc import Callable
from functools import partial

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.recipe import Normalization, Recipe

_BLOCKS = {  # in each stage
    "resnet50": (3, 4, 6, 3),
    "resnet50_v1.5": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
_STRIDE_IN_3X3 = {"resnet50_v1.5"}
_WIDTHS_AND_STRIDES = ((64, 1), (128, 2), (256, 2), (512, 2))  # the stride is the first block's
_EXPANSION = 4


def build(workload: workloads.Workload, normalization: Normalization) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    convolved = partial(_convolved, normalization=normalization)
    stride_in_3x3 = workload.name in _STRIDE_IN_3X3
    image = keras.Input(workload.input_shape)
    x = layers.Activation("relu")(convolved(image, 64, 7, stride=2))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for (width, first_stride), blocks in zip(_WIDTHS_AND_STRIDES, _BLOCKS[workload.name], strict=True):
        for stride in (first_stride, *(1,) * (blocks - 1)):
            x = _bottleneck(x, convolved, width=width, strides=(1, stride) if stride_in_3x3 else (stride, 1))
    x = layers.GlobalAveragePooling2D()(x)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.004)


def _bottleneck(
    x: keras.KerasTensor, convolved: Callable[..., keras.KerasTensor], *, width: int, strides: tuple[int, int]
) -> keras.KerasTensor:
    """1x1, 3x3, 1x1 to four times the width; a projection beside it where the depth changes."""
    layers = keras.layers
    depth = _EXPANSION * width
    shortcut = x if x.shape[-1] == depth else convolved(x, depth, 1, stride=max(strides))
    x = layers.Activation("relu")(convolved(x, width, 1, stride=strides[0]))
    x = layers.Activation("relu")(convolved(x, width, 3, stride=strides[1]))
    x = convolved(x, depth, 1)
    return layers.Activation("relu")(layers.Add()([x, shortcut]))


def _convolved(
    x: keras.KerasTensor, filters: int, size: int, *, normalization: Normalization, stride: int = 1
) -> keras.KerasTensor:
    """Without bias, normalised. Where there is a stride, as many zeros on either side, which `same` would not give."""
    layers = keras.layers
    if stride > 1 and size > 1:
        x = layers.ZeroPadding2D(size // 2)(x)
        x = layers.Conv2D(filters, size, strides=stride, use_bias=False)(x)
    else:
        x = layers.Conv2D(filters, size, strides=stride, padding="same", use_bias=False)(x)
    return normalization(momentum=0.9, epsilon=1e-5)(x)
