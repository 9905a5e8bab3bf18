# SPDX-License-Identifier: Apache-2.0
"""Where the records of a pod go: to its standard output, and to a file on the results volume where there is one.

The file has the same lines. Its name ends in `.part` until all of it is on the disk. Must not happen: an attempt that
fails, or waits without a bound, because of its volume, which may be full, read-only or silent for minutes; a file under
its own name that lacks a line; a file of another attempt that is written over.
"""

# ruff: noqa: T201  # records go to standard output

import enum
import errno
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, TextIO

from gpubench import names, records
from gpubench.values import FrozenModel
from gpubench_jobs.worker.checkpoint import Disk

#: Lines that wait for the volume: some megabytes, and more than an hour of a rank's windows.
_WAITING_MAX = 10_000


def say(message: str) -> None:
    """A line for people, on standard error. Nothing fails because there is no room for it."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        silence(sys.stderr)


def silence(stream: TextIO) -> None:
    """Drop what a stream could not write: Python would try it again at its end, and exit with 120."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _create(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _put_aside(path: Path) -> None:
    """A file that is there gets a name that is no log's: a run that was ended has measured nothing."""
    if path.exists():
        names_of_runs = (path.with_name(f"{path.name}.run-{number}") for number in itertools.count(1))
        path.rename(next(name for name in names_of_runs if not name.exists()))


class _Mark(enum.Enum):
    SO_FAR = enum.auto()
    END = enum.auto()


class Recording:
    """The records of one pod, in their order, in its log and in a file on the volume, which a thread writes.

    What stands in the file's way is told once. An attempt that `runs_again` has left records of its run before, which
    are put aside.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        runs_again: bool = False,
        tell: Callable[[str], None] = say,
        create: Callable[[Path], BinaryIO] = _create,
        waiting_max: int = _WAITING_MAX,
    ) -> None:
        self._path, self._runs_again, self._tell, self._create = path, runs_again, tell, create
        self._waiting: queue.Queue[str | _Mark] = queue.Queue(waiting_max)
        self._lock = threading.Lock()
        self._lost = path is None
        self._named = False  # said by the writer alone
        self._settled = threading.Event()
        if path is not None:
            # A daemon holds up no exit.
            self._writer = threading.Thread(target=self._write, args=(path,), name="records", daemon=True)
            self._writer.start()

    def publish(self, record: FrozenModel) -> None:
        """One line, which is in the log when this returns."""
        line = records.line(record)
        print(line, flush=True)
        self.add(line)

    def add(self, line: str) -> None:
        """A line for the file; it never waits."""
        if not self._lost:
            self._put(line)

    def settle(self, *, within: float) -> None:
        """Wait at most so long until the volume has all of it, under its own name, which a later line takes away."""
        if not self._lost:
            self._put(_Mark.SO_FAR)
            self._settled.wait(within)

    def close(self, *, within: float) -> None:
        """Wait so many seconds until the volume has all, and tell if not; the end is put in whole or not at all."""
        if self._path is None:
            return
        if not self._lost:
            self._put(_Mark.END)
        self._writer.join(within if not self._lost else 0.0)
        if self._writer.is_alive():
            self._lose(f"it did not take all of them within {within:g} s")
        elif not self._named:
            self._lose("nobody writes it any more")

    def _put(self, line: str | _Mark) -> None:
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self._lose(f"{self._waiting.maxsize} of them are waiting for it")

    def _write(self, path: Path) -> None:
        try:
            self._write_all(path, path.with_name(path.name + names.LOG_UNFINISHED))
        except OSError as error:
            self._lose(error.strerror or str(error))
        except Exception as error:  # a thread's end is nobody's news
            self._lose(f"{type(error).__name__}: {error}")

    def _write_all(self, path: Path, unfinished: Path) -> None:
        if self._runs_again:
            _put_aside(path)
            _put_aside(unfinished)
        if path.exists():
            raise FileExistsError(errno.EEXIST, "another pod has written a file of that name", str(path))
        with self._create(unfinished) as file:
            line: str | _Mark = ""
            while line is not _Mark.END:
                line = self._waiting.get()
                if isinstance(line, str):
                    if self._named:
                        path.rename(unfinished)
                        self._named = False
                    file.write(line.encode() + b"\n")
                    file.flush()
                    continue
                if not self._named:
                    os.fsync(file.fileno())
                    unfinished.rename(path)
                    self._named = True
                    Disk().sync_names(path.parent)
                self._settled.set()

    def _lose(self, why: str) -> None:
        with self._lock:
            told, self._lost = self._lost, True
        self._settled.set()
        if not told:
            self._tell(
                f"the results volume does not have all records of this pod ({self._path}: {why}): they are in its log, "
                "and the result is not touched; give spec.results a volume that these pods can write, with room"
            )
