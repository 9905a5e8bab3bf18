# SPDX-License-Identifier: Apache-2.0
"""The workload of one's own that `fuzz_training` trains: networks, optimizers and readers that have a state.

`way.json`, in the folder of the data, says which; the campaign copies this file into a folder for each training.
"""

import json
from collections.abc import Callable
from pathlib import Path

import keras
import tensorflow as tf

from gpubench_jobs import custom
from gpubench_jobs.models import recipe

FEATURES = 16
STEPS_PER_EPOCH = 70
#: The campaign changes this line: a loss of another size is another training.
LOSS_FACTOR = 1.0

_layers = keras.layers


def build(setting: custom.Setting) -> custom.Workload:
    folder = Path(setting.data_path or "")
    way = json.loads((folder / "way.json").read_text())
    samples = READERS[way["source"]](folder, setting)
    return custom.Workload(
        recipe=recipe.Recipe(
            network=keras.Sequential(
                [keras.Input((FEATURES,)), *NETWORKS[way["network"]](), _layers.Dense(2, dtype="float32")]
            ),
            optimizer=OPTIMIZERS[way["optimizer"]](),
            loss=lambda labels, outputs: (
                LOSS_FACTOR
                * tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs))
            ),
            correct=recipe.right_class,
        ),
        batches=samples.shuffle(100, seed=setting.seed, reshuffle_each_iteration=True)
        .repeat()
        .batch(setting.batch_per_worker, drop_remainder=True),
        steps_per_epoch=STEPS_PER_EPOCH,
        held_out=samples.batch(50),
    )


def dense() -> list[keras.Layer]:
    """Moving averages, and seeds of two kinds of noise."""
    return [
        _layers.GaussianNoise(0.1),
        _layers.Dense(32),
        _layers.BatchNormalization(),
        _layers.Activation("relu"),
        _layers.Dropout(0.3),
    ]


def convolution() -> list[keras.Layer]:
    return [
        _layers.Reshape((4, 4, 1)),
        _layers.Conv2D(8, 3, use_bias=False),
        _layers.BatchNormalization(scale=False),
        _layers.Activation("relu"),
        _layers.Flatten(),
    ]


def recurrent() -> list[keras.Layer]:
    return [_layers.Reshape((4, 4)), _layers.LSTM(12, dropout=0.2, recurrent_dropout=0.2)]


def embedding() -> list[keras.Layer]:
    """Gradients of a few rows."""
    return [
        _layers.Lambda(lambda inputs: tf.cast(tf.clip_by_value(inputs * 8 + 32, 0, 63), tf.int32)),
        _layers.Embedding(64, 8),
        _layers.GlobalAveragePooling1D(),
    ]


def momentum() -> keras.Optimizer:
    """With a rate that follows from the step."""
    rate = keras.optimizers.schedules.CosineDecay(0.05, decay_steps=900, warmup_target=0.1, warmup_steps=100)
    return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True)


def adamw() -> keras.Optimizer:
    return keras.optimizers.AdamW(
        0.002, amsgrad=True, use_ema=True, ema_overwrite_frequency=37, gradient_accumulation_steps=3
    )


def in_memory(_folder: Path, setting: custom.Setting) -> tf.data.Dataset:
    inputs = tf.random.stateless_normal((400, FEATURES), seed=(setting.seed, setting.rank))
    labels = tf.cast(inputs[:, 0] * inputs[:, 1] > 0, tf.int32)
    return tf.data.Dataset.from_tensor_slices((inputs, labels))


def of_files(folder: Path, setting: custom.Setting) -> tf.data.Dataset:
    """This rank's part of records of `FEATURES` and a label, all as float32."""

    def parsed(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.ensure_shape(tf.io.decode_raw(record, tf.float32), (FEATURES + 1,))
        return values[:FEATURES], tf.cast(values[FEATURES], tf.int32)

    files = sorted(str(path) for path in folder.glob("*.records"))
    records = tf.data.FixedLengthRecordDataset(files, 4 * (FEATURES + 1)).shard(setting.workers, setting.rank)
    return records.map(parsed, num_parallel_calls=2, deterministic=True)


NETWORKS: dict[str, Callable[[], list[keras.Layer]]] = {
    "dense": dense,
    "convolution": convolution,
    "recurrent": recurrent,
    "embedding": embedding,
}
OPTIMIZERS: dict[str, Callable[[], keras.Optimizer]] = {
    "SGD with momentum": momentum,
    "Adam": lambda: keras.optimizers.Adam(0.003, clipnorm=1.0),
    "AdamW with EMA and accumulation": adamw,
}
READERS: dict[str, Callable[[Path, custom.Setting], tf.data.Dataset]] = {
    "own, in memory": in_memory,
    "own, of files": of_files,
}
