# SPDX-License-Identifier: Apache-2.0
"""Where the nodes' time went, how often they were taken away, how soon work went on: from the records, by pool."""

from decimal import Decimal
from typing import Any

import pytest

import builders
from gpubench.analysis import costs, goodput, text
from gpubench.api.goodput_result import PoolGoodput
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan, Point
from gpubench.records import Result, Resumed
from gpubench.scheduler import account
from gpubench.scheduler.ledger import AttemptRecord, Interruption, Ledger, Outcome, Reason
from gpubench.scheduler.observed import Disruption
from world import World, success, world

NOW = builders.NOW
ONE = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}})
TWO = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}})
PRICE = {"per_node_hour": "3.60", "currency": "USD", "as_of": "2023-11-01"}


def plan_of(spec: Any = ONE, **pool: Any) -> Plan:
    return builders.plan(spec, builders.pool(**({"price": PRICE, "capacity_type": "Spot"} | pool)))


def measured(**fields: Any) -> Result:
    """Ten seconds that count after two that do not; the pods meet after one, and start in five."""
    return builders.result(warm_up_nanoseconds=2_000_000_000, **fields)


def attempt(plan: Plan, number: int = 1, *, at: float = 0.0, lasted: float = 30.0, **fields: Any) -> AttemptRecord:
    """One at the plan's first trial. Each pod had a node after two seconds, and its container a second later."""
    nodes = plan.points[plan.trials[0].point].nodes
    defaults: dict[str, Any] = {
        "trial": plan.trials[0].id,
        "attempt": number,
        "created_at": NOW + at,
        "ended_at": NOW + at + lasted,
        "pod_times": ((2.0, 3.0, lasted),) * nodes,
    }
    return builders.attempt(**(defaults | fields))


def succeeded(plan: Plan, number: int = 1, **fields: Any) -> AttemptRecord:
    result = measured(trial=plan.trials[0].id, attempt=number)
    done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "result": result}
    return attempt(plan, number, **(done | fields))


def preempted(plan: Plan, number: int = 1, **fields: Any) -> AttemptRecord:
    kind: dict[str, Any] = {
        "outcome": Outcome.PREEMPTED,
        "reason": Reason.DISRUPTED,
        "interruption": Interruption.RECLAIM,
    }
    return attempt(plan, number, **(kind | fields))


def uses(plan: Plan, record: AttemptRecord) -> dict[str, float]:
    return {use.value: float(seconds) for use, seconds in goodput.of_attempt(record, point(plan)).items()}


def point(plan: Plan) -> Point:
    return plan.points[plan.trials[0].point]


def of(plan: Plan, *records: AttemptRecord) -> PoolGoodput:
    found = goodput.of_study(plan, Ledger(records=records))
    assert found is not None
    (pool,) = found.pools
    return pool


# --- one attempt ------------------------------------------------------------------------------------------------------


def test_an_attempt_with_a_result_waits_starts_works_and_ends() -> None:
    plan = plan_of(TWO)
    # Two nodes for 28 s each: 1 s of pulling, 1 s until both had come, 5 s of start-up, 2 s of warm-up, 10 s of work.
    assert uses(plan, succeeded(plan)) == {
        "queued": 4.0, "waiting": 4.0, "start_up": 10.0, "useful": 20.0, "other": 22.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "use"), [(Outcome.PREEMPTED, "lost"), (Outcome.FAILED, "failed"), (Outcome.STOPPED, "failed")]
)
def test_an_attempt_without_a_result_is_lost_as_a_whole_and_to_whom_is_told_apart(outcome: Outcome, use: str) -> None:
    plan = plan_of()
    assert uses(plan, attempt(plan, outcome=outcome)) == {"queued": 2.0, use: 28.0}


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_parts_of_the_held_time_sum_to_what_is_held(nodes: int) -> None:
    plan = plan_of({1: ONE, 2: TWO}[nodes])
    for record in (succeeded(plan), preempted(plan), attempt(plan), succeeded(plan, lasted=9.5)):
        found = goodput.of_attempt(record, point(plan))
        assert goodput.held(found) == sum(node.held for run in costs.runs(record) for node in run)


def test_of_a_time_that_nobody_can_tell_apart_the_measured_part_is_known_all_the_same() -> None:
    plan = plan_of()
    without = succeeded(plan, result=builders.result(trial=plan.trials[0].id))  # no warm-up was recorded
    assert uses(plan, without) == {"queued": 2.0, "waiting": 1.0, "start_up": 6.0, "useful": 10.0, "unknown": 11.0}


def test_a_node_whose_pod_was_gone_counts_until_the_attempts_end_where_its_placement_was_written_down() -> None:
    plan = plan_of(TWO)
    gone = preempted(plan, pod_times=((2.0, 3.0, 30.0),), placed_at=(2.0, 6.0))
    assert uses(plan, gone)["lost"] == 28.0 + 24.0
    assert goodput.is_seen(gone, nodes=2)
    assert account.is_incomplete(gone, nodes=2)  # and what is billed for it is still said to be at least so much
    assert not goodput.is_seen(gone.model_copy(update={"placed_at": ()}), nodes=2)
    whole = preempted(plan, placed_at=(2.0, 2.0))
    assert uses(plan, whole)["lost"] == 56.0  # no node of it counts twice


def test_what_a_later_attempt_went_on_from_counts_and_starting_anew_is_repeated() -> None:
    plan = plan_of()
    resumed = Resumed(attempt=2, step=70, useful_seconds=7.0, restore_seconds=1.0)
    result = measured(trial=plan.trials[0].id, attempt=3, resumed=resumed)
    lost = (preempted(plan, 1, lasted=14.0), preempted(plan, 2, at=20.0, lasted=8.0))
    records = (*lost, succeeded(plan, 3, at=60.0, result=result))
    # The second one held its node for 6 s only: the seventh second of the work is the first one's.
    assert goodput.taken_over(records) == {2: {0: Decimal("6")}, 1: {0: Decimal("1")}}
    told = of(plan, *records).node_seconds
    assert (told.lost, told.repeated, told.start_up) == (11.0, 6.0, None)
    assert told.useful == 10.0  # of which the last attempt has trained for three seconds
    found = of(plan, *records)
    assert found.goodput == pytest.approx(10 / 46, rel=1e-3)


# --- a pool -----------------------------------------------------------------------------------------------------------


def test_goodput_is_the_share_of_the_held_time_that_was_measured_and_the_price_of_an_hour_of_it_follows() -> None:
    plan = plan_of()
    found = of(plan, preempted(plan, lasted=14.0), succeeded(plan, 2, at=60.0))
    assert found.goodput == 0.25  # 10 of 12 + 28 seconds
    assert (found.effective_price, found.currency) == ("14.400000000", "USD")
    assert found.node_hours == pytest.approx(40 / 3600, rel=1e-3)
    told = found.node_seconds
    assert (told.useful, told.lost, told.start_up, told.waiting, told.queued) == (10.0, 12.0, 6.0, 1.0, 4.0)
    assert (told.failed, told.repeated, told.unknown) == (None, None, None)


def test_interruptions_are_counted_by_kind_and_per_hour_held() -> None:
    plan = plan_of(price={**PRICE, "billing": {"increment_seconds": 3600, "minimum_seconds": 0}})
    kinds = (Interruption.RECLAIM, Interruption.RECLAIM, Interruption.EVICTION, Interruption.NODE_LOST, None)
    lost = [preempted(plan, number, lasted=1802.0, interruption=kind) for number, kind in enumerate(kinds, start=1)]
    found = of(plan, *lost)
    counts = found.interruptions
    assert (counts.total, counts.reclaimed, counts.evicted, counts.nodes_lost) == (5, 2, 1, 1)
    assert found.per_node_hour is not None
    assert (found.per_node_hour.mean, found.per_node_hour.low, found.per_node_hour.high) == (2.0, 0.6494, 4.667)
    assert "5 of 5 attempts were interrupted (2 reclaimed, 1 evicted, 1 with a lost node) in 2.5 node-hours" in (
        found.sentence
    )


def test_failures_are_time_in_which_an_interruption_could_have_been_seen_and_no_interruption() -> None:
    plan = plan_of()
    found = of(plan, attempt(plan, lasted=3602.0), preempted(plan, 2, lasted=3602.0))
    assert found.interruptions.total == 1
    assert found.per_node_hour is not None
    assert found.per_node_hour.mean == 0.5


def test_where_nothing_was_interrupted_there_is_an_upper_end_and_where_nothing_was_held_no_rate() -> None:
    plan = plan_of(price=None)
    found = of(plan, succeeded(plan, lasted=36002.0))
    assert found.per_node_hour is not None
    assert (found.per_node_hour.mean, found.per_node_hour.low, found.per_node_hour.high) == (0.0, 0.0, 0.3689)
    calm = "cpu (Spot): no attempt was interrupted in 10 node-hours: fewer than 0.37 per node-hour"
    assert found.sentence.startswith(calm)
    assert (found.effective_price, found.currency) == (None, None)
    nothing = of(plan, attempt(plan, reason=Reason.NO_CAPACITY, pod_times=()))
    assert (nothing.per_node_hour, nothing.goodput, nothing.node_hours) == (None, None, 0.0)


def test_time_that_nobody_saw_the_whole_of_has_no_goodput_and_says_so() -> None:
    plan = plan_of(TWO)
    gone = preempted(plan, pod_times=((2.0, 3.0, 30.0),))
    found = of(plan, gone, succeeded(plan, 2))
    assert (found.incomplete, found.goodput, found.effective_price, found.currency) == (1, None, None, None)
    assert "pods of 1 attempt were gone before their end" in found.sentence
    assert found.per_node_hour is not None  # of what was seen: at most this


def test_before_an_attempt_has_ended_nothing_is_said() -> None:
    plan = plan_of()
    running = attempt(plan, outcome=None, reason=None, ended_at=None, pod_times=())
    assert goodput.of_study(plan, Ledger(records=(running,))) is None


def test_each_pool_has_its_own_figures() -> None:
    pools: list[GpuPool] = [builders.pool(f"pool-{number:02}") for number in range(10)]
    spec = builders.spec(builders.block(workers=[1], pools=[pool.name for pool in pools]))
    plan = builders.plan(spec, *pools)
    taken = (pools[0].name, pools[-1].name)
    records = []
    for trial in plan.trials:
        outcome = Outcome.PREEMPTED if plan.points[trial.point].key.pool in taken else Outcome.FAILED
        if trial.repeat == 0:
            records.append(builders.attempt(outcome=outcome, trial=trial.id, pod_times=((0.0, 1.0, 3600.0),)))
    found = goodput.of_study(plan, Ledger(records=tuple(records)))
    assert found is not None
    assert len(found.pools) == 10
    assert [pool.pool for pool in found.pools if pool.interruptions.total] == list(taken)


# --- back at work -----------------------------------------------------------------------------------------------------


def test_it_is_back_at_work_with_the_first_step_of_the_next_attempt() -> None:
    plan = plan_of(TWO)
    first = preempted(plan, lasted=30.0)
    second = succeeded(plan, 2, at=42.0, pod_times=((4.0, 9.0, 60.0), (6.0, 8.0, 60.0)))
    # 12 s until the Job was there; 6 s until both pods had a node; 3 s until both ran; then the join and the start.
    assert goodput.recoveries((first, second)) == (12.0 + 6.0 + 3.0 + 6.0,)


def test_an_attempt_that_was_interrupted_in_turn_says_nothing_of_its_first_step() -> None:
    plan = plan_of()
    first, second = preempted(plan, lasted=30.0), preempted(plan, 2, at=31.0, lasted=30.0)
    third = succeeded(plan, 3, at=81.0)
    assert goodput.recoveries((first, second)) == ()
    assert len(goodput.recoveries((first, second, third))) == 1


def test_recovery_is_the_median_and_failures_are_none() -> None:
    plan = builders.plan(
        builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 3}}), builders.pool(price=PRICE)
    )
    records = []
    for trial, pause in zip(plan.trials, (10.0, 20.0, 90.0), strict=True):
        lost = preempted(plan, lasted=30.0, trial=trial.id)
        again = succeeded(plan, 2, at=30.0 + pause, result=measured(trial=trial.id, attempt=2), trial=trial.id)
        records += [lost, again]
    found = goodput.of_study(plan, Ledger(records=tuple(records)))
    assert found is not None
    assert found.recovery is not None
    assert found.recovery == found.pools[0].recovery
    # 2 s until it had a node, 1 s of pulling, 6 s of joining and starting
    assert (found.recovery.count, found.recovery.median, found.recovery.mean) == (3, 29.0, 49.0)
    assert "back at work after 29s (median of 3)" in found.pools[0].sentence
    failed = [one.model_copy(update={"outcome": Outcome.FAILED}) if one.result is None else one for one in records]
    without = goodput.of_study(plan, Ledger(records=tuple(failed)))
    assert without is not None
    assert without.recovery is None


def test_recovery_that_begins_before_the_end_that_was_recorded_has_no_wait_for_its_job() -> None:
    plan = plan_of()
    early, exact, late = (
        goodput.recoveries((preempted(plan, lasted=30.0), succeeded(plan, 2, at=at)))[0] for at in (29.0, 30.0, 30.5)
    )
    assert (early, late) == (exact, exact + 0.5)


# --- a study ----------------------------------------------------------------------------------------------------------


def reclaimed_once(trial: str, attempt: int) -> tuple[int, str] | Disruption:
    shutdown = Disruption(reason="TerminationByKubelet", message="terminated in response to imminent node shutdown")
    return shutdown if attempt == 1 else success(trial, attempt)


def test_a_study_says_in_its_status_what_interruptions_cost_it() -> None:
    here: World = world(builders.study(TWO), plan_of(TWO), fate=reclaimed_once)
    status = here.run()
    assert status.attempts is not None
    assert status.attempts.interruptions is not None
    assert (status.attempts.interruptions.total, status.attempts.interruptions.reclaimed) == (1, 1)
    assert status.goodput is not None
    (pool,) = status.goodput.pools
    assert (pool.attempts, pool.interruptions.total, pool.capacity_type.value) == (2, 1, "Spot")
    assert pool.node_seconds.lost
    assert pool.goodput is not None
    assert 0 < pool.goodput < 1
    assert status.goodput.recovery is not None
    assert status.goodput.recovery.count == 1
    assert text.interruptions(status) == (f"{pool.sentence}.",)
    calm = world(builders.study(TWO), plan_of(TWO)).run()
    assert text.interruptions(calm) == ()
    assert calm.attempts is not None
    assert calm.attempts.interruptions is None
