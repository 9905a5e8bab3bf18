# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of one training on a volume, `STEP.ATTEMPT.data` and its `.json`: whole or not there. Bytes only.

Each file is written beside, brought to the disk, and then gets its name; the manifest is last. Both are read back
before the checkpoint is called kept. The last two are kept. Must not happen: a checkpoint that is half one and half
another, or another training's; a damaged one that is used; a good one that is removed before a newer one is there.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench.plan import assignment as assignments
from gpubench.values import FrozenModel, content_id
from gpubench_jobs.failures import RankError, no_room

KEPT = 2
_UNUSED_KEPT = 2
_DATA, _MANIFEST, _PART, _UNUSED = ".data", ".json", ".part", ".unused"
_FILE = re.compile(r"(\d{12})\.(\d{4,})(\.data|\.json)(\.part|\.unused)?")
_DIGEST_CHARACTERS = 16
#: What may be another one in the next attempt at the same training: it changes no weight.
_OF_THE_ATTEMPT = frozenset(
    {
        *("attempt", "checkpoint", "joinTimeoutSeconds", "stallTimeoutSeconds", "healthCheck"),
        *("warmUpSeconds", "measureSeconds", "windowSeconds", "standardErrorWanted"),
    }
)


class Array(FrozenModel):
    """The values of one variable."""

    dtype: str  # as TensorFlow calls it
    shape: tuple[int, ...]
    own: bool = False  # whether each rank has other ones: those of all ranks are kept


class Part(FrozenModel):
    """What a rank has done of an epoch."""

    nanoseconds: int = 0  # of training
    loss: float = 0.0  # sum over its samples
    samples: int = 0
    evaluation_nanoseconds: int = 0


class Progress(FrozenModel):
    """How far a training has come."""

    step: int  # steps behind it, of all epochs
    epochs: tuple[records.Epoch, ...] = ()  # those behind it
    parts: tuple[Part, ...] = ()  # of each rank

    @property
    def useful_nanoseconds(self) -> int:
        """Of training, each epoch as long as its slowest rank took."""
        under_way = max((part.nanoseconds for part in self.parts), default=0)
        return sum(epoch.nanoseconds for epoch in self.epochs) + under_way


class Identity(FrozenModel):
    """Whose checkpoint it is: only the same training may go on from it."""

    trial: str
    workers: int
    assignment: str  # digest of all that decides what is computed
    custom_file: str | None = None  # digest of its text


class Extent(FrozenModel):
    """What the data make of a training: the numbers that tell which samples a step has."""

    epochs: int
    steps: int  # of an epoch
    samples: int  # of an epoch, of all ranks


class Manifest(records.Stored):
    """One checkpoint, but for the values themselves."""

    identity: Identity
    attempt: int  # that wrote it
    extent: Extent
    framework: str  # and its version
    progress: Progress
    arrays: tuple[Array, ...]  # those of all ranks one behind the other, then the own ones, rank by rank
    write_seconds: float | None = None  # what those before it cost, on average
    size_bytes: int = 0
    sha256: str = ""


class Found(NamedTuple):
    """A checkpoint that is as it was written."""

    manifest: Manifest
    values: bytes


class Name(NamedTuple):
    """Of a checkpoint. The newest is the greatest: what an attempt writes after a later one has begun is not newer."""

    attempt: int
    step: int

    def __str__(self) -> str:
        return f"{self.step:012d}.{self.attempt:04d}"


def identity(assignment: assignments.Assignment) -> Identity:
    """The training that an assignment is an attempt at."""
    told = {name: value for name, value in assignment.to_wire().items() if name not in _OF_THE_ATTEMPT}
    custom = None
    if assignment.custom_file is not None:
        with contextlib.suppress(OSError):  # which is told when it is loaded
            custom = hashlib.sha256(Path(assignment.custom_file).read_bytes()).hexdigest()[:_DIGEST_CHARACTERS]
    return Identity(
        trial=assignment.trial,
        workers=assignment.workers,
        assignment=content_id(json.dumps(told, sort_keys=True), characters=_DIGEST_CHARACTERS),
        custom_file=custom,
    )


class Disk:
    """All that changes a volume, one call for each change; a test ends it at any of them."""

    def make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> BinaryIO:
        return path.open("wb")

    def write(self, file: BinaryIO, piece: memoryview) -> None:
        file.write(piece)

    def sync(self, file: BinaryIO) -> None:
        file.flush()
        os.fsync(file.fileno())

    def rename(self, path: Path, name: Path) -> None:
        path.rename(name)

    def sync_names(self, folder: Path) -> None:
        """The names in a folder are on the disk, where its file system can say so."""
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, path: Path) -> None:
        """It is gone, if it was there; so is a folder that somebody made of it."""
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, kw_only=True)
class Store:
    """The checkpoints of one training, as rank 0 of one attempt has them.

    Reading back comes from memory mostly: it finds files that are cut or gone, not a disk that forgets later. For that
    there is the checkpoint before. The newest is that of the latest attempt. A pod of an earlier one may still write,
    on a node that was cut off: it ends when it meets a file of a later attempt, and removes none of those.
    """

    folder: Path
    disk: Disk = field(default_factory=Disk)
    tell: Callable[[str], None] = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: T201  # for people
    progress: Callable[[], None] = lambda: None  # called after each piece
    piece_bytes: int = 16 * 2**20  # that are written or read at once
    good: list[Name] = field(default_factory=list)  # that this attempt has begun from, or written: to be kept

    def write(self, manifest: Manifest, values: Iterable[memoryview]) -> Manifest:
        """It is on the disk; OSError where only older ones are, RankError where a later attempt writes here."""
        name = Name(manifest.attempt, manifest.progress.step)
        self.disk.make(self.folder)
        whole = sorted(other for other, endings in self.files(name.attempt).items() if _MANIFEST in endings)
        self._clear_up(name.attempt, keep=[*self.good, *whole[-KEPT:]])  # a writer may have been stopped in the middle
        try:
            size, digest = self._write_file(self._path(name, _DATA), values)
            manifest = manifest.model_copy(update={"size_bytes": size, "sha256": digest})
            self._write_file(self._path(name, _MANIFEST), [memoryview(manifest.to_text().encode())])
            self._read(name, manifest.identity, into=None)
        except OSError as error:
            unused = _unused(self.files(name.attempt))  # RankError: a later attempt has removed it
            if no_room(error):
                self._drop(unused, "there is no room")
            raise
        self.good[:] = [*self.good, name][-KEPT:]
        self._clear_up(name.attempt, keep=self.good)
        return manifest

    def newest(self, identity: Identity, *, attempt: int) -> Found | None:
        """The newest whole one; newer ones that are not are told. RankError where a later attempt has written."""
        found = self.files(attempt)
        for name in sorted(found, reverse=True):
            if _MANIFEST in found[name]:
                values = bytearray()
                try:
                    manifest = self._read(name, identity, into=values)
                except OSError as error:
                    why = f"{Path(error.filename).name}: {error.strerror}" if error.filename else str(error)
                    self.set_aside(name, why)
                else:
                    self.good[:] = [name]
                    return Found(manifest, bytes(values))
            elif _DATA in found[name]:
                self.tell(f"{self._path(name)} has no manifest: it was not finished, or somebody has removed that")
        return None

    def set_aside(self, name: Name, why: str) -> None:
        """It is not used, and in nobody's way."""
        self.tell(f"the checkpoint {self._path(name)} is not used: {why}")
        if name in self.good:
            self.good.remove(name)
        try:
            found = self.files()
            stay = [other for other in _unused(found) if other != name][: _UNUSED_KEPT - 1]
            self._drop([other for other in _unused(found) if other not in stay], f"no more than {_UNUSED_KEPT} stay")
            for ending in sorted(found.get(name, set()) & {_DATA, _MANIFEST}):  # a manifest alone is refused once more
                self.disk.rename(self._path(name, ending), self._path(name, ending + _UNUSED))
            self.disk.sync_names(self.folder)
        except OSError as error:
            self.tell(f"{self._path(name)} could not be set aside: {error}")

    def remove(self) -> None:
        """The training has its result: nobody will go on with it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def files(self, attempt: int | None = None) -> dict[Name, set[str]]:
        """The endings of each checkpoint's files; RankError where there is one of a later attempt than that."""
        found: dict[Name, set[str]] = {}
        try:
            for match in filter(None, (_FILE.fullmatch(path.name) for path in self.folder.iterdir())):
                step, by, *endings = match.groups("")
                found.setdefault(Name(int(by), int(step)), set()).add("".join(endings))
        except FileNotFoundError:
            pass
        except OSError as error:
            self.tell(f"checkpoints cannot be looked for: {error}")
        latest = max(found).attempt if found else 0
        if attempt is not None and latest > attempt:
            raise RankError(
                ExitCode.TERMINATED,
                f"attempt {latest} has taken the place of this attempt {attempt}, and keeps checkpoints in "
                f"{self.folder}: if there is no such attempt, remove that folder",
            )
        return found

    def _path(self, name: Name, ending: str = "") -> Path:
        return self.folder / f"{name}{ending}"

    def _write_file(self, path: Path, values: Iterable[memoryview]) -> tuple[int, str]:
        """Its size and its SHA-256; it has its name when this returns."""
        unfinished, size, digest = path.with_name(path.name + _PART), 0, hashlib.sha256()
        with self.disk.create(unfinished) as file:
            for value in values:
                for first in range(0, len(value), self.piece_bytes):
                    piece = value[first : first + self.piece_bytes]
                    self.disk.write(file, piece)
                    digest.update(piece)
                    size += len(piece)
                    self.progress()
            self.disk.sync(file)
        self.disk.rename(unfinished, path)
        self.disk.sync_names(self.folder)
        return size, digest.hexdigest()

    def _read(self, name: Name, identity: Identity, *, into: bytearray | None) -> Manifest:
        """OSError where it is not as it was written, or another training's."""
        content = self._path(name, _MANIFEST).read_bytes()
        try:
            manifest = Manifest.from_text(content)
        except ValueError as error:
            raise OSError("its manifest was cut or changed, or another version of gpubench wrote it") from error
        if manifest.identity != identity:
            what = "it was written by a training with other settings"
            if manifest.identity.custom_file != identity.custom_file:
                what = "the text of custom.file is another one now"
            raise OSError(what)
        size, digest = 0, hashlib.sha256()
        with self._path(name, _DATA).open("rb") as file:
            while piece := file.read(self.piece_bytes):
                size += len(piece)
                digest.update(piece)
                if into is not None:
                    into += piece
                self.progress()
        if size != manifest.size_bytes:
            raise OSError(f"it has {size} bytes in place of {manifest.size_bytes}: it was cut")
        if digest.hexdigest() != manifest.sha256:
            raise OSError("its bytes do not give its SHA-256: they were changed after it was written")
        return manifest

    def _clear_up(self, attempt: int, *, keep: Collection[Name]) -> None:
        """Of this attempt and earlier ones; a manifest before its values, which alone are no checkpoint."""
        for name, endings in self.files(attempt).items():
            for ending in sorted(endings, reverse=True):
                if ending.endswith(_PART) or (name not in keep and not ending.endswith(_UNUSED)):
                    try:
                        self.disk.remove(self._path(name, ending))
                    except OSError as error:
                        self.tell(f"an old checkpoint cannot be removed: {error}")

    def _drop(self, names: Iterable[Name], why: str) -> None:
        for name in names:
            self.tell(f"the unused checkpoint {self._path(name)} is removed: {why}")
            for ending in (_DATA, _MANIFEST):
                self.disk.remove(self._path(name, ending + _UNUSED))


def _unused(found: dict[Name, set[str]]) -> list[Name]:  # the newest first
    return [name for name in sorted(found, reverse=True) if any(ending.endswith(_UNUSED) for ending in found[name])]
