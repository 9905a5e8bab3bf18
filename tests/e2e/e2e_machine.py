# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end check needs of the machine, and what it may touch of it.

Everything that it starts lives in namespaces of its own (processes, mounts, network), and so does every mount,
interface and rule that these programs make: when the first process of the namespaces ends, in whatever way, the kernel
takes all of it away. Outside of them there are one working folder, one cgroup and the cache. What may not happen here:
a change of the machine beside these, but for Debian packages that are missing, which is said.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

NOT_HERE = 77  # what test runners take for "skipped"
#: A program or a file, and the Debian package that it comes with.
PACKAGES = {
    "buildah": "buildah",
    "containerd": "containerd",
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "iptables": "iptables",
    "runc": "runc",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
}
CORES = 2
FREE_GIB = 18.0  # seen: 14 GiB in the cache, and what the pods and their logs need
FREE_WARM_GIB = 4.0
APT_SECONDS = 600
CGROUPS = Path("/sys/fs/cgroup")
WORK_PREFIX = "gpubench-e2e-"
WORK_PARENT = Path("/var/tmp")  # noqa: S108  # images are unpacked there: too much for a /tmp in memory
GONE_SECONDS = 30.0


class NotHereError(RuntimeError):
    """The check cannot run on this machine; the text says why, and what would help."""


def require(cache: Path) -> None:
    """All that the machine must have; Debian packages that are missing are installed."""
    if sys.platform != "linux":
        raise NotHereError(f"it needs Linux, this is {sys.platform}")
    if os.geteuid() != 0:
        raise NotHereError("it needs root, for containerd, kubelet and network namespaces: run it with sudo")
    if len(os.sched_getaffinity(0)) < CORES:
        raise NotHereError(f"it needs {CORES} processor cores, one for each rank")
    _install_packages()
    _require_namespaces()
    if "overlay" not in Path("/proc/filesystems").read_text(encoding="ascii"):
        subprocess.run(["modprobe", "overlay"], check=False, capture_output=True, timeout=30)
        if "overlay" not in Path("/proc/filesystems").read_text(encoding="ascii"):
            raise NotHereError("the kernel has no overlay file system")
    if not hierarchies():
        raise NotHereError(f"no cgroups are mounted in {CGROUPS}")
    needed = FREE_WARM_GIB if any(cache.glob("unpacked-*")) else FREE_GIB
    for folder in (cache, WORK_PARENT):
        free = shutil.disk_usage(folder).free / 2**30
        if free < needed:
            raise NotHereError(f"{folder} has {free:.1f} GiB free, and {needed:.0f} are needed")


def _install_packages() -> None:
    wanted = sorted({package for needed, package in PACKAGES.items() if shutil.which(needed) is None})
    if not wanted:
        return
    names = " ".join(wanted)
    if shutil.which("apt-get") is None:
        raise NotHereError(f"it needs the Debian packages {names}, and there is no apt-get")
    print(f"e2e: installing the Debian packages {names}; they stay", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *wanted]):
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=APT_SECONDS
        )
        if done.returncode != 0:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise NotHereError(f"the Debian packages {names} cannot be had: {' '.join(command[:2])}: {' '.join(last)}")


def _require_namespaces() -> None:
    attempt = [*apart(network=True), "ip", "link", "add", "probe", "type", "bridge"]
    done = subprocess.run(attempt, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise NotHereError(f"namespaces, or bridges in them, are not allowed: {done.stderr.strip()}")


def apart(*, network: bool = False) -> list[str]:
    """What a command begins with that runs in namespaces of its own, and is killed with all it started when we end."""
    more = ["--net", "--uts", "--ipc"] if network else []
    names = ["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", *more]
    return ["setpriv", "--pdeathsig", "KILL", "unshare", *names]


# --- the working folder --------------------------------------------------------------------------------


@contextlib.contextmanager
def working_folder() -> Iterator[Path]:
    """A folder that is removed at the end, as are those of runs that were killed."""
    for abandoned in WORK_PARENT.glob(f"{WORK_PREFIX}*"):
        _remove_abandoned(abandoned)
    folder = Path(tempfile.mkdtemp(prefix=WORK_PREFIX, dir=WORK_PARENT))
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            remove_cgroup(folder.name)
            _remove_folder(folder)


def _remove_abandoned(folder: Path) -> None:
    with contextlib.suppress(OSError), (folder / "lock").open("r") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its run lives
        remove_cgroup(folder.name)
        _remove_folder(folder)


def _remove_folder(folder: Path) -> None:
    """Its lock last: as long as that is there, the next run knows that there is something to remove."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != "lock":
            path.unlink()
    shutil.rmtree(folder)


# --- cgroups -------------------------------------------------------------------------------------------


def hierarchies() -> list[Path]:
    """The one of version 2, or those of version 1 and what stands beside them in a hybrid set-up."""
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    found = {path.resolve() for path in CGROUPS.iterdir() if (path / "cgroup.procs").exists()}
    return sorted(found)


def make_cgroups(name: str, node: str) -> None:
    """A cgroup for the node, below one that is ours: a kubelet would take the machine's own root."""
    for hierarchy in hierarchies():
        parent = hierarchy
        for folder in (hierarchy / name, hierarchy / name / node):
            _delegate(parent)
            folder.mkdir()
            _inherit(folder, parent=parent)
            parent = folder


def _delegate(folder: Path) -> None:
    """Version 2 only (not run here): what is below may set limits, too."""
    control = folder / "cgroup.subtree_control"
    if control.exists():
        for controller in (folder / "cgroup.controllers").read_text(encoding="ascii").split():
            with contextlib.suppress(OSError):
                control.write_text(f"+{controller}", encoding="ascii")


def _inherit(folder: Path, *, parent: Path) -> None:
    """Version 1 only: a cpuset begins empty, and holds no process until it has something."""
    for name in ("cpuset.cpus", "cpuset.mems"):
        if (folder / name).exists() and not (folder / "cgroup.controllers").exists():
            (folder / name).write_text((parent / name).read_text(encoding="ascii"), encoding="ascii")


def remove_cgroup(name: str) -> None:
    """Its processes have been killed; the kernel needs a moment to count them out."""
    deadline = time.monotonic() + GONE_SECONDS
    for hierarchy in hierarchies():
        while (hierarchy / name).exists():
            for folder, _, _ in os.walk(hierarchy / name, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{hierarchy / name} still holds processes after {GONE_SECONDS:.0f} s")
            time.sleep(0.05)


def left_behind(work: Path) -> list[str]:
    """What of a run is still there: nothing, if the kernel does what it says."""
    found = [f"the folder {work}"] if work.exists() else []
    found += [f"the cgroup {path / work.name}" for path in hierarchies() if (path / work.name).exists()]
    mounts = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    found += [f"the mount {line.split()[1]}" for line in mounts if work.name in line]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if work.name in words:
                found.append(f"process {process.name}: {words[:100]}")
    return found
