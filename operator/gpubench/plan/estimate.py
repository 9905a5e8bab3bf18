# SPDX-License-Identifier: Apache-2.0
"""How long one attempt will hold its nodes, before it has run: with an interval, and its basis.

From earlier attempts at the same point, where there are some. Else, in mode Throughput, from the benchmark's own times,
with an assumed start-up. In mode Training from a count of arithmetic and an assumed share of what the accelerator could
do, which is hardly more than an order of magnitude. Must not happen: an assumption that is not said.
"""

import math
import re
import statistics
from collections.abc import Sequence
from typing import Literal

from gpubench import units, values, workloads
from gpubench.api import measuring, sweep
from gpubench.api.pool import GpuPoolSpec
from gpubench.plan.plan import Plan, Point, PointKey
from gpubench.stats import intervals, stopping_rule
from gpubench.workloads import Precision

START_UP_SECONDS = 15  # imports, rendezvous, the first step of a small model; a large one on a slow processor: a minute
_START_UP_LOW, _START_UP_HIGH = 5, 120
_FEW_ATTEMPTS = 2.0  # with fewer: half as long to twice as long
# Of a multiply-accumulate two, of a training three passes: a backward one costs about two forward ones (see
# `Workload.forward_gmac`).
_OPERATIONS = 2 * 3
# Expected, fastest and slowest. The share of the peak: small models are far below it; above one, a convolution by
# Winograd needs fewer operations than counted. Seconds of a step beside its arithmetic: launches, messages.
_ASSUMED = ((0.3, 0.005), (2.0, 0.0002), (0.01, 0.05))
_PROCESSOR_PEAK = 48e9  # 3 GHz, a fused multiply-add of eight float32 in each cycle: AVX2 with one such unit

#: Peak operations per second, in units of 10^12, as their makers' data sheets give them without sparsity: of float32,
#: of TensorFloat-32, of 16 bits. Per GPU as a driver counts it: half a card for K80 and M60. The longest name that
#: fits is taken.
_PEAKS: dict[str, tuple[float, float, float]] = {
    "H200": (66.9, 494.7, 989.4),
    "H100": (66.9, 494.7, 989.4),
    "A100": (19.5, 156.0, 312.0),
    "A10": (31.2, 62.5, 125.0),
    "L40S": (91.6, 183.0, 362.0),
    "L4": (30.3, 60.0, 121.0),
    "T4": (8.1, 8.1, 65.0),
    "V100": (15.7, 15.7, 125.0),
    "P100": (10.6, 10.6, 21.2),
    "K80": (4.37, 4.37, 4.37),
    "M60": (4.83, 4.83, 4.83),
    "GTX-1080": (8.9, 8.9, 8.9),
    "GTX-1080-TI": (11.3, 11.3, 11.3),
    "M4000": (2.6, 2.6, 2.6),
    "P5000": (8.9, 8.9, 8.9),
    "P6000": (12.6, 12.6, 12.6),
}


class Estimate(values.FrozenModel):
    """Seconds for which one attempt will hold its nodes, from placement to end."""

    mean: float
    low: float
    high: float
    #: Earlier attempts at the same point, the benchmark's own times, or a count of arithmetic.
    basis: Literal["history", "settings", "FLOPs"]
    sentence: str  # what was assumed


def trial_seconds(plan: Plan) -> float | None:
    """Of one attempt: start-up, warm-up and the measured time. None in mode Training: that is what is measured."""
    if plan.mode is measuring.Mode.TRAINING:
        return None
    return START_UP_SECONDS + plan.timing.warm_up + plan.timing.duration


def of_point(plan: Plan, point: Point, *, earlier: Sequence[float] = ()) -> Estimate | None:
    """Of one attempt at a point; `earlier` are the seconds of attempts at the same point with the same settings.

    None where nothing can be assumed: a training of a model, or on a device, whose arithmetic is not known here.
    """
    if earlier:
        return _from_history(earlier)
    return _from_arithmetic(plan, point) if plan.mode is measuring.Mode.TRAINING else _from_settings(plan, point)


def is_alike(plan: Plan, point: Point, other: Plan, other_point: Point) -> bool:
    """Whether attempts at a point of another plan say how long this one's take: same work, same times, same slots."""
    if point.key != other_point.key or plan.mode is not other.mode:
        return False
    mine, theirs = plan.pool(point.key.pool).spec, other.pool(point.key.pool).spec
    return (
        (mine.accelerator, mine.slot) == (theirs.accelerator, theirs.slot)
        and all(getattr(plan.timing, name) == getattr(other.timing, name) for name in ("warm_up", "duration", "window"))
        and (plan.repeats and plan.repeats.until) == (other.repeats and other.repeats.until)
    )


def _from_history(earlier: Sequence[float]) -> Estimate:
    """The mean of earlier attempts, and the interval that the next one lies in.

    Mean and t s sqrt(1 + 1/n), Student's prediction interval for one further value (G. J. Hahn and W. Q. Meeker,
    "Statistical Intervals", Wiley, 1991, section 4.7).
    """
    count, mean = len(earlier), statistics.fmean(earlier)
    attempts = units.counted(count, "earlier attempt")
    if count < intervals.REPEATS_FOR_INTERVAL:
        low, high = min(earlier) / _FEW_ATTEMPTS, max(earlier) * _FEW_ATTEMPTS
        sentence = f"{attempts}, assumed to tell it within a factor of {_FEW_ATTEMPTS:g}"
    else:
        t = intervals.t_quantile(count - 1, intervals.CONFIDENCE)
        half = t * statistics.stdev(earlier, mean) * math.sqrt(1 + 1 / count)
        low, high, sentence = max(0.0, mean - half), mean + half, f"{attempts} (95 % prediction interval)"
    return Estimate(mean=mean, low=low, high=high, basis="history", sentence=sentence)


def _from_settings(plan: Plan, point: Point) -> Estimate:
    timing, adaptive = plan.timing, plan.repeats is not None and not point.key.is_own_program
    shortest = min(timing.duration, stopping_rule.COUNTED_MIN * timing.window) if adaptive else timing.duration
    step = _seconds(plan, point.key, samples=point.key.global_batch)
    slow = 0.0 if step is None else 2 * max(step)  # the first step, and the one that the last window still waits for
    return Estimate(
        mean=START_UP_SECONDS + timing.warm_up + timing.duration,
        low=_START_UP_LOW + timing.warm_up + shortest,
        high=_START_UP_HIGH + timing.warm_up + timing.duration + slow,
        basis="settings",
        sentence=f"measure.warmUp and duration, and {START_UP_SECONDS} s of start-up, assumed to take from "
        f"{_START_UP_LOW} to {_START_UP_HIGH} s, and on slow devices two more steps",
    )


def _from_arithmetic(plan: Plan, point: Point) -> Estimate | None:
    key = point.key
    found = None if (samples := samples_of_training(key)) is None else _seconds(plan, key, samples=samples)
    if found is None:
        return None
    mean, low, high = found
    (share, beside), (most, briefly), (least, long) = ((f"{of * 100:g}", f"{step * 1000:g}") for of, step in _ASSUMED)
    return Estimate(
        mean=START_UP_SECONDS + mean,
        low=_START_UP_LOW + low,
        high=_START_UP_HIGH + high,
        basis="FLOPs",
        sentence=f"{_OPERATIONS} operations for each multiply-accumulate of a forward pass, at an assumed {share} % "
        f"({least} to {most} %) of the device's peak, and {beside} ms ({briefly} to {long}) beside it in each step",
    )


def samples_of_training(key: PointKey) -> int | None:
    """Samples of all epochs and workers together; None in mode Throughput, and of programs that nobody knows."""
    if key.custom is not None or key.epochs is None:
        return None
    table = workloads.TRAINING_SAMPLES if key.data.source is sweep.DataSource.VOLUME else workloads.GENERATED_SAMPLES
    samples = key.data.samples or table.get(workloads.find(key.workload).inputs)
    return None if samples is None else samples * key.epochs


def _seconds(plan: Plan, key: PointKey, *, samples: int) -> tuple[float, ...] | None:
    """Seconds of training on so many samples of all workers together: expected, at the least, at the most."""
    peak = _peak(plan.pool(key.pool).spec, key.precision)
    forward = 0.0 if key.custom is not None else workloads.find(key.workload).forward_gmac * 1e9
    if peak is None or not forward:
        return None
    at_peak = samples * forward * _OPERATIONS / (peak * key.workers)
    return tuple(at_peak / share + samples / key.global_batch * step for share, step in _ASSUMED)


def _peak(pool: GpuPoolSpec, precision: Precision) -> float | None:
    """Operations per second of one slot's device; None of an accelerator that is not in the table."""
    if not pool.has_gpus:
        return float(units.processors(pool.slot.cpu)) * _PROCESSOR_PEAK
    called = (pool.accelerator or "").upper().replace(" ", "-")
    if not (fitting := [name for name in _PEAKS if re.search(rf"(?<![0-9A-Z]){name}(?![0-9])", called)]):
        return None
    float32, tensor_float32, half = _PEAKS[max(fitting, key=len)]
    return {Precision.FLOAT32: float32, Precision.TENSOR_FLOAT32: tensor_float32}.get(precision, half) * 1e12
