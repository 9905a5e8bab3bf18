# SPDX-License-Identifier: Apache-2.0
"""Quantiles of a few numbers, in one way everywhere."""

from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float:
    """Linear between order statistics (type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", 1996)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
