# SPDX-License-Identifier: Apache-2.0
"""cifar10_cnn: four convolutions on images of 32x32, as in the Keras example of November 2017 (Keras 2.1.1, batch 32).

Its training images were changed at random: mirrored half of the time, and moved by up to a tenth of the side in both
directions. There one thread of the CPU did it, image by image; `augment` does it for a whole batch, where it is called.
An epoch was 1,562 steps, as many as there are full batches in 50,000 images.

Deviation: epsilon inside RMSprop's root, see `mnist_mlp`.
"""

import keras
import tensorflow as tf

from gpubench import workloads
from gpubench_jobs.models.recipe import Recipe, right_class

#: Of the side, to each side.
_FARTHEST = 0.1


def build(workload: workloads.Workload) -> Recipe:
    """In the dtype policy that Keras has at this moment."""
    layers = keras.layers
    network = keras.Sequential(
        [
            keras.Input(workload.input_shape),
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
            layers.Dense(workload.classes, activation="softmax", dtype="float32"),
        ]
    )
    # Keras 2.1.1 called this RMSprop(decay=1e-6).
    falling = keras.optimizers.schedules.InverseTimeDecay(1e-4, decay_steps=1, decay_rate=1e-6)
    return Recipe(
        network=network,
        optimizer=keras.optimizers.RMSprop(learning_rate=falling, rho=0.9, epsilon=1e-8),
        loss=lambda labels, outputs: keras.ops.mean(keras.losses.categorical_crossentropy(labels, outputs)),
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
    farthest = _FARTHEST * tf.cast(side, tf.float32)
    distances = tf.random.stateless_uniform((count, 1), seed=seed, minval=-farthest, maxval=farthest)
    places = tf.floor(tf.cast(tf.range(side), tf.float32) + distances + 0.5)
    return tf.clip_by_value(tf.cast(places, tf.int32), 0, side - 1)
