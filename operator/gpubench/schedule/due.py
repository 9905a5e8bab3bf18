# SPDX-License-Identifier: Apache-2.0
"""Which run of a schedule is due, by the rules of CronJob's controller.

Sources: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ and pkg/controller/cronjob/utils.go of
Kubernetes 1.36 (`mostRecentScheduleTime`, `nextScheduleTime`). Only the newest missed run is made up for, never all of
them. More than a hundred missed ones: the page says that nothing is started then, the controller has warned and started
the newest one since 1.21, and so does this; a schedule that stood still for ever after an outage of two hours was
nothing that anybody wanted. Missed runs are counted, where the controller estimates them from the first two.
"""

from typing import NamedTuple

from gpubench.schedule.cron import Timetable

#: Beyond so many missed runs somebody should look at clock and schedule.
MISSED_MAX = 100


class Due(NamedTuple):
    """What a look at a schedule finds, moments in seconds since the epoch."""

    run: int | None  # the scheduled time of the newest run that is neither made nor too old
    missed: int  # runs between the last one made and now, `run` among them; MISSED_MAX + 1 stands for more
    too_late: int | None  # a run that would be due, had it not missed startingDeadlineSeconds
    next: int | None  # the first one after now

    @property
    def too_many_missed(self) -> bool:
        """Whether CronJob would warn (TooManyMissedTimes)."""
        return self.missed > MISSED_MAX


def due(table: Timetable, *, created: float, last: float | None, deadline_seconds: int | None, now: float) -> Due:
    """What is due now. `last` is the scheduled time of the last run made, `created` the schedule's own creation.

    A clock that is put back finds `last` in the future, and so nothing due until it has come there again.
    """
    begin = created if last is None else last
    open_since = begin if deadline_seconds is None else max(begin, now - deadline_seconds)
    missed = table.between(open_since, now, most=MISSED_MAX + 1) if now > open_since else ()
    newest = table.latest(now)
    too_late = newest if not missed and newest is not None and begin < newest else None
    return Due(run=missed[0] if missed else None, missed=len(missed), too_late=too_late, next=table.after(now))
