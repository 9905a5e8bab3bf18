# SPDX-License-Identifier: Apache-2.0
"""One figure of an explanation: its formula, the numbers put in, the result, and who published the formula.

Must not happen: a line whose numbers do not give its result.
"""

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.point_result import AmountInterval, Estimate
from gpubench.formula import Formula
from gpubench.measure import intervals
from gpubench.measure.intervals import Fieller, Interval
from gpubench.money.amount import Rate
from gpubench.values import Value

_DIGITS = 7


class Step(Value):
    """One figure. `low` and `high` are the numbers of the ends of its interval, where they are not in the same line."""

    name: str
    formula: str | None = None  # absent where the figure is given, or another point's
    numbers: str | None = None
    low: str | None = None
    high: str | None = None
    result: str
    source: str
    field: str | None = None  # where the status has it, such as cost.perMillionSamples
    estimate: Estimate | None = None
    amount: AmountInterval | None = None


def step(
    name: str,
    formula: Formula,
    numbers: Mapping[str, str],
    *,
    result: str,
    source: str | None = None,
    field: str | None = None,
    estimate: Estimate | None = None,
    amount: AmountInterval | None = None,
) -> Step:
    """A figure by its formula."""
    return Step(
        name=name,
        formula=formula.text,
        numbers=formula.filled(**numbers),
        result=result,
        source=formula.source if source is None else source,
        field=field,
        estimate=estimate,
        amount=amount,
    )


def scaled(
    name: str,
    formula: Formula,
    variable: str,
    values: Interval,
    rest: Mapping[str, str],
    *,
    result: str,
    field: str,
    estimate: Estimate,
) -> Step:
    """A figure that is a certain multiple of another one, at the middle and at both ends of its interval."""

    def line(value: float) -> str:
        return formula.filled(**{variable: number(value)}, **rest)

    return Step(
        name=name,
        formula=formula.text,
        numbers=line(values.mean),
        low=None if values.low is None else line(values.low),
        high=None if values.high is None else line(values.high),
        result=result,
        source=formula.source,
        field=field,
        estimate=estimate,
    )


def of_fieller(ratio: Fieller) -> dict[str, str]:
    """The numbers of the interval of a ratio; the closer g is to 1, by whose distance is divided, the more digits."""
    digits = _DIGITS + max(0, -1 - Decimal(repr(1 - ratio.g)).adjusted())
    put_in = {
        "ratio": ratio.ratio,
        "t": ratio.t,
        "other_mean": ratio.bottom,
        "g": ratio.g,
        "error": ratio.top_variance**0.5,
        "other_error": ratio.bottom_variance**0.5,
    }
    return {name: number(value, digits=digits) for name, value in put_in.items()}


def at_confidence(confidence: float) -> str:
    """At which an interval was computed, as the end of a source; and why, where that is not the usual one."""
    if confidence == intervals.CONFIDENCE:
        return f"; at {percent(confidence)}"
    return f"; at {percent(confidence)}, so that it holds at {percent(intervals.CONFIDENCE)} though it was looked often"


def hour(rate: Rate) -> str:
    """A price of a node for an hour: `USD 3.06`."""
    return money(rate.per_node_hour, rate.currency)


def money(amount: Decimal, currency: str) -> str:
    """An amount that is put in."""
    return f"{currency} {number(amount)}"


def percent(share: float) -> str:
    """A share that is certain."""
    return f"{100 * share:.4g} %"


def number(value: Decimal | float, *, digits: int = _DIGITS) -> str:
    """With as many digits as show what was put in, and no exponent."""
    if isinstance(value, int):
        return f"{value:,}"
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    places = max(0, digits - 1 - exact.adjusted()) if exact else 0
    text = f"{exact.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
