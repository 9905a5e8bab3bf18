# SPDX-License-Identifier: Apache-2.0
"""Do the intervals say what they claim? The same study again and again on this machine, each run with fresh processes.

    python tests/benchmarks/repeatability.py [--runs 20] [--study FILE] [--duration 4s] [--warm-up 1s] [--keep FOLDER]

Each run is `gpubench run`, and its figures are read from its results folder. For each point: the share of runs whose
interval contains the mean over the repeats of all other runs. That mean is uncertain itself, so for a 95 % interval the
share to be expected is a little less: with 3 repeats and 20 runs of a machine that scatters evenly and does not drift,
P(|t| < 4.303 / sqrt(1 + 3 / 57)) = 94.7 % for Student's t with 2 degrees of freedom. A smaller share means that runs
differ by more than repeats inside a run do: the machine drifted. Leave it alone meanwhile.

With --keep the folders stay, and those that are there already are not run again.
"""

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import rich.console
import rich.table
import yaml

from gpubench.analysis import text
from gpubench.api.point_result import PointResult
from gpubench_cli import results

QUICKSTART = Path(__file__).parents[2] / "jobs/examples/quickstart.yaml"
RUN = (sys.executable, "-P", "-m", "gpubench_cli", "run")


class Seen(NamedTuple):
    """One run's interval of a point beside what all other runs found."""

    mean: float
    low: float
    high: float
    others: float

    @property
    def contains(self) -> bool:
        return self.low <= self.others <= self.high


def main() -> int:
    options = arguments()
    with place(options.keep) as folder:
        study = folder / "study.yaml"
        study.write_text(yaml.safe_dump_all(adapted(options), sort_keys=False))
        runs = [measured(study, folder / f"run-{number:02}") for number in range(options.runs)]
    console = rich.console.Console(width=140)
    for index in range(len(runs[0])):
        show([run[index] for run in runs], console)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.runs} runs; load averages now {load}")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the share of intervals that contain the mean of all other runs")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--study", type=Path, default=QUICKSTART)
    parser.add_argument("--duration", help="measure.duration in place of the study's, such as 4s")
    parser.add_argument("--warm-up", help="measure.warmUp in place of the study's")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="results stay here, and are not measured twice")
    options = parser.parse_args()
    if options.runs < 2:
        parser.error("--runs must be 2 or more: a run is compared with the others")
    return options


def adapted(options: argparse.Namespace) -> list[Any]:
    """The study's documents with other times."""
    documents = list(yaml.safe_load_all(options.study.read_text()))
    for document in documents:
        if document["kind"] != "GpuBenchmark":
            continue
        measure = document["spec"].setdefault("measure", {})
        for field, value in (("duration", options.duration), ("warmUp", options.warm_up)):
            if value is not None:
                measure[field] = value
    return documents


@contextmanager
def place(keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory(prefix="gpubench-repeatability-") as folder:
        yield Path(folder)


def measured(study: Path, folder: Path) -> tuple[PointResult, ...]:
    """The measured points of one run, in the study's order."""
    if not results.is_results_folder(folder):
        subprocess.run([*RUN, str(study), "--results", str(folder)], check=True, stdout=subprocess.DEVNULL)
    found = tuple(point for point in results.read_summary(folder).status.results if point.values)
    without = [point for point in found if point.throughput is None or point.throughput.low is None]
    if not found or without:
        raise SystemExit(f"{folder}: a point has no interval: the study needs 3 repeats at least")
    return found


def compared(runs: Sequence[PointResult]) -> list[Seen]:
    """Each run against all others."""
    seen = []
    for run in runs:
        others = [value for other in runs if other is not run for value in other.values]
        estimate = run.throughput
        assert estimate is not None  # `measured` has looked
        assert estimate.low is not None
        assert estimate.high is not None
        seen.append(Seen(estimate.mean, estimate.low, estimate.high, math.fsum(others) / len(others)))
    return seen


def show(runs: Sequence[PointResult], console: rich.console.Console) -> None:
    """A sentence and the table of one point."""
    seen = compared(runs)
    inside = sum(one.contains for one in seen)
    means = [one.mean for one in seen]
    scatter = statistics.stdev(means) / statistics.fmean(means)
    half = statistics.fmean((one.high - one.low) / 2 / one.mean for one in seen)
    print(
        f"{text.describe(runs[0])}: {inside} of {len(seen)} intervals ({inside / len(seen):.0%}) contain the mean of "
        f"all others; the runs' means scatter by {scatter:.2%}, the mean half width is {half:.2%}"
    )
    drawn = rich.table.Table()
    for heading in ("run", "samples/s", "low", "high", "mean of the others", "contains it"):
        drawn.add_column(heading, justify="right")
    for number, one in enumerate(seen):
        rates = (f"{value:,.1f}" for value in (one.mean, one.low, one.high, one.others))
        drawn.add_row(str(number + 1), *rates, "yes" if one.contains else "no")
    console.print(drawn)


if __name__ == "__main__":
    sys.exit(main())
