# SPDX-License-Identifier: Apache-2.0
"""Runs of one attempt, one after the other: Kueue suspends a Job that it evicts, and sets the same one going again.

An eviction is no end of the attempt, and no failure: what ran until then becomes a segment of its entry, with the nodes
that it held, and the entry tells of the next run from then on.

Must not happen: nodes that were held and are in no bill; two runs that are taken for one.
"""

from gpubench.scheduler.ledger import AttemptRecord, PodTimes, Segment
from gpubench.scheduler.observed import ObservedJob, ObservedPod


def followed(job: ObservedJob, entry: AttemptRecord | None, *, pods: int, now: float) -> AttemptRecord | None:
    """The entry of an attempt that has not ended, as its Job stands in its queue; as it is where it is in none."""
    if job.queue is None:
        return entry
    found = entry or AttemptRecord(
        trial=job.trial, attempt=job.attempt, job=job.name, job_uid=job.uid, created_at=job.created_at
    )
    found = found.model_copy(update={"queue": job.queue})
    admitted_at = None if job.suspended or job.started_at is None else after(job, job.started_at)
    if found.admitted_at is not None and admitted_at != found.admitted_at:
        found = _ended(job, found, pods=pods, until=_ended_at(job, now=now))
    return found.model_copy(update={"admitted_at": admitted_at})


def placed(job: ObservedJob, entry: AttemptRecord | None) -> tuple[str, ...]:
    """The nodes in the entry of an attempt, where they are those of the run that goes on."""
    if entry is None:
        return ()
    goes_on = not job.suspended and job.started_at is not None and entry.admitted_at == after(job, job.started_at)
    return entry.nodes if job.queue is None or goes_on else ()


def _ended(job: ObservedJob, begun: AttemptRecord, *, pods: int, until: float) -> AttemptRecord:
    """The entry with its run as a segment, and nothing known of the next one."""
    assert begun.admitted_at is not None
    seen = sorted((pod for pod in job.leaving if pod.node is not None), key=lambda pod: pod.index)
    of_pods = tuple(times(job, pod, until=until) for pod in seen if pod.scheduled_at is not None)
    if len(of_pods) < pods and begun.placed_at:  # pods are gone already, and were written down when they came
        of_pods = tuple((placed, None, max(placed, after(job, until))) for placed in begun.placed_at)
    segment = Segment(
        admitted_at=begun.admitted_at,
        ended_at=after(job, until),
        nodes=begun.nodes or tuple(pod.node for pod in seen if pod.node is not None),
        pod_times=of_pods,
    )
    nothing = {"nodes": (), "placed_at": (), "instance_types": (), "zones": ()}
    return begun.model_copy(update={"segments": (*begun.segments, segment), **nothing})


def _ended_at(job: ObservedJob, *, now: float) -> float:
    """When the run ended: its pods are seen ending, or it is known since when the Job was suspended or runs again."""
    if job.leaving:
        return now
    return (job.suspended_since if job.suspended else job.started_at) or now


def times(job: ObservedJob, pod: ObservedPod, *, until: float) -> PodTimes:
    """When a pod held its node, to the millisecond; no pod for less than no time."""
    assert pod.scheduled_at is not None
    ended = (pod.end.finished_at if pod.end is not None else None) or until
    running = None if pod.running_at is None else after(job, pod.running_at)
    return after(job, pod.scheduled_at), running, after(job, max(pod.scheduled_at, ended))


def after(job: ObservedJob, moment: float) -> float:
    """Seconds after the Job's creation, to the millisecond."""
    return round(moment - job.created_at, 3)
