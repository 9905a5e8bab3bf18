# SPDX-License-Identifier: Apache-2.0
"""From the ranks' reports to the gang's result, and what is refused."""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
import tensorflow as tf

from gangs import make_assignment
from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import aggregate, builder, checkpoint, epochs, train


def report(rank: int, *nanoseconds: int, warm_up: int = 1, **fields: Any) -> aggregate.Report:
    windows = tuple(
        records.Window(rank=rank, index=index, steps=10, nanoseconds=each, warm_up=index < warm_up)
        for index, each in enumerate(nanoseconds)
    )
    defaults = {"final_loss": 1.0, "weights_digest": "d", "environment": "e"}
    return aggregate.Report(rank=rank, windows=windows, **(defaults | fields))


def result(*reports: aggregate.Report) -> records.Result:
    assignment = make_assignment(workers=len(reports))
    return aggregate.result(reports, assignment=assignment, join_seconds=1.5, init_seconds=9.0)


def test_a_window_lasts_as_long_as_its_slowest_rank_and_warm_up_does_not_count() -> None:
    found = result(report(0, 9000, 100, 300), report(1, 8000, 200, 250))
    assert (found.nanoseconds, found.windows, found.warm_up_windows) == (500, 2, 1)
    assert (found.steps, found.samples) == (20, 20 * 8 * 2)
    assert (found.join_seconds, found.init_seconds) == (1.5, 9.0)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [({"weights_digest": "x"}, "different weights"), ({"environment": "x"}, "different environments")],
)
def test_ranks_that_differ_have_no_result(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(RankError, match=complaint):
        result(report(0, 1, 2), report(1, 1, 2, **fields))


def test_ranks_with_different_windows_have_no_result() -> None:
    with pytest.raises(RankError, match="different numbers of windows"):
        result(report(0, 1, 2), report(1, 1))


EVALUATION = cast(epochs.Evaluation, object())  # nobody runs it
PLAN = epochs.EpochPlan(epochs=2, steps=10, samples=160, evaluation=EVALUATION)
SHAPES = ((3, 4), (4,))


def facts(shapes: Sequence[tuple[int, ...]] = SHAPES, **changes: Any) -> dict[str, str]:
    variables = [tf.Variable(tf.zeros(shape)) for shape in shapes]
    run = cast(train.Loop, None)
    plan = replace(PLAN, **changes)
    return builder.Work(run=run, weights=[], persistent=variables, plan=plan, computing=None).facts()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"steps": 12}, "steps of an epoch: 10 on rank 0, 12 on rank 2"),
        ({"samples": 161}, "samples of an epoch: 160 on rank 0, 161 on rank 2"),
        ({"epochs": 3}, "epochs: 2 on rank 0, 3 on rank 2"),
        ({"evaluation": None}, "held-out samples: some on rank 0, none on rank 2"),
        ({"shapes": ((3, 4),)}, "number of variables: 2 on rank 0, 1 on rank 2"),
        ({"shapes": ((3, 4), (5,))}, "shape of variable 1: (4,) on rank 0, (5,) on rank 2"),
    ],
)
def test_what_ranks_have_built_is_compared_before_they_wait_for_each_other(changes: dict[str, Any], told: str) -> None:
    refused = pytest.raises(RankError, match=re.escape(f"({told})")) if told else contextlib.nullcontext()
    with refused:
        aggregate.require_same([facts(), facts(), facts(**changes)], make_assignment())


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"custom_file": "/pods/mine.py"}, ExitCode.CUSTOM_MODEL_FAILED, "build() of /pods/mine.py"),
        ({"data": {"source": "Volume", "path": "/data"}}, ExitCode.DATA_UNUSABLE, "the same files at /data"),
    ],
)
def test_ranks_that_differ_are_a_mistake_of_the_file_or_of_the_data(
    fields: dict[str, Any], code: ExitCode, words: str
) -> None:
    assignment = make_assignment(workers=2, **fields)
    with pytest.raises(RankError, match="steps of an epoch: 10 on rank 0, 7 on rank 1") as caught:
        aggregate.require_same([facts(), facts(steps=7)], assignment)
    assert caught.value.exit_code is code
    assert words in caught.value.sentence
    aggregate.require_same([facts(), facts()], assignment)


def test_an_epochs_loss_is_the_mean_of_the_ranks_means_weighted_by_their_samples() -> None:
    """To the last bit, in which one division of the sum of both would differ."""
    parts = [
        checkpoint.Part(nanoseconds=7, loss=41.617993889434615, samples=97),
        checkpoint.Part(nanoseconds=5, loss=92.21885624698875, samples=160, evaluation_nanoseconds=2),
    ]
    found = aggregate.epoch(parts, index=0, steps=3, held_out=None)
    assert (found.nanoseconds, found.evaluation_nanoseconds, found.samples) == (7, 2, 257)
    assert found.loss == 0.5207659538382231
