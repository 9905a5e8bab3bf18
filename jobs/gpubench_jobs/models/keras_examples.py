# SPDX-License-Identifier: Apache-2.0
"""The examples of Keras of November 2017 (Keras 2.1.1), and RaRe Technologies' model for tweets of February 2018.

Builders use the dtype policy that Keras has at the moment.

Deviation: Keras 3 adds epsilon inside the root of RMSprop, Keras 2.1.1 outside. At 1e-8 this changes no speed.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import layers, losses, optimizers

from gpubench.workloads import Workload
from gpubench_jobs.models.recipe import Recipe, right_class, right_of_two


def _classifier(workload: Workload, optimizer: optimizers.Optimizer, *hidden: layers.Layer, **more: Any) -> Recipe:
    last = layers.Dense(workload.classes, activation="softmax", dtype="float32")
    network = keras.Sequential([keras.Input(workload.input_shape), *hidden, last])
    return Recipe(network, optimizer, loss=_of_classes, **more)


def _opinion(workload: Workload, *hidden: layers.Layer) -> Recipe:  # one probability, from word numbers
    last = layers.Dense(1, activation="sigmoid", dtype="float32")
    network = keras.Sequential([keras.Input(workload.input_shape, dtype="int32"), *hidden, last])
    return Recipe(network, optimizers.Adam(learning_rate=0.001, epsilon=1e-8), loss=_of_two, correct=right_of_two)


def mnist_mlp(workload: Workload) -> Recipe:
    """Two hidden layers of 512; batch 128."""
    return _classifier(
        workload,
        optimizers.RMSprop(learning_rate=0.001, rho=0.9, epsilon=1e-8),
        layers.Dense(512, activation="relu"),
        layers.Dropout(0.2),
        layers.Dense(512, activation="relu"),
        layers.Dropout(0.2),
        correct=right_class,
    )


def mnist_cnn(workload: Workload) -> Recipe:
    """Two convolutions and two dense layers; batch 128. Adadelta's default rate is a thousandth of then in Keras 3."""
    return _classifier(
        workload,
        optimizers.Adadelta(learning_rate=1.0, rho=0.95, epsilon=1e-8),
        layers.Conv2D(32, 3, activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(128, activation="relu"),
        layers.Dropout(0.5),
        correct=right_class,
    )


def cifar10_cnn(workload: Workload) -> Recipe:
    """Four convolutions on images of 32x32; batch 32.

    Its training images were changed at random: mirrored half of the time, and moved by up to a tenth of the side in
    both directions. There one thread of the CPU did it, image by image; here a whole batch at once. An epoch was 1,562
    steps, as many as there are full batches in 50,000 images.
    """
    # Keras 2.1.1 called this RMSprop(decay=1e-6).
    falling = optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    return _classifier(
        workload,
        optimizers.RMSprop(learning_rate=falling, rho=0.9, epsilon=1e-8),
        layers.Conv2D(32, 3, padding="same", activation="relu"),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Conv2D(64, 3, padding="same", activation="relu"),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Dropout(0.25),
        layers.Flatten(),
        layers.Dense(512, activation="relu"),
        layers.Dropout(0.5),
        correct=right_class,
        augment=mirrored_and_moved,
        drop_remainder=True,
    )


def mirrored_and_moved(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """Each image by chance of its own; a pixel from outside is the nearest one inside, none is interpolated."""
    count, height, width = (tf.shape(images)[axis] for axis in range(3))
    of_rows, of_columns, of_mirrors = tf.unstack(tf.random.split(seed, 3))
    mirrored = tf.random.stateless_uniform((count, 1), seed=of_mirrors) < 0.5
    rows = _moved(height, count=count, seed=of_rows)
    columns = _moved(width, count=count, seed=of_columns)
    columns = tf.where(mirrored, width - 1 - columns, columns)
    return tf.gather(tf.gather(images, rows, axis=1, batch_dims=1), columns, axis=2, batch_dims=1)


def _moved(side: tf.Tensor, *, count: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    """For each image the numbers of the rows, or columns, that its rows or columns are taken from."""
    farthest = 0.1 * tf.cast(side, tf.float32)
    distances = tf.random.stateless_uniform((count, 1), seed=seed, minval=-farthest, maxval=farthest)
    places = tf.floor(tf.cast(tf.range(side), tf.float32) + distances + 0.5)
    return tf.clip_by_value(tf.cast(places, tf.int32), 0, side - 1)


def bidirectional_lstm(workload: Workload) -> Recipe:
    """imdb_bidirectional_lstm and twitter_bilstm: an embedding, an LSTM of 64 in both directions, one probability.

    On GPUs both ran cuDNN's LSTM, and so does this one: Keras chooses it wherever the layer's arguments are the
    standard ones and TensorFlow sees a GPU. It computes what cuDNN does (sigmoid gates; the plain LSTM of Keras 2 had
    hard sigmoids) but keeps one bias where cuDNN has two, so it counts 512 parameters fewer than the published
    2,659,457 and 35,243,393. In mixed_bfloat16 TensorFlow's kernel casts to float32 and back (tensorflow/tensorflow,
    pull request 60108). What concerns GPUs was not run here. Padding is not masked: the originals read it like words.
    """
    return _opinion(
        workload, layers.Embedding(workload.vocabulary, 128), layers.Bidirectional(layers.LSTM(64)), layers.Dropout(0.5)
    )


def imdb_fasttext(workload: Workload) -> Recipe:
    """The mean embedding of words and pairs of words, whose number only the data knows (`models.build_for`)."""
    return _opinion(workload, layers.Embedding(workload.vocabulary, 50), layers.GlobalAveragePooling1D())


def lstm_text_generation(workload: Workload) -> Recipe:
    """The next character after 40; batch 128. Published runs on GPUs had two biases, see `bidirectional_lstm`."""
    return _classifier(workload, optimizers.RMSprop(learning_rate=0.01, rho=0.9, epsilon=1e-8), layers.LSTM(128))


def _of_classes(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return keras.ops.mean(losses.categorical_crossentropy(labels, outputs))


def _of_two(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return keras.ops.mean(losses.binary_crossentropy(labels, outputs))
