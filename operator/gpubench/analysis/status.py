# SPDX-License-Identifier: Apache-2.0
"""The status of a benchmark: what a step of the scheduler has found, and in short what the analysis says."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpubench import units, values
from gpubench.analysis import goodput, text
from gpubench.api import messages, status_sizes
from gpubench.api.benchmark_status import (
    Analysis,
    AnalysisReference,
    AttemptCounts,
    BestSummary,
    FullStatus,
    GpuBenchmarkStatus,
    PointCounts,
    PointSummary,
    TrialCounts,
)
from gpubench.api.condition import Condition
from gpubench.api.point_result import FINDINGS, OPEN, AmountInterval, Basis, Judgement, PointResult, PointState
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, drill, trials
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.scheduler.observed import Study
from gpubench.scheduler.step import Step

_NOT_DONE = OPEN | {PointState.NOT_RUN}
#: Trials that are not finished although their point has ended: the first of them end yet, the others may be run later.
_TO_COME = frozenset({trials.TrialState.RUNNING, trials.TrialState.NOT_RUN})


class Verdict(NamedTuple):
    """Whether something holds, and why; None where nobody can tell."""

    holds: bool | None
    reason: str
    message: str


class Findings(NamedTuple):
    """What a status takes from an analysis."""

    shown: GpuBenchmarkStatus  # the fields of it that are the analysis'
    verdict: Verdict  # whether the benchmark has succeeded, once it has finished

    @property
    def states(self) -> tuple[PointState, ...]:
        return tuple(one.state for one in self.shown.results)


#: Fields of a status that it has from an analysis.
_FROM_ANALYSIS = ("results", "comparison", "best", "answer", "analysis")


def findings(analysis: Analysis, *, stored: AnalysisReference | None = None) -> Findings:
    """What a status takes from an analysis; `stored` says where that is to be."""
    best = None
    if (one := analysis.best) is not None:
        same = {field: getattr(one, field) for field in ("pool", "workers", "setting", "shown")}
        best = BestSummary(hours=one.hours.mean, cost=None if one.cost is None else one.cost.mean, **same)
    shown = GpuBenchmarkStatus(
        results=tuple(_summaries(analysis.results)),
        comparison=analysis.comparison,
        best=best,
        # In one line, for `kubectl get` shows the first one only.
        answer=analysis.answer
        and conditions.clamped(analysis.answer.replace("\n", " "), status_sizes.ANSWER_SHOWN_MAX),
        analysis=stored,
    )
    return Findings(shown, _succeeded(analysis.results))


def status(
    study: Study,
    plan: Plan,
    step: Step,
    found: Findings | None,
    *,
    now: float,
    failure: str | None = None,
    failing: messages.Waits | None = None,
) -> GpuBenchmarkStatus:
    """The status of a benchmark whose plan is frozen.

    Without findings the analysis is being made: all that comes from it stays as it was, and nothing has finished.
    `failure` says why there is none, nor will be soon; `failing` which object cannot be written.
    """
    source = study.status if found is None else found.shown
    states = _states(plan, step, found, known=study.status.results)
    if found is not None:
        is_final = step.is_over and all(state not in OPEN for state in states)
    else:
        # One that has finished before, and of which nothing was recorded since, has: a restart changes nothing.
        known = study.status.analysis
        has_finished = conditions.holds(study.conditions, conditions.FINISHED)
        is_still = has_finished and known is not None and known.ledger_version == step.ledger.version
        is_final = step.is_over and (failure is not None or is_still)
    phase, finished_at = "Suspended" if study.spec.suspend else "Running", None
    if is_final:
        well = conditions.holds(study.conditions, conditions.SUCCEEDED) if found is None else found.verdict.holds
        phase = conditions.BUDGET_EXHAUSTED if step.exhausted is not None else "Succeeded" if well else "Failed"
        ends = [record.ended_at for record in step.ledger.records if record.ended_at is not None]
        finished_at = units.rfc3339(max(ends)) if ends else plan.planned_at
    return GpuBenchmarkStatus(
        phase=phase,
        observed_generation=study.generation,
        conditions=_conditions(
            study, plan, step, found, states, now=now, is_final=is_final, failure=failure, failing=failing
        ),
        points=_points(states),
        points_done=f"{_done(states)}/{len(states)}",
        trials=_trials(plan, states, step.trials),
        seed=plan.seed if plan.imported is None else None,  # nothing is run in any order
        attempts=_attempts(step.ledger),
        spent=step.spent,
        start_time=plan.planned_at,
        completion_time=finished_at,
        **{field: getattr(source, field) for field in _FROM_ANALYSIS},
    )


def full(study: Study, plan: Plan, step: Step, analysis: Analysis, *, now: float) -> FullStatus:
    return with_analysis(status(study, plan, step, findings(analysis), now=now), analysis)


def with_analysis(short: GpuBenchmarkStatus, analysis: Analysis) -> FullStatus:
    """A status with the whole analysis in place of what it has of it."""
    own = FullStatus.model_fields.keys() - Analysis.model_fields.keys()
    return FullStatus(**{field: getattr(short, field) for field in own}, **dict(analysis))


# --- from the analysis ------------------------------------------------------------------------------------------------

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


def point_keys(results: Sequence[PointResult]) -> Iterator[str]:
    differing = [field for field in _KEY_FIELDS if len({field(result) for result in results}) > 1]
    for point in results:
        parts = (point.workload, point.pool, str(point.workers), *(field(point) for field in differing))
        yield conditions.clamped("/".join(filter(None, parts)), status_sizes.POINT_KEY_MAX)


def _summaries(results: Sequence[PointResult]) -> Iterator[PointSummary]:
    for point, key in zip(results, point_keys(results), strict=True):
        lines = {line.kind: line.efficiency for line in point.scaling}
        line = lines.get("weak") or lines.get("strong")
        cost = None if point.cost is None else point.cost.per_run or point.cost.per_million_samples
        per = "a run" if point.cost is not None and point.cost.per_run else "a million"
        words = (
            text.headline(point),
            None if line is None else f"efficiency {text.percent(values.Interval(mean=line.mean))}",
            None if cost is None else f"{text.money(AmountInterval(mean=cost.mean, currency=cost.currency))} {per}",
        )
        yield PointSummary(
            key=key,
            state=point.state,
            message=point.reason,
            summary=conditions.clamped(", ".join(filter(None, words)), status_sizes.POINT_SUMMARY_MAX) or None,
            samples_per_second=None if point.throughput is None else point.throughput.mean,
            efficiency=None if line is None else line.mean,
            cost=None if cost is None else cost.mean,
            warnings=tuple(dict.fromkeys(warning.reason for warning in point.warnings))[: status_sizes.WARNINGS_MAX]
            or None,
        )


def _succeeded(results: Sequence[PointResult]) -> Verdict:
    """Whether a finished benchmark succeeded: all points are findings, one is measured."""
    states = Counter(result.state for result in results)
    # Derived points count as measured, because what they stand on was; but they were not all run here.
    bases = Counter(result.basis for result in results if result.state is PointState.MEASURED)
    kinds = {
        "derived from others, not run": bases[Basis.REPRICED] + bases[Basis.EXTRAPOLATED],
        "imported": bases[Basis.IMPORTED],
    }
    rest = [f"{n} of the measured points {'is' if n == 1 else 'are'} {how}" for how, n in kinds.items() if n]
    summary = _summed([result.state for result in results]) + (f" ({', '.join(rest)})" if rest else "")
    if not (states[PointState.MEASURED] or states[PointState.NOT_PUBLISHED]):
        unsettled = "no point settled: give measure.warmUp and duration more time, or look at the nodes"
        other = unsettled if states[PointState.UNSTABLE] else "no point could be run"
        why = next((result.reason for result in results if result.reason), other)
        return Verdict(False, conditions.NOTHING_MEASURED, f"no point was measured ({summary}): {why}")
    if any(state not in FINDINGS for state in states):
        first = next(result for result in results if result.state not in FINDINGS)
        return Verdict(
            False, conditions.POINTS_FAILED, f"points: {summary}; {conditions.point_text(first)}: {first.reason}"
        )
    return Verdict(True, conditions.ALL_POINTS_ENDED, f"points: {summary}")


# --- from the scheduler -----------------------------------------------------------------------------------------------


def _states(plan: Plan, step: Step, found: Findings | None, *, known: Sequence[PointSummary]) -> tuple[PointState, ...]:
    """Of each point; without findings those that stand for others are as the analysis of before saw them."""
    if found is not None:
        return found.states
    before = [one.state for one in known] if len(known) == len(plan.points) else [PointState.PENDING] * len(plan.points)
    runs = zip(plan.points, step.points, before, strict=True)
    return tuple(now.state if point.runs else state for point, now, state in runs)


def _conclusion(
    study: Study, states: Sequence[PointState], found: Findings | None, *, exhausted: str | None, failure: str | None
) -> Verdict:
    """Whether a finished benchmark succeeded: not while trials are left out that a higher budget would let run."""
    if exhausted is not None:
        return Verdict(False, conditions.BUDGET_EXHAUSTED, f"{exhausted} (points: {_summed(states)})")
    if found is not None:
        return found.verdict
    if failure is not None:
        return Verdict(None, *messages.ANALYSIS_FAILED.of(why=failure))
    (kept,) = (one for one in study.conditions if one.type == conditions.SUCCEEDED)
    return _as_it_was(kept)


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
    failing: messages.Waits | None,
) -> tuple[Condition, ...]:
    before = {condition.type: condition for condition in study.conditions}
    suspended = study.spec.suspend
    progress = f"{_done(states)} of {len(states)} points have ended"
    if _done(states) == len(states) and (holding := step.ledger.holding):
        progress += f"; {messages.PODS_ENDING.of(job=holding[0].job).message}"
    wanted: dict[str, Verdict] = {}
    if is_final:
        verdict = _conclusion(study, states, found, exhausted=step.exhausted, failure=failure)
        wanted[conditions.FINISHED] = verdict._replace(holds=True)
        wanted[conditions.SUCCEEDED] = verdict
        wanted[conditions.PROGRESSING] = Verdict(False, verdict.reason, progress)
    else:
        reason = messages.SUSPENDED.reason if suspended else conditions.RUNNING
        wanted[conditions.FINISHED] = Verdict(False, reason, progress)
        wanted[conditions.SUCCEEDED] = Verdict(None, reason, "the benchmark has not finished")
        wanted[conditions.PROGRESSING] = Verdict(not suspended, reason, progress)
    spent = None if step.exhausted is None else (conditions.BUDGET_EXHAUSTED, step.exhausted)
    fits = (conditions.WITHIN_BUDGET, "what is left to do fits into the budget, or there is none")
    taken = (conditions.WRITES_TAKEN, "the API server takes all writes")
    wanted |= _standing(before, conditions.BUDGET_EXHAUSTED, spent, fits)
    wanted |= _standing(before, conditions.WRITES_REFUSED, failing or step.refused, taken)
    compared = study.status.comparison if found is None else found.shown.comparison
    if is_final and compared is not None:
        is_absent = plan.baseline is not None and plan.baseline.absent is not None
        reason = conditions.BASELINE_ABSENT if is_absent else compared.verdict.value
        keeps_up = None if compared.verdict is Judgement.CANNOT_TELL else compared.verdict is Judgement.PASS
        wanted[conditions.COMPARISON_PASSED] = Verdict(keeps_up, reason, compared.sentence)
    elif not is_final:
        wanted |= _while_running(study, step, before)
    return conditions.as_conditions(wanted, before=study.conditions, generation=study.generation, now=now)


def _standing(
    before: Collection[str], type_: str, now: tuple[str, str] | None, over: tuple[str, str]
) -> dict[str, Verdict]:
    """A condition that holds now, by reason and message; that it is over, of one that held; nothing of another."""
    if now is not None:
        return {type_: Verdict(True, *now)}
    return {type_: Verdict(False, *over)} if type_ in before else {}


def _while_running(study: Study, step: Step, before: Mapping[str, Condition]) -> dict[str, Verdict]:
    suspended = messages.SUSPENDED.of() if study.spec.suspend else None
    wanted = _standing(before, conditions.SUSPENDED, suspended, (conditions.NOT_SUSPENDED, "the benchmark goes on"))
    if (admission := step.admission) is not None:
        wanted[conditions.ADMITTED] = Verdict(admission.reason == conditions.ADMITTED, *admission)
    elif conditions.ADMITTED in before:  # between two Jobs it stays as it was
        wanted[conditions.ADMITTED] = _as_it_was(before[conditions.ADMITTED])
    placed = (conditions.ALL_GANGS_PLACED, "every gang has its nodes")
    if all(record.outcome is not None for record in step.ledger.records):
        placed = (conditions.NO_GANG, "no gang is there at the moment")
    if admission is not None and admission.reason != conditions.ADMITTED:
        placed = (admission.reason, f"no gang waits for nodes: {admission.message}")
    wanted |= _standing(before, conditions.GANG_PENDING, step.pending, placed)
    stay = (conditions.NODES_STAY, "no node of a gang is about to go")
    return wanted | _standing(before, conditions.NODE_LEAVING, step.leaving, stay)


def _as_it_was(kept: Condition) -> Verdict:
    return Verdict({"True": True, "False": False}.get(kept.status), kept.reason, kept.message)


def _done(states: Sequence[PointState]) -> int:
    return sum(state not in _NOT_DONE for state in states)


def _summed(states: Sequence[PointState]) -> str:
    return ", ".join(f"{count} {state.value}" for state, count in sorted(Counter(states).items()))


def _points(each: Sequence[PointState]) -> PointCounts:
    states = Counter(each)
    named = ("measured", "unstable", "running", "failed", "skipped", "not_run")
    counts = {name: states.pop(PointState[name.upper()], 0) for name in named}
    del states[PointState.PENDING]
    return PointCounts(total=len(each), **counts, other=states.total())


def _trials(plan: Plan, points: Sequence[PointState], states: Mapping[str, trials.TrialStatus]) -> TrialCounts:
    # Trials that were never started because their point had ended are finished too: nothing more will come of them.
    left = [trial for trial in plan.trials if states[trial.id].state is not trials.TrialState.NOT_NEEDED]
    running = sum(states[trial.id].state is trials.TrialState.RUNNING for trial in left)
    finished = sum(
        states[trial.id].state in (trials.TrialState.MEASURED, trials.TrialState.GIVEN_UP)
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
