# SPDX-License-Identifier: Apache-2.0
"""What keeps others away from a gang, and a gang from all else: on a real API server, with its own admission."""

import json
from typing import Any

import installation
import studies
from cluster import ApiError
from gpubench import names, permissions
from gpubench_cluster import kube

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any

ONE = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1], "batchPerWorker": [64]}]
ONE_POINT = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}]
TWO = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [2], "batchPerWorker": [64]}]


def test_the_pods_of_a_study_meet_by_a_token_of_theirs_which_goes_with_the_study(place: Place) -> None:
    """The stand-in's pods meet at the real barrier, which believes nobody without the token."""
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(studies.benchmark(repeats=1, sweep=TWO))
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished")
    assert place.status("quick")["phase"] == "Succeeded"
    (study,) = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace))["items"]
    (secret,), (policy,) = place.all(kube.SECRETS), place.all(kube.NETWORK_POLICIES)
    for body in (secret, policy):
        (owner,) = body["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (kube.uid_of(study), True)
    assert secret["immutable"] is True
    (pod, *_) = place.all(kube.PODS)
    variables = {entry["name"]: entry for entry in pod["spec"]["containers"][0]["env"]}
    reference = variables[names.ENV_GANG_TOKEN]["valueFrom"]["secretKeyRef"]
    assert (reference["name"], reference["key"]) == (kube.name_of(secret), *secret["data"])
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert selected.items() <= pod["metadata"]["labels"].items()
    place.cluster.kubectl("delete", names.BENCHMARK_PLURAL, "quick", "-n", place.namespace)
    for resource in (kube.SECRETS, kube.NETWORK_POLICIES):
        place.wait(lambda resource=resource: not place.all(resource), what=f"no {resource.plural}")


def test_the_operator_can_create_secrets_and_read_none(place: Place) -> None:
    granted = [verb for rule in permissions.RULES if "secrets" in rule.resources for verb in rule.verbs]
    assert granted == ["create"]
    user = f"system:serviceaccount:{installation.NAMESPACE}:{installation.ACCOUNT}"

    def may(verb: str, resource: str) -> bool:
        asked = ("auth", "can-i", verb, resource, "--as", user, "-n", place.namespace)
        answer: str = place.cluster.kubectl(*asked, check=False).stdout.strip()
        return answer == "yes"

    assert may("create", "secrets")
    assert [verb for verb in ("get", "list", "watch", "update", "patch", "delete") if may(verb, "secrets")] == []
    assert not may("list", "*.*")


def test_gang_pods_pass_the_restricted_level_and_have_no_credentials(place: Place) -> None:
    label = "pod-security.kubernetes.io/enforce"
    place.cluster.kubectl("label", "namespace", place.namespace, f"{label}=restricted")
    ordinary = {
        "metadata": {"name": "ordinary"},
        "spec": {"nodeSelector": {"pool": "none"}, "containers": [{"name": "c", "image": "none"}]},
    }
    pods = kube.PODS.path(namespace=place.namespace)

    def refusal() -> str:
        """Nothing while the level that was set last is not known to admission yet."""
        try:
            place.cluster.request("POST", f"{pods}?dryRun=All", ordinary)
        except ApiError as refused:
            return refused.message
        return ""

    assert "violates PodSecurity" in place.wait(refusal, what="a level that is enforced")
    place.apply(studies.benchmark(repeats=1))
    (pod, *_) = place.wait(lambda: place.all(kube.PODS), what="a pod")
    assert not tokens_in(pod)
    place.end_study("quick")
    # The same cluster gives a token to a pod that does not refuse it: what is asserted above is the study's doing.
    place.cluster.kubectl("label", "namespace", place.namespace, f"{label}-")
    place.wait(lambda: not refusal(), what="no level")
    assert tokens_in(place.cluster.request("POST", pods, ordinary))


def tokens_in(pod: kube.Object) -> list[str]:
    """Volumes with a token of the pod's ServiceAccount."""
    return [
        volume["name"]
        for volume in pod["spec"].get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
        if "serviceAccountToken" in source
    ]


def test_annotations_that_kopf_would_read_as_its_own_keep_nobody_from_a_study(place: Place) -> None:
    study = studies.benchmark(repeats=1)
    theirs = ("last-handled-configuration", "event_of_benchmark", "touch-dummy")
    study["metadata"]["annotations"] = {f"kopf.zalando.org/{name}": "\\" for name in theirs}
    place.apply(study)
    place.wait(lambda: place.all(kube.PODS), what="a pod")
    place.end_study("quick")


HOSTILE = "$(touch owned) `touch owned` '; touch owned; #\" \\ $$ $(HOME) ${HOME} |& \n*"


def test_what_a_user_writes_arrives_as_it_is_and_no_shell_reads_it(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    custom = {"name": "mine", "command": ["tell", HOSTILE, "--", "$(MINE)"]}
    sweep = [{"workloads": ["Custom"], "custom": custom, "pools": ["process"], "workers": [1], "batchPerWorker": [8]}]
    template = {"image": studies.TELLING_IMAGE, "env": [{"name": "MINE", "value": HOSTILE}]}
    place.apply(studies.benchmark(repeats=1, sweep=sweep, template=template))
    place.wait(lambda: place.holds("quick", "Finished"), what="the study finished")
    assert place.status("quick")["phase"] == "Succeeded"
    (pod,) = place.all(kube.PODS)
    told = json.loads(place.cluster.kubectl("logs", kube.name_of(pod), "-n", place.namespace).stdout.splitlines()[0])
    assert told["arguments"] == [HOSTILE, "--", "$(MINE)"]
    assert told["variables"]["MINE"] == HOSTILE
    assert not any("SERVICE_HOST" in name for name in told["variables"]), "nor is it told where the API is"


def test_a_ledger_entry_that_somebody_edited_is_named_and_what_runs_is_judged(place: Place) -> None:
    place.apply(studies.benchmark(repeats=2, sweep=ONE_POINT))
    place.wait(place.running, what="the gang runs")
    (body,) = (
        one
        for one in place.all(kube.CONFIG_MAPS)
        if one["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER
    )
    key, text = next((key, text) for key, text in body["data"].items() if '"attempt":1' in text)
    path = kube.CONFIG_MAPS.path(namespace=place.namespace, name=kube.name_of(body))
    damaged = {"data": {key: text.replace('"attempt":1', '"attempt":2')}}
    place.cluster.request("PATCH", path, damaged, content_type="application/merge-patch+json")
    where = f"ConfigMap {place.namespace}/{kube.name_of(body)}, key {key} cannot be read"
    place.wait(lambda: where in place.condition("Progressing")[1], what="what is damaged is said")
    assert place.condition("Progressing")[0] == "Stuck"
    assert any(where in message for message in place.said("Stuck"))
    place.end_study("quick")
    assert place.status("quick")["attempts"]["failed"] == 0
    assert place.holds("quick", "Succeeded")


def test_a_foreign_config_map_of_a_ledgers_name_is_named_and_no_job_starts_without_a_record(place: Place) -> None:
    place.apply(studies.benchmark(repeats=1, sweep=ONE_POINT, suspend=True))
    uid = kube.uid_of(place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace, name="quick")))
    name = names.ledger_name("quick", uid, shard=0)
    foreign = {"metadata": {"name": name}, "data": {}}
    place.cluster.request("POST", kube.CONFIG_MAPS.path(namespace=place.namespace), foreign)
    place.patch_spec("quick", suspend=False)
    said = f"ConfigMap {place.namespace}/{name} belongs to somebody else"
    place.wait(lambda: said in place.condition("Progressing")[1], what="whose it is, is said")
    assert place.all(kube.JOBS) == []
    place.cluster.request("DELETE", kube.CONFIG_MAPS.path(namespace=place.namespace, name=name))
    place.end_study("quick")
    assert place.holds("quick", "Succeeded")


def test_the_largest_benchmark_is_run_and_the_operator_keeps_its_lease_meanwhile(place: Place) -> None:
    """256 points of ten repeats each: 2,560 trials, of which some are run."""
    blocks = [{**ONE_POINT[0], "batchPerWorker": [*range(first, first + 16)]} for first in range(1, 257, 16)]
    pid = place.operator.pid
    place.apply(studies.benchmark(repeats=10, sweep=blocks, limits={"parallelTrials": 4}))
    place.wait(lambda: len(place.running()) == 4, what="four gangs run")
    for _ in range(3):
        before = len(place.entries())
        place.end_pods()
        place.wait(lambda before=before: len(place.entries()) > before, what="more gangs run")
    place.wait(lambda: place.status("quick")["trials"]["finished"], what="a trial that has ended, in the status")
    trials = place.status("quick")["trials"]
    place.cluster.request("DELETE", kube.BENCHMARKS.path(namespace=place.namespace, name="quick"))
    place.wait(lambda: not place.all(kube.CONFIG_MAPS), what="it is gone")
    assert trials["total"] == 2560
    assert place.operator.pid == pid
    assert not place.operator.has_ended()
