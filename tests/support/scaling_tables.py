# SPDX-License-Identifier: Apache-2.0
"""The published scaling tables as lines, and each worker count of each line predicted from the others.

What is known before a line is looked at comes from other machines (three worker counts and more are left), or from the
other lines of the same machine (two are left), never from the line itself. Counts that lie far beyond the others are
kept apart: nothing is promised for them.
"""

import csv
import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import optimize, special

from gpubench.stats import scaling_law
from gpubench.stats.scaling_law import COUNTS_MIN, Experience, Reach, Speed
from gpubench.values import Interval

ROOT = Path(__file__).parents[2]
THROUGHPUTS = ROOT / "jobs" / "studies" / "published" / "tensorflow-2017.csv"
EFFICIENCIES = ROOT / "jobs" / "studies" / "published" / "parkopedia-2018.csv"
#: What the instances of one letter and generation have in them.
ACCELERATORS = {"g3": "M60", "p2": "K80", "p3": "V100"}
LEVELS = (0.8, 0.95)
#: The group of those for which nothing is promised.
FAR = "far beyond the others"
#: What experience is looked for among.
EXPERIENCES = tuple(
    Experience(loss=loss, scatter=scatter, freedom=freedom)
    for loss, scatter, freedom in itertools.product(
        (0.03, 0.045, 0.07, 0.1), (0.007, 0.01, 0.014, 0.02), (1.0, 2.0, 3.5, 6.0)
    )
)


@dataclass(frozen=True, kw_only=True)
class Line:
    """One line of scaling, all of it on the same kind of machine."""

    source: str
    machine: str
    work: tuple[str, ...]
    speeds: tuple[Speed, ...]


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A worker count that was left out, and what the others of its line say about it."""

    line: Line
    workers: int
    actual: float
    reach: Reach
    predicted: Mapping[float, Interval]  # by confidence; empty where the others determine nothing

    @property
    def error(self) -> float | None:
        """Relative, of the estimate."""
        return next((one.mean / self.actual - 1 for one in self.predicted.values()), None)

    def inside(self, level: float) -> bool:
        found = self.predicted[level]
        assert found.low is not None
        assert found.high is not None
        return found.low <= self.actual <= found.high


class Share(NamedTuple):
    """So many of so many."""

    hits: int
    of: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
        binomial", Biometrika 26, 1934.
        """
        tail, misses = (1 - confidence) / 2, self.of - self.hits
        low = float(special.betaincinv(self.hits, misses + 1, tail)) if self.hits else 0.0
        high = float(special.betaincinv(self.hits + 1, misses, 1 - tail)) if misses else 1.0
        return low, high


# --- the tables -------------------------------------------------------------------------------------------------------


@functools.cache
def lines() -> tuple[Line, ...]:
    """Every published line with three worker counts or more."""
    efficiencies = (
        (("Parkopedia 2018", ACCELERATORS[row["pool"].partition(".")[0]], (row["workload"], row["batch_per_worker"])),
         int(row["workers"]), int(row["workers"]) * float(row["efficiency"]))
        for row in _rows(EFFICIENCIES)
        if row["efficiency"]
    )  # fmt: skip
    throughputs = (
        (("TensorFlow 2017", row["pool"], (row["workload"], row["batch_per_worker"], row["data"], row["note"])),
         int(row["workers"]), float(row["samples_per_second"]))
        for row in _rows(THROUGHPUTS)
    )  # fmt: skip
    found: dict[tuple[str, str, tuple[str, ...]], list[Speed]] = {}
    for key, workers, throughput in itertools.chain(efficiencies, throughputs):
        # An efficiency is relative to one GPU, whose throughput is the unit.
        base = [Speed(workers=1, throughput=1.0)] if key[0] == "Parkopedia 2018" else []
        found.setdefault(key, base).append(Speed(workers=workers, throughput=throughput))
    return tuple(
        Line(source=source, machine=machine, work=work, speeds=tuple(speeds))
        for (source, machine, work), speeds in found.items()
        if len(speeds) >= COUNTS_MIN
    )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


# --- what is known beforehand -----------------------------------------------------------------------------------------


def learnt(among: Iterable[Line]) -> Experience:
    """The experience under which the left-out worker counts of these lines are likeliest.

    Of lines that are still determined without one count; others know their experience from their siblings.
    """
    known = [line for line in among if len(line.speeds) > COUNTS_MIN]
    return max(
        EXPERIENCES, key=lambda experience: math.fsum(scaling_law.likelihood(line.speeds, experience) for line in known)
    )


# --- one left out -----------------------------------------------------------------------------------------------------


@functools.cache
def left_out() -> tuple[LeftOut, ...]:
    """Each worker count of each line, predicted from the line's others."""
    without = {line.machine: learnt(one for one in lines() if one.machine != line.machine) for line in lines()}
    return tuple(_left_out(line, speed, experience=without[line.machine]) for line in lines() for speed in line.speeds)


def _left_out(line: Line, speed: Speed, *, experience: Experience) -> LeftOut:
    law = scaling_law.fit(
        [other for other in line.speeds if other is not speed],
        siblings=[other.speeds for other in lines() if other.machine == line.machine and other is not line],
        experience=experience,
    )
    if isinstance(law, str):
        raise AssertionError(f"{line.machine}, {line.work}: {law}")
    return LeftOut(
        line=line,
        workers=speed.workers,
        actual=speed.throughput,
        reach=law.reach(speed.workers),
        predicted={level: law.at(speed.workers, level).throughput for level in LEVELS},
    )


# --- other laws -------------------------------------------------------------------------------------------------------

#: The terms beside 1 of t(n) = n X(1) / X(n), each with a coefficient of 0 or more.
OTHER_LAWS: Mapping[str, Sequence[Callable[[float], float]]] = {
    "linear": (),
    "Amdahl 1967": (lambda n: n - 1,),
    "Gunther 2007": (lambda n: n - 1, lambda n: n * (n - 1)),
    "tree": (math.log2,),
    "volume and log2 n": (lambda n: 2 * (n - 1) / n, math.log2),
    "ring": (lambda n: 2 * (n - 1) / n, lambda n: 2 * (n - 1)),
}


def errors_of(law: str, among: Iterable[LeftOut]) -> list[float]:
    """Relative errors of another law on the same left-out worker counts, by non-negative least squares."""
    return [
        _least_squares([speed for speed in one.line.speeds if speed.workers != one.workers], one.workers, law)
        / one.actual - 1
        for one in among
    ]  # fmt: skip


def _least_squares(speeds: Sequence[Speed], workers: int, law: str) -> float:
    """C. L. Lawson and R. J. Hanson, "Solving Least Squares Problems", 1974; each time weighted by itself."""

    def row(count: int) -> list[float]:
        return [1.0, *(term(count) for term in OTHER_LAWS[law])]

    weighted = [[value * speed.each for value in row(speed.workers)] for speed in speeds]
    coefficients, _ = optimize.nnls(np.array(weighted), np.ones(len(speeds)))
    time = float(np.dot(coefficients, row(workers)))
    return workers / time if time else math.inf


# --- summaries --------------------------------------------------------------------------------------------------------


def groups(found: Sequence[LeftOut]) -> dict[str, list[LeftOut]]:
    """By machine and by how many counts were left, then all, then what lies far beyond the counts that were left."""
    near = [one for one in found if one.reach is not Reach.FAR]
    named: dict[str, list[LeftOut]] = {}
    for one in near:
        named.setdefault(f"{one.line.source}, {one.line.machine}", []).append(one)
    return named | {
        "all, two counts left": [one for one in near if len(one.line.speeds) == COUNTS_MIN],
        "all, three and more left": [one for one in near if len(one.line.speeds) > COUNTS_MIN],
        "all": near,
        FAR: [one for one in found if one.reach is Reach.FAR],
    }


def coverage(among: Sequence[LeftOut], level: float) -> Share:
    return Share(sum(one.inside(level) for one in among), len(among))


def errors(among: Iterable[LeftOut]) -> list[float]:
    return [error for one in among if (error := one.error) is not None]


def half_widths(among: Iterable[LeftOut], level: float) -> list[float]:
    """Of the intervals, relative to the estimate."""
    found = [one.predicted[level] for one in among]
    return [(one.high - one.low) / 2 / one.mean for one in found if one.high is not None and one.low is not None]


def middle(values: Iterable[float]) -> float:
    """The median of what the errors are without their signs."""
    return statistics.median(abs(value) for value in values)


def worst(values: Iterable[float]) -> float:
    return max(values, key=abs)
