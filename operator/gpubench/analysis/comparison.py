# SPDX-License-Identifier: Apache-2.0
"""Whether a benchmark keeps up with its baseline: `spec.compareTo` at planning, `status.comparison` at the end.

The baseline's figures are frozen into the plan: one that is deleted or run again later changes nothing, and one that is
not there holds nothing up. A point passes or fails by `compare.is_as_fast`, and fails where it fails or does not fit
any more. Must not happen: a verdict across environments, or about a run that never settled.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpubench import units, values
from gpubench.analysis import pairs, text
from gpubench.api import benchmark_status, goals, status_sizes
from gpubench.api.point_result import OPEN, EnvironmentFacts, Judgement, PointResult, PointState
from gpubench.plan.plan import Baseline, BaselinePoint, Plan
from gpubench.scheduler import conditions, stopping
from gpubench.stats import compare
from gpubench.stats.intervals import Sample

_ENDED = frozenset({PointState.MEASURED, PointState.UNSTABLE})
#: Ends that are worse than the baseline's figure; of others, as of nodes that nobody had, nothing follows.
_LOST = frozenset({PointState.FAILED, PointState.OUT_OF_MEMORY, PointState.UNSUPPORTED_ACCELERATOR})
_VERDICTS = {True: Judgement.PASS, False: Judgement.FAIL, None: Judgement.CANNOT_TELL}


class Reference(values.FrozenModel):
    """The baseline as it was found."""

    side: pairs.Side
    finished: bool = True
    readable: bool = True  # by this version


class _Compared(NamedTuple):  # a point of the plan that the baseline has measured
    point: BaselinePoint
    result: PointResult
    verdict: Judgement
    ratio: values.Interval | None = None  # of speeds, this benchmark's over the baseline's; None: it has no figure here
    obstacle: str | None = None  # what allows no verdict, where not the interval alone does


def with_baseline(plan: Plan, wanted: goals.CompareTo | None, found: Reference | None) -> Plan:
    """The plan with what it is to be compared with; None: there is no such benchmark."""
    if wanted is None:
        return plan
    name, points = wanted.benchmark, () if found is None else tuple(_points(plan, found.side))
    absent = None
    if found is None:
        absent = f"there was no GpuBenchmark {name} in this namespace when the benchmark was planned"
    elif not found.readable:
        absent = f"GpuBenchmark {name} cannot be read by this version"
    elif not found.finished:
        absent = f"GpuBenchmark {name} had not finished when the benchmark was planned"
    elif not points:
        absent = f"{name} has measured no point that this benchmark has, too"
    baseline = Baseline(benchmark=name, tolerance=wanted.tolerance, absent=absent)
    if found is not None and absent is None:
        known = {"confidence": found.side.confidence, "points": points, "environments": found.side.environments}
        baseline = baseline.model_copy(update=known)
    return plan.model_copy(update={"baseline": baseline})


def annotated(
    plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> tuple[PointResult, ...]:
    """The results, each with its verdict where it has ended and the baseline has figures of it."""
    after = list(found)
    for one in () if plan.baseline is None else _compared(plan, plan.baseline, found, environments):
        if one.result.state not in OPEN:
            after[one.point.point] = one.result.model_copy(update={"comparison": one.verdict})
    return tuple(after)


def comparison(
    plan: Plan, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> benchmark_status.Comparison | None:
    """What a finished benchmark says; None where it is compared with nothing. `environments` are its own."""
    if (baseline := plan.baseline) is None:
        return None
    compared = list(_compared(plan, baseline, found, environments))
    counts = Counter(one.verdict for one in compared)
    # It fails with its first failing point, and passes when every point passes that the baseline has measured.
    verdict = Judgement.PASS if counts[Judgement.PASS] == counts.total() > 0 else Judgement.CANNOT_TELL
    verdict = Judgement.FAIL if counts[Judgement.FAIL] else verdict
    return benchmark_status.Comparison(
        baseline=baseline.benchmark,
        tolerance=baseline.tolerance,
        verdict=verdict,
        points=benchmark_status.ComparisonCounts(
            passed=counts[Judgement.PASS],
            failed=counts[Judgement.FAIL],
            cannot_tell=counts[Judgement.CANNOT_TELL],
            not_compared=len(found) - counts.total(),
        ),
        sentence=conditions.clamped(_message(baseline, compared, verdict), status_sizes.COMPARISON_MAX),
    )


def _points(plan: Plan, side: pairs.Side) -> Iterator[BaselinePoint]:
    own = pairs.of_plan("this benchmark", plan, [pairs.blank(plan, point) for point in plan.points])
    known = {pairs.identity(side, result): result for result in side.results if result.state in _ENDED}
    for index, blank in enumerate(own.results):
        result = known.get(pairs.identity(own, blank))
        quantity = pairs.quantity(result) if result is not None else None
        if result is not None and quantity is not None:
            sample = pairs.sample(result, quantity, confidence=side.confidence)
            yield BaselinePoint(
                point=index,
                quantity=quantity.value,
                repeats=sample.count,
                mean=sample.mean,
                deviation=sample.deviation,
                environment=result.environment,
                instance_type=result.instance_type,
                settled=result.state is not PointState.UNSTABLE,
            )


def _compared(
    plan: Plan, baseline: Baseline, found: Sequence[PointResult], environments: Sequence[EnvironmentFacts]
) -> Iterator[_Compared]:
    for point in baseline.points:
        result, quantity = found[point.point], compare.Quantity(point.quantity)
        if result.state not in _ENDED or pairs.quantity(result) is not quantity:
            yield _Compared(point, result, Judgement.FAIL if result.state in _LOST else Judgement.CANNOT_TELL)
            continue
        here = pairs.sample(result, quantity, confidence=stopping.confidence_of_plan(plan))
        before = Sample(count=point.repeats, mean=point.mean, deviation=point.deviation, confidence=baseline.confidence)
        ratio = compare.speed_ratio(here, before, quantity=quantity)
        obstacle = pairs.differing(point, result, baseline.environments, environments)
        if obstacle is None and not (point.settled and result.state is PointState.MEASURED):
            obstacle = "runs never settled" if point.settled else "runs of the baseline never settled"
        elif obstacle is None and (ratio.low is None or ratio.high is None):
            obstacle = compare.unbounded(here, before, name="this benchmark", other=baseline.benchmark)
        is_as_fast = compare.is_as_fast(ratio, tolerance=float(baseline.tolerance)) if obstacle is None else None
        yield _Compared(point, result, _VERDICTS[is_as_fast], ratio, obstacle)


# --- words ------------------------------------------------------------------------------------------------------------


def _message(baseline: Baseline, compared: Sequence[_Compared], verdict: Judgement) -> str:
    name, bound = baseline.benchmark, text.share(baseline.tolerance)
    if baseline.absent is not None:
        return f"nothing to compare with: {baseline.absent}"
    if not compared:
        return f"cannot tell: of the points that {name} has measured, none was measured here"
    concerned = [one for one in compared if one.verdict is verdict]
    known = [(one, one.ratio) for one in concerned if one.ratio is not None]
    points = f"{len(known)} of {units.counted(len(compared), 'point')} {'is' if len(known) == 1 else 'are'}"
    parts = []
    if verdict is Judgement.PASS:
        parts.append(f"{points} at most {bound} slower than in {name} (95 %)")
    elif verdict is Judgement.FAIL and known:
        worst = min(known, key=lambda pair: pair[1].mean)
        parts.append(f"{points} more than {bound} slower than in {name} (95 %): {_speed(*worst)}")
    elif known:
        one, ratio = known[0]
        why = f"{_speed(one, ratio)}; more repeats would make the interval narrower"
        if one.obstacle is not None:
            why = f"{text.describe(one.result)}: {one.obstacle}"
        parts.append(f"cannot tell whether {points} at most {bound} slower than in {name}: {why}")
    if without := [one for one in concerned if one.ratio is None]:
        start = "cannot tell: " if verdict is Judgement.CANNOT_TELL and not known else ""
        first, measured = without[0].result, units.counted(len(baseline.points), "point")
        has = f"{len(without)} of the {measured} that {name} measured {'has' if len(without) == 1 else 'have'}"
        parts.append(f"{start}{has} no figure here: {text.describe(first)} ended {first.state.value}")
    return "; ".join(parts)


def _speed(one: _Compared, ratio: values.Interval) -> str:
    return f"{text.describe(one.result)} has {text.bounded(ratio)} times the speed it had"
