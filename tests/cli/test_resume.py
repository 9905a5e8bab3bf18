# SPDX-License-Identifier: Apache-2.0
"""`gpubench run --resume`: a run that was stopped, or killed, goes on in its folder and measures nothing twice."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import command_line
from gpubench.scheduler.ledger import Outcome
from gpubench_cli import results

EXAMPLE = Path(__file__).parents[2] / "jobs/examples/own-container.yaml"
PATIENCE_SECONDS = 120.0  # a start takes a second on an idle machine
#: The second trial, and each that follows, waits while there is a file.
HELD = """\
        Path({begun!r}).open("a").write("x")
        while Path({held!r}).exists() and Path({begun!r}).stat().st_size > 1:
            time.sleep(0.02)
        assignment ="""


@pytest.fixture
def stopped_in_the_second(tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    """A run whose second trial, of six, does not end. A failed attempt would end its point.

    Its file has another benchmark, too.
    """
    text = EXAMPLE.read_text()
    held = HELD.format(begun=str(tmp_path / "begun"), held=str(tmp_path / "held"))
    for old, new in {"        assignment =": held, "duration: 2s": "duration: 1s"}.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    (tmp_path / "held").touch()
    other = text[text.rindex("---\n") :].replace("name: own-container", "name: other", 1)
    (tmp_path / "study.yaml").write_text(text + other)
    asked = ("run", "study.yaml", "--name", "own-container", "--results", "found")
    process = command_line.started(*asked, folder=tmp_path)

    def second_is_in_the_ledger() -> bool:
        assert process.poll() is None, process.communicate()
        has_begun = (tmp_path / "begun").exists() and (tmp_path / "begun").stat().st_size == 2
        return has_begun and len(results.read_ledger(tmp_path / "found").records) == 2

    until(second_is_in_the_ledger)
    yield process
    process.kill()
    process.wait()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_goes_on_where_it_was_ended(
    stopped_in_the_second: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals
) -> None:
    ended = command_line.apart("run", "--resume", "found", folder=tmp_path, seconds=PATIENCE_SECONDS)
    assert (ended.returncode, ended.stderr) == (
        2, "gpubench: found: another `gpubench run` writes there: wait for its end\n",
    )  # fmt: skip
    first = results.read_ledger(tmp_path / "found").records[0]
    stopped_in_the_second.send_signal(number)
    _, err = stopped_in_the_second.communicate(timeout=PATIENCE_SECONDS)
    if number == signal.SIGINT:
        assert err.endswith("gpubench show found; gpubench run --resume found\n")
    else:  # in the middle of a line
        with (tmp_path / "found/ledger.jsonl").open("a") as ledger:
            ledger.write('{"schemaVersion": 1, "tri')
    (tmp_path / "held").unlink()
    ended = command_line.apart("run", "--resume", "found", folder=tmp_path, seconds=PATIENCE_SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "[6/6] points: 2 Measured" in ended.stderr
    assert "slowed down 0 times" not in ended.stderr
    records = results.read_ledger(tmp_path / "found").records
    assert sorted(record.outcome or "" for record in records) == [*[Outcome.STOPPED], *[Outcome.SUCCEEDED] * 6]
    assert first in records
    assert (tmp_path / "begun").stat().st_size == 7, "nothing is measured twice"
    assert command_line.called("verify", "found", folder=tmp_path).returncode == 0
    ended = command_line.called("run", "--resume", "found", folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (
        2, "gpubench: found: own-container has finished: there is nothing left to run\n",
    )  # fmt: skip


def test_what_is_no_results_folder_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    ended = command_line.called("run", "--resume", str(tmp_path))
    assert (ended.returncode, ended.stderr) == (
        2, f"gpubench: {tmp_path}: this is no results folder of `gpubench run`\n",
    )  # fmt: skip


def test_results_of_elsewhere_do_not_go_on_here(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).with_name("recorded_results") / "quickstart", tmp_path / "found")
    summary = results.read_summary(tmp_path / "found").model_copy(update={"machine": "elsewhere"})
    results.ResultsFolder(tmp_path / "found").write(summary)
    ended = command_line.called("run", "--resume", "found", folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.startswith("gpubench: found: it is no run of this machine")
    assert ended.stderr.endswith("but of elsewhere\n")
