# SPDX-License-Identifier: Apache-2.0
"""One rank's session without TensorFlow's loop: the loop, and with it the clock, is replaced."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import cast

from gangs import make_assignment
from gpubench_jobs import channel
from gpubench_jobs.worker import sampling, session, train


class Scalar:
    """A loss, or a sum of losses, in place of TensorFlow's."""

    def __init__(self, value: float) -> None:
        self._value = value

    def numpy(self) -> float:
        return self._value


BATCH = make_assignment().batch_per_worker


class Loop:
    """A loop with a clock of its own: `seconds_of(call)` is what a step of that call takes; calls count from 0."""

    def __init__(self, seconds_of: Callable[[int], float], *, loss_of: Callable[[int], float] = lambda _: 0.5) -> None:
        self._seconds_of, self._loss_of = seconds_of, loss_of
        self.now = self.calls = self.steps = self.samples = 0
        self.turns: list[int] = []

    def __call__(self, steps: int) -> Scalar:
        self.now += round(steps * self._seconds_of(self.calls) * 1e9)
        self.calls += 1
        self.steps += steps
        self.samples = steps * BATCH
        return Scalar(self._loss_of(steps))

    def unroll(self, steps_per_turn: int) -> None:
        self.turns.append(steps_per_turn)


@contextlib.contextmanager
def drained() -> Iterator[int]:
    """Where a rank's records go, with somebody who reads them."""
    source, writer = os.pipe()
    reader = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(source, 1 << 16), b"")])
    reader.start()
    yield writer
    os.close(writer)
    reader.join()
    os.close(source)


def make_session(loop: Loop, *, sink: int, **changes: object) -> session.Session:
    """A gang of one."""
    assignment = make_assignment(**({"window_seconds": 0.1} | changes))
    return session.Session(
        assignment=assignment,
        rank=0,
        run=cast(train.Loop, loop),
        writer=channel.Writer(sink),
        live=sampling.LiveMetrics(assignment, rank=0),
        now=lambda: loop.now,
    )
