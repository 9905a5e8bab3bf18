# SPDX-License-Identifier: Apache-2.0
"""The heart: from plan, ledger and what is observed to one Decision. Pure; made again from scratch each time.

The steps: complete the ledger with what has begun, with what has ended and with what the budget ends; see how each
trial stands, whether it is needed and whether it can be paid for; tidy up Jobs whose end is recorded; start what may
start; derive the status; say what happened.
"""

from collections.abc import Mapping, Sequence

from gpubench.analysis import bills, environments, health_history, results, status
from gpubench.api.status_sizes import BILLED_POINTS_MAX
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import (
    admission,
    budget,
    conditions,
    drill,
    evidence,
    happenings,
    judgement,
    segments,
    spending,
    starts,
    waiting,
)
from gpubench.scheduler.decision import Decision, Description, JobReference
from gpubench.scheduler.evidence import Machines, Verdict
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, PodTimes, Reason
from gpubench.scheduler.observed import Observed, ObservedJob, ObservedNode, ObservedPod
from gpubench.scheduler.retries import TrialStanding
from gpubench.scheduler.spending import Account
from gpubench.scheduler.waiting import Pending


def decide(plan: Plan, ledger: Ledger, observed: Observed, now: float) -> Decision:
    """What is to be done now. `now` is in seconds since the epoch, as are all times in the arguments."""
    study = observed.study
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    jobs = tuple(job for job in observed.jobs if job.trial in points)  # a Job with a forged label is not ours to judge
    machines = _machines(ledger, jobs, observed)
    verdicts = {
        job.key: verdict
        for job in jobs
        if (verdict := _verdict(job, points[job.trial], plan=plan, observed=observed, on=machines[job.key], now=now))
    }
    news = _news(ledger, jobs, verdicts, points=points, observed=observed, now=now)
    after = ledger.with_records(news)
    measured = plan.as_measured()
    account, live = spending.account(measured, after), _live(jobs, after)
    limit = study.spec.limits.budget
    if too_dear := budget.too_dear(account, live, limit=limit, now=now):
        news = _news(ledger, jobs, verdicts | too_dear, points=points, observed=observed, now=now)
        after = ledger.with_records(news)
        account, live = spending.account(measured, after), _live(jobs, after)
    entries = after.by_key()
    attempts = after.by_trial()
    standings, purse = judgement.judged(plan, after, study.spec.limits, account=account, live=live, now=now)
    describe = environments.to_describe(jobs, after, now=now)
    create, short_of = starts.starts(plan, observed, standings, running=len(live), purse=purse, now=now)
    admitted = admission.admission(study, live, entries, is_served=observed.queue_is_served)
    pending = waiting.pending(plan, observed, standings, live=live, create=create, now=now)
    spec = study.spec
    baseline = spec.baseline if len(plan.points) <= BILLED_POINTS_MAX else None
    found = results.point_results(plan, standings, spec.goals, baseline=baseline, known=after.environment_by_key())
    new_status = status.status(
        study,
        plan,
        after,
        results=bills.with_bills(plan, found, attempts) if len(found) <= BILLED_POINTS_MAX else found,
        standings=standings,
        pending=pending,
        admission=admitted,
        spent=spending.spent(account if measured is plan else spending.account(plan, after), live, now),
        exhausted=budget.exhausted(measured, standings, purse),
        now=now,
    )
    return Decision(
        record=news,
        delete=tuple(_reference(job) for job in jobs if _is_to_be_deleted(job, entries[job.key])),
        describe=describe,
        retire=tuple(_reference(job) for job in jobs if _is_to_be_retired(job, entries[job.key])),
        create=create,
        short_of=short_of,
        disrupt=drill.evictions(study.spec.drill, after, live, points=points, seed=plan.seed, now=now),
        status=new_status,
        happenings=happenings.happenings(
            study, plan, ended=[record for record in news if record.outcome], created=create, status=new_status
        ),
        wake_at=_wake_at(
            plan,
            after,
            account,
            standings,
            observed=observed,
            live=live,
            machines=machines,
            pending=pending,
            describe=describe,
            now=now,
        ),
    )


def _live(jobs: Sequence[ObservedJob], ledger: Ledger) -> tuple[ObservedJob, ...]:
    """The Jobs whose attempts are under way."""
    entries = ledger.by_key()
    return tuple(job for job in jobs if entries[job.key].outcome is None)


def _machines(ledger: Ledger, jobs: Sequence[ObservedJob], observed: Observed) -> dict[str, Machines]:
    """What is known of the nodes of each Job's attempt."""
    entries = ledger.by_key()
    by_name = {node.name: node for node in observed.nodes}
    placed = {job.key: segments.placed(job, entries.get(job.key)) for job in jobs}
    return {key: Machines(by_name, nodes, observed.node_silent_seconds) for key, nodes in placed.items()}


def _verdict(
    job: ObservedJob, point: Point, *, plan: Plan, observed: Observed, on: Machines, now: float
) -> Verdict | None:
    # Of a program of the user's own nobody else has counted the ranks and their samples.
    key, own = point.key, point.key.is_own_program
    verdict = evidence.judge(
        job,
        nodes=point.nodes,
        timing=plan.timing,
        now=now,
        workers=key.workers if own else None,
        batch=key.batch_per_worker if own else None,
        epochs=key.epochs if own else None,
        machines=on,
    )
    if verdict is None and observed.study.spec.suspend:
        return Verdict(outcome=Outcome.STOPPED, reason=Reason.SUSPENDED, sentence="the study was suspended")
    return verdict


def _news(
    ledger: Ledger,
    jobs: Sequence[ObservedJob],
    verdicts: Mapping[str, Verdict],
    *,
    points: Mapping[str, Point],
    observed: Observed,
    now: float,
) -> tuple[AttemptRecord, ...]:
    """Entries to write: attempts new to the ledger, attempts that have ended, and those whose Job is simply gone."""
    entries = ledger.by_key()
    news: list[AttemptRecord] = []
    for job in jobs:
        entry = entries.get(job.key)
        verdict = verdicts.get(job.key)
        if entry is not None and entry.outcome is not None:
            continue
        pods = points[job.trial].nodes
        record = _placed(job, segments.followed(job, entry, pods=pods, now=now), nodes=observed.nodes, pods=pods)
        if verdict is not None:
            ended = _ended(job, record, verdict, nodes=observed.nodes, pods=pods, now=now)
            news.append(health_history.with_usual(ended, points[job.trial], observed.histories))
        elif record != entry:
            news.append(record)
    seen = {job.key for job in jobs}
    for record in ledger.records:
        if record.outcome is None and record.key not in seen:
            news.append(
                record.model_copy(
                    update={
                        "outcome": Outcome.FAILED,
                        "reason": Reason.JOB_VANISHED,
                        "sentence": f"Job {record.job} was deleted by somebody else while it ran",
                        "ended_at": now,
                    }
                )
            )
    return tuple(news)


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
    placed_at = [_after(job, pod.scheduled_at) for pod in _by_index(job) if pod.node and pod.scheduled_at is not None]
    when = tuple(placed_at) if len(placed_at) == pods else found.placed_at
    return found.model_copy(update={"nodes": placed, "placed_at": when, **where})


def _ended(
    job: ObservedJob,
    begun: AttemptRecord,
    verdict: Verdict,
    *,
    nodes: Sequence[ObservedNode],
    pods: int,
    now: float,
) -> AttemptRecord:
    """The entry of an attempt that has come to its end; `nodes` are those that the cluster knows."""
    ends = [pod.end.finished_at for pod in job.pods if pod.end is not None and pod.end.finished_at is not None]
    ended_at = max(ends, default=now)
    held_until = ended_at if verdict.outcome is Outcome.SUCCEEDED else now  # what has not ended is told to only now
    first = next((pod for pod in job.pods if pod.index == 0), None)
    if not begun.nodes:  # never all of its pods had one, or some were gone at the first look
        placed = _nodes_of(job)
        begun = begun.model_copy(update={"nodes": placed, **environments.location(placed, nodes, pods=pods)})
    return begun.model_copy(
        update={
            "outcome": verdict.outcome,
            "reason": verdict.reason,
            "disruption": verdict.disruption,
            "interruption": verdict.interruption,
            "drilled": drill.struck(job) if verdict.outcome is Outcome.PREEMPTED else None,
            "sentence": conditions.clamped(verdict.sentence, 1024),
            "exit_code": verdict.exit_code,
            "ended_at": ended_at,
            "node_seconds": _node_seconds(job, until=held_until),
            "pod_times": _pod_times(job, until=held_until),
            "image_id": first.image_id if first else None,
            "result": verdict.result,
        }
    )


def _nodes_of(job: ObservedJob) -> tuple[str, ...]:
    """The nodes of a Job's pods, by the pods' indices."""
    return tuple(pod.node for pod in _by_index(job) if pod.node)


def _by_index(job: ObservedJob) -> list[ObservedPod]:
    return sorted(job.pods, key=lambda pod: pod.index)


def _after(job: ObservedJob, moment: float) -> float:
    """Seconds after the Job's creation, to the millisecond."""
    return round(moment - job.created_at, 3)


def _node_seconds(job: ObservedJob, *, until: float) -> float | None:
    """Time that the attempt's pods held their nodes, summed; pods that still run count up to that moment."""
    held = [
        max(0.0, ((pod.end.finished_at if pod.end else None) or until) - pod.scheduled_at)
        for pod in job.pods
        if pod.scheduled_at is not None
    ]
    return sum(held) if held else None


def _pod_times(job: ObservedJob, *, until: float) -> tuple[PodTimes, ...]:
    """When each pod held its node, to the millisecond; as in `_node_seconds`, no pod for less than no time."""
    return tuple(
        (
            _after(job, pod.scheduled_at),
            None if pod.running_at is None else _after(job, pod.running_at),
            _after(job, max(pod.scheduled_at, (pod.end.finished_at if pod.end else None) or until)),
        )
        for pod in _by_index(job)
        if pod.scheduled_at is not None
    )


def _is_to_be_deleted(job: ObservedJob, entry: AttemptRecord) -> bool:
    """Its end is recorded and it may still hold nodes. One that succeeded completes by itself."""
    ended_otherwise = entry.outcome not in (None, Outcome.SUCCEEDED)
    return ended_otherwise and not (job.deleting or job.complete or job.failed)


def _is_to_be_retired(job: ObservedJob, entry: AttemptRecord) -> bool:
    return entry.outcome is not None and (job.complete or job.failed) and not (job.deleting or job.has_ttl)


def _wake_at(
    plan: Plan,
    ledger: Ledger,
    account: Account,
    standings: Mapping[str, TrialStanding],
    *,
    observed: Observed,
    live: Sequence[ObservedJob],
    machines: Mapping[str, Machines],
    pending: Pending | None,
    describe: Sequence[Description],
    now: float,
) -> float | None:
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    moments: list[float | None] = [
        evidence.next_deadline(job, nodes=points[job.trial].nodes, timing=plan.timing, machines=machines[job.key])
        for job in live
    ]
    moments += [
        now + admission.NEWS_SECONDS if job.suspended else job.begun_at + waiting.NEWS_AFTER_SECONDS
        for job in live
        if evidence.all_running_since(job, nodes=points[job.trial].nodes) is None
    ]
    moments += [standings[trial.id].not_before for trial in starts.startable(plan, standings)]
    if pending is not None and pending.reason in (conditions.WAITING_FOR_SLOTS, conditions.NODE_NOT_ANSWERING):
        moments.append(now + 5.0)  # slots of other studies are freed without an event of this one
    moments.append(budget.stops_at(account, live, limit=observed.study.spec.limits.budget, now=now))
    moments.append(spending.grows_at(account, live, now))
    moments.append(drill.next_at(observed.study.spec.drill, ledger, live, points=points, now=now))
    if describe:
        moments.append(now + environments.TRIED_AGAIN_SECONDS)
    moments += [waiting.stuck_at(job) for job in observed.jobs]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _reference(job: ObservedJob) -> JobReference:
    return JobReference(name=job.name, uid=job.uid)
