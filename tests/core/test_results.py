# SPDX-License-Identifier: Apache-2.0
"""From results of attempts to results of points: training, goals, bandwidth, and what does not fit."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import builders
import measured
from gpubench import workloads
from gpubench.analysis.repeats import NO_TIMED_EPOCH, NOT_A_SUM, bandwidth
from gpubench.api import status_sizes
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import PointResult, PointState
from gpubench.plan.plan import Plan
from gpubench.records import Result, Training
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.scheduler.trials import status as standing
from gpubench.values import Interval
from gpubench.workloads import Precision

ONE_POINT = builders.spec(builders.block(workers=[1]))


def point_results(plan: Plan, outcomes: Mapping[tuple[int, int], Result | str], **fields: Any) -> list[PointResult]:
    """The results of a plan whose trials ended like that, by point and repeat: a result, or out of memory."""
    attempts: dict[str, list[AttemptRecord]] = {}
    for trial in plan.trials:
        ending = outcomes.get((trial.point, trial.repeat))
        if isinstance(ending, Result):
            done = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "result": ending, "nodes": ("node-0",)}
            attempts[trial.id] = [builders.attempt(trial=trial.id, **done)]
        elif ending is not None:
            attempts[trial.id] = [builders.attempt(trial=trial.id, reason=Reason.OUT_OF_MEMORY, sentence=ending)]
    standings = {trial.id: standing(attempts.get(trial.id, []), plan.attempts) for trial in plan.trials}
    return list(measured.of_trials(plan, standings, **fields))


def repeats(*rates: float, point: int = 0, trainings: Sequence[Training | None] = ()) -> dict[tuple[int, int], Result]:
    """One repeat of a point for each rate."""
    given = [*trainings, *[None] * len(rates)]
    return {
        (point, repeat): builders.result(rate=rate, training=given[repeat]) for repeat, rate in enumerate(rates)
    }  # fmt: skip


def trained(*trainings: Training, region: TimedRegion | None = None) -> PointResult:
    plan = builders.plan(ONE_POINT).model_copy(update={"timed_region": region or TimedRegion()})
    (found,) = point_results(plan, repeats(*[1000.0] * len(trainings), trainings=trainings))
    return found


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evaluation", "first_epoch", "seconds", "per_epoch"),
    [
        ("Inside", "Included", 38.0, 38 / 3),
        ("Outside", "Included", 34.0, 34 / 3),
        ("Inside", "Excluded", 22.0, 11.0),
        ("Outside", "Excluded", 20.0, 10.0),
    ],
)
def test_the_seconds_are_those_of_the_timed_region(
    evaluation: Any, first_epoch: Any, seconds: float, per_epoch: float
) -> None:
    region = TimedRegion(evaluation=evaluation, first_epoch=first_epoch)
    found = trained(*[builders.training()] * 3, region=region).training
    assert found is not None
    assert found.timed_region == region
    assert found.seconds is not None
    assert found.seconds_per_epoch is not None
    assert found.seconds.mean == pytest.approx(seconds)
    assert found.seconds_per_epoch.mean == pytest.approx(per_epoch)
    assert (found.first_epoch_seconds, found.evaluation_seconds) == (14.0, 4.0)


def test_seconds_and_quality_have_an_interval_over_the_repeats() -> None:
    runs = [
        builders.training(
            nanoseconds=nanoseconds, evaluation_nanoseconds=0, first_evaluation_nanoseconds=0, final=final
        )
        for nanoseconds, final in ((30_000_000_000, 0.96), (31_000_000_000, 0.97), (32_000_000_000, 0.98))
    ]
    found = trained(*runs).training
    assert found is not None
    assert found.seconds is not None
    assert found.quality is not None
    # t(0.975, 2) = 4.302653 (any table of Student's t), standard deviation 1 over the root of 3 repeats
    half = 4.302653 / 3**0.5
    factor = math.exp(half / 31)
    assert (found.seconds.low, found.seconds.high) == pytest.approx((31 / factor, 31 * factor))
    final, factor = found.quality.final, math.exp(half / 97)
    assert (final.mean, final.low, final.high) == pytest.approx((0.97, 0.97 / factor, 0.97 * factor))
    assert found.quality.metric == "accuracy"
    assert found.quality.best is not None
    assert found.quality.best.mean == pytest.approx(0.98)


def test_the_interval_of_an_accuracy_ends_at_all_right() -> None:
    found = trained(*(builders.training(final=final) for final in (0.5, 0.97, 0.98))).training
    assert found is not None
    assert found.quality is not None
    assert found.quality.final.high == 1.0
    assert 0.0 <= (found.quality.final.low or 0.0) < 0.5


def test_fewer_than_three_repeats_have_seconds_without_an_interval() -> None:
    found = trained(builders.training(), builders.training()).training
    assert found is not None
    assert found.seconds is not None
    assert found.seconds.low is None


def test_training_without_held_out_data_has_no_quality() -> None:
    found = trained(builders.training(metric=None, final=None, best=None)).training
    assert found is not None
    assert found.quality is None


def test_a_single_epoch_that_is_left_out_leaves_no_seconds_and_a_warning() -> None:
    single = builders.training(
        epochs=1, nanoseconds=14_000_000_000, evaluation_nanoseconds=2_000_000_000, final=0.9, best=0.9
    )
    found = trained(single, single, single, region=TimedRegion(first_epoch="Excluded"))
    assert found.training is not None
    assert (found.training.seconds, found.training.seconds_per_epoch) == (None, None)
    assert found.training.quality is not None
    assert builders.messages(found) == (NO_TIMED_EPOCH,)
    assert found.cost is not None
    assert found.cost.per_run is None


def test_sums_that_contradict_each_other_give_no_seconds_and_stop_no_study() -> None:
    wrong = builders.training(nanoseconds=10_000_000_000, evaluation_nanoseconds=0, first_evaluation_nanoseconds=0)
    found = trained(wrong, wrong, wrong, region=TimedRegion(first_epoch="Excluded"))
    assert found.training is not None
    assert found.training.seconds is None
    assert builders.messages(found) == (NOT_A_SUM,)


@pytest.mark.parametrize(("first_epoch", "throughput"), [("Included", 30_000 / 34), ("Excluded", 20_000 / 20)])
def test_the_throughput_of_training_leaves_out_the_first_epoch_where_the_seconds_do(
    first_epoch: Any, throughput: float
) -> None:
    found = trained(*[builders.training()] * 3, region=TimedRegion(first_epoch=first_epoch))
    assert found.values == pytest.approx((throughput,) * 3)


def test_a_run_costs_its_timed_seconds_at_the_rate_of_its_nodes() -> None:
    found = trained(*[builders.training()] * 3)
    assert found.cost is not None
    assert found.cost.per_run is not None
    assert float(found.cost.per_run.mean) == pytest.approx(38 * 0.0001)  # USD 0.36 per node-hour
    assert float(found.cost.per_run.low or 0) == pytest.approx(38 * 0.0001)


def test_throughput_alone_is_no_training() -> None:
    (found,) = point_results(builders.plan(ONE_POINT), repeats(1000, 1001, 999))
    assert found.training is None
    assert found.cost is not None
    assert found.cost.per_run is None


def planned(epochs: int) -> Plan:
    plan = builders.plan(ONE_POINT)
    key = plan.points[0].key.model_copy(update={"epochs": epochs})
    return plan.model_copy(update={"points": (plan.points[0].model_copy(update={"key": key}),)})


@pytest.mark.parametrize(
    ("epochs", "sentence"),
    [
        ((3, 3, 2), "the repeats trained 2 and 3 epochs, and 3 were asked for"),
        ((2, 2, 2), "the repeats trained 2 epochs, and 3 were asked for"),
    ],
)
def test_other_epochs_than_the_planned_ones_are_not_averaged(epochs: tuple[int, ...], sentence: str) -> None:
    trainings = [builders.training(epochs=count) for count in epochs]
    (found,) = point_results(planned(3), repeats(*[1000.0] * 3, trainings=trainings))
    assert (found.state, found.training) == (PointState.MEASURED, None)
    (warning,) = builders.messages(found)
    assert sentence in warning


def test_repeats_of_unequal_epochs_are_not_averaged_where_nobody_planned_them() -> None:
    found = trained(builders.training(epochs=3), builders.training(epochs=2))
    assert found.training is None
    assert "the repeats trained 2 and 3 epochs, and are not averaged" in builders.messages(found)[0]


def test_a_base_that_is_never_run_itself_is_told() -> None:
    pools = (
        builders.pool(scaling_baseline="copy", slots_per_node=2),
        builders.pool("copy", measured_by={"pool": "cpu"}),
    )
    spec = builders.spec(builders.block(workers=[2]), builders.block(pools=["copy"], workers=[1]))
    found = point_results(builders.plan(spec, *pools), repeats(1000, 1000, 1000))[0]
    assert builders.messages(found) == (
        "no efficiency: scalingBaseline of cpu is copy, which is never run itself: name a pool that is measured",
    )


# --- what figures stand on --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python 3.11.8", "python 3.11.8"),  # what jobs/examples/own/train.py writes
        ("", None),
        ("x" * 60, "ilzns4zvm2py"),
        ("two\nlines", "5xemckcfqxlq"),
    ],
)
def test_the_environment_of_an_own_program_may_be_any_text(text: str, shown: str | None) -> None:
    outcomes = {(0, repeat): builders.result(environment=text) for repeat in range(3)}
    (found,) = point_results(builders.plan(ONE_POINT), outcomes)
    assert (found.state, found.environment) == (PointState.MEASURED, shown)


@pytest.mark.parametrize("other", ["python 3.12.1", "", "x" * 61])
def test_repeats_in_different_environments_are_not_averaged_whatever_their_texts(other: str) -> None:
    outcomes = {(0, 0): builders.result(environment="x" * 60), (0, 1): builders.result(environment=other)}
    outcomes[(0, 2)] = outcomes[(0, 0)]
    (found,) = point_results(builders.plan(ONE_POINT), outcomes)
    assert (found.state, found.throughput) == (PointState.FAILED, None)
    assert (found.reason or "").startswith("the repeats ran in different environments")


# --- what tells points apart ------------------------------------------------------------------------------------------


def of_data(*data: dict[str, Any], mode: str = "Throughput", **fields: Any) -> list[PointResult]:
    blocks = [builders.block(workers=[1], data=one, **fields) for one in data]
    return point_results(builders.plan(builders.spec(*blocks, measure={"mode": mode})), {})


def test_a_result_names_the_data_and_the_epochs_that_were_asked_for() -> None:
    generated, volume = of_data(
        {"source": "Generated", "samples": 1000}, {"source": "Volume", "path": "/data/mnist"}, mode="Training", epochs=2
    )
    assert (generated.data_samples, generated.data_path, generated.epochs) == (1000, None, 2)
    assert (volume.data_samples, volume.data_path, volume.epochs) == (None, "/data/mnist", 2)


def test_long_paths_that_differ_stay_different() -> None:
    paths = [f"/{start}{'/folder' * 20}" for start in ("one", "two")]
    one, two = of_data(*({"source": "Volume", "path": path} for path in paths))
    assert one.data_path is not None
    assert two.data_path is not None
    assert one.data_path != two.data_path
    assert one.data_path.endswith("/folder/folder")
    assert len(one.data_path.encode()) == status_sizes.DATA_PATH_MAX


# --- goals ------------------------------------------------------------------------------------------------------------


def goals(**samples_by_workload: int) -> Any:
    entries = [
        {"name": f"all-{workload.replace('_', '-')}", "workload": workload, "samples": samples}
        for workload, samples in samples_by_workload.items()
    ]
    return builders.spec(goals=entries).goals


def test_a_goal_says_hours_and_cost_of_its_samples_with_the_throughputs_interval_turned_round() -> None:
    (found,) = point_results(
        builders.plan(ONE_POINT), repeats(990, 1000, 1010), goals=goals(mnist_cnn=36_000_000, mnist_mlp=1)
    )
    assert found.throughput is not None
    (goal,) = found.goals
    assert goal.name == "all-mnist-cnn"
    assert goal.hours.mean == pytest.approx(10.0)
    assert goal.hours.low == pytest.approx(36_000_000 / (found.throughput.high or 0) / 3600)
    assert goal.hours.high == pytest.approx(36_000_000 / (found.throughput.low or 0) / 3600)
    assert goal.cost is not None
    assert float(goal.cost.mean) == pytest.approx(3.6)
    assert float(goal.cost.low or 0) < 3.6 < float(goal.cost.high or 0)


def test_a_goal_has_no_cost_where_the_pool_has_no_price() -> None:
    plan = builders.plan(ONE_POINT, builders.pool(price=None))
    (found,) = point_results(plan, repeats(1000), goals=goals(mnist_cnn=3_600_000))
    assert found.goals[0].hours.mean == pytest.approx(1.0)
    assert found.goals[0].cost is None


def test_a_point_that_was_not_measured_has_no_goal() -> None:
    (found,) = point_results(builders.plan(ONE_POINT), {}, goals=goals(mnist_cnn=3_600_000))
    assert (found.state, found.goals) == (PointState.PENDING, ())


# --- allreduce --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("precision", "element_bytes"), [("float32", 4), ("mixed_float16", 2)])
def test_bus_bandwidth_is_algorithm_bandwidth_times_what_a_ring_sends(precision: str, element_bytes: int) -> None:
    # 8 ranks, messages of 25 million elements, 100 of them a second; nccl-tests doc/PERFORMANCE.md: 2 (n - 1) / n
    found = bandwidth(Interval(mean=8 * 25e6 * 100, low=8 * 25e6 * 90), workers=8, precision=Precision(precision))
    assert found is not None
    assert found.algorithm.mean == pytest.approx(25e6 * element_bytes * 100)
    assert found.bus.mean == pytest.approx(25e6 * element_bytes * 100 * 1.75)
    assert found.bus.low == pytest.approx(25e6 * element_bytes * 90 * 1.75)


def test_one_rank_sends_nothing_and_has_no_bandwidth() -> None:
    assert bandwidth(Interval(mean=1e9), workers=1, precision=Precision.FLOAT32) is None


def test_a_message_has_a_bandwidth_and_neither_cost_nor_efficiency_nor_goals() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[2, 4])))
    points = tuple(
        point.model_copy(update={"key": point.key.model_copy(update={"workload": workloads.MESSAGES})})
        for point in plan.points
    )
    two, four = point_results(
        plan.model_copy(update={"points": points}),
        repeats(1000, 1000, 1000) | repeats(2000, 2000, 2000, point=1),
        goals=goals(mnist_cnn=1000),
    )
    for found in (two, four):
        assert found.bandwidth is not None
        assert found.bandwidth.algorithm.mean == pytest.approx(2000.0)
        assert (found.cost, found.scaling, found.goals) == (None, (), ())
    assert four.bandwidth is not None
    assert four.bandwidth.bus.mean == pytest.approx(3000.0)


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_batch_that_does_not_fit_is_named_beside_the_largest_that_does() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1], batchPerWorker=[16, 32, 64, 128])))
    found = point_results(
        plan,
        repeats(100, 100, 100)
        | repeats(200, 200, 200, point=1)
        | {(2, 0): "the worker ran out of memory", (3, 0): "the worker ran out of memory"},
    )
    assert [result.state for result in found[2:]] == [PointState.OUT_OF_MEMORY] * 2
    assert found[2].reason == "batch 64 per worker does not fit; 32 does: the worker ran out of memory"
    assert (found[3].reason or "").startswith("batch 128 per worker does not fit; 32 does: ")


def test_a_batch_that_fits_in_another_precision_or_elsewhere_is_no_advice() -> None:
    spec = builders.spec(
        builders.block(workers=[1], batchPerWorker=[32], precision=["mixed_float16"]),
        builders.block(workers=[1], batchPerWorker=[64]),
        builders.block(workers=[1], batchPerWorker=[32], pools=["other"]),
    )
    found = point_results(
        builders.plan(spec, builders.pool(), builders.pool("other")),
        repeats(1000, point=0) | {(1, 0): "out of memory"} | repeats(1000, point=2),
    )
    assert found[1].reason == "batch 64 per worker does not fit; no smaller batch was measured: out of memory"
