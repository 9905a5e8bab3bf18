# SPDX-License-Identifier: Apache-2.0
"""The training step, and the only loop in gpubench that is timed.

A window is one call of a compiled function that runs many steps; it ends when the loss of its last step has arrived in
host memory. The function returns only after its last variable update has been issued, and the copy of the loss waits
for all that was issued before it: the `.numpy()` below is the device synchronisation.

Must not happen inside a window: a Python call per step, a copy of a sample, a constant that the optimizer of graphs
could fold a collective into (all tensors come in as arguments), XLA (which cannot compile Horovod's operations).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench_jobs import clock, pacing
from gpubench_jobs.data.feed import Feed
from gpubench_jobs.failures import RankError
from gpubench_jobs.models.recipe import Recipe

#: Makes one gradient out of those of all ranks; the identity for a single worker.
Reduce = Callable[[Sequence[tf.Tensor]], Sequence[tf.Tensor]]
#: Runs so many steps and returns the loss of the last.
Run = Callable[[int], tf.Tensor]


@dataclass(frozen=True)
class Timed:
    """One window of this rank."""

    nanoseconds: int
    loss: float


def alone(gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
    """The reduction of a gang of one."""
    return gradients


def compile_run(recipe: Recipe, feed: Feed, *, reduce: Reduce, loss_scale: float = 1.0) -> Run:
    """The training step in a loop, as one TensorFlow function of the number of steps."""
    variables = recipe.trainable
    iterations = recipe.optimizer.iterations.value

    def step(state: tuple[Any, ...]) -> tf.Tensor:
        inputs, labels = feed.draw(state, iterations)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = recipe.loss(labels, recipe.network(inputs, training=True))
            scaled = loss * loss_scale
        gradients = tape.gradient(scaled, variables)
        if loss_scale != 1.0:
            gradients = [gradient / loss_scale for gradient in gradients]
        recipe.optimizer.apply(reduce(gradients), recipe.network.trainable_variables)
        return loss

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def steps(state: tuple[Any, ...], count: tf.Tensor) -> tf.Tensor:
        loss = tf.zeros((), tf.float32)
        for _ in tf.range(count):
            loss = step(state)
        return loss

    # The loop must be a loop of the graph: its length changes between calibration, warm-up and measurement.
    return lambda count: steps(feed.state, tf.constant(count))


def time_windows(
    run: Run, plan: pacing.Plan, *, now: clock.Clock, finished: Callable[[pacing.Plan, int, Timed], None]
) -> list[Timed]:
    """Run the windows of a plan back to back: each begins where the one before ended, so nothing goes unmeasured."""
    windows = []
    begun = now()
    for index in range(plan.first, plan.first + plan.windows):
        loss = float(run(plan.steps).numpy())
        ended = now()
        timed = Timed(nanoseconds=ended - begun, loss=loss)
        begun = ended
        windows.append(timed)
        finished(plan, index, timed)
        if not math.isfinite(loss):
            raise RankError(
                ExitCode.LOSS_NOT_FINITE,
                f"the loss was {loss} after window {index}: choose a precision with a larger range",
            )
    return windows
