# SPDX-License-Identifier: Apache-2.0
"""A full disk ends a pod with a code and a sentence of its own, wherever it is met. Real launchers and ranks.

/dev/full takes nothing and says that there is no room; a file system in memory that was filled up says the same.
"""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tensorflow as tf

from gangs import Pods, make_assignment
from gpubench import names
from gpubench.exitcodes import DO_NOT_RETRY, ExitCode
from gpubench_jobs import failures

NO_ROOM = "No space left on device"

ON_A_FULL_LOG = """
import os, sys
full = os.open("/dev/full", os.O_WRONLY)
for descriptor in map(int, os.environ["FULL"].split()):
    os.dup2(full, descriptor)
from gpubench_jobs.launcher import __main__ as launcher
sys.exit(launcher.main())
"""


@pytest.mark.usefixtures("horovod")
@pytest.mark.parametrize("full", ["1", "1 2"], ids=["records", "records-and-messages"])
def test_a_log_that_takes_no_record_ends_the_pod(pods: Pods, full: str) -> None:
    pod = pods.start(make_assignment(), environment={"FULL": full}, command=(sys.executable, "-c", ON_A_FULL_LOG))
    assert pod.wait() == ExitCode.DISK_FULL == pod.failure.exit_code
    assert NO_ROOM in pod.failure.sentence


#: A launcher whose termination message has its place on a file system that is full to the last byte.
ON_A_FULL_DISK = """
import ctypes, os, sys
from pathlib import Path
libc = ctypes.CDLL(None, use_errno=True)
new_user, new_mounts, private, recursive = 0x10000000, 0x00020000, 1 << 18, 16384
if libc.unshare(new_mounts) and libc.unshare(new_user | new_mounts):
    sys.exit(77)
folder = Path(os.environ["FULL"])
if libc.mount(b"none", b"/", None, private | recursive, None):
    sys.exit(77)
if libc.mount(b"none", str(folder).encode(), b"tmpfs", 0, b"size=64k"):
    sys.exit(77)
with open(folder / "filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(bytes(4096))
    except OSError:
        pass
from gpubench_jobs.launcher import __main__ as launcher
sys.exit(launcher.main())
"""


@pytest.mark.usefixtures("horovod")
def test_a_result_whose_termination_message_finds_no_room_is_told_by_the_exit_code(pods: Pods, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    pod = pods.start(
        make_assignment(),
        environment={"FULL": str(full), names.ENV_TERMINATION_MESSAGE: str(full / "termination-log")},
        command=(sys.executable, "-c", ON_A_FULL_DISK),
    )
    code = pod.wait()
    if code == 77:
        pytest.skip("this kernel gives no mount namespace to this user")
    assert code == ExitCode.DISK_FULL, pod.log[-2000:]
    assert NO_ROOM in pod.log
    assert json.loads(pod.lines[-1])["kind"] == "result"  # the log has it all the same


FILLS_A_DISK = """
def build(setting):
    with open("/dev/full", "w") as scratch:
        scratch.write("x" * 10_000)
"""


@pytest.mark.usefixtures("horovod")
def test_scratch_files_without_room_are_no_mistake_of_the_users_file(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(FILLS_A_DISK)
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file)))
    assert pod.wait() == ExitCode.DISK_FULL == pod.failure.exit_code
    assert NO_ROOM in pod.failure.sentence


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/checkpoint"),  # noqa: S108
        OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
        tf.errors.ResourceExhaustedError(None, None, f"/runs/weights.data-00000-of-00001; {NO_ROOM}"),
    ],
    ids=["disk", "quota", "tensorflow"],
)
def test_a_full_disk_is_not_taken_for_a_full_memory_and_may_be_tried_again(error: Exception) -> None:
    explained = failures.explain(error, make_assignment())
    assert explained.exit_code is ExitCode.DISK_FULL
    assert "there is no room on a disk" in explained.sentence
    assert ExitCode.DISK_FULL not in DO_NOT_RETRY


def test_a_full_memory_is_still_one() -> None:
    error = tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor with shape[1048576,1048576]")
    assert failures.explain(error, make_assignment()).exit_code is ExitCode.OUT_OF_MEMORY


ONLY_A_PART = """
import resource, signal, sys
from pathlib import Path
from gpubench_jobs.launcher import exit_status
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))  # after ten bytes there is no room in any file
try:
    exit_status.write_termination_message(Path(sys.argv[1]), b"words that need more")
except OSError as error:
    sys.exit(error.errno)
"""


def test_of_a_message_that_fits_in_part_nothing_is_left(tmp_path: Path) -> None:
    message = tmp_path / "termination-log"
    code = subprocess.run([sys.executable, "-c", ONLY_A_PART, str(message)], check=False).returncode
    assert code == errno.ENOSPC
    assert message.read_bytes() == b""
