# SPDX-License-Identifier: Apache-2.0
"""Whether a benchmark keeps up with its baseline: `spec.compareTo` at planning, `status.comparison` at the end.

What the baseline measured is frozen into the plan when the benchmark starts: a baseline that is deleted or run again
later changes nothing, and a decision asks nobody. One that is not there, or not finished, holds nothing up: the
benchmark runs, and its comparison says that there was nothing to compare with.

A point passes when the whole interval of its ratio of speeds lies above 1 - tolerance, and fails when none of it does
(`compare.is_as_fast`). It also fails where it failed or does not fit any more: that it could be measured the baseline
has shown. The benchmark fails with its first failing point, and passes when every point passes that the baseline has
measured.
Must not happen: a verdict across environments, or about a run that never settled; a benchmark that passes because its
slow points have no figures.
"""

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench.analysis import pairs, points, text
from gpubench.analysis.pairs import Side
from gpubench.api.benchmark_status import Comparison, ComparisonCounts, EnvironmentFacts
from gpubench.api.goals import CompareTo
from gpubench.api.point_result import Judgement, PointResult, PointState
from gpubench.api.status_sizes import COMPARISON_MAX
from gpubench.plan.plan import Baseline, BaselinePoint, Plan
from gpubench.scheduler import conditions
from gpubench.stats import compare
from gpubench.stats.compare import Quantity, Sample
from gpubench.values import FrozenModel, Interval

_ENDED = frozenset({PointState.MEASURED, PointState.UNSTABLE})
_OPEN = frozenset({PointState.PENDING, PointState.RUNNING})
#: Ends that are worse than the baseline's figure; of others, as of nodes that nobody had, nothing follows.
_LOST = frozenset({PointState.FAILED, PointState.OUT_OF_MEMORY, PointState.UNSUPPORTED_ACCELERATOR})


class Reference(FrozenModel):
    """The baseline as it was found."""

    side: Side
    finished: bool = True
    readable: bool = True  # by this version


_VERDICTS = {True: Judgement.PASS, False: Judgement.FAIL, None: Judgement.CANNOT_TELL}


class _Compared(NamedTuple):
    """A point of the plan that the baseline has measured."""

    point: BaselinePoint
    result: PointResult
    verdict: Judgement
    ratio: Interval | None = None  # of speeds, this benchmark's over the baseline's; None: it has no figure here
    obstacle: str | None = None  # what allows no verdict, where not the interval alone does


def with_baseline(plan: Plan, wanted: CompareTo | None, found: Reference | None) -> Plan:
    """The plan with what it is to be compared with; None: there is no such benchmark."""
    if wanted is None:
        return plan
    name = wanted.benchmark
    if found is None:
        absent = f"there was no GpuBenchmark {name} in this namespace when the benchmark was planned"
        return _without(plan, wanted, absent)
    if not found.readable:
        return _without(plan, wanted, f"GpuBenchmark {name} cannot be read by this version")
    if not found.finished:
        return _without(plan, wanted, f"GpuBenchmark {name} had not finished when the benchmark was planned")
    points = _points(plan, found.side)
    if not points:
        return _without(plan, wanted, f"{name} has measured no point that this benchmark has, too")
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
    """The results, each with its verdict where it has ended and the baseline has figures of it."""
    after = list(found)
    for one in _compared(plan, found, environments):
        if one.result.state not in _OPEN:
            after[one.point.point] = one.result.model_copy(update={"comparison": one.verdict})
    return tuple(after)


def comparison(
    plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> Comparison | None:
    """What a finished benchmark says; None where it is compared with nothing. `environments` are its own."""
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
        sentence=conditions.clamped(_message(baseline, compared), COMPARISON_MAX),
    )


def _without(plan: Plan, wanted: CompareTo, why: str) -> Plan:
    baseline = Baseline(benchmark=wanted.benchmark, tolerance=wanted.tolerance, absent=why)
    return plan.model_copy(update={"baseline": baseline})


def _points(plan: Plan, side: Side) -> tuple[BaselinePoint, ...]:
    """The baseline's figures for the points of the plan that it has measured."""
    own = pairs.of_plan("this benchmark", plan, [points.blank(plan, point) for point in plan.points])
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
                instance_type=result.instance_type,
                settled=result.state is not PointState.UNSTABLE,
            )
        )
    return tuple(found)


def _compared(plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts]) -> list[_Compared]:
    """Every point that the baseline has measured and the plan has, too."""
    baseline = plan.baseline
    if baseline is None:
        return []
    confidence = pairs.of_plan("this benchmark", plan, ()).confidence
    compared = []
    for point in baseline.points:
        result, quantity = found[point.point], Quantity(point.quantity)
        if result.state not in _ENDED or pairs.quantity(result) is not quantity:
            verdict = Judgement.FAIL if result.state in _LOST else Judgement.CANNOT_TELL
            compared.append(_Compared(point, result, verdict))
            continue
        here = pairs.sample(result, quantity, confidence=confidence)
        before = Sample(count=point.repeats, mean=point.mean, deviation=point.deviation, confidence=baseline.confidence)
        ratio = compare.speed_ratio(here, before, quantity=quantity)
        obstacle = pairs.differing(point, result, baseline.environments, environments)
        obstacle = obstacle or _unsettled(point, result)
        if obstacle is None and (ratio.low is None or ratio.high is None):
            obstacle = compare.unbounded(here, before, name="this benchmark", other=baseline.benchmark)
        verdict = Judgement.CANNOT_TELL
        if obstacle is None:
            verdict = _VERDICTS[compare.is_as_fast(ratio, tolerance=float(baseline.tolerance))]
        compared.append(_Compared(point, result, verdict, ratio, obstacle))
    return compared


def _unsettled(point: BaselinePoint, result: PointResult) -> str | None:
    if not point.settled:
        return "runs of the baseline never settled"
    return "runs never settled" if result.state is PointState.UNSTABLE else None


def _verdict(counts: Counter[Judgement]) -> Judgement:
    if counts[Judgement.FAIL]:
        return Judgement.FAIL
    return Judgement.PASS if counts[Judgement.PASS] == counts.total() > 0 else Judgement.CANNOT_TELL


# --- words ------------------------------------------------------------------------------------------------------------


def _message(baseline: Baseline, compared: Sequence[_Compared]) -> str:
    name, bound = baseline.benchmark, f"{(100 * Decimal(baseline.tolerance)).normalize():f} %"
    if baseline.absent is not None:
        return f"nothing to compare with: {baseline.absent}"
    if not compared:
        return f"cannot tell: of the points that {name} has measured, none was measured here"
    verdict = _verdict(Counter(one.verdict for one in compared))
    concerned = [one for one in compared if one.verdict is verdict]
    known = [(one, one.ratio) for one in concerned if one.ratio is not None]
    points = _of(len(known), len(compared))
    parts = []
    if verdict is Judgement.PASS:
        parts.append(f"{points} at most {bound} slower than in {name} (95 %)")
    elif verdict is Judgement.FAIL and known:
        worst = min(known, key=lambda pair: pair[1].mean)
        parts.append(f"{points} more than {bound} slower than in {name} (95 %): {_speed(*worst)}")
    elif known:
        parts.append(f"cannot tell whether {points} at most {bound} slower than in {name}: {_why(*known[0])}")
    if without := [one for one in concerned if one.ratio is None]:
        start = "cannot tell: " if verdict is Judgement.CANNOT_TELL and not known else ""
        parts.append(f"{start}{_without_figures(without, baseline)}")
    return "; ".join(parts)


def _why(one: _Compared, ratio: Interval) -> str:
    """What stands in the way of a verdict about a point with figures."""
    if one.obstacle is not None:
        return f"{text.describe(one.result)}: {one.obstacle}"
    return f"{_speed(one, ratio)}; more repeats would make the interval narrower"


def _without_figures(those: Sequence[_Compared], baseline: Baseline) -> str:
    count, total = len(those), len(baseline.points)
    of = f"the only point that {baseline.benchmark} measured" if total == 1 else ""
    of = of or f"{count} of the {total} points that {baseline.benchmark} measured"
    first = those[0].result
    return f"{of} {'has' if count == 1 else 'have'} no figure here: {text.describe(first)} ended {first.state.value}"


def _of(count: int, total: int) -> str:
    if count == total:
        return "the only point of both is" if total == 1 else f"all {total} points are"
    return f"{count} of {total} points {'is' if count == 1 else 'are'}"


def _speed(one: _Compared, ratio: Interval) -> str:
    bounded = text.bounded(ratio)
    return f"{text.describe(one.result)} has {bounded} times the speed it had"
