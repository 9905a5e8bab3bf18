# SPDX-License-Identifier: Apache-2.0
"""Writing the last words of a pod, and reading why the kernel killed one of its processes.

Must not happen: half a termination message. The kubelet may read the file at any moment and the operator takes what it
finds for the truth.
"""

import contextlib
import errno
import os
from pathlib import Path

_MEMORY_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
#: A path that is itself a mount (the kubelet's /dev/termination-log), or a folder that is not ours to write in.
_NO_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
#: The folder has no room. The file may: the kubelet's lies on another disk than the folder that it is bound into.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def write_termination_message(path: Path, message: bytes) -> None:
    """All of the message or nothing, as far as the place allows."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(message)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if error.errno not in _NO_RENAME + _NO_ROOM:
            raise
        _write_in_place(path, message)


def _write_in_place(path: Path, message: bytes) -> None:
    """The kubelet binds a file of its own over the path: it cannot be replaced, only written.

    One write of less than a page, of a file that was empty: a reader sees all of it or none.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if (written := os.write(descriptor, message)) != len(message):
            os.ftruncate(descriptor, 0)  # there was room for a part of it only
            raise OSError(errno.ENOSPC, f"only {written} of {len(message)} bytes found room", str(path))
    finally:
        os.close(descriptor)


def out_of_memory_kills() -> int:
    """How often the kernel has killed a process of this container for its memory limit; 0 where that is not told."""
    for path in _MEMORY_EVENTS:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.split()[:1] == ["oom_kill"])
    return 0
