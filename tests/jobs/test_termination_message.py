# SPDX-License-Identifier: Apache-2.0
"""The termination message is whole or absent."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpubench_jobs.launcher import exit_status


def test_the_message_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "termination-log"
    path.write_text("x" * 5000)
    exit_status.write_termination_message(path, b"words")
    assert path.read_bytes() == b"words"
    assert list(tmp_path.iterdir()) == [path]  # nothing is left beside it


IN_A_MOUNT = """
import ctypes, os, sys
from pathlib import Path
from gpubench_jobs.launcher import exit_status
path, source = Path(sys.argv[1]), Path(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
new_user, new_mounts, bind, private, recursive = 0x10000000, 0x00020000, 4096, 1 << 18, 16384
if libc.unshare(new_user | new_mounts) or libc.mount(b"none", b"/", None, private | recursive, None):
    sys.exit(77)
if libc.mount(str(source).encode(), str(path).encode(), None, bind, None):
    sys.exit(77)
exit_status.write_termination_message(path, b"words")
"""


def test_a_file_that_is_a_mount_is_written_in_place(tmp_path: Path) -> None:
    """As the kubelet gives /dev/termination-log: it cannot be replaced (EBUSY), only written."""
    folder, source = tmp_path / "dev", tmp_path / "of-the-kubelet"
    folder.mkdir()
    path = folder / "termination-log"
    path.touch()
    source.write_text("x" * 5000)
    code = subprocess.run([sys.executable, "-c", IN_A_MOUNT, str(path), str(source)], check=False).returncode
    if code == 77:
        pytest.skip("this kernel gives no mount namespace to this user")
    assert code == 0
    assert source.read_bytes() == b"words"
    assert [entry.name for entry in folder.iterdir()] == ["termination-log"]


def test_a_message_that_finds_room_for_a_part_of_it_is_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "termination-log", os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda descriptor, message: write(descriptor, message[:3]))
        with pytest.raises(OSError, match="only 3 of 5 bytes found room") as caught:
            exit_status.write_termination_message(path, b"words")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b""


def test_a_place_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        exit_status.write_termination_message(tmp_path / "missing" / "log", b"words")


V1 = "under_oom 0\noom_kill {}\n"
V2 = "low 0\nmax 31\noom 4\noom_kill {}\noom_group_kill 0\n"


@pytest.mark.parametrize(
    ("groups", "events", "text"),
    [
        ("0::/\n", "memory.events", V2),
        ("0::/user.slice/app: 1.scope\n", "user.slice/app: 1.scope/memory.events", V2),
        ("4:cpu:/other\n3:memory:/run/shell\n0::/\n", "memory/run/shell/memory.oom_control", V1),
        ("3:memory:/docker/0123\n", "memory/memory.oom_control", V1),
    ],
    ids=["a container of version 2", "a session", "a session of version 1", "a container that sees its host's names"],
)
def test_kills_for_memory_are_those_of_the_own_control_group(
    tmp_path: Path, groups: str, events: str, text: str
) -> None:
    own, told = tmp_path / "proc/self/cgroup", tmp_path / "sys/fs/cgroup" / events
    for path in (own, told):
        path.parent.mkdir(parents=True)
    own.write_text(groups)
    assert exit_status.out_of_memory_kills(tmp_path) == 0, "it has no such limit"
    told.write_text(text.format(2))
    assert exit_status.out_of_memory_kills(tmp_path) == 2
    own.unlink()
    assert exit_status.out_of_memory_kills(tmp_path) == 0, "it has no control groups"


def test_kills_for_memory_are_a_number_everywhere() -> None:
    assert exit_status.out_of_memory_kills() >= 0
