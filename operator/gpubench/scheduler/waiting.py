# SPDX-License-Identifier: Apache-2.0
"""Why a gang has no nodes, and why its Job waits in a queue: the words of who decides it, and what can be done."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpubench import names, records, units
from gpubench.api import messages
from gpubench.scheduler import conditions

if TYPE_CHECKING:
    from gpubench.scheduler import ledger, observed

_NEWS_MAX = 700  # bytes: Karpenter's words go on for pages, and the remedy and the scheduler follow
#: What a Job in a queue may be for hours without that anything is wrong.
WAITS_WELL = (conditions.ADMITTED, messages.WAITING_FOR_QUEUE.reason, messages.WAITING_FOR_CHECKS.reason)
#: Kueue makes a Workload within a second; its webhooks and controllers may have just been started.
WORKLOAD_SECONDS = 30.0


#: Of kubernetes-sigs/karpenter v1.14 and v1.15 (pkg/controllers/provisioning/scheduling, pkg/events) and of
#: kubernetes/autoscaler (cluster-autoscaler/FAQ.md, "What events are emitted by CA?"). Karpenter has words for each
#: NodePool, and looks at its limit first: a machine that would do but for its size is of the pod's own NodePool, while
#: one of another kind, or a limit, may be of any.
_AUTOSCALERS = (
    ("^(Nominated|TriggeredScaleUp) ", messages.NODE_COMING),
    ("no instance type (has|had) enough|had the required resources", messages.NO_INSTANCE_TYPE),
    (
        "Insufficient(Instance)?Capacity|out of resources|(has the|, had a) required offering|filtered out all",
        messages.STOCK_OUT,
    ),
    (
        "limits (have.* )?for nodepool|max node group size reached|max cluster .* limit reached|quota exceeded",
        messages.NODE_LIMIT,
    ),
    ("no instance type|incompatible", messages.NO_INSTANCE_TYPE),
    ("^NotTriggerScaleUp ", messages.NO_SCALE_UP),
)
#: Of kubernetes-sigs/kueue v0.19.2 (pkg/controller/core/workload_controller.go).
_QUEUES = (
    ("Queue .*(missing|doesn't exist)", messages.QUEUE_MISSING),
    ("Queue .*(inactive|stopped)", messages.QUEUE_ON_HOLD),
)


def for_a_node(pod: "observed.ObservedPod", *, by_kueue: bool) -> messages.Waits:
    """Of a pod without a node: an autoscaler's words first, as the scheduler's read like a wrong selector.

    Kueue's topology may have chosen its node, of which the scheduler says nothing.
    """
    scheduler, said = one_line(pod.scheduling_message or ""), pod.said
    if by_kueue:
        return messages.NODE_OF_TOPOLOGY.of(pod=pod.name, node=pod.host, then=f"scheduler: {scheduler}")
    if said is None and pod.scheduler is not None:
        return messages.SCHEDULER_SILENT.of(pod=pod.name, scheduler=pod.scheduler)
    if said is None:
        return messages.UNSCHEDULABLE.of(scheduler, pod=pod.name)
    words, found = _recognized(_AUTOSCALERS, f"{said.reason} {said.message}") or ("", messages.UNSCHEDULABLE)
    parts = dict.fromkeys(one_line(said.message).split("; "))  # of Karpenter, one for each NodePool
    news = "; ".join([part for part in parts if words and re.search(words, part)] or parts)
    then = f"scheduler: {scheduler}" if scheduler else ""
    return found.of(f"{said.source}: {conditions.clamped(news, _NEWS_MAX)}", pod=pod.name, then=then)


def admission(
    live: "Sequence[observed.ObservedJob]",
    entries: "Mapping[str, ledger.AttemptRecord]",
    *,
    is_served: bool,
    now: float,
) -> messages.Waits | None:
    """Of the first Job that waits, one in trouble before all; Admitted where none waits, None where none is in a queue.

    A Job may be in a queue though its benchmark names none: Kueue gives it one, or somebody does.
    """
    suspended = [(job, sum(run.summed for run in entries[job.key].segments)) for job in live if job.suspended]
    if suspended:
        whys = (_why(job, evictions, is_served=is_served, now=now) for job, evictions in suspended)
        return min(whys, key=lambda why: why.reason in WAITS_WELL)
    queues = sorted({job.queue for job in live if job.queue is not None})
    many = units.counted(len(live), "Job was", "Jobs were")
    return messages.Waits(conditions.ADMITTED, f"{many} admitted by queue {', '.join(queues)}") if queues else None


def _why(job: "observed.ObservedJob", evictions: int, *, is_served: bool, now: float) -> messages.Waits:
    named: dict[str, Any] = {"job": job.name, "queue": job.queue, "who": job.changed_by}
    work = job.workload
    if job.queue is None or not is_served:
        others = messages.SUSPENDED_BY_KUEUE if is_served else messages.SUSPENDED_BY_OTHERS
        return (others if job.queue is None else messages.KUEUE_ABSENT).of(**named, group=names.KUEUE_GROUP)
    if job.lacks_workload and now >= max(job.created_at, job.suspended_since or 0.0) + WORKLOAD_SECONDS:
        return messages.WORKLOAD_MISSING.of(**named)
    if work is not None and not work.active:
        why = one_line(work.evicted.message) if work.evicted is not None else ""
        return messages.DEACTIVATED.of(why, **named, workload=work.name)
    if work is not None and work.is_reserved and work.checks:
        checks = ", ".join(f"{one.source} ({one.reason}: {one_line(one.message)})" for one in work.checks)
        return messages.WAITING_FOR_CHECKS.of(**named, checks=checks)
    word = work and (work.waits or work.evicted)  # of one that is evicted just now, why
    said = one_line(word.message) if word else ""
    often = "once" if evictions == 1 else f"{evictions} times"
    _, message = _recognized(_QUEUES, said) or ("", messages.QUEUE_EVICTED if evictions else messages.WAITING_FOR_QUEUE)
    return message.of(said, **named, often=often)


def deleted(job: str, meanwhile: str, said: str | None = None) -> str:
    """Of a Job that somebody else has deleted: what it did meanwhile, and the last word on it."""
    return f"Job {job} was deleted by somebody else while it {meanwhile}" + (f"; before: {said}" if said else "")


def _recognized(known: Iterable[tuple[str, messages.Message]], text: str) -> tuple[str, messages.Message] | None:
    return next(((words, message) for words, message in known if re.search(words, text)), None)


def one_line(text: str) -> str:
    """A message without line breaks and colours: what a program or a runtime says goes on for pages."""
    return " ".join("".join(one if one.isprintable() else " " for one in records.COLOURS.sub("", text)).split())
