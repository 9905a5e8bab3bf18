# SPDX-License-Identifier: Apache-2.0
"""From a gang's record to samples per second."""

from gpubench.api.measuring import TimedRegion
from gpubench.formula import Formula
from gpubench.measure.records import Result

SAMPLES_PER_SECOND = Formula(
    template="{samples} / {seconds}",
    source="all samples of all ranks over the time of the windows that count, each as long as its slowest rank's: a "
    "harmonic mean",
)


def samples_per_second(result: Result, region: TimedRegion | None = None) -> float:
    """Total samples over total time of the measured windows, all ranks together.

    A window's time is that of its slowest rank; the quotient of the sums weighs each window by its time (harmonic
    mean). Of a training run it is the same without its evaluations, and without the first epoch where the timed region
    leaves that out and holds another one.
    """
    samples, nanoseconds = counted(result, region)
    return samples / (nanoseconds / 1e9)


def counted(result: Result, region: TimedRegion | None = None) -> tuple[int, int]:
    """The samples that count, and their nanoseconds."""
    run = result.training
    if run is not None and region is not None and region.first_epoch == "Excluded":
        samples, nanoseconds = result.samples - run.first_samples, result.nanoseconds - run.first_nanoseconds
        if samples > 0 and nanoseconds > 0:
            return samples, nanoseconds
    return result.samples, result.nanoseconds
