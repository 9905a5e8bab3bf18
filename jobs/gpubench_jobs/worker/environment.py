# SPDX-License-Identifier: Apache-2.0
"""What a measurement stands on, as this rank finds it: hardware, driver, libraries, and what the pod may use of them.

A fact that is not told is absent, never guessed: no driver answers, a card lacks a sensor, a kernel lacks a file. None
of that may end a run.
"""

import os
import platform
from pathlib import Path
from typing import Any

import keras
import psutil
import tensorflow as tf

from gpubench import names, records
from gpubench.values import content_id
from gpubench_jobs import channel
from gpubench_jobs.engines import horovod
from gpubench_jobs.worker import nvidia

_PROCESSOR_LIMIT_1 = tuple(Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
#: Instruction sets that libraries choose their arithmetic by, on x86 and on ARM.
_ARITHMETIC = ("avx", "amx", "fma", "f16c", "asimd", "sve", "sme", "bf16", "i8mm")


def describe(config: channel.WorkerConfig, *, transport: str = "gloo") -> records.Environment:
    """The record that opens a pod's log and whose key keeps unlike figures apart."""
    gpu = config.assignment.gpu
    build = tf.sysconfig.get_build_info() if gpu else {}
    processor = cpu_facts(_text(Path("/proc/cpuinfo")))
    accelerator, found = processor.get("processor") or platform.machine(), dict[str, Any]()  # ARM kernels name none
    if gpu:
        (device,) = tf.config.get_visible_devices("GPU")
        accelerator = tf.config.experimental.get_device_details(device).get("device_name", "unknown GPU")
        found = {
            "gpus": len(tf.config.list_physical_devices("GPU")),
            **nvidia.gpu_facts(config.assignment.workers_per_node, local_rank=config.local_rank),
        }
    driver = found.pop("driver", None)
    # Quota and period, in the form of cgroup v2 also where there is v1.
    limit = _text(Path("/sys/fs/cgroup/cpu.max")) or " ".join(map(_text, _PROCESSOR_LIMIT_1))
    return records.Environment(
        accelerator=accelerator,
        driver=(_text(Path("/sys/module/nvidia/version")) or driver) if gpu else None,
        cuda=build.get("cuda_version"),
        cudnn=build.get("cudnn_version"),
        nccl=horovod.nccl_version() if gpu else None,
        transport=transport,
        framework="TensorFlow",
        framework_version=tf.__version__,
        collectives="Horovod",
        collectives_version=horovod.version(),
        image=os.environ.get(names.ENV_IMAGE) or None,
        python=platform.python_version(),
        front_end=f"Keras {keras.__version__}",
        kernel=platform.release(),
        node=os.environ.get(names.ENV_NODE_NAME) or None,
        threads_per_rank=config.threads,
        processors=pod_processors(config.launcher, limit),
        memory_bytes=pod_memory(int(psutil.virtual_memory().total), next(filter(None, map(_text, _MEMORY_LIMITS)), "")),
        **processor,
        **found,
    )


def cpu_facts(text: str) -> dict[str, Any]:
    """Model and flags of the first processor in the text of /proc/cpuinfo, as fields of the record."""
    lines: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        lines.setdefault(name.strip(), value.strip())
    flags = sorted(set((lines.get("flags") or lines.get("Features") or "").split()))
    facts: dict[str, Any] = {"processor": lines.get("model name", "")[:128] or None}
    if flags:
        facts["processor_flags"] = tuple(flag for flag in flags if flag.startswith(_ARITHMETIC))[:64]
        facts["processor_flags_digest"] = content_id(" ".join(flags), characters=12)
    return facts


def pod_processors(launcher: int, limit: str) -> float | None:
    """Processors that the launcher's process, hence the pod, may use: its affinity, or its quota where that is less.

    A rank's own affinity would not do: it has pinned itself. `limit` is quota and period, as cpu.max of cgroup v2.
    """
    try:
        found = float(len(os.sched_getaffinity(launcher)))
    except OSError:
        return None
    quota, _, period = limit.partition(" ")
    return min(found, int(quota) / int(period)) if quota.isdecimal() and period.isdecimal() else found


def pod_memory(total: int, limit: str) -> int:
    """Memory of the machine, or of the container where its limit is less."""
    return min(total, int(limit)) if limit.isdecimal() else total


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
