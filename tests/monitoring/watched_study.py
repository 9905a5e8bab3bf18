# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, finding its targets as in `dashboards/scrape.yaml`, beside a real study: two nodes, two Horovod
ranks, a pod that is evicted, and a schedule whose run comes due meanwhile.

with running(folder) as seen:
    seen.prometheus.query("gpubench_spent")

`operator_edge/test_prometheus.py` asks the queries of all panels, rules and alerts. Must not happen: a wait without a
bound.
"""

import contextlib
import copy
import datetime
import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import yaml

import installation
import prometheus_server
import quickstart
import stored_analysis
from cluster import Cluster, Image, Node
from gpubench import metrics, names
from gpubench_cluster import kube
from prometheus_server import Prometheus

NAME, BEFORE, SCHEDULE = "seen", "before", "daily"
WORKLOAD = "mnist_mlp"
DASHBOARDS = installation.REPOSITORY / "dashboards"
#: Of `$__rate_interval`, for scrapes a second apart.
RATE_INTERVAL = "10s"
STEP = 1.0
STUDY_SECONDS = 600.0  # a bound; most of the study is `import tensorflow`
SCRAPED_SECONDS = 60.0
#: So that the operator has seen the schedule before its run is due.
_SOON_SECONDS = 20.0
#: Made of the looks at the ranks' own computing, which are left out where they take long.
OF_A_LOOK = {
    metrics.WORKER_COMPUTE.name,
    "rank:gpubench_worker_compute_seconds:max",
    "rank:gpubench_worker_allreduce:step_ratio",
    "rank:gpubench_worker_compute:behind_ratio",
}
LAST_RULE = "study:gpubench_trials:finished_ratio"  # of those of the group of figures; it has a value in any case


class Seen(NamedTuple):
    """The study's course, and who has watched it."""

    prometheus: Prometheus
    cluster: Cluster
    operator: installation.Operator
    status: dict[str, Any]
    schedule: dict[str, Any]  # its status
    looked: bool  # at the ranks' own computing, by their records
    scrapes: dict[str, str]  # of the operator, and of a rank while it trained
    begun: float
    ended: float


def objects(now: float) -> list[kube.Object]:
    """A spot pool, a run of seconds to hold the study against, a schedule of such runs, and the study: the quickstart
    with all that has a panel.

    The workload is traced in no time: looks at the ranks' own computing are left out where that takes long.
    """
    pool, study = yaml.safe_load_all(quickstart.FILE.read_text(encoding="utf-8").replace("mnist_cnn", WORKLOAD))
    pool["spec"]["capacityType"] = "Spot"
    before = copy.deepcopy(study)
    before["metadata"]["name"] = BEFORE
    before["spec"]["sweep"][0]["workers"] = [1]
    before["spec"]["measure"] = {"repeats": {"min": 1}, "warmUp": "1s", "duration": "1s", "window": "200ms"}
    study["metadata"]["name"] = NAME
    study["spec"] |= {
        "currency": "USD",
        "goals": [{"name": "long", "workload": WORKLOAD, "samples": 60_000_000}],
        "objective": {"minimize": "Cost", "goal": "long"},
        "baseline": {"workers": 1},
        "compareTo": {"benchmark": BEFORE},
    }
    study["spec"]["limits"] |= {"budget": "5.00", "attempts": {"failed": 1, "preempted": 5}}
    return [pool, before, _schedule(before["spec"], now), study]


def _schedule(spec: dict[str, Any], now: float) -> kube.Object:
    """Once a day, at the next whole minute: one run in the course of the study, and no second one."""
    due = datetime.datetime.fromtimestamp(now + _SOON_SECONDS, tz=datetime.UTC) + datetime.timedelta(minutes=1)
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.SCHEDULE_KIND,
        "metadata": {"name": SCHEDULE},
        "spec": {"schedule": f"{due.minute} {due.hour} * * *", "benchmarkTemplate": {"spec": spec}},
    }


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """With a node on each of two cores."""
    nodes = [Node(name=f"cpu-{core}", labels={"gpubench.dev/pool": "local-cpu"}, cores=(core,)) for core in range(2)]
    images = {"gpubench-jobs:dev": Image(path=(Path(sys.executable).parent,), env=installation.POD_ENVIRONMENT)}
    with Cluster.start(folder, nodes=nodes, images=images) as running:
        yield running


def configuration(cluster: Cluster, operator: installation.Operator) -> dict[str, Any]:
    """`scrape.yaml`, with the credentials of somebody outside the cluster; the operator is no pod here."""
    jobs = {
        job["job_name"]: job
        for job in yaml.safe_load((DASHBOARDS / "scrape.yaml").read_text(encoding="utf-8"))["scrape_configs"]
    }
    outside = jobs["gpubench-operator"]
    del outside["kubernetes_sd_configs"], outside["relabel_configs"]
    outside["static_configs"] = [{"targets": [f"127.0.0.1:{operator.port}"]}]
    gangs = jobs["gpubench-gangs"]
    gangs["scrape_interval"] = "1s"
    for found in gangs["kubernetes_sd_configs"]:
        found["kubeconfig_file"] = str(cluster.kubeconfig)
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(path) for path in sorted((DASHBOARDS / "rules").glob("*.yaml"))],
        "scrape_configs": [outside, gangs],
    }


def wait(until: Callable[[], Any], *, what: str, seconds: float) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := until()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.3)
    return found


def status(cluster: Cluster, name: str, resource: kube.Resource = kube.BENCHMARKS) -> dict[str, Any]:
    if resource is kube.BENCHMARKS:
        return stored_analysis.of_cluster(partial(cluster.request, "GET"), namespace="default", name=name)
    found: dict[str, Any] = cluster.request("GET", resource.path(namespace="default", name=name)).get("status") or {}
    return found


def has_finished(cluster: Cluster, name: str) -> bool:
    conditions = status(cluster, name).get("conditions", [])
    return any(one["type"] == "Finished" and one["status"] == "True" for one in conditions)


def evict_a_pod_of_a_gang_of_two(prometheus: Prometheus, cluster: Cluster) -> str:
    """While both ranks train; what one of them serves."""
    both = f'count(count by (rank) ({metrics.WORKER_LOSS.name}{{benchmark="{NAME}"}})) == 2'
    wait(lambda: prometheus.query(both), what="two ranks in Prometheus", seconds=STUDY_SECONDS)
    selector = f"{names.LABEL_BENCHMARK}%3D{NAME},{names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}"
    pods = cluster.request("GET", f"/api/v1/namespaces/default/pods?labelSelector={selector}")["items"]
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    text = installation.read_page(f"http://{running[0]['status']['podIP']}:{names.PORT_METRICS}/metrics")
    victim = kube.name_of(running[-1])
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": victim, "namespace": "default"}}
    cluster.request("POST", kube.PODS.path(namespace="default", name=victim, subresource="eviction"), eviction)
    return text


def scraped(prometheus: Prometheus, since: float) -> float | None:
    """When the operator was scraped last, if since then and in each second of late: one that it misses has no data."""
    job = '{job="gpubench-operator"}'
    for found in prometheus.query(f"timestamp(up{job}) >= {since} and min_over_time(up{job}[3s]) == 1"):
        return float(found["value"][1])
    return None


def has_looked(cluster: Cluster) -> bool:
    """Whether a rank has told how long it computes by itself; the pods of finished attempts are still there."""
    selector = f"{names.LABEL_BENCHMARK}={NAME},{names.LABEL_COMPONENT}={names.COMPONENT_GANG}"
    lines = cluster.kubectl("logs", "-l", selector, "--tail=-1").stdout.splitlines()
    told = [json.loads(line) for line in lines if line.startswith("{") and '"kind":"usage"' in line]
    assert told
    return any(record["computeSeconds"] for record in told)


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Seen]:
    """From an empty cluster to the end of the study, whose figures are in Prometheus then; all of it runs on until the
    block ends.
    """
    with (
        running_cluster(folder / "cluster") as cluster,
        installation.running_operator(cluster, log=folder / "operator.log", settings=installation.ALONE) as operator,
        prometheus_server.running(folder / "prometheus", configuration(cluster, operator)) as prometheus,
    ):
        begun = time.time()
        *first, study = objects(begun)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(first))
        wait(lambda: has_finished(cluster, BEFORE), what="the run before", seconds=STUDY_SECONDS)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(study))
        rank = evict_a_pod_of_a_gang_of_two(prometheus, cluster)
        wait(lambda: has_finished(cluster, NAME), what="the study", seconds=STUDY_SECONDS)
        wait(
            lambda: status(cluster, SCHEDULE, kube.SCHEDULES).get("lastResults"),
            what="the run of the schedule",
            seconds=STUDY_SECONDS,
        )
        over = f'{metrics.CONDITION.name}{{benchmark="{NAME}", condition="Finished"}} == 1'
        wait(lambda: prometheus.query(over), what="its end in Prometheus", seconds=SCRAPED_SECONDS)
        wait(lambda: prometheus.query(metrics.SCHEDULE_LAST.name), what="the schedule", seconds=SCRAPED_SECONDS)
        after = f'timestamp({LAST_RULE}{{benchmark="{NAME}"}}) >= {time.time()}'  # before, they had values, too
        wait(lambda: prometheus.query(after), what="the rules after it", seconds=SCRAPED_SECONDS)
        evaluated = time.time()
        yield Seen(
            prometheus=prometheus,
            cluster=cluster,
            operator=operator,
            status=status(cluster, NAME),
            schedule=status(cluster, SCHEDULE, kube.SCHEDULES),
            looked=has_looked(cluster),
            scrapes={"operator": operator.get("/metrics"), "rank": rank},
            begun=begun,
            ended=wait(lambda: scraped(prometheus, evaluated), what="a scrape after that", seconds=SCRAPED_SECONDS),
        )
