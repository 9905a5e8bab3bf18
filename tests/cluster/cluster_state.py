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
    components: tuple[Component, ...]
    path: Path | None = None

    def processnode(self) -> Path:
        assert self.path is not None  # a state in use was read from its file
        return Path((self.path.parent / "processnode.path").read_text(encoding="utf-8"))

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
        return cls(server=content["server"], seed=content["seed"], components=components, path=path)

    def write(self, path: Path) -> None:
        content = {
            "server": self.server,
            "seed": self.seed,
            "components": [dataclasses.asdict(component) for component in self.components],
        }
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(content, indent=1), encoding="utf-8")
        beside.replace(path)
