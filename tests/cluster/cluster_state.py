# SPDX-License-Identifier: Apache-2.0
"""What a cluster's directory remembers: enough to stop the cluster from another process.

What may not happen here: a half-written file. It is written beside and renamed.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import cluster_processes

FILE = "cluster.json"


@dataclass(frozen=True, kw_only=True)
class Component:
    """One process of the cluster; `identity` is None while it does not run."""

    name: str
    argv: tuple[str, ...]
    identity: cluster_processes.Identity | None = None


@dataclass(frozen=True, kw_only=True)
class State:
    """The content of cluster.json: enough to stop the cluster from another process."""

    server: str
    seed: str
    heartbeat_seconds: float
    processnode: str  # the program's path
    components: tuple[Component, ...]

    @classmethod
    def read(cls, path: Path) -> State:
        content = json.loads(path.read_text(encoding="utf-8"))
        components = tuple(
            Component(
                name=each["name"],
                argv=tuple(each["argv"]),
                identity=None if each["identity"] is None else cluster_processes.Identity(**each["identity"]),
            )
            for each in content["components"]
        )
        return cls(**{**content, "components": components})

    def write(self, path: Path) -> None:
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        beside.replace(path)
