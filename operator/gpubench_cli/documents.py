# SPDX-License-Identifier: Apache-2.0
"""Benchmark files: GpuPools, GpuBenchmarks, GpuBenchmarkSchedules and the ConfigMaps that they mount, in YAML.

Values are read as `kubectl apply` would read them, validated once, each complaint with the line it is about.

Must not happen: a file is taken in part (anything in it that is not understood refuses the whole of it); a key that is
given twice is silently taken once; a date that is not in quotes becomes something that the API server would never see
(kubectl reads `2026-11-01` as text); the library fails in another way than with an error that has a place in the file.
"""

import base64
import csv
import io
import reprlib
import sys
import uuid
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import AfterValidator, ConfigDict, Field, ValidationError

from gpubench import names, values
from gpubench.api import validate
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import GpuBenchmarkScheduleSpec
from gpubench.plan import expand
from gpubench.schedule import cron
from gpubench.scheduler.observed import Study
from gpubench_cli.terminal import CliError

# --- YAML with its lines ----------------------------------------------------------------------------------------------


_DEPTH_MAX = 100  # objects of Kubernetes stay below twenty; at some hundreds the interpreter's stack ends


@dataclass(frozen=True, kw_only=True)
class Document:
    """One document of a file: its content, and the line of each field."""

    source: str
    root: yaml.Node
    content: Any

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line of a field (keys and list indices), from 1; of the nearest enclosing one where it does not exist."""
        node, line = self.root, self.root.start_mark.line
        for step in path:
            match node:
                case yaml.MappingNode():
                    found = [(value, key.start_mark.line) for key, value in node.value if key.value == str(step)]
                case yaml.SequenceNode() if isinstance(step, int):
                    found = [(value, value.start_mark.line) for value in node.value[step : step + 1]]
                case _:
                    found = []
            if not found:
                break
            node, line = found[0]
        return int(line) + 1

    def at(self, path: Sequence[str | int] = ()) -> str:
        """`file.yaml:23`, for the beginning of a message."""
        return f"{self.source}:{self.line(path)}"


def read_yaml(path: Path, text: str | None = None) -> list[Document]:
    """The documents of a file, or of its text, that are not empty."""
    documents: list[Document] = []
    try:
        for root in yaml.compose_all(file_text(path) if text is None else text, Loader=_Loader):
            if (content := _Loader("").construct_document(root)) is not None:
                documents.append(Document(source=str(path), root=root, content=content))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        context = f" ({error.context})" if error.context and error.problem else ""
        raise CliError(f"{where}: this is not valid YAML: {error.problem or error.context}{context}") from error
    except yaml.YAMLError as error:
        raise CliError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    return documents


def written(kind: str, name: str, spec: values.FrozenModel) -> dict[str, Any]:
    """An object as a person would write it: without what is as it is by default."""
    return as_object(kind, name, spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True))


def as_object(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def file_text(path: Path, *, encoding: str = "utf-8") -> str:
    """The text of a file; CliError where it cannot be read."""
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding=encoding)
    except FileNotFoundError as error:
        raise CliError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: this is not a text file in UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise CliError(f"{path}: the file cannot be read: {error.strerror}") from error


def csv_rows(path: Path, columns: Sequence[str], remedy: str) -> list[tuple[str, dict[str, str]]]:
    """The rows of a file, each with its place; CliError, with the remedy, where it has not all of these columns."""
    reader = csv.DictReader(io.StringIO(file_text(path, encoding="utf-8-sig")), skipinitialspace=True)
    try:
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise CliError(f"{path}: it has no column {missing[0]}: {remedy}")
        return [(f"{path}:{reader.line_num}", row) for row in reader]
    except csv.Error as error:
        raise CliError(f"{path}:{reader.line_num}: it cannot be read as CSV: {error}") from error


class _Refused(yaml.MarkedYAMLError):
    """What YAML allows, or the library fails at, and no benchmark file may have."""


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses duplicate keys, endless values and abysses, and leaves dates as text."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._enclosing: list[yaml.Node | None] = []  # of the node that is being read, from the outside in

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        if len(self._enclosing) > _DEPTH_MAX:
            raise _Refused(problem=f"more than {_DEPTH_MAX} levels stand inside each other", problem_mark=mark)
        self._enclosing.append(parent)
        node = super().compose_node(parent, index)
        if any(node is outer for outer in self._enclosing if outer is not None):
            raise _Refused(problem="the value contains itself", problem_mark=mark)
        self._enclosing.pop()
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, LookupError, TypeError, ArithmeticError) as error:
            kind = node.tag.rsplit(":", 1)[-1]
            raise _Refused(
                problem=f"{reprlib.repr(node.value)} cannot be read as {kind}", problem_mark=node.start_mark
            ) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _Refused(problem="a key must be text, not a list or a mapping", problem_mark=key.start_mark)
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                raise _Refused(
                    problem=f"the key {key.value!r} stands here again, it was first given in line {seen[key.value]}",
                    problem_mark=key.start_mark,
                )
            seen[key.value] = key.start_mark.line + 1
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_constructors = {
    **yaml.SafeLoader.yaml_constructors,
    "tag:yaml.org,2002:timestamp": yaml.SafeLoader.construct_yaml_str,
}


# --- ConfigMaps -------------------------------------------------------------------------------------------------------


def _base64(text: str) -> str:
    base64.b64decode("".join(text.split()), validate=True)
    return text


#: A file's name, and never `.`, `..` or what begins with two dots, as Kubernetes has it.
_Key = Annotated[str, Field(pattern=r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]{0,251}$")]


class _Metadata(values.FrozenModel):
    model_config = ConfigDict(extra="ignore")

    name: str = Field(min_length=1)


class ConfigMap(values.FrozenModel):
    """Small files by their names."""

    api_version: Literal["v1"] = "v1"
    kind: Literal["ConfigMap"] = "ConfigMap"
    metadata: _Metadata
    data: Mapping[_Key, str] | None = None
    binary_data: Mapping[_Key, Annotated[str, AfterValidator(_base64)]] | None = None
    immutable: bool | None = None

    @property
    def name(self) -> str:
        return self.metadata.name

    def write(self, folder: Path) -> None:
        """The folder that a pod would see."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, text in (self.data or {}).items():
            (folder / key).write_bytes(text.encode())
        for key, text in (self.binary_data or {}).items():
            (folder / key).write_bytes(base64.b64decode(text))


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A GpuBenchmark of a file, or what each run of a schedule is."""

    name: str
    spec: GpuBenchmarkSpec
    document: Document
    path: tuple[str, ...] = ("spec",)  # of the spec, in the document

    def at(self, *steps: str | int) -> str:
        """Where something of the spec is, with file and line."""
        return self.document.at((*self.path, *steps))


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A GpuBenchmarkSchedule of a file."""

    name: str
    spec: GpuBenchmarkScheduleSpec
    document: Document

    def run(self, name: str) -> Benchmark:
        path = ("spec", "benchmarkTemplate", "spec")
        return Benchmark(name=name, spec=self.spec.benchmark_template.spec, document=self.document, path=path)


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """What a benchmark file, or a folder of such, holds."""

    path: Path
    text: str
    pools: tuple[GpuPool, ...]
    benchmarks: tuple[Benchmark, ...]
    schedules: tuple[Schedule, ...] = ()
    config_maps: tuple[ConfigMap, ...] = ()

    def schedule(self, name: str | None) -> Schedule | None:
        """The schedule that is meant; None where a benchmark is."""
        found = {schedule.name: schedule for schedule in self.schedules}
        if name is not None:
            return None if any(benchmark.name == name for benchmark in self.benchmarks) else found.get(name)
        if self.benchmarks or not found:
            return None
        if len(found) > 1:
            raise CliError(f"{self.path}: there are several schedules: choose one with --name ({', '.join(found)})")
        return self.schedules[0]

    def benchmark(self, name: str | None) -> Benchmark:
        """The one that is meant; CliError with the choice where that is not clear."""
        found = {benchmark.name: benchmark for benchmark in self.benchmarks}
        listed = ", ".join(found)
        if not found:
            there = f", but {names.SCHEDULE_KIND} {self.schedules[0].name}" if self.schedules else ""
            raise CliError(f"{self.path}: there is no {names.BENCHMARK_KIND} in this file{there}")
        if name is None and len(found) > 1:
            raise CliError(f"{self.path}: there are several benchmarks: choose one with --name ({listed})")
        if name is not None and name not in found:
            raise CliError(f"{self.path}: there is no benchmark {name!r} in this file, but {listed}")
        return found[name] if name is not None else self.benchmarks[0]


_SUFFIXES = (".yaml", ".yml", ".json")  # as kubectl takes them of a folder


def read(path: Path) -> StudyFile:
    """The objects of a file, or a CliError with what is wrong in it, line by line."""
    files = [path] if not path.is_dir() else sorted(one for one in path.iterdir() if one.suffix in _SUFFIXES)
    texts = {one: file_text(one) for one in files}
    if not (documents := [document for one, text in texts.items() for document in read_yaml(one, text)]):
        kind = "file" if files == [path] else f"folder's {', '.join(_SUFFIXES)}"
        raise CliError(f"{path}: the {kind} is empty: write a {names.BENCHMARK_KIND} and its {names.POOL_KIND}s")
    problems: list[str] = []
    objects: list[GpuPool | Benchmark | Schedule | ConfigMap] = []
    first: dict[tuple[type, str], Document] = {}
    for document in documents:
        try:
            found = _object(document)
        except validate.InvalidObject as error:
            problems += [f"{document.at(problem.path)}: {problem}" for problem in error.problems]
        except ValidationError as error:
            problems += [
                f"{document.at(one['loc'])}: {'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()
            ]
        except CliError as error:
            problems += error.args
        else:
            objects.append(found)
            if (before := first.setdefault((type(found), found.name), document)) is not document:
                problems.append(
                    f"{document.at(('metadata', 'name'))}: metadata.name: {found.name!r} is already the name of the "
                    f"object at {before.at()}: choose another one"
                )
    if problems:
        raise CliError(*problems)
    return StudyFile(
        path=path,
        text="\n---\n".join(texts.values()),
        pools=tuple(one for one in objects if isinstance(one, GpuPool)),
        benchmarks=tuple(one for one in objects if isinstance(one, Benchmark)),
        schedules=tuple(one for one in objects if isinstance(one, Schedule)),
        config_maps=tuple(one for one in objects if isinstance(one, ConfigMap)),
    )


def _object(document: Document) -> GpuPool | Benchmark | Schedule | ConfigMap:
    """What a document is; CliError, too, of a schedule that the operator would take and never run."""
    content = document.content
    if not isinstance(content, dict):
        raise CliError(f"{document.at()}: this is no Kubernetes object: it needs apiVersion, kind, metadata and spec")
    kind, version = content.get("kind"), content.get("apiVersion")
    if (kind, version) == ("ConfigMap", "v1"):
        return ConfigMap.model_validate(content, by_alias=True, by_name=False)
    if kind not in (names.POOL_KIND, names.BENCHMARK_KIND, names.SCHEDULE_KIND):
        found = f"kind {kind!r}" if kind is not None else "no kind"
        raise CliError(
            f"{document.at(('kind',))}: {found}: a benchmark file has {names.BENCHMARK_KIND}, {names.POOL_KIND}, "
            f"{names.SCHEDULE_KIND} and ConfigMap only"
        )
    if version != names.API_VERSION:
        raise CliError(
            f"{document.at(('apiVersion',))}: apiVersion is {version!r}: this gpubench reads {names.API_VERSION}"
        )
    if kind == names.POOL_KIND:
        return validate.load_pool(content)
    if kind == names.BENCHMARK_KIND:
        benchmark = validate.load_benchmark(content)
        return Benchmark(name=benchmark.name, spec=benchmark.spec, document=document)
    schedule = validate.load_schedule(content)
    try:
        cron.timetable(schedule.spec.schedule, time_zone=schedule.spec.time_zone)
    except cron.InvalidSchedule as error:
        field = "timeZone" if str(error).startswith("spec.timeZone") else "schedule"
        raise CliError(f"{document.at(('spec', field))}: {error}") from error
    return Schedule(name=schedule.name, spec=schedule.spec, document=document)


def refuse_missing_pools(benchmark: Benchmark, pools: Sequence[GpuPool]) -> None:
    missing = expand.missing_pools(benchmark.spec, pools)
    known = ", ".join(pool.name for pool in pools) or "none"
    problems = [
        f"{benchmark.at('sweep', index, 'pools', position)}: {'.'.join(benchmark.path)}.sweep[{index}].pools: there is "
        f"no {names.POOL_KIND} {pool!r} here (there is {known}): add it to the file, or give its file with --pools"
        for index, block in enumerate(benchmark.spec.sweep)
        for position, pool in enumerate(block.pools)
        if pool in missing
    ]
    if problems:
        raise CliError(*problems)


def given_pools(study_file: StudyFile, others: StudyFile | None) -> tuple[GpuPool, ...]:
    """Pools of the benchmark file and of --pools; a name in both is a contradiction."""
    if others is None:
        return study_file.pools
    if twice := {pool.name for pool in study_file.pools} & {pool.name for pool in others.pools}:
        raise CliError(
            f"{others.path}: {', '.join(sorted(twice))} stands in {study_file.path}, too: remove one of both"
        )
    return (*study_file.pools, *others.pools)


def as_study(benchmark: Benchmark, *, now: float) -> Study:
    """The benchmark as if an API server had just taken it."""
    return Study.of_spec(benchmark.spec, name=benchmark.name, uid=str(uuid.uuid4()), created_at=now)
