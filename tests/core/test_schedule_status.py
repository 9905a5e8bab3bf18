# SPDX-License-Identifier: Apache-2.0
"""What the status of a schedule says of its runs, and which Events tell of what changed in it."""

import random
from collections.abc import Sequence
from typing import Any

import histories
from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus
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


def steady(count: int, *, level: float = 1000.0) -> list[float]:
    source = random.Random(7)
    return [level * (1 + 0.005 * source.gauss(0, 1)) for _ in range(count)]


SLOW = histories.of_speeds([*steady(9), *steady(4, level=800)])


def test_regressed_is_unknown_until_there_are_enough_runs() -> None:
    assert of(made(SLOW[:5]), runs.REGRESSED) == ("Unknown", runs.TOO_FEW_RUNS)
    assert of(made(SLOW[:8]), runs.REGRESSED) == ("Unknown", runs.TOO_FEW_RUNS)
    assert of(made(SLOW[:9]), runs.REGRESSED) == ("False", runs.NOT_SLOWER)


def test_regressed_says_since_when() -> None:
    found = made(SLOW)
    assert of(found, runs.REGRESSED) == ("True", runs.SLOWER)
    assert found.regressions[0].run == SLOW[9].name
    assert SLOW[9].name in next(one.message for one in found.conditions if one.type == runs.REGRESSED)


def test_a_run_that_is_slower_than_the_baseline_of_its_template_is_a_regression() -> None:
    judged = SLOW[0].model_copy(update={"baseline": "Fail", "baseline_sentence": "1 of 1 points is slower"})
    assert of(made([judged]), runs.REGRESSED) == ("True", runs.SLOWER_THAN_BASELINE)
    passed = judged.model_copy(update={"baseline": "Pass"})
    assert of(made([passed]), runs.REGRESSED) == ("False", runs.NOT_SLOWER)


def test_the_beginning_and_the_end_of_a_regression_are_told_once() -> None:
    healthy, slow = made(SLOW[:9]), made(SLOW)
    (told,) = runs.status_events(healthy, slow, series(SLOW))
    assert (told.type, told.reason) == ("Warning", runs.REGRESSED)
    assert runs.status_events(slow, slow, series(SLOW)) == ()
    healed = histories.of_speeds([*steady(9), *steady(4, level=800), *steady(6)])
    (told,) = runs.status_events(slow, made(healed), series(healed))
    assert (told.type, told.reason) == ("Normal", "Healed")


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
    assert "samples/s" in found.last_results[0].sentence


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
