# SPDX-License-Identifier: Apache-2.0
"""Gradients of embeddings, which name the rows that they change.

Keras 3 takes them as they come: where a row is named twice its RMSprop, Adam and Adadelta square the two parts apart
(after three steps of Adam a weight differed by 0.12), without an error. So every gradient names a row once here.

Must not happen: one of them becomes a dense tensor, which has a row for each word of the vocabulary; a sum whose order
differs between ranks, which would let their weights drift apart. GPUs add to one row from many threads in any order:
`united` adds the ranks one after the other, and none of them names a row twice.
"""

from collections.abc import Sequence
from typing import TypeAlias

import tensorflow as tf

Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def once(gradient: Gradient) -> Gradient:
    """The same gradient, each row named once. A dense one is returned as it is."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def united(values: Sequence[tf.Tensor], indices: Sequence[tf.Tensor], *, dense_shape: tf.Tensor) -> tf.IndexedSlices:
    """The sum of several gradients, in their order; each of them names a row once."""
    rows, places = tf.unique(tf.concat(indices, axis=0))
    total = tf.zeros(tf.concat((tf.shape(rows), tf.shape(values[0])[1:]), axis=0), values[0].dtype)
    for own, place in zip(values, tf.split(places, [tf.size(one) for one in indices]), strict=True):
        total = tf.tensor_scatter_nd_add(total, place[:, tf.newaxis], own)
    return tf.IndexedSlices(total, rows, dense_shape)


def divided(gradient: Gradient, divisor: float | tf.Tensor) -> Gradient:
    """`tf.IndexedSlices` has no arithmetic of its own."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / divisor, gradient.indices, gradient.dense_shape)
    return gradient / divisor


def content(gradient: Gradient) -> tf.Tensor:
    """The numbers of a gradient, wherever they belong."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
