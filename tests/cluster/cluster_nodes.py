# SPDX-License-Identifier: Apache-2.0
"""Nodes and images of the embedded cluster as values, and what a node program reads of them.

What may not happen here: files, processes, requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_PROGRAM = "processnode"


class ClusterError(RuntimeError):
    """The cluster cannot do what was asked; the text says where to look."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """What stands in for a container image: where its programs are, and the environment it brings."""

    path: tuple[str | Path, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()

    def config(self) -> dict[str, Any]:
        absolute = [str(Path(path).absolute()) for path in self.path]  # not resolve(): .venv/bin/python is a link
        return {"path": absolute, "env": dict(self.env), "entrypoint": list(self.entrypoint)}


@dataclass(frozen=True, kw_only=True)
class Node:
    """One Node. `cores` are those it owns, counted among the cores that this process may use; disjoint per machine."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()  # "key=value:NoSchedule", as kubectl taint takes them
    capacity: Mapping[str, str] = field(default_factory=dict)  # merged over one cpu per core, 8Gi, 110 pods
    cores: tuple[int, ...] = ()
    pretend: bool = False  # pods go Running with no process behind them
    program: str = DEFAULT_PROGRAM  # nodes of the same program share one process, and die with it

    def config(self, usable: Sequence[int]) -> dict[str, Any]:
        """What the node program reads. A container may have been given cores 2 and 3: those are its 0 and 1."""
        if any(core >= len(usable) for core in self.cores):
            needed = max(self.cores) + 1
            raise ClusterError(f"node {self.name} needs {needed} processors, and this process may use {len(usable)}")
        capacity = {"cpu": str(len(self.cores) or 1), "memory": "8Gi", "pods": "110", **self.capacity}
        return {
            "name": self.name,
            "labels": dict(self.labels),
            "taints": [taint(text) for text in self.taints],
            "capacity": capacity,
            "cores": [usable[core] for core in self.cores],
            "pretend": self.pretend,
        }


def taint(text: str) -> dict[str, str]:
    pair, separator, effect = text.rpartition(":")
    if not separator:
        raise ClusterError(f"taint {text!r} must look like key=value:NoSchedule")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def is_node_program(name: str) -> bool:
    return name == DEFAULT_PROGRAM or name.startswith(DEFAULT_PROGRAM + "-")
