# SPDX-License-Identifier: Apache-2.0
"""Which trials start now: in the plan's order, within the limits and the slots of pools that are free.

The ledger of slots keeps two benchmarks from each placing half of a gang and waiting for ever for the other half. It
counts against the pool's own bound (`maxNodes`), not against the nodes of this minute: a pool may scale from zero.
"""

from collections.abc import Mapping

from gpubench.api.measuring import Mode
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.assignment import Assignment
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.scheduler import stopping, trials
from gpubench.scheduler.actions import Gang
from gpubench.scheduler.budget import BudgetState
from gpubench.scheduler.observed import FreeSlots, Observed
from gpubench.scheduler.trials import TrialStatus
from gpubench.stats import stopping_rule
from gpubench.units import processors

STALL_TIMEOUT_SECONDS = 300.0  # at least; a step of a large model on a slow CPU takes about one minute


def slots_of(point: Point, pool: GpuPoolSpec) -> int:
    """Slots that one attempt holds: all slots of its nodes when nodes are exclusive, else one for each rank."""
    return point.nodes * pool.slots_per_node if pool.exclusive_nodes else point.key.workers


def free_slots(plan: Plan, held: Mapping[str, int]) -> tuple[FreeSlots, ...]:
    """Free slots of the plan's pools, given the slots that attempts of all benchmarks hold in each pool."""
    return tuple(
        FreeSlots(
            pool=pool.name,
            slots=max(0, pool.spec.max_nodes * pool.spec.slots_per_node - held.get(pool.name, 0)),
        )
        for pool in plan.pools
    )


def starts(
    plan: Plan,
    observed: Observed,
    trials_now: Mapping[str, TrialStatus],
    *,
    running: int,
    budget: BudgetState | None,
    now: float,
) -> tuple[tuple[Gang, ...], tuple[str, ...]]:
    """Gangs to start, in the plan's order, and pools that were too full for one.

    A trial without room keeps its place: none overtakes it on its pool. Nor does any overtake one that may fit into the
    budget when what runs has ended.
    """
    if observed.study.spec.suspend or observed.refused is not None:
        return (), ()
    queue = observed.study.spec.queue_name  # whose quota says what may run, in place of our count of slots
    free = {entry.pool: entry.slots for entry in observed.free}
    room = observed.study.spec.limits.parallel_trials - running
    found: list[Gang] = []
    short_of: dict[str, None] = {}
    for trial in trials.startable(plan, trials_now):
        status = trials_now[trial.id]
        if len(found) >= room:
            break
        if status.not_before > now:
            continue
        if budget is not None and not budget.fits(trial):
            if budget.may_fit_later(trial):
                break
            continue
        gang = gang_of(plan, trial, attempt=status.next_attempt)
        if queue is None and free.get(gang.pool, 0) < gang.slots:
            free[gang.pool] = 0
            short_of[gang.pool] = None
            continue
        free[gang.pool] = free.get(gang.pool, 0) - gang.slots
        budget = None if budget is None else budget.with_attempt(trial)
        found.append(gang)
    return tuple(found), tuple(short_of)


def gang_of(plan: Plan, trial: Trial, *, attempt: int) -> Gang:
    """The gang of an attempt at a trial: what it is told, and what it holds."""
    point = plan.points[trial.point]
    pool = plan.pool(point.key.pool).spec
    assert point.key.batch_per_worker is not None  # a point without it is skipped and has no trial
    return Gang(
        assignment=Assignment(
            trial=trial.id,
            attempt=attempt,
            workload=point.key.workload,
            custom_file=point.key.custom.file if point.key.custom is not None else None,
            mode=plan.mode,
            epochs=point.key.epochs,
            data=point.key.data,
            variant=point.key.variant,
            precision=point.key.precision,
            workers=point.key.workers,
            workers_per_node=point.key.workers_per_node,
            batch_per_worker=point.key.batch_per_worker,
            seed=plan.seed + trial.repeat,
            slot_processors=float(processors(pool.slot.cpu)),
            gpu=pool.slot.gpu_resource is not None,
            pin=pool.exclusive_nodes,
            warm_up_seconds=plan.timing.warm_up,
            measure_seconds=plan.timing.duration,
            window_seconds=plan.timing.window,
            standard_error_wanted=_standard_error_wanted(plan, point),
            # A program of the user's own does neither, and may refuse an assignment with words that are new to it.
            health_check=plan.health_check and not point.key.is_own_program,
            checkpoint=plan.checkpoint,
            join_timeout_seconds=plan.timing.scheduling_timeout,
            # Progress is reported once a window: one that is long, or slower than it was calibrated, is no stall.
            stall_timeout_seconds=max(STALL_TIMEOUT_SECONDS, 3.0 * plan.timing.window),
        ),
        pool=point.key.pool,
        nodes=point.nodes,
        slots=slots_of(point, pool),
    )


def _standard_error_wanted(plan: Plan, point: Point) -> float | None:
    """How well a single run is to be known; None where it measures for its whole time."""
    asked = stopping.of_plan(plan)
    if asked is None or plan.mode is not Mode.THROUGHPUT or point.key.is_own_program:
        return None
    return stopping_rule.run_error(asked)
