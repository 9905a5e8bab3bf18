# SPDX-License-Identifier: Apache-2.0
"""Launchers and ranks that are forked off a process that has loaded TensorFlow once, in place of loading it each time.

A launcher gets the environment, files and cores that it would get from a kubelet; its ranks are its children with pipes
as always. What is not shown here is the start itself: the interpreter, its arguments, what is imported when. Tests of
that, and of variables that libraries read while they are imported, start programs (`gangs.Pods.start(fresh=True)`).
"""

import contextlib
import ctypes
import functools
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

_PR_SET_PDEATHSIG = 1
_REQUEST_BYTES = 1 << 20
_NUMBER_BYTES = 64
_FIRST_DESCRIPTOR = 3  # below are the three streams
_SERVER = (sys.executable, __file__)


class ForkServer:
    """The process to fork off; it ends with whoever has started it."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [*_SERVER, str(theirs.fileno())], stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
            )

    def launch(
        self, *, environment: Mapping[str, str], stdout: BinaryIO, stderr: BinaryIO, cores: Set[int]
    ) -> "Launcher":
        """A launcher with exactly this environment."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = json.dumps({"environment": dict(environment), "cores": sorted(cores)})
        with theirs:
            descriptors = [theirs.fileno(), stdout.fileno(), stderr.fileno()]
            socket.send_fds(self._requests, [request.encode()], descriptors)
        return Launcher(ours)

    def end(self) -> None:
        """With all that was forked off it."""
        self._requests.close()
        self._process.wait()


class Launcher:
    """What a test does with a process that it has started, for one that is not its child."""

    def __init__(self, news: socket.socket) -> None:
        self._news = news
        self.pid = self._number()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None and select.select([self._news], [], [], 0)[0]:
            self.returncode = self._number()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._news], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(_SERVER, timeout or 0.0)
        found = self.poll()
        assert found is not None
        return found

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _number(self) -> int:
        said = self._news.recv(_NUMBER_BYTES)
        assert said, "the process that launchers are forked off has ended: see standard error"
        return int(said)


# --- in the server ----------------------------------------------------------------------------------------------------


def main() -> None:
    """Forks as often as it is asked to, until the other end of the socket is closed."""
    _end_with_parent()
    del sys.path[0]  # the folder of this file, where a rank would find modules of tests
    requests = socket.socket(fileno=int(sys.argv[1]))
    _load()
    assert threading.active_count() == 1, "what is forked has no other thread than the one that forks"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those that wait for launchers
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, 3)
        if not message:
            return
        if not os.fork():
            _in_child(functools.partial(_launch_and_tell, json.loads(message), *descriptors))
        for descriptor in descriptors:
            os.close(descriptor)


def _load() -> None:
    """What launcher and rank import; nothing of it may start a thread or open what a fork cannot share."""
    from gpubench_jobs.engines import launch  # noqa: PLC0415  # in this process only

    os.environ |= launch._FIXED  # as a rank has them when it imports Keras
    from gpubench_jobs.worker import __main__ as worker  # noqa: PLC0415

    worker.import_tensorflow()
    from gpubench_jobs import models  # noqa: F401, PLC0415
    from gpubench_jobs.launcher import barrier, processes, recording  # noqa: F401, PLC0415
    from gpubench_jobs.worker import checkpointer, environment, epochs, health, session  # noqa: F401, PLC0415

    processes.subprocess = _Subprocess  # type: ignore[assignment, attr-defined]  # the one thing that is another here
    gc.freeze()  # so that a collection in a child does not copy all of it


def _launch_and_tell(request: dict[str, Any], news: int, stdout: int, stderr: int) -> None:
    """Waits for the launcher and says its process id, then how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process = os.fork()
    if not process:
        _in_child(lambda: _launcher(request, stdout=stdout, stderr=stderr))
    os.write(news, f"{process}".encode())
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(BrokenPipeError):
        os.write(news, f"{os.waitstatus_to_exitcode(status)}".encode())


def _launcher(request: dict[str, Any], *, stdout: int, stderr: int) -> None:
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.closerange(_FIRST_DESCRIPTOR, os.sysconf("SC_OPEN_MAX"))
    os.sched_setaffinity(0, request["cores"])
    os.environ.clear()
    os.environ.update(request["environment"])
    runpy.run_module("gpubench_jobs.launcher", run_name="__main__", alter_sys=True)


class _Rank(subprocess.Popen[bytes]):
    """A rank that goes on where its program would begin, with the descriptors that it would have."""

    def __init__(self, command: list[str], *, env: dict[str, str], pass_fds: tuple[int, ...], **streams: int) -> None:
        assert command == [sys.executable, "-m", "gpubench_jobs.worker"]
        sys.stdout.flush()
        sys.stderr.flush()

        def go_on() -> None:
            gc.enable()  # which subprocess has switched off until the program begins
            kept = {0, 1, 2, *pass_fds}
            for descriptor in (int(one.name) for one in list(Path("/proc/self/fd").iterdir())):
                if descriptor not in kept:
                    with contextlib.suppress(OSError):  # that of the listing itself
                        os.close(descriptor)
            for number in (signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)
            os.environ.clear()
            os.environ.update(env)
            _in_child(lambda: runpy.run_module("gpubench_jobs.worker", run_name="__main__", alter_sys=True))

        super().__init__(command, env=env, pass_fds=pass_fds, preexec_fn=go_on, **streams)  # type: ignore[call-overload]


class _Subprocess:
    """In place of the module, for the one who starts ranks."""

    Popen = _Rank
    DEVNULL = subprocess.DEVNULL
    TimeoutExpired = subprocess.TimeoutExpired


def _in_child(work: Callable[[], object]) -> NoReturn:
    """Work and end, as a program does, without the clean-up of what only the parent has begun."""
    _end_with_parent()
    code = 0
    try:
        work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
