# SPDX-License-Identifier: Apache-2.0
"""What the cluster's two programs are built of, once per machine and content (`go_build`).

GPUBENCH_KUBERNETES=v1.33.13 takes another Kubernetes, with the versions of all else, etcd too, that its own go.mod asks
for. Nobody has locked those here: only `make test-cluster` sets it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import go_build

HERE = Path(__file__).resolve().parent
LOCKED_VERSION = "v1.36.4"  # the module version in go.mod
KUBERNETES_VERSION = os.environ.get("GPUBENCH_KUBERNETES") or LOCKED_VERSION  # kubectl and /version show it

KEY_PROGRAM = "service-account-key"
# One link per program: the binary runs what it is called as.
KUBE_PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", KEY_PROGRAM)


def _flags(version: str) -> tuple[str, ...]:
    return (*go_build.STATIC_FLAGS, f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={version}")


BUILD_FLAGS = _flags(LOCKED_VERSION)


def _version(name: str) -> str:
    """A node can be of any version."""
    return KUBERNETES_VERSION if name == "kube" else LOCKED_VERSION


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
    return go_build.key(HERE, sources, go=go, flags=(*_flags(_version(name)), *KUBE_PROGRAMS))


def _make(missing: Sequence[str], beside: Path, *, go: str) -> None:
    if other := [name for name in missing if _version(name) != LOCKED_VERSION]:
        flags = (*_flags(KUBERNETES_VERSION), f"-modfile={_other_modules(beside, go=go)}")
        _compile(other, flags, beside, go=go)
    # One invocation for both: what they share is compiled once, and both cores stay busy to the end.
    if locked := [name for name in missing if name not in other]:
        _compile(locked, BUILD_FLAGS, beside, go=go)
    for name in missing:
        staged = beside / f"{name}.entry"
        staged.mkdir()
        (beside / name).rename(staged / name)
        if name == "kube":
            for program in KUBE_PROGRAMS:
                (staged / program).symlink_to("kube")


def _compile(names: Sequence[str], flags: Sequence[str], beside: Path, *, go: str) -> None:
    command = [go, "build", "-v", *flags, "-o", f"{beside}/", *(f"./cmd/{name}" for name in names)]
    go_build.compile_program(command, module=HERE, what=f"the cluster's {' and '.join(names)}")


def _other_modules(folder: Path, *, go: str) -> Path:
    """A go.mod, and its go.sum, with what KUBERNETES_VERSION asks for itself: its parts have versions of their own."""
    try:
        told = _go(go, "mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES_VERSION}")
    except subprocess.CalledProcessError as error:
        raise go_build.BuildError(
            f"there is no Kubernetes {KUBERNETES_VERSION}: {error.stderr or error.stdout}"
        ) from None
    own = Path(json.loads(told)["GoMod"]).read_text(encoding="utf-8")
    part = KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    parts = re.findall(r"^\s*(k8s\.io/\S+) => \./staging", own, re.MULTILINE)
    required = re.sub(r"(k8s\.io/\S+) v0\.0\.0(?=\s)", rf"\1 {part}", own.partition("replace (")[0])
    module = (HERE / "go.mod").read_text(encoding="utf-8").splitlines()[0]
    replaced = "".join(f"\t{name} => {name} {part}\n" for name in parts)
    made = folder / "go.mod"
    made.write_text(
        f"{required.replace('module k8s.io/kubernetes', module)}"
        f"require k8s.io/kubernetes {KUBERNETES_VERSION}\n\nreplace (\n{replaced})\n",
        encoding="utf-8",
    )
    _go(go, "list", "-mod=mod", f"-modfile={made}", "-deps", "./cmd/kube")  # writes go.sum
    return made


def _go(go: str, *arguments: str) -> str:
    done = subprocess.run(
        [go, *arguments], cwd=HERE, env=go_build.environment(), capture_output=True, text=True, check=True
    )
    return done.stdout
