# SPDX-License-Identifier: Apache-2.0
"""Writes mlperf_runs.csv, mlperf_left_out.csv and mlperf_entries.csv: what the result logs of MLPerf Training say.

    python tests/benchmarks/mlperf_index.py DIR... [--workers 2]

Each DIR is a git directory of mlcommons/training_results_VERSION, in a folder that is called so. Logs are read as
`gpubench import --format mlperf` reads them. A log that is no run is in mlperf_left_out.csv, with the sentence why not.

mlperf_entries.csv has the runs of a benchmark on a system together: minutes by MLPerf's rules, the runs' median, and
their mean with gpubench's interval; samples per second in the steady state, with theirs. Variation is the standard
deviation over the mean: `spread` that of the windows of a run, the others that of the runs.
"""

import argparse
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import mlperf_rules
from gpubench.stats import intervals
from gpubench_cli import mlperf, terminal

FOLDER = Path(__file__).parent
RUNS, LEFT_OUT, ENTRIES = (FOLDER / f"mlperf_{name}.csv" for name in ("runs", "left_out", "entries"))
ENTRY = ("round", "submitter", "system", "benchmark")
OF_A_RUN = (
    "round", "submitter", "system", "accelerator", "accelerators", "nodes", "benchmark", "division", "status",
    "scaling", "global_batch", "samples", "seconds", "windows", "settled", "samples_per_second", "spread",
    "evaluated_every_seconds", "quality", "path",
)  # fmt: skip
OF_AN_ENTRY = (
    *ENTRY, "accelerator", "accelerators", "runs", "left_out", "scaling", "minutes", "median_minutes", "mean_minutes",
    "mean_low", "mean_high", "minutes_variation", "samples_per_second", "rate_low", "rate_high", "rate_variation",
)  # fmt: skip
_LOG = re.compile(r"[^/]+/results/[^/]+/[^/]+/result_\d+\.txt")


class Log(NamedTuple):
    """A log in a repository."""

    directory: Path
    round: str
    path: str

    @property
    def entry(self) -> dict[str, str]:
        submitter, _, system, benchmark, _ = PurePosixPath(self.path).parts
        return dict(zip(ENTRY, (self.round, submitter, system, benchmark), strict=True))


def git(directory: Path, *arguments: str) -> bytes | None:
    done = subprocess.run(["git", f"--git-dir={directory}", *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


@cache
def blob(directory: Path, path: str) -> bytes | None:
    """A description or a factor, which many logs share."""
    return git(directory, "cat-file", "blob", f"HEAD:{path}")


def read(log: Log) -> dict[str, str]:
    """A row of the table, or one with the sentence why there is none."""
    own = log.entry
    description = f"{own['submitter']}/systems/{own['system']}.json"
    factor = str(PurePosixPath(log.path).with_name("scaling.json"))
    content, system, scaling = (
        git(log.directory, "cat-file", "blob", f"HEAD:{log.path}"),
        *(blob(log.directory, path) for path in (description, factor)),
    )
    try:
        if content is None:
            raise terminal.CliError(f"{log.path}: the copy of the repository does not have it: it is larger than 4 MiB")
        run = mlperf.read_run(content, log.path)
        if system is None:
            raise terminal.CliError(f"{description}: it is missing: how many accelerators has the system?")
        facts = mlperf.read_facts(system, description, "number_of_nodes", "accelerators_per_node")
        scaled = 1.0 if scaling is None else mlperf.read_facts(scaling, factor, "scaling_factor")["scaling_factor"]
    except terminal.CliError as error:
        return {**own, "path": log.path, "why": str(error)}
    figures = {
        "accelerators": facts["number_of_nodes"] * facts["accelerators_per_node"],
        "nodes": facts["number_of_nodes"],
        "samples_per_second": run.samples_per_second,
        "spread": variation([seconds / samples for seconds, samples in run.counted]),
        "evaluated_every_seconds": run.evaluated_every_seconds,
    }
    return {
        **own,
        "accelerator": " ".join(str(facts.get("accelerator_model_name")).split()),
        "division": run.division,
        "status": str(facts.get("status")),
        "scaling": repr(scaled),
        "global_batch": str(run.global_batch),
        "samples": str(sum(samples for _, samples in run.windows) or ""),
        "seconds": f"{run.seconds:.3f}",
        "windows": str(len(run.windows)),
        "settled": "yes" if run.settled else "no",
        "quality": ", ".join(f"{metric} {value:.6g}" for metric, value in run.quality.items()),
        "path": log.path,
        **{name: "" if value is None else f"{value:.6g}" for name, value in figures.items()},
    }


def logs_of(directory: Path) -> list[Log]:
    (round_,) = re.findall(r"training_results_(v\d+\.\d+)", str(directory.resolve()))
    listed = (git(directory, "ls-tree", "-r", "--name-only", "HEAD") or b"").decode().splitlines()
    return [Log(directory, round_, path) for path in listed if _LOG.fullmatch(path)]


def entries(runs: Iterable[Mapping[str, str]], left_out: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """What the rows of each entry say together."""
    together: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in runs:
        together.setdefault(tuple(row[name] for name in ENTRY), []).append(row)
    missing = [tuple(row[name] for name in ENTRY) for row in left_out]
    return [_entry(key, rows, missing.count(key)) for key, rows in together.items()]


def _entry(key: tuple[str, ...], rows: Sequence[Mapping[str, str]], missing: int) -> dict[str, str]:
    minutes = [float(row["seconds"]) / 60 for row in rows]
    rates = [float(row["samples_per_second"]) for row in rows if row["samples_per_second"]]
    every = max(float(row["evaluated_every_seconds"] or 0) for row in rows) / 60
    score = mlperf_rules.score(
        [float(row["seconds"]) for row in rows],
        failed=missing,
        benchmark=key[ENTRY.index("benchmark")],
        scaling=float(rows[0]["scaling"]),
    )
    time_, rate = intervals.of_mean(minutes, step=every), intervals.of_mean(rates) if rates else None
    figures = {
        "minutes": score,
        "median_minutes": statistics.median(minutes),
        "mean_minutes": time_.mean,
        "mean_low": time_.low,
        "mean_high": time_.high,
        "minutes_variation": variation(minutes),
        "samples_per_second": rate and rate.mean,
        "rate_low": rate and rate.low,
        "rate_high": rate and rate.high,
        "rate_variation": variation(rates),
    }
    return {
        **dict(zip(ENTRY, key, strict=True)),
        **{name: rows[0][name] for name in ("accelerator", "accelerators", "scaling")},
        "runs": str(len(rows)),
        "left_out": str(missing),
        **{name: "" if value is None else f"{value:.6g}" for name, value in figures.items()},
    }


def variation(values: Sequence[float]) -> float | None:
    return statistics.stdev(values) / statistics.fmean(values) if len(values) > 2 else None


def write(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, str]], sources: Sequence[str]) -> None:
    heading = f"# Written by {Path(__file__).name}. Derived from logs under Apache-2.0: {mlperf.NOT_VERIFIED}.\n"
    heading += "".join(f"# source: {source}\n" for source in sources)
    path.write_text(heading + terminal.csv_text(columns, rows), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    started = time.monotonic()
    logs = [log for directory in given.directories for log in logs_of(directory)]
    with ProcessPoolExecutor(given.workers) as pool:
        found = list(pool.map(read, logs, chunksize=32))
    runs, left_out = [row for row in found if "why" not in row], [row for row in found if "why" in row]
    sources = [
        f"github.com/mlcommons/training_results_{round_} at "
        f"{(git(directory, 'rev-parse', 'HEAD') or b'').decode().strip()}"
        for directory, round_ in {log.directory: log.round for log in logs}.items()
    ]
    write(RUNS, OF_A_RUN, runs, sources)
    write(LEFT_OUT, (*ENTRY, "path", "why"), left_out, sources)
    write(ENTRIES, OF_AN_ENTRY, entries(runs, left_out), sources)
    seconds = time.monotonic() - started
    print(f"{len(logs)} logs, {len(runs)} runs, {len(left_out)} left out, in {seconds:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
