# SPDX-License-Identifier: Apache-2.0
"""Texts that carry a quantity, and their values: durations, decimals, processor shares.

Objects of Kubernetes hold such quantities as text; inside the program they are numbers whose name carries the unit.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

DURATION_PATTERN = r"^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,6}s)?$"
WINDOW_PATTERN = r"^([0-9]{1,5}m)?([0-9]{1,6}s)?([0-9]{1,3}ms)?$"
DECIMAL_PATTERN = r"^[0-9]{1,12}(\.[0-9]{1,9})?$"
PROCESSORS_PATTERN = r"^([0-9]{1,4}(\.[0-9]{1,3})?|[0-9]{1,7}m)$"
QUANTITY_PATTERN = r"^[0-9]{1,15}(\.[0-9]{1,3})?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$"

#: A length of time such as `15m`, `1h30m` or `90s`.
Duration = Annotated[str, Field(pattern=DURATION_PATTERN, min_length=2, max_length=20)]
#: A length of time that may be shorter than a second, such as `500ms` or `1s`.
WindowLength = Annotated[str, Field(pattern=WINDOW_PATTERN, min_length=2, max_length=20)]
_AS_TEXT = BeforeValidator(lambda value: str(value) if type(value) is int else value)


def _int_or_string(pattern: str, *, most: int) -> WithJsonSchema:
    """As Kubernetes takes a quantity: a whole number, or a text; the API server checks the text by its pattern."""
    return WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": pattern, "minimum": 0, "maximum": most})


#: A non-negative decimal number as text, such as `"10.21"`: money must never pass through a binary fraction.
DecimalText = Annotated[str, Field(pattern=DECIMAL_PATTERN, min_length=1, max_length=24)]
_DECIMAL = _int_or_string(DECIMAL_PATTERN, most=10**12 - 1)
#: The same where a user writes it, who may leave the quotes of a whole number away. In the program it is text.
Amount = Annotated[str, _AS_TEXT, Field(pattern=DECIMAL_PATTERN, max_length=24), _DECIMAL]
#: Hours, written like an Amount: no field of a spec is a binary fraction.
Hours = Annotated[float, PlainSerializer(lambda hours: f"{hours:.9g}", when_used="json"), _DECIMAL]
#: Processors as Kubernetes writes them: 11, `"0.5"` or `500m`.
Processors = Annotated[
    str, _AS_TEXT, Field(pattern=PROCESSORS_PATTERN, max_length=10), _int_or_string(PROCESSORS_PATTERN, most=9999)
]
#: Any other resource quantity of Kubernetes, such as `80Gi` or 4.
Quantity = Annotated[
    str, _AS_TEXT, Field(pattern=QUANTITY_PATTERN, max_length=24), _int_or_string(QUANTITY_PATTERN, most=10**15 - 1)
]

_MILLISECONDS = {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}


def duration_seconds(text: str) -> int:
    """Seconds in a duration text; ValueError with the remedy when it is not one."""
    why = "not a duration: write hours, minutes and seconds such as 1h30m, 15m or 90s"
    return int(_seconds(text, DURATION_PATTERN, why))


def window_seconds(text: str) -> float:
    """Seconds in the text of a window's length; ValueError with the remedy when it is not one."""
    why = "no window's length: write seconds and milliseconds such as 500ms, 1s or 1s500ms"
    return _seconds(text, WINDOW_PATTERN, why)


def _seconds(text: str, pattern: str, why: str) -> float:
    if len(text) < 2 or not re.match(pattern, text):
        raise ValueError(f"{text!r} is {why}")
    return sum(int(amount) * _MILLISECONDS[unit] for amount, unit in re.findall(r"([0-9]+)(ms|[hms])", text)) / 1000


def duration_text(seconds: float) -> str:
    """A duration for people: `1h05m`, `12m30s`, `8s`; rounded to a second."""
    minutes, secs = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60}h{minutes % 60:02}m"
    return f"{minutes}m{secs:02}s" if minutes else f"{secs}s"


def processors(text: str) -> Decimal:
    """Processors in a quantity text: `"1"` is 1, `500m` is 0.5."""
    return Decimal(text[:-1]) / 1000 if text.endswith("m") else Decimal(text)


_FACTORS = {
    "": Decimal(1), "m": Decimal("0.001"), "k": Decimal(10) ** 3, "M": Decimal(10) ** 6, "G": Decimal(10) ** 9,
    "T": Decimal(10) ** 12, "P": Decimal(10) ** 15, "Ki": Decimal(2) ** 10, "Mi": Decimal(2) ** 20,
    "Gi": Decimal(2) ** 30, "Ti": Decimal(2) ** 40, "Pi": Decimal(2) ** 50,
}  # fmt: skip


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 point`, `2 points`."""
    return f"{count} {noun if count == 1 else plural or f'{noun}s'}"


def workers_text(workers: int) -> str:
    return counted(workers, "worker")


def listed(values: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join((", ".join(values[:-1]), values[-1])) if len(values) > 1 else "".join(values)


def times(quantity: str, count: int) -> str:
    """A quantity of Kubernetes multiplied by a whole number, in the same unit (`80Gi` x 8 is `640Gi`)."""
    amount, suffix = _split(quantity)
    return f"{(amount * count).normalize():f}{suffix}"


def quantity_value(quantity: str) -> Decimal:
    """A quantity of Kubernetes in its base unit: bytes, pieces or processors."""
    amount, suffix = _split(quantity)
    return amount * _FACTORS[suffix]


def _split(quantity: str) -> tuple[Decimal, str]:
    if (match := re.match(r"^([0-9.]+)([A-Za-z]*)$", quantity)) is None or match.group(2) not in _FACTORS:
        raise ValueError(f"{quantity!r} is not a quantity of Kubernetes: write a number with Ki, Mi, Gi, m or nothing")
    return Decimal(match.group(1)), match.group(2)


def rfc3339(seconds: float) -> str:
    """`2026-11-01T12:00:00Z` for a moment, to the second, as metav1.Time has it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(text: str) -> float:
    """Seconds since the epoch of an API timestamp, with or without a fraction (metav1.Time, metav1.MicroTime)."""
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, kw_only=True)
class Formula:
    """Arithmetic with names for its numbers, and who published it."""

    text: str
    source: str


def sampled(value: float | Decimal) -> float:
    """A mean of samples, or another metric beside the headline ones: with the four digits that it carries."""
    return float(f"{value:.4g}")
