# SPDX-License-Identifier: Apache-2.0
"""inception4 (Szegedy and others 2016) as tf_cnn_benchmarks has it: 149 convolutions, 1001 classes, no auxiliary head.

No dropout before the last layer, see `classic`. TF-Slim's form, which `inception4_finetune` takes, has some pairs of
1x7 and 7x1 the other way round; its counts are the same.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.inception import Convolutions, average, pooled, side_by_side
from gpubench_jobs.models.recipe import Normalization, Recipe


def build(workload: workloads.Workload, normalization: Normalization) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    _, x = body(Convolutions(normalization), image, tool_order=True)
    x = keras.layers.GlobalAveragePooling2D()(x)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)


def body(
    conv: Convolutions, image: keras.KerasTensor, *, tool_order: bool
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """All before the heads: the last 17x17x1024, from which an auxiliary head branches off, and the last 8x8x1536.

    The tool and TF-Slim differ in which of a pair of long kernels comes first, in the stem and in the modules B and C.
    """
    x = _stem(conv, image, tool_order=tool_order)
    for _ in range(4):
        x = _module_a(conv, x)
    x = _reduction_a(conv, x)
    for _ in range(7):
        x = _module_b(conv, x, tool_order=tool_order)
    branch = x
    x = _reduction_b(conv, x)
    for _ in range(3):
        x = _module_c(conv, x, tool_order=tool_order)
    return branch, x


def _stem(conv: Convolutions, x: keras.KerasTensor, *, tool_order: bool) -> keras.KerasTensor:
    """299 to 35x35x384."""
    long = ((7, 1), (1, 7)) if tool_order else ((1, 7), (7, 1))
    x = conv.halved(x, 32)
    x = conv.one(x, 32, 3, padding="valid")
    x = conv.one(x, 64, 3)
    x = side_by_side(pooled(x), conv.halved(x, 96))
    x = side_by_side(
        conv.one(conv.tower(x, (64, 1)), 96, 3, padding="valid"),
        conv.one(conv.tower(x, (64, 1), *((64, kernel) for kernel in long)), 96, 3, padding="valid"),
    )
    return side_by_side(conv.halved(x, 192), pooled(x))


def _module_a(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    return side_by_side(
        conv.tower(average(x), (96, 1)),
        conv.tower(x, (96, 1)),
        conv.tower(x, (64, 1), (96, 3)),
        conv.tower(x, (64, 1), (96, 3), (96, 3)),
    )


def _reduction_a(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    """35x35 to 17x17x1024."""
    return side_by_side(pooled(x), conv.halved(x, 384), conv.halved(conv.tower(x, (192, 1), (224, 3)), 256))


def _module_b(conv: Convolutions, x: keras.KerasTensor, *, tool_order: bool) -> keras.KerasTensor:
    first, second = ((1, 7), (7, 1)) if tool_order else ((7, 1), (1, 7))
    return side_by_side(
        conv.tower(average(x), (128, 1)),
        conv.tower(x, (384, 1)),
        conv.tower(x, (192, 1), (224, (1, 7)), (256, (7, 1))),
        conv.tower(x, (192, 1), (192, first), (224, second), (224, first), (256, second)),
    )


def _reduction_b(conv: Convolutions, x: keras.KerasTensor) -> keras.KerasTensor:
    """17x17 to 8x8x1536."""
    return side_by_side(
        pooled(x),
        conv.halved(conv.tower(x, (192, 1)), 192),
        conv.halved(conv.tower(x, (256, 1), (256, (1, 7)), (320, (7, 1))), 320),
    )


def _module_c(conv: Convolutions, x: keras.KerasTensor, *, tool_order: bool) -> keras.KerasTensor:
    first, second = ((1, 3), (3, 1)) if tool_order else ((3, 1), (1, 3))
    narrow, wide = conv.tower(x, (384, 1)), conv.tower(x, (384, 1), (448, first), (512, second))
    return side_by_side(
        conv.tower(average(x), (256, 1)),
        conv.tower(x, (256, 1)),
        conv.tower(narrow, (256, (1, 3))),
        conv.tower(narrow, (256, (3, 1))),
        conv.tower(wide, (256, (3, 1))),
        conv.tower(wide, (256, (1, 3))),
    )
