# SPDX-License-Identifier: Apache-2.0
"""Histories of runs, and how often the verdict about simulated ones is right."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.schedule import Regression, Regressions
from gpubench.schedule import history
from gpubench.schedule.history import Entry, Figure

BEGIN = 1_793_577_600  # 2026-11-02T00:00Z
HOUR = 3600
SPEED = 1000.0
NOISE = 0.02
RUNS = 24
SLOW_FROM = 12  # the first slow run, counted from 1
SLOWDOWN = 0.10
FOUND_BY = 16
TOLERANCE = 0.05

#: Shapes of noise, each with a standard deviation of 1.
NOISES: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda source: source.gauss(0, 1),
    "one in ten three times as wide": lambda source: (
        source.gauss(0, 1) * (3 if source.random() < 0.1 else 1) / 1.8**0.5
    ),
    "uniform": lambda source: source.uniform(-(3**0.5), 3**0.5),
}


class Found(NamedTuple):
    """What became of one simulated history."""

    at: int | None  # the run after which a regression was first reported, counted from 1
    dated: int | None  # the run that it was said to have begun with, then


def figure(speed: float, *, point: str = "one", nodes: Sequence[str] = (), **fields: object) -> Figure:
    return Figure.model_validate(
        {
            "point": point,
            "text": f"resnet50 on {point}",
            "quantity": "Throughput",
            "mean": speed,
            "repeats": 3,
            "environment": "key",
            "nodes": tuple(nodes),
            **fields,
        }
    )


def entry(number: int, figures: Sequence[Figure], *, facts: Sequence[EnvironmentFacts] = (), name: str = "s") -> Entry:
    """Run `number`, counted from 1."""
    scheduled_at = BEGIN + number * HOUR
    return Entry(
        name=f"{name}-{scheduled_at // 60}",
        uid=str(number),
        scheduled_at=scheduled_at,
        created_at=scheduled_at,
        finished_at=scheduled_at + 120,
        succeeded=True,
        sentence="all points ended",
        figures=tuple(figures),
        environments=tuple(facts),
    )


def of_speeds(speeds: Sequence[float], *, nodes: Sequence[str] = ()) -> list[Entry]:
    """One entry for each speed; run i on nodes[i], where nodes are given."""
    return [
        entry(number, [figure(speed, nodes=nodes[number - 1 : number])]) for number, speed in enumerate(speeds, start=1)
    ]


def simulated(source: random.Random, *, slowdown: float, noise: str = "normal", points: int = 1) -> list[Entry]:
    """A history of RUNS runs, slower from SLOW_FROM on by so much, in the first of its points."""
    found = []
    for number in range(1, RUNS + 1):
        figures = []
        for point in range(points):
            level = SPEED * (1 - slowdown if number >= SLOW_FROM and point == 0 else 1)
            figures.append(figure(level * (1 + NOISE * NOISES[noise](source)), point=f"p{point}"))
        found.append(entry(number, figures))
    return found


def watched(entries: Sequence[Entry], *, until: int = RUNS) -> Found:
    """Judged after each run, as an operator does, until the first regression is reported."""
    for number in range(1, until + 1):
        if found := regressions(entries[:number]):
            return Found(at=number, dated=number_of(found[0]))
    return Found(at=None, dated=None)


def regressions(
    entries: Sequence[Entry], *, accepted_at: float | None = None, **rules: object
) -> tuple[Regression, ...]:
    """As an operator finds them that reads all of a history for the first time."""
    given = Regressions.model_validate({"tolerance": str(TOLERANCE), **rules})
    return history.regressions(history.series(entries, given, accepted_at=accepted_at))


def archived(entries: Sequence[Entry], *, accepted_at: float | None = None, **rules: object) -> list[Entry]:
    """As an operator keeps them: each with what is remembered after it."""
    given = Regressions.model_validate({"tolerance": str(TOLERANCE), **rules})
    found: list[Entry] = []
    for one in entries:
        accepted = accepted_at if accepted_at is not None and accepted_at <= one.finished_at else None
        found.append(history.with_levels(one, found, given, accepted_at=accepted))
    return found


def number_of(regression: Regression) -> int:
    """Of the run since which it is."""
    return (int(regression.run.rpartition("-")[2]) * 60 - BEGIN) // HOUR


def outcomes(
    count: int, *, seed: int, slowdown: float, noise: str = "normal", points: int = 1, until: int = RUNS
) -> Iterator[Found]:
    source = random.Random(seed)
    for _ in range(count):
        yield watched(simulated(source, slowdown=slowdown, noise=noise, points=points), until=until)


def is_right(found: Found) -> bool:
    """Found in time, not before there was anything, and dated right within one run."""
    if found.at is None or found.dated is None:
        return False
    return SLOW_FROM <= found.at <= FOUND_BY and abs(found.dated - SLOW_FROM) <= 1
