# SPDX-License-Identifier: Apache-2.0
"""The self-check gives a verdict of the clock and one of a gang, and says no more than its figures support."""

import math
import re

import pytest

import command_line
from gpubench_jobs import self_check


def test_the_overhead_is_the_ratio_of_times_with_an_interval_over_rounds() -> None:
    # logarithms 0.00995, 0.01980, 0.02956: mean 0.019770, deviation 0.009805, t(0.975, 2) = 4.3027 -> 0.024357
    verdict = self_check.overhead_verdict([(1.01, 1.0), (1.02, 1.0), (1.03, 1.0)])
    assert verdict == "Overhead: cannot tell: measured over bare is 1.0200 (0.9954 to 1.0451), 3 rounds.\n"


@pytest.mark.parametrize(("measured", "verdict"), [(1.001, "at most 1 % more time"), (1.05, "more than 1 % more time")])
def test_a_narrow_interval_keeps_the_bar_or_breaks_it(measured: float, verdict: str) -> None:
    rounds = [(measured + scatter, 1.0) for scatter in (-0.0001, 0.0, 0.0001)]
    assert self_check.overhead_verdict(rounds).startswith(f"Overhead: {verdict}: ")


@pytest.mark.parametrize(
    ("readings", "verdict"),
    [
        ([7, 47, 47, 147], "fine enough: its smallest step is 40 ns"),
        ([0, 0, 4_000_000], "too coarse: its smallest step is 4000000 ns"),
        ([5, 5, 5], "too coarse: its smallest step is 0 ns"),
    ],
)
def test_a_clock_is_fine_enough_when_its_steps_are_small(readings: list[int], verdict: str) -> None:
    assert self_check.clock_verdict(readings) == f"Clock: {verdict}, and 1000 ns would do.\n"


@pytest.mark.usefixtures("horovod")
def test_a_real_check_gives_both_verdicts() -> None:
    code, out, err = command_line.apart("self-check", "--rounds", "1", seconds=300)
    assert code == 0, err
    clock, overhead = out.splitlines()
    assert clock.startswith("Clock: ")
    found = re.fullmatch(r"Overhead: .+: measured over bare is (\S+) \((\S+) to (\S+)\), 3 rounds\.", overhead)
    assert found, overhead
    mean, low, high = (float(one) for one in found.groups())
    assert low <= mean <= high < math.inf
