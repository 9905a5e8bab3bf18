# SPDX-License-Identifier: Apache-2.0
"""How good the gang's model is on samples that it was not trained on.

Each rank takes its share of them, and one all-reduce adds up right answers, losses and samples. Every rank must do so
with the same model: trained weights are equal, but the moving statistics of batch normalisation are not, because each
rank has seen its own samples. They are averaged first, on all ranks, as TensorFlow's own strategies do
(`tf.VariableAggregation.MEAN`); no training step reads them. Rank 0's alone would say how one part of the samples was.

Must not happen: a sample counted twice or not at all; a batch's mean loss that counts as much as a larger batch's; a
rank that says nothing for as long as a whole set takes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench_jobs import distribution
from gpubench_jobs.agreement import HeldOut
from gpubench_jobs.data.feed import OnDevice, as_it_is
from gpubench_jobs.failures import LossNotFinite, RankError
from gpubench_jobs.models.recipe import Recipe

#: Right answers, losses times samples, samples, batches.
_SUMS = 4


@dataclass
class Evaluation:
    """The held-out samples of one rank, and how to go through them; built once, run after each epoch."""

    recipe: Recipe
    batches: tf.data.Dataset  # this rank's share, once
    workers: int
    on_device: OnDevice = as_it_is
    _some: Callable[[Any, tf.Tensor], tf.Tensor] = field(init=False)
    _even_out: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self._some = _compiled(self.recipe, self.on_device)
        self._even_out = _averaging(self.recipe)

    def run(self, *, batches_at_once: int, progress: Callable[[], None]) -> HeldOut:
        """One pass; `progress` is called whenever so many batches are done."""
        if self.workers > 1:
            self._even_out()
        iterator, sums = iter(self.batches), tf.zeros(_SUMS, tf.float64)
        while True:
            some = self._some(iterator, tf.constant(batches_at_once))
            sums += some
            if int(some[-1]) < batches_at_once:
                break
            progress()
        right, loss, samples, _ = (distribution.total(sums) if self.workers > 1 else sums).numpy().tolist()
        if not samples:  # sets of the catalogue's workloads have been counted before
            raise RankError(
                ExitCode.CUSTOM_MODEL_FAILED,
                "build() of custom.file gives held_out without a sample: give it some, or leave held_out out",
            )
        accuracy = right / samples if self.recipe.correct else None
        return _held_out(loss / samples, accuracy=accuracy, samples=round(samples))


def _held_out(loss: float, *, accuracy: float | None, samples: int) -> HeldOut:
    """A loss that is no number may stand in no record; it ends the run where nothing else says how good a model is.

    With few steps behind it batch normalisation has statistics that are far off, and the loss may overflow.
    """
    if math.isfinite(loss):
        return HeldOut(loss=loss, accuracy=accuracy, samples=samples)
    if accuracy is None:
        raise LossNotFinite(f"the loss on held-out samples was {loss}")
    return HeldOut(loss=None, accuracy=accuracy, samples=samples)


def _compiled(recipe: Recipe, on_device: OnDevice) -> Callable[[Any, tf.Tensor], tf.Tensor]:
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

    return some  # type: ignore[no-any-return]


def _averaging(recipe: Recipe) -> Callable[[], None]:
    moving = [weight.value for weight in recipe.network.non_trainable_weights if weight.value.dtype.is_floating]

    @tf.function(jit_compile=False)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def even_out() -> None:
        for variable, mean in zip(moving, distribution.average([tf.identity(one) for one in moving]), strict=True):
            variable.assign(mean)

    return even_out if moving else lambda: None
