# SPDX-License-Identifier: Apache-2.0
"""What the bill of an attempt was paid for, part by part: the parts sum to the bill.

A provider bills a node from its start to its end, and only some of that time is measured work. The time of each node is
laid out along its line: the image is pulled, the pod waits for the gang's others, ranks start, warm up, measure; what
is left is idle. All that an attempt without a result was billed is lost work, whatever it was spent on. What rounding
up adds to the time, and fees, are parts of their own.

The clock starts when a pod has its node: waiting before that is waiting for a node that may not exist yet, and what
the life of the node costs before and after the pod is the cluster's, not the attempt's.

Must not happen: parts that sum to something else than the bill; time that nobody could tell apart given to one of them
(it is UNKNOWN). Timestamps of a cluster are whole seconds, so parts are cut off where a node's time ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from enum import StrEnum

from gpubench.cost import billing, derived
from gpubench.cost.billing import Terms
from gpubench.cost.refusals import RefusedInput
from gpubench.units import Formula


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


_NOTHING = Decimal(0)


@dataclass(frozen=True, kw_only=True)
class NodeTime:
    """How long a node was held, and when in that time its container started; None where nobody told."""

    held: Decimal
    started: Decimal | None = None  # seconds after the pod got the node
    joined: Decimal | None = None  # seconds after it got the node, when the gang's last pod had come, too
    is_lost: bool = False  # held by a run of the attempt that was ended before it came to anything


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


def of_attempt(terms: Terms, *, nodes: Sequence[NodeTime], work: Work | None, share: Decimal) -> Waterfall:
    """The bill of one attempt by what was paid for; without `work` it came to no result.

    `share` is the part of each node that it pays for.
    """
    bill = billing.attempt_bill(terms, node_seconds=[node.held for node in nodes], share=share)
    whole = bill.total
    if work is None:
        return Waterfall(parts={Part.LOST: whole.value}, total=whole.value, currency=whole.currency)
    a_second = terms.rate.per_node_hour * share / derived.SECONDS_PER_HOUR
    parts: dict[Part, Decimal] = {}
    for node in nodes:
        for part, seconds in spent(node, work):
            parts[part] = parts.get(part, _NOTHING) + seconds * a_second
    machines, *fees = (line.amount.value for line in bill.lines)
    # Never below nothing by the last digit of the arithmetic.
    parts[Part.ROUNDING] = max(_NOTHING, machines - sum(parts.values(), _NOTHING))
    if fees:
        parts[Part.FEES] = sum(fees, _NOTHING)
    return Waterfall(parts=parts, total=whole.value, currency=whole.currency)


TOTAL = Formula(
    text="bills of attempts",
    source="RaRe Technologies, 2018: the life of each node, rounded up by the provider's rule, and fees; attempts "
    "without a result, too",
)


def total(waterfalls: Sequence[Waterfall]) -> Waterfall:
    """Several attempts together; at least one, or nobody knows the currency."""
    if len({waterfall.currency for waterfall in waterfalls}) != 1:
        raise RefusedInput("bills are summed in one currency, and there are none or several: convert them first")
    parts: dict[Part, Decimal] = {}
    for waterfall in waterfalls:
        for part, paid in waterfall.parts.items():
            parts[part] = parts.get(part, _NOTHING) + paid
    return Waterfall(
        parts={part: parts[part] for part in Part if part in parts},
        total=sum((waterfall.total for waterfall in waterfalls), _NOTHING),
        currency=waterfalls[0].currency,
    )


def rounded(waterfall: Waterfall, *, digits: int) -> Waterfall:
    """The same with so many decimal places: the bill rounded half up, and parts that still sum to it.

    Largest remainders (Hamilton, 1792): parts are rounded down, and what is missing goes to those that lost most by it.
    """
    unit = Decimal(1).scaleb(-digits)
    whole = waterfall.total.quantize(unit, rounding=ROUND_HALF_UP)
    down = {part: paid.quantize(unit, rounding=ROUND_DOWN) for part, paid in waterfall.parts.items()}
    missing = int((whole - sum(down.values(), _NOTHING)) / unit)
    by_loss = sorted(down, key=lambda part: waterfall.parts[part] - down[part], reverse=True)
    for part in by_loss[:missing]:
        down[part] += unit
    return Waterfall(parts=down, total=whole, currency=waterfall.currency)


def spent(node: NodeTime, work: Work) -> Iterable[tuple[Part, Decimal]]:
    """The seconds of one node, part by part; they sum to what it was held."""
    if node.is_lost:
        yield Part.LOST, node.held
        return
    if node.started is None or node.joined is None:
        yield Part.UNKNOWN, node.held
        return
    line = [
        (Part.IMAGE_PULL, node.started),
        (Part.WAITING, max(_NOTHING, node.joined - node.started)),
        (Part.START_UP, work.start_up),
        *([] if work.warm_up is None else [(Part.WARM_UP, work.warm_up)]),
        (Part.MEASURED, work.measured),
    ]
    left = node.held
    for part, seconds in line:
        spent = min(seconds, left)
        yield part, spent
        left -= spent
    yield Part.UNKNOWN if work.warm_up is None else Part.IDLE, left
