# SPDX-License-Identifier: Apache-2.0
"""Whether a study keeps up with its baseline: `spec.compareTo` at planning, `status.comparison` at the end.

What the baseline measured is frozen into the plan when the study starts: a baseline that is deleted or run again later
changes nothing, and a decision asks nobody. One that is not there, or not finished, holds nothing up: the study runs,
and its comparison says that there was nothing to compare with.

A point passes when the whole interval of its ratio of speeds lies above 1 - tolerance, and fails when none of it does
(`compare.judged`). The study fails with its first failing point, and passes when every point passes that both have
measured. Must not happen: a verdict across environments, or about a run that never settled.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench.api.benchmark import CompareTo
from gpubench.api.benchmark_status import (
    COMPARISON_MAX,
    Comparison,
    ComparisonCounts,
    EnvironmentFacts,
    Judgement,
    PointResult,
    PointState,
)
from gpubench.control import conditions, estimates, results
from gpubench.measure import compare, intervals
from gpubench.measure.compare import Quantity, Sample
from gpubench.measure.intervals import Interval
from gpubench.plan.baseline import Baseline, BaselinePoint
from gpubench.plan.plan import Plan
from gpubench.report import comparisons, figures, pairs, tables
from gpubench.report.pairs import Side
from gpubench.values import Value

_ENDED = frozenset({PointState.MEASURED, PointState.UNSTABLE})


class Reference(Value):
    """The baseline as it was found."""

    side: Side
    finished: bool = True
    readable: bool = True  # by this version


class _Compared(NamedTuple):
    """A point of both studies."""

    point: BaselinePoint
    result: PointResult
    ratio: Interval  # of speeds, this study's over the baseline's
    differing: str | None  # in what their environments do
    verdict: Judgement


def with_baseline(plan: Plan, wanted: CompareTo | None, found: Reference | None) -> Plan:
    """The plan with what it is to be compared with; None: there is no such benchmark."""
    if wanted is None:
        return plan
    name = wanted.benchmark
    if found is None:
        return _without(plan, wanted, f"there was no GpuBenchmark {name} in this namespace when the study was planned")
    if not found.readable:
        return _without(plan, wanted, f"GpuBenchmark {name} cannot be read by this version")
    if not found.finished:
        return _without(plan, wanted, f"GpuBenchmark {name} had not finished when the study was planned")
    points = _points(plan, found.side)
    if not points:
        return _without(plan, wanted, f"{name} has measured no point that this study has, too")
    baseline = Baseline(
        benchmark=name,
        tolerance=wanted.tolerance,
        confidence=found.side.confidence,
        points=points,
        environments=found.side.environments,
    )
    return plan.model_copy(update={"baseline": baseline})


def annotated(
    plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> tuple[PointResult, ...]:
    """The results, each with its verdict where it has figures and a counterpart in the baseline."""
    after = list(found)
    for one in _compared(plan, found, environments):
        after[one.point.point] = one.result.model_copy(update={"comparison": one.verdict})
    return tuple(after)


def comparison(
    plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> Comparison | None:
    """What a finished study says; None where it is compared with nothing. `environments` are its own."""
    baseline = plan.baseline
    if baseline is None:
        return None
    compared = _compared(plan, found, environments)
    counts = Counter(one.verdict for one in compared)
    return Comparison(
        baseline=baseline.benchmark,
        tolerance=baseline.tolerance,
        verdict=_verdict(counts),
        points=ComparisonCounts(
            passed=counts[Judgement.PASS],
            failed=counts[Judgement.FAIL],
            cannot_tell=counts[Judgement.CANNOT_TELL],
            not_compared=len(found) - counts.total(),
        ),
        sentence=conditions.clamped(_sentence(baseline, compared), COMPARISON_MAX),
    )


def _without(plan: Plan, wanted: CompareTo, why: str) -> Plan:
    baseline = Baseline(benchmark=wanted.benchmark, tolerance=wanted.tolerance, absent=why)
    return plan.model_copy(update={"baseline": baseline})


def _points(plan: Plan, side: Side) -> tuple[BaselinePoint, ...]:
    """The baseline's figures for the points of the plan that it has measured."""
    own = pairs.of_plan("this study", plan, [results.blank(plan, point) for point in plan.points])
    known = {pairs.identity(side, result): result for result in side.results if result.state in _ENDED}
    found = []
    for index, blank in enumerate(own.results):
        result = known.get(pairs.identity(own, blank))
        quantity = pairs.quantity(result) if result is not None else None
        if result is None or quantity is None:
            continue
        sample = pairs.sample(result, quantity, confidence=side.confidence)
        found.append(
            BaselinePoint(
                point=index,
                quantity=quantity.value,
                repeats=sample.count,
                mean=sample.mean,
                deviation=sample.deviation,
                environment=result.environment,
                settled=result.state is not PointState.UNSTABLE,
            )
        )
    return tuple(found)


def _compared(plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts]) -> list[_Compared]:
    """Every point that both have figures of."""
    baseline = plan.baseline
    if baseline is None:
        return []
    confidence = pairs.of_plan("this study", plan, ()).confidence
    compared = []
    for point in baseline.points:
        result, quantity = found[point.point], Quantity(point.quantity)
        if result.state not in _ENDED or pairs.quantity(result) is not quantity:
            continue
        before = Sample(count=point.repeats, mean=point.mean, deviation=point.deviation, confidence=baseline.confidence)
        ratio = compare.speed_ratio(pairs.sample(result, quantity, confidence=confidence), before, quantity=quantity)
        verdict = Judgement.CANNOT_TELL
        differing = comparisons.differing(point.environment, result.environment, baseline.environments, environments)
        if differing is None and _settled(point, result):
            verdict = compare.judged(ratio, tolerance=float(baseline.tolerance))
        compared.append(_Compared(point, result, ratio, differing, verdict))
    return compared


def _settled(point: BaselinePoint, result: PointResult) -> bool:
    return point.settled and result.state is not PointState.UNSTABLE


def _verdict(counts: Counter[Judgement]) -> Judgement:
    if counts[Judgement.FAIL]:
        return Judgement.FAIL
    return Judgement.PASS if counts[Judgement.PASS] == counts.total() > 0 else Judgement.CANNOT_TELL


# --- words ------------------------------------------------------------------------------------------------------------


def _sentence(baseline: Baseline, compared: Sequence[_Compared]) -> str:
    name, bound = baseline.benchmark, f"{(100 * Decimal(baseline.tolerance)).normalize():f} %"
    if baseline.absent is not None:
        return f"nothing to compare with: {baseline.absent}"
    if not compared:
        return f"cannot tell: of the points that {name} has measured, none was measured here"
    verdict = _verdict(Counter(one.verdict for one in compared))
    concerned = [one for one in compared if one.verdict is verdict]
    points = _of(len(concerned), len(compared))
    if verdict is Judgement.PASS:
        return f"{points} at most {bound} slower than in {name} (95 %)"
    if verdict is Judgement.FAIL:
        worst = min(concerned, key=lambda one: one.ratio.mean)
        return f"{points} more than {bound} slower than in {name} (95 %): {_speed(worst)}"
    why = _why(concerned[0])
    return f"cannot tell whether {points} at most {bound} slower than in {name}: {why}"


def _why(one: _Compared) -> str:
    """What stands in the way of a verdict about a point."""
    where = tables.describe(one.result)
    if one.differing is not None:
        return f"{where}: {one.differing}"
    if not _settled(one.point, one.result):
        return f"{where}: runs {'of the baseline ' if not one.point.settled else ''}never settled"
    if one.ratio.low is None:
        least = intervals.REPEATS_FOR_INTERVAL
        return f"{where}: an interval needs {least} repeats of either, and these are {one.point.repeats} and " + str(
            len(one.result.values)
        )
    return f"{_speed(one)}; more repeats would make the interval narrower"


def _of(count: int, total: int) -> str:
    if count == total:
        return "the only point of both is" if total == 1 else f"all {total} points are"
    return f"{count} of {total} points {'is' if count == 1 else 'are'}"


def _speed(one: _Compared) -> str:
    ratio = figures.bounded(estimates.estimate(one.ratio))
    return f"{tables.describe(one.result)} has {ratio} times the speed it had"
