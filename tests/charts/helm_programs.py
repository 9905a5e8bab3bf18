# SPDX-License-Identifier: Apache-2.0
"""Helm 3, Helm 4 and kubeconform, built once per machine from their published modules (`go.mod` beside this file).

And `health`, which is ours: what Argo CD and Flux make of an object.

    PYTHONPATH=tests/cluster python tests/charts/helm_programs.py

builds them and prints the folder in which they lie.

Tests and the end-to-end check install the chart by them. What may not happen here: a Helm of the machine, whose
version nobody knows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import go_build

HERE = Path(__file__).resolve().parent
FLAGS = (*go_build.STATIC_FLAGS, "-ldflags=-s -w")
PACKAGES = {
    "helm3": "helm.sh/helm/v3/cmd/helm",
    "helm4": "helm.sh/helm/v4/cmd/helm",
    "kubeconform": "github.com/yannh/kubeconform/cmd/kubeconform",
    "health": "./cmd/health",
}


def build() -> dict[str, Path]:
    """Each program by its name, built if the cache has none."""
    go = go_build.find_go()
    key = go_build.key(HERE, (HERE / "cmd/health/main.go",), go=go, flags=FLAGS)
    entry = go_build.cache_directory() / "charts" / f"helm-{key}"

    def make(missing: Sequence[str], beside: Path) -> None:
        staged = beside / f"{missing[0]}.entry"
        staged.mkdir()
        for name, package in PACKAGES.items():
            command = [go, "build", "-v", *FLAGS, "-o", str(staged / name), package]
            go_build.compile_program(command, module=HERE, what=name)

    go_build.built({"helm": entry}, make)
    return {name: entry / name for name in PACKAGES}


if __name__ == "__main__":
    sys.exit(go_build.program("helm", lambda: build()["helm4"].parent))
