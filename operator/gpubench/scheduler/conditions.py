# SPDX-License-Identifier: Apache-2.0
"""Conditions of a benchmark: their types, their reasons, and the rule for the time of a transition."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from gpubench.api import condition, sweep
from gpubench.api.point_result import PointResult
from gpubench.units import rfc3339, workers_text

if TYPE_CHECKING:
    from gpubench.plan.plan import PointKey

# Types. Finished is the one to wait for in scripts; Succeeded then says how.
FINISHED = "Finished"
SUCCEEDED = "Succeeded"
PROGRESSING = "Progressing"
SUSPENDED = "Suspended"
COMPARISON_PASSED = "ComparisonPassed"  # of a finished benchmark with spec.compareTo; its reason is the verdict
GANG_PENDING = "GangPending"  # a gang has no nodes, no pods or no image, and the message says what the cluster said
BUDGET_EXHAUSTED = "BudgetExhausted"  # as a type: trials are left that do not fit into limits.budget; and why it ended

NODE_LEAVING = "NodeLeaving"  # the end of a node is announced, and a gang that runs there goes on
WRITES_REFUSED = (
    "WritesRefused"  # the API server, or a webhook, does not take an object of the benchmark again and again
)
ADMITTED = "Admitted"  # of Jobs in a queue: whether Kueue lets them run, and what it says where not

# Reasons.
RUNNING = "Running"
ALL_POINTS_ENDED = "AllPointsEnded"
POINTS_FAILED = "PointsFailed"
NOTHING_MEASURED = "NothingMeasured"
NOT_SUSPENDED = "NotSuspended"
ALL_GANGS_PLACED = "AllGangsPlaced"
NO_GANG = "NoGang"
NODES_STAY = "NodesStay"
BASELINE_ABSENT = "BaselineAbsent"
WITHIN_BUDGET = "WithinBudget"
WRITES_TAKEN = "WritesTaken"

_MESSAGE_MAX = 1024
_CUT = "…"


def as_conditions(
    wanted: Mapping[str, tuple[bool | None, str, str]],
    *,
    before: Sequence[condition.Condition],
    generation: int | None,
    now: float,
) -> tuple[condition.Condition, ...]:
    """By type: whether it holds (None where nobody can tell), reason and message.

    Its transition time is that of `before` unless its status is another one now.
    """
    known, found = {one.type: one for one in before}, []
    for type_, (is_so, reason, message) in wanted.items():
        status: Literal["True", "False", "Unknown"] = "Unknown" if is_so is None else "True" if is_so else "False"
        previous = known.get(type_)
        moment = previous.last_transition_time if previous is not None and previous.status == status else rfc3339(now)
        found.append(
            condition.Condition(
                type=type_,
                status=status,
                reason=reason,
                message=clamped(message, _MESSAGE_MAX),
                last_transition_time=moment,
                observed_generation=generation,
            )
        )
    return tuple(found)


def holds(conditions: Sequence[condition.Condition], type_: str) -> bool:
    return any(other.type == type_ and other.status == "True" for other in conditions)


def clamped(text: str, limit: int) -> str:
    """A text cut, visibly, to so many bytes: the schema bounds its characters, and the store the status' bytes."""
    stored = text.encode(errors="replace")
    return text if len(stored) <= limit else stored[: limit - len(_CUT.encode())].decode(errors="ignore") + _CUT


def point_text(point: "PointKey | PointResult") -> str:
    variant = point.variant.name if isinstance(point.variant, sweep.Variant) else point.variant
    rest = f", {variant}" if variant else ""
    workers = workers_text(point.workers)
    where = f"{point.pool}, node {point.node}" if point.node else point.pool
    return f"{point.workload} on {where}, {workers}, global batch {point.global_batch}, {point.precision}{rest}"
