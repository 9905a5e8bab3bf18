# SPDX-License-Identifier: Apache-2.0
"""Why a gang has no nodes, and why its Job waits in a queue: the words of who decides it, and what can be done."""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpubench import names, records
from gpubench.scheduler import conditions
from gpubench.units import counted

if TYPE_CHECKING:
    from gpubench.scheduler.ledger import AttemptRecord
    from gpubench.scheduler.observed import ObservedJob, ObservedPod

NODE_COMING = "NodeComing"
_NEWS_MAX = 700  # bytes: Karpenter's words go on for pages, and the remedy and the scheduler follow
#: What a Job in a queue may be for hours without that anything is wrong.
WAITS_WELL = (conditions.ADMITTED, conditions.WAITING_FOR_QUEUE, conditions.WAITING_FOR_CHECKS)
#: Kueue makes a Workload within a second; its webhooks and controllers may have just been started.
WORKLOAD_SECONDS = 30.0


class _Remedy(NamedTuple):
    """What is recognized in somebody's words, the reason that a condition has then, and what can be done."""

    words: re.Pattern[str]
    reason: str
    remedy: str


_COMPARE = "compare the pool's slot, slotsPerNode, nodeResources and nodeSelector with the machines"
#: Of kubernetes-sigs/karpenter v1.14 and v1.15 (pkg/controllers/provisioning/scheduling, pkg/events) and of
#: kubernetes/autoscaler (cluster-autoscaler/FAQ.md, "What events are emitted by CA?"). Karpenter has words for each
#: NodePool, and looks at its limit first: a machine that would do but for its size is of the pod's own NodePool, while
#: one of another kind, or a limit, may be of any.
_AUTOSCALERS = tuple(
    _Remedy(re.compile(words), reason, remedy)
    for words, reason, remedy in (
        ("^(Nominated|TriggeredScaleUp) ", NODE_COMING, ""),
        ("no instance type (has|had) enough|had the required resources", "NoInstanceType", _COMPARE),
        (
            "Insufficient(Instance)?Capacity|out of resources|(has the|, had a) required offering|filtered out all",
            "StockOut",
            "the provider has none now, and is asked again: allow more zones or instance types, or wait",
        ),
        (
            "limits (have.* )?for nodepool|max node group size reached|max cluster .* limit reached|quota exceeded",
            "NodeLimitReached",
            "raise that limit, or let idle nodes go",
        ),
        ("no instance type|incompatible", "NoInstanceType", _COMPARE),
        (
            "^NotTriggerScaleUp ",
            "ScaleUpNotTriggered",
            "compare the pool's slot, nodeSelector and tolerations with the node groups",
        ),
    )
)
#: Of kubernetes-sigs/kueue v0.19.2 (pkg/controller/core/workload_controller.go).
_QUEUES = tuple(
    _Remedy(re.compile(words), reason, remedy)
    for words, reason, remedy in (
        ("Queue .*(missing|doesn't exist)", "QueueMissing", "create it, or correct spec.queueName"),
        ("Queue .*(inactive|stopped)", "QueueOnHold", "see its conditions, and set its stopPolicy to None"),
    )
)


def for_a_node(pod: "ObservedPod", *, by_kueue: bool) -> tuple[str, str]:
    """Of a pod without a node: an autoscaler's words first, as the scheduler's read like a wrong selector.

    Kueue's topology may have chosen its node, of which the scheduler says nothing.
    """
    scheduler, said = one_line(pod.scheduling_message or ""), pod.said
    if by_kueue:
        remedy = (
            "let slot x slotsPerNode fill a node in a resource that it counts, or take topologyName from its flavor"
        )
        chosen = f"Kueue's topology allows only node {pod.host}: {remedy}"
        return "NodeChosenByKueue", f"pod {pod.name} has no node: {chosen}; scheduler: {scheduler}"
    if said is None:
        return "Unschedulable", f"pod {pod.name} has no node: {scheduler}"
    found = _recognized(_AUTOSCALERS, f"{said.reason} {said.message}")
    what = "waits for a node that is being made" if found and found.reason == NODE_COMING else "has no node"
    parts = dict.fromkeys(one_line(said.message).split("; "))  # of Karpenter, one for each NodePool
    news = "; ".join([part for part in parts if found and found.words.search(part)] or parts)
    told = (f"{said.source}: {conditions.clamped(news, _NEWS_MAX)}", found and found.remedy)
    message = "; ".join(filter(None, (*told, f"scheduler: {scheduler}" if scheduler else "")))
    return found.reason if found else "Unschedulable", f"pod {pod.name} {what}: {message}"


class Admission(NamedTuple):
    """Whether Kueue has admitted all Jobs under way."""

    holds: bool
    reason: str
    message: str


def admission(
    live: "Sequence[ObservedJob]", entries: "Mapping[str, AttemptRecord]", *, is_served: bool, now: float
) -> Admission | None:
    """Of the first Job that waits, the first in trouble before all, else of all; None without one in a queue.

    A Job may be in a queue though its benchmark names none: Kueue gives it one, or somebody does.
    """
    suspended = [(job, len(entries[job.key].segments)) for job in live if job.suspended]
    if suspended:
        whys = (_why(job, evictions, is_served=is_served, now=now) for job, evictions in suspended)
        return Admission(False, *min(whys, key=lambda why: why[0] in WAITS_WELL))
    queues = sorted({job.queue for job in live if job.queue is not None})
    many = counted(len(live), "Job was", "Jobs were")
    message = f"{many} admitted by queue {', '.join(queues)}"
    return Admission(True, conditions.ADMITTED, message) if queues else None


def _why(job: "ObservedJob", evictions: int, *, is_served: bool, now: float) -> tuple[str, str]:
    it, work = f"Job {job.name}", job.workload
    if job.queue is None:
        remedy = "name a queue of Kueue in spec.queueName" if is_served else "set its spec.suspend to false"
        by_whom = " (Kueue does so with manageJobsWithoutQueueName)" if is_served else ""
        return conditions.SUSPENDED_BY_OTHERS, f"{it} is suspended by somebody else{by_whom}: {remedy}, or delete it"
    if not is_served:
        absent = f"the cluster has no Kueue (no API group {names.KUEUE_GROUP})"
        remedy = "install it, or apply the benchmark without spec.queueName"
        return conditions.KUEUE_ABSENT, f"{it} waits for queue {job.queue}, and {absent}: {remedy}"
    if job.lacks_workload and now >= max(job.created_at, job.suspended_since or 0.0) + WORKLOAD_SECONDS:
        why = "and Kueue has no Workload of it: see whether it runs, and manages batch/job in this namespace"
        return conditions.WORKLOAD_MISSING, f"{it} waits in queue {job.queue}, {why}"
    if work is not None and not work.active:
        why = f" ({one_line(work.evicted.message)})" if work.evicted is not None else ""
        remedy = f"set spec.active of Workload {work.name} to true, or delete the Job for a new one"
        return conditions.DEACTIVATED, f"{it} was deactivated in queue {job.queue}{why}: {remedy}"
    if work is not None and work.is_reserved and work.checks:
        checks = ", ".join(f"{one.source} ({one.reason}: {one_line(one.message)})" for one in work.checks)
        remedy = "look at these AdmissionChecks"
        return (
            conditions.WAITING_FOR_CHECKS,
            f"{it} has its quota in queue {job.queue}, and waits for {checks}: {remedy}",
        )
    reason, message = conditions.WAITING_FOR_QUEUE, f"{it} waits in queue {job.queue}"
    if evictions:
        often = "once" if evictions == 1 else f"{evictions} times"
        reason = conditions.QUEUE_EVICTED
        message = f"{it} was evicted from queue {job.queue} {often}, and waits to be admitted again"
    word = work and (work.waits or work.evicted)  # of one that is evicted just now, why
    said = one_line(word.message) if word else ""
    found = _recognized(_QUEUES, said)
    return found.reason if found else reason, ": ".join(filter(None, (message, said, found and found.remedy)))


def deleted(job: str, meanwhile: str, said: str | None = None) -> str:
    """Of a Job that somebody else has deleted: what it did meanwhile, and the last word on it."""
    return f"Job {job} was deleted by somebody else while it {meanwhile}" + (f"; before: {said}" if said else "")


def _recognized(remedies: Sequence[_Remedy], text: str) -> _Remedy | None:
    return next((one for one in remedies if one.words.search(text)), None)


def one_line(text: str) -> str:
    """A message without line breaks and colours: what a program or a runtime says goes on for pages."""
    return " ".join("".join(one if one.isprintable() else " " for one in records.COLOURS.sub("", text)).split())
