# SPDX-License-Identifier: Apache-2.0
"""What a rank computes on: its own GPU and no other, or its share of the processors and no GPU.

Set before anything else touches TensorFlow: afterwards it refuses.
"""

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench_jobs import channel
from gpubench_jobs.failures import RankError


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
