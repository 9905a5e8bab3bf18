# SPDX-License-Identifier: Apache-2.0
"""Volumes on one machine: which folder each of them is, and which points cannot run because one is missing.

A folder that was given by --volume comes first. Else a volume with hostPath is its path, and one with configMap is made
of the study file's ConfigMap of that name. A PersistentVolumeClaim is in its cluster only: its folder must be given.

Nothing is mounted: where an assignment, or a command of the user's own, names a path below a volume's mountPath, the
process is told the folder's path instead. Must not happen: a run that finds other files than those that were meant.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from gpubench.api.pod_template import Volume
from gpubench.plan import expand
from gpubench.plan.assignment import Assignment
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.scheduler import manifests
from gpubench.scheduler.observed import Study
from gpubench_cli.config_maps import ConfigMap
from gpubench_cli.refusal import Refusal


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where volumes come from on this machine."""

    given: Mapping[str, Path] = field(default_factory=dict)  # by --volume
    config_maps: tuple[ConfigMap, ...] = ()  # of the study file

    def reason(self, volume: Volume) -> str | None:
        """Why there is no folder for a volume."""
        remedy = f"give a folder with --volume {volume.name}=FOLDER"
        if volume.name in self.given:
            return None
        if volume.host_path is not None:
            path = volume.host_path.path
            return None if Path(path).is_dir() else f"volume {volume.name} is {path}, no folder here: {remedy}"
        if volume.config_map is not None:
            name = volume.config_map.name
            if any(config_map.name == name for config_map in self.config_maps):
                return None
            return f"volume {volume.name} is ConfigMap {name}, which is not in the study file: {remedy}"
        return f"volume {volume.name} is a PersistentVolumeClaim, and there is no cluster here: {remedy}"

    def folder(self, volume: Volume, *, scratch: Path) -> Path:
        """The folder of a volume for which there is no `reason`; a ConfigMap's is written below `scratch`."""
        if volume.name in self.given:
            return self.given[volume.name].absolute()
        if volume.host_path is not None:
            return Path(volume.host_path.path)
        assert volume.config_map is not None
        folder = scratch / "config-maps" / volume.config_map.name
        if not folder.exists():
            found = (entry for entry in self.config_maps if entry.name == volume.config_map.name)
            next(found).write(folder)
        return folder


def add_to(parser: argparse.ArgumentParser) -> None:
    """The argument of every command that runs, or plans, on this machine."""
    parser.add_argument(
        "--volume",
        action="append",
        default=[],
        metavar="NAME=FOLDER",
        help="the folder of a volume on this machine, for a claim or a folder that is not here (again for each)",
    )


def given(options: Sequence[str]) -> dict[str, Path]:
    """Folders by the names of volumes, from NAME=FOLDER."""
    found: dict[str, Path] = {}
    for option in options:
        name, separator, folder = option.partition("=")
        if not separator or not name or not folder:
            raise Refusal(f"--volume {option}: write the volume's name and a folder, such as data=/srv/data")
        if not Path(folder).is_dir():
            raise Refusal(f"--volume {option}: there is no folder {folder}")
        if name in found:
            raise Refusal(f"--volume {option}: the folder of {name} is given twice: remove one of both")
        found[name] = Path(folder)
    return found


def refuse_unknown(study: Study, plan: Plan, sources: Sources) -> None:
    """Refusal of a folder for a volume that nobody has: its name is misspelt."""
    known = {volume.name for pool in plan.pools for volume in manifests.volumes(study, plan, pool.name)}
    for name in sources.given:
        if name not in known:
            raise Refusal(
                f"--volume {name}: the study has {', '.join(sorted(known)) or 'no volumes'}: correct the name"
            )


def skip_what_has_no_folder(study: Study, plan: Plan, sources: Sources) -> Plan:
    """The plan with the points skipped whose files are not on this machine."""

    def reason(point: Point) -> str | None:
        mounted = manifests.volumes(study, plan, point.key.pool)
        for path in _paths(point.key):
            volume = _volume_of(path, mounted)
            if volume is not None and (why := sources.reason(volume)) is not None:
                return why
            if volume is None and not Path(path).exists():
                return f"{path} is below no volume's mountPath, and not on this machine: correct the path"
        needed = (_volume_of(word, mounted) for word in _command(point.key))
        return next((why for volume in needed if volume and (why := sources.reason(volume)) is not None), None)

    return expand.narrowed(plan, reason)


def in_place(assignment: Assignment, volumes: Sequence[Volume], *, sources: Sources, scratch: Path) -> Assignment:
    """The assignment with the paths of this machine."""

    def local(path: str | None) -> str | None:
        return None if path is None else local_path(path, volumes, sources=sources, scratch=scratch)

    return assignment.model_copy(
        update={
            "custom_file": local(assignment.custom_file),
            "data": assignment.data.model_copy(update={"path": local(assignment.data.path)}),
        }
    )


def command_in_place(
    command: Sequence[str], volumes: Sequence[Volume], *, sources: Sources, scratch: Path
) -> tuple[str, ...]:
    """A command of the user's own on this machine: words that are paths below a mountPath, and `python` as we run."""
    program, *words = (local_path(word, volumes, sources=sources, scratch=scratch) for word in command)
    return (sys.executable if program in ("python", "python3") else program, *words)


def local_path(path: str, volumes: Sequence[Volume], *, sources: Sources, scratch: Path) -> str:
    """A path in the pods as it is on this machine; one below no volume stays as it is."""
    volume = _volume_of(path, volumes)
    if volume is None or sources.reason(volume) is not None:
        return path
    folder = sources.folder(volume, scratch=scratch)
    return str(folder / PurePosixPath(path).relative_to(volume.mount_path))


def _paths(key: PointKey) -> list[str]:
    """Paths in the pods without which a point cannot run."""
    custom_file = key.custom.file if key.custom is not None else None
    return [path for path in (key.data.path, custom_file) if path is not None]


def _command(key: PointKey) -> tuple[str, ...]:
    return (key.custom.command if key.custom is not None else None) or ()


def _volume_of(path: str, volumes: Sequence[Volume]) -> Volume | None:
    """The volume that a path lies in: of several inside each other the innermost."""
    holding = [volume for volume in volumes if PurePosixPath(path).is_relative_to(volume.mount_path)]
    return max(holding, key=lambda volume: len(volume.mount_path), default=None)
