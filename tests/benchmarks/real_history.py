# SPDX-License-Identifier: Apache-2.0
"""`make bench-history`: a schedule of real trainings, slowed and healed, and what it says after each run.

Real etcd, API server, controller-manager and scheduler; the operator under the chart's ClusterRole; a
GpuBenchmarkSchedule that is due every minute and forbids two runs at a time. Each run is a gang of two real Horovod
ranks with TensorFlow, on two nodes, each a core of this machine. In some of the runs the ranks' processor is throttled:
they are stopped for half of each tenth of a second, as a quota of processor time does. Nothing that gpubench reads has
changed then: no object, no image, no environment. What else runs here scatters the figures: the tolerance is 20 %.

Ten runs, five throttled ones, five as before, five throttled ones, which are accepted by `gpubench schedules accept`,
and two more. The operator is killed after the second throttled run, and again right after the first alarm.

Printed: each run's figure as the schedule's history has it, what its condition Regressed said when that run had just
been archived, and the Events since; then what `gpubench history` says in the end. Exit status 1 unless it regressed,
healed, regressed and was accepted, each once, in this order, dated within one run, and nothing else was said.

`--out` writes the history as its ConfigMap has it; `tests/core/recorded_history.json` is such a file, of a benchmark
whose runs waited longer instead, and `tests/core/test_recorded_history.py` judges it anew.
"""

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import rich.console
import rich.table

import installation
import studies
from cluster import Cluster, Image, Node
from gpubench import names
from gpubench.schedule import history
from gpubench.schedule.history import Entry
from gpubench.units import rfc3339
from gpubench_cluster import kube

#: So many runs, and whether they are throttled.
PHASES = ((10, False), (5, True), (5, False), (5, True), (2, True))
THROTTLED = [throttled for count, throttled in PHASES for _ in range(count)]
ACCEPTED_AFTER = 25
KILLED_AFTER = (12, 14)
EXPECTED = [("Regressed", 14), ("Healed", 19), ("Regressed", 24), ("Accepted", 26)]
TOLERANCE = "0.2"
THROTTLE_SECONDS = 0.05
NODES = 2
NAME = "again"
NAMESPACE = "default"
RUN_SECONDS = 900.0  # that one run may take on a machine that has other things to do
LOOK_SECONDS = 0.5
WHAT = "runs of real gangs of two ranks, written by `make bench-history ARGUMENTS='--out FILE'`: not to be edited"

POOL = studies.pool(
    "cpu",
    maxNodes=NODES,
    slot={"cpu": "1", "memory": "1Gi"},
    price={"perNodeHour": "0.04", "currency": "USD", "asOf": "2026-11-01"},
    template={"image": "gpubench-jobs:bench"},
)


class Judged(NamedTuple):
    """A run, and what the schedule said when it had just been archived."""

    entry: Entry
    status: str
    reason: str
    events: list[str]  # about regressions, since the run before


def schedule() -> kube.Object:
    """Every minute; runs that would meet wait for each other."""
    study = {
        "sweep": [{"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [NODES], "batchPerWorker": [64]}],
        "measure": {"repeats": {"min": 1}, "warmUp": "2s", "duration": "12s", "healthCheck": "Disabled"},
    }
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulHistoryLimit": 1,
        "regressions": {"tolerance": TOLERANCE},
        "benchmarkTemplate": {"spec": study},
    }
    return {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "metadata": {"name": NAME}, "spec": spec}


class Throttle:
    """Ranks that are stopped for half of each tenth of a second, whatever else the machine does meanwhile."""

    def __init__(self) -> None:
        self._on, self._ended = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="throttle", daemon=True)
        self._thread.start()

    def set(self, *, on: bool) -> None:
        (self._on.set if on else self._on.clear)()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        ranks, looked = list[psutil.Process](), 0.0
        while not self._ended.is_set():
            if time.monotonic() - looked > LOOK_SECONDS:
                ranks, looked = [one for one in psutil.process_iter() if _is_rank(one)], time.monotonic()
            for action in ("suspend", "resume") if self._on.is_set() else ():
                for rank in ranks:
                    with contextlib.suppress(psutil.Error):
                        getattr(rank, action)()
                time.sleep(THROTTLE_SECONDS)
            self._ended.wait(0 if self._on.is_set() else LOOK_SECONDS)


def _is_rank(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return "gpubench_jobs.worker" in process.cmdline()
    return False


class Watched:
    """The schedule, looked at until its history has enough runs."""

    def __init__(self, cluster: Cluster, operator: installation.Operator, throttle: Throttle) -> None:
        self._cluster = cluster
        self._operator = operator
        self._throttle = throttle
        self._path = kube.SCHEDULES.path(namespace=NAMESPACE, name=NAME)
        self._told: set[str] = set()

    def run(self) -> list[Judged]:
        """Apply, wait for each run; throttle, heal, accept and kill between them."""
        self._cluster.request("POST", kube.POOLS.path(), POOL)
        self._cluster.request("POST", kube.SCHEDULES.path(namespace=NAMESPACE), schedule())
        found: list[Judged] = []
        for number, throttled in enumerate(THROTTLED, start=1):
            found.append(self._next(number))
            last = found[-1]
            said_then = f"Regressed {last.status} ({last.reason})"
            print(f"{number:3}: {said(last.entry)}, {said_then} {' '.join(last.events)}", flush=True)
            if number == ACCEPTED_AFTER:
                print(gpubench(self._cluster, "schedules", "accept", NAME), flush=True)
            if number in KILLED_AFTER:
                self._operator.kill()
                self._operator.start()
            if number < len(THROTTLED) and THROTTLED[number] != throttled:  # a gang under way still imports TensorFlow
                self._throttle.set(on=THROTTLED[number])
        suspended = {"spec": {"suspend": True}}
        self._cluster.request("PATCH", self._path, suspended, content_type="application/merge-patch+json")
        return found

    def shards(self) -> list[dict[str, str]]:
        """The history as it is stored."""
        selector = f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_HISTORY}"
        listed = self._cluster.request("GET", f"{kube.CONFIG_MAPS.path(namespace=NAMESPACE)}?labelSelector={selector}")
        return [body.get("data") or {} for body in listed["items"]]

    def benchmarks(self) -> int:
        """Runs whose objects are still there."""
        return len(self._cluster.request("GET", kube.BENCHMARKS.path(namespace=NAMESPACE))["items"])

    def _next(self, count: int) -> Judged:
        """When so many runs have been archived, and the status knows of them."""
        deadline = time.monotonic() + RUN_SECONDS
        while (status := self._status()).get("runsKept", 0) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"run {count}: not within {RUN_SECONDS:g} s; the schedule says {status}")
            time.sleep(LOOK_SECONDS)
        condition = next(one for one in status["conditions"] if one["type"] == "Regressed")
        entry = history.read(self.shards())[count - 1]
        return Judged(entry, condition["status"], condition["reason"], self._events())

    def _events(self) -> list[str]:
        """Reasons of what was said about regressions and not seen before."""
        path = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
        said = {"Regressed", "Healed", "Accepted", "CannotTell"}
        listed = [one for one in self._cluster.request("GET", path)["items"] if one["reason"] in said]
        new = [one for one in listed if one["metadata"]["uid"] not in self._told]
        self._told |= {one["metadata"]["uid"] for one in new}
        return [one["reason"] for one in sorted(new, key=lambda one: str(one["eventTime"]))]

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._cluster.request("GET", self._path).get("status") or {}
        return found


def said(entry: Entry) -> str:
    """The figure of a run, and where it is not to be judged, why."""
    if not entry.figures:
        return f"no figure: {entry.sentence}"
    (figure,) = entry.figures
    return f"{figure.mean:.1f} samples/s{'' if figure.settled else ', never settled'}"


def show(found: list[Judged]) -> None:
    """A line for each run."""
    drawn = rich.table.Table("run", "due", "cores", "figure", "Regressed then", "Events", title=f"Schedule {NAME}")
    for number, (one, throttled) in enumerate(zip(found, THROTTLED, strict=True), start=1):
        cores = "throttled" if throttled else "whole"
        due = rfc3339(one.entry.scheduled_at)
        told = ", ".join(one.events)
        drawn.add_row(str(number), due, cores, said(one.entry), f"{one.status}, {one.reason}", told)
    rich.console.Console(width=120).print(drawn)


def is_right(found: list[Judged]) -> bool:
    """What was expected, each within one run, and nothing else."""
    told = [(event, number) for number, one in enumerate(found, start=1) for event in one.events]
    return [event for event, _ in told] == [event for event, _ in EXPECTED] and all(
        abs(number - wanted) <= 1 for (_, number), (_, wanted) in zip(told, EXPECTED, strict=True)
    )


def gpubench(cluster: Cluster, *command: str) -> str:
    """What the command line prints about this cluster."""
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "150"}
    program = [sys.executable, "-m", "gpubench_cli", *command, "-n", NAMESPACE]
    return subprocess.run(program, check=True, capture_output=True, text=True, env=environment).stdout


def main() -> int:
    """Start, run, print; 1 where the history says something else than what was done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the history there, as it is stored")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    cores = len(os.sched_getaffinity(0))
    nodes = [Node(name=f"cpu-{n}", labels={"pool": "cpu"}, cores=(n % cores,)) for n in range(NODES)]
    images = {"gpubench-jobs:bench": Image(path=(Path(sys.executable).parent,), env=installation.POD_ENVIRONMENT)}
    print(f"load average {os.getloadavg()[0]:.1f} on {cores} cores before", flush=True)
    throttle = Throttle()
    with (
        tempfile.TemporaryDirectory(prefix="gpubench-bench-") as folder,
        Cluster.start(Path(folder) / "cluster", nodes=nodes, images=images, audit_log=False) as cluster,
        installation.running_operator(
            cluster, log=Path(folder) / "operator.log", settings=installation.ALONE
        ) as operator,
    ):
        watched = Watched(cluster, operator, throttle)
        try:
            found = watched.run()
        finally:
            throttle.end()
        show(found)
        print(f"load average {os.getloadavg()[0]:.1f} at the end; {watched.benchmarks()} benchmarks are still there")
        print(gpubench(cluster, "history", NAME))
        if options.out is not None:
            data = {name: text for shard in watched.shards() for name, text in shard.items()}
            kept = {"what": WHAT, "slowFrom": PHASES[0][0] + 1, "data": dict(sorted(data.items()))}
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    right = is_right(found)
    print(f"regressed, healed, regressed and accepted, each once and within one run: {right}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
