# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of bytes alone, and a volume on which something happens between two of a writer's changes."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gangs import make_assignment
from gpubench_jobs.worker import checkpoint
from gpubench_jobs.worker.checkpoint import Array, Extent, Identity, Manifest, Progress

PIECE_BYTES = 1000
WHOSE = checkpoint.identity(make_assignment())
EXTENT = Extent(epochs=2, steps=5000, samples=40000)


class PodIsGone(BaseException):
    """SIGKILL: nothing of the writer's own runs after it."""


def end() -> None:
    """Of the writer."""
    raise PodIsGone


class InterruptedDisk(checkpoint.Disk):
    """A real one. Before the change of a given number something happens; half of a write is on the disk by then."""

    def __init__(self, at: int | None, happens: Callable[[], None] = end) -> None:
        self._left, self._happens = at, happens

    def _change(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left == -1:
                self._happens()

    def create(self, path: Path) -> BinaryIO:
        self._change()
        return super().create(path)

    def write(self, file: BinaryIO, piece: memoryview) -> None:
        half = len(piece) // 2
        file.write(piece[:half])
        file.flush()
        self._change()
        file.write(piece[half:])

    def sync(self, file: BinaryIO) -> None:
        self._change()
        super().sync(file)

    def rename(self, path: Path, name: Path) -> None:
        self._change()
        super().rename(path, name)

    def sync_names(self, folder: Path) -> None:
        self._change()
        super().sync_names(folder)

    def remove(self, path: Path) -> None:
        self._change()
        super().remove(path)


def values_of(step: int, *, attempt: int = 1) -> list[memoryview]:
    """Two variables, of which one is larger than a piece of a file."""
    large = bytes([1 + step % 251]) * (2 * PIECE_BYTES + 3)
    return [memoryview(bytes([step % 251, attempt % 251]) * 7), memoryview(large)]


def manifest(step: int, *, attempt: int = 1, identity: Identity = WHOSE) -> Manifest:
    return Manifest(
        identity=identity,
        attempt=attempt,
        extent=EXTENT,
        framework="TensorFlow 2.21.0",
        progress=Progress(step=step),
        arrays=(Array(dtype="float32", shape=(2, 3)),),
    )


def damage(path: Path, how: int) -> None:
    """A file is cut, changed, removed, or in its place there is a folder."""
    content = path.read_bytes()
    middle = len(content) // 2
    path.unlink()
    if how == 0:
        path.write_bytes(content[:middle])
    elif how == 1:
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :] if content else b"1")
    elif how == 2:
        (path / "in").mkdir(parents=True)
