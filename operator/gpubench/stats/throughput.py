# SPDX-License-Identifier: Apache-2.0
"""From a gang's record to samples per second."""

from gpubench.api.measuring import TimedRegion
from gpubench.records import Result


def samples_per_second(result: Result, region: TimedRegion | None = None) -> float:
    """Total samples over total time of the measured windows, all ranks together.

    A window's time is that of its slowest rank; the quotient of the sums weighs each window by its time (harmonic
    mean). Of a training run it is the same without its evaluations, and without the first epoch where the timed region
    leaves that out and holds another one.
    """
    samples, nanoseconds = result.samples, result.nanoseconds
    run = result.training
    if run is not None and region is not None and region.first_epoch == "Excluded":
        later = samples - run.first_samples, nanoseconds - run.first_nanoseconds
        if min(later) > 0:
            samples, nanoseconds = later
    return samples / (nanoseconds / 1e9)
