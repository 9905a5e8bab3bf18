# SPDX-License-Identifier: Apache-2.0
"""`make bench-scrape`: what a scrape of the operator is with many studies, and what is left when they are gone.

Studies of 20 points, each with all that a point of a priced study has, are observed by the operator's own exporter and
scraped over HTTP from its own server, while something else wants its turn as a Lease does. Printed: series, bytes and
processor seconds (of both ends) of a scrape with 0, 10, 100 and 1,000 studies, how long something else had to wait, and
the same once all studies are deleted. The bar: series grow exactly as the studies do, seconds for each study by half at
most, and a scrape of the empty exporter is what it was. The seconds are of the machine they ran on.
"""

import asyncio
import statistics
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import prometheus_client

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))

import stored_analysis
from gpubench_operator import exporter, queue, server

STUDIES = (0, 10, 100, 1000)
POINTS = 20
SCRAPES = 3
ALLOWED_GROWTH = 1.5  # of the seconds for each study, from 100 studies to 1,000


class Scrape(NamedTuple):
    """One size."""

    studies: int
    series: int
    size: int  # bytes
    seconds: float  # of processors, at both ends
    stalled: float  # the longest that something else had to wait for its turn


def interval(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": 0.95 * mean, "high": 1.05 * mean}


def amount(mean: str) -> dict[str, str]:
    return {"mean": mean, "low": mean, "high": mean, "currency": "USD"}


def point(workers: int) -> dict[str, Any]:
    """With a price, a goal, a baseline, a bill and GPUs."""
    parts = dict.fromkeys(("imagePull", "waiting", "startUp", "warmUp", "measured", "idle", "rounding"), "0.01")
    return {
        "workload": "resnet50",
        "pool": "gke-a100-spot",
        "accelerator": "A100-40GB",
        "capacityType": "Spot",
        "workers": workers,
        "workersPerNode": 1,
        "batchPerWorker": 64,
        "globalBatch": 64 * workers,
        "precision": "mixed_float16",
        "state": "Measured",
        "samplesPerSecond": interval(812.25 * workers),
        "scaling": [{"kind": "Weak", "baselineWorkers": 1, "efficiency": interval(0.9)}],
        "cost": {"perMillionSamples": amount("1.25")},
        "goals": [{"name": "imagenet", "hours": interval(10.0), "cost": amount("36.5")}],
        "relative": {"throughput": interval(4.0), "time": interval(0.25), "cost": interval(1.5)},
        "bill": {"total": "0.07", "currency": "USD", "attempts": 3, "parts": parts},
        "gpu": {"utilization": 0.95, "memoryPeakBytes": 30_000_000_000, "watts": 350.0, "throttled": 0.0},
        "host": {"processors": 3.2, "memoryPeakBytes": 4_000_000_000},
    }


def study() -> dict[str, Any]:
    return {
        "metadata": {"name": "x", "namespace": "default", "uid": "u"},
        "spec": {"limits": {"budget": "40.00"}},
        "status": {
            "trials": {"total": 3 * POINTS, "finished": 3 * POINTS},
            "attempts": {"started": 3 * POINTS, "succeeded": 3 * POINTS},
            "spent": {"amount": "12.31", "currency": "USD", "clock": "of pods"},
            "startTime": "2026-11-01T12:00:00Z",
            "results": [point(workers) for workers in range(1, POINTS + 1)],
        },
    }


def key(number: int) -> queue.Key:
    return queue.benchmark_key("default", f"study-{number:04}")


async def watch(waits: list[float]) -> None:
    """How late something is that wants its turn every 50 ms."""
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(0.05)
        waits.append(time.perf_counter() - begun - 0.05)


async def scraped(address: str, studies: int) -> Scrape:
    """The median of some scrapes."""
    seconds, waits = [], [0.0]
    watching = asyncio.create_task(watch(waits))
    async with aiohttp.ClientSession() as session:
        for _ in range(SCRAPES):
            begun = time.process_time()
            async with session.get(address) as answer:
                text = await answer.read()
            seconds.append(time.process_time() - begun)
    watching.cancel()
    series = text.count(b"\n") - text.count(b"\n#") - text.startswith(b"#")  # lines that are no comments
    return Scrape(studies, series, len(text), statistics.median(seconds), max(waits))


async def measure() -> tuple[list[Scrape], Scrape]:
    registry, figures = prometheus_client.CollectorRegistry(), exporter.Series()
    serving = server.Server(registry, figures, healthy=lambda: (True, ""), ready=lambda: (True, ""))
    port = await serving.start(address="127.0.0.1", port=0)
    address, body = f"http://127.0.0.1:{port}/metrics", study()
    try:
        found, there = [], 0
        for studies in STUDIES:
            for number in range(there, studies):
                stored_analysis.observe(figures, key(number), body)
            there = studies
            found.append(shown(await scraped(address, studies)))
        for number in range(there):
            figures.drop(key(number))
        return found, shown(await scraped(address, 0))
    finally:
        await serving.stop()


def shown(scrape: Scrape) -> Scrape:
    """A line of the table, as soon as it is known."""
    each = f"{scrape.series / scrape.studies:8.0f} {scrape.size / scrape.studies:8.0f}" if scrape.studies else ""
    times = f"{scrape.seconds:9.3f} {scrape.stalled:8.3f}"
    print(f"{scrape.studies:8} {scrape.series:9} {scrape.size:12} {times} {each}", flush=True)
    return scrape


def main() -> int:
    print(f"{'studies':>8} {'series':>9} {'bytes':>12} {'seconds':>9} {'others':>8} {'series':>8} {'bytes':>8} each")
    found, after = asyncio.run(measure())
    empty, _, some, many = found
    linear = many.series - empty.series == (some.series - empty.series) * many.studies / some.studies
    growth = (many.seconds / many.studies) / (some.seconds / some.studies)
    clean = (after.series, after.size) == (empty.series, empty.size)
    print(f"series {'linear' if linear else 'NOT LINEAR'}; seconds of each study x {growth:.2f}; ", end="")
    print("after deletion as at the start" if clean else "SOMETHING IS LEFT")
    return 0 if linear and clean and growth <= ALLOWED_GROWTH else 1


if __name__ == "__main__":
    sys.exit(main())
