# SPDX-License-Identifier: Apache-2.0
"""Measured points, and amounts as a status holds them."""

from dataclasses import dataclass
from functools import cached_property

from gpubench.api.point_result import Scaling
from gpubench.plan.plan import Point
from gpubench.stats import efficiency
from gpubench.stats.efficiency import Among, Measured, Scale


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint(Measured):
    """A point of a plan, measured."""

    point: Point

    @cached_property
    def scale(self) -> Scale:
        """Where the point is on its lines."""
        key = self.point.key
        return Scale(
            work=(key.workload, key.precision, key.data, key.variant, key.epochs, key.custom),
            pool=key.pool,
            workers=key.workers,
            nodes=self.point.nodes,
            batch_per_worker=key.batch_per_worker,
            global_batch=key.global_batch,
            lines=self.point.lines,
            is_one_node=key.node is not None,
        )


def scaling(entry: MeasuredPoint, *, among: Among[MeasuredPoint]) -> tuple[Scaling, ...]:
    """A point's efficiencies as a status has them, each against the smallest gang on its line."""
    return tuple(
        Scaling(
            kind=found.kind,
            baseline_workers=found.baseline_workers,
            baseline_pool=found.baseline_pool,
            efficiency=found.interval,
        )
        for found in efficiency.efficiencies(entry, among)
    )
