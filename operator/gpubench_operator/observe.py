# SPDX-License-Identifier: Apache-2.0
"""Objects of the API reduced to the values that decisions are made from; and what else is asked for them.

Any field may be missing: objects are written by other versions, and a pod that the kubelet has not seen yet has hardly
a status. A missing field becomes None, never a guess. No answer about nodes, Events or logs holds a benchmark up.
"""

import asyncio
import contextlib
import itertools
import logging
import math
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any

from pydantic import ValidationError

from gpubench import names, units
from gpubench.analysis import node_facts
from gpubench.api import benchmark_status, pool_health
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool, GpuPoolSpec, Slot
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import actions, capacity, environments, manifests, observed, outcome
from gpubench.scheduler.ledger import AttemptRecord, Ledger, NewNodes
from gpubench_cluster import kube
from gpubench_operator import queue

_WAITS_NO_MORE = ("QuotaReserved", "Admitted")  # reasons of Kueue's Events: what it said before is old
_SCHEDULER, _OF_SCHEDULERS = "default-scheduler", re.compile(r"\d+/\d+ nodes are available")  # of others, their words

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"  # a label by the Job controller, with its Job's UID

#: The code that the kubelet itself reports for a container whose end it has not seen.
_END_UNKNOWN = 137

_ASKED_AGAIN = 10.0  # seconds; a node that is not listed may be gone for good
_SEEN_JUST_NOW = 2.0  # seconds; several reconciles may follow upon one event
_OF_NODES = "default"  # the namespace of Events about what is in none
_WORKLOADS_UNREAD = "workloads not read"
_USERS_AGAIN = 300.0  # seconds; who is on a node for less may be missed
_NOBODY: tuple[float, frozenset[str]] = (0.0, frozenset())
_Namespaces = Iterable[str | None]
_ONE_BY_ONE_MAX = 8  # nodes that are asked for by their names; of more, all are listed
REMEMBERED_MAX = 20_000
_MOUNTED_AFTER = 15.0  # seconds that a kubelet may take to mount volumes and pull the image before it is asked why
_MOUNT_FAILURE_REPEATS = 300.0  # a kubelet reports a volume that it cannot mount every two minutes or more often
_FEWER_PODS_AFTER = 3.0  # seconds that the Job controller may take to create pods before it is asked why
#: An autoscaler says again what still holds within minutes; Karpenter gives a node that it makes 15 minutes.
_NEWS_LASTS = 900.0
#: Of Karpenter's cycle where stock is out: it asks again after three minutes (aws/karpenter-provider-aws, pkg/cache,
#: UnavailableOfferingsTTL), nominates another NodeClaim each time, and knows within seconds that it gets no machine.
_FAILURE_LASTS, _LAUNCH_SECONDS = 300.0, 60.0
_NOMINATED, _NOT_LAUNCHED, _CLAIM = "Nominated", "InsufficientCapacityError", re.compile(r"nodeclaim/([^\s,]+)")
_REMEMBERED_MAX = 10_000  # Workloads, and logs: the oldest are of benchmarks that are long over
_GONE_REMEMBERED_MAX = 2_000  # Jobs with pods that were deleted; the ledger has when those of an older one were seen

_log = logging.getLogger(__name__)

#: An API timestamp of a moment.
timestamp = units.rfc3339


def study(benchmark: kube.Object) -> observed.Study:
    """The benchmark in an object; pydantic's ValidationError where its spec is none that this version knows."""
    metadata, raw = benchmark["metadata"], benchmark.get("status") or {}
    try:
        status = benchmark_status.GpuBenchmarkStatus.model_validate(raw)
    except ValidationError:  # of another version: what must not be forgotten
        kept = {name: raw[name] for name in ("conditions", "startTime") if name in raw}
        status = benchmark_status.GpuBenchmarkStatus.model_validate(kept)
    return observed.Study(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        created_at=seconds(metadata.get("creationTimestamp")) or 0.0,
        spec=GpuBenchmarkSpec.model_validate(benchmark.get("spec") or {}),
        status=status,
    )


def pool(body: kube.Object, *, default_image: str | None = None) -> GpuPool:
    """The pool in a GpuPool, with the image of this installation where it names none.

    pydantic's ValidationError where its spec is none that this version knows.
    """
    spec = GpuPoolSpec.model_validate(body.get("spec") or {})
    if default_image and spec.template.image is None:
        spec = spec.model_copy(update={"template": spec.template.model_copy(update={"image": default_image})})
    return GpuPool(name=kube.name_of(body), spec=spec)


def pools(bodies: Iterable[kube.Object | None], *, default_image: str) -> tuple[GpuPool, ...]:
    """The pools that are there and that this version can read; the status of any other one says why it cannot."""
    found = []
    for body in bodies:
        with contextlib.suppress(ValidationError):
            found += [] if body is None else [pool(body, default_image=default_image)]
    return tuple(found)


def pool_tests(body: kube.Object) -> tuple[tuple[pool_health.PoolTests, ...], int]:
    """The history of tests in a GpuPool's status, entry by entry, and how many this version cannot read."""
    kinds, unreadable = [], 0
    for entry in (body.get("status") or {}).get("health") or ():
        try:
            kinds.append(pool_health.PoolTests.model_validate(entry))
        except ValidationError:
            unreadable += 1
    return tuple(kinds), unreadable


def is_made(body: kube.Object, study: observed.Study, plan: Plan, recorded: Ledger) -> bool:
    """Whether the operator made a Job: anybody may write labels and owners, but an attempt has one name and one Job."""
    if not kube.is_owned_by(body, study.uid) or not _has_our_labels(body):
        return False
    seen = job(body)
    made = names.job_name(study.name, study.uid, trial=seen.trial, attempt=seen.attempt)
    if seen.name != made or seen.trial not in plan.trial_by_id:
        return False
    if (entry := recorded.by_key.get(seen.key)) is not None:
        return entry.job_uid == seen.uid
    attempts = [one.attempt for one in recorded.by_trial.get(seen.trial, ())]
    return seen.attempt == max(attempts, default=0) + 1  # created just before a crash


def jobs(
    bodies: Iterable[kube.Object],
    *,
    pods: Iterable[kube.Object],
    plan: Plan | None = None,
    gone: Iterable[AttemptRecord] = (),
) -> tuple[observed.ObservedJob, ...]:
    """The Jobs of a benchmark with the pods that each of them controls. Jobs without our labels are not ours.

    What they hold is as planned: without a plan it is as their labels have it, which anybody may write. Pods of
    attempts whose Jobs are `gone` may still be there: such a Job is as one that is being deleted.
    """
    pods_of = defaultdict[str, list[observed.ObservedPod]](list)
    for one in sorted(map(pod, pods), key=lambda one: (one.index, one.name)):
        pods_of[one.job_uid or ""].append(one)
    found = itertools.chain(
        (job(body, pods=tuple(pods_of[kube.uid_of(body)])) for body in bodies if _has_our_labels(body)),
        (
            observed.ObservedJob(
                **record.model_dump(include={"trial", "attempt", "created_at", "queue"}),
                name=record.job,
                uid=record.job_uid,
                pool="",
                slots=0,
                deleting=True,
                started_at=record.created_at + (record.last_end if record.is_queued else record.clock),
                pods=tuple(pods_of[record.job_uid]),
            )
            for record in gone
        ),
    )
    return tuple(found if plan is None else (one.model_copy(update=planned(plan, one.trial)) for one in found))


def planned(plan: Plan, trial: str) -> dict[str, Any]:
    point = plan.point_by_trial[trial]
    return {"pool": point.key.pool, "slots": capacity.slots_of(point, plan.pool(point.key.pool).spec)}


def left_behind(
    made: Iterable[observed.ObservedJob],
    *,
    pods: Iterable[kube.Object],
    pools: Iterable[GpuPool],
    nodes: Mapping[str, Collection[str]],
) -> tuple[observed.ObservedJob, ...]:
    """Pods on nodes of the pools whose Jobs are gone or not ours, each as a Job of the slots that it requests.

    The garbage collector deletes the Jobs of a deleted benchmark at once and their pods later. Anybody may write such a
    pod and say on which node it is, so those of a node hold what the node has at most.
    """
    known, specs = {job.uid for job in made}, {one.name: one.spec for one in pools}
    room, found = dict[tuple[str, str], int](), list[observed.ObservedJob]()
    for body in pods:
        name = _labels(body).get(names.LABEL_POOL, "")
        if job_of(body) in known or name not in specs:
            continue
        seen = pod(body)
        if seen.has_left or seen.node not in nodes.get(name, ()):
            continue
        place, spec = (name, seen.node or ""), specs[name]
        slots = min(_slots_requested(body, spec.slot), room.get(place, spec.slots_per_node))
        room[place] = room.get(place, spec.slots_per_node) - slots
        fields: dict[str, Any] = {"uid": kube.uid_of(body), "trial": "", "attempt": 0, "created_at": 0.0}
        found.append(observed.ObservedJob(name=f"pod {seen.name}", pool=name, slots=slots, pods=(seen,), **fields))
    return tuple(one for one in found if one.slots)


def _slots_requested(pod_body: kube.Object, slot: Slot) -> int:
    asked: defaultdict[str, Decimal] = defaultdict(Decimal)
    for container in pod_body["spec"].get("containers") or ():
        for resource, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            with contextlib.suppress(ValueError):  # the API server knows more forms of a quantity
                asked[resource] += units.quantity_value(quantity)
    each = {"cpu": slot.cpu, "memory": slot.memory, **({slot.gpu_resource: "1"} if slot.gpu_resource else {})}
    return max(int(asked[resource] // units.quantity_value(amount)) for resource, amount in each.items())


def job_of(pod_body: kube.Object) -> str:
    """UID of the Job that controls a pod; empty where there is none."""
    owners = pod_body.get("metadata", {}).get("ownerReferences") or ()
    return next((one.get("uid", "") for one in owners if one.get("controller") and one.get("kind") == "Job"), "")


def _has_our_labels(body: kube.Object) -> bool:
    """Whether the labels are those that the operator writes; anybody may write such an object by hand."""
    labels = _labels(body)
    numbers = (labels.get(names.LABEL_ATTEMPT, "0"), labels.get(names.LABEL_SLOTS, "0"))
    return names.LABEL_TRIAL in labels and all(text.isascii() and text.isdigit() for text in numbers)


def job(body: kube.Object, *, pods: tuple[observed.ObservedPod, ...] = ()) -> observed.ObservedJob:
    metadata, labels = body["metadata"], _labels(body)
    failed = condition(body, "Failed")
    failing = condition(body, "FailureTarget") or failed
    reason = failed or failing or {}
    spec, suspended = body.get("spec") or {}, condition(body, "Suspended")
    is_suspended = bool(spec.get("suspend"))
    # The Job controller takes the condition back when it starts the clock anew: until then it is that of a run before.
    started_at = None if suspended else seconds((body.get("status") or {}).get("startTime"))
    queue = labels.get(names.LABEL_QUEUE) or None
    waits = started_at is None and (queue is not None or suspended is not None)
    stopped = is_suspended or waits  # no pod of its next run can have been told to end yet
    leaving = tuple(pod for pod in pods if _is_of_a_run_before(pod, stopped=stopped, started_at=started_at))
    return observed.ObservedJob(
        name=metadata["name"],
        uid=metadata["uid"],
        trial=labels[names.LABEL_TRIAL],
        attempt=int(labels.get(names.LABEL_ATTEMPT, "0")),
        pool=labels.get(names.LABEL_POOL, ""),
        slots=int(labels.get(names.LABEL_SLOTS, "0")),
        created_at=seconds(metadata.get("creationTimestamp")) or 0.0,
        deleting="deletionTimestamp" in metadata,
        deleting_since=seconds(metadata.get("deletionTimestamp")),
        complete=bool(condition(body, "Complete") or condition(body, "SuccessCriteriaMet")),
        failing_since=seconds(failing.get("lastTransitionTime")) if failing else None,
        failed=failed is not None,
        failed_reason=reason.get("reason"),
        failed_message=reason.get("message"),
        has_ttl=spec.get("ttlSecondsAfterFinished") not in (None, manifests.UNREAD_SECONDS),
        drilled=(metadata.get("annotations") or {}).get(names.ANNOTATION_DRILLED) or None,
        pods=tuple(pod for pod in pods if pod not in leaving),
        queue=queue,
        parallelism=spec.get("parallelism"),
        host=_host(spec.get("template") or {}),
        suspended=is_suspended,
        suspended_since=seconds(suspended.get("lastTransitionTime")) if suspended else None,
        started_at=started_at,
        leaving=leaving,
        changed_by=_writer(body, "f:suspend" if is_suspended else "f:parallelism"),
        rewritten=_rewritten(body),
        disowned=body.get("disowned"),
    )


def _writer(body: kube.Object, field: str) -> str:
    """Who wrote a field of the spec last. A webhook writes in the name of whoever asked."""
    fields = ((one, one.get("fieldsV1") or {}) for one in body["metadata"].get("managedFields") or ())
    managers = ["", *(one.get("manager", "") for one, owned in fields if field in (owned.get("f:spec") or {}))]
    return "a webhook" if managers[-1].startswith(names.MANAGED_BY) else managers[-1] or "somebody else"


def _rewritten(body: kube.Object) -> str | None:
    labels, spec = _labels(body), body.get("spec") or {}
    subdomain = ((spec.get("template") or {}).get("spec") or {}).get("subdomain")
    asked = names.study_name(labels.get(names.LABEL_BENCHMARK, ""), labels.get(names.LABEL_BENCHMARK_UID, ""))
    fields = (("backoffLimit", spec.get("backoffLimit"), 0), ("subdomain", subdomain, asked))
    return ", ".join(f"{field} {now} in place of {then}" for field, now, then in fields if now and now != then) or None


def as_made(body: kube.Object, study: observed.Study, record: AttemptRecord, *, pool: str, slots: int) -> kube.Object:
    """A Job with the labels and the owner that it was made with; where others took some, `disowned` says which."""
    labels = {names.LABEL_BENCHMARK: study.name, names.LABEL_BENCHMARK_UID: study.uid, names.LABEL_POOL: pool}
    labels |= {names.LABEL_TRIAL: record.trial, names.LABEL_ATTEMPT: str(record.attempt)}
    labels |= {names.LABEL_SLOTS: str(slots)}
    taken = [f"label {key}" for key, text in labels.items() if _labels(body).get(key) != text]
    taken += [] if kube.is_owned_by(body, study.uid) else [f"owner {study.name}"]
    metadata = body["metadata"] | {"labels": _labels(body) | labels, "ownerReferences": [{"uid": study.uid}]}
    return {**body, "metadata": metadata, "disowned": ", ".join(taken)} if taken else body


def _is_of_a_run_before(pod: observed.ObservedPod, *, stopped: bool, started_at: float | None) -> bool:
    """Whether the Job controller told a pod to end because its Job was suspended: how it ends says nothing then.

    A Job that is resumed has a new start, before which the pods of its earlier run were told to end. One of this run
    may be older than that start, too, where the Job controller could not write it at once; it is told to end later.
    """
    if started_at is None or pod.created_at is None:
        return pod.deleting and stopped
    told_at = pod.told_to_end_at or pod.created_at
    return pod.deleting and (stopped or pod.created_at < started_at >= told_at)


def said_by_kueue(events: Iterable[kube.Object], *, job: str) -> observed.Workload | None:
    """What the latest of Kueue's Events tells of a Job's Workload; nothing where that is the end of its waiting.

    Its name is that of the Job with "job-" before it and a hash behind it (kubernetes-sigs/kueue, workload_names.go).
    """
    found = {name: one for name, one in _newest(events, by="name").items() if name.startswith(f"job-{job}-")}
    name, last = next(reversed(found.items()), ("", {"reason": "Admitted"}))
    return None if last.get("reason") in _WAITS_NO_MORE else observed.Workload(name=name, waits=_said(last))


def workload(body: kube.Object) -> observed.Workload:

    def said(kind: str, *, status: str = "True") -> observed.Said | None:
        if (found := condition(body, kind, status=status)) is None:
            return None
        return observed.Said(source=kind, reason=found.get("reason", ""), message=found.get("message", ""))

    return observed.Workload(
        name=kube.name_of(body),
        active=(body.get("spec") or {}).get("active") is not False,
        is_reserved=said("QuotaReserved") is not None,
        waits=said("QuotaReserved", status="False") or said("Admitted", status="False"),
        checks=tuple(
            observed.Said(source=one["name"], reason=one.get("state", ""), message=one.get("message", ""))
            for one in (body.get("status") or {}).get("admissionChecks") or ()
            if one.get("state") != "Ready"
        ),
        evicted=said("Evicted"),
        finished=said("Finished"),
    )


def _emitted_at(event: kube.Object) -> str:
    """When an Event was emitted last. Those of the newer API have their time elsewhere."""
    series, metadata = event.get("series") or {}, event.get("metadata") or {}
    moments = (event.get("lastTimestamp"), series.get("lastObservedTime"), event.get("eventTime"))
    return next((moment for moment in moments if moment), metadata.get("creationTimestamp") or "")


def lacks_pods(job: observed.ObservedJob) -> bool:
    """Whether a Job has fewer pods than it should have now: none when it is suspended or ending."""
    over = job.complete or job.failed or job.failing_since is not None or job.suspended or job.deleting
    return not over and len({pod.index for pod in job.pods}) < (job.parallelism or 0)


def pod(body: kube.Object) -> observed.ObservedPod:
    metadata, status = body.get("metadata", {}), body.get("status") or {}
    statuses, spec = status.get("containerStatuses") or (), body.get("spec") or {}
    container: dict[str, Any] = next((one for one in statuses if one.get("name") == names.CONTAINER), {})
    state = container.get("state") or {}
    waiting, running, ended = state.get("waiting") or {}, state.get("running"), state.get("terminated")
    scheduled = condition(body, "PodScheduled", status=None) or {}
    is_scheduled = scheduled.get("status") == "True"
    disruption = condition(body, "DisruptionTarget")
    scheduled_at = seconds(scheduled.get("lastTransitionTime")) if is_scheduled else None
    # No kubelet starts a container before its pod has a node, but by a clock that is behind the API server's.
    started = (running or ended or {}).get("startedAt")
    behind = max(0.0, (scheduled_at or 0.0) - (seconds(started) or math.inf))
    deleted_at, end = seconds(metadata.get("deletionTimestamp")), _end(body, ended, behind)
    grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
    return observed.ObservedPod(
        name=metadata.get("name", ""),
        index=_index(body),
        phase=status.get("phase") or "Unknown",
        node=spec.get("nodeName"),
        scheduled_at=scheduled_at,
        scheduling_message=None if is_scheduled else scheduled.get("message"),
        host=_host(body),
        waiting_reason=waiting.get("reason"),
        waiting_message=waiting.get("message"),
        running_at=_by_kubelet(started, behind),
        deleting="deletionTimestamp" in metadata,
        told_to_end_at=None if deleted_at is None else deleted_at - grace,
        disruption=None
        if disruption is None
        else observed.Disruption(reason=disruption.get("reason") or "", message=disruption.get("message") or ""),
        end=end,
        others=_others(body, has_begun=bool(running or ended)),
        scheduler=None if scheduled or spec.get("nodeName") else spec.get("schedulerName"),
        image_id=container.get("imageID") or None,
        uid=metadata.get("uid"),
        kept_by=None if ended is None else _running_on(body),
        last_end_at=None if end is None else _last_end(body, behind),
        job_uid=job_of(body) or None,
        created_at=seconds(metadata.get("creationTimestamp")),
    )


def with_changes(
    job: observed.ObservedJob, study: observed.Study, plan: Plan, bodies: Iterable[kube.Object]
) -> observed.ObservedJob:
    """The Job with what others changed in those of its pods that have a node."""
    if (trial := plan.trial_by_id.get(job.trial)) is None or not any(pod.node for pod in job.pods):
        return job
    gang = capacity.gang_of(plan, trial, attempt=job.attempt)
    specs = {body["metadata"]["name"]: body["spec"] for body in bodies}
    placed = next(specs[pod.name] for pod in job.pods if pod.node)
    near = environments.neighbours(placed)  # they were those of the moment at which the Job was made
    wanted = manifests.job(study, plan, gang, neighbours=near)["spec"]["template"]["spec"]
    pods = (
        pod.model_copy(update={"changed": tuple(environments.changes(wanted, specs[pod.name]))}) if pod.node else pod
        for pod in job.pods
    )
    return job.model_copy(update={"pods": tuple(pods)})


def node(body: kube.Object, before: observed.ObservedNode | None = None) -> observed.ObservedNode:
    """One node, which was like that `before`."""
    labels, created_at = _labels(body), seconds(body["metadata"].get("creationTimestamp"))
    is_another = before is not None and before.created_at not in (None, created_at)  # machine of the same name
    rack, block = max(names.LABELS_RACK_AND_BLOCK, key=lambda pair: sum(label in labels for label in pair))
    ready = condition(body, "Ready", status=None)
    is_ready = None if ready is None else ready.get("status") == "True"
    keys = {*node_facts.taints(body)} | ({names.LABEL_MAINTENANCE} & labels.keys())
    keys |= {outcome.SPOT_INTERRUPTED} & set(() if before is None or is_another else before.taints)
    return observed.ObservedNode(
        name=kube.name_of(body),
        instance_type=labels.get(names.LABEL_INSTANCE_TYPE) or None,
        zone=labels.get(names.LABEL_ZONE) or None,
        block=labels.get(block) or None,
        rack=labels.get(rack) or None,
        created_at=created_at,
        taints_before=() if before is None else before.taints if is_another else before.taints_before,
        machine=node_facts.machine(body),
        ready=is_ready,
        silent_since=seconds(ready.get("lastTransitionTime")) if ready is not None and not is_ready else None,
        taints=tuple(sorted(keys)),
    )


def unreadable(error: ValidationError) -> str:
    """What is said of an object that the API server took and this version does not know: the first thing in the way."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"this version of the operator cannot read the object: {where}: {first['msg']}"


def _others(body: kube.Object, *, has_begun: bool) -> tuple[observed.OtherContainer, ...]:
    """Containers beside the gang's that ended badly by themselves, or the init container that it waits for."""
    statuses = (body.get("status") or {}).get("containerStatuses") or ()
    if has_begun:
        ended = [_other(one) for one in statuses if one.get("name") != names.CONTAINER and _ended(one)]
        return tuple(one for one in ended if one.exit_code and not _was_told(body, one.exit_code))
    init = _other(_first_init(body))
    # Before it has begun itself, an image is pulled or a volume is mounted, of which Events tell.
    return () if init.reason in ("", "PodInitializing", "ContainerCreating") else (init,)


def _first_init(body: kube.Object) -> dict[str, Any]:
    """The first init container that has not done its part: ended with 0, or as a native sidecar come up."""
    inits, status = (body.get("spec") or {}).get("initContainers") or (), body.get("status") or {}
    native = {one.get("name") for one in inits if one.get("restartPolicy") == "Always"}
    was_up = status.get("phase") == "Failed"  # a native sidecar fails no pod, and is ended with it
    for one in status.get("initContainerStatuses") or ():
        if not (was_up or one.get("started") if one.get("name") in native else _ended(one).get("exitCode") == 0):
            return dict(one)
    return {}


def _other(container: dict[str, Any]) -> observed.OtherContainer:
    state, last = container.get("state") or {}, container.get("lastState") or {}
    ended = _ended(container) or ("waiting" in state and last.get("terminated")) or {}
    waiting = state.get("waiting") or {}
    return observed.OtherContainer(
        name=container.get("name", ""),
        reason="Running" if "running" in state else (waiting or ended).get("reason") or "",
        exit_code=ended.get("exitCode"),
        message=ended.get("message") or waiting.get("message"),
    )


def _running_on(body: kube.Object) -> str | None:
    """A container that has not ended, or a native sidecar that runs, in a pod that is not over."""
    status = body.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    left = [one for one in status.get("containerStatuses") or () if not _ended(one)]
    left += [one for one in status.get("initContainerStatuses") or () if "running" in (one.get("state") or {})]
    return left[0].get("name", "") if left else None


def _by_kubelet(timestamp: str | None, behind: float) -> float | None:
    return (told := seconds(timestamp)) and told + behind


def _last_end(body: kube.Object, behind: float) -> float | None:
    ends = (_by_kubelet(_ended(one).get("finishedAt"), behind) for one in _all_statuses(body))
    return max(filter(None, ends), default=None)


def _all_statuses(body: kube.Object) -> tuple[dict[str, Any], ...]:
    status = body.get("status") or {}
    return (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ()))


def _ended(container: dict[str, Any]) -> dict[str, Any]:
    return (container.get("state") or {}).get("terminated") or {}


def _was_told(body: kube.Object, exit_code: int) -> bool:
    """Whether a container ended as its pod was told to."""
    return "deletionTimestamp" in body.get("metadata", {}) and exit_code in (_END_UNKNOWN, 143)


def _end(body: kube.Object, ended: dict[str, Any] | None, behind: float) -> observed.ContainerEnd | None:
    """How the container ended, or the init container that kept it from its begin; `behind` is its kubelet's clock.

    A pod that is over without a container's end never ran one, or its kubelet is gone; it must count as ended all the
    same, or it would hold its slots for ever.
    """
    status, init = body.get("status") or {}, dict[str, Any]()
    if ended is None and status.get("phase") == "Failed":
        init = _first_init(body)
        ended = _ended(init) or None
    if ended is not None:
        exit_code = int(ended.get("exitCode", _END_UNKNOWN))
        return observed.ContainerEnd(
            exit_code=exit_code,
            reason="DeadlineExceeded" if status.get("reason") == "DeadlineExceeded" else ended.get("reason"),
            message=ended.get("message"),
            started_at=_by_kubelet(ended.get("startedAt"), behind),
            finished_at=_by_kubelet(ended.get("finishedAt"), behind),
            init=None if _was_told(body, exit_code) else init.get("name"),
        )
    if status.get("phase") in ("Succeeded", "Failed"):
        is_refused = bool(status.get("reason")) and not any(
            {"running", "terminated"} & (one.get("state") or {}).keys() for one in _all_statuses(body)
        )
        ready = condition(body, "Ready", status=None) or condition(body, "ContainersReady", status=None) or {}
        return observed.ContainerEnd(
            exit_code=0 if status["phase"] == "Succeeded" else _END_UNKNOWN,
            reason=status.get("reason") or "ContainerStatusUnknown",
            message=status.get("message") if status["phase"] == "Failed" else None,
            finished_at=_by_kubelet(ready.get("lastTransitionTime"), behind) if is_refused else None,
            is_refused=is_refused,
        )
    return None


def _index(body: kube.Object) -> int:
    labels, annotations = _labels(body), body.get("metadata", {}).get("annotations") or {}
    found = str(labels.get(names.LABEL_POD_INDEX) or annotations.get(names.LABEL_POD_INDEX) or "")
    return int(found) if found.isascii() and found.isdigit() and len(found) < 10 else 0


def condition(body: kube.Object, kind: str, *, status: str | None = "True") -> dict[str, Any] | None:
    conditions: list[dict[str, Any]] = (body.get("status") or {}).get("conditions") or []
    found = next((one for one in conditions if one.get("type") == kind), None)
    return None if found is None or status not in (None, found.get("status")) else found


def may_matter(body: kube.Object) -> bool:
    """Whether a Job or pod may hold a node, or is a Job that has yet to be given a time to live."""
    return (body.get("status") or {}).get("phase") not in ("Succeeded", "Failed") and not (
        body["spec"].get("ttlSecondsAfterFinished") not in (None, manifests.UNREAD_SECONDS)
        and any(condition(body, kind) for kind in ("Complete", "Failed"))
    )


def _host(body: kube.Object) -> str | None:
    return ((body.get("spec") or {}).get("nodeSelector") or {}).get(node_facts.HOSTNAME)


def _labels(body: kube.Object) -> dict[str, str]:
    return body.get("metadata", {}).get("labels") or {}


def seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else units.epoch_seconds(timestamp)


def log_fields(study: observed.Study, **more: object) -> dict[str, object]:
    return {"namespace": study.namespace, "benchmark": study.name, **more}


class _Unread:
    """Logs what cannot be read when that begins, not each time that it is tried."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def note(self, what: str, error: kube.ApiError | None, *, namespace: str) -> None:
        """What was tried just now; no error: it was read."""
        if error is None:
            self._known.discard((what, namespace))
        elif (what, namespace) not in self._known:
            self._known.add((what, namespace))
            _log.warning(what, extra={"namespace": namespace, "error": str(error)})

    async def events_about(self, api: kube.Kube, kind: str, reason: str) -> list[kube.Object]:
        """Events about objects in no namespace; none where they may not be read, as in an installation for some."""
        about, what = {"involvedObject.kind": kind, "reason": reason}, f"Events about {kind}s not read"
        try:
            found = await api.list(kube.EVENTS, namespace=_OF_NODES, fields=about)
        except kube.PermanentError as error:
            self.note(what, error, namespace=_OF_NODES)
            return []
        self.note(what, None, namespace=_OF_NODES)
        return found


class GonePods:
    """Pods as they were when they were deleted, which only a watch tells: when they let go of their nodes is billed."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._of_jobs: dict[str, tuple[observed.ObservedPod, ...]] = {}

    def note(self, body: kube.Object) -> None:
        """A pod has just been deleted; others are nothing here."""
        if (uid := job_of(body)) and (body.get("spec") or {}).get("nodeName"):
            self._of_jobs[uid] = (*self._of_jobs.pop(uid, ()), pod(body).model_copy(update={"gone_at": self._clock()}))
            for oldest in list(self._of_jobs)[: max(0, len(self._of_jobs) - _GONE_REMEMBERED_MAX)]:
                del self._of_jobs[oldest]

    def of_jobs(self, uids: Iterable[str]) -> tuple[observed.ObservedPod, ...]:
        return tuple(itertools.chain.from_iterable(self._of_jobs.get(uid, ()) for uid in sorted(uids)))

    def with_first_pod(self, job: observed.ObservedJob) -> observed.ObservedJob:
        """The Job with its first pod where that ended well and was deleted before anybody had read its result."""
        well = [pod for pod in self.of_jobs({job.uid}) if pod.index == 0 and pod.exit_code == 0]
        if not well or any(pod.index == 0 for pod in job.pods):
            return job
        return job.model_copy(update={"pods": (well[-1], *job.pods)})


class NodeStates:
    """What is known of the cluster's nodes: which machine and zone from their labels, and whether they live.

    Nodes come and go, spot ones within minutes: what was seen once is remembered, and a node that nobody has seen yet
    is looked for when a pod is on it. Whether a node lives is read from the poll of the pools, and anew for those nodes
    on which the outcome of an attempt may hang: a machine that is gone has no pod that says so. A watch tells of those
    whose end is announced: a spot node has two minutes from then, or a quarter of one.

    Must not happen: an attempt recorded as of an unknown type because another benchmark's reconcile had only just begun
    to ask, or because the API server was away for a moment. The record is for good, so a reconcile waits, or is
    repeated later; one that lacks nothing waits for nobody. One node stays unknown all the same: of an attempt whose
    only reconcile falls within the seconds after a list that did not have the node yet.
    """

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self.known: dict[str, observed.ObservedNode] = {}
        self._users: dict[str, tuple[float, frozenset[str]]] = {}  # of a node: when to ask again, and who uses it
        self.of_pools: dict[str, frozenset[str]] = {}  # names of the nodes of each pool, as of the last poll
        self._asked_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None  # all who lack a node wait for the same answer, or for none
        self._seen_at: dict[str, float] = {}  # when it was last seen whether a node lives
        self._used_by: dict[queue.Key, frozenset[str]] = {}
        self._changed: set[str] = set()  # nodes that came into trouble, or out of it, and nobody was told yet
        self._unread = _Unread()

    def forget(self, name: str) -> None:
        self._gone({name} & self.known.keys())

    def note(self, bodies: Iterable[kube.Object], *, all_there_are: bool = False) -> None:
        listed = set()
        for body in bodies:
            name = kube.name_of(body)
            listed.add(name)
            self._keep(node(body, self.known.get(name)))
            self._seen_at[name] = self._clock()
        if all_there_are:
            self._gone(self.known.keys() - listed)
        for name in list(self.known)[: max(0, len(self.known) - REMEMBERED_MAX)]:
            del self.known[name], self._seen_at[name]

    def use(self, key: queue.Key, nodes: Iterable[str]) -> None:
        """A benchmark has attempts under way on these nodes now, or they came for it; on none, and it is forgotten."""
        if used := frozenset(nodes):
            self._used_by[key] = used
        else:
            self._used_by.pop(key, None)

    def affected(self) -> set[queue.Key]:
        """The benchmarks of which a node has come into trouble, or out of it, since this was asked last."""
        changed, self._changed = self._changed, set()
        return {key for key, used in self._used_by.items() if used & changed}

    async def place(self, pools: Iterable[GpuPool]) -> None:
        """List the nodes of each pool, where that may not wait for the next poll."""
        with contextlib.suppress(kube.PermanentError):
            listed = await self._api.list(kube.NODES)
            for one in pools:
                self.keep_those_of(one, listed)

    def keep_those_of(self, pool: GpuPool, listed: Iterable[kube.Object]) -> list[kube.Object]:
        """The nodes of a pool among all that there are; which they are is kept."""
        found = [node for node in listed if node_facts.belongs(node, pool.spec.scheduling)]
        self.of_pools[pool.name] = frozenset(map(kube.name_of, found))
        return found

    async def of_jobs(
        self, jobs: Iterable[observed.ObservedJob], *, placed: Iterable[str] = (), in_question: Collection[str] = ()
    ) -> tuple[observed.ObservedNode, ...]:
        """The nodes of the pods of these Jobs, and those that their attempts were placed on, as far as they are known.

        Those in question are as they are now. kube.TemporaryError where the cluster does not answer.
        """
        wanted = {pod.node for job in jobs for pod in job.pods if pod.node is not None} | set(placed)
        if wanted - self.known.keys():
            if self._asking is None and not 0 <= self._clock() - self._asked_at < _ASKED_AGAIN:
                self._asking = asyncio.create_task(self._list_all(), name="nodes")
            if self._asking is not None:
                await asyncio.shield(self._asking)
        await self._look_at(wanted & set(in_question))
        await self.listen(wanted)
        return tuple(self.known[name] for name in sorted(wanted & self.known.keys()))

    async def came(
        self, uid: str, plan: Plan, kept: NewNodes, jobs: Iterable[observed.ObservedJob], namespaces: _Namespaces
    ) -> tuple[observed.SeenNode, ...]:
        """Nodes that came since a benchmark's start: of its gangs, those kept, and of its pools with a GPU resource."""
        began, now = units.epoch_seconds(plan.planned_at), self._clock()
        resources = {pool: plan.pool(pool).spec.slot.gpu_resource for pool in plan.pools_run}
        placed = {pod.node: job.pool for job in jobs for pod in (*job.pods, *job.leaving) if pod.node is not None}
        pool_of = {name: pool for pool, has in resources.items() if has for name in self.of_pools.get(pool, ())}
        pool_of |= {node.name: node.pool for node in kept.there} | placed
        nodes = [node for name in pool_of if (node := self.known.get(name)) is not None]
        nodes = [node for node in nodes if (node.gone_since if node.created_at is None else node.created_at > began)]
        due = [node.name for node in nodes if node.gone_since is None and now >= self._users.get(node.name, _NOBODY)[0]]
        for name in due[:_ONE_BY_ONE_MAX]:
            await self._ask_for_users(name, resources.get(pool_of[name]), namespaces)
        shared = {name for name in pool_of if self._users.get(name, _NOBODY)[1] - {uid}}
        return tuple(observed.SeenNode(one, pool_of[one.name], one.name in placed, one.name in shared) for one in nodes)

    async def _ask_for_users(self, name: str, resource: str | None, namespaces: _Namespaces) -> None:
        """Whose pods have a node's GPUs, or are gangs: UIDs of benchmarks, and nothing for anybody else."""
        users = self._users.get(name, _NOBODY)[1]
        try:
            for namespace in namespaces:
                for pod in await self._api.list(kube.PODS, namespace=namespace, fields={"spec.nodeName": name}):
                    owner = _labels(pod).get(names.LABEL_BENCHMARK_UID, "")
                    containers = pod["spec"].get("containers") or ()
                    limits = ((one.get("resources") or {}).get("limits") or {} for one in containers)
                    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
                    if not is_over and (owner or any(resource in one for one in limits)):
                        users |= {owner}
        except kube.PermanentError as error:
            _log.warning("pods of a node not read", extra={"node": name, "error": str(error)})
        self._users[name] = self._clock() + _USERS_AGAIN, users

    async def listen(self, names: Iterable[str] | None = None) -> None:
        """Whether Karpenter has tainted nodes, those in use by default, for a notice: Events about them say so."""
        used = itertools.chain.from_iterable(self._used_by.values()) if names is None else names
        asked = {name for name in used if name in self.known and outcome.leaving(self.known[name]) in outcome.KARPENTER}
        for event in await self._unread.events_about(self._api, "Node", outcome.SPOT_INTERRUPTED) if asked else ():
            node = self.known.get(event["involvedObject"].get("name", ""))
            if node is not None and node.name in asked and _emitted_at(event) >= timestamp(node.created_at or 0.0):
                self._keep(node.model_copy(update={"taints": (*node.taints, outcome.SPOT_INTERRUPTED)}))

    async def _list_all(self) -> None:
        now = self._clock()
        try:
            self.note(await self._api.list(kube.NODES))
        except kube.PermanentError as error:  # not permitted, say: then less may be averaged, and nothing else
            _log.warning("nodes not listed", extra={"error": str(error)})
        finally:
            self._asking = None
        self._asked_at = now

    async def _look_at(self, names: Collection[str]) -> None:
        now = self._clock()
        due = sorted(name for name in names if not 0 <= now - self._seen_at.get(name, float("-inf")) < _SEEN_JUST_NOW)
        try:
            if len(due) > _ONE_BY_ONE_MAX:
                listed = await self._api.list(kube.NODES)
                self.note(listed, all_there_are=True)
                self._gone(set(due) - set(map(kube.name_of, listed)))
                return
            for name in due:
                found = await self._api.list(kube.NODES, fields={"metadata.name": name})
                self.note(found)
                if not found:
                    self._gone({name})
        except kube.PermanentError as error:
            _log.warning("nodes not read", extra={"error": str(error)})

    def _keep(self, node: observed.ObservedNode) -> None:
        before = self.known.pop(node.name, None)  # to the end: what has not been seen for longest is forgotten first
        if notice := outcome.leaving(node):
            is_known = before is not None and outcome.leaving(before) == notice
            since = before.leaving_since if before is not None and is_known else self._clock()
            node = node.model_copy(update={"leaving_since": since})
        self.known[node.name] = node
        if _trouble(before) != _trouble(node):
            self._changed.add(node.name)

    def _gone(self, names: Iterable[str]) -> None:
        """Nodes that were there and are not any more: it is remembered what they were, and since when they are gone."""
        for name in names:
            self._seen_at[name] = self._clock()
            self._users.pop(name, None)
            known = self.known.get(name, observed.ObservedNode(name=name))  # a process of before has seen it
            if known.gone_since is None:
                self._keep(known.model_copy(update={"gone_since": self._clock()}))


def _trouble(node: observed.ObservedNode | None) -> tuple[object, ...]:
    if node is None:
        return False, False, None, ()
    return node.gone_since is not None, node.ready is False, outcome.leaving(node), node.taints_before


class Diagnostics:
    """Why pods are missing, do not start, or wait in a queue, for all benchmarks: what the cluster says of them."""

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self._workloads: dict[str, str] = {}  # names of Kueue's Workloads, by the UIDs of their Jobs
        self._unread = _Unread()

    async def explained(
        self, study: observed.Study, seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], float | None]:
        """The Jobs with what Events say of pods that are not there or do not start; when to ask again."""
        lacking = {job.uid: job.begun_at + _FEWER_PODS_AFTER for job in seen if lacks_pods(job)}
        pods = [pod for job in seen for pod in job.pods]
        waiting = [pod.created_at + capacity.NEWS_AFTER_SECONDS for pod in pods if pod.node is None and pod.created_at]
        creating = [pod.scheduled_at + _MOUNTED_AFTER for pod in pods if pod.is_being_created and pod.scheduled_at]
        about_jobs, about_pods = list[kube.Object](), list[kube.Object]()
        again, pods_again, unknown = None, None, None
        try:
            about_jobs, again = await self._events_after(study, [*lacking.values()], "Job", reason="FailedCreate")
            about_pods, pods_again = await self._events_after(study, [*waiting, *creating], "Pod")
            about_pods += await self._not_launched(about_pods, {pod.name for pod in pods if pod.node is None})
        except kube.PermanentError as error:  # pods may start all the same
            again, unknown = _FEWER_PODS_AFTER, f"why is not known: {error}"
        if about_jobs or about_pods or unknown:
            now, refusals = self._clock(), _newest(about_jobs, by="uid")
            mounts = _newest(
                (one for one in about_pods if one.get("reason") == "FailedMount"),
                by="name",
                since=now - _MOUNT_FAILURE_REPEATS,
            )
            news = _news(about_pods, now=now)
            seen = tuple(
                job.model_copy(
                    update={
                        "creation_failure": refusals.get(job.uid, {}).get("message", unknown)
                        if job.uid in lacking
                        else None,
                        "pods": tuple(_explained(pod, mounts, news) for pod in job.pods),
                    }
                )
                for job in seen
            )
        return seen, queue.earliest(again, pods_again)

    async def _events_after(
        self, study: observed.Study, since: Sequence[float], kind: str, **fields: str
    ) -> tuple[list[kube.Object], float | None]:
        """The Events about a kind of object, from the first of some moments on; seconds until they are read again."""
        if not since:
            return [], None
        wait = min(since) - self._clock()
        return ([], wait) if wait > 0 else (await self._events(study, kind, **fields), _ASKED_AGAIN)

    async def _events(self, study: observed.Study, kind: str, **fields: str) -> list[kube.Object]:
        about = {"involvedObject.kind": kind, **fields}
        return await self._api.list(kube.EVENTS, namespace=study.namespace, fields=about)

    async def _not_launched(self, about_pods: Sequence[kube.Object], waiting: Collection[str]) -> list[kube.Object]:
        """What Karpenter says of machines that it wanted for pods: up to version 1.14 of their NodeClaims alone."""
        wanted = [
            (claim, event["involvedObject"])
            for event in about_pods
            if event.get("reason") == _NOMINATED and event["involvedObject"]["name"] in waiting
            for claim in _CLAIM.findall(event.get("message") or "")
        ]
        found = await self._unread.events_about(self._api, "NodeClaim", _NOT_LAUNCHED) if wanted else ()
        pairs = itertools.product(found, wanted)
        return [one | {"involvedObject": pod} for one, (claim, pod) in pairs if claim == one["involvedObject"]["name"]]

    async def queued(
        self, study: observed.Study, seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], bool]:
        """The Jobs with what Kueue says of those that are suspended; whether it is there at all.

        Its Workloads are served by Kueue itself where they are stored in another version: then it may be away.
        """
        if not (waiting := {job.uid for job in seen if job.suspended}):
            return seen, True
        found, lacking = dict[str, observed.Workload](), set[str]()
        try:
            if (version := await self._api.preferred_version(names.KUEUE_GROUP)) is None:
                return seen, False
            found = await self._workloads_of(study, waiting, kube.Resource(version, "workloads"))
            lacking = waiting - found.keys()
            without = [job for job in seen if job.uid in lacking]  # its Workload goes with a Job, and may be seen first
            live = [await self._api.get(kube.JOBS, name=job.name, namespace=study.namespace) for job in without]
            gone = lacking - {kube.uid_of(body) for body in live if body}
            seen = tuple(job for job in seen if job.uid not in gone)
            self._unread.note(_WORKLOADS_UNREAD, None, namespace=study.namespace)
        except kube.ApiError as error:
            self._unread.note(_WORKLOADS_UNREAD, error, namespace=study.namespace)
            with contextlib.suppress(kube.PermanentError):
                events = await self._events(study, names.KUEUE_WORKLOAD)
                told = {job.uid: said_by_kueue(events, job=job.name) for job in seen if job.uid in waiting}
                found = {uid: work for uid, work in told.items() if work is not None}
        known = ({"workload": found.get(job.uid), "lacks_workload": job.uid in lacking} for job in seen)
        return tuple(job.model_copy(update=update) for job, update in zip(seen, known, strict=True)), True

    async def _workloads_of(
        self, study: observed.Study, uids: AbstractSet[str], resource: kube.Resource
    ) -> dict[str, observed.Workload]:
        """The Workloads of Jobs, by the Jobs' UIDs: found by their owner, as their names are Kueue's own matter."""
        if not uids <= self._workloads.keys():
            for body in await self._api.list(resource, namespace=study.namespace, metadata_only=True):
                self._workloads |= {uid: kube.name_of(body) for uid in uids if kube.is_owned_by(body, uid)}
        found = {}
        for uid in uids & self._workloads.keys():
            one = await self._api.get(resource, name=self._workloads.pop(uid), namespace=study.namespace)
            if one is not None:
                found[uid], self._workloads[uid] = workload(one), kube.name_of(one)
        for old in list(self._workloads)[:-_REMEMBERED_MAX]:
            del self._workloads[old]
        return found


def _explained(
    pod: observed.ObservedPod, mounts: Mapping[str, kube.Object], news: Mapping[str, kube.Object]
) -> observed.ObservedPod:
    if pod.is_being_created:
        return pod.model_copy(update={"mount_failure": mounts.get(pod.name, {}).get("message")})
    if pod.node is None and (one := news.get(pod.name)) is not None:
        return pod.model_copy(update={"said": _said(one)})
    return pod


def _said(event: kube.Object) -> observed.Said:
    return observed.Said(source=_source(event), reason=event.get("reason") or "", message=event["message"])


def _is_news(event: kube.Object) -> bool:
    """Whether it is no scheduler's: what that says is in the pod's own condition."""
    return _source(event) != _SCHEDULER and not _OF_SCHEDULERS.match(event.get("message") or "")


def _source(event: kube.Object) -> str:
    return (event.get("source") or {}).get("component") or event.get("reportingComponent") or "somebody"


def _news(about_pods: Iterable[kube.Object], *, now: float) -> dict[str, kube.Object]:
    """The Event that leads, by the pod's name: the newest, but a launch that failed until a later one lasts."""
    events = [*filter(_is_news, about_pods)]
    newest = _newest(events, by="name", since=now - _NEWS_LASTS)
    launches = (event for event in events if event.get("reason") == _NOT_LAUNCHED)
    failed, by_now = _newest(launches, by="name", since=now - _FAILURE_LASTS), timestamp(now - _LAUNCH_SECONDS)
    lasts = {name for name, one in newest.items() if one.get("reason") == _NOMINATED and _emitted_at(one) <= by_now}
    return newest | {name: event for name, event in failed.items() if name not in lasts}


def _newest(events: Iterable[kube.Object], *, by: str, since: float = 0.0) -> dict[str, kube.Object]:
    """The last Event with words about each object, by its UID or name, in their order; older failures were mended."""
    recent = sorted((event for event in events if _emitted_at(event) >= timestamp(since)), key=_emitted_at)
    found: dict[str, kube.Object] = {}
    for event in recent:
        if event.get("message"):
            found.pop(event["involvedObject"][by], None)
            found[event["involvedObject"][by]] = event
    return found


class EnvironmentReader:
    """Reads full records of environments from the heads of logs, none of them too often.

    A log that cannot be read is logged once, tried again while the decision asks for it, and then left. Memory here
    only keeps requests apart; a new process tries again, and what was read is in the ledger.
    """

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api, self._clock = api, clock
        self._not_before: dict[tuple[str, str], float] = {}  # by namespace and pod; never again where infinite

    async def read(self, study: observed.Study, wanted: Iterable[actions.Description]) -> tuple[Environment, ...]:
        now = self._clock()
        due = [one for one in wanted if self._not_before.get((study.namespace, one.pod), 0.0) <= now]
        found = await asyncio.gather(*(self._read(study, one, now=now) for one in due))
        return tuple(environment for environment in found if environment is not None)

    async def _read(self, study: observed.Study, one: actions.Description, *, now: float) -> Environment | None:
        where = {"pod": one.pod, "namespace": study.namespace, "container": names.CONTAINER}
        try:
            head = await self._api.log_head(**where, limit=environments.LOG_HEAD_BYTES)
        except kube.ApiError as error:
            again, why = now + environments.TRIED_AGAIN_SECONDS, f"its log cannot be read: {error}"
        else:
            if (environment := environments.in_log(head or "", one.environment)) is not None:
                return environment
            again, why = math.inf, "it is gone" if head is None else "the head of its log has no such record"
        self._not_before[study.namespace, one.pod] = again
        if len(self._not_before) > _REMEMBERED_MAX:
            del self._not_before[next(iter(self._not_before))]
        extra = log_fields(study, environment=one.environment, pod=one.pod, error=why)
        _log.warning("environment not read", extra=extra)
        return None
