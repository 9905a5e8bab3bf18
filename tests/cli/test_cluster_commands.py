# SPDX-License-Identifier: Apache-2.0
"""The commands that read from a cluster, on a real API server, and what each of its refusals becomes."""

import json
import signal
import subprocess
import threading
import types
import uuid
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

import builders
import command_line
import installation
import stored_analysis
import terminals
from cluster import Cluster
from gpubench import names
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import FullStatus
from gpubench.scheduler import ledger, manifests
from gpubench.scheduler.observed import Observed, Study
from gpubench_cli import __main__ as program
from gpubench_cli import results
from gpubench_cluster import kube
from world import decide

QUICKSTART = Path(__file__).parents[2] / "jobs/examples/quickstart.yaml"
PATIENCE_SECONDS = 60.0


def start(kubeconfig: Path, *arguments: str) -> "subprocess.Popen[str]":
    return command_line.started(*arguments, environment={"KUBECONFIG": str(kubeconfig)})


def gpubench(kubeconfig: Path, *arguments: str) -> command_line.Ended:
    ended = command_line.called(*arguments, environment={"KUBECONFIG": str(kubeconfig)})
    assert "Traceback" not in ended.stderr
    return ended


# --- a real API server ------------------------------------------------------------------------------------------------


@pytest.fixture
def namespace(served_api: Cluster) -> Iterator[str]:
    name = f"cli-{uuid.uuid4().hex[:8]}"
    served_api.kubectl("create", "namespace", name)
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    installation.wait_until_served(served_api, account)  # made by a controller; tokens are asked for it
    yield name
    served_api.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def quickstart(served_api: Cluster, namespace: str) -> Iterator[str]:
    served_api.kubectl("apply", "-n", namespace, "-f", str(QUICKSTART))
    yield namespace
    served_api.kubectl("delete", "-n", namespace, "--ignore-not-found", "-f", str(QUICKSTART))


def study_of(cluster: Cluster, namespace: str) -> Study:
    body = cluster.request("GET", kube.BENCHMARKS.path(namespace=namespace, name="quickstart"))
    spec, uid = GpuBenchmarkSpec.model_validate(body["spec"]), body["metadata"]["uid"]
    return Study.of_spec(spec, namespace=namespace, name="quickstart", uid=uid)


def set_status(cluster: Cluster, namespace: str, *, finished: int, succeeded: bool | None = None) -> None:
    moment = "2026-11-01T00:00:00Z"
    conditions = [
        {"type": type_, "status": status, "reason": "Test", "message": "m", "lastTransitionTime": moment}
        for type_, status in (
            ("Finished", "False" if succeeded is None else "True"),
            ("Succeeded", "Unknown" if succeeded is None else str(succeeded)),
        )
    ]
    point = {
        "workload": "mnist_cnn",
        "pool": "local-cpu",
        "workers": 1,
        "workersPerNode": 1,
        "batchPerWorker": 64,
        "globalBatch": 64,
        "precision": "float32",
        "state": "Running" if succeeded is None else "Measured" if succeeded else "Failed",
        **({} if succeeded in (None, True) else {"reason": "the worker raised"}),
        **({"values": [100.0], "throughput": {"mean": 100.0}, "nodes": 1} if succeeded else {}),
    }
    status = {
        "phase": "Running" if succeeded is None else "Succeeded" if succeeded else "Failed",
        "startTime": moment,
        "trials": {"total": 6, "finished": finished},
        "conditions": conditions,
        "results": [point],
    }
    study = study_of(cluster, namespace)
    short, config_maps = stored_analysis.stored(study, FullStatus.model_validate(status))
    for one in config_maps.values():
        cluster.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(one))
    patch = json.dumps({"status": short})
    arguments = ("-n", namespace, "--subresource=status", "--type=merge", "-p", patch)
    cluster.kubectl("patch", names.BENCHMARK_PLURAL, "quickstart", *arguments)


def test_a_benchmark_of_the_cluster_is_shown(served_api: Cluster, quickstart: str) -> None:
    code, out, _ = gpubench(served_api.kubeconfig, "show", "quickstart", "-n", quickstart)
    assert (code, out) == (0, f"quickstart (namespace {quickstart}): not started\nThere are no results yet.\n")
    set_status(served_api, quickstart, finished=6, succeeded=True)
    code, out, _ = gpubench(served_api.kubeconfig, "show", "quickstart", "-n", quickstart)
    assert code == 0
    assert "Measured        100" in out
    code, out, _ = gpubench(served_api.kubeconfig, "show", "quickstart", "-n", quickstart, "-o", "json")
    assert json.loads(out)["studies"][0]["spec"]["sweep"][0]["workers"] == [1, 2]


def test_benchmarks_and_schedules_are_listed_as_kubectl_lists_them(served_api: Cluster, quickstart: str) -> None:
    set_status(served_api, quickstart, finished=6, succeeded=True)
    kubectl = served_api.kubectl("get", names.BENCHMARK_PLURAL, "-n", quickstart).stdout.splitlines()
    code, out, err = gpubench(served_api.kubeconfig, "list", "-n", quickstart)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split() == kubectl[0].split()
    row = out.splitlines()[1].split()
    assert row[:2] == kubectl[1].split()[:2] == ["quickstart", "Succeeded"]
    code, out, _ = gpubench(served_api.kubeconfig, "list", "-A", "-o", "wide")
    assert [quickstart, *row[:2]] in [line.split()[:3] for line in out.splitlines()]
    assert {"NAMESPACE", "ATTEMPTS", "PREEMPTED"} <= set(out.splitlines()[0].split())
    code, out, err = gpubench(served_api.kubeconfig, "list", "-n", "nothing-here")
    assert (code, out, err) == (0, "", "no benchmark and no schedule in namespace nothing-here\n")


def test_a_context_and_a_kubeconfig_are_chosen_as_for_kubectl(
    served_api: Cluster, quickstart: str, tmp_path: Path
) -> None:
    config = yaml.safe_load(served_api.kubeconfig.read_text())
    (context,) = config["contexts"]
    here = {"name": "here", "context": {**context["context"], "namespace": quickstart}}
    (tmp_path / "config").write_text(yaml.safe_dump({**config, "contexts": [context, here]}))
    asked = ("show", "quickstart", "--kubeconfig", str(tmp_path / "config"))
    ended = command_line.called(*asked, "--context", "here", environment={"KUBECONFIG": "/nowhere"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith(f"quickstart (namespace {quickstart})")
    ended = command_line.called(*asked, environment={"KUBECONFIG": "/nowhere"})
    assert "there is no GpuBenchmark quickstart in namespace default" in ended.stderr
    ended = command_line.called(*asked, "--context", "gone", environment={"KUBECONFIG": "/nowhere"})
    assert ended.returncode == 2
    assert "Expected object with name gone" in ended.stderr


def test_a_benchmark_is_suspended_resumed_and_deleted(served_api: Cluster, quickstart: str) -> None:
    path = kube.BENCHMARKS.path(namespace=quickstart, name="quickstart")
    for verb, said, suspend in (("suspend", "is suspended", True), ("resume", "goes on", False)):
        code, out, err = gpubench(served_api.kubeconfig, verb, "quickstart", "-n", quickstart)
        assert (code, out, err) == (0, f"quickstart {said}\n", "")
        assert served_api.request("GET", path)["spec"]["suspend"] is suspend
    code, _, err = gpubench(served_api.kubeconfig, "suspend", "--schedule", "quickstart", "-n", quickstart)
    assert code == 2
    assert "there is no GpuBenchmarkSchedule quickstart" in err
    code, out, err = gpubench(served_api.kubeconfig, "cancel", "quickstart", "-n", quickstart)
    assert (code, out) == (2, "")
    assert err == "gpubench: nothing is deleted, for nobody can be asked: give --yes\n"
    set_status(served_api, quickstart, finished=6, succeeded=True)
    _, out, _ = gpubench(served_api.kubeconfig, "suspend", "quickstart", "-n", quickstart)
    assert out == "quickstart has finished: there is nothing to suspend\n"
    code, out, err = gpubench(served_api.kubeconfig, "cancel", "quickstart", "--yes", "-n", quickstart)
    assert (code, out, err) == (0, "quickstart is deleted\n", "")
    listed = served_api.request("GET", kube.BENCHMARKS.path(namespace=quickstart))["items"]
    assert all("deletionTimestamp" in one["metadata"] for one in listed), "its foreground deletion may go on"


#: What each says before and after it is said on a terminal; those at the end change what the others find.
SAID = (
    ("list",),
    ("version",),
    ("drill", "quickstart", "--every", "60s", "--times", "2"),
    ("suspend", "quickstart"),
    ("resume", "quickstart"),
    ("suspend", "--schedule", "quickstart"),
)
SAID_OF_FINISHED = (("show", "quickstart"), ("watch", "quickstart"), ("suspend", "quickstart"))


@pytest.mark.parametrize("columns", [80, 120])
def test_what_is_said_of_a_cluster_fits_a_terminal(
    served_api: Cluster, quickstart: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(served_api.kubeconfig))
    monkeypatch.chdir(tmp_path)

    def judge(*arguments: str, whole: str | None = None) -> None:
        arguments = (*arguments, "-n", quickstart)
        whole = whole or "".join(map(str, gpubench(served_api.kubeconfig, *arguments)[1:]))
        terminals.judge(lambda: program.main(arguments), whole, columns=columns)

    for arguments in SAID:
        judge(*arguments)
    set_status(served_api, quickstart, finished=6, succeeded=True)
    for arguments in SAID_OF_FINISHED:
        judge(*arguments)
    judge("export", "quickstart", "there", whole="quickstart: nothing of it is on a volume, and its pods are gone")
    judge("cancel", "quickstart", "--yes", whole="quickstart is deleted")


def test_the_version_of_what_is_there(served_api: Cluster) -> None:
    code, out, err = gpubench(served_api.kubeconfig, "version")
    assert (code, err) == (0, "")
    said = dict(line.split(": ", 1) for line in out.splitlines())
    assert said["operator"] == "not found: see gpubench doctor"
    assert said["API server"] == served_api.request("GET", "/version")["gitVersion"]


def test_benchmarks_of_the_cluster_are_compared(served_api: Cluster, quickstart: str) -> None:
    set_status(served_api, quickstart, finished=6, succeeded=True)
    study = study_of(served_api, quickstart)
    planned = manifests.plan_config_map(study, builders.plan(study.spec, builders.pool("local-cpu")))
    served_api.kubectl("apply", "-n", quickstart, "-f", "-", stdin=json.dumps(planned))
    before = str(Path(__file__).with_name("recorded_results") / "quickstart")
    code, out, err = gpubench(served_api.kubeconfig, "compare", "quickstart", before, "-n", quickstart)
    assert (code, err) == (0, "")
    assert out.startswith(f"A: quickstart (namespace {quickstart})\nB: quickstart ({before})\n")
    assert "cannot tell: an interval needs 3 repeats, and A has 1" in out
    code, out, err = gpubench(served_api.kubeconfig, "compare", "quickstart", "quickstart", "-n", quickstart)
    assert (code, out) == (2, "")
    assert err == "gpubench: quickstart and quickstart are the same results: name two that were measured apart\n"
    set_status(served_api, quickstart, finished=1)
    code, out, err = gpubench(served_api.kubeconfig, "compare", "quickstart", before, "-n", quickstart)
    assert (code, out) == (2, "")
    assert err == ("gpubench: quickstart has no measured point to compare: `gpubench show` says how it stands\n")


def test_a_name_that_is_not_there(served_api: Cluster, namespace: str) -> None:
    code, out, err = gpubench(served_api.kubeconfig, "show", "nothing", "-n", namespace)
    assert (code, out) == (2, "")
    neither = f"there is no results folder nothing here, and there is no GpuBenchmark nothing in namespace {namespace}"
    assert err.startswith(f"gpubench: {neither} in the cluster at https")
    assert len(err.splitlines()) == 1


def test_no_permission(served_api: Cluster, quickstart: str) -> None:
    account = served_api.kubeconfig_for_service_account(quickstart, "default")
    code, _, err = gpubench(account, "show", "quickstart", "-n", quickstart)
    assert code == 2
    assert err.startswith("gpubench: no permission to read GpuBenchmark quickstart")
    assert len(err.splitlines()) == 1


def drill_of(cluster: Cluster, namespace: str) -> dict[str, Any] | None:
    body = cluster.request("GET", kube.BENCHMARKS.path(namespace=namespace, name="quickstart"))
    found: dict[str, Any] | None = body["spec"].get("drill")
    return found


def test_a_drill_is_set_changed_and_removed(served_api: Cluster, quickstart: str) -> None:
    where = ("-n", quickstart)
    code, out, _ = gpubench(served_api.kubeconfig, "drill", "quickstart", "--every", "90s", "--times", "5", *where)
    assert (code, drill_of(served_api, quickstart)) == (0, {"every": "90s", "times": 5, "kind": "Evict"})
    assert out == (
        "quickstart: one pod of each attempt is evicted when all of its pods have run for 90s, of 5 attempts at most "
        "(0 so far)\n"
    )
    code, out, _ = gpubench(served_api.kubeconfig, "drill", "quickstart", "--every", "90s", "--drain", "2m", *where)
    assert (code, drill_of(served_api, quickstart)) == (
        0, {"every": "90s", "times": 20, "kind": "Drain", "cordonFor": "2m"},
    )  # fmt: skip
    assert "have run for 90s, its node cordoned for 2m, of 20 attempts" in out
    code, _, _ = gpubench(served_api.kubeconfig, "drill", "quickstart", "--every", "5s", *where)
    assert (code, drill_of(served_api, quickstart)) == (0, {"every": "5s", "times": 20, "kind": "Evict"})
    code, out, err = gpubench(served_api.kubeconfig, "drill", "quickstart", "--stop", *where)
    assert (code, out, err) == (0, "quickstart is interrupted no more\n", "")
    assert drill_of(served_api, quickstart) is None


def test_a_drill_that_would_do_nothing_is_refused(served_api: Cluster, quickstart: str) -> None:
    def refused(*arguments: str) -> str:
        code, out, err = gpubench(served_api.kubeconfig, "drill", *arguments, "-n", quickstart)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        return err

    too_short = refused("quickstart", "--every", "1s")
    assert too_short.startswith("gpubench: spec.drill.every: drill.every must be at least 5s")
    assert "such as 1h30m, 15m or 90s" in refused("quickstart", "--every", "1 minute")
    assert "at least 1 is needed" in refused("quickstart", "--every", "90s", "--times", "0")
    assert "there is no GpuBenchmark nothing" in refused("nothing", "--every", "90s")
    counts = {"started": 3, "drilled": 3}
    patch = json.dumps({"status": {"attempts": counts}})
    served_api.kubectl(
        "patch", names.BENCHMARK_PLURAL, "quickstart", "-n", quickstart, "--subresource=status", "--type=merge", "-p",
        patch,
    )  # fmt: skip
    assert "give --times more than 3" in refused("quickstart", "--every", "90s", "--times", "3")
    set_status(served_api, quickstart, finished=6, succeeded=True)
    assert "has finished: there is nothing left to interrupt" in refused("quickstart", "--every", "90s")
    assert drill_of(served_api, quickstart) is None


def test_who_may_only_read_cannot_drill(served_api: Cluster, quickstart: str) -> None:
    readers = "readers-" + quickstart
    verbs = "--verb=get,list"
    resource = f"--resource={names.BENCHMARK_PLURAL}.{names.GROUP}"
    served_api.kubectl("create", "role", readers, "-n", quickstart, verbs, resource)
    account = f"--serviceaccount={quickstart}:default"
    served_api.kubectl("create", "rolebinding", readers, "-n", quickstart, f"--role={readers}", account)
    reader = served_api.kubeconfig_for_service_account(quickstart, "default")
    code, _, err = gpubench(reader, "drill", "quickstart", "--every", "90s", "-n", quickstart)
    assert code == 2
    assert err.startswith("gpubench: no permission to change GpuBenchmark quickstart")
    assert len(err.splitlines()) == 1


def test_a_study_of_the_cluster_is_exported_and_holds(served_api: Cluster, namespace: str, tmp_path: Path) -> None:
    """Without nodes there are no pods: what was measured is in ConfigMaps and status alone."""
    before = Path(__file__).with_name("recorded_results") / "quickstart"
    served_api.kubectl("apply", "-n", namespace, "-f", str(before / "study.yaml"))
    try:
        arguments = ("export", "quickstart", str(tmp_path / "exported"), "-n", namespace)
        code, out, err = gpubench(served_api.kubeconfig, *arguments)
        assert (code, out) == (2, "")
        assert "it has not begun, and there is nothing to export" in err
        body = served_api.request("GET", kube.BENCHMARKS.path(namespace=namespace, name="quickstart"))
        store_results(served_api, body, before)
        folder = tmp_path / "exported"
        code, out, err = gpubench(served_api.kubeconfig, *arguments)
        assert (code, err) == (0, "")
        assert out == f"{folder}: 6 attempts, and the records of 0 of their 9 pods\n"
        code, out, _ = gpubench(served_api.kubeconfig, "verify", str(folder))
        assert code == 0, out
        assert "windows of 6 attempts were gone when it was exported" in out
    finally:
        served_api.kubectl("delete", "-n", namespace, "-f", str(before / "study.yaml"))


def store_results(cluster: Cluster, body: dict[str, Any], folder: Path) -> None:
    """What the operator would have stored of a study that ran as the folder says."""
    metadata = body["metadata"]
    study = Study(
        namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"],
        generation=metadata["generation"], created_at=0.0, spec=GpuBenchmarkSpec.model_validate(body["spec"]),
    )  # fmt: skip
    plan, attempts = results.read_plan(folder), results.read_ledger(folder)
    decision = decide(plan, attempts, Observed(study=study), 0.0)
    assert decision.status.phase == "Succeeded"
    entries = ledger.to_entries(attempts.records) | ledger.environment_entries(attempts.environments)
    short, config_maps = stored_analysis.stored(study, decision.status)
    kept = (manifests.plan_config_map(study, plan), manifests.ledger_config_map(study, 0, entries))
    for stored in (*kept, *config_maps.values()):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(stored))
    arguments = ("-n", study.namespace, "--subresource=status", "--type=merge")
    patch = json.dumps({"status": short})
    cluster.kubectl("patch", names.BENCHMARK_PLURAL, study.name, *arguments, "-p", patch)


@pytest.mark.usefixtures("quickstart")
def test_a_plan_takes_pools_from_the_cluster(served_api: Cluster, tmp_path: Path) -> None:
    study = [document for document in yaml.safe_load_all(QUICKSTART.read_text()) if document["kind"] == "GpuBenchmark"]
    study[0]["spec"]["sweep"][0]["pools"].append("not-made-yet")
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study[0]))
    code, out, err = gpubench(served_api.kubeconfig, "plan", str(tmp_path / "study.yaml"))
    assert (code, err) == (0, "")
    assert "Nodes: 2 of local-cpu." in out
    assert "GpuPool not-made-yet did not exist" in out


@pytest.mark.parametrize(("succeeded", "expected"), [(True, 0), (False, 1)])
def test_a_watch_ends_when_the_study_does(served_api: Cluster, quickstart: str, succeeded: bool, expected: int) -> None:
    process = start(served_api.kubeconfig, "watch", "quickstart", "-n", quickstart)
    set_status(served_api, quickstart, finished=2)
    assert process.stderr is not None
    assert process.stderr.readline() == "[2/6] 2 of 6 trials have finished\n"
    set_status(served_api, quickstart, finished=6, succeeded=succeeded)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == expected
    assert "[6/6] 6 of 6 trials have finished\n" in err
    assert f"quickstart (namespace {quickstart}): {'Succeeded' if succeeded else 'Failed'}" in out


def test_ctrl_c_ends_a_watch_quietly(served_api: Cluster, quickstart: str) -> None:
    process = start(served_api.kubeconfig, "watch", "quickstart", "-n", quickstart)
    set_status(served_api, quickstart, finished=1)
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    assert (process.returncode, out, err) == (130, "", "")


# --- an API server that refuses ---------------------------------------------------------------------------------------


@pytest.fixture
def refusing(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """A server with one answer to everything, which writes down what it was asked; the kubeconfig that leads to it.

    `bodies` are answers of their own, by how a path begins.
    """
    servers: list[HTTPServer] = []

    def serve(status: int, body: str, bodies: Mapping[str, str] = types.MappingProxyType({})) -> Path:
        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                with (tmp_path / "asked").open("a") as asked:
                    asked.write(f"{self.path}\n")
                self.send_response(status)
                self.end_headers()
                found = (own for path, own in bodies.items() if self.path.startswith(path))
                self.wfile.write(next(found, body).encode())

            def log_message(self, format: str, *_: Any) -> None:  # noqa: A002  # the name in the standard library
                del format

        server = HTTPServer(("127.0.0.1", 0), Answer)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
        }
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(document))
        return tmp_path / "kubeconfig"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def api_status(message: str) -> str:
    return json.dumps({"kind": "Status", "apiVersion": "v1", "message": message})


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (404, "404 page not found\n", "gpubench is not installed in the cluster at http://127.0.0.1"),
        (404, api_status("not found"), "there is no GpuBenchmark quickstart in namespace mine in the cluster"),
        (401, api_status("Unauthorized"), "does not know you (401)"),
        (
            403,
            api_status("user u cannot get"),
            "no permission to read GpuBenchmark quickstart in namespace mine: user u",
        ),
        (429, api_status("too many requests"), "could not answer (429): too many requests"),
        (503, "", "could not answer (503): Service Unavailable"),
        (200, json.dumps({"status": {"phase": 7}}), "cannot be read by this gpubench: phase"),
    ],
)
def test_a_refusal_is_one_sentence(refusing: Callable[[int, str], Path], status: int, body: str, says: str) -> None:
    code, out, err = gpubench(refusing(status, body), "show", "quickstart")
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_watch_of_a_wrong_name_asks_once(refusing: Callable[[int, str], Path], tmp_path: Path) -> None:
    code, _, err = gpubench(refusing(404, api_status("not found")), "watch", "quickstart")
    assert code == 2
    assert "there is no GpuBenchmark quickstart" in err
    assert len(err.splitlines()) == 1, "nothing of trying again"
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def pod(job: str, index: int, at: str) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index)}
    return {"metadata": {"name": f"{job}-{index}", "creationTimestamp": at, "labels": labels}}


def test_logs_are_those_of_the_newest_attempt(refusing: Callable[..., Path], tmp_path: Path) -> None:
    """The API server of the other tests has no kubelet, and so no logs."""
    earlier, later = "2026-11-01T00:00:00Z", "2026-11-01T00:10:00Z"
    pods = [pod("b-2", 1, later), pod("b-1", 0, earlier), pod("b-2", 0, later)]
    of_pods = "/api/v1/namespaces/mine/pods"
    bodies = {
        "/apis/gpubench.dev": json.dumps({"metadata": {"name": "b", "uid": "u"}}),
        **{f"{of_pods}/b-{job}-{index}/log": f"{job} {index}\n" for job in (1, 2) for index in (0, 1)},
        of_pods: json.dumps({"items": pods}),
    }
    kubeconfig = refusing(200, "{}", bodies)
    code, out, err = gpubench(kubeconfig, "logs", "b")
    assert (code, out, err) == (0, "==> b-2-0 <==\n2 0\n==> b-2-1 <==\n2 1\n", "")
    assert "log?container=gang\n" in (tmp_path / "asked").read_text(), "a pod may have containers that others add"
    assert gpubench(kubeconfig, "logs", "b", "--pod", "1").stdout == "2 1\n"
    for without in (("--pod", "2"), ()):
        if not without:
            kubeconfig = refusing(200, "{}", {**bodies, of_pods: json.dumps({"items": []})})
        code, out, err = gpubench(kubeconfig, "logs", "b", *without)
        assert (code, out) == (2, "")
        assert err == "gpubench: b has no such pod in the cluster now: spec.results keeps what pods write\n"
