# SPDX-License-Identifier: Apache-2.0
"""The best bare training loop, for comparison: TensorFlow, Keras and Horovod, and nothing of gpubench.

Ten steps in one TensorFlow function, samples on the device, all gradients reduced as one group, no callback, no record,
no metric. A single process reduces nothing. The ten steps are a loop of the graph or are written out ("unrolled");
steploop tries both and compares with the faster.
"""

# mypy: ignore-errors
# As short as its author can make it: no types.

import time

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

STEPS_PER_CALL = 10


def mnist_mlp():
    model = keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    return model, keras.optimizers.RMSprop(0.001, rho=0.9, epsilon=1e-8), (784,)


def mnist_cnn():
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Dropout(0.25),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )
    return model, keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8), (28, 28, 1)


def prepare(name, batch):
    """Two functions that train that many steps (a multiple of ten) and return the seconds it took, by name."""
    model, optimizer, shape = {"mnist_mlp": mnist_mlp, "mnist_cnn": mnist_cnn}[name]()
    x = tf.random.uniform((batch, *shape))
    y = tf.one_hot(tf.random.uniform((batch,), maxval=10, dtype=tf.int32), 10)
    loss_of = keras.losses.CategoricalCrossentropy()
    optimizer.build(model.trainable_variables)
    weights = [variable.value for variable in model.trainable_variables]
    hvd.broadcast_variables(weights + [variable.value for variable in optimizer.variables], root_rank=0)

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, weights)
        if hvd.size() > 1:
            gradients = hvd.grouped_allreduce(gradients, op=hvd.Average)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    @tf.function(jit_compile=False)
    def looped(x, y):
        loss = 0.0
        for _ in tf.range(STEPS_PER_CALL):
            loss = step(x, y)
        return loss

    @tf.function(jit_compile=False)
    def unrolled(x, y):
        for _ in range(STEPS_PER_CALL):
            loss = step(x, y)
        return loss

    def trainer(ten_steps):
        def train(steps):
            begin = time.perf_counter()
            for _ in range(steps // STEPS_PER_CALL):
                loss = ten_steps(x, y)
            loss.numpy()
            return time.perf_counter() - begin

        return train

    return {"looped": trainer(looped), "unrolled": trainer(unrolled)}
