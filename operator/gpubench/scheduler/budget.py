# SPDX-License-Identifier: Apache-2.0
"""`spec.limits.budget`: which attempts fit into what is left of it, which must stop, and when a benchmark has run out.

An attempt starts only if what it is expected to be billed (`account`), and what those that run are still expected to
be, fits into the budget. To each is added what stopping it would take, so that an attempt that turns out longer can
still be stopped in time. One of which nobody can say how long it will take runs alone. While something runs, a trial
that does not fit waits, for less may be billed than is expected; when nothing runs, it is passed over for one that is
cheaper; when none fits, the benchmark has run out: it ends and holds nothing.

Nothing is remembered: all follows from plan, ledger, what is observed and the budget of this moment. So a restart
changes nothing, and a benchmark whose budget is raised goes on where it was.

Must not happen: an attempt that is billed beyond the budget, or one on a pool that nobody knows the price of.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal

from gpubench.api.point_result import Omission
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.scheduler import account as accounts
from gpubench.scheduler import trials
from gpubench.scheduler.account import Account
from gpubench.scheduler.ledger import Outcome, Reason
from gpubench.scheduler.observed import ObservedJob
from gpubench.scheduler.outcome import AttemptOutcome
from gpubench.scheduler.trials import TrialState, TrialStatus
from gpubench.units import workers_text

_STEPS = 48  # of a bisection: from a year to below a microsecond


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """A budget at one moment; amounts are in the currency of the study."""

    budget: Decimal
    currency: str | None  # None where no pool that is run has a price
    spent: Decimal  # by attempts that have ended
    reserved: Decimal  # for those that run: what each is expected to be billed in the end
    costs: tuple[Decimal | None, ...]  # of another attempt, by point; None where its pool has no price
    unforeseen: frozenset[int]  # points of which nobody can say how long an attempt takes
    is_alone: bool  # an attempt of such a point runs: nothing may start beside it
    is_final: bool  # nothing runs, so that nothing that is reserved will come back

    @property
    def left(self) -> Decimal:
        """What another attempt may cost."""
        return self.budget - self.spent - self.reserved

    def fits(self, trial: Trial) -> bool:
        """Whether an attempt at a trial may start."""
        cost = self.costs[trial.point]
        fits_beside = self.is_final or not (self.is_alone or trial.point in self.unforeseen)
        return cost is not None and cost <= self.left and fits_beside

    def may_fit_later(self, trial: Trial) -> bool:
        """Whether a trial that does not fit now has something to wait for."""
        return not self.is_final and self.costs[trial.point] is not None

    def with_attempt(self, trial: Trial) -> "BudgetState":
        """The budget when an attempt at this trial runs, too."""
        return replace(
            self,
            reserved=self.reserved + (self.costs[trial.point] or Decimal(0)),
            is_alone=self.is_alone or trial.point in self.unforeseen,
            is_final=False,
        )


def state(account: Account, live: Sequence[ObservedJob], *, limit: str | None, now: float) -> BudgetState | None:
    """The benchmark's budget now; None where it has none."""
    if limit is None:
        return None
    running = _running(account, live)
    begun = {one.point.key.pool for one in running}
    setups = {pool: account.setup({pool} - begun) for pool in accounts.pools_run(account.plan)}
    costs = (
        None if one.next_cost is None else one.next_cost + setups[point.key.pool]
        for point, one in zip(account.plan.points, account.of_points, strict=True)
    )
    return BudgetState(
        budget=Decimal(limit),
        currency=None if account.prices is None else account.prices.currency,
        spent=account.ended.amount,
        reserved=_total(one.reserved(now) for one in running) + account.setup(begun),
        costs=tuple(costs),
        unforeseen=account.unforeseen,
        is_alone=any(account.point_of[one.job.trial] in account.unforeseen for one in running),
        is_final=not live,
    )


# --- what must stop ---------------------------------------------------------------------------------------------------


def over_budget(
    account: Account, live: Sequence[ObservedJob], *, limit: str | None, now: float
) -> dict[str, AttemptOutcome]:
    """The attempts that must be stopped now, by their keys: what they would still be billed does not fit.

    First those that have taken longer than was expected, for nobody knows when they end; then the newest, so that as
    little work as possible is lost. One that would be billed the same if it were stopped goes on until more is due.
    """
    if limit is None or account.prices is None:
        return {}
    running = _running(account, live)
    left = _left(account, running, limit)
    total = _total(one.reserved(now) for one in running)
    stopped: list[_Running] = []
    for one in sorted(running, key=lambda one: (one.is_overdue(now), one.job.created_at, one.job.key), reverse=True):
        saved = one.reserved(now) - one.if_stopped(now)
        if total > left and saved > 0:
            stopped.append(one)
            total -= saved
    message = f"what it would still be billed is more than is left of limits.budget {account.prices.currency} {limit}"
    end = AttemptOutcome(outcome=Outcome.STOPPED, reason=Reason.BUDGET_EXHAUSTED, message=message)
    return dict.fromkeys((one.job.key for one in stopped), end)


def stops_at(account: Account, live: Sequence[ObservedJob], *, limit: str | None, now: float) -> float | None:
    """When an attempt that runs must be stopped if nothing happens until then; None where none need be.

    Where what runs is beyond the budget already, and goes on because stopping it would save nothing: when more is due.
    """
    if limit is None or account.prices is None or not live:
        return None
    running = _running(account, live)
    left = _left(account, running, limit)

    def reserved(moment: float) -> Decimal:
        return _total(one.reserved(moment) for one in running)

    bound = max(left, reserved(now))
    timing = account.plan.timing
    early, late = now, now + timing.scheduling_timeout + timing.attempt_timeout
    if reserved(late) <= bound:
        return None
    for _ in range(_STEPS):
        middle = (early + late) / 2
        early, late = (early, middle) if reserved(middle) > bound else (middle, late)
    return late


@dataclass(frozen=True, kw_only=True)
class _Running:
    """An attempt that runs and has a price."""

    job: ObservedJob
    account: Account
    point: Point
    expected: float  # seconds on each node; at least, where nobody can say

    def if_stopped(self, moment: float) -> Decimal:
        """What it is billed if it is told to end at a moment: as its record will say."""
        return self._billed(accounts.held_by_pods(self.job.pods, until=moment, ends_later=True))

    def due(self, moment: float) -> Decimal:
        """What it is billed at least if it is told to end after a moment."""
        held = accounts.held_by_pods(self.job.pods, until=moment)
        return self._billed([seconds + accounts.STOPPING_SECONDS for seconds in held])

    def reserved(self, moment: float) -> Decimal:
        """What it is expected to be billed in the end, as things are at a moment."""
        return max(self._usual, self.due(moment))

    def is_overdue(self, moment: float) -> bool:
        """Whether it has taken longer than was expected."""
        return self.due(moment) > self._usual

    @property
    def _usual(self) -> Decimal:
        return self._billed([self.expected + accounts.STOPPING_SECONDS] * self.point.nodes)

    def _billed(self, held: Sequence[float]) -> Decimal:
        amount = self.account.billed_more(self.job, held)
        assert amount is not None  # its pool has a price
        return amount


def _left(account: Account, running: Sequence[_Running], limit: str) -> Decimal:
    """What there is for those that run."""
    return Decimal(limit) - account.ended.amount - account.setup(one.point.key.pool for one in running)


def _running(account: Account, live: Sequence[ObservedJob]) -> list[_Running]:
    terms = {} if account.prices is None else account.prices.terms
    return [
        _Running(
            job=job,
            account=account,
            point=account.point(job.trial),
            expected=account.expected[account.point_of[job.trial]],
        )
        for job in live
        if account.point(job.trial).key.pool in terms
    ]


def _total(amounts: Iterable[Decimal]) -> Decimal:
    return sum(amounts, Decimal(0))


# --- when it has run out ----------------------------------------------------------------------------------------------


def left_out(
    plan: Plan, trials_now: Mapping[str, TrialStatus], budget: BudgetState | None
) -> Mapping[str, TrialStatus]:
    """The trials; where nothing runs and none of the startable ones fits, all that is left is not run."""
    if budget is None or not budget.is_final or any(map(budget.fits, trials.startable(plan, trials_now))):
        return trials_now
    found = dict(trials_now)
    ended = {trial.point for trial in plan.trials if trials_now[trial.id].state is TrialState.GIVEN_UP}
    for trial in plan.trials:
        before = trials_now[trial.id]
        if before.state in (TrialState.WAITING, TrialState.HELD) and trial.point not in ended:
            found[trial.id] = before.not_run(Omission.BUDGET, _not_run(plan, trial, budget))
    return found


def exhausted(plan: Plan, trials_now: Mapping[str, TrialStatus], budget: BudgetState | None) -> str | None:
    """That trials are left that do not fit, and what would let the benchmark go on; None where none are."""
    left = [trial for trial in plan.trials if trials_now[trial.id].omission is Omission.BUDGET]
    if budget is None or not left:
        return None
    known = [(cost, trial) for trial in left if (cost := budget.costs[trial.point]) is not None]
    if not known:
        return f"{_count(left)}: {_without_price(plan, left[0])}"
    cost, trial = min(known, key=lambda pair: pair[0])
    if trial.point in budget.unforeseen:
        return (
            f"{_count(left)}: {_spent(budget)}, and of the cheapest ({_words(plan, trial)}) {_unforeseen(budget, cost)}"
        )
    return (
        f"{_count(left)}: {_spent(budget)}, and the cheapest of them ({_words(plan, trial)}) is expected to take up to "
        f"{_amount(budget, cost)}: raise limits.budget to {_least(budget, cost)} or more to go on"
    )


def _not_run(plan: Plan, trial: Trial, budget: BudgetState) -> str:
    cost = budget.costs[trial.point]
    if cost is None:
        return _without_price(plan, trial)
    if trial.point in budget.unforeseen:
        return f"{_spent(budget)}, and {_unforeseen(budget, cost)}"
    return (
        f"{_spent(budget)}, and an attempt is expected to take up to {_amount(budget, cost)}: raise limits.budget to "
        f"{_least(budget, cost)} or more"
    )


def _unforeseen(budget: BudgetState, cost: Decimal) -> str:
    return (
        f"an attempt takes at least {_amount(budget, cost)}, and how much more nobody knows: raise limits.budget well "
        f"beyond {_least(budget, cost)}, or it is stopped again before its end"
    )


def _spent(budget: BudgetState) -> str:
    return f"{_amount(budget, budget.spent)} of limits.budget {_amount(budget, budget.budget)} are spent"


def _without_price(plan: Plan, trial: Trial) -> str:
    pool = plan.points[trial.point].key.pool
    return (
        f"what {pool} costs is not known in the benchmark's currency, so nothing runs there within limits.budget: "
        "remove limits.budget, or give the pool a price and start the benchmark again under another name"
    )


def _count(trials: Sequence[Trial]) -> str:
    return "1 trial was not run" if len(trials) == 1 else f"{len(trials)} trials were not run"


def _words(plan: Plan, trial: Trial) -> str:
    key = plan.points[trial.point].key
    return f"{key.workload} on {key.pool}, {workers_text(key.workers)}"


def _amount(budget: BudgetState, amount: Decimal) -> str:
    return f"{budget.currency} {accounts.text(amount)}"


def _least(budget: BudgetState, cost: Decimal) -> str:
    """A budget with which an attempt of this cost fits: rounded up, so that who follows it gets what it says."""
    return f"{budget.currency} {accounts.text(budget.spent + cost, rounding=ROUND_CEILING)}"
