# SPDX-License-Identifier: Apache-2.0
"""What a rank computes on: its own GPU and no other, or its share of the processors and no GPU."""

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench.workloads import Precision
from gpubench_jobs import channel
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import nvidia


def require(precision: Precision, *, capability: tuple[int, int] | None) -> None:
    """RankError when the device cannot compute as asked; `capability` is a GPU's, None is a CPU's."""
    if precision is not Precision.TENSOR_FLOAT32:
        return
    if capability is None:
        found = "this pool's slots have no GPU"
    elif capability < (8, 0):  # Ampere is the first whose matrix units compute so; older ones ignore the switch
        found = f"this GPU has {capability[0]}.{capability[1]}"
    else:
        return
    raise RankError(
        ExitCode.UNSUPPORTED_ACCELERATOR,
        f"tensor_float32 needs a GPU of compute capability 8.0 or above, and {found}: use precision float32",
    )


def claim(config: channel.WorkerConfig) -> tuple[int, int] | None:
    """One GPU by local rank, or none; the threads of the rank's share. Pinning to cores was done by the worker.

    Returns the GPU's compute capability. Before anything else touches TensorFlow: afterwards it refuses.
    """
    capability = None
    if not config.assignment.gpu:
        tf.config.set_visible_devices([], "GPU")
        # Threads beyond the pinned cores would only take turns on them. A GPU rank keeps TensorFlow's own number of
        # inter-op threads, which feed the device.
        tf.config.threading.set_inter_op_parallelism_threads(config.threads)
    else:
        own, workers = config.local_rank, config.assignment.workers_per_node
        found = nvidia.find_driver(own)
        if why := nvidia.why_unusable(found, tf.sysconfig.get_build_info(), local_rank=own, workers=workers):
            raise RankError(ExitCode.UNSUPPORTED_ACCELERATOR, why)
        gpus = tf.config.list_physical_devices("GPU")
        if own >= len(gpus):
            raise RankError(
                ExitCode.UNSUPPORTED_ACCELERATOR,
                f"local rank {own} has no GPU of its own: TensorFlow sees {len(gpus)} of the {found.gpus} that CUDA's "
                "driver shows, and why is unknown: look in the pod's log for what TensorFlow says of GPU libraries",
            )
        tf.config.set_visible_devices([gpus[own]], "GPU")
        tf.config.experimental.set_memory_growth(gpus[own], True)
        capability = found.capability
    tf.config.threading.set_intra_op_parallelism_threads(config.threads)
    return capability
