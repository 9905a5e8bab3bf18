# SPDX-License-Identifier: Apache-2.0
"""Results of points that were measured elsewhere, before: from the figures that the plan has taken over.

They go through the functions that measured ones go through: the mean of their repeats with an interval where there are
three or more, efficiencies relative to the smallest worker count. A published efficiency stands as it is printed, for
the throughputs behind it are often in a chart only.

Must not happen: an imported figure among measured ones (its `basis` and a warning say whose it is), or a figure that
nobody published.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from gpubench.analysis import repeats, warnings
from gpubench.analysis.repeats import MeasuredPoint
from gpubench.analysis.text import NOT_PUBLISHED
from gpubench.api.measuring import Mode
from gpubench.api.point_result import GpuUsage, PointResult, PointState, Quality, Scaling, TrainingResult
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.plan import expand
from gpubench.plan.plan import ImportedPoint, ImportedRun, Plan, Point
from gpubench.stats import intervals
from gpubench.stats.efficiency import Among, EnvironmentKey
from gpubench.units import workers_text
from gpubench.values import Interval

#: What all figures of one import stand on: they come from one place, and what that was nobody recorded.
_GROUND = EnvironmentKey("imported", "")


def entry(plan: Plan, index: int) -> MeasuredPoint | None:
    """The throughputs of a point's repeats; None where they were not published."""
    values = tuple(rate for run in _runs(plan, index) if (rate := run.samples_per_second) is not None)
    if not values:
        return None
    point = plan.points[index]
    baseline = plan.pool(point.key.pool).spec.scaling_baseline
    return MeasuredPoint(
        point=point,
        values=values,
        environment=_GROUND,
        scaling_baseline=baseline if baseline != point.key.pool else None,
    )


def imported_result(
    plan: Plan, index: int, blank: PointResult, measured: MeasuredPoint | None, *, among: Among[MeasuredPoint]
) -> PointResult:
    """The result of an imported point, but for its costs. `blank` is the point without any figure."""
    point = plan.points[index]
    if point.skip is not None:
        return blank.model_copy(update={"state": PointState.SKIPPED, "reason": point.skip})
    found = plan.imported.at(index) if plan.imported is not None else None
    if found is None:
        return blank.model_copy(update={"state": PointState.NOT_PUBLISHED, "reason": NOT_PUBLISHED})
    training = _training(plan, point, found.runs)
    is_known = measured is not None or training is not None
    return blank.model_copy(
        update={
            "state": PointState.MEASURED if is_known else PointState.NOT_PUBLISHED,
            "reason": None if is_known else _unknown(plan, found),
            "repeats": len(found.runs) or None,
            "values": measured.values if measured is not None else (),
            "throughput": intervals.of_mean(measured.values) if measured is not None else None,
            "scaling": _scaling(plan, point, found, measured, among=among),
            "training": training,
            "gpu": _gpu(found.runs),
            "warnings": _warnings(plan, found),
        }
    )


def _runs(plan: Plan, index: int) -> tuple[ImportedRun, ...]:
    found = plan.imported.at(index) if plan.imported is not None else None
    return found.runs if found is not None else ()


def _unknown(plan: Plan, found: ImportedPoint) -> str:
    """What is known of a point whose throughput is not."""
    if found.speed is not None:
        return (
            f"{NOT_PUBLISHED}: only that it was {found.speed.times} times as fast as {_place(plan, found.speed.over)}"
        )
    return f"{NOT_PUBLISHED}: only its efficiency" if found.efficiency is not None else NOT_PUBLISHED


def _place(plan: Plan, index: int) -> str:
    key = plan.points[index].key
    return f"{key.pool}, {workers_text(key.workers)}"


def _warnings(plan: Plan, found: ImportedPoint) -> tuple[PointWarning, ...]:
    assert plan.imported is not None  # the caller has looked
    texts = (f"imported from {plan.imported.origin}: not measured by gpubench", found.note)
    return tuple(warnings.warning(WarningReason.IMPORTED, text) for text in texts if text is not None)


# --- efficiency -------------------------------------------------------------------------------------------------------


def _scaling(
    plan: Plan, point: Point, found: ImportedPoint, measured: MeasuredPoint | None, *, among: Among[MeasuredPoint]
) -> tuple[Scaling, ...]:
    if found.efficiency is not None:
        return (_printed(plan, point, found.efficiency),)
    if measured is None:
        return ()
    return repeats.scaling(measured, among=among)


def _printed(plan: Plan, point: Point, published: str) -> Scaling:
    """An efficiency as it was published, relative to the base that gpubench would have taken."""
    pool = point.key.pool
    baseline = plan.pool(pool).spec.scaling_baseline or pool
    line = expand.line_of(point)
    bases = [other for other in plan.points if other.key.pool == baseline and _is_base(line, other, of=point)]
    return Scaling(
        kind=line,
        baseline_workers=min((base.key.workers for base in bases), default=1),
        baseline_pool=baseline if baseline != pool else None,
        efficiency=Interval(mean=float(published)),
    )


def _is_base(line: Literal["weak", "strong"], other: Point, *, of: Point) -> bool:
    """Whether a point may be the base of another one's efficiency: it trains the same on fewer workers."""
    return other.key.workers < of.key.workers and expand.same_training(line, other.key, of.key)


# --- training ---------------------------------------------------------------------------------------------------------


def _training(plan: Plan, point: Point, runs: Sequence[ImportedRun]) -> TrainingResult | None:
    """Whole epochs; None where nobody says how long they took."""
    seconds = _of_all(run.seconds for run in runs)
    if plan.mode is not Mode.TRAINING or not seconds or point.key.epochs is None:
        return None
    region = plan.timed_region
    interval = repeats.from_zero(intervals.of_mean(seconds))
    epochs = point.key.epochs - (region.first_epoch == "Excluded")
    return TrainingResult(
        epochs=point.key.epochs,
        timed_region=region,
        seconds=interval,
        seconds_per_epoch=interval.scaled(1 / epochs) if epochs else None,
        first_epoch_seconds=_mean(run.first_epoch_seconds for run in runs),
        evaluation_seconds=_mean(run.evaluation_seconds for run in runs),
        training_loss=_mean(run.training_loss for run in runs),
        quality=_quality(runs),
    )


def _quality(runs: Sequence[ImportedRun]) -> Quality | None:
    accuracies = _of_all(run.accuracy for run in runs)
    if not accuracies:
        return None
    return Quality(metric="accuracy", final=repeats.within("accuracy", accuracies, intervals.CONFIDENCE), best=None)


def _gpu(runs: Sequence[ImportedRun]) -> GpuUsage | None:
    utilization = _mean(run.gpu_utilization for run in runs)
    return None if utilization is None else GpuUsage(utilization=utilization)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean; None where one of the repeats does not tell."""
    told = _of_all(values)
    return intervals.of_mean(told).mean if told else None


def _of_all(values: Iterable[float | None]) -> list[float]:
    """What every repeat tells; nothing where one of them does not."""
    listed = list(values)
    told = [value for value in listed if value is not None]
    return told if len(told) == len(listed) else []
