# SPDX-License-Identifier: Apache-2.0
"""What the head of a report says of a study before anything else: what it was to decide, what to take, what it cost.

The figures are those of the status; the answer below the head says how sure they are, and what else there was.
"""

from collections.abc import Iterator

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Best, GpuBenchmarkStatus
from gpubench.api.goals import Goal, Objective
from gpubench.report import bills, text
from gpubench.units import workers_text


def sentences(spec: GpuBenchmarkSpec | None, status: GpuBenchmarkStatus) -> tuple[str, ...]:
    """One sentence for each of them that there is. `spec` is None where nobody kept it."""
    return tuple(_sentences(spec, status))


def _sentences(spec: GpuBenchmarkSpec | None, status: GpuBenchmarkStatus) -> Iterator[str]:
    asked = None if spec is None else spec.objective
    goal = next((goal for goal in spec.goals if asked is not None and goal.name == asked.goal), None) if spec else None
    if spec is not None and asked is not None and goal is not None:
        yield f"Objective {goal.name}: {_objective(asked, goal, spec.currency)}."
    if status.best is not None:
        yield f"To take: {_best(status.best)}."
    elif asked is not None and status.answer is not None:
        yield "To take: no single gang; the answer says why."
    if status.spent is not None:
        yield bills.spent(status.spent)


def _objective(asked: Objective, goal: Goal, currency: str | None) -> str:
    """`the least cost of 153,600,000 samples of resnet50, within 48 hours`."""
    least = {"Cost": "the least cost", "Time": "the least time"}[asked.minimize]
    limit = f", within {asked.max_hours:g} hours" if asked.max_hours is not None else ""
    limit = f", for at most {currency} {asked.max_cost}" if asked.max_cost is not None else limit
    return f"{least} of {goal.samples:,} samples of {goal.workload}{limit}"


def _best(best: Best) -> str:
    """`2 workers at batch 64 on a100: 5.26 (5.24–5.28) hours, USD 10.53 (10.47–10.58)`, and what to know of it."""
    setting = f" at {best.setting}" if best.setting else ""
    cost = "at a price that is not known" if best.cost is None else text.money(best.cost)
    marks = [
        *(["it was not measured, but is predicted"] if best.predicted else []),
        *([f"{_others(best.tied)} may be as good"] if best.tied else []),
        *([] if best.sure else ["whether it keeps the limit is not sure"]),
    ]
    remark = f"; {', and '.join(marks)}" if marks else ""
    hours = text.bounded(best.hours)
    return f"{workers_text(best.workers)}{setting} on {best.pool}, at least {hours} hours and {cost}{remark}"


def _others(count: int) -> str:
    return "1 other" if count == 1 else f"{count} others"
