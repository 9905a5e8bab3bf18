# SPDX-License-Identifier: Apache-2.0
"""Why did an attempt end? Evidence first, texts last.

A Job's controller looks pod by pod, so in a gang the pod that fails first is often not the pod that failed: the sibling
of an evicted rank sees a broken connection before the eviction shows. Hence the order here:

1. a DisruptionTarget condition on *any* pod outranks everything but a result that is already there;
2. a result of pod 0;
3. among the pods that ended, the one whose exit code tells most (`_TELLING`), a lost peer and a SIGTERM telling least;
4. the Job's own reason;
5. while nothing has ended: the time-outs.
"""

from gpubench import exitcodes
from gpubench.control.ledger import Outcome, Reason
from gpubench.control.observed import ObservedJob, ObservedPod
from gpubench.exitcodes import ExitCode
from gpubench.measure import records
from gpubench.measure.records import Failure, Result, UnreadableMessage
from gpubench.plan.plan import Timing
from gpubench.values import Value

SETTLE_SECONDS = 90.0  # a failing Job whose pods do not end (a dead node) is judged by what is there after this long
IMAGE_GRACE_SECONDS = 120.0  # after the pod was scheduled; a registry may be away for a moment
SKEW_SECONDS = 5.0  # between the API server's clock and ours

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
    Reason.WORKER_RAISED,
    Reason.RESULT_LOST,
    Reason.EXITED,
    Reason.STALLED,
    Reason.JOIN_TIMEOUT,
    Reason.PEER_LOST,
    Reason.TERMINATED,
)
_IMAGE_AT_ONCE = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE_AFTER_GRACE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "CreateContainerConfigError", "CreateContainerError"}
)
_CLAIM = "persistentvolumeclaim"  # in the scheduler's message: one that is not there, not bound, or being deleted


class Verdict(Value):
    """How and why an attempt ended."""

    outcome: Outcome
    reason: Reason
    sentence: str
    disruption: str | None = None
    exit_code: int | None = None
    result: Result | None = None


def judge(job: ObservedJob, *, nodes: int, timing: Timing, now: float, workers: int | None = None) -> Verdict | None:
    """The verdict on an attempt of `nodes` pods, or None while it runs.

    `workers` is what the record of a user's own program must count; None where nothing else can stand there.
    """
    found = (
        _succeeded(job, workers=workers)
        or _disrupted(job)
        or _result_lost(job)
        or _failed(job, now=now)
        or _deleted(job)
        or _image_not_started(job, now=now)
        or _timed_out(job, nodes=nodes, timing=timing, now=now)
    )
    return found and found.model_copy(update={"sentence": _one_line(found.sentence)})


def next_deadline(job: ObservedJob, *, nodes: int, timing: Timing) -> float:
    """When `judge` may come to a verdict though nothing happens."""
    if job.failing_since is not None:
        return job.failing_since + SETTLE_SECONDS
    deadlines = [_time_limit(job, nodes=nodes, timing=timing)]
    deadlines += [
        pod.scheduled_at + IMAGE_GRACE_SECONDS
        for pod in job.pods
        if pod.waiting_reason in _IMAGE_AFTER_GRACE and pod.scheduled_at is not None
    ]
    return min(deadlines)


def pending_sentence(job: ObservedJob, *, nodes: int) -> tuple[str, str] | None:
    """Why a gang does not run yet, as a reason and a sentence; None when all of its pods run or nothing is said."""
    if job.creation_failure is not None and len(job.pods) < nodes:
        return "CreationRefused", f"pods of {job.name} are refused: {job.creation_failure}"
    for pod in job.pods:
        if pod.waiting_reason in _IMAGE_AT_ONCE | _IMAGE_AFTER_GRACE:
            return "ImageNotStarted", _image_sentence(pod)
    for pod in job.pods:
        if pod.mount_failure is not None and pod.running_at is None:
            return "VolumeNotMounted", f"pod {pod.name} does not start: {_one_line(pod.mount_failure)}"
        if pod.node is None and _CLAIM in (pod.scheduling_message or "").lower():
            return "VolumeNotMounted", f"pod {pod.name} has no node: {pod.scheduling_message}"
    for pod in job.pods:
        if pod.scheduling_message is not None and pod.node is None:
            return "Unschedulable", f"pod {pod.name} has no node: {pod.scheduling_message}"
    return None


def all_running_since(job: ObservedJob, *, nodes: int) -> float | None:
    """When the last pod of the gang started, once all of them have."""
    starts = [pod.running_at for pod in job.pods if pod.running_at is not None]
    return max(starts) if len(starts) >= nodes else None


def _has_lost_a_pod(job: ObservedJob, *, nodes: int) -> bool:
    """Pods that run and pods that are simply not there: the gang was complete once, for no pod of it is waiting."""
    refused = job.creation_failure is not None
    return not refused and 0 < len(job.pods) < nodes and all(pod.running_at is not None for pod in job.pods)


def _succeeded(job: ObservedJob, *, workers: int | None) -> Verdict | None:
    for pod in _first_pods(job):
        ending = _ending(pod)
        if pod.end is not None and pod.end.exit_code == 0 and isinstance(ending, Result) and _ours(ending, job):
            if workers not in (None, ending.workers):
                return Verdict(
                    outcome=Outcome.FAILED,
                    reason=Reason.RESULT_LOST,
                    sentence=f"the record of Job {job.name} counts workers {ending.workers}, and {workers} were asked "
                    "for: let the program write the workers of its assignment",
                    exit_code=0,
                )
            return Verdict(
                outcome=Outcome.SUCCEEDED,
                reason=Reason.COMPLETED,
                sentence=f"measured {ending.samples} samples in {ending.windows} windows",
                exit_code=0,
                result=ending,
            )
    return None


def _disrupted(job: ObservedJob) -> Verdict | None:
    for pod in job.pods:
        if pod.disruption is not None:
            return Verdict(
                outcome=Outcome.PREEMPTED,
                reason=Reason.DISRUPTED,
                sentence=f"pod {pod.name} on node {pod.node or 'none'} was disrupted ({pod.disruption.reason}): "
                f"{pod.disruption.message}",
                disruption=pod.disruption.reason,
                exit_code=pod.end.exit_code if pod.end else None,
            )
    # The Job controller lets a counted pod go within a second: then its word is all that is left of the evidence.
    if job.failed_reason == "PodFailurePolicy" and "DisruptionTarget" in (job.failed_message or ""):
        return Verdict(
            outcome=Outcome.PREEMPTED,
            reason=Reason.DISRUPTED,
            sentence=f"a pod of Job {job.name} was disrupted and is gone: {job.failed_message}",
        )
    return None


def _result_lost(job: ObservedJob) -> Verdict | None:
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
    return Verdict(
        outcome=Outcome.FAILED,
        reason=Reason.RESULT_LOST,
        sentence=f"Job {job.name} completed and its result is lost: {why}",
        exit_code=0,
    )


def _failed(job: ObservedJob, *, now: float) -> Verdict | None:
    settled = job.failing_since is not None and now >= job.failing_since + SETTLE_SECONDS
    if not (job.failed or settled):
        return None
    if job.failed_reason == "DeadlineExceeded":
        return Verdict(
            outcome=Outcome.FAILED,
            reason=Reason.TIMED_OUT,
            sentence=f"Job {job.name} was stopped by its deadline: {job.failed_message or 'active for too long'}",
        )
    found = [(_reason_of(pod), pod) for pod in job.pods if pod.end is not None and pod.end.exit_code != 0]
    if not found:
        return Verdict(
            outcome=Outcome.FAILED,
            reason=Reason.EXITED,
            sentence=f"Job {job.name} failed and no pod of it says why: {job.failed_message or job.failed_reason}",
        )
    reason, pod = min(found, key=lambda pair: (_TELLING.index(pair[0]), pair[1].index))
    assert pod.end is not None
    return Verdict(
        outcome=Outcome.FAILED,
        reason=reason,
        sentence=_failure_sentence(pod, reason),
        exit_code=pod.end.exit_code,
    )


def _deleted(job: ObservedJob) -> Verdict | None:
    if not job.deleting:
        return None
    return Verdict(
        outcome=Outcome.FAILED,
        reason=Reason.JOB_VANISHED,
        sentence=f"Job {job.name} was deleted by somebody else while it ran",
    )


def _image_not_started(job: ObservedJob, *, now: float) -> Verdict | None:
    for pod in job.pods:
        late = pod.scheduled_at is not None and now >= pod.scheduled_at + IMAGE_GRACE_SECONDS
        if pod.waiting_reason in _IMAGE_AT_ONCE or (pod.waiting_reason in _IMAGE_AFTER_GRACE and late):
            reason = Reason.IMAGE_INVALID if pod.waiting_reason in _IMAGE_AT_ONCE else Reason.IMAGE_NOT_STARTED
            return Verdict(outcome=Outcome.FAILED, reason=reason, sentence=_image_sentence(pod))
    return None


def _timed_out(job: ObservedJob, *, nodes: int, timing: Timing, now: float) -> Verdict | None:
    if job.failing_since is not None or now < _time_limit(job, nodes=nodes, timing=timing):
        return None  # the Job controller is ending it: judged when its pods have ended, or when it has settled
    if _has_lost_a_pod(job, nodes=nodes):
        return Verdict(
            outcome=Outcome.FAILED,
            reason=Reason.POD_VANISHED,
            sentence=f"only {len(job.pods)} of {nodes} pods of Job {job.name} are left: somebody deleted the others",
        )
    if all_running_since(job, nodes=nodes) is not None:
        return Verdict(
            outcome=Outcome.FAILED,
            reason=Reason.TIMED_OUT,
            sentence=f"Job {job.name} ran for more than limits.attemptTimeout ({timing.attempt_timeout} s)",
        )
    reason, why = pending_sentence(job, nodes=nodes) or ("NoCapacity", "and nobody says why")
    return Verdict(
        outcome=Outcome.FAILED,
        reason={
            "CreationRefused": Reason.CREATION_REFUSED,
            "ImageNotStarted": Reason.IMAGE_NOT_STARTED,
            "VolumeNotMounted": Reason.VOLUME_NOT_MOUNTED,
        }.get(reason, Reason.NO_CAPACITY),
        sentence=f"not all of {nodes} pods ran within limits.schedulingTimeout ({timing.scheduling_timeout} s): {why}",
    )


def _time_limit(job: ObservedJob, *, nodes: int, timing: Timing) -> float:
    running_since = all_running_since(job, nodes=nodes)
    if running_since is None:
        return job.created_at + timing.scheduling_timeout + SKEW_SECONDS
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
    code = exitcodes.named(pod.end.exit_code)
    return _REASON_BY_CODE.get(code, Reason.EXITED) if code is not None else Reason.EXITED


def _failure_sentence(pod: ObservedPod, reason: Reason) -> str:
    assert pod.end is not None
    ending = _ending(pod)
    if isinstance(ending, Failure):
        return f"pod {pod.name}: {ending.sentence}"
    if pod.end.reason == "OOMKilled":
        return f"pod {pod.name} was killed for memory: give the pool's slot.memory more, or the point a smaller batch"
    code = pod.end.exit_code
    how = f"signal {code - 128}" if code > 128 else f"exit code {code}"
    said = f": {pod.end.message.strip()}" if pod.end.message and pod.end.message.strip() else ""
    return f"pod {pod.name} ended with {how} ({reason.value}){said}"


def _image_sentence(pod: ObservedPod) -> str:
    return f"pod {pod.name} does not start: {pod.waiting_reason}: {pod.waiting_message or 'no message'}"


def _one_line(text: str) -> str:
    """A sentence without line breaks and colours: what a program or a runtime says goes on for pages."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
