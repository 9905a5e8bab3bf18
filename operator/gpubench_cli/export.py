# SPDX-License-Identifier: Apache-2.0
"""`gpubench export NAME DIR`: a study of the cluster as a results folder, for `show` and `verify`.

Plan and attempts come from the study's ConfigMaps, the status from the object, windows from the logs of pods that are
still there; with `--records` from the volume of the study's `spec.results`, where they outlive their pods, and from the
logs of pods where the volume lacks one. What is gone is named in the folder, so that nobody takes a log that was
removed later for one that never was. Must not happen: a write to the cluster; a log on the volume that is written over,
or half of one that has its name there, for a later look would take it for the whole.
"""

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml
from pydantic import ValidationError

from gpubench import checksum, names, records
from gpubench.analysis import audit
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment, Failure
from gpubench.scheduler import conditions, ledger, manifests
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.units import rfc3339
from gpubench_cli import refusal, results, terminal, yaml_text
from gpubench_cli.refusal import Refusal
from gpubench_cli.results import Exported, LogName, ResultsFolder, Summary

_INDEX = "batch.kubernetes.io/job-completion-index"
_OBJECTS_MAX = 64  # in one record, with room: a line of a foreign program may have any number

_Logs = dict[LogName, tuple[bytes, bytes]]  # records, and what was said besides
_Rest = dict[LogName, bytes]  # logs without their beginning


class Place(Protocol):
    """A cluster, as far as it is read here: `gpubench_cli.cluster.Cluster`."""

    @property
    def host(self) -> str:
        """Its address."""

    def benchmark(self, name: str) -> dict[str, Any]:
        """A GpuBenchmark object."""

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        """ConfigMaps that belong to it."""

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        """Pods of it that are still there."""

    def log(self, pod: str) -> bytes | None:
        """All that a pod has said; None where that is gone."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "export",
        help="write a study of the cluster into a results folder",
        description="Write plan, attempts, status and the windows of pods that are still there into a results folder, "
        "before the object is deleted.",
    )
    parser.add_argument("name", metavar="NAME", help="a GpuBenchmark")
    parser.add_argument("folder", type=Path, metavar="DIR", help="new folder")
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FOLDER",
        help="where the volume of spec.results is mounted here, or the study's folder on it; DIR may be that folder",
    )
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, write, tell."""
    from gpubench_cli import cluster  # noqa: PLC0415  # only the commands that need one load the client

    with cluster.connect(arguments.namespace) as place:
        terminal.write(export(place, arguments.name, arguments.folder, records_at=arguments.records))
    return refusal.EXIT_DONE


def export(place: Place, name: str, path: Path, *, records_at: Path | None = None) -> str:
    """The study as a results folder; what was written, in a sentence."""
    body = place.benchmark(name)
    uid = str(body["metadata"]["uid"])
    plan, attempts = stored(place.config_maps(uid), name=name, uid=uid)
    status = read_status(body.get("status"), name=name)
    kept = None if records_at is None else _records_folder(records_at, body)
    logs, begun_later = _logs(place, plan, attempts, uid=uid)
    if kept is not None:
        logs, begun_later = _with_kept(logs, begun_later, kept, plan, attempts)
    in_place = kept is not None and path.resolve() == kept.resolve()
    if in_place and not _has_come_to_its_end(status, attempts):
        raise Refusal(
            f"{name} has not finished: its pods may still write to {path}; name another folder to export what there is "
            "so far, or wait for its end"
        )
    folder = ResultsFolder.create(path, study_text=study_text(body), plan=plan, beside_logs=in_place)
    folder.append(attempts.records)
    folder.append_environments(attempts.environments)
    for pod, (own, others) in logs.items():
        folder.write_log(pod, own=own, others=others)
    for pod, said in begun_later.items():
        folder.write_log(pod, own=None, others=said)
    on_volume = kept is None and body["spec"].get("results") is not None
    if on_volume and any(name_of_log not in logs for _, name_of_log in _pods_of(plan, attempts)):
        terminal.tell(f"{name}: spec.results keeps the records of pods that are gone: take them with --records")
    if begun_later:
        terminal.tell(
            f"{name}: the logs of {len(begun_later)} pods have lost their beginning (the kubelet keeps the last "
            "containerLogMaxSize of a log): what is left is in files .err, and counts as gone"
        )
    folder.write(
        Summary(
            name=name,
            uid=uid,
            machine=place.host,
            exported=Exported(at=rfc3339(time.time()), logs=tuple(sorted(map(str, logs)))),
            status=status,
        )
    )
    if not conditions.holds(status.conditions, conditions.FINISHED):
        terminal.tell(f"{name} has not finished: its attempts may be a moment newer than its status")
    pods = sum(plan.point_of(record.trial).nodes for record in attempts.records)
    return f"{folder.path}: {len(attempts.records)} attempts, and the records of {len(logs)} of their {pods} pods"


def _has_come_to_its_end(status: GpuBenchmarkStatus, attempts: Ledger) -> bool:
    """Whether no pod writes any more. A study whose budget was raised goes on before its status says so."""
    return conditions.holds(status.conditions, conditions.FINISHED) and all(
        record.outcome is not None for record in attempts.records
    )


def split(content: bytes) -> tuple[bytes, bytes]:
    """The records in a pod's log, and all else: a cluster keeps one log of what a pod writes and of what it says.

    A text that was said without the end of its line has a record behind it in the same line.
    """
    own: list[bytes] = []
    others: list[bytes] = []
    for line in content.splitlines(keepends=True):
        begin = _record_begins(line)
        others.append(line[:begin])
        own.append(line[begin:])
    return b"".join(own), b"".join(others)


def _record_begins(line: bytes) -> int:
    """Where the record in a line begins; its length where there is none."""
    if _is_record(line):
        return 0
    begin = len(line)
    if line.endswith(b"\n") and checksum.is_sealed(line[:-1]):
        for _ in range(_OBJECTS_MAX):
            begin = line.rfind(b'{"', 0, begin)
            if begin < 0:
                break
            if _is_record(line[begin:]):
                return begin
    return len(line)


def _is_record(line: bytes) -> bool:
    if not line.endswith(b"\n"):
        return False
    try:
        records.read_line(line[:-1])
    except checksum.Damaged:
        return False
    return True


def _has_its_beginning(own: bytes, attempt: AttemptRecord) -> bool:
    """Whether a log begins as its pod began. The kubelet rotates logs, and its API gives the newest part alone."""
    written = records.read_log(own).records
    if not written:
        return attempt.result is None
    if attempt.result is not None:
        return isinstance(written[0], Environment)
    return isinstance(written[0], Environment | Failure)


def _records_folder(given: Path, body: Mapping[str, Any]) -> Path:
    """The folder of this very object on its results volume."""
    name, uid = str(body["metadata"]["name"]), str(body["metadata"]["uid"])
    place = (body["spec"].get("results") or {}).get("path")
    return results.records_folder(given, path=place, study=names.study_name(name, uid))


def _with_kept(logs: _Logs, begun_later: _Rest, folder: Path, plan: Plan, attempts: Ledger) -> tuple[_Logs, _Rest]:
    """The records on a volume in place of those in pods' logs: no kubelet has rotated them, and they are whole.

    Of an attempt without a result the part that a pod has written counts, too, as the log of one that was killed does.
    """
    together, rest = dict(logs), dict(begun_later)
    parts = 0
    for record, name in _pods_of(plan, attempts):
        own, part = results.kept_log(folder, name), results.unfinished_log(folder, name)
        if own is None and record.result is None and name not in logs:
            own = part
        elif own is None and part is not None and name not in logs:
            parts += 1
        if own is not None:
            _, others = logs.get(name) or split(rest.pop(name, b""))
            together[name] = (own, others)
    if parts:
        terminal.tell(
            f"{folder}: the records of {parts} pods are not whole (the volume was full or away, or the pods were "
            f"killed): what they wrote is in files {names.LOG_UNFINISHED}, and counts as gone"
        )
    return together, rest


def _pods_of(plan: Plan, attempts: Ledger) -> Iterator[tuple[AttemptRecord, LogName]]:
    """The pods that keep records on a volume."""
    for record in attempts.records:
        if audit.has_windows(plan, record.trial):
            for pod in range(plan.point_of(record.trial).nodes):
                yield record, LogName(record.trial, record.attempt, pod)


def stored(config_maps: Iterable[Mapping[str, Any]], *, name: str, uid: str) -> tuple[Plan, Ledger]:
    """Plan and ledger of a study that has begun."""
    ours = {
        str(body["metadata"]["name"]): body
        for body in config_maps
        if any(owner.get("uid") == uid for owner in body["metadata"].get("ownerReferences") or ())
    }
    planned = ours.pop(names.plan_name(name, uid), None)
    if planned is None:
        raise Refusal(f"{name} has no plan: it has not begun, and there is nothing to export")
    shards = [
        body.get("data") or {}
        for body in ours.values()
        if (body["metadata"].get("labels") or {}).get(names.LABEL_COMPONENT) == names.COMPONENT_LEDGER
    ]
    try:
        return manifests.read_plan(planned), ledger.from_entries(shards)
    except ValueError as error:
        raise Refusal(f"what is stored of {name} cannot be read: {error}") from error


def study_text(body: Mapping[str, Any]) -> str:
    """The object as its user wrote it, with the defaults that the API server has put in."""
    document = {
        "apiVersion": names.API_VERSION,
        "kind": names.BENCHMARK_KIND,
        "metadata": {"name": body["metadata"]["name"]},
        "spec": body["spec"],
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _logs(place: Place, plan: Plan, attempts: Ledger, *, uid: str) -> tuple[_Logs, _Rest]:
    """What the pods wrote and what they said besides, of attempts that are recorded; and logs without beginning."""
    known = attempts.by_key()
    found: _Logs = {}
    begun_later: _Rest = {}
    for pod in place.pods(uid):
        labels = pod["metadata"].get("labels") or {}
        trial, attempt, index = (labels.get(label) for label in (names.LABEL_TRIAL, names.LABEL_ATTEMPT, _INDEX))
        record = known.get(f"{trial}.{attempt}")
        if record is None or index is None:
            continue
        said = place.log(pod["metadata"]["name"])
        if said is None:
            continue
        name = LogName(str(trial), int(str(attempt)), int(index))
        if not audit.has_windows(plan, name.trial):
            found[name] = (said, b"")
            continue
        own, others = split(said)
        if _has_its_beginning(own, record):
            found[name] = (own, others)
        else:
            begun_later[name] = said
    return found, begun_later


def read_status(content: object, *, name: str) -> GpuBenchmarkStatus:
    """The status of an object of the cluster; empty while the operator has not looked at it."""
    try:
        return GpuBenchmarkStatus.model_validate(content or {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise Refusal(
            f"the status of {name} cannot be read by this gpubench: {place}: {first['msg']}: "
            "is the operator of another version?"
        ) from error


def read_spec(content: object, *, name: str) -> GpuBenchmarkSpec:
    """The spec of an object of the cluster."""
    try:
        return GpuBenchmarkSpec.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in first["loc"])
        raise Refusal(
            f"the spec of {name} cannot be read by this gpubench: spec.{place}: {first['msg']}: "
            "is the operator of another version?"
        ) from error


def folder_spec(path: Path, name: str) -> Any:
    """The spec as the user wrote it."""
    for document in yaml_text.read(results.study_path(path)):
        match document.content:
            case {"kind": names.BENCHMARK_KIND, "metadata": {"name": found}} if found == name:
                return document.content.get("spec")
    return None
