# SPDX-License-Identifier: Apache-2.0
"""A results folder: what `gpubench run` and `gpubench export` leave behind, and its format.

    study.yaml      a copy of the study file; plan.json has its digest
    plan.json       the frozen plan (plan.plan.Plan), with the pools and prices as they were
    ledger.jsonl    attempt records (control.ledger.AttemptRecord), one JSON object a line; an attempt has a line from
                    when it was seen to run and one from its end: the later line counts
    environments.jsonl  what the figures stand on (measure.records.Environment), one JSON object a line, each
                    comparability key once
    status.json     a Summary: whose status this is, and the status (api.benchmark_status.FullStatus)
    prices.yaml     of a folder that was re-priced: the GpuPools whose prices plan.json has; the Summary has its digest
    logs/           <trial>.<attempt>.<pod>.jsonl: the pod's records with all windows; .err: what it said besides
    checkpoints/    <trial>/: of trainings of this machine that have no result yet (gpubench_jobs.worker.checkpoint)
    measurements.csv  of a study that `gpubench import` has made: the file that its plan was made of

On the volume of `spec.results` the pods of a study write its logs/, and none of the rest, which the cluster keeps:
`gpubench export` puts it beside them, there or in another folder. There a log that is not whole ends in .jsonl.part.

Every line of the four kinds of JSON file ends with a checksum (`gpubench.checksum`).

Must not happen: a measurement that was made is lost because the next one failed. So the ledger is written through to
the disk with each attempt, and the status replaces its predecessor in one step. Nor is anything computed from a study
file that is not the one that was planned.

`gpubench export NAME DIR` makes such a folder of a benchmark of the cluster: plan and attempts from its ConfigMaps, the
status from the object, windows from the logs of pods that are still there; with `--records` from the volume of the
benchmark's `spec.results`, where they outlive their pods, and from the logs of pods where the volume lacks one. What is
gone is named in the folder, so that nobody takes a log that was removed later for one that never was. Must not happen:
a write to the cluster; a log on the volume that is written over, or half of one that has its name there, for a later
look would take it for the whole.
"""

import argparse
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import yaml
from pydantic import ValidationError

from gpubench import checksum, names, records
from gpubench import records as wire
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Analysis, FullStatus, GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment, Failure
from gpubench.scheduler import conditions, ledger, manifests
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.units import rfc3339
from gpubench.values import FrozenModel
from gpubench_cli import distribution, documents, terminal
from gpubench_cli.terminal import Refusal

_Kind = TypeVar("_Kind", bound=checksum.Stored)

_STATUS, _PLAN, _LEDGER, _STUDY = "status.json", "plan.json", "ledger.jsonl", "study.yaml"
_ENVIRONMENTS = "environments.jsonl"
_PRICES = "prices.yaml"
#: What an export that came to no end may have left beside the logs of a volume: the plan comes first, the status last.
_LEFT_BEHIND = frozenset({_PLAN, _STUDY, _LEDGER, _ENVIRONMENTS})
#: What an imported study was made of, beside its study file.
MEASUREMENTS = "measurements.csv"
#: Of this gpubench, as a Summary has it.
VERSION = distribution.version()
#: What read_* take from a results folder.
FILES = (_STUDY, _PLAN, _LEDGER, _STATUS)


class Exported(FrozenModel):
    """That a folder was written from a cluster."""

    at: str  # RFC 3339
    logs: tuple[str, ...]  # names of the files in logs/; the other pods were gone, and with them their windows


class Repriced(FrozenModel):
    """That a folder has the measurements of another one at other prices."""

    at: str  # RFC 3339
    prices: str  # name of the file of prices as it was given
    pools: tuple[str, ...]  # those whose prices were in it
    kept: tuple[str, ...] = ()  # those that have the prices under which they were measured
    digest: str | None = None  # of the copy in the folder: SHA-256

    @property
    def sentence(self) -> str:
        """The same in words."""
        rest = f"; {', '.join(self.kept)} as it was measured" if self.kept else ""
        return f"Re-priced at {self.at} with {self.prices}: {', '.join(self.pools)}{rest}. Nothing was run for it."


class Summary(checksum.Stored):
    """The content of status.json."""

    name: str
    uid: str
    machine: str  # or the address of the cluster
    gpubench: str | None = None  # version whose words the status has: another one may choose others
    exported: Exported | None = None
    repriced: Repriced | None = None
    status: FullStatus


class LogName(NamedTuple):
    """Whose records a file in logs/ has."""

    trial: str
    attempt: int
    pod: int

    def __str__(self) -> str:
        return names.log_name(trial=self.trial, attempt=self.attempt, pod=self.pod)


class ResultsFolder:
    """A folder that belongs to one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, study_text: str, plan: Plan, beside_logs: bool = False) -> "ResultsFolder":
        """A new folder; Refusal where there is something already, for it may be another run's results.

        With `beside_logs` it has its logs, and of the rest at most what an export has left that came to no end.
        """
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            there = {one.name for one in path.iterdir()}
            left = there - {names.LOGS_FOLDER}
            of_an_export = not left or (_PLAN in left and left <= _LEFT_BEHIND)
            if there and not (beside_logs and of_an_export):
                raise Refusal(f"{path} is not empty: choose another folder")
            for name in left:
                (path / name).unlink()
            (path / names.LOGS_FOLDER).mkdir(exist_ok=beside_logs)
            study = study_text.encode()
            _replace_stored(path / _PLAN, plan.model_copy(update={"study_digest": _digest(study)}))
            _replace(path / _STUDY, study)
        return cls(path)

    def keep(self, name: str, content: bytes) -> None:
        """A file as it was given."""
        with _writing(self.path):
            (self.path / name).write_bytes(content)

    def log(self, *, trial: str, attempt: int, pod: int) -> Path:
        """Where the records of a pod go."""
        return self.path / names.LOGS_FOLDER / str(LogName(trial, attempt, pod))

    @property
    def checkpoints(self) -> Path:
        """Where trainings under way keep their checkpoints: processes of other folders are told of it."""
        return (self.path / names.CHECKPOINTS_FOLDER).absolute()

    def write_log(self, name: LogName, *, own: bytes | None, others: bytes) -> None:
        """The records of a pod, where they are not there already, and what it said besides.

        A log has its name when it is whole: one that is cut off would be preferred to the pod's own ever after.
        """
        path = log_path(self.path, name)
        with _writing(self.path):
            if own is not None and not path.exists():
                _replace(path, own)
            path.with_suffix(".err").write_bytes(others)

    def append(self, records: Iterable[AttemptRecord]) -> None:
        """Records that are safe on the disk when this returns, with the logs of attempts that have ended."""
        for record in (records := tuple(records)):
            if record.outcome is not None:
                self._write_through(record)
        _append(self.path, _LEDGER, records)

    def _write_through(self, record: AttemptRecord) -> None:
        """No ledger may survive a loss of power that its logs have not survived."""
        with _writing(self.path):
            for log in (self.path / names.LOGS_FOLDER).glob(f"{record.key}.*{names.LOG_SUFFIX}"):
                with log.open("rb") as file:
                    os.fsync(file.fileno())

    def log_head(self, *, trial: str, attempt: int, limit: int) -> str:
        """The beginning of pod 0's log; empty where there is none."""
        try:
            with self.log(trial=trial, attempt=attempt, pod=0).open("rb") as log:
                return log.read(limit).decode(errors="replace")
        except OSError:
            return ""

    def append_environments(self, environments: Iterable[Environment]) -> None:
        """Environments that are safe on the disk when this returns."""
        _append(self.path, _ENVIRONMENTS, environments)

    def copy_measurements(self, source: Path) -> None:
        """What was measured in another folder, byte by byte: attempts, environments and logs, or what was imported."""
        with _writing(self.path):
            for name in (_LEDGER, _ENVIRONMENTS, MEASUREMENTS):
                if (source / name).is_file():
                    shutil.copyfile(source / name, self.path / name)
            for log in sorted((source / names.LOGS_FOLDER).glob("*")):
                shutil.copyfile(log, self.path / names.LOGS_FOLDER / log.name)

    def write_prices(self, content: bytes) -> str:
        """The file of prices of a re-priced study; its digest."""
        with _writing(self.path):
            (self.path / _PRICES).write_bytes(content)
        return _digest(content)

    def write(self, summary: Summary) -> None:
        """The status; a reader sees the old one or the new one, never half of it."""
        with _writing(self.path):
            # What is exported has the words of the operator, whose version is not known here.
            version = VERSION if summary.exported is None or summary.repriced is not None else None
            _replace_stored(self.path / _STATUS, summary.model_copy(update={"gpubench": version}))


def default_path(name: str, *, now: float) -> Path:
    """`results/<name>-<UTC time>`."""
    return Path("results") / f"{name}-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"


def is_results_folder(path: Path) -> bool:
    """Whether `gpubench run` has been at work there."""
    return (path / _STATUS).is_file()


def read_summary(path: Path) -> Summary:
    """The status in a results folder."""
    return _read(path / _STATUS, Summary)


def read_plan(path: Path) -> Plan:
    """The plan in a results folder."""
    return _read(path / _PLAN, Plan)


def read_ledger(path: Path) -> Ledger:
    """The ledger in a results folder. A last line without its end is one that was being written: it is left out."""
    ledger = Ledger()
    for record in ledger_lines(path):
        ledger = ledger.with_records([record])
    return ledger.with_environments(_read_environments(path))


def ledger_lines(path: Path) -> Iterator[AttemptRecord]:
    """What each line of the ledger says that has its end."""
    for number, line in enumerate(_bytes(path / _LEDGER).split(b"\n")[:-1], start=1):
        try:
            yield AttemptRecord.from_text(line)
        except ValueError as error:
            raise Refusal(f"{path / _LEDGER}:{number}: {_first(error)}") from error


def ledger_is_cut(path: Path) -> bool:
    """Whether the last line has no end."""
    content = _bytes(path / _LEDGER)
    return bool(content) and not content.endswith(b"\n")


def ledger_path(path: Path) -> Path:
    """Where the attempts are."""
    return path / _LEDGER


def environments_bytes(path: Path) -> bytes:
    """The environments as they are stored, in the form of a log; empty where there are none."""
    return _bytes(path / _ENVIRONMENTS)


def study_path(path: Path) -> Path:
    """Where the study file is, as it was."""
    return path / _STUDY


def study_is_as_planned(path: Path, plan: Plan) -> bool:
    """Whether the copy of the study file is the one that the plan was made of."""
    try:
        return _digest(study_path(path).read_bytes()) == plan.study_digest
    except OSError as error:
        raise Refusal(f"{study_path(path)}: {error.strerror}") from error


def prices_path(path: Path) -> Path:
    """Where a re-priced folder has its prices."""
    return path / _PRICES


def prices_are_as_marked(path: Path, repriced: Repriced) -> bool:
    """Whether the file of prices is the one that the folder was re-priced with."""
    try:
        return _digest(prices_path(path).read_bytes()) == repriced.digest
    except OSError as error:
        raise Refusal(f"{prices_path(path)}: {error.strerror}") from error


def log_names(path: Path) -> tuple[LogName, ...]:
    """The logs of a results folder; a file there with another name is nobody's log, and a Refusal."""
    found = []
    for file in sorted((path / names.LOGS_FOLDER).glob(f"*{names.LOG_SUFFIX}")):
        trial, _, rest = file.name.removesuffix(names.LOG_SUFFIX).partition(".")
        attempt, _, pod = rest.partition(".")
        if not (attempt.isdecimal() and pod.isdecimal()):
            raise Refusal(f"{file}: the name of a log is TRIAL.ATTEMPT.POD{names.LOG_SUFFIX}: what is this file?")
        found.append(LogName(trial, int(attempt), int(pod)))
    return tuple(found)


def log_path(path: Path, name: LogName) -> Path:
    """Where a log is."""
    return path / names.LOGS_FOLDER / str(name)


def records_folder(given: Path, *, path: str | None, study: str) -> Path:
    """The folder of a study on its results volume, which is mounted at `given`, or a copy of it that is `given`."""
    candidates = (given, given / study, given / (path or "") / study)
    for candidate in candidates:
        if candidate.resolve().name == study and (candidate / names.LOGS_FOLDER).is_dir():
            return candidate
    raise Refusal(
        f"{given}: there is no {study}/{names.LOGS_FOLDER} in it: name the folder at which the volume of spec.results "
        f"is mounted, or {study} on it"
    )


def kept_log(folder: Path, name: LogName) -> bytes | None:
    """A log on a results volume, where it is whole."""
    return _bytes_or_none(log_path(folder, name))


def unfinished_log(folder: Path, name: LogName) -> bytes | None:
    """As far as a pod came with its log on a results volume; None where it is whole, or was never begun."""
    whole = log_path(folder, name)
    return _bytes_or_none(whole.with_name(whole.name + names.LOG_UNFINISHED))


def why_none(path: Path) -> str:
    """What stands in the way of taking a folder for a results folder."""
    if not (path / names.LOGS_FOLDER).is_dir() or any((path / name).exists() for name in FILES):
        return f"{path}: this is no results folder of `gpubench run`"
    return (
        f"{path}: this is no results folder yet, for it has logs and no plan: `gpubench export NAME {path} --records "
        f"{path}` puts plan, attempts and status of the study beside them"
    )


def _read_environments(path: Path) -> list[Environment]:
    lines = environments_bytes(path).decode(errors="replace").split("\n")
    return [found for line in lines if (found := wire.read_environment(line)) is not None]


def _append(folder: Path, name: str, values: Iterable[FrozenModel]) -> None:
    lines = "".join(f"{checksum.seal(value.to_json())}\n" for value in values)
    if not lines:
        return
    with _writing(folder), (folder / name).open("a", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _bytes(path: Path) -> bytes:
    """What a file holds; nothing where it is not there yet."""
    return _bytes_or_none(path) or b""


def _bytes_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error


def _digest(study: bytes) -> str:
    return hashlib.sha256(study).hexdigest()


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}: this is no results folder of `gpubench run`") from error
    try:
        value = kind.from_text(content.removesuffix(b"\n"))
    except ValueError as error:
        raise Refusal(f"{path}: {_first(error)}") from error
    if not content.endswith(b"\n"):
        raise Refusal(f"{path}: its last line has no end: bytes are missing")
    return value


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(f"{path}: results cannot be written there: {error.strerror}") from error


def _first(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


def _replace_stored(path: Path, content: checksum.Stored) -> None:
    _replace(path, f"{content.to_text()}\n".encode())


def _replace(path: Path, content: bytes) -> None:
    """A file that is there as a whole or not at all; nothing is left of one that could not be written."""
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, prefix=".", delete=False) as new:
        try:
            new.write(content)
            new.flush()
            os.fsync(new.fileno())
            Path(new.name).chmod(0o644)
            Path(new.name).replace(path)
        except BaseException:
            Path(new.name).unlink()
            raise


# --- export -----------------------------------------------------------------------------------------------------------


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

    def config_map(self, name: str) -> dict[str, Any] | None:
        """One ConfigMap; None where there is none."""

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        """Pods of it that are still there."""

    def log(self, pod: str) -> bytes | None:
        """All that a pod has said; None where that is gone."""


def add_export_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    parser.set_defaults(command=run_export)


def run_export(arguments: argparse.Namespace) -> int:
    """Read, write, tell."""
    from gpubench_cli import cluster  # noqa: PLC0415  # only the commands that need one load the client

    with cluster.connect(arguments.namespace) as place:
        terminal.write(export(place, arguments.name, arguments.folder, records_at=arguments.records))
    return terminal.EXIT_DONE


def export(place: Place, name: str, path: Path, *, records_at: Path | None = None) -> str:
    """The study as a results folder; what was written, in a sentence."""
    body = place.benchmark(name)
    uid = str(body["metadata"]["uid"])
    plan, attempts = plan_and_ledger(place.config_maps(uid), name=name, uid=uid)
    status = status_of(place, name, body)
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


def _has_come_to_its_end(status: FullStatus, attempts: Ledger) -> bool:
    """Whether no pod writes any more. A study whose budget was raised goes on before its status says so."""
    return conditions.holds(status.conditions, conditions.FINISHED) and all(
        record.outcome is not None for record in attempts.records
    )


def split_log(content: bytes) -> tuple[bytes, bytes]:
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
    return records_folder(given, path=place, study=names.study_name(name, uid))


def _with_kept(logs: _Logs, begun_later: _Rest, folder: Path, plan: Plan, attempts: Ledger) -> tuple[_Logs, _Rest]:
    """The records on a volume in place of those in pods' logs: no kubelet has rotated them, and they are whole.

    Of an attempt without a result the part that a pod has written counts, too, as the log of one that was killed does.
    """
    together, rest = dict(logs), dict(begun_later)
    parts = 0
    for record, name in _pods_of(plan, attempts):
        own, part = kept_log(folder, name), unfinished_log(folder, name)
        if own is None and record.result is None and name not in logs:
            own = part
        elif own is None and part is not None and name not in logs:
            parts += 1
        if own is not None:
            _, others = logs.get(name) or split_log(rest.pop(name, b""))
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
        if plan.has_windows(record.trial):
            for pod in range(plan.point_of(record.trial).nodes):
                yield record, LogName(record.trial, record.attempt, pod)


def plan_and_ledger(config_maps: Iterable[Mapping[str, Any]], *, name: str, uid: str) -> tuple[Plan, Ledger]:
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
        if not plan.has_windows(name.trial):
            found[name] = (said, b"")
            continue
        own, others = split_log(said)
        if _has_its_beginning(own, record):
            found[name] = (own, others)
        else:
            begun_later[name] = said
    return found, begun_later


def status_of(place: Place, name: str, body: Mapping[str, Any]) -> FullStatus:
    """The status of an object with its analysis, made again where the stored one is not the operator's."""
    from gpubench.analysis import analyze, audit, status  # noqa: PLC0415  # of results folders all is there

    short, uid = read_status(body.get("status"), name=name), str((body.get("metadata") or {}).get("uid"))
    for _ in range(2):  # the operator may just be writing another one
        if short.analysis is None:
            return status.with_analysis(short, Analysis())
        stored = short.analysis.config_maps
        found = analyze.read([manifests.read_analysis_part(place.config_map(one)) for one in stored], short.analysis)
        if found is not None:
            return status.with_analysis(short, found)
        body = place.benchmark(name)
        short = read_status(body.get("status"), name=name)
    terminal.tell(
        f"{name}: ConfigMap {stored[0]} is not what the operator has written: analysed again from its attempts"
    )
    plan, attempts = plan_and_ledger(place.config_maps(uid), name=name, uid=uid)
    known = status.with_analysis(short, Analysis())
    return audit.status_again(plan, attempts, read_spec(body.get("spec"), name=name), known)


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
    for document in documents.read_yaml(study_path(path)):
        match document.content:
            case {"kind": names.BENCHMARK_KIND, "metadata": {"name": found}} if found == name:
                return document.content.get("spec")
    return None


# --- all that is stored of a benchmark --------------------------------------------------------------------------------


class StoredStudy(NamedTuple):
    """One study and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    written: Any  # the spec as its user wrote it
    spec: GpuBenchmarkSpec
    plan: Plan
    ledger: Ledger
    status: FullStatus
    repriced: Repriced | None = None


def find_stored(name: str, *, namespace: str | None) -> StoredStudy:
    """A study by its results folder, or by the name of its object."""
    path = Path(name)
    if is_results_folder(path):
        return stored_in_folder(path)
    if path.is_dir() or "/" in name:
        raise Refusal(f"{name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with cluster.connect(namespace) as place:
        return stored_in_cluster(place, name, source=f"namespace {place.namespace}")


def stored_in_folder(path: Path) -> StoredStudy:
    """The study of a results folder."""
    summary, plan = read_summary(path), read_plan(path)
    if not study_is_as_planned(path, plan):
        raise Refusal(
            f"{study_path(path)}: it is not the file that plan.json was made of: `gpubench verify` says what "
            "was changed"
        )
    return StoredStudy(
        name=summary.name,
        source=str(path),
        written=folder_spec(path, summary.name),
        spec=documents.read(study_path(path)).benchmark(summary.name).spec,
        plan=plan,
        ledger=read_ledger(path),
        status=summary.status,
        repriced=summary.repriced,
    )


def stored_in_cluster(place: Place, name: str, *, source: str) -> StoredStudy:
    """The study of an object that has begun. Reads only."""
    body: Mapping[str, Any] = place.benchmark(name)
    uid = str(body["metadata"]["uid"])
    plan, attempts = plan_and_ledger(place.config_maps(uid), name=name, uid=uid)
    return StoredStudy(
        name=name,
        source=source,
        written=body.get("spec"),
        spec=read_spec(body.get("spec"), name=name),
        plan=plan,
        ledger=attempts,
        status=status_of(place, name, body),
    )
