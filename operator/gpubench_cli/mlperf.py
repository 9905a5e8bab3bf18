# SPDX-License-Identifier: Apache-2.0
"""`gpubench import --format mlperf FOLDER`: result logs of MLPerf Training become results folders, one of each system.

FOLDER holds SUBMITTER/results/SYSTEM/BENCHMARK/result_N.txt, or a part of that, beside SUBMITTER/systems/SYSTEM.json.
A system becomes a pool, a benchmark of MLPerf a workload, a log one run: lines `:::MLLOG {json}` with milliseconds
(https://github.com/mlcommons/logging). Training between two counts of samples is a window. Evaluations are outside,
where a log says when they begin. Must not happen: a figure of a log that is cut, of two runs, or of a clock that goes
back; a figure that does not say that MLCommons has not verified it.
"""

import hashlib
import json
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
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
    steady = steady_state.detect([seconds / samples for seconds, samples in windows])
    trained, done = windows[steady.first :], sum(samples for _, samples in windows)
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
    found = [event for event in events if event.key == key]
    if not found:
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
    return statistics.median(after - before for before, after in pairwise(found)) if len(found) > 1 else None


# --- a system ---------------------------------------------------------------------------------------------------------


def read_facts(content: bytes, place: str, *numbers: str) -> Mapping[str, Any]:
    """A file of JSON in which these are numbers. CliError where they are not."""
    try:
        return {**(facts := json.loads(content)), **{name: float(facts[name]) for name in numbers}}
    except (ValueError, KeyError, TypeError) as error:
        raise CliError(f"{place}: {' and '.join(numbers)} must be numbers: {error}") from error


def _note(system: Mapping[str, Any], runs: Sequence[Run], logs: int, round_: str) -> str:
    """What a reader must know of a benchmark on a system, the most important first: it is cut at the end."""
    said = (
        f"{NOT_VERIFIED}; MLPerf Training {round_}, {runs[0].division}, {system.get('status')}",
        f"{logs - len(runs)} of {logs} logs are no run" if logs > len(runs) else "",
        f"{n} of {len(runs)} runs never settled" if (n := sum(not run.settled for run in runs)) else "",
        ", ".join(f"{metric} {value:g}" for metric, value in runs[-1].quality.items() if metric in {"FID", "CLIP"}),
        f"{system['number_of_nodes']:g} nodes of {system['accelerators_per_node']:g}",
        *(str(system.get(name) or "") for name in ("accelerator_interconnect", "host_networking", "framework")),
    )
    return "; ".join(" ".join(one.split()) for one in said if one)[:400]


def make(system: Path, round_: str) -> tuple[str, str, Mapping[str, bytes], tuple[str, ...]]:
    """Benchmark, measurements, the files that they are made of, and what is wrong with logs; CliError where all are."""
    top, description = system.parents[2], system.parents[1] / "systems" / f"{system.name}.json"
    logs = sorted(system.glob("*/result_*.txt"))
    described = str(description.relative_to(top))
    files = {str(file.relative_to(top)): results.content(file) for file in (description, *logs)}
    facts = read_facts(files[described], described, "number_of_nodes", "accelerators_per_node")
    runs: dict[str, dict[str, Run]] = {}
    problems: list[str] = []
    for log in logs:
        place = str(log.relative_to(top))
        try:
            runs.setdefault(log.parent.name, {})[log.stem.removeprefix("result_")] = read_run(files[place], place)
        except CliError as bad:
            problems += bad.messages
    if not any(runs.values()):
        raise CliError(*problems)
    pool, rows = _name(system.name, 63), list[dict[str, str]]()
    for benchmark, found in runs.items():
        note = _note(facts, tuple(found.values()), sum(log.parent.name == benchmark for log in logs), round_)
        key = {"pool": pool, "note": note, "precision": "unknown"}
        for repeat, one in found.items():
            figures = {**key, "repeat": repeat, **one._asdict(), **one.quality}
            rows.append({name: str(figures[name]) for name in _COLUMNS if figures.get(name) is not None})
    ended = max(one.ended for found in runs.values() for one in found.values())
    heading = (
        f"# publisher: {system.parents[1].name}, MLPerf Training {round_} ({NOT_VERIFIED})\n"
        f"# source: result logs of {system.relative_to(top)}, github.com/mlcommons/training_results_{round_}\n"
        f"# published: {datetime.fromtimestamp(ended / 1e3, UTC):%Y-%m}\n"  # prices are those of when it ran
        f"# round: {round_}\n"
    )
    heading += "".join(f"# file: {hashlib.sha256(file).hexdigest()} {name}\n" for name, file in files.items())
    columns = [column for column in _COLUMNS if any(column in row for row in rows)]
    study = _study(pool, facts, dict.fromkeys((row["workload"], int(row["global_batch"])) for row in rows))
    return study, heading + terminal.csv_text(columns, rows), files, tuple(problems)


def _name(text: str, longest: int) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower())[:longest].strip("-.")


def _study(pool: str, system: Mapping[str, Any], entries: Iterable[tuple[str, int]]) -> str:
    """The benchmark that the logs are results of. Nothing of it can be run here: its programs are the submitter's."""
    nodes, slots = int(system["number_of_nodes"]), int(system["accelerators_per_node"])
    model = str(system.get("accelerator_model_name") or "unknown").encode("ascii", "ignore").decode()
    if nodes * slots > _WORKERS_MAX:  # a worker is a node then
        slots, model = 1, f"{slots}x {model}"
    maker = "google.com/tpu" if "TPU" in model else "amd.com/gpu" if re.search(r"AMD|MI\d", model) else "nvidia.com/gpu"
    slot = {"gpuResource": maker, "cpu": "1", "memory": "1Gi"}
    # What could be run here has bounds that what was run there had not.
    place = {"accelerator": model[:63], "slotsPerNode": slots, "maxNodes": min(nodes, names.NODES_MAX), "slot": slot}
    common = {"workloads": ["Custom"], "pools": [pool], "workers": [nodes * slots], "precision": ["unknown"]}
    common |= {"data": {"source": "Volume", "path": "/data"}, "epochs": 1}  # the training to the target, as a whole
    of_its_own = ((batch, {"name": name, "command": [f"mlperf-{name}"]}) for name, batch in entries)
    sweep = [{**common, "globalBatch": [batch], "custom": custom} for batch, custom in of_its_own]
    spec = {"measure": {"mode": "Training"}, "sweep": sweep}
    title = _name(f"mlperf-{pool}".replace(".", "-"), names.BENCHMARK_NAME_MAX)
    objects = ((names.POOL_KIND, pool, place), (names.BENCHMARK_KIND, title, spec))
    wire = [{"apiVersion": names.API_VERSION, "kind": k, "metadata": {"name": n}, "spec": s} for k, n, s in objects]
    return yaml.safe_dump_all(wire, sort_keys=False)


def differences(path: Path) -> list[str]:
    """What of a results folder is not as the logs in it say; nothing of one without any."""
    text, copies = documents.file_text(path / results.MEASUREMENTS), path / results.COPIES
    for digest, name in re.findall(r"^# file: (\w+) (.+)$", text, re.MULTILINE):
        if not (copies / name).is_file() or results.digest(copies / name) != digest:
            return [f"{results.COPIES}/{name}: it is missing, or not the file that was imported"]
    if not copies.is_dir():
        return []
    round_, (system, *_) = "".join(re.findall(r"^# round: (.+)$", text, re.MULTILINE)), copies.glob("*/results/*")
    is_same = make(system, round_)[1] == text
    return [] if is_same else [f"{results.MEASUREMENTS}: its figures are not those of the logs in {results.COPIES}/"]
