# SPDX-License-Identifier: Apache-2.0
"""googlenet (Inception v1, Szegedy and others 2014) as tf_cnn_benchmarks has it.

Biases, neither batch nor response normalisation, no dropout and no auxiliary heads.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.recipe import Recipe

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


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    x = _halved(_convolved(image, 64, 7, stride=2))
    x = _convolved(_convolved(x, 64, 1), 192, 3)
    for group in _MODULES:
        x = _halved(x)
        for alone, threes, fives, pooled in group:
            x = _module(x, alone=alone, threes=threes, fives=fives, pooled=pooled)
    x = keras.layers.AveragePooling2D(7, strides=1)(x)
    x = keras.layers.Flatten()(x)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)


def _module(
    x: keras.KerasTensor, *, alone: int, threes: tuple[int, int], fives: tuple[int, int], pooled: int
) -> keras.KerasTensor:
    around = keras.layers.MaxPooling2D(3, strides=1, padding="same")(x)
    return keras.layers.Concatenate()(
        [
            _convolved(x, alone, 1),
            _convolved(_convolved(x, threes[0], 1), threes[1], 3),
            _convolved(_convolved(x, fives[0], 1), fives[1], 5),
            _convolved(around, pooled, 1),
        ]
    )


def _convolved(x: keras.KerasTensor, filters: int, size: int, *, stride: int = 1) -> keras.KerasTensor:
    return keras.layers.Conv2D(filters, size, strides=stride, padding="same", activation="relu")(x)


def _halved(x: keras.KerasTensor) -> keras.KerasTensor:
    return keras.layers.MaxPooling2D(3, strides=2, padding="same")(x)
