# SPDX-License-Identifier: Apache-2.0
"""The training step, and the only loop in gpubench that is timed.

A window is one call of a compiled function that runs many steps; it ends when the loss of its last step has arrived in
host memory. The copy of the loss waits for all that was issued before it: the `.numpy()` below is the synchronisation.
Must not happen inside a window: a Python call per step, a copy of a sample that stays on the device, a constant that
the optimizer of graphs could fold a collective into (all tensors are arguments), XLA around the all-reduce.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from gpubench_jobs import clock
from gpubench_jobs.data.pipeline import Feed
from gpubench_jobs.engines import horovod
from gpubench_jobs.models.recipe import Recipe

#: Makes one gradient out of those of all ranks; the identity for a single worker.
Reduce = Callable[[Sequence[horovod.Gradient]], Sequence[horovod.Gradient]]
#: One step on the state that its feed keeps; its loss, and how many samples it saw.
Step = Callable[[tuple[Any, ...]], tuple[tf.Tensor, int | tf.Tensor]]


@dataclass(frozen=True)
class Timed:
    """One window of this rank."""

    nanoseconds: int
    loss: float
    samples: int


def alone(gradients: Sequence[horovod.Gradient]) -> Sequence[horovod.Gradient]:
    return gradients


def compile_run(
    recipe: Recipe, feed: Feed, *, reduce: Reduce, loss_scale: float = 1.0, xla: bool = False, sum_losses: bool = False
) -> "Loop":
    """The training step in a loop, as one TensorFlow function of the number of steps."""
    # Where gradients are accumulated, `iterations` is the number of updates, and no variable.
    iterations = getattr(recipe.optimizer, "inner_optimizer", recipe.optimizer)._iterations.value
    # In line, never as a function that is called (but for XLA, which needs one): a call waits for all that touches any
    # of its variables, and the steps of a turn would not overlap.
    gradients_of = _gradients(recipe, loss_scale=loss_scale)
    if xla:
        gradients_of = tf.function(gradients_of, jit_compile=True)

    def compute(state: tuple[Any, ...]) -> tuple[tf.Tensor, int | tf.Tensor]:
        inputs, labels = feed.draw(state, iterations)
        loss, gradients = gradients_of(inputs, labels)
        with tf.control_dependencies([horovod.content(gradient) for gradient in gradients]):  # or they were left out
            return tf.identity(loss), _size(labels)

    def step(state: tuple[Any, ...]) -> tuple[tf.Tensor, int | tf.Tensor]:
        inputs, labels = feed.draw(state, iterations)
        loss, gradients = gradients_of(inputs, labels)
        reduced = reduce([horovod.once(gradient) for gradient in gradients])
        if loss_scale != 1.0:  # after the reduction: that is where float16 may be what travels
            reduced = [horovod.divided(gradient, loss_scale) for gradient in reduced]
        recipe.optimizer.apply(reduced, recipe.network.trainable_variables)
        return loss, _size(labels)

    return Loop(step, feed.state, sum_losses=sum_losses, computing=compute)


class Loop:
    """Any step in a loop of the graph, whose length may change: one in each turn, or several written out.

    The next turn begins when all of the last one has ended, while steps that are written out overlap: the optimizer
    still updates the last layers when the next forward pass begins. With two ranks on a core each that was 4 % of a
    step of 10 milliseconds, and some 3 % of one of 44. Tracing takes as many times longer as there are steps in a turn.
    """

    def __init__(
        self, step: Step, state: tuple[Any, ...], *, sum_losses: bool = False, computing: Step | None = None
    ) -> None:
        self.step, self.state, self._steps_per_turn = step, state, 1
        self.samples: int | tf.Tensor = 0  # that the steps of the last call saw, as they were counted
        # Windows follow the clock: in float64 a sum does not depend on where they end.
        self._loss_type = tf.float64 if sum_losses else tf.float32
        #: The part of a step that a rank does by itself: it waits for nobody and changes no weight. Traced when called.
        self.computing = Loop(computing, state) if computing else None

        @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def turns(
            state: tuple[Any, ...], count: tf.Tensor, loss: tf.Tensor, samples: tf.Tensor, steps_per_turn: int
        ) -> tuple[tf.Tensor, tf.Tensor]:
            for _ in tf.range(count):
                for _ in range(steps_per_turn):
                    of_step, seen = step(state)
                    if sum_losses:
                        loss += tf.cast(of_step, loss.dtype) * tf.cast(seen, loss.dtype)
                    else:
                        loss = of_step
                    samples += seen
            return loss, samples

        self._turns = turns

    def __call__(self, steps: int) -> tf.Tensor:
        """So many steps; the loss of the last, or the sum over all samples."""
        count, rest = divmod(steps, self._steps_per_turn)
        tally = self._nothing()
        if count:
            tally = self._turns(self.state, tf.constant(count), *tally, self._steps_per_turn)
        if rest:
            tally = self._turns(self.state, tf.constant(rest), *tally, 1)
        loss, self.samples = tally
        return loss

    def _nothing(self) -> tuple[tf.Tensor, tf.Tensor]:
        return tf.zeros((), self._loss_type), tf.zeros((), tf.int32)

    def traced(self) -> Any:
        """The function of TensorFlow that a call runs."""
        return self._turns.get_concrete_function(self.state, tf.constant(1), *self._nothing(), self._steps_per_turn)

    def variables(self) -> list[tf.Variable]:
        """All that a step reads or writes, however deep in the functions that it calls; traces it like a call."""
        return list(self.traced().graph.variables)

    def unroll(self, steps_per_turn: int) -> None:
        """From the next call on, so many steps in a turn: slower to trace, which is done anew, and quicker to run."""
        self._steps_per_turn = steps_per_turn


def _gradients(recipe: Recipe, *, loss_scale: float) -> Callable[[tf.Tensor, tf.Tensor], Any]:
    """From a batch to its loss and the gradients of the loss times its scale.

    What cannot be trained is refused while it is traced: later it would be an error without a name, or none at all.
    """
    variables = recipe.trainable
    rescaled = isinstance(recipe.optimizer, keras.optimizers.LossScaleOptimizer)

    def gradients_of(inputs: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[horovod.Gradient]]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = recipe.loss(labels, recipe.network(inputs, training=True))
            if recipe.network.losses:
                raise ValueError(
                    "the network has losses of its own (a regularizer, add_loss), which nobody adds: take them out "
                    "of its layers and write them into the recipe's loss"
                )
            scaled = recipe.optimizer.scale_loss(loss) if rescaled else loss * loss_scale
        gradients = tape.gradient(scaled, variables)
        for variable, gradient in zip(recipe.network.trainable_variables, gradients, strict=True):
            if gradient is None:
                raise ValueError(
                    f"the loss does not depend on the variable {variable.path}: use it, or make its layer "
                    "trainable=False"
                )
        return loss, gradients

    return gradients_of


def _size(labels: Any) -> int | tf.Tensor:  # of a batch: a number where it is known before the step runs
    labels = tf.nest.flatten(labels)[0]
    return labels.shape[0] or tf.shape(labels)[0]


def time_windows(run: Loop, windows: int, *, steps: int, now: clock.Clock) -> Iterator[Timed]:
    """Run windows back to back: each begins where the one before ended, so nothing goes unmeasured."""
    begun = now()
    for _ in range(windows):
        loss = float(run(steps).numpy())
        ended = now()
        timed = Timed(nanoseconds=ended - begun, loss=loss, samples=int(run.samples))
        begun = ended
        yield timed


@dataclass(frozen=True)
class Computing:
    """Forward and backward pass without the all-reduce, before and after the windows: these are of the slowest rank."""

    run: Loop
    weights: Sequence[tf.Variable]  # of all variables those that nothing but the optimizer changes

    def seconds(self, steps: int, *, now: clock.Clock) -> float:
        """Of one round, which changes nothing: moving averages, seeds, whatever a user's own loss keeps are put back.

        That is every variable of the traced step but the weights, of which a copy would take their memory again.
        """
        weights = {variable.ref() for variable in self.weights}
        changed = [variable for variable in self.run.variables() if variable.ref() not in weights]
        kept = [variable.read_value() for variable in changed]
        begun = now()
        self.run(steps).numpy()  # the device has computed all of it when its loss arrives
        seconds = clock.seconds(now() - begun)
        for variable, value in zip(changed, kept, strict=True):
            variable.assign(value)
        return seconds
