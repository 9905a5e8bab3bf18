# SPDX-License-Identifier: Apache-2.0
"""Where each record of TFRecord files lies, so that any of them can be read by itself.

A permutation of a whole set needs the places, and a cut file must be found before hours of training and not in them.
The format: eight bytes of length, four of their checksum, the record, four of its checksum. The index needs the lengths
only; TensorFlow checks both checksums when a record is read.
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
from gpubench_jobs.data.split import Progress

_LENGTH = struct.Struct("<Q")
_BEFORE, _BEHIND = 12, 4
#: Read at a time for the index: a page. Small records share one; between photographs there is nothing worth reading.
_BLOCK = 4096
#: Files are indexed so many at a time, on however few processors: each waits for its storage.
_AT_A_TIME = 16


@dataclass(frozen=True)
class Records:
    """Records of several files, in their order; tensors, because the reading happens inside TensorFlow."""

    files: tf.Tensor
    file_of: tf.Tensor
    begin_of: tf.Tensor
    bytes_of: tf.Tensor
    count: int

    def at(self, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """A record, and the file in which it lies."""
        file = self.files[self.file_of[place]]
        # Of the two ways to begin inside a file only this one seeks: FixedLengthRecordDataset reads up to the place.
        from_here = tf.raw_ops.TFRecordDatasetV2(
            filenames=[file],
            compression_type="",
            buffer_size=self.bytes_of[place] + _BEFORE + _BEHIND,
            byte_offsets=[self.begin_of[place] - _BEFORE],
        )
        records = tf.data.experimental.from_variant(from_here, tf.TensorSpec((), tf.string))
        return records.take(1).get_single_element(), file


def index(paths: Sequence[Path], *, progress: Progress) -> Records:
    """Of files whose every byte belongs to a record; `progress` is called for each of them."""
    places = []
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        for of_file in pool.map(_places, paths):
            places.append(of_file)
            progress()
    lengths = [len(of_file) for of_file in places]
    joined = np.concatenate(places)
    return Records(
        files=tf.constant([str(path) for path in paths]),
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
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)  # or each page would bring its neighbours: the whole file
        end, size = 0, os.fstat(file).st_size
        block, block_begin = b"", 0
        while end < size:
            if end + _BEFORE > block_begin + len(block):
                block, block_begin = os.pread(file, _BLOCK, end), end
            header = block[end - block_begin : end - block_begin + _BEFORE]
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
