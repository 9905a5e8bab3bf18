# SPDX-License-Identifier: Apache-2.0
"""Where the samples of a training step come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

#: Inputs and labels of one batch.
Batch = tuple[tf.Tensor, tf.Tensor]
#: From inputs as they travel to inputs as the network takes them.
OnDevice = Callable[[tf.Tensor], tf.Tensor]

_BATCHES_ON_DEVICE = 2


@dataclass(frozen=True)
class Feed:
    """`draw` gives the batch of a step; it is traced inside the compiled training function.

    `state` enters that function as arguments, so that none of it becomes a constant of the graph: tensors that stay on
    the device, or an iterator of tf.data.
    """

    state: tuple[Any, ...]
    draw: Callable[[tuple[Any, ...], tf.Tensor], Batch]


def held(inputs: tf.Tensor, labels: tf.Tensor) -> Feed:
    """The same batch in every step."""
    return Feed(state=(inputs, labels), draw=lambda state, _: (state[0], state[1]))


def as_it_is(inputs: tf.Tensor) -> tf.Tensor:
    """Inputs that travel as the network takes them."""
    return inputs


def streamed(batches: tf.data.Dataset, on_device: OnDevice = as_it_is, *, device: str | None = None) -> Feed:
    """The next batch of a data set that never ends, in every step.

    Batches are copied to `device`, this rank's GPU unless it is given, while earlier ones are trained on.
    """
    if device is None:
        device = next((one.name for one in tf.config.list_logical_devices("GPU")), None)
    if device is not None:
        batches = batches.apply(tf.data.experimental.prefetch_to_device(device, _BATCHES_ON_DEVICE))

    def draw(state: tuple[Any, ...], _: tf.Tensor) -> Batch:
        inputs, labels = next(state[0])
        return on_device(inputs), labels

    return Feed(state=(iter(batches),), draw=draw)
