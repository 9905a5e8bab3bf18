# SPDX-License-Identifier: Apache-2.0
"""Studies with `queueName`, on a real API server with real controllers; Kueue is `support/kueue_stand_in.py`."""

from typing import Any

import pytest

import installation
import kueue_stand_in
import studies
from cluster import Cluster
from gpubench import names
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

USER = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
TOLERATION = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}
RUN_SECONDS = "15"  # much longer than until an eviction: an operator that is late still sees the gang running
FLAVOR = kueue_stand_in.Flavor(node_labels={"pool": "process"}, tolerations=(TOLERATION,))


def study() -> kube.Object:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": RUN_SECONDS}]}
    return studies.benchmark(repeats=1, sweep=sweep, template=template, queueName="team-a")


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


def admission(place: Place) -> tuple[str, str]:
    conditions = place.status("quick").get("conditions") or ()
    return next(((one["reason"], one["message"]) for one in conditions if one["type"] == "Admitted"), ("", ""))


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


def test_the_operator_asks_kueue_for_nothing_but_whether_it_is_there(place: Place) -> None:
    asked = {
        event["requestURI"]
        for event in place.cluster.audit_events()
        if event["user"]["username"] == USER and names.KUEUE_GROUP in event["requestURI"]
    }
    assert asked == {f"/apis/{names.KUEUE_GROUP}"}
