# SPDX-License-Identifier: Apache-2.0
"""What a machine's check of itself says: the cost of the harness, the clock, the scatter, the smallest difference.

`gpubench self-check` starts a process that measures and writes `Found` values as JSON lines; what follows from them is
computed here. The measured loop (windows, records, live metrics, sampling) and a bare loop call the same compiled
training step in turns, in one process, so that whatever else the machine does falls on both; each turn gives a ratio
of their times, whose interval is Student's t over the logarithms. Fresh processes do the same again: how much their
speeds differ is the scatter of runs.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from gpubench.api.point_result import Estimate
from gpubench.measure import compare, intervals, noise
from gpubench.values import Value

#: Repeats for which the smallest difference is said.
REPEATS = (3, 5, 10, 20)
#: The bar of the harness' overhead: the upper end of the interval of its time over the bare loop's.
OVERHEAD_MAX = 1.01
_BAR = f"{100 * (OVERHEAD_MAX - 1):.2g} %"


class Order(Value):
    """What the measuring process is to do."""

    gangs: tuple[int, ...]  # ranks of the gangs to run, each once; then one rank again and again
    seconds: float  # no gang is begun that would probably not be over by then
    rounds: int  # of one block of either loop
    block_seconds: float
    windows: int  # of a block of the measured loop
    workload: str
    batch: int
    gpu: bool
    processes: int = 20  # of one rank, at most


class Clock(Value):
    """The clock of every duration."""

    kind: Literal["clock"] = "clock"
    step_nanoseconds: int  # the smallest step between two different readings
    reading_nanoseconds: float  # what one reading takes


class Gang(Value):
    """Fresh processes that have run both loops in turns: one entry for each round, of the slowest rank."""

    kind: Literal["gang"] = "gang"
    ranks: int
    steps: int  # of a block
    samples: int  # of a block, of all ranks
    measured: tuple[float, ...]  # seconds
    bare: tuple[float, ...]
    measured_processor: float  # CPU seconds of rank 0 in all of these blocks
    bare_processor: float


Found = Clock | Gang
_FOUND: TypeAdapter[Found] = TypeAdapter(Annotated[Found, Field(discriminator="kind")])


class Overhead(Value):
    """What the harness costs a gang of so many ranks."""

    ranks: int
    rounds: int
    time: Estimate  # of the measured loop over that of the bare one: 1 costs nothing
    step_seconds: float  # of the measured loop
    step_processor_seconds: float  # CPU of one rank, measured loop
    bare_step_processor_seconds: float

    @property
    def sentence(self) -> str:
        """Whether the bar holds."""
        low, high = self.time.low, self.time.high
        if high is not None and high <= OVERHEAD_MAX:
            return f"at most {_BAR} more time"
        if low is not None and low > OVERHEAD_MAX:
            return f"more than {_BAR} more time"
        if low is None or high is None:
            return "cannot tell: too few rounds"
        return f"cannot tell: the interval is {compare.percent(high - low)} wide"


class Scatter(Value):
    """Coefficients of variation of the speed of one rank."""

    inside: float | None  # of the blocks of one process
    block_seconds: float
    between: Estimate | None  # of fresh processes
    processes: int
    run_seconds: float  # of measured blocks in a process


class Smallest(Value):
    """The smallest difference that so many repeats of each of two points tell."""

    repeats: int
    difference: float
    at_most: float | None  # if the scatter is as large as its interval reaches


class Report(Value):
    """All of it."""

    clock: Clock
    overhead: tuple[Overhead, ...]
    scatter: Scatter | None  # None where no gang of one rank was run
    smallest: tuple[Smallest, ...]  # empty where fewer than three processes were run


def read(line: str) -> Found:
    """One line of the measuring process."""
    return _FOUND.validate_json(line)


def report(found: Sequence[Found]) -> Report:
    """What follows from what was found; ValueError where not even the clock was."""
    clocks = [one for one in found if isinstance(one, Clock)]
    gangs = [one for one in found if isinstance(one, Gang)]
    if not clocks:
        raise ValueError("the check has said nothing of the clock")
    alone = [gang for gang in gangs if gang.ranks == 1]
    scatter = _scatter(alone) if alone else None
    return Report(
        clock=clocks[0],
        overhead=tuple(
            _overhead([gang for gang in gangs if gang.ranks == ranks]) for ranks in sorted({g.ranks for g in gangs})
        ),
        scatter=scatter,
        smallest=_smallest(scatter),
    )


def ratio(pairs: Sequence[tuple[float, float]]) -> Estimate:
    """The geometric mean of the pairs' ratios, with Student's t interval over their logarithms."""
    found = intervals.of_mean([math.log(one / other) for one, other in pairs])
    if found.low is None or found.high is None:
        return Estimate(mean=math.exp(found.mean))
    return Estimate(mean=math.exp(found.mean), low=math.exp(found.low), high=math.exp(found.high))


def _overhead(gangs: Sequence[Gang]) -> Overhead:
    rounds = [pair for gang in gangs for pair in zip(gang.measured, gang.bare, strict=True)]
    steps = sum(gang.steps * len(gang.measured) for gang in gangs)
    return Overhead(
        ranks=gangs[0].ranks,
        rounds=len(rounds),
        time=ratio(rounds),
        step_seconds=math.fsum(seconds for seconds, _ in rounds) / steps,
        step_processor_seconds=math.fsum(gang.measured_processor for gang in gangs) / steps,
        bare_step_processor_seconds=math.fsum(gang.bare_processor for gang in gangs) / steps,
    )


def _scatter(gangs: Sequence[Gang]) -> Scatter:
    """Speeds of blocks inside each process, and of processes: total samples over total time."""
    speeds = [gang.samples * len(gang.measured) / math.fsum(gang.measured) for gang in gangs]
    inside = [
        noise.variation([gang.samples / seconds for seconds in gang.measured])
        for gang in gangs
        if len(gang.measured) > 1
    ]
    between = noise.of_runs(speeds) if len(speeds) > 1 else None
    return Scatter(
        # The mean of variances, as of groups of equal size.
        inside=math.sqrt(statistics.fmean(one**2 for one in inside)) if inside else None,
        block_seconds=statistics.fmean(seconds for gang in gangs for seconds in gang.measured),
        between=None if between is None else Estimate(mean=between.mean, low=between.low, high=between.high),
        processes=len(gangs),
        run_seconds=statistics.fmean(math.fsum(gang.measured) for gang in gangs),
    )


def _smallest(scatter: Scatter | None) -> tuple[Smallest, ...]:
    if scatter is None or scatter.between is None or scatter.between.low is None:
        return ()
    high = scatter.between.high
    return tuple(
        Smallest(
            repeats=repeats,
            difference=noise.smallest_difference(scatter.between.mean, repeats=repeats),
            at_most=None if high is None else noise.smallest_difference(high, repeats=repeats),
        )
        for repeats in REPEATS
    )
