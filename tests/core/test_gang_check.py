# SPDX-License-Identifier: Apache-2.0
"""What is said of what a namespace makes of a gang's Job and pod before it runs; test_doctor.py asks real webhooks."""

import copy
from typing import Any

import pytest

import builders
from gpubench import names
from gpubench.analysis import gang_check
from gpubench.analysis.preflight import Finding, State, ok, warning
from gpubench.scheduler import capacity, manifests


def manifest(*, labels: dict[str, str], owner: str = "ours", **template: str) -> dict[str, Any]:
    """A Job, as far as what others take of it is concerned."""
    metadata = {"labels": labels, "ownerReferences": [{"uid": owner}]}
    fixed = {"backoffLimit": 0, "parallelism": 2, "completions": 2, "podReplacementPolicy": "Failed"}
    return {"metadata": metadata, "spec": {**fixed, "template": {"metadata": {"labels": template or labels}}}}


def test_labels_and_owners_that_a_policy_takes_from_a_job_or_its_template_are_told_before_it_runs() -> None:
    ours = {names.LABEL_BENCHMARK_UID: "uid", names.LABEL_POOL: "l4", "team": "vision"}
    sent = manifest(labels=ours)
    (same,) = gang_check.job(sent, manifest(labels=ours | {"added": "by-somebody"}))
    assert same.state is State.OK
    for got, says in (
        (manifest(labels={names.LABEL_POOL: "l4"}), f"no label {names.LABEL_BENCHMARK_UID}"),
        (manifest(labels=ours | {names.LABEL_POOL: "theirs"}), f"no label {names.LABEL_POOL}"),
        (manifest(labels=ours, **{names.LABEL_POOL: "l4"}), f"no label {names.LABEL_BENCHMARK_UID}"),
        (manifest(labels=ours, owner="theirs"), "another owner"),
    ):
        told = [one for one in gang_check.job(sent, got) if one.state is State.FAILED]
        assert any(says in one.says for one in told), (says, told)


POD = {
    "spec": {
        "priorityClassName": "batch",
        "containers": [
            {"name": names.CONTAINER, "resources": {"requests": {"cpu": "3"}, "limits": {"nvidia.com/gpu": "1"}}},
            {"name": "sidecar", "resources": {"requests": {"cpu": "500m"}}},
        ],
        "initContainers": [
            {"name": "native", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}},
            {"name": "init", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
        ],
    }
}


@pytest.mark.parametrize(
    ("hard", "used", "state", "says"),
    [
        ({"requests.cpu": "20"}, {"requests.cpu": "4"}, "ok", "1 ResourceQuota with room for a gang of 4"),
        ({"cpu": "20"}, {"cpu": "7"}, "warning", "leaves 13 of cpu, and a pod of a gang needs 4: room for 3 of 4"),
        ({"cpu": "20"}, {"cpu": "13"}, "failed", "leaves 7 of cpu, and a pod of a gang needs 4: room for 1 of 4"),
        ({"requests.memory": "2Gi"}, {}, "warning", "a pod of a gang needs 1073741824: room for 2 of 4"),
        ({"limits.nvidia.com/gpu": "3"}, {}, "warning", "room for 3 of 4"),
        (
            {"count/configmaps": "9"},
            {"count/configmaps": "8"},
            "failed",
            "leaves 1 of count/configmaps, and a benchmark",
        ),
        ({"count/jobs.batch": "0"}, {}, "failed", "leaves 0 of count/jobs.batch"),
        ({"requests.storage": "0", "services.loadbalancers": "0"}, {}, "ok", "room for a gang of 4"),
        ({"cpu": "many"}, {}, "warning", "what tight leaves is not known"),
    ],
)
def test_a_quota_is_held_against_the_smallest_and_the_largest_gang_of_a_pool(
    hard: dict[str, str], used: dict[str, str], state: str, says: str
) -> None:
    quota = {"metadata": {"name": "tight"}, "spec": {"hard": hard}, "status": {"used": used}}
    (found,) = gang_check.quotas([quota], POD, gang=2, most=4)
    assert (found.state, says in found.says) == (state, True), found


@pytest.mark.parametrize(
    ("scope", "concerns"),
    [
        ({"scopes": ["Terminating"]}, True),
        ({"scopes": ["NotBestEffort"]}, True),
        ({"scopes": ["NotTerminating"]}, False),
        ({"scopes": ["BestEffort"]}, False),
        ({"scopes": ["CrossNamespacePodAffinity"]}, False),
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["batch"]}, True),
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}, False),
        ({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["batch"]}, False),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, True),
        ({"scopeName": "PriorityClass", "operator": "DoesNotExist"}, False),
    ],
)
def test_a_quota_of_other_pods_keeps_no_gang_back(scope: dict[str, Any], concerns: bool) -> None:
    scoped = {"scopeSelector": {"matchExpressions": [scope]}} if "scopeName" in scope else scope
    quota = {"metadata": {"name": "other"}, "spec": {"hard": {"pods": "0"}, **scoped}}
    (found,) = gang_check.quotas([quota], POD, gang=1, most=1)
    assert found.state == (State.FAILED if concerns else State.OK), found


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_quota_of_pods_that_name_namespaces_concerns_gangs_with_exclusive_nodes(*, exclusive: bool) -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1])), builders.pool(exclusive_nodes=exclusive))
    gang = capacity.gang_of(plan, plan.trials[0], attempt=1)
    pod = gang_check.pod_of_job(manifests.job(builders.study(), plan, gang))
    quota = {"metadata": {"name": "other"}, "spec": {"hard": {"pods": "0"}, "scopes": ["CrossNamespacePodAffinity"]}}
    (found,) = gang_check.quotas([quota], pod, gang=1, most=1)
    assert found.state == (State.FAILED if exclusive else State.OK), found


def sent_job(**fields: Any) -> dict[str, Any]:
    plan = builders.plan(
        builders.spec(builders.block(workers=[2])), builders.pool(scheduling={"nodeSelector": {"pool": "cpu"}})
    )
    body = manifests.job(builders.study(), plan, capacity.gang_of(plan, plan.trials[0], attempt=1))
    return {**body, "spec": {**body["spec"], **fields}}


@pytest.mark.parametrize(
    ("fields", "state", "says", "remedy"),
    [
        ({"backoffLimit": 6}, State.FAILED, "it comes back with backoffLimit 6 in place of 0", "exempt the Jobs"),
        ({"parallelism": 1}, State.FAILED, "it comes back with parallelism 1 in place of 2", "exempt the Jobs"),
        ({"completions": None}, State.FAILED, "it comes back with completions None in place of 2", "exempt the Jobs"),
        ({"podReplacementPolicy": "Failed"}, None, "", ""),
        ({"suspend": True}, State.WARNING, "a webhook suspended it without spec.queueName", "name that queue in"),
        ({"suspend": False}, None, "", ""),
        ({"ttlSecondsAfterFinished": 0}, State.WARNING, "ttlSecondsAfterFinished is 0: it goes the m", "give Jobs a"),
        ({"ttlSecondsAfterFinished": 60}, None, "", ""),
    ],
)
def test_what_others_change_of_a_job_is_said_with_the_remedy(
    fields: dict[str, Any], state: State | None, says: str, remedy: str
) -> None:
    (found,) = gang_check.job(sent_job(), sent_job(**fields))
    if state is None:
        assert found == ok("gang's Job", "it comes back as it was sent")
    else:
        assert (found.area, found.state) == ("gang's Job", state)
        assert found.says.startswith(says)
        assert found.remedy is not None
        assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("error", "state", "remedy"),
    [
        (
            'admission webhook "w" does not support dry run',
            State.WARNING,
            "set its sideEffects to None or NoneOnDryRun",
        ),
        ("pods is forbidden: exceeded quota: small", State.FAILED, "raise that quota; until then benchmarks wait"),
        ("failed calling webhook w: no endpoints", State.FAILED, "see that webhook's Service, or its failurePolicy;"),
        ("spec.x: Invalid value", State.FAILED, "change what is named there, or the pool's template; until then"),
    ],
)
def test_a_refusal_has_the_remedy_of_its_words(error: str, state: State, remedy: str) -> None:
    found = gang_check.refused("gang's pod", error)
    assert (found.area, found.state) == ("gang's pod", state)
    assert found.says.endswith(error)
    assert found.remedy is not None
    assert found.remedy.startswith(remedy)


def test_the_queue_that_a_suspended_job_was_given_to_is_named() -> None:
    got = sent_job(suspend=True)
    got["metadata"] = {**got["metadata"], "labels": {**got["metadata"]["labels"], names.LABEL_QUEUE: "team-a"}}
    (found,) = gang_check.job(sent_job(), got)
    assert found.says == "a webhook suspended it and gave to queue team-a without spec.queueName"
    assert [*gang_check.job(sent_job(suspend=True), got)] == [ok("gang's Job", "it comes back as it was sent")]


def test_a_pod_is_made_as_the_job_controller_makes_it() -> None:
    job = sent_job()
    pod = gang_check.pod_of_job({**job, "metadata": {**job["metadata"], "uid": "u"}})
    name, template = job["metadata"]["name"], job["spec"]["template"]
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["name"]) == ("v1", "Pod", f"{name}-0-doctor")
    assert pod["metadata"]["labels"] == {
        **template["metadata"]["labels"],
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/controller-uid": "u",
        "batch.kubernetes.io/job-completion-index": "0",
    }
    assert pod["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
    ]
    assert pod["metadata"]["annotations"] == template["metadata"].get("annotations", {})
    assert pod["spec"] == {**template["spec"], "hostname": f"{name}-0"}
    assert "ownerReferences" not in gang_check.pod_of_job(job)["metadata"]  # nobody gave it a UID


def of_pod(changed: dict[str, Any], *, status: dict[str, Any] | None = None) -> list[Finding]:
    job = sent_job()
    sent = gang_check.pod_of_job(job)
    got = copy.deepcopy(sent)
    got["spec"] |= changed
    return [*gang_check.pod(job, sent, got | ({"status": status} if status else {}))]


def container(**fields: Any) -> list[dict[str, Any]]:
    """The containers of a pod, ours changed."""
    (ours,) = sent_job()["spec"]["template"]["spec"]["containers"]
    return [{**ours, **fields}]


@pytest.mark.parametrize(
    ("changed", "says", "remedy"),
    [
        (
            {"containers": container(resources={"limits": {"cpu": "1", "memory": "1Gi", "example.com/nic": "1"}})},
            "it gets resources.limits.example.com/nic 1 besides what was planned: more than that is refused or ends",
            "raise what a LimitRange",
        ),
        ({"nodeSelector": {}}, "it gets nodeSelector.pool none in place of cpu", "exempt the Jobs"),
        (
            {"schedulerName": "volcano"},
            "it gets schedulerName volcano in place of default-scheduler",
            "exempt the Jobs",
        ),
        (
            {"containers": [*container(), {"name": "istio-proxy"}, {"name": "shipper"}]},
            "it comes with 2 containers beside ours: istio-proxy and shipper",
            "one that runs on keeps the GPUs",
        ),
        (
            {"initContainers": [{"name": "vault"}]},
            "it comes with init container vault: no trial begins before",
            "see that it does so",
        ),
        (
            {"initContainers": [{"name": "linkerd", "restartPolicy": "Always"}]},
            "it comes with native sidecar linkerd: no trial begins before",
            "see that it does so",
        ),
    ],
)
def test_what_others_change_of_a_pod_is_a_warning_with_the_remedy(
    changed: dict[str, Any], says: str, remedy: str
) -> None:
    found = of_pod(changed)
    (told,) = (one for one in found if one.says.startswith(says))
    assert (told.area, told.state) == ("gang's pod", State.WARNING)
    assert told.remedy is not None
    assert told.remedy.startswith(remedy)


def test_an_init_container_of_our_own_is_no_news() -> None:
    job = sent_job()
    template = job["spec"]["template"]
    ours = {**template["spec"], "initContainers": [{"name": "ours"}]}
    job["spec"]["template"] = {**template, "spec": ours}
    sent = gang_check.pod_of_job(job)
    assert [*gang_check.pod(job, sent, sent)] == [ok("gang's pod", "it comes back as it was planned")]
    got = {**sent, "spec": {**sent["spec"], "initContainers": [{"name": "ours"}, {"name": "theirs"}]}}
    (found,) = gang_check.pod(job, sent, got)
    assert found.says.startswith("it comes with init container theirs: ")


def test_a_pod_that_nobody_changed_is_as_planned() -> None:
    as_planned = [ok("gang's pod", "it comes back as it was planned")]
    assert of_pod({}) == as_planned
    assert of_pod({}, status={"phase": "Pending"}) == as_planned
    assert of_pod({}, status={"qosClass": "Guaranteed"}) == as_planned


def test_the_class_that_a_pod_comes_down_to_is_told() -> None:
    (found,) = of_pod({}, status={"qosClass": "Burstable"})
    assert (found.area, found.state) == ("gang's pod", State.WARNING)
    assert found.says.startswith("it is Burstable and not Guaranteed")
    assert found.remedy == "give each container that is added requests equal to its limits"


def test_another_subdomain_fails_the_gang() -> None:
    (found,) = of_pod({"subdomain": "theirs"})
    assert (found.area, found.state) == ("gang's pod", State.FAILED)
    assert found.says.startswith("it comes back with subdomain theirs in place of ")


def test_lines_of_pools_are_said_once_and_name_their_pools_where_others_have_none() -> None:
    all_of_them, some = ok("gang's Job", "same"), warning("gang's pod", "changed", "undo it")
    found = [*gang_check.merged({"l4": [all_of_them, some], "t4": [all_of_them], "v100": [some, all_of_them]})]
    assert found == [all_of_them, some.model_copy(update={"area": "gang's pod (l4, v100)"})]
