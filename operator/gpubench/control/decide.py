# SPDX-License-Identifier: Apache-2.0
"""The heart: from plan, ledger and what is observed to one Decision. Pure; made again from scratch each time.

The steps: complete the ledger with what has begun, with what has ended and with what the budget ends; see how each
trial stands, whether it is needed and whether it can be paid for; tidy up Jobs whose end is recorded; start what may
start; derive the status; say what happened.
"""

from collections.abc import Mapping, Sequence

from gpubench.api.benchmark_status import BILLED_POINTS_MAX
from gpubench.control import (
    bills,
    budget,
    conditions,
    environments,
    evidence,
    happenings,
    health_history,
    judgement,
    results,
    spending,
    starts,
    status,
    waiting,
)
from gpubench.control.decision import Decision, Description, JobReference
from gpubench.control.evidence import Verdict
from gpubench.control.ledger import AttemptRecord, Ledger, Outcome, PodTimes, Reason
from gpubench.control.observed import Observed, ObservedJob, ObservedNode
from gpubench.control.retries import TrialStanding
from gpubench.control.spending import Account
from gpubench.control.waiting import Pending
from gpubench.plan.plan import Plan, Point


def decide(plan: Plan, ledger: Ledger, observed: Observed, now: float) -> Decision:
    """What is to be done now. `now` is in seconds since the epoch, as are all times in the arguments."""
    study = observed.study
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    jobs = tuple(job for job in observed.jobs if job.trial in points)  # a Job with a forged label is not ours to judge
    verdicts = {
        job.key: verdict
        for job in jobs
        if (verdict := _verdict(job, points[job.trial], plan=plan, suspend=study.spec.suspend, now=now))
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
    pending = waiting.pending(plan, observed, standings, live=live, create=create, now=now)
    found = results.point_results(plan, standings, study.spec.goals, known=after.environment_by_key())
    new_status = status.status(
        study,
        plan,
        after,
        results=bills.with_bills(plan, found, attempts) if len(found) <= BILLED_POINTS_MAX else found,
        standings=standings,
        pending=pending,
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
        status=new_status,
        happenings=happenings.happenings(
            study, plan, ended=[record for record in news if record.outcome], created=create, status=new_status
        ),
        wake_at=_wake_at(
            plan, account, standings, observed=observed, live=live, pending=pending, describe=describe, now=now
        ),
    )


def _live(jobs: Sequence[ObservedJob], ledger: Ledger) -> tuple[ObservedJob, ...]:
    """The Jobs whose attempts are under way."""
    entries = ledger.by_key()
    return tuple(job for job in jobs if entries[job.key].outcome is None)


def _verdict(job: ObservedJob, point: Point, *, plan: Plan, suspend: bool, now: float) -> Verdict | None:
    # Of a program of the user's own nobody else has counted the ranks.
    workers = point.key.workers if point.key.is_own_program else None
    verdict = evidence.judge(job, nodes=point.nodes, timing=plan.timing, now=now, workers=workers)
    if verdict is None and suspend:
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
        if entry is None or (entry.outcome is None and verdict is not None):
            record = _record(job, verdict, nodes=observed.nodes, pods=points[job.trial].nodes, now=now)
            news.append(health_history.with_usual(record, points[job.trial], observed.histories))
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


def _record(
    job: ObservedJob, verdict: Verdict | None, *, nodes: Sequence[ObservedNode], pods: int, now: float
) -> AttemptRecord:
    started = AttemptRecord(
        trial=job.trial, attempt=job.attempt, job=job.name, job_uid=job.uid, created_at=job.created_at
    )
    if verdict is None:
        return started
    ends = [pod.end.finished_at for pod in job.pods if pod.end is not None and pod.end.finished_at is not None]
    ended_at = max(ends, default=now)
    held_until = ended_at if verdict.outcome is Outcome.SUCCEEDED else now  # what has not ended is told to only now
    first = next((pod for pod in job.pods if pod.index == 0), None)
    placed = tuple(pod.node for pod in sorted(job.pods, key=lambda pod: pod.index) if pod.node)
    return started.model_copy(
        update={
            "outcome": verdict.outcome,
            "reason": verdict.reason,
            "disruption": verdict.disruption,
            "sentence": conditions.clamped(verdict.sentence, 1024),
            "exit_code": verdict.exit_code,
            "ended_at": ended_at,
            "nodes": placed,
            **environments.location(placed, nodes, pods=pods),
            "node_seconds": _node_seconds(job, until=held_until),
            "pod_times": _pod_times(job, until=held_until),
            "image_id": first.image_id if first else None,
            "result": verdict.result,
        }
    )


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

    def after(moment: float) -> float:
        return round(moment - job.created_at, 3)

    return tuple(
        (
            after(pod.scheduled_at),
            None if pod.running_at is None else after(pod.running_at),
            after(max(pod.scheduled_at, (pod.end.finished_at if pod.end else None) or until)),
        )
        for pod in sorted(job.pods, key=lambda pod: pod.index)
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
    account: Account,
    standings: Mapping[str, TrialStanding],
    *,
    observed: Observed,
    live: Sequence[ObservedJob],
    pending: Pending | None,
    describe: Sequence[Description],
    now: float,
) -> float | None:
    nodes = {trial.id: plan.points[trial.point].nodes for trial in plan.trials}
    moments: list[float | None] = [
        evidence.next_deadline(job, nodes=nodes[job.trial], timing=plan.timing) for job in live
    ]
    moments += [
        job.created_at + waiting.NEWS_AFTER_SECONDS
        for job in live
        if evidence.all_running_since(job, nodes=nodes[job.trial]) is None
    ]
    moments += [standings[trial.id].not_before for trial in starts.startable(plan, standings)]
    if pending is not None and pending.reason in (conditions.WAITING_FOR_SLOTS, conditions.NODE_NOT_ANSWERING):
        moments.append(now + 5.0)  # slots of other studies are freed without an event of this one
    moments.append(budget.stops_at(account, live, limit=observed.study.spec.limits.budget, now=now))
    moments.append(spending.grows_at(account, live, now))
    if describe:
        moments.append(now + environments.TRIED_AGAIN_SECONDS)
    moments += [waiting.stuck_at(job) for job in observed.jobs]
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _reference(job: ObservedJob) -> JobReference:
    return JobReference(name=job.name, uid=job.uid)
