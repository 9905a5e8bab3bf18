# SPDX-License-Identifier: Apache-2.0
"""What CUDA's driver and NVML tell of GPUs. Standard library only: a bare machine can be asked, too.

Must not happen: a GPU that TensorFlow can use is refused; 0 in place of what a card does not tell; figures of a whole
card for a rank that has a slice of it (MIG); a measurement that ends because a library is missing or refuses.
https://docs.nvidia.com/cuda/cuda-driver-api/ https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html
"""

import ctypes
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

LIBRARY = "libcuda.so.1"
KERNEL_MODULE = Path("/sys/module/nvidia/version")  # the node's, whatever the container is given
_CONTROL_DEVICE = Path("/dev/nvidiactl")
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_REMEDIES = {
    _NO_DEVICE: "check the pod's GPU request, and that nothing sets CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES",
    802: "start NVIDIA's fabric manager on the node",
    803: "restart the node if its driver was updated, or take CUDA's compat libraries out of the image",
    804: "take CUDA's compat libraries out of the image",
}
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
_CLOCK_SM, _CLOCK_MEMORY = 1, 2  # NVML_CLOCK_SM, NVML_CLOCK_MEM
_T = TypeVar("_T")


class DriverError(OSError):
    """A function of the library has ended with a code."""

    def __init__(self, function: str, code: int, text: str) -> None:
        self.code = code
        super().__init__(f"{function} ended with {code} ({text})")


class _Driver:
    """The library, loaded but not started; OSError without one."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL(LIBRARY)

    def ask(self, function: str, *arguments: Any) -> None:
        """Call a function; DriverError for a code."""
        if code := getattr(self._cuda, function)(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError(function, code, (text.value or b"a code without a text").decode())

    def number(self, function: str, *arguments: int) -> int:
        """What a function writes into its first argument."""
        number = ctypes.c_int()
        self.ask(function, ctypes.byref(number), *arguments)
        return number.value

    def text(self, function: str, ordinal: int) -> str:
        """What a function says of a GPU."""
        text = ctypes.create_string_buffer(256)
        self.ask(function, text, len(text), self.number("cuDeviceGet", ordinal))
        return text.value.decode()


@dataclass(frozen=True)
class FoundDriver:
    """What a rank finds of the driver, as far as it comes."""

    module: str | None = None  # version of the kernel module
    control_device: bool = False
    searched: str = ""  # LD_LIBRARY_PATH
    unloadable: str | None = None  # why the library could not be loaded
    version: int = 0  # the newest CUDA that the driver knows: 12080 is 12.8
    error: DriverError | None = None
    gpus: int = 0
    mig: bool = False
    capability: tuple[int, int] | None = None  # of the rank's own GPU


def find_driver(local_rank: int) -> FoundDriver:
    """The rank's own GPU is the one that CUDA calls by this number."""
    module = KERNEL_MODULE.read_text().strip() if KERNEL_MODULE.exists() else None
    found = FoundDriver(module, _CONTROL_DEVICE.exists(), os.environ.get("LD_LIBRARY_PATH", ""))
    try:
        driver = _Driver()
        found = replace(found, version=driver.number("cuDriverGetVersion"))
        driver.ask("cuInit", 0)
        gpus = driver.number("cuDeviceGetCount")
        # An instance of a GPU that is cut into some has it in its name: NVIDIA A100-SXM4-40GB MIG 1g.5gb.
        found = replace(found, gpus=gpus, mig=" MIG " in driver.text("cuDeviceGetName", 0))
        if local_rank < gpus:
            device = driver.number("cuDeviceGet", local_rank)
            # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            major, minor = (driver.number("cuDeviceGetAttribute", attribute, device) for attribute in (75, 76))
            found = replace(found, capability=(major, minor))
        return found
    except DriverError as error:
        return replace(found, error=error)
    except OSError as error:
        return replace(found, unloadable=str(error))


def why_unusable(found: FoundDriver, build: Mapping[str, Any], *, local_rank: int, workers: int) -> str | None:
    """Why a rank cannot compute on a GPU of its own; None where it can. `build` is tf.sysconfig.get_build_info()."""
    if why := no_driver(found):
        return why
    if not build.get("is_cuda_build"):
        return "the pool has GPUs and this image's TensorFlow is for processors alone: use the image for GPUs"
    built_with = build.get("cuda_version", "")
    needed = int(built_with.partition(".")[0] or 0)  # any minor version will do, by CUDA's own rule since 11
    if 0 < found.version < 1000 * needed:
        return (
            f"the node's driver knows CUDA up to {found.version // 1000}.{found.version % 1000 // 10} and TensorFlow's "
            f"{built_with} needs {needed}.0: update the driver, or use an image with an older CUDA"
        )
    if found.error is not None:
        remedy = _REMEDIES.get(found.error.code, "look for NVRM and Xid in the node's kernel log")
        return f"CUDA's driver does not start: {found.error}: {remedy}"
    if local_rank >= found.gpus:
        return _none_of_its_own(found, local_rank=local_rank, workers=workers)
    return _no_code(found.capability, build.get("cuda_compute_capabilities", ()))


def no_driver(found: FoundDriver) -> str | None:
    """Why this container cannot load the driver's library, or has no GPU that it would be for; None where it can."""
    if found.unloadable is None and (found.error is None or found.error.code != _NO_DEVICE):
        return None
    if not found.control_device:
        node = f"its node has NVIDIA's driver {found.module}" if found.module else "no NVIDIA driver is loaded"
        return (
            f"this container was given no GPU (/dev/nvidiactl is missing, {node}): "
            "check the pool's gpuResource or resourceClaims, and the device plugin and runtime class of its nodes"
        )
    if found.unloadable is None:
        return None
    return (
        f"this container has a GPU and not its driver's library ({found.unloadable}; LD_LIBRARY_PATH is "
        f"{found.searched!r}): on GKE set LD_LIBRARY_PATH in template.env to /usr/local/nvidia/lib64, "
        "elsewhere use NVIDIA's container runtime (runtimeClassName nvidia)"
    )


def _none_of_its_own(found: FoundDriver, *, local_rank: int, workers: int) -> str:
    fact = f"local rank {local_rank} of {workers} in this pod has no GPU of its own"
    if found.mig:
        return f"{fact}: CUDA shows a process one MIG instance: set workersPerNode to 1"
    return (
        f"{fact}: CUDA's driver shows {found.gpus}: check the pool's slotsPerNode and gpuResource or resourceClaims, "
        "and that nothing sets CUDA_VISIBLE_DEVICES"
    )


def _no_code(capability: tuple[int, int] | None, codes: Sequence[str]) -> str | None:
    """Code for another major version does not run, and compiling PTX takes TensorFlow half an hour at its start."""
    # sm_80 is code for 8.0 and what is above it of the same major; compute_90 is sm_90, and PTX for all that is above.
    found = re.findall(r"(?:sm|compute)_(\d+)(\d)", " ".join(codes))
    compiled = [(int(major), int(minor)) for major, minor in found]
    if capability is None or not compiled:
        return None
    major, minor = capability
    if any(major == own and least <= minor for own, least in compiled):
        return None
    return (
        f"this image's TensorFlow has no code for a GPU of compute capability {major}.{minor}, only "
        f"{', '.join(codes)}: use a pool with another GPU, or an image whose TensorFlow has it"
    )


@dataclass(frozen=True)
class GpuReading:
    """A GPU at one moment. What it does not tell is None."""

    utilization: float | None = None  # share of the last moments (a sixth of a second to one) with a kernel on it
    memory_bytes: int | None = None  # in use by anybody, without what the driver keeps for itself
    watts: float | None = None
    celsius: float | None = None
    throttle_reasons: tuple[str, ...] | None = None  # by NVML's names, idleness among them
    joules: float | None = None  # since the driver was loaded


class NvmlGpu:
    """A GPU as NVML sees it; `library` is the module pynvml, `handle` what it calls the device by."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library, self._handle = library, handle

    def read(self) -> GpuReading:
        """Each figure for itself: cards and drivers refuse some of them."""
        nvml, handle = self._library, self._handle
        return GpuReading(
            utilization=_told(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            memory_bytes=self._memory(),
            watts=_told(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            celsius=_told(lambda: float(nvml.nvmlDeviceGetTemperature(handle, 0))),  # NVML_TEMPERATURE_GPU
            throttle_reasons=self._reasons(),
            joules=_told(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1000),
        )

    @property
    def sliced(self) -> bool:
        """Whether it is cut into instances (MIG), each of which may be another's; older cards cannot be."""
        return _told(lambda: self._library.nvmlDeviceGetMigMode(self._handle)[0]) == 1  # NVML_DEVICE_MIG_ENABLE

    @property
    def uuid(self) -> str | None:
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

    def _memory(self) -> int | None:
        nvml, handle = self._library, self._handle
        # Since driver 510 the first version counts what the driver reserves: 614 MiB on an H200 with nothing to do.
        used = _told(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2).used))
        return _told(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)) if used is None else used

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
    """The GPU that CUDA and TensorFlow call by this number; None, and why on standard error, where none can be read."""
    try:
        library, (address,) = _started([ordinal])
        gpu = NvmlGpu(library, library.nvmlDeviceGetHandleByPciBusId(address))
        if gpu.sliced:
            raise OSError("the GPU is cut into instances (MIG), and its figures would be those of the whole card")
    except Exception as error:  # OSError, or the library's own
        sys.stderr.write(f"no figures of the GPU: {error}\n")
        return None
    return gpu


def _started(ordinals: Iterable[int]) -> tuple[Any, list[str]]:
    """NVML, and the PCI addresses of GPUs by CUDA's numbers: NVML's own heed no CUDA_VISIBLE_DEVICES."""
    try:
        library = importlib.import_module("pynvml")
    except ImportError as error:
        raise OSError("pynvml is not installed: use an image with nvidia-ml-py") from error
    library.nvmlInit()
    driver = _Driver()
    driver.ask("cuInit", 0)
    return library, [driver.text("cuDeviceGetPCIBusId", ordinal) for ordinal in ordinals]


def gpu_facts(ranks: int, *, local_rank: int) -> dict[str, Any]:
    """What is told of the GPUs of a pod's ranks, as fields of the record: nothing where there is no driver."""
    try:
        library, addresses = _started(range(ranks))
    except Exception:  # as above
        return {}
    handles = [_told(partial(library.nvmlDeviceGetHandleByPciBusId, address)) for address in addresses]
    gpus = [None if handle is None else NvmlGpu(library, handle) for handle in handles]
    uuids = [gpu.uuid for gpu in gpus if gpu is not None]
    own = gpus[local_rank]
    found = {
        "driver": _told(library.nvmlSystemGetDriverVersion),
        "gpu_uuids": tuple(filter(None, uuids[:16])),  # for as many a record has room
        **({} if own is None else own.settings()),
    }
    _told(library.nvmlShutdown)
    return found


def _told(ask: Callable[[], _T]) -> _T | None:
    try:
        return ask()
    except Exception:  # NVMLError has a class for each code, and a module of another version may lack the function
        return None
