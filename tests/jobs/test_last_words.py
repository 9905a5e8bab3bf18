# SPDX-License-Identifier: Apache-2.0
"""What a launcher says and ends with when nothing has run, or something that nobody has foreseen went wrong."""

import errno
import os
import signal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import builders
from gangs import make_assignment
from gpubench import names, records
from gpubench.exitcodes import ExitCode
from gpubench_jobs.launcher import exit_status, recording


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The main module, which asks for signals when it is imported: not for those of the tests' own process."""
    with monkeypatch.context() as patched:
        patched.setattr(signal, "signal", lambda *_: None)
        from gpubench_jobs.launcher import __main__ as found  # noqa: PLC0415
    monkeypatch.setenv(names.ENV_TERMINATION_MESSAGE, str(tmp_path / "message"))
    return found


def message(tmp_path: Path) -> records.Failure:
    found = records.read_ending((tmp_path / "message").read_text())
    assert isinstance(found, records.Failure)
    return found


def test_an_environment_that_cannot_be_read_ends_with_what_is_wrong_in_it(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(names.ENV_ASSIGNMENT, make_assignment(workers=2, attempt=3).to_json())
    monkeypatch.delenv(names.ENV_POD_INDEX, raising=False)
    assert launcher.main() == ExitCode.BAD_ASSIGNMENT
    said = message(tmp_path)
    assert (said.trial, said.attempt, said.exit_code) == ("trial1", 3, ExitCode.BAD_ASSIGNMENT)
    assert names.ENV_POD_INDEX in said.sentence
    assert records.read_line(capsys.readouterr().out.encode().rstrip()) == said


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ImportError("no numpy", name="numpy"), ExitCode.BAD_ASSIGNMENT, "the image lacks numpy: no numpy: use an im"),
        (ImportError("odd"), ExitCode.BAD_ASSIGNMENT, "the image lacks a library: odd: use an image of the operator's"),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.DISK_FULL, "there is no room on a disk: "),
        (ValueError("odd"), ExitCode.WORKER_RAISED, "the launcher failed: ValueError: odd: see the end of its log"),
    ],
)
def test_what_nobody_has_foreseen_has_a_code_and_a_sentence(
    launcher: ModuleType, error: Exception, code: ExitCode, sentence: str
) -> None:
    found = launcher._unexpected(error)
    assert (found.exit_code, found.rank) == (code, None)
    assert found.sentence.startswith(sentence)


def test_whoever_is_told_to_stop_ends_with_the_code_for_it(launcher: ModuleType) -> None:
    stop = launcher._STOP.__class__.__new__(launcher._STOP.__class__)
    stop.requested = False
    stop.check()
    stop._on_signal(signal.SIGTERM, None)
    with pytest.raises(exit_status.Failed) as failed:
        stop.check()
    assert (failed.value.exit_code, failed.value.sentence) == (
        ExitCode.TERMINATED,
        "the pod was told to stop (SIGTERM)",
    )


def failing(number: int) -> Any:
    def write(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return write


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, ExitCode.DISK_FULL), (errno.EIO, ExitCode.RESULT_NOT_WRITTEN)]
)
def test_a_result_that_reaches_no_termination_message_is_a_failure(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, number: int, code: ExitCode
) -> None:
    monkeypatch.setattr(exit_status, "write_termination_message", failing(number))
    assert launcher._close(recording.Recording(), builders.result()) == code
    failure = records.Failure(trial="t", attempt=1, exit_code=ExitCode.STALLED, sentence="it stalled")
    assert launcher._close(recording.Recording(), failure) == ExitCode.STALLED


def test_a_result_that_cannot_be_recorded_is_a_failure_in_the_message(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded = recording.Recording()
    monkeypatch.setattr(recorded, "publish", failing(errno.ENOSPC))
    monkeypatch.setattr(recording, "silence", lambda _: None)
    assert launcher._close(recorded, builders.result()) == ExitCode.DISK_FULL
    assert message(tmp_path).exit_code == ExitCode.DISK_FULL


def test_a_result_that_is_written_is_a_success(launcher: ModuleType, tmp_path: Path) -> None:
    assert launcher._close(recording.Recording(), builders.result()) == ExitCode.SUCCEEDED
    assert records.read_ending((tmp_path / "message").read_text()) == builders.result()
