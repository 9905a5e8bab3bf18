# SPDX-License-Identifier: Apache-2.0
"""Lines of numbers, as explanations print them, computed: what stands there must give what stands behind it."""

import math
import re

_CURRENCY = re.compile(r"\b[A-Z]{3} ")


def value(line: str) -> float:
    """Of a line without ±."""
    text = _CURRENCY.sub("", line).replace(",", "").replace(" x ", " * ").replace("^", "**")
    assert re.fullmatch(r"[0-9.*/+() -]*|.*sqrt.*", text), text
    return float(eval(text, {"__builtins__": {}, "sqrt": math.sqrt}))  # noqa: S307  # arithmetic of our own, see above


def ends(line: str) -> tuple[float, float]:
    """Of a line with ±."""
    assert line.count("±") == 1
    return value(line.replace("±", "-")), value(line.replace("±", "+"))


def first_number(text: str) -> float:
    """The first number of a result: `USD 0.0123 (0.0120–0.0127)` is 0.0123."""
    found = re.search(r"[0-9][0-9,]*(\.[0-9]+)?", text)
    assert found is not None, text
    return float(found.group().replace(",", ""))
