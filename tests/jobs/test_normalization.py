# SPDX-License-Identifier: Apache-2.0
"""The fused layer beside Keras' own: the same variables, outputs, gradients and moving averages, to rounding."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpubench.workloads import Precision
from gpubench_jobs.models.recipe import FusedBatchNormalization
from gpubench_jobs.worker import builder

#: Of numbers of size 1: as far apart as float32, and an activation in eight bits, let them be.
TOLERANCES = {Precision.FLOAT32: 1e-5, Precision.MIXED_FLOAT16: 2e-3, Precision.MIXED_BFLOAT16: 2e-2}
SHAPES = [(4, 5, 5, 8), (1, 1, 1, 8)]  # the latter has no unbiased variance


def trained(layer: keras.layers.Layer, shape: tuple[int, ...], *, xla: bool = False) -> list[Any]:
    """Outputs in training, gradients of inputs and weights, moving averages, outputs in evaluation."""
    images = tf.random.stateless_normal(shape, seed=(1, 2), mean=3.0, stddev=2.0)
    weights = tf.random.stateless_normal(shape, seed=(3, 4))
    network = keras.Sequential([keras.Input(shape[1:]), layer], name="network")

    @tf.function(jit_compile=xla)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def step(inputs: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = network(inputs, training=True)
            loss = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights)
        return [outputs, *tape.gradient(loss, [inputs, *(one.value for one in network.trainable_variables)])]

    found = [*step(images), *network.non_trainable_variables, network(images, training=False)]
    return [np.array(one, np.float32) for one in found]


@pytest.mark.parametrize("xla", [False, True])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("computed_in", TOLERANCES)
def test_it_computes_what_keras_computes(
    computed_in: Precision, shape: tuple[int, ...], *, scale: bool, xla: bool
) -> None:
    builder.use_precision(computed_in)
    try:
        settings: dict[str, Any] = {"momentum": 0.9, "epsilon": 1e-3, "scale": scale, "name": "normalization"}
        ours, reference = FusedBatchNormalization(**settings), keras.layers.BatchNormalization(**settings)
        found, expected = trained(ours, shape, xla=xla), trained(reference, shape, xla=xla)
    finally:
        builder.use_precision(Precision.FLOAT32)
    assert [one.path for one in ours.variables] == [one.path for one in reference.variables]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=TOLERANCES[computed_in], atol=TOLERANCES[computed_in])


def test_a_layer_that_is_not_trained_uses_its_moving_averages() -> None:
    layer = FusedBatchNormalization(epsilon=0.0625, trainable=False)
    outputs = layer(tf.fill((2, 3, 3, 1), 4.25), training=True)
    np.testing.assert_allclose(outputs, 4.25 / np.sqrt(1.0625), rtol=1e-6)
    np.testing.assert_array_equal(layer.moving_mean, [0.0])
