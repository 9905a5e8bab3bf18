# SPDX-License-Identifier: Apache-2.0
"""What a study has spent: every attempt is in it, whoever ended it, and what nobody saw is counted and said."""

import random
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import pytest

import builders
from gpubench.api.price_result import Spent
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, conditions, outcome, step
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.scheduler.observed import Disruption, ObservedJob, ObservedPod
from gpubench.scheduler.trials import TrialState
from world import decide, success, world

PER_HOUR = Decimal("3.60")  # a tenth of a cent for a second


def price(**more: Any) -> dict[str, Any]:
    return {"perNodeHour": str(PER_HOUR), "currency": "USD", "asOf": "2026-11-01", **more}


BY_THE_MINUTE = price(billing={"incrementSeconds": 60, "minimumSeconds": 120})


def plan(*, workers: int = 1, **pool: Any) -> Plan:
    """One point."""
    spec = builders.spec(builders.block(workers=[workers]))
    return builders.plan(spec, builders.pool(**({"price": price()} | pool)))


def held(*seconds: float) -> tuple[tuple[float, float, float], ...]:
    """Times of pods that got their nodes a second after their Job was created, and containers two seconds later."""
    return tuple((1.0, 3.0, 1.0 + one) for one in seconds)


def attempt(a_plan: Plan, number: int = 1, **fields: Any) -> AttemptRecord:
    """One that ended long after its pods, unless told otherwise."""
    defaults = {"trial": a_plan.trials[0].id, "attempt": number, "ended_at": builders.NOW + 10_000}
    return builders.attempt(**(defaults | fields))


def spent(a_plan: Plan, *records: AttemptRecord, live: tuple[ObservedJob, ...] = (), now: float = 0.0) -> Spent | None:
    return account.spent(account.of(a_plan, Ledger(records=records)), live, now or builders.NOW)


def amount(found: Spent | None) -> Decimal:
    assert found is not None
    assert (found.currency, found.estimate) == ("USD", True)
    return Decimal(found.amount)


def running(a_plan: Plan, *pods: ObservedPod) -> ObservedJob:
    return builders.observed_job(trial=a_plan.trials[0].id, pods=pods)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_an_attempt_is_paid_for_however_it_ended(outcome: Outcome) -> None:
    here = plan()
    assert amount(spent(here, attempt(here, outcome=outcome, pod_times=held(50.0)))) == Decimal("0.05")


def test_every_attempt_at_a_trial_counts() -> None:
    here = plan()
    ends = (Outcome.PREEMPTED, Outcome.FAILED, Outcome.STOPPED, Outcome.SUCCEEDED)
    records = [attempt(here, number, outcome=end, pod_times=held(50.0)) for number, end in enumerate(ends, start=1)]
    assert amount(spent(here, *records)) == Decimal("0.20")


def test_each_node_is_rounded_up_by_itself_and_no_node_is_less_than_the_minimum() -> None:
    here = plan(workers=3, price=BY_THE_MINUTE)
    # 121 s are three minutes, 61 s and 1 s the minimum of two: 7 minutes at 0.06; 183 s together would be four.
    assert amount(spent(here, attempt(here, pod_times=held(121.0, 61.0, 1.0)))) == Decimal("0.42")


def test_a_node_that_a_pod_never_had_is_not_billed() -> None:
    here = plan(workers=2, price=BY_THE_MINUTE)
    found = spent(here, attempt(here, reason=Reason.NO_CAPACITY))
    assert amount(found) == 0
    assert found is not None
    assert found.assumed_attempts == 0


def test_a_gang_that_shares_its_nodes_pays_for_its_slots() -> None:
    here = plan(slots_per_node=4, exclusive_nodes=False)
    assert amount(spent(here, attempt(here, pod_times=held(100.0)))) == Decimal("0.025")


def test_what_nobody_saw_is_counted_for_as_long_as_it_can_have_been_and_said() -> None:
    here = plan(workers=2)
    end = builders.NOW + 90
    disrupted = {"outcome": Outcome.PREEMPTED, "reason": Reason.DISRUPTED}
    seen = attempt(here, 1, ended_at=end, pod_times=held(50.0), **disrupted)
    vanished = attempt(here, 2, ended_at=end, reason=Reason.JOB_VANISHED)
    found = spent(here, seen, vanished)
    assert found is not None
    assert found.assumed_attempts == 2
    assert amount(found) == Decimal("0.050") + Decimal("0.090") + 2 * Decimal("0.090")


@pytest.mark.parametrize(
    ("admitted_at", "seconds"),
    [(None, 100), (40.0, 60), (99.0, 1), (100.0, 0), (103.0, 0)],
    ids=["in no queue", "admitted", "just admitted", "in the second of its end", "by another clock after its end"],
)
def test_what_nobody_saw_counts_from_its_admission_and_is_nothing_without_time_to_run(
    admitted_at: float | None, seconds: int
) -> None:
    here = plan()
    end: dict[str, Any] = {"ended_at": builders.NOW + 100, "reason": Reason.JOB_VANISHED}
    found = spent(here, attempt(here, queue=None if admitted_at is None else "gpus", admitted_at=admitted_at, **end))
    assert amount(found) == Decimal(seconds) / 1000
    assert found is not None
    assert found.assumed_attempts == (seconds > 0)


@pytest.mark.parametrize(
    "reason",
    [Reason.TIMED_OUT, Reason.EXITED, Reason.PEER_LOST, Reason.OUT_OF_MEMORY, Reason.STALLED, Reason.WORKER_RAISED],
)
def test_of_a_gang_whose_other_pods_went_with_their_job_every_node_is_paid_for(reason: Reason) -> None:
    here = plan(workers=3)
    found = spent(here, attempt(here, ended_at=builders.NOW + 91, reason=reason, pod_times=held(50.0)))
    assert found is not None
    assert found.assumed_attempts == 1
    assert amount(found) == Decimal("0.050") + 2 * Decimal("0.091")


@pytest.mark.parametrize("reason", [Reason.SUSPENDED, Reason.BUDGET_EXHAUSTED, Reason.IMAGE_INVALID])
def test_pods_that_were_seen_to_wait_for_a_node_are_not_billed(reason: Reason) -> None:
    here = plan(workers=3)
    found = spent(here, attempt(here, ended_at=builders.NOW + 600, reason=reason))
    assert amount(found) == 0
    assert found is not None
    assert found.assumed_attempts == 0


@pytest.mark.parametrize("reason", [Reason.NO_CAPACITY, Reason.IMAGE_NOT_STARTED, Reason.POD_VANISHED])
def test_pods_that_still_run_when_an_attempt_fails_are_paid_for_until_they_can_have_ended(reason: Reason) -> None:
    here = plan(workers=2)
    holding: dict[str, Any] = {"pod_times": held(100.0, 100.0), "holding": ((0, "a"), (1, "b"))}
    still_there = attempt(here, ended_at=builders.NOW + 101, reason=reason, **holding)
    assert amount(spent(here, still_there)) == 2 * (Decimal("0.100") + Decimal(outcome.GRACE_SECONDS) / 1000)


def test_a_pod_that_outlasts_the_one_that_failed_is_paid_for_until_it_can_have_ended() -> None:
    here = plan(workers=2)
    holding: dict[str, Any] = {"pod_times": held(100.0, 190.0), "holding": ((1, "b"),)}
    settled = attempt(here, ended_at=builders.NOW + 101, reason=Reason.EXITED, **holding)
    assert amount(spent(here, settled)) == Decimal("0.290") + Decimal(outcome.GRACE_SECONDS) / 1000


def test_a_pod_that_is_told_to_end_holds_its_node_for_its_grace_period() -> None:
    here = plan(workers=2)
    ended_already, still_there = held(50.0, 100.0)
    stopped = attempt(
        here,
        outcome=Outcome.STOPPED,
        reason=Reason.SUSPENDED,
        ended_at=builders.NOW + 101,
        pod_times=(ended_already, still_there),
        holding=((1, "b"),),
    )
    assert amount(spent(here, stopped)) == Decimal("0.150") + Decimal(outcome.GRACE_SECONDS) / 1000


def test_what_a_ledger_says_by_itself_of_pods_that_hold_their_nodes_is_what_was_written() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    a_plan = builders.plan(spec, builders.pool(price=price()))
    holding = attempt(a_plan, ended_at=builders.NOW + 20, pod_times=((1.0, 3.0, 20.0),), holding=((0, "pod-0"),))
    later = builders.attempt(trial=a_plan.trials[1].id, ended_at=builders.NOW + 5000, job="later", pod_times=held(9.0))
    found = step.of_ledger(a_plan, Ledger(records=(holding, later)), builders.study(spec))
    assert found.ledger.by_key[holding.key] == holding
    assert not found.is_over


def test_of_an_attempt_under_way_a_ledger_by_itself_says_that_it_runs() -> None:
    here = plan()
    begun = attempt(here, outcome=None, reason=None, sentence=None, ended_at=None)
    found = step.of_ledger(here, Ledger(records=(begun,)), builders.study())
    assert found.trials[begun.trial].state is TrialState.RUNNING
    assert found.ledger.records == (begun,)


def test_a_pod_counts_also_where_it_is_gone_or_another_one_never_had_a_node() -> None:
    here = plan(workers=3)
    unplaced: dict[str, Any] = {"phase": "Pending", "node": None, "scheduled_at": None, "running_at": None}
    failed = builders.observed_pod(2, end=builders.ended(80, at=builders.NOW + 40))
    job = running(here, builders.observed_pod(0, **unplaced), failed)
    went: dict[str, Any] = {"gone_at": builders.NOW + 50, "job_uid": job.uid}
    gone = (builders.observed_pod(1, **went), builders.observed_pod(1, name="pod-1-before", **unplaced, **went))
    over = job.model_copy(update={"failed": True, "failing_since": builders.NOW + 40})
    seen = builders.observed(builders.study(), over).model_copy(update={"gone": gone})
    (record,) = decide(here, Ledger(), seen, builders.NOW + 200).record
    assert record.pod_times == ((1.0, 5.0, 50.0), (1.0, 5.0, 40.0))


def test_setup_is_paid_once_for_a_pool_that_was_used() -> None:
    here = plan(price=price(setup="5"))
    assert amount(spent(here)) == 0
    assert amount(spent(here, attempt(here, reason=Reason.NO_CAPACITY))) == 0
    records = [attempt(here, number, pod_times=held(100.0)) for number in (1, 2)]
    assert amount(spent(here, *records)) == Decimal("5.20")
    live = (running(here, builders.observed_pod()),)
    assert amount(spent(here, live=live, now=MINUTE + 60)) == Decimal("5.10")


def test_an_attempt_whose_end_was_seen_days_later_counts_no_longer_than_its_job_may_last() -> None:
    here = plan()
    limit = outcome.deadline_seconds(here.timing) + outcome.GRACE_SECONDS
    late = attempt(here, ended_at=builders.NOW + 30 * 86_400, reason=Reason.JOB_VANISHED)
    assert amount(spent(here, late)) == (Decimal(limit) / 1000).quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)


def test_an_attempt_whose_job_was_refused_has_held_nothing() -> None:
    here = plan()
    refused = attempt(here, reason=Reason.CREATION_REFUSED, ended_at=builders.NOW)
    found = spent(here, refused)
    assert amount(found) == 0
    assert found is not None
    assert found.assumed_attempts == 0


MINUTE = builders.NOW + 40  # a whole one


def test_what_runs_counts_what_it_has_held_up_to_the_last_whole_minute() -> None:
    here = plan(workers=2)
    pods = (builders.observed_pod(0), builders.observed_pod(1, scheduled_at=builders.NOW + 31))  # and NOW + 1
    amounts = {
        seconds: amount(spent(here, live=(running(here, *pods),), now=MINUTE + seconds)) for seconds in (-1, 0, 59, 60)
    }
    assert amounts == {
        -1: Decimal("0.002"), 0: Decimal("0.048"), 59: Decimal("0.048"), 60: Decimal("0.168"),
    }  # fmt: skip


def test_what_runs_owes_the_minimum_from_its_first_second() -> None:
    here = plan(price=BY_THE_MINUTE)
    live = (running(here, builders.observed_pod()),)
    assert amount(spent(here, live=live, now=builders.NOW + 2)) == Decimal("0.12")


def test_it_is_known_when_the_amount_of_what_runs_is_another_one_and_that_is_once_a_minute() -> None:
    here = plan()
    book = account.of(here, Ledger())
    pods = [builders.observed_pod(index, scheduled_at=builders.NOW + index) for index in range(40)]
    live = (running(here, *pods[:20]), running(here, *pods[20:]))
    assert {account.grows_at(book, live, MINUTE + second) for second in range(60)} == {MINUTE + 60}
    assert account.grows_at(book, live, MINUTE + 60) == MINUTE + 120
    waiting = builders.observed_pod(scheduled_at=None, node=None, running_at=None)
    assert account.grows_at(book, (running(here, waiting),), MINUTE) is None
    assert account.grows_at(book, (), MINUTE) is None


def test_without_a_price_there_is_no_amount_and_no_zero() -> None:
    here = plan(price=None)
    assert spent(here, attempt(here, pod_times=held(50.0))) is None


def two_pools(**spec: Any) -> Plan:
    blocks = builders.block(pools=["dollars", "euros"], workers=[1])
    pools = (
        builders.pool("dollars", price=price()),
        builders.pool("euros", price=price(currency="EUR")),
    )
    return builders.plan(builders.spec(blocks, measure={"repeats": {"min": 1}}, **spec), *pools)


def test_two_currencies_are_one_amount_by_the_studys_rate_and_none_without_it() -> None:
    rate = {"from": "EUR", "rate": "2", "asOf": "2026-11-01"}
    here = two_pools(currency="USD", exchangeRates=[rate])
    records = [attempt(here, trial=trial.id, pod_times=held(100.0)) for trial in here.trials]
    assert amount(spent(here, *records)) == Decimal("0.30")
    assert spent(two_pools(), *records) is None


def test_attempts_on_pools_without_a_price_are_said_to_be_missing() -> None:
    here = two_pools(currency="USD")  # nobody says what a euro is worth
    records = [attempt(here, trial=trial.id, pod_times=held(100.0)) for trial in here.trials]
    found = spent(here, *records)
    assert found is not None
    assert (amount(found), found.unpriced_attempts) == (Decimal("0.10"), 1)


def test_another_attempt_is_expected_to_take_as_long_as_the_longest_that_succeeded() -> None:
    here = plan()
    planned = 15 + here.timing.warm_up + here.timing.duration
    succeeded = [
        attempt(here, number, outcome=Outcome.SUCCEEDED, pod_times=held(seconds))
        for number, seconds in enumerate((30.0, 40.0), start=1)
    ]
    failed = attempt(here, 3, outcome=Outcome.FAILED, pod_times=held(4000.0))
    preempted = attempt(here, 4, outcome=Outcome.PREEMPTED, pod_times=held(500.0))
    assert account.expected_seconds(here, []) == planned
    assert account.expected_seconds(here, [failed]) == planned
    assert account.expected_seconds(here, [failed, preempted]) == 500.0
    assert account.expected_seconds(here, [preempted, *succeeded]) == 40.0


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "0.00"),
        ("12.345", "12.35"),
        ("1234.5", "1234.50"),
        ("0.004567", "0.00457"),
        ("0.00000000000001", "0.00"),
        ("0.2", "0.20"),
        ("0.115", "0.115"),
        ("1234567890123456789012345678.9", "1234567890123456789012345678.90"),
    ],
)
def test_an_amount_has_cents_or_three_digits(amount: str, shown: str) -> None:
    assert account.text(Decimal(amount)) == shown


@pytest.mark.parametrize(
    ("whole", "shown"),
    [("999999999999.49", "999999999999.49"), ("999999999999.999", None), ("1000000000000", None)],
)
def test_an_amount_of_more_digits_than_a_status_takes_is_absent(whole: str, shown: str | None) -> None:
    book = account.of(plan(), Ledger())
    (point,) = book.of_points
    found = account.spent(replace(book, of_points=(point._replace(amount=Decimal(whole)),)), (), builders.NOW)
    assert (found and found.amount) == shown


def test_an_amount_that_no_status_holds_is_absent_and_ends_no_study() -> None:
    """A plan may have been changed by hand."""
    euros = [{"from": "EUR", "rate": "1", "asOf": "2026-11-01"}]
    spec = builders.spec(
        builders.block(workers=[3]), measure={"repeats": {"min": 1}}, currency="USD", exchangeRates=euros
    )
    plan = builders.plan(spec, builders.pool(price=price(currency="EUR", perNodeHour="9999999.99")))
    (rate,) = plan.exchange_rates
    changed = plan.model_copy(update={"exchange_rates": (rate.model_copy(update={"rate": "999999999999"}),)})
    here = world(builders.study(spec), changed)
    status = here.run()
    assert (status.phase, status.spent) == ("Succeeded", None)
    billed = account.of(here.plan, here.ledger()).ended
    assert billed == Decimal("9999999.99") * 999999999999 * 27 / 3600
    limits = here.study.spec.limits.model_copy(update={"budget": "100"})
    limited = here.study.model_copy(update={"spec": here.study.spec.model_copy(update={"limits": limits})})
    another = world(limited, changed).run()
    assert (another.phase, another.spent and another.spent.amount) == ("BudgetExhausted", "0.00")


@pytest.mark.parametrize("seed", range(20))
def test_the_account_that_is_kept_is_the_one_that_is_opened_anew(seed: int) -> None:
    chance = random.Random(seed)
    until = {"min": 2, "max": 5, "until": {"relativeHalfWidth": "0.02"}} if seed % 2 else {"min": 3}
    spec = builders.spec(
        builders.block(workers=[1, 2, 4]),
        measure={"repeats": until},
        limits={"parallelTrials": 3},
    )

    def fate(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        ends = (success(trial, attempt), builders.disrupted(), (84, "x"))
        return ends[chance.choices(range(3), (4, 2, 1))[0]]

    here = world(builders.study(spec), builders.plan(spec, builders.pool(price=price())), fate=fate)
    kept = account.of(here.plan, here.ledger())
    for _ in range(60):
        decision = here.reconcile()
        if chance.random() < 0.5:  # what several steps have recorded is taken over at once
            kept = kept.following(here.ledger())
            assert kept == account.of(here.plan, here.ledger())
            assert kept.following(here.ledger()) is kept, "nothing was written, and something was computed again"
        if conditions.holds(decision.status.conditions, conditions.FINISHED):
            break
        here.advance()
    assert here.status is not None
    assert here.status.attempts is not None
    assert here.status.attempts.started > here.status.attempts.succeeded
