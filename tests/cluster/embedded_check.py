# SPDX-License-Identifier: Apache-2.0
"""What `make cluster-check` uses where no cluster is given: the embedded one, with pools of both capacity types.

The provider is a stand-in: it taints the node as GKE does ahead of a preemption, marks its pods as the kubelet does,
turns the machine off, and brings another one of the same name.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import cluster_cli
import demo
import installation
import studies
from cluster import Cluster, Node
from gpubench import names
from gpubench_cluster import kube

#: Capacity types, and prices such as those of one shared cloud processor.
POOLS = {"on-demand": ("OnDemand", "0.04"), "spot": ("Spot", "0.012")}
NOTICE = {"key": "cloud.google.com/impending-node-termination", "value": "true", "effect": "NoSchedule"}
OFF_SECONDS = 3.0  # from the notice to the end of the Node, and again until another one comes
#: As a kubelet that shuts down ends its pods.
SHUTDOWN = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "TerminationByKubelet",
    "message": "Pod was terminated in response to imminent node shutdown.",
}
MERGE_PATCH = "application/merge-patch+json"
#: Pods of the embedded cluster find each other without a DNS; doctor asks for one.
DNS = {
    "metadata": {"name": "kube-dns-1", "labels": {"kubernetes.io/service-name": "kube-dns"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": True}}],
}


@contextlib.contextmanager
def started() -> Iterator[Callable[[kube.Object], str]]:
    """The cluster with gpubench and its pools, in KUBECONFIG; and what takes a node of it away."""
    _, images = cluster_cli.read_config(demo.HERE / "demo.yaml")
    nodes = [
        Node(name=f"{pool}-{n}", labels={names.LABEL_POOL: pool}, cores=(n,), program=f"processnode-{pool}-{n}")
        for pool in POOLS
        for n in range(2)
    ]
    folder = Path(tempfile.mkdtemp(prefix="gpubench-check-"))  # stays where this fails: an error points to its logs
    log = folder / "operator.log"
    with (
        Cluster.start(folder / "cluster", nodes=nodes, images=images) as cluster,
        installation.running_operator(cluster, log=log),
    ):
        cluster.request("POST", "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", DNS)
        for name, (capacity, hour) in POOLS.items():
            price = {"perNodeHour": hour, "currency": "USD", "asOf": "2026-11-01"}
            own = {
                "scheduling": {"nodeSelector": {names.LABEL_POOL: name}},
                "template": {"image": next(iter(images))},
            }
            pool = studies.pool(name, capacityType=capacity, maxNodes=2, price=price, **own)
            cluster.request("POST", kube.POOLS.path(), pool)
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        yield lambda node: _reclaimed(cluster, kube.name_of(node))
    shutil.rmtree(folder)


def _reclaimed(cluster: Cluster, node: str) -> str:
    path, program = kube.NODES.path(name=node), f"processnode-{node}"
    cluster.request("PATCH", path, {"spec": {"taints": [NOTICE]}}, content_type=MERGE_PATCH)
    for pod in cluster.request("GET", f"{kube.PODS.path()}?fieldSelector=spec.nodeName%3D{node}")["items"]:
        status = kube.PODS.path(namespace=kube.namespace_of(pod), name=kube.name_of(pod), subresource="status")
        condition = {**SHUTDOWN, "lastTransitionTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
        change = {"status": {"conditions": [condition]}}
        cluster.request("PATCH", status, change, content_type="application/strategic-merge-patch+json")
    time.sleep(OFF_SECONDS)
    cluster.kill(program, signal.SIGTERM)
    while cluster.pid(program) is not None:
        time.sleep(0.1)
    cluster.request("DELETE", path)
    time.sleep(OFF_SECONDS)
    cluster.restart(program, wait=False)
    return f"the provider's stand-in took {node} away, and brought it back"
