# SPDX-License-Identifier: Apache-2.0
"""Repeats of a point that another one beats in speed and cost are left out where that is asked for, and only then."""

import random
from typing import Any

import pytest

import builders
from gpubench.api.point_result import Omission, PointResult, PointState
from world import World, run_with_kills, world

REPEATS = 6


def place(rates: dict[str, float], prices: dict[str, str], *, wanted: bool = True, scatter: float = 0.01) -> World:
    """Pools with the throughput of a worker on them, and the price of a node."""
    block = builders.block(pools=list(rates), workers=[1])
    spec = builders.spec(block, measure={"repeats": {"min": REPEATS}}, limits={"stopDominated": wanted})
    pools = [
        builders.pool(name, price={"perNodeHour": price, "currency": "USD", "asOf": "2026-11-01"})
        for name, price in prices.items()
    ]
    plan = builders.plan(spec, *pools)
    pool_of = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}
    chance = {trial.id: random.Random(trial.id).uniform(1 - scatter, 1 + scatter) for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        rate = rates[pool_of[trial]] * chance[trial]
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rate))

    return world(builders.study(spec), plan, fate=fate)


def results(here: World) -> dict[str, PointResult]:
    return {result.pool: result for result in here.run().results}


def repeats(here: World) -> dict[str, int]:
    return {pool: len(result.values) for pool, result in results(here).items()}


RATES = {"fast": 2000.0, "slow": 1000.0}
CHEAP_IS_FAST = {"fast": "1.00", "slow": "2.00"}


def test_a_point_that_is_slower_and_dearer_is_not_repeated_beyond_its_interval() -> None:
    here = place(RATES, CHEAP_IS_FAST)
    found = results(here)
    assert len(found["fast"].values) == REPEATS
    slow = found["slow"]
    assert (slow.state, len(slow.values), slow.omission) == (PointState.MEASURED, 3, Omission.DOMINATED)
    assert slow.throughput is not None
    assert slow.throughput.low is not None
    assert slow.warnings[0].message.startswith("only 3 of 6 repeats were measured: mnist_cnn on fast, 1 worker")
    assert "is faster and cheaper, beyond both intervals" in slow.warnings[0].message


def test_a_study_without_the_repeats_that_were_left_out_has_succeeded() -> None:
    here = place(RATES, CHEAP_IS_FAST)
    status = here.run()
    assert (status.phase, status.points_done) == ("Succeeded", "2/2")
    assert status.trials is not None
    assert (status.trials.total, status.trials.finished, status.trials.least) == (9, 9, None)
    assert len(here.created) == 9


def test_nothing_is_left_out_unless_it_is_asked_for() -> None:
    assert repeats(place(RATES, CHEAP_IS_FAST, wanted=False)) == {"fast": REPEATS, "slow": REPEATS}


@pytest.mark.parametrize(
    ("rates", "prices"),
    [
        (RATES, {"fast": "2.10", "slow": "1.00"}),  # faster, but a sample costs more
        ({"fast": 1000.0, "slow": 1000.0}, CHEAP_IS_FAST),  # cheaper, and as fast
        (RATES, {"fast": "2.00", "slow": "1.00"}),  # faster, and a sample costs the same
    ],
    ids=["dearer", "no faster", "no cheaper"],
)
def test_a_point_that_is_better_in_one_alone_leaves_the_other_as_it_is(
    rates: dict[str, float], prices: dict[str, str]
) -> None:
    assert repeats(place(rates, prices)) == {"fast": REPEATS, "slow": REPEATS}


def test_repeats_that_scatter_too_far_decide_nothing() -> None:
    assert repeats(place({"fast": 1100.0, "slow": 1000.0}, CHEAP_IS_FAST, scatter=0.5)) == {
        "fast": REPEATS, "slow": REPEATS,
    }  # fmt: skip


def test_other_work_dominates_nothing() -> None:
    blocks: list[dict[str, Any]] = [
        builders.block(workloads=[workload], workers=[1]) for workload in ("mnist_cnn", "mnist_mlp")
    ]
    spec = builders.spec(*blocks, measure={"repeats": {"min": REPEATS}}, limits={"stopDominated": True})
    plan = builders.plan(spec)
    workload_of = {trial.id: plan.points[trial.point].key.workload for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        rate = {"mnist_cnn": 100.0, "mnist_mlp": 1000.0}[workload_of[trial]] * random.Random(trial).uniform(0.99, 1.01)
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rate))

    status = world(builders.study(spec), plan, fate=fate).run()
    assert [len(result.values) for result in status.results] == [REPEATS] * 2


def test_a_point_that_was_never_run_leaves_no_other_out() -> None:
    """Spot has the measurements of fast at a price at which it would dominate slow, which fast does not."""
    prices = {"fast": "9.00", "slow": "2.00", "spot": "1.00"}
    spec = builders.spec(
        builders.block(pools=list(prices), workers=[1]),
        measure={"repeats": {"min": REPEATS}},
        limits={"stopDominated": True},
    )
    pools = [
        builders.pool(
            name,
            price={"perNodeHour": price, "currency": "USD", "asOf": "2026-11-01"},
            **({"measured_by": {"pool": "fast"}} if name == "spot" else {}),
        )
        for name, price in prices.items()
    ]
    plan = builders.plan(spec, *pools)
    pool_of = {trial.id: plan.points[trial.point].key.pool for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        rate = RATES[pool_of[trial]] * random.Random(trial).uniform(0.99, 1.01)
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rate))

    assert repeats(world(builders.study(spec), plan, fate=fate)) == {"fast": REPEATS, "slow": REPEATS, "spot": 0}


@pytest.mark.parametrize("seed", range(10))
def test_killed_between_any_two_writes_the_same_repeats_are_left_out(seed: int) -> None:
    undisturbed, disturbed = place(RATES, CHEAP_IS_FAST), place(RATES, CHEAP_IS_FAST)
    undisturbed.run()
    run_with_kills(disturbed, random.Random(seed))
    assert sorted(disturbed.created) == sorted(undisturbed.created)
