# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the operator at ten random moments of a study: nothing lost, nothing counted twice, the same status.

The same where a second replica stands by and takes over.

The study runs on nodes that run processes, with the stand-in worker; the moments come from a fixed seed, but what the
operator does at a moment depends on the machine: test_crash_between_writes.py is the exhaustive one.
"""

import json
import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import installation
import studies
from cluster import Cluster
from gpubench import metrics, names
from gpubench_cluster import kube
from gpubench_operator import settings

Place = Any

SETTINGS = {  # a short Lease
    "GPUBENCH_LEASE_SECONDS": "6",
    "GPUBENCH_LEASE_RENEW_SECONDS": "5",
    "GPUBENCH_LEASE_RETRY_SECONDS": "0.5",
    "GPUBENCH_LOG_FORMAT": "text",
    "GPUBENCH_NODE_POLL_SECONDS": "2",
}

KILLS = 10
SEED = 20261121
LEADING = "leading"
STUDY_SECONDS = 600.0  # sixty on a free machine, four times as many beside other tests on a slow one


def study(name: str, *, repeats: int = 6) -> kube.Object:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1, 2], "batchPerWorker": [64]}]
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": "1"}]}
    return studies.benchmark(name, repeats=repeats, sweep=sweep, template=template)


def entries(place: Place, name: str) -> dict[str, Any]:
    """The ledger without what differs from run to run: moments, UIDs, and names that hold a UID."""
    moving = (
        "createdAt", "endedAt", "placedAt", "nodeSeconds", "podTimes", "job", "jobUid", "nodes", "zones", "imageId",
        "places", "podPlaces", "checksum",
    )  # fmt: skip
    found = {}
    for body in place.all(kube.CONFIG_MAPS):
        labels = body["metadata"]["labels"]
        if labels[names.LABEL_COMPONENT] == names.COMPONENT_LEDGER and labels[names.LABEL_BENCHMARK] == name:
            for key, text in body["data"].items():
                assert key not in found, "an attempt is in two shards"
                found[key] = {field: value for field, value in json.loads(text).items() if field not in moving}
    return found


def comparable(status: dict[str, Any]) -> Any:
    """The status without moments, nodes, and what hangs on them. The stand-in's figures depend on the trial only."""
    kept = without(status, "startTime", "completionTime", "spent", "goodput")
    kept["conditions"] = [without(condition, "lastTransitionTime") for condition in kept["conditions"]]
    kept["results"] = [without(result, "nodes", "bill", "spread") for result in kept["results"]]
    for result in kept["results"]:
        result["warnings"] = [found for found in result["warnings"] if found["reason"] != "ZonesCrossed"]
    return kept


def without(found: dict[str, Any], *fields: str) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in fields}


def jobs_created(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Names of the Jobs that were really created for a study, from the audit log."""
    return [
        event["objectRef"]["name"]
        for event in cluster.audit_events()
        if event["verb"] == "create"
        and event["stage"] == "ResponseComplete"
        and (event["objectRef"]["resource"], event["objectRef"].get("namespace")) == ("jobs", namespace)
        and event["responseStatus"]["code"] == 201
        and event["objectRef"]["name"].startswith(f"{name}-")
    ]


def run_with_kills(place: Place, name: str, *, moments: random.Random) -> int:
    """Kill and start again until the study has finished; the number of kills that hit it."""
    kills = 0
    place.apply(study(name))
    while kills < KILLS and not place.holds(name, "Finished"):
        led = place.operator.log.read_text().count(LEADING)
        time.sleep(moments.uniform(0.0, 1.5))
        place.operator.kill()
        kills += 1
        place.operator.start()

        def leads(led: int = led) -> bool:
            return bool(place.operator.log.read_text().count(LEADING) > led)

        place.wait(leads, what="a new leader")
    place.wait(lambda: place.holds(name, "Finished"), what=f"{name} finished", seconds=STUDY_SECONDS)
    return kills


def test_kill_9_at_ten_random_moments_changes_nothing(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(study("calm"))
    place.wait(lambda: place.holds("calm", "Finished"), what="calm finished", seconds=STUDY_SECONDS)
    assert place.status("calm")["phase"] == "Succeeded"

    kills = run_with_kills(place, "shaken", moments=random.Random(SEED))

    assert kills == KILLS
    assert comparable(place.status("shaken")) == comparable(place.status("calm"))
    assert entries(place, "shaken") == entries(place, "calm")
    created = jobs_created(place.cluster, place.namespace, "shaken")
    # Of a request whose operator was killed before the answer the audit log has no 201; its Job is in the ledger above.
    assert len(created) == len(set(created)) <= place.status("shaken")["attempts"]["started"] == 12
    assert len(jobs_created(place.cluster, place.namespace, "calm")) == 12
    assert 'benchmark="shaken"' in place.operator.get("/metrics")


TAKEN_OVER_WITHIN = 20.0  # seconds, as promised


@pytest.fixture
def replicas(place: Place, tmp_path: Path) -> Iterator[list[installation.Operator]]:
    """Two replicas, as a Deployment has them, in place of the only one: the first leads, by the default Lease."""
    alone = place.operator
    alone.stop()
    account = place.cluster.kubeconfig_for_service_account(installation.NAMESPACE, installation.ACCOUNT)
    found = [
        installation.Operator(account, log=tmp_path / f"{number}.log", settings={"GPUBENCH_LOG_FORMAT": "text"})
        for number in range(2)
    ]
    for one in found:
        one.start()
        place.operator = found[0]
        place.wait(lambda: leads(found[0]), what="a leader")
    yield found
    for one in found:
        one.stop()
    place.operator = alone
    alone.start()


def lease(place: Place) -> dict[str, Any]:
    path = kube.LEASES.path(namespace=installation.NAMESPACE, name=settings.Settings().lease_name)
    found: dict[str, Any] = place.cluster.request("GET", path)["spec"]
    return found


def leads(operator: installation.Operator) -> bool:
    return f"{metrics.LEADER.name} 1.0" in operator.get("/metrics")


def test_a_replica_that_stands_by_takes_over_when_the_leader_is_killed_and_nothing_is_doubled(
    place: Place, replicas: list[installation.Operator], capsys: pytest.CaptureFixture[str]
) -> None:
    leader, standby = replicas
    assert "standing by" in standby.get("/healthz")
    assert "connected, standing by" in standby.get("/readyz"), "a rolling update waits until each replica is ready"
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(study("quick", repeats=3))
    place.wait(lambda: place.status("quick").get("attempts", {}).get("succeeded", 0) >= 2, what="two trials measured")

    leader.kill()
    killed_at, before = time.monotonic(), lease(place)
    place.operator = standby  # which is not started again: it must not end
    place.wait(lambda: leads(standby), what="a new leader")
    with capsys.disabled():
        print(f"\ntaken over {time.monotonic() - killed_at:.1f} s after kill -9 of the leader")
    place.wait(lambda: place.holds("quick", "Finished"), what="quick finished", seconds=STUDY_SECONDS)

    after, terms = lease(place), settings.Settings()
    assert before["holderIdentity"] != after["holderIdentity"]
    assert (after["leaseTransitions"], after["leaseDurationSeconds"]) == (before["leaseTransitions"] + 1, 15)
    waited = datetime.fromisoformat(after["acquireTime"]) - datetime.fromisoformat(before["renewTime"])
    assert waited.total_seconds() >= terms.lease_seconds, "not before the Lease of the old leader had run out"
    # It is seen at one look that the Lease has changed, and at another one that it has run out.
    assert terms.lease_seconds + 2 * terms.lease_retry_seconds < TAKEN_OVER_WITHIN

    assert not standby.has_ended()
    created = jobs_created(place.cluster, place.namespace, "quick")
    attempts = place.status("quick")["attempts"]
    assert len(created) == len(set(created)) == attempts["started"] == attempts["succeeded"] == 6
    found = [(entry["trial"], entry["outcome"]) for entry in place.entries()]
    assert len(set(found)) == len(found) == 6
    assert {outcome for _, outcome in found} == {"Succeeded"}


@pytest.fixture
def blockable(place: Place, tmp_path: Path) -> Iterator[tuple[installation.Operator, Path]]:
    """The only replica, with a short Lease; its event loop stands still while the file is there."""
    alone, block = place.operator, tmp_path / "block"
    alone.stop()
    account = place.cluster.kubeconfig_for_service_account(installation.NAMESPACE, installation.ACCOUNT)
    options = {**SETTINGS, "TEST_BLOCK_FILE": str(block)}
    operator = installation.Operator(account, log=tmp_path / "operator.log", settings=options)
    operator.program = (str(Path(__file__).with_name("blocking_operator.py")),)
    operator.start()
    place.operator = operator
    place.wait(lambda: leads(operator), what="a leader")
    yield operator, block
    block.unlink(missing_ok=True)
    operator.stop()
    place.operator = alone
    alone.start()


def renewed_at(place: Place) -> datetime:
    return datetime.fromisoformat(lease(place)["renewTime"])


def slow_samples(operator: installation.Operator) -> float:
    """Samples of the event loop's lag above five seconds."""
    page = dict(line.rsplit(" ", 1) for line in operator.get("/metrics").splitlines() if not line.startswith("#"))
    return float(page[f"{metrics.LOOP_LAG.name}_count"]) - float(page[f'{metrics.LOOP_LAG.name}_bucket{{le="5.0"}}'])


def test_nothing_is_written_after_the_lease_was_given_back(place: Place) -> None:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [16, 32, 64, 128]}]
    place.apply(studies.benchmark(repeats=5, sweep=sweep, limits={"parallelTrials": 4}))
    place.wait(lambda: len(place.running()) == 4, what="four gangs run")
    place.end_pods()  # four ends to write, and four Jobs to create
    assert place.operator.stop() == 0
    account = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
    writes = [
        (event["requestReceivedTimestamp"], event["objectRef"]["resource"])
        for event in place.cluster.audit_events()
        if event["user"]["username"] == account and event["verb"] in ("create", "update", "patch", "delete")
    ]
    assert lease(place)["holderIdentity"] == ""
    assert max(writes)[1] == "leases", "giving it back was the last of all"
    place.operator.start()
    place.end_study("quick")


def test_an_event_loop_that_is_blocked_for_longer_than_the_lease_lasts_keeps_it_and_shows_its_lag(
    place: Place, blockable: tuple[installation.Operator, Path]
) -> None:
    operator, block = blockable
    before = lease(place)
    assert slow_samples(operator) == 0
    block.touch()
    place.apply(studies.benchmark("late", repeats=1))  # whose reconcile reads the clock; nodes are listed every 2 s too
    blocked_at = renewed_at(place)
    far = 2 * float(SETTINGS["GPUBENCH_LEASE_SECONDS"])
    place.wait(lambda: (renewed_at(place) - blocked_at).total_seconds() > far, what="renewals by a blocked operator")
    block.unlink()
    place.wait(lambda: place.status("late").get("phase"), what="a reconcile after the block")
    after = lease(place)
    assert not operator.has_ended()
    assert (after["holderIdentity"], after["leaseTransitions"]) == (
        before["holderIdentity"],
        before["leaseTransitions"],
    )
    assert slow_samples(operator) >= 1
