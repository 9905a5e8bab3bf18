# SPDX-License-Identifier: Apache-2.0
"""What the status of a schedule says of its runs, and which Events tell of what changed in it."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

import histories
from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus, Monthly
from gpubench.schedule import history, runs
from gpubench.schedule.history import Entry
from gpubench.schedule.runs import Decision, Run
from gpubench.scheduler import conditions

NOW = histories.BEGIN + 100 * histories.HOUR
SPEC = GpuBenchmarkScheduleSpec.model_validate(
    {
        "schedule": "0 * * * *",
        "benchmarkTemplate": {
            "spec": {"sweep": [{"workloads": ["trivial"], "pools": ["p"], "workers": [1], "batchPerWorker": [1]}]}
        },
    }
)


def made(entries: Sequence[Entry], decided: Decision | None = None, **changes: Any) -> GpuBenchmarkScheduleStatus:
    spec = SPEC.model_copy(update=changes.pop("spec", {}))
    found = series(entries)
    return runs.status(
        spec, decided or Decision(), entries, series=found, monthly=None, generation=1, now=NOW, **changes
    )


def series(entries: Sequence[Entry]) -> tuple[history.Series, ...]:
    return history.series(entries, SPEC.regressions)


def of(found: GpuBenchmarkScheduleStatus, type_: str) -> tuple[str, str]:
    one = next(one for one in found.conditions if one.type == type_)
    return one.status, one.reason


def message(found: GpuBenchmarkScheduleStatus) -> str:
    return next(one.message for one in found.conditions if one.type == runs.REGRESSED)


def steady(count: int, *, level: float = 1000.0) -> list[float]:
    source = random.Random(7)
    return [level * (1 + 0.005 * source.gauss(0, 1)) for _ in range(count)]


SLOW = histories.of_speeds([*steady(9), *steady(4, level=800)])


def test_regressed_is_unknown_until_there_are_enough_runs() -> None:
    assert of(made(SLOW[:5]), runs.REGRESSED) == ("Unknown", runs.TOO_FEW_RUNS)
    assert of(made(SLOW[:8]), runs.REGRESSED) == ("Unknown", runs.TOO_FEW_RUNS)
    assert of(made(SLOW[:9]), runs.REGRESSED) == ("False", runs.NOT_SLOWER)


#: On nodes that come again, each with too few runs of before.
TAKING_TURNS = histories.of_speeds(steady(12), nodes=["a", "b", "c", "d"] * 3)
OTHER_DRIVER = [*SLOW[:3], histories.entry(4, [histories.figure(1000.0, environment="another")])]
COMPARE_ACROSS = "; where environments or nodes change with each run, name what may change in regressions.compareAcross"


@pytest.mark.parametrize(
    ("entries", "few", "remedy"),
    [
        ([], "9 runs in its environment yet, but 0", ""),
        (SLOW[:5], "9 runs in its environment yet, but 5", ""),
        (OTHER_DRIVER, "9 runs in its environment yet, but 1", COMPARE_ACROSS),
        ([*SLOW[:8], histories.entry(9, [])], "9 runs in its environment yet, but 8", ""),
        (TAKING_TURNS[:9], "5 runs to compare with on the node of its newest one", ""),
        (TAKING_TURNS, "5 runs to compare with on the node of its newest one", COMPARE_ACROSS),
    ],
    ids=["none", "five", "another driver", "one without a figure", "nine that take turns", "twelve"],
)
def test_where_nothing_can_be_told_it_says_what_there_are_too_few_of(
    entries: Sequence[Entry], few: str, remedy: str
) -> None:
    found = made(entries)
    assert of(found, runs.REGRESSED) == ("Unknown", runs.TOO_FEW_RUNS)
    assert message(found) == f"no point has {few}: nothing can be told{remedy}"


def test_runs_without_a_figure_are_counted_where_they_are_the_newest() -> None:
    found = made([*SLOW[:9], *(histories.entry(number, []) for number in range(10, 16))])
    assert of(found, runs.REGRESSED) == ("Unknown", runs.NO_FIGURES)
    assert message(found) == "the newest 6 runs gave no figure that settled: nothing can be told"


def test_regressed_says_since_when() -> None:
    found = made(SLOW)
    assert of(found, runs.REGRESSED) == ("True", runs.SLOWER)
    assert found.regressions[0].run == SLOW[9].name
    assert SLOW[9].name in message(found)
    assert "more points" not in message(found)


def test_what_was_compared_is_counted_and_what_has_too_few_runs_too() -> None:
    also = histories.figure(1000.0, point="two")
    entries = [*SLOW[:6], *(one.model_copy(update={"figures": (*one.figures, also)}) for one in SLOW[6:9])]
    compared = (
        "not slower by more than 5 %: 1 point compared, up to 9 runs in one environment since 2026-11-02T01:00:00Z"
    )
    assert message(made(SLOW[:9])) == compared
    assert message(made(entries)) == f"{compared}; 1 more have too few runs yet"


@pytest.mark.parametrize(("points", "more"), [(3, ""), (4, "; and 1 more point"), (5, "; and 2 more points")])
def test_of_slower_points_three_are_named_and_the_others_counted(points: int, more: str) -> None:
    entries = [
        histories.entry(number, [histories.figure(1000.0 - 300 * (number > 12), point=f"{p}") for p in range(points)])
        for number in range(1, 20)
    ]
    named = made(entries).regressions[:3]
    assert message(made(entries)) == "; ".join(one.sentence for one in named) + more


def test_a_run_that_is_slower_than_the_baseline_of_its_template_is_a_regression() -> None:
    judged = SLOW[0].model_copy(update={"baseline": "Fail", "baseline_sentence": "1 of 1 points is slower"})
    assert of(made([judged]), runs.REGRESSED) == ("True", runs.SLOWER_THAN_BASELINE)
    passed = judged.model_copy(update={"baseline": "Pass", "baseline_sentence": "1 of 1 points is as fast"})
    assert of(made([passed]), runs.REGRESSED) == ("False", runs.NOT_SLOWER)
    slower, kept_up = made([judged]), made([passed])
    assert message(slower) == f"{judged.name}: 1 of 1 points is slower"
    assert message(kept_up) == f"{judged.name}: 1 of 1 points is as fast"
    for before in (GpuBenchmarkScheduleStatus(), kept_up):
        (told,) = runs.status_events(before, slower, ())
        assert (told.type, told.reason, told.message) == ("Warning", runs.REGRESSED, message(slower))
    assert runs.status_events(slower, slower, ()) == runs.status_events(slower, kept_up, ()) == ()


def test_the_beginning_and_the_end_of_a_regression_are_told_once() -> None:
    healthy, slow = made(SLOW[:9]), made(SLOW)
    (told,) = runs.status_events(healthy, slow, series(SLOW))
    assert (told.type, told.reason) == ("Warning", runs.REGRESSED)
    assert runs.status_events(slow, slow, series(SLOW)) == ()
    healed = histories.of_speeds([*steady(9), *steady(4, level=800), *steady(6)])
    (told,) = runs.status_events(slow, made(healed), series(healed))
    assert (told.type, told.reason) == ("Normal", "Healed")


def test_a_slow_node_is_told_once() -> None:
    figures = [
        histories.figure(speed, point=f"p{number}", node=f"node-{number}", group="all")
        for number, speed in enumerate([1000.0, 1004.0, 997.0, 700.0, 995.0, 1003.0])
    ]
    found = made([histories.entry(1, figures)])
    (slow,) = found.slow_nodes
    (told,) = runs.status_events(GpuBenchmarkScheduleStatus(), found, ())
    assert slow.node == "node-3"
    assert (told.type, told.reason, told.message) == ("Warning", "SlowNode", slow.sentence)
    assert runs.status_events(found, found, ()) == ()


def test_another_driver_is_told_once() -> None:
    facts = [EnvironmentFacts(environment="a", driver="550"), EnvironmentFacts(environment="b", driver="560")]
    entries = [
        histories.entry(number, [histories.figure(1.0, environment="a" if number < 3 else "b")], facts=facts)
        for number in range(1, 5)
    ]
    before, after = made(entries[:2]), made(entries)
    (told,) = runs.status_events(before, after, series(entries))
    assert (told.reason, told.message.split(" since ")[0]) == (runs.KEY_CHANGED, "driver 550 -> 560")
    assert runs.status_events(after, after, series(entries)) == ()


def test_a_status_says_when_runs_were_and_are_due_and_what_it_was_made_of() -> None:
    month = Monthly(hours=720, runs="720", sentence="no cost: the price is not known")
    decided = Decision(last_scheduled_at=histories.BEGIN, next_at=histories.BEGIN + histories.HOUR)
    found = runs.status(SPEC, decided, SLOW, series=series(SLOW), monthly=month, generation=7, now=NOW)
    assert (found.last_schedule_time, found.next_schedule_time) == ("2026-11-02T00:00:00Z", "2026-11-02T01:00:00Z")
    assert {found.observed_generation, *(one.observed_generation for one in found.conditions)} == {7}
    assert found.monthly == month
    assert (found.points_judged, found.slower_points) == (1, 1)
    (level,) = found.levels
    assert (level.point, level.environment, level.verdict, level.runs) == ("resnet50 on one", "key", "Slower", 13)
    assert level.usual == pytest.approx(1000, abs=5)
    assert level.series == "bfqix2k6ppe4", "as before an upgrade, or what is remembered of it is lost"
    (ready, _) = found.conditions
    assert ready.message == "the next run is due at 2026-11-02T01:00:00Z"
    empty = made([])
    assert (empty.last_schedule_time, empty.next_schedule_time, empty.levels) == (None, None, ())


def test_ready_says_why_nothing_runs() -> None:
    problem = runs.decide(
        runs.Schedule(name="s", created_at=0, spec=SPEC.model_copy(update={"schedule": "0 0 30 2 *"})), (), NOW
    )
    assert of(made([], problem), runs.READY) == ("False", runs.UNPARSEABLE)
    assert of(made([], spec={"suspend": True}), runs.READY) == ("False", conditions.SUSPENDED)
    assert of(made([], Decision(next_at=int(NOW) + 60)), runs.READY) == ("True", runs.SCHEDULED)


def test_ready_says_for_which_pools_the_runs_wait() -> None:
    found = made([], Decision(next_at=int(NOW) + 60), missing_pools=("a", "b", "c", "d"))
    assert of(found, runs.READY) == ("True", "WaitingForPools")
    (ready, _) = found.conditions
    assert ready.message.endswith(", and waits for GpuPool a, b, c and 1 more, not there: apply it")


def test_a_condition_keeps_its_time_as_long_as_it_holds() -> None:
    before = made(SLOW)
    later = runs.status(
        SPEC,
        Decision(),
        SLOW,
        series=series(SLOW),
        monthly=None,
        before=before.conditions,
        generation=2,
        now=NOW + histories.HOUR,
    )
    assert [one.last_transition_time for one in later.conditions] == [
        one.last_transition_time for one in before.conditions
    ]


def test_the_newest_runs_are_listed_first_and_counted_all() -> None:
    found = made(histories.of_speeds(steady(30)))
    assert found.runs_kept == 30
    assert len(found.last_results) == 20
    assert found.last_results[0].scheduled_time > found.last_results[1].scheduled_time


def test_how_a_run_ended_is_said_with_its_first_figure() -> None:
    training = histories.figure(61.54, quantity="Seconds")
    entries = [
        histories.entry(number, figures)
        for number, figures in enumerate([[histories.figure(1000.4)], [training, histories.figure(1.0)], []], start=1)
    ]
    ended = "all points ended, after 2m00s"
    assert [one.sentence for one in made(entries).last_results] == [
        ended, f"{ended}; resnet50 on one: 61.54 s", f"{ended}; resnet50 on one: 1000 samples/s",
    ]  # fmt: skip


def test_a_result_says_what_the_run_was_billed_and_when_it_was() -> None:
    billed = SLOW[0].model_copy(update={"spent": "1.25", "currency": "EUR", "succeeded": False})
    (last,) = made([billed]).last_results
    assert (last.name, last.succeeded, last.spent, last.currency) == (billed.name, False, "1.25", "EUR")
    assert (last.scheduled_time, last.completion_time) == ("2026-11-02T01:00:00Z", "2026-11-02T01:02:00Z")


def test_the_last_success_is_that_of_the_newest_run_that_succeeded() -> None:
    failed = [one.model_copy(update={"succeeded": False}) for one in SLOW]
    assert made(failed).last_successful_time is None
    found = made([*SLOW[:3], *failed[3:]]).last_successful_time
    assert found == "2026-11-02T03:02:00Z"


def test_of_many_runs_under_way_the_newest_are_listed_and_all_counted() -> None:
    active = tuple(Run(name=f"s-{n}", uid=str(n), scheduled_at=n * 60, created_at=n) for n in range(40))
    found = made([], Decision(active=active))
    assert found.active_runs == 40
    assert found.active[0].name == "s-39"
    assert len(found.active) == 32


def test_no_status_is_larger_than_its_schema() -> None:
    entries = [
        histories.entry(number, [histories.figure(1000.0 - 300 * (number > 12), point=f"{p}") for p in range(64)])
        for number in range(1, 20)
    ]
    found = made(entries)
    assert len(found.regressions) == 16
    assert GpuBenchmarkScheduleStatus.model_validate(found.to_wire()) == found
    assert all(len(one.message) <= 1024 for one in found.conditions)
    assert conditions.holds(found.conditions, runs.REGRESSED)
