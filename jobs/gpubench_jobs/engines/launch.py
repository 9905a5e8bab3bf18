# SPDX-License-Identifier: Apache-2.0
"""Horovod and NCCL without TensorFlow: the rendezvous, the variables of a rank, and what NCCL's log says.

The variables are what `horovodrun` itself sets for Gloo (horovod.runner.common.util.hosts and horovod.runner.gloo_run
in Horovod 0.28.1). Only NCCL's log tells which ways it has chosen between GPUs. *Not run here*: the lines that are
read are those of published logs (`tests/jobs/test_nccl.py`). A log of another form, or none, never ends a run.
"""

import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from pathlib import Path

from gpubench import names, records
from gpubench.plan.assignment import Assignment

#: Horovod has one time-out for the rendezvous and for noticing, later, a node that vanished without closing its
#: connections. The join barrier leaves only the imports of TensorFlow to differ between ranks; on a crowded machine
#: they take half a minute.
GLOO_TIMEOUT_SECONDS = 60
#: What an image, a user's shell or a user's files must not change for a worker. Keras reads KERAS_HOME/keras.json, and
#: writes one: in a place that is no folder it does neither.
_FIXED = {"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0", "KERAS_HOME": os.devnull}
#: NVIDIA's libraries obey the first before TensorFlow's own switch, and float32 would not be what it says; the token is
#: for launchers, which alone speak to other pods'.
_DROPPED = frozenset({"NVIDIA_TF32_OVERRIDE", names.ENV_GANG_TOKEN})
ENV_NCCL_LOG = "NCCL_DEBUG_FILE"
_NETWORK = re.compile(r"NCCL INFO Using network (\S.*?)\s*$", re.MULTILINE)
#: `Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/2(3)/GDRDMA comm 0x12 nRanks 16`; old versions write Ring for Channel.
_LINK = re.compile(
    r"NCCL INFO (?:Channel|Ring) \S+ : \S+ -> \S+ (?:\[\w+\] )?via (\S.*?)(?: comm 0x\S+.*)?\s*$", re.MULTILINE
)
#: What Horovod groups ranks by: the same inside a pod and unique among pods, whatever the machines are called.
_HOST_NAME = "pod-{}"
NETWORK_MAX = 19  # with "nccl " before it, what a status shows of a fact


def worker_environment(
    assignment: Assignment, rank: int, *, inherited: Mapping[str, str], rendezvous_address: str, interface: str
) -> dict[str, str]:
    """All that a worker finds: the pod's variables, less what would change the arithmetic, and Horovod's."""
    kept = {name: value for name, value in inherited.items() if name not in _DROPPED}
    ours = horovod_environment(assignment, rank, rendezvous_address=rendezvous_address, interface=interface)
    if assignment.variant is not None:  # what it does not give stays Horovod's own, or the image's
        communication = assignment.variant.communication
        if communication.fusion_threshold_mib is not None:
            ours["HOROVOD_FUSION_THRESHOLD"] = str(communication.fusion_threshold_mib * 2**20)  # in bytes
        if communication.cycle_time_milliseconds is not None:
            ours["HOROVOD_CYCLE_TIME"] = str(communication.cycle_time_milliseconds)
    gpu = {}
    if assignment.gpu:
        # Threads of its own launch a GPU's kernels, and do not wait behind the input pipeline; the pod may differ.
        gpu = {"TF_GPU_THREAD_MODE": "gpu_private"}
        # What NCCL must find to say it, in a file of its own: each rank's log has some hundred lines at its beginning.
        gpu |= {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}
        gpu[ENV_NCCL_LOG] = f"{tempfile.gettempdir()}/gpubench-nccl-{os.getpid()}-{rank}.log"
    return {"NCCL_SOCKET_IFNAME": interface, **gpu, **kept, **_FIXED, **ours}


def horovod_environment(
    assignment: Assignment, rank: int, *, rendezvous_address: str, interface: str
) -> dict[str, str]:
    """The variables that Horovod reads in `hvd.init()`. The address is resolved: Horovod looks names up per request."""
    pod, local_rank = divmod(rank, assignment.workers_per_node)
    return {
        "HOROVOD_RANK": str(rank),
        "HOROVOD_SIZE": str(assignment.workers),
        "HOROVOD_LOCAL_RANK": str(local_rank),
        "HOROVOD_LOCAL_SIZE": str(assignment.workers_per_node),
        "HOROVOD_CROSS_RANK": str(pod),
        "HOROVOD_CROSS_SIZE": str(assignment.nodes),
        "HOROVOD_HOSTNAME": _HOST_NAME.format(pod),
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
    from horovod.runner.common.util import hosts as horovod_hosts  # noqa: PLC0415  # only pod 0 needs it
    from horovod.runner.http import http_server  # noqa: PLC0415

    class Handler(http_server.RendezvousHandler):  # type: ignore[misc]  # Horovod has no types
        def parse_request(self) -> bool:
            """False ends the request, which has been answered."""
            if not super().parse_request():
                return False
            if self.command not in ("GET", "PUT", "DELETE"):  # its base class shows files of the working directory
                self.send_error(HTTPStatus.METHOD_NOT_ALLOWED)
                return False
            if not admits(self.client_address[0]):
                self.send_error(HTTPStatus.FORBIDDEN, "no pod of this gang has joined from this address")
                return False
            return True

    listed = ",".join(f"{_HOST_NAME.format(pod)}:{slots}" for pod in range(hosts))
    plan = horovod_hosts.get_host_assignments(horovod_hosts.parse_hosts(listed), hosts * slots)
    server = http_server.RendezvousHTTPServer((address, port), Handler, 0)
    server.daemon_threads = True
    server.init(plan)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def read_nccl_log(log: str | None) -> str:
    """What this rank's NCCL has written so far; nothing where it was sent elsewhere."""
    try:
        if log is None or not Path(log).is_file():
            return ""
        with Path(log).open("rb") as file:
            return file.read(16 * 2**20).decode(errors="replace")
    except OSError:
        return ""


def network(text: str) -> str | None:
    """The network that was chosen for other nodes, by the name that NCCL or its plugin has for it.

    `AWS Libfabric` is EFA, `gIB`, `FasTrak` and `GPUDirectTCPX` are Google's, `IB` is InfiniBand or RoCE, `Socket` TCP.
    """
    return found[-1][:NETWORK_MAX] if (found := _NETWORK.findall(text)) else None


def links(text: str) -> frozenset[str]:
    """Kinds of links in use: `P2P/CUMEM`, `SHM/direct`, `NET/AWS Libfabric/GDRDMA`. Which adapter is left out."""
    return frozenset(map(_kind, _LINK.findall(text)))


def joined_links(found: Iterable[Iterable[str]]) -> str | None:
    """The links of all ranks in words, sorted; None where there are none."""
    return records.LINKS_BETWEEN.join(sorted(set().union(*found)))[: records.LINKS_MAX] or None


def transport_name(networks: Iterable[str]) -> str:
    """What the environment calls the all-reduce, from the networks of all ranks: the same on all, so that keys are."""
    return f"nccl {'+'.join(sorted(set(filter(None, networks))))}".strip()


def _kind(way: str) -> str:
    if way == "direct shared memory":  # of old versions
        return "SHM/direct"
    kind, *rest = way.split("/")
    named = [part for part in rest if not re.fullmatch(r"\d+(\(\d+\))?", part)]  # which adapter
    direct = ["GDRDMA"] if kind == "NET" and "GDRDMA" in named else []  # the adapter reads the GPU's memory by itself
    return "/".join([kind, *named[:1], *direct])
