# SPDX-License-Identifier: Apache-2.0
"""The clock of every duration, as a value that a test can replace. Wall-clock time never measures anything here."""

import time
from collections.abc import Callable

#: Nanoseconds of a monotonic clock.
Clock = Callable[[], int]

monotonic_ns: Clock = time.monotonic_ns

NANOSECONDS = 1_000_000_000


def seconds(nanoseconds: int) -> float:
    """For limits and display only: what is recorded stays in nanoseconds."""
    return nanoseconds / NANOSECONDS
