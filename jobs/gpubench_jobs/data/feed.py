# SPDX-License-Identifier: Apache-2.0
"""Where the samples of a training step come from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

#: Inputs and labels of one batch.
Batch = tuple[tf.Tensor, tf.Tensor]


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


def streamed(batches: tf.data.Dataset) -> Feed:
    """The next batch of a data set that never ends, in every step."""
    return Feed(state=(iter(batches),), draw=lambda state, _: next(state[0]))
