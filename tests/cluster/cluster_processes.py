# SPDX-License-Identifier: Apache-2.0
"""Processes that are named by more than a process id.

A pid file may be older than the machine's uptime, and ids are used again. A process here is its id *and*
its start time *and* the boot it was started in; nothing is signalled unless all three still hold.
What may not happen here: knowledge of Kubernetes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class Identity:
    """One process of one boot of this machine."""

    pid: int
    start_ticks: int
    boot: str


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on; the second, a name, may hold spaces and parentheses."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def identify(pid: int) -> Identity | None:
    fields = _stat_fields(pid)
    return None if fields is None else Identity(pid=pid, start_ticks=int(fields[19]), boot=boot_id())


def find(argv: Sequence[str]) -> Identity | None:
    """The process with exactly this command line: for one that was started by somebody who died before noting it."""
    wanted = b"".join(word.encode() + b"\0" for word in argv)
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile, or is somebody else's
            if (directory / "cmdline").read_bytes() == wanted:
                return identify(int(directory.name))
    return None


def is_alive(identity: Identity) -> bool:
    """Whether that very process runs; a zombie does not."""
    fields = _stat_fields(identity.pid)
    return (
        fields is not None
        and fields[0] not in "ZX"
        and int(fields[19]) == identity.start_ticks
        and identity.boot == boot_id()
    )


def send(identity: Identity, number: signal.Signals) -> None:
    """Signals the process if it is still that one. The pidfd closes the gap between looking and killing."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(identity):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)


def wait_gone(identity: Identity, *, timeout_seconds: float) -> bool:
    deadline = time.monotonic() + timeout_seconds
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        _reap(identity.pid)
        time.sleep(POLL_SECONDS)
    _reap(identity.pid)
    return True


def _reap(pid: int) -> None:
    """Buries the process if it is our child; another run's is buried by init."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def start(argv: Sequence[str], *, log: Path, environment: Mapping[str, str], directory: Path) -> Identity:
    """Starts a program in a session of its own, so that a Ctrl-C at the terminal is not for it."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=directory,
            start_new_session=True,
        )
    identity = identify(process.pid)
    # Popen's destructor would warn about a child that runs on; this module waits for it by its id instead.
    process.returncode = 0
    if identity is None:  # cannot be: an ended child stays a zombie until it is waited for
        raise RuntimeError(f"{argv[0]} vanished while it was started")
    return identity
