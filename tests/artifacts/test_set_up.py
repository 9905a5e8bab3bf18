# SPDX-License-Identifier: Apache-2.0
"""The Makefile on odd machines: it says what is wrong, in the last line before make's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("make", "bash", "sh", "sed", "grep", "dirname", "mkdir", "touch", "cat")
SETTINGS_OF_CACHES = ("HOME", "XDG_CACHE_HOME", "GPUBENCH_CACHE")
#: In place of uv: a set-up fails by it, and `python find` ends with its first argument.
UV = """#!/bin/sh
case "$*" in
--version) echo "uv 0.13.9" ;;
"python find") exit {found} ;;
sync*) echo "error: its own words" >&2; exit 2 ;;
esac
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder for PATH: what every Linux has, and nothing else."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        (folder / name).symlink_to(found)
    return folder


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """As much of one as a set-up reads."""
    folder = tmp_path / "checkout"
    for name in ("Makefile", "pyproject.toml", "uv.lock", "operator/image/uv.txt", "jobs/horovod_wheel.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def make(*arguments: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """With these variables and no others."""
    environment = {"PATH": os.environ["PATH"], **variables}
    command = ["make", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("variable", SETTINGS_OF_CACHES)
def test_a_cache_with_a_blank_in_its_path_is_refused_before_anything_is_made(checkout: Path, variable: str) -> None:
    blank = checkout / "Jane Doe"
    ended = make("setup", folder=checkout, **({"HOME": str(checkout)} | {variable: str(blank)}))
    assert ended.returncode == 2
    (said,) = ended.stderr.splitlines()
    assert f"The cache {blank}" in said
    assert "set GPUBENCH_CACHE to a folder without one" in said
    assert sorted(path.name for path in checkout.iterdir()) == [
        "Makefile",
        "jobs",
        "operator",
        "pyproject.toml",
        "uv.lock",
    ]


@pytest.mark.parametrize("variables", [{}, {"HOME": ""}], ids=["unset", "empty"])
def test_without_a_home_no_cache_is_made_in_the_root_of_the_file_system(
    checkout: Path, variables: Mapping[str, str]
) -> None:
    ended = make("--dry-run", "setup", folder=checkout, **variables)
    assert ended.returncode == 2
    (said,) = ended.stderr.splitlines()
    assert "HOME is not set: set it, or set GPUBENCH_CACHE" in said
    assert "demo" in make("help", folder=checkout, **variables).stdout, "the list of targets needs no cache"
    own = make("--dry-run", "setup", folder=checkout, GPUBENCH_CACHE="/own", **variables)
    assert own.returncode == 0, own.stderr


@pytest.mark.parametrize(
    ("found", "cause"),
    [
        (2, "set-up: this needs Python 3.11, 3.12 or 3.13: none is installed, and uv could not download one"),
        (0, "set-up: uv did not install the packages of uv.lock; where a request failed above, no server answers it: "),
    ],
    ids=["another Python", "another cause"],
)
def test_the_last_line_of_a_failed_set_up_names_the_cause(
    machine: Path, checkout: Path, found: int, cause: str
) -> None:
    (machine / "uv").write_text(UV.format(found=found))
    (machine / "uv").chmod(0o755)
    ended = make("setup", folder=checkout, PATH=str(machine), HOME=str(checkout))
    own, last, _ = ended.stderr.splitlines()
    assert (own, last[: len(cause)]) == ("error: its own words", cause)
    assert not (checkout / ".venv/.synced").exists()


@pytest.mark.parametrize(
    ("python", "cause"),
    [
        (None, "set-up: there is no python3: install Python 3.11, 3.12 or 3.13, or uv"),
        (
            "#!/bin/sh\nexit 1\n",
            "set-up: this python3 has neither venv nor pip: install one of them (Debian: python3-venv)",
        ),
    ],
    ids=["none", "as Debian has it"],
)
def test_a_python_that_is_not_enough_is_named(machine: Path, checkout: Path, python: str | None, cause: str) -> None:
    if python is not None:
        (machine / "python3").write_text(python)
        (machine / "python3").chmod(0o755)
    ended = make("setup", folder=checkout, PATH=str(machine), HOME=str(checkout))
    said, _ = ended.stderr.splitlines()
    assert said.startswith(cause)


def test_an_index_that_does_not_answer_is_not_taken_for_a_python_without_pip(machine: Path, checkout: Path) -> None:
    (machine / "python3").symlink_to(Path(sys.executable).resolve())
    away = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
    ended = make("setup", folder=checkout, PATH=str(machine), HOME=str(checkout), **away)
    *_, said, _ = ended.stderr.splitlines()
    assert said.startswith("set-up: the package index does not answer, or has no uv"), ended.stderr


def test_the_path_of_a_checkout_is_read_in_any_locale(tmp_path: Path) -> None:
    """As Python reads it at each start from the file that an editable install leaves."""
    checkout = tmp_path / "Überprüfung"
    checkout.mkdir()
    (tmp_path / "editable.pth").write_text(f"{checkout}\n", encoding="utf-8")
    program = "import site, sys; site.addsitedir(sys.argv[1]); print(ascii(sys.path[-1]))"
    rule = f"try: ; @{Path(sys.executable).resolve()} -I -c '{program}' {tmp_path}"
    ended = make("--eval", rule, "try", folder=ROOT, HOME="/", LC_ALL="C")
    assert ended.stdout.strip() == ascii(str(checkout)), ended.stderr


def test_the_demo_builds_what_it_runs_and_tests_build_all(checkout: Path) -> None:
    def programs(target: str) -> set[str]:
        """That are run to build something."""
        lines = make("--dry-run", target, folder=checkout, HOME=str(checkout)).stdout.splitlines()
        builds = [line for line in lines if "cluster.py build" in line or "_programs.py" in line or "_wheel.py" in line]
        return {Path(word).name for line in builds for word in line.split() if word.endswith(".py")}

    needed = {"cluster.py", "horovod_wheel.py"}
    assert programs("demo") == programs("cluster-up") == needed
    assert programs("test") == needed | {"helm_programs.py", "prometheus_programs.py"}
