# SPDX-License-Identifier: Apache-2.0
"""What the ledger of a benchmark says to the scheduler: the state of every trial, and what was and will be spent.

An account is opened from plan and ledger, and changed by each attempt that is recorded: only the points of those
attempts are computed again. Opened anew from the later ledger it is the same (a test compares both).

Each attempt is billed by itself, as in `analysis.costs`. The clock of a node is that of the pod on it. What a cloud
bills before a pod has come and after it is gone is not known here, so the sum is an estimate. Where `bills` says what
an attempt has cost at least, this assumes what it can have cost at most: a budget is kept by it.

Must not happen: an attempt that counts nothing because nobody saw its pods, or a sum over two currencies.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

from gpubench.api.price_result import Spent
from gpubench.cost import billing, price
from gpubench.cost.billing import Terms
from gpubench.plan import estimate, pool_prices
from gpubench.plan.plan import Plan, Point, Timing, Trial
from gpubench.scheduler import manifests, outcome, trials
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.scheduler.observed import ObservedJob, ObservedPod
from gpubench.scheduler.trials import TrialStatus

CLOCK = (
    "each pod's node from the pod's scheduling to its end, or to the end of its grace period where it was told to end; "
    "each attempt billed by itself by the pool's billing rule, with fees; the nodes' own start, end and idle time are "
    "not in it, and what runs is counted up to the last whole minute"
)
_AMOUNT_MAX = Decimal(10) ** 12  # what the status' schema takes
_MINUTE = 60.0  # in which the amount of what runs grows, all of it together: each time the whole benchmark is looked at
_PLACES_MIN = 2  # of an amount in a text; more where it has fewer than _DIGITS digits with them
_PLACES_MAX = 9
_DIGITS = 3
_THIRDS = 15  # decimal places, beyond which an amount is what arithmetic leaves of a third of an hour
_DIGITS_MAX = 25  # before and after the point; arithmetic has 28
_MILLISECOND = 0.001
_WIDE = Context(prec=64)  # any amount, with its cents
#: Attempts that did not come to their end by themselves.
_TOLD_TO_END = (Outcome.PREEMPTED, Outcome.STOPPED)
#: Failures to which no pod has to end: those that are there are told to when the attempt is recorded.
_WITHOUT_AN_END = frozenset(
    {
        Reason.TIMED_OUT,
        Reason.POD_VANISHED,
        Reason.JOB_VANISHED,
        Reason.NO_CAPACITY,
        Reason.CREATION_REFUSED,
        Reason.VOLUME_NOT_MOUNTED,
        Reason.IMAGE_INVALID,
        Reason.IMAGE_NOT_STARTED,
        Reason.POD_NOT_STARTED,
    }
)


#: Ends of Jobs that were looked at with their pods: one without a time had no node. At all other ends pods may be gone.
_LOOKED_AT = frozenset(
    {
        Reason.CREATION_REFUSED,
        Reason.NO_CAPACITY,
        Reason.VOLUME_NOT_MOUNTED,
        Reason.IMAGE_INVALID,
        Reason.IMAGE_NOT_STARTED,
        Reason.POD_NOT_STARTED,
        Reason.SUSPENDED,
        Reason.BUDGET_EXHAUSTED,
    }
)
#: What stopping an attempt takes, at most: it is told to end, ends, and is seen to have ended.
STOPPING_SECONDS = manifests.GRACE_SECONDS + outcome.SKEW_SECONDS
_RESOLUTION_SECONDS = 1.0  # of timestamps in the Kubernetes API


@dataclass(frozen=True, kw_only=True)
class Prices:
    """By what attempts are billed: of the pools that are run, those that have a price in the benchmark's currency."""

    currency: str
    terms: Mapping[str, Terms]  # by the pool's name


class Ended(NamedTuple):
    """What the attempts that have ended were billed, and runs that Kueue has ended of others; setup of their pools."""

    amount: Decimal = Decimal(0)
    pools: frozenset[str] = frozenset()  # on which a node was held
    assumed: int = 0  # attempts of which the time of a node is assumed
    unpriced: int = 0  # attempts on pools without a price


@dataclass(frozen=True, kw_only=True)
class Account:
    """See the module; amounts are in the currency of `prices`."""

    plan: Plan
    prices: Prices | None  # None where no pool has a price, or they have no currency in common
    ended: Ended
    expected: tuple[float, ...]  # seconds for which another attempt at each point will hold its nodes, as far as known
    unforeseen: frozenset[int]  # points of which nobody can say how long an attempt takes: at least what is expected
    point_of: Mapping[str, int]  # index of a trial's point
    runs_before: Mapping[str, tuple[float, ...]]  # seconds of each node, by the key of an attempt that has not ended
    attempts: Mapping[str, Sequence[AttemptRecord]]  # at each trial that has any, oldest first
    trials: Mapping[str, TrialStatus]  # by the trial's id; what the budget leaves out is not known here
    repeats: Sequence[Sequence[Trial]]  # the trials of each point, repeat by repeat
    of_points: tuple["_OfPoint", ...]

    def with_records(self, records: Iterable[AttemptRecord]) -> "Account":
        """The account after these attempts were recorded, as `Ledger.with_records` takes them."""
        attempts, touched = dict(self.attempts), set[int]()
        for record in records:
            before = list(attempts.get(record.trial, ()))
            place = next((number for number, one in enumerate(before) if one.attempt == record.attempt), None)
            if place is None:
                before = sorted((*before, record), key=lambda one: one.attempt)
            else:
                before[place] = record if before[place].outcome is None else before[place]
            attempts[record.trial] = tuple(before)
            if record.trial in self.point_of:
                touched.add(self.point_of[record.trial])
        if not touched:
            return replace(self, attempts=attempts)
        of_points = list(self.of_points)
        for index in touched:
            of_points[index] = _of_point(self.prices, self.plan, index, self.repeats[index], attempts)
        return _sum(
            self.plan,
            self.prices,
            point_of=self.point_of,
            repeats=self.repeats,
            attempts=attempts,
            of_points=tuple(of_points),
        )

    def following(self, ledger: Ledger) -> "Account":
        """The account of a later ledger: what was written since is taken over. Entries that have ended never change."""
        known = {record.key: record for record in self.records()}
        entries = ledger.by_key()
        if known.keys() - entries.keys():  # somebody has taken entries away
            return of(self.plan, ledger)
        written = [
            record
            for key, record in entries.items()
            if (before := known.get(key)) is None or (before.outcome is None and before != record)
        ]
        return self.with_records(written) if written else self

    def records(self) -> Iterable[AttemptRecord]:
        """All attempts."""
        return (record for of_trial in self.attempts.values() for record in of_trial)

    def point(self, trial: str) -> Point:
        """The point that a trial repeats."""
        return self.plan.points[self.point_of[trial]]

    def billed(self, point: Point, held: Iterable[float]) -> Decimal | None:
        """What an attempt at a point is billed for these seconds of each of its nodes; None without a price."""
        return None if self.prices is None else _billed(self.prices, self.plan, point, held)

    def billed_more(self, job: ObservedJob, held: Iterable[float]) -> Decimal | None:
        """The same of an attempt that runs, beyond what `ended` has of it: it is one attempt, with the fees of one."""
        point, before = self.point(job.trial), self.runs_before.get(job.key)
        if before is None:
            return self.billed(point, held)
        whole, counted = self.billed(point, (*before, *held)), self.billed(point, before)
        return None if whole is None or counted is None else whole - counted

    def setup(self, pools: Iterable[str]) -> Decimal:
        """What is to be paid once for these pools, where no attempt that has ended has held a node of them."""
        terms = {} if self.prices is None else self.prices.terms
        new = {*pools} - self.ended.pools
        due = [terms[pool].setup for pool in new if pool in terms]
        return sum((amount.value for amount in due if amount is not None), Decimal(0))


class _OfPoint(NamedTuple):
    """What the attempts at one point come to."""

    trials: Mapping[str, TrialStatus]
    expected: float
    unforeseen: bool
    next_cost: Decimal | None  # of another attempt, with what stopping it would take; None without a price
    amount: Decimal
    began: bool  # whether a node of its pool was held
    assumed: int
    unpriced: int
    runs_before: Mapping[str, tuple[float, ...]]


def of(plan: Plan, ledger: Ledger) -> Account:
    """The account of a ledger. What is run goes by the prices of `plan.as_measured()`."""
    found, attempts, repeats = prices(plan), ledger.by_trial(), plan.repeats_of_points()
    of_points = tuple(_of_point(found, plan, index, of_one, attempts) for index, of_one in enumerate(repeats))
    point_of = {trial.id: trial.point for trial in plan.trials}
    return _sum(plan, found, point_of=point_of, repeats=repeats, attempts=attempts, of_points=of_points)


def _sum(
    plan: Plan,
    prices: Prices | None,
    *,
    point_of: Mapping[str, int],
    repeats: Sequence[Sequence[Trial]],
    attempts: Mapping[str, Sequence[AttemptRecord]],
    of_points: tuple[_OfPoint, ...],
) -> Account:
    pools = {point.key.pool for point, one in zip(plan.points, of_points, strict=True) if one.began}
    due = [] if prices is None else [terms.setup for pool in sorted(pools) if (terms := prices.terms.get(pool))]
    return Account(
        plan=plan,
        prices=prices,
        ended=Ended(
            sum((one.amount for one in of_points), Decimal(0)) + sum((x.value for x in due if x), Decimal(0)),
            frozenset(pools),
            sum(one.assumed for one in of_points),
            sum(one.unpriced for one in of_points),
        ),
        expected=tuple(one.expected for one in of_points),
        unforeseen=frozenset(index for index, one in enumerate(of_points) if one.unforeseen),
        point_of=point_of,
        runs_before={key: seconds for one in of_points for key, seconds in one.runs_before.items()},
        attempts=attempts,
        trials={trial: status for one in of_points for trial, status in one.trials.items()},
        repeats=repeats,
        of_points=of_points,
    )


def _of_point(
    prices: Prices | None,
    plan: Plan,
    index: int,
    repeats: Sequence[Trial],
    attempts: Mapping[str, Sequence[AttemptRecord]],
) -> _OfPoint:
    point = plan.points[index]
    records = [record for trial in repeats for record in attempts.get(trial.id, ())]
    begun = [record for record in records if record.outcome is not None or record.segments]
    amount, began, assumed, unpriced = Decimal(0), False, 0, 0
    for record in begun if prices is not None else ():
        # One that goes on has been evicted by Kueue: the runs that it had are billed.
        goes_on = record.outcome is None
        held = Held(_of_runs_before(record), assumed=False) if goes_on else held_by(record, point, plan.timing)
        billed = None if prices is None else _billed(prices, plan, point, held.seconds)
        if billed is None:
            unpriced += 1
            continue
        amount, assumed, began = amount + billed, assumed + held.assumed, began or any(held.seconds)
    expected = expected_seconds(plan, begun)
    longest = [expected + STOPPING_SECONDS] * point.nodes
    return _OfPoint(
        trials=trials.of_point(plan, repeats, attempts),
        expected=expected,
        next_cost=_billed(prices, plan, point, longest) if prices is not None and point.runs else None,
        unforeseen=not estimate.trial_seconds(plan) and not _succeeded(begun),
        amount=amount,
        began=began,
        assumed=assumed,
        unpriced=unpriced,
        runs_before={record.key: _of_runs_before(record) for record in begun if record.outcome is None},
    )


def prices(plan: Plan) -> Prices | None:
    """The prices of the pools that are run; None where none has one, or they have no currency in common."""
    terms = {pool: found for pool in pools_run(plan) if (found := pool_prices.planned_terms(plan, pool)) is not None}
    currencies = {found.rate.currency for found in terms.values()}
    return Prices(currency=currencies.pop(), terms=terms) if len(currencies) == 1 else None


def pools_run(plan: Plan) -> tuple[str, ...]:
    """The pools on which a point has trials, each once."""
    return tuple(dict.fromkeys(plan.points[trial.point].key.pool for trial in plan.trials))


def _billed(prices: Prices, plan: Plan, point: Point, held: Iterable[float]) -> Decimal | None:
    terms = prices.terms.get(point.key.pool)
    if terms is None:
        return None
    lives = [Decimal(f"{seconds:.3f}") for seconds in held]
    bill = billing.attempt_bill(terms, node_seconds=lives, share=pool_prices.paid_share(plan, point))
    amount = bill.total.value
    return price.rounded(amount, digits=min(_THIRDS, _DIGITS_MAX - max(0, amount.adjusted())))


# --- how long nodes were held -----------------------------------------------------------------------------------------


def held_by_pods(pods: Sequence[ObservedPod], *, until: float, ends_later: bool = False) -> tuple[float, ...]:
    """The seconds for which each pod that has a node has held it.

    One that has not ended is counted up to `until`; where it is told to end just then, to the end of its grace period.
    """
    grace = float(manifests.GRACE_SECONDS) if ends_later else 0.0

    def seconds(pod: ObservedPod, scheduled_at: float) -> float:
        if pod.end is None:
            return max(0.0, until - scheduled_at) + grace
        return held(scheduled_at, pod.end.finished_at or until)

    return tuple(seconds(pod, pod.scheduled_at) for pod in pods if pod.scheduled_at is not None)


def is_incomplete(record: AttemptRecord, *, nodes: int) -> bool:
    """Whether pods of it may have been gone when somebody looked: then it held nodes for longer than is known.

    Who deletes a pod fails its Job, a Job that fails deletes its pods, and so does one that comes to its deadline.
    """
    waited = record.queue is not None and record.admitted_at is None  # it had no pods when it ended
    return record.reason not in _LOOKED_AT and not waited and len(held_seconds(record)) < nodes


def held(scheduled: float, ended: float) -> float:
    """How long a pod held its node. The API counts whole seconds: what began and ended in one is not nothing."""
    return max(_RESOLUTION_SECONDS, ended - scheduled)


def held_seconds(record: AttemptRecord) -> tuple[float, ...]:
    """How long each node of an attempt was held, as far as it is known: those of `node_times`."""
    return tuple(held(scheduled, ended) for scheduled, _, ended in record.pod_times)


class Held(NamedTuple):
    """How long an attempt held each of its nodes."""

    seconds: tuple[float, ...]
    assumed: bool  # of a node of it nobody saw the end: it counts for as long as the attempt can have held it


def held_by(record: AttemptRecord, point: Point, timing: Timing) -> Held:
    """How long an attempt that has ended held each of its nodes.

    Of a pod that was gone before its end was seen, it is not known: then its node counts from the Job's creation to the
    attempt's end, and at most to the Job's own deadline.
    """
    lasted = max(0.0, (record.ended_at or record.created_at) - record.created_at)
    known, before = _known(record, lasted=lasted), _of_runs_before(record)
    if not is_incomplete(record, nodes=point.nodes) or not lasted:
        return Held((*known, *before), assumed=False)
    ran = max(0.0, lasted - (record.admitted_at or 0.0))
    longest = min(ran, float(manifests.deadline_seconds(timing) + manifests.GRACE_SECONDS))
    return Held((*known, *(longest,) * (point.nodes - len(known)), *before), assumed=True)


def _of_runs_before(record: AttemptRecord) -> tuple[float, ...]:
    """The seconds of the nodes of runs that Kueue has ended; with the grace period, where pods were still to end."""
    return tuple(
        held(scheduled, ended) + (manifests.GRACE_SECONDS if ended > run.ended_at - _MILLISECOND else 0.0)
        for run in record.segments
        for scheduled, _, ended in run.pod_times
    )


def _known(record: AttemptRecord, *, lasted: float) -> tuple[float, ...]:
    """The seconds of the nodes of which it is known; with the grace period of pods that were still to end.

    Those are counted up to the moment of recording: the attempt's end, or after it where another pod's end is that.
    """
    told_to_end = record.outcome in _TOLD_TO_END or record.disruption is not None or record.reason in _WITHOUT_AN_END
    last = lasted - _MILLISECOND if told_to_end else lasted + _MILLISECOND
    return tuple(
        seconds + manifests.GRACE_SECONDS if ended > last else seconds
        for seconds, (_, _, ended) in zip(held_seconds(record), record.pod_times, strict=True)
    )


# --- what has been spent ----------------------------------------------------------------------------------------------


def spent(account: Account, live: Sequence[ObservedJob], now: float) -> Spent | None:
    """What the benchmark has spent so far, as its status says it; None where that is no amount in one currency.

    Nor is there one of an amount that a status cannot hold; what a budget leaves out says it all the same.
    """
    if account.prices is None:
        return None
    running = [account.billed_more(job, _so_far(job, now=now)) for job in live]
    known = [amount for amount in running if amount is not None]
    begun = account.setup(job.pool for job in live if held_by_pods(job.pods, until=now))
    whole = sum(known, account.ended.amount + begun)
    if whole + 1 >= _AMOUNT_MAX:  # it is rounded
        return None
    return Spent(
        amount=text(whole),
        currency=account.prices.currency,
        clock=CLOCK,
        assumed_attempts=account.ended.assumed,
        unpriced_attempts=account.ended.unpriced + len(running) - len(known),
    )


def grows_at(account: Account, live: Sequence[ObservedJob], now: float) -> float | None:
    """When what runs will have cost more although nothing happens; None where nothing that has a price runs."""
    if account.prices is None:
        return None
    grows = any(
        pod.scheduled_at is not None and pod.end is None
        for job in live
        if job.pool in account.prices.terms
        for pod in job.pods
    )
    return _minute(now) + _MINUTE if grows else None


def _so_far(job: ObservedJob, *, now: float) -> list[float]:
    """The seconds of each of its nodes up to the last whole minute: one at least, for a billing minimum."""
    return [max(1.0, seconds) for seconds in held_by_pods(job.pods, until=_minute(now))]


def _minute(now: float) -> float:
    """The begin of a minute."""
    return now // _MINUTE * _MINUTE


# --- what an attempt will take ----------------------------------------------------------------------------------------


def expected_seconds(plan: Plan, attempts: Iterable[AttemptRecord]) -> float:
    """For how long another attempt at a point is expected to hold each node, given the earlier ones at the point.

    As long as the longest of those that succeeded. Without one, what the plan's times add up to, and not less than an
    attempt has taken that was preempted or stopped on its way. In mode Training nothing adds up: 0, or at least that.
    """
    succeeded, unfinished = 0.0, 0.0
    for record in attempts:
        longest = max(held_seconds(record), default=0.0)
        if record.outcome is Outcome.SUCCEEDED:
            succeeded = max(succeeded, longest)
        elif record.outcome in _TOLD_TO_END:
            unfinished = max(unfinished, longest)
    return succeeded or max(unfinished, estimate.trial_seconds(plan) or 0.0)


def _succeeded(attempts: Iterable[AttemptRecord]) -> bool:
    """Whether one of them did, and it is known how long it took."""
    return any(record.outcome is Outcome.SUCCEEDED and any(held_seconds(record)) for record in attempts)


# --- words ------------------------------------------------------------------------------------------------------------


def text(amount: Decimal, *, rounding: str = ROUND_HALF_UP) -> str:
    """An amount as a status has it: two decimal places, or as many as three digits of it need."""
    places = max(_PLACES_MIN, _DIGITS - 1 - amount.adjusted()) if amount else _PLACES_MIN
    step = Decimal(1).scaleb(-min(places, _PLACES_MAX))
    shown = f"{amount.quantize(step, rounding=rounding, context=_WIDE):f}"
    whole, _, fraction = shown.partition(".")
    return f"{whole}.{fraction.rstrip('0'):0<{_PLACES_MIN}}"
