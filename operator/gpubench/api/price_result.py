# SPDX-License-Identifier: Apache-2.0
"""Prices that a benchmark counted with, what it has spent, and how pools compare in money."""

from pydantic import Field

from gpubench.api.status_sizes import CLOCK_MAX, NODES_SENTENCE_MAX, SENTENCE_MAX, SOURCE_MAX
from gpubench.units import DecimalText
from gpubench.values import FrozenModel


class PriceUsed(FrozenModel):
    """A price that costs stand on: the pool's as it was when the benchmark was planned, in the benchmark's currency."""

    pool: str = Field(max_length=63, description="GpuPool.")
    per_node_hour: DecimalText = Field(description="One node for one hour.")
    currency: str = Field(max_length=3, description="ISO 4217 code of all amounts here.")
    as_of: str = Field(max_length=10, description="Day on which it was read.")
    source: str | None = Field(None, max_length=SOURCE_MAX, description="Where it was read.")
    discount: DecimalText | None = Field(None, description="Share that a contract takes off; it is off these prices.")
    low: DecimalText | None = Field(None, description="Lowest price of a node for one hour in `period`.")
    high: DecimalText | None = Field(None, description="Highest price of a node for one hour in `period`.")
    period: str | None = Field(None, max_length=21, description="When the price moved between them.")
    setup: DecimalText | None = Field(None, description="Paid once before the first run, and in no point's bill.")
    exchange_rate: DecimalText | None = Field(
        None, description="What one unit of the pool's currency is in the benchmark's."
    )
    exchanged_from: str | None = Field(None, max_length=3, description="The pool's own currency, where it differs.")
    exchange_as_of: str | None = Field(None, max_length=10, description="Day of the exchange rate.")


class SpotResult(FrozenModel):
    """What a spot pool saves against its onDemandCounterpart."""

    discount: float = Field(description="By price: 1 - spot / on demand.")
    realised: float | None = Field(
        None,
        description="Net of the node-hours of preempted attempts that no later attempt went on from. It and what else "
        "stands on these hours is absent where pods were gone before their end was seen.",
    )
    price_per_useful_hour: DecimalText | None = Field(None, description="Price of a node's hour with a result.")
    interruptions: int = Field(description="Attempts that were preempted.")
    interruptions_per_node_hour: float | None = Field(
        None, description="Per node-hour of attempts that were preempted or have a result, to hold against break-even."
    )
    break_even_interruptions: float | None = Field(None, description="Rate at which spot costs as much.")


class OwningResult(FrozenModel):
    """An own machine against a rented node, by the point that both measured alike on the most workers."""

    workload: str = Field(max_length=63, description="Workload of that point.")
    workers: int = Field(description="Workers of that point.")
    relative_speed: float = Field(description="Throughput of one own node over that of one rented node.")
    hours_per_month: float | None = Field(None, description="Hours of use from which owning is cheaper, if any.")
    days_per_month: float | None = Field(None, description="The same in days of use.")
    payback_days: float | None = Field(None, description="Days of continuous use that pay for the purchase, if any.")
    gain: float = Field(description="Samples that money buys on the own machine over those on the rented one.")


class PoolComparison(FrozenModel):
    """Two pools beside each other in money."""

    pool: str = Field(max_length=63, description="GpuPool.")
    other: str = Field(max_length=63, description="GpuPool that it is held against.")
    spot: SpotResult | None = Field(None, description="Where `pool` is a spot pool and `other` its counterpart.")
    owning: OwningResult | None = Field(None, description="Where `pool` is owned and `other` rented.")
    sentence: str = Field(max_length=SENTENCE_MAX, description="The same in words, or why nothing can be told.")


class NodesSpent(FrozenModel):
    """Nodes that came while the benchmark ran, from creation to removal or its end: idle time is in it."""

    count: int = Field(description="Nodes of the benchmark's pools that were created after its start.")
    node_hours: float = Field(description="Hours of all of them.")
    amount: DecimalText = Field(description="By the pools' prices and billing rules, without what is paid once.")
    sentence: str = Field(max_length=NODES_SENTENCE_MAX, description="The same in words, and what follows its end.")


class Spent(FrozenModel):
    """What the benchmark's attempts were billed so far, those that failed or were preempted included: an estimate."""

    amount: DecimalText = Field(description="Decimal number.")
    currency: str = Field(max_length=3, description="ISO 4217 code.")
    shown: str = Field(
        default_factory=lambda fields: f"{fields['currency']} {fields['amount']}",
        max_length=32,
        description="The SPENT column, such as USD 0.00673.",
    )
    estimate: bool = Field(True, description="Always true: what the provider bills is known to the provider.")
    clock: str = Field(max_length=CLOCK_MAX, description="What of the nodes' time is counted, in words.")
    assumed_attempts: int = Field(
        0, description="Attempts of which a pod's end was not seen: a grace period, or all its time, is assumed."
    )
    unpriced_attempts: int = Field(0, description="Attempts on pools without a price: they are not in the amount.")
    nodes: NodesSpent | None = Field(None, description="What nodes cost that came meanwhile; not in the amount.")
