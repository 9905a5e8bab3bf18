# SPDX-License-Identifier: Apache-2.0
"""Figures over those of the point that `spec.baseline` names, as columns of a table, as a note, and for programs."""

from collections.abc import Sequence

from gpubench.api.point_result import PointResult, Relative
from gpubench.report import text
from gpubench.units import workers_text
from gpubench.values import Interval

TIME, COST = "RELATIVE TIME", "RELATIVE COST"
FLAT_FIELDS = (
    "relative_baseline_pool", "relative_baseline_workers",
    "relative_throughput", "relative_throughput_low", "relative_throughput_high",
    "relative_time", "relative_time_low", "relative_time_high",
    "relative_cost", "relative_cost_low", "relative_cost_high",
)  # fmt: skip


def time(point: PointResult) -> str:
    """The cell of RELATIVE TIME."""
    return text.UNDEFINED if point.relative is None else _cell(point.relative, point.relative.time)


def cost(point: PointResult) -> str:
    """The cell of RELATIVE COST."""
    return text.UNDEFINED if point.relative is None else _cell(point.relative, point.relative.cost)


def _cell(relative: Relative, estimate: Interval | None) -> str:
    return text.relative(estimate, base=relative.baseline_pool is None)


def titles(points: Sequence[PointResult]) -> tuple[str, ...]:
    """The columns that a table of these points has: none without a baseline."""
    told = [point.relative for point in points if point.relative is not None]
    costs = (COST,) if any(one.cost is not None for one in told) else ()
    return (TIME, *costs) if told else ()


def note(points: Sequence[PointResult]) -> str | None:
    """What the columns are relative to; None without them."""
    found = titles(points)
    if not found:
        return None
    bases = {
        (one.baseline_pool, one.baseline_workers)
        for point in points
        if (one := point.relative) is not None and one.baseline_pool is not None and one.baseline_workers is not None
    }
    base = "the point that spec.baseline names"
    if len(bases) == 1:
        [(pool, workers)] = bases
        base = f"{workers_text(workers or 0)} on {pool}"
    are = "is" if len(found) == 1 else "are"
    return (
        f"{' and '.join(found)} {are} in multiples of {base} for the same samples of the same workload, with 95 % "
        "intervals; what spec.baseline does not name is the same for both."
    )


def flat(point: PointResult) -> dict[str, object]:
    """For programs, nothing rounded; the base itself has its own place."""
    relative = point.relative
    if relative is None:
        return {}
    return {
        "relative_baseline_pool": relative.baseline_pool or point.pool,
        "relative_baseline_workers": relative.baseline_workers or point.workers,
        **_estimate("relative_throughput", relative.throughput),
        **_estimate("relative_time", relative.time),
        **_estimate("relative_cost", relative.cost),
    }


def _estimate(name: str, estimate: Interval | None) -> dict[str, object]:
    if estimate is None:
        return {}
    return {name: estimate.mean, f"{name}_low": estimate.low, f"{name}_high": estimate.high}
