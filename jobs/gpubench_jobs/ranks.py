# SPDX-License-Identifier: Apache-2.0
"""Which ranks a pod runs, on which processors, and what Horovod must find in their environment. Pure arithmetic.

The variables are what `horovodrun` itself sets for Gloo (horovod.runner.common.util.hosts and horovod.runner.gloo_run
in Horovod 0.28.1); a process without them runs silently as rank 0 of 1, hence the check of `hvd.size()` in the worker.
"""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpubench import names
from gpubench.api.sweep import Communication
from gpubench.plan import assignment as assignments
from gpubench_jobs import nccl

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


@dataclass(frozen=True)
class Rank:
    """One Horovod process of a gang."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    pod: int
    pods: int


def of_pod(assignment: assignments.Assignment, *, pod: int) -> tuple[Rank, ...]:
    """The ranks of one pod; ValueError when the assignment has no such pod or cannot be divided into pods."""
    size, local_size = assignment.workers, assignment.workers_per_node
    if size % local_size:
        raise ValueError(
            f"{size} workers cannot be divided into pods of {local_size}: make one a multiple of the other"
        )
    pods = size // local_size
    if not 0 <= pod < pods:
        raise ValueError(
            f"pod index {pod} is not among the {pods} pods of {size} workers: correct {names.ENV_POD_INDEX}"
        )
    return tuple(
        Rank(
            rank=pod * local_size + local_rank,
            size=size,
            local_rank=local_rank,
            local_size=local_size,
            pod=pod,
            pods=pods,
        )
        for local_rank in range(local_size)
    )


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
    horovod = environment(rank, rendezvous_address=rendezvous_address, interface=interface)
    tuned = tuning(communication or Communication())
    gpu = {} if nccl_log is None else {**_GPU_THREADS, **nccl.variables(nccl_log)}
    return {"NCCL_SOCKET_IFNAME": interface, **gpu, **kept, **_FIXED, **horovod, **tuned}


def tuning(communication: Communication) -> dict[str, str]:
    """How Horovod gathers gradients into messages; what is not given stays Horovod's own, or the image's."""
    variables = {}
    if communication.fusion_threshold_mib is not None:
        variables["HOROVOD_FUSION_THRESHOLD"] = str(communication.fusion_threshold_mib * 2**20)  # in bytes
    if communication.cycle_time_milliseconds is not None:
        variables["HOROVOD_CYCLE_TIME"] = str(communication.cycle_time_milliseconds)
    return variables


def environment(rank: Rank, *, rendezvous_address: str, interface: str) -> dict[str, str]:
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


def threads(processors: float) -> int:
    """Intra-op threads of a rank: never more than its share, at least one."""
    return max(1, math.floor(processors))


def share_cores(
    cores: Iterable[int], *, ranks: int, processors: float, alone: bool
) -> tuple[tuple[int, ...], ...] | None:
    """Disjoint sets of cores, one for each local rank, as many in each as the rank has threads. None: do not pin.

    A set of exactly the cores that are needed was reserved for this pod. A larger one is the whole node's: unless the
    pod is alone there, its neighbours see the same set, and all would take the same first cores.
    ValueError when the pod has too few: ranks that share a core would make every figure of scaling meaningless.
    """
    own = sorted(cores)
    each = threads(processors)
    if ranks * each > len(own):
        raise ValueError(
            f"{ranks} ranks of {each} processors do not fit the {len(own)} processors of this pod: "
            "give the pool's nodes fewer slots or smaller ones"
        )
    if len(own) > ranks * each and not alone:
        return None
    return tuple(tuple(own[n * each : (n + 1) * each]) for n in range(ranks))
