# SPDX-License-Identifier: Apache-2.0
"""What the repeats of a point say together: of the machine, of whole trainings, of messages.

What no repeat has is absent.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from statistics import fmean
from typing import Literal

from gpubench.api.measuring import Mode, TimedRegion
from gpubench.api.point_result import Bandwidth, Energy, GpuUsage, HostUsage, Quality, TrainingResult
from gpubench.plan.plan import Plan, Point
from gpubench.records import Result, Training
from gpubench.stats import gang, intervals
from gpubench.units import Formula, sampled
from gpubench.values import Interval
from gpubench.workloads import Precision


def usage(results: Sequence[Result]) -> dict[str, GpuUsage | HostUsage | None]:
    """Of the GPUs and of the ranks' processes, as fields of a result; None of what nothing is known of."""
    machines = [result.machine for result in results if result.machine is not None]
    throttled = max((one.throttled for one in machines if one.throttled is not None), default=None)
    gpu = GpuUsage(
        utilization=_mean(machine.gpu for machine in machines),
        memory_peak=_largest(machine.gpu_memory_bytes for machine in machines),
        watts=_mean(machine.watts for machine in machines),
        throttled=None if throttled is None else sampled(throttled),
    )
    processors = _mean(machine.processor for machine in machines)
    host = HostUsage(processors=processors, memory_peak=_largest(machine.memory_bytes for machine in machines))
    return {"gpu": None if gpu == GpuUsage() else gpu, "host": None if host == HostUsage() else host}


def energy(plan: Plan, point: Point, results: Sequence[Result], *, confidence: float) -> Energy | None:
    """Joules of the GPUs for a million samples; at the meter (joules + host watts x nodes x seconds) x pue / 3600.

    By the GPUs' own counters; by power times time where no repeat has any, and never by both in one figure. Of a
    training it is that of its evaluations, too: a counter goes on while they run.
    """
    known = [(one, one.machine) for one in results if one.machine is not None]
    by: Literal["Counter", "Power"] = "Counter"
    if not (measured := [(one, used.joules) for one, used in known if used.joules is not None]):
        by = "Power"
        measured = [(one, used.watts * one.measured_nanoseconds / 1e9) for one, used in known if used.watts is not None]
    if not measured:
        return None
    each = partial(intervals.of_mean, confidence=confidence)
    found = Energy(joules=each([joules / one.samples * 1e6 for one, joules in measured]), by=by)
    if (power := plan.pool(point.key.pool).spec.power) is None:
        return found
    watts = power.host_watts * float(plan.paid_nodes(point))  # of a node that others share, its part
    hours = [(joules + watts * one.measured_nanoseconds / 1e9) * float(power.pue) / 3600 for one, joules in measured]
    samples = [one.samples for one, _ in measured]
    amounts = {"watt_hours": each([whole / count * 1e6 for whole, count in zip(hours, samples, strict=True)])}
    if plan.mode is Mode.TRAINING:
        amounts["watt_hours_per_run"] = each(hours)
    grid, grams = "", power.grams_per_kilowatt_hour
    if grams is not None:
        emitted = {
            name.replace("watt_hours", "grams"): one.scaled(float(grams) / 1000) for name, one in amounts.items()
        }
        amounts, grid = amounts | emitted, f", {grams} g CO2e a kilowatt-hour"
    facts = f"{power.host_watts} W a host, pue {power.pue}{grid} ({power.source}, {power.as_of})"
    return found.model_copy(update={**amounts, "power": facts})


def _mean(values: Iterable[float | None]) -> float | None:
    return sampled(fmean(known)) if (known := [value for value in values if value is not None]) else None


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


def training_result(
    results: Sequence[Result], region: TimedRegion, *, planned: int | None, confidence: float
) -> tuple[TrainingResult | None, str | None]:
    """A point's training from its repeats, and why it or its seconds are missing; `planned` epochs, if not its own."""
    runs = [result.training for result in results if result.training is not None]
    if not runs or len(runs) < len(results):
        return None, None
    epochs = sorted({run.epochs for run in runs})
    if epochs != [epochs[0] if planned is None else planned]:  # a user's own program may train others
        asked = f", and {planned} were asked for" if planned is not None else ", and are not averaged"
        found = f"no training figures: the repeats trained {' and '.join(map(str, epochs))} epochs{asked}"
        return None, f"{found}; let the program keep to the assignment"
    training = TrainingResult(
        epochs=epochs[0],
        timed_region=region,
        first_epoch_seconds=fmean([run.first_nanoseconds / 1e9 for run in runs]),
        evaluation_seconds=fmean([run.evaluation_nanoseconds / 1e9 for run in runs]),
        training_loss=fmean([run.loss for run in runs]),
        quality=_quality(runs, confidence),
    )
    seconds = [value for run in runs if (value := gang.timed_seconds(run, region)) is not None]
    timed_epochs = gang.timed_epochs(runs[0], region)
    if len(seconds) < len(runs):
        return training, NOT_A_SUM if timed_epochs else NO_TIMED_EPOCH
    interval = intervals.of_mean(seconds, confidence)
    per_epoch = interval.scaled(1 / timed_epochs)
    return training.model_copy(update={"seconds": interval, "seconds_per_epoch": per_epoch}), None


def _quality(runs: Sequence[Training], confidence: float) -> Quality | None:
    """The repeats' last and best epochs; which of a repeat is its best was decided where it was trained."""
    metric = runs[0].metric
    alike = [run for run in runs if run.metric == metric]
    finals = [run.final for run in alike if run.final is not None]
    bests = [run.best for run in alike if run.best is not None]
    if metric is None or len(finals) < len(runs) or len(bests) < len(runs):
        return None
    return Quality(metric=metric, final=within(metric, finals, confidence), best=within(metric, bests, confidence))


def within(metric: str, values: Sequence[float], confidence: float) -> Interval:
    """The interval, cut at what cannot be: a share is not above 1."""
    found = intervals.of_mean(values, confidence)
    if metric != "accuracy" or found.high is None:
        return found
    return found.model_copy(update={"high": min(1.0, found.high)})


# --- all-reduce -------------------------------------------------------------------------------------------------------

BUS_BANDWIDTH = Formula(
    text="throughput x bytes of an element / workers x 2 x (workers - 1) / workers",
    source="NVIDIA nccl-tests, doc/PERFORMANCE.md",
)

ELEMENT_BYTES = {
    Precision.FLOAT32: 4,
    Precision.TENSOR_FLOAT32: 4,  # a way of multiplying: what travels is float32
    Precision.MIXED_FLOAT16: 2,
    Precision.MIXED_BFLOAT16: 2,
}


def bandwidth(elements_per_second: Interval, *, workers: int, precision: Precision) -> Bandwidth | None:
    """Of the all-reduce, at a throughput that counts the elements of all ranks; None for one rank, which sends nothing.

    A step of t seconds moves one message of S bytes on each of n ranks, so T = n S / (t x bytes of an element) and the
    algorithm bandwidth S / t = bytes of an element x T / n. Bus bandwidth is that times 2 (n - 1) / n, which an ideal
    ring keeps constant whatever n is, so it can be compared with the speed of a link (NVIDIA nccl-tests).
    """
    if workers == 1 or precision not in ELEMENT_BYTES:
        return None
    algorithm = elements_per_second.scaled(ELEMENT_BYTES[precision] / workers)
    return Bandwidth(algorithm=algorithm, bus=algorithm.scaled(2 * (workers - 1) / workers))
