# SPDX-License-Identifier: Apache-2.0
"""Study files: GpuPools, GpuBenchmarks, GpuBenchmarkSchedules and the ConfigMaps that they mount, in YAML.

Values are read as `kubectl apply` would read them, validated once, each complaint with the line it is about.

Must not happen: a file is taken in part (anything in it that is not understood refuses the whole of it); a key that is
given twice is silently taken once; a date that is not in quotes becomes something that the API server would never see
(kubectl reads `2026-11-01` as text); the library fails in another way than with an error that has a place in the file.
"""

import base64
import binascii
import re
import reprlib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpubench import names
from gpubench.api import validate
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import GpuBenchmarkScheduleSpec
from gpubench.schedule import cron
from gpubench_cli.terminal import CliError

# --- YAML with its lines ----------------------------------------------------------------------------------------------


_DEPTH_MAX = 100  # objects of Kubernetes stay below twenty; at some hundreds the interpreter's stack ends

#: A field's place in a document: keys and list indices, as in `("spec", "sweep", 0, "workers")`.
FieldPath = tuple[str | int, ...]


class Document:
    """One document of a file: its content, and the line of each field."""

    def __init__(self, *, source: str, root: yaml.Node, content: Any) -> None:
        self.source = source
        self.content = content
        self._root = root

    def line(self, path: Sequence[str | int] = ()) -> int:
        """The line of a field, counted from 1; of the nearest enclosing field where it does not exist."""
        node, line = self._root, self._root.start_mark.line
        for step in path:
            found = _step(node, step)
            if found is None:
                break
            node, line = found
        return int(line) + 1

    def at(self, path: Sequence[str | int] = ()) -> str:
        """`file.yaml:23`, for the beginning of a sentence."""
        return f"{self.source}:{self.line(path)}"


def read_yaml(path: Path) -> list[Document]:
    """The documents of a file that are not empty."""
    text = _file_text(path)
    loader = _Loader(text)
    loader.name = str(path)
    documents: list[Document] = []
    try:
        while loader.check_node():
            root = loader.get_node()
            assert root is not None
            content = loader.construct_document(root)
            if content is not None:
                documents.append(Document(source=str(path), root=root, content=content))
    except yaml.MarkedYAMLError as error:
        raise CliError(_marked(path, error)) from error
    except yaml.YAMLError as error:
        raise CliError(f"{path}: this is not YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()
    return documents


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CliError(f"{path}: there is no such file") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: this is not a text file in UTF-8 (byte {error.start})") from error
    except OSError as error:
        raise CliError(f"{path}: the file cannot be read: {error.strerror}") from error


def _marked(path: Path, error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
    problem = error.problem or error.context or "cannot be read"
    context = f" ({error.context})" if error.context and error.problem else ""
    return f"{where}: this is not valid YAML: {problem}{context}"


def _step(node: yaml.Node, step: str | int) -> tuple[yaml.Node, int] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value, key.start_mark.line
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step], node.value[step].start_mark.line
    return None


class _Refused(yaml.MarkedYAMLError):
    """What YAML allows, or the library fails at, and no study file may have."""


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


def _as_text(loader: yaml.SafeLoader, node: yaml.Node) -> str:
    assert isinstance(node, yaml.ScalarNode)
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _as_text)


# --- ConfigMaps -------------------------------------------------------------------------------------------------------


CONFIG_MAP_KIND = "ConfigMap"
CONFIG_MAP_VERSION = "v1"
_CONFIG_MAP_FIELDS = frozenset({"apiVersion", "kind", "metadata", "data", "binaryData", "immutable"})
_CONFIG_MAP_KEY = re.compile(r"^[-._a-zA-Z0-9]{1,253}$")


@dataclass(frozen=True, kw_only=True)
class ConfigMap:
    """Small files by their names."""

    name: str
    files: tuple[tuple[str, bytes], ...]

    def write(self, folder: Path) -> None:
        """The folder that a pod would see."""
        folder.mkdir(parents=True, exist_ok=True)
        for key, content in self.files:
            (folder / key).write_bytes(content)

    def document(self) -> dict[str, Any]:
        """The object as `kubectl apply` takes it."""
        sections: dict[str, dict[str, str]] = {}
        for key, content in self.files:
            try:
                sections.setdefault("data", {})[key] = content.decode()
            except UnicodeDecodeError:
                sections.setdefault("binaryData", {})[key] = base64.b64encode(content).decode()
        return {"apiVersion": CONFIG_MAP_VERSION, "kind": CONFIG_MAP_KIND, "metadata": {"name": self.name}, **sections}


def _read_config_map(document: Document) -> ConfigMap:
    """The ConfigMap of a document, or a CliError with everything that is wrong with it."""
    content: dict[str, Any] = document.content
    problems = [
        _problem(document, (field,), "unknown field: remove it") for field in content if field not in _CONFIG_MAP_FIELDS
    ]
    metadata = content.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        problems.append(_problem(document, ("metadata", "name"), "a ConfigMap needs a name"))
    files: dict[str, bytes] = {}
    for section, decode in (("data", _text), ("binaryData", _binary)):
        entries = content.get(section) or {}
        if not isinstance(entries, dict):
            problems.append(_problem(document, (section,), "write keys and their texts"))
            continue
        for key, value in entries.items():
            found = decode(value)
            if not _CONFIG_MAP_KEY.match(str(key)) or str(key) in (".", ".."):
                problems.append(_problem(document, (section, str(key)), "a key is a file's name: letters, digits, -._"))
            elif found is None:
                what = "text: write | and the lines below it" if section == "data" else "base64"
                problems.append(_problem(document, (section, str(key)), f"the value is not {what}"))
            else:
                files[str(key)] = found
    if problems:
        raise CliError(*problems)
    return ConfigMap(name=str(name), files=tuple(files.items()))


def _text(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else None


def _binary(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except binascii.Error:
        return None


def _problem(document: Document, path: FieldPath, message: str) -> str:
    return f"{document.at(path)}: {'.'.join(map(str, path))}: {message}"


# --- files ------------------------------------------------------------------------------------------------------------


_PROBLEMS_SHOWN = 10
_OF_TEMPLATE = ("spec", "benchmarkTemplate", "spec")


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """A GpuBenchmark of a file, or what each run of a schedule is."""

    name: str
    spec: GpuBenchmarkSpec
    document: Document
    path: tuple[str, ...] = ("spec",)  # of the spec, in the document

    def at(self, *steps: str | int) -> str:
        """Where something of the spec stands, with file and line."""
        return self.document.at((*self.path, *steps))

    @property
    def field(self) -> str:
        """The spec, as people write it."""
        return ".".join(self.path)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A GpuBenchmarkSchedule of a file."""

    name: str
    spec: GpuBenchmarkScheduleSpec
    document: Document

    def run(self, name: str) -> Benchmark:
        """The benchmark that a run is."""
        return Benchmark(name=name, spec=self.spec.benchmark_template.spec, document=self.document, path=_OF_TEMPLATE)


@dataclass(frozen=True, kw_only=True)
class StudyFile:
    """What a study file holds."""

    path: Path
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


def read(path: Path) -> StudyFile:
    """A study file, or a CliError with what is wrong in it, line by line."""
    documents = read_yaml(path)
    if not documents:
        raise CliError(f"{path}: the file is empty: write a {names.BENCHMARK_KIND} and its {names.POOL_KIND}s")
    problems: list[str] = []
    pools: list[GpuPool] = []
    benchmarks: list[Benchmark] = []
    schedules: list[Schedule] = []
    config_maps: list[ConfigMap] = []
    first: dict[tuple[str, str], Document] = {}
    for document in documents:
        try:
            match kind := _kind(document):
                case names.POOL_KIND:
                    pools.append(validate.load_pool(document.content))
                    name = pools[-1].name
                case names.BENCHMARK_KIND:
                    loaded = validate.load_benchmark(document.content)
                    benchmarks.append(Benchmark(name=loaded.name, spec=loaded.spec, document=document))
                    name = loaded.name
                case names.SCHEDULE_KIND:
                    schedules.append(_schedule(document))
                    name = schedules[-1].name
                case _:
                    config_maps.append(_read_config_map(document))
                    name = config_maps[-1].name
        except validate.InvalidObject as error:
            problems += [f"{document.at(problem.path)}: {problem}" for problem in error.problems]
        except CliError as error:
            problems += error.messages
        else:
            before = first.setdefault((kind, name), document)
            if before is not document:
                problems.append(
                    f"{document.at(('metadata', 'name'))}: metadata.name: {name!r} is already the name of the object "
                    f"that begins in line {before.line()}: choose another one"
                )
    if problems:
        raise CliError(*_shortened(problems))
    return StudyFile(
        path=path,
        pools=tuple(pools),
        benchmarks=tuple(benchmarks),
        schedules=tuple(schedules),
        config_maps=tuple(config_maps),
    )


def missing_pools(benchmark: Benchmark, pools: Iterable[GpuPool]) -> tuple[str, ...]:
    """Pools that a benchmark names and nobody has given."""
    known = {pool.name for pool in pools}
    return tuple(dict.fromkeys(name for block in benchmark.spec.sweep for name in block.pools if name not in known))


def refuse_missing_pools(benchmark: Benchmark, pools: Sequence[GpuPool]) -> None:
    """CliError where a pool is named that nobody has given."""
    missing = missing_pools(benchmark, pools)
    known = ", ".join(pool.name for pool in pools) or "none"
    problems = [
        f"{benchmark.at('sweep', index, 'pools', position)}: {benchmark.field}.sweep[{index}].pools: there is no "
        f"{names.POOL_KIND} {pool!r} here (there is {known}): add it to the file, or give its file with --pools"
        for index, block in enumerate(benchmark.spec.sweep)
        for position, pool in enumerate(block.pools)
        if pool in missing
    ]
    if problems:
        raise CliError(*_shortened(problems))


def _schedule(document: Document) -> Schedule:
    """The schedule of a document; CliError, too, where the operator would take it and never run it."""
    loaded = validate.load_schedule(document.content)
    try:
        cron.timetable(loaded.spec.schedule, time_zone=loaded.spec.time_zone)
    except cron.InvalidSchedule as error:
        field = "timeZone" if str(error).startswith("spec.timeZone") else "schedule"
        raise CliError(f"{document.at(('spec', field))}: {error}") from error
    return Schedule(name=loaded.name, spec=loaded.spec, document=document)


def _kind(document: Document) -> str:
    """The kind of a document that is one of ours; CliError of every other."""
    content = document.content
    if not isinstance(content, dict):
        raise CliError(f"{document.at()}: this is no Kubernetes object: it needs apiVersion, kind, metadata and spec")
    kind, version = content.get("kind"), content.get("apiVersion")
    if (kind, version) == (CONFIG_MAP_KIND, CONFIG_MAP_VERSION):
        return CONFIG_MAP_KIND
    if kind not in (names.POOL_KIND, names.BENCHMARK_KIND, names.SCHEDULE_KIND):
        found = f"kind {kind!r}" if kind is not None else "no kind"
        raise CliError(
            f"{document.at(('kind',))}: {found}: a study file holds {names.BENCHMARK_KIND}, {names.POOL_KIND}, "
            f"{names.SCHEDULE_KIND} and {CONFIG_MAP_KIND} only"
        )
    if version != names.API_VERSION:
        raise CliError(
            f"{document.at(('apiVersion',))}: apiVersion is {version!r}: this gpubench reads {names.API_VERSION}"
        )
    return str(kind)


def _shortened(problems: Sequence[str]) -> list[str]:
    shown = list(problems[:_PROBLEMS_SHOWN])
    if len(problems) > len(shown):
        shown.append(f"... and {len(problems) - len(shown)} more")
    return shown
