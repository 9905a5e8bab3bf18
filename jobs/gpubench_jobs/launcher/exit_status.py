# SPDX-License-Identifier: Apache-2.0
"""Who is to blame: from what a launcher sees of its ranks and of its gang to what becomes of the pod. Pure.

When one rank of a gang dies, all die within moments, each with an error of its own. The order of the rules is the order
of trust: a rank that gives its own reason, a rank that ended without a word, a failure that another pod reported, a
rank that lost a peer, a rank that makes no progress.

Writing the last words of a pod, and reading why the kernel killed one of its processes.

Must not happen: half a termination message. The kubelet may read the file at any moment and the operator takes what it
finds for the truth.
"""

import contextlib
import errno
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from gpubench import records
from gpubench.exitcodes import ExitCode, named
from gpubench_jobs import clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.launcher import barrier, config


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
    """All that a verdict is made of."""

    pod: int
    ranks: tuple[RankState, ...]
    now_ns: int
    stall_seconds: float
    fault: barrier.Fault | None = None  # what the gang knows
    barrier_silent: bool = False  # pod 0 has not answered for too long
    out_of_memory_kills: int = 0  # of this container since the launcher started
    custom_file: str | None = None  # of the user's, which its ranks run


@dataclass(frozen=True)
class Finished:
    """Every rank of the pod has ended well."""


@dataclass(frozen=True)
class Failed:
    """The pod has failed; the sentence goes into its termination message."""

    exit_code: ExitCode
    sentence: str
    rank: int | None = None

    @property
    def own(self) -> bool:
        """Whether the cause lies in this pod."""
        return self.exit_code is not ExitCode.PEER_LOST


def peer_failed(fault: barrier.Fault) -> Failed:
    """The verdict of a pod that heard of another's failure.

    When pod 0 gave up waiting for somebody, or a gang cannot be one, every pod that did come has the same to say, and
    nobody's end to wait for.
    """
    if (code := named(fault.exit_code)) in (ExitCode.JOIN_TIMEOUT, ExitCode.BAD_ASSIGNMENT):
        return Failed(exit_code=code, sentence=fault.sentence)
    return Failed(exit_code=ExitCode.PEER_LOST, sentence=f"pod {fault.pod} failed first: {fault.sentence}")


def classify(pod: PodState, allowed: config.Limits) -> Finished | Failed | None:
    """What becomes of the pod; None while it runs."""
    return (
        _own_words(pod)
        or _nonsense(pod)
        or _ended_without_a_word(pod, allowed)
        or _peer_reported(pod)
        or _peer_lost(pod, allowed)
        or _stalled(pod, allowed)
        or _finished(pod)
    )


def _own_words(pod: PodState) -> Failed | None:
    for seen in pod.ranks:
        if seen.failure and (code := named(seen.failure.exit_code)) not in (None, ExitCode.PEER_LOST):
            assert code is not None
            return Failed(exit_code=code, sentence=seen.failure.sentence, rank=seen.rank)
    return None


def _nonsense(pod: PodState) -> Failed | None:
    for seen in pod.ranks:
        if seen.nonsense is not None:
            return _of_its_program(pod, seen, f"wrote {seen.nonsense} into the pipe to its launcher")
    return None


def _of_its_program(pod: PodState, seen: RankState, what: str) -> Failed:
    """Of a file of the user's, where there is one: another attempt at it would end no better."""
    code, sentence = ExitCode.WORKER_RAISED, f"rank {seen.rank}, {seen.phase}, {what}: see its log"
    if pod.custom_file is not None and seen.phase not in (Phase.STARTING, Phase.CONNECTING):
        code, sentence = ExitCode.CUSTOM_MODEL_FAILED, f"{pod.custom_file}: {sentence}, and correct the file"
    return Failed(exit_code=code, sentence=sentence, rank=seen.rank)


def _ended_without_a_word(pod: PodState, allowed: config.Limits) -> Failed | None:
    for seen in pod.ranks:
        if seen.returncode is None or seen.failure or (seen.returncode == 0 and seen.phase is Phase.FINISHED):
            continue
        if _aborted_while_connecting(seen):
            # Gloo aborts the process also when it is the peer that is missing: the gang may know more in a moment.
            if pod.fault or not _settled(pod, seen, allowed):
                continue
            return Failed(
                exit_code=ExitCode.PEER_LOST,
                sentence=f"rank {seen.rank} could not connect to its peers in hvd.init(): see the end of its log, "
                "and whether pods of one gang may reach each other on all TCP ports",
                rank=seen.rank,
            )
        return _crashed(pod, seen)
    return None


def _aborted_while_connecting(seen: RankState) -> bool:
    return seen.returncode == -signal.SIGABRT and seen.phase is Phase.CONNECTING


def _crashed(pod: PodState, seen: RankState) -> Failed:
    assert seen.returncode is not None
    where = f"rank {seen.rank}, {seen.phase},"
    if seen.returncode == -signal.SIGKILL and pod.out_of_memory_kills:
        return Failed(
            exit_code=ExitCode.OUT_OF_MEMORY,
            sentence=f"{where} was killed because the pod reached its memory limit: "
            "raise the memory of the pool's slots or lower the batch",
            rank=seen.rank,
        )
    if seen.returncode < 0:
        name = _signal_name(-seen.returncode)
        sentence = f"{where} was ended by {name}, which no process of gpubench sent: see its log and the node's"
        return Failed(exit_code=ExitCode.WORKER_RAISED, sentence=sentence, rank=seen.rank)
    return _of_its_program(pod, seen, f"ended with code {seen.returncode} and without a reason")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _peer_reported(pod: PodState) -> Failed | None:
    if pod.fault and pod.fault.pod != pod.pod:
        return peer_failed(pod.fault)
    if pod.barrier_silent and any(seen.phase is not Phase.FINISHED for seen in pod.ranks):
        return Failed(exit_code=ExitCode.PEER_LOST, sentence="pod 0 does not answer any more: look at that pod")
    return None


def _peer_lost(pod: PodState, allowed: config.Limits) -> Failed | None:
    for seen in pod.ranks:
        if seen.failure and seen.failure.exit_code == ExitCode.PEER_LOST and _settled(pod, seen, allowed):
            return Failed(exit_code=ExitCode.PEER_LOST, sentence=seen.failure.sentence)
    return None


def _settled(pod: PodState, seen: RankState, allowed: config.Limits) -> bool:
    return seen.ended_ns is not None and clock.seconds(pod.now_ns - seen.ended_ns) >= allowed.settle_seconds


def _stalled(pod: PodState, allowed: config.Limits) -> Failed | None:
    """The rank that makes no progress. All of a gang stop when one does: who waits in a collective is a victim."""
    running = [seen for seen in pod.ranks if seen.returncode is None]
    silent = [seen for seen in running if _silence(pod, seen) >= _allowed_silence(pod, seen, allowed)]
    blamed = [seen for seen in silent if seen.frozen] or [seen for seen in silent if seen.phase not in _WAITING]
    if not blamed:
        grace = allowed.stall_grace_seconds
        blamed = [seen for seen in silent if _silence(pod, seen) >= _allowed_silence(pod, seen, allowed) + grace]
    if not blamed:
        return None
    first = blamed[0]
    state = "its process is stopped" if first.frozen else f"it is {first.phase}"
    return Failed(
        exit_code=ExitCode.STALLED,
        sentence=f"rank {first.rank} made no progress for {_allowed_silence(pod, first, allowed):g} s ({state}): "
        "if a window takes that long, make measure.window shorter, or the batch smaller when it is a single step; "
        "else look at the rank's log and at its node",
        rank=first.rank,
    )


#: Phases in which a rank may only be waiting for its peers.
_WAITING = frozenset(
    {Phase.CONNECTING, Phase.SPREADING, Phase.FIRST_STEP, Phase.STEPPING, Phase.EVALUATING, Phase.AGREEING}
)
#: Phases before the first step is over.
_STARTING = frozenset(
    {
        *(Phase.STARTING, Phase.CONNECTING, Phase.RESTORING, Phase.BUILDING, Phase.SPREADING, Phase.CHECKING),
        Phase.FIRST_STEP,
    }
)


def _silence(pod: PodState, seen: RankState) -> float:
    return clock.seconds(pod.now_ns - seen.progress_ns)


def _allowed_silence(pod: PodState, seen: RankState, allowed: config.Limits) -> float:
    return max(pod.stall_seconds, allowed.start_seconds) if seen.phase in _STARTING else pod.stall_seconds


def _finished(pod: PodState) -> Finished | None:
    if all(seen.returncode == 0 and seen.phase is Phase.FINISHED for seen in pod.ranks):
        return Finished()
    return None


_MEMORY_EVENTS = (Path("/sys/fs/cgroup/memory.events"), Path("/sys/fs/cgroup/memory/memory.oom_control"))
#: A path that is itself a mount (the kubelet's /dev/termination-log), or a folder that is not ours to write in.
_NO_RENAME = (errno.EBUSY, errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)
#: The folder has no room. The file may: the kubelet's lies on another disk than the folder that it is bound into.
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def write_termination_message(path: Path, message: bytes) -> None:
    """All of the message or nothing, as far as the place allows."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(message)
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        if error.errno not in _NO_RENAME + _NO_ROOM:
            raise
        _write_in_place(path, message)


def _write_in_place(path: Path, message: bytes) -> None:
    """The kubelet binds a file of its own over the path: it cannot be replaced, only written.

    One write of less than a page, of a file that was empty: a reader sees all of it or none.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        if (written := os.write(descriptor, message)) != len(message):
            os.ftruncate(descriptor, 0)  # there was room for a part of it only
            raise OSError(errno.ENOSPC, f"only {written} of {len(message)} bytes found room", str(path))
    finally:
        os.close(descriptor)


def out_of_memory_kills() -> int:
    """How often the kernel has killed a process of this container for its memory limit; 0 where that is not told."""
    for path in _MEMORY_EVENTS:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        return sum(int(line.split()[1]) for line in lines if line.split()[:1] == ["oom_kill"])
    return 0
