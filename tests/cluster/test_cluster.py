# SPDX-License-Identifier: Apache-2.0
"""The life of a cluster as a whole: accounts, the audit log, and that nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import pytest

import cluster as clusters
import cluster_pods
import cluster_state
import demo as demo_program
from cluster_pods import IMAGE, Pods

HERE = Path(__file__).resolve().parent
PROGRAM = str(HERE / "cluster.py")

# Starts a cluster and a pod in it, tells that it is there, and waits to be killed.
PARENT = """
import sys; sys.path.insert(0, sys.argv[1])
import cluster as c
from pathlib import Path
from typing import Any
from unittest import mock
images = {"image": c.Image(path=("/bin", "/usr/bin"))}
with c.Cluster.start(sys.argv[2], nodes=[c.Node(name="only", cores=(0,))], images=images) as running:
    running.request("POST", "/api/v1/namespaces/default/pods", {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"restartPolicy": "Never",
                 "containers": [{"name": "c", "image": "image", "command": ["sleep", "300"]}]},
    })
    running.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=20s")
    running.kill("processnode")
    print("up", flush=True)
    sys.stdin.read()
"""


def processes_of(directory: Path) -> list[str]:
    """Command lines of processes that name the directory, or work under it: control plane, nodes, shims, pods."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            place = str((process / "cwd").readlink())
        except OSError:
            continue  # it ended meanwhile
        if process.name != str(os.getpid()) and (str(directory) in line or place.startswith(str(directory))):
            found.append(line)
    return found


def test_a_certificate_that_was_read_before_it_was_written_is_read_again(pods: Pods, tmp_path: Path) -> None:
    real = pods.cluster.directory
    for name in (cluster_state.FILE, "tokens.csv"):
        shutil.copy(real / name, tmp_path)
    (tmp_path / "certificates").mkdir()
    certificate = tmp_path / "certificates" / "apiserver.crt"
    certificate.touch()
    other = clusters.Cluster.attach(tmp_path)
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        other._is_serving()
    shutil.copy(real / "certificates" / "apiserver.crt", certificate)
    assert other._is_serving()


def test_a_service_account_has_its_own_permissions_only(pods: Pods) -> None:
    path = pods.cluster.kubeconfig_for_service_account(pods.namespace, "default")
    refused = pods.cluster.kubectl("--kubeconfig", str(path), "get", "pods", check=False)
    assert f"system:serviceaccount:{pods.namespace}:default" in refused.stderr
    assert "forbidden" in refused.stderr


def test_the_audit_log_names_verb_user_and_object(pods: Pods) -> None:
    pods.run("logged", "")
    pods.wait_phase("logged", "Succeeded")
    requests = {
        (event["verb"], event["user"]["username"], event["objectRef"].get("name"))
        for event in pods.cluster.audit_events()
        if event.get("objectRef", {}).get("namespace") == pods.namespace
    }
    assert ("create", "admin", "logged") in requests
    assert ("create", "system:kube-scheduler", "logged") in requests  # the binding


def test_two_clusters_run_side_by_side_and_stop_leaves_nothing(
    running_cluster: clusters.Cluster, tmp_path: Path
) -> None:
    with clusters.Cluster.start(tmp_path, nodes=[clusters.Node(name="other", cores=(0,))]) as second:
        assert second.server != running_cluster.server
        names = second.kubectl("get", "nodes", "-o", "name").stdout.split()
        assert names == ["node/other"]
        second.kill("etcd")
        second.restart("etcd")
        assert second.kubectl("get", "nodes", "-o", "name").stdout.split() == names
    assert processes_of(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["logs"]
    assert running_cluster.request("GET", "/readyz") == "ok"


def test_the_death_of_the_parent_ends_cluster_and_pods(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(HERE), str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        assert any("sleep" in line for line in processes_of(tmp_path))
        parent.kill()
    cluster_pods.wait_for(lambda: not processes_of(tmp_path), what="the end of everything")


def test_a_lost_node_is_evicted_by_the_real_controllers_and_its_pods_end_when_it_is_back(tmp_path: Path) -> None:
    nodes = [clusters.Node(name="stays", cores=(0,)), clusters.Node(name="lost", program="processnode-lost")]
    quick = ("--node-monitor-grace-period=12s", "--node-monitor-period=1s")
    images = {IMAGE: clusters.Image(path=(Path(sys.executable).parent,))}
    with clusters.Cluster.start(
        tmp_path, nodes=nodes, images=images, heartbeat_seconds=1, controller_manager_flags=quick
    ) as second:
        pods = Pods(second, "default")
        unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
        soon = {**unreachable, "effect": "NoExecute", "tolerationSeconds": 0}
        spec = {"nodeSelector": {"kubernetes.io/hostname": "lost"}, "tolerations": [soon]}
        pods.run("victim", "import time; time.sleep(300)", spec=spec)
        pods.wait_phase("victim", "Running")
        second.kill("processnode-lost")

        def disrupted() -> dict[str, Any] | None:
            pod = pods.get("victim") or {}
            kinds = [each["type"] for each in pod["status"]["conditions"]]
            return pod if "DisruptionTarget" in kinds and "deletionTimestamp" in pod["metadata"] else None

        pod = cluster_pods.wait_for(disrupted, what="eviction by the taint controller")
        assert pod["status"]["phase"] == "Running"  # nobody can know what became of it: it stays Terminating
        assert any("time.sleep(300)" in line for line in processes_of(tmp_path))
        second.restart("processnode-lost")
        pods.wait_gone("victim")


def test_a_machine_that_goes_off_takes_its_own_pods_with_it_and_no_others(tmp_path: Path) -> None:
    nodes = [clusters.Node(name="stays", cores=(0,)), clusters.Node(name="goes", program="processnode-goes")]
    images = {IMAGE: clusters.Image(path=(Path(sys.executable).parent,))}
    with clusters.Cluster.start(tmp_path, nodes=nodes, images=images) as second:
        pods = Pods(second, "default")
        sleeping = "import os, time; print('pids', os.getpid(), flush=True); time.sleep(300)"
        for node in ("stays", "goes"):
            pods.run(node, sleeping, spec={"nodeSelector": {"kubernetes.io/hostname": node}})
        alive = {node: int(pods.wait_log(node, "pids").split()[1]) for node in ("stays", "goes")}
        second.kill("processnode-goes", signal.SIGTERM)
        cluster_pods.wait_for(lambda: not cluster_pods.process_is_alive(alive["goes"]), what="the end of its pod")
        cluster_pods.wait_for(lambda: second.pid("processnode-goes") is None, what="the end of the program")
        assert cluster_pods.process_is_alive(alive["stays"])


def test_up_and_down_from_a_shell(tmp_path: Path) -> None:
    def run(*arguments: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, PROGRAM, *arguments], capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout

    config = tmp_path / "nodes.yaml"
    config.write_text("nodes: [{name: mine, cores: [0]}]\nimages: {x: {path: [bin]}}\n", encoding="utf-8")
    place = ("--directory", str(tmp_path / "run"))
    try:
        exports = run("up", *place, "--config", str(config))
        assert exports.startswith(f"export KUBECONFIG={tmp_path / 'run' / 'admin.kubeconfig'}\n")
        assert run("up", *place) == exports  # already up: nothing to do
        assert run("kubectl", *place, "--", "get", "nodes", "-o", "name") == "node/mine\n"
        run("status", *place)
    finally:
        run("down", *place)
    run("down", *place)
    run("status", *place, status=1)
    assert processes_of(tmp_path / "run") == []


def demo(folder: Path) -> subprocess.Popen[str]:
    """The program of `make demo`, with its files in this folder."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "demo.py")],
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_demo_that_is_stopped_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    with demo(tmp_path) as running:
        assert running.stdout is not None
        while "gpubench watch" not in running.stdout.readline():  # so that there is a cluster to stop, and an operator
            assert running.poll() is None
        children = psutil.Process(running.pid).children

        def command() -> list[psutil.Process]:
            return [one for one in children() if "watch" in one.cmdline()]

        (watching,) = cluster_pods.wait_for(command, what="the command under way")
        assert os.getpgid(watching.pid) != running.pid, "it would be interrupted, too, and have a traceback to show"
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does
        _, said = running.communicate()
    assert (running.returncode, said) == (130, "demo: stopped; nothing of it runs any more\n")
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_is_being_started_when_a_demo_is_stopped_is_stopped_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[str]] = []

    class Interrupted(subprocess.Popen[str]):
        def __init__(self, _: object, **options: Any) -> None:
            super().__init__(["sleep", "600"], **options)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        demo_program.gpubench(mock.Mock(kubeconfig=tmp_path), "watch")
    assert started[0].returncode == -signal.SIGKILL


def test_a_demo_that_fails_says_why_and_keeps_the_logs_that_it_points_to(tmp_path: Path) -> None:
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(usable)})  # which the demo inherits
    try:
        with demo(tmp_path) as running:
            _, said = running.communicate()
    finally:
        os.sched_setaffinity(0, usable)
    why, where = said.splitlines()
    assert running.returncode == 1
    assert "needs 2 processors, and this process may use 1" in why
    (kept,) = tmp_path.iterdir()
    assert where == f"demo: failed; its logs are in {kept}"
    assert (kept / "cluster" / "logs" / "apiserver.log").stat().st_size > 0
    assert processes_of(tmp_path) == []


def test_starting_twice_in_one_directory_is_refused(running_cluster: clusters.Cluster) -> None:
    with pytest.raises(clusters.ClusterError, match="stop it first"):
        clusters.Cluster.start(running_cluster.directory)
    assert running_cluster.request("GET", "/readyz") == "ok"
