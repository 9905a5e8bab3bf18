# SPDX-License-Identifier: Apache-2.0
"""Marginal cost: the hourly rate over the throughput. Billing rules, start-up and idle time belong to billed cost."""

from decimal import Decimal

from gpubench.measure.intervals import Interval
from gpubench.money.amount import Rate
from gpubench.values import Value

_MILLION = Decimal(1_000_000)
_SECONDS_PER_HOUR = Decimal(3600)


class CostInterval(Value):
    """An amount with its interval; low and high are absent where the throughput has no interval."""

    mean: Decimal
    low: Decimal | None = None
    high: Decimal | None = None
    currency: str


def per_samples(rate: Rate, *, nodes: Decimal, throughput: Interval, samples: Decimal) -> CostInterval:
    """Cost of so many samples: rate x nodes x samples / throughput; the fast end of the throughput is the cheap end.

    `nodes` is a fraction where a gang pays for its slots only. The bounds follow from the throughput's by monotony, so
    they have the same confidence. A lower bound of the throughput at or below zero leaves the upper end open.
    """

    def cost(samples_per_second: float) -> Decimal:
        return rate.per_node_hour * nodes / _SECONDS_PER_HOUR / Decimal(samples_per_second) * samples

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
    """Cost of so many seconds: rate x nodes x seconds. A lower bound at or below zero is no amount and stays open."""

    def cost(duration: float) -> Decimal:
        return rate.per_node_hour * nodes / _SECONDS_PER_HOUR * Decimal(duration)

    return CostInterval(
        mean=cost(seconds.mean),
        low=cost(seconds.low) if seconds.low is not None and seconds.low > 0 else None,
        high=None if seconds.high is None else cost(seconds.high),
        currency=rate.currency,
    )
