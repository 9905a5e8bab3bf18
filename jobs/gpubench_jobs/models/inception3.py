# SPDX-License-Identifier: Apache-2.0
"""inception3 (Szegedy and others 2015) as tf_cnn_benchmarks has it: 94 convolutions, auxiliary head off.

At 1000 classes it counts what `keras.applications.InceptionV3` counts; the last module pools the maximum, Keras' the
mean.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.inception import average, convolution, halved, maximum, pooled, side_by_side, tower
from gpubench_jobs.models.recipe import Recipe


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    x = _stem(image)
    for behind_pooling in (32, 64, 64):
        x = _module_a(x, behind_pooling)
    x = _reduction_b(x)
    for width in (128, 160, 160, 192):
        x = _module_c(x, width)
    x = _reduction_d(x)
    x = _module_e(x, average(x))
    x = _module_e(x, maximum(x))
    x = keras.layers.AveragePooling2D(8, strides=1)(x)
    x = keras.layers.Flatten()(x)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)


def _stem(x: keras.KerasTensor) -> keras.KerasTensor:
    """299 to 35x35x192."""
    x = halved(x, 32)
    x = convolution(x, 32, 3, padding="valid")
    x = pooled(convolution(x, 64, 3))
    x = convolution(x, 80, 1, padding="valid")
    return pooled(convolution(x, 192, 3, padding="valid"))


def _module_a(x: keras.KerasTensor, behind_pooling: int) -> keras.KerasTensor:
    return side_by_side(
        tower(x, (64, 1)),
        tower(x, (48, 1), (64, 5)),
        tower(x, (64, 1), (96, 3), (96, 3)),
        tower(average(x), (behind_pooling, 1)),
    )


def _reduction_b(x: keras.KerasTensor) -> keras.KerasTensor:
    """35x35 to 17x17x768."""
    return side_by_side(halved(x, 384), halved(tower(x, (64, 1), (96, 3)), 96), pooled(x))


def _module_c(x: keras.KerasTensor, width: int) -> keras.KerasTensor:
    return side_by_side(
        tower(x, (192, 1)),
        tower(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
        tower(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))),
        tower(average(x), (192, 1)),
    )


def _reduction_d(x: keras.KerasTensor) -> keras.KerasTensor:
    """17x17 to 8x8x1280."""
    return side_by_side(
        halved(tower(x, (192, 1)), 320), halved(tower(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192), pooled(x)
    )


def _module_e(x: keras.KerasTensor, around: keras.KerasTensor) -> keras.KerasTensor:
    narrow, wide = tower(x, (384, 1)), tower(x, (448, 1), (384, 3))
    return side_by_side(
        tower(x, (320, 1)),
        tower(narrow, (384, (1, 3))),
        tower(narrow, (384, (3, 1))),
        tower(wide, (384, (1, 3))),
        tower(wide, (384, (3, 1))),
        tower(around, (192, 1)),
    )
