# SPDX-License-Identifier: Apache-2.0
"""One rank's run in mode Training: whole epochs, each with an evaluation on held-out samples.

An epoch is cut into windows, so that the live series, the watchdog and the check for NaN see where it is. Nothing runs
before the first epoch: the tracing lies in it, as in the publications of 2017-18. Must not happen: a sample counted
twice or not at all; a small batch's mean that counts as much as a larger one's; a rank that is silent for a whole set.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench_jobs import clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.data.pipeline import OnDevice, as_it_is
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import LossNotFinite, RankError
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import aggregate, checkpoint, pacing, session
from gpubench_jobs.worker.checkpointer import Checkpointer
from gpubench_jobs.worker.session import Session

#: Right answers, losses times samples, samples, batches.
_SUMS = 4


class Evaluation:
    """The held-out samples of one rank, and how to go through them; built once, run after each epoch.

    Moving statistics of batch normalisation differ between ranks, which have seen their own samples. They are averaged
    first, as TensorFlow's strategies do (`tf.VariableAggregation.MEAN`): all ranks evaluate one model. `batches` are
    this rank's share, once.
    """

    def __init__(
        self, recipe: Recipe, batches: tf.data.Dataset, *, workers: int, on_device: OnDevice = as_it_is
    ) -> None:
        self._recipe, self._batches, self._workers = recipe, batches, workers
        moving = [weight.value for weight in recipe.network.non_trainable_weights if weight.value.dtype.is_floating]

        def of_batch(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
            outputs = recipe.network(on_device(inputs), training=False)
            samples = tf.cast(tf.shape(labels)[0], tf.float64)
            right = tf.reduce_sum(recipe.correct(labels, outputs)) if recipe.correct else tf.zeros(())
            loss = tf.cast(recipe.loss(labels, outputs), tf.float64) * samples
            return tf.stack((tf.cast(right, tf.float64), loss, samples, tf.ones((), tf.float64)))

        @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def some(iterator: Any, count: tf.Tensor) -> tf.Tensor:
            sums = tf.zeros(_SUMS, tf.float64)
            for _ in tf.range(count):
                batch = iterator.get_next_as_optional()
                if not batch.has_value():
                    break
                sums += of_batch(*batch.get_value())
            return sums

        @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
        def even_out() -> None:
            for variable, mean in zip(moving, horovod.average([tf.identity(one) for one in moving]), strict=True):
                variable.assign(mean)

        self._some, self._even_out = some, even_out if moving else lambda: None

    def run(self, *, batches_at_once: int, progress: Callable[[], None]) -> aggregate.HeldOut:
        """One pass; `progress` is called whenever so many batches are done.

        A loss that is no number may stand in no record; it ends the run where nothing else says how good a model is.
        With few steps behind it batch normalisation has statistics that are far off, and the loss may overflow.
        """
        if self._workers > 1:
            self._even_out()
        iterator, sums = iter(self._batches), tf.zeros(_SUMS, tf.float64)
        while True:
            some = self._some(iterator, tf.constant(batches_at_once))
            sums += some
            if int(some[-1]) < batches_at_once:
                break
            progress()
        right, loss, samples, _ = (horovod.total(sums) if self._workers > 1 else sums).numpy().tolist()
        if not samples:  # sets of the catalogue's workloads have been counted before
            raise RankError(
                ExitCode.CUSTOM_MODEL_FAILED,
                "build() of custom.file gives held_out without a sample: give it some, or leave held_out out",
            )
        loss, accuracy = loss / samples, right / samples if self._recipe.correct else None
        if not math.isfinite(loss) and accuracy is None:
            raise LossNotFinite(f"the loss on held-out samples was {loss}")
        return aggregate.HeldOut(loss=loss if math.isfinite(loss) else None, accuracy=accuracy, samples=round(samples))


@dataclass(frozen=True)
class EpochPlan:
    """What is to be gone through."""

    epochs: int
    steps: int  # of an epoch, the same on every rank
    samples: int  # of an epoch, of all ranks
    evaluation: Evaluation | None  # None where there are no held-out samples


@dataclass
class _Epoch:
    index: int
    pace: pacing.Trial
    now: clock.Clock  # stands still while checkpoints are kept, which are no training
    steps: int = 0  # behind it
    before: checkpoint.Part = field(default_factory=checkpoint.Part)  # what an earlier attempt has done of it
    loss: float = 0.0  # sum over its samples
    samples: int = 0  # that its steps saw

    def __post_init__(self) -> None:
        self.begun, self.loss, self.samples = self.now(), self.before.loss, self.before.samples

    def part(self, now: int) -> checkpoint.Part:
        trained = self.before.nanoseconds + now - self.begun
        return checkpoint.Part(nanoseconds=trained, loss=self.loss, samples=self.samples)


def run_epochs(rank: Session, plan: EpochPlan, checkpointer: Checkpointer | None = None) -> tuple[records.Epoch, ...]:
    """All epochs, the same values on every rank; `rank.run` must return the sum of its samples' losses."""
    with rank.sampled():
        done = _run(rank, plan, checkpointer)
    # Not before the first epoch, which has the tracing in it; there it would not be the first any more.
    rank.first_step_seconds = max(rank.first_step_seconds, clock.seconds(rank.windows[0].nanoseconds))
    trained_seconds = sum(clock.seconds(epoch.nanoseconds) for epoch in done)
    step_seconds = clock.seconds(done[-1].nanoseconds) / plan.steps
    looks = rank.plan_probe(step_seconds=step_seconds, measured_seconds=trained_seconds)
    for _ in range(2):
        rank.probe(looks)
    return done


def _run(rank: Session, plan: EpochPlan, checkpointer: Checkpointer | None) -> tuple[records.Epoch, ...]:
    def now() -> int:
        return rank.now() - (checkpointer.nanoseconds if checkpointer else 0)

    done = list[records.Epoch]()
    epoch = _Epoch(0, pacing.Trial(steps=1), now)
    if checkpointer is not None and checkpointer.begun is not None:
        progress = checkpointer.begun.progress
        done += progress.epochs
        steps = progress.step - len(done) * plan.steps
        assert 0 <= steps <= plan.steps, "a checkpoint of another plan is not begun from"
        epoch = _Epoch(len(done), epoch.pace, now, steps, progress.parts[rank.rank])
    while (index := epoch.index) < plan.epochs:
        _train(rank, plan, epoch, checkpointer, done)
        pace, trained = epoch.pace, now()
        own, held_out = epoch.part(trained), None
        if plan.evaluation is not None:
            rank.writer.phase(Phase.EVALUATING)
            held_out = plan.evaluation.run(
                batches_at_once=pace.steps, progress=lambda: rank.writer.phase(Phase.EVALUATING)
            )
        own = own.model_copy(update={"evaluation_nanoseconds": now() - trained})
        rank.writer.phase(Phase.AGREEING)
        parts = [own] if rank.assignment.workers == 1 else horovod.gather(own)
        done.append(aggregate.epoch(parts, index=index, steps=plan.steps, held_out=held_out))
        rank.loss = own.loss / own.samples
        if rank.rank == 0:
            rank.writer.send(done[-1])
        if pace.settled and index:  # the first epoch has the tracing in it
            step_seconds = clock.seconds(done[-1].nanoseconds) / plan.steps
            pace = pacing.Trial(steps=pacing.steps_for(rank.assignment.window_seconds, step_seconds), settled=True)
        epoch = _Epoch(index + 1, pace, now)
    return tuple(done)


def _train(
    rank: Session, plan: EpochPlan, epoch: _Epoch, checkpointer: Checkpointer | None, done: list[records.Epoch]
) -> None:
    """The steps of an epoch that are left, in the same windows on every rank; the pace is found by its end."""
    place = f" in epoch {epoch.index + 1} of {plan.epochs}"
    while left := plan.steps - epoch.steps:
        first, pace = not rank.windows, epoch.pace
        steps = min(left, pace.steps)
        windows = left // pace.steps if pace.settled and left >= pace.steps else 1
        if checkpointer is not None:
            step, part = epoch.index * plan.steps + epoch.steps, epoch.part(epoch.now())
            progress = checkpoint.Progress(step=step, epochs=tuple(done), parts=(part,))
            windows = checkpointer.look(rank, windows=windows, steps=steps, progress=progress)
        rank.writer.phase(Phase.FIRST_STEP if first else Phase.STEPPING)
        timed = rank.run_windows(windows, steps=steps, place=place)
        epoch.steps += windows * steps
        epoch.loss += sum(window.loss for window in timed)
        epoch.samples += sum(window.samples for window in timed)
        session.require_batches(
            rank.assignment, steps=epoch.steps, samples=epoch.samples, last_may_be_smaller=epoch.steps == plan.steps
        )
        if not pace.settled and not first:  # the first step says how long tracing takes
            epoch.pace = rank.agreed(
                pacing.next_trial(
                    pacing.Trial(steps=steps),
                    seconds=clock.seconds(timed[-1].nanoseconds),
                    window_seconds=rank.assignment.window_seconds,
                )
            )
