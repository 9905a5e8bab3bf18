# SPDX-License-Identifier: Apache-2.0
"""A pod's records on a results volume: whole under their name, and never in the way of what is measured.

The volumes that refuse are real: a file system that nobody can write, a limit on the size of a file, a file system of
two pages. Only the one that never answers is replaced, by a `create` that waits.
"""

import io
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from gangs import wait_until
from gpubench import checksum, names, records
from gpubench_jobs.launcher import recording

#: A folder that the kernel makes: nobody can create a file in it, whoever he is.
READ_ONLY = Path("/sys/gpubench")
FAILURE = records.Failure(trial="t", attempt=1, exit_code=80, sentence="it broke, and these are its last words")
LINES = tuple(
    records.line(records.Window(rank=0, index=index, steps=1, nanoseconds=1_000_000, warm_up=False))
    for index in range(50)
)
NO_NAMESPACE = 77


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where nothing is there yet, its folders neither."""
    return tmp_path / "volume" / "study" / "logs" / names.log_name(trial="t", attempt=1, pod=0)


@pytest.fixture
def told() -> list[str]:
    return []


def part(path: Path) -> Path:
    return path.with_name(path.name + names.LOG_UNFINISHED)


def kept(path: Path, told: list[str]) -> recording.Recording:
    """A file with all of LINES."""
    found = recording.Recording(path, tell=told.append)
    for line in LINES:
        found.add(line)
    found.close(within=60.0)
    return found


def test_the_file_holds_each_line_and_nothing_is_left_beside_it(path: Path, told: list[str]) -> None:
    kept(path, told)
    assert told == []
    assert path.read_text().splitlines() == list(LINES)
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    read = records.read_log(path.read_bytes())
    assert (len(read.records), read.problems) == (len(LINES), ())


def test_before_its_end_there_is_a_part_with_each_line_that_was_added(path: Path, told: list[str]) -> None:
    found = recording.Recording(path, tell=told.append)
    found.add(LINES[0])
    wait_until(lambda: part(path).exists() and part(path).read_text() == f"{LINES[0]}\n")
    assert not path.exists()
    found.add(LINES[1])
    wait_until(lambda: part(path).read_text() == f"{LINES[0]}\n{LINES[1]}\n")
    found.close(within=60.0)
    assert path.read_text() == f"{LINES[0]}\n{LINES[1]}\n"


KILLED = """
import os, sys, time
from pathlib import Path
from gpubench_jobs.launcher import recording
path, line = Path(sys.argv[1]), sys.argv[2]
kept = recording.Recording(path)
kept.add(line)
part = path.with_name(path.name + ".part")
while not part.exists() or not part.stat().st_size:
    time.sleep(0.01)
os.kill(os.getpid(), 9)
"""


def test_a_pod_that_is_killed_leaves_what_it_wrote_under_the_other_name(path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path), LINES[0]], check=False, timeout=60)
    assert ended.returncode == -9
    assert part(path).read_text() == f"{LINES[0]}\n"
    assert not path.exists()


def test_a_changed_byte_of_the_file_is_found(path: Path, told: list[str]) -> None:
    kept(path, told)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    assert len(records.read_log(bytes(content)).problems) == 1


def test_another_pods_file_is_never_written_over(path: Path, told: list[str]) -> None:
    path.parent.mkdir(parents=True)
    path.write_text("another's\n")
    kept(path, told)
    assert path.read_text() == "another's\n"
    (sentence,) = told
    assert "another pod has written a file of that name" in sentence


def test_another_pods_part_is_never_written_into(path: Path, told: list[str]) -> None:
    path.parent.mkdir(parents=True)
    part(path).write_text("another's\n")
    kept(path, told)
    assert part(path).read_text() == "another's\n"
    assert not path.exists()
    (sentence,) = told
    assert "File exists" in sentence


def test_a_read_only_volume_is_told_once_and_the_log_has_every_record(
    capfd: pytest.CaptureFixture[str], path: Path
) -> None:
    found = recording.Recording(READ_ONLY / path.name)
    for _ in range(3):
        found.publish(FAILURE)
    found.close(within=60.0)
    said = capfd.readouterr()
    assert said.out.splitlines() == [records.line(FAILURE)] * 3
    (sentence,) = said.err.splitlines()
    assert sentence.startswith(f"the results volume does not have all records of this pod ({READ_ONLY / path.name}: ")
    assert sentence.endswith("give spec.results a volume that these pods can write, with room")


def test_a_folder_that_is_none_is_told(tmp_path: Path, told: list[str]) -> None:
    (tmp_path / "file").touch()
    kept(tmp_path / "file" / "logs" / "t.1.0.jsonl", told)
    (sentence,) = told
    assert "Not a directory" in sentence


#: The standard output is a pipe, which no limit on files concerns.
WITH_A_LIMIT = """
import resource, sys
from pathlib import Path
from gpubench import records
from gpubench_jobs.launcher import recording
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
found = recording.Recording(Path(sys.argv[1]))
for index in range(50):
    found.publish(records.Window(rank=0, index=index, steps=1, nanoseconds=1_000_000, warm_up=False))
found.close(within=60.0)
"""


def test_a_volume_that_becomes_full_has_a_part_and_the_log_has_every_record(path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITH_A_LIMIT, str(path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == list(LINES)
    (sentence,) = ended.stderr.splitlines()
    assert "File too large" in sentence
    assert not path.exists()
    assert 0 < part(path).stat().st_size <= 2000
    assert part(path).read_bytes() == "".join(f"{line}\n" for line in LINES).encode()[: part(path).stat().st_size]


ON_TWO_PAGES = """
import ctypes, os, sys
from pathlib import Path
from gpubench import records
from gpubench_jobs.launcher import recording
folder = Path(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
new_user, new_mounts, private, recursive = 0x10000000, 0x00020000, 1 << 18, 16384
owner, group = os.getuid(), os.getgid()
if libc.unshare(new_user | new_mounts):
    sys.exit(77)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {owner} 1"), ("gid_map", f"0 {group} 1")):
    Path("/proc/self", name).write_text(text)
if libc.mount(b"none", b"/", None, private | recursive, None):
    sys.exit(77)
if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=8k"):
    sys.exit(77)
found = recording.Recording(folder / "t.1.0.jsonl")
for index in range(200):
    found.publish(records.Window(rank=0, index=index, steps=1, nanoseconds=1_000_000, warm_up=False))
found.close(within=60.0)
sys.exit(3 if (folder / "t.1.0.jsonl").exists() else 0)
"""


def test_a_full_file_system_is_told_and_no_file_is_taken_for_whole(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", ON_TWO_PAGES, str(tmp_path)], capture_output=True, text=True, check=False, timeout=60
    )
    if ended.returncode == NO_NAMESPACE:
        pytest.skip("this kernel gives no mount namespace to this user")
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 200
    (sentence,) = ended.stderr.splitlines()
    assert "No space left on device" in sentence


def test_what_has_settled_has_its_name_before_the_end(path: Path, told: list[str]) -> None:
    found = recording.Recording(path, tell=told.append)
    for line in LINES:
        found.add(line)
    found.settle(within=60.0)
    assert path.read_text().splitlines() == list(LINES)
    assert not part(path).exists()
    found.close(within=60.0)
    assert (path.read_text().splitlines(), told) == (list(LINES), [])


def test_a_line_that_comes_after_all_takes_the_name_away_until_it_is_there(path: Path, told: list[str]) -> None:
    found = recording.Recording(path, tell=told.append)
    found.add(LINES[0])
    found.settle(within=60.0)
    found.add(LINES[1])
    wait_until(lambda: part(path).exists() and part(path).read_text() == f"{LINES[0]}\n{LINES[1]}\n")
    assert not path.exists()
    found.close(within=60.0)
    assert path.read_text() == f"{LINES[0]}\n{LINES[1]}\n"
    assert (part(path).exists(), told) == (False, [])


def test_a_fault_that_is_no_error_of_the_system_is_told_too(path: Path, told: list[str]) -> None:
    def broken(of: Path) -> BinaryIO:
        raise RuntimeError(f"no client for {of.name}")

    found = recording.Recording(path, tell=told.append, create=broken)
    found.add(LINES[0])
    found.settle(within=60.0)
    found.close(within=60.0)
    (sentence,) = told
    assert "RuntimeError: no client for t.1.0.jsonl" in sentence


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_writer_that_is_gone_is_not_taken_for_one_that_has_done_its_work(path: Path, told: list[str]) -> None:
    def gone(of: Path) -> BinaryIO:
        raise SystemExit(of.name)

    found = recording.Recording(path, tell=told.append, create=gone)
    found.add(LINES[0])
    found.close(within=60.0)
    (sentence,) = told
    assert "nobody writes it any more" in sentence


class Unanswering:
    """A volume of which every call waits until the test lets it go."""

    def __init__(self) -> None:
        self._answers = threading.Event()

    def create(self, path: Path) -> BinaryIO:
        self._answers.wait()
        raise OSError(None, f"{path.name} came too late")

    def go(self) -> None:
        self._answers.set()


@pytest.fixture
def unanswering() -> Iterator[Unanswering]:
    volume = Unanswering()
    yield volume
    volume.go()


def test_a_volume_that_does_not_answer_holds_up_nothing_for_longer_than_the_bound(
    path: Path, told: list[str], unanswering: Unanswering
) -> None:
    found = recording.Recording(path, tell=told.append, create=unanswering.create)
    for line in LINES:
        found.add(line)
    found.settle(within=0.1)
    assert told == [], "it may still answer until the end"
    found.close(within=0.1)
    (sentence,) = told
    assert "it did not take all of them within 0.1 s" in sentence


def test_only_so_many_lines_wait_for_a_volume_and_what_lacks_some_gets_no_name(
    path: Path, told: list[str], unanswering: Unanswering
) -> None:
    created = io.BytesIO()

    def late(of: Path) -> BinaryIO:
        with pytest.raises(OSError, match="too late"):
            unanswering.create(of)
        return created

    found = recording.Recording(path, tell=told.append, create=late, waiting_max=3)
    for line in LINES[:4]:
        found.add(line)
    (sentence,) = told
    assert "3 of them are waiting for it" in sentence
    unanswering.go()
    wait_until(lambda: created.getvalue().count(b"\n") == 3)
    found.add(LINES[4])
    found.close(within=0.1)
    assert created.getvalue() == "".join(f"{line}\n" for line in LINES[:3]).encode(), "and it stays a part"
    assert len(told) == 1


def test_each_line_carries_its_checksum(path: Path, told: list[str]) -> None:
    kept(path, told)
    assert all(checksum.is_sealed(line) for line in path.read_text().splitlines())


def test_records_of_a_run_before_of_the_same_attempt_are_put_aside_and_not_taken_for_its_log(
    path: Path, told: list[str]
) -> None:
    """Kueue may evict the Job of an attempt, and run it again: its pods have the same names for their records."""
    for run in range(3):
        file = recording.Recording(path, tell=told.append, runs_again=True)
        file.add(LINES[run])
        file.close(within=60.0)
    part(path).write_text("of a pod that was killed\n")
    last = recording.Recording(path, tell=told.append, runs_again=True)
    last.add(LINES[3])
    last.close(within=60.0)
    assert told == []
    assert path.read_text() == f"{LINES[3]}\n"
    aside = {file.name.removeprefix(path.name): file.read_text() for file in path.parent.iterdir() if file != path}
    killed = {".part.run-1": "of a pod that was killed\n"}
    assert aside == killed | {f".run-{run + 1}": f"{LINES[run]}\n" for run in range(3)}
    assert [file.name for file in path.parent.glob(f"*{names.LOG_SUFFIX}")] == [path.name]
