# SPDX-License-Identifier: Apache-2.0
"""GPUs by Dynamic Resource Allocation: the real scheduler allocates claims from published slices.

There is no driver. A slice that the test writes stands for what a driver publishes of its node, and nobody prepares
the devices in a pod.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import policies
import studies
from cluster import Cluster
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

RESOURCES = "/apis/resource.k8s.io/v1"
DRIVER = "gpu.example.com"
GPUS = 2  # of each node


def publish(cluster: Cluster, node: str) -> None:
    """The slice that a driver would write of its node."""
    devices = [{"name": f"gpu-{number}"} for number in range(GPUS)]
    spec = {"driver": DRIVER, "nodeName": node, "pool": {"name": node, "resourceSliceCount": 1}, "devices": devices}
    cluster.request("POST", f"{RESOURCES}/resourceslices", {"metadata": {"name": f"gpus-{node}"}, "spec": spec})


def others(cluster: Cluster) -> list[str]:
    """Pods on the nodes that have devices."""
    pods = cluster.request("GET", kube.PODS.path())["items"]
    return [kube.name_of(pod) for pod in pods if pod["spec"].get("nodeName") in ("pretend-0", "pretend-1")]


@pytest.fixture
def with_devices(place: Place) -> Iterator[Place]:
    """Two of four nodes have GPUs, and the namespace has a template for all GPUs of a node."""
    cluster = place.cluster
    policies.needs(cluster, RESOURCES, "deviceclasses")
    # No gang goes where another one's pods are, and those of the test before are taken away behind their Jobs.
    place.wait(lambda: others(cluster) == [], what="nodes without pods of other tests", seconds=180.0)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    cluster.request(
        "POST", f"{RESOURCES}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    )
    for node in ("pretend-0", "pretend-1"):
        publish(cluster, node)
    requests = [{"name": "gpus", "exactly": {"deviceClassName": DRIVER, "count": GPUS}}]
    template = {"metadata": {"name": "two-gpus"}, "spec": {"spec": {"devices": {"requests": requests}}}}
    cluster.request("POST", f"{RESOURCES}/namespaces/{place.namespace}/resourceclaimtemplates", template)
    place.apply(
        studies.pool(
            "claims",
            slotsPerNode=GPUS,
            accelerator="GB200",
            scheduling={"nodeSelector": {"pool": "pretend"}},
            template={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]},
        )
    )
    yield place
    cluster.request("DELETE", f"{RESOURCES}/resourceslices")
    cluster.request("DELETE", f"{RESOURCES}/deviceclasses/{DRIVER}")
    cluster.request("DELETE", kube.POOLS.path(name="claims"))


def sweep(*workers: int) -> list[dict[str, Any]]:
    return [{"workloads": ["mnist_cnn"], "pools": ["claims"], "workers": list(workers), "batchPerWorker": [64]}]


def allocated(place: Place) -> dict[str, list[tuple[str, str]]]:
    """By the name of its pod: node and name of each device of a claim."""
    claims = place.cluster.request("GET", f"{RESOURCES}/namespaces/{place.namespace}/resourceclaims")["items"]
    return {
        claim["metadata"]["ownerReferences"][0]["name"]: [
            (one["pool"], one["device"]) for one in claim["status"]["allocation"]["devices"]["results"]
        ]
        for claim in claims
        if "allocation" in (claim.get("status") or {})
    }


def running(place: Place, count: int) -> Callable[[], list[kube.Object]]:
    def pods() -> list[kube.Object]:
        found = [pod for pod in place.all(kube.PODS) if pod["status"].get("phase") == "Running"]
        return found if len(found) == count else []

    return pods


def gang_pending(place: Place) -> str:
    """Reason and message of the condition while it is True."""
    conditions = place.status("quick").get("conditions") or ()
    true = (one for one in conditions if (one["type"], one["status"]) == ("GangPending", "True"))
    return next((f"{one['reason']}: {one['message']}" for one in true), "")


def test_the_scheduler_allocates_a_claim_for_each_pod_and_binds_it_where_its_devices_are(with_devices: Place) -> None:
    place = with_devices
    place.apply(studies.benchmark(repeats=1, sweep=sweep(4)))
    pods = place.wait(running(place, 2), what="a gang of two pods")
    node_of = {kube.name_of(pod): pod["spec"]["nodeName"] for pod in pods}
    assert set(node_of.values()) == {"pretend-0", "pretend-1"}
    assert {pod: sorted(devices) for pod, devices in allocated(place).items()} == {
        pod: [(node, "gpu-0"), (node, "gpu-1")] for pod, node in node_of.items()
    }
    assert all(studies.assignment_of(job).gpu for job in place.all(kube.JOBS))
    place.end_study("quick")
    assert place.status("quick")["results"][0]["state"] == "Measured"
    place.cluster.request("DELETE", kube.BENCHMARKS.path(namespace=place.namespace, name="quick"))
    claims = f"{RESOURCES}/namespaces/{place.namespace}/resourceclaims"
    place.wait(lambda: not place.cluster.request("GET", claims)["items"], what="no claim", seconds=180.0)


def test_a_gang_that_is_too_large_for_the_devices_waits_with_the_schedulers_words(with_devices: Place) -> None:
    place = with_devices
    place.apply(studies.benchmark(repeats=1, sweep=sweep(6)))
    said = place.wait(lambda: gang_pending(place), what="GangPending")
    assert said.startswith("Unschedulable: pod quick-")
    assert "cannot allocate all claims" in said
    publish(place.cluster, "pretend-2")
    place.wait(running(place, 3), what="a gang of three pods")
    assert len(allocated(place)) == 3
    place.end_study("quick")
    place.wait(lambda: not gang_pending(place), what="nothing waits")


def test_a_template_that_is_not_there_is_said_in_a_condition(with_devices: Place) -> None:
    place = with_devices
    place.cluster.request("DELETE", f"{RESOURCES}/namespaces/{place.namespace}/resourceclaimtemplates/two-gpus")
    place.apply(studies.benchmark(repeats=1, sweep=sweep(2)))
    said = place.wait(lambda: gang_pending(place), what="GangPending")
    assert said.startswith("Unschedulable: pod quick-")
    assert 'resourceclaimtemplate.resource.k8s.io "two-gpus" not found' in said
