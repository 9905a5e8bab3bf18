# SPDX-License-Identifier: Apache-2.0
"""`gpubench` as tests call it: in this process, because a start of Python and the imports cost more than most tests.

What a process would have of its own is given to the call and taken back: arguments, folder, environment, the three
standard streams. What only a process shows (the code of its end, signals, what is imported, a reader that has seen
enough) is tested with `apart`, and with `started`.
"""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from gpubench_cli import __main__ as program

_COMMAND = (sys.executable, "-m", "gpubench_cli")
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


def heed_signals() -> None:
    """Before a program is started: whoever has started the tests may ignore some, as nohup does, and so would it."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_DFL)


class Ended(NamedTuple):
    """What is left of a command: named as subprocess has it."""

    returncode: int
    stdout: str
    stderr: str


def called(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None, stdin: str = ""
) -> Ended:
    """The command in this process. Whatever is no refusal reaches the test as it was raised, with its traceback."""
    out, err = _stream(), _stream()
    with (
        contextlib.chdir(folder or Path.cwd()),
        mock.patch.dict(os.environ, environment or {}),
        mock.patch.object(sys, "argv", ["gpubench", *arguments]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        _unchanged(),
        _cluster_client_of(environment or {}),
    ):
        code = program.main()
    return Ended(code, _text(out), _text(err))


def started(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.Popen[str]":
    """The command in a process of its own, whose output goes into pipes."""
    return subprocess.Popen(
        [*_COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        preexec_fn=heed_signals,  # noqa: PLW1509  # no threads here
    )


def apart(
    *arguments: str, seconds: float, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> Ended:
    """The command in a process of its own, to its end; killed, and an error, when that takes longer."""
    process = started(*arguments, folder=folder, environment=environment)
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        process.kill()  # does nothing to one that has ended
        process.wait()
    return Ended(process.returncode, out, err)


def _stream() -> io.TextIOWrapper:
    """As a pipe is: bytes below, no terminal."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Signal handlers and the levels of loggers are the process's: the next test must find them as they were."""
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    client = logging.getLogger("kubernetes")
    level = client.level
    try:
        yield
    finally:
        client.setLevel(level)
    assert {number: signal.getsignal(number) for number in _SIGNALS} == handlers, "a command left its signal handlers"


@contextlib.contextmanager
def _cluster_client_of(environment: Mapping[str, str]) -> Iterator[None]:
    """The Kubernetes client reads KUBECONFIG once, when it is imported: here that may have been another test."""
    place = environment.get("KUBECONFIG")
    if place is None:
        yield
        return
    with mock.patch("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", place):
        yield
