# SPDX-License-Identifier: Apache-2.0
"""A study that became slower: found, dated, named, remembered, and never across environments. `make bench-regressions`
is the long form of the first two tests, with its figures in tests/benchmarks/README.md."""

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from scipy import stats

import histories
from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, GpuBenchmarkScheduleStatus, Regressions
from gpubench.schedule import history, runs
from gpubench.schedule.history import Entry
from gpubench.stats import levels
from histories import SLOWDOWN, entry, figure, of_speeds

SEED = 2026
#: A fifth of the long form, which finds 98 % (96-99) and 0.0 % (0.0-0.4): far from the bounds.
HISTORIES = 200


def test_a_tenth_slower_is_found_within_five_runs_and_dated_within_one() -> None:
    found = list(histories.outcomes(HISTORIES, seed=SEED, slowdown=SLOWDOWN, until=histories.FOUND_BY))
    assert sum(map(histories.is_right, found)) >= 0.9 * HISTORIES


def test_histories_without_a_change_raise_no_alarm() -> None:
    found = list(histories.outcomes(HISTORIES, seed=SEED, slowdown=0.0))
    assert sum(one.at is not None for one in found) <= 0.05 * HISTORIES


def steady(count: int, *, level: float = 1000.0, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [level * (1 + 0.005 * source.gauss(0, 1)) for _ in range(count)]


def test_says_since_when_by_how_much_and_on_which_nodes() -> None:
    nodes = ["a", "b", "c", "e", "f", "g", "h", "i", "k", *["d"] * 4]
    entries = of_speeds([*steady(9), *steady(4, level=800)], nodes=nodes)
    (found,) = histories.regressions(entries)
    assert histories.number_of(found) == 10
    assert found.speed.mean == pytest.approx(0.8, abs=0.01)
    assert found.speed.low is not None
    assert found.speed.high is not None
    assert 0.79 < found.speed.low < found.speed.mean < found.speed.high < 0.81
    assert found.nodes == ("d",)
    assert (found.runs_before, found.runs_since) == (9, 4)
    assert ", on d" in found.sentence


def test_slower_nodes_that_were_fast_before_are_told_from_other_nodes() -> None:
    entries = of_speeds([*steady(9), *steady(4, level=800)], nodes=["a"] * 13)
    (found,) = histories.regressions(entries)
    assert ", on a" in found.sentence


def test_one_bad_run_is_no_regression() -> None:
    assert histories.regressions(of_speeds([*steady(12), 500.0])) == ()


def test_a_slowdown_that_has_gone_again_is_none() -> None:
    speeds = [*steady(8), *steady(4, level=800), *steady(6, seed=5)]
    assert histories.regressions(of_speeds(speeds[:12]))
    assert histories.regressions(of_speeds(speeds)) == ()


def test_a_slowdown_that_went_half_way_still_is_one_since_it_began() -> None:
    speeds = [*steady(8), *steady(5, level=700), *steady(6, level=850)]
    (found,) = histories.regressions(of_speeds(speeds))
    assert histories.number_of(found) == 9


def test_steps_that_each_are_within_the_tolerance_add_up() -> None:
    speeds = [*steady(8), *steady(8, level=960), *steady(8, level=920)]
    assert histories.regressions(of_speeds(speeds[:16])) == ()
    (found,) = histories.regressions(of_speeds(speeds))
    assert histories.number_of(found) == 17


def test_a_change_within_the_tolerance_is_none_however_sure() -> None:
    assert histories.regressions(of_speeds([*steady(30), *steady(30, level=970)])) == ()


def test_faster_is_no_regression() -> None:
    assert histories.regressions(of_speeds([*steady(10), *steady(5, level=1200)])) == ()


def test_of_a_training_more_seconds_are_slower() -> None:
    entries = [
        entry(number, [figure(seconds, quantity="Seconds")])
        for number, seconds in enumerate([*steady(9, level=60), *steady(4, level=75)], start=1)
    ]
    (found,) = histories.regressions(entries)
    assert found.speed.mean == pytest.approx(0.8, abs=0.01)


def facts(key: str, driver: str) -> EnvironmentFacts:
    return EnvironmentFacts(environment=key, driver=driver)


def test_no_verdict_across_environments_but_the_change_is_reported() -> None:
    speeds = [*steady(9), *steady(9, level=800)]
    entries = [
        entry(
            number,
            [figure(speed, environment="old" if number < 10 else "new")],
            facts=[facts("old", "550.54"), facts("new", "560.35")],
        )
        for number, speed in enumerate(speeds, start=1)
    ]
    assert histories.regressions(entries) == ()
    (change,) = history.key_changes(entries)
    assert change.sentence == "driver 550.54 -> 560.35"
    assert change.run == entries[9].name


def test_environments_whose_known_facts_are_the_same_are_two_unless_it_is_said_what_may_differ() -> None:
    entries = [
        entry(number, [figure(speed, environment=key, point=point) for point in "ab"], facts=[facts(key, "550.54")])
        for number, (speed, key) in enumerate(
            zip([*steady(9), *steady(4, level=800)], ["old"] * 9 + ["new"] * 4, strict=True), start=1
        )
    ]
    assert histories.regressions(entries) == ()
    found = histories.regressions(entries, compareAcross=["driver"])
    assert {one.point for one in found} == {"resnet50 on a", "resnet50 on b"}
    assert len({one.series for one in found}) == 2, "each point has a series of its own"


def test_changes_of_the_environment_are_listed_newest_first_with_what_differs() -> None:
    drivers = [None, "550.54", "560.35", None]
    keys = ["no GPU", "old", "new", "no GPU any more"]
    entries = [
        entry(number, [figure(1000.0, environment=key)], facts=[
            EnvironmentFacts(environment=key, driver=driver, framework="TensorFlow")
        ])
        for number, (key, driver) in enumerate(zip(keys, drivers, strict=True), start=1)
    ]  # fmt: skip
    assert [one.sentence for one in history.key_changes(entries)] == [
        "driver 560.35 -> none", "driver 550.54 -> 560.35", "driver none -> 550.54",
    ]  # fmt: skip


@pytest.mark.parametrize("field", ["instance_type", "image_digest"])
def test_another_instance_type_or_image_is_another_environment(field: str) -> None:
    entries = [
        entry(number, [figure(speed, **{field: "x" if number < 10 else "y"})])
        for number, speed in enumerate([*steady(9), *steady(9, level=800)], start=1)
    ]
    assert histories.regressions(entries) == ()
    (change,) = history.key_changes(entries)
    assert "x -> y" in change.sentence


def test_of_environments_whose_facts_nobody_knows_the_keys_are_told() -> None:
    entries = [entry(number, [figure(1000.0, environment=key)]) for number, key in enumerate(["old", "new"], start=1)]
    assert [one.sentence for one in history.key_changes(entries)] == ["environment old -> new"]


def test_runs_before_and_after_another_environment_are_still_comparable() -> None:
    speeds = [*steady(8), *steady(2, level=3000), *steady(4, level=800)]
    keys = ["old"] * 8 + ["new"] * 2 + ["old"] * 4
    entries = [
        entry(number, [figure(speed, environment=key)])
        for number, (speed, key) in enumerate(zip(speeds, keys, strict=True), start=1)
    ]
    (found,) = histories.regressions(entries)
    assert histories.number_of(found) == 11


def test_runs_that_never_settled_are_left_out() -> None:
    entries = [
        entry(number, [figure(speed, settled=number <= 9)])
        for number, speed in enumerate([*steady(9), *steady(4, level=800)], start=1)
    ]
    assert histories.regressions(entries) == ()


def test_a_point_that_the_template_does_not_have_any_more_is_not_judged() -> None:
    slow = [*steady(9), *steady(4, level=800)]
    entries = [entry(number, [figure(speed, point="old")]) for number, speed in enumerate(slow, start=1)]
    entries += [entry(number, [figure(1000.0, point="new")]) for number in range(14, 18)]
    assert histories.regressions(entries) == ()


# --- what is remembered -----------------------------------------------------------------------------------------------


def status_of(
    kept: Sequence[Entry], rules: Regressions, *, before: GpuBenchmarkScheduleStatus
) -> tuple[GpuBenchmarkScheduleStatus, tuple[history.Series, ...]]:
    template = {"sweep": [{"workloads": ["trivial"], "pools": ["p"], "workers": [1], "batchPerWorker": [1]}]}
    spec = GpuBenchmarkScheduleSpec.model_validate({"schedule": "0 * * * *", "benchmarkTemplate": {"spec": template}})
    spec, series = spec.model_copy(update={"regressions": rules}), history.series(kept, rules)
    given: dict[str, Any] = {"monthly": None, "before": before.conditions, "generation": 1, "now": kept[-1].finished_at}
    return runs.status(spec, runs.Decision(), kept, series=series, **given), series


def conditions(entries: Sequence[Entry], **rules: object) -> tuple[list[str], list[tuple[str, int]]]:
    """The condition after each run, and the Events with their runs, of an operator that archives one run at a time."""
    given, before, kept = Regressions.model_validate(rules), GpuBenchmarkScheduleStatus(), list[Entry]()
    reasons, events = [], []
    for number, one in enumerate(entries, start=1):
        kept.append(history.with_levels(one, kept, given))
        after, series = status_of(kept, given, before=before)
        reasons.append(next(of.reason for of in after.conditions if of.type == runs.REGRESSED))
        events += [(event.reason, number) for event in runs.status_events(before, after, series)]
        assert runs.status_events(after, after, series) == (), "each is said once"
        before = GpuBenchmarkScheduleStatus.model_validate(after.to_wire())
    return reasons, events


def test_a_regression_that_stays_is_accepted_after_thirty_runs_and_nothing_recovers() -> None:
    reasons, events = conditions(of_speeds([*steady(20), *steady(230, level=900)]))
    assert events == [("Regressed", 23), ("Accepted", 50)]
    assert reasons[22:49] == [runs.SLOWER] * 27
    assert set(reasons[49:]) == {runs.NOT_SLOWER}


def test_it_stays_for_as_many_runs_as_are_asked_for() -> None:
    _, events = conditions(of_speeds([*steady(20), *steady(120, level=900)]), acceptAfter=100)
    assert events == [("Regressed", 23), ("Accepted", 120)]


@pytest.mark.parametrize("count", [10, 20, 30, 60, 100, 200])
@pytest.mark.parametrize("level", [900.0, 800.0, 700.0])
def test_one_slow_run_is_no_news_however_long_the_history(count: int, level: float) -> None:
    _, events = conditions(of_speeds([*steady(count), level, *steady(3), level * 0.9, level, *steady(2)]))
    assert events == []


def test_each_environment_is_judged_by_its_own_runs_and_none_flaps() -> None:
    source, keys, speeds = random.Random(5), [], []
    for number in range(80):
        keys.append(source.choice("ab"))
        slower = 0.9 if keys[-1] == "a" and number >= 30 else 1.0
        speeds.append(1000 * slower * (1 + 0.005 * source.gauss(0, 1)))
    entries = [
        entry(number, [figure(speed, environment=key)])
        for number, (speed, key) in enumerate(zip(speeds, keys, strict=True), start=1)
    ]
    reasons, events = conditions(entries)
    assert [reason for reason, _ in events] == [runs.KEY_CHANGED, "Regressed"]
    assert set(reasons[events[1][1] - 1 :]) == {runs.SLOWER}, "runs of the other one end nothing"
    (found,) = histories.regressions(entries)
    assert (found.environment, keys[histories.number_of(found) - 1]) == ("a", "a")


def test_what_was_not_compared_is_not_called_as_fast() -> None:
    driver = [
        entry(number, [figure(speed, environment="new" if number > 15 else "old")])
        for number, speed in enumerate([*steady(15), *steady(12, level=900)], start=1)
    ]
    reasons, events = conditions(driver)
    assert events == [(runs.KEY_CHANGED, 16)]
    assert set(reasons[15:23]) == {runs.TOO_FEW_RUNS}
    failed = [*of_speeds(steady(15)), *(entry(number, []) for number in range(16, 24))]
    reasons, events = conditions(failed)
    assert (set(reasons[14:18]), set(reasons[18:]), events) == ({runs.NOT_SLOWER}, {runs.NO_FIGURES}, [])
    unsettled = [*of_speeds(steady(15)), *(entry(n, [figure(500.0, settled=False)]) for n in range(16, 20))]
    assert conditions(unsettled)[0][-1] == runs.NO_FIGURES


def test_a_regression_does_not_vanish_with_another_environment_but_is_said_to_be_out_of_sight() -> None:
    speeds = [*steady(12), *steady(9, level=850), *steady(40, level=850, seed=4)]
    entries = [
        entry(number, [figure(speed, environment="new" if number > 21 else "old")])
        for number, speed in enumerate(speeds, start=1)
    ]
    reasons, events = conditions(entries)
    assert events == [("Regressed", 16), (runs.KEY_CHANGED, 22), ("CannotTell", 51)]
    assert set(reasons[15:50]) == {runs.SLOWER}


def test_an_image_that_is_built_anew_is_judged_across_images_where_that_is_asked_for() -> None:
    entries = [
        entry(number, [figure(speed, environment=f"e{number}", image_digest=f"sha256:{number}")], facts=[
            EnvironmentFacts(environment=f"e{number}", image_digest=f"sha256:{number}", driver="550")
        ])
        for number, speed in enumerate([*steady(15), *steady(6, level=500)], start=1)
    ]  # fmt: skip
    reasons, _ = conditions(entries)
    assert set(reasons) == {runs.TOO_FEW_RUNS}, "each run has an environment of its own"
    reasons, events = conditions(entries, compareAcross=["imageDigest"])
    assert [event for event in events if event[0] != runs.KEY_CHANGED] == [("Regressed", 18)]
    (found,) = histories.regressions(entries, compareAcross=["imageDigest"])
    assert found.sentence.startswith("resnet50 on one has ")
    assert "; with it changed image digest sha256:15 -> sha256:16" in found.sentence
    assert histories.regressions(entries, compareAcross=["driver"]) == ()


def test_the_names_of_what_may_differ_are_those_of_an_environment() -> None:
    fields = [field.alias for name, field in EnvironmentFacts.model_fields.items() if name != "environment"]
    for name in [*fields, "node"]:
        assert Regressions.model_validate({"compareAcross": [name]}).compare_across == (name,)


def two_nodes(source: random.Random, count: int) -> list[str]:
    nodes = ["a"]
    while len(nodes) < count:
        nodes.append(nodes[-1] if source.random() < 0.9 else "b" if nodes[-1] == "a" else "a")
    return nodes


def test_nodes_that_differ_and_stay_as_they_are_are_no_news() -> None:
    source = random.Random(8)
    nodes = two_nodes(source, 150)
    speeds = [(850 if node == "b" else 1000) * (1 + 0.005 * source.gauss(0, 1)) for node in nodes]
    assert conditions(of_speeds(speeds, nodes=nodes))[1] == []
    slower = [speed * (0.9 if at >= 100 else 1) for at, speed in enumerate(speeds)]
    (found,) = histories.regressions(of_speeds(slower[:110], nodes=nodes[:110]))
    assert abs(histories.number_of(found) - 101) <= 1
    other = of_speeds([*steady(20), *steady(8, level=850)], nodes=["a"] * 20 + ["b"] * 8)
    assert conditions(other)[1] == [], "nobody knows what b had before"
    assert conditions(other, compareAcross=["node"])[1] == [("Regressed", 23)]


def test_nodes_that_never_come_again_are_not_told_apart() -> None:
    fresh = [f"node-{number}" for number in range(20)]
    (found,) = histories.regressions(of_speeds([*steady(15), *steady(5, level=850)], nodes=fresh))
    assert histories.number_of(found) == 16
    assert found.sentence.endswith(", on node-15, node-16, node-17, node-18, node-19")


def test_a_busy_time_of_the_week_that_comes_back_is_no_news() -> None:
    def week(number: int) -> float:
        return 1.06 if number % 168 >= 120 else 1.0

    speeds = [speed * week(number) for number, speed in enumerate(steady(600))]
    _, events = conditions(of_speeds(speeds))
    assert events == []
    slower = [speed * (0.9 if number >= 460 else 1) for number, speed in enumerate(speeds)]
    _, events = conditions(of_speeds(slower[:480]))
    assert [reason for reason, _ in events] == ["Regressed"], "at the weekend, where it is fast otherwise"
    assert events[0][1] <= 466


def test_a_few_fast_runs_are_no_reference() -> None:
    speeds = [1080.0 if number % 50 < 2 else speed for number, speed in enumerate(steady(300), start=1)]
    assert conditions(of_speeds(speeds))[1] == []


def test_a_slow_drift_is_found_when_it_has_passed_the_tolerance_and_not_before() -> None:
    speeds = [speed * (1 - 0.001 * max(0, number - 30)) for number, speed in enumerate(steady(120))]
    _, events = conditions(of_speeds(speeds))
    (reason, at), *_ = events
    assert reason == "Regressed"
    assert 80 <= at <= 110


def test_a_faster_level_is_the_reference_when_it_has_lasted() -> None:
    daily = [*steady(20), *steady(40, level=1200), *steady(6, level=1100)]
    entries = [one.model_copy(update={"scheduled_at": histories.BEGIN + 86_400 * n}) for n, one in
               enumerate(of_speeds(daily))]  # fmt: skip
    assert [reason for reason, _ in conditions(entries)[1]] == ["Regressed"]


def test_a_step_as_large_as_the_tolerance_does_not_flap() -> None:
    source = random.Random(2)
    speeds = [1000 * (0.95 if number >= 40 else 1) * (1 + 0.01 * source.gauss(0, 1)) for number in range(70)]
    reasons, _ = conditions(of_speeds(speeds))
    assert sum(one != other for one, other in itertools.pairwise(reasons[10:])) <= 1


def test_a_regression_that_has_healed_is_no_part_of_the_reference_and_the_next_one_is_found() -> None:
    speeds = [*steady(12), *steady(20, level=850), *steady(12, seed=6), *steady(6, level=850)]
    _, events = conditions(of_speeds(speeds))
    assert events == [("Regressed", 16), ("Healed", 36), ("Regressed", 47)]


def test_a_regression_that_stands_hides_no_other() -> None:
    speeds = [*steady(20), *steady(14, level=850), *steady(8, level=700), *steady(8, level=850), *steady(8, seed=6)]
    entries = of_speeds(speeds)
    _, events = conditions(entries)
    assert events == [("Regressed", 23), ("Regressed", 37), ("Healed", 54)]
    (found,) = histories.regressions(entries[:42])
    assert (found, found.runs_before) == (*histories.regressions(histories.archived(entries[:42])), 20)
    assert (histories.number_of(found), found.runs_since) == (35, 8)
    assert found.speed.mean == pytest.approx(0.7, abs=0.01), "against the level before both"
    _, events = conditions([*entries[:42], *of_speeds([*speeds[:42], *steady(30, level=700)])[42:]])
    assert events[2:] == [("Accepted", 64)]


def test_more_false_alarms_find_a_slowdown_sooner() -> None:
    entries = of_speeds([*steady(20), *steady(8, level=850)])
    assert [conditions(entries, falseAlarms=share)[1][0][1] for share in ("0.001", "0.05", "1")] == [26, 23, 22]


def test_a_person_accepts_what_is_slower_and_only_that() -> None:
    entries = of_speeds([*steady(12), *steady(12, level=850), *steady(12, level=700)])
    accepted = entries[19].finished_at
    assert histories.regressions(entries[:20]) != ()
    assert histories.regressions(entries[:20], accepted_at=accepted) == ()
    (again,) = histories.regressions(entries, accepted_at=accepted)
    assert histories.number_of(again) == 25
    assert again.speed.mean == pytest.approx(700 / 850, abs=0.02), "the accepted level is the reference"


def test_a_run_that_is_archived_again_counts_once() -> None:
    """Three slow runs would be enough here, and two are not."""
    entries = of_speeds([*steady(20), *steady(2, level=850)])
    stored = histories.archived(entries)
    assert history.with_levels(entries[-1], stored, Regressions()) == stored[-1]
    assert stored[-1].figures[0].slow_since is None


def test_what_a_person_accepted_is_remembered_and_what_was_found_later_is_not_accepted() -> None:
    entries = of_speeds([*steady(12), *steady(12, level=850)])
    at = next(count for count in range(1, len(entries)) if histories.regressions(entries[:count]))
    found, before = entries[at - 1].finished_at, entries[at - 2].finished_at
    assert histories.regressions(histories.archived(entries[:at], accepted_at=found)) == ()
    assert histories.regressions(entries[:at], accepted_at=before) == histories.regressions(entries[:at])


@pytest.mark.parametrize(
    "speeds",
    [
        [*steady(12), *steady(20, level=850), *steady(12, seed=6), *steady(6, level=850)],
        [*steady(20), *steady(40, level=900), *steady(20, level=700)],
        [*steady(20), *steady(30, level=900), *steady(40, level=700)],
        [*steady(20), *steady(600), *steady(20, level=700)],
        [1000 * (1 + 0.03 * random.Random(n).gauss(0, 1)) for n in range(120)],
    ],
)
def test_what_is_stored_says_the_same_as_all_runs_judged_anew(speeds: Sequence[float]) -> None:
    entries = of_speeds(speeds)
    stored = histories.archived(entries)
    assert any(one.figures[0].level_since is not None for one in stored)
    for count in range(1, len(entries) + 1):
        assert histories.regressions(stored[:count]) == histories.regressions(entries[:count])


def test_what_is_remembered_outlives_the_runs_that_it_rests_on() -> None:
    speeds = [*steady(20), *steady(60, level=850)]
    stored = histories.archived(of_speeds(speeds), acceptAfter=200)
    (found,) = histories.regressions(stored[10:], acceptAfter=200)
    assert histories.number_of(found) == 21
    assert histories.regressions(stored[20:], acceptAfter=200) == (), "all that it was held against has aged out"


def test_a_level_moves_with_the_runs_that_are_kept() -> None:
    level = levels.Level(10, 20, ((3, 5), (12, 14)))
    assert level.moved(-4) == levels.Level(6, 16, ((0, 1), (8, 10)))
    assert level.moved(-5) == levels.Level(5, 15, ((7, 9),))
    assert level.moved(-25) == levels.Level(0, 0, ())
    assert level.moved(2) == levels.Level(12, 22, ((5, 7), (14, 16)))
    assert levels.Level(10).moved(-4) == levels.Level(6)


def test_a_regression_is_found_in_what_is_kept_of_a_long_series_and_named_by_its_place_in_all() -> None:
    speeds = [*steady(levels.RUNS_MAX), *steady(20, level=800), *steady(10, seed=5), *steady(20, level=800, seed=6)]
    runs = [levels.Run(3600.0 * at, speed) for at, speed in enumerate(speeds)]
    whole = [*levels.found(runs, levels.Rules())]
    assert len(whole) == len(runs)
    assert whole[-1].slow == levels.RUNS_MAX + 30
    ((first, last),) = whole[-1].ended
    assert first == levels.RUNS_MAX
    assert levels.RUNS_MAX + 20 < last < levels.RUNS_MAX + 30
    for known in (1, levels.RUNS_MAX + 15, levels.RUNS_MAX + 29, len(runs)):
        assert [*levels.found(runs, levels.Rules(), whole[:known])] == whole


def test_a_regression_whose_reference_has_aged_out_is_accepted_and_later_ones_are_found() -> None:
    """A history that keeps fewer runs than acceptAfter asks for."""
    entries, events = of_speeds([*steady(20), *steady(60, level=850), *steady(12, level=600)]), list[tuple[str, int]]()
    before, kept = GpuBenchmarkScheduleStatus(), list[Entry]()
    rules = Regressions.model_validate({"acceptAfter": 200})
    for number, one in enumerate(entries, start=1):
        kept = [*kept, history.with_levels(one, kept, rules)][-24:]
        after, found = status_of(kept, rules, before=before)
        events += [(event.reason, number) for event in runs.status_events(before, after, found)]
        before = after
    assert [reason for reason, _ in events] == ["Regressed", "Accepted", "Regressed"]


def test_points_that_one_run_does_not_have_end_nothing() -> None:
    entries = [
        entry(number, [figure(slow, point="a"), *([] if number in {22, 24} else [figure(fast, point="b")])])
        for number, (slow, fast) in enumerate(
            zip([*steady(30)], [*steady(15), *steady(15, level=800)], strict=True), start=1
        )
    ]
    reasons, events = conditions(entries)
    assert events == [("Regressed", 18)]
    assert set(reasons[17:]) == {runs.SLOWER}


def test_more_points_than_a_status_names_are_told_once_each_and_none_of_them_heals() -> None:
    source = random.Random(4)
    entries = [
        entry(
            number,
            [
                figure((800 if number > 12 else 1000) * (1 + 0.01 * source.gauss(0, 1)), point=f"p{point:02d}")
                for point in range(20)
            ],
        )
        for number in range(1, 28)
    ]
    _, events = conditions(entries)
    assert {reason for reason, _ in events} == {"Regressed"}
    assert 16 <= len(events) <= 20


def test_two_machines_with_one_environment_are_two_series() -> None:
    source = random.Random(4)
    entries = []
    for number in range(1, 61):
        kind = "a" if number % 2 else "b"
        speed = (700 if kind == "b" and number > 40 else 1000) * (1 + 0.005 * source.gauss(0, 1))
        entries.append(entry(number, [figure(speed, environment="same", instance_type=kind)]))
    _, events = conditions(entries)
    assert [reason for reason, _ in events] == [runs.KEY_CHANGED, "Regressed"]
    shown = history.shown_levels(history.series(entries, Regressions()))
    assert [one.verdict for one in shown] == ["Slower", "NotSlower"]
    assert len({one.series for one in shown}) == 2


def test_what_may_differ_can_be_named_when_it_has_made_the_difference() -> None:
    entries = [
        entry(number, [figure(speed, environment=driver)], facts=[facts(driver, driver)])
        for number, (speed, driver) in enumerate(
            zip([*steady(15), *steady(12, level=800)], ["550"] * 15 + ["560"] * 12, strict=True), start=1
        )
    ]
    stored = histories.archived(entries)
    assert histories.regressions(stored) == ()
    (found,) = histories.regressions(stored, compareAcross=["driver"])
    assert histories.number_of(found) == 16
    assert "with it changed driver 550 -> 560" in found.sentence


def test_new_nodes_are_not_called_as_fast_and_are_judged_when_none_comes_again() -> None:
    nodes = [*["a", "b"] * 20, *(f"fresh-{number}" for number in range(30))]
    reasons, events = conditions(of_speeds([*steady(40), *steady(30, level=500)], nodes=nodes))
    assert set(reasons[39:40]) == {runs.NOT_SLOWER}
    assert reasons[40] == runs.TOO_FEW_RUNS, "nobody knows what that node had before"
    assert events[0][0] == "Regressed"


def test_a_point_twice_in_a_run_is_one_run() -> None:
    entries = [
        entry(number, [figure(speed), figure(speed * 1.3)])
        for number, speed in enumerate([*steady(15), *steady(5, level=800)], start=1)
    ]
    (found,) = histories.regressions(entries)
    assert found.speed.mean == pytest.approx(0.8, abs=0.01)


def test_runs_due_since_success_are_counted_and_none_of_a_suspended_schedule() -> None:
    entries = [one.model_copy(update={"succeeded": number < 3}) for number, one in enumerate(of_speeds(steady(6)))]
    template = {"sweep": [{"workloads": ["trivial"], "pools": ["p"], "workers": [1], "batchPerWorker": [1]}]}
    spec = GpuBenchmarkScheduleSpec.model_validate({"schedule": "0 * * * *", "benchmarkTemplate": {"spec": template}})

    def due(of: Sequence[Entry], **changes: object) -> int:
        begin, now, changed = histories.BEGIN, histories.BEGIN + 7.5 * histories.HOUR, spec.model_copy(update=changes)
        decided = runs.decide(runs.Schedule(name="s", created_at=begin, spec=changed), (), now)
        made = runs.status(
            changed, decided, of, series=(), monthly=None, generation=1, created_at=begin, now=now
        )  # fmt: skip
        return made.runs_due_since_success

    assert (due(entries), due([])) == (4, 7)
    assert due(entries, suspend=True) == 0


# --- the method -------------------------------------------------------------------------------------------------------


def test_the_chance_is_that_of_the_hypergeometric_distribution() -> None:
    assert levels._chance(13, 4, 4, 4) == pytest.approx(1 / 715)  # 13 over 4
    assert levels._chance(60, 9, 8, 7) == pytest.approx(float(stats.hypergeom(60, 9, 8).sf(6)))


def test_without_a_tolerance_exchangeable_runs_of_any_scatter_raise_few_alarms() -> None:
    """At most 5 % for each length of the newest runs, in a whole life, by Boole's inequality; here for all of them."""
    shapes: Sequence[Callable[[random.Random], float]] = (
        lambda source: source.gauss(0, 1),
        lambda source: source.paretovariate(1.5),
        lambda source: -source.paretovariate(1.5),
    )
    for shape in shapes:
        source, alarms = random.Random(11), 0
        for _ in range(60):
            series = [levels.Run(number, 1000 + shape(source)) for number in range(60)]
            alarms += any(one.slow is not None for one in levels.found(series, levels.Rules(1e-9)))
        assert alarms <= 9
