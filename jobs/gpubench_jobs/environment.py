# SPDX-License-Identifier: Apache-2.0
"""What a measurement stands on, as this rank finds it: hardware, driver, libraries, and what the pod may use of them.

A fact that is not told is absent, never guessed: no driver answers, a card lacks a sensor, a kernel lacks a file. None
of that may end a run.
"""

import importlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import psutil
import tensorflow as tf

from gpubench import names
from gpubench.measure import records
from gpubench.values import content_id
from gpubench_jobs import channel, distribution, nvml

_CPU_FACTS = Path("/proc/cpuinfo")
_NVIDIA_DRIVER = Path("/sys/module/nvidia/version")
_PROCESSOR_LIMIT = Path("/sys/fs/cgroup/cpu.max")
_PROCESSOR_LIMIT_1 = tuple(Path(f"/sys/fs/cgroup/cpu/cpu.cfs_{name}_us") for name in ("quota", "period"))
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
#: Instruction sets that libraries choose their arithmetic by, on x86 and on ARM.
_ARITHMETIC = ("avx", "amx", "fma", "f16c", "asimd", "sve", "sme", "bf16", "i8mm")
_FLAGS_MAX = 64
_GPUS_MAX = 16
_CLOCK_SM, _CLOCK_MEM = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_DIGEST_CHARACTERS = 12
_TEXT_MAX = 128


def describe(orders: channel.Orders, *, transport: str = "gloo") -> records.Environment:
    """The record that opens a pod's log and whose key keeps unlike figures apart."""
    gpu = orders.assignment.gpu
    build = tf.sysconfig.get_build_info() if gpu else {}
    processor = cpu_facts(_text(_CPU_FACTS))
    found = _gpu_facts(orders) if gpu else {}
    driver = found.pop("driver", None)
    return records.Environment(
        accelerator=_gpu_name() if gpu else processor.get("processor") or platform.machine(),  # ARM kernels name none
        driver=(_text(_NVIDIA_DRIVER) or driver) if gpu else None,
        cuda=build.get("cuda_version"),
        cudnn=build.get("cudnn_version"),
        nccl=distribution.nccl_version() if gpu else None,
        transport=transport,
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
        **found,
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


def _gpu_facts(orders: channel.Orders) -> dict[str, Any]:
    ranks = orders.assignment.workers_per_node
    facts = asked(_pynvml(), _addresses(ranks), local_rank=orders.local_rank)
    return {"gpus": len(tf.config.list_physical_devices("GPU")), **facts}


def gpu_facts(library: Any, addresses: Sequence[str], *, local_rank: int) -> dict[str, Any]:
    """What NVML says of the GPUs at these PCI addresses, as fields of the record: those of the pod's ranks, in order.

    https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
    """
    handles = [_told(library, "nvmlDeviceGetHandleByPciBusId", address) for address in addresses]
    uuids = (_told(library, "nvmlDeviceGetUUID", handle) for handle in handles[:_GPUS_MAX] if handle is not None)
    facts: dict[str, Any] = {
        "driver": _told(library, "nvmlSystemGetDriverVersion"),
        "gpu_uuids": tuple(uuid for uuid in uuids if uuid),
    }
    own = handles[local_rank] if local_rank < len(handles) else None
    if own is not None:
        milliwatts = _told(library, "nvmlDeviceGetEnforcedPowerLimit", own)
        facts |= {
            "gpu_megahertz": _told(library, "nvmlDeviceGetApplicationsClock", own, _CLOCK_SM),
            "gpu_megahertz_max": _told(library, "nvmlDeviceGetMaxClockInfo", own, _CLOCK_SM),
            "gpu_memory_megahertz": _told(library, "nvmlDeviceGetApplicationsClock", own, _CLOCK_MEM),
            "gpu_memory_megahertz_max": _told(library, "nvmlDeviceGetMaxClockInfo", own, _CLOCK_MEM),
            "power_limit_watts": None if milliwatts is None else milliwatts / 1000,
        }
    return facts


def asked(library: Any, addresses: Sequence[str], *, local_rank: int) -> dict[str, Any]:
    """The same, where there is a driver that answers; nothing where there is none."""
    try:
        library.nvmlInit()
    except Exception:  # without a driver NVML raises a class of its own, and without the library None has no function
        return {}
    try:
        return gpu_facts(library, addresses, local_rank=local_rank)
    finally:
        _told(library, "nvmlShutdown")


def _pynvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError:
        return None


def _addresses(ranks: int) -> list[str]:
    """PCI addresses of the GPUs of this pod's ranks, by the numbers that TensorFlow has for them."""
    try:
        return [nvml.pci_address(ordinal) for ordinal in range(ranks)]
    except OSError:
        return []


def _told(library: Any, function: str, *arguments: Any) -> Any:
    """The answer, or None: a card without the sensor, a driver without the function, a GPU that has fallen off."""
    try:
        return getattr(library, function)(*arguments)
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
