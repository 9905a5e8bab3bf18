# SPDX-License-Identifier: Apache-2.0
"""What is told of an attempt that has ended: which trial it was, and the figure or what went wrong."""

from typing import Any

import pytest

import builders
from gpubench.plan.plan import Plan
from gpubench.scheduler import events
from gpubench.scheduler.ledger import Outcome, Reason

MEASURED: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED}


def plan(mode: str = "Throughput", **fields: Any) -> Plan:
    return builders.plan(builders.spec(builders.block(**{"workers": [1], **fields}), measure={"mode": mode}))


def told(of: Plan, **fields: Any) -> tuple[str, str]:
    """Reason of the event, and its message without the trial's id."""
    trial = of.trials[0].id
    found = events.ending(of, builders.attempt(trial=trial, **fields))
    return found.reason, found.message.replace(f"trial {trial} ", "")


@pytest.mark.parametrize(
    ("of", "result", "message"),
    [
        (plan(), builders.result(rate=512.0), "512 samples/s"),
        (
            plan(workloads=["allreduce"], workers=[2], batchPerWorker=[1024]),
            builders.result(rate=2e6),
            "2e+06 elements/s",
        ),
        (plan("Training"), builders.result(training=builders.training()), "38 s for 3 epochs, accuracy 0.97"),
        (plan("Training"), builders.result(training=builders.training(metric=None, final=None)), "38 s for 3 epochs"),
    ],
    ids=["throughput", "messages", "training", "training without a metric"],
)
def test_a_measured_trial_is_told_with_its_figure(of: Plan, result: Any, message: str) -> None:
    reason, said = told(of, result=result, **MEASURED)
    assert reason == events.TRIAL_MEASURED
    assert said.rpartition(": ")[2] == message


@pytest.mark.parametrize(("attempt", "which"), [(1, "repeat 1"), (3, "repeat 1, attempt 3")])
def test_an_attempt_is_told_with_its_point_and_from_the_second_on_with_its_number(attempt: int, which: str) -> None:
    point = "mnist_cnn on cpu, 1 worker, global batch 64, float32"
    assert told(plan(), attempt=attempt) == (events.ATTEMPT_FAILED, f"({point}, {which}): it broke")
