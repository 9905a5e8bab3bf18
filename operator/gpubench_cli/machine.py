# SPDX-License-Identifier: Apache-2.0
"""What this machine is: processors, memory, GPUs, folders for volumes; and which points of a plan it cannot run.

A node of a pool is a slice of this machine: the processors of all its slots. What does not fit is skipped with a
message; nothing is made smaller to fit, for it would be another measurement under the same name.

A folder that was given by --volume comes first. Else a volume with hostPath is its path, and one with configMap is made
of the file's ConfigMap of that name. A PersistentVolumeClaim is in its cluster only: its folder must be given.
Nothing is mounted: where an assignment, or a command of the user's own, names a path below a volume's mountPath, the
process gets the folder's path instead. Must not happen: a run that finds other files than those that were meant.
"""

import contextlib
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath

import psutil

from gpubench.api.pod_template import Volume
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan import expand
from gpubench.plan.assignment import Assignment
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import capacity, manifests, observed
from gpubench.stats import gang
from gpubench.units import counted, processors, quantity_value
from gpubench.values import FrozenModel
from gpubench_cli.documents import ConfigMap
from gpubench_cli.terminal import CliError

_NVIDIA_SMI_SECONDS = 20.0  # it takes some seconds to wake GPUs without persistence mode
_CGROUP = Path("/sys/fs/cgroup")
_PROCESSORS = Path("/sys/devices/system/cpu")  # docs.kernel.org/admin-guide/pm/cpufreq.html
_LOOK_SECONDS = 1.0
_REMEDY = "figures will be lower and scatter; measure while it is quiet"


class Gpu(FrozenModel):
    """A GPU of this machine that this process may use."""

    name: str  # as the driver has it
    entry: str  # what CUDA_VISIBLE_DEVICES calls it, where CUDA_DEVICE_ORDER is PCI_BUS_ID


class Machine(FrozenModel):
    """This machine, as far as a plan asks for it."""

    name: str
    cores: tuple[int, ...]  # that this process may use
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()


def busy() -> str | None:
    """What slows this machine down, looked at for a second before anything runs here; None where it is quiet."""
    times, count = psutil.cpu_times_percent(interval=_LOOK_SECONDS), psutil.cpu_count() or 1
    stolen = getattr(times, "steal", 0.0)
    others = 100 - times.idle - getattr(times, "iowait", 0.0) - stolen
    allowed, possible = _sum("cpufreq/scaling_max_freq"), _sum("cpufreq/cpuinfo_max_freq")
    is_busy, causes = others + stolen >= 100 * gang.BUSY, []
    if is_busy and others >= 1:
        causes.append(f"other programs use {others / 100 * count:.1f} of {count} processors now")
    if is_busy and stolen >= 1:
        causes.append(f"the host gives {stolen / 100 * count:.1f} of {count} processors to others")
    if allowed < possible * (1 - gang.BUSY):
        causes.append(f"processors may run at {allowed / possible:.0%} of their highest frequency")
    return f"{', '.join(causes)}: {_REMEDY}" if causes else None


def times_throttled() -> int:
    """How often the processors here slowed down for heat since they booted; 0 where nobody counts that."""
    return _sum("thermal_throttle/core_throttle_count")


def _sum(name: str) -> int:  # of all processors that tell
    found = 0
    for path in _PROCESSORS.glob(f"cpu[0-9]*/{name}"):
        with contextlib.suppress(OSError, ValueError):
            found += int(path.read_text())
    return found


def this_machine() -> Machine:
    """Look at the machine; GPUs are those that nvidia-smi lists and CUDA_VISIBLE_DEVICES leaves, none without it."""
    memory, limit = int(psutil.virtual_memory().total), _limit("memory.max")
    return Machine(
        name=socket.gethostname(),
        cores=tuple(sorted(os.sched_getaffinity(0)))[: processor_quota(_limit("cpu.max"))],
        memory_bytes=min(memory, int(limit)) if limit.isdecimal() else memory,
        gpus=visible_gpus(_nvidia_smi(), os.environ.get("CUDA_VISIBLE_DEVICES")),
    )


def visible_gpus(listing: str, visible: str | None) -> tuple[Gpu, ...]:
    """GPUs in the output of `nvidia-smi -L` that a CUDA_VISIBLE_DEVICES leaves; None: it is not set.

    A scheduler that shares a machine tells each of its users with this variable which GPUs are theirs. As in CUDA, the
    list ends before its first entry that names no GPU; numbers are those of nvidia-smi, identifiers may be shortened.
    https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#cuda-environment-variables
    """
    listed = _listed(listing)
    if visible is None:
        return tuple(Gpu(name=name, entry=number) for number, name, _ in listed if number)
    found: dict[str, Gpu] = {}
    for entry in map(str.strip, visible.split(",")):
        is_identifier = entry.startswith(("GPU-", "MIG-"))
        matches = {
            identifier: Gpu(name=name, entry=entry)
            for number, name, identifier in listed
            if (identifier.startswith(entry) if is_identifier else entry and entry == number)
        }
        if len(matches) != 1 or matches.keys() <= found.keys():
            break
        found |= matches
    return tuple(found.values())


def _listed(listing: str) -> list[tuple[str, str, str]]:
    """Number, name and identifier: `GPU 0: NVIDIA H200 (UUID: GPU-...)`, `MIG 1g.18gb Device 0: (UUID: MIG-...)`.

    A slice of a GPU has no number, and not the name of the whole: it is another thing to measure.
    """
    whole = re.findall(r"^GPU (\d+): (.+?) \(UUID: (GPU-[^)]+)\)", listing, flags=re.MULTILINE)
    slices = re.findall(r"^\s+(MIG \S+)\s+Device\s+\d+: \(UUID: (MIG-[^)]+)\)", listing, flags=re.MULTILINE)
    return [*whole, *(("", name, identifier) for name, identifier in slices)]


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
    return expand.narrowed(plan, lambda point: _reason(point, plan.pool(point.key.pool).spec, machine))


def _reason(point: Point, pool: GpuPoolSpec, machine: Machine) -> str | None:
    slots = capacity.slots_of(point, pool)
    needs = f"{counted(point.nodes, 'node')} of {point.key.pool} {'needs' if point.nodes == 1 else 'need'}"
    cores = slots * cores_per_slot(pool)
    if pool.has_gpus:
        if slots > len(machine.gpus):
            return f"{needs} {counted(slots, 'GPU')}, and this machine has {len(machine.gpus) or 'none'} to use"
        names = {gpu.name for gpu in machine.gpus}
        if foreign := sorted(name for name in names if pool.accelerator and not _is(name, pool.accelerator)):
            return f"{point.key.pool} is made of {pool.accelerator}, and this machine has {', '.join(foreign)}"
    if cores > len(machine.cores):
        return f"{needs} {counted(cores, 'processor')}, and this machine has {len(machine.cores)} to use"
    if (memory := quantity_value(pool.slot.memory) * slots) > machine.memory_bytes:
        return f"{needs} {_gibibytes(memory)} of memory, and this machine has {_gibibytes(machine.memory_bytes)}"
    return None


def _is(gpu: str, accelerator: str) -> bool:
    """Whether the driver's name of a GPU has every part of the pool's: `A100-40GB` is `NVIDIA A100-SXM4-40GB`."""
    of_gpu, of_pool = (set(re.split(r"[\s_-]+", name.upper())) for name in (gpu, accelerator))
    return of_pool <= of_gpu | {"NVIDIA", "TESLA"}


def _gibibytes(amount: Decimal | int) -> str:
    return f"{Decimal(amount) / 2**30:.3g} GiB"


def _limit(name: str) -> str:
    """Of the container that this process is in; empty where there is none."""
    try:
        return (_CGROUP / name).read_text().strip()
    except OSError:
        return ""


def _nvidia_smi() -> str:
    try:
        return subprocess.check_output(
            ["nvidia-smi", "-L"],  # noqa: S607  # found on the person's own PATH
            text=True,
            stderr=subprocess.DEVNULL,
            timeout=_NVIDIA_SMI_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""  # a driver that does not answer runs no training either


# --- volumes ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where volumes come from on this machine."""

    given: Mapping[str, Path] = field(default_factory=dict)  # by --volume
    config_maps: tuple[ConfigMap, ...] = ()  # of the benchmark file

    def place(self, volume: Volume) -> Path | ConfigMap | str:
        """The folder of a volume, or what is written into one; else why there is neither, in a sentence."""
        remedy = f"give a folder with --volume {volume.name}=FOLDER"
        if volume.name in self.given:
            return self.given[volume.name].absolute()
        if volume.host_path is not None:
            path = Path(volume.host_path.path)
            return path if path.is_dir() else f"volume {volume.name} is {path}, no folder here: {remedy}"
        if volume.config_map is None:
            return f"volume {volume.name} is a PersistentVolumeClaim, and there is no cluster here: {remedy}"
        name = volume.config_map.name
        missing = f"volume {volume.name} is ConfigMap {name}, which is not in the benchmark file: {remedy}"
        return next((config_map for config_map in self.config_maps if config_map.name == name), missing)


def given_volumes(options: Sequence[str]) -> dict[str, Path]:
    """Folders by the names of volumes, from NAME=FOLDER."""
    found: dict[str, Path] = {}
    for option in options:
        name, separator, folder = option.partition("=")
        if not separator or not name or not folder:
            raise CliError(f"--volume {option}: write the volume's name and a folder, such as data=/srv/data")
        if not Path(folder).is_dir():
            raise CliError(f"--volume {option}: there is no folder {folder}")
        if name in found:
            raise CliError(f"--volume {option}: the folder of {name} is given twice: remove one of both")
        found[name] = Path(folder)
    return found


def refuse_unknown_volumes(study: observed.Study, plan: Plan, sources: Sources) -> None:
    """CliError of a folder for a volume that nobody has: its name is misspelt."""
    known = {volume.name for pool in plan.pools for volume in manifests.volumes(study, plan, pool.name)}
    if unknown := [name for name in sources.given if name not in known]:
        there = ", ".join(sorted(known)) or "no volumes"
        raise CliError(f"--volume {unknown[0]}: the benchmark has {there}: correct the name")


def skip_what_has_no_folder(study: observed.Study, plan: Plan, sources: Sources) -> Plan:

    def reason(point: Point) -> str | None:
        mounted = manifests.volumes(study, plan, point.key.pool)
        own = point.key.custom
        files = (point.key.data.path, own.file if own is not None else None)
        for path in filter(None, files):
            volume = _volume_of(path, mounted)
            if volume is not None and isinstance(why := sources.place(volume), str):
                return why
            if volume is None and not Path(path).exists():
                return f"{path} is below no volume's mountPath, and not on this machine: correct the path"
        needed = (_volume_of(word, mounted) for word in (own is not None and own.command) or ())
        return next((why for one in needed if one and isinstance(why := sources.place(one), str)), None)

    return expand.narrowed(plan, reason)


def in_place(assignment: Assignment, local: Callable[[str], str]) -> Assignment:
    """The assignment with the paths of this machine, by `local_path`."""
    custom, path = (each and local(each) for each in (assignment.custom_file, assignment.data.path))
    data = assignment.data.model_copy(update={"path": path})
    return assignment.model_copy(update={"custom_file": custom, "data": data})


def command_in_place(command: Sequence[str], local: Callable[[str], str]) -> tuple[str, ...]:
    """A command of the user's own on this machine: words that are paths below a mountPath, and `python` as we run."""
    program, *words = map(local, command)
    return (sys.executable if program in ("python", "python3") else program, *words)


def local_path(path: str, volumes: Sequence[Volume], *, sources: Sources, scratch: Path) -> str:
    """A path in the pods as it is on this machine; one below no volume stays as it is."""
    if (volume := _volume_of(path, volumes)) is None or isinstance(found := sources.place(volume), str):
        return path
    folder = found if isinstance(found, Path) else scratch / "config-maps" / found.name
    if isinstance(found, ConfigMap) and not folder.exists():
        found.write(folder)
    return str(folder / PurePosixPath(path).relative_to(volume.mount_path))


def _volume_of(path: str, volumes: Sequence[Volume]) -> Volume | None:
    """The volume that a path lies in: of several inside each other the innermost."""
    holding = (volume for volume in volumes if PurePosixPath(path).is_relative_to(volume.mount_path))
    return max(holding, key=lambda volume: len(volume.mount_path), default=None)
