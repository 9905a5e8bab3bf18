# SPDX-License-Identifier: Apache-2.0
"""No part of a gang holds nodes for ever, and nobody waits for what never comes: the real scheduler and Job controller.

Process nodes run the stand-in worker, whose pods meet at the real barrier.
"""

import time
from typing import Any

import pytest

import policies
import studies
from gpubench import names
from gpubench.plan import expand
from gpubench_cluster import kube
from gpubench_operator import observe

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

PAIR = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]
SILENT = "processnode-silent"


def sleeper(node: str, *, cpu: str) -> kube.Object:
    """A pod of somebody else's, which takes a node."""
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    container = {"name": "c", "image": expand.DEFAULT_IMAGE, "command": ["sleep", "3600"], "resources": resources}
    return {
        "metadata": {"name": "foreign"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
        },
    }


def test_two_studies_of_gangs_as_large_as_the_pool_take_turns_and_both_finish(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    for name in ("quick", "other"):
        place.apply(studies.benchmark(name, repeats=3, sweep=PAIR))
    for name in ("quick", "other"):
        place.wait(lambda name=name: place.holds(name, "Finished"), what=f"{name} finished", seconds=120.0)
        attempts = place.status(name)["attempts"]
        assert (attempts["started"], attempts["succeeded"]) == (3, 3), "no gang was ever placed in part"


@pytest.mark.parametrize("seats", [("quick", 0, "other", 0), ("other", 1, "quick", 0), ("other", 1, "quick", 1)])
def test_two_gangs_that_each_hold_half_take_turns(place: Place, seats: tuple[str, int, str, int]) -> None:
    """The pool claims twice the nodes that there are. Pods are placed by hand, while the scheduler may not."""
    place.apply(studies.pool("process", maxNodes=4))
    limits = {"schedulingTimeout": "8s", "attempts": {"failed": 1}}
    for node in ("process-0", "process-1"):
        place.cluster.kubectl("cordon", node)
    try:
        for name in ("quick", "other"):
            place.apply(studies.benchmark(name, repeats=1, sweep=PAIR, limits=limits))
        pods = place.wait(lambda: found if len(found := place.all(kube.PODS)) == 4 else None, what="two gangs")
        for node, name, index in (("process-0", *seats[:2]), ("process-1", *seats[2:])):
            (pod,) = (one for one in pods if seat(one) == (name, index))
            bind(place, pod, node)
    finally:
        for node in ("process-0", "process-1"):
            place.cluster.kubectl("uncordon", node)
    failed = []
    for name in ("quick", "other"):
        place.wait(lambda name=name: place.holds(name, "Finished"), what=f"{name} finished", seconds=180.0)
        assert place.status(name)["phase"] == "Succeeded"
        failed.append(place.status(name)["attempts"]["failed"])
    assert 1 <= sum(failed) <= 2, "none held a part of its nodes for a second time"


def seat(pod: kube.Object) -> tuple[str, int]:
    """Benchmark and index of a pod."""
    labels = pod["metadata"]["labels"]
    return labels[names.LABEL_BENCHMARK], int(labels["batch.kubernetes.io/job-completion-index"])


def bind(place: Place, pod: kube.Object, node: str) -> None:
    """What the scheduler does."""
    path = kube.PODS.path(namespace=place.namespace, name=kube.name_of(pod), subresource="binding")
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    place.cluster.request("POST", path, {"metadata": {"name": kube.name_of(pod)}, "target": target})


def test_a_stock_out_fails_no_attempt_and_the_same_job_is_measured_when_the_node_comes(place: Place) -> None:
    """Another benchmark with the same time-out, whose volume is missing, shows that it has passed."""
    for pool in ("late", "process"):
        place.apply(studies.pool(pool, maxNodes=1))
    limits = {"schedulingTimeout": "3s", "attempts": {"failed": 0}}
    one = PAIR[0] | {"workers": [1]}
    place.apply(studies.benchmark(repeats=1, sweep=[one | {"pools": ["late"]}], limits=limits))
    (pod,) = place.wait(lambda: place.all(kube.PODS), what="a pod without a node")
    results = {"volume": {"claimName": "missing"}}
    place.apply(studies.benchmark("other", repeats=1, sweep=[one], limits=limits, results=results))
    place.wait(lambda: place.holds("other", "Finished"), what="the time-out of a gang beside it")
    attempts = place.status("quick")["attempts"]
    assert (attempts["started"], attempts["failed"], attempts["stopped"]) == (1, 0, 0)
    place.operator.kill()
    place.operator.start()
    place.cluster.kubectl("label", "node", "process-1", "pool=late", "--overwrite")
    try:
        place.wait(lambda: place.holds("quick", "Finished"), what="the study finished", seconds=120.0)
    finally:
        place.cluster.kubectl("label", "node", "process-1", "pool=process", "--overwrite")
    status = place.status("quick")
    assert status["phase"] == "Succeeded"
    assert (status["attempts"]["started"], status["attempts"]["failed"]) == (1, 0)
    assert kube.uid_of(pod) in {kube.uid_of(found) for found in place.all(kube.PODS)}, "nothing was withdrawn"


def test_a_point_that_waited_for_its_capacity_timeout_says_for_what_how_long_and_what_to_do(place: Place) -> None:
    place.apply(studies.pool("nowhere"))
    limits = {"schedulingTimeout": "2s", "capacityTimeout": "6s"}
    sweep = [PAIR[0] | {"pools": ["nowhere"]}]
    place.apply(studies.benchmark(repeats=2, sweep=sweep, limits=limits))
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished")
    status = place.status("quick")
    (point,) = status["results"]
    assert point["state"] == "NoCapacity"
    for words in ("waited 6 s in all", "2 nodes of pool nowhere", "start it again", "0/"):
        assert words in point["reason"]
    assert status["attempts"]["started"] == 1


def test_a_gang_without_room_for_all_of_its_pods_gives_back_what_it_has_and_says_who_had_none(place: Place) -> None:
    pods = kube.PODS.path(namespace=place.namespace)
    place.cluster.request("POST", pods, sleeper("process-1", cpu="1"))
    place.apply(studies.pool("process", maxNodes=2))
    limits = {"schedulingTimeout": "8s", "attempts": {"failed": 8}}
    place.apply(studies.benchmark(repeats=1, sweep=PAIR, limits=limits))
    first = kube.name_of(place.wait(lambda: place.all(kube.JOBS), what="a Job")[0])

    assert "has no node" in place.wait(lambda: place.condition("GangPending")[1], what="GangPending")
    (sentence, *_) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert f"pod {first}-" in sentence
    assert "nodes are available" in sentence, "the scheduler's own words"
    assert "Insufficient cpu" in sentence
    place.wait(lambda: first not in map(kube.name_of, place.all(kube.JOBS)), what="its Job gone")
    assert not [pod for pod in place.all(kube.PODS) if kube.name_of(pod).startswith(f"{first}-")]
    place.cluster.request("DELETE", f"{pods}/foreign")
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished", seconds=180.0)
    attempts = place.status("quick")["attempts"]
    assert attempts["succeeded"] == 1
    assert attempts["failed"] == attempts["started"] - 1 >= 1


def test_an_autoscalers_newest_word_on_a_pod_leads_and_a_node_that_is_being_made_is_no_warning(place: Place) -> None:
    """Events as kubernetes-sigs/karpenter v1.15.0 wrote them, by hand: the node never comes."""
    place.apply(studies.pool("nowhere", scheduling={"nodeSelector": {"pool": "nowhere"}}))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["nowhere"], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep))
    (pod,) = place.wait(lambda: place.all(kube.PODS), what="a pod")

    def tell(reason: str, message: str, *, at: str) -> None:
        metadata = {"generateName": "karpenter-", "namespace": place.namespace}
        about = {"kind": "Pod", "namespace": place.namespace, "name": kube.name_of(pod), "uid": kube.uid_of(pod)}
        event = {"metadata": metadata, "involvedObject": about, "reason": reason, "message": message}
        source = {"source": {"component": "karpenter"}, "firstTimestamp": at, "lastTimestamp": at}
        place.cluster.request("POST", kube.EVENTS.path(namespace=place.namespace), event | source)

    now = time.time()
    tell("Nominated", "Pod should schedule on: nodeclaim/e2-kc78h", at=observe.timestamp(now))
    place.wait(lambda: place.condition("GangPending")[0] == "NodeComing", what="a node that is being made")
    assert "karpenter: Pod should schedule on: nodeclaim/e2-kc78h; scheduler: 0/" in place.condition("GangPending")[1]
    assert place.said("GangPending") == []
    full = "Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpubench)"
    tell("FailedScheduling", full, at=observe.timestamp(now + 1))
    place.wait(lambda: place.condition("GangPending")[0] == "NodeLimitReached", what="the NodePool's limit")
    assert full in place.condition("GangPending")[1]
    (warning,) = place.wait(lambda: place.said("GangPending"), what="an Event")
    assert full in warning


def test_a_pod_whose_node_never_starts_it_ends_the_attempt_with_that_node(place: Place) -> None:
    place.apply(studies.pool("silent", maxNodes=1))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["silent"], "workers": [1], "batchPerWorker": [64]}]
    limits = {"schedulingTimeout": "5s", "attempts": {"failed": 0}}
    place.cluster.kill(SILENT)  # its lease is good for another while
    try:
        place.apply(studies.benchmark(repeats=1, sweep=sweep, limits=limits))
        (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    finally:
        place.cluster.restart(SILENT)
    assert "has node silent, which does not start it" in sentence
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished")
    (point,) = place.status("quick")["results"]
    assert point["state"] == "Failed", "the pool has room: it is no finding about its capacity"


def running_pod(place: Place) -> kube.Object:
    def running() -> list[kube.Object]:
        return [pod for pod in place.all(kube.PODS) if pod["status"].get("phase") == "Running"]

    pod: kube.Object = place.wait(running, what="a running pod")[0]
    return pod


def test_half_a_termination_message_is_a_lost_result_and_tried_again(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    pod = running_pod(place)
    (job,) = place.all(kube.JOBS)
    whole = studies.finished_state(job, now=0.0)["terminated"]["message"]
    annotations = {"gpubench.dev/pretend-exit": "0", "gpubench.dev/pretend-message": whole[: len(whole) // 2]}
    path = kube.PODS.path(namespace=place.namespace, name=kube.name_of(pod))
    patch = {"metadata": {"annotations": annotations}}
    place.cluster.request("PATCH", path, patch, content_type="application/merge-patch+json")
    (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert "its result is lost: the termination message was cut: its end is missing" in sentence
    place.end_study("quick")
    attempts = place.status("quick")["attempts"]
    assert (attempts["failed"], attempts["succeeded"]) == (1, 2)


def test_an_eviction_for_a_full_disk_is_a_failure_and_not_a_reclaimed_node(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    pod = running_pod(place)
    message = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 9Gi. "
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}
    path = kube.PODS.path(namespace=place.namespace, name=kube.name_of(pod), subresource="status")
    patch = {"status": {"conditions": [condition]}}
    place.cluster.request("PATCH", path, patch, content_type="application/strategic-merge-patch+json")
    (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert "low on resource: ephemeral-storage" in sentence
    place.end_study("quick")
    attempts = place.status("quick")["attempts"]
    assert (attempts["failed"], attempts["preempted"], attempts["succeeded"]) == (1, 0, 2)


def test_a_pod_without_the_studys_secret_does_not_start_and_says_so(place: Place) -> None:
    """Somebody deletes the Secret between a Job and its pods' start: they wait, and the next gang has it again."""
    place.apply(studies.pool("process", maxNodes=2))
    quota = place.forbid_pods()
    limits = {"schedulingTimeout": "30s", "attempts": {"failed": 2}}
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark(repeats=1, sweep=sweep, limits=limits))
    place.wait(lambda: place.all(kube.JOBS), what="a Job")
    (secret,) = place.all(kube.SECRETS)
    place.cluster.request("DELETE", kube.SECRETS.path(namespace=place.namespace, name=kube.name_of(secret)))
    place.cluster.request("DELETE", quota)
    (sentence, *_) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end", seconds=120.0)
    assert f'secrets "{kube.name_of(secret)}" not found' in sentence
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished", seconds=120.0)
    assert place.status("quick")["attempts"]["succeeded"] == 1
    assert names.TOKEN_KEY in place.all(kube.SECRETS)[0]["data"]


def test_a_job_that_a_policy_refuses_costs_no_attempt_and_starts_when_the_policy_is_gone(place: Place) -> None:
    with policies.refused(place.cluster, place.namespace, "has(object.metadata.labels.team)", says="no label team"):
        place.apply(studies.pool("process", maxNodes=2))
        place.apply(studies.benchmark(repeats=1, sweep=PAIR))
        place.wait(lambda: place.holds("quick", "WritesRefused"), what="a word about the policy")
        assert "no label team" in place.status("quick")["message"]
        place.operator.kill()
        place.operator.start()
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished", seconds=180.0)
    attempts = place.status("quick")["attempts"]
    assert (attempts["started"], attempts["succeeded"]) == (1, 1)


def test_a_job_whose_labels_somebody_removes_ends_with_that_sentence_and_holds_no_nodes(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))
    pod = running_pod(place)
    (job,) = place.all(kube.JOBS)
    uid = names.LABEL_BENCHMARK_UID
    place.cluster.kubectl("label", "job", kube.name_of(job), "-n", place.namespace, f"{uid}-", f"{names.LABEL_TRIAL}-")
    (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert f"label {uid}, label {names.LABEL_TRIAL} of Job {kube.name_of(job)}" in sentence
    place.wait(lambda: kube.uid_of(pod) not in map(kube.uid_of, place.all(kube.PODS)), what="its pod gone")
    place.end_study("quick")
    assert "JobChanged" in [entry["reason"] for entry in place.entries()]
