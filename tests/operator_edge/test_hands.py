# SPDX-License-Identifier: Apache-2.0
"""What policies and careless hands do to Jobs, pods and ConfigMaps of a benchmark: it is said, and nothing is lost.

Real API server, Job controller and garbage collector; pods run on pretending nodes until a test ends them.
"""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

import gang_books
import policies
import studies
from cluster import ClusterError
from gpubench import names
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

PAIR = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [2], "batchPerWorker": [64]}]
WHOLE = [{**PAIR[0], "workers": [4]}]  # the pool
MERGE = "application/merge-patch+json"


@pytest.fixture(autouse=True)
def books(place: Place, request: pytest.FixtureRequest) -> Iterator[None]:
    """What is billed is what the pods held; an orphan is nobody's, and its time is assumed."""
    unseen = {"JobVanished"} if "leaves_behind" in request.node.name else ()
    with gang_books.kept(place.cluster, place.entries, unseen=unseen):
        yield
        begun = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace))["items"]
        assert not begun or any(entry.get("outcome") for entry in place.entries())


def begun(place: Place, *, sweep: list[dict[str, Any]] = PAIR, **spec: Any) -> kube.Object:
    """The Job of a gang that runs."""
    place.apply(studies.benchmark(repeats=1, sweep=sweep, **spec))
    place.wait(lambda: runs(place, pods=sweep[0]["workers"][0]), what="a gang that runs")
    (job,) = place.all(kube.JOBS)
    found: kube.Object = job
    return found


def runs(place: Place, *, pods: int = 2) -> bool:
    return [pod["status"].get("phase") for pod in place.all(kube.PODS)] == ["Running"] * pods


def patch(place: Place, resource: kube.Resource, body: kube.Object, change: dict[str, Any]) -> None:
    path = resource.path(namespace=place.namespace, name=kube.name_of(body))
    place.cluster.request("PATCH", path, change, content_type=MERGE)


def is_seen_ending(place: Place) -> bool:
    """Whether a run before is in the ledger with the ends of all its pods, of which a watch tells later than a list."""
    runs = [run for entry in place.entries() for run in entry.get("segments", ())]
    return bool(runs) and not any(run.get("holding") or run.get("unseen") for run in runs)


def outcomes(place: Place) -> list[tuple[str, str]]:
    place.end_study("quick")
    return [(entry["outcome"], entry["reason"]) for entry in place.entries()]


def test_a_policy_engine_that_is_down_is_said_and_costs_no_attempt(place: Place) -> None:
    with policies.down(place.cluster, place.namespace):
        place.apply(studies.benchmark(repeats=1, sweep=PAIR))
        place.wait(lambda: place.holds("quick", "WritesRefused"), what="a word about it")
        reason, message = place.condition("WritesRefused")
    assert reason == "WebhookFailing"
    assert "see that webhook's Service, or its failurePolicy" in message
    assert outcomes(place) == [("Succeeded", "Completed")]


@pytest.mark.parametrize("reason", ["Forbidden", "Invalid", "RequestEntityTooLarge"])
def test_a_refusal_costs_no_attempt_whatever_its_code(place: Place, reason: str) -> None:
    rule = "has(object.metadata.labels.team)"
    with policies.refused(place.cluster, place.namespace, rule, says="no label team", reason=reason):
        place.apply(studies.benchmark(repeats=1, sweep=PAIR))
        place.wait(lambda: place.holds("quick", "WritesRefused"), what="a word about it")
        assert "no label team" in place.condition("WritesRefused")[1]
    assert outcomes(place) == [("Succeeded", "Completed")]


def test_a_policy_that_lets_nobody_change_a_job_keeps_no_result_back(place: Place) -> None:
    with policies.refused(place.cluster, place.namespace, "oldObject == null", says="Jobs stay as they are"):
        begun(place)
        assert outcomes(place) == [("Succeeded", "Completed")]
        assert place.holds("quick", "Succeeded")


def test_a_job_that_somebody_suspends_and_resumes_is_one_attempt_and_both_runs_are_billed(place: Place) -> None:
    job = begun(place)
    place.wait(lambda: [entry for entry in place.entries() if entry.get("placedAt")], what="its first run's record")
    patch(place, kube.JOBS, job, {"spec": {"suspend": True}})
    place.wait(lambda: place.condition("Admitted")[0] == "SuspendedByOthers", what="a word about it")
    place.wait(lambda: is_seen_ending(place), what="its first run's end")
    patch(place, kube.JOBS, job, {"spec": {"suspend": False}})
    place.wait(lambda: runs(place), what="its second run")
    assert outcomes(place) == [("Succeeded", "Completed")]
    (entry,) = place.entries()
    assert sum(len(run["podTimes"]) for run in (entry, *entry["segments"])) == 4


def test_pods_without_labels_are_found_and_their_result_counts(place: Place) -> None:
    begun(place)
    for pod in place.all(kube.PODS):
        patch(place, kube.PODS, pod, {"metadata": {"labels": {names.LABEL_BENCHMARK_UID: None}}})
    assert outcomes(place) == [("Succeeded", "Completed")]


def test_a_job_with_another_owner_is_ended_with_that_sentence(place: Place) -> None:
    job = begun(place)
    other = next(body for body in place.all(kube.CONFIG_MAPS))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": kube.name_of(other), "uid": kube.uid_of(other)}
    patch(place, kube.JOBS, job, {"metadata": {"ownerReferences": [owner]}})
    (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert f"somebody else, as a webhook, changed owner quick of Job {kube.name_of(job)}" in sentence
    assert outcomes(place) == [("Failed", "JobChanged"), ("Succeeded", "Completed")]


def test_a_finalizer_on_pods_of_a_deleted_job_holds_up_nobody_and_blames_no_node(place: Place) -> None:
    job = begun(place, sweep=WHOLE)
    pods = place.all(kube.PODS)
    for pod in pods:
        patch(place, kube.PODS, pod, {"metadata": {"finalizers": [*pod["metadata"]["finalizers"], "example.com/keep"]}})
    try:
        path = kube.JOBS.path(namespace=place.namespace, name=kube.name_of(job))
        place.cluster.request("DELETE", f"{path}?propagationPolicy=Foreground")
        first = set(map(kube.name_of, pods))  # which a result that they are given now would make succeed
        place.wait(lambda: not first & set(map(kube.name_of, place.running())), what="their end")
        assert outcomes(place) == [("Failed", "JobVanished"), ("Succeeded", "Completed")]
        assert all("delete its Node" not in message for message in place.said("GangPending"))
    finally:
        for pod in pods:
            patch(place, kube.PODS, pod, {"metadata": {"finalizers": None}})


def test_a_job_that_a_webhook_lets_retry_is_ended_with_that_sentence(place: Place) -> None:
    with policies.changed(place.cluster, place.namespace, kube.JOBS, backoffLimit=6):
        begun(place, limits={"attempts": {"failed": 0}})
        place.end_pods(exit_code=1)
        place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    (entry,) = place.entries()
    assert "a webhook wrote backoffLimit 6 in place of 0 into its Job" in entry["sentence"]


def test_a_time_to_live_that_a_policy_gives_to_jobs_without_one_takes_no_result_from_an_operator_that_is_away(
    place: Place,
) -> None:
    lacks = "!has(object.spec.ttlSecondsAfterFinished)"
    with policies.changed(place.cluster, place.namespace, kube.JOBS, only=lacks, ttlSecondsAfterFinished=0):
        begun(place)
        place.operator.kill()
        place.end_pods()
        place.cluster.kubectl(
            "wait", "job", "--all", "-n", place.namespace, "--for=condition=Complete", "--timeout=60s"
        )
        (job,) = place.all(kube.JOBS)
        assert job["spec"]["ttlSecondsAfterFinished"] > 600
        place.operator.start()
        assert outcomes(place) == [("Succeeded", "Completed")]


def test_a_job_that_somebody_scales_is_ended_with_that_sentence_and_billed(place: Place) -> None:
    job = begun(place, limits={"attempts": {"failed": 0}, "schedulingTimeout": "5s"})
    patch(place, kube.JOBS, job, {"spec": {"parallelism": 0}})
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    (entry,) = place.entries()
    assert (entry["reason"], len(entry["podTimes"])) == ("JobChanged", 2)


def test_a_quota_for_half_a_gang_is_named_and_the_half_is_given_back(place: Place) -> None:
    policies.quota(place.cluster, place.namespace, "half", pods="1")
    limits = {"attempts": {"failed": 0}, "schedulingTimeout": "20s"}
    place.apply(studies.benchmark(repeats=1, sweep=PAIR, limits=limits))
    place.wait(lambda: place.condition("GangPending")[0] == "CreationRefused", what="the quota named")
    assert "exceeded quota: half" in place.condition("GangPending")[1]
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    (entry,) = place.entries()
    assert "exceeded quota: half" in entry["sentence"]
    assert len(entry["podTimes"]) == 1


def test_a_ledger_that_somebody_made_immutable_goes_on_by_its_remedy(place: Place) -> None:
    begun(place)
    labels = {names.LABEL_COMPONENT: names.COMPONENT_LEDGER}
    (shard,) = (one for one in place.all(kube.CONFIG_MAPS) if labels.items() <= one["metadata"]["labels"].items())
    patch(place, kube.CONFIG_MAPS, shard, {"immutable": True})
    place.end_pods()
    _, message = place.wait(
        lambda: found if "immutable" in (found := place.condition("Progressing"))[1] else None, what="a word about it"
    )
    anew = f"kubectl get configmap {kube.name_of(shard)} -o json | jq 'del(.immutable)' | kubectl replace --force -f -"
    assert anew in message
    path = kube.CONFIG_MAPS.path(namespace=place.namespace, name=kube.name_of(shard))
    body = place.cluster.request("GET", path)
    del body["immutable"]
    with contextlib.suppress(ClusterError):  # the operator may have made it anew in between
        place.cluster.kubectl("replace", "--force", "-f", "-", stdin=json.dumps(body))
    assert outcomes(place) == [("Succeeded", "Completed")]


def test_pods_of_a_job_that_is_deleted_as_soon_as_it_is_there_are_billed(place: Place) -> None:
    """In the background, as kubectl does: the Job is gone before its pods, and before any of them was recorded."""
    place.apply(studies.benchmark(repeats=1, sweep=PAIR))
    (job,) = place.wait(lambda: place.all(kube.JOBS), what="a Job")
    place.wait(lambda: sum(bool(pod["spec"].get("nodeName")) for pod in place.all(kube.PODS)) == 2, what="its pods")
    path = kube.JOBS.path(namespace=place.namespace, name=kube.name_of(job))
    place.cluster.request("DELETE", f"{path}?propagationPolicy=Background")
    assert outcomes(place) == [("Failed", "JobVanished"), ("Succeeded", "Completed")]


def test_pods_that_a_deleted_job_leaves_behind_have_a_deadline_and_the_attempt_is_made_again(place: Place) -> None:
    job = begun(place)
    left = place.running()
    place.cluster.kubectl("delete", "job", kube.name_of(job), "-n", place.namespace, "--cascade=orphan")
    (sentence,) = place.wait(lambda: place.said("AttemptFailed"), what="the attempt's end")
    assert f"Job {kube.name_of(job)} was deleted by somebody else while it ran" in sentence
    assert all(pod["spec"]["activeDeadlineSeconds"] for pod in left)
    for pod in left:
        place.cluster.request("DELETE", kube.PODS.path(namespace=place.namespace, name=kube.name_of(pod)))
    place.wait(lambda: {*map(kube.uid_of, left)}.isdisjoint(map(kube.uid_of, place.all(kube.PODS))), what="them gone")
    assert outcomes(place) == [("Failed", "JobVanished"), ("Succeeded", "Completed")]
