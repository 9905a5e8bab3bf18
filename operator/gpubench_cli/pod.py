# SPDX-License-Identifier: Apache-2.0
"""One local pod: a process in a session of its own, with its own address, its own processors and its last words.

What a kubelet would do for a pod, as far as a gang needs it. Must not happen: a pod that outlives its command line, or
a variable that somebody happens to have exported that changes a measurement (settings belong in the template's env).
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import psutil

from gpubench import names
from gpubench.scheduler.observed import ContainerEnd, ObservedPod

_TERMINATION_MESSAGE_BYTES = 4096  # of which the kubelet, too, keeps the tail
_BURIED_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36  # of Linux
_SAID_BYTES = 300  # of a pod that ended without last words: the end of what it said
_ENTER = Path(__file__).with_name("enter_pod.py")
#: Prefixes of variables that steer the training libraries: they come from the study or not at all.
_STEERING = ("GPUBENCH_", "HOROVOD_", "NCCL_", "TF_", "XLA_", "OMP_", "KMP_", "MKL_", "CUDA_VISIBLE_DEVICES")
_NOT_STEERING = ("GPUBENCH_LIMIT_",)


@dataclass(frozen=True, kw_only=True)
class PodOrder:
    """What a pod is to be."""

    name: str
    index: int
    node: str
    address: str
    cores: tuple[int, ...]
    gpus: tuple[str, ...]  # entries of CUDA_VISIBLE_DEVICES
    environment: Mapping[str, str]  # of the gang
    command: Sequence[str]
    log: Path  # its standard output; its standard error goes beside it
    scratch: Path  # a folder of its own, for its last words and its temporary files


def neutral_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the person's variables that change no measurement."""
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_NOT_STEERING) or not name.startswith(_STEERING)
    }


class LocalPod:
    """A pod from its start to its end."""

    def __init__(self, order: PodOrder) -> None:
        self._order = order
        self._message = order.scratch / "termination-message"
        self._started_at = time.time()
        self._ended_at: float | None = None
        order.scratch.mkdir(parents=True)
        with order.log.open("wb") as records, order.log.with_suffix(".err").open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603  # the command is ours
                [
                    *(sys.executable, "-I", "-S", str(_ENTER)),
                    *(str(os.getpid()), ",".join(map(str, order.cores))),
                    *order.command,
                ],
                env=self._environment(),
                cwd=order.scratch,
                stdin=subprocess.DEVNULL,
                stdout=records,
                stderr=said,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether its main process has ended; then all that it has left is ended, too."""
        if self._ended_at is None and self._has_exited():
            self._bury()
        return self._ended_at is not None

    @property
    def exit_code(self) -> int | None:
        """As a container runtime gives it: 128 and the signal's number for a process that a signal ended."""
        code = self._process.returncode
        return code if code is None or code >= 0 else 128 - code

    def terminate(self) -> None:
        """Ask its main process to end."""
        if not self.ended:
            # Not Popen.terminate(): it reaps one that has just ended, and its end cannot be asked for again.
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End all of its processes now."""
        if not self.ended:
            self._bury()

    def observe(self) -> ObservedPod:
        """The pod as a decision sees it."""
        end = self._end() if self.ended else None
        return ObservedPod(
            name=self._order.name,
            index=self._order.index,
            phase="Running" if end is None else "Succeeded" if end.exit_code == 0 else "Failed",
            node=self._order.node,
            scheduled_at=self._started_at,
            running_at=self._started_at,
            end=end,
        )

    def _end(self) -> ContainerEnd:
        assert self.exit_code is not None
        return ContainerEnd(
            exit_code=self.exit_code,
            reason="Completed" if self.exit_code == 0 else "Error",
            message=self._last_words(),
            started_at=self._started_at,
            finished_at=self._ended_at,
        )

    def _last_words(self) -> str | None:
        """Its termination message, or the last line that it said (`FallbackToLogsOnError` of Kubernetes)."""
        if words := _tail(self._message, _TERMINATION_MESSAGE_BYTES):
            return words
        if self.exit_code == 0:
            return None
        said = _tail(self._order.log.with_suffix(".err"), _SAID_BYTES).strip().splitlines()
        return said[-1] if said else None

    def _environment(self) -> dict[str, str]:
        given = dict(self._order.environment)
        given.pop(names.ENV_IMAGE, None)  # there is no image here, and no measurement may claim one
        return {
            **neutral_environment(os.environ),
            **given,
            "TMPDIR": str(self._order.scratch),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # numbers mean what nvidia-smi lists; CUDA's own order is by speed
            "CUDA_VISIBLE_DEVICES": ",".join(self._order.gpus),  # empty: a CPU pool sees no GPU
            names.ENV_POD_INDEX: str(self._order.index),
            names.ENV_POD_IP: self._order.address,
            names.ENV_POD_NAME: self._order.name,
            names.ENV_NODE_NAME: self._order.node,
            names.ENV_TERMINATION_MESSAGE: str(self._message),
        }

    def _has_exited(self) -> bool:
        # Without reaping it: while it is a zombie, its number names this session and no other.
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def _bury(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._ended_at = time.time()
        # The signal reaches the ranks a moment later. Bounded: where nobody reaps orphans they stay as zombies.
        deadline = time.monotonic() + _BURIED_SECONDS
        with contextlib.suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                with contextlib.suppress(ChildProcessError):  # those of its session that were adopted
                    os.waitpid(-self._process.pid, os.WNOHANG)
                os.killpg(self._process.pid, 0)
                time.sleep(0.01)
        while (left := _adopted(self._order.name)) and time.monotonic() < deadline:
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=_BURIED_SECONDS)


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """While it lasts, processes whose parent has ended become children of this one: also in a session of their own."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0)


def _adopted(name: str) -> list[psutil.Process]:
    """What is left of a pod: in two at a time, its name in the environment tells whose a process is."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if process.environ().get(names.ENV_POD_NAME) == name:
                found.append(process)
    return found


class Killable(Protocol):
    """A pod, or a gang of them."""

    def kill(self) -> None:
        """End it now."""


def kill_all(running: Iterable[Killable]) -> None:
    """Kill each of them whatever becomes of the others; what went wrong is raised after the last."""
    with contextlib.ExitStack() as kills:
        for one in running:
            kills.callback(one.kill)


def _tail(path: Path, size: int) -> str:
    try:
        return path.read_bytes()[-size:].decode(errors="replace")
    except FileNotFoundError:
        return ""
