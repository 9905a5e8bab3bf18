# SPDX-License-Identifier: Apache-2.0
"""The slots of pools that are free, what an attempt holds of them, and why a gang waits.

The count of slots keeps two benchmarks from each placing half of a gang and waiting for ever for the other half. It
goes by the pool's own bound (`maxNodes`), not by the nodes of this minute: a pool may scale from zero.
"""

import math
from collections.abc import Mapping, Sequence

from gpubench.api import measuring, messages
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.assignment import Assignment
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.scheduler import actions, outcome, stopping, trials
from gpubench.scheduler.observed import FreeSlots, Observed, ObservedJob
from gpubench.stats import stopping_rule
from gpubench.units import processors, quantity_value

STALL_TIMEOUT_SECONDS = 300.0  # at least; a step of a large model on a slow CPU takes about one minute
JOIN_SLACK_SECONDS = 30  # the operator ends a gang in parts before its pods do, who cannot know what it lacks
NEWS_AFTER_SECONDS = 10.0  # a gang that is placed within this long was not waiting
#: Of a gang without any node: an autoscaler looks every 10 s, or gathers pods for as long, and then says more.
UNSCHEDULABLE_AFTER_SECONDS = 30.0
#: Beyond the grace period: a kubelet under load may need half a minute to say that a pod ended.
_STUCK_AFTER_SECONDS = 60.0


def slots_of(point: Point, pool: GpuPoolSpec) -> int:
    """Slots that one attempt holds: all slots of its nodes when nodes are exclusive, else one for each rank."""
    return point.nodes * pool.slots_per_node if pool.exclusive_nodes else point.key.workers


def free_slots(plan: Plan, held: Mapping[str, int]) -> tuple[FreeSlots, ...]:
    return tuple(
        FreeSlots(
            pool=pool.name,
            slots=max(0, pool.spec.max_nodes * pool.spec.slots_per_node - held.get(pool.name, 0)),
            held=held.get(pool.name, 0),
        )
        for pool in plan.pools
    )


def gang_of(plan: Plan, trial: Trial, *, attempt: int) -> actions.Gang:
    point, timing = plan.points[trial.point], plan.timing
    key, pool = point.key, plan.pool(point.key.pool).spec
    assert key.batch_per_worker is not None  # a point without it is skipped and has no trial
    rule = stopping.of_plan(plan)
    ends_early = plan.mode is measuring.Mode.THROUGHPUT and not key.is_own_program
    return actions.Gang(
        assignment=Assignment(
            trial=trial.id,
            attempt=attempt,
            workload=key.workload,
            custom_file=key.custom.file if key.custom is not None else None,
            mode=plan.mode,
            epochs=key.epochs,
            data=key.data,
            variant=key.variant,
            precision=key.precision,
            workers=key.workers,
            workers_per_node=key.workers_per_node,
            batch_per_worker=key.batch_per_worker,
            seed=plan.seed + trial.repeat,
            slot_processors=float(processors(pool.slot.cpu)),
            slot_memory_bytes=int(quantity_value(pool.slot.memory)),
            gpu=pool.has_gpus,
            pin=pool.exclusive_nodes,
            warm_up_seconds=timing.warm_up,
            measure_seconds=timing.duration,
            window_seconds=timing.window,
            # How well a single run is to be known; None where it measures for its whole time.
            standard_error_wanted=stopping_rule.run_error(rule) if rule is not None and ends_early else None,
            # A program of the user's own does neither, and may refuse an assignment with words that are new to it.
            health_check=plan.health_check and not key.is_own_program,
            checkpoint=plan.checkpoint,
            join_timeout_seconds=timing.scheduling_timeout + JOIN_SLACK_SECONDS,
            # Progress is reported once a window: one that is long, or slower than it was calibrated, is no stall.
            stall_timeout_seconds=max(STALL_TIMEOUT_SECONDS, 3.0 * timing.window),
        ),
        pool=key.pool,
        nodes=point.nodes,
        slots=slots_of(point, pool),
    )


# --- why a gang waits -------------------------------------------------------------------------------------------------


def gang_waits(
    plan: Plan,
    observed: Observed,
    trials_now: Mapping[str, trials.TrialStatus],
    *,
    live: Sequence[ObservedJob],
    create: Sequence[actions.Gang],
    now: float,
) -> messages.Waits | None:
    for job in live:
        said = outcome.pending_message(job, nodes=plan.point_by_trial[job.trial].nodes)
        in_vain = said is not None and said.reason == messages.UNSCHEDULABLE.reason and not outcome.first_node_at(job)
        if said is not None and now >= job.begun_at + (UNSCHEDULABLE_AFTER_SECONDS if in_vain else NEWS_AFTER_SECONDS):
            return said
    running = {job.key for job in live}
    for job in observed.jobs:
        if job.key not in running and (said := _kept(job, now=now)) is not None:
            return said
    if live or create or observed.study.spec.suspend:
        return None
    waiting = [trial for trial in trials.startable(plan, trials_now) if trials_now[trial.id].not_before <= now]
    return _no_room(gang_of(plan, waiting[0], attempt=1), observed) if waiting else None


def stuck_at(job: ObservedJob) -> float | None:
    """From when on an attempt that was told to end is said not to let go of its nodes."""
    since = job.deleting_since or job.failing_since
    return since + outcome.GRACE_SECONDS + _STUCK_AFTER_SECONDS if since is not None and job.holds_slots else None


def _kept(job: ObservedJob, *, now: float) -> messages.Waits | None:
    """What keeps an attempt that has ended on its nodes for too long."""
    if now >= outcome.kept_since(job) + NEWS_AFTER_SECONDS:
        for pod in job.pods:
            if pod.kept_by is not None:
                return messages.POD_KEPT.of(pod=pod.name, container=pod.kept_by)
    if (moment := stuck_at(job)) is None or now < moment:
        return None
    stuck = next((pod for pod in job.pods if pod.node and not pod.has_left), None)
    return messages.NODE_NOT_ANSWERING.of(what=f"pod {stuck.name} on node {stuck.node}" if stuck else f"Job {job.name}")


def _no_room(gang: actions.Gang, observed: Observed) -> messages.Waits | None:
    if any(job.holds_slots and job.pool == gang.pool for job in observed.jobs):
        return None  # the benchmark's own last attempt is about to give them back: nobody else is in the way
    free = next((one.for_one_that_ends(math.inf) for one in observed.free if one.pool == gang.pool), 0)
    message = messages.WAITING_ALONE if free >= gang.slots else messages.WAITING_FOR_SLOTS
    return message.of(slots=gang.slots, pool=gang.pool, free=free)
