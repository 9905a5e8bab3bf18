# SPDX-License-Identifier: Apache-2.0
"""The workload allreduce: each step is one whole all-reduce of what the step before has left."""

import numpy as np
import pytest
import tensorflow as tf

from gangs import Pods, make_assignment
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Precision
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import builder

pytestmark = pytest.mark.usefixtures("horovod")

WORKLOAD = {"workload": "allreduce", "batch_per_worker": 1000}


@pytest.mark.parametrize(("precision", "bytes_each"), [(Precision.FLOAT32, 4), (Precision.MIXED_FLOAT16, 2)])
def test_a_message_has_as_many_elements_as_the_batch_says(precision: Precision, bytes_each: int) -> None:
    assignment = make_assignment(precision=precision, **WORKLOAD)
    first, second = (builder.allreduce_message(assignment, seed=seed) for seed in (1, 2))
    assert first.numpy().nbytes == 1000 * bytes_each
    assert not np.array_equal(first.numpy(), second.numpy())  # equal digests at the end must show something


def test_each_step_works_on_what_the_one_before_has_left() -> None:
    message = builder.allreduce_message(make_assignment(**WORKLOAD), seed=1)
    begun = message.numpy()
    calls: list[horovod.Gradient] = []

    def halve(tensors: object) -> list[tf.Tensor]:
        calls.append(tensors)
        return [tensor / 2 for tensor in tensors]  # type: ignore[attr-defined]

    builder.compile_allreduce(message, reduce=halve)(7)
    np.testing.assert_array_equal(message.numpy(), begun / 2**7)
    assert len(calls) == 1  # traced once: the steps are a loop of the graph


def test_bfloat16_is_refused_because_horovod_has_none() -> None:
    with pytest.raises(RankError, match="use mixed_float16") as caught:
        builder.allreduce_message(make_assignment(precision="mixed_bfloat16", **WORKLOAD), seed=1)
    assert caught.value.exit_code is ExitCode.BAD_ASSIGNMENT


def test_two_pods_reduce_a_message_until_both_hold_the_same(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, **WORKLOAD))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    assert first.result.samples == first.result.steps * 1000 * 2
    assert abs(first.result.final_loss) < 1


def test_a_gang_of_one_does_not_fail(pods: Pods) -> None:
    pod = pods.start(make_assignment(**WORKLOAD))
    assert pod.wait() == 0, pod.log[-2000:]
