# SPDX-License-Identifier: Apache-2.0
"""Numbers in the units of dashboards, by Grafana's names for them. A unit that is not known here is an error."""

import math
from collections.abc import Callable, Mapping

_DIGITS = 4  # that count
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


class UnknownUnit(ValueError):
    """There is no way here to write numbers of this unit."""


def shown(value: float, unit: str, *, now: float, digits: int = _DIGITS) -> str:
    """A value as a reader sees it; `now` is the moment that times are told from."""
    if unit == "dateTimeFromNow":
        return _from_now(value / 1000.0 - now)
    if unit not in _WRITTEN:
        raise UnknownUnit(f"unit {unit!r} is none of {', '.join(sorted([*_WRITTEN, 'dateTimeFromNow']))}: add it here")
    return _WRITTEN[unit](value, digits)


def plain(value: float, digits: int = _DIGITS) -> str:
    """With so many digits that count, without an exponent, and with commas between thousands."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _scaled(steps: tuple[tuple[float, str], ...]) -> Callable[[float, int], str]:
    """By the largest step that is no larger than the number."""

    def write(value: float, digits: int) -> str:
        size, name = next((step for step in steps if abs(value) >= step[0]), steps[-1])
        size, name = (1.0, steps[-1][1]) if value == 0 else (size, name)
        return f"{plain(value / size, digits)}{name}"

    return write


_SECONDS = (
    (_DAY, " days"), (_HOUR, " hours"), (_MINUTE, " min"), (1.0, " s"), (1e-3, " ms"), (1e-6, " µs"),
)  # fmt: skip


def _seconds(value: float, digits: int) -> str:
    return "0 s" if value == 0 else _scaled(_SECONDS)(value, digits)


_WRITTEN: Mapping[str, Callable[[float, int], str]] = {
    "none": plain,
    "short": _scaled(((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"), (1.0, ""))),
    "percentunit": lambda value, digits: f"{plain(value * 100, max(3, digits - 1))} %",
    "s": _seconds,
    "bytes": _scaled(((2.0**40, " TiB"), (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"), (1.0, " B"))),
    "Bps": _scaled(((1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s"), (1.0, " B/s"))),
    "watt": _scaled(((1e3, " kW"), (1.0, " W"))),
    "joule": _scaled(((1e6, " MJ"), (1e3, " kJ"), (1.0, " J"))),
    "celsius": lambda value, digits: f"{plain(value, digits)} °C",
}


def _from_now(seconds: float) -> str:
    for size, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (1.0, "second")):
        count = round(abs(seconds) / size)
        if count >= 1:
            text = f"{count} {name}{'' if count == 1 else 's'}"
            return f"in {text}" if seconds > 0 else f"{text} ago"
    return "now"
