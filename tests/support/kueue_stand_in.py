# SPDX-License-Identifier: Apache-2.0
"""A stand-in for Kueue: it does to Jobs what Kueue's integration of batch/v1 Jobs does, in the same steps.

Kueue's controllers cannot be built here, so these steps were read from kubernetes-sigs/kueue at commit ff69552e79:
`pkg/controller/jobs/job/job_controller.go` (Stop, RunWithPodSetsInfo), `pkg/controller/jobframework/reconciler.go`
(ReconcileGenericJob) and `pkg/podset/podset.go` (Merge, RestorePodSpec). What is real here is all else: API server, Job
controller, scheduler. It decides nothing: a test says which Job is admitted and which one evicted. Its Workloads have
a schema that takes everything, and nobody admits them.
"""

import copy
import hashlib
import time
from dataclasses import dataclass, field
from typing import Any

import installation
from cluster import ApiError, Cluster
from gpubench import names
from gpubench_cluster import kube

VERSION = "v1beta2"
RESTORED_SECONDS = 60.0  # pods have a grace period
STOPPING = "kueue.x-k8s.io/stopping"
WORKLOADS = kube.Resource(f"{names.KUEUE_GROUP}/{VERSION}", "workloads")
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

    node_labels: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()


class Conflict(Exception):
    """A Job and the flavor want different values of one label of nodes: Kueue gives such a Workload up for good."""


class KueueStandIn:
    """What Kueue does to the Jobs of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._templates: dict[str, Any] = {}  # as the Jobs had them before they were admitted, by UID

    def install(self) -> None:
        """From now on the cluster has Kueue's API group."""
        self._cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _CRD)
        installation.wait_until_served(self._cluster, WORKLOADS.path())

    def queue(self, job: kube.Object, *, says: str) -> None:
        """The Workload of a new Job, which finds no room in its queue."""
        name = _workload_name(job)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": kube.name_of(job), "uid": kube.uid_of(job)}
        body = {
            "apiVersion": WORKLOADS.version,
            "kind": names.KUEUE_WORKLOAD,
            "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"queueName": job["metadata"]["labels"][names.LABEL_QUEUE], "active": True},
        }
        self._cluster.request("POST", WORKLOADS.path(namespace=kube.namespace_of(job)), body)
        self._set(job, QuotaReserved="False")
        self._tell(job, "Pending", says)

    def admit(self, job: kube.Object, flavor: Flavor) -> None:
        """The quota is there: the flavor's labels and tolerations come into the Job, which is set going."""
        self._set(job, QuotaReserved="True", Admitted="True", Evicted="False")
        template = self._templates.setdefault(kube.uid_of(job), copy.deepcopy(job["spec"]["template"]))
        spec = template["spec"]
        selector, tolerations = spec.get("nodeSelector") or {}, list(spec.get("tolerations") or ())
        for key, value in flavor.node_labels.items():
            if selector.get(key, value) != value:
                raise Conflict(f"nodeSelector {key}: {selector[key]} and {value}")
        tolerations += [one for one in flavor.tolerations if one not in tolerations]
        changed = {"nodeSelector": {**selector, **flavor.node_labels}, "tolerations": tolerations}
        self._patch(job, {"spec": {"suspend": False, "template": {"spec": changed}}})

    def evict(self, job: kube.Object, *, says: str) -> None:
        """Somebody of a higher priority needs the quota: the Job is suspended, and comes back into the queue."""
        self._set(job, Evicted="True")
        self._tell(job, "EvictedDueToPreempted", says)
        self._patch(job, {"spec": {"suspend": True}, "metadata": {"annotations": {STOPPING: "true"}}})
        self._patch(job, {"status": {"startTime": None}}, subresource="status")
        self._restore(job)
        self._set(job, QuotaReserved="False", Admitted="False", Requeued="True")

    def _restore(self, job: kube.Object) -> None:
        """The template as it was before; refused while pods are active, and tried again, as Kueue does."""
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job))
        deadline = time.monotonic() + RESTORED_SECONDS
        while True:
            body = self._cluster.request("GET", path)
            spec = self._templates[kube.uid_of(job)]["spec"]
            for name in ("nodeSelector", "tolerations"):
                body["spec"]["template"]["spec"][name] = spec.get(name)
            body["metadata"]["annotations"].pop(STOPPING)
            try:
                self._cluster.request("PUT", path, body)
            except ApiError as error:
                if error.status not in (409, 422) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                return

    def _patch(self, job: kube.Object, body: kube.Object, *, subresource: str | None = None) -> None:
        path = kube.JOBS.path(namespace=kube.namespace_of(job), name=kube.name_of(job), subresource=subresource)
        self._cluster.request("PATCH", path, body, content_type=_MERGE)

    def _set(self, job: kube.Object, **conditions: str) -> None:
        path = WORKLOADS.path(namespace=kube.namespace_of(job), name=_workload_name(job))
        before = (self._cluster.request("GET", path).get("status") or {}).get("conditions") or ()
        kept = [one for one in before if one["type"] not in conditions]
        news = [{"type": type_, "status": status, "reason": "StandIn"} for type_, status in conditions.items()]
        body = {"status": {"conditions": [*kept, *news]}}
        self._cluster.request("PATCH", f"{path}/status", body, content_type=_MERGE)

    def _tell(self, job: kube.Object, reason: str, message: str) -> None:
        """An Event as Kueue writes it: in the newer API, about the Workload."""
        namespace = kube.namespace_of(job)
        about = {"apiVersion": WORKLOADS.version, "kind": names.KUEUE_WORKLOAD, "namespace": namespace}
        event = {
            "metadata": {"generateName": "kueue-", "namespace": namespace},
            "regarding": {**about, "name": _workload_name(job)},
            "eventTime": job["metadata"]["creationTimestamp"].replace("Z", ".000000Z"),
            "type": "Warning",
            "reason": reason,
            "action": reason,
            "note": message,
            "reportingController": "kueue-stand-in",
            "reportingInstance": "kueue-stand-in",
        }
        self._cluster.request("POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", event)


def _workload_name(job: kube.Object) -> str:
    """The Job's name between its kind and a hash (jobframework/workload_names.go)."""
    hashed = hashlib.sha1("\n".join(("Job", "batch", kube.name_of(job), kube.uid_of(job))).encode())  # noqa: S324
    return f"job-{kube.name_of(job)}-{hashed.hexdigest()[:5]}"
