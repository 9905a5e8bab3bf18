# SPDX-License-Identifier: Apache-2.0
"""What must hold of gpubench on a real node, from `helm install` to `helm uninstall`.

Each check is a function that returns the sentence to print, or raises `CheckError` with the one that says what is
wrong. What may not happen here: a figure that is judged by its size. How fast this machine is proves nothing.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

import stored_analysis
from cluster import ApiError, Cluster
from gpubench import names

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "gpubench"
QUICKSTART = REPOSITORY / "jobs" / "examples" / "quickstart.yaml"
RELEASE = "gpubench"
SYSTEM = "gpubench-system"
STUDIES = "studies"
STUDY = "quickstart"
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500
HELM_SECONDS = 240
STUDY_SECONDS = 900.0
GANG_SECONDS = 600.0
#: Of two cores, twice; the rest is for the operator, which asks for 50m, and a new one beside it in an upgrade.
SLOT_CPU = "800m"


Found = TypeVar("Found")


class CheckError(AssertionError):
    """Something does not hold; the text says what."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A cluster with a real node, and the programs to work on it with."""

    cluster: Cluster
    helm: Path
    work: Path

    def run_helm(self, *arguments: str) -> str:
        folders = {f"HELM_{name}_HOME": str(self.work / "helm") for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [self.helm, *arguments],
            env={**os.environ, **folders, "KUBECONFIG": str(self.cluster.kubeconfig)},
            capture_output=True,
            text=True,
            check=False,
            timeout=HELM_SECONDS + 60,
        )
        if done.returncode != 0:
            pods = self.cluster.kubectl("describe", "pods", "--namespace", SYSTEM, check=False).stdout
            raise CheckError(f"helm {' '.join(arguments)}: {done.stderr.strip()}\n{pods[-3000:]}")
        return done.stdout

    def run_gpubench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(Path(sys.executable).parent / "gpubench"), *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.cluster.kubeconfig), "COLUMNS": "160"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    def get(self, path: str) -> Any:
        return self.cluster.request("GET", path)

    def study(self) -> dict[str, Any]:
        found: dict[str, Any] = self.get(
            f"/apis/{names.API_VERSION}/namespaces/{STUDIES}/{names.BENCHMARK_PLURAL}/{STUDY}"
        )
        return found

    def pods(self, namespace: str, selector: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")["items"]
        return found

    def operator_pods(self) -> list[dict[str, Any]]:
        pods = self.pods(SYSTEM, "app.kubernetes.io%2Fcomponent%3Doperator")
        return [pod for pod in pods if pod["metadata"].get("deletionTimestamp") is None]


# --- before the installation ---------------------------------------------------------------------------


def make_namespaces(place: Installation) -> str:
    """Both at the strictest level, as somebody who takes Pod Security seriously has them."""
    for name in (SYSTEM, STUDIES):
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        place.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    refused = []
    for name in (SYSTEM, STUDIES):
        until(functools.partial(has_account, place, name), what=f"the service account of {name}", seconds=30)
        try:
            place.cluster.request("POST", f"/api/v1/namespaces/{name}/pods?dryRun=All", _pod_of_a_root_user())
        except ApiError as error:
            if error.status != 403 or "PodSecurity" not in error.message:
                raise CheckError(f"a pod of root in {name} was refused for another reason: {error}") from error
            refused.append(name)
    if refused != [SYSTEM, STUDIES]:
        raise CheckError(f"a pod of root was refused in {refused or 'none'} of the namespaces only")
    return f"{SYSTEM} and {STUDIES} enforce the level restricted: a pod of root is refused in both"


def has_account(place: Installation, namespace: str) -> bool:
    with contextlib.suppress(ApiError):
        return bool(place.get(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"))
    return False


def _pod_of_a_root_user() -> dict[str, Any]:
    container = {"name": "root", "image": "gpubench-operator", "securityContext": {"privileged": True}}
    return {"metadata": {"name": "root"}, "spec": {"containers": [container]}}


# --- installation --------------------------------------------------------------------------------------


def install(place: Installation) -> str:
    place.run_helm("install", RELEASE, str(CHART), f"--namespace={SYSTEM}", "--wait", f"--timeout={HELM_SECONDS}s")
    (pod,) = place.operator_pods()
    return f"helm install: {pod['metadata']['name']} is ready on {pod['spec']['nodeName']}"


def test_release(place: Installation) -> str:
    place.run_helm("test", RELEASE, f"--namespace={SYSTEM}", f"--timeout={HELM_SECONDS}s")
    return "helm test: a pod reaches the operator by the name of its Service"


def operator_policy(place: Installation) -> str:
    policies = place.get(f"/apis/networking.k8s.io/v1/namespaces/{SYSTEM}/networkpolicies")["items"]
    (pod,) = place.operator_pods()
    labels = pod["metadata"]["labels"].items()
    chosen = [each for each in policies if each["spec"]["podSelector"]["matchLabels"].items() <= labels]
    if not chosen:
        raise CheckError(f"no NetworkPolicy of {SYSTEM} selects the operator's pod, whose labels are {dict(labels)}")
    ports = [port["port"] for rule in chosen[0]["spec"]["ingress"] for port in rule.get("ports", [])]
    if ports != ["metrics"]:
        raise CheckError(f"the operator's NetworkPolicy lets in {ports}, and only metrics was wanted")
    return f"NetworkPolicy {chosen[0]['metadata']['name']} lets in the operator's port metrics (this CNI enforces none)"


# --- the study -----------------------------------------------------------------------------------------


def quickstart() -> str:
    """The quick start, with what differs where there is one node of two cores, which is the operator's, too."""
    documents = list(yaml.safe_load_all(QUICKSTART.read_text(encoding="utf-8")))
    for document in documents:
        if document["kind"] == names.POOL_KIND:
            document["spec"] |= {"exclusiveNodes": False, "slotsPerNode": 2, "maxNodes": 1}
            document["spec"]["slot"]["cpu"] = SLOT_CPU
        else:
            document["metadata"]["namespace"] = STUDIES
            for block in document["spec"]["sweep"]:
                block["workersPerNode"] = 1
    return yaml.safe_dump_all(documents)


def apply(place: Installation) -> str:
    place.cluster.kubectl("apply", "-f", "-", stdin=quickstart())
    return (
        f"kubectl apply: {QUICKSTART.relative_to(REPOSITORY)}, two slots of {SLOT_CPU} on a node that is not exclusive"
    )


def gang_of_two(place: Installation) -> str:
    """While two pods of a gang run: where they are, and what is true of them only then."""
    pods = until(lambda: _running_pair(place), what="a gang of two running pods", seconds=GANG_SECONDS)
    (node,) = {pod["spec"]["nodeName"] for pod in pods}
    addresses = sorted(pod["status"]["podIP"] for pod in pods)
    namespaces = {pod["metadata"]["name"]: _network_namespaces(pod["metadata"]["name"]) for pod in pods}
    found = [next(iter(each)) for each in namespaces.values() if len(each) == 1]
    own = str(Path("/proc/self/ns/net").readlink())
    if len(found) != 2 or len({*found, own}) != 3:
        raise CheckError(f"two pods must have a network namespace each: {namespaces}, this machine's is {own}")
    for pod in pods:
        security = pod["spec"]["containers"][0]["securityContext"]
        if security.get("readOnlyRootFilesystem") is not True:
            raise CheckError(f"{pod['metadata']['name']} may write into its image")
    return f"two ranks in two pods on {node}: {addresses[0]} in {found[0]}, {addresses[1]} in {found[1]}"


def _running_pair(place: Installation) -> list[dict[str, Any]] | None:
    _no_failure(place)
    selector = f"{names.LABEL_NODES}%3D2,{names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}".replace("/", "%2F")
    pods = place.pods(STUDIES, selector)
    running = [pod for pod in pods if pod["status"].get("phase") == "Running" and pod["status"].get("podIP")]
    by_job: dict[str, list[dict[str, Any]]] = {}
    for pod in running:
        if _network_namespaces(pod["metadata"]["name"]):
            by_job.setdefault(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], []).append(pod)
    return next((pair for pair in by_job.values() if len(pair) == 2), None)


def _network_namespaces(pod: str) -> set[str]:
    """Of all processes of a pod: they know its name by their environment."""
    wanted, found = f"{names.ENV_POD_NAME}={pod}".encode(), set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if wanted in (process / "environ").read_bytes().split(b"\0"):
                found.add(str((process / "ns" / "net").readlink()))
    return found


def study_policy(place: Installation) -> str:
    study = place.study()
    name = names.study_name(STUDY, study["metadata"]["uid"])
    policy = place.get(f"/apis/networking.k8s.io/v1/namespaces/{STUDIES}/networkpolicies/{name}")
    wanted = policy["spec"]["podSelector"]["matchLabels"][names.LABEL_BENCHMARK_UID]
    if wanted != study["metadata"]["uid"]:
        raise CheckError(f"the NetworkPolicy {name} is for the pods of {wanted}, not of {study['metadata']['uid']}")
    if policy["metadata"]["ownerReferences"][0]["uid"] != wanted:
        raise CheckError(f"the NetworkPolicy {name} does not go with its study")
    return f"NetworkPolicy {name} selects the study's pods and goes with it (this CNI enforces none)"


def live_metrics(place: Installation) -> str:
    """Of a rank that trains; a short gang may end meanwhile, so the next one is asked."""

    def scrape() -> str | None:
        _no_failure(place)
        selector = f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}".replace("/", "%2F")
        for pod in place.pods(STUDIES, selector):
            address = pod["status"].get("podIP")
            if address and pod["status"].get("phase") == "Running":
                with contextlib.suppress(OSError):
                    if "gpubench_" in (page := _page(f"http://{address}:{names.PORT_METRICS}/metrics")):
                        return page
        return None

    page = until(scrape, what="live metrics of a running rank", seconds=GANG_SECONDS)
    series = sum(not line.startswith("#") for line in page.splitlines())
    return f"/metrics of a running rank: {series} series"


def finished(place: Installation) -> str:
    def is_finished() -> bool:
        return condition(place.study(), "Finished") == "True"

    until(is_finished, what=f"the condition Finished of {STUDY}", seconds=STUDY_SECONDS)
    study = place.study()
    if condition(study, "Succeeded") != "True":
        raise CheckError(f"{STUDY} is finished and has not succeeded: {json.dumps(study['status']['conditions'])}")
    return f"{STUDY} is Finished and Succeeded: {study['status']['attempts']}"


def figures(place: Installation) -> str:
    """Every point has what it must have; none is judged by its size."""
    status = stored_analysis.of_cluster(place.get, namespace=STUDIES, name=STUDY)
    workers = sorted(result["workers"] for result in status["results"])
    if workers != [1, 2]:
        raise CheckError(f"points with 1 and with 2 workers were wanted, there are {workers}")
    for result in status["results"]:
        said = json.dumps(result)[:1500]
        if result["state"] not in {"Measured", "Unstable"}:
            raise CheckError(f"a point is {result['state']}: {said}")
        if len(result["values"]) != 3 or not all(float(value) > 0 for value in result["values"]):
            raise CheckError(f"three throughputs above 0 were wanted: {said}")
        shared = any(warning["reason"] == "NodeShared" for warning in result.get("warnings", []))
        if result["nodes"] != 1 or shared != (result["workers"] == 2):
            raise CheckError(f"one node was wanted, and that two pods on it are spoken of: {said}")
    if status["attempts"].get("failed") or status["attempts"].get("preempted"):
        raise CheckError(f"six attempts were enough, these were made: {status['attempts']}")
    states = ", ".join(f"{result['workers']} worker(s): {result['state']}" for result in status["results"])
    return f"figures of three repeats each ({states}), none failed"


def operator_metrics(place: Installation) -> str:
    (pod,) = place.operator_pods()
    page = _page(f"http://{pod['status']['podIP']}:8080/metrics")
    lines = [line for line in page.splitlines() if f'benchmark="{STUDY}"' in line and f'namespace="{STUDIES}"' in line]
    throughput = [line for line in lines if "throughput_samples_per_second{" in line]
    if len(throughput) != 2:
        raise CheckError(f"/metrics of the operator has {len(throughput)} throughputs of {STUDY}, 2 were wanted")
    return f"/metrics of the operator: {len(lines)} series of the study"


def table(place: Installation) -> str:
    done = place.run_gpubench("show", STUDY, "--namespace", STUDIES)
    if done.returncode != 0:
        raise CheckError(f"gpubench show: {done.stderr}")
    return done.stdout


# --- upgrade and end -----------------------------------------------------------------------------------


def upgrade(place: Installation) -> str:
    (before,) = place.operator_pods()
    results = place.study()["status"]["results"]
    place.run_helm(
        *("upgrade", RELEASE, str(CHART), f"--namespace={SYSTEM}", "--reuse-values", "--set=log.level=debug"),
        *("--wait", f"--timeout={HELM_SECONDS}s"),
    )

    def one_new() -> bool:
        pods = place.operator_pods()
        return len(pods) == 1 and pods[0]["metadata"]["uid"] != before["metadata"]["uid"]

    until(one_new, what="the new operator alone", seconds=90)
    (after,) = place.operator_pods()

    def leads() -> bool:
        lease = place.get(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases")["items"]
        return any(after["metadata"]["name"] in str(each["spec"].get("holderIdentity")) for each in lease)

    until(leads, what="the Lease of the new operator", seconds=90)
    if place.study()["status"]["results"] != results:
        raise CheckError("the results of the study are other ones after the upgrade")
    return f"helm upgrade: {after['metadata']['name']} leads, the results are what they were"


def uninstall(place: Installation) -> str:
    results = place.study()["status"]["results"]
    place.run_helm("uninstall", RELEASE, f"--namespace={SYSTEM}", "--wait", f"--timeout={HELM_SECONDS}s")
    until(lambda: not place.operator_pods(), what="the end of the operator's pod", seconds=60)
    left = [
        role["metadata"]["name"]
        for kind in ("clusterroles", "clusterrolebindings")
        for role in place.get(f"/apis/rbac.authorization.k8s.io/v1/{kind}")["items"]
        if role["metadata"].get("labels", {}).get("app.kubernetes.io/instance") == RELEASE
    ]
    if left:
        raise CheckError(f"helm uninstall left permissions behind: {left}")
    if place.study()["status"]["results"] != results:
        raise CheckError("the results of the study did not survive helm uninstall with crds.keep")
    return "helm uninstall: operator and permissions are gone; CRDs, study and results are there (crds.keep)"


# --- waiting and reading -------------------------------------------------------------------------------


def condition(study: Mapping[str, Any], kind: str) -> str | None:
    found: Iterator[str] = (
        each["status"] for each in study.get("status", {}).get("conditions", []) if each["type"] == kind
    )
    return next(found, None)


def _no_failure(place: Installation) -> None:
    """A gang that fails will not be seen running, however long one waits for it."""
    study = place.study()
    attempts = study.get("status", {}).get("attempts", {})
    if attempts.get("failed") or condition(study, "Finished") == "True":
        events = place.cluster.kubectl("get", "events", "--namespace", STUDIES, check=False).stdout
        conditions = study.get("status", {}).get("conditions")
        raise CheckError(f"an attempt failed, or the study ended early: {attempts} {conditions}\n{events[-3000:]}")


def _page(address: str) -> str:
    with urllib.request.urlopen(address, timeout=10) as response:  # noqa: S310  # a pod of ours
        text: str = response.read().decode()
        return text


def until(look: Callable[[], Found | None], *, what: str, seconds: float) -> Found:
    """What the look has found, once it is something; an API server that is busy is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        reason = "not seen"
        try:
            if found := look():
                return found
        except (ApiError, OSError) as error:
            if isinstance(error, ApiError) and error.status != TOO_MANY_REQUESTS and error.status < SERVER_ERROR:
                raise
            reason = str(error)
        if time.monotonic() > deadline:
            raise CheckError(f"{what}: {reason} within {seconds:.0f} s")
        time.sleep(0.5)
