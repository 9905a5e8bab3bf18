# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver library, asked before TensorFlow touches a GPU: it knows why a rank would have none.

Must not happen: a GPU that TensorFlow can use is refused. So the driver's files are looked at only where its library
does not start, and what a build of TensorFlow does not tell is not held against a GPU.

https://docs.nvidia.com/cuda/cuda-driver-api/
"""

import ctypes
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

LIBRARY = "libcuda.so.1"
_KERNEL_MODULE = Path("/sys/module/nvidia/version")  # the node's, whatever the container is given
_CONTROL_DEVICE = Path("/dev/nvidiactl")
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_CAPABILITY = (75, 76)  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
_TEXT_BYTES = 256
#: Stands in CUDA's name for an instance of a GPU that is cut into some: NVIDIA A100-SXM4-40GB MIG 1g.5gb.
_MIG = " MIG "
#: sm_80 is code for 8.0 and what is above it of the same major; compute_90 is sm_90, and PTX for all that is above.
_CODE = re.compile(r"(?:sm|compute)_(\d+)(\d)")
_REMEDIES = {
    _NO_DEVICE: "check the pod's GPU request, and that nothing sets CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES",
    802: "start NVIDIA's fabric manager on the node",
    803: "restart the node if its driver was updated, or take CUDA's compat libraries out of the image",
    804: "take CUDA's compat libraries out of the image",
}


class DriverError(OSError):
    """A function of the library has ended with a code."""

    def __init__(self, function: str, code: int, text: str) -> None:
        self.code = code
        super().__init__(f"{function} ended with {code} ({text})")


class Driver:
    """The library, loaded but not started; OSError without one."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL(LIBRARY)

    def start(self) -> None:
        """All but `version` needs it."""
        self._ask("cuInit", 0)

    def version(self) -> int:
        """The newest CUDA that the driver knows: 12080 is 12.8."""
        return self._number("cuDriverGetVersion")

    def gpus(self) -> int:
        """As many as this process may use."""
        return self._number("cuDeviceGetCount")

    def capability(self, ordinal: int) -> tuple[int, int]:
        """Compute capability."""
        device = self._number("cuDeviceGet", ordinal)
        major, minor = (self._number("cuDeviceGetAttribute", attribute, device) for attribute in _CAPABILITY)
        return major, minor

    def name(self, ordinal: int) -> str:
        """As sold, and which instance of it."""
        return self._text("cuDeviceGetName", ordinal)

    def pci_address(self, ordinal: int) -> str:
        """Where it is."""
        return self._text("cuDeviceGetPCIBusId", ordinal)

    def _number(self, function: str, *arguments: int) -> int:
        number = ctypes.c_int()
        self._ask(function, ctypes.byref(number), *arguments)
        return number.value

    def _text(self, function: str, ordinal: int) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._ask(function, text, len(text), self._number("cuDeviceGet", ordinal))
        return text.value.decode()

    def _ask(self, function: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, function)(*arguments):
            text = ctypes.c_char_p()
            self._cuda.cuGetErrorString(code, ctypes.byref(text))
            raise DriverError(function, code, (text.value or b"a code without a text").decode())


def pci_addresses(ordinals: Iterable[int]) -> list[str]:
    """Of the GPUs that CUDA, and so TensorFlow, calls by these numbers; OSError without a driver, or such a GPU."""
    driver = Driver()
    driver.start()
    return [driver.pci_address(ordinal) for ordinal in ordinals]


@dataclass(frozen=True)
class Found:
    """What a rank finds of the driver, as far as it comes."""

    module: str | None = None  # version of the kernel module
    control_device: bool = False
    searched: str = ""  # LD_LIBRARY_PATH
    unloadable: str | None = None  # why the library could not be loaded
    version: int = 0  # as Driver.version
    error: DriverError | None = None
    gpus: int = 0
    mig: bool = False
    capability: tuple[int, int] | None = None  # of the rank's own GPU


def look(local_rank: int) -> Found:
    """The rank's own GPU is the one that CUDA calls by this number."""
    module = _KERNEL_MODULE.read_text().strip() if _KERNEL_MODULE.exists() else None
    found = Found(module, _CONTROL_DEVICE.exists(), os.environ.get("LD_LIBRARY_PATH", ""))
    try:
        driver = Driver()
        found = replace(found, version=driver.version())
        driver.start()
        found = replace(found, gpus=driver.gpus(), mig=_MIG in driver.name(0))
        own = driver.capability(local_rank) if local_rank < found.gpus else None
        return replace(found, capability=own)
    except DriverError as error:
        return replace(found, error=error)
    except OSError as error:
        return replace(found, unloadable=str(error))


def refusal(found: Found, build: Mapping[str, Any], *, local_rank: int, workers: int) -> str | None:
    """Why the rank, one of so many workers in its pod, cannot compute on a GPU of its own; None where it can.

    `build` is what tf.sysconfig.get_build_info() says.
    """
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


def no_driver(found: Found) -> str | None:
    """Why this container cannot load the driver's library, or has no GPU that it would be for; None where it can."""
    if found.unloadable is None and (found.error is None or found.error.code != _NO_DEVICE):
        return None
    if not found.control_device:
        node = f"its node has NVIDIA's driver {found.module}" if found.module else "no NVIDIA driver is loaded"
        return (
            f"this container was given no GPU (/dev/nvidiactl is missing, {node}): "
            "check the pool's gpuResource, and the device plugin and runtime class of its nodes"
        )
    if found.unloadable is None:
        return None
    return (
        f"this container has a GPU and not its driver's library ({found.unloadable}; LD_LIBRARY_PATH is "
        f"{found.searched!r}): on GKE set LD_LIBRARY_PATH in template.env to /usr/local/nvidia/lib64, "
        "elsewhere use NVIDIA's container runtime (runtimeClassName nvidia)"
    )


def _none_of_its_own(found: Found, *, local_rank: int, workers: int) -> str:
    fact = f"local rank {local_rank} of {workers} in this pod has no GPU of its own"
    if found.mig:
        return f"{fact}: CUDA shows a process one MIG instance: set workersPerNode to 1"
    return (
        f"{fact}: CUDA's driver shows {found.gpus}: check the pool's gpuResource and slotsPerNode, "
        "and that nothing sets CUDA_VISIBLE_DEVICES"
    )


def _no_code(capability: tuple[int, int] | None, codes: Sequence[str]) -> str | None:
    """Code for another major version does not run, and compiling PTX takes TensorFlow half an hour at its start."""
    compiled = [(int(major), int(minor)) for major, minor in _CODE.findall(" ".join(codes))]
    if capability is None or not compiled:
        return None
    major, minor = capability
    if any(major == own and least <= minor for own, least in compiled):
        return None
    return (
        f"this image's TensorFlow has no code for a GPU of compute capability {major}.{minor}, only "
        f"{', '.join(codes)}: use a pool with another GPU, or an image whose TensorFlow has it"
    )
