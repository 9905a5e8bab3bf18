# SPDX-License-Identifier: Apache-2.0
"""Records objects in each state that a GitOps tool meets, from a real API server and the operator.

    PYTHONPATH=tests/support:tests/cluster:tests/charts python tests/charts/record_objects.py

writes `recorded_objects.yaml` anew: a few minutes, and no part of any check. A worker of seconds plays the training.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

import installation
import stand_in_worker
import studies
from cluster import Cluster, Image, Node
from gpubench import names
from gpubench.plan import expand
from gpubench_cluster import kube

RECORDED = Path(__file__).resolve().parent / "recorded_objects.yaml"
WAIT_SECONDS = 300.0
RESOURCES = {
    names.BENCHMARK_KIND: kube.BENCHMARKS,
    names.POOL_KIND: kube.POOLS,
    names.SCHEDULE_KIND: kube.SCHEDULES,
}
_HEADER = """\
# Objects as the operator left them on an API server, less the figures: written by tests/charts/record_objects.py.
# yamllint disable rule:indentation rule:line-length
"""


def benchmark(
    name: str, *, pool: str = "process", exit_code: int = 0, seconds: float = 0.3, **spec: Any
) -> kube.Object:
    sweep = [{"workloads": ["mnist_cnn"], "pools": [pool], "workers": [1], "batchPerWorker": [64]}]
    env = [{"name": "STAND_IN_EXIT_CODE", "value": str(exit_code)}, {"name": "STAND_IN_SECONDS", "value": str(seconds)}]
    return studies.benchmark(name, repeats=1, sweep=sweep, template={"env": env}, **spec)


def schedule(name: str, **spec: Any) -> kube.Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.SCHEDULE_KIND,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedule": "0 3 1 1 *", "benchmarkTemplate": {"spec": benchmark("b")["spec"]}, **spec},
    }


def wanted() -> list[tuple[kube.Object, str, str, str]]:
    """Each object, and the condition by whose status and reason its state is known."""
    return [
        (studies.pool("process", maxNodes=1), "Ready", "True", "NodesReady"),
        (studies.pool("pretend", maxNodes=1), "Ready", "False", "NoNodeReady"),
        (studies.pool("absent", maxNodes=1), "Ready", "False", "NoNode"),
        (benchmark("succeeded"), "Succeeded", "True", ""),
        (benchmark("failed", exit_code=70), "Succeeded", "False", ""),
        (benchmark("over-budget", limits={"budget": "0.000001"}), "Finished", "True", ""),
        (benchmark("running", seconds=600), "Progressing", "True", ""),
        (benchmark("suspended", suspend=True), "Suspended", "True", ""),
        (benchmark("without-pool", pool="later"), "Progressing", "False", "WaitingForPools"),
        (schedule("scheduled"), "Ready", "True", "Scheduled"),
        (schedule("suspended", suspend=True), "Ready", "False", "Suspended"),
    ]


def record(cluster: Cluster, body: kube.Object, type_: str, status: str, reason: str) -> kube.Object:
    """The object when it has the condition, without what no health check reads."""
    resource, metadata = RESOURCES[body["kind"]], body["metadata"]
    path = resource.path(namespace=metadata.get("namespace"), name=metadata["name"])
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found: kube.Object = cluster.request("GET", path)
        said = {one["type"]: one for one in (found.get("status") or {}).get("conditions") or ()}
        if type_ in said and said[type_]["status"] == status and reason in ("", said[type_]["reason"]):
            break
        if time.monotonic() > deadline:
            raise TimeoutError(f"{metadata['name']}: {said}")
        time.sleep(0.2)
    kept = ("phase", "observedGeneration", "conditions", "message", "nodes", "readyNodes")
    told = {name: value for name, value in found["status"].items() if name in kept}
    return {
        "apiVersion": found["apiVersion"],
        "kind": found["kind"],
        "metadata": {"name": metadata["name"], "generation": found["metadata"]["generation"]},
        "status": told,
    }


def recorded(folder: Path) -> list[kube.Object]:
    program = folder / "image" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in_worker.__file__}" "$@"\n')
    program.chmod(0o755)
    image = Image(path=(program.parent, "/usr/bin", "/bin"), env=installation.POD_ENVIRONMENT)
    nodes = (
        Node(name="pretend-0", labels={"pool": "pretend"}, capacity={"cpu": "8"}, pretend=True),
        Node(name="process-0", labels={"pool": "process"}, cores=(0,)),
    )
    with Cluster.start(folder / "cluster", nodes=nodes, images={expand.DEFAULT_IMAGE: image}) as cluster:
        account = installation.install(cluster)
        cluster.kubectl("cordon", "pretend-0")
        operator = installation.Operator(account, log=folder / "log", settings={"GPUBENCH_NODE_POLL_SECONDS": "2"})
        operator.start()
        try:
            found = []
            for body, type_, status, reason in wanted():
                cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))
                found.append(record(cluster, body, type_, status, reason))
        finally:
            operator.stop()
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        text = yaml.safe_dump_all(recorded(Path(folder)), sort_keys=False, width=120, explicit_start=True)
    RECORDED.write_text(_HEADER + text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
