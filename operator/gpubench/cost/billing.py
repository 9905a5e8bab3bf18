# SPDX-License-Identifier: Apache-2.0
"""What work costs: marginal cost and time, what a run is billed, and what the bill was paid for.

Marginal cost is a rate times the time that the work takes. Clouds bill a node from its start to its end: what is billed
is never less, and the two are never mixed. Nothing is rounded but what the provider rounds.
Must not happen: node-seconds of several nodes added before they are rounded up.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Literal, NamedTuple, TypeVar

from gpubench.cost import price
from gpubench.cost.price import Amount, Number, Rate
from gpubench.units import Formula
from gpubench.values import Interval, IntervalOf

SECONDS_PER_HOUR = Decimal(3600)
MILLION = Decimal(1_000_000)
_NOTHING = Decimal(0)
_Figure = TypeVar("_Figure")


# --- marginal cost ----------------------------------------------------------------------------------------------------


def cost_of_hours(rate: Rate, *, nodes: Number, hours: Decimal) -> Amount:
    """Cost of so many hours: rate x nodes x hours; `nodes` is a fraction where a gang pays for its slots only.

    Parkopedia, 2018, its prices per day, week and month (24, 168 and 732 hours); RaRe Technologies, 2018, Table 1.
    """
    return Amount(value=rate.per_node_hour * nodes * hours, currency=rate.currency)


COST_OF_RUN = Formula(text="rate x nodes x seconds / 3600", source="Max Woolf, 2017; marginal, no billing rule")


def cost_of_run(rate: Rate, *, nodes: Number, seconds: Decimal) -> Amount:
    """Cost of a training run of so many seconds, by COST_OF_RUN."""
    return Amount(value=rate.per_node_hour * nodes * seconds / SECONDS_PER_HOUR, currency=rate.currency)


COST_OF_SAMPLES = Formula(
    text="rate x nodes x samples / throughput / 3600",
    source='Parkopedia, 2018, "cost of ImageNet"; marginal, no billing rule',
)


def cost_of_samples(rate: Rate, *, nodes: Number, throughput: Decimal, samples: Number) -> Amount:
    """Cost of so many samples, by COST_OF_SAMPLES."""
    return Amount(value=rate.per_node_hour * nodes / SECONDS_PER_HOUR / throughput * samples, currency=rate.currency)


HOURS_TO_SAMPLES = Formula(
    text="samples / throughput / 3600",
    source='Parkopedia, 2018, "time to ImageNet"; a lower bound: evaluation, restarts and slower convergence at large '
    "batches come on top",
)


def hours_to_samples(samples: Number, *, throughput: Decimal) -> Decimal:
    """Hours until so many samples are trained, by HOURS_TO_SAMPLES."""
    return samples / throughput / SECONDS_PER_HOUR


class CostInterval(IntervalOf[Decimal]):
    """An amount with its interval. Its bounds follow by monotony from those of what was measured."""

    currency: str


def cost_of_samples_interval(
    rate: Rate, *, nodes: Decimal, throughput: Interval, samples: Decimal = MILLION
) -> CostInterval:
    found = _falling(
        throughput, lambda each: cost_of_samples(rate, nodes=nodes, throughput=Decimal(each), samples=samples).value
    )
    return CostInterval(**dict(found), currency=rate.currency)


def cost_of_run_interval(rate: Rate, *, nodes: Decimal, seconds: Interval) -> CostInterval:
    found = seconds.each(lambda duration: cost_of_run(rate, nodes=nodes, seconds=Decimal(duration)).value)
    return CostInterval(**dict(found), currency=rate.currency)


def hours_to_samples_interval(samples: int, *, throughput: Interval) -> Interval:
    found = _falling(throughput, lambda each: float(hours_to_samples(samples, throughput=Decimal(each))))
    return Interval(**dict(found))


def _falling(throughput: Interval, figure: Callable[[float], _Figure]) -> IntervalOf[_Figure]:
    """A figure that falls with the throughput, at its mean and at both of its ends."""
    found = throughput.each(figure)
    return IntervalOf(mean=found.mean, low=found.high, high=found.low)


# --- bills ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class BillingRule:
    """How a provider counts the time of a node. RaRe Technologies, 2018, lists 1 ms, 1 s, 1 min and 1 h."""

    increment_seconds: Decimal = Decimal(1)
    minimum_seconds: Decimal = Decimal(0)


BY_THE_SECOND = BillingRule()


@dataclass(frozen=True, kw_only=True)
class Fee:
    """What is paid beside the machine: a disk, a licence, a subscription."""

    name: str
    amount: Amount
    per: Literal["Run", "Hour", "Month"]  # what it is asked for


class BillLine(NamedTuple):
    """One line of a bill."""

    name: str
    amount: Amount


class Bill(NamedTuple):
    """What is billed, line by line."""

    lines: tuple[BillLine, ...]

    @property
    def total(self) -> Amount:
        return price.total([line.amount for line in self.lines])


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a pool's nodes are billed by, in one currency; `setup`, paid once, is in no attempt's bill."""

    rate: Rate
    rule: BillingRule = BY_THE_SECOND
    fees: tuple[Fee, ...] = ()
    setup: Amount | None = None
    hours_per_month: Decimal | None = None  # that a fee per month is spread over

    @property
    def fees_per_node_hour(self) -> Amount | None:
        """What the fees of hours and months come to in an hour of a node; None without any."""
        hourly = [fee for fee in self.fees if fee.per != "Run"]
        return price.total([self.share_of_fee(fee, hours=Decimal(1)) for fee in hourly]) if hourly else None

    @property
    def with_fees(self) -> Decimal:
        """What an hour of a node costs with them."""
        return self.rate.per_node_hour + (_NOTHING if (fees := self.fees_per_node_hour) is None else fees.value)

    def share_of_fee(self, fee: Fee, *, hours: Decimal) -> Amount:
        """What a fee comes to in so many billed hours.

        A fee per hour is asked for each billed hour of each node. A fee per month (RaRe Technologies, 2018:
        Paperspace's flat fee) is spread over `hours_per_month`, the hours that are paid for in a month.
        """
        match fee.per:
            case "Run":
                return fee.amount
            case "Hour":
                return fee.amount.times(hours)
            case "Month":
                assert self.hours_per_month is not None  # a rule of the price: a fee per month has them
                return Amount(value=fee.amount.value * hours / self.hours_per_month, currency=fee.amount.currency)


def billed_seconds(seconds: Decimal, *, rule: BillingRule) -> Decimal:
    """Node-seconds that are paid for: at least the minimum, rounded up to whole increments.

    RaRe Technologies, 2018: Softlayer billed 3.16 hours as 4. Max Woolf, 2018: with a minimum of ten minutes, a task of
    two minutes costs five times as much. A node that was never there is not billed.
    """
    if seconds == 0:
        return _NOTHING
    increments = max(seconds, rule.minimum_seconds) / rule.increment_seconds
    return increments.to_integral_value(rounding=ROUND_CEILING) * rule.increment_seconds


def attempt_bill(terms: Terms, *, node_seconds: Sequence[Decimal], share: Decimal = Decimal(1)) -> Bill:
    """The bill of one attempt: its nodes' time by the provider's rule, and its fees; setup is not in it.

    `node_seconds` has one entry for each node that it held, `share` is the part of each that it pays for, where others
    pay for the rest. Where no node was held nothing is billed, not even a fee that is asked for a run.
    """
    hours = sum((billed_seconds(life, rule=terms.rule) for life in node_seconds), _NOTHING) / SECONDS_PER_HOUR * share
    fees = terms.fees if any(life > 0 for life in node_seconds) else ()
    machines = BillLine("machines", cost_of_hours(terms.rate, nodes=1, hours=hours))
    return Bill((machines, *(BillLine(fee.name, terms.share_of_fee(fee, hours=hours)) for fee in fees)))


# --- what a bill was paid for -----------------------------------------------------------------------------------------
#
# A provider bills a node from its start to its end, and only some of that time is measured work. The time of each node
# is laid out along its line: the image is pulled, the pod waits for the gang's others, ranks start, warm up, measure;
# what is left is idle. All that an attempt without a result was billed is lost work, whatever it was spent on. What
# rounding up adds to the time, and fees, are parts of their own.
#
# The clock starts when a pod has its node: waiting before that is waiting for a node that may not exist yet, and what
# the life of the node costs before and after the pod is the cluster's, not the attempt's.
#
# Must not happen: parts that sum to something else than the bill; time of an unknown kind given to one of them.
# Timestamps of a cluster are whole seconds, so parts are cut off where a node's time ends.


class Part(StrEnum):
    """What money was paid for, in the order in which it is spent. Values are the fields of a status."""

    IMAGE_PULL = "image_pull"  # from the pod's placement to its container's start: image, volumes, sandbox
    WAITING = "waiting"  # for the gang's other pods
    START_UP = "start_up"  # of the ranks: imports, rendezvous, model, first step
    WARM_UP = "warm_up"
    MEASURED = "measured"
    IDLE = "idle"  # of a node whose attempt has a result: checks, gaps, the end
    LOST = "lost"  # attempts without a result
    UNKNOWN = "unknown"
    ROUNDING = "rounding"  # what the provider's increment and minimum add
    FEES = "fees"


@dataclass(frozen=True, kw_only=True)
class NodeTime:
    """How long a node was held, and when in that time its container started; None where that is unknown."""

    held: Decimal
    started: Decimal | None = None  # seconds after the pod got the node
    joined: Decimal | None = None  # seconds after it got the node, when the gang's last pod had come, too
    is_lost: bool = False  # held by a run of the attempt that was ended before it came to anything

    def parts(self, work: "Work") -> Iterable[tuple[Part, Decimal]]:
        """Its seconds, part by part; they sum to what it was held."""
        if self.is_lost:
            yield Part.LOST, self.held
            return
        if self.started is None or self.joined is None:
            yield Part.UNKNOWN, self.held
            return
        line = [
            (Part.IMAGE_PULL, self.started),
            (Part.WAITING, max(_NOTHING, self.joined - self.started)),
            (Part.START_UP, work.start_up),
            *([] if work.warm_up is None else [(Part.WARM_UP, work.warm_up)]),
            (Part.MEASURED, work.measured),
        ]
        left = self.held
        for part, seconds in line:
            spent = min(seconds, left)
            yield part, spent
            left -= spent
        yield Part.UNKNOWN if work.warm_up is None else Part.IDLE, left


@dataclass(frozen=True, kw_only=True)
class Work:
    """What the gang of an attempt with a result did after its pods had met, in seconds."""

    start_up: Decimal
    measured: Decimal
    warm_up: Decimal | None = None  # None where it was not recorded


@dataclass(frozen=True, kw_only=True)
class Waterfall:
    """A bill by what was paid for, all of it in one currency; of a part that is absent there was none."""

    parts: Mapping[Part, Decimal]
    total: Decimal
    currency: str

    def rounded(self, *, digits: int) -> "Waterfall":
        """The same with so many decimal places: the bill rounded half up, and parts that still sum to it.

        Largest remainders (Hamilton, 1792): parts are rounded down, and what is missing goes to those that lost most
        by it.
        """
        unit = Decimal(1).scaleb(-digits)
        whole = self.total.quantize(unit, rounding=ROUND_HALF_UP)
        down = {part: paid.quantize(unit, rounding=ROUND_DOWN) for part, paid in self.parts.items()}
        missing = int((whole - sum(down.values(), _NOTHING)) / unit)
        by_loss = sorted(down, key=lambda part: self.parts[part] - down[part], reverse=True)
        for part in by_loss[:missing]:
            down[part] += unit
        return Waterfall(parts=down, total=whole, currency=self.currency)


def waterfall(terms: Terms, *, nodes: Sequence[NodeTime], work: Work | None, share: Decimal) -> Waterfall:
    """An attempt's bill by what was paid for; without `work` it has no result. It pays for `share` of each node."""
    bill = attempt_bill(terms, node_seconds=[node.held for node in nodes], share=share)
    whole = bill.total
    if work is None:
        return Waterfall(parts={Part.LOST: whole.value}, total=whole.value, currency=whole.currency)
    a_second = terms.rate.per_node_hour * share / SECONDS_PER_HOUR
    parts: dict[Part, Decimal] = defaultdict(Decimal)
    for node in nodes:
        for part, seconds in node.parts(work):
            parts[part] += seconds * a_second
    machines, *fees = (line.amount.value for line in bill.lines)
    # Never below nothing by the last digit of the arithmetic.
    parts[Part.ROUNDING] = max(_NOTHING, machines - sum(parts.values(), _NOTHING))
    if fees:
        parts[Part.FEES] = sum(fees, _NOTHING)
    return Waterfall(parts=parts, total=whole.value, currency=whole.currency)


BILL_TOTAL = Formula(
    text="bills of attempts",
    source="RaRe Technologies, 2018: the life of each node, rounded up by the provider's rule, and fees; attempts "
    "without a result, too",
)


def combined(waterfalls: Sequence[Waterfall]) -> Waterfall:
    """Several attempts at one point together; at least one, or nobody knows the currency."""
    parts = {part: [one.parts[part] for one in waterfalls if part in one.parts] for part in Part}
    return Waterfall(
        parts={part: sum(paid, _NOTHING) for part, paid in parts.items() if paid},
        total=sum((one.total for one in waterfalls), _NOTHING),
        currency=waterfalls[0].currency,
    )
