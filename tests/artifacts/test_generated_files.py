# SPDX-License-Identifier: Apache-2.0
"""The committed CRDs, ClusterRole and reference pages are what the code says, and the check notices when not."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GENERATED = ("charts/gpubench/files/crds", "charts/gpubench/files/rbac", "docs/reference")
HAND_WRITTEN = frozenset({"README.md", "settings.md", "warnings.md"})
CRD = "charts/gpubench/files/crds/gpubench.dev_gpupools.yaml"


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "charts/generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_committed_files_are_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "charts/generate.py")
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    assert program.main(["--check"]) == 0
    assert capsys.readouterr().out == ""


def test_generating_twice_changes_nothing(tmp_path: Path) -> None:
    generate("--root", str(tmp_path))
    again = generate("--root", str(tmp_path))
    assert (again.returncode, again.stdout) == (0, "")


def test_check_shows_what_differs_and_writes_nothing(tmp_path: Path) -> None:
    for folder in GENERATED:
        shutil.copytree(ROOT / folder, tmp_path / folder)
    edited = (ROOT / CRD).read_text(encoding="utf-8").replace("maximum: 1000\n", "maximum: 2000\n")
    (tmp_path / CRD).write_text(edited, encoding="utf-8")
    done = generate("--check", "--root", str(tmp_path))
    assert done.returncode == 1
    assert "-                  maximum: 2000" in done.stdout
    assert "+                  maximum: 1000" in done.stdout
    assert (tmp_path / CRD).read_text(encoding="utf-8") == edited


def test_every_generated_file_says_so_where_it_begins() -> None:
    files = [
        path
        for folder in GENERATED
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.name not in HAND_WRITTEN and path.suffix != ".png"  # of a browser
    ]
    assert len(files) >= 5
    for path in files:
        first, second, *_ = path.read_text(encoding="utf-8").splitlines()
        assert "Generated from" in (second if first == "{" else first), path  # JSON has no line before it
