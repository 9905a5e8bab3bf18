# SPDX-License-Identifier: Apache-2.0
"""How a training begins that keeps checkpoints: from the newest whole one of an earlier attempt, or anew.

Nobody tells an attempt that there was one before: rank 0 looks at the volume, and its word is broadcast. What it has
found decides from which step on the samples are read, so it is looked at before the model is built, and its values are
given back after. One of other data, or of other variables than the model's, is set aside, and training begins anew.

The first step of a process costs what no other does: tracing, optimization of the graph, choice of kernels, XLA. It is
taken with the batch before the checkpoint's step, and nothing stays of it: every variable is given its value after it.
So all of that is time of restoring, as it is lost by the interruption, and none of training.

Must not happen: ranks that begin from different steps.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import keras
import tensorflow as tf

from gpubench.measure import records
from gpubench.values import Value
from gpubench_jobs import channel, checkpoint, clock, distribution, epochs, keeping, snapshot
from gpubench_jobs.channel import Phase
from gpubench_jobs.session import Session

_FRAMEWORK = f"TensorFlow {tf.__version__} and Keras {keras.__version__}"


class _Found(Value):
    """What rank 0 has found."""

    manifest: checkpoint.Manifest | None


@dataclass
class Beginning:
    """What a rank begins from."""

    orders: channel.Orders
    writer: channel.Writer
    identity: checkpoint.Identity
    store: checkpoint.Store | None  # rank 0's
    manifest: checkpoint.Manifest | None = None  # None: anew
    values: bytes = b""  # on rank 0
    seconds: float = 0.0  # that it took so far
    traced_seconds: float = 0.0  # of them

    @property
    def first_batch(self) -> int:
        """The number of steps whose batches are not needed: the last one's is taken once more, see `resume`."""
        return self.manifest.progress.step - 1 if self.manifest is not None else 0

    def suits(self, course: epochs.Course, state: snapshot.State) -> bool:
        """Whether what was built is the checkpoint's, by rank 0's word. If not, it must be built anew.

        The step is traced for it, which the first epoch of a training that begins anew has in its time.
        """
        if self.manifest is None:
            return True
        begun = clock.monotonic_ns()
        self.writer.phase(Phase.FIRST_STEP)
        wrong = _wrong(self.manifest, course, state)
        if self.orders.assignment.workers > 1:
            wrong = distribution.from_first(wrong)
        self.traced_seconds = clock.seconds(clock.monotonic_ns() - begun)
        self.seconds += self.traced_seconds
        if self.store is not None:
            (name,) = self.store.good
            if wrong:
                self.store.set_aside(name, f"{wrong}: training begins anew")
            elif self.manifest.framework != _FRAMEWORK:
                sys.stderr.write(
                    f"the checkpoint {name.file()} is used, though {self.manifest.framework} wrote it and this is "
                    f"{_FRAMEWORK}: the weights may not be those that either of them would end with\n"
                )
        if wrong:
            self.manifest, self.values = None, b""
        return not wrong

    def resume(self, rank: Session, state: snapshot.State) -> records.Resumed | None:
        """All variables as they were; rank 0 tells it, and once more what earlier attempts told of their epochs."""
        if self.manifest is None:
            return None
        begun, manifest = rank.now(), self.manifest
        workers = self.orders.assignment.workers
        self.writer.phase(Phase.FIRST_STEP)
        rank.run(1).numpy()
        rank.first_step_seconds = self.traced_seconds + clock.seconds(rank.now() - begun)
        self.writer.phase(Phase.SPREADING)
        snapshot.give_back(state, manifest.arrays, self.values, rank=rank.rank, workers=workers)
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

    def keeper(self, course: epochs.Course, state: snapshot.State) -> keeping.Keeper:
        """Who keeps the checkpoints of this attempt."""
        assignment, store = self.orders.assignment, self.store
        assert assignment.checkpoint is not None
        return keeping.Keeper(
            policy=assignment.checkpoint,
            nodes=assignment.nodes,
            identity=self.identity,
            extent=_extent(course),
            framework=_FRAMEWORK,
            state=state,
            store=replace(store, progress=lambda: self.writer.phase(Phase.KEEPING)) if store is not None else None,
            requests=channel.Requests(self.orders.requests) if store is not None else None,
            begun=self.manifest,
        )


def look(orders: channel.Orders, writer: channel.Writer) -> Beginning:
    """What there is to begin from, the same on all ranks; rank 0 reads it, and all of it, to know that it is whole."""
    begun, assignment = clock.monotonic_ns(), orders.assignment
    identity, store, found = checkpoint.identity(assignment), None, None
    writer.phase(Phase.SPREADING if orders.rank else Phase.RESTORING)
    if orders.rank == 0:
        assert orders.checkpoints is not None
        store = checkpoint.Store(folder=Path(orders.checkpoints), progress=lambda: writer.phase(Phase.RESTORING))
        found = store.newest(identity, attempt=assignment.attempt)
    told = _Found(manifest=found.manifest if found is not None else None)
    if assignment.workers > 1:
        told = distribution.from_first(told)
    return Beginning(
        orders=orders,
        writer=writer,
        identity=identity,
        store=store,
        manifest=told.manifest,
        values=found.values if found is not None else b"",
        seconds=clock.seconds(clock.monotonic_ns() - begun),
    )


def _extent(course: epochs.Course) -> checkpoint.Extent:
    return checkpoint.Extent(epochs=course.epochs, steps=course.steps, samples=course.samples)


def _wrong(manifest: checkpoint.Manifest, course: epochs.Course, state: snapshot.State) -> str:
    """Why nobody can go on from it; nothing where one can."""
    then, now = manifest.extent, _extent(course)
    if then != now:
        return (
            f"the data have {now.samples} samples in {now.steps} steps of an epoch now, for {now.epochs} epochs; the "
            f"checkpoint was of {then.samples} in {then.steps}, for {then.epochs}"
        )
    if not snapshot.fits(state, manifest.arrays):
        return "its variables are not those of the model, which was changed since"
    return ""
