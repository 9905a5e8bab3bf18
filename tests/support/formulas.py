# SPDX-License-Identifier: Apache-2.0
"""Formulas computed from the inputs that are printed beside them."""

import math
import re
from collections.abc import Sequence
from typing import Literal

_CURRENCY = re.compile(r"\b[A-Z]{3} ")
_INPUT = re.compile(r"(?P<name>[a-z ]+) = (?P<mean>[^–]+?)( \((?P<low>[^–]+)–(?P<high>[^–]+)\))?")


def filled(formula: str, inputs: Sequence[str], end: Literal["mean", "low", "high"] = "mean") -> str:
    """The formula with its inputs, such as `throughput = 1,900 (1,885–1,915)`, at their means or at one of the ends."""
    numbers = {}
    for text in inputs:
        found = _INPUT.fullmatch(text)
        assert found is not None, text
        numbers[found["name"]] = found[end] or found["mean"]
    names = "|".join(sorted(numbers, key=len, reverse=True))
    return re.sub(rf"\b({names})\b", lambda name: numbers[name[0]], formula)


def value(line: str) -> float:
    """Of a line without ±."""
    text = _CURRENCY.sub("", line).replace(",", "").replace(" x ", " * ").replace("^", "**")
    assert re.fullmatch(r"[0-9.e*/+() -]*", text.replace("sqrt", "").replace("exp", "")), text
    return float(eval(text, {"__builtins__": {}, "sqrt": math.sqrt, "exp": math.exp}))  # noqa: S307  # arithmetic of our own, see above


def ends(line: str) -> tuple[float, float]:
    """Of a line with ±."""
    assert line.count("±") == 1
    return value(line.replace("±", "-")), value(line.replace("±", "+"))
