# SPDX-License-Identifier: Apache-2.0
"""What must hold of every explained point: all of its figures are there, each from its own numbers."""

import pytest

import formulas
from gpubench.api.point_result import AmountInterval, Estimate, PointBill, PointResult
from gpubench.control.explain import Explained
from gpubench.control.steps import Step

#: Numbers are printed with seven digits.
_PRINTED = 1e-5
_LAST_PLACE = 1e-9  # of an amount


def check(found: Explained) -> None:
    """The figures are those of the point, and their numbers give them."""
    told: dict[str, Estimate | AmountInterval | None] = {
        step.field: step.estimate or step.amount for step in found.steps if step.field is not None
    }
    assert told == figures(found.point)
    assert sum(step.field is not None for step in found.steps) == len(told), "each once"
    for step in found.steps:
        _follows(step)


def figures(point: PointResult) -> dict[str, Estimate | AmountInterval]:
    """The figures of a point that are computed, by where its status has them."""
    found: dict[str, Estimate | AmountInterval | None] = {"throughput": point.throughput}
    found |= {f"scaling.{one.kind}": one.efficiency for one in point.scaling}
    if point.training is not None:
        found |= {
            "training.seconds": point.training.seconds,
            "training.secondsPerEpoch": point.training.seconds_per_epoch,
        }
        if point.training.quality is not None:
            found |= {
                "training.quality.final": point.training.quality.final,
                "training.quality.best": point.training.quality.best,
            }
    if point.bandwidth is not None:
        found |= {"bandwidth.algorithm": point.bandwidth.algorithm, "bandwidth.bus": point.bandwidth.bus}
    if point.cost is not None:
        found |= {"cost.perMillionSamples": point.cost.per_million_samples, "cost.perRun": point.cost.per_run}
    if point.relative is not None:
        found |= {f"relative.{name}": getattr(point.relative, name) for name in ("throughput", "time", "cost")}
    for goal in point.goals:
        found |= {f"goals.{goal.name}.hours": goal.hours, f"goals.{goal.name}.cost": goal.cost}
    if point.bill is not None:
        found |= _of_bill(point.bill)
    return {field: figure for field, figure in found.items() if figure is not None}


def _of_bill(bill: PointBill) -> dict[str, AmountInterval]:
    amounts = {"bill.total": bill.total, "bill.perRun": bill.per_run}
    amounts |= {f"bill.parts.{part}": str(amount) for part, amount in bill.parts.to_wire().items()}
    return {
        field: AmountInterval(mean=amount, currency=bill.currency)
        for field, amount in amounts.items()
        if amount is not None
    }


def _follows(step: Step) -> None:
    """The result from the numbers, as far as these are printed."""
    if step.numbers is None:
        assert step.formula is None
        return
    assert step.formula
    assert step.source
    figure = step.estimate or step.amount
    if "±" in step.numbers:
        assert figure is not None
        low, high = formulas.ends(step.numbers)
        bounds = float(figure.low or 0), float(figure.high or 0)
        room = _PRINTED * abs(float(figure.mean))
        assert (low, high) == pytest.approx(bounds, rel=_PRINTED, abs=room)
        return
    if figure is None:
        scale = 100 if "%" in step.result else 1
        room = 0.01 if "%" in step.result else _PRINTED
        assert scale * formulas.value(step.numbers) == pytest.approx(formulas.first_number(step.result), rel=room)
        return
    for numbers, stored in ((step.numbers, figure.mean), (step.low, figure.low), (step.high, figure.high)):
        if numbers is None:
            assert stored is None
        else:
            assert formulas.value(numbers) == pytest.approx(float(stored or 0), rel=_PRINTED, abs=_room(step))


def _room(step: Step) -> float:
    """The last place of an amount: parts of a bill are rounded so that they sum to it, one of them by all of that."""
    if step.amount is None or not (step.field or "").startswith("bill."):
        return _LAST_PLACE
    return 10.0 ** -len(step.amount.mean.partition(".")[2])
