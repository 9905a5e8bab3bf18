# SPDX-License-Identifier: Apache-2.0
"""How far each value of a series still feels the one before it, and what that does to the error of a mean.

Times of consecutive windows are not independent: a clock or a neighbour that is slow now is slow a moment later. The
error of their mean is larger than s / sqrt(n), by 4.4 times at a lag-one correlation of 0.9. Modelled as first order,
AR(1): with the few dozen windows of a run no more can be told.
"""

import itertools
import math
from collections.abc import Sequence

#: At 1 a series has no mean to be sure of. Up to this the error of a mean is right in the median, from ten values and
#: correlations up to 0.9 on (tests/core/test_drift.py); higher, a few chance hits at 1 would make it useless.
_HIGHEST = 0.95


def lag_one(residuals: Sequence[float], *, bias: tuple[float, float], errors: float = 0) -> float:
    """Lag-one autocorrelation of residuals, in [0, 0.95], corrected for its bias in short series.

    With `errors` the estimate and so many times its standard error, sqrt((1 - rho^2) / n): where too small a
    correlation would accuse, and too large a one only keeps silent.

    The sample's is too small by about (a + b rho) / n: (1, 4) where a mean was taken out, (2, 4) where a straight line
    was (F. H. C. Marriott and J. A. Pope, "Bias in the estimation of autocorrelations", and M. G. Kendall, "Note on
    bias in the estimation of autocorrelation", both Biometrika 41, 1954). A negative one is taken as 0, which errs on
    the side of doubt.
    """
    squares = math.fsum(residual**2 for residual in residuals)
    if squares == 0:
        return 0.0
    products = math.fsum(one * next_one for one, next_one in itertools.pairwise(residuals))
    count, (constant, factor) = len(residuals), bias
    rho = (products / squares + constant / count) / max(1 - factor / count, 0.2)
    rho += errors * math.sqrt(max(1 - rho**2, 0.0) / count)
    return min(max(rho, 0.0), _HIGHEST)


def error_of_mean(values: Sequence[float], *, errors: float = 0) -> float:
    """Standard error of the mean of at least two values of an AR(1) series; `errors` as for `lag_one`.

    Var(mean) = sigma^2 f / n with f = 1 + 2 sum_k (1 - k/n) rho^k, and the sample variance underestimates sigma^2 by
    (n - f) / (n - 1) (G. V. Bayley and J. M. Hammersley, "The 'effective' number of independent observations in an
    autocorrelated time series", Suppl. J. R. Stat. Soc. 8, 1946).
    """
    count, mean = len(values), math.fsum(values) / len(values)
    residuals = [value - mean for value in values]
    rho = lag_one(residuals, bias=(1, 4), errors=errors)
    # The sum of the series in closed form.
    inflation = (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**count) / (count * (1 - rho) ** 2)
    variance = math.fsum(residual**2 for residual in residuals) / (count - inflation)
    return math.sqrt(variance * inflation / count)
