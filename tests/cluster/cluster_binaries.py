# SPDX-License-Identifier: Apache-2.0
"""What the cluster's two programs are built of, once per machine and content (`go_build`)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import go_build

HERE = Path(__file__).resolve().parent
KUBERNETES_VERSION = "v1.36.4"  # the module version in go.mod; kubectl and /version show it

KEY_PROGRAM = "service-account-key"
# One link per program: the binary runs what it is called as.
KUBE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", KEY_PROGRAM)

BUILD_FLAGS = (
    *go_build.STATIC_FLAGS,
    f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}",
)


@dataclass(frozen=True, kw_only=True)
class Binaries:
    """Where the built programs are."""

    kube: Path  # a directory with one link per program
    processnode: Path  # the program itself

    def program(self, name: str) -> str:
        return str(self.kube / name)


def build() -> Binaries:
    """The binaries of this checkout, built if the cache has none."""
    go = go_build.find_go()
    root = go_build.cache_directory() / "cluster"
    entries = {name: root / f"{name}-{_key(name, go=go)}" for name in ("kube", "processnode")}
    go_build.built(entries, lambda missing, beside: _make(missing, beside, go=go))
    return Binaries(kube=entries["kube"], processnode=entries["processnode"] / "processnode")


def vet() -> str:
    """What `go vet` and gofmt find wrong, or nothing.

    With the build's flags, or it would compile everything once more. Not cmd/kube: vet reads all dependencies of what
    it checks, which takes minutes there, for a hundred lines that call the main functions of others.
    """
    go = go_build.find_go()
    flags = [flag for flag in BUILD_FLAGS if not flag.startswith("-ldflags")]
    checked = subprocess.run(
        [go, "vet", *flags, "./cmd/processnode"],
        cwd=HERE,
        env=go_build.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    root = subprocess.run([go, "env", "GOROOT"], env=go_build.environment(), capture_output=True, text=True, check=True)
    gofmt = Path(root.stdout.strip()) / "bin" / "gofmt"
    listed = subprocess.run(
        [gofmt, "-l", "cmd", "../karpenter"], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout
    unformatted = "".join(f"tests/cluster/{name}: not formatted, run gofmt -w\n" for name in listed.split())
    return (checked.stderr if checked.returncode != 0 else "") + unformatted


def _key(name: str, *, go: str) -> str:
    sources = sorted(path for path in (HERE / "cmd" / name).glob("*.go") if not path.name.endswith("_test.go"))
    return go_build.key(HERE, sources, go=go, flags=(*BUILD_FLAGS, *KUBE_PROGRAMS))


def _make(missing: Sequence[str], beside: Path, *, go: str) -> None:
    packages = tuple(f"./cmd/{name}" for name in missing)
    # One invocation for both: what they share is compiled once, and both cores stay busy to the end.
    command = [go, "build", "-v", *BUILD_FLAGS, "-o", f"{beside}/", *packages]
    go_build.compile_program(command, module=HERE, what=f"the cluster's {' and '.join(missing)}")
    for name in missing:
        staged = beside / f"{name}.entry"
        staged.mkdir()
        (beside / name).rename(staged / name)
        if name == "kube":
            for program in KUBE_PROGRAMS:
                (staged / program).symlink_to("kube")
