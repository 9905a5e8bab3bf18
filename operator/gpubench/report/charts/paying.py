# SPDX-License-Identifier: Apache-2.0
"""What the bill of a study was paid for, from the image's pull to the fees, as a waterfall that ends with the bill.

Must not happen: a bill and a marginal cost in one chart, or parts that do not sum to the bill.
"""

from collections.abc import Sequence
from decimal import Decimal

from gpubench.api.point_result import PointBill
from gpubench.report import bills, text
from gpubench.report.charts import points
from gpubench.report.charts.points import Entry
from gpubench.report.document import Axis, Bar, Bars, Missing
from gpubench.report.tables import Column

_TITLE = "What the bill was paid for"
_NAMES = {
    "image_pull": "image pull",
    "waiting": "waiting for the gang",
    "start_up": "start-up",
    "warm_up": "warm-up",
    "measured": "measured work",
    "idle": "idle",
    "lost": "lost work",
    "unknown": "unknown",
    "rounding": "rounding up",
    "fees": "fees",
}


def waterfall(entries: Sequence[Entry]) -> tuple[Bars | Missing, ...]:
    """The bill of each study, part by part."""
    billed = [(entry, entry.point.bill) for entry in entries if entry.point.bill is not None]
    if not billed:
        return (Missing(title=_TITLE, reason=_without(entries)),)
    groups = points.grouped(billed, lambda pair: (pair[0].study, pair[1].currency))
    return tuple(
        _bars([bill for _, bill in members], study=study, currency=currency, name=f"bill-{number}")
        for number, ((study, currency), members) in enumerate(groups.items(), start=1)
    )


def _without(entries: Sequence[Entry]) -> str:
    sentence = bills.NO_BILL.rstrip(".")
    return sentence[0].lower() + sentence[1:] if entries else points.nothing(entries)


def _bars(found: Sequence[PointBill], *, study: str, currency: str, name: str) -> Bars:
    total = sum((Decimal(bill.total) for bill in found), Decimal(0))
    before, steps = Decimal(0), []
    for part in bills.PARTS:
        amounts = [Decimal(amount) for bill in found if (amount := getattr(bill.parts, part)) is not None]
        if amounts:
            paid = sum(amounts, Decimal(0))
            steps.append(_bar(_NAMES[part], paid, start=before, currency=currency, of=total, hollow=part != "measured"))
            before += paid
    attempts = sum(bill.attempts for bill in found)
    incomplete = any(bill.incomplete for bill in found)
    gone = " The pods of some attempts were gone when the operator looked: it is at least that." if incomplete else ""
    return Bars(
        name=name,
        title=f"{_TITLE}: {study}" if study else _TITLE,
        description=(
            f"What {attempts} attempt{'' if attempts == 1 else 's'} are billed in {currency}, those without a result "
            "too, part by part, each beginning where the one above ends; measured work is filled. The clock runs while "
            f"pods have their nodes: a provider bills the life of a node, which is longer.{gone}"
        ),
        axis=Axis(title=f"{currency} billed", from_zero=True),
        bars=(*steps, _bar("the bill", total, start=Decimal(0), currency=currency, of=total, hollow=False)),
        columns=(Column(title="PART"), Column(title="AMOUNT", numeric=True)),
    )


def _bar(name: str, paid: Decimal, *, start: Decimal, currency: str, of: Decimal, hollow: bool) -> Bar:
    share = f" ({text.number(100 * paid / of, places=1)} %)" if of else ""
    return Bar(
        name=name, value=float(paid), start=float(start), hollow=hollow, said=f"{currency} {_number(paid)}{share}"
    )


def _number(amount: Decimal) -> str:
    shown = f"{amount:,f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
