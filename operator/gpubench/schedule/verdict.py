# SPDX-License-Identifier: Apache-2.0
"""Whether a study that runs again and again has become slower: since when, by how much, on which nodes.

Each point is a series of its own over the runs. The series is divided into levels (`measure.changepoint`), and the
last level is held against the fastest one before it: what was once reached for a while is what the machine can do. It
is a regression when it is slower by more than the tolerance. A slowdown that has gone again is none, and one that went
half way still is. With several points each has its part of the error, so that a schedule raises no more false alarms
than a single series would.

Must not happen: a verdict across environments. Only runs of the newest run's own environment, instance type and image
are looked at; that these have changed is reported beside it, since a new driver is what often made the difference, and
whether it did nobody can tell from here.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import records, units
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.point_result import Estimate
from gpubench.api.schedule import (
    KEY_CHANGES_MAX,
    NODES_NAMED_MAX,
    REGRESSION_SENTENCE_MAX,
    REGRESSIONS_MAX,
    KeyChange,
    Regression,
)
from gpubench.report import text
from gpubench.schedule.history import Entry, Figure
from gpubench.scheduler import conditions
from gpubench.stats import changepoint, compare
from gpubench.stats.changepoint import Level
from gpubench.units import rfc3339

#: The newest runs that are looked at: what was a year ago is history, and each look must stay cheap.
RUNS_LOOKED_AT = 200


class Measured(NamedTuple):
    """A run's figure of one point."""

    run: Entry
    figure: Figure


def series(entries: Sequence[Entry]) -> dict[str, tuple[Measured, ...]]:
    """The runs of each point, oldest first; only those that settled."""
    found: dict[str, list[Measured]] = {}
    for entry in entries:
        for figure in entry.figures:
            if figure.settled:
                found.setdefault(figure.point, []).append(Measured(entry, figure))
    return {point: tuple(measured[-RUNS_LOOKED_AT:]) for point, measured in found.items()}


def regressions(
    entries: Sequence[Entry], *, tolerance: float, alpha: float = changepoint.ALPHA
) -> tuple[Regression, ...]:
    """The points that are slower now than they were, the worst first.

    Of points that the newest runs do not have any more nothing is said.
    """
    current = _current(entries)
    found = [
        regression
        for measured in current.values()
        if (regression := _regression(measured, tolerance=tolerance, alpha=alpha / len(current))) is not None
    ]
    return tuple(sorted(found, key=lambda one: one.speed.mean))


def shown(found: Sequence[Regression]) -> tuple[Regression, ...]:
    """Those that a status has room for."""
    return tuple(found[:REGRESSIONS_MAX])


def judged(entries: Sequence[Entry]) -> int:
    """Of how many points a regression could have been seen: they have enough runs of one environment."""
    return sum(len(_of_newest_ground(one)) >= changepoint.SERIES_MIN for one in _current(entries).values())


def key_changes(entries: Sequence[Entry]) -> tuple[KeyChange, ...]:
    """When what the figures stand on has changed, newest first: `driver 550 -> 560`."""
    found: dict[tuple[str, str], KeyChange] = {}
    for measured in series(entries).values():
        for before, after in itertools.pairwise(measured):
            sentence = _difference(before, after)
            if sentence is not None:
                change = KeyChange(since=rfc3339(after.run.scheduled_at), run=after.run.name, sentence=sentence)
                found.setdefault((change.run, sentence), change)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.run), reverse=True)[:KEY_CHANGES_MAX])


def _current(entries: Sequence[Entry]) -> dict[str, tuple[Measured, ...]]:
    """The points of the newest run that has figures: a template that was changed has left others behind."""
    newest = next((entry for entry in reversed(entries) if any(figure.settled for figure in entry.figures)), None)
    here = () if newest is None else {figure.point for figure in newest.figures}
    return {point: measured for point, measured in series(entries).items() if point in here}


def _of_newest_ground(measured: Sequence[Measured]) -> tuple[Measured, ...]:
    ground = measured[-1].figure.ground
    return tuple(one for one in measured if one.figure.ground == ground)


def _regression(measured: Sequence[Measured], *, tolerance: float, alpha: float) -> Regression | None:
    comparable = _of_newest_ground(measured)
    levels = changepoint.levels([one.figure.speed for one in comparable], alpha=alpha)
    if len(levels) < 2:
        return None
    reference = max(levels[:-1], key=lambda level: level.mean)
    bound = reference.mean * (1 - tolerance)
    if levels[-1].mean >= bound:
        return None
    first = _first_below(levels, bound)
    since, before = comparable[first.begin :], comparable[reference.begin : reference.end]
    return _described(comparable[-1].figure, since=since, before=before)


def _first_below(levels: Sequence[Level], bound: float) -> Level:
    """Where the levels fell below a bound for good."""
    first = levels[-1]
    for level in reversed(levels):
        if level.mean >= bound:
            break
        first = level
    return first


def _described(figure: Figure, *, since: Sequence[Measured], before: Sequence[Measured]) -> Regression:
    now, then = ([one.figure.speed for one in part] for part in (since, before))
    ratio = compare.speed_ratio(compare.of_values(now), compare.of_values(then))
    speed = Estimate(mean=ratio.mean, low=ratio.low, high=ratio.high)
    nodes = tuple(sorted({node for one in since for node in one.figure.nodes}))
    moment = rfc3339(since[0].run.scheduled_at)
    sentence = (
        f"{figure.text} has {text.bounded(speed)} times the speed of before since {moment} ({since[0].run.name}): "
        f"{len(since)} runs against {len(before)}{_where(nodes, before)}"
    )
    return Regression(
        point=figure.text,
        since=moment,
        run=since[0].run.name,
        speed=speed,
        runs_since=len(since),
        runs_before=len(before),
        nodes=nodes[:NODES_NAMED_MAX],
        environment=figure.environment,
        sentence=conditions.clamped(sentence, REGRESSION_SENTENCE_MAX),
    )


def _where(nodes: Sequence[str], before: Sequence[Measured]) -> str:
    """The nodes of the slow runs, and whether any of them has been fast."""
    if not nodes:
        return ""
    fast = {node for one in before for node in one.figure.nodes}
    named = units.listed(tuple(nodes[:NODES_NAMED_MAX])) + (" and others" if len(nodes) > NODES_NAMED_MAX else "")
    same = ", where it was faster before" if fast & set(nodes) else ", none of them among the nodes of before"
    return f", on {named}{same if fast else ''}"


def _difference(before: Measured, after: Measured) -> str | None:
    """What the environments of two runs differ in; None where they do not."""
    if before.figure.ground == after.figure.ground:
        return None
    told = []
    these, those = _facts(before), _facts(after)
    for field in EnvironmentFacts.model_fields:
        here, there = these.get(field), those.get(field)
        if field != "environment" and here != there:
            told.append(f"{records.environment_field_name(field)} {_or_none(here)} -> {_or_none(there)}")
    if not told:
        told = [f"environment {_or_none(before.figure.environment)} -> {_or_none(after.figure.environment)}"]
    return conditions.clamped(", ".join(told), REGRESSION_SENTENCE_MAX)


def _facts(one: Measured) -> Mapping[str, object]:
    facts = next((facts for facts in one.run.environments if facts.environment == one.figure.environment), None)
    told: dict[str, object] = {} if facts is None else dict(facts)
    return {**told, "instance_type": one.figure.instance_type, "image_digest": one.figure.image_digest}


def _or_none(value: object) -> str:
    return "none" if value is None else str(value)
