# SPDX-License-Identifier: Apache-2.0
"""Figures from windows: throughput, intervals over repeats, scaling efficiency, and the wire format they come in."""

import math
import random
from pathlib import Path

import pytest
from scipy import stats

import builders
from gpubench import records
from gpubench.analysis.efficiency import Among, MeasuredPoint, efficiencies
from gpubench.api.sweep import Variant
from gpubench.plan.expand import expand
from gpubench.scheduler.environments import EnvironmentKey
from gpubench.stats import gang, intervals
from gpubench.values import Interval


def test_throughput_is_total_samples_over_total_time() -> None:
    assert gang.samples_per_second(builders.result(rate=640.0)) == pytest.approx(640.0)


def test_the_interval_of_a_mean_is_that_of_its_logarithm() -> None:
    # t(0.975, 9) = 2.262157; W. S. Gosset's corn, kiln-dried (Biometrika 6, 1908, p. 24), in pounds of an acre.
    pounds = [2009.0, 1915.0, 2011.0, 2463.0, 2180.0, 1925.0, 2122.0, 1482.0, 1542.0, 1443.0]
    mean, deviation = sum(pounds) / 10, stats.tstd(pounds)
    factor = math.exp(2.262157 * deviation / mean / 10**0.5)
    found = intervals.of_mean(pounds)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean / factor, mean * factor), rel=1e-6)


@pytest.mark.parametrize("values", [[1.0, 1e-9, 1e-9], [1e9, 1.0, 1.0, 1.0]])
def test_no_bound_of_a_rate_is_zero_or_below_however_it_scatters(values: list[float]) -> None:
    found, other = intervals.of_mean(values), intervals.of_ratio(values, values)
    assert found.low is not None
    assert other.low is not None
    assert other.high is not None
    assert 0 < found.low < found.mean
    assert 0 < other.low < 1 < other.high < math.inf


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0], [-1.0, 0.5, 0.5]])
def test_what_is_not_above_zero_has_no_interval(values: list[float]) -> None:
    assert intervals.of_mean(values) == Interval(mean=0.0)


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0]])
def test_fewer_than_three_repeats_have_no_interval(values: list[float]) -> None:
    found = intervals.of_mean(values)
    assert found.low is None
    assert found.high is None


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one"):
        intervals.of_mean([])


def test_the_interval_of_a_ratio_covers_the_truth_about_as_often_as_it_says() -> None:
    # 2,000 simulated pairs of three repeats with 3 % noise; a 95 % interval should cover 95 %. The bounds leave four
    # standard errors of a proportion (0.0049 each) on either side of the nominal level.
    shuffler = random.Random(1)
    covered = 0
    for _ in range(2000):
        top = [shuffler.gauss(180.0, 5.4) for _ in range(3)]
        bottom = [shuffler.gauss(100.0, 3.0) for _ in range(3)]
        found = intervals.of_ratio(top, bottom)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.8 <= found.high
    assert 0.93 <= covered / 2000 <= 0.99


def test_times_that_agree_because_they_end_at_a_step_are_no_surer_than_the_step() -> None:
    # t(0.975, 2) = 4.302653; JCGM 100:2008, F.2.2.1: a step of 60 has the standard deviation 60 / sqrt(12) = 17.3205.
    factor = math.exp(4.302653 * 17.320508 / 600 / 3**0.5)
    found = intervals.of_mean([600.0] * 3, step=60.0)
    assert (found.low, found.high) == pytest.approx((600 / factor, 600 * factor), rel=1e-6)
    wide = [500.0, 600.0, 700.0]
    assert intervals.of_mean(wide, step=60.0) == intervals.of_mean(wide), "their own scatter has it already"
    assert intervals.of_mean([600.0] * 2, step=60.0) == Interval(mean=600.0)


def test_degrees_of_freedom_of_a_difference_are_rounded_down_between_unlike_counts() -> None:
    # Variances 4 and 1 of 3 and 10 values: 25 / (16 / 2 + 1 / 9) = 3.08; of 3 and 3: 25 / (16 / 2 + 1 / 2) = 2.94.
    assert intervals.welch((4.0, 3), (1.0, 10)) == 3
    assert intervals.welch((4.0, 3), (1.0, 3)) == pytest.approx(25 / 8.5)


def test_equal_values_have_an_interval_without_width() -> None:
    assert intervals.of_ratio([2.0] * 3, [1.0] * 3) == Interval(mean=2.0, low=2.0, high=2.0)


def test_repeats_that_agree_better_than_the_next_would_scatter_by_a_thousandth() -> None:
    found = intervals.of_mean([1000.0, 1000.1, 999.9])
    assert found.high == pytest.approx(1000 * math.exp(stats.t.ppf(0.975, 2) * 0.001 / 3**0.5))
    wider = intervals.of_mean([1000.0, 1002.0, 998.0])
    assert wider.high == pytest.approx(1000 * math.exp(stats.t.ppf(0.975, 2) * 0.002 / 3**0.5))


def test_the_t_quantile_is_the_one_of_the_table() -> None:
    found = intervals.of_mean([1.0, 2.0, 3.0])
    assert found.high == pytest.approx(2.0 * math.exp(stats.t.ppf(0.975, 2) / 2 / 3**0.5))


def test_the_repeats_behind_an_interval_are_found_again() -> None:
    values = [30.0, 31.0, 35.0]
    found = intervals.of_interval(intervals.of_mean(values), 3)
    assert found.deviation == pytest.approx(intervals.of_values(values).deviation)


def measured(
    workers: int, *values: float, line: str = "weak", pool: str = "cpu", baseline: str | None = None
) -> MeasuredPoint:
    fields = {} if line == "weak" else {"globalBatch": [64]}
    block = builders.block(workers=[workers], pools=[pool], **fields)
    (point,) = expand(builders.spec(block), {pool: builders.pool(pool).spec})
    return MeasuredPoint(point=point, values=values, environment=EnvironmentKey("env", ""), scaling_baseline=baseline)


def test_efficiency_is_relative_to_the_smallest_worker_count() -> None:
    one, two, four = measured(1, 100, 102, 98), measured(2, 180, 182, 178), measured(4, 320, 322, 318)
    (found,) = efficiencies(four, Among([four, two, one]))
    assert (found.kind, found.baseline_workers) == ("weak", 1)
    assert found.efficiency.mean == pytest.approx(320 / (4 * 100))
    assert found.efficiency.low is not None
    assert found.efficiency.low < 0.8 < (found.efficiency.high or 0)


def test_the_baseline_itself_is_one_without_an_interval() -> None:
    one, two = measured(1, 100, 102, 98), measured(2, 180, 182, 178)
    (found,) = efficiencies(one, Among([one, two]))
    assert found.efficiency == Interval(mean=1.0)


def test_one_worker_count_alone_has_no_efficiency() -> None:
    two = measured(2, 180, 182, 178)
    assert efficiencies(two, Among([two])) == ()


def test_weak_and_strong_lines_are_not_mixed() -> None:
    strong_one, strong_two = measured(1, 100, line="strong"), measured(2, 150, line="strong")
    weak_two = measured(2, 180)
    (found,) = efficiencies(strong_two, Among([strong_one, strong_two, weak_two]))
    assert found.kind == "strong"
    assert found.efficiency.mean == pytest.approx(0.75)
    assert efficiencies(weak_two, Among([strong_one, strong_two, weak_two])) == ()


def test_a_pool_may_have_its_base_in_its_sibling_and_the_figure_says_so() -> None:
    sibling, four = measured(1, 100, 102, 98, pool="one-gpu"), measured(4, 320, 322, 318, baseline="one-gpu")
    (found,) = efficiencies(four, Among([four, sibling]))
    assert (found.baseline_pool, found.baseline_workers) == ("one-gpu", 1)
    assert found.efficiency.mean == pytest.approx(0.8)
    assert efficiencies(sibling, Among([four, sibling])) == ()


def test_the_base_in_a_sibling_goes_before_the_pools_own_smallest_point() -> None:
    sibling = measured(1, 200, pool="one-gpu")
    one, four = measured(1, 100, baseline="one-gpu"), measured(4, 400, baseline="one-gpu")
    among = [one, four, sibling]
    assert efficiencies(four, Among(among))[0].efficiency.mean == pytest.approx(0.5)
    assert efficiencies(one, Among(among)) == ()


def test_without_its_sibling_a_pool_has_no_efficiency() -> None:
    two, four = measured(2, 180, baseline="one-gpu"), measured(4, 320, baseline="one-gpu")
    assert efficiencies(four, Among([two, four])) == ()
    as_large = measured(4, 300, pool="one-gpu")
    assert efficiencies(four, Among([two, four, as_large])) == ()


def test_variants_do_not_share_a_line() -> None:
    one, two = measured(1, 100), measured(2, 180)
    named = two.point.key.model_copy(update={"variant": Variant(name="fp16-wire")})
    other = MeasuredPoint(
        point=two.point.model_copy(update={"key": named}), values=(180,), environment=EnvironmentKey("env", "")
    )
    assert efficiencies(other, Among([one, two, other])) == ()


def test_a_record_reads_back_as_it_was_written() -> None:
    for record in (builders.result(), builders.failure()):
        assert records.read_ending(records.termination_message(record).decode()) == record


def test_what_has_no_held_out_part_or_no_accuracy_reads_back_too() -> None:
    epoch = records.Epoch(index=0, steps=4, samples=64, nanoseconds=5, evaluation_nanoseconds=0, loss=2.0)
    assert records.Epoch.model_validate_json(epoch.to_json()) == epoch
    training = records.Training(
        epochs=1,
        nanoseconds=5,
        evaluation_nanoseconds=0,
        first_nanoseconds=5,
        first_evaluation_nanoseconds=0,
        first_samples=64,
        loss=2.0,
    )
    result = builders.result().model_copy(update={"training": training})
    assert records.read_ending(records.termination_message(result).decode()) == result


def test_a_long_sentence_is_cut_below_the_kubelets_limit_and_stays_json() -> None:
    for sentence in ("x" * 5000, "ж" * 5000, "😀" * 5000, '"' * 5000):
        message = records.termination_message(builders.failure(sentence=sentence))
        assert len(message) < records.TERMINATION_MESSAGE_MAX
        assert isinstance(records.read_ending(message.decode()), records.Failure)


def of_result(old: str, new: str) -> str:
    """A message with another text in it. Without the training where the field is the result's own."""
    training = None if '"samples"' in old else builders.training()
    text = builders.result(training=training).to_json()  # as a program of the user's own may write it
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "is empty"),
        ("Traceback (most recent call last)", "is no record"),
        ('{"kind":"result"}', "is no record"),
        (builders.message(builders.result())[:-40], "was cut: its end is missing"),
        (of_result('"schemaVersion":1,"steps"', '"schemaVersion":3,"steps"'), "it is 3, and this gpubench reads 1"),
        (of_result('"finalLoss":0.5', '"finalLoss":NaN'), "finalLoss: Input should be a finite number"),
        (of_result('"joinSeconds":1.0', '"joinSeconds":Infinity'), "joinSeconds: Input should be"),
        (of_result('"finalLoss":0.5', '"finalLoss":1e300'), "finalLoss: Input should be less than"),
        (of_result('"samples":10000', f'"samples":{10**400}'), "samples: "),
        (
            of_result('"final":0.97', '"final":97.0'),
            "final is 97, and an accuracy is a share: write a number from 0 to 1",
        ),
        (of_result('"best":0.98', '"best":-0.1'), "best is -0.1, and an accuracy is a share"),
        (of_result('"loss":0.25', '"loss":-Infinity'), "training.loss: Input should be"),
    ],
)
def test_a_message_that_is_no_record_says_what_is_wrong(message: str, said: str) -> None:
    with pytest.raises(records.UnreadableMessage, match=said):
        records.read_ending(message)


RESUMED = '"resumed":{"attempt":%d,"restoreSeconds":1.0,"step":5,"usefulSeconds":%g},"samples":'


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"nanoseconds":10000000000', '"nanoseconds":10', "windowNanoseconds.2 is 1010000000, more than nanoseconds"),
        ("[990000000,1000000000,1010000000]", "[1,1,1]", None),
        ("[990000000,1000000000,1010000000]", "[3,2,1]", "windowNanoseconds.0 is 3, more than windowNanoseconds.1"),
        ("[990000000,1000000000,1010000000]", "[0,1,1]", "windowNanoseconds.0: Input should be greater than 0"),
        ('"warmUpWindows":2', '"warmUpWindows":-7', "warmUpWindows: Input should be greater than or equal to 0"),
        ('"initSeconds":5.0', '"initSeconds":-1e9', "initSeconds: Input should be greater than or equal to 0"),
        (
            '"samples":',
            '"machine":{"watts":-1},"samples":',
            "machine.watts: Input should be greater than or equal to 0",
        ),
        ('"samples":', '"standardError":-1,"samples":', "standardError: Input should be greater than or equal to 0"),
        ('"finalLoss":0.5', '"finalLoss":-0.5', None),
        ('"samples":', RESUMED % (2, 1), "resumed.attempt is 2, more than attempt"),
        ('"samples":', RESUMED % (1, 11), "resumed.usefulSeconds in nanoseconds is 10999999999, more than nanosec"),
        ('"samples":', RESUMED % (1, 10), None),
        ('"steps":', '"steps":5,"steps":', "its field steps is written twice"),
        ('"weightsDigest":"d"', '"weightsDigest":"\ufffd"', "bytes that are no UTF-8"),
        ('"weightsDigest":"d"', f'"weightsDigest":"{"d" * 2000}"', r"its record has \d{4} bytes, and fewer than 2048"),
    ],
)
def test_a_result_that_contradicts_itself_is_not_taken(old: str, new: str, said: str | None) -> None:
    message = builders.result().to_json().replace(old, new)
    assert message != builders.result().to_json()
    if said is None:
        assert isinstance(records.read_ending(message), records.Result)
        return
    with pytest.raises(records.UnreadableMessage, match=said):
        records.read_ending(message)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nanoseconds", 34_000_000_001),
        ("first_nanoseconds", 34_000_000_001),
        ("first_evaluation_nanoseconds", 4_000_000_001),
        ("first_samples", 30_001),
    ],
)
def test_a_part_of_a_training_that_is_more_than_all_of_it_is_not_taken(field: str, value: int) -> None:
    result = builders.result(training=builders.training())
    assert result.contradiction() is None
    assert result.training is not None
    wrong = result.model_copy(update={"training": result.training.model_copy(update={field: value})})
    assert f"is {value}, more than" in (wrong.contradiction() or "")


def test_seconds_in_place_of_nanoseconds_are_not_taken() -> None:
    seconds = builders.result().model_copy(update={"nanoseconds": 10, "window_nanoseconds": (1, 1, 1)})
    with pytest.raises(records.UnreadableMessage, match="nanoseconds is 10, and 100 steps take longer"):
        records.read_ending(seconds.to_json())


def test_a_failure_is_heard_however_it_was_written() -> None:
    text = builders.failure(sentence="\ufffd" * 900).to_json().replace('"attempt":', '"attempt":7,"attempt":')
    assert isinstance(records.read_ending(text), records.Failure)


REAL = sorted((Path(__file__).parents[1] / "cli/recorded_results").glob("*/logs/*.0.jsonl"))


@pytest.mark.parametrize("log", REAL, ids=lambda log: f"{log.parents[1].name}-{log.stem}")
def test_what_real_runs_have_written_is_taken(log: Path) -> None:
    assert isinstance(records.read_ending(log.read_text().splitlines()[-1]), records.Result)


def environment(**fields: object) -> records.Environment:
    defaults: dict[str, object] = {
        "accelerator": "cpu", "transport": "gloo", "framework": "TensorFlow",
        "framework_version": "2.18.1", "collectives": "Horovod", "collectives_version": "0.28.1", "python": "3.11.7",
        "kernel": "6.1", "threads_per_rank": 1,
    }  # fmt: skip
    return records.Environment.model_validate(defaults | fields)


def test_the_comparability_key_is_blind_to_node_and_kernel_and_sees_the_libraries() -> None:
    assert environment(node="a", kernel="6.1").key() == environment(node="b", kernel="6.12").key()
    keys = {environment(**{field: "x"}).key() for field in ("accelerator", "driver", "nccl", "framework", "image")}
    assert len(keys) == 5
    assert environment().key() not in keys
