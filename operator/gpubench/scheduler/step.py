# SPDX-License-Identifier: Apache-2.0
"""What should run now: one step from plan, ledger, account and what is observed to actions. Pure.

Complete the ledger with what has begun, with what has ended and with what the budget ends. See what became of each
trial, whether it is needed and whether it can be paid for. Tidy up Jobs whose end is recorded, and start what may
start. What the results say is no matter here (`gpubench.analysis`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench.api.point_result import PointState
from gpubench.api.price_result import Spent
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import account as accounts
from gpubench.scheduler import (
    budget,
    capacity,
    conditions,
    drill,
    environments,
    node_tests,
    outcome,
    segments,
    trials,
    waiting,
)
from gpubench.scheduler.account import Account
from gpubench.scheduler.actions import Actions, JobReference
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, PodTimes, Reason
from gpubench.scheduler.observed import Observed, ObservedJob, ObservedNode, ObservedPod, Study
from gpubench.scheduler.outcome import AttemptOutcome, NodeStates
from gpubench.scheduler.trials import PointStatus, TrialStatus
from gpubench.scheduler.waiting import Admission, Waits

OPEN = frozenset({PointState.PENDING, PointState.RUNNING})


class Step(NamedTuple):
    """What is to be done, and the state of the benchmark once the records are written."""

    actions: Actions
    ledger: Ledger
    account: Account
    trials: Mapping[str, TrialStatus]  # by the trial's id
    points: tuple[PointStatus, ...]
    pending: Waits | None  # why a gang waits
    admission: Admission | None  # whether Kueue lets the Jobs run
    spent: Spent | None
    exhausted: str | None  # what the budget leaves out, in a sentence
    now: float

    @property
    def is_over(self) -> bool:
        """Whether every point that is run has ended; those that stand for others are known to the analysis."""
        runs = zip(self.account.plan.points, self.points, strict=True)
        return all(one.state not in OPEN for point, one in runs if point.runs)


def step(plan: Plan, ledger: Ledger, account: Account, observed: Observed, now: float) -> Step:
    """One step; times are seconds since the epoch. `account` is that of `plan.as_measured()` and the ledger."""
    study, limit = observed.study, observed.study.spec.limits.budget
    point_of = {trial: account.plan.points[index] for trial, index in account.point_of.items()}
    jobs = tuple(job for job in observed.jobs if job.trial in point_of)  # a Job with a forged label is not ours
    entries = ledger.by_key()
    by_name = {node.name: node for node in observed.nodes}
    seen = {
        job.key: NodeStates(by_name, segments.placed(job, entries.get(job.key)), observed.node_silent_seconds)
        for job in jobs
    }
    ends = {
        job.key: end
        for job in jobs
        if (end := _end(job, point_of[job.trial], plan=plan, observed=observed, on=seen[job.key], now=now))
    }

    def recorded(
        ends: Mapping[str, AttemptOutcome],
    ) -> tuple[tuple[AttemptRecord, ...], Ledger, Account, tuple[ObservedJob, ...]]:
        record = _new_records(ledger, jobs, ends, point_of=point_of, observed=observed, now=now)
        after = ledger.with_records(record)
        return record, after, account.with_records(record), _live(jobs, after)

    record, after, account_after, live = recorded(ends)
    if over := budget.over_budget(account_after, live, limit=limit, now=now):
        record, after, account_after, live = recorded(ends | over)
    entries = after.by_key()
    left = budget.state(account_after, live, limit=limit, now=now)
    trials_now = budget.left_out(plan, account_after.trials, left)
    create, short_of = capacity.starts(plan, observed, trials_now, running=len(live), budget=left, now=now)
    describe = environments.to_describe(jobs, after, now=now)
    pending = waiting.pending(plan, observed, trials_now, live=live, create=create, now=now)
    requeue = [
        *(
            outcome.next_deadline(job, nodes=point_of[job.trial].nodes, timing=plan.timing, nodes_seen=seen[job.key])
            for job in live
        ),
        *(
            now + waiting.ADMISSION_SECONDS if job.suspended else job.begun_at + waiting.NEWS_AFTER_SECONDS
            for job in live
            if outcome.all_running_since(job, nodes=point_of[job.trial].nodes) is None
        ),
        *(trials_now[trial.id].not_before for trial in trials.startable(plan, trials_now)),
        budget.stops_at(account_after, live, limit=limit, now=now),
        accounts.grows_at(account_after, live, now),
        drill.next_at(study.spec.drill, after, live, points=point_of, now=now),
        now + environments.TRIED_AGAIN_SECONDS if describe else None,
        *(waiting.stuck_at(job) for job in observed.jobs),
    ]
    if pending is not None and pending.reason in (conditions.WAITING_FOR_SLOTS, conditions.NODE_NOT_ANSWERING):
        requeue.append(now + 5.0)  # slots of other benchmarks are freed without an event of this one
    actions = Actions(
        record=record,
        delete=tuple(_reference(job) for job in jobs if _is_to_be_deleted(job, entries[job.key])),
        describe=describe,
        retire=tuple(_reference(job) for job in jobs if _is_to_be_retired(job, entries[job.key])),
        create=create,
        short_of=short_of,
        disrupt=drill.evictions(study.spec.drill, after, live, points=point_of, seed=plan.seed, now=now),
        requeue_at=min((moment for moment in requeue if moment is not None and moment > now), default=None),
    )
    return Step(
        actions=actions,
        ledger=after,
        account=account_after,
        trials=trials_now,
        points=trials.points(account_after.repeats, plan, trials_now, after.environment_by_key()),
        pending=pending,
        admission=waiting.admission(study, live, entries, is_served=observed.queue_is_served),
        spent=accounts.spent(
            account_after if plan.pools_when_measured is None else accounts.of(plan, after), live, now
        ),
        exhausted=budget.exhausted(account_after.plan, trials_now, left),
        now=now,
    )


def of_ledger(plan: Plan, ledger: Ledger, study: Study) -> Step:
    """What a ledger says by itself, at its last moment; of attempts under way nothing has become yet."""
    pool_of = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}
    jobs = tuple(
        ObservedJob(
            name=record.job,
            uid=record.job_uid,
            trial=record.trial,
            attempt=record.attempt,
            pool=pool_of[record.trial],
            slots=0,
            created_at=record.created_at,
        )
        for record in ledger.records
        if record.outcome is None and record.trial in pool_of
    )
    study = study.model_copy(update={"spec": study.spec.model_copy(update={"suspend": False})})
    last = max((record.ended_at or record.created_at for record in ledger.records), default=0.0)
    return step(plan, ledger, accounts.of(plan.as_measured(), ledger), Observed(study=study, jobs=jobs), last)


def _live(jobs: Sequence[ObservedJob], ledger: Ledger) -> tuple[ObservedJob, ...]:
    """The Jobs whose attempts are under way."""
    entries = ledger.by_key()
    return tuple(job for job in jobs if entries[job.key].outcome is None)


def _end(
    job: ObservedJob, point: Point, *, plan: Plan, observed: Observed, on: NodeStates, now: float
) -> AttemptOutcome | None:
    # Of a program of the user's own nobody else has counted the ranks and their samples.
    key, own = point.key, point.key.is_own_program
    end = outcome.classify(
        job,
        nodes=point.nodes,
        timing=plan.timing,
        now=now,
        workers=key.workers if own else None,
        batch=key.batch_per_worker if own else None,
        epochs=key.epochs if own else None,
        nodes_seen=on,
    )
    if end is None and observed.study.spec.suspend:
        return AttemptOutcome(outcome=Outcome.STOPPED, reason=Reason.SUSPENDED, sentence="the study was suspended")
    return end


def _new_records(
    ledger: Ledger,
    jobs: Sequence[ObservedJob],
    ends: Mapping[str, AttemptOutcome],
    *,
    point_of: Mapping[str, Point],
    observed: Observed,
    now: float,
) -> tuple[AttemptRecord, ...]:
    """Entries to write: attempts new to the ledger, attempts that have ended, and those whose Job is simply gone."""
    entries = ledger.by_key()
    found: list[AttemptRecord] = []
    for job in jobs:
        entry, end = entries.get(job.key), ends.get(job.key)
        if entry is not None and entry.outcome is not None:
            continue
        pods = point_of[job.trial].nodes
        record = _placed(job, segments.followed(job, entry, pods=pods, now=now), nodes=observed.nodes, pods=pods)
        if end is not None:
            ended = _ended(job, record, end, nodes=observed.nodes, pods=pods, now=now)
            found.append(node_tests.with_usual(ended, point_of[job.trial], observed.histories))
        elif record != entry:
            found.append(record)
    seen = {job.key for job in jobs}
    gone = {"outcome": Outcome.FAILED, "reason": Reason.JOB_VANISHED, "ended_at": now}
    for record in ledger.records:
        if record.outcome is None and record.key not in seen:
            message = f"Job {record.job} was deleted by somebody else while it ran"
            found.append(record.model_copy(update={**gone, "sentence": message}))
    return tuple(found)


def _placed(
    job: ObservedJob, entry: AttemptRecord | None, *, nodes: Sequence[ObservedNode], pods: int
) -> AttemptRecord:
    """The entry of an attempt, with its nodes once all of its pods have one: later pods and nodes may be gone.

    What is known already stays, so that the entry changes once, or twice where a node's type was not known at first.
    """
    found = entry or AttemptRecord(
        trial=job.trial, attempt=job.attempt, job=job.name, job_uid=job.uid, created_at=job.created_at
    )
    here = _nodes_of(job)
    placed = found.nodes or (here if len(here) == pods else ())
    if not placed or found.instance_types:
        return found
    where = environments.location(placed, nodes, pods=pods)
    if found.nodes and not where["instance_types"]:
        return found
    placed_at = [
        segments.after(job, pod.scheduled_at) for pod in _by_index(job) if pod.node and pod.scheduled_at is not None
    ]
    when = tuple(placed_at) if len(placed_at) == pods else found.placed_at
    return found.model_copy(update={"nodes": placed, "placed_at": when, **where})


def _ended(
    job: ObservedJob,
    begun: AttemptRecord,
    end: AttemptOutcome,
    *,
    nodes: Sequence[ObservedNode],
    pods: int,
    now: float,
) -> AttemptRecord:
    """The entry of an attempt that has come to its end; `nodes` are those that the cluster knows."""
    ends = [pod.end.finished_at for pod in job.pods if pod.end is not None and pod.end.finished_at is not None]
    ended_at = max(ends, default=now)
    held_until = ended_at if end.outcome is Outcome.SUCCEEDED else now  # what has not ended is told to only now
    first = next((pod for pod in job.pods if pod.index == 0), None)
    if not begun.nodes:  # never all of its pods had one, or some were gone at the first look
        placed = _nodes_of(job)
        begun = begun.model_copy(update={"nodes": placed, **environments.location(placed, nodes, pods=pods)})
    return begun.model_copy(
        update={
            "outcome": end.outcome,
            "reason": end.reason,
            "disruption": end.disruption,
            "interruption": end.interruption,
            "drilled": drill.struck(job) if end.outcome is Outcome.PREEMPTED else None,
            "sentence": conditions.clamped(end.sentence, 1024),
            "exit_code": end.exit_code,
            "ended_at": ended_at,
            "node_seconds": _node_seconds(job, until=held_until),
            "pod_times": _pod_times(job, until=held_until),
            "image_id": first.image_id if first else None,
            "result": end.result,
        }
    )


def _nodes_of(job: ObservedJob) -> tuple[str, ...]:
    """The nodes of a Job's pods, by the pods' indices."""
    return tuple(pod.node for pod in _by_index(job) if pod.node)


def _by_index(job: ObservedJob) -> list[ObservedPod]:
    return sorted(job.pods, key=lambda pod: pod.index)


def _node_seconds(job: ObservedJob, *, until: float) -> float | None:
    """Time that the attempt's pods held their nodes, summed; pods that still run count up to that moment."""
    held = [
        max(0.0, ((pod.end.finished_at if pod.end else None) or until) - pod.scheduled_at)
        for pod in job.pods
        if pod.scheduled_at is not None
    ]
    return sum(held) if held else None


def _pod_times(job: ObservedJob, *, until: float) -> tuple[PodTimes, ...]:
    """Of the pods that had a node, in their order."""
    return tuple(segments.times(job, pod, until=until) for pod in _by_index(job) if pod.scheduled_at is not None)


def _is_to_be_deleted(job: ObservedJob, entry: AttemptRecord) -> bool:
    """Its end is recorded and it may still hold nodes. One that succeeded completes by itself."""
    ended_otherwise = entry.outcome not in (None, Outcome.SUCCEEDED)
    return ended_otherwise and not (job.deleting or job.complete or job.failed)


def _is_to_be_retired(job: ObservedJob, entry: AttemptRecord) -> bool:
    return entry.outcome is not None and (job.complete or job.failed) and not (job.deleting or job.has_ttl)


def _reference(job: ObservedJob) -> JobReference:
    return JobReference(name=job.name, uid=job.uid)
