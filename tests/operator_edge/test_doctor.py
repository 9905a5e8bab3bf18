# SPDX-License-Identifier: Apache-2.0
"""`gpubench doctor` on a real control plane with the operator: all in place, and one thing after another taken away."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import command_line
import installation
import policies
import studies
from cluster import Cluster
from gpubench import names
from gpubench.analysis import gang_check
from gpubench_cluster import kube

LEADING_SECONDS = 60.0
MERGE = "application/merge-patch+json"
DNS = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
POOLS = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"
ROLE = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{installation.CLUSTER_ROLE}"
CRD = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{names.BENCHMARK_PLURAL}.{names.GROUP}"

SLICE = {
    "apiVersion": "discovery.k8s.io/v1",
    "kind": "EndpointSlice",
    "metadata": {"name": "kube-dns-1", "labels": {"kubernetes.io/service-name": "kube-dns"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.2"], "conditions": {"ready": True}}],
    "ports": [{"port": 53}],
}
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "example.com/none",
}
GPU_NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-0", "labels": {"cloud.google.com/gke-accelerator": "nvidia-l4"}},
    "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
}
HALVED = {"limits": {"memory": "512Mi"}, "requests": {"memory": "512Mi"}}
POOL = {
    "apiVersion": names.API_VERSION,
    "kind": names.POOL_KIND,
    "metadata": {"name": "doctors"},
    "spec": {
        "slotsPerNode": 1,
        "maxNodes": 1,
        "slot": {"cpu": "1", "memory": "1Gi"},
        "scheduling": {"nodeSelector": {"pool": "pretend"}},
    },
}


@pytest.fixture(scope="module")
def whole(equipped: Cluster) -> Iterator[Cluster]:
    """The cluster with all that a study may need; objects that the embedded one lacks are only objects here."""
    equipped.request("POST", DNS, SLICE)
    equipped.request("POST", CLASSES, CLASS)
    equipped.request("POST", POOLS, POOL)
    equipped.request("POST", "/api/v1/nodes", GPU_NODE)
    offer(equipped, "4")
    yield equipped
    for path in (f"{DNS}/kube-dns-1", f"{CLASSES}/standard", f"{POOLS}/doctors", "/api/v1/nodes/gpu-0"):
        equipped.request("DELETE", path)


@pytest.fixture(autouse=True)
def leading(operator: installation.Operator) -> None:
    """An operator that lost its Lease on a busy machine is started again, as its Deployment does, and waited for."""
    if operator.has_ended():
        operator.start()
    deadline = time.monotonic() + LEADING_SECONDS
    while "leading" not in operator.get("/readyz"):
        assert time.monotonic() < deadline, f"the operator does not lead after {LEADING_SECONDS:g} s"
        time.sleep(0.1)


def offer(cluster: Cluster, gpus: str) -> None:
    """As a device plugin does."""
    resources = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": gpus}
    status = {"status": {"capacity": resources, "allocatable": resources}}
    cluster.request("PATCH", "/api/v1/nodes/gpu-0/status", status, content_type=MERGE)


def doctor(kubeconfig: Path, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code, and the findings by their areas."""
    called = command_line.called("doctor", *arguments, "-o", "json", environment={"KUBECONFIG": str(kubeconfig)})
    assert called.returncode in (0, 1), called.stderr
    return called.returncode, {finding["area"]: finding for finding in json.loads(called.stdout)}


def test_a_cluster_with_everything_has_nothing_failed(whole: Cluster) -> None:
    code, found = doctor(whole.kubeconfig)
    states = {area: finding["state"] for area, finding in found.items()}
    assert {area for area, state in states.items() if state == "failed"} == set(), found
    assert code == 0
    for area in ("API server", "CRD GpuPool", "CRD GpuBenchmark", "your permissions", "operator", "DNS", "storage"):
        assert states[area] == "ok", found[area]
    assert states["operator's permissions"] == "ok", found["operator's permissions"]
    assert found["device plugin"]["says"] == "4 nvidia.com/gpu on 1 node"
    assert found["pool doctors"]["says"] == "4 of 4 nodes ready"
    assert states["NetworkPolicy"] == "warning"  # nothing enforces them here, and that is said
    assert "was not tried" in found["image"]["says"]


def test_a_person_reads_lines_with_what_to_do_and_a_count(whole: Cluster) -> None:
    called = command_line.called("doctor", environment={"KUBECONFIG": str(whole.kubeconfig)})
    lines = called.stdout.splitlines()
    assert lines[0].startswith("The cluster at https")
    assert any(line.startswith("ok      API server") for line in lines)
    assert any(line.strip().startswith("-> benchmarks run all the same") for line in lines)
    assert lines[-1].endswith("0 failed")


@contextlib.contextmanager
def without_dns(cluster: Cluster) -> Iterator[None]:
    cluster.request("DELETE", f"{DNS}/kube-dns-1")
    try:
        yield
    finally:
        cluster.request("POST", DNS, SLICE)


@contextlib.contextmanager
def without_a_permission(cluster: Cluster) -> Iterator[None]:
    rules = [rule for rule in cluster.request("GET", ROLE)["rules"] if rule["resources"] != ["pods/eviction"]]
    cluster.request("PATCH", ROLE, {"rules": rules}, content_type=MERGE)
    try:
        yield
    finally:
        cluster.kubectl("apply", "-f", str(installation.CHART_FILES / "rbac"))


@contextlib.contextmanager
def without_a_device_plugin(cluster: Cluster) -> Iterator[None]:
    offer(cluster, "0")
    try:
        yield
    finally:
        offer(cluster, "4")


@contextlib.contextmanager
def with_a_slot_that_fits_nowhere(cluster: Cluster) -> Iterator[None]:
    cluster.request("PATCH", f"{POOLS}/doctors", {"spec": {"slot": {"cpu": "100"}}}, content_type=MERGE)
    try:
        yield
    finally:
        cluster.request("PATCH", f"{POOLS}/doctors", {"spec": {"slot": {"cpu": "1"}}}, content_type=MERGE)


@contextlib.contextmanager
def with_an_older_definition(cluster: Cluster) -> Iterator[None]:
    field = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties/answer"
    cluster.request("PATCH", CRD, [{"op": "remove", "path": field}], content_type="application/json-patch+json")
    try:
        yield
    finally:
        cluster.kubectl("apply", "-f", str(installation.CHART_FILES / "crds"))


@contextlib.contextmanager
def without_a_storage_class(cluster: Cluster) -> Iterator[None]:
    cluster.request("DELETE", f"{CLASSES}/standard")
    try:
        yield
    finally:
        cluster.request("POST", CLASSES, CLASS)


@pytest.mark.parametrize(
    ("taken_away", "area", "state", "says"),
    [
        (without_dns, "DNS", "failed", "no ready endpoint"),
        (without_a_permission, "operator's permissions", "failed", "may not create pods/eviction"),
        (without_a_device_plugin, "device plugin", "warning", "no node offers nvidia.com/gpu"),  # gpu-0 has no kubelet
        (with_a_slot_that_fits_nowhere, "pool doctors", "failed", "all slots take 100"),
        (with_an_older_definition, "CRD GpuBenchmark", "warning", "it lacks status.answer"),
        (without_a_storage_class, "storage", "warning", "there is none"),
    ],
)
def test_what_is_taken_away_is_named_and_nothing_else(
    whole: Cluster, taken_away: Any, area: str, state: str, says: str
) -> None:
    with taken_away(whole):
        code, found = doctor(whole.kubeconfig)
    assert (found[area]["state"], code) == (state, 1 if state == "failed" else 0), found[area]
    assert says in found[area]["says"]
    assert found[area]["remedy"]
    assert {other for other, finding in found.items() if finding["state"] == "failed"} <= {area}


def test_an_operator_that_is_gone_is_missed(whole: Cluster, operator: installation.Operator) -> None:
    operator.stop()  # gives its Lease back
    try:
        code, found = doctor(whole.kubeconfig)
    finally:
        operator.start()
    assert code == 1
    lease = f"{installation.NAMESPACE}/gpubench-operator"
    assert found["operator"]["says"] == f"nobody holds the Lease {lease}"
    code, found = doctor(whole.kubeconfig, "--operator", "elsewhere/other")
    assert found["operator"]["says"].startswith("there is no Lease elsewhere/other")
    assert "system" not in found["operator's permissions"]["says"]  # whoever that is may do nothing


def test_the_charts_deployment_says_where_the_operator_is_and_what_it_serves(whole: Cluster) -> None:
    labels = {"app.kubernetes.io/name": "gpubench", "app.kubernetes.io/component": "operator"}
    variables = {"GPUBENCH_LEASE_NAME": "mine", "GPUBENCH_WATCH_NAMESPACES": "team-a,team-b"}
    container = {
        "name": "operator",
        "image": "gpubench-operator",
        "env": [{"name": name, "value": value} for name, value in variables.items()],
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "mine", "namespace": "default", "labels": labels},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": "somebody", "containers": [container]},
            },
        },
    }
    path = "/apis/apps/v1/namespaces/default/deployments"
    whole.request("POST", path, deployment)
    try:
        _, found = doctor(whole.kubeconfig)
        _, told = doctor(whole.kubeconfig, "--operator", f"{installation.NAMESPACE}/gpubench-operator")
    finally:
        whole.request("DELETE", f"{path}/mine")
    assert found["operator"]["says"].startswith("there is no Lease default/mine")
    assert "ServiceAccount default/somebody may not" in found["operator's permissions"]["says"]
    assert "gpubenchmarks.gpubench.dev in team-a" in found["operator's permissions"]["says"]
    assert told["operator"]["state"] == told["operator's permissions"]["state"] == "ok"


def test_whoever_may_ask_little_is_told_what_nobody_could_say(whole: Cluster) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "guest", "namespace": "default"}}
    whole.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(account))
    code, found = doctor(whole.kubeconfig_for_service_account("default", "guest"))
    assert code == 0  # nothing is known to fail
    assert "you may not create gpubenchmarks" in found["your permissions"]["says"]
    assert "you may not ask what" in found["operator's permissions"]["says"]
    for area in ("CRD GpuPool", "operator", "nodes", "pools", "NetworkPolicy", "DNS", "storage"):
        assert found[area]["says"].startswith("not known: no permission to read"), found[area]


@pytest.mark.parametrize(
    ("change", "area", "state", "says", "remedy"),
    [
        ({"containers": [policies.container("istio-proxy")]}, "gang's pod", "warning",
         "it comes with 1 container beside ours: istio-proxy", "native sidecar"),
        ({"containers": [policies.container("log-shipper")]}, "gang's pod", "warning",
         "it is Burstable and not Guaranteed", "requests equal to its limits"),
        ({"initContainers": [policies.container("vault-agent-init")]}, "gang's pod", "warning",
         "it comes with init container vault-agent-init", "annotation"),
        ({"initContainers": [policies.container("linkerd", restartPolicy="Always")]}, "gang's pod", "warning",
         "it comes with native sidecar linkerd", "annotation"),
        ({"containers": [{"name": names.CONTAINER, "resources": HALVED}]}, "gang's pod", "warning",
         "it gets resources.limits.memory 512Mi in place of 1Gi", "exempt"),
        ({"patch": {"/spec/nodeSelector": {"pool": "theirs"}}}, "gang's pod", "warning",
         "it gets nodeSelector.pool theirs in place of pretend", "exempt"),
        ({"schedulerName": "volcano"}, "gang's pod", "warning",
         "it gets schedulerName volcano in place of default-scheduler", "exempt"),
        ({"subdomain": "theirs"}, "gang's pod", "failed", "it comes back with subdomain theirs", "exempt"),
        ({"patch": {"/metadata/labels/gpubench.dev~1benchmark-uid": None}}, "gang's pod", "failed",
         "no label gpubench.dev/benchmark-uid", "exempt"),
        ({"resource": kube.JOBS, "backoffLimit": 6}, "gang's Job", "failed", "backoffLimit 6 in place of 0", "exempt"),
        ({"resource": kube.JOBS, "suspend": True}, "gang's Job", "warning", "a webhook suspended it", "spec.queueName"),
        ({"resource": kube.JOBS, "ttlSecondsAfterFinished": 0}, "gang's Job", "warning",
         "ttlSecondsAfterFinished is 0", "minutes"),
        ({"resource": kube.JOBS, "patch": {"/metadata/labels/gpubench.dev~1benchmark-uid": None}}, "gang's Job",
         "failed", "no label gpubench.dev/benchmark-uid", "exempt"),
    ],
)  # fmt: skip
def test_what_a_namespace_does_to_a_gang_is_found_by_dry_run(
    whole: Cluster, team: str, change: dict[str, Any], area: str, state: str, says: str, remedy: str
) -> None:
    resource = change.pop("resource", kube.PODS)
    with policies.changed(whole, team, resource, **change):
        code, found = gang(whole.kubeconfig, team)
    assert any(
        (one["area"], one["state"]) == (area, state) and says in one["says"] and remedy in one["remedy"]
        for one in found
    ), found
    assert code == (1 if state == "failed" else 0)
    assert whole.request("GET", kube.JOBS.path(namespace=team))["items"] == []


def gang(kubeconfig: Path, namespace: str, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    """What doctor says of a gang on pool doctors, line by line."""
    command = ("doctor", "-n", namespace, "--pool", "doctors", *arguments, "-o", "json")
    called = command_line.called(*command, environment={"KUBECONFIG": str(kubeconfig)})
    assert called.returncode in (0, 1), called.stderr
    return called.returncode, [one for one in json.loads(called.stdout) if one["area"].startswith("gang")]


@pytest.fixture
def team(whole: Cluster, request: pytest.FixtureRequest) -> str:
    """A namespace of the test's own."""
    name = f"team-{abs(hash(request.node.name)) % 10**8}"
    whole.kubectl("create", "namespace", name)
    return name


def test_a_namespace_without_policies_lets_a_gang_run_and_says_what_nobody_sees_beforehand(
    whole: Cluster, team: str
) -> None:
    code, found = gang(whole.kubeconfig, team)
    assert code == 0
    assert {one["area"]: one["state"] for one in found} == {
        "gang's Job": "ok", "gang's pod": "ok", "gang's quota": "ok", "gang's limits": "ok",
        "gang's security level": "ok", "gang": "warning",
    }  # fmt: skip
    assert "not to be seen beforehand: how long a queue takes" in found[-1]["says"]


def test_quotas_levels_and_refusals_of_a_namespace_are_lines_with_what_to_do(whole: Cluster, team: str) -> None:
    policies.quota(whole, team, "small", **{"requests.cpu": "500m"})
    whole.kubectl("label", "namespace", team, "pod-security.kubernetes.io/enforce=restricted")
    code, found = gang(whole.kubeconfig, team)
    assert code == 1
    said = {one["area"]: one for one in found}
    assert (
        said["gang's quota"]["says"] == "small leaves 0.5 of requests.cpu, and a pod of a gang needs 1: room for 0 of 1"
    )
    assert "it is refused: " in said["gang's pod"]["says"]
    assert "exceeded quota" in said["gang's pod"]["says"]
    assert said["gang's pod"]["remedy"].startswith("raise that quota")
    assert said["gang's security level"]["says"].startswith("restricted")


def test_half_a_gang_in_a_quota_is_told_for_the_pool_that_it_concerns(whole: Cluster, team: str) -> None:
    whole.request("POST", POOLS, studies.pool("pairs", maxNodes=2, scheduling={"nodeSelector": {"pool": "pretend"}}))
    policies.quota(whole, team, "one", pods="1")
    try:
        command = ("doctor", "-n", team, "-o", "json")
        called = command_line.called(*command, environment={"KUBECONFIG": str(whole.kubeconfig)})
    finally:
        whole.request("DELETE", f"{POOLS}/pairs")
    found = [one for one in json.loads(called.stdout) if one["area"].startswith("gang")]
    # Other tests may have left pools of several nodes on this cluster.
    (short,) = (one for one in found if one["state"] == "failed" and "pairs" in one["area"])
    assert "gang's quota (" in short["area"]
    assert short["says"] == "one leaves 1 of pods, and a pod of a gang needs 1: room for 1 of 2"
    assert "half a gang holds its GPUs" in short["remedy"]
    assert [one["state"] for one in found if one["area"] == "gang's Job"] == ["ok"], "once, and not for each pool"


@pytest.mark.parametrize(
    ("limit", "state", "says", "remedy"),
    [
        ({"default": {"ephemeral-storage": "1Gi"}}, "warning", "it gets resources.limits.ephemeral-storage 1Gi",
         "nodeResources"),
        ({"max": {"cpu": "500m"}}, "failed", "maximum cpu usage per Container is 500m", "change that LimitRange"),
    ],
)  # fmt: skip
def test_a_limit_range_that_adds_to_a_pod_or_refuses_it_is_told(
    whole: Cluster, team: str, limit: dict[str, Any], state: str, says: str, remedy: str
) -> None:
    body = {"metadata": {"name": "house-rules"}, "spec": {"limits": [{"type": "Container", **limit}]}}
    whole.request("POST", f"/api/v1/namespaces/{team}/limitranges", body)
    _, found = gang(whole.kubeconfig, team)
    (pod,) = (one for one in found if one["area"] == "gang's pod" and "Guaranteed" not in one["says"])
    assert (pod["state"], says in pod["says"], remedy in pod["remedy"]) == (state, True, True), pod
    (limits,) = (one for one in found if one["area"] == "gang's limits")
    assert limits["says"].startswith("LimitRange house-rules")
    assert limits["state"] == ("ok" if state == "warning" else "warning")


def test_a_webhook_that_is_down_is_told_with_its_name_before_anything_waits_for_it(whole: Cluster, team: str) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    webhook = {
        "name": "gone.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {names.LABEL_NAMESPACE_NAME: team}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    whole.request("POST", path, {"metadata": {"name": team}, "webhooks": [webhook]})
    try:
        deadline = time.monotonic() + LEADING_SECONDS
        while not (told := [one for one in gang(whole.kubeconfig, team)[1] if one["area"] == "gang's Secret"]):
            assert time.monotonic() < deadline, "the webhook is not called"
    finally:
        whole.request("DELETE", f"{path}/{team}")
    (secret,) = told
    assert secret["state"] == "failed"
    assert 'failed calling webhook "gone.example.com"' in secret["says"]
    assert secret["remedy"].startswith("see that webhook's Service, or its failurePolicy")


def test_a_webhook_that_cannot_be_asked_without_effects_is_never_ok() -> None:
    """Those of today's API must say that they can; objects from before stay as they were written."""
    said = gang_check.refused("gang's pod", 'admission webhook "w.example.com" does not support dry run')
    assert (said.state, said.area) == ("warning", "gang's pod")
    assert "what it does is not known: admission webhook" in said.says


def test_whoever_may_not_create_pods_is_told_that_nobody_looked(whole: Cluster, team: str) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": team}}
    whole.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(account))
    pools = {"apiGroups": [names.GROUP], "resources": [names.POOL_PLURAL], "verbs": ["list"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": team},
        "rules": [pools],
    }
    whole.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(role))
    whole.kubectl(
        "create", "clusterrolebinding", f"{team}-pools", f"--clusterrole={team}", f"--serviceaccount={team}:reader"
    )
    code, found = gang(whole.kubeconfig_for_service_account(team, "reader"), team)
    assert code == 0
    said = {one["area"]: one for one in found}
    for area, resource in (("gang's Job", "jobs"), ("gang's pod", "pods")):
        assert said[area]["state"] == "warning"
        assert said[area]["says"] == f"not looked at: you may not create {resource} in {team}"
    for area in ("gang's quota", "gang's limits", "gang's security level"):
        assert said[area]["says"].startswith("not known: no permission to read "), said[area]
    assert found[-1]["area"] == "gang", "what is not known keeps nothing else back"


def test_a_cluster_that_does_not_answer_is_no_finding(tmp_path: Path) -> None:
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [context],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    called = command_line.called("doctor", environment={"KUBECONFIG": str(tmp_path / "config")})
    assert (called.returncode, called.stdout) == (2, "")
    assert "does not answer" in called.stderr
