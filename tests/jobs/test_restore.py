# SPDX-License-Identifier: Apache-2.0
"""How a training goes on from a checkpoint: with its data and its model or not at all, and what that costs."""

import os
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import sessions
from gangs import make_assignment, make_orders
from gpubench import records
from gpubench_jobs import channel
from gpubench_jobs.engines import horovod
from gpubench_jobs.worker import checkpoint, checkpointer, epochs

COURSE = epochs.EpochPlan(epochs=3, steps=100, samples=800, evaluation=None)
STEP_SECONDS, FIRST_STEP_SECONDS = 0.01, 7.0
STEP = 120


@pytest.fixture
def sink() -> Iterator[int]:
    with sessions.drained() as writer:
        yield writer


@pytest.fixture
def begun(tmp_path: Path, sink: int) -> Iterator[Callable[[], checkpointer.Restore]]:
    """A second attempt, after one that has kept a checkpoint of two weights."""
    asked, asking = os.pipe()
    assignment = make_assignment(mode="Training", checkpoint={}, data={"source": "Generated", "samples": 800})
    orders = make_orders(assignment, channel=sink, checkpoints=str(tmp_path / "trial"), requests=asked)
    writer = channel.Writer(sink)
    first = checkpointer.find_checkpoint(orders, writer)
    weights = tf.Variable([1.0, 2.0])
    keeper = first.checkpointer(COURSE, state(weights))
    assert keeper.store is not None
    arrays, values = checkpointer.take_snapshot(keeper.state, rank=0, workers=1)
    progress = checkpoint.Progress(
        step=STEP, epochs=(epoch(0),), parts=(checkpoint.Part(nanoseconds=1, loss=80.0, samples=160),)
    )
    manifest = checkpoint.Manifest(
        identity=keeper.identity, attempt=1, extent=keeper.extent, framework=checkpointer._FRAMEWORK,
        progress=progress, arrays=arrays,
    )  # fmt: skip
    keeper.store.write(manifest, values())
    later = orders.model_copy(update={"assignment": assignment.model_copy(update={"attempt": 2})})
    yield lambda: checkpointer.find_checkpoint(later, writer)
    os.close(asked)
    os.close(asking)


def state(*variables: tf.Variable) -> checkpointer.TrainingState:
    return checkpointer.TrainingState(variables, variables, lambda: variables)


def epoch(index: int) -> records.Epoch:
    return records.Epoch(
        index=index, steps=COURSE.steps, samples=COURSE.samples, nanoseconds=10, evaluation_nanoseconds=0, loss=0.5
    )


def test_rank_0_alone_has_a_volume_and_is_asked_and_tells_the_others_what_there_is(
    begun: Callable[[], checkpointer.Restore], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begun()
    assert first.manifest is not None
    assert first.checkpointer(COURSE, state()).requests is not None
    given, phases, text = list[str](), list[channel.Phase](), first.manifest.to_text()

    def broadcast_value(own: str) -> str:
        given.append(own)
        return text

    monkeypatch.setattr(horovod, "broadcast_value", broadcast_value)
    of_two = first.config.assignment.model_copy(update={"workers": 2})
    orders = first.config.model_copy(update={"rank": 1, "assignment": of_two})
    writer: Any = types.SimpleNamespace(phase=phases.append)
    second = checkpointer.find_checkpoint(orders, writer)
    assert (given, phases, second.manifest, second.store) == ([""], [channel.Phase.SPREADING], first.manifest, None)
    assert second.checkpointer(COURSE, state()).requests is None


def test_what_the_first_step_costs_is_restoring_and_nothing_else_stays_of_it(
    begun: Callable[[], checkpointer.Restore], sink: int
) -> None:
    weights = tf.Variable([0.0, 0.0])

    def seconds_of(call: int) -> float:
        weights.assign_add([1.0, 1.0])  # as a step does
        return STEP_SECONDS if call else FIRST_STEP_SECONDS

    loop = sessions.Loop(seconds_of, loss_of=lambda count: 0.5 * sessions.BATCH * count)
    rank = sessions.make_session(loop, sink=sink, mode="Training")
    second = begun()
    assert second.first_batch == STEP - 1, "whose batch that step takes"
    assert second.suits(COURSE, state(weights))
    resumed = second.restore(rank, state(weights))
    assert loop.steps == 1
    assert weights.numpy().tolist() == [1.0, 2.0]
    assert resumed is not None
    assert FIRST_STEP_SECONDS <= resumed.restore_seconds < 2 * FIRST_STEP_SECONDS
    assert rank.first_step_seconds >= FIRST_STEP_SECONDS
    done = epochs.run_epochs(rank, COURSE, second.checkpointer(COURSE, state(weights)))
    assert loop.steps == 1 + COURSE.epochs * COURSE.steps - STEP
    assert [one.nanoseconds for one in done[1:]] == [80 * 10_000_000 + 1, 100 * 10_000_000]
    assert {one.loss for one in done} == {0.5}


@pytest.mark.parametrize(
    ("course", "shape", "sentence"),
    [
        ({"samples": 1600, "steps": 200}, (2,), "the data have 1600 samples in 200 steps of an epoch now, for 3 epo"),
        ({"steps": 99}, (2,), "the checkpoint was of 800 in 100, for 3"),
        ({"epochs": 1}, (2,), "in 100 steps of an epoch now, for 1 epochs"),
        ({}, (3,), "its variables are not those of the model"),
    ],
)
def test_a_checkpoint_of_other_data_or_of_another_model_is_set_aside_and_training_begins_anew(
    begun: Callable[[], checkpointer.Restore],
    capsys: pytest.CaptureFixture[str],
    course: dict[str, Any],
    shape: tuple[int, ...],
    sentence: str,
) -> None:
    second = begun()
    assert not second.suits(replace(COURSE, **course), state(tf.Variable(tf.zeros(shape))))
    (told,) = capsys.readouterr().err.splitlines()
    assert sentence in told
    assert told.endswith("training begins anew")
    assert (second.first_batch, second.manifest, second.values) == (0, None, b"")
    again = begun()
    assert again.manifest is None
    assert not capsys.readouterr().err, "it is said once"


def test_a_checkpoint_of_another_version_of_the_framework_is_used_with_a_warning(
    begun: Callable[[], checkpointer.Restore], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = state(tf.Variable([0.0, 0.0]))
    assert begun().suits(COURSE, variables)
    assert not capsys.readouterr().err
    monkeypatch.setattr(checkpointer, "_FRAMEWORK", "TensorFlow 9.1.0 and Keras 3.0.0")
    assert begun().suits(COURSE, variables)
    assert "is used, though TensorFlow " in capsys.readouterr().err
