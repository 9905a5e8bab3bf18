# SPDX-License-Identifier: Apache-2.0
"""The operator uses each permission that it is granted, and says which one it misses where somebody took it away.

Its role here is one of its own, so that a test can take a rule out of it while the operator runs, and give it back.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest

import installation
import kept
import kueue_stand_in
import studies
from cluster import ApiError, Cluster
from gpubench import names, permissions
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

ACCOUNT = "rationed"  # ServiceAccount, ClusterRole and binding
USER = f"system:serviceaccount:{installation.NAMESPACE}:{ACCOUNT}"
LEASE = "rationed"
#: A Lease that outlives the seconds for which the operator may not write it.
SETTINGS = {
    "GPUBENCH_LEASE_NAME": LEASE,
    "GPUBENCH_LEASE_RETRY_SECONDS": "0.5",
    "GPUBENCH_LOG_FORMAT": "text",
    "GPUBENCH_NODE_POLL_SECONDS": "1",
}
REFUSAL = re.compile(r'cannot (\w+) resource "([\w./]+)" in API group "([\w.-]*)"')
LEADING = " leading identity="

Permission = tuple[str, str, str]  # API group, resource with subresource, verb


class Need(NamedTuple):
    """A permission, what makes the operator ask for it, and whether the study itself must tell that it is missing."""

    permission: Permission
    provoke: Callable[[Place], object]
    told_by_study: bool = True
    remedy: str = ""  # what an installation leaves out on purpose says how to switch it on, and nothing else fails


def apply_study(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1))


def end_a_pod(place: Place) -> None:
    apply_study(place)
    place.wait(lambda: running(place), what="a running pod")
    place.end_pods()


def drill(kind: str) -> Callable[[Place], None]:
    def provoke(place: Place) -> None:
        place.apply(studies.benchmark(repeats=1, drill={"every": "5s", "times": 1, "kind": kind}))

    return provoke


def apply_schedule(place: Place) -> None:
    place.apply(schedule("due"))


def make_a_run_due(place: Place) -> None:
    """Its benchmarks have nothing to do and end at once; none of them is kept."""
    apply_schedule(place)
    path = kube.SCHEDULES.path(namespace=place.namespace, name="due")
    before = {"status": {"lastScheduleTime": "2025-06-01T00:00:00Z"}}
    place.cluster.request("PATCH", f"{path}/status", before, content_type="application/merge-patch+json")
    place.cluster.request("PATCH", path, {"spec": {"suspend": False}}, content_type="application/merge-patch+json")


def schedule(name: str) -> kube.Object:
    too_many = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4096], "batchPerWorker": [64]}]
    spec = {
        "schedule": "0 0 1 1 *",
        "suspend": True,
        "successfulHistoryLimit": 0,
        "failedHistoryLimit": 0,
        "benchmarkTemplate": {"spec": {"sweep": too_many}},
    }
    return {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "metadata": {"name": name}, "spec": spec}


def make_a_pool(place: Place) -> None:
    place.apply(studies.pool("unwritten"))


def forbid_pods(place: Place) -> None:
    place.forbid_pods()
    apply_study(place)


def ask_for_labels(place: Place) -> None:
    place.apply(studies.pool(allowedNamespaces={"matchLabels": {names.LABEL_NAMESPACE_NAME: place.namespace}}))
    apply_study(place)


def apply_queued(place: Place) -> kueue_stand_in.KueueStandIn:
    kueue = kueue_stand_in.KueueStandIn(place.cluster)
    with contextlib.suppress(ApiError):  # another test has installed it
        kueue.install()
    place.apply(studies.benchmark(repeats=1, queueName="team-a"))
    return kueue


def nothing(place: Place) -> None:
    """It asks by itself, all the time."""
    del place


#: For each rule what misses it first. Where a rule is used in two ways that fail differently, both.
NEEDS = (
    Need((names.GROUP, "gpubenchmarks", "get"), apply_study, told_by_study=False),
    Need((names.GROUP, "gpupools", "get"), apply_study),
    Need((names.GROUP, "gpubenchmarkschedules", "get"), apply_schedule, told_by_study=False),
    Need((names.GROUP, "gpubenchmarkschedules/status", "patch"), apply_schedule, told_by_study=False),
    Need((names.GROUP, "gpubenchmarks", "create"), make_a_run_due, told_by_study=False),
    Need((names.GROUP, "gpubenchmarks/status", "patch"), apply_study, told_by_study=False),
    Need((names.GROUP, "gpupools/status", "patch"), make_a_pool, told_by_study=False),
    Need(("batch", "jobs", "list"), apply_study),
    Need(("", "pods", "list"), apply_study),
    Need(("", "pods/eviction", "create"), drill("Evict")),
    Need(("", "pods/log", "get"), end_a_pod, told_by_study=False),
    Need(("", "configmaps", "create"), apply_study),
    Need(("", "services", "create"), apply_study),
    Need(("", "secrets", "create"), apply_study),
    Need(("networking.k8s.io", "networkpolicies", "create"), apply_study),
    Need(("", "events", "create"), apply_study, told_by_study=False),
    Need(("", "events", "list"), forbid_pods),
    Need((names.KUEUE_GROUP, "workloads", "list"), apply_queued, told_by_study=False),
    Need(("", "nodes", "list"), nothing, told_by_study=False),
    Need(("", "nodes", "patch"), drill("Drain"), remedy="rbac.drains"),
    Need(("", "namespaces", "get"), ask_for_labels),
    Need(("coordination.k8s.io", "leases", "get"), nothing, told_by_study=False),
)


def permitted(rule: permissions.Rule) -> set[Permission]:
    return {(group, resource, verb) for group in rule.groups for resource in rule.resources for verb in rule.verbs}


def grant(cluster: Cluster, rules: Iterable[permissions.Rule]) -> None:
    """Make this the operator's role, and wait until the API server judges by it."""
    granted = list(rules)
    wire = [
        {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
        for rule in granted
    ]
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{ACCOUNT}"
    cluster.request("PATCH", path, {"rules": wire}, content_type="application/merge-patch+json")
    for rule in permissions.RULES:
        while may(cluster, min(permitted(rule))) is not (rule in granted):
            pass


def may(cluster: Cluster, permission: Permission) -> bool:
    group, resource, verb = permission
    name, _, subresource = resource.partition("/")
    asked = {"group": group, "resource": name, "subresource": subresource, "verb": verb}
    review = {"spec": {"user": USER, "resourceAttributes": asked}}
    answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


@pytest.fixture(scope="module")
def operator(equipped: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[installation.Operator]:
    """The operator with an account of its own, which may do nothing yet; another one would do its work for it."""
    kept.end("operator")
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": installation.NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    for path, body in (
        (f"/api/v1/namespaces/{installation.NAMESPACE}/serviceaccounts", {}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"rules": []}),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"roleRef": role, "subjects": [account]}),
    ):
        equipped.request("POST", path, {"metadata": {"name": ACCOUNT}, **body})
    kubeconfig = equipped.kubeconfig_for_service_account(installation.NAMESPACE, ACCOUNT)
    log = tmp_path_factory.mktemp("rationed") / "operator.log"
    process = installation.Operator(kubeconfig, log=log, settings=SETTINGS)
    process.start(wait=False)
    yield process
    process.stop()


def running(place: Place) -> bool:
    return any(pod["status"].get("phase") == "Running" for pod in place.all(kube.PODS))


def study_says(place: Place) -> str:
    """The messages of the conditions of the study, and of the Events about it."""
    said = [one["message"] for one in place.status("quick").get("conditions") or ()]
    listed = place.cluster.request("GET", kube.EVENTS.path(namespace=place.namespace))["items"]
    return "\n".join(said + [event["message"] for event in listed if event["involvedObject"].get("name") == "quick"])


def refused(text: str) -> set[Permission]:
    """The permissions that a text names as missing."""
    return {(group, resource, verb) for verb, resource, group in REFUSAL.findall(text)}


def used(place: Place, *, since: int) -> set[Permission]:
    """What the operator asked the API server for, and got an answer to, from one entry of the audit log on."""
    found = set()
    for event in list(place.cluster.audit_events())[since:]:
        if event["user"]["username"] == USER and "objectRef" in event:
            reference = event["objectRef"]
            resource = "/".join(filter(None, (reference["resource"], reference.get("subresource"))))
            assert (event.get("responseStatus") or {}).get("code") != 403 or event["verb"] == "create", event
            found.add((reference.get("apiGroup", ""), resource, event["verb"]))
    return found


def test_it_starts_without_any_permission_and_names_one_after_the_other_that_it_needs_to_lead(place: Place) -> None:
    process = place.operator
    pid, granted = process.pid, list[permissions.Rule]()

    def leads() -> bool:
        for missing in refused(process.log.read_text()):
            (rule,) = [rule for rule in permissions.RULES if missing in permitted(rule)]
            if rule not in granted:
                granted.append(rule)
                grant(place.cluster, granted)
        return LEADING in process.log.read_text()

    place.wait(leads, what="leading")
    needed = {resource for rule in granted for resource in rule.resources}
    assert {"leases", "gpupools", "gpubenchmarks", "jobs", "pods"} <= needed
    assert (process.pid, process.has_ended()) == (pid, False), "it waited, and was not started again and again"
    grant(place.cluster, permissions.RULES)


def test_one_scenario_uses_every_permission_and_asks_for_no_other(place: Place) -> None:
    grant(place.cluster, permissions.RULES)
    place.wait(lambda: LEADING in place.operator.log.read_text(), what="leading")
    since = len(list(place.cluster.audit_events()))
    # A run of a schedule, which is not kept.
    make_a_run_due(place)
    # A pool for namespaces with a label.
    ask_for_labels(labelled := place_of(place, "labelled"))
    place.apply(studies.pool())
    # A gang that is drained away, and one that has no pods: it is asked why.
    place.apply(studies.benchmark("drained", repeats=1, drill={"every": "5s", "times": 1, "kind": "Drain"}))
    forbid_pods(quota := place_of(place, "quota"))
    # A Job in a queue: its Workload is found, and read.
    queued = place_of(place, "queue")
    kueue = apply_queued(queued)
    (job,) = place.wait(lambda: queued.all(kube.JOBS), what="a Job in a queue")
    kueue.queue(job, says="no quota")
    place.wait(lambda: running(place), what="a running pod")
    # Another operator takes over: it finds a plan, and makes the Lease that somebody has deleted.
    assert place.operator.stop() == 0
    place.cluster.request("DELETE", kube.LEASES.path(namespace=installation.NAMESPACE, name=LEASE))
    place.operator.start()
    # A log that can be read; then a Job of somebody else's under the name that the next attempt would have.
    place.apply(studies.pool("process", maxNodes=2))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1], "batchPerWorker": [64]}]
    place.apply(studies.benchmark("first", repeats=1, sweep=sweep))
    place.wait(lambda: place.holds("first", "Finished"), what="first finished")
    trials = [job["metadata"]["labels"] for job in place.all(kube.JOBS)]
    (trial,) = {one[names.LABEL_TRIAL] for one in trials if one[names.LABEL_BENCHMARK] == "first"}
    place.apply(studies.benchmark("second", repeats=1, sweep=sweep, suspend=True))
    second = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace, name="second"))
    container = {"name": "c", "image": "none"}
    foreign = {
        "metadata": {"name": names.job_name("second", kube.uid_of(second), trial=trial, attempt=1)},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    place.cluster.request("POST", kube.JOBS.path(namespace=place.namespace), foreign)
    place.patch_spec("second", suspend=False)
    place.wait(lambda: "NameTaken" in place.events("second"), what="NameTaken")
    place.wait(lambda: place.status("drained")["attempts"]["drilled"] == 1, what="an interruption")

    granted = set().union(*map(permitted, permissions.RULES))
    place.wait(lambda: used(place, since=since) >= granted, what="every permission used")
    assert used(place, since=since) == granted
    for other in (labelled, quota, queued):  # their gangs would hold nodes that later tests need
        place.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "--all", "-n", other.namespace)


def place_of(place: Place, suffix: str) -> Place:
    """Another namespace, which goes with the cluster."""
    namespace = f"{place.namespace}-{suffix}"
    place.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    return type(place)(place.cluster, place.operator, namespace)


def test_every_rule_has_a_step_that_misses_it() -> None:
    for rule in permissions.RULES:
        assert permitted(rule) & {need.permission for need in NEEDS}, rule


@pytest.mark.parametrize("need", NEEDS, ids=["-".join(need.permission[1:]) for need in NEEDS])
def test_what_is_missing_is_named(need: Need, place: Place) -> None:
    """Without one rule the operator says which verb and resource it misses, is not restarted, and goes on later."""
    grant(place.cluster, permissions.RULES)
    place.wait(lambda: LEADING in place.operator.log.read_text(), what="leading")
    place.apply(studies.benchmark("early", suspend=True))
    place.wait(lambda: place.status("early"), what="a watch that has begun")
    pid, before = place.operator.pid, len(place.operator.log.read_text())
    grant(place.cluster, [rule for rule in permissions.RULES if need.permission not in permitted(rule)])

    need.provoke(place)
    said: Callable[[], str] = lambda: place.operator.log.read_text()[before:]  # noqa: E731
    if need.told_by_study:
        said = lambda: study_says(place)  # noqa: E731
    place.wait(lambda: need.permission in refused(said()), what=f"a word about {need.permission}")
    if need.remedy:
        assert need.remedy in said()
        place.end_study("quick")
        assert (place.status("quick")["phase"], place.status("quick")["attempts"]["drilled"]) == ("Succeeded", 0)

    grant(place.cluster, permissions.RULES)
    assert (place.operator.pid, place.operator.has_ended()) == (pid, False), "it went on, and was not started again"
    if need.provoke not in (nothing, make_a_pool, apply_schedule, make_a_run_due):
        place.patch_spec("quick", limits={"parallelTrials": 2})  # whoever grants something looks whether it helps
        place.wait(lambda: place.all(kube.JOBS), what="the study goes on")


def test_without_the_permission_for_workloads_events_of_kueue_say_why_a_job_waits(place: Place) -> None:
    """Kueue names its Event after the reason with the gate UnadmittedWorkloadsObservability."""
    grant(place.cluster, [rule for rule in permissions.RULES if names.KUEUE_GROUP not in rule.groups])
    kueue = apply_queued(place)
    (job,) = place.wait(lambda: place.all(kube.JOBS), what="a Job in a queue")
    kueue.queue(job, says="insufficient quota for cpu", reason="ExceedsMaxQuota")
    place.wait(lambda: "insufficient quota for cpu" in study_says(place), what="why it waits")
    grant(place.cluster, permissions.RULES)
