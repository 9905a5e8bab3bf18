# SPDX-License-Identifier: Apache-2.0
"""A short test of a rank's device before it trains, to tell a weak node from others of its pool.

A product of matrices in float32, the addition of one long array to another, and with several ranks an all-reduce; each
for about half a second, on all ranks at once. Absolute figures mean little: they are for comparing nodes of a pool.
"""

import gc
from functools import partial

import tensorflow as tf

from gpubench import records
from gpubench_jobs import clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.engines import horovod
from gpubench_jobs.worker import builder, train
from gpubench_jobs.worker.session import Session

#: Of each of the tests, by rank 0's clock. Long enough for the scheduler's turns, short enough for three of them.
_SECONDS = 0.5
#: A GPU needs a larger product than a core to be busy; both then take some 10 to 100 ms.
_MATRIX = {True: 4096, False: 1024}
#: Numbers of 4 bytes: 64 MiB, more than most caches hold, and twice that is little beside what a model takes.
_ARRAY = 2**24
_MESSAGE = 2**22  # 16 MiB


def check(rank: Session) -> records.Health | None:
    """The record, sent by now; None where not asked for. On all ranks at once; arithmetic without TensorFloat-32."""
    if not rank.assignment.health_check:
        return None
    begun, ranks = rank.now(), rank.assignment.workers
    asked, size = tf.config.experimental.tensor_float_32_execution_enabled(), _MATRIX[rank.assignment.gpu]
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        arithmetic = _per_second(rank, _products(size)) * 2 * size**3
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(asked)
    memory = _per_second(rank, _additions()) * 3 * _ARRAY * 4  # two are read, one is written
    reductions = None
    if ranks > 1:  # bus bandwidth, see `builder`
        message = tf.Variable(tf.random.stateless_normal((_MESSAGE,), seed=(3, 3)), trainable=False)
        loop = builder.compile_allreduce(message, reduce=horovod.average)
        reductions = _per_second(rank, loop, phase=Phase.AGREEING) * _MESSAGE * 4 * 2 * (ranks - 1) / ranks
    gc.collect()  # traced functions hold each other and, with them, memory that belongs to the training
    health = records.Health(
        rank=rank.rank,
        arithmetic=arithmetic,
        memory=memory,
        allreduce=reductions,
        seconds=clock.seconds(rank.now() - begun),
    )
    rank.writer.send(health)
    return health


def _per_second(rank: Session, run: train.Loop, *, phase: Phase = Phase.CHECKING) -> float:
    """How often in a second the device does it; begun by all ranks together, and by all as often."""
    call = partial(rank.call, run, phase=phase)
    call(1)  # traced, and kernels chosen
    times = rank.agreed(max(1, min(1000, round(_SECONDS / call(1)))))
    return times / call(times)


def _products(size: int) -> train.Loop:
    """Each product is the next one's left side; the right side is a reflection, so that no number grows or vanishes.

    (A. S. Householder, "Unitary triangularization of a nonsymmetric matrix", J. ACM 5, 1958: I - 2 v v' / v'v.)
    """
    axis = tf.random.stateless_normal((size, 1), seed=(1, 1))
    mirror = tf.eye(size) - 2.0 * axis * tf.transpose(axis) / tf.reduce_sum(axis**2)
    matrix = tf.Variable(tf.random.stateless_normal((size, size), seed=(2, 2)), trainable=False)

    def step(state: tuple[tf.Tensor]) -> tuple[tf.Tensor, int]:
        matrix.assign(tf.matmul(matrix.read_value(), state[0]))
        return matrix[0, 0], 0

    return train.Loop(step, (mirror,))


def _additions() -> train.Loop:
    """One array to another, in its place: nothing is allocated, which would take longer than the pass over memory."""
    array = tf.Variable(tf.zeros((_ARRAY,)), trainable=False)

    def step(state: tuple[tf.Tensor]) -> tuple[tf.Tensor, int]:
        with tf.control_dependencies([array.assign_add(state[0])]):
            return tf.identity(state[0][0]), 0  # not the array's: somebody who still reads it would have it copied

    return train.Loop(step, (tf.ones((_ARRAY,)),))
