# SPDX-License-Identifier: Apache-2.0
"""The chart's admission policies on a real API server: what each refuses and says, and that the operator's work passes.

Whoever asks here has every right by RBAC, so that only a policy can refuse.
"""

import copy
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import builders
import helm_programs
import installation
import rendering
import studies
from cluster import Cluster
from gpubench import names
from gpubench.scheduler import capacity, manifests
from gpubench_cluster import kube
from gpubench_operator import schedule

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any
Body = dict[str, Any]

OPERATOR = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
TENANT, EDITOR = "mallory", "edits-alone"
KIND = "ValidatingAdmissionPolicy"
ALLOWED: Body = {
    "images": ["registry.example.com/*", "gpubench-jobs:one"],
    "hostPaths": ["/srv/*", "/data"],
    "annotations": ["networking.gke.io/*"],
    "serviceAccounts": ["*/reads-data", "default/one", "team-a/*"],
    "drills": ["a-benchmark-runs-*", "default"],
    "drains": ["a-benchmark-runs-*"],
}
DRILL = {"every": "90s"}
EARLIER: Body = {
    "template": {"image": "other:1", "serviceAccountName": "any", "annotations": {"any": "one"}},
    "drill": DRILL | {"kind": "Drain"},
}
MERGE = "application/merge-patch+json"
ACTS_SECONDS = 60.0
LABEL = {names.LABEL_SLOTS: "1000000"}
PAUSE = {"name": "c", "image": "pause"}
OURS: Body = {"template": {"metadata": {"labels": LABEL}, "spec": {"containers": [PAUSE]}}}


@pytest.fixture(scope="module")
def guarded(equipped: Cluster) -> Iterator[Cluster]:
    """The cluster with the chart's policies, and a benchmark and a schedule that were there before them."""
    earlier = studies.benchmark("earlier", suspend=True, **EARLIER)
    equipped.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([earlier, yearly("earlier", **EARLIER)]))
    helm, values = helm_programs.build()["helm4"], {"policies": {"allow": ALLOWED}}
    stdin = yaml.safe_dump_all(rendering.policies(helm, account=installation.ACCOUNT, **values))
    equipped.kubectl("apply", "-f", "-", stdin=stdin)
    acting = (
        ({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"generateName": "p-"}, **OURS}, TENANT),
        (config_map("other"), OPERATOR),
        (gang(serviceAccountName="other"), OPERATOR),
        (studies.benchmark(template={"image": "other"}), TENANT),
    )
    deadline = time.monotonic() + ACTS_SECONDS
    while not all(refusal(equipped, body, by=account, dry=body["kind"] != "PodTemplate") for body, account in acting):
        assert time.monotonic() < deadline, f"the policies do not act within {ACTS_SECONDS:g} s"
        time.sleep(0.1)
    yield equipped
    equipped.kubectl("delete", "-f", "-", stdin=stdin)
    equipped.kubectl("delete", f"podtemplates,{names.BENCHMARK_PLURAL},{names.SCHEDULE_PLURAL}", "--all")


def refusal(cluster: Cluster, body: Body, *, by: str, verb: str = "create", dry: bool = True) -> str:
    """What a policy says to whoever may do anything by RBAC; empty where the object is taken."""
    arguments = [verb, "-f", "-", "--as", by, "--as-group", "system:masters", *(["--dry-run=server"] if dry else [])]
    return said(cluster, *arguments, stdin=json.dumps(body))


def said(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    done = cluster.kubectl(*arguments, stdin=stdin, check=False)
    _, is_refused, words = done.stderr.partition("denied request: ")
    assert done.returncode == 0 or is_refused, done.stderr
    return words.strip()


def patched(cluster: Cluster, what: str, change: Body, *, by: str, namespace: str = "default") -> str:
    """What a policy says to a change of an object, such as cm/x; empty where it is taken."""
    patch = ("patch", what, "-n", namespace, "--type=merge", "-p", json.dumps(change))
    return said(cluster, *patch, "--dry-run=server", "--as", by, "--as-group", "system:masters")


def typed(kind: str, name: str, *, version: str = "v1", owner: Body | None = None, **rest: Any) -> Body:
    metadata = {"name": name, "namespace": "default", "ownerReferences": [owner] if owner else []}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def pod(**metadata: Any) -> Body:
    body = typed("Pod", "p", spec={"containers": [PAUSE]})
    return body | {"metadata": body["metadata"] | metadata}


def config_map(name: str, owner: Body | None = None) -> Body:
    return typed("ConfigMap", name, owner=owner)


def yearly(name: str, **spec: Any) -> Body:
    of_benchmark = {"schedule": "0 0 1 1 *", "benchmarkTemplate": {"spec": studies.benchmark(**spec)["spec"]}}
    return typed(names.SCHEDULE_KIND, name, version=names.API_VERSION, spec=of_benchmark)


def gang(of: Body | None = None, **changes: Any) -> Body:
    """The Job of an attempt, with other fields in its pods' spec, or in their container's."""
    spec = builders.spec(builders.block(workers=[2]))
    whose = {"name": kube.name_of(of), "uid": kube.uid_of(of)} if of else {}
    study, plan = builders.study(spec, **whose), builders.plan(spec)
    body = copy.deepcopy(manifests.job(study, plan, capacity.gang_of(plan, plan.trials[0], attempt=1)))
    container = changes.pop("container", {})
    body["spec"]["template"]["spec"] |= changes
    body["spec"]["template"]["spec"]["containers"][0] |= container
    return body


def test_the_api_server_finds_no_fault_in_any_expression(guarded: Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    deadline = time.monotonic() + ACTS_SECONDS

    def checked() -> list[Body]:
        found = [
            one["status"] for one in guarded.request("GET", path)["items"] if "gpubench" in one["metadata"]["name"]
        ]
        return found if all("typeChecking" in one for one in found) else []

    while not (found := checked()):
        assert time.monotonic() < deadline, f"not checked within {ACTS_SECONDS:g} s"
        time.sleep(0.1)
    assert [one["typeChecking"] for one in found] == [{}] * 5


# --- labels -----------------------------------------------------------------------------------------------------------


def of_template(kind: str, version: str, **spec: Any) -> Body:
    """An object that makes pods with our label."""
    template = {"metadata": {"labels": {"app": "x"} | LABEL}, "spec": {"containers": [PAUSE]}}
    return typed(kind, "x", version=version, spec={"template": template, **spec})


SELECTOR = {"selector": {"matchLabels": {"app": "x"}}}
#: But for labels and name what the policy on gangs takes: of two that refuse an object any may be heard.
PLAIN = {"automountServiceAccountToken": False, "securityContext": {"runAsNonRoot": True}}
NEVER = {
    "template": {"metadata": {"labels": LABEL}, "spec": {"containers": [PAUSE], "restartPolicy": "Never", **PLAIN}}
}


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (pod(labels=LABEL), ""),
        (typed("PodTemplate", "x", **OURS), "template."),
        (of_template("ReplicationController", "v1", selector={"app": "x"}, replicas=0), "spec.template."),
        (of_template("Deployment", "apps/v1", **SELECTOR, replicas=0), "spec.template."),
        (of_template("ReplicaSet", "apps/v1", **SELECTOR, replicas=0), "spec.template."),
        (of_template("StatefulSet", "apps/v1", **SELECTOR, replicas=0, serviceName="x"), "spec.template."),
        (of_template("DaemonSet", "apps/v1", **SELECTOR), "spec.template."),
        (typed("Job", "x", version="batch/v1", spec=NEVER | {"suspend": True}), "spec.template."),
        (
            typed("CronJob", "x", version="batch/v1", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": NEVER}}),
            "spec.jobTemplate.spec.template.",
        ),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_our_labels_on_pods_and_their_templates_are_refused_to_others(guarded: Cluster, body: Body, path: str) -> None:
    assert refusal(guarded, body, by=TENANT, dry=False) == (
        f"{path}metadata.labels gpubench.dev/slots=1000000 is for gpubench alone to set, on pods and their templates: "
        "remove it, or choose a key of your own"
    )
    assert refusal(guarded, body, by=TENANT) == "", "gpubench doctor tries gangs by dry run"
    without = json.loads(json.dumps(body).replace("gpubench.dev/", "example.com/"))
    assert refusal(guarded, without, by=TENANT, dry=False) == ""
    guarded.kubectl("delete", body["kind"].lower(), body["metadata"]["name"], "--force", "--grace-period=0")


def test_the_job_controller_writes_labels_of_pods_only_and_the_operator_of_jobs_only(guarded: Cluster) -> None:
    labelled, job = pod(labels=LABEL), typed("Job", "y", version="batch/v1", spec=NEVER | {"suspend": True})
    assert refusal(guarded, labelled, by=JOB_CONTROLLER, dry=False) == ""
    assert refusal(guarded, job, by=JOB_CONTROLLER, dry=False)
    deployment = of_template("Deployment", "apps/v1", **SELECTOR, replicas=0)
    assert refusal(guarded, deployment, by=OPERATOR, dry=False)

    def label(what: str) -> str:
        return said(guarded, "label", "pod", "p", what, "--overwrite", "--as", TENANT, "--as-group", "system:masters")

    assert label("gpubench.dev/slots=1").startswith("metadata.labels gpubench.dev/slots=1 is for gpubench alone to set")
    assert label("gpubench.dev/pool=a").startswith("metadata.labels gpubench.dev/pool=a is for gpubench alone to set")
    assert label("gpubench.dev/slots-") == (
        "metadata.labels gpubench.dev/slots=1000000 is for gpubench alone to remove, from pods and their templates: "
        "leave it as it is"
    )
    assert label("team=a") == ""
    guarded.kubectl("delete", "pod", "p", "--force", "--grace-period=0")


# --- what the operator has written ------------------------------------------------------------------------------------

RECORDS_ALONE = (
    "configmaps default/x: plans, ledgers, analyses and histories are for gpubench alone to write: leave it as it is, "
    "or leave out its labels gpubench.dev/benchmark-uid and gpubench.dev/schedule-uid"
)


@pytest.fixture
def editor(guarded: Cluster) -> Iterator[Cluster]:
    """The cluster where somebody has role edit in namespace default, and no more."""
    guarded.kubectl("create", "rolebinding", "edits", "--clusterrole=edit", f"--user={EDITOR}")
    yield guarded
    guarded.kubectl("delete", "rolebinding", "edits")


def told(cluster: Cluster, *arguments: str, stdin: str | None = None) -> str:
    return said(cluster, *arguments, "--as", EDITOR, stdin=stdin)


def merged(cluster: Cluster, what: str, change: Body) -> str:
    return told(cluster, "patch", what, "--type=merge", "-p", json.dumps(change))


@pytest.mark.parametrize("key", [names.LABEL_BENCHMARK_UID, names.LABEL_SCHEDULE_UID])
def test_a_record_is_the_operators_to_write_and_everybodys_to_delete(editor: Cluster, key: str) -> None:
    is_plan = key == names.LABEL_BENCHMARK_UID
    resource = kube.BENCHMARKS if is_plan else kube.SCHEDULES
    there = editor.request("GET", resource.path(namespace="default", name="earlier"))  # else it would be collected
    owner = {field: there[field] for field in ("apiVersion", "kind")} | {"name": "earlier", "uid": kube.uid_of(there)}
    name = "earlier-abcde-plan" if is_plan else "earlier-abcde-history-0"
    body = config_map(name, owner) | {"data": {"plan": "1"}}
    body["metadata"]["labels"] = {key: "1", names.LABEL_COMPONENT: "plan"}
    alone = RECORDS_ALONE.replace("/x:", f"/{name}:")
    assert told(editor, "create", "-f", "-", stdin=json.dumps(body)) == alone
    assert told(editor, "create", "--dry-run=server", "-f", "-", stdin=json.dumps(body)) == "", "gpubench doctor does"
    assert refusal(editor, body, by=OPERATOR, dry=False) == ""
    what, mine = f"cm/{name}", {"team": "a"}
    for change in (
        {"data": {"plan": "2"}},
        {"binaryData": {"more": "YQ=="}},
        {"immutable": True},
        {"metadata": {"labels": {key: None}}},
        {"metadata": {"labels": {key: "2"}}},
        {"metadata": {"labels": {names.LABEL_COMPONENT: "ledger"}}},
    ):
        assert merged(editor, what, change) == alone
    assert merged(editor, what, {"metadata": {"labels": mine, "annotations": mine}}) == ""
    for other in (OPERATOR, "an-administrator"):
        assert patched(editor, what, {"data": {"plan": "2"}}, by=other) == ""
    assert merged(editor, what, {"metadata": {"ownerReferences": None}}) == "", "as the garbage collector does"
    assert told(editor, "delete", what) == ""


def test_a_config_map_of_others_is_theirs_until_it_claims_to_be_a_record(editor: Cluster) -> None:
    body = config_map("x") | {"data": {"plan": "1"}}
    assert told(editor, "create", "-f", "-", stdin=json.dumps(body)) == ""
    assert merged(editor, "cm/x", {"data": {"plan": "2"}}) == ""
    assert merged(editor, "cm/x", {"metadata": {"labels": UID}}) == RECORDS_ALONE
    assert told(editor, "delete", "cm/x") == ""


# --- the operator's account -------------------------------------------------------------------------------------------

OWNER = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND, "name": "one", "uid": "1"}
OF_OTHERS = OWNER | {"apiVersion": "example.com/v1"}
STOLEN = "see whether somebody else has its token"
NO_NAME = f"metadata.ownerReferences: %s has not name and owner of what the operator writes: {STOLEN}"
JOB = "one-abcde-abcdefgh-1"
UID = {names.LABEL_BENCHMARK_UID: "1"}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (config_map("one-abcde-plan"), NO_NAME % "configmaps default/one-abcde-plan"),
        (config_map("two-abcde-plan", OWNER), NO_NAME % "configmaps default/two-abcde-plan"),
        (config_map("one-abcde-history-0", OWNER), NO_NAME % "configmaps default/one-abcde-history-0"),
        (config_map("one-abcde-ledger-x", OWNER), NO_NAME % "configmaps default/one-abcde-ledger-x"),
        (config_map("one-abcde-plan", OF_OTHERS), NO_NAME % "configmaps default/one-abcde-plan"),
        (typed("Secret", "one-abcde", owner=OWNER), NO_NAME % "secrets default/one-abcde"),
        (
            typed("Secret", "one-abcde-token", owner=OWNER, type="example.com/other"),
            f"type: the operator makes Secrets of type Opaque only: {STOLEN}",
        ),
        (
            typed("Service", "one-abcde", owner=OWNER, spec={"clusterIP": "None", "selector": {"app": "x"}}),
            f"spec.selector: the operator makes headless Services for pods of their owner only: {STOLEN}",
        ),
        (
            typed("Service", "one-abcde", owner=OWNER, spec={"selector": UID, "ports": [{"port": 1}]}),
            f"spec.selector: the operator makes headless Services for pods of their owner only: {STOLEN}",
        ),
        (
            typed("NetworkPolicy", "one-abcde", version="networking.k8s.io/v1", owner=OWNER, spec={"podSelector": {}}),
            f"spec.podSelector: the operator makes NetworkPolicies for pods of their owner only: {STOLEN}",
        ),
        (
            typed("Event", "e", involvedObject={"apiVersion": "v1", "kind": "Pod", "namespace": "default"}),
            f"involvedObject.apiVersion: the operator writes Events about objects of gpubench.dev only: {STOLEN}",
        ),
        (pod(), NO_NAME % "pods default/p"),
        (studies.benchmark("mine"), NO_NAME % "gpubenchmarks default/mine"),
        (typed("Job", JOB, version="batch/v1", spec=NEVER), NO_NAME % f"jobs default/{JOB}"),
    ],
    ids=lambda value: value["metadata"]["name"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_the_operator_does_not_write_is_refused_to_its_account_alone(
    guarded: Cluster, body: Body, says: str
) -> None:
    assert refusal(guarded, body, by=OPERATOR) == says
    assert refusal(guarded, body, by=TENANT) == ""


def test_the_operators_account_changes_deletes_and_evicts_nothing_of_others(guarded: Cluster) -> None:
    def deleted(*what: str, dry: str = "--dry-run=server") -> str:
        return said(guarded, "delete", *what, dry, "--as", OPERATOR, "--as-group", "system:masters")

    auth = patched(guarded, "cm/kube-root-ca.crt", {"data": {"x": "y"}}, by=OPERATOR, namespace="kube-system")
    assert auth == NO_NAME % "configmaps kube-system/kube-root-ca.crt"
    job = typed("Job", "theirs", version="batch/v1", spec=json.loads(json.dumps(NEVER).replace("gpubench.dev", "x")))
    job["spec"]["suspend"] = True
    guarded.kubectl("create", "-f", "-", stdin=json.dumps(job))
    assert patched(guarded, "job/theirs", {"spec": {"suspend": False}}, by=OPERATOR) == NO_NAME % "jobs default/theirs"
    assert deleted("job", "theirs") == NO_NAME % "jobs default/theirs"
    guarded.kubectl("delete", "job", "theirs")
    assert deleted(names.BENCHMARK_PLURAL, "earlier") == NO_NAME % "gpubenchmarks default/earlier"
    guarded.request(
        "PATCH",
        kube.BENCHMARKS.path(namespace="default", name="earlier"),
        {"spec": {"ttlSecondsAfterFinished": 1}},
        content_type=MERGE,
    )
    assert deleted(names.BENCHMARK_PLURAL, "earlier") == "", "its author let the operator delete it"

    guarded.kubectl("create", "-f", "-", stdin=json.dumps(pod()))
    eviction = typed("Eviction", "p", version="policy/v1")
    path = "/api/v1/namespaces/default/pods/p/eviction"
    raw = ("create", "--raw", f"{path}?dryRun=All", "-f", "-", "--as", OPERATOR, "--as-group", "system:masters")
    evicted = said(guarded, *raw, stdin=json.dumps(eviction))
    assert evicted == f"metadata.name: default/p is no pod of a gang, and the operator evicts no other: {STOLEN}"
    guarded.kubectl("delete", "pod", "p", "--force", "--grace-period=0")

    says = f"metadata: the operator cordons nodes and changes nothing else of them: {STOLEN}"
    cordon: Body = {"spec": {"unschedulable": True}, "metadata": {"annotations": {names.ANNOTATION_CORDONED: "x"}}}
    assert patched(guarded, "node/pretend-0", cordon, by=OPERATOR) == ""
    for change in (
        {"metadata": {"labels": {"pool": "other"}}},
        {"metadata": {"annotations": {"other": "x"}}},
        {"metadata": {"finalizers": ["example.com/keep"]}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}]}},
        {"spec": {"taints": [{"key": "x", "effect": "NoExecute"}]}},
    ):
        assert patched(guarded, "node/pretend-0", change, by=OPERATOR) == says


def test_a_job_of_a_gang_is_ended_by_the_operator_also_where_others_took_its_owner(guarded: Cluster) -> None:
    job = gang(guarded.request("GET", kube.BENCHMARKS.path(namespace="default", name="earlier")))
    job["spec"]["suspend"] = True
    name = f"job/{kube.name_of(job)}"
    assert refusal(guarded, job, by=OPERATOR, dry=False) == ""
    guarded.kubectl("patch", name, "--type=merge", "-p", '{"metadata": {"labels": null, "ownerReferences": null}}')
    assert patched(guarded, name, {"spec": {"ttlSecondsAfterFinished": 60}}, by=OPERATOR) == ""
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"pool": "other"}}}}}
    says = f"spec.template: the operator changes no pod template: {STOLEN}"
    assert patched(guarded, name, moved, by=OPERATOR) == says
    assert patched(guarded, name, moved, by=TENANT) == "", "a Job that is suspended may be moved, as a queue does"
    assert said(guarded, "delete", name, "--as", OPERATOR, "--as-group", "system:masters") == ""


# --- its Jobs ---------------------------------------------------------------------------------------------------------

VOLUMES = "spec.template.spec.volumes"
SECURITY = (
    "spec.template.spec.securityContext: pods of benchmarks are neither root nor privileged, "
    "nor in a namespace of the node: let whatever changes that in Jobs leave it"
)
SECRETS = (
    "spec.template.spec.containers: pods of benchmarks read no Secret but their own token: "
    "let whatever adds one to the variables of Jobs leave it out"
)
OTHER_KIND = (
    "is neither emptyDir, configMap, persistentVolumeClaim nor hostPath: let whatever adds it to Jobs leave it out, "
    "or add it to pods"
)
NO_FOLDER = (
    "is no folder that this cluster allows for benchmarks: use a claim, or have it added to policies.allow.hostPaths "
    "of the chart"
)
AUTOMOUNT = (
    "spec.template.spec.automountServiceAccountToken: pods of benchmarks have no token of their "
    "ServiceAccount: leave it false"
)
NO_ACCOUNT = (
    "is no ServiceAccount that this cluster allows for benchmarks: leave it out, or have it added to "
    "policies.allow.serviceAccounts of the chart"
)


def host(path: str) -> list[Body]:
    return [{"name": "v", "hostPath": {"path": path}}]


def env(secret: str) -> Body:
    return {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}]}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, ""),
        ({"serviceAccountName": "reads-data"}, ""),
        ({"serviceAccountName": "any"}, f"spec.template.spec.serviceAccountName default/any {NO_ACCOUNT}"),
        (
            {"automountServiceAccountToken": True},
            AUTOMOUNT,
        ),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, f"{VOLUMES} v {OTHER_KIND}"),
        ({"volumes": [{"name": "v", "projected": {"sources": []}}]}, f"{VOLUMES} v {OTHER_KIND}"),
        ({"volumes": host("/srv/data")}, ""),
        ({"volumes": host("/data")}, ""),
        ({"volumes": host("/database")}, f"{VOLUMES} hostPath /database {NO_FOLDER}"),
        ({"hostNetwork": True}, SECURITY),
        ({"securityContext": {}}, SECURITY),
        ({"securityContext": {"runAsNonRoot": True, "runAsUser": 0}}, SECURITY),
        ({"container": {"securityContext": {"runAsNonRoot": False}}}, SECURITY),
        ({"container": {"securityContext": {"privileged": True}}}, SECURITY),
        ({"container": {"securityContext": {"runAsUser": 0}}}, SECURITY),
        ({"container": {"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}}, SECURITY),
        ({"container": {"securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}}}, ""),
        ({"container": env("other")}, SECRETS),
        ({"container": env("other-abcde-token")}, SECRETS),
        ({"container": {"envFrom": [{"secretRef": {"name": "other"}}]}}, SECRETS),
        ({"initContainers": [PAUSE | env("other")]}, SECRETS),
    ],
    ids=repr,
)  # fmt: skip
def test_a_job_of_the_operators_is_no_more_than_the_pods_of_a_benchmark(
    guarded: Cluster, changes: Body, says: str
) -> None:
    body = gang(**changes)
    body["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = []
    assert refusal(guarded, body, by=OPERATOR) == says


# --- authors ----------------------------------------------------------------------------------------------------------

NO_IMAGE = (
    "spec.template.image gpubench-jobs:one-more is no image that this cluster allows for benchmarks: "
    "leave it out, or have it added to policies.allow.images of the chart"
)
NO_ANNOTATION = (
    "spec.template.annotations vault.hashicorp.com/x is no annotation that this cluster allows for benchmarks: "
    "leave it out, or have it added to policies.allow.annotations of the chart"
)
NO_DRAIN = (
    "spec.drill.kind Drain: benchmarks of namespace default may not drain nodes: write Evict, or have the "
    "namespace added to policies.allow.drains of the chart"
)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"template": {"image": "registry.example.com/a:1"}}, ""),
        ({"template": {"image": "gpubench-jobs:one"}}, ""),
        (
            {"template": {"image": "gpubench-jobs:one-more"}},
            NO_IMAGE,
        ),
        ({"template": {"serviceAccountName": "default"}}, ""),
        ({"template": {"serviceAccountName": "reads-data"}}, ""),
        ({"template": {"serviceAccountName": "one"}}, ""),
        ({"template": {"serviceAccountName": "two"}}, f"spec.template.serviceAccountName default/two {NO_ACCOUNT}"),
        ({"template": {"volumes": [host("/srv/a")[0] | {"mountPath": "/a"}]}}, ""),
        (
            {"template": {"volumes": [host("/etc")[0] | {"mountPath": "/a"}]}},
            f"spec.template.volumes hostPath /etc {NO_FOLDER}",
        ),
        ({"template": {"annotations": {"networking.gke.io/interfaces": "[]"}}}, ""),
        (
            {"template": {"annotations": {"networking.gke.io/interfaces": "[]", "vault.hashicorp.com/x": "y"}}},
            NO_ANNOTATION,
        ),
        ({"drill": DRILL}, ""),
        (
            {"drill": DRILL | {"kind": "Drain"}},
            NO_DRAIN,
        ),
    ],
    ids=str,
)  # fmt: skip
def test_authors_may_ask_for_what_the_administrator_allows(guarded: Cluster, spec: Body, says: str) -> None:
    assert refusal(guarded, studies.benchmark(**spec), by=TENANT) == says
    assert refusal(guarded, yearly("s", **spec), by=TENANT) == says.replace("spec.", "spec.benchmarkTemplate.spec.", 1)


def test_drills_are_for_the_namespaces_that_may(guarded: Cluster) -> None:
    assert refusal(guarded, studies.benchmark(namespace="kube-public", drill=DRILL), by=TENANT) == (
        "spec.drill: benchmarks of namespace kube-public may not be interrupted on purpose: leave it out, or have the "
        "namespace added to policies.allow.drills of the chart"
    )


def test_pools_name_accounts_and_folders_that_are_allowed_and_images_of_their_own(guarded: Cluster) -> None:
    def said_of(**template: Any) -> str:
        return refusal(guarded, studies.pool(template=template), by=TENANT, verb="apply")

    assert said_of(image="any", annotations={"any": "one"}) == ""
    assert said_of(serviceAccountName="one") == ""
    assert said_of(volumes=[host("/data")[0] | {"mountPath": "/a"}]) == ""
    folder = said_of(volumes=[host("/etc")[0] | {"mountPath": "/a"}])
    assert folder == f"spec.template.volumes hostPath /etc {NO_FOLDER}"


def test_what_was_there_before_a_rule_goes_on(guarded: Cluster) -> None:
    for change in ({"spec": {"suspend": True, "limits": {"parallelTrials": 2}}}, {"metadata": {"labels": {"a": "b"}}}):
        assert patched(guarded, f"{names.BENCHMARK_PLURAL}/earlier", change, by=TENANT) == ""
    drill = {"spec": {"drill": {"times": 5}}}
    assert patched(guarded, f"{names.BENCHMARK_PLURAL}/earlier", drill, by=TENANT) == ""

    def changed(**template: Any) -> str:
        change = {"spec": {"benchmarkTemplate": {"spec": {"template": template}}}}
        return patched(guarded, f"{names.SCHEDULE_PLURAL}/earlier", change, by=TENANT)

    assert changed(env=[{"name": "A", "value": "b"}]) == ""
    for field in ({"image": "other:2"}, {"serviceAccountName": "another"}, {"annotations": {"another": "one"}}):
        assert "allows for benchmarks" in changed(**field)


# --- the operator's own work ------------------------------------------------------------------------------------------


def test_a_benchmark_runs_with_drains_and_is_deleted(place: Place, guarded: Cluster) -> None:
    """Its name is as long as may be: the Job controller cuts it in those of the pods."""
    name = "quick" + "k" * (names.BENCHMARK_NAME_MAX - len("quick"))
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [2], "batchPerWorker": [64]}]
    drill = {"every": "10s", "times": 1, "kind": "Drain", "cordonFor": "5s"}
    place.apply(studies.benchmark(name, repeats=1, sweep=sweep, drill=drill))
    place.wait(lambda: place.said("Drilled", of=name), what="a drill")
    place.end_study(name)
    assert place.holds(name, "Succeeded")
    assert {"NodeCordoned", "Drilled"} <= set(place.events(name))
    place.patch_spec(name, ttlSecondsAfterFinished=0)
    path = kube.BENCHMARKS.path(namespace=place.namespace)
    place.wait(lambda: not guarded.request("GET", path)["items"], what="the benchmark deleted")
    refused = [
        (event["verb"], event["requestURI"], event["responseStatus"].get("message"))
        for event in guarded.audit_events()
        if event["user"]["username"] == OPERATOR
        and place.namespace in event["requestURI"]
        and (event.get("responseStatus") or {}).get("code") in (403, 422)
    ]
    assert refused == []


def test_runs_and_history_of_a_schedule_pass(guarded: Cluster) -> None:
    spec = {"schedule": "0 0 1 1 *", "benchmarkTemplate": {"spec": studies.benchmark()["spec"]}}
    body = typed(names.SCHEDULE_KIND, "nightly", version=names.API_VERSION, spec=spec)
    body["metadata"]["uid"] = "3f1c2d3e-0000-4000-8000-000000000000"
    run = schedule.benchmark(body, 1_800_000_000)
    assert refusal(guarded, run, by=OPERATOR) == ""
    history = config_map(
        names.history_name("nightly", body["metadata"]["uid"], shard=12), run["metadata"]["ownerReferences"][0]
    )
    assert refusal(guarded, history, by=OPERATOR) == ""
