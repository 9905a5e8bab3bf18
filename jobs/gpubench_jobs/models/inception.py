# SPDX-License-Identifier: Apache-2.0
"""The parts that inception3 and inception4 are put together from, as tf_cnn_benchmarks has them.

Every convolution is followed by batch normalisation (without gamma, decay 0.999, epsilon 0.001) and relu; none has a
bias.
"""

from dataclasses import dataclass

import keras

from gpubench_jobs.models.recipe import Normalization

#: Filters and kernel of a convolution that keeps the size.
Convolution = tuple[int, int | tuple[int, int]]


@dataclass(frozen=True)
class Convolutions:
    """Convolutions of one network, each normalised in the same way."""

    normalization: Normalization
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
        """A convolution, normalised, with relu."""
        x = keras.layers.Conv2D(filters, kernel, strides=stride, padding=padding, use_bias=False)(x)
        x = self.normalization(momentum=self.momentum, epsilon=1e-3, scale=False)(x)
        return keras.layers.Activation("relu")(x)

    def tower(self, x: keras.KerasTensor, *convolutions: Convolution) -> keras.KerasTensor:
        """Convolutions one after the other that keep the size."""
        for filters, kernel in convolutions:
            x = self.one(x, filters, kernel)
        return x

    def halved(self, x: keras.KerasTensor, filters: int) -> keras.KerasTensor:
        """An unpadded 3x3 with stride 2."""
        return self.one(x, filters, 3, stride=2, padding="valid")


def pooled(x: keras.KerasTensor) -> keras.KerasTensor:
    """An unpadded 3x3 maximum with stride 2."""
    return keras.layers.MaxPooling2D(3, strides=2)(x)


def average(x: keras.KerasTensor) -> keras.KerasTensor:
    """The 3x3 mean around each place."""
    return keras.layers.AveragePooling2D(3, strides=1, padding="same")(x)


def maximum(x: keras.KerasTensor) -> keras.KerasTensor:
    """The 3x3 maximum around each place."""
    return keras.layers.MaxPooling2D(3, strides=1, padding="same")(x)


def side_by_side(*columns: keras.KerasTensor) -> keras.KerasTensor:
    """The columns of a module, joined along the channels."""
    return keras.layers.Concatenate()(list(columns))
