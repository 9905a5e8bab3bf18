# SPDX-License-Identifier: Apache-2.0
"""inception4_finetune: Inception v4 fine-tuned on photographs of flowers, as TF-Slim trains it, with an auxiliary head.

The benchmark of Initialized Capital (April 2017, TensorFlow 1.0) names the model and the fine-tuning and no settings.
These are the defaults of TF-Slim (tensorflow/models, research/slim, train_image_classifier), with a batch of 32 and all
variables trained, as in gist vincentchu/0625ff67fb0c58390ce0fe7db5ea48a3 of the same weeks, probably the same script.
The learning rate falls every two epochs of 3,320 photographs, which are 207 steps of 32.

Deviations: the original began with a checkpoint that is not at hand, so first weights are random here: what is learned
in a run says nothing about fine-tuning, a step is as fast. TensorFlow 1 began RMSProp's mean of squares with ones,
Keras begins with zeros; beside an epsilon of 1.0 neither weighs much.

The statistics of batch normalisation remember 1 / (1 - 0.9997), some 3,300 steps. A checkpoint brings its own; with
random weights an evaluation before that many steps says nothing (a loss of 7e9 was seen after four).
"""

import keras
import tensorflow as tf

from gpubench import workloads
from gpubench_jobs.models import inception4
from gpubench_jobs.models.inception import Convolutions
from gpubench_jobs.models.recipe import Normalization, Recipe, right_class

_AUXILIARY_WEIGHT = 0.4
_L2 = 4e-5
_DECAY_OF_STATISTICS = 0.9997  # tf_cnn_benchmarks has 0.999
_STEPS_OF_TWO_EPOCHS = 207


def build(workload: workloads.Workload, normalization: Normalization) -> Recipe:
    """In the dtype policy that Keras has at this moment. The network's outputs are two: of its head, of the other."""
    layers = keras.layers
    image = keras.Input(workload.input_shape)
    conv = Convolutions(normalization, momentum=_DECAY_OF_STATISTICS)
    branch, x = inception4.body(conv, image, tool_order=False)
    x = layers.Flatten()(layers.AveragePooling2D(x.shape[1:3])(x))  # as TF-Slim: on a GPU a kernel that knows layouts
    x = layers.Dropout(0.2)(x)
    network = keras.Model(
        image, [layers.Dense(workload.classes)(x), _auxiliary(conv, branch, classes=workload.classes)]
    )
    # Not the biases: TF-Slim's regularizer is one of weights.
    kernels = [layer.kernel.value for layer in network.layers if isinstance(layer, layers.Conv2D | layers.Dense)]

    def loss(labels: tf.Tensor, outputs: list[tf.Tensor]) -> tf.Tensor:
        head, auxiliary = outputs
        weights_decay = _L2 * tf.add_n([tf.nn.l2_loss(kernel) for kernel in kernels])
        return _entropy(labels, head) + _AUXILIARY_WEIGHT * _entropy(labels, auxiliary) + weights_decay

    falling = keras.optimizers.schedules.ExponentialDecay(
        0.01, decay_steps=_STEPS_OF_TWO_EPOCHS, decay_rate=0.94, staircase=True
    )
    return Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=falling, rho=0.9, momentum=0.9, epsilon=1.0),
        loss=loss,
        correct=lambda labels, outputs: right_class(labels, outputs[0]),
    )


def _auxiliary(conv: Convolutions, branch: keras.KerasTensor, *, classes: int) -> keras.KerasTensor:
    """A small head of its own on the last 17x17x1024."""
    x = keras.layers.AveragePooling2D(5, strides=3)(branch)
    x = conv.one(x, 128, 1)
    x = conv.one(x, 768, 5, padding="valid")
    x = keras.layers.Flatten()(x)
    return keras.layers.Dense(classes)(x)


def _entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.cast(logits, tf.float32)))
