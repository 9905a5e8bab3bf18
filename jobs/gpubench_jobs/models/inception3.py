# SPDX-License-Identifier: Apache-2.0
"""inception3 (Szegedy and others 2015) as tf_cnn_benchmarks has it: 94 convolutions, auxiliary head off.

At 1000 classes it counts what `keras.applications.InceptionV3` counts; the last module pools the maximum, Keras' the
mean.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.inception import Convolutions, average, maximum, pooled, side_by_side
from gpubench_jobs.models.recipe import Normalization, Recipe


def build(workload: workloads.Workload, normalization: Normalization) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    conv = Convolutions(normalization)
    x = _stem(conv, image)
    for behind_pooling in (32, 64, 64):
        x = _module_a(conv, x, behind_pooling)
    x = _reduction_b(conv, x)
    for width in (128, 160, 160, 192):
        x = _module_c(conv, x, width)
    x = _reduction_d(conv, x)
    x = _module_e(conv, x, average(x))
    x = _module_e(conv, x, maximum(x))
    x = keras.layers.AveragePooling2D(8, strides=1)(x)
    x = keras.layers.Flatten()(x)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)


def _stem(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    """299 to 35x35x192."""
    x = conv.halved(x, 32)
    x = conv.one(x, 32, 3, padding="valid")
    x = pooled(conv.one(x, 64, 3))
    x = conv.one(x, 80, 1, padding="valid")
    return pooled(conv.one(x, 192, 3, padding="valid"))


def _module_a(conv: Convolutions, x: keras.KerasTensor, behind_pooling: int) -> keras.KerasTensor:
    return side_by_side(
        conv.tower(x, (64, 1)),
        conv.tower(x, (48, 1), (64, 5)),
        conv.tower(x, (64, 1), (96, 3), (96, 3)),
        conv.tower(average(x), (behind_pooling, 1)),
    )


def _reduction_b(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    """35x35 to 17x17x768."""
    return side_by_side(conv.halved(x, 384), conv.halved(conv.tower(x, (64, 1), (96, 3)), 96), pooled(x))


def _module_c(conv: Convolutions, x: keras.KerasTensor, width: int) -> keras.KerasTensor:
    return side_by_side(
        conv.tower(x, (192, 1)),
        conv.tower(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
        conv.tower(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))),
        conv.tower(average(x), (192, 1)),
    )


def _reduction_d(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    """17x17 to 8x8x1280."""
    return side_by_side(
        conv.halved(conv.tower(x, (192, 1)), 320),
        conv.halved(conv.tower(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192),
        pooled(x),
    )


def _module_e(conv: Convolutions, x: keras.KerasTensor, around: keras.KerasTensor) -> keras.KerasTensor:
    narrow, wide = conv.tower(x, (384, 1)), conv.tower(x, (448, 1), (384, 3))
    return side_by_side(
        conv.tower(x, (320, 1)),
        conv.tower(narrow, (384, (1, 3))),
        conv.tower(narrow, (384, (3, 1))),
        conv.tower(wide, (384, (1, 3))),
        conv.tower(wide, (384, (3, 1))),
        conv.tower(around, (192, 1)),
    )
