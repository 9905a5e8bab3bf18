# SPDX-License-Identifier: Apache-2.0
"""`make bench-history`: a schedule whose runs are real trainings; one thing becomes slower, and it says since when.

Real etcd, API server, controller-manager and scheduler; the operator under the chart's ClusterRole; a
GpuBenchmarkSchedule that is due every minute and forbids two runs at a time. Each run is a gang of two real Horovod
ranks with TensorFlow, on two nodes, each a core of this machine. Its workload is one of the user's own
(`tests/support/waiting_model.py`): a step waits for a store, and how long the store takes stands in a file on a volume.
Before run 11 another number is written there: 0.7 s after 0.5 s. Nothing that gpubench reads has changed then: no
object, no image, no environment. A wait is as long on a busy machine as on an idle one, so that what else runs here
scatters the figures and does not drown them; it is half a second, and no tenth, because machines are shared.

Printed: each run's figure as the schedule's history has it, and what its condition Regressed said when that run had
just been archived; then what `gpubench history` says in the end. Benchmarks go by the schedule's own history limit:
all but the newest are gone by then. Exit status 1 unless the regression is reported, dated to the run with which the
store became slower, or one beside it, and no earlier run had raised an alarm.

`--out` writes the history as its ConfigMap has it; `tests/core/recorded_history.json` is such a file, and
`tests/core/test_recorded_history.py` judges it anew.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

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

RUNS = 14
SLOW_FROM = 11  # the first slow run, counted from 1
WAIT_SECONDS, SLOW_WAIT_SECONDS = 0.5, 0.7
NODES = 2
NAME = "again"
NAMESPACE = "default"
WAITING = Path(installation.__file__).with_name("waiting_model.py")  # not imported: TensorFlow comes with it
STORE_VARIABLE = "WAITING_STORE"  # what it reads
STORE_MOUNT = "/store"
RUN_SECONDS = 900.0  # that one run may take on a machine that has other things to do
LOOK_SECONDS = 0.5
#: A lease that a busy machine cannot lose: that the operator ends itself then is another test's.
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


def schedule(store: Path) -> kube.Object:
    """Every minute; runs that would meet wait for each other."""
    block = {
        "workloads": ["Custom"],
        "custom": {"name": "waiting", "file": str(WAITING)},
        "pools": ["cpu"],
        "workers": [NODES],
        "batchPerWorker": [32],
    }
    study = {
        "sweep": [block],
        "measure": {"repeats": {"min": 1}, "warmUp": "2s", "duration": "15s", "healthCheck": "Disabled"},
        "template": {
            "env": [{"name": STORE_VARIABLE, "value": f"{STORE_MOUNT}/{store.name}"}],
            "volumes": [{"name": "store", "mountPath": STORE_MOUNT, "hostPath": {"path": str(store.parent)}}],
        },
    }
    spec = {
        "schedule": "* * * * *",
        "concurrencyPolicy": "Forbid",
        "successfulHistoryLimit": 1,
        "benchmarkTemplate": {"spec": study},
    }
    return {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "metadata": {"name": NAME}, "spec": spec}


class Watched:
    """The schedule, looked at until its history has enough runs."""

    def __init__(self, cluster: Cluster, store: Path) -> None:
        self._cluster = cluster
        self._store = store
        self._path = kube.SCHEDULES.path(namespace=NAMESPACE, name=NAME)

    def run(self) -> list[Judged]:
        """Apply, wait for each run, make the store slower before one of them."""
        self._write(WAIT_SECONDS)
        self._cluster.request("POST", kube.POOLS.path(), POOL)
        self._cluster.request("POST", kube.SCHEDULES.path(namespace=NAMESPACE), schedule(self._store))
        found: list[Judged] = []
        while len(found) < RUNS:
            found.append(self._next(len(found) + 1))
            if len(found) == SLOW_FROM - 1:  # the next gang, if it is under way already, still imports TensorFlow
                self._write(SLOW_WAIT_SECONDS)
            last = found[-1]
            print(f"{len(found):3}: {said(last.entry)}, Regressed {last.status} ({last.reason})", flush=True)
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
        return Judged(entry, condition["status"], condition["reason"])

    def _status(self) -> dict[str, Any]:
        found: dict[str, Any] = self._cluster.request("GET", self._path).get("status") or {}
        return found

    def _write(self, seconds: float) -> None:
        """At once: a rank finds the old number or the new one."""
        beside = self._store.with_suffix(".new")
        beside.write_text(f"{seconds}", encoding="ascii")
        beside.rename(self._store)


def said(entry: Entry) -> str:
    """The figure of a run, and where it is not to be judged, why."""
    if not entry.figures:
        return f"no figure: {entry.sentence}"
    (figure,) = entry.figures
    return f"{figure.mean:.1f} samples/s{'' if figure.settled else ', never settled'}"


def show(found: list[Judged]) -> None:
    """A line for each run."""
    drawn = rich.table.Table("run", "due", "store", "figure", "Regressed then", title=f"Schedule {NAME}")
    for number, one in enumerate(found, start=1):
        wait = WAIT_SECONDS if number < SLOW_FROM else SLOW_WAIT_SECONDS
        due = rfc3339(one.entry.scheduled_at)
        drawn.add_row(str(number), due, f"{wait * 1000:g} ms", said(one.entry), f"{one.status}, {one.reason}")
    rich.console.Console(width=120).print(drawn)


def is_right(found: list[Judged], dated: list[str]) -> bool:
    """Reported, dated within one run, and never before there was anything."""
    by_name = {one.entry.name: number for number, one in enumerate(found, start=1)}
    early = any(one.status == "True" for one in found[: SLOW_FROM - 1])
    return not early and len(dated) == 1 and abs(by_name[dated[0]] - SLOW_FROM) <= 1


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
    with (
        tempfile.TemporaryDirectory(prefix="gpubench-bench-") as folder,
        Cluster.start(Path(folder) / "cluster", nodes=nodes, images=images, audit_log=False) as cluster,
        installation.running_operator(cluster, log=Path(folder) / "operator.log", settings=installation.ALONE),
    ):
        store = Path(folder) / "store" / "seconds"
        store.parent.mkdir()
        watched = Watched(cluster, store)
        found = watched.run()
        show(found)
        print(f"load average {os.getloadavg()[0]:.1f} at the end; {watched.benchmarks()} benchmarks are still there")
        print(gpubench(cluster, "history", NAME))
        told = json.loads(gpubench(cluster, "history", NAME, "--output", "json"))
        dated = [one["run"] for one in told["status"].get("regressions", [])]
        if options.out is not None:
            data = {name: text for shard in watched.shards() for name, text in shard.items()}
            kept = {"what": WHAT, "slowFrom": SLOW_FROM, "data": dict(sorted(data.items())[:RUNS])}
            options.out.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    right = is_right(found, dated)
    print(f"reported, and dated to run {SLOW_FROM} or one beside it, with no alarm before: {right}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
