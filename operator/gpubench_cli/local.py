# SPDX-License-Identifier: Apache-2.0
"""The local edge: a Decision applied to processes of this machine, which play the pods of Indexed Jobs.

The same `decide` as in the cluster, over gangs that are processes and a ledger that is a file. Trials run one after the
other whatever the benchmark allows: on one machine two of them would measure each other. A signal suspends the run, as
`spec.suspend` would: what runs is stopped and recorded, what was measured is kept.

Must not happen: a process that is still there when `run` has returned or raised; a gang that is half there, for its end
is shown once all of its pods have ended, and nothing else starts on processors in use; a variable that somebody happens
to have exported that changes a measurement (settings belong in the template's env).
"""

import contextlib
import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from gpubench import names
from gpubench.analysis import analyze, status
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import account, capacity, conditions, environments, events, ledger, manifests, outcome, step
from gpubench.scheduler.actions import Actions, Gang
from gpubench.scheduler.observed import ContainerEnd, Observed, ObservedJob, ObservedPod, Study
from gpubench_cli import machine
from gpubench_cli.machine import Machine, Sources
from gpubench_cli.results import ResultsFolder, Summary
from gpubench_cli.terminal import EXIT_SIGNAL, Progression, Stopped

# --- pods -------------------------------------------------------------------------------------------------------------


_TERMINATION_MESSAGE_BYTES = 4096  # of which the kubelet, too, keeps the tail
_BURIED_SECONDS = 1.0
_PR_SET_CHILD_SUBREAPER = 36  # of Linux
_SAID_BYTES = 300  # of a pod that ended without last words: the end of what it said
_ENTER = Path(__file__).with_name("enter_pod.py")
#: Prefixes of variables that steer the training libraries: they come from the benchmark or not at all.
_STEERING = ("GPUBENCH_", "HOROVOD_", "NCCL_", "TF_", "XLA_", "OMP_", "KMP_", "MKL_", "CUDA_VISIBLE_DEVICES")
_NOT_STEERING = ("GPUBENCH_LIMIT_",)


def neutral_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the person's variables that change no measurement."""
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_NOT_STEERING) or not name.startswith(_STEERING)
    }


@dataclass(kw_only=True, eq=False)
class LocalPod:
    """A pod from its start to its end."""

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

    def __post_init__(self) -> None:
        self._message = self.scratch / "termination-message"
        self._started_at = time.time()
        self._ended_at: float | None = None
        self.scratch.mkdir(parents=True)
        with self.log.open("wb") as records, self.log.with_suffix(".err").open("wb") as said:
            self._process = subprocess.Popen(  # noqa: S603  # the command is ours
                [
                    *(sys.executable, "-I", "-S", str(_ENTER)),
                    *(str(os.getpid()), ",".join(map(str, self.cores))),
                    *self.command,
                ],
                env=self._environment(),
                cwd=self.scratch,
                stdin=subprocess.DEVNULL,
                stdout=records,
                stderr=said,
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether its main process has ended; then all that it has left is ended, too."""
        # Asked without reaping it: while it is a zombie, its number names this session and no other.
        waited = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self._ended_at is None and os.waitid(os.P_PID, self._process.pid, waited) is not None:
            self._bury()
        return self._ended_at is not None

    @property
    def exit_code(self) -> int | None:
        """As a container runtime gives it: 128 and the signal's number for a process that a signal ended."""
        return code if (code := self._process.returncode) is None or code >= 0 else 128 - code

    def terminate(self) -> None:
        if not self.ended:
            # Not Popen.terminate(): it reaps one that has just ended, and its end cannot be asked for again.
            os.kill(self._process.pid, signal.SIGTERM)

    def kill(self) -> None:
        if not self.ended:
            self._bury()

    def observe(self) -> ObservedPod:
        end = None
        if self.ended:
            assert self.exit_code is not None
            end = ContainerEnd(
                exit_code=self.exit_code,
                reason="Completed" if self.exit_code == 0 else "Error",
                message=self._last_words(),
                started_at=self._started_at,
                finished_at=self._ended_at,
            )
        return ObservedPod(
            name=self.name,
            index=self.index,
            phase="Running" if end is None else "Succeeded" if end.exit_code == 0 else "Failed",
            node=self.node,
            scheduled_at=self._started_at,
            running_at=self._started_at,
            end=end,
        )

    def _last_words(self) -> str | None:
        """Its termination message, or the last line that it said (`FallbackToLogsOnError` of Kubernetes)."""
        if words := _tail(self._message, _TERMINATION_MESSAGE_BYTES):
            return words
        if self.exit_code == 0:
            return None
        return said[-1] if (said := _tail(self.log.with_suffix(".err"), _SAID_BYTES).strip().splitlines()) else None

    def _environment(self) -> dict[str, str]:
        given = dict(self.environment)
        given.pop(names.ENV_IMAGE, None)  # there is no image here, and no measurement may claim one
        return {
            **neutral_environment(os.environ),
            **given,
            "TMPDIR": str(self.scratch),
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # numbers mean what nvidia-smi lists; CUDA's own order is by speed
            "CUDA_VISIBLE_DEVICES": ",".join(self.gpus),  # empty: a CPU pool sees no GPU
            names.ENV_POD_INDEX: str(self.index),
            names.ENV_POD_IP: self.address,
            names.ENV_POD_NAME: self.name,
            names.ENV_NODE_NAME: self.node,
            names.ENV_TERMINATION_MESSAGE: str(self._message),
        }

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
        while (left := _adopted(self.name)) and time.monotonic() < deadline:
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


def kill_all(running: Iterable["LocalPod | LocalGang"]) -> None:
    """Kill each of them whatever becomes of the others; what went wrong is raised after the last."""
    with contextlib.ExitStack() as kills:
        for one in running:
            kills.callback(one.kill)


def _tail(path: Path, size: int) -> str:
    try:
        return path.read_bytes()[-size:].decode(errors="replace")
    except FileNotFoundError:
        return ""


# --- gangs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where gangs of a run live."""

    machine: Machine
    command: Sequence[str]  # a pod's main process, but for a workload that is a program of its own
    folder: ResultsFolder
    scratch: Path
    sources: Sources = field(default_factory=Sources)  # of the volumes
    grace_seconds: float = float(outcome.GRACE_SECONDS)


class LocalGang:
    """One attempt: the Job and its pods."""

    def __init__(self, gang: Gang, *, study: Study, plan: Plan, place: Place) -> None:
        self._gang = gang
        self._created_at = time.time()
        self.uid = str(uuid.uuid4())
        assignment = gang.assignment
        self.name = names.job_name(study.name, study.uid, trial=assignment.trial, attempt=assignment.attempt)
        self._grace_seconds = place.grace_seconds
        self._terminated_at: float | None = None
        self._failing_since: float | None = None
        self._deleting = False
        self.retired = False  # its end is recorded: it may be forgotten
        self._pods: list[LocalPod] = []
        try:
            for pod in _started(self.name, gang, study=study, plan=plan, place=place):
                self._pods.append(pod)
        except BaseException:
            self.kill()
            raise

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left and nobody will ask for it again."""
        return (self._deleting or self.retired) and self.ended

    @property
    def ended(self) -> bool:
        return all(pod.ended for pod in self._pods)

    @property
    def ending(self) -> bool:
        """Whether some of its processes have ended, or were told to, and others have not yet."""
        return not self.ended and (self._terminated_at is not None or any(pod.ended for pod in self._pods))

    def tend(self) -> None:
        """What the Job controller does: after the first end the others are told to go, and made to in the end."""
        failed = any(pod.ended and pod.exit_code != 0 for pod in self._pods)
        if self._failing_since is None and failed and not self._complete:
            self._failing_since = time.time()
        if self._failing_since is not None or self._complete:
            self._terminate()
        if self._terminated_at is not None and time.time() > self._terminated_at + self._grace_seconds:
            self.kill()

    def delete(self) -> None:
        """The Job is deleted: it stays until its pods have ended."""
        self._deleting = True
        self._terminate()

    def kill(self) -> None:
        kill_all(self._pods)

    def observe(self) -> ObservedJob:
        ended = self.ended
        return ObservedJob(
            name=self.name,
            uid=self.uid,
            trial=self._gang.assignment.trial,
            attempt=self._gang.assignment.attempt,
            pool=self._gang.pool,
            slots=self._gang.slots,
            created_at=self._created_at,
            deleting=self._deleting,
            complete=self._complete and ended,
            failing_since=self._failing_since,
            failed=self._failing_since is not None and ended,
            failed_reason="BackoffLimitExceeded" if self._failing_since is not None else None,
            has_ttl=self.retired,
            pods=tuple(pod.observe() for pod in self._pods),
        )

    @property
    def _complete(self) -> bool:
        return self._failing_since is None and bool(self._pods) and self._pods[0].ended and not self._pods[0].exit_code

    def _terminate(self) -> None:
        if self._terminated_at is None:
            self._terminated_at = time.time()
            for pod in self._pods:
                pod.terminate()


def _started(job: str, gang: Gang, *, study: Study, plan: Plan, place: Place) -> Iterator[LocalPod]:
    pool, slots = plan.pool(gang.pool).spec, gang.slots // gang.nodes
    cores, gpus = slots * machine.cores_per_slot(pool), slots if pool.has_gpus else 0
    addresses = _addresses(gang.nodes)
    mounted = manifests.volumes(study, plan, gang.pool)
    local = partial(machine.local_path, volumes=mounted, sources=place.sources, scratch=place.scratch)
    assignment = gang.assignment
    told = gang.model_copy(update={"assignment": machine.in_place(assignment, local)})
    environment = manifests.gang_environment(study, plan, told)
    own_command = manifests.own_command(plan, gang)
    command = place.command if own_command is None else machine.command_in_place(own_command, local)
    environment[names.ENV_RENDEZVOUS_HOST] = addresses[0]  # there is no DNS
    if assignment.checkpoint is not None:  # whatever claim the cluster would have
        environment[names.ENV_CHECKPOINTS] = str(place.folder.checkpoints)
    for index, address in enumerate(addresses):
        yield LocalPod(
            name=f"{job}-{index}",
            index=index,
            node=place.machine.name,
            address=address,
            cores=place.machine.cores[index * cores : (index + 1) * cores],
            gpus=tuple(gpu.entry for gpu in place.machine.gpus[index * gpus : (index + 1) * gpus]),
            environment=environment,
            command=command,
            log=place.folder.log(trial=assignment.trial, attempt=assignment.attempt, pod=index),
            scratch=place.scratch / f"{job}-{index}",
        )


def _addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody uses, one for each pod: pods of one gang open the same ports.

    127.0.0.0/16 is avoided, where programs of the machine listen; the rest of 127.0.0.0/8 is this machine, too.
    """
    chooser = random.SystemRandom()
    found: list[str] = []
    while len(found) < count:
        address = f"127.{chooser.randint(1, 254)}.{chooser.randint(0, 255)}.{chooser.randint(1, 254)}"
        with contextlib.suppress(OSError):
            for port in (names.PORT_RENDEZVOUS, names.PORT_BARRIER):
                socket.create_server((address, port)).close()
            if address not in found:
                found.append(address)
    return found


# --- runs -------------------------------------------------------------------------------------------------------------


_LOOK_SECONDS = 0.2  # rarely enough that looking does not disturb what is measured
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LocalRun:
    """One benchmark on this machine, from the first attempt to the last."""

    def __init__(
        self,
        study: Study,
        plan: Plan,
        *,
        place: Place,
        reporter: Progression,
        before: ledger.Ledger = ledger.Ledger(),  # noqa: B008  # it is frozen
    ) -> None:
        # One trial after the other: on one machine two of them would measure each other.
        self._study = with_spec(study, limits=study.spec.limits.model_copy(update={"parallel_trials": 1}))
        self._plan = plan
        self._place = place
        self._reporter = reporter
        self._ledger = before  # of a run that goes on
        self._account = account.of(plan.as_measured(), self._ledger)
        self._gangs: list[LocalGang] = []
        self._running: Gang | None = None
        self._status: FullStatus | None = None
        self._signals: list[int] = []

    def run(self) -> FullStatus:
        """The status at the end; Stopped after a signal."""
        with self._listening(), adopting():
            try:
                while True:
                    status = self._step()
                    over = self._study.spec.suspend or conditions.holds(status.conditions, conditions.FINISHED)
                    if over and not self._gangs:
                        break
                    self._wait()
            finally:
                kill_all(self._gangs)
        if self._signals:
            raise Stopped(EXIT_SIGNAL + self._signals[0])
        return status

    def _step(self) -> FullStatus:
        for gang in self._gangs:
            gang.tend()
        gone = [gang for gang in self._gangs if gang.gone]  # observed once more, for their ends
        if self._status is not None and any(gang.ending for gang in self._gangs):
            return self._status  # half an end is no news: a gang's end is judged when all of it has ended
        observed, before, now = self._observe(), self._ledger, time.time()
        made = step.step(self._plan, before, self._account, observed, now)
        self._ledger = made.ledger
        # Nothing may be lost: this before all else.
        self._place.folder.append((*made.actions.let_go, *made.actions.record))
        if read := self._describe(made.actions):
            made = step.step(self._plan, before.with_environments(read), self._account, observed, now)
        self._account = made.account
        self._gangs = [gang for gang in self._gangs if gang not in gone]
        found = analyze.analyze(self._plan, made.ledger, made.points, self._study.spec)
        full = status.full(self._study, self._plan, made, found, now=now)
        self._act(made, full)
        return full

    def _describe(self, actions: Actions) -> tuple[Environment, ...]:  # those that stand in logs only, so far
        found = []
        for one in actions.describe:
            head = self._place.folder.log_head(trial=one.trial, attempt=one.attempt, limit=environments.LOG_HEAD_BYTES)
            if (environment := environments.in_log(head, one.environment)) is not None:
                found.append(environment)
        self._place.folder.append_environments(found)
        self._ledger = self._ledger.with_environments(found)
        return tuple(found)

    def _observe(self) -> Observed:
        jobs, held = tuple(gang.observe() for gang in self._gangs), Counter[str]()
        for job in jobs:
            held[job.pool] += job.slots if job.holds_slots else 0
        return Observed(study=self._study, jobs=jobs, free=capacity.free_slots(self._plan, held))

    def _act(self, made: step.Step, status: FullStatus) -> None:
        delete, retire = ({one.uid for one in of} for of in (made.actions.delete, made.actions.retire))
        for gang in self._gangs:
            if gang.uid in delete:
                gang.delete()
            gang.retired |= gang.uid in retire
        for order in made.actions.create:
            self._gangs.append(LocalGang(order, study=self._study, plan=self._plan, place=self._place))
            self._running = order
        self._reporter.progressed(status, self._running if self._gangs else None)
        ended = [record for record in made.actions.record if record.outcome is not None]
        for event in events.events(self._study, self._plan, ended=ended, created=made.actions.create, status=status):
            self._reporter.happened(event)
        if status != self._status:
            self._status = status
            written = GpuBenchmarkStatus(conditions=status.conditions, start_time=status.start_time)
            self._study = self._study.model_copy(update={"status": written})
            here = self._place.machine.name
            self._place.folder.write(Summary(name=self._study.name, uid=self._study.uid, machine=here, status=status))

    def _wait(self) -> None:
        if self._signals and not self._study.spec.suspend:
            self._study = with_spec(self._study, suspend=True)
            return
        if len(self._signals) > 1:  # who asks twice does not want to wait
            kill_all(self._gangs)
        time.sleep(_LOOK_SECONDS)

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        # Whoever ignores SIGHUP, as nohup does, wants the benchmark to go on without a terminal.
        heeded = [one for one in _SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        before = {number: signal.signal(number, lambda caught, _: self._signals.append(caught)) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def with_spec(study: Study, **changes: object) -> Study:
    return study.model_copy(update={"spec": study.spec.model_copy(update=changes)})
