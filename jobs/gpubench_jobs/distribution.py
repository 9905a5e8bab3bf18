# SPDX-License-Identifier: Apache-2.0
"""Everything that is Horovod, and the only module that imports it.

Must not happen: `hvd.DistributedOptimizer` in any form. With Keras 3 it trains without reducing anything and reports no
error (seen with Horovod 0.28.1 and TensorFlow 2.16 to 2.21); what is used here are the raw collectives, and a test
compares their result with a single process.

Imports are inside the functions: the launcher needs the rendezvous server but must not load TensorFlow, and a worker
must set up its threads and its device before Horovod loads TensorFlow's kernels.
"""

# ruff: noqa: PLC0415  # the reason for imports inside functions stands above

import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from gpubench.exitcodes import ExitCode
from gpubench_jobs import nccl, ranks
from gpubench_jobs.failures import RankError

if TYPE_CHECKING:
    import tensorflow as tf

    from gpubench_jobs import slices


_T = TypeVar("_T")
_RENDEZVOUS_METHODS = ("GET", "PUT", "DELETE")


def serve_rendezvous(
    *, address: str, port: int, hosts: int, slots: int, admits: Callable[[str], bool] = lambda _: True
) -> None:
    """Horovod's own key-value server on a fixed port of this pod, in the background; needed until `hvd.init()` is over.

    `RendezvousServer.start()` would pick a random port, which no NetworkPolicy can name. Horovod's server asks nobody
    who he is, and its client could not answer: only addresses that `admits` knows are let in.
    """
    from horovod.runner.common.util import hosts as horovod_hosts
    from horovod.runner.http import http_server

    class Handler(http_server.RendezvousHandler):  # type: ignore[misc]  # Horovod has no types
        def parse_request(self) -> bool:
            """False ends the request, which has been answered."""
            if not super().parse_request():
                return False
            if self.command not in _RENDEZVOUS_METHODS:  # its base class shows files of the working directory
                self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
                return False
            if not admits(self.client_address[0]):
                self.send_error(HTTPStatus.FORBIDDEN, "no pod of this gang has joined from this address")
                return False
            return True

    listed = ",".join(f"{ranks.host_name(pod)}:{slots}" for pod in range(hosts))
    plan = horovod_hosts.get_host_assignments(horovod_hosts.parse_hosts(listed), hosts * slots)
    server = http_server.RendezvousHTTPServer((address, port), Handler, 0)
    server.daemon_threads = True
    server.init(plan)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _horovod() -> Any:
    import horovod.tensorflow

    return horovod.tensorflow


def connect(*, workers: int) -> None:
    """`hvd.init()`, and the proof that the gang has the size it was given.

    Gloo aborts the process when it cannot connect; no exception comes out of here for that.
    """
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
    """Horovod's own."""
    import horovod

    return str(horovod.__version__)


def nccl_version() -> str | None:
    """As Horovod was built against; None for a build without NCCL."""
    built = int(_horovod().nccl_built())
    return str(built) if built else None


def transport(*, gpu: bool, log: str | None) -> str:
    """What the all-reduce goes over, the same on all ranks: gloo, or nccl and the network that it has chosen.

    NCCL chooses with its first message, so a small one is sent before; that is not run here.
    """
    if not gpu or nccl_version() is None:
        return "gloo"
    import tensorflow as tf

    with tf.device("GPU:0"):
        _horovod().allreduce(tf.random.uniform([1]), name="first_message").numpy()
    return nccl.transport(gather(nccl.network(nccl.said(log)) or ""))


def average(
    gradients: "Sequence[slices.Gradient]", *, compress: bool = False, groups: int | None = None
) -> "list[slices.Gradient]":
    """The mean over all ranks. A dense gradient travels when it is computed, beside the rest of the backward pass.

    Horovod fuses what is ready at a time into one message. A group is a message too, but it waits for its last
    gradient: with one group nothing overlaps. Of an embedding only the rows that a rank has changed are sent, to all.
    (Horovod 0.28.1 does the same, but its group gives a sparse gradient the shape of the tensor that stands in its
    place among all tensors.) `compress` casts the dense ones to float16 for the wire.

    The tensors must be computed, never constants: Grappler folds the all-reduce of a constant away after the first run.
    """
    import tensorflow as tf

    hvd = _horovod()
    how = {"op": hvd.Average, "compression": hvd.Compression.fp16 if compress else hvd.Compression.none}
    dense = [gradient for gradient in gradients if not isinstance(gradient, tf.IndexedSlices)]
    if groups is None:
        reduced = iter([hvd.allreduce(gradient, **how) for gradient in dense])
    else:
        reduced = itertools.chain.from_iterable(
            hvd.grouped_allreduce(group, **how) for group in _contiguous(dense, min(groups, len(dense)))
        )
    return [_average_rows(one) if isinstance(one, tf.IndexedSlices) else next(reduced) for one in gradients]


def _contiguous(values: "list[_T]", parts: int) -> "Iterator[list[_T]]":
    """As many parts, whose lengths differ by one at most."""
    for part in range(parts):
        yield values[part * len(values) // parts : (part + 1) * len(values) // parts]


def _average_rows(gradient: "tf.IndexedSlices") -> "tf.IndexedSlices":
    """The mean of gradients each of which names a row once; so does the mean."""
    import tensorflow as tf

    from gpubench_jobs import slices

    hvd = _horovod()
    size = hvd.size()
    lengths = hvd.allgather(tf.shape(gradient.indices))
    indices = tf.split(hvd.allgather(gradient.indices), lengths, num=size)
    values = tf.split(hvd.allgather(gradient.values), lengths, num=size)
    return slices.divided(slices.united(values, indices, dense_shape=gradient.dense_shape), size)


def total(values: "tf.Tensor") -> "tf.Tensor":
    """The sum over all ranks, for figures that each has a part of."""
    hvd = _horovod()
    return hvd.allreduce(values, op=hvd.Sum, name="total")


def spread(variables: "Sequence[tf.Variable]") -> None:
    """Give every rank the values of rank 0. Raw TensorFlow variables: Keras 3's own are refused."""
    _horovod().broadcast_variables(list(variables), root_rank=0)


def from_first(value: _T) -> _T:
    """Rank 0's value, on every rank. It travels as JSON: Horovod's own broadcast_object would unpickle it."""
    import tensorflow as tf

    hvd = _horovod()
    codec: pydantic.TypeAdapter[_T] = pydantic.TypeAdapter(type(value))
    text = codec.dump_json(value)
    length = int(hvd.broadcast(tf.constant([len(text)], tf.int64), root_rank=0, name="from_first.length")[0])
    # A broadcast needs tensors of one shape on all ranks; what the others have is overwritten.
    own = tf.constant(list(text[:length].ljust(length)), tf.uint8)
    received = hvd.broadcast(own, root_rank=0, name="from_first.text")
    return codec.validate_json(received.numpy().tobytes())


def gather(value: _T) -> list[_T]:
    """Every rank's value, in the order of ranks, on every rank; as JSON."""
    import tensorflow as tf

    hvd = _horovod()
    codec: pydantic.TypeAdapter[_T] = pydantic.TypeAdapter(type(value))
    # JSON without line breaks, one line for each rank: their lengths may differ.
    line = codec.dump_json(value) + b"\n"
    received = hvd.allgather(tf.constant(list(line), tf.uint8), name="gather.lines").numpy().tobytes()
    return [codec.validate_json(one) for one in received.splitlines()]


def gather_bytes(value: bytes) -> list[bytes]:
    """Every rank's bytes, in the order of ranks, on every rank."""
    import numpy as np
    import tensorflow as tf

    ends = np.cumsum(gather(len(value))).tolist()
    received = _horovod().allgather(tf.constant(np.frombuffer(value, np.uint8)), name="gather.bytes").numpy().tobytes()
    return [received[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def bytes_from_first(value: bytes) -> bytes:
    """Rank 0's bytes, on every rank."""
    import numpy as np
    import tensorflow as tf

    hvd = _horovod()
    own = np.zeros(from_first(len(value)), np.uint8)  # a broadcast needs tensors of one shape on all ranks
    if hvd.rank() == 0:
        own = np.frombuffer(value, np.uint8)
    received: bytes = hvd.broadcast(tf.constant(own), root_rank=0, name="from_first.bytes").numpy().tobytes()
    return received


def is_peer_loss(error: BaseException) -> bool:
    """Whether an exception of a step or a collective means that another rank went away.

    Horovod reports it as UnknownError of the operation ("Connection reset by peer", "Timed out waiting", "Horovod has
    been shut down") or as HorovodInternalError; other operations raise UnknownError too, so the name must be in it.
    """
    exceptions = sys.modules.get("horovod.common.exceptions")
    if exceptions is not None and isinstance(error, exceptions.HorovodInternalError):
        return True
    return type(error).__name__ == "UnknownError" and "horovod" in str(error).lower()
