# SPDX-License-Identifier: Apache-2.0
"""The short test of a device: that it is bounded, that it is told, and that it leaves the training as it was."""

import json
from typing import Any

import pytest
import tensorflow as tf

import sessions
from gangs import Pod, Pods, make_assignment
from gpubench import records
from gpubench_jobs import clock
from gpubench_jobs.worker import health

pytestmark = pytest.mark.usefixtures("horovod")


def checked(pod: Pod) -> tuple[records.Health, ...]:
    return pod.wrote.of_kind(records.Health)


def test_every_rank_tests_its_device_before_it_trains(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, health_check=True))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    found = [*checked(first), *checked(second)]
    assert [one.rank for one in found] == [0, 1]
    assert all(one.arithmetic > 0 and one.memory > 0 and (one.allreduce or 0) > 0 for one in found)
    kinds = [json.loads(line)["kind"] for line in first.lines]
    assert kinds.index("environment") < kinds.index("health") < kinds.index("window")
    machine = first.result.machine
    assert machine is not None
    assert machine.arithmetic == min(one.arithmetic for one in found)
    assert machine.memory == min(one.memory for one in found)
    assert machine.allreduce == min(one.allreduce or 0 for one in found)
    assert machine.weakest_rank == min(found, key=lambda one: one.arithmetic).rank


def test_it_is_left_out_where_nobody_asks_for_it(pods: Pods) -> None:
    pod = pods.start(make_assignment())
    assert pod.wait() == 0, pod.log[-2000:]
    assert not checked(pod)
    machine = pod.result.machine
    assert machine is not None
    assert (machine.arithmetic, machine.weakest_rank) == (None, None)
    assert machine.processor is not None  # usage is always sampled
    assert machine.processor > 0


@pytest.mark.parametrize("tensor_float_32", [True, False])
def test_it_is_repeated_for_about_as_long_on_any_device_and_never_in_tensor_float_32(tensor_float_32: bool) -> None:
    tf.config.experimental.enable_tensor_float_32_execution(tensor_float_32)
    with sessions.drained() as sink:
        rank = sessions.make_session(sessions.Loop(lambda _: 0.01), sink=sink, health_check=True)
        rank.now = clock.monotonic_ns
        found = health.check(rank)
    assert tf.config.experimental.tensor_float_32_execution_enabled() == tensor_float_32
    assert found is not None
    assert found.allreduce is None  # there is nobody to send anything to


@pytest.mark.parametrize(("call_seconds", "calls"), [(0.1, [1, 1, 5]), (0.001, [1, 1, 500]), (30.0, [1, 1, 1])])
def test_a_slow_device_is_not_tested_for_longer(call_seconds: float, calls: list[int]) -> None:
    made: list[int] = []

    class Device(sessions.Loop):
        def __call__(self, steps: int) -> sessions.Scalar:
            made.append(steps)
            return super().__call__(steps)

    device: Any = Device(lambda _: call_seconds)
    with sessions.drained() as sink:
        rank = sessions.make_session(device, sink=sink)
        assert health._per_second(rank, device) == pytest.approx(1 / call_seconds)
    assert made == calls
