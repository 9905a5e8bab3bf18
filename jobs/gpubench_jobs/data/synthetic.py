# SPDX-License-Identifier: Apache-2.0
"""Samples that look like a workload's without being any. Drawn by seed, so that a run can be given the same ones again.

Each rank has its own seed: ranks that train on the same samples would hide a missing reduction of gradients.
"""

import tensorflow as tf

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import feed
from gpubench_jobs.data.feed import Feed


def batch_of(workload: Workload, *, batch: int, seed: int, dtype: str) -> Feed:
    """One batch that stays on the device; `dtype` is what the network computes in, for images that it was cast to."""
    match workload.inputs:
        case Inputs.IMAGENET:
            images = imagenet_images(workload.input_shape, batch=batch, seed=seed, dtype=tf.as_dtype(dtype))
            return Feed(
                state=(images, tf.constant(seed, tf.int64)),
                draw=lambda state, step: (state[0], imagenet_labels(batch=batch, seed=state[1], step=step)),
            )
        case Inputs.FLOWERS:
            inputs = uniform_images(workload, batch=batch, seed=seed) * 2.0 - 1.0
            return feed.held(inputs, class_numbers(workload, batch=batch, seed=seed))
        case Inputs.IMDB | Inputs.TWEETS:
            return feed.held(tokens(workload, batch=batch, seed=seed), halves(batch=batch, seed=seed))
        case Inputs.NIETZSCHE:
            inputs = characters(workload, batch=batch, seed=seed)
            return feed.held(inputs, one_hot_labels(workload, batch=batch, seed=seed))
        case Inputs.MNIST | Inputs.CIFAR10:
            inputs = uniform_images(workload, batch=batch, seed=seed)
            return feed.held(inputs, one_hot_labels(workload, batch=batch, seed=seed))
        case Inputs.NONE:
            raise ValueError(f"{workload.name} takes no samples: choose a workload that trains a model")


def uniform_images(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """Like pixels that were divided by 255: uniform in [0, 1)."""
    return tf.random.stateless_uniform((batch, *workload.input_shape), seed=(seed, 1))


def tokens(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """Uniform over the vocabulary, so that hardly two are alike: the embedding's rows come from all over its table."""
    shape = (batch, *workload.input_shape)
    return tf.random.stateless_uniform(shape, seed=(seed, 1), maxval=workload.vocabulary, dtype=tf.int32)


def characters(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """Windows of one-hot rows, one for each character."""
    *length, different = workload.input_shape
    drawn = tf.random.stateless_uniform((batch, *length), seed=(seed, 1), maxval=different, dtype=tf.int32)
    return tf.one_hot(drawn, different)


def class_numbers(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """One class for each sample."""
    return tf.random.stateless_uniform((batch,), seed=(seed, 2), maxval=workload.classes, dtype=tf.int32)


def one_hot_labels(workload: Workload, *, batch: int, seed: int) -> tf.Tensor:
    """One class for each sample, as a one-hot row."""
    return tf.one_hot(class_numbers(workload, batch=batch, seed=seed), workload.classes)


def halves(*, batch: int, seed: int) -> tf.Tensor:
    """One label 0 or 1 for each sample, as a row."""
    return tf.cast(tf.random.stateless_uniform((batch, 1), seed=(seed, 2), maxval=2, dtype=tf.int32), tf.float32)


def imagenet_images(shape: tuple[int, ...], *, batch: int, seed: int, dtype: tf.DType) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them: a truncated normal around 127 with deviation 60, in the compute type."""
    drawn = tf.random.stateless_truncated_normal((batch, *shape), seed=(seed, 1), mean=127.0, stddev=60.0)
    return tf.cast(drawn, dtype)


def imagenet_labels(*, batch: int, seed: int | tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them, anew in every step: uniform over the first 1000 of 1001 classes."""
    pair = tf.stack((tf.cast(seed, tf.int64), tf.cast(step, tf.int64)))
    return tf.random.stateless_uniform((batch,), seed=pair, maxval=1000, dtype=tf.int32)
