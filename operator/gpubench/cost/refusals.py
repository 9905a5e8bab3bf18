# SPDX-License-Identifier: Apache-2.0
"""What no figure is made of: one sentence with the input, its value and the remedy, instead of NaN or an infinite sum.

The border of the API refuses most of it before; formulas are also called with measured numbers and by other programs.
"""

from decimal import Decimal

Number = Decimal | int


class RefusedInput(ValueError):
    """An input of which no figure can be made; its text is one sentence for the user."""


def number(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused when it is NaN or infinite."""
    found = Decimal(value)
    if not found.is_finite():
        raise RefusedInput(f"{what} must be a number, and is {value}: {remedy}")
    return found


def not_negative(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused below 0."""
    if number(value, what=what, remedy=remedy) < 0:
        raise RefusedInput(f"{what} cannot be less than 0, and is {value}: {remedy}")
    return Decimal(value)


def positive(value: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused at 0 and below."""
    if number(value, what=what, remedy=remedy) <= 0:
        raise RefusedInput(f"{what} must be more than 0, and is {value}: {remedy}")
    return Decimal(value)


def at_most(value: Number, limit: Number, *, what: str, remedy: str) -> Decimal:
    """The value; refused above the limit."""
    if number(value, what=what, remedy=remedy) > limit:
        raise RefusedInput(f"{what} cannot be more than {limit}, and is {value}: {remedy}")
    return Decimal(value)
