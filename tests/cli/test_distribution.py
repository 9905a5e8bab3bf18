# SPDX-License-Identifier: Apache-2.0
"""Another project of the name `gpubench`, installed beside this one: it is named instead of a traceback."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpubench_cli import __main__ as program
from gpubench_cli import distribution

FOREIGN = {
    "gpubench/__init__.py": "measure = print\n",
    "gpubench-9.9.dist-info/METADATA": "Metadata-Version: 2.1\nName: gpubench\nVersion: 9.9\n",
    "gpubench-9.9.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "gpubench-9.9.dist-info/RECORD": "gpubench/__init__.py,,\ngpubench-9.9.dist-info/METADATA,,\n"
    "gpubench-9.9.dist-info/WHEEL,,\ngpubench-9.9.dist-info/RECORD,,\n",
}
REMEDY = "gpubench 9.9 is another project, and its package gpubench shadows this program's: pip uninstall gpubench"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder with the other project's wheel installed: a pure wheel is unpacked, and that is all."""
    wheel = tmp_path / "gpubench-9.9-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as made:
        for name, text in FOREIGN.items():
            made.writestr(name, text)
    with zipfile.ZipFile(wheel) as installed:
        installed.extractall(tmp_path / "site-packages")
    return tmp_path / "site-packages"


def called(foreign: Path, command: str, *, first: bool) -> subprocess.CompletedProcess[str]:
    """The command where the foreign package is found before ours, or after it."""
    put = f"sys.path.{'insert(0, ' if first else 'append('}{str(foreign)!r})"
    code = f"import sys; {put}; from gpubench_cli.__main__ import main; sys.exit(main([{command!r}]))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_a_foreign_package_that_is_found_first_is_named_and_nothing_else_is_said(foreign: Path, command: str) -> None:
    ended = called(foreign, command, first=True)
    assert (ended.returncode, REMEDY in ended.stderr, "Traceback" in ended.stderr) == (1, True, False)


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("--version",)) == 0
    assert capsys.readouterr().out == f"gpubench {distribution.version()}\n"
