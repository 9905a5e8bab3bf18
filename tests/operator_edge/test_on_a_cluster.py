# SPDX-License-Identifier: Apache-2.0
"""The operator as a process, on a real control plane, with pretending nodes: what it makes, keeps and leaves behind."""

import json
import time
import urllib.error
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

import installation
import stand_in_worker
import studies
from cluster import Cluster
from gpubench import metrics, names
from gpubench.scheduler import account
from gpubench_cluster import kube

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any


def foreign_writes(cluster: Cluster) -> set[str]:
    """Field managers of our objects that are neither the user nor the operator by its own client."""
    managers = set()
    for resource in (kube.BENCHMARKS, kube.POOLS):
        for body in cluster.request("GET", resource.path())["items"]:
            assert not body["metadata"].get("finalizers")
            assert set(body["metadata"].get("annotations") or {}) <= {APPLIED}
            managers |= {entry["manager"] for entry in body["metadata"]["managedFields"]}
    return managers - {"kubectl-client-side-apply", "gpubench-operator", "Python-urllib"}


def test_a_study_becomes_one_plan_one_service_one_job_and_one_entry(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    place.wait(lambda: place.all(kube.PODS), what="a pod")
    place.wait(lambda: len(place.all(kube.CONFIG_MAPS)) >= 2, what="plan and ledger")
    assert [len(place.all(one)) for one in (kube.JOBS, kube.SERVICES, kube.SECRETS, kube.NETWORK_POLICIES)] == [1] * 4
    place.end_study("quick")
    components = sorted(body["metadata"]["labels"][names.LABEL_COMPONENT] for body in place.all(kube.CONFIG_MAPS))
    assert components == sorted((names.COMPONENT_PLAN, names.COMPONENT_LEDGER, names.COMPONENT_ANALYSIS))
    status = place.status("quick")
    assert (status["phase"], status["attempts"]["succeeded"], status["points"]["measured"]) == ("Succeeded", 2, 2)
    place.wait(
        lambda: {job["spec"]["ttlSecondsAfterFinished"] for job in place.all(kube.JOBS)} == {600}, what="less time"
    )
    place.wait(lambda: "Finished" in place.events("quick"), what="the last Event")
    events = place.events("quick")
    assert (events.count("Planned"), events.count("AttemptStarted"), events.count("TrialMeasured")) == (1, 2, 2)
    assert foreign_writes(place.cluster) == set()


def test_pools_that_come_late_also_while_nobody_watches_are_waited_for_and_nothing_is_skipped(place: Place) -> None:
    """One comes after the first Event, one is refused and mended, one comes while no operator runs."""
    sweep = studies.benchmark()["spec"]["sweep"][0]
    late = ("late", "refused", "unseen")
    for name in late:
        place.apply(studies.benchmark(name, repeats=1, sweep=[sweep | {"pools": ["pretend", f"{name}-pool"]}]))
    try:
        for name in late:
            place.wait(lambda name=name: "WaitingForPools" in place.events(name), what=f"an Event about {name}")
            (progressing,) = (one for one in place.status(name)["conditions"] if one["type"] == "Progressing")
            assert progressing["reason"] == "WaitingForPools"
            assert progressing["message"] == f"waiting for GpuPool {name}-pool, not there yet: apply it"
        assert not place.all(kube.CONFIG_MAPS), "none has a plan"
        place.apply(pool_like_pretend("late"))
        with pytest.raises(Exception, match="slotsPerNode"):
            place.apply(pool_like_pretend("refused", slotsPerNode=0))
        place.operator.kill()
        place.apply(pool_like_pretend("unseen"))
        place.apply(pool_like_pretend("refused"))
        place.operator.start()
        for name in late:
            place.end_study(name)
            status = place.status(name)
            assert (status["phase"], status["points"]["measured"]) == ("Succeeded", 4)
    finally:
        for name in late:
            place.cluster.kubectl("delete", names.POOL_PLURAL, f"{name}-pool", "--ignore-not-found")


def pool_like_pretend(name: str, **spec: Any) -> kube.Object:
    return studies.pool(f"{name}-pool", scheduling={"nodeSelector": {"pool": "pretend"}}, **spec)


def test_deletion_leaves_nothing_and_ends_the_series(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    place.wait(lambda: place.all(kube.PODS), what="a pod")
    place.wait(lambda: f'benchmark_namespace="{place.namespace}"' in place.operator.get("/metrics"), what="a series")
    place.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "quick", "-n", place.namespace)
    for resource in (kube.JOBS, kube.PODS, kube.CONFIG_MAPS, kube.SERVICES, kube.SECRETS, kube.NETWORK_POLICIES):
        place.wait(lambda resource=resource: not place.all(resource), what=f"no {resource.plural}")
    place.wait(
        lambda: f'benchmark_namespace="{place.namespace}"' not in place.operator.get("/metrics"), what="no series"
    )


def test_a_study_of_the_same_name_starts_afresh_while_the_old_job_still_ends(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    old = place.wait(lambda: place.all(kube.JOBS), what="a Job")[0]
    place.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "quick", "-n", place.namespace, "--wait=false")
    place.apply(studies.benchmark(repeats=1))
    place.end_study("quick")
    status = place.status("quick")
    assert (status["attempts"]["started"], status["attempts"]["succeeded"]) == (2, 2)
    # The garbage collector of a new cluster learns of our definitions within half a minute, and collects only then.
    place.wait(lambda: kube.uid_of(old) not in map(kube.uid_of, place.all(kube.JOBS)), what="the old Job gone")


def test_what_figures_stand_on_is_read_from_a_log_and_kept_where_pods_ran_is_read_from_their_nodes(
    place: Place,
) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=2, sweep=sweep))
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    ledgers = [body for body in place.all(kube.CONFIG_MAPS) if "-ledger-" in kube.name_of(body)]
    entries = {key: json.loads(text) for body in ledgers for key, text in body["data"].items()}
    key = f"environment.{stand_in_worker.ENVIRONMENT.key()}"
    assert [key] == [one for one in entries if one.startswith("environment.")]
    assert entries.pop(key)["accelerator"] == "stand-in"
    assert [entry["instanceTypes"] for entry in entries.values()] == [["stand-in.large"]] * 2
    assert all(zone in ("zone-0", "zone-1") for entry in entries.values() for zone in entry["zones"])
    (shown,) = place.status("quick")["environments"]
    assert (shown["accelerator"], shown["instanceType"]) == ("stand-in", "stand-in.large")
    assert shown["environment"] == place.status("quick")["results"][0]["environment"]


@pytest.fixture
def open_nodes(place: Place) -> Iterator[Callable[[str], None]]:
    """Four nodes in two racks of a zone; new pods come to those that are named."""
    nodes = [f"pretend-{number}" for number in range(4)]

    def patch(node: str, body: Any) -> None:
        path = f"/api/v1/nodes/{node}"
        place.cluster.request("PATCH", path, body, content_type="application/merge-patch+json")

    def open_only(named: str) -> None:
        for node in nodes:
            patch(node, {"spec": {"unschedulable": node[-1] not in named}})

    labels = (names.LABEL_ZONE, "cloud.google.com/gce-topology-block", "cloud.google.com/gce-topology-subblock")
    for node, rack in zip(nodes, ("r1", "r1", "r2", "r2"), strict=True):
        patch(node, {"metadata": {"labels": dict(zip(labels, ("zone-a", "block-a", rack), strict=True))}})
    yield open_only
    for node in nodes:
        patch(node, {"metadata": {"labels": dict.fromkeys(labels)}, "spec": {"unschedulable": None}})


def test_the_racks_of_a_gang_are_recorded_once_and_repeats_that_lay_otherwise_have_a_warning(
    place: Place, open_nodes: Callable[[str], None]
) -> None:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [2], "batchPerWorker": [64]}]

    def ran(attempts: int) -> bool:
        place.end_pods()
        return bool(place.status("quick").get("attempts", {}).get("succeeded", 0) >= attempts)

    open_nodes("01")
    place.operator.kill()  # what it has read of the nodes before may be without their labels
    place.operator.start()
    place.apply(studies.benchmark(repeats=2, sweep=sweep, limits={"parallelTrials": 1}))
    place.wait(lambda: [one for one in place.entries() if one["places"]], what="the first gang's places")
    open_nodes("02")
    fields = ("nodes", "places", "podPlaces")
    before = [place.entries()[0][field] for field in fields]
    place.operator.kill()
    place.operator.start()
    place.wait(lambda: ran(1), what="the first repeat")
    assert before in [[entry[field] for field in fields] for entry in place.entries()]
    place.end_study("quick")
    (result,) = place.status("quick")["results"]
    near, far = sorted(place.entries(), key=lambda entry: len(entry["places"]))
    assert (near["places"], near["podPlaces"]) == ([["zone-a", "block-a", "r1"]], [0, 0])
    assert {far["places"][index][2] for index in far["podPlaces"]} == {"r1", "r2"}
    assert [far["places"][index][2] for index in far["podPlaces"]] == [
        {"pretend-0": "r1", "pretend-2": "r2"}[node] for node in far["nodes"]
    ]
    assert result["spread"] == {"zones": 1, "blocks": 1, "racks": 2}
    (found,) = result["warnings"]
    assert (found["reason"], found["figures"]) == ("SpreadDiffers", {"least": 1, "most": 2})


def test_a_suspended_study_stops_its_job_and_goes_on_when_resumed(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    place.wait(lambda: place.all(kube.PODS), what="a pod")
    place.patch_spec("quick", suspend=True)
    place.wait(lambda: not place.all(kube.JOBS), what="no Job")
    place.wait(lambda: place.holds("quick", "Suspended"), what="Suspended")
    time.sleep(1.0)
    assert not place.all(kube.JOBS)
    place.patch_spec("quick", suspend=False)
    place.end_study("quick")
    attempts = place.status("quick")["attempts"]
    assert (attempts["stopped"], attempts["succeeded"], attempts["failed"]) == (1, 2, 0)
    place.wait(lambda: {"Suspended", "Resumed"} <= set(place.events("quick")), what="the story")


def test_a_failed_attempt_is_tried_again_as_a_new_job(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    place.wait(lambda: any(pod["status"]["phase"] == "Running" for pod in place.all(kube.PODS)), what="a running pod")
    place.end_pods(exit_code=80)
    place.wait(lambda: "AttemptFailed" in place.events("quick"), what="AttemptFailed")
    place.end_study("quick")
    attempts = place.status("quick")["attempts"]
    assert (attempts["failed"], attempts["succeeded"]) == (1, 2)


def gang_pending(place: Place, status: str = "True") -> str:
    """What the condition says while it is so."""
    conditions = place.status("quick").get("conditions") or ()
    found = (one["message"] for one in conditions if (one["type"], one["status"]) == ("GangPending", status))
    return next(found, "")


@pytest.fixture
def late_node(equipped: Cluster) -> Iterator[str]:
    """A node that is not there, and whose program does not run."""
    name, program = "silent", "processnode-silent"
    equipped.kill(program)
    equipped.kubectl("delete", "node", name)
    yield name
    equipped.kubectl("delete", "node", name, "--ignore-not-found")
    equipped.restart(program)


def wait_for_idle_pool(place: Place, name: str, *, nodes: int) -> None:
    """Until the pool's status is of so many nodes, none of them ready."""
    seen = partial(place.cluster.request, "GET", kube.POOLS.path(name=name))
    place.wait(
        lambda: [(seen().get("status") or {}).get(field) for field in ("nodes", "readyNodes")] == [nodes, 0],
        what=f"pool {name} with {nodes} nodes, none of them ready",
    )


def check_bill(place: Place, *, first: kube.Object, usable_at: int) -> None:
    """That the benchmark is billed for what its attempts held, and the first one's Job held nothing before."""
    entries, status = place.entries(), place.status("quick")
    (begun,) = (entry for entry in entries if entry["jobUid"] == kube.uid_of(first))
    assert begun["createdAt"] < usable_at <= begun["createdAt"] + begun["podTimes"][0][0]
    held = [account.held(placed, until) for entry in entries for placed, _, until in entry["podTimes"]]
    price = Decimal(status["prices"][0]["perNodeHour"])
    assert Decimal(status["spent"]["amount"]) == Decimal(sum(held)) * price / 3600


def test_a_gang_waits_for_a_node_that_comes_late_and_starts_slowly_and_is_billed_from_its_placement_on(
    place: Place, late_node: str
) -> None:
    """Meanwhile the operator is killed: its successor goes on with the same Job."""
    request, path, starting = place.cluster.request, f"/api/v1/nodes/{late_node}", "node.cilium.io/agent-not-ready"

    def check_that_it_waits(words: str) -> None:
        place.wait(lambda: words in gang_pending(place), what=f"GangPending with {words}")
        (pod,), (job,), (entry,) = place.all(kube.PODS), place.all(kube.JOBS), place.entries()
        assert gang_pending(place).startswith(f"pod {kube.name_of(pod)} has no node: 0/")
        assert (entry["jobUid"], entry["nodes"], entry.get("outcome")) == (kube.uid_of(job), [], None)
        status = place.status("quick")
        counts = status["attempts"]
        assert (counts["started"], counts["failed"], counts["preempted"], counts["stopped"]) == (1, 0, 0, 0)
        assert Decimal(status["spent"]["amount"]) == 0

    def apply_pool(name: str) -> None:
        place.apply(studies.pool(name, maxNodes=1, scheduling={"nodeSelector": {"pool": late_node}}))

    apply_pool(late_node)
    sweep = [{"workloads": ["mnist_cnn"], "pools": [late_node], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=2, sweep=sweep))
    check_that_it_waits("didn't match Pod's node affinity/selector")
    wait_for_idle_pool(place, late_node, nodes=0)
    place.operator.kill()
    spec = {"taints": [{"key": starting, "effect": "NoExecute"}]}
    status = {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}
    metadata = {"name": late_node, "labels": {"pool": late_node}}
    request("POST", "/api/v1/nodes", {"metadata": metadata, "spec": spec, "status": status})
    place.operator.start()
    check_that_it_waits("untolerated taint")
    wait_for_idle_pool(place, late_node, nodes=1)
    place.cluster.restart(f"processnode-{late_node}")
    place.wait(
        lambda: [one["key"] for one in request("GET", path)["spec"]["taints"]] == [starting], what="a ready node"
    )
    check_that_it_waits("untolerated taint")
    apply_pool("seen-anew")  # its status is of the node as it is now
    wait_for_idle_pool(place, "seen-anew", nodes=1)
    place.cluster.kubectl("delete", names.POOL_PLURAL, "seen-anew")
    usable_at = int(time.time())  # times in the API are of whole seconds, too
    request("PATCH", path, {"spec": {"taints": None}}, content_type="application/merge-patch+json")
    place.wait(lambda: gang_pending(place, "False"), what="a gang that is placed")
    (job,) = place.all(kube.JOBS)
    place.end_study("quick")

    status = place.status("quick")
    counts = status["attempts"]
    assert (status["phase"], counts["started"], counts["succeeded"]) == ("Succeeded", 2, 2)
    check_bill(place, first=job, usable_at=usable_at)
    place.wait(lambda: "Finished" in place.events("quick"), what="the last Event")
    events = place.events("quick")
    for reason, times in {"Planned": 1, "GangPending": 1, "AttemptStarted": 2, "TrialMeasured": 2}.items():
        assert events.count(reason) == times


def test_a_quota_that_forbids_pods_is_said_in_a_condition(place: Place) -> None:
    place.forbid_pods()
    place.apply(studies.benchmark(repeats=1))

    assert "exceeded quota" in place.wait(lambda: gang_pending(place), what="GangPending")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"template": {"serviceAccountName": "missing"}}, 'serviceaccount "missing" not found'),
        ({"template": {"runtimeClassName": "missing"}}, 'RuntimeClass "missing" not found'),
        ({"scheduling": {"priorityClassName": "missing"}}, "no PriorityClass with name missing was found"),
        ({"template": {"capabilities": ["IPC_LOCK"]}}, 'must not include "IPC_LOCK"'),
    ],
    ids=["account", "runtime", "priority", "capability"],
)
def test_a_refused_pod_is_in_the_message(place: Place, spec: dict[str, Any], words: str) -> None:
    place.cluster.kubectl("label", "namespace", place.namespace, "pod-security.kubernetes.io/enforce=baseline")
    place.apply(studies.benchmark(repeats=1, **spec))
    assert words in place.wait(lambda: gang_pending(place), what="GangPending")
    place.wait(lambda: words in place.status("quick").get("message", ""), what="the message")


REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))


@pytest.fixture
def racks(equipped: Cluster) -> Iterator[None]:
    """Two racks of two nodes; the pods of a gang would rather run on the first node of each."""
    nodes = {f"pretend-{n}": {"example.com/rack": f"rack-{n // 2}", "example.com/liked": str(9 - n)} for n in range(4)}
    for name, labels in nodes.items():
        equipped.kubectl("label", "node", name, *(f"{key}={value}" for key, value in labels.items()))
    yield
    for name, labels in nodes.items():
        equipped.kubectl("label", "node", name, *(f"{key}-" for key in labels))


def preference(liked: str, *, weight: int) -> dict[str, Any]:
    wanted = {"key": "example.com/liked", "operator": "In", "values": [liked]}
    return {"weight": weight, "preference": {"matchExpressions": [wanted]}}


def at_least(number: int) -> dict[str, Any]:
    wanted = {"key": "example.com/liked", "operator": "Gt", "values": [str(number - 1)]}
    return {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


@pytest.mark.parametrize(
    ("scheduling", "nodes"),
    [
        ({}, ["pretend-0", "pretend-2"]),
        ({"topology": {"key": "example.com/rack"}}, ["pretend-0", "pretend-1"]),
        ({"topology": {"key": "example.com/rack", "mode": "Required"}}, ["pretend-0", "pretend-1"]),
        ({"nodeAffinity": at_least(8)}, ["pretend-0", "pretend-1"]),
    ],
    ids=["anywhere", "preferred", "required", "affinity"],
)
@pytest.mark.usefixtures("racks")
def test_a_gang_is_placed_near_its_pods(place: Place, scheduling: dict[str, Any], nodes: list[str]) -> None:
    name = f"racks-{place.namespace[-20:]}"
    # The scheduler scales each score to 100 and adds them: no two nodes may come out equal, with topology or without.
    liked = {PREFERRED: [preference("9", weight=100), preference("7", weight=60), preference("8", weight=40)]}
    place.apply(studies.pool(name, scheduling={"nodeSelector": {"pool": "pretend"}, "nodeAffinity": liked}))
    sweep = [{"workloads": ["mnist_cnn"], "pools": [name], "workers": [2], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep, scheduling=scheduling))

    def placed() -> list[str]:
        found = [pod["spec"].get("nodeName") for pod in place.all(kube.PODS)]
        return sorted(filter(None, found)) if len(found) == 2 and all(found) else []

    assert place.wait(placed, what="two pods with nodes") == nodes


def test_what_pool_and_study_say_of_their_pods_is_what_the_pods_have(place: Place) -> None:
    request, name = place.cluster.request, f"own-{place.namespace[-20:]}"
    request("POST", f"/api/v1/namespaces/{place.namespace}/serviceaccounts", {"metadata": {"name": "reads-data"}})
    group = "/apis/scheduling.k8s.io/v1/priorityclasses"
    request("POST", group, {"metadata": {"name": name}, "value": 7})
    runtime = {"metadata": {"name": name}, "handler": "runc"}
    request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime)
    place.apply(
        studies.pool(
            name,
            scheduling={"nodeSelector": {"pool": "pretend"}, "priorityClassName": name},
            template={"labels": {"team": "infra", "cost": "gpu"}, "runtimeClassName": name},
        )
    )
    sweep = [{"workloads": ["mnist_cnn"], "pools": [name], "workers": [1], "batchPerWorker": [64]}]
    template = {
        "labels": {"team": "vision"},
        "serviceAccountName": "reads-data",
        "imagePullSecrets": [{"name": "registry"}],
        "capabilities": ["IPC_LOCK"],
    }
    scheduling = {"schedulerName": "nobody"}
    place.apply(studies.benchmark(repeats=1, sweep=sweep, template=template, scheduling=scheduling))
    (pod,) = place.wait(lambda: place.all(kube.PODS), what="a pod")
    spec, labels = pod["spec"], pod["metadata"]["labels"]
    assert (labels["team"], labels["cost"], labels[names.LABEL_COMPONENT]) == ("vision", "gpu", names.COMPONENT_GANG)
    assert (spec["serviceAccountName"], spec["imagePullSecrets"]) == ("reads-data", [{"name": "registry"}])
    assert (spec["runtimeClassName"], spec["priorityClassName"], spec["priority"]) == (name, name, 7)
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert not any("projected" in volume for volume in spec["volumes"])  # where the account's token would be
    assert (spec["schedulerName"], spec.get("nodeName")) == ("nobody", None)


def test_an_image_that_does_not_start_is_said_in_a_condition_and_ends_its_point_while_others_go_on(
    place: Place,
) -> None:
    broken = f"broken-{place.namespace}"[:60]
    pools = [broken, "pretend"]
    place.apply(
        studies.pool(broken, scheduling={"nodeSelector": {"pool": "process"}}, template={"image": "no/such:image"})
    )
    sweep = [{"workloads": ["mnist_cnn"], "pools": pools, "workers": [1], "batchPerWorker": [64]}]
    limits = {"schedulingTimeout": "20s", "attempts": {"failed": 0}, "parallelTrials": 2}
    place.apply(studies.benchmark(repeats=1, sweep=sweep, limits=limits))

    assert "does not start" in place.wait(lambda: gang_pending(place), what="GangPending")
    place.end_study("quick")
    failed, measured = place.status("quick")["results"]
    assert (failed["state"], measured["state"]) == ("Failed", "Measured")
    assert "no/such:image" in failed["reason"]
    assert {"AttemptFailed", "GangPending"} <= set(place.events("quick"))
    place.cluster.kubectl("delete", names.POOL_PLURAL, broken)


def test_workers_that_no_pool_can_hold_are_skipped_with_a_sentence_and_an_event(place: Place) -> None:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1, 64], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep))
    place.end_study("quick")
    measured, skipped = place.status("quick")["results"]
    assert (measured["state"], skipped["state"]) == ("Measured", "Skipped")
    assert "at most 4" in skipped["reason"]
    place.wait(lambda: "PointSkipped" in place.events("quick"), what="PointSkipped")


def test_a_pool_that_comes_late_is_waited_for(place: Place) -> None:
    late = f"late-{place.namespace}"[:60]
    sweep = [{"workloads": ["mnist_cnn"], "pools": [late], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep))
    place.wait(lambda: place.status("quick").get("phase") == "Pending", what="Pending")
    place.apply(studies.pool(late, scheduling={"nodeSelector": {"pool": "pretend"}}))
    place.wait(lambda: place.all(kube.JOBS), what="a Job")
    place.cluster.kubectl("delete", names.POOL_PLURAL, late)
    place.wait(lambda: "PoolChanged" in place.events("quick"), what="a word about the pool")
    place.end_study("quick")


def test_pools_show_their_nodes(place: Place) -> None:
    path = kube.POOLS.path(name="pretend")

    def ready() -> bool:
        status = place.cluster.request("GET", path).get("status") or {}
        return bool(status.get("readyNodes") == 4)

    place.wait(ready, what="four ready nodes")


def test_the_probes_answer_and_the_scrape_has_the_operators_health(place: Place) -> None:
    place.wait(lambda: "leading" in place.operator.get("/healthz"), what="leading")
    assert place.operator.get("/readyz")
    text = place.operator.get("/metrics")
    assert f"{metrics.LEADER.name} 1.0" in text
    assert metrics.API_REQUESTS.name in text


def test_a_second_operator_stands_by_well_and_takes_over_at_once_when_the_first_one_stops(
    place: Place, tmp_path: Any, pytestconfig: pytest.Config
) -> None:
    del pytestconfig
    account = place.cluster.kubeconfig_for_service_account(installation.NAMESPACE, installation.ACCOUNT)
    settings = {**installation.ALONE, "GPUBENCH_LEASE_NAME": "two"}  # which nobody has time to wait for
    first, second = (
        installation.Operator(account, log=tmp_path / f"{number}.log", settings=settings) for number in range(2)
    )
    first.start()
    try:
        place.wait(lambda: f"{metrics.LEADER.name} 1.0" in first.get("/metrics"), what="a leader")
        second.start()
        assert "standing by" in second.get("/healthz")
        assert f"{metrics.LEADER.name} 0.0" in second.get("/metrics")
        assert first.stop() == 0
        place.wait(lambda: f"{metrics.LEADER.name} 1.0" in second.get("/metrics"), what="a new leader")
    finally:
        assert second.stop() == 0
        with pytest.raises(urllib.error.URLError):
            second.get("/healthz")


def test_a_foreign_job_of_the_name_stops_the_study_with_a_warning(place: Place) -> None:
    body = studies.benchmark(repeats=1, suspend=True)
    place.apply(body)
    stored = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace, name="quick"))
    uid = kube.uid_of(stored)
    # The name of the first Job follows from the study alone, so a rehearsal under another name tells it.
    rehearsal = studies.benchmark("rehearsal", repeats=1)
    place.apply(rehearsal)
    other = place.wait(lambda: place.all(kube.JOBS), what="a Job")[0]
    trial = other["metadata"]["labels"][names.LABEL_TRIAL]
    name = names.job_name("quick", uid, trial=trial, attempt=1)
    container = {"name": "c", "image": "none"}
    foreign = {
        "metadata": {"name": name},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    place.cluster.request("POST", kube.JOBS.path(namespace=place.namespace), foreign)
    place.patch_spec("quick", suspend=False)
    place.wait(lambda: "NameTaken" in place.events("quick"), what="NameTaken")
    place.cluster.kubectl("delete", "job", name, "-n", place.namespace)
    place.end_study("rehearsal")
    place.end_study("quick")
    assert place.status("quick")["attempts"]["failed"] == 0
