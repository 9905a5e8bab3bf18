# SPDX-License-Identifier: Apache-2.0
"""A results folder: what `gpubench run` leaves behind, and its format.

Version 1 (0.1.0):
    study.yaml      a copy of the study file
    plan.json       the frozen plan (plan.plan.Plan), with the pools and prices as they were
    ledger.jsonl    attempt records (control.ledger.AttemptRecord), one JSON object a line; an attempt has a line from
                    when it was seen to run and one from its end: the later line counts
    environments.jsonl  what the figures stand on (measure.records.Environment), one JSON object a line, each
                    comparability key once; absent in folders of before
    status.json     a Summary: whose status this is, and the status (api.benchmark_status.GpuBenchmarkStatus)
    logs/           <trial>.<attempt>.<pod>.jsonl: the pod's records with all windows; .err: what it said besides

Must not happen: a measurement that was made is lost because the next one failed. So the ledger is written through to
the disk with each attempt, and the status replaces its predecessor in one step.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import ValidationError

from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.control.ledger import AttemptRecord, Ledger
from gpubench.measure import records as wire
from gpubench.measure.records import Environment
from gpubench.plan.plan import Plan
from gpubench.values import Value
from gpubench_cli.refusal import Refusal

_Kind = TypeVar("_Kind", bound=Value)

_STATUS, _PLAN, _LEDGER, _STUDY, _LOGS = "status.json", "plan.json", "ledger.jsonl", "study.yaml", "logs"
_ENVIRONMENTS = "environments.jsonl"


class Summary(Value):
    """The content of status.json."""

    schema_version: Literal[1] = 1
    name: str
    uid: str
    machine: str
    status: GpuBenchmarkStatus


class ResultsFolder:
    """A folder that belongs to one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path, *, study_text: str, plan: Plan) -> "ResultsFolder":
        """A new folder; Refusal where there is something already, for it may be another run's results."""
        with _writing(path):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise Refusal(f"{path} is not empty: choose another folder with --results")
            (path / _LOGS).mkdir()
            (path / _STUDY).write_text(study_text, encoding="utf-8")
            _replace(path / _PLAN, plan.to_json())
        return cls(path)

    def log(self, *, trial: str, attempt: int, pod: int) -> Path:
        """Where the records of a pod go."""
        return self.path / _LOGS / f"{trial}.{attempt}.{pod}.jsonl"

    def append(self, records: Iterable[AttemptRecord]) -> None:
        """Records that are safe on the disk when this returns."""
        _append(self.path, _LEDGER, records)

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

    def write(self, summary: Summary) -> None:
        """The status; a reader sees the old one or the new one, never half of it."""
        with _writing(self.path):
            _replace(self.path / _STATUS, summary.to_json())


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
    try:
        text = (path / _LEDGER).read_text(encoding="utf-8")
    except FileNotFoundError:
        text = ""  # no attempt was seen yet
    complete = text[: text.rfind("\n") + 1].splitlines()
    ledger = Ledger()
    for number, line in enumerate(complete, start=1):
        try:
            ledger = ledger.with_records([AttemptRecord.model_validate_json(line)])
        except ValidationError as error:
            raise Refusal(f"{path / _LEDGER}:{number}: {_first(error)}") from error
    return ledger.with_environments(_read_environments(path))


def _read_environments(path: Path) -> list[Environment]:
    try:
        lines = (path / _ENVIRONMENTS).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [found for line in lines if (found := wire.read_environment(line)) is not None]


def _append(folder: Path, name: str, values: Iterable[Value]) -> None:
    lines = "".join(f"{value.to_json()}\n" for value in values)
    if not lines:
        return
    with _writing(folder), (folder / name).open("a", encoding="utf-8") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def study_path(path: Path) -> Path:
    """Where the study file is, as it was."""
    return path / _STUDY


def _read(path: Path, kind: type[_Kind]) -> _Kind:
    try:
        return kind.model_validate_json(path.read_bytes())
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}: this is no results folder of `gpubench run`") from error
    except ValidationError as error:
        raise Refusal(f"{path}: {_first(error)}: it was written by another version, or changed") from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Refusal(f"{path}: results cannot be written there: {error.strerror}") from error


def _first(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".", delete=False) as new:
        new.write(text + "\n")
        new.flush()
        os.fsync(new.fileno())
    Path(new.name).chmod(0o644)
    Path(new.name).replace(path)
