# SPDX-License-Identifier: Apache-2.0
"""What a rank computes on: its own GPU and no other, or its share of the processors and no GPU.

Set before anything else touches TensorFlow: afterwards it refuses.
"""

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench.precision import Precision
from gpubench_jobs import channel
from gpubench_jobs.failures import RankError

#: NVIDIA's Ampere: the first whose matrix units compute in TensorFloat-32. Older ones ignore the switch.
_TENSOR_FLOAT32_CAPABILITY = (8, 0)


def require(precision: Precision, *, capability: tuple[int, int] | None) -> None:
    """RankError when the device cannot compute as asked; `capability` is a GPU's, None is a CPU's."""
    if precision is not Precision.TENSOR_FLOAT32:
        return
    if capability is None:
        found = "this pool's slots have no GPU"
    elif capability < _TENSOR_FLOAT32_CAPABILITY:
        found = f"this GPU has {capability[0]}.{capability[1]}"
    else:
        return
    raise RankError(
        ExitCode.UNSUPPORTED_ACCELERATOR,
        f"tensor_float32 needs a GPU of compute capability 8.0 or above, and {found}: use precision float32",
    )


def capability(orders: channel.Orders) -> tuple[int, int] | None:
    """Of the GPU that was claimed; not run here."""
    if not orders.assignment.gpu:
        return None
    (gpu,) = tf.config.get_visible_devices("GPU")
    major, minor = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    return int(major), int(minor)


def claim(orders: channel.Orders) -> None:
    """One GPU by local rank, or none; the threads of the rank's share. Pinning to cores was done by the worker."""
    gpus = tf.config.list_physical_devices("GPU")
    if not orders.assignment.gpu:
        tf.config.set_visible_devices([], "GPU")
        # Threads beyond the pinned cores would only take turns on them. A GPU rank keeps TensorFlow's own number of
        # inter-op threads, which feed the device.
        tf.config.threading.set_inter_op_parallelism_threads(orders.threads)
    elif orders.local_rank >= len(gpus):
        raise RankError(
            ExitCode.UNSUPPORTED_ACCELERATOR,
            f"local rank {orders.local_rank} found no GPU of its own: TensorFlow sees {len(gpus)}; "
            "check the image's CUDA against the node's driver, and the pod's GPU request",
        )
    else:
        gpu = gpus[orders.local_rank]
        tf.config.set_visible_devices([gpu], "GPU")
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.threading.set_intra_op_parallelism_threads(orders.threads)
