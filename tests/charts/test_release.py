# SPDX-License-Identifier: Apache-2.0
"""The chart installed, upgraded and uninstalled on a real API server, the operator under the rights that it has then.

The operator's pods are on a node that only pretends; the operator itself is a process with the token of the chart's
ServiceAccount and the environment of the chart's Deployment. Studies run on a node that runs the stand-in worker.
What may not happen here: a wait without a bound.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import command_line
import helm_programs
import installation
import rendering
import stand_in_worker
import studies
from cluster import ApiError, Cluster, Image, Node
from gpubench import names
from gpubench.api import schema
from gpubench.plan import expand
from gpubench_cluster import kube

Found = TypeVar("Found")

NAMESPACE = rendering.NAMESPACE
CRDS = tuple(f"{kind.plural}.{names.GROUP}" for kind in schema.KINDS)
SWEEP = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1], "batchPerWorker": [64]}]
RESTRICTED = "pod-security.kubernetes.io/enforce=restricted"
#: The operator's pods have a place where nothing is run, and a Lease that a test need not wait for.
VALUES: dict[str, Any] = {
    "nodeSelector": {"pool": "pretend"},
    "log": {"format": "text"},
    "settings": {"leaseSeconds": 60, "leaseRenewSeconds": 50, "nodePollSeconds": 2},
}
#: What an older revision of the CRDs does not have: below spec and status of a kind.
LATER: dict[str, dict[str, tuple[str, ...]]] = {
    names.BENCHMARK_KIND: {"spec": ("drill", "compareTo"), "status": ("answer", "comparison")},
    names.POOL_KIND: {"spec": ("template",), "status": ("health", "priceRange")},
}
WAIT_SECONDS = 90.0
SECRET_BYTES = 1024 * 1024  # more a Secret cannot hold, and Helm keeps each release in one


class Place:
    """A cluster, and Helm on it."""

    def __init__(self, cluster: Cluster, programs: Mapping[str, Path], folder: Path) -> None:
        self.cluster = cluster
        self._programs = programs
        self._folder = folder

    def helm(self, *arguments: str, by: str = "helm4", values: Mapping[str, Any] | None = None) -> str:
        """What Helm says; `rendering.Refused` where it will not."""
        command = [str(self._programs[by]), "--namespace", NAMESPACE, *arguments]
        if values is not None:
            command += ["--values", "-"]
        folders = {name: str(self._folder / name) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
        environment = self.cluster.kubectl_environment() | folders
        done = subprocess.run(
            command, input=json.dumps(values or {}), env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise rendering.Refused(done.stderr)
        return done.stdout

    def install(self, release: str = "gpubench", *more: str, by: str = "helm4", **values: Any) -> str:
        """A new release, when its pods are ready."""
        chart = str(rendering.CHART)
        return self.helm("install", release, chart, "--wait", "--timeout", "90s", *more, by=by, values=VALUES | values)

    def namespace(self, name: str) -> str:
        """A namespace for studies."""
        create_restricted(self.cluster, name)
        return name

    def apply(self, body: kube.Object, *arguments: str) -> None:
        """What a user does."""
        self.cluster.kubectl("apply", *arguments, "-f", "-", stdin=yaml.safe_dump(body))

    def get(self, resource: kube.Resource, name: str, namespace: str | None = None) -> kube.Object:
        """An object as it is now."""
        found: kube.Object = self.cluster.request("GET", resource.path(namespace=namespace, name=name))
        return found

    def objects(self, namespace: str) -> list[kube.Object]:
        """The study of a namespace that is called one, and the pool, with all that stands in them."""
        return [self.get(kube.BENCHMARKS, "one", namespace), self.get(kube.POOLS, "process")]

    def fields_of_pools(self) -> Set[str]:
        """What a pool may say in the revision that the API server has."""
        path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.POOL_PLURAL}.{names.GROUP}"
        return fields_of(self.cluster.request("GET", path))

    def finished(self, name: str, namespace: str) -> kube.Object:
        """A study when it has finished."""

        def look() -> kube.Object | None:
            body = self.get(kube.BENCHMARKS, name, namespace)
            conditions = (body.get("status") or {}).get("conditions") or ()
            return body if any(one["type"] == "Finished" and one["status"] == "True" for one in conditions) else None

        return wait(look, what=f"{name} finished")

    @contextlib.contextmanager
    def operator(self, name: str = "gpubench") -> Iterator[installation.Operator]:
        """The operator with the rights and the environment that the release gives it."""
        deployment = self.get(kube.Resource("apps/v1", "deployments"), name, NAMESPACE)
        pod = deployment["spec"]["template"]["spec"]
        told = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
        del told["GPUBENCH_METRICS_PORT"]  # of a pod; here a free one is taken
        account = self.cluster.kubeconfig_for_service_account(NAMESPACE, pod["serviceAccountName"])
        process = installation.Operator(account, log=self._folder / f"{name}.log", settings=told)
        try:
            process.start()
            yield process
        finally:
            process.stop()

    def refusals(self) -> set[str]:
        """What the API server has refused the operators for want of a right."""
        users = f"system:serviceaccount:{NAMESPACE}:"
        return {
            f"{event['verb']} {event['requestURI']}"
            for event in self.cluster.audit_events()
            if event["user"]["username"].startswith(users) and (event.get("responseStatus") or {}).get("code") == 403
        }

    def names_of(self, kind: str) -> set[str]:
        """Names of the cluster's objects of a kind that releases of the chart have made."""
        found = self.cluster.kubectl("get", kind, "-A", "-l", "app.kubernetes.io/managed-by=Helm", "-o", "name").stdout
        return {line.partition("/")[2] for line in found.split()}


def wait(look: Callable[[], Found | None], *, what: str) -> Found:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS:g} s"
        time.sleep(0.1)
    return found


@pytest.fixture(scope="module")
def programs() -> dict[str, Path]:
    """helm3, helm4 and kubeconform."""
    return helm_programs.build()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("release")
    program = folder / "image" / "python"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{stand_in_worker.__file__}" "$@"\n')
    program.chmod(0o755)
    image = Image(path=(program.parent, "/usr/bin", "/bin"), env=installation.POD_ENVIRONMENT)
    nodes = (
        Node(name="pretend-0", labels={"pool": "pretend"}, capacity={"cpu": "8"}, pretend=True),
        Node(name="process-0", labels={"pool": "process"}, cores=(0,)),
    )
    with Cluster.start(folder / "cluster", nodes=nodes, images={expand.DEFAULT_IMAGE: image}) as cluster:
        create_restricted(cluster, NAMESPACE)
        yield cluster


def create_restricted(cluster: Cluster, namespace: str) -> None:
    """A namespace in which only pods of the level `restricted` start."""
    cluster.kubectl("create", "namespace", namespace)
    cluster.kubectl("label", "namespace", namespace, RESTRICTED)


@pytest.fixture
def place(running: Cluster, programs: dict[str, Path], tmp_path: Path) -> Iterator[Place]:
    """The cluster without anything of gpubench, before and after."""
    found = Place(running, programs, tmp_path)
    yield found
    for release in json.loads(found.helm("list", "-o", "json")):
        found.helm("uninstall", release["name"])
    running.kubectl("delete", "crd", *CRDS, "--ignore-not-found")


def study(name: str, namespace: str, **spec: Any) -> kube.Object:
    return studies.benchmark(name, namespace=namespace, repeats=1, sweep=SWEEP, **spec)


def ledger(place: Place, namespace: str) -> list[dict[str, str]]:
    """Plans and attempts of all studies of a namespace."""
    path = f"{kube.CONFIG_MAPS.path(namespace=namespace)}?labelSelector={names.LABEL_MANAGED_BY}%3D{names.MANAGED_BY}"
    return [body["data"] for body in place.cluster.request("GET", path)["items"]]


def fields_of_pools(chart: Path) -> Set[str]:
    """What a pool may say in the revision of a chart."""
    (path,) = (chart / "files" / "crds").glob(f"*_{names.POOL_PLURAL}.yaml")
    (crd,) = rendering.objects([path.read_text(encoding="utf-8")])
    return fields_of(crd)


def fields_of(crd: kube.Object) -> Set[str]:
    """The fields of a kind's spec."""
    (version,) = crd["spec"]["versions"]
    return frozenset(version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def older_chart(folder: Path) -> Path:
    """The chart with an older revision of its CRDs."""
    chart = folder / "gpubench"
    shutil.copytree(rendering.CHART, chart)
    for path in (chart / "files" / "crds").glob("*.yaml"):
        (crd,) = rendering.objects([path.read_text(encoding="utf-8")])
        (version,) = crd["spec"]["versions"]
        top = version["schema"]["openAPIV3Schema"]
        for part, fields in LATER.get(crd["spec"]["names"]["kind"], {}).items():
            for field in fields:
                del top["properties"][part]["properties"][field]
                for place in (top, top["properties"][part]):
                    rules = place.get("x-kubernetes-validations", [])
                    rules[:] = [rule for rule in rules if f".{field}" not in rule["rule"]]
        path.write_text(json.dumps(crd), encoding="utf-8")  # which is YAML
    about = (chart / "Chart.yaml").read_text(encoding="utf-8").replace("version: 0.1.0\n", "version: 0.0.9\n", 1)
    (chart / "Chart.yaml").write_text(about, encoding="utf-8")
    return chart


def test_objects_and_results_survive_an_upgrade_of_the_crds_and_studies_go_on(place: Place, tmp_path: Path) -> None:
    """Installed by Helm 3 with older CRDs, upgraded by Helm 4."""
    chart = older_chart(tmp_path)
    arguments = ("install", "gpubench", str(chart), "--wait", "--timeout", "90s")
    place.helm(*arguments, by="helm3", values=VALUES)
    lab = place.namespace("lab-upgraded")
    with place.operator():
        place.apply(studies.pool("process", maxNodes=1))
        place.apply(study("done", lab))
        place.apply(study("waiting", lab, suspend=True))
        before = place.finished("done", lab)
    assert before["status"]["phase"] == "Succeeded"
    assert "answer" not in before["status"]  # which the older revision does not have
    kept = ledger(place, lab)
    drilled = study("drilled", lab, drill={"kind": "Evict", "every": "10m"})
    with pytest.raises(Exception, match=r"spec\.drill"):
        place.apply(drilled, "--dry-run=server", "--validate=strict")

    place.helm("upgrade", "gpubench", str(rendering.CHART), "--wait", "--timeout", "90s", values=VALUES)

    def accepted() -> bool:
        """An API server needs a moment for a new revision."""
        with contextlib.suppress(Exception):
            place.apply(drilled, "--dry-run=server", "--validate=strict")
            return True
        return False

    wait(accepted, what="a field of the new revision accepted")
    after = place.get(kube.BENCHMARKS, "done", lab)
    assert kube.uid_of(after) == kube.uid_of(before)
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    assert ledger(place, lab) == kept
    with place.operator():
        place.cluster.request(
            "PATCH",
            kube.BENCHMARKS.path(namespace=lab, name="waiting"),
            {"spec": {"suspend": False}},
            content_type="application/merge-patch+json",
        )
        went_on = place.finished("waiting", lab)
    assert went_on["status"]["phase"] == "Succeeded"
    assert went_on["status"]["answer"]
    assert place.get(kube.BENCHMARKS, "done", lab)["status"]["results"] == before["status"]["results"]


def test_a_release_takes_up_what_is_there_and_an_uninstall_leaves_it_unless_it_is_to_go(
    place: Place, tmp_path: Path
) -> None:
    """CRDs and objects that came by kubectl, of an older revision; then those that another release has left."""
    installation.install_definitions(place.cluster, older_chart(tmp_path) / "files" / "crds")
    lab = place.namespace("lab-left")
    place.apply(studies.pool("process"))
    place.apply(study("one", lab))
    path = kube.BENCHMARKS.path(namespace=lab, name="one")
    status = {"status": {"phase": "Succeeded", "points": {"total": 2, "measured": 2}}}
    place.cluster.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
    objects = place.objects(lab)
    assert [body.get("status", {}).get("phase") for body in objects] == ["Succeeded", None]

    place.install("gpubench", "--take-ownership", "--force-conflicts")
    assert place.fields_of_pools() == fields_of_pools(rendering.CHART)
    assert place.fields_of_pools() != fields_of_pools(tmp_path / "gpubench")
    secrets = f"{kube.SECRETS.path(namespace=NAMESPACE)}?labelSelector=owner%3Dhelm"
    (record,) = place.cluster.request("GET", secrets)["items"]
    assert len(base64.b64decode(record["data"]["release"])) < SECRET_BYTES / 2  # chart and CRDs are in it, packed

    said = place.helm("uninstall", "gpubench")
    assert all(name in said for name in CRDS)  # Helm names what it leaves
    assert place.objects(lab) == objects
    rights = place.cluster.kubectl("get", "clusterroles,clusterrolebindings", "-o", "name").stdout
    assert "gpubench" not in rights

    with pytest.raises(rendering.Refused, match="ownership"):
        place.install("another")
    place.install("another", "--take-ownership", fullnameOverride="gpubench")
    assert place.objects(lab) == objects
    place.helm("upgrade", "another", str(rendering.CHART), "--reuse-values", values={"crds": {"keep": False}})
    place.helm("uninstall", "another")
    wait(lambda: not place.cluster.kubectl("get", "crd", "-o", "name").stdout, what="no CRD left")


def test_with_namespaces_to_watch_the_operator_works_in_these_and_has_rights_in_no_other(place: Place) -> None:
    served, other = place.namespace("lab-served"), place.namespace("lab-other")
    notes = place.install(watchNamespaces=[served])
    assert f"gpubench doctor --namespace {served}" in notes
    with place.operator() as process:
        place.apply(studies.pool("process", maxNodes=1))
        for namespace in (other, served):
            place.apply(study("one", namespace))
        assert place.finished("one", served)["status"]["phase"] == "Succeeded"
        pool = wait(lambda: place.get(kube.POOLS, "process").get("status"), what="a status of the pool")
        assert pool["readyNodes"] == 1
        assert "status" not in place.get(kube.BENCHMARKS, "one", other)
        assert not process.has_ended()
        assert helm_test(place, process).returncode == 0
        assert doctor(place) == {"operator": "ok", "operator's permissions": "ok"}
    assert helm_test(place, process).returncode != 0
    assert place.refusals() == set()
    account = f"system:serviceaccount:{NAMESPACE}:gpubench"

    def may(verb: str, resource: str, namespace: str) -> bool:
        asked = ("auth", "can-i", verb, resource, "--as", account, "--namespace", namespace)
        return place.cluster.kubectl(*asked, check=False).stdout.strip() == "yes"

    assert [may("create", "jobs.batch", namespace) for namespace in (served, other, NAMESPACE)] == [True, False, False]
    assert [may("update", "leases.coordination.k8s.io", each) for each in (NAMESPACE, served)] == [True, False]
    assert not may("patch", "nodes", served)


def test_two_releases_in_one_cluster_serve_a_team_each(place: Place) -> None:
    """By Helm 3 and by Helm 4, at once; what goes with one of them, the other one never had."""
    teams = place.namespace("team-a"), place.namespace("team-b")
    place.install("team-a", by="helm3", watchNamespaces=[teams[0]])
    place.install("team-b", watchNamespaces=[teams[1]], crds={"enabled": False})
    with place.operator("team-a-gpubench"), place.operator("team-b-gpubench"):
        place.apply(studies.pool("process", maxNodes=1))
        for team in teams:
            place.apply(study("one", team))
        for team in teams:
            assert place.finished("one", team)["status"]["phase"] == "Succeeded"
        pool = wait(lambda: place.get(kube.POOLS, "process").get("status"), what="a status of the pool")
        assert pool["readyNodes"] == 1
    assert place.refusals() == set()
    assert place.names_of("deployments") == {"team-a-gpubench", "team-b-gpubench"}
    place.helm("uninstall", "team-a")
    kinds = ("deployments", "clusterroles", "clusterrolebindings", "validatingadmissionpolicies")
    left = {name for kind in kinds for name in place.names_of(kind)}
    assert left
    assert {name for name in left if not name.startswith("team-b-gpubench")} == set()
    assert place.get(kube.BENCHMARKS, "one", teams[1])["status"]["phase"] == "Succeeded"  # the CRDs stay
    with pytest.raises(rendering.Refused, match=r'ClusterRole "team-b-gpubench.*release-namespace'):
        place.helm("install", "team-b", str(rendering.CHART), "-n", "default", values={"crds": {"enabled": False}})


def test_another_priority_is_another_class_and_a_name_of_ones_own_is_refused_with_a_sentence(place: Place) -> None:
    """The API server changes neither value nor policy of a PriorityClass."""

    def upgraded(**priority: Any) -> set[str]:
        values = VALUES | {"jobs": {"priorityClass": {"create": True, **priority}}}
        place.helm("upgrade", "gpubench", str(rendering.CHART), "--install", values=values)
        return place.names_of("priorityclasses")

    assert upgraded() == {"gpubench-gangs-1000"}
    assert upgraded(value=2000) == {"gpubench-gangs-2000"}
    assert upgraded(value=2000, name="measuring") == {"measuring"}
    sentence = "jobs.priorityClass: measuring is there with value 2000 and policy Never, which cannot be changed"
    with pytest.raises(rendering.Refused, match=sentence):
        upgraded(value=3000, name="measuring")
    assert json.loads(place.helm("status", "gpubench", "-o", "json"))["info"]["status"] == "deployed"


def test_every_values_file_for_chart_testing_can_be_installed(place: Place) -> None:
    files = sorted((rendering.CHART / "ci").glob("*-values.yaml"))
    for path in files:
        place.install("ci", **yaml.safe_load(path.read_text(encoding="utf-8")))
        place.helm("uninstall", "ci", "--wait", "--timeout", "90s")
    assert len(files) >= 2


def doctor(place: Place) -> dict[str, str]:
    """What the program of this repository finds of the operator, wherever the chart has put it."""
    environment = {"KUBECONFIG": str(place.cluster.kubeconfig)}
    said = json.loads(command_line.called("doctor", "-o", "json", environment=environment).stdout)
    return {one["area"]: one["state"] for one in said if one["area"].startswith("operator")}


def helm_test(place: Place, process: installation.Operator) -> subprocess.CompletedProcess[str]:
    """The program of the pod of `helm test`, run here: this cluster has no Services."""
    (pod,) = rendering.objects([place.helm("get", "hooks", "gpubench").removeprefix("---\n")])
    (container,) = pod["spec"]["containers"]
    python, option, program = container["command"]
    assert (python, option) == ("python", "-c")
    service = "http://gpubench:8080"
    assert service in program
    program = program.replace(service, f"http://127.0.0.1:{process.port}")
    return subprocess.run([sys.executable, option, program], capture_output=True, text=True, check=False)


def test_operator_and_test_pod_pass_the_restricted_level(place: Place, programs: dict[str, Path]) -> None:
    pods = kube.PODS.path(namespace=NAMESPACE)
    ordinary = {"metadata": {"name": "ordinary"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    with pytest.raises(ApiError, match="violates PodSecurity"):  # the level is enforced here
        place.cluster.request("POST", f"{pods}?dryRun=All", ordinary)
    found = rendering.objects(rendering.template(programs["helm4"]))
    (account,) = rendering.of_kind(found, "ServiceAccount")
    place.apply(account)
    (deployment,), (test,) = rendering.of_kind(found, "Deployment"), rendering.of_kind(found, "Pod")
    template = deployment["spec"]["template"]
    operators = {"metadata": template["metadata"] | {"name": "operator"}, "spec": template["spec"]}
    for pod in (operators, test):
        place.cluster.request("POST", f"{pods}?dryRun=All", pod)
