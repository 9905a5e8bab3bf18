# SPDX-License-Identifier: Apache-2.0
"""What Grafana makes of the committed dashboards, by its own package: `tests/rendering/grafana/rules.test.mjs`.

The responses are made here and now by a real Prometheus (`frames.py`): they are those of the committed expressions.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import frames
import go_build

ROOM = Path(frames.__file__).parent
PACKAGE = ("package.json", "package-lock.json")


def packages(npm: str) -> Path:
    """The folder node_modules of the lock file, installed once per machine."""
    key = hashlib.sha256(b"".join((ROOM / name).read_bytes() for name in PACKAGE)).hexdigest()[:16]
    entry = go_build.cache_directory() / "grafana" / key

    def make(missing: Sequence[str], beside: Path) -> None:
        staged = beside / f"{missing[0]}.entry"
        staged.mkdir()
        for name in PACKAGE:
            shutil.copy(ROOM / name, staged)
        subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=staged, check=True)

    go_build.built({key: entry}, make)
    return entry / "node_modules"


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("frames") / "frames.json"
    file.write_text(json.dumps(frames.frames()), encoding="utf-8")
    return file


@pytest.mark.parametrize("package", ["@grafana/data", "grafana-data-10"])
def test_grafanas_rules(package: str, answers: Path, tmp_path: Path) -> None:
    """Of the newest Grafana that is promised, and the oldest."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        assert not os.environ.get("CI"), "Grafana's rules need Node.js and npm on PATH"
        pytest.skip("no npm on PATH: install Node.js 20 or later")
    (tmp_path / "node_modules").symlink_to(packages(npm))
    for path in (ROOM / "package.json", *ROOM.glob("*.mjs")):
        shutil.copy(path, tmp_path)
    told = {"FRAMES": str(answers), "DASHBOARDS": str(frames.DASHBOARDS), "GRAFANA_DATA": package}
    done = subprocess.run(
        [node, "--test", "rules.test.mjs"],
        cwd=tmp_path,
        env=os.environ | told,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "# tests 0" not in done.stdout
    assert "# skipped 0" in done.stdout
