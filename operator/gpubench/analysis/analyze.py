# SPDX-License-Identifier: Apache-2.0
"""What the results of a benchmark say: one value, from plan, ledger and point states. Pure.

Everybody who shows a result reads this value: status, exporter, command line, report. What is scheduled does not depend
on it, but for the state of points that are derived from others or imported: those only the analysis knows.
"""

import hashlib
from collections.abc import Sequence

from gpubench.analysis import advice, answer, comparison, costs, goodput
from gpubench.analysis.points import environments_met, point_results
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Analysis, AnalysisReference
from gpubench.api.point_result import OPEN
from gpubench.plan.plan import Plan
from gpubench.scheduler import trials
from gpubench.scheduler.ledger import Ledger

_PART_BYTES_MAX = 768 * 1024  # a ConfigMap holds 1 MiB


def cut(text: str) -> tuple[str, ...]:
    """A stored analysis in parts, each of which fits into a ConfigMap."""
    left, parts = text.encode(), []
    while left:
        part = left[:_PART_BYTES_MAX].decode(errors="ignore")  # the rest of a character goes into the next part
        parts.append(part)
        left = left[len(part.encode()) :]
    return tuple(parts)


def read(parts: Sequence[str], reference: AnalysisReference) -> Analysis | None:
    """The analysis that a status refers to; None where these are not its parts."""
    text = "".join(parts)
    if hashlib.sha256(text.encode()).hexdigest() != reference.sha256:
        return None
    return Analysis.model_validate_json(text)


def analyze(plan: Plan, ledger: Ledger, points: Sequence[trials.PointStatus], spec: GpuBenchmarkSpec) -> Analysis:
    """The analysis of a ledger; `points` are the states that `scheduler.step` gives for it."""
    known, statuses = ledger.environment_by_key, trials.of_ledger(plan, ledger, points)
    found = point_results(plan, statuses, points, spec.goals, baseline=spec.baseline, known=known)
    facts = environments_met(ledger)
    found = comparison.annotated(plan, costs.with_bills(plan, found, ledger.by_trial), facts)
    analysis = Analysis(
        results=found,
        environments=facts,
        prices=costs.prices_used(plan),
        comparisons=goodput.comparisons(plan, ledger, found),
        goodput=goodput.of_study(plan, ledger),
    )
    if any(result.state in OPEN for result in found):
        return analysis
    advised = advice.advised(plan, ledger, found, spec.objective, spec.goals)
    return analysis.model_copy(
        update={
            "comparison": comparison.comparison(plan, found, facts),
            "best": advice.best(advised),
            "answer": answer.answer(found, advice=[one.message for one in advised]),
        }
    )
