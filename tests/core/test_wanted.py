# SPDX-License-Identifier: Apache-2.0
"""Printed intervals are 95 % intervals however sure the rule wants to be that ends the repeats."""

import numpy as np
import pytest
from scipy import special

from gpubench.api.measuring import Repeats, Until
from gpubench.plan.plan import stopping_rule_of
from gpubench.scheduler import stopping
from gpubench.stats import stopping_rule
from gpubench.stats.stopping_rule import StoppingRule

STUDIES = 20_000
#: Half the width that is wanted over the spread of the runs: between these the rule stops neither always nor never.
WIDTHS = np.geomspace(0.1, 6, 14)


def repeats(confidence: str, *, least: int = 3, most: int = 20) -> Repeats:
    return Repeats(min=least, max=most, until=Until(relative_half_width="0.02", confidence=confidence))


@pytest.mark.parametrize("confidence", ["0.5", "0.8", "0.95", "0.99", "0.999"])
def test_printed_intervals_hold_the_truth_whatever_the_rule_wants(confidence: str) -> None:
    """20,000 studies of normal runs a width: a share of 95 % scatters by 0.15 %, of which the bound leaves three."""
    asked = repeats(confidence)
    rule = stopping_rule_of(asked)
    assert rule is not None
    counts = np.arange(1, asked.most + 1)
    runs = np.random.default_rng(7).standard_normal((STUDIES, asked.most))
    means = runs.cumsum(axis=1) / counts
    variances = (np.square(runs).cumsum(axis=1) - counts * means**2)[:, 1:] / (counts[1:] - 1)
    errors = np.sqrt(variances / counts[1:])
    means, counts = means[:, 1:], counts[1:]
    by_rule = errors * special.stdtrit(counts - 1, (1 + stopping_rule.confidence(rule)) / 2)
    printed = errors * special.stdtrit(counts - 1, (1 + stopping.confidence(asked)) / 2)
    covered = []
    for width in WIDTHS:
        may_stop = (by_rule <= width) & (counts >= asked.min)
        may_stop[:, -1] = True
        at = (np.arange(STUDIES), may_stop.argmax(axis=1))
        covered.append(np.mean(abs(means[at]) <= printed[at]))
    assert min(covered) > 0.944


def test_a_fixed_number_of_repeats_has_plain_intervals() -> None:
    assert stopping_rule_of(Repeats(min=5)) is None
    assert stopping.confidence(Repeats(min=5)) == stopping.confidence(None) == 0.95


def test_what_is_wanted_is_what_the_study_says() -> None:
    assert stopping_rule_of(repeats("0.9", least=4, most=9)) == StoppingRule(
        relative_half_width=0.02, confidence=0.9, first=4, last=9
    )
