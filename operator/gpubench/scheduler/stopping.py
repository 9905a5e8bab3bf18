# SPDX-License-Identifier: Apache-2.0
"""When the repeats of a point are enough: `measure.repeats` as a `stats.stopping_rule`, and what it is applied to.

Where repeats are added as needed, every interval is corrected for the repeats in between. Printed intervals are 95 %
whatever the rule's confidence: simulated with normally distributed runs, at rules of 50 % to 99.9 %, 3 to 5 first runs
and 6 to 20 at most, they hold the truth in 94.8 % of benchmarks in the worst case (a test does it).
"""

from collections.abc import Sequence
from dataclasses import replace

from gpubench.api.measuring import Repeats
from gpubench.plan.plan import Plan, Strict, stopping_rule_of
from gpubench.records import Result
from gpubench.stats import gang, intervals, stopping_rule


def confidence(repeats: Repeats | None) -> float:
    """At which intervals over such repeats are computed, so that they hold the truth in 95 % of benchmarks."""
    return intervals.CONFIDENCE if (strict := Strict.of(repeats)) is None else strict.intervals


def of_plan(plan: Plan) -> stopping_rule.StoppingRule | None:
    """The rule of a plan, as strict as it was when it was planned."""
    rule = stopping_rule_of(plan.repeats)
    return rule if rule is None or plan.strict is None else replace(rule, strict=plan.strict.rule)


def confidence_of_plan(plan: Plan) -> float:
    """At which intervals over the plan's repeats are computed, as when it was planned."""
    return confidence(plan.repeats) if plan.strict is None else plan.strict.intervals


def values(plan: Plan, results: Sequence[Result]) -> tuple[float, ...]:
    """What is to be known precisely: seconds of the timed region where every repeat has them, else throughput."""
    seconds = [
        value
        for result in results
        if result.training is not None and (value := gang.timed_seconds(result.training, plan.timed_region)) is not None
    ]
    if results and len(seconds) == len(results):
        return tuple(seconds)
    return tuple(gang.samples_per_second(result, plan.timed_region) for result in results)


def half_width(plan: Plan, results: Sequence[Result]) -> float | None:
    """Half the interval by which repeats of a point are ended, over its mean; None where it has none."""
    if (rule := of_plan(plan)) is None or not results:
        return None
    found = stopping_rule.interval(values(plan, results), rule)
    return None if found.low is None or found.high is None else (found.high - found.low) / 2 / abs(found.mean)
