# SPDX-License-Identifier: Apache-2.0
"""The best bare training loops, for comparison: TensorFlow, Keras and Horovod, and nothing of gpubench.

Some steps in one TensorFlow function, samples on the device, batch normalisation fused, gradients reduced one by one as
they come or in one group, no callback, no record, no metric. A single process reduces nothing. The steps are a loop of
the graph or are written out ("unrolled"); steploop tries both and compares with the fastest. `fit` is Keras' own
loop: as many steps per execution, no XLA (which has no kernels for Horovod's operations), an optimizer that reduces
before it applies.
"""

# mypy: ignore-errors
# As short as its author can make it: no types.

import time

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

layers = keras.layers


def mnist_mlp(batch):
    x = image = keras.Input((784,))
    for _ in range(2):
        x = layers.Dropout(0.2)(layers.Dense(512, activation="relu")(x))
    model = keras.Model(image, layers.Dense(10, activation="softmax")(x))
    optimizer = keras.optimizers.RMSprop(0.001, rho=0.9, epsilon=1e-8)
    return model, optimizer, cross_entropy, *classes(batch, (784,))


def mnist_cnn(batch):
    image = keras.Input((28, 28, 1))
    x = layers.Conv2D(64, 3, activation="relu")(layers.Conv2D(32, 3, activation="relu")(image))
    x = layers.Flatten()(layers.Dropout(0.25)(layers.MaxPooling2D(2)(x)))
    x = layers.Dropout(0.5)(layers.Dense(128, activation="relu")(x))
    model = keras.Model(image, layers.Dense(10, activation="softmax")(x))
    optimizer = keras.optimizers.Adadelta(1.0, rho=0.95, epsilon=1e-8)
    return model, optimizer, cross_entropy, *classes(batch, (28, 28, 1))


def imdb_bidirectional_lstm(batch):
    words = keras.Input((100,), dtype="int32")
    x = layers.Bidirectional(layers.LSTM(64))(layers.Embedding(20_000, 128)(words))
    model = keras.Model(words, layers.Dense(1, activation="sigmoid")(layers.Dropout(0.5)(x)))
    x = tf.random.uniform((batch, 100), maxval=20_000, dtype=tf.int32)
    y = tf.cast(tf.random.uniform((batch, 1), maxval=2, dtype=tf.int32), tf.float32)
    return model, keras.optimizers.Adam(0.001, epsilon=1e-8), keras.losses.BinaryCrossentropy(), x, y


class FusedNormalization(layers.BatchNormalization):
    def call(self, x, training=None):  # noqa: ARG002  # it always trains
        moving = self.moving_mean.value, self.moving_variance.value
        y, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            x, self.gamma.value, self.beta.value, *moving, self.epsilon, exponential_avg_factor=1 - self.momentum
        )
        moving[0].assign(mean)
        moving[1].assign(variance)
        return y

    def compute_output_spec(self, x, **_):
        return keras.KerasTensor(x.shape, dtype=self.compute_dtype)


def resnet50(batch):
    def convolved(x, filters, size, stride=1):
        if stride > 1 and size > 1:
            x = layers.ZeroPadding2D(size // 2)(x)
        padding = "valid" if stride > 1 and size > 1 else "same"
        x = layers.Conv2D(filters, size, strides=stride, padding=padding, use_bias=False)(x)
        return FusedNormalization(momentum=0.9, epsilon=1e-5)(x)

    image = keras.Input((224, 224, 3))
    x = layers.MaxPooling2D(3, strides=2, padding="same")(layers.ReLU()(convolved(image, 64, 7, 2)))
    for width, blocks, first in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for stride in (first, *(1,) * (blocks - 1)):
            shortcut = x if x.shape[-1] == 4 * width else convolved(x, 4 * width, 1, stride)
            x = layers.ReLU()(convolved(x, width, 1, stride))
            x = convolved(layers.ReLU()(convolved(x, width, 3)), 4 * width, 1)
            x = layers.ReLU()(layers.Add()([x, shortcut]))
    model = keras.Model(image, layers.Dense(1001)(layers.GlobalAveragePooling2D()(x)))
    normalisations = (layer for layer in model.layers if isinstance(layer, layers.BatchNormalization))
    spared = {id(weight) for layer in normalisations for weight in layer.trainable_variables}
    decayed = [weight.value for weight in model.trainable_variables if id(weight) not in spared]

    def loss_of(y, outputs):
        labels = tf.cast(tf.reshape(y, (-1,)), tf.int32)  # model.fit turns them into floats
        entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
        return tf.reduce_mean(entropy) + 4e-5 * tf.add_n([tf.nn.l2_loss(weight) for weight in decayed])

    x = tf.random.truncated_normal((batch, 224, 224, 3), mean=127.0, stddev=60.0)
    y = tf.random.uniform((batch,), maxval=1000, dtype=tf.int32)
    return model, keras.optimizers.SGD(0.004), loss_of, x, y


MODELS = {one.__name__: one for one in (mnist_mlp, mnist_cnn, imdb_bidirectional_lstm, resnet50)}
cross_entropy = keras.losses.CategoricalCrossentropy()


def classes(batch, shape):
    x = tf.random.uniform((batch, *shape))
    return x, tf.one_hot(tf.random.uniform((batch,), maxval=10, dtype=tf.int32), 10)


def reduced(gradients, one_group=False):
    """Averaged over ranks; the rows of an embedding summed where one is named twice, which Keras gets wrong."""
    gradients = list(gradients)
    if hvd.size() > 1 and one_group:
        gradients = hvd.grouped_allreduce(gradients, op=hvd.Average)
    elif hvd.size() > 1:
        gradients = [hvd.allreduce(gradient, op=hvd.Average) for gradient in gradients]
    return [once(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient for gradient in gradients]


def once(gradient):
    rows, places = tf.unique(gradient.indices)
    return tf.IndexedSlices(
        tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows)), rows, gradient.dense_shape
    )


def begin_alike(model, optimizer):
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([one.value for one in (*model.weights, *optimizer.variables)], root_rank=0)


def prepare(name, batch, steps_per_call, unroll, one_group=False):
    """Functions that train that many steps (a multiple of those per call) and return the seconds it took, by name."""
    model, optimizer, loss_of, x, y = MODELS[name](batch)
    begin_alike(model, optimizer)
    weights = [variable.value for variable in model.trainable_variables]

    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply(reduced(tape.gradient(loss, weights), one_group), model.trainable_variables)
        return loss

    @tf.function(jit_compile=False)
    def looped(x, y):
        loss = 0.0
        for _ in tf.range(steps_per_call):
            loss = step(x, y)
        return loss

    @tf.function(jit_compile=False)
    def unrolled(x, y):
        for _ in range(steps_per_call):
            loss = step(x, y)
        return loss

    def trainer(some_steps):
        def train(steps):
            begin = time.perf_counter()
            for _ in range(steps // steps_per_call):
                loss = some_steps(x, y)
            loss.numpy()
            return time.perf_counter() - begin

        return train

    loops = {"looped": looped} | ({"unrolled": unrolled} if unroll else {})
    return {name: trainer(loop) for name, loop in loops.items()}


def prepare_fit(name, batch, steps_per_call):
    """The same by model.fit, and the model's weights, which must be equal on all ranks."""
    model, optimizer, loss_of, x, y = MODELS[name](batch)

    class Reducing(type(optimizer)):
        def apply(self, grads, trainable_variables=None):
            return super().apply(reduced(grads), trainable_variables)

    model.compile(
        optimizer=Reducing.from_config(optimizer.get_config()),
        loss=loss_of,
        jit_compile=False,
        steps_per_execution=steps_per_call,
    )
    begin_alike(model, model.optimizer)
    samples = tf.data.Dataset.from_tensors((x, y)).repeat()

    class Clock(keras.callbacks.Callback):
        """An epoch's time, without what a call of fit takes before and after it."""

        def on_epoch_begin(self, *_):
            self.begin = time.perf_counter()

        def on_epoch_end(self, *_):
            self.seconds = time.perf_counter() - self.begin  # Keras has turned the loss into a number before

    def train(steps):
        clock = Clock()
        model.fit(samples, steps_per_epoch=steps, epochs=1, verbose=0, callbacks=[clock])
        return clock.seconds

    return train, [variable.value for variable in model.trainable_variables]
