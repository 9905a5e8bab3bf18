# SPDX-License-Identifier: Apache-2.0
"""A results folder: what `gpubench run` and `gpubench export` leave behind, and its format.

    study.yaml      a copy of the benchmark file; plan.json has its digest
    plan.json       the frozen plan (plan.plan.Plan), with the pools and prices as they were
    ledger.jsonl    attempt records (scheduler.ledger.AttemptRecord), one JSON object a line; an attempt has a line from
                    when it was seen to run and one from its end: the later line counts
    environments.jsonl  of the figures (records.Environment), one JSON object a line, each comparability key once
    nodes.json      nodes that came while it ran (scheduler.ledger.NewNodes), of a cluster that had such
    status.json     a Summary: whose status this is, and the status (api.benchmark_status.FullStatus)
    prices.yaml     of a folder that was re-priced: the GpuPools whose prices plan.json has; the Summary has its digest
    logs/           <trial>.<attempt>.<pod>.jsonl: the pod's records with all windows; .err: its other output
    checkpoints/    <trial>/: of trainings of this machine that have no result yet (gpubench_jobs.worker.checkpoint)
    measurements.csv  of a benchmark that `gpubench import` has made: the file that its plan was made of
    mlperf/         of one that it has made of MLPerf's result logs: these, and the system's description

On the volume of `spec.results` the pods of a benchmark write its logs/, and none of the rest, which the cluster keeps:
`gpubench export` puts it beside them, there or in another folder. There a log that is not whole ends in .jsonl.part.
Every line of the four kinds of JSON file ends with a checksum (`gpubench.checksum`).

Must not happen: a measurement that was made is lost because the next one failed (the ledger is written through to the
disk with each attempt, the status replaces its predecessor in one step); anything is computed from a file that is
not the one that was planned; an export writes to the cluster, writes over a log on the volume, or leaves half of one
under its name, for a later reader would take it for the whole.
"""

import fcntl
import functools
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import yaml

from gpubench import checksum, names, units
from gpubench import records as wire
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Analysis, FullStatus
from gpubench.plan.plan import Plan
from gpubench.plan.pool_prices import Repriced
from gpubench.report.document import Reported
from gpubench.scheduler import conditions, ledger, manifests
from gpubench.scheduler.ledger import AttemptRecord, Ledger, NewNodes
from gpubench.values import FrozenModel
from gpubench_cli import VERSION, cluster, documents, options, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

_Kind = TypeVar("_Kind", bound=wire.Stored)
_Found = TypeVar("_Found")

_STATUS, _PLAN, LEDGER, STUDY = "status.json", "plan.json", "ledger.jsonl", "study.yaml"
ENVIRONMENTS, PRICES, NODES = "environments.jsonl", "prices.yaml", "nodes.json"
#: What an export that came to no end may have left beside the logs of a volume: the plan comes first, the status last.
_LEFT_BEHIND = frozenset({_PLAN, STUDY, LEDGER, ENVIRONMENTS, NODES})
#: What an imported benchmark was made of, beside its benchmark file.
MEASUREMENTS = "measurements.csv"
#: What these measurements were made of, where they are those of logs.
COPIES = "mlperf"
#: What read_* take from a results folder.
FILES = (STUDY, _PLAN, LEDGER, _STATUS)
#: Of the sentences of a status: one more wherever those of the same figures change.
WORDS = 2
_NO_PLAN = "{} has no plan: it has not begun, and there is nothing to export"


class Exported(FrozenModel):
    """That a folder was written from a cluster."""

    at: str  # RFC 3339
    logs: tuple[str, ...]  # names of the files in logs/; the other pods were gone, and with them their windows


class Summary(wire.Stored):
    """The content of status.json."""

    name: str
    uid: str
    machine: str  # or the address of the cluster
    gpubench: str | None = None  # version whose words the status has: another one may choose others
    words: int | None = None  # and which of that version's, see WORDS
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


# --- writing ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResultsFolder:
    """A folder that belongs to one run."""

    path: Path

    @classmethod
    def create(cls, path: Path, *, study_text: str, plan: Plan, beside_logs: bool = False) -> "ResultsFolder":
        """A new folder; CliError where there is something already, for it may be another run's results.

        With `beside_logs` it has its logs, and of the rest at most what an export has left that came to no end.
        """
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            there = {one.name for one in path.iterdir()}
            left = there - {names.LOGS_FOLDER}
            of_an_export = not left or (_PLAN in left and left <= _LEFT_BEHIND)
            if there and not (beside_logs and of_an_export):
                raise CliError(f"{path} is not empty: choose another folder")
            for name in left:
                (path / name).unlink()
            (path / names.LOGS_FOLDER).mkdir(exist_ok=beside_logs)
            study = study_text.encode()
            planned = plan.model_copy(update={"study_digest": hashlib.sha256(study).hexdigest()})
            _replace(path / _PLAN, f"{planned.to_text()}\n".encode())
            _replace(path / STUDY, study)
        return cls(path)

    @contextmanager
    def written_alone(self) -> Iterator[None]:
        """While a run writes here, no other one does."""
        try:
            held = (self.path / _PLAN).open("r+b")  # a lock by NFS is for who may write
        except OSError as error:
            raise CliError(why_none(self.path)) from error
        with held:
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CliError(f"{self.path}: another `gpubench run` writes there: wait for its end") from error
            except OSError as error:
                raise CliError(f"{self.path}: its file system gives no lock: {error.strerror}") from error
            yield

    def leave_out_cut_lines(self) -> None:
        """What was being written when its run was killed is left out."""
        for path in (self.path / LEDGER, self.path / ENVIRONMENTS):
            if (content := _bytes_or_none(path)) and not content.endswith(b"\n"):
                _replace(path, content[: content.rfind(b"\n") + 1])

    def keep(self, name: str, content: bytes) -> None:
        with _writing(self.path):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(content)

    def log(self, *, trial: str, attempt: int, pod: int) -> Path:
        return log_path(self.path, LogName(trial, attempt, pod))

    @property
    def checkpoints(self) -> Path:
        """Where trainings under way keep their checkpoints, from whatever folder a process runs in."""
        return (self.path / names.CHECKPOINTS_FOLDER).absolute()

    def write_log(self, name: LogName, *, own: bytes | None, others: bytes) -> None:
        """A pod's records, unless they are there, and its other output; only a whole log gets the name."""
        path = log_path(self.path, name)
        with _writing(self.path):
            if own is not None and not path.exists():
                _replace(path, own)
            path.with_suffix(".err").write_bytes(others)

    def append(self, records: Iterable[AttemptRecord]) -> None:
        """Records, and logs of ended attempts, are safe on the disk when this returns: no ledger survives its logs."""
        records = tuple(records)
        with _writing(self.path):
            for record in (one for one in records if one.outcome is not None):
                for log in (self.path / names.LOGS_FOLDER).glob(f"{record.key}.*{names.LOG_SUFFIX}"):
                    with log.open("rb") as file:
                        os.fsync(file.fileno())
        self._append(LEDGER, records)

    def append_environments(self, environments: Iterable[wire.Environment]) -> None:
        """Environments that are safe on the disk when this returns."""
        self._append(ENVIRONMENTS, environments)

    def _append(self, name: str, values: Iterable[FrozenModel]) -> None:
        if not (lines := "".join(f"{checksum.seal(value.to_json())}\n" for value in values)):
            return
        with _writing(self.path), (self.path / name).open("a", encoding="utf-8") as file:
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())

    def log_head(self, *, trial: str, attempt: int, limit: int) -> str:
        """The beginning of pod 0's log; empty where there is none."""
        try:
            with self.log(trial=trial, attempt=attempt, pod=0).open("rb") as log:
                return log.read(limit).decode(errors="replace")
        except OSError:
            return ""

    def copy_measurements(self, source: Path) -> None:
        """What was measured in another folder, byte by byte: attempts, environments and logs, or what was imported."""
        with _writing(self.path):
            for name in (LEDGER, ENVIRONMENTS, NODES, MEASUREMENTS):
                if (source / name).is_file():
                    shutil.copyfile(source / name, self.path / name)
            if (source / COPIES).is_dir():
                shutil.copytree(source / COPIES, self.path / COPIES)
            for log in sorted((source / names.LOGS_FOLDER).glob("*")):
                shutil.copyfile(log, self.path / names.LOGS_FOLDER / log.name)

    def write(self, summary: Summary) -> None:
        """The status; a reader sees the old one or the new one, never half of it."""
        # What is exported has the words of the operator, whose version is not known here.
        version = VERSION if summary.exported is None or summary.repriced is not None else None
        with _writing(self.path):
            content = summary.model_copy(update={"gpubench": version, "words": version and WORDS})
            _replace(self.path / _STATUS, f"{content.to_text()}\n".encode())


_writing = functools.partial(terminal.writing, what="results")


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


def default_path(name: str, *, now: float) -> Path:
    return Path("results") / f"{name}-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}"


# --- reading ----------------------------------------------------------------------------------------------------------


def is_results_folder(path: Path) -> bool:
    return (path / _STATUS).is_file()


def why_none(path: Path) -> str:
    if not (path / names.LOGS_FOLDER).is_dir() or any((path / name).exists() for name in FILES):
        return f"{path}: this is no results folder of `gpubench run`"
    return (
        f"{path}: this is no results folder yet, for it has logs and no plan: `gpubench export NAME {path} --records "
        f"{path}` puts plan, attempts and status of the benchmark beside them"
    )


def read_summary(path: Path) -> Summary:
    return _read(path / _STATUS, Summary)


def read_plan(path: Path) -> Plan:
    return _read(path / _PLAN, Plan)


def read_ledger(path: Path) -> Ledger:
    """The ledger in a results folder. A last line without its end is one that was being written: it is left out."""
    environments = wire.read_log(environments_bytes(path)).of_kind(wire.Environment)
    return Ledger(new_nodes=read_new_nodes(path)).with_records(ledger_lines(path)).with_environments(environments)


def read_new_nodes(path: Path) -> NewNodes:
    return _read(path / NODES, NewNodes) if (path / NODES).exists() else NewNodes()


def ledger_lines(path: Path) -> Iterator[AttemptRecord]:
    """What each line of the ledger says that has its end."""
    for number, line in enumerate((_bytes_or_none(path / LEDGER) or b"").split(b"\n")[:-1], start=1):
        try:
            yield AttemptRecord.from_text(line)
        except ValueError as error:
            raise CliError(f"{path / LEDGER}:{number}: {wire.first_error(error)}") from error


def ledger_is_cut(path: Path) -> bool:
    """Whether the last line has no end."""
    return not (_bytes_or_none(path / LEDGER) or b"\n").endswith(b"\n")


def environments_bytes(path: Path) -> bytes:
    """The environments as they are stored, in the form of a log; empty where there are none."""
    return _bytes_or_none(path / ENVIRONMENTS) or b""


def digest(path: Path) -> str:
    return hashlib.sha256(content(path)).hexdigest()


def study_as_planned(path: Path, plan: Plan) -> documents.StudyFile:
    """The copy of the benchmark file; CliError where it is not the one that the plan was made of."""
    if digest(path / STUDY) != plan.study_digest:
        raise CliError(f"{path / STUDY}: it is not the file that plan.json was made of: put that file back")
    return documents.read(path / STUDY)


def written_spec(path: Path, name: str, *, text: str | None = None) -> Any:
    """A spec as its user wrote it, of the benchmark file in a folder, or of its text."""
    for document in documents.read_yaml(path / STUDY, text):
        match document.content:
            case {"kind": names.BENCHMARK_KIND, "metadata": {"name": found}} if found == name:
                return document.content.get("spec")
    return None


def log_names(path: Path) -> Iterator[LogName]:
    """The logs of a results folder; a file there with another name is nobody's log, and a CliError."""
    for file in sorted((path / names.LOGS_FOLDER).glob(f"*{names.LOG_SUFFIX}")):
        match file.name.removesuffix(names.LOG_SUFFIX).split("."):
            case [trial, attempt, pod] if attempt.isdecimal() and pod.isdecimal():
                yield LogName(trial, int(attempt), int(pod))
            case _:
                raise CliError(f"{file}: the name of a log is TRIAL.ATTEMPT.POD{names.LOG_SUFFIX}: what is this file?")


def log_path(path: Path, name: LogName) -> Path:
    return path / names.LOGS_FOLDER / str(name)


def _bytes_or_none(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from error


def content(path: Path, remark: str = "") -> bytes:
    """CliError, with the remark at its end, where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}{remark}") from error


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    text = content(path, ": this is no results folder of `gpubench run`")
    try:
        value = kind.from_text(text.removesuffix(b"\n"))
    except ValueError as error:
        raise CliError(f"{path}: {wire.first_error(error)}") from error
    if not text.endswith(b"\n"):
        raise CliError(f"{path}: its last line has no end: bytes are missing")
    return value


# --- what a cluster has -----------------------------------------------------------------------------------------------


def plan_and_ledger(place: cluster.Cluster, benchmark: kube.Object) -> tuple[Plan, Ledger]:
    name, uid = kube.name_of(benchmark), kube.uid_of(benchmark)
    ours = {kube.name_of(body): body for body in place.config_maps(uid) if kube.is_owned_by(body, uid)}
    if (planned := ours.pop(names.plan_name(name, uid), None)) is None:
        raise CliError(_NO_PLAN.format(name))
    try:
        return manifests.read_plan(planned), ledger.from_entries(
            body.get("data") or {}
            for body in ours.values()
            if (body["metadata"].get("labels") or {}).get(names.LABEL_COMPONENT) == names.COMPONENT_LEDGER
        )
    except ValueError as error:
        raise CliError(f"what is stored of {name} cannot be read: {error}") from error


def study_text(body: kube.Object) -> str:
    """The object as its user wrote it, with the defaults that the API server has put in."""
    document = documents.as_object(names.BENCHMARK_KIND, kube.name_of(body), body["spec"])
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def status_of(place: cluster.Cluster, name: str, body: kube.Object) -> FullStatus:
    """The status of an object with its analysis, made again where the stored one is not the operator's."""
    from gpubench.analysis import analyze, audit, status  # noqa: PLC0415  # of results folders all is there

    short = cluster.read_status(body.get("status"), name=name)
    for _ in range(2):  # the operator may just be writing another one
        if short.analysis is None:
            return status.with_analysis(short, Analysis())
        stored = short.analysis.config_maps
        found = analyze.read([manifests.read_analysis_part(place.config_map(one)) for one in stored], short.analysis)
        if found is not None:
            return status.with_analysis(short, found)
        body = place.benchmark(name)
        short = cluster.read_status(body.get("status"), name=name)
    terminal.tell(
        f"{name}: ConfigMap {stored[0]} is not what the operator has written: analysed again from its attempts"
    )
    spec, known = cluster.read_spec(body.get("spec"), name=name), status.with_analysis(short, Analysis())
    return audit.status_again(*plan_and_ledger(place, body), spec, known)


# --- a benchmark by its name, in a folder or in the cluster -----------------------------------------------------------


class StoredBenchmark(Reported):
    """One that has begun, and whose file is there."""

    spec: GpuBenchmarkSpec
    plan: Plan


def located(
    name: str,
    *,
    namespace: str | None,
    in_folder: Callable[[Path], _Found],
    in_cluster: Callable[[cluster.Cluster, str], _Found],
) -> _Found:
    """What is read where a name leads: a results folder, or an object of the cluster."""
    path = Path(name)
    if is_results_folder(path):
        return in_folder(path)
    if path.is_dir() or "/" in name:
        raise CliError(why_none(path))
    try:
        with cluster.connect(namespace) as place:
            return in_cluster(place, name)
    except kube.PermanentError as error:
        if error.code not in (None, 404):
            raise
        raise CliError(f"there is no results folder {name} here, and {error}") from error


def find_reported(name: str, *, namespace: str | None) -> Reported:
    """A benchmark as far as it is there: it may have to begin, or its file may be gone."""
    return located(name, namespace=namespace, in_folder=in_folder, in_cluster=in_cluster)


def find_measured(name: str, *, namespace: str | None) -> StoredBenchmark:
    """One that has begun; CliError where it has no results yet."""
    found = stored(find_reported(name, namespace=namespace))
    if not found.status.results:
        raise CliError(f"{found.name} has no results yet: `gpubench show` says how it stands")
    return found


def in_folder(path: Path) -> Reported:
    summary, plan, study, spec = read_summary(path), read_plan(path), path / STUDY, None
    with suppress(CliError):  # the figures are here all the same
        spec = study_as_planned(path, plan).benchmark(summary.name).spec
    return Reported(
        source=str(path),
        spec=spec,
        plan=plan,
        ledger=read_ledger(path),
        study_text=study.read_text(encoding="utf-8", errors="replace") if study.is_file() else None,
        **{name: getattr(summary, name) for name in ("name", "status", "machine", "gpubench", "repriced")},
    )


def in_cluster(place: cluster.Cluster, name: str) -> Reported:
    """With the plan and the attempts that the cluster keeps, once there are any. Reads only."""
    body = place.benchmark(name)
    status = status_of(place, name, body)
    plan, attempts = plan_and_ledger(place, body) if status.start_time is not None else (None, Ledger())
    return Reported(
        name=name,
        source=f"namespace {place.namespace}",
        status=status,
        spec=cluster.read_spec(body.get("spec"), name=name),
        plan=plan,
        ledger=attempts,
        study_text=study_text(body),
        machine=place.host,
    )


def stored(found: Reported) -> StoredBenchmark:
    """The same of one that has begun; CliError of another, and where its file is gone or not the one that was run."""
    if found.plan is None:
        raise CliError(_NO_PLAN.format(found.name))
    spec = found.spec or study_as_planned(Path(found.source), found.plan).benchmark(found.name).spec
    return StoredBenchmark(**{**dict(found), "spec": spec})


# --- gpubench export --------------------------------------------------------------------------------------------------


_OBJECTS_MAX = 64  # in one record, with room: a line of a foreign program may have any number


class _PodLog(NamedTuple):
    """A pod's records, and its other output; no records where their beginning is lost, then all is other output."""

    records: bytes | None
    others: bytes


@click.command("export")
@click.argument("name", metavar="NAME", help="a GpuBenchmark")
@click.argument("folder", metavar="DIR", type=options.PATH, help="new folder")
@click.option(
    "--records",
    type=options.PATH,
    metavar="FOLDER",
    help="where the volume of spec.results is mounted here, or the benchmark's folder on it; DIR may be that folder",
)
@options.cluster
def run_export(name: str, folder: Path, records: Path | None, namespace: str | None) -> None:
    """Write a benchmark of the cluster into a results folder, before the object is deleted.

    That is its plan, attempts, status and the windows of pods that are still there, or on the volume of --records.
    """
    with cluster.connect(namespace) as place:
        terminal.say(export(place, name, folder, records_at=records))


def export(place: cluster.Cluster, name: str, path: Path, *, records_at: Path | None = None) -> str:
    """The benchmark as a results folder; what was written, in a message. What is gone is named in the folder."""
    body = place.benchmark(name)
    uid = str(body["metadata"]["uid"])
    plan, attempts = plan_and_ledger(place, body)
    status, logs = status_of(place, name, body), _logs(place, plan, attempts, uid=uid)
    kept = None if records_at is None else _records_folder(records_at, body)
    if kept is not None:
        logs = _with_kept(logs, kept, plan, attempts)
    finished = conditions.holds(status.conditions, conditions.FINISHED)
    in_place = kept is not None and path.resolve() == kept.resolve()
    # A benchmark whose budget was raised goes on before its status says so.
    if in_place and not (finished and all(record.outcome is not None for record in attempts.records)):
        raise CliError(
            f"{name} has not finished: its pods may still write to {path}; name another folder to export what there is "
            "so far, or wait for its end"
        )
    folder = ResultsFolder.create(path, study_text=study_text(body), plan=plan, beside_logs=in_place)
    folder.append(attempts.records)
    folder.append_environments(attempts.environments)
    if attempts.new_nodes != NewNodes():
        folder.keep(NODES, f"{attempts.new_nodes.to_text()}\n".encode())
    for pod, log in logs.items():
        folder.write_log(pod, own=log.records, others=log.others)
    whole = [pod for pod, log in logs.items() if log.records is not None]
    exported = Exported(at=units.rfc3339(time.time()), logs=tuple(sorted(map(str, whole))))
    if kept is None and body["spec"].get("results") and any(pod not in whole for _, pod in _pods_of(plan, attempts)):
        terminal.tell(f"{name}: spec.results keeps the records of pods that are gone: take them with --records")
    if begun_later := len(logs) - len(whole):
        terminal.tell(
            f"{name}: the logs of {begun_later} pods have lost their beginning (the kubelet keeps the last "
            "containerLogMaxSize of a log): what is left is in files .err, and counts as gone"
        )
    folder.write(Summary(name=name, uid=uid, machine=place.host, exported=exported, status=status))
    if not finished:
        terminal.tell(f"{name} has not finished: its attempts may be a moment newer than its status")
    pods = sum(plan.point_by_trial[record.trial].nodes for record in attempts.records)
    return f"{folder.path}: {len(attempts.records)} attempts, and the records of {len(whole)} of their {pods} pods"


def _logs(place: cluster.Cluster, plan: Plan, attempts: Ledger, *, uid: str) -> dict[LogName, _PodLog]:
    found: dict[LogName, _PodLog] = {}
    for pod in place.pods(uid):
        labels = pod["metadata"].get("labels") or {}
        trial, attempt, index = map(labels.get, (names.LABEL_TRIAL, names.LABEL_ATTEMPT, names.LABEL_POD_INDEX))
        record = attempts.by_key.get(f"{trial}.{attempt}")
        if record is None or index is None or (said := place.log(pod["metadata"]["name"])) is None:
            continue
        log = _PodLog(*split_log(said)) if plan.has_windows(record.trial) else _PodLog(said, b"")
        whole = not plan.has_windows(record.trial) or _has_its_beginning(log.records or b"", record)
        found[LogName(record.trial, record.attempt, int(index))] = log if whole else _PodLog(None, said)
    return found


def _with_kept(logs: Mapping[LogName, _PodLog], folder: Path, plan: Plan, attempts: Ledger) -> dict[LogName, _PodLog]:
    """The records on a volume in place of those in pods' logs: no kubelet has rotated them, and they are whole.

    Of an attempt without a result the part that a pod has written counts, too, as the log of one that was killed does.
    """
    found = dict(logs)
    for record, name in _pods_of(plan, attempts):
        pod, path = logs.get(name, _PodLog(None, b"")), log_path(folder, name)
        if (own := _bytes_or_none(path)) is None and pod.records is None and record.result is None:
            own = _bytes_or_none(path.with_name(path.name + names.LOG_UNFINISHED))
        if own is not None:
            found[name] = _PodLog(own, split_log(pod.others)[1] if pod.records is None else pod.others)
    return found


def _records_folder(given: Path, body: kube.Object) -> Path:
    """The folder of this very object on its results volume, which is mounted at `given`, or a copy that is `given`."""
    study = names.study_name(str(body["metadata"]["name"]), str(body["metadata"]["uid"]))
    below = (body["spec"].get("results") or {}).get("path") or ""
    for candidate in (given, given / study, given / below / study):
        if candidate.resolve().name == study and (candidate / names.LOGS_FOLDER).is_dir():
            return candidate
    raise CliError(
        f"{given}: there is no {study}/{names.LOGS_FOLDER} in it: name the folder at which the volume of spec.results "
        f"is mounted, or {study} on it"
    )


def _pods_of(plan: Plan, attempts: Ledger) -> Iterator[tuple[AttemptRecord, LogName]]:
    for record in attempts.records:
        if plan.has_windows(record.trial):
            for pod in range(plan.point_by_trial[record.trial].nodes):
                yield record, LogName(record.trial, record.attempt, pod)


def split_log(content: bytes) -> tuple[bytes, bytes]:
    """The records in a pod's log, and all else; a text without its line's end has a record behind it."""
    lines = [(line, _record_begins(line)) for line in content.splitlines(keepends=True)]
    return b"".join(line[begin:] for line, begin in lines), b"".join(line[:begin] for line, begin in lines)


def _record_begins(line: bytes) -> int:
    """Where the record in a line begins; its length where there is none."""
    if line.endswith(b"\n") and checksum.is_sealed(line[:-1]):
        for begin in islice((found.start() for found in re.finditer(rb'\{"', line)), _OBJECTS_MAX):
            with suppress(checksum.Damaged):
                wire.read_line(line[begin:-1])
                return begin
    return len(line)


def _has_its_beginning(own: bytes, attempt: AttemptRecord) -> bool:
    """Whether a log begins as its pod began. The kubelet rotates logs, and its API gives the newest part alone."""
    if not (written := wire.read_log(own).records):
        return attempt.result is None
    return isinstance(written[0], wire.Environment if attempt.result is not None else wire.Environment | wire.Failure)
