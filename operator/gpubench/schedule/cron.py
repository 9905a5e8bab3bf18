# SPDX-License-Identifier: Apache-2.0
"""Cron expressions as CronJob (github.com/robfig/cron/v3) reads them, the moments they name, and which run is due.

cronsim reads the fields and walks the calendar without a time zone; an expression is written anew for it where the two
differ (`_item`). A time that the clock leaps over does not run, one that it shows twice runs twice. Refused here and
accepted by CronJob are `@every`, which it does not document, and commas that divide nothing.
"""

import functools
import heapq
import itertools
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

# Typed and kept up; croniter was declared abandoned in 2025, and accepts far more than cron.
import cronsim

from gpubench.values import FrozenModel

#: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#schedule-syntax
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

#: No clock is ever put by more at once, and none has been since 1970 but across the date line.
_LEAP = timedelta(hours=3)


class InvalidSchedule(ValueError):
    """An expression, or a time zone, that CronJob would not take."""


class _Field(NamedTuple):
    name: str
    least: int
    most: int
    words: tuple[str, ...] = ()


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")),
    _Field("day of the week", 0, 6, ("sun", "mon", "tue", "wed", "thu", "fri", "sat")),
)
_ITEM = re.compile(r"([*?]|[0-9]{1,2}|[a-z]{3})(?:-([0-9]{1,2}|[a-z]{3}))?(?:/([0-9]{1,4}))?")


class Timetable(FrozenModel):
    """A schedule in its time zone: moments in seconds since the epoch."""

    expression: str  # as the library reads it
    time_zone: str

    def after(self, moment: float) -> int:
        """The first moment after another one."""
        return next(_in_order(self, moment, forwards=True))

    def until(self, moment: float) -> Iterator[int]:
        """The moments before another one, and that one itself, newest first."""
        return _in_order(self, moment, forwards=False)


@functools.lru_cache(maxsize=1024)  # a look at a schedule reads it again
def timetable(schedule: str, *, time_zone: str | None = None) -> Timetable:
    """When a schedule runs, in UTC without a zone (CronJob's is a pod's); InvalidSchedule where CronJob would not."""
    _zone(time_zone or "UTC")
    expression = MACROS.get(schedule.strip(), schedule)
    if expression.startswith("@"):
        raise InvalidSchedule(f"spec.schedule {schedule!r} is none of {', '.join(MACROS)}: write one, or five fields")
    if "TZ=" in expression:
        raise InvalidSchedule(f"spec.schedule {schedule!r} names a time zone: write it into spec.timeZone")
    texts = expression.split()
    if len(texts) != len(_FIELDS):
        raise InvalidSchedule(
            f"spec.schedule {schedule!r} has {len(texts)} fields: write minute, hour, day of the month, month and "
            "day of the week, such as 0 */4 * * *"
        )
    written = " ".join(_written(text, field) for text, field in zip(texts, _FIELDS, strict=True))
    found = Timetable(expression=written, time_zone=time_zone or "UTC")
    if next(_walls(found, datetime(2000, 1, 1), forwards=True), None) is None:  # noqa: DTZ001  # a wall clock's
        raise InvalidSchedule(f"spec.schedule {schedule!r} names a day that no year has: choose another one")
    return found


#: Years over which runs are counted for an average: four, so that a 29th of February is among them.
_COUNTED_FROM, _COUNTED_YEARS = datetime(2021, 1, 1), 4  # noqa: DTZ001  # a wall clock's


@functools.lru_cache(maxsize=1024)
def runs_per_hour(table: Timetable) -> Fraction:
    """How often a schedule runs in an hour, on average; the hours that clocks leap over and show twice cancel out."""
    fields = cronsim.CronSim(table.expression, _COUNTED_FROM)
    days = [_COUNTED_FROM + timedelta(days=day) for day in range(365 * _COUNTED_YEARS + 1)]
    on = sum(day.month in fields.months and fields.match_day(day) for day in days)
    return Fraction(on * len(fields.hours) * len(fields.minutes), 24 * len(days))


# --- the fields, as the library is to read them -----------------------------------------------------------------------


def _written(text: str, field: _Field) -> str:
    items = [_item(item, text, field) for item in text.lower().split(",")]
    # To robfig/cron a star anywhere in a field makes it a field without a restriction, which matters for days.
    return "*" if "*" in items else ",".join(items)


def _item(item: str, text: str, field: _Field) -> str:
    """One entry of a list, with its range written out.

    The library takes `*/2` for a field without a restriction (so that days of month and week must both match), and
    5-5/10 for 5/10; to robfig/cron the one restricts, and the other is 5.
    """

    def invalid(remedy: str) -> InvalidSchedule:
        return InvalidSchedule(f"spec.schedule has {text!r} for the {field.name}: {remedy}")

    def number(word: str) -> int:
        if word in field.words:
            return field.least + field.words.index(word)
        if not word.isdigit() or not field.least <= int(word) <= field.most:
            raise invalid(f"it is from {field.least} to {field.most}")
        return int(word)

    if (match := _ITEM.fullmatch(item)) is None:
        raise invalid("write numbers, ranges such as 1-5, steps such as */15, or * for all")
    low, high, step_text = match.groups()
    if (step := int(step_text or 1)) == 0:
        raise invalid("a step must be at least 1")
    if low in "*?":
        if high is not None:
            raise invalid("a range needs two ends, such as 1-5")
        return "*" if step == 1 else f"{field.least}-{field.most}/{step}"
    first = number(low)
    last = number(high) if high is not None else field.most if step_text else first
    if last < first:
        raise invalid("a range begins with its smaller end")
    return str(first) if last == first else f"{first}-{last}/{step}"


# --- from times on the clock to moments -------------------------------------------------------------------------------


@functools.cache
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidSchedule(
            f"spec.timeZone {name!r} is no time zone of the IANA database: write one such as Europe/Berlin, or UTC"
        ) from error


def _in_order(table: Timetable, moment: float, *, forwards: bool) -> Iterator[int]:
    """The moments beyond one; backwards, those until it, that one included.

    Where the clock is put, times on it are not in the order of the moments: each waits until the walk is well past it.
    """
    zone, sign = _zone(table.time_zone), 1 if forwards else -1
    wall = datetime.fromtimestamp(moment, zone).replace(tzinfo=None)
    waiting: list[tuple[int, datetime]] = []
    for candidate in _walls(table, wall - sign * _LEAP, forwards=forwards):
        while waiting and abs(candidate - waiting[0][1]) > _LEAP:
            yield sign * heapq.heappop(waiting)[0]
        for at in _moments(candidate, zone):
            if at > moment if forwards else at <= moment:
                heapq.heappush(waiting, (sign * at, candidate))


def _moments(wall: datetime, zone: ZoneInfo) -> set[int]:
    """When the clocks of a zone show a time: once; never, where they leap over it; twice, where they are put back."""
    found = set()
    for fold in (0, 1):
        at = int(wall.replace(tzinfo=zone, fold=fold).timestamp())
        if datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall:
            found.add(at)
    return found


def _walls(table: Timetable, wall: datetime, *, forwards: bool) -> Iterator[datetime]:
    try:
        yield from cronsim.CronSim(table.expression, wall, reverse=not forwards)
    except cronsim.CronSimError:
        return  # days of months that have fewer: it never runs


# --- which run is due -------------------------------------------------------------------------------------------------
#
# The rules of CronJob's controller: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ and
# pkg/controller/cronjob/utils.go of Kubernetes 1.36 (`mostRecentScheduleTime`, `nextScheduleTime`). Only the newest
# missed run is made up for, never all of them. After more than a hundred missed ones the page says that nothing starts;
# the controller has warned and started the newest one since 1.21, and so does this. Missed runs are counted, where the
# controller estimates them from the first two.

#: Beyond so many missed runs CronJob warns (TooManyMissedTimes): somebody should look at clock and schedule.
MISSED_MAX = 100


class Due(NamedTuple):
    """What is due now, moments in seconds since the epoch."""

    run: int | None  # the scheduled time of the newest run that is neither made nor too old
    missed: int  # runs between the last one made and now, `run` among them; MISSED_MAX + 1 stands for more
    too_late: int | None  # a run that would be due, had it not missed startingDeadlineSeconds
    next: int  # the first one after now


def due(table: Timetable, *, created: float, last: float | None, deadline_seconds: int | None, now: float) -> Due:
    """What is due now, by the newest run made or the creation; nothing after a clock was put back behind `last`."""
    begin = created if last is None else last
    open_since = begin if deadline_seconds is None else max(begin, now - deadline_seconds)
    newest = list(itertools.islice(itertools.takewhile(lambda at: at > begin, table.until(now)), MISSED_MAX + 1))
    missed = [at for at in newest if at > open_since]
    too_late = newest[0] if newest and not missed else None
    return Due(run=missed[0] if missed else None, missed=len(missed), too_late=too_late, next=table.after(now))
