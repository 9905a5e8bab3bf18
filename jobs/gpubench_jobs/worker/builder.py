# SPDX-License-Identifier: Apache-2.0
"""From an assignment to what a rank runs: a workload of the catalogue, the all-reduce alone, or one of the user's own.

Must not happen: ranks that begin with different weights (`persistent` is sent by rank 0), or that share samples
(synthetic ones follow from the rank's seed, those of a data set from the rank's place in a common order). Without a
variant (`spec.sweep[].variants`) everything about variants here is as if it were not.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import keras
import tensorflow as tf

from gpubench import workloads
from gpubench.api.measuring import Mode
from gpubench.api.sweep import DataSource, Variant
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.workloads import Precision
from gpubench_jobs import custom, data, models
from gpubench_jobs.data import files, generated, pipeline
from gpubench_jobs.data.pipeline import Feed, Progress, Split, streamed
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import RankError
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import checkpointer, epochs, train

#: tf_cnn_benchmarks multiplied the loss by this for float16, fixed, for all its convolutional models.
_FLOAT16_LOSS_SCALE = 128.0


@dataclass(frozen=True)
class Work:
    """All that a rank's session needs."""

    run: train.Loop
    weights: list[tf.Variable]  # equal on all ranks at the end, or the gang did not train together
    persistent: list[tf.Variable]  # equal on all ranks at the beginning
    plan: epochs.EpochPlan | None  # in mode Training
    computing: train.Computing | None  # None where ranks do nothing alone
    state: checkpointer.TrainingState | None = None  # what a checkpoint has, in mode Training

    def facts(self) -> dict[str, str]:
        """What must be the same on all ranks: they would wait for each other without end."""
        facts = {"number of variables": str(len(self.persistent))}
        for number, variable in enumerate(self.persistent):
            facts[f"shape of variable {number}"] = str(tuple(variable.shape.as_list()))
        if (plan := self.plan) is None:
            return facts
        of_plan = {"steps of an epoch": plan.steps, "samples of an epoch": plan.samples, "epochs": plan.epochs}
        held_out = {"held-out samples": "none" if plan.evaluation is None else "some"}
        return {name: str(value) for name, value in of_plan.items()} | held_out | facts


class _Material(NamedTuple):
    recipe: Recipe
    feed: Feed
    plan: epochs.EpochPlan | None = None


def build(
    assignment: Assignment, *, rank: int, seed: int, progress: Progress = lambda: None, first_step: int = 0
) -> Work:
    """What a rank runs, on samples from `first_step` on; the process has its `seed` and its precision by now."""
    if assignment.workload == workloads.MESSAGES and assignment.custom_file is None:
        if assignment.mode is Mode.TRAINING:
            raise RankError(
                ExitCode.BAD_ASSIGNMENT,
                "allreduce trains nothing: measure it in a benchmark with measure.mode Throughput",
            )
        message = allreduce_message(assignment, seed=seed)
        loop = compile_allreduce(message, reduce=reduction(assignment))
        return Work(run=loop, weights=[message], persistent=[], plan=None, computing=None)
    recipe, feed, plan = _material(assignment, rank=rank, seed=seed, progress=progress, first_step=first_step)
    run = train.compile_run(
        recipe,
        feed,
        reduce=reduction(assignment),
        loss_scale=loss_scale(assignment),
        xla=variant_of(assignment).xla,
        sum_losses=plan is not None,
    )
    return Work(
        run=run,
        weights=recipe.trainable,
        persistent=recipe.persistent,
        plan=plan,
        computing=train.Computing(run.computing, weights=recipe.trainable) if run.computing is not None else None,
        state=checkpointer.TrainingState(recipe.learned, recipe.persistent, run.variables) if plan else None,
    )


def _material(assignment: Assignment, *, rank: int, seed: int, progress: Progress, first_step: int = 0) -> _Material:
    if assignment.custom_file is not None:
        return _custom(assignment, rank=rank, first_step=first_step)
    if assignment.data.source is not DataSource.SYNTHETIC:
        return _of_sets(assignment, rank=rank, progress=progress, first_step=first_step)
    if assignment.mode is Mode.TRAINING:
        raise RankError(
            ExitCode.BAD_ASSIGNMENT,
            "mode Training needs data that can be learned: set data.source to Generated or Volume",
        )
    recipe = apply_variant(models.build(assignment.workload), assignment)
    workload, batch = workloads.find(assignment.workload), assignment.batch_per_worker
    dtype = recipe.network.compute_dtype
    return _Material(recipe, generated.synthetic_batch(workload, batch=batch, seed=seed, dtype=dtype))


def _of_sets(assignment: Assignment, *, rank: int, progress: Progress, first_step: int) -> _Material:
    """Training samples through the pipeline; in mode Training also epochs and what was held out."""
    workload, gang, batch = workloads.find(assignment.workload), assignment.workers, assignment.batch_per_worker
    sets = data.open_sets(workload, assignment.data, seed=assignment.seed, progress=progress)
    if sets.vocabulary is not None:
        workload = workload.model_copy(update={"vocabulary": sets.vocabulary})
    recipe = apply_variant(models.build_for(workload), assignment)
    # A throughput counts steps: each must train a whole batch.
    drop_remainder = recipe.drop_remainder or assignment.mode is Mode.THROUGHPUT
    batches = pipeline.training_batches(
        sets.training,
        batch_per_worker=batch,
        rank=rank,
        workers=gang,
        seed=assignment.seed,
        augment=recipe.augment,
        drop_remainder=drop_remainder,
        first_step=first_step,
    )
    plan = None
    if assignment.mode is Mode.TRAINING:
        steps = pipeline.steps_per_epoch(
            sets.training.count, batch_per_worker=batch, workers=gang, drop_remainder=drop_remainder
        )
        plan = epochs.EpochPlan(
            epochs=assignment.epochs or workload.default_epochs,
            steps=steps,
            # Ranks have equal parts of the last batch: what cannot be divided among them is left out.
            samples=min(steps * batch * gang, sets.training.count // gang * gang),
            evaluation=_evaluation(recipe, sets.evaluation, assignment=assignment, rank=rank)
            if sets.evaluation is not None
            else None,
        )
    return _Material(recipe, streamed(batches, sets.training.on_device), plan)


def _evaluation(recipe: Recipe, held_out: Split, *, assignment: Assignment, rank: int) -> epochs.Evaluation:
    if not held_out.count:
        raise files.unusable(f"the {held_out.name} set of {held_out.origin} has no samples: give it some")
    batches = pipeline.evaluation_batches(
        held_out, batch_per_worker=assignment.batch_per_worker, rank=rank, workers=assignment.workers
    )
    return epochs.Evaluation(recipe, batches, workers=assignment.workers, on_device=held_out.on_device)


def _custom(assignment: Assignment, *, rank: int, first_step: int) -> _Material:
    built = custom.load(assignment, rank=rank)
    recipe, plan = apply_variant(built.recipe, assignment), None
    if assignment.mode is Mode.TRAINING:
        assert built.steps_per_epoch is not None  # `custom.load` has asked for it
        plan = epochs.EpochPlan(
            epochs=assignment.epochs or built.epochs,
            steps=built.steps_per_epoch,
            samples=built.steps_per_epoch * assignment.batch_per_worker * assignment.workers,
            evaluation=epochs.Evaluation(recipe, built.held_out, workers=assignment.workers)
            if built.held_out is not None
            else None,
        )
    batches = built.batches.skip(first_step) if first_step else built.batches  # gone through once more, unseen
    return _Material(recipe, streamed(batches), plan)


# ---- the arithmetic ----


def use_precision(precision: Precision) -> None:
    """Process-wide, before a model is built. TensorFloat-32, a default of TensorFlow, is off unless asked for."""
    tf.config.experimental.enable_tensor_float_32_execution(precision is Precision.TENSOR_FLOAT32)
    mixed = precision in (Precision.MIXED_FLOAT16, Precision.MIXED_BFLOAT16)
    keras.config.set_dtype_policy(precision.value if mixed else "float32")


def loss_scale(assignment: Assignment) -> float:
    """Of the loss, so that small gradients survive in float16, which are divided by it; 1 where the optimizer does."""
    is_static = assignment.precision is Precision.MIXED_FLOAT16 and not _dynamic(assignment)
    return _FLOAT16_LOSS_SCALE if is_static else 1.0


# ---- variants ----


def variant_of(assignment: Assignment) -> Variant:
    """Without one, that of all defaults: as if there were no variants."""
    return assignment.variant or Variant(name="none")


def apply_variant(recipe: Recipe, assignment: Assignment) -> Recipe:
    """The recipe with the optimizer that the variant asks for."""
    factor = {"None": 1.0, "Linear": float(assignment.workers), "SquareRoot": math.sqrt(assignment.workers)}[
        variant_of(assignment).learning_rate_scaling
    ]
    if factor != 1.0:
        optimizer, rate = recipe.optimizer, recipe.optimizer._learning_rate  # Keras shows a schedule nowhere
        scheduled = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
        optimizer.learning_rate = (
            (lambda: rate(optimizer._iterations) * factor) if scheduled else float(optimizer.learning_rate) * factor
        )
    return replace(recipe, optimizer=DynamicLossScale(recipe.optimizer)) if _dynamic(assignment) else recipe


def reduction(assignment: Assignment) -> train.Reduce:
    """How the gradients of all ranks become one."""
    if assignment.workers == 1:
        return train.alone
    communication = variant_of(assignment).communication
    return partial(horovod.average, compress=communication.compression != "None", groups=communication.groups)


def _dynamic(assignment: Assignment) -> bool:
    """Float16 is the only type whose range needs it."""
    return variant_of(assignment).loss_scaling == "Dynamic" and assignment.precision is Precision.MIXED_FLOAT16


class DynamicLossScale(keras.optimizers.LossScaleOptimizer):  # type: ignore[misc]  # Keras has no types
    """Keras' own, which would make a dense tensor of an embedding's gradient to look for overflows.

    It looks at reduced gradients: what overflowed on one rank has reached all, so all leave the same step out.
    """

    def __init__(self, inner_optimizer: keras.optimizers.Optimizer) -> None:
        # Doubled after so many steps without an overflow, as in tf_cnn_benchmarks.
        super().__init__(inner_optimizer, initial_scale=_FLOAT16_LOSS_SCALE, dynamic_growth_steps=1000)

    def check_finite(self, grads: list[horovod.Gradient]) -> tf.Tensor:
        return tf.reduce_all([tf.reduce_all(tf.math.is_finite(horovod.content(one))) for one in grads])


# ---- the all-reduce alone ----


def allreduce_message(assignment: Assignment, *, seed: int) -> tf.Variable:
    """This rank's own message of `batch_per_worker` numbers: equal digests at the end show that it was reduced."""
    if assignment.precision is Precision.MIXED_BFLOAT16:
        raise RankError(
            ExitCode.BAD_ASSIGNMENT,
            "Horovod 0.28.1 has no all-reduce of bfloat16 for TensorFlow: use mixed_float16, whose elements have as "
            "many bytes",
        )
    kind = tf.float16 if assignment.precision is Precision.MIXED_FLOAT16 else tf.float32
    drawn = tf.random.stateless_uniform((assignment.batch_per_worker,), seed=(seed, 1), minval=-1.0, maxval=1.0)
    return tf.Variable(tf.cast(drawn, kind), trainable=False)


def compile_allreduce(message: tf.Variable, *, reduce: train.Reduce) -> train.Loop:
    """So many all-reduces of the message, the mean over all ranks as in training; the first element stands for a loss.

    Each works on what the one before has left, so that no two overlap and none can be left out. From a step's time t,
    the message's bytes S and n ranks follow, as nccl-tests define them
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md): algorithm bandwidth S / t, which a program
    sees, and bus bandwidth S / t * 2 (n - 1) / n, which a ring sends over each link, to compare with the hardware.
    """

    def step(_: tuple[()]) -> tuple[tf.Tensor, int]:
        message.assign(reduce([message.read_value()])[0])
        return tf.cast(message[0], tf.float32), message.shape[0]

    return train.Loop(step, ())
