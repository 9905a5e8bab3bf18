# SPDX-License-Identifier: Apache-2.0
"""What the results of a benchmark say: one value, from plan, ledger and point states. Pure.

Everybody who shows a result reads this value: status, exporter, command line, report. What is scheduled does not hang
on it, but for the state of points that are derived from others or imported: those only the analysis knows.
"""

from collections.abc import Sequence

from gpubench.analysis import advice, answer, comparison, costs, goodput
from gpubench.analysis.points import environments_met, point_results
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Best, Comparison, EnvironmentFacts
from gpubench.api.goodput_result import Goodput
from gpubench.api.point_result import PointResult
from gpubench.api.price_result import PoolComparison, PriceUsed
from gpubench.api.status_sizes import BILLED_POINTS_MAX
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, trials
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.step import OPEN
from gpubench.scheduler.trials import PointStatus
from gpubench.values import FrozenModel

_ANSWER_MAX = 2048


class Analysis(FrozenModel):
    """What the results say so far; what needs all points is absent until they have ended."""

    results: tuple[PointResult, ...]  # one for each point of the plan
    environments: tuple[EnvironmentFacts, ...]
    prices: tuple[PriceUsed, ...]
    comparisons: tuple[PoolComparison, ...]
    goodput: Goodput | None = None
    comparison: Comparison | None = None
    best: Best | None = None
    answer: str | None = None

    @property
    def is_final(self) -> bool:
        """Whether every point has ended."""
        return all(result.state not in OPEN for result in self.results)


def analyze(plan: Plan, ledger: Ledger, points: Sequence[PointStatus], spec: GpuBenchmarkSpec) -> Analysis:
    """The analysis of a ledger; `points` are the states that `scheduler.step` gives for it."""
    is_small, known = len(plan.points) <= BILLED_POINTS_MAX, ledger.environment_by_key()
    statuses = trials.of_ledger(plan, ledger, points)
    baseline = spec.baseline if is_small else None
    found = point_results(plan, statuses, points, spec.goals, baseline=baseline, known=known)
    if is_small:
        found = costs.with_bills(plan, found, ledger.by_trial())
    facts = environments_met(ledger)
    found = comparison.annotated(plan, found, facts)
    analysis = Analysis(
        results=found,
        environments=facts,
        prices=costs.prices_used(plan),
        comparisons=goodput.comparisons(plan, ledger, found),
        goodput=goodput.of_study(plan, ledger),
    )
    if not analysis.is_final:
        return analysis
    advised = advice.advised(plan, ledger, found, spec.objective, spec.goals)
    messages = tuple(one.message for one in advised)
    return analysis.model_copy(
        update={
            "comparison": comparison.comparison(plan, found, facts),
            "best": advice.best(advised),
            "answer": conditions.clamped(answer.answer(found, advice=messages), _ANSWER_MAX),
        }
    )
