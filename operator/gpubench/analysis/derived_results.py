# SPDX-License-Identifier: Apache-2.0
"""Results of points that are never run: another point's figures, as they are or extrapolated to more workers.

A re-priced point has its source's figures at the price of its own pool. An extrapolated one has
T = T(source) x workers / workers of the source x mean efficiency, the mean over all points of more workers that the
study measured for the same workload and batch on the same line (weak or strong), relative to as many workers as the
source has (as Parkopedia, 2018, did for four GTX 1080 Ti): an efficiency relative to fewer would count again what the
source has already lost. It has no interval: how the efficiencies of other machines scatter says nothing certain about
this one.

Must not happen: a derived figure among measured ones. Its `values` are empty, its `basis` and a warning say what it is,
and no efficiency is made of it. It counts as a measured point once its source is one.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal

from gpubench.analysis import text, warnings
from gpubench.api import status_sizes
from gpubench.api.point_result import SOURCES, Basis, PointResult, PointState
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.cost import whatif
from gpubench.plan import expand
from gpubench.plan.plan import Plan, Point
from gpubench.scheduler import conditions
from gpubench.units import workers_text
from gpubench.values import Interval

_OPEN = frozenset({PointState.PENDING, PointState.RUNNING})


def derived_result(plan: Plan, point: Point, blank: PointResult, *, results: Sequence[PointResult]) -> PointResult:
    """The result of a derived point, given those of all points of the plan; those of other derived ones are not read.

    `blank` is the point without any figure.
    """
    index = expand.source_of(plan, point)
    if point.skip is not None or index is None:
        return blank.model_copy(update={"state": PointState.SKIPPED, "reason": point.skip or _NO_SOURCE})
    source = results[index]
    if source.state in _OPEN:
        return blank.model_copy(update={"state": PointState.PENDING})
    if source.state is PointState.NOT_PUBLISHED:
        return blank.model_copy(update={"state": source.state, "reason": text.NOT_PUBLISHED})
    if source.throughput is None and (source.training is None or point.basis is Basis.EXTRAPOLATED):
        reason = f"its figures would come from {text.describe(source)}: {source.reason or NO_THROUGHPUT}"
        state = PointState.SKIPPED if source.state is PointState.MEASURED else source.state
        return blank.model_copy(update={"state": state, "reason": conditions.clamped(reason, status_sizes.REASON_MAX)})
    if point.basis is Basis.EXTRAPOLATED:
        return _extrapolated(plan, point, blank, source=source, results=results)
    return _measured(
        blank,
        source,
        throughput=source.throughput,
        warning=warnings.warning(WarningReason.REPRICED, f"re-priced from {_place(source)}: not run here"),
    ).model_copy(update={"training": source.training, "bandwidth": source.bandwidth})


_NO_SOURCE = "no point of this study stands for it"
NO_THROUGHPUT = "its samples per second are not known"


def _extrapolated(
    plan: Plan, point: Point, blank: PointResult, *, source: PointResult, results: Sequence[PointResult]
) -> PointResult:
    assert source.throughput is not None  # the caller has looked
    line = expand.line_of(point)
    alike = same_training(plan, point, results)
    if any(result.state in _OPEN for result in alike):
        return blank.model_copy(update={"state": PointState.PENDING})  # the mean would still change
    found = [Decimal(e) for e in efficiencies_on_line(alike, line=line, baseline_workers=source.workers)]
    if not found:
        reason = (
            f"no point on several workers gives an efficiency of {blank.workload} at {expand.batch_text(point)} "
            f"relative to {workers_text(source.workers)}, from which {blank.pool} is extrapolated: "
            f"{_why_none(source, alike)}"
        )
        return blank.model_copy(
            update={"state": PointState.SKIPPED, "reason": conditions.clamped(reason, status_sizes.REASON_MAX)}
        )
    mean = whatif.mean_efficiency(found)
    factor = point.key.workers / source.workers
    throughput = whatif.extrapolated(Decimal(source.throughput.mean), times=Decimal(factor), efficiencies=found)
    count = "1 measured point" if len(found) == 1 else f"{len(found)} measured points"
    return _measured(
        blank,
        source,
        throughput=Interval(mean=float(throughput)),
        warning=warnings.warning(
            WarningReason.EXTRAPOLATED,
            f"extrapolated: {_place(source)}, times {factor:g}, times {float(mean):.4g}, the mean efficiency of "
            f"{count}: not run here, and without an interval",
            figures={"efficiency": float(mean), "points": len(found)},
        ),
    )


def same_training(plan: Plan, point: Point, results: Sequence[PointResult]) -> list[PointResult]:
    """The measured points whose efficiencies a derived one may be extrapolated by."""
    line = expand.line_of(point)
    return [
        result
        for other, result in zip(plan.points, results, strict=True)
        if other.basis in SOURCES and expand.same_training(line, other.key, point.key)
    ]


def _why_none(source: PointResult, alike: Sequence[PointResult]) -> str:
    """Why there is no efficiency, and what to do. What stands at the points themselves is what is in the way."""
    larger = [result for result in alike if result.workers > source.workers and result.throughput is not None]
    if larger and source.state is PointState.UNSTABLE:
        return f"{_place(source)}, is Unstable: {_STEADIER}"
    if larger and all(result.state is PointState.UNSTABLE for result in larger):
        return f"{_place(larger[0])}, is Unstable: {_STEADIER}"
    told = (
        (result, warning.message)
        for result in larger
        for warning in result.warnings
        if warning.reason is WarningReason.NO_EFFICIENCY
    )
    for result, message in told:
        return f"of {_place(result)}, {message}"
    return "measure one in this study, or set measuredBy.workers to the smallest worker count of the others"


_STEADIER = "give measure.warmUp and duration more time"


def _measured(
    blank: PointResult, source: PointResult, *, throughput: Interval | None, warning: PointWarning
) -> PointResult:
    return blank.model_copy(
        update={
            "state": source.state,  # Measured, or Unstable: a price steadies nothing
            "throughput": throughput,
            "environment": source.environment,
            "instance_type": source.instance_type,
            "warnings": (warning, *source.warnings),
        }
    )


def _place(source: PointResult) -> str:
    return f"{source.pool}, {workers_text(source.workers)}"


def efficiencies_on_line(
    alike: Sequence[PointResult], *, line: Literal["weak", "strong"], baseline_workers: int
) -> list[float]:
    """The efficiencies on a line of all settled points among these that have more workers than a base of so many."""
    return [
        found.efficiency.mean
        for result in alike
        if result.state is not PointState.UNSTABLE
        for found in result.scaling
        if found.kind == line and found.baseline_workers == baseline_workers < result.workers
    ]
