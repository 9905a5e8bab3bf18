# SPDX-License-Identifier: Apache-2.0
"""The plan of a place that cannot run all of it: further points are skipped, and what was to be derived from them."""

from collections.abc import Callable

from gpubench.plan import derived
from gpubench.plan.plan import Plan, Point


def narrowed(plan: Plan, reason: Callable[[Point], str | None]) -> Plan:
    """The plan without the trials of points for which there is a reason not to run them, in a sentence."""
    judged = tuple(
        point.model_copy(update={"skip": why}) if point.runs and (why := reason(point)) is not None else point
        for point in plan.points
    )
    points = derived.resolve(judged, {pool.name: pool.spec for pool in plan.pools})
    return plan.model_copy(
        update={"points": points, "trials": tuple(trial for trial in plan.trials if points[trial.point].runs)}
    )
