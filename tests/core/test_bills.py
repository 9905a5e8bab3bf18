# SPDX-License-Identifier: Apache-2.0
"""What the attempts of a point are billed, those without a result too; and what is said where not all is known."""

from decimal import Decimal
from typing import Any

import pytest

import builders
import world as worlds
from gpubench.analysis import costs, pairs
from gpubench.api.point_result import PointBill, PointResult
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, ledger
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.scheduler.observed import Disruption
from world import World

ONE = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}})
TWO = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}})
PRICE = {"per_node_hour": "3.60", "currency": "USD", "as_of": "2023-11-01"}  # a thousandth of a dollar a second


def pool(**price: Any) -> GpuPool:
    return builders.pool(price=PRICE | price)


def here(spec: Any = ONE, a_pool: GpuPool | None = None, **fields: Any) -> World:
    return worlds.world(builders.study(spec), builders.plan(spec, a_pool or pool()), **fields)


def billed(result: PointResult) -> PointBill:
    assert result.bill is not None
    return result.bill


def parts(bill: PointBill) -> dict[str, Decimal]:
    return {name: Decimal(value) for name, value in bill.parts.to_wire().items() if isinstance(value, str)}


def record(plan: Plan, **fields: Any) -> AttemptRecord:
    return builders.attempt(trial=plan.trials[0].id, **fields)


def of_records(plan: Plan, *records: AttemptRecord) -> PointResult:
    blank = pairs.blank(plan, plan.points[0])
    (found,) = costs.with_bills(plan, (blank,), {plan.trials[0].id: records})
    return found


def test_a_point_is_billed_for_the_time_of_its_pods_on_their_nodes() -> None:
    """Placed a second after the Job was made, started a second later, ended nine seconds after the placement."""
    (result,) = here().run().results
    bill = billed(result)
    assert (bill.total, bill.currency, bill.per_run, bill.attempts, bill.incomplete) == (
        "0.009000", "USD", "0.009000", 1, None,
    )  # fmt: skip
    found = parts(bill)
    assert sum(found.values()) == Decimal(bill.total)
    assert found["imagePull"] == Decimal("0.001")
    assert found["startUp"] == Decimal("0.006")  # joining takes 1 s and starting 5: a single pod waits for nobody
    assert result.cost is not None  # and the marginal cost stands beside it, as it was
    assert result.cost.per_million_samples is not None
    assert result.cost.per_million_samples.mean != bill.total


def test_a_node_that_was_held_within_one_second_of_the_clock_is_billed_for_the_minimum() -> None:
    """The API's timestamps are whole seconds: a short attempt ends in the second in which it was placed."""
    a_pool = pool(billing={"increment_seconds": 1, "minimum_seconds": 60})
    plan = builders.plan(ONE, a_pool)
    moment = 1_700_000_000.0
    short = record(plan, created_at=moment, ended_at=moment, pod_times=((moment, moment, moment),))
    assert billed(of_records(plan, short)).total == "0.060000"
    book = account.of(plan, ledger.Ledger(records=(short,)))
    assert book.ended == Decimal("0.06")


def test_each_node_of_a_gang_is_rounded_up_by_itself() -> None:
    (result,) = here(TWO, pool(billing={"increment_seconds": 60, "minimum_seconds": 0})).run().results
    bill = billed(result)
    assert bill.total == "0.120000"  # two minutes, though both nodes together were held for 18 seconds
    assert parts(bill)["rounding"] == Decimal("0.102")
    assert parts(bill)["waiting"] == Decimal("0.002")  # a second each until all had met


def test_attempts_without_a_result_are_billed_and_lost() -> None:
    def fate(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        if attempt == 1:
            return 80, builders.message(builders.failure(trial=trial, attempt=attempt))
        return builders.disrupted() if attempt == 2 else worlds.success(trial, attempt)

    (result,) = here(fate=fate, a_pool=pool(fees=({"name": "licence", "amount": "1", "per": "Run"},))).run().results
    bill = billed(result)
    assert bill.attempts == 3
    assert bill.per_run == "1.009000"
    found = parts(bill)
    assert sum(found.values()) == Decimal(bill.total) == Decimal("3.052")
    assert (found["lost"], found["fees"]) == (Decimal("2.043"), Decimal(1)), "the pod that was told to end took 25 s"


def test_slots_of_a_shared_node_are_billed_for_their_part_of_it() -> None:
    shared = builders.pool(price=PRICE, slots_per_node=4, exclusive_nodes=False)
    (result,) = here(ONE, shared).run().results
    assert billed(result).total == "0.002250"


def test_a_pool_without_a_price_bills_nothing_and_says_no_zero() -> None:
    (result,) = here(ONE, builders.pool(price=None)).run().results
    assert result.bill is None


def test_a_bill_is_in_the_studys_currency() -> None:
    rates = [{"from": "EUR", "rate": "1.25", "asOf": "2023-11-01"}]
    spec = builders.spec(
        builders.block(workers=[1]), measure={"repeats": {"min": 1}}, currency="USD", exchangeRates=rates
    )
    euros = pool(currency="EUR", fees=({"name": "licence", "amount": "1", "per": "Run"},))
    (result,) = here(spec, euros).run().results
    assert (billed(result).total, billed(result).currency) == ("1.261250", "USD")


def test_an_attempt_that_never_had_a_node_costs_nothing() -> None:
    plan = builders.plan(ONE, pool())
    found = of_records(plan, record(plan, reason=Reason.NO_CAPACITY))
    assert (billed(found).total, billed(found).incomplete) == ("0.000000", None)


@pytest.mark.parametrize(
    "reason", [Reason.JOB_VANISHED, Reason.POD_VANISHED, Reason.DISRUPTED, Reason.TIMED_OUT, Reason.EXITED]
)
def test_an_attempt_whose_pods_nobody_saw_has_no_bill_of_nothing(reason: Reason) -> None:
    plan = builders.plan(TWO, pool())
    assert of_records(plan, record(plan, reason=reason)).bill is None
    seen = record(plan, reason=reason, pod_times=((1.0, 2.0, 11.0),))
    found = billed(of_records(plan, seen, record(plan, attempt=2, reason=reason)))
    assert (found.total, found.attempts, found.incomplete) == ("0.010000", 2, 2)  # at least that


def test_the_time_that_a_warm_up_took_is_told_where_it_was_recorded() -> None:
    plan = builders.plan(ONE, pool())
    result = builders.result(warm_up_nanoseconds=2_500_000_000)
    done = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "result": result}
    found = of_records(plan, record(plan, pod_times=((1.0, 3.0, 31.0),), **done))
    told = parts(billed(found))
    assert told["warmUp"] == Decimal("0.0025")
    assert told["measured"] == Decimal("0.01")
    assert told["idle"] == Decimal("0.030") - sum(
        told[name] for name in ("imagePull", "waiting", "startUp", "warmUp", "measured")
    )
    assert "unknown" not in told


def test_setup_is_in_no_points_bill() -> None:
    plan = builders.plan(ONE, pool(setup="25"))
    used = record(plan, pod_times=((1.0, 2.0, 11.0),))
    assert billed(of_records(plan, used)).total == "0.010000"


def test_the_largest_gang_fits_an_entry_of_the_ledger() -> None:
    pods = tuple((1234.567, 2345.678, 34567.891) for _ in range(4096))
    entry = builders.attempt(
        pod_times=pods, nodes=tuple(f"node-of-a-large-cluster-{index:05}" for index in range(4096))
    )
    ((_, text),) = ledger.to_entries([entry]).items()
    assert len(text.encode()) < ledger.SHARD_BYTES_MAX
    (read,) = ledger.from_entries([{entry.key: text}]).records
    assert read == entry


def test_a_pod_that_never_started_comes_back_from_the_ledger_as_one() -> None:
    entry = builders.attempt(pod_times=((1.0, None, 11.0),))
    (read,) = ledger.from_entries([ledger.to_entries([entry])]).records
    assert read.pod_times == ((1.0, None, 11.0),)


def test_each_of_many_points_has_its_bill() -> None:
    blocks = [builders.block(workers=[1], batchPerWorker=[*range(1 + 16 * n, 17 + 16 * n)]) for n in range(13)]
    many = here(builders.spec(*blocks, measure={"repeats": {"min": 1}}, limits={"parallelTrials": 4}))
    many.reconcile()
    many.advance()
    found = many.reconcile().status.results
    assert any(result.throughput is not None for result in found)
    assert [billed(result).total for result in found if result.throughput is not None] == ["0.009000"] * 4
