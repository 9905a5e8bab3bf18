# SPDX-License-Identifier: Apache-2.0
"""When a gang keeps a checkpoint. `checkpoint` has the files, `snapshot` the variables, `beginning` begins from one.

Between two windows, never inside one, rank 0 says whether one is due and how many windows to run until the next look;
its word is broadcast, for a checkpoint needs all ranks. It is due before the interval is over, so that an interruption
never costs more than one: the interval that was given, or Daly's (`measure.checkpoint_interval`), from what the
checkpoints of this training have cost so far. The first of all, which nobody can know the cost of, comes early.

When the pod of rank 0 is told to stop, the launcher asks for a last one: rank 0 says at its next look that one is due,
and the other ranks, which nobody has told, take part as in any other; with it all ranks end. Where what one has cost
does not fit into the time that is left, none is begun.

Must not happen: a checkpoint's time in a figure of training; a training that fails because its volume is full.
"""

import contextlib
import sys
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from gpubench.exitcodes import ExitCode
from gpubench.measure import checkpoint_interval, records
from gpubench.plan.assignment import Checkpointing
from gpubench.values import Value
from gpubench_jobs import channel, checkpoint, clock, distribution, snapshot
from gpubench_jobs.channel import Phase
from gpubench_jobs.failures import RankError

if TYPE_CHECKING:
    from gpubench_jobs.session import Session

#: Of training, until the first checkpoint of a training whose costs nobody knows.
_FIRST_SECONDS = 30.0
#: From one look to the next at most, unless a window is longer: a pod that is told to stop has some seconds.
_LOOK_SECONDS = 0.5
#: Of what one has cost, for a last one: the volume may be slower this time.
_CAUTION = 1.5


class _Look(Value):
    """What rank 0 has decided."""

    keep: bool
    last: bool  # the pod is to stop
    windows: int  # to run until the next look, after the checkpoint


@dataclass
class Keeper:
    """The checkpoints of one rank's run; `store` and `requests` are rank 0's."""

    policy: Checkpointing
    nodes: int
    identity: checkpoint.Identity
    extent: checkpoint.Extent
    framework: str
    state: snapshot.State
    store: checkpoint.Store | None = None
    requests: channel.Requests | None = None
    begun: checkpoint.Manifest | None = None  # what this attempt has begun from
    kept: list[records.Checkpoint] = field(default_factory=list)  # on rank 0
    nanoseconds: int = 0  # in which checkpoints were kept, or tried to be
    _since_ns: int | None = None  # when training began to be lost by an interruption
    _since_step: int = 0
    _asked: bool = False

    @property
    def write_seconds(self) -> float | None:
        """What a checkpoint costs; None while nobody knows."""
        if self.kept:
            return fmean(one.seconds for one in self.kept)
        return self.begun.write_seconds if self.begun is not None else None

    @property
    def interval_seconds(self) -> float:
        """From one checkpoint to the next."""
        if self.policy.interval_seconds is not None:
            return self.policy.interval_seconds
        if self.write_seconds is None:
            return _FIRST_SECONDS
        between = checkpoint_interval.seconds_between_interruptions(
            nodes=self.nodes, per_node_hour=self.policy.interruptions_per_node_hour
        )
        return checkpoint_interval.optimum(write_seconds=self.write_seconds, between_seconds=between)

    def look(self, rank: "Session", *, windows: int, steps: int, progress: checkpoint.Progress) -> int:
        """Before windows of so many steps: keep a checkpoint where one is due; how many to run until the next look.

        `progress` has this rank's part only.
        """
        if self._since_ns is None:
            self._since_ns, self._since_step = rank.now(), progress.step
        look = rank.agreed(self._decide(rank, windows=windows, steps=steps, step=progress.step))
        if look.keep and self._keep(rank, progress, last=look.last) and look.last:
            raise _stopped(rank.rank, step=progress.step)
        if self._asked:
            rank.writer.send(channel.Answered())
            self._asked = False
        return look.windows

    def require_latest(self, attempt: int) -> None:
        """RankError where a later attempt keeps checkpoints: they would be removed with this one's result."""
        if self.store is not None:
            with contextlib.suppress(OSError):
                self.store.files(attempt)

    def _decide(self, rank: "Session", *, windows: int, steps: int, step: int) -> _Look:
        """On rank 0; the others are told."""
        if rank.rank != 0 or not rank.windows:
            return _Look(keep=False, last=False, windows=windows)
        assert self._since_ns is not None
        now, before = rank.now(), rank.windows[-1]
        window_seconds = clock.seconds(before.nanoseconds) / before.steps * steps
        left = self.interval_seconds - clock.seconds(now - self._since_ns)
        last = self._is_asked(now)
        keep = step > self._since_step and (last or left < window_seconds)
        if keep:
            left = self.interval_seconds
        until_look = int(min(left, _LOOK_SECONDS) / window_seconds)
        return _Look(keep=keep, last=last, windows=max(1, min(windows, until_look)))

    def _is_asked(self, now: int) -> bool:
        """Whether a last one is wanted and has the time. The launcher waits for an answer in any case."""
        request = self.requests.newest() if self.requests is not None else None
        if request is None:
            return False
        self._asked = True
        return clock.seconds(request.deadline_ns - now) >= _CAUTION * (self.write_seconds or 0.0)

    def _keep(self, rank: "Session", progress: checkpoint.Progress, *, last: bool) -> bool:
        """On all ranks at once: whether it is whole. What the volume refuses is told and tried again at its time."""
        begun = rank.now()
        rank.writer.phase(Phase.AGREEING)
        workers = self.identity.workers
        parts = tuple(distribution.gather(progress.parts[0])) if workers > 1 else progress.parts
        taken = snapshot.take(self.state, rank=rank.rank, workers=workers)
        written = None
        if self.store is not None:
            rank.writer.phase(Phase.KEEPING)
            written = self._write(rank, progress.model_copy(update={"parts": parts}), taken)
        # Nobody trains while rank 0 writes, so that its time is the same on all ranks.
        whole = rank.agreed(written is not None)
        self.nanoseconds += (ended := rank.now()) - begun
        self._since_ns = ended
        if written is not None:
            self._since_step = progress.step
            self._tell(rank, written, seconds=clock.seconds(ended - begun), last=last)
        return whole

    def _write(
        self, rank: "Session", progress: checkpoint.Progress, taken: snapshot.Snapshot
    ) -> checkpoint.Manifest | None:
        assert self.store is not None
        manifest = checkpoint.Manifest(
            identity=self.identity,
            attempt=rank.assignment.attempt,
            extent=self.extent,
            framework=self.framework,
            progress=progress,
            arrays=taken.arrays,
            write_seconds=self.write_seconds,
        )
        try:
            return self.store.write(manifest, taken.values())
        except OSError as error:
            sys.stderr.write(
                f"checkpoint of step {progress.step} was not kept ({self.store.folder}: {error.strerror or error}): "
                "training goes on, and it is tried again; give spec.checkpoint a volume that these pods can write, "
                f"with room for {checkpoint.KEPT + 1} of them\n"
            )
            return None

    def _tell(self, rank: "Session", written: checkpoint.Manifest, *, seconds: float, last: bool) -> None:
        record = records.Checkpoint(
            step=written.progress.step,
            seconds=seconds,
            size_bytes=written.size_bytes,
            interval_seconds=self.interval_seconds,
            last=last,
        )
        self.kept.append(record)
        rank.writer.send(record)


def _stopped(rank: int, *, step: int) -> RankError:
    """The end of a rank whose training is safe: what it did from now on would be lost."""
    if rank == 0:
        return RankError(
            ExitCode.TERMINATED, f"the pod was told to stop (SIGTERM), and has kept a checkpoint of step {step}"
        )
    return RankError(ExitCode.PEER_LOST, f"rank 0 was told to stop, and has kept a checkpoint of step {step}")
