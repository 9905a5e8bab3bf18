# SPDX-License-Identifier: Apache-2.0
"""A study's ways of training (`spec.sweep[].variants`), applied to a recipe and to the reduction of its gradients.

Without a variant everything here is as if it were not. Fusion and cycle time are variables that Horovod reads when it
starts (see `ranks`); XLA is an argument of `train.compile_run`.
"""

import math
from dataclasses import replace
from functools import partial

import keras
import tensorflow as tf

from gpubench.plan.assignment import Assignment
from gpubench.workloads import Precision
from gpubench_jobs import distribution, precision, slices, train
from gpubench_jobs.models.recipe import Recipe

#: Steps without an overflow after which a dynamic loss scale is doubled, as in tf_cnn_benchmarks.
_GROWTH_STEPS = 1000


def of_recipe(recipe: Recipe, assignment: Assignment) -> Recipe:
    """The recipe with the optimizer that the variant asks for."""
    if (variant := assignment.variant) is None:
        return recipe
    factor = {
        "None": 1.0,
        "Linear": float(assignment.workers),
        "SquareRoot": math.sqrt(assignment.workers),
    }[variant.learning_rate_scaling]
    if factor != 1.0:
        _scale_learning_rate(recipe.optimizer, factor)
    if _dynamic(assignment):
        return replace(recipe, optimizer=DynamicLossScale(recipe.optimizer))
    return recipe


def loss_scale(assignment: Assignment) -> float:
    """What `train.compile_run` multiplies the loss by; 1 where the optimizer does that."""
    return 1.0 if _dynamic(assignment) else precision.loss_scale(assignment.precision)


def reduction(assignment: Assignment) -> train.Reduce:
    """How the gradients of all ranks become one."""
    if assignment.workers == 1:
        return train.alone
    if (variant := assignment.variant) is None:
        return distribution.average
    communication = variant.communication
    return partial(distribution.average, compress=communication.compression != "None", groups=communication.groups)


def xla(assignment: Assignment) -> bool:
    """Whether forward and backward pass are compiled by XLA."""
    return assignment.variant is not None and assignment.variant.xla


def _dynamic(assignment: Assignment) -> bool:
    """Float16 is the only type whose range needs it."""
    variant = assignment.variant
    return variant is not None and variant.loss_scaling == "Dynamic" and assignment.precision is Precision.MIXED_FLOAT16


class DynamicLossScale(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]  # Keras has no types
    """Keras' own, which would make a dense tensor of an embedding's gradient to look for overflows.

    It looks at reduced gradients: what overflowed on one rank has reached all, so all leave the same step out.
    """

    def __init__(self, inner_optimizer: keras.optimizers.Optimizer) -> None:
        super().__init__(
            inner_optimizer,
            initial_scale=precision.loss_scale(Precision.MIXED_FLOAT16),
            dynamic_growth_steps=_GROWTH_STEPS,
        )

    def check_finite(self, grads: list[slices.Gradient]) -> tf.Tensor:
        """Whether a step may be taken."""
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(slices.content(one))) for one in grads])


def _scale_learning_rate(optimizer: keras.optimizers.Optimizer, factor: float) -> None:
    schedule = optimizer._learning_rate  # Keras shows a schedule's value of the moment, and its schedule nowhere
    if isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
        optimizer.learning_rate = _Scaled(schedule, factor)
    else:
        optimizer.learning_rate = float(optimizer.learning_rate) * factor


class _Scaled(keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]  # Keras has no types
    """A schedule times a number."""

    def __init__(self, schedule: keras.optimizers.schedules.LearningRateSchedule, factor: float) -> None:
        super().__init__()
        self._schedule = schedule
        self._factor = factor

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        return self._schedule(step) * self._factor

    def get_config(self) -> dict[str, object]:
        """What Keras asks of every schedule."""
        return {"schedule": self._schedule, "factor": self._factor}
