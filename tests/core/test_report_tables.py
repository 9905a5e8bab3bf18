# SPDX-License-Identifier: Apache-2.0
"""The table shows what was measured, to the digits that the intervals support, and a dash for what is not defined."""

import json
from decimal import Decimal

import pytest

from gpubench.analysis import text
from gpubench.api.benchmark_status import PointSummary
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import (
    AmountInterval,
    Bandwidth,
    Cost,
    Energy,
    GoalResult,
    GpuUsage,
    HostUsage,
    PointBill,
    PointResult,
    PointState,
    Quality,
    Scaling,
    TrainingResult,
)
from gpubench.api.price_result import PriceUsed
from gpubench.report import tables
from gpubench.stats import intervals
from gpubench.values import Interval


def make_point(**changes: object) -> PointResult:
    facts: dict[str, object] = {
        "workload": "mnist_cnn",
        "pool": "local-cpu",
        "workers": 2,
        "workers_per_node": 1,
        "batch_per_worker": 64,
        "global_batch": 128,
        "precision": "float32",
        "state": PointState.MEASURED,
        "values": (1690.0, 1700.0, 1710.0),
        "throughput": Interval(mean=1700.0, low=1675.16, high=1724.84),
        "scaling": (
            Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=0.8543, low=0.8412, high=0.8674)),
        ),
        "cost": Cost(per_million_samples=AmountInterval(mean="0.0131", low="0.0129", high="0.0133", currency="USD")),
        "nodes": 2,
    }
    return PointResult.model_validate({**facts, **changes})


def make_pending(**changes: object) -> PointResult:
    return make_point(
        state=PointState.PENDING, values=(), throughput=None, scaling=(), cost=None, nodes=0, **changes
    )  # fmt: skip


def cells(point: PointResult) -> dict[str, str]:
    table = tables.results([point])
    return dict(zip((column.title for column in table.columns), table.rows[0], strict=True))


def test_digits_follow_the_width_of_the_interval() -> None:
    row = cells(make_point())
    assert row["SAMPLES/S"] == "1,700 ± 25"
    assert row["EFFICIENCY"] == "85.4 % (84.1–86.7)"
    assert row["COST/M SAMPLES"] == "USD 0.01310 (0.01290–0.01330)"
    assert row["REPEATS"] == "3"
    assert row["NODES"] == "2"
    assert list(row) == [
        "WORKLOAD", "POOL", "WORKERS", "BATCH", "PRECISION", "STATE",
        "SAMPLES/S", "EFFICIENCY", "COST/M SAMPLES", "REPEATS", "NODES",
    ]  # fmt: skip


def test_figures_stand_to_the_right_and_words_to_the_left() -> None:
    columns = tables.results([make_point()]).columns
    assert {column.title for column in columns if not column.numeric} == {"WORKLOAD", "POOL", "PRECISION", "STATE"}


def test_a_column_at_its_default_is_left_out_and_one_that_may_be_is_marked() -> None:
    fields = (
        tables.Field[int]("DOUBLE", lambda one: str(2 * one), wide=True),
        tables.Field[int]("SIGN", lambda one: "+" if one else "-", numeric=False, default="+"),
    )
    assert tables.table([1, 2], fields, ["doubled"]) == tables.Table(
        columns=(tables.Column(title="DOUBLE", numeric=True, wide=True),), rows=(("2",), ("4",)), notes=("doubled",)
    )


def test_what_all_rows_share_is_a_line_and_no_column() -> None:
    points = [make_point(workers=workers, nodes=0) for workers in (2, 4)]
    common, rest = tables.without_constants(tables.results(points))
    assert common == (
        "WORKLOAD mnist_cnn, POOL local-cpu, BATCH 64, PRECISION float32, STATE Measured, SAMPLES/S 1,700 ± 25, "
        "EFFICIENCY 85.4 % (84.1–86.7), COST/M SAMPLES USD 0.01310 (0.01290–0.01330), REPEATS 3"
    ), "nothing is said of what is not defined"
    assert ([column.title for column in rest.columns], rest.rows) == (["WORKERS"], (("2",), ("4",)))
    for alike in (points[:1], points[:1] * 2):
        table = tables.results(alike)
        assert tables.without_constants(table) == ("", table), "one row, or nothing that differs"


def test_a_status_alone_gives_a_line_for_each_point() -> None:
    shown = tables.summaries(
        [
            PointSummary(key="a", state=PointState.MEASURED, summary="1,700 samples/s", warnings=("Trend", "Outliers")),
            PointSummary(key="b", state=PointState.SKIPPED, message="too large"),
            PointSummary(key="c", state=PointState.PENDING),
        ]
    )
    assert [column.title for column in shown.columns] == ["POINT", "STATE", "FIGURES", "WARNINGS"]
    assert shown.rows == (
        ("a", "Measured", "1,700 samples/s", "Trend, Outliers"),
        ("b", "Skipped", "too large", ""),
        ("c", "Pending", "", ""),
    )


def test_a_cost_is_shown_at_both_ends_of_a_price_that_has_moved() -> None:
    price = PriceUsed(pool="local-cpu", per_node_hour="0.50", currency="USD", as_of="2026-11-01")
    moved = price.model_copy(update={"low": "0.25", "high": "1.00"})
    other = moved.model_copy(update={"pool": "other"})
    table = tables.results([make_point()], [moved])
    at = [column.title for column in table.columns].index("AT LOW–HIGH PRICE")
    assert table.rows[0][at] == "0.0066–0.0262", "in proportion: 0.0131 at half and at twice the price"
    assert tables.RANGE_NOTE in table.notes
    for still in (price, other, moved.model_copy(update={"per_node_hour": "0"})):
        table = tables.results([make_point()], [still])
        assert "AT LOW–HIGH PRICE" not in {column.title for column in table.columns}
        assert tables.RANGE_NOTE not in table.notes


@pytest.mark.parametrize(
    ("mean", "low", "high", "shown"),
    [
        (12345.6, 12000.0, 12691.2, "12,350 ± 350"),
        (12345.6, 12345.5, 12345.7, "12,345.60 ± 0.10"),
        (0.5, 0.4, 0.6, "0.50 ± 0.10"),
        (1234.5, None, None, "1,230"),
        (0.012345, None, None, "0.0123"),
        (7.0, 7.0, 7.0, "7.00 ± 0.00"),
    ],
)
def test_throughput(mean: float, low: float | None, high: float | None, shown: str) -> None:
    assert text.spread(Interval(mean=mean, low=low, high=high)) == shown


def test_equal_repeats_have_no_digits_that_come_from_the_arithmetic() -> None:
    found = intervals.of_mean([0.97] * 3)
    assert found.low != found.high, "the sum of three 0.97 is not exact"
    assert text.percent(found) == "97.0 % (97.0–97.0)"


def test_an_interval_that_lies_unevenly_about_its_mean_is_shown_by_its_ends() -> None:
    assert text.spread(intervals.of_mean([100.0, 110.0, 90.0])) == "100 (78–128)"
    assert text.spread(intervals.of_mean([100.0, 102.0, 98.0])) == "100.0 ± 5.1"


def test_a_low_end_is_never_printed_as_0() -> None:
    assert text.bounded(Interval(mean=1.35, low=0.02, high=100.0)) == "1.35 (0.02–100.00)"
    assert text.between(Decimal("0.0139"), Decimal("13.9")) == "0.01–13.90"


def test_the_baseline_is_100_percent_by_definition() -> None:
    scaling = Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=1.0))
    assert text.efficiency(scaling, workers=1) == "100 % (base)"
    assert text.efficiency(scaling, workers=2) == "100 %", "TensorFlow, 2017: inception3 on two P100"


def test_what_is_not_defined_is_a_dash_and_never_zero() -> None:
    row = cells(make_pending())
    for title in ("SAMPLES/S", "EFFICIENCY", "COST/M SAMPLES", "REPEATS", "NODES"):
        assert row[title] == "–"


def test_a_figure_that_an_import_does_not_publish_is_said_to_be_unpublished() -> None:
    for unpublished in ({"basis": "Imported"}, {"state": PointState.NOT_PUBLISHED}):
        assert cells(make_point(throughput=None, **unpublished))["SAMPLES/S"] == text.NOT_PUBLISHED
        seconds = [make_trained(throughput=None, **unpublished), make_point()]
        table = tables.results(seconds)
        at = [column.title for column in table.columns].index("SAMPLES/S")
        assert [row[at] for row in table.rows] == [text.UNDEFINED, "1,700 ± 25"], "its seconds are"


def test_the_kind_and_the_base_are_named_where_the_table_has_several() -> None:
    weak = Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=0.9))
    strong = Scaling(kind="strong", baseline_workers=2, efficiency=Interval(mean=0.8))
    assert cells(make_point(workers=4, scaling=(weak, strong)))["EFFICIENCY"] == "weak 90.0 % of 1, strong 80.0 % of 2"


def test_points_that_differ_in_data_or_epochs_alone_have_different_rows_and_records() -> None:
    points = [
        make_point(data="Volume", data_path="/one"),
        make_point(data="Volume", data_path="/two"),
        make_point(data="Generated", data_samples=1000),
        make_point(data="Generated", data_samples=2000),
    ]
    titles = [column.title for column in tables.results(points).columns]
    shown = [row[titles.index("DATA")] for row in tables.results(points).rows]
    assert shown == ["Volume /one", "Volume /two", "Generated 1000", "Generated 2000"]
    records = [tables.flat(point) for point in points]
    assert [(record["data_path"], record["data_samples"]) for record in records] == [
        ("/one", ""), ("/two", ""), ("", "1000"), ("", "2000"),
    ]  # fmt: skip
    assert tables.flat(make_pending(epochs=2))["epochs"] == "2"
    assert "Volume /one data" in text.describe(points[0])


def test_elements_of_messages_are_no_samples_even_without_a_bandwidth() -> None:
    message = make_point(workload="allreduce", scaling=(), cost=None)
    assert text.headline(message) is None
    table = tables.results([message, make_point()])
    titles = [column.title for column in table.columns]
    assert table.rows[0][titles.index("SAMPLES/S")] == "–"


def test_reasons_and_warnings_stand_below() -> None:
    table = tables.results(
        [
            make_pending(workers=4, reason="4 workers need 4 nodes, and local-cpu has at most 2"),
            make_point(warnings=({"reason": "Trend", "message": "the windows drifted by 4 %"},)),
            make_point(workers=1, warnings=({"reason": "Other", "message": "only one node"},)),
            make_point(workers=2, warnings=({"reason": "Other", "message": "only one node"},)),
        ]
    )
    assert any("4 workers need 4 nodes" in note and note.startswith("Pending: mnist_cnn") for note in table.notes)
    assert "Warning: mnist_cnn on local-cpu, 2 workers at batch 64, float32: the windows drifted by 4 %" in table.notes
    assert "Warning: 2 points: only one node" in table.notes


def test_flat_records_lose_nothing_and_leave_undefined_fields_empty() -> None:
    record = tables.flat(make_point())
    assert tuple(record) == tables.FLAT_FIELDS
    assert float(record["samples_per_second_low"]) == 1675.16
    assert Decimal(record["cost_per_million_samples"]) == Decimal("0.0131")
    assert [float(value) for value in record["values"].split()] == [1690.0, 1700.0, 1710.0]
    assert record["strong_efficiency"] == ""
    pending = tables.flat(make_pending())
    assert pending["samples_per_second"] == pending["currency"] == pending["nodes"] == ""


def test_a_flat_record_has_the_efficiency_of_each_line_with_its_base() -> None:
    weak = Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=0.9, low=0.85, high=0.95))
    strong = Scaling(kind="strong", baseline_workers=2, baseline_pool="small", efficiency=Interval(mean=0.8))
    record = tables.flat(make_point(scaling=(weak, strong)))
    found = {name: value for name, value in record.items() if name.startswith(("weak_", "strong_"))}
    assert found == {
        "weak_baseline_workers": "1",
        "weak_baseline_pool": "",
        "weak_efficiency": "0.9",
        "weak_efficiency_low": "0.85",
        "weak_efficiency_high": "0.95",
        "strong_baseline_workers": "2",
        "strong_baseline_pool": "small",
        "strong_efficiency": "0.8",
        "strong_efficiency_low": "",
        "strong_efficiency_high": "",
    }


def test_the_spread_of_a_gang_is_shown_where_it_is_more_than_one_place() -> None:
    assert cells(make_point(workers=2, spread={"zones": 2, "blocks": 3, "racks": 4}))["SPREAD"] == (
        "2 zones, 3 blocks, 4 racks"
    )
    known = make_point(workers=2, spread={"zones": 1, "racks": 4})
    (line, unknown) = tables.results([known, make_point(workers=4)]).rows
    assert "4 racks" in line
    assert "4 racks" not in unknown
    for near in (make_point(), make_point(workers=2, spread={"zones": 1, "blocks": 1})):
        assert "SPREAD" not in {column.title for column in tables.results([near]).columns}
    record = tables.flat(known)
    assert [record[level] for level in ("zones", "blocks", "racks")] == ["1", "", "4"]


def test_warnings_of_a_flat_record_have_their_reasons_beside_them() -> None:
    trend = {"reason": "Trend", "message": "it became slower", "figures": {"change": 0.04}}
    other = {"reason": "Other", "message": "the base is slow"}
    record = tables.flat(make_point(warnings=(trend, other)))
    assert record["warning_reasons"] == "Trend Other"
    assert record["warnings"] == "it became slower | the base is slow"


# --- training ---------------------------------------------------------------------------------------------------------


def estimate(mean: float, half: float | None = None) -> Interval:
    return Interval(mean=mean, low=None if half is None else mean - half, high=None if half is None else mean + half)


def make_training(
    *, seconds: Interval | None = None, quality: Quality | None = None, region: TimedRegion | None = None
) -> TrainingResult:
    timed = seconds or estimate(41.25, 0.31)
    return TrainingResult(
        epochs=3,
        timed_region=region or TimedRegion(),
        seconds=timed,
        seconds_per_epoch=estimate(timed.mean / 3, 0.1),
        first_epoch_seconds=15.0,
        evaluation_seconds=4.0,
        training_loss=0.2,
        quality=quality,
    )


def make_trained(**changes: object) -> PointResult:
    accuracy = Quality(metric="accuracy", final=estimate(0.9712, 0.0021), best=estimate(0.98))
    cost = Cost(
        per_million_samples=AmountInterval(mean="0.0131", currency="USD"),
        per_run=AmountInterval(mean="0.0412", low="0.0409", high="0.0415", currency="USD"),
    )
    facts = {"training": make_training(quality=accuracy), "cost": cost, "data": "Generated", "scaling": ()}
    return make_point(**{**facts, **changes})


def test_training_has_its_own_columns_in_place_of_the_throughputs() -> None:
    row = cells(make_trained())
    assert row["EPOCHS"] == "3"
    assert row["SECONDS/EPOCH"] == "13.75 ± 0.10"
    assert row["SECONDS"] == "41.25 ± 0.31"
    assert row["ACCURACY"] == "97.12 % (96.91–97.33)"
    assert row["COST/RUN"] == "USD 0.04120 (0.04090–0.04150)"
    assert row["DATA"] == "Generated"
    assert not {"SAMPLES/S", "EFFICIENCY", "COST/M SAMPLES", "LOSS"} & row.keys()


@pytest.mark.parametrize(
    ("seconds", "title", "shown"),
    [
        (599.0, "SECONDS", "599.00 ± 0.60"),
        (600.0, "MINUTES", "10.000 ± 0.010"),
        (35_999.0, "MINUTES", "599.983 ± 0.010"),
        (36_000.0, "HOURS", "10.00000 ± 0.00017"),
    ],
)
def test_the_unit_of_time_follows_the_longest_run(seconds: float, title: str, shown: str) -> None:
    long = make_trained(training=make_training(seconds=estimate(seconds, 0.6)))
    table = tables.results([make_trained(), long])
    titles = [column.title for column in table.columns]
    assert table.rows[1][titles.index(title)] == shown


@pytest.mark.parametrize(
    ("evaluation", "first_epoch", "words"),
    [
        ("Inside", "Included", "training and the evaluation after each epoch, the first epoch included"),
        ("Outside", "Excluded", "training without the evaluation after each epoch, the first epoch left out"),
    ],
)
def test_what_the_seconds_cover_is_said_in_words(evaluation: str, first_epoch: str, words: str) -> None:
    region = TimedRegion.model_validate({"evaluation": evaluation, "first_epoch": first_epoch})
    notes = tables.results([make_trained(training=make_training(region=region))]).notes
    assert f"Seconds, and the cost of a run, are of {words}." in notes


def test_a_loss_is_shown_as_a_number() -> None:
    loss = Quality(metric="loss", final=estimate(1.394, 0.012), best=estimate(1.39))
    row = cells(make_trained(training=make_training(quality=loss)))
    assert row["LOSS"] == "1.394 ± 0.012"
    assert "ACCURACY" not in row


def test_training_without_a_timed_epoch_has_dashes() -> None:
    training = make_training().model_copy(update={"seconds": None, "seconds_per_epoch": None})
    row = cells(make_trained(training=training, cost=None))
    assert (row["SECONDS"], row["SECONDS/EPOCH"], row["COST/RUN"]) == ("–", "–", "–")


# --- bandwidth, goals, variants, what was not run ---------------------------------------------------------------------


def test_messages_have_bandwidth_in_place_of_samples_efficiency_and_cost() -> None:
    bandwidth = Bandwidth(algorithm=estimate(12.5e9, 0.1e9), bus=estimate(21.875e9, 0.2e9))
    row = cells(make_point(workload="allreduce", bandwidth=bandwidth, scaling=(), cost=None))
    assert (row["ALGBW GB/S"], row["BUSBW GB/S"]) == ("12.50 ± 0.10", "21.88 ± 0.20")
    assert not {"SAMPLES/S", "EFFICIENCY", "COST/M SAMPLES"} & row.keys()


def test_beside_other_workloads_a_message_has_no_samples() -> None:
    bandwidth = Bandwidth(algorithm=estimate(12.5e9), bus=estimate(21.875e9))
    message = make_point(workload="allreduce", bandwidth=bandwidth, scaling=(), cost=None)
    table = tables.results([make_point(), message])
    titles = [column.title for column in table.columns]
    assert [row[titles.index("SAMPLES/S")] for row in table.rows] == ["1,700 ± 25", "–"]
    assert [row[titles.index("ALGBW GB/S")] for row in table.rows] == ["–", "12.5"]


def test_what_all_points_leave_at_its_default_has_no_column() -> None:
    assert not {"DATA", "VARIANT", "BASIS"} & cells(make_point()).keys()
    row = cells(make_point(variant="fp16-wire", data="Volume", basis="Repriced"))
    assert (row["DATA"], row["VARIANT"], row["BASIS"]) == ("Volume", "fp16-wire", "Repriced")
    assert tables.BASIS_NOTE in tables.results([make_point(basis="Extrapolated")]).notes


def test_an_efficiency_against_another_pool_names_it() -> None:
    line = Scaling(kind="weak", baseline_workers=1, baseline_pool="p2.xlarge", efficiency=Interval(mean=0.9))
    assert cells(make_point(scaling=(line,)))["EFFICIENCY"] == "90.0 % on p2.xlarge"
    assert tables.ACROSS_POOLS_NOTE in tables.results([make_point(scaling=(line,))]).notes


def test_goals_have_a_table_of_their_own_that_calls_them_lower_bounds() -> None:
    goal = GoalResult(
        name="imagenet",
        hours=Interval(mean=10.0, low=9.71, high=10.35),
        cost=AmountInterval(mean="36.00", low="34.96", high="37.26", currency="USD"),
    )
    points = [make_point(goals=(goal,)), make_point(workload="mnist_mlp")]
    _, table = tables.of_benchmark(points)
    (row,) = table.rows
    assert row[-3:] == ("imagenet", "10.00 (9.71–10.35)", "USD 36.0 (35.0–37.3)")
    assert any("lower bounds" in note for note in table.notes)
    assert len(tables.of_benchmark([make_point()])) == 1


def test_a_headline_is_the_figure_of_the_points_kind() -> None:
    bandwidth = Bandwidth(algorithm=estimate(12.5e9), bus=estimate(21.875e9))
    assert text.headline(make_point()) == "1,700 ± 25 samples/s"
    assert text.headline(make_trained()) == "41.25 ± 0.31 seconds, accuracy 97.12 % (96.91–97.33)"
    assert text.headline(make_point(bandwidth=bandwidth)) == "21.9 GB/s bus bandwidth"
    assert text.headline(make_pending()) is None


def test_flat_records_have_training_bandwidth_and_goals_unrounded() -> None:
    goal = GoalResult(name="imagenet", hours=Interval(mean=10.123456789), cost=None)
    bandwidth = Bandwidth(algorithm=estimate(12.5e9), bus=estimate(21.875e9))
    record = tables.flat(make_trained(goals=(goal,), bandwidth=bandwidth, variant="fp16-wire"))
    assert tuple(record) == tables.FLAT_FIELDS
    assert (record["epochs"], record["timed_evaluation"], record["timed_first_epoch"]) == ("3", "Inside", "Included")
    assert float(record["training_seconds_high"]) == 41.56
    assert (record["quality_metric"], float(record["final_quality"])) == ("accuracy", 0.9712)
    assert (record["cost_per_run"], record["currency"]) == ("0.0412", "USD")
    assert (record["data"], record["variant"], record["basis"]) == ("Generated", "fp16-wire", "Measured")
    assert float(record["bus_bytes_per_second"]) == 21.875e9
    assert json.loads(record["goals"]) == [{"name": "imagenet", "hours": {"mean": 10.123456789}}]
    assert tables.flat(make_point())["training_seconds"] == tables.flat(make_point())["goals"] == ""


FEW = {"values": (1690.0, 1710.0), "throughput": Interval(mean=1700.0)}


@pytest.mark.parametrize(
    ("note", "applies", "not_to"),
    [
        (tables.NO_INTERVAL_NOTE, FEW, {}),
        (tables.NO_INTERVAL_NOTE, {**FEW, "state": PointState.UNSTABLE}, {**FEW, "basis": "Imported"}),
        (tables.NO_INTERVAL_NOTE, FEW, {"values": (), "throughput": None}),
        (tables.NO_INTERVAL_NOTE, FEW, {**FEW, "state": PointState.PENDING}),
        (tables.INTERVAL_NOTE, {}, FEW),
        (tables.IMPORTED_NOTE, {"basis": "Imported"}, {"basis": "Repriced"}),
        (tables.BASIS_NOTE, {"basis": "Repriced"}, {"basis": "Imported"}),
        (tables.EFFICIENCY_NOTE, {}, {"scaling": ()}),
        (tables.PAID_NOTE, {"slots_paid": 8}, {}),
        (tables.UNSTABLE_NOTE, {"state": PointState.UNSTABLE}, {}),
    ],
)
def test_a_note_stands_below_the_points_that_it_is_about(
    note: str, applies: dict[str, object], not_to: dict[str, object]
) -> None:
    pending = make_pending()
    assert note in tables.results([pending, make_point(**applies)]).notes
    assert note not in tables.results([pending, make_point(**not_to)]).notes


# --- bills ------------------------------------------------------------------------------------------------------------


def make_bill(**changes: object) -> PointBill:
    parts = {"start_up": "0.50", "measured": "1.00", "lost": "0.50"}
    facts = {"total": "2.00", "currency": "USD", "per_run": "1.50", "attempts": 3, "parts": parts}
    return PointBill.model_validate({**facts, **changes})


def test_a_bill_is_shown_by_the_parts_that_it_has() -> None:
    table = tables.bills([make_point(bill=make_bill()), make_point(workers=4)])
    assert table is not None
    assert [(column.title, column.numeric) for column in table.columns] == [
        ("POINT", False), ("BILLED", True), ("PER RUN", True), ("ATTEMPTS", True),
        ("START-UP %", True), ("MEASURED %", True), ("LOST %", True),
    ]  # fmt: skip
    point = "mnist_cnn on local-cpu, 2 workers at batch 64, float32"
    assert table.rows == ((point, "USD 2", "USD 1.5", "3", "25.0", "50.0", "25.0"),)
    assert [note.partition(":")[0] for note in table.notes[1:]] == ["LOST"], "only what is shown is explained"
    assert tables.bills([make_point()]) is None


def test_a_bill_of_pods_that_were_gone_is_at_least_so_much_and_may_have_no_run() -> None:
    bills = [make_bill(), make_bill(per_run=None, incomplete=1)]
    table = tables.bills([make_point(bill=bill) for bill in bills])
    assert table is not None
    assert [row[1:4] for row in table.rows] == [("USD 2", "USD 1.5", "3"), ("≥ USD 2", "–", "3")]
    assert table.notes[-1].startswith("≥: the pods of some attempts were gone")


# --- repeats and machines ---------------------------------------------------------------------------------------------


def test_repeats_that_missed_the_wanted_precision_are_marked() -> None:
    reached, missed = (make_point(stopping=how) for how in ("PrecisionReached", "MaximumReached"))
    assert (cells(make_point())["REPEATS"], cells(reached)["REPEATS"], cells(missed)["REPEATS"]) == ("3", "3", "3+")
    assert tables.ADAPTIVE_NOTE in tables.results([reached]).notes
    assert tables.ADAPTIVE_NOTE not in tables.results([make_point(stopping="Fixed")]).notes
    assert tables.flat(missed)["stopping"] == "MaximumReached"


GPU = GpuUsage(utilization=0.9712, memory_peak=31_000_000_000, watts=1402.0, throttled=0.0)


def machine_rows(*points: PointResult) -> list[dict[str, str]]:
    _, table = tables.of_benchmark(points)
    return [dict(zip((column.title for column in table.columns), row, strict=True)) for row in table.rows]


def test_machines_have_a_table_of_their_own() -> None:
    (row,) = machine_rows(make_point(gpu=GPU, host=HostUsage(processors=1.043, memory_peak=2_410_000_000)))
    assert {title: row[title] for title in ("PROCESSORS", "RSS GB", "GPU %", "GPU GB", "WATTS", "THROTTLED %")} == {
        "PROCESSORS": "1.04",
        "RSS GB": "2.41",
        "GPU %": "97.1",
        "GPU GB": "31.0",
        "WATTS": "1,400",
        "THROTTLED %": "0",
    }
    assert row["J/M SAMPLES"] == text.UNDEFINED


def test_energy_is_shown_with_its_interval_its_source_and_what_the_pool_says_of_its_power() -> None:
    energy = Energy(joules=Interval(mean=84_120.0, low=83_300.0, high=84_950.0), by="Power")
    (row,) = machine_rows(make_point(gpu=GPU, energy=energy))
    assert row["J/M SAMPLES"] == "84,120 ± 830"
    assert "WH/M SAMPLES" not in row
    metered = energy.model_copy(
        update={"watt_hours": Interval(mean=41.5), "grams": Interval(mean=16.0), "power": "900 W a host (x)"}
    )
    (row,) = machine_rows(make_point(gpu=GPU, energy=metered))
    assert (row["WH/M SAMPLES"], row["GCO2E/M SAMPLES"]) == ("41.5", "16.0")
    _, table = tables.of_benchmark([make_point(gpu=GPU, energy=metered)])
    assert "Energy is that of their mean power, sampled once a second, times the time." in table.notes
    assert "WH and GCO2E on local-cpu: 900 W a host (x)." in table.notes
    counted = energy.model_copy(update={"by": "Counter"})
    _, table = tables.of_benchmark([make_point(gpu=GPU, energy=counted)])
    assert "Energy is that of the GPUs' own counters." in table.notes
    assert tables.flat(make_point(energy=metered))["grams_per_million_samples"] == "16.0"


def test_what_a_machine_could_not_tell_is_a_dash_and_a_pool_without_gpus_has_no_columns_for_them() -> None:
    on_processors = make_point(host=HostUsage(processors=1.0))
    (row,) = machine_rows(on_processors)
    assert row["RSS GB"] == text.UNDEFINED
    assert "GPU %" not in row
    beside, other = machine_rows(on_processors, make_point(gpu=GPU))
    assert (beside["GPU %"], other["PROCESSORS"]) == (text.UNDEFINED, text.UNDEFINED)


def test_a_study_of_before_has_no_table_of_machines() -> None:
    assert len(tables.of_benchmark([make_point()])) == 1


def test_figures_of_machines_are_flat_too() -> None:
    record = tables.flat(make_point(gpu=GPU))
    assert (record["gpu_utilization"], record["watts"], record["gpu_throttled"]) == ("0.9712", "1402.0", "0.0")
    assert record["processors"] == record["memory_peak_bytes"] == ""


def test_a_goal_of_an_unstable_point_is_marked() -> None:
    goal = GoalResult(name="imagenet", hours=Interval(mean=10.0))
    table = tables.goals([make_point(goals=(goal,)), make_point(goals=(goal,), state=PointState.UNSTABLE)])
    column = next(index for index, column in enumerate(table.columns) if column.title == "GOAL")
    assert [row[column] for row in table.rows] == ["imagenet", "imagenet (Unstable)"]
