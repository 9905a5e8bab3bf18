# SPDX-License-Identifier: Apache-2.0
"""alexnet as tf_cnn_benchmarks has it: the one-tower form of Krizhevsky (2014), without response normalisation.

Biases, no batch normalisation, images of 227 so that the unpadded 11x11 fits; no dropout, see `classic`.

Deviation: the learning rate is 0.0001. At the tool's 0.005 the loss is NaN within ten steps, here as in the original
(its output at batch 512 stands in issue 173 of ROCm/tensorflow-upstream), and a run whose loss is no number is refused.
The same operations run at the same speed.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.recipe import Recipe


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    image = keras.Input(workload.input_shape)
    x = layers.Conv2D(64, 11, strides=4, activation="relu")(image)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = layers.Conv2D(192, 5, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    for filters in (384, 384, 256):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = classic.dense(x, 4096)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=1e-4)
