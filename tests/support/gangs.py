# SPDX-License-Identifier: Apache-2.0
"""Real launchers as child processes: each is a pod with an address of its own on the loopback network."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

import fork_server
from gpubench import names, records
from gpubench.plan import assignment as assignments
from gpubench.records import Log
from gpubench_jobs import channel

#: The one patience of all tests here, many times what anything took: a gang on two busy cores needed 25 s to import
#: TensorFlow twice. It is only ever used up by a test that fails.
SECONDS_UP = 300  # a bound, for a machine that does other things beside
LAUNCHER = (sys.executable, "-m", "gpubench_jobs.launcher")


def make_assignment(**changes: object) -> assignments.Assignment:
    """A gang of one that is done in a second, once TensorFlow is loaded."""
    fields: dict[str, object] = {
        "trial": "trial1",
        "attempt": 1,
        "workload": "mnist_mlp",
        "precision": "float32",
        "workers": 1,
        "workers_per_node": 1,
        "batch_per_worker": 8,
        "seed": 1,
        "slot_processors": 1.0,
        "gpu": False,
        "warm_up_seconds": 0.1,
        "measure_seconds": 0.3,
        "window_seconds": 0.1,
        "join_timeout_seconds": 60,
        "stall_timeout_seconds": 60,
    }
    return assignments.Assignment.model_validate(fields | changes)


def make_orders(assignment: assignments.Assignment, **changes: object) -> channel.WorkerConfig:
    """What a launcher, which is this process, tells rank 0."""
    fields: dict[str, object] = {
        "rank": 0,
        "cores": (),
        "channel": -1,
        "launcher": os.getpid(),
        "started_ns": 0,
        "join_seconds": 0.0,
        "pod_ip": "127.0.0.1",
    }
    return channel.WorkerConfig.model_validate({"assignment": assignment} | fields | changes)


@dataclass
class Pod:
    """One launcher and the files it writes."""

    process: "subprocess.Popen[bytes] | fork_server.Launcher"
    address: str
    folder: Path
    started: float = field(default_factory=time.monotonic)

    def wait(self, *, seconds: float = SECONDS_UP) -> int:
        return self.process.wait(timeout=seconds)

    @property
    def log(self) -> str:
        return (self.folder / "stderr").read_text(errors="replace")

    @property
    def lines(self) -> list[str]:
        return (self.folder / "stdout").read_text().splitlines()

    @property
    def wrote(self) -> Log:
        """Its records, each of which must be whole."""
        found = records.read_log((self.folder / "stdout").read_bytes())
        assert not found.problems, found.problems
        return found

    @property
    def wrote_until_killed(self) -> Log:
        """The same of one that may have been stopped in the middle of a line."""
        found = records.read_log((self.folder / "stdout").read_bytes())
        assert not found.problems or found.cut, found.problems
        return found

    def count(self, kind: str) -> int:
        """Its records of a kind so far."""
        return sum(f'"kind":"{kind}"' in line for line in self.lines)

    @property
    def message(self) -> str:
        return (self.folder / "termination-log").read_text()

    @property
    def failure(self) -> records.Failure:
        ending = records.read_ending(self.message)
        assert isinstance(ending, records.Failure), ending
        return ending

    @property
    def result(self) -> records.Result:
        ending = records.read_ending(self.message)
        assert isinstance(ending, records.Result), f"{ending}\n{self.log[-3000:]}"
        return ending

    def workers(self) -> list[psutil.Process]:
        """Its worker processes, in the order of their ranks."""
        try:
            children = psutil.Process(self.process.pid).children()
        except psutil.NoSuchProcess:
            return []
        return sorted(children, key=lambda child: child.pid)

    def wait_for_windows(self, count: int = 1) -> None:
        """Until training has come so far."""
        wait_until(lambda: self.count("window") >= count, pods=(self,))

    def wait_for_a_measured_window(self) -> None:
        """Until it neither warms up nor traces anything any more, for which it has much more time than for steps."""
        wait_until(lambda: any('"warmUp":false' in line for line in self.lines), pods=(self,))


def wait_until(holds: Callable[[], bool], *, pods: tuple[Pod, ...] = (), seconds: float = SECONDS_UP) -> None:
    """Poll; fails at once when a pod ends before."""
    deadline = time.monotonic() + seconds
    while not holds():
        for pod in pods:
            assert pod.process.poll() is None, f"a pod ended too early:\n{pod.log[-3000:]}"
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.05)


class Pods:
    """Starts launchers and leaves none behind."""

    def __init__(self, folder: Path, *, server: fork_server.ForkServer | None = None) -> None:
        """With a server its launchers are forked off it, unless one is to be fresh."""
        self._folder = folder
        self._server = server
        self._pods: list[Pod] = []
        # Addresses of this test only: 29500 of another's pods on this machine must not be met.
        pid = os.getpid()
        self._network = f"127.{128 + pid // 250 % 100}.{1 + pid % 250}"

    def address(self, index: int) -> str:
        """One for each test of this process, and pod."""
        _addresses.setdefault(self._folder, len(_addresses))
        return f"{self._network}.{1 + (_addresses[self._folder] * 4 + index) % 250}"

    def start(
        self,
        assignment: assignments.Assignment | str,
        *,
        index: int = 0,
        environment: Mapping[str, str] | None = None,
        cores: int = 1,
        command: Sequence[str] = LAUNCHER,
        fresh: bool = False,
    ) -> Pod:
        """`fresh`: an interpreter of its own, as any other command has; what it imports is the subject then."""
        folder = self._folder / f"pod-{index}"
        folder.mkdir()
        text = assignment if isinstance(assignment, str) else assignment.to_json()
        variables = {
            **os.environ,
            names.ENV_ASSIGNMENT: text,
            names.ENV_POD_INDEX: str(index),
            names.ENV_POD_IP: self.address(index),
            names.ENV_RENDEZVOUS_HOST: self.address(0),
            names.ENV_TERMINATION_MESSAGE: str(folder / "termination-log"),
            "GPUBENCH_LIMIT_LINGER": "0.5",
            "GPUBENCH_LIMIT_KEEP": "60",  # for files on a disk that other tests keep busy, too
            **(environment or {}),
        }
        own = sorted(os.sched_getaffinity(0))
        pinned = {own[(index * cores + n) % len(own)] for n in range(cores)}
        forking = self._server if command == LAUNCHER and not fresh else None
        process: subprocess.Popen[bytes] | fork_server.Launcher
        with (folder / "stdout").open("wb") as out, (folder / "stderr").open("wb") as err:
            if forking is not None:
                process = forking.launch(environment=variables, stdout=out, stderr=err, cores=pinned)
            else:
                process = subprocess.Popen(
                    command,
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    preexec_fn=lambda: os.sched_setaffinity(0, pinned),  # noqa: PLW1509  # no threads here
                )
        pod = Pod(process=process, address=self.address(index), folder=folder)
        self._pods.append(pod)
        return pod

    def gang(
        self,
        assignment: assignments.Assignment,
        *,
        environment: Mapping[str, str] | None = None,
        fresh: bool = False,
    ) -> tuple[Pod, ...]:
        return tuple(
            self.start(assignment, index=index, environment=environment, fresh=fresh)
            for index in range(assignment.nodes)
        )

    def end(self) -> None:
        for pod in self._pods:
            for process in (*pod.workers(), psutil.Process(pod.process.pid)) if pod.process.poll() is None else ():
                with contextlib.suppress(psutil.NoSuchProcess):  # a rank ends by itself when its peer does
                    process.send_signal(signal.SIGKILL)
            pod.process.wait(timeout=10)


_addresses: dict[Path, int] = {}
