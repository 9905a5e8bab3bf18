# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's management library (NVML) tells of one GPU: the rank's own.

It is found by the PCI address that CUDA has for it. TensorFlow numbers GPUs as CUDA does, which obeys
CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; NVML's own numbers do neither.

Must not happen: 0 in place of what a card does not tell; figures of a whole card for a rank that has a slice of it
(MIG); a measurement that ends because the library is missing or refuses.

Tests read stand-ins of this library and of CUDA's driver through nvidia-ml-py; no real card was at hand. Units:
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from gpubench_jobs import cuda_driver

#: nvmlClocksEventReasons of nvml.h, formerly nvmlClocksThrottleReasons.
_REASONS = {
    0x001: "GpuIdle",
    0x002: "ApplicationsClocksSetting",
    0x004: "SwPowerCap",
    0x008: "HwSlowdown",
    0x010: "SyncBoost",
    0x020: "SwThermalSlowdown",
    0x040: "HwThermalSlowdown",
    0x080: "HwPowerBrakeSlowdown",
    0x100: "DisplayClockSetting",
    0x200: "BoardLimit",
    0x400: "Reliability",
}
#: A clock that is low because there is nothing to do is no sign of anything.
IDLE = "GpuIdle"
#: Nor is one that somebody has set, or that follows another card's: a healthy card with application clocks below its
#: highest, as A100 and V100 leave the factory, has the first of these all the time.
CHOSEN = frozenset({"ApplicationsClocksSetting", "SyncBoost", "DisplayClockSetting"})
_TEMPERATURE_GPU = 0  # NVML_TEMPERATURE_GPU
_MIG_ENABLED = 1  # NVML_DEVICE_MIG_ENABLE
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_GPUS_MAX = 16  # whose names a record has room for
_T = TypeVar("_T")


@dataclass(frozen=True)
class Reading:
    """A GPU at one moment. What it does not tell is None."""

    utilization: float | None = None  # share of the last moments (a sixth of a second to one) with a kernel on it
    memory_bytes: int | None = None  # in use by anybody
    watts: float | None = None
    celsius: float | None = None
    throttle_reasons: tuple[str, ...] | None = None  # by NVML's names, idleness among them
    joules: float | None = None  # since the driver was loaded


class Gpu(Protocol):
    """One GPU; a test has one of its own."""

    def read(self) -> Reading:
        """Now."""


class NvmlGpu:
    """A GPU as NVML sees it; `library` is the module pynvml, `handle` what it calls the device by."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def read(self) -> Reading:
        """Each figure for itself: cards and drivers refuse some of them."""
        nvml, handle = self._library, self._handle
        return Reading(
            utilization=_told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            memory_bytes=_told(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
            watts=_told(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            celsius=_told(lambda: float(nvml.nvmlDeviceGetTemperature(handle, _TEMPERATURE_GPU))),
            throttle_reasons=self._reasons(),
            joules=_told(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000),
        )

    @property
    def sliced(self) -> bool:
        """Whether it is cut into instances (MIG), each of which may be another's; older cards cannot be."""
        mode = _told(lambda: self._library.nvmlDeviceGetMigMode(self._handle)[0])
        return mode == _MIG_ENABLED

    @property
    def uuid(self) -> str | None:
        """Its name among all there are."""
        return _told(lambda: str(self._library.nvmlDeviceGetUUID(self._handle)))

    def settings(self) -> dict[str, Any]:
        """Its clocks and its limit of power, as fields of the record."""
        nvml, handle = self._library, self._handle
        return {
            "gpu_megahertz": _told(lambda: nvml.nvmlDeviceGetApplicationsClock(handle, _CLOCK_SM)),
            "gpu_megahertz_max": _told(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _CLOCK_SM)),
            "gpu_memory_megahertz": _told(lambda: nvml.nvmlDeviceGetApplicationsClock(handle, _CLOCK_MEMORY)),
            "gpu_memory_megahertz_max": _told(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, _CLOCK_MEMORY)),
            "power_limit_watts": _told(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
        }

    def _reasons(self) -> tuple[str, ...] | None:
        nvml, handle = self._library, self._handle
        mask = _told(lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)))
        if mask is None:  # its name before driver 535
            mask = _told(lambda: int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)))
        if mask is None:
            return None
        bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
        return tuple(_REASONS.get(bit, f"{bit:#x}") for bit in bits)  # newer drivers may have newer reasons


def open_gpu(ordinal: int) -> NvmlGpu | None:
    """The GPU that CUDA, and so TensorFlow, calls by this number; None, and why on standard error, where there is none.

    Everything that can go wrong is a missing or unwilling library: the measurement goes on without.
    """
    try:
        return _opened(ordinal)
    except _Without as error:
        sys.stderr.write(f"no figures of the GPU: {error}\n")
        return None


class _Without(Exception):
    """Why there are no figures."""


def _opened(ordinal: int) -> NvmlGpu:
    library = _started()
    try:
        (address,) = cuda_driver.pci_addresses([ordinal])
        gpu = NvmlGpu(library, library.nvmlDeviceGetHandleByPciBusId(address))
    except (library.NVMLError, OSError) as error:
        raise _Without(str(error)) from error
    if gpu.sliced:
        raise _Without("the GPU is cut into instances (MIG), and its figures would be those of the whole card")
    return gpu


def _started() -> Any:
    try:
        library = importlib.import_module("pynvml")
    except ImportError as error:
        raise _Without("pynvml is not installed: use an image with nvidia-ml-py") from error
    try:
        library.nvmlInit()
    except library.NVMLError as error:
        raise _Without(str(error)) from error
    return library


def facts(ranks: int, *, local_rank: int) -> dict[str, Any]:
    """What is told of the GPUs of a pod's ranks, as fields of the record: nothing where there is no driver."""
    try:
        library, addresses = _started(), cuda_driver.pci_addresses(range(ranks))
    except (_Without, OSError):
        return {}
    handles = [_told(partial(library.nvmlDeviceGetHandleByPciBusId, address)) for address in addresses]
    gpus = [None if handle is None else NvmlGpu(library, handle) for handle in handles]
    uuids = [gpu.uuid for gpu in gpus if gpu is not None]
    own = gpus[local_rank]
    found = {
        "driver": _told(library.nvmlSystemGetDriverVersion),
        "gpu_uuids": tuple(filter(None, uuids[:_GPUS_MAX])),
        **({} if own is None else own.settings()),
    }
    _told(library.nvmlShutdown)
    return found


def _told(ask: Callable[[], _T]) -> _T | None:
    try:
        return ask()
    except Exception:  # NVMLError has a class for each code, and a module of another version may lack the function
        return None
