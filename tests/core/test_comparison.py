# SPDX-License-Identifier: Apache-2.0
"""A study beside its baseline: what is frozen, what passes, what fails, and what nobody can tell."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import comparison, pairs, points
from gpubench.analysis.comparison import Reference
from gpubench.api import status_sizes
from gpubench.api.benchmark_status import Comparison, FullStatus
from gpubench.api.goals import CompareTo
from gpubench.api.point_result import EnvironmentFacts, Judgement, PointResult, PointState
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, events, step
from gpubench.scheduler.environments import EnvironmentKey
from world import Fate, world

TO = CompareTo(benchmark="last-week")
SPEC = builders.spec(compareTo={"benchmark": "last-week"})  # one and two workers
#: A standard deviation of 1 %: of two such points of 3 repeats, the ratio has a half width of 2.3 %.
RATES = (990.0, 1000.0, 1010.0)


def reference(rates: Mapping[int, Sequence[float]], plan: Plan | None = None, **fields: Any) -> Reference:
    of = plan or builders.plan()
    environment = fields.pop("environment", "env")
    return Reference(
        side=pairs.of_plan("last-week", of, measured.results(of, rates, environment=environment)), **fields
    )


def scaled(factor: float) -> tuple[float, ...]:
    return tuple(factor * rate for rate in RATES)


def gives(rates: Mapping[int, Sequence[float]], plan: Plan, *, environment: str = "env") -> Fate:
    """Each repeat of each point ends well, with its rate."""
    of_trial = {trial.id: rates[trial.point][trial.repeat] for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        result = builders.result(trial=trial, attempt=attempt, rate=of_trial[trial], environment=environment)
        return 0, builders.message(result)

    return fate


def finished(rates: Mapping[int, Sequence[float]], found: Reference | None, *, environment: str = "env") -> FullStatus:
    """The status of a study that was planned with this baseline and gave these rates."""
    study = builders.study(SPEC)
    plan = step.begin(
        study,
        (builders.pool(),),
        builders.NOW,
        with_baseline=partial(comparison.with_baseline, wanted=study.spec.compare_to, found=found),
    )
    assert isinstance(plan, Plan)
    stored = Plan.model_validate_json(plan.to_json())  # all that is left of the baseline
    return world(study, stored, fate=gives(rates, stored, environment=environment)).run()


def verdicts(status: FullStatus) -> list[Judgement | None]:
    return [result.comparison for result in status.results]


def test_a_study_that_keeps_up_passes_point_by_point() -> None:
    status = finished({0: scaled(1.0), 1: scaled(1.1)}, reference({0: RATES, 1: RATES}))
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.PASS
    assert verdicts(status) == [Judgement.PASS, Judgement.PASS]
    assert status.comparison.sentence == "2 of 2 points are at most 5 % slower than in last-week (95 %)"
    assert (status.comparison.baseline, status.comparison.tolerance) == ("last-week", "0.05")


def test_one_slower_point_fails_the_study_and_is_named() -> None:
    status = finished({0: scaled(1.0), 1: scaled(0.8)}, reference({0: RATES, 1: RATES}))
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.FAIL
    assert verdicts(status) == [Judgement.PASS, Judgement.FAIL]
    assert status.comparison.points.to_wire() == {"passed": 1, "failed": 1, "cannotTell": 0, "notCompared": 0}
    assert status.comparison.sentence == (
        "1 of 2 points is more than 5 % slower than in last-week (95 %): mnist_cnn on cpu, 2 workers at batch 64, "
        "float32 has 0.800 (0.782–0.818) times the speed it had"
    )


def test_programs_of_ones_own_with_one_name_are_one_work_only_where_they_are_the_same() -> None:
    def side(name: str, file: str) -> pairs.Side:
        custom = {"name": "mine", "file": file}
        plan = builders.plan(builders.spec(builders.block(workloads=["Custom"], custom=custom, workers=[1])))
        return pairs.of_plan(name, plan, measured.results(plan, {0: RATES}))

    before = side("before", "/mine.py")
    assert len(pairs.across(before, side("after", "/mine.py"))) == 1
    assert pairs.across(before, side("after", "/other.py")) == ()
    assert pairs.nearest(before, side("after", "/other.py")) == "the definition of the workload"


def test_an_interval_around_the_bound_tells_nothing() -> None:
    status = finished({0: scaled(0.95), 1: scaled(1.0)}, reference({0: RATES, 1: RATES}))
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.CANNOT_TELL
    assert status.comparison.sentence == (
        "cannot tell whether 1 of 2 points is at most 5 % slower than in last-week: mnist_cnn on cpu, 1 worker at "
        "batch 64, float32 has 0.950 (0.929–0.972) times the speed it had; more repeats would make the interval "
        "narrower"
    )


def test_another_environment_is_no_verdict_and_says_what_is_other() -> None:
    before = EnvironmentFacts(environment="env", driver="535.54", framework_version="2.18.1")
    found = reference({0: RATES, 1: RATES})
    found = found.model_copy(update={"side": found.side.model_copy(update={"environments": (before,)})})
    status = finished({0: scaled(0.5), 1: scaled(0.5)}, found, environment="other")
    assert verdicts(status) == [Judgement.CANNOT_TELL] * 2
    assert status.comparison is not None
    assert "float32: the environments differ (env and other): " in status.comparison.sentence
    plan = comparison.with_baseline(builders.plan(), TO, found)
    after = before.model_copy(update={"environment": "other", "driver": "550.90"})
    told = comparison.comparison(plan, measured.results(plan, {0: RATES, 1: RATES}, environment="other"), [after])
    assert told is not None
    assert told.sentence.endswith("the environments differ (env and other): driver 535.54 against 550.90")


def test_another_image_under_the_same_name_is_another_environment() -> None:
    before = EnvironmentFacts(environment="env", image_digest="sha256:1")
    found = reference({0: RATES, 1: RATES})
    found = found.model_copy(update={"side": found.side.model_copy(update={"environments": (before,)})})
    plan = comparison.with_baseline(builders.plan(), TO, found)
    results = measured.results(plan, {0: RATES, 1: RATES})
    for digest, verdict in (("sha256:1", Judgement.PASS), (None, Judgement.PASS), ("sha256:2", Judgement.CANNOT_TELL)):
        after = EnvironmentFacts(environment="env", image_digest=digest)
        told = comparison.comparison(plan, results, [after])
        assert told is not None
        assert told.verdict is verdict
    assert told is not None
    assert told.sentence.endswith("the environments differ: image digest sha256:1 against sha256:2")


def test_runs_that_never_settled_have_no_verdict() -> None:
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: RATES, 1: RATES}))
    steady, other = measured.results(plan, {0: RATES, 1: scaled(0.5)})
    found = (steady, other.model_copy(update={"state": PointState.UNSTABLE}))
    told = comparison.comparison(plan, found)
    assert told is not None
    assert told.verdict is Judgement.CANNOT_TELL
    assert told.sentence.endswith("2 workers at batch 64, float32: runs never settled")


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (None, "there was no GpuBenchmark last-week in this namespace when the benchmark was planned"),
        (
            reference({0: RATES}, finished=False),
            "GpuBenchmark last-week had not finished when the benchmark was planned",
        ),
        (reference({}, readable=False), "GpuBenchmark last-week cannot be read by this version"),
        (reference({}), "last-week has measured no point that this benchmark has, too"),
        (
            reference({0: RATES}, builders.plan(builders.spec(builders.block(batchPerWorker=[32])))),
            "last-week has measured no point that this benchmark has, too",
        ),
    ],
)
def test_a_baseline_that_is_not_there_holds_nothing_up_and_is_said(found: Reference | None, why: str) -> None:
    status = finished({0: RATES, 1: RATES}, found)
    assert status.phase == "Succeeded"
    assert status.comparison is not None
    assert (status.comparison.verdict, status.comparison.sentence) == (
        Judgement.CANNOT_TELL,
        f"nothing to compare with: {why}",
    )
    (condition,) = [one for one in status.conditions if one.type == conditions.COMPARISON_PASSED]
    assert (condition.status, condition.reason) == ("Unknown", conditions.BASELINE_ABSENT)


@pytest.mark.parametrize(("factor", "holds", "event"), [(1.0, "True", "Normal"), (0.5, "False", "Warning")])
def test_the_end_is_a_condition_to_wait_for_and_an_event(factor: float, holds: str, event: str) -> None:
    study = builders.study(SPEC)
    plan = step.begin(
        study,
        (builders.pool(),),
        builders.NOW,
        with_baseline=partial(
            comparison.with_baseline, wanted=study.spec.compare_to, found=reference({0: RATES, 1: RATES})
        ),
    )
    assert isinstance(plan, Plan)
    here = world(study, plan, fate=gives({0: scaled(factor), 1: scaled(factor)}, plan))
    first = here.reconcile().status
    assert first.comparison is None, "nothing is said of a study that runs"
    assert not any(one.type == conditions.COMPARISON_PASSED for one in first.conditions)
    status = here.run()
    here.reconcile()
    assert status.comparison is not None
    (condition,) = [one for one in status.conditions if one.type == conditions.COMPARISON_PASSED]
    assert (condition.status, condition.message) == (holds, status.comparison.sentence)
    told = [one for one in here.told if one.reason == events.COMPARED]
    assert [(one.type, one.message) for one in told] == [(event, status.comparison.sentence)]


def test_a_study_without_a_baseline_says_nothing_of_one() -> None:
    status = world().run()
    assert status.comparison is None
    assert verdicts(status) == [None, None]


def test_only_points_of_both_are_compared() -> None:
    status = finished({0: RATES, 1: RATES}, reference({1: RATES}))
    assert status.comparison is not None
    assert verdicts(status) == [None, Judgement.PASS]
    assert status.comparison.sentence == "1 of 1 point is at most 5 % slower than in last-week (95 %)"
    assert status.comparison.points.not_compared == 1


def test_training_keeps_up_by_its_seconds() -> None:
    block = builders.block(workers=[1], data={"source": "Generated"}, epochs=3)
    plan = builders.plan(builders.spec(block, measure={"mode": "Training"}))

    def results(*seconds: float) -> Any:
        runs = [
            builders.training(nanoseconds=round(1e9 * one), evaluation_nanoseconds=0, first_evaluation_nanoseconds=0)
            for one in seconds
        ]
        return measured.results(plan, {0: [1.0] * len(runs)}, trainings={0: runs})

    found = Reference(side=pairs.of_plan("last-week", plan, results(99, 100, 101)))
    frozen = comparison.with_baseline(plan, TO, found)
    slower = comparison.comparison(frozen, results(199, 200, 201))
    assert slower is not None
    assert slower.verdict is Judgement.FAIL
    assert "has 0.500 (0.490–0.510) times the speed it had" in slower.sentence


def test_repeats_that_were_added_as_needed_make_the_verdict_stricter() -> None:
    # 0.965 -+ 2.2 % is above 0.94, and a stricter interval of 3.3 % or more is not: strictness is that of the stopping.
    until = builders.spec(measure={"repeats": {"min": 3, "max": 10, "until": {"relativeHalfWidth": "0.1"}}})
    plain, adaptive = builders.plan(), builders.plan(until)
    to = TO.model_copy(update={"tolerance": "0.06"})
    for plan, verdict in ((plain, Judgement.PASS), (adaptive, Judgement.CANNOT_TELL)):
        frozen = comparison.with_baseline(plan, to, reference({0: RATES, 1: RATES}))
        assert frozen.baseline is not None
        results = measured.results(frozen, {0: scaled(0.965), 1: scaled(0.965)})
        ended = [result.model_copy(update={"state": PointState.MEASURED}) for result in results]
        told = comparison.comparison(frozen, ended)
        assert told is not None
        assert told.verdict is verdict


def test_few_repeats_tell_nothing() -> None:
    twice = builders.plan(builders.spec(measure={"repeats": {"min": 2}}))
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: RATES[:2]}, twice))
    told = comparison.comparison(plan, measured.results(plan, {0: RATES, 1: RATES}))
    assert told is not None
    assert told.sentence.endswith(": an interval needs 3 repeats, and last-week has 2")


def ended(plan: Plan, *states: PointState) -> FullStatus:
    """Points that were measured as fast as before, or have no figure and this state."""
    found = [
        result if state is PointState.MEASURED else pairs.blank(plan, point).model_copy(update={"state": state})
        for result, point, state in zip(measured.results(plan, {0: RATES, 1: RATES}), plan.points, states, strict=True)
    ]
    return FullStatus(results=comparison.annotated(plan, found), comparison=comparison.comparison(plan, found))


@pytest.mark.parametrize("state", [PointState.FAILED, PointState.OUT_OF_MEMORY, PointState.UNSUPPORTED_ACCELERATOR])
def test_a_point_that_the_baseline_measured_and_that_fails_here_fails_the_study(state: PointState) -> None:
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: RATES, 1: RATES}))
    status = ended(plan, PointState.MEASURED, state)
    assert verdicts(status) == [Judgement.PASS, Judgement.FAIL]
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.FAIL
    assert status.comparison.points.to_wire() == {"passed": 1, "failed": 1, "cannotTell": 0, "notCompared": 0}
    assert status.comparison.sentence == (
        "1 of the 2 points that last-week measured has no figure here: mnist_cnn on cpu, 2 workers at batch 64, "
        f"float32 ended {state.value}"
    )


@pytest.mark.parametrize("state", [PointState.SKIPPED, PointState.NO_CAPACITY])
def test_a_point_that_was_never_tried_here_is_no_pass(state: PointState) -> None:
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: RATES, 1: RATES}))
    status = ended(plan, PointState.MEASURED, state)
    assert verdicts(status) == [Judgement.PASS, Judgement.CANNOT_TELL]
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.CANNOT_TELL
    assert status.comparison.sentence.startswith("cannot tell: 1 of the 2 points that last-week measured has no figure")


def test_slow_points_and_lost_ones_are_both_told() -> None:
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: tuple(2 * rate for rate in RATES), 1: RATES}))
    status = ended(plan, PointState.MEASURED, PointState.FAILED)
    assert status.comparison is not None
    assert "1 of 2 points is more than 5 % slower" in status.comparison.sentence
    assert status.comparison.sentence.endswith("ended Failed")


def test_a_point_that_the_baseline_has_not_measured_may_fail() -> None:
    plan = comparison.with_baseline(builders.plan(), TO, reference({0: RATES}))
    status = ended(plan, PointState.MEASURED, PointState.FAILED)
    assert verdicts(status) == [Judgement.PASS, None]
    assert status.comparison is not None
    assert status.comparison.verdict is Judgement.PASS


def test_a_baseline_on_more_instance_types_is_no_other_environment() -> None:
    before = [EnvironmentFacts(environment="env", instance_type=name) for name in ("p3.2xlarge", "p3.8xlarge")]
    found = reference({0: RATES, 1: RATES})
    found = found.model_copy(update={"side": found.side.model_copy(update={"environments": tuple(before)})})
    plan = comparison.with_baseline(builders.plan(), TO, found)
    here = measured.results(plan, {0: RATES, 1: RATES})
    told = comparison.comparison(plan, here, before[:1])
    assert told is not None
    assert told.verdict is Judgement.PASS
    other = comparison.comparison(plan, here, [EnvironmentFacts(environment="env", instance_type="p4d.24xlarge")])
    assert other is not None
    assert other.verdict is Judgement.CANNOT_TELL


# --- instance types behind one environment ----------------------------------------------------------------------------

SMALL, LARGE = "p3.2xlarge", "p3.8xlarge"


def on_types(plan: Plan, types: Sequence[str | None]) -> tuple[PointResult, ...]:
    """Results of both points, measured on nodes of these types, of which the environment's key knows nothing."""
    found = measured.results(plan, {0: RATES, 1: RATES})
    return tuple(one.model_copy(update={"instance_type": name}) for one, name in zip(found, types, strict=True))


def facts_of(*types: str) -> tuple[EnvironmentFacts, ...]:
    return tuple(EnvironmentFacts(environment="env", instance_type=name) for name in types)


def beside(types: Sequence[str | None], *, before: Sequence[str | None]) -> Comparison:
    """A study on these types beside a baseline on those; both studies have met both types."""
    of, known = builders.plan(), facts_of(SMALL, LARGE)
    side = pairs.of_plan("last-week", of, on_types(of, before), known)
    plan = comparison.with_baseline(of, TO, Reference(side=side))
    stored = Plan.model_validate_json(plan.to_json())  # all that is left of the baseline
    told = comparison.comparison(stored, on_types(stored, types), known)
    assert told is not None
    return told


def test_a_point_on_another_instance_type_than_the_baselines_has_no_verdict_and_both_types_are_named() -> None:
    told = beside((LARGE, LARGE), before=(SMALL, LARGE))
    assert (told.verdict, told.points.passed, told.points.cannot_tell) == (Judgement.CANNOT_TELL, 1, 1)
    assert told.sentence.endswith(f"the environments differ: instance type {SMALL} against {LARGE}")


def test_points_on_the_types_of_the_baseline_are_compared() -> None:
    assert beside((SMALL, LARGE), before=(SMALL, LARGE)).verdict is Judgement.PASS


@pytest.mark.parametrize("before", [(None, None), (SMALL, LARGE)])
def test_a_point_that_does_not_say_its_type_is_on_one_of_those_that_its_study_met(
    before: tuple[str | None, str | None],
) -> None:
    assert beside((None, None), before=before).verdict is Judgement.PASS


def test_a_type_that_the_study_does_not_show_is_named_all_the_same() -> None:
    (point, _) = on_types(builders.plan(), (SMALL, LARGE))
    other = point.model_copy(update={"instance_type": "p4d.24xlarge"})
    for known in ((), facts_of(LARGE)):
        assert pairs.differing(point, other, facts_of(SMALL), known) == (
            f"the environments differ: instance type {SMALL} against p4d.24xlarge"
        )
    assert pairs.differing(point, point, facts_of(SMALL), ()) is None
    elsewhere = point.model_copy(update={"environment": "other", "instance_type": None})
    assert pairs.differing(point.model_copy(update={"instance_type": None}), elsewhere, (), ()) == (
        "the environments differ (env and other), and what they are was not recorded"
    )


def test_a_long_name_that_a_result_cuts_is_known_again() -> None:
    long = "Standard_NC24ads_A100_v4+Standard_NC24s_v3"
    shown = points.instance_type_shown(EnvironmentKey("env", "", long))
    assert shown is not None
    assert (len(shown.encode()), shown[-1]) == (status_sizes.FACT_MAX, "…")
    (point, _) = on_types(builders.plan(), (shown, LARGE))
    of_before = point.model_copy(update={"instance_type": None})
    assert pairs.differing(point, of_before, facts_of(long), facts_of(long)) is None
    (short, _) = on_types(builders.plan(), ("p3", LARGE))
    assert pairs.differing(short, short, facts_of("p3.2xlarge"), facts_of("p3")) is None


def test_the_digest_that_counts_is_that_of_the_points_own_type() -> None:
    (point, _) = on_types(builders.plan(), (SMALL, LARGE))
    before = EnvironmentFacts(environment="env", instance_type=SMALL, image_digest="sha256:1")
    after = [before.model_copy(update={"image_digest": "sha256:2"}), before.model_copy(update={"instance_type": LARGE})]
    told = pairs.differing(point, point, [before], after)
    assert told == "the environments differ: image digest sha256:1 against sha256:2"


def test_two_studies_are_compared_with_the_tolerance_that_was_asked_for() -> None:
    plan = builders.plan()
    before, after = (
        pairs.of_plan(name, plan, measured.results(plan, {0: RATES, 1: RATES})) for name in ("before", "after")
    )
    pair = pairs.across(before, after)[0]
    told = [pairs.compared(before, after, pair, tolerance=one).difference.verdict for one in (0.05, 0.001)]
    assert told == ["Equal", "CannotTell"]
