# SPDX-License-Identifier: Apache-2.0
"""trivial of tf_cnn_benchmarks: all pixels into one number, that into 4096, those into 1001 classes.

It computes next to nothing, so what is measured is everything else: the step's fixed cost and the all-reduce of 17 MB.
About every other seed leaves that one number below zero, where relu passes nothing on: then only the biases of the last
layer learn, and the L2 term still shrinks the weights. The speed is the same.
"""

import keras

from gpubench import workloads
from gpubench_jobs.models import classic
from gpubench_jobs.models.recipe import Recipe


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    image = keras.Input(workload.input_shape)
    x = keras.layers.Flatten()(image)
    x = classic.dense(x, 1)
    x = classic.dense(x, 4096)
    network = keras.Model(image, classic.logits(x, classes=workload.classes))
    return classic.recipe(network, learning_rate=0.005)
