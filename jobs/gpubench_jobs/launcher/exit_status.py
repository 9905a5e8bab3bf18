# SPDX-License-Identifier: Apache-2.0
"""How a pod ends: which failure of its gang is the cause (pure), and the termination message that says so.

When one rank of a gang dies, all die within moments, each with an error of its own. The order of the rules is the order
of trust: a rank that gives its own reason, a rank that ended without a word, a failure that another pod reported, a
rank that lost a peer, a rank that makes no progress.
"""

import contextlib
import errno
import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from gpubench import records
from gpubench.exitcodes import ExitCode, named
from gpubench_jobs import clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.launcher import barrier, config

#: Phases in which a rank may only be waiting for its peers.
_WAITING = frozenset(
    {Phase.CONNECTING, Phase.SPREADING, Phase.FIRST_STEP, Phase.STEPPING, Phase.EVALUATING, Phase.AGREEING}
)
#: Phases before the first step is over.
_STARTING = frozenset(
    {Phase.STARTING, Phase.CONNECTING, Phase.RESTORING, Phase.BUILDING, Phase.SPREADING, Phase.CHECKING}
) | {Phase.FIRST_STEP}
#: Of control groups 2 and 1. A container may see its own group as the root, under whatever name /proc has for it.
_MEMORY_EVENTS = ("sys/fs/cgroup{}/memory.events", "sys/fs/cgroup/memory{}/memory.oom_control")


class Failed(Exception):
    """The pod has failed; the sentence goes into its termination message."""

    def __init__(self, exit_code: ExitCode, sentence: str, *, rank: int | None = None) -> None:
        super().__init__(sentence)
        self.exit_code, self.sentence, self.rank = exit_code, sentence, rank

    @property
    def own(self) -> bool:
        """Whether the cause lies in this pod."""
        return self.exit_code is not ExitCode.PEER_LOST

    def record(self, *, trial: str, attempt: int) -> records.Failure:
        return records.Failure(
            trial=trial, attempt=attempt, exit_code=self.exit_code, rank=self.rank, sentence=self.sentence
        )

    def fault(self, pod: int) -> barrier.Fault:
        return barrier.Fault(pod=pod, rank=self.rank, exit_code=self.exit_code, sentence=self.sentence[:500])


@dataclass(frozen=True)
class RankState:
    """One rank as its launcher sees it."""

    rank: int
    phase: Phase
    progress_ns: int  # when it last got somewhere
    returncode: int | None = None  # of its process; negative for a signal
    ended_ns: int | None = None  # when the launcher saw it end or heard its failure
    failure: records.Failure | None = None  # in its own words
    nonsense: str | None = None  # the first that it said and that is no message
    frozen: bool = False  # its process is stopped (SIGSTOP) or hangs in the kernel


@dataclass(frozen=True)
class PodState:
    """What a launcher knows of its pod and its gang at one moment."""

    pod: int
    ranks: tuple[RankState, ...]
    now_ns: int
    stall_seconds: float
    fault: barrier.Fault | None = None  # what the gang knows
    barrier_silent: bool = False  # pod 0 has not answered for too long
    out_of_memory_kills: int = 0  # of this container since the launcher started
    custom_file: str | None = None  # of the user's, which its ranks run

    @property
    def finished(self) -> bool:
        return all(rank.returncode == 0 and rank.phase is Phase.FINISHED for rank in self.ranks)

    def silence(self, rank: RankState) -> float:
        """Seconds since the rank made progress."""
        return clock.seconds(self.now_ns - rank.progress_ns)


def classify(pod: PodState, limits: config.Limits) -> Failed | None:
    """Why the pod has failed; None while it has not."""
    return (
        _of_own_reason(pod)
        or _ended_without_a_word(pod, limits)
        or _peer_reported(pod)
        or _peer_lost(pod, limits)
        or _stalled(pod, limits)
    )


def peer_failed(fault: barrier.Fault) -> Failed:
    """What a pod says of another's failure. Of one that keeps it from being a gang all pods say the same."""
    if (code := named(fault.exit_code)) in (ExitCode.JOIN_TIMEOUT, ExitCode.BAD_ASSIGNMENT):
        return Failed(code, fault.sentence)
    return Failed(ExitCode.PEER_LOST, f"pod {fault.pod} failed first: {fault.sentence}")


def _of_own_reason(pod: PodState) -> Failed | None:
    for rank in pod.ranks:
        code = named(rank.failure.exit_code) if rank.failure else None
        if rank.failure and code is not None and code is not ExitCode.PEER_LOST:
            return Failed(code, rank.failure.sentence, rank=rank.rank)
    for rank in pod.ranks:
        if rank.nonsense is not None:
            return _of_its_program(pod, rank, f"wrote {rank.nonsense} into the pipe to its launcher")
    return None


def _of_its_program(pod: PodState, rank: RankState, what: str) -> Failed:
    """Of a file of the user's, where there is one: another attempt at it would end no better."""
    code, sentence = ExitCode.WORKER_RAISED, f"rank {rank.rank}, {rank.phase}, {what}: see its log"
    if pod.custom_file is not None and rank.phase not in (Phase.STARTING, Phase.CONNECTING):
        code, sentence = ExitCode.CUSTOM_MODEL_FAILED, f"{pod.custom_file}: {sentence}, and correct the file"
    return Failed(code, sentence, rank=rank.rank)


def _ended_without_a_word(pod: PodState, limits: config.Limits) -> Failed | None:
    for rank in pod.ranks:
        if rank.returncode is None or rank.failure or (rank.returncode == 0 and rank.phase is Phase.FINISHED):
            continue
        if rank.returncode != -signal.SIGABRT or rank.phase is not Phase.CONNECTING:
            return _crashed(pod, rank, rank.returncode)
        # Gloo aborts the process also when it is the peer that is missing: the gang may know more in a moment.
        if not pod.fault and _settled(pod, rank, limits):
            return Failed(
                ExitCode.PEER_LOST,
                f"rank {rank.rank} could not connect to its peers in hvd.init(): see the end of its log, "
                "and whether pods of one gang may reach each other on all TCP ports",
                rank=rank.rank,
            )
    return None


def _crashed(pod: PodState, rank: RankState, returncode: int) -> Failed:
    where = f"rank {rank.rank}, {rank.phase},"
    if returncode == -signal.SIGKILL and pod.out_of_memory_kills:
        return Failed(
            ExitCode.OUT_OF_MEMORY,
            f"{where} was killed because the pod reached its memory limit: "
            "raise the memory of the pool's slots or lower the batch",
            rank=rank.rank,
        )
    if returncode >= 0:
        return _of_its_program(pod, rank, f"ended with code {returncode} and without a reason")
    name = {one.value: one.name for one in signal.Signals}.get(-returncode, f"signal {-returncode}")
    sentence = f"{where} was ended by {name}, which no process of gpubench sent: see its log and the node's"
    return Failed(ExitCode.WORKER_RAISED, sentence, rank=rank.rank)


def _peer_reported(pod: PodState) -> Failed | None:
    if pod.fault and pod.fault.pod != pod.pod:
        return peer_failed(pod.fault)
    if pod.barrier_silent and any(rank.phase is not Phase.FINISHED for rank in pod.ranks):
        return Failed(ExitCode.PEER_LOST, "pod 0 does not answer any more: look at that pod")
    return None


def _peer_lost(pod: PodState, limits: config.Limits) -> Failed | None:
    for rank in pod.ranks:
        if rank.failure and rank.failure.exit_code == ExitCode.PEER_LOST and _settled(pod, rank, limits):
            return Failed(ExitCode.PEER_LOST, rank.failure.sentence)
    return None


def _settled(pod: PodState, rank: RankState, limits: config.Limits) -> bool:
    return rank.ended_ns is not None and clock.seconds(pod.now_ns - rank.ended_ns) >= limits.settle_seconds


def _stalled(pod: PodState, limits: config.Limits) -> Failed | None:
    """The rank that makes no progress. All of a gang stop when one does: who waits in a collective is a victim."""

    def allowed(rank: RankState) -> float:
        return max(pod.stall_seconds, limits.start_seconds) if rank.phase in _STARTING else pod.stall_seconds

    silent = [rank for rank in pod.ranks if rank.returncode is None and pod.silence(rank) >= allowed(rank)]
    blamed = (
        [rank for rank in silent if rank.frozen]
        or [rank for rank in silent if rank.phase not in _WAITING]
        or [rank for rank in silent if pod.silence(rank) >= allowed(rank) + limits.stall_grace_seconds]
    )
    if not blamed:
        return None
    first = blamed[0]
    state = "its process is stopped" if first.frozen else f"it is {first.phase}"
    return Failed(
        ExitCode.STALLED,
        f"rank {first.rank} made no progress for {allowed(first):g} s ({state}): "
        "if a window takes that long, make measure.window shorter, or the batch smaller when it is a single step; "
        "else look at the rank's log and at its node",
        rank=first.rank,
    )


def write_termination_message(path: Path, message: bytes) -> None:
    """All of the message or nothing: one write of less than a page is seen whole or not. The operator believes it.

    In place, as the kubelet's own file is a mount, which no other file can replace.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if (written := os.write(descriptor, message)) != len(message):
            os.ftruncate(descriptor, 0)  # there was room for a part of it only
            raise OSError(errno.ENOSPC, f"only {written} of {len(message)} bytes found room", str(path))
    finally:
        os.close(descriptor)


def out_of_memory_kills(root: Path = Path("/")) -> int:
    """How often the kernel has killed a process of this control group for its memory limit; 0 where nobody knows."""
    kills = 0
    with contextlib.suppress(OSError):
        groups = {"", *re.findall(r"^\d+:[^:]*:(.*?)/?$", (root / "proc/self/cgroup").read_text(), re.MULTILINE)}
        files = (root / path.format(group) for path in _MEMORY_EVENTS for group in groups)
        told = "\n".join(file.read_text() for file in files if file.is_file())
        kills = sum(map(int, re.findall(r"^oom_kill (\d+)$", told, re.MULTILINE)))
    return kills
