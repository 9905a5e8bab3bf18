# SPDX-License-Identifier: Apache-2.0
"""Study files: GpuPools, GpuBenchmarks, GpuBenchmarkSchedules and the ConfigMaps that they mount, in YAML.

Validated once, each complaint with the line it is about.

Must not happen: a file is taken in part. Anything in it that is not understood refuses the whole of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpubench import names
from gpubench.api import structure, validate
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import GpuBenchmarkScheduleSpec
from gpubench.schedule import cron
from gpubench_cli import config_maps, yaml_text
from gpubench_cli.config_maps import ConfigMap
from gpubench_cli.refusal import Refusal
from gpubench_cli.yaml_text import Document

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
            raise Refusal(f"{self.path}: there are several schedules: choose one with --name ({', '.join(found)})")
        return self.schedules[0]

    def benchmark(self, name: str | None) -> Benchmark:
        """The one that is meant; Refusal with the choice where that is not clear."""
        found = {benchmark.name: benchmark for benchmark in self.benchmarks}
        listed = ", ".join(found)
        if not found:
            there = f", but {names.SCHEDULE_KIND} {self.schedules[0].name}" if self.schedules else ""
            raise Refusal(f"{self.path}: there is no {names.BENCHMARK_KIND} in this file{there}")
        if name is None and len(found) > 1:
            raise Refusal(f"{self.path}: there are several benchmarks: choose one with --name ({listed})")
        if name is not None and name not in found:
            raise Refusal(f"{self.path}: there is no benchmark {name!r} in this file, but {listed}")
        return found[name] if name is not None else self.benchmarks[0]


def read(path: Path) -> StudyFile:
    """A study file, or a Refusal with what is wrong in it, line by line."""
    documents = yaml_text.read(path)
    if not documents:
        raise Refusal(f"{path}: the file is empty: write a {names.BENCHMARK_KIND} and its {names.POOL_KIND}s")
    problems: list[str] = []
    pools: list[tuple[GpuPool, Document]] = []
    benchmarks: list[Benchmark] = []
    schedules: list[Schedule] = []
    found_maps: list[tuple[ConfigMap, Document]] = []
    for document in documents:
        try:
            match _kind(document):
                case names.POOL_KIND:
                    pools.append((validate.load_pool(document.content), document))
                case names.BENCHMARK_KIND:
                    benchmarks.append(_benchmark(document))
                case names.SCHEDULE_KIND:
                    schedules.append(_schedule(document))
                case config_maps.KIND:
                    found_maps.append((config_maps.read(document), document))
        except validate.InvalidObject as error:
            problems += [_problem_text(document, problem) for problem in error.problems]
        except Refusal as error:
            problems += error.sentences
    problems += _given_twice((pool.name, document) for pool, document in pools)
    problems += _given_twice((benchmark.name, benchmark.document) for benchmark in benchmarks)
    problems += _given_twice((schedule.name, schedule.document) for schedule in schedules)
    problems += _given_twice((config_map.name, document) for config_map, document in found_maps)
    if problems:
        raise Refusal(*_shortened(problems))
    return StudyFile(
        path=path,
        pools=tuple(pool for pool, _ in pools),
        benchmarks=tuple(benchmarks),
        schedules=tuple(schedules),
        config_maps=tuple(config_map for config_map, _ in found_maps),
    )


def missing_pools(benchmark: Benchmark, pools: Iterable[GpuPool]) -> tuple[str, ...]:
    """Pools that a benchmark names and nobody has given."""
    known = {pool.name for pool in pools}
    return tuple(dict.fromkeys(name for block in benchmark.spec.sweep for name in block.pools if name not in known))


def refuse_missing_pools(benchmark: Benchmark, pools: Sequence[GpuPool]) -> None:
    """Refusal where a pool is named that nobody has given."""
    known = ", ".join(pool.name for pool in pools) or "none"
    sentences = [
        f"{benchmark.at('sweep', index, 'pools', position)}: {benchmark.field}.sweep[{index}].pools: there is no "
        f"{names.POOL_KIND} {pool!r} here (there is {known}): add it to the file, or give its file with --pools"
        for index, block in enumerate(benchmark.spec.sweep)
        for position, pool in enumerate(block.pools)
        if pool in missing_pools(benchmark, pools)
    ]
    if sentences:
        raise Refusal(*_shortened(sentences))


def _benchmark(document: Document) -> Benchmark:
    loaded = validate.load_benchmark(document.content)
    return Benchmark(name=loaded.name, spec=loaded.spec, document=document)


def _schedule(document: Document) -> Schedule:
    """The schedule of a document; Refusal, too, where the operator would take it and never run it."""
    loaded = validate.load_schedule(document.content)
    try:
        cron.timetable(loaded.spec.schedule, time_zone=loaded.spec.time_zone)
    except cron.InvalidSchedule as error:
        field = "timeZone" if str(error).startswith("spec.timeZone") else "schedule"
        raise Refusal(f"{document.at(('spec', field))}: {error}") from error
    return Schedule(name=loaded.name, spec=loaded.spec, document=document)


def _kind(document: Document) -> str:
    """The kind of a document that is one of ours; Refusal of every other."""
    content = document.content
    if not isinstance(content, dict):
        raise Refusal(f"{document.at()}: this is no Kubernetes object: it needs apiVersion, kind, metadata and spec")
    kind, version = content.get("kind"), content.get("apiVersion")
    if (kind, version) == (config_maps.KIND, config_maps.API_VERSION):
        return config_maps.KIND
    if kind not in (names.POOL_KIND, names.BENCHMARK_KIND, names.SCHEDULE_KIND):
        found = f"kind {kind!r}" if kind is not None else "no kind"
        raise Refusal(
            f"{document.at(('kind',))}: {found}: a study file holds {names.BENCHMARK_KIND}, {names.POOL_KIND}, "
            f"{names.SCHEDULE_KIND} and {config_maps.KIND} only"
        )
    if version != names.API_VERSION:
        raise Refusal(
            f"{document.at(('apiVersion',))}: apiVersion is {version!r}: this gpubench reads {names.API_VERSION}"
        )
    return str(kind)


def _problem_text(document: Document, problem: structure.Problem) -> str:
    return f"{document.at(problem.path)}: {problem}"


def _given_twice(named: Iterable[tuple[str, Document]]) -> list[str]:
    first: dict[str, Document] = {}
    problems = []
    for name, document in named:
        if name in first:
            problems.append(
                f"{document.at(('metadata', 'name'))}: metadata.name: {name!r} is already the name of the object that "
                f"begins in line {first[name].line()}: choose another one"
            )
        first.setdefault(name, document)
    return problems


def _shortened(problems: Sequence[str]) -> list[str]:
    shown = list(problems[:_PROBLEMS_SHOWN])
    if len(problems) > len(shown):
        shown.append(f"... and {len(problems) - len(shown)} more")
    return shown
