# SPDX-License-Identifier: Apache-2.0
"""The precision that a study asks for in `measure.repeats`, as the rule of `stopping` takes it.

Where repeats are added until a figure is precise enough, every interval over them is corrected for having looked
several times: of the throughput, and of whatever else the same repeats give. The printed intervals are 95 % intervals
whatever the confidence of the rule is: simulated with normally distributed runs, at rules of 50 % to 99.9 % confidence,
3 to 5 first runs and 6 to 20 at most, they hold the truth in 94.8 % of studies in the worst case (a test does it).
"""

from dataclasses import replace

from gpubench.api.measuring import Repeats
from gpubench.plan.plan import Plan, Strict
from gpubench.stats import stopping
from gpubench.stats.intervals import CONFIDENCE
from gpubench.stats.stopping import Wanted


def of(repeats: Repeats | None) -> Wanted | None:
    """What is wanted; None where every point has a fixed number of repeats."""
    if repeats is None or repeats.until is None:
        return None
    return Wanted(
        relative_half_width=float(repeats.until.relative_half_width),
        confidence=float(repeats.until.confidence),
        first=repeats.min,
        last=repeats.most,
    )


def confidence(repeats: Repeats | None) -> float:
    """At which intervals over such repeats are computed, so that they hold the truth in 95 % of studies."""
    asked = of(repeats)
    return CONFIDENCE if asked is None else stopping.confidence(replace(asked, confidence=CONFIDENCE))


def strict(repeats: Repeats | None) -> Strict | None:
    """What a plan keeps of this version's strictness."""
    asked = of(repeats)
    return None if asked is None else Strict(rule=stopping.confidence(asked), intervals=confidence(repeats))


def of_plan(plan: Plan) -> Wanted | None:
    """What the study wanted, as strict as it was when it was planned."""
    asked = of(plan.repeats)
    return asked if asked is None or plan.strict is None else replace(asked, strict=plan.strict.rule)


def confidence_of_plan(plan: Plan) -> float:
    """At which intervals over the study's repeats are computed, as when it was planned."""
    return confidence(plan.repeats) if plan.strict is None else plan.strict.intervals
