# SPDX-License-Identifier: Apache-2.0
"""Why a gang waits, in one word and one sentence: what the cluster said, who holds the slots, or what Kueue says."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import names
from gpubench.plan.plan import Plan
from gpubench.scheduler import capacity, conditions, manifests, outcome, trials
from gpubench.scheduler.actions import Gang
from gpubench.scheduler.ledger import AttemptRecord
from gpubench.scheduler.observed import Observed, ObservedJob, Study
from gpubench.scheduler.trials import TrialStatus

NEWS_AFTER_SECONDS = 10.0  # a gang that is placed within this long was not waiting
#: Beyond the grace period: a kubelet under load may need half a minute to say that a pod ended.
STUCK_AFTER_SECONDS = 60.0
ADMISSION_SECONDS = 10.0  # what Kueue says of a Job that waits comes without an event of the Job


class Waits(NamedTuple):
    """Why a gang waits."""

    reason: str
    message: str


class Admission(NamedTuple):
    """Whether Kueue has admitted all Jobs under way."""

    holds: bool
    reason: str
    message: str


def pending(
    plan: Plan,
    observed: Observed,
    trials_now: Mapping[str, TrialStatus],
    *,
    live: Sequence[ObservedJob],
    create: Sequence[Gang],
    now: float,
) -> Waits | None:
    """The first reason that there is, the API server's refusal before all; None while nothing waits."""
    if observed.refused is not None:
        return Waits(reason=conditions.CREATION_REFUSED, message=observed.refused)
    said = _said_of_live(plan, live, now=now)
    if said is not None or live or create or observed.study.spec.suspend:
        return said
    waiting = [trial for trial in trials.startable(plan, trials_now) if trials_now[trial.id].not_before <= now]
    return _no_room(capacity.gang_of(plan, waiting[0], attempt=1), observed, now=now) if waiting else None


def stuck_at(job: ObservedJob) -> float | None:
    """From when on an attempt that was told to end is said not to let go of its nodes."""
    told = job.deleting_since or job.failing_since
    return told + manifests.GRACE_SECONDS + STUCK_AFTER_SECONDS if told is not None and job.holds_slots else None


def _said_of_live(plan: Plan, live: Sequence[ObservedJob], *, now: float) -> Waits | None:
    nodes = {trial.id: plan.points[trial.point].nodes for trial in plan.trials}
    for job in live:
        said = outcome.pending_sentence(job, nodes=nodes[job.trial])
        if said is not None and now >= job.begun_at + NEWS_AFTER_SECONDS:
            return Waits(*said)
    return None


def _no_room(gang: Gang, observed: Observed, *, now: float) -> Waits | None:
    own = [job for job in observed.jobs if job.holds_slots and job.pool == gang.pool]
    stuck = next((job for job in own if (moment := stuck_at(job)) is not None and now >= moment), None)
    if stuck is not None:
        pod = next((pod for pod in stuck.pods if pod.end is None and pod.node), None)
        where = f"pod {pod.name} on node {pod.node}" if pod else f"Job {stuck.name}"
        return Waits(
            reason=conditions.NODE_NOT_ANSWERING,
            message=f"{where} was told to end and does not: if the node is dead, delete its Node object",
        )
    if own:
        return None  # the study's own last attempt is about to give them back: nobody else is in the way
    free = next((entry.slots for entry in observed.free if entry.pool == gang.pool), 0)
    return Waits(
        reason=conditions.WAITING_FOR_SLOTS,
        message=f"an attempt needs {gang.slots} slots of pool {gang.pool} and {free} are free for this study: "
        "other studies hold the rest, or were there first",
    )


def admission(
    study: Study, live: Sequence[ObservedJob], entries: Mapping[str, AttemptRecord], *, is_served: bool
) -> Admission | None:
    """Of the first Job that waits, else of all; None without a queue, and while no Job is under way."""
    queue = study.spec.queue_name
    if queue is None or not live:
        return None
    waiting = next((job for job in live if job.suspended), None)
    if waiting is None:
        many = "1 Job was" if len(live) == 1 else f"{len(live)} Jobs were"
        return Admission(holds=True, reason=conditions.ADMITTED, message=f"{many} admitted by queue {queue}")
    if not is_served:
        return Admission(
            holds=False,
            reason=conditions.KUEUE_ABSENT,
            message=f"Job {waiting.name} waits for queue {queue}, and the cluster has no Kueue (no API group "
            f"{names.KUEUE_GROUP}): install it, or apply the study without spec.queueName",
        )
    said = f": {' '.join(waiting.queue_message.split())}" if waiting.queue_message else ""
    if times := len(entries[waiting.key].segments):
        often = "once" if times == 1 else f"{times} times"
        sentence = f"Job {waiting.name} was evicted from queue {queue} {often}, and waits to be admitted again{said}"
        return Admission(holds=False, reason=conditions.QUEUE_EVICTED, message=sentence)
    sentence = f"Job {waiting.name} waits in queue {queue}{said}"
    return Admission(holds=False, reason=conditions.WAITING_FOR_QUEUE, message=sentence)
