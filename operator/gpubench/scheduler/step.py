# SPDX-License-Identifier: Apache-2.0
"""What should run now: one step from plan, ledger, account and what is observed to actions. Pure.

Complete the ledger with what has begun, with what has ended and with what the budget ends. See what became of each
trial, whether it is needed and whether it can be paid for. Tidy up Jobs whose end is recorded, and start what may
start. What the results say is no matter here (`gpubench.analysis`).
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpubench.api import benchmark, benchmark_status, condition, messages, point_result, price_result
from gpubench.api.pool import GpuPool
from gpubench.plan import expand, overlap, pool_prices
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import account as accounts
from gpubench.scheduler import budget, capacity, conditions, drill, environments, node_tests, outcome, trials, waiting
from gpubench.scheduler import new_nodes as nodes_that_came
from gpubench.scheduler.account import Account
from gpubench.scheduler.actions import Actions, Description, Event, Gang
from gpubench.scheduler.ledger import (
    ENVIRONMENTS_MAX,
    AttemptRecord,
    Ledger,
    Outcome,
    PodTimes,
    Reason,
    Segment,
    folded,
)
from gpubench.scheduler.observed import FreeSlots, Observed, ObservedJob, ObservedNode, ObservedPod, Study
from gpubench.scheduler.outcome import Attempt, AttemptOutcome
from gpubench.scheduler.trials import PointStatus, TrialState, TrialStatus
from gpubench.units import duration_seconds, rfc3339

_ADMISSION_SECONDS = 10.0  # what Kueue says of a Job that waits comes without an event of the Job
_DEAD_NODE_SECONDS = 5.0  # it is deleted without an event of the benchmark
_POOL_GRACE_SECONDS = 30.0  # no Event before: one `kubectl apply` of several files may bring the benchmark first
_HOUR_SECONDS = 3600.0  # an Event for each hour of waiting: the API server keeps one for about that long
PLAN_BYTES_MAX = 1_048_000  # a ConfigMap takes 1 MiB, its keys included
_REQUEUE_AFTER_SECONDS = 60.0
#: The end of an attempt's pods is waited for as long: a cluster takes the pods of a dead node away after 300 s, too.
LEAVING_SECONDS = 300.0
CHANGES_MAX = 16  # of the pods of an attempt that its entry keeps
_SUSPENDED = AttemptOutcome(Reason.SUSPENDED, "the benchmark was suspended", Outcome.STOPPED)


class Step(NamedTuple):
    """What is to be done, and the state of the benchmark once the records are written."""

    actions: Actions
    ledger: Ledger
    account: Account
    trials: Mapping[str, TrialStatus]  # by the trial's id
    points: tuple[PointStatus, ...]
    pending: messages.Waits | None  # why a gang waits
    refused: messages.Waits | None  # a Job that the API server did not take when it was tried last
    admission: messages.Waits | None  # whether Kueue lets the Jobs run
    spent: price_result.Spent | None
    exhausted: str | None  # what the budget leaves out, as a message
    leaving: messages.Waits | None  # nodes of gangs that are about to go
    over_at: float  # the end of the last attempt; infinite while a point is open
    now: float

    @property
    def is_over(self) -> bool:
        """Whether every point that is run has ended; those that stand for others are known to the analysis."""
        return self.over_at < math.inf


def step(plan: Plan, ledger: Ledger, account: Account, observed: Observed, now: float) -> Step:
    """One step; times are seconds since the epoch. `account` is that of `plan.as_measured()` and the ledger."""
    study, point_of = observed.study, plan.point_by_trial
    jobs = tuple(job for job in observed.jobs if job.trial in point_of)  # a Job with a forged label is not ours
    let_go = () if observed.is_ledger_alone else tuple(_let_go(ledger, jobs, observed, now=now))
    if let_go:
        ledger = ledger.with_records(let_go)
        account = account.following(ledger)
    attempts = _attempts(jobs, plan, ledger, account, observed)
    default = _SUSPENDED if study.spec.suspend else None
    ends = {key: end for key, one in attempts.items() if (end := outcome.classify(one, now=now) or default)}
    for _ in range(2):  # once more with what the budget or its machines end, or what gives its turn away
        record = (
            *_new_records(ledger, jobs, ends, point_of=point_of, observed=observed, now=now),
            *_refused_for_too_long(plan, ledger, account, now=now),
        )
        after = ledger.with_records(record)
        entries, account_after = after.by_key, account.following(after) if record else account
        live = tuple(job for job in jobs if entries[job.key].outcome is None)
        left = budget.of(account_after, live, limit=study.spec.limits.budget, now=now)
        states = trials.with_refusals(account_after.trials, after.refused)
        over = {} if left is None else left.over_budget()
        over |= _on_other_machines(live, entries, account_after)
        trials_now = states if left is None else left.left_out(states)
        over = over or _turn_given_away(
            account_after, observed, trials_now, [attempts[job.key] for job in live], left, now=now
        )
        if not over:
            break
        ends |= over
    create, short_of = _starts(account_after, observed, trials_now, running=len(live), left=left, now=now)
    describe = to_describe(jobs, after, now=now)
    disrupt, disrupt_next_at = drill.evictions(study.spec.drill, after, live, points=point_of, seed=plan.seed, now=now)
    waits = capacity.gang_waits(plan, observed, trials_now, live=live, create=create, now=now)
    short = [room for room in observed.free if room.pool in short_of]
    requeue = [
        *(outcome.next_deadline(attempts[job.key]) for job in live),
        *(
            job.begun_at + plan.timing.scheduling_timeout  # its turn may end then
            for job in live
            if outcome.waits_for_capacity(attempts[job.key])
        ),
        *(
            now + _ADMISSION_SECONDS if job.waits else job.begun_at + after
            for job in live
            for after in (capacity.NEWS_AFTER_SECONDS, capacity.UNSCHEDULABLE_AFTER_SECONDS)
            if outcome.all_running_since(job, nodes=point_of[job.trial].nodes) is None
        ),
        *(trials_now[trial.id].not_before for trial in trials.startable(plan, trials_now)),
        None if left is None else left.stops_at(),
        accounts.grows_at(account_after, live, now),
        disrupt_next_at,
        now + environments.TRIED_AGAIN_SECONDS if describe else None,
        *(max(room.until, now + room.pace) for room in short),
        *(now + room.pace for room in short if waits is not None and waits.reason == messages.WAITING_FOR_SLOTS.reason),
        *(capacity.stuck_at(job) for job in observed.jobs),
        *(
            outcome.kept_since(job) + after
            for job in observed.jobs
            for after in (capacity.NEWS_AFTER_SECONDS, outcome.KEPT_SECONDS)
        ),
        now + outcome.GRACE_SECONDS if after.holding else None,
        now + _DEAD_NODE_SECONDS if waits is not None and waits.reason == messages.NODE_NOT_ANSWERING.reason else None,
    ]
    points = trials.points(account_after.repeats, plan, trials_now, after.environment_by_key)
    is_open = any(one.state in point_result.OPEN for point, one in zip(plan.points, points, strict=True) if point.runs)
    last = max((one.ended_at for one in after.records if one.ended_at is not None), default=now)
    over_at = math.inf if is_open or after.holding else last
    if record or over_at == math.inf:  # nobody follows a node beyond the end
        terms, seen = account_after.terms, observed.new_nodes
        kept = nodes_that_came.followed(after.new_nodes, seen, terms, over_at=over_at, now=now)
        after = after.model_copy(update={"new_nodes": kept})
    ended = [(job, entries[job.key].outcome) for job in jobs if entries[job.key].outcome and not job.deleting]
    has_ended = {job.name for job, _ in ended if job.complete or job.failed}
    actions = Actions(
        record=record,
        let_go=let_go,
        new_nodes=after.new_nodes,
        # It may still hold nodes. One that succeeded completes by itself, unless a container beside the gang's runs on.
        delete=tuple(
            job
            for job, how in ended
            if job.name not in has_ended
            and (how is not Outcome.SUCCEEDED or now >= outcome.kept_since(job) + outcome.KEPT_SECONDS)
        ),
        describe=describe,
        retire=tuple(
            job for job, _ in ended if job.name in has_ended and not job.has_ttl and entries[job.key].is_closed
        ),
        create=create,
        short_of=short_of,
        disrupt=disrupt,
        requeue_at=min((moment for moment in requeue if moment is not None and now < moment < math.inf), default=None),
    )
    in_full = account_after if plan.pools_when_measured is None else accounts.of(plan, after)
    spent = accounts.spent(in_full, live, now)
    return Step(
        actions=actions,
        ledger=after,
        account=account_after,
        trials=trials_now,
        points=points,
        pending=waits,
        refused=None if study.spec.suspend else _refused(plan, after, trials_now),
        admission=waiting.admission(live, entries, is_served=observed.queue_is_served, now=now),
        spent=nodes_that_came.with_nodes(spent, after.new_nodes, in_full.terms, over_at=over_at, now=now),
        exhausted=None if left is None else left.exhausted(trials_now),
        leaving=outcome.leaving_nodes(attempts[job.key] for job in live),
        over_at=over_at,
        now=now,
    )


def _refused(plan: Plan, ledger: Ledger, trials_now: Mapping[str, TrialStatus]) -> messages.Waits | None:
    waiting = {trial.id for trial in trials.startable(plan, trials_now)} if ledger.refused else ()
    refused = (one for one in ledger.refused if one.trial in waiting)
    return next((messages.refused(f"Job {one.job}", one.sentence or "") for one in refused), None)


def _refused_for_too_long(plan: Plan, ledger: Ledger, account: Account, *, now: float) -> Iterator[AttemptRecord]:
    """Attempts whose Jobs were not taken for `limits.capacityTimeout`, with what their points have waited before."""
    limit = plan.timing.capacity_timeout
    for one in ledger.refused:
        if not limit or one.trial not in account.trials or account.trials[one.trial].state is not TrialState.WAITING:
            continue
        repeats = account.repeats[plan.trial_by_id[one.trial].point]
        if one.waited + sum(trials.waited(ledger.by_trial.get(trial.id, ())) for trial in repeats) >= limit:
            message = (
                f"Job {one.job} was refused until its point had waited {limit} s in all (limits.capacityTimeout): "
                f"change what is named there, and start it again; last: {one.sentence}"
            )
            end = {"outcome": Outcome.STOPPED, "reason": Reason.ADMISSION_REFUSED, "ended_at": now}
            yield one.model_copy(update={**end, "sentence": conditions.clamped(message, 1024)})


def _on_other_machines(
    live: Iterable[ObservedJob], entries: Mapping[str, AttemptRecord], account: Account
) -> dict[str, AttemptOutcome]:
    """Attempts that end because their figures could not be averaged with those of an earlier repeat."""
    found = {}
    for job in live:
        repeats = account.repeats[account.plan.trial_by_id[job.trial].point]
        measured = [one for trial in repeats if (one := account.trials[trial.id].measured) is not None]
        if (why := environments.other_machines(entries[job.key], measured)) is not None:
            found[job.key] = AttemptOutcome(Reason.OTHER_MACHINES, why, Outcome.STOPPED)
    return found


def _starts(
    account: Account,
    observed: Observed,
    trials_now: Mapping[str, TrialStatus],
    *,
    running: int,
    left: budget.Budget | None,
    now: float,
) -> tuple[tuple[Gang, ...], dict[str, int]]:
    """Gangs to start, in the plan's order, and by pools that were too full for one the slots that it needs.

    A trial without room keeps its place: none overtakes it on its pool. Nor does any overtake one that may fit into the
    budget when what runs has ended.
    """
    if observed.study.spec.suspend:
        return (), {}
    plan = account.plan
    queue = observed.study.spec.queue_name  # whose quota says what may run, in place of our count of slots
    free = {entry.pool: entry for entry in observed.free}
    held = {entry.pool: entry.slots + entry.held for entry in observed.free if entry.held}
    room = observed.study.spec.limits.parallel_trials - running
    found: list[Gang] = []
    short_of: dict[str, int] = {}
    for trial in trials.startable(plan, trials_now):
        status = trials_now[trial.id]
        if len(found) >= room:
            break
        if status.not_before > now:
            continue
        if left is not None and not left.fits(trial):
            if left.may_fit_later(trial):
                break
            continue
        gang = capacity.gang_of(plan, trial, attempt=status.next_attempt)
        # The pool has fewer nodes than it may have: beside another gang it would again hold only a part of its own.
        is_crowded = status.in_parts and gang.pool in held
        room_there = free.get(gang.pool, FreeSlots(pool=gang.pool, slots=0))
        slots = room_there.for_one_that_ends(now + account.ends_after(trial.id))
        if queue is None and (slots < gang.slots or is_crowded):
            free[gang.pool] = room_there.model_copy(update={"slots": 0})
            # Who waits alone waits for all of the pool: until that could be, others go before it.
            short_of.setdefault(gang.pool, held[gang.pool] if is_crowded else gang.slots)
            continue
        free[gang.pool] = room_there.model_copy(update={"slots": room_there.slots - gang.slots})
        held.setdefault(gang.pool, room_there.slots)
        left = None if left is None else left.with_attempt(trial)
        found.append(gang)
    return tuple(found), short_of


def _turn_given_away(
    account: Account,
    observed: Observed,
    trials_now: Mapping[str, TrialStatus],
    live: Sequence[Attempt],
    left: budget.Budget | None,
    *,
    now: float,
) -> dict[str, AttemptOutcome]:
    """The attempt that ends without a node, where limits.parallelTrials keeps a trial on another pool from its turn.

    It has waited for the scheduling time-out, and twice as long as that pool has before: where no pool has nodes the
    turns double, so that the ledger hardly grows.
    """
    plan, room = account.plan, observed.study.spec.limits.parallel_trials
    patience = float(plan.timing.scheduling_timeout)
    waits = [one.job for one in live if one.job.pods and not one.job.suspended and outcome.waits_for_capacity(one)]
    if not (waits := [job for job in waits if now >= job.begun_at + patience]) or len(live) < room:
        return {}
    pools = {job.pool for job in waits}
    here = [trial.id for trial in plan.trials if plan.points[trial.point].key.pool in pools]
    elsewhere = {**trials_now, **{trial: trials_now[trial]._replace(state=TrialState.HELD) for trial in here}}
    gang = next(iter(_starts(account, observed, elsewhere, running=room - 1, left=left, now=now)[0]), None)
    if gang is None:
        return {}
    patience = max(patience, 2 * trials.waits_in_vain(plan, trials_now).get(gang.pool, 0.0))
    said = f"no first node came within {patience:.0f} s: a trial on pool {gang.pool} goes before, then it waits again"
    end = AttemptOutcome(Reason.NO_CAPACITY, said, Outcome.STOPPED)
    return next(({job.key: end} for job in waits if now >= job.begun_at + patience), {})


def of_ledger(plan: Plan, ledger: Ledger, study: Study) -> Step:
    """What a ledger says by itself, at its last moment; of attempts under way nothing has become yet."""
    account = accounts.of(plan.as_measured(), ledger)
    jobs = tuple(
        ObservedJob(
            name=record.job,
            uid=record.job_uid,
            trial=record.trial,
            attempt=record.attempt,
            pool=plan.point_by_trial[record.trial].key.pool,
            slots=0,
            created_at=record.created_at,
        )
        for record in ledger.records
        if record.outcome is None and record.trial in plan.point_by_trial
    )
    study = study.model_copy(update={"spec": study.spec.model_copy(update={"suspend": False})})
    last = max((record.ended_at or record.created_at for record in ledger.records), default=0.0)
    return step(plan, ledger, account, Observed(study=study, jobs=jobs, is_ledger_alone=True), last)


def _attempts(
    jobs: Iterable[ObservedJob], plan: Plan, ledger: Ledger, account: Account, observed: Observed
) -> dict[str, Attempt]:
    entries, by_name = ledger.by_key, {node.name: node for node in observed.nodes}
    found = {}
    for job in jobs:
        point, entry, admitted_at = plan.point_by_trial[job.trial], entries.get(job.key), _admitted_at(job)
        repeats = account.repeats[plan.trial_by_id[job.trial].point]
        key, placed = point.key, () if entry is None else entry.nodes
        if entry is not None and _runs_again(job, entry) and (admitted_at is None or admitted_at != entry.admitted_at):
            placed = ()  # they are those of a run before
        found[job.key] = Attempt(
            job,
            point.nodes,
            plan.timing,
            known=by_name,
            placed=placed,
            silent_seconds=observed.node_silent_seconds,
            asked=(key.workers, key.batch_per_worker, key.epochs) if key.is_own_program else None,
            placed_at=entry.placed_at if entry is not None else (),
            keeps_checkpoints=plan.checkpoint is not None,
            pinned=key.node,
            waited=sum(trials.waited(ledger.by_trial.get(one.id, ())) for one in repeats),
            held=sum(run.held_in_parts(point.nodes) for run in entry.segments) if entry is not None else 0.0,
        )
    return found


# --- what is recorded of attempts -------------------------------------------------------------------------------------
#
# Kueue suspends a Job that it evicts, and sets the same one going again. That is no end of the attempt: what ran until
# then becomes a segment of its entry. Must not happen: nodes that were held and are in no bill; two runs taken for one.


def _new_records(
    ledger: Ledger,
    jobs: Sequence[ObservedJob],
    ends: Mapping[str, AttemptOutcome],
    *,
    point_of: Mapping[str, Point],
    observed: Observed,
    now: float,
) -> Iterator[AttemptRecord]:
    """Entries to write: attempts new to the ledger, attempts that have ended, those whose Job went while it waited."""
    entries, refused = ledger.by_key, {one.key: one.refused for one in ledger.refused}
    for job in jobs:
        entry, end, point = entries.get(job.key), ends.get(job.key), point_of[job.trial]
        if entry is not None and entry.outcome is not None:
            continue
        record = entry or AttemptRecord(
            trial=job.trial,
            attempt=job.attempt,
            job=job.name,
            job_uid=job.uid,
            created_at=job.created_at,
            refused=refused.get(job.key),
        )
        record = _followed(job, record, observed=observed, pods=point.nodes, now=now)
        record = _placed(job, record, observed=observed, pods=point.nodes)
        if end is not None:
            record = _ended(job, record, end, observed=observed, pods=point.nodes, now=now)
            yield node_tests.with_usual(record, point, observed.histories)
        elif record != entry:
            yield record
    known = {job.key for job in jobs}
    gone = (record for record in ledger.records if record.outcome is None and record.key not in known)
    yield from (_vanished(record, observed.study.conditions, now=now) for record in gone)


def _vanished(record: AttemptRecord, told: Sequence[condition.Condition], *, now: float) -> AttemptRecord:
    said = next((one.message for one in told if one.type == conditions.ADMITTED and record.job in one.message), None)
    message = waiting.deleted(record.job, f"waited in queue {record.queue}" if record.queue else "was suspended", said)
    return record.model_copy(
        update={
            "outcome": Outcome.STOPPED,
            "reason": Reason.JOB_VANISHED,
            "ended_at": now,
            "sentence": conditions.clamped(message, 1024),
        }
    )


def _placed(job: ObservedJob, found: AttemptRecord, *, observed: Observed, pods: int) -> AttemptRecord:
    """The entry with its nodes once all pods have one, as these may be gone later; what is known stays as it is."""
    if job.suspended:
        return found  # its pods are of the run before
    placed = found.nodes or _nodes(job.pods)
    changed = dict.fromkeys((*found.changed, *(one for pod in job.pods for one in pod.changed)))
    if len(changed) > len(found.changed):
        found = found.model_copy(update={"changed": tuple(changed)[:CHANGES_MAX]})
    if (found.instance_types and found.places) or not (found.nodes or len(placed) == pods):
        return found
    seen = location(placed, observed.nodes, pods=pods)
    where = {field: value for field, value in seen.items() if value and not getattr(found, field)}
    if found.nodes and not where.keys() & {"instance_types", "machines", "places"}:
        return found
    where["zones"] = seen["zones"]
    when = tuple(_after(job, pod.scheduled_at) for pod in job.pods if pod.scheduled_at is not None)
    placed_at = when if len(when) == pods else found.placed_at
    return found.model_copy(update={"nodes": placed, "placed_at": placed_at, **where})


def _nodes(pods: Iterable[ObservedPod]) -> tuple[str, ...]:
    return tuple(pod.node for pod in pods if pod.node)


def _ended(
    job: ObservedJob, begun: AttemptRecord, end: AttemptOutcome, *, observed: Observed, pods: int, now: float
) -> AttemptRecord:
    ended_at = max((outcome.told(pod.ended_at, now) for pod in job.pods if pod.ended_at is not None), default=now)
    if not begun.nodes:  # never all of its pods had one, or some were gone when it was first observed
        placed = _nodes(job.pods)
        begun = begun.model_copy(update={"nodes": placed, **location(placed, observed.nodes, pods=pods)})
    times, of_end = _times(job, begun, job.pods, observed, until=now, now=now), end._asdict()
    sentence = conditions.clamped(of_end.pop("message"), 1024)
    return begun.model_copy(
        update={
            **of_end,
            "sentence": sentence,
            "drilled": drill.struck(job) if end.outcome is Outcome.PREEMPTED else None,
            "ended_at": ended_at,
            **times,
            "node_seconds": _node_seconds(times["pod_times"]),
            "image_id": next((pod.image_id for pod in job.pods if pod.index == 0), None),
        }
    )


_OF_A_RUN = ("nodes", "placed_at", "instance_types", "zones", "changed", "machines", "places", "pod_places")


def _followed(job: ObservedJob, found: AttemptRecord, *, observed: Observed, pods: int, now: float) -> AttemptRecord:
    """The entry of an attempt that has not ended, as its Job stands in its queue; as it is where it is in none."""
    if job.suspended and any(pod.node and pod.end is None for pod in job.pods):
        job = job.model_copy(update={"suspended": False})  # it runs on until its controller has stopped it
    if not _runs_again(job, found):
        return found
    began, admitted_at = found.admitted_at, _admitted_at(job)
    of_before = (*job.pods, *job.leaving) if job.suspended else job.leaving
    before = math.inf if admitted_at is None else admitted_at
    if found.segments and began in (None, admitted_at):  # a watch tells late that a pod is gone, which no list has
        *runs, last = found.segments
        as_it_ran = found.model_copy(update={"segments": tuple(runs), "admitted_at": last.admitted_at})
        times = _times(job, as_it_ran, of_before, observed, until=now, now=now, before=before)
        known = len(last.pod_times) - bool(last.unseen)
        if not times["holding"] and known < len(times["pod_times"]) <= pods:
            found = found.model_copy(update={"segments": (*runs, last.model_copy(update={**times, "unseen": 0}))})
    # The run has ended: its pods are seen ending, or it is known since when the Job was suspended or runs again.
    until = (None if of_before else job.suspended_since if job.suspended else job.started_at) or now
    times = _times(job, found, of_before, observed, until=until, now=now, before=before)
    is_first = job.queue is None and not found.segments
    if began is None and (times["pod_times"] or (is_first and found.placed_at)):  # nobody saw when it began
        began = 0.0 if is_first else min(placed for placed, _, _ in times["pod_times"])
    if began is not None and began != admitted_at:
        if len(times["pod_times"]) < pods and found.placed_at:  # others are gone, and were written down when they came
            grown = _after(job, until) + outcome.GRACE_SECONDS
            of_pods = tuple((placed, None, max(placed, grown)) for placed in found.placed_at)
            times = {"pod_times": of_pods, "unseen": pods}
        ended_at, nodes = _after(job, until), found.nodes or _nodes(of_before)
        segment = Segment(admitted_at=began, ended_at=ended_at, nodes=nodes, **times)
        nothing = dict.fromkeys(_OF_A_RUN, ())  # is known of the next run
        found = found.model_copy(update={"segments": folded((*found.segments, segment)), **nothing})
    return found.model_copy(update={"queue": job.queue, "admitted_at": admitted_at})


def _runs_again(job: ObservedJob, entry: AttemptRecord) -> bool:
    """Whether it is in a queue or somebody has suspended it: then a run of it ends without the attempt's end."""
    last = job.created_at + min(entry.placed_at, default=math.inf)  # start of a run that nobody saw end
    return (
        job.queue is not None
        or job.waits
        or bool(job.leaving or entry.segments)
        or (outcome.first_node_at(job) or math.inf) >= (job.started_at or 0.0) > last + outcome.SKEW_SECONDS
    )


def _times(
    job: ObservedJob,
    record: AttemptRecord,
    pods: Sequence[ObservedPod],
    observed: Observed,
    *,
    until: float,
    now: float,
    before: float = math.inf,  # the next run's start
) -> dict[str, Any]:
    """When each pod of a run that had a node held it, to the millisecond, and which still hold theirs."""
    listed = {pod.name for pod in pods}
    # Of a run before, by when they were placed: where a Job is resumed at once its controller keeps the first start.
    billed = {placed for run in record.segments for placed, _, _ in run.pod_times}
    times, holding = list[PodTimes](), []
    seen = (*pods, *(pod for pod in observed.gone_of(job.uid) if pod.name not in listed))
    in_order = sorted(seen, key=lambda pod: (pod.index, pod.name))
    placed = ((pod, _after(job, pod.scheduled_at)) for pod in in_order if pod.scheduled_at is not None)
    for pod, placed_at in placed:
        is_of_before = placed_at in billed and (record.admitted_at is None or placed_at < record.clock)
        is_of_this = pod.name in listed or (placed_at not in billed and record.clock <= placed_at < before)
        if is_of_this and not is_of_before:
            holding += [] if pod.has_left else [(len(times), pod.name)]
            left_at = outcome.told(pod.left_at or until, now)
            running = None if pod.running_at is None else _after(job, min(pod.running_at, left_at))
            times.append((placed_at, running, max(placed_at, _after(job, left_at))))
    return {"pod_times": tuple(times), "holding": tuple(holding)}


def _let_go(ledger: Ledger, jobs: Iterable[ObservedJob], observed: Observed, *, now: float) -> Iterator[AttemptRecord]:
    """Entries of attempts whose pods were still to end when they ended, with what has become of these since."""
    mute = {node.name for node in observed.nodes if node.ready is False or node.gone_since is not None}
    for record in ledger.holding:
        at = now - record.created_at
        of_job = (pod for job in jobs if job.uid == record.job_uid for pod in (*job.pods, *job.leaving))
        there = (pod for pod in of_job if pod.has_left or pod.node not in mute)  # nobody says more of others
        pods = {pod.name: pod for pod in (*observed.gone_of(record.job_uid), *there)}
        ended = at if record.ended_at is None else record.ended_at - record.created_at
        update = _times_since(record, record, pods, ended=ended, at=at)
        update |= {
            "node_seconds": _node_seconds(update["pod_times"]),
            "segments": tuple(
                run.model_copy(update=_times_since(run, record, pods, ended=run.ended_at, at=at))
                for run in record.segments
            ),
        }
        if (changed := record.model_copy(update=update)) != record:
            yield changed


def _node_seconds(pod_times: Sequence[PodTimes]) -> float | None:
    return sum(ended - placed for placed, _, ended in pod_times) if pod_times else None


def _times_since(
    run: AttemptRecord | Segment, record: AttemptRecord, pods: Mapping[str, ObservedPod], *, ended: float, at: float
) -> dict[str, Any]:
    """The fields of `_times` later on; all moments are seconds after the Job's creation.

    What still holds its node is billed to the end of a grace period, so the time is written again when that is over.
    """
    times, holding, unseen = list(run.pod_times), [], run.unseen
    for position, name in run.holding:
        placed, running, until = times[position]
        pod, assumed = pods.get(name), until + outcome.GRACE_SECONDS
        if pod is not None and pod.has_left:
            until = at if pod.left_at is None else outcome.told(pod.left_at - record.created_at, at)
        elif at < assumed:
            holding.append((position, name))
        elif pod is not None and at < ended + LEAVING_SECONDS:
            holding.append((position, name))
            until = at
        else:
            until, unseen = assumed, unseen + 1
        times[position] = (placed, running, max(placed, round(until, 3)))
    return {"pod_times": tuple(times), "holding": tuple(holding), "unseen": unseen}


def _admitted_at(job: ObservedJob) -> float | None:
    return None if job.suspended or job.started_at is None else _after(job, job.started_at)


def _after(job: ObservedJob, moment: float) -> float:
    return round(moment - job.created_at, 3)


# --- before a benchmark starts ----------------------------------------------------------------------------------------


class NotYet(NamedTuple):
    """What a benchmark waits for before it is planned."""

    status: benchmark_status.GpuBenchmarkStatus
    requeue_at: float | None
    events: tuple[Event, ...] = ()


def begin(
    study: Study,
    pools: tuple[GpuPool, ...],
    now: float,
    nodes: Mapping[str, Sequence[str]] | None = None,
    *,
    unreadable: Collection[str] = (),
    labels: Mapping[str, str] | None = None,
    with_baseline: Callable[[Plan], Plan] = lambda plan: plan,
) -> Plan | NotYet:
    """The plan to freeze, or what the benchmark waits for: a plan is of all its pools or, after a timeout, of some.

    `unreadable` are pools that are there and cannot be read; `nodes` are those that placement EachNode measures;
    `labels` are those of its namespace, where it has one; `with_baseline` adds what `spec.compareTo` names.
    """
    closed = [one.name for one in pools if labels is not None and not one.spec.takes(study.namespace, labels)]
    pools = tuple(one for one in pools if one.name not in closed)
    missing, empty = sorted(expand.missing_pools(study.spec, pools)), expand.empty_pools(study.spec, pools, nodes or {})
    if study.spec.suspend:
        return _waiting(study, messages.SUSPENDED.of(), now=now)
    timeout = study.spec.limits.pool_timeout
    ends = math.inf if timeout is None else study.created_at + duration_seconds(timeout)
    if (missing or empty) and now < ends:
        of_pools = {
            messages.POOLS_CLOSED: closed,
            messages.POOLS_ABSENT: [name for name in missing if name not in unreadable and name not in closed],
            messages.POOLS_UNREADABLE: [name for name in missing if name in unreadable],
            messages.POOLS_EMPTY: empty,
        }
        # A node comes, and a namespace gets a label, without an event of the benchmark.
        again = now + _REQUEUE_AFTER_SECONDS if empty or closed else ends
        return _waiting_for_pools(study, of_pools, now=now, ends=ends, again=again)
    plan = with_baseline(expand.freeze(study.spec, pools, rfc3339(now), nodes))
    refused = too_large(plan) or unpriced(plan, study.spec.limits.budget) or overlap.refusal(plan)
    return plan if refused is None else _waiting(study, refused, now=now, requeue_at=now + _REQUEUE_AFTER_SECONDS)


def _waiting_for_pools(
    study: Study, of_pools: Mapping[messages.Message, Sequence[str]], *, now: float, ends: float, again: float
) -> NotYet:
    fields = {message: {"pools": ", ".join(named)} for message, named in of_pools.items() if named}
    why = [message.of(**names, namespace=study.namespace) for message, names in fields.items()]
    until = "" if ends == math.inf else f"; without it from {rfc3339(ends)} on (limits.poolTimeout)"
    message = "; ".join(one.message for one in why) + until
    hours = int((now - study.created_at) // _HOUR_SECONDS)
    first = study.created_at + _POOL_GRACE_SECONDS
    said = Event.warning(why[0].reason, f"{message} (since {rfc3339(study.created_at)}, {hours} h)")
    due = first if now < first else study.created_at + (hours + 1) * _HOUR_SECONDS
    waiting = _waiting(study, messages.Waits(why[0].reason, message), now=now, requeue_at=min(due, ends, again))
    return waiting if now < first else waiting._replace(events=(said,))


def too_large(plan: Plan) -> messages.Waits | None:
    """Why a plan cannot be stored. What a spec says always fits (a test holds that), but not every set of pools."""
    if len(plan.points) > benchmark.POINTS_MAX:
        return messages.TOO_MANY_POINTS.of(points=len(plan.points), most=benchmark.POINTS_MAX)
    if (size := len(plan.to_text().encode())) <= PLAN_BYTES_MAX:
        return None
    largest = max(plan.pools, key=lambda pool: len(pool.to_json()))
    return messages.PLAN_TOO_LARGE.of(size=size, most=PLAN_BYTES_MAX, pool=largest.name)


def unpriced(plan: Plan, budget: str | None) -> messages.Waits | None:
    """Why a budget cannot be kept: nobody knows the costs in one currency. None where that is no matter."""
    currencies = set()
    for pool in plan.pools_run if budget is not None else ():
        if (rate := pool_prices.planned_rate(plan, pool)) is None:
            why = pool_prices.without_exchange(plan, pool) or "it has neither price nor ownership"
            return messages.BUDGET_WITHOUT_PRICE.of(budget=budget, pool=pool, why=why)
        currencies.add(rate.currency)
    if len(currencies) < 2:
        return None
    return messages.BUDGET_OF_CURRENCIES.of(budget=budget, currencies=" and ".join(sorted(currencies)))


def _waiting(study: Study, why: messages.Waits, *, now: float, requeue_at: float | None = None) -> NotYet:
    holding: dict[str, bool | None] = {
        conditions.FINISHED: False,
        conditions.SUCCEEDED: None,
        conditions.PROGRESSING: False,
        **({conditions.SUSPENDED: True} if study.spec.suspend else {}),
    }
    wanted = {type_: (holds, why.reason, why.message) for type_, holds in holding.items()}
    status = benchmark_status.GpuBenchmarkStatus(
        phase="Suspended" if study.spec.suspend else "Pending",
        observed_generation=study.generation,
        conditions=conditions.as_conditions(wanted, before=study.conditions, generation=study.generation, now=now),
    )
    return NotYet(status=status, requeue_at=requeue_at)


def to_describe(jobs: Sequence[ObservedJob], ledger: Ledger, *, now: float) -> tuple[Description, ...]:
    """Which logs hold the environments that the ledger lacks: for each the attempt that ended last and has its pod."""
    known, entries = ledger.environment_by_key, ledger.by_key
    found: dict[str, tuple[float, Description]] = {}
    for job in jobs if len(known) < ENVIRONMENTS_MAX else ():
        entry = entries.get(job.key)
        if entry is None or entry.result is None or entry.ended_at is None or entry.result.environment in known:
            continue
        pod = next((pod for pod in job.pods if pod.index == 0 and pod.end is not None), None)
        key = entry.result.environment
        is_newest = key not in found or found[key][0] < entry.ended_at
        if pod is not None and is_newest and now < entry.ended_at + environments.TRIED_FOR_SECONDS:
            description = Description(environment=key, trial=job.trial, attempt=job.attempt, pod=pod.name)
            found[key] = (entry.ended_at, description)
    return tuple(description for _, description in found.values())


def location(names: Iterable[str], nodes: Iterable[ObservedNode], *, pods: int) -> dict[str, tuple[Any, ...]]:
    """Zones, machines and, of gangs seen in full, instance types and places of the nodes, as fields of the record."""
    by_name = {node.name: node for node in nodes}
    own = [by_name.get(name, ObservedNode(name=name)) for name in names]
    types, machines = {node.instance_type for node in own}, tuple(dict.fromkeys(node.machine for node in own))
    of_pods = [(node.zone, node.block, node.rack) for node in own]
    is_known = len(own) == pods and all(node.name in by_name for node in own) and any(map(any, of_pods))
    places = {place: number for number, place in enumerate(dict.fromkeys(of_pods))} if is_known else {}
    return {
        "instance_types": () if None in types or len(own) < pods else tuple(sorted(map(str, types))),
        "zones": tuple(sorted({node.zone for node in own if node.zone is not None})),
        "machines": machines if len(own) == pods and any(one.to_wire() for one in machines) else (),
        "places": tuple(places),
        "pod_places": tuple(places[place] for place in of_pods) if places else (),
    }
