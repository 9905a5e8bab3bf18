# SPDX-License-Identifier: Apache-2.0
"""How a training begins that keeps checkpoints: from the newest whole one of an earlier attempt, or anew.

Nobody tells an attempt that there was one before: rank 0 looks at the volume, and its word is broadcast. What it has
found decides from which step on the samples are read, so it is looked at before the model is built, and its values are
given back after. A checkpoint whose variables are not those of the model is left where it is, and training begins anew.

Must not happen: ranks that begin from different steps.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from gpubench.measure import records
from gpubench.values import Value
from gpubench_jobs import channel, checkpoint, clock, distribution, keeping, snapshot
from gpubench_jobs.channel import Phase
from gpubench_jobs.session import Session


class _Found(Value):
    """What rank 0 has found."""

    manifest: checkpoint.Manifest | None


@dataclass
class Beginning:
    """What a rank begins from."""

    orders: channel.Orders
    writer: channel.Writer
    manifest: checkpoint.Manifest | None = None  # None: anew
    values: bytes = b""  # on rank 0
    seconds: float = 0.0  # that it took so far
    traced_seconds: float = 0.0  # of them

    @property
    def step(self) -> int:
        """Steps that are behind it."""
        return self.manifest.progress.step if self.manifest is not None else 0

    def suits(self, state: snapshot.State) -> bool:
        """Whether the model that was built is the checkpoint's, by rank 0's word. If not, the model must be built anew.

        The step is traced for it, which the first epoch of a training that begins anew has in its time.
        """
        if self.manifest is None:
            return True
        begun = clock.monotonic_ns()
        self.writer.phase(Phase.FIRST_STEP)
        same = snapshot.fits(state, self.manifest.arrays)
        if self.orders.assignment.workers > 1:
            same = distribution.from_first(same)
        self.traced_seconds = clock.seconds(clock.monotonic_ns() - begun)
        self.seconds += self.traced_seconds
        if not same:
            if self.orders.rank == 0:
                sys.stderr.write(
                    f"the checkpoint of step {self.step} is not used: its variables are not those of the model, which "
                    "was changed since: training begins anew\n"
                )
            self.manifest, self.values = None, b""
        return same

    def resume(self, rank: Session, state: snapshot.State) -> records.Resumed | None:
        """All variables as they were; rank 0 tells it, and once more what earlier attempts told of their epochs."""
        if self.manifest is None:
            return None
        begun, manifest = clock.monotonic_ns(), self.manifest
        workers = self.orders.assignment.workers
        self.writer.phase(Phase.SPREADING)
        snapshot.give_back(state, manifest.arrays, self.values, rank=rank.rank, workers=workers)
        self.values = b""  # of the size of all weights
        self.seconds += clock.seconds(clock.monotonic_ns() - begun)
        rank.first_step_seconds = self.traced_seconds
        resumed = records.Resumed(
            attempt=manifest.attempt,
            step=self.step,
            useful_seconds=clock.seconds(manifest.progress.useful_nanoseconds),
            restore_seconds=self.seconds,
        )
        if rank.rank == 0:
            for record in (resumed, *manifest.progress.epochs):
                self.writer.send(record)
        return resumed

    def keeper(self, state: snapshot.State) -> keeping.Keeper:
        """Who keeps the checkpoints of this attempt."""
        assignment, first = self.orders.assignment, self.orders.rank == 0
        assert assignment.checkpoint is not None
        return keeping.Keeper(
            policy=assignment.checkpoint,
            nodes=assignment.nodes,
            identity=checkpoint.identity(assignment),
            state=state,
            store=_store(self.orders, self.writer, Phase.KEEPING) if first else None,
            requests=channel.Requests(self.orders.requests) if first else None,
            begun=self.manifest,
        )


def look(orders: channel.Orders, writer: channel.Writer) -> Beginning:
    """What there is to begin from, the same on all ranks; rank 0 reads it, and all of it, to know that it is whole."""
    begun, assignment = clock.monotonic_ns(), orders.assignment
    found = None
    if orders.rank == 0:
        writer.phase(Phase.RESTORING)
        found = _store(orders, writer, Phase.RESTORING).newest(checkpoint.identity(assignment))
    else:
        writer.phase(Phase.SPREADING)
    told = _Found(manifest=found.manifest if found is not None else None)
    if assignment.workers > 1:
        told = distribution.from_first(told)
    return Beginning(
        orders=orders,
        writer=writer,
        manifest=told.manifest,
        values=found.values if found is not None else b"",
        seconds=clock.seconds(clock.monotonic_ns() - begun),
    )


def _store(orders: channel.Orders, writer: channel.Writer, phase: Phase) -> checkpoint.Store:
    assert orders.checkpoints is not None
    return checkpoint.Store(folder=Path(orders.checkpoints), progress=lambda: writer.phase(phase))
