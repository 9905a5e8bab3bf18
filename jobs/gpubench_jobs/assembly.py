# SPDX-License-Identifier: Apache-2.0
"""From an assignment to what a rank runs: a workload of the catalogue, the all-reduce alone, or one of the user's own.

Must not happen: ranks that begin with different weights (`persistent` is sent by rank 0), or that share samples
(synthetic ones follow from the rank's seed, those of a data set from the rank's place in a common order).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from gpubench import workloads
from gpubench.api.measuring import Mode
from gpubench.api.sweep import DataSource
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench_jobs import agreement, allreduce, data, epochs, evaluate, models, own, probe, snapshot, train, variants
from gpubench_jobs.data import pipeline, unusable
from gpubench_jobs.data.feed import Feed, streamed
from gpubench_jobs.data.split import Progress, Split
from gpubench_jobs.failures import RankError
from gpubench_jobs.models.recipe import Recipe


@dataclass(frozen=True)
class Assembly:
    """All that a rank's session needs."""

    run: train.Run
    weights: list[tf.Variable]  # equal on all ranks at the end, or the gang did not train together
    persistent: list[tf.Variable]  # equal on all ranks at the beginning
    course: epochs.Course | None  # in mode Training
    computing: probe.Computing | None  # None where ranks do nothing alone
    state: snapshot.State | None = None  # what a checkpoint has, in mode Training


@dataclass(frozen=True)
class _Material:
    """A recipe and what it is fed."""

    recipe: Recipe
    feed: Feed
    course: epochs.Course | None


def assemble(
    assignment: Assignment, *, rank: int, seed: int, progress: Progress = lambda: None, first_step: int = 0
) -> Assembly:
    """`seed` is the rank's own; the process has been seeded with it, and the precision is set.

    The samples are those from `first_step` on.
    """
    if assignment.workload == workloads.MESSAGES and assignment.custom_file is None:
        return _message(assignment, seed=seed)
    material = _material(assignment, rank=rank, seed=seed, progress=progress, first_step=first_step)
    run = train.compile_run(
        material.recipe,
        material.feed,
        reduce=variants.reduction(assignment),
        loss_scale=variants.loss_scale(assignment),
        xla=variants.xla(assignment),
        sum_losses=material.course is not None,
    )
    recipe, computing = material.recipe, None
    if run.computing is not None:
        computing = probe.Computing(run.computing, weights=recipe.trainable)
    return Assembly(
        run=run,
        weights=recipe.trainable,
        persistent=recipe.persistent,
        course=material.course,
        computing=computing,
        state=snapshot.State(recipe.learned, recipe.persistent, run.variables) if material.course else None,
    )


def outline(work: Assembly) -> agreement.Outline:
    """What the other ranks must have as well."""
    shapes = tuple(tuple(variable.shape.as_list()) for variable in work.persistent)
    if work.course is None:
        return agreement.Outline(shapes=shapes)
    return agreement.Outline(
        steps=work.course.steps,
        samples=work.course.samples,
        epochs=work.course.epochs,
        evaluates=work.course.evaluation is not None,
        shapes=shapes,
    )


def require_same(outlines: Sequence[agreement.Outline], assignment: Assignment) -> None:
    """RankError, the same on every rank, where ranks have built what cannot be trained together."""
    if (differs := agreement.difference(outlines)) is None:
        return
    if assignment.custom_file is not None:
        raise RankError(
            ExitCode.CUSTOM_MODEL_FAILED,
            f"build() of {assignment.custom_file} must give every rank the same ({differs}): correct the file",
        )
    raise RankError(
        ExitCode.DATA_UNUSABLE,
        f"ranks have found different data ({differs}): give every node the same files at {assignment.data.path}",
    )


def _message(assignment: Assignment, *, seed: int) -> Assembly:
    if assignment.mode is Mode.TRAINING:
        raise RankError(
            ExitCode.BAD_ASSIGNMENT, "allreduce trains nothing: measure it in a study with measure.mode Throughput"
        )
    message = allreduce.message(assignment, seed=seed)
    run = allreduce.compile_run(message, reduce=variants.reduction(assignment))
    return Assembly(run=run, weights=[message], persistent=[], course=None, computing=None)


def _material(assignment: Assignment, *, rank: int, seed: int, progress: Progress, first_step: int = 0) -> _Material:
    if assignment.custom_file is not None:
        return _own(assignment, rank=rank, first_step=first_step)
    if assignment.data.source is DataSource.SYNTHETIC:
        return _synthetic(assignment, seed=seed)
    return _of_sets(assignment, rank=rank, progress=progress, first_step=first_step)


def _synthetic(assignment: Assignment, *, seed: int) -> _Material:
    if assignment.mode is Mode.TRAINING:
        raise RankError(
            ExitCode.BAD_ASSIGNMENT,
            "mode Training needs data that can be learned: set data.source to Generated or Volume",
        )
    recipe = variants.of_recipe(models.build(assignment.workload), assignment)
    return _Material(recipe, data.synthetic_feed(assignment, dtype=recipe.network.compute_dtype, seed=seed), None)


def _of_sets(assignment: Assignment, *, rank: int, progress: Progress, first_step: int) -> _Material:
    """Training samples through the pipeline; in mode Training also epochs and what was held out."""
    workload, gang = workloads.find(assignment.workload), assignment.workers
    sets = data.open_sets(workload, assignment.data, seed=assignment.seed, progress=progress)
    if sets.vocabulary is not None:
        workload = workload.model_copy(update={"vocabulary": sets.vocabulary})
    recipe = variants.of_recipe(models.build_for(workload), assignment)
    batch = assignment.batch_per_worker
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
    course = None
    if assignment.mode is Mode.TRAINING:
        steps = pipeline.steps_per_epoch(
            sets.training.count, batch_per_worker=batch, workers=gang, drop_remainder=drop_remainder
        )
        evaluation = None
        if sets.evaluation is not None:
            evaluation = _evaluation(recipe, sets.evaluation, assignment=assignment, rank=rank)
        course = epochs.Course(
            epochs=assignment.epochs or workload.default_epochs,
            steps=steps,
            # Ranks have equal parts of the last batch: what cannot be divided among them is left out.
            samples=min(steps * batch * gang, sets.training.count // gang * gang),
            evaluation=evaluation,
        )
    return _Material(recipe, streamed(batches, sets.training.on_device), course)


def _evaluation(recipe: Recipe, held_out: Split, *, assignment: Assignment, rank: int) -> evaluate.Evaluation:
    if not held_out.count:
        raise unusable.refusal(f"the {held_out.name} set of {held_out.origin} has no samples: give it some")
    gang = assignment.workers
    batches = pipeline.evaluation_batches(
        held_out, batch_per_worker=assignment.batch_per_worker, rank=rank, workers=gang
    )
    return evaluate.Evaluation(recipe, batches, workers=gang, on_device=held_out.on_device)


def _own(assignment: Assignment, *, rank: int, first_step: int) -> _Material:
    built = own.load(assignment, rank=rank)
    recipe = variants.of_recipe(built.recipe, assignment)
    course = None
    if assignment.mode is Mode.TRAINING:
        evaluation = None
        if built.held_out is not None:
            evaluation = evaluate.Evaluation(recipe, built.held_out, workers=assignment.workers)
        assert built.steps_per_epoch is not None  # `own.load` has asked for it
        course = epochs.Course(
            epochs=assignment.epochs or built.epochs,
            steps=built.steps_per_epoch,
            samples=built.steps_per_epoch * assignment.batch_per_worker * assignment.workers,
            evaluation=evaluation,
        )
    batches = built.batches.skip(first_step) if first_step else built.batches  # gone through once more, unseen
    return _Material(recipe, streamed(batches), course)
