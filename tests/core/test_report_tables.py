# SPDX-License-Identifier: Apache-2.0
"""The table shows what was measured, to the digits that the intervals support, and a dash for what is not defined."""

from decimal import Decimal

import pytest

from gpubench.api.benchmark import AmountInterval, Cost, Estimate, PointResult, PointState, Scaling
from gpubench.report import figures, tables


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
        "throughput": Estimate(mean=1700.0, low=1675.16, high=1724.84),
        "scaling": (
            Scaling(kind="weak", baseline_workers=1, efficiency=Estimate(mean=0.8543, low=0.8412, high=0.8674)),
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
    assert figures.throughput(Estimate(mean=mean, low=low, high=high)) == shown


def test_an_open_end_of_a_cost_is_shown_as_open() -> None:
    assert figures.money(AmountInterval(mean="0.020", low="0.010", currency="EUR")) == "EUR 0.0200 (≥ 0.0100)"


def test_the_baseline_is_100_percent_by_definition() -> None:
    scaling = Scaling(kind="weak", baseline_workers=1, efficiency=Estimate(mean=1.0))
    assert figures.efficiency(scaling) == "100 % (base)"


def test_what_is_not_defined_is_a_dash_and_never_zero() -> None:
    row = cells(make_pending())
    for title in ("SAMPLES/S", "EFFICIENCY", "COST/M SAMPLES", "REPEATS", "NODES"):
        assert row[title] == "–"


def test_the_kind_and_the_base_are_named_where_the_table_has_several() -> None:
    weak = Scaling(kind="weak", baseline_workers=1, efficiency=Estimate(mean=0.9))
    strong = Scaling(kind="strong", baseline_workers=2, efficiency=Estimate(mean=0.8))
    assert cells(make_point(scaling=(weak, strong)))["EFFICIENCY"] == "weak 90.0 % of 1, strong 80.0 % of 2"


def test_reasons_and_warnings_stand_below() -> None:
    table = tables.results(
        [
            make_pending(workers=4, reason="4 workers need 4 nodes, and local-cpu has at most 2"),
            make_point(warnings=("the windows drifted by 4 %",)),
            make_point(workers=1, warnings=("only one node",)),
            make_point(workers=2, warnings=("only one node",)),
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
