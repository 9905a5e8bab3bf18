# SPDX-License-Identifier: Apache-2.0
"""Whether a series of speeds has fallen below its level: looked at after each run, with a memory of what was found.

**Reference.** The runs of the level, of the newest 500, without those of regressions that have healed. A run is held
against the median of the first hundred, or of the first week, so that a slow drift does not take the reference along at
once. Where nodes come again and again, as of the newest thirty runs, it is held against those on its own node: nodes
differ and stay as they are, and one without five runs is no ground for a verdict. What runs at this time of the week
usually have is taken off where it is more than half the tolerance: busy weekdays come back.

**Regression.** One run is none. All of the newest 2 to 6 runs must lie below the bound, 1 - tolerance, or about three
quarters of the newest 7 to 20, and so must their median. And chance must be unlikely: if the runs were exchangeable,
the number of the newest k among the R slowest of all N would be hypergeometric. The error of the look at N runs may be
8 a / N (N - 1), whose sum over all N from 9 on is a, the false alarms for each k: that is spent over the life of a
series, whatever its scatter is like, where a test without it would find something in every series that is long enough.
With 0.05 for a, two runs are never enough, three are from 17 on, four from 11 on. (Error spent over looks: K. K. G.
Lan and D. L. DeMets, Biometrika 70, 1983; ranks of the newest values: G. J. Ross and N. M. Adams, J. Quality Technology
44, 2012.) Where runs resemble those before them, which the bound does not cover, five at least are asked for.

It is dated by least absolute deviations from the new level and the old one.

**Its end.** It has healed when four runs in a row are above 1 - tolerance / 2: a step as large as the tolerance does
not flap. It is accepted as the new level after so many runs as are asked for, or by a person. One that stands hides no
other: where its own runs have become slower still, by the same rules, it stands since then. A level that is faster, by
more than the tolerance, for fifteen runs and three days (longer than a weekend) is the new reference.

Must not happen: a regression that ends because time has passed, without a word; one bad run that is news.
What comes out, on simulated and real histories, is in tests/benchmarks/README.md.
"""

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from gpubench import values

#: Runs that a level must have before anything is held against it, and a node before its runs are.
REFERENCE_MIN = 5
#: How many of the newest runs are looked at, and how many of these must be slow.
_NEWEST = {2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 6, 8: 7, 9: 7, 10: 8, 14: 11, 20: 15}
_FEW = 4  # runs that end a regression; too few for one where runs resemble those before them
#: Runs that a series must have before a regression can be found in it.
SERIES_MIN = REFERENCE_MIN + _FEW
_FIRST = 100  # runs that make the reference
#: The newest runs of a series that are looked at: each look must stay cheap. Hourly runs of two weeks are in it.
RUNS_MAX = 500
_NODES_KNOWN_BY = 30  # newest runs, by which it is known whether nodes come again
_RANKED = 200  # of the newest runs of the level, that the newest ones are ranked among
_ALIKE = 0.45  # correlation of runs with those before them
_ALIKE_MIN = 20  # runs by which that is known
_FASTER_RUNS, _FASTER_SECONDS = 15, 3 * 86_400.0
_WEEK, _HALF_A_DAY = 7 * 86_400.0, 43_200.0
_SEASON_MIN = 3


class Run(NamedTuple):
    """One value of a series."""

    at: float  # seconds since the epoch
    speed: float  # above zero; above is better
    node: str = ""  # or nodes; empty where nobody knows, or nobody is to look


class Rules(NamedTuple):
    """What a regression is."""

    tolerance: float = 0.05  # the share by which a level may be slower
    false_alarms: float = 0.05  # in the whole life of a series that has one level, for each length of newest runs
    accept_after: int = 30  # runs


class Level(NamedTuple):
    """What is remembered of a series after a run, as indices of its runs."""

    begin: int = 0  # the first run of the reference
    slow: int | None = None  # the first run of a regression that stands
    ended: tuple[tuple[int, int], ...] = ()  # regressions of before: they are no part of the reference

    def moved(self, by: int) -> "Level":
        """The same where the series begins so many runs earlier, or, below 0, later: what is gone is gone."""
        slow = None if self.slow is None else max(0, self.slow + by)
        ended = tuple((max(0, first + by), last + by) for first, last in self.ended if last + by > 0)
        return Level(max(0, self.begin + by), slow, ended)

    def reference(self, end: int) -> list[int]:
        """The runs before that one that others are held against."""
        healed = self.healed()
        return [at for at in range(self.begin, end) if at not in healed]

    def healed(self) -> set[int]:
        return {at for first, last in self.ended for at in range(first, last)}


class _Reference:
    def __init__(self, runs: Sequence[Run], level: Level, end: int, rules: Rules) -> None:
        self._tolerance = rules.tolerance
        healed = level.healed()
        #: Of the level, and whether they are of a regression that has healed: slow weekends are, and come back.
        self._all = [(run, at in healed) for at, run in enumerate(runs[level.begin : end], start=level.begin)]
        self._runs = [run for run, has_healed in self._all if not has_healed]
        self._usual: dict[str, float] = {}
        newest = runs[-_NODES_KNOWN_BY:]
        if 2 * len({run.node for run in newest}) <= len(newest):
            by_node = values.grouped(self._runs, lambda run: run.node)
            self._usual = {node: _usual(of) for node, of in by_node.items() if len(of) >= REFERENCE_MIN}
        elif self._runs:
            self._usual = dict.fromkeys((run.node for run in runs), _usual(self._runs))
        self._relative: list[tuple[float, float, bool]] | None = None

    def usual(self, run: Run) -> float | None:
        """What it is held against; None where that of its node is not known."""
        return self._usual.get(run.node)

    def relative(self, run: Run) -> float | None:
        """Its speed over the usual one, without what this time of the week always has."""
        return None if (usual := self.usual(run)) is None else run.speed / usual / self._season(run.at)

    def newest(self) -> list[tuple[float, float]]:
        """When its runs were, and their speeds over the usual one."""
        return [(at, speed) for at, speed, has_healed in self._known() if not has_healed]

    def _known(self) -> list[tuple[float, float, bool]]:
        if self._relative is None:
            self._relative = [
                (run.at, run.speed / one, healed) for run, healed in self._all if (one := self._usual.get(run.node))
            ]
        return self._relative

    def resemble(self) -> bool:
        """Whether its newest runs are like those before them."""
        speeds = [found / self._season(at) for at, found in self.newest()[-_FIRST:]]
        if len(speeds) < _ALIKE_MIN:
            return False
        mean = math.fsum(speeds) / len(speeds)
        away = [speed - mean for speed in speeds]
        alike = math.fsum(one * other for one, other in itertools.pairwise(away))
        return alike > _ALIKE * math.fsum(one * one for one in away)

    def _season(self, at: float) -> float:
        """What runs of this time of the week have over the usual speed; where they healed, in two weeks at least."""
        if not (known := self._known()):
            return 1.0
        weeks: list[list[tuple[float, float, bool]]] = []
        for week in range(round((known[0][0] - at) / _WEEK), round((known[-1][0] - at) / _WEEK) + 1):
            begin, end = (bisect.bisect(known, (at + week * _WEEK + one,)) for one in (-_HALF_A_DAY, _HALF_A_DAY + 1))
            if week and begin < end:
                weeks.append(known[begin:end])
        near = [speed for found in weeks for _, speed, _ in found]
        if len(near) < _SEASON_MIN or (len(weeks) < 2 and any(has_healed for _, _, has_healed in weeks[0])):
            return 1.0
        usual = median(near)
        return usual if abs(usual - 1) > self._tolerance / 2 else 1.0


def _usual(runs: Sequence[Run]) -> float:
    """The median of the first ones: a whole week of them at least, for weekends may differ."""
    week = bisect.bisect_left(runs, runs[0].at + _WEEK, key=lambda run: run.at)
    return median(run.speed for run in runs[: max(_FIRST, week)])


def after(runs: Sequence[Run], level: Level, rules: Rules) -> Level:
    """What is to be remembered after the newest of these runs, given what was after the one before it."""
    if level.slow is not None:
        return _during(runs, level, level.slow, rules)
    if len(runs) - level.begin < SERIES_MIN:
        return level
    if (newest := _Reference(runs, level, len(runs) - min(_NEWEST), rules).relative(runs[-1])) is None:
        return level
    if newest < 1 - rules.tolerance:
        return level._replace(slow=_slow(runs, level, rules))
    return _faster(runs, level, rules) if newest > 1 + rules.tolerance else level


def found(runs: Sequence[Run], rules: Rules, known: Sequence[Level] = ()) -> Iterator[Level]:
    """What is remembered after each run of a series, from its beginning; `known` is what was after the first ones."""
    yield from known
    level = known[-1] if known else Level()
    for count in range(len(known) + 1, len(runs) + 1):
        first = max(0, count - RUNS_MAX)
        level = after(runs[first:count], level.moved(-first), rules).moved(first)
        yield level


def usual(runs: Sequence[Run], level: Level, rules: Rules) -> float | None:
    """What the newest run is held against; None where there is nothing, and so no verdict on it."""
    end = len(runs) - _FEW if level.slow is None else level.slow
    return None if end - level.begin < REFERENCE_MIN else _Reference(runs, level, end, rules).usual(runs[-1])


def _slow(runs: Sequence[Run], level: Level, rules: Rules) -> int | None:
    """The first of the newest runs that are slow together, if they are."""
    bound = 1 - rules.tolerance
    for count, needed in _NEWEST.items():
        begin = len(runs) - count
        if begin - level.begin < REFERENCE_MIN:
            break
        reference = _Reference(runs, level, begin, rules)
        speeds = sorted(one for run in runs[begin:] if (one := reference.relative(run)) is not None)
        if len(speeds) < count or max(speeds[needed - 1], median(speeds)) >= bound:
            continue
        before = [one for _, one in reference.newest()[-_RANKED:]]
        among = needed + sum(one <= speeds[needed - 1] for one in before)
        total = len(before) + count
        if _chance(total, among, count, needed) > (SERIES_MIN - 1) * rules.false_alarms / (total * (total - 1)):
            continue
        if count > _FEW or not reference.resemble():
            return _since(runs, reference, level, low=median(speeds))
    return None


def _chance(total: int, among: int, count: int, needed: int) -> float:
    """That at least so many of the newest `count` of `total` exchangeable values are among the lowest `among`."""
    hits = range(needed, min(count, among) + 1)
    return sum(math.comb(among, hit) * math.comb(total - among, count - hit) for hit in hits) / math.comb(total, count)


def _since(runs: Sequence[Run], reference: _Reference, level: Level, *, low: float) -> int:
    """The run from which on all are nearer to the new level than to the old one, in sum: least absolute deviations."""
    since, best, total = len(runs) - 1, 0.0, 0.0
    first = max(level.begin + REFERENCE_MIN, len(runs) - _RANKED, *(last for _, last in level.ended))
    for at in reversed(range(first, len(runs))):
        if (one := reference.relative(runs[at])) is not None:
            total += abs(one - low) - abs(one - 1)
            if total < best - (1 - low) / 4:  # one slow run before normal ones moves nothing
                since, best = at, total
    return since


def _during(runs: Sequence[Run], level: Level, slow: int, rules: Rules) -> Level:
    if len(runs) - slow >= rules.accept_after or slow <= level.begin:  # or all that it was held against has aged out
        return accepted(level)
    reference = _Reference(runs, level, slow, rules)
    relative = [reference.relative(run) for run in runs[slow:]]
    newest = relative[-_FEW:]
    if len(newest) == _FEW and all(one is not None and one >= 1 - rules.tolerance / 2 for one in newest):
        return Level(level.begin, None, (*level.ended, (slow, len(runs) - 1)))
    known = [(at, one) for at, one in enumerate(relative, start=slow) if one is not None]
    slower = after([Run(runs[at].at, one) for at, one in known], Level(), rules).slow
    if relative[-1] is None or slower is None:
        return level
    again, _ = known[slower]
    return Level(level.begin, again, (*level.ended, (slow, again)))


def accepted(level: Level) -> Level:
    """The regression that stands, if any, as the new level."""
    return level if level.slow is None else Level(level.slow)


def _faster(runs: Sequence[Run], level: Level, rules: Rules) -> Level:
    at = len(runs) - _FASTER_RUNS
    while at > level.begin and runs[-1].at - runs[at].at < _FASTER_SECONDS:
        at -= 1
    if at - level.begin < REFERENCE_MIN:
        return level
    reference = _Reference(runs, level, at, rules)
    newest = [reference.relative(run) for run in runs[at:]]
    fast = sum(one is not None and one > 1 + rules.tolerance for one in newest)
    return Level(at) if fast >= 0.9 * len(newest) else level
