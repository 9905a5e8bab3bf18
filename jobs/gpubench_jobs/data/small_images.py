# SPDX-License-Identifier: Apache-2.0
"""MNIST and CIFAR-10 in the binary files in which they are distributed, held in memory as bytes.

MNIST: the four idx files, compressed or not. CIFAR-10: `data_batch_1.bin` to `_5` and `test_batch.bin`, in the folder
or in its `cifar-10-batches-bin`.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from gpubench.workloads import Workload
from gpubench_jobs.data import files, unusable
from gpubench_jobs.data.feed import Batch
from gpubench_jobs.data.split import EVALUATION, TRAINING, Held, Progress, Sets

Array = NDArray[Any]

_MNIST_PREFIX = {TRAINING: "train", EVALUATION: "t10k"}
_MAGIC_IMAGES, _MAGIC_LABELS = 0x0803, 0x0801  # bytes in three, and in one dimension

_CIFAR_FILES = {TRAINING: tuple(f"data_batch_{number}.bin" for number in range(1, 6)), EVALUATION: ("test_batch.bin",)}


def held(images: Array, labels: Array, *, workload: Workload, name: str, origin: str) -> Held:
    """Bytes of pixels, and class numbers as one-hot rows."""
    pixels, classes = tf.constant(images), tf.constant(labels, tf.int32)

    def batch_at(places: tf.Tensor) -> Batch:
        shaped = tf.reshape(tf.gather(pixels, places), (-1, *workload.input_shape))
        return shaped, tf.one_hot(tf.gather(classes, places), workload.classes)

    return Held(name=name, origin=origin, count=len(labels), batch_at=batch_at, on_device=_scaled)


def mnist(workload: Workload, path: Path, progress: Progress) -> Sets:
    """60,000 and 10,000 images of 28x28."""

    def split(name: str) -> Held:
        prefix = _MNIST_PREFIX[name]
        of_images, of_labels = path / f"{prefix}-images-idx3-ubyte", path / f"{prefix}-labels-idx1-ubyte"
        images = _idx(of_images, magic=_MAGIC_IMAGES)
        labels = _idx(of_labels, magic=_MAGIC_LABELS)
        progress()
        if math.prod(images.shape[1:]) != math.prod(workload.input_shape):
            side = "x".join(map(str, images.shape[1:]))
            raise unusable.refusal(f"{of_images} has images of {side}, {workload.name} takes 28x28")
        if len(images) != len(labels):
            raise unusable.refusal(
                f"{of_images} has {len(images)} images and {of_labels.name} {len(labels)} labels: copy both again"
            )
        _require_classes(labels, workload=workload, file=of_labels)
        if name == TRAINING:
            _require_several_classes(labels, of_labels)
        return held(images, labels, workload=workload, name=name, origin=str(path))

    return Sets(training=split(TRAINING), open_evaluation=lambda: split(EVALUATION))


def cifar10(workload: Workload, path: Path, progress: Progress) -> Sets:
    """50,000 and 10,000 images of 32x32 in three colours; the files have the colours one after the other."""
    source = files.below(path, "cifar-10-batches-bin")
    height, width, channels = workload.input_shape
    record = 1 + height * width * channels

    def records(file: Path) -> Array:
        content = np.frombuffer(files.content(file), np.uint8)
        if not len(content) or len(content) % record:
            raise unusable.refusal(
                f"{file} has {len(content)} bytes, which is no multiple of the {record} of an image with its label: "
                "copy the binary version of CIFAR-10 again"
            )
        rows = content.reshape(-1, record)
        _require_classes(rows[:, 0], workload=workload, file=file)
        progress()
        return rows

    def split(name: str) -> Held:
        rows = np.concatenate([records(source / file) for file in _CIFAR_FILES[name]])
        if name == TRAINING:
            _require_several_classes(rows[:, 0], source)
        images = rows[:, 1:].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        return held(images, rows[:, 0], workload=workload, name=name, origin=str(path))

    return Sets(training=split(TRAINING), open_evaluation=lambda: split(EVALUATION))


def _scaled(pixels: tf.Tensor) -> tf.Tensor:
    """Bytes to [0, 1]."""
    return tf.cast(pixels, tf.float32) / 255.0


def _idx(file: Path, *, magic: int) -> Array:
    """An idx file: the magic number, the size of each dimension, all big-endian in four bytes, then the bytes."""
    content = files.content(file)
    dimensions = magic & 0xFF
    header = 4 * (1 + dimensions)
    found, *shape = (int.from_bytes(content[place : place + 4], "big") for place in range(0, header, 4))
    if found != magic:
        raise unusable.refusal(f"{file} begins with {found:#010x} and not with {magic:#010x}: it is another file")
    if len(content) != header + math.prod(shape):
        raise unusable.refusal(
            f"{file} has {len(content)} bytes and should have {header + math.prod(shape)}: it is cut, copy it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _require_classes(labels: Array, *, workload: Workload, file: Path) -> None:
    wrong = np.flatnonzero(labels >= workload.classes)
    if len(wrong):
        raise unusable.refusal(
            f"{file}: label {labels[wrong[0]]} of sample {wrong[0]} is none of 0 to {workload.classes - 1}: "
            "copy it again"
        )


def _require_several_classes(labels: Array, path: Path) -> None:
    if len(np.unique(labels)) == 1:
        raise unusable.refusal(
            f"{path}: all labels are {labels[0]}, and of one class nothing is learned: copy it again"
        )
