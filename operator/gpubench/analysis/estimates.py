# SPDX-License-Identifier: Apache-2.0
"""Intervals and amounts as a status holds them, and back."""

from collections.abc import Sequence
from decimal import Decimal

from gpubench.api.point_result import AmountInterval, Estimate, Scaling
from gpubench.cost import price
from gpubench.cost.marginal import CostInterval
from gpubench.stats import efficiency
from gpubench.stats.efficiency import MeasuredPoint
from gpubench.stats.intervals import Interval

_COST_MAX = Decimal(10) ** 12  # what the schema takes; the throughput may be as good as zero
_COST_PLACES = 9  # at most: a million samples of a small network cost thousandths of a cent
_COST_DIGITS = 12  # a status of 256 points has room for no more


def estimate(interval: Interval) -> Estimate:
    """An interval as a status holds it."""
    return Estimate(mean=interval.mean, low=interval.low, high=interval.high)


def interval(estimate: Estimate) -> Interval:
    """An interval as it is computed with."""
    return Interval(mean=estimate.mean, low=estimate.low, high=estimate.high)


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


def scaling(entry: MeasuredPoint, *, among: Sequence[MeasuredPoint]) -> tuple[Scaling, ...]:
    """A point's efficiencies as a status has them, each against the smallest gang on its line."""
    return tuple(
        Scaling(
            kind=found.kind,
            baseline_workers=found.baseline_workers,
            baseline_pool=found.baseline_pool,
            efficiency=estimate(found.interval),
        )
        for found in efficiency.efficiencies(entry, among)
    )
