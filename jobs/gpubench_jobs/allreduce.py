# SPDX-License-Identifier: Apache-2.0
"""The workload allreduce: no model, only the collective that training waits for, on a message of a given size.

`batchPerWorker` is the number of elements of the message, 4 bytes each, or 2 with precision mixed_float16. A step is
one all-reduce of the whole message, the mean over all ranks as in training; it works on what the step before has left,
so that no two overlap and none can be left out. Its figures follow from a step's time t, the message's bytes S and n
ranks, as nccl-tests define them (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md):

    algorithm bandwidth = S / t
    bus bandwidth       = S / t * 2 (n - 1) / n

The first is what a program sees. The second is what each link must carry, whatever n is, because a ring sends 2 (n - 1)
/ n of the message over each; it is the one to compare with the hardware.

The digest at the end is the message's: ranks begin with different ones, so equal digests show that they were reduced.
"""

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.workloads import Precision
from gpubench_jobs import train
from gpubench_jobs.failures import RankError


def message(assignment: Assignment, *, seed: int) -> tf.Variable:
    """This rank's own message."""
    if assignment.precision is Precision.MIXED_BFLOAT16:
        raise RankError(
            ExitCode.BAD_ASSIGNMENT,
            "Horovod 0.28.1 has no all-reduce of bfloat16 for TensorFlow: use mixed_float16, whose elements have as "
            "many bytes",
        )
    kind = tf.float16 if assignment.precision is Precision.MIXED_FLOAT16 else tf.float32
    drawn = tf.random.stateless_uniform((assignment.batch_per_worker,), seed=(seed, 1), minval=-1.0, maxval=1.0)
    return tf.Variable(tf.cast(drawn, kind), trainable=False)


def compile_run(message: tf.Variable, *, reduce: train.Reduce) -> train.Run:
    """So many all-reduces, one after the other; in place of a loss the first element."""

    def step(_: tuple[()]) -> tuple[tf.Tensor, int]:
        message.assign(reduce([message.read_value()])[0])
        return tf.cast(message[0], tf.float32), message.shape[0]

    return train.Loop(step, ())
