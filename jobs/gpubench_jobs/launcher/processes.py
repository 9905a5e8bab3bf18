# SPDX-License-Identifier: Apache-2.0
"""The worker processes of one pod: starting, listening, stopping. `exit_status` classifies what they report.

Must not happen: a worker that outlives its launcher (each asks the kernel to be killed with it), a line of a worker
lost (pipes are read to their end after a process has ended), a worker's own print on the pod's standard output.
"""

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import psutil
from pydantic import ValidationError

from gpubench import records
from gpubench_jobs import channel, clock
from gpubench_jobs.launcher.exit_status import RankState

#: From SIGKILL until a worker is given up: freeing much memory takes its time, a broken device for ever.
_KILLED_SECONDS = 5.0
_FROZEN = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_DISK_SLEEP)


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    pipe: int
    requests: int  # our end of the pipe on which it can be asked
    seen: RankState
    rest: bytes = b""


class Processes:
    """Started one by one, then polled."""

    def __init__(self, *, publish: Callable[[records.Record], None], now: clock.Clock = clock.monotonic_ns) -> None:
        self._publish = publish
        self._now = now
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self.result: records.Result | None = None
        self.answered = False  # whether rank 0 has answered what it was asked

    def start(self, worker_config: channel.WorkerConfig, *, environment: Mapping[str, str]) -> None:
        """One rank. The descriptors of the pipes are known only here."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        asked, asking = os.pipe()
        worker_config = worker_config.model_copy(update={"channel": writer, "requests": asked})
        process = subprocess.Popen(
            [sys.executable, "-m", "gpubench_jobs.worker"],
            env={**environment, channel.ENV_CONFIG: worker_config.to_json()},
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            pass_fds=(writer, asked),
        )
        os.close(writer)
        os.close(asked)
        seen = RankState(rank=worker_config.rank, phase=channel.Phase.STARTING, progress_ns=self._now())
        worker = _Worker(process=process, pipe=reader, requests=asking, seen=seen)
        self._workers.append(worker)
        self._selector.register(reader, selectors.EVENT_READ, worker)

    def ask(self, request: channel.Request) -> None:
        """Rank 0, where it is one of this pod's."""
        for worker in self._workers:
            if worker.seen.rank == 0:
                with contextlib.suppress(BrokenPipeError):  # it has just ended
                    os.write(worker.requests, request.to_json().encode() + b"\n")

    def poll(self, *, timeout: float) -> tuple[RankState, ...]:
        """Everything that the workers said and did since the last call; waits at most `timeout` seconds for it."""
        if self._selector.get_map():
            self._selector.select(timeout)
        else:
            time.sleep(timeout)
        # In the order of ranks, not of readiness: rank 0's environment comes before any window of its neighbours.
        ended = [worker.process.poll() for worker in self._workers]
        for worker, returncode in zip(self._workers, ended, strict=True):
            self._listen(worker)
            seen = worker.seen
            if returncode is None:
                worker.seen = replace(seen, frozen=_frozen(worker.process.pid))
            elif seen.returncode is None:
                worker.seen = replace(seen, returncode=returncode, ended_ns=seen.ended_ns or self._now(), frozen=False)
        return tuple(worker.seen for worker in self._workers)

    def stop(self, *, kill_after: float) -> tuple[int, ...]:
        """SIGTERM, and SIGKILL for those that stay. The ranks that neither has ended: they hang in the kernel (D)."""
        for worker in self._workers:
            worker.process.terminate()
        deadline = time.monotonic() + kill_after
        for worker in self._workers:
            try:
                worker.process.wait(timeout=max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                worker.process.kill()
        deadline = time.monotonic() + _KILLED_SECONDS
        for worker in self._workers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.process.wait(timeout=max(0.0, deadline - time.monotonic()))
        return tuple(worker.seen.rank for worker in self._workers if worker.process.poll() is None)

    def _listen(self, worker: _Worker) -> None:
        if worker.pipe < 0:
            return
        while True:
            try:
                chunk = os.read(worker.pipe, 1 << 16)
            except BlockingIOError:
                return
            if not chunk:
                self._selector.unregister(worker.pipe)
                os.close(worker.pipe)
                worker.pipe = -1
                return
            *lines, worker.rest = (worker.rest + chunk).split(b"\n")
            for line in lines:
                try:
                    self._hear(worker, channel.MESSAGE.validate_json(line))
                except ValidationError:
                    worker.seen = replace(worker.seen, nonsense=worker.seen.nonsense or repr(line[:40]))

    def _hear(self, worker: _Worker, message: channel.Message) -> None:
        match message:
            case channel.Progress():
                worker.seen = replace(worker.seen, phase=message.phase, progress_ns=self._now())
            case channel.Answered():
                self.answered = True
            case records.Result():
                self.result = message
            case records.Failure():
                worker.seen = replace(worker.seen, failure=message, ended_ns=self._now())
            case _:
                worker.seen = replace(worker.seen, progress_ns=self._now())
                self._publish(message)


def _frozen(process: int) -> bool:
    """Whether the process is stopped or sleeps where no signal reaches it (D)."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(process).status() in _FROZEN
    return False
