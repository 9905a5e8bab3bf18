# SPDX-License-Identifier: Apache-2.0
"""Everything that is Horovod's in a rank: the collectives, and the gradients that they reduce.

Must not happen: `hvd.DistributedOptimizer` in any form. With Keras 3 it trains without reducing anything and reports no
error (seen with Horovod 0.28.1 and TensorFlow 2.16 to 2.21); what is used here are the raw collectives, and a test
compares their result with a single process.
"""

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pydantic
import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench_jobs.engines import launch
from gpubench_jobs.failures import RankError

_T = TypeVar("_T")
Gradient: TypeAlias = tf.Tensor | tf.IndexedSlices


def once(gradient: Gradient) -> Gradient:
    """The same gradient, each row named once. A dense one is returned as it is.

    Gradients of embeddings name the rows that they change. Where a row is named twice Keras 3's RMSprop, Adam and
    Adadelta square the two parts apart (after three steps of Adam a weight differed by 0.12), without an error. None
    may become a dense tensor, which has a row for each word of the vocabulary.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    rows, places = tf.unique(gradient.indices)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(values, rows, gradient.dense_shape)


def united(values: Sequence[tf.Tensor], indices: Sequence[tf.Tensor], *, dense_shape: tf.Tensor) -> tf.IndexedSlices:
    """The sum of gradients that name a row once, in order: GPUs add to one row in any, and ranks would drift apart."""
    rows, places = tf.unique(tf.concat(indices, axis=0))
    total = tf.zeros(tf.concat((tf.shape(rows), tf.shape(values[0])[1:]), axis=0), values[0].dtype)
    for own, place in zip(values, tf.split(places, [tf.size(one) for one in indices]), strict=True):
        total = tf.tensor_scatter_nd_add(total, place[:, tf.newaxis], own)
    return tf.IndexedSlices(total, rows, dense_shape)


def divided(gradient: Gradient, divisor: float | tf.Tensor) -> Gradient:
    """`tf.IndexedSlices` has no arithmetic of its own."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / divisor, gradient.indices, gradient.dense_shape)
    return gradient / divisor


def content(gradient: Gradient) -> tf.Tensor:
    """The numbers of a gradient, wherever they belong."""
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _horovod() -> Any:
    import horovod.tensorflow  # noqa: PLC0415  # threads and device are set up before its kernels are loaded

    return horovod.tensorflow


def connect(*, workers: int) -> None:
    """`hvd.init()`, and the size is checked. Gloo aborts the process when it cannot connect, without an exception."""
    hvd = _horovod()
    hvd.init()
    if hvd.size() != workers:
        raise RankError(
            ExitCode.SIZE_MISMATCH,
            f"Horovod came up with {hvd.size()} ranks in place of {workers}: "
            "the image or the pod sets HOROVOD_ variables of its own",
        )


def disconnect() -> None:
    """After the last collective, on every rank."""
    _horovod().shutdown()


def version() -> str:
    import horovod  # noqa: PLC0415

    return str(horovod.__version__)


def nccl_version() -> str | None:
    """As Horovod was built against; None for a build without NCCL."""
    return str(built) if (built := int(_horovod().nccl_built())) else None


def transport(*, gpu: bool, log: str | None) -> str:
    """What the all-reduce goes over, the same on all ranks; NCCL chooses with its first message. *Not run here*."""
    if not gpu or nccl_version() is None:
        return "gloo"
    with tf.device("GPU:0"):
        _horovod().allreduce(tf.random.uniform([1]), name="first_message").numpy()
    return launch.transport_name(gather(launch.network(launch.read_nccl_log(log)) or ""))


def average(gradients: Sequence[Gradient], *, compress: bool = False, groups: int | None = None) -> list[Gradient]:
    """The mean over all ranks. A dense gradient travels when it is computed, beside the rest of the backward pass.

    Horovod fuses what is ready at a time into one message. A group is a message too, but it waits for its last
    gradient: with one group nothing overlaps. Of an embedding only the rows that a rank has changed are sent, to all.
    (Horovod 0.28.1 does the same, but its group gives a sparse gradient the shape of the tensor that stands in its
    place among all tensors.) `compress` casts the dense ones to float16 for the wire.

    The tensors must be computed, never constants: Grappler folds the all-reduce of a constant away after the first run.
    """
    hvd = _horovod()
    how = {"op": hvd.Average, "compression": hvd.Compression.fp16 if compress else hvd.Compression.none}
    dense = [gradient for gradient in gradients if not isinstance(gradient, tf.IndexedSlices)]
    if groups is None:
        reduced = iter([hvd.allreduce(gradient, **how) for gradient in dense])
    else:  # contiguous parts, whose lengths differ by one at most
        parts = min(groups, len(dense))
        borders = [part * len(dense) // parts for part in range(parts + 1)] if parts else []
        reduced = itertools.chain.from_iterable(
            hvd.grouped_allreduce(dense[begin:end], **how) for begin, end in itertools.pairwise(borders)
        )
    return [_average_rows(one) if isinstance(one, tf.IndexedSlices) else next(reduced) for one in gradients]


def _average_rows(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The mean of gradients each of which names a row once; so does the mean."""
    hvd = _horovod()
    size = hvd.size()
    lengths = hvd.allgather(tf.shape(gradient.indices))
    indices = tf.split(hvd.allgather(gradient.indices), lengths, num=size)
    values = tf.split(hvd.allgather(gradient.values), lengths, num=size)
    return divided(united(values, indices, dense_shape=gradient.dense_shape), size)


def total(values: tf.Tensor) -> tf.Tensor:
    """The sum over all ranks, for figures that each has a part of."""
    hvd = _horovod()
    return hvd.allreduce(values, op=hvd.Sum, name="total")


def broadcast(variables: Sequence[tf.Variable]) -> None:
    """Give every rank the values of rank 0. Raw TensorFlow variables: Keras 3's own are refused."""
    _horovod().broadcast_variables(list(variables), root_rank=0)


def broadcast_value(value: _T) -> _T:
    """Rank 0's value, on every rank. It travels as JSON: Horovod's own broadcast_object would unpickle it."""
    codec: pydantic.TypeAdapter[_T] = pydantic.TypeAdapter(type(value))
    return codec.validate_json(broadcast_bytes(codec.dump_json(value)))


def broadcast_bytes(value: bytes) -> bytes:
    """Rank 0's bytes, on every rank."""
    hvd = _horovod()
    length = int(hvd.broadcast(tf.constant([len(value)], tf.int64), root_rank=0, name="from_first.length")[0])
    # A broadcast needs tensors of one shape on all ranks; what the others have is overwritten.
    own = tf.constant(np.frombuffer(value[:length].ljust(length), np.uint8))
    return bytes(hvd.broadcast(own, root_rank=0, name="from_first.bytes").numpy().tobytes())


def gather(value: _T) -> list[_T]:
    """Every rank's value, in the order of ranks, on every rank; as JSON."""
    hvd = _horovod()
    codec: pydantic.TypeAdapter[_T] = pydantic.TypeAdapter(type(value))
    # JSON without line breaks, one line for each rank: their lengths may differ.
    line = codec.dump_json(value) + b"\n"
    received = hvd.allgather(tf.constant(list(line), tf.uint8), name="gather.lines").numpy().tobytes()
    return [codec.validate_json(one) for one in received.splitlines()]


def gather_bytes(value: bytes) -> list[bytes]:
    """Every rank's bytes, in the order of ranks, on every rank."""
    ends = np.cumsum(gather(len(value))).tolist()
    received = _horovod().allgather(tf.constant(np.frombuffer(value, np.uint8)), name="gather.bytes").numpy().tobytes()
    return [received[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
