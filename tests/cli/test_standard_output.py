# SPDX-License-Identifier: Apache-2.0
"""A standard output that is closed, full, left by its reader, or too narrow in its characters: never a traceback."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "jobs/examples"
PATIENCE_SECONDS = 120.0
COMMANDS = (("plan", str(EXAMPLES / "quickstart.yaml")), ("workloads",), ("validate", str(EXAMPLES)), ("--help",))


def ended(*arguments: str, **how: Any) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "gpubench_cli", *arguments]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False, **how)


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_reader_that_has_gone_is_no_news(arguments: tuple[str, ...]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as gone:  # noqa: PTH123  # a number
        found = ended(*arguments, stdout=gone)
    assert (found.returncode, found.stderr) == (141, b"")


@pytest.mark.parametrize("arguments", COMMANDS)
def test_a_full_disk_is_one_sentence(arguments: tuple[str, ...]) -> None:
    with Path("/dev/full").open("wb") as full:
        found = ended(*arguments, stdout=full)
    said = b"gpubench: standard output cannot be written: No space left on device\n"
    assert (found.returncode, found.stderr) == (2, said)


def test_a_disk_that_is_full_after_the_measuring_costs_no_results(tmp_path: Path) -> None:
    text = (EXAMPLES / "own-container.yaml").read_text()
    for old, new in {"repeats: {min: 3}": "repeats: {min: 1}", "duration: 2s": "duration: 1s"}.items():
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "study.yaml").write_text(text)
    with Path("/dev/full").open("wb") as full:
        found = ended("run", "study.yaml", "--results", "found", stdout=full, cwd=tmp_path)
    assert found.returncode == 2
    assert found.stderr.endswith(b"gpubench: standard output cannot be written: No space left on device\n")
    assert ended("verify", str(tmp_path / "found"), stdout=subprocess.DEVNULL).returncode == 0


def closing(number: int) -> Callable[[], None]:
    return lambda: os.close(number)


def test_a_closed_standard_output_is_one_sentence_before_anything_is_done(tmp_path: Path) -> None:
    study = str(EXAMPLES / "quickstart.yaml")
    found = ended("run", study, "--results", "found", preexec_fn=closing(1), cwd=tmp_path)
    said = b"gpubench: standard output is closed: leave it open, or send it to /dev/null\n"
    assert (found.returncode, found.stderr) == (2, said)
    assert not (tmp_path / "found").exists()


def test_a_closed_standard_error_takes_nothing_away() -> None:
    command = [sys.executable, "-m", "gpubench_cli", "validate", "nothing.yaml"]
    found = subprocess.run(
        command, stdout=subprocess.PIPE, preexec_fn=closing(2), timeout=PATIENCE_SECONDS, check=False
    )  # fmt: skip
    assert (found.returncode, found.stdout) == (2, b"")


def test_a_closed_standard_input_is_empty() -> None:
    found = ended("validate", "-", stdout=subprocess.DEVNULL, preexec_fn=lambda: os.close(0))
    assert found.returncode == 2
    assert found.stderr.startswith(b"gpubench: -: the file is empty")


def test_characters_that_an_encoding_lacks_are_replaced() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    found = ended("plan", str(EXAMPLES / "quickstart.yaml"), stdout=subprocess.PIPE, env=environment)
    assert (found.returncode, found.stderr) == (0, b"")
    assert b"(0.0015 to " in found.stdout
    assert b"?" in found.stdout, "the en dash of an interval"
