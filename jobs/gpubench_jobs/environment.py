# SPDX-License-Identifier: Apache-2.0
"""What a measurement stands on, as this rank finds it: hardware, driver, libraries, and what the pod may use of them.

A fact that is not told is absent, never guessed: no driver answers, a card lacks a sensor, a kernel lacks a file. None
of that may end a run.
"""

import importlib
import itertools
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import psutil
import tensorflow as tf

from gpubench import names
from gpubench.measure import records
from gpubench.values import content_id
from gpubench_jobs import channel, distribution

_CPU_FACTS = Path("/proc/cpuinfo")
_NVIDIA_DRIVER = Path("/sys/module/nvidia/version")
_PROCESSOR_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_PROCESSOR_LIMIT_1 = tuple(Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
#: Instruction sets that libraries choose their arithmetic by, on x86 and on ARM.
_ARITHMETIC = ("avx", "amx", "fma", "f16c", "asimd", "sve", "sme", "bf16", "i8mm")
_FLAGS_MAX = 64
_GPUS_MAX = 16
_DIGEST_CHARACTERS = 12
_TEXT_MAX = 128


def describe(orders: channel.Orders, *, nvml: Any = None) -> records.Environment:
    """The record that opens a pod's log and whose key keeps unlike figures apart.

    `nvml` is NVIDIA's module pynvml, or what answers like it; by default the installed one.
    """
    gpu = orders.assignment.gpu
    build = tf.sysconfig.get_build_info() if gpu else {}
    processor = cpu_facts(_text(_CPU_FACTS))
    gpus = asked(nvml or _pynvml(), orders) if gpu else {}
    driver = gpus.pop("driver", None)
    return records.Environment(
        accelerator=_gpu_name() if gpu else processor.get("processor") or platform.machine(),  # ARM kernels name none
        driver=(_text(_NVIDIA_DRIVER) or driver) if gpu else None,
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
        processors=pod_processors(orders.launcher, _processor_limit()),
        memory_bytes=pod_memory(int(psutil.virtual_memory().total), next(filter(None, map(_text, _MEMORY_LIMITS)), "")),
        **processor,
        **gpus,
    )


def cpu_facts(text: str) -> dict[str, Any]:
    """Model and flags of the first processor in the text of /proc/cpuinfo, as fields of the record."""
    lines: dict[str, str] = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        lines.setdefault(name.strip(), value.strip())
    flags = sorted(set((lines.get("flags") or lines.get("Features") or "").split()))
    facts: dict[str, Any] = {"processor": lines.get("model name", "")[:_TEXT_MAX] or None}
    if flags:
        facts["processor_flags"] = tuple(flag for flag in flags if flag.startswith(_ARITHMETIC))[:_FLAGS_MAX]
        facts["processor_flags_digest"] = content_id(" ".join(flags), characters=_DIGEST_CHARACTERS)
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


def gpu_facts(nvml: Any, *, visible: str | None, local_rank: int, ranks: int) -> dict[str, Any]:
    """What NVML says of the pod's GPUs, as fields of the record; `visible` is CUDA_VISIBLE_DEVICES.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
    """
    handles = _handles(nvml, visible)
    uuids = (_told(nvml, "nvmlDeviceGetUUID", handle) for handle in handles[: min(ranks, _GPUS_MAX)])
    facts: dict[str, Any] = {
        "driver": _told(nvml, "nvmlSystemGetDriverVersion"),
        "gpus": len(handles),
        "gpu_uuids": tuple(uuid for uuid in uuids if uuid),
    }
    if local_rank < len(handles):
        own = handles[local_rank]
        milliwatts = _told(nvml, "nvmlDeviceGetEnforcedPowerLimit", own)
        facts |= {
            "gpu_megahertz": _told(nvml, "nvmlDeviceGetApplicationsClock", own, nvml.NVML_CLOCK_SM),
            "gpu_megahertz_max": _told(nvml, "nvmlDeviceGetMaxClockInfo", own, nvml.NVML_CLOCK_SM),
            "gpu_memory_megahertz": _told(nvml, "nvmlDeviceGetApplicationsClock", own, nvml.NVML_CLOCK_MEM),
            "gpu_memory_megahertz_max": _told(nvml, "nvmlDeviceGetMaxClockInfo", own, nvml.NVML_CLOCK_MEM),
            "power_limit_watts": None if milliwatts is None else milliwatts / 1000,
        }
    return facts


def asked(nvml: Any, orders: channel.Orders) -> dict[str, Any]:
    """The same, where there is a driver that answers; nothing where there is none."""
    with _session(nvml) as answers:
        if not answers:
            return {}
        return gpu_facts(
            nvml,
            visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
            local_rank=orders.local_rank,
            ranks=orders.assignment.workers_per_node,
        )


def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


@contextmanager
def _session(nvml: Any) -> Iterator[bool]:
    """NVML begun and ended; whether it answers."""
    try:
        nvml.nvmlInit()
    except Exception:  # without a driver NVML raises a class of its own, and perhaps OSError
        yield False
        return
    try:
        yield True
    finally:
        _told(nvml, "nvmlShutdown")


def _handles(nvml: Any, visible: str | None) -> list[Any]:
    """The GPUs of this pod, in the order of its ranks.

    A device plugin shows a container its GPUs and no others; a machine that is shared otherwise says in
    CUDA_VISIBLE_DEVICES whose are whose, by NVML's numbers where CUDA_DEVICE_ORDER is PCI_BUS_ID, or by UUIDs.
    """
    if visible is None:
        count = _told(nvml, "nvmlDeviceGetCount") or 0
        found = [_told(nvml, "nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    else:
        entries = [entry.strip() for entry in visible.split(",")]
        found = [
            _told(nvml, "nvmlDeviceGetHandleByIndex", int(entry))
            if entry.isdecimal()
            else _told(nvml, "nvmlDeviceGetHandleByUUID", entry)
            for entry in entries
        ]
    return list(itertools.takewhile(lambda handle: handle is not None, found))  # CUDA ends its list there, too


def _told(nvml: Any, function: str, *arguments: Any) -> Any:
    """The answer, or None: a card without the sensor, a driver without the function, a GPU that has fallen off."""
    try:
        return getattr(nvml, function)(*arguments)
    except Exception:  # NVMLError has a class for each code; a module may lack the function
        return None


def _gpu_name() -> str:
    (gpu,) = tf.config.get_visible_devices("GPU")
    return str(tf.config.experimental.get_device_details(gpu).get("device_name", "unknown GPU"))


def _processor_limit() -> str:
    """Quota and period, in the form of cgroup v2 also where there is v1."""
    return _text(_PROCESSOR_LIMIT) or " ".join(map(_text, _PROCESSOR_LIMIT_1))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
