# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Kueue: it does to Jobs what Kueue's integration of batch/v1 Jobs does, in the same steps.

The real one is used by `make e2e-kueue`; its steps, reasons and messages are those of v0.19.2:
`pkg/controller/jobs/job/job_controller.go` (Stop, RunWithPodSetsInfo), `pkg/controller/jobframework/reconciler.go`
(ReconcileGenericJob), `pkg/podset/podset.go` (Merge, RestorePodSpec), `pkg/controller/core/workload_controller.go`
(Reconcile) and `pkg/scheduler/scheduler.go` (requeueAndUpdate). What is real here is all else: API server, Job
controller, scheduler. It decides nothing: a test says which Job is admitted and which one evicted. Its Workloads have
a schema that takes everything and no finalizer, its queues have no objects, and a test that calls nothing has a Job
without a Workload.
"""

import contextlib
import copy
import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import installation
from cluster import ApiError, Cluster
from gpubench import names
from gpubench_cluster import kube

VERSION = "v1beta2"
RESTORED_SECONDS = 60.0  # pods have a grace period
PENDING, INADMISSIBLE = "Pending", "Inadmissible"  # no quota, and no queue that admits; with an Event, and without
DEACTIVATED = "The workload is deactivated"
STOPPING = "kueue.x-k8s.io/stopping"
WORKLOADS = kube.Resource(f"{names.KUEUE_GROUP}/{VERSION}", "workloads")
_EVENTS_BY_SCHEDULER = (PENDING, "NoMatchingFlavor", "WaitingForQuota", "ExceedsMaxQuota")  # the others have none
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_MERGE = "application/merge-patch+json"
_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"workloads.{names.KUEUE_GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved"}},
    "spec": {
        "group": names.KUEUE_GROUP,
        "scope": "Namespaced",
        "names": {"plural": "workloads", "singular": "workload", "kind": names.KUEUE_WORKLOAD},
        "versions": [
            {
                "name": VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                },
            }
        ],
    },
}


@dataclass(frozen=True)
class Flavor:
    """A ResourceFlavor: what its nodes are known by, and what their taints ask for."""

    name: str = "default-flavor"
    node_labels: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()


class KueueStandIn:
    """What Kueue does to the Jobs of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._templates: dict[str, Any] = {}  # as the Jobs had them before they were admitted, by UID

    def install(self) -> None:
        """From now on the cluster has Kueue's API group."""
        try:
            self._cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _CRD)
        except ApiError as error:
            if error.status != 409:
                raise
        installation.wait_until_served(self._cluster, WORKLOADS.path())

    def queue(self, job: kube.Object, *, says: str, reason: str = PENDING) -> None:
        """The Workload of a new Job, which finds no room in its queue."""
        name = _workload_name(job)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": kube.name_of(job), "uid": kube.uid_of(job)}
        queue = job["metadata"]["labels"].get(names.LABEL_QUEUE)
        body = {
            "apiVersion": WORKLOADS.version,
            "kind": names.KUEUE_WORKLOAD,
            "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"active": True, **({"queueName": queue} if queue else {})},
        }
        self._cluster.request("POST", WORKLOADS.path(namespace=kube.namespace_of(job)), body)
        self.refuse(job, says=says, reason=reason)

    def refuse(self, job: kube.Object, *, says: str, reason: str = PENDING) -> None:
        """Why it still waits. Only Kueue's scheduler writes an Event: where it is asked no more, none comes."""
        self._set(job, {"QuotaReserved": ("False", reason, says)})
        if reason in _EVENTS_BY_SCHEDULER:
            self._tell(job, reason, says)

    def reserve(self, job: kube.Object, *, check: str, says: str = "", state: str = "Pending") -> None:
        """There is quota, but an AdmissionCheck is not ready: the Job goes on waiting."""
        message = "Quota reserved in ClusterQueue stand-in"
        self._set(job, {"QuotaReserved": ("True", "QuotaReserved", message)})
        checked = {"name": check, "state": state, "message": says, "lastTransitionTime": _now()}
        self._patch_workload(job, {"status": {"admissionChecks": [checked]}}, subresource="status")
        self._tell(job, "QuotaReserved", f"{message}, wait time since queued was 0s", type_="Normal")

    def admit(self, job: kube.Object, flavor: Flavor, *, pods: int | None = None) -> None:
        """The quota is there, be it for fewer pods: the flavor's labels and tolerations come into the Job, which runs.

        A Job and a flavor that want different values of a label of nodes cannot be: Kueue gives such a Workload up.
        """
        admitted = {"QuotaReserved": "QuotaReserved", "Admitted": "Admitted"}
        self._set(job, {type_: ("True", reason, "by the stand-in") for type_, reason in admitted.items()})
        self._set(job, {"Evicted": ("False", "QuotaReserved", "Previously: evicted")})
        count = job["spec"]["parallelism"] if pods is None else pods
        podset = {"name": "main", "flavors": {"cpu": flavor.name}, "count": count}
        admission = {"clusterQueue": "stand-in", "podSetAssignments": [podset]}
        self._patch_workload(job, {"status": {"admission": admission}}, subresource="status")
        self._tell(job, "Admitted", "Admitted by ClusterQueue stand-in", type_="Normal")
        template = self._templates.setdefault(kube.uid_of(job), copy.deepcopy(job["spec"]["template"]))
        spec = template["spec"]
        selector, tolerations = spec.get("nodeSelector") or {}, list(spec.get("tolerations") or ())
        for key, value in flavor.node_labels.items():
            if selector.get(key, value) != value:
                conflict = f"conflict for key={key}, value1={selector[key]}, value2={value}"
                says = f"invalid admission check PodSetUpdate: conflict for nodeSelector: {conflict}"
                return self.give_up(job, says=says)
        tolerations += [one for one in flavor.tolerations if one not in tolerations]
        changed = {"nodeSelector": {**selector, **flavor.node_labels}, "tolerations": tolerations}
        return self._patch(job, {"spec": {"parallelism": count, "suspend": False, "template": {"spec": changed}}})

    def evict(self, job: kube.Object, *, says: str, reason: str = "Preempted") -> None:
        """By default for somebody of a higher priority: the Job is suspended, and comes back into the queue."""
        self._set(job, {"Evicted": ("True", reason, says)})
        self._tell(job, f"EvictedDueTo{reason}", says, type_="Normal")
        self._patch(job, {"spec": {"suspend": True}, "metadata": {"annotations": {STOPPING: "true"}}})
        self._patch(job, {"status": {"startTime": None}}, subresource="status")
        self._restore(job)
        again = "True" if reason == "Preempted" else "False"
        waits, back = ("False", PENDING, says), ("False", "NoReservation", "The workload has no reservation")
        self._set(job, {"QuotaReserved": waits, "Admitted": back, "Requeued": (again, reason, says)})
        self._patch_workload(job, {"status": {"admission": None}}, subresource="status")

    def deactivate(self, job: kube.Object, *, cause: str = "", says: str = "") -> None:
        """By a user, or by Kueue itself for a cause (RequeuingLimitExceeded): it waits until somebody activates it.

        Nobody is told of a Workload that was not admitted.
        """
        self._patch_workload(job, {"spec": {"active": False}})
        message, reason = (
            DEACTIVATED + (f" due to {says}" if says else ""),
            f"Deactivated{'DueTo' * bool(cause)}{cause}",
        )
        if self._runs(job):
            self.evict(job, says=message, reason=reason)
        else:
            self._set(job, {"Evicted": ("True", reason, message), "Requeued": ("False", reason, message)})

    def activate(self, job: kube.Object) -> None:
        """By a user: it is in the queue again."""
        self._patch_workload(job, {"spec": {"active": True}})
        self._set(job, {"Requeued": ("True", "Reactivated", "The workload was reactivated")})

    def give_up(self, job: kube.Object, *, says: str) -> None:
        """Its Workload is finished, the Job is not: it stays suspended, and Kueue never looks at it again."""
        self._set(job, {"Finished": ("True", "FailedToStart", says)})
        workload = f"{kube.namespace_of(job)}/{_workload_name(job)}"
        self._tell(job, "FinishedWorkload", f"Workload '{workload}' is declared finished", type_="Normal", about=job)

    def delete(self, job: kube.Object) -> None:
        """As `objectRetentionPolicies` has it: a deactivated Job is deleted after a while."""
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job))
        self._cluster.request("DELETE", path, {"propagationPolicy": "Background"})
        message = "Deleted job: deactivation retention period expired"
        self._tell(job, "Deleted", message, type_="Normal", about=job)

    @contextlib.contextmanager
    def webhooks_away(self) -> Iterator[None]:
        """Kueue is down and its webhooks are registered, as Kueue installs them: no Job is created or changed."""
        url = f"https://127.0.0.1:{installation.free_port()}"
        rule = {
            "apiGroups": ["batch"],
            "apiVersions": ["v1"],
            "resources": ["jobs"],
            "operations": ["CREATE", "UPDATE"],
        }
        made = []
        # The validating one first: a dry run that is refused by the other one says nothing about it.
        for kind, name, verb in (("Validating", "vjob", "validate"), ("Mutating", "mjob", "mutate")):
            hook = {
                "name": f"{name}.kb.io",
                "clientConfig": {"url": f"{url}/{verb}-batch-v1-job"},
                "rules": [rule if kind == "Validating" else {**rule, "operations": ["CREATE"]}],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
            path = f"{_ADMISSION}/{kind.lower()}webhookconfigurations"
            self._cluster.request("POST", path, {"metadata": {"name": f"kueue-{kind.lower()}"}, "webhooks": [hook]})
            made.append(f"{path}/kueue-{kind.lower()}")
            _wait(partial(self._is_refused, by=f"{name}.kb.io"), what=f"{name}.kb.io is asked")
        try:
            yield
        finally:
            for path in made:
                self._cluster.request("DELETE", path)
            _wait(lambda: not self._is_refused(by=""), what="no webhook is asked")

    def _is_refused(self, *, by: str) -> bool:
        """Whether a Job that is not really created is, in words that name this webhook."""
        container = {"name": "c", "image": "none"}
        spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
        body = {"metadata": {"name": "dry-run"}, "spec": spec}
        try:
            self._cluster.request("POST", f"{kube.JOBS.path(namespace='default')}?dryRun=All", body)
        except ApiError as error:
            return by in str(error)
        return False

    def _runs(self, job: kube.Object) -> bool:
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job))
        return not self._cluster.request("GET", path)["spec"].get("suspend")

    def _restore(self, job: kube.Object) -> None:
        """The template as it was before; refused while pods are active, and tried again, as Kueue does."""
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job))

        def restored() -> bool:
            body = self._cluster.request("GET", path)
            spec = self._templates[kube.uid_of(job)]["spec"]
            for name in ("nodeSelector", "tolerations"):
                body["spec"]["template"]["spec"][name] = spec.get(name)
            body["spec"]["parallelism"] = job["spec"]["parallelism"]
            body["metadata"]["annotations"].pop(STOPPING)
            try:
                self._cluster.request("PUT", path, body)
            except ApiError as error:
                if error.status not in (409, 422):
                    raise
                return False
            return True

        _wait(restored, what="the Job's template as it was")

    def _patch(self, job: kube.Object, body: kube.Object, *, subresource: str | None = None) -> None:
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job), subresource=subresource)
        self._cluster.request("PATCH", path, body, content_type=_MERGE)

    def _patch_workload(self, job: kube.Object, body: kube.Object, *, subresource: str | None = None) -> None:
        path = WORKLOADS.path(namespace=kube.namespace_of(job), name=_workload_name(job), subresource=subresource)
        self._cluster.request("PATCH", path, body, content_type=_MERGE)

    def _set(self, job: kube.Object, conditions: dict[str, tuple[str, str, str]]) -> None:
        """Conditions by type: status, reason and message."""
        path = WORKLOADS.path(namespace=kube.namespace_of(job), name=_workload_name(job))
        before = (self._cluster.request("GET", path).get("status") or {}).get("conditions") or ()
        kept = [one for one in before if one["type"] not in conditions]
        news = [
            {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": _now()}
            for type_, (status, reason, message) in conditions.items()
        ]
        self._patch_workload(job, {"status": {"conditions": [*kept, *news]}}, subresource="status")

    def _tell(
        self, job: kube.Object, reason: str, message: str, *, type_: str = "Warning", about: kube.Object | None = None
    ) -> None:
        """An Event as Kueue writes it: in the newer API, about the Workload, if not about the Job."""
        namespace = kube.namespace_of(job)
        regarding = {"apiVersion": WORKLOADS.version, "kind": names.KUEUE_WORKLOAD, "name": _workload_name(job)}
        if about is not None:
            regarding = {"apiVersion": "batch/v1", "kind": "Job", "name": kube.name_of(job), "uid": kube.uid_of(job)}
        event = {
            "metadata": {"generateName": "kueue-", "namespace": namespace},
            "regarding": {**regarding, "namespace": namespace},
            "eventTime": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}",
            "type": type_,
            "reason": reason,
            "action": reason,
            "note": message,
            "reportingController": "kueue-stand-in",
            "reportingInstance": "kueue-stand-in",
        }
        self._cluster.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _wait(until: Callable[[], bool], *, what: str) -> None:
    deadline = time.monotonic() + RESTORED_SECONDS
    while not until():
        assert time.monotonic() < deadline, f"{what}: not within {RESTORED_SECONDS:g} s"
        time.sleep(0.1)


def _workload_name(job: kube.Object) -> str:
    """The Job's name between its kind and a hash (jobframework/workload_names.go)."""
    hashed = hashlib.sha1("\n".join(("Job", "batch", kube.name_of(job), kube.uid_of(job))).encode())  # noqa: S324
    return f"job-{kube.name_of(job)}-{hashed.hexdigest()[:5]}"
