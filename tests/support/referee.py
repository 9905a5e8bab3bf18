# SPDX-License-Identifier: Apache-2.0
"""What the programs share that run another project's real controller beside the operator: Karpenter, Kueue.

Each scenario has a namespace of its own, so that several run at once, and prints a line for each thing that must hold.
"""

import argparse
import contextlib
import json
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import go_build
import installation
import stand_in_worker
import stored_analysis
from cluster import ApiError, Cluster, ClusterError, Image
from cluster_pods import wait_for
from gpubench import names

WORDS_SECONDS = 60.0  # what is read comes within seconds, at worst after half a minute
DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_GO_FLAGS = (*go_build.STATIC_FLAGS, "-ldflags=-s -w")


def built(name: str, *, module: Path, sources: Iterable[Path], package: str) -> Path:
    """The controller's program, built from a Go module if the cache has none of these sources."""
    go = go_build.find_go()
    key = go_build.key(module, sorted(sources), go=go, flags=_GO_FLAGS)
    entry = go_build.cache_directory() / name / f"{name}-{key}"

    def make(_: Sequence[str], beside: Path) -> None:
        (beside / f"{name}.entry").mkdir()
        command = [go, "build", "-v", *_GO_FLAGS, "-o", str(beside / f"{name}.entry" / name), package]
        go_build.compile_program(command, module=module, what=name.capitalize())

    go_build.built({name: entry}, make)
    return entry / name


def stand_in_image(folder: Path) -> Image:
    """An image whose Python is the stand-in worker."""
    program = folder / "image" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in_worker.__file__}" "$@"\n')
    program.chmod(0o755)
    return Image(path=(program.parent, "/usr/bin", "/bin"), env=installation.POD_ENVIRONMENT)


class Place:
    """The namespace of a scenario: what a user and an administrator do there, and what they read."""

    STEP_SECONDS = 180.0

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name.replace("_", "-")
        self.lines: list[tuple[bool, str, str]] = []
        cluster.kubectl("create", "namespace", self.name)

    def holds(
        self, what: str, read: Callable[[], str], *words: str, but: str = "^$", seconds: float = WORDS_SECONDS
    ) -> None:
        """A line: whether all these words (patterns) come to be read, and not that one beside them."""
        deadline = time.monotonic() + seconds
        while True:
            text = read()
            ok = all(re.search(word, text) for word in words) and not re.search(but, text)
            if ok or time.monotonic() > deadline:
                self.lines.append((ok, what, text))
                return
            time.sleep(0.5)

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return wait_for(look, what=what, timeout_seconds=self.STEP_SECONDS)

    def apply(self, *bodies: Any) -> None:
        self.cluster.kubectl("apply", "-n", self.name, "-f", "-", stdin=yaml.safe_dump_all(bodies))

    def bind(self, pod: str, node: str) -> None:
        """What the scheduler does."""
        binding = {"metadata": {"name": pod}, "target": {"apiVersion": "v1", "kind": "Node", "name": node}}
        self.cluster.request("POST", f"/api/v1/namespaces/{self.name}/pods/{pod}/binding", binding)

    def objects(self, api: str, kind: str) -> list[Any]:
        """Objects of the namespace, the newest last."""
        found: list[Any] = self.cluster.request("GET", f"{api}/namespaces/{self.name}/{kind}")["items"]
        return sorted(found, key=lambda one: str(one["metadata"]["creationTimestamp"]))

    def status(self, name: str = "quick") -> dict[str, Any]:
        with contextlib.suppress(ApiError):
            return stored_analysis.of_cluster(partial(self.cluster.request, "GET"), namespace=self.name, name=name)
        return {}

    def condition(self, kind: str, name: str = "quick") -> str:
        found = (one for one in self.status(name).get("conditions") or () if one["type"] == kind)
        return next((f"{kind} {one['status']} {one['reason']}: {one['message']}" for one in found), f"no {kind}")

    def warnings(self) -> str:
        return json.dumps([one.get("warnings") for one in self.status().get("results") or ()])

    def state(self) -> str:
        """What is read where a scenario does not come to its end."""
        raise NotImplementedError

    def play(self, scenario: Callable[[Any], None]) -> bool:
        """The scenario and its lines; whether all hold."""
        try:
            scenario(self)
        except (AssertionError, ApiError, ClusterError) as error:
            self.lines.append((False, self.name, f"{error}; {self.state()}"))
        self.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "--all", "--wait=false", "-n", self.name)
        for ok, what, text in self.lines:
            read = " ".join(text.split())[:600]
            print(f"{'holds' if ok else 'does not hold':14}{self.name}: {what}: {read}", flush=True)
        return all(ok for ok, _, _ in self.lines)


def parser(description: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    made.add_argument("--only", default="", help="a pattern of the names of scenarios")
    made.add_argument("--keep", type=Path, help="a new folder for the logs")
    return made


def chosen(scenarios: Iterable[Callable[[Any], None]], only: str) -> list[Callable[[Any], None]]:
    return [one for one in scenarios if re.search(only, one.__name__)]


def run(name: str, keep: Path | None, play: Callable[[Path], bool]) -> None:
    """Play everything in a folder, say whether it all holds, and exit 0 only then."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    with tempfile.TemporaryDirectory(prefix=f"gpubench-{name}-") as temporary:
        folder = (keep or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            ok = play(folder)
        except (ClusterError, go_build.BuildError) as error:
            sys.exit(f"e2e-{name}: {error}")
    print("all holds" if ok else "FAILED")
    sys.exit(0 if ok else 1)
