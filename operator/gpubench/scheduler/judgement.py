# SPDX-License-Identifier: Apache-2.0
"""How each trial of a study stands, and why one is not run: not needed, or beyond the budget.

The one place where that is judged, for the status as for whoever explains it. Money decides it only by the prices of
the plan as it was measured: other prices, given afterwards, run nothing and leave nothing out.

Must not happen: a status and an explanation of it that judge differently.
"""

from collections.abc import Sequence
from typing import NamedTuple

from gpubench.api.attempts import Limits
from gpubench.plan.plan import Plan
from gpubench.scheduler import budget, needed, retries, spending, starts
from gpubench.scheduler.budget import Purse
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import ObservedJob
from gpubench.scheduler.retries import TrialStanding
from gpubench.scheduler.spending import Account


class Judgement(NamedTuple):
    """How the trials stand, and what is left of the budget."""

    standings: dict[str, TrialStanding]  # by the trial's id
    purse: Purse | None  # None where the study has no budget


def judged(
    plan: Plan, ledger: Ledger, limits: Limits, *, account: Account, live: Sequence[ObservedJob], now: float
) -> Judgement:
    """The trials of a plan after the attempts of a ledger; `account` has the prices of the plan as it was measured."""
    plan = plan.as_measured()
    attempts = ledger.by_trial()
    standings = needed.judged(
        plan,
        {
            trial.id: retries.standing(attempts.get(trial.id, ()), plan.attempts, nodes=plan.points[trial.point].nodes)
            for trial in plan.trials
        },
    )
    purse = budget.purse(account, live, limit=limits.budget, now=now)
    return Judgement(budget.judged(plan, standings, starts.startable(plan, standings), purse), purse)


def of_ledger(plan: Plan, ledger: Ledger, limits: Limits) -> dict[str, TrialStanding]:
    """How each trial stands, as far as a ledger says it."""
    account = spending.account(plan.as_measured(), ledger)
    live, now = live_by(plan, ledger), last_moment(ledger)
    return judged(plan, ledger, limits, account=account, live=live, now=now).standings


def live_by(plan: Plan, ledger: Ledger) -> tuple[ObservedJob, ...]:
    """The Jobs of the attempts that are under way by a ledger; nothing has become of them yet."""
    points = {trial.id: plan.points[trial.point] for trial in plan.trials}
    return tuple(
        ObservedJob(
            name=record.job,
            uid=record.job_uid,
            trial=record.trial,
            attempt=record.attempt,
            pool=points[record.trial].key.pool,
            slots=0,
            created_at=record.created_at,
        )
        for record in ledger.records
        if record.outcome is None and record.trial in points
    )


def last_moment(ledger: Ledger) -> float:
    """The last moment that a ledger has."""
    return max((record.ended_at or record.created_at for record in ledger.records), default=0.0)
