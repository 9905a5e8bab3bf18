# SPDX-License-Identifier: Apache-2.0
"""What a rank computes on: its own GPU and no other, or its share of the processors; and what it records of that.

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
from gpubench.exitcodes import ExitCode
from gpubench.values import content_id
from gpubench.workloads import Precision
from gpubench_jobs import channel
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import nvidia

_SHORT = 0.999  # of what was planned: a quota has whole milliseconds, and a limit of memory whole pages
_PROCESSOR_LIMIT_1 = tuple(Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
#: Instruction sets that libraries choose their arithmetic by, on x86 and on ARM.
_ARITHMETIC = ("avx", "amx", "fma", "f16c", "asimd", "sve", "sme", "bf16", "i8mm")


def claim(config: channel.WorkerConfig) -> None:
    """One GPU by local rank, or none, and the rank's threads, before anything else touches TensorFlow; or RankError."""
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
    require(config.assignment.precision, capability=capability)


def require(precision: Precision, *, capability: tuple[int, int] | None) -> None:
    """RankError when the device cannot compute as asked; `capability` is a GPU's, None is a CPU's."""
    # Ampere is the first whose matrix units compute so; older ones ignore the switch.
    if precision is Precision.TENSOR_FLOAT32 and (capability is None or capability < (8, 0)):
        found = f"this GPU has {capability[0]}.{capability[1]}" if capability else "this pool's slots have no GPU"
        raise RankError(
            ExitCode.UNSUPPORTED_ACCELERATOR,
            f"tensor_float32 needs a GPU of compute capability 8.0 or above, and {found}: use precision float32",
        )


def describe(config: channel.WorkerConfig, *, transport: str = "gloo") -> records.Environment:
    """The record that opens a pod's log and whose key keeps unlike figures apart."""
    build = tf.sysconfig.get_build_info() if (gpu := config.assignment.gpu) else {}
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
    processors = pod_processors(config.launcher, limit)
    planned = config.assignment.slot_processors * config.assignment.workers_per_node
    planned_memory = (config.assignment.slot_memory_bytes or 0) * config.assignment.workers_per_node
    memory = next(filter(None, map(_text, _MEMORY_LIMITS)), "")
    return records.Environment(
        accelerator=accelerator,
        driver=(_text(nvidia.KERNEL_MODULE) or driver) if gpu else None,
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
        processors_short=processors if processors is not None and processors < _SHORT * planned else None,
        processors=processors,
        memory_bytes=pod_memory(int(psutil.virtual_memory().total), memory),
        memory_bytes_short=int(memory) if memory.isdecimal() and int(memory) < _SHORT * planned_memory else None,
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
    """Processors of the launcher's affinity (a rank is pinned), or fewer by `limit`: quota and period of cgroup v2."""
    try:
        found = float(len(os.sched_getaffinity(launcher)))
    except OSError:
        return None
    quota, _, period = limit.partition(" ")
    return min(found, int(quota) / int(period)) if quota.isdecimal() and period.isdecimal() else found


def pod_memory(total: int, limit: str) -> int:
    return min(total, int(limit)) if limit.isdecimal() else total


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
