# SPDX-License-Identifier: Apache-2.0
"""Which figure of a point's repeats is to be known precisely, how precisely it is known, and why the repeats ended."""

from collections.abc import Sequence

from gpubench.api.point_result import Stopping
from gpubench.plan.plan import Plan
from gpubench.records import Result
from gpubench.scheduler.retries import Standing, TrialStanding
from gpubench.stats import stopping, throughput, training, wanted


def figures(plan: Plan, results: Sequence[Result]) -> tuple[float, ...]:
    """What is to be known precisely: seconds of the timed region where every repeat has them, else throughput."""
    seconds = [
        value
        for result in results
        if result.training is not None
        and (value := training.timed_seconds(result.training, plan.timed_region)) is not None
    ]
    if results and len(seconds) == len(results):
        return tuple(seconds)
    return tuple(throughput.samples_per_second(result, plan.timed_region) for result in results)


def half_width(plan: Plan, trials: Sequence[TrialStanding]) -> float | None:
    """Half the interval by which repeats of a point are ended, over its mean; None where it has none."""
    asked = wanted.of_plan(plan)
    results = [trial.result for trial in trials if trial.result is not None]
    if asked is None or not results:
        return None
    found = stopping.interval(figures(plan, results), asked)
    if found.low is None or found.high is None:
        return None
    return (found.high - found.low) / 2 / abs(found.mean)


def how(plan: Plan, trials: Sequence[TrialStanding]) -> Stopping | None:
    """How the number of repeats of a point that has ended came about; None where a failure or a limit cut it short."""
    if any(trial.standing in (Standing.GIVEN_UP, Standing.NOT_RUN) for trial in trials):
        return None
    asked = wanted.of_plan(plan)
    if asked is None:
        return Stopping.FIXED
    if any(trial.standing is Standing.NOT_NEEDED for trial in trials):
        return Stopping.PRECISION_REACHED
    half = half_width(plan, trials)
    reached = half is not None and half <= asked.relative_half_width
    return Stopping.PRECISION_REACHED if reached else Stopping.MAXIMUM_REACHED
