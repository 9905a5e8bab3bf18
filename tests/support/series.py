# SPDX-License-Identifier: Apache-2.0
"""Invented times of windows around 1, for tests of the statistics. Each kind of trouble is one function."""

import math

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.float64]


def correlated(random: np.random.Generator, *, windows: int, rho: float, deviation: float = 0.01) -> Times:
    """A stationary AR(1) series around 1: nothing to find."""
    shocks = random.standard_normal(windows) * deviation
    found = np.empty(windows)
    found[0] = shocks[0]  # from the stationary distribution, so that there is no warm-up in it
    for at in range(1, windows):
        found[at] = rho * found[at - 1] + math.sqrt(1 - rho**2) * shocks[at]
    return 1 + found


def with_slow_steps(
    random: np.random.Generator, *, windows: int, steps: int, share: float = 0.01, longer: float = 2.0, rho: float = 0.0
) -> Times:
    """Windows of so many steps, of which some, at random, take longer by an exponentially distributed time.

    On the mean `longer` times as long as the others. Nothing to find either.
    """
    slow = random.binomial(steps, share, windows)
    excess = random.standard_gamma(np.maximum(slow, 1)) * (slow > 0)  # a sum of so many exponential times
    return correlated(random, windows=windows, rho=rho, deviation=0.005) + (longer - 1) * excess / steps


def drifting(times: Times, change: float) -> Times:
    """The same, longer by `change` at the end than at the beginning, along a line."""
    return np.asarray(times * (1 + change * np.linspace(0, 1, len(times))), np.float64)


def throttled(times: Times, *, at: int, change: float) -> Times:
    """The same, longer by `change` from one window on."""
    return np.asarray(times * np.where(np.arange(len(times)) < at, 1.0, 1 + change), np.float64)


def warming_up(times: Times, *, excess: float, windows: float) -> Times:
    """The same with an exponential transient: the first window longer by `excess`, time constant so many windows."""
    return np.asarray(times * (1 + excess * np.exp(-np.arange(len(times)) / windows)), np.float64)


def alternating(times: Times, *, ratio: float, every: int, of: int = 2) -> Times:
    """The same, of each `every` windows x `of` the last `every` longer by a ratio."""
    slow = (np.arange(len(times)) // every) % of == of - 1
    return np.asarray(times * np.where(slow, ratio, 1.0), np.float64)


def paused(times: Times, *, at: int, ratio: float) -> Times:
    """The same with one window longer by a ratio."""
    found = times.copy()
    found[at] *= ratio
    return found
