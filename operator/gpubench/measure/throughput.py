# SPDX-License-Identifier: Apache-2.0
"""From a gang's record to samples per second."""

from gpubench.measure.records import Result


def samples_per_second(result: Result) -> float:
    """Total samples over total time of the measured windows, all ranks together.

    A window's time is that of its slowest rank; the quotient of the sums weighs each window by its time (harmonic
    mean).
    """
    return result.samples / (result.nanoseconds / 1e9)
