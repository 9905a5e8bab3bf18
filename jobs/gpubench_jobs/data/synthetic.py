# SPDX-License-Identifier: Apache-2.0
"""Samples that look like a workload's without being any. Drawn by seed, so that a run can be given the same ones again.

Each rank has its own seed: ranks that train on the same samples would hide a missing reduction of gradients.
"""

import tensorflow as tf

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import feed
from gpubench_jobs.data.feed import Feed


def batch_of(workload: Workload, *, batch: int, seed: int, dtype: str) -> Feed:
    """One batch that stays on the device; `dtype` is what the network computes in, for inputs that it casts."""
    if workload.inputs is Inputs.IMAGENET:
        images = imagenet_images(workload.input_shape, batch=batch, seed=seed, dtype=tf.as_dtype(dtype))
        return Feed(
            state=(images, tf.constant(seed, tf.int64)),
            draw=lambda state, step: (state[0], imagenet_labels(batch=batch, seed=state[1], step=step)),
        )
    return feed.held(uniform_images(workload, batch=batch, seed=seed), one_hot_labels(workload, batch=batch, seed=seed))


def uniform_images(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """Like pixels that were divided by 255: uniform in [0, 1)."""
    return tf.random.stateless_uniform((batch, *workload.input_shape), seed=(seed, 1))


def one_hot_labels(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """One class for each sample, as a one-hot row."""
    drawn = tf.random.stateless_uniform((batch,), seed=(seed, 2), maxval=workload.classes, dtype=tf.int32)
    return tf.one_hot(drawn, workload.classes)


def imagenet_images(shape: tuple[int, ...], *, batch: int, seed: int, dtype: tf.DType) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them: a truncated normal around 127 with deviation 60, in the compute type."""
    drawn = tf.random.stateless_truncated_normal((batch, *shape), seed=(seed, 1), mean=127.0, stddev=60.0)
    return tf.cast(drawn, dtype)


def imagenet_labels(*, batch: int, seed: int | tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them, anew in every step: uniform over the first 1000 of 1001 classes."""
    pair = tf.stack((tf.cast(seed, tf.int64), tf.cast(step, tf.int64)))
    return tf.random.stateless_uniform((batch,), seed=pair, maxval=1000, dtype=tf.int32)
