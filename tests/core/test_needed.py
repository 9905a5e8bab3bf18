# SPDX-License-Identifier: Apache-2.0
"""Repeats that are added until a figure is known well enough: which run, when they start, and what is said of them."""

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import builders
from gpubench.analysis import audit, pairs
from gpubench.api.measuring import UNTIL_MIN
from gpubench.api.point_result import PointState
from gpubench.plan.plan import Plan, Strict, stopping_rule_of
from gpubench.scheduler import ledger, step
from gpubench.scheduler.observed import Disruption
from gpubench.stats import intervals, stopping_rule
from world import Fate, World, run_with_kills, world

#: The throughput of a repeat of a point, both from 0.
Rates = Callable[[int, int], float]


def steady(_: int, repeat: int) -> float:
    """Known to 0.5 % after three repeats."""
    return 1000.0 + repeat % 2


def wild(_: int, repeat: int) -> float:
    """Never known to 2 %."""
    return 1000.0 + 400 * (repeat % 2)


def adaptive(
    rates: Rates,
    *,
    least: int = 3,
    most: int = 8,
    width: str = "0.02",
    confidence: str = "0.95",
    parallel: int = 1,
) -> World:
    until = {"relativeHalfWidth": width, "confidence": confidence}
    repeats = {"min": least, "max": most, "until": until}
    spec = builders.spec(
        builders.block(workers=[1, 2]),
        measure={"repeats": repeats},
        limits={"parallelTrials": parallel},
    )
    plan = builders.plan(spec, builders.pool(max_nodes=64))
    return world(builders.study(spec), plan, fate=measuring(plan, rates))


def measuring(plan: Plan, rates: Rates) -> Fate:
    places = {trial.id: (trial.point, trial.repeat) for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        result = builders.result(trial=trial, attempt=attempt, rate=rates(*places[trial]))
        return 0, builders.message(result)

    return fate


def ran(here: World, point: int = 0) -> list[int]:
    """Repeats of a point for which there was a Job, in the order of their creation."""
    repeats = {trial.id: trial.repeat for trial in here.plan.trials if trial.point == point}
    return [repeats[trial] for name in here.created if (trial := name.split("-")[-2]) in repeats]


def test_repeats_end_as_soon_as_the_figure_is_known_well_enough() -> None:
    here = adaptive(steady)
    status = here.run()
    assert status.phase == "Succeeded"
    assert ran(here, 0) == ran(here, 1) == [0, 1, 2]
    assert [result.stopping for result in status.results] == ["PrecisionReached"] * 2
    assert [len(result.values) for result in status.results] == [3, 3]
    assert status.trials is not None
    assert (status.trials.total, status.trials.least, status.trials.finished) == (6, None, 6)


def test_repeats_end_at_the_maximum_and_the_reader_is_told_what_was_missed() -> None:
    here = adaptive(wild)
    status = here.run()
    assert ran(here) == list(range(8))
    found = status.results[0]
    assert (found.state, found.stopping) == (PointState.MEASURED, "MaximumReached")
    # Three standard errors of 6.3 %: the interval is corrected for the looks at the repeats in between.
    wanted = "known to ±19 % after 8 repeats, and ±2.0 % was wanted: raise measure.repeats.max"
    assert builders.messages(found)[0].startswith(wanted)


def test_points_stop_one_by_one() -> None:
    here = adaptive(lambda point, repeat: (steady, wild)[point](point, repeat), most=5)
    status = here.run()
    assert (ran(here, 0), ran(here, 1)) == ([0, 1, 2], [0, 1, 2, 3, 4])
    assert [result.stopping for result in status.results] == ["PrecisionReached", "MaximumReached"]


def test_a_fixed_number_of_repeats_is_said_to_be_one() -> None:
    status = world().run()
    assert [result.stopping for result in status.results] == ["Fixed"] * 2
    assert status.trials is not None
    assert status.trials.least is None


def test_the_seed_of_the_order_stands_in_the_status() -> None:
    here = builders.study(builders.spec(order={"seed": 7}))
    assert world(here).reconcile().status.seed == 7


def test_the_precision_that_ended_the_repeats_is_that_of_the_printed_figure() -> None:
    here = adaptive(lambda _, repeat: 1000.0 + random.Random(repeat).gauss(0, 10), most=20, width="0.01")
    found = here.run().results[0]
    assert found.stopping == "PrecisionReached"
    assert 3 < len(found.values) < 20, "the test shows nothing unless the rule had something to decide"
    assert found.throughput is not None
    assert found.throughput.low is not None
    assert (found.throughput.mean - found.throughput.low) / found.throughput.mean <= 0.01


def test_printed_intervals_are_wider_than_those_of_as_many_repeats_that_nobody_looked_at() -> None:
    found = adaptive(wild, most=5).run().results[0]
    plain = intervals.of_mean(found.values)
    assert found.throughput is not None
    assert plain.low is not None
    assert found.throughput.low is not None
    assert found.throughput.low < plain.low


def test_printed_intervals_do_not_depend_on_the_confidence_of_the_rule() -> None:
    lax, strict = (adaptive(wild, most=5, confidence=confidence) for confidence in ("0.9", "0.99"))
    assert [point.throughput for point in lax.run().results] == [point.throughput for point in strict.run().results]


def test_efficiency_and_cost_have_the_corrected_interval_too() -> None:
    def rates(point: int, repeat: int) -> float:
        return (1000.0, 1800.0)[point] + 40 * (repeat % 2)

    here = adaptive(rates, width="0.1")
    one, two = here.run().results
    asked = stopping_rule_of(here.plan.repeats)
    assert asked is not None
    corrected = intervals.of_ratio(two.values, one.values, stopping_rule.confidence(asked)).scaled(0.5)
    assert (two.scaling[0].efficiency.low, two.scaling[0].efficiency.high) == (corrected.low, corrected.high)
    assert one.cost is not None
    assert one.cost.per_million_samples is not None
    assert one.throughput is not None
    assert one.throughput.low is not None
    # 0.36 USD per node-hour is 0.0001 per second
    assert float(one.cost.per_million_samples.high or 0) == pytest.approx(100 / one.throughput.low, abs=1e-6)


@pytest.mark.parametrize("parallel", [1, 2, 64])
def test_no_repeat_starts_that_may_turn_out_not_to_be_needed(parallel: int) -> None:
    here = adaptive(wild, parallel=parallel)
    repeats = {trial.id: (trial.point, trial.repeat) for trial in here.plan.trials}
    for _ in range(100):
        decision = here.decide()
        measured = {record.trial for record in here.ledger().records if record.result} | {
            record.trial for record in decision.record if record.result
        }
        for gang in decision.create:
            point, repeat = repeats[gang.assignment.trial]
            before = {trial for trial, place in repeats.items() if place[0] == point and place[1] < repeat}
            assert repeat < 3 or before <= measured
        if here.reconcile().status.phase == "Succeeded":
            return
        here.advance(3.0 if parallel == 64 else 10.0)
    raise AssertionError("the study did not finish")


@pytest.mark.parametrize("seed", range(30))
def test_never_more_than_the_maximum_and_never_fewer_than_the_minimum(seed: int) -> None:
    chance = random.Random(seed)
    least, most = sorted(chance.sample(range(3, 11), 2))
    spread = chance.choice((0.0, 1.0, 10.0, 50.0, 200.0))
    drawn = {(point, repeat): chance.gauss(1000, spread) for point in range(2) for repeat in range(most)}
    here = adaptive(
        lambda point, repeat: drawn[point, repeat],
        least=least,
        most=most,
        width=chance.choice(("0.001", "0.02", "0.5")),
        parallel=chance.choice((1, 3)),
    )
    succeed = here.fate

    def unlucky(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        first = attempt == 1 and sum(map(ord, trial)) % 3 == 0
        return builders.disrupted() if first else succeed(trial, attempt)

    here.fate = unlucky
    status = here.run(rounds=400)
    assert status.phase == "Succeeded"
    for point, result in enumerate(status.results):
        assert least <= len(result.values) <= most
        assert set(ran(here, point)) == set(range(len(result.values))), "without a gap"
        # Nobody stopped who wanted another, and nobody went on who wanted none.
        asked = stopping_rule_of(here.plan.repeats)
        assert asked is not None
        assert not stopping_rule.another(result.values, asked)
        assert all(stopping_rule.another(result.values[:count], asked) for count in range(least, len(result.values)))


@pytest.mark.parametrize("seed", range(20))
def test_killed_between_any_two_writes_the_same_repeats_run(seed: int) -> None:
    def rates(point: int, repeat: int) -> float:
        return 1000.0 + random.Random(100 * point + repeat).gauss(0, 15)

    undisturbed, disturbed = adaptive(rates, most=10), adaptive(rates, most=10)
    expected = undisturbed.run()
    assert 6 < len(undisturbed.created) < 20, "the test shows nothing unless the rule had something to decide"
    status = run_with_kills(disturbed, random.Random(seed))
    assert sorted(disturbed.created) == sorted(undisturbed.created)
    assert status.results == expected.results
    assert (status.trials, status.attempts) == (expected.trials, expected.attempts)


def test_the_number_of_trials_is_a_range_that_narrows() -> None:
    here = adaptive(wild, most=5)
    ranges = []
    for _ in range(100):
        trials = here.reconcile().status.trials
        assert trials is not None
        ranges.append((trials.least or trials.total, trials.total))
        if here.status is not None and here.status.phase == "Succeeded":
            break
        here.advance()
    assert (ranges[0], ranges[-1]) == ((6, 10), (10, 10))
    assert ranges == sorted(ranges), "never fewer than was said"


def test_the_beginning_tells_the_range() -> None:
    here = adaptive(steady)
    here.reconcile()
    assert here.told[0].message.endswith(", 6 to 16 trials")
    fixed = world()
    fixed.reconcile()
    assert fixed.told[0].message == "2 points, 0 of them skipped, 6 trials"


def test_a_failure_ends_the_repeats_of_its_point() -> None:
    here = adaptive(wild)
    doomed = {trial.id for trial in here.plan.trials if (trial.point, trial.repeat) == (0, 4)}

    def fate(trial: str, attempt: int) -> tuple[int, str] | Disruption:
        if trial not in doomed:
            return measuring(here.plan, wild)(trial, attempt)
        record = builders.failure(trial=trial, attempt=attempt, exit_code=66, sentence="batch 64 does not fit")
        return 66, builders.message(record)

    here.fate = fate
    found = here.run().results[0]
    assert (ran(here), found.state, found.stopping) == ([0, 1, 2, 3, 4], PointState.MEASURED, None)
    assert builders.messages(found)[0].startswith("only 4 of up to 8 repeats were measured: ")


def test_repeats_that_are_not_averaged_are_not_added_to() -> None:
    here = adaptive(steady)

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, environment=trial))

    here.fate = fate
    status = here.run()
    assert ran(here) == [0, 1]  # a third one would be paid for nothing
    assert [result.state for result in status.results] == [PointState.FAILED] * 2


def test_a_trial_that_has_begun_counts_whatever_the_rule_says_now() -> None:
    """Another version's rule may have wanted it."""
    here = adaptive(steady, most=4)
    here.run()
    (extra,) = (trial for trial in here.plan.trials if (trial.point, trial.repeat) == (0, 3))
    result = builders.result(trial=extra.id, rate=1001.0)
    record = builders.attempt(trial=extra.id, outcome="Succeeded", reason="Completed", result=result)
    here.entries |= ledger.to_entries([record])
    found = here.decide().status
    assert len(found.results[0].values) == 4
    assert found.trials is not None
    assert (found.trials.total, found.trials.finished) == (7, 7)


def test_a_training_is_repeated_until_its_seconds_are_known() -> None:
    """The throughput of these repeats is the same; what differs is the evaluation, which counts."""
    data = {"source": "Generated", "samples": 1024}
    spec = builders.spec(
        builders.block(workers=[1], data=data, epochs=3),
        measure={"mode": "Training", "repeats": {"min": 3, "max": 5, "until": {"relativeHalfWidth": "0.02"}}},
    )
    plan = builders.plan(spec)
    repeats = {trial.id: trial.repeat for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        evaluation = 4_000_000_000 + 9_000_000_000 * (repeats[trial] % 2)
        training = builders.training(evaluation_nanoseconds=evaluation)
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, training=training))

    (found,) = world(builders.study(spec), plan, fate=fate).run().results
    assert len(set(found.values)) == 1
    assert (len(found.values), found.stopping) == (5, "MaximumReached")


# --- what gangs are told ----------------------------------------------------------------------------------------------


def told(**fields: Any) -> Mapping[str, object]:
    measure = fields.pop("measure", {})
    spec = builders.spec(builders.block(workers=[1], **fields), measure=measure)
    (gang,) = world(builders.study(spec), builders.plan(spec)).decide().create
    assignment: Mapping[str, object] = gang.assignment.to_wire()
    return assignment


UNTIL = {"repeats": {"min": 3, "max": 10, "until": {"relativeHalfWidth": "0.02"}}}


def test_a_run_is_told_how_well_it_is_to_be_known_only_where_that_was_asked_for() -> None:
    assert "standardErrorWanted" not in told()
    asked = stopping_rule_of(builders.spec(measure=UNTIL).measure.repeats)
    assert asked is not None
    assert told(measure=UNTIL)["standardErrorWanted"] == stopping_rule.run_error(asked)
    training = {"mode": "Training", **UNTIL}
    assert "standardErrorWanted" not in told(measure=training, data={"source": "Generated"}, epochs=2)


def test_the_health_check_can_be_switched_off() -> None:
    assert told()["healthCheck"] is True
    assert told(measure={"healthCheck": "Disabled"})["healthCheck"] is False


def test_a_program_of_ones_own_is_asked_for_no_precision_and_no_health_check() -> None:
    custom = {"name": "mine", "command": ["python", "/mine.py"]}
    wire = told(workloads=["Custom"], custom=custom, measure=UNTIL)
    assert (wire["healthCheck"], "standardErrorWanted" in wire) == (False, False)


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_finished_study_stays_finished_under_a_version_that_is_stricter() -> None:
    """As if it had been planned by one whose rule was laxer than that of today."""
    three = [1000.0, 1004.0, 1008.0]
    here = adaptive(lambda _, repeat: three[repeat % 3], most=5, width="0.011")
    now = Strict.of(here.plan.repeats)
    assert now is not None
    lax = here.plan.model_copy(update={"strict": Strict(rule=0.95, intervals=0.95)})
    stored = Plan.model_validate_json(lax.to_json())
    before = world(here.study, stored, fate=here.fate)
    status = before.run()
    assert [len(result.values) for result in status.results] == [3, 3]
    assert [result.stopping for result in status.results] == ["PrecisionReached"] * 2
    plain = intervals.of_mean(three, 0.95)
    assert status.results[0].throughput is not None
    assert (status.results[0].throughput.low, status.results[0].throughput.high) == (plain.low, plain.high)
    assert pairs.of_plan("before", stored, status.results).confidence == 0.95
    # The rule of today wants another repeat: the test shows nothing otherwise.
    today = here.plan.model_copy(update={"strict": now})
    assert len(world(here.study, today, fate=here.fate).run().results[0].values) > 3
    assert not before.decide().create
    assert not list(audit.of_plan(stored, here.study.spec))


def test_a_plan_keeps_how_strict_its_version_was_and_one_of_before_is_as_strict_as_this() -> None:
    here = adaptive(wild, most=5, confidence="0.9")
    plan = step.begin(here.study, here.plan.pools, builders.NOW)
    assert isinstance(plan, Plan)
    assert plan.strict == here.plan.strict == Strict.of(plan.repeats)
    before = plan.model_copy(update={"strict": None})
    assert world(here.study, before, fate=measuring(before, wild)).run().results == here.run().results
    fixed = step.begin(builders.study(), (builders.pool(),), builders.NOW)
    assert isinstance(fixed, Plan)
    assert fixed.strict is None


def test_an_adaptive_plan_comes_back() -> None:
    plan = adaptive(steady).plan
    assert Plan.model_validate_json(plan.to_json()) == plan
    assert len(plan.trials) == 16


def test_what_the_rules_of_the_schema_say_is_what_the_intervals_need() -> None:
    assert UNTIL_MIN == intervals.REPEATS_FOR_INTERVAL
