# SPDX-License-Identifier: Apache-2.0
"""What launcher and worker say to each other.

The launcher gives a `WorkerConfig` in one environment variable, and may ask for a last checkpoint on a pipe. The worker
answers with JSON lines on a pipe of its own. Nothing is read from a worker's standard output, where any library may
print: the launcher alone writes the pod's, so that records never mix.
"""

import contextlib
import ctypes
import os
import signal
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.values import FrozenModel

ENV_CONFIG = "GPUBENCH_WORKER_CONFIG"


class WorkerConfig(FrozenModel):
    """All that a worker needs beside Horovod's variables."""

    assignment: Assignment
    rank: int
    cores: tuple[int, ...]  # to pin itself to; empty: it is not pinned
    channel: int  # file descriptor of the pipe to the launcher
    requests: int = -1  # of the pipe from it, where checkpoints are kept
    checkpoints: str | None = None  # the folder of this training on its volume
    launcher: int  # process id: a worker whose launcher is gone must not go on
    started_ns: int  # when the launcher started it; both read the same monotonic clock
    join_seconds: float
    pod_ip: str

    @property
    def local_rank(self) -> int:
        return self.rank % self.assignment.workers_per_node

    @property
    def threads(self) -> int:
        """Intra-op threads."""
        return threads(self.assignment.slot_processors)


def threads(processors: float) -> int:
    """Of a rank with so many processors: never more than its share, at least one."""
    return max(1, int(processors))


class Phase(StrEnum):
    """Where a rank is. What a silent rank may be blamed for follows from it."""

    STARTING = "starting"  # interpreter and imports
    CONNECTING = "connecting to its peers"  # in hvd.init(): Gloo aborts the process when it fails
    RESTORING = "reading a checkpoint"  # rank 0, by itself
    BUILDING = "building its model"
    SPREADING = "receiving the first weights"  # in a collective
    CHECKING = "testing its device"  # by itself; the all-reduce of the test is agreeing
    FIRST_STEP = "taking its first step"  # traces, allocates, and may wait for its peers
    STEPPING = "stepping"  # inside a call of the training step, perhaps waiting for its peers
    KEEPING = "writing a checkpoint"  # rank 0, by itself
    EVALUATING = "evaluating its model"  # its share of the held-out samples, then a sum over all ranks
    AGREEING = "agreeing with its peers"  # in a collective of the gang: plans, windows, digests
    FINISHED = "finished"


class Progress(FrozenModel):
    """A rank has got somewhere: the watchdog's clock starts anew."""

    kind: Literal["progress"] = "progress"
    phase: Phase


class Answered(FrozenModel):
    """What the launcher has asked for is done, or cannot be done in the time."""

    kind: Literal["answered"] = "answered"


class Request(FrozenModel):
    """The pod is to stop: a last checkpoint is wanted, if it can be whole by then."""

    deadline_ns: int  # both read the same monotonic clock


#: What a worker may say.
Message = Progress | Answered | records.Record
#: Reads a line of a worker.
MESSAGE: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


class Writer:
    """The worker's end. One write per line: a line is whole or absent, also when the worker dies."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def send(self, message: FrozenModel) -> None:
        os.write(self._descriptor, message.to_json().encode() + b"\n")

    def phase(self, phase: Phase) -> None:
        self.send(Progress(phase=phase))


class Requests:
    """The worker's end of the pipe on which the launcher asks. Looking never waits."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def newest(self) -> Request | None:
        """What was asked since the last look; None where nothing was."""
        with contextlib.suppress(BlockingIOError):
            if lines := os.read(self._descriptor, 1 << 12).splitlines():
                return Request.model_validate_json(lines[-1])
        return None


def die_with_parent(parent: int) -> None:
    """SIGKILL when the parent dies (prctl(2), PR_SET_PDEATHSIG; Linux): of the thread that started this process."""
    if ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL):  # PR_SET_PDEATHSIG
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(ExitCode.PEER_LOST)
