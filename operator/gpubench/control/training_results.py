# SPDX-License-Identifier: Apache-2.0
"""Whole epochs over the repeats of a point: the seconds of the timed region, and how good the model became."""

import math
from collections.abc import Sequence

from gpubench.api.benchmark import Estimate, Quality, TimedRegion, TrainingResult
from gpubench.control import estimates
from gpubench.measure import intervals, training
from gpubench.measure.records import Result, Training

NO_TIMED_EPOCH = (
    "no seconds: the only epoch is the first one, which measure.timedRegion.firstEpoch leaves out: train at least 2 "
    "epochs, or set it to Included; the throughput is of that epoch"
)
NOT_A_SUM = (
    "no seconds: the record's first epoch takes longer than all epochs together; the program that wrote it counts wrong"
)


def warning(found: TrainingResult) -> str | None:
    """Why a training has no seconds; None where it has."""
    if found.seconds is not None:
        return None
    return NO_TIMED_EPOCH if found.epochs == 1 else NOT_A_SUM


def training_result(results: Sequence[Result], region: TimedRegion) -> TrainingResult | None:
    """The training of a point from its repeats; None where they were no training."""
    runs = [result.training for result in results if result.training is not None]
    if not runs or len(runs) < len(results):
        return None
    found = TrainingResult(
        epochs=runs[0].epochs,
        timed_region=region,
        first_epoch_seconds=_mean([run.first_nanoseconds / 1e9 for run in runs]),
        evaluation_seconds=_mean([run.evaluation_nanoseconds / 1e9 for run in runs]),
        training_loss=_mean([run.loss for run in runs]),
        quality=_quality(runs),
    )
    seconds = [value for run in runs if (value := training.timed_seconds(run, region)) is not None]
    if len(seconds) < len(runs):
        return found
    interval = intervals.of_mean(seconds)
    per_epoch = interval.scaled(1 / training.timed_epochs(runs[0], region))
    return found.model_copy(
        update={"seconds": estimates.estimate(interval), "seconds_per_epoch": estimates.estimate(per_epoch)}
    )


def _quality(runs: Sequence[Training]) -> Quality | None:
    """The repeats' last and best epochs; which of a repeat is its best was decided where it was trained."""
    metric = runs[0].metric
    finals = [run.final for run in runs if run.metric == metric and run.final is not None]
    bests = [run.best for run in runs if run.metric == metric and run.best is not None]
    if metric is None or len(finals) < len(runs) or len(bests) < len(runs):
        return None
    return Quality(metric=metric, final=_within(metric, finals), best=_within(metric, bests))


def _within(metric: str, values: Sequence[float]) -> Estimate:
    """The interval, cut at what cannot be: a share is neither below 0 nor above 1."""
    found = estimates.estimate(intervals.of_mean(values))
    if metric != "accuracy" or found.low is None or found.high is None:
        return found
    return found.model_copy(update={"low": max(0.0, found.low), "high": min(1.0, found.high)})


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
