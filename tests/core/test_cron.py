# SPDX-License-Identifier: Apache-2.0
"""Schedules are read as CronJob reads them: robfig_cron.csv has what its own parser says (cmd/crontimes)."""

import csv
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.schedule import cron


class Row(NamedTuple):
    expression: str
    zone: str
    start: int
    moments: tuple[int, ...]  # none: refused, or it never runs


def seconds(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def rows() -> list[Row]:
    with (Path(__file__).parent / "robfig_cron.csv").open() as table:
        return [
            Row(
                line["expression"],
                line["zone"],
                seconds(line["from"]),
                () if line["moments"] == "refused" else tuple(map(seconds, line["moments"].split())),
            )
            for line in csv.DictReader(table, delimiter=";")
        ]


def name(row: Row) -> str:
    return f"{row.expression} {row.zone}"


TAKEN = [row for row in rows() if row.moments]
REFUSED = [row for row in rows() if not row.moments]


def between(table: cron.Timetable, after: float, until: float) -> list[int]:
    """The moments after one and until another, newest first."""
    return [*itertools.takewhile(lambda at: at > after, table.until(until))]


@pytest.mark.parametrize("row", TAKEN, ids=name)
def test_runs_when_cronjob_runs(row: Row) -> None:
    table = cron.timetable(row.expression, time_zone=row.zone)
    found = [row.start]
    for _ in row.moments:
        found.append(table.after(found[-1]))
    assert tuple(found[1:]) == row.moments


@pytest.mark.parametrize("row", TAKEN, ids=name)
def test_looking_back_finds_the_same_moments(row: Row) -> None:
    table = cron.timetable(row.expression, time_zone=row.zone)
    assert between(table, row.start, row.moments[-1]) == [*reversed(row.moments)]
    assert between(table, row.start, row.moments[-1] - 1) == [*reversed(row.moments[:-1])]


@pytest.mark.parametrize("row", REFUSED, ids=name)
def test_refuses_what_cronjob_refuses(row: Row) -> None:
    with pytest.raises(cron.InvalidSchedule, match=r"^spec\.(schedule|timeZone) .*: "):
        cron.timetable(row.expression, time_zone=row.zone)


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("*-5 * * * *", "'*-5' for the minute: a range needs two ends, such as 1-5"),
        ("0 22-6 * * *", "'22-6' for the hour: a range begins with its smaller end"),
        ("0 0 32 * *", "'32' for the day of the month: it is from 1 to 31"),
        ("0 0 * */0 *", "'*/0' for the month: a step must be at least 1"),
        ("0 0 * * monday", "'monday' for the day of the week: write numbers, ranges such as 1-5, steps such as */15"),
    ],
)
def test_a_field_that_cannot_be_read_is_named_with_what_to_write(expression: str, told: str) -> None:
    with pytest.raises(cron.InvalidSchedule) as refused:
        cron.timetable(expression)
    assert str(refused.value).startswith(f"spec.schedule has {told}")


# https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#unsupported-timezone-spec
@pytest.mark.parametrize("expression", ["TZ=UTC 0 0 * * *", "CRON_TZ=Europe/Berlin 0 0 * * *"])
def test_a_time_zone_inside_the_schedule_is_refused_with_the_field_that_is_for_it(expression: str) -> None:
    with pytest.raises(cron.InvalidSchedule, match=r"write it into spec\.timeZone"):
        cron.timetable(expression)


# What cronsim knows beyond cron, and CronJob does not.
@pytest.mark.parametrize("expression", ["0 0 LW * *", "0 0 * * 5L", "@every 5m", "0 0 1W * *", "0,, * * * *"])
def test_what_only_the_library_knows_is_refused(expression: str) -> None:
    with pytest.raises(cron.InvalidSchedule):
        cron.timetable(expression)


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "Asia/Kathmandu")
EXPRESSIONS = ("*/17 * * * *", "30 1,2 * * *", "0 */5 * * 1-5", "15 2 29,30 3,10 *", "0 0 * * 0")


@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(ZONES),
    st.integers(seconds("2026-03-01T00:00Z"), seconds("2026-12-31T00:00Z")),
)
@settings(max_examples=60, deadline=None)
def test_between_a_moment_and_the_next_one_there_is_none(expression: str, zone: str, moment: int) -> None:
    table = cron.timetable(expression, time_zone=zone)
    after, latest = table.after(moment), next(table.until(moment), None)
    assert latest is not None
    assert latest <= moment < after
    assert next(table.until(after - 1)) == latest
    assert table.after(latest) == after
    assert next(table.until(after)) == after


def test_every_minute_of_the_hour_that_comes_twice_runs_twice() -> None:
    table = cron.timetable("* * * * *", time_zone="America/New_York")
    begin, end = seconds("2026-11-01T05:50Z"), seconds("2026-11-01T06:10Z")
    assert between(table, begin, end) == [*range(end, begin, -60)]


def test_a_moment_is_a_minute_of_utc_whatever_the_zone() -> None:
    table = cron.timetable("0 12 * * *", time_zone="Asia/Kathmandu")
    assert table.after(seconds("2026-05-01T00:00Z")) == int(datetime(2026, 5, 1, 6, 15, tzinfo=UTC).timestamp())


@pytest.mark.parametrize(("minutes", "missed"), [(0, 0), (1, 1), (100, 100), (101, 101), (5000, 101)])
def test_missed_runs_are_counted_until_they_are_more_than_a_hundred(minutes: int, missed: int) -> None:
    begin = seconds("2026-11-01T00:00Z")
    now = begin + minutes * 60
    found = cron.due(cron.timetable("* * * * *"), created=begin, last=None, deadline_seconds=None, now=now)
    assert (found.missed, found.run) == (missed, now if missed else None)
