# SPDX-License-Identifier: Apache-2.0
"""How a figure is computed, in a line that people read; it stands beside the function that computes the figure."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Formula:
    """Arithmetic with names for its numbers, and who published it."""

    text: str
    source: str
