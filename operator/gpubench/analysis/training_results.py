# SPDX-License-Identifier: Apache-2.0
"""Whole epochs over the repeats of a point: the seconds of the timed region, and how good the model became."""

import math
from collections.abc import Sequence

from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import Quality, TrainingResult
from gpubench.records import Result, Training
from gpubench.stats import gang, intervals
from gpubench.stats.intervals import CONFIDENCE
from gpubench.values import Interval

NO_TIMED_EPOCH = (
    "no seconds: the only epoch is the first one, which measure.timedRegion.firstEpoch leaves out: train at least 2 "
    "epochs, or set it to Included; the throughput is of that epoch"
)
NOT_A_SUM = (
    "no seconds: the record's first epoch takes longer than all epochs together; the program that wrote it counts wrong"
)


def warning(results: Sequence[Result], region: TimedRegion, *, planned: int | None) -> str | None:
    """Why the repeats of a training give no figures of it, or no seconds; None where they do, or were no training."""
    runs = _runs(results)
    if not runs:
        return None
    counts = sorted({run.epochs for run in runs})
    if not _as_planned(runs, planned):
        found = " and ".join(map(str, counts))
        asked = f", and {planned} were asked for" if planned is not None else ", and are not averaged"
        return f"no training figures: the repeats trained {found} epochs{asked}; let the program keep to the assignment"
    if any(gang.timed_seconds(run, region) is None for run in runs):
        return NOT_A_SUM if gang.timed_epochs(runs[0], region) else NO_TIMED_EPOCH
    return None


def training_result(
    results: Sequence[Result], region: TimedRegion, *, planned: int | None = None, confidence: float = CONFIDENCE
) -> TrainingResult | None:
    """The training of a point from its repeats; None where they were no training, or not the one that was planned.

    `planned` is the number of epochs; None where the workload has its own.
    """
    runs = _runs(results)
    if not runs or not _as_planned(runs, planned):
        return None
    found = TrainingResult(
        epochs=runs[0].epochs,
        timed_region=region,
        first_epoch_seconds=_mean([run.first_nanoseconds / 1e9 for run in runs]),
        evaluation_seconds=_mean([run.evaluation_nanoseconds / 1e9 for run in runs]),
        training_loss=_mean([run.loss for run in runs]),
        quality=_quality(runs, confidence),
    )
    seconds = [value for run in runs if (value := gang.timed_seconds(run, region)) is not None]
    if len(seconds) < len(runs):
        return found
    interval = from_zero(intervals.of_mean(seconds, confidence))
    per_epoch = interval.scaled(1 / gang.timed_epochs(runs[0], region))
    return found.model_copy(update={"seconds": interval, "seconds_per_epoch": per_epoch})


def _runs(results: Sequence[Result]) -> list[Training]:
    """The trainings of all repeats; empty where one of them was none."""
    runs = [result.training for result in results if result.training is not None]
    return runs if len(runs) == len(results) else []


def _as_planned(runs: Sequence[Training], planned: int | None) -> bool:
    """Whether the repeats trained equally many epochs, and as many as were asked for: a user's own program may not."""
    return {run.epochs for run in runs} == {runs[0].epochs if planned is None else planned}


def from_zero(seconds: Interval) -> Interval:
    """No run takes less than no time."""
    return seconds if seconds.low is None else seconds.model_copy(update={"low": max(0.0, seconds.low)})


def _quality(runs: Sequence[Training], confidence: float) -> Quality | None:
    """The repeats' last and best epochs; which of a repeat is its best was decided where it was trained."""
    metric = runs[0].metric
    finals = [run.final for run in runs if run.metric == metric and run.final is not None]
    bests = [run.best for run in runs if run.metric == metric and run.best is not None]
    if metric is None or len(finals) < len(runs) or len(bests) < len(runs):
        return None
    return Quality(metric=metric, final=within(metric, finals, confidence), best=within(metric, bests, confidence))


def within(metric: str, values: Sequence[float], confidence: float) -> Interval:
    """The interval, cut at what cannot be: a share is neither below 0 nor above 1."""
    found = intervals.of_mean(values, confidence)
    if metric != "accuracy" or found.low is None or found.high is None:
        return found
    return found.model_copy(update={"low": max(0.0, found.low), "high": min(1.0, found.high)})


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
