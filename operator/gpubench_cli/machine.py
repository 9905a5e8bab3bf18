# SPDX-License-Identifier: Apache-2.0
"""What this machine is, and which points of a plan it cannot be.

A node of a pool is a slice of this machine: the processors of all its slots. What does not fit is skipped with a
sentence; nothing is made smaller to fit, for it would be another measurement under the same name.
"""

import os
import re
import shutil
import socket
import subprocess
from decimal import Decimal
from pathlib import Path

import psutil

from gpubench.api.pool import GpuPoolSpec
from gpubench.control import capacity
from gpubench.plan.plan import Plan, Point
from gpubench.units import processors, quantity_value
from gpubench.values import Value

_NVIDIA_SMI_SECONDS = 20.0  # it takes some seconds to wake GPUs without persistence mode
_MEMORY_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_PROCESSOR_LIMITS = (Path("/sys/fs/cgroup/cpu.max"),)
_GIBIBYTE = 2**30


class Machine(Value):
    """This machine, as far as a plan asks for it."""

    name: str
    cores: tuple[int, ...]  # that this process may use
    memory_bytes: int
    gpus: tuple[str, ...] = ()  # names, in the order of their indices


def this_machine() -> Machine:
    """Look at the machine; GPUs are those that nvidia-smi lists, none without it."""
    return Machine(
        name=socket.gethostname(),
        cores=tuple(sorted(os.sched_getaffinity(0)))[: processor_quota(_first_text(_PROCESSOR_LIMITS))],
        memory_bytes=_memory_bytes(),
        gpus=gpus_in(_nvidia_smi()),
    )


def gpus_in(listing: str) -> tuple[str, ...]:
    """The names in the output of `nvidia-smi -L`: `GPU 0: NVIDIA H200 (UUID: GPU-...)`."""
    return tuple(re.findall(r"^GPU \d+: (.+?) \(UUID:", listing, flags=re.MULTILINE))


def processor_quota(text: str) -> int | None:
    """Whole processors that a container may use at once (`cpu.max`); None without a limit.

    A container with a quota sees all processors of its machine; pinned to more than its share, ranks would be stopped
    in every period, and efficiency would mean nothing.
    """
    quota, _, period = text.partition(" ")
    return max(1, int(quota) // int(period)) if quota.isdecimal() and period.isdecimal() else None


def cores_per_slot(pool: GpuPoolSpec) -> int:
    """Whole processors that one rank is pinned to; a share of one still needs one of its own."""
    return max(1, int(processors(pool.slot.cpu)))


def skip_what_this_machine_is_not(plan: Plan, machine: Machine) -> Plan:
    """The plan with the points that this machine cannot run marked as skipped, and without their trials."""
    points = tuple(_judged(point, plan, machine) for point in plan.points)
    trials = tuple(trial for trial in plan.trials if points[trial.point].skip is None)
    return plan.model_copy(update={"points": points, "trials": trials})


def _judged(point: Point, plan: Plan, machine: Machine) -> Point:
    if point.skip is not None:
        return point
    skip = _reason(point, plan.pool(point.key.pool).spec, machine)
    return point if skip is None else point.model_copy(update={"skip": skip})


def _reason(point: Point, pool: GpuPoolSpec, machine: Machine) -> str | None:
    slots = capacity.slots_of(point, pool)
    what = f"{_count(point.nodes, 'node')} of {point.key.pool}"
    cores = slots * cores_per_slot(pool)
    if pool.slot.gpu_resource is not None:
        if slots > len(machine.gpus):
            return f"{what} need {_count(slots, 'GPU')}, and this machine has {len(machine.gpus) or 'none'}"
        foreign = sorted({gpu for gpu in machine.gpus if pool.accelerator and not _is(gpu, pool.accelerator)})
        if foreign:
            return f"{point.key.pool} is made of {pool.accelerator}, and this machine has {', '.join(foreign)}"
    if cores > len(machine.cores):
        return f"{what} need {_count(cores, 'processor')}, and this machine has {len(machine.cores)} to use"
    memory = quantity_value(pool.slot.memory) * slots
    if memory > machine.memory_bytes:
        return f"{what} need {_gibibytes(memory)} of memory, and this machine has {_gibibytes(machine.memory_bytes)}"
    return None


def _is(gpu: str, accelerator: str) -> bool:
    """Whether the driver's name of a GPU has every part of the pool's: `A100-40GB` is `NVIDIA A100-SXM4-40GB`."""
    parts = set(re.split(r"[\s_-]+", gpu.upper()))
    return set(re.split(r"[\s_-]+", accelerator.upper())) <= parts | {"NVIDIA", "TESLA"}


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _gibibytes(amount: Decimal | int) -> str:
    return f"{Decimal(amount) / _GIBIBYTE:.3g} GiB"


def _memory_bytes() -> int:
    """Memory of the machine, or of the container that this process is in."""
    total = int(psutil.virtual_memory().total)
    limit = _first_text(_MEMORY_LIMITS)
    return min(total, int(limit)) if limit.isdecimal() else total


def _first_text(paths: tuple[Path, ...]) -> str:
    """The text of the first file that is there."""
    for path in paths:
        try:
            return path.read_text().strip()
        except OSError:
            continue
    return ""


def _nvidia_smi() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        listed = subprocess.run(  # noqa: S603  # found on the person's own PATH
            [program, "-L"], capture_output=True, text=True, timeout=_NVIDIA_SMI_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # a driver that does not answer runs no training either
    return listed.stdout if listed.returncode == 0 else ""
