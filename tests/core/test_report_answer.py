# SPDX-License-Identifier: Apache-2.0
"""The answer names a winner only where the intervals support one."""

from typing import Any

import pytest

from gpubench.analysis.answer import answer, work_text
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import (
    AmountInterval,
    Bandwidth,
    Basis,
    Cost,
    PointResult,
    PointState,
    Quality,
    Scaling,
    TrainingResult,
)
from gpubench.api.pool_price import CapacityType
from gpubench.api.sweep import DataSource
from gpubench.values import Interval


def make_estimate(bounds: tuple[float, float | None, float | None]) -> Interval:
    mean, low, high = bounds
    return Interval(mean=mean, low=low, high=high)


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


def test_a_clear_winner_is_named_with_its_interval_and_is_sure() -> None:
    lines = answer(
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
    assert lines.splitlines() == [
        "Fastest mnist_cnn in float32: 2 workers at batch 64 on local-cpu, 1,700 ± 50 samples/s.",
        "Cheapest: 1 worker at batch 64 on local-cpu, USD 0.01110 (0.01100–0.01120) per million samples.",
        "Sure: no interval of another point overlaps.",
    ]


def test_overlapping_intervals_are_a_tie() -> None:
    text = answer((make_point(), make_point(pool="other", throughput=(1005.0, 995.0, 1015.0))))
    fastest, cheapest, tie = text.splitlines()
    assert fastest.endswith("1 worker at batch 64 on other, 1,005 ± 10 samples/s (tie).")
    assert cheapest.endswith(" (tie).")
    local, other = "1 worker at batch 64 on local-cpu", "1 worker at batch 64 on other"
    assert tie == f"Tie: intervals overlap in speed with {local} and in cost with {other}."
    assert "Sure" not in text


def test_without_intervals_a_difference_is_called_untested() -> None:
    text = answer(
        (
            make_point(throughput=(1000.0, None, None), cost=("0.0111", None, None)),
            make_point(workers=2, throughput=(1700.0, None, None), cost=("0.0131", None, None)),
        )
    )
    assert text.count(" (untested).") == 2
    assert text.endswith("Untested: without intervals for all points, differences may be chance.")


def test_no_price_means_no_cost_not_a_cost_of_zero() -> None:
    text = answer((make_point(cost=None),))
    assert "Cheapest: unknown, give the pool a price or an ownership." in text
    assert " 0" not in text


def test_two_currencies_are_not_compared() -> None:
    text = answer((make_point(), make_point(workers=2, currency="EUR")))
    assert "Cheapest: not compared, for costs are in EUR and USD." in text
    assert "per million" not in text


def test_workloads_are_not_ranked_against_each_other() -> None:
    text = answer((make_point(), make_point(workload="mnist_mlp", throughput=(9000.0, 8900.0, 9100.0))))
    assert len(text.splitlines()) == 4, "one point alone is neither sure nor a tie"


def test_what_is_missing_is_said() -> None:
    text = answer(
        (
            make_point(),
            make_point(workers=2, state=PointState.PENDING),
            make_point(workers=4, state=PointState.SKIPPED, reason="too large"),
        )
    )
    assert text.endswith("Of 3 points: 1 still to be measured, 1 Skipped.")
    failed = answer((make_point(state=PointState.FAILED),))
    assert failed == "Nothing of mnist_cnn in float32 is ranked. Of 1 point: 1 Failed."


def test_what_may_be_taken_away_is_named_where_it_is_compared() -> None:
    cheap = make_point(pool="spot", cost=("0.0040", "0.0039", "0.0041")).model_copy(
        update={"capacity_type": CapacityType.SPOT}
    )
    text = answer((make_point(), cheap))
    assert "Cheapest: 1 worker at batch 64 on spot (spot), USD 0.0" in text
    assert "in speed with 1 worker at batch 64 on spot (spot)" in text


def test_no_part_of_an_answer_is_left_out() -> None:
    many = tuple(make_point(workload=f"workload-{number}") for number in range(60))
    text = answer((*many, make_point(state=PointState.FAILED)))
    assert all(f"Fastest workload-{number} in float32: " in text for number in range(60))
    assert "Of 1 point: 1 Failed." in text


def make_trained(
    *,
    seconds: tuple[float, float | None, float | None] = (60.0, 59.0, 61.0),
    per_run: tuple[str, str | None, str | None] = ("0.0060", "0.0059", "0.0061"),
    accuracy: tuple[float, float | None, float | None] | None = (0.97, 0.96, 0.98),
    epochs: int = 3,
    **changes: Any,
) -> PointResult:
    point = make_point(**changes)
    quality = Quality(metric="accuracy", final=make_estimate(accuracy), best=Interval(mean=0.99)) if accuracy else None
    training = TrainingResult(
        epochs=epochs,
        timed_region=TimedRegion(evaluation="Outside"),
        seconds=make_estimate(seconds),
        seconds_per_epoch=make_estimate(seconds),
        first_epoch_seconds=30.0,
        evaluation_seconds=1.0,
        training_loss=0.1,
        quality=quality,
    )
    assert point.cost is not None
    run = AmountInterval(mean=per_run[0], low=per_run[1], high=per_run[2], currency="USD")
    cost = point.cost.model_copy(update={"per_run": run})
    return point.model_copy(update={"training": training, "cost": cost, "data": DataSource.GENERATED})


def test_training_is_answered_with_time_quality_and_cost_of_a_run() -> None:
    two = make_trained(
        workers=2, seconds=(40.0, 39.0, 41.0), per_run=("0.0080", "0.0079", "0.0081"), accuracy=(0.9, 0.89, 0.91)
    )
    fastest = "2 workers at batch 64 on local-cpu, 40.0 ± 1.0 seconds, accuracy 90.0 % (89.0–91.0)."
    assert answer((make_trained(), two)).splitlines() == [
        f"Fastest mnist_cnn in float32, data Generated, 3 epochs: {fastest}",
        "Cheapest: 1 worker at batch 64 on local-cpu, USD 0.00600 (0.00590–0.00610) per run.",
        "Sure: no interval of another point overlaps.",
    ]


def test_runs_whose_seconds_overlap_are_a_tie_in_time() -> None:
    text = answer((make_trained(), make_trained(pool="other", seconds=(60.5, 59.5, 61.5))))
    assert "Tie: intervals overlap in speed with 1 worker at batch 64 on other" in text


def test_one_run_alone_is_not_called_sure() -> None:
    text = answer((make_trained(),))
    assert "1 worker at batch 64 on local-cpu, 60.0 ± 1.0 seconds, accuracy 97.0 % (96.0–98.0)." in text
    assert text.endswith("USD 0.00600 (0.00590–0.00610) per run.")


def test_runs_of_different_lengths_are_not_ranked_against_each_other() -> None:
    text = answer((make_trained(), make_trained(workers=2, epochs=5)))
    assert text.count("Fastest") == 2
    assert "3 epochs:" in text
    assert "5 epochs:" in text


@pytest.mark.parametrize(
    ("one", "other", "heads"),
    [
        ({"data_samples": 1000}, {"data_samples": 2000}, (", data Generated 1000:", ", data Generated 2000:")),
        ({"data_path": "/one"}, {"data_path": "/two"}, (", data Generated /one:", ", data Generated /two:")),
    ],
)
def test_other_data_is_other_work(one: dict[str, Any], other: dict[str, Any], heads: tuple[str, str]) -> None:
    point = make_point().model_copy(update={"data": DataSource.GENERATED})
    text = answer((point.model_copy(update=one), point.model_copy(update=other)))
    assert text.count("Fastest") == 2
    assert all(head in text for head in heads)


def test_an_extrapolated_point_without_a_run_is_none_without_a_price() -> None:
    further = make_point(workers=8).model_copy(
        update={"basis": Basis.EXTRAPOLATED, "data": DataSource.GENERATED, "epochs": 3}
    )
    text = answer((make_trained(), make_trained(workers=2), further))
    assert "a price" not in text
    assert "8 workers" not in text


def test_messages_are_answered_with_bandwidth_and_no_cost() -> None:
    points = []
    for workers, bus in ((2, 10e9), (4, 12e9)):
        found = Bandwidth(algorithm=Interval(mean=bus), bus=Interval(mean=bus, low=bus - 1e8, high=bus + 1e8))
        points.append(
            make_point(workload="allreduce", workers=workers, cost=None).model_copy(update={"bandwidth": found})
        )
    text = answer(tuple(points))
    assert "Fastest allreduce in float32: 4 workers at batch 64 on local-cpu, 12.00 ± 0.10 GB/s bus bandwidth." in text
    assert "Cheapest" not in text


def test_a_derived_point_wins_no_comparison_of_speed_and_is_marked_where_it_is_cheapest() -> None:
    cheap = make_point(pool="copy", throughput=(9000.0, 8900.0, 9100.0), cost=("0.0011", "0.0010", "0.0012"))
    text = answer((make_point(), make_point(workers=2), cheap.model_copy(update={"basis": Basis.REPRICED})))
    assert "for 1 worker at batch 64 on copy" not in text.split("Cheapest")[0]
    assert "9,000" not in text
    assert "Cheapest: 1 worker at batch 64 on copy (re-priced), USD 0.00110 (0.00100–0.00120)" in text
    assert text.endswith("Of 3 points: 1 re-priced or extrapolated and not ranked in speed.")


def test_two_prices_of_one_measurement_are_no_tie_however_wide_its_interval() -> None:
    measured = make_point(cost=("0.0100", "0.0050", "0.0150"))
    copy = make_point(pool="copy", cost=("0.0110", "0.0055", "0.0165")).model_copy(update={"basis": Basis.REPRICED})
    clear = answer((measured, copy))
    assert "Cheapest: 1 worker at batch 64 on local-cpu, USD 0.0100 (0.0050–0.0150) per million samples.\n" in clear
    equal = make_point(pool="copy", cost=("0.0100", "0.0050", "0.0150")).model_copy(update={"basis": Basis.REPRICED})
    assert "in cost with 1 worker at batch 64 on copy (re-priced)" in answer((measured, equal))


@pytest.mark.parametrize(("precision", "words"), [("float32", "mnist_cnn in float32"), ("unknown", "mnist_cnn")])
def test_a_precision_that_was_not_published_is_not_named(precision: str, words: str) -> None:
    assert work_text(make_point().model_copy(update={"precision": precision})) == words
