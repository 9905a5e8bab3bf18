# SPDX-License-Identifier: Apache-2.0
"""`gpubench import --format mlperf FOLDER`: result logs of MLPerf Training become results, of each system or together.

FOLDER holds SUBMITTER/results/SYSTEM/BENCHMARK/result_N.txt, or a part of that, beside SUBMITTER/systems/SYSTEM.json.
A system becomes a pool, a benchmark of MLPerf a workload, a log one run: lines `:::MLLOG {json}` with milliseconds
(https://github.com/mlcommons/logging). Training between two counts of samples is a window. Evaluations are outside,
where a log says when they begin. Must not happen: a figure of a log that is cut, of two runs, or of a clock that goes
back; a figure that does not say that MLCommons has not verified it.
"""

import hashlib
import itertools
import json
import math
import re
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpubench import names
from gpubench.stats import steady_state
from gpubench_cli import documents, results, terminal
from gpubench_cli.terminal import CliError

#: What MLCommons' Results Messaging Guidelines ask for beside a figure that is derived from its logs.
NOT_VERIFIED = "result not verified by MLCommons Association"

# --- one log ----------------------------------------------------------------------------------------------------------

#: Benchmarks whose quality is a loss; that of others is a share, or has a metric's name in the log.
_BY_LOSS = frozenset({"gpt3", "llama2_70b_lora", "llama31_8b", "llama31_405b", "flux1"})
#: Benchmarks that count in epochs, with the samples of one; None where train_samples says it. That of retinanet are
#: batches: MLPerf's part of OpenImages has so many images (mlcommons/training, single_stage_detector/README.md).
_EPOCHS = {"retinanet": 1_170_301, "rgat": None, "dlrm_dcnv2": None}
#: What says how many samples have been trained: while it trains, and when it stops.
_COUNTS, _ENDS = frozenset({"tracked_stats", "train_loss", "eval_accuracy"}), {"block_stop", "epoch_stop", "eval_start"}
#: Those columns of an import that logs fill.
_COLUMNS = (
    "workload", "pool", "global_batch", "precision", "repeat", "samples_per_second", "seconds",
    "evaluated_every_seconds", "evaluation_seconds", "evaluation_loss", "accuracy", "note",
)  # fmt: skip
_SIZES = ("number_of_nodes", "accelerators_per_node")
_POOL_MAX = 58  # of a name; a number may follow
_WORKERS_MAX = 4096  # of `api.rules.Workers`
_SLACK = 1000  # milliseconds: run_stop may be when a checkpoint was written, some before its block is said to end
_Windows = tuple[tuple[float, int], ...]  # seconds and samples


class Event(NamedTuple):
    """One record of a log."""

    line: int
    at: int  # milliseconds
    key: str
    value: Any
    metadata: Mapping[str, Any]


class Run(NamedTuple):
    """What one log says of its run, by the columns of an import where it has such; None is what it does not say."""

    workload: str
    division: str
    global_batch: int
    ended: int  # milliseconds since 1970
    seconds: float  # from run_start to run_stop
    windows: _Windows  # until run_stop
    counted: _Windows  # of them, those of the steady state
    settled: bool
    samples_per_second: float | None  # of the counted windows
    evaluated_every_seconds: float | None
    evaluation_seconds: float | None
    quality: Mapping[str, float]  # by metric, of the last evaluation that counts


def read_run(content: bytes, place: str) -> Run:
    """The run in the log that `place` names. CliError with one sentence where it has none, or more than one."""
    events = _events(content, place)
    start, stop = _only(events, "run_start", place), _only(events, "run_stop", place)
    if (status := stop.metadata.get("status")) != "success":
        raise CliError(f"{place}:{stop.line}: the run ended with status {status}: it has no time to its target")
    if stop.at <= start.at:
        raise CliError(f"{place}:{stop.line}: run_stop is {(start.at - stop.at) / 1e3:g} s before run_start")
    said = {event.key: event.value for event in events}
    benchmark, batch = said.get("submission_benchmark"), said.get("global_batch_size")
    if not isinstance(benchmark, str) or not isinstance(batch, int | float):
        raise CliError(f"{place}: submission_benchmark or global_batch_size is missing: what was trained?")
    epoch = (_EPOCHS[benchmark] or said.get("train_samples")) if benchmark in _EPOCHS else 1
    counted = [(event, _count(event, epoch)) for event in events if event.line > start.line]
    windows = _windows(counted, stop.at, place)
    warm = windows[1:] or windows  # the first one warms up, and no log says until when
    steady = steady_state.detect([seconds / samples for seconds, samples in warm])
    trained, done = warm[steady.first :], sum(samples for _, samples in windows)
    speed = sum(samples for _, samples in trained) / sum(seconds for seconds, _ in trained) if trained else None
    evaluations = [(event, count) for event, count in counted if event.key == "eval_accuracy"]
    # Some evaluate their checkpoints after the run, also those of after the target.
    last = max((count for _, count in evaluations if count <= (done or count)), default=None)
    every, apart = _step(one.at for one, _ in evaluations if one.at <= stop.at), _step(n for _, n in evaluations)
    begun, ended = ([event.at for event, _ in counted if event.key == key] for key in ("eval_start", "eval_stop"))
    metric = "evaluation_loss" if benchmark in _BY_LOSS else "accuracy"
    return Run(
        workload=benchmark,
        division=str(said.get("submission_division")),
        global_batch=int(batch),
        ended=stop.at,
        seconds=(stop.at - start.at) / 1e3,
        windows=windows,
        counted=trained,
        settled=steady.settled,
        samples_per_second=speed,  # all samples over all seconds, as of own measurements
        evaluated_every_seconds=every / 1e3 if every is not None else apart / speed if apart and speed else None,
        evaluation_seconds=sum(b - a for a, b in zip(begun, ended, strict=False) if b <= stop.at) / 1e3 or None,
        quality={event.metadata.get("metric", metric): event.value for event, count in evaluations if count == last},
    )


def _events(content: bytes, place: str) -> list[Event]:
    found: list[Event] = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        for part in line.split(b":::MLLOG")[1:]:
            try:
                record, _ = json.JSONDecoder().raw_decode(part.decode(errors="replace").lstrip())
                at, key, value = (record[name] for name in ("time_ms", "key", "value"))
                found.append(Event(number, int(at), key, value, record.get("metadata") or {}))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise CliError(f"{place}:{number}: the record is cut, or is no record of mllog") from error
    if not found:
        raise CliError(f"{place}: {'it has no line with :::MLLOG' if content.strip() else 'it is empty'}")
    return found


def _only(events: Sequence[Event], key: str, place: str) -> Event:
    if not (found := [event for event in events if event.key == key]):
        raise CliError(f"{place}:{events[-1].line}: it ends without {key}: it was cut, or its run came to no end")
    if len(found) > 1:
        raise CliError(f"{place}:{found[1].line}: {key} again, after line {found[0].line}: these are two runs")
    return found[0]


def _count(event: Event, epoch: float | None) -> int:
    """Samples trained so far, as a record says; 0 where it does not. An epoch has so many samples."""
    samples, epochs = event.metadata.get("samples_count"), event.metadata.get("epoch_num")
    if isinstance(samples, int | float):
        return round(samples)
    return round(epochs * epoch) if isinstance(epochs, int | float) and epoch is not None else 0


def _windows(counted: Iterable[tuple[Event, int]], stop: int, place: str) -> _Windows:
    """The windows until `stop`, in milliseconds. CliError where the clock goes back."""
    found: list[tuple[float, int]] = []
    begun: int | None = None  # since when it trains; None while it does not
    held: int | None = None  # end of a block whose samples only the beginning of the next one says
    done, last = 0, None
    for event, count in counted:
        starts = event.key in {"block_start", "epoch_start"} or (event.key == "eval_stop" and begun is None)
        counts = count > done if event.key in _COUNTS else event.key in _ENDS
        if not starts and (begun is None or not counts):
            continue
        if last is not None and event.at < last.at:
            back = (last.at - event.at) / 1e3
            raise CliError(f"{place}:{event.line}: the clock goes back by {back:g} s, behind line {last.line}")
        last, end = event, held if starts else event.at
        if begun is not None and end is not None and end > begun and count > done:
            found += [((end - begun) / 1e3, count - done)] if end <= stop + _SLACK else []
            begun, held, done = end, None, count
        elif event.key == "block_stop":
            held = event.at
        if starts or event.key == "eval_start":
            begun, held = event.at if starts else None, None
    return _alike(found)


def _alike(windows: Sequence[tuple[float, int]]) -> _Windows:
    """None is much shorter than most: steps that are left before an evaluation join the window before them."""
    usual = statistics.median([samples for _, samples in windows] or [0])
    found: list[tuple[float, int]] = []
    for seconds, samples in windows:
        before = found.pop() if found and samples < usual / 2 else (0.0, 0)
        found.append((before[0] + seconds, before[1] + samples))
    return tuple(found)


def _step(values: Iterable[int]) -> float | None:
    """From one value to the next, the median; None of fewer than two."""
    found = sorted(set(values))
    return statistics.median(after - before for before, after in itertools.pairwise(found)) if len(found) > 1 else None


# --- a system ---------------------------------------------------------------------------------------------------------


def read_facts(content: bytes, place: str, *numbers: str) -> Mapping[str, Any]:
    """A file of JSON in which these are numbers above zero. CliError where they are not."""
    try:
        facts = json.loads(content)
        found = {name: float(facts[name]) for name in numbers}
        if not all(0 < one < math.inf for one in found.values()):
            raise ValueError(f"they are {' and '.join(f'{one:g}' for one in found.values())}")
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(f"{place}: {' and '.join(numbers)} must be numbers above 0: {error}") from error
    return {**facts, **found}


class System(NamedTuple):
    """The runs of one system, by benchmark and by number."""

    folder: Path
    facts: Mapping[str, Any]
    runs: Mapping[str, Mapping[str, Run]]
    logs: Counter[str]  # by benchmark, with those that are no runs
    files: Mapping[str, bytes]  # by their path from the folder of submitters
    problems: tuple[str, ...]

    @property
    def accelerators(self) -> int:
        return int(self.facts["number_of_nodes"] * self.facts["accelerators_per_node"])

    @property
    def submitter(self) -> str:
        return self.folder.parents[1].name

    def note(self, benchmark: str, round_: str) -> str:
        """What a reader must know of it, the most important first: it is cut at the end."""
        runs = [*self.runs[benchmark].values()]
        bad = self.logs[benchmark] - len(runs)
        said = (
            f"{NOT_VERIFIED}; MLPerf Training {round_}, {runs[0].division}, {self.facts.get('status')}",
            f"{bad} of {self.logs[benchmark]} logs are no run" if bad else "",
            f"{n} of {len(runs)} runs never settled" if (n := sum(not run.settled for run in runs)) else "",
            ", ".join(f"{metric} {value:g}" for metric, value in runs[-1].quality.items() if metric in {"FID", "CLIP"}),
            f"{self.facts['number_of_nodes']:g} nodes of {self.facts['accelerators_per_node']:g}",
            *(str(self.facts.get(name) or "") for name in ("accelerator_interconnect", "host_networking", "framework")),
        )
        return "; ".join(" ".join(one.split()) for one in said if one)[:400]


def logs_by_system(logs: Iterable[Path]) -> dict[Path, list[Path]]:
    """By the folders of their systems, in their order."""
    return {folder: [*of] for folder, of in itertools.groupby(sorted(logs), key=lambda log: log.parents[1])}


def read_system(folder: Path, logs: Sequence[Path]) -> System:
    """A system's description, and the runs in these of its logs. CliError where there are none."""
    top, description = folder.parents[2], folder.parents[1] / "systems" / f"{folder.name}.json"
    described = str(description.relative_to(top))
    files = {str(file.relative_to(top)): results.content(file) for file in (description, *logs)}
    facts = read_facts(files[described], described, *_SIZES)
    if not all(facts[name].is_integer() for name in _SIZES):
        raise CliError(f"{described}: {' and '.join(_SIZES)} must be whole numbers")
    runs: dict[str, dict[str, Run]] = {}
    problems: list[str] = []
    for log in logs:
        place = str(log.relative_to(top))
        try:
            runs.setdefault(log.parent.name, {})[log.stem.removeprefix("result_")] = read_run(files[place], place)
        except CliError as bad:
            problems += bad.args
    if not any(runs.values()):
        raise CliError(*problems)
    return System(folder, facts, runs, Counter(log.parent.name for log in logs), files, tuple(problems))


def short_name(accelerator: str) -> str:
    """What a buyer calls it: `B200-SXM-180GB` of `NVIDIA Blackwell GPU (B200-SXM-180GB)`, `MI300X`."""
    inside = accelerator.partition("(")[2].rstrip(")") or accelerator.removeprefix("NVIDIA ")
    return inside if (of_amd := inside.removeprefix("AMD Instinct ")) == inside else of_amd.split(" ")[0]


class Made(NamedTuple):
    """What becomes of systems: a benchmark, what was measured of it, and the files that both are made of."""

    study: str
    measurements: str
    files: Mapping[str, bytes]


def make(systems: Sequence[System], round_: str, *, together: str = "") -> Made:
    """Of one system with all its benchmarks, or of several `together` in one benchmark, whose pools they are."""
    pools: dict[str, System] = {}
    for one in systems:
        size = f"{one.submitter}-{one.accelerators}x-{short_name(_model(one.facts))}"
        name = _name(size if together else one.folder.name, _POOL_MAX)
        numbers = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
        pools[next(one for one in numbers if one not in pools)] = one
    rows: list[dict[str, Any]] = []
    for pool, one in pools.items():
        for benchmark, found in one.runs.items():
            key = {"pool": pool, "note": one.note(benchmark, round_), "precision": "unknown"}
            for repeat, run in found.items():
                figures = {**key, "repeat": repeat, **run._asdict(), **run.quality}
                rows.append({name: figures[name] for name in _COLUMNS if figures.get(name) is not None})
    columns = [column for column in _COLUMNS if any(column in row for row in rows)]
    ended = max(run.ended for one in systems for found in one.runs.values() for run in found.values())
    submitters = ", ".join(dict.fromkeys(one.submitter for one in systems))
    of = f"{together} on {len(systems)} systems" if together else "/".join(systems[0].folder.parts[-3:])
    files = {name: content for one in systems for name, content in one.files.items()}
    heading = (
        f"# publisher: {textwrap.shorten(submitters, 80)}, MLPerf Training {round_} ({NOT_VERIFIED})\n"
        f"# source: result logs of {of}, github.com/mlcommons/training_results_{round_}\n"
        f"# published: {datetime.fromtimestamp(ended / 1e3, UTC):%Y-%m}\n"  # prices are those of when it ran
        f"# round: {round_}\n"
    )
    heading += f"# together: {together}\n" if together else ""
    heading += "".join(f"# file: {hashlib.sha256(content).hexdigest()} {name}\n" for name, content in files.items())
    return Made(
        _study(pools, f"mlperf-{together or next(iter(pools))}"), heading + terminal.csv_text(columns, rows), files
    )


def _name(text: str, longest: int) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:longest].strip("-.")


def _model(facts: Mapping[str, Any]) -> str:
    return str(facts.get("accelerator_model_name")).encode("ascii", "ignore").decode().strip() or "unknown"


def _study(pools: Mapping[str, System], title: str) -> str:
    """The benchmark that the logs are results of. Nothing of it can be run here: its programs are the submitters'."""
    common: dict[str, Any] = {"workloads": ["Custom"], "precision": ["unknown"]}
    common |= {"data": {"source": "Volume", "path": "/data"}, "epochs": 1}  # the training to the target, as a whole
    places, sweep = list[tuple[str, str, dict[str, Any]]](), list[dict[str, Any]]()
    for pool, one in pools.items():
        nodes, slots = (int(one.facts[name]) for name in _SIZES)
        model = _model(one.facts)
        if nodes * slots > _WORKERS_MAX:  # a worker is a node then
            slots, model = 1, f"{slots}x {model}"
        maker = "amd.com/gpu" if re.search(r"AMD|MI\d", model) else "nvidia.com/gpu"
        # What could be run here has bounds that what was run there had not.
        place = {
            "accelerator": model[:63],
            "slotsPerNode": slots,
            "maxNodes": min(nodes, names.NODES_MAX),
            "slot": {"gpuResource": "google.com/tpu" if "TPU" in model else maker, "cpu": "1", "memory": "1Gi"},
        }
        places.append((names.POOL_KIND, pool, place))
        runs = (run for found in one.runs.values() for run in found.values())
        for name, batch in dict.fromkeys((run.workload, run.global_batch) for run in runs):
            custom = {"name": name, "command": [f"mlperf-{name}"]}
            own = {"pools": [pool], "workers": [nodes * slots], "globalBatch": [batch], "custom": custom}
            sweep.append(common | own)
    title = _name(title.replace(".", "-").replace("_", "-"), names.BENCHMARK_NAME_MAX)
    objects = (*places, (names.BENCHMARK_KIND, title, {"measure": {"mode": "Training"}, "sweep": sweep}))
    return yaml.safe_dump_all((documents.as_object(kind, name, spec) for kind, name, spec in objects), sort_keys=False)


def differences(path: Path) -> list[str]:
    """What of a results folder is not as the logs in it say; nothing of one without any."""
    text, copies = documents.file_text(path / results.MEASUREMENTS), path / results.COPIES
    for digest, name in re.findall(r"^# file: (\w+) (.+)$", text, re.MULTILINE):
        if not (copies / name).is_file() or results.digest(copies / name) != digest:
            return [f"{results.COPIES}/{name}: it is missing, or not the file that was imported"]
    if not copies.is_dir():
        return []
    said = dict(re.findall(r"^# (round|together): (.+)$", text, re.MULTILINE))
    logs = logs_by_system(copies.glob("*/results/*/*/result_*.txt"))
    systems = [read_system(*one) for one in logs.items()]
    is_same = make(systems, said["round"], together=said.get("together", "")).measurements == text
    return [] if is_same else [f"{results.MEASUREMENTS}: its figures are not those of the logs in {results.COPIES}/"]
