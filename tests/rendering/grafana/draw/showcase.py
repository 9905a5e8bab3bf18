# SPDX-License-Identifier: Apache-2.0
"""What a real Prometheus answers to every panel of a benchmark worth showing: FLUX.1 of MLPerf Training, or one's own.

    showcase.py OUT.json [RESULTS]

RESULTS is the folder of a benchmark that was run; else the runs are those of tests/benchmarks/mlperf_runs.csv with 32
images a GPU: of each accelerator and size the fastest system, of each accelerator the least list price on demand since
2026. `gpubench import` reads them. The exporter leaves out throughputs that a cluster did not measure, so the figures
are passed to it as though one had.
"""

import csv
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import prometheus_client
import yaml

import frames
import stored_analysis
from gpubench_cli import __main__ as program
from gpubench_cli import results
from gpubench_operator import exporter, queue, server

_NAMESPACE, _NAME, _WORKLOAD, _BATCH = "benchmarks", "mlperf-training", "flux1", 32
_GOAL = {"name": "10m-images", "workload": _WORKLOAD, "samples": 10_000_000}
_RUNS = Path(__file__).parents[3] / "benchmarks/mlperf_runs.csv"
_SINCE = "2026"
_PRICES = _RUNS.with_name("mlperf_prices.csv")
_COLUMNS = ("workload", "pool", "workers", "batch_per_worker", "precision", "repeat", "samples_per_second")


def _table(path: Path) -> Iterator[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(line for line in file if not line.startswith("#"))


def _fastest() -> dict[tuple[str, int], list[float]]:
    """Samples a second of each run, by accelerator and accelerators."""
    systems: dict[tuple[str, int], dict[str, list[float]]] = {}
    for run in _table(_RUNS):
        size = int(run["accelerators"])
        if (run["benchmark"], run["division"], int(run["global_batch"])) == (_WORKLOAD, "closed", _BATCH * size):
            accelerator = run["accelerator"].removesuffix(")").rpartition("(")[2]
            of_size = systems.setdefault((accelerator, size), {})
            of_size.setdefault(run["system"], []).append(float(run["samples_per_second"]))
    return {key: max(of_size.values(), key=statistics.mean) for key, of_size in sorted(systems.items())}


def _pool(accelerator: str) -> dict[str, Any]:
    offers = (one for one in _table(_PRICES) if (one["accelerator"], one["capacity"]) == (accelerator, "on-demand"))
    price = min(
        (one for one in offers if one["day"] >= _SINCE),
        key=lambda one: float(one["usd_per_hour"]) / int(one["accelerators"]),
    )
    per_node = 8 * float(price["usd_per_hour"]) / int(price["accelerators"])
    return {
        "apiVersion": "gpubench.dev/v1alpha1",
        "kind": "GpuPool",
        "metadata": {"name": _name(accelerator)},
        "spec": {
            "accelerator": accelerator,
            "slotsPerNode": 8,
            "maxNodes": 16,
            "slot": {"gpuResource": "nvidia.com/gpu", "cpu": "1", "memory": "1Gi"},
            "price": {
                "perNodeHour": f"{per_node:.2f}",
                "currency": "USD",
                "asOf": price["day"],
                "source": price["provider"],
            },
        },
    }


def _name(accelerator: str) -> str:
    return accelerator.partition("-")[0].lower()


def _write(folder: Path) -> tuple[Path, Path]:
    """The benchmark and its measurements, as `gpubench import` takes them."""
    found = _fastest()
    sizes: dict[str, list[int]] = {}
    for accelerator, size in found:
        sizes.setdefault(accelerator, []).append(size)
    sweep = [
        {
            "workloads": ["Custom"],
            "pools": [_name(accelerator)],
            "workers": of_it,
            "batchPerWorker": [_BATCH],
            "precision": ["unknown"],
            "custom": {"name": _WORKLOAD, "command": [_WORKLOAD]},
        }
        for accelerator, of_it in sizes.items()
    ]
    head = {"apiVersion": "gpubench.dev/v1alpha1", "kind": "GpuBenchmark", "metadata": {"name": _NAME}}
    pools = [_pool(accelerator) for accelerator in sizes]
    benchmark, measurements = folder / "benchmark.yaml", folder / "measurements.csv"
    benchmark.write_text(
        yaml.safe_dump_all([*pools, {**head, "spec": {"sweep": sweep, "goals": [_GOAL]}}]), encoding="utf-8"
    )
    with measurements.open("w", encoding="utf-8", newline="") as file:
        file.write("# publisher: MLPerf Training (result not verified by MLCommons Association)\n")
        file.write("# source: tests/benchmarks/mlperf_runs.csv\n# published: 2025-10\n")
        rows = csv.writer(file)
        rows.writerow(_COLUMNS)
        for (accelerator, size), rates in found.items():
            for repeat, rate in enumerate(rates):
                rows.writerow((_WORKLOAD, _name(accelerator), size, _BATCH, "unknown", repeat, rate))
    return benchmark, measurements


class _Shown:
    """One page of the operator, minute by minute the same."""

    def __init__(self, folder: Path, **changed: Any) -> None:
        found = results.read_summary(folder)
        status: Any = found.status.to_wire()
        status["results"] = [{**one, **changed} for one in status["results"]]
        series = exporter.Series()
        body = {
            "metadata": {"name": found.name, "namespace": _NAMESPACE, "uid": found.uid},
            "spec": {},
            "status": status,
        }
        stored_analysis.observe(series, queue.benchmark_key(_NAMESPACE, found.name), body)
        written = server.parts(prometheus_client.CollectorRegistry(), series, prometheus_client.generate_latest)
        self._page = b"".join(written).decode()

    def pages(self, _: int) -> Iterator[tuple[dict[str, str], str]]:
        target = {"job": "gpubench-operator", "pod": "gpubench-0", "instance": "10.0.0.2:8080"}
        yield {**target, "cluster": ""}, self._page


def main(out: str, own: str | None = None) -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(own or made)
        if own is None:
            folder = Path(made) / "results"
            if program.main(("import", *map(str, _write(Path(made))), "--out", str(folder))):
                return 1
        page = _Shown(folder) if own else _Shown(folder, basis="Measured", warnings=[])
        found = frames.frames(hours=lambda _: page)
    found["note"] = (
        "A small network on shared processors"
        if own
        else "FLUX.1 of MLPerf Training v5.1. Result not verified by MLCommons Association. As though measured here"
    )
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
