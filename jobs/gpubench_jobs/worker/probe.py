# SPDX-License-Identifier: Apache-2.0
"""How fast a rank computes by itself.

A gang is synchronous: the window of every rank lasts as long as the slowest rank needs, and says nothing of who that
was. So forward and backward pass are timed without the all-reduce, on all ranks at once, as they share the machine in
the run as well; a few rounds before the measured windows, and as many after them (see `session`).

Must not happen: a weight, a moving average, a seed or a variable of a user's own loss that is another one after a look
than before. Only the data go on, by the same number of batches on every rank.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from gpubench_jobs import clock
from gpubench_jobs.worker import train


@dataclass(frozen=True)
class Computing:
    """The part of a step that a rank does by itself."""

    run: train.Loop
    weights: Sequence[tf.Variable]  # of all variables those that nothing but the optimizer changes

    def changes(self) -> list[tf.Variable]:
        """What a look may leave behind: moving averages, seeds of dropout, whatever a loss of the user's own keeps.

        Every variable that the traced step has, but the weights, of which a copy would take their memory again.
        """
        weights = {variable.ref() for variable in self.weights}
        return [variable for variable in self.run.variables() if variable.ref() not in weights]


def trace(computing: Computing) -> None:
    """One step that nobody times: tracing, and the libraries' choice of kernels."""
    with _unchanged(computing.changes()):
        computing.run(1).numpy()


def seconds_of(computing: Computing, *, steps: int, now: clock.Clock) -> float:
    """One round."""
    with _unchanged(computing.changes()):
        begun = now()
        computing.run(steps).numpy()  # the device has computed all of it when its loss arrives
        return clock.seconds(now() - begun)


@contextlib.contextmanager
def _unchanged(variables: Sequence[tf.Variable]) -> Iterator[None]:
    kept = [variable.read_value() for variable in variables]
    yield
    for variable, value in zip(variables, kept, strict=True):
        variable.assign(value)
