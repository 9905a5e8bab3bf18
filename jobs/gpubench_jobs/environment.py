# SPDX-License-Identifier: Apache-2.0
"""What a measurement stands on, as this rank finds it: hardware, driver, libraries.

A fact that is not told is absent, never guessed.
"""

import os
import platform
from pathlib import Path

import keras
import tensorflow as tf

from gpubench import names
from gpubench.measure import records
from gpubench_jobs import channel, distribution

_CPU_FACTS = Path("/proc/cpuinfo")
_NVIDIA_DRIVER = Path("/sys/module/nvidia/version")


def describe(orders: channel.Orders) -> records.Environment:
    """The record that opens a pod's log and whose key keeps unlike figures apart."""
    gpu = orders.assignment.gpu
    build = tf.sysconfig.get_build_info() if gpu else {}
    return records.Environment(
        accelerator=_gpu_name() if gpu else _processor_name(),
        driver=_driver() if gpu else None,
        cuda=build.get("cuda_version"),
        cudnn=build.get("cudnn_version"),
        nccl=distribution.nccl_version() if gpu else None,
        transport="nccl" if gpu and distribution.nccl_version() else "gloo",
        tensorflow=tf.__version__,
        horovod=distribution.version(),
        image=os.environ.get(names.ENV_IMAGE) or None,
        python=platform.python_version(),
        keras=keras.__version__,
        kernel=platform.release(),
        node=os.environ.get(names.ENV_NODE_NAME) or None,
        threads_per_rank=orders.threads,
    )


def _gpu_name() -> str:
    (gpu,) = tf.config.get_visible_devices("GPU")
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", "unknown GPU"))


def _processor_name() -> str:
    for line in _CPU_FACTS.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()  # ARM kernels name no model


def _driver() -> str | None:
    try:
        return _NVIDIA_DRIVER.read_text().strip()
    except OSError:
        return None
