# SPDX-License-Identifier: Apache-2.0
"""`make bench-recovery`: from an eviction through the API to training again, in parts, over twenty preemptions.

Real etcd, API server, controller-manager and scheduler; the operator under the chart's ClusterRole; gangs of two real
Horovod ranks with TensorFlow in mode Training, each on a node of its own, which is a core of this machine. Checkpoints
lie on a claim: one for each second of training, and a last one at the eviction. Two nodes are all there are: the next
gang needs those of the one that was interrupted, as on a pool that is full.

One pod of the gang, now the first and now the second, is evicted a moment after training has begun. It is named on its
Job before, as spec.drill does it, so that no back-off follows: how long that would be is a setting and no measurement.
All moments are of this process' monotonic clock: the eviction is the moment before its request is sent, the rest is
when the event of a watch, or a line of the first pod's log, arrives here (the log of a node is followed in steps of
0.1 s). The parts follow each other without a gap:

    detection       eviction sent -> the operator has deleted the Job (it carries a deletionTimestamp)
    Job deletion    -> the Job is gone: its pods have ended, and the garbage collector has seen it
    new Job         -> the next attempt's Job is there
    scheduling      -> both of its containers run: pods made, bound and started
    imports         -> the first rank has described what it stands on: the launcher's start, the join of both pods,
                       `import tensorflow`, hvd.init()
    restore         of the newest checkpoint, as the first rank says: reading it, and tracing the step
    first step      the rest until its first window begins: model, data, the test of the device

The goal is 15 s from the eviction to training again without imports: those are TensorFlow's, and no controller can make
them shorter. Numbers are of the machine they ran on, and of what else ran there: its load is printed beside them.
"""

import argparse
import contextlib
import itertools
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes
from rich.console import Console
from rich.table import Table

import installation
import studies
from cluster import Cluster, Image, Node
from gpubench import checksum, names, records
from gpubench_cluster import kube

GOAL_SECONDS = 15.0
NANOSECONDS = 1e9
PREEMPTIONS = 20
TRAINING_SECONDS = 2.0  # that an attempt trains before it is interrupted
WAIT_SECONDS = 300.0
LOOK_SECONDS = 0.05
DAY_SECONDS = 24 * 3600
NAMESPACE = "default"
JOBS = kube.JOBS.path(namespace=NAMESPACE)
PODS = kube.PODS.path(namespace=NAMESPACE)
STUDIES = kube.BENCHMARKS.path(namespace=NAMESPACE)
PATCH = "application/merge-patch+json"
NODES = 2
INDEX = "batch.kubernetes.io/job-completion-index"
JOB = "batch.kubernetes.io/job-name"

POOL = studies.pool(
    "cpu",
    maxNodes=NODES,
    slot={"cpu": "1", "memory": "1Gi"},
    template={"image": "gpubench-jobs:bench"},
)
CLAIM = "checkpoints"
STORAGE = {"accessModes": ["ReadWriteMany"], "storageClassName": "bench"}
SIZE = {"storage": "1Gi"}
#: One trial that would train for an hour: it never ends by itself.
STUDY = {
    "apiVersion": names.API_VERSION,
    "kind": names.BENCHMARK_KIND,
    "metadata": {"name": "recovery"},
    "spec": {
        "sweep": [
            {
                "workloads": ["mnist_mlp"],
                "pools": ["cpu"],
                "workers": [NODES],
                "batchPerWorker": [32],
                "data": {"source": "Generated", "samples": 20_000},
                "epochs": 1000,
            }
        ],
        "measure": {"mode": "Training", "repeats": {"min": 1}},
        "limits": {"attemptTimeout": "2h"},
        "checkpoint": {"volume": {"claimName": CLAIM}, "interval": "1s"},
    },
}


class Seen(NamedTuple):
    """An event of a watch, and when it arrived."""

    at: float
    type: str
    body: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


class Timeline:
    """The events of one watch, kept as they come; whoever waits for one finds it also when it came before."""

    def __init__(self, cluster: Cluster, path: str) -> None:
        self._seen: list[Seen] = []
        self._changed = threading.Condition()
        events = cluster.watch(path, timeout_seconds=DAY_SECONDS)
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def _read(self, events: Iterator[Any]) -> None:
        for event in events:
            with self._changed:
                self._seen.append(Seen(time.monotonic(), event["type"], event["object"]))
                self._changed.notify_all()

    def first(self, holds: Callable[[Seen], bool], *, what: str, after: float = 0.0) -> Seen:
        """The first event of which it holds, of those since a moment."""
        found: Seen | None = None

        def look() -> bool:
            nonlocal found
            found = next((seen for seen in self._seen if seen.at >= after and holds(seen)), None)
            return found is not None

        with self._changed:
            self._changed.wait_for(look, timeout=WAIT_SECONDS)
        if found is None:
            raise TimeoutError(f"{what}: not within {WAIT_SECONDS:g} s")
        return found


class Beginning(NamedTuple):
    """When the first rank of an attempt had described itself, and when its first window began."""

    described_at: float
    restore: float | None  # seconds; None where there was no checkpoint
    trains_at: float


class Attempt(NamedTuple):
    """A gang whose containers run."""

    job: str
    uid: str
    pods: tuple[str, ...]  # by their index
    made_at: float
    runs_at: float


class Parts(NamedTuple):
    """Seconds of one recovery."""

    detection: float
    job_deletion: float
    new_job: float
    scheduling: float
    imports: float
    restore: float
    first_step: float

    @property
    def total(self) -> float:
        return sum(self)

    @property
    def without_imports(self) -> float:
        return self.total - self.imports


class Place:
    """The cluster, and what happens in it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._jobs, self._pods = Timeline(cluster, JOBS), Timeline(cluster, PODS)
        configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(  # type: ignore[no-untyped-call]  # has no types
            config_file=str(cluster.kubeconfig), client_configuration=configuration
        )
        self._core = kubernetes.client.CoreV1Api(kubernetes.client.ApiClient(configuration))

    def attempt(self, *, after: float = 0.0) -> Attempt:
        """The next gang, once both of its containers run."""
        made = self._jobs.first(lambda seen: seen.type == "ADDED", what="a Job", after=after)
        running = [
            self._pods.first(
                lambda seen, index=index: _of(seen, job=made.name, index=index) and _runs(seen),  # type: ignore[misc]
                what=f"container {index} of {made.name}",
            )
            for index in range(NODES)
        ]
        return Attempt(
            job=made.name,
            uid=str(made.body["metadata"]["uid"]),
            pods=tuple(seen.name for seen in running),
            made_at=made.at,
            runs_at=max(seen.at for seen in running),
        )

    def beginning(self, attempt: Attempt) -> Beginning:
        """What the first pod's log says while it is written."""
        described_at: float | None = None
        restore: float | None = None
        deadline = time.monotonic() + WAIT_SECONDS
        for line in self._log(attempt.pods[0]):
            now = time.monotonic()
            with contextlib.suppress(checksum.Damaged):  # what libraries say is no record
                match records.read_line(line.rstrip()):
                    case records.Environment():
                        described_at = described_at or now
                    case records.Resumed() as resumed:
                        restore = resumed.restore_seconds
                    case records.Window() as window if described_at is not None:
                        return Beginning(described_at, restore, now - window.nanoseconds / NANOSECONDS)
            if now > deadline:
                break
        raise TimeoutError(f"{attempt.pods[0]} did not begin to train within {WAIT_SECONDS:g} s")

    def _log(self, pod: str) -> Iterator[bytes]:
        """Its lines as they are written."""
        follow: Any = self._core.read_namespaced_pod_log  # typed as if it always read everything
        while True:
            try:
                answer = follow(pod, NAMESPACE, container=names.CONTAINER, follow=True, _preload_content=False)
                break
            except kubernetes.client.ApiException as error:
                if error.status != 400:  # its container waits to be started
                    raise
                time.sleep(LOOK_SECONDS)
        try:
            yield from answer
        finally:
            answer.close()

    def evict(self, attempt: Attempt, *, index: int) -> float:
        """The moment just before the request."""
        pod = attempt.pods[index]
        mark = {"metadata": {"annotations": {names.ANNOTATION_DRILLED: pod}}}
        self._cluster.request("PATCH", f"{JOBS}/{attempt.job}", mark, content_type=PATCH)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        sent_at = time.monotonic()
        self._cluster.request("POST", f"{PODS}/{pod}/eviction", body)
        return sent_at

    def recovery(self, attempt: Attempt, *, sent_at: float) -> tuple[Parts, Attempt]:
        """The parts of the way to training again, and the attempt that trains."""
        deleted = self._jobs.first(
            lambda seen: seen.name == attempt.job and "deletionTimestamp" in seen.body["metadata"],
            what=f"the deletion of {attempt.job}",
        )
        gone = self._jobs.first(
            lambda seen: seen.name == attempt.job and seen.type == "DELETED", what=f"the end of {attempt.job}"
        )
        following = self.attempt(after=sent_at)
        begun = self.beginning(following)
        if begun.restore is None:
            raise RuntimeError(f"{following.job} began anew: the attempt before it kept no checkpoint")
        moments = (
            sent_at, deleted.at, gone.at, following.made_at, following.runs_at, begun.described_at, begun.trains_at,
        )  # fmt: skip
        *before, beginning = [later - earlier for earlier, later in itertools.pairwise(moments)]
        return Parts._make([*before, begun.restore, beginning - begun.restore]), following


def _of(seen: Seen, *, job: str, index: int) -> bool:
    labels = seen.body["metadata"].get("labels") or {}
    return labels.get(JOB) == job and labels.get(INDEX) == str(index)


def _runs(seen: Seen) -> bool:
    statuses = (seen.body.get("status") or {}).get("containerStatuses") or ()
    return any("running" in (one.get("state") or {}) for one in statuses if one["name"] == names.CONTAINER)


def provide_claim(cluster: Cluster, folder: Path) -> None:
    """A folder of this machine, as a volume that every node can mount."""
    folder.mkdir()
    volume = {"capacity": SIZE, "hostPath": {"path": str(folder)}, **STORAGE}
    claim = {"resources": {"requests": SIZE}, **STORAGE}
    for path, kind, spec in (
        ("/api/v1/persistentvolumes", "PersistentVolume", volume),
        (f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims", "PersistentVolumeClaim", claim),
    ):
        body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": CLAIM}, "spec": spec}
        cluster.request("POST", path, body)


def measure(place: Place, *, preemptions: int) -> list[Parts]:
    """Interrupt, watch, again."""
    attempt = place.attempt()
    place.beginning(attempt)
    found = []
    for number in range(preemptions):
        time.sleep(TRAINING_SECONDS)
        sent_at = place.evict(attempt, index=number % NODES)
        parts, attempt = place.recovery(attempt, sent_at=sent_at)
        found.append(parts)
        print(f"{number + 1:3}: {parts.total:5.1f} s, without imports {parts.without_imports:5.1f} s", flush=True)
    return found


def show(found: list[Parts]) -> bool:
    """Print the parts; whether the goal is met by the median."""
    table = Table(title=f"From an eviction through the API to training again, {len(found)} preemptions, seconds")
    for column in ("", "p50", "p90", "max"):
        table.add_column(column, justify="right" if column else "left")
    for name in Parts._fields:
        _row(table, name.replace("_", " "), [getattr(parts, name) for parts in found])
    table.add_section()
    _row(table, "total", [parts.total for parts in found])
    bare = [parts.without_imports for parts in found]
    _row(table, "total without imports", bare)
    Console().print(table)
    median = statistics.median(bare)
    met = median <= GOAL_SECONDS
    print(f"median without imports: {median:.1f} s (goal: {GOAL_SECONDS:g} s{'' if met else ', not met'})")
    return met


def _row(table: Table, name: str, values: list[float]) -> None:
    ninth = statistics.quantiles(values, n=10, method="inclusive")[8] if len(values) > 1 else values[0]
    table.add_row(name, f"{statistics.median(values):.2f}", f"{ninth:.2f}", f"{max(values):.2f}")


def _load() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores"


def main() -> int:
    """Start, interrupt, print; 1 where the goal is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preemptions", type=int, default=PREEMPTIONS, help=f"{PREEMPTIONS} by default")
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    cores = len(os.sched_getaffinity(0))
    nodes = [Node(name=f"cpu-{n}", labels={"pool": "cpu"}, cores=(n % cores,)) for n in range(NODES)]
    images = {"gpubench-jobs:bench": Image(path=(Path(sys.executable).parent,))}
    print(f"{_load()} before the cluster is started", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="gpubench-bench-") as folder,
        Cluster.start(Path(folder) / "cluster", nodes=nodes, images=images, audit_log=False) as cluster,
        installation.running_operator(cluster, log=Path(folder) / "operator.log"),
    ):
        place = Place(cluster)
        provide_claim(cluster, Path(folder) / "checkpoints")
        cluster.request("POST", kube.POOLS.path(), POOL)
        cluster.request("POST", STUDIES, STUDY)
        found = measure(place, preemptions=chosen.preemptions)
        print(f"{_load()} at the end, the gang itself included")
    return 0 if show(found) else 1


if __name__ == "__main__":
    sys.exit(main())
