# SPDX-License-Identifier: Apache-2.0
"""What spot saves net of lost work, from how much use on owning pays, and a sentence where nothing can be told."""

from collections.abc import Mapping
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import goodput
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import PoolComparison
from gpubench.plan.plan import Plan
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason

PRICE = {"currency": "USD", "as_of": "2023-11-01"}
SPOT: dict[str, Any] = {"capacity_type": "Spot", "on_demand_counterpart": "cpu"}


def rented(name: str, hour: str, **fields: Any) -> GpuPool:
    return builders.pool(name, price={"per_node_hour": hour, **PRICE, **fields.pop("price", {})}, **fields)


def plan_of(*pools: GpuPool, **fields: Any) -> Plan:
    spec = builders.spec(builders.block(pools=[pool.name for pool in pools], workers=[1, 2]), **fields)
    return builders.plan(spec, *pools)


def ended(plan: Plan, pool: str, *, hours: float, outcome: Outcome, attempt: int = 1) -> AttemptRecord:
    """An attempt at the pool's first point that held one node for so long."""
    trial = next(trial for trial in plan.trials if plan.points[trial.point].key.pool == pool)
    result = builders.result(trial=trial.id) if outcome is Outcome.SUCCEEDED else None
    reason = Reason.COMPLETED if result else Reason.DISRUPTED
    times = ((0.0, 1.0, hours * 3600),)
    return builders.attempt(
        trial=trial.id, attempt=attempt, outcome=outcome, reason=reason, result=result, pod_times=times
    )


def spot(plan: Plan, *records: AttemptRecord) -> PoolComparison:
    (found,) = goodput.comparisons(plan, Ledger(records=records), [])
    return found


# --- spot -------------------------------------------------------------------------------------------------------------


def test_a_discount_is_what_the_price_saves_and_what_is_realised_counts_the_lost_work() -> None:
    plan = plan_of(rented("cpu", "1.00"), rented("cheap", "0.40", **SPOT))
    lost = ended(plan, "cheap", hours=1, outcome=Outcome.PREEMPTED)
    done = ended(plan, "cheap", hours=4, outcome=Outcome.SUCCEEDED, attempt=2)
    elsewhere = ended(plan, "cpu", hours=100, outcome=Outcome.SUCCEEDED)
    failed = ended(plan, "cheap", hours=9, outcome=Outcome.FAILED, attempt=3)  # not for being spot
    drilled = ended(plan, "cheap", hours=7, outcome=Outcome.PREEMPTED, attempt=4)  # on purpose: not for being spot
    drilled = drilled.model_copy(update={"drilled": "pod"})
    found = spot(plan, lost, done, elsewhere, failed, drilled)
    assert found.spot is not None
    assert found.spot.discount == 0.6
    assert found.spot.realised == 0.5  # five hours at 0.40 for four hours of work
    assert found.spot.price_per_useful_hour == "0.500000000"
    assert (found.spot.interruptions, found.spot.interruptions_per_node_hour) == (1, 0.2)
    assert found.spot.break_even_interruptions == 0.6  # each loses one node-hour
    assert found.sentence == (
        "cheap costs 60.0 % less than cpu by price (40.0 % of it); 50.0 % less net of what 1 preempted attempt lost "
        "here; spot is the cheaper one up to 0.6 interruptions per node-hour"
    )


def test_the_break_even_goes_by_what_one_interruption_loses() -> None:
    plan = plan_of(rented("cpu", "1.00"), rented("cheap", "0.40", **SPOT))
    lost = [ended(plan, "cheap", hours=2, outcome=Outcome.PREEMPTED, attempt=one) for one in (1, 2, 3)]
    found = spot(plan, *lost, ended(plan, "cheap", hours=4, outcome=Outcome.SUCCEEDED, attempt=4))
    assert found.spot is not None
    assert (found.spot.interruptions, found.spot.break_even_interruptions) == (3, 0.3)


@pytest.mark.parametrize("outcome", [Outcome.PREEMPTED, Outcome.SUCCEEDED])
def test_lost_work_that_nobody_saw_is_not_taken_for_none(outcome: Outcome) -> None:
    plan = plan_of(rented("cpu", "1.00"), rented("cheap", "0.40", **SPOT))
    gone = ended(plan, "cheap", hours=1, outcome=outcome).model_copy(update={"pod_times": ()})
    done = ended(plan, "cheap", hours=4, outcome=Outcome.SUCCEEDED, attempt=2)
    lost = ended(plan, "cheap", hours=1, outcome=Outcome.PREEMPTED, attempt=3)
    found = spot(plan, gone, done, lost)
    assert found.spot is not None
    assert found.spot.discount == 0.6
    assert (found.spot.realised, found.spot.price_per_useful_hour) == (None, None)
    assert (found.spot.interruptions_per_node_hour, found.spot.break_even_interruptions) == (None, None)
    assert found.sentence == (
        "cheap costs 60.0 % less than cpu by price (40.0 % of it); net of lost work it cannot be told: pods of 1 "
        "attempt were gone before their end was seen"
    )


def test_before_anything_was_measured_there_is_a_discount_and_nothing_realised() -> None:
    found = spot(plan_of(rented("cpu", "1.00"), rented("cheap", "0.40", **SPOT)))
    assert found.spot is not None
    assert (found.spot.discount, found.spot.realised, found.spot.price_per_useful_hour) == (0.6, None, None)
    assert found.sentence == "cheap costs 60.0 % less than cpu by price (40.0 % of it)"


def test_spot_that_costs_more_says_so() -> None:
    found = spot(plan_of(rented("cpu", "1.00"), rented("cheap", "1.10", **SPOT)))
    assert found.sentence == "cheap costs 10.0 % more than cpu by price (110.0 % of it)"


@pytest.mark.parametrize(
    ("other", "currency", "words"),
    [
        (
            rented("cpu", "0"),
            "USD",
            "cannot tell what cheap saves: the on-demand price of one node for one hour must be",
        ),
        (builders.pool("cpu", price=None), "USD", "cannot tell what cheap saves: cpu has no price in this benchmark"),
        (rented("other", "1"), "USD", "cannot tell what cheap saves: cpu has no price in this benchmark: name it"),
        (rented("cpu", "1", price={"currency": "EUR"}), None, "USD and EUR cannot be added or compared"),
    ],
)
def test_what_cannot_be_told_of_spot_has_a_sentence_and_no_figure(
    other: GpuPool, currency: str | None, words: str
) -> None:
    fields = {"currency": currency} if currency else {}
    found = spot(plan_of(other, rented("cheap", "0.40", **SPOT), **fields))
    assert found.spot is None
    assert words in found.sentence


# --- owned against rented ---------------------------------------------------------------------------------------------

BOX = {
    "purchase": "7300", "lifetime_months": 10, "hours_per_month": 365, "currency": "USD", "as_of": "2023-11-01",
}  # fmt: skip


def own(**changes: Any) -> GpuPool:
    return builders.pool("own", price=None, ownership=BOX | changes)


def owning(plan: Plan, rates: Mapping[int, list[float]]) -> list[PoolComparison]:
    return list(goodput.comparisons(plan, Ledger(), measured.results(plan, rates)))


def at(plan: Plan, **rates: float) -> dict[int, list[float]]:
    """Each pool's points by workers of one: twice as fast on two."""
    return {
        index: [rates[point.key.pool] * point.key.workers] * 3
        for index, point in enumerate(plan.points)
        if point.key.pool in rates
    }


def test_an_own_machine_is_held_against_each_rented_pool_by_the_same_work_on_the_most_workers() -> None:
    plan = plan_of(own(), rented("cpu", "2.00"), rented("slow", "1.00"))
    one, other = owning(plan, at(plan, own=200.0, cpu=200.0, slow=50.0))
    assert (one.pool, one.other, other.other) == ("own", "cpu", "slow")
    assert one.owning is not None
    # 730 USD a month; an hour of the same work costs 2 USD rented: 365 hours, and at these nothing is gained
    assert (one.owning.workers, one.owning.relative_speed) == (2, 1.0)
    assert (one.owning.hours_per_month, one.owning.days_per_month) == (365.0, 15.21)
    assert one.owning.payback_days == pytest.approx(7300 / 2 / 24, rel=1e-3)
    assert one.owning.gain == 1.0
    assert other.owning is not None
    assert (other.owning.relative_speed, other.owning.hours_per_month, other.owning.gain) == (4.0, 182.5, 2.0)
    assert "owning is the cheaper one from 365 hours of use a month on" in one.sentence


def test_owning_that_never_pays_has_no_hours_and_says_why() -> None:
    plan = plan_of(own(watts=50_000, per_kilowatt_hour="1"), rented("cpu", "0.10"))
    (found,) = owning(plan, at(plan, own=100.0, cpu=100.0))
    assert found.owning is not None
    assert (found.owning.hours_per_month, found.owning.days_per_month, found.owning.payback_days) == (None, None, None)
    assert "owning is dearer than renting at any use" in found.sentence
    assert "buying never pays" in found.sentence


def test_what_was_not_measured_on_both_pools_is_not_compared() -> None:
    plan = plan_of(own(), rented("cpu", "2.00"))
    assert owning(plan, at(plan, own=200.0)) == []


def test_a_rented_node_that_costs_nothing_gives_a_sentence() -> None:
    plan = plan_of(own(), rented("cpu", "0"))
    (found,) = owning(plan, at(plan, own=200.0, cpu=200.0))
    assert found.owning is None
    assert found.sentence.startswith("cannot tell from how much use on own pays: ")


def test_two_currencies_without_a_rate_give_a_sentence_and_with_one_a_figure() -> None:
    euros = own(currency="EUR")
    without = plan_of(euros, rented("cpu", "2.00"), currency="USD")
    (found,) = owning(without, at(without, own=200.0, cpu=200.0))
    assert found.owning is None
    assert "give its rate in spec.exchangeRates" in found.sentence
    rates = [{"from": "EUR", "rate": "2", "asOf": "2023-11-01"}]
    exchanged = plan_of(euros, rented("cpu", "4.00"), currency="USD", exchangeRates=rates)
    (found,) = owning(exchanged, at(exchanged, own=200.0, cpu=200.0))
    assert found.owning is not None
    assert found.owning.hours_per_month == 365.0
