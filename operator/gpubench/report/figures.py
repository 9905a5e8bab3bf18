# SPDX-License-Identifier: Apache-2.0
"""Numbers for people: as many digits as the interval supports, and a dash where a number is not defined.

The half width of the interval is shown with two significant digits and the mean to the same place (Particle Data Group,
"Review of Particle Physics", section 5.3 of the introduction, in its simplest form). Must not happen: a missing value
is printed as 0, or a digit is printed that the measurement does not carry.
"""

from decimal import ROUND_HALF_UP, Decimal

from gpubench.api.benchmark import AmountInterval, Estimate, Scaling

UNDEFINED = "–"
_DIGITS_OF_HALF_WIDTH = 2
_DIGITS_WITHOUT_INTERVAL = 3


def throughput(estimate: Estimate | None) -> str:
    """Samples per second: `1,234 ± 21`."""
    if estimate is None:
        return UNDEFINED
    mean, low, high = _decimal(estimate.mean), _optional(estimate.low), _optional(estimate.high)
    places = _places(mean, low=low, high=high)
    if low is None or high is None:
        return number(mean, places=places)
    return f"{number(mean, places=places)} ± {number((high - low) / 2, places=places)}"


def efficiency(scaling: Scaling) -> str:
    """Percent: `87 % (85–89)`; the baseline's is 100 % by definition and says so."""
    estimate = scaling.efficiency
    if estimate.mean == 1 and estimate.low is None:
        return "100 % (base)"
    mean, low, high = (_percent(bound) for bound in (estimate.mean, estimate.low, estimate.high))
    assert mean is not None
    places = _places(mean, low=low, high=high)
    return f"{number(mean, places=places)} %{_bounds(low, high, places=places)}"


def money(amount: AmountInterval) -> str:
    """An amount with its currency in front: `USD 0.0123 (0.0120–0.0127)`."""
    mean = Decimal(amount.mean)
    low = None if amount.low is None else Decimal(amount.low)
    high = None if amount.high is None else Decimal(amount.high)
    places = _places(mean, low=low, high=high)
    return f"{amount.currency} {number(mean, places=places)}{_bounds(low, high, places=places)}"


def number(value: Decimal, *, places: int) -> str:
    """Rounded half up to so many decimal places (negative: tens, hundreds), with thousands set apart."""
    return f"{value.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP):,f}"


def _bounds(low: Decimal | None, high: Decimal | None, *, places: int) -> str:
    if low is None and high is None:
        return ""
    if low is None:
        return f" (≤ {number(high, places=places)})" if high is not None else ""
    if high is None:  # the throughput's lower end was not above zero: the cost has no upper end
        return f" (≥ {number(low, places=places)})"
    return f" ({number(low, places=places)}–{number(high, places=places)})"


def _places(mean: Decimal, *, low: Decimal | None, high: Decimal | None) -> int:
    half = (high - low) / 2 if low is not None and high is not None else Decimal(0)
    if half > 0:
        return _DIGITS_OF_HALF_WIDTH - 1 - half.adjusted()
    return _DIGITS_WITHOUT_INTERVAL - 1 - mean.adjusted() if mean else 0


def _decimal(value: float) -> Decimal:
    return Decimal(repr(value))


def _optional(value: float | None) -> Decimal | None:
    return None if value is None else _decimal(value)


def _percent(value: float | None) -> Decimal | None:
    return None if value is None else _decimal(value) * 100
