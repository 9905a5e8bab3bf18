# SPDX-License-Identifier: Apache-2.0
"""How pods end when somebody else decides: deletion, eviction, Jobs, crashes of the node program."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path
from typing import Any

import cluster_pods
from cluster import Image, Node
from cluster_pods import Pods

# Tells its process ids, and ends on SIGTERM with code 3 after it has said so.
POLITE = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'], start_new_session=True)
def stop(*_):
    print('stopping', flush=True); time.sleep(0.3); sys.exit(3)
signal.signal(signal.SIGTERM, stop)
print('pids', os.getpid(), child.pid, flush=True)
time.sleep(300)
"""
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('pids', os.getpid(), flush=True)
time.sleep(300)
"""
#: Ends when there is such a file.
TOLD = """
import os, time
print('pids', os.getpid(), flush=True)
while not os.path.exists(%r):
    time.sleep(0.05)
raise SystemExit(5)
"""
PAUSE = "import time; time.sleep(300)"


def process_ids(pods: Pods, name: str) -> list[int]:
    log = pods.wait_log(name, "pids")
    found = re.search(r"pids ([\d ]+)", log)
    assert found is not None
    return [int(word) for word in found[1].split()]


def watch_until_gone(pods: Pods, name: str, *, alive: list[int]) -> list[dict[str, Any]]:
    """The pod as it was seen until its end; its object may not go before its processes have."""
    seen: list[dict[str, Any]] = []
    deadline = time.monotonic() + cluster_pods.WAIT_SECONDS
    while (pod := pods.get(name)) is not None:
        seen.append(pod)
        assert time.monotonic() < deadline, f"{name} does not go"
        time.sleep(0.01)
    assert not any(cluster_pods.process_is_alive(pid) for pid in alive)
    return seen


def job(*, script: str, completions: int = 2) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "gang"},
        "spec": {
            "completionMode": "Indexed",
            "completions": completions,
            "parallelism": completions,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "template": {"spec": cluster_pods.pod("", script)["spec"]},
        },
    }


def create_job(pods: Pods, manifest: dict[str, Any]) -> str:
    path = f"/apis/batch/v1/namespaces/{pods.namespace}/jobs"
    pods.cluster.request("POST", path, manifest)
    return f"{path}/gang"


def wait_job(pods: Pods, path: str, condition: str) -> dict[str, Any]:
    def has_condition() -> dict[str, Any] | None:
        status: dict[str, Any] = pods.cluster.request("GET", path)["status"]
        return status if condition in [each["type"] for each in status.get("conditions", [])] else None

    return cluster_pods.wait_for(has_condition, what=f"Job {condition}")


def test_an_indexed_job_of_two_pods_completes(pods: Pods) -> None:
    script = "import os; open(os.environ['M'], 'w').write(os.environ['JOB_COMPLETION_INDEX'])"
    manifest = job(script=script)
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "M", "value": "/dev/termination-log"}]
    status = wait_job(pods, create_job(pods, manifest), "Complete")
    assert status["completedIndexes"] == "0,1"
    items = pods.cluster.request("GET", pods.path)["items"]
    messages = [item["status"]["containerStatuses"][0]["state"]["terminated"]["message"] for item in items]
    assert sorted(messages) == ["0", "1"]


def test_a_failing_job_fails(pods: Pods) -> None:
    status = wait_job(pods, create_job(pods, job(script="raise SystemExit(7)", completions=1)), "Failed")
    assert status["failed"] == 1


def test_deletion_terms_waits_and_reports_before_the_object_goes(pods: Pods) -> None:
    # Two processes, one of them in a session of its own: both must be gone before the object is.
    pods.create(cluster_pods.pod("polite", POLITE))
    pids = process_ids(pods, "polite")
    assert len(pids) == 2
    terminating = pods.delete("polite", grace_seconds=10)
    seen = [terminating, *watch_until_gone(pods, "polite", alive=pids)]
    assert "deletionTimestamp" in seen[-1]["metadata"]
    assert seen[-1]["status"]["phase"] in ("Running", "Failed")  # the end is short: it may fall between two looks


def test_a_deleted_pod_reaches_its_terminal_phase_first(pods: Pods) -> None:
    manifest = cluster_pods.pod("kept", POLITE)
    manifest["metadata"]["finalizers"] = ["example.com/hold"]  # so that the last status can be looked at
    pods.create(manifest)
    pids = process_ids(pods, "kept")
    pods.delete("kept", grace_seconds=10)
    pod = pods.wait_phase("kept", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert not any(cluster_pods.process_is_alive(pid) for pid in pids)
    release = [{"op": "remove", "path": "/metadata/finalizers"}]
    pods.cluster.request("PATCH", f"{pods.path}/kept", release, content_type="application/json-patch+json")
    pods.wait_gone("kept")


def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(pods: Pods) -> None:
    pods.run("stubborn", STUBBORN)
    pids = process_ids(pods, "stubborn")
    began = time.monotonic()
    pods.delete("stubborn", grace_seconds=2)
    watch_until_gone(pods, "stubborn", alive=pids)
    assert time.monotonic() - began > 1.8  # not before its two seconds were over, by two clocks


def test_force_deletion_kills_at_once(pods: Pods) -> None:
    pods.run("forced", STUBBORN)
    pids = process_ids(pods, "forced")
    pods.delete("forced", grace_seconds=0)
    cluster_pods.wait_for(lambda: not any(cluster_pods.process_is_alive(pid) for pid in pids), what="processes gone")


def test_eviction_leaves_its_condition_and_ends_the_pod(pods: Pods) -> None:
    manifest = cluster_pods.pod("victim", POLITE)
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    pods.create(manifest)
    process_ids(pods, "victim")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "victim"}}
    pods.cluster.request("POST", f"{pods.path}/victim/eviction", eviction)
    pod = pods.wait_phase("victim", "Failed")
    disruption = [each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert [(each["status"], each["reason"]) for each in disruption] == [("True", "EvictionByEvictionAPI")]
    release = [{"op": "remove", "path": "/metadata/finalizers"}]
    pods.cluster.request("PATCH", f"{pods.path}/victim", release, content_type="application/json-patch+json")
    pods.wait_gone("victim")


def test_a_crash_of_the_node_program_loses_no_pod_and_doubles_none(pods: Pods, tmp_path: Path) -> None:
    """One pod ends while no node program runs, the other when it is back."""
    for name in ("during", "after"):
        pods.run(name, TOLD % str(tmp_path / name))
    pids = {name: process_ids(pods, name) for name in ("during", "after")}
    pods.cluster.kill("processnode", signal.SIGKILL)
    (tmp_path / "during").touch()
    cluster_pods.wait_for(lambda: not cluster_pods.process_is_alive(pids["during"][0]), what="the first pod's end")
    pods.cluster.restart("processnode")
    assert cluster_pods.process_is_alive(pids["after"][0])
    (tmp_path / "after").touch()
    for name in ("during", "after"):
        pod = pods.wait_phase(name, "Failed")
        assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
        assert process_ids(pods, name) == pids[name]
        assert pods.wait_log(name, "pids").count("pids") == 1


def test_a_pod_deleted_while_the_node_program_is_away_is_ended_later(pods: Pods) -> None:
    pods.run("orphan", STUBBORN)
    pids = process_ids(pods, "orphan")
    pods.cluster.kill("processnode")
    pods.delete("orphan", grace_seconds=0)
    pods.wait_gone("orphan")
    pods.cluster.restart("processnode")
    cluster_pods.wait_for(lambda: not cluster_pods.process_is_alive(pids[0]), what="its end")


def test_pods_run_on_while_the_api_server_is_away(pods: Pods) -> None:
    pods.run("steady", "import time; print('pids 1', flush=True); time.sleep(2); raise SystemExit(4)")
    pods.wait_log("steady", "pids")
    pods.cluster.kill("apiserver")
    time.sleep(2)  # the pod ends with nobody to tell
    pods.cluster.restart("apiserver")
    pod = pods.wait_phase("steady", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 4


def test_a_node_that_somebody_else_has_made_gets_a_machine_which_can_be_switched_off_without_a_word(pods: Pods) -> None:
    """As an autoscaler's, and a cloud's."""
    made = {"metadata": {"name": "bought", "labels": {"place": "bought"}}}
    pods.cluster.request("POST", "/api/v1/nodes", made)
    image = Image(path=(Path(sys.executable).parent, "/usr/bin", "/bin"))
    pods.cluster.add_node(Node(name="bought"), images={cluster_pods.IMAGE: image})
    try:
        pods.run("last", POLITE, place="bought")
        alive = process_ids(pods, "last")
        pods.run("elsewhere", POLITE)
        others = process_ids(pods, "elsewhere")
    finally:
        pods.cluster.power_off("bought")
    assert not any(cluster_pods.process_is_alive(pid) for pid in alive)
    assert all(cluster_pods.process_is_alive(pid) for pid in others)
    found = pods.get("last")
    assert found is not None
    assert found["status"]["phase"] == "Running"
    pods.cluster.request("DELETE", "/api/v1/nodes/bought")
