# SPDX-License-Identifier: Apache-2.0
"""Horovod built and two ranks run on each supported Python that this machine has: `make horovod-matrix`.

What may not happen: that a Python which is not here counts as one that works. Those are named; it fails when one that
is here fails, or when none is.

    python tests/benchmarks/horovod_matrix.py [PYTHON...]      interpreters beside those of PATH
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
CLASSIFIER = "Programming Language :: Python :: "
NOT_FOUND = "not found, so not tried: name one in PYTHONS"
EXTRAS = ("--extra", "operator", "--extra", "report", "--extra", "jobs-cpu", "--group", "dev")  # as `make setup`


def main() -> int:
    """The exit code."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    supported = [line.removeprefix(CLASSIFIER) for line in project["classifiers"] if line.startswith(CLASSIFIER)]
    unknown = [path for path in sys.argv[1:] if _version(path) not in supported]
    if unknown:
        print(f"PYTHONS: {', '.join(unknown)} is no Python {', '.join(supported)} that runs", file=sys.stderr)
        return 2
    ends: dict[str, str] = {}
    for version in supported:
        candidates = [*(path for path in sys.argv[1:] if _version(path) == version), f"python{version}"]
        python = next((path for path in candidates if _version(path) == version), None)
        ends[version] = NOT_FOUND if python is None else _try(python)
    for version, end in ends.items():
        print(f"Python {version}: {end}")
    tried = [end for end in ends.values() if end != NOT_FOUND]
    return int(not tried or any(end.startswith("FAILED") for end in tried))


def _version(python: str) -> str | None:
    """Of an interpreter that runs; a name on PATH may be one that only says where to get it."""
    if (path := shutil.which(python)) is None:
        return None
    command = [path, "-c", "import sysconfig; print(sysconfig.get_python_version())"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def _try(python: str) -> str:
    with tempfile.TemporaryDirectory(prefix="gpubench-matrix-") as folder:
        inside = str(Path(folder) / "bin" / "python")
        path = shutil.which(python)
        assert path is not None
        uv = os.environ.get("UV", "uv")
        sync = [uv, "sync", "--locked", "--inexact", "--python", path, *EXTRAS]
        build = [inside, "jobs/horovod_wheel.py", "install"]
        ranks = [inside, "-m", "pytest", "--quiet", "-x", "tests/jobs/test_reduction.py"]
        environment = {**os.environ, "UV": uv, "UV_PROJECT_ENVIRONMENT": folder}
        for what, command in (("its packages", sync), ("the build of Horovod", build), ("two ranks", ranks)):
            if subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode != 0:
                return f"FAILED: {what}"
    return "two ranks reduced"


if __name__ == "__main__":
    sys.exit(main())
