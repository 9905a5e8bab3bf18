# SPDX-License-Identifier: Apache-2.0
"""From what every rank tells of its device to what the gang's result says of them. Pure.

Must not happen: a sum over ranks in which one is missing; a figure of a rank that could not tell it.
"""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TypeVar

from gpubench import records

_Record = TypeVar("_Record", records.Usage, records.Health)
_Number = TypeVar("_Number", int, float)


def of_ranks(
    usages: Sequence[records.Usage], healths: Sequence[records.Health], *, ranks: int, counted: float = 1.0
) -> records.Machine | None:
    """None where nobody has looked; what only some of the ranks have is left out.

    `counted` is the share of the measured time that the figures of the gang stand on: the energy that belongs to them.
    """
    usages = usages if len(usages) == ranks else ()
    healths = healths if len(healths) == ranks else ()
    if not usages and not healths:
        return None
    weakest = min(healths, key=lambda health: health.arithmetic, default=None)
    return records.Machine(
        processor=_over(fmean, usages, lambda usage: usage.processor),
        memory_bytes=_over(max, usages, lambda usage: usage.memory_bytes),
        gpu=_over(fmean, usages, lambda usage: usage.gpu),
        gpu_memory_bytes=_over(max, usages, lambda usage: usage.gpu_memory_bytes),
        watts=_over(sum, usages, lambda usage: usage.watts),
        joules=_over(sum, usages, lambda usage: None if usage.joules is None else usage.joules * counted),
        celsius_high=_over(max, usages, lambda usage: usage.celsius_high),
        throttled=_over(max, usages, lambda usage: usage.throttled),
        arithmetic=weakest.arithmetic if weakest else None,
        memory=_over(min, healths, lambda health: health.memory),
        allreduce=_over(min, healths, lambda health: health.allreduce),
        weakest_rank=weakest.rank if weakest else None,
    )


def _over(
    fold: Callable[[Sequence[_Number]], _Number], told: Sequence[_Record], figure: Callable[[_Record], _Number | None]
) -> _Number | None:
    """Of all ranks together; None unless every one of them tells it."""
    figures = [each for one in told if (each := figure(one)) is not None]
    return fold(figures) if figures and len(figures) == len(told) else None
