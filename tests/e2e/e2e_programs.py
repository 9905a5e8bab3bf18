# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end check runs beside the control plane: kubelet, kube-proxy, CoreDNS and a pause program.

Built once per machine and content from the modules `node` and `dns` beside this file. They are modules of their own so
that the tests, which need none of it, are not compiled anew when one of these changes, nor CoreDNS' libraries taken for
Kubernetes'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cluster_binaries
import go_build

HERE = Path(__file__).resolve().parent
KUBELET_PROGRAMS = ("kubelet", "kube-proxy")  # one binary, which runs what it is called as
FLAGS = {"kubelet": cluster_binaries.BUILD_FLAGS, "pause": (*go_build.STATIC_FLAGS, "-ldflags=-s -w")}
DNS_FLAGS = (*go_build.STATIC_FLAGS, "-ldflags=-s -w")


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Where the built programs are."""

    kubelet: Path
    kube_proxy: Path
    coredns: Path
    pause: Path


def build() -> Programs:
    """The programs of this checkout, built if the cache has none."""
    go = go_build.find_go()
    root = go_build.cache_directory() / "e2e-programs"
    entries = {name: root / f"{name}-{_key(name, go=go)}" for name in ("kubelet", "pause", "coredns")}
    go_build.built(entries, lambda missing, beside: _make(missing, beside, go=go))
    return Programs(
        kubelet=entries["kubelet"] / "kubelet",
        kube_proxy=entries["kubelet"] / "kube-proxy",
        coredns=entries["coredns"] / "coredns",
        pause=entries["pause"] / "pause",
    )


def _place(name: str) -> tuple[Path, Path, tuple[str, ...]]:
    """The module, the folder of the main package, and the flags."""
    if name == "coredns":
        return HERE / "dns", HERE / "dns", DNS_FLAGS
    return HERE / "node", HERE / "node" / "cmd" / name, FLAGS[name]


def _key(name: str, *, go: str) -> str:
    module, package, flags = _place(name)
    return go_build.key(module, sorted(package.glob("*.go")), go=go, flags=(*flags, *KUBELET_PROGRAMS))


def _make(missing: Sequence[str], beside: Path, *, go: str) -> None:
    for name in missing:
        module, package, flags = _place(name)
        staged = beside / f"{name}.entry"
        staged.mkdir()
        command = [go, "build", "-v", *flags, "-o", str(staged / name), f"./{package.relative_to(module)}"]
        go_build.compile_program(command, module=module, what=name)
    if "kubelet" in missing:
        (beside / "kubelet.entry" / "kube-proxy").symlink_to("kubelet")
