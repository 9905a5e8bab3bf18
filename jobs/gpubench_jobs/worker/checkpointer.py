# SPDX-License-Identifier: Apache-2.0
"""How an attempt restores a checkpoint, and when it keeps one. `checkpoint` has the files.

Rank 0 looks at the volume, and its word is broadcast. Must not happen: ranks that begin from different steps, or with
another one's seeds; a checkpoint's time in a figure of training; a training that fails because its volume is full. What
a model keeps outside of variables is not in a checkpoint.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import keras
import numpy as np
import tensorflow as tf

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Checkpointing
from gpubench.stats import checkpoint_interval
from gpubench.values import FrozenModel
from gpubench_jobs import channel, clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import checkpoint
from gpubench_jobs.worker.checkpoint import Array

if TYPE_CHECKING:
    from gpubench_jobs.worker.epochs import EpochPlan
    from gpubench_jobs.worker.session import Session

_FRAMEWORK = f"TensorFlow {tf.__version__} and Keras {keras.__version__}"

#: Of training, until the first checkpoint of a training whose costs nobody knows.
_FIRST_SECONDS = 30.0
#: From one look to the next at most, unless a window is longer: a pod that is told to stop has some seconds.
_LOOK_SECONDS = 0.5
#: Of what one has cost, for a last one: the volume may be slower this time.
_CAUTION = 1.5


@dataclass(frozen=True)
class TrainingState:
    """The variables of a rank's training."""

    learned: Sequence[tf.Variable]  # weights and the optimizer's own: equal on all ranks after a step
    persistent: Sequence[tf.Variable]  # those that ranks begin with in common
    of_a_step: Callable[[], Sequence[tf.Variable]]  # all that a step has; traces it, like its first call

    def others(self) -> list[tf.Variable]:
        """Those that may differ between ranks, each once, in an order that follows from the program."""
        known = {variable.ref() for variable in self.learned}
        found = dict[object, tf.Variable]()
        # A traced graph has its variables in the order of a set, another one in each process: by it two layers of
        # dropout would change their seeds. The same program makes them in the same order, by which they are numbered.
        traced = sorted(self.of_a_step(), key=lambda variable: int(variable._unique_id.rpartition("_")[2]))
        for variable in (*self.persistent, *traced):
            if variable.ref() not in known and variable.dtype != tf.string:
                found.setdefault(variable.ref(), variable)
        return list(found.values())


def take_snapshot(
    state: TrainingState, *, rank: int, workers: int
) -> tuple[tuple[Array, ...], Callable[[], Iterator[memoryview]]]:
    """What there is to keep; on all ranks at once, between two steps: every variable that a step reads or writes.

    Trained weights and the optimizer's own are equal on all ranks, so rank 0's are kept. The others may be each rank's
    own (seeds of dropout, moving statistics): ranks compare digests, and only those that differ are collected. Returns
    the arrays of a manifest and, for rank 0 alone, what gives their values in that order.
    """
    others, own = state.others(), frozenset[int]()
    if workers > 1:  # the numbers of those that are not equal on all ranks
        of_all = horovod.gather([hashlib.sha256(_bytes_of(variable)).hexdigest() for variable in others])
        own = frozenset(number for number, digests in enumerate(zip(*of_all, strict=True)) if len(set(digests)) > 1)
    mine = b"".join(bytes(_bytes_of(others[number])) for number in sorted(own))
    of_ranks = horovod.gather_bytes(mine) if own else []
    common = (*state.learned, *(variable for number, variable in enumerate(others) if number not in own))

    def values() -> Iterator[memoryview]:
        assert rank == 0
        yield from map(_bytes_of, common)  # one by one: a copy of all weights would take their memory again
        yield from (memoryview(of_rank) for of_rank in of_ranks)

    arrays = (
        *(_array(variable) for variable in state.learned),
        *(_array(variable, own=number in own) for number, variable in enumerate(others)),
    )
    return arrays, values


def fits(state: TrainingState, arrays: Sequence[Array]) -> bool:
    """Whether a checkpoint is one of a model of this form; traces a step."""
    form = [(array.dtype, array.shape) for array in arrays]
    return form == [(one.dtype, one.shape) for one in map(_array, (*state.learned, *state.others()))]


def restore_variables(state: TrainingState, arrays: Sequence[Array], values: bytes, *, rank: int, workers: int) -> None:
    """On all ranks at once, before the next step; `values` are rank 0's, and empty on the others."""
    variables = (*state.learned, *state.others())
    common = [variable for variable, array in zip(variables, arrays, strict=True) if not array.own]
    own = [variable for variable, array in zip(variables, arrays, strict=True) if array.own]
    rest = memoryview(values)
    if rank == 0:
        rest = _assign(common, rest)
    if workers > 1:
        horovod.broadcast(common)
    if own:
        of_ranks = horovod.broadcast_bytes(bytes(rest))
        _assign(own, memoryview(of_ranks)[rank * (len(of_ranks) // workers) :])


def _array(variable: tf.Variable, *, own: bool = False) -> Array:
    return Array(dtype=variable.dtype.name, shape=tuple(variable.shape.as_list()), own=own)


def _bytes_of(variable: tf.Variable) -> memoryview:
    """As bytes: numpy's own buffers know no bfloat16."""
    return np.ascontiguousarray(variable.numpy()).reshape(-1).view(np.uint8).data


def _assign(variables: Sequence[tf.Variable], values: memoryview) -> memoryview:  # what is left of the values
    for variable in variables:
        dtype, count = np.dtype(variable.dtype.as_numpy_dtype), variable.shape.num_elements()
        size = dtype.itemsize * count
        variable.assign(np.frombuffer(values[:size], dtype=dtype).reshape(variable.shape.as_list()))
        values = values[size:]
    return values


class _Look(FrozenModel):
    keep: bool
    last: bool  # the pod is to stop
    windows: int  # to run until the next look, after the checkpoint


@dataclass
class Checkpointer:
    """The checkpoints of one rank's run; `store` and `requests` are rank 0's."""

    policy: Checkpointing
    nodes: int
    identity: checkpoint.Identity
    extent: checkpoint.Extent
    state: TrainingState
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
        """From one checkpoint to the next: the one that was given, or Daly's, from what this training's cost so far."""
        if self.policy.interval_seconds is not None:
            return self.policy.interval_seconds
        if self.write_seconds is None:
            return _FIRST_SECONDS
        between = checkpoint_interval.seconds_between_interruptions(
            nodes=self.nodes, per_node_hour=self.policy.interruptions_per_node_hour
        )
        return checkpoint_interval.optimum(write_seconds=self.write_seconds, between_seconds=between)

    def look(self, rank: "Session", *, windows: int, steps: int, progress: checkpoint.Progress) -> int:
        """Before windows, with this rank's progress: keep a checkpoint if one is due; how many to run next."""
        if self._since_ns is None:
            self._since_ns, self._since_step = rank.now(), progress.step
        look = rank.agreed(self._decide(rank, windows=windows, steps=steps, step=progress.step))
        if look.keep and self._keep(rank, progress, last=look.last) and look.last:
            kept = f"has kept a checkpoint of step {progress.step}"  # what a rank did from now on would be lost
            if rank.rank == 0:
                raise RankError(ExitCode.TERMINATED, f"the pod was told to stop (SIGTERM), and {kept}")
            raise RankError(ExitCode.PEER_LOST, f"rank 0 was told to stop, and {kept}")
        if self._asked:
            rank.writer.send(channel.Answered())
            self._asked = False
        return look.windows

    def _decide(self, rank: "Session", *, windows: int, steps: int, step: int) -> _Look:
        """On rank 0, for all; due before the interval is over, or when the launcher asks, if it fits into the time."""
        if rank.rank != 0 or not rank.windows:
            return _Look(keep=False, last=False, windows=windows)
        assert self._since_ns is not None
        now, before, last = rank.now(), rank.windows[-1], False
        if self.requests is not None and (request := self.requests.newest()) is not None:
            self._asked = True
            last = clock.seconds(request.deadline_ns - now) >= _CAUTION * (self.write_seconds or 0.0)
        window_seconds = clock.seconds(before.nanoseconds) / before.steps * steps
        left = self.interval_seconds - clock.seconds(now - self._since_ns)
        if keep := step > self._since_step and (last or left < window_seconds):
            left = self.interval_seconds
        until_look = int(min(left, _LOOK_SECONDS) / window_seconds)
        return _Look(keep=keep, last=last, windows=max(1, min(windows, until_look)))

    def _keep(self, rank: "Session", progress: checkpoint.Progress, *, last: bool) -> bool:
        """On all ranks at once: whether it is whole. What the volume refuses is told and tried again at its time."""
        begun = rank.now()
        rank.writer.phase(Phase.AGREEING)
        workers = self.identity.workers
        parts = tuple(horovod.gather(progress.parts[0])) if workers > 1 else progress.parts
        arrays, values = take_snapshot(self.state, rank=rank.rank, workers=workers)
        size_bytes = None
        if self.store is not None:
            rank.writer.phase(Phase.KEEPING)
            manifest = checkpoint.Manifest(
                identity=self.identity,
                attempt=rank.assignment.attempt,
                extent=self.extent,
                framework=_FRAMEWORK,
                progress=progress.model_copy(update={"parts": parts}),
                arrays=arrays,
                write_seconds=self.write_seconds,
            )
            try:
                size_bytes = self.store.write(manifest, values()).size_bytes
            except OSError as error:
                sys.stderr.write(
                    f"checkpoint of step {progress.step} was not kept ({self.store.folder}: {error.strerror or error}):"
                    " training goes on, and it is tried again; give spec.checkpoint a volume that these pods can write,"
                    f" with room for {checkpoint.KEPT + 1} of them\n"
                )
        # Nobody trains while rank 0 writes, so that its time is the same on all ranks.
        whole = rank.agreed(size_bytes is not None)
        self.nanoseconds += (ended := rank.now()) - begun
        self._since_ns = ended
        if size_bytes is not None:
            self._since_step = progress.step
            record = records.Checkpoint(
                step=progress.step,
                seconds=clock.seconds(ended - begun),
                size_bytes=size_bytes,
                interval_seconds=self.interval_seconds,
                last=last,
            )
            self.kept.append(record)
            rank.writer.send(record)
        return whole


@dataclass
class Restore:
    """What a rank begins from."""

    config: channel.WorkerConfig
    writer: channel.Writer
    identity: checkpoint.Identity
    store: checkpoint.Store | None  # rank 0's
    manifest: checkpoint.Manifest | None = None  # None: anew
    values: bytes = b""  # on rank 0
    seconds: float = 0.0  # that it took so far
    traced_seconds: float = 0.0  # of them

    @property
    def first_batch(self) -> int:
        """The number of steps whose batches are not needed: the last one's is taken once more, see `restore`."""
        return self.manifest.progress.step - 1 if self.manifest is not None else 0

    def suits(self, plan: "EpochPlan", state: TrainingState) -> bool:
        """Whether what was built is the checkpoint's, by rank 0's word; traces the step. If not, build anew."""
        if self.manifest is None:
            return True
        begun = clock.monotonic_ns()
        self.writer.phase(Phase.FIRST_STEP)
        wrong = _wrong(self.manifest, plan, state)
        if self.config.assignment.workers > 1:
            wrong = horovod.broadcast_value(wrong)
        self.traced_seconds = clock.seconds(clock.monotonic_ns() - begun)
        self.seconds += self.traced_seconds
        if self.store is not None:
            (name,) = self.store.good
            if wrong:
                self.store.set_aside(name, f"{wrong}: training begins anew")
            elif self.manifest.framework != _FRAMEWORK:
                sys.stderr.write(
                    f"the checkpoint {name} is used, though {self.manifest.framework} wrote it and this is "
                    f"{_FRAMEWORK}: the weights may not be those that either of them would end with\n"
                )
        if wrong:
            self.manifest, self.values = None, b""
        return not wrong

    def restore(self, rank: "Session", state: TrainingState) -> records.Resumed | None:
        """All variables as they were; rank 0 tells it, and once more what earlier attempts told of their epochs.

        The first step of a process (tracing, choice of kernels, XLA) is taken with the batch before the checkpoint's,
        and nothing stays of it: its time is one of restoring, as the interruption has cost it, and none of training.
        """
        if self.manifest is None:
            return None
        begun, manifest = rank.now(), self.manifest
        rank.first_step_seconds = self.traced_seconds + rank.call(rank.run, 1, phase=Phase.FIRST_STEP)
        self.writer.phase(Phase.SPREADING)
        workers = self.config.assignment.workers
        restore_variables(state, manifest.arrays, self.values, rank=rank.rank, workers=workers)
        self.values = b""  # of the size of all weights
        self.seconds += clock.seconds(rank.now() - begun)
        resumed = records.Resumed(
            attempt=manifest.attempt,
            step=manifest.progress.step,
            useful_seconds=clock.seconds(manifest.progress.useful_nanoseconds),
            restore_seconds=self.seconds,
        )
        if rank.rank == 0:
            for record in (resumed, *manifest.progress.epochs):
                self.writer.send(record)
        return resumed

    def checkpointer(self, plan: "EpochPlan", state: TrainingState) -> Checkpointer:
        assignment, store = self.config.assignment, self.store
        assert assignment.checkpoint is not None
        return Checkpointer(
            policy=assignment.checkpoint,
            nodes=assignment.nodes,
            identity=self.identity,
            extent=_extent(plan),
            state=state,
            store=replace(store, progress=lambda: self.writer.phase(Phase.KEEPING)) if store is not None else None,
            requests=channel.Requests(self.config.requests) if store is not None else None,
            begun=self.manifest,
        )


def find_checkpoint(config: channel.WorkerConfig, writer: channel.Writer) -> Restore:
    """What there is to begin from, the same on all ranks; rank 0 reads it, and all of it, to know that it is whole."""
    begun, assignment = clock.monotonic_ns(), config.assignment
    identity, store, found = checkpoint.identity(assignment), None, None
    writer.phase(Phase.SPREADING if config.rank else Phase.RESTORING)
    if config.rank == 0:
        assert config.checkpoints is not None
        store = checkpoint.Store(folder=Path(config.checkpoints), progress=lambda: writer.phase(Phase.RESTORING))
        found = store.newest(identity, attempt=assignment.attempt)
    text = found.manifest.to_text() if found is not None else ""
    if assignment.workers > 1:
        text = horovod.broadcast_value(text)
    return Restore(
        config=config,
        writer=writer,
        identity=identity,
        store=store,
        manifest=checkpoint.Manifest.from_text(text) if text else None,
        values=found.values if found is not None else b"",
        seconds=clock.seconds(clock.monotonic_ns() - begun),
    )


def _extent(plan: "EpochPlan") -> checkpoint.Extent:
    return checkpoint.Extent(epochs=plan.epochs, steps=plan.steps, samples=plan.samples)


def _wrong(manifest: checkpoint.Manifest, plan: "EpochPlan", state: TrainingState) -> str:
    then, now = manifest.extent, _extent(plan)
    if then != now:
        return (
            f"the data have {now.samples} samples in {now.steps} steps of an epoch now, for {now.epochs} epochs; the "
            f"checkpoint was of {then.samples} in {then.steps}, for {then.epochs}"
        )
    return "" if fits(state, manifest.arrays) else "its variables are not those of the model, which was changed since"
