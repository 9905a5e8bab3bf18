# SPDX-License-Identifier: Apache-2.0
"""Why did an attempt end? Evidence first, texts last.

A Job's controller looks pod by pod, so in a gang the pod that fails first is often not the pod that failed: the sibling
of an evicted rank sees a broken connection before the eviction shows. Hence the order here:

1. a DisruptionTarget condition on *any* pod outranks everything but a result that is already there;
2. a result of pod 0;
3. a node of the gang that is gone, silent or about to go, where no pod says more than that it lost somebody, was told
   to end or was killed: not every node that goes has its pods marked before;
4. among the pods that ended, the one whose exit code tells most (`_TELLING`), a lost peer and a SIGTERM telling least;
5. the Job's own reason;
6. while nothing has ended: the time-outs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpubench import exitcodes, records
from gpubench.exitcodes import ExitCode
from gpubench.plan.plan import Timing
from gpubench.records import Failure, Result, UnreadableMessage
from gpubench.scheduler.ledger import Interruption, Outcome, Reason
from gpubench.scheduler.observed import NODE_SILENT_SECONDS, Disruption, ObservedJob, ObservedNode, ObservedPod
from gpubench.values import FrozenModel

SETTLE_SECONDS = 90.0  # a failing Job whose pods do not end (a dead node) is judged by what is there after this long
IMAGE_GRACE_SECONDS = 120.0  # after the pod was scheduled; a registry may be away for a moment
SKEW_SECONDS = 5.0  # between the API server's clock and ours
#: A pod that was killed, and nobody says by whom, may have been on a node that is going: the cluster misses a node
#: after 50 s, and only then is it a failure of the pod's own.
WITNESS_SECONDS = 60.0
#: A node that is gone has had its pods taken away by the garbage collector long before; where that does not happen,
#: nobody waits for longer.
NODE_GONE_SECONDS = 120.0

_REASON_BY_CODE = {
    ExitCode.BAD_ASSIGNMENT: Reason.BAD_ASSIGNMENT,
    ExitCode.UNSUPPORTED_ACCELERATOR: Reason.UNSUPPORTED_ACCELERATOR,
    ExitCode.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    ExitCode.SIZE_MISMATCH: Reason.SIZE_MISMATCH,
    ExitCode.LOSS_NOT_FINITE: Reason.LOSS_NOT_FINITE,
    ExitCode.DATA_UNUSABLE: Reason.DATA_UNUSABLE,
    ExitCode.CUSTOM_MODEL_FAILED: Reason.CUSTOM_MODEL_FAILED,
    ExitCode.WORKER_RAISED: Reason.WORKER_RAISED,
    ExitCode.JOIN_TIMEOUT: Reason.JOIN_TIMEOUT,
    ExitCode.PEER_LOST: Reason.PEER_LOST,
    ExitCode.STALLED: Reason.STALLED,
    ExitCode.TERMINATED: Reason.TERMINATED,
    ExitCode.RESULT_NOT_WRITTEN: Reason.RESULT_LOST,
    ExitCode.DISK_FULL: Reason.DISK_FULL,
}
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
    Reason.RESULT_LOST,
    Reason.EXITED,
    Reason.STALLED,
    Reason.JOIN_TIMEOUT,
    Reason.PEER_LOST,
    Reason.TERMINATED,
)
#: Ends that say nothing of the pod itself: somebody else was lost, or did not come.
_OF_OTHERS = frozenset({Reason.STALLED, Reason.JOIN_TIMEOUT, Reason.PEER_LOST})
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
_EVICTED = "Evicted"  # of a pod whose kubelet gives it no DisruptionTarget: it never ran
_NOT_STARTED = "PodNotStarted"


class AttemptOutcome(FrozenModel):
    """How and why an attempt ended."""

    outcome: Outcome
    reason: Reason
    message: str
    disruption: str | None = None
    interruption: Interruption | None = None
    exit_code: int | None = None
    result: Result | None = None


class NodeStates(NamedTuple):
    """What is known of the nodes of an attempt."""

    by_name: Mapping[str, ObservedNode] = {}
    placed: tuple[str, ...] = ()  # the nodes of all of its pods, by the pods' indices, as the ledger has them
    silent_seconds: float = NODE_SILENT_SECONDS


_UNSEEN = NodeStates()


def classify(
    job: ObservedJob,
    *,
    nodes: int,
    timing: Timing,
    now: float,
    workers: int | None = None,
    batch: int | None = None,
    epochs: int | None = None,
    nodes_seen: NodeStates = _UNSEEN,
) -> AttemptOutcome | None:
    """How an attempt of `nodes` pods ended; None while it runs.

    `workers`, batch of each and epochs (in mode Training) are what a user's own program was asked for, whose record
    nobody else has counted; None where ranks of ours have written it.
    """
    asked = (workers, batch, epochs) if workers is not None else None
    if _waits_in_a_queue(job):
        found = _succeeded(job, asked=asked) or _deleted(job)
        return found and found.model_copy(update={"message": _one_line(found.message)})
    found = (
        _succeeded(job, asked=asked)
        or _disrupted(job, nodes=nodes, nodes_seen=nodes_seen)
        or _result_lost(job)
        or _node_lost(job, nodes=nodes, nodes_seen=nodes_seen, now=now)
        or _failed(job, nodes_seen=nodes_seen, now=now)
        or _deleted(job)
        or _image_not_started(job, now=now)
        or _timed_out(job, nodes=nodes, timing=timing, now=now)
    )
    return found and found.model_copy(update={"message": _one_line(found.message)})


def _waits_in_a_queue(job: ObservedJob) -> bool:
    """Whether it is suspended and has not ended by itself before: then it has no time limit, and no failure counts."""
    return job.suspended and not (job.complete or job.failed or job.failing_since is not None)


def next_deadline(job: ObservedJob, *, nodes: int, timing: Timing, nodes_seen: NodeStates = _UNSEEN) -> float | None:
    """When `classify` may find an end though nothing happens; None of a Job that waits in a queue."""
    if _waits_in_a_queue(job):
        return None
    if job.failing_since is not None:
        return job.failing_since + (WITNESS_SECONDS if job.failed else SETTLE_SECONDS)
    deadlines = [_time_limit(job, nodes=nodes, timing=timing)]
    deadlines += [
        moment
        for seat in _seats(job, nodes=nodes, nodes_seen=nodes_seen)
        if (moment := _given_up_at(seat.node, nodes_seen)) is not None
    ]
    deadlines += [
        pod.scheduled_at + IMAGE_GRACE_SECONDS
        for pod in job.pods
        if pod.waiting_reason in _IMAGE_AFTER_GRACE and pod.scheduled_at is not None
    ]
    return min(deadlines)


def nodes_in_question(job: ObservedJob, *, placed: tuple[str, ...]) -> frozenset[str]:
    """Nodes of an attempt whose state of this moment may decide its outcome; none while all is well."""
    odd = any(pod.disruption is not None or pod.deleting or _mute_reason(pod) is not None for pod in job.pods)
    if not (odd or job.failing_since is not None or len(job.pods) < len(placed)):
        return frozenset()
    return frozenset((*placed, *(pod.node for pod in job.pods if pod.node is not None)))


def pending_message(job: ObservedJob, *, nodes: int) -> tuple[str, str] | None:
    """Why a gang does not run yet, as a reason and a message; None when all of its pods run or nothing is said."""
    if job.creation_failure is not None and len(job.pods) < nodes:
        return "CreationRefused", f"pods of {job.name} are refused: {_one_line(job.creation_failure)}"
    for pod in job.pods:
        if pod.waiting_reason in _IMAGE_AT_ONCE | _IMAGE_AFTER_GRACE:
            return "ImageNotStarted", _image_message(pod)
    for pod in job.pods:
        if pod.mount_failure is not None and pod.running_at is None:
            return "VolumeNotMounted", f"pod {pod.name} does not start: {_one_line(pod.mount_failure)}"
        if pod.node is None and _CLAIM in (pod.scheduling_message or "").lower():
            return "VolumeNotMounted", f"pod {pod.name} has no node: {_one_line(pod.scheduling_message or '')}"
    for pod in job.pods:
        if pod.scheduling_message is not None and pod.node is None:
            return "Unschedulable", f"pod {pod.name} has no node: {_one_line(pod.scheduling_message)}"
    return None


def all_running_since(job: ObservedJob, *, nodes: int) -> float | None:
    """When the last pod of the gang started, once all of them have."""
    starts = [pod.running_at for pod in job.pods if pod.running_at is not None]
    return max(starts) if len(starts) >= nodes else None


def _has_lost_a_pod(job: ObservedJob, *, nodes: int) -> bool:
    """Pods that run and pods that are simply not there: the gang was complete once, for no pod of it is waiting."""
    refused = job.creation_failure is not None
    return not refused and 0 < len(job.pods) < nodes and all(pod.running_at is not None for pod in job.pods)


_Asked = tuple[int, int | None, int | None]  # of a user's own program: workers, batch of each, epochs


def _succeeded(job: ObservedJob, *, asked: _Asked | None) -> AttemptOutcome | None:
    for pod in _first_pods(job):
        ending = _ending(pod)
        if pod.end is not None and pod.end.exit_code == 0 and isinstance(ending, Result) and _ours(ending, job):
            if asked is not None and (wrong := _not_as_asked(ending, asked, job, pod)):
                return AttemptOutcome(
                    outcome=Outcome.FAILED,
                    reason=Reason.RESULT_LOST,
                    message=f"the record of Job {job.name} {wrong}",
                    exit_code=0,
                )
            return AttemptOutcome(
                outcome=Outcome.SUCCEEDED,
                reason=Reason.COMPLETED,
                message=f"measured {ending.samples} samples in {ending.windows} windows",
                exit_code=0,
                result=ending,
            )
    return None


def _not_as_asked(result: Result, asked: _Asked, job: ObservedJob, pod: ObservedPod) -> str | None:
    """What in a record of a user's own program is not what was asked for."""
    workers, batch, epochs = asked
    if result.workers != workers:
        return f"counts workers {result.workers}, and {workers} were asked for: write those of its assignment"
    trained = result.training.epochs if result.training is not None else None
    if batch is not None and trained != epochs:
        return f"counts training.epochs {trained or 'none'}, and {epochs or 'none'} were asked for: write these"
    samples = result.steps * (batch or 0) * workers
    if batch is not None and trained is None and result.samples != samples:
        return f"counts samples {result.samples}, and {result.steps} steps have {samples}: count those of all ranks"
    if result.resumed is not None and result.resumed.attempt == result.attempt and job.queue is None:
        return f"has resumed.attempt {result.attempt}, which is its own: write that of the checkpoint"
    return _longer_than_it_lived(result, pod)


def _longer_than_it_lived(result: Result, pod: ObservedPod) -> str | None:
    if pod.end is None or pod.end.started_at is None or pod.end.finished_at is None:
        return None
    before = result.resumed.useful_seconds if result.resumed is not None else 0.0  # by earlier attempts
    times = {
        "nanoseconds": result.nanoseconds / 1e9 - before,
        "joinSeconds": result.join_seconds,
        "initSeconds": result.init_seconds,
    }
    lived = max(0.0, pod.end.finished_at - pod.end.started_at)
    for name, seconds in times.items():
        if seconds > lived + SKEW_SECONDS:
            return f"has {seconds:.6g} s as {name}, and its pod lived for {lived:.0f} s: write what was timed"
    return None


def _disrupted(job: ObservedJob, *, nodes: int, nodes_seen: NodeStates) -> AttemptOutcome | None:
    for pod in job.pods:
        if pod.disruption is not None:
            disk_full = _is_for_its_disk(pod.disruption)
            return AttemptOutcome(
                outcome=Outcome.FAILED if disk_full else Outcome.PREEMPTED,
                reason=Reason.DISK_FULL if disk_full else Reason.DISRUPTED,
                message=f"pod {pod.name} on node {pod.node or 'none'} was disrupted ({pod.disruption.reason}): "
                f"{pod.disruption.message}",
                disruption=pod.disruption.reason,
                interruption=None
                if disk_full
                else of_disruption(pod.disruption, nodes_seen.by_name.get(pod.node or "")),
                exit_code=pod.end.exit_code if pod.end else None,
            )
    # The Job controller lets a counted pod go within a second: then its word is all that is left of the evidence.
    if job.failed_reason == "PodFailurePolicy" and "DisruptionTarget" in (job.failed_message or ""):
        lost = next(
            (seat.node for seat in _seats(job, nodes=nodes, nodes_seen=nodes_seen) if _is_in_trouble(seat)), None
        )
        return AttemptOutcome(
            outcome=Outcome.PREEMPTED,
            reason=Reason.DISRUPTED,
            message=f"a pod of Job {job.name} was disrupted and is gone: {job.failed_message}",
            interruption=None if lost is None else of_node(lost),
        )
    return None


def _is_for_its_disk(disruption: Disruption) -> bool:
    """Whether a kubelet evicted the pod because a disk is full: a fault that comes again, and no reclaimed node."""
    return disruption.reason == _BY_THE_KUBELET and _speaks_of_a_disk(disruption.message)


def _speaks_of_a_disk(message: str) -> bool:
    said = message.lower()
    return any(word in said for word in _DISK)


# --- nodes that go without a word to their pods -----------------------------------------------------------------------


class _Seat(NamedTuple):
    """A node of the attempt that the cluster knows, and the pod on it; None where that is gone."""

    pod: ObservedPod | None
    node: ObservedNode


def _seats(job: ObservedJob, *, nodes: int, nodes_seen: NodeStates) -> Iterator[_Seat]:
    """Where pods of the gang are that have not ended well, and where those were that are gone."""
    known = nodes_seen.by_name
    for pod in job.pods:
        node = known.get(pod.node or "")
        if node is not None and not (pod.end is not None and pod.end.exit_code == 0):
            yield _Seat(pod, node)
    if len(nodes_seen.placed) == nodes:  # else there was never a whole gang, or nobody knows which pod was where
        there = {pod.index for pod in job.pods}
        for index, name in enumerate(nodes_seen.placed):
            if index not in there and name in known:
                yield _Seat(None, known[name])


def _node_lost(job: ObservedJob, *, nodes: int, nodes_seen: NodeStates, now: float) -> AttemptOutcome | None:
    if job.deleting or job.failed_reason == "DeadlineExceeded" or any(map(_speaks_for_itself, job.pods)):
        return None
    for seat in _seats(job, nodes=nodes, nodes_seen=nodes_seen):
        what = (
            _gone(seat, job, now=now)
            or _silent(seat, job, silent_seconds=nodes_seen.silent_seconds, now=now)
            or _leaving(seat, job)
        )
        if what is not None:
            reason, interruption, message = what
            return AttemptOutcome(
                outcome=Outcome.PREEMPTED,
                reason=reason,
                message=message,
                interruption=interruption,
                exit_code=seat.pod.end.exit_code if seat.pod is not None and seat.pod.end is not None else None,
            )
    return None


_Loss = tuple[Reason, Interruption, str]


def _gone(seat: _Seat, job: ObservedJob, *, now: float) -> _Loss | None:
    """The Node object is not there any more: its machine was taken away, by whomever."""
    if seat.node.gone_since is None:
        return None
    late = now >= seat.node.gone_since + NODE_GONE_SECONDS
    if not (_is_going(seat.pod) or _has_ended_in_part(job) or late):
        return None
    message = f"node {seat.node.name}{_of_pod(seat)} is gone from the cluster"
    return Reason.NODE_LOST, of_node(seat.node), message


def _silent(seat: _Seat, job: ObservedJob, *, silent_seconds: float, now: float) -> _Loss | None:
    """The kubelet does not report. It may come back with its pods, unless others have missed them, or it takes long."""
    if seat.node.ready is not False:
        return None
    late = seat.node.silent_since is not None and now >= seat.node.silent_since + silent_seconds
    if not (seat.pod is None or _has_ended_in_part(job) or late):
        return None
    taint = leaving(seat.node)
    reclaimed = taint is not None and LEAVING[taint] is Interruption.RECLAIM
    said = f" (it was to be reclaimed: {taint})" if reclaimed else ""
    return (
        Reason.NODE_LOST,
        Interruption.RECLAIM if reclaimed else Interruption.NODE_LOST,
        f"node {seat.node.name}{_of_pod(seat)} is not ready, and its pod does not answer any more{said}",
    )


def _leaving(seat: _Seat, job: ObservedJob) -> _Loss | None:
    """The node is about to go, and its pod was the first one that somebody told to end."""
    taint = leaving(seat.node)
    if taint is None:
        return None
    killed = [pod for pod in job.pods if _was_killed(pod)]
    first = min((_finished_at(pod) for pod in killed), default=None)
    if seat.pod is None:
        is_first = first is None
    elif _was_killed(seat.pod):
        is_first = _finished_at(seat.pod) == first
    else:
        is_first = seat.pod.deleting and seat.pod.end is None and first is None and job.failing_since is None
    # Whoever stalls has a reason of its own, and the Job controller ends the others for it.
    if not is_first or any(_mute_reason(pod) in (Reason.STALLED, Reason.JOIN_TIMEOUT) for pod in job.pods):
        return None
    who = "a pod" if seat.pod is None else f"pod {seat.pod.name}"
    message = f"{who} was told to end on node {seat.node.name}, which is about to go ({taint})"
    return Reason.NODE_LEAVING, LEAVING[taint], message


def _of_pod(seat: _Seat) -> str:
    return "" if seat.pod is None else f" of pod {seat.pod.name}"


def _is_in_trouble(seat: _Seat) -> bool:
    node = seat.node
    return node.gone_since is not None or node.ready is False or leaving(node) is not None


def _given_up_at(node: ObservedNode, nodes_seen: NodeStates) -> float | None:
    """From when on a gang is given up for a node of it, whatever becomes of the others."""
    if node.gone_since is not None:
        return node.gone_since + NODE_GONE_SECONDS
    return node.silent_since + nodes_seen.silent_seconds if node.silent_since is not None else None


def _is_going(pod: ObservedPod | None) -> bool:
    return pod is None or pod.deleting or pod.end is not None


def _has_ended_in_part(job: ObservedJob) -> bool:
    """Whether somebody else of the gang has noticed."""
    return job.failing_since is not None or any(_mute_reason(pod) is not None for pod in job.pods)


def _mute_reason(pod: ObservedPod) -> Reason | None:
    """Why a pod ended, where that says nothing of the pod itself; None of one that runs or has a reason of its own."""
    if pod.end is None or pod.end.exit_code == 0:
        return None
    reason = _reason_of(pod)
    if reason in _OF_OTHERS:
        return reason
    return reason if _was_killed(pod) else None


def _was_killed(pod: ObservedPod) -> bool:
    """Whether somebody ended it, and nobody says who."""
    if pod.end is None:
        return False
    reason = _reason_of(pod)
    return reason is Reason.TERMINATED or (reason is Reason.EXITED and pod.end.exit_code in _SIGNALS)


def _finished_at(pod: ObservedPod) -> float:
    return pod.end.finished_at or 0.0 if pod.end is not None else 0.0


def _speaks_for_itself(pod: ObservedPod) -> bool:
    return pod.end is not None and pod.end.exit_code != 0 and _mute_reason(pod) is None


def _waits_for_a_witness(job: ObservedJob, pod: ObservedPod, *, nodes_seen: NodeStates, now: float) -> bool:
    """Whether a node on which a pod was killed may still turn out to be going."""
    node, since = nodes_seen.by_name.get(pod.node or ""), job.failing_since
    is_told_of = node is not None and node.ready is not None
    return is_told_of and _was_killed(pod) and since is not None and now < since + WITNESS_SECONDS


# --- results that are lost, failures, time-outs -----------------------------------------------------------------------


def _result_lost(job: ObservedJob) -> AttemptOutcome | None:
    ended_well = [pod for pod in _first_pods(job) if pod.end is not None and pod.end.exit_code == 0]
    if not (job.complete or ended_well):
        return None
    if not ended_well:
        why = "its first pod is gone"
    else:
        try:
            ending = records.read_ending((ended_well[0].end and ended_well[0].end.message) or "")
            why = f"the record is of trial {ending.trial}, attempt {ending.attempt}"
        except UnreadableMessage as error:
            why = str(error)
    return AttemptOutcome(
        outcome=Outcome.FAILED,
        reason=Reason.RESULT_LOST,
        message=f"Job {job.name} completed and its result is lost: {why}",
        exit_code=0,
    )


def _failed(job: ObservedJob, *, nodes_seen: NodeStates, now: float) -> AttemptOutcome | None:
    settled = job.failing_since is not None and now >= job.failing_since + SETTLE_SECONDS
    if not (job.failed or settled):
        return None
    if job.failed_reason == "DeadlineExceeded":
        return AttemptOutcome(
            outcome=Outcome.FAILED,
            reason=Reason.TIMED_OUT,
            message=f"Job {job.name} was stopped by its deadline: {job.failed_message or 'active for too long'}",
        )
    found = [(_reason_of(pod), pod) for pod in job.pods if pod.end is not None and pod.end.exit_code != 0]
    if not found:
        return AttemptOutcome(
            outcome=Outcome.FAILED,
            reason=Reason.EXITED,
            message=f"Job {job.name} failed and no pod of it says why: {job.failed_message or job.failed_reason}",
        )
    reason, pod = min(found, key=lambda pair: (_TELLING.index(pair[0]), pair[1].index))
    assert pod.end is not None
    if _waits_for_a_witness(job, pod, nodes_seen=nodes_seen, now=now):
        return None
    return AttemptOutcome(
        outcome=Outcome.FAILED,
        reason=reason,
        message=_failure_message(pod, reason),
        exit_code=pod.end.exit_code,
    )


def _deleted(job: ObservedJob) -> AttemptOutcome | None:
    if not job.deleting:
        return None
    return AttemptOutcome(
        outcome=Outcome.FAILED,
        reason=Reason.JOB_VANISHED,
        message=f"Job {job.name} was deleted by somebody else while it ran",
    )


def _image_not_started(job: ObservedJob, *, now: float) -> AttemptOutcome | None:
    for pod in job.pods:
        late = pod.scheduled_at is not None and now >= pod.scheduled_at + IMAGE_GRACE_SECONDS
        if pod.waiting_reason in _IMAGE_AT_ONCE or (pod.waiting_reason in _IMAGE_AFTER_GRACE and late):
            reason = Reason.IMAGE_INVALID if pod.waiting_reason in _IMAGE_AT_ONCE else Reason.IMAGE_NOT_STARTED
            return AttemptOutcome(outcome=Outcome.FAILED, reason=reason, message=_image_message(pod))
    return None


def _timed_out(job: ObservedJob, *, nodes: int, timing: Timing, now: float) -> AttemptOutcome | None:
    if job.failing_since is not None or now < _time_limit(job, nodes=nodes, timing=timing):
        return None  # the Job controller is ending it: judged when its pods have ended, or when it has settled
    if _has_lost_a_pod(job, nodes=nodes):
        return AttemptOutcome(
            outcome=Outcome.FAILED,
            reason=Reason.POD_VANISHED,
            message=f"only {len(job.pods)} of {nodes} pods of Job {job.name} are left: somebody deleted the others",
        )
    if all_running_since(job, nodes=nodes) is not None:
        return AttemptOutcome(
            outcome=Outcome.FAILED,
            reason=Reason.TIMED_OUT,
            message=f"Job {job.name} ran for more than limits.attemptTimeout ({timing.attempt_timeout} s)",
        )
    reason, why = pending_message(job, nodes=nodes) or _not_started(job) or ("NoCapacity", "and nobody says why")
    return AttemptOutcome(
        outcome=Outcome.FAILED,
        reason={
            "CreationRefused": Reason.CREATION_REFUSED,
            "ImageNotStarted": Reason.IMAGE_NOT_STARTED,
            "VolumeNotMounted": Reason.VOLUME_NOT_MOUNTED,
            _NOT_STARTED: Reason.POD_NOT_STARTED,
        }.get(reason, Reason.NO_CAPACITY),
        message=f"not all of {nodes} pods ran within limits.schedulingTimeout ({timing.scheduling_timeout} s): {why}",
    )


def _not_started(job: ObservedJob) -> tuple[str, str] | None:
    """A pod with a node and without a container, of which nobody says anything: there is room, and no kubelet acts."""
    for pod in job.pods:
        if pod.node is not None and pod.running_at is None and pod.end is None:
            return _NOT_STARTED, f"pod {pod.name} has node {pod.node}, which does not start it: look at that node"
    return None


def _time_limit(job: ObservedJob, *, nodes: int, timing: Timing) -> float:
    running_since = all_running_since(job, nodes=nodes)
    if running_since is None:
        return job.begun_at + timing.scheduling_timeout + SKEW_SECONDS
    return running_since + timing.attempt_timeout + SKEW_SECONDS


def _first_pods(job: ObservedJob) -> tuple[ObservedPod, ...]:
    return tuple(pod for pod in job.pods if pod.index == 0)


def _ours(ending: Result | Failure, job: ObservedJob) -> bool:
    return (ending.trial, ending.attempt) == (job.trial, job.attempt)


def _ending(pod: ObservedPod) -> Result | Failure | None:
    if pod.end is None or not pod.end.message:
        return None
    try:
        return records.read_ending(pod.end.message)
    except UnreadableMessage:
        return None  # said by _result_lost where a result was due; a failing pod has its exit code


def _reason_of(pod: ObservedPod) -> Reason:
    assert pod.end is not None
    if pod.end.reason == "OOMKilled":
        return Reason.OUT_OF_MEMORY
    if pod.end.reason == _EVICTED and _speaks_of_a_disk(pod.end.message or ""):
        return Reason.DISK_FULL
    code = exitcodes.named(pod.end.exit_code)
    return _REASON_BY_CODE.get(code, Reason.EXITED) if code is not None else Reason.EXITED


def _failure_message(pod: ObservedPod, reason: Reason) -> str:
    assert pod.end is not None
    ending = _ending(pod)
    if isinstance(ending, Failure):
        return f"pod {pod.name}: {ending.sentence}"
    if pod.end.reason == "OOMKilled":
        return f"pod {pod.name} was killed for memory: give the pool's slot.memory more, or the point a smaller batch"
    code = pod.end.exit_code
    how = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    said = _said(pod.end.message)
    return f"pod {pod.name} ended with {how} ({reason.value}){said}"


def _said(message: str | None) -> str:
    """What a failed pod has left that is no failure's record; of half a record, or of a result, that it is one."""
    if not message or not message.strip():
        return ""
    try:
        records.read_ending(message)
    except UnreadableMessage as error:
        if not isinstance(error, records.CutMessage) and '"windowNanoseconds"' not in message:
            return f": {message.strip()}"
        return f": {error}"
    return ": it had written a result before it ended"


def _image_message(pod: ObservedPod) -> str:
    said = _one_line(pod.waiting_message or "no message")
    return f"pod {pod.name} does not start: {pod.waiting_reason}: {said}"


def _one_line(text: str) -> str:
    """A message without line breaks and colours: what a program or a runtime says goes on for pages."""
    return " ".join("".join(one if one.isprintable() else " " for one in records.COLOURS.sub("", text)).split())


# --- who took a node or a pod away -----------------------------------------------------------------------------------
#
# A reclaim is what spot is cheap for; an eviction is the cluster's own doing and would hit nodes on demand as well; a
# node that is lost gave no notice. They are counted apart: only the first is an argument about capacity types.
#
# Kinds come from what was seen: the reason of DisruptionTarget
# (https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions), and taints that whoever
# is about to take a node away puts on it. Must not happen: a kind that was guessed. Where nothing tells it, there is
# none.

#: Taints of nodes that are about to go, and who puts them there. A key alone says it: the values are times and names.
LEAVING: Mapping[str, Interruption] = {
    # https://github.com/aws/aws-node-termination-handler
    "aws-node-termination-handler/spot-itn": Interruption.RECLAIM,
    "aws-node-termination-handler/rebalance-recommendation": Interruption.RECLAIM,
    "aws-node-termination-handler/scheduled-maintenance": Interruption.RECLAIM,
    "aws-node-termination-handler/asg-lifecycle-termination": Interruption.RECLAIM,
    # GKE, ahead of a preemption or of maintenance
    "cloud.google.com/impending-node-termination": Interruption.RECLAIM,
    # the cloud controller: the machine has been shut down
    "node.cloudprovider.kubernetes.io/shutdown": Interruption.RECLAIM,
    # https://github.com/kubernetes/autoscaler: the node is drained and deleted
    "ToBeDeletedByClusterAutoscaler": Interruption.EVICTION,
    # https://karpenter.sh: since 1.0, and before. It drains for a reclaim as for anything else, and does not say which.
    "karpenter.sh/disrupted": Interruption.EVICTION,
    "karpenter.sh/disruption": Interruption.EVICTION,
    # cordoned: `kubectl drain` begins with it
    "node.kubernetes.io/unschedulable": Interruption.EVICTION,
}

_BY_REASON = {
    "EvictionByEvictionAPI": Interruption.EVICTION,  # a drain, an autoscaler, somebody's request
    "PreemptionByScheduler": Interruption.EVICTION,  # room for a pod of a higher priority
    "DeletionByPodGC": Interruption.NODE_LOST,  # the pod's node does not exist any more
}
_TAINT_MANAGER = "DeletionByTaintManager"
_KUBELET = "TerminationByKubelet"
_SHUTDOWN = "node shutdown"  # in the kubelet's message; else it evicts for memory, disk, or a pod of the system


def leaving(node: ObservedNode) -> str | None:
    """The taint that says that a node is about to go; the one of a reclaim where there are several."""
    found = [taint for taint in node.taints if taint in LEAVING]
    return min(found, key=lambda taint: (LEAVING[taint] is not Interruption.RECLAIM, taint), default=None)


def of_node(node: ObservedNode) -> Interruption:
    """What became of a node that is gone, silent or about to go."""
    taint = leaving(node)
    return Interruption.NODE_LOST if taint is None else LEAVING[taint]


def of_disruption(disruption: Disruption, node: ObservedNode | None) -> Interruption | None:
    """What a DisruptionTarget is, with what is known of its pod's node; None where that does not tell it.

    A node that is being reclaimed is drained first: its taint says more than the eviction.
    """
    taint = None if node is None else leaving(node)
    if taint is not None and LEAVING[taint] is Interruption.RECLAIM:
        return Interruption.RECLAIM
    if disruption.reason == _KUBELET:
        return Interruption.RECLAIM if _SHUTDOWN in disruption.message.lower() else Interruption.EVICTION
    if disruption.reason != _TAINT_MANAGER:
        return _BY_REASON.get(disruption.reason) if taint is None else LEAVING[taint]
    if node is None or (node.ready is None and node.gone_since is None):
        return None
    return Interruption.EVICTION if node.ready else Interruption.NODE_LOST
