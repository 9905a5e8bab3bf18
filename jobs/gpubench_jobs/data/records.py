# SPDX-License-Identifier: Apache-2.0
"""Where each record of TFRecord files lies, so that any of them can be read by itself.

TensorFlow reads such files from the beginning only. A permutation of a whole set needs the places, and a cut file must
be found before hours of training and not in them. The format: eight bytes of length, four of their checksum, the
record, four of its checksum. Only the lengths are read here; the checksum of a record is not checked.
"""

import os
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tensorflow as tf

from gpubench_jobs.data import unusable

_LENGTH = struct.Struct("<Q")
_BEFORE, _BEHIND = 12, 4


@dataclass(frozen=True)
class Records:
    """Records of several files, in their order; tensors, because the reading happens inside TensorFlow."""

    files: tf.Tensor
    file_bytes: tf.Tensor
    file_of: tf.Tensor
    begin_of: tf.Tensor
    bytes_of: tf.Tensor
    count: int

    def at(self, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A record, and the file in which it lies."""
        number = self.file_of[place]
        file, begin, size = self.files[number], self.begin_of[place], self.bytes_of[place]
        alone = tf.data.FixedLengthRecordDataset(
            file,
            record_bytes=size,
            header_bytes=begin,
            footer_bytes=self.file_bytes[number] - begin - size,
            buffer_size=size,
        )
        return alone.get_single_element(), file


def index(paths: Sequence[Path], *, threads: int) -> Records:
    """Of files whose every byte belongs to a record."""
    with ThreadPoolExecutor(threads) as pool:
        places = list(pool.map(_places, paths))
    lengths = [len(of_file) for of_file in places]
    joined = np.concatenate(places)
    return Records(
        files=tf.constant([str(path) for path in paths]),
        file_bytes=tf.constant([path.stat().st_size for path in paths], tf.int64),
        file_of=tf.constant(np.repeat(np.arange(len(paths)), lengths), tf.int64),
        begin_of=tf.constant(joined[:, 0], tf.int64),
        bytes_of=tf.constant(joined[:, 1], tf.int64),
        count=len(joined),
    )


def _places(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """Begin and length of each record of a file."""
    places: list[tuple[int, int]] = []
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise unusable.refusal(f"{path} cannot be read ({error.strerror})") from error
    try:
        end, size = 0, os.fstat(file).st_size
        while end < size:
            header = os.pread(file, _BEFORE, end)
            length = _LENGTH.unpack_from(header)[0] if len(header) == _BEFORE else size
            begin, end = end + _BEFORE, end + _BEFORE + length + _BEHIND
            if end > size or not length:
                wrong = "is empty" if not length else "ends behind the end of the file"
                raise unusable.refusal(
                    f"{path}: record {len(places)} {wrong}: it is cut, or no TFRecord file, copy it again"
                )
            places.append((begin, length))
    finally:
        os.close(file)
    return np.array(places, np.int64).reshape(-1, 2)
