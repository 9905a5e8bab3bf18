# SPDX-License-Identifier: Apache-2.0
"""`spec.limits.budget`: which attempts fit into what is left of it, which must stop, and when a benchmark has run out.

To each expected bill is added what stopping would take, so that an attempt that turns out longer can be stopped in
time. While something runs, a trial that does not fit waits; when nothing runs, a cheaper one goes before it; when none
fits, the benchmark ends. Nothing is remembered, so that one whose budget is raised goes on where it was.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from functools import cached_property

from gpubench.api import messages
from gpubench.plan.plan import Trial
from gpubench.scheduler import account as accounts
from gpubench.scheduler import ledger, observed, trials
from gpubench.scheduler.account import Account
from gpubench.scheduler.outcome import AttemptOutcome
from gpubench.units import counted, workers_text

_BISECTIONS = 48  # from a year to below a microsecond


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A budget at one moment; amounts are in the currency of the benchmark."""

    account: Account
    limit: str
    now: float
    running: tuple["_Running", ...]  # attempts that run and have a price
    reserved: Decimal  # for those, and for the setup of their pools: what each is expected to be billed in the end
    costs: tuple[Decimal | None, ...]  # of another attempt, by point; None where its pool has no price
    is_alone: bool  # an attempt of which nobody can say how long it takes runs: nothing may start beside it
    is_final: bool  # nothing holds a node, so that nothing that is reserved will come back

    def fits(self, trial: Trial) -> bool:
        cost = self.costs[trial.point]
        fits_beside = self.is_final or not (self.is_alone or self.account.of_points[trial.point].unforeseen)
        return cost is not None and cost <= Decimal(self.limit) - self.account.ended - self.reserved and fits_beside

    def may_fit_later(self, trial: Trial) -> bool:
        """Whether a trial that does not fit now has something to wait for."""
        return not self.is_final and self.costs[trial.point] is not None

    def with_attempt(self, trial: Trial) -> "Budget":
        return replace(
            self,
            reserved=self.reserved + (self.costs[trial.point] or Decimal(0)),
            is_alone=self.is_alone or self.account.of_points[trial.point].unforeseen,
            is_final=False,
        )

    # --- what must stop -----------------------------------------------------------------------------------------------

    def over_budget(self) -> dict[str, AttemptOutcome]:
        """The attempts that must be stopped now, by their keys: what they would still be billed does not fit.

        First those that have taken longer than was expected, for nobody knows when they end; then the newest, so that
        little work is lost. One that would be billed the same if it were stopped goes on until more is due.
        """
        total, stopped, now = self._reserved(self.now), list[str](), self.now
        running = sorted(self.running, key=lambda one: (one.due(now) > one.usual, one.job.created_at, one.job.key))
        for one in reversed(running):
            saved = one.reserved(now) - one.billed(accounts.held_by_pods(one.job.pods, until=now, ends_later=True))
            if total > self._left and saved > 0:
                stopped.append(one.job.key)
                total -= saved
        limit = f"{self.account.currency} {self.limit}"
        message = f"what it would still be billed is more than is left of limits.budget {limit}"
        return dict.fromkeys(stopped, AttemptOutcome(ledger.Reason.BUDGET_EXHAUSTED, message, ledger.Outcome.STOPPED))

    def stops_at(self) -> float | None:
        """When a running attempt must stop if nothing happens or, beyond the budget, when more is due; None: never."""
        bound, timing = max(self._left, self._reserved(self.now)), self.account.plan.timing
        early, late = self.now, self.now + timing.scheduling_timeout + timing.attempt_timeout
        if self._reserved(late) <= bound:
            return None
        for _ in range(_BISECTIONS):
            middle = (early + late) / 2
            early, late = (early, middle) if self._reserved(middle) > bound else (middle, late)
        return late

    @cached_property
    def _left(self) -> Decimal:
        return Decimal(self.limit) - self.account.ended - self.account.setup(one.pool for one in self.running)

    def _reserved(self, moment: float) -> Decimal:
        return sum((one.reserved(moment) for one in self.running), Decimal(0))

    # --- when it has run out ------------------------------------------------------------------------------------------

    def left_out(self, trials_now: Mapping[str, trials.TrialStatus]) -> Mapping[str, trials.TrialStatus]:
        """The trials; where nothing runs and none of the startable ones fits, all that is left is not run."""
        plan = self.account.plan
        if not self.is_final or any(map(self.fits, trials.startable(plan, trials_now))):
            return trials_now
        ended, open_ = trials.points_given_up(plan, trials_now), (trials.TrialState.WAITING, trials.TrialState.HELD)
        left = [one for one in plan.trials if trials_now[one.id].state in open_ and one.point not in ended]
        not_run = {one.id: trials_now[one.id].not_run(self._message(one, which="an attempt")) for one in left}
        return {**trials_now, **not_run}

    def exhausted(self, trials_now: Mapping[str, trials.TrialStatus]) -> str | None:
        """That trials are left that do not fit, and what would let the benchmark go on; None where none are."""
        plan = self.account.plan
        left = [trial for trial in plan.trials if trials_now[trial.id].state is trials.TrialState.NOT_RUN]
        if not left:
            return None
        known = [(cost, trial) for trial in left if (cost := self.costs[trial.point]) is not None]
        cheapest = min(known, key=lambda pair: pair[0])[1] if known else left[0]
        key = plan.points[cheapest.point].key
        which = f"the cheapest of them ({key.workload} on {key.pool}, {workers_text(key.workers)})"
        return f"{counted(len(left), 'trial was', 'trials were')} not run: {self._message(cheapest, which=which)}"

    def _message(self, trial: Trial, *, which: str) -> str:
        cost, ended, currency = self.costs[trial.point], self.account.ended, self.account.currency
        if cost is None:
            return messages.COST_UNKNOWN.of(pool=self.account.plan.points[trial.point].key.pool).message
        is_unforeseen = self.account.of_points[trial.point].unforeseen
        message = messages.COST_UNFORESEEN if is_unforeseen else messages.BUDGET_TOO_LOW
        # Rounded up, so that who follows it gets what it says.
        enough = f"{currency} {accounts.text(ended + cost, rounding=ROUND_CEILING)}"
        spent, costs, limit = (f"{currency} {accounts.text(one)}" for one in (ended, cost, Decimal(self.limit)))
        return message.of(spent=spent, budget=limit, which=which, cost=costs, enough=enough).message


def of(account: Account, live: Sequence[observed.ObservedJob], *, limit: str | None, now: float) -> Budget | None:
    if limit is None:
        return None
    running = tuple(
        _Running(job, account) for job in live if account.plan.point_by_trial[job.trial].key.pool in account.terms
    )
    begun = {one.pool for one in running}
    setups = {pool: account.setup({pool} - begun) for pool in account.plan.pools_run}
    costs = (
        None if one.next_cost is None else one.next_cost + setups[point.key.pool]
        for point, one in zip(account.plan.points, account.of_points, strict=True)
    )
    return Budget(
        account=account,
        limit=limit,
        now=now,
        running=running,
        reserved=sum((one.reserved(now) for one in running), account.setup(begun)),
        costs=tuple(costs),
        is_alone=any(one.expects.unforeseen for one in running),
        is_final=not live and not any(one.holds for one in account.of_points),
    )


class _Running:
    def __init__(self, job: observed.ObservedJob, account: Account) -> None:
        point = account.plan.point_by_trial[job.trial]
        self.job, self.pool, self._account = job, point.key.pool, account
        self.expects = account.of_points[account.plan.trial_by_id[job.trial].point]
        self.usual = self.billed([self.expects.expected + accounts.STOPPING_SECONDS] * point.nodes)

    def reserved(self, moment: float) -> Decimal:
        """What it is expected to be billed in the end, as things are at a moment."""
        return max(self.usual, self.due(moment))

    def due(self, moment: float) -> Decimal:
        """What it is billed at least if it is told to end after a moment."""
        held = accounts.held_by_pods(self.job.pods, until=moment)
        return self.billed([seconds + accounts.STOPPING_SECONDS for seconds in held])

    def billed(self, held: Sequence[float]) -> Decimal:
        """What it is billed for these seconds of its nodes, beyond what its account has of it."""
        amount = self._account.billed_more(self.job, held)
        assert amount is not None  # its pool has a price
        return amount
