# SPDX-License-Identifier: Apache-2.0
"""What a command has started ends with it, whatever ends it."""

import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

import command_line
from gangs import SECONDS_UP, wait_until


@pytest.mark.usefixtures("horovod")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda number: number.name)
def test_a_self_check_that_is_ended_leaves_no_ranks(tmp_path: Path, number: signal.Signals) -> None:
    with (tmp_path / "said").open("wb") as said:
        check = subprocess.Popen(
            (sys.executable, "-m", "gpubench_cli", "self-check", "--rounds", "3600"),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            preexec_fn=command_line.heed_signals,  # noqa: PLW1509  # no threads here
        )
    started: list[psutil.Process] = []

    def measuring() -> bool:
        """Both ranks."""
        started[:] = psutil.Process(check.pid).children(recursive=True)
        assert check.poll() is None, (tmp_path / "said").read_text()
        return len(started) >= 2

    try:
        wait_until(measuring)
        check.send_signal(number)
        assert check.wait(timeout=SECONDS_UP)
        _, left = psutil.wait_procs(started, timeout=SECONDS_UP)
        assert not left
    finally:  # what would be left would measure for an hour
        check.kill()
        for process in started:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        check.wait()
