# SPDX-License-Identifier: Apache-2.0
"""`make bench-operator`: how fast the operator is, and what it needs, on the embedded cluster with pretending nodes.

1. From apply to all pods of the gang created: 200 studies one after the other, each beside a plain Indexed Job of the
   same size, the two in alternating order. The bar: the study's median is at most 100 ms above the Job's.
2. Memory and CPU time of the operator with 1, 10 and 100 live studies: while they are started, and while they only run.
   The bar: no term grows faster than the number of objects, from 10 studies to 100: CPU time per study that is started,
   memory per study, CPU time per study that runs. What lies below the noise of a process (see the floors) passes.

Real API server, scheduler and controller-manager; the pods have no process. Numbers are of the machine they ran on.
"""

import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

import installation
from cluster import Cluster, Node

APPLIES = 200
WARM_UP = 10
PODS = 2
ALLOWED_EXTRA_SECONDS = 0.100
LIVE = (1, 10, 100)
IDLE_SECONDS = 30.0
ALLOWED_GROWTH = 1.5  # of the cost per study, from 10 studies to 100; 1 is linear, 10 would be quadratic
MEMORY_FLOOR = 256 * 1024  # bytes per study: an allocator takes memory in steps of that order
RUNNING_FLOOR = 0.0002  # CPU seconds per second and study: a tenth of the operator's own idle work, spread over ten
WAIT_SECONDS = 300.0
NAMESPACE = "default"
STUDIES = f"/apis/gpubench.dev/v1alpha1/namespaces/{NAMESPACE}/gpubenchmarks"
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"

POOL = {
    "apiVersion": "gpubench.dev/v1alpha1",
    "kind": "GpuPool",
    "metadata": {"name": "pretend"},
    "spec": {
        "slotsPerNode": 1,
        "maxNodes": 1000,
        "exclusiveNodes": False,
        "slot": {"cpu": "100m", "memory": "16Mi"},
        "scheduling": {"nodeSelector": {"pretend": "yes"}},
    },
}


def study(name: str) -> dict[str, Any]:
    """A study of one trial on two pods, which run until they are deleted."""
    return {
        "apiVersion": "gpubench.dev/v1alpha1",
        "kind": "GpuBenchmark",
        "metadata": {"name": name},
        "spec": {
            "sweep": [{"workloads": ["mnist_mlp"], "pools": ["pretend"], "workers": [PODS], "batchPerWorker": [1]}],
            "measure": {"repeats": {"min": 1}},
        },
    }


def job(name: str) -> dict[str, Any]:
    """The plain Indexed Job to compare with."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "completionMode": "Indexed",
            "completions": PODS,
            "parallelism": PODS,
            "backoffLimit": 0,
            "template": {
                "spec": {"restartPolicy": "Never", "nodeSelector": {"pretend": "yes"}, "containers": [container]}
            },
        },
    }


class PodWatch:
    """Counts pods by the prefix of their name as they are created, from a watch that was there before them."""

    def __init__(self, cluster: Cluster) -> None:
        self._counts: dict[str, int] = {}
        self._changed = threading.Condition()
        events = cluster.watch(f"/api/v1/namespaces/{NAMESPACE}/pods", timeout_seconds=24 * 3600)
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def _read(self, events: Iterator[Any]) -> None:
        for event in events:
            if event["type"] == "ADDED":
                with self._changed:
                    owner = event["object"]["metadata"]["labels"]["batch.kubernetes.io/job-name"].split("-")[0]
                    self._counts[owner] = self._counts.get(owner, 0) + 1
                    self._changed.notify_all()

    def wait_for(self, prefix: str, count: int) -> None:
        """Wait until that many pods were created."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._counts.get(prefix, 0) >= count, timeout=WAIT_SECONDS):
                raise TimeoutError(f"{prefix}: {self._counts.get(prefix, 0)} of {count} pods after {WAIT_SECONDS} s")


def latency(cluster: Cluster, pods: PodWatch) -> bool:
    """Print the latencies side by side; whether the bar holds."""
    kinds: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
        "Indexed Job": (JOBS, job),
        "GpuBenchmark": (STUDIES, study),
    }
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for number in range(WARM_UP + APPLIES):
        order = list(kinds) if number % 2 else list(reversed(kinds))
        for kind in order:
            path, build = kinds[kind]
            name = f"{kind[0].lower()}{number}"
            began = time.perf_counter()
            cluster.request("POST", path, build(name))
            pods.wait_for(name, PODS)
            took = time.perf_counter() - began
            cluster.request("DELETE", f"{path}/{name}?propagationPolicy=Background")
            if number >= WARM_UP:
                seconds[kind].append(took)
            time.sleep(0.05)  # let the deletion go its way before the next one is timed
    table = Table(title=f"From apply to all {PODS} pods created, {APPLIES} times, ms")
    for column in ("", "p50", "p90", "p99", "max"):
        table.add_column(column, justify="right" if column else "left")
    for kind, values in seconds.items():
        cuts = statistics.quantiles(values, n=100)
        table.add_row(kind, *(f"{1000 * value:.0f}" for value in (cuts[49], cuts[89], cuts[98], max(values))))
    Console().print(table)
    extra = statistics.median(seconds["GpuBenchmark"]) - statistics.median(seconds["Indexed Job"])
    print(
        f"median of the study above the plain Job: {1000 * extra:.0f} ms (bar: {1000 * ALLOWED_EXTRA_SECONDS:.0f} ms)"
    )
    return extra <= ALLOWED_EXTRA_SECONDS


def load(cluster: Cluster, pods: PodWatch, process: psutil.Process) -> bool:
    """Print memory and CPU with more and more live studies; whether the bar holds."""
    table = Table(title="The operator with live studies (of one gang each)")
    for column in ("studies", "memory MiB", "KiB per study", "CPU s to start", "ms per study", "CPU % while they run"):
        table.add_column(column, justify="right")
    empty = process.memory_info().rss
    started = 0
    per_study: dict[int, Costs] = {}
    for live in LIVE:
        before, began = _cpu(process), started
        for number in range(started, live):
            cluster.request("POST", STUDIES, study(f"live{number}"))
        for number in range(started, live):
            pods.wait_for(f"live{number}", PODS)
        started = live
        time.sleep(5.0)  # the status that follows the pods' start belongs to the start
        starting = _cpu(process) - before
        running = _cpu(process)
        time.sleep(IDLE_SECONDS)
        running = (_cpu(process) - running) / IDLE_SECONDS
        memory = process.memory_info().rss
        costs = Costs(start=starting / (live - began), memory=(memory - empty) / live, running=running / live)
        per_study[live] = costs
        table.add_row(
            str(live),
            f"{memory / 2**20:.0f}",
            f"{costs.memory / 2**10:.0f}",
            f"{starting:.2f}",
            f"{1000 * costs.start:.0f}",
            f"{100 * running:.2f}",
        )
    Console().print(table)
    return grows_linearly(per_study[LIVE[-2]], per_study[LIVE[-1]])


class Costs(NamedTuple):
    """What one study costs the operator."""

    start: float  # CPU seconds
    memory: float  # bytes
    running: float  # CPU seconds per second


def grows_linearly(few: Costs, many: Costs) -> bool:
    """Print each cost per study with many studies against few; whether none has grown."""
    floors = Costs(start=0.0, memory=MEMORY_FLOOR, running=RUNNING_FLOOR)
    held = []
    for name, one, hundred, floor in zip(Costs._fields, few, many, floors, strict=True):
        held.append(hundred <= max(ALLOWED_GROWTH * one, floor))
        growth = f"x {hundred / one:.2f}" if one > 0 else "from nothing measurable"
        print(f"{name} per study, {LIVE[-1]} studies against {LIVE[-2]}: {growth} (bar: x {ALLOWED_GROWTH}, or noise)")
    return all(held)


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    """Both parts; 1 when a bar does not hold."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    nodes = [
        Node(name=f"pretend-{n}", labels={"pretend": "yes"}, capacity={"cpu": "64"}, pretend=True) for n in range(4)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="gpubench-bench-") as folder,
        Cluster.start(Path(folder) / "cluster", nodes=nodes, audit_log=False) as cluster,
        installation.running_operator(cluster, log=Path(folder) / "operator.log") as operator,
    ):
        cluster.request("POST", "/apis/gpubench.dev/v1alpha1/gpupools", POOL)
        pods = PodWatch(cluster)
        held = [latency(cluster, pods), load(cluster, pods, psutil.Process(operator.pid))]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
