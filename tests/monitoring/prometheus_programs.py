# SPDX-License-Identifier: Apache-2.0
"""Prometheus and promtool, built once per machine from their published module (`go.mod` beside this file).

    PYTHONPATH=tests/cluster python tests/monitoring/prometheus_programs.py

builds them and prints the folder in which both lie.

Tests check rules and dashboards by them, and let Prometheus scrape a study. What may not happen here: a Prometheus of
the machine, whose version nobody knows.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import go_build

HERE = Path(__file__).resolve().parent
#: Of the ways to find targets, Kubernetes' alone: the libraries of all clouds would take longer than the rest.
FLAGS = (*go_build.STATIC_FLAGS, "-ldflags=-s -w", "-tags=remove_all_sd,enable_kubernetes_sd")
PROGRAMS = ("prometheus", "promtool")


def build() -> dict[str, Path]:
    """Each program by its name, built if the cache has none."""
    go = go_build.find_go()
    entry = go_build.cache_directory() / "monitoring" / f"prometheus-{go_build.key(HERE, (), go=go, flags=FLAGS)}"

    def make(missing: Sequence[str], beside: Path) -> None:
        staged = beside / f"{missing[0]}.entry"
        staged.mkdir()
        packages = [f"github.com/prometheus/prometheus/cmd/{name}" for name in PROGRAMS]
        command = [go, "build", "-v", *FLAGS, "-o", f"{staged}/", *packages]
        go_build.compile_program(command, module=HERE, what="Prometheus and promtool")

    go_build.built({"prometheus": entry}, make)
    return {name: entry / name for name in PROGRAMS}


if __name__ == "__main__":
    sys.exit(go_build.program("prometheus", lambda: build()["prometheus"].parent))
