# SPDX-License-Identifier: Apache-2.0
"""From the epochs of a training run, in sums, to the seconds of its timed region.

What the seconds are is chosen in the study (`measure.timedRegion`): published runs count the evaluation after each
epoch, or leave the first epoch out, and their figures can only be compared with the same choice. Must not happen: a
figure of a region that holds no epoch.
"""

from gpubench.api.measuring import TimedRegion
from gpubench.records import Training


def timed_epochs(training: Training, region: TimedRegion) -> int:
    """Epochs in the region; 0 where a run's only epoch is left out."""
    return training.epochs - (region.first_epoch == "Excluded")


def timed_seconds(training: Training, region: TimedRegion) -> float | None:
    """Seconds of the region; None where it holds no epoch, or where the sums of a user's own program contradict it."""
    if not timed_epochs(training, region):
        return None
    nanoseconds = training.nanoseconds
    if region.evaluation == "Inside":
        nanoseconds += training.evaluation_nanoseconds
    if region.first_epoch == "Excluded":
        nanoseconds -= training.first_nanoseconds
        if region.evaluation == "Inside":
            nanoseconds -= training.first_evaluation_nanoseconds
    return nanoseconds / 1e9 if nanoseconds > 0 else None
