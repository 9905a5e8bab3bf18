# SPDX-License-Identifier: Apache-2.0
"""What the ledger of a benchmark says to the scheduler: the state of every trial, and what was and will be spent.

Each attempt is billed by itself, as in `analysis.costs`, by the clock of the pods on its nodes. What a cloud bills
before and after is not known here. Where costs assume the least an attempt can have cost, this assumes the most.
Must not happen: an attempt that counts nothing because nobody saw its pods, or a sum over two currencies.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cached_property
from typing import NamedTuple

from gpubench.api.price_result import Spent
from gpubench.cost import billing, price
from gpubench.plan import estimate, pool_prices
from gpubench.plan.plan import Plan, Point, Timing, Trial
from gpubench.scheduler import observed, outcome, trials
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason, Segment
from gpubench.scheduler.trials import TrialStatus

CLOCK = (
    "each pod's node from the pod's scheduling to its end, or to the end of its grace period where that was not seen; "
    "each attempt billed by itself by the pool's billing rule, with fees; the nodes' own start, end and idle time are "
    "not in it, and what runs is counted up to the last whole minute"
)
AMOUNT_MAX = Decimal(10) ** 12  # what the status' schema takes
MINUTE = 60.0  # in which the amount of what runs grows
_PLACES_MIN = 2  # of an amount in a text; more where it has fewer than _DIGITS digits with them
_PLACES_MAX = 9
_DIGITS = 3
_THIRDS = 15  # decimal places, beyond which an amount is what arithmetic leaves of a third of an hour
_DIGITS_MAX = 25  # before and after the point; arithmetic has 28
_WIDE = Context(prec=64)  # any amount, with its cents
#: Jobs that never got so far, and were looked at with their pods: a pod without a time had no node.
_NOT_STARTED = frozenset(
    {
        Reason.NO_CAPACITY,
        Reason.NODE_GONE,
        Reason.CREATION_REFUSED,
        Reason.ADMISSION_REFUSED,
        Reason.VOLUME_NOT_MOUNTED,
        Reason.IMAGE_INVALID,
        Reason.IMAGE_NOT_STARTED,
        Reason.POD_NOT_STARTED,
        Reason.POD_INITIALIZING,
    }
)
#: At all other ends pods may be gone.
_LOOKED_AT = _NOT_STARTED | {Reason.SUSPENDED, Reason.BUDGET_EXHAUSTED}
#: What stopping an attempt takes, at most: it is told to end, ends, and is seen to have ended.
STOPPING_SECONDS = outcome.GRACE_SECONDS + outcome.SKEW_SECONDS
_RESOLUTION_SECONDS = 1.0  # of timestamps in the Kubernetes API


class PointAccount(NamedTuple):
    """What the attempts at one point come to."""

    trials: Mapping[str, TrialStatus]
    expected: float  # seconds for which another attempt will hold its nodes, as far as known
    unforeseen: bool  # nobody can say how long an attempt takes: at least what is expected
    next_cost: Decimal | None  # of another attempt, with what stopping it would take; None without a price
    amount: Decimal  # billed to attempts that have ended, and runs that Kueue has ended of others
    began: bool  # whether a node of its pool was held
    holds: bool  # a node for an attempt that has ended
    assumed: int  # attempts of which the time of a node is assumed
    unpriced: int  # attempts without a price


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of a ledger, point by point."""

    plan: Plan
    currency: str | None  # of all amounts; None where no pool has a price, or they have no currency in common
    terms: Mapping[str, billing.Terms]  # by pool: those that are run and have a price in that currency
    repeats: Sequence[Sequence[Trial]]  # the trials of each point, repeat by repeat
    attempts: Mapping[str, Sequence[AttemptRecord]]  # at each trial that has any, oldest first
    of_points: tuple[PointAccount, ...]

    def following(self, ledger: Ledger) -> "Account":
        """The account of a later ledger: only points whose attempts have changed are computed again."""
        attempts, of_points = ledger.by_trial, list(self.of_points)
        if attempts is self.attempts:
            return self
        changed = [
            index
            for index, repeats in enumerate(self.repeats)
            if any(attempts.get(trial.id) != self.attempts.get(trial.id) for trial in repeats)
        ]
        for index in changed:
            of_points[index] = self._of_point(index, attempts)
        return replace(self, attempts=attempts, of_points=tuple(of_points)) if changed else self

    @cached_property
    def trials(self) -> Mapping[str, TrialStatus]:
        """By the trial's id; what the budget leaves out is not known here."""
        return {trial: status for one in self.of_points for trial, status in one.trials.items()}

    @cached_property
    def pools_begun(self) -> frozenset[str]:
        """On which an attempt that has ended has held a node."""
        points = zip(self.plan.points, self.of_points, strict=True)
        return frozenset(point.key.pool for point, one in points if one.began)

    @cached_property
    def ended(self) -> Decimal:
        """What attempts that have ended were billed, and runs that Kueue has ended of others; setup of their pools."""
        return sum((one.amount for one in self.of_points), self._setup(self.pools_begun))

    def ends_after(self, trial: str) -> float:
        """Seconds after its start by which an attempt is expected to have ended; infinite where nobody can say."""
        point = self.of_points[self.plan.trial_by_id[trial].point]
        return math.inf if point.unforeseen else point.expected + STOPPING_SECONDS

    def ends(self, jobs: Iterable[observed.ObservedJob]) -> dict[str, tuple[float, float]]:
        """By the name of a Job, when it is expected to have ended, and when its time-outs end it."""
        timing = self.plan.timing
        placed = timing.scheduling_timeout + timing.attempt_timeout
        waiting = placed + (timing.capacity_timeout or math.inf)  # for its first node
        return {
            job.name: (
                job.begun_at + self.ends_after(job.trial),
                job.begun_at + (placed if any(pod.node for pod in job.pods) else waiting),
            )
            for job in jobs
            if job.trial in self.plan.trial_by_id
        }

    def billed(self, point: Point, held: Iterable[float]) -> Decimal | None:
        """What an attempt at a point is billed for these seconds of each of its nodes; None without a price."""
        if (terms := self.terms.get(point.key.pool)) is None:
            return None
        lives = [Decimal(f"{seconds:.3f}") for seconds in held]
        share = pool_prices.paid_share(self.plan, point)
        amount = billing.attempt_bill(terms, node_seconds=lives, share=share).total.value
        return price.rounded(amount, digits=min(_THIRDS, _DIGITS_MAX - max(0, amount.adjusted())))

    def billed_more(self, job: observed.ObservedJob, held: Iterable[float]) -> Decimal | None:
        """The same of an attempt that runs, beyond what `ended` has of it: it is one attempt, with the fees of one."""
        records = self.attempts.get(job.trial, ())
        before = next((_in_runs_before(record) for record in records if record.attempt == job.attempt), ())
        point = self.plan.point_by_trial[job.trial]
        whole = self.billed(point, (*before, *held))
        counted = self.billed(point, before) if before else Decimal(0)
        return None if whole is None or counted is None else whole - counted

    def setup(self, pools: Iterable[str]) -> Decimal:
        """What is to be paid once for these pools, where no attempt that has ended has held a node of them."""
        return self._setup({*pools} - self.pools_begun)

    def _setup(self, pools: Iterable[str]) -> Decimal:
        due = (self.terms[pool].setup for pool in pools if pool in self.terms)
        return sum((amount.value for amount in due if amount is not None), Decimal(0))

    def _of_point(self, index: int, attempts: Mapping[str, Sequence[AttemptRecord]]) -> PointAccount:
        plan, point, repeats = self.plan, self.plan.points[index], self.repeats[index]
        records = [record for trial in repeats for record in attempts.get(trial.id, ())]
        begun = [record for record in records if record.outcome is not None or record.segments]
        held = [held_by(record, point, plan.timing) for record in begun]
        bills = [self.billed(point, one.seconds) for one in held]
        priced = [(one, bill) for one, bill in zip(held, bills, strict=True) if bill is not None]
        expected = expected_seconds(plan, begun)
        succeeded = (record for record in begun if record.outcome is Outcome.SUCCEEDED)
        return PointAccount(
            trials=trials.of_point(plan, repeats, attempts),
            expected=expected,
            unforeseen=not estimate.trial_seconds(plan) and not any(any(held_seconds(record)) for record in succeeded),
            next_cost=self.billed(point, [expected + STOPPING_SECONDS] * point.nodes) if point.runs else None,
            amount=sum((bill for _, bill in priced), Decimal(0)),
            began=any(any(one.seconds) for one, _ in priced),
            holds=any(record.holds_nodes for record in begun),
            assumed=sum(one.assumed for one, _ in priced),
            unpriced=len(begun) - len(priced),
        )


def of(plan: Plan, ledger: Ledger) -> Account:
    """The account of a ledger. What is run goes by the prices of `plan.as_measured()`."""
    *_, found = in_parts(plan, ledger)
    return found


def in_parts(plan: Plan, ledger: Ledger) -> Iterator[Account]:
    """The account as it grows point by point, the last one whole: 256 points with ten attempts take 80 ms."""
    terms = {pool: known for pool in plan.pools_run if (known := pool_prices.planned_terms(plan, pool)) is not None}
    currencies = {known.rate.currency for known in terms.values()}
    is_one = len(currencies) == 1
    found = Account(
        plan=plan,
        currency=min(currencies) if is_one else None,
        terms=terms if is_one else {},
        repeats=plan.repeats_of_points(),
        attempts=ledger.by_trial,
        of_points=(),
    )
    yield found
    for index in range(len(plan.points)):
        found = replace(found, of_points=(*found.of_points, found._of_point(index, found.attempts)))
        yield found


# --- how long nodes were held -----------------------------------------------------------------------------------------


def held_by_pods(pods: Sequence[observed.ObservedPod], *, until: float, ends_later: bool = False) -> tuple[float, ...]:
    """Seconds for which each pod has held its node, up to `until` or, with `ends_later`, its grace period's end."""
    grace = float(outcome.GRACE_SECONDS) if ends_later else 0.0
    return tuple(
        held(pod.scheduled_at, outcome.told(pod.left_at or until, until))
        if pod.has_left
        else max(0.0, until - pod.scheduled_at) + grace
        for pod in pods
        if pod.scheduled_at is not None
    )


def is_incomplete(record: AttemptRecord, *, nodes: int) -> bool:
    """Whether pods of it, deleted before somebody looked, may have held nodes for longer than is known."""
    is_gone = len(record.placed_at) > len(record.pod_times)  # a pod that had a node
    lacks = (is_gone or record.reason not in _LOOKED_AT) and not record.is_queued and len(record.pod_times) < nodes
    return lacks or any(run.unseen for run in record.runs)


def held(scheduled: float, ended: float) -> float:
    """How long a pod held its node. The API counts whole seconds: what began and ended in one is not nothing."""
    return max(_RESOLUTION_SECONDS, ended - scheduled)


def held_seconds(record: AttemptRecord) -> tuple[float, ...]:
    """How long each node of an attempt was held, as far as it is known."""
    return tuple(held(scheduled, ended) for scheduled, _, ended in record.pod_times)


class Held(NamedTuple):
    """How long an attempt held each of its nodes."""

    seconds: tuple[float, ...]
    assumed: bool  # of a node of it nobody saw the end: it counts for as long as the attempt can have held it


def held_by(record: AttemptRecord, point: Point, timing: Timing) -> Held:
    """How long an attempt held each of its nodes; of one that goes on, in the runs that Kueue has ended.

    A pod that was gone before its end was seen counts from the Job's creation to the attempt's end, and at most to the
    Job's own deadline. A pod that still holds its node counts to the end of a grace period from when that was recorded.
    """
    before = _in_runs_before(record)
    if record.outcome is None:
        return Held(before, assumed=False)
    ran = (record.ended_at or record.created_at) - record.created_at - (record.admitted_at or 0.0)
    known = _with_grace(record)
    if not is_incomplete(record, nodes=point.nodes) or ran <= 0:
        return Held((*known, *before), assumed=False)
    longest = min(ran, float(outcome.deadline_seconds(timing) + outcome.GRACE_SECONDS))
    return Held((*known, *(longest,) * (point.nodes - len(known)), *before), assumed=True)


def _in_runs_before(record: AttemptRecord) -> tuple[float, ...]:
    """Of runs that are summed each has its share: a bill has a minimum for each."""
    parts = ((seconds / run.summed, run.summed) for run in record.segments for seconds in _with_grace(run))
    return tuple(itertools.chain.from_iterable(itertools.repeat(seconds, times) for seconds, times in parts))


def _with_grace(run: AttemptRecord | Segment) -> tuple[float, ...]:
    """How long each pod held its node, with its grace period where it still does."""
    growing = {position for position, _ in run.holding}
    return tuple(
        held(scheduled, ended) + (outcome.GRACE_SECONDS if position in growing else 0.0)
        for position, (scheduled, _, ended) in enumerate(run.pod_times)
    )


# --- what has been spent, and what an attempt will take ---------------------------------------------------------------


def spent(account: Account, live: Sequence[observed.ObservedJob], now: float) -> Spent | None:
    """What the benchmark has spent so far; None of no amount in one currency, or of one that a status cannot hold."""
    if account.currency is None:
        return None
    minute = now // MINUTE * MINUTE
    # One second of a node at least, for a billing minimum.
    held = [(job, [max(1.0, seconds) for seconds in held_by_pods(job.pods, until=minute)]) for job in live]
    known = [amount for job, seconds in held if (amount := account.billed_more(job, seconds)) is not None]
    whole = sum(known, account.ended + account.setup(job.pool for job, seconds in held if seconds))
    if round(whole) >= AMOUNT_MAX:
        return None
    return Spent(
        amount=text(whole),
        currency=account.currency,
        clock=CLOCK,
        assumed_attempts=sum(one.assumed for one in account.of_points),
        unpriced_attempts=sum(one.unpriced for one in account.of_points) + len(live) - len(known),
    )


def grows_at(account: Account, live: Sequence[observed.ObservedJob], now: float) -> float | None:
    """When what runs will have cost more although nothing happens; None where nothing that has a price runs."""
    pods = (pod for job in live if job.pool in account.terms for pod in job.pods)
    grows = any(pod.scheduled_at is not None and pod.end is None for pod in pods)
    return (now // MINUTE + 1) * MINUTE if grows else None


def expected_seconds(plan: Plan, attempts: Sequence[AttemptRecord]) -> float:
    """For how long another attempt at a point is expected to hold each node, given the earlier ones at the point.

    As long as the longest of those that succeeded. Without one, what the plan's times add up to, and not less than an
    attempt has taken that was preempted or stopped on its way. In mode Training nothing adds up: 0, or at least that.
    """

    def longest(*outcomes: Outcome) -> float:
        every = (seconds for record in attempts if record.outcome in outcomes for seconds in held_seconds(record))
        return max(every, default=0.0)

    return longest(Outcome.SUCCEEDED) or max(
        longest(Outcome.PREEMPTED, Outcome.STOPPED), estimate.trial_seconds(plan) or 0.0
    )


def text(amount: Decimal, *, rounding: str = ROUND_HALF_UP) -> str:
    """An amount as a status has it: two decimal places, or as many as three digits of it need."""
    places = max(_PLACES_MIN, _DIGITS - 1 - amount.adjusted()) if amount else _PLACES_MIN
    step = Decimal(1).scaleb(-min(places, _PLACES_MAX))
    whole, _, fraction = f"{amount.quantize(step, rounding=rounding, context=_WIDE):f}".partition(".")
    return f"{whole}.{fraction.rstrip('0'):0<{_PLACES_MIN}}"
