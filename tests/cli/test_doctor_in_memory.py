# SPDX-License-Identifier: Apache-2.0
"""`gpubench doctor`, `version` and `drill` over answers of an API server that are made here, request by request.

What a real API server answers is in tests/operator_edge/test_doctor.py. Here each question has its answer, and what is
refused, changed or missing is in each case one thing alone.
"""

import asyncio
import contextlib
import copy
import email.utils
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

import builders
import command_line
import studies
from gpubench import names, permissions
from gpubench.api import schema
from gpubench_cli import cluster
from gpubench_cluster import kube

NOW = 1_793_500_000
RENEWED = "2026-11-01T02:26:35.000000Z"  # five seconds before
OPERATOR = {"app.kubernetes.io/name": "gpubench", "app.kubernetes.io/component": "operator"}
DNS = {"kubernetes.io/service-name": "kube-dns"}
VERBS = {"get", "list", "create", "patch", "update", "delete"}
NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")  # RFC 1123
KARPENTER = kube.Resource("karpenter.sh/v1", "nodepools", namespaced=False)
#: All that doctor says of a cluster in which nothing is missing, and a gang is not tried.
AREAS = {
    "API server", "CRD GpuPool", "CRD GpuBenchmark", "CRD GpuBenchmarkSchedule", "your permissions", "operator",
    "operator's permissions", "device plugin", "pool gpus", "image", "NetworkPolicy", "DNS", "storage",
}  # fmt: skip


def of(version: str, plural: str, *, namespaced: bool = True) -> kube.Resource:
    return kube.Resource(version, plural, namespaced)


class Answers(kube.Kube):
    """Objects by the path of their collection; no connection is opened."""

    def __init__(self) -> None:
        self.objects: dict[str, list[dict[str, Any]]] = {}
        self.refusals: dict[str, kube.ApiError] = {}  # by a part of the path of a request
        self.denied: set[tuple[str | None, str]] = set()  # namespace, and verb and resource
        self.asked: list[dict[str, Any]] = []  # specs of access reviews
        self.added: list[dict[str, Any]] = []  # containers that the namespace adds to pods
        self.sent: dict[str, dict[str, Any]] = {}  # by dry run
        self.sent_to: set[str] = set()  # namespaces

    async def close(self) -> None:
        """There is no connection."""

    async def ask(
        self,
        verb: str,
        resource: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: dict[str, Any] | None = None,
        accept: str = kube.JSON,
        absent: Any = (404,),
        seconds: float | None = None,
    ) -> Any:
        del resource, accept, seconds
        assert verb in VERBS
        for part, error in self.refusals.items():
            if f"{verb} {path}".endswith(part):
                raise copy.copy(error)
        answer = self._answer(verb, path, query or {}, body or {})
        if answer is None and 404 not in absent:
            raise kube.NotFound("x", code=404, reason="not found")
        headers = {"Date": email.utils.formatdate(NOW)}
        return (
            None if answer is None else SimpleNamespace(data=json.dumps(answer).encode(), headers=headers, status=200)
        )

    def _answer(self, verb: str, path: str, query: Mapping[str, str], body: dict[str, Any]) -> Any:
        collection, _, name = path.rpartition("/")
        if path == "/version":
            return {"major": "1", "minor": "33", "gitVersion": "v1.33.4"}
        if verb == "create" and path.startswith("/apis/authorization.k8s.io/v1/"):
            return self._review(name, body)
        if verb == "create":
            assert query == {"dryRun": "All"}, "nothing is written"
            self.sent_to.add(collection.rpartition("/")[2])
            return self._dry_run(name, body)
        if verb == "list":
            wanted = dict(one.split("=") for one in query["labelSelector"].split(",") if one)
            found = self.objects.get(path, [])
            return {"items": [one for one in found if wanted.items() <= one["metadata"].get("labels", {}).items()]}
        found = [one for one in self.objects.get(collection, ()) if one["metadata"]["name"] == name]
        if verb == "patch" and found:
            found[0]["spec"] |= body["spec"]
        return found[0] if found else None

    def _review(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        if plural != f"{body['kind'].lower()}s" or body["kind"] not in (
            "SelfSubjectAccessReview",
            "SubjectAccessReview",
        ):
            raise kube.PermanentError("x", code=400, reason="the kind is not that of the path")
        self.asked.append(body["spec"])
        asked = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        denied = {(where, f"{asked['verb']} {resource}") for where in (None, asked["namespace"])}
        return {"metadata": {}, "status": {"allowed": not denied & self.denied}}

    def _dry_run(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        if not NAME.fullmatch(body["metadata"].get("name") or body["metadata"]["generateName"]):
            raise kube.PermanentError("x", code=422, reason="metadata.name is invalid")
        self.sent[plural] = body
        made = copy.deepcopy(body)
        made["metadata"] |= {"uid": "of-the-dry-run"}
        if plural == "pods":
            made["spec"]["containers"] += self.added
        return made


def put(api: Answers, resource: kube.Resource, *objects: dict[str, Any], namespace: str | None = None) -> None:
    path = resource.path(namespace=namespace)
    api.objects[path] = [{**one, "metadata": {"namespace": namespace, **one["metadata"]}} for one in objects]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Answers:
    """A cluster in which nothing is missing."""
    api = Answers()

    @contextlib.contextmanager
    def connect(namespace: str | None = None) -> Iterator[cluster.Cluster]:
        with asyncio.Runner() as runner:
            yield cluster.Cluster(runner, api, host="https://there", namespace=namespace or "lab")

    monkeypatch.setattr(cluster, "connect", connect)
    definitions = [
        schema.definition(kind) | {"status": {"conditions": [{"type": "Established", "status": "True"}]}}
        for kind in schema.KINDS
    ]
    lease = {"holderIdentity": "operator-0", "renewTime": RENEWED, "leaseDurationSeconds": 15}
    resources = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "4"}
    node = {
        "metadata": {"name": "gpu-0", "labels": {"pool": "gpus"}, "creationTimestamp": "2026-10-01T00:00:00Z"},
        "spec": {},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [names.JOBS_IMAGE]}],
        },
    }
    agent = {"metadata": {"name": "cilium"}, "spec": {"template": {"spec": {"containers": [{"name": "agent"}]}}}}
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    endpoints = [{"conditions": {"ready": True}}]
    put(api, of("apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False), *definitions)
    put(api, kube.LEASES, {"metadata": {"name": "gpubench-operator"}, "spec": lease}, namespace="gpubench-system")
    put(api, kube.NODES, node)
    put(api, kube.POOLS, pool())
    put(api, of("apps/v1", "daemonsets"), agent)
    put(api, of("storage.k8s.io/v1", "storageclasses"), {"metadata": {"name": "standard", "annotations": default}})
    put(
        api,
        of("discovery.k8s.io/v1", "endpointslices"),
        {"metadata": {"name": "kube-dns-1", "labels": DNS}, "addressType": "IPv4", "endpoints": endpoints},
        namespace="kube-system",
    )
    put(api, kube.NAMESPACES, {"metadata": {"name": "lab"}}, {"metadata": {"name": "team"}})
    return api


def pool(**spec: Any) -> dict[str, Any]:
    found = {
        "slotsPerNode": 4,
        "maxNodes": 4,
        "slot": {"cpu": "1", "memory": "1Gi", "gpuResource": "nvidia.com/gpu"},
        "scheduling": {"nodeSelector": {"pool": "gpus"}},
        **spec,
    }
    metadata = {"name": "gpus", "uid": "u-gpus", "generation": 1}
    return {"apiVersion": names.API_VERSION, "kind": names.POOL_KIND, "metadata": metadata, "spec": found}


def doctor(*arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and by its area the state and the words of each finding; of several of an area the last."""
    code, out, err = command_line.called("doctor", *arguments, "-o", "json")
    assert code in (0, 1), err
    return code, {one["area"]: (one["state"], one["says"]) for one in json.loads(out)}


def forbidden() -> kube.Forbidden:
    return kube.Forbidden("x", code=403, reason="not for you")


# --- a cluster with everything ----------------------------------------------------------------------------------------


def test_each_question_is_asked_and_has_its_answer(api: Answers) -> None:
    code, found = doctor()
    assert {area: says for area, (state, says) in found.items() if state != "ok"} == {}
    assert (code, set(found)) == (0, AREAS)
    assert found["API server"][1] == "v1.33.4"
    assert found["your permissions"][1] == "you may run and read benchmarks in lab"
    assert found["operator"][1] == "operator-0 holds the Lease gpubench-system/gpubench-operator"
    many = sum(len(rule.groups) * len(rule.resources) * len(rule.verbs) for rule in permissions.RULES)
    account = "ServiceAccount gpubench-system/gpubench-operator"
    assert found["operator's permissions"][1] == f"{account} has all {many}"
    assert found["device plugin"][1] == "4 nvidia.com/gpu on 1 node"
    assert found["pool gpus"][1].startswith("1 of 1 node ready")
    assert found["NetworkPolicy"][1].startswith("cilium runs")
    assert found["DNS"][1] == "kube-dns has 1 ready endpoint"
    assert found["storage"][1].startswith("standard is the default StorageClass")
    assert api.sent == {}, "gangs are tried on request"


def test_the_operator_is_asked_about_as_its_account_in_the_places_of_each_right(api: Answers) -> None:
    doctor()
    own, others = ([one for one in api.asked if ("user" in one) == of_account] for of_account in (False, True))
    assert {one["resourceAttributes"]["namespace"] for one in own} == {"lab"}
    assert {(one["user"], *one["groups"]) for one in others} == {
        (
            "system:serviceaccount:gpubench-system:gpubench-operator",
            "system:serviceaccounts",
            "system:serviceaccounts:gpubench-system",
            "system:authenticated",
        )
    }
    leases = [one["resourceAttributes"] for one in others if one["resourceAttributes"]["resource"] == "leases"]
    assert {(one["group"], one["namespace"]) for one in leases} == {("coordination.k8s.io", "gpubench-system")}
    assert {
        (one["resourceAttributes"]["resource"], one["resourceAttributes"]["subresource"])
        for one in own
        if one["resourceAttributes"]["verb"] == "get"
    } == {(names.BENCHMARK_PLURAL, ""), ("pods", "log")}


def test_a_right_that_is_missing_is_named_with_whose_it_is(api: Answers) -> None:
    api.denied = {("", "create pods/eviction"), ("lab", f"patch {names.BENCHMARK_PLURAL}")}
    code, found = doctor()
    assert code == 1
    assert found["operator's permissions"] == (
        "failed",
        "ServiceAccount gpubench-system/gpubench-operator may not create pods/eviction",
    )
    assert found["your permissions"] == ("warning", f"in lab you may not patch {names.BENCHMARK_PLURAL}")


def test_the_deployment_of_the_operator_says_where_it_is_and_what_it_serves(api: Answers) -> None:
    variables = {
        "GPUBENCH_LEASE_NAME": "mine",
        "GPUBENCH_WATCH_NAMESPACES": "team-a,team-b",
        "GPUBENCH_JOBS_IMAGE": "jobs:9",
        "GPUBENCH_GANG_PRIORITY_CLASS": "low",
    }
    values: list[dict[str, Any]] = [{"name": name, "value": value} for name, value in variables.items()]
    container = {"name": "operator", "env": [*values, {"name": "FROM_A_FIELD", "valueFrom": {}}]}
    labels = OPERATOR | {"app.kubernetes.io/version": "9.1.0"}
    template = {"spec": {"serviceAccountName": "somebody", "containers": [container]}}
    deployment = {"metadata": {"name": "gb", "namespace": "tools", "labels": labels}, "spec": {"template": template}}
    put(api, of("apps/v1", "deployments"), {"metadata": {"name": "other"}}, deployment)
    api.denied = {("team-b", "create jobs")}
    _, found = doctor("-n", "team")
    assert found["operator"][1].startswith("there is no Lease tools/mine")
    assert found["operator's permissions"][1] == "ServiceAccount tools/somebody may not create jobs.batch in team-b"
    assert found["image"][1].startswith("jobs:9 (pool gpus) is on no node yet")
    spec = api.sent["jobs"]["spec"]["template"]["spec"]
    assert (spec["priorityClassName"], spec["containers"][0]["image"]) == ("low", "jobs:9")
    _, told = doctor("--operator", "gpubench-system/gpubench-operator")
    assert told["operator"] == ("ok", "operator-0 holds the Lease gpubench-system/gpubench-operator")
    assert told["operator's permissions"][1].startswith("ServiceAccount gpubench-system/gpubench-operator may not")
    assert command_line.called("version").stdout.splitlines()[1:] == ["operator: 9.1.0", "API server: v1.33.4"]


def test_a_question_that_is_not_answered_leaves_no_other_unasked(api: Answers) -> None:
    api.refusals = {
        part: forbidden()
        for part in (
            *(f"customresourcedefinitions/{kind.plural}.{names.GROUP}" for kind in schema.KINDS),
            *("/selfsubjectaccessreviews", "/subjectaccessreviews", "/deployments", "/leases/gpubench-operator"),
            *("/nodes", f"/{names.POOL_PLURAL}", "/nodepools", "/daemonsets", "/endpointslices", "/storageclasses"),
        )
    }
    code, found = doctor()
    assert code == 0, "nothing is known to fail"
    kinds = {f"CRD {kind.kind}": f"read CRD {kind.plural}.{names.GROUP}" for kind in schema.KINDS}
    asked_for = kinds | {
        "your permissions": "ask for SelfSubjectAccessReviews",
        "operator": "read Lease gpubench-system/gpubench-operator",
        "nodes": "read Nodes",
        "pools": "read GpuPools",
        "NetworkPolicy": "read DaemonSets",
        "DNS": "read EndpointSlices in namespace kube-system",
        "storage": "read StorageClasses",
    }
    said = {area: f"not known: no permission to {what}: not for you" for area, what in asked_for.items()}
    assert {area: says for area, (_, says) in found.items() if says.startswith("not known")} == said
    asked = "you may not ask what ServiceAccount gpubench-system/gpubench-operator may do"
    assert found["operator's permissions"] == ("warning", asked)
    assert set(found) == {*said, "API server", "operator's permissions"}


def test_what_a_namespace_has_for_gangs_and_nobody_may_read_is_not_known(api: Answers) -> None:
    where = "/api/v1/namespaces/team"
    api.refusals = {f"{where}/resourcequotas": forbidden(), f"{where}/limitranges": forbidden(), where: forbidden()}
    code, found = doctor("-n", "team")
    assert code == 0
    for area, what in {
        "gang's quota": "ResourceQuotas in namespace team",
        "gang's limits": "LimitRanges in namespace team",
        "gang's security level": "Namespace team",
    }.items():
        assert found[area] == ("warning", f"not known: no permission to read {what}: not for you")


def test_a_pool_that_cannot_be_read_is_named_and_so_is_that_there_is_none(api: Answers) -> None:
    put(api, kube.POOLS, pool(slotsPerNode="many"))
    _, found = doctor()
    state, says = found["pool gpus"]
    assert state == "warning"
    assert says.startswith("it cannot be read by this gpubench: spec.slotsPerNode")
    put(api, kube.POOLS)
    _, found = doctor()
    assert found["pools"] == ("warning", "there is no GpuPool")


def test_a_person_reads_a_line_of_each_area_what_to_do_and_how_many_there_are(api: Answers) -> None:
    api.denied = {("lab", f"patch {names.BENCHMARK_PLURAL}")}
    lines = command_line.called("doctor").stdout.splitlines()
    assert lines[0] == "The cluster at https://there:"
    assert lines[-1] == f"{len(AREAS) - 1} ok, 1 warnings, 0 failed"
    assert re.fullmatch(r"ok      API server  +v1\.33\.4", lines[1])
    begins = next(number for number, line in enumerate(lines) if line.startswith("warning your permissions  "))
    assert "in lab you may not patch" in lines[begins]
    assert lines[begins + 1].startswith(" " * (10 + max(map(len, AREAS))) + "-> ")


# --- nodes that end before a trial ------------------------------------------------------------------------------------


def test_a_trial_of_a_benchmark_that_has_not_finished_must_fit_the_life_of_its_nodes(api: Answers) -> None:
    lives = {"expireAfter": "1h", "terminationGracePeriod": "10m"}
    template = {"metadata": {"labels": {"pool": "gpus"}}, "spec": lives}
    put(api, KARPENTER, {"metadata": {"name": "short"}, "spec": {"template": template}})
    spec = {
        "sweep": [builders.block(pools=["gpus"], workers=[2], workersPerNode=2)],
        "measure": {"duration": "2h"},
    }
    asked = {
        "apiVersion": names.API_VERSION,
        "kind": names.BENCHMARK_KIND,
        "metadata": {"name": "long", "uid": "u", "generation": 1},
        "spec": spec,
    }
    unreadable = asked | {"metadata": {"name": "newer"}, "spec": {"novelty": 1}}
    put(api, kube.BENCHMARKS, unreadable, asked | {"status": {"phase": "Running"}}, namespace="lab")
    _, found = doctor()
    assert found["pool gpus"][0] == "warning"
    assert found["pool gpus"][1].startswith("NodePool short ends a node after 1h10m")
    put(api, kube.BENCHMARKS, asked | {"status": {"completionTime": "2026-11-01T00:00:00Z"}}, namespace="lab")
    assert doctor()[1]["pool gpus"][0] == "ok", "it has finished"
    api.refusals["/nodepools"] = kube.NotServed("x", code=404)
    assert doctor()[1]["pool gpus"][0] == "ok", "there is no Karpenter"


# --- a gang by dry run ------------------------------------------------------------------------------------------------


def test_a_gang_is_tried_by_dry_run_where_a_namespace_is_named(api: Answers) -> None:
    code, found = doctor("-n", "team")
    of_gang = {area: says for area, says in found.items() if area.startswith("gang")}
    assert code == 0
    assert {area for area, (state, _) in of_gang.items() if state != "ok"} == {"gang"}
    assert of_gang["gang's limits"] == ("ok", "no LimitRange in the namespace")
    assert of_gang["gang's security level"] == ("ok", "privileged, which the pod meets")
    assert set(api.sent) == {"services", "secrets", "configmaps", "networkpolicies", "jobs", "pods"}
    assert api.sent_to == {"team"}
    assert api.sent["jobs"]["spec"]["parallelism"] == 2, "of two nodes: half of it could wait for the other"
    of_whom = api.sent["jobs"]["metadata"]["labels"]
    assert of_whom[names.LABEL_BENCHMARK] == "doctor"
    assert uuid.UUID(of_whom[names.LABEL_BENCHMARK_UID]), "no benchmark has it"
    (owner,) = api.sent["pods"]["metadata"]["ownerReferences"]
    assert owner["uid"] == "of-the-dry-run", "the pod is of the Job that came back"


def test_what_others_add_to_a_pod_counts_against_the_quota(api: Answers) -> None:
    one = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    api.added = [{"name": "mesh", "resources": one}]
    hard, used = {"requests.cpu": "20"}, {"requests.cpu": "1"}
    quota = {"metadata": {"name": "small"}, "spec": {"hard": hard}, "status": {"hard": hard, "used": used}}
    put(api, of("v1", "resourcequotas"), quota, namespace="team")
    _, with_mesh = doctor("-n", "team")
    api.added = []
    _, alone = doctor("-n", "team")
    assert (with_mesh["gang's quota"][1], alone["gang's quota"][0]) == (
        "small leaves 19 of requests.cpu, and a pod of a gang needs 5: room for 3 of 4",
        "ok",
    )


@pytest.mark.parametrize(
    ("area", "resource"),
    [
        ("gang's Service", "services"),
        ("gang's Secret", "secrets"),
        ("gang's ConfigMap", "configmaps"),
        ("gang's NetworkPolicy", "networkpolicies"),
        ("gang's Job", "jobs"),
        ("gang's pod", "pods"),
    ],
)
def test_an_object_of_a_gang_that_is_not_taken_is_a_line_and_the_others_are_tried_all_the_same(
    api: Answers, area: str, resource: str
) -> None:
    limits = {"metadata": {"name": "house-rules"}, "spec": {"limits": []}}
    put(api, of("v1", "limitranges"), limits, namespace="team")
    refused = 'admission webhook "w.example.com" denied\nthe request: no'
    api.refusals = {f"/namespaces/team/{resource}": kube.PermanentError("x", code=400, reason=refused)}
    code, found = doctor("-n", "team")
    assert (code, found[area][0]) == (1, "failed")
    assert found[area][1] == "it is refused: " + " ".join(refused.split())
    assert len(api.sent) == 5
    meets = "LimitRange house-rules, which the pod meets"
    unknown = "LimitRange house-rules; whether a pod meets it is not known"
    assert found["gang's limits"][1] == (unknown if resource == "pods" else meets)

    api.refusals = {f"/namespaces/team/{resource}": kube.TemporaryError("x", code=None, reason="timeout")}
    _, found = doctor("-n", "team")
    assert found[area] == ("warning", "not known: the cluster at https://there does not answer: timeout")

    api.refusals, api.denied = {}, {("team", f"create {resource}")}
    _, found = doctor("-n", "team")
    assert found[area] == ("warning", f"not looked at: you may not create {resource} in team")


def test_a_gang_of_one_node_is_tried_where_the_pool_has_no_more_and_one_pool_can_be_named(api: Answers) -> None:
    other = pool(maxNodes=1, template={"image": "of-the-pool:1"})
    other["metadata"] = {"name": "single"}
    put(api, kube.POOLS, pool(), other)
    doctor("--pool", "single")
    assert api.sent["jobs"]["spec"]["parallelism"] == 1
    assert api.sent_to == {"lab"}
    assert api.sent["jobs"]["spec"]["template"]["spec"]["containers"][0]["image"] == "of-the-pool:1"
    ended = command_line.called("doctor", "--pool", "none")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--pool none: the cluster has no GpuPool of this name" in ended.stderr


def test_a_gang_on_gpus_that_are_cut_has_one_rank_in_each_pod(api: Answers) -> None:
    put(api, kube.POOLS, pool(slot={"cpu": "1", "memory": "1Gi", "gpuResource": "nvidia.com/mig-1g.5gb"}))
    _, found = doctor("-n", "team")
    assert found["gang's Job"][0] == "ok"
    assert (api.sent["jobs"]["spec"]["parallelism"], studies.assignment_of(api.sent["jobs"]).workers) == (2, 2)


# --- gpubench drill ---------------------------------------------------------------------------------------------------


def test_a_drill_replaces_the_one_before_and_nothing_else_of_the_spec(api: Answers) -> None:
    spec = {"sweep": [builders.block()], "drill": {"every": "30s", "times": 3, "kind": "Drain", "cordonFor": "60s"}}
    metadata = {"name": "quick", "uid": "u", "generation": 1}
    asked = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND, "metadata": metadata, "spec": spec}
    put(api, kube.BENCHMARKS, asked, namespace="lab")
    ended = command_line.called("drill", "quick", "--every", "90s")
    assert ended.returncode == 0, ended.stderr
    after = api.objects[kube.BENCHMARKS.path(namespace="lab")][0]["spec"]
    assert after["sweep"] == spec["sweep"]
    assert {field: value for field, value in after["drill"].items() if value is not None} == {
        "every": "90s",
        "times": 20,
        "kind": "Evict",
    }
    assert after["drill"]["cordonFor"] is None, "a merge patch keeps what it does not name"

    path = kube.BENCHMARKS.path(namespace="lab", name="quick")
    api.refusals = {f"patch {path}": kube.PermanentError("x", code=422, reason="no")}
    ended = command_line.called("drill", "quick", "--every", "90s")
    assert ended.returncode == 2
    assert "refused to change" in ended.stderr


# --- gpubench pools discover ------------------------------------------------------------------------------------------


def test_nodes_of_a_pool_are_proposed_again_where_all_are_asked_for_or_pools_cannot_be_read(api: Answers) -> None:
    ended = command_line.called("pools", "discover")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "none of the 1 nodes suggests a GpuPool" in ended.stderr
    ended = command_line.called("pools", "discover", "--all")
    assert ended.stdout.count("kind: GpuPool") == 1, ended.stderr
    for reason in (forbidden(), kube.PermanentError("x", code=404, reason="not found")):
        api.refusals = {kube.POOLS.path(): reason}
        assert command_line.called("pools", "discover").stdout == ended.stdout
