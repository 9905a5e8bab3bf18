# SPDX-License-Identifier: Apache-2.0
"""vgg16 and vgg19, models D and E of Simonyan and Zisserman (2014), as tf_cnn_benchmarks trained them in mid 2018.

Five groups of 3x3 convolutions with biases and without batch normalisation, each group ended by a 2x2 pooling, then two
dense layers of 4096. No dropout, because the published runs had none: see `classic`.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.recipe import Recipe

_FILTERS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {"vgg16": (2, 2, 3, 3, 3), "vgg19": (2, 2, 4, 4, 4)}  # in each group


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    image = keras.Input(workload.input_shape)
    x = image
    for filters, convolutions in zip(_FILTERS, _CONVOLUTIONS[workload.name], strict=True):
        for _ in range(convolutions):
            x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Flatten()(x)
    for _ in range(2):
        x = classic.dense(x, 4096)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)
