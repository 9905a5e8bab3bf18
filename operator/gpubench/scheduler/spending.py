# SPDX-License-Identifier: Apache-2.0
"""What the attempts of a study are billed in all: those that have ended, those that run, and one that may come.

Each attempt is billed by itself, as in `bills`. The clock of a node is that of the pod on it; what a cloud bills before
a pod has come and after it is gone is not known here, so the sum is an estimate and says so. Where `bills` says what an
attempt has cost at least, this assumes what it can have cost at most: a budget is kept by it.

Must not happen: an attempt that counts nothing because nobody saw its pods, or a sum over two currencies.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

from gpubench.analysis import bills, estimates
from gpubench.api.price_result import Spent
from gpubench.cost import billing, price
from gpubench.cost.billing import Terms
from gpubench.plan import estimate
from gpubench.plan.plan import Plan, Point, Timing
from gpubench.scheduler import manifests
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.scheduler.observed import ObservedJob, ObservedPod

CLOCK = (
    "each pod's node from the pod's scheduling to its end, or to the end of its grace period where it was told to end; "
    "each attempt billed by itself by the pool's billing rule, with fees; the nodes' own start, end and idle time are "
    "not in it, and what runs is counted up to the last whole minute"
)
_MINUTE = 60.0  # in which the amount of what runs grows, all of it together: each time the whole study is looked at
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


@dataclass(frozen=True, kw_only=True)
class Prices:
    """By what attempts are billed: of the pools that are run, those that have a price in the study's currency."""

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
    """What the ledger of a study says of money."""

    plan: Plan
    prices: Prices | None  # None where no pool has a price, or they have no currency in common
    ended: Ended
    expected: tuple[float, ...]  # seconds for which another attempt at each point will hold its nodes, as far as known
    unforeseen: frozenset[int]  # points of which nobody can say how long an attempt takes: at least what is expected
    point_of: Mapping[str, int]  # index of a trial's point
    runs_before: Mapping[str, tuple[float, ...]]  # seconds of each node, by the key of an attempt that has not ended

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


def account(plan: Plan, ledger: Ledger) -> Account:
    """What a ledger says of money."""
    point_of = {trial.id: trial.point for trial in plan.trials}
    attempts: list[list[AttemptRecord]] = [[] for _ in plan.points]
    for record in ledger.records:
        if record.trial in point_of and (record.outcome is not None or record.segments):
            attempts[point_of[record.trial]].append(record)
    found = prices(plan)
    return Account(
        plan=plan,
        prices=found,
        ended=Ended() if found is None else _ended(found, plan, attempts),
        expected=tuple(expected_seconds(plan, of_point) for of_point in attempts),  # of those that have ended
        unforeseen=frozenset(
            index
            for index, of_point in enumerate(attempts)
            if not estimate.trial_seconds(plan) and not _succeeded(of_point)
        ),
        point_of=point_of,
        runs_before={
            record.key: _of_runs_before(record)
            for of_point in attempts
            for record in of_point
            if record.outcome is None
        },
    )


def prices(plan: Plan) -> Prices | None:
    """The prices of the pools that are run; None where none has one, or they have no currency in common."""
    terms = {pool: found for pool in pools_run(plan) if (found := price.planned_terms(plan, pool)) is not None}
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
    bill = billing.attempt_bill(terms, node_seconds=lives, share=price.paid_share(plan, point))
    amount = bill.total.value
    return price.rounded(amount, digits=min(_THIRDS, _DIGITS_MAX - max(0, amount.adjusted())))


# --- how long nodes were held -----------------------------------------------------------------------------------------


def held(pods: Sequence[ObservedPod], *, until: float, ends_later: bool = False) -> tuple[float, ...]:
    """The seconds for which each pod that has a node has held it.

    One that has not ended is counted up to `until`; where it is told to end just then, to the end of its grace period.
    """
    grace = float(manifests.GRACE_SECONDS) if ends_later else 0.0

    def seconds(pod: ObservedPod, scheduled_at: float) -> float:
        if pod.end is None:
            return max(0.0, until - scheduled_at) + grace
        return bills.held(scheduled_at, pod.end.finished_at or until)

    return tuple(seconds(pod, pod.scheduled_at) for pod in pods if pod.scheduled_at is not None)


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
    if not bills.is_incomplete(record, nodes=point.nodes) or not lasted:
        return Held((*known, *before), assumed=False)
    ran = max(0.0, lasted - (record.admitted_at or 0.0))
    longest = min(ran, float(manifests.deadline_seconds(timing) + manifests.GRACE_SECONDS))
    return Held((*known, *(longest,) * (point.nodes - len(known)), *before), assumed=True)


def _of_runs_before(record: AttemptRecord) -> tuple[float, ...]:
    """The seconds of the nodes of runs that Kueue has ended; with the grace period, where pods were still to end."""
    return tuple(
        bills.held(scheduled, ended) + (manifests.GRACE_SECONDS if ended > run.ended_at - _MILLISECOND else 0.0)
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
        for seconds, (_, _, ended) in zip(bills.held_seconds(record), record.pod_times, strict=True)
    )


# --- what has been spent ----------------------------------------------------------------------------------------------


def spent(account: Account, live: Sequence[ObservedJob], now: float) -> Spent | None:
    """What the study has spent so far, as its status says it; None where that is no amount in one currency.

    Nor is there one of an amount that a status cannot hold; what a budget leaves out says it all the same.
    """
    if account.prices is None:
        return None
    running = [account.billed_more(job, _so_far(job, now=now)) for job in live]
    known = [amount for amount in running if amount is not None]
    begun = account.setup(job.pool for job in live if held(job.pods, until=now))
    whole = sum(known, account.ended.amount + begun)
    if not estimates.fits(whole + 1):  # it is rounded
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


def _ended(prices: Prices, plan: Plan, attempts: Sequence[Sequence[AttemptRecord]]) -> Ended:
    """What the attempts at each point were billed: those that succeeded, failed, were preempted or stopped."""
    amount, assumed, unpriced = Decimal(0), 0, 0
    pools: set[str] = set()
    for point, records in zip(plan.points, attempts, strict=True):
        for record in records:
            if record.outcome is not None:
                found = held_by(record, point, plan.timing)
            else:  # Kueue has evicted it
                found = Held(_of_runs_before(record), assumed=False)
            billed = _billed(prices, plan, point, found.seconds)
            if billed is None:
                unpriced += 1
                continue
            amount += billed
            assumed += found.assumed
            if any(found.seconds):
                pools.add(point.key.pool)
    setups = (terms.setup for pool in sorted(pools) if (terms := prices.terms[pool]))
    once = sum((setup.value for setup in setups if setup is not None), Decimal(0))
    return Ended(amount + once, frozenset(pools), assumed, unpriced)


def _so_far(job: ObservedJob, *, now: float) -> list[float]:
    """The seconds of each of its nodes up to the last whole minute: one at least, for a billing minimum."""
    return [max(1.0, seconds) for seconds in held(job.pods, until=_minute(now))]


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
        longest = max(bills.held_seconds(record), default=0.0)
        if record.outcome is Outcome.SUCCEEDED:
            succeeded = max(succeeded, longest)
        elif record.outcome in _TOLD_TO_END:
            unfinished = max(unfinished, longest)
    return succeeded or max(unfinished, estimate.trial_seconds(plan) or 0.0)


def _succeeded(attempts: Iterable[AttemptRecord]) -> bool:
    """Whether one of them did, and it is known how long it took."""
    return any(record.outcome is Outcome.SUCCEEDED and any(bills.held_seconds(record)) for record in attempts)


# --- words ------------------------------------------------------------------------------------------------------------


def text(amount: Decimal, *, rounding: str = ROUND_HALF_UP) -> str:
    """An amount as a status has it: two decimal places, or as many as three digits of it need."""
    places = max(_PLACES_MIN, _DIGITS - 1 - amount.adjusted()) if amount else _PLACES_MIN
    step = Decimal(1).scaleb(-min(places, _PLACES_MAX))
    shown = f"{amount.quantize(step, rounding=rounding, context=_WIDE):f}"
    whole, _, fraction = shown.partition(".")
    return f"{whole}.{fraction.rstrip('0'):0<{_PLACES_MIN}}"
