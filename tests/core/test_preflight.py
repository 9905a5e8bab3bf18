# SPDX-License-Identifier: Apache-2.0
"""What is said of a cluster: failed only where studies cannot run, a warning where it cannot be known."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

import builders
from gpubench.analysis import node_facts, pool_status, preflight, proposals
from gpubench.analysis.preflight import Answer, State
from gpubench.api import schema
from gpubench.api.pool import GpuPoolStatus, Toleration
from gpubench.permissions import Scope


def node(name: str = "a", labels: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    allocatable = {"cpu": "8", "memory": "32Gi", **fields.pop("allocatable", {})}
    ready = [{"type": "Ready", "status": fields.pop("ready", "True")}]
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": fields,
        "status": {"allocatable": allocatable, "conditions": ready},
    }


@pytest.mark.parametrize(
    ("version", "state", "says"),
    [
        ({"major": "1", "minor": "33+", "gitVersion": "v1.33.2-gke.1"}, State.OK, "v1.33.2-gke.1"),
        ({"major": "1", "minor": "32", "gitVersion": "v1.32.9"}, State.FAILED, "v1.32.9 is older than 1.33"),
        ({"major": "1", "minor": "38", "gitVersion": "v1.38.0"}, State.OK, "tried up to 1.37"),
        ({"gitVersion": "v1.x"}, State.WARNING, "v1.x"),
    ],
)
def test_the_version_of_the_api_server_is_held_against_those_of_the_chart(
    version: dict[str, str], state: State, says: str
) -> None:
    found = preflight.api_server(version)
    assert found.state is state
    assert says in found.says


def established() -> dict[str, Any]:
    return {**schema.definition(schema.POOL), "status": {"conditions": [{"type": "Established", "status": "True"}]}}


def of_spec(found: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return fields


def test_a_definition_of_this_revision_is_ok_whatever_the_chart_has_added() -> None:
    found = established()
    found["metadata"]["annotations"] = {"helm.sh/resource-policy": "keep"}
    assert preflight.definition(schema.POOL, found).state is State.OK


def _not_established(found: dict[str, Any]) -> None:
    found["status"]["conditions"][0]["status"] = "False"


def _older(found: dict[str, Any]) -> None:
    del of_spec(found)["properties"]["slot"]["properties"]["cpu"]


def _newer(found: dict[str, Any]) -> None:
    of_spec(found)["properties"]["colour"] = {"type": "string"}


def _of_another_version(found: dict[str, Any]) -> None:
    found["spec"]["versions"][0]["name"] = "v1"


@pytest.mark.parametrize(
    ("change", "state", "says"),
    [
        (_not_established, State.FAILED, "not established"),
        (_older, State.WARNING, "older revision: it lacks spec.slot.cpu"),
        (_newer, State.WARNING, "newer revision: it has spec.colour"),
        (_of_another_version, State.FAILED, "serves v1, and this gpubench speaks v1alpha1"),
    ],
)
def test_a_definition_that_differs_says_in_what(
    change: Callable[[dict[str, Any]], None], state: State, says: str
) -> None:
    found = copy.deepcopy(established())
    change(found)
    finding = preflight.definition(schema.POOL, found)
    assert finding.state is state
    assert says in finding.says
    assert finding.remedy


def test_a_definition_that_is_not_there_is_installed_by_the_chart() -> None:
    assert preflight.definition(schema.POOL, None).state is State.FAILED


def answer(verb: str, *, allowed: bool, scope: Scope = Scope.STUDIES) -> Answer:
    return Answer(verb=verb, resource="jobs.batch", allowed=allowed, scope=scope, namespace="team-a")


def test_a_missing_permission_is_named_and_cordoning_is_left_to_the_installation() -> None:
    fine = [answer("get", allowed=True), answer("patch", allowed=False, scope=Scope.DRAINS)]
    found = preflight.rights("rights", fine, account="x")
    assert found.state is State.OK
    assert "nodes cannot be cordoned" in found.says
    found = preflight.rights("rights", [*fine, answer("create", allowed=False)], account="x")
    assert (found.state, found.says) == (State.FAILED, "x may not create jobs.batch in team-a")
    assert preflight.rights("rights", None, account="x").state is State.WARNING


@pytest.mark.parametrize(
    ("spec", "renewed", "state", "says"),
    [
        ({"holderIdentity": "pod-1", "leaseDurationSeconds": 15}, 990.0, State.OK, "pod-1 holds the Lease"),
        ({"holderIdentity": "pod-1", "leaseDurationSeconds": 15}, 900.0, State.FAILED, "has not renewed"),
        ({"holderIdentity": "", "leaseDurationSeconds": 15}, 990.0, State.FAILED, "nobody holds"),
        (None, None, State.FAILED, "none has ever run there"),
    ],
)
def test_an_operator_is_alive_while_it_renews_its_lease(
    spec: dict[str, Any] | None, renewed: float | None, state: State, says: str
) -> None:
    lease = None if spec is None else {"spec": spec}
    found = preflight.operator(lease, name="ns/lease", now=1000.0, renewed=renewed)
    assert found.state is state
    assert says in found.says


def devices(*nodes: dict[str, Any], claimable: dict[str, int] | None = None) -> list[tuple[State, str]]:
    found = preflight.devices(nodes, claimable or {}, now=1_000_000.0)
    return [(one.state, f"{one.area}: {one.says}") for one in found]


def test_gpus_that_labels_name_and_nobody_offers_are_the_device_plugins() -> None:
    label = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    offering, silent = node("b", label, allocatable={"nvidia.com/gpu": "1"}), node("a", label)
    cut = node("c", {"nvidia.com/gpu.product": "NVIDIA-A100"}, allocatable={"nvidia.com/mig-1g.5gb": "7"})
    offer = "device plugin: 1 nvidia.com/gpu, 7 nvidia.com/mig-1g.5gb on 2 nodes"
    assert devices(offering, cut) == [(State.OK, offer)]
    assert devices(offering, silent) == [(State.FAILED, "device plugin: a has a GPU and offers no nvidia.com/gpu")]
    (found,) = preflight.devices([silent], {}, now=1_000_000.0)
    assert found.remedy is not None
    assert found.remedy.startswith("is the device plugin running there?")
    assert devices(silent, claimable={"a": 4}) == [(State.OK, "device plugin: 4 by claims (DRA) on 1 node")]
    assert devices(node()) == [(State.WARNING, "device plugin: no node offers nvidia.com/gpu")]


@pytest.mark.parametrize(
    ("labels", "is_there"),
    [
        ({"nvidia.com/gpu.count": "0"}, False),
        ({"nvidia.com/gpu.count": "2"}, True),
        ({"nvidia.com/gpu.present": "false"}, False),
    ],
)
def test_a_label_that_says_none_is_no_gpu(labels: dict[str, str], is_there: bool) -> None:
    ((state, _),) = devices(node(labels=labels))
    assert state is (State.FAILED if is_there else State.WARNING)


@pytest.mark.parametrize(
    ("labels", "is_shared"),
    [
        ({"cloud.google.com/gke-gpu-sharing-strategy": "time-sharing"}, True),
        ({"cloud.google.com/gke-max-shared-clients-per-gpu": "1"}, False),
        ({"nvidia.com/gpu.replicas": "1"}, False),
        ({"nvidia.com/gpu.replicas": "4"}, True),
    ],
)
def test_a_gpu_that_several_get_a_part_of_is_shared(labels: dict[str, str], is_shared: bool) -> None:
    found = node_facts.unfit(node(labels=labels, allocatable={"nvidia.com/gpu": "4"}))
    assert (found is node_facts.Unfit.SHARED) is is_shared


def test_a_node_that_starts_is_no_failure_and_one_that_shares_is_named() -> None:
    label = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    young, shared = node("young", label), node("shared", dict(label), allocatable={"nvidia.com/gpu": "4"})
    young["metadata"]["creationTimestamp"] = "1970-01-12T13:45:00Z"  # 100 s ago
    shared["metadata"]["labels"]["cloud.google.com/gke-max-shared-clients-per-gpu"] = "4"
    leaving = node("leaving", label, taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}])
    assert devices(young, shared, leaving) == [
        (State.OK, "device plugin: 4 nvidia.com/gpu on 1 node"),
        (State.WARNING, "nodes: young starts"),
        (State.WARNING, "nodes: shared lends its GPUs in parts"),
        (State.WARNING, "nodes: leaving leaves the cluster"),
    ]
    slot = {"gpu_resource": "nvidia.com/gpu", "cpu": "1", "memory": "1Gi"}
    pool = builders.pool("p", slot=slot)
    found = preflight.pool(pool, [young, leaving], now=1_000_000.0)
    assert found.state is State.WARNING
    assert found.says == "0 of 2 nodes ready (young starts, leaving leaves the cluster (karpenter.sh/disrupted))"
    assert preflight.pool(pool, [young], now=1_001_000.0).state is State.FAILED  # it should have come by then
    cordoned = node("cordoned", label, allocatable={"nvidia.com/gpu": "4"})
    cordoned["spec"]["unschedulable"] = True
    assert preflight.pool(pool, [cordoned], now=1_000_000.0).says == "0 of 1 node ready (cordoned is cordoned)"
    status = pool_status.of(pool, [young, leaving, shared], 1_000_000.0)
    assert (status["nodes"], status["readyNodes"], status["slots"]) == (3, 1, 1)
    (ready, *_) = GpuPoolStatus.model_validate(status).conditions
    assert ready.message == (
        "1 of 3 matching nodes take pods; young offers no nvidia.com/gpu; leaving leaves the cluster "
        "(karpenter.sh/disrupted); shared lends its GPUs in parts"
    )


def daemon(name: str, *containers: str) -> dict[str, Any]:
    listed = [{"name": container} for container in containers or ("one",)]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": listed}}}}


@pytest.mark.parametrize(
    ("daemons", "labels", "state"),
    [
        ([daemon("cilium")], {}, State.OK),
        ([daemon("aws-node", "aws-node", "aws-eks-nodeagent")], {}, State.OK),
        ([daemon("aws-node", "aws-node")], {}, State.WARNING),
        ([daemon("kube-flannel-ds")], {}, State.WARNING),
        ([], {"node.kubernetes.io/instance-type": "k3s"}, State.OK),
    ],
)
def test_policies_are_enforced_by_what_is_known_to_do_so(
    daemons: list[dict[str, Any]], labels: dict[str, str], state: State
) -> None:
    assert preflight.network(daemons, [node("a", labels)]).state is state


def test_an_image_is_reachable_for_certain_only_where_it_is_already() -> None:
    with_image = node()
    with_image["status"]["images"] = [{"names": ["docker.io/library/jobs:1", "docker.io/library/jobs@sha256:0"]}]
    there, unknown = preflight.images({"pool a": "jobs:1", "pool b": "jobs:1", "pool c": "jobs:2"}, [with_image])
    assert (there.state, unknown.state) == (State.OK, State.WARNING)
    assert there.says.startswith("jobs:1 (pool a, pool b)")
    assert "was not tried" in unknown.says


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pool", "nodes", "state", "says"),
    [
        ({}, [node(), node("b", ready="False")], State.OK, "1 of 2 nodes ready"),
        ({"scheduling": {"node_selector": {"pool": "x"}}}, [node()], State.WARNING, "no node has its labels"),
        ({}, [node(taints=[TAINT])], State.FAILED, "a has the taint nvidia.com/gpu, which the pool does not"),
        (
            {"scheduling": {"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]}},
            *([node(taints=[TAINT])], State.OK, "1 of 1 node ready"),
        ),
        (
            {"scheduling": {"tolerations": [{"key": "nvidia.com/gpu", "value": "true"}]}},
            *([node(taints=[TAINT])], State.FAILED, "does not tolerate"),
        ),
        ({"slots_per_node": 9}, [node()], State.FAILED, "has 8 cpu, and all slots take 9"),
        ({"node_resources": {"vpc.amazonaws.com/efa": "4"}}, [node()], State.FAILED, "has no vpc.amazonaws.com/efa"),
        ({"slots_per_node": 9}, [node(), node("b", allocatable={"cpu": "9"})], State.OK, "1 take no pod"),
        ({"measured_by": {"pool": "other"}}, [], State.OK, "never run"),
    ],
)
def test_a_pool_whose_pods_find_no_node_fails_with_the_reason(
    pool: dict[str, Any], nodes: list[dict[str, Any]], state: State, says: str
) -> None:
    found = preflight.pool(builders.pool("p", **pool), nodes, now=1_000_000.0)
    assert found.state is state, found
    assert says in found.says


def node_pool(*, age: str | None = "40s", grace: str | None = "20s", **labels: str) -> dict[str, Any]:
    """As kubernetes-sigs/karpenter v1.14.1 has it, `pkg/apis/crds/karpenter.sh_nodepools.yaml`."""
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge", "g6.12xlarge"]}
    times = {key: value for key, value in (("expireAfter", age), ("terminationGracePeriod", grace)) if value}
    template = {"metadata": {"labels": labels}, "spec": {"requirements": [types], **times}}
    return {"metadata": {"name": "short"}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("found", "lives"),
    [
        (node_pool(kind="l4"), "1m00s (expireAfter 40s, terminationGracePeriod 20s)"),
        (node_pool(kind="l4", age="1m", grace="24s"), "1m24s"),
        (node_pool(kind="l4", age="1m", grace="25s"), None),
        (node_pool(kind="t4"), None),
        (node_pool(kind="l4", grace=None), None),  # then the gang, which is not to be disrupted, holds its node
        (node_pool(kind="l4", age="Never"), None),
        (node_pool(kind="l4", age=None), None),  # 720h by its schema
    ],
)
def test_a_pool_whose_nodes_expire_before_a_trial_ends_says_so(found: dict[str, Any], lives: str | None) -> None:
    selector = {"kind": "l4", "node.kubernetes.io/instance-type": "g6.12xlarge"}
    pool = builders.pool("p", scheduling={"node_selector": selector})
    usual = preflight.longest_trials([], [pool])["p"]  # 15 s of start-up, measure.warmUp 10s and duration 60s
    said = [one.says for one in preflight.expiry(pool, [found], trial_seconds=usual)]
    assert [f"NodePool short ends a node after {lives}" in one for one in said] == ([] if lives is None else [True])


def test_the_longest_trial_on_a_pool_is_one_that_is_planned_or_one_of_the_defaults() -> None:
    planned = [builders.spec(measure={"duration": duration}) for duration in ("5m", "1s")]
    longest = preflight.longest_trials(planned, [builders.pool(), builders.pool("other")])
    assert longest == {"cpu": 15 + 10 + 300, "other": 15 + 10 + 60}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(*terms: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """Each term is requirements of key, operator and values."""
    asked = [
        {"matchExpressions": [{"key": key, "operator": how, "values": values} for key, how, *values in term]}
        for term in terms
    ]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": asked}}}


@pytest.mark.parametrize(
    ("scheduling", "matching"),
    [
        (affinity((("zone", "In", "a", "b"),)), "ab"),
        (affinity((("zone", "NotIn", "a"),)), "b-"),
        (affinity((("zone", "Exists"),)), "ab"),
        (affinity((("zone", "DoesNotExist"),)), "-"),
        (affinity((("gpus", "Gt", "4"),)), "b"),
        (affinity((("gpus", "Lt", "4"),)), ""),
        (affinity((("gpus", "Lt", "5"),)), "a"),
        (affinity((("zone", "Lt", "5"),)), ""),  # no number
        (affinity((("zone", "In", "a"), ("gpus", "Gt", "4"))), ""),
        (affinity((("zone", "In", "a"),), (("gpus", "Gt", "4"),)), "ab"),
        (affinity((("zone", "Exists"),)) | {"nodeSelector": {"gpus": "8"}}, "b"),
        ({"nodeAffinity": {}}, "ab-"),
    ],
)
def test_node_affinity_says_with_the_selector_which_nodes_are_a_pools(
    scheduling: dict[str, Any], matching: str
) -> None:
    nodes = [node("a", {"zone": "a", "gpus": "4"}), node("b", {"zone": "b", "gpus": "8"}), node("-")]
    pool = builders.pool("p", scheduling=scheduling)
    assert (
        "".join(one["metadata"]["name"] for one in nodes if node_facts.belongs(one, pool.spec.scheduling)) == matching
    )
    counted = [pool_status.of(pool, nodes, builders.NOW)[field] for field in ("nodes", "readyNodes", "slots")]
    assert counted == [len(matching)] * 3
    found = preflight.pool(pool, nodes, now=1_000_000.0)
    assert found.says.startswith(f"{len(matching)} of " if matching else "no node has its labels")
    proposed = {name for one in proposals.proposals(nodes, existing=[pool]).pools for name in one.nodes}
    if matching != "ab-":  # no node is in a pool that asks for nothing
        assert proposed == set("ab-") - set(matching)


def test_a_status_says_that_it_is_the_affinity_that_no_node_matches() -> None:
    scheduling = affinity((("zone", "Exists"),)) | {"nodeSelector": {"gpus": "8"}}
    status = pool_status.of(builders.pool("p", scheduling=scheduling), [node()], builders.NOW)
    ready = GpuPoolStatus.model_validate(status).conditions[0]
    assert ready.message == "no node matches gpus=8, its nodeAffinity; fine for a pool that scales from zero"


def test_dns_answers_where_an_endpoint_is_ready() -> None:
    assert preflight.dns([{"endpoints": [{"conditions": {"ready": True}}]}]).state is State.OK
    assert preflight.dns([{"endpoints": [{"conditions": {"ready": False}}]}]).state is State.FAILED
    assert preflight.dns([]).state is State.FAILED
    assert preflight.dns([]).area == "DNS"


def test_a_cluster_of_ipv6_alone_is_told_which_gangs_run() -> None:
    six: preflight.Object = {"addressType": "IPv6", "endpoints": [{}]}
    four = {**six, "addressType": "IPv4"}
    warned = preflight.dns([six])
    assert (warned.state, warned.says) == (State.WARNING, "kube-dns has 1 ready endpoint, all of IPv6")
    assert preflight.dns([six, four]).state is preflight.dns([four]).state is State.OK


def test_claims_need_a_default_storage_class_or_a_name() -> None:
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    assert preflight.storage([{"metadata": {"name": "fast", "annotations": default}}]).state is State.OK
    found = preflight.storage([{"metadata": {"name": "slow"}}])
    assert (found.state, found.says) == (State.WARNING, "StorageClass: none of slow is the default")
    assert preflight.storage([]).says == "StorageClass: there is none"


def test_what_is_not_known_is_a_warning_with_whom_to_ask() -> None:
    found = preflight.unknown("nodes", "no permission to read nodes")
    assert (found.state, found.says) == (State.WARNING, "not known: no permission to read nodes")
    assert found.remedy == "ask somebody who may to run this command"


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, "team"),
        ({"value": "vision", "effect": "NoExecute"}, "team"),
        ({"value": "vision", "effect": "NoSchedule"}, None),
        ({"value": "vision"}, None),
        ({"value": "speech"}, "team"),
        ({"operator": "Exists"}, None),
        ({"key": "other", "operator": "Exists"}, "team"),
    ],
)
def test_a_taint_is_tolerated_by_key_effect_and_value(fields: dict[str, str], key: str | None) -> None:
    tainted = node(taints=[{"key": "team", "value": "vision", "effect": "NoSchedule"}])
    accepted = [Toleration.model_validate({"key": "team", **fields})] if fields else []
    assert node_facts.untolerated(tainted, accepted) == key


def test_a_resource_that_a_node_does_not_offer_is_none_of_it() -> None:
    assert node_facts.amount(node(), "nvidia.com/gpu") == 0
    assert node_facts.amount(node(), "cpu") == 8
