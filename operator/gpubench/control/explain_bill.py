# SPDX-License-Identifier: Apache-2.0
"""How the bill of a point came to be, for `gpubench explain`: attempt by attempt, and part by part.

Money is put in with the digits that are printed, times with those that were recorded. Must not happen: a part whose
seconds are not those that the bill was made of.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from gpubench.api.point_result import AmountInterval, PointBill
from gpubench.control import bills, steps
from gpubench.control.bills import Paid, PaidAttempt
from gpubench.control.ledger import AttemptRecord
from gpubench.control.steps import Step
from gpubench.formula import Formula
from gpubench.money import billing, price, waterfall
from gpubench.money.waterfall import Part
from gpubench.plan.plan import Plan, Point
from gpubench.report import bills as words

_BILL = "bill.total"
_RUN = "bill.perRun"
#: What a part is, where its name alone does not say it; those of a table begin with its title.
_MEANING = {part: words.MEANINGS[part].partition(": ")[2] for part in words.MEANINGS}


def steps_of(plan: Plan, attempts: Mapping[str, Sequence[AttemptRecord]], *, index: int) -> Iterator[Step]:
    """The bill of one of the plan's points; no steps where it has none. `attempts` are given by trial."""
    point = plan.points[index]
    records = bills.ended_at(plan.repeats_of_points()[index], attempts)
    paid = bills.paid(plan, point, records)
    bill = None if paid is None else bills.bill_of(paid)
    if paid is None or bill is None:
        return
    if paid.share != 1:
        yield _share(plan, point, paid)
    for attempt in paid.attempts:
        yield from _attempt(paid, attempt)
    yield _total(paid, bill)
    runs = [one for one in paid.attempts if one.succeeded]
    if runs and bill.per_run is not None:
        yield _amount(
            "bill of a run",
            waterfall.MEAN,
            {"amounts": _bills(runs), "count": str(len(runs))},
            bill.per_run,
            bill.currency,
            field=_RUN,
            source="the mean of the attempts with a result",
        )
    yield from _parts(paid, bill)


def _share(plan: Plan, point: Point, paid: Paid) -> Step:
    slots = plan.pool(point.key.pool).spec.slots_per_node
    put_in = {"workers_on_a_node": str(point.key.workers_per_node), "slots_of_a_node": str(slots)}
    return steps.step("part of a node", price.SHARE, put_in, result=steps.number(paid.share))


# --- attempts ---------------------------------------------------------------------------------------------------------


def _attempt(paid: Paid, attempt: PaidAttempt) -> Iterator[Step]:
    """The machines of an attempt and, where there are fees, what they make of it."""
    lives = [node.held for node in attempt.nodes]
    bill = billing.attempt_bill(paid.terms, node_seconds=lives, share=paid.share)
    machines, *fees = bill.lines
    name = f"bill of attempt {attempt.record.key}"
    rule = paid.terms.rule
    source = (
        f"{billing.MACHINES.source}: {_seconds_text(lives)} in steps of {steps.number(rule.increment_seconds)} s, at "
        f"least {steps.number(rule.minimum_seconds)} s"
    )
    yield steps.step(
        f"machines of attempt {attempt.record.key}" if fees else name,
        billing.MACHINES,
        {**_rate(paid), "billed_seconds": _sum(_billed(paid, lives))},
        result=steps.money(machines.amount.value, bill.total.currency),
        source=source,
    )
    if fees:
        amounts = " + ".join(steps.number(line.amount.value) for line in (machines, *fees))
        named = ", ".join(line.name for line in fees)
        yield steps.step(
            name,
            waterfall.SUM,
            {"amounts": amounts},
            result=steps.money(bill.total.value, bill.total.currency),
            source=f"machines, and the fees of its pool: {named}",
        )


def _seconds_text(lives: Sequence[Decimal]) -> str:
    """`held for 45.1 s`, or `held for 45.1 to 60.2 s`."""
    ends = list(dict.fromkeys(steps.number(end) for end in (min(lives), max(lives)))) if lives else ["0"]
    return f"held for {' to '.join(ends)} s"


def _total(paid: Paid, bill: PointBill) -> Step:
    at_least = (
        "; the pods of some were gone when the operator looked, so it is at least that" if paid.incomplete else ""
    )
    return _amount(
        "bill",
        waterfall.SUM,
        {"amounts": _bills(paid.attempts)},
        bill.total,
        bill.currency,
        field=_BILL,
        source=f"the sum of all attempts that have ended, those without a result too{at_least}",
    )


# --- parts ------------------------------------------------------------------------------------------------------------


def _parts(paid: Paid, bill: PointBill) -> Iterator[Step]:
    """What it was paid for; the parts sum to the bill."""
    told = bill.parts.to_wire()
    runs = [one for one in paid.attempts if one.work is not None]
    for part in Part:
        field = next((name for name in told if name == _wire_name(part)), None)
        if field is None:
            continue
        formula, numbers = _put_in(paid, runs, part)
        yield _amount(
            f"bill, {words.PARTS[part.value].lower()}",
            formula,
            numbers,
            str(told[field]),
            bill.currency,
            field=f"bill.parts.{field}",
            source=_MEANING.get(part.value, formula.source).rstrip("."),
        )


def _put_in(paid: Paid, runs: Sequence[PaidAttempt], part: Part) -> tuple[Formula, dict[str, str]]:
    """By which formula a part is computed, and its numbers, one for each attempt."""
    if part is Part.LOST:  # all that an attempt without a result was billed, and runs that its queue has ended
        lost = (one.bill.parts[part] for one in paid.attempts if part in one.bill.parts)
        return waterfall.SUM, {"amounts": " + ".join(map(steps.number, lost))}
    if part is Part.FEES:
        fees = (one.bill.parts.get(part, Decimal(0)) for one in runs)
        return waterfall.SUM, {"amounts": " + ".join(map(steps.number, fees))}
    if part is Part.ROUNDING:
        lives = [[node.held for node in one.nodes] for one in runs]
        numbers = {
            "billed_seconds": _sum(sum(_billed(paid, of_one), Decimal(0)) for of_one in lives),
            "held_seconds": _sum(sum(of_one, Decimal(0)) for of_one in lives),
        }
        return waterfall.OF_ROUNDING, {**_rate(paid), **numbers}
    return waterfall.OF_TIME, {**_rate(paid), "seconds": _sum(_spent(one, part) for one in runs)}


def _spent(attempt: PaidAttempt, part: Part) -> Decimal:
    """The seconds of all nodes of an attempt that went into a part."""
    assert attempt.work is not None  # of one without a result all is lost
    found = (spent for node in attempt.nodes for spent in waterfall.spent(node, attempt.work))
    return sum((seconds for one, seconds in found if one is part), Decimal(0))


def _wire_name(part: Part) -> str:
    """As a status has the field."""
    first, *rest = part.value.split("_")
    return first + "".join(word.capitalize() for word in rest)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _rate(paid: Paid) -> dict[str, str]:
    return {"rate": steps.hour(paid.terms.rate), "part_of_a_node": steps.number(paid.share)}


def _billed(paid: Paid, lives: Iterable[Decimal]) -> list[Decimal]:
    return [billing.billed_seconds(life, rule=paid.terms.rule) for life in lives]


def _bills(attempts: Iterable[PaidAttempt]) -> str:
    return " + ".join(steps.number(one.bill.total) for one in attempts)


def _sum(seconds: Iterable[Decimal]) -> str:
    """`60 + 61.5`, and `8 x 60` of those that are equal."""
    counts = Counter(map(steps.number, seconds))
    return " + ".join(text if count == 1 else f"{count} x {text}" for text, count in counts.items()) or "0"


def _amount(
    name: str, formula: Formula, numbers: Mapping[str, str], found: str, currency: str, *, field: str, source: str
) -> Step:
    return steps.step(
        name,
        formula,
        numbers,
        result=steps.money(Decimal(found), currency),
        source=source,
        field=field,
        amount=AmountInterval(mean=found, currency=currency),
    )
