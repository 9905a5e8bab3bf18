# SPDX-License-Identifier: Apache-2.0
"""The objective of a study is answered from what was measured: what to take, at what cost, how sure; or what lacks."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import advice, answer, audit
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan

#: Ten hours at 1,000 samples a second.
SAMPLES = 36_000_000
GOAL = {"name": "much", "workload": "mnist_cnn", "samples": SAMPLES}


def runs(rate: float, *, spread: float = 0.005) -> tuple[float, ...]:
    return (rate, rate * (1 + spread), rate * (1 - spread))


def pool(name: str = "cpu", price: str | None = "1", *, currency: str = "USD", **spec: Any) -> GpuPool:
    priced = None if price is None else {"per_node_hour": price, "currency": currency, "as_of": "2026-11-01"}
    return builders.pool(name, **({"price": priced, "max_nodes": 16} | spec))


def a_spec(*blocks: dict[str, Any], objective: dict[str, Any] | None = None, **fields: Any) -> GpuBenchmarkSpec:
    asked = {"minimize": "Cost", "goal": "much"} if objective is None else objective
    return builders.spec(*blocks, goals=[GOAL], objective=asked, **fields)


def messages(*asked: Any) -> tuple[str, ...]:
    return tuple(one.message for one in advice.advised(*asked))


def advised(
    spec: GpuBenchmarkSpec, pools: Sequence[GpuPool], rates: Mapping[int, Sequence[float]], **more: Any
) -> tuple[str, ...]:
    plan = builders.plan(spec, *pools)
    ledger = measured.ledger(plan, rates, **more)
    return messages(plan, ledger, measured.results(plan, rates, **more), spec.objective, spec.goals)


COST_IN_8 = {"minimize": "Cost", "goal": "much", "maxHours": 8}


# --- what is advised --------------------------------------------------------------------------------------------------


def test_the_cheapest_gang_in_time_is_advised_with_cost_margin_and_certainty() -> None:
    """1 worker: 10 h, USD 10; 2 at 1,900: 5.26 h, USD 10.53; 4 at 3,400: 2.94 h, USD 11.76."""
    spec = a_spec(builders.block(workers=[1, 2, 4]), objective=COST_IN_8)
    [text] = advised(spec, [pool(max_nodes=4)], {0: runs(1000), 1: runs(1900), 2: runs(3400)})
    assert text.startswith(
        "Objective much (least cost of 36,000,000 samples of mnist_cnn in float32): Cheapest within 8 hours: 2 workers "
        "at batch 64 on cpu (on demand), 5.26"
    )
    assert "USD 10.53 (" in text
    assert "The next, 4 workers at batch 64 on cpu (on demand), costs 11.8 % more, USD 11.7" in text
    assert "All of its 95 % interval keeps that limit." in text
    assert advice.LOWER_BOUND in text
    assert "runs of it would cost" not in text, "it is sure"


def test_a_spot_pool_says_that_it_is_one_and_pools_are_compared_by_cost() -> None:
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "cheap"]))
    pools = [pool(), pool("cheap", "0.3", capacity_type="Spot")]
    [text] = advised(spec, pools, {0: runs(1000), 1: runs(900)})
    assert "Cheapest: 1 worker at batch 64 on cheap (spot), 11.11 (" in text
    assert "The next, 1 worker at batch 64 on cpu (on demand), costs 200 % more" in text


def test_without_an_objective_nothing_is_advised_and_the_answer_is_as_before() -> None:
    plan = builders.plan(builders.spec(goals=[GOAL]))
    results = measured.results(plan, {0: runs(1000), 1: runs(1900)})
    ledger = measured.ledger(plan, {0: runs(1000), 1: runs(1900)})
    assert messages(plan, ledger, results, None, ()) == ()
    assert "Objective" not in answer.answer(results)


def test_the_fastest_within_what_it_may_cost_is_advised() -> None:
    rates = {0: runs(1000), 1: runs(1900), 2: runs(3400)}
    for limit, workers in (("10.2", "1 worker"), ("11", "2 workers"), ("50", "4 workers")):
        asked = {"minimize": "Time", "goal": "much", "maxCost": limit}
        spec = a_spec(builders.block(workers=[1, 2, 4]), objective=asked, currency="USD")
        [text] = advised(spec, [pool(max_nodes=4)], rates)
        assert f"Fastest for USD {limit}: {workers} at batch 64 on cpu" in text
    [text] = advised(
        a_spec(builders.block(workers=[1, 2, 4]), objective={"minimize": "Time", "goal": "much"}),
        [pool(max_nodes=4, price=None)],
        rates,
    )
    assert "Fastest: 4 workers at batch 64 on cpu (on demand), 2.941" in text
    assert "at a price that nobody knows" in text


def test_overlapping_intervals_are_a_tie_and_what_telling_them_apart_costs_is_said() -> None:
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "other"]))
    [text] = advised(spec, [pool(), pool("other")], {0: runs(1000, spread=0.02), 1: runs(1030, spread=0.02)})
    assert "A tie with 1 worker at batch 64 on cpu (on demand), for their intervals overlap." in text
    assert (
        "About 2 more repeats of both would probably tell 1 worker on other from 1 worker on cpu, for about USD 0.0778."
        in (text)
    ), "2 x 2 runs of 70 s at 1 an hour"


def test_finding_out_costs_what_the_runs_would_be_billed() -> None:
    """2 runs on each of two pools: an hour of a node each, at 1 an hour, with 0.5 for a run."""
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "other"]))
    hourly = {
        "per_node_hour": "1",
        "currency": "USD",
        "as_of": "2026-11-01",
        "billing": {"incrementSeconds": 3600},
        "fees": [{"name": "licence", "amount": "0.5", "per": "Run"}],
        "setup": "2",
    }
    pools = [builders.pool(name, price=hourly, max_nodes=16) for name in ("cpu", "other")]
    [text] = advised(spec, pools, {0: runs(1000, spread=0.02), 1: runs(1030, spread=0.02)})
    assert "About 2 more repeats of both would probably tell" in text
    assert "for about USD 6.0" in text, "2 x 2 x 1.5: what was measured has paid the setup"


def test_each_kind_of_work_is_advised_by_itself() -> None:
    spec = a_spec(builders.block(workers=[1], precision=["float32", "tensor_float32"]))
    first, second = advised(spec, [pool()], {0: runs(1000), 1: runs(2000)})
    assert "of mnist_cnn in float32): Cheapest: 1 worker" in first
    assert "of mnist_cnn in tensor_float32): Cheapest: 1 worker" in second


# --- what was not measured --------------------------------------------------------------------------------------------


def test_a_gang_that_was_not_measured_is_marked_with_its_law_and_what_measuring_it_costs() -> None:
    asked = {"minimize": "Cost", "goal": "much", "maxHours": 2}
    spec = a_spec(builders.block(workers=[1, 2, 4]), objective=asked)
    [text] = advised(spec, [pool()], {0: runs(1000), 1: runs(1960), 2: runs(3800)})
    assert "8 workers at batch 64 on cpu (on demand) (not measured: extrapolated by no more than a factor of 2)" in text
    assert f"predicted by {advice.LAW}, with a 95 % interval" in text
    assert "3 runs of it would cost about USD " in text


def test_a_batch_for_each_worker_is_divided_among_nobody_and_a_batch_for_all_evenly() -> None:
    asked = {"minimize": "Time", "goal": "much"}
    rates = {0: runs(1000), 1: runs(1960), 2: runs(3800)}
    [each] = advised(a_spec(builders.block(workers=[1, 2, 4], batchPerWorker=[20]), objective=asked), [pool()], rates)
    assert "Fastest: 8 workers at batch 20 on cpu" in each
    of_all = builders.block(workers=[1, 2, 4], globalBatch=[20])
    [divided] = advised(a_spec(of_all, objective=asked), [pool()], rates)
    assert "Fastest: 4 workers" in divided
    assert "8 workers" not in divided


def test_nothing_is_predicted_beyond_twice_what_was_measured_or_beyond_what_a_pool_holds() -> None:
    asked = {"minimize": "Time", "goal": "much"}
    spec = a_spec(builders.block(workers=[1, 2, 4]), objective=asked)
    rates = {0: runs(1000), 1: runs(1960), 2: runs(3800)}
    [wide] = advised(spec, [pool(max_nodes=64)], rates)
    assert "Fastest: 8 workers" in wide
    assert "16 workers" not in wide
    [narrow] = advised(spec, [pool(max_nodes=7)], rates)
    assert "Fastest: 4 workers" in narrow
    assert "not measured" not in narrow


def test_a_line_within_one_node_says_nothing_about_the_network() -> None:
    asked = {"minimize": "Time", "goal": "much"}
    spec = a_spec(builders.block(workers=[1, 2, 4]), objective=asked)
    [text] = advised(spec, [pool(slots_per_node=4)], {0: runs(1000), 1: runs(1960), 2: runs(3800)})
    assert "Fastest: 4 workers" in text
    assert "8 workers" not in text


def test_a_line_across_environments_has_no_law() -> None:
    asked = {"minimize": "Cost", "goal": "much", "maxHours": 1}
    spec = a_spec(builders.block(workers=[1, 2, 4]), objective=asked)
    plan = builders.plan(spec, pool())
    rates = {0: runs(1000), 1: runs(1960), 2: runs(3800)}
    results = list(measured.results(plan, rates))
    results[0] = results[0].model_copy(update={"environment": "another"})
    [text] = messages(plan, measured.ledger(plan, rates), results, spec.objective, spec.goals)
    assert "8 workers at batch 64 on cpu (on demand) cannot be judged: its points ran in different environments" in text


# --- what is missing --------------------------------------------------------------------------------------------------


def test_one_point_alone_is_advised_as_the_only_one() -> None:
    [text] = advised(a_spec(builders.block(workers=[1])), [pool(max_nodes=1)], {0: runs(1000)})
    assert "Cheapest: 1 worker at batch 64 on cpu (on demand), 10.0" in text
    assert "There is no other gang to compare it with." in text


def test_what_is_too_slow_says_what_it_takes_why_others_cannot_be_judged_and_what_measuring_costs() -> None:
    spec = a_spec(builders.block(workers=[1]), objective=COST_IN_8)
    [text] = advised(spec, [pool()], {0: runs(1000)})
    assert "36,000,000 samples cannot be trained within 8 hours: the fastest gang, 1 worker" in text
    assert "2 workers at batch 64 on cpu (on demand) cannot be judged: 1 worker count (1) says nothing" in text
    assert "3 runs of 2 workers on cpu would cost about USD " in text


def test_without_repeats_nothing_is_sure_and_what_repeating_costs_is_said() -> None:
    spec = a_spec(
        builders.block(workers=[1]),
        objective={"minimize": "Cost", "goal": "much", "maxHours": 11},
        measure={"repeats": {"min": 1}},
    )
    [text] = advised(spec, [pool()], {0: (1000.0,)})
    assert "Whether it keeps that limit is not sure: its interval has no upper end" in text
    assert "3 runs of it would cost about USD " in text


def test_without_any_price_the_least_cost_is_not_known_and_that_is_said() -> None:
    [text] = advised(a_spec(builders.block(workers=[1])), [pool(price=None)], {0: runs(1000)})
    assert "Nothing that was measured has a price: give a pool a price or an ownership." in text
    [late] = advised(
        a_spec(builders.block(workers=[1]), objective={"minimize": "Cost", "goal": "much", "maxHours": 11}),
        [pool(price=None)],
        {0: runs(1000)},
    )
    assert "Nothing that was measured and is fast enough has a price" in late


def test_a_pool_without_a_price_beside_one_that_has_one_is_named() -> None:
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "other"]))
    [text] = advised(spec, [pool(), pool("other", price=None)], {0: runs(1000), 1: runs(5000)})
    assert "Cheapest: 1 worker at batch 64 on cpu" in text
    assert "1 worker at batch 64 on other (on demand): no price, and therefore not compared by cost." in text


def test_two_currencies_are_a_sentence_and_no_failure() -> None:
    pools = [pool(), pool("other", currency="EUR")]
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "other"]))
    [text] = advised(spec, pools, {0: runs(1000), 1: runs(1000)})
    assert "cannot be added or compared" in text
    assert text.endswith("give spec.currency and exchangeRates.")
    fastest = a_spec(
        builders.block(workers=[1], pools=["cpu", "other"]), objective={"minimize": "Time", "goal": "much"}
    )
    [text] = advised(fastest, pools, {0: runs(1000), 1: runs(1001)})
    assert "Fastest: 1 worker at batch 64 on other" in text
    assert "for about USD " in text or "for about EUR " in text


def test_nothing_measured_is_said() -> None:
    [text] = advised(a_spec(), [pool()], {})
    assert text == (
        "Objective much (least cost of 36,000,000 samples of mnist_cnn): nothing was measured; the reason stands with "
        "each point."
    )


def test_an_absurd_amount_is_a_dash_and_not_a_failure() -> None:
    goal = {"name": "much", "workload": "mnist_cnn", "samples": 10**15}
    spec = builders.spec(builders.block(workers=[1]), goals=[goal], objective={"minimize": "Cost", "goal": "much"})
    [text] = advised(spec, [pool(price="9999999")], {0: runs(1)})
    assert " hours and –." in text


# --- what was not run -------------------------------------------------------------------------------------------------


def test_a_re_priced_pool_wins_by_its_price_alone_and_is_no_tie() -> None:
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "cheap"]))
    cheap = pool("cheap", "0.99", capacity_type="Spot", measured_by={"pool": "cpu"})
    [text] = advised(spec, [pool(), cheap], {0: runs(1000, spread=0.05)})
    assert "Cheapest: 1 worker at batch 64 on cheap (spot, re-priced)" in text
    assert "A tie" not in text
    assert "costs 1.01 % more, USD 10.0" in text
    fastest = a_spec(
        builders.block(workers=[1], pools=["cpu", "cheap"]), objective={"minimize": "Time", "goal": "much"}
    )
    [text] = advised(fastest, [pool(), cheap], {0: runs(1000)})
    assert "re-priced" not in text, "what was not run wins no comparison of speed"


# --- in the status ----------------------------------------------------------------------------------------------------


def test_the_advice_stands_first_in_the_answer_of_a_finished_study() -> None:
    blocks = [
        builders.block(workers=[1, 2, 4, 8], pools=["cpu", "other"], precision=["float32", "tensor_float32"]),
        builders.block(workers=[1, 2, 4, 8], pools=["cpu", "other"], batchPerWorker=[16, 32, 128]),
    ]
    spec = a_spec(*blocks, objective=COST_IN_8, measure={"repeats": {"min": 3}})
    plan: Plan = builders.plan(spec, pool(), pool("other", "0.5", capacity_type="Spot"))
    rates = {index: runs(900.0 * point.key.workers**0.9 + index) for index, point in enumerate(plan.points)}
    ledger = measured.ledger(plan, rates)
    status = audit.status_again(plan, ledger, spec, measured.finished_status(plan, rates))
    assert status.answer is not None
    assert status.answer.startswith(
        "Objective much (least cost of 36,000,000 samples of mnist_cnn in float32): Cheapest"
    )
    assert status.answer == audit.status_again(plan, ledger, spec, status).answer


@pytest.mark.parametrize("missing", ["objective", "goal"])
def test_an_objective_without_its_goal_asks_nothing(missing: str) -> None:
    spec = a_spec()
    plan = builders.plan(spec)
    goals = spec.goals if missing == "objective" else ()
    asked = None if missing == "objective" else spec.objective
    assert messages(plan, measured.ledger(plan, {}), measured.results(plan, {}), asked, goals) == ()


def test_what_was_tried_and_has_no_figure_is_not_predicted() -> None:
    """Eight workers were asked for and came to nothing: that they would be fast is no advice."""
    asked = {"minimize": "Time", "goal": "much"}
    spec = a_spec(builders.block(workers=[1, 2, 4, 8]), objective=asked)
    [text] = advised(spec, [pool()], {0: runs(1000), 1: runs(1960), 2: runs(3800)})
    assert "Fastest: 4 workers" in text
    assert "8 workers" not in text
