# SPDX-License-Identifier: Apache-2.0
"""Why a gang waits, in one word and one sentence: what the cluster said, or who holds the slots."""

from collections.abc import Mapping, Sequence

from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, evidence, manifests, starts
from gpubench.scheduler.decision import Gang
from gpubench.scheduler.observed import Observed, ObservedJob
from gpubench.scheduler.retries import TrialStanding
from gpubench.values import Value

NEWS_AFTER_SECONDS = 10.0  # a gang that is placed within this long was not waiting
STUCK_AFTER_SECONDS = (
    60.0  # beyond the grace period: a kubelet under load may need half a minute to say that a pod ended
)


class Pending(Value):
    """Why a gang waits."""

    reason: str
    sentence: str


def pending(
    plan: Plan,
    observed: Observed,
    standings: Mapping[str, TrialStanding],
    *,
    live: Sequence[ObservedJob],
    create: Sequence[Gang],
    now: float,
) -> Pending | None:
    """The first reason that there is, the API server's refusal before all; None while nothing waits."""
    if observed.refused is not None:
        return Pending(reason=conditions.CREATION_REFUSED, sentence=observed.refused)
    said = _said_of_live(plan, live, now=now)
    if said is not None or live or create or observed.study.spec.suspend:
        return said
    waiting = [trial for trial in starts.startable(plan, standings) if standings[trial.id].not_before <= now]
    return _no_room(starts.gang_of(plan, waiting[0], attempt=1), observed, now=now) if waiting else None


def stuck_at(job: ObservedJob) -> float | None:
    """From when on an attempt that was told to end is said not to let go of its nodes."""
    told = job.deleting_since or job.failing_since
    return told + manifests.GRACE_SECONDS + STUCK_AFTER_SECONDS if told is not None and job.holds_slots else None


def _said_of_live(plan: Plan, live: Sequence[ObservedJob], *, now: float) -> Pending | None:
    nodes = {trial.id: plan.points[trial.point].nodes for trial in plan.trials}
    for job in live:
        said = evidence.pending_sentence(job, nodes=nodes[job.trial])
        if said is not None and now >= job.begun_at + NEWS_AFTER_SECONDS:
            return Pending(reason=said[0], sentence=said[1])
    return None


def _no_room(gang: Gang, observed: Observed, *, now: float) -> Pending | None:
    own = [job for job in observed.jobs if job.holds_slots and job.pool == gang.pool]
    stuck = next((job for job in own if (moment := stuck_at(job)) is not None and now >= moment), None)
    if stuck is not None:
        pod = next((pod for pod in stuck.pods if pod.end is None and pod.node), None)
        where = f"pod {pod.name} on node {pod.node}" if pod else f"Job {stuck.name}"
        return Pending(
            reason=conditions.NODE_NOT_ANSWERING,
            sentence=f"{where} was told to end and does not: if the node is dead, delete its Node object",
        )
    if own:
        return None  # the study's own last attempt is about to give them back: nobody else is in the way
    free = next((entry.slots for entry in observed.free if entry.pool == gang.pool), 0)
    return Pending(
        reason=conditions.WAITING_FOR_SLOTS,
        sentence=f"an attempt needs {gang.slots} slots of pool {gang.pool} and {free} are free for this study: "
        "other studies hold the rest, or were there first",
    )
