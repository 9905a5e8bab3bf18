# SPDX-License-Identifier: Apache-2.0
"""What the Containerfiles say twice, because a build sees only itself. `make e2e` builds and runs the images."""

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CONTAINERFILES = ("operator/Containerfile", "jobs/Containerfile")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
LOCKED = {
    package["name"]: package.get("version")
    for package in tomllib.loads((REPOSITORY / "uv.lock").read_text(encoding="utf-8"))["package"]
}


def _read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CONTAINERFILES)
def test_the_lock_file_is_read_by_the_uv_that_wrote_it(path: str) -> None:
    (of_make,) = re.findall(r"^UV_VERSION := (\S+)$", _read("Makefile"), flags=re.MULTILINE)
    assert re.findall(r"^ARG UV_VERSION=(\S+)$", _read(path), flags=re.MULTILINE) == [of_make]


def test_cudnn_has_code_for_every_gpu_that_the_other_locked_libraries_have_code_for() -> None:
    assert LOCKED["nvidia-cuda-runtime-cu12"].startswith("12.9.")
    assert LOCKED["nvidia-cudnn-cu12"].startswith("9.10."), "later ones have none below compute capability 7.5"


@pytest.mark.parametrize("path", CONTAINERFILES)
def test_every_final_stage_is_locked_labelled_checked_and_not_root(path: str) -> None:
    stages = re.split(r"^FROM ", _read(path), flags=re.MULTILINE)[1:]
    finals = [stage for stage in stages if "org.opencontainers.image.version=" in stage]
    assert len(finals) == (2 if path.startswith("jobs") else 1)
    for stage in finals:
        assert "USER 65532:65532" in stage
        assert 'org.opencontainers.image.revision="${REVISION}"' in stage
        assert 'sh /wheel/install.sh "${VERSION}" "${REVISION}"' in stage
        assert "COPY --from=gpubench /wheel /wheel\n" in stage
        assert "type=bind,from=gpubench" not in stage, "buildah would take a layer of an older wheel from its cache"
    assert _read(path).count("uv sync --locked --no-dev") == len(finals)


@pytest.mark.parametrize("path", CONTAINERFILES)
def test_the_extras_that_go_in_exist(path: str) -> None:
    asked = set(re.findall(r"--extra (\S+)", _read(path)))
    for extras in re.findall(r"^RUN sh operator/image/sbom.sh (.+)$", _read(path), flags=re.MULTILINE):
        assert asked >= set(extras.split())
    assert asked
    assert asked <= PROJECT["project"]["optional-dependencies"].keys()


def test_a_build_sees_every_package_and_no_other_folder() -> None:
    allowed = {line[1:] for line in _read(".dockerignore").splitlines() if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    others = {"operator/image", "jobs/horovod_patches"}
    assert {path for path in allowed if (REPOSITORY / path).is_dir()} == packages | others
    assert "*" in _read(".dockerignore").splitlines()
