# SPDX-License-Identifier: Apache-2.0
"""`make bench-tenants`: another tenant's benchmarks beside one who tries everything that the role `edit` lets her try.

Her attempts are the functions of `attempts`. The chart's admission policies are off in a first part, on in a second.
In each, five pairs of runs of the other tenant's benchmark, without her and beside her, in alternating order. Bars: it
ends as without her, and the median of the five delays is at most a tenth. What each attempt met is printed.

Real API server, scheduler and controller-manager; the pods have no process, and end two seconds after they run.
"""

import concurrent.futures
import contextlib
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import operator_scale
import yaml

import builders
import helm_programs
import installation
import rendering
import stored_analysis
import studies
from cluster import ApiError, Cluster, Node
from cluster_pods import wait_for
from gpubench import names
from gpubench.scheduler import manifests
from gpubench_cluster import kube

PAIRS = 5
ALLOWED_DELAY = 0.10
OBJECTS = 10_000
SLOTS = 16
HERS, ACCOUNT = "mallory", "system:serviceaccount:mallory:default"
EDIT = f"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: gpubench-edit
  labels: {{rbac.authorization.k8s.io/aggregate-to-edit: "true"}}
rules: [{{apiGroups: [gpubench.dev], resources: [gpubenchmarks, gpubenchmarkschedules], verbs: ["*"]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: edit, namespace: {HERS}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit}}
subjects: [{{kind: ServiceAccount, name: default, namespace: {HERS}}}]
"""
PAUSE = {"name": "c", "image": "pause"}
Body = dict[str, Any]


def alice() -> Body:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [2], "batchPerWorker": [64]}]
    return studies.benchmark("alice", repeats=4, sweep=sweep)


# --- what she tries ---------------------------------------------------------------------------------------------------


def pod(name: str, marks: Body, *, node: str | None = None, message: str = "") -> Body:
    annotations = {"gpubench.dev/pretend-exit": "0", "gpubench.dev/pretend-message": message} if message else {}
    spec: Body = {"containers": [PAUSE], "terminationGracePeriodSeconds": 0, **({"nodeName": node} if node else {})}
    metadata = {"name": name, "labels": marks, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def job(name: str, marks: Body, *, owner: kube.Object | None = None, annotations: Body | None = None) -> Body:
    template = {"metadata": {"labels": marks}, "spec": {"restartPolicy": "Never", "containers": [PAUSE]}}
    metadata: Body = {"name": name, "labels": marks, "annotations": annotations or {}}
    if owner is not None:
        about = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND, "controller": True}
        metadata["ownerReferences"] = [{**about, "name": kube.name_of(owner), "uid": kube.uid_of(owner)}]
    spec = {"parallelism": 1, "completions": 1, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def config_map(name: str, marks: Body | None = None, **data: str) -> Body:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": marks or {}}, "data": data}


class Mallory:
    """She has the role edit in her own namespace, and reads the other's UID somewhere."""

    def __init__(self, cluster: Cluster, *, victim: str) -> None:
        self._cluster, self.victim = cluster, victim
        self.met: dict[str, str] = {}
        self.mine = self.create(studies.benchmark("mine", namespace=HERS, repeats=2, sweep=alice()["spec"]["sweep"]))

    def ask(self, *arguments: str, body: Any = None, namespace: str = HERS) -> str:
        """What she was told; empty where it was done."""
        identity = (
            "-n",
            namespace,
            "--as",
            ACCOUNT,
            "--as-group",
            "system:serviceaccounts",
            "--as-group",
            "system:authenticated",
        )
        stdin = None if body is None else json.dumps(body)
        done = self._cluster.kubectl(*arguments, *identity, stdin=stdin, check=False)
        return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]

    def create(self, body: Body) -> kube.Object:
        if told := self.ask("apply", "-f", "-", body=body):
            raise PermissionError(told)
        path = kube.BENCHMARKS.path(namespace=HERS, name=body["metadata"]["name"])
        found: kube.Object = self._cluster.request("GET", path)
        return found

    def patch(self, what: str, change: Body) -> str:
        return self.ask("patch", what, "--type=merge", "-p", json.dumps(change))

    def first(self, kind: str, *, ends: str = "") -> str:
        """The first of her benchmark's own objects of a kind, as kubectl names it."""
        marks = f"{names.LABEL_BENCHMARK_UID}={kube.uid_of(self.mine)}"
        listed = self._cluster.kubectl("get", kind, "-n", HERS, "-l", marks, "-o", "name").stdout.split()
        return next((name for name in listed if name.endswith(ends)), f"{kind}/none")

    def all(self) -> None:
        """Every attempt, one after the other, while a gang of hers runs."""
        wait_for(lambda: not self.first("pods").endswith("/none"), what="her own gang", timeout_seconds=60)
        for number, (what, attempt) in enumerate(self.attempts().items(), 1):
            told = attempt()
            self.met[f"{number:2} {what}"] = told or "done"

    def attempts(self) -> dict[str, Callable[[], str]]:
        mine, other = kube.uid_of(self.mine), self.victim
        study = builders.study().model_copy(update={"namespace": HERS, "name": "mine", "uid": mine})
        make = partial(self.ask, "apply", "-f", "-")
        key = {"data": {"t.9": json.dumps({"trial": "t", "attempt": 9, "outcome": "Succeeded"})}}
        forged = json.dumps({"kind": "result", "trial": "t", "attempt": 1, "throughput": 1e12})
        drilled = {"metadata": {"annotations": {names.ANNOTATION_DRILLED: "x"}}}
        kept = {"metadata": {"finalizers": ["example.com/keep"]}}
        whole = [{**alice()["spec"]["sweep"][0], "workers": [SLOTS * 8]}]
        squatted = names.plan_name("next", mine)
        return {
            "a labelled pod of nobody": lambda: make(body=pod("p1", studies.forged_labels("nobody"))),
            "a labelled pod of her own benchmark": lambda: make(body=pod("p2", studies.forged_labels(mine))),
            "a labelled pod of the other's benchmark": lambda: make(body=pod("p3", studies.forged_labels(other))),
            "an exclusive pod on a node": lambda: make(
                body=pod("p4", {**studies.forged_labels("nobody"), names.LABEL_EXCLUSIVE: "true"}, node="pretend-0")
            ),
            "a pod with the other's trial and a forged result": lambda: make(
                body=pod("p5", studies.forged_labels(other), message=forged)
            ),
            "a pod with a result that is no JSON": lambda: make(
                body=pod("p6", studies.forged_labels(mine), message="{" * 4000)
            ),
            "a Job of nobody": lambda: make(body=job("j1", studies.forged_labels("nobody"))),
            "a Job of her own benchmark by its labels": lambda: make(body=job("j2", studies.forged_labels(mine))),
            "a Job with her benchmark as its owner": lambda: make(
                body=job("j3", studies.forged_labels(mine), owner=self.mine)
            ),
            "a Job with the other's benchmark's UID": lambda: make(body=job("j4", studies.forged_labels(other))),
            "a Job for another pool": lambda: make(
                body=job("j5", studies.forged_labels(mine, **{names.LABEL_POOL: "other"}))
            ),
            "a Job that says it was drilled": lambda: make(
                body=job("j6", studies.forged_labels(mine), annotations={names.ANNOTATION_DRILLED: "p"})
            ),
            "her running Job marked as drilled": lambda: self.patch(self.first("jobs"), drilled),
            "her running Job with a million slots": lambda: self.patch(
                self.first("jobs"), {"metadata": {"labels": {names.LABEL_SLOTS: "1000000"}}}
            ),
            "her running Job without its owner": lambda: self.patch(
                self.first("jobs"), {"metadata": {"ownerReferences": None}}
            ),
            "a finalizer on her running Job": lambda: self.patch(self.first("jobs"), kept),
            "a finalizer on a running pod": lambda: self.patch(self.first("pods"), kept),
            "her running pod with the other's UID": lambda: self.patch(
                self.first("pods"), {"metadata": {"labels": {names.LABEL_BENCHMARK_UID: other}}}
            ),
            "a ConfigMap with the other's ledger's labels": lambda: make(
                body=config_map("c1", studies.forged_labels(other, **{names.LABEL_COMPONENT: names.COMPONENT_LEDGER}))
            ),
            "a ConfigMap of the name of a plan": lambda: make(body=config_map(squatted)),
            "an entry written into her ledger": lambda: self.patch(self.first("cm", ends="-ledger-0"), key),
            "her plan deleted": lambda: self.ask("delete", self.first("cm", ends="-plan")),
            "her ledger made immutable": lambda: self.patch(self.first("cm", ends="-ledger-0"), {"immutable": True}),
            "an analysis that is somebody's poem": lambda: make(
                body=config_map(names.analysis_name("mine", mine, part=0), part="roses")
            ),
            "a status of her own": lambda: self.ask(
                "patch",
                "gpubenchmark/mine",
                "--subresource=status",
                "--type=merge",
                "-p",
                '{"status": {"results": []}}',
            ),
            "a benchmark of the other's name": lambda: make(body={**alice(), "metadata": {"name": "alice"}}),
            "a benchmark for more than the whole pool": lambda: make(
                body=studies.benchmark("whole", namespace=HERS, repeats=1, sweep=whole)
            ),
            "a benchmark of her own image that forges tests": lambda: make(
                body=studies.benchmark(
                    "own", namespace=HERS, repeats=2, sweep=alice()["spec"]["sweep"], template={"image": "forger"}
                )
            ),
            "a schedule each minute": lambda: make(
                body={
                    "apiVersion": names.API_VERSION,
                    "kind": names.SCHEDULE_KIND,
                    "metadata": {"name": "often"},
                    "spec": {"schedule": "* * * * *", "benchmarkTemplate": {"spec": studies.benchmark()["spec"]}},
                }
            ),
            "an Event about the other's benchmark": lambda: make(
                body={
                    "apiVersion": "v1",
                    "kind": "Event",
                    "metadata": {"name": "e1"},
                    "reason": "Finished",
                    "message": "it is over",
                    "involvedObject": {"kind": names.BENCHMARK_KIND, "name": "alice", "uid": other, "namespace": HERS},
                }
            ),
            "the operator's Lease": lambda: self.ask(
                "delete", "lease", "gpubench-operator", namespace=installation.NAMESPACE
            ),
            "a replayed entry of the other's ledger": lambda: make(
                body=manifests.ledger_config_map(study.model_copy(update={"uid": other}), 0, {"t.1": forged})
            ),
            f"{OBJECTS} labelled objects": self.flood,
        }

    def flood(self) -> str:
        """ConfigMaps, Jobs that are suspended, and pods that no scheduler takes, all with the operator's labels."""
        mine = kube.uid_of(self.mine)

        def create(number: int) -> str:
            name, marks = f"flood-{number}", studies.forged_labels(mine if number % 2 else self.victim)
            resource, body = (kube.CONFIG_MAPS, config_map(name, marks, x="y" * 1000))
            if number % 10 == 0:
                resource, body = kube.JOBS, job(name, marks)
                body["spec"]["suspend"] = True
            elif number % 10 == 1:
                resource, body = kube.PODS, pod(name, marks)
                body["spec"]["schedulerName"] = "nobody"
            try:
                self._cluster.request("POST", f"{resource.path(namespace=HERS)}", body)
            except ApiError as error:
                return str(error)
            return ""

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            refused = [told for told in pool.map(create, range(OBJECTS)) if told]
        return f"{len(refused)} refused, as {refused[0]}" if refused else ""


# --- the runs ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def beside(cluster: Cluster, *, victim: str) -> Iterator[Mallory]:
    """Mallory's namespace, gone in the end."""
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": HERS}})
    cluster.kubectl("apply", "-f", "-", stdin=EDIT)
    may = ("auth", "can-i", "create", names.BENCHMARK_PLURAL, "-n", HERS, "--as", ACCOUNT)
    wait_for(lambda: cluster.kubectl(*may, check=False).returncode == 0, what="her role", timeout_seconds=60)
    wait_for(lambda: account_is_there(cluster), what="her account", timeout_seconds=60)
    try:
        yield Mallory(cluster, victim=victim)
    finally:
        for kind in ("jobs", "pods"):
            for name in cluster.kubectl("get", kind, "-n", HERS, "-o", "name").stdout.split():
                if not name.split("/")[1].startswith("flood-"):
                    cluster.kubectl("patch", name, "-n", HERS, "-p", '{"metadata": {"finalizers": null}}', check=False)
        cluster.kubectl("delete", "namespace", HERS, "--wait=false")
        wait_for(lambda: not is_there(cluster, f"/api/v1/namespaces/{HERS}"), what="her end", timeout_seconds=900)


def account_is_there(cluster: Cluster) -> bool:
    return is_there(cluster, f"/api/v1/namespaces/{HERS}/serviceaccounts/default")


def is_there(cluster: Cluster, path: str) -> bool:
    try:
        cluster.request("GET", path)
    except ApiError as error:
        if error.status != 404:
            raise
        return False
    return True


def run(
    cluster: Cluster, mallory: Callable[[str], contextlib.AbstractContextManager[Mallory | None]]
) -> tuple[float, Body]:
    """Seconds that the other's benchmark takes, and what it tells in the end; she begins when it is there."""
    path = kube.BENCHMARKS.path(namespace="default", name="alice")
    wait_for(lambda: not is_there(cluster, path), what="the run before gone", timeout_seconds=60)
    created = cluster.request(
        "POST", kube.BENCHMARKS.path(namespace="default"), {**alice(), "spec": {**alice()["spec"], "suspend": True}}
    )
    with mallory(kube.uid_of(created)) as her:
        if her is not None:
            her.all()
            for what, told in her.met.items():
                print(f"  {what}: {told[:150]}")
        began = time.monotonic()
        change = {"spec": {"suspend": False}}
        cluster.request("PATCH", path, change, content_type="application/merge-patch+json")
        status: Body = {}

        def is_over() -> bool:
            status.update(cluster.request("GET", path).get("status") or {})
            return "completionTime" in status

        wait_for(is_over, what="the other's benchmark", timeout_seconds=600)
        took = time.monotonic() - began
    found = stored_analysis.of_cluster(partial(cluster.request, "GET"), namespace="default", name="alice")
    cluster.request("DELETE", f"{path}?propagationPolicy=Foreground")
    results = [{key: one.get(key) for key in ("state", "values", "warnings", "pool")} for one in found["results"]]
    return took, {"phase": found["phase"], "attempts": found["attempts"], "results": results}


def main() -> int:
    """Both parts; 1 when a bar does not hold."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    capacity = {"cpu": "64", "memory": "64Gi", "pods": "5000"}
    nodes = [
        Node(name=f"pretend-{n}", labels={"pool": "pretend"}, capacity=capacity, pretend=True) for n in range(SLOTS)
    ]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gpubench-tenants-")))
        flags = operator_scale.FAST
        cluster = stack.enter_context(
            Cluster.start(folder / "it", nodes=nodes, audit_log=False, controller_manager_flags=flags)
        )
        stack.enter_context(installation.running_operator(cluster, log=folder / "operator.log"))
        stack.enter_context(contextlib.closing(operator_scale.Ender(cluster, seconds=2)))
        cluster.request("POST", kube.POOLS.path(), studies.pool(maxNodes=SLOTS))
        held = [part(cluster, "policies off")]
        policies = rendering.policies(helm_programs.build()["helm4"], account=installation.ACCOUNT)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(policies))
        held.append(part(cluster, f"{len(policies) // 2} policies on"))
        return 0 if all(held) else 1


def part(cluster: Cluster, title: str) -> bool:
    """Five pairs; whether the bars hold."""
    print(f"{title}:")
    delays, same = list[float](), True
    run(cluster, lambda _: contextlib.nullcontext())
    for number in range(PAIRS):
        kinds: list[Any] = [lambda _: contextlib.nullcontext(), lambda uid: beside(cluster, victim=uid)]
        found = {at: run(cluster, kinds[at]) for at in ((0, 1) if number % 2 else (1, 0))}
        (quiet, told), (hostile, told_beside) = found[0], found[1]
        delays.append(hostile / quiet - 1)
        same &= told == told_beside
        alike = "the same" if told == told_beside else f"{told} became {told_beside}"
        print(f"  pair {number + 1}: {quiet:.1f} s without her, {hostile:.1f} s beside her, {alike}", flush=True)
    middle, *ends = (f"{100 * share:.1f}" for share in (statistics.median(delays), min(delays), max(delays)))
    print(f"  median delay {middle} % (all: {' to '.join(ends)} %; bar: {100 * ALLOWED_DELAY:.0f} %)")
    return same and statistics.median(delays) <= ALLOWED_DELAY


if __name__ == "__main__":
    sys.exit(main())
