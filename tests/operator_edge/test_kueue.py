# SPDX-License-Identifier: Apache-2.0
"""Studies with `queueName`, on a real API server with real controllers; Kueue is `support/kueue_stand_in.py`."""

import contextlib
import time
from functools import partial
from typing import Any

import pytest

import installation
import kueue_stand_in
import studies
from cluster import ApiError, Cluster
from gpubench import names
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

USER = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
TOLERATION = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}
RUN_SECONDS = "15"  # much longer than until an eviction: an operator that is late still sees the gang running
FLAVOR = kueue_stand_in.Flavor(node_labels={"pool": "process"}, tolerations=(TOLERATION,))


def study(seconds: str = RUN_SECONDS, **spec: Any) -> kube.Object:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": seconds}]}
    return studies.benchmark(repeats=1, sweep=sweep, template=template, **{"queueName": "team-a"} | spec)


@pytest.fixture(scope="module")
def kueue(equipped: Cluster) -> kueue_stand_in.KueueStandIn:
    return kueue_stand_in.KueueStandIn(equipped)


@pytest.fixture
def in_queue(place: Place) -> kube.Object:
    """The Job of a study that has just been applied."""
    scheduling = {"nodeSelector": {"pool": "process"}, "tolerations": [TOLERATION]}
    place.apply(studies.pool("process", maxNodes=2, scheduling=scheduling))
    place.apply(study())
    found: list[kube.Object] = place.wait(lambda: place.all(kube.JOBS), what="a Job")
    return found[0]


@pytest.fixture
def kueue_runs(kueue: kueue_stand_in.KueueStandIn) -> kueue_stand_in.KueueStandIn:
    """Kueue, which another test may have installed."""
    with contextlib.suppress(ApiError):
        kueue.install()
    return kueue


def said(place: Place, type_: str) -> tuple[str, str]:
    """Reason and message of a condition."""
    conditions = place.status("quick").get("conditions") or ()
    return next(((one["reason"], one["message"]) for one in conditions if one["type"] == type_), ("", ""))


def admission(place: Place) -> tuple[str, str]:
    return said(place, "Admitted")


def wait_until_said(place: Place, reason: str, *words: str, type_: str = "Admitted") -> None:
    """Until a condition has this reason and these words, by an operator that a change of a Job wakes."""

    def look() -> bool:
        for job in place.all(kube.JOBS):
            path = kube.JOBS.path(namespace=place.namespace, name=kube.name_of(job))
            change = {"metadata": {"annotations": {"example.com/nudge": str(time.monotonic())}}}
            with contextlib.suppress(ApiError):  # it may just have gone
                place.cluster.request("PATCH", path, change, content_type="application/merge-patch+json")
        found, message = said(place, type_)
        return found == reason and all(word in message for word in words)

    place.wait(look, what=f"{type_} {reason} with {words}")


def next_job(place: Place, before: kube.Object) -> kube.Object:
    """The Job of the next attempt."""
    others = partial(lambda uid: [one for one in place.all(kube.JOBS) if kube.uid_of(one) != uid], kube.uid_of(before))
    found: list[kube.Object] = place.wait(others, what="another Job")
    return found[0]


def running(place: Place) -> bool:
    phases = [pod["status"].get("phase") for pod in place.all(kube.PODS)]
    return phases == ["Running", "Running"]


def test_an_eviction_by_kueue_is_no_failure_and_the_same_job_runs_again(
    place: Place, in_queue: kube.Object, kueue: kueue_stand_in.KueueStandIn
) -> None:
    assert in_queue["spec"]["suspend"] is True
    assert in_queue["metadata"]["labels"][names.LABEL_QUEUE] == "team-a"
    place.wait(lambda: admission(place)[0] == "KueueAbsent", what="a word about Kueue, which is not there")
    kueue.install()
    kueue.queue(in_queue, says="couldn't assign flavors to pod set main: insufficient unused quota for cpu")
    place.wait(lambda: "insufficient unused quota for cpu" in admission(place)[1], what="why it waits")
    assert admission(place)[0] == "WaitingForQueue"
    assert place.all(kube.PODS) == []

    kueue.admit(in_queue, FLAVOR)
    place.wait(lambda: running(place), what="two running pods")
    place.wait(lambda: admission(place)[0] == "Admitted", what="Admitted")
    (pod, _) = place.all(kube.PODS)
    assert pod["spec"]["nodeSelector"] == {"pool": "process"}
    assert pod["spec"]["tolerations"].count(TOLERATION) == 1, "what the pool and the flavor both name is there once"
    place.wait(lambda: place.entries()[0].get("admittedAt"), what="a run in the ledger")

    kueue.evict(in_queue, says="Preempted to accommodate a workload of a higher priority")
    place.wait(lambda: not place.all(kube.PODS), what="no pods")
    place.wait(lambda: admission(place)[0] == "EvictedFromQueue", what="a word about the eviction")
    (waiting,) = place.all(kube.JOBS)
    assert (kube.uid_of(waiting), waiting["spec"]["suspend"]) == (kube.uid_of(in_queue), True)
    assert "deletionTimestamp" not in waiting["metadata"]
    attempts = place.status("quick")["attempts"]
    assert (attempts["started"], attempts["failed"], attempts["preempted"]) == (1, 0, 0)

    kueue.admit(waiting, FLAVOR)
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    status = place.status("quick")
    assert status["phase"] == "Succeeded"
    (entry,) = place.entries()
    (run,) = entry["segments"]
    assert (entry["outcome"], entry["queue"], len(run["nodes"]), len(entry["nodes"])) == ("Succeeded", "team-a", 2, 2)
    # The API counts whole seconds: a run may end in the second it began in, and be told as having begun earlier.
    assert run["admittedAt"] <= run["endedAt"] < entry["admittedAt"] + 1.0
    assert entry["admittedAt"] < entry["podTimes"][0][2]
    assert float(status["results"][0]["bill"]["parts"]["lost"]) > 0, "the nodes of the run that was evicted were held"
    assert {"KueueAbsent", "WaitingForQueue", "Admitted", "EvictedFromQueue"} <= set(place.events("quick"))
    assert not {"AttemptFailed", "AttemptPreempted"} & set(place.events("quick"))


def test_a_study_that_waits_in_a_queue_is_suspended_resumed_and_deleted_as_any_other(
    place: Place, in_queue: kube.Object
) -> None:
    place.patch_spec("quick", suspend=True)
    place.wait(lambda: not place.all(kube.JOBS), what="no Job")
    place.wait(lambda: place.status("quick").get("attempts", {}).get("stopped") == 1, what="the stop in the status")
    place.patch_spec("quick", suspend=False)
    (again,) = place.wait(lambda: place.all(kube.JOBS), what="another Job")
    assert kube.uid_of(again) != kube.uid_of(in_queue)
    assert again["spec"]["suspend"] is True
    place.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "quick", "-n", place.namespace)
    place.wait(lambda: not place.all(kube.JOBS), what="nothing left")


def test_each_state_of_a_workload_has_its_words_and_none_of_its_ends_is_a_failure(
    place: Place, in_queue: kube.Object, kueue_runs: kueue_stand_in.KueueStandIn
) -> None:
    kueue, missing = kueue_runs, "LocalQueue team-a is terminating or missing"
    wait_until_said(place, "WorkloadMissing", "has no Workload of it", "manages batch/job in this namespace")
    kueue.queue(in_queue, says=missing, reason=kueue_stand_in.INADMISSIBLE)
    wait_until_said(place, "QueueMissing", missing, "create it")
    kueue.refuse(in_queue, says="ClusterQueue studies is inactive", reason=kueue_stand_in.INADMISSIBLE)
    wait_until_said(place, "QueueOnHold", "studies is inactive", "stopPolicy")
    kueue.reserve(in_queue, check="machines", says="no machine yet")
    wait_until_said(place, "WaitingForAdmissionChecks", "machines (Pending: no machine yet)")
    kueue.deactivate(in_queue)
    wait_until_said(place, "Deactivated", "set spec.active of Workload job-quick-")
    kueue.activate(in_queue)
    kueue.give_up(in_queue, says="conflict for key=pool, value1=process, value2=other")

    second = next_job(place, in_queue)
    kueue.queue(second, says="no quota")
    wait_until_said(place, "WaitingForQueue", "no quota")
    kueue.admit(second, FLAVOR, pods=1)
    wait_until_said(place, "PartiallyAdmitted", "1 of 2 pods", "job-min-parallelism", type_="GangPending")
    kueue.deactivate(second, cause="RequeuingLimitExceeded", says="exceeding the maximum number of re-queuing retries")
    wait_until_said(place, "Deactivated", "re-queuing retries")
    wait_until_said(place, "Deactivated", "no gang waits for nodes", type_="GangPending")
    kueue.delete(second)

    third = next_job(place, second)
    kueue.queue(third, says="no quota")
    kueue.admit(third, FLAVOR)
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    attempts = place.status("quick")["attempts"]
    assert (attempts["started"], attempts["stopped"], attempts["failed"]) == (3, 2, 0)
    given_up, deleted, _ = place.entries()
    assert (given_up["reason"], "conflict for key=pool" in given_up["sentence"]) == ("QueueGaveUp", True)
    assert (deleted["reason"], "waited in queue team-a" in deleted["sentence"]) == ("JobVanished", True)
    assert "re-queuing retries" in deleted["sentence"]


@pytest.mark.usefixtures("kueue_runs")
def test_a_job_that_somebody_suspends_though_its_study_names_no_queue_says_so(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(study("2", queueName=None))
    (job,) = place.wait(lambda: place.all(kube.JOBS), what="a Job")
    path = kube.JOBS.path(namespace=place.namespace, name=kube.name_of(job))
    suspend = partial(place.cluster.request, "PATCH", path, content_type="application/merge-patch+json")
    suspend({"spec": {"suspend": True}})
    wait_until_said(place, "SuspendedByOthers", "manageJobsWithoutQueueName", "spec.queueName")
    assert "is suspended by somebody else" not in admission(place)[1], "managedFields have a name"
    suspend({"spec": {"suspend": False}})
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    assert place.status("quick")["attempts"]["failed"] == 0


def test_while_webhooks_for_jobs_are_away_the_status_goes_on_and_says_which_one(
    place: Place, kueue_runs: kueue_stand_in.KueueStandIn
) -> None:
    """Also of a study that names no queue: Kueue's webhooks are asked about every Job."""
    place.apply(studies.pool("process", maxNodes=2))
    with kueue_runs.webhooks_away():
        place.apply(study("2", queueName=None))
        place.wait(lambda: said(place, "WritesRefused")[0] == "WebhookFailing", what="a word about the webhook")
        message = said(place, "WritesRefused")[1]
        assert message.startswith("Job quick-")
        assert 'failed calling webhook "mjob.kb.io"' in message
        assert place.status("quick")["message"] == message
        place.wait(lambda: "WritesRefused" in place.events("quick"), what="an Event")
        place.patch_spec("quick", suspend=True)
        place.wait(lambda: place.holds("quick", "Suspended"), what="Suspended")
        place.patch_spec("quick", suspend=False)
        place.wait(lambda: not place.holds("quick", "Suspended"), what="resumed")
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished")
    attempts = place.status("quick")["attempts"]
    assert (attempts["started"], attempts["succeeded"]) == (1, 1), "a refusal costs no attempt"
    assert not place.holds("quick", "WritesRefused")


def test_the_operator_reads_kueues_workloads_and_changes_none(place: Place) -> None:
    asked = {
        (event["verb"], (event.get("objectRef") or {}).get("resource"))
        for event in place.cluster.audit_events()
        if event["user"]["username"] == USER and names.KUEUE_GROUP in event["requestURI"]
    }
    assert asked == {("get", None), ("list", "workloads"), ("get", "workloads")}
