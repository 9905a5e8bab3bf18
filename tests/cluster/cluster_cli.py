# SPDX-License-Identifier: Apache-2.0
"""The commands of `cluster.py`: up, down, status, build, kubectl.

What may not happen here: anything that `cluster.Cluster` does not offer to a program as well.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

import cluster
import cluster_binaries
import cluster_state
import go_build


def _guard(directory: Path, descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    _down(directory)


def _down(directory: Path) -> None:
    if (directory / cluster_state.FILE).exists():
        cluster.Cluster.attach(directory).stop()


def read_config(path: Path | None) -> tuple[list[cluster.Node], dict[str, cluster.Image]]:
    """Nodes and images from a YAML file; relative paths are relative to the file. Without: one node per core."""
    if path is None:
        cores = range(min(2, len(os.sched_getaffinity(0))))
        return [cluster.Node(name=f"node-{core}", cores=(core,)) for core in cores], {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        nodes = [
            cluster.Node(**{key: _frozen(value) for key, value in each.items()}) for each in content.get("nodes", [])
        ]
        images = {
            name: cluster.Image(**{key: _frozen(value) for key, value in each.items()})
            for name, each in content.get("images", {}).items()
        }
    except TypeError as error:
        raise cluster.ClusterError(f"{path}: {error}") from error
    folder = path.absolute().parent
    return nodes, {
        name: dataclasses.replace(image, path=tuple(folder / entry for entry in image.path))
        for name, image in images.items()
    }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _up(directory: Path, config: Path | None) -> None:
    if (directory / cluster_state.FILE).exists():
        running = cluster.Cluster.attach(directory)
        if all(running.pid(name) is not None for name in running.components()):
            _print_exports(running)
            return
        running.stop()  # half of it is dead: after a reboot, for instance
    nodes, images = read_config(config)
    _print_exports(cluster.Cluster.start(directory, nodes=nodes, images=images, detached=True))


def _print_exports(running: cluster.Cluster) -> None:
    environment = running.kubectl_environment()
    for name in ("KUBECONFIG", "KUBECACHEDIR"):
        print(f"export {name}={environment[name]}")


def _status(directory: Path) -> int:
    if not (directory / cluster_state.FILE).exists():
        print(f"no cluster in {directory}")
        return 1
    running = cluster.Cluster.attach(directory)
    for name in running.components():
        print(f"{name:20} {running.pid(name) or 'not running'}")
    return 0 if all(running.pid(name) for name in running.components()) else 1


def _kubectl(directory: Path, arguments: Sequence[str]) -> None:
    running = cluster.Cluster.attach(directory)
    program = running.program("kubectl")
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    os.execve(program, [program, *words], running.kubectl_environment())  # noqa: S606 - kubectl takes our place


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="a real Kubernetes control plane with nodes of local processes")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("find-go", help="print the Go that builds the programs")
    commands.add_parser("build", help="build the programs, or find them in the cache")
    commands.add_parser("vet", help="check the Go sources with go vet and gofmt")
    for name, text in (
        ("up", "start a cluster that stays"),
        ("down", "stop it; nothing to stop is fine"),
        ("status", "show its processes"),
        ("kubectl", "run kubectl on it: kubectl -- get pods"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--directory", type=Path, default=Path(".run/cluster"), help="default: %(default)s")
        if name == "up":
            command.add_argument("--config", type=Path, help="YAML with nodes and images; see the README")
        if name == "kubectl":
            command.add_argument("arguments", nargs=argparse.REMAINDER)
    guard = commands.add_parser("guard")  # started by cluster.Cluster.start, not by a person
    guard.add_argument("directory", type=Path)
    guard.add_argument("descriptor", type=int)
    return parser


def main() -> int:
    options = _parser().parse_args()
    try:
        match options.command:
            case "find-go":
                print(go_build.find_go())
            case "build":
                print(cluster_binaries.build().kube)
            case "vet":
                complaints = cluster_binaries.vet()
                print(complaints, end="", file=sys.stderr)
                return 1 if complaints else 0
            case "up":
                _up(options.directory.absolute(), options.config)
            case "down":
                _down(options.directory.absolute())
            case "status":
                return _status(options.directory.absolute())
            case "kubectl":
                _kubectl(options.directory, options.arguments)
            case "guard":
                _guard(options.directory, options.descriptor)
    except (cluster.ClusterError, go_build.BuildError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"cluster: {options.command} was stopped", file=sys.stderr)
        return 130
    return 0
