# SPDX-License-Identifier: Apache-2.0
"""A study never spends more than its budget, says when it has run out, and goes on where it was when it is raised."""

import math
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import builders
from gpubench.api import messages
from gpubench.api.attempts import Limits
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import PointState
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, conditions, outcome, step
from gpubench.scheduler.ledger import Outcome, Reason
from gpubench.scheduler.observed import Disruption, Study
from world import World, run_with_kills, success, world

#: A tenth of a cent for a second of a node; an attempt in the simulated world holds each of its nodes for 9 s. Without
#: earlier ones it is expected to take 15 + 10 + 60 s, and 30 s are kept free to stop it.
BY_THE_SECOND: dict[str, Any] = {"perNodeHour": "3.60", "currency": "USD", "asOf": "2026-11-01"}
BY_THE_MINUTE = {**BY_THE_SECOND, "billing": {"incrementSeconds": 60, "minimumSeconds": 60}}
FIRST = Decimal("0.115")


def place(budget: str | None, *blocks: dict[str, Any], price: dict[str, Any] = BY_THE_MINUTE, **spec: Any) -> World:
    limits = {"budget": budget, **spec.pop("limits", {})}
    a_spec = builders.spec(*blocks, limits=limits, **spec)
    return world(builders.study(a_spec), builders.plan(a_spec, builders.pool(price=price)))


def with_budget(study: Study, budget: str | None) -> Study:
    limits = study.spec.limits.model_copy(update={"budget": budget})
    return study.model_copy(
        update={"spec": study.spec.model_copy(update={"limits": limits}), "generation": study.generation + 1}
    )


def billed(here: World) -> Decimal:
    """Not rounded, of all attempts, as the study's own books have it: never less than what is to be paid."""
    booked = account.of(here.plan, here.ledger()).ended
    assert paid(here) <= booked
    return booked


def paid(here: World) -> Decimal:
    """What the simulated cluster's nodes cost, by its own account: each begun second, or minute; setup once."""
    price = here.plan.pools[0].spec.price
    assert price is not None
    step = price.billing.increment_seconds if price.billing else 1
    lives = [seconds for job in here.node_seconds() for seconds in job]
    steps = sum(math.ceil(round(seconds, 3) / step) for seconds in lives)
    return Decimal(steps * step) / 1000 + (Decimal(price.setup) if price.setup and lives else 0)


def condition(status: FullStatus | None, type_: str) -> tuple[str, str, str]:
    assert status is not None
    found = next(condition for condition in status.conditions if condition.type == type_)
    return found.status, found.reason, found.message


def measured(here: World) -> Counter[str]:
    """How often each trial was measured."""
    return Counter(record.trial for record in here.ledger().records if record.outcome is Outcome.SUCCEEDED)


def states(status: FullStatus) -> list[PointState]:
    return [result.state for result in status.results]


# --- it stops ---------------------------------------------------------------------------------------------------------


def test_a_study_whose_next_attempt_does_not_fit_ends_and_says_so() -> None:
    here = place("0.20")  # a minute of one node costs 0.06, so three of them are paid for
    status = here.run()
    assert status.phase == "BudgetExhausted"
    assert condition(status, conditions.FINISHED)[:2] == ("True", "BudgetExhausted")
    assert condition(status, conditions.SUCCEEDED)[:2] == ("False", "BudgetExhausted")
    holds, reason, sentence = condition(status, conditions.BUDGET_EXHAUSTED)
    assert (holds, reason) == ("True", "BudgetExhausted")
    assert sentence.startswith("3 trials were not run: ")
    assert "of limits.budget USD 0.20 are spent" in sentence
    assert "raise limits.budget to USD " in sentence
    assert status.spent is not None
    assert Decimal(0) < Decimal(status.spent.amount) == billed(here) <= Decimal("0.20")
    assert [happening.reason for happening in here.told].count("BudgetExhausted") == 1
    assert here.decide().create == ()


def test_a_study_that_has_run_out_holds_nothing_and_is_left_alone() -> None:
    here = place("0.20")
    status = here.run()
    for _ in range(3):
        here.advance()
        here.reconcile()
    again = here.decide()
    assert not any(job.holds_slots for job in here.jobs.values())
    assert (again.record, again.delete, again.create, again.events, again.requeue_at) == ((), (), (), (), None)
    assert again.status == status


def test_what_was_not_run_says_why_and_is_no_point_that_has_ended() -> None:
    here = place("0.05")
    status = here.run()
    assert here.created == []
    assert states(status) == [PointState.NOT_RUN] * 2
    assert status.points is not None
    assert (status.points_done, status.points.not_run) == ("0/2", 2)
    assert {result.omission for result in status.results} == {"Budget"}
    one, two = (result.reason or "" for result in status.results)
    assert "USD 0.00 of limits.budget USD 0.05 are spent" in one
    assert "raise limits.budget to USD 0.12 or more" in one  # two minutes, for 85 s and the time that stopping takes
    assert "raise limits.budget to USD 0.24 or more" in two
    assert status.trials is not None
    assert (status.trials.total, status.trials.finished) == (6, 0)


def test_the_budget_that_the_sentence_names_is_enough_for_another_attempt() -> None:
    here = place("0.05", price=BY_THE_SECOND)
    sentence = condition(here.run(), conditions.BUDGET_EXHAUSTED)[2]
    named = sentence.split("raise limits.budget to USD ")[1].split(" ")[0]
    assert Decimal(named) == FIRST
    here.study = with_budget(here.study, named)
    assert len(here.decide().create) == 1


def test_setup_is_part_of_what_the_first_attempt_on_a_pool_costs() -> None:
    block = builders.block(workers=[1])
    price = {**BY_THE_MINUTE, "setup": "2"}
    assert place("2.10", block, price=price).run().phase == "BudgetExhausted"
    here = place("2.18", block, price=price)
    assert here.run().phase == "Succeeded"
    assert billed(here) == Decimal("2.18")


def test_a_budget_is_spent_to_its_last_cent_if_that_is_what_an_attempt_costs() -> None:
    block = builders.block(workers=[1])
    here = place("0.18", block)
    assert here.run().phase == "Succeeded"
    assert billed(here) == Decimal("0.18")


def test_a_study_that_fits_does_not_notice_its_budget() -> None:
    here, free = place("100"), place(None)
    assert here.run().results == free.run().results
    assert here.created == free.created
    assert [condition.type for condition in here.study.conditions] == [
        condition.type for condition in free.study.conditions
    ]


@pytest.mark.parametrize("price", [BY_THE_SECOND, BY_THE_MINUTE], ids=["by the second", "by the minute"])
@pytest.mark.parametrize("parallel", [1, 3])
@pytest.mark.parametrize("cents", [5, 11, 12, 23, 24, 25, 30, 36, 47, 54, 60])
def test_no_budget_is_overspent_and_raising_it_repeats_no_trial(
    cents: int, parallel: int, price: dict[str, Any]
) -> None:
    def unlucky(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        return builders.disrupted() if attempt == 1 and trial < "i" else success(trial, attempt)

    budget = f"{cents / 100:.2f}"
    here = place(budget, price=price, limits={"parallelTrials": parallel})
    here.fate = unlucky
    status = here.run()
    assert billed(here) <= Decimal(budget)
    before = measured(here)
    if status.phase == "BudgetExhausted":
        here.study = with_budget(here.study, "1000")
        status = here.run()
    assert status.phase == "Succeeded"
    assert measured(here) == {trial.id: 1 for trial in here.plan.trials}
    assert before.keys() <= measured(here).keys()


def test_a_trial_that_does_not_fit_is_passed_over_for_a_cheaper_one_when_nothing_runs() -> None:
    status = place("0.30", builders.block(workers=[4, 1]), price=BY_THE_SECOND).run()
    assert states(status) == [PointState.NOT_RUN, PointState.MEASURED]
    assert len(status.results[1].values) == 3


def test_a_trial_that_may_fit_when_what_runs_has_ended_is_not_overtaken() -> None:
    here = place("0.20", builders.block(workers=[1]), price=BY_THE_SECOND, limits={"parallelTrials": 3})
    assert len(here.reconcile().create) == 1  # two would be expected to take 0.23
    here.advance()
    status = here.run()
    assert (status.phase, len(here.created)) == ("Succeeded", 3)


def test_a_point_with_some_of_its_repeats_has_a_figure_and_says_what_is_missing() -> None:
    here = place("0.15", builders.block(workers=[1]))
    status = here.run()
    (result,) = status.results
    assert (status.phase, result.state, len(result.values)) == ("BudgetExhausted", PointState.MEASURED, 2)
    assert (result.omission, result.stopping) == ("Budget", None)
    assert any(warning.message.startswith("only 2 of 3 repeats were measured: ") for warning in result.warnings)
    assert condition(status, conditions.SUCCEEDED)[:2] == ("False", "BudgetExhausted")


def test_repeats_that_precision_would_need_are_left_out_too() -> None:
    rates = iter((100.0, 200.0, 300.0))

    def scattered(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=next(rates)))

    until = {"repeats": {"min": 3, "max": 9, "until": {"relativeHalfWidth": "0.01"}}}
    here = place("0.20", builders.block(workers=[1]), measure=until)
    here.fate = scattered
    status = here.run()
    (result,) = status.results
    assert (status.phase, result.state, len(result.values)) == ("BudgetExhausted", PointState.MEASURED, 3)
    assert result.omission == "Budget"


# --- what runs --------------------------------------------------------------------------------------------------------


def run_without_an_end(here: World) -> None:
    """Nothing ends by itself: the operator wakes up when it has to, until no Job is left."""
    for _ in range(1000):
        decision = here.reconcile()
        if not here.jobs:
            return
        if decision.create:
            here.now += 2.0  # as the operator does, although no event came
            continue
        assert decision.requeue_at is not None
        assert decision.requeue_at > here.now
        here.now = decision.requeue_at
    raise AssertionError(f"it was never stopped: {here.status}")


@pytest.mark.parametrize("price", [BY_THE_SECOND, BY_THE_MINUTE], ids=["by the second", "by the minute"])
@pytest.mark.parametrize("workers", [1, 3])
def test_an_attempt_that_takes_longer_than_expected_is_stopped_in_time(workers: int, price: dict[str, Any]) -> None:
    here = place("0.50", builders.block(workers=[workers]), price=price, measure={"repeats": {"min": 1}})
    run_without_an_end(here)
    (record,) = here.ledger().records
    assert (record.outcome, record.reason) == (Outcome.STOPPED, Reason.BUDGET_EXHAUSTED)
    assert Decimal("0.30") < billed(here) <= Decimal("0.50")
    assert here.status is not None
    assert (here.status.phase, states(here.status)) == ("BudgetExhausted", [PointState.NOT_RUN])


def test_an_attempt_that_was_stopped_starts_again_only_if_there_is_more_for_it() -> None:
    here = place("0.50", builders.block(workers=[1]), price=BY_THE_SECOND, measure={"repeats": {"min": 1}})
    run_without_an_end(here)
    here.study = with_budget(here.study, "0.60")
    assert here.reconcile().create == ()  # it took 0.5 without coming to an end
    here.study = with_budget(here.study, "2.00")
    status = here.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert (status.attempts.started, status.attempts.stopped, status.attempts.failed) == (2, 1, 0)


def test_of_several_attempts_the_newest_is_stopped_and_the_oldest_finished() -> None:
    here = place("9", builders.block(workers=[1]), price=BY_THE_SECOND, limits={"parallelTrials": 2})
    here.study = with_limits(here.study, parallel=1)
    here.reconcile()
    here.now += 5
    here.study = with_limits(here.study, parallel=2)
    here.reconcile()
    oldest, newest = here.jobs
    here.study = with_budget(here.study, "0.20")  # enough for one that takes 115 s, and one that is stopped
    here.reconcile()
    assert [job.name for job in here.jobs.values() if not job.deleting] == [oldest]
    assert here.jobs[oldest].created_at < here.now
    assert here.jobs[newest].deleting
    assert here.run().phase == "Succeeded"
    assert billed(here) <= Decimal("0.20")


def with_limits(study: Study, *, parallel: int) -> Study:
    limits = study.spec.limits.model_copy(update={"parallel_trials": parallel})
    return study.model_copy(update={"spec": study.spec.model_copy(update={"limits": limits})})


def test_a_budget_that_is_lowered_below_what_runs_stops_it() -> None:
    here = place("9", price=BY_THE_SECOND)
    here.reconcile()
    here.study = with_budget(here.study, "0.05")
    here.reconcile()
    assert all(job.deleting for job in here.jobs.values())
    assert here.run().phase == "BudgetExhausted"


BY_THE_HOUR = {**BY_THE_SECOND, "billing": {"incrementSeconds": 3600, "minimumSeconds": 3600}}


def test_what_is_paid_for_anyway_is_not_stopped() -> None:
    here = place("9", builders.block(workers=[1]), price=BY_THE_HOUR)
    here.reconcile()
    here.now += 5
    here.study = with_budget(here.study, "0.05")
    assert not here.reconcile().delete
    status = here.run()
    (result,) = status.results
    assert (status.phase, len(result.values), result.omission) == ("BudgetExhausted", 1, "Budget")
    assert billed(here) == Decimal("3.60")


def test_what_is_paid_for_anyway_is_stopped_before_more_is_due() -> None:
    here = place("9", builders.block(workers=[1]), price=BY_THE_HOUR)
    here.reconcile()
    here.now += 5
    here.study = with_budget(here.study, "0.05")
    run_without_an_end(here)
    (record,) = here.ledger().records
    assert record.reason is Reason.BUDGET_EXHAUSTED
    assert here.now > builders.NOW + 3500
    assert paid(here) == billed(here) == Decimal("3.60")


def test_what_would_reach_the_next_hour_while_it_ends_is_not_stopped() -> None:
    here = place("9", builders.block(workers=[1]), price=BY_THE_HOUR)
    here.reconcile()
    here.study = with_budget(here.study, "0.05")
    here.now = builders.NOW + 1 + 3600 - outcome.GRACE_SECONDS + 1
    assert not here.reconcile().delete


def test_one_of_which_nobody_knows_how_long_it_takes_runs_alone() -> None:
    block = builders.block(workers=[1], data={"source": "Generated"})
    training = {"mode": "Training", "repeats": {"min": 3}}
    limits = {"parallelTrials": 3}
    assert len(place(None, block, measure=training, limits=limits).decide().create) == 3
    here = place("100", block, measure=training, limits=limits)
    assert len(here.reconcile().create) == 1
    assert here.reconcile().create == ()
    here.advance()
    assert len(here.reconcile().create) == 2  # now it is known


def test_pods_that_somebody_deletes_are_paid_for_until_then() -> None:
    here = place("60", builders.block(workers=[2]), measure={"mode": "Training", "repeats": {"min": 1}})
    here.reconcile()
    here.now += 9000.0
    here.delete_pods(here.created[0])
    spent = here.reconcile().status.spent
    assert spent is not None
    assert spent.assumed_attempts == 1
    assert Decimal("18.00") <= paid(here) <= Decimal(spent.amount) <= Decimal("18.12")


def test_the_budget_holds_though_somebody_deletes_the_pods_of_every_attempt() -> None:
    limits = {"attempts": {"failed": 10}}
    here = place("0.50", builders.block(workers=[1]), price=BY_THE_SECOND, limits=limits)
    for _ in range(100):
        for name, job in list(here.jobs.items()):
            if not job.failed:
                here.now += 60.0
                here.delete_pods(name)
        if condition(here.reconcile().status, conditions.FINISHED)[0] == "True":
            break
        here.now += 60.0
    assert here.status is not None
    assert here.status.phase == "BudgetExhausted"
    assert Decimal("0.30") < billed(here) <= Decimal("0.50")


def test_a_training_of_unknown_length_is_stopped_in_time_and_its_length_stays_unknown() -> None:
    block = builders.block(workers=[1], data={"source": "Generated"})
    training = {"mode": "Training", "repeats": {"min": 2}}
    here = place("0.50", block, price=BY_THE_SECOND, measure=training, limits={"parallelTrials": 2})
    run_without_an_end(here)
    assert Decimal("0.40") < billed(here) <= Decimal("0.50")
    assert here.status is not None
    for sentence in (condition(here.status, conditions.BUDGET_EXHAUSTED)[2], here.status.results[0].reason or ""):
        assert "takes at least USD 0.5" in sentence
        assert "how much more nobody knows: raise limits.budget well beyond USD 1.03" in sentence
        assert "or more" not in sentence
    here.study = with_budget(here.study, "9")
    assert len(here.reconcile().create) == 1  # alone, as at first
    assert here.reconcile().create == ()


# --- it goes on -------------------------------------------------------------------------------------------------------


def test_raising_the_budget_continues_the_study_without_repeating_a_trial() -> None:
    here = place("0.20")
    here.run()
    before = list(here.created)
    assert measured(here)
    here.study = with_budget(here.study, "5.00")
    decision = here.reconcile()
    assert condition(decision.status, conditions.FINISHED)[0] == "False"
    assert condition(decision.status, conditions.BUDGET_EXHAUSTED)[:2] == ("False", "WithinBudget")
    assert "Resumed" in [happening.reason for happening in decision.events]
    status = here.run()
    assert status.phase == "Succeeded"
    assert measured(here) == {trial.id: 1 for trial in here.plan.trials}
    assert here.created[: len(before)] == before
    assert len(here.created) == len(here.plan.trials)
    assert billed(here) == Decimal("0.54")


def test_taking_the_budget_away_continues_the_study() -> None:
    here = place("0.20")
    here.run()
    here.study = with_budget(here.study, None)
    assert here.run().phase == "Succeeded"


@pytest.mark.parametrize("seed", range(30))
def test_killed_between_any_two_writes_it_stays_within_its_budget_and_goes_on(seed: int) -> None:
    chance = random.Random(seed)

    def unlucky(trial: str, attempt: int) -> tuple[int, str]:
        if attempt > 1 or sum(map(ord, trial)) % 3:
            return success(trial, attempt)
        return 80, builders.message(builders.failure(trial=trial, attempt=attempt, exit_code=80))

    undisturbed, disturbed = place("0.30"), place("0.30")
    undisturbed.fate = disturbed.fate = unlucky
    undisturbed.run()
    status = run_with_kills(disturbed, chance)
    assert status.phase == "BudgetExhausted"
    assert sorted(disturbed.created) == sorted(undisturbed.created)
    assert billed(disturbed) <= Decimal("0.30")
    for here in (undisturbed, disturbed):
        here.study = with_budget(here.study, "5.00")
    undisturbed.run()
    status = run_with_kills(disturbed, chance)
    assert status.phase == "Succeeded"
    assert sorted(disturbed.created) == sorted(undisturbed.created)
    assert measured(disturbed) == {trial.id: 1 for trial in disturbed.plan.trials}


# --- bad input --------------------------------------------------------------------------------------------------------


def begun(spec: Any, *pools: Any) -> Plan | step.NotYet:
    return step.begin(builders.study(spec), pools, builders.NOW)


def test_a_budget_needs_a_price_on_every_pool_that_is_run() -> None:
    spec = builders.spec(builders.block(pools=["cpu", "free"]), limits={"budget": "40.00"})
    found = begun(spec, builders.pool(), builders.pool("free", price=None))
    assert isinstance(found, step.NotYet)
    progressing = found.status.conditions[0]
    assert (found.status.phase, progressing.reason) == ("Pending", messages.BUDGET_WITHOUT_PRICE.reason)
    assert progressing.message.startswith("limits.budget is 40.00, and what GpuPool free costs is not known")
    assert "give it a price in the benchmark's currency, or remove limits.budget" in progressing.message
    assert found.requeue_at is not None


def test_a_pool_that_is_never_run_needs_no_price() -> None:
    spec = builders.spec(builders.block(pools=["cpu", "paper"], workers=[1]), limits={"budget": "40.00"})
    paper = builders.pool("paper", price=None, measuredBy={"pool": "cpu"})
    assert isinstance(begun(spec, builders.pool(), paper), Plan)


def test_a_budget_in_two_currencies_is_none() -> None:
    spec = builders.spec(builders.block(pools=["cpu", "euros"]), limits={"budget": "40.00"})
    found = begun(spec, builders.pool(), builders.pool("euros", price={**BY_THE_SECOND, "currency": "EUR"}))
    assert isinstance(found, step.NotYet)
    message = found.status.conditions[0].message
    assert "the pools have prices in EUR and USD: say by spec.currency" in message


def test_a_budget_given_later_runs_nothing_whose_price_nobody_knows() -> None:
    a_spec = builders.spec(limits={"budget": "40.00"})
    here = world(builders.study(a_spec), builders.plan(a_spec, builders.pool(price=None)))
    status = here.run()
    assert here.created == []
    assert status.spent is None
    assert status.phase == "BudgetExhausted"
    assert (
        "what cpu costs is not known in the benchmark's currency" in condition(status, conditions.BUDGET_EXHAUSTED)[2]
    )


def test_what_a_budget_cannot_hold_is_said_beside_it() -> None:
    said = Limits.model_fields["budget"].description or ""
    minutes = outcome.DEADLINE_SLACK_SECONDS // 60
    assert (
        f"only its pods' own deadline ends an attempt (schedulingTimeout, attemptTimeout and {minutes} minutes)" in said
    )
