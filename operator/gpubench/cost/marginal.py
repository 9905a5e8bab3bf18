# SPDX-License-Identifier: Apache-2.0
"""Marginal cost, and time to a goal, with their intervals: the formulas of `derived` at the ends of a measured one.

Billing rules, start-up and idle time belong to billed cost (`billing`). The bounds follow by monotony, so they have the
same confidence.
"""

from decimal import Decimal

from gpubench.cost import derived
from gpubench.cost.amount import Rate
from gpubench.values import Interval, Value

_MILLION = Decimal(1_000_000)


class CostInterval(Value):
    """An amount with its interval; low and high are absent where the throughput has no interval."""

    mean: Decimal
    low: Decimal | None = None
    high: Decimal | None = None
    currency: str


def per_samples(rate: Rate, *, nodes: Decimal, throughput: Interval, samples: Decimal) -> CostInterval:
    """Cost of so many samples; the fast end of the throughput is the cheap end.

    `nodes` is a fraction where a gang pays for its slots only. A lower bound of the throughput at or below zero leaves
    the upper end open.
    """

    def cost(samples_per_second: float) -> Decimal:
        return derived.cost_of_samples(rate, nodes=nodes, throughput=Decimal(samples_per_second), samples=samples).value

    return CostInterval(
        mean=cost(throughput.mean),
        low=cost(throughput.high) if throughput.high else None,
        high=cost(throughput.low) if throughput.low is not None and throughput.low > 0 else None,
        currency=rate.currency,
    )


def per_million_samples(rate: Rate, *, nodes: Decimal, throughput: Interval) -> CostInterval:
    """Cost of a million samples."""
    return per_samples(rate, nodes=nodes, throughput=throughput, samples=_MILLION)


def per_seconds(rate: Rate, *, nodes: Decimal, seconds: Interval) -> CostInterval:
    """Cost of a run of so many seconds. A lower bound at or below zero is no amount and stays open."""

    def cost(duration: float) -> Decimal:
        return derived.cost_of_run(rate, nodes=nodes, seconds=Decimal(duration)).value

    return CostInterval(
        mean=cost(seconds.mean),
        low=cost(seconds.low) if seconds.low is not None and seconds.low > 0 else None,
        high=None if seconds.high is None else cost(seconds.high),
        currency=rate.currency,
    )


def hours_to_samples(samples: int, *, throughput: Interval) -> Interval:
    """Hours until so many samples are trained; open above where the throughput may be zero."""

    def hours(samples_per_second: float) -> float:
        return float(derived.hours_to_samples(samples, throughput=Decimal(samples_per_second)))

    return Interval(
        mean=hours(throughput.mean),
        low=hours(throughput.high) if throughput.high else None,
        high=hours(throughput.low) if throughput.low is not None and throughput.low > 0 else None,
    )
