# SPDX-License-Identifier: Apache-2.0
"""Why did an attempt end? Evidence first, texts last.

A Job's controller looks pod by pod, so in a gang the pod that fails first is often not the pod that failed: the sibling
of an evicted rank sees a broken connection before the eviction shows. Hence the order of `classify`.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from gpubench import exitcodes, names, records
from gpubench.api import messages
from gpubench.plan.plan import Timing
from gpubench.records import Failure, Result, UnreadableMessage
from gpubench.scheduler import waiting
from gpubench.scheduler.ledger import Interruption, Outcome, Reason
from gpubench.scheduler.observed import (
    NODE_SILENT_SECONDS,
    ContainerEnd,
    Disruption,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    OtherContainer,
)
from gpubench.scheduler.waiting import one_line

GRACE_SECONDS = 25  # GKE's spot nodes give 15 s, others 30; the launcher needs less than these 15
DEADLINE_SLACK_SECONDS = 120  # over both time-outs: the pods' own deadline matters only while no operator is there
SETTLE_SECONDS = 90.0  # a failing Job whose pods do not end (a dead node) is judged by what is there after this long
IMAGE_GRACE_SECONDS = 120.0  # after the pod was scheduled; a registry may be away for a moment
SKEW_SECONDS = 5.0  # between the API server's clock and ours
AHEAD_SECONDS = 3600.0  # by which no clock is ahead of ours, unless it is wrong; ours may be behind by minutes
_ANSWER_SECONDS = 5.0  # at least: a scheduler says within it why pods of a new run have no node
KEPT_SECONDS = 30.0  # in which a container beside the gang's may end by itself before its Job is deleted
#: A pod that was killed, and nobody says by whom, may have been on a node that is going: the cluster misses a node
#: after 50 s, and only then is it a failure of the pod's own.
WITNESS_SECONDS = 60.0
#: A node that is gone has had its pods taken away by the garbage collector long before; where that does not happen,
#: nobody waits for longer.
NODE_GONE_SECONDS = 120.0

# Most telling first: what a pod did itself, then what was done to it, then what it only heard of.
_TELLING = (
    Reason.OUT_OF_MEMORY,
    Reason.UNSUPPORTED_ACCELERATOR,
    Reason.BAD_ASSIGNMENT,
    Reason.SIZE_MISMATCH,
    Reason.LOSS_NOT_FINITE,
    Reason.DATA_UNUSABLE,
    Reason.CUSTOM_MODEL_FAILED,
    Reason.DISK_FULL,
    Reason.WORKER_RAISED,
    Reason.INIT_FAILED,
    Reason.POD_REFUSED,
    Reason.TIMED_OUT,
    Reason.RESULT_LOST,
    Reason.EXITED,
    Reason.STALLED,
    Reason.JOIN_TIMEOUT,
    Reason.PEER_LOST,
    Reason.TERMINATED,
)
#: Ends that say nothing of the pod itself: somebody else was lost, or did not come.
_OF_OTHERS = frozenset({Reason.STALLED, Reason.JOIN_TIMEOUT, Reason.PEER_LOST})
#: Ends of pods whose `gang` never began: nothing that ends later says more.
_NEVER_BEGAN = frozenset({Reason.INIT_FAILED, Reason.POD_REFUSED})
_SIGNALS = frozenset({137, 143})  # SIGKILL and SIGTERM, as a runtime reports them
_IMAGE_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE_AFTER_GRACE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "CreateContainerConfigError", "CreateContainerError"}
)
_CLAIM = "persistentvolumeclaim"  # in the scheduler's message: one that is not there, not bound, or being deleted
#: What a kubelet says of pods that it evicts, or will not take, for the disk (pkg/kubelet/eviction/helpers.go).
_DISK = (
    "ephemeral-storage",
    "ephemeral local storage",
    "local ephemeral storage",
    "emptydir volume",
    "resource: inodes",
    "diskpressure",
)
_BY_THE_KUBELET = "TerminationByKubelet"
_DEADLINE = "DeadlineExceeded"  # of a pod that its kubelet has ended for its activeDeadlineSeconds
_EVICTED = "Evicted"  # of a pod whose kubelet gives it no DisruptionTarget: it never ran
_SHUTTING_DOWN = "NodeShutdown"  # why a kubelet refuses pods: its node may be reclaimed, which shows later


class AttemptOutcome(NamedTuple):
    """How and why an attempt ended."""

    reason: Reason
    message: str
    outcome: Outcome = Outcome.FAILED
    disruption: str | None = None
    interruption: Interruption | None = None
    exit_code: int | None = None
    result: Result | None = None
    node_created_at: float | None = None  # of the node that was about to go, from which a pod was evicted


#: What a user's own program was asked for: workers, batch of each, epochs in mode Training.
Asked = tuple[int, int | None, int | None]


class Attempt(NamedTuple):
    """What an attempt is classified by."""

    job: ObservedJob
    nodes: int  # pods of its gang
    timing: Timing
    known: Mapping[str, ObservedNode] = {}  # by name
    placed: tuple[str, ...] = ()  # the nodes of all of its pods, by the pods' indices, as the ledger has them
    silent_seconds: float = NODE_SILENT_SECONDS
    asked: Asked | None = None  # of a user's own program, whose record nobody else has counted
    placed_at: tuple[float, ...] = ()  # with `placed`: seconds after the Job's creation
    keeps_checkpoints: bool = False
    pinned: str | None = None  # with placement EachNode: the only node that it may run on
    waited: float = 0.0  # seconds for which its point has waited for first nodes before this run
    held: float = 0.0  # seconds for which runs of it before have held a part of their nodes


def classify(attempt: Attempt, *, now: float) -> AttemptOutcome | None:
    job = attempt.job
    if (end := _succeeded(attempt) or _pinned_node_gone(attempt)) is None and job.disowned is not None:
        why = f"somebody else, as a webhook, changed {job.disowned} of Job {job.name}, by which it is found"
        end = AttemptOutcome(Reason.JOB_CHANGED, f"{why}, so it was ended: exempt the Jobs of benchmarks from that")
    if _waits_in_a_queue(job):
        end = end or _given_up(job) or _deleted(job)
    else:
        end = (
            end
            # A DisruptionTarget on *any* pod outranks everything but a result that is already there.
            or _disrupted(attempt)
            or _result_lost(job)
            # No pod says more than that it lost somebody, was told to end or was killed, and a node is gone, silent or
            # about to go: not every node that goes has its pods marked before.
            or _node_lost(attempt, now)
            # The pod whose exit code tells most, else the Job's own reason.
            or _failed(attempt, now)
            or _deleted(job)
            or _image_not_started(job, now)
            or _timed_out(attempt, now)
            or _announced(attempt)
        )
    if end is not None and end.outcome is Outcome.FAILED and job.rewritten is not None:
        why = f"a webhook wrote {job.rewritten} into its Job, with which no gang runs well: exempt the Job from it"
        end = end._replace(message=f"{end.message}; {why}")
    return end and end._replace(message=one_line(end.message))


def _waits_in_a_queue(job: ObservedJob) -> bool:
    """Whether it waits and has not ended by itself before: then it has no time limit, and no failure counts."""
    return job.waits and not (job.complete or job.failed or job.failing_since is not None)


def next_deadline(attempt: Attempt) -> float | None:
    """When `classify` may find an end though nothing happens; None of a Job that waits in a queue."""
    job = attempt.job
    if _waits_in_a_queue(job):
        return None
    since, has_ended = _failing(attempt)
    if since is not None:
        return since + (WITNESS_SECONDS if has_ended else SETTLE_SECONDS)
    deadlines = [_time_limit(attempt)]
    for _, node in _seats(attempt):
        if node.gone_since is not None:
            deadlines.append(node.gone_since + NODE_GONE_SECONDS)
        elif node.silent_since is not None:
            deadlines.append(node.silent_since + attempt.silent_seconds)
    deadlines += [
        pod.scheduled_at + IMAGE_GRACE_SECONDS
        for pod in job.pods
        if pod.waiting_reason in _IMAGE_AFTER_GRACE and pod.scheduled_at is not None
    ]
    return min(deadlines)


def nodes_in_question(job: ObservedJob, *, placed: tuple[str, ...], pinned: str | None = None) -> frozenset[str]:
    """Nodes of an attempt whose state of this moment may decide its outcome; none while all is well."""
    if pinned is not None and first_node_at(job) is None:
        return frozenset({pinned})
    odd = any(pod.disruption is not None or pod.deleting or _mute_reason(pod) is not None for pod in job.pods)
    if not (odd or job.failing_since is not None or len(job.pods) < len(placed)):
        return frozenset()
    return frozenset((*placed, *(pod.node for pod in job.pods if pod.node is not None)))


def pending_message(job: ObservedJob, *, nodes: int) -> messages.Waits | None:
    """Why a gang does not run yet; None when all of its pods run or nothing is said."""
    if job.creation_failure is not None and len(job.pods) < nodes:
        return messages.CREATION_REFUSED.of(one_line(job.creation_failure), job=job.name)
    images = (_image_message(pod) for pod in job.pods if pod.waiting_reason in _IMAGE_AT_ONCE | _IMAGE_AFTER_GRACE)
    mounts = (
        messages.VOLUME_NOT_MOUNTED.of(one_line(pod.mount_failure), pod=pod.name)
        for pod in job.pods
        if pod.mount_failure is not None and pod.running_at is None
    )
    inits = (
        messages.POD_INITIALIZING.of(_state(pod.others[0]), pod=pod.name, container=pod.others[0].name)
        for pod in job.pods
        if pod.running_at is None and pod.end is None and pod.others
    )
    if (on_a_node := next(itertools.chain(images, mounts, inits), None)) is not None:
        return on_a_node
    if job.parallelism is not None and job.parallelism < nodes and not job.suspended:
        scaled = messages.PARTIALLY_ADMITTED if job.queue is not None else messages.SCALED_BY_OTHERS
        return scaled.of(admitted=job.parallelism, pods=nodes, job=job.name, who=job.changed_by)
    without = [pod for pod in job.pods if pod.node is None]
    claims = ((pod, one_line(pod.scheduling_message or "")) for pod in without)
    unbound = (messages.VOLUME_NOT_MOUNTED.of(said, pod=pod.name) for pod, said in claims if _CLAIM in said.lower())
    unplaced = [
        waiting.for_a_node(pod, by_kueue=job.queue is not None and pod.host not in (None, job.host))
        for pod in without
        if pod.scheduling_message or pod.said or pod.scheduler
    ]
    # That a node is being made for one of them is no help to the others.
    held_up = (one for one in unplaced if one.reason != messages.NODE_COMING.reason)
    return next(itertools.chain(unbound, held_up, unplaced), None)


def all_running_since(job: ObservedJob, *, nodes: int) -> float | None:
    """When the last pod of the gang started, once all of them have."""
    starts = [pod.running_at for pod in job.pods if pod.running_at is not None]
    return max(starts) if len(starts) >= nodes else None


def kept_since(job: ObservedJob) -> float:
    """When the work of a Job ended whose pods still hold nodes, as a container runs on; infinite where none does."""
    ends = [pod.ended_at for pod in job.pods if pod.ended_at is not None]
    return math.inf if all(pod.has_left for pod in job.pods) else max(ends, default=math.inf)


def first_node_at(job: ObservedJob) -> float | None:
    return min((pod.scheduled_at for pod in job.pods if pod.scheduled_at is not None), default=None)


def waits_for_capacity(attempt: Attempt) -> bool:
    """Whether no pod has a node, for want of nodes: that costs nothing, and its Job stays for `limits.capacityTimeout`.

    A new Job each time would withdraw what the autoscaler is asked for, and write an entry for each.
    """
    said = pending_message(attempt.job, nodes=attempt.nodes)
    return first_node_at(attempt.job) is None and (
        said is None or _reason_of_waiting(said.reason) is Reason.NO_CAPACITY
    )


def _reason_of_waiting(said: str) -> Reason:
    return next((reason for reason in Reason if reason == said), Reason.NO_CAPACITY)


# --- results, disruptions ---------------------------------------------------------------------------------------------


def _ending(end: ContainerEnd) -> Result | Failure | UnreadableMessage:
    try:
        return records.read_ending(end.message or "")
    except UnreadableMessage as error:
        return error


def _ended_well(job: ObservedJob) -> ContainerEnd | None:
    return next((pod.end for pod in job.pods if pod.index == 0 and pod.end and pod.end.exit_code == 0), None)


def _succeeded(attempt: Attempt) -> AttemptOutcome | None:
    job, end = attempt.job, _ended_well(attempt.job)
    ending = None if end is None else _ending(end)
    if end is None or not isinstance(ending, Result) or (ending.trial, ending.attempt) != (job.trial, job.attempt):
        return None
    if attempt.asked is not None and (wrong := _not_as_asked(ending, attempt.asked, job, end)) is not None:
        return AttemptOutcome(Reason.RESULT_LOST, f"the record of Job {job.name} {wrong}", exit_code=0)
    message = f"measured {ending.samples} samples in {ending.windows} windows"
    return AttemptOutcome(Reason.COMPLETED, message, Outcome.SUCCEEDED, exit_code=0, result=ending)


def _not_as_asked(result: Result, asked: Asked, job: ObservedJob, end: ContainerEnd) -> str | None:
    """What in a record of a user's own program is not what was asked for, or took longer than its pod lived."""
    workers, batch, epochs = asked
    resumed, trained = result.resumed, result.training.epochs if result.training is not None else None
    if result.workers != workers:
        return f"counts workers {result.workers}, and {workers} were asked for: write those of its assignment"
    if batch is not None and trained != epochs:
        return f"counts training.epochs {trained or 'none'}, and {epochs or 'none'} were asked for: write these"
    samples = result.steps * (batch or 0) * workers
    if batch is not None and trained is None and result.samples != samples:
        return f"counts samples {result.samples}, and {result.steps} steps have {samples}: count those of all ranks"
    if resumed is not None and resumed.attempt == result.attempt and job.queue is None:
        return f"has resumed.attempt {result.attempt}, which is its own: write that of the checkpoint"
    if end.started_at is None or end.finished_at is None:
        return None
    lived = max(0.0, end.finished_at - end.started_at)
    earlier = resumed.useful_seconds if resumed is not None else 0.0  # of attempts before this one
    times = {"nanoseconds": result.nanoseconds / 1e9 - earlier, "joinSeconds": result.join_seconds}
    too_long = (
        f"has {seconds:.6g} s as {name}, and its pod lived for {lived:.0f} s: write what was timed"
        for name, seconds in (times | {"initSeconds": result.init_seconds}).items()
        if seconds > lived + SKEW_SECONDS
    )
    return next(too_long, None)


def _disrupted(attempt: Attempt) -> AttemptOutcome | None:
    job = attempt.job
    for pod in job.pods:
        if pod.disruption is not None:
            node = None if (found := attempt.known.get(pod.node or "")) is None else _as_of(found, pod.scheduled_at)
            # A kubelet evicted it because a disk is full: a fault that comes again, and no reclaimed node.
            disk_full = pod.disruption.reason == _BY_THE_KUBELET and _speaks_of_a_disk(pod.disruption.message)
            return AttemptOutcome(
                Reason.DISK_FULL if disk_full else Reason.DISRUPTED,
                f"pod {pod.name} on node {pod.node or 'none'} was disrupted ({pod.disruption.reason}): "
                f"{pod.disruption.message}",
                Outcome.FAILED if disk_full else Outcome.PREEMPTED,
                disruption=pod.disruption.reason,
                interruption=None if disk_full else _interruption(pod.disruption, node),
                exit_code=pod.exit_code,
                node_created_at=node.created_at if node is not None and leaving(node) else None,
            )
    # The Job controller lets a counted pod go within a second: then its word is all that is left of the evidence.
    if job.failed_reason == "PodFailurePolicy" and "DisruptionTarget" in (job.failed_message or ""):
        seats = (node for _, node in _seats(attempt))
        in_trouble = (one for one in seats if one.gone_since is not None or one.ready is False or leaving(one))
        kind = next(map(_kind, in_trouble), None)
        message = f"a pod of Job {job.name} was disrupted and is gone: {job.failed_message}"
        return AttemptOutcome(Reason.DISRUPTED, message, Outcome.PREEMPTED, interruption=kind)
    return None


def _speaks_of_a_disk(message: str) -> bool:
    return any(word in message.lower() for word in _DISK)


# --- nodes that go without a word to their pods -----------------------------------------------------------------------


def _seats(attempt: Attempt) -> Iterator[tuple[ObservedPod | None, ObservedNode]]:
    """The known nodes of pods that have not ended well, with these pods, and of those that are gone, with None.

    A node that was silent or gone when it was last seen, and was given a pod since, is so from then on at the earliest.
    """
    job, known, placed = attempt.job, attempt.known, attempt.placed
    for pod in job.pods:
        if (node := known.get(pod.node or "")) is not None and pod.exit_code != 0:
            yield pod, _as_of(node, pod.scheduled_at)
    if len(placed) == attempt.nodes:  # else there was never a whole gang, or nobody knows which pod was where
        there = {pod.index for pod in job.pods}
        for index, name in enumerate(placed):
            if index not in there and name in known:
                is_known = len(attempt.placed_at) == attempt.nodes
                at = job.created_at + attempt.placed_at[index] if is_known else None
                yield None, _as_of(known[name], at)


def _as_of(node: ObservedNode, placed_at: float | None) -> ObservedNode:
    """The node that a pod was placed on then.

    A Node that was made later is another machine under its name: whoever misses the pod has lost the one of before. As
    long as nobody does, it may be the same machine after all, whose kubelet has registered it anew.
    """
    if placed_at is not None and node.created_at is not None and placed_at < node.created_at:
        before = {"gone_since": math.inf, "silent_since": None, "ready": None, "created_at": None}
        return node.model_copy(update={**before, "taints": node.taints_before})
    since = {"silent_since": node.silent_since, "gone_since": node.gone_since}
    later = {name: max(at, placed_at or at) for name, at in since.items() if at is not None}
    return node.model_copy(update=later) if later else node


def _pinned_node_gone(attempt: Attempt) -> AttemptOutcome | None:
    job, node = attempt.job, attempt.known.get(attempt.pinned or "")
    had_it = attempt.placed or first_node_at(job) is not None or job.complete or job.failing_since is not None
    if node is None or node.gone_since is None or had_it:
        return None
    remedy = "placement EachNode needs nodes that stay: keep idle ones for as long as it takes, and apply it again"
    return AttemptOutcome(Reason.NODE_GONE, f"node {node.name} is gone from the cluster: {remedy}")


def _node_lost(attempt: Attempt, now: float) -> AttemptOutcome | None:
    job = attempt.job
    speaks_for_itself = any(pod.exit_code not in (None, 0) and _mute_reason(pod) is None for pod in job.pods)
    if job.deleting or speaks_for_itself:
        return None
    for pod, node in _seats(attempt):
        if (loss := _gone_or_silent(attempt, pod, node, now) or _leaving(job, pod, node)) is not None:
            return loss._replace(outcome=Outcome.PREEMPTED, exit_code=None if pod is None else pod.exit_code)
    return None


def _gone_or_silent(attempt: Attempt, pod: ObservedPod | None, node: ObservedNode, now: float) -> AttemptOutcome | None:
    job, taint = attempt.job, leaving(node)
    # Somebody else of the gang has missed it.
    missed = job.failing_since is not None or any(_mute_reason(one) is not None for one in job.pods)
    name = node.name if pod is None else f"{node.name} of pod {pod.name}"
    if node.gone_since is not None:  # the Node object is not there any more: its machine was taken away, by whomever
        is_going = pod is None or pod.deleting or pod.end is not None
        if is_going or missed or now >= node.gone_since + NODE_GONE_SECONDS:
            another = ", and another one has its name" if node.gone_since == math.inf else ""
            message = f"node {name} is gone from the cluster{another}"
            return AttemptOutcome(Reason.NODE_LOST, message, interruption=_kind(node))
    # The kubelet does not report. It may come back with its pods, unless others have missed them, or it takes long.
    late = node.silent_since is not None and now >= node.silent_since + attempt.silent_seconds
    if node.ready is not False or not (pod is None or missed or late):
        return None
    message, kind = f"node {name} is not ready, and its pod does not answer any more", Interruption.NODE_LOST
    if LEAVING.get(taint) is Interruption.RECLAIM:
        message, kind = f"{message} (it was to be reclaimed: {taint})", Interruption.RECLAIM
    return AttemptOutcome(Reason.NODE_LOST, message, interruption=kind)


def _leaving(job: ObservedJob, pod: ObservedPod | None, node: ObservedNode) -> AttemptOutcome | None:
    """The node is about to go, and its pod was the first one that somebody told to end."""
    taint = leaving(node)
    # Whoever stalls has a reason of its own, and the Job controller ends the others for it.
    if not taint or any(_mute_reason(one) in (Reason.STALLED, Reason.JOIN_TIMEOUT) for one in job.pods):
        return None
    first = min((one.ended_at or 0.0 for one in job.pods if _was_killed(one)), default=None)
    if pod is None:
        is_first = first is None
    elif _was_killed(pod):
        is_first = (pod.ended_at or 0.0) == first
    else:
        is_first = pod.deleting and pod.end is None and first is None and job.failing_since is None
    if not is_first:
        return None
    who = "a pod" if pod is None else f"pod {pod.name}"
    message = f"{who} was told to end on node {node.name}, which is about to go ({taint})"
    return AttemptOutcome(Reason.NODE_LEAVING, message, interruption=LEAVING[taint], node_created_at=node.created_at)


def _announced(attempt: Attempt) -> AttemptOutcome | None:
    """The end of a node has a date, and of all that is running a last checkpoint can be kept: nobody waits for it.

    Only a notice that came after the pod: who tolerates the taint would otherwise never get a start on that node.
    """
    job = attempt.job
    is_ending = job.complete or job.deleting or job.failing_since is not None
    if is_ending or not attempt.keeps_checkpoints or all_running_since(job, nodes=attempt.nodes) is None:
        return None
    for pod, node in _seats(attempt):
        taint, since = leaving(node), node.leaving_since
        if taint in DATED and pod is not None and since is not None and (pod.scheduled_at or 0.0) <= since:
            message = (
                f"node {node.name} of pod {pod.name} is about to go ({taint}): all pods were told to end, so that a "
                "last checkpoint is kept"
            )
            return AttemptOutcome(Reason.NODE_LEAVING, message, Outcome.PREEMPTED, interruption=LEAVING[taint])
    return None


def leaving_nodes(attempts: Iterable[Attempt]) -> messages.Waits | None:
    seats = itertools.chain.from_iterable(map(_seats, attempts))
    found = {
        f"{node.name} ({leaving(node)})" for pod, node in seats if pod and node.gone_since is None and leaving(node)
    }
    return messages.NODE_LEAVING.of(nodes=", ".join(sorted(found))) if found else None


def _mute_reason(pod: ObservedPod) -> Reason | None:
    """Why a pod ended, where that says nothing of the pod itself; None of one that runs or has a reason of its own."""
    if pod.end is None or pod.end.exit_code == 0:
        return None
    return reason if (reason := _reason_of(pod.end)) in _OF_OTHERS or _was_killed(pod) else None


def _was_killed(pod: ObservedPod) -> bool:
    """Whether somebody ended it, and nobody says who."""
    if pod.end is None:
        return False
    reason = _reason_of(pod.end)
    return reason is Reason.TERMINATED or (reason is Reason.EXITED and pod.end.exit_code in _SIGNALS)


# --- results that are lost, failures, time-outs -----------------------------------------------------------------------


def _result_lost(job: ObservedJob) -> AttemptOutcome | None:
    if (well := _ended_well(job)) is None and not job.complete:
        return None
    why = "its first pod is gone"
    if well is not None:
        ending = _ending(well)
        why = (
            str(ending)
            if isinstance(ending, UnreadableMessage)
            else f"the record is of trial {ending.trial}, attempt {ending.attempt}"
        )
    return AttemptOutcome(Reason.RESULT_LOST, f"Job {job.name} completed and its result is lost: {why}", exit_code=0)


def _failing(attempt: Attempt) -> tuple[float | None, bool]:
    """Since when it fails, and whether all has ended.

    Its Job does not say so of a pod that a sidecar keeps, nor where a webhook lets it try again.
    """
    job = attempt.job
    ended = [pod for pod in job.pods if pod.exit_code and not pod.deleting]
    kept = [pod.ended_at for pod in ended if pod.phase != "Failed" or job.rewritten is not None]
    if job.failed or job.failing_since is not None or not kept:
        return job.failing_since, job.failed
    has_ended = len(job.pods) >= attempt.nodes and all(pod.end is not None for pod in job.pods)
    return min((at for at in kept if at is not None), default=None), has_ended


def _failed(attempt: Attempt, now: float) -> AttemptOutcome | None:
    job, (since, has_ended) = attempt.job, _failing(attempt)
    found = [(_reason_of(pod.end), pod) for pod in job.pods if pod.end is not None and pod.end.exit_code != 0]
    never_began = any(reason in _NEVER_BEGAN for reason, _ in found)
    if not (has_ended or never_began or (since is not None and now >= since + SETTLE_SECONDS)):
        return None
    # A worker that ended well, in a pod that failed: the Job failed for a container beside it, and ended the others.
    beside = [(pod, one) for pod in job.pods if pod.exit_code == 0 and pod.phase == "Failed" for one in pod.others]
    if beside and all(_mute_reason(pod) is not None for _, pod in found):
        pod, one = beside[0]
        message = (
            f"container {one.name} of pod {pod.name} failed ({_state(one)}), and with it its Job: "
            "make it a native sidecar, whose end fails nothing"
        )
        return AttemptOutcome(Reason.EXITED, message)
    if not found:
        message = f"Job {job.name} failed and no pod of it says why: {job.failed_message or job.failed_reason}"
        return AttemptOutcome(Reason.EXITED, message)
    reason, pod = min(found, key=lambda pair: (_TELLING.index(pair[0]), pair[1].index))
    node = attempt.known.get(pod.node or "")
    # Where it was killed its node may still turn out to be going.
    has_witness = node is not None and node.ready is not None and _was_killed(pod)
    if has_witness and since is not None and now < since + WITNESS_SECONDS:
        return None
    exit_code = None if reason in _NEVER_BEGAN else pod.exit_code
    return AttemptOutcome(reason, _failure_message(pod, reason), exit_code=exit_code)


def _given_up(job: ObservedJob) -> AttemptOutcome | None:
    """Kueue does not look again at a Job whose Workload is finished; another Job gets another one."""
    if job.workload is None or (finished := job.workload.finished) is None:
        return None
    message = f"Kueue has given up Job {job.name} ({finished.reason}): {finished.message}"
    return AttemptOutcome(Reason.QUEUE_GAVE_UP, message, Outcome.STOPPED)


def _deleted(job: ObservedJob) -> AttemptOutcome | None:
    if not job.deleting:
        return None
    if not job.waits:
        return AttemptOutcome(Reason.JOB_VANISHED, waiting.deleted(job.name, "ran"))
    meanwhile = f"waited in queue {job.queue}" if job.queue else "was suspended"
    evicted = job.workload and job.workload.evicted
    message = waiting.deleted(job.name, meanwhile, evicted.message if evicted else None)
    return AttemptOutcome(Reason.JOB_VANISHED, message, Outcome.STOPPED)


def _image_not_started(job: ObservedJob, now: float) -> AttemptOutcome | None:
    for pod in job.pods:
        if pod.waiting_reason in _IMAGE_AT_ONCE:
            return AttemptOutcome(Reason.IMAGE_INVALID, _image_message(pod).message)
        late = pod.scheduled_at is not None and now >= pod.scheduled_at + IMAGE_GRACE_SECONDS
        if pod.waiting_reason in _IMAGE_AFTER_GRACE and late:
            return AttemptOutcome(Reason.IMAGE_NOT_STARTED, _image_message(pod).message)
    return None


def _timed_out(attempt: Attempt, now: float) -> AttemptOutcome | None:
    job, nodes, timing = attempt.job, attempt.nodes, attempt.timing
    if _failing(attempt)[0] is not None or now < _time_limit(attempt):
        return None  # it is ending: judged when its pods have ended, or when it has settled
    all_run = all(pod.running_at is not None for pod in job.pods)
    was_whole = job.creation_failure is None and (job.parallelism or nodes) >= nodes
    if was_whole and 0 < len(job.pods) < nodes and all_run:  # none is waiting
        message = f"only {len(job.pods)} of {nodes} pods of Job {job.name} are left: somebody deleted the others"
        return AttemptOutcome(Reason.POD_VANISHED, message)
    if all_running_since(job, nodes=nodes) is not None:
        message = f"Job {job.name} ran for more than limits.attemptTimeout ({timing.attempt_timeout} s)"
        return AttemptOutcome(Reason.TIMED_OUT, message)
    pending = pending_message(job, nodes=nodes)
    idle = [pod for pod in job.pods if pod.node is not None and pod.running_at is None and pod.end is None]
    if pending is None and idle:  # nobody says anything: there is room, and no kubelet acts
        why = f"pod {idle[0].name} has node {idle[0].node}, which does not start it: look at that node"
        pending = messages.Waits(Reason.POD_NOT_STARTED, why)
    said, why = pending or messages.Waits(Reason.NO_CAPACITY, "and nobody says why")
    if said == Reason.JOB_CHANGED:
        return AttemptOutcome(Reason.JOB_CHANGED, why)
    message = f"not all of {nodes} pods ran within limits.schedulingTimeout ({timing.scheduling_timeout} s)"
    if waits_for_capacity(attempt):
        message = (
            f"waited {timing.capacity_timeout} s in all (limits.capacityTimeout) for a first of {nodes} nodes of pool "
            f"{job.pool}: start it again when the pool has nodes, or with a higher limit; last"
        )
    return AttemptOutcome(_reason_of_waiting(said), f"{message}: {why}")


def _time_limit(attempt: Attempt) -> float:
    """When it ends though nothing happens; never, where it may wait for nodes for ever."""
    job, timing = attempt.job, attempt.timing
    if (running_since := all_running_since(job, nodes=attempt.nodes)) is not None:
        return running_since + timing.attempt_timeout + SKEW_SECONDS
    if (held_since := first_node_at(job)) is not None:
        return held_since + max(timing.scheduling_timeout - attempt.held, _ANSWER_SECONDS) + SKEW_SECONDS
    if not waits_for_capacity(attempt):
        return job.begun_at + timing.scheduling_timeout + SKEW_SECONDS
    return job.begun_at + (timing.capacity_timeout or math.inf) - attempt.waited + SKEW_SECONDS


def _reason_of(end: ContainerEnd) -> Reason:
    if end.reason == "OOMKilled" and end.init is None:
        return Reason.OUT_OF_MEMORY
    if end.reason == _DEADLINE:
        return Reason.TIMED_OUT
    if end.reason == _EVICTED and _speaks_of_a_disk(end.message or ""):
        return Reason.DISK_FULL
    if end.init is not None or (end.is_refused and end.reason != _SHUTTING_DOWN):
        return Reason.INIT_FAILED if end.init is not None else Reason.POD_REFUSED
    if (code := exitcodes.named(end.exit_code)) is exitcodes.ExitCode.RESULT_NOT_WRITTEN:
        return Reason.RESULT_LOST
    return Reason.EXITED if code is None else Reason.__members__.get(code.name, Reason.EXITED)


def _failure_message(pod: ObservedPod, reason: Reason) -> str:
    """Its own words; else how it ended, and what it has left that is no failure's record."""
    assert pod.end is not None
    ending, code, message = _ending(pod.end), pod.end.exit_code, (pod.end.message or "").strip()
    if reason is Reason.INIT_FAILED:
        return f"pod {pod.name} did not start, as its init container {pod.end.init} failed ({_state(pod.end)})"
    if reason is Reason.POD_REFUSED:
        return f"node {pod.node} refused pod {pod.name} ({pod.end.reason}): {message}"
    if isinstance(ending, Failure):
        return f"pod {pod.name}: {ending.sentence}"
    if pod.end.reason == _DEADLINE:
        return f"pod {pod.name} was stopped by its own deadline (activeDeadlineSeconds)"
    if pod.end.reason == "OOMKilled":
        return f"pod {pod.name} was killed for memory: give the pool's slot.memory more, or the point a smaller batch"
    if isinstance(ending, Result):
        message = "it had written a result before it ended"
    elif isinstance(ending, records.CutMessage) or '"windowNanoseconds"' in message:
        message = str(ending)
    how = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    return f"pod {pod.name} ended with {how} ({reason.value})" + (f": {message}" if message else "")


def _state(container: OtherContainer | ContainerEnd) -> str:
    code = None if container.exit_code is None else f"exit code {container.exit_code}"
    known = ", ".join(filter(None, (container.reason, code)))
    return one_line(": ".join(filter(None, (known, container.message))))


def _image_message(pod: ObservedPod) -> messages.Waits:
    return messages.IMAGE_NOT_STARTED.of(one_line(pod.waiting_message or ""), pod=pod.name, why=pod.waiting_reason)


# --- who took a node or a pod away -----------------------------------------------------------------------------------
#
# A reclaim is what spot is cheap for; an eviction is the cluster's own doing and would hit nodes on demand as well; a
# node that is lost gave no notice. Kinds come from what was seen: the reason of DisruptionTarget
# (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions), and taints that whoever
# is about to take a node away puts on it. Must not happen: a kind that was guessed. Where nothing tells it, there is
# none.

KARPENTER = ("karpenter.sh/disrupted", "karpenter.sh/disruption")
#: The reason of Karpenter's Event about a Node upon a notice of two minutes (aws/karpenter-provider-aws,
#: pkg/controllers/interruption/events).
SPOT_INTERRUPTED = "SpotInterrupted"
#: Taints of nodes that are about to go, and who puts them there. A key alone says it: the values are times and names.
LEAVING: Mapping[str | None, Interruption] = {
    # https://github.com/aws/aws-node-termination-handler
    "aws-node-termination-handler/spot-itn": Interruption.RECLAIM,
    "aws-node-termination-handler/rebalance-recommendation": Interruption.RECLAIM,
    "aws-node-termination-handler/scheduled-maintenance": Interruption.RECLAIM,
    "aws-node-termination-handler/asg-lifecycle-termination": Interruption.RECLAIM,
    # GKE, ahead of a preemption or of maintenance; the last one is a label
    # https://cloud.google.com/kubernetes-engine/docs/concepts/handle-disruption-gpu-tpu
    "cloud.google.com/impending-node-termination": Interruption.RECLAIM,
    "cloud.google.com/maintenance-window-started": Interruption.RECLAIM,
    names.LABEL_MAINTENANCE: Interruption.RECLAIM,
    # the cloud controller: the machine has been shut down
    "node.cloudprovider.kubernetes.io/shutdown": Interruption.RECLAIM,
    # https://github.com/kubernetes/autoscaler: the node is drained and deleted
    "ToBeDeletedByClusterAutoscaler": Interruption.EVICTION,
    # https://karpenter.sh: since 1.0, and before. It drains for a reclaim as for anything else, which an Event tells.
    **dict.fromkeys(KARPENTER, Interruption.EVICTION),
    SPOT_INTERRUPTED: Interruption.RECLAIM,
    # cordoned: `kubectl drain` begins with it
    "node.kubernetes.io/unschedulable": Interruption.EVICTION,
}
#: Those after which a node ends within minutes, whatever runs there. Karpenter deletes pods itself when the grace
#: period of a NodeClaim is over, early enough for theirs.
DATED = frozenset(
    {
        "aws-node-termination-handler/spot-itn",
        "aws-node-termination-handler/scheduled-maintenance",
        "aws-node-termination-handler/asg-lifecycle-termination",
        "cloud.google.com/impending-node-termination",
        SPOT_INTERRUPTED,
    }
)
_NODE_GONE = "DeletionByPodGC"
_BY_REASON = {
    "EvictionByEvictionAPI": Interruption.EVICTION,  # a drain, an autoscaler, somebody's request
    "PreemptionByScheduler": Interruption.EVICTION,  # room for a pod of a higher priority
    _NODE_GONE: Interruption.NODE_LOST,  # the pod's node does not exist any more
}
_TAINT_MANAGER = "DeletionByTaintManager"
_SHUTDOWN = "node shutdown"  # in the kubelet's message; else it evicts for memory, disk, or a pod of the system


def told(moment: float, now: float) -> float:
    """A moment by a kubelet's clock; now where it is so far ahead that its clock must be wrong."""
    return now if moment > now + AHEAD_SECONDS else moment


def leaving(node: ObservedNode) -> str | None:
    """The taint that says that a node is about to go; the one with a date, or of a reclaim, where there are several."""
    found = [taint for taint in node.taints if taint in LEAVING]
    return min(
        found, key=lambda taint: (taint not in DATED, LEAVING[taint] is not Interruption.RECLAIM, taint), default=None
    )


def _kind(node: ObservedNode) -> Interruption:
    """What took a node away. Karpenter waits for the pods: it is not its doing if the node is gone before them."""
    taint = leaving(node)
    is_taken = node.gone_since is not None and taint in KARPENTER
    return Interruption.NODE_LOST if is_taken else LEAVING.get(taint, Interruption.NODE_LOST)


def _interruption(disruption: Disruption, node: ObservedNode | None) -> Interruption | None:
    """What a DisruptionTarget is, with what is known of its pod's node; None where that does not tell it."""
    by_taint = None if node is None else LEAVING.get(leaving(node))
    if by_taint is Interruption.RECLAIM:
        return by_taint  # a node that is being reclaimed is drained first: its taint says more than the eviction
    if disruption.reason == _BY_THE_KUBELET:
        return Interruption.RECLAIM if _SHUTDOWN in disruption.message.lower() else Interruption.EVICTION
    if disruption.reason == _NODE_GONE and node is not None and leaving(node) in KARPENTER:
        return Interruption.NODE_LOST
    if disruption.reason != _TAINT_MANAGER:
        return by_taint or _BY_REASON.get(disruption.reason)
    if node is None or (node.ready is None and node.gone_since is None):
        return None
    return Interruption.EVICTION if node.ready else Interruption.NODE_LOST


def deadline_seconds(timing: Timing) -> int:
    """For which a pod may be on its node, with the operator or without."""
    return timing.scheduling_timeout + timing.attempt_timeout + DEADLINE_SLACK_SECONDS
