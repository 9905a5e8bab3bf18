# SPDX-License-Identifier: Apache-2.0
"""Which values of a series stand out, by the modified z-score, and the series with those drawn in.

B. Iglewicz and D. C. Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): 0.6745 (x - median) / MAD, where MAD is
the median of the absolute deviations from the median; beyond 3.5 a value is a possible outlier. Median and MAD do not
move when single values do. A series with an outlier drawn in is for *finding* things only: an average is made of what
was measured.
"""

import statistics
from collections.abc import Sequence

LIMIT = 3.5
_MAD_TO_DEVIATION = 1 / 0.6745
_MEAN_DEVIATION_TO_DEVIATION = 1.2533  # sqrt(pi / 2), of a normal distribution


def scores(values: Sequence[float]) -> tuple[float, ...]:
    """The modified z-score of each value; all 0 where nothing differs."""
    median, deviation = _centre(values)
    return tuple((value - median) / deviation if deviation else 0.0 for value in values)


def clipped(values: Sequence[float], limit: float = LIMIT) -> tuple[float, ...]:
    """The values, those that stand out moved to the limit."""
    median, deviation = _centre(values)
    reach = limit * deviation
    return tuple(min(max(value, median - reach), median + reach) for value in values)


def _centre(values: Sequence[float]) -> tuple[float, float]:
    """Median and robust standard deviation.

    Where more than half of the values are equal MAD is 0 and says nothing: the mean absolute deviation stands in.
    """
    median = statistics.median(values)
    deviations = [abs(value - median) for value in values]
    if mad := statistics.median(deviations):
        return median, _MAD_TO_DEVIATION * mad
    return median, _MEAN_DEVIATION_TO_DEVIATION * statistics.fmean(deviations)
