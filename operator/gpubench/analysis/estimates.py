# SPDX-License-Identifier: Apache-2.0
"""Measured points, and amounts as a status holds them."""

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from gpubench.api.point_result import AmountInterval, Scaling
from gpubench.cost import price
from gpubench.cost.billing import CostInterval
from gpubench.plan.plan import Point
from gpubench.stats import efficiency
from gpubench.stats.efficiency import Among, Measured, Scale

_COST_MAX = Decimal(10) ** 12  # what the schema takes; the throughput may be as good as zero
_COST_PLACES = 9  # at most: a million samples of a small network cost thousandths of a cent
_COST_DIGITS = 12  # a status of 256 points has room for no more


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


def fits(amount: Decimal) -> bool:
    """Whether the schema takes an amount."""
    return amount < _COST_MAX


def amount_text(amount: Decimal) -> str | None:
    """An amount as status holds it; None for one that does not fit."""
    if not fits(amount):
        return None
    places = min(_COST_PLACES, max(0, _COST_DIGITS - 1 - amount.adjusted()))
    return f"{price.rounded(amount, digits=places):f}"


def amounts(cost: CostInterval) -> AmountInterval | None:
    """The amounts as status holds them: a bound that does not fit is left open, with a mean that does not, no cost."""

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None else amount_text(amount)

    mean = text(cost.mean)
    if mean is None:
        return None
    return AmountInterval(mean=mean, low=text(cost.low), high=text(cost.high), currency=cost.currency)


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
