# SPDX-License-Identifier: Apache-2.0
"""What the repeats of a point say together: throughput, efficiency, use of the machine, and whole trainings.

What no repeat has is absent.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import GpuUsage, HostUsage, Quality, Scaling, TrainingResult
from gpubench.plan.plan import Point
from gpubench.records import Machine, Result, Training
from gpubench.stats import efficiency, gang, intervals
from gpubench.stats.efficiency import Among, Measured, Scale
from gpubench.units import sampled
from gpubench.values import Interval


@dataclass(frozen=True, kw_only=True)
class MeasuredPoint(Measured):
    """A point of a plan, measured."""

    point: Point

    @cached_property
    def scale(self) -> Scale:
        """Where the point is on its lines."""
        key = self.point.key
        return Scale(
            work=(key.workload, key.precision, key.data, key.variant, key.epochs, key.custom),
            pool=key.pool,
            workers=key.workers,
            nodes=self.point.nodes,
            batch_per_worker=key.batch_per_worker,
            global_batch=key.global_batch,
            lines=self.point.lines,
            is_one_node=key.node is not None,
        )


def scaling(entry: MeasuredPoint, *, among: Among[MeasuredPoint]) -> tuple[Scaling, ...]:
    """A point's efficiencies as a status has them, each against the smallest gang on its line."""
    return tuple(
        Scaling(
            kind=found.kind,
            baseline_workers=found.baseline_workers,
            baseline_pool=found.baseline_pool,
            efficiency=found.interval,
        )
        for found in efficiency.efficiencies(entry, among)
    )


# --- the machine ------------------------------------------------------------------------------------------------------


def gpu(results: Sequence[Result]) -> GpuUsage | None:
    """Of the GPUs; None where there were none, or nothing is known of them."""
    machines = _machines(results)
    throttled = max((one.throttled for one in machines if one.throttled is not None), default=None)
    found = GpuUsage(
        utilization=_mean(machine.gpu for machine in machines),
        memory_peak=_largest(machine.gpu_memory_bytes for machine in machines),
        watts=_mean(machine.watts for machine in machines),
        joules_per_million_samples=_energy(results),
        throttled=None if throttled is None else sampled(throttled),
    )
    return None if found == GpuUsage() else found


def host(results: Sequence[Result]) -> HostUsage | None:
    """Of the ranks' processes."""
    machines = _machines(results)
    processors = _mean(machine.processor for machine in machines)
    found = HostUsage(processors=processors, memory_peak=_largest(machine.memory_bytes for machine in machines))
    return None if found == HostUsage() else found


def _energy(results: Sequence[Result]) -> float | None:
    """Joules over samples of the repeats that have them, so that each weighs by its samples.

    By the GPUs' own counters; by power times time where no repeat has any, and never by both in one figure. Of a
    training it is that of its evaluations, too: a counter goes on while they run.
    """
    known = [(result.machine, result) for result in results if result.machine is not None]
    counted = [(machine.joules, result.samples) for machine, result in known if machine.joules is not None]
    powered = [
        (machine.watts * result.measured_nanoseconds / 1e9, result.samples)
        for machine, result in known
        if machine.watts is not None
    ]
    energies = counted or powered
    if not energies:
        return None
    return sampled(math.fsum(joules for joules, _ in energies) / sum(samples for _, samples in energies) * 1e6)


def _machines(results: Sequence[Result]) -> list[Machine]:
    return [result.machine for result in results if result.machine is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sampled(intervals.mean(known)) if known else None


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


# --- whole epochs -----------------------------------------------------------------------------------------------------

NO_TIMED_EPOCH = (
    "no seconds: the only epoch is the first one, which measure.timedRegion.firstEpoch leaves out: train at least 2 "
    "epochs, or set it to Included; the throughput is of that epoch"
)
NOT_A_SUM = (
    "no seconds: the record's first epoch takes longer than all epochs together; the program that wrote it counts wrong"
)


def training_warning(results: Sequence[Result], region: TimedRegion, *, planned: int | None) -> str | None:
    """Why the repeats of a training give no figures of it, or no seconds; None where they do, or were no training."""
    runs = _runs(results)
    if not runs:
        return None
    if not _as_planned(runs, planned):
        found = " and ".join(map(str, sorted({run.epochs for run in runs})))
        asked = f", and {planned} were asked for" if planned is not None else ", and are not averaged"
        return f"no training figures: the repeats trained {found} epochs{asked}; let the program keep to the assignment"
    if any(gang.timed_seconds(run, region) is None for run in runs):
        return NOT_A_SUM if gang.timed_epochs(runs[0], region) else NO_TIMED_EPOCH
    return None


def training_result(
    results: Sequence[Result], region: TimedRegion, *, planned: int | None, confidence: float
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
        first_epoch_seconds=intervals.mean([run.first_nanoseconds / 1e9 for run in runs]),
        evaluation_seconds=intervals.mean([run.evaluation_nanoseconds / 1e9 for run in runs]),
        training_loss=intervals.mean([run.loss for run in runs]),
        quality=_quality(runs, confidence),
    )
    seconds = [value for run in runs if (value := gang.timed_seconds(run, region)) is not None]
    if len(seconds) < len(runs):
        return found
    interval = from_zero(intervals.of_mean(seconds, confidence))
    per_epoch = interval.scaled(1 / gang.timed_epochs(runs[0], region))
    return found.model_copy(update={"seconds": interval, "seconds_per_epoch": per_epoch})


def _runs(results: Sequence[Result]) -> list[Training]:
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
