# SPDX-License-Identifier: Apache-2.0
"""The status of a benchmark: what a step of the scheduler has found, and in short what the analysis says."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from gpubench.analysis import goodput, text
from gpubench.api.benchmark_status import (
    Analysis,
    AnalysisReference,
    AttemptCounts,
    Best,
    BestSummary,
    Comparison,
    FullStatus,
    GpuBenchmarkStatus,
    PointCounts,
    PointSummary,
    TrialCounts,
)
from gpubench.api.condition import Condition
from gpubench.api.point_result import FINDINGS, AmountInterval, Basis, Judgement, PointResult, PointState
from gpubench.api.status_sizes import ANSWER_SHOWN_MAX, POINT_KEY_MAX, POINT_SUMMARY_MAX
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, drill, trials
from gpubench.scheduler.conditions import point_text
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.scheduler.observed import Study
from gpubench.scheduler.step import OPEN, Step
from gpubench.scheduler.trials import TrialState, TrialStatus
from gpubench.units import rfc3339
from gpubench.values import FrozenModel, Interval

_NOT_DONE = OPEN | {PointState.NOT_RUN}
#: Trials that are not finished although their point has ended: the first of them end yet, the others may be run later.
_TO_COME = frozenset({TrialState.RUNNING, TrialState.NOT_RUN})


class Findings(FrozenModel):
    """What a status takes from an analysis."""

    results: tuple[PointSummary, ...]
    succeeded: bool
    reason: str
    message: str
    comparison: Comparison | None = None
    best: BestSummary | None = None
    answer: str | None = None
    analysis: AnalysisReference | None = None

    @property
    def states(self) -> tuple[PointState, ...]:
        """Of each point."""
        return tuple(one.state for one in self.results)


def findings(analysis: Analysis, *, stored: AnalysisReference | None = None) -> Findings:
    """What a status takes from an analysis; `stored` says where that is to be."""
    well, reason, message = succeeded(analysis.results)
    return Findings(
        results=summaries(analysis.results),
        succeeded=well,
        reason=reason,
        message=message,
        comparison=analysis.comparison,
        best=None if analysis.best is None else _best(analysis.best),
        answer=analysis.answer and conditions.clamped(analysis.answer, ANSWER_SHOWN_MAX),
        analysis=stored,
    )


def status(
    study: Study, plan: Plan, step: Step, found: Findings | None, *, now: float, failure: str | None = None
) -> GpuBenchmarkStatus:
    """The status of a study whose plan is frozen.

    Without findings the analysis is being made: all that comes from it stays as it was, and nothing has finished.
    `failure` says why there is none, nor will be soon.
    """
    source = study.status if found is None else found
    known = {field: getattr(source, field) for field in ("results", "comparison", "best", "answer", "analysis")}
    states = _states(plan, step, found, known=study.status.results)
    is_final = _is_final(study, step, states, found, failure=failure)
    return GpuBenchmarkStatus(
        phase=_phase(study, found, is_final=is_final, exhausted=step.exhausted),
        observed_generation=study.generation,
        conditions=_conditions(study, plan, step, found, states, now=now, is_final=is_final, failure=failure),
        points=_points(states),
        points_done=f"{_done(states)}/{len(states)}",
        trials=_trials(plan, states, step.trials),
        seed=plan.seed if plan.imported is None else None,  # nothing is run in any order
        attempts=_attempts(step.ledger),
        spent=step.spent,
        start_time=plan.planned_at,
        completion_time=_finished_at(step.ledger, plan) if is_final else None,
        **known,
    )


def full(study: Study, plan: Plan, step: Step, analysis: Analysis, *, now: float) -> FullStatus:
    """The status with the whole analysis in it."""
    return with_analysis(status(study, plan, step, findings(analysis), now=now), analysis)


def with_analysis(short: GpuBenchmarkStatus, analysis: Analysis) -> FullStatus:
    """A status with the whole analysis in place of what it has of it."""
    own = FullStatus.model_fields.keys() - Analysis.model_fields.keys()
    return FullStatus(**{field: getattr(short, field) for field in own}, **dict(analysis))


def summaries(results: Sequence[PointResult]) -> tuple[PointSummary, ...]:
    """Each point in short."""
    telling = [fields for fields in _KEY_FIELDS if len({fields(result) for result in results}) > 1]
    return tuple(_summary(result, telling) for result in results)


#: What tells points of one benchmark apart beside workload, pool and workers; only what differs is in their keys.
_KEY_FIELDS = (
    lambda point: point.node,
    lambda point: f"{point.workers_per_node}-per-node",
    lambda point: f"batch-{point.batch_per_worker}" if point.batch_per_worker else f"global-batch-{point.global_batch}",
    lambda point: point.precision,
    text.data,
    lambda point: f"{point.epochs}-epochs",
    lambda point: point.variant,
)


def _summary(point: PointResult, telling: Sequence[Callable[[PointResult], str | None]]) -> PointSummary:
    parts = (point.workload, point.pool, str(point.workers), *(field(point) for field in telling))
    lines = {line.kind: line.efficiency for line in point.scaling}
    line = lines.get("weak") or lines.get("strong")
    cost = None if point.cost is None else point.cost.per_run or point.cost.per_million_samples
    per = "a run" if point.cost is not None and point.cost.per_run else "a million"
    words = (
        text.headline(point),
        None if line is None else f"efficiency {text.percent(Interval(mean=line.mean))}",
        None if cost is None else f"{text.money(AmountInterval(mean=cost.mean, currency=cost.currency))} {per}",
    )
    return PointSummary(
        key=conditions.clamped("/".join(filter(None, parts)), POINT_KEY_MAX),
        state=point.state,
        message=point.reason,
        summary=conditions.clamped(", ".join(filter(None, words)), POINT_SUMMARY_MAX) or None,
        samples_per_second=None if point.throughput is None else point.throughput.mean,
        efficiency=None if line is None else line.mean,
        cost=None if cost is None else cost.mean,
        warnings=tuple(dict.fromkeys(warning.reason for warning in point.warnings)) or None,
    )


def _best(found: Best) -> BestSummary:
    cost = None if found.cost is None else found.cost.mean
    return BestSummary(
        pool=found.pool,
        workers=found.workers,
        setting=found.setting,
        hours=found.hours.mean,
        cost=cost,
        shown=found.shown,
    )


def succeeded(results: Sequence[PointResult]) -> tuple[bool, str, str]:
    """Whether a finished study succeeded, with reason and sentence: all points are findings, one at least measured."""
    states = Counter(result.state for result in results)
    summary = _summed([result.state for result in results]) + _derived(results)
    if not (states[PointState.MEASURED] or states[PointState.NOT_PUBLISHED]):
        unsettled = "no point settled: give measure.warmUp and duration more time, or look at the nodes"
        other = unsettled if states[PointState.UNSTABLE] else "no point could be run"
        why = next((result.reason for result in results if result.reason), other)
        return False, conditions.NOTHING_MEASURED, f"no point was measured ({summary}): {why}"
    if any(state not in FINDINGS for state in states):
        first = next(result for result in results if result.state not in FINDINGS)
        return False, conditions.POINTS_FAILED, f"points: {summary}; {point_text(first)}: {first.reason}"
    return True, conditions.ALL_POINTS_ENDED, f"points: {summary}"


def _derived(results: Sequence[PointResult]) -> str:
    """That measured points were not all run here; they count as measured, because what they stand on was."""
    bases = Counter(result.basis for result in results if result.state is PointState.MEASURED)
    derived = bases[Basis.REPRICED] + bases[Basis.EXTRAPOLATED]
    parts = [
        f"{count} of the measured points {'is' if count == 1 else 'are'} {how}"
        for count, how in ((derived, "derived from others, not run"), (bases[Basis.IMPORTED], "imported"))
        if count
    ]
    return f" ({', '.join(parts)})" if parts else ""


def _states(plan: Plan, step: Step, found: Findings | None, *, known: Sequence[PointSummary]) -> tuple[PointState, ...]:
    """Of each point; without findings those that stand for others are as the analysis of before saw them."""
    if found is not None:
        return found.states
    before = [one.state for one in known] if len(known) == len(plan.points) else [PointState.PENDING] * len(plan.points)
    runs = zip(plan.points, step.points, before, strict=True)
    return tuple(now.state if point.runs else state for point, now, state in runs)


def _is_final(
    study: Study, step: Step, states: Sequence[PointState], found: Findings | None, *, failure: str | None
) -> bool:
    if found is not None:
        return all(state not in OPEN for state in states)
    return step.is_over and (failure is not None or _is_still(study, step))


def _is_still(study: Study, step: Step) -> bool:
    """Whether it has finished before, and nothing was recorded since: a restart changes nothing."""
    known = study.status.analysis
    has_finished = conditions.holds(study.conditions, conditions.FINISHED)
    return has_finished and known is not None and known.ledger_version == step.ledger.version


def _phase(study: Study, found: Findings | None, *, is_final: bool, exhausted: str | None) -> str:
    if not is_final:
        return "Suspended" if study.spec.suspend else "Running"
    if exhausted is not None:
        return conditions.BUDGET_EXHAUSTED
    well = conditions.holds(study.conditions, conditions.SUCCEEDED) if found is None else found.succeeded
    return "Succeeded" if well else "Failed"


def _conclusion(
    study: Study, states: Sequence[PointState], found: Findings | None, *, exhausted: str | None, failure: str | None
) -> tuple[bool | None, str, str]:
    """Whether a finished study succeeded, with reason and message; None where nobody could tell.

    One whose budget left trials out has not: it goes on when the budget is raised.
    """
    if exhausted is not None:
        return False, conditions.BUDGET_EXHAUSTED, f"{exhausted} (points: {_summed(states)})"
    if found is not None:
        return found.succeeded, found.reason, found.message
    if failure is not None:
        message = (
            f"all attempts are recorded, but the analysis failed ({failure}): it is tried again; `gpubench export` "
            "makes one from the same records"
        )
        return None, conditions.ANALYSIS_FAILED, conditions.clamped(message, 1024)
    (kept,) = (one for one in study.conditions if one.type == conditions.SUCCEEDED)
    return kept.status == "True", kept.reason, kept.message


def _conditions(
    study: Study,
    plan: Plan,
    step: Step,
    found: Findings | None,
    states: Sequence[PointState],
    *,
    now: float,
    is_final: bool,
    failure: str | None,
) -> tuple[Condition, ...]:
    exhausted, admission, pending = step.exhausted, step.admission, step.pending

    def make(type_: str, holds: bool | None, reason: str, message: str) -> Condition:
        return conditions.condition(
            type_,
            holds=holds,
            reason=reason,
            message=message,
            before=study.conditions,
            generation=study.generation,
            now=now,
        )

    was_exhausted = any(condition.type == conditions.BUDGET_EXHAUSTED for condition in study.conditions)
    of_budget = []
    if exhausted is not None:
        of_budget = [make(conditions.BUDGET_EXHAUSTED, True, conditions.BUDGET_EXHAUSTED, exhausted)]
    elif was_exhausted:
        text = "what is left to do fits into the budget, or there is none"
        of_budget = [make(conditions.BUDGET_EXHAUSTED, False, conditions.WITHIN_BUDGET, text)]
    progress = f"{_done(states)} of {len(states)} points have ended"
    if is_final:
        compared = study.status.comparison if found is None else found.comparison
        well, reason, sentence = _conclusion(study, states, found, exhausted=exhausted, failure=failure)
        return (
            make(conditions.FINISHED, True, reason, sentence),
            make(conditions.SUCCEEDED, well, reason, sentence),
            make(conditions.PROGRESSING, False, reason, progress),
            *of_budget,
            *([make(conditions.COMPARISON_PASSED, *_verdict(plan, compared))] if compared is not None else []),
        )
    suspended = study.spec.suspend
    why = conditions.BY_USER if suspended else conditions.RUNNING
    made = [
        make(conditions.FINISHED, False, why, progress),
        make(conditions.SUCCEEDED, None, why, "the study has not finished"),
        make(conditions.PROGRESSING, not suspended, why, progress),
        *of_budget,
    ]
    if suspended or any(condition.type == conditions.SUSPENDED for condition in study.conditions):
        text = "set spec.suspend to false to go on" if suspended else "the study goes on"
        made.append(
            make(conditions.SUSPENDED, suspended, conditions.BY_USER if suspended else conditions.NOT_SUSPENDED, text)
        )
    if admission is not None:
        made.append(make(conditions.ADMITTED, admission.holds, admission.reason, admission.message))
    else:  # between two Jobs it stays as it was
        made += [
            condition.model_copy(update={"observed_generation": study.generation})
            for condition in study.conditions
            if condition.type == conditions.ADMITTED
        ]
    if pending is not None:
        made.append(make(conditions.GANG_PENDING, True, pending.reason, pending.message))
    elif any(condition.type == conditions.GANG_PENDING for condition in study.conditions):
        made.append(make(conditions.GANG_PENDING, False, conditions.ALL_GANGS_PLACED, "every gang has its nodes"))
    return tuple(made)


def _done(states: Sequence[PointState]) -> int:
    """Points of which it is known what became of them."""
    return sum(state not in _NOT_DONE for state in states)


def _summed(states: Sequence[PointState]) -> str:
    return ", ".join(f"{count} {state.value}" for state, count in sorted(Counter(states).items()))


def _verdict(plan: Plan, compared: Comparison) -> tuple[bool | None, str, str]:
    """Whether the study keeps up with its baseline, with reason and sentence; None where nothing can be told."""
    if plan.baseline is not None and plan.baseline.absent is not None:
        return None, conditions.BASELINE_ABSENT, compared.sentence
    holds = None if compared.verdict is Judgement.CANNOT_TELL else compared.verdict is Judgement.PASS
    return holds, compared.verdict.value, compared.sentence


def _points(each: Sequence[PointState]) -> PointCounts:
    states = Counter(each)
    others = (
        PointState.OUT_OF_MEMORY,
        PointState.NO_CAPACITY,
        PointState.UNSUPPORTED_ACCELERATOR,
        PointState.NOT_PUBLISHED,
    )
    return PointCounts(
        total=len(each),
        measured=states[PointState.MEASURED],
        unstable=states[PointState.UNSTABLE],
        running=states[PointState.RUNNING],
        failed=states[PointState.FAILED],
        skipped=states[PointState.SKIPPED],
        not_run=states[PointState.NOT_RUN],
        other=sum(states[state] for state in others),
    )


def _trials(plan: Plan, points: Sequence[PointState], states: Mapping[str, TrialStatus]) -> TrialCounts:
    # Trials that were never started because their point had ended are finished too: nothing more will come of them.
    left = [trial for trial in plan.trials if states[trial.id].state is not TrialState.NOT_NEEDED]
    running = sum(states[trial.id].state is TrialState.RUNNING for trial in left)
    finished = sum(
        states[trial.id].state in (TrialState.MEASURED, TrialState.GIVEN_UP)
        or (points[trial.point] not in OPEN and states[trial.id].state not in _TO_COME)
        for trial in left
    )
    least = trials.least(plan, states)
    return TrialCounts(total=len(left), least=least if least < len(left) else None, finished=finished, running=running)


def _attempts(ledger: Ledger) -> AttemptCounts:
    outcomes = Counter(record.outcome for record in ledger.records)
    drilled = drill.count(ledger.records)
    return AttemptCounts(
        started=len(ledger.records),
        succeeded=outcomes[Outcome.SUCCEEDED],
        failed=outcomes[Outcome.FAILED],
        preempted=outcomes[Outcome.PREEMPTED] - drilled,
        drilled=drilled,
        stopped=outcomes[Outcome.STOPPED],
        interruptions=goodput.interruption_counts(ledger.records) if outcomes[Outcome.PREEMPTED] > drilled else None,
    )


def _finished_at(ledger: Ledger, plan: Plan) -> str:
    ends = [record.ended_at for record in ledger.records if record.ended_at is not None]
    return rfc3339(max(ends)) if ends else plan.planned_at
