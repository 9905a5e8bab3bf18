# SPDX-License-Identifier: Apache-2.0
"""How sure an interval is whose runs were ended by `stopping.another`, and how strict the rule must be for that.

    python tests/support/sequential.py

prints the table of `gpubench.stats.stopping_rule`. Runs are normal with deviation sigma around the mean, and the rule
stops at the first number of runs n (at least `first`, at most `last`) whose half-width h_n = t_{n-1} s_n / sqrt(n) is
at most d. The s_n are functions of Helmert's contrasts, the mean is independent of all of them: given the n at which it
stopped, the interval holds the truth with probability 2 Phi(t_{n-1} s_n / sigma) - 1, and only that is averaged over
simulated paths of s_n. What is left free is sigma / d; the worst of a fine grid is what is printed and held against
the nominal confidence.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

SEED = 20_261_121
PATHS = 40_000
LAST_MAX = 60
#: Around where it is worst: with less spread the rule nearly always stops at once, with more it has learnt the spread.
SPREADS = tuple(float(spread) for spread in np.geomspace(0.1, 3.0, 24))


def deviations(*, last: int, paths: int = PATHS) -> NDArray[np.float64]:
    """[path, n - 2]: the sample standard deviation of the first n runs, n = 2 ... last, of runs with deviation 1."""
    contrasts = np.random.default_rng(SEED).standard_normal((paths, last - 1))
    return np.asarray(np.sqrt(np.cumsum(contrasts**2, axis=1) / np.arange(1, last)), np.float64)


def coverage(spread: float, *, first: int, last: int, confidence: float, of: NDArray[np.float64]) -> float:
    """How often the interval holds the truth where the deviation of runs is `spread` half-widths."""
    counts = np.arange(first, last + 1)
    t = special.stdtrit(counts - 1, (1 + confidence) / 2)
    found = of[:, first - 2 : last - 1]
    stops = t * found * spread / np.sqrt(counts) <= 1
    stops[:, -1] = True
    at = stops.argmax(axis=1)
    return float(np.mean(2 * special.ndtr(t[at] * found[np.arange(len(found)), at]) - 1))


def worst(*, first: int, last: int, confidence: float, of: NDArray[np.float64]) -> float:
    """Over every spread of the runs."""
    return min(coverage(spread, first=first, last=last, confidence=confidence, of=of) for spread in SPREADS)


def strictness(*, first: int, nominal: float, of: NDArray[np.float64]) -> float:
    """What the nominal probability of a miss must be multiplied by, so that the worst coverage is the nominal one."""

    def excess(factor: float) -> float:
        return worst(first=first, last=LAST_MAX, confidence=1 - (1 - nominal) * factor, of=of) - nominal

    return float(optimize.brentq(excess, 0.1, 1.0, xtol=1e-3))


def main() -> None:
    of = deviations(last=LAST_MAX)
    for nominal in (0.8, 0.9, 0.95, 0.99, 0.999):
        row = {first: strictness(first=first, nominal=nominal, of=of) for first in (3, 4, 5, 6, 8, 10)}
        # One hundredth is more than the error of the simulation.
        shown = ", ".join(f"{first}: {math.floor(100 * factor - 0.5) / 100:.2f}" for first, factor in row.items())
        print(f"    {nominal}: {{{shown}}},", flush=True)


if __name__ == "__main__":
    main()
