# SPDX-License-Identifier: Apache-2.0
"""The status of a benchmark: what a step of the scheduler has found, and the analysis of the results."""

from collections import Counter
from collections.abc import Mapping, Sequence

from gpubench.analysis import goodput
from gpubench.analysis.analyze import Analysis
from gpubench.api.benchmark_status import (
    AttemptCounts,
    Comparison,
    Condition,
    GpuBenchmarkStatus,
    PointCounts,
    TrialCounts,
)
from gpubench.api.point_result import FINDINGS, Basis, Judgement, PointResult, PointState
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, drill, trials
from gpubench.scheduler.conditions import point_text
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.scheduler.observed import Study
from gpubench.scheduler.step import OPEN, Step
from gpubench.scheduler.trials import TrialState, TrialStatus
from gpubench.units import rfc3339

_NOT_DONE = OPEN | {PointState.NOT_RUN}
#: Trials that are not finished although their point has ended: the first of them end yet, the others may be run later.
_TO_COME = frozenset({TrialState.RUNNING, TrialState.NOT_RUN})


def status(study: Study, plan: Plan, step: Step, analysis: Analysis, *, now: float) -> GpuBenchmarkStatus:
    """The whole status of a study whose plan is frozen."""
    results, ledger = analysis.results, step.ledger
    return GpuBenchmarkStatus(
        phase=_phase(study, analysis, exhausted=step.exhausted),
        observed_generation=study.generation,
        conditions=_conditions(study, plan, step, analysis, now=now),
        points=_points(results),
        points_done=f"{_done(results)}/{len(results)}",
        trials=_trials(plan, results, step.trials),
        seed=plan.seed if plan.imported is None else None,  # nothing is run in any order
        attempts=_attempts(ledger),
        spent=step.spent,
        started_at=plan.planned_at,
        finished_at=_finished_at(ledger, plan) if analysis.is_final else None,
        **dict(analysis),
    )


def succeeded(results: Sequence[PointResult], *, exhausted: str | None = None) -> tuple[bool, str, str]:
    """Whether a finished study succeeded, with reason and sentence: all points are findings, one at least measured.

    One whose budget left trials out has not: it goes on when the budget is raised.
    """
    states = Counter(result.state for result in results)
    summary = ", ".join(f"{count} {state.value}" for state, count in sorted(states.items())) + _derived(results)
    if exhausted is not None:
        return False, conditions.BUDGET_EXHAUSTED, f"{exhausted} (points: {summary})"
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


def _phase(study: Study, analysis: Analysis, *, exhausted: str | None) -> str:
    if analysis.is_final and exhausted is not None:
        return conditions.BUDGET_EXHAUSTED
    if analysis.is_final:
        return "Succeeded" if succeeded(analysis.results)[0] else "Failed"
    return "Suspended" if study.spec.suspend else "Running"


def _conditions(study: Study, plan: Plan, step: Step, analysis: Analysis, *, now: float) -> tuple[Condition, ...]:
    results, compared, exhausted = analysis.results, analysis.comparison, step.exhausted
    admission, pending = step.admission, step.pending

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
    progress = f"{_done(results)} of {len(results)} points have ended"
    if analysis.is_final:
        well, reason, sentence = succeeded(results, exhausted=exhausted)
        return (
            make(conditions.FINISHED, True, reason, sentence),
            make(conditions.SUCCEEDED, well, reason, sentence),
            make(conditions.PROGRESSING, False, reason, progress),
            *of_budget,
            *([make(conditions.COMPARISON_PASSED, *_verdict(plan, compared))] if compared is not None else []),
        )
    suspended = study.spec.suspend
    why = conditions.BY_USER if suspended else conditions.RUNNING
    found = [
        make(conditions.FINISHED, False, why, progress),
        make(conditions.SUCCEEDED, None, why, "the study has not finished"),
        make(conditions.PROGRESSING, not suspended, why, progress),
        *of_budget,
    ]
    if suspended or any(condition.type == conditions.SUSPENDED for condition in study.conditions):
        text = "set spec.suspend to false to go on" if suspended else "the study goes on"
        found.append(
            make(conditions.SUSPENDED, suspended, conditions.BY_USER if suspended else conditions.NOT_SUSPENDED, text)
        )
    if admission is not None:
        found.append(make(conditions.ADMITTED, admission.holds, admission.reason, admission.message))
    else:  # between two Jobs it stays as it was
        found += [
            condition.model_copy(update={"observed_generation": study.generation})
            for condition in study.conditions
            if condition.type == conditions.ADMITTED
        ]
    if pending is not None:
        found.append(make(conditions.GANG_PENDING, True, pending.reason, pending.message))
    elif any(condition.type == conditions.GANG_PENDING for condition in study.conditions):
        found.append(make(conditions.GANG_PENDING, False, conditions.ALL_GANGS_PLACED, "every gang has its nodes"))
    return tuple(found)


def _done(results: Sequence[PointResult]) -> int:
    """Points of which it is known what became of them."""
    return sum(result.state not in _NOT_DONE for result in results)


def _verdict(plan: Plan, compared: Comparison) -> tuple[bool | None, str, str]:
    """Whether the study keeps up with its baseline, with reason and sentence; None where nothing can be told."""
    if plan.baseline is not None and plan.baseline.absent is not None:
        return None, conditions.BASELINE_ABSENT, compared.sentence
    holds = None if compared.verdict is Judgement.CANNOT_TELL else compared.verdict is Judgement.PASS
    return holds, compared.verdict.value, compared.sentence


def _points(results: Sequence[PointResult]) -> PointCounts:
    states = Counter(result.state for result in results)
    others = (
        PointState.OUT_OF_MEMORY,
        PointState.NO_CAPACITY,
        PointState.UNSUPPORTED_ACCELERATOR,
        PointState.NOT_PUBLISHED,
    )
    return PointCounts(
        total=len(results),
        measured=states[PointState.MEASURED],
        unstable=states[PointState.UNSTABLE],
        running=states[PointState.RUNNING],
        failed=states[PointState.FAILED],
        skipped=states[PointState.SKIPPED],
        not_run=states[PointState.NOT_RUN],
        other=sum(states[state] for state in others),
    )


def _trials(plan: Plan, results: Sequence[PointResult], states: Mapping[str, TrialStatus]) -> TrialCounts:
    # Trials that were never started because their point had ended are finished too: nothing more will come of them.
    left = [trial for trial in plan.trials if states[trial.id].state is not TrialState.NOT_NEEDED]
    running = sum(states[trial.id].state is TrialState.RUNNING for trial in left)
    finished = sum(
        states[trial.id].state in (TrialState.MEASURED, TrialState.GIVEN_UP)
        or (results[trial.point].state not in OPEN and states[trial.id].state not in _TO_COME)
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
