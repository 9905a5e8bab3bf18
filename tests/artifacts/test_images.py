# SPDX-License-Identifier: Apache-2.0
"""What the Containerfiles say twice, because a build sees only itself. `make e2e` builds and runs the images."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CONTAINERFILES = ("operator/Containerfile", "jobs/Containerfile")
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
PACKAGES = tomllib.loads((REPOSITORY / "uv.lock").read_text(encoding="utf-8"))["package"]
LOCKED = {package["name"]: package.get("version") for package in PACKAGES}
#: The files of `make pins`, and what each must name among what that needs.
PINS = {
    "operator/image/uv.txt": {"uv"},
    "operator/image/build.txt": {"hatchling"},
    "jobs/horovod_build.txt": {"pip", "setuptools", "wheel", "cmake", "ninja"},
}


def _read(path: str) -> str:
    return (REPOSITORY / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("path", CONTAINERFILES)
def test_uv_and_the_build_tools_come_by_hash_from_one_file_each(path: str) -> None:
    text = _read(path)
    installs = [line for line in text.splitlines() if re.search(r"\b(pip install|uv build|uv sync)\b", line)]
    for line in installs:
        if "pip install" in line:
            assert line.endswith("--require-hashes -r /uv.txt")
        elif "uv build" in line:
            assert "--require-hashes --build-constraints operator/image/build.txt" in line
        else:
            assert "uv sync --locked --no-build " in line, "what is built on the way has tools that nothing pins"
    assert {re.findall("pip install|uv build|uv sync", line)[0] for line in installs} == {
        "pip install",
        "uv build",
        "uv sync",
    }
    assert "COPY operator/image/uv.txt /uv.txt\n" in text
    assert not re.search(r"uv==|UV_VERSION", text)
    assert not re.search(r"uv==[0-9]|^UV_VERSION := [0-9]", _read("Makefile"), flags=re.MULTILINE)


@pytest.mark.parametrize(("path", "tools"), PINS.items())
def test_a_file_of_pins_has_one_version_and_hashes_for_each_package(path: str, tools: set[str]) -> None:
    requirements = [each for each in _read(path).replace("\\\n", "").splitlines() if each[0] not in "# "]
    for requirement in requirements:
        assert re.match(r"[a-z0-9-]+==[0-9.]+ ; sys_platform == 'linux'( +--hash=sha256:[0-9a-f]{64})+$", requirement)
    assert {requirement.partition("==")[0] for requirement in requirements} >= tools


def test_the_source_of_horovod_is_the_one_that_is_locked() -> None:
    (horovod,) = (package for package in PACKAGES if package["name"] == "horovod")
    program = _read("jobs/horovod_wheel.py")
    assert f'HOROVOD_VERSION = "{horovod["version"]}"' in program
    assert f'"{horovod["sdist"]["hash"].removeprefix("sha256:")}"' in program


DPKG = """#!/bin/sh
cat <<'LINES'
installed libpcre3 2:8.39-15 amd64 pcre3 2:8.39-15
installed libstdc++6 12.2.0-14+deb12u1 amd64 gcc-12 12.2.0-14+deb12u1
installed sed 4.9-1+b1 amd64 sed 4.9-1
installed tzdata 2024a-0+deb12u1 all tzdata 2024a-0+deb12u1
installed zlib1g 1:1.2.13.dfsg-1 amd64 zlib 1:1.2.13.dfsg-1
installed zlib1g 1:1.2.13.dfsg-1 i386 zlib 1:1.2.13.dfsg-1
config-files removed 1.0 amd64 removed 1.0
LINES
"""
#: As uv writes it, shortened.
OF_UV = {
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {"component": {"type": "library", "bom-ref": "kube-gpubench-1@0.1.0", "name": "kube-gpubench"}},
    "components": [{"type": "library", "bom-ref": "kopf-2@1.45", "name": "kopf", "purl": "pkg:pypi/kopf@1.45"}],
    "dependencies": [{"ref": "kopf-2@1.45"}],
}


def _with_system_packages(root: Path, dpkg: str) -> subprocess.CompletedProcess[str]:
    """`sbom.sh system` in a tree of its own, with a dpkg of its own."""
    for path, text in {
        "bin/dpkg-query": dpkg,
        "opt/gpubench/share/sbom.cdx.json": json.dumps(OF_UV),
        "etc/os-release": 'ID=debian\nVERSION_ID="12"\n',
        "usr/share/doc/zlib1g/copyright": "Format: https://www.debian.org/\n\nLicense: Zlib\n\nLicense: Zlib\n text\n",
        "usr/share/doc/libpcre3/copyright": "Format: https://www.debian.org/\n\nLicense: BSD\n\nLicense: GPL-2+\n",
        "usr/share/doc/tzdata/copyright": "It is in the public domain.\nLicense: see there\n",
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "bin" / "dpkg-query").chmod(0o755)
    return subprocess.run(
        ["sh", str(REPOSITORY / "operator/image/sbom.sh"), "system", "debian:bookworm-slim@sha256:01"],
        env={"PATH": f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}", "ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_packages_of_the_system_are_in_the_list_of_what_is_in_an_image(tmp_path: Path) -> None:
    ended = _with_system_packages(tmp_path, DPKG)
    assert ended.returncode == 0, ended.stderr
    share = tmp_path / "opt" / "gpubench" / "share"
    assert [path.name for path in share.iterdir()] == ["sbom.cdx.json"]
    sbom: dict[str, Any] = json.loads((share / "sbom.cdx.json").read_text())
    assert {key: value for key, value in sbom.items() if key != "components"} == {
        key: value for key, value in OF_UV.items() if key != "components"
    }
    kopf, base, *system = sbom["components"]
    assert [kopf] == OF_UV["components"]
    assert (base["type"], base["name"], base["version"]) == ("operating-system", "debian", "12")
    assert base["properties"][0]["value"] == "debian:bookworm-slim@sha256:01"
    # https://github.com/package-url/purl-spec/blob/main/types-doc/deb-definition.md
    assert [component["purl"].removeprefix("pkg:deb/debian/") for component in system] == [
        "libpcre3@2:8.39-15?arch=amd64&distro=debian-12&upstream=pcre3%402:8.39-15",
        "libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64&distro=debian-12&upstream=gcc-12%4012.2.0-14%2Bdeb12u1",
        "sed@4.9-1%2Bb1?arch=amd64&distro=debian-12&upstream=sed%404.9-1",
        "tzdata@2024a-0%2Bdeb12u1?arch=all&distro=debian-12",
        "zlib1g@1:1.2.13.dfsg-1?arch=amd64&distro=debian-12&upstream=zlib%401:1.2.13.dfsg-1",
        "zlib1g@1:1.2.13.dfsg-1?arch=i386&distro=debian-12&upstream=zlib%401:1.2.13.dfsg-1",
    ]
    zlib = [{"license": {"name": "Zlib"}}]
    assert [component.get("licenses") for component in system] == [None, None, None, None, zlib, zlib]
    references = [component["bom-ref"] for component in sbom["components"]]
    assert len(set(references)) == len(references) == 8


def test_an_image_whose_system_names_no_package_is_not_built(tmp_path: Path) -> None:
    ended = _with_system_packages(tmp_path, "#!/bin/sh\n")
    assert ended.returncode != 0
    assert "dpkg-query names no package" in ended.stderr


def test_an_audit_that_nobody_answers_fails_and_names_the_service() -> None:
    ended = subprocess.run(
        ["make", "audit", "ARGUMENTS=--service-url http://127.0.0.1:1"],
        cwd=REPOSITORY,
        env={**os.environ, "UV_HTTP_RETRIES": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode != 0
    assert "audit: uv.lock was not audited; the reason is above" in ended.stderr


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
        assert 'org.opencontainers.image.base.name="${BASE}"' in stage
        assert 'sh /wheel/install.sh "${VERSION}" "${REVISION}" "${BASE}"' in stage
        assert "COPY --from=gpubench /wheel /wheel\n" in stage
        assert "type=bind,from=gpubench" not in stage, "buildah would take a layer of an older wheel from its cache"
    assert _read(path).count("uv sync --locked --no-build --no-dev") == len(finals)


@pytest.mark.parametrize("path", CONTAINERFILES)
def test_the_extras_that_go_in_exist(path: str) -> None:
    asked = set(re.findall(r"--extra (\S+)", _read(path)))
    for extras in re.findall(r"^RUN sh operator/image/sbom.sh python (.+)$", _read(path), flags=re.MULTILINE):
        assert asked >= set(extras.split())
    assert _read(path).count("sbom.sh python") == _read(path).count("USER 65532:65532")
    assert asked
    assert asked <= PROJECT["project"]["optional-dependencies"].keys()


def test_a_build_sees_every_package_and_no_other_folder() -> None:
    allowed = {line[1:] for line in _read(".dockerignore").splitlines() if line.startswith("!")}
    packages = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])
    others = {"operator/image", "jobs/horovod_patches"}
    assert {path for path in allowed if (REPOSITORY / path).is_dir()} == packages | others
    assert "*" in _read(".dockerignore").splitlines()
