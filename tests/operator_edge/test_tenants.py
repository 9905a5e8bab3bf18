# SPDX-License-Identifier: Apache-2.0
"""What a tenant writes into a namespace of his own: labels, Jobs, pods, results. The others' benchmarks go on.

Real API server, scheduler and Job controller; pods run on pretending nodes until a test ends them.
"""

import contextlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

import studies
from gpubench import metrics, names
from gpubench.records import Machine
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

NODES = tuple(f"pretend-{number}" for number in range(4))
MERGE = "application/merge-patch+json"
PAUSE = {"name": "c", "image": "pause"}


def sweep(pool: str = "pretend") -> list[dict[str, Any]]:
    return [{"workloads": ["mnist_cnn"], "pools": [pool], "workers": [1], "batchPerWorker": [64]}]


def only_on(node: str) -> dict[str, Any]:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [host]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.fixture
def mallory(place: Place) -> Iterator[Place]:
    """The namespace of a hostile tenant."""
    namespace = f"mallory-{names.uid_id(place.namespace)}"
    place.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    found = type(place)(place.cluster, place.operator, namespace)
    yield found
    place.cluster.kubectl("delete", f"{names.BENCHMARK_PLURAL},jobs,pods", "--all", "-n", namespace)
    found.wait(lambda: not found.all(kube.JOBS) and not found.all(kube.PODS), what="her pods gone", seconds=180.0)


def pause(place: Place, name: str, *, node: str, uid: str = "nobody") -> None:
    """A pod that asks for nothing and says that it holds a million slots."""
    spec = {"nodeName": node, "containers": [PAUSE], "terminationGracePeriodSeconds": 0}
    body = {"metadata": {"name": name, "labels": studies.forged_labels(uid)}, "spec": spec}
    place.cluster.request("POST", kube.PODS.path(namespace=place.namespace), body)
    place.wait(place.running, what="her pod runs")


def forge_job(place: Place, name: str, *, uid: str = "nobody", owner: dict[str, Any] | None = None) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [PAUSE]}}
    metadata = {"name": name, "labels": studies.forged_labels(uid), "ownerReferences": [owner] if owner else []}
    spec = {"parallelism": 0, "completions": 1, "template": template}
    place.cluster.request("POST", kube.JOBS.path(namespace=place.namespace), {"metadata": metadata, "spec": spec})


def under_way(place: Place) -> kube.Object:
    """Her own benchmark, with a gang on one node."""
    place.apply(studies.benchmark("mine", repeats=1, sweep=sweep()))
    place.wait(place.running, what="her gang runs")
    found: kube.Object = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace, name="mine"))
    return found


def reconciled(place: Place, name: str = "mine") -> None:
    """Wait until the operator has looked at it once more."""
    path = kube.BENCHMARKS.path(namespace=place.namespace, name=name)
    place.patch_spec(name, limits={"parallelTrials": 2})
    generation = place.cluster.request("GET", path)["metadata"]["generation"]
    place.wait(lambda: place.status(name).get("observedGeneration") == generation, what=f"{name} reconciled")


def has_room(place: Place) -> bool:
    """Whether a slot is free. Those of the test before are held until the operator has seen what became of them."""
    pattern = rf'^{metrics.POOL_HELD_SLOTS.name}{{[^}}]*pool="pretend"[^}}]*}} (\S+)$'
    with contextlib.suppress(OSError):  # it starts
        held = re.findall(pattern, place.operator.get("/metrics"), re.MULTILINE)
        return bool(held) and sum(map(float, held)) < len(NODES)
    return False


def ends_well(place: Place) -> None:
    place.wait(lambda: has_room(place), what="a free slot")
    place.apply(studies.benchmark(repeats=1, sweep=sweep()))
    place.end_study("quick")
    assert place.holds("quick", "Succeeded")
    assert place.said("GangPending") == []


# --- slots ------------------------------------------------------------------------------------------------------------


def test_a_labelled_pod_holds_no_slots(place: Place, mallory: Place) -> None:
    mine = under_way(mallory)
    pause(mallory, "p", node="pretend-0", uid=kube.uid_of(mine))
    reconciled(mallory)
    ends_well(place)


def test_a_forged_job_holds_no_slots_when_the_operator_starts(place: Place, mallory: Place) -> None:
    place.operator.kill()
    forge_job(mallory, "x")
    place.operator.start()
    ends_well(place)


def test_a_forged_job_of_ones_own_benchmark_holds_no_slots(place: Place, mallory: Place) -> None:
    mine = under_way(mallory)
    owner = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND, "name": "mine", "uid": kube.uid_of(mine)}
    forge_job(mallory, "x", uid=kube.uid_of(mine), owner=owner)
    reconciled(mallory)
    ends_well(place)


# --- exclusive nodes --------------------------------------------------------------------------------------------------


def test_labelled_pods_on_all_nodes_keep_no_gang_of_another_namespace_off_them(place: Place, mallory: Place) -> None:
    for number, node in enumerate(NODES):
        pause(mallory, f"p{number}", node=node)
    ends_well(place)


def test_a_benchmark_that_waits_for_the_whole_pool_keeps_nobody_from_the_rest_of_it(
    place: Place, mallory: Place
) -> None:
    under_way(mallory)
    mallory.apply(studies.benchmark("all", repeats=1, sweep=[{**sweep()[0], "workers": [4]}]))
    mallory.wait(lambda: mallory.status("all").get("trials"), what="hers is planned and waits")
    for number in range(3):
        place.apply(studies.benchmark(f"small-{number}", repeats=1, sweep=sweep()))
        place.end_study(f"small-{number}")
    assert (mallory.status("all")["trials"]["running"], len(mallory.running())) == (0, 1), "hers waits still"
    mallory.end_study("mine")
    mallory.end_study("all")
    assert mallory.holds("all", "Succeeded")


@pytest.mark.parametrize("exclusive", [True, False])
def test_exclusive_gangs_of_two_namespaces_share_no_node(place: Place, mallory: Place, *, exclusive: bool) -> None:
    place.apply(studies.pool("second", scheduling={"nodeSelector": {"pool": "pretend"}}, exclusiveNodes=exclusive))
    place.apply(studies.benchmark(repeats=1, sweep=sweep(), scheduling=only_on("pretend-0")))
    place.wait(place.running, what="the first gang runs")
    mallory.apply(studies.benchmark("mine", repeats=1, sweep=sweep("second"), scheduling=only_on("pretend-0")))

    def refused() -> bool:
        said = [one for pod in mallory.all(kube.PODS) for one in pod["status"].get("conditions") or ()]
        return any("anti-affinity" in one.get("message", "") for one in said)

    mallory.wait(refused, what="the scheduler's word")
    place.end_study("quick")
    mallory.end_study("mine")
    for name, of in (("quick", place), ("mine", mallory)):
        assert [one["warnings"] for one in of.status(name)["results"]] == [[]], "nobody changed its pods"


# --- health of a pool -------------------------------------------------------------------------------------------------


def measured(place: Place, name: str, tflops: float, *, repeats: int, **spec: Any) -> dict[str, Any]:
    """The only result of a benchmark whose devices were tested like that, each a little otherwise than the last one.

    Two tests of one second that found the same are one test of a history.
    """
    limits = {"parallelTrials": repeats if "scheduling" not in spec else 1}
    place.apply(studies.benchmark(name, repeats=repeats, sweep=sweep(), limits=limits, **spec))
    machines = (Machine(arithmetic=tflops * 1e12 * (1 + end % 20 / 1000), weakest_rank=0) for end in itertools.count())
    place.end_study(name, machines=machines)
    (found,) = place.status(name)["results"]
    result: dict[str, Any] = found
    return result


@pytest.fixture
def fresh(place: Place) -> Iterator[None]:
    """A pool without history."""
    path = kube.POOLS.path(name="pretend")
    yield place.cluster.request("PATCH", f"{path}/status", {"status": {"health": []}}, content_type=MERGE)
    place.cluster.request("PATCH", f"{path}/status", {"status": {"health": []}}, content_type=MERGE)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("own", [{"image": "mallory/own"}, {"env": [{"name": "LD_PRELOAD", "value": "/x"}]}])
def test_tests_of_ones_own_code_say_nothing_of_a_pool(place: Place, mallory: Place, own: dict[str, Any]) -> None:
    measured(mallory, "mine", 1000, repeats=8, template=own)
    assert not place.cluster.request("GET", kube.POOLS.path(name="pretend"))["status"].get("health")
    assert measured(place, "quick", 100, repeats=4)["warnings"] == []


@pytest.mark.usefixtures("fresh")
def test_forged_tests_on_one_node_make_no_honest_node_weak(place: Place, mallory: Place) -> None:
    measured(place, "first", 100, repeats=4)
    measured(mallory, "mine", 1000, repeats=12, scheduling=only_on("pretend-0"))
    (known,) = place.cluster.request("GET", kube.POOLS.path(name="pretend"))["status"]["health"]
    assert sorted(len(one["figures"]) for one in known["nodes"])[-1] > 4, "they are there"
    assert measured(place, "quick", 100, repeats=4)["warnings"] == []


# --- who may use a pool -----------------------------------------------------------------------------------------------


def test_a_pool_takes_benchmarks_of_its_namespaces_only(place: Place, mallory: Place) -> None:
    team = {"team": place.namespace[:63].strip("-")}
    place.cluster.kubectl("label", "namespace", place.namespace, f"team={team['team']}")
    place.apply(studies.pool(allowedNamespaces={"matchLabels": team}))
    try:
        mallory.apply(studies.benchmark("mine", repeats=1, sweep=sweep()))
        ends_well(place)
        reason, message = mallory.condition("Progressing", of="mine")
        assert reason == "WaitingForPools"
        assert message.startswith(
            f"waiting for GpuPool pretend, of which allowedNamespaces leaves out namespace {mallory.namespace}: "
            "name other pools, or ask whoever keeps it to add the namespace"
        )
        assert not mallory.all(kube.JOBS)
        place.apply(studies.pool(allowedNamespaces={"names": [mallory.namespace]}))
        mallory.end_study("mine")
    finally:
        path = kube.POOLS.path(name="pretend")
        place.cluster.request("PATCH", path, {"spec": {"allowedNamespaces": None}}, content_type=MERGE)
