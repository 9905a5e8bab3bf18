# SPDX-License-Identifier: Apache-2.0
"""What others do to a gang's pods, on a real kubelet: sidecars, init containers, memory and processors taken away.

Six benchmarks run at the same time, each in a namespace of its own with a policy of its own. Verdict and bill are
compared with what a watch of the pods has seen, as administrator. What may not happen here: a wait for time.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

import e2e_checks
import gang_books
import policies
import stored_analysis
from e2e_checks import CheckError, Installation
from e2e_machine import CGROUPS
from gpubench import names
from gpubench.scheduler import ledger
from gpubench_cluster import kube

OWN_CONTAINER = e2e_checks.REPOSITORY / "jobs" / "examples" / "own-container.yaml"
PROXY, INIT = "istio-proxy", "vault-agent-init"
IMAGE = f"{names.JOBS_IMAGE}:dev"
SLOT = {"cpu": "200m", "memory": "256Mi"}
LARGE_SLOT = {"cpu": "700m", "memory": "1Gi"}  # for TensorFlow
HALF = {"cpu": "100m", "memory": "256Mi"}
BESIDE_SECONDS = 300.0  # measured: 60 s on two cores
FREE_SECONDS = 60  # after the work's end
#: It takes two seconds to end, which only a bill to the pod's end has.
RUNS_ON = "trap 'sleep 2; exit 0' TERM; sleep infinity & wait"
FAILS = "echo no secret for this role > /dev/termination-log; exit 3"
#: The example's own program, which names the processors of its cgroup as its environment.
WITH_ITS_PROCESSORS = """
import platform, runpy
from pathlib import Path
group = Path("/sys/fs/cgroup")
files = [group / "cpu.max"]
if not files[0].exists():
    files = [group / f"cpu/cpu.cfs_{name}_us" for name in ("quota", "period")]
quota, period = " ".join(file.read_text() for file in files).split()
platform.python_version = lambda: f"with {int(quota) / int(period):g} CPU"
runpy.run_path("/own/train.py", run_name="__main__")
"""
#: More than the slot has, written so that the kernel has to give it.
TOO_LARGE = "block = b'x' * (8 << 30)\n"


def others_in_its_pods(place: Installation) -> str:
    lives = gang_books.Lives.watched(place.cluster)
    with contextlib.ExitStack() as changes, contextlib.closing(lives):
        for case in CASES:
            _begin(place, case, changes)
        said = [f"{case.name}: {_end(place, case, lives)}" for case in CASES]
    return "\n            ".join(("what others did to a gang's pods (no GPUs here: a slot is its requests):", *said))


def _begin(place: Installation, case: Case, changes: contextlib.ExitStack) -> None:
    """A program that comes last lets no pod begin before the policy acts."""
    path = f"/api/v1/namespaces/{case.name}"
    place.cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": case.name}})
    e2e_checks.until(
        functools.partial(e2e_checks.has_account, place, case.name), what=f"an account of {case.name}", seconds=30
    )
    program, *rest = case.objects()
    if case.spares_first:
        place.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(rest))
        e2e_checks.until(lambda: place.pods(case.name, _GANG), what=f"a pod of {case.name}", seconds=60)
    changes.enter_context(policies.changed(place.cluster, case.name, **case.change))
    # Restricted as the others, but not before: the policy has been tried with a pod that asks for nothing.
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    merge = "application/merge-patch+json"
    place.cluster.request("PATCH", path, {"metadata": {"labels": labels}}, content_type=merge)
    place.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([program, *rest]))


def _end(place: Installation, case: Case, lives: gang_books.Lives) -> str:
    """Once the benchmark is over, with all that is written of it: its condition comes last."""

    def is_over() -> bool:
        found = place.get(kube.BENCHMARKS.path(namespace=case.name, name=case.name))
        return e2e_checks.condition(found, "Finished") == "True"

    e2e_checks.until(is_over, what=f"the condition Finished of {case.name}", seconds=BESIDE_SECONDS)
    found = Found.of(place, case)
    if held := [pod["metadata"]["name"] for pod in place.pods(case.name, _GANG) if not _is_over(pod)]:
        raise CheckError(f"{case.name} is Finished, and pods of it hold their node: {held}")
    return "; ".join((case.verdict(found), *(_bill(entry, lives) for entry in found.entries)))


# --- the cases -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Found:
    """What gpubench says of a benchmark that is over."""

    entries: tuple[ledger.AttemptRecord, ...]  # oldest first
    status: Mapping[str, Any]
    events: str

    @classmethod
    def of(cls, place: Installation, case: Case) -> Found:
        selector = f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_LEDGER}".replace("/", "%2F")
        shards = place.get(f"{kube.CONFIG_MAPS.path(namespace=case.name)}?labelSelector={selector}")["items"]
        records = ledger.from_entries(shard["data"] for shard in shards).records
        events = place.get(kube.EVENTS.path(namespace=case.name))["items"]
        return cls(
            entries=tuple(sorted(records, key=lambda record: record.created_at)),
            status=stored_analysis.of_cluster(place.get, namespace=case.name, name=case.name),
            events="\n".join(f"{event['reason']}: {event['message']}" for event in events),
        )

    def only(self, *, outcome: ledger.Outcome, reason: ledger.Reason, says: str) -> ledger.AttemptRecord:
        """The only attempt, which ended like this."""
        if [(one.outcome, one.reason) for one in self.entries] != [(outcome, reason)]:
            raise CheckError(f"one attempt with {outcome}, {reason} was wanted: {self.entries}")
        (entry,) = self.entries
        if says not in str(entry.sentence):
            raise CheckError(f"{says!r} was wanted in: {entry.sentence}")
        return entry


@dataclass(frozen=True, kw_only=True)
class Case:
    """A benchmark, its namespace and the policy there."""

    name: str
    change: Mapping[str, Any]
    verdict: Callable[[Found], str]
    repeats: int = 1
    failed: int = 0  # attempts that may be tried again
    custom: Mapping[str, Any] = field(default_factory=dict)
    slot: Mapping[str, str] = field(default_factory=lambda: SLOT)
    seconds: int = 1  # that it measures
    spares_first: bool = False  # the first repeat is created before the policy

    def objects(self) -> list[dict[str, Any]]:
        """The example of a program of one's own: ConfigMap, pool, benchmark."""
        program, pool, benchmark = yaml.safe_load_all(OWN_CONTAINER.read_text(encoding="utf-8"))
        program["metadata"]["namespace"] = self.name
        program["data"]["model.py"] = TOO_LARGE
        pool["metadata"]["name"] = self.name
        pool["spec"] |= {"exclusiveNodes": False, "slot": dict(self.slot), "template": {"image": IMAGE}}
        benchmark["metadata"] |= {"name": self.name, "namespace": self.name}
        (block,) = benchmark["spec"]["sweep"]
        block |= {"pools": [self.name], "batchPerWorker": [32]}
        block["custom"] |= self.custom
        block["custom"] = {key: value for key, value in block["custom"].items() if value}
        benchmark["spec"]["measure"] |= {"repeats": {"min": self.repeats}, "duration": f"{self.seconds}s"}
        benchmark["spec"]["limits"]["attempts"]["failed"] = self.failed
        return [program, pool, benchmark]


def _never_ends(found: Found) -> str:
    found.only(outcome=ledger.Outcome.SUCCEEDED, reason=ledger.Reason.COMPLETED, says="measured")
    if f"container {PROXY} keeps pod " not in found.events:
        raise CheckError(f"the container that kept the pod was wanted in an Event: {found.events}")
    return f"Succeeded, and {PROXY} is named as what kept its pod"


def _native(found: Found) -> str:
    found.only(outcome=ledger.Outcome.SUCCEEDED, reason=ledger.Reason.COMPLETED, says="measured")
    if "keeps pod" in found.events:
        raise CheckError(f"a native sidecar ends with the work, and was named: {found.events}")
    return "Succeeded, and nothing is said of it"


def _init_fails(found: Found) -> str:
    says = f"its init container {INIT} failed (Error, exit code 3: no secret for this role"
    found.only(outcome=ledger.Outcome.FAILED, reason=ledger.Reason.INIT_FAILED, says=says)
    return f"InitFailed, {says})"


def _out_of_memory(found: Found) -> str:
    """Of version 2 the kernel may kill the whole container, of version 1 only the rank: then its launcher says so."""
    says = " was killed " if (CGROUPS / "cgroup.controllers").exists() else "rank 0, building its model, was killed "
    entry = found.only(outcome=ledger.Outcome.FAILED, reason=ledger.Reason.OUT_OF_MEMORY, says=says)
    return f"OutOfMemory beside a sidecar that runs on, not tried again: {entry.sentence}"


def _halved(found: Found) -> str:
    entry = found.only(outcome=ledger.Outcome.SUCCEEDED, reason=ledger.Reason.COMPLETED, says="measured")
    given = None if entry.result is None else entry.result.environment
    if given != "python with 0.1 CPU":
        raise CheckError(f"a cgroup with 0.1 CPU was wanted, its program had: {given}")
    (point,) = found.status["results"]
    said = [one["message"] for one in point["warnings"] if one["reason"] == "PodChanged"]
    if not any("resources.limits.cpu 100m (planned 200m)" in one for one in said):
        raise CheckError(f"a warning that 100m were given in place of 200m was wanted: {point}")
    return f"Succeeded with 0.1 CPU in its cgroup, and a warning: {said[0]}"


def _halved_later(found: Found) -> str:
    ends = [(one.outcome, one.reason) for one in found.entries]
    wanted = [
        (ledger.Outcome.SUCCEEDED, ledger.Reason.COMPLETED),
        (ledger.Outcome.STOPPED, ledger.Reason.OTHER_MACHINES),
    ]
    said = str(found.entries[-1].sentence)
    if ends != wanted or "it got resources.limits.cpu 100m, and an earlier repeat resources as planned" not in said:
        raise CheckError(f"the second repeat was to end for its processors: {found.entries}")
    (point,) = found.status["results"]
    if len(point["values"]) != 1:
        raise CheckError(f"the first repeat alone was wanted: {point}")
    return f"the first repeat counts, the second is OtherMachines: {said}"


def _container(name: str, command: str, **more: Any) -> dict[str, Any]:
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {"name": name, "image": IMAGE, "command": ["sh", "-c", command], "securityContext": security, **more}


def _added(container: Mapping[str, Any], *, first: bool = False) -> dict[str, Any]:
    """By path: lists as a container's command cannot be applied, and a list of objects ends a request of Kubernetes."""
    into = "/spec/initContainers" if first else "/spec/containers"
    return {"patch": ({into: []} if first else {}) | {f"{into}/-": container}}


_GANG = f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}".replace("/", "%2F")
HALVED = {"containers": [{"name": names.CONTAINER, "resources": {"limits": HALF, "requests": HALF}}]}
CASES = (
    Case(name="never-ending-sidecar", change=_added(_container(PROXY, RUNS_ON)), verdict=_never_ends),
    Case(
        name="native-sidecar",
        change=_added(_container(PROXY, RUNS_ON, restartPolicy="Always"), first=True),
        verdict=_native,
    ),
    Case(name="failing-init", change=_added(_container(INIT, FAILS), first=True), verdict=_init_fails),
    Case(
        name="out-of-memory",
        change=_added(_container(PROXY, RUNS_ON)),
        custom={"command": None, "file": "/own/model.py"},
        slot=LARGE_SLOT,
        failed=2,
        verdict=_out_of_memory,
    ),
    Case(
        name="halved-cpu",
        change=HALVED,
        custom={"command": ["python", "-c", WITH_ITS_PROCESSORS]},
        verdict=_halved,
    ),
    Case(
        name="halved-later",
        change=HALVED,
        repeats=2,
        spares_first=True,
        seconds=20,
        verdict=_halved_later,
    ),
)


# --- what the pods' own statuses say ---------------------------------------------------------------------------------


def _bill(entry: ledger.AttemptRecord, lives: gang_books.Lives) -> str:
    """That the entry has the times of the pods, to the second, and that they were over soon after the work."""

    def seen() -> list[gang_books.Life]:
        found = lives.of_job(entry.job_uid)
        return [] if any(life.ended is None for life in found) else found

    pods = e2e_checks.until(seen, what=f"the ends of all pods of {entry.job} in a watch", seconds=30)
    if wrong := list(gang_books.wrong([entry.to_wire()], lives)):
        raise CheckError(f"the bill of {entry.job} is not that of its pods: {wrong}")
    freed = max(life.ended or 0.0 for life in pods) - (entry.ended_at or 0.0)
    if freed > FREE_SECONDS:
        raise CheckError(f"pods of {entry.job} held their node for {freed:.0f} s after the work: {pods}")
    return f"billed for the pod's own {entry.node_seconds:.0f} s, its slot was free {freed:.0f} s after the work"


def _is_over(pod: Mapping[str, Any]) -> bool:
    return pod["status"].get("phase") in ("Succeeded", "Failed")
