# SPDX-License-Identifier: Apache-2.0
"""Looking at a rank's computing alone: what it times, and that it leaves nothing behind."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from gangs import make_assignment
from gpubench import workloads
from gpubench.workloads import Precision
from gpubench_jobs import models
from gpubench_jobs.data import generated
from gpubench_jobs.data.pipeline import held_batch
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import builder, pacing, train
from rank_program import CASES, Case, build

LOOKED_AT = [case for case in CASES if case.reduce and not case.overflow]


def everything(built: Recipe) -> list[tf.Variable]:
    """Weights, moving averages, seeds of dropout, the optimizer's state."""
    return [variable.value for variable in (*built.network.variables, *built.optimizer.variables)]


@pytest.mark.parametrize("case", LOOKED_AT, ids=lambda case: case.name)
def test_a_look_leaves_every_number_as_it_was_bit_for_bit(case: Case) -> None:
    built, feed = build(case, rank=0)
    run = train.compile_run(built, feed, reduce=train.alone)
    assert run.computing is not None
    run(2)
    before = [variable.numpy() for variable in everything(built)]
    computing = train.Computing(run.computing, weights=built.trainable)
    computing.seconds(1, now=iter((1, 2)).__next__)
    assert computing.seconds(3, now=iter((1, 6_000_000_001)).__next__) == 6.0
    for value, variable in zip(before, everything(built), strict=True):
        np.testing.assert_array_equal(value, variable.numpy())
    run(1)
    assert any(
        not np.array_equal(value, variable.numpy()) for value, variable in zip(before, everything(built), strict=True)
    )  # this would show


@pytest.mark.parametrize("xla", [False, True])
def test_a_look_leaves_what_a_loss_of_the_users_own_keeps_as_it_was(xla: bool) -> None:
    builder.use_precision(Precision.FLOAT32)
    calls, worst = tf.Variable(0), tf.Variable(0.0)

    def loss(labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        calls.assign_add(1)
        if outputs[0, 0] > worst:
            worst.assign(outputs[0, 0])
        return tf.reduce_mean((outputs - labels) ** 2)

    network = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer="ones")])
    built = Recipe(network=network, optimizer=keras.optimizers.SGD(0.01), loss=tf.function(loss))
    run = train.compile_run(built, held_batch(tf.ones((2, 1)), tf.ones((2, 1))), reduce=train.alone, xla=xla)
    assert run.computing is not None
    computing = train.Computing(run.computing, weights=built.trainable)
    for steps in (1, 3):
        computing.seconds(steps, now=iter((1, 2)).__next__)
    assert (int(calls.numpy()), float(worst.numpy())) == (0, 0.0)
    run(2).numpy()
    assert (int(calls.numpy()), float(worst.numpy())) == (2, 1.0)  # this would show


def operations(function: tf.types.experimental.ConcreteFunction) -> set[str]:
    """Types of all operations of a traced function and of those it calls."""
    graph = function.graph.as_graph_def()
    called = [node.op for each in graph.library.function for node in each.node_def]
    return {node.op for node in graph.node} | set(called)


def test_a_look_has_forward_and_backward_pass_in_it_and_no_update() -> None:
    builder.use_precision(Precision.FLOAT32)
    models.seed(1)
    built = models.build("mnist_cnn")
    feed = generated.synthetic_batch(workloads.find("mnist_cnn"), batch=2, seed=1, dtype="float32")
    run = train.compile_run(built, feed, reduce=train.alone)
    assert run.computing is not None
    found = {loop: operations(loop.traced()) for loop in (run, run.computing)}
    backward = {"Conv2DBackpropFilter", "MaxPoolGrad", "BiasAddGrad"}
    assert backward <= found[run]
    assert backward <= found[run.computing]
    assert "AssignAddVariableOp" in found[run]  # the optimizer counts its steps
    assert "AssignAddVariableOp" not in found[run.computing]


def test_the_loop_that_is_timed_calls_no_function_that_its_steps_would_wait_for() -> None:
    builder.use_precision(Precision.FLOAT32)
    models.seed(1)
    built = models.build("mnist_mlp")
    feed = generated.synthetic_batch(workloads.find("mnist_mlp"), batch=2, seed=1, dtype="float32")
    run = train.compile_run(built, feed, reduce=train.alone)
    run.unroll(4)
    found = operations(run.traced())
    assert "MatMul" in found
    assert not {"PartitionedCall", "StatefulPartitionedCall"} & found


def test_a_message_has_no_computing_to_look_at() -> None:
    assembled = builder.build(make_assignment(workload="allreduce"), rank=0, seed=1)
    assert assembled.computing is None


@pytest.mark.parametrize(
    ("step_seconds", "first_step_seconds", "measured_seconds", "side_seconds"),
    [
        (0.01, 2.0, 60.0, 3.0),
        (2.9, 2.0, 60.0, 3.0),
        (3.1, 2.0, 60.0, 0.0),
        (0.01, 19.0, 60.0, 3.0),
        (0.01, 21.0, 60.0, 0.0),
        (9.0, 30.0, 36_000.0, 10.0),
        (11.0, 30.0, 36_000.0, 0.0),
    ],
)
def test_looks_take_a_small_share_of_the_measured_time_and_seconds_at_most(
    step_seconds: float, first_step_seconds: float, measured_seconds: float, side_seconds: float
) -> None:
    found = pacing.probe_seconds(
        step_seconds=step_seconds, first_step_seconds=first_step_seconds, measured_seconds=measured_seconds
    )
    assert found == pytest.approx(side_seconds)


@pytest.mark.parametrize(
    ("side_seconds", "step_seconds", "plan"),
    [
        (3.0, 0.01, pacing.Probe(rounds=8, steps=20)),
        (3.0, 0.3, pacing.Probe(rounds=8, steps=1)),
        (3.0, 0.7, pacing.Probe(rounds=4, steps=1)),
        (3.0, 0.8, pacing.NO_PROBE),
        (10.0, 2.5, pacing.Probe(rounds=4, steps=1)),
        (0.6, 0.01, pacing.Probe(rounds=4, steps=15)),  # few long rounds rather than many short ones
        (0.04, 0.0045, pacing.Probe(rounds=4, steps=2)),
    ],
)
def test_rounds_fit_their_time(side_seconds: float, step_seconds: float, plan: pacing.Probe) -> None:
    assert pacing.probe(side_seconds, step_seconds=step_seconds) == plan
    assert plan.rounds * plan.steps * step_seconds <= side_seconds
