# SPDX-License-Identifier: Apache-2.0
"""Build Horovod once for the TensorFlow of an interpreter, keep the wheel, install it. Standard library only.

Horovod is on PyPI as source and takes minutes to compile, so its wheel is kept outside the checkout, under a key of all
that its binary depends on. Must not happen: a half-written wheel under its final name, two builders at once, or a patch
that is applied in another place than it was made for. For NCCL set HOROVOD_GPU_OPERATIONS=NCCL and its companions.
"""

# ruff: noqa: S603, T201  # it runs a compiler and talks to people

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, NoReturn

HOROVOD_VERSION = "0.28.1"
#: Each with its reason: the last release of Horovod knows no TensorFlow after 2.18.
PATCHES = sorted(Path(__file__).with_name("horovod_patches").glob("*.patch"))
#: Of its source, as in uv.lock. A build runs what is in it.
HOROVOD_SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
#: What runs inside the throw-away environment, of the versions and hashes of `make pins`.
BUILD_REQUIREMENTS = ("--require-hashes", "--requirement", str(Path(__file__).with_name("horovod_build.txt")))
#: Flags of a caller that reach the build, and so the key.
PASSED_ON = (
    "HOROVOD_GPU_OPERATIONS", "HOROVOD_CUDA_HOME", "HOROVOD_BUILD_CUDA_CC_LIST",
    "HOROVOD_NCCL_HOME", "HOROVOD_NCCL_INCLUDE", "HOROVOD_NCCL_LIB", "HOROVOD_NCCL_LINK",
    "CXX", "CXXFLAGS", "LDFLAGS",
)  # fmt: skip
FLAGS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
} | {name: os.environ[name] for name in PASSED_ON if name in os.environ}
#: Horovod runs this in place of cmake. Building everything would compile Gloo twice, once for a C++ standard that this
#: TensorFlow does not use; RelWithDebInfo, which its setup.py insists on, would write debug information at -O3.
_CMAKE = """#!/bin/sh
if [ "$1" = --build ]; then exec cmake --build . --target tensorflow -- -j{jobs}; fi
exec cmake -G Ninja "$@" "-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O3 -DNDEBUG"
"""
_ASK_TARGET = """
import importlib.metadata as m, json, sysconfig
found = {}
for name in ("tensorflow", "tensorflow-cpu"):
    try: found[name] = m.version(name)
    except m.PackageNotFoundError: pass
paths = sysconfig.get_paths()
print(json.dumps([found, sysconfig.get_config_var("SOABI"), sorted({paths["purelib"], paths["platlib"]})]))
"""


class BuildError(Exception):
    """What went wrong, in one sentence, with the remedy."""


class Target(NamedTuple):
    """What the wheel depends on in the interpreter that is to import it."""

    tensorflow: dict[str, str]  # versions
    soabi: str
    paths: list[str]  # of its packages


def main() -> int:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("path", "build", "install"))
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the TensorFlow")
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _leave)
    try:
        target = _ask_target(options.python)
        wheel = _wheel_place(target)
        if options.command != "path":
            _build_once(options.python, target=target, wheel=wheel)
        if options.command == "install":
            _install(options.python, target=target, wheel=wheel)
        else:
            print(_wheel_in(wheel) or wheel)
    except BuildError as error:
        print(f"horovod_wheel: {error}", file=sys.stderr)
        return 1
    return 0


def _leave(number: int, _frame: object) -> NoReturn:
    """By an exception: what stands in `finally` ends the compilers and clears the scratch."""
    _say(f"stopped by {signal.Signals(number).name}; nothing of it runs any more")
    raise SystemExit(128 + number)


def _ask_target(python: str) -> Target:
    """Asked without importing TensorFlow, which takes seconds."""
    try:
        answer = subprocess.run([python, "-c", _ASK_TARGET], check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"the interpreter {python} does not run: {error}") from error
    target = Target(*json.loads(answer))
    if not target.tensorflow:
        raise BuildError(f"{python} has no TensorFlow: install the extra jobs-cpu or jobs-gpu first")
    return target


def _compiler() -> str:
    compiler = os.environ.get("CXX", "c++")
    try:
        ended = subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(
            f"no C++ compiler ({compiler}): install g++ (on Debian and Ubuntu: apt install g++)"
        ) from error
    return ended.stdout.splitlines()[0]


def _wheel_place(target: Target) -> Path:
    """The folder of the one wheel that fits: its name is a hash of all that the binary depends on."""
    facts = {
        "horovod": HOROVOD_VERSION,
        "patches": [path.read_text() for path in PATCHES],
        "tensorflow": target.tensorflow,
        "python": target.soabi,
        "machine": platform.machine(),
        "compiler": _compiler(),
        "flags": FLAGS,
        "cmake": _CMAKE,
    }
    key = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpubench"
    return Path(os.environ.get("GPUBENCH_CACHE") or users) / "horovod" / key


def _wheel_in(place: Path) -> Path | None:
    return next(iter(place.glob("*.whl")), None)


def _build_once(python: str, *, target: Target, wheel: Path) -> None:
    if _wheel_in(wheel):
        return
    wheel.parent.mkdir(parents=True, exist_ok=True)
    lock = wheel.with_suffix(".lock")
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(f"another process is building the same wheel; waiting for {lock}")
            fcntl.flock(file, fcntl.LOCK_EX)
        if _wheel_in(wheel):  # another builder finished while we waited
            return
        with tempfile.TemporaryDirectory(dir=wheel.parent, prefix=f"{wheel.name}.building-") as scratch:
            _build(python, target=target, scratch=Path(scratch), kept_log=wheel.with_suffix(".log"))
            (Path(scratch) / "wheel").rename(wheel)


def _say(message: str) -> None:
    print(f"horovod: {message}", file=sys.stderr, flush=True)


def _build(python: str, *, target: Target, scratch: Path, kept_log: Path) -> None:
    """The wheel in `scratch/wheel`. The target's packages are lent to the throw-away environment, not copied."""
    log, environment = scratch / "build.log", scratch / "environment"
    inside = str(environment / "bin" / "python")
    wrapper = scratch / "cmake-of-horovod"
    wrapper.write_text(_CMAKE.format(jobs=len(os.sched_getaffinity(0))))
    wrapper.chmod(0o755)
    # The lent packages come last on the path, so that setuptools and packaging are the throw-away environment's.
    variables = os.environ | FLAGS | {
        "HOROVOD_CMAKE": str(wrapper),
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "TMPDIR": str(scratch),
    }  # fmt: skip
    variables.pop("PYTHONPATH", None)
    uv, started = _uv(), time.monotonic()
    try:
        _run([*uv, "venv", "--quiet", "--python", python, str(environment)], variables, log)
        _run([*uv, "pip", "install", "--python", inside, *BUILD_REQUIREMENTS], variables, log)
        (packages,) = environment.glob("lib/python*/site-packages")
        (packages / "lent.pth").write_text("\n".join(target.paths) + "\n")
        pip = [inside, "-m", "pip", "--no-cache-dir"]
        alone = ["--no-deps", "--no-build-isolation", "--no-binary", "horovod"]
        pinned = scratch / "horovod.txt"  # pip takes no hash on its command line
        pinned.write_text(f"horovod=={HOROVOD_VERSION} --hash=sha256:{HOROVOD_SHA256}\n")
        download = [*pip, "download", *alone, "--dest", str(scratch), "--require-hashes", "-r", str(pinned)]
        _run(download, variables, log)
        (sdist,) = scratch.glob("horovod-*.tar.gz")
        shutil.unpack_archive(sdist, scratch)
        source = scratch / f"horovod-{HOROVOD_VERSION}"
        for patch in PATCHES:
            _apply(patch, source)
        wheel = [*pip, "wheel", "--verbose", *alone, "--wheel-dir", str(scratch / "wheel"), str(source)]
        _say("compiling, once per compiler and TensorFlow: one to three minutes")
        _run(wheel, variables, log)
    except subprocess.CalledProcessError as error:
        shutil.copyfile(log, kept_log)
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
        raise BuildError(f"the build of Horovod failed; whole log: {kept_log}; its end:\n{tail}") from error
    _say(f"built in {time.monotonic() - started:.0f} s")


def _apply(patch: Path, source: Path) -> None:
    """One unified diff, stricter than patch(1), which not every machine has: the old lines stand there exactly once."""
    files = re.findall(r"^--- a/.+\n\+\+\+ b/(.+)\n((?:[@ +-].*\n)+)", patch.read_text(), re.MULTILINE)
    for name, hunks in files or [("", "")]:
        for hunk in re.split(r"^@@.*\n", hunks, flags=re.MULTILINE)[1:] or [""]:
            lines = hunk.splitlines(keepends=True)
            old = "".join(line[1:] for line in lines if line[0] in " -")
            new = "".join(line[1:] for line in lines if line[0] in " +")
            path = source / name
            content = path.read_text() if path.is_file() else ""
            if not old or content.count(old) != 1:
                raise BuildError(
                    f"the patch {patch} does not fit {name or 'any file'} of Horovod {HOROVOD_VERSION}: "
                    "make it anew from that release, or remove it if it is no longer needed"
                )
            path.write_text(content.replace(old, new))


def _uv() -> list[str]:
    if found := os.environ.get("UV") or shutil.which("uv"):
        return [found]
    if subprocess.run([sys.executable, "-m", "uv", "--version"], check=False, capture_output=True).returncode == 0:
        return [sys.executable, "-m", "uv"]
    raise BuildError("uv is not installed: install it from PyPI (pip install uv) or name it in $UV")


def _run(command: list[str], variables: dict[str, str], log: Path) -> None:
    """All that it says goes to the log. Compilers are its grandchildren: they are ended as one group."""
    with log.open("a") as output:
        process = subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        code = process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code:
        raise subprocess.CalledProcessError(code, command)


def _install(python: str, *, target: Target, wheel: Path) -> None:
    """Nothing when exactly this wheel is installed; the marker tells it from one built for another TensorFlow."""
    markers = [Path(path) / f"horovod-{HOROVOD_VERSION}.dist-info" / "gpubench-wheel-key" for path in target.paths]
    if any(marker.is_file() and marker.read_text() == wheel.name for marker in markers):
        return
    file = _wheel_in(wheel)
    assert file is not None
    pip = [*_uv(), "pip", "install", "--quiet", "--compile-bytecode", "--python", python]
    try:
        subprocess.run([*pip, "--reinstall-package", "horovod", str(file)], check=True)
    except subprocess.CalledProcessError as error:
        raise BuildError(f"the wheel {file} could not be installed into {python}") from error
    for marker in markers:
        if marker.parent.is_dir():
            marker.write_text(wheel.name)
    _say(f"installed {file.name}")


if __name__ == "__main__":
    sys.exit(main())
