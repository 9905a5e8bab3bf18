# SPDX-License-Identifier: Apache-2.0
"""What a study was billed, point by point and part by part, and the prices that its costs stand on, for people."""

from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.point_result import PointBill, PointResult
from gpubench.api.price_result import PriceUsed, Spent
from gpubench.report import tables, text
from gpubench.report.tables import Column, Table

#: Fields of a bill's parts, and what a table calls them, in the order in which the money is spent.
PARTS = {
    "image_pull": "PULL",
    "waiting": "WAITING",
    "start_up": "START-UP",
    "warm_up": "WARM-UP",
    "measured": "MEASURED",
    "idle": "IDLE",
    "lost": "LOST",
    "unknown": "UNKNOWN",
    "rounding": "ROUNDING",
    "fees": "FEES",
}
NOTE = (
    "BILLED is what all attempts at a point are billed, those without a result too; the parts are percent of it. The "
    "clock runs from when a pod has its node until it has ended: a provider bills the node's whole life."
)
MEANINGS = {
    "image_pull": "PULL: image and volumes, until the container starts.",
    "waiting": "WAITING: for the other pods of the gang.",
    "idle": "IDLE: all else of attempts with a result: checks, gaps, the end.",
    "lost": "LOST: everything of attempts that came to no result.",
    "unknown": "UNKNOWN: time that nobody could tell apart.",
    "rounding": "ROUNDING: what the provider's increment and minimum add.",
}
INCOMPLETE_NOTE = "≥: the pods of some attempts were gone when the operator looked; their bill is at least that."
NO_BILL = "Nothing was billed: no attempt has ended on a pool that has a price."
_PERCENT_PLACES = Decimal("0.1")


def table(points: Sequence[PointResult]) -> Table | None:
    """One line for each point that has a bill; None where no point has one."""
    billed = [(point, point.bill) for point in points if point.bill is not None]
    if not billed:
        return None
    told = [name for name in PARTS if any(getattr(bill.parts, name) is not None for _, bill in billed)]
    numeric = ("BILLED", "PER RUN", "ATTEMPTS", *(f"{PARTS[name]} %" for name in told))
    notes = [NOTE, *(MEANINGS[name] for name in told if name in MEANINGS)]
    if any(bill.incomplete for _, bill in billed):
        notes.append(INCOMPLETE_NOTE)
    return Table(
        columns=(Column(title="POINT"), *(Column(title=title, numeric=True) for title in numeric)),
        rows=tuple((tables.describe(point), *_row(bill, told)) for point, bill in billed),
        notes=tuple(notes),
    )


def totals(points: Sequence[PointResult], prices: Sequence[PriceUsed]) -> tuple[str, ...]:
    """What all points together were billed and what of it was lost, in a sentence for each currency; setup too."""
    bills = [point.bill for point in points if point.bill is not None]
    pools = {point.pool for point in points if point.bill is not None}
    found = []
    for currency in dict.fromkeys(bill.currency for bill in bills):
        alike = [bill for bill in bills if bill.currency == currency]
        setups = [Decimal(one.setup) for one in prices if one.setup and one.currency == currency and one.pool in pools]
        paid = sum((Decimal(bill.total) for bill in alike), sum(setups, Decimal(0)))
        lost = sum((Decimal(bill.parts.lost) for bill in alike if bill.parts.lost is not None), Decimal(0))
        attempts = _attempts(sum(bill.attempts for bill in alike))
        setup = f", {currency} {_number(sum(setups, Decimal(0)))} of it for setup" if setups else ""
        found.append(
            f"Billed for {attempts}: {currency} {_number(paid)}{setup}; "
            f"{currency} {_number(lost)} for attempts without a result."
        )
    return tuple(found)


def spent(found: Spent) -> str:
    """What the study has spent so far, by which clock, and what of it is assumed or not counted."""
    notes = [found.clock]
    if found.assumed_attempts:
        notes.append(f"of {_attempts(found.assumed_attempts)} the end of a pod was not seen")
    if found.unpriced_attempts:
        notes.append(f"{_attempts(found.unpriced_attempts)} without a price not counted")
    return f"Spent: about {found.currency} {found.amount} ({'; '.join(notes)})."


def price_sentences(prices: Iterable[PriceUsed]) -> tuple[str, ...]:
    """One line for each price: what it is, of which day, from where, and between what it has moved."""
    return tuple(_price_sentence(one) for one in prices)


def _price_sentence(one: PriceUsed) -> str:
    parts = [f"{one.currency} {_number(Decimal(one.per_node_hour))} per node-hour, read {one.as_of}"]
    if one.source:
        parts[0] += f" ({one.source})"
    if one.low is not None and one.high is not None:
        low, high = (_number(Decimal(text)) for text in (one.low, one.high))
        parts.append(f"between {low} and {high} in {one.period}")
    if one.exchange_rate is not None:
        parts.append(f"1 {one.exchanged_from} = {one.exchange_rate} {one.currency} on {one.exchange_as_of}")
    if one.setup is not None:
        parts.append(f"setup {one.currency} {_number(Decimal(one.setup))} once")
    return f"Price of {one.pool}: {'; '.join(parts)}"


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"


def _row(bill: PointBill, told: Sequence[str]) -> tuple[str, ...]:
    total = Decimal(bill.total)
    at_least = "≥ " if bill.incomplete else ""
    return (
        f"{at_least}{bill.currency} {_number(total)}",
        text.UNDEFINED if bill.per_run is None else f"{bill.currency} {_number(Decimal(bill.per_run))}",
        str(bill.attempts),
        *(_percent(getattr(bill.parts, name), of=total) for name in told),
    )


def _percent(amount: str | None, *, of: Decimal) -> str:
    """A dash where the part was not told, and where the bill is nothing."""
    if amount is None or of == 0:
        return text.UNDEFINED
    share = 100 * Decimal(amount) / of
    return f"{share.quantize(_PERCENT_PLACES, rounding=ROUND_HALF_UP):f}"


def _number(amount: Decimal) -> str:
    """As many digits as the amount has, without zeros at its end."""
    shown = f"{amount:,f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
