# SPDX-License-Identifier: Apache-2.0
"""One pod and its end, at the worst moment and beside others that go wrong."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from gangs import wait_until
from gpubench_cli import local
from gpubench_cli.local import LocalPod

PATIENCE_SECONDS = 60.0  # a process starts within some hundredths of a second
PROGRAM = "import os, time; print(os.getpid(), flush=True); time.sleep(120)"


def make_order(folder: Path) -> dict[str, Any]:
    return {
        "name": "pod-0",
        "index": 0,
        "node": "here",
        "address": "127.1.0.1",
        "cores": (min(os.sched_getaffinity(0)),),
        "gpus": (),
        "environment": {},
        "command": (sys.executable, "-c", PROGRAM),
        "log": folder / "pod.jsonl",
        "scratch": folder / "scratch",
    }


def process_id(folder: Path) -> int:
    """Of the pod's process, once it has said it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (said := (folder / "pod.jsonl").read_text()).endswith("\n"):
        assert time.monotonic() < deadline, "the pod did not start"
        time.sleep(0.02)
    return int(said)


class EndsWhileLookedAt(LocalPod):
    """Is seen alive once more, and has ended before anything is done about it."""

    folder: Path
    looked = False

    @property
    def ended(self) -> bool:
        seen = super().ended
        if not self.looked:
            self.looked = True
            number = process_id(self.folder)
            os.kill(number, signal.SIGKILL)
            os.waitid(os.P_PID, number, os.WEXITED | os.WNOWAIT)
        return seen


def test_a_pod_that_ends_before_it_is_told_to_is_found_ended(tmp_path: Path) -> None:
    ending = EndsWhileLookedAt(**make_order(tmp_path))
    ending.folder = tmp_path
    ending.terminate()
    assert ending.ended
    assert ending.exit_code == 128 + signal.SIGKILL


def test_one_that_cannot_be_killed_spares_no_other(tmp_path: Path) -> None:
    class Broken(LocalPod):
        def kill(self) -> None:
            raise PermissionError("not yours")

    running = LocalPod(**make_order(tmp_path))
    with pytest.raises(PermissionError, match="not yours"):
        local.kill_all([object.__new__(Broken), running, object.__new__(Broken)])
    assert running.ended
    assert running.exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize(
    ("code", "phase", "reason", "said"), [(0, "Succeeded", "Completed", None), (3, "Failed", "Error", "no more")]
)
def test_a_pod_is_seen_as_the_kubelet_would_show_it(
    tmp_path: Path, code: int, phase: str, reason: str, said: str | None
) -> None:
    program = f"import sys; sys.stdin.read(); sys.stderr.write('no more'); sys.exit({code})"
    running = LocalPod(**make_order(tmp_path) | {"command": (sys.executable, "-c", program)})
    wait_until(lambda: running.ended)
    seen = running.observe()
    assert (seen.name, seen.index, seen.phase, seen.node) == ("pod-0", 0, phase, "here")
    assert seen.end is not None
    assert (seen.end.exit_code, seen.end.reason, seen.end.message) == (code, reason, said)
    assert seen.end.finished_at is not None
    assert seen.scheduled_at == seen.running_at == seen.end.started_at
    assert seen.end.started_at is not None
    assert seen.end.started_at <= seen.end.finished_at


#: Leaves a session of its own with a child in it; ends when it is told to.
LEAVES = """
import os, pathlib, time
if not os.fork():
    os.setsid()
    os.fork()
    os.write(1, f'{os.getpid()}\\n'.encode())  # one write: both write at once, and print makes two
    time.sleep(120)
while not pathlib.Path("end").exists():
    time.sleep(0.01)
"""


def test_what_has_left_the_session_of_a_pod_ends_with_it_and_no_other_pods(tmp_path: Path) -> None:
    def left(name: str) -> list[psutil.Process]:
        return [psutil.Process(int(line)) for line in (tmp_path / name / "pod.jsonl").read_text().split()]

    running = {}
    with local.adopting():
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            order = make_order(tmp_path / name) | {"name": name, "command": (sys.executable, "-c", LEAVES)}
            running[name] = LocalPod(**order)
        wait_until(lambda: len(left("one")) == len(left("other")) == 2)
        ones, others = left("one"), left("other")
        (tmp_path / "one/scratch/end").touch()
        wait_until(lambda: running["one"].ended)
        assert not any(process.is_running() for process in ones)
        assert all(process.is_running() for process in others)
        running["other"].kill()
        assert not any(process.is_running() for process in others)
    assert running["one"].exit_code == 0


HOSTILE = "$(touch owned) `touch owned` '; touch owned; #\" \\ $$ ${HOME} |& \n*"


def test_what_a_user_writes_is_an_argument_and_no_shell_reads_it(tmp_path: Path) -> None:
    told = "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ['MINE']]))"
    changes = {"command": (sys.executable, "-c", told, HOSTILE, "--"), "environment": {"MINE": HOSTILE}}
    running = LocalPod(**make_order(tmp_path) | changes)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not running.ended:
        assert time.monotonic() < deadline, "the pod did not end"
        time.sleep(0.02)
    assert running.exit_code == 0
    assert json.loads((tmp_path / "pod.jsonl").read_text()) == [[HOSTILE, "--"], HOSTILE]
    assert not list(tmp_path.rglob("owned"))
