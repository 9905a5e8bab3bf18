# SPDX-License-Identifier: Apache-2.0
"""What a batch that does not fit says to the one who chooses: which one failed, and which fits."""

from collections.abc import Sequence

from gpubench.api import status_sizes
from gpubench.api.point_result import PointResult, PointState
from gpubench.plan.plan import Point
from gpubench.scheduler import conditions


def explained(points: Sequence[Point], results: Sequence[PointResult]) -> list[PointResult]:
    """The results; those of points that ended OutOfMemory name the largest batch that passed beside them."""
    return [
        _explained(point, result, points=points, results=results)
        if result.state is PointState.OUT_OF_MEMORY
        else result
        for point, result in zip(points, results, strict=True)
    ]


def _explained(
    point: Point, result: PointResult, *, points: Sequence[Point], results: Sequence[PointResult]
) -> PointResult:
    failed = point.key.batch_per_worker
    assert failed is not None  # a point without it is skipped and meets no memory
    passed = [
        other.key.batch_per_worker
        for other, found in zip(points, results, strict=True)
        if found.values and other.key.batch_per_worker is not None and _differs_in_batch(point, other)
    ]
    smaller = [batch for batch in passed if batch < failed]
    hint = f"{max(smaller)} does" if smaller else "no smaller batch was measured"
    reason = f"batch {failed} per worker does not fit; {hint}: {result.reason}"
    return result.model_copy(update={"reason": conditions.clamped(reason, status_sizes.REASON_MAX)})


def _differs_in_batch(point: Point, other: Point) -> bool:
    """Whether two points are equal in all but their batch."""
    own = {"batch_per_worker": point.key.batch_per_worker, "global_batch": point.key.global_batch}
    return other.key.model_copy(update=own) == point.key
