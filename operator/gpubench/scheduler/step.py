# SPDX-License-Identifier: Apache-2.0
"""What should run now: one step from plan, ledger, account and what is observed to actions. Pure.

Complete the ledger with what has begun, with what has ended and with what the budget ends. See what became of each
trial, whether it is needed and whether it can be paid for. Tidy up Jobs whose end is recorded, and start what may
start. What the results say is no matter here (`gpubench.analysis`).
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import names
from gpubench.api.point_result import PointState
from gpubench.api.price_result import Spent
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import account as accounts
from gpubench.scheduler import budget, capacity, conditions, drill, environments, manifests, node_tests, outcome, trials
from gpubench.scheduler.account import Account
from gpubench.scheduler.actions import Actions, Gang, JobReference
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, PodTimes, Reason, Segment
from gpubench.scheduler.observed import Observed, ObservedJob, ObservedNode, ObservedPod, Study
from gpubench.scheduler.outcome import AttemptOutcome, NodeStates
from gpubench.scheduler.trials import PointStatus, TrialStatus
from gpubench.units import counted

OPEN = frozenset({PointState.PENDING, PointState.RUNNING})


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
    exhausted: str | None  # what the budget leaves out, as a message
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
        job.key: NodeStates(by_name, _nodes_of_run(job, entries.get(job.key)), observed.node_silent_seconds)
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
    waits = gang_waits(plan, observed, trials_now, live=live, create=create, now=now)
    requeue = [
        *(
            outcome.next_deadline(job, nodes=point_of[job.trial].nodes, timing=plan.timing, nodes_seen=seen[job.key])
            for job in live
        ),
        *(
            now + ADMISSION_SECONDS if job.suspended else job.begun_at + NEWS_AFTER_SECONDS
            for job in live
            if outcome.all_running_since(job, nodes=point_of[job.trial].nodes) is None
        ),
        *(trials_now[trial.id].not_before for trial in trials.startable(plan, trials_now)),
        budget.stops_at(account_after, live, limit=limit, now=now),
        accounts.grows_at(account_after, live, now),
        drill.next_at(study.spec.drill, after, live, points=point_of, now=now),
        now + environments.TRIED_AGAIN_SECONDS if describe else None,
        *(stuck_at(job) for job in observed.jobs),
    ]
    if waits is not None and waits.reason in (conditions.WAITING_FOR_SLOTS, conditions.NODE_NOT_ANSWERING):
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
        pending=waits,
        admission=admission(study, live, entries, is_served=observed.queue_is_served),
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
        return AttemptOutcome(outcome=Outcome.STOPPED, reason=Reason.SUSPENDED, message="the benchmark was suspended")
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
        record = _placed(job, _followed(job, entry, pods=pods, now=now), nodes=observed.nodes, pods=pods)
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
    placed_at = [after(job, pod.scheduled_at) for pod in _by_index(job) if pod.node and pod.scheduled_at is not None]
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
            "sentence": conditions.clamped(end.message, 1024),
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
    return tuple(times(job, pod, until=until) for pod in _by_index(job) if pod.scheduled_at is not None)


def _is_to_be_deleted(job: ObservedJob, entry: AttemptRecord) -> bool:
    """Its end is recorded and it may still hold nodes. One that succeeded completes by itself."""
    ended_otherwise = entry.outcome not in (None, Outcome.SUCCEEDED)
    return ended_otherwise and not (job.deleting or job.complete or job.failed)


def _is_to_be_retired(job: ObservedJob, entry: AttemptRecord) -> bool:
    return entry.outcome is not None and (job.complete or job.failed) and not (job.deleting or job.has_ttl)


def _reference(job: ObservedJob) -> JobReference:
    return JobReference(name=job.name, uid=job.uid)


# --- runs of one attempt ----------------------------------------------------------------------------------------------
#
# Kueue suspends a Job that it evicts, and sets the same one going again. An eviction is no end of the attempt and no
# failure: what ran until then becomes a segment of its entry, with the nodes that it held.
#
# Must not happen: nodes that were held and are in no bill; two runs that are taken for one.


def _followed(job: ObservedJob, entry: AttemptRecord | None, *, pods: int, now: float) -> AttemptRecord | None:
    """The entry of an attempt that has not ended, as its Job stands in its queue; as it is where it is in none."""
    if job.queue is None:
        return entry
    found = entry or AttemptRecord(
        trial=job.trial, attempt=job.attempt, job=job.name, job_uid=job.uid, created_at=job.created_at
    )
    found = found.model_copy(update={"queue": job.queue})
    admitted_at = None if job.suspended or job.started_at is None else after(job, job.started_at)
    if found.admitted_at is not None and admitted_at != found.admitted_at:
        found = _with_segment(job, found, pods=pods, until=_ended_at(job, now=now))
    return found.model_copy(update={"admitted_at": admitted_at})


def _nodes_of_run(job: ObservedJob, entry: AttemptRecord | None) -> tuple[str, ...]:
    """The nodes in the entry of an attempt, where they are those of the run that goes on."""
    if entry is None:
        return ()
    goes_on = not job.suspended and job.started_at is not None and entry.admitted_at == after(job, job.started_at)
    return entry.nodes if job.queue is None or goes_on else ()


def _with_segment(job: ObservedJob, begun: AttemptRecord, *, pods: int, until: float) -> AttemptRecord:
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


# --- why a gang waits -------------------------------------------------------------------------------------------------


def gang_waits(
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
    found = _of_live(plan, live, now=now)
    if found is not None or live or create or observed.study.spec.suspend:
        return found
    waiting = [trial for trial in trials.startable(plan, trials_now) if trials_now[trial.id].not_before <= now]
    return _no_room(capacity.gang_of(plan, waiting[0], attempt=1), observed, now=now) if waiting else None


def stuck_at(job: ObservedJob) -> float | None:
    """From when on an attempt that was told to end is said not to let go of its nodes."""
    since = job.deleting_since or job.failing_since
    return since + manifests.GRACE_SECONDS + STUCK_AFTER_SECONDS if since is not None and job.holds_slots else None


def _of_live(plan: Plan, live: Sequence[ObservedJob], *, now: float) -> Waits | None:
    nodes = {trial.id: plan.points[trial.point].nodes for trial in plan.trials}
    for job in live:
        said = outcome.pending_message(job, nodes=nodes[job.trial])
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
        return None  # the benchmark's own last attempt is about to give them back: nobody else is in the way
    free = next((entry.slots for entry in observed.free if entry.pool == gang.pool), 0)
    return Waits(
        reason=conditions.WAITING_FOR_SLOTS,
        message=f"an attempt needs {gang.slots} slots of pool {gang.pool} and {free} are free for this benchmark: "
        "other benchmarks hold the rest, or were there first",
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
        many = counted(len(live), "Job was", "Jobs were")
        return Admission(holds=True, reason=conditions.ADMITTED, message=f"{many} admitted by queue {queue}")
    if not is_served:
        return Admission(
            holds=False,
            reason=conditions.KUEUE_ABSENT,
            message=f"Job {waiting.name} waits for queue {queue}, and the cluster has no Kueue (no API group "
            f"{names.KUEUE_GROUP}): install it, or apply the benchmark without spec.queueName",
        )
    said = f": {' '.join(waiting.queue_message.split())}" if waiting.queue_message else ""
    if times := len(entries[waiting.key].segments):
        often = "once" if times == 1 else f"{times} times"
        message = f"Job {waiting.name} was evicted from queue {queue} {often}, and waits to be admitted again{said}"
        return Admission(holds=False, reason=conditions.QUEUE_EVICTED, message=message)
    message = f"Job {waiting.name} waits in queue {queue}{said}"
    return Admission(holds=False, reason=conditions.WAITING_FOR_QUEUE, message=message)
