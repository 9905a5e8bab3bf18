# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of one training on a volume: files that are whole or not there, the newest whole one is used.

    <study>/checkpoints/<trial>/<step>.<attempt>.data   values of variables, one behind the other
                                <step>.<attempt>.json   a Manifest: whose they are, what is in them, their SHA-256

Each file is written beside, brought to the disk, and then gets its name; the manifest comes last, and with its name the
checkpoint is there. The newest two are kept: while a third is written there are always two whole ones, and should the
newest turn out to be damaged, there is the one before. Whoever reads computes the SHA-256 anew over all bytes.

Must not happen: a checkpoint that is half one and half another, or another training's; a damaged one that is used; a
good one that is removed before a newer one is on the disk. No TensorFlow here: bytes and files only.

Version 2 of a manifest (0.1.0) is the first: it ends with a checksum of its own, as all records do since then.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pydantic import ValidationError

from gpubench import sealed
from gpubench.measure import records
from gpubench.plan import assignment as assignments
from gpubench.values import Value, content_id
from gpubench_jobs.disk import sync_names

KEPT = 2
_DATA, _MANIFEST, _PART = ".data", ".json", ".part"
_DIGEST_CHARACTERS = 16
#: What may be another one in the next attempt at the same training: it changes no weight.
_OF_THE_ATTEMPT = frozenset(
    {
        *("attempt", "checkpoint", "joinTimeoutSeconds", "stallTimeoutSeconds", "healthCheck"),
        *("warmUpSeconds", "measureSeconds", "windowSeconds", "standardErrorWanted"),
    }
)


class Array(Value):
    """The values of one variable."""

    dtype: str  # as TensorFlow calls it
    shape: tuple[int, ...]
    own: bool = False  # whether each rank has other ones: those of all ranks are kept


class Part(Value):
    """What a rank has done of the epoch that is under way."""

    nanoseconds: int = 0  # of training
    loss: float = 0.0  # sum over its steps


class Progress(Value):
    """How far a training has come."""

    step: int  # steps behind it, of all epochs
    epochs: tuple[records.Epoch, ...] = ()  # those behind it
    parts: tuple[Part, ...] = ()  # of each rank

    @property
    def useful_nanoseconds(self) -> int:
        """Of training, each epoch as long as its slowest rank took."""
        under_way = max((part.nanoseconds for part in self.parts), default=0)
        return sum(epoch.nanoseconds for epoch in self.epochs) + under_way


class Identity(Value):
    """Whose checkpoint it is: only the same training may go on from it."""

    trial: str
    workers: int
    assignment: str  # digest of all that decides what is computed


class Manifest(sealed.Stored):
    """One checkpoint, but for the values themselves."""

    identity: Identity
    attempt: int  # that wrote it
    progress: Progress
    arrays: tuple[Array, ...]  # those of all ranks one behind the other, then the own ones, rank by rank
    write_seconds: float | None = None  # what those before it cost, on average
    size_bytes: int = 0
    sha256: str = ""


class Found(NamedTuple):
    """A checkpoint that is as it was written."""

    manifest: Manifest
    values: bytes


def identity(assignment: assignments.Assignment) -> Identity:
    """The training that an assignment is an attempt at."""
    told = {name: value for name, value in assignment.to_wire().items() if name not in _OF_THE_ATTEMPT}
    digest = content_id(json.dumps(told, sort_keys=True), characters=_DIGEST_CHARACTERS)
    return Identity(trial=assignment.trial, workers=assignment.workers, assignment=digest)


class Disk:
    """All that changes a volume, one call for each change; a test ends it at any of them."""

    def make(self, folder: Path) -> None:
        """A folder, with those above it."""
        folder.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> BinaryIO:
        """An empty file for writing; one of that name is emptied."""
        return path.open("wb")

    def write(self, file: BinaryIO, piece: memoryview) -> None:
        """More of it."""
        file.write(piece)

    def sync(self, file: BinaryIO) -> None:
        """All of it is on the disk when this returns."""
        file.flush()
        os.fsync(file.fileno())

    def rename(self, path: Path, name: Path) -> None:
        """It has that name from now on, in place of whatever had it."""
        path.rename(name)

    def sync_names(self, folder: Path) -> None:
        """The names in a folder are on the disk, where its file system can say so."""
        sync_names(folder)

    def remove(self, path: Path) -> None:
        """It is gone, if it was there."""
        path.unlink(missing_ok=True)


def _to_standard_error(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)  # noqa: T201  # standard output is for records


def _nothing() -> None:
    pass


@dataclass(frozen=True, kw_only=True)
class Store:
    """The checkpoints of one training. Its one writer is rank 0."""

    folder: Path
    disk: Disk = field(default_factory=Disk)
    tell: Callable[[str], None] = _to_standard_error
    progress: Callable[[], None] = _nothing  # called after each piece
    piece_bytes: int = 16 * 2**20  # that are written or read at once

    def write(self, manifest: Manifest, values: Iterable[memoryview]) -> Manifest:
        """The checkpoint is on the disk when this returns; OSError where it is not, and then the older ones are."""
        self.disk.make(self.folder)
        self._clear_up()
        name = f"{manifest.progress.step:012d}.{manifest.attempt:04d}"
        size, digest = self._write_file(self.folder / f"{name}{_DATA}", values)
        manifest = manifest.model_copy(update={"size_bytes": size, "sha256": digest})
        self._write_file(self.folder / f"{name}{_MANIFEST}", [memoryview(manifest.to_text().encode())])
        for path in self._manifests()[KEPT:]:
            self.disk.remove(path)
            self.disk.remove(path.with_suffix(_DATA))
        return manifest

    def newest(self, identity: Identity) -> Found | None:
        """The newest whole checkpoint of this training; for each newer one that is not, a sentence is told."""
        for path in self._manifests():
            try:
                return self._read(path, identity)
            except (OSError, ValueError) as error:
                self.tell(f"the checkpoint {path.with_suffix('')} is not used: {error}")
        return None

    def remove(self) -> None:
        """The training has its result: nobody will go on with it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write_file(self, path: Path, values: Iterable[memoryview]) -> tuple[int, str]:
        """Its size and its SHA-256; it has its name when this returns."""
        unfinished, size, digest = path.with_name(path.name + _PART), 0, hashlib.sha256()
        with self.disk.create(unfinished) as file:
            for value in values:
                for piece in _pieces(value, self.piece_bytes):
                    self.disk.write(file, piece)
                    digest.update(piece)
                    size += len(piece)
                    self.progress()
            self.disk.sync(file)
        self.disk.rename(unfinished, path)
        self.disk.sync_names(self.folder)
        return size, digest.hexdigest()

    def _read(self, path: Path, identity: Identity) -> Found:
        manifest = _manifest(path.read_bytes())
        if manifest.identity != identity:
            raise ValueError(_foreign(manifest.identity, identity))
        values, digest = bytearray(), hashlib.sha256()
        with path.with_suffix(_DATA).open("rb") as file:
            while piece := file.read(self.piece_bytes):
                values += piece
                digest.update(piece)
                self.progress()
        if len(values) != manifest.size_bytes:
            raise ValueError(f"it has {len(values)} bytes in place of {manifest.size_bytes}: it was cut")
        if digest.hexdigest() != manifest.sha256:
            raise ValueError("its bytes do not give its SHA-256: they were changed after it was written")
        return Found(manifest, bytes(values))

    def _manifests(self) -> list[Path]:
        """Of all checkpoints, the newest first: their names begin with the step, then the attempt."""
        return sorted(self.folder.glob(f"*{_MANIFEST}"), reverse=True)

    def _clear_up(self) -> None:
        """What a writer left that was stopped in the middle: it would take room for ever."""
        for path in self.folder.glob(f"*{_PART}"):
            self.disk.remove(path)
        for path in self.folder.glob(f"*{_DATA}"):
            if not path.with_suffix(_MANIFEST).exists():
                self.disk.remove(path)


def _manifest(content: bytes) -> Manifest:
    try:
        return Manifest.from_text(content)
    except ValidationError as error:
        raise sealed.Damaged("its manifest is no record of ours: it was cut or changed") from error


def _pieces(value: memoryview, size: int) -> Iterable[memoryview]:
    return (value[first : first + size] for first in range(0, len(value), size))


def _foreign(other: Identity, identity: Identity) -> str:
    """What makes it another training's."""
    if other.trial != identity.trial:
        return f"it is one of trial {other.trial}, and this is trial {identity.trial}"
    if other.workers != identity.workers:
        return f"it was written by {other.workers} ranks, and these are {identity.workers}"
    return "it was written by a training with other settings"
