# SPDX-License-Identifier: Apache-2.0
"""`make bench-scale`: 10, 100 and 1,000 benchmarks of ten trials at once, then five thousand finished ones beside some.

Real API server, scheduler and controller-manager; the pods have no process, and end as soon as they run. Beside the
benchmarks, in turn, one client makes the same Jobs bare: as many at a time, each as the one before it has ended.

Bars: trials per second at least half of the bare Jobs'; p99 of a reconcile with 1,000 at most three times that with 10;
memory at most 256 MiB; no renewal of the Lease later than allowed. Numbers are of the machine they ran on.
"""

import contextlib
import copy
import functools
import multiprocessing
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any, NamedTuple

import kubernetes
import operator_latency as latency
import psutil
from rich.console import Console
from rich.table import Table

import installation
import stand_in_worker
import studies
from cluster import Cluster, Node
from cluster_pods import wait_for
from gpubench import metrics, names, records
from gpubench_cluster import kube

SIZES = (10, 100, 1000)
TRIALS = 10
FINISHED = 5000
ALLOWED_SHARE = 0.5
ALLOWED_SLOWER = 3.0
ALLOWED_BYTES = 256 * 2**20
QUIET_SECONDS = 30.0
WAIT_SECONDS = 3600.0
MAKERS = 8  # bare Jobs are created side by side, as the operator has so many workers
#: The Job controller's own limit, 20 requests a second, is that of four Jobs a second.
FAST = ("--kube-api-qps=2000", "--kube-api-burst=4000", "--concurrent-job-syncs=20", "--concurrent-gc-syncs=20")
LOG = records.line(stand_in_worker.ENVIRONMENT)  # of pod 0, which is read once of each benchmark
SELECTOR = f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}"


def benchmark(name: str, trials: int) -> dict[str, Any]:
    block = {"workloads": ["mnist_mlp"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [1]}
    made = latency.study(name)
    made["spec"] = {"sweep": [block], "measure": {"repeats": {"min": trials, "max": trials}}}
    return made


class Ender:
    """Another process, which ends each pod that runs with the result of its trial, some seconds later."""

    def __init__(self, cluster: Cluster, *, seconds: int = 0) -> None:
        context = multiprocessing.get_context("fork")
        self._ended: Synchronized[int] = context.Value("i", 0)
        self._process = context.Process(target=_end_pods, args=(cluster, self._ended, seconds), daemon=True)
        self._process.start()

    @property
    def ended(self) -> int:
        return self._ended.value

    def close(self) -> None:
        self._process.kill()


def _end_pods(cluster: Cluster, ended: "Synchronized[int]", seconds: int) -> None:
    api = _client(cluster)
    pods, seen = api.CoreV1Api(), set[str]()
    while True:
        for event in cluster.watch(f"{latency.PODS_PATH}?labelSelector={SELECTOR}", timeout_seconds=600):
            body = event["object"]
            if body.get("status", {}).get("phase") != "Running" or kube.uid_of(body) in seen:
                continue
            seen.add(kube.uid_of(body))
            state = studies.finished_state({"spec": {"template": {"spec": body["spec"]}}}, now=0.0)["terminated"]
            annotations = {
                "gpubench.dev/pretend-exit": str(seconds),
                "gpubench.dev/pretend-message": state["message"],
                "gpubench.dev/pretend-log": LOG,
            }
            with contextlib.suppress(api.ApiException):  # it went meanwhile
                change = {"metadata": {"annotations": annotations}}
                pods.patch_namespaced_pod(kube.name_of(body), latency.NAMESPACE, change, _preload_content=False)
                ended.value += 1


def _client(cluster: Cluster) -> Any:
    """The synchronous client, whose connections stay."""
    library: Any = kubernetes
    library.config.load_kube_config(str(cluster.kubeconfig))
    return library.client


def of_benchmarks(cluster: Cluster, ender: Ender, count: int, *, trials: int, prefix: str) -> float:
    """Seconds from the first apply until all have finished."""
    before, began = ender.ended, time.monotonic()
    for number in range(count):
        cluster.request("POST", latency.STUDIES, benchmark(f"{prefix}{number}", trials))
    wait_for(
        lambda: ender.ended - before >= count * trials,
        what=f"{count} times {trials} pods",
        timeout_seconds=WAIT_SECONDS,
    )
    wait_for(
        functools.partial(_have_finished, cluster, prefix), what="the benchmarks' ends", timeout_seconds=WAIT_SECONDS
    )
    return time.monotonic() - began


def _have_finished(cluster: Cluster, prefix: str) -> bool:
    bodies = [one for one in _pages(cluster, latency.STUDIES) if kube.name_of(one).startswith(prefix)]
    return all((body.get("status") or {}).get("completionTime") for body in bodies)


def _pages(cluster: Cluster, path: str) -> Iterator[Any]:
    token = ""
    while True:
        answer = cluster.request("GET", f"{path}?limit=500&continue={token}")
        yield from answer["items"]
        token = answer["metadata"].get("continue", "")
        if not token:
            return


def of_bare_jobs(cluster: Cluster, like: dict[str, Any], count: int) -> float:
    """Seconds for as many Jobs as that many benchmarks have trials, made by one client as those before end."""
    jobs = _client(cluster).BatchV1Api()

    def make(chain: int, number: int) -> None:
        body = copy.deepcopy(like)
        body["metadata"]["name"] = f"bare-{count}-{chain}-{number}"
        jobs.create_namespaced_job(latency.NAMESPACE, body, _preload_content=False)

    began, left = time.monotonic(), dict.fromkeys(range(count), TRIALS)
    with futures.ThreadPoolExecutor(MAKERS) as makers:
        made = [makers.submit(make, chain, TRIALS) for chain in range(count)]
        for name in _complete(cluster, f"bare-{count}-", until=lambda: not any(left.values())):
            chain, number = map(int, name.split("-")[2:])
            if left[chain] == number:
                left[chain] -= 1
                if left[chain]:
                    made.append(makers.submit(make, chain, left[chain]))
        for one in made:
            one.result()
    return time.monotonic() - began


def _complete(cluster: Cluster, prefix: str, *, until: Callable[[], bool]) -> Iterator[str]:
    """Names of Jobs that are complete, some again and again; the server ends a watch that is read too slowly."""
    version = ""
    while not until():
        path = f"{latency.JOBS}?labelSelector={SELECTOR}&resourceVersion={version}"
        for event in cluster.watch(path, timeout_seconds=WAIT_SECONDS):
            body = event["object"]
            if event["type"] == "ERROR":  # the version is too old: all from the beginning
                version = ""
                break
            version = body["metadata"]["resourceVersion"]
            conditions = (body.get("status") or {}).get("conditions") or ()
            if kube.name_of(body).startswith(prefix) and any(one["type"] == "Complete" for one in conditions):
                yield kube.name_of(body)
            if until():
                return


def as_bare(job: kube.Object) -> kube.Object:
    """The Job that the operator made, as somebody else may make it."""
    labels = {names.LABEL_COMPONENT: names.COMPONENT_GANG}
    template = copy.deepcopy(job["spec"]["template"])
    template["metadata"] = {"labels": labels}
    kept = ("completionMode", "completions", "parallelism", "backoffLimit", "activeDeadlineSeconds")
    spec = {key: job["spec"][key] for key in kept if key in job["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": labels},
        "spec": spec | {"template": template, "ttlSecondsAfterFinished": 600},
    }


class Reading(NamedTuple):
    """What the operator's own metrics say, summed since its start."""

    reconciles: list[float]
    lags: list[float]
    requests: float
    cpu: float

    @classmethod
    def of(cls, operator: installation.Operator) -> "Reading":
        page = operator.get("/metrics")
        reconciles, lags = (
            latency.values(page, f"{one.name}_bucket") for one in (metrics.RECONCILE_SECONDS, metrics.LOOP_LAG)
        )
        requests = sum(latency.values(page, metrics.API_REQUESTS.name))
        return cls(reconciles, lags, requests, latency.cpu(psutil.Process(operator.pid)))


def quantile(metric: metrics.Metric, before: list[float], after: list[float], share: float) -> float:
    """As histogram_quantile of Prometheus has it: straight lines within the buckets."""
    counts = [late - early for late, early in zip(after, before, strict=True)]
    wanted, begin, below = share * counts[-1], 0.0, 0.0
    for end, count in zip(metric.buckets, counts, strict=False):
        if count >= wanted:
            return begin + (end - begin) * (wanted - below) / max(count - below, 1.0)
        begin, below = end, count
    return begin


def main() -> int:
    """All sizes; 1 when a bar does not hold."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sizes = tuple(map(int, sys.argv[1:])) or SIZES
    capacity = {"cpu": "1000", "memory": "1000Gi", "pods": "5000"}
    nodes = [Node(name=f"pretend-{n}", labels={"pretend": "yes"}, capacity=capacity, pretend=True) for n in range(4)]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpubench-scale-")))
        cluster = stack.enter_context(
            Cluster.start(folder / "it", nodes=nodes, audit_log=False, controller_manager_flags=FAST)
        )
        operator = stack.enter_context(installation.running_operator(cluster, log=folder / "operator.log"))
        ender = stack.enter_context(contextlib.closing(Ender(cluster)))
        cluster.request("POST", "/apis/gpubench.dev/v1alpha1/gpupools", latency.POOL)
        of_benchmarks(cluster, ender, 1, trials=1, prefix="first")
        (job, *_) = cluster.request("GET", latency.JOBS)["items"]
        return 0 if measured(cluster, operator, ender, as_bare(job), sizes) else 1


def measured(
    cluster: Cluster, operator: installation.Operator, ender: Ender, bare: kube.Object, sizes: tuple[int, ...]
) -> bool:
    """Print a line for each size, then what many finished ones cost; whether all bars hold."""
    process = psutil.Process(operator.pid)
    table = Table(title=f"Benchmarks of {TRIALS} trials at once")
    columns = ("benchmarks", "trials/s", "bare Jobs/s", "share", "reconcile p50 ms", "p99", "lag p99", "requests/trial")
    for column in (*columns, "CPU ms/trial", "MiB", "Lease s"):
        table.add_column(column, justify="right")
    held, p99s = [], list[float]()
    for count in sizes:
        before, lease = Reading.of(operator), latency.Lease(cluster)
        ours = count * TRIALS / of_benchmarks(cluster, ender, count, trials=TRIALS, prefix=f"b{count}x")
        after, memory = Reading.of(operator), process.memory_info().rss
        lease.close()
        theirs = count * TRIALS / of_bare_jobs(cluster, bare, count)
        middle, p99 = (
            quantile(metrics.RECONCILE_SECONDS, before.reconciles, after.reconciles, share) for share in (0.5, 0.99)
        )
        lag = quantile(metrics.LOOP_LAG, before.lags, after.lags, 0.99)
        p99s.append(p99)
        held += [ours >= ALLOWED_SHARE * theirs, memory <= ALLOWED_BYTES, lease.longest < latency.LEASE_LATE_SECONDS]
        each = ((after.requests - before.requests), 1000 * (after.cpu - before.cpu))
        requests, cpu = (f"{number / count / TRIALS:.1f}" for number in each)
        numbers = (f"{ours:.1f}", f"{theirs:.1f}", f"{ours / theirs:.2f}", *map(latency.ms, (middle, p99, lag)))
        table.add_row(str(count), *numbers, requests, cpu, f"{memory / 2**20:.0f}", f"{lease.longest:.1f}")
        Console(width=140).print(table)
    held.append(p99s[-1] <= ALLOWED_SLOWER * p99s[0])
    return all([*held, beside_finished(cluster, operator, ender, sizes)])


def beside_finished(cluster: Cluster, operator: installation.Operator, ender: Ender, sizes: tuple[int, ...]) -> bool:
    """Print what the operator costs beside finished ones while nothing runs; whether its memory is in its bound."""
    more = max(0, FINISHED - sum(sizes))
    took = of_benchmarks(cluster, ender, more, trials=1, prefix="more") if more else 0.0
    print(f"{more} further benchmarks of one trial: {took:.0f} s")
    operator.stop()
    began = time.monotonic()
    operator.start()
    of_benchmarks(cluster, ender, 1, trials=1, prefix="after")
    print(f"from the operator's start to the end of a first benchmark beside them: {time.monotonic() - began:.1f} s")
    every = max(FINISHED, sum(sizes))  # each has one point
    wait_for(functools.partial(_has_series, operator, every), what="all series", timeout_seconds=WAIT_SECONDS)
    print(f"to the series of all of them: {time.monotonic() - began:.1f} s")
    before = Reading.of(operator)
    time.sleep(QUIET_SECONDS)
    after, memory = Reading.of(operator), psutil.Process(operator.pid).memory_info().rss
    print(
        f"while nothing runs: {100 * (after.cpu - before.cpu) / QUIET_SECONDS:.1f} % of a processor, "
        f"{(after.requests - before.requests) / QUIET_SECONDS:.2f} requests a second, {memory / 2**20:.0f} MiB"
    )
    return memory <= ALLOWED_BYTES


def _has_series(operator: installation.Operator, count: int) -> bool:
    time.sleep(5.0)  # a page with the series of 5,000 benchmarks is long
    return len(latency.values(operator.get("/metrics"), metrics.THROUGHPUT.name)) >= count


if __name__ == "__main__":
    sys.exit(main())
