# SPDX-License-Identifier: Apache-2.0
"""Everything that is Horovod, and the only module that imports it.

Must not happen: `hvd.DistributedOptimizer` in any form. With Keras 3 it trains without reducing anything and reports no
error (seen with Horovod 0.28.1 and TensorFlow 2.16 to 2.21); what is used here are the raw collectives, and a test
compares their result with a single process.

Imports are inside the functions: the launcher needs the rendezvous server but must not load TensorFlow, and a worker
must set up its threads and its device before Horovod loads TensorFlow's kernels.

What NCCL says of the ways that it has chosen between GPUs: by which network, and by which kinds of links.

Nobody else tells: with a plugin that did not load, or a device that is not in the pod, NCCL goes over TCP and says so
in its log only. It writes that log where it is told to
(https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html).

Not run here: the lines that are read are those of published logs (`tests/jobs/test_nccl.py`). A log of another form, or
none, tells nothing; it must never end a run.
"""


# ruff: noqa: PLC0415  # the reason for imports inside functions stands above

import itertools
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from gpubench import names, records
from gpubench.api.sweep import Communication
from gpubench.exitcodes import ExitCode
from gpubench_jobs.channel import Rank
from gpubench_jobs.failures import RankError

if TYPE_CHECKING:
    import tensorflow as tf

    from gpubench_jobs.engines import slices

_T = TypeVar("_T")
#: Horovod has one time-out for the rendezvous and for noticing, later, a node that vanished without closing its
#: connections. The join barrier leaves only the imports of TensorFlow to differ between ranks; on a crowded machine
#: they take half a minute.
GLOO_TIMEOUT_SECONDS = 60
#: What an image, a user's shell or a user's files must not change for a worker. Keras reads KERAS_HOME/keras.json, and
#: writes one: in a place that is no folder it does neither.
_FIXED = {"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0", "KERAS_HOME": os.devnull}
#: Threads of its own launch a GPU's kernels, and do not wait behind the input pipeline; the pod may say otherwise.
_GPU_THREADS = {"TF_GPU_THREAD_MODE": "gpu_private"}
#: NVIDIA's libraries obey the first before TensorFlow's own switch, and float32 would not be what it says; the token is
#: for launchers, which alone speak to other pods'.
_DROPPED = frozenset({"NVIDIA_TF32_OVERRIDE", names.ENV_GANG_TOKEN})
_RENDEZVOUS_METHODS = ("GET", "PUT", "DELETE")


def host_name(pod: int) -> str:
    """What Horovod groups ranks by: the same inside a pod and unique among pods, whatever the machines are called."""
    return f"pod-{pod}"


def worker_environment(
    rank: Rank,
    *,
    inherited: Mapping[str, str],
    rendezvous_address: str,
    interface: str,
    communication: Communication | None = None,
    nccl_log: Path | None = None,
) -> dict[str, str]:
    """All that a worker finds: the pod's variables, less what would change the arithmetic, and Horovod's.

    `nccl_log` is given to ranks with a GPU: NCCL writes there which ways it has chosen, unless the pod's variables say
    otherwise.
    """
    kept = {name: value for name, value in inherited.items() if name not in _DROPPED}
    ours = horovod_environment(rank, rendezvous_address=rendezvous_address, interface=interface)
    tuned = tuning(communication or Communication())
    gpu = {} if nccl_log is None else {**_GPU_THREADS, **nccl_variables(nccl_log)}
    return {"NCCL_SOCKET_IFNAME": interface, **gpu, **kept, **_FIXED, **ours, **tuned}


def tuning(communication: Communication) -> dict[str, str]:
    """How Horovod gathers gradients into messages; what is not given stays Horovod's own, or the image's."""
    variables = {}
    if communication.fusion_threshold_mib is not None:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(communication.fusion_threshold_mib * 2**20)  # in bytes
    if communication.cycle_time_milliseconds is not None:
        variables["HOROVOD_CYCLE_TIME"] = str(communication.cycle_time_milliseconds)
    return variables


def horovod_environment(rank: Rank, *, rendezvous_address: str, interface: str) -> dict[str, str]:
    """The variables that Horovod reads in `hvd.init()`. The address is resolved: Horovod looks names up per request."""
    return {
        "HOROVOD_RANK": str(rank.rank),
        "HOROVOD_SIZE": str(rank.size),
        "HOROVOD_LOCAL_RANK": str(rank.local_rank),
        "HOROVOD_LOCAL_SIZE": str(rank.local_size),
        "HOROVOD_CROSS_RANK": str(rank.pod),
        "HOROVOD_CROSS_SIZE": str(rank.pods),
        "HOROVOD_HOSTNAME": host_name(rank.pod),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": rendezvous_address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(names.PORT_RENDEZVOUS),
        "HOROVOD_GLOO_IFACE": interface,
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(GLOO_TIMEOUT_SECONDS),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }


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

    listed = ",".join(f"{host_name(pod)}:{slots}" for pod in range(hosts))
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
    return transport_name(gather(network(read_nccl_log(log)) or ""))


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

    from gpubench_jobs.engines import slices

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


def broadcast(variables: "Sequence[tf.Variable]") -> None:
    """Give every rank the values of rank 0. Raw TensorFlow variables: Keras 3's own are refused."""
    _horovod().broadcast_variables(list(variables), root_rank=0)


def broadcast_value(value: _T) -> _T:
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


def broadcast_bytes(value: bytes) -> bytes:
    """Rank 0's bytes, on every rank."""
    import numpy as np
    import tensorflow as tf

    hvd = _horovod()
    own = np.zeros(broadcast_value(len(value)), np.uint8)  # a broadcast needs tensors of one shape on all ranks
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


ENV_NCCL_LOG = "NCCL_DEBUG_FILE"
_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$", re.MULTILINE)
#: `Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2(3)/GDRDMA comm 0x12 nRanks 16`; old versions write Ring for Channel.
_LINK = re.compile(
    r"NCCL INFO (?:Channel|Ring) \S+ : \S+ -> \S+ (?:\[\w+\] )?via (\S.*?)(?: comm 0x\S+.*)?\s*$", re.MULTILINE
)
_NUMBER = re.compile(r"\d+(\(\d+\))?")  # which adapter
_NET, _DIRECT = "NET", "GDRDMA"  # GPUDirect: the adapter reads the GPU's memory by itself
_OLD_SHARED_MEMORY = "direct shared memory"
_LOG_MAX = 16 * 2**20
NETWORK_MAX = 19  # with "nccl " before it, what a status shows of a fact


def nccl_log_file(rank: int) -> Path:
    """A file for a rank of this launcher's, in the pod's own scratch folder."""
    return Path(tempfile.gettempdir()) / f"gpubench-nccl-{os.getpid()}-{rank}.log"


def nccl_variables(log: Path) -> dict[str, str]:
    """What NCCL must find to say it, in a file of its own: each rank's log has some hundred lines at its beginning."""
    return {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", ENV_NCCL_LOG: str(log)}


def read_nccl_log(log: str | None) -> str:
    """What this rank's NCCL has written so far; nothing where it was sent elsewhere."""
    try:
        if log is None or not Path(log).is_file():
            return ""
        with Path(log).open("rb") as file:
            return file.read(_LOG_MAX).decode(errors="replace")
    except OSError:
        return ""


def network(text: str) -> str | None:
    """The network that was chosen for other nodes, by the name that NCCL or its plugin has for it.

    `AWS Libfabric` is EFA, `gIB`, `FasTrak` and `GPUDirectTCPX` are Google's, `IB` is InfiniBand or RoCE, `Socket` TCP.
    """
    found = _NETWORK.findall(text)
    return found[-1][:NETWORK_MAX] if found else None


def links(text: str) -> frozenset[str]:
    """Kinds of links in use: `P2P/CUMEM`, `SHM/direct`, `NET/AWS Libfabric/GDRDMA`. Which adapter is left out."""
    return frozenset(map(_kind, _LINK.findall(text)))


def joined_links(found: Iterable[Iterable[str]]) -> str | None:
    """The links of all ranks in words, sorted; None where there are none."""
    listed = records.LINKS_BETWEEN.join(sorted({link for links_of_rank in found for link in links_of_rank}))
    return listed[: records.LINKS_MAX] or None


def transport_name(networks: Iterable[str]) -> str:
    """What the environment calls the all-reduce, from the networks of all ranks: the same on all, so that keys are."""
    return f"nccl {'+'.join(sorted(set(filter(None, networks))))}".strip()


def _kind(way: str) -> str:
    if way == _OLD_SHARED_MEMORY:
        return "SHM/direct"
    kind, *rest = way.split("/")
    named = [part for part in rest if not _NUMBER.fullmatch(part)]
    if kind == _NET:
        return "/".join([kind, *named[:1], *([_DIRECT] if _DIRECT in named else [])])
    return "/".join([kind, *named[:1]])
