# SPDX-License-Identifier: Apache-2.0
"""What is drawn together is the same work in one currency; what no other point beats lies on the frontier."""

import itertools
from typing import Any

import pytest

from gpubench.analysis import text
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import (
    AmountInterval,
    Bandwidth,
    BillParts,
    Cost,
    PointBill,
    PointResult,
    PointState,
    Scaling,
    TrainingResult,
)
from gpubench.api.price_result import NodesSpent, Spent
from gpubench.report import charts
from gpubench.report.charts import Chart, Entry, Row
from gpubench.values import Interval


def point(pool: str = "a", *, workers: int = 1, speed: float = 100.0, cost: str | None = "1.0", **more: Any) -> Entry:
    fields: dict[str, Any] = {
        "workload": "mnist_cnn",
        "pool": pool,
        "workers": workers,
        "workers_per_node": workers,
        "batch_per_worker": 64,
        "global_batch": 64 * workers,
        "precision": "float32",
        "state": PointState.MEASURED,
        "values": (speed,) * 3,
        "throughput": Interval(mean=speed, low=speed * 0.9, high=speed * 1.1),
        "scaling": (Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=speed / workers / 100)),),
        "cost": None if cost is None else Cost(per_million_samples=AmountInterval(mean=cost, currency="USD")),
    }
    return Entry(point=PointResult.model_validate(fields | more))


def series(chart: Chart) -> dict[str, list[Row]]:
    return {row.series: [other for other in chart.rows if other.series == row.series] for row in chart.rows}


def test_a_line_goes_over_the_worker_counts_of_one_pool_and_batch() -> None:
    (chart,) = charts.throughput(
        [point(workers=2, speed=190.0), point(workers=1), point(workers=1, batch_per_worker=32, global_batch=32)]
    )
    assert {name: [(row.x.mean, row.y.mean) for row in rows] for name, rows in series(chart).items()} == {
        "a, batch 64 per worker": [(1, 100.0), (2, 190.0)],
        "a, batch 32 per worker": [(1, 100.0)],
    }
    assert chart.rows[1].y.low == pytest.approx(171.0)
    assert "a, batch 64 per worker: 100 ± 10 at 1 to 190 ± 19 at 2" in chart.description, "for who cannot see it"
    assert "95 % intervals" in chart.description


def test_a_description_gives_both_ends_of_a_line() -> None:
    entries = [point(), point(workers=2, speed=190.0), point(workers=4, speed=360.0)]
    (chart,) = charts.throughput(entries)
    assert chart.description == (
        "Samples per second against the number of workers: a: 100 ± 10 at 1 to 360 ± 36 at 4."
        " Thin lines are 95 % intervals."
    )
    (chart,) = charts.efficiency(entries)
    assert (chart.title, chart.y) == (
        "Scaling efficiency: mnist_cnn in float32, batch 64 per worker", "scaling efficiency",
    )  # fmt: skip
    assert chart.level == "perfect scaling"
    assert chart.description.endswith(": a: 100 % at 1 to 90.0 % at 4.")


def test_messages_are_drawn_by_their_bus_bandwidth() -> None:
    def message(workers: int, bus: float) -> Entry:
        bandwidth = Bandwidth(algorithm=Interval(mean=8e9), bus=Interval(mean=bus, low=bus - 1e9, high=bus + 1e9))
        return point(workers=workers, workload="allreduce", scaling=(), bandwidth=bandwidth)

    (chart,) = charts.throughput([message(2, 10e9), message(4, 12e9)])
    assert (chart.title, chart.y) == ("Bandwidth: allreduce in float32, batch 64 per worker", "bus bandwidth in GB/s")
    assert [(row.x.mean, row.y.mean, row.y.high) for row in chart.rows] == [(2, 10.0, 11.0), (4, 12.0, 13.0)]


def test_two_benchmarks_of_one_pool_have_lines_of_their_own() -> None:
    entries = [point(workers=workers)._replace(benchmark=name) for name in ("old", "new") for workers in (1, 2)]
    (chart,) = charts.throughput(entries)
    assert list(series(chart)) == ["a, old", "a, new"]


def test_a_point_without_an_efficiency_is_on_the_line_of_its_global_batch() -> None:
    scaled = Scaling(kind="strong", baseline_workers=1, efficiency=Interval(mean=0.9))
    (chart,) = charts.throughput(
        [
            point(workers=workers, batch_per_worker=None, global_batch=256, scaling=scaling)
            for workers, scaling in ((1, ()), (2, (scaled,)))
        ]
    )
    assert chart.title.endswith(", global batch 256")
    assert {name: len(rows) for name, rows in series(chart).items()} == {"a": 2}


@pytest.mark.parametrize(
    ("how", "remark"),
    [
        ({"basis": "Repriced"}, "re-priced"),
        ({"basis": "Extrapolated"}, "extrapolated"),
        ({"state": PointState.UNSTABLE}, "Unstable"),
    ],
)
def test_what_was_not_run_or_never_settled_is_hollow_and_says_so(how: dict[str, Any], remark: str) -> None:
    measured, doubtful = point(), point(workers=2, speed=150.0, cost="1.5", **how)
    for draw in (charts.throughput, charts.efficiency, charts.frontier, charts.costs):
        (chart,) = draw([measured, doubtful])
        assert [row.hollow for row in chart.rows] == [False, True]
        assert "Hollow or hatched: not run, or never settled." in chart.description
        (chart,) = draw([measured, point(workers=2, speed=150.0)])
        assert not any(row.hollow for row in chart.rows)
        assert "Hollow" not in chart.description
    (bars,) = charts.costs([measured, doubtful])
    assert [row.series for row in bars.rows] == [
        "a, 1 worker at batch 64", f"a, 2 workers at batch 64 ({remark})",
    ]  # fmt: skip


def test_other_work_has_a_chart_of_its_own() -> None:
    entries = [
        point(workers=workers, precision=precision) for precision in ("float32", "mixed_float16") for workers in (1, 2)
    ]
    assert [chart.title for chart in charts.throughput(entries)] == [
        "Throughput: mnist_cnn in float32, batch 64 per worker",
        "Throughput: mnist_cnn in mixed_float16, batch 64 per worker",
    ]


def test_two_workers_on_one_node_and_on_two_are_on_different_lines() -> None:
    (chart,) = charts.throughput([point(), point(workers=2), point(workers=2, workers_per_node=1), point(workers=4)])
    for rows in series(chart).values():
        workers = [row.x.mean for row in rows]
        assert len(workers) == len(set(workers))


def test_many_lines_are_drawn_batch_by_batch_and_none_is_lost() -> None:
    names = [f"pool-{number}" for number in range(5)]
    entries = [
        point(name, workers=workers, batch_per_worker=batch, global_batch=batch * workers)
        for name in names
        for batch in (32, 64)
        for workers in (1, 2)
    ]
    found = charts.throughput(entries)
    assert [list(series(chart)) for chart in found] == [names, names]
    assert [chart.title.rpartition(", ")[2] for chart in found] == ["batch 32 per worker", "batch 64 per worker"]


def test_the_frontier_is_what_no_other_point_is_both_faster_and_cheaper_than() -> None:
    entries = [
        point("slow-cheap", speed=10.0, cost="1.0"),
        point("fast-dear", speed=40.0, cost="4.0"),
        point("between", speed=20.0, cost="2.0"),
        point("beaten", speed=19.0, cost="2.5"),
    ]
    (chart,) = charts.frontier(entries)
    assert {row.series for row in chart.rows if row.label} == {"slow-cheap", "fast-dear", "between"}
    assert "beaten" in series(chart), "shown, too"
    order = [chart.description.index(name) for name in ("fast-dear", "between", "slow-cheap")]
    assert order == sorted(order), "the fastest first"
    assert "beaten" not in chart.description


def test_time_is_against_cost_in_one_unit_and_the_frontier_has_its_workers() -> None:
    (chart,) = charts.frontier([point(speed=100.0, cost="2.0"), point("b", workers=4, speed=400.0, cost="1.0")])
    assert (chart.x, chart.y) == ("minutes", "USD")
    assert chart.title == "Time against cost: mnist_cnn in float32, a million samples"
    assert [row.x.mean for row in chart.rows] == pytest.approx([1e6 / 100 / 60, 1e6 / 400 / 60])
    assert [row.y.mean for row in chart.rows] == [2.0, 1.0]
    assert [row.label for row in chart.rows] == ["", "4"]


def test_a_training_takes_the_time_and_the_cost_of_a_run() -> None:
    def trained(pool: str, *, seconds: float, per_run: str) -> Entry:
        training = TrainingResult(epochs=3, timed_region=TimedRegion(), seconds=Interval(mean=seconds))
        samples, run = (AmountInterval(mean=mean, currency="USD") for mean in ("9.0", per_run))
        found = point(pool, training=training).point
        return Entry(point=found.model_copy(update={"cost": Cost(per_million_samples=samples, per_run=run)}))

    entries = [trained("a", seconds=60.0, per_run="0.5"), trained("b", seconds=40.0, per_run="0.75")]
    for draw in (charts.frontier, charts.costs):
        (chart,) = draw(entries)
        assert chart.title.endswith("mnist_cnn in float32, 3 epochs, a run")
        assert [row.y.mean for row in chart.rows] == [0.5, 0.75]
    (chart,) = charts.frontier(entries)
    assert (chart.x, [row.x.mean for row in chart.rows]) == ("seconds", [60.0, 40.0])


def test_currencies_never_share_an_axis() -> None:
    euros = Cost(per_million_samples=AmountInterval(mean="1.0", currency="EUR"))
    dear = Entry(point=point("c").point.model_copy(update={"cost": euros}))
    entries = [point("a"), point("b", speed=120.0), dear]
    assert [{row.label[:3] for row in chart.rows} for chart in charts.costs(entries)] == [{"USD"}, {"EUR"}]
    (frontier,) = charts.frontier(entries)
    assert series(frontier).keys() == {"a", "b"}


def test_the_cheapest_stands_first_and_an_open_end_stays_open() -> None:
    opened = Cost(per_million_samples=AmountInterval(mean="0.5", low="0.4", currency="USD"))
    entries = [point("a"), Entry(point=point("b").point.model_copy(update={"cost": opened}))]
    (chart,) = charts.costs(entries)
    assert [row.series[0] for row in chart.rows] == ["b", "a"]
    assert (chart.rows[0].y.low, chart.rows[0].y.high) == (0.4, None)


@pytest.mark.parametrize(("points", "rest"), [(20, False), (22, True)])
def test_of_many_costs_the_cheapest_are_drawn_and_that_there_are_others_is_said(points: int, rest: bool) -> None:
    (chart,) = charts.costs([point(f"pool-{number}", cost=f"{number}.5") for number in range(points)])
    assert [row.y.mean for row in chart.rows] == [number + 0.5 for number in range(20)]
    assert (f"The 20 cheapest of {points}; the others are in the table." in chart.description) == rest
    assert "From USD 0.500 (pool-0, 1 worker at batch 64) to USD 19.5 (pool-19, " in chart.description


def test_the_parts_of_a_bill_follow_each_other_and_end_at_the_bill() -> None:
    one = PointBill(total="0.010", currency="USD", attempts=3, parts=BillParts(start_up="0.004", measured="0.006"))
    other = PointBill(
        total="0.005", currency="USD", attempts=1, incomplete=1, parts=BillParts(start_up="0.001", lost="0.004")
    )
    (chart,) = charts.waterfall([point("a", bill=one), point("b", bill=other), point("c")])
    *parts, bill = chart.rows
    assert [part.series for part in parts] == ["start-up", "measured work", "lost work"]
    assert [row.hollow for row in chart.rows] == [True, False, True, False], "work and the whole bill are filled"
    for before, after in itertools.pairwise(parts):
        assert after.x.mean == pytest.approx(before.x.mean + before.y.mean)
    assert parts[-1].x.mean + parts[-1].y.mean == pytest.approx(bill.y.mean)
    assert bill.label == "USD 0.015 (100.0 %)"
    assert "start-up USD 0.005 (33.3 %); measured work USD 0.006 (40.0 %)" in chart.description
    assert "What 4 attempts are billed" in chart.description
    assert "at least that" in chart.description


def test_nodes_that_came_stand_beside_the_bill_of_their_benchmark() -> None:
    nodes = NodesSpent(count=2, node_hours=0.5, amount="0.030", sentence="2 nodes came while it ran")
    spent = Spent(amount="0.015", currency="USD", clock="of pods", nodes=nodes)
    bill = PointBill(total="0.015", currency="USD", attempts=1, parts=BillParts(measured="0.015"))
    with_bill = point("a", bill=bill)
    (chart,) = charts.waterfall([with_bill._replace(spent=spent)])
    assert [row.series for row in chart.rows] == ["measured work", "the bill", "nodes that came"]
    assert (chart.rows[-1].x.mean, chart.rows[-1].label) == (0.0, "USD 0.03 (200.0 %)")
    assert chart.description.endswith(" the life of a node, which is longer. 2 nodes came while it ran.")
    assert text.spent(spent).endswith(". 2 nodes came while it ran.")
    assert text.spent(spent.model_copy(update={"nodes": None})) == "Spent: about USD 0.015."
    noted = spent.model_copy(update={"nodes": None, "assumed_attempts": 1, "unpriced_attempts": 2})
    assert text.spent(noted) == (
        "Spent: about USD 0.015 (of 1 attempt the end of a pod was not seen; 2 attempts without a price not counted)."
    )
    foreign = spent.model_copy(update={"currency": "EUR"})
    (chart,) = charts.waterfall([with_bill._replace(spent=foreign)])
    assert chart.rows[-1].series == "the bill", "two currencies are never on one axis"


def test_without_a_bill_there_is_no_bar_and_never_a_marginal_cost() -> None:
    assert charts.waterfall([point("a")]) == []


def test_pools_that_share_a_scaling_baseline_are_one_line() -> None:
    def larger(pool: str, workers: int, efficiency: float) -> Entry:
        found = Scaling(kind="weak", baseline_workers=1, baseline_pool="small", efficiency=Interval(mean=efficiency))
        return point(pool, workers=workers, scaling=(found,))

    (chart,) = charts.efficiency([point("small"), larger("large", 4, 0.9), larger("huge", 8, 0.8)])
    assert {row.series for row in chart.rows} == {"small, large, huge"}
    assert [row.x.mean for row in chart.rows] == [1, 4, 8]


@pytest.mark.parametrize("draw", charts.NEEDS)
def test_without_figures_there_is_no_empty_chart(draw: Any) -> None:
    assert draw([]) == []
    assert draw([point(cost=None, throughput=None, scaling=(), values=(), state=PointState.PENDING)]) == []


@pytest.mark.parametrize("draw", [charts.throughput, charts.efficiency, charts.frontier])
def test_one_point_is_no_line_and_no_choice(draw: Any) -> None:
    assert draw([point()]) == []
