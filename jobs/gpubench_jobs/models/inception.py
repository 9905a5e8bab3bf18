# SPDX-License-Identifier: Apache-2.0
"""inception3, inception4 and inception4_finetune, in the dtype policy that Keras has when they are built.

Every convolution is followed by batch normalisation (without gamma, decay 0.999, epsilon 0.001) and relu; none has a
bias.
"""

from dataclasses import dataclass

import keras
import tensorflow as tf
from keras import layers

from gpubench import workloads
from gpubench_jobs.models import tf_cnn_benchmarks
from gpubench_jobs.models.recipe import FusedBatchNormalization, Recipe, right_class

#: Filters and kernel of a convolution that keeps the size.
Convolution = tuple[int, int | tuple[int, int]]


@dataclass(frozen=True)
class _Convolutions:  # convolutions of one network, each normalised in the same way
    momentum: float = 0.999

    def one(
        self,
        x: keras.KerasTensor,
        filters: int,
        kernel: int | tuple[int, int],
        *,
        stride: int = 1,
        padding: str = "same",
    ) -> keras.KerasTensor:
        x = layers.Conv2D(filters, kernel, strides=stride, padding=padding, use_bias=False)(x)
        return layers.Activation("relu")(FusedBatchNormalization(momentum=self.momentum, epsilon=1e-3, scale=False)(x))

    def tower(self, x: keras.KerasTensor, *convolutions: Convolution) -> keras.KerasTensor:
        """Convolutions one after the other that keep the size."""
        for filters, kernel in convolutions:
            x = self.one(x, filters, kernel)
        return x

    def halved(self, x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        return self.one(x, filters, 3, stride=2, padding="valid")


def _pooled(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.MaxPooling2D(3, strides=2)(x)


def _average(x: keras.KerasTensor) -> keras.KerasTensor:
    return layers.AveragePooling2D(3, strides=1, padding="same")(x)


def _side_by_side(*columns: keras.KerasTensor) -> keras.KerasTensor:
    return layers.Concatenate()(list(columns))


def inception3(workload: workloads.Workload) -> Recipe:
    """Inception v3 (Szegedy and others 2015) as tf_cnn_benchmarks has it: 94 convolutions, auxiliary head off.

    At 1000 classes it counts what `keras.applications.InceptionV3` counts; the last module pools the maximum, Keras'
    the mean.
    """
    image = keras.Input(workload.input_shape)
    conv = _Convolutions()
    x = conv.one(conv.halved(image, 32), 32, 3, padding="valid")
    x = conv.one(_pooled(conv.one(x, 64, 3)), 80, 1, padding="valid")
    x = _pooled(conv.one(x, 192, 3, padding="valid"))  # 299 to 35x35x192
    for behind_pooling in (32, 64, 64):
        x = _side_by_side(
            conv.tower(x, (64, 1)),
            conv.tower(x, (48, 1), (64, 5)),
            conv.tower(x, (64, 1), (96, 3), (96, 3)),
            conv.tower(_average(x), (behind_pooling, 1)),
        )
    # 35x35 to 17x17x768
    x = _side_by_side(conv.halved(x, 384), conv.halved(conv.tower(x, (64, 1), (96, 3)), 96), _pooled(x))
    for width in (128, 160, 160, 192):
        x = _side_by_side(
            conv.tower(x, (192, 1)),
            conv.tower(x, (width, 1), (width, (1, 7)), (192, (7, 1))),
            conv.tower(x, (width, 1), (width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))),
            conv.tower(_average(x), (192, 1)),
        )
    x = _side_by_side(  # 17x17 to 8x8x1280
        conv.halved(conv.tower(x, (192, 1)), 320),
        conv.halved(conv.tower(x, (192, 1), (192, (1, 7)), (192, (7, 1))), 192),
        _pooled(x),
    )
    x = _module_e(conv, x, _average(x))
    x = _module_e(conv, x, layers.MaxPooling2D(3, strides=1, padding="same")(x))
    x = layers.AveragePooling2D(8, strides=1)(x)
    return tf_cnn_benchmarks.classifier(image, layers.Flatten()(x), workload)


def _module_e(conv: _Convolutions, x: keras.KerasTensor, around: keras.KerasTensor) -> keras.KerasTensor:
    narrow, wide = conv.tower(x, (384, 1)), conv.tower(x, (448, 1), (384, 3))
    return _side_by_side(
        conv.tower(x, (320, 1)),
        conv.tower(narrow, (384, (1, 3))),
        conv.tower(narrow, (384, (3, 1))),
        conv.tower(wide, (384, (1, 3))),
        conv.tower(wide, (384, (3, 1))),
        conv.tower(around, (192, 1)),
    )


def inception4(workload: workloads.Workload) -> Recipe:
    """Inception v4 (Szegedy and others 2016) as tf_cnn_benchmarks has it: 149 convolutions, no auxiliary head.

    No dropout before the last layer, see `tf_cnn_benchmarks`. TF-Slim's form, which `inception4_finetune` takes, has
    some pairs of 1x7 and 7x1 the other way round; its counts are the same.
    """
    image = keras.Input(workload.input_shape)
    _, x = _body(_Convolutions(), image, tool_order=True)
    return tf_cnn_benchmarks.classifier(image, layers.GlobalAveragePooling2D()(x), workload)


def _body(
    conv: _Convolutions, image: keras.KerasTensor, *, tool_order: bool
) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """All before the heads: the last 17x17x1024, from which an auxiliary head branches off, and the last 8x8x1536.

    The tool and TF-Slim differ in which of a pair of long kernels comes first, in the stem and in the modules B and C.
    """
    x = _stem4(conv, image, long=((7, 1), (1, 7)) if tool_order else ((1, 7), (7, 1)))
    for _ in range(4):
        x = _side_by_side(
            conv.tower(_average(x), (96, 1)),
            conv.tower(x, (96, 1)),
            conv.tower(x, (64, 1), (96, 3)),
            conv.tower(x, (64, 1), (96, 3), (96, 3)),
        )
    # 35x35 to 17x17x1024
    x = _side_by_side(_pooled(x), conv.halved(x, 384), conv.halved(conv.tower(x, (192, 1), (224, 3)), 256))
    first, second = ((1, 7), (7, 1)) if tool_order else ((7, 1), (1, 7))
    for _ in range(7):
        x = _side_by_side(
            conv.tower(_average(x), (128, 1)),
            conv.tower(x, (384, 1)),
            conv.tower(x, (192, 1), (224, (1, 7)), (256, (7, 1))),
            conv.tower(x, (192, 1), (192, first), (224, second), (224, first), (256, second)),
        )
    branch = x
    x = _side_by_side(  # 17x17 to 8x8x1536
        _pooled(x),
        conv.halved(conv.tower(x, (192, 1)), 192),
        conv.halved(conv.tower(x, (256, 1), (256, (1, 7)), (320, (7, 1))), 320),
    )
    first, second = ((1, 3), (3, 1)) if tool_order else ((3, 1), (1, 3))
    for _ in range(3):
        narrow, wide = conv.tower(x, (384, 1)), conv.tower(x, (384, 1), (448, first), (512, second))
        x = _side_by_side(
            conv.tower(_average(x), (256, 1)),
            conv.tower(x, (256, 1)),
            conv.tower(narrow, (256, (1, 3))),
            conv.tower(narrow, (256, (3, 1))),
            conv.tower(wide, (256, (3, 1))),
            conv.tower(wide, (256, (1, 3))),
        )
    return branch, x


def _stem4(conv: _Convolutions, x: keras.KerasTensor, *, long: tuple[tuple[int, int], ...]) -> keras.KerasTensor:
    """299 to 35x35x384."""
    x = conv.one(conv.one(conv.halved(x, 32), 32, 3, padding="valid"), 64, 3)
    x = _side_by_side(_pooled(x), conv.halved(x, 96))
    x = _side_by_side(
        conv.one(conv.tower(x, (64, 1)), 96, 3, padding="valid"),
        conv.one(conv.tower(x, (64, 1), *((64, kernel) for kernel in long)), 96, 3, padding="valid"),
    )
    return _side_by_side(conv.halved(x, 192), _pooled(x))


def inception4_finetune(workload: workloads.Workload) -> Recipe:
    """Inception v4 fine-tuned on photographs of flowers, as TF-Slim trains it: its head, and an auxiliary one.

    The benchmark of Initialized Capital (April 2017, TensorFlow 1.0) names the model and the fine-tuning and no
    settings. These are the defaults of TF-Slim (tensorflow/models, research/slim, train_image_classifier), with a batch
    of 32 and all variables trained, as in gist vincentchu/0625ff67fb0c58390ce0fe7db5ea48a3 of the same weeks, probably
    the same script. The learning rate falls every two epochs of 3,320 photographs, which are 207 steps of 32.

    Deviations: the original began with a checkpoint that is not at hand, so first weights are random here: what is
    learned in a run says nothing about fine-tuning, a step is as fast. TensorFlow 1 began RMSProp's mean of squares
    with ones, Keras begins with zeros; beside an epsilon of 1.0 neither weighs much. The statistics of batch
    normalisation remember some 3,300 steps: an evaluation before says nothing (a loss of 7e9 was seen after four).
    """
    image = keras.Input(workload.input_shape)
    conv = _Convolutions(momentum=0.9997)  # tf_cnn_benchmarks has 0.999
    branch, x = _body(conv, image, tool_order=False)
    x = layers.Flatten()(layers.AveragePooling2D(x.shape[1:3])(x))  # as TF-Slim: on a GPU a kernel that knows layouts
    x = layers.Dropout(0.2)(x)
    head = layers.Dense(workload.classes)(x)
    auxiliary = conv.one(layers.AveragePooling2D(5, strides=3)(branch), 128, 1)
    auxiliary = layers.Flatten()(conv.one(auxiliary, 768, 5, padding="valid"))
    network = keras.Model(image, [head, layers.Dense(workload.classes)(auxiliary)])
    # Not the biases: TF-Slim's regularizer is one of weights.
    kernels = [layer.kernel.value for layer in network.layers if isinstance(layer, layers.Conv2D | layers.Dense)]

    def loss(labels: tf.Tensor, outputs: list[tf.Tensor]) -> tf.Tensor:
        head, auxiliary = outputs
        weights_decay = 4e-5 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return (
            tf_cnn_benchmarks.cross_entropy(labels, head)
            + 0.4 * tf_cnn_benchmarks.cross_entropy(labels, auxiliary)
            + weights_decay
        )

    falling = keras.optimizers.schedules.ExponentialDecay(0.01, decay_steps=207, decay_rate=0.94, staircase=True)
    return Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=falling, rho=0.9, momentum=0.9, epsilon=1.0),
        loss=loss,
        correct=lambda labels, outputs: right_class(labels, outputs[0]),
    )
