# SPDX-License-Identifier: Apache-2.0
"""How often something happens, from how often it was seen in how long: a Poisson count with its exact interval.

F. Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28, 1936, pp. 437-442: the ends are quantiles of
chi-square with 2 k and 2 k + 2 degrees of freedom, here by the incomplete gamma function. Exact means that it holds the
truth at least as often as it says; it is conservative for small counts. Where nothing was seen it begins at 0 and has
an upper end all the same, which says how little was looked at.

Must not happen: a rate where nobody has looked; an interval that pretends events to be independent of each other
without saying so. A provider that takes many nodes back at once makes them dependent, and the interval too narrow.
"""

from scipy import special

from gpubench.stats.intervals import CONFIDENCE, Interval


def of_count(count: int, *, exposure: float, confidence: float = CONFIDENCE) -> Interval | None:
    """Events per unit of exposure, with the interval; None where there was no exposure."""
    if count < 0 or exposure <= 0:
        return None
    tail = (1 - confidence) / 2
    low = float(special.gammaincinv(count, tail)) if count else 0.0
    high = float(special.gammaincinv(count + 1, 1 - tail))
    return Interval(mean=count / exposure, low=low / exposure, high=high / exposure)
