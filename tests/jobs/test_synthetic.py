# SPDX-License-Identifier: Apache-2.0
"""Synthetic samples have the shapes, types and ranges that the real ones of a workload have."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from gpubench import workloads
from gpubench.workloads import Inputs
from gpubench_jobs.data import generated

BATCH = 64
EACH_KIND = [
    next(workload for workload in workloads.CATALOGUE if workload.inputs is kind)
    for kind in dict.fromkeys(workload.inputs for workload in workloads.CATALOGUE)
    if kind is not Inputs.NONE
]


def drawn(workload: workloads.Workload, *, seed: int = 3) -> tuple[Any, Any]:
    feed = generated.synthetic_batch(workload, batch=BATCH, seed=seed, dtype="float32")
    inputs, labels = feed.draw(feed.state, tf.constant(0))
    return inputs.numpy(), labels.numpy()


@pytest.mark.parametrize("workload", EACH_KIND, ids=lambda workload: workload.name)
def test_the_same_seed_gives_the_same_samples_and_another_one_others(workload: workloads.Workload) -> None:
    (inputs, labels), (again, labels_again), (others, other_labels) = (
        drawn(workload),
        drawn(workload),
        drawn(workload, seed=4),
    )
    assert np.array_equal(inputs, again)
    assert np.array_equal(labels, labels_again)
    assert not np.array_equal(inputs, others)
    assert not np.array_equal(labels, other_labels)
    assert inputs.shape == (BATCH, *workload.input_shape)


@pytest.mark.parametrize("workload", EACH_KIND, ids=lambda workload: workload.name)
def test_samples_look_like_the_real_ones(workload: workloads.Workload) -> None:
    inputs, labels = drawn(workload)
    match workload.inputs:
        case Inputs.MNIST | Inputs.CIFAR10:
            assert 0.0 <= inputs.min() < 0.1
            assert 0.9 < inputs.max() < 1.0
        case Inputs.FLOWERS:
            assert -1.0 <= inputs.min() < -0.9
            assert 0.9 < inputs.max() < 1.0
        case Inputs.IMAGENET:
            assert inputs.mean() == pytest.approx(127.0, abs=1.0)
        case Inputs.IMDB | Inputs.TWEETS:
            assert workload.vocabulary
            assert inputs.dtype == np.int32
            assert 0 <= inputs.min() < 0.01 * workload.vocabulary
            assert 0.99 * workload.vocabulary < inputs.max() < workload.vocabulary
        case Inputs.NIETZSCHE:
            assert inputs.dtype == np.float32
            assert (inputs.sum(axis=-1) == 1.0).all()
            assert (inputs.max(axis=-1) == 1.0).all()
            assert inputs.any(axis=(0, 1)).all(), "every character is seen"
    match workload.inputs:
        case Inputs.MNIST | Inputs.CIFAR10 | Inputs.NIETZSCHE:
            assert labels.shape == (BATCH, workload.classes)
            assert labels.dtype == np.float32
            assert (labels.sum(axis=-1) == 1.0).all()
        case Inputs.IMDB | Inputs.TWEETS:
            assert labels.shape == (BATCH, 1)
            assert labels.dtype == np.float32
            assert set(np.unique(labels)) == {0.0, 1.0}
        case Inputs.FLOWERS | Inputs.IMAGENET:
            assert labels.shape == (BATCH,)
            assert labels.dtype == np.int32
            assert 0 <= labels.min() < labels.max() < workload.classes


def test_a_message_is_no_sample() -> None:
    with pytest.raises(ValueError, match="allreduce takes no samples"):
        drawn(workloads.find("allreduce"))
