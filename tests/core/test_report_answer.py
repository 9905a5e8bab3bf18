# SPDX-License-Identifier: Apache-2.0
"""The answer names a winner only where the intervals support one."""

from gpubench.api.benchmark import AmountInterval, Cost, Estimate, PointResult, PointState, Scaling
from gpubench.report.answer import LENGTH_MAX, answer


def make_estimate(bounds: tuple[float, float | None, float | None]) -> Estimate:
    mean, low, high = bounds
    return Estimate(mean=mean, low=low, high=high)


def make_point(
    *,
    workers: int = 1,
    pool: str = "local-cpu",
    workload: str = "mnist_cnn",
    throughput: tuple[float, float | None, float | None] | None = (1000.0, 990.0, 1010.0),
    cost: tuple[str, str | None, str | None] | None = ("0.0111", "0.0110", "0.0112"),
    currency: str = "USD",
    efficiency: tuple[float, float | None, float | None] | None = None,
    state: PointState = PointState.MEASURED,
    reason: str | None = None,
) -> PointResult:
    measured = state is PointState.MEASURED
    return PointResult(
        workload=workload,
        pool=pool,
        workers=workers,
        workers_per_node=1,
        batch_per_worker=64,
        global_batch=64 * workers,
        precision="float32",
        state=state,
        reason=reason,
        values=(throughput[0],) * 3 if measured and throughput else (),
        throughput=make_estimate(throughput) if throughput and measured else None,
        cost=Cost(per_million_samples=AmountInterval(mean=cost[0], low=cost[1], high=cost[2], currency=currency))
        if cost and measured
        else None,
        scaling=(
            Scaling(
                kind="weak",
                baseline_workers=1,
                efficiency=make_estimate(efficiency),
            ),
        )
        if efficiency and measured
        else (),
        nodes=1 if measured else 0,
    )


def test_a_clear_winner_is_named_with_its_interval_and_its_scaling() -> None:
    text = answer(
        (
            make_point(efficiency=(1.0, None, None)),
            make_point(
                workers=2,
                throughput=(1700.0, 1650.0, 1750.0),
                cost=("0.0131", "0.0127", "0.0135"),
                efficiency=(0.85, 0.82, 0.88),
            ),
        )
    )
    assert "Highest throughput: 2 workers at batch 64 on local-cpu, 1,700 ± 50 samples/s." in text
    assert "Lowest cost: 1 worker at batch 64 on local-cpu, USD 0.01110 (0.01100–0.01120) per million samples." in text
    assert "Scaling efficiency from 1 to 2 workers at batch 64 on local-cpu: 85.0 % (82.0–88.0), weak scaling." in text
    assert "not measured" not in text


def test_overlapping_intervals_are_a_tie() -> None:
    text = answer((make_point(), make_point(pool="other", throughput=(1005.0, 995.0, 1015.0))))
    assert "1 worker at batch 64 on other and 1 worker at batch 64 on local-cpu tie for the highest throughput" in text
    assert "Highest throughput" not in text
    assert "tie for the lowest cost" in text


def test_a_cost_without_an_upper_end_is_below_nobody() -> None:
    text = answer(
        (
            make_point(cost=("0.0100", "0.0050", None)),
            make_point(workers=2, throughput=(1700.0, 1650.0, 1750.0), cost=("0.0131", "0.0127", "0.0135")),
        )
    )
    assert "tie for the lowest cost" in text
    assert "Lowest cost" not in text


def test_without_intervals_a_difference_is_called_untested() -> None:
    text = answer(
        (
            make_point(throughput=(1000.0, None, None), cost=("0.0111", None, None)),
            make_point(workers=2, throughput=(1700.0, None, None), cost=("0.0131", None, None)),
        )
    )
    assert "nothing says that this is more than chance" in text


def test_no_price_means_no_cost_not_a_cost_of_zero() -> None:
    text = answer((make_point(cost=None),))
    assert "What it costs is not known: give the pool a price or an ownership." in text
    assert " 0" not in text


def test_two_currencies_are_not_compared() -> None:
    text = answer((make_point(), make_point(workers=2, currency="EUR")))
    assert "Costs are in EUR and USD and therefore not compared." in text
    assert "Lowest cost" not in text


def test_workloads_are_not_ranked_against_each_other() -> None:
    text = answer((make_point(), make_point(workload="mnist_mlp", throughput=(9000.0, 8900.0, 9100.0))))
    assert "Highest throughput" not in text


def test_what_is_missing_is_said() -> None:
    text = answer(
        (
            make_point(),
            make_point(workers=2, state=PointState.PENDING),
            make_point(workers=4, state=PointState.SKIPPED, reason="too large"),
        )
    )
    assert "1 of 3 points is still to be measured." in text
    assert "1 of 3 points is not measured (1 Skipped); the reason stands with each." in text
    assert answer((make_point(state=PointState.FAILED),)).startswith("Nothing was measured.")


def test_the_answer_fits_its_field() -> None:
    many = tuple(make_point(workload=f"workload-{number}") for number in range(60))
    text = answer((*many, make_point(state=PointState.FAILED)))
    assert len(text) <= LENGTH_MAX
    assert "further parts are left out" in text
    assert "1 of 61 points is not measured" in text
