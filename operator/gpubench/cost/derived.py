# SPDX-License-Identifier: Apache-2.0
"""What measured figures come to in money and time. One function for each formula, with the study that published it.

Everything here is marginal: a rate times the time that the work takes. What a provider rounds up, and fees, are
`billing`'s. Time and cost of a goal are a lower bound: evaluation, restarts and slower convergence at large batches
come on top. Intervals are `marginal`'s. Nothing is rounded here.

Must not happen: a ratio without the name of what it is relative to, or one of amounts in two currencies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from gpubench.cost import amount, refusals
from gpubench.cost.amount import Amount, Rate
from gpubench.cost.refusals import Number, RefusedInput
from gpubench.units import Formula

SECONDS_PER_HOUR = Decimal(3600)

_MEASURE_IT = "leave out what was not measured"


@dataclass(frozen=True, kw_only=True)
class SamplesPerUnit:
    """Samples that one unit of a currency buys: images per dollar."""

    samples: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True)
class Relative:
    """A ratio, and the name of what it is relative to: times as long, as dear or as fast as that."""

    ratio: Decimal
    base: str

    @property
    def percent_more(self) -> Decimal:
        """By how much it is more than its base; negative where it is less."""
        return (self.ratio - 1) * 100


def cost_of_hours(rate: Rate, *, nodes: Number, hours: Decimal) -> Amount:
    """Cost of so many hours: rate x nodes x hours.

    Parkopedia, 2018, its prices per day, week and month (24, 168 and 732 hours); RaRe Technologies, 2018, Table 1.
    `nodes` is a fraction where a gang pays for its slots only.
    """
    refusals.not_negative(hours, what="the time to pay for in hours", remedy="give hours of use")
    return Amount(value=rate.per_node_hour * _nodes(nodes) * hours, currency=rate.currency)


COST_OF_RUN = Formula(text="rate x nodes x seconds / 3600", source="Max Woolf, 2017; marginal, no billing rule")


def cost_of_run(rate: Rate, *, nodes: Number, seconds: Decimal) -> Amount:
    """Cost of a training run of so many seconds: rate x nodes x seconds / 3600 (Max Woolf, 2017)."""
    refusals.not_negative(seconds, what="the time of a run in seconds", remedy=_MEASURE_IT)
    return Amount(value=rate.per_node_hour * _nodes(nodes) * seconds / SECONDS_PER_HOUR, currency=rate.currency)


COST_OF_SAMPLES = Formula(
    text="rate x nodes x samples / throughput / 3600",
    source='Parkopedia, 2018, "cost of ImageNet"; marginal, no billing rule',
)


def cost_of_samples(rate: Rate, *, nodes: Number, throughput: Decimal, samples: Number) -> Amount:
    """Cost of so many samples: rate x nodes x samples / throughput / 3600 (Parkopedia, 2018, "cost of ImageNet")."""
    _positive_throughput(throughput)
    _samples(samples)
    value = rate.per_node_hour * _nodes(nodes) / SECONDS_PER_HOUR / throughput * samples
    return Amount(value=value, currency=rate.currency)


def samples_per_unit(rate: Rate, *, nodes: Number, throughput: Decimal) -> SamplesPerUnit:
    """Samples for one unit of money: throughput x 3600 / (rate x nodes) (Parkopedia, 2018, "images per dollar")."""
    _positive_throughput(throughput)
    refusals.positive(
        rate.per_node_hour,
        what="the price of one node for one hour",
        remedy="for nothing, money buys any number of samples; give a price to compare by",
    )
    samples = throughput * SECONDS_PER_HOUR / (rate.per_node_hour * _nodes(nodes))
    return SamplesPerUnit(samples=samples, currency=rate.currency)


def gain(one: SamplesPerUnit, *, over: SamplesPerUnit) -> Decimal:
    """How many times as many samples a unit of money buys here as there.

    Parkopedia, 2018, "gain"; Initialized Capital, 2017, "cost-adjusted" speed: speed ratio x price ratio.
    """
    if one.currency != over.currency:
        raise RefusedInput(
            f"samples per {one.currency} and samples per {over.currency} cannot be compared: convert one price by a "
            "dated exchange rate first"
        )
    return one.samples / over.samples


HOURS_TO_SAMPLES = Formula(
    text="samples / throughput / 3600",
    source='Parkopedia, 2018, "time to ImageNet"; a lower bound: evaluation, restarts and slower convergence at large '
    "batches come on top",
)


def hours_to_samples(samples: Number, *, throughput: Decimal) -> Decimal:
    """Hours until so many samples are trained: samples / throughput / 3600 (Parkopedia, 2018, "time to ImageNet")."""
    _positive_throughput(throughput)
    return _samples(samples) / throughput / SECONDS_PER_HOUR


def samples_of_steps(steps: Number, *, global_batch: Number) -> Decimal:
    """Samples in so many steps: steps x global batch (Parkopedia, 2018: batch x iterations of the papers' training)."""
    return _samples(steps, what="the number of steps") * _samples(global_batch, what="the global batch")


def samples_of_epochs(epochs: Number, *, samples_per_epoch: Number) -> Decimal:
    """Samples in so many epochs: epochs x samples of the training set."""
    return _samples(epochs, what="the number of epochs") * _samples(samples_per_epoch, what="the samples of an epoch")


def relative_time(seconds: Decimal, *, base_seconds: Decimal, base: str) -> Relative:
    """Times as long as the base: seconds / base seconds (Max Woolf, 2017, relative to TensorFlow on a K80)."""
    refusals.positive(seconds, what="a time in seconds", remedy=_MEASURE_IT)
    refusals.positive(base_seconds, what=f"the time of {base} in seconds", remedy=_MEASURE_IT)
    return Relative(ratio=seconds / base_seconds, base=base)


def relative_speed(seconds: Decimal, *, base_seconds: Decimal, base: str) -> Relative:
    """Times as fast as the base: base seconds / seconds (RaRe Technologies, 2018, two GPUs against one)."""
    refusals.positive(seconds, what="a time in seconds", remedy=_MEASURE_IT)
    refusals.positive(base_seconds, what=f"the time of {base} in seconds", remedy=_MEASURE_IT)
    return Relative(ratio=base_seconds / seconds, base=base)


#: Of times as long; the prices are those of all nodes for the same hour.
RELATIVE_COST = Formula(
    text="relative time x rate x nodes / (base rate x base nodes)",
    source="Max Woolf, 2017, relative to TensorFlow on a K80: (seconds x price) / (base seconds x base price)",
)


def relative_cost(cost: Amount, *, base_cost: Amount, base: str) -> Relative:
    """Times as dear as the base: cost / base cost.

    Max Woolf, 2017, relative to TensorFlow on a K80: (seconds x price) / (base seconds x base price).
    """
    amount.common_currency(cost, base_cost)
    refusals.not_negative(cost.value, what="a cost", remedy="give what is paid")
    refusals.positive(
        base_cost.value,
        what=f"the cost of {base}",
        remedy="nothing is a multiple of what costs nothing; choose a base that has a price",
    )
    return Relative(ratio=cost.value / base_cost.value, base=base)


def between(one: Relative, *, other: Relative, name: str) -> Relative:
    """One figure relative to another of the same base, which the name calls; the base itself cancels out.

    Initialized Capital, 2017: 167 and 43 times a laptop are 3.88 times one another. Max Woolf, 2017: the cheapest GPU
    relative to the cheapest processors, both printed relative to a K80.
    """
    if one.base != other.base:
        raise RefusedInput(
            f"a figure relative to {one.base} cannot be compared with one relative to {other.base}: give both of them "
            "relative to the same base"
        )
    refusals.positive(other.ratio, what=f"{name} relative to {other.base}", remedy=_MEASURE_IT)
    return Relative(ratio=one.ratio / other.ratio, base=name)


def scaling_cost(
    efficiency: Decimal, *, workers: int, base_workers: int, hour: Amount, base_hour: Amount, base: str
) -> Relative:
    """What a sample costs on many workers relative to the base: (hour / base hour) x (b / n) / E(n).

    `hour` is what all the workers cost for one. At a price in proportion to the workers it is 1 / E(n): what is lost in
    scaling is paid for (Parkopedia, 2018, p3.8xlarge against p3.2xlarge, at exactly four times the price).
    """
    refusals.positive(efficiency, what="a scaling efficiency", remedy=_MEASURE_IT)
    refusals.positive(base_workers, what=f"the number of workers of {base}", remedy="count at least one")
    refusals.positive(workers, what="the number of workers", remedy="count at least one")
    dearer = relative_cost(hour, base_cost=base_hour, base=base).ratio
    return Relative(ratio=dearer * base_workers / workers / efficiency, base=base)


def efficiency_in_money(cost: Amount, *, base_cost: Amount, base: str) -> Decimal:
    """Scaling efficiency in money: what a sample costs on the base over what it costs on many workers.

    1 where a sample costs the same on all of them; of one pool of equal slots it is the scaling efficiency itself.
    Parkopedia, 2018, compares images per dollar in the same way. The costs are of equally many samples.
    """
    refusals.positive(cost.value, what="the cost on many workers", remedy="give a price to compare by")
    return 1 / relative_cost(cost, base_cost=base_cost, base=base).ratio


def mean_efficiency(efficiencies: Sequence[Decimal]) -> Decimal:
    """The mean efficiency over a set of pairs of machines, each weighing the same (Parkopedia, 2018)."""
    if not efficiencies:
        raise RefusedInput("a mean efficiency needs at least one pair of machines, and there is none: measure one")
    for efficiency in efficiencies:
        refusals.positive(efficiency, what="a scaling efficiency", remedy=_MEASURE_IT)
    return sum(efficiencies, Decimal(0)) / len(efficiencies)


def extrapolated(single: Decimal, *, times: Number, efficiencies: Sequence[Decimal]) -> Decimal:
    """The throughput of many times one: n x single x mean efficiency of other machines.

    Parkopedia, 2018, four GTX 1080 Ti from one. It has no interval: how other machines scatter says nothing certain
    about this one.
    """
    _positive_throughput(single)
    refusals.positive(times, what="how many times the one that was measured", remedy="count at least one")
    return times * single * mean_efficiency(efficiencies)


def _nodes(nodes: Number) -> Decimal:
    return refusals.positive(nodes, what="the number of nodes", remedy="pay for a part of one at least")


def _positive_throughput(throughput: Decimal) -> None:
    refusals.positive(throughput, what="a throughput in samples per second", remedy=_MEASURE_IT)


def _samples(count: Number, *, what: str = "the number of samples") -> Decimal:
    return refusals.positive(count, what=what, remedy="count at least one")
