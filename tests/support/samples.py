# SPDX-License-Identifier: Apache-2.0
"""Workloads that differ from the catalogue's only in what a test needs, sets of samples to feed them, files of such."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import generated
from gpubench_jobs.data.pipeline import Batch, Held, Streamed

Array = NDArray[Any]
#: Of the next character when the last is known, in nats: the lowest mean loss that any network can reach.
CHARACTER_ENTROPY = -sum(chance * math.log(chance) for chance in generated.CHANCES)


def make_workload(inputs: Inputs, shape: tuple[int, ...], classes: int, *, name: str = "a-workload") -> Workload:
    return Workload(
        name=name,
        task="image classification",
        about="For a test.",
        inputs=inputs,
        input_shape=shape,
        classes=classes,
        trainable_parameters=1,
        total_parameters=1,
        forward_gmac=1.0,
        default_batch=2,
        optimizer="none",
        origin="a test",
    )


def held_places(count: int) -> Held:
    """Each sample is its own place, and so is its label."""
    return Held(name="training", origin="a test", count=count, batch_at=lambda places: (places, places))


def streamed_places(count: int) -> Streamed:
    def sample_at(place: tf.Tensor, seed: tf.Tensor) -> Batch:
        return place, tf.concat(([place], seed), axis=0)

    return Streamed(name="training", origin="a test", count=count, sample_at=sample_at)


def first(batches: tf.data.Dataset, count: int) -> list[Array]:
    """The inputs of the first batches."""
    return [inputs.numpy() for inputs, _ in batches.take(count)]


def write_idx(file: Path, values: Array) -> None:
    header = bytes((0, 0, 8, values.ndim)) + b"".join(size.to_bytes(4, "big") for size in values.shape)
    file.write_bytes(header + values.astype(np.uint8).tobytes())


def example(image: bytes, label: int | list[int] | None) -> bytes:
    features = {"image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image]))}
    if label is not None:
        features["image/class/label"] = tf.train.Feature(
            int64_list=tf.train.Int64List(value=label if isinstance(label, list) else [label])
        )
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def write_records(file: Path, examples: list[bytes]) -> None:
    with tf.io.TFRecordWriter(str(file)) as writer:
        for serialized in examples:
            writer.write(serialized)
