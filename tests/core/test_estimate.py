# SPDX-License-Identifier: Apache-2.0
"""Before a study runs: how long an attempt takes and what it costs, and what that is known from."""

import csv
import random
import statistics
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import builders
import studies_cut_short
from gpubench import workloads
from gpubench.analysis import forecast
from gpubench.analysis.forecast import Earlier
from gpubench.plan import estimate
from gpubench.plan.plan import Plan
from gpubench.scheduler import account
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome

PUBLISHED = Path(__file__).parents[2] / "jobs/studies/published/tensorflow-2017.csv"
OF_PUBLISHED = {"dgx-1": "P100", "gce-8xk80-2017": "K80", "p2.8xlarge-2017": "K80", "p2.8xlarge-distributed": "K80"}
GPU: dict[str, Any] = {
    "accelerator": "A100-40GB",
    "slot": {"gpuResource": "nvidia.com/gpu", "cpu": "11", "memory": "80Gi"},
}


def trained(
    workload: str = "resnet50", *, samples: int = 12_800, pool: dict[str, Any] | None = None, **block: Any
) -> Plan:
    data = {"source": "Generated", "samples": samples}
    fields = {"workloads": [workload], "workers": [1], "data": data, "epochs": 2} | block
    spec = builders.spec(builders.block(**fields), measure={"mode": "Training"})
    return builders.plan(spec, builders.pool(**(GPU if pool is None else pool)))


def published() -> list[dict[str, str]]:
    """Runs of TensorFlow's own benchmarks of 2017."""
    lines = PUBLISHED.read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def of(plan: Plan, *earlier: float, point: int = 0) -> estimate.Estimate:
    found = estimate.of_point(plan, plan.points[point], earlier=earlier)
    assert found is not None
    assert 0 <= found.low <= found.mean <= found.high
    return found


# --- from the study's own times ---------------------------------------------------------------------------------------


def test_a_throughput_study_takes_the_times_that_it_sets_and_an_assumed_start_up() -> None:
    plan = builders.plan(builders.spec(measure={"warmUp": "10s", "duration": "60s"}))
    found = of(plan)
    assert (found.mean, found.basis) == (15 + 10 + 60, "settings")
    assert found.low == 5 + 10 + 60
    assert found.high > 120 + 10 + 60
    own = builders.spec(builders.block(workloads=["Custom"], custom={"name": "mine", "file": "/mine.py"}))
    assert of(builders.plan(own)).high == 120 + 10 + 60, "how long a step of one's own takes nobody knows"
    assert "start-up, assumed to take from 5 to 120 s" in found.sentence


def test_a_run_that_may_end_early_is_shorter_at_the_least() -> None:
    until = {"min": 3, "max": 5, "until": {"relativeHalfWidth": "0.02"}}
    plan = builders.plan(builders.spec(measure={"repeats": until, "duration": "60s", "window": "2s"}))
    assert of(plan).low == 5 + 10 + 12 * 2
    assert of(plan).mean == 15 + 10 + 60


# --- from arithmetic --------------------------------------------------------------------------------------------------


def test_a_training_is_estimated_from_its_arithmetic_with_a_wide_interval() -> None:
    found = of(trained())
    assert found.basis == "FLOPs"
    assert found.high > 10 * found.mean
    assert "30 % (1 to 200 %) of the device's peak, and 5 ms (0.2 to 50) beside it in each step" in found.sentence


def test_each_step_takes_its_arithmetic_and_what_is_beside_it() -> None:
    """By hand: 25,600 samples of 6 x 3.858 GMAC at 30 % of 19.5 teraFLOPS, and 400 steps of 5 ms beside."""
    arithmetic = 25_600 * 6 * workloads.find("resnet50").forward_gmac / (0.3 * 19_500)
    assert of(trained()).mean == pytest.approx(estimate.START_UP_SECONDS + arithmetic + 400 * 0.005)


@pytest.mark.parametrize("row", published(), ids=lambda row: " ".join(row.values()))
def test_the_time_of_every_published_run_lies_in_its_interval(row: dict[str, str]) -> None:
    samples, gpus = 1_000_000, int(row["workers"])
    pool = {**GPU, "accelerator": OF_PUBLISHED[row["pool"]], "slots_per_node": 64}
    batch = [int(row["batch_per_worker"])]
    plan = trained(row["workload"], samples=samples, pool=pool, workers=[gpus], batchPerWorker=batch)
    found = of(plan)
    assert found.low < 2 * samples / float(row["samples_per_second"]) < found.high


def test_more_arithmetic_takes_longer_and_more_workers_less() -> None:
    base = of(trained()).mean - estimate.START_UP_SECONDS
    assert of(trained(epochs=4)).mean - estimate.START_UP_SECONDS == pytest.approx(2 * base)
    assert of(trained("vgg16")).mean > of(trained()).mean
    half, tensor = (of(trained(precision=[name])).mean for name in ("mixed_float16", "tensor_float32"))
    assert half < tensor < of(trained()).mean
    four = trained(workers=[4], pool={**GPU, "max_nodes": 4})
    assert of(four).mean - estimate.START_UP_SECONDS == pytest.approx(base / 4)


def test_generated_data_without_a_size_has_the_one_that_is_made() -> None:
    without = trained("mnist_cnn", data={"source": "Generated"})
    assert of(without) == of(trained("mnist_cnn", samples=10_000))


def test_where_nothing_can_be_assumed_there_is_no_number() -> None:
    unknown = trained(pool={**GPU, "accelerator": "TPUv2"})
    assert estimate.of_point(unknown, unknown.points[0]) is None
    custom = {"name": "mine", "file": "/mine.py"}
    own = trained("Custom", custom=custom)
    assert estimate.of_point(own, own.points[0]) is None
    found = forecast.forecast(unknown, parallel_trials=1)
    assert (found.seconds, found.cost) == (None, ())


@pytest.mark.parametrize(
    ("accelerator", "other"),
    [("NVIDIA A100-SXM4-40GB", "A100-40GB"), ("nvidia-tesla-v100", "V100"), ("GTX 1080 Ti", "GTX-1080-Ti")],
)
def test_an_accelerator_is_known_by_any_of_its_names(accelerator: str, other: str) -> None:
    assert of(trained(pool={**GPU, "accelerator": accelerator})) == of(trained(pool={**GPU, "accelerator": other}))


@pytest.mark.parametrize("accelerator", ["RTX-A1000", "L400", "XT4"])
def test_an_accelerator_is_not_taken_for_another_one_whose_name_it_contains(accelerator: str) -> None:
    plan = trained(pool={**GPU, "accelerator": accelerator})
    assert estimate.of_point(plan, plan.points[0]) is None


# --- from earlier attempts --------------------------------------------------------------------------------------------


def test_earlier_attempts_outweigh_every_assumption() -> None:
    found = of(builders.plan(), 30.0, 31.0, 32.0)
    assert (found.mean, found.basis) == (31.0, "history")
    # Student's t of 2 degrees of freedom, 97.5 %: 4.3027; s = 1; sqrt(1 + 1/3) = 1.1547
    assert found.high - found.mean == pytest.approx(4.968, abs=0.001)
    assert "3 earlier attempts" in found.sentence


def test_the_next_attempt_lies_in_the_interval_as_often_as_it_says() -> None:
    chance = random.Random(11)
    plan = builders.plan()
    held = 0
    for _ in range(2000):
        *earlier, following = (chance.gauss(100.0, 5.0) for _ in range(6))
        found = of(plan, *earlier)
        held += found.low <= following <= found.high
    # 95 % of 2,000 with a standard error of 0.49 %: four of them to either side
    assert 0.93 < held / 2000 < 0.97


def test_no_attempt_is_expected_to_take_less_than_nothing() -> None:
    assert of(builders.plan(), 1.0, 2.0, 30.0).low == 0


def test_one_or_two_attempts_tell_little() -> None:
    found = of(builders.plan(), 40.0, 60.0)
    assert (found.mean, found.low, found.high) == (50.0, 20.0, 120.0)
    assert "assumed" in found.sentence


def study_of_before(plan: Plan, *seconds: float, outcome: Outcome = Outcome.SUCCEEDED) -> Earlier:
    """Attempts at the trials of the first point."""
    trials = [trial for trial in plan.trials if trial.point == 0]
    records: list[AttemptRecord] = [
        builders.attempt(trial=trial.id, outcome=outcome, pod_times=((1.0, 2.0, 1.0 + held),))
        for trial, held in zip(trials, seconds, strict=True)
    ]
    return Earlier(plan, Ledger(records=tuple(records)))


def test_only_attempts_that_did_the_same_and_succeeded_count() -> None:
    plan = builders.plan()
    point = plan.points[0]
    same = study_of_before(builders.plan(), 30.0, 31.0, 32.0)
    assert tuple(forecast.earlier_seconds(plan, point, [same])) == (30.0, 31.0, 32.0)
    assert tuple(forecast.earlier_seconds(plan, plan.points[1], [same])) == ()
    failed = study_of_before(builders.plan(), 30.0, 31.0, 32.0, outcome=Outcome.FAILED)
    longer = study_of_before(builders.plan(builders.spec(measure={"duration": "120s"})), 30.0, 31.0, 32.0)
    larger = study_of_before(builders.plan(None, builders.pool(slot={"cpu": "2", "memory": "1Gi"})), 30.0, 31.0, 32.0)
    assert tuple(forecast.earlier_seconds(plan, point, [failed, longer, larger])) == ()


# --- the whole study --------------------------------------------------------------------------------------------------


def test_trials_side_by_side_take_the_time_of_the_longest_place() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 5}}))
    alone = forecast.forecast(plan, parallel_trials=1)
    beside = forecast.forecast(plan, parallel_trials=2)
    assert alone.seconds is not None
    assert beside.seconds is not None
    assert (alone.seconds.mean, beside.seconds.mean) == (5 * 85, 3 * 85)


def test_cost_is_billed_by_the_pools_rule_with_fees_and_setup_once() -> None:
    price = {
        "perNodeHour": "3.60",
        "currency": "USD",
        "asOf": "2026-11-01",
        "billing": {"incrementSeconds": 60, "minimumSeconds": 60},
        "fees": [{"name": "disk", "amount": "0.50", "per": "Run"}],
        "setup": "7",
    }
    plan = builders.plan(builders.spec(measure={"repeats": {"min": 2}}), builders.pool(price=price))
    (cost,) = forecast.forecast(plan, parallel_trials=1).cost
    # 85 s are two minutes: 0.12 for each of 2 x 1 and 2 x 2 nodes, and 0.50 for each of four runs
    assert cost.mean.quantize(Decimal("0.0001")) == Decimal("7") + 6 * Decimal("0.12") + 4 * Decimal("0.50")
    assert cost.low is not None
    assert cost.high is not None
    assert cost.low <= cost.mean <= cost.high


def test_what_a_simulated_study_takes_lies_in_its_forecast() -> None:
    plan = builders.plan()
    found = forecast.forecast(plan, parallel_trials=1, earlier=[study_of_before(plan, 30.0, 31.0, 32.0)])
    first, second = found.points
    assert first is not None
    assert second is not None
    assert (first.seconds.basis, second.seconds.basis) == ("history", "settings")
    assert found.seconds is not None
    assert found.seconds.mean == pytest.approx(3 * statistics.mean((30.0, 31.0, 32.0)) + 3 * 85)


def test_a_budget_of_the_long_ends_and_the_reserve_lets_every_attempt_start_and_one_of_the_ends_alone_does_not() -> (
    None
):
    """An attempt needs room for as long as its times last and for stopping it, however short the ones before were."""
    free = studies_cut_short.study({})
    free.run()
    found = forecast.forecast(free.plan, parallel_trials=1, earlier=[Earlier(free.plan, free.ledger())])
    [total] = found.cost
    assert found.reserve > 0
    assert total.high is not None
    for budget, phase in ((total.high, "BudgetExhausted"), (total.high + found.reserve, "Succeeded")):
        assert studies_cut_short.study({"budget": account.text(budget)}).run().phase == phase
