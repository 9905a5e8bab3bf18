# SPDX-License-Identifier: Apache-2.0
"""What must hold of every explained point: all of its headline figures are there, each from its own inputs."""

import pytest

import formulas
from gpubench.analysis.explain import Explained, Row
from gpubench.api.point_result import AmountInterval, PointResult
from gpubench.values import Interval

_PRINTED = 1e-5  # inputs are printed with seven digits


def check(found: Explained) -> None:
    """The figures are those of the point, and their inputs give them."""
    told = [(row.field, row.figure) for row in found.rows if row.figure is not None]
    assert dict(told) == figures(found.point)
    assert len(told) == len(dict(told)), "each once"
    for row in found.rows:
        _follows(row)


def figures(point: PointResult) -> dict[str, Interval | AmountInterval]:
    """The headline figures of a point, by where its status has them."""
    found: dict[str, Interval | AmountInterval | None] = {"throughput": point.throughput}
    found |= {f"scaling.{one.kind}": one.efficiency for one in point.scaling}
    if point.training is not None:
        found["training.seconds"] = point.training.seconds
    if point.bandwidth is not None:
        found["bandwidth.bus"] = point.bandwidth.bus
    if point.cost is not None:
        found |= {"cost.perMillionSamples": point.cost.per_million_samples, "cost.perRun": point.cost.per_run}
    if point.relative is not None:
        found |= {f"relative.{name}": getattr(point.relative, name) for name in ("throughput", "time", "cost")}
    for goal in point.goals:
        found |= {f"goals.{goal.name}.hours": goal.hours, f"goals.{goal.name}.cost": goal.cost}
    if point.bill is not None:
        found["bill.total"] = AmountInterval(mean=point.bill.total, currency=point.bill.currency)
    return {field: figure for field, figure in found.items() if figure is not None}


def _follows(row: Row) -> None:
    """The figure from the inputs, at both ends of its interval, too."""
    assert row.origin
    if row.formula is None:
        assert not row.inputs
        return
    assert row.source
    assert row.figure is not None
    mean, low, high = (
        None if one is None else float(one) for one in (row.figure.mean, row.figure.low, row.figure.high)
    )
    assert mean is not None
    last_place = 10.0 ** -len(str(row.figure.mean).partition(".")[2]) if isinstance(row.figure, AmountInterval) else 0.0
    room = last_place + _PRINTED * abs(mean)
    if "±" in row.formula:
        assert f"mean = {mean:,.7g}" in row.inputs
        assert formulas.ends(formulas.filled(row.formula, row.inputs)) == pytest.approx((low, high), abs=room)
        return
    assert formulas.value(formulas.filled(row.formula, row.inputs)) == pytest.approx(mean, abs=room)
    if any("–" in text for text in row.inputs):
        found = sorted(formulas.value(formulas.filled(row.formula, row.inputs, end)) for end in ("low", "high"))
        assert found == pytest.approx([low, high], abs=last_place, rel=_PRINTED)
    elif low is not None:
        assert "of the ratio's logarithm" in row.source
