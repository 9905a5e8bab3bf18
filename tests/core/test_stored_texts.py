# SPDX-License-Identifier: Apache-2.0
"""What is written as JSON can be read again: an absent value is left out there, and reading must not ask for it."""

from pydantic import TypeAdapter

import builders
from gpubench.measure import records
from gpubench.measure.records import Epoch, Training
from gpubench.plan.plan import Plan


def test_an_epoch_of_a_workload_without_accuracy_comes_back() -> None:
    epoch = Epoch(
        index=0, steps=16, samples=2048, nanoseconds=10**9, evaluation_nanoseconds=10**8, loss=3.9, evaluation_loss=3.6,
        accuracy=None,
    )  # fmt: skip
    assert TypeAdapter(Epoch).validate_json(epoch.to_json()) == epoch


def test_an_epoch_without_held_out_samples_comes_back() -> None:
    epoch = Epoch(index=0, steps=16, samples=2048, nanoseconds=10**9, evaluation_nanoseconds=0, loss=3.9)
    assert TypeAdapter(Epoch).validate_json(epoch.to_json()) == epoch


def test_the_result_of_a_training_without_held_out_samples_comes_back() -> None:
    training = Training(
        epochs=10, nanoseconds=10**10, evaluation_nanoseconds=0, first_nanoseconds=10**9,
        first_evaluation_nanoseconds=0, first_samples=2048, loss=1.4,
    )  # fmt: skip
    result = builders.result().model_copy(update={"training": training})
    assert records.read_ending(builders.message(result)) == result


def test_a_plan_with_a_point_that_cannot_be_divided_comes_back() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1, 3], globalBatch=[64])))
    assert [point.key.batch_per_worker for point in plan.points] == [64, None]
    assert Plan.model_validate_json(plan.to_json()) == plan
