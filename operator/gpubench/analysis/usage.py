# SPDX-License-Identifier: Apache-2.0
"""What the machine did while a point was measured, over its repeats. What no repeat could tell is absent."""

import math
from collections.abc import Iterable, Sequence

from gpubench.api.point_result import GpuUsage, HostUsage
from gpubench.records import Machine, Result
from gpubench.units import sampled


def gpu(results: Sequence[Result]) -> GpuUsage | None:
    """Of the GPUs; None where there were none, or nothing could be told."""
    machines = _machines(results)
    found = GpuUsage(
        utilization=_mean(machine.gpu for machine in machines),
        memory_peak=_largest(machine.gpu_memory_bytes for machine in machines),
        watts=_mean(machine.watts for machine in machines),
        joules_per_million_samples=_energy(results),
        throttled=_rounded(max((one.throttled for one in machines if one.throttled is not None), default=None)),
    )
    return None if found == GpuUsage() else found


def host(results: Sequence[Result]) -> HostUsage | None:
    """Of the ranks' processes."""
    machines = _machines(results)
    found = HostUsage(
        processors=_mean(machine.processor for machine in machines),
        memory_peak=_largest(machine.memory_bytes for machine in machines),
    )
    return None if found == HostUsage() else found


def _energy(results: Sequence[Result]) -> float | None:
    """Joules over samples of the repeats that tell them, so that each weighs by its samples.

    By the GPUs' own counters; by power times time where no repeat has any, and never by both in one figure. Of a
    training it is that of its evaluations, too: a counter goes on while they run.
    """
    told = [(result.machine, result) for result in results if result.machine is not None]
    counted = [(machine.joules, result.samples) for machine, result in told if machine.joules is not None]
    sampled = [
        (machine.watts * _nanoseconds(result) / 1e9, result.samples)
        for machine, result in told
        if machine.watts is not None
    ]
    energies = counted or sampled
    if not energies:
        return None
    return _rounded(math.fsum(joules for joules, _ in energies) / sum(samples for _, samples in energies) * 1e6)


def _nanoseconds(result: Result) -> int:
    return result.nanoseconds + (result.training.evaluation_nanoseconds if result.training is not None else 0)


def _machines(results: Sequence[Result]) -> list[Machine]:
    return [result.machine for result in results if result.machine is not None]


def _mean(values: Iterable[float | None]) -> float | None:
    told = [value for value in values if value is not None]
    return _rounded(math.fsum(told) / len(told)) if told else None


def _largest(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _rounded(value: float | None) -> float | None:
    return None if value is None else sampled(value)
