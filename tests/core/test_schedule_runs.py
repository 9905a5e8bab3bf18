# SPDX-License-Identifier: Apache-2.0
"""The rules of CronJob over a simulated clock, each beside where it is written.

PAGE is https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/, API the reference of batch/v1 CronJob,
CODE pkg/controller/cronjob of Kubernetes 1.36. The controller here is a loop that may be away, may be two, may have a
wrong clock, and may be cut off between creating a run and writing that down.
"""

from datetime import datetime
from typing import Any

import pytest

from gpubench import names
from gpubench.api.schedule import GpuBenchmarkScheduleSpec
from gpubench.schedule import runs
from gpubench.schedule.runs import Run

MINUTE, HOUR, DAY = 60, 3600, 86400
SWEEP = [{"workloads": ["trivial"], "pools": ["p"], "workers": [1], "batchPerWorker": [1]}]


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def spec(schedule: str = "*/10 * * * *", **fields: Any) -> GpuBenchmarkScheduleSpec:
    return GpuBenchmarkScheduleSpec.model_validate(
        {"schedule": schedule, "benchmarkTemplate": {"spec": {"sweep": SWEEP}}, **fields}
    )


class Simulation:
    """A cluster with one schedule. Benchmarks take `takes` seconds; each creation is kept, in order."""

    def __init__(self, spec: GpuBenchmarkScheduleSpec, *, begin: int, takes: float = 1.0) -> None:
        self.schedule = runs.Schedule(name="s", created_at=begin, spec=spec)
        self.clock = float(begin)  # the operator's
        self.now = float(begin)  # the world's
        self.takes = takes
        self.there: dict[str, Run] = {}
        self.made: list[str] = []
        self.refused: list[str] = []  # creations that found the name taken
        self.told: list[str] = []
        self.archive: list[str] = []

    def look(self, *, writes_status: bool = True, seen: tuple[Run, ...] | None = None) -> runs.Decision:
        self._age()
        decided = runs.decide(self.schedule, tuple(self.there.values()) if seen is None else seen, self.clock)
        for run in decided.archive:
            if run.name in self.there:
                self.archive.append(run.name)
                self.there[run.name] = run.model_copy(update={"archived": True})
        for run in (*decided.remove, *decided.replace):
            del self.there[run.name]
        made = decided.last_scheduled_at
        if decided.start is not None:
            self._create(decided.start)
            made = decided.start
        if writes_status and made is not None:
            self.schedule = self.schedule.model_copy(update={"last_scheduled_at": float(made)})
        self.told += [event.reason for event in decided.events]
        return decided

    def run_until(self, end: int, *, step: int = 20) -> None:
        while self.now < end:
            self.now += step
            self.clock += step
            self.look()

    def stand_still(self, seconds: float) -> None:
        """Nobody looks."""
        self.now += seconds
        self.clock += seconds

    def change(self, **fields: Any) -> None:
        changed = GpuBenchmarkScheduleSpec.model_validate({**self.schedule.spec.to_wire(), **fields})
        self.schedule = self.schedule.model_copy(update={"spec": changed})

    @property
    def times(self) -> list[int]:
        return [int(name.removeprefix("s-")) * 60 for name in self.made]

    @property
    def active(self) -> list[str]:
        self._age()
        return [run.name for run in self.there.values() if run.finished_at is None]

    def _create(self, scheduled_at: int) -> None:
        name = names.run_name("s", scheduled_at)
        if name in self.there:
            self.refused.append(name)
            return
        self.made.append(name)
        self.there[name] = Run(
            name=name, uid=f"{name}.{len(self.made)}", scheduled_at=scheduled_at, created_at=self.now
        )

    def _age(self) -> None:
        for name, run in self.there.items():
            if run.finished_at is None and self.now >= run.created_at + self.takes:
                update = {"finished_at": run.created_at + self.takes, "succeeded": True}
                self.there[name] = run.model_copy(update=update)


BEGIN = at("2026-11-02T00:00Z")


def test_a_run_starts_at_each_scheduled_time_and_none_at_another() -> None:
    world = Simulation(spec(), begin=BEGIN)
    world.run_until(BEGIN + HOUR)
    assert world.times == [BEGIN + minutes * MINUTE for minutes in (10, 20, 30, 40, 50, 60)]


def test_the_name_of_a_run_is_that_of_the_job_that_cronjob_would_make() -> None:
    """CODE getJobName: name, "-", minutes since the epoch."""
    assert names.run_name("weekly", at("2026-11-02T00:10Z")) == "weekly-29892970"


def test_names_fit_a_benchmark_as_long_as_minutes_have_ten_digits() -> None:
    longest = names.run_name("x" * names.SCHEDULE_NAME_MAX, 10**10 * 60 - 60)
    assert len(longest) == names.BENCHMARK_NAME_MAX


# --- concurrencyPolicy ------------------------------------------------------------------------------------------------


def test_allow_lets_runs_overlap() -> None:
    """PAGE: Allow (default): The CronJob allows concurrently running Jobs."""
    world = Simulation(spec(), begin=BEGIN, takes=25 * MINUTE)
    world.run_until(BEGIN + 34 * MINUTE)
    assert len(world.active) == 3
    assert spec().concurrency_policy == "Allow"


def test_forbid_starts_none_beside_another_and_the_newest_missed_one_after_it() -> None:
    """PAGE: Forbid: if it is time for a new Job run and the previous Job run hasn't finished yet, the CronJob skips the
    new Job run. Also note that when the previous Job run finishes, .spec.startingDeadlineSeconds is still taken into
    account and may result in a new Job run.
    """
    world = Simulation(spec(concurrencyPolicy="Forbid"), begin=BEGIN, takes=24 * MINUTE)
    world.run_until(BEGIN + 33 * MINUTE)
    assert world.times == [BEGIN + 10 * MINUTE]
    (told,) = world.look().events
    assert (told.type, told.reason) == ("Normal", runs.STILL_ACTIVE)
    under_way = "does not start while s-29892970 is under way: concurrencyPolicy Forbid"
    assert told.message == f"the run of 2026-11-02T00:30:00Z {under_way}"
    world.run_until(BEGIN + 35 * MINUTE)  # the first one has ended after 34: that of 30 starts, that of 20 never does
    assert world.times == [BEGIN + 10 * MINUTE, BEGIN + 30 * MINUTE]


def test_forbid_makes_up_for_nothing_that_is_later_than_the_deadline() -> None:
    world = Simulation(spec(concurrencyPolicy="Forbid", startingDeadlineSeconds=180), begin=BEGIN, takes=24 * MINUTE)
    world.run_until(BEGIN + 39 * MINUTE)
    assert world.times == [BEGIN + 10 * MINUTE]
    world.run_until(BEGIN + 41 * MINUTE)
    assert world.times == [BEGIN + 10 * MINUTE, BEGIN + 40 * MINUTE]


def test_forbid_waits_for_a_run_that_is_being_deleted() -> None:
    world = Simulation(spec(concurrencyPolicy="Forbid"), begin=BEGIN, takes=HOUR)
    world.run_until(BEGIN + 10 * MINUTE)
    name = world.made[0]
    world.there[name] = world.there[name].model_copy(update={"deleting": True})
    world.run_until(BEGIN + 20 * MINUTE)
    assert len(world.made) == 1


def test_replace_puts_the_new_run_in_the_place_of_the_old_one() -> None:
    """PAGE: Replace: the CronJob replaces the currently running Job run with a new Job run."""
    world = Simulation(spec(concurrencyPolicy="Replace"), begin=BEGIN, takes=25 * MINUTE)
    world.run_until(BEGIN + 20 * MINUTE)
    assert world.active == [names.run_name("s", BEGIN + 20 * MINUTE)]
    assert len(world.made) == 2


def test_what_is_replaced_is_under_way_no_more_and_what_is_being_deleted_is_not_deleted_again() -> None:
    one, other = (
        Run(name=f"s-{minutes}", uid=str(minutes), scheduled_at=BEGIN, created_at=BEGIN, deleting=minutes == 2)
        for minutes in (1, 2)
    )
    schedule = runs.Schedule(name="s", created_at=BEGIN, spec=spec(concurrencyPolicy="Replace"))
    decided = runs.decide(schedule, (one, other), BEGIN + 10 * MINUTE)
    assert (decided.start, decided.replace, decided.active) == (BEGIN + 10 * MINUTE, (one,), ())


# --- missed runs ------------------------------------------------------------------------------------------------------


def test_after_an_outage_the_newest_missed_run_starts_and_no_other() -> None:
    """CODE mostRecentScheduleTime: "the most recent time a Job should be created"."""
    world = Simulation(spec(), begin=BEGIN)
    world.stand_still(5 * HOUR + 3 * MINUTE)
    world.look()
    world.look()
    assert world.times == [BEGIN + 5 * HOUR]


def test_a_run_that_is_later_than_the_deadline_is_missed_and_that_is_said() -> None:
    """API startingDeadlineSeconds: Optional deadline in seconds for starting the job if it misses scheduled time for
    any reason. Missed jobs executions will be counted as failed ones. (Nothing is counted here: an Event says it.)
    """
    world = Simulation(spec("0 * * * *", startingDeadlineSeconds=200), begin=BEGIN)
    world.stand_still(HOUR + 201)
    (told,) = world.look().events
    assert world.made == []
    assert (told.type, told.reason) == ("Warning", runs.MISSED)
    late = "the run of 2026-11-02T01:00:00Z is later than startingDeadlineSeconds"
    assert told.message == f"{late} and does not start any more"


def test_a_run_within_the_deadline_starts() -> None:
    """PAGE: if it is set to 200, it allows a Job to be created up to 200 seconds after the actual schedule."""
    world = Simulation(spec("0 * * * *", startingDeadlineSeconds=200), begin=BEGIN)
    world.stand_still(HOUR + 199)
    world.look()
    assert world.times == [BEGIN + HOUR]
    assert world.told == []


@pytest.mark.parametrize(("missed", "warned"), [(100, False), (101, True)])
def test_beyond_a_hundred_missed_runs_there_is_a_warning_and_the_newest_one_starts(missed: int, warned: bool) -> None:
    """PAGE: more than 100 missed schedules: it does not start the Job and logs the error. CODE nextScheduleTime, since
    1.21: it records TooManyMissedTimes and returns the newest time all the same, and so the Job starts. The code is
    what clusters do.
    """
    world = Simulation(spec("* * * * *"), begin=BEGIN)
    world.stand_still(missed * MINUTE + 30)
    told = world.look().events
    assert world.times == [BEGIN + missed * MINUTE]
    remedy = "the newest one starts; set or decrease startingDeadlineSeconds, or check the clocks"
    warning = (runs.TOO_MANY_MISSED, f"more than 100 runs were missed: {remedy}")
    assert [(one.reason, one.message) for one in told] == ([warning] if warned else [])


def test_with_a_deadline_only_what_lies_within_it_counts_as_missed() -> None:
    """PAGE: if startingDeadlineSeconds is set, the controller counts how many missed Jobs occurred from the value of
    startingDeadlineSeconds until now rather than from the last scheduled time.
    """
    world = Simulation(spec("* * * * *", startingDeadlineSeconds=200), begin=BEGIN)
    world.stand_still(500 * MINUTE)
    world.look()
    assert world.times == [BEGIN + 500 * MINUTE]
    assert runs.TOO_MANY_MISSED not in world.told


def test_a_schedule_makes_up_for_nothing_of_before_its_creation() -> None:
    """CODE: earliestTime is CreationTimestamp as long as there is no LastScheduleTime."""
    world = Simulation(spec("0 * * * *"), begin=BEGIN + 30 * MINUTE)
    world.look()
    assert world.made == []


# --- suspend ----------------------------------------------------------------------------------------------------------


def test_while_suspended_nothing_starts_and_what_runs_goes_on() -> None:
    """API suspend: suspend subsequent executions, it does not apply to already started executions."""
    world = Simulation(spec(), begin=BEGIN, takes=15 * MINUTE)
    world.run_until(BEGIN + 12 * MINUTE)
    world.change(suspend=True)
    world.run_until(BEGIN + 24 * MINUTE)
    assert len(world.active) == 1
    world.run_until(BEGIN + 2 * HOUR)
    assert world.times == [BEGIN + 10 * MINUTE]


def test_after_a_suspension_the_newest_missed_run_starts_at_once() -> None:
    """PAGE: executions that are suspended during their scheduled time count as missed Jobs. When suspend changes from
    true to false without a starting deadline, the missed Jobs are scheduled immediately. (CODE: the newest one.)
    """
    world = Simulation(spec(suspend=True), begin=BEGIN)
    world.run_until(BEGIN + 55 * MINUTE)
    world.change(suspend=False)
    world.run_until(BEGIN + 56 * MINUTE)
    assert world.times == [BEGIN + 50 * MINUTE]


def test_after_a_suspension_with_a_deadline_nothing_that_is_too_old_starts() -> None:
    world = Simulation(spec(suspend=True, startingDeadlineSeconds=60), begin=BEGIN)
    world.run_until(BEGIN + 55 * MINUTE)
    world.change(suspend=False)
    world.run_until(BEGIN + 56 * MINUTE)
    assert world.made == []


# --- history limits ---------------------------------------------------------------------------------------------------


def test_of_finished_runs_the_newest_stay_and_the_others_go_when_the_history_has_them() -> None:
    """API: successfulJobsHistoryLimit defaults to 3, failedJobsHistoryLimit to 1."""
    world = Simulation(spec(), begin=BEGIN)
    world.run_until(BEGIN + 2 * HOUR + MINUTE)
    assert len(world.made) == 12
    assert sorted(world.there) == sorted(world.made[-3:])
    assert world.archive == world.made
    assert spec().failed_history_limit == 1


def test_failed_and_successful_runs_have_limits_of_their_own() -> None:
    ended = [
        Run(
            name=f"s-{index}",
            uid=str(index),
            scheduled_at=index * 60,
            created_at=index * 60,
            finished_at=index * 60 + 1,
            succeeded=index % 2 == 0,
            archived=True,
        )
        for index in range(10)
    ]
    schedule = runs.Schedule(name="s", created_at=0, spec=spec(successfulHistoryLimit=2, failedHistoryLimit=0))
    decided = runs.decide(schedule, tuple(reversed(ended)), 1000)
    assert [run.name for run in decided.remove] == ["s-0", "s-2", "s-4", "s-1", "s-3", "s-5", "s-7", "s-9"]


def test_a_run_that_the_history_does_not_have_is_not_removed() -> None:
    run = Run(name="s-1", uid="1", scheduled_at=60, created_at=60, finished_at=61, succeeded=True)
    schedule = runs.Schedule(name="s", created_at=0, spec=spec(successfulHistoryLimit=0))
    decided = runs.decide(schedule, (run,), 1000)
    assert decided.remove == ()
    assert decided.archive == (run,)


@pytest.mark.parametrize(
    ("succeeded", "type_", "ended"), [(True, "Normal", "succeeded"), (False, "Warning", "did not succeed")]
)
def test_how_a_run_has_ended_is_told(succeeded: bool, type_: str, ended: str) -> None:
    run = Run(name="s-1", uid="1", scheduled_at=60, created_at=60, finished_at=61, succeeded=succeeded)
    (told,) = runs.decide(runs.Schedule(name="s", created_at=60, spec=spec()), (run,), 100).events
    assert (told.type, told.reason) == (type_, "SawCompletedBenchmark")
    assert told.message == f"s-1 has finished and {ended}"


def test_no_limit_touches_a_run_that_is_under_way() -> None:
    world = Simulation(spec(successfulHistoryLimit=0, failedHistoryLimit=0), begin=BEGIN, takes=HOUR)
    world.run_until(BEGIN + 45 * MINUTE)
    assert len(world.there) == len(world.made) == 4


# --- never twice ------------------------------------------------------------------------------------------------------


def test_an_operator_that_was_killed_before_it_wrote_the_status_makes_no_second_run() -> None:
    """CODE: "we need to use the job name as a lock to prevent us from making the job twice"."""
    world = Simulation(spec(), begin=BEGIN)
    world.stand_still(10 * MINUTE)
    world.look(writes_status=False)
    world.look()
    assert len(world.made) == 1
    assert world.schedule.last_scheduled_at == BEGIN + 10 * MINUTE


def test_two_operators_that_look_at_once_make_one_run() -> None:
    world = Simulation(spec(), begin=BEGIN)
    world.stand_still(10 * MINUTE)
    world.look(writes_status=False)
    world.look(writes_status=False, seen=())  # the other one has listed before the first one wrote
    assert len(world.made) == 1
    assert len(world.refused) == 1


def test_a_run_that_somebody_deletes_is_not_made_again() -> None:
    world = Simulation(spec(), begin=BEGIN)
    world.run_until(BEGIN + 11 * MINUTE)
    world.there.clear()
    world.run_until(BEGIN + 19 * MINUTE)
    assert len(world.made) == 1


# --- clocks -----------------------------------------------------------------------------------------------------------


def test_a_clock_that_jumps_ahead_starts_one_run_and_a_clock_that_is_put_right_starts_none_again() -> None:
    world = Simulation(spec(), begin=BEGIN)
    world.run_until(BEGIN + 15 * MINUTE)
    world.clock += 2 * HOUR  # NTP was wrong, or the machine was asleep
    world.look()
    assert world.times == [BEGIN + 10 * MINUTE, BEGIN + 2 * HOUR + 10 * MINUTE]
    world.clock -= 2 * HOUR
    world.run_until(BEGIN + 2 * HOUR + 15 * MINUTE)
    assert len(world.made) == 2  # what it made in advance is not made again
    world.run_until(BEGIN + 2 * HOUR + 25 * MINUTE)
    assert world.times[2:] == [BEGIN + 2 * HOUR + 20 * MINUTE]


def test_a_clock_that_jumps_back_makes_no_run_twice() -> None:
    world = Simulation(spec(), begin=BEGIN)
    world.run_until(BEGIN + 65 * MINUTE)
    world.clock -= 30 * MINUTE
    world.run_until(BEGIN + 155 * MINUTE)
    assert len(set(world.made)) == len(world.made)
    assert world.times == sorted(world.times)


def test_a_decision_wakes_just_after_the_next_run() -> None:
    world = Simulation(spec(), begin=BEGIN)
    decided = world.look()
    assert decided.next_at == BEGIN + 10 * MINUTE
    assert decided.wake_at is not None
    assert decided.next_at < decided.wake_at <= decided.next_at + 1


# PAGE, time zones; what a zone's clocks do is in test_cron and robfig_cron.csv, here it is whole days of a schedule.
DAYLIGHT = [
    ("Europe/Berlin", "30 2 * * *", "2026-03-28T00:00Z", 3, 2),  # leapt over on the 29th
    ("Europe/Berlin", "30 2 * * *", "2026-10-24T00:00Z", 3, 4),  # shown twice on the 25th
    ("America/New_York", "30 2 * * *", "2026-03-07T00:00Z", 3, 2),
    ("America/New_York", "30 1 * * *", "2026-10-31T00:00Z", 3, 4),
    ("Europe/Berlin", "0 * * * *", "2026-03-28T00:00Z", 3, 72),
    ("Europe/Berlin", "0 * * * *", "2026-10-24T00:00Z", 3, 72),
]


@pytest.mark.parametrize(("zone", "schedule", "begin", "days", "count"), DAYLIGHT)
def test_where_clocks_are_put_forwards_or_back(zone: str, schedule: str, begin: str, days: int, count: int) -> None:
    """CODE: robfig/cron/v3, "jobs scheduled during daylight-savings leap-ahead transitions will not be run"."""
    world = Simulation(spec(schedule, timeZone=zone), begin=at(begin))
    world.run_until(at(begin) + days * DAY, step=900)
    assert len(world.made) == count
    assert len(set(world.made)) == count


def test_the_29th_of_february_comes_in_leap_years_only() -> None:
    world = Simulation(spec("0 12 29 2 *"), begin=at("2027-02-27T00:00Z"))
    world.run_until(at("2028-03-02T00:00Z"), step=2 * DAY)
    assert world.times == [at("2028-02-29T12:00Z")]


# --- what cannot be scheduled -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"schedule": "0 0 30 2 *"}, runs.UNPARSEABLE),
        ({"schedule": "61 * * * *"}, runs.UNPARSEABLE),
        ({"timeZone": "Mars/Olympus"}, runs.UNKNOWN_TIME_ZONE),
    ],
)
def test_a_schedule_that_cannot_be_read_starts_nothing_and_says_why(fields: dict[str, str], reason: str) -> None:
    """CODE: UnparseableSchedule, UnknownTimeZone; "we should not reconcile this cronjob until an update to spec"."""
    world = Simulation(spec(**fields), begin=BEGIN)
    world.stand_still(DAY)
    decided = world.look()
    assert decided.problem is not None
    assert decided.problem.reason == reason
    assert decided.problem.message.startswith(f"spec.{next(iter(fields))} ")
    assert decided.start is None
    assert decided.wake_at is None
    assert world.made == []
