# SPDX-License-Identifier: Apache-2.0
"""What is drawn together is the same work in one currency; what no other point beats lies on the frontier."""

import itertools
from typing import Any

import pytest

from gpubench.analysis import text
from gpubench.api.point_result import AmountInterval, BillParts, Cost, PointBill, PointResult, PointState, Scaling
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


def test_the_parts_of_a_bill_follow_each_other_and_end_at_the_bill() -> None:
    one = PointBill(total="0.010", currency="USD", attempts=3, parts=BillParts(start_up="0.004", measured="0.006"))
    other = PointBill(
        total="0.005", currency="USD", attempts=1, incomplete=1, parts=BillParts(start_up="0.001", lost="0.004")
    )
    (chart,) = charts.waterfall([point("a", bill=one), point("b", bill=other), point("c")])
    *parts, bill = chart.rows
    assert [part.series for part in parts] == ["start-up", "measured work", "lost work"]
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
    assert chart.description.endswith(" 2 nodes came while it ran.")
    assert text.spent(spent).endswith(". 2 nodes came while it ran.")
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
